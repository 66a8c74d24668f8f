//! Forecasts of the GPU use of jobs that have not run yet: job types from a table of profiles, and
//! jobs of a trace from its telemetry.
//!
//! The model is chosen as the back-test chooses it, on what is known and never on what is asked about.
//!
//! * **Job types**: each group of the table is left out in turn ([`super::held_out`]), and the model of least RMSLE is taken, taught by the whole table. Families are left out for an
//!   asked job type whose family the table does not have, job types for one whose family it has. A job type that was measured on the GPU type is answered as it was measured. Around
//!   that stands the interval that it had while it was left out, with its median moved there: cautious, as a measured type is better known than one left out.
//! * **Jobs**: as the last quarter is reported in the back-test ([`super::backtest`]), so the jobs asked about come after all others: of these 40 % only teach, 27 % serve intervals too, and
//!   on the last 33 % the model is chosen. It is fitted once more at the end of the record.
//!
//! Three groups are needed to leave one out and choose on the others. Where there are fewer, only what was measured is said, without an interval.
//!
//! O(folds × learners × rows), or O(fits × learners) of a trace. Worked number: `m (batch size 32)` measured at 40 %, while `m` at other batch sizes told 31 to 42 % with a median of 36 %: 40 %,
//! and 34.5 to 46.6 %, as all is moved by ln 41 − ln 37.

use std::collections::BTreeSet;

use serde::Serialize;

use super::held_out::{self, Chosen, LEAST_FOLDS, Profiled, folds_of, profiled, say};
use super::history::{AskedJob, Usage, UsageHistory};
use super::learner::UsageForecast;
use super::model::{UsageLeftOut, UsageModel, UsageModelName};
use super::past::KnownBy;
use super::score::rmsle;
use super::walk::{LEAST_JOBS, PARTS, Walk, too_few};
use crate::error::{Error, Result};
use crate::holdout::position;
use crate::interference::read::ProfileRow;
use crate::interference::table::{SharingTable, family_of_name};

/// Basis of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageBasis {
    /// The job type was measured on this GPU type.
    JobType,
    /// Others of its family were measured on this GPU type.
    Family,
    /// Its family, measured on other GPU types alone, which no back-test covers.
    FamilyElsewhere,
    /// Only other families were measured.
    OtherFamilies,
    /// Earlier jobs of its user and name; where its user is not known, of its name.
    RecurringGroup,
    /// Earlier jobs of its user.
    User,
    /// Earlier jobs of its size.
    Size,
    /// All earlier jobs.
    AllJobs,
}

impl UsageBasis {
    /// Basis in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::JobType => "measured",
            Self::Family => "its family",
            Self::FamilyElsewhere => "its family on other GPUs",
            Self::OtherFamilies => "other families",
            Self::RecurringGroup => KnownBy::Recurring.name(),
            Self::User => KnownBy::User.name(),
            Self::Size => KnownBy::Size.name(),
            Self::AllJobs => KnownBy::All.name(),
        }
    }

    /// Identifier of the basis in a file.
    pub fn id(self) -> &'static str {
        match self {
            Self::JobType => "job_type",
            Self::Family => "family",
            Self::FamilyElsewhere => "family_elsewhere",
            Self::OtherFamilies => "other_families",
            Self::RecurringGroup => "recurring_group",
            Self::User => "user",
            Self::Size => "size",
            Self::AllJobs => "all_jobs",
        }
    }

    /// Data left out in the test of such a forecast.
    fn left_out(self) -> UsageLeftOut {
        match self {
            Self::JobType | Self::Family | Self::FamilyElsewhere => UsageLeftOut::JobType,
            Self::OtherFamilies => UsageLeftOut::Family,
            Self::RecurringGroup | Self::User | Self::Size | Self::AllJobs => UsageLeftOut::Later,
        }
    }
}

impl From<KnownBy> for UsageBasis {
    fn from(known_by: KnownBy) -> Self {
        match known_by {
            KnownBy::Recurring => Self::RecurringGroup,
            KnownBy::User => Self::User,
            KnownBy::Size => Self::Size,
            KnownBy::All => Self::AllJobs,
        }
    }
}

