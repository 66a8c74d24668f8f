//! What queueing theory says of each VC's queue and of putting all on one pool, beside what replays say: a cross-check, which warns where the two do not agree.
//!
//! Each VC on nodes of its own is a queue of servers of ḡ GPUs with its own rate, runs and variability, and so is the pool of all ([`OfferedTraffic`]): the mean waits are those of Erlang C with Allen and
//! Cunneen's variability, of the queues apart as the mean over their jobs. The replays are of each VC on nodes of its own, and of one pool without shares. Theory and replay **disagree** if a wait of theirs, or
//! the gain (the one wait over the other), is more than three times that of the other, with a minute added to each wait so that seconds do not count. Where a VC asks for more servers than it has, theory has no wait for it, and says so.
//! Beside each queue stand the GPUs with which one job in twenty would wait at all, by the rule of the square root.
//!
//! O(jobs log jobs). Worked number: two VCs with a server each, half in use, wait a mean run apart and a third of one in a pool: a gain of 3.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use crate::plan::offered::OfferedTraffic;
use crate::plan::queueing::{Traffic, erlang_c, mean_wait_apart_s, pooling_gain, square_root_staffing};
use crate::sim::Workload;

/// By how many times theory and replay may differ.
const DISAGREE: f64 = 3.0;
/// Why the two may disagree.
const UNKNOWN: &str = "Bursts, days and nights, and GPUs left over beside gangs are what theory does not know.";
/// What is added to waits before they are compared, seconds.
const MINUTE_S: f64 = 60.0;
/// Share of the jobs that may wait at all where GPUs are told by the rule of the square root.
const MAY_WAIT: f64 = 0.05;

/// A VC, as it is held against theory.
#[derive(Debug, Clone, Copy)]
pub struct VcQueue<'n> {
    /// Name of the VC.
    pub name: &'n str,
    /// GPUs of its own.
    pub gpus: f64,
    /// Mean wait of its jobs in the replay on these, seconds; none if none ran.
    pub replayed_mean_wait_s: Option<f64>,
}

/// A mean wait by theory and in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TheoryAndReplay {
    /// Mean wait by theory, seconds; none where a queue asks for more servers than it has.
    pub theory_mean_wait_s: Option<f64>,
    /// Mean wait in the replay, seconds.
    pub replayed_mean_wait_s: f64,
}

impl TheoryAndReplay {
    fn differs(&self) -> bool {
        self.theory_mean_wait_s.is_some_and(|theory| far(theory + MINUTE_S, self.replayed_mean_wait_s + MINUTE_S))
    }

    /// The one by theory, in words.
    fn by_theory(&self) -> String {
        self.theory_mean_wait_s.map_or_else(|| "without end".to_owned(), format::duration)
    }
}

/// A VC's queue on GPUs of its own, as theory sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueInTheory {
    /// The VC.
    pub vc: String,
    /// GPUs of the VC.
    pub gpus: f64,
    /// Offered load of the jobs that are told of, and not of the whole record: GPU time of those submitted in their time, each run whole, over that of the GPUs in it. Theory has no wait from 1 on, or from
    /// somewhat less, as GPUs are left over that make no whole server. None without GPUs.
    pub load: Option<f64>,
    /// Share of its jobs that wait at all, by Erlang C.
    pub waiting_share: f64,
    /// Mean wait of its jobs; none where none ran in the replay.
    pub mean_wait: Option<TheoryAndReplay>,
    /// GPUs with which one job in twenty would wait at all, by the rule of the square root.
    pub square_root_gpus: f64,
    /// Whether one mean wait is more than three times the other.
    pub differs: bool,
}

/// What pooling gains, by theory and in the replay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolingCheck {
    /// Each VC on nodes of its own.
    pub apart: TheoryAndReplay,
    /// One pool of all nodes.
    pub pooled: TheoryAndReplay,
    /// How many times longer jobs wait apart, by theory; none where it has no wait, or the mean wait in the pool is less than a second.
    pub theory_gain: Option<f64>,
    /// How many times longer jobs wait apart in the replay; none where the mean wait in the pool is
    /// less than a second.
    pub replayed_gain: Option<f64>,
    /// Each VC, in the order of the cluster, where its jobs are enough to tell.
    pub queues: Vec<QueueInTheory>,
    /// VCs that ask for more servers than they have, so that theory has them wait for ever.
    pub without_end: Vec<String>,
    /// Whether a wait or the gain is more than three times that of the other.
    pub differs: bool,
}

/// Whether one is so many times the other that they disagree.
fn far(a: f64, b: f64) -> bool {
    a > b * DISAGREE || b > a * DISAGREE
}

