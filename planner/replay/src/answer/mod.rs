//! The answer of `simulate`: one or several replays of the same jobs, as data and as a report.
//!
//! The data ([`Answer`], form `simulate/1`) and the report ([`Answer::report`]) say the same. First comes how well a replay of the recorded
//! policy meets what was recorded ([`super::fidelity`]), as everything after it is worth no more than that.
//!
//! Worked number: FIFO waits 24,148 s on average, fewest GPUs first 23,724 s, QSSF on true durations 12,828 s. A QSSF on predictions that
//! waits 18,276 s closes (23,724 − 18,276) / (23,724 − 12,828) = 50 % of the gap.

mod charts;
mod compared;
mod grown;
mod limits;
mod loads;
mod quotas;
mod rejected;
mod report;
mod shares;
mod topology;
mod words;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::trace::{SourceRecord, Trace};

use super::compare::{Comparison, PairedWait, TieBand, gap_closed};
use super::fidelity::Fidelity;
use super::growth::GrowthAnswer;
use super::input::{Loaded, Matched};
use super::metric::{Charts, Metrics};
use tracecast_sim::policy::{Estimate, Policy};
use tracecast_sim::workload::Workload;

/// Version of the form.
pub const SCHEMA: &str = "simulate/1";

/// Jobs that are not replayed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// How many.
    pub jobs: u64,
    /// An example of such a job.
    pub example: String,
}

/// The jobs and the cluster that were replayed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Subject {
    /// Title of the replay.
    pub title: String,
    /// Jobs replayed, those that ran at the beginning included.
    pub jobs: u64,
    /// Jobs that ran when the replay began; they hold GPUs and are not counted in any figure.
    pub running_at_start: u64,
    /// Jobs that waited when the replay began.
    pub waiting_at_start: u64,
    /// Time 0, milliseconds since the Unix epoch, or since some unknown moment where the trace has no dates.
    pub origin_ms: i64,
    /// Whether the trace has dates.
    pub has_dates: bool,
    /// IANA name of the trace's zone, in which the report and its charts tell times.
    pub zone: String,
    /// First submission that counts, or time 0 if later; milliseconds as time 0.
    pub from_ms: i64,
    /// Last submission, milliseconds as time 0.
    pub to_ms: i64,
    /// Time from the first submission (or time 0, if later) to the last, seconds.
    pub span_s: f64,
    /// VCs.
    pub vcs: u64,
    /// The resource that jobs compete for. Everything called GPUs here and below is an amount of
    /// it.
    pub resource: Resource,
    /// Nodes when there are the most GPUs, from the first to the last submission; of processors, equal pieces that stand for them.
    pub nodes: u64,
    /// Most GPUs there are at one time from the first to the last submission.
    pub gpus: u64,
    /// Offered load: GPU time asked for over what those GPUs have from the first submission to the last; `None` for one moment.
    pub load: Option<f64>,
    /// Jobs that are left out.
    pub left_out: Vec<LeftOut>,
    /// Assumptions.
    pub notes: Vec<String>,
    /// The files it was read from; none for a generated trace.
    pub sources: Vec<SourceRecord>,
    /// Rows read.
    pub rows_read: u64,
    /// Rows that could not be used; `tracecast inspect` says why.
    pub rows_quarantined: u64,
}

impl Subject {
    /// Describes a workload loaded from a trace. Notes of the trace come first, then those of
    /// loading.
    pub fn new(title: &str, trace: &Trace, loaded: &Loaded) -> Self {
        let workload = &loaded.workload;
        let (from_ms, to_ms) = match (workload.submit_ms.first(), workload.submit_ms.last()) {
            (Some(first), Some(last)) => ((*first).max(0), (*last).max(0)),
            _ => (0, 0),
        };
        let span_ms = to_ms - from_ms;
        let (nodes, gpus) = loaded.cluster.largest_within(from_ms, to_ms);
        let has_s = gpus as f64 * span_ms as f64 / 1000.0;
        let mut notes: Vec<String> = trace.notes.iter().map(|note| sentence(note)).collect();
        notes.extend(loaded.notes.iter().cloned());
        notes.extend(loaded.against_record());
        let ledger = &trace.ledger;
        notes.extend(trace.warnings());
        let before = workload.submit_ms.iter().filter(|submit| **submit < 0).count();
        Self {
            title: title.to_owned(),
            jobs: workload.len() as u64,
            running_at_start: workload.warm.len() as u64,
            waiting_at_start: before.saturating_sub(workload.warm.len()) as u64,
            origin_ms: workload.origin_ms,
            has_dates: trace.basis.has_dates(),
            zone: trace.zone.clone(),
            from_ms: workload.origin_ms + from_ms,
            to_ms: workload.origin_ms + to_ms,
            span_s: span_ms as f64 / 1000.0,
            vcs: loaded.cluster.vcs.len() as u64,
            resource: loaded.resource,
            nodes,
            gpus,
            load: (has_s > 0.0).then(|| workload.asked_gpu_s() / has_s),
            left_out: loaded
                .excluded
                .iter()
                .map(|excluded| LeftOut {
                    reason: excluded.reason.clone(),
                    jobs: excluded.jobs as u64,
                    example: excluded.example.clone(),
                })
                .collect(),
            notes,
            sources: trace.sources.clone(),
            rows_read: ledger.read,
            rows_quarantined: ledger.quarantined,
        }
    }

    /// Adds how a column of the user's (`Predictions`, `Scores`) met the jobs.
    pub fn note_column(&mut self, name: &str, matched: Matched) {
        self.notes.push(format!(
            "{name}: {} of {} jobs have one; {} rows are about jobs that are not replayed.",
            format::count(matched.jobs as u64),
            format::count((matched.jobs + matched.without) as u64),
            format::count(matched.unknown as u64)
        ));
    }
}

