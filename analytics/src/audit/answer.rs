//! The result of `audit` as data (form `audit/2`); [`Answer::report`] is its report for people.
//!
//! The data hold no path, no clock time and no title, so that the same inputs and options give the same bytes wherever they lie
//! ([`super::manifest`]).

use schemars::JsonSchema;
use serde::Serialize;

use super::account::{Account, JobCharge};
use super::factors::FactorRecord;
use super::name::base;
use super::whatif::cap::PowerCaps;
use super::whatif::reclaim::Reclaim;
use crate::energy::constant::Constant;
use crate::energy::ledger::EnergyLedger;
use crate::report::markup::csv_text;
use crate::schema::Table as _;
use crate::time::Zone;
use crate::trace::{SourceRecord, Trace};

/// Version of the form.
pub const SCHEMA: &str = "audit/2";
/// Jobs in the answer, those with most energy.
const MOST_JOBS: usize = 100;

/// The time audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Window")]
pub struct AuditWindow {
    /// First moment, milliseconds since the epoch, or since some unknown moment where the trace has no dates.
    pub from_ms: i64,
    /// Moment after the last.
    pub to_ms: i64,
    /// Whether the trace has dates. Without them no hour meets a factor that is given by the hour.
    pub has_dates: bool,
}

impl AuditWindow {
    /// `2017-10-03 00:00:00 to 2017-10-04 00:00:00 (Asia/Shanghai)`.
    pub fn words(&self, zone: &str) -> String {
        if self.has_dates {
            let zone = Zone::named(zone).unwrap_or_else(|_| Zone::utc());
            zone.show_between(self.from_ms, self.to_ms)
        } else {
            let seconds = (self.to_ms - self.from_ms) as f64 / 1_000.0;
            format!("{} of a trace without dates", crate::report::format::duration(seconds))
        }
    }
}

/// Result of `audit`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Version of this form.
    pub schema: String,
    /// Title of the report.
    #[serde(skip)]
    pub title: String,
    /// Zone of times in the report.
    #[serde(skip)]
    pub zone: String,
    /// Why no energy reaches a job, where none does.
    #[serde(skip)]
    pub without_jobs: String,
    /// Time from the first submission to the last end of a job, milliseconds, where the time audited is that of the readings for want of another; else 0.
    #[serde(skip)]
    pub record_ms: i64,
    /// The time audited.
    pub window: AuditWindow,
    /// Files the trace was read from.
    pub sources: Vec<SourceRecord>,
    /// Factors as they were used.
    pub factors: Vec<FactorRecord>,
    /// Constants of the method and of devices that set figures.
    pub constants: Vec<Constant>,
    /// Caveats, one sentence each.
    pub notes: Vec<String>,
    /// Figures. Of the jobs those with most energy.
    pub account: Account,
    /// Jobs with energy.
    pub jobs: u64,
    /// All jobs with energy.
    #[serde(skip)]
    pub all_jobs: Vec<JobCharge>,
    /// Savings of power caps, if requested.
    pub power_caps: Option<PowerCaps>,
    /// GPU hours that handing back idle GPUs would free.
    pub reclaim: Option<Reclaim>,
}

/// Parts of an [`Answer`] beside the account.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Title of the report.
    pub title: String,
    /// Whether the audited time is that of the readings, as none was named.
    pub of_readings: bool,
    /// Factors as they were used.
    pub factors: Vec<FactorRecord>,
    /// Caveats on the factors, one sentence each.
    pub notes: Vec<String>,
    /// Power caps.
    pub power_caps: Option<PowerCaps>,
    /// Idle reclaim.
    pub reclaim: Option<Reclaim>,
}

