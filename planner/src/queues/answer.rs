//! The answer of `plan queues`: what was tried, what was chosen, what it did to later jobs, and what to set from now on.
//!
//! O(candidates + VCs). Worked example: a VC with 96 GPUs of its own and a ceiling of 1.5 is to be guaranteed 96 GPUs and may use 144.

pub(super) mod advise;
mod alike;
mod grown;
mod outcome;
mod render;
mod vc;

pub use grown::{GrownCandidate, QueuesUnderGrowth};
pub use outcome::ObjectiveOutcome;
pub use render::report;
pub use vc::{OwnGpus, VcPlan};

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use super::objective::{JobWaits, Objective};
use super::search::{Ablated, QueuesRequest, SearchOutcome, TriedSetup};
use super::setup::{QueueChange, Setup, plans_by_limits, predicted_alike_s};
use super::share::{Shares, Sharing, ShortQueue};
use crate::error::Result;
use crate::plan::answer::Answer;
use crate::queues::pooling::theory::{PoolingCheck, VcQueue};
use crate::replay::compare::IntervalEstimate;
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::replay::metric::OfferedLoads;
use crate::sim::Scan;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-queues/3";

/// Suffix of the name of a queue of short jobs, after its VC.
pub(super) const SHORT_SUFFIX: &str = "-short";

/// How much of its own share each queue lends at most, and what the earlier jobs do under Kueue's admission.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LendingTried {
    /// The part of the share; 1 is all, without a limit.
    pub part: f64,
    /// Cost by the objective; today's is 1.
    pub cost: f64,
    /// Whether it wrongs no VC, and runs every job that runs today.
    pub allowed: bool,
    /// VCs that wait longer than on nodes of their own in a half of the earlier time.
    pub wronged: Vec<String>,
    /// Waits of the earlier jobs.
    pub earlier: WaitOf,
}

/// The later jobs under Kueue's admission, with the quotas of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UnderKueue {
    /// How much of its own share each queue lends at most (`lendingLimit`): a limit is set where it is clearly better on the earlier jobs, or without it a VC is wronged. None is no limit.
    pub lends: Option<f64>,
    /// The limits that were tried on the earlier jobs, none first; empty where queues do not borrow.
    pub lending: Vec<LendingTried>,
    /// Waits of the later jobs, with that limit.
    pub later: WaitOf,
    /// Later jobs that are stopped for others.
    pub stopped: u64,
    /// GPU time that those hold beyond their runs, GPU-hours.
    pub lost_gpu_hours: f64,
}

/// Waits of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WaitOf {
    /// Jobs.
    pub jobs: u64,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: f64,
    /// Median of the wait, seconds.
    pub median_wait_s: f64,
}

impl From<JobWaits> for WaitOf {
    fn from(of: JobWaits) -> Self {
        Self {
            jobs: of.jobs as u64,
            mean_wait_s: of.merit.mean_wait_s,
            p95_wait_s: of.merit.p95_wait_s,
            median_wait_s: of.median_wait_s,
        }
    }
}

/// A way to share with a policy, and how it did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesCandidate {
    /// How nodes are shared.
    pub sharing: Sharing,
    /// Scheduling policy in words.
    pub policy: String,
    /// Order in which jobs are served, where it differs from today's.
    pub order: String,
    /// How far the sizes of shares are moved from today's (0) to what the VCs asked for in the earlier time (1).
    pub shares_moved: f64,
    /// Part of each share that is kept for short jobs.
    pub short_queue: Option<ShortQueue>,
    /// Changes from today.
    pub changes: Vec<QueueChange>,
    /// Round of the search that it came up in; 0 for the list.
    pub round: u64,
    /// Cost in the earlier time by the objective; today's is 1.
    pub cost: f64,
    /// Cost in each third of that time with at least 20 jobs.
    pub cost_by_window: Vec<f64>,
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
    /// The setup itself.
    #[serde(skip)]
    pub(super) setup: Setup,
}

/// The chosen with one change taken back.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesAblation {
    /// Change that is taken back.
    pub change: QueueChange,
    /// Whether what is left could have been chosen on today's demand.
    pub allowed: bool,
    /// Draws of more work in which it could have been; none where the chosen need not hold for more work.
    pub allowed_draws: Option<u64>,
    /// Cost without the change in the earlier time; today's is 1.
    pub cost: f64,
    /// Waits of the earlier jobs.
    pub earlier: WaitOf,
    /// Waits of the later jobs.
    pub later: WaitOf,
}

