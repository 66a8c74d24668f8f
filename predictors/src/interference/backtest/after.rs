//! Forecasts of the predictor for a family left out, after some pairs of its job types were
//! measured: pairs that it chose, and pairs drawn at random.
//!
//! Of every job type of the family n pairs are measured. **Chosen** are those that leave the least unknown ([`Committee::to_measure`]); whether a pair fits is not known before it is tried, so
//! one that does not may be among them, and teaches no speed. **Drawn** are pairs that fit, four times from a seed. Either way the predictor learns both speeds of each.
//!
//! **Scored**, for each n and once for each draw, are the speeds of the family in pairs that are neither chosen nor drawn. The predictor that chose, the one for which pairs were drawn, and the one
//! that nobody taught all forecast these same speeds. If each were scored on what it did not measure itself, one that measures hard pairs would be tested on easy ones. Rows of
//! different n are of different speeds: each is to be compared with its own forecast before.
//!
//! O(to measure + n × draws × (job types × effects² + speeds × effects)). Worked example: of five partners of a job type the first is chosen and the third drawn: scored are its speeds beside the other three,
//! by all.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::SLOW;
use crate::interference::committee::{Committee, Groups};
use crate::interference::effects::Directed;
use crate::interference::score::{SpeedAndTruth, auc, speeds};
use crate::interference::table::{SharedPair, distinct};

/// Measured pairs of each new job type.
const MEASURED: [usize; 3] = [1, 3, 5];
/// Draws of measured pairs.
const DRAWS: u64 = 4;

/// Error after some pairs of a new family were measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AfterMeasured {
    /// Pairs measured of each job type of the family, with the partners that tell the most.
    pub pairs: usize,
    /// Speeds scored: those of pairs that are neither measured nor drawn, once for each draw; all of them where nothing was measured.
    pub speeds: usize,
    /// Mean absolute error of the predictor on these speeds.
    pub mae: f64,
    /// Mean absolute error on the same speeds if nothing had been measured; none where nothing was.
    pub before_mae: Option<f64>,
    /// Mean absolute error on the same speeds if partners are drawn; none where nothing was
    /// measured.
    pub drawn_mae: Option<f64>,
    /// Share of them within its 90 % interval.
    pub coverage90: f64,
    /// Area under the curve of "the worse job runs below 85 %" of the pairs neither measured nor drawn; none where all are of one kind.
    pub auc_slower_15: Option<f64>,
}

/// A family that is left out, and the predictor that knows nothing of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftFamily<'a> {
    pub(super) committee: &'a Committee,
    pub(super) gpu: usize,
    /// The group of the rows that are scored.
    pub(super) fold: usize,
    /// Speeds of the pairs that fit and have a job type of the family.
    pub(super) asked: &'a [(Directed, Groups)],
    /// Pairs that have a job type of the family, those that do not fit included.
    pub(super) pairs: &'a [&'a SharedPair],
    pub(super) seed: u64,
}

/// Forecasts of the same speeds with and without some measured pairs of each job type.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pairs: usize,
    before: Vec<SpeedAndTruth>,
    chosen: Vec<SpeedAndTruth>,
    drawn: Vec<SpeedAndTruth>,
    /// Forecast chance that the worse job is slow, with the chosen pairs, and the outcome.
    slow: Vec<(f64, bool)>,
}

/// The predictor after it learned from some pairs.
struct Taught {
    /// The pairs, in both orders.
    measured: BTreeSet<(usize, usize)>,
    wiser: Committee,
}

fn say(committee: &Committee, row: &Directed) -> SpeedAndTruth {
    let told = committee.speed(row.gpu, row.own, row.beside);
    SpeedAndTruth { truth: row.speed, mean: told.mean, quantiles: Some(told.quantiles) }
}

/// The first so many pairs of each new job type, in the order in which they were chosen.
fn first(chosen: &[(usize, usize)], count: usize) -> Vec<(usize, usize)> {
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let is_first = |(job, _): &&(usize, usize)| {
        let taken = taken.entry(*job).or_default();
        *taken += 1;
        *taken <= count
    };
    chosen.iter().filter(is_first).copied().collect()
}

