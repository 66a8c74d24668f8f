//! `tracecast model backtest demand`.

use std::num::NonZeroUsize;

use anyhow::{Result, bail};
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{HOUR_MS, Window, Written, Zone};
use tracecast_analytics::{Trace, schema::Table as _};
use tracecast_planner::power::request::EVALUATED;
use tracecast_predictors::demand::Unit;
use tracecast_predictors::demand::answer::{Answer, SCHEMA};
use tracecast_predictors::demand::backtest::{self, DemandBacktestOptions};
use tracecast_predictors::demand::bound;
use tracecast_predictors::demand::fan::LEVELS;
use tracecast_predictors::demand::forecast::structural::Log;
use tracecast_predictors::demand::forecast::{ForecastModel, ForecastSettings};
use tracecast_predictors::demand::gather::{self, Asked, Gathered, Source};
use tracecast_predictors::duration::backtest as duration_backtest;
use tracecast_predictors::duration::forecast::Model as DurationModel;
use tracecast_predictors::timeline::{self, Timeline};

use crate::args::{DEMAND_OF_ALL, Input, TIMES, duration, entries, listed, up_to};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::progress::Steps;
use crate::{output, source};

/// Unit that demand is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Counted {
    /// Nodes with at least one GPU in use
    Nodes,
    /// GPUs in use
    Gpus,
}

/// Source of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum From {
    /// Counts that the source itself recorded
    Activity,
    /// Counts that are computed from the jobs
    Jobs,
}

/// Whether waiting work counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pending {
    /// Demand of all waiting jobs
    All,
    /// Demand of waiting jobs, up to the capacity
    UpToTotal,
}

/// Demand to gather, and its slots.
#[derive(Debug, Args)]
#[command(next_help_heading = "Demand")]
pub(crate) struct Gathering {
    /// Length of a slot, from 1s to 1d, such as 10min or 1h
    #[arg(long, value_name = "TIME", value_parser = length, default_value = "10min")]
    pub(crate) slot: i64,
    /// Number of slots to forecast
    #[arg(long, value_name = "SLOTS", default_value = "36", value_parser = up_to::<100_000>)]
    pub(crate) horizon: NonZeroUsize,
    /// Unit of demand [default: nodes if the source counts them, else gpus]
    #[arg(long, value_enum)]
    pub(crate) unit: Option<Counted>,
    /// Where the counts of nodes or GPUs come from [default: activity if the source has it, else jobs]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) counts: Option<From>,
    /// Use only these VCs and their pool, separated by commas [default: all VCs]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = entries())]
    pub(crate) vc: Vec<String>,
    /// Count the demand of waiting jobs, too [default: only what is in use]
    ///
    /// --pending alone stands for --pending=all.
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "all", require_equals = true)]
    pub(crate) pending: Option<Pending>,
    /// GPUs of a node, where nodes are computed from GPUs [default: as in the inventory of nodes, else 8]
    #[arg(long, value_name = "GPUS")]
    pub(crate) gpus_per_node: Option<f64>,
    /// Count the nodes as idle when the whole cluster falls from busy to 0 at once
    ///
    /// By default such counts are taken for an outage of the counting and are not used.
    #[arg(long)]
    pub(crate) outages_are_idle: bool,
}

impl Gathering {
    /// A day of hours ahead, of all VCs and their pool, in what the source counts.
    pub(crate) fn hourly() -> Self {
        Self {
            slot: HOUR_MS,
            horizon: A_DAY,
            unit: None,
            counts: None,
            vc: Vec::new(),
            pending: None,
            gpus_per_node: None,
            outages_are_idle: false,
        }
    }
}

/// Options of learning.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Learning {
    /// Models to use, separated by commas [default: all that the source allows]
    ///
    ///   persistence    the peak of the last slot
    ///   seasonal_day   the peak one day before
    ///   seasonal_week  the peak one week before
    ///   smoothing      exponential smoothing with a damped trend and a daily season
    ///   boosted        boosted quantile trees
    ///   structural     which running jobs will still run, and which jobs will come
    ///
    /// The model structural needs GPUs that are counted from jobs.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = listed(model), verbatim_doc_comment)]
    pub(crate) methods: Option<Vec<ForecastModel>>,
    /// Days between two fits of a model, from 1 to 365
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=365))]
    pub(crate) refit_days: i64,
    /// Use predicted run times of jobs in the structural forecast
    ///
    /// The boosted model of run times predicts them, and is fitted each week. Without this option the structural forecast expects a job to
    /// run as other jobs of its size class did.
    #[arg(long)]
    pub(crate) durations: bool,
    /// Number of boosted trees for each quantile [default: 60]
    #[arg(long, value_name = "N", value_parser = up_to::<10_000>)]
    pub(crate) trees: Option<NonZeroUsize>,
    /// Seed of the random choices in training: the same seed gives the same model
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Learning {
    /// All models that the source allows, refitted every week.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { methods: None, refit_days: 7, durations: false, trees: None, seed }
    }
}

/// Hours of a day.
const A_DAY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(23);

