//! Capacity, use and pending demand of each VC over time, for the topics that compare VCs: from the
//! jobs, or from an activity series. Conclusions are drawn in `vc` and `pool`.
//!
//! From jobs: GPUs in use are those of the stretches in which jobs of the VC held GPUs, GPUs pending those of its jobs from
//! submission to start, capacity is what the trace records for the VC of that name. From an activity series: the columns as
//! sampled, each sample held until the next and the last for one median gap between samples, less the outages in which the
//! whole cluster was counted at zero ([`super::outage`]).
//!
//! Complexity: O(n log n) in jobs and samples.
//!
//! Worked number: samples of 3 and 5 GPUs at 0 s and 60 s are 3 GPUs over [0 s, 60 s) and 5 over [60 s, 120 s): 480
//! GPU-seconds.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::activity::{Activity, gpus_in_use, spacing};
use super::capacity::Capacity;
use super::job::JobFacts;
use super::observed::Observed;
use super::occupancy::{Steps, walk};
use crate::schema::Table;
use crate::stats::sum::NeumaierSum;
use crate::trace::Trace;

/// Share of the jobs whose wait may be unknown before pending GPUs are.
const MOST_UNKNOWN_WAITS: f64 = 0.1;

/// Origin of a VC's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadSource {
    /// The jobs.
    Jobs,
    /// The source's own activity series.
    Activity,
}

/// One VC over time. All quantities are zero outside of its span.
#[derive(Debug)]
pub(crate) struct VcLoad {
    /// Name.
    pub name: String,
    /// Span of the VC, less the outages of the whole cluster.
    pub observed: Observed,
    /// GPUs in use.
    pub in_use: Option<Steps>,
    /// GPUs that waiting jobs ask for; `None` where the wait of more than a tenth of the jobs is unknown.
    pub pending: Option<Steps>,
    /// GPUs there are.
    pub capacity: Option<Steps>,
    /// GPUs not in use; below zero where more are in use than there are.
    pub idle: Option<Steps>,
}

/// Mean and quantiles of a quantity over time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Mean over time.
    pub mean: f64,
    /// Value not exceeded for 5 % of the time.
    pub p5: f64,
    /// Value not exceeded for 25 % of the time.
    pub p25: f64,
    /// Value not exceeded for half of the time.
    pub p50: f64,
    /// Value not exceeded for 75 % of the time.
    pub p75: f64,
    /// Value not exceeded for 95 % of the time.
    pub p95: f64,
}

impl Spread {
    /// Spread of values, each held for so long; `None` if there is no time.
    pub(crate) fn of(values: &[f64], lengths: &[f64]) -> Option<Self> {
        let quantiles = crate::stats::quantile::weighted_quantiles(values, lengths, &[0.05, 0.25, 0.5, 0.75, 0.95]);
        let &[Some(p5), Some(p25), Some(p50), Some(p75), Some(p95)] = quantiles.as_slice() else { return None };
        let area: NeumaierSum = values.iter().zip(lengths).map(|(value, length)| value * length).collect();
        let time: NeumaierSum = lengths.iter().copied().collect();
        Some(Self { mean: crate::stats::share(area.value(), time.value())?, p5, p25, p50, p75, p95 })
    }

    /// Spread of a quantity over time.
    pub(crate) fn of_steps(steps: &Steps, observed: &Observed) -> Option<Self> {
        let (mut values, mut lengths) = (Vec::new(), Vec::new());
        for (start, end, value) in observed.stretches(steps) {
            values.push(value);
            lengths.push((end - start) as f64);
        }
        Self::of(&values, &lengths)
    }
}

/// From, to, how many.
pub type CountInterval = (i64, i64, f64);

