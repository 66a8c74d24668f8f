//! The answer of `plan queues`: what was tried, what was chosen, what it did to later jobs, and what to set from now on.
//!
//! O(candidates + VCs). Worked example: a VC with 96 GPUs of its own and a ceiling of 1.5 is to be guaranteed 96 GPUs and may use 144.

mod render;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::SourceRecord;

use super::search::{JobWaits, QueuesRequest, SearchOutcome, TriedSetup, search};
use super::share::{Shares, Sharing, ceiling_of, is_private};
use crate::error::{Error, Result};
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret, worth};
use crate::replay::compare::{Difference, IntervalEstimate, Merit};
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::sim::{Estimate, Policy, Scan};

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-queues/1";

/// The later jobs under Kueue's admission, with the quotas of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct UnderKueue {
    /// Their waits.
    pub later: WaitOf,
    /// Of them, how many are stopped for others.
    pub stopped: u64,
    /// What those hold beyond their runs, GPU-hours.
    pub lost_gpu_hours: f64,
}

/// What jobs waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WaitOf {
    /// Jobs.
    pub jobs: u64,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: f64,
}

impl From<JobWaits> for WaitOf {
    fn from(of: JobWaits) -> Self {
        Self { jobs: of.jobs as u64, mean_wait_s: of.merit.mean_wait_s, p95_wait_s: of.merit.p95_wait_s }
    }
}

/// A way to share with a policy, and how it did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesCandidate {
    /// How nodes are shared.
    pub sharing: Sharing,
    /// In which order jobs are served.
    pub policy: String,
    /// The same, as it differs from today.
    pub order: String,
    /// Whether a job that does not fit holds up those behind it.
    pub strict: bool,
    /// Whether it may be chosen: it wrongs no VC in the earlier time, and runs every job that runs today.
    pub allowed: bool,
    /// VCs that wait longer than on nodes of their own in a half of the earlier time.
    pub wronged: Vec<String>,
    /// Whether every job runs that runs today.
    pub complete: bool,
    /// Waits of the earlier jobs, which the choice rests on.
    pub earlier: WaitOf,
    /// Waits of the later jobs.
    pub later: WaitOf,
    /// Whether no allowed candidate has both a shorter mean and a shorter 95 % wait on the earlier jobs.
    pub on_front: bool,
}

/// A VC that waited longer on the later jobs than on nodes of its own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorseVc {
    /// Its name.
    pub vc: String,
    /// Its jobs.
    pub jobs: u64,
    /// 95 % quantile of its wait as chosen, seconds.
    pub p95_wait_s: f64,
    /// The same on nodes of its own.
    pub private_p95_wait_s: f64,
    /// Whether the 95 % interval of the difference leaves out none.
    pub beyond_interval: bool,
}

/// The later jobs, which nothing was chosen on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HeldOut {
    /// As the cluster is today.
    #[serde(rename = "static")]
    pub today: WaitOf,
    /// As chosen.
    pub recommended: WaitOf,
    /// Each VC on nodes of its own, under today's policy.
    pub private: WaitOf,
    /// The best of the allowed candidates that run all jobs, seen with hindsight.
    pub hindsight: WaitOf,
    /// Mean of a job's wait as chosen less its wait today, seconds; none if no job ran under both.
    pub mean_wait_change_s: Option<IntervalEstimate>,
    /// 95 % quantile of the wait as chosen less that of today, seconds.
    pub p95_wait_change_s: Option<IntervalEstimate>,
    /// VCs with at least 20 jobs whose 95 % quantile is longer than on nodes of their own.
    pub worse: Vec<WorseVc>,
    /// Nodes there are.
    pub nodes: u64,
    /// Nodes that the mean wait of the chosen would need with everything else as today; none if four times as many would not do, nodes fail in the trace,
    /// or the chosen waits no less.
    pub nodes_instead: Option<u64>,
    /// Later jobs that run today and could not run as chosen.
    pub cannot_run: u64,
    /// Later jobs that are stopped for others as chosen.
    pub stopped: u64,
    /// What those hold beyond their runs, GPU-hours: work that is lost, or done twice.
    pub lost_gpu_hours: f64,
    /// The same jobs as Kueue itself would admit them, with the quotas that are written for it; none where nothing is written.
    pub under_kueue: Option<UnderKueue>,
}

