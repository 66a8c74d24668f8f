//! Chances that levels are reached: the rule *reach* keeps nodes for as long as their return is likely, and wakes them when they are likely to be needed at once.
//!
//! For every [level](super::level) k that is not in use, boosted trees tell the chance that demand
//! reaches it within the next H slots, for a few H, fitted on what was seen of all levels. Here is
//! what tells c(H, θ), the highest level whose chance exceeds θ; [`rule`](super) has the rule.
//!
//! It wakes up to the θ_wake quantile of what the next slot asks for, and lets go down to the θ_keep quantile of the most that the next H slots
//! ask for: switching a level off and on again within H slots saves less than it costs. The trees tell chances down to a few per cent well;
//! beyond, jumps are too rare to learn from, and a constant buffer does better.
//!
//! Where a boot takes L slots, waking looks at the most of the next 1 + L slots, rounded up: who is needed in the slot after the next has to boot in the next.
//!
//! Fitting is O(levels drawn × trees) for each H, all on tables cut into bins once, from a seed: same series, same policy. Worked example: 290
//! in use, and 300 were powered. If 293 is the highest level that is reached in the next slot with a chance over 0.14, and 297 the highest that is reached within an hour with a chance
//! over 0.05, 297 are held; with a buffer of 9, 306 are powered.

use std::ops::Range;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tracecast_analytics::time::HOUR_MS;

use super::level::{FACTS, Levels};
use super::{Seen, Series};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::model::Predict as _;
use crate::model::boosted::{Boosted, FittedTrees, SharedRows, Target, Trees};

/// How far ahead keeping looks, hours.
pub const KEEP_H: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Chances at which levels are read, highest first.
pub const CHANCES: [f32; 13] = [0.5, 0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.017, 0.012, 0.008, 0.005];
/// Levels drawn a slot to learn from, at most.
const DRAWN: usize = 40;
/// Levels drawn in all, about: a longer past gives fewer a slot, as those of a slot resemble each other.
const MOST_ROWS: usize = 120_000;
/// Times that trees are grown, on levels drawn anew; their chances are averaged.
const BAGS: u64 = 2;
/// Levels are drawn up to so far above what is in use, more of the near ones.
const SPAN: f64 = 130.0;
/// Levels drawn that are too few to learn from.
const LEAST_ROWS: usize = 1000;
/// Levels whose chances are told at once, which bounds the memory.
const ROWS_AT_ONCE: usize = 1 << 16;
/// Hours of the beginning that are not learned from: the past that facts look at is not yet there.
const SETTLE_H: f64 = 48.0;

/// How trees are grown, and with how many levels drawn: by the log loss of the chances on the last third of Philly's days before December 2017, fitted on
/// the two thirds before. Twice as many slower trees on all levels lost 0.238 (mean of the five horizons, 0.100 at the first), these 0.227 (0.100):
/// the others fit the past and lose on what comes. Still fewer lost less (0.222), but slept less in December, in hindsight, than the tests ask for. A tree
/// sees all rows, as to part them costs more than it spares.
const TREES: Trees =
    Trees { trees: 80, leaves: 15, rate: 0.08, rows: 1.0, columns: 0.5, least: 8.0, lambda: 5.0, bins: 127, seed: 1 };

/// The chance that a level is reached, fitted.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Slots looked ahead, and what tells the chance; the first is what waking looks at.
    horizons: Vec<(usize, Vec<Classifier>)>,
    /// Highest level there is.
    most: usize,
}

/// What tells the chance that a level is reached.
#[derive(Debug, Clone)]
enum Classifier {
    /// Trees.
    Trees(Box<FittedTrees>),
    /// Always the same: of all that was seen, nothing or everything was reached, or there was next to nothing to see.
    Always(f32),
}

/// Horizons in slots where a boot takes up to `booting` slots: what waking looks at, then what keeping may
/// look at, each once.
pub fn horizons(slot_ms: i64, booting: usize) -> Vec<usize> {
    let mut ahead = vec![1 + booting];
    for hours in KEEP_H {
        let slots = (hours * HOUR_MS as f64 / slot_ms.max(1) as f64).round() as usize;
        let slots = slots.max(1) + booting;
        if !ahead.contains(&slots) {
            ahead.push(slots);
        }
    }
    ahead
}

/// Levels that were drawn to learn from: facts, the slot to come, the level.
struct Drawn {
    rows: Matrix,
    next: Vec<usize>,
    level: Vec<usize>,
}