/// A VC that waited longer on the later jobs than on nodes of its own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorseVc {
    /// Name of the VC.
    pub vc: String,
    /// Number of its jobs.
    pub jobs: u64,
    /// 95 % quantile of its wait as chosen, seconds.
    pub p95_wait_s: f64,
    /// 95 % quantile of the wait on private nodes, seconds.
    pub private_p95_wait_s: f64,
    /// Whether the 95 % interval of the difference leaves out none.
    pub beyond_interval: bool,
}

/// The test on the later jobs, which nothing was chosen on. It goes job by job, so it is no
/// [`Trial`](crate::plan::trial::Trial) of amounts by window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesTrial {
    /// The split: jobs submitted from here on are the later ones. In the trace's zone.
    pub eval_from: String,
    /// How near the replay of today comes to the record.
    pub fidelity: Fidelity,
    /// Waits on the cluster as it is today.
    #[serde(rename = "static")]
    pub today: WaitOf,
    /// Waits under the chosen setup.
    pub recommended: WaitOf,
    /// Each VC on nodes of its own, under today's policy.
    pub private: WaitOf,
    /// The best of the allowed candidates that run all jobs, seen with hindsight.
    pub oracle: WaitOf,
    /// Mean of a job's wait as chosen less its wait today, seconds; none if no job ran under both.
    pub mean_wait_change_s: Option<IntervalEstimate>,
    /// 95 % quantile of the wait as chosen less that of today, seconds.
    pub p95_wait_change_s: Option<IntervalEstimate>,
    /// VCs with at least 20 jobs whose 95 % quantile is longer than on nodes of their own.
    pub worse: Vec<WorseVc>,
    /// Nodes there are when the last job comes.
    pub nodes: u64,
    /// Whether their number changes over the record.
    pub nodes_change: bool,
    /// Nodes, counted at the same moment, that the mean wait of the chosen would need with everything else as today; none if four times as many would not do, nodes fail in the trace,
    /// or the chosen waits no less.
    pub nodes_instead: Option<u64>,
    /// Later jobs that run today and could not run as chosen.
    pub cannot_run: u64,
    /// Later jobs that are stopped for others as chosen.
    pub stopped: u64,
    /// GPU time that those hold beyond their runs, GPU-hours: work that is lost, or done twice.
    pub lost_gpu_hours: f64,
    /// Other measures of the objective.
    pub objective: ObjectiveOutcome,
    /// The jobs as Kueue itself would admit them, with the quotas that are written for it; none
    /// where nothing is written.
    pub under_kueue: Option<UnderKueue>,
}

impl QueuesTrial {
    /// How much of its own share each queue of Kueue lends at most.
    pub(super) fn lends(&self) -> Option<f64> {
        self.under_kueue.as_ref()?.lends
    }

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
    /// Changes from today.
    pub changes: Vec<QueueChange>,
    /// Waits of the earlier jobs.
    pub earlier: WaitOf,
    /// Waits of the later jobs.
    pub later: WaitOf,
    /// Mean of a later job's wait less its wait today, seconds, with its 95 % interval; none if no job ran under both.
    pub mean_wait_change_s: Option<IntervalEstimate>,
    /// 95 % quantile of the later jobs' wait less that of today, seconds, with its 95 % interval.
    pub p95_wait_change_s: Option<IntervalEstimate>,
}