/// Example for the end of the help.
const EXAMPLE: &str = "\
Example, GPUs in use by the hour in the bundled sample:
  tracecast model backtest demand datasets/sample --counts jobs --unit gpus --slot 1h";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct BacktestDemand {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) gathering: Gathering,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Test on what comes from this time on, and choose on what is before it [default: the last
    /// quarter of the data]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Report")]
    pub(crate) eval_from: Option<Written>,
    /// Report results for slots before this time, where a date includes that day [default: to the end]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Report")]
    pub(crate) eval_to: Option<Written>,
    /// Test the most that is needed within the next half an hour to four hours, too
    ///
    /// `plan power` decides by it. Forecasts are compared with its boosted trees of the chance that a level
    /// is reached.
    #[arg(long, help_heading = "Report")]
    pub(crate) peaks: bool,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn length(text: &str) -> Result<i64, String> {
    let result = duration(text)?;
    if (1_000..=86_400_000).contains(&result) { Ok(result) } else { Err("a slot must be 1s to 1d long".to_owned()) }
}

fn model(name: &str) -> Result<ForecastModel, String> {
    let known = || ForecastModel::ALL.map(ForecastModel::name).join(", ");
    ForecastModel::ALL
        .into_iter()
        .find(|model| model.name() == name)
        .ok_or_else(|| format!("no such model; there are {}", known()))
}

/// The series asked for.
pub(crate) fn gather(trace: &Trace, request: &Gathering) -> Result<(Gathered, gather::GatherOptions)> {
    let options = gather::GatherOptions {
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
        ..gather::GatherOptions::default()
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
    let is_structural_named =
        learning.methods.as_ref().is_some_and(|models| models.contains(&ForecastModel::Structural));
    if is_structural_named && !can {
        let why =
            if trace.jobs.is_empty() { "the source has no jobs" } else { "it needs GPUs that are counted from jobs" };
        bail!(
            "the structural forecast is not possible here: {why}; write --counts jobs --unit gpus, or leave structural out of --methods"
        );
    }
    let models = match &learning.methods {
        Some(models) => models.clone(),
        None => ForecastModel::ALL.into_iter().filter(|model| can || *model != ForecastModel::Structural).collect(),
    };
    if !(can && models.contains(&ForecastModel::Structural)) {
        if learning.durations {
            bail!(
                "--durations changes only the structural forecast, which is not among the models; leave it out, or use --counts jobs --unit gpus with structural in --methods"
            );
        }
        return Ok((models, None));
    }
    let timeline = Timeline::new(trace, timeline::TimelineOptions::default())?;
    if !learning.durations {
        return Ok((models, Some(Log::new(&timeline, None))));
    }
    output::say(quiet, &format!("tracecast: durations of {} jobs …", format::count(timeline.jobs.len() as u64)));
    let options = duration_backtest::BacktestOptions {
        predict_from: 0.1,
        models: vec![DurationModel::RunningMean, DurationModel::Boosted],
        ..duration_backtest::BacktestOptions::default()
    };
    let result = duration_backtest::tracks(&timeline, &options)?;
    let track = result.tracks.iter().find(|track| track.name == DurationModel::Boosted.name());
    Ok((models, Some(Log::new(&timeline, track.map(|track| track.distributions.as_slice())))))
}

/// Settings of learning.
pub(crate) fn settings(gathering: &Gathering, learning: &Learning) -> ForecastSettings {
    let mut settings = ForecastSettings { horizon: gathering.horizon.get(), ..ForecastSettings::default() };
    if let Some(trees) = learning.trees {
        settings.trees.trees = trees.get();
    }
    settings.trees.seed = learning.seed;
    settings
}

pub(crate) fn run(request: &BacktestDemand, quiet: bool) -> Result<()> {
    let checked = request.answering.check("model-backtest-demand", &[])?;
    let window = Window::new(EVALUATED, request.eval_from.as_ref(), request.eval_to.as_ref())?;
    let trace = source::open_whole(&request.input.sources, &request.input.reading, quiet, DEMAND_OF_ALL)?;
    let zone = Zone::named(&trace.zone)?;
    let (report_from_ms, report_to_ms) = window.resolve(&zone)?;
    let (mut gathered, gathering) = gather(&trace, &request.gathering)?;
    gathered.notes.extend(trace.warnings());
    let (models, log) = models(&trace, &gathered, &request.learning, quiet)?;
    let options = DemandBacktestOptions {
        models,
        settings: settings(&request.gathering, &request.learning),
        refit_days: request.learning.refit_days,
        report_from_ms,
        report_to_ms,
        peaks: request.peaks,
        ..DemandBacktestOptions::default()
    };
    output::say(quiet, &format!("tracecast: {} …", bound::work(&gathered.series, options.models.len())));
    let steps = Steps::watching(quiet, "fitting and forecasting");
    let series = backtest::run_all(&gathered.series, log.as_ref(), &gathering.vcs, gathering.asked, &options, &steps)?;
    drop(steps);
    let answer = Answer {
        schema: SCHEMA.to_owned(),
        title: describe::title(&trace, &request.input.sources),
        notes: gathered.notes,
        zone: zone.name().to_owned(),
        slot_s: gathering.slot_ms as f64 / 1_000.0,
        horizon: options.settings.horizon,
        refit_days: options.refit_days,
        asked: gathering.asked,
        levels: LEVELS.to_vec(),
        series,
    };
    checked.write(true, || answer.report(), || answer::json(&answer, "the answer"))
}
