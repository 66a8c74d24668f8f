//! The answer of `plan share couples`, as JSON (`plan-share-couples/2`).
//!
//! Of each GPU type: which couples of job types to share from now on, in which classes, and what the same rule did to later jobs when each couple was forecast without its own
//! measured speeds. **Followed** is a plan whose rule in one class, as Slurm can be set, was chosen on the earlier jobs, with which the later ones clearly end sooner (by at least 5 % of
//! their delay, and the whole interval), and that keeps the SLO at the 0.9 quantile there. **On own GPUs**, as Kubernetes needs it, the same is asked of the rule with GPUs of its own for
//! each class. The first lines of the answer are those of the GPU type whose plan is followed and
//! saves most, else of the first. Where the types of half of the GPU time or more are drawn, no
//! plan is followed: what came of it would be of a mix that nobody runs. From now on the rule is
//! put to the predictor that is trained on all pairs: of those that were measured it knows what was
//! measured. The classes that come of that were not replayed; the one that saves most is Slurm's.
//!
//! O(kinds²). Worked example: of 26 job types 8 and 4 may share in two classes. In Slurm the 8 share any GPU, if they save more; the other 18 take whole GPUs.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::time::Zone;
use tracecast_analytics::watch::{self, Watch};
use tracecast_predictors::interference::predictor::{Basis as KnownBy, SharingJob, SharingPredictor};
use tracecast_predictors::interference::share::{self, BrokenLimit, PairAnswer, Refused, SharingLimits};
use tracecast_predictors::interference::table::SharingTable;

use super::class::classes;
use super::engine::{PairSpeeds, SharingRule};
use super::evidence::{PairEvidence, gpu_named};
use super::job_type::{JobUse, TypesByUse};
use super::policy::SharingPolicy;
use super::pool::ClassPools;
use super::setting::{SharingCandidate, SharingRequest};
use super::study::{HowSet, KindOutcome, SharingStudy, SharingTried, study};
use super::way::{self, WaysCompared};
use crate::error::{Error, Result};
use crate::one_gpu::types::{TypeOfNames, TypesOfNames};
use crate::one_gpu::{LEAST_NAMED, OneGpuJobs, mostly_drawn};
use crate::plan::answer::{Advice, Answer, Change, Head, answer};
use crate::plan::forecast::{ForecastUsed, ForecastWords, Forecasting};
use crate::plan::verdict::{Verdict, uncounted, unsaved};
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, Recommendation, Regret, worth};

mod render;

pub use render::report;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-share-couples/2";

/// A couple of job types that may share from now on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingCouple {
    /// One job type.
    pub job_a: String,
    /// The other.
    pub job_b: String,
    /// Expected speed of the one.
    pub speed_a: f64,
    /// Expected speed of the other.
    pub speed_b: f64,
    /// Expected progress of both, where one alone makes 1.
    pub expected_progress: f64,
    /// How many times as slow the worse is, at the 0.9 quantile; null where too little is known to bound it.
    pub slowdown90: Option<f64>,
    /// Chance that they do not fit.
    pub out_of_memory: f64,
    /// Source of these numbers.
    pub basis: KnownBy,
    /// What keeps the two from sharing; none if they keep the limits.
    pub refused: Option<Refused>,
    /// Every limit that is not kept, and by which of the two.
    pub broken: Vec<BrokenLimit>,
}

/// Job types that may share GPUs, every two of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingClass {
    /// Name, such as `v100-share-1`.
    pub name: String,
    /// Job types.
    pub job_types: Vec<String>,
    /// Share of the GPU time of the later jobs that theirs is.
    pub gpu_time: f64,
    /// GPUs of its own, of those of the replay, where classes have such; it is not advised where `why_not_on_own_gpus` says why.
    pub gpus: u32,
    /// Whether it is the one whose jobs may share any GPU, where there is only one.
    pub on_all_gpus: bool,
    /// The slowest that the worse of two may be, at the 0.9 quantile, over all couples of the class.
    pub slowdown90: f64,
    /// Largest GPU memory that a job of the class is known to use, MB; none where it is not known.
    pub memory_mb: Option<f64>,
}

