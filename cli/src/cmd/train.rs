//! `tracecast model train duration`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_analytics::time::Zone;
use tracecast_predictors::duration::backtest::{BacktestOptions, ENOUGH_DAYS};
use tracecast_predictors::duration::forecast::OUTPUT_NAMES;
use tracecast_predictors::duration::moments;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::timeline::{self, Timeline};

use crate::args::{Between, Input, Reading, TIMES, choices, resource, up_to, window};
use crate::early::Replacing;
use crate::progress::Steps;
use crate::{output, source};

/// Example for the end of the help.
const EXAMPLE: &str = "\
Example, a small model from the bundled sample, which takes a few seconds:
  tracecast model train duration datasets/sample --trees 20 --out sample.model";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct TrainDuration {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) learning: Learning,
    #[command(flatten)]
    pub(crate) known: Known,
    /// Model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
    /// Also write the boosted trees into this folder, in the JSON form of XGBoost
    #[arg(long, value_name = "FOLDER")]
    pub(crate) xgboost: Option<PathBuf>,
}

/// The part of the record that is looked at.
#[derive(Debug, Args)]
pub(crate) struct Known {
    /// Look only at jobs that were submitted at this time or later [default: from the first job]
    ///
    /// For a trace in which old jobs are unlike those of today.
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Written>,
    /// Look only at what happened before this time, where a date includes that day [default: to the end]
    ///
    /// How long a job ran that had not ended by then is not known.
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
}

impl Known {
    /// The window, checked as far as that can be before anything is read.
    pub(crate) fn check(&self) -> Result<()> {
        window(&self.from, &self.to).map(|_| ())
    }

    /// The trace, the jobs as they were known, and until when.
    pub(crate) fn open(
        &self,
        sources: &[PathBuf],
        reading: &Reading,
        choosing: &Choosing,
        quiet: bool,
    ) -> Result<(Trace, Timeline, Option<i64>)> {
        // The end is cut below: of a job that still ran then, the end is not known.
        let since = Between { from: self.from.clone(), to: None };
        let trace = source::open_between(sources, reading, &since, None, quiet)?;
        let timeline = Timeline::new(&trace, which(choosing))?;
        let Some(to) = &self.to else { return Ok((trace, timeline, None)) };
        let until_ms = to.end_ms(&Zone::named(&trace.zone)?)?;
        Ok((trace, timeline.until(until_ms)?, Some(until_ms)))
    }
}

/// Data to learn from, and options of learning.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Learning {
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    /// Number of boosted trees in each model [default: 80]
    #[arg(long, value_name = "N", value_parser = up_to::<10_000>)]
    pub(crate) trees: Option<NonZeroUsize>,
    /// Seed of the random choices in training: the same seed gives the same model
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Jobs to learn from, and which of their facts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Choosing {
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    ///
    /// The value cpus means processors, for a log without GPUs. A message says what was chosen if it is not gpus.
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Use only jobs whose VC is known: short for --where "vc is not null"
    #[arg(long)]
    pub(crate) known_vc_only: bool,
    /// Columns that the model must not use, separated by commas
    ///
    /// Name a column here if it was filled in after the job had been submitted. A model that used it would look better than it is.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = choices::<Ignored>())]
    pub(crate) ignore: Vec<Ignored>,
}

/// Fact of a job that is not to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ignored {
    /// VC, queue or partition of the job
    Vc,
    /// Name of the job
    Name,
    /// User of the job
    User,
}

/// Features named when a training is done.
const NAMED: usize = 8;

