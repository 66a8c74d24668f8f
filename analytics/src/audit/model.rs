//! Power of a GPU type as a function of its utilisation, and what is known of a type without telemetry.
//!
//! Where readings have both power and utilisation, power is fitted as the non-decreasing function of utilisation with the least
//! squares error: readings are averaged in bins of one percent of utilisation and the averages made monotone by pooling adjacent
//! violators (Barlow, Bartholomew, Bremner, Brunk: Statistical inference under order restrictions, 1972), which keeps the
//! weighted mean. Between bins the function is linear. Above the highest utilisation seen it rises linearly to the TDP, where
//! that is known; below the lowest it falls to the idle power.
//!
//! Idle power is, first known first taken: the user's; the mean reading at a utilisation of at most 1 %; the table's; the 5 %
//! quantile of all readings (a note says so). The upper bound is the user's TDP, the table's, else the highest reading.
//! Nothing is assumed beyond that: a type of which nothing is known has no model, and its gaps no energy.
//!
//! Sums of readings are whole milliwatts, so a fit does not depend on the order of the readings.
//!
//! O(readings + bins). Worked number: averages 60, 100, 90 and 200 W of equal weight are not monotone; 100 and 90 pool to 95:
//! 60, 95, 95, 200 W.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bins of utilisation: 0 %, 1 % … 100 %.
const BINS: usize = 101;
/// A fit takes at least so many readings with both power and utilisation.
const LEAST_READINGS: u64 = 20;
/// Readings of at most this bin (1 %) are idle.
const IDLE_BIN: usize = 1;
/// No GPU draws more, watts: readings beyond are none.
pub const GPU_MOST_W: f64 = 10_000.0;

/// What is known of a GPU type without telemetry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rating {
    /// Words that a model's name has to hold, lower case.
    pub words: &'static [&'static str],
    /// Power when idle, watts, where a measurement is published.
    pub idle_w: Option<f64>,
    /// Thermal design power (highest sustained board power), watts.
    pub tdp_w: f64,
    /// Where it is from.
    pub source: &'static str,
}

const fn rating(words: &'static [&'static str], idle_w: Option<f64>, tdp_w: f64, source: &'static str) -> Rating {
    Rating { words, idle_w, tdp_w, source }
}

/// GPU types with published ratings; the first whose words are all in the name is taken. A name without its form factor is
/// rated as the hotter form, so that the upper bound holds.
pub const RATINGS: [Rating; 26] = [
    rating(&["b200"], None, 1_000.0, "NVIDIA DGX B200 data sheet"),
    rating(&["gh200"], None, 1_000.0, "NVIDIA GH200 data sheet (CPU, GPU and memory)"),
    rating(&["h200"], None, 700.0, "NVIDIA H200 data sheet"),
    rating(&["h100", "pcie"], None, 350.0, "NVIDIA H100 PCIe product brief"),
    rating(&["h100"], None, 700.0, "NVIDIA H100 data sheet, SXM5"),
    rating(&["h800"], None, 700.0, "NVIDIA H100 data sheet, SXM5 (same board)"),
    rating(
        &["a100", "pcie"],
        Some(60.0),
        300.0,
        "NVIDIA A100 data sheet, PCIe 80 GB; idle: Hu et al., NSDI 2024 (Acme)",
    ),
    rating(&["a100"], Some(60.0), 400.0, "NVIDIA A100 data sheet, SXM4; idle: Hu et al., NSDI 2024 (Acme)"),
    rating(&["a800"], Some(60.0), 400.0, "as A100 SXM4 (same chip)"),
    rating(&["a40"], None, 300.0, "NVIDIA A40 data sheet"),
    rating(&["a30"], None, 165.0, "NVIDIA A30 data sheet"),
    rating(&["a16"], None, 250.0, "NVIDIA A16 data sheet"),
    rating(&["a10"], None, 150.0, "NVIDIA A10 data sheet"),
    rating(&["l40s"], None, 350.0, "NVIDIA L40S data sheet"),
    rating(&["l40"], None, 300.0, "NVIDIA L40 data sheet"),
    rating(&["l4"], None, 72.0, "NVIDIA L4 data sheet"),
    rating(&["v100", "pcie"], None, 250.0, "NVIDIA V100 data sheet, PCIe"),
    rating(&["v100"], None, 300.0, "NVIDIA V100 data sheet, SXM2"),
    rating(&["p100", "pcie"], None, 250.0, "NVIDIA P100 data sheet, PCIe"),
    rating(&["p100"], None, 300.0, "NVIDIA P100 data sheet, SXM2"),
    rating(&["p40"], None, 250.0, "NVIDIA P40 data sheet"),
    rating(&["k80"], None, 150.0, "NVIDIA K80 board specification: 300 W for two GPUs"),
    rating(&["rtx", "6000"], None, 300.0, "NVIDIA RTX 6000 data sheets (Turing 295 W with USB-C, Ada 300 W)"),
    rating(&["t4"], None, 70.0, "NVIDIA T4 data sheet"),
    rating(&["mi300x"], None, 750.0, "AMD Instinct MI300X data sheet"),
    rating(&["mi250x"], None, 560.0, "AMD Instinct MI250X data sheet, peak, two dies"),
];

