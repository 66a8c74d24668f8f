//! What is known of the pairs on one GPU type: the truth, as it was measured, and what a plan is allowed to see of it.
//!
//! **Truth**: the measured table. A couple of job types that was not measured is shared by nobody, as nobody could say what came of it.
//!
//! **Forecasts** of a couple are made without its families: of a couple of the families F and G, by a predictor trained on the pairs in which neither F nor G has a part.
//! With *m measured* pairs, m pairs of each job type of F and G, with partners of other families drawn from a seed, are learned as well, never one of F and G
//! together. So what is forecast of a couple never rests on its own measured speeds: without measured pairs on none of either family, with them on those m alone.
//! What is the same for all couples, such as a threshold, rests on all forecasts, each of which was made so.
//!
//! O(families² × training). Worked number: 7 families make 28 couples of families, each with a predictor of its own trained on the other five or six.

use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tracecast_analytics::report::format;
use tracecast_predictors::interference::committee::{Committee, Groups, PairForecast, directed};
use tracecast_predictors::interference::effects::Directed;
use tracecast_predictors::interference::table::{JobProfile, SharedPair, SharingTable};

use super::engine::PairSpeeds;
use crate::error::{Error, Result};

/// Fewest families: two are left out at once.
const FEWEST_FAMILIES: usize = 4;

/// The pairs on one GPU type.
#[derive(Debug, Clone)]
pub struct PairEvidence {
    /// GPU type.
    pub gpu_type: String,
    /// Names of the job types that have a measured pair here; a kind is a place among them.
    pub kinds: Vec<String>,
    /// Family of each.
    pub families: Vec<usize>,
    /// What is known of each alone.
    pub profiles: Vec<JobProfile>,
    /// Measured speeds; those of couples that were not measured do not count.
    pub truth: PairSpeeds,
    /// Whether a couple was measured, by kind and kind.
    measured: Vec<bool>,
}

/// What is forecast of every couple of kinds.
#[derive(Debug, Clone)]
pub struct Forecasts {
    /// Pairs of each new job type that were measured beforehand.
    pub measured: usize,
    kinds: usize,
    of: Vec<Option<PairForecast>>,
}

impl Forecasts {
    /// The forecast for a kind beside another, the first one's speed first.
    pub fn get(&self, a: usize, b: usize) -> Option<&PairForecast> {
        self.of.get(a * self.kinds + b)?.as_ref()
    }

    /// No forecast of any couple.
    pub(super) fn unknown(kinds: usize) -> Self {
        Self { measured: 0, kinds, of: vec![None; kinds * kinds] }
    }

    fn put(&mut self, a: usize, b: usize, told: PairForecast) {
        let turned = PairForecast { a: told.b, b: told.a, ..told };
        for (at, told) in [(b * self.kinds + a, turned), (a * self.kinds + b, told)] {
            if let Some(slot) = self.of.get_mut(at) {
                *slot = Some(told);
            }
        }
    }
}

/// What is known of the pairs that a forecast policy decides on.
pub(super) fn known_pairs(measured: usize) -> String {
    if measured == 0 {
        "each couple is forecast without any measured pair of its two families".to_owned()
    } else {
        format!(
            "each couple is forecast with {} of each job type of its two families, partners of other families, and with no other of these families",
            format::counted(measured as u64, "measured pair", "measured pairs")
        )
    }
}

/// The place of a GPU type in a table.
///
/// # Errors
/// If no pair was measured on it.
pub(super) fn gpu_named(table: &SharingTable, name: &str) -> Result<usize> {
    table.gpu_types().iter().position(|known| known == name).ok_or_else(|| {
        Error::NothingToEvaluate(format!(
            "no pair was measured on GPU type {name}; the table has {}",
            table.gpu_types().join(", ")
        ))
    })
}

