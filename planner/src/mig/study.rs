//! What partitions would do to the jobs of a trace: a fleet chosen on earlier jobs, held against later ones.
//!
//! ```text
//! jobs        those of one GPU, each with a job type of the table (one_gpu)
//! earlier     submitted before the split, as they were known then; they give the demand: jobs an hour and mean run of each job type, runs cut off at the end of their time
//! choice      for each rule, the greatest share of the time that slices may be held, in steps of 2 % from 100 to 2.2 %, by bisection, with which the 95 % wait of each third of the earlier jobs is within the
//!             target when they are replayed with the speeds that the rule believes; that share and the demand give its fleet. Waits need not fall with every step, as the mix of slices
//!             changes with it, so a smaller fleet that was not tried may keep the target, too
//! later       submitted from the split on, in a replay of all jobs with the measured speeds, on each fleet
//! ```
//!
//! **Who asks for what**: a user or a template asks for one kind of slice, so the jobs of a type are dealt out to its profiles as the plan has them, each to the profile that is furthest behind its part. *Any slice*
//! is the same fleet where a scheduler gives each job the smallest empty slice that keeps the SLO.
//!
//! **Wait** is time in the queue, **delay** from submission to end less the run on a whole GPU, **slowdown** the time on a slice over that run. A job that there is no room for counts as one beyond the SLO, and as one that waits for ever. 95 % waits are by nearest rank.
//! **Whole GPUs instead** are the fewest with which the later jobs wait no longer, at 95 %. The oracle chooses on the later jobs with every speed known. Intervals are of days drawn anew.
//!
//! O(rules × log steps × (programme + replay)). Worked number: a type of which the plan has two thirds on `3g` and one third on `2g` deals its jobs out as 3g, 2g, 3g, 3g, 2g, 3g.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::HOUR_MS;
use tracecast_analytics::watch::{self, Watch};
use tracecast_predictors::interference::slice::SliceTable;

use super::demand::{MOST, MigDemand, MigDemandRow};
use super::gpu::MigGpu;
use super::replay::{Profiles, SliceSpeeds, SliceTimes, replay};
use super::rule::{MigFleet, MigPartitionRow, MigQuestion, MigRequest, MigRule};
use super::speed::{MigEvidence, MigSpeed, SpeedBelief};
use crate::error::{Error, Result};
use crate::one_gpu::types::TypesOfNames;
use crate::one_gpu::{
    OneGpuJobs, Parts, TypedJobs, USUAL_WAIT_MS, by_day, fewest_of_any, mean_change, named_share, parts, slowdown,
};
use crate::plan::interval;
use crate::plan::waits::{NEVER, TAIL, nearest_rank_s};
use crate::replay::compare::IntervalEstimate;

/// Ratio between shares of the time that are tried.
const STEP: f64 = 0.98;
/// How many steps there are: down to 2.2 % of the time.
const STEPS: i32 = 190;
/// Parts of the jobs, in order of submission, of which each must keep the target: what only the whole of them keeps does not last.
const THIRDS: usize = 3;
/// Shortest time that a demand is taken over, milliseconds: jobs that come all at once come within an hour.
const SHORTEST_MS: i64 = HOUR_MS;

/// Request about the jobs of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct MigStudyRequest {
    /// The split, milliseconds since the Unix epoch; where two thirds of the jobs are submitted if `None`.
    pub eval_from_ms: Option<i64>,
    /// The 95 % wait that the fleet keeps, milliseconds.
    pub target_wait_ms: i64,
    /// Seed of the job types that are drawn.
    pub seed: u64,
    /// A file that tells job types of names.
    pub types: Option<PathBuf>,
}

impl Default for MigStudyRequest {
    fn default() -> Self {
        Self { eval_from_ms: None, target_wait_ms: USUAL_WAIT_MS, seed: 1, types: None }
    }
}

/// How jobs fared on slices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MigFigures {
    /// Mean time in the queue of those that ran, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of it, over all jobs; none where so many have no room.
    pub p95_wait_s: Option<f64>,
    /// Mean time from submission to end less the run on a whole GPU, of those that ran, seconds.
    pub mean_delay_s: f64,
    /// 0.9 quantile of the slowdown of those that ran.
    pub slowdown90: Option<f64>,
    /// Share of all that were slower than the SLO allows, or had no room.
    pub over_slo: f64,
    /// How often a job did not fit and failed.
    pub failed: u64,
    /// Jobs that there was no room for.
    pub without_room: u64,
}

