//! The answer of `plan queues`: what was tried, what was chosen, what it did to later jobs, and what to set from now on.
//!
//! O(candidates + VCs). Worked example: a VC with 96 GPUs of its own and a ceiling of 1.5 is to be guaranteed 96 GPUs and may use 144.

mod advise;
mod alike;
mod grown;
mod outcome;
mod render;
mod vc;

pub use grown::{GrownCandidate, QueuesUnderGrowth};
pub use outcome::ObjectiveOutcome;
pub use vc::{OwnGpus, VcPlan};

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::SourceRecord;

use super::journal::SearchRun;
use super::objective::{JobWaits, Objective};
use super::search::{Ablated, QueuesRequest, SearchOutcome, TriedSetup, VcOutcome, last_ms, search};
use super::setup::{QueueChange, Setup, plans_by_limits, predicted_alike_s};
use super::share::{Shares, Sharing, ShortQueue};
use crate::error::{Error, Result};
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Confidence, Recommendation, WORTH};
use crate::queues::pooling::theory::{PoolingCheck, VcQueue};
use crate::replay::answer::KnownByRun;
use crate::replay::compare::IntervalEstimate;
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::replay::metric::OfferedLoads;
use crate::sim::{Group, Policy, Scan};

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-queues/2";

/// What a queue of short jobs is called, after its VC.
pub(super) const SHORT_SUFFIX: &str = "-short";

/// How much of its own share each queue lends at most, and what the earlier jobs do under Kueue's admission.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LendingTried {
    /// The part of the share; 1 is all, without a limit.
    pub part: f64,
    /// What it costs, by the objective: of today's 1.
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
    /// In which order jobs are served.
    pub policy: String,
    /// The same, as it differs from today.
    pub order: String,
    /// How far the sizes of shares are moved from today's (0) to what the VCs asked for in the earlier time (1).
    pub shares_moved: f64,
    /// What of each share is kept for short jobs.
    pub short_queue: Option<ShortQueue>,
    /// What is changed from today.
    pub changes: Vec<QueueChange>,
    /// Round of the search that it came up in; 0 for the list.
    pub round: u64,
    /// What it costs in the earlier time, by the objective: of today's 1.
    pub cost: f64,
    /// The same in each third of that time with at least 20 jobs.
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
    /// What is taken back.
    pub change: QueueChange,
    /// Whether what is left could have been chosen on today's demand.
    pub allowed: bool,
    /// Draws of more work in which it could have been; none where the chosen need not hold for more work.
    pub allowed_draws: Option<u64>,
    /// What is left costs so much in the earlier time, of today's 1.
    pub cost: f64,
    /// Waits of the earlier jobs.
    pub earlier: WaitOf,
    /// Waits of the later jobs.
    pub later: WaitOf,
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
    /// What those hold beyond their runs, GPU-hours: work that is lost, or done twice.
    pub lost_gpu_hours: f64,
    /// What else the objective looks at.
    pub objective: ObjectiveOutcome,
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
    /// What is changed from today.
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

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesAnswer {
    /// Version of this form.
    pub schema: String,
    /// What was planned for.
    pub title: String,
    /// What to do, in a sentence.
    pub action: String,
    /// Whether the chosen is advised: the later jobs clearly wait less, they cost less by the objective, all of them run, and no VC waits longer than on nodes of its own beyond its interval.
    pub verdict: Verdict,
    /// How sure it is, also where it changes nothing.
    pub assurance: Assurance,
    /// What has to be known before anything else, in words: that the replay is far from the record, what is left out of it, that its nodes are a guess. Empty where there is nothing of the kind.
    pub cautions: Vec<String>,
    /// What was assumed, in words.
    pub notes: Vec<String>,
    /// What of that is taken for granted of the nodes, and is told with what is emitted.
    pub assumed: Vec<String>,
    /// The split: jobs submitted from here on are the later ones. In the trace's zone.
    pub eval_from: String,
    /// Today's policy.
    pub today: String,
    /// What jobs compete for: what is called GPUs here.
    pub resource: Resource,
    /// How near the replay of today comes to the record.
    pub fidelity: Fidelity,
    /// What was to be short.
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
    /// The later jobs.
    pub held_out: HeldOut,
    /// What more work would do to the ways that were tried; none where growth was not asked for.
    pub growth: Option<QueuesUnderGrowth>,
    /// What queueing theory says of one pool, beside the replays; none where too few jobs come to tell.
    pub pooling: Option<PoolingCheck>,
    /// Offered load of the whole record: GPU time that all jobs ask for, each run whole, over what all nodes have from the first to the last submission, or for as long as the longest run if that is more;
    /// none where all come at one moment.
    pub offered_load: Option<f64>,
    /// The front on the earlier jobs.
    pub pareto: Vec<FrontPoint>,
    /// What to set, VC by VC.
    pub vcs: Vec<VcPlan>,
    /// The recommendation, if a change is worth it.
    pub recommendation: Option<Recommendation>,
    /// Waits of the later jobs with all of the chosen but its order, backfill and placement; none if these are today's.
    pub in_todays_order: Option<WaitOf>,
    /// Whether that could have been chosen: no VC waits longer than on nodes of its own, and every job runs that runs today; the same under more work, if the chosen has to hold for it.
    pub in_todays_order_allowed: Option<bool>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
    /// GPU time that each VC asked for in the earlier time, GPU-seconds.
    #[serde(skip)]
    pub(super) asked_gpu_s: Vec<f64>,
    /// The split, milliseconds from time 0 of the replay.
    #[serde(skip)]
    pub(super) split_ms: i64,
}

