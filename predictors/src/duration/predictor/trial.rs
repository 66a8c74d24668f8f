//! Training plays the trace and chooses the model on its last part, before it is fitted once more on all.
//!
//! The trees predict while the trace is played. So of a long trace only the features are held that the next fits learn from: memory follows what a fit learns
//! from and not the trace. O(fits × what a fit takes). Worked example: of two million jobs, of which each fit learns from the last 300,000, some 400,000 rows of features are
//! held at a time.

use std::collections::HashMap;
use std::ops::Range;

use crate::duration::backtest::{self, BacktestOptions, Track};
use crate::duration::calibrate::Calibrator;
use crate::duration::choice::{self, Judged};
use crate::duration::forecast::{Model, Said};
use crate::duration::moments::{CALIBRATE_FROM, LEAST, moments_between};
use crate::duration::order;
use crate::duration::rows::{Play, Row, Rows, skeleton};
use crate::error::{Error, Result};
use crate::feature::Store;
use crate::holdout::Refit;
use crate::timeline::Timeline;
use tracecast_analytics::watch::Watch;

/// Rows whose features are held at a time where a long trace is trained on, and rows that fits learn from side by side: some 1.6 KB and 0.5 KB each.
const HELD_ROWS: usize = 400_000;
const LEARNED_ROWS: usize = 1_200_000;
/// Rows that a fit of the past serves at most.
const LONGEST_SERVED: usize = 100_000;

/// A trace that was played, and the model that was chosen on its last part.
pub(super) struct Trial {
    pub(super) rows: Rows,
    pub(super) store: Store,
    /// Last event.
    pub(super) to_ms: i64,
    /// Features of the jobs that never ended, by row.
    pub(super) aside: HashMap<usize, Vec<f32>>,
    pub(super) chosen: Chosen,
    /// Runs that the trees predicted, each at the submission of its job; empty unless asked for.
    pub(super) past: Vec<PastRun>,
}

/// A played trace, and what the trees said of the rows that each fit serves; an error if too few jobs
/// had ended.
struct Played {
    rows: Rows,
    store: Store,
    aside: HashMap<usize, Vec<f32>>,
    statements: Result<Vec<Option<Said>>>,
}

/// A job's run as it was predicted at its submission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastRun {
    /// Place of the job in the timeline.
    pub at: usize,
    /// Predicted run, seconds: the quantile that usually orders jobs best.
    pub predicted_s: f64,
}

/// Plays a trace and chooses the model. The trees predict while it is played, so that of a long
/// trace only the features are held that the next fits learn from. If `past`, they predict all jobs
/// from the first moment on at which enough had ended.
pub(super) fn trial(timeline: &Timeline, options: &BacktestOptions, past: bool, watch: &dyn Watch) -> Result<Trial> {
    trial_within((HELD_ROWS, LEARNED_ROWS), timeline, options, past, watch)
}

/// Trial with at most so many rows held, and so many learned from side by side.
pub(super) fn trial_within(
    held: (usize, usize),
    timeline: &Timeline,
    options: &BacktestOptions,
    past: bool,
    watch: &dyn Watch,
) -> Result<Trial> {
    let facts = Rows { rows: skeleton(timeline), ..Rows::default() };
    let end = |row: &Row| row.end_ms.into_iter().chain([row.submit_ms]).max();
    let to_ms = facts.rows.iter().filter_map(end).max().unwrap_or(0);
    let from_ms = facts.rows.get((facts.rows.len() as f64 * CALIBRATE_FROM) as usize).map_or(0, |row| row.submit_ms);
    let from = facts.rows.partition_point(|row| row.submit_ms < from_ms);
    let moments = moments_between(&facts.rows, (from_ms, i64::MAX), options);
    let first = moments.first().map_or(facts.rows.len(), |refit| refit.serves.start);
    let mut all = if past { past_moments(&facts.rows, 0..first) } else { Vec::new() };
    all.extend(moments.iter().cloned());
    let Played { rows, store, aside, statements } = played(held, (timeline, &facts), (&all, to_ms), options, watch)?;
    let past = match &statements {
        Ok(statements) if past => past_runs(statements),
        _ => Vec::new(),
    };
    let chosen = match statements {
        Ok(statements) => choose(&rows, statements, &moments, from, timeline.known.limit, options)?,
        // The trees are taken, and said to be unsure.
        Err(_) => {
            let (model, calibrator) = (Model::Boosted, Calibrator::new(options.adapt));
            Chosen { model, held: false, ranked_at: order::USUAL, beside: None, calibrator }
        }
    };
    Ok(Trial { rows, store, to_ms, aside, chosen, past })
}

