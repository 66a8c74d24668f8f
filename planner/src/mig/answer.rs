//! The answer of `plan share mig`, as JSON (`plan-share-mig/2`).
//!
//! The **plan** takes the speed of a job type on a slice as it was measured, and forecasts it where it was not. Beside it stand every job on a whole GPU and the best partition that all GPUs
//! have. The **test** asks what plans are worth where nothing was measured: the speeds of each family are forecast without any step time of it, rules choose fleets by that, and what was
//! measured says how many jobs are then slower than the SLO. Only slices that were measured take part in it. The oracle knows every measured speed.
//!
//! With the jobs of a trace in place of a demand, every fleet is the smallest on which these jobs keep the target of waiting, and is **replayed** on later jobs after a choice on earlier ones ([`super::study`]).
//!
//! A plan is **followed** if it needs at least 5 % fewer GPUs than whole GPUs do, or makes at least 5 % more on the GPUs given; with a trace, if that held on the later jobs, too, and most of the GPU time is of named job types.
//!
//! As slow as its programmes. Worked example: 10 jobs need 10 whole GPUs or 4 in partitions; 3 of the 4 have other partitions now, and are drained for 1 h each: 3 GPU-hours.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_S, Zone};
use tracecast_analytics::watch::Watch;
use tracecast_predictors::interference::slice::SliceTable;

use super::demand::{MigDemand, MigDemandRow};
use super::gpu::MigGpu;
use super::partition::full;
use super::rule::{MigFleet, MigQuestion, MigRequest, MigRule, MigTried};
use super::speed::{MigEvidence, SpeedBasis, SpeedBelief};
use super::study::{MigChosen, MigJobs, MigReplayed, MigStudy, MigStudyRequest, MigTypes};
use crate::error::{Error, Result};
use crate::one_gpu::OneGpuJobs;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::forecast::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::plan::verdict::{Verdict, uncounted};

mod advise;
mod render;

pub(super) use advise::jobs;
pub use render::report;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-share-mig/2";

/// A profile of the GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MigProfileRow {
    /// Name of the profile.
    pub profile: String,
    /// Parts of the SMs, of seven.
    pub compute_slices: u32,
    /// Slices of memory, of eight.
    pub memory_slices: u32,
    /// Memory that a job may use, MiB.
    pub usable_mib: u32,
    /// Memory slices at which one may begin.
    pub starts: Vec<u32>,
    /// How many fit on a GPU.
    pub most: u32,
}

/// A job type on a profile.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigSpeedRow {
    /// Job type.
    pub job: String,
    /// Profile.
    pub profile: String,
    /// Expected speed, relative to the whole GPU; none where nothing is known.
    pub speed: Option<f64>,
    /// How many times as slow as on the whole GPU, at the 0.9 quantile; none where nothing is known, or nothing is sure.
    pub slowdown90: Option<f64>,
    /// How it is known.
    pub basis: SpeedBasis,
    /// Whether the job is known to fit.
    pub fits: bool,
    /// Whether the plan may put it there.
    pub allowed: bool,
}

/// Jobs of one type on slices of one profile.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigPlaced {
    /// Job type.
    pub job: String,
    /// Profile; the whole GPU by its own.
    pub profile: String,
    /// Slices that they hold; parts of one where types share it.
    pub slices: f64,
    /// Jobs: at once, or an hour.
    pub jobs: f64,
    /// Expected speed, relative to the whole GPU.
    pub speed: f64,
    /// How many times as slow, at the 0.9 quantile.
    pub slowdown90: f64,
    /// How the speed is known.
    pub basis: SpeedBasis,
}

/// Change from the partitions of now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigChange {
    /// GPUs there are now.
    pub gpus_now: u32,
    /// GPUs of the plan that have their partition already.
    pub kept: u32,
    /// GPUs of the plan that must be given another partition.
    pub changed: u32,
    /// GPUs to change that there are, which are drained first; the others are new.
    pub drained: u32,
    /// How long a GPU takes no job before it is changed, seconds.
    pub drain_s: f64,
    /// GPU time lost to draining, GPU-hours.
    pub gpu_hours: f64,
}