/// Quantiles of a usage, percent or MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageQuantiles {
    /// 5 %.
    pub p05: f64,
    /// 10 %.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
}

/// Forecast of one usage of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageValue {
    /// The one number, whose error a back-test gives: percent or MiB.
    pub expected: f64,
    /// The interval; none of what was measured where too few groups are known to draw one.
    pub quantiles: Option<UsageQuantiles>,
    /// The model that says it; of what was measured, the one that draws the interval.
    pub model: Option<UsageModelName>,
    /// Basis of the forecast.
    pub rests_on: UsageBasis,
}

impl UsageValue {
    fn new(told: &UsageForecast, model: UsageModelName, rests_on: UsageBasis) -> Self {
        let [p05, p10, p50, p90, p95] = told.quantiles.map(f64::exp_m1);
        let quantiles = Some(UsageQuantiles { p05, p10, p50, p90, p95 });
        Self { expected: told.point.exp_m1(), quantiles, model: Some(model), rests_on }
    }
}

/// Choice of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageChoice {
    /// Usage that is predicted.
    pub usage: Usage,
    /// Data left out for the choice: families for job types of no known family, job types for the
    /// others, later jobs of a trace.
    pub left_out: UsageLeftOut,
    /// The model.
    pub model: UsageModelName,
    /// RMSLE of the model on the data it was chosen on, the least of all models; later errors are
    /// larger, if anything.
    pub rmsle: f64,
    /// Job types or jobs that it was chosen on.
    pub chosen_on: usize,
    /// Groups that were left out, one after the other; 0 of a trace.
    pub folds: usize,
}

/// Forecasts of usages, in order of what was asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageForecasts {
    /// Mean utilisation and peak memory of each job type or job ([`Usage::ALL`]); None where no
    /// forecast can be made.
    pub values: Vec<[Option<UsageValue>; Usage::ALL.len()]>,
    /// The models that were chosen.
    pub choices: Vec<UsageChoice>,
    /// Notes for readers, a sentence each.
    pub notes: Vec<String>,
}

impl UsageForecasts {
    fn with_room(count: usize) -> Self {
        Self { values: vec![[None; Usage::ALL.len()]; count], ..Self::default() }
    }

    fn set(&mut self, row: usize, usage: Usage, value: UsageValue) {
        let place = Usage::ALL.iter().position(|one| *one == usage);
        let slot = place.and_then(|place| self.values.get_mut(row)?.get_mut(place));
        if let Some(slot) = slot {
            *slot = Some(value);
        }
    }
}

/// The family of a job type: as the row tells, else as the table does, else as the name does.
pub(super) fn family<'t>(table: &'t SharingTable, request: &'t ProfileRow) -> &'t str {
    let known = || {
        let job = table.jobs().iter().position(|job| *job == request.job)?;
        table.families().get(table.family(job)).map(String::as_str)
    };
    request.family.as_deref().or_else(known).unwrap_or_else(|| family_of_name(&request.job))
}

/// A job type that is asked about, beside the rows of a table.
struct AskedRow {
    /// Its index in the request.
    at: usize,
    row: Profiled,
    basis: UsageBasis,
    /// Measured usage, on the log scale.
    measured: Option<f64>,
}