/// The published rating of a GPU model.
#[must_use]
pub fn rating_of(gpu_type: &str) -> Option<&'static Rating> {
    let name = gpu_type.to_ascii_lowercase();
    RATINGS.iter().find(|rating| rating.words.iter().all(|word| holds(&name, word)))
}

/// Whether `name` holds `word` not within a longer one (`a10` is not in `a100`, `h200` not in `gh200`).
fn holds(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|ix| name.as_bytes().get(ix));
        let after = name.as_bytes().get(at + word.len());
        !before.is_some_and(u8::is_ascii_alphanumeric) && !after.is_some_and(u8::is_ascii_digit)
    })
}

/// What the user says of a GPU type.
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
    /// By percent of utilisation: readings, milliwatts.
    bins: Vec<(u64, u64)>,
    /// Readings by whole watts, with or without a utilisation.
    watts: Vec<u64>,
    readings: u64,
    mw: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { bins: vec![(0, 0); BINS], watts: Vec::new(), readings: 0, mw: 0 }
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
        let watt = power_w as usize;
        if self.watts.len() <= watt {
            self.watts.resize(watt + 1, 0);
        }
        if let Some(count) = self.watts.get_mut(watt) {
            *count += 1;
        }
        let bin = util.filter(|util| (0.0..=1.0).contains(util)).map(|util| (util * 100.0).round() as usize);
        if let Some((count, sum)) = bin.and_then(|bin| self.bins.get_mut(bin)) {
            *count += 1;
            *sum += mw;
        }
    }

    /// Adds another tally. Whole numbers: the order does not matter.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.bins.iter_mut().zip(&other.bins) {
            *own = (own.0 + more.0, own.1 + more.1);
        }
        if self.watts.len() < other.watts.len() {
            self.watts.resize(other.watts.len(), 0);
        }
        for (own, more) in self.watts.iter_mut().zip(&other.watts) {
            *own += more;
        }
        self.readings += other.readings;
        self.mw += other.mw;
    }

    /// Mean of the readings in bins for which `keep` holds, watts.
    fn mean(&self, keep: impl Fn(usize) -> bool) -> Option<f64> {
        let kept = self.bins.iter().enumerate().filter(|(bin, _)| keep(*bin));
        let (count, mw) = kept.fold((0, 0), |(n, sum), (_, (count, mw))| (n + count, sum + mw));
        (count > 0).then(|| mw as f64 / 1_000.0 / count as f64)
    }

    /// The whole watts below which a share of the readings lies.
    fn quantile(&self, share: f64) -> Option<f64> {
        let mut left = (self.readings as f64 * share).ceil().max(1.0) as u64;
        for (watt, count) in self.watts.iter().enumerate() {
            if *count >= left {
                return Some(watt as f64);
            }
            left -= count;
        }
        None
    }
}

