//! A source's own counts over time: in use, waiting and there in all, of its cluster and of its
//! VCs.
//!
//! Of two counts of one moment the first is kept. The pool is the cluster's own series where there is one, else the sum of the
//! VCs at each moment at which one was counted, over the time in which all were.
//!
//! O(n log n) in counts. Worked number: VC `a` counts 3 at 0 s and 5 at 60 s, `b` 4 at 30 s and 1 at 60 s: together 7 at 30 s
//! and 6 at 60 s.

use std::collections::BTreeMap;

use super::outage::{Count, Outages};
use crate::schema::Table as _;
use crate::stats::rank;
use crate::trace::Trace;

/// Counts of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Counts in order of time.
    pub list: Vec<Count>,
    /// Whether any says what waits.
    pub counts_pending: bool,
    /// Whether any says how many there are.
    pub counts_total: bool,
}

/// GPUs in use by one row of the activity series; what is not idle where it does not say.
pub fn gpus_in_use(trace: &Trace, row: usize) -> Option<f64> {
    let table = &trace.activity;
    let rest = || Some(table.gpus_total.get(row)? - table.gpus_idle.get(row)?);
    table.gpus_running.get(row).or_else(rest)
}

/// The median time between moments in ascending order, of an even count the later of the middle two; `None` for fewer than two.
pub fn spacing(times: impl IntoIterator<Item = i64>) -> Option<i64> {
    let mut before = None;
    let mut gaps: Vec<i64> = times.into_iter().filter_map(|time| Some(time - before.replace(time)?)).collect();
    rank::upper(&mut gaps, 0.5)
}

impl Counts {
    /// Moment at which the last count ceases to hold: after the median time between counts.
    pub fn end(&self) -> i64 {
        self.list.last().map_or(0, |last| last.ts.saturating_add(self.spacing()))
    }

    /// The median time between counts, 0 for fewer than two.
    pub fn spacing(&self) -> i64 {
        spacing(self.list.iter().map(|count| count.ts)).unwrap_or(0)
    }
}

/// The activity series of a trace in one unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activity {
    /// Counts by VC.
    pub vcs: BTreeMap<String, Counts>,
    /// Counts by name of the cluster; more than one only where the source names several.
    pub clusters: BTreeMap<String, Counts>,
}

impl Activity {
    /// Collects the activity series of `trace`; `counted` returns a row's in use, waiting and
    /// there.
    pub fn new(trace: &Trace, counted: impl Fn(usize) -> Option<[Option<f64>; 3]>) -> Self {
        let table = &trace.activity;
        let mut result = Self::default();
        for row in 0..table.len() {
            let (Some(ts), Some(scope)) = (table.ts.get(row), table.scope.get(row)) else { continue };
            let Some([Some(used), pending, total]) = counted(row) else { continue };
            if used.is_nan() || used < 0.0 {
                continue;
            }
            let of_scope = if scope == "cluster" { &mut result.clusters } else { &mut result.vcs };
            let counts = of_scope.entry(table.name.get(row).unwrap_or("cluster").to_owned()).or_default();
            counts.counts_pending |= pending.is_some();
            counts.counts_total |= total.is_some();
            counts.list.push(Count { ts, used, pending, total });
        }
        for counts in result.vcs.values_mut().chain(result.clusters.values_mut()) {
            // Stable: of two counts of one moment the first is kept.
            counts.list.sort_by_key(|count| count.ts);
            counts.list.dedup_by_key(|count| count.ts);
        }
        result
    }

    /// GPUs: as counted.
    pub fn gpus(trace: &Trace) -> Self {
        let table = &trace.activity;
        Self::new(trace, |row| Some([gpus_in_use(trace, row), table.gpus_pending.get(row), table.gpus_total.get(row)]))
    }

