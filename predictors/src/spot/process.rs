//! Spot of a zone as a semi-Markov process: fitted on what was seen until a moment, and asked what comes after.
//!
//! The chance that a spell ends in a tick is that of its level, age and memory times a factor for each circumstance that is known:
//!
//! * the **week**: the hour of the day times the day of the week, the latter from two weeks on;
//! * the **crowd**: the share of the other zones that are without;
//! * the **price**: whether it rose, or fell, within the last three hours.
//!
//! Chances to lose enough spot and to get any have factors of their own; those out of a few instances have none. Factors are fitted one after the other, each on what those before
//! it leave to be explained.
//!
//! **What comes** is computed forward, tick by tick, without drawing. The present spell keeps its exact age: the chance that it lasts is a product over ticks. What leaves it enters
//! new spells. Their ages pass nodes, which are whole ticks up to 8 and then four to an octave; a node of w ticks is left with the chance 1/w. The week ahead is known. The crowd goes on as
//! a chain of its classes, whose mean factor counts, and the price stays as it is. So *through*, the chance of enough spot at every tick until then, never rises
//! with time, and is never above *at*, the chance of enough spot in the last tick.
//!
//! Fit: O(ticks). Forecast: O(ticks ahead × levels × memories × nodes). Worked example: one level up with a chance to end of 0.1 at any age, and one down with 0.2, no factors. Two ticks
//! after up: through is 0.9² = 0.81, and at is 0.81 + 0.1 · 0.2 = 0.83.

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::DAY_MS;

use super::factor::{HOURS, daily, each};
use super::hazard::{Hazards, MOST_CHANCE, OCTAVES, octave, pairs};
use super::record::SpotLevel;
use super::track::{CROWDS, MEMORIES, PriceStep, Standing, hour_and_day, others, remembered, short_ticks};

/// Changes of the prior of a day of the week.
const DAY_CHANGES: f64 = 40.0;
/// Changes of the prior of a class of the crowd.
const CROWD_CHANGES: f64 = 20.0;
/// Changes of the prior of a step of the price.
const STEP_CHANGES: f64 = 20.0;
/// Time for which a step of the price counts, milliseconds.
const STEP_MS: i64 = 3 * 3_600_000;
/// Days seen before days of the week are told apart.
const LEAST_DAYS: i64 = 14;
/// Least chance that is followed.
const NOTHING: f64 = 1e-12;

/// Circumstances that a process knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Circumstances {
    /// The spells before the present one.
    pub memory: bool,
    /// The hour of the day and the day of the week.
    pub week: bool,
    /// The other zones.
    pub crowd: bool,
    /// Steps of the price.
    pub price: bool,
}

impl Circumstances {
    /// No circumstance but the age of the spell.
    pub const AGE: Self = Self { memory: false, week: false, crowd: false, price: false };
}

/// Factors of a kind of change: hours of the day, days of the week, classes of the crowd, and a price that rose, fell or did neither.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Factors {
    pub(super) hours: [f64; HOURS],
    pub(super) days: [f64; 7],
    pub(super) crowd: [f64; CROWDS],
    pub(super) price: [f64; 3],
}

impl Default for Factors {
    fn default() -> Self {
        Self { hours: [1.0; HOURS], days: [1.0; 7], crowd: [1.0; CROWDS], price: [1.0; 3] }
    }
}

impl Factors {
    fn all(&self) -> impl Iterator<Item = f64> + '_ {
        self.hours.iter().chain(&self.days).chain(&self.crowd).chain(&self.price).copied()
    }

    fn week(&self, time_ms: i64) -> f64 {
        let (hour, day) = hour_and_day(time_ms);
        self.hours[hour] * self.days[day]
    }
}

/// Spot of a zone, fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpotProcess {
    tick_ms: i64,
    hazards: Hazards,
    /// Factors of changes out of nothing, and out of enough.
    pub(super) factors: [Factors; 2],
    /// Chances a tick from one class of the crowd to another, if the other zones count.
    crowd_moves: Option<[[f64; CROWDS]; CROWDS]>,
}

/// Forecast of a moment ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Outlook {
    /// Chance of enough spot at the moment.
    pub at: f64,
    /// Chance of enough spot at every tick until then, this one included. It is 0 where there is not enough now.
    pub through: f64,
}

