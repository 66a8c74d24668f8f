//! `tracecast backtest duration`.

use anyhow::Result;
use tracecast_analytics::Trace;
use tracecast_planner::backtest::{Answer, SCHEMA};
use tracecast_planner::downstream::{self, Downstream};
use tracecast_planner::sim::input::{self, Site};
use tracecast_planner::sim::{Compat, Policy};
use tracecast_predictors::backtest::{self, Options, Tracks};
use tracecast_predictors::duration::forecast::Model;
use tracecast_predictors::timeline::Timeline;

use crate::args::BacktestDuration;
use crate::cmd::{answer, describe, train};
use crate::{output, source};

pub(crate) fn run(request: &BacktestDuration, quiet: bool) -> Result<()> {
    let site = request.cluster.as_deref().map(source::site).transpose()?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
    let timeline = Timeline::of(&trace, train::which(&request.learning))?;
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
    let downstream = site.map(|site| replay(request, &trace, &site, &timeline, &tracks, &options)).transpose()?;
    let answer = Answer {
        schema: SCHEMA.to_owned(),
        title: describe::title(&trace, &request.sources),
        notes: train::notes(&timeline),
        backtest: found,
        downstream,
    };
    request.answering.write(None, true, || answer.report(), || answer::json(&answer, "the answer"))
}

/// Replays the window under the predictions of each model, fitted each day on what had ended.
fn replay(
    request: &BacktestDuration,
    trace: &Trace,
    site: &Site,
    timeline: &Timeline,
    tracks: &Tracks,
    options: &Options,
) -> Result<Downstream> {
    let window = input::Options {
        from_ms: request.from,
        to_ms: request.to,
        longest_ms: request.max_run,
        whole_seconds: request.compat.is_some(),
        resource: Some(timeline.resource),
        ..input::Options::default()
    };
    let mut loaded = input::load(trace, Some(site), &window)?;
    let resource = loaded.resource;
    let from_ms = request.from.unwrap_or(i64::MIN / 2);
    let to_ms = request.to.unwrap_or(i64::MAX);
    let daily = Options { refit_days: 1, ..options.clone() };
    let models = options.models.iter();
    let own = models
        .map(|model| backtest::track_between(*model, &tracks.rows, from_ms, to_ms, &daily))
        .collect::<Result<Vec<_>, _>>()?;
    let compat = if request.compat.is_some() { Compat::Helios } else { Compat::None };
    Ok(downstream::run(&mut loaded, timeline, &own, &Policy { compat, ..Policy::default() }.on(resource))?)
}
