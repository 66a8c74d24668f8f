//! Power of a GPU type as a function of its utilisation, and what is known of a type without telemetry.
//!
//! Where readings have both power and utilisation, power is fitted as the non-decreasing function of utilisation with the least
//! squares error: readings are averaged in bins of one percent of utilisation and the averages made monotone by pooling adjacent
//! violators (Barlow, Bartholomew, Bremner, Brunk: Statistical inference under order restrictions, 1972), which keeps the
//! weighted mean. Between bins the function is linear. Above the highest utilisation seen it rises linearly to the TDP, where
//! that is known; below the lowest it falls to the idle power.
//!
//! **Idle power** is, first known first taken: the user's; the mean of at least `LEAST_IDLE` readings at a utilisation of at most 1 %;
//! the [table's](super::ratings). Else it is unknown, with bounds ([`IdlePower`]): no more than the lowest reading, and no less than what
//! utilisation leaves: at a (low) utilisation u a GPU is idle for 1 - u of the time, so that idle power is at least (P - u · most) / (1 - u)
//! where the most is stated.
//! Readings of busy GPUs tell no more.
//!
//! **The upper bound** is the larger of the TDP (the user's, else the table's) and the highest reading of the type. Without a fit, a
//! utilisation still tells: power is taken as the line from idle power to the upper bound, which is the most it can be.
//! Nothing is assumed beyond that: a type of which nothing is known has no model, and its gaps no energy.
//!
//! Sums of readings are whole milliwatts, so a fit does not depend on the order of the readings.
//!
//! O(readings + bins). Worked numbers: 100 W at 5 % of a GPU of at most 400 W: idle power is at least (100 - 20) / 0.95 = 84.2 W, so that no
//! more than 15.8 W are work. Averages 60, 100, 90 and 200 W of equal weight are not monotone; 100 and 90 pool to 95:
//! 60, 95, 95, 200 W.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constant::Constant;
use super::ratings::{Source, rating_of};

/// Bins of utilisation: 0 %, 1 % … 100 %.
const BINS: usize = 101;
/// A fit takes at least so many readings with both power and utilisation.
pub(super) const LEAST_READINGS: u64 = 20;
/// Readings of at most this bin (1 %) are idle.
pub(super) const IDLE_BIN: usize = 1;
/// Idle power is the mean of at least so many readings at idle.
pub(super) const LEAST_IDLE: u64 = 3;
/// Readings bound idle power from below up to this utilisation on average: beyond, 1 / (1 - u) makes too much of readings that are not of
/// quite the same moment.
const MOST_BUSY: f64 = 0.25;
/// A reading below is of a board that is off, watts, and tells nothing of idle power.
const LEAST_ON_W: f64 = 1.0;
/// No GPU draws more, watts: readings beyond are none.
pub const GPU_MOST_W: f64 = 10_000.0;

/// Power of a GPU type, as stated by the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Given {
    /// Power when idle, watts.
    pub idle_w: Option<f64>,
    /// Thermal design power, watts.
    pub tdp_w: Option<f64>,
}

/// Readings of one GPU type, gathered for a fit.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Readings and milliwatts by percent of utilisation.
    bins: Vec<(u64, u64)>,
    readings: u64,
    mw: u64,
    /// Lowest reading of a board that is on, and highest reading, milliwatts.
    ends_mw: (u64, u64),
}

impl Default for Tally {
    fn default() -> Self {
        Self { bins: vec![(0, 0); BINS], readings: 0, mw: 0, ends_mw: (u64::MAX, 0) }
    }
}

impl Tally {
    /// Adds a reading; power that cannot be is passed over.
    pub fn add(&mut self, power_w: f64, util: Option<f64>) {
        if !(0.0..=GPU_MOST_W).contains(&power_w) {
            return;
        }
        let mw = (power_w * 1_000.0).round() as u64;
        self.readings += 1;
        self.mw += mw;
        let least = if power_w >= LEAST_ON_W { mw } else { u64::MAX };
        self.ends_mw = (self.ends_mw.0.min(least), self.ends_mw.1.max(mw));
        let bin = util.filter(|util| (0.0..=1.0).contains(util)).map(|util| (util * 100.0).round() as usize);
        if let Some((count, sum)) = bin.and_then(|bin| self.bins.get_mut(bin)) {
            *count += 1;
            *sum += mw;
        }
    }