/// What plans are worth where nothing of a family was measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigTested {
    /// Job types that take part: those that were measured on a slice.
    pub job_types: usize,
    /// Families of these job types, each forecast without its step times.
    pub families: usize,
    /// Profiles that were measured; no other is used.
    pub profiles: Vec<String>,
    /// Speeds that were measured on them, the whole GPU apart.
    pub speeds: usize,
    /// Share of these speeds that are no lower than what was to be reached with a chance of 90 %.
    pub held: f64,
    /// The rules, by the same demand.
    pub rules: Vec<MigTried>,
}

/// How the plan was tested; no amounts in windows of time, so it is no [`Trial`](crate::plan::trial::Trial).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigTrial {
    /// The test on families left out; none where that cannot be made, and a note says why.
    pub tested: Option<MigTested>,
    /// What fleets chosen on earlier jobs of the trace did to later ones; none where a demand was told.
    pub replayed: Option<MigReplayed>,
}

/// The answer.
pub type MigAnswer = Answer<MigTrial, MigBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigBody {
    /// The GPU.
    pub gpu: String,
    /// Name in Slurm.
    pub slurm_type: String,
    /// Profiles of the GPU, the smallest first.
    pub profiles: Vec<MigProfileRow>,
    /// Partitions of it to which no slice can be added.
    pub partitions: usize,
    /// How many times as slow as on the whole GPU a job may be.
    pub slo: f64,
    /// Share of the time that slices may be held, as it was given, or chosen for the jobs of a trace; none where jobs at once are told.
    pub busy: Option<f64>,
    /// GPUs that were given; none if the fewest were asked for.
    pub gpus_given: Option<u32>,
    /// What is to be carried.
    pub demand: Vec<MigDemandRow>,
    /// Whole GPUs that it keeps busy if every job runs alone.
    pub load: f64,
    /// Every job type on every profile.
    pub speeds: Vec<MigSpeedRow>,
    /// The plan; for the jobs of a trace one partition for all, where that needs no more GPUs and is advised.
    pub plan: MigTried,
    /// Whether no fleet can be better, to a ten-thousandth.
    pub proven: bool,
    /// Where the jobs of the fleet go.
    pub placed: Vec<MigPlaced>,
    /// Change to the plan; none where the partitions of now were not told.
    pub change: Option<MigChange>,
    /// Whole GPUs, and the best partition for all where there is one.
    pub beside: Vec<MigTried>,
    /// Parts of the plan that the patch to the user's own files leaves out, and why; empty where it
    /// holds all, or no file was named.
    pub not_in_patch: Vec<String>,
}

/// The JSON Schema of [`MigAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(MigAnswer).to_value()
}

/// Plans partitions for a demand.
///
/// # Errors
/// If the table is of another GPU, or a job type is not in it or does not fit on the GPU.
pub fn plan(
    table: &SliceTable,
    gpu: &'static MigGpu,
    title: String,
    demand: &MigDemand,
    request: &MigRequest,
) -> Result<MigAnswer> {
    let evidence = MigEvidence::new(table, gpu, demand)?;
    let profiles = (0..gpu.profiles.len()).collect();
    let question = MigQuestion { evidence: &evidence, demand, request, profiles };
    let must = |fleet: Option<MigFleet>| fleet.ok_or_else(|| Error::defect("whole GPUs carry nothing".to_owned()));
    let plan = must(question.fleet(MigRule::Plan, SpeedBelief::BestKnown)?)?;
    let mut beside = vec![must(question.fleet(MigRule::WholeGpus, SpeedBelief::BestKnown)?)?.tried];
    beside.extend(question.fleet(MigRule::OnePartition, SpeedBelief::BestKnown)?.map(|fleet| fleet.tried));
    let mut notes = table.notes().to_vec();
    let tested = tested(table, gpu, demand, request, &mut notes)?;
    notes.extend(assumed(demand, request, &evidence, false));
    let forecasting = forecasting(tested.as_ref());
    let head = Head { schema: SCHEMA, title, cautions: Vec::new(), notes, forecasting, sources: Vec::new() };
    let trial = MigTrial { tested, replayed: None };
    Ok(told(head, trial, MigBody::new(gpu, demand, request, plan, beside)))
}