impl HeldOut {
    /// What it takes to give nodes back, in words; `None` if nobody is stopped.
    pub(super) fn stops(&self) -> Option<String> {
        (self.stopped > 0).then(|| {
            format!(
                "{} of the {} are stopped for others, which loses {} GPU-hours of work",
                format::count(self.stopped),
                format::counted(self.recommended.jobs, "later job", "later jobs"),
                format::compact(self.lost_gpu_hours)
            )
        })
    }
}

/// A point of the front: no allowed candidate is better in both on the earlier jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FrontPoint {
    /// How nodes are shared.
    pub sharing: Sharing,
    /// In which order jobs are served.
    pub policy: String,
    /// Waits of the earlier jobs.
    pub earlier: WaitOf,
    /// Waits of the later jobs.
    pub later: WaitOf,
}

/// GPUs of a type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OwnGpus {
    /// The type, if types are known.
    pub gpu_type: Option<String>,
    /// How many.
    pub gpus: f64,
}

/// What to set for a VC from now on, and what it does to its later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VcPlan {
    /// Its name.
    pub vc: String,
    /// GPUs that are its own at the end of the data.
    pub own_gpus: f64,
    /// GPUs of its largest job.
    pub largest_job_gpus: f64,
    /// The same by type.
    pub own: Vec<OwnGpus>,
    /// The most GPUs it may use from now on, as chosen where the plan is followed; none if only the pool bounds it.
    pub most_gpus: Option<f64>,
    /// Its later jobs as today; none without later jobs.
    pub today: Option<WaitOf>,
    /// On nodes of its own.
    pub private: Option<WaitOf>,
    /// As chosen.
    pub recommended: Option<WaitOf>,
    /// Its 95 % quantile as chosen less that on nodes of its own, seconds; none with fewer than 20 jobs.
    pub p95_wait_change_s: Option<IntervalEstimate>,
}

impl VcPlan {
    /// GPUs of its own of each type: nodes of one type may lie in several groups.
    pub(super) fn own_by_type(&self) -> BTreeMap<Option<&str>, f64> {
        let mut found = BTreeMap::new();
        for own in &self.own {
            *found.entry(own.gpu_type.as_deref()).or_default() += own.gpus;
        }
        found
    }

