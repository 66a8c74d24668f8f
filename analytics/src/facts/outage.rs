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

use crate::time::DAY_MS;

/// Share of the nodes or GPUs up to which a cluster counts as down.
pub const DOWN: f64 = 0.02;
/// Share from which it counts as busy.
pub const BUSY: f64 = 0.2;
/// Longest time for which a cluster that falls to zero is taken to be off or miscounted, and not idle, ms: two days.
pub const LONGEST_MS: i64 = 2 * DAY_MS;

/// Counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// Moment, ms.
    pub ts: i64,
    /// Nodes or GPUs in use.
    pub used: f64,
    /// Nodes or GPUs that waiting jobs ask for; `None` where that was not counted.
    pub pending: Option<f64>,
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
    pub fn new(counts: &[Count], end: i64) -> Self {
        let mut result = Self::default();
        let (mut most, mut before, mut since) = (0f64, 0f64, None);
        for (ix, count) in counts.iter().enumerate() {
            most = most.max(count.used);
            let share = count.used / count.total.filter(|total| *total > 0.0).unwrap_or(most).max(1e-9);
            if share > DOWN {
                since = None;
            } else if since.is_none() && before >= BUSY {
                since = Some(count.ts);
                result.stretches.push((count.ts, count.ts));
            }
            match (since, result.stretches.last_mut()) {
                (Some(since), Some(stretch)) if count.ts - since < LONGEST_MS => {
                    result.samples += 1;
                    let next = counts.get(ix + 1).map_or(end, |next| next.ts).max(count.ts + 1);
                    stretch.1 = next.min(since.saturating_add(LONGEST_MS));
                }
                _ => before = share,
            }
        }
        result
    }

    /// Whether a moment lies in an outage.
    pub fn contains(&self, ts: i64) -> bool {
        let after = self.stretches.partition_point(|(from, _)| *from <= ts);
        after.checked_sub(1).and_then(|at| self.stretches.get(at)).is_some_and(|(_, to)| ts < *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn counts(used: &[f64], total: Option<f64>) -> Vec<Count> {
        (0i64..).zip(used).map(|(hour, used)| Count { ts: hour * HOUR, used: *used, pending: None, total }).collect()
    }

    #[test]
    fn the_worked_number() {
        let result = Outages::new(&counts(&[3.0, 0.0, 0.0, 4.0], Some(10.0)), 4 * HOUR);
        assert_eq!((result.stretches.as_slice(), result.samples), ([(HOUR, 3 * HOUR)].as_slice(), 2));
        assert_eq!([0, HOUR, 3 * HOUR - 1, 3 * HOUR].map(|ts| result.contains(ts)), [false, true, true, false]);
        // Without totals, the most in use so far stands for them: 3 of 3, then nothing.
        assert_eq!(Outages::new(&counts(&[3.0, 0.0, 0.0, 4.0], None), 4 * HOUR), result);
    }

    #[test]
    fn a_cluster_that_was_nearly_idle_before_is_idle() {
        // 1 of 10 is below a fifth, so what follows is no fall from a busy cluster.
        assert_eq!(Outages::new(&counts(&[3.0, 1.0, 0.0, 0.0, 4.0], Some(10.0)), 5 * HOUR), Outages::default());
    }

    #[test]
    fn an_outage_ends_with_the_record_or_after_two_days() {
        let mut used = vec![5.0];
        used.extend([0.0; 60]);
        let result = Outages::new(&counts(&used, Some(10.0)), 61 * HOUR);
        // Zero from 1 h on: two days of it are an outage, the last twelve hours are not.
        assert_eq!((result.stretches.as_slice(), result.samples), ([(HOUR, 49 * HOUR)].as_slice(), 48));
        assert_eq!(Outages::new(&counts(&[5.0, 0.0], Some(10.0)), 2 * HOUR).stretches, [(HOUR, 2 * HOUR)]);
    }
}