    /// Adds another tally. Whole numbers: the order does not matter.
    pub fn merge(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin = (bin.0 + more.0, bin.1 + more.1);
        }
        self.ends_mw = (self.ends_mw.0.min(other.ends_mw.0), self.ends_mw.1.max(other.ends_mw.1));
        self.readings += other.readings;
        self.mw += other.mw;
    }

    /// Lowest reading of a board that is on, watts.
    fn lowest(&self) -> Option<f64> {
        (self.ends_mw.0 < u64::MAX).then(|| self.ends_mw.0 as f64 / 1_000.0)
    }

    /// Highest reading, watts.
    fn highest(&self) -> Option<f64> {
        (self.readings > 0).then(|| self.ends_mw.1 as f64 / 1_000.0)
    }

    /// The least that idle power can be, given that no GPU draws more than `most_w`: from the readings up to each utilisation.
    fn idle_at_least(&self, most_w: f64) -> f64 {
        let (mut count, mut mw, mut util) = (0_u64, 0_u64, 0.0);
        let mut least = 0.0_f64;
        for (bin, (of_bin, sum)) in self.bins.iter().enumerate().filter(|(_, (count, _))| *count > 0) {
            count += of_bin;
            mw += sum;
            util += bin as f64 / 100.0 * *of_bin as f64;
            let (watts, busy) = (mw as f64 / 1_000.0 / count as f64, util / count as f64);
            if busy <= MOST_BUSY && count >= LEAST_IDLE {
                least = least.max((watts - busy * most_w) / (1.0 - busy));
            }
        }
        least
    }

    /// Mean of the readings in bins for which `keep` holds, watts.
    fn mean(&self, keep: impl Fn(usize) -> bool) -> Option<f64> {
        let kept = self.bins.iter().enumerate().filter(|(bin, _)| keep(*bin));
        let (count, mw) = kept.fold((0, 0), |(n, sum), (_, (count, mw))| (n + count, sum + mw));
        (count > 0).then(|| mw as f64 / 1_000.0 / count as f64)
    }
}

/// Idle power: known, where both ends are the same, or bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdlePower {
    /// Lower bound, watts.
    pub least_w: f64,
    /// Upper bound, watts; infinite where nothing is known.
    pub most_w: f64,
}

impl Default for IdlePower {
    fn default() -> Self {
        Self { least_w: 0.0, most_w: f64::INFINITY }
    }
}

impl IdlePower {
    /// Known.
    #[must_use]
    pub fn known(watts: f64) -> Self {
        Self { least_w: watts, most_w: watts }
    }

    /// The idle power where it is known, watts.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        (self.least_w == self.most_w).then_some(self.least_w)
    }

    /// The idle power, or the middle of its bounds; `None` without an upper bound.
    #[must_use]
    pub fn middle(self) -> Option<f64> {
        self.most_w.is_finite().then_some(f64::midpoint(self.least_w, self.most_w))
    }

    fn words(self) -> String {
        match self.value() {
            Some(watts) => format!("{watts:.0} W"),
            None if self.most_w.is_finite() => format!("unknown, between {:.0} and {:.0} W", self.least_w, self.most_w),
            None => "unknown".to_owned(),
        }
    }
}

/// Power of a GPU type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PowerModel {
    /// Power when idle.
    pub idle: IdlePower,
    /// Upper bound, watts.
    pub most_w: Option<f64>,
    /// Mean power of working GPUs (utilisation above 1 %), watts.
    pub busy_w: Option<f64>,
    /// Mean power of all readings, watts.
    pub mean_w: Option<f64>,
    /// Watts at 0 %, 1 % … 100 % utilisation.
    pub curve: Option<Vec<f64>>,
    /// Source of idle power and upper bound, in words.
    pub source: String,
    /// The two as constants, with their sources.
    pub constants: Vec<Constant>,
}