/// The plan for one GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingPlan {
    /// GPU type.
    pub gpu_type: String,
    /// GPUs of the replay.
    pub gpus: u32,
    /// Job types.
    pub job_types: usize,
    /// Earlier jobs.
    pub earlier_jobs: usize,
    /// Later jobs.
    pub later_jobs: usize,
    /// Jobs whose type was drawn.
    pub drawn_types: usize,
    /// Jobs whose type is that nearest to what they used, as telemetry says; null where there are none.
    pub types_by_use: Option<TypesByUse>,
    /// Share of the GPU time that is of jobs whose name is a job type of the table; below 0.5 no plan is followed.
    pub named_gpu_time: f64,
    /// The candidates on the earlier jobs, with speeds as they are forecast.
    pub candidates: Vec<SharingCandidate>,
    /// Limits that sharing must keep, as chosen.
    pub limits: SharingLimits,
    /// The rule of the plan among those tried.
    pub rule: SharingPolicy,
    /// Whether it is advised, which is to follow it.
    pub verdict: Verdict,
    /// Why it is not to be followed; empty if it is.
    pub why_not: String,
    /// Why not on GPUs of its own for each class, as Kubernetes needs it; empty if it is to be followed so, too.
    pub why_not_on_own_gpus: String,
    /// Every policy on the later jobs; the first is nobody sharing.
    pub tried: Vec<SharingTried>,
    /// Job types on the later jobs, under the rule in one class as it was tested.
    pub by_job_type: Vec<KindOutcome>,
    /// Couples that may share from now on.
    pub couples: Vec<SharingCouple>,
    /// Where the plan is not followed: the couples that are forecast to keep the limits, else those that come nearest to it. They are not advised.
    pub not_advised: Vec<SharingCouple>,
    /// Classes in which every two may.
    pub classes: Vec<SharingClass>,
    /// Recommended action, in a sentence.
    pub action: String,
    /// The recommendation, if a change is worth it.
    pub recommendation: Option<Recommendation>,
}

/// How the plans were tested.
///
/// It is no [`Trial`](crate::plan::trial::Trial): each GPU type has a test of its own, with
/// [policies](SharingTried) on the later jobs, and no amounts in windows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingTrial {
    /// The split: jobs submitted from here on are the later ones. In the trace's zone.
    pub eval_from: String,
    /// Pairs of each new job type that the tested plan knew.
    pub measured: usize,
    /// Seed of job types and pairs.
    pub seed: u64,
    /// GPUs that were measured by time slicing and by MPS: which of both is better.
    pub ways: Vec<WaysCompared>,
}

/// The answer.
pub type SharingPlanAnswer = Answer<SharingTrial, SharingBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharingBody {
    /// Job types by the names of jobs, as the file of types has them: the first line that matches counts. Empty without such a file.
    pub types: Vec<TypeOfNames>,
    /// One for each GPU type.
    pub plans: Vec<SharingPlan>,
    /// Parts of the plan that the patch to the user's own files leaves out, and why; empty where it
    /// holds all, or no file was named.
    pub not_in_patch: Vec<String>,
}

/// The JSON Schema of [`SharingPlanAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SharingPlanAnswer).to_value()
}

