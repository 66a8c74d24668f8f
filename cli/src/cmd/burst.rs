//! `tracecast plan burst`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::burst::answer::{self as burst, BurstRequest};
use tracecast_planner::burst::heldout::{BurstTerms, OwnNodes};

use crate::args::{Reading, TIMES, Tables, duration};
use crate::cmd::answer::{self, Answering};
use crate::cmd::simulate::predictions;
use crate::cmd::{describe, fleet};
use crate::progress::Clock;
use crate::source;

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that wait for the same GPUs wait for each other, so a plan of bursting needs them all";

/// What the nodes of the pool are.
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
  tracecast plan burst datasets/sample --prices datasets/offers/example.toml --target-p95 30min

{TIMES}"))]
pub(crate) struct PlanBurst {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Offers file (TOML) as `plan fleet` reads it: what a node of one's own or a reserved one costs, and on-demand
    ///
    /// The guide cli/guide/fleet.md describes the file, and datasets/offers/example.toml is one with invented prices. Spot is not used.
    /// A table of prices as `tracecast formats` lists them (cloud-gpus.csv, or SkyPilot's vms.csv) can stand in its place or beside it; then what the file says goes first. A table knows no nodes of one's own.
    #[arg(long, value_name = "FILE", required = true, help_heading = "Prices")]
    pub(crate) prices: Vec<PathBuf>,
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
    /// CSV of predicted run times, with the columns job_id and predicted_duration_s (seconds)
    ///
    /// A prediction must have been made when its job was submitted. Without this file a job is predicted to run as long as the last two jobs of
    /// its user and name on average.
    #[arg(long, value_name = "CSV", help_heading = "Waits")]
    pub(crate) predictions: Option<PathBuf>,
    /// Nodes that the pool has already: choose only who waits for them [default: their number is chosen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Demand")]
    pub(crate) nodes: Option<u32>,
    /// Let nobody wait, and choose only how many nodes there are
    #[arg(long, conflicts_with = "nodes", help_heading = "Waits")]
    pub(crate) nobody_waits: bool,
    /// Choose on the jobs before this time, and price on what comes after [default: where a third of the weeks is left]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

pub(crate) fn plan(asked: &PlanBurst, quiet: bool) -> Result<()> {
    let checked = asked.answering.check("plan-burst", &[])?;
    asked.answering.replacing.folders([&asked.charts])?;
    if asked.target_p95 > asked.most_wait {
        let what = "--target-p95 is longer than --most-wait, so every plan would keep it; give a shorter one, or let jobs wait longer";
        return Err(crate::exit::Usage(what.to_owned()).into());
    }
    let window = Window::new(["--eval-from", "the end"], asked.eval_from.as_ref(), None)?;
    let predictions = predictions(asked.predictions.as_deref())?;
    let offers = source::offers(&asked.prices, &asked.tables.filter())?;
    let trace = source::open_whole(&asked.sources, &asked.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &asked.sources);
    let (eval_from_ms, _) = window.resolve(&Zone::named(&trace.zone)?)?;
    let terms = BurstTerms {
        target_s: asked.target_p95 as f64 / 1e3,
        most_ms: asked.most_wait,
        nodes: asked.nodes,
        nobody_waits: asked.nobody_waits,
        own: asked.own.map(|own| match own {
            Own::Bought => OwnNodes::Bought,
            Own::Reserved => OwnNodes::Reserved,
        }),
        horizon_months: asked.horizon,
    };
    let clock = Clock::new(quiet, "choosing nodes and who waits, and pricing them on later weeks");
    let answer = burst::plan(&trace, &offers, &title, &BurstRequest { eval_from_ms, terms, predictions })?;
    drop(clock);
    checked.write(asked.charts.as_deref(), quiet, || burst::report(&answer), || answer::json(&answer, "the answer"))
}