/// Power of a GPU type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Law {
    /// Power when idle, watts.
    pub idle_w: Option<f64>,
    /// Upper bound, watts.
    pub most_w: Option<f64>,
    /// Mean power of working GPUs (utilisation above 1 %), watts.
    pub busy_w: Option<f64>,
    /// Mean power of all readings, watts.
    pub mean_w: Option<f64>,
    /// Watts at 0 %, 1 % … 100 % utilisation.
    pub curve: Option<Vec<f64>>,
    /// What idle power and upper bound rest on, in words.
    pub source: String,
}

impl Law {
    /// What is known of a type from its readings, the user and the table. `assumed_util` stands for the utilisation of working
    /// GPUs where no reading tells their power.
    #[must_use]
    pub fn of(gpu_type: Option<&str>, tally: &Tally, given: Option<Given>, assumed_util: Option<f64>) -> Self {
        let given = given.unwrap_or_default();
        let rated = gpu_type.and_then(rating_of);
        let known: u64 = tally.bins.iter().map(|(count, _)| count).sum();
        let fits = known >= LEAST_READINGS;
        let idle_read = tally.mean(|bin| bin <= IDLE_BIN).filter(|_| fits);
        let lowest = tally.quantile(0.05).filter(|_| tally.readings >= LEAST_READINGS);
        let (idle_w, idle_source) = [
            (given.idle_w, "given"),
            (idle_read, "read at up to 1 % utilisation"),
            (rated.and_then(|rating| rating.idle_w), "published"),
            (lowest, "the 5 % quantile of the readings"),
        ]
        .into_iter()
        .find(|(value, _)| value.is_some())
        .unwrap_or((None, "unknown"));
        let highest = tally.quantile(1.0).map(|watt| watt + 1.0);
        let (most_w, most_source) =
            [(given.tdp_w, "given"), (rated.map(|rating| rating.tdp_w), "published TDP"), (highest, "highest reading")]
                .into_iter()
                .find(|(value, _)| value.is_some())
                .unwrap_or((None, "unknown"));
        let curve = if fits { Some(fit(tally, idle_w, most_w)) } else { None };
        let linear = || Some(idle_w? + (most_w? - idle_w?) * assumed_util?.clamp(0.0, 1.0));
        let busy_w = tally.mean(|bin| bin > IDLE_BIN).filter(|_| fits).or_else(linear);
        let mean_w = (tally.readings > 0).then(|| tally.mw as f64 / 1_000.0 / tally.readings as f64);
        let name = gpu_type.unwrap_or("GPUs of unknown type");
        let place = rated.map_or_else(String::new, |rating| format!(" ({})", rating.source));
        let watts = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |watts| format!("{watts:.0} W"));
        let source = format!(
            "{name}: idle {} ({idle_source}), at most {} ({most_source}){}, curve from {known} readings{}",
            watts(idle_w),
            watts(most_w),
            if idle_source == "published" || most_source == "published TDP" { place } else { String::new() },
            if fits { "" } else { ": too few" }
        );
        Self { idle_w, most_w, busy_w, mean_w, curve, source }
    }

    /// Power at a utilisation, watts; `None` without a fit.
    #[must_use]
    pub fn at(&self, util: f64) -> Option<f64> {
        let curve = self.curve.as_ref()?;
        let place = util.clamp(0.0, 1.0) * 100.0;
        let (low, part) = (place.floor(), place.fract());
        let below = *curve.get(low as usize)?;
        let above = curve.get(low as usize + 1).copied().unwrap_or(below);
        Some(below + (above - below) * part)
    }

    /// Power of a GPU of which only its state is known, watts: `held` by a job or not, `None` unknown. Without a mean of
    /// readings it is the middle of the bounds.
    #[must_use]
    pub fn in_state(&self, held: Option<bool>) -> Option<f64> {
        let middle = || Some((self.idle_w? + self.most_w?) / 2.0);
        match held {
            Some(false) => self.idle_w,
            Some(true) => self.busy_w.or(self.mean_w).or_else(middle),
            None => self.mean_w.or_else(middle),
        }
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

/// Laws of all types; the first is that of GPUs of unknown type.
#[derive(Debug, Clone, Default)]
pub struct Laws {
    /// Names of types, `None` first.
    pub names: Vec<Option<String>>,
    /// Their laws.
    pub laws: Vec<Law>,
}

impl Laws {
    /// Fits all types. `given` has what the user says by type; under `*` of any other.
    #[must_use]
    pub fn fit(
        tallies: &BTreeMap<Option<String>, Tally>,
        given: &BTreeMap<String, Given>,
        assumed_util: Option<f64>,
    ) -> Self {
        let mut laws = Self::default();
        let unknown = Tally::default();
        let none = std::iter::once((&None, tallies.get(&None).unwrap_or(&unknown)));
        for (name, tally) in none.chain(tallies.iter().filter(|(name, _)| name.is_some())) {
            let own = name.as_deref().and_then(|name| given.get(name)).or_else(|| given.get("*")).copied();
            laws.laws.push(Law::of(name.as_deref(), tally, own, assumed_util));
            laws.names.push(name.clone());
        }
        laws
    }

    /// The place of a type, 0 if it is not known.
    #[must_use]
    pub fn place(&self, name: Option<&str>) -> u32 {
        let place = self.names.iter().position(|own| own.as_deref() == name).unwrap_or(0);
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
    fn names_of_models_are_told_apart() {
        let tdp = |name: &str| rating_of(name).map(|rating| rating.tdp_w);
        assert_eq!(tdp("NVIDIA A100-SXM4-80GB"), Some(400.0));
        assert_eq!(tdp("NVIDIA A100-PCIE-40GB"), Some(300.0));
        assert_eq!((tdp("NVIDIA A10"), tdp("NVIDIA L4"), tdp("NVIDIA L40S")), (Some(150.0), Some(72.0), Some(350.0)));
        assert_eq!((tdp("NVIDIA H100 80GB HBM3"), tdp("NVIDIA H100 PCIe")), (Some(700.0), Some(350.0)));
        assert_eq!((tdp("Tesla V100-SXM2-32GB"), tdp("Tesla T4"), tdp("a100")), (Some(300.0), Some(70.0), Some(400.0)));
        assert_eq!((tdp("NVIDIA GH200 480GB"), tdp("GeForce GTX 1080"), tdp("")), (Some(1_000.0), None, None));
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
        let law = Law::of(Some("A100"), &tally, None, None);
        assert_eq!(
            (law.idle_w, law.most_w, law.busy_w, law.mean_w),
            (Some(60.0), Some(400.0), Some(200.0), Some(130.0))
        );
        // Between the readings 60 + (200 - 60) / 2 at 25 %; above, half of the way from 200 W to the TDP at 75 %.
        assert_eq!(
            (law.at(0.25), law.at(0.5), law.at(0.75), law.at(2.0)),
            (Some(130.0), Some(200.0), Some(300.0), Some(400.0))
        );
        assert!((law.at(0.255).unwrap() - 131.4).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_assumed_of_an_unknown_type() {
        let law = Law::of(Some("X"), &Tally::default(), None, Some(0.5));
        assert_eq!((law.idle_w, law.most_w, law.in_state(Some(true)), law.at(0.5)), (None, None, None, None));
        let given = Given { idle_w: Some(50.0), tdp_w: Some(250.0) };
        // 50 + (250 - 50) · 0.3.
        let law = Law::of(None, &Tally::default(), Some(given), Some(0.3));
        assert_eq!(
            (law.in_state(Some(true)), law.in_state(Some(false)), law.in_state(None)),
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
