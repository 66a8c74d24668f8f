//! Back-test of the most that is needed within the next slots, which is what nodes are powered for.
//!
//! Of the slots from t on, H of them, p(t, H) is the largest peak. For each chance θ of [`CHANCES`]
//! that a fan can tell, a model says c(t, H, θ), which p exceeds with the chance θ, and is scored by
//! the pinball loss at the level 1 − θ:
//!
//! | model | c(t, H, θ) |
//! |---|---|
//! | `recent_rises` | in use before t, and the quantile of the rises above it, of the same H, in the last 14 days |
//! | `reach` | the highest level that [boosted trees](super::reach) say is reached with more than θ |
//! | a forecast by slot | the largest of its calibrated quantiles at 1 − θ of the H slots |
//!
//! All are fitted again as the forecasts are, on what had ended. The last is no quantile of the
//! largest, which exceeds it more often than θ where slots differ from each other: that is what a plan
//! would have of a forecast by slot.
//!
//! O(fits × trees + slots × horizons). Worked example: 10 are in use, and in the last 14 days the next
//! three slots had at most 0, 1, 1 or 4 more, each as often: `recent_rises` says 11 at the chance 0.3.

use std::ops::Range;

use serde::Serialize;
use tracecast_analytics::facts::demand::Series;
use tracecast_analytics::stats::rank;
use tracecast_analytics::stats::sum::mean;
use tracecast_analytics::time::DAY_MS;

use super::fan::{Fan, LEVELS};
use super::reach::{CHANCES, Reach, horizons, most_asked};
use crate::error::Result;
use crate::holdout::{Parts, by_slot};
use crate::score::pinball;

/// Days of rises that the simplest rule looks at.
const RECENT_DAYS: i64 = 14;

/// Losses of a model at one horizon.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PeakAtHorizon {
    /// Slots ahead.
    pub slots: usize,
    /// Length of these slots, seconds.
    pub ahead_s: f64,
    /// Moments that are scored.
    pub moments: usize,
    /// Mean pinball loss over moments and chances, nodes or GPUs.
    pub pinball_mean: f64,
}

/// Score of a model of peaks.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PeakModelScore {
    /// Name.
    pub name: String,
    /// Mean over horizons of the loss divided by that of `recent_rises`; below 1 is better.
    pub of_recent_rises: f64,
    /// Mean over horizons of the loss divided by that of `recent_rises`, on the slots that the model is chosen on.
    pub choice_loss: f64,
    /// Losses on the slots reported.
    pub by_horizon: Vec<PeakAtHorizon>,
}

/// Back-test of peaks of a series.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PeakBacktest {
    /// Chances whose levels are scored.
    pub chances: Vec<f32>,
    /// Models; `recent_rises` first.
    pub models: Vec<PeakModelScore>,
    /// Model of the least loss on the slots to choose on.
    pub chosen: String,
}

/// Levels at the scored chances, slot by slot from the first to choose on, of one horizon.
type LevelsAhead = Vec<Vec<f64>>;

/// Chances that a fan tells: its levels end at 0.99.
fn scored() -> impl Iterator<Item = (usize, f64)> {
    let most = LEVELS.last().copied().unwrap_or(1.0);
    let chances = CHANCES.iter().enumerate().map(|(at, chance)| (at, 1.0 - f64::from(*chance)));
    chances.filter(move |(_, level)| *level <= most)
}

/// What `recent_rises` says from the slots before each of `serves`.
fn recent_rises(series: &Series, serves: &[Range<usize>], ahead: usize) -> LevelsAhead {
    let window = usize::try_from(RECENT_DAYS * DAY_MS / series.slot_ms.max(1)).unwrap_or(usize::MAX);
    let before = |at: usize| at.checked_sub(1).and_then(|last| series.slots.get(last)).map_or(0.0, |slot| slot.last);
    let mut levels = Vec::new();
    for served in serves {
        let known = 0..served.start;
        let rise = |at: usize| Some(most_asked(series, &known, at, ahead)? - before(at));
        let mut rises: Vec<f64> = (served.start.saturating_sub(window).max(1)..served.start).filter_map(rise).collect();
        rises.sort_unstable_by(f64::total_cmp);
        let quantiles: Vec<f64> = scored().map(|(_, level)| rank::upper_sorted(&rises, level).unwrap_or(0.0)).collect();
        levels.extend(served.clone().map(|at| quantiles.iter().map(|rise| before(at) + rise.max(0.0)).collect()));
    }
    levels
}

