//! Comparison of two measurements of the same pairs: how far apart they are. A perfect forecast
//! would still miss one of them, by about 1 / √2 of that distance if both vary alike.
//!
//! O(pairs). Worked number: 0.80 and 0.50 the first time, 0.76 and 0.52 the second: two speeds, 0.03 apart on average.

use std::collections::BTreeMap;

use serde::Serialize;
use tracecast_analytics::stats::{quantile, sum};

use super::super::table::{SharingTable, Speeds, name_at};

/// Two measurements of the same pairs on one GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MeasuredAgain {
    /// GPU type.
    pub gpu_type: String,
    /// Pairs that are in both and fitted in both.
    pub pairs: usize,
    /// Pairs that fitted in one alone.
    pub fitted_once: usize,
    /// Mean distance of two measurements of one speed, as a share of the speed alone; none without such pairs.
    pub apart: Option<f64>,
    /// Nine of ten are no further apart.
    pub apart_p90: Option<f64>,
    /// The mean distance by job type.
    pub apart_by_job: BTreeMap<String, f64>,
}

/// The speeds of each pair by the names of its GPU type and of both jobs. A table in order has these in order.
fn named(table: &SharingTable) -> BTreeMap<[&str; 3], Option<Speeds>> {
    let job = |place| name_at(table.jobs(), place);
    let pairs = table.pairs().iter();
    pairs.map(|pair| ([name_at(table.gpu_types(), pair.gpu), job(pair.a), job(pair.b)], pair.speeds)).collect()
}

/// Measurements compared on one GPU type.
#[derive(Debug, Default)]
struct Compared {
    pairs: usize,
    fitted_once: usize,
    apart: Vec<f64>,
    by_job: BTreeMap<String, Vec<f64>>,
}

impl Compared {
    fn told(self, gpu_type: &str) -> MeasuredAgain {
        let by_job = self.by_job.into_iter();
        MeasuredAgain {
            gpu_type: gpu_type.to_owned(),
            pairs: self.pairs,
            fitted_once: self.fitted_once,
            apart: sum::mean(&self.apart),
            apart_p90: quantile::quantile(&self.apart, 0.9),
            apart_by_job: by_job.filter_map(|(job, apart)| Some((job, sum::mean(&apart)?))).collect(),
        }
    }
}

/// Compares two tables, both in order, GPU type by GPU type. Pairs in one table alone are passed
/// over.
pub fn again(first: &SharingTable, second: &SharingTable) -> Vec<MeasuredAgain> {
    let later = named(second);
    let mut result: BTreeMap<&str, Compared> = BTreeMap::new();
    for ([gpu, a, b], before) in named(first) {
        let Some(after) = later.get(&[gpu, a, b]) else { continue };
        let here = result.entry(gpu).or_default();
        let Some((before, after)) = before.zip(*after) else {
            here.fitted_once += usize::from(before.is_some() != after.is_some());
            continue;
        };
        here.pairs += 1;
        // Of a job beside its like there is one speed, the mean of both.
        let sides = [(a, before.a, after.a), (b, before.b, after.b)];
        for (job, before, after) in sides.into_iter().take(if a == b { 1 } else { 2 }) {
            here.apart.push((before - after).abs());
            here.by_job.entry(job.to_owned()).or_default().push((before - after).abs());
        }
    }
    result.into_iter().map(|(gpu, here)| here.told(gpu)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::super::table::SharedPair;
    use super::*;

    /// Two jobs, and their speeds where they fitted.
    type Row = (usize, usize, Option<(f64, f64)>);

    #[test]
    fn the_worked_number_and_what_is_in_one_alone() {
        let table = |names: [&str; 3], pairs: &[Row]| {
            let mut table = SharingTable::new();
            let gpu = table.gpu_type("g");
            for name in names {
                table.job(name);
            }
            let pair =
                |(a, b, speeds): &Row| SharedPair { gpu, a: *a, b: *b, speeds: speeds.map(|(a, b)| Speeds { a, b }) };
            table.add_pairs(pairs.iter().map(pair));
            table.sorted()
        };
        let first = table(["a", "b", "c"], &[(0, 1, Some((0.8, 0.5))), (1, 1, Some((0.5, 0.5))), (2, 2, None)]);
        // Other files name other jobs first.
        let second = table(["c", "b", "a"], &[(1, 2, Some((0.52, 0.76))), (0, 0, Some((0.4, 0.4))), (0, 1, None)]);
        let [one] = again(&first, &second).try_into().unwrap();
        assert_eq!((one.pairs, one.fitted_once, one.apart_by_job.len()), (1, 1, 2));
        assert!((one.apart.unwrap() - 0.03).abs() < 1e-12 && (one.apart_by_job["a"] - 0.04).abs() < 1e-12, "{one:?}");
        assert_eq!(again(&first, &SharingTable::new()), []);
    }
}
