//! `simulate --share`: the jobs of a trace replayed on GPUs of one type under the ways to share that are named, as JSON (`simulate-sharing/1`), and when each job ran.
//!
//! `render` makes a report of it; [`groups`] says whom sharing slows; [`schedule`] is when each job ran, as CSV.
//!
//! Replay, policies and figures are those of [`study`](super::study): with the same jobs, GPUs, split and seed, both commands give the same numbers. The measured table is the **truth**
//! of the replay. A policy that decides by forecasts sees those that were made without the families of both job types ([`evidence`](super::evidence)).
//!
//! ```text
//! policies   nobody shares; those named, as they say who goes beside whom; `forecast` and `forecast-trial` in one class, too, as Slurm can be set; the oracle
//! threshold  of `forecast` and of `forecast-trial`, each by itself, on the earlier jobs and with speeds as forecast
//! scored     jobs submitted from the split on, as in the study, if a threshold or the number of GPUs is chosen on the earlier ones; else from the moment asked for on, or all
//! ```
//!
//! **Time to end** (job completion time): from submission to end. **GPU-hours**: those for which the scored jobs held GPUs, where each of two on a GPU has half of it.
//! **Failed**: a job that did not fit beside another fails as it is put there, pauses for 2 min, and waits again. It loses no work, as nobody is moved onto a shared GPU: it had not begun,
//! or had been taken out and keeps what it did.
//!
//! O(policies × replay), and the forecasts where a policy needs them. Worked number: on one GPU a has a run of 60 s and b one of 40 s, with speeds of 0.6 and 0.5 beside each other, both
//! submitted at once. b ends at 80 s and a at 92 s: slowdowns of 2 and 1.53, and a mean time to end of 86 s, where alone it is 80 s. Of the GPU a had 80 / 2 + 12 = 52 s and b 40 s.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::SourceRecord;
use tracecast_analytics::watch::{self, Watch};
use tracecast_predictors::interference::share::SharingLimits;
use tracecast_predictors::interference::table::SharingTable;

use super::engine::{SharingRule, SharingTimes};
use super::evidence::{Forecasts, PairEvidence, gpu_named};
use super::figures::{Counted, SharingFigures, changes, couples, losses};
use super::job_type::{JobUse, JobsAsKnown, Knowledge, TypeFrom, TypesByUse};
use super::policy::SharingPolicy;
use super::setting::{Setting, SharingCandidate, SharingRequest};
use super::study::HowSet;
use crate::error::{Error, Result};
use crate::one_gpu::types::{TypeOfNames, TypesOfNames};
use crate::one_gpu::{OneGpuJobs, TypedJobs, by_day};
use crate::plan::interval;
use crate::replay::compare::IntervalEstimate;

pub mod groups;
mod render;
pub mod schedule;

use groups::{SharedGroup, groups};
use schedule::SharedSchedule;

/// Version of the JSON.
pub const SCHEMA: &str = "simulate-sharing/1";

/// Request for a replay of sharing.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedReplayRequest {
    /// Ways to share; nobody sharing and the oracle stand beside them.
    pub policies: Vec<SharingPolicy>,
    /// Policies that only `all` names: left out, with a note, where they cannot be replayed.
    pub only_of_all: Vec<SharingPolicy>,
    /// GPU type of the table that all GPUs of the replay are of.
    pub gpu_type: String,
    /// GPUs, split, limits, seed, job types and measured pairs, as of a plan.
    pub as_planned: SharingRequest,
}