/// Forecasts by slot that peaks are compared with: name, and the fan made before each slot from the first
/// forecast on.
pub(super) type NamedFans<'a> = (&'a str, &'a [Fan]);

/// Back-tests the peaks of a series. `parts` are those of the forecasts, which reach `horizon` slots ahead
/// and are fitted again every `step` slots.
///
/// # Errors
/// If trees cannot be grown.
pub(super) fn backtest(
    series: &Series,
    parts: Parts,
    (step, horizon): (usize, usize),
    forecasts: &[NamedFans<'_>],
) -> Result<PeakBacktest> {
    let Parts { first, choose, report, end } = parts;
    let serves = by_slot(Parts { first: choose, ..parts }, step);
    let all: Vec<usize> = horizons(series.slot_ms, 0).into_iter().filter(|ahead| *ahead <= horizon).collect();
    let mut models: Vec<(String, Vec<LevelsAhead>)> = Vec::new();
    let rises = all.iter().map(|ahead| recent_rises(series, &serves, *ahead)).collect();
    models.push(("recent_rises".to_owned(), rises));
    let mut reached: Vec<LevelsAhead> = vec![Vec::new(); all.len()];
    for served in &serves {
        let readings = Reach::fit(series, 0..served.start, &all)?.read(series, served.clone())?;
        for (reached, (_, levels)) in reached.iter_mut().zip(readings.reached) {
            let level =
                |levels: &[u32]| scored().filter_map(|(at, _)| levels.get(at).map(|of| f64::from(*of))).collect();
            reached.extend(levels.iter().map(|levels| level(levels)));
        }
    }
    models.push(("reach".to_owned(), reached));
    for (name, fans) in forecasts {
        let largest = |at: usize, ahead: usize| -> Vec<f64> {
            let fan = fans.get(at - first);
            let quantile = |level: f64| (1..=ahead).filter_map(|h| fan?.quantile(h, level)).fold(0.0, f64::max);
            scored().map(|(_, level)| quantile(level)).collect()
        };
        let levels = all.iter().map(|ahead| (choose..end).map(|at| largest(at, *ahead)).collect()).collect();
        models.push(((*name).to_owned(), levels));
    }
    let chances: Vec<f64> = scored().map(|(_, level)| level).collect();
    let losses = |levels: &LevelsAhead, ahead: usize, moments: &Range<usize>| -> Vec<f64> {
        let loss = |at: usize| {
            let (truth, levels) = most_asked(series, moments, at, ahead).zip(levels.get(at - choose))?;
            mean(levels.iter().zip(&chances).map(|(value, level)| pinball(truth, *value, *level)))
        };
        moments.clone().filter_map(loss).collect()
    };
    let by_horizon = |levels: &[LevelsAhead], moments: &Range<usize>| -> Vec<Vec<f64>> {
        all.iter().zip(levels).map(|(ahead, levels)| losses(levels, *ahead, moments)).collect()
    };
    let parts = [choose..report, report..end];
    let naive = models.first().map(|(_, levels)| parts.each_ref().map(|moments| by_horizon(levels, moments)));
    let naive = naive.unwrap_or_default();
    let score = |(name, levels): &(String, Vec<LevelsAhead>)| {
        let model = parts.each_ref().map(|moments| by_horizon(levels, moments));
        let ratio = |(model, naive): (&Vec<f64>, &Vec<f64>)| {
            mean(model).zip(mean(naive)).filter(|(_, naive)| *naive > 0.0).map(|(model, naive)| model / naive)
        };
        let over =
            |model: &[Vec<f64>], naive: &[Vec<f64>]| mean(model.iter().zip(naive).filter_map(ratio)).unwrap_or(1.0);
        let at_horizon = |(ahead, losses): (&usize, &Vec<f64>)| PeakAtHorizon {
            slots: *ahead,
            ahead_s: *ahead as f64 * series.slot_ms as f64 / 1e3,
            moments: losses.len(),
            pinball_mean: mean(losses).unwrap_or(0.0),
        };
        PeakModelScore {
            name: name.clone(),
            choice_loss: over(&model[0], &naive[0]),
            of_recent_rises: over(&model[1], &naive[1]),
            by_horizon: all.iter().zip(&model[1]).map(at_horizon).collect(),
        }
    };
    let models: Vec<PeakModelScore> = models.iter().map(score).collect();
    let chosen = models.iter().min_by(|a, b| a.choice_loss.total_cmp(&b.choice_loss));
    Ok(PeakBacktest {
        chances: scored().filter_map(|(at, _)| CHANCES.get(at).copied()).collect(),
        chosen: chosen.map_or_else(String::new, |model| model.name.clone()),
        models,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::demand::reach::tests::series;

    /// Of hours 1 to 4 each rises by 0, 1, 1 or 4 above what was in use; of the fifth nothing is known.
    #[test]
    fn the_worked_example() {
        let mut hours = series([10.0, 10.0, 11.0, 12.0, 16.0, 90.0].map(|peak| (peak, 100.0)));
        hours.slots[4].last = 10.0;
        let serves: [Range<usize>; 2] = [5..6, 6..6];
        let levels = recent_rises(&hours, &serves, 1);
        let at = |chance: f32| scored().position(|(at, _)| CHANCES[at] == chance).unwrap();
        assert_eq!((levels[0][at(0.5)], levels[0][at(0.3)], levels[0][at(0.1)]), (11.0, 11.0, 14.0));
    }

    /// Hours of 12 nodes that rise and fall, and forecasts that know what comes, or say nothing.
    fn tested(change: &dyn Fn(usize, f64) -> f64) -> PeakBacktest {
        let peak = |at: usize| change(at, f64::from((at * 7 % 11) as u32 % 8));
        let hours = series((0..200).map(|at| (peak(at), 12.0)));
        let fan = |value: &dyn Fn(usize) -> f64| -> Vec<Fan> {
            (100..200).map(|at| Fan::of_points((0..4).map(|ahead| value(at + ahead)).collect())).collect()
        };
        let (known, nothing) = (fan(&|at| if at < 200 { peak(at) } else { 0.0 }), fan(&|_| 0.0));
        let parts = Parts { first: 100, choose: 120, report: 160, end: 200 };
        backtest(&hours, parts, (24, 4), &[("nothing", &nothing), ("known", &known)]).unwrap()
    }

    /// Who knows what comes loses nothing at any horizon, and is chosen; what comes later changes no choice.
    #[test]
    fn a_perfect_forecast_is_chosen_by_earlier_slots_alone() {
        let result = tested(&|_, peak| peak);
        let model = |name: &str| result.models.iter().find(|model| model.name == name).unwrap();
        assert_eq!(
            (result.chosen.as_str(), model("known").of_recent_rises, model("known").choice_loss),
            ("known", 0.0, 0.0)
        );
        assert!(model("nothing").of_recent_rises > 1.0 && model("reach").choice_loss > 0.0);
        // Horizons of half an hour to four: at hourly slots 1, 2 and 4.
        let horizons: Vec<(usize, usize)> = model("known").by_horizon.iter().map(|at| (at.slots, at.moments)).collect();
        assert_eq!(horizons, [(1, 40), (2, 39), (4, 37)]);
        let later = tested(&|at, peak| if at >= 160 { 11.0 - peak } else { peak });
        let choices = |of: &PeakBacktest| of.models.iter().map(|model| model.choice_loss).collect::<Vec<f64>>();
        assert_eq!((choices(&result), &result.chosen), (choices(&later), &later.chosen));
    }
}
