//! `tracecast model backtest duration`.

use anyhow::Result;
use clap::Args;
use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_analytics::trace::Selected;
use tracecast_planner::backtest::{BacktestAnswer, SCHEMA};
use tracecast_planner::downstream::{self, Downstream};
use tracecast_planner::power::request::EVALUATED;
use tracecast_planner::replay::input::{self, Site};
use tracecast_planner::replay::nearest::{Backfill, Unnamed, todays};
use tracecast_planner::sim::{Compat, Policy, Scan};
use tracecast_predictors::duration::backtest::{self, BacktestOptions, Tracks};
use tracecast_predictors::duration::forecast::Model;
use tracecast_predictors::duration::moments;
use tracecast_predictors::timeline::Timeline;

use crate::args::{Input, TIMES, duration, listed};
use crate::cmd::answer::Answering;
use crate::cmd::site::SiteArguments;
use crate::cmd::train::{Known, Learning};
use crate::cmd::{answer, describe, train};
use crate::exit::Usage;
use crate::output;
use crate::progress::{Clock, Steps};

/// Example for the end of the help.
const EXAMPLE: &str = "\
Example, two simple models on the bundled sample:
  tracecast model backtest duration datasets/sample --methods running_mean,recent_median";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct BacktestDuration {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) known: Known,
    #[command(flatten)]
    pub(crate) learning: Learning,
    /// Models to compare, separated by commas [default: all but linear, forest and rank]
    ///
    ///   running_mean   mean run of all ended jobs of the VC and size; always included
    ///   weighted_mean  the same, with more weight on later jobs
    ///   shrunk_mean    mean by user, name, size and VC, where small groups lean on wider ones
    ///   recent_median  median of the last 30 jobs of the narrowest group
    ///   limit          time limit of the job
    ///   limit_share    time limit × the mean share of their limits that jobs used
    ///   qssf           QSSF as published: rolling mean of the user and boosted trees
    ///   linear         linear regression
    ///   forest         random forest
    ///   survival       boosted survival model, which also learns from running jobs
    ///   rank           boosted trees that learn the order of jobs
    ///   boosted        boosted trees for quantiles, with calibrated intervals
    ///
    /// The models limit and limit_share are used only where jobs have time limits.
    /// Where no simple rule is named, all are compared: the first four and limit_share.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = listed(model), help_heading = "Learning", verbatim_doc_comment)]
    pub(crate) methods: Option<Vec<Model>>,
    /// Days between two fits of a model, from 1 to 365
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=365), help_heading = "Learning")]
    pub(crate) refit_days: i64,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
    /// Test on what comes from this time on, and choose on what is before it [default: from the
    /// first job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Queue")]
    pub(crate) eval_from: Option<Written>,
    /// Replay jobs that were submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Queue")]
    pub(crate) eval_to: Option<Written>,
    /// Replay only jobs that ran at most this long, such as 90s, 10m, 2h or 7d [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Queue")]
    pub(crate) max_run: Option<i64>,
    /// What happens in the replay when a job does not fit: strict or skip, as in simulate [default: the one that repeats the recorded starts before the replay, else strict]
    ///
    /// Under strict a job that does not fit holds up all behind it. Where --eval-from is not given, the starts of the first half of the jobs count. The answer says how near the replay comes to the recorded starts.
    #[arg(long, value_name = "SCAN", value_parser = ["strict", "skip"], conflicts_with = "compat", help_heading = "Queue")]
    pub(crate) scan: Option<String>,
    /// Published simulator to imitate in the replay [default: none]
    #[arg(long, value_name = "WHOSE", value_parser = ["helios"], help_heading = "Queue")]
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
    request.known.check()?;
    let window = Window::new(EVALUATED, request.eval_from.as_ref(), request.eval_to.as_ref())?;
    let checked = request.answering.check("model-backtest-duration", &[])?;
    let input = request.site.read()?;
    input.warn_of_others(&[]);
    let site = input.site();
    let of_replay = [
        ("--eval-from", request.eval_from.is_some()),
        ("--eval-to", request.eval_to.is_some()),
        ("--max-run", request.max_run.is_some()),
        ("--scan", request.scan.is_some()),
        ("--compat", request.compat.is_some()),
    ];
    if let Some((option, _)) = of_replay.iter().find(|(_, is_typed)| *is_typed && site.is_none()) {
        return Err(Usage(format!("{option} is of the replay on the nodes of --site; name the site as well")).into());
    }
    let (trace, timeline, until_ms) =
        request.known.open(&request.input.sources, &request.input.reading, &request.learning.choosing, quiet)?;
    let mut options = train::options(&request.learning);
    options.refit_days = request.refit_days;
    // Orders are replayed by the models asked for alone.
    let mut ordering = options.models.clone();
    if let Some(models) = &request.methods {
        let with = |first: &[Model]| {
            let others = models.iter().filter(|model| !first.contains(model));
            first.iter().chain(others).copied().collect::<Vec<Model>>()
        };
        // Losses are shares of its, so it is always there; and no model stands alone without the best simple rule beside it.
        ordering = with(&[Model::RunningMean]);
        let simple: Vec<Model> = Model::ALL.into_iter().filter(|model| model.is_simple()).collect();
        let names_none = !models.iter().any(|model| model.is_simple());
        options.models = if names_none { with(&simple) } else { ordering.clone() };
    }
    output::say(
        quiet,
        &format!(
            "tracecast: {} models on {}; {} …",
            options.models.len(),
            format::counted(timeline.jobs.len() as u64, "job", "jobs"),
            moments::work(&timeline, &options, false)
        ),
    );
    let steps = Steps::watching(quiet, "fitting and predicting");
    let tracks = backtest::tracks_watched(&timeline, &options, &steps)?;
    drop(steps);
    let clock = Clock::new(quiet, "scoring");
    let result = backtest::summarise(&tracks, &options)?;
    let drawn_waits = backtest::under_drawn_waits(&timeline, &options, &result)?;
    let (eval_from_ms, eval_to_ms) = window.resolve(&Zone::named(&trace.zone)?)?;
    // Of what came later nothing is predicted.
    let window = (eval_from_ms, eval_to_ms.into_iter().chain(until_ms).min());
    let ranked_at = result.ranked_at;
    let replayed = site
        .map(|site| {
            let options = BacktestOptions { models: ordering, ..options.clone() };
            replay(request, &trace, (site, window), &timeline, &tracks, ranked_at, &options)
        })
        .transpose()?;
    drop(clock);
    let short = train::short_record(Some(result.record_days)).map(|why| {
        let mut sentence = why + ", however they came out here.";
        sentence.replace_range(..1, "I");
        sentence
    });
    let cautions: Vec<String> = short.into_iter().chain(train::left_out_time(&timeline)).collect();
    let mut notes = cautions.clone();
    notes.extend(train::notes(&timeline));
    notes.dedup();
    notes.extend(trace.selected.as_ref().map(Selected::sentence));
    notes.extend(request.known.to.as_ref().map(|to| format!("What happened after --to {to} is not looked at.")));
    notes.extend(trace.warnings());
    let downstream = replayed.map(|(downstream, assumed)| {
        notes.extend(assumed);
        downstream
    });
    let answer = BacktestAnswer {
        schema: SCHEMA.to_owned(),
        title: describe::title(&trace, &request.input.sources),
        cautions,
        notes,
        zone: trace.zone.clone(),
        backtest: result,
        drawn_waits,
        downstream,
    };
    checked.write(true, || answer.report(), || answer::json(&answer, "the answer"))
}