/// A note as a sentence: with a full stop.
fn sentence(note: &str) -> String {
    if note.ends_with(['.', '!', '?']) { note.to_owned() } else { format!("{note}.") }
}

/// Jobs that a policy knows by their true run although it was told to go by something else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct KnownByRun {
    /// Share of the jobs replayed: those without a time limit, and without a prediction where these count.
    pub share: f64,
    /// Whether predictions count as estimates.
    pub predictions: bool,
}

impl KnownByRun {
    /// Computes the jobs that a policy knows by their true run; `None` where run times change
    /// nothing, or where it was told to know them. O(jobs).
    pub(crate) fn new(policy: &Policy, workload: &Workload) -> Option<Self> {
        let jobs = policy.known_by_true_run(workload)?;
        let share = jobs as f64 / workload.len().max(1) as f64;
        Some(Self { share, predictions: policy.estimate == Estimate::Predicted })
    }

    /// Returns the missing estimate, in words.
    fn lack(&self) -> &'static str {
        if self.predictions { "neither a prediction nor a time limit" } else { "no time limit" }
    }

    /// Returns the note on a policy that an answer rests on; `None` if it knows no job by its true
    /// run.
    pub fn note(policy: &Policy, workload: &Workload) -> Option<String> {
        let known = Self::new(policy, workload).filter(|known| known.share > 0.0)?;
        let so = if policy.is_oracle(workload) {
            "; that is more than a twentieth, so the waits are those of a scheduler that knows too much, and shorter than they would be"
        } else {
            ""
        };
        Some(format!(
            "{} of the jobs have {} and are known by their true run to {}{so}.",
            format::percent(known.share),
            known.lack(),
            policy.describe()
        ))
    }
}

/// One replay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Replay {
    /// Name of the replay.
    pub name: String,
    /// The policy in words.
    pub policy: String,
    /// Whether the policy is an oracle, which knows how long jobs run.
    #[schemars(default)]
    pub oracle: bool,
    /// Jobs that it knows by their true run for want of an estimate; `None` where run times change nothing, or where it was told to know them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_by_run: Option<KnownByRun>,
    /// Failures of nodes that are replayed.
    #[schemars(default)]
    pub node_failures: u64,
    /// Figures of the replay.
    pub metrics: Metrics,
    /// Data of the charts.
    #[serde(skip)]
    pub charts: Charts,
}

/// Mean waits that QSSF is measured against.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Yardstick {
    /// Mean wait with the fewest GPUs first, which needs no prediction, seconds.
    pub fewest_gpus_mean_wait_s: f64,
    /// Mean wait of QSSF as it was asked for, seconds.
    pub qssf_mean_wait_s: f64,
    /// Mean wait of QSSF on true durations, seconds.
    pub oracle_mean_wait_s: f64,
    /// Whether QSSF as it was asked for knows true durations, so that no prediction was tried.
    pub without_predictions: bool,
    /// Share of the gap between the first and the last that the second closes; `None` where there is no gap or no prediction.
    pub gap_closed: Option<f64>,
}

impl Yardstick {
    /// Computes the mean waits of three replays, `None` if one of them finished no job.
    pub fn of(fewest_gpus: &Metrics, qssf: &Metrics, oracle: &Metrics, without_predictions: bool) -> Option<Self> {
        let mean = |metrics: &Metrics| metrics.overall.group.wait.map(|wait| wait.mean_s);
        let (fewest, predicted, oracle) = (mean(fewest_gpus)?, mean(qssf)?, mean(oracle)?);
        Some(Self {
            fewest_gpus_mean_wait_s: fewest,
            qssf_mean_wait_s: predicted,
            oracle_mean_wait_s: oracle,
            without_predictions,
            gap_closed: if without_predictions { None } else { gap_closed(fewest, predicted, oracle) },
        })
    }
}

/// The answer of `simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Version of the form.
    pub schema: String,
    /// The jobs and the cluster that were replayed.
    pub subject: Subject,
    /// Fidelity of a replay of the recorded policy.
    pub fidelity: Fidelity,
    /// The recorded policy as it was replayed for that.
    pub recorded_policy: String,
    /// Name of the requested policy (the first of several).
    pub name: String,
    /// The requested policy in words.
    pub policy: String,
    /// Whether the policy is an oracle, which knows how long jobs run.
    #[schemars(default)]
    pub oracle: bool,
    /// Jobs that it knows by their true run for want of an estimate; `None` where run times change nothing, or where it was told to know them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_by_run: Option<KnownByRun>,
    /// Failures of nodes that are replayed.
    #[schemars(default)]
    pub node_failures: u64,
    /// Time the engine took for it on one thread, seconds. The only figure that is not the same every time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_seconds: Option<f64>,
    /// Figures of the first replay.
    pub metrics: Metrics,
    /// Mean waits that QSSF is measured against, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<Yardstick>,
    /// Further replays of the same jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub others: Vec<Replay>,
    /// Whether the first replay has other nodes, or other failures of nodes, than the one that was
    /// compared with the record.
    #[schemars(default)]
    pub on_other_nodes: bool,
    /// Whether failures of nodes differ between the replays.
    #[schemars(default)]
    pub failures_differ: bool,
    /// Every two of the replays: whose mean wait is shorter, and the days that make most of that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub pairs: Vec<PairedWait>,
    /// Differences of the others to the first, with intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Mean wait of the first under other orders of jobs submitted in the same second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<TieBand>,
    /// Replays of more (or less) work, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthAnswer>,
    /// Data of the charts of the first replay.
    #[serde(skip)]
    pub charts: Charts,
}

/// The JSON Schema of [`Answer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Answer).to_value()
}