impl PowerModel {
    /// Fits a type's model to its readings, the user's figures and the table. `assumed_util`
    /// replaces the utilisation of working GPUs where no reading tells their power.
    #[must_use]
    pub fn new(gpu_type: Option<&str>, tally: &Tally, given: Option<Given>, assumed_util: Option<f64>) -> Self {
        let given = given.unwrap_or_default();
        let rated = gpu_type.and_then(rating_of);
        let known: u64 = tally.bins.iter().map(|(count, _)| count).sum();
        let fits = known >= LEAST_READINGS;
        let highest = tally.highest();
        let stated = match (given.tdp_w, rated) {
            (Some(watts), _) => Some((watts, "given in the factor file".to_owned(), false)),
            (None, Some(rating)) => Some((rating.tdp_w, tdp_words(rating.tdp_source), rating.tdp_source.is_assumed())),
            (None, None) => None,
        };
        let is_stated = stated.is_some();
        let (most_w, most_source, most_assumed) = match (stated, highest) {
            (Some((watts, _, _)), Some(read)) if read > watts => {
                (Some(read), format!("the highest reading of the type, above its TDP of {watts:.0} W"), false)
            }
            (Some((watts, source, assumed)), _) => (Some(watts), source, assumed),
            (None, Some(read)) => {
                let why = "the highest reading of the type; no rating of it is known, so that it may draw more";
                (Some(read), why.to_owned(), true)
            }
            (None, None) => (None, "the type has neither a rating nor readings".to_owned(), false),
        };
        let at_idle: u64 = tally.bins.iter().take(IDLE_BIN + 1).map(|(count, _)| count).sum();
        let (idle, idle_source, idle_assumed) = if let Some(watts) = given.idle_w {
            (IdlePower::known(watts), "given in the factor file".to_owned(), false)
        } else if let Some(watts) = tally.mean(|bin| bin <= IDLE_BIN).filter(|_| at_idle >= LEAST_IDLE) {
            (IdlePower::known(watts), format!("the mean of {at_idle} readings at a utilisation of at most 1 %"), false)
        } else if let Some((watts, source)) = rated.and_then(|rating| rating.idle) {
            (IdlePower::known(watts), source.words(), source.is_assumed())
        } else {
            let most = tally.lowest().unwrap_or(f64::INFINITY);
            // A bound above the lowest reading means that power and utilisation are not of the same moments.
            // The highest reading alone is no bound of what the GPU could have drawn.
            let least = most_w.filter(|_| is_stated).map_or(0.0, |most_w| tally.idle_at_least(most_w));
            let least = if least < most { least } else { 0.0 };
            let why =
                "no readings at a utilisation of at most 1 %, and no published figure; at most the lowest reading";
            (IdlePower { least_w: least, most_w: most }, why.to_owned(), false)
        };
        let curve = if fits { Some(fit(tally, idle.value(), most_w)) } else { None };
        let linear = || Some(idle.value()? + (most_w? - idle.value()?) * assumed_util?.clamp(0.0, 1.0));
        let busy_w = tally.mean(|bin| bin > IDLE_BIN).filter(|_| fits).or_else(linear);
        let mean_w = (tally.readings > 0).then(|| tally.mw as f64 / 1_000.0 / tally.readings as f64);
        let name = gpu_type.unwrap_or("GPUs of unknown type");
        let most = most_w.map_or_else(|| "unknown".to_owned(), |watts| format!("{watts:.0} W"));
        let unrated = if rated.is_none() && gpu_type.is_some() && given.tdp_w.is_none() {
            " (no such type in the table of ratings)"
        } else {
            ""
        };
        let source = format!(
            "{name}{unrated}: idle {} ({idle_source}), at most {most} ({most_source}), curve from {known} readings{}",
            idle.words(),
            if fits { "" } else { ": too few" }
        );
        let constants = vec![
            Constant::new(format!("Idle power of {name}"), idle.words(), idle_source, idle_assumed),
            Constant::new(format!("Most power of {name}"), most, most_source, most_assumed),
        ];
        Self { idle, most_w, busy_w, mean_w, curve, source, constants }
    }