/// Replays the window under the predictions of each model, fitted each day on what had ended; and what is assumed of the nodes. Where as long a time lies before the window, what
/// is to be chosen is chosen there.
fn replay(
    request: &BacktestDuration,
    trace: &Trace,
    (site, (from_ms, to_ms)): (&Site, (Option<i64>, Option<i64>)),
    timeline: &Timeline,
    tracks: &Tracks,
    ranked_at: f64,
    options: &BacktestOptions,
) -> Result<(Downstream, Vec<String>)> {
    let daily = BacktestOptions { refit_days: 1, ..options.clone() };
    let compat = if request.compat.is_some() { Compat::Helios } else { Compat::None };
    let opened = |from_ms: Option<i64>, to_ms: Option<i64>| {
        let window = input::Options {
            from_ms,
            to_ms,
            longest_ms: request.max_run,
            whole_seconds: request.compat.is_some(),
            resource: Some(timeline.resource),
            ..input::Options::default()
        };
        input::load(trace, Some(site), &window)
    };
    // Backfill goes by lengths, which orders by a score have none of that could be known.
    let (scan, told) = match (request.scan.as_deref().and_then(Scan::called), compat) {
        (Some(named), _) => (named, None),
        (None, Compat::Helios) => (Scan::Strict, None),
        (None, Compat::None) => {
            let before = match from_ms.map(|from_ms| opened(None, Some(from_ms))) {
                Some(Err(tracecast_planner::replay::Error::NoJobs(_))) | None => None,
                Some(before) => Some(before?),
            };
            // Where nothing lies before, the first half of what is replayed.
            let (judged, until_ms, among) = match before {
                Some(before) => (before, from_ms, ""),
                None => (opened(from_ms, to_ms)?, None, " These jobs are among those that are replayed."),
            };
            let policy = Policy::default().on(judged.resource);
            let today = todays(&judged, policy, until_ms, Backfill::Never, Unnamed::Scan)?;
            let told = today.told.unwrap_or_else(|| {
                "Scan: strict, as no --scan is named, and neither strict nor skip comes near the recorded starts."
                    .to_owned()
            });
            (today.policy.scan, Some(told + among))
        }
    };
    let longest_s = request.max_run.map(|longest| longest as f64 / 1e3);
    // `known_ms` cuts the record off where a choice is made.
    let within =
        |from_ms: Option<i64>, to_ms: Option<i64>, known_ms: Option<i64>| -> Result<(Downstream, Vec<String>)> {
            let mut loaded = opened(from_ms, to_ms)?;
            if let Some(known_ms) = known_ms {
                let now = known_ms - loaded.workload.origin_ms;
                loaded = loaded.as_known_at(now);
            }
            let resource = loaded.resource;
            let (from_ms, to_ms) = (from_ms.unwrap_or(i64::MIN / 2), to_ms.unwrap_or(i64::MAX));
            // As in the back-test.
            let models = options.models.iter().filter(|model| timeline.known.limit || !model.needs_limits());
            let daily_tracks = models
                .map(|model| backtest::track_between(*model, &tracks.rows, from_ms, to_ms, &daily))
                .collect::<Result<Vec<_>, _>>()?;
            let assumed = loaded.notes.clone();
            let policy = Policy { compat, scan, ..Policy::default() }.on(resource);
            // What is chosen on is reported by waits alone.
            let met = known_ms.is_none().then(|| downstream::fidelity(&loaded, &policy)).transpose()?;
            let (fidelity, fifo_on_record_s) = met.unzip();
            let result = downstream::run(&mut loaded, timeline, &daily_tracks, ranked_at, &policy, longest_s)?;
            Ok((Downstream { fidelity, fifo_on_record_s: fifo_on_record_s.flatten(), ..result }, assumed))
        };
    let (result, mut assumed) = within(from_ms, to_ms, None)?;
    assumed.extend(told);
    let Some(from_ms) = from_ms else {
        assumed.push(
            "No order that ages is chosen beforehand: with --eval-from it is chosen on as long a time before."
                .to_owned(),
        );
        return Ok((result, assumed));
    };
    // The last submission is within.
    let end_ms = timeline.jobs.last().map_or(from_ms, |job| job.submission.submit_ms + 1);
    let to_ms = to_ms.unwrap_or(end_ms).max(from_ms);
    let begin_ms = from_ms - (to_ms - from_ms);
    let why = if timeline.jobs.first().is_none_or(|job| job.submission.submit_ms > begin_ms) {
        "the record begins later".to_owned()
    } else {
        match within(Some(begin_ms), Some(from_ms), Some(from_ms)) {
            Ok((earlier, _)) => {
                let zone = Zone::named(&trace.zone)?;
                let first_ms = timeline.jobs.first().map_or(begin_ms, |job| job.submission.submit_ms);
                let day = |ms: i64| trace.moment(&zone, ms, first_ms);
                assumed.push(format!(
                    "Replayed are the jobs submitted from {} to {}; the order that ages is chosen on those from {} on, up to then. The scores of the models are of their own split, which --eval-from does not move.",
                    day(from_ms),
                    day(to_ms),
                    day(begin_ms)
                ));
                return Ok((result.with_choice_from(&earlier), assumed));
            }
            Err(why) => format!("{why:#}"),
        }
    };
    assumed.push(format!("No order that ages is chosen on as long a time before the replay: {why}."));
    Ok((result, assumed))
}
