//! A9: how much of the waiting in VCs happened while GPUs stood idle in other VCs.
//!
//! With p_v(t) the GPUs that jobs waiting in VC v ask for and i_v(t) = max(0, capacity - use) its idle GPUs:
//! * poolable for v: ∫ min(p_v, Σ_{w≠v} i_w) dt, as if v alone could borrow;
//! * covered for v: ∫ p_v · [Σ_{w≠v} i_w ≥ p_v] dt, the pending GPU time that met at least as many idle GPUs elsewhere;
//! * poolable together: the largest flow from pending to idle GPUs of other VCs, in which an idle GPU serves once. As any
//!   two VCs together can reach every idle GPU, the cut is min(P, I, min_v (P - p_v + I - i_v)) with P = Σ p_v, I = Σ i_v.
//!
//! All three compare what waited and what was idle at one moment of the recorded schedule, summed over moments. They bound
//! nothing that a common pool does over time, neither from above nor from below: a job that starts sooner ends sooner, so
//! that those behind it, who met no idle GPU in the record, find one; and the idle GPUs may lie on nodes that do not fit.
//! What a pool does is found by replaying the jobs on it, which the planner's `pooling` does.
//!
//! Complexity: O(n log n + m · V) for n changes, m distinct moments of change and V VCs.
//!
//! Worked number: VC a has 4 GPUs pending and 1 idle, VC b 5 pending and 0 idle, VC c 6 idle. Each alone finds enough (6 of
//! 4, 7 of 5), but together P = 9, I = 7, P - 4 + 7 - 1 = 11, P - 5 + 7 - 0 = 11, P + 7 - 6 = 10: 7 of 9 are poolable.

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::{Moments, Topic, TopicResult, hours, left_out, share};
use crate::facts::JobFacts;
use crate::facts::activity::Activity;
use crate::facts::capacity::MOST_WITHOUT_VC;
use crate::facts::load::{self, LoadSource, VcLoad};
use crate::facts::observed::Observed;
use crate::facts::occupancy::Steps;
use crate::facts::outage::Outages;
use crate::report::format::{compact, counted, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats::sum::NeumaierSum;

/// Points of the chart over time.
const POINTS: i64 = 600;
/// VCs that tables and charts show.
const SHOWN: usize = 30;

/// One VC.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VcPool {
    /// Name.
    pub vc: String,
    /// GPU-hours that its waiting jobs asked for.
    pub pending_gpu_hours: f64,
    /// Share of the time in which some job waited.
    pub pending_time_share: Option<f64>,
    /// Share of its pending GPU time that met an idle GPU in another VC at that moment, were it alone to borrow.
    pub poolable_share: Option<f64>,
    /// Share of its pending GPU time that met at least as many idle GPUs in other VCs as it had pending.
    pub covered_share: Option<f64>,
    /// Idle GPUs, mean over time, use beyond the capacity counted as none; `null` where its capacity is unknown.
    pub mean_idle_gpus: Option<f64>,
    /// Share of the time with more GPUs in use than there are.
    pub over_capacity_time_share: Option<f64>,
}

/// Waiting while GPUs were idle in other VCs. No figure here bounds what a common pool would do over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Poolable {
    /// Origin of the figures.
    pub source: LoadSource,
    /// VCs, most pending GPU time first.
    pub vcs: Vec<VcPool>,
    /// GPU-hours that waiting jobs asked for.
    pub pending_gpu_hours: f64,
    /// Share of the pending GPU time of each VC that met an idle GPU in the others at that moment, VCs taken one by one.
    pub poolable_share: f64,
    /// Share of the pending GPU time of each VC that met at least as many idle GPUs in the others.
    pub covered_share: f64,
    /// Share of the pending GPU time that met an idle GPU in another VC at that moment, each idle GPU counted once.
    pub jointly_poolable_share: f64,
    /// Idle GPU-hours in all.
    pub idle_gpu_hours: f64,
    /// VCs whose capacity is unknown: they count as having no idle GPU.
    pub vcs_without_capacity: u64,
    /// Share of VC time with more GPUs in use than there are, over VCs with a capacity.
    pub over_capacity_time_share: Option<f64>,
    /// Share of the GPU time whose VC is unknown, where derived from jobs.
    pub unknown_vc_gpu_time_share: Option<f64>,
    /// Hours that are left out, as the whole cluster was counted at or near zero right after it was busy.
    pub outage_hours: f64,
    /// Beginning of the observation, ms.
    pub from_ms: i64,
    /// End of the observation, ms.
    pub to_ms: i64,
    /// Waiting and idle GPUs over time, means of equal stretches.
    pub curve: Vec<PoolPoint>,
    /// Time axis of the chart.
    #[serde(skip)]
    moments: Moments,
}

