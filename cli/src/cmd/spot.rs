//! `tracecast model train spot`, `tracecast model predict spot` and `tracecast model backtest
//! spot`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::{self, format};
use tracecast_predictors::spot::answer::SpotAnswer;
use tracecast_predictors::spot::backtest::{self, SpotTestOptions};
use tracecast_predictors::spot::backtest_answer::SpotBacktestAnswer;
use tracecast_predictors::spot::predictor::{SpotPredictor, check_together};
use tracecast_predictors::spot::record::{SpotRecord, usable};

use crate::args::{Reading, numbers};
use crate::cmd::answer::{self, Answering};
use crate::cmd::models::{SPOT, model_file};
use crate::cmd::spot_traces::{SpotPrices, SpotTraces, gap, moment, series};
use crate::early::Replacing;
use crate::output;
use crate::progress::{Clock, Steps};

/// Knowledge that a zone has of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZonesKnown {
    /// Each zone on its own
    Apart,
    /// All traces begin at the same moment, and each zone knows of the others
    Together,
}

/// Traces to learn from, and what is needed.
#[derive(Debug, Args)]
pub(crate) struct SpotLearning {
    #[command(flatten)]
    pub(crate) from: SpotTraces,
    /// Instances needed at once
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) need: u32,
    /// Whether the traces are zones of one time, so that the model of a zone knows how many of the others are without spot
    #[arg(long, value_enum, value_name = "HOW", default_value = "apart")]
    pub(crate) regions: ZonesKnown,
    /// When the first sample of the traces was taken, such as 2023-02-15T00:00:00Z [default: hours of the week count from the first sample]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) begins: Option<i64>,
    #[command(flatten)]
    pub(crate) beside: SpotPrices,
}

impl SpotLearning {
    fn records(&self, quiet: bool) -> Result<(Vec<SpotRecord>, String)> {
        let (series, title) = self.from.series(&self.beside, self.begins, quiet)?;
        Ok((series.iter().map(|zone| zone.record(self.begins)).collect(), title))
    }

    fn together(&self) -> bool {
        self.regions == ZonesKnown::Together
    }
}