/// The jobs of a VC.
fn of_vc(workload: &Workload, vc: usize) -> Workload {
    let rows: Vec<u32> =
        (0u32..).zip(&workload.vc).filter(|(_, of)| usize::from(**of) == vc).map(|(job, _)| job).collect();
    workload.only(&rows)
}

impl PoolingCheck {
    /// Compares theory and the replays, apart and pooled.
    fn new(theory_s: [Option<f64>; 2], replayed_s: [f64; 2], theory_gain: Option<f64>) -> Self {
        let [apart, pooled] = std::array::from_fn(|at| TheoryAndReplay {
            theory_mean_wait_s: theory_s.get(at).copied().flatten(),
            replayed_mean_wait_s: replayed_s.get(at).copied().unwrap_or(0.0),
        });
        // Over a wait of less than a second a gain is in the millions, and says nothing.
        let waits = |wait_s: f64| wait_s >= 1.0;
        let theory_gain = theory_gain.filter(|_| pooled.theory_mean_wait_s.is_some_and(waits));
        let replayed_gain =
            waits(pooled.replayed_mean_wait_s).then(|| apart.replayed_mean_wait_s / pooled.replayed_mean_wait_s);
        // Of waits of seconds the gain says nothing.
        let matters =
            |of: &TheoryAndReplay| of.replayed_mean_wait_s.min(of.theory_mean_wait_s.unwrap_or(0.0)) > MINUTE_S;
        let gains = theory_gain.zip(replayed_gain).filter(|_| matters(&pooled));
        let differs = apart.differs() || pooled.differs() || gains.is_some_and(|(theory, replay)| far(theory, replay));
        Self { apart, pooled, theory_gain, replayed_gain, queues: Vec::new(), without_end: Vec::new(), differs }
    }