/// A fleet chosen on earlier jobs, and what became of the later ones.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigReplayRow {
    /// How the fleet was chosen.
    pub rule: MigRule,
    /// Whether a job takes any slice that keeps the SLO, and not the one kind it asks for.
    pub any_slice: bool,
    /// Share of the time that slices were to be held, as it was chosen.
    pub busy: f64,
    /// GPUs.
    pub gpus: u32,
    /// Partitions of the GPUs.
    pub partitions: Vec<MigPartitionRow>,
    /// How the later jobs fared.
    pub later: MigFigures,
    /// Change of the mean delay against whole GPUs, seconds, of the jobs that ran on both; none where no whole GPUs kept the target on the earlier jobs.
    pub mean_delay_change_s: Option<IntervalEstimate>,
    /// Whole GPUs with which the later jobs wait no longer, at 95 %; none where so many have no room.
    pub whole_instead: Option<u32>,
}

/// Outcomes of fleets on the later jobs of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigReplayed {
    /// The split: jobs submitted from here on are the later ones. In the trace's zone.
    pub eval_from: String,
    /// The 95 % wait that fleets were to keep, seconds.
    pub target_p95_wait_s: f64,
    /// Earlier jobs that count.
    pub earlier_jobs: usize,
    /// Later jobs.
    pub later_jobs: usize,
    /// Jobs of one GPU whose type was drawn.
    pub drawn_types: usize,
    /// Share of the GPU time that is of jobs whose name is a job type.
    pub named_gpu_time: f64,
    /// Seed of the draws.
    pub seed: u64,
    /// The fleets, that of whole GPUs first.
    pub fleets: Vec<MigReplayRow>,
    /// Rules of which no fleet that was tried kept the target on the jobs that they chose on: they have no fleet.
    pub not_kept: Vec<MigRule>,
}

impl MigReplayed {
    /// A fleet whose jobs ask for one kind of slice each.
    pub fn fleet(&self, rule: MigRule) -> Option<&MigReplayRow> {
        self.fleets.iter().find(|row| row.rule == rule && !row.any_slice)
    }
}

/// The job types that jobs of a trace may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigTypes {
    /// Job types of the table that fit on the GPU, those that were measured there first.
    pub names: Vec<String>,
    /// How many were measured: jobs without a known type are drawn from them.
    pub measured: usize,
    /// Job types that use more memory than the GPU has.
    pub too_large: Vec<String>,
}

impl MigTypes {
    /// Finds the job types of a table that fit on a GPU.
    ///
    /// # Errors
    /// If none was measured on the GPU and fits there.
    pub fn new(table: &SliceTable, gpu: &MigGpu) -> Result<Self> {
        let whole = gpu.profiles.get(gpu.whole());
        let (name, usable_mib) = whole.map_or(("", 0.0), |whole| (whole.name, f64::from(whole.usable_mib)));
        let fits = |name: &String| {
            let memory = table.job(name).and_then(|job| table.memory_mb(job));
            memory.is_none_or(|memory| memory <= usable_mib)
        };
        let is_measured = |job: &String| table.job(job).is_some_and(|job| table.measured(job, name).is_some());
        let (fitting, too_large): (Vec<String>, Vec<String>) = table.jobs().iter().cloned().partition(fits);
        let (mut names, others): (Vec<String>, Vec<String>) = fitting.into_iter().partition(is_measured);
        let measured = names.len();
        if measured == 0 {
            return Err(Error::NothingToEvaluate(format!(
                "no job type was measured on {name} and fits there, so no jobs can be replayed; measure some, or tell a demand"
            )));
        }
        names.extend(others);
        Ok(Self { names, measured, too_large })
    }
}

/// Jobs of a trace with job types of a table.
#[derive(Debug, Clone)]
pub struct MigJobs {
    /// The demand of all of them.
    pub demand: MigDemand,
    all: OneGpuJobs,
    /// Kinds are places in the demand.
    jobs: TypedJobs,
    is_named: Vec<bool>,
    /// Jobs of types that do not fit on the GPU.
    too_large: usize,
    parts: Parts,
}

