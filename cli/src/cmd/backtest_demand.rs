//! `tracecast backtest demand`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_analytics::{Trace, schema::Table as _};
use tracecast_predictors::demand::Unit;
use tracecast_predictors::demand::answer::{Answer, SCHEMA};
use tracecast_predictors::demand::backtest::{self, Options};
use tracecast_predictors::demand::fan::LEVELS;
use tracecast_predictors::demand::forecast::structural::Log;
use tracecast_predictors::demand::forecast::{ForecastModel, ForecastSettings};
use tracecast_predictors::demand::gather::{self, Asked, Gathered, Source};
use tracecast_predictors::duration::backtest as duration_backtest;
use tracecast_predictors::duration::forecast::Model as DurationModel;
use tracecast_predictors::timeline::{self, Timeline};

use crate::args::{Reading, TIMES};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::{early, output, source};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Counted {
    /// Nodes with at least one GPU in use
    Nodes,
    /// GPUs in use
    Gpus,
}

/// Where counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum From {
    /// What the source itself counted
    Activity,
    /// The jobs
    Jobs,
}

/// Whether waiting work counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pending {
    /// All that waits
    All,
    /// What waits, up to what there is
    UpToTotal,
}

/// Which demand, in which slots.
#[derive(Debug, Args)]
#[command(next_help_heading = "Demand")]
pub(crate) struct Gathering {
    /// Length of a slot (such as 10min, 1h)
    #[arg(long, value_name = "TIME", value_parser = length, default_value = "10min")]
    pub(crate) slot: i64,
    /// Slots to forecast
    #[arg(long, value_name = "SLOTS", default_value = "36")]
    pub(crate) horizon: NonZeroUsize,
    /// Nodes or GPUs [default: nodes where the source counts them, else GPUs]
    #[arg(long, value_enum)]
    pub(crate) unit: Option<Counted>,
    /// Take counts from what the source counted or from its jobs [default: the first there is]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) counts: Option<From>,
    /// Only these VCs, and the pool of them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) vc: Vec<String>,
    /// Count what waits, too
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    pub(crate) pending: Option<Pending>,
    /// GPUs of a node, where nodes are made of GPUs [default: as the inventory has it, else 8]
    #[arg(long, value_name = "GPUS")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Take a whole cluster that falls from busy to 0 as idle, not as an outage of the counting
    #[arg(long)]
    pub(crate) outages_are_idle: bool,
}

/// How to learn.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Learning {
    /// Models: persistence, seasonal_day, seasonal_week, smoothing, boosted, structural [default: all that the source allows]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = model)]
    pub(crate) models: Option<Vec<ForecastModel>>,
    /// Days between fits
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=365))]
    pub(crate) refit_days: i64,
    /// Let the structural forecast take the run of each job as the boosted duration model predicts it (fitted each week), not as its size class ran
    #[arg(long)]
    pub(crate) durations: bool,
    /// Trees a level [default: 60]
    #[arg(long, value_name = "N")]
    pub(crate) trees: Option<NonZeroUsize>,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct BacktestDemand {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) gathering: Gathering,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Report slots from this time on [default: the last quarter]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Report")]
    pub(crate) eval_from: Option<Written>,
    /// Report slots before this time; a bare date is in to its end [default: to the end]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Report")]
    pub(crate) eval_to: Option<Written>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn length(text: &str) -> Result<i64, String> {
    let found = tracecast_planner::replay::scenario::parse_duration(text).map_err(|error| error.to_string())?;
    if (1_000..=86_400_000).contains(&found) { Ok(found) } else { Err("a slot is a second to a day long".to_owned()) }
}

fn model(name: &str) -> Result<ForecastModel, String> {
    let known = || ForecastModel::ALL.map(ForecastModel::name).join(", ");
    ForecastModel::ALL
        .into_iter()
        .find(|model| model.name() == name)
        .ok_or_else(|| format!("no such model; there are {}", known()))
}

/// What the window of an evaluation is called.
pub(crate) const EVALUATED: [&str; 2] = ["--eval-from", "--eval-to"];