/// One stretch of the observation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PoolPoint {
    /// Beginning, ms.
    pub ms: i64,
    /// GPUs that waiting jobs ask for, all VCs.
    pub pending_gpus: f64,
    /// Idle GPUs, all VCs.
    pub idle_gpus: f64,
}

/// Running sums of one VC, GPU-ms and ms.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    pending: NeumaierSum,
    poolable: NeumaierSum,
    covered: NeumaierSum,
    idle: NeumaierSum,
    pending_time: f64,
    over_time: f64,
}

impl Topic for Poolable {
    const ID: &'static str = "pool";
    const CODE: &'static str = "A9";
    const TITLE: &'static str = "Waiting while GPUs were idle in other VCs";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let usable = |loads: &[VcLoad]| {
            loads.len() > 1
                && loads.iter().any(|load| load.pending.is_some())
                && loads.iter().any(|load| load.idle.is_some())
        };
        let series = load::of_activity(facts.trace);
        if usable(&series) {
            let outages = Activity::gpus(facts.trace).outages();
            return Self::of_loads(LoadSource::Activity, &series, &outages, None, Moments::of(facts.trace));
        }
        let jobs = load::of_jobs(facts);
        if jobs.len() + series.len() < 2 {
            return Err("the source names fewer than two VCs with GPU jobs".to_owned());
        }
        if !usable(&jobs) {
            let lacking = if jobs.iter().any(|load| load.pending.is_some()) {
                "the source does not record the GPUs of its VCs"
            } else {
                "the wait of more than a tenth of the jobs is unknown"
            };
            return Err(lacking.to_owned());
        }
        let unknown = facts.gpu_time_without_vc();
        if let Some(unknown) = unknown.filter(|unknown| *unknown > MOST_WITHOUT_VC) {
            return Err(format!(
                "the VC of {} of the GPU time is unknown, so idle GPUs of VCs cannot be told",
                percent(unknown)
            ));
        }
        Self::of_loads(LoadSource::Jobs, &jobs, &Outages::default(), unknown, Moments::of(facts.trace))
    }

    fn section(&self) -> Section {
        let waited: Vec<&VcPool> = self.vcs.iter().filter(|vc| vc.pending_gpu_hours > 0.0).take(SHOWN).collect();
        let finding = format!(
            "**{}** of the {} GPU-hours that jobs waited for met at least as many idle GPUs in other VCs at that moment, and \
             **{}** met one if each idle GPU counts once. This says how often waiting and idleness stood side by side in the \
             record. It does not bound what a common pool would do over time, as a job that starts sooner also ends sooner. \
             A replay of the same jobs on one pool does, which `tracecast report` shows wherever it can.",
            percent(self.covered_share),
            compact(self.pending_gpu_hours),
            percent(self.jointly_poolable_share),
        );
        let part = |of: &dyn Fn(f64) -> f64| {
            waited.iter().map(|vc| vc.poolable_share.map(|share| vc.pending_gpu_hours * of(share))).collect::<Vec<_>>()
        };
        let by_vc = Chart::rows(
            "pool-vc",
            "Pending GPU-hours by VC, and how many met idle GPUs elsewhere",
            Axis::linear("GPU-hours"),
            BarLayout::Stacked,
            waited.iter().map(|vc| vc.vc.clone()).collect(),
            vec![BarSeries::new("idle elsewhere", part(&|share| share)), BarSeries::new("no idle GPU", part(&|share| 1.0 - share))],
        )
        .with_reading("Each bar is what a VC's jobs waited for; the first part waited while as many GPUs were idle in other VCs, on nodes of whatever shape.");
        let first = self.from_ms;
        let over_time = |value: &dyn Fn(&PoolPoint) -> f64| {
            self.curve.iter().map(|point| (self.moments.place(point.ms, first), value(point))).collect::<Vec<_>>()
        };
        let curve = Chart::xy(
            "pool-time",
            "GPUs pending and GPUs idle, all VCs",
            self.moments.axis(),
            Axis::linear("GPUs"),
            vec![
                ChartSeries::new("idle", Mark::Area, over_time(&|point| point.idle_gpus)),
                ChartSeries::new("pending", Mark::Step, over_time(&|point| point.pending_gpus)),
            ],
        )
        .with_reading("Where both are high at once, jobs queue in one VC while GPUs stand idle in another.");
        let mut coverage = format!(
            "{}, {} pending and {} idle GPU-hours",
            counted(self.vcs.len() as u64, "VC", "VCs"),
            compact(self.pending_gpu_hours),
            compact(self.idle_gpu_hours)
        );
        if self.vcs_without_capacity > 0 {
            coverage.push_str(&format!(
                "; {} as never idle",
                counted(
                    self.vcs_without_capacity,
                    "VC has no known capacity and counts",
                    "VCs have no known capacity and count"
                )
            ));
        }
        if let Some(over) = self.over_capacity_time_share.filter(|over| *over > 0.0) {
            coverage.push_str(&format!("; in {} of the VC time more GPUs were in use than there are", percent(over)));
        }
        if let Some(unknown) = self.unknown_vc_gpu_time_share.filter(|unknown| *unknown > 0.0) {
            coverage
                .push_str(&format!("; {} of the GPU time has no VC and makes idle GPUs look more", percent(unknown)));
        }
        coverage.push('.');
        if let Some(text) = left_out(self.outage_hours, None) {
            coverage.push_str(&format!(" {text}"));
        }
        Self::heading()
            .with_finding(finding)
            .with_gpu_hours(Some(self.pending_gpu_hours))
            .with_chart(by_vc)
            .with_chart(curve)
            .with_table(self.table())
            .with_definition(
                "Pending: GPUs of a VC's jobs from submission to start, or as the activity series samples them. Idle: GPUs \
                 the VC has less those in use; below zero counts as none.",
            )
            .with_definition(
                "Poolable: at each moment the smaller of what a VC has pending and what the other VCs have idle, over what \
                 it has pending. Covered: only the pending GPU time that met at least as many idle GPUs elsewhere.",
            )
            .with_definition(
                "Poolable together: as poolable, but each idle GPU serves one pending GPU only (largest flow between VCs).",
            )
            .with_definition(
                "These shares are taken moment by moment. They ignore node shapes and GPU models, which makes them too high, \
                 and that serving a job shortens the queue behind it, which makes them too low. Only VCs in the data count.",
            )
            .with_coverage(coverage)
    }
}