/// The answer. It is advised if the later jobs clearly wait less, cost less by the objective, all
/// run, and make no VC wait longer than on nodes of its own beyond its interval.
pub type QueuesAnswer = Answer<QueuesTrial, QueuesBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesBody {
    /// Assumptions about the nodes, repeated in the files that are written.
    pub assumed: Vec<String>,
    /// Today's policy.
    pub today: String,
    /// What jobs compete for: what is called GPUs here.
    pub resource: Resource,
    /// Objective to minimise.
    pub objective: Objective,
    /// Every candidate; the first is today.
    pub candidates: Vec<QueuesCandidate>,
    /// Position of what the list alone would have chosen.
    pub list_choice: usize,
    /// Position of the best on the earlier jobs.
    pub best: usize,
    /// Position of the chosen: of the ways that the best is no better than by more than chance on the later jobs, the simplest.
    pub chosen: usize,
    /// The chosen without each of its changes, that which matters most on the later jobs first.
    pub ablation: Vec<QueuesAblation>,
    /// Effect of more work on the setups that were tried; none where growth was not asked for.
    pub growth: Option<QueuesUnderGrowth>,
    /// Queueing theory on one pool, beside the replays; none where too few jobs come to tell.
    pub pooling: Option<PoolingCheck>,
    /// Offered load of the whole record: GPU time that all jobs ask for, each run whole, over what all nodes have from the first to the last submission, or for as long as the longest run if that is more;
    /// none where all come at one moment.
    pub offered_load: Option<f64>,
    /// The front on the earlier jobs.
    pub pareto: Vec<FrontPoint>,
    /// Settings by VC.
    pub vcs: Vec<VcPlan>,
    /// Waits of the later jobs with all of the chosen but its order, backfill and placement; none if these are today's.
    pub in_todays_order: Option<WaitOf>,
    /// Whether that could have been chosen: no VC waits longer than on nodes of its own, and every job runs that runs today; the same under more work, if the chosen has to hold for it.
    pub in_todays_order_allowed: Option<bool>,
    /// GPU time that each VC asked for in the earlier time, GPU-seconds.
    #[serde(skip)]
    pub(super) asked_gpu_s: Vec<f64>,
    /// The split, milliseconds from time 0 of the replay.
    #[serde(skip)]
    pub(super) split_ms: i64,
}

/// The JSON Schema of [`QueuesAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(QueuesAnswer).to_value()
}

impl QueuesBody {
    /// What was tried and chosen, with `set` in force from now on.
    pub(super) fn new(loaded: &Loaded, request: &QueuesRequest, result: &SearchOutcome, set: &Setup) -> Result<Self> {
        let shares = Shares::new(&loaded.cluster)?;
        let alike_s = predicted_alike_s(&loaded.workload);
        let name = |vc: usize| loaded.cluster.vc_name(vc);
        let candidate = |(at, tried): (usize, &TriedSetup)| {
            let TriedSetup { setup, earlier, later, round } = tried;
            QueuesCandidate {
                sharing: setup.sharing,
                policy: setup.policy.describe(),
                order: advise::order(&setup.policy, &request.today, alike_s),
                shares_moved: setup.moved,
                short_queue: setup.short,
                changes: setup.changes(&request.today),
                round: *round as u64,
                cost: earlier.cost,
                cost_by_window: earlier.by_window.clone(),
                strict: setup.policy.scan == Scan::Strict,
                allowed: tried.is_allowed(),
                wronged: earlier.wronged.iter().map(|vc| name(*vc)).collect(),
                complete: earlier.complete,
                earlier: earlier.waits.into(),
                later: later.waits.into(),
                on_front: result.front.iter().any(|of| of.at == at),
                setup: setup.clone(),
            }
        };
        let candidates: Vec<QueuesCandidate> = result.tried.iter().enumerate().map(candidate).collect();
        let ablated = |ablated: &Ablated| {
            Some(QueuesAblation {
                change: ablated.change?,
                allowed: ablated.without.is_allowed(),
                allowed_draws: ablated.grown.as_ref().map(|grown| grown.allowed_draws() as u64),
                cost: ablated.without.earlier.cost,
                earlier: ablated.without.earlier.waits.into(),
                later: ablated.without.later.waits.into(),
            })
        };
        let mut ablation: Vec<QueuesAblation> = result.ablated.iter().filter_map(ablated).collect();
        ablation.sort_by(|a, b| b.later.mean_wait_s.total_cmp(&a.later.mean_wait_s).then(a.change.cmp(&b.change)));
        let in_todays_order = result.ablated.iter().find(|ablated| ablated.change.is_none());
        let (_, all_gpus) = loaded.cluster.largest();
        // What asks for more than all nodes have never runs.
        let can_run = |job: usize| loaded.workload.shape_of(job).as_gpus() <= all_gpus as f64;
        let offered = OfferedLoads::new(&loaded.workload, &loaded.cluster, can_run);
        let on_front = result.front.iter().filter_map(|of| Some((candidates.get(of.at)?, of.change.as_ref())));
        let pareto = on_front.map(|(candidate, change)| FrontPoint {
            sharing: candidate.sharing,
            policy: candidate.policy.clone(),
            changes: candidate.changes.clone(),
            earlier: candidate.earlier,
            later: candidate.later,
            mean_wait_change_s: change.map(|change| change.mean_wait_s),
            p95_wait_change_s: change.map(|change| change.p95_wait_s),
        });
        let growth = request.growth.as_ref().zip(result.grown.as_ref());
        let pooled = alone(&candidates, Sharing::OnePool).map(|pool| pool.later.mean_wait_s);
        Ok(Self {
            assumed: loaded.assumed.clone(),
            today: request.today.describe(),
            resource: loaded.resource,
            objective: request.objective.clone(),
            pareto: pareto.collect(),
            list_choice: result.of_list,
            best: result.best,
            chosen: result.chosen,
            ablation,
            in_todays_order: in_todays_order.map(|ablated| ablated.without.later.waits.into()),
            in_todays_order_allowed: in_todays_order.map(Ablated::is_allowed),
            asked_gpu_s: result.asked_gpu_s.clone(),
            growth: growth.and_then(|(growth, result)| QueuesUnderGrowth::new(growth, result, &name)),
            pooling: pooled.and_then(|pooled| pooling(loaded, &shares, result, pooled)),
            offered_load: offered.as_ref().and_then(|offered| offered.load),
            vcs: vc::plans(loaded, &shares, (result, offered.as_ref()), set),
            split_ms: result.split_ms,
            candidates,
        })
    }

