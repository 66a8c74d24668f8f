//! `tracecast model train SOURCE --save FOLDER`: everything that can be learned from a record.
//!
//! What cannot be learned stands in the table with the reason, and stops nothing else. An error of
//! a file that was named (`--pairs`, `--spot`) is one. All files are written together at the end.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::report::{self, Cell, Column, ReportTable, format};
use tracecast_predictors::duration::backtest::BacktestOptions;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::interference::predictor::SharingPredictor;
use tracecast_predictors::interference::read;
use tracecast_predictors::spot::predictor::SpotPredictor;
use tracecast_predictors::timeline::{Timeline, TimelineOptions};
use tracecast_predictors::utilisation::history::UsageHistory;
use tracecast_predictors::utilisation::profile::{self, TypeOfJob};

use crate::args::Input;
use crate::cmd::backtest_demand::{Gathering, Learning};
use crate::cmd::models::{DEMAND, DURATION, FILES, INTERFERENCE, PAST_RUNS, SPOT, UTILISATION};
use crate::cmd::spot_traces::{SpotPrices, series};
use crate::cmd::train_demand;
use crate::cmd::trained::{past_runs, past_text};
use crate::early::Replacing;
use crate::progress::{Clock, Steps};
use crate::{output, source};

/// Why the whole record is needed.
const NEEDED: &str = "models of demand and of run times need all jobs of the record";

