//! Answers of a trained predictor: how much two jobs slow each other, and beside which of the running jobs a new one should go.
//!
//! ```text
//! expected progress   (1 − P(does not fit)) × (speed of one + speed of the other) + P(does not fit)
//! slowdown, 0.9       1 / (the lower of the two 0.05 quantiles of the speeds): both are faster than that with a chance of at least 0.95² = 0.90, as if they were
//!                     independent; where that quantile is as slow as anything that is forecast, there is no bound, and no number is told
//! share               expected progress > 1, slowdown within the SLO, and P(does not fit) within its bound
//! ```
//!
//! A GPU with one job makes a progress of 1. Where several run there already, theirs without the new one is what it must exceed. **Ranking**: the candidates that pass all three come first, then by how much expected
//! progress rises, the most first; of equals the first named. A GPU type on which no pair was measured is marked. Everything is a number but a slowdown without a bound: an unknown job type, GPU type or load widens the interval. A **refusal** names each limit that is broken, and the jobs that break it.
//!
//! O(candidates × members). Worked number: speeds of 0.80 and 0.75 and a chance of 0.02 not to fit give an expected progress of 0.98 × 1.55 + 0.02 = 1.539; with 0.05
//! quantiles of 0.70 and 0.68 the slowdown is 1.47, and within an SLO of 1.5.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::committee::{PairForecast, SpeedForecast};
use super::predictor::{Basis, SharingJob, SharingPredictor};
use super::read;
use crate::error::{Error, Result};
use crate::sheet::{self, Sheet};

mod answer;
mod broken;
mod group;

pub use answer::{SCHEMA, SharingAnswer, json_schema};
use broken::bound;
pub use broken::{BrokenLimit, in_words};
pub use group::{GroupAnswer, GroupMember, group, joining};

/// Limits that sharing must keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SharingLimits {
    /// Largest slowdown of the worse of the two, as a factor, at the 0.9 quantile.
    pub slo: f64,
    /// Highest chance that the two do not fit.
    pub most_out_of_memory: f64,
    /// Expected progress that sharing must exceed, where one job alone makes 1.
    pub least_progress: f64,
}

impl Default for SharingLimits {
    fn default() -> Self {
        Self { slo: 1.5, most_out_of_memory: 0.05, least_progress: 1.0 }
    }
}

impl SharingLimits {
    /// Checks that they can be met at all.
    ///
    /// # Errors
    /// If the SLO is below 1, or the chance no share.
    pub fn check(&self) -> Result<()> {
        if !(self.slo.is_finite() && self.slo >= 1.0) {
            return Err(Error::Setting(format!(
                "an SLO of {} times as slow cannot be met; give at least 1, such as 1.5",
                self.slo
            )));
        }
        if !(0.0..=1.0).contains(&self.most_out_of_memory) {
            return Err(Error::Setting(format!(
                "a chance of {} is none; give a share from 0 to 1, such as 0.05",
                self.most_out_of_memory
            )));
        }
        if !(self.least_progress.is_finite() && self.least_progress >= 0.0) {
            return Err(Error::Setting(format!(
                "a progress of {} is none; give a number such as 1",
                self.least_progress
            )));
        }
        Ok(())
    }

    /// Worst reason that keeps two jobs from sharing; `None` if there is none. A slowdown without a
    /// bound keeps no SLO.
    pub fn refusal(&self, progress: f64, slowdown90: Option<f64>, out_of_memory: f64) -> Option<Refused> {
        // The memory first: who does not fit makes no progress to speak of.
        if out_of_memory > self.most_out_of_memory {
            Some(Refused::OutOfMemory)
        } else if slowdown90.is_none_or(|slowdown| slowdown > self.slo) {
            Some(Refused::Slowdown)
        } else if progress <= self.least_progress {
            Some(Refused::Progress)
        } else {
            None
        }
    }
}

/// Why two jobs should not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// The jobs may not fit.
    OutOfMemory,
    /// The worse job may be slower than the SLO.
    Slowdown,
    /// Together they make no more progress than one alone.
    Progress,
}

/// Speed of one job beside the other, as a share of its speed alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SpeedAnswer {
    /// Expected speed.
    pub mean: f64,
    /// Quantiles.
    pub p05: f64,
    /// 10 %.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
}

impl From<&SpeedForecast> for SpeedAnswer {
    fn from(told: &SpeedForecast) -> Self {
        let [p05, p10, p50, p90, p95] = told.quantiles;
        Self { mean: told.mean, p05, p10, p50, p90, p95 }
    }
}

