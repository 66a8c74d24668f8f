//! How fast a job type runs on a number of GPUs that was not measured.
//!
//! From the rates r₁ … of other numbers of GPUs n₁ < n₂ < … of the same job type and GPU type:
//!
//! ```text
//! proportional   r(m) · n / m                        m the nearest measured number, the smaller of two
//! between        log r on a line in log n            between the two measured numbers around n, or through the two nearest where n is beyond all
//! share          1 / r(n) = a + b / n, a, b ≥ 0      least squares of relative errors: a part of a step's time shrinks with n and a part does not (Amdahl; of Ernest's terms the first two)
//! ```
//!
//! Which of them is used for a job type is chosen on other families of job types: each measured number of GPUs is hidden in turn and forecast from the rest, and the way with the least mean |log error| is taken, for numbers between others and for numbers beyond all apart. The tenth part
//! of these errors that was worst says how much slower the truth may be: deadlines go by the forecast times that **margin**.
//!
//! O(measured²) once. Worked example: 1 GPU makes 10 steps a second and 4 make 30. Of 2 GPUs, `proportional` says 20, `between` √(10 · 30) = 17.3, and `share` with a = 0.0111 and b = 0.0889 18.0.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::{quantile, sum};
use tracecast_predictors::interference::rates::GangRate;
use tracecast_predictors::interference::table::family_of_name;

/// Share of the errors that are worse than the margin.
const WORST: f64 = 0.1;
/// Fewest errors that a margin is taken from.
const FEWEST: usize = 5;
/// The margin where there are fewer: as if half as fast.
const UNTESTED: f64 = 0.5;
/// How many times the greatest measured number of GPUs a forecast may reach.
const FURTHEST: u32 = 2;

/// A way to forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScalingModel {
    /// In proportion to the number of GPUs, from the nearest measured number.
    Proportional,
    /// A line through the logs of two neighbours.
    Between,
    /// A part of each step shrinks with the number of GPUs.
    Share,
}

impl ScalingModel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Proportional, Self::Between, Self::Share];

    /// Name of the model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proportional => "proportional",
            Self::Between => "between",
            Self::Share => "share",
        }
    }

    /// Steps a second on `gpus` GPUs, from measured numbers of GPUs in rising order; `None` without any. O(points).
    pub fn rate(self, points: &[(u32, f64)], gpus: u32) -> Option<f64> {
        let n = f64::from(gpus);
        let (first, last) = (points.first()?, points.last()?);
        let above = points.iter().position(|(measured, _)| *measured > gpus);
        match self {
            Self::Proportional => {
                let near = points.iter().min_by_key(|(measured, _)| measured.abs_diff(gpus))?;
                Some(near.1 * n / f64::from(near.0))
            }
            Self::Between => {
                let (low, high) = match above {
                    _ if points.len() == 1 => return Some(first.1 * n / f64::from(first.0)),
                    Some(0) => (first, points.get(1)?),
                    Some(at) => (points.get(at - 1)?, points.get(at)?),
                    None => (points.get(points.len() - 2)?, last),
                };
                let slope = (high.1 / low.1).ln() / (f64::from(high.0) / f64::from(low.0)).ln();
                // Rates that fall or rise beyond all sense stay numbers.
                Some((low.1 * (n / f64::from(low.0)).powf(slope)).clamp(f64::MIN_POSITIVE, f64::MAX))
            }
            Self::Share => {
                let (a, b) = share(points);
                let seconds = a + b / n;
                (seconds > 0.0).then(|| 1.0 / seconds)
            }
        }
    }
}