fn draw(series: &Series, range: &Range<usize>, most: usize, seed: u64) -> Drawn {
    let settle = (SETTLE_H * HOUR_MS as f64 / series.slot_ms.max(1) as f64) as usize;
    let mut drawn = Drawn { rows: Matrix::new(FACTS), next: Vec::new(), level: Vec::new() };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let slots = range.end.saturating_sub(range.start.max(settle)).max(1);
    let each = (MOST_ROWS / slots).clamp(1, DRAWN);
    let mut levels = Levels::new(series, most);
    for (at, slot) in series.slots.iter().enumerate().take(range.end) {
        levels.push(slot);
        if at < range.start.max(settle) || !slot.counted {
            continue;
        }
        for _ in 0..each {
            // Squared: half of them within a quarter of the span.
            let far = (SPAN * random.random::<f64>().powi(2)) as usize;
            let level = levels.in_use() + 1 + far;
            if level <= most {
                drawn.rows.push().copy_from_slice(&levels.row(level));
                drawn.next.push(at + 1);
                drawn.level.push(level);
            }
        }
    }
    drawn
}

impl Drawn {
    /// Trees that tell the chance that a level is reached within `ahead` slots; `shared` are the rows, cut into bins once for all of them.
    fn grow(
        &self,
        shared: Option<&SharedRows>,
        series: &Series,
        range: &Range<usize>,
        ahead: usize,
        seed: u64,
    ) -> Result<Classifier> {
        let mut rows: Vec<u32> = Vec::new();
        let mut labels = Vec::new();
        for (row, (next, level)) in (0u32..).zip(self.next.iter().zip(&self.level)) {
            if let Some(peak) = most_asked(series, range, *next, ahead) {
                rows.push(row);
                labels.push(f32::from(u8::from(peak >= *level as f64)));
            }
        }
        // Of levels that were hardly ever free nothing is known, so they are kept.
        let first = labels.first().copied().filter(|_| labels.len() >= LEAST_ROWS).unwrap_or(1.0);
        let told = labels.len() >= LEAST_ROWS && labels.iter().any(|label| *label != first);
        let Some(shared) = shared.filter(|_| told) else { return Ok(Classifier::Always(first)) };
        let trees = Boosted::one(Target::Chance, Trees { seed, ..TREES });
        let fitted = if rows.len() == shared.rows() {
            trees.fit_shared(shared, &labels)
        } else {
            trees.fit_shared(&shared.only(&rows), &labels)
        };
        Ok(Classifier::Trees(Box::new(fitted?)))
    }
}

/// Mean chance over what several tell.
fn chances(classifiers: &[Classifier], rows: &Matrix) -> Result<Vec<f32>> {
    let mut sum = vec![0.0; rows.rows()];
    let part = 1.0 / classifiers.len().max(1) as f32;
    for classifier in classifiers {
        match classifier {
            Classifier::Always(chance) => sum.iter_mut().for_each(|sum| *sum += chance * part),
            Classifier::Trees(trees) => {
                sum.iter_mut().zip(trees.predict(rows)?).for_each(|(sum, chance)| *sum += chance * part);
            }
        }
    }
    Ok(sum)
}

/// Most demanded in the slots from `from`, `ahead` of them; `None` if they are not all within `range` and counted.
pub(super) fn most_asked(series: &Series, range: &Range<usize>, from: usize, ahead: usize) -> Option<f64> {
    if from + ahead > range.end {
        return None;
    }
    let slots = series.slots.get(from..from + ahead)?;
    slots.iter().all(|slot| slot.counted).then(|| slots.iter().map(|slot| slot.peak).fold(0.0, f64::max))
}

impl Reach {
    /// Learns from the slots of `range` (earlier ones serve as their past), for `horizons` in slots; nothing for none.
    ///
    /// # Errors
    /// If the trees cannot be grown.
    pub fn fit(series: &Series, range: Range<usize>, horizons: &[usize]) -> Result<Self> {
        let most =
            series.slots.iter().take(range.end).map(|slot| slot.total.max(slot.peak)).fold(0.0, f64::max) as usize;
        let mut fitted: Vec<(usize, Vec<Classifier>)> = horizons.iter().map(|ahead| (*ahead, Vec::new())).collect();
        for seed in (1..=BAGS).filter(|_| !horizons.is_empty()) {
            let drawn = draw(series, &range, most, seed);
            let shared = (drawn.rows.rows() >= LEAST_ROWS).then(|| SharedRows::new(&drawn.rows, TREES.bins));
            let grow =
                |(ahead, _): &(usize, Vec<Classifier>)| drawn.grow(shared.as_ref(), series, &range, *ahead, seed);
            let grown: Vec<Result<Classifier>> = fitted.par_iter().map(grow).collect();
            for ((_, classifiers), grown) in fitted.iter_mut().zip(grown) {
                classifiers.push(grown?);
            }
        }
        Ok(Self { horizons: fitted, most })
    }

