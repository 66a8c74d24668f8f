//! Back-test of spot chances: models fitted again and again on what was known are compared with
//! what came, beside baselines.
//!
//! The first `LEARNED` of each record only teaches. From there on, at every hour, each model says for each horizon how likely there is enough spot **at** that moment, and, where there is enough
//! now, **through** all ticks until then. A model is fitted again every few days, on all ticks before. The model or simple rule that is **chosen** has the least log loss, averaged over
//! targets and horizons, on what was said and known before `CHOSEN` of the record; of equals the simpler. Scored is what was said after that, and nothing is chosen on it.
//!
//! The **skill** is 1 less the Brier score over that of a baseline. Its 95 % interval draws days anew, with all zones and horizons of a day together.
//!
//! O(zones × hours × a forecast of each model). Worked example: a Brier score of 0.09 beside 0.10 of the shares is a skill of 10 %.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::sum::mean;
use tracecast_analytics::stats::{interval, resample};
use tracecast_analytics::time::DAY_MS;
use tracecast_analytics::watch::Watch;

use super::baseline::Baselines;
pub use super::model::SpotModel;
use super::phases::{Belief, MOST, Phases};
use super::process::{Outlook, SpotProcess};
use super::record::{SpotLevel, SpotRecord};
use super::score::{Case, ChanceScore, ReliabilityTenth, reliability, surprise};
use super::track::track;
use crate::error::{Error, Result};
use crate::holdout::{Parts, by_slot, position};

/// Share of each record that only teaches.
const LEARNED: f64 = 0.4;
/// Share of each record after which forecasts are reported.
const CHOSEN: f64 = 0.6;
/// Time between two forecasts, milliseconds.
const EVERY_MS: i64 = 3_600_000;
/// Time between two forecasts where only a model is chosen, milliseconds.
const CHOOSE_EVERY_MS: i64 = 4 * EVERY_MS;
/// Resamples of days.
const RESAMPLES: u64 = 1000;

/// Event forecast between now and a horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpotTarget {
    /// Enough spot at its end.
    At,
    /// Enough spot at every tick of it; asked where there is enough now.
    Through,
}

impl SpotTarget {
    /// Both targets.
    pub const ALL: [Self; 2] = [Self::At, Self::Through];

    fn of(self, outlook: &Outlook) -> f64 {
        match self {
            Self::At => outlook.at,
            Self::Through => outlook.through,
        }
    }
}

/// Options of a back-test of spot.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotTestOptions {
    /// Instances needed at once.
    pub need: u32,
    /// Whether all records begin at the same moment, as zones of one time.
    pub together: bool,
    /// Horizons, hours, in order.
    pub hours: Vec<f64>,
    /// Days between two fits.
    pub refit_days: i64,
    /// Seed of the resamples.
    pub seed: u64,
}

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpotSkill {
    /// 1 less the Brier score over that of the baseline.
    pub skill: f64,
    /// Lower end of its 95 % interval: days drawn anew.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A model at a horizon.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HorizonScore {
    /// Event that was forecast.
    pub target: SpotTarget,
    /// Hours ahead.
    pub hours: f64,
    /// Score of the chances.
    pub score: ChanceScore,
    /// Over persistence that says 0 or 1; none where what is asked always came, or never.
    pub over_persistence: Option<SpotSkill>,
    /// Over persistence with the shares of the past, likewise.
    pub over_shares: Option<SpotSkill>,
}

/// A model over all zones.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotModelScore {
    /// Which.
    pub model: SpotModel,
    /// Mean log loss on the earlier forecasts, which the choice rests on; none of persistence, or where no forecast came true early enough.
    pub earlier_log_loss: Option<f64>,
    /// Target by target, horizon by horizon, on the later forecasts.
    pub horizons: Vec<HorizonScore>,
}