impl LeftFamily<'_> {
    /// Forecasts for each number of measured pairs and each draw.
    pub(super) fn after(&self) -> Vec<Told> {
        let jobs = self.jobs();
        let chosen = self.chosen(&jobs);
        let taught: Vec<(usize, Taught)> =
            MEASURED.par_iter().map(|count| (*count, self.taught(&first(&chosen, *count)))).collect();
        let work: Vec<(&(usize, Taught), u64)> =
            taught.iter().flat_map(|of_count| (0..DRAWS).map(move |draw| (of_count, draw))).collect();
        let one = |((count, chosen), draw): &(&(usize, Taught), u64)| {
            let drawn = self.taught(&self.drawn(&jobs, *count, *draw));
            self.told(*count, chosen, &drawn)
        };
        work.par_iter().map(one).collect()
    }

    /// Job types of the family.
    fn jobs(&self) -> Vec<usize> {
        distinct(self.asked.iter().filter(|(_, of)| of.0 == self.fold).map(|(row, _)| row.own))
    }

    /// The pairs that leave the least unknown, as many as are ever measured.
    fn chosen(&self, jobs: &[usize]) -> Vec<(usize, usize)> {
        let partners = distinct(self.pairs.iter().flat_map(|pair| [pair.a, pair.b]));
        let most = MEASURED.iter().copied().max().unwrap_or_default();
        self.committee.to_measure(self.gpu, jobs, &partners, most)
    }

    /// Pairs that fit, drawn of each job type.
    fn drawn(&self, jobs: &[usize], count: usize, draw: u64) -> Vec<(usize, usize)> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((self.fold as u64 * 100 + count as u64) * DRAWS + draw);
        let mut drawn: Vec<(usize, usize)> = Vec::new();
        for job in jobs {
            let is_known = |partner: usize| drawn.contains(&(*job, partner)) || drawn.contains(&(partner, *job));
            let of_job = self.asked.iter().filter(|(row, _)| row.own == *job && !is_known(row.beside));
            let mut partners: Vec<usize> = of_job.map(|(row, _)| row.beside).collect();
            partners.shuffle(&mut rng);
            drawn.extend(partners.into_iter().take(count).map(|partner| (*job, partner)));
        }
        drawn
    }

    /// The predictor after it learned from these pairs, one after the other.
    fn taught(&self, pairs: &[(usize, usize)]) -> Taught {
        let mut taught = Taught { measured: BTreeSet::new(), wiser: self.committee.clone() };
        let mut learned: Vec<Directed> = Vec::new();
        for both in pairs.iter().flat_map(|(job, partner)| [(*job, *partner), (*partner, *job)]) {
            if taught.measured.insert(both) {
                let rows = self.asked.iter().map(|(row, _)| row);
                learned.extend(rows.filter(|row| (row.own, row.beside) == both).copied());
            }
        }
        taught.wiser.learn(&learned);
        taught
    }

    /// Forecasts of the speeds measured neither in the chosen pairs nor in those drawn.
    fn told(&self, pairs: usize, chosen: &Taught, drawn: &Taught) -> Told {
        let is_open = |pair: &(usize, usize)| !chosen.measured.contains(pair) && !drawn.measured.contains(pair);
        let mut told = Told { pairs, ..Told::default() };
        for (row, of) in self.asked {
            if of.0 == self.fold && is_open(&(row.own, row.beside)) {
                told.before.push(say(self.committee, row));
                told.chosen.push(say(&chosen.wiser, row));
                told.drawn.push(say(&drawn.wiser, row));
            }
        }
        let open = self.pairs.iter().filter(|pair| is_open(&(pair.a, pair.b)));
        let slow = open.filter_map(|pair| {
            let speeds = pair.speeds?;
            Some((chosen.wiser.pair(pair.gpu, pair.a, pair.b).worse_below(SLOW), speeds.a.min(speeds.b) < SLOW))
        });
        told.slow = slow.collect();
        told
    }
}