/// A way to share on the scored jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharedReplayOutcome {
    /// Policy that was replayed.
    pub policy: SharingPolicy,
    /// How it is set.
    pub how: HowSet,
    /// What it is told of the types of jobs that no name tells.
    pub knowledge: Knowledge,
    /// Couples of job types that may share.
    pub couples: usize,
    /// Couples among those that were measured to fit, to make more than one alone, and to stay
    /// within the SLO.
    pub couples_kept: usize,
    /// Figures as `plan share couples` has them.
    pub figures: SharingFigures,
    /// Median time in the queue, seconds.
    pub p50_wait_s: f64,
    /// Mean time from submission to end (job completion time), seconds.
    pub mean_jct_s: f64,
    /// Hours for which the jobs held GPUs; each of two on a GPU has half of it.
    pub gpu_hours: f64,
    /// Jobs that were beside another for any time.
    pub shared_jobs: usize,
    /// Mean slowdown of those, time on a GPU over the run; none where nobody shared.
    pub mean_slowdown: Option<f64>,
    /// How many of those were slower than the SLO allows.
    pub over_slo_jobs: usize,
    /// Jobs that end later than with nobody sharing, by more than 1 % of their run.
    pub lost_jobs: usize,
    /// By how much these end later on average, seconds.
    pub lost_s: f64,
    /// Hours for which jobs paused that did not fit beside another; they lose no work.
    pub paused_h: f64,
    /// Change of the mean wait against nobody sharing, seconds.
    pub mean_wait_change_s: IntervalEstimate,
    /// Change of the mean time to end.
    pub mean_jct_change_s: IntervalEstimate,
    /// The jobs by VC; who is slowed most comes first.
    pub by_vc: Vec<SharedGroup>,
    /// The jobs by user, in the same order.
    pub by_user: Vec<SharedGroup>,
    /// The jobs by job type, in the same order.
    pub by_job_type: Vec<SharedGroup>,
}

impl SharedReplayOutcome {
    /// Whether it is a way that was asked for, and not one to compare predictions with.
    fn is_asked(&self) -> bool {
        self.knowledge == Knowledge::Predicted || self.policy == SharingPolicy::Oracle
    }

    /// Name of the way in words.
    fn name(&self) -> String {
        let name = self.how.name_of(self.policy);
        match self.knowledge {
            Knowledge::Predicted => name,
            Knowledge::Mean => format!("{name}, told the mean"),
            Knowledge::Truth if self.policy == SharingPolicy::Oracle => name,
            Knowledge::Truth => format!("{name}, told the truth"),
        }
    }
}

/// A threshold that was chosen on the earlier jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharedReplayChoice {
    /// Whose.
    pub policy: SharingPolicy,
    /// Whether to share at all was best; if not, the policy is replayed with the threshold of the limits.
    pub shares: bool,
    /// Expected progress that sharing must exceed.
    pub least_progress: f64,
    /// Candidates of the choice.
    pub candidates: Vec<SharingCandidate>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharedReplayAnswer {
    /// Version of this form.
    pub schema: String,
    /// Title of what was replayed.
    pub title: String,
    /// Assumptions, in words.
    pub notes: Vec<String>,
    /// GPU type.
    pub gpu_type: String,
    /// GPUs of the replay.
    pub gpus: u32,
    /// Whether their number was chosen on the earlier jobs, as none was asked for.
    pub gpus_chosen: bool,
    /// Job types.
    pub job_types: usize,
    /// Jobs of one GPU that are replayed.
    pub jobs: usize,
    /// Jobs that are left out.
    pub left_out: usize,
    /// Jobs that are left out for having more than one GPU.
    pub larger: usize,
    /// Jobs that the figures are of.
    pub scored_jobs: usize,
    /// Scored jobs were submitted from here on, in the trace's zone; null if all are scored that
    /// ended.
    pub eval_from: Option<String>,
    /// Jobs whose type was drawn.
    pub drawn_types: usize,
    /// Jobs whose type is that nearest to what they used, as telemetry says; null where there are none.
    pub types_by_use: Option<TypesByUse>,
    /// Share of the GPU time that is of jobs whose name is a job type of the table.
    pub named_gpu_time: f64,
    /// Limits that sharing must keep.
    pub limits: SharingLimits,
    /// Pairs of each job type that forecasts know; null where no policy needs forecasts.
    pub measured: Option<usize>,
    /// Seed of job types and pairs.
    pub seed: u64,
    /// Thresholds that were chosen on the earlier jobs.
    pub chosen: Vec<SharedReplayChoice>,
    /// Every policy; the first is nobody sharing, the last the oracle.
    pub policies: Vec<SharedReplayOutcome>,
    /// Job types by the names of jobs, as the file of types has them. Empty without such a file.
    pub types: Vec<TypeOfNames>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// The JSON Schema of [`SharedReplayAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SharedReplayAnswer).to_value()
}