/// The parts of a step's time, seconds: that which stays and that which is divided among GPUs; neither below 0.
fn share(points: &[(u32, f64)]) -> (f64, f64) {
    // Rows (r, r / n) that shall be 1.
    let rows: Vec<(f64, f64)> = points.iter().map(|(gpus, rate)| (*rate, rate / f64::from(*gpus))).collect();
    let total = |of: &dyn Fn(&(f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
    let (aa, ab, bb) = (total(&|row| row.0 * row.0), total(&|row| row.0 * row.1), total(&|row| row.1 * row.1));
    let (a1, b1) = (total(&|row| row.0), total(&|row| row.1));
    let determinant = aa * bb - ab * ab;
    let alone = (a1 / aa, b1 / bb);
    if determinant > 1e-12 * aa * bb {
        let (a, b) = ((a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant);
        if a >= 0.0 && b >= 0.0 {
            return (a, b);
        }
    }
    // With one of them held at 0, the other that leaves less.
    let left = |a: f64, b: f64| rows.iter().map(|row| (a * row.0 + b * row.1 - 1.0).powi(2)).sum::<f64>();
    if left(0.0, alone.1) <= left(alone.0, 0.0) { (0.0, alone.1) } else { (alone.0, 0.0) }
}

/// Where a number of GPUs lies among those that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateBasis {
    /// Measured.
    Measured,
    /// Between two measured numbers.
    Inside,
    /// Above all measured numbers.
    Beyond,
    /// On several machines, measured with each GPU on a machine of its own.
    Apart,
}

impl RateBasis {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Inside => "forecast between",
            Self::Beyond => "forecast beyond",
            Self::Apart => "measured apart",
        }
    }

    /// Whether it is a forecast.
    pub fn is_forecast(self) -> bool {
        matches!(self, Self::Inside | Self::Beyond)
    }
}

/// How fast, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownRate {
    /// Steps a second.
    pub steps_per_s: f64,
    /// Steps a second with the margin of forecasts: what is compared with deadlines.
    pub safe_steps_per_s: f64,
    /// How it is known.
    pub basis: RateBasis,
}

/// What is chosen for each family.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingChoices(BTreeMap<String, ScalingChoice>);

impl ScalingChoices {
    /// Choice for a job type; for an unknown family, a line between neighbours without a margin.
    pub fn of(&self, job: &str) -> ScalingChoice {
        let result = self.0.get(family_of_name(job));
        result.copied().unwrap_or_else(|| ScalingChoice::bare(ScalingModel::Between))
    }
}

/// By GPU type and job type: measured numbers of GPUs in rising order, with steps a second above 0.
type Measured = BTreeMap<(String, String), Vec<(u32, f64)>>;

/// The rates of job types on GPU types, and forecasts of others.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingTable {
    measured: Measured,
    /// Rates with each GPU on a separate machine; 0 where a gang does not run so.
    apart: Measured,
    /// GPU types, each once.
    gpu_types: Vec<String>,
}

/// A number of GPUs that was hidden and forecast from the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenRate {
    /// GPU type.
    pub gpu: String,
    /// Job type.
    pub job: String,
    /// GPUs.
    pub gpus: u32,
    /// Whether it lies between others or above all.
    pub basis: RateBasis,
    /// The truth, steps a second.
    pub steps_per_s: f64,
    /// The forecasts, in order of [`ScalingModel::ALL`].
    pub forecasts: [f64; ScalingModel::ALL.len()],
}

impl HiddenRate {
    /// ln(truth / forecast) of a way.
    pub fn error(&self, model: ScalingModel) -> f64 {
        let at = ScalingModel::ALL.iter().position(|known| *known == model).unwrap_or(0);
        (self.steps_per_s / self.forecasts.get(at).copied().unwrap_or(f64::NAN)).ln()
    }
}

/// What is chosen for the job types of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingChoice {
    /// The ways between and beyond measured numbers, and what their forecasts are multiplied by for deadlines, at most 1.
    ways: [(ScalingModel, f64); 2],
}

impl ScalingChoice {
    /// A way without a margin.
    pub fn bare(model: ScalingModel) -> Self {
        Self { ways: [(model, 1.0); 2] }
    }

    /// Returns the choice without margins.
    pub fn without_margins(self) -> Self {
        Self { ways: self.ways.map(|(model, _)| (model, 1.0)) }
    }