impl PairEvidence {
    /// What a table tells of a GPU type.
    ///
    /// # Errors
    /// If no pair was measured there.
    pub fn new(table: &SharingTable, gpu: usize) -> Result<Self> {
        let gpu_type = table.gpu_types().get(gpu).cloned().unwrap_or_default();
        let here: Vec<&SharedPair> = table.pairs().iter().filter(|pair| pair.gpu == gpu).collect();
        let mut jobs: Vec<usize> = here.iter().flat_map(|pair| [pair.a, pair.b]).collect();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.is_empty() {
            return Err(Error::NothingToEvaluate(format!("{gpu_type}: no pair was measured on it")));
        }
        let kind = |job: usize| jobs.binary_search(&job).unwrap_or_default();
        let mut truth = PairSpeeds::new(jobs.len());
        let mut measured = vec![false; jobs.len() * jobs.len()];
        for pair in &here {
            let (a, b) = (kind(pair.a), kind(pair.b));
            if let Some(speeds) = pair.speeds {
                truth.set(a, b, (speeds.a, speeds.b));
            }
            for at in [a * jobs.len() + b, b * jobs.len() + a] {
                if let Some(slot) = measured.get_mut(at) {
                    *slot = true;
                }
            }
        }
        Ok(Self {
            kinds: jobs.iter().filter_map(|job| table.jobs().get(*job).cloned()).collect(),
            families: jobs.iter().map(|job| table.family(*job)).collect(),
            profiles: jobs.iter().map(|job| table.profile(gpu, *job)).collect(),
            gpu_type,
            truth,
            measured,
        })
    }

    /// Whether a couple of kinds was measured.
    pub fn is_measured(&self, a: usize, b: usize) -> bool {
        self.measured.get(a * self.kinds.len() + b) == Some(&true)
    }

    /// Couples of kinds that were measured, each once.
    pub fn couples(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let kinds = self.kinds.len();
        (0..kinds).flat_map(move |a| (a..kinds).map(move |b| (a, b))).filter(|(a, b)| self.is_measured(*a, *b))
    }

    /// Measured speeds of a couple, as shares; `None` if it did not fit.
    pub fn speeds(&self, a: usize, b: usize) -> Option<(f64, f64)> {
        let share = |own: usize, beside: usize| {
            let result = self.truth.get(u16::try_from(own).ok()?, u16::try_from(beside).ok()?)?;
            Some(f64::from(result) / f64::from(super::engine::ALONE))
        };
        share(a, b).zip(share(b, a))
    }

    /// Forecasts of every couple without its families, one for each number of measured pairs.
    ///
    /// # Errors
    /// If there are fewer than four families, too few pairs without two of them, or a predictor cannot be trained.
    pub fn forecasts(&self, table: &SharingTable, measured: &[usize], seed: u64) -> Result<Vec<Forecasts>> {
        let gpu = table.gpu_types().iter().position(|name| *name == self.gpu_type).unwrap_or_default();
        let mut families = self.families.clone();
        families.sort_unstable();
        families.dedup();
        if families.len() < FEWEST_FAMILIES {
            return Err(Error::NothingToEvaluate(format!(
                "{}: {} families of job types are too few to leave two out and learn from the others; measure pairs of at least {FEWEST_FAMILIES} families",
                self.gpu_type,
                families.len()
            )));
        }
        let rows: Vec<Directed> = directed(table).into_iter().filter(|row| row.gpu == gpu).collect();
        let places: Vec<usize> =
            self.kinds.iter().map(|name| table.jobs().iter().position(|job| job == name).unwrap_or_default()).collect();
        let couples: Vec<(usize, usize)> = families
            .iter()
            .enumerate()
            .flat_map(|(at, one)| families.iter().skip(at).map(move |other| (*one, *other)))
            .collect();
        let told: Vec<Result<Vec<Vec<PairForecast>>>> = couples
            .par_iter()
            .map(|(one, other)| {
                let out = |job: usize| [*one, *other].contains(&table.family(job));
                let teaching: Vec<Directed> =
                    rows.iter().filter(|row| !out(row.own) && !out(row.beside)).copied().collect();
                let groups: Vec<Groups> =
                    teaching.iter().map(|row| (table.family(row.own), table.family(row.beside))).collect();
                let fits: Vec<bool> =
                    table.pairs().iter().map(|pair| pair.gpu == gpu && !out(pair.a) && !out(pair.b)).collect();
                let committee = Committee::train(table, &teaching, &groups, &fits, &[gpu], seed)?;
                let request = self.between(*one, *other);
                let one_of = |count: &usize| {
                    let mut wiser = committee.clone();
                    wiser.learn(&drawn(table, &rows, *count, seed, &out));
                    let place = |kind: usize| places.get(kind).copied().unwrap_or_default();
                    request.iter().map(|(a, b)| wiser.pair(gpu, place(*a), place(*b))).collect()
                };
                Ok(measured.iter().map(one_of).collect())
            })
            .collect();
        let kinds = self.kinds.len();
        let empty = |count: &usize| Forecasts { measured: *count, kinds, of: vec![None; kinds * kinds] };
        let mut result: Vec<Forecasts> = measured.iter().map(empty).collect();
        for ((one, other), told) in couples.iter().zip(told) {
            let request = self.between(*one, *other);
            for (result, told) in result.iter_mut().zip(told?) {
                request.iter().zip(told).for_each(|((a, b), told)| result.put(*a, *b, told));
            }
        }
        Ok(result)
    }

