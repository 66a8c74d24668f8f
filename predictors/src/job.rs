//! A job as a predictor knows it: what is told at submission, what happens to it later, and what is predicted of it.
//!
//! Times are milliseconds since the Unix epoch in UTC, lengths are seconds of run time (start to end, waits excluded). Worked example: a job
//! submitted at 1,000 ms, started at 61,000 ms and ended at 121,000 ms ran 60 s.

use serde::{Deserialize, Serialize};

/// Facts of a job known when it is submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Identifier, as the scheduler knows the job.
    pub job_id: String,
    /// Submission, milliseconds since the Unix epoch.
    pub submit_ms: i64,
    /// User who submitted the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// VC, queue or partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vc: Option<String>,
    /// Name the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// GPUs asked for, 0 if none.
    #[serde(default)]
    pub gpus: f64,
    /// CPU cores asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Time limit asked for, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<f64>,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The job was submitted.
    Submitted(Submission),
    /// The job started to run.
    Started {
        /// Identifier of the job.
        job_id: String,
        /// When, milliseconds since the Unix epoch.
        time_ms: i64,
    },
    /// The job ended, however it ended.
    Ended {
        /// Identifier of the job.
        job_id: String,
        /// When, milliseconds since the Unix epoch.
        time_ms: i64,
        /// Run, seconds; else `time_ms` less the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_s: Option<f64>,
        /// Whether it failed (not completed, not cancelled), if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<bool>,
    },
}

/// Prediction of the run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Prediction {
    /// Identifier of the job.
    pub job_id: String,
    /// Expected run time, seconds.
    pub mean_s: f64,
    /// Run time that one job in twenty stays under, seconds; so are the others, by their percentage.
    pub p05_s: f64,
    #[allow(missing_docs)]
    pub p10_s: f64,
    #[allow(missing_docs)]
    pub p50_s: f64,
    #[allow(missing_docs)]
    pub p90_s: f64,
    #[allow(missing_docs)]
    pub p95_s: f64,
    /// Duration to order jobs by, seconds: the quantile of the run that ordered earlier jobs best.
    pub predicted_duration_s: f64,
    /// Whether the quantiles are not to be relied upon: too few jobs had ended to calibrate them,
    /// so that they are wide, or no model's intervals held when it was trained.
    #[serde(default)]
    pub unsure: bool,
}