    /// Chosen on hidden rates: those of other families. Where too few of them lie between (or beyond) others, all of them count.
    pub fn new(hidden: &[&HiddenRate]) -> Self {
        let way = |basis: RateBasis| {
            let own: Vec<&HiddenRate> = hidden.iter().filter(|rate| rate.basis == basis).copied().collect();
            let such = if own.len() >= FEWEST { own } else { hidden.to_vec() };
            let missed = |model: ScalingModel| {
                let errors: Vec<f64> = such.iter().map(|rate| rate.error(model).abs()).collect();
                sum::mean(&errors).unwrap_or(f64::INFINITY)
            };
            let mut model = ScalingModel::Between;
            for other in ScalingModel::ALL {
                if missed(other) < missed(model) {
                    model = other;
                }
            }
            // Nothing says how far forecasts are off.
            if such.len() < FEWEST {
                return (model, UNTESTED);
            }
            let mut errors: Vec<f64> = such.iter().map(|rate| rate.error(model)).collect();
            let worst = quantile::quantiles_in_place(&mut errors, &[WORST]).pop().flatten().unwrap_or(0.0);
            (model, worst.exp().min(1.0))
        };
        Self { ways: [way(RateBasis::Inside), way(RateBasis::Beyond)] }
    }

    fn way(&self, basis: RateBasis) -> (ScalingModel, f64) {
        self.ways[usize::from(basis == RateBasis::Beyond)]
    }

    /// How numbers of GPUs are forecast that lie there.
    pub fn model(&self, basis: RateBasis) -> ScalingModel {
        self.way(basis).0
    }

    /// What a forecast is multiplied by for deadlines.
    pub fn margin(&self, basis: RateBasis) -> f64 {
        if basis.is_forecast() { self.way(basis).1 } else { 1.0 }
    }
}

impl ScalingTable {
    /// Builds the table from rates; a rate of 0 says that nothing runs.
    pub fn new(rates: &[GangRate]) -> Self {
        let mut measured: Measured = BTreeMap::new();
        for rate in rates.iter().filter(|rate| rate.steps_per_s > 0.0) {
            measured.entry((rate.gpu.clone(), rate.job.clone())).or_default().push((rate.gpus, rate.steps_per_s));
        }
        let mut apart: Measured = BTreeMap::new();
        for (rate, steps_per_s) in rates.iter().filter_map(|rate| Some((rate, rate.apart_steps_per_s?))) {
            apart.entry((rate.gpu.clone(), rate.job.clone())).or_default().push((rate.gpus, steps_per_s));
        }
        for points in measured.values_mut().chain(apart.values_mut()) {
            points.sort_by_key(|(gpus, _)| *gpus);
            points.dedup_by_key(|(gpus, _)| *gpus);
        }
        Self::with(measured, apart)
    }

    fn with(measured: Measured, apart: Measured) -> Self {
        // Keys are in order of GPU types.
        let mut gpu_types: Vec<String> = Vec::new();
        for (gpu, _) in measured.keys() {
            if gpu_types.last() != Some(gpu) {
                gpu_types.push(gpu.clone());
            }
        }
        Self { measured, apart, gpu_types }
    }

    /// Returns the table without what was measured on separate machines.
    pub fn without_apart(&self) -> Self {
        Self { apart: BTreeMap::new(), ..self.clone() }
    }

    /// Job types, each once.
    pub fn jobs(&self) -> BTreeSet<&str> {
        self.measured.keys().map(|(_, job)| job.as_str()).collect()
    }

    /// GPU types, each once.
    pub fn gpu_types(&self) -> &[String] {
        &self.gpu_types
    }