/// Index of the factors of a change out of a level; None where it has none.
fn kind(level: SpotLevel) -> Option<usize> {
    match level {
        SpotLevel::Nothing => Some(0),
        SpotLevel::Few => None,
        SpotLevel::Enough => Some(1),
    }
}

/// The class of a step of the price: none that counts, a rise, a fall.
fn class(step: Option<PriceStep>, ahead: usize, tick_ms: i64) -> usize {
    match step {
        Some(step) if (step.ticks.saturating_add(ahead) as i64).saturating_mul(tick_ms) < STEP_MS => {
            1 + usize::from(!step.rose)
        }
        _ => 0,
    }
}

/// First ages of the bins of age, from 1 on, until more than `ticks` are held.
fn nodes(ticks: usize) -> Vec<usize> {
    let mut result: Vec<usize> = (1..=8).collect();
    let mut age = 8;
    while age <= ticks {
        age += age.next_power_of_two().max(8) / if age.is_power_of_two() { 4 } else { 8 };
        result.push(age);
    }
    result
}

impl SpotProcess {
    /// Fitted on where a zone stood until a moment. `few` tells whether there are levels between nothing and enough.
    pub fn fit(track: &[Option<Standing>], tick_ms: i64, few: bool, knows: Circumstances) -> Self {
        let hazards = Hazards::fit(track, tick_ms, short_ticks(tick_ms), few, knows.memory);
        let mut process =
            Self { tick_ms, hazards, factors: [Factors::default(), Factors::default()], crowd_moves: None };
        if knows.week {
            let hours = process.changes::<HOURS>(track, |_, is| Some(hour_and_day(is.time_ms).0));
            for (factors, [seen, expected]) in process.factors.iter_mut().zip(hours) {
                factors.hours = daily(&seen, &expected);
            }
            let mut times = track.iter().flatten().map(|at| at.time_ms);
            let span_ms = times.next().zip(times.next_back()).map_or(0, |(first, last)| last - first);
            if span_ms >= LEAST_DAYS * DAY_MS {
                let days = process.changes::<7>(track, |_, is| Some(hour_and_day(is.time_ms).1));
                for (factors, [seen, expected]) in process.factors.iter_mut().zip(days) {
                    factors.days = each(&seen, &expected, DAY_CHANGES);
                }
            }
        }
        if knows.crowd {
            let crowd = process.changes::<CROWDS>(track, |was, _| was.crowd);
            for (factors, [seen, expected]) in process.factors.iter_mut().zip(crowd) {
                factors.crowd = each(&seen, &expected, CROWD_CHANGES);
            }
            let mut moves = [[0.0; CROWDS]; CROWDS];
            for (was, is) in pairs(track) {
                if let Some((from, to)) = was.crowd.zip(is.crowd) {
                    moves[from][to] += 1.0;
                }
            }
            for (from, row) in moves.iter_mut().enumerate() {
                row[from] += 1.0;
                let all: f64 = row.iter().sum();
                row.iter_mut().for_each(|count| *count /= all);
            }
            process.crowd_moves = Some(moves);
        }
        if knows.price {
            let price = process.changes::<3>(track, |was, _| Some(class(was.step, 0, tick_ms)));
            for (factors, [seen, expected]) in process.factors.iter_mut().zip(price) {
                factors.price = each(&seen, &expected, STEP_CHANGES);
            }
        }
        process
    }

    /// Changes of each kind seen and expected, by class.
    fn changes<const CLASSES: usize>(
        &self,
        track: &[Option<Standing>],
        of: impl Fn(&Standing, &Standing) -> Option<usize>,
    ) -> [[[f64; CLASSES]; 2]; 2] {
        let mut result = [[[0.0; CLASSES]; 2]; 2];
        for (was, is) in pairs(track) {
            let (Some(kind), Some(class)) = (kind(was.level), of(was, is)) else { continue };
            result[kind][0][class] += f64::from(u8::from(was.level != is.level));
            result[kind][1][class] += self.ends(was, is.time_ms);
        }
        result
    }

    /// The chance that the spell of a tick ends before the next, which begins at `next_ms`.
    fn ends(&self, at: &Standing, next_ms: i64) -> f64 {
        let chance = self.hazards.ends(at.level, at.memory, octave(at.age));
        let Some(kind) = kind(at.level) else { return chance };
        let factors = &self.factors[kind];
        let crowd = at.crowd.and_then(|class| factors.crowd.get(class)).copied().unwrap_or(1.0);
        let price = factors.price[class(at.step, 0, self.tick_ms)];
        (chance * factors.week(next_ms) * crowd * price).min(MOST_CHANCE)
    }