/// A rule and whose it is.
struct Named {
    policy: SharingPolicy,
    how: HowSet,
    knowledge: Knowledge,
    rule: SharingRule,
    limits: SharingLimits,
}

/// What can be replayed of what was asked for.
struct Able {
    request: SharedReplayRequest,
    setting: Setting,
    forecasts: Forecasts,
    /// What was left out, and why.
    left: Vec<String>,
}

impl SharedReplayRequest {
    /// Policies that are replayed, in the order of the answer.
    fn replayed(&self) -> impl Iterator<Item = SharingPolicy> + '_ {
        let ends = [SharingPolicy::Exclusive, SharingPolicy::Oracle];
        let named = self.policies.iter().copied().filter(move |policy| !ends.contains(policy));
        ends.into_iter().take(1).chain(named).chain(ends.into_iter().skip(1))
    }

    /// What is chosen on the earlier jobs, and what to do so that it is not; none if nothing is.
    fn chosen(&self) -> Vec<(&'static str, &'static str)> {
        let of_gpus = ("the number of GPUs", "name it with --gpus");
        let of_rule = ("the threshold of forecast or forecast-trial", "leave these out of --share");
        let thresholded = self.policies.iter().any(|policy| policy.is_thresholded());
        let of = [(self.as_planned.gpus.is_none(), of_gpus), (thresholded, of_rule)];
        of.into_iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, what)| what).collect()
    }

    /// Takes out the ways of which this holds, if only `all` names them, and says so; none, and all stay, if there are none or somebody named one.
    fn without(&mut self, is_out: impl Fn(SharingPolicy) -> bool, why: &str) -> Option<String> {
        let out: Vec<SharingPolicy> = self.policies.iter().copied().filter(|policy| is_out(*policy)).collect();
        if out.is_empty() || !out.iter().all(|policy| self.only_of_all.contains(policy)) {
            return None;
        }
        self.policies.retain(|policy| !out.contains(policy));
        let names: Vec<&str> = out.iter().map(|policy| policy.name()).collect();
        Some(format!("Left out of all ways to share, as they cannot be replayed: {} ({why}).", names.join(", ")))
    }

    /// What can be replayed of what is asked for.
    fn able(
        &self,
        (all, of_use): (&OneGpuJobs, &JobUse),
        table: &SharingTable,
        evidence: &PairEvidence,
        watch: &dyn Watch,
    ) -> Result<Able> {
        let mut request = self.clone();
        let mut left = Vec::new();
        let unknown = Forecasts::unknown(evidence.kinds.len());
        // Who is named stays, and is the error.
        let lacks = |policy: SharingPolicy| {
            self.only_of_all.contains(&policy)
                && !policy.needs_forecasts()
                && policy.rule(evidence, &unknown, &self.as_planned.limits).is_none()
        };
        let why = format!("sm_util_pct of every job type on {} is not known; --profiles tells it", evidence.gpu_type);
        left.extend(request.without(lacks, &why));
        let setting = match request.setting(all, of_use, evidence) {
            Err(error @ Error::Replay(tracecast_replay::Error::NoJobs(_))) if self.as_planned.gpus.is_some() => {
                let why = "too few jobs lie before or after the split to choose their threshold on";
                left.push(request.without(SharingPolicy::is_thresholded, why).ok_or(error)?);
                request.setting(all, of_use, evidence)
            }
            found => found,
        };
        let mut setting = setting?;
        let forecasts = match request.forecasts(table, evidence, watch) {
            Err(error @ (Error::NothingToEvaluate(_) | Error::Predictor(_))) => {
                left.push(request.without(SharingPolicy::needs_forecasts, &error.to_string()).ok_or(error)?);
                // No threshold is chosen on earlier jobs any more.
                setting = request.setting(all, of_use, evidence)?;
                unknown
            }
            found => found?,
        };
        Ok(Able { request, setting, forecasts, left })
    }

    /// Forecasts of all couples; unknown ones where no way goes by them.
    fn forecasts(&self, table: &SharingTable, evidence: &PairEvidence, watch: &dyn Watch) -> Result<Forecasts> {
        if !self.needs_forecasts() {
            return Ok(Forecasts::unknown(evidence.kinds.len()));
        }
        watch.more(1);
        let (measured, seed) = (self.as_planned.measured, self.as_planned.seed);
        let told = watch::part(watch, || evidence.forecasts(table, &[measured], seed))?;
        told.into_iter().next().ok_or_else(|| Error::defect("no forecast was made".to_owned()))
    }

    /// Whether any way goes by forecasts.
    fn needs_forecasts(&self) -> bool {
        self.policies.iter().any(|policy| policy.needs_forecasts())
    }

    /// The jobs that are replayed and scored, and the GPUs.
    fn setting(&self, all: &OneGpuJobs, of_use: &JobUse, evidence: &PairEvidence) -> Result<Setting> {
        let planned = &self.as_planned;
        let chosen = self.chosen();
        match planned.gpus {
            Some(gpus) if chosen.is_empty() => Setting::unsplit(all, of_use, evidence, gpus, planned),
            _ => Setting::new(all, of_use, evidence, planned).map_err(|error| match error {
                Error::Replay(tracecast_replay::Error::NoJobs(what)) => {
                    let remedies: Vec<String> =
                        chosen.iter().map(|(what, remedy)| format!("{what} is chosen on them: {remedy}")).collect();
                    Error::no_jobs(format!("{what}. To choose nothing on earlier jobs: {}", remedies.join("; ")))
                }
                error => error,
            }),
        }
    }
}