/// Form of what is said of a trained model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpotForm {
    /// Text for a terminal
    Table,
    /// JSON, as `model predict spot` writes it
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, nine zones of one time, and what is said of them:
  tracecast model train spot zones/*.json --regions together --out spot.tcm
  tracecast model predict spot --model spot.tcm --hours 1,6")]
pub(crate) struct TrainSpot {
    #[command(flatten)]
    pub(crate) learning: SpotLearning,
    /// Hours ahead of which chances are printed, separated by commas
    #[arg(long, value_name = "HOURS", value_delimiter = ',', value_parser = numbers(), default_value = "1,3,6,12,24", help_heading = "Answer")]
    pub(crate) hours: Vec<f64>,
    /// Form in which the model is described on stdout
    #[arg(long, value_enum, default_value_t = SpotForm::Table, help_heading = "Answer")]
    pub(crate) format: SpotForm,
    /// Model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn train(arguments: &TrainSpot, quiet: bool) -> Result<()> {
    arguments.replacing.file(&arguments.out)?;
    backtest::check_hours(&arguments.hours)?;
    let (records, title) = arguments.learning.records(quiet)?;
    let clock = Clock::new(quiet, "training");
    let (predictor, notes) = SpotPredictor::train(records, arguments.learning.need, arguments.learning.together())?;
    drop(clock);
    output::write(&arguments.out, &predictor.to_bytes()?)?;
    output::say(
        quiet,
        &format!(
            "tracecast: {}; in use: {}; model written to {}",
            format::counted(predictor.zones().count() as u64, "zone", "zones"),
            predictor.trained.model.in_use(),
            arguments.out.display()
        ),
    );
    let said = SpotAnswer::new(&predictor, &[], &arguments.hours, title, notes)?;
    match arguments.format {
        SpotForm::Table => output::text(&report::text::render(&said.report(), output::width(None)), None),
        SpotForm::Json => output::text(&answer::json(&said, "the answer")?, None),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, a model of a zone, and what it says after newer samples:
  tracecast model train spot us-east-1a_v100_1.json --out spot.tcm
  tracecast model predict spot newer/us-east-1a_v100_1.json --model spot.tcm --hours 1,6")]
pub(crate) struct PredictSpot {
    /// Newer traces of zones that the model knows, by files of the same names: files, folders or patterns
    ///
    /// The chances are of what comes after their last sample. Without them they are of what comes after the last sample that the model learned from.
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Time between the samples of every trace, such as 300s [default: gap_seconds of each file]
    #[arg(long, value_name = "TIME", value_parser = gap)]
    pub(crate) gap: Option<i64>,
    /// When the first sample of the newer traces was taken, such as 2023-04-15T00:00:00Z [default: hours of the week are left out]
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "traces")]
    pub(crate) begins: Option<i64>,
    #[command(flatten)]
    pub(crate) beside: SpotPrices,
    /// Model file that `tracecast model train spot` wrote, or the folder of all trained models
    #[arg(long, short, visible_alias = "models", value_name = "FILE|FOLDER")]
    pub(crate) model: PathBuf,
    /// Hours ahead, separated by commas
    #[arg(long, value_name = "HOURS", value_delimiter = ',', value_parser = numbers(), default_value = "1,3,6,12,24")]
    pub(crate) hours: Vec<f64>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn predict(arguments: &PredictSpot, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("model-predict-spot", &[])?;
    backtest::check_hours(&arguments.hours)?;
    let model = model_file(&arguments.model, SPOT);
    let bytes = tracecast_predictors::read_model(&model)?;
    let predictor = SpotPredictor::from_bytes(&model.display().to_string(), &bytes)?;
    let (newer, title) = if arguments.traces.is_empty() {
        (Vec::new(), model.display().to_string())
    } else {
        let (series, title) =
            series((&arguments.traces, &arguments.reading, arguments.gap), &arguments.beside, arguments.begins, quiet)?;
        (series.iter().map(|zone| zone.record(arguments.begins)).collect(), title)
    };
    let said = SpotAnswer::new(&predictor, &newer, &arguments.hours, title, Vec::new())?;
    checked.write(quiet, || said.report(), || answer::json(&said, "the answer"))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, at least four instances in three zones of one time:
  tracecast model backtest spot 4-node/*.json --need 4 --regions together")]
pub(crate) struct BacktestSpot {
    #[command(flatten)]
    pub(crate) learning: SpotLearning,
    /// Hours ahead, separated by commas
    #[arg(
        long,
        value_name = "HOURS",
        value_delimiter = ',',
        value_parser = numbers(),
        default_value = "1,3,6,12,24",
        help_heading = "Evaluation"
    )]
    pub(crate) hours: Vec<f64>,
    /// Days between two fits of a model, from 1 to 365
    #[arg(long, value_name = "DAYS", default_value_t = tracecast_predictors::spot::predictor::REFIT_DAYS, value_parser = clap::value_parser!(i64).range(1..=365), help_heading = "Evaluation")]
    pub(crate) refit_days: i64,
    /// Seed of the days that intervals draw: the same seed gives the same answer
    #[arg(long, default_value_t = 1, help_heading = "Evaluation")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

pub(crate) fn backtest(arguments: &BacktestSpot, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("model-backtest-spot", &[])?.with_charts(&arguments.charts)?;
    backtest::check_hours(&arguments.hours)?;
    let (records, title) = arguments.learning.records(quiet)?;
    let options = SpotTestOptions {
        need: arguments.learning.need,
        together: arguments.learning.together(),
        hours: arguments.hours.clone(),
        refit_days: arguments.refit_days,
        seed: arguments.seed,
    };
    let (records, notes) = usable(records, options.need)?;
    if options.together {
        check_together(&records)?;
    }
    let steps = Steps::new(quiet, "forecasting each zone", records.len());
    let result = backtest::backtest(&records, &options, &steps)?;
    drop(steps);
    let answer = SpotBacktestAnswer::new(title, notes, &options, result);
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