impl MigJobs {
    /// Gives each job a type: that of its name, else one of those that were measured by a draw. Jobs whose type does not fit on the GPU are left out.
    ///
    /// # Errors
    /// If the file of types cannot be read, too few jobs lie before or after the split, or their load is beyond that of a file of demand.
    pub fn new(mut all: OneGpuJobs, types: &MigTypes, request: &MigStudyRequest) -> Result<Self> {
        if let Some(path) = &request.types {
            let known: Vec<String> = types.names.iter().chain(&types.too_large).cloned().collect();
            all.name_types(&TypesOfNames::read(path, &known)?);
        }
        let too_large = all.without(&types.too_large);
        let (mut jobs, is_named) = all.with_kinds(&types.names, types.measured, request.seed);
        // Only types that a job has are looked at.
        let mut there: Vec<u16> = jobs.kind.clone();
        there.sort_unstable();
        there.dedup();
        for kind in &mut jobs.kind {
            *kind = there.binary_search(kind).ok().and_then(|at| u16::try_from(at).ok()).unwrap_or_default();
        }
        let names: Vec<String> = there.iter().filter_map(|kind| types.names.get(usize::from(*kind)).cloned()).collect();
        let parts = parts(&all, &jobs, request.eval_from_ms)?;
        let until = jobs.submit_ms.last().copied().unwrap_or_default();
        let every: Vec<usize> = (0..jobs.submit_ms.len()).collect();
        let demand = demand(&names, &jobs, &every, (0, until));
        let load = demand.load();
        if load > MOST {
            return Err(Error::no_jobs(format!(
                "the jobs of one GPU keep {} GPUs busy, and {} are the most that are partitioned; plan a part of the jobs",
                format::count(load as u64),
                format::count(MOST as u64)
            )));
        }
        Ok(Self { demand, all, jobs, is_named, too_large, parts })
    }

    /// Notes on the jobs and their types.
    pub fn notes(&self, seed: u64) -> Vec<String> {
        let mut notes = self.all.notes(self.drawn(), "with step times", seed);
        if self.too_large > 0 {
            notes.push(format!(
                "{} more are left out, as their job types use more memory than the GPU has.",
                format::counted(self.too_large as u64, "job", "jobs")
            ));
        }
        notes
    }

    /// Jobs whose type was drawn.
    pub fn drawn(&self) -> usize {
        self.is_named.iter().filter(|named| !**named).count()
    }

    /// Beginning and split, milliseconds since the Unix epoch.
    pub fn span_ms(&self) -> (i64, i64) {
        (self.all.origin_ms, self.all.origin_ms + self.parts.split_ms)
    }
}

/// Jobs an hour and mean run of each type, of some jobs that came within a time, their runs cut off at its end: what they would keep busy within it if none waited. A time of less than an hour
/// is one of an hour.
fn demand(names: &[String], jobs: &TypedJobs, which: &[usize], (from, to): (i64, i64)) -> MigDemand {
    let to = to.max(from.saturating_add(SHORTEST_MS));
    let mut sums = vec![(0.0, 0.0); names.len()];
    for job in which {
        let (Some(kind), Some(run), Some(submit)) =
            (jobs.kind.get(*job), jobs.run_ms.get(*job), jobs.submit_ms.get(*job))
        else {
            continue;
        };
        if let Some(sum) = sums.get_mut(usize::from(*kind)) {
            *sum = (sum.0 + 1.0, sum.1 + (*run).min((to - submit).max(0)) as f64 / 1e3);
        }
    }
    let hours = (to - from) as f64 / HOUR_MS as f64;
    let row = |(name, (count, run_s)): (&String, &(f64, f64))| MigDemandRow {
        job: name.clone(),
        jobs: count / hours,
        run_s: Some(run_s / f64::max(*count, 1.0)),
    };
    MigDemand { rows: names.iter().zip(&sums).map(row).collect(), is_load: true }
}

/// A fleet as it was chosen, with the share of the time that its slices may be held.
#[derive(Debug, Clone)]
pub struct MigChosen {
    /// The share.
    pub busy: f64,
    /// The fleet.
    pub fleet: MigFleet,
}

/// Jobs that a fleet is chosen for.
struct ChosenFor<'j> {
    demand: &'j MigDemand,
    jobs: &'j TypedJobs,
    /// Jobs that count.
    which: &'j [usize],
}

/// Fleets for the jobs of a trace.
#[derive(Debug)]
pub struct MigStudy<'a> {
    evidence: &'a MigEvidence<'a>,
    request: &'a MigRequest,
    asked: &'a MigStudyRequest,
    jobs: &'a MigJobs,
    /// Profiles that were measured.
    profiles: Vec<usize>,
    truth: SliceSpeeds,
}