/// The scores of all families together, `none` and `slow` being what was said of all speeds and pairs before anything was measured; nothing where nothing was said.
pub(super) fn scored(none: &[SpeedAndTruth], slow: &[(f64, bool)], later: Vec<Told>) -> Vec<AfterMeasured> {
    let mut by_count: BTreeMap<usize, Told> = BTreeMap::new();
    for told in later {
        let all = by_count.entry(told.pairs).or_default();
        all.before.extend(told.before);
        all.chosen.extend(told.chosen);
        all.drawn.extend(told.drawn);
        all.slow.extend(told.slow);
    }
    let row = |pairs: usize, said: &[SpeedAndTruth], slow: &[(f64, bool)]| {
        let score = speeds(said)?;
        Some(AfterMeasured {
            pairs,
            speeds: score.speeds,
            mae: score.mae,
            before_mae: None,
            drawn_mae: None,
            coverage90: score.coverage90.unwrap_or_default(),
            auc_slower_15: auc(slow),
        })
    };
    let mae = |said: &[SpeedAndTruth]| speeds(said).map(|score| score.mae);
    let after = by_count.into_iter().filter_map(|(pairs, told)| {
        let row = row(pairs, &told.chosen, &told.slow)?;
        Some(AfterMeasured { before_mae: mae(&told.before), drawn_mae: mae(&told.drawn), ..row })
    });
    row(0, none, slow).into_iter().chain(after).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{HoldOut, Plan};
    use super::*;
    use crate::interference::alone::Alone;
    use crate::interference::committee::directed;
    use crate::interference::table::{JobProfile, Quantity, SharingTable, Speeds};

    /// Four families of two job types. Every speed is of its own, by which a row is known again; the pair of the two largest does not fit.
    fn world() -> SharingTable {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("g");
        let mut pairs = Vec::new();
        for at in 0..8usize {
            let job = table.job(&format!("m{} (batch size {})", at / 2, 8 << (at % 2)));
            table.set_profile(gpu, job, &JobProfile::default().with(Quantity::StepsPerS, 1.0 + at as f64));
            pairs.extend((0..=at).map(|a| (a, at)));
        }
        let speed = |own: usize, beside: usize| 0.9 - 0.05 * own as f64 - 0.004 * beside as f64;
        table.add_pairs(pairs.into_iter().map(|(a, b)| {
            let speeds = ((a, b) != (6, 7)).then(|| Speeds { a: speed(a, b), b: speed(b, a) });
            SharedPair { gpu, a, b, speeds }
        }));
        table.sorted()
    }

    #[test]
    fn all_are_scored_on_the_speeds_that_none_measured() {
        let table = world();
        let alone = Alone::new(&table);
        let plan = Plan::new(&table, &alone, HoldOut::Family, 0, 1);
        let fold = table.family(7);
        let (rows, groups) = plan.teaching(fold);
        let teaches: Vec<bool> = table.pairs().iter().map(|pair| table.family(pair.b) != fold).collect();
        let committee = Committee::train(&table, &rows, &groups, &teaches, &[0], 1).unwrap();
        let group = |job: usize| table.family(job);
        let asked: Vec<(Directed, Groups)> = directed(&table)
            .into_iter()
            .map(|row| (row, (group(row.own), group(row.beside))))
            .filter(|(_, of)| of.0 == fold || of.1 == fold)
            .collect();
        let pairs: Vec<&SharedPair> = table.pairs().iter().filter(|pair| group(pair.b) == fold).collect();
        let left = LeftFamily { committee: &committee, gpu: 0, fold, asked: &asked, pairs: &pairs, seed: 1 };
        assert_eq!(left.jobs(), [6, 7]);
        let chosen = left.chosen(&left.jobs());
        let bits = |said: &[SpeedAndTruth]| -> Vec<u64> { said.iter().map(|one| one.truth.to_bits()).collect() };
        let told = left.after();
        assert_eq!(told.len(), MEASURED.len() * DRAWS as usize);
        for (told, draw) in told.iter().zip((0..DRAWS).cycle()) {
            let drawn = left.drawn(&[6, 7], told.pairs, draw);
            let measured: Vec<(usize, usize)> = first(&chosen, told.pairs).into_iter().chain(drawn).collect();
            let is_open = |row: &Directed| {
                !measured.contains(&(row.own, row.beside)) && !measured.contains(&(row.beside, row.own))
            };
            let open: Vec<u64> = asked
                .iter()
                .filter(|(row, of)| of.0 == fold && is_open(row))
                .map(|(row, _)| row.speed.to_bits())
                .collect();
            assert!((told.pairs > 3 || !open.is_empty()) && open.len() < 14, "{told:?}");
            assert_eq!((bits(&told.before), bits(&told.chosen), bits(&told.drawn)), (open.clone(), open.clone(), open));
        }
        // Each job type gets as many as were asked for, the first ones first.
        let of_job = |count: usize, job: usize| first(&chosen, count).iter().filter(|pair| pair.0 == job).count();
        assert!((0..=5).all(|count| of_job(count, 6) == count && of_job(count, 7) == count), "{chosen:?}");
        assert_eq!(first(&chosen, 3), first(&first(&chosen, 5), 3));
    }

    #[test]
    fn scores_are_as_worked_out_by_hand() {
        let one = |mean: f64| SpeedAndTruth { truth: 0.5, mean, quantiles: Some([0.45, 0.45, 0.5, 0.55, 0.55]) };
        let of = |pairs: usize, by: f64| Told {
            pairs,
            before: vec![one(0.5 + 4.0 * by)],
            chosen: vec![one(0.5 + by)],
            drawn: vec![one(0.5 - 2.0 * by)],
            slow: vec![(0.9, true), (0.1, false)],
        };
        // Two draws of one pair: errors of 0.01 and 0.03; of three pairs none was left to be scored.
        let result =
            scored(&[one(0.6)], &[(0.5, true)], vec![of(1, 0.01), of(1, 0.03), Told { pairs: 3, ..Told::default() }]);
        assert_eq!(result.iter().map(|row| (row.pairs, row.speeds)).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        let close = |one: Option<f64>, other: f64| one.is_some_and(|one| (one - other).abs() < 1e-12);
        assert!(close(Some(result[0].mae), 0.1) && result[0].before_mae.is_none() && result[0].drawn_mae.is_none());
        assert!(close(Some(result[1].mae), 0.02), "{result:?}");
        assert!(close(result[1].before_mae, 0.08) && close(result[1].drawn_mae, 0.04), "{result:?}");
        assert_eq!((result[0].auc_slower_15, result[1].auc_slower_15), (None, Some(1.0)));
        assert!(scored(&[], &[], Vec::new()).is_empty());
    }
}