pub(crate) fn run(request: &TrainDuration, quiet: bool) -> Result<()> {
    request.replacing.file(&request.out)?;
    request.replacing.folders([&request.xgboost])?;
    request.known.check()?;
    let (_, timeline, _) =
        request.known.open(&request.input.sources, &request.input.reading, &request.learning.choosing, quiet)?;
    for note in notes(&timeline) {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    let learning = options(&request.learning);
    output::say(quiet, &format!("tracecast: {} …", moments::work(&timeline, &learning, true)));
    let steps = Steps::watching(quiet, "training");
    let predictor = Predictor::train_watched(&timeline, &learning, &steps)?;
    drop(steps);
    output::write(&request.out, &predictor.to_bytes()?)?;
    if let Some(folder) = &request.xgboost {
        for which in OUTPUT_NAMES {
            let (model, features) = predictor.xgboost_json(which)?;
            output::write(&folder.join(format!("{which}.json")), &model)?;
            let mut names = features.join("\n");
            names.push('\n');
            output::write(&folder.join(format!("{which}.features.txt")), names.as_bytes())?;
        }
    }
    let trained = predictor.trained();
    let beside = match trained.beside {
        Some((simple, loss)) if simple != trained.model => {
            format!(", with {} of the loss of {}, the best simple rule there", format::percent(loss), simple.name())
        }
        Some(_) => ", the best simple rule there".to_owned(),
        None => String::new(),
    };
    let sure = if trained.held {
        "and its intervals held there".to_owned()
    } else {
        let why = short_record(trained.record_days)
            .unwrap_or_else(|| "its intervals could not be shown to hold there".to_owned());
        format!("but {why}, so every prediction is marked `unsure`")
    };
    output::say(
        quiet,
        &format!(
            "tracecast: the model {} is used on the evidence of the last jobs{beside}, {sure}; jobs are ordered by its {} quantile",
            trained.model.name(),
            format::percent(trained.ranked_at)
        ),
    );
    let importance = predictor.importance();
    let told: Vec<String> =
        importance.iter().take(NAMED).map(|(name, gain)| format!("{name} {}", format::percent(*gain))).collect();
    output::say(
        quiet,
        &format!(
            "tracecast: learned from {} ended jobs, while {} had not ended; most important features: {}; model written to {}",
            format::count(predictor.trained().jobs as u64),
            format::count(predictor.open() as u64),
            told.join(", "),
            request.out.display()
        ),
    );
    Ok(())
}

/// Share of the GPU time that the jobs looked at hold, as a sentence, where some are left out for
/// want of a VC.
pub(crate) fn left_out_time(timeline: &Timeline) -> Option<String> {
    let share = timeline.gpu_time_share?;
    Some(format!(
        "The jobs looked at hold {} of the GPU time: the others have no VC, and how long they run is not tested here. Without --known-vc-only all jobs are looked at; add --ignore vc if the VC was filled in after the fact.",
        format::percent(share)
    ))
}

/// Clause that a record is too short to trust intervals; None where it is long enough.
pub(crate) fn short_record(days: Option<f64>) -> Option<String> {
    let days = days.filter(|days| *days < ENOUGH_DAYS)?;
    Some(format!("intervals cannot be trusted, as the record has jobs of {} days alone", format::float(days, 1)))
}

/// Options of the jobs to learn from, and of their facts.
pub(crate) fn which(choosing: &Choosing) -> timeline::TimelineOptions {
    let ignored = |what: Ignored| choosing.ignore.contains(&what);
    timeline::TimelineOptions {
        known_vc_only: choosing.known_vc_only,
        ignore_vc: ignored(Ignored::Vc),
        ignore_name: ignored(Ignored::Name),
        ignore_user: ignored(Ignored::User),
        resource: choosing.resource,
    }
}

/// Options of a back-test or a training.
pub(crate) fn options(learning: &Learning) -> BacktestOptions {
    let mut options = BacktestOptions::default();
    if let Some(trees) = learning.trees {
        options.settings.trees.trees = trees.get();
    }
    options.settings.trees.seed = learning.seed;
    options
}

/// Notes on what was left out or assumed, for people.
pub(crate) fn notes(timeline: &Timeline) -> Vec<String> {
    let mut notes: Vec<String> = timeline
        .left_out
        .iter()
        .map(|(why, count)| format!("{} left out: {why}.", format::counted(*count as u64, "job is", "jobs are")))
        .collect();
    notes.splice(0..0, left_out_time(timeline));
    if timeline.resource != Resource::Gpus {
        notes.push(format!("Jobs compete for {} here; --resource says otherwise.", timeline.resource.many()));
    }
    if timeline.assumed_starts > 0 {
        let jobs = format::counted(timeline.assumed_starts as u64, "job has", "jobs have");
        notes.push(format!(
            "{jobs} no recorded start, of {}, and are taken to have started when they were submitted. So the models learn from these runs too early, by as long as the jobs waited, which flatters every model.",
            format::count(timeline.jobs.len() as u64)
        ));
    }
    if timeline.limit_is_run {
        notes.push(
            "The time limits of this trace are the runs themselves, written down afterwards; they are not used."
                .to_owned(),
        );
    }
    notes
}