/// A zone of a back-test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestedZone {
    /// Name of the zone.
    pub zone: String,
    /// Length of a tick, seconds.
    pub tick_s: f64,
    /// Ticks, unread ones included.
    pub ticks: usize,
    /// Share of the ticks read that have enough.
    pub up_share: f64,
    /// Fits of each model.
    pub fits: usize,
    /// First forecast reported, seconds after the first tick.
    pub reported_from_s: f64,
    /// Mean Brier score of the chosen model over targets and horizons.
    pub brier: f64,
    /// Brier score of persistence with the shares of the past.
    pub brier_of_shares: f64,
    /// Mean log loss of the chosen model.
    pub log_loss: f64,
    /// Log loss of persistence with the shares of the past.
    pub log_loss_of_shares: f64,
}

/// The reliability of the chosen model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetReliability {
    /// Event that was forecast.
    pub target: SpotTarget,
    /// Tenth by tenth, all horizons together.
    pub tenths: Vec<ReliabilityTenth>,
}

/// Results of a back-test of spot.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotBacktest {
    /// Zones.
    pub zones: Vec<TestedZone>,
    /// The model or simple rule with the least log loss on earlier forecasts.
    pub chosen: SpotModel,
    /// Baselines, then models.
    pub models: Vec<SpotModelScore>,
    /// Reliability of the chosen model.
    pub reliability: Vec<TargetReliability>,
    /// Days drawn from.
    pub days: usize,
}

/// Chances stated at a moment for a horizon, and what came.
struct Said {
    zone: usize,
    day: i64,
    horizon: usize,
    /// Whether what came was known before anything is reported.
    earlier: bool,
    /// Whether it is reported.
    reported: bool,
    outlooks: Vec<Outlook>,
    /// Observed outcome: at the end; and through, where that was forecast.
    came: [Option<bool>; 2],
}

impl Said {
    fn case(&self, target: SpotTarget, model: usize) -> Option<Case> {
        Some((target.of(self.outlooks.get(model)?), self.came[target as usize]?))
    }
}