/// GPUs that jobs hold and that waiting jobs ask for, as intervals by the code of their VC; jobs without one are under `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobCounts {
    /// Held.
    pub held: BTreeMap<Option<u32>, Vec<CountInterval>>,
    /// Waited for; `None` where the wait of more than a tenth of the jobs is unknown. Whether waits are recorded is a property
    /// of the source: a VC in which none waited had 0 pending, but a source that knows few waits would make queues look short.
    pub waiting: Option<BTreeMap<Option<u32>, Vec<CountInterval>>>,
}

impl JobCounts {
    /// Counts of all jobs for which `keep` holds. O(jobs + stretches).
    pub fn new(facts: &JobFacts<'_>, keep: impl Fn(usize) -> bool) -> Self {
        let vc = &facts.trace.jobs.vc;
        let mut held: BTreeMap<Option<u32>, Vec<CountInterval>> = BTreeMap::new();
        for stretch in facts.stretches.iter().filter(|stretch| keep(stretch.job)) {
            held.entry(vc.code(stretch.job)).or_default().push((stretch.start, stretch.end, stretch.gpus));
        }
        let (mut asking, mut known) = (0usize, 0usize);
        let mut waiting: BTreeMap<Option<u32>, Vec<CountInterval>> = BTreeMap::new();
        for job in (0..facts.len()).filter(|job| facts.is_gpu_job(*job) && keep(*job)) {
            asking += 1;
            if let (Some((start, end)), Some(gpus)) = (facts.waiting_interval(job), facts.gpus(job)) {
                known += 1;
                waiting.entry(vc.code(job)).or_default().push((start, end, gpus));
            }
        }
        let waits_known = known > 0 && (asking - known) as f64 <= MOST_UNKNOWN_WAITS * asking as f64;
        Self { held, waiting: waits_known.then_some(waiting) }
    }
}

/// The VCs that jobs name, by name. VCs with a capacity but no job are not among them: the source may not cover them.
pub(crate) fn of_jobs(facts: &JobFacts<'_>) -> Vec<VcLoad> {
    let Some((from, to)) = facts.window.filter(|(from, to)| to > from) else { return Vec::new() };
    let vc = &facts.trace.jobs.vc;
    let named: BTreeSet<u32> =
        (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).filter_map(|job| vc.code(job)).collect();
    let mut counts = JobCounts::new(facts, |job| vc.code(job).is_some());
    let mut capacity = Capacity::new(facts.trace, from, to).map(|capacity| capacity.by_vc).unwrap_or_default();
    let mut loads: Vec<VcLoad> = named
        .into_iter()
        .filter_map(|code| {
            let name = vc.name(code)?.to_owned();
            let in_use = Steps::of_intervals(counts.held.remove(&Some(code)).unwrap_or_default());
            let capacity = capacity.remove(&name).filter(|steps| steps.max(from, to) > 0.0);
            let idle = capacity.as_ref().map(|capacity| difference(capacity, &in_use, from, to));
            let waiting = |waiting: &mut BTreeMap<_, _>| waiting.remove(&Some(code)).unwrap_or_default();
            let pending = counts.waiting.as_mut().map(waiting).map(Steps::of_intervals);
            let observed = Observed::whole(from, to);
            Some(VcLoad { name, observed, in_use: Some(in_use), pending, capacity, idle })
        })
        .collect();
    loads.sort_by(|a, b| a.name.cmp(&b.name));
    loads
}