    /// Slots and number of classifiers of each horizon, as [`Reach::encoded`] orders them.
    pub fn shape(&self) -> Vec<(usize, usize)> {
        self.horizons.iter().map(|(slots, classifiers)| (*slots, classifiers.len())).collect()
    }

    /// Highest level there is.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The classifiers as bytes: four of a constant chance, else trees.
    pub fn encoded(&self) -> Vec<Vec<u8>> {
        let of = |classifier: &Classifier| match classifier {
            Classifier::Always(chance) => chance.to_le_bytes().to_vec(),
            Classifier::Trees(trees) => trees.encode(),
        };
        self.horizons.iter().flat_map(|(_, classifiers)| classifiers).map(of).collect()
    }

    /// What [`Reach::encoded`] gave.
    pub fn decoded(shape: &[(usize, usize)], encoded: &[Vec<u8>], most: usize) -> std::result::Result<Self, String> {
        let mut encoded = encoded.iter();
        let mut horizons = Vec::new();
        for (slots, count) in shape {
            let mut classifiers = Vec::new();
            for bytes in encoded.by_ref().take(*count) {
                classifiers.push(match <[u8; 4]>::try_from(bytes.as_slice()) {
                    Ok(chance) => Classifier::Always(f32::from_le_bytes(chance)),
                    Err(_) => {
                        let trees = FittedTrees::decode(bytes).ok_or("the trees are damaged")?;
                        Classifier::Trees(Box::new(trees))
                    }
                });
            }
            horizons.push((*slots, classifiers));
        }
        Ok(Self { horizons, most })
    }

    /// Slots that waking looks ahead.
    pub fn first(&self) -> usize {
        self.horizons.first().map_or(1, |(slots, _)| *slots)
    }

    /// For each slot of `range`, from what was known before it: the level in use, and for each horizon and each of [`CHANCES`] the highest level
    /// reached with more than that chance.
    ///
    /// # Errors
    /// If the trees refuse the facts.
    pub fn read(&self, series: &Series, range: Range<usize>) -> Result<Readings> {
        self.read_in_parts(series, range, ROWS_AT_ONCE)
    }

    /// Does what [`Reach::read`] does, with the chances of about `at_once` levels at a time.
    fn read_in_parts(&self, series: &Series, range: Range<usize>, at_once: usize) -> Result<Readings> {
        let mut levels = Levels::new(series, self.most);
        let mut readings = Readings {
            in_use: Vec::with_capacity(range.len()),
            reached: self.horizons.iter().map(|(ahead, _)| (*ahead, Vec::with_capacity(range.len()))).collect(),
        };
        // A row for every level of every slot at once would be gigabytes for a thousand nodes over some weeks.
        let mut rows = Matrix::new(FACTS);
        let mut spans = Vec::new();
        for (at, slot) in series.slots.iter().enumerate().take(range.end) {
            if range.contains(&at) {
                let read = if self.horizons.is_empty() { 0 } else { self.rows(&levels, &mut rows) };
                spans.push((levels.in_use(), read));
            }
            levels.push(slot);
            if rows.rows() >= at_once {
                self.add(&mut readings, &spans, &rows)?;
                rows = Matrix::new(FACTS);
                spans.clear();
            }
        }
        self.add(&mut readings, &spans, &rows)?;
        Ok(readings)
    }

    /// Adds what is read of some slots: of each the level in use and how many levels above it have a row.
    fn add(&self, readings: &mut Readings, spans: &[(usize, usize)], rows: &Matrix) -> Result<()> {
        readings.in_use.extend(spans.iter().map(|(base, _)| *base));
        for ((_, classifiers), (_, reached)) in self.horizons.iter().zip(&mut readings.reached) {
            let chances = chances(classifiers, rows)?;
            let mut from = 0;
            for (base, length) in spans {
                reached.push(highest(*base, chances.get(from..from + length).unwrap_or_default()));
                from += length;
            }
        }
        Ok(())
    }

