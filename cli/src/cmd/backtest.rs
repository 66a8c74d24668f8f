//! `tracecast backtest duration`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::time::Written;
use tracecast_analytics::time::Zone;
use tracecast_planner::backtest::{Answer, SCHEMA};
use tracecast_planner::downstream::{self, Downstream};
use tracecast_planner::replay::input::{self, Site};
use tracecast_planner::sim::{Compat, Policy};
use tracecast_predictors::duration::backtest::{self, Options, Tracks};
use tracecast_predictors::duration::forecast::Model;
use tracecast_predictors::timeline::Timeline;

use crate::args::{Reading, TIMES, duration, window};
use crate::cmd::answer::Answering;
use crate::cmd::train::Learning;
use crate::cmd::{answer, describe, train};
use crate::{early, output, source};

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct BacktestDuration {
    /// Files, folders or patterns; or one trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Models: running_mean, weighted_mean, shrunk_mean, recent_median, limit, limit_share, qssf, linear, forest, survival, rank, boosted [default: all but linear, forest, rank]; limit and limit_share where jobs have time limits
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = model, help_heading = "Learning")]
    pub(crate) models: Option<Vec<Model>>,
    /// Days between fits
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=365), help_heading = "Learning")]
    pub(crate) refit_days: i64,
    /// Nodes of each VC: replays the queue under the predictions, too
    #[arg(long, value_name = "TOML", help_heading = "Queue")]
    pub(crate) cluster: Option<PathBuf>,
    /// Replay jobs submitted from this time on [default: from the first]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, requires = "cluster", help_heading = "Queue")]
    pub(crate) from: Option<Written>,
    /// Replay jobs submitted before this time; a bare date is in to its end [default: to the last]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, requires = "cluster", help_heading = "Queue")]
    pub(crate) to: Option<Written>,
    /// Replay only jobs that ran at most so long (such as 7d)
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "cluster", help_heading = "Queue")]
    pub(crate) max_run: Option<i64>,
    /// Imitate a published simulator: helios
    #[arg(long, value_name = "WHOSE", value_parser = ["helios"], requires = "cluster", help_heading = "Queue")]
    pub(crate) compat: Option<String>,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn model(name: &str) -> Result<Model, String> {
    let known = || Model::ALL.map(Model::name).join(", ");
    Model::ALL
        .into_iter()
        .find(|model| model.name() == name)
        .ok_or_else(|| format!("no such model; there are {}", known()))
}

pub(crate) fn run(request: &BacktestDuration, quiet: bool) -> Result<()> {
    let window = window(&request.from, &request.to)?;
    early::files([&request.answering.out])?;
    let site = request.cluster.as_deref().map(source::site).transpose()?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let timeline = Timeline::of(&trace, train::which(&request.learning.choosing))?;
    let mut options = train::options(&request.learning);
    options.refit_days = request.refit_days;
    if let Some(models) = &request.models {
        // All losses are shares of its, so it is always there.
        options.models = vec![Model::RunningMean];
        options.models.extend(models.iter().copied().filter(|model| *model != Model::RunningMean));
    }
    output::say(quiet, &format!("tracecast: {} models on {} jobs …", options.models.len(), timeline.jobs.len()));
    let tracks = backtest::tracks(&timeline, &options)?;
    let found = backtest::summarise(&tracks, &options)?;
    let drawn_waits = backtest::under_drawn_waits(&timeline, &options, &found)?;
    let window = window.resolve(&Zone::named(&trace.zone)?)?;
    let ranked_at = found.ranked_at;
    let replayed = site
        .map(|site| replay(request, &trace, (&site, window), &timeline, &tracks, ranked_at, &options))
        .transpose()?;
    let mut notes = train::notes(&timeline);
    notes.extend(trace.warnings());
    let downstream = replayed.map(|(downstream, assumed)| {
        notes.extend(assumed);
        downstream
    });
    let answer = Answer {
        schema: SCHEMA.to_owned(),
        title: describe::title(&trace, &request.sources),
        notes,
        zone: trace.zone.clone(),
        backtest: found,
        drawn_waits,
        downstream,
    };
    request.answering.write(None, true, || answer.report(), || answer::json(&answer, "the answer"))
}

/// Replays the window under the predictions of each model, fitted each day on what had ended; and what is assumed of the nodes.
fn replay(
    request: &BacktestDuration,
    trace: &Trace,
    (site, (from_ms, to_ms)): (&Site, (Option<i64>, Option<i64>)),
    timeline: &Timeline,
    tracks: &Tracks,
    ranked_at: f64,
    options: &Options,
) -> Result<(Downstream, Vec<String>)> {
    let window = input::Options {
        from_ms,
        to_ms,
        longest_ms: request.max_run,
        whole_seconds: request.compat.is_some(),
        resource: Some(timeline.resource),
        ..input::Options::default()
    };
    let mut loaded = input::load(trace, Some(site), &window)?;
    let resource = loaded.resource;
    let from_ms = from_ms.unwrap_or(i64::MIN / 2);
    let to_ms = to_ms.unwrap_or(i64::MAX);
    let daily = Options { refit_days: 1, ..options.clone() };
    // As in the back-test.
    let models = options.models.iter().filter(|model| timeline.known.limit || !model.needs_limits());
    let own = models
        .map(|model| backtest::track_between(*model, &tracks.rows, from_ms, to_ms, &daily))
        .collect::<Result<Vec<_>, _>>()?;
    let compat = if request.compat.is_some() { Compat::Helios } else { Compat::None };
    let assumed = loaded.notes.clone();
    let policy = Policy { compat, ..Policy::default() }.on(resource);
    Ok((downstream::run(&mut loaded, timeline, &own, ranked_at, &policy)?, assumed))
}