/// The answer about two jobs on a GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PairAnswer {
    /// GPU type.
    pub gpu_type: String,
    /// Whether any pair was measured on the GPU type; else the answer is carried over from others,
    /// or a guess.
    pub gpu_type_measured: bool,
    /// Job type of the first.
    pub job_a: String,
    /// Job type of the second.
    pub job_b: String,
    /// Identifier of the second, where it was given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Speed of the first beside the second.
    pub speed_a: SpeedAnswer,
    /// Speed of the second beside the first.
    pub speed_b: SpeedAnswer,
    /// Chance that the two do not fit.
    pub out_of_memory: f64,
    /// Expected progress of both, where one alone makes 1.
    pub expected_progress: f64,
    /// Slowdown of the worse of the two, as a factor, at the 0.9 quantile; null where too little is
    /// known to bound it.
    pub slowdown90: Option<f64>,
    /// Whether to share, within the limits.
    pub share: bool,
    /// Why not: the worst of `broken`.
    pub refused: Option<Refused>,
    /// Limits that are not kept, and by which of the two.
    pub broken: Vec<BrokenLimit>,
    /// Basis of the answer.
    pub basis: Basis,
}

/// The speed that a job exceeds with a chance of 95 %.
fn low(of: &SpeedForecast) -> f64 {
    of.quantiles.first().copied().unwrap_or_default()
}

/// Expected progress and the 0.9 quantile of the slowdown of the worse, where that has a bound.
pub fn merit(told: &PairForecast) -> (f64, Option<f64>) {
    merit_of(told.a.mean + told.b.mean, [low(&told.a), low(&told.b)].into_iter(), told.out_of_memory)
}

/// Expected progress and bound on the slowdown of jobs whose expected speeds sum to `speeds`, and
/// that all exceed `low` with a chance of 90 %.
fn merit_of(speeds: f64, low: impl Iterator<Item = f64>, out_of_memory: f64) -> (f64, Option<f64>) {
    let progress = (1.0 - out_of_memory) * speeds + out_of_memory;
    (progress, low.reduce(f64::min).map_or(Some(1.0), bound))
}

/// The answer about two jobs.
pub fn pair(
    predictor: &SharingPredictor,
    gpu_type: &str,
    a: &SharingJob,
    b: &SharingJob,
    limits: &SharingLimits,
) -> PairAnswer {
    let gpu_type = predictor.gpu_type(gpu_type);
    let (told, basis) = predictor.pair(gpu_type, a, b);
    let (expected_progress, slowdown90) = merit(&told);
    let lows = [(a.job_type.as_str(), low(&told.a)), (b.job_type.as_str(), low(&told.b))];
    let broken = BrokenLimit::all(limits, basis, (expected_progress, told.out_of_memory), &lows);
    PairAnswer {
        gpu_type: gpu_type.to_owned(),
        gpu_type_measured: predictor.is_measured_on(gpu_type),
        job_a: a.job_type.clone(),
        job_b: b.job_type.clone(),
        id: None,
        speed_a: SpeedAnswer::from(&told.a),
        speed_b: SpeedAnswer::from(&told.b),
        out_of_memory: told.out_of_memory,
        expected_progress,
        slowdown90,
        share: broken.is_empty(),
        refused: broken.first().map(|worst| worst.limit),
        broken,
        basis,
    }
}

/// Puts answers in order of rank.
pub fn rank(answers: &mut [PairAnswer]) {
    answers.sort_by(|one, other| {
        other.share.cmp(&one.share).then(other.expected_progress.total_cmp(&one.expected_progress))
    });
}