/// Predicts the jobs submitted from `from_ms` on, each as it was submitted, by trees fitted whenever the
/// record had doubled; those before enough had ended are not predicted. Nothing else is trained.
///
/// # Errors
/// If too few jobs had ended, or a learner fails.
pub fn predict_past(
    timeline: &Timeline,
    from_ms: i64,
    options: &BacktestOptions,
    watch: &dyn Watch,
) -> Result<Vec<PastRun>> {
    let facts = Rows { rows: skeleton(timeline), ..Rows::default() };
    let from = facts.rows.partition_point(|row| row.submit_ms < from_ms);
    let moments = past_moments(&facts.rows, from..facts.rows.len());
    let last_ms = facts.rows.last().map_or(0, |row| row.submit_ms);
    let played = played((HELD_ROWS, LEARNED_ROWS), (timeline, &facts), (&moments, last_ms), options, watch)?;
    Ok(past_runs(&played.statements?))
}

/// Fits that predict the rows of `serves`: the first when enough jobs had ended, the next whenever
/// there are twice as many rows. So neither how many jobs come later nor when changes a fit.
fn past_moments(rows: &[Row], serves: Range<usize>) -> Vec<Refit> {
    let mut ends: Vec<i64> = rows.iter().filter_map(|row| row.end_ms.filter(|_| row.y.is_some())).collect();
    ends.sort_unstable();
    let Some(enough_ms) = ends.get(LEAST).copied() else { return Vec::new() };
    let mut first = rows.partition_point(|row| row.submit_ms <= enough_ms).max(1);
    let mut moments = Vec::new();
    while first < serves.end {
        let next = (2 * first).min(first + LONGEST_SERVED);
        let served = first.max(serves.start)..next.min(serves.end);
        if let (Some(row), false) = (rows.get(first), served.is_empty()) {
            moments.push(Refit { now_ms: row.submit_ms, serves: served });
        }
        first = next;
    }
    moments
}

/// Runs as they were predicted at submission: the level that usually orders jobs best, by the trees'
/// own quantiles, as there is nothing before the first of these jobs to calibrate on. Nothing is chosen
/// by what came later.
fn past_runs(statements: &[Option<Said>]) -> Vec<PastRun> {
    let run = |(at, statement): (usize, &Option<Said>)| {
        Some(PastRun { at, predicted_s: f64::from((*statement)?.spread.usual()).exp() })
    };
    statements.iter().enumerate().filter_map(run).collect()
}

