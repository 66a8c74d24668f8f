//! `tracecast rollup`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::report::{Cell, Column, ReportTable, text};
use tracecast_analytics::rollup::{self, RollupOptions};
use tracecast_analytics::{Error, storage};

use crate::args::Plain;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, the bundled sample:
  tracecast rollup datasets/sample")]
pub(crate) struct Rollup {
    /// Trace folder, or a Parquet or CSV file with the columns of the jobs table
    ///
    /// `tracecast schema tables` lists these columns.
    #[arg(value_name = "SOURCE")]
    pub(crate) source: PathBuf,
    /// Form in which the answer is written
    ///
    /// Arrivals by hour and GPUs in use are in the JSON form only.
    #[arg(long, value_enum, default_value_t = Plain::Table)]
    pub(crate) format: Plain,
    /// Fail with exit code 3 if a row is quarantined or a file is damaged
    ///
    /// A row that cannot be used is quarantined: the answer leaves it out. Without this option the command counts such rows on stderr
    /// and goes on.
    #[arg(long)]
    pub(crate) strict: bool,
}

pub(crate) fn run(request: &Rollup, threads: Option<NonZeroUsize>) -> Result<()> {
    let options = RollupOptions { threads: threads.map_or(0, NonZeroUsize::get) };
    let answer = rollup::run(&request.source, &options)?;
    // A trace folder holds what was used; what was not, its manifest says.
    let folder = storage::is_folder(&request.source).then(|| storage::manifest(&request.source)).transpose()?;
    for ledger in folder.iter().map(|folder| &folder.quality).chain([&answer.ledger]) {
        source::told_of(ledger, request.strict)?;
    }
    if let Some(why) = answer.ledger.worst().filter(|_| answer.rows == 0) {
        return Err(Error::Unusable { source_name: request.source.display().to_string(), why }.into());
    }
    if request.format == Plain::Json {
        let mut json = serde_json::to_string_pretty(&answer).context("write the answer as JSON")?;
        json.push('\n');
        return output::text(&json, None);
    }
    let terminal = output::terminal();
    let mut out = format!(
        "{} jobs, {} rows quarantined. GPU time is unknown for {} jobs, as their GPUs or run are not recorded, and is left \
         out. {} jobs were still running: their GPU time counts until the last moment that any job names, as in `describe`, \
         and their run is in no quantile.\n\n",
        answer.rows, answer.quarantined, answer.unknown.gpu_time, answer.running
    );
    for table in [sizes(&answer), states(&answer), users(&answer)] {
        out.push_str(&text::table(&table, terminal));
        out.push('\n');
    }
    out.push_str("Arrivals by hour and GPUs in use every ten minutes are in the JSON form (--format json).\n");
    output::text(&out, None)
}

fn sizes(answer: &rollup::Rollup) -> ReportTable {
    let mut table = ReportTable::new(
        format!("Jobs by GPUs (quantiles of run within {:.1} %)", answer.duration_error_ratio * 100.0),
        vec![
            Column::number("GPUs"),
            Column::number("Jobs"),
            Column::number("GPU-hours"),
            Column::number("Jobs of at most so many"),
            Column::number("GPU time of those"),
            Column::number("Median run"),
            Column::number("90 %"),
            Column::number("99 %"),
        ],
    );
    for size in &answer.size {
        let run = size.duration.as_ref();
        table.rows.push(vec![
            Cell::from(size.gpus.to_string()),
            int(size.jobs),
            Cell::Float { value: size.gpu_hours, digits: 0 },
            Cell::Percent(size.jobs_cdf_ratio),
            Cell::opt(size.gpu_time_cdf_ratio, Cell::Percent),
            Cell::opt(run.map(|run| run.p50_s), Cell::Duration),
            Cell::opt(run.map(|run| run.p90_s), Cell::Duration),
            Cell::opt(run.map(|run| run.p99_s), Cell::Duration),
        ]);
    }
    table
}

fn states(answer: &rollup::Rollup) -> ReportTable {
    let mut table = ReportTable::new(
        "Jobs by state",
        vec![
            Column::text("State"),
            Column::number("Jobs"),
            Column::number("Share"),
            Column::number("GPU-hours"),
            Column::number("Share of GPU time"),
        ],
    );
    for state in &answer.states {
        table.rows.push(vec![
            state.state.id().into(),
            int(state.jobs),
            Cell::Percent(state.jobs_ratio),
            Cell::Float { value: state.gpu_hours, digits: 0 },
            Cell::opt(state.gpu_time_ratio, Cell::Percent),
        ]);
    }
    table
}

fn users(answer: &rollup::Rollup) -> ReportTable {
    let mut table = ReportTable::new(
        format!("Users with most GPU time, of {}", answer.distinct_users),
        vec![Column::text("User"), Column::number("Jobs"), Column::number("GPU-hours")],
    );
    for user in &answer.users {
        table.rows.push(vec![
            user.user.as_str().into(),
            int(user.jobs),
            Cell::Float { value: user.gpu_hours, digits: 0 },
        ]);
    }
    table
}

fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