/// Replays the jobs of a trace with the pairs of a table. `watch` is told how far that is. Beside the answer, when each job ran under the first policy that was named.
///
/// # Errors
/// If there are too few jobs or families, the GPU type is not in the table, a policy needs what no profile has, or a predictor cannot be trained.
pub fn replay(
    trace: &Trace,
    table: &SharingTable,
    title: String,
    request: &SharedReplayRequest,
    watch: &dyn Watch,
) -> Result<(SharedReplayAnswer, SharedSchedule)> {
    let planned = &request.as_planned;
    let mut all = OneGpuJobs::new(trace);
    let mut types = Vec::new();
    if let Some(path) = &planned.types {
        let told = TypesOfNames::read(path, table.jobs())?;
        all.name_types(&told);
        types = told.lines();
    }
    let evidence = PairEvidence::new(table, gpu_named(table, &request.gpu_type)?)?;
    let kinds = evidence.kinds.len();
    let of_use = JobUse::new(trace, &all, [&evidence], planned.seed)?;
    let Able { request, setting, forecasts, left } = request.able((&all, &of_use), table, &evidence, watch)?;
    let mut chosen = Vec::new();
    let mut rules: Vec<Named> = Vec::new();
    for policy in request.replayed() {
        let mut limits = planned.limits;
        if policy.is_thresholded() {
            let choice = setting.choose(policy, &evidence, &forecasts, limits, watch)?;
            limits = choice.limits;
            let least_progress = limits.least_progress;
            let (shares, candidates) = (choice.shares, choice.candidates);
            chosen.push(SharedReplayChoice { policy, shares, least_progress, candidates });
        }
        let Some(rule) = policy.rule(&evidence, &forecasts, &limits) else {
            return Err(Error::NothingToEvaluate(format!(
                "{} needs sm_util_pct of every job type on {}; name a file that has it with --profiles, or leave it out of --share",
                policy.name(),
                evidence.gpu_type
            )));
        };
        let one_class = policy.is_thresholded().then(|| setting.as_set(&rule, &evidence, &forecasts).one_class);
        let knowledge = if policy == SharingPolicy::Oracle { Knowledge::Truth } else { Knowledge::Predicted };
        let named =
            |how: HowSet, knowledge: Knowledge, rule: SharingRule| Named { policy, how, knowledge, rule, limits };
        rules.push(named(HowSet::Free, knowledge, rule.clone()));
        rules.extend(one_class.map(|rule| named(HowSet::OneClass, knowledge, rule)));
        if setting.types.by_use.is_some() && policy.goes_by_types() {
            rules.extend(
                [Knowledge::Mean, Knowledge::Truth].map(|knowledge| named(HowSet::Free, knowledge, rule.clone())),
            );
        }
    }
    let Setting { types: job_types, parts, gpus } = &setting;
    let jobs = &job_types.jobs;
    let [known, predicted, mean] = [Knowledge::Truth, Knowledge::Predicted, Knowledge::Mean]
        .map(|knowledge| JobsAsKnown::new(job_types, knowledge));
    let base = known.replay(*gpus, &evidence.truth, &SharingRule::exclusive(kinds), None)?;
    let days = by_day(jobs, &parts.later);
    // Of `all`, too, one that shares.
    let shares = |policy: &&SharingPolicy| **policy != SharingPolicy::Exclusive;
    let shown = request.policies.iter().find(shares).copied().unwrap_or(SharingPolicy::Exclusive);
    watch.more(rules.len());
    let one = |of: &Named| -> Result<(SharedReplayOutcome, Option<Vec<SharingTimes>>)> {
        let times = match of.policy {
            SharingPolicy::Exclusive => base.clone(),
            _ => {
                let seen = match of.knowledge {
                    Knowledge::Truth => &known,
                    Knowledge::Predicted => &predicted,
                    Knowledge::Mean => &mean,
                };
                seen.replay(*gpus, &evidence.truth, &of.rule, None)?
            }
        };
        let couples = couples(&evidence, &of.rule, &of.limits);
        let [wait, delay] = changes(jobs, &days, &base, &times);
        let replayed = (jobs, &times[..], &base[..]);
        let kind = |job: usize| evidence.kinds.get(usize::from(*jobs.kind.get(job)?)).map(String::as_str);
        let vc = |job: usize| all.vcs.get(job)?.as_deref();
        let user = |job: usize| all.users.get(job)?.as_deref();
        let by_vc = groups(vc, replayed, &parts.later, of.limits.slo);
        let by_user = groups(user, replayed, &parts.later, of.limits.slo);
        let by_job_type = groups(kind, replayed, &parts.later, of.limits.slo);
        let outcome = outcome(of, couples, replayed, &parts.later, [wait, delay], [by_vc, by_user, by_job_type]);
        let is_shown = of.policy == shown && of.how == HowSet::Free && of.knowledge == Knowledge::Predicted;
        Ok((outcome, is_shown.then_some(times)))
    };
    let result: Vec<Result<_>> = rules.par_iter().map(|of| watch::part(watch, || one(of))).collect();
    let (mut policies, mut times) = (Vec::new(), base.clone());
    for result in result {
        let (outcome, own) = result?;
        policies.push(outcome);
        times = own.unwrap_or(times);
    }
    let zone = Zone::named(&trace.zone)?;
    let gpus_chosen = planned.gpus.is_none();
    let is_split = planned.eval_from_ms.is_some() || gpus_chosen || !chosen.is_empty();
    let drawn_types = job_types.from(TypeFrom::Draw);
    let answer = SharedReplayAnswer {
        schema: SCHEMA.to_owned(),
        title,
        notes: left.into_iter().chain(notes(table, &all, (drawn_types, job_types.by_use), &request)).collect(),
        gpus: *gpus,
        gpus_chosen,
        job_types: kinds,
        jobs: jobs.submit_ms.len(),
        left_out: all.left_out,
        larger: all.larger,
        scored_jobs: parts.later.len(),
        eval_from: is_split.then(|| trace.moment(&zone, all.origin_ms + parts.split_ms, all.origin_ms)),
        drawn_types,
        types_by_use: job_types.by_use,
        named_gpu_time: job_types.named_gpu_time(),
        limits: planned.limits,
        measured: request.needs_forecasts().then_some(planned.measured),
        seed: planned.seed,
        chosen,
        policies,
        types,
        sources: trace.sources.clone(),
        gpu_type: evidence.gpu_type,
    };
    let Setting { types: job_types, parts, .. } = setting;
    let schedule = SharedSchedule {
        jobs: job_types.jobs,
        type_from: job_types.from,
        kinds: evidence.kinds,
        keys: all.keys,
        scored: parts.later,
        times,
        exclusive: base,
    };
    Ok((answer, schedule))
}