    /// Power at a utilisation, watts: by the fit, else on the line from idle power to the most; `None` if neither is known.
    #[must_use]
    pub fn at(&self, util: f64) -> Option<f64> {
        let util = util.clamp(0.0, 1.0);
        let Some(curve) = self.curve.as_ref() else {
            let idle = self.idle.middle()?;
            return Some(idle + (self.most_w? - idle).max(0.0) * util);
        };
        let place = util * 100.0;
        let (low, part) = (place.floor(), place.fract());
        let below = *curve.get(low as usize)?;
        let above = curve.get(low as usize + 1).copied().unwrap_or(below);
        Some(below + (above - below) * part)
    }

    /// The most that a GPU at a utilisation draws, watts: idle for the rest of the time.
    #[must_use]
    pub fn at_most(&self, util: f64) -> Option<f64> {
        let most = self.most_w?;
        if self.curve.is_some() || !self.idle.most_w.is_finite() {
            return Some(most);
        }
        let idle = self.idle.most_w.min(most);
        Some(idle + (most - idle) * util.clamp(0.0, 1.0))
    }

    /// Power of a GPU of which only its state is known, watts: `held` by a job or not, `None` unknown. Without a mean of
    /// readings it is the middle of the bounds.
    #[must_use]
    pub fn in_state(&self, held: Option<bool>) -> Option<f64> {
        let middle = || Some((self.idle.value()? + self.most_w?) / 2.0);
        match held {
            Some(false) => self.idle.middle(),
            Some(true) => self.busy_w.or(self.mean_w).or_else(middle),
            None => self.mean_w.or_else(middle),
        }
    }
}

fn tdp_words(source: Source) -> String {
    match source {
        Source::Published(..) => format!("TDP: {}", source.words()),
        Source::Assumed(_) => format!("TDP {}", source.words()),
    }
}