impl Poolable {
    fn of_loads(
        source: LoadSource,
        loads: &[VcLoad],
        outages: &Outages,
        unknown: Option<f64>,
        moments: Moments,
    ) -> TopicResult<Self> {
        let spans = || loads.iter().map(|load| &load.observed);
        let window = spans().map(|span| span.from).min().zip(spans().map(|span| span.to).max());
        let Some((from, to)) = window.filter(|(from, to)| to > from) else {
            return Err("the observation spans no time".to_owned());
        };
        let nothing = Steps::default();
        let quantities: Vec<&Steps> = loads
            .iter()
            .flat_map(|load| [load.pending.as_ref().unwrap_or(&nothing), load.idle.as_ref().unwrap_or(&nothing)])
            .collect();
        let mut sums = vec![Sums::default(); loads.len()];
        let (mut joint, mut pending_curve, mut idle_curve) = (NeumaierSum::new(), Vec::new(), Vec::new());
        let observed = Observed::less(from, to, outages);
        observed.walk(&quantities, |start, end, values| {
            let time = (end - start) as f64;
            let vcs = || values.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
            let pending: f64 = vcs().map(|(pending, _)| pending).sum();
            let idle: f64 = vcs().map(|(_, idle)| idle.max(0.0)).sum();
            let mut flow = pending.min(idle);
            for ((vc_pending, own_idle), sums) in vcs().zip(&mut sums) {
                if own_idle < 0.0 {
                    sums.over_time += time;
                }
                let own_idle = own_idle.max(0.0);
                sums.idle.add(own_idle * time);
                if vc_pending > 0.0 {
                    let elsewhere = idle - own_idle;
                    sums.pending.add(vc_pending * time);
                    sums.pending_time += time;
                    sums.poolable.add(vc_pending.min(elsewhere) * time);
                    if elsewhere >= vc_pending {
                        sums.covered.add(vc_pending * time);
                    }
                    flow = flow.min(pending - vc_pending + elsewhere);
                }
            }
            joint.add(flow * time);
            pending_curve.push((start, pending));
            idle_curve.push((start, idle));
        });
        let total = |of: &dyn Fn(&Sums) -> NeumaierSum| {
            let mut all = NeumaierSum::new();
            sums.iter().for_each(|sums| all.merge(of(sums)));
            all.value()
        };
        let pending = total(&|sums| sums.pending);
        let shares = (
            share(total(&|sums| sums.poolable), pending),
            share(total(&|sums| sums.covered), pending),
            share(joint.value(), pending),
        );
        let (Some(poolable_share), Some(covered_share), Some(jointly_poolable_share)) = shares else {
            return Err("no job waited".to_owned());
        };
        let mut vcs: Vec<VcPool> = loads
            .iter()
            .zip(&sums)
            .map(|(load, sums)| {
                let time = load.observed.length() as f64;
                let known = load.idle.is_some();
                VcPool {
                    vc: load.name.clone(),
                    pending_gpu_hours: hours(sums.pending.value() / 1_000.0),
                    pending_time_share: share(sums.pending_time, time),
                    poolable_share: share(sums.poolable.value(), sums.pending.value()),
                    covered_share: share(sums.covered.value(), sums.pending.value()),
                    mean_idle_gpus: share(sums.idle.value(), time).filter(|_| known),
                    over_capacity_time_share: share(sums.over_time, time).filter(|_| known),
                }
            })
            .collect();
        vcs.sort_by(|a, b| b.pending_gpu_hours.total_cmp(&a.pending_gpu_hours).then_with(|| a.vc.cmp(&b.vc)));
        let known_time: f64 =
            loads.iter().filter(|load| load.idle.is_some()).map(|load| load.observed.length() as f64).sum();
        let means = |samples: Vec<(i64, f64)>| observed.curve(&Steps::of_samples(samples), POINTS);
        let curve = means(pending_curve)
            .into_iter()
            .zip(means(idle_curve))
            .map(|((ms, pending_gpus), (_, idle_gpus))| PoolPoint { ms, pending_gpus, idle_gpus })
            .collect();
        Ok(Self {
            source,
            vcs,
            pending_gpu_hours: hours(pending / 1_000.0),
            poolable_share,
            covered_share,
            jointly_poolable_share,
            idle_gpu_hours: hours(total(&|sums| sums.idle) / 1_000.0),
            vcs_without_capacity: loads.iter().filter(|load| load.idle.is_none()).count() as u64,
            over_capacity_time_share: share(sums.iter().map(|sums| sums.over_time).sum(), known_time),
            unknown_vc_gpu_time_share: unknown,
            outage_hours: observed.outage_hours(),
            from_ms: from,
            to_ms: to,
            curve,
            moments,
        })
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "VCs by pending GPU time",
            vec![
                Column::text("VC"),
                Column::number("Pending GPU-hours"),
                Column::number("Time with a queue"),
                Column::number("Poolable"),
                Column::number("Covered"),
                Column::number("Idle GPUs, mean"),
                Column::number("Over capacity, time"),
            ],
        );
        for vc in self.vcs.iter().take(SHOWN) {
            table.rows.push(vec![
                vc.vc.as_str().into(),
                Cell::Float { value: vc.pending_gpu_hours, digits: 0 },
                Cell::opt(vc.pending_time_share, Cell::Percent),
                Cell::opt(vc.poolable_share, Cell::Percent),
                Cell::opt(vc.covered_share, Cell::Percent),
                Cell::opt(vc.mean_idle_gpus, |value| Cell::Float { value, digits: 1 }),
                Cell::opt(vc.over_capacity_time_share, Cell::Percent),
            ]);
        }
        if self.vcs.len() > SHOWN {
            table.note = Some(format!("{} more VCs wait less; the JSON form lists all.", self.vcs.len() - SHOWN));
        }
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota, sample};
    use crate::trace::Trace;

    #[test]
    fn the_worked_number() {
        let mut trace = Trace::default();
        for ts in [0, 60] {
            // Pending and idle: a 4 and 1, b 5 and 0, c 0 and 6.
            trace.activity.push(sample("a", ts, 8.0, 7.0, 4.0));
            trace.activity.push(sample("b", ts, 8.0, 8.0, 5.0));
            trace.activity.push(sample("c", ts, 8.0, 2.0, 0.0));
        }
        let pool = Poolable::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((pool.poolable_share, pool.covered_share), (1.0, 1.0));
        assert!((pool.jointly_poolable_share - 7.0 / 9.0).abs() < 1e-12);
        // 9 pending and 7 idle GPUs for two minutes.
        assert!((pool.pending_gpu_hours - 0.3).abs() < 1e-12 && (pool.idle_gpu_hours - 7.0 / 30.0).abs() < 1e-12);
        let order: Vec<&str> = pool.vcs.iter().map(|vc| vc.vc.as_str()).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn a_vc_cannot_borrow_from_itself_and_oversubscription_is_not_idle() {
        let mut trace = Trace::default();
        for ts in [0, 60] {
            // a waits for 4 beside 6 idle GPUs of its own (its node shapes do not fit); b has 2 over its 8.
            trace.activity.push(sample("a", ts, 8.0, 2.0, 4.0));
            trace.activity.push(sample("b", ts, 8.0, 10.0, 0.0));
            trace.activity.push(sample("c", ts, 8.0, 5.0, 0.0));
        }
        let pool = Poolable::of(&JobFacts::new(&trace)).unwrap();
        // Only c's 3 idle GPUs count, not 3 - 2 = 1: 3 of 4 are poolable, none is covered.
        assert_eq!((pool.poolable_share, pool.covered_share, pool.jointly_poolable_share), (0.75, 0.0, 0.75));
        assert!((pool.over_capacity_time_share.unwrap() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn from_jobs_waiting_runs_from_submission_to_start() {
        let mut trace = Trace::default();
        // a, 4 GPUs, is full until 100 s; a job of 4 waits for it from 0 s. b, 4 GPUs, is full until 60 s, then empty.
        trace.jobs.push(job("1", "a", 4.0, 0, 0, 100));
        trace.jobs.push(job("2", "a", 4.0, 0, 100, 200));
        trace.jobs.push(job("3", "b", 4.0, 0, 0, 60));
        trace.capacity.push(quota("a", 4.0));
        trace.capacity.push(quota("b", 4.0));
        let pool = Poolable::of(&JobFacts::new(&trace)).unwrap();
        // Of the 100 s that 4 GPUs are pending, 40 s meet 4 idle GPUs.
        assert_eq!((pool.source, pool.poolable_share, pool.covered_share), (LoadSource::Jobs, 0.4, 0.4));
        trace.capacity = crate::schema::CapacityTable::default();
        assert!(Poolable::of(&JobFacts::new(&trace)).unwrap_err().contains("GPUs of its VCs"));
    }
    #[test]
    fn idle_gpus_of_an_outage_serve_nobody() {
        let mut trace = Trace::default();
        // Both VCs are full; then the counting says zero for two minutes, while 4 GPUs stay pending; then full again.
        for (ts, running) in [(0, 8.0), (60, 0.0), (120, 0.0), (180, 8.0)] {
            trace.activity.push(sample("a", ts, 8.0, running, 4.0));
            trace.activity.push(sample("b", ts, 8.0, running, 0.0));
        }
        let facts = JobFacts::new(&trace);
        let pool = Poolable::of(&facts).unwrap();
        assert_eq!((pool.covered_share, pool.idle_gpu_hours), (0.0, 0.0));
        // 4 GPUs for the two minutes that were counted, and two minutes left out.
        assert!((pool.pending_gpu_hours - 8.0 / 60.0).abs() < 1e-12 && (pool.outage_hours - 2.0 / 60.0).abs() < 1e-12);
        assert!(pool.section().coverage.unwrap().contains("is not idleness"));
        let loads = crate::describe::vc::VcLoads::of(&facts).unwrap();
        assert_eq!((loads.pooled_utilisation, loads.vcs.first().unwrap().utilisation.unwrap().mean), (Some(1.0), 1.0));
        assert!((loads.outage_hours - 2.0 / 60.0).abs() < 1e-12);
    }

    #[test]
    fn no_verdict_on_what_a_pool_would_do() {
        let mut trace = Trace::default();
        for ts in [0, 60] {
            trace.activity.push(sample("a", ts, 8.0, 8.0, 4.0));
            trace.activity.push(sample("b", ts, 8.0, 6.0, 0.0));
        }
        let section = Poolable::of(&JobFacts::new(&trace)).unwrap().section();
        for verdict in ["at most", "more GPUs", "upper bound"] {
            assert!(!format!("{section:?}").contains(verdict), "{verdict}");
        }
        assert!(section.finding.contains("does not bound") && section.finding.contains("tracecast report"));
    }
}