    /// Compares theory and replays for the jobs submitted within `window`, milliseconds, whose mean
    /// waits in the replays are `replayed_s` apart and pooled; `None` where too few come to tell.
    /// `vcs` are in the order of the workload's.
    pub fn of(workload: &Workload, vcs: &[VcQueue<'_>], window: (i64, i64), replayed_s: [f64; 2]) -> Option<Self> {
        let mut apart: Vec<(Traffic, u32)> = Vec::new();
        let mut queues = Vec::new();
        for (vc, known) in vcs.iter().enumerate() {
            let Some(request) = OfferedTraffic::new(&of_vc(workload, vc), window) else { continue };
            let (traffic, servers) = (request.traffic, request.servers(known.gpus as u64));
            let mean_wait = known.replayed_mean_wait_s.map(|replayed_mean_wait_s| TheoryAndReplay {
                theory_mean_wait_s: traffic.mean_wait_s(servers),
                replayed_mean_wait_s,
            });
            queues.push(QueueInTheory {
                vc: known.name.to_owned(),
                gpus: known.gpus,
                load: request.offered_load(known.gpus),
                waiting_share: erlang_c(servers, traffic.load()),
                differs: mean_wait.is_some_and(|wait| wait.differs()),
                mean_wait,
                square_root_gpus: square_root_staffing(traffic.load(), MAY_WAIT) * request.gang_gpus,
            });
            apart.push((traffic, servers));
        }
        let all = OfferedTraffic::new(workload, window)?;
        let gpus: f64 = vcs.iter().map(|vc| vc.gpus).sum();
        let pooled = (all.traffic, all.servers(gpus as u64));
        let theory_s = [mean_wait_apart_s(&apart), pooled.0.mean_wait_s(pooled.1)];
        let endless = apart.iter().zip(&queues).filter(|((traffic, servers), queue)| {
            traffic.mean_wait_s(*servers).is_none() && queue.load.is_none_or(|load| load >= 1.0)
        });
        let without_end = endless.map(|(_, queue)| queue.vc.clone()).collect();
        Some(Self { queues, without_end, ..Self::new(theory_s, replayed_s, pooling_gain(&apart, &pooled)) })
    }

    /// Where the two do not agree on all VCs, in words. `jobs` says which jobs, such as "the later jobs".
    pub fn warning(&self, jobs: &str) -> Option<String> {
        self.differs.then(|| {
            format!(
                "**Queueing theory and the replays disagree** on pooling, by more than {DISAGREE} times: by theory {jobs} wait {} on nodes of their own and {} in one pool, in the replays {} and {}. {UNKNOWN}",
                self.apart.by_theory(),
                self.pooled.by_theory(),
                format::duration(self.apart.replayed_mean_wait_s),
                format::duration(self.pooled.replayed_mean_wait_s)
            )
        })
    }

    /// VCs on nodes of their own whose mean wait by theory is not that of the replay.
    fn vcs_that_differ(&self) -> Vec<&str> {
        self.queues.iter().filter(|of| of.differs).map(|of| of.vc.as_str()).collect()
    }

    /// The section of a report.
    pub fn section(&self, id: &str, jobs: &str) -> Section {
        let by_theory = format!(
            "By queueing theory {jobs} wait {} on average on nodes of their own, and {} in one pool",
            self.apart.by_theory(),
            self.pooled.by_theory()
        );
        let differ = self.vcs_that_differ();
        let has_waits = [&self.apart, &self.pooled].iter().all(|of| of.theory_mean_wait_s.is_some());
        let finding = match (self.differs, has_waits) {
            (true, _) => format!("{by_theory}; the replays differ by more than {DISAGREE} times."),
            (false, true) => {
                let vcs = match differ.as_slice() {
                    [] => String::new(),
                    differ => format!(" Of {} VCs alone, {} by more.", self.queues.len(), differ.len()),
                };
                format!("{by_theory}; the replays agree within {DISAGREE} times, a minute added to each wait.{vcs}")
            }
            (false, false) => {
                format!("{by_theory}: a queue asks for more than it has, or too many of its GPUs make no whole server.")
            }
        };
        let section = Section::new(id, "What queueing theory says")
            .with_finding(finding)
            .with_table(self.together(jobs))
            .with_table(self.by_vc())
            .with_definition(format!("Erlang C with Allen and Cunneen's variability, as measured on {jobs}. A server is as many GPUs as a job holds on average, weighted by its run. First come, first served, without gangs, bursts or days."))
            .with_definition(format!("They differ if a wait, or the gain where a minute is waited, is more than {DISAGREE} times that of the other, with a minute added to each wait."))
            .with_definition(format!("**Offered load**: GPU time that {jobs} ask for, each run whole, over that of the GPUs in the time in which {jobs} come. Of another stretch of time it is another."))
            .with_definition(format!("**Would wait**: the share of the jobs that wait at all. **For {} to wait**: GPUs by the rule of the square root.", format::percent(MAY_WAIT)));
        let differ = (!differ.is_empty()).then(|| {
            format!("In these VCs the two mean waits differ by more than {DISAGREE} times: {}.", differ.join(", "))
        });
        let endless = (!self.without_end.is_empty()).then(|| {
            let vcs = self.without_end.join(", ");
            format!("By theory these ask for more than they have, and their queue grows without end: {vcs}.")
        });
        differ.into_iter().chain(endless).fold(section, Section::with_text)
    }

    fn together(&self, jobs: &str) -> ReportTable {
        let mut table = ReportTable::new(
            format!("Mean wait of {jobs}"),
            vec![Column::text("How"), Column::number("By theory"), Column::number("In the replay")],
        );
        for (how, of) in [("each VC on its own nodes", &self.apart), ("one pool without shares", &self.pooled)] {
            let theory = Cell::opt(of.theory_mean_wait_s, Cell::Duration);
            table.rows.push(vec![how.into(), theory, Cell::Duration(of.replayed_mean_wait_s)]);
        }
        let gain = |gain: Option<f64>| Cell::opt(gain, |value| Cell::Float { value, digits: 1 });
        table.rows.push(vec!["times as long apart".into(), gain(self.theory_gain), gain(self.replayed_gain)]);
        table
    }

    fn by_vc(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Each VC on its own nodes",
            vec![
                Column::text("VC"),
                Column::number("GPUs"),
                Column::number("Offered load"),
                Column::number("Would wait"),
                Column::number("Mean wait by theory"),
                Column::number("In the replay"),
                Column::number(format!("GPUs for {} to wait", format::percent(MAY_WAIT))),
            ],
        );
        for queue in &self.queues {
            let theory =
                queue.mean_wait.map_or_else(|| Cell::opt(None, Cell::Duration), |wait| wait.by_theory().into());
            table.rows.push(vec![
                queue.vc.as_str().into(),
                Cell::float(queue.gpus, 0),
                Cell::opt(queue.load, |value| Cell::Float { value, digits: 2 }),
                Cell::Percent(queue.waiting_share),
                theory,
                Cell::opt(queue.mean_wait, |wait| Cell::Duration(wait.replayed_mean_wait_s)),
                Cell::float(queue.square_root_gpus, 0),
            ]);
        }
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::replay::metric::JobTimes;
    use crate::sim::{Cluster, Policy, Shape, simulate};

    #[test]
    fn who_disagrees_by_more_than_three_times_is_told() {
        let of = |theory: [f64; 2], replayed: [f64; 2]| {
            PoolingCheck::new(theory.map(Some), replayed, Some(theory[0] / theory[1]))
        };
        let near = of([1000.0, 100.0], [1200.0, 130.0]);
        assert!(!near.differs && near.replayed_gain.unwrap() > 9.0, "{near:?}");
        assert!(of([1000.0, 100.0], [4000.0, 130.0]).differs);
        // The waits are within three times each, and the gain is not: 3.3 and 23.
        assert!(of([1000.0, 300.0], [2500.0, 110.0]).differs);
        // Of seconds nothing is said.
        let short = of([20.0, 0.1], [30.0, 2.0]);
        assert_eq!((short.differs, short.theory_gain, short.replayed_gain), (false, None, Some(15.0)));
        let endless = PoolingCheck::new([None, Some(100.0)], [5000.0, 120.0], None);
        assert!(!endless.differs && endless.theory_gain.is_none());
    }

    #[test]
    fn single_vcs_that_disagree_are_told_though_all_together_agree() {
        let mut check = PoolingCheck::new([Some(1000.0), Some(100.0)], [1200.0, 130.0], Some(10.0));
        assert_eq!((check.differs, check.warning("the jobs")), (false, None));
        let queue = |vc: &str, theory_s: f64, replayed_mean_wait_s: f64| {
            let wait = TheoryAndReplay { theory_mean_wait_s: Some(theory_s), replayed_mean_wait_s };
            QueueInTheory {
                vc: vc.to_owned(),
                gpus: 8.0,
                load: Some(0.5),
                waiting_share: 0.1,
                differs: wait.differs(),
                mean_wait: Some(wait),
                square_root_gpus: 8.0,
            }
        };
        check.queues = vec![queue("near", 100.0, 150.0), queue("far", 100.0, 1000.0)];
        let finding = check.section("theory", "the jobs").finding;
        assert!(finding.contains("a minute added to each wait. Of 2 VCs alone, 1 by more"), "{finding}");
    }

    /// Jobs of one GPU at regular times: a VC that asks for one and a half servers and has one waits for ever.
    #[test]
    fn a_vc_that_asks_for_more_than_it_has_has_no_wait_in_theory() {
        let mut jobs = Workload::default();
        for at in 0..2_000 {
            jobs.push(at * 1000, if at % 2 == 0 { 3_000 } else { 500 }, Shape::whole(1));
            *jobs.vc.last_mut().unwrap() = (at % 2) as u16;
        }
        let cluster = Cluster::of_vcs(&[("busy", 1, 1), ("idle", 2, 1)]);
        let mean = |cluster: &Cluster| {
            let schedule = simulate(&jobs, cluster, &Policy::default()).unwrap();
            let times = JobTimes::new(&jobs, &schedule).unwrap();
            let waits: Vec<i64> = (0..jobs.len()).filter_map(|job| times.wait_ms(job)).collect();
            waits.iter().sum::<i64>() as f64 / waits.len() as f64 / 1e3
        };
        let replayed_s = [mean(&cluster), mean(&cluster.pooled())];
        let vcs = [("busy", 1.0, Some(replayed_s[0])), ("idle", 2.0, None)];
        let vcs = vcs.map(|(name, gpus, replayed_mean_wait_s)| VcQueue { name, gpus, replayed_mean_wait_s });
        let window = (0, jobs.submit_ms.last().unwrap() + 1);
        let result = PoolingCheck::of(&jobs, &vcs, window, replayed_s).unwrap();
        // Half a job a second of 3 s asks for one and a half servers of one, and all wait; half a second each asks for an eighth of two.
        let loads: Vec<f64> = result.queues.iter().map(|of| (of.load.unwrap() * 1000.0).round()).collect();
        assert_eq!(loads, [1501.0, 125.0]);
        assert_eq!((result.queues[0].waiting_share, result.queues[1].mean_wait), (1.0, None));
        assert!(
            result.queues[1].waiting_share < 0.1 && result.queues[1].square_root_gpus == 2.0,
            "{:?}",
            result.queues
        );
        assert_eq!(result.without_end, ["busy"]);
        assert_eq!((result.apart.theory_mean_wait_s, result.theory_gain), (None, None));
        // The pool has three servers for a load of 1.75.
        assert!(
            result.pooled.theory_mean_wait_s.unwrap() < 60.0 && result.replayed_gain.is_none_or(|gain| gain > 10.0)
        );
    }
}