/// Plans sharing for the jobs of a trace, with the pairs of a table. Who shares from now on is for the
/// predictor that was `saved`, else for one trained on all pairs. `watch` is told how far that is.
///
/// # Errors
/// If there are too few jobs or families, a GPU type is not in the table, or a predictor cannot be
/// trained.
pub fn plan(
    trace: &Trace,
    table: &SharingTable,
    title: String,
    request: &SharingRequest,
    saved: Option<&SharingPredictor>,
    watch: &dyn Watch,
) -> Result<SharingPlanAnswer> {
    let mut all = OneGpuJobs::new(trace);
    let mut types = Vec::new();
    if let Some(path) = &request.types {
        let told = TypesOfNames::read(path, table.jobs())?;
        all.name_types(&told);
        types = told.lines();
    }
    let wanted: Vec<usize> = if request.gpu_types.is_empty() {
        (0..table.gpu_types().len()).collect()
    } else {
        request.gpu_types.iter().map(|name| gpu_named(table, name)).collect::<Result<_>>()?
    };
    let evidence: Vec<PairEvidence> =
        wanted.into_iter().map(|gpu| PairEvidence::new(table, gpu)).collect::<Result<_>>()?;
    let of_use = JobUse::new(trace, &all, &evidence, request.seed)?;
    let mut result = Vec::new();
    watch.more(evidence.len());
    for evidence in evidence {
        let told = watch::part(watch, || evidence.forecasts(table, &[request.measured], request.seed))?;
        let forecasts = told.first().ok_or_else(|| Error::defect("no forecast was made".to_owned()))?;
        let study = study((&all, &of_use), &evidence, forecasts, request, watch)?;
        let judged = judge(&study, HowSet::OneClass);
        result.push((evidence, study, judged));
    }
    let ways = way::compared(result.iter().map(|(evidence, study, (_, why_not))| (evidence, study, why_not.as_str())));
    // One way alone is followed, and the later jobs have no part in which.
    for (evidence, _, judged) in result.iter_mut().filter(|(.., (verdict, _))| *verdict == Verdict::Advised) {
        let better = ways.iter().filter(|of| of.ways.iter().any(|way| way.gpu_type == evidence.gpu_type));
        let better = better.filter_map(WaysCompared::chosen).find(|way| way.gpu_type != evidence.gpu_type);
        if let Some(better) = better {
            let why_not = format!("with speeds as forecast, the earlier jobs end sooner by {}", better.way.in_words());
            *judged = (Verdict::NothingBetter, why_not);
        }
    }
    let split_ms = result.first().map_or(0, |(_, study, _)| study.split_ms);
    // What to share from now on; of what is not followed that is shown and not advised, and may be
    // missing.
    let follows = result.iter().any(|(.., (verdict, _))| *verdict == Verdict::Advised);
    let trained = match saved {
        Some(_) => None,
        None => match SharingPredictor::train(table, request.seed) {
            Err(error) if follows => return Err(error.into()),
            told => told.ok(),
        },
    };
    let predictor = saved.or(trained.as_ref());
    let worths: Vec<Forecasting> =
        result.iter().map(|(_, study, (verdict, _))| forecasting(study, *verdict == Verdict::Advised)).collect();
    let (plans, changes): (Vec<SharingPlan>, Vec<Option<Change>>) = result
        .into_iter()
        .map(|(evidence, study, judged)| of_gpu_type(study, judged, request.planned(), &evidence, predictor))
        .unzip();
    let mut notes = table.notes.clone();
    let drawn = plans.first().map_or(0, |plan| plan.drawn_types);
    notes.extend(all.notes(drawn, "measured", request.seed));
    if let Some(saved) = saved {
        let pairs = format::counted(saved.trained().pairs as u64, "pair", "pairs");
        notes.push(format!("Who shares from now on is forecast by the saved model, of {pairs}."));
        notes.extend(plans.iter().filter_map(|plan| saved.unmeasured(&plan.gpu_type)));
    }
    notes.extend(plans.first().and_then(|plan| plan.types_by_use).map(|by_use| by_use.note()));
    notes.push("Every GPU of the replay is of the type named; jobs run alone as long as the record says.".to_owned());
    notes.extend(plans.iter().filter(|plan| plan.is_followed()).filter_map(SharingPlan::left_whole));
    let zone = Zone::named(&trace.zone)?;
    let trial = SharingTrial {
        eval_from: trace.moment(&zone, all.origin_ms + split_ms, all.origin_ms),
        measured: request.measured,
        seed: request.seed,
        ways,
    };
    let body = SharingBody { types, plans, not_in_patch: Vec::new() };
    let at = body.leading();
    let leading = body.plans.get(at).ok_or_else(|| Error::defect("no GPU type is planned for".to_owned()))?;
    let others = body.plans.iter().filter(|plan| plan.gpu_type != leading.gpu_type);
    let alike = others.filter(|plan| plan.is_followed() == leading.is_followed());
    let actions: Vec<&str> = std::iter::once(leading).chain(alike).map(|plan| plan.action.as_str()).collect();
    let decided = (leading.verdict, actions.join(" "));
    let advice = match changes.into_iter().nth(at).flatten() {
        Some(change) => Advice::Change(Box::new(change)),
        None => Advice::Stay(leading.unchanged()),
    };
    let forecasting = worths.get(at).cloned().unwrap_or_else(|| Forecasting::none("nothing was tested"));
    let head = Head { schema: SCHEMA, title, cautions: Vec::new(), notes, forecasting, sources: trace.sources.clone() };
    Ok(answer(head, trial, body, decided, advice))
}