/// Plays a trace while the trees, fitted at some moments, predict the rows that each serves; features
/// are held from the first row that a last fit at `to_ms` learns from.
fn played(
    (held_rows, learned_rows): (usize, usize),
    (timeline, facts): (&Timeline, &Rows),
    (moments, to_ms): (&[Refit], i64),
    options: &BacktestOptions,
    watch: &dyn Watch,
) -> Result<Played> {
    watch.more(moments.len());
    // The first row that each fit learns from, and how many; the last one learns from all.
    let learned = |now_ms: i64| {
        let lesson = facts.lesson(now_ms, false, options.settings.most_rows);
        (lesson.rows.first().map_or(0, |row| *row as usize), lesson.rows.len())
    };
    let (last, _) = learned(to_ms.saturating_add(1));
    let firsts: Vec<(usize, usize)> = moments.iter().map(|refit| learned(refit.now_ms)).collect();
    let mut batches: Vec<(Range<usize>, usize)> = Vec::new();
    let mut learning = 0;
    for (at, (refit, (first, many))) in moments.iter().zip(&firsts).enumerate() {
        learning += many;
        match batches.last_mut() {
            Some((fits, held)) if refit.serves.end - *held <= held_rows && learning <= learned_rows => {
                fits.end = at + 1;
            }
            _ => {
                batches.push((at..at + 1, (*first).min(last)));
                learning = *many;
            }
        }
    }
    let count = facts.rows.len();
    let ends = batches.iter().map(|(fits, held)| {
        moments.get(fits.clone()).and_then(<[Refit]>::last).map_or(0, |refit| refit.serves.end) - held
    });
    let room = ends.max().unwrap_or(0).max(count - last.min(count));
    let mut play = Play::new(timeline, batches.first().map_or(last, |(_, held)| *held), room);
    let mut statements = Ok(vec![None; count]);
    for (fits, held) in batches {
        let fits = moments.get(fits).unwrap_or_default();
        play.forget_before(held);
        play.until(fits.last().map_or(0, |refit| refit.serves.end));
        match backtest::predictions(Model::Boosted, &play.rows, fits, options, watch) {
            Ok(parts) => statements.iter_mut().for_each(|statements| backtest::put(statements, &parts)),
            // Enough to learn from, but not to learn from and calibrate on.
            Err(error @ Error::TooFew(_)) => statements = Err(error),
            Err(other) => return Err(other),
        }
        if statements.is_err() {
            break;
        }
    }
    play.forget_before(last);
    play.until(usize::MAX);
    let aside = std::mem::take(&mut play.open);
    let (rows, store) = play.finish();
    Ok(Played { rows, store, aside, statements })
}

/// Chosen model, and its calibration.
pub(super) struct Chosen {
    pub(super) model: Model,
    pub(super) held: bool,
    pub(super) ranked_at: f64,
    pub(super) beside: Option<(Model, f64)>,
    pub(super) calibrator: Calibrator,
}

/// Chooses the model on the rows from `from` on, by what each, fitted at these moments, would have said of them: of those whose intervals held and
/// that were no worse than the running mean the one of least loss; if there is none, the best simple rule, which is then said not to have held. `trees` is what the
/// trees said.
fn choose(
    rows: &Rows,
    trees: Vec<Option<Said>>,
    moments: &[Refit],
    from: usize,
    limits: bool,
    options: &BacktestOptions,
) -> Result<Chosen> {
    let first = moments.first().map_or(rows.rows.len(), |refit| refit.serves.start);
    let simple = Model::ALL.into_iter().filter(|model| model.is_simple() && (limits || !model.needs_limits()));
    let track = |model: Model| backtest::said_by(model, rows, moments, options, &());
    // One track at a time, as each is as long as the trace.
    let mut trees = Track::new(Some(Model::Boosted), trees);
    backtest::calibrate(rows, &mut trees, first, options.adapt);
    let mut candidates: Vec<Judged> = Judged::new(rows, &trees, from).into_iter().collect();
    trees.distributions.fill(None);
    for model in simple {
        let mut track = track(model)?;
        backtest::calibrate(rows, &mut track, first, options.adapt);
        candidates.extend(Judged::new(rows, &track, from));
    }
    let preferred = choice::prefer(&candidates);
    let (model, held, ranked_at, beside) = match preferred {
        Some(result) => (result.judged.model, result.held, result.judged.ranked_at, result.beside),
        None => (Model::Boosted, false, order::USUAL, None),
    };
    let mut used = if model == Model::Boosted { trees } else { track(model)? };
    let calibrator = backtest::calibrate(rows, &mut used, first, options.adapt);
    Ok(Chosen { model, held, ranked_at, beside, calibrator })
}
