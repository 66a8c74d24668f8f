//! `tracecast train duration`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_analytics::time::Zone;
use tracecast_predictors::duration::backtest::Options;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::timeline::{self, Timeline};

use crate::args::{Reading, TIMES, resource};
use crate::{early, output, source};

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct TrainDuration {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Learn only what happened before this time, to predict the rest; a bare date is in to its end
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
    /// The model file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Write the trees in XGBoost's JSON into this folder, too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) xgboost: Option<PathBuf>,
}

/// What is learned from, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Learning {
    #[command(flatten)]
    pub(crate) choosing: Choosing,
    /// Trees a model [default: 120]
    #[arg(long, value_name = "N")]
    pub(crate) trees: Option<NonZeroUsize>,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Which jobs, and what of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct Choosing {
    /// What jobs compete for: gpus, cpus (the processors of a log without GPUs) or nodes [default: as the trace has them]
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Only jobs whose VC is known
    #[arg(long)]
    pub(crate) known_vc_only: bool,
    /// Do not use these, as where they were filled in afterwards
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) ignore: Vec<Ignored>,
}

/// What of a job is not to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ignored {
    /// Its VC, queue or partition
    Vc,
    /// Its name
    Name,
    /// Its user
    User,
}

/// Features named when a training is done.
const NAMED: usize = 8;

pub(crate) fn run(request: &TrainDuration, quiet: bool) -> Result<()> {
    early::file(&request.out)?;
    early::folders([&request.xgboost])?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let timeline = Timeline::of(&trace, which(&request.learning.choosing))?;
    let timeline = match &request.to {
        Some(to) => timeline.until(to.end_ms(&Zone::named(&trace.zone)?)?)?,
        None => timeline,
    };
    for note in notes(&timeline) {
        output::say(quiet, &format!("tracecast: {note}"));
    }
    let predictor = Predictor::train(&timeline, &options(&request.learning))?;
    output::write(&request.out, &predictor.to_bytes()?)?;
    if let Some(folder) = &request.xgboost {
        for which in ["mean", "p10", "p50", "p90"] {
            let (model, features) = predictor.xgboost_json(which)?;
            output::write(&folder.join(format!("{which}.json")), &model)?;
            let mut names = features.join("\n");
            names.push('\n');
            output::write(&folder.join(format!("{which}.features.txt")), names.as_bytes())?;
        }
    }
    let trained = predictor.trained();
    if trained.held {
        output::say(
            quiet,
            &format!(
                "tracecast: {} is used: on the last jobs its intervals held, and it was no worse than the running mean; jobs are ordered by its {} quantile",
                trained.model.name(),
                format::percent(trained.ranked_at)
            ),
        );
    } else {
        output::say(
            quiet,
            "tracecast: no model's intervals could be shown to hold on the last jobs; all that is predicted is marked `unsure`",
        );
    }
    let importance = predictor.importance();
    let told: Vec<String> =
        importance.iter().take(NAMED).map(|(name, gain)| format!("{name} {}", format::percent(*gain))).collect();
    output::say(
        quiet,
        &format!(
            "tracecast: learned from {} ended jobs, {} are open; what tells most: {}. Model in {}",
            format::count(predictor.trained().jobs as u64),
            format::count(predictor.open() as u64),
            told.join(", "),
            request.out.display()
        ),
    );
    Ok(())
}

/// Which jobs, and what of them.
pub(crate) fn which(choosing: &Choosing) -> timeline::Options {
    let ignored = |what: Ignored| choosing.ignore.contains(&what);
    timeline::Options {
        known_vc_only: choosing.known_vc_only,
        ignore_vc: ignored(Ignored::Vc),
        ignore_name: ignored(Ignored::Name),
        ignore_user: ignored(Ignored::User),
        resource: choosing.resource,
    }
}

/// How to learn.
pub(crate) fn options(learning: &Learning) -> Options {
    let mut options = Options::default();
    if let Some(trees) = learning.trees {
        options.settings.trees.trees = trees.get();
    }
    options.settings.trees.seed = learning.seed;
    options
}

/// What was left out or assumed, for people.
pub(crate) fn notes(timeline: &Timeline) -> Vec<String> {
    let mut notes: Vec<String> = timeline
        .left_out
        .iter()
        .map(|(why, count)| format!("{} left out: {why}.", format::counted(*count as u64, "job is", "jobs are")))
        .collect();
    if timeline.resource != Resource::Gpus {
        notes.push(format!("Jobs compete for {} here; --resource says otherwise.", timeline.resource.many()));
    }
    if timeline.assumed_starts > 0 {
        let jobs = format::counted(timeline.assumed_starts as u64, "job has", "jobs have");
        notes.push(format!(
            "{jobs} no recorded start, of {}, and are taken to have started when they were submitted; their ends teach too early by their waits, which flatters every model.",
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