/// Forecasts for job types from the job types of a table.
///
/// # Errors
/// If nothing can be said of any, or a learner fails.
pub fn of_types(table: &SharingTable, asked: &[ProfileRow], seed: u64) -> Result<UsageForecasts> {
    let mut result = UsageForecasts::with_room(asked.len());
    let place = |names: &[String], name: &str| names.iter().position(|known| known == name);
    for usage in Usage::ALL {
        let known = profiled(table, usage, UsageLeftOut::JobType);
        if known.is_empty() {
            result.notes.push(format!("{} is in no row of the table: nothing is said of it.", usage.name()));
            continue;
        }
        let basis_of = |(at, asked): (usize, &ProfileRow)| {
            let gpu = place(table.gpu_types(), &asked.gpu_type);
            let job = place(table.jobs(), &asked.job);
            let family = place(table.families(), family(table, asked));
            let of_job = |row: &&Profiled| row.gpu == gpu && row.job == job && job.is_some();
            let measured = known.iter().find(of_job).map(|row| row.y);
            let of_family = |row: &&Profiled| row.family == family;
            let basis = if measured.is_some() {
                UsageBasis::JobType
            } else if known.iter().filter(of_family).any(|row| row.gpu == gpu) {
                UsageBasis::Family
            } else if known.iter().any(|row| of_family(&row)) {
                UsageBasis::FamilyElsewhere
            } else {
                UsageBasis::OtherFamilies
            };
            AskedRow { at, row: Profiled::asked(gpu, family, job, &asked.profile), basis, measured }
        };
        let rows: Vec<AskedRow> = asked.iter().enumerate().map(basis_of).collect();
        for left_out in [UsageLeftOut::JobType, UsageLeftOut::Family] {
            let here: Vec<&AskedRow> = rows.iter().filter(|row| row.basis.left_out() == left_out).collect();
            if !here.is_empty() {
                in_one_way(&mut result, &profiled(table, usage, left_out), &here, usage, left_out, seed)?;
            }
        }
    }
    if result.values.iter().flatten().all(Option::is_none) {
        return Err(Error::TooFew(format!(
            "nothing can be said of any row: {} {LEAST_FOLDS} families at least are needed with a known utilisation (sm_util_pct) or memory (memory_mb)",
            result.notes.join(" ")
        )));
    }
    strange_gpus(&mut result, table, asked);
    Ok(result)
}

/// Adds what is said of those rows that are tested by leaving the same out.
fn in_one_way(
    result: &mut UsageForecasts,
    rows: &[Profiled],
    request: &[&AskedRow],
    usage: Usage,
    left_out: UsageLeftOut,
    seed: u64,
) -> Result<()> {
    let chosen = held_out::choose(rows, left_out, seed)?;
    let Some(Chosen { model, rmsle, reach, held_back }) = chosen else {
        for one in request {
            if let Some(measured) = one.measured {
                let expected = measured.exp_m1();
                let value = UsageValue { expected, quantiles: None, model: None, rests_on: one.basis };
                result.set(one.at, usage, value);
            }
        }
        let (what, which) = match left_out {
            UsageLeftOut::Family => ("families", "of no known family"),
            UsageLeftOut::JobType | UsageLeftOut::Later => ("job types", "of a known family"),
        };
        result.notes.push(format!(
            "{} of {} {which}: the table knows it of {} {what}, and {LEAST_FOLDS} are needed to choose a model; only what was measured is said, without an interval.",
            usage.name(),
            tracecast_analytics::report::format::counted(request.len() as u64, "row", "rows"),
            folds_of(rows).len()
        ));
        return Ok(());
    };
    let name = model.named(left_out);
    result.choices.push(UsageChoice {
        usage,
        left_out,
        model: name,
        rmsle,
        chosen_on: rows.len(),
        folds: folds_of(rows).len(),
    });
    let ask: Vec<Profiled> = request.iter().map(|one| one.row).collect();
    let said = say(model, rows, &ask, left_out, seed)?;
    for (one, told) in request.iter().zip(said) {
        let told = match one.measured {
            None => told.reaching(&reach, usage),
            Some(measured) => {
                let own = held_back.iter().find(|(row, _)| row.job == one.row.job && row.gpu == one.row.gpu);
                let (_, before) = own.copied().unwrap_or((one.row, told));
                before.reaching(&reach, usage).moved_to(measured, usage)
            }
        };
        result.set(one.at, usage, UsageValue::new(&told, name, one.basis));
    }
    Ok(())
}