impl<'a> MigStudy<'a> {
    /// With what was measured of the job types of the demand.
    pub fn new(
        evidence: &'a MigEvidence<'a>,
        jobs: &'a MigJobs,
        request: &'a MigRequest,
        asked: &'a MigStudyRequest,
    ) -> Self {
        let (kinds, all) = (jobs.demand.rows.len(), evidence.gpu().profiles.len());
        let profiles: Vec<usize> = (0..all).filter(|profile| evidence.was_measured(*profile)).collect();
        let mut truth = SliceSpeeds::new(kinds, all);
        for kind in 0..kinds {
            for profile in &profiles {
                if let Some(speed) = evidence.measured(kind, *profile) {
                    truth.set(kind, *profile, speed);
                }
            }
        }
        Self { evidence, request, asked, jobs, profiles, truth }
    }

    /// The fleet of a rule for all jobs: the one to have from now on; `None` where none that was tried keeps the target, or it has no room for a job type.
    ///
    /// # Errors
    /// If the solver fails, which no input should bring about.
    pub fn from_now_on(&self, rule: MigRule, watch: &dyn Watch) -> Result<Option<MigChosen>> {
        let every: Vec<usize> = (0..self.jobs.jobs.submit_ms.len()).collect();
        let of = ChosenFor { demand: &self.jobs.demand, jobs: &self.jobs.jobs, which: &every };
        watch::part(watch, || self.choose(rule, SpeedBelief::BestKnown, &of))
    }

    /// What fleets that were chosen on the earlier jobs do to the later ones. `eval_from` is the split in words.
    ///
    /// # Errors
    /// Errors of [`MigStudy::from_now_on`].
    pub fn replayed(&self, eval_from: String, watch: &dyn Watch) -> Result<MigReplayed> {
        let (Parts { split_ms, known, earlier, later }, jobs) = (&self.jobs.parts, &self.jobs.jobs);
        let names: Vec<String> = self.jobs.demand.rows.iter().map(|row| row.job.clone()).collect();
        // What still ran at the split took up slices before it.
        let all_known: Vec<usize> = (0..known.submit_ms.len()).collect();
        let before = demand(&names, known, &all_known, (0, *split_ms));
        let first = later.first().and_then(|job| jobs.submit_ms.get(*job)).copied().unwrap_or_default();
        let last = jobs.submit_ms.last().copied().unwrap_or_default();
        let after = demand(&names, jobs, later, (first, last));
        let learn = ChosenFor { demand: &before, jobs: known, which: earlier };
        let oracle = ChosenFor { demand: &after, jobs, which: later };
        let mut rules = vec![
            (MigRule::WholeGpus, SpeedBelief::BestKnown, &learn),
            (MigRule::OnePartition, SpeedBelief::BestKnown, &learn),
            (MigRule::Plan, SpeedBelief::BestKnown, &learn),
        ];
        if self.evidence.can_be_tested() {
            rules.extend([
                (MigRule::MeanForecast, SpeedBelief::ForecastMean, &learn),
                (MigRule::Forecast, SpeedBelief::ForecastQuantile, &learn),
            ]);
        }
        rules.push((MigRule::Oracle, SpeedBelief::Measured, &oracle));
        watch.more(rules.len());
        let (mut fleets, mut not_kept) = (Vec::new(), Vec::new());
        let mut base: Option<Vec<Option<SliceTimes>>> = None;
        let waits = RefCell::new(BTreeMap::new());
        for (rule, belief, of) in rules {
            let Some(chosen) = watch::part(watch, || self.choose(rule, belief, of))? else {
                not_kept.push(rule);
                continue;
            };
            for any_slice in [false, true] {
                if any_slice && rule != MigRule::Plan {
                    continue;
                }
                let asks = self.asks(&chosen.fleet, jobs, any_slice);
                let times = replay(jobs, &asks, &self.slices(&chosen.fleet), &self.truth)?;
                if rule == MigRule::WholeGpus {
                    base = Some(times.clone());
                }
                fleets.push(self.row(rule, any_slice, &chosen, &times, base.as_deref(), &waits)?);
            }
        }
        Ok(MigReplayed {
            eval_from,
            target_p95_wait_s: self.asked.target_wait_ms as f64 / 1e3,
            earlier_jobs: earlier.len(),
            later_jobs: later.len(),
            drawn_types: self.jobs.drawn(),
            named_gpu_time: named_share(jobs, &self.jobs.is_named),
            seed: self.asked.seed,
            fleets,
            not_kept,
        })
    }