/// What forecasts of slowdowns are worth on the later jobs: packing that forecasts nothing and takes
/// jobs out again, the rule of the plan, and sharing that knows every pair.
fn forecasting(study: &SharingStudy, is_followed: bool) -> Forecasting {
    if study.driven.is_empty() {
        return Forecasting::none("too few pairs are known to forecast others");
    }
    let words = ForecastWords {
        forecast: "slowdowns of jobs that share a GPU",
        naive: "packing with roll-back (Gandiva)",
        model: "the rule of the plan",
        metric: "mean delay of the later jobs",
        unit: "s",
    };
    let used = if is_followed { ForecastUsed::Model } else { ForecastUsed::None };
    let why = (!is_followed).then(|| "nobody is advised to share".to_owned());
    Forecasting::new(&words, &study.driven, study.jobs.1 as f64, used, why)
}

/// Couples that are shown where none keeps the limits.
const NEAREST: usize = 10;

impl From<PairAnswer> for SharingCouple {
    fn from(told: PairAnswer) -> Self {
        Self {
            speed_a: told.speed_a.mean,
            speed_b: told.speed_b.mean,
            expected_progress: told.expected_progress,
            slowdown90: told.slowdown90,
            out_of_memory: told.out_of_memory,
            basis: told.basis,
            refused: told.refused,
            broken: told.broken,
            job_a: told.job_a,
            job_b: told.job_b,
        }
    }
}

/// What may share from now on.
struct FromNowOn {
    /// Couples that come nearest to the limits, where none keeps them.
    nearest: Vec<SharingCouple>,
    couples: Vec<SharingCouple>,
    /// Classes, by kind.
    classes: Vec<Vec<usize>>,
    /// The one that saves most.
    best: Option<usize>,
    /// GPUs of each; none if there are too few.
    gpus: Option<Vec<u32>>,
}

fn from_now_on(
    evidence: &PairEvidence,
    predictor: &SharingPredictor,
    limits: &SharingLimits,
    load: &[f64],
    gpus: u32,
) -> FromNowOn {
    let kinds = evidence.kinds.len();
    let mut rule = SharingRule::exclusive(kinds);
    let mut speeds = PairSpeeds::new(kinds);
    let (mut couples, mut nearest): (Vec<SharingCouple>, Vec<SharingCouple>) = (Vec::new(), Vec::new());
    for (a, one) in evidence.kinds.iter().enumerate() {
        for (b, other) in evidence.kinds.iter().enumerate().skip(a) {
            let (x, y) = (SharingJob::new(one.clone()), SharingJob::new(other.clone()));
            let told = share::pair(predictor, &evidence.gpu_type, &x, &y, limits);
            if told.share {
                rule.allow(a, b, 0);
                rule.allow(b, a, 0);
                speeds.set(a, b, (told.speed_a.mean, told.speed_b.mean));
                couples.push(told.into());
            } else {
                nearest.push(told.into());
            }
        }
    }
    let slowdown = |of: &SharingCouple| of.slowdown90.unwrap_or(f64::INFINITY);
    nearest.sort_by(|one, other| slowdown(one).total_cmp(&slowdown(other)));
    nearest.truncate(if couples.is_empty() { NEAREST } else { 0 });
    let classes = classes(&rule, kinds);
    let pools = ClassPools::new(&classes, load, &speeds);
    FromNowOn { nearest, couples, best: pools.saves_most(), gpus: pools.gpus(gpus), classes }
}

/// A policy among those tried.
fn tried(tried: &[SharingTried], policy: SharingPolicy, how: HowSet) -> Option<&SharingTried> {
    tried.iter().find(|tried| tried.policy == policy && tried.how == how)
}

/// Why nothing is shared where no forecast that was tested allows it.
const NO_COUPLE: &str = "no couple of job types is forecast to keep the limits";
/// Why nothing is shared on GPUs of its own for each class.
const TOO_FEW_GPUS: &str = "there are too few GPUs to give each class one";