/// Whether there was enough through the ticks after `tick` until `ticks` later; None where a tick
/// was not read.
fn through(seen: &[Option<bool>], tick: usize, ticks: usize) -> Option<bool> {
    for up in seen.get(tick + 1..=tick + ticks)? {
        if !(*up)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Everything that is said of a zone, and the number of fits.
fn zone(
    records: &[SpotRecord],
    at: usize,
    models: &[SpotModel],
    options: &SpotTestOptions,
    every_ms: i64,
) -> Result<(Vec<Said>, usize)> {
    let Some(record) = records.get(at) else { return Ok((Vec::new(), 0)) };
    let ticks = record.counts.len();
    let track = track(records, at, options.need, options.together);
    let seen: Vec<Option<bool>> = track.iter().map(|now| now.map(|now| now.level == SpotLevel::Enough)).collect();
    let ahead: Vec<usize> = options.hours.iter().map(|hours| record.ticks_of((hours * 3.6e6) as i64)).collect();
    let parts = Parts { first: position(LEARNED, ticks), choose: 0, report: position(CHOSEN, ticks), end: ticks };
    if parts.report + ahead.last().copied().unwrap_or(0) >= ticks || parts.first < 2 {
        let hours = |ticks: usize| ticks as f64 * record.tick_ms as f64 / 3.6e6;
        return Err(Error::TooFew(format!(
            "{}: the record is {:.1} h long, of which {:.0} % only teach or choose, and the longest horizon is {:.1} h; ask for shorter horizons (--hours), or name a longer \
             record",
            record.name,
            hours(ticks),
            CHOSEN * 100.0,
            options.hours.last().copied().unwrap_or(0.0)
        )));
    }
    let every = record.ticks_of(every_ms);
    let refits = by_slot(parts, record.ticks_of(options.refit_days.max(1) * DAY_MS));
    let few = options.need > 1;
    let mut said = Vec::new();
    let mut chain: Option<(Phases, Belief)> = None;
    for serves in &refits {
        let past = track.get(..serves.start).unwrap_or_default();
        let seen_past = seen.get(..serves.start).unwrap_or_default();
        let baselines = Baselines::fit(seen_past, &ahead);
        let mut believed = serves.start;
        let processes: Vec<Option<SpotProcess>> = models
            .iter()
            .map(|model| Some(SpotProcess::fit(past, record.tick_ms, few, model.circumstances()?)))
            .collect();
        if models.contains(&SpotModel::Phases) {
            let fitted = chain.map_or_else(
                || Phases::fit(seen_past, MOST, record.tick_ms),
                |(before, _): (Phases, Belief)| before.again(seen_past),
            );
            let fitted = fitted.with_hours(seen_past);
            let belief = fitted.after(seen_past);
            chain = Some((fitted, belief));
        }
        for tick in serves.clone().filter(|tick| (tick - parts.first).is_multiple_of(every)) {
            if let Some((phases, belief)) = &mut chain {
                let since = seen.get(believed..=tick).unwrap_or_default();
                since.iter().for_each(|sighting| phases.see(belief, *sighting));
                believed = tick + 1;
            }
            let Some(Some(now)) = track.get(tick) else { continue };
            let at_ms = tick as i64 * record.tick_ms;
            let of = |(model, process): (&SpotModel, &Option<SpotProcess>)| match (process, &chain) {
                (Some(process), _) => process.forecast(now, &ahead),
                (None, Some((phases, belief))) if *model == SpotModel::Phases => phases.forecast(belief, at_ms, &ahead),
                (None, _) => baselines.forecast(*model, now.level == SpotLevel::Enough),
            };
            let by_model: Vec<Vec<Outlook>> = models.iter().zip(&processes).map(of).collect();
            for (horizon, ticks) in ahead.iter().enumerate() {
                let lasted = if now.level == SpotLevel::Enough { through(&seen, tick, *ticks) } else { None };
                said.push(Said {
                    zone: at,
                    day: now.time_ms.div_euclid(DAY_MS),
                    horizon,
                    earlier: tick + ticks < parts.report,
                    reported: tick >= parts.report,
                    outlooks: by_model.iter().filter_map(|of| of.get(horizon).copied()).collect(),
                    came: [seen.get(tick + ticks).copied().flatten(), lasted],
                });
            }
        }
    }
    Ok((said, refits.len()))
}

/// Sums of squared errors of two models on a day.
type DaySums = Vec<(f64, f64)>;

/// The skill of a model beside another, and its interval; nothing where the other is never wrong.
fn skill(days: &DaySums, seed: u64) -> Option<SpotSkill> {
    let of = |sums: (f64, f64)| (sums.1 > 0.0).then(|| 1.0 - sums.0 / sums.1);
    let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let all = of(days.iter().copied().fold((0.0, 0.0), add))?;
    let mut drawn: Vec<f64> = (0..RESAMPLES)
        .filter_map(|number| {
            let drawn = resample::whole(days.len(), seed, number).filter_map(|day| days.get(day).copied());
            of(drawn.fold((0.0, 0.0), add))
        })
        .collect();
    let (low, high) = interval::percentile(&mut drawn)?;
    Some(SpotSkill { skill: all, low, high })
}

/// Models that can be chosen for these records.
fn choices(records: &[SpotRecord], options: &SpotTestOptions) -> Vec<SpotModel> {
    let priced = records.iter().any(|record| !record.prices.is_empty());
    SpotModel::choices(options.together && records.len() > 1, priced)
}

/// Targets and horizons.
fn cells(horizons: usize) -> impl Iterator<Item = (SpotTarget, usize)> {
    SpotTarget::ALL.into_iter().flat_map(move |target| (0..horizons).map(move |horizon| (target, horizon)))
}

/// The cases of a model, of those that are asked for.
fn cases(
    said: &[&Said],
    model: usize,
    (target, horizon): (SpotTarget, usize),
    of: &dyn Fn(&Said) -> bool,
) -> Vec<Case> {
    let request = said.iter().filter(|said| said.horizon == horizon && of(said));
    request.filter_map(|said| said.case(target, model)).collect()
}

/// The mean over targets and horizons of the mean loss of a model in the cases that are asked for.
fn mean_loss(
    said: &[&Said],
    model: usize,
    horizons: usize,
    of: &dyn Fn(&Said) -> bool,
    loss: &dyn Fn(Case) -> f64,
) -> Option<f64> {
    mean(cells(horizons).filter_map(|cell| mean(cases(said, model, cell, of).into_iter().map(loss))))
}

/// The model or simple rule with the least log loss on all that is said after the first `LEARNED` of the records, for use from their end on.
///
/// # Errors
/// If there are no horizons, or a record is too short for them.
pub fn choose(records: &[SpotRecord], options: &SpotTestOptions) -> Result<SpotModel> {
    check_hours(&options.hours)?;
    let models = choices(records, options);
    let zones = (0..records.len())
        .into_par_iter()
        .map(|at| zone(records, at, &models, options, CHOOSE_EVERY_MS))
        .collect::<Result<Vec<_>>>()?;
    let said: Vec<&Said> = zones.iter().flat_map(|(said, _)| said).collect();
    let loss = |model: usize| mean_loss(&said, model, options.hours.len(), &|_| true, &surprise);
    let judged = models.iter().enumerate().filter_map(|(at, model)| Some((*model, loss(at)?)));
    let best = judged.min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(best.map_or(SpotModel::Age, |(model, _)| model))
}

/// Tests every model on every record. `watch` is told after each record.
///
/// # Errors
/// If there are no horizons, or a record is too short for them.
pub fn backtest(records: &[SpotRecord], options: &SpotTestOptions, watch: &dyn Watch) -> Result<SpotBacktest> {
    check_hours(&options.hours)?;
    let chosen_from = choices(records, options);
    let models: Vec<SpotModel> =
        [SpotModel::Persistence].into_iter().chain(chosen_from).chain([SpotModel::Phases]).collect();
    let zones = (0..records.len())
        .into_par_iter()
        .map(|at| {
            let result = zone(records, at, &models, options, EVERY_MS);
            watch.made();
            result
        })
        .collect::<Result<Vec<_>>>()?;
    let said: Vec<&Said> = zones.iter().flat_map(|(said, _)| said).collect();
    let loss = |model: usize, of: &dyn Fn(&Said) -> bool, loss: &dyn Fn(Case) -> f64| {
        mean_loss(&said, model, options.hours.len(), of, loss)
    };
    let squared = |(chance, came): Case| (chance - f64::from(u8::from(came))).powi(2);
    let earlier: Vec<Option<f64>> = (0..models.len())
        .map(|model| loss(model, &|said| said.earlier, &surprise).filter(|_| models[model] != SpotModel::Persistence))
        .collect();
    let could_be = |model: &usize| !models[*model].is_only_compared();
    let best = (0..models.len()).filter(could_be).min_by(|a, b| {
        let of = |model: usize| earlier[model].unwrap_or(f64::INFINITY);
        of(*a).total_cmp(&of(*b))
    });
    let chosen = best.ok_or_else(|| Error::Defect("there is no model of spot to choose".to_owned()))?;
    let place = |model: SpotModel| models.iter().position(|of| *of == model).unwrap_or(0);
    let (persistence, shares) = (place(SpotModel::Persistence), place(SpotModel::Shares));
    let mut days: Vec<i64> = said.iter().filter(|said| said.reported).map(|said| said.day).collect();
    days.sort_unstable();
    days.dedup();
    let skill_over = |model: usize, base: usize, target: SpotTarget, horizon: usize| {
        let mut sums: DaySums = vec![(0.0, 0.0); days.len()];
        for said in said.iter().filter(|said| said.reported && said.horizon == horizon) {
            let (Some(one), Some(other)) = (said.case(target, model), said.case(target, base)) else { continue };
            if let Ok(day) = days.binary_search(&said.day) {
                sums[day].0 += squared(one);
                sums[day].1 += squared(other);
            }
        }
        skill(&sums, options.seed)
    };
    let scores: Vec<SpotModelScore> = (0..models.len())
        .into_par_iter()
        .map(|model| SpotModelScore {
            model: models[model],
            earlier_log_loss: earlier[model],
            horizons: cells(options.hours.len())
                .filter_map(|(target, horizon)| {
                    let reported = cases(&said, model, (target, horizon), &|said| said.reported);
                    let score = ChanceScore::new(&reported)?;
                    let over = |base: usize| {
                        // Of what always comes, or never, a baseline may know all but nothing, and a share of that says nothing.
                        let tells = score.happened > 0.0 && score.happened < 1.0;
                        if tells { skill_over(model, base, target, horizon) } else { None }
                    };
                    Some(HorizonScore {
                        target,
                        hours: options.hours[horizon],
                        over_persistence: over(persistence),
                        over_shares: over(shares),
                        score,
                    })
                })
                .collect(),
        })
        .collect();
    let tested = records.iter().zip(&zones).enumerate().map(|(at, (record, (_, fits)))| {
        let of = |model: usize, by: &dyn Fn(Case) -> f64| {
            loss(model, &|said| said.reported && said.zone == at, by).unwrap_or(f64::NAN)
        };
        let tick_s = record.tick_ms as f64 / 1000.0;
        TestedZone {
            zone: record.name.clone(),
            tick_s,
            ticks: record.counts.len(),
            up_share: record.up_share(options.need),
            fits: *fits,
            reported_from_s: position(CHOSEN, record.counts.len()) as f64 * tick_s,
            brier: of(chosen, &squared),
            brier_of_shares: of(shares, &squared),
            log_loss: of(chosen, &surprise),
            log_loss_of_shares: of(shares, &surprise),
        }
    });
    let reliable = SpotTarget::ALL.map(|target| {
        let reported = said.iter().filter(|said| said.reported);
        let cases: Vec<Case> = reported.filter_map(|said| said.case(target, chosen)).collect();
        TargetReliability { target, tenths: reliability(&cases) }
    });
    Ok(SpotBacktest {
        zones: tested.collect(),
        chosen: models[chosen],
        models: scores,
        reliability: reliable.into_iter().filter(|of| !of.tenths.is_empty()).collect(),
        days: days.len(),
    })
}

/// Checks that horizons are hours above 0, in order.
///
/// # Errors
/// If they are not.
pub fn check_hours(hours: &[f64]) -> Result<()> {
    let sound = hours.iter().all(|hours| hours.is_finite() && *hours > 0.0 && *hours <= 24.0 * 366.0);
    if hours.is_empty() || !sound || !hours.is_sorted_by(|a, b| a < b) {
        return Err(Error::Setting(
            "horizons are hours above 0, up to a year, each more than the one before (--hours 1,3,6)".to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn options() -> SpotTestOptions {
        SpotTestOptions { need: 1, together: true, hours: vec![1.0, 3.0, 6.0], refit_days: 1, seed: 1 }
    }

    /// Three hours up and three down: who knows the age knows all, and who does not is off.
    #[test]
    fn a_regular_zone_is_known_by_its_age() {
        let counts: Vec<u32> = (0..2 * 24 * 20).map(|tick| u32::from(tick / 6 % 2 == 0)).collect();
        let result = backtest(&[record(&counts, HOUR / 2)], &options(), &()).unwrap();
        let of = |model: SpotModel, target: SpotTarget, hours: f64| {
            let scores = &result.models.iter().find(|score| score.model == model).unwrap().horizons;
            scores.iter().find(|score| score.target == target && score.hours == hours).unwrap().clone()
        };
        // Three hours later it is the other way round: persistence is always wrong, and its shares nearly always right.
        assert!((of(SpotModel::Persistence, SpotTarget::At, 3.0).score.brier - 1.0).abs() < 1e-12);
        assert!(of(SpotModel::Shares, SpotTarget::At, 3.0).score.brier < 0.01);
        assert!((of(SpotModel::Climatology, SpotTarget::At, 1.0).score.brier - 0.25).abs() < 0.01);
        let age = of(SpotModel::Age, SpotTarget::Through, 1.0);
        assert!(age.over_shares.unwrap().skill > 0.1 && age.over_shares.unwrap().low > 0.0, "{age:?}");
        // Enough through three hours never comes, as spells of six ticks have five after the first.
        let never = of(SpotModel::Age, SpotTarget::Through, 3.0);
        assert_eq!((never.score.happened, never.over_shares), (0.0, None));
        assert_eq!(result.zones[0].up_share, 0.5);
        assert_eq!(result.reliability.len(), 2);
    }

    /// Forecasts before a moment do not depend on what comes after it.
    #[test]
    fn what_comes_later_changes_nothing_that_was_said() {
        let counts: Vec<u32> = (0..1200u32).map(|tick| u32::from(tick * tick / 97 % 5 > 1)).collect();
        let said = |flipped: bool| {
            let cut = 900;
            let later = counts.iter().enumerate().map(|(at, up)| if flipped && at >= cut { 1 - up } else { *up });
            let records = [record(&later.collect::<Vec<_>>(), HOUR / 2), record(&counts, HOUR / 2)];
            let models = [SpotModel::Shares, SpotModel::Markov, SpotModel::All];
            let (said, _) = zone(&records, 0, &models, &options(), EVERY_MS).unwrap();
            let known = said.iter().take_while(|said| said.day * 48 + 48 <= cut as i64);
            known.map(|said| said.outlooks.clone()).collect::<Vec<_>>()
        };
        assert!(said(false).len() > 500);
        assert_eq!(said(false), said(true));
    }

    /// Counts that nothing can foretell: ups and downs drawn anew each tick.
    fn drawn(ticks: usize) -> Vec<u32> {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        (0..ticks).map(|_| u32::from(draw() % 10 < 6)).collect()
    }

    /// Regression test: a model was reported to have the least loss on earlier forecasts although a
    /// simple rule had less.
    #[test]
    fn what_is_chosen_has_the_least_earlier_loss_of_all_that_have_one() {
        let regular: Vec<u32> = (0..2 * 24 * 20).map(|tick| u32::from(tick / 6 % 2 == 0)).collect();
        for (counts, simple_wins) in [(drawn(2 * 24 * 10), true), (regular, false)] {
            let records = [record(&counts, HOUR / 2)];
            let result = backtest(&records, &options(), &()).unwrap();
            let earlier = |model: SpotModel| {
                let of = result.models.iter().find(|score| score.model == model);
                of.and_then(|score| score.earlier_log_loss).unwrap_or(f64::INFINITY)
            };
            assert!(
                result.models.iter().filter(|score| !score.model.is_only_compared()).all(|score| earlier(
                    result.chosen
                ) <= earlier(
                    score.model
                )),
                "{:?}",
                result.chosen
            );
            let chosen = choose(&records, &options()).unwrap();
            let is_simple = [result.chosen, chosen].map(|model| model.circumstances().is_none());
            assert!(!simple_wins || is_simple == [true; 2], "{chosen:?}");
        }
    }

    #[test]
    fn a_record_that_is_too_short_and_hours_that_are_none_are_told() {
        let short = backtest(&[record(&[1, 0, 1, 0, 1], HOUR)], &options(), &()).unwrap_err().to_string();
        assert!(short.contains("5.0 h long") && short.contains("--hours"), "{short}");
        for hours in [vec![], vec![0.0], vec![3.0, 1.0], vec![f64::NAN]] {
            let wrong = SpotTestOptions { hours, ..options() };
            assert!(choose(&[record(&[1, 0], HOUR)], &wrong).unwrap_err().to_string().contains("--hours"));
        }
    }
}