fn fit(tally: &Tally, idle_w: Option<f64>, most_w: Option<f64>) -> Vec<f64> {
    let seen: Vec<(usize, f64, f64)> = (tally.bins.iter().enumerate())
        .filter(|(_, (count, _))| *count > 0)
        .map(|(bin, (count, mw))| (bin, *count as f64, *mw as f64 / 1_000.0 / *count as f64))
        .collect();
    let fitted = isotonic(&seen.iter().map(|(_, weight, watts)| (*weight, *watts)).collect::<Vec<_>>());
    let mut knots: Vec<(usize, f64)> = seen.iter().map(|(bin, ..)| *bin).zip(fitted).collect();
    if let (Some((bin, watts)), Some(most)) = (knots.last().copied(), most_w)
        && bin + 1 < BINS
    {
        knots.push((BINS - 1, most.max(watts)));
    }
    if let (Some((bin, watts)), Some(idle)) = (knots.first().copied(), idle_w)
        && bin > 0
    {
        knots.insert(0, (0, idle.min(watts)));
    }
    (0..BINS)
        .map(|bin| {
            let after = knots.partition_point(|(at, _)| *at < bin);
            match (after.checked_sub(1).and_then(|ix| knots.get(ix)), knots.get(after)) {
                (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (bin - x0) as f64 / (x1 - x0) as f64,
                (Some((_, y)), None) | (None, Some((_, y))) => *y,
                (None, None) => 0.0,
            }
        })
        .collect()
}

/// The non-decreasing sequence nearest to `(weight, value)` in weighted squares, by pooling adjacent violators. O(n).
#[must_use]
pub fn isotonic(points: &[(f64, f64)]) -> Vec<f64> {
    // Blocks: weight, mean, points in it.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(points.len());
    for (weight, value) in points {
        let mut block = (*weight, *value, 1);
        while let Some(last) = blocks.last().copied().filter(|last| last.1 >= block.1) {
            blocks.pop();
            let weight = last.0 + block.0;
            let mean = if weight > 0.0 { (last.0 * last.1 + block.0 * block.1) / weight } else { block.1 };
            block = (weight, mean, last.2 + block.2);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(_, mean, count)| std::iter::repeat_n(mean, count)).collect()
}

/// Models of all types; the first is that of GPUs of unknown type.
#[derive(Debug, Clone, Default)]
pub struct PowerModels {
    /// Names of types, `None` first.
    pub names: Vec<Option<String>>,
    /// Models of these types.
    pub models: Vec<PowerModel>,
}

impl PowerModels {
    /// Fits all types. `given` has what the user says by type; under `*` of any other.
    #[must_use]
    pub fn fit(
        tallies: &BTreeMap<Option<String>, Tally>,
        given: &BTreeMap<String, Given>,
        assumed_util: Option<f64>,
    ) -> Self {
        let mut models = Self::default();
        let unknown = Tally::default();
        let none = std::iter::once((&None, tallies.get(&None).unwrap_or(&unknown)));
        for (name, tally) in none.chain(tallies.iter().filter(|(name, _)| name.is_some())) {
            let stated = name.as_deref().and_then(|name| given.get(name)).or_else(|| given.get("*")).copied();
            models.models.push(PowerModel::new(name.as_deref(), tally, stated, assumed_util));
            models.names.push(name.clone());
        }
        models
    }

    /// The place of a type, 0 if it is not known.
    #[must_use]
    pub fn place(&self, name: Option<&str>) -> u32 {
        let place = self.names.iter().position(|known| known.as_deref() == name).unwrap_or(0);
        u32::try_from(place).unwrap_or(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn violators_are_pooled_by_weight() {
        assert_eq!(isotonic(&[(1.0, 60.0), (1.0, 100.0), (1.0, 90.0), (1.0, 200.0)]), [60.0, 95.0, 95.0, 200.0]);
        // 3 · 100 + 1 · 80 = 380 over 4 is 95.
        assert_eq!(isotonic(&[(3.0, 100.0), (1.0, 80.0)]), [95.0, 95.0]);
    }

    #[test]
    fn a_gpu_that_is_never_idle_has_no_idle_power_but_bounds() {
        // An hour at 600 W and 95 %: the H100's idle power is not published. Between (600 - 0.95 · 700) / 0.05, below 0, and 600 W.
        let mut tally = Tally::default();
        (0..60).for_each(|_| tally.add(600.0, Some(0.95)));
        let model = PowerModel::new(Some("NVIDIA H100 80GB HBM3"), &tally, None, None);
        assert_eq!((model.idle, model.idle.value()), (IdlePower { least_w: 0.0, most_w: 600.0 }, None));
        assert!(model.source.contains("idle unknown, between 0 and 600 W"), "{}", model.source);
        // The A100's is, whatever the readings of busy ones.
        let model = PowerModel::new(Some("A100"), &tally, None, None);
        assert_eq!((model.idle.value(), model.most_w), (Some(60.0), Some(600.0)));
        // Two readings at idle are too few; three are not, however many there are in all.
        let mut tally = Tally::default();
        [300.0, 310.0].iter().for_each(|watts| tally.add(*watts, Some(0.9)));
        [70.0, 72.0].iter().for_each(|watts| tally.add(*watts, Some(0.0)));
        assert_eq!(PowerModel::new(None, &tally, None, None).idle.most_w, 70.0);
        tally.add(74.0, Some(0.01));
        assert_eq!(PowerModel::new(None, &tally, None, None).idle, IdlePower::known(72.0));
    }

    #[test]
    fn utilisation_bounds_the_split_without_a_fit() {
        // 100 W at 5 % of at most 400 W: idle power is at least (100 - 20) / 0.95.
        let mut tally = Tally::default();
        (0..5).for_each(|_| tally.add(100.0, Some(0.05)));
        let given = Given { idle_w: None, tdp_w: Some(400.0) };
        let model = PowerModel::new(Some("X"), &tally, Some(given), None);
        assert!((model.idle.least_w - 80.0 / 0.95).abs() < 1e-9 && model.idle.most_w == 100.0, "{:?}", model.idle);
        // Without any power: at 3.7 % between 70 W and 70 + 0.037 · 630 W, and not half of the way to 700 W.
        let given = Given { idle_w: Some(70.0), tdp_w: Some(700.0) };
        let model = PowerModel::new(Some("X"), &Tally::default(), Some(given), None);
        assert!((model.at(0.037).unwrap() - 93.31).abs() < 1e-9 && model.at_most(0.037) == model.at(0.037));
    }

    #[test]
    fn a_devices_own_readings_raise_its_upper_bound() {
        let mut tally = Tally::default();
        tally.add(480.25, None);
        let model = PowerModel::new(Some("NVIDIA A100-SXM4-80GB"), &tally, None, None);
        assert_eq!(model.most_w, Some(480.25));
        assert!(model.source.contains("above its TDP of 400 W"), "{}", model.source);
        // Of a type that no table has it is no more than what was read.
        let model = PowerModel::new(Some("A100X"), &tally, None, None);
        assert!(model.source.contains("no such type") && model.source.contains("it may draw more"), "{}", model.source);
        assert!(model.constants.iter().any(|constant| constant.assumed), "{:?}", model.constants);
    }

    #[test]
    fn a_curve_goes_through_the_readings_and_ends_at_the_bounds() {
        let mut tally = Tally::default();
        for _ in 0..20 {
            tally.add(60.0, Some(0.0));
            tally.add(200.0, Some(0.5));
            tally.add(-1.0, Some(0.5));
            tally.add(f64::NAN, None);
        }
        let model = PowerModel::new(Some("A100"), &tally, None, None);
        assert_eq!(
            (model.idle.value(), model.most_w, model.busy_w, model.mean_w),
            (Some(60.0), Some(400.0), Some(200.0), Some(130.0))
        );
        // Between the readings 60 + (200 - 60) / 2 at 25 %; above, half of the way from 200 W to the TDP at 75 %.
        assert_eq!(
            (model.at(0.25), model.at(0.5), model.at(0.75), model.at(2.0)),
            (Some(130.0), Some(200.0), Some(300.0), Some(400.0))
        );
        assert!((model.at(0.255).unwrap() - 131.4).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_assumed_of_an_unknown_type() {
        let model = PowerModel::new(Some("X"), &Tally::default(), None, Some(0.5));
        assert_eq!(
            (model.idle.value(), model.most_w, model.in_state(Some(true)), model.at(0.5)),
            (None, None, None, None)
        );
        let given = Given { idle_w: Some(50.0), tdp_w: Some(250.0) };
        // 50 + (250 - 50) · 0.3.
        let model = PowerModel::new(None, &Tally::default(), Some(given), Some(0.3));
        assert_eq!(
            (model.in_state(Some(true)), model.in_state(Some(false)), model.in_state(None)),
            (Some(110.0), Some(50.0), Some(150.0))
        );
    }

    proptest! {
        #[test]
        fn isotonic_is_monotone_keeps_the_mean_and_leaves_monotone_alone(values in prop::collection::vec((0.1_f64..10.0, -100.0_f64..100.0), 1..40)) {
            let fitted = isotonic(&values);
            prop_assert!(fitted.is_sorted());
            let weighted = |of: &mut dyn Iterator<Item = (f64, f64)>| of.map(|(w, v)| w * v).sum::<f64>();
            let before = weighted(&mut values.iter().copied());
            let after = weighted(&mut values.iter().map(|(w, _)| *w).zip(fitted.iter().copied()));
            prop_assert!((before - after).abs() < 1e-8);
            let again = isotonic(&values.iter().map(|(w, _)| *w).zip(fitted.iter().copied()).collect::<Vec<_>>());
            prop_assert!(again.iter().zip(&fitted).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}