/// Whether the plan is to be followed, if it is set so, and why not, which is empty if it is.
fn judge(result: &SharingStudy, how: HowSet) -> (Verdict, String) {
    let base = result.tried.first().map_or(0.0, |tried| tried.later.mean_delay_s);
    let planned = |how: HowSet| result.tried.iter().find(|tried| tried.how == how);
    let one = planned(HowSet::OneClass);
    let is_empty = |tried: Option<&SharingTried>| tried.is_some_and(|tried| tried.couples == 0);
    let free = one.and_then(|one| tried(&result.tried, one.policy, HowSet::Free));
    if result.named_gpu_time < LEAST_NAMED {
        let why = format!(
            "the names of {} are no job types of the table; name the job types first (--types)",
            mostly_drawn(result.named_gpu_time, "its jobs")
        );
        return (Verdict::Untested, why);
    }
    let (verdict, why) = match planned(how) {
        _ if !result.shares => {
            if is_empty(free) {
                (Verdict::NothingKeeps, NO_COUPLE)
            } else if is_empty(one) {
                let why =
                    "no job type that is forecast to keep the limits does so beside its own kind, so there is no class";
                (Verdict::NothingKeeps, why)
            } else {
                let why = "with speeds as forecast, no way to share within the limits made the earlier jobs end sooner";
                (Verdict::NothingBetter, why)
            }
        }
        None => (Verdict::NothingKeeps, TOO_FEW_GPUS),
        Some(rule) if rule.later.slowdown90.is_some_and(|slowdown| slowdown > result.limits.slo) => {
            let why = "on the later jobs, those that shared were slower than the SLO at the 0.9 quantile";
            (Verdict::LimitMissed, why)
        }
        Some(rule) if worth(-rule.mean_delay_change_s.value, -rule.mean_delay_change_s.high, base) => {
            (Verdict::Advised, "")
        }
        _ => (Verdict::NoSaving, "what was best on the earlier jobs did not clearly make the later ones end sooner"),
    };
    (verdict, why.to_owned())
}