    /// Nodes: as counted, without what waits.
    pub fn nodes(trace: &Trace) -> Self {
        let table = &trace.activity;
        Self::new(trace, |row| Some([table.nodes_active.get(row), None, table.nodes_total.get(row)]))
    }

    /// The sum of the VCs where the cluster has no series of its own and there are several, and how many counts lie outside of
    /// the time in which all were counted.
    pub fn pool(&self) -> Option<(Counts, usize)> {
        (self.clusters.is_empty() && self.vcs.len() > 1).then(|| together(self.vcs.values()))
    }

    /// The outages of the whole cluster, or of all its VCs together. The only VC of a cluster that is not counted may well be
    /// idle.
    pub fn outages(&self) -> Outages {
        match (self.clusters.values().next(), self.pool()) {
            (Some(counts), _) => Outages::new(&counts.list, counts.end()),
            (None, Some((counts, _))) => Outages::new(&counts.list, counts.end()),
            (None, None) => Outages::default(),
        }
    }
}

/// The sum of several series at each moment at which one was counted, over the time in which all were, and how many counts lie
/// outside of it.
fn together<'c>(parts: impl Iterator<Item = &'c Counts>) -> (Counts, usize) {
    let parts: Vec<&Counts> = parts.collect();
    let from = parts.iter().filter_map(|part| part.list.first()).map(|count| count.ts).max().unwrap_or(0);
    let to = parts.iter().filter_map(|part| part.list.last()).map(|count| count.ts).min().unwrap_or(0);
    let outside = parts.iter().flat_map(|part| &part.list).filter(|count| count.ts < from || count.ts > to).count();
    let mut moments: Vec<(i64, usize, Count)> = parts
        .iter()
        .enumerate()
        .flat_map(|(place, part)| part.list.iter().map(move |count| (count.ts, place, *count)))
        .filter(|(ts, _, _)| *ts <= to)
        .collect();
    moments.sort_by_key(|(ts, place, _)| (*ts, *place));
    let mut held: Vec<Option<Count>> = vec![None; parts.len()];
    let mut list = Vec::new();
    let add = |of: &dyn Fn(&Count) -> Option<f64>, held: &[Option<Count>]| -> Option<f64> {
        held.iter().map(|count| of(count.as_ref()?)).sum()
    };
    for now in moments.chunk_by(|a, b| a.0 == b.0) {
        for (_, place, count) in now {
            if let Some(slot) = held.get_mut(*place) {
                let before = *slot;
                *slot = Some(Count { total: count.total.or_else(|| before?.total), ..*count });
            }
        }
        let Some((ts, _, _)) = now.first().filter(|(ts, _, _)| *ts >= from) else { continue };
        let Some(used) = add(&|count| Some(count.used), &held) else { continue };
        let pending = add(&|count| count.pending, &held);
        list.push(Count { ts: *ts, used, pending, total: add(&|count| count.total, &held) });
    }
    let counts = Counts {
        list,
        counts_pending: parts.iter().all(|part| part.counts_pending),
        counts_total: parts.iter().all(|part| part.counts_total),
    };
    (counts, outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::rows::sample;

    #[test]
    fn the_worked_number() {
        let mut trace = Trace::default();
        for (vc, ts, used) in [("a", 0, 3.0), ("a", 60, 5.0), ("b", 30, 4.0), ("b", 60, 1.0), ("b", 60, 9.0)] {
            trace.activity.push(sample(vc, ts, 8.0, used, 0.0));
        }
        let result = Activity::gpus(&trace);
        let (pool, outside) = result.pool().unwrap_or_default();
        let counts: Vec<_> = pool.list.iter().map(|count| (count.ts, count.used, count.total)).collect();
        assert_eq!(counts, [(30_000, 7.0, Some(16.0)), (60_000, 6.0, Some(16.0))]);
        assert_eq!((outside, pool.end(), spacing([0, 10, 30])), (1, 90_000, Some(20)));
        assert_eq!(result.outages(), Outages::default());
    }
}