    /// This process without the hours of the week, for moments of which they are not known.
    #[must_use]
    pub fn without_week(&self) -> Self {
        let factors = self.factors.clone().map(|of| Factors { crowd: of.crowd, price: of.price, ..Factors::default() });
        Self { factors, ..self.clone() }
    }

    /// Forecasts each number of ticks `ahead` of a tick; `ahead` rises.
    pub fn forecast(&self, now: &Standing, ahead: &[usize]) -> Vec<Outlook> {
        let last = ahead.last().copied().unwrap_or(0);
        let ages = nodes(last);
        let short = short_ticks(self.tick_ms);
        let size = ages.len();
        let stays: Vec<f64> = ages.windows(2).map(|pair| 1.0 / (pair[1] - pair[0]) as f64).chain([0.0]).collect();
        let octaves: Vec<usize> = ages.iter().map(|age| octave(*age)).collect();
        let octaved = octaves.last().map_or(0, |last| last + 1);
        let mut chances = [0.0; OCTAVES];
        let mut mass = vec![0.0; 3 * MEMORIES * size];
        let mut next = mass.clone();
        let mut active = [false; 3 * MEMORIES];
        // The present spell, of exact age.
        let mut alive = 1.0;
        let mut crowd = now.crowd.zip(self.crowd_moves).map(|(class, moves)| {
            (std::array::from_fn::<f64, CROWDS, _>(|at| f64::from(u8::from(at == class))), moves)
        });
        let mut result = Vec::with_capacity(ahead.len());
        let mut request = ahead.iter().peekable();
        for tick in 0..=last {
            while request.next_if(|at| **at == tick).is_some() {
                let enough = &mass[SpotLevel::Enough as usize * MEMORIES * size..];
                let through = if now.level == SpotLevel::Enough { alive } else { 0.0 };
                // What is lost to rounding is at most that.
                result.push(Outlook { at: (through + enough.iter().sum::<f64>()).min(1.0), through });
            }
            let time_ms = now.time_ms.saturating_add((tick as i64 + 1).saturating_mul(self.tick_ms));
            let times = self.times(time_ms, crowd.as_ref().map(|(shares, _)| shares), now.step, tick);
            let mut entering = [0.0; 3 * MEMORIES];
            let mut leave = |level: SpotLevel, memory: usize, short: bool, gone: f64| {
                let higher = self.hazards.higher(level, memory, short);
                for (to, share) in others(level).into_iter().zip([1.0 - higher, higher]) {
                    entering[to as usize * MEMORIES + remembered(level, memory, short, to)] += gone * share;
                }
            };
            let factor = |level: SpotLevel| kind(level).map_or(1.0, |kind| times[kind]);
            let age = now.age.saturating_add(tick);
            let ends = self.hazards.ends(now.level, now.memory, octave(age)) * factor(now.level);
            let gone = alive * ends.min(MOST_CHANCE);
            alive -= gone;
            leave(now.level, now.memory, age <= short, gone);
            for level in SpotLevel::ALL {
                let factor = factor(level);
                for memory in 0..MEMORIES {
                    let spell = level as usize * MEMORIES + memory;
                    if !active[spell] {
                        continue;
                    }
                    for (octave, chance) in chances.iter_mut().enumerate().take(octaved) {
                        *chance = (self.hazards.ends(level, memory, octave) * factor).min(MOST_CHANCE);
                    }
                    let cells = &mass[spell * size..(spell + 1) * size];
                    let onward = &mut next[spell * size..(spell + 1) * size];
                    let (mut gone, mut aged) = ([0.0; 2], 0.0);
                    for (node, cell) in cells.iter().enumerate() {
                        let ends = cell * chances[octaves[node]];
                        gone[usize::from(ages[node] <= short)] += ends;
                        let left = cell - ends;
                        let moves = left * stays[node];
                        onward[node] = left - moves + aged;
                        aged = moves;
                    }
                    leave(level, memory, false, gone[0]);
                    leave(level, memory, true, gone[1]);
                }
            }
            for (spell, entering) in entering.into_iter().enumerate() {
                if entering > NOTHING || active[spell] {
                    active[spell] = true;
                    next[spell * size] += entering;
                }
            }
            std::mem::swap(&mut mass, &mut next);
            crowd = crowd.map(|(before, moves)| {
                (std::array::from_fn(|to| before.iter().zip(&moves).map(|(share, row)| share * row[to]).sum()), moves)
            });
        }
        result
    }

