//! Outages of a count: times at which a whole cluster is counted at or near zero because it was off or its counting
//! failed, which is not lack of demand.
//!
//! The rule, which descriptions and demand forecasts share: an outage begins where a busy sample (at least [`BUSY`] of the
//! total) is followed by one at or near zero (at most [`DOWN`]). It ends with the next sample that is not, or after
//! [`LONGEST_MS`]: whatever is off for longer is idle. Each sample is judged by those before it alone, so that a forecast may
//! use the rule. Only a whole cluster is judged, as one VC alone may well be idle.
//!
//! Complexity: O(n) for n samples.
//!
//! Worked number: hourly samples of 3, 0, 0, 4 of 10 nodes: 3 is busy and 0 follows it, so the two hours from the second
//! sample to the fourth are an outage. The mean over the other two hours is 3.5 nodes; with the zeros it would be 1.75.

use std::collections::BTreeMap;

use super::occupancy::{Steps, walk};
use crate::schema::Table as _;
use crate::time::DAY_MS;
use crate::trace::Trace;

/// Share of the nodes or GPUs up to which a cluster counts as down.
pub const DOWN: f64 = 0.02;
/// Share from which it counts as busy.
pub const BUSY: f64 = 0.2;
/// Longest time for which a cluster that falls to zero is taken to be off or miscounted, and not idle, ms: two days.
pub const LONGEST_MS: i64 = 2 * DAY_MS;

/// What was counted at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// When, ms.
    pub ts: i64,
    /// Nodes or GPUs in use.
    pub used: f64,
    /// Nodes or GPUs there were; `None` where that was not counted: the most in use so far stands for it.
    pub total: Option<f64>,
}

/// The outages of a series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages {
    /// `(from, to)`, ms, half-open, in order of time: from the first sample in the outage to the first after it.
    pub stretches: Vec<(i64, i64)>,
    /// Samples in them.
    pub samples: usize,
}

impl Outages {
    /// The outages of `counts`, which are in order of time; the last sample holds until `end`.
    pub fn of(counts: &[Count], end: i64) -> Self {
        let mut found = Self::default();
        let (mut most, mut before, mut since) = (0f64, 0f64, None);
        for (ix, count) in counts.iter().enumerate() {
            most = most.max(count.used);
            let share = count.used / count.total.filter(|total| *total > 0.0).unwrap_or(most).max(1e-9);
            if share > DOWN {
                since = None;
            } else if since.is_none() && before >= BUSY {
                since = Some(count.ts);
                found.stretches.push((count.ts, count.ts));
            }
            match (since, found.stretches.last_mut()) {
                (Some(since), Some(stretch)) if count.ts - since < LONGEST_MS => {
                    found.samples += 1;
                    let next = counts.get(ix + 1).map_or(end, |next| next.ts).max(count.ts + 1);
                    stretch.1 = next.min(since.saturating_add(LONGEST_MS));
                }
                _ => before = share,
            }
        }
        found
    }

    /// Whether a moment lies in an outage.
    pub fn contains(&self, ts: i64) -> bool {
        let after = self.stretches.partition_point(|(from, _)| *from <= ts);
        after.checked_sub(1).and_then(|at| self.stretches.get(at)).is_some_and(|(_, to)| ts < *to)
    }

    /// The outages of the GPUs in use that a trace's activity series counts.
    pub(crate) fn of_gpus(trace: &Trace) -> Self {
        let table = &trace.activity;
        Self::of_cluster(trace, |row| {
            let rest = || Some(table.gpus_total.get(row)? - table.gpus_idle.get(row)?);
            Some((table.gpus_running.get(row).or_else(rest)?, table.gpus_total.get(row)))
        })
    }

    /// The outages of the nodes in use that a trace's activity series counts.
    pub(crate) fn of_nodes(trace: &Trace) -> Self {
        let table = &trace.activity;
        Self::of_cluster(trace, |row| Some((table.nodes_active.get(row)?, table.nodes_total.get(row))))
    }