/// The VCs of the activity series, by name.
pub(crate) fn of_activity(trace: &Trace) -> Vec<VcLoad> {
    let table = &trace.activity;
    let mut rows: BTreeMap<&str, Vec<(i64, usize)>> = BTreeMap::new();
    for row in 0..table.len() {
        if let (Some("vc"), Some(name), Some(ts)) = (table.scope.get(row), table.name.get(row), table.ts.get(row)) {
            rows.entry(name).or_default().push((ts, row));
        }
    }
    let outages = Activity::gpus(trace).outages();
    let mut loads = Vec::new();
    for (name, mut rows) in rows {
        rows.sort_unstable();
        rows.dedup_by_key(|(ts, _)| *ts);
        let gap = spacing(rows.iter().map(|(ts, _)| *ts));
        let (Some((from, _)), Some((last, _)), Some(gap)) = (rows.first(), rows.last(), gap) else { continue };
        let to = last.saturating_add(gap);
        let series = |value: &dyn Fn(usize) -> Option<f64>| {
            let known: Vec<(i64, f64)> = rows.iter().filter_map(|(ts, row)| Some((*ts, value(*row)?))).collect();
            (!known.is_empty()).then(|| Steps::of_samples(known.into_iter().chain([(to, 0.0)])))
        };
        let less = |all: Option<f64>, part: Option<f64>| Some(all? - part?);
        let total = |row: usize| table.gpus_total.get(row);
        loads.push(VcLoad {
            name: name.to_owned(),
            observed: Observed::less(*from, to, &outages),
            in_use: series(&|row| gpus_in_use(trace, row)),
            pending: series(&|row| table.gpus_pending.get(row)),
            capacity: series(&total),
            idle: series(&|row| table.gpus_idle.get(row).or_else(|| less(total(row), table.gpus_running.get(row)))),
        });
    }
    loads
}

/// Returns `all` less `part` over [from, to); 0 from `to` on.
fn difference(all: &Steps, part: &Steps, from: i64, to: i64) -> Steps {
    let mut samples = Vec::new();
    walk(&[all, part], from, to, |start, _, values| {
        if let &[all, part] = values {
            samples.push((start, all - part));
        }
    });
    Steps::of_samples(samples.into_iter().chain([(to, 0.0)]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota, sample};

    #[test]
    fn a_sample_holds_until_the_next_and_the_last_for_a_median_gap() {
        let mut trace = Trace::default();
        trace.activity.push(sample("a", 0, 8.0, 3.0, 0.0));
        trace.activity.push(sample("a", 60, 8.0, 5.0, 4.0));
        let loads = of_activity(&trace);
        let load = loads.first().unwrap();
        assert_eq!((load.observed.from, load.observed.to), (0, 120_000));
        // 3 · 60 + 5 · 60 = 480, idle (5 + 3) · 60 = 480, pending 4 · 60 = 240; nothing after 120 s.
        let area = |steps: &Option<Steps>| steps.as_ref().unwrap().integral_s(0, 1_000_000);
        assert_eq!((area(&load.in_use), area(&load.idle), area(&load.pending)), (480.0, 480.0, 240.0));
    }

    #[test]
    fn use_beyond_the_capacity_is_idle_below_zero_and_a_vc_without_capacity_has_none() {
        let mut trace = Trace::default();
        trace.jobs.push(job("1", "a", 6.0, 0, 0, 100));
        trace.jobs.push(job("2", "a", 4.0, 0, 50, 100));
        trace.jobs.push(job("3", "b", 1.0, 0, 0, 100));
        trace.capacity.push(quota("a", 8.0));
        let loads = of_jobs(&JobFacts::new(&trace));
        let [a, b] = loads.as_slice() else { panic!("two VCs, not {}", loads.len()) };
        let idle = a.idle.as_ref().unwrap();
        // 8 - 6 = 2, then 8 - 10 = -2.
        assert_eq!((idle.at(0), idle.at(50_000), idle.at(100_000)), (2.0, -2.0, 0.0));
        assert_eq!(a.pending.as_ref().unwrap().integral_s(0, 100_000), 200.0);
        assert!(b.idle.is_none() && b.capacity.is_none());
        // One wait of four unknown is too many to tell what was pending.
        let mut unknown = job("4", "b", 1.0, 0, 0, 100);
        (unknown.start, unknown.run_s) = (None, None);
        trace.jobs.push(unknown);
        assert!(of_jobs(&JobFacts::new(&trace)).iter().all(|load| load.pending.is_none()));
    }
}