    /// The candidate that was chosen.
    pub fn setup(&self) -> Option<&QueuesCandidate> {
        self.candidates.get(self.chosen)
    }

    /// How the chosen shares nodes, if they are shared at all.
    pub(super) fn shares(&self) -> Option<Sharing> {
        let sharing = self.setup()?.sharing;
        (!matches!(sharing, Sharing::AsToday | Sharing::Private)).then_some(sharing)
    }

    /// The candidate of the list with this sharing and today's policy.
    fn sharing_alone(&self, sharing: Sharing) -> Option<&QueuesCandidate> {
        alone(&self.candidates, sharing)
    }

    /// Whether today is a backfill by time limits.
    pub(crate) fn today_is_by_limits(&self) -> bool {
        self.candidates.first().is_some_and(|today| plans_by_limits(&today.setup.policy))
    }

    /// The queues to be set up: each VC, or, with a queue of short jobs, what is left of its share and what is kept.
    pub(super) fn queues(&self) -> Vec<VcPlan> {
        let ceiling = match self.setup().map(|setup| setup.sharing) {
            Some(Sharing::Borrowing { ceiling, .. }) => ceiling,
            _ => None,
        };
        let parts = |vc: &VcPlan| match vc.short_gpus {
            None => vec![vc.clone()],
            Some(kept) => {
                let mut short = vc.part(SHORT_SUFFIX, kept, ceiling);
                short.largest_job_gpus = short.largest_job_gpus.min(kept);
                vec![vc.part("", vc.own_gpus - kept, ceiling), short]
            }
        };
        self.vcs.iter().flat_map(parts).collect()
    }
}

/// The candidate with this sharing and today's policy, that of the first.
fn alone(candidates: &[QueuesCandidate], sharing: Sharing) -> Option<&QueuesCandidate> {
    let wanted = Setup::new(sharing, candidates.first()?.setup.policy.clone());
    candidates.iter().find(|of| of.setup == wanted)
}

/// What queueing theory says of one pool on which the later jobs wait `pooled_s` on average.
fn pooling(loaded: &Loaded, shares: &Shares, result: &SearchOutcome, pooled_s: f64) -> Option<PoolingCheck> {
    let last = loaded.workload.submit_ms.last().copied()?;
    let middle = i64::midpoint(result.split_ms, last);
    let waits = |vc: usize| result.by_vc.iter().find(|of| of.vc == vc).map(|of| of.private.merit.mean_wait_s);
    let vcs: Vec<VcQueue<'_>> = (0..)
        .zip(&loaded.cluster.vcs)
        .map(|(at, vc)| VcQueue { name: &vc.name, gpus: shares.gpus_at(at, middle), replayed_mean_wait_s: waits(at) })
        .collect();
    let replayed_s = [WaitOf::from(result.private).mean_wait_s, pooled_s];
    PoolingCheck::of(&loaded.workload, &vcs, (result.split_ms, last + 1), replayed_s)
}
