//! One streaming pass over a jobs table of any size: six answers in memory that does not grow with the rows.
//!
//! Responsible for: job sizes, durations by size, states, top users, arrivals and GPUs in use, from a trace folder, a
//! Parquet file or delimited text with the columns of the `jobs` table. Not responsible for: cleaning, attempts,
//! anything that needs all jobs at once; [`ingest`](crate::ingest) and the statistics do that for traces that fit.
//!
//! Columns used, each optional except `submit`: `submit`, `start`, `end` (milliseconds since the epoch, or a time; text
//! without an offset is UTC), `run_s`, `suspended_s`, `reported_run_s`, `alloc_gpus`, `req_gpus`, `state`, `user`.
//!
//! # Definitions
//! - **GPUs of a job**: `alloc_gpus`, else `req_gpus`; negative, not finite or above a million is unknown. Counted in
//!   millionths of a GPU, so sums are whole numbers and do not depend on the order of the rows.
//! - **Duration**: `run_s` (the attempts' own time), else `end − start`, else `reported_run_s`; negative is unknown. A job
//!   still running (state `running`, a start, no end) has none.
//! - **GPU time**: GPUs × (duration + `suspended_s`), over jobs where GPUs and duration are known; of a job still running, GPUs × the time from its start to
//!   the end of the observation, the last moment that any job names (its start and reported run, of a job
//!   still running). This is the GPU time of
//!   [`describe`](crate::describe), which also takes out the gaps between the attempts of a job still running; one pass over
//!   the jobs table does not see them.
//! - **In use** at instant t: GPUs of jobs with start ≤ t < end; a job without an end ends at start + duration, one still running
//!   at the end of the observation. Instants
//!   are the multiples of ten minutes since the epoch and the counts there are exact.
//! - **State**: a word of [`JobState`](crate::schema::JobState), or one that schedulers use; anything else is `unknown`.
//! - **Times** more than 2^42 ms (139 years) from the epoch are unknown: they are sentinels or another unit.
//!
//! What is unknown is counted in [`UnknownTotals`], never taken as 0.
//!
//! # Method
//! Threads take row groups (Parquet) or blocks of whole lines (text) and add to totals of their own; these are merged
//! at the end. All of it is integer addition, so the answer is the same whatever the thread count. Durations go into
//! [log-linear bins](Histogram): a quantile is within 1/128 (0.8 %) of the exact order statistic. A Parquet file of one
//! row group keeps one thread busy; trace folders have a row group for every 256 k rows.
//!
//! O(rows) time. Memory, for each thread: one batch (or one block of lines), a histogram of at most 20 KB for each
//! distinct job size, about 200 bytes and the name for each distinct user (totals are exact, so every user is kept), and
//! pages of 4096 cells for the hours and ten-minute instants that something happens in.
//!
//! Worked number: a job of 2 GPUs from 00:05 to 00:25 counts 2 GPUs at 00:10 and 00:20, not at 00:00 or 00:30, and
//! 2 × 20 min = 0.67 GPU-hours.

mod answer;
pub(crate) mod columnar;
mod grid;
mod histogram;
mod intern;
mod text;
mod totals;
mod value;

use std::path::Path;

pub use answer::{
    ArrivalTotals, DurationQuantiles, InUse, Rollup, SizeTotals, StateShare, TOP_USERS, UnknownTotals, UserTotal,
    VERSION,
};
pub use histogram::Histogram;

use crate::error::{Error, Result};
use crate::ingest::SourceFile;
use crate::storage::PIPED_PARQUET;

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RollupOptions {
    /// Threads; 0 for one a core.
    pub threads: usize,
}

/// Answers the six questions about the jobs at `path`: a trace folder, a Parquet file, or delimited text with a header
/// (plain, gzip or zstd).
///
/// # Errors
/// When the file cannot be read, is damaged (Parquet), or lacks a `submit` column.
pub fn run(path: &Path, options: &RollupOptions) -> Result<Rollup> {
    let file = if path.is_dir() { path.join("jobs.parquet") } else { path.to_owned() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().map_err(|e| Error::Setting {
        setting: "threads".to_owned(),
        found: e.to_string(),
        remedy: "ask for fewer threads".to_owned(),
    })?;
    let source = SourceFile::new(&file);
    let (totals, ledger) = if !source.begins_with(b"PAR1")? {
        text::read(&source, &pool)?
    } else if source.is_pipe() {
        return Err(Error::format(source.name(), "Parquet through a pipe, which is read from its end", PIPED_PARQUET));
    } else {
        columnar::read(&file, &pool)?
    };
    Ok(answer::answer(totals, ledger))
}

/// The JSON Schema of [`Rollup`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Rollup).to_value()
}

#[cfg(test)]
mod tests;