    /// Factor by which the circumstances multiply the chances of a tick ahead.
    fn times(&self, time_ms: i64, crowd: Option<&[f64; CROWDS]>, step: Option<PriceStep>, ahead: usize) -> [f64; 2] {
        std::array::from_fn(|kind| {
            let factors = &self.factors[kind];
            let crowd =
                crowd.map_or(1.0, |shares| shares.iter().zip(&factors.crowd).map(|(share, of)| share * of).sum());
            factors.week(time_ms) * crowd * factors.price[class(step, ahead, self.tick_ms)]
        })
    }

    /// Whether all its numbers are such as a fit gives.
    pub(super) fn is_sound(&self) -> bool {
        let factor = |factor: f64| factor.is_finite() && factor > 0.0;
        self.tick_ms > 0
            && self.hazards.is_sound()
            && self.factors.iter().all(|factors| factors.all().all(factor))
            && self.crowd_moves.iter().flatten().flatten().all(|chance| (0.0..=1.0).contains(chance))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::record::tests::record;
    use super::super::track::track;
    use super::*;

    const HOUR: i64 = 3_600_000;
    const ALL: Circumstances = Circumstances { memory: true, week: true, crowd: true, price: true };
    const NONE: Circumstances = Circumstances::AGE;

    #[test]
    fn ages_lie_four_to_an_octave() {
        assert_eq!(nodes(40), [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48]);
    }

    /// Goes down with the chance 0.1 a tick and comes up with 0.2.
    fn memoryless(ticks: usize) -> Vec<u32> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut up = true;
        (0..ticks)
            .map(|_| {
                let leaves = rng.random_range(0.0..1.0) < if up { 0.1 } else { 0.2 };
                up ^= leaves;
                u32::from(up)
            })
            .collect()
    }

    /// The worked example, and the chain of two states: at = 2/3 + 1/3 · 0.7^h from up.
    #[test]
    fn constant_chances_give_the_memoryless_answer() {
        for knows in [NONE, ALL] {
            let seen = track(&[record(&memoryless(60_000), 60_000)], 0, 1, false);
            let process = SpotProcess::fit(&seen, 60_000, false, knows);
            // What is said of a moment hangs on its hour and its memory; over many it is that of the chain.
            let of = |level: SpotLevel, ahead: usize| -> Outlook {
                let all: Vec<Outlook> = seen
                    .iter()
                    .flatten()
                    .filter(|at| at.level == level && at.age == 2)
                    .take(300)
                    .map(|at| process.forecast(at, &[ahead])[0])
                    .collect();
                let mean = |of: fn(&Outlook) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
                Outlook { at: mean(|of| of.at), through: mean(|of| of.through) }
            };
            for ticks in [0, 1, 2, 5, 20] {
                let (up, down) = (of(SpotLevel::Enough, ticks), of(SpotLevel::Nothing, ticks));
                let left = 0.7f64.powi(ticks as i32) / 3.0;
                assert!((up.at - (2.0 / 3.0 + left)).abs() < 0.02, "{knows:?}, {ticks}: {}", up.at);
                assert!((up.through - 0.9f64.powi(ticks as i32)).abs() < 0.02, "{knows:?}, {ticks}: {}", up.through);
                assert!(
                    (down.at - (2.0 / 3.0 - 2.0 * left)).abs() < 0.02 && down.through == 0.0,
                    "{ticks}: {}",
                    down.at
                );
            }
        }
    }