    /// GPUs that it may use beyond its own; none if only the pool bounds it.
    pub(super) fn may_borrow(&self) -> Option<f64> {
        self.most_gpus.map(|most| (most - self.own_gpus).max(0.0))
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesAnswer {
    /// Version of this form.
    pub schema: String,
    /// What was planned for.
    pub title: String,
    /// What was assumed, in words.
    pub notes: Vec<String>,
    /// The split: jobs submitted from here on are the later ones. In the trace's zone.
    pub eval_from: String,
    /// Today's policy.
    pub today: String,
    /// What jobs compete for: what is called GPUs here.
    pub resource: Resource,
    /// How near the replay of today comes to the record.
    pub fidelity: Fidelity,
    /// Every candidate; the first is today.
    pub candidates: Vec<QueuesCandidate>,
    /// Position of the chosen.
    pub chosen: usize,
    /// Whether to follow it: the later jobs clearly wait less, all of them run, and no VC waits longer than on nodes of its own beyond its interval.
    pub followed: bool,
    /// The later jobs.
    pub held_out: HeldOut,
    /// The front on the earlier jobs.
    pub pareto: Vec<FrontPoint>,
    /// What to set, VC by VC.
    pub vcs: Vec<VcPlan>,
    /// What to do, in a sentence.
    pub action: String,
    /// The recommendation, if a change is worth it.
    pub recommendation: Option<Recommendation>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
    /// The split, milliseconds from time 0 of the replay.
    #[serde(skip)]
    pub(super) split_ms: i64,
}

/// The JSON Schema of [`QueuesAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(QueuesAnswer).to_value()
}

impl QueuesAnswer {
    /// Plans the queues of a loaded trace, but for [what Kueue would make of it](super::plan). `done` is called after each [replay](super::search::replays).
    ///
    /// # Errors
    /// As [`search`].
    pub fn of(
        trace: &Trace,
        loaded: &Loaded,
        title: String,
        request: &QueuesRequest,
        done: &(dyn Fn() + Sync),
    ) -> Result<Self> {
        let found = search(loaded, request, done)?;
        let shares = Shares::of(&loaded.cluster)?;
        let name = |vc: usize| loaded.cluster.vcs.get(vc).map_or_else(String::new, |vc| vc.name.clone());
        let allowed: Vec<&Merit> =
            found.tried.iter().filter(|tried| tried.is_allowed()).map(|tried| &tried.earlier.merit).collect();
        let candidate = |tried: &TriedSetup| QueuesCandidate {
            sharing: tried.setup.sharing,
            policy: tried.setup.policy.describe(),
            order: order(&tried.setup.policy, &request.today),
            strict: tried.setup.policy.scan == Scan::Strict,
            allowed: tried.is_allowed(),
            wronged: tried.wronged.iter().map(|vc| name(*vc)).collect(),
            complete: tried.complete,
            earlier: tried.earlier.into(),
            later: tried.later.into(),
            on_front: tried.is_allowed() && !allowed.iter().any(|other| other.dominates(&tried.earlier.merit)),
        };
        let candidates: Vec<QueuesCandidate> = found.tried.iter().map(candidate).collect();
        let (Some(today), Some(chosen), Some(ideal)) =
            (found.tried.first(), found.tried.get(found.chosen), found.tried.get(found.hindsight))
        else {
            return Err(Error::Defect("the chosen candidate was not tried".to_owned()));
        };
        let change = found.change.differences.first();
        let worth = change.is_some_and(|change| {
            worth(-change.mean_wait_s.value, -change.mean_wait_s.high, today.later.merit.mean_wait_s)
        });
        let worse = worse(&found, &name);
        let followed =
            found.chosen > 0 && worth && chosen.cannot_run == 0 && !worse.iter().any(|worse| worse.beyond_interval);
        let sharing = if followed { chosen.setup.sharing } else { Sharing::AsToday };
        let zone = Zone::named(&trace.zone)?;
        let eval_from = zone.rfc3339(loaded.workload.origin_ms + found.split_ms);
        let nodes = loaded.cluster.largest().0;
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            notes: loaded.notes.clone(),
            eval_from,
            today: request.today.describe(),
            resource: loaded.resource,
            fidelity: found.fidelity.clone(),
            pareto: candidates
                .iter()
                .filter(|candidate| candidate.on_front)
                .map(|candidate| FrontPoint {
                    sharing: candidate.sharing,
                    policy: candidate.policy.clone(),
                    earlier: candidate.earlier,
                    later: candidate.later,
                })
                .collect(),
            candidates,
            chosen: found.chosen,
            followed,
            held_out: HeldOut {
                today: today.later.into(),
                recommended: chosen.later.into(),
                private: found.private.into(),
                hindsight: ideal.later.into(),
                mean_wait_change_s: change.map(|change| change.mean_wait_s),
                p95_wait_change_s: change.map(|change| change.p95_wait_s),
                worse,
                nodes,
                nodes_instead: found.nodes_instead,
                cannot_run: chosen.cannot_run as u64,
                stopped: chosen.stopped as u64,
                lost_gpu_hours: chosen.lost_gpu_hours,
                under_kueue: None,
            },
            vcs: vcs(loaded, &shares, &found, sharing),
            action: String::new(),
            recommendation: None,
            sources: trace.sources.clone(),
            split_ms: found.split_ms,
        };
        answer.action = answer.act();
        if answer.followed
            && let Some(change) = change
        {
            answer.recommendation = Some(answer.recommended(change, &found));
        }
        Ok(answer)
    }

    /// The candidate that was chosen.
    pub fn setup(&self) -> Option<&QueuesCandidate> {
        self.candidates.get(self.chosen)
    }