    /// Measured numbers of GPUs of a job type, with steps a second.
    pub fn points(&self, gpu: &str, job: &str) -> &[(u32, f64)] {
        self.measured.get(&(gpu.to_owned(), job.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Numbers of GPUs of which it was measured how fast a job type runs with each on a machine of its own, with steps a second; 0 where it does not.
    pub fn apart(&self, gpu: &str, job: &str) -> &[(u32, f64)] {
        self.apart.get(&(gpu.to_owned(), job.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// The rates of each family of job types, as a table of its own. O(rates).
    pub fn by_family(&self) -> BTreeMap<&str, Self> {
        let mut result: BTreeMap<&str, (Measured, Measured)> = BTreeMap::new();
        for (key, points) in &self.measured {
            result.entry(family_of_name(&key.1)).or_default().0.insert(key.clone(), points.clone());
        }
        for (key, points) in &self.apart {
            result.entry(family_of_name(&key.1)).or_default().1.insert(key.clone(), points.clone());
        }
        result.into_iter().map(|(family, (measured, apart))| (family, Self::with(measured, apart))).collect()
    }

    /// Returns the table with the least and the greatest number of GPUs alone.
    pub fn ends(&self) -> Self {
        let mut result = self.clone();
        for (key, points) in &mut result.measured {
            let ends = [points.first(), points.last()].map(|end| end.map(|end| end.0));
            points.retain(|(gpus, _)| ends.contains(&Some(*gpus)));
            if let Some(apart) = result.apart.get_mut(key) {
                apart.retain(|(gpus, _)| ends.contains(&Some(*gpus)));
            }
        }
        result
    }

    /// How fast a job type runs on some GPUs of machines that have `each`: on one of these, or [across](Self::across) several.
    pub fn on(&self, gpu: &str, job: &str, (gpus, each): (u32, u32), choice: &ScalingChoice) -> Option<KnownRate> {
        if gpus > each { self.across(gpu, job, (gpus, each == 1), choice) } else { self.rate(gpu, job, gpus, choice) }
    }

    /// How fast a job type runs on some GPUs of several machines: as with each GPU on a machine of its own, which is exact where machines have one GPU (`single`), and else at most as on one machine. `None` where that was not measured. Of a job type of
    /// which nothing was measured so on that GPU type, as on one machine.
    pub fn across(
        &self,
        gpu: &str,
        job: &str,
        (gpus, single): (u32, bool),
        choice: &ScalingChoice,
    ) -> Option<KnownRate> {
        let within = self.rate(gpu, job, gpus, choice);
        // Numbers that a test hides are as unknown as unmeasured ones, for a job type that was
        // measured apart.
        let Some(apart) = self.apart.get(&(gpu.to_owned(), job.to_owned())) else { return within };
        let (_, measured) = apart.iter().find(|(measured, rate)| *measured == gpus && *rate > 0.0)?;
        let most = within.filter(|rate| !single && rate.basis == RateBasis::Measured);
        let steps_per_s = most.map_or(*measured, |most| measured.min(most.steps_per_s));
        Some(KnownRate { steps_per_s, safe_steps_per_s: steps_per_s, basis: RateBasis::Apart })
    }

    /// How fast a job type runs on some GPUs; `None` where it was not measured on that type, or that is further than a forecast may reach.
    pub fn rate(&self, gpu: &str, job: &str, gpus: u32, choice: &ScalingChoice) -> Option<KnownRate> {
        let points = self.points(gpu, job);
        if let Some((_, rate)) = points.iter().find(|(measured, _)| *measured == gpus) {
            return Some(KnownRate { steps_per_s: *rate, safe_steps_per_s: *rate, basis: RateBasis::Measured });
        }
        let (least, most) = (points.first()?.0, points.last()?.0);
        let basis = if gpus < most { RateBasis::Inside } else { RateBasis::Beyond };
        if gpus < least || gpus > most.saturating_mul(FURTHEST) || points.len() < 2 {
            return None;
        }
        let steps_per_s = choice.model(basis).rate(points, gpus)?;
        Some(KnownRate { steps_per_s, safe_steps_per_s: steps_per_s * choice.margin(basis), basis })
    }

    /// Every measured number of GPUs but the least, hidden in turn, where two others are left. O(measured²).
    pub fn hidden(&self) -> Vec<HiddenRate> {
        let mut result = Vec::new();
        for ((gpu, job), points) in self.measured.iter().filter(|(_, points)| points.len() >= 3) {
            for (at, (gpus, steps_per_s)) in points.iter().enumerate().skip(1) {
                let rest: Vec<(u32, f64)> = points.iter().filter(|(other, _)| other != gpus).copied().collect();
                let forecasts = ScalingModel::ALL.map(|model| model.rate(&rest, *gpus).unwrap_or(f64::NAN));
                let basis = if at + 1 == points.len() { RateBasis::Beyond } else { RateBasis::Inside };
                let (gpu, job) = (gpu.clone(), job.clone());
                result.push(HiddenRate { gpu, job, gpus: *gpus, basis, steps_per_s: *steps_per_s, forecasts });
            }
        }
        result
    }

    /// What is chosen for the job types of each family, on the hidden rates of the others. O(families × hidden rates).
    pub fn choices(&self, hidden: &[HiddenRate]) -> ScalingChoices {
        let of = |family: &str| {
            let others: Vec<&HiddenRate> = hidden.iter().filter(|rate| family_of_name(&rate.job) != family).collect();
            (family.to_owned(), ScalingChoice::new(&others))
        };
        let families: BTreeSet<&str> = self.measured.keys().map(|(_, job)| family_of_name(job)).collect();
        ScalingChoices(families.into_iter().map(of).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::instances) fn rate(gpu: &str, job: &str, gpus: u32, steps_per_s: f64) -> GangRate {
        GangRate { gpu: gpu.to_owned(), job: job.to_owned(), gpus, steps_per_s, apart_steps_per_s: None }
    }

    #[test]
    fn across_machines_it_is_as_measured_there() {
        let apart =
            |gpus, steps_per_s, apart| GangRate { apart_steps_per_s: Some(apart), ..rate("v", "a", gpus, steps_per_s) };
        let rates = [
            rate("v", "a", 1, 10.0),
            apart(2, 18.0, 19.0),
            apart(4, 30.0, 12.0),
            apart(8, 60.0, 0.0),
            rate("v", "b", 2, 5.0),
        ];
        let table = ScalingTable::new(&rates);
        let choice = ScalingChoice::bare(ScalingModel::Between);
        let of = |job: &str, gpus: u32, single: bool| {
            table.across("v", job, (gpus, single), &choice).map(|rate| (rate.steps_per_s, rate.basis))
        };
        // Two that are apart were a little faster than two together: of machines with several GPUs nobody should count on it.
        assert_eq!(of("a", 2, true), Some((19.0, RateBasis::Apart)));
        assert_eq!(of("a", 2, false), Some((18.0, RateBasis::Apart)));
        assert_eq!(of("a", 4, false), Some((12.0, RateBasis::Apart)));
        // Eight do not run apart, and sixteen were not measured so.
        assert_eq!([of("a", 8, true), of("a", 16, true)], [None; 2]);
        // Of b nothing is known apart.
        assert_eq!(of("b", 2, true), Some((5.0, RateBasis::Measured)));
        assert_eq!(table.without_apart().across("v", "a", (8, true), &choice).map(|rate| rate.steps_per_s), Some(60.0));
        assert_eq!((table.by_family()["a"].apart("v", "a").len(), table.ends().apart("v", "a").len()), (3, 1));
        // With 2 and 4 hidden nothing is known apart, and one machine does not stand in for several.
        let few = ScalingTable::new(&[rates[0].clone(), rates[1].clone(), rates[2].clone(), rate("v", "a", 8, 60.0)]);
        assert_eq!(few.ends().across("v", "a", (8, true), &choice), None);
    }

    #[test]
    fn the_worked_example() {
        let points = [(1, 10.0), (4, 30.0)];
        let of = |model: ScalingModel| model.rate(&points, 2).unwrap();
        assert!((of(ScalingModel::Proportional) - 20.0).abs() < 1e-9);
        assert!((of(ScalingModel::Between) - 300f64.sqrt()).abs() < 1e-9);
        // 1/10 = a + b and 1/30 = a + b/4.
        assert!((of(ScalingModel::Share) - 18.0).abs() < 1e-9);
        let (a, b) = share(&points);
        assert!((a - 1.0 / 90.0).abs() < 1e-9 && (b - 8.0 / 90.0).abs() < 1e-9);
    }

    #[test]
    fn parts_of_a_step_are_never_below_nothing() {
        // Faster than in proportion: the part that stays would be negative.
        assert_eq!(share(&[(1, 10.0), (2, 30.0)]).0, 0.0);
        // Slower with more GPUs: the part that is divided would be.
        assert_eq!(share(&[(1, 10.0), (2, 5.0)]).1, 0.0);
    }

    #[test]
    fn what_is_measured_is_told_and_what_is_too_far_is_not() {
        let table = ScalingTable::new(&[rate("v", "a", 2, 4.0), rate("v", "a", 8, 10.0), rate("v", "b", 1, 3.0)]);
        let choice = ScalingChoice { ways: [(ScalingModel::Between, 0.9), (ScalingModel::Between, 0.8)] };
        let of =
            |job: &str, gpus: u32| table.rate("v", job, gpus, &choice).map(|rate| (rate.basis, rate.safe_steps_per_s));
        assert_eq!(of("a", 8), Some((RateBasis::Measured, 10.0)));
        let (basis, safe) = of("a", 4).unwrap();
        assert!(basis == RateBasis::Inside && (safe - 0.9 * 40f64.sqrt()).abs() < 1e-9);
        assert_eq!(of("a", 16).unwrap().0, RateBasis::Beyond);
        // Fewer than any, more than twice the most, and one number alone, which says nothing of how the job scales.
        assert_eq!([of("a", 1), of("a", 17), of("b", 2)], [None; 3]);
    }

    #[test]
    fn a_way_is_chosen_on_other_families() {
        // Family a scales in proportion, family b as a share with a part that stays.
        let seconds = |gpus: u32| 0.05 + 0.05 / f64::from(gpus);
        let mut rates = Vec::new();
        for gpus in [1, 2, 4, 8] {
            rates.push(rate("v", "a (batch 1)", gpus, 3.0 * f64::from(gpus)));
            rates.push(rate("v", "b (batch 1)", gpus, 1.0 / seconds(gpus)));
            rates.push(rate("v", "b (batch 2)", gpus, 0.5 / seconds(gpus)));
        }
        let table = ScalingTable::new(&rates);
        let hidden = table.hidden();
        assert_eq!(hidden.len(), 9);
        let choices = table.choices(&hidden);
        assert_eq!(choices.of("a (batch 1)").model(RateBasis::Inside), ScalingModel::Share);
        // All ways are exact on what is in proportion, but three errors are too few for a margin.
        let of_b = choices.of("b (batch 1)");
        assert_eq!((of_b.margin(RateBasis::Inside), of_b.margin(RateBasis::Measured)), (0.5, 1.0));
        let of_b = &table.by_family()["b"];
        assert_eq!((of_b.jobs().len(), of_b.points("v", "a (batch 1)").len()), (2, 0));
        let ends = of_b.ends();
        assert_eq!(ends.points("v", "b (batch 2)").iter().map(|point| point.0).collect::<Vec<_>>(), [1, 8]);
    }

    /// Regression test: the line through 47 and 49 GPUs, carried on to one, was infinite.
    #[test]
    fn a_steep_line_stays_a_number() {
        for rates in [[6.35, 0.001], [0.001, 6.35]] {
            let result = ScalingModel::Between.rate(&[(47, rates[0]), (49, rates[1])], 1).unwrap();
            assert!(result.is_finite() && result > 0.0, "{result}");
        }
    }

    proptest! {
        /// Whatever was measured, forecasts are finite and above 0, and measured numbers are met by a line between neighbours.
        #[test]
        fn forecasts_are_rates(points in prop::collection::btree_map(1u32..64, 1e-3..1e3f64, 1..6), gpus in 1u32..128) {
            let points: Vec<(u32, f64)> = points.into_iter().collect();
            for model in ScalingModel::ALL {
                let result = model.rate(&points, gpus).unwrap();
                prop_assert!(result.is_finite() && result > 0.0, "{model:?} {result}");
            }
            for (measured, rate) in &points {
                let met = ScalingModel::Between.rate(&points, *measured).unwrap();
                prop_assert!((met / rate - 1.0).abs() < 1e-9);
            }
        }
    }
}