/// What the answer was tested on, and why it is `unsure` all the same; where the replay is not close to what happened, a caution says so.
fn tested_in_words(fidelity: &Fidelity, unsure: Option<&str>) -> String {
    let close = fidelity.is_close().then(|| fidelity.sentence());
    let said = close.iter().map(String::as_str).chain(["One later stretch was tested."]).chain(unsure);
    said.collect::<Vec<_>>().join(" ")
}

/// The JSON Schema of [`QueuesAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(QueuesAnswer).to_value()
}

impl QueuesAnswer {
    /// Plans the queues of a loaded trace, but for [what Kueue would make of it](super::plan).
    ///
    /// # Errors
    /// As [`search`].
    pub fn of(
        trace: &Trace,
        loaded: &Loaded,
        title: String,
        request: &QueuesRequest,
        run: SearchRun<'_>,
    ) -> Result<Self> {
        let found = search(loaded, request, run)?;
        let shares = Shares::of(&loaded.cluster)?;
        let alike_s = predicted_alike_s(&loaded.workload);
        let name = |vc: usize| loaded.cluster.vcs.get(vc).map_or_else(String::new, |vc| vc.name.clone());
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
                on_front: found.front.iter().any(|of| of.at == at),
                setup: setup.clone(),
            }
        };
        let candidates: Vec<QueuesCandidate> = found.tried.iter().enumerate().map(candidate).collect();
        let (Some(today), Some(chosen), Some(ideal)) =
            (found.tried.first(), found.tried.get(found.chosen), found.tried.get(found.hindsight))
        else {
            return Err(Error::defect("the chosen candidate was not tried".to_owned()));
        };
        let change = found.change.differences.first();
        let base = today.later.waits.merit;
        let objective = &request.objective;
        let worse = worse(&found, &name);
        // On sizes that are not those of today nothing is to be changed.
        let verdict = if loaded.of_another_time.is_some() {
            Verdict::SizesUnknown
        } else if found.chosen == 0 {
            Verdict::NothingBetter
        } else if found.is_followed {
            Verdict::Advised
        } else if chosen.later.cannot_run > 0 || worse.iter().any(|worse| worse.beyond_interval) {
            Verdict::LimitMissed
        } else {
            Verdict::NoSaving
        };
        let followed = verdict == Verdict::Advised;
        let in_reach = |change: &IntervalEstimate, base: f64| change.low <= -WORTH * base && change.high > 0.0;
        let unsure = match change {
            _ if !objective.is_of_waits() && followed => {
                Some("Of what was asked for there is no interval, so it may be chance.")
            }
            Some(change) if !followed && in_reach(&change.mean_wait_s, base.mean_wait_s) => Some(
                "The interval of the mean wait holds no change, and also a gain that would be worth it: more days may say otherwise.",
            ),
            _ => None,
        };
        let tested = if unsure.is_some() { Confidence::Low } else { Confidence::Medium };
        let set = if followed { chosen.setup.clone() } else { today.setup.clone() };
        let mut ablation: Vec<QueuesAblation> = found
            .ablated
            .iter()
            .filter_map(|ablated| {
                Some(QueuesAblation {
                    change: ablated.change?,
                    allowed: ablated.without.is_allowed(),
                    allowed_draws: ablated.grown.as_ref().map(|grown| grown.allowed_draws() as u64),
                    cost: ablated.without.earlier.cost,
                    earlier: ablated.without.earlier.waits.into(),
                    later: ablated.without.later.waits.into(),
                })
            })
            .collect();
        ablation.sort_by(|a, b| b.later.mean_wait_s.total_cmp(&a.later.mean_wait_s).then(a.change.cmp(&b.change)));
        let in_todays_order = found.ablated.iter().find(|ablated| ablated.change.is_none());
        let zone = Zone::named(&trace.zone)?;
        let origin_ms = loaded.workload.origin_ms;
        let eval_from = trace.moment(&zone, origin_ms + found.split_ms, origin_ms);
        let (_, all_gpus) = loaded.cluster.largest();
        let groups = || loaded.cluster.pools.iter().flat_map(|pool| &pool.groups);
        // Sizes from before the first job and after the last are not of the record.
        let (first, last) = (loaded.workload.submit_ms.first().copied().unwrap_or(0), last_ms(&loaded.workload));
        let changes = |group: &Group| {
            let other = |(from, nodes): &(i64, u32)| (first..=last).contains(from) && *nodes != group.nodes_at(first);
            group.sizes.iter().any(other)
        };
        // What asks for more than all nodes have never runs.
        let can_run = |job: usize| loaded.workload.shape_of(job).as_gpus() <= all_gpus as f64;
        let offered = OfferedLoads::of(&loaded.workload, &loaded.cluster, can_run);
        // What the ground lacks comes first: a replay may be far from the record for want of it.
        let cautions: Vec<String> =
            loaded.cautions.iter().cloned().chain(found.fidelity.reservation(&request.today)).collect();
        let mut answer = Self {
            schema: SCHEMA.to_owned(),
            title,
            notes: loaded.notes.iter().cloned().chain(KnownByRun::note(&request.today, &loaded.workload)).collect(),
            assumed: loaded.assumed.clone(),
            eval_from,
            today: request.today.describe(),
            resource: loaded.resource,
            objective: request.objective.clone(),
            fidelity: found.fidelity.clone(),
            pareto: found
                .front
                .iter()
                .filter_map(|of| Some((candidates.get(of.at)?, of.change.as_ref())))
                .map(|(candidate, change)| FrontPoint {
                    sharing: candidate.sharing,
                    policy: candidate.policy.clone(),
                    changes: candidate.changes.clone(),
                    earlier: candidate.earlier,
                    later: candidate.later,
                    mean_wait_change_s: change.map(|change| change.mean_wait_s),
                    p95_wait_change_s: change.map(|change| change.p95_wait_s),
                })
                .collect(),
            candidates,
            list_choice: found.of_list,
            best: found.best,
            chosen: found.chosen,
            ablation,
            in_todays_order: in_todays_order.map(|ablated| ablated.without.later.waits.into()),
            in_todays_order_allowed: in_todays_order.map(Ablated::is_allowed),
            asked_gpu_s: found.asked_gpu_s.clone(),
            verdict,
            held_out: HeldOut {
                today: today.later.waits.into(),
                recommended: chosen.later.waits.into(),
                private: found.private.into(),
                hindsight: ideal.later.waits.into(),
                mean_wait_change_s: change.map(|change| change.mean_wait_s),
                p95_wait_change_s: change.map(|change| change.p95_wait_s),
                worse,
                nodes: loaded.cluster.nodes_at(last_ms(&loaded.workload)),
                nodes_change: groups().any(changes),
                nodes_instead: found.nodes_instead,
                cannot_run: chosen.later.cannot_run as u64,
                stopped: chosen.later.stopped as u64,
                lost_gpu_hours: chosen.later.lost_gpu_hours,
                objective: ObjectiveOutcome::of(today, chosen),
                under_kueue: None,
            },
            growth: request
                .growth
                .as_ref()
                .zip(found.grown.as_ref())
                .and_then(|(growth, found)| QueuesUnderGrowth::of(growth, found, &name)),
            pooling: None,
            offered_load: offered.as_ref().and_then(|offered| offered.load),
            vcs: vc::plans(loaded, &shares, (&found, offered.as_ref()), &set),
            action: String::new(),
            assurance: Assurance::lowered(tested, cautions.clone(), &tested_in_words(&found.fidelity, unsure)),
            cautions,
            recommendation: None,
            sources: trace.sources.clone(),
            split_ms: found.split_ms,
        };
        answer.action = answer.act();
        let pooled = answer.sharing_alone(Sharing::OnePool).map(|pool| pool.later.mean_wait_s);
        answer.pooling = pooled.and_then(|pooled| {
            let last = loaded.workload.submit_ms.last().copied()?;
            let middle = i64::midpoint(found.split_ms, last);
            let alone = |vc: usize| found.by_vc.iter().find(|of| of.vc == vc).map(|of| of.private.merit.mean_wait_s);
            let vcs: Vec<VcQueue<'_>> = (0..)
                .zip(&loaded.cluster.vcs)
                .map(|(at, vc)| VcQueue {
                    name: &vc.name,
                    gpus: shares.gpus_at(at, middle),
                    replayed_mean_wait_s: alone(at),
                })
                .collect();
            let replayed_s = [answer.held_out.private.mean_wait_s, pooled];
            PoolingCheck::of(&loaded.workload, &vcs, (found.split_ms, last + 1), replayed_s)
        });
        if answer.is_followed()
            && let Some(change) = change
        {
            answer.recommendation = Some(answer.recommended(change, &found).weighed());
        }
        Ok(answer)
    }

    /// Whether what was chosen is advised.
    pub fn is_followed(&self) -> bool {
        self.verdict == Verdict::Advised
    }

    /// The candidate that was chosen.
    pub fn setup(&self) -> Option<&QueuesCandidate> {
        self.candidates.get(self.chosen)
    }

    /// The candidate of the list with this sharing and today's policy.
    fn sharing_alone(&self, sharing: Sharing) -> Option<&QueuesCandidate> {
        let wanted = Setup::new(sharing, self.today_policy()?.clone());
        self.candidates.iter().find(|of| of.setup == wanted)
    }

    /// Today's policy.
    fn today_policy(&self) -> Option<&Policy> {
        self.candidates.first().map(|today| &today.setup.policy)
    }

    /// Whether today is a backfill by time limits.
    pub(crate) fn today_is_by_limits(&self) -> bool {
        self.today_policy().is_some_and(plans_by_limits)
    }

    /// How much of its own share each queue of Kueue lends at most.
    pub(super) fn lends(&self) -> Option<f64> {
        self.held_out.under_kueue.as_ref()?.lends
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

/// VCs whose 95 % quantile is longer than on nodes of their own.
fn worse(found: &SearchOutcome, name: &dyn Fn(usize) -> String) -> Vec<WorseVc> {
    let of = |of: &VcOutcome| {
        let change = of.change.as_ref()?.p95_wait_s;
        (change.value > 0.0).then(|| WorseVc {
            vc: name(of.vc),
            jobs: of.chosen.jobs as u64,
            p95_wait_s: of.chosen.merit.p95_wait_s,
            private_p95_wait_s: of.private.merit.p95_wait_s,
            beyond_interval: of.is_wronged(),
        })
    };
    found.by_vc.iter().filter_map(of).collect()
}