    /// The candidate with this sharing and policy.
    fn beside(&self, sharing: Sharing, policy: &str) -> Option<&QueuesCandidate> {
        self.candidates.iter().find(|of| of.sharing == sharing && of.policy == policy)
    }

    /// The sharing that was chosen, in today's order.
    pub(super) fn sharing_alone(&self) -> Option<&QueuesCandidate> {
        self.beside(self.setup()?.sharing, &self.today)
    }

    fn act(&self) -> String {
        let Some(setup) = self.setup().filter(|_| self.followed) else {
            let why = if self.chosen == 0 {
                "no way to share that wrongs no VC was better on the earlier jobs"
            } else if self.held_out.cannot_run > 0 {
                "under what was best on the earlier jobs, some later ones could not run"
            } else if self.held_out.worse.iter().any(|worse| worse.beyond_interval) {
                "what was best on the earlier jobs made a VC wait longer on the later ones than nodes of its own"
            } else {
                "what was best on the earlier jobs was not clearly better on the later ones"
            };
            return format!("**Change nothing**: {why}.");
        };
        let share = match setup.sharing {
            Sharing::AsToday | Sharing::Private => String::new(),
            Sharing::Borrowing { ceiling, reclaim } => format!(
                "**Put all VCs on one pool of nodes, and serve each first up to its own share**; {}{}",
                ceiling.map_or_else(
                    || "what is idle, anyone may borrow".to_owned(),
                    |ceiling| format!("let it use up to {ceiling} times that share")
                ),
                if reclaim {
                    ", and stop jobs that borrow, the last started first, when a VC needs its share"
                } else {
                    ""
                }
            ),
            Sharing::OnePool => "**Put all VCs on one pool of nodes**, without shares".to_owned(),
        };
        match (share.is_empty(), setup.policy == self.today) {
            (false, true) => format!("{share}."),
            (false, false) => format!("{share}. Change the order of jobs: {}.", setup.order),
            (true, _) => format!("**Change the order of jobs**: {}. Leave the nodes as they are.", setup.order),
        }
    }

    fn recommended(&self, change: &Difference, found: &SearchOutcome) -> Recommendation {
        let interval = format!(
            "95 %, moving-block bootstrap over {} later jobs in blocks of {}",
            format::count(found.change.jobs),
            format::count(found.change.block_jobs)
        );
        let today = self.held_out.today.mean_wait_s;
        let naive = self.beside(Sharing::OnePool, &self.today).map(|pool| pool.later.mean_wait_s - today);
        let mut harmed = vec![Harm {
            who: format!("{} of the jobs", format::percent(change.more_wait_share)),
            how_much: format!("wait longer, {} less", format::percent(change.less_wait_share)),
        }];

        harmed.extend(self.held_out.stops().map(|stops| Harm { who: "Those that borrow".to_owned(), how_much: stops }));
        Recommendation {
            plan: "queues".to_owned(),
            action: self.action.clone(),
            effects: vec![
                Effect::of("Mean wait of a job", "s", &change.mean_wait_s, &interval),
                Effect::of("95 % quantile of the wait", "s", &change.p95_wait_s, &interval),
            ],
            against: format!("the cluster as it is, {}", self.today),
            basis: Basis::LaterDays,
            regret: found.change.differences.get(1).map(|ideal| Regret {
                oracle: "the best of what was allowed, seen with hindsight".to_owned(),
                oracle_change: ideal.mean_wait_s.value,
                naive_change: naive,
                naive: naive.map(|_| "one pool without shares".to_owned()),
            }),
            harmed,
            confidence: if self.fidelity.is_close() { Confidence::Medium } else { Confidence::Low },
            risk: format!("{} One later stretch was tested.", self.fidelity.sentence()),
            assumptions: vec![
                "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
                "Any job may run on any node with the GPU type it asks for: data and promises are near all of them."
                    .to_owned(),
                match self.setup().map(|setup| setup.sharing) {
                    Some(Sharing::Borrowing { reclaim: true, .. }) => {
                        "A job that is stopped begins anew, or from its last checkpoint where --checkpoint says how often it writes one; what it lost counts as waiting."
                    }
                    _ => "Nobody is stopped so that a VC gets back what is its own: it waits for jobs that borrowed to end.",
                }
                .to_owned(),
            ],
            holds_until: "Shares, nodes or the mix of jobs change; make the plan again every month.".to_owned(),
            apply: "Make the same plan with --emit slurm (or kueue, kai, volcano) --emit-to FOLDER, and read the files before you apply them.".to_owned(),
            command: None,
            undo: "Give every VC its own nodes again: save the partitions or queues that there are before you apply the files, and put them back."
                .to_owned(),
        }
    }
}