    /// Speeds as they are forecast, the median of each: what a plan may replay before it is tested. A couple without a forecast, or with a chance above 0.5 not to fit,
    /// does not fit. O(kinds²).
    pub fn forecast_speeds(&self, forecasts: &Forecasts) -> PairSpeeds {
        let kinds = self.kinds.len();
        let mut speeds = PairSpeeds::new(kinds);
        for (a, b) in (0..kinds).flat_map(|a| (a..kinds).map(move |b| (a, b))) {
            if let Some(forecast) = forecasts.get(a, b).filter(|forecast| forecast.out_of_memory <= 0.5) {
                let [x, y] = [&forecast.a, &forecast.b].map(|of| of.quantiles[2]);
                speeds.set(a, b, (x, y));
            }
        }
        speeds
    }

    /// Couples of kinds of two families, measured or not.
    fn between(&self, one: usize, other: usize) -> Vec<(usize, usize)> {
        let of = |family: usize| (0..self.kinds.len()).filter(move |kind| self.families.get(*kind) == Some(&family));
        of(one).flat_map(|a| of(other).map(move |b| (a, b))).filter(|(a, b)| one != other || a <= b).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl PairEvidence {
    /// Evidence of some types on one GPU type, with all pairs measured; no speeds where two do not fit.
    pub(super) fn of_types(types: &[(&str, JobProfile)], speeds: impl Fn(usize, usize) -> Option<(f64, f64)>) -> Self {
        use tracecast_predictors::interference::table::Speeds;
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("v100");
        let jobs: Vec<usize> = types.iter().map(|(name, _)| table.job(name)).collect();
        for (at, (job, (_, profile))) in jobs.iter().zip(types).enumerate() {
            table.set_profile(gpu, *job, profile);
            let pair = |(other, beside): (usize, &usize)| {
                let speeds = speeds(at, other).map(|(a, b)| Speeds { a, b });
                SharedPair { gpu, a: *job, b: *beside, speeds }
            };
            table.add_pairs(jobs.iter().enumerate().skip(at).map(pair));
        }
        Self::new(&table, gpu).unwrap()
    }
}

/// Both speeds of `count` pairs of each job type that is left out, with partners that are not.
fn drawn(
    table: &SharingTable,
    rows: &[Directed],
    count: usize,
    seed: u64,
    out: &dyn Fn(usize) -> bool,
) -> Vec<Directed> {
    let mut learned = Vec::new();
    for job in (0..table.jobs().len()).filter(|job| out(*job)) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(job as u64);
        let mut partners: Vec<usize> =
            rows.iter().filter(|row| row.own == job && !out(row.beside)).map(|row| row.beside).collect();
        partners.shuffle(&mut rng);
        for partner in partners.into_iter().take(count) {
            let both = |row: &&Directed| [(job, partner), (partner, job)].contains(&(row.own, row.beside));
            learned.extend(rows.iter().filter(both));
        }
    }
    learned
}
