//! `tracecast query --standard`.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context as _, Result};
use tracecast_analytics::report::{Cell, Column, ReportTable, text};
use tracecast_analytics::rollup::{self, RollupOptions};
use tracecast_analytics::{Error, storage};

use crate::output;
use crate::source::told_of;

/// The answer of `query --standard` as a text: of the jobs table `source`, as JSON or as tables.
pub(crate) fn answer(source: &Path, strict: bool, is_json: bool, threads: Option<NonZeroUsize>) -> Result<String> {
    let options = RollupOptions { threads: threads.map_or(0, NonZeroUsize::get) };
    let answer = rollup::run(source, &options)?;
    // A trace folder holds what was used; what was not, its manifest says.
    let folder = storage::is_folder(source).then(|| storage::manifest(source)).transpose()?;
    for ledger in folder.iter().map(|folder| &folder.quality).chain([&answer.ledger]) {
        told_of(ledger, strict)?;
    }
    if let Some(why) = answer.ledger.worst().filter(|_| answer.rows == 0) {
        return Err(Error::Unusable { source_name: source.display().to_string(), why }.into());
    }
    if is_json {
        let mut json = serde_json::to_string_pretty(&answer).context("write the answer as JSON")?;
        json.push('\n');
        return Ok(json);
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
    Ok(out)
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