/// A policy as it differs from today's.
fn order(policy: &Policy, today: &Policy) -> String {
    let known = match policy.estimate {
        Estimate::True => "known",
        Estimate::Requested => "requested",
        Estimate::Predicted => "predicted",
    };
    if policy == today {
        "as today".to_owned()
    } else if policy.order == today.order {
        format!("EASY backfill by {known} runs")
    } else {
        format!("shortest {known} run first")
    }
}

/// VCs whose 95 % quantile is longer than on nodes of their own.
fn worse(found: &SearchOutcome, name: &dyn Fn(usize) -> String) -> Vec<WorseVc> {
    let of = |of: &super::search::VcOutcome| {
        let change = of.change.as_ref()?.p95_wait_s;
        (change.value > 0.0).then(|| WorseVc {
            vc: name(of.vc),
            jobs: of.chosen.jobs as u64,
            p95_wait_s: of.chosen.merit.p95_wait_s,
            private_p95_wait_s: of.private.merit.p95_wait_s,
            beyond_interval: change.low > 0.0,
        })
    };
    found.by_vc.iter().filter_map(of).collect()
}

fn vcs(loaded: &Loaded, shares: &Shares, found: &SearchOutcome, sharing: Sharing) -> Vec<VcPlan> {
    let cluster = &loaded.cluster;
    let apart = is_private(cluster);
    let mut largest = vec![0.0; cluster.vcs.len()];
    for (job, vc) in loaded.workload.vc.iter().enumerate() {
        if let Some(largest) = largest.get_mut(usize::from(*vc)) {
            *largest = f64::max(*largest, loaded.workload.shape_of(job).as_gpus());
        }
    }
    let plan = |at: usize| {
        let vc = cluster.vcs.get(at)?;
        let own_gpus = shares.gpus_at(at, i64::MAX);
        let own = match cluster.pools.get(usize::from(vc.pool)).filter(|_| apart) {
            None => vec![OwnGpus { gpu_type: None, gpus: own_gpus }],
            Some(pool) => pool
                .groups
                .iter()
                .map(|group| OwnGpus {
                    gpu_type: group.gpu_type.and_then(|at| cluster.gpu_types.get(usize::from(at)).cloned()),
                    gpus: f64::from(group.sizes.last().map_or(0, |(_, nodes)| *nodes)) * f64::from(group.gpus_per_node),
                })
                .collect(),
        };
        let later = found.by_vc.iter().find(|of| of.vc == at);
        Some(VcPlan {
            vc: vc.name.clone(),
            own_gpus,
            largest_job_gpus: largest.get(at).copied().unwrap_or(0.0),
            own,
            most_gpus: match sharing {
                Sharing::Borrowing { ceiling: Some(ceiling), .. } => Some(ceiling_of(own_gpus, ceiling)),
                Sharing::AsToday | Sharing::Private if cluster.is_alone(vc) => Some(own_gpus),
                Sharing::AsToday | Sharing::Private => vc.quota_milli.last().map(|(_, milli)| *milli as f64 / 1e3),
                Sharing::Borrowing { ceiling: None, .. } | Sharing::OnePool => None,
            },
            today: later.map(|of| of.today.into()),
            private: later.map(|of| of.private.into()),
            recommended: later.map(|of| of.chosen.into()),
            p95_wait_change_s: later.and_then(|of| of.change.as_ref()).map(|change| change.p95_wait_s),
        })
    };
    (0..cluster.vcs.len()).filter_map(plan).collect()
}