    /// The fewest GPUs of a rule, in steps of the share of the time that slices may be held, with which the 95 % wait of each third of the jobs is within the target.
    fn choose(&self, rule: MigRule, belief: SpeedBelief, of: &ChosenFor<'_>) -> Result<Option<MigChosen>> {
        let believed = believed(&self.evidence.speeds(belief), &self.profiles);
        let enough_at = |step: i32| -> Result<Option<MigChosen>> {
            let busy = STEP.powi(step);
            let request = MigRequest { busy, ..self.request.clone() };
            let question = MigQuestion {
                evidence: self.evidence,
                demand: of.demand,
                request: &request,
                profiles: self.profiles.clone(),
            };
            let Some(fleet) = question.fleet(rule, belief)? else { return Ok(None) };
            let asks = self.asks(&fleet, of.jobs, false);
            let times = replay(of.jobs, &asks, &self.slices(&fleet), &believed)?;
            let third = of.which.len().div_ceil(THIRDS).max(1);
            let target_s = self.asked.target_wait_ms as f64 / 1e3;
            let keeps = |part: &[usize]| p95_wait_s(of.jobs, &times, part).is_some_and(|wait_s| wait_s <= target_s);
            Ok(of.which.chunks(third).all(keeps).then_some(MigChosen { busy, fleet }))
        };
        let Some(mut result) = enough_at(STEPS)? else { return Ok(None) };
        let (mut low, mut high) = (-1, STEPS);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match enough_at(middle)? {
                Some(enough) => (result, high) = (enough, middle),
                None => low = middle,
            }
        }
        Ok(Some(result))
    }

    /// The slices of a fleet, GPU by GPU.
    fn slices(&self, fleet: &MigFleet) -> Vec<usize> {
        let gpu = self.evidence.gpu();
        let mut slices = Vec::new();
        for row in &fleet.tried.partitions {
            for _ in 0..row.gpus {
                for slice in &row.slices {
                    slices.extend((0..slice.count).filter_map(|_| gpu.profile(&slice.profile)));
                }
            }
        }
        slices
    }

    /// What each job asks for: the one profile that its type is dealt next, or any that keeps the SLO. A type that the plan has no part for asks for any.
    fn asks(&self, fleet: &MigFleet, jobs: &TypedJobs, any_slice: bool) -> Vec<Profiles> {
        let kinds = fleet.speeds.len();
        let mut dealt: Vec<Vec<(usize, f64, f64)>> = vec![Vec::new(); kinds];
        for put in fleet.puts.iter().filter(|_| !any_slice) {
            if let Some(of) = dealt.get_mut(put.at).filter(|_| put.jobs > 0.0) {
                of.push((put.profile, put.jobs, 0.0));
            }
        }
        let any: Vec<Profiles> = fleet
            .speeds
            .iter()
            .map(|of| {
                let allowed = |profile: &usize| of.get(*profile).is_some_and(|on| on.is_allowed(self.request.slo));
                self.profiles.iter().copied().filter(allowed).collect()
            })
            .collect();
        let mut ask = |kind: &u16| {
            let kind = usize::from(*kind);
            let of = dealt.get_mut(kind).filter(|of| !of.is_empty());
            of.map_or_else(|| any.get(kind).copied().unwrap_or_default(), |of| Profiles::one(next(of)))
        };
        jobs.kind.iter().map(&mut ask).collect()
    }

    /// The whole GPUs with which the later jobs wait no longer. `waits` are 95 % waits by numbers of whole GPUs, as far as they were replayed: every row asks for the same.
    fn whole_instead(&self, p95_s: f64, waits: &RefCell<BTreeMap<u32, Option<f64>>>) -> Result<u32> {
        let jobs = &self.jobs.jobs;
        let whole = self.evidence.gpu().whole();
        fewest_of_any(&|gpus| {
            let known = waits.borrow().get(&gpus).copied();
            let wait_s = match known {
                Some(wait_s) => wait_s,
                None => {
                    let asks = vec![Profiles::one(whole); jobs.submit_ms.len()];
                    let times = replay(jobs, &asks, &vec![whole; gpus as usize], &self.truth)?;
                    p95_wait_s(jobs, &times, &self.jobs.parts.later)
                }
            };
            waits.borrow_mut().insert(gpus, wait_s);
            Ok(wait_s.is_some_and(|wait_s| wait_s <= p95_s))
        })
    }

    fn row(
        &self,
        rule: MigRule,
        any_slice: bool,
        chosen: &MigChosen,
        times: &[Option<SliceTimes>],
        base: Option<&[Option<SliceTimes>]>,
        waits: &RefCell<BTreeMap<u32, Option<f64>>>,
    ) -> Result<MigReplayRow> {
        let (jobs, which) = (&self.jobs.jobs, &self.jobs.parts.later);
        let later = figures(jobs, times, which, self.request.slo);
        let mean_delay_change_s = base.map(|base| {
            mean_change(&by_day(jobs, which), &|job| {
                let (now, before) = ((*times.get(job)?)?, (*base.get(job)?)?);
                Some((now.end_ms - before.end_ms) as f64 / 1e3)
            })
        });
        Ok(MigReplayRow {
            rule,
            any_slice,
            busy: chosen.busy,
            gpus: chosen.fleet.tried.gpus,
            partitions: chosen.fleet.tried.partitions.clone(),
            later,
            mean_delay_change_s,
            whole_instead: later.p95_wait_s.map(|p95_s| self.whole_instead(p95_s, waits)).transpose()?,
        })
    }
}