/// Couples of jobs to be asked about, in a CSV with the columns `gpu_type,job_a,job_b`, and where known `family_a`, `family_b` and what was seen of
/// either: a column of the profiles with `_a` or `_b` at its end, such as `sm_util_pct_a`.
///
/// # Errors
/// If the file cannot be read, or is not what it should be.
pub fn read_couples(path: &Path) -> Result<Vec<(String, SharingJob, SharingJob)>> {
    let content = sheet::text(path)?;
    let sheet = Sheet::open(path, &content)?;
    let needed = ["gpu_type", "job_a", "job_b"];
    sheet.needs(&needed, &format!("name a file with the columns {}", needed.join(", ")))?;
    let mut result = Vec::new();
    let ends = [("job_a", "family_a", "_a"), ("job_b", "family_b", "_b")];
    let columns = read::quantities(&sheet, |column| {
        ends.iter().zip(0usize..).find_map(|((.., end), at)| Some((at, column.strip_suffix(end)?)))
    })?;
    sheet.rows(|row| {
        let mut jobs = [SharingJob::default(), SharingJob::default()];
        for (job, (name, family, _)) in jobs.iter_mut().zip(ends) {
            row.name(name)?.clone_into(&mut job.job_type);
            job.family = Some(row.cell(family)).filter(|cell| !cell.is_empty()).map(str::to_owned);
        }
        for (column, at, quantity) in &columns {
            let value = read::quantity(row, column, *quantity)?;
            if let Some(job) = jobs.get_mut(*at) {
                job.seen.set(*quantity, value);
            }
        }
        let [a, b] = jobs;
        result.push((row.name("gpu_type")?.to_owned(), a, b));
        Ok(())
    })?;
    if result.is_empty() {
        return Err(Error::TooFew(format!("{}: there is no row in it", path.display())));
    }
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::slice::{SlicePredictor, SliceTable};
    use super::super::table::{JobProfile, Quantity, SharedPair, SharingTable, Speeds};
    use super::*;

    /// Three families of two job types with utilisation and memory; the pair of the two largest does not fit, and one pair is left unmeasured.
    fn world() -> SharingTable {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("g");
        let mut pairs = Vec::new();
        for at in 0..6usize {
            let job = table.job(&format!("m{} (batch size {})", at / 2, 8 << (at % 2)));
            let load = 20.0 + 12.0 * at as f64;
            let profile = JobProfile::default().with(Quantity::SmUtilPct, load);
            table.set_profile(gpu, job, &profile.with(Quantity::MemoryMb, 1000.0 + 1500.0 * at as f64));
        }
        for a in 0..6usize {
            for b in a..6usize {
                let (x, y) = (0.2 + 0.12 * a as f64, 0.2 + 0.12 * b as f64);
                let speed = |own: f64, other: f64| 1.0 - 0.25 * other - 0.1 * own;
                let speeds = (a + b < 10).then(|| Speeds { a: speed(x, y), b: speed(y, x) });
                if (a, b) != (0, 5) {
                    pairs.push(SharedPair { gpu, a, b, speeds });
                }
            }
        }
        table.add_pairs(pairs);
        table.sorted()
    }

    fn trained() -> SharingPredictor {
        SharingPredictor::train(&world(), 1).unwrap()
    }

    #[test]
    fn a_saved_predictor_answers_the_same_and_damage_is_told() {
        let predictor = trained();
        let bytes = predictor.to_bytes().unwrap();
        let again = SharingPredictor::from_bytes("m", &bytes).unwrap();
        assert_eq!(predictor.trained(), again.trained());
        assert_eq!((again.trained().pairs, again.trained().did_not_fit, again.trained().families), (20, 1, 3));
        assert_eq!(again.trained().features, ["sm_util_pct", "memory_mb", "batch"][..2]);
        for a in predictor.job_types() {
            for b in predictor.job_types() {
                let ask = |of: &SharingPredictor| of.pair("g", &SharingJob::new(a), &SharingJob::new(b));
                let (one, other) = (ask(&predictor), ask(&again));
                assert!((one.0.a.mean - other.0.a.mean).abs() < 1e-12 && one.1 == other.1);
                for (x, y) in one.0.a.quantiles.iter().zip(other.0.a.quantiles) {
                    assert!((x - y).abs() < 1e-12);
                }
                assert!((one.0.out_of_memory - other.0.out_of_memory).abs() < 1e-12);
            }
        }
        // Bytes of the same training are the same.
        assert_eq!(trained().to_bytes().unwrap(), bytes);
        // A file of version 2 does not say which models forecast what, and is read.
        let older = predictor.to_bytes_of_version(2);
        let older = SharingPredictor::from_bytes("m", &older).unwrap();
        let told = older.pair("g", &SharingJob::new("m0 (batch size 8)"), &SharingJob::new("new")).0;
        assert!(told.a.mean > 0.0 && told.a.quantiles.is_sorted());
        let told = |bytes: &[u8]| SharingPredictor::from_bytes("m", bytes).unwrap_err().to_string();
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert!(told(&flipped).contains("`fits` is damaged"), "{}", told(&flipped));
        assert!(told(b"{}\n").contains("tracecast model train interference"));
    }

    /// Two GPU types and seven families, of which the larger jobs do not fit beside one another, so that the chance of it is calibrated; and slices.
    fn calibrated() -> SharingPredictor {
        let mut table = SharingTable::new();
        let mut pairs = Vec::new();
        for gpu in 0..2 {
            table.gpu_type(["g", "h"][gpu]);
            for b in 0..21 {
                table.job_of_family(&format!("j{b:02}"), &format!("f{}", b / 3));
                let size = |job: usize| (job / 3) as f64 + 0.3 * (job % 3) as f64;
                let speed = |own: usize| 0.9 - 0.03 * size(own);
                pairs.extend((0..=b).map(|a| {
                    let fits = size(a) + size(b) <= 9.0;
                    SharedPair { gpu, a, b, speeds: fits.then_some(Speeds { a: speed(b), b: speed(a) }) }
                }));
            }
        }
        table.add_pairs(pairs);
        let trained = SharingPredictor::train(&table.sorted(), 1).unwrap();
        let (steps, profiles) = crate::interference::slice::tests::world();
        let slices = SliceTable::read(steps.path(), profiles.path()).unwrap();
        trained.with_slices(SlicePredictor::train(&slices).unwrap())
    }

    /// Files of each earlier version answer as the program of that version did: what it does not say is left out of the answer, and all else is as it is now.
    #[test]
    fn files_of_every_version_answer_as_before() {
        let predictor = calibrated();
        assert_eq!(predictor.trained().oom_calibrated_gpu_types, ["g", "h"]);
        let stranger = |of: &SharingPredictor| of.pair("g", &SharingJob::new("new"), &SharingJob::new("j05")).0;
        let known = |of: &SharingPredictor| of.pair("h", &SharingJob::new("j01"), &SharingJob::new("j18")).0;
        let now = stranger(&predictor);
        let plain = predictor.to_bytes_with("fits", Some(b"[null,null]"));
        let plain = stranger(&SharingPredictor::from_bytes("m", &plain).unwrap()).out_of_memory;
        assert!((plain - now.out_of_memory).abs() > 1e-3, "{plain} {now:?}");
        for version in [3, 4, 5] {
            let bytes =
                if version == 5 { predictor.to_bytes().unwrap() } else { predictor.to_bytes_of_version(version) };
            let head =
                String::from_utf8_lossy(&bytes[..bytes.iter().position(|byte| *byte == b'\n').unwrap()]).into_owned();
            assert!(head.contains(&format!("\"version\":{version}")), "{head}");
            let read = SharingPredictor::from_bytes("m", &bytes).unwrap();
            let told = stranger(&read);
            let chance = if version == 5 { now.out_of_memory } else { plain };
            assert!((told.out_of_memory - chance).abs() < 1e-12, "{version}: {told:?} {chance}");
            // Which models forecast what is said since version 3.
            for (told, now) in [(told, now), (known(&read), known(&predictor))] {
                let values = |of: &PairForecast| [of.a.mean, of.b.mean, of.a.quantiles[0], of.b.quantiles[4]];
                let pairs = values(&told).into_iter().zip(values(&now));
                assert!(pairs.clone().all(|(told, now)| (told - now).abs() < 1e-12), "{version}: {told:?} {now:?}");
            }
            assert!((known(&read).out_of_memory - known(&predictor).out_of_memory).abs() < 1e-12);
            assert_eq!(
                read.slices().map(SlicePredictor::gpu_type),
                predictor.slices().map(SlicePredictor::gpu_type).filter(|_| version >= 4)
            );
            assert_eq!(read.trained().measured_gpu_types, ["g", "h"]);
            let calibrated = if version == 5 { 2 } else { 0 };
            assert_eq!(read.trained().oom_calibrated_gpu_types.len(), calibrated);
        }
        // A file of this version says of each GPU type whether it is calibrated.
        for (fits, told) in [
            (Some("[0.2]"), "it says of 1 GPU type how the chance not to fit is calibrated, and its table has 2"),
            (Some("[0.2,null,0.1]"), "it says of 3 GPU types how"),
            (Some("[]"), "it says of 0 GPU types how"),
            (None, "there is no section `fits`"),
        ] {
            let bytes = predictor.to_bytes_with("fits", fits.map(str::as_bytes));
            let error = SharingPredictor::from_bytes("m", &bytes).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("train another"), "{fits:?}: {error}");
        }
    }

    #[test]
    fn what_was_measured_is_answered_and_what_was_not_is_forecast_wider() {
        let predictor = trained();
        let job = |at: usize| SharingJob::new(format!("m{} (batch size {})", at / 2, 8 << (at % 2)));
        let (told, basis) = predictor.pair("g", &job(1), &job(3));
        assert_eq!(basis, Basis::Measured);
        let speed = |own: f64, other: f64| 1.0 - 0.25 * other - 0.1 * own;
        assert!((told.a.mean - speed(0.32, 0.56)).abs() < 1e-9 && (told.b.mean - speed(0.56, 0.32)).abs() < 1e-9);
        assert!(told.out_of_memory < 0.01);
        assert!(predictor.pair("g", &job(5), &job(5)).0.out_of_memory > 0.9);
        let width = |(told, _): (PairForecast, Basis)| told.a.quantiles[4] - told.a.quantiles[0];
        assert_eq!(predictor.pair("g", &job(0), &job(5)).1, Basis::JobTypes);
        // Less and less is known.
        let family = predictor.pair("g", &SharingJob::new("m0 (batch size 999)"), &job(5));
        let stranger = predictor.pair("g", &SharingJob::new("never seen"), &job(5));
        let nothing = predictor.pair("h", &job(0), &job(1));
        assert_eq!((family.1, stranger.1, nothing.1), (Basis::Family, Basis::Stranger, Basis::Nothing));
        let widths = [width(predictor.pair("g", &job(0), &job(5))), width(family), width(stranger), width(nothing)];
        assert!(widths.is_sorted(), "{widths:?}");
    }

    #[test]
    fn the_order_only_swaps_and_load_never_helps_whatever_is_unknown() {
        let predictor = trained();
        let names = ["m0 (batch size 8)", "m2 (batch size 16)", "m1", "other", ""];
        for gpu in ["g", "unknown"] {
            for a in names {
                for b in names {
                    let (x, y) = (SharingJob::new(a), SharingJob::new(b));
                    let (one, other) = (predictor.pair(gpu, &x, &y).0, predictor.pair(gpu, &y, &x).0);
                    assert_eq!((one.a, one.b), (other.b, other.a));
                    assert_eq!(one.out_of_memory.to_bits(), other.out_of_memory.to_bits());
                    let mut before: Option<PairForecast> = None;
                    for load in [0.0, 15.0, 40.0, 75.0, 100.0] {
                        let mut seen = x.clone();
                        seen.seen.set(Quantity::SmUtilPct, Some(load));
                        seen.seen.set(Quantity::MemoryMb, Some(load * 200.0));
                        let told = predictor.pair(gpu, &seen, &y).0;
                        let numbers = told.a.quantiles.iter().chain(&told.b.quantiles);
                        assert!(numbers.chain([&told.out_of_memory]).all(|number| number.is_finite()));
                        assert!(told.a.quantiles.is_sorted() && (0.0..=1.0).contains(&told.out_of_memory));
                        if let Some(before) = before {
                            let falls = |now: &SpeedForecast, then: &SpeedForecast| {
                                now.mean <= then.mean + 1e-12
                                    && now.quantiles.iter().zip(then.quantiles).all(|(now, then)| *now <= then + 1e-12)
                            };
                            assert!(falls(&told.a, &before.a) && falls(&told.b, &before.b), "{a} {b} {load}");
                            assert!(told.out_of_memory >= before.out_of_memory - 1e-12);
                        }
                        before = Some(told);
                    }
                }
            }
        }
    }

    /// A group of two jobs is the pair; in any order it is the same; a further job, or more load or
    /// memory of any, makes nobody faster and no group fit better; all are numbers.
    #[test]
    fn groups_are_the_same_in_any_order_and_never_gain_by_a_job_or_a_load() {
        let predictor = trained();
        let names = ["m0 (batch size 8)", "m2 (batch size 16)", "m1", "other", "m1 (batch size 8)"];
        let jobs: Vec<SharingJob> = names.iter().map(|name| SharingJob::new(*name)).collect();
        for gpu in ["g", "unknown"] {
            for (a, b) in (0..5).flat_map(|a| (0..5).map(move |b| (a, b))) {
                let (pair, basis) = predictor.pair(gpu, &jobs[a], &jobs[b]);
                let (group, of_group) = predictor.group(gpu, &[jobs[a].clone(), jobs[b].clone()]);
                assert_eq!((group.speeds, basis), (vec![pair.a, pair.b], of_group));
                assert_eq!(group.out_of_memory.to_bits(), pair.out_of_memory.to_bits());
            }
            let alone = predictor.group(gpu, &jobs[..1]).0;
            assert_eq!((alone.speeds[0].mean, alone.low[0], alone.out_of_memory), (1.0, 1.0, 0.0));
            for count in 3..=5 {
                let (told, _) = predictor.group(gpu, &jobs[..count]);
                let numbers = told.speeds.iter().flat_map(|speed| speed.quantiles).chain(told.low.iter().copied());
                assert!(numbers.chain([told.out_of_memory]).all(|number| (0.0..=1.0).contains(&number)));
                assert!(
                    told.speeds
                        .iter()
                        .zip(&told.low)
                        .all(|(speed, low)| speed.quantiles.is_sorted() && *low <= speed.quantiles[0])
                );
                let mut turned = jobs[..count].to_vec();
                turned.rotate_left(2);
                turned.swap(0, 1);
                let other = predictor.group(gpu, &turned).0;
                assert_eq!(told.out_of_memory.to_bits(), other.out_of_memory.to_bits());
                for (job, speed) in jobs[..count].iter().zip(&told.speeds) {
                    let at = turned.iter().position(|other| other == job).unwrap();
                    assert_eq!(*speed, other.speeds[at]);
                }
                // One fewer.
                let before = predictor.group(gpu, &jobs[..count - 1]).0;
                assert!(before.out_of_memory <= told.out_of_memory);
                assert!(
                    before.speeds.iter().zip(&told.speeds).all(|(then, now)| now.mean <= then.mean.min(1.0) + 1e-12)
                );
                // More load and more memory of one.
                let mut then = told;
                for load in [0.0, 15.0, 40.0, 75.0, 100.0] {
                    let mut loaded = jobs[..count].to_vec();
                    loaded[1].seen.set(Quantity::SmUtilPct, Some(load));
                    loaded[1].seen.set(Quantity::MemoryMb, Some(load * 200.0));
                    let now = predictor.group(gpu, &loaded).0;
                    if load > 0.0 {
                        assert!(now.out_of_memory >= then.out_of_memory - 1e-12, "{gpu} {count} {load}");
                        for (now, then) in now.speeds.iter().zip(&then.speeds) {
                            assert!(now.mean <= then.mean + 1e-12);
                            assert!(now.quantiles.iter().zip(then.quantiles).all(|(now, then)| *now <= then + 1e-12));
                        }
                    }
                    then = now;
                }
            }
        }
    }

    /// Three jobs of which every two fit, but not all three: their memory together is known to be more than the GPU has.
    #[test]
    fn what_fits_in_twos_need_not_fit_in_threes() {
        let mut table = world();
        for job in 0..6 {
            table.set_profile(0, job, &JobProfile::default().with(Quantity::GpuMemoryMb, 16_000.0));
        }
        let predictor = SharingPredictor::train(&table, 1).unwrap();
        // 7,000 MB each.
        let job = || SharingJob::new("m2 (batch size 8)");
        let of = |count: usize| predictor.group("g", &vec![job(); count]).0;
        assert!(of(2).out_of_memory < 0.05 && of(2).is_memory_known, "{:?}", of(2));
        assert!(of(3).out_of_memory > 0.5, "{:?}", of(3));
        let limits = SharingLimits { slo: 100.0, ..SharingLimits::default() };
        let told = group(&predictor, "g", &vec![job(); 3], &limits);
        assert_eq!((told.refused, told.composed_from_pairs), (Some(Refused::OutOfMemory), true));
        let stranger =
            predictor.group("g", &[SharingJob::new("m0 (batch size 8)"), SharingJob::new("x"), SharingJob::new("x")]).0;
        assert!(!stranger.is_memory_known);
    }

    /// Regression test: a GPU type with profiles alone was answered as if pairs had been measured
    /// there.
    #[test]
    fn a_gpu_type_without_pairs_is_marked_and_its_error_is_told() {
        let mut table = world();
        let second = table.gpu_type("h");
        let pairs: Vec<SharedPair> = table.pairs().iter().map(|pair| SharedPair { gpu: second, ..*pair }).collect();
        table.add_pairs(pairs);
        let bare = table.gpu_type("i");
        table.set_profile(bare, 0, &JobProfile::default().with(Quantity::SmUtilPct, 30.0));
        let table = table.sorted();
        let predictor = SharingPredictor::train(&table, 1).unwrap().tested_elsewhere(&table);
        let trained = predictor.trained();
        assert_eq!((trained.gpu_types.len(), &trained.measured_gpu_types), (3, &vec!["g".to_owned(), "h".to_owned()]));
        // Both GPU types are alike.
        assert!(trained.gpu_type_left_out_mae.is_some_and(|mae| mae < 0.05), "{trained:?}");
        let (limits, a, b) =
            (SharingLimits::default(), SharingJob::new("m0 (batch size 8)"), SharingJob::new("m1 (batch size 8)"));
        let told = |gpu: &str| pair(&predictor, gpu, &a, &b, &limits);
        assert_eq!(
            (told("H").gpu_type_measured, told("H").basis, predictor.unmeasured("H")),
            (true, Basis::Measured, None)
        );
        assert_eq!((told("i").gpu_type_measured, told("i").basis), (false, Basis::OtherGpuTypes));
        assert_eq!((told("j").gpu_type_measured, told("j").basis), (false, Basis::Nothing));
        let answer = SharingAnswer::new(&predictor, limits, vec![told("g"), told("i"), told("i"), told("j")]);
        assert_eq!(answer.warnings.len(), 2);
        let first = &answer.report(Vec::new()).summary[0];
        let missed = format!("were missed by {:.3} of the speed alone", trained.gpu_type_left_out_mae.unwrap());
        assert!(
            first.starts_with("**No pair was measured on GPU type i**; pairs were measured on g, h.")
                && first.contains(&missed),
            "{first}"
        );
        // Files of earlier versions do not say how far it is off, and say all else.
        let older = SharingPredictor::from_bytes("m", &predictor.to_bytes_of_version(2)).unwrap();
        assert_eq!(
            (&older.trained().measured_gpu_types, older.trained().gpu_type_left_out_mae),
            (&trained.measured_gpu_types, None)
        );
        assert!(older.unmeasured("i").is_some_and(|told| !told.contains("missed")));
    }

    #[test]
    fn candidates_are_ranked_and_refused_for_a_reason() {
        let predictor = trained();
        let limits = SharingLimits::default();
        let new = SharingJob::new("m0 (batch size 16)");
        let mut answers: Vec<PairAnswer> = ["m2 (batch size 16)", "m0 (batch size 8)", "other"]
            .iter()
            .map(|name| pair(&predictor, "g", &new, &SharingJob::new(*name), &limits))
            .collect();
        rank(&mut answers);
        assert_eq!(answers[0].job_b, "m0 (batch size 8)");
        assert!(answers[0].share && answers[0].expected_progress > 1.5, "{:?}", answers[0]);
        let tight = SharingLimits { slo: 1.01, ..limits };
        assert_eq!(pair(&predictor, "g", &new, &new, &tight).refused, Some(Refused::Slowdown));
        let full = pair(
            &predictor,
            "g",
            &SharingJob::new("m2 (batch size 16)"),
            &SharingJob::new("m2 (batch size 16)"),
            &limits,
        );
        assert_eq!(full.refused, Some(Refused::OutOfMemory));
        let answer = SharingAnswer::new(&predictor, limits, answers);
        assert_eq!(String::from_utf8(answer.csv().unwrap()).unwrap().lines().count(), 4);
        assert!(SharingLimits { slo: 0.9, ..limits }.check().is_err() && limits.check().is_ok());
        // The worked number.
        let speed =
            |mean: f64, low: f64| SpeedForecast { mean, quantiles: [low, low, mean, mean, mean], deviation: 0.1 };
        let told = PairForecast { a: speed(0.80, 0.70), b: speed(0.75, 0.68), out_of_memory: 0.02 };
        let (progress, slowdown) = merit(&told);
        assert!((progress - 1.539).abs() < 1e-12 && slowdown.is_some_and(|by| (by - 1.0 / 0.68).abs() < 1e-12));
        assert_eq!(limits.refusal(progress, slowdown, 0.02), None);
    }

    /// Regression test: for a GPU type that nobody measured, "50 times as slow" was reported, which
    /// is the slowest speed that is forecast; and a refusal did not say which job broke which
    /// limit.
    #[test]
    fn a_slowdown_without_a_bound_is_no_number_and_a_refusal_names_jobs_and_limits() {
        let predictor = trained();
        let limits = SharingLimits::default();
        let job = |at: usize| SharingJob::new(format!("m{} (batch size {})", at / 2, 8 << (at % 2)));
        let told = pair(&predictor, "h", &job(0), &job(1), &limits);
        assert_eq!((told.slowdown90, told.basis), (None, Basis::Nothing));
        let (of_job, words) = (|limit| told.broken.iter().filter(move |of| of.limit == limit), in_words(&told.broken));
        assert_eq!(
            of_job(Refused::Slowdown).map(|of| of.jobs[0].as_str()).collect::<Vec<_>>(),
            [job(0).job_type, job(1).job_type]
        );
        assert!(words.contains("m0 (batch size 8) may be slower than 1.50 times: no bound is known"), "{words}");
        // Nor is any other figure a forecast there.
        assert!(words.ends_with("make no more progress than 1.00: not known"), "{words}");
        let answer = SharingAnswer::new(&predictor, limits, vec![told]);
        let (json, report) = (serde_json::to_string(&answer).unwrap(), format!("{:?}", answer.report(Vec::new())));
        assert!(json.contains(r#""slowdown90":null"#), "{json}");
        assert!(report.contains("no bound") && report.contains("not known (0.00 to 1.00)"), "{report}");
        let row = String::from_utf8(answer.csv().unwrap()).unwrap();
        assert!(row.lines().nth(1).is_some_and(|row| row.contains(",,false,")), "{row}");
        let group = group(&predictor, "h", &[job(0), job(1), job(2)], &limits);
        let too_slow = group.broken.iter().filter(|of| of.limit == Refused::Slowdown && of.forecast.is_none()).count();
        assert_eq!((group.slowdown90, too_slow), (None, 3));
        let answer = SharingAnswer::of_group(&predictor, limits, group);
        assert!(format!("{:?}", answer.report(Vec::new())).contains("nothing bounds how slow"), "{answer:?}");
        // Of a measured couple the one that is too slow is named, with how slow it is; the other is not.
        let wide = pair(&predictor, "g", &job(0), &job(4), &SharingLimits { slo: 100.0, ..limits });
        let slo = (1.0 / wide.speed_a.p05 + 1.0 / wide.speed_b.p05) / 2.0;
        let told = pair(&predictor, "g", &job(0), &job(4), &SharingLimits { slo, ..limits });
        let [broken] = &told.broken[..] else { panic!("{:?}", told.broken) };
        let slow = if told.speed_a.p05 < told.speed_b.p05 { &told.job_a } else { &told.job_b };
        assert_eq!(
            (broken.limit, &broken.jobs[0], broken.forecast, broken.bound),
            (Refused::Slowdown, slow, told.slowdown90, slo)
        );
        // Two limits at once.
        let tight = SharingLimits { slo: 1.01, most_out_of_memory: 0.0, least_progress: 9.0 };
        let words = in_words(&pair(&predictor, "g", &job(5), &job(5), &tight).broken);
        for part in [
            "may not fit together: ",
            "m2 (batch size 16) may be slower than 1.01 times: ",
            "make no more progress than 9.00: ",
        ] {
            assert_eq!(words.matches(part).count(), 1, "{words}");
        }
        assert!(pair(&predictor, "g", &job(0), &job(0), &limits).broken.is_empty());
    }

    #[test]
    fn couples_are_read_with_what_was_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "gpu_type,job_a,job_b,family_b,sm_util_pct_a,colour\ng,x,y,f,40,red\ng,x,x,,,\n")
            .unwrap();
        let result = read_couples(file.path()).unwrap();
        assert_eq!(result.len(), 2);
        let (gpu, a, b) = &result[0];
        assert_eq!((gpu.as_str(), a.seen.get(Quantity::SmUtilPct), b.family.as_deref()), ("g", Some(40.0), Some("f")));
        std::fs::write(file.path(), "gpu_type,job_a,job_b,sm_util_pct_a\ng,x,y,140\n").unwrap();
        let told = read_couples(file.path()).unwrap_err().to_string();
        assert!(told.contains("line 2: column `sm_util_pct_a` holds 140; write percent"), "{told}");
        // Of each job a quantity stands once; of both jobs it stands twice.
        let twice = "gpu_type,job_a,job_b,memory_mb_a,memory_mb_b,memory_used_a\ng,x,y,900,800,\n";
        std::fs::write(file.path(), twice).unwrap();
        let told = read_couples(file.path()).unwrap_err().to_string();
        assert!(told.contains("line 1: columns `memory_mb_a` and `memory_used_a` are both memory_mb"), "{told}");
    }

    /// All pairs of the first job type are measured but one; with that one nothing is left.
    #[test]
    fn what_is_all_measured_is_told_so() {
        let predictor = trained();
        let (limits, first) = (SharingLimits::default(), SharingJob::new("m0 (batch size 8)"));
        let ask = |job: &SharingJob| {
            let mut notes = Vec::new();
            let answer = SharingAnswer::to_measure(&predictor, limits, ("g", job), 3, &mut notes).unwrap();
            (answer, notes)
        };
        let (left, notes) = ask(&first);
        let of = |answer: &SharingAnswer| answer.to_measure.as_ref().map(Vec::len);
        assert_eq!((of(&left), notes.len()), (Some(1), 0));
        let (none, notes) = ask(&SharingJob::new("m1 (batch size 8)"));
        assert_eq!(of(&none), Some(0));
        assert_eq!(notes, ["All pairs of m1 (batch size 8) on g are measured: there is none to measure first."]);
        let report = none.report(notes);
        assert!(report.summary.is_empty() && report.sections.is_empty(), "{report:?}");
        // What was not asked is told apart from what has no answer.
        let json = |answer: &SharingAnswer| serde_json::to_value(answer).unwrap()["to_measure"].clone();
        assert_eq!(json(&none), serde_json::json!([]));
        assert_eq!(json(&SharingAnswer::new(&predictor, limits, Vec::new())), serde_json::Value::Null);
    }
}