/// Plans partitions for the jobs of a trace: those of one GPU. One partition for all is taken where it needs no more GPUs and is advised.
///
/// # Errors
/// If the table has no speeds for the jobs, the solver fails, too few jobs lie before or after the split, or the target cannot be kept on whole GPUs.
pub fn plan_jobs(
    table: &SliceTable,
    gpu: &'static MigGpu,
    title: String,
    trace: &Trace,
    request: &MigRequest,
    asked: &MigStudyRequest,
    watch: &dyn Watch,
) -> Result<MigAnswer> {
    let jobs = MigJobs::new(OneGpuJobs::new(trace), &MigTypes::new(table, gpu)?, asked)?;
    let evidence = MigEvidence::new(table, gpu, &jobs.demand)?;
    let study = MigStudy::new(&evidence, &jobs, request, asked);
    let not_kept = || {
        Error::NothingToEvaluate(format!(
            "no fleet that was tried, up to 46 times the load, keeps 95 % of the waits within {}; ask for a longer one with --target-p95",
            format::duration(asked.target_wait_ms as f64 / 1e3)
        ))
    };
    watch.more(3);
    let result = study.from_now_on(MigRule::Plan, watch)?.ok_or_else(not_kept)?;
    let whole = study.from_now_on(MigRule::WholeGpus, watch)?.ok_or_else(not_kept)?;
    let one = study.from_now_on(MigRule::OnePartition, watch)?;
    let mut beside = vec![whole.fleet.tried];
    beside.extend(one.as_ref().map(|one| one.fleet.tried.clone()));
    let (begins_ms, split_ms) = jobs.span_ms();
    let replayed = study.replayed(trace.moment(&Zone::named(&trace.zone)?, split_ms, begins_ms), watch)?;
    let asked_of = |chosen: &MigChosen| MigRequest { busy: chosen.busy, ..request.clone() };
    let body = |chosen: MigChosen| MigBody::new(gpu, &jobs.demand, &asked_of(&chosen), chosen.fleet, beside.clone());
    let simpler = one.filter(|one| {
        let is_advised = || advise::judge(Some(&replayed), &body(one.clone())).0 == Verdict::Advised;
        one.fleet.tried.gpus <= result.fleet.tried.gpus && is_advised()
    });
    let plan = simpler.unwrap_or(result);
    let request = asked_of(&plan);
    let mut notes = table.notes().to_vec();
    let tested = tested(table, gpu, &jobs.demand, &request, &mut notes)?;
    notes.extend(jobs.notes(asked.seed));
    notes.push(
        "A job runs on a whole GPU as long as the record says. Only slices that were measured are used.".to_owned(),
    );
    notes.extend(assumed(&jobs.demand, &request, &evidence, true));
    let forecasting = forecasting(tested.as_ref());
    let head = Head { schema: SCHEMA, title, cautions: Vec::new(), notes, forecasting, sources: trace.sources.clone() };
    let trial = MigTrial { tested, replayed: Some(replayed) };
    Ok(told(head, trial, body(plan)))
}

/// What forecasts of speeds are worth on families that were left out: a slice as fast as its share of
/// the SMs, as forecast, and as measured.
fn forecasting(tested: Option<&MigTested>) -> Forecasting {
    let gpus = |rule: MigRule| {
        let result = tested?.rules.iter().find(|tried| tried.rule == rule);
        result.map(|tried| f64::from(tried.gpus))
    };
    let (Some(naive), Some(truth)) = (gpus(MigRule::ShareOfSms), gpus(MigRule::Oracle)) else {
        return Forecasting::none("no family of job types could be left out to test forecasts of speeds on");
    };
    let words = ForecastWords {
        forecast: "speeds on slices",
        naive: "the share of the SMs",
        model: "the forecast at 90 %",
        metric: "GPUs that carry families left out",
        unit: "GPUs",
    };
    let driven = Driven { naive, model: gpus(MigRule::Forecast), truth };
    let why = "of speeds that were not measured; fleets differ in jobs that miss the SLO, too";
    Forecasting::new(&words, &[driven], 1.0, ForecastUsed::Model, Some(why.to_owned()))
}