/// Figures of a way to share: of the jobs, their times and those with nobody sharing.
fn outcome(
    of: &Named,
    (couples, couples_kept): (usize, usize),
    (jobs, times, base): (&TypedJobs, &[SharingTimes], &[SharingTimes]),
    scored: &[usize],
    [mean_wait_change_s, mean_jct_change_s]: [IntervalEstimate; 2],
    [by_vc, by_user, by_job_type]: [Vec<SharedGroup>; 3],
) -> SharedReplayOutcome {
    let counted = Counted::new(jobs, times, scored, of.limits.slo);
    let figures = counted.figures();
    let (mut to_end, mut held_ms) = (Vec::new(), 0.0);
    for job in scored {
        let (Some(times), Some(submit)) = (times.get(*job), jobs.submit_ms.get(*job)) else { continue };
        to_end.push((times.end_ms - submit) as f64 / 1e3);
        held_ms += times.held_ms as f64 - times.shared_ms as f64 / 2.0;
    }
    let (lost_jobs, lost_s) = losses(jobs, scored, base, times);
    SharedReplayOutcome {
        policy: of.policy,
        how: of.how,
        knowledge: of.knowledge,
        couples,
        couples_kept,
        p50_wait_s: quantile(&counted.waits_s, 0.5).unwrap_or_default(),
        mean_jct_s: interval::average(to_end.iter().copied()),
        gpu_hours: held_ms / 3.6e6,
        shared_jobs: counted.slowdowns.len(),
        mean_slowdown: (!counted.slowdowns.is_empty()).then(|| interval::average(counted.slowdowns.iter().copied())),
        over_slo_jobs: counted.over_slo,
        lost_jobs,
        lost_s,
        paused_h: figures.failed as f64 * of.rule.pause_ms as f64 / 3.6e6,
        figures,
        mean_wait_change_s,
        mean_jct_change_s,
        by_vc,
        by_user,
        by_job_type,
    }
}