#[derive(Debug, Args)]
pub(crate) struct TrainAll {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Folder for the models, which plans read as --models
    #[arg(long, value_name = "PATH", required = true)]
    pub(crate) save: Option<PathBuf>,
    /// Measured pairs of jobs that share a GPU: CSV, or Gavel's throughputs (JSON)
    #[arg(long, value_name = "PAIRS")]
    pub(crate) pairs: Option<PathBuf>,
    /// Traces of spot availability, one file for each zone, separated by commas
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub(crate) spot: Vec<PathBuf>,
    /// Seed of the random choices in training: the same seed gives the same models
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

/// A model that was trained, or the reason why not.
struct Lesson {
    files: Vec<(&'static str, Vec<u8>)>,
    learned_from: String,
    model: String,
    /// Loss on held-out data beside the simplest rule.
    beside: String,
}

/// Row of the table of what was learned.
fn row(predicts: &str, lesson: &Result<Lesson, String>) -> Vec<Cell> {
    let texts = match lesson {
        Ok(lesson) => {
            let files: Vec<&str> = lesson.files.iter().map(|(name, _)| *name).collect();
            [lesson.learned_from.clone(), lesson.model.clone(), lesson.beside.clone(), files.join(", ")]
        }
        Err(why) => [format!("not learned: {why}"), String::new(), String::new(), String::new()],
    };
    std::iter::once(predicts.to_owned()).chain(texts).map(Cell::from).collect()
}

pub(crate) fn run(request: &TrainAll, quiet: bool) -> Result<()> {
    request.replacing.folders([&request.save])?;
    let folder = request.save.as_deref().context("--save names no folder")?;
    let trace = source::open_whole(&request.input.sources, &request.input.reading, quiet, NEEDED)?;
    let or_why = |lesson: Result<Lesson>| lesson.map_err(|error| error.to_string());
    let mut lessons = vec![
        ("run times", or_why(durations(&trace, request.seed, quiet))),
        ("demand", or_why(demand(&trace, request.seed, quiet))),
        ("utilisation", or_why(utilisation(&trace))),
    ];
    let unnamed = |option: &str, what: &str| Err(format!("{option} names no {what}"));
    lessons.push(match &request.pairs {
        Some(_) => ("slowdown", Ok(interference(request)?)),
        None => ("slowdown", unnamed("--pairs", "measured pairs of jobs")),
    });
    lessons.push(match request.spot.is_empty() {
        false => ("spot", Ok(spot(request, quiet)?)),
        true => ("spot", unnamed("--spot", "traces of spot availability")),
    });
    let columns = ["Predicts", "Learned from", "Model", "Held out, beside the simplest rule", "Files"];
    let mut table = ReportTable::new("Models", columns.map(Column::text).into());
    table.rows = lessons.iter().map(|(predicts, lesson)| row(predicts, lesson)).collect();
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let files: Vec<(PathBuf, &[u8])> = (lessons.iter().filter_map(|(_, lesson)| lesson.as_ref().ok()))
        .flat_map(|lesson| lesson.files.iter().map(|(name, bytes)| (folder.join(name), bytes.as_slice())))
        .collect();
    output::write_all(&files.iter().map(|(path, bytes)| (path.as_path(), *bytes)).collect::<Vec<_>>())?;
    // Models of an earlier training are of another record.
    for name in FILES.iter().filter(|name| files.iter().all(|(path, _)| !path.ends_with(name))) {
        let path = folder.join(name);
        if path.is_file() {
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    output::text(&report::text::table(&table, output::terminal()), None)
}

/// Trains the model of run times on the whole record, and predicts the jobs of its later half by
/// what was known at their submission.
fn durations(trace: &Trace, seed: u64, quiet: bool) -> Result<Lesson> {
    let mut options = BacktestOptions::default();
    options.settings.trees.seed = seed;
    let steps = Steps::watching(quiet, "training models of run times");
    let timeline = Timeline::new(trace, TimelineOptions::default())?;
    let (predictor, past) = Predictor::train_with_past(&timeline, &options, &steps)?;
    let trained = predictor.trained();
    let mut files = vec![(DURATION, predictor.to_bytes()?)];
    // A record too short to learn from its first half has no predictions of the second.
    if !past.is_empty() {
        files.push((PAST_RUNS, past_text(&past_runs(&timeline, &past))?));
    }
    let beside = match trained.beside {
        Some((simple, loss)) if simple != trained.model => {
            format!("{} of the loss of {}", format::percent(loss), simple.name())
        }
        _ => "no better than a simple rule, which is used".to_owned(),
    };
    let held = if trained.held { "intervals held" } else { "intervals not shown to hold" };
    Ok(Lesson {
        files,
        learned_from: format::counted(trained.jobs as u64, "job", "jobs"),
        model: trained.model.name().to_owned(),
        beside: format!("{beside}; {held}"),
    })
}

/// Trains the model of GPUs in use by the hour, a day ahead.
fn demand(trace: &Trace, seed: u64, quiet: bool) -> Result<Lesson> {
    let trained = train_demand::learn(trace, &Gathering::hourly(), &Learning::seeded(seed), quiet)?;
    // The last series is of all VCs.
    let all = trained.series.last().context("nothing counts what is in use")?;
    Ok(Lesson {
        files: vec![(DEMAND, trained.to_bytes()?)],
        learned_from: format!(
            "{} of {}",
            format::counted(trained.series.len() as u64, "series", "series"),
            format::counted(all.series.slots.len() as u64, "hour", "hours")
        ),
        model: all.model.name().to_owned(),
        beside: format!("{} of the loss of persistence", format::percent(all.choice_loss)),
    })
}

/// Writes what telemetry knows of each job type.
fn utilisation(trace: &Trace) -> Result<Lesson> {
    let history = UsageHistory::new(trace)?;
    let (types, _) = profile::job_types(&history, TypeOfJob::Name)?;
    Ok(Lesson {
        files: vec![(UTILISATION, profile::csv(&types)?.into_bytes())],
        learned_from: format!("{} with telemetry", format::counted(history.jobs.len() as u64, "job", "jobs")),
        model: format::counted(types.len() as u64, "profile", "profiles"),
        beside: "`model backtest utilisation` says".to_owned(),
    })
}

/// Trains the model of how much jobs slow each other that share a GPU.
fn interference(request: &TrainAll) -> Result<Lesson> {
    let pairs = request.pairs.as_deref().context("--pairs names no file")?;
    let table = read::sharing(pairs, None)?;
    let predictor = SharingPredictor::train(&table, request.seed)?.tested_elsewhere(&table);
    let trained = predictor.trained();
    let missed = trained.held_back_mae.map_or_else(
        || "one family, so nothing could be left out".to_owned(),
        |mae| format!("missed by {} of the speed alone", format::float(mae, 3)),
    );
    Ok(Lesson {
        files: vec![(INTERFERENCE, predictor.to_bytes()?)],
        learned_from: format!(
            "{} of {}",
            format::counted(trained.pairs as u64, "pair", "pairs"),
            format::counted(trained.job_types as u64, "job type", "job types")
        ),
        model: "committee".to_owned(),
        beside: missed,
    })
}

/// Trains the model of whether spot instances will be there, for one instance in each zone.
fn spot(request: &TrainAll, quiet: bool) -> Result<Lesson> {
    let zones = series((&request.spot, &request.input.reading, None), &SpotPrices { prices: None }, None, quiet)?.0;
    let clock = Clock::new(quiet, "training models of spot");
    let records: Vec<_> = zones.iter().map(|zone| zone.record(None)).collect();
    let (predictor, _) = SpotPredictor::train(records, 1, false)?;
    drop(clock);
    Ok(Lesson {
        files: vec![(SPOT, predictor.to_bytes()?)],
        learned_from: format::counted(predictor.zones().count() as u64, "zone", "zones"),
        model: predictor.trained.model.in_use().to_owned(),
        beside: "`model backtest spot` says".to_owned(),
    })
}
