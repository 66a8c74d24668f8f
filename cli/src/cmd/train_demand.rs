//! `tracecast model train demand` and `tracecast model predict demand`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_predictors::demand::Unit;
use tracecast_predictors::demand::backtest::DemandBacktestOptions;
use tracecast_predictors::demand::bound;
use tracecast_predictors::demand::forecast::structural::Log;
use tracecast_predictors::demand::gather;
use tracecast_predictors::demand::predictor::{self, DemandPredictor, Gathering as Kept};
use tracecast_predictors::timeline::{self, Timeline};

use crate::args::{DEMAND_OF_ALL, Input, Reading};
use crate::cmd::backtest_demand::{self, Gathering, Learning};
use crate::cmd::models::{DEMAND, model_file};
use crate::early::Replacing;
use crate::progress::Steps;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, GPUs in use by the hour in the bundled sample:
  tracecast model train demand datasets/sample --counts jobs --unit gpus --slot 1h --out demand.model")]
pub(crate) struct TrainDemand {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) gathering: Gathering,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

/// Form of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ForecastForm {
    /// CSV, with one row for each series and slot
    Csv,
    /// JSON
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, a model of the bundled sample, and its forecast:
  tracecast model train demand datasets/sample --counts jobs --unit gpus --slot 1h --out demand.model
  tracecast model predict demand --model demand.model")]
pub(crate) struct Forecast {
    /// Newer record of the source that the model was trained on: files, folders, patterns or a trace folder
    ///
    /// The forecast begins where this record ends. Without it, the forecast begins where the training data end.
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Model file that `tracecast model train demand` wrote, or the folder of all trained models
    #[arg(long, short, visible_alias = "models", value_name = "FILE|FOLDER")]
    pub(crate) model: PathBuf,
    /// Form in which the forecast is written
    #[arg(long, value_enum, default_value_t = ForecastForm::Csv, help_heading = "Answer")]
    pub(crate) format: ForecastForm,
    /// Write the forecast to a file instead of stdout; FOLDER/ writes it there under the name of the command
    #[arg(long, short, value_name = "FILE|FOLDER/", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn run(request: &TrainDemand, quiet: bool) -> Result<()> {
    request.replacing.file(&request.out)?;
    let trace = source::open_whole(&request.input.sources, &request.input.reading, quiet, DEMAND_OF_ALL)?;
    let trained = learn(&trace, &request.gathering, &request.learning, quiet)?;
    output::write(&request.out, &trained.to_bytes()?)?;
    for trained in &trained.series {
        output::say(
            quiet,
            &format!(
                "tracecast: {}: the model {} has the lowest pinball loss on the last 40 % of the slots, which is {} of that of persistence",
                trained.series.name,
                trained.model.name(),
                format::percent(trained.choice_loss)
            ),
        );
    }
    output::say(quiet, &format!("tracecast: model written to {}", request.out.display()));
    Ok(())
}

/// Trains the demand model of a trace.
pub(crate) fn learn(trace: &Trace, gathering: &Gathering, learning: &Learning, quiet: bool) -> Result<DemandPredictor> {
    let (gathered, options) = backtest_demand::gather(trace, gathering)?;
    for note in &gathered.notes {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    let (models, log) = backtest_demand::models(trace, &gathered, learning, quiet)?;
    output::say(quiet, &format!("tracecast: {} …", bound::work(&gathered.series, models.len())));
    let backtest = DemandBacktestOptions {
        models,
        settings: backtest_demand::settings(gathering, learning),
        refit_days: learning.refit_days,
        ..DemandBacktestOptions::default()
    };
    let kept = Kept {
        slot_ms: options.slot_ms,
        unit: gathered.series.first().map_or(Unit::Gpus, |series| series.unit),
        asked: options.asked,
        gpus_per_node: options.gpus_per_node,
        outages_are_idle: options.outages_are_idle,
        from_jobs: gathered.from_jobs,
        vcs: options.vcs,
    };
    let steps = Steps::watching(quiet, "training");
    Ok(DemandPredictor::train(&gathered.series, log.as_ref(), kept, &backtest, &steps)?)
}

pub(crate) fn forecast(request: &Forecast, quiet: bool) -> Result<()> {
    request.reading.needs_all_jobs(DEMAND_OF_ALL)?;
    if request.sources.is_empty() {
        request.reading.reads_no_trace("no trace is named, so nothing is read but the model; name the SOURCE")?;
    }
    let out = request.replacing.answer(request.out.as_deref(), "model-predict-demand", &request.format)?;
    let path = &model_file(&request.model, DEMAND);
    let bytes = tracecast_predictors::read_model(path)?;
    let mut predictor = DemandPredictor::from_bytes(&path.display().to_string(), &bytes)?;
    if !request.sources.is_empty() {
        let trace = source::open_whole(&request.sources, &request.reading, quiet, DEMAND_OF_ALL)?;
        let gathered = gather::gather(&trace, &predictor.gathering.options())?;
        for note in &gathered.notes {
            output::say(quiet, &format!("tracecast: {note}"));
        }
        let log = if predictor.gathering.from_jobs {
            Some(Log::new(&Timeline::new(&trace, timeline::TimelineOptions::default())?, None))
        } else {
            None
        };
        predictor.roll(&gathered.series, log.as_ref())?;
    }
    let forecasts = predictor.forecast()?;
    let bytes = match request.format {
        ForecastForm::Csv => predictor::csv(&forecasts)?,
        ForecastForm::Json => {
            let mut text = serde_json::to_vec_pretty(&predictor::forecasts(&forecasts)).context("write JSON")?;
            text.push(b'\n');
            text
        }
    };
    output::bytes(&bytes, out.as_deref())
}