    /// Mass is kept: with all levels counted the chances add up to one. Here by an odd need, for which every level has enough at once or not at all.
    #[test]
    fn what_leaves_a_level_enters_another() {
        let counts: Vec<u32> = (0..5000).map(|tick| [4, 4, 2, 0, 3, 4, 4, 4, 1, 4, 0, 0][tick * 7 % 12]).collect();
        let seen = track(&[record(&counts, 600_000)], 0, 4, false);
        let process = SpotProcess::fit(&seen, 600_000, true, ALL);
        for now in seen.iter().flatten().take(40) {
            let result = process.forecast(now, &[0, 1, 6, 18, 144]);
            assert!((result[0].at - f64::from(u8::from(now.level == SpotLevel::Enough))).abs() < 1e-12);
            for pair in result.windows(2) {
                assert!(pair[1].through <= pair[0].through);
            }
            for outlook in &result {
                assert!((0.0..=1.0).contains(&outlook.at) && outlook.through <= outlook.at + 1e-12);
            }
            // In the long run it is as often enough as it was: 6 of 12 ticks.
            assert!((result[4].at - 0.5).abs() < 0.05, "{}", result[4].at);
        }
    }

    /// Runs that have lasted go on; those just begun end soon. So a run of age 1 is lost sooner than one of age 64.
    #[test]
    fn the_age_of_a_run_matters() {
        let mut counts = Vec::new();
        for run in 0..400 {
            counts.extend(std::iter::repeat_n(1, if run % 2 == 0 { 1 } else { 100 }));
            counts.extend([0, 0]);
        }
        let seen = track(&[record(&counts, HOUR)], 0, 1, false);
        let process = SpotProcess::fit(&seen, HOUR, false, NONE);
        let of = |age: usize| {
            let now = seen.iter().flatten().find(|at| at.level == SpotLevel::Enough && at.age == age).unwrap();
            process.forecast(now, &[6])[0].through
        };
        assert!(of(1) < 0.7 && of(33) > 0.9, "{} {}", of(1), of(33));
    }

    /// Lost every day at the same hour: before that hour it is likelier lost within an hour than after it.
    #[test]
    fn the_hour_of_the_day_matters() {
        let counts: Vec<u32> = (0..60 * 24).map(|tick| u32::from(!matches!(tick % 24, 6 | 7))).collect();
        let seen = track(&[record(&counts, HOUR)], 0, 1, false);
        let week = SpotProcess::fit(&seen, HOUR, false, Circumstances { week: true, ..NONE });
        let plain = SpotProcess::fit(&seen, HOUR, false, NONE);
        let of = |process: &SpotProcess, tick: usize| process.forecast(&seen[tick].unwrap(), &[1])[0].at;
        assert!(of(&week, 24 * 40 + 5) < of(&plain, 24 * 40 + 5) && of(&week, 24 * 40 + 18) > of(&plain, 24 * 40 + 18));
    }

    /// Zones that go down one after the other: where the other is without, this one is lost sooner.
    #[test]
    fn the_other_zones_matter() {
        let other: Vec<u32> = memoryless(20_000);
        let counts: Vec<u32> = (0..20_000).map(|tick| if tick == 0 { 1 } else { other[tick - 1] }).collect();
        let zones = [record(&counts, HOUR), record(&other, HOUR)];
        let seen = track(&zones, 0, 1, true);
        let process = SpotProcess::fit(&seen, HOUR, false, Circumstances { crowd: true, ..NONE });
        let of = |crowd: usize| {
            let now = seen.iter().flatten().find(|at| at.level == SpotLevel::Enough && at.crowd == Some(crowd));
            process.forecast(now.unwrap(), &[1])[0].at
        };
        assert!(of(3) < 0.75 && of(0) > 0.9, "{} {}", of(3), of(0));
    }

    /// Forecasts at a moment do not depend on what comes after it.
    #[test]
    fn what_comes_later_changes_no_forecast() {
        let counts = memoryless(2000);
        let other: Vec<u32> = counts.iter().rev().copied().collect();
        for cut in [50, 500, 1500] {
            let told = |flip: bool| {
                let later = |counts: &[u32]| -> Vec<u32> {
                    counts.iter().enumerate().map(|(at, up)| if flip && at >= cut { 1 - up } else { *up }).collect()
                };
                let mut one = record(&later(&counts), HOUR);
                one.prices = later(&other).iter().map(|price| Some(f64::from(*price))).collect();
                let seen = track(&[one, record(&later(&other), HOUR)], 0, 1, true);
                let process = SpotProcess::fit(&seen[..cut], HOUR, false, ALL);
                process.forecast(&seen[cut - 1].unwrap(), &[1, 6, 24])
            };
            assert_eq!(told(false), told(true));
        }
    }
}
