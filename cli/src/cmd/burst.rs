//! `tracecast plan rent burst`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::burst::answer::{self as burst, BurstRequest};
use tracecast_planner::burst::heldout::{BurstTerms, OwnNodes};

use crate::args::{Reading, TIMES, Tables, duration};
use crate::cmd::answer::{self, Charting};
use crate::cmd::trained::PredictedRuns;
use crate::cmd::{describe, fleet};
use crate::progress::Clock;
use crate::source;

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that wait for the same GPUs wait for each other, so a plan of bursting needs them all";

/// Kind of the pool's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Own {
    /// Nodes that are bought: `owned` in the offers file
    Bought,
    /// Nodes that are reserved: `reserved` in the offers file
    Reserved,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample and invented prices, where 95 % of the jobs are to wait at most half an hour:
  tracecast plan rent burst datasets/sample --offers datasets/offers/example.toml --target-p95 30min

{TIMES}"))]
pub(crate) struct PlanBurst {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Offers file (TOML) as `plan rent fleet` reads it: what a node of one's own or a reserved one
    /// costs, and on-demand
    ///
    /// cli/guide/reference/rent.md describes the file, and datasets/offers/example.toml is
    /// one with invented prices. Spot is not used.
    /// A table of prices as `tracecast formats` lists them (cloud-gpus.csv, or SkyPilot's vms.csv) can stand in its place or beside it; then what the file says goes first. A table knows no nodes of one's own.
    #[arg(long, value_name = "TOML", required = true, help_heading = "Prices")]
    pub(crate) offers: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: Tables,
    /// What the nodes of the pool are, the cheapest of that kind [default: bought where the offers have such, else reserved]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Prices")]
    pub(crate) own: Option<Own>,
    /// Time that is planned for, in months: a longer commitment counts as paid to its end within it
    #[arg(long, value_name = "MONTHS", default_value_t = 12.0, value_parser = fleet::months, help_heading = "Prices")]
    pub(crate) horizon: f64,
    /// Wait that 95 % of the jobs are not to exceed, such as 10min or 4h
    ///
    /// The target is for all jobs of a GPU type and for each of its size classes with at least 20 jobs. Size classes are <1, 1, 2-4, 5-8 and >8
    /// GPUs.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h", help_heading = "Waits")]
    pub(crate) target_p95: i64,
    /// Longest wait of a job, after which it goes to the cloud
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "24h", help_heading = "Waits")]
    pub(crate) most_wait: i64,
    #[command(flatten)]
    pub(crate) runs: PredictedRuns,
    /// Nodes that the pool has already: choose only who waits for them [default: their number is chosen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Demand")]
    pub(crate) nodes: Option<u32>,
    /// Let nobody wait, and choose only how many nodes there are
    #[arg(long, conflicts_with = "nodes", help_heading = "Waits")]
    pub(crate) nobody_waits: bool,
    /// Test on what comes from this time on, and choose on what is before it [default: where a
    /// third of the weeks is left]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

pub(crate) fn plan(arguments: &PlanBurst, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-rent-burst", &[])?;
    if arguments.target_p95 > arguments.most_wait {
        let what = "--target-p95 is longer than --most-wait, so every plan would keep it; give a shorter one, or let jobs wait longer";
        return Err(crate::exit::Usage(what.to_owned()).into());
    }
    let window = Window::new(["--eval-from", "the end"], arguments.eval_from.as_ref(), None)?;
    let offers = source::offers(&arguments.offers, &arguments.tables.filter())?;
    let trace = source::open_whole(&arguments.sources, &arguments.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &arguments.sources);
    let (eval_from_ms, _) = window.resolve(&Zone::named(&trace.zone)?)?;
    let runs = arguments.runs.forecast(&trace, quiet)?;
    let terms = BurstTerms {
        target_s: arguments.target_p95 as f64 / 1e3,
        most_ms: arguments.most_wait,
        nodes: arguments.nodes,
        nobody_waits: arguments.nobody_waits,
        own: arguments.own.map(|own| match own {
            Own::Bought => OwnNodes::Bought,
            Own::Reserved => OwnNodes::Reserved,
        }),
        horizon_months: arguments.horizon,
    };
    let clock = Clock::new(quiet, "choosing nodes and who waits, and pricing them on later weeks");
    let answer = burst::plan(&trace, &offers, &title, &BurstRequest { eval_from_ms, terms, runs })?;
    drop(clock);
    checked.write(quiet, || burst::report(&answer), || answer::json(&answer, "the answer"))
}