impl Answer {
    /// Puts it together.
    pub fn new(trace: &Trace, ledger: &EnergyLedger, mut account: Account, beside: Beside) -> Self {
        let mut notes: Vec<String> = Vec::new();
        let quality = &trace.ledger;
        if quality.quarantined > 0 {
            notes.push(format!(
                "{} of {} rows could not be used; `tracecast inspect` says why.",
                crate::report::format::count(quality.quarantined),
                crate::report::format::count(quality.read)
            ));
        }
        for damage in &quality.damage {
            let (file, after) = (base(&damage.file), damage.after());
            notes.push(format!("{file} ends early{after}: what follows is missing here."));
        }
        notes.extend(ledger.notes.iter().chain(&trace.notes).chain(&beside.notes).map(|note| sentence(note)));
        if !trace.basis.has_dates() {
            notes.push("The trace has no dates, so no hour meets a factor that is given by the hour.".to_owned());
        }
        // A note that names a file names it as it was typed; where it lies must not change the answer.
        let files: Vec<&String> = trace.sources.iter().map(|source| &source.name).chain(&trace.skipped).collect();
        for note in notes.iter_mut().filter(|note| note.contains(['/', '\\'])) {
            for file in &files {
                *note = note.replace(file.as_str(), &base(file));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        let sources =
            trace.sources.iter().map(|source| SourceRecord { name: base(&source.name), ..source.clone() }).collect();
        let all_jobs = account.jobs.clone();
        account.jobs.truncate(MOST_JOBS);
        Self {
            schema: SCHEMA.to_owned(),
            title: beside.title,
            zone: trace.zone.clone(),
            without_jobs: without_jobs(trace),
            record_ms: if beside.of_readings { record_ms(trace) } else { 0 },
            window: AuditWindow { from_ms: ledger.from_ms, to_ms: ledger.to_ms, has_dates: trace.basis.has_dates() },
            sources,
            factors: beside.factors,
            constants: ledger.constants.clone(),
            notes,
            account,
            jobs: all_jobs.len() as u64,
            all_jobs,
            power_caps: beside.power_caps,
            reclaim: beside.reclaim,
        }
    }

    /// Encodes the charges of all jobs as CSV. Unknown is empty.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn jobs_csv(&self) -> crate::error::Result<Vec<u8>> {
        let failed = |e: csv::Error| crate::error::Error::io("write", "jobs.csv", std::io::Error::other(e.to_string()));
        let mut writer = csv::Writer::from_writer(Vec::new());
        let head = [
            "job_id",
            "vc",
            "user",
            "gpu_hours",
            "energy_kwh",
            "active_kwh",
            "work_or_idle_kwh",
            "idle_kwh",
            "overhead_kwh",
            "modelled_kwh",
            "coverage_ratio",
            "location_based_kg",
            "market_based_kg",
            "cost",
        ];
        writer.write_record(head).map_err(failed)?;
        let known = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for job in &self.all_jobs {
            let row = [
                csv_text(&job.job_key),
                csv_text(job.vc.as_deref().unwrap_or_default()),
                csv_text(job.user.as_deref().unwrap_or_default()),
                job.gpu_hours.to_string(),
                job.energy_kwh.to_string(),
                job.active_kwh.to_string(),
                job.unsplit_kwh.to_string(),
                job.idle_kwh.to_string(),
                job.overhead_kwh.to_string(),
                job.modelled_kwh.to_string(),
                known(job.coverage),
                known(job.location_kg),
                known(job.market_kg),
                known(job.cost),
            ];
            writer.write_record(row).map_err(failed)?;
        }
        writer.into_inner().map_err(|e| crate::error::Error::io("write", "jobs.csv", e.into_error()))
    }

    /// Encodes the answer as JSON with a final line end: the bytes a manifest signs.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_json(&self) -> crate::error::Result<String> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| crate::error::Error::Json {
            action: "write",
            path: "answer".into(),
            source,
        })?;
        text.push('\n');
        Ok(text)
    }
}

/// Returns the time from the first submission to the last end of a job, milliseconds; 0 without jobs.
fn record_ms(trace: &Trace) -> i64 {
    let (first, last) = (trace.jobs.submit.iter().flatten().min(), trace.jobs.end.iter().flatten().max());
    first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first).max(0))
}

/// Why no energy reaches a job of a trace, and what would help.
fn without_jobs(trace: &Trace) -> String {
    let jobs = &trace.jobs;
    let why = if jobs.is_empty() {
        "there are no jobs; name the job accounting beside the telemetry (several sources at once)"
    } else if jobs.start.is_all_unknown() {
        "no job has a start; export the start and end of each job"
    } else if jobs.alloc_gpus.is_all_unknown() && jobs.req_gpus.is_all_unknown() {
        "no job has a number of GPUs; export the GPUs that each job held (AllocTRES of sacct)"
    } else if trace.placements.is_empty() {
        "the source does not tell on which nodes jobs ran; export the node list of each job (NodeList of sacct)"
    } else {
        "no job held GPUs of a metered node in the time audited; check that nodes are named alike in all sources"
    };
    format!("No energy could be given to a job: {why}.")
}

/// A note as a sentence: with a full stop.
fn sentence(note: &str) -> String {
    if note.ends_with(['.', '!', '?']) { note.to_owned() } else { format!("{note}.") }
}

/// The JSON Schema of [`Answer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Answer).to_value()
}