/// The answer with what follows from the test.
fn told(head: Head, trial: MigTrial, body: MigBody) -> MigAnswer {
    let (verdict, why_not) = advise::judge(trial.replayed.as_ref(), &body);
    let action = match verdict {
        Verdict::Advised => body.act(&trial),
        _ => format!("**Partition nothing**: with an SLO of {}, {why_not}.", format::float(body.slo, 2)),
    };
    let advice = match body.beside(MigRule::WholeGpus) {
        Some(whole) if verdict == Verdict::Advised => Advice::Change(Box::new(advise::change(&trial, &body, whole))),
        _ => Advice::Stay(uncounted(verdict)),
    };
    answer(head, trial, body, (verdict, action), advice)
}

impl MigBody {
    fn new(
        gpu: &'static MigGpu,
        demand: &MigDemand,
        request: &MigRequest,
        plan: MigFleet,
        beside: Vec<MigTried>,
    ) -> Self {
        let change = change(request, &plan);
        let slowdown = |low: f64| (low > 0.0).then(|| 1.0 / low);
        let name = |at: usize| demand.rows.get(at).map_or_else(String::new, |row| row.job.clone());
        let profile = |at: usize| gpu.profiles.get(at).map_or_else(String::new, |profile| profile.name.to_owned());
        let mut speeds = Vec::new();
        for (at, of) in plan.speeds.iter().enumerate() {
            speeds.extend(of.iter().enumerate().map(|(which, speed)| MigSpeedRow {
                job: name(at),
                profile: profile(which),
                speed: (speed.basis != SpeedBasis::Unknown).then_some(speed.speed),
                slowdown90: slowdown(speed.low),
                basis: speed.basis,
                fits: speed.fits,
                allowed: speed.is_allowed(request.slo),
            }));
        }
        let placed = plan.puts.iter().filter_map(|put| {
            let speed = plan.speeds.get(put.at)?.get(put.profile)?;
            Some(MigPlaced {
                job: name(put.at),
                profile: profile(put.profile),
                slices: put.slices,
                jobs: put.jobs,
                speed: speed.speed,
                // What is allowed has a speed.
                slowdown90: 1.0 / speed.low,
                basis: speed.basis,
            })
        });
        let placed: Vec<MigPlaced> = placed.collect();
        let plan = plan.tried;
        let proven = plan.rule == MigRule::Plan
            && match request.gpus {
                Some(_) => plan.bound <= plan.progress * (1.0 + 2e-4) + 1e-6,
                None => f64::from(plan.gpus) < plan.bound + 0.5,
            };
        Self {
            gpu: gpu.name.to_owned(),
            slurm_type: gpu.slurm.to_owned(),
            profiles: gpu.profiles.iter().map(profile_row).collect(),
            partitions: full(gpu).len(),
            slo: request.slo,
            busy: demand.is_load.then_some(request.busy),
            gpus_given: request.gpus,
            demand: demand.rows.clone(),
            load: demand.load(),
            speeds,
            plan,
            proven,
            placed,
            change,
            beside,
            not_in_patch: Vec::new(),
        }
    }

    /// A fleet beside the plan.
    pub fn beside(&self, rule: MigRule) -> Option<&MigTried> {
        self.beside.iter().find(|tried| tried.rule == rule)
    }

    /// Whether any job is put on a slice by a forecast.
    pub fn is_forecast(&self) -> bool {
        self.placed.iter().any(|placed| placed.basis == SpeedBasis::Forecast)
    }

    /// Jobs of the demand: at once, or an hour.
    fn jobs(&self) -> f64 {
        self.demand.iter().map(|row| row.jobs).sum()
    }
}

impl MigTested {
    /// What a rule came to.
    pub fn rule(&self, rule: MigRule) -> Option<&MigTried> {
        self.rules.iter().find(|tried| tried.rule == rule)
    }
}

fn profile_row(of: &super::gpu::MigProfile) -> MigProfileRow {
    MigProfileRow {
        profile: of.name.to_owned(),
        compute_slices: of.compute,
        memory_slices: of.memory,
        usable_mib: of.usable_mib,
        starts: of.starts.to_vec(),
        most: of.most(),
    }
}

fn change(request: &MigRequest, plan: &MigFleet) -> Option<MigChange> {
    if request.now.is_empty() {
        return None;
    }
    let gpus_now: u32 = request.now.iter().map(|(_, gpus)| gpus).sum();
    let changed = plan.tried.gpus - plan.kept;
    let drained = changed.min(gpus_now - plan.kept);
    let gpu_hours = f64::from(drained) * request.drain_s / HOUR_S;
    Some(MigChange { gpus_now, kept: plan.kept, changed, drained, drain_s: request.drain_s, gpu_hours })
}

