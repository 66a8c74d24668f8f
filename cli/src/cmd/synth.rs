//! `tracecast synth`: a synthetic trace, with its totals beside the published ones it was calibrated to.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::report::{Cell, Column, ReportTable, text};
use tracecast_analytics::storage;
use tracecast_planner::synth::{Spec, calibrate, generate};

use crate::{early, output};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, the bundled sample again:
  tracecast synth datasets/specs/sample.toml --seed 3 --out my-trace")]
pub(crate) struct Synth {
    /// Specification of the trace (TOML), such as datasets/specs/sample.toml
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// Trace folder to write
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Replace the trace folder if it already exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Seed of the generator: the same specification and seed give the same bytes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

pub(crate) fn run(request: &Synth, quiet: bool) -> Result<()> {
    output::may_replace(&request.out, request.force)?;
    early::writable_folder(&request.out)?;
    let spec = Spec::load(&request.spec)?;
    let trace = generate(&spec, request.seed)?;
    let manifest = storage::save(&trace, &request.out)?;
    let tables: Vec<String> = manifest.tables.iter().map(|table| format!("{} {}", table.name, table.rows)).collect();
    output::say(quiet, &format!("{}: {}", request.out.display(), tables.join(", ")));
    let mut table = ReportTable::new(
        "Totals the specification names, measured on this trace",
        vec![
            Column::text("Total"),
            Column::number("Published"),
            Column::number("Measured"),
            Column::number("Tolerance"),
            Column::text("Within"),
            Column::text("Source"),
        ],
    );
    for target in calibrate::check(&trace, &spec) {
        let name = serde_json::to_value(target.name).context("name a total")?;
        table.rows.push(vec![
            name.as_str().map_or_else(|| name.to_string(), |name| name.replace('_', " ")).into(),
            Cell::Float { value: target.published, digits: 3 },
            Cell::opt(target.measured, |value| Cell::Float { value, digits: 3 }),
            Cell::Float { value: target.tolerance, digits: 3 },
            if target.within { "yes" } else { "NO" }.into(),
            target.source.into(),
        ]);
    }
    output::text(&text::table(&table, output::terminal()), None)
}