/// The profile that is furthest behind its part, of `(profile, weight, dealt)`; of equals the smallest. It is dealt one more.
fn next(of: &mut [(usize, f64, f64)]) -> usize {
    let (all, dealt) = of.iter().fold((0.0, 0.0), |sum, (_, weight, dealt)| (sum.0 + weight, sum.1 + dealt));
    let mut best: Option<(usize, f64)> = None;
    for (at, (_, weight, has)) in of.iter().enumerate() {
        let behind = weight / all * (dealt + 1.0) - has;
        if best.is_none_or(|(_, most)| behind > most + 1e-9) {
            best = Some((at, behind));
        }
    }
    let result = best.and_then(|(at, _)| of.get_mut(at));
    result.map_or(0, |(profile, _, has)| {
        *has += 1.0;
        *profile
    })
}

/// Speeds as they are believed, on profiles that are used.
fn believed(speeds: &[Vec<MigSpeed>], profiles: &[usize]) -> SliceSpeeds {
    let all = speeds.first().map_or(0, Vec::len);
    let mut result = SliceSpeeds::new(speeds.len(), all);
    for (kind, of) in speeds.iter().enumerate() {
        for profile in profiles {
            if let Some(speed) = of.get(*profile).filter(|speed| speed.fits && speed.speed > 0.0) {
                result.set(kind, *profile, speed.speed);
            }
        }
    }
    result
}

/// The 95 % wait of some jobs, seconds; `None` where so many never run.
fn p95_wait_s(jobs: &TypedJobs, times: &[Option<SliceTimes>], which: &[usize]) -> Option<f64> {
    let wait = |job: &usize| {
        let submit = jobs.submit_ms.get(*job)?;
        Some((*times.get(*job)?).map_or(NEVER, |times| times.start_ms - submit))
    };
    nearest_rank_s(&which.iter().filter_map(wait).collect::<Vec<_>>(), TAIL)
}

/// Figures of some jobs.
fn figures(jobs: &TypedJobs, times: &[Option<SliceTimes>], which: &[usize], slo: f64) -> MigFigures {
    let (mut waits, mut delays, mut slowdowns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut over, mut failed, mut without_room) = (0usize, 0u64, 0u64);
    for job in which {
        let (Some(submit), Some(run)) = (jobs.submit_ms.get(*job), jobs.run_ms.get(*job)) else { continue };
        let Some(times) = times.get(*job).copied().flatten() else {
            without_room += 1;
            over += 1;
            continue;
        };
        waits.push((times.start_ms - submit) as f64 / 1e3);
        delays.push((times.end_ms - submit - run) as f64 / 1e3);
        failed += u64::from(times.failed);
        let (slowdown, is_over) = slowdown(times.held_ms(), *run, slo);
        over += usize::from(is_over);
        slowdowns.push(slowdown);
    }
    MigFigures {
        mean_wait_s: interval::average(waits.iter().copied()),
        p95_wait_s: p95_wait_s(jobs, times, which),
        mean_delay_s: interval::average(delays.iter().copied()),
        slowdown90: quantile(&slowdowns, 0.9),
        over_slo: over as f64 / which.len().max(1) as f64,
        failed,
        without_room,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