/// The test on families left out.
fn tested(
    table: &SliceTable,
    gpu: &'static MigGpu,
    demand: &MigDemand,
    request: &MigRequest,
    notes: &mut Vec<String>,
) -> Result<Option<MigTested>> {
    let whole = gpu.profiles.get(gpu.whole()).map_or("", |profile| profile.name);
    let is_measured = |row: &&MigDemandRow| table.job(&row.job).is_some_and(|job| table.measured(job, whole).is_some());
    let part = MigDemand { rows: demand.rows.iter().filter(is_measured).cloned().collect(), is_load: demand.is_load };
    if part.rows.is_empty() {
        notes
            .push("No job type of the demand was measured on a slice, so forecasts of them are not tested.".to_owned());
        return Ok(None);
    }
    let evidence = MigEvidence::new(table, gpu, &part)?;
    if !evidence.can_be_tested() {
        notes.push("Three families whose profiles differ, with step times on slices, are needed to forecast a family without its own: forecasts are not tested.".to_owned());
        return Ok(None);
    }
    let request = MigRequest { now: Vec::new(), ..request.clone() };
    let profiles: Vec<usize> = (0..gpu.profiles.len()).filter(|at| evidence.was_measured(*at)).collect();
    let (mut speeds, mut held) = (0usize, 0usize);
    for at in 0..part.rows.len() {
        for profile in profiles.iter().filter(|profile| **profile != gpu.whole()) {
            let Some(speed) = evidence.measured(at, *profile) else { continue };
            speeds += 1;
            held += usize::from(speed >= evidence.speed(at, *profile, SpeedBelief::ForecastQuantile).low - 1e-12);
        }
    }
    let families: BTreeSet<&str> = (0..part.rows.len()).map(|at| evidence.family(at)).collect();
    let names = profiles.iter().filter_map(|at| gpu.profiles.get(*at)).map(|profile| profile.name.to_owned()).collect();
    let question = MigQuestion { evidence: &evidence, demand: &part, request: &request, profiles };
    let mut rules = Vec::new();
    for (rule, belief) in [
        (MigRule::WholeGpus, SpeedBelief::Measured),
        (MigRule::OnePartition, SpeedBelief::ForecastQuantile),
        (MigRule::ShareOfSms, SpeedBelief::ShareOfSms),
        (MigRule::MeanForecast, SpeedBelief::ForecastMean),
        (MigRule::Forecast, SpeedBelief::ForecastQuantile),
        (MigRule::Oracle, SpeedBelief::Measured),
    ] {
        rules.extend(question.fleet(rule, belief)?.map(|fleet| fleet.tried));
    }
    Ok(Some(MigTested {
        job_types: part.rows.len(),
        families: families.len(),
        profiles: names,
        speeds,
        held: if speeds > 0 { held as f64 / speeds as f64 } else { 1.0 },
        rules,
    }))
}

/// Assumptions.
fn assumed(demand: &MigDemand, request: &MigRequest, evidence: &MigEvidence<'_>, is_replayed: bool) -> Vec<String> {
    let mut said = vec![
        format!(
            "A whole GPU is one on which MIG is off. Speeds are relative to its largest slice, {}, which may have a few SMs fewer.",
            evidence.gpu().profiles.get(evidence.gpu().whole()).map_or("", |profile| profile.name)
        ),
        "Slices do not slow each other: they have SMs and memory of their own. The PCIe bus and the power limit are shared, and that is not counted.".to_owned(),
        "Where a job type was not measured on a slice, it goes there only if the memory that it uses on the whole GPU fits; many jobs would do with less.".to_owned(),
    ];
    if demand.is_load {
        said.push(format!(
            "Slices are held {} of the time on average, so that jobs seldom wait; {}.",
            format::percent(request.busy),
            if is_replayed {
                "that share was chosen by replaying all jobs"
            } else {
                "how long they wait is not replayed"
            }
        ));
    } else {
        said.push("Each job has a slice of its own all the time.".to_owned());
    }
    if !evidence.can_forecast() {
        said.push("Too few families were measured to forecast others, or their profiles do not differ: only measured slices are used.".to_owned());
    }
    said
}