/// Notes the GPU types on which a usage is not known that is told of rows there: each usage has its own, as a GPU may be known by one alone.
fn strange_gpus(result: &mut UsageForecasts, table: &SharingTable, request: &[ProfileRow]) {
    let mut told: Vec<(Usage, Vec<&str>, Vec<&str>)> = Vec::new();
    for (usage, place) in Usage::ALL.into_iter().zip(0usize..) {
        let is_known =
            |gpu: usize| (0..table.jobs().len()).any(|job| table.profile(gpu, job).get(usage.quantity()).is_some());
        let names = table.gpu_types().iter().enumerate();
        let known: Vec<&str> = names.filter(|(gpu, _)| is_known(*gpu)).map(|(_, name)| name.as_str()).collect();
        let rows =
            request.iter().zip(&result.values).filter(|(_, values)| values.get(place).is_some_and(Option::is_some));
        let strange: BTreeSet<&str> =
            rows.map(|(row, _)| row.gpu_type.as_str()).filter(|name| !known.contains(name)).collect();
        if !strange.is_empty() {
            told.push((usage, strange.into_iter().collect(), known));
        }
    }
    let note = |what: &str, strange: &[&str], known: &[&str], of: &str| {
        format!(
            "{what} was measured on {}, but on {}: what is said of {of} comes from there, and no back-test covers it.",
            strange.join(", "),
            known.join(", ")
        )
    };
    if let [(_, strange, known), (_, others, elsewhere)] = told.as_slice()
        && (strange, known) == (others, elsewhere)
    {
        result.notes.push(note("Nothing", strange, known, "such rows"));
        return;
    }
    for (usage, strange, known) in &told {
        result.notes.push(note(&format!("No {}", usage.in_words()), strange, known, "it in such rows"));
    }
}

/// A model that is chosen on the jobs of a walk.
struct ChosenOfJobs {
    model: UsageModel,
    rmsle: f64,
    chosen_on: usize,
    /// First job that the model was asked about.
    first: usize,
    /// Forecasts of the model.
    points: Vec<UsageForecast>,
}

/// The model of least RMSLE on the last jobs; `None` if there are too few.
fn choose(walk: &Walk<'_>, usage: Usage, seed: u64) -> Result<Option<ChosenOfJobs>> {
    let jobs = walk.asked.len();
    if jobs < LEAST_JOBS {
        return Ok(None);
    }
    // As if the jobs asked about were the last of so many.
    let [first, choose, report] = PARTS;
    let whole = (jobs as f64 / report).round() as usize;
    let [first, choose] = [first, choose].map(|share| position(share, whole).min(jobs));
    let mut chosen: Option<ChosenOfJobs> = None;
    for model in UsageModel::ALL {
        let points = walk.points(model, first, seed)?;
        let pairs = walk.to_choose_by(&walk.with_intervals(&points, first, usage), choose..jobs);
        // Of equal ones the first, which is the simpler.
        let better = |rmsle: &f64| chosen.as_ref().is_none_or(|least| *rmsle < least.rmsle);
        if let Some(rmsle) = rmsle(&pairs).filter(better) {
            chosen = Some(ChosenOfJobs { model, rmsle, chosen_on: pairs.len(), first, points });
        }
    }
    Ok(chosen)
}

/// Forecasts for jobs that have not started from the telemetry of a trace.
///
/// # Errors
/// If there are too few jobs with telemetry to choose a model by, or a learner fails.
pub fn of_jobs(history: &UsageHistory, asked: &[AskedJob], seed: u64) -> Result<UsageForecasts> {
    let mut result = UsageForecasts::with_room(asked.len());
    let mut most = 0;
    for usage in Usage::ALL {
        let walk = Walk::of(history, asked, usage);
        let jobs = walk.asked.len();
        most = most.max(jobs);
        let Some(ChosenOfJobs { model, rmsle, chosen_on, first, points }) = choose(&walk, usage, seed)? else {
            result.notes.push(format!(
                "{}: {jobs} jobs can be learned from, and {LEAST_JOBS} are needed: nothing is said of it.",
                usage.name()
            ));
            continue;
        };
        let name = model.named(UsageLeftOut::Later);
        result.choices.push(UsageChoice {
            usage,
            left_out: UsageLeftOut::Later,
            model: name,
            rmsle,
            chosen_on,
            folds: 0,
        });
        for (at, told) in walk.say_open(model, &points, first, usage, seed)?.into_iter().enumerate() {
            if let Some((told, known_by)) = told {
                result.set(at, usage, UsageValue::new(&told, name, known_by.into()));
            }
        }
    }
    if result.choices.is_empty() { Err(too_few(history, most)) } else { Ok(result) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