/// The series asked for.
pub(crate) fn gather(trace: &Trace, request: &Gathering) -> Result<(Gathered, gather::Options)> {
    let options = gather::Options {
        slot_ms: request.slot,
        unit: request.unit.map(|unit| if unit == Counted::Nodes { Unit::Nodes } else { Unit::Gpus }),
        source: match request.counts {
            None => Source::Any,
            Some(From::Activity) => Source::Activity,
            Some(From::Jobs) => Source::Jobs,
        },
        asked: match request.pending {
            None => Asked::InUse,
            Some(Pending::All) => Asked::WithPending,
            Some(Pending::UpToTotal) => Asked::WithPendingUpToTotal,
        },
        gpus_per_node: request.gpus_per_node,
        outages_are_idle: request.outages_are_idle,
        vcs: request.vc.clone(),
    };
    Ok((gather::gather(trace, &options)?, options))
}

/// The models asked for, or all that can be; and the jobs, where the structural forecast has them.
pub(crate) fn models(
    trace: &Trace,
    gathered: &Gathered,
    learning: &Learning,
    quiet: bool,
) -> Result<(Vec<ForecastModel>, Option<Log>)> {
    let gpus = gathered.series.iter().all(|series| series.unit == Unit::Gpus);
    let can = gathered.from_jobs && gpus;
    let asked = learning.models.as_ref().is_some_and(|models| models.contains(&ForecastModel::Structural));
    if asked && !can {
        let why = if trace.jobs.is_empty() { "the source has no jobs" } else { "it is of GPUs counted from jobs" };
        bail!(
            "the structural forecast is not to be had here: {why}; say --counts jobs --unit gpus, or leave it out of --models"
        );
    }
    let models = match &learning.models {
        Some(models) => models.clone(),
        None => ForecastModel::ALL.into_iter().filter(|model| can || *model != ForecastModel::Structural).collect(),
    };
    if !(can && models.contains(&ForecastModel::Structural)) {
        if learning.durations {
            bail!("--durations is for the structural forecast, which is not among the models");
        }
        return Ok((models, None));
    }
    let timeline = Timeline::of(trace, timeline::Options::default())?;
    if !learning.durations {
        return Ok((models, Some(Log::of(&timeline, None))));
    }
    output::say(quiet, &format!("tracecast: durations of {} jobs …", format::count(timeline.jobs.len() as u64)));
    let options = duration_backtest::Options {
        predict_from: 0.1,
        models: vec![DurationModel::RunningMean, DurationModel::Boosted],
        ..duration_backtest::Options::default()
    };
    let found = duration_backtest::tracks(&timeline, &options)?;
    let track = found.tracks.iter().find(|track| track.name == DurationModel::Boosted.name());
    Ok((models, Some(Log::of(&timeline, track.map(|track| track.distributions.as_slice())))))
}

/// How to learn.
pub(crate) fn settings(gathering: &Gathering, learning: &Learning) -> ForecastSettings {
    let mut settings = ForecastSettings { horizon: gathering.horizon.get(), ..ForecastSettings::default() };
    if let Some(trees) = learning.trees {
        settings.trees.trees = trees.get();
    }
    settings.trees.seed = learning.seed;
    settings
}

pub(crate) fn run(request: &BacktestDemand, quiet: bool) -> Result<()> {
    early::files([&request.answering.out])?;
    let window = Window::new(EVALUATED, request.eval_from.as_ref(), request.eval_to.as_ref())?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let zone = Zone::named(&trace.zone)?;
    let (report_from_ms, report_to_ms) = window.resolve(&zone)?;
    let (mut gathered, gathering) = gather(&trace, &request.gathering)?;
    gathered.notes.extend(trace.warnings());
    let (models, log) = models(&trace, &gathered, &request.learning, quiet)?;
    let options = Options {
        models,
        settings: settings(&request.gathering, &request.learning),
        refit_days: request.learning.refit_days,
        report_from_ms,
        report_to_ms,
        ..Options::default()
    };
    output::say(
        quiet,
        &format!(
            "tracecast: {} on {} …",
            format::counted(options.models.len() as u64, "model", "models"),
            format::counted(gathered.series.len() as u64, "series", "series")
        ),
    );
    let series = backtest::run_all(&gathered.series, log.as_ref(), &gathering.vcs, gathering.asked, &options)?;
    let answer = Answer {
        schema: SCHEMA.to_owned(),
        title: describe::title(&trace, &request.sources),
        notes: gathered.notes,
        zone: zone.name().to_owned(),
        slot_s: gathering.slot_ms as f64 / 1_000.0,
        horizon: options.settings.horizon,
        refit_days: options.refit_days,
        asked: gathering.asked,
        levels: LEVELS.to_vec(),
        series,
    };
    request.answering.write(None, true, || answer.report(), || answer::json(&answer, "the answer"))
}