    /// Of the whole cluster, or of all its VCs together over the time in which each was counted.
    fn of_cluster(trace: &Trace, counted: impl Fn(usize) -> Option<(f64, Option<f64>)>) -> Self {
        let table = &trace.activity;
        let mut by_name: BTreeMap<(bool, &str), Vec<Count>> = BTreeMap::new();
        for row in 0..table.len() {
            let (Some(ts), Some(scope)) = (table.ts.get(row), table.scope.get(row)) else { continue };
            let Some((used, total)) = counted(row).filter(|(used, _)| *used >= 0.0) else { continue };
            let name = (scope != "cluster", table.name.get(row).unwrap_or("cluster"));
            by_name.entry(name).or_default().push(Count { ts, used, total });
        }
        for counts in by_name.values_mut() {
            // Stable: of two samples of one moment the first is kept.
            counts.sort_by_key(|count| count.ts);
            counts.dedup_by_key(|count| count.ts);
        }
        match by_name.iter().next() {
            Some(((false, _), counts)) => Self::of(counts, end(counts)),
            Some(_) if by_name.len() > 1 => {
                let parts: Vec<&[Count]> = by_name.values().map(Vec::as_slice).collect();
                let sum = together(&parts);
                Self::of(&sum, end(&sum))
            }
            // The only VC of a cluster that is not counted may well be idle.
            _ => Self::default(),
        }
    }
}

/// When the last count ceases to hold: after the median time between counts.
fn end(counts: &[Count]) -> i64 {
    let mut gaps: Vec<i64> = counts.windows(2).filter_map(|pair| Some(pair.last()?.ts - pair.first()?.ts)).collect();
    gaps.sort_unstable();
    let gap = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    counts.last().map_or(0, |last| last.ts.saturating_add(gap))
}

/// The sum of several series at each moment at which one was counted, over the time in which all were.
fn together(parts: &[&[Count]]) -> Vec<Count> {
    let from = parts.iter().filter_map(|part| part.first()).map(|count| count.ts).max().unwrap_or(0);
    let to = parts.iter().filter_map(|part| part.last()).map(|count| count.ts).min().unwrap_or(0);
    let known = parts.iter().all(|part| part.iter().any(|count| count.total.is_some()));
    let steps = |value: &dyn Fn(&Count) -> Option<f64>| -> Vec<Steps> {
        let of = |part: &&[Count]| Steps::of_samples(part.iter().filter_map(|count| Some((count.ts, value(count)?))));
        parts.iter().map(of).collect()
    };
    let all: Vec<Steps> = steps(&|count| Some(count.used)).into_iter().chain(steps(&|count| count.total)).collect();
    let mut sums = Vec::new();
    if to < from {
        return sums;
    }
    walk(&all.iter().collect::<Vec<_>>(), from, to.saturating_add(1), |ts, _, values| {
        let (used, total) = values.split_at(parts.len().min(values.len()));
        let total = known.then(|| total.iter().sum());
        sums.push(Count { ts, used: used.iter().sum(), total });
    });
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn counts(used: &[f64], total: Option<f64>) -> Vec<Count> {
        (0i64..).zip(used).map(|(hour, used)| Count { ts: hour * HOUR, used: *used, total }).collect()
    }

    #[test]
    fn the_worked_number() {
        let found = Outages::of(&counts(&[3.0, 0.0, 0.0, 4.0], Some(10.0)), 4 * HOUR);
        assert_eq!((found.stretches.as_slice(), found.samples), ([(HOUR, 3 * HOUR)].as_slice(), 2));
        assert_eq!([0, HOUR, 3 * HOUR - 1, 3 * HOUR].map(|ts| found.contains(ts)), [false, true, true, false]);
        // Without totals, the most in use so far stands for them: 3 of 3, then nothing.
        assert_eq!(Outages::of(&counts(&[3.0, 0.0, 0.0, 4.0], None), 4 * HOUR), found);
    }

    #[test]
    fn a_cluster_that_was_nearly_idle_before_is_idle() {
        // 1 of 10 is below a fifth, so what follows is no fall from a busy cluster.
        assert_eq!(Outages::of(&counts(&[3.0, 1.0, 0.0, 0.0, 4.0], Some(10.0)), 5 * HOUR), Outages::default());
    }

    #[test]
    fn an_outage_ends_with_the_record_or_after_two_days() {
        let mut used = vec![5.0];
        used.extend([0.0; 60]);
        let found = Outages::of(&counts(&used, Some(10.0)), 61 * HOUR);
        // Zero from 1 h on: two days of it are an outage, the last twelve hours are not.
        assert_eq!((found.stretches.as_slice(), found.samples), ([(HOUR, 49 * HOUR)].as_slice(), 48));
        assert_eq!(Outages::of(&counts(&[5.0, 0.0], Some(10.0)), 2 * HOUR).stretches, [(HOUR, 2 * HOUR)]);
    }
}