    /// Adds the facts of all levels not in use; returns how many.
    fn rows(&self, levels: &Levels, rows: &mut Matrix) -> usize {
        let before = rows.rows();
        for level in levels.in_use() + 1..=self.most {
            rows.push().copy_from_slice(&levels.row(level));
        }
        rows.rows() - before
    }
}

/// For each of [`CHANCES`], the highest level above `base` that is reached with more than that
/// chance.
fn highest(base: usize, chances: &[f32]) -> [u32; CHANCES.len()] {
    CHANCES.map(|least| {
        let above = chances.iter().rposition(|chance| *chance > least).map_or(0, |at| at + 1);
        (base + above) as u32
    })
}

/// What [`Reach::read`] found.
#[derive(Debug, Clone)]
pub struct Readings {
    /// By slot: how many were in use at the end of the slot before.
    pub in_use: Vec<usize>,
    /// Horizon in slots, and by slot the highest level reached with more than each of [`CHANCES`]; the first horizon is for waking.
    pub reached: Vec<(usize, Vec<[u32; CHANCES.len()]>)>,
}

/// Place of a chance among [`CHANCES`].
pub fn place(chance: f32) -> usize {
    CHANCES.iter().position(|known| *known <= chance).unwrap_or(CHANCES.len() - 1)
}

/// What is known of all levels slot by slot, and the chances that follow.
#[derive(Debug, Clone)]
pub struct ReachNow {
    reach: Arc<Reach>,
    levels: Option<Levels>,
    /// The facts of all levels not in use, from which each chance is told.
    rows: Matrix,
}

impl ReachNow {
    /// Nothing seen yet.
    pub fn new(reach: Arc<Reach>) -> Self {
        Self { reach, levels: None, rows: Matrix::new(FACTS) }
    }

    /// Takes in the slots that have ended since the last call.
    pub fn look(&mut self, seen: Seen<'_>) {
        let levels = self.levels.get_or_insert_with(|| Levels::new(seen.series, self.reach.most));
        for slot in seen.slots.iter().skip(levels.seen()) {
            levels.push(slot);
        }
        self.rows = Matrix::new(FACTS);
        self.reach.rows(levels, &mut self.rows);
    }

    /// Nodes in use as the last slot ended.
    pub fn in_use(&self) -> f64 {
        self.levels.as_ref().map_or(0.0, |levels| levels.in_use() as f64)
    }

    /// Slots that waking looks ahead.
    pub fn first(&self) -> usize {
        self.reach.first()
    }

    /// The highest level that is reached within `ahead` slots with more than a chance; `None` if that cannot be told.
    pub fn reached(&self, ahead: usize, chance: f32) -> Option<f64> {
        let levels = self.levels.as_ref()?;
        let (_, classifiers) = self.reach.horizons.iter().find(|(slots, _)| *slots == ahead)?;
        let chances = chances(classifiers, &self.rows).ok()?;
        highest(levels.in_use(), &chances).get(place(chance)).map(|level| f64::from(*level))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::super::{Slot, Unit};
    use super::*;

    /// Hours from midnight of a Thursday on, from the largest count of each and the nodes there are.
    pub(crate) fn series(slots: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let slot = |(peak, total)| Slot { peak, last: peak, mean: peak, pending: 0.0, total, counted: true };
        Series {
            name: "pool".to_owned(),
            unit: Unit::Nodes,
            counts_pending: false,
            start_ms: 0,
            slot_ms: HOUR_MS,
            zone: "UTC".to_owned(),
            slots: slots.into_iter().map(slot).collect(),
        }
    }

    /// A thousand nodes over some weeks are millions of levels; read in parts they say the same in bounded memory.
    #[test]
    fn chances_read_in_parts_are_those_read_at_once() {
        let peak = |slot: u32| f64::from(10 + slot * 7 % 13 + 5 * u32::from(slot % 24 > 8));
        let series = series((0..160).map(|slot| (peak(slot), 60.0)));
        let reach = Reach::fit(&series, 0..120, &[1, 3]).unwrap();
        let once = reach.read_in_parts(&series, 100..160, usize::MAX).unwrap();
        for at_once in [1, 100] {
            let parts = reach.read_in_parts(&series, 100..160, at_once).unwrap();
            assert_eq!((&parts.in_use, &parts.reached), (&once.in_use, &once.reached));
        }
        assert_eq!((once.in_use.len(), once.reached.iter().map(|(_, of)| of.len()).sum::<usize>()), (60, 120));
    }
}