/// The plan of a GPU type, and what is advised by it.
fn of_gpu_type(
    result: SharingStudy,
    judged: (Verdict, String),
    rule: SharingPolicy,
    evidence: &PairEvidence,
    predictor: Option<&SharingPredictor>,
) -> (SharingPlan, Option<Change>) {
    let now = predictor.map(|predictor| from_now_on(evidence, predictor, &result.limits, &result.load, result.gpus));
    let (verdict, why_not) = match (&now, judged) {
        (Some(now), (Verdict::Advised, _)) if now.classes.is_empty() => {
            let why = "with all pairs known, no job type keeps the limits beside its own kind, so there is no class";
            (Verdict::NothingKeeps, why.to_owned())
        }
        // The test forgets the families of both, and what it forgets may be measured.
        (Some(now), (verdict, why_not)) if why_not == NO_COUPLE && !now.couples.is_empty() => {
            let why = format!(
                "{NO_COUPLE} where the families of both are forgotten, so that nothing could be tested. With all pairs known {} them, and {} listed below; try these by hand first",
                format::counted(now.couples.len() as u64, "couple keeps", "couples keep"),
                if now.couples.len() == 1 { "is" } else { "are" }
            );
            (verdict, why)
        }
        (_, judged) => judged,
    };
    let followed = verdict == Verdict::Advised;
    let why_not_on_own_gpus = match &now {
        Some(now) if followed && now.gpus.is_none() => TOO_FEW_GPUS.to_owned(),
        _ if followed => judge(&result, HowSet::OwnGpus).1,
        _ => "it is not followed with one class, either".to_owned(),
    };
    let (now, left) = if followed { (now, None) } else { (None, now) };
    let not_advised = left.map_or_else(Vec::new, |now| if now.couples.is_empty() { now.nearest } else { now.couples });
    let best = now.as_ref().and_then(|now| now.best);
    let (couples, found_classes, class_gpus) =
        now.map_or_else(Default::default, |now| (now.couples, now.classes, now.gpus.unwrap_or_default()));
    let by_type = |kind: usize| result.by_kind.get(kind).map_or(0.0, |of| of.run_h);
    let all: f64 = (0..evidence.kinds.len()).map(by_type).sum();
    let slug = crate::plan::slug::slug(&evidence.gpu_type).unwrap_or_else(|| "gpu".to_owned());
    let class = |(number, kinds): (usize, &Vec<usize>)| {
        let name = |kind: &usize| evidence.kinds.get(*kind).cloned().unwrap_or_default();
        let job_types: Vec<String> = kinds.iter().map(name).collect();
        let within = couples.iter().filter(|of| job_types.contains(&of.job_a) && job_types.contains(&of.job_b));
        let memory = kinds.iter().map(|kind| {
            evidence.profiles.get(*kind)?.get(tracecast_predictors::interference::table::Quantity::MemoryMb)
        });
        SharingClass {
            name: format!("{slug}-share-{}", number + 1),
            slowdown90: within.filter_map(|of| of.slowdown90).fold(1.0, f64::max),
            gpu_time: kinds.iter().map(|kind| by_type(*kind)).sum::<f64>() / all.max(1e-9),
            gpus: class_gpus.get(number).copied().unwrap_or_default(),
            on_all_gpus: best == Some(number),
            memory_mb: memory.collect::<Option<Vec<f64>>>().map(|mb| mb.into_iter().fold(0.0, f64::max)),
            job_types,
        }
    };
    let classes: Vec<SharingClass> = found_classes.iter().enumerate().map(class).collect();
    let in_class = classes.iter().find(|class| class.on_all_gpus).map_or(0, |class| class.job_types.len());
    let action = match followed {
        false => format!("**Share no {} GPU**: {why_not}.", evidence.gpu_type),
        true => format!(
            "**Let {} of {} job types share {} GPUs**, two at a time, whichever two of them; all other jobs take whole GPUs.",
            format::count(in_class as u64),
            format::count(evidence.kinds.len() as u64),
            evidence.gpu_type
        ),
    };
    let change = if followed { change(&result, rule, &evidence.gpu_type) } else { None };
    let plan = SharingPlan {
        gpu_type: evidence.gpu_type.clone(),
        gpus: result.gpus,
        job_types: evidence.kinds.len(),
        earlier_jobs: result.jobs.0,
        later_jobs: result.jobs.1,
        drawn_types: result.drawn,
        types_by_use: result.by_use,
        named_gpu_time: result.named_gpu_time,
        candidates: result.candidates,
        limits: result.limits,
        rule,
        verdict,
        why_not,
        why_not_on_own_gpus,
        tried: result.tried,
        by_job_type: result.by_kind,
        couples,
        not_advised,
        classes,
        recommendation: change.clone().map(|change| change.recommended(&action, std::iter::empty())),
        action,
    };
    (plan, change)
}

impl SharingBody {
    /// Position of the plan that the answer leads with: of those that are followed the one that
    /// saves most, else the first.
    fn leading(&self) -> usize {
        let change = |plan: &SharingPlan| plan.recommendation.as_ref()?.effects.first().map(|effect| effect.change);
        let changes = self.plans.iter().map(|plan| change(plan).unwrap_or(f64::INFINITY));
        changes.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at)
    }
}

impl SharingPlan {
    /// A policy among those tried.
    pub fn of(&self, policy: SharingPolicy, how: HowSet) -> Option<&SharingTried> {
        tried(&self.tried, policy, how)
    }

    /// Whether it is to be followed.
    pub fn is_followed(&self) -> bool {
        self.verdict == Verdict::Advised
    }

    /// How sure it is that nothing should change; `None` where the plan is to be followed.
    fn unchanged(&self) -> Option<Assurance> {
        let (base, rule) = (self.tried.first(), self.of(self.rule, HowSet::OneClass));
        match (self.verdict, base, rule) {
            (Verdict::NoSaving, Some(base), Some(rule)) => {
                Some(unsaved(-rule.mean_delay_change_s.low / base.later.mean_delay_s, Confidence::Medium))
            }
            _ => uncounted(self.verdict),
        }
    }

    /// The class whose jobs may share any GPU.
    pub fn one_class(&self) -> Option<&SharingClass> {
        self.classes.iter().find(|class| class.on_all_gpus)
    }

    /// Classes that are to have GPUs of their own; none if the plan is not followed so.
    pub fn on_own_gpus(&self) -> &[SharingClass] {
        if self.is_followed() && self.why_not_on_own_gpus.is_empty() { &self.classes } else { &[] }
    }