/// Assumptions.
fn notes(
    table: &SharingTable,
    all: &OneGpuJobs,
    (drawn, by_use): (usize, Option<TypesByUse>),
    request: &SharedReplayRequest,
) -> Vec<String> {
    let mut notes = table.notes.clone();
    notes.extend(all.notes(drawn, "measured", request.as_planned.seed));
    notes.extend(by_use.map(|by_use| by_use.note()));
    if all.larger > 0 {
        notes.push(format!(
            "{} of more than one GPU: how fast these are beside others was not measured, so the replay is of the others alone.",
            format::counted(all.larger as u64, "job left out is", "jobs left out are")
        ));
    }
    notes.push(
        "Every GPU of the replay is of the type named, and holds two jobs at most. Jobs start in order of submission; who runs alone runs as long as the record says."
            .to_owned(),
    );
    notes.push(
        "The replay is not compared with recorded starts: those GPUs also ran the jobs that are left out. Compare the rows with each other."
            .to_owned(),
    );
    let chosen: Vec<&str> = request.chosen().iter().map(|(what, _)| *what).collect();
    if !chosen.is_empty() {
        notes.push(format!(
            "Chosen on the jobs before the split: {}. The figures are of the jobs from then on.",
            chosen.join(" and ")
        ));
    }
    notes
}