    /// A sentence on the jobs that take whole GPUs once the plan is carried out, as no name tells a scheduler their types; none if names tell all.
    pub fn left_whole(&self) -> Option<String> {
        (self.named_gpu_time < 1.0 && (self.drawn_types > 0 || self.types_by_use.is_some())).then(|| {
            format!(
                "No scheduler knows the types of {} of the {} plan, by GPU time, as no name tells them: such jobs take whole GPUs where the plan is carried out, and less is shared than was replayed. Tell the types of these names with --types.",
                format::percent(1.0 - self.named_gpu_time),
                self.gpu_type
            )
        })
    }

    /// Whether somebody must watch new pairs.
    pub fn is_watched(&self) -> bool {
        self.rule == SharingPolicy::ForecastTrial
    }
}

/// Recommendation for a GPU type: the rule in one class.
fn change(result: &SharingStudy, rule: SharingPolicy, gpu_type: &str) -> Option<Change> {
    let of = |policy: SharingPolicy| tried(&result.tried, policy, HowSet::Free).map(|of| of.mean_delay_change_s.value);
    let is_watched = rule == SharingPolicy::ForecastTrial;
    let rule = tried(&result.tried, rule, HowSet::OneClass)?;
    let interval = format!("95 %, days of {} later jobs drawn anew", format::count(result.jobs.1 as u64));
    let mut effects = vec![
        Effect::new("Mean delay of a job", "s", &rule.mean_delay_change_s, &interval),
        Effect::new("Mean wait of a job", "s", &rule.mean_wait_change_s, &interval),
    ];
    effects.extend(rule.gpus_instead.map(|gpus| {
        let fewer = f64::from(gpus) - f64::from(result.gpus);
        let why = "one replay of the later jobs for each number of GPUs";
        Effect::counted("GPUs for the same 95 % wait", "GPUs", fewer, why)
    }));
    let mean = of(SharingPolicy::MeanForecast);
    let is_drawn = result.drawn > 0;
    let risk = format!(
        "{}Of jobs that shared, {} were slower than {} times; the 0.9 quantile was {}. That is of the rule in one class, as it was made without the measured speeds of the pairs it decided on. The class of now, which rests on all pairs, was not replayed.",
        if is_drawn { "The types of some jobs were drawn. " } else { "" },
        format::percent(rule.later.over_slo),
        format::float(result.limits.slo, 2),
        rule.later.slowdown90.map_or_else(|| "none".to_owned(), |slowdown| format::float(slowdown, 2))
    );
    let confidence = if is_drawn { Confidence::Low } else { Confidence::Medium };
    Some(Change {
        plan: "share couples",
        effects,
        against: format!("{} {gpu_type} GPUs that nobody shares", result.gpus),
        basis: Basis::LaterDays,
        regret: of(SharingPolicy::Oracle).map(|oracle| Regret {
            oracle: "sharing that knows every pair".to_owned(),
            oracle_change: oracle,
            naive_change: mean,
            naive: mean.map(|_| "packing by the mean forecast".to_owned()),
        }),
        harmed: vec![Harm {
            who: format!("{} of the jobs", format::percent(rule.lost)),
            how_much: format!("end later, by {} on average", format::duration(rule.lost_s)),
        }],
        sure: Assurance::lowered(confidence, Vec::new(), &risk),
        risk,
        assumed: vec![
            "Two jobs on a GPU run as fast as their types did when they were measured, from beginning to end.".to_owned(),
            "A job that does not fit beside another fails at once, tries again later, and does the other no harm.".to_owned(),
            "Users submit the same jobs at the same times, and say of which type each is.".to_owned(),
            if is_watched {
                "Somebody watches: 10 min after a job began beside another, it writes a checkpoint and is requeued if either is slower than the SLO, or if both together make no more than one alone. It keeps what it has done, and nothing is lost by the checkpoint."
            } else {
                "Nobody is taken out once they share."
            }
            .to_owned(),
        ],
        holds_until: "Job types, their batch sizes or the GPUs change; measure pairs of new types and plan again.".to_owned(),
        apply: "Make the same plan with --emit slurm,kubernetes --emit-to FOLDER, and read the files before you apply them.".to_owned(),
        command: None,
        undo: "Take what the files set out of the configuration again once the jobs have ended; each file says how.",
    })
}
