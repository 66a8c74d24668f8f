//! What is computed of a resample of jobs: sums over stretches, and quantiles by how often each job was drawn.
//!
//! Which stretches a resample holds is drawn by [`tracecast_predictors::resample`]. Sums are of whole numbers, so their order does not matter.
//!
//! Complexity: a mean costs O(n / block) a resample by running sums; a quantile O(n) by counting how often each job was drawn.
//!
//! Worked number: differences 0, 0, 6, 6 with blocks of 2 have the block sums 0, 6, 12; a resample of two blocks has a mean of
//! 0, 1.5, 3, 4.5 or 6.

/// Running sums of a column, for the sum of any stretch.
#[derive(Debug, Clone)]
pub(super) struct Running(Vec<i128>);

impl Running {
    /// Of whole numbers.
    pub(super) fn new(values: impl Iterator<Item = i64>) -> Self {
        let mut total = 0i128;
        let mut sums = vec![0];
        sums.extend(values.map(|value| {
            total += i128::from(value);
            total
        }));
        Self(sums)
    }

    /// Sum over stretches.
    pub(super) fn over(&self, stretches: &[(usize, usize)]) -> i128 {
        let at = |ix: usize| self.0.get(ix).copied().unwrap_or(0);
        stretches.iter().map(|(from, to)| at(*to) - at(*from)).sum()
    }

    /// Sum of all.
    pub(super) fn total(&self) -> i128 {
        self.0.last().copied().unwrap_or(0)
    }
}

/// How often each of `jobs` jobs is in `stretches`.
pub(super) fn multiplicities(jobs: usize, stretches: &[(usize, usize)]) -> Vec<u32> {
    let mut changes = vec![0i32; jobs + 1];
    for (from, to) in stretches {
        if let Some(change) = changes.get_mut(*from) {
            *change += 1;
        }
        if let Some(change) = changes.get_mut(*to) {
            *change -= 1;
        }
    }
    let mut times = 0i32;
    let running = |change: &i32| {
        times += change;
        times.unsigned_abs()
    };
    changes.iter().take(jobs).map(running).collect()
}

/// A column in descending order, for quantiles of resamples near the top.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    /// (value, job).
    descending: Vec<(i64, u32)>,
}

impl Ranked {
    /// Of whole numbers.
    pub(super) fn new(values: impl Iterator<Item = i64>) -> Self {
        let mut descending: Vec<(i64, u32)> = values.zip(0u32..).collect();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        Self { descending }
    }

    /// Type 7 quantile where job *i* counts `times[i]` times. O(jobs above the quantile).
    pub(super) fn quantile(&self, q: f64, times: &[u32]) -> Option<f64> {
        let n: u64 = times.iter().map(|times| u64::from(*times)).sum();
        let h = q * n.checked_sub(1)? as f64;
        let low = h.floor();
        // Counted from the top: the value below the quantile, and the one above it.
        let below = n - 1 - low as u64;
        let above = below.saturating_sub(1);
        let mut passed = 0;
        let mut upper = None;
        for (value, job) in &self.descending {
            passed += u64::from(times.get(*job as usize).copied().unwrap_or(0));
            if upper.is_none() && passed > above {
                upper = Some(*value as f64);
            }
            if passed > below {
                let (a, b) = (*value as f64, upper?);
                return Some(a + (b - a) * (h - low));
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};
    use tracecast_analytics::stats::quantile;
    use tracecast_predictors::resample::Blocks;

    use super::*;

    #[test]
    fn quantiles_of_resamples_by_hand() {
        // Values 5, 1, 9 counted 2, 1, 1 times are 1, 5, 5, 9: h = 0.95 · 3 = 2.85, 5 + 0.85 · 4 = 8.4.
        let ranked = Ranked::new([5, 1, 9].into_iter());
        assert!((ranked.quantile(0.95, &[2, 1, 1]).unwrap() - 8.4).abs() < 1e-9);
        assert_eq!(ranked.quantile(1.0, &[2, 1, 1]), Some(9.0));
        assert_eq!(ranked.quantile(0.0, &[2, 1, 0]), Some(1.0));
        assert_eq!(ranked.quantile(0.5, &[0, 0, 0]), None);
        assert_eq!(multiplicities(4, &[(0, 2), (1, 3), (1, 2)]), [1, 3, 1, 0]);
    }

    proptest! {
        /// As the quantile of the values written out as often as they count.
        #[test]
        fn quantiles_of_resamples_are_those_of_the_values_written_out(
            rows in prop::collection::vec((-20i64..20, 0u32..4), 1..40),
            q in prop::sample::select(vec![0.0, 0.3, 0.5, 0.95, 1.0]),
        ) {
            let ranked = Ranked::new(rows.iter().map(|row| row.0));
            let times: Vec<u32> = rows.iter().map(|row| row.1).collect();
            let written: Vec<f64> =
                rows.iter().flat_map(|(value, times)| vec![*value as f64; *times as usize]).collect();
            match (ranked.quantile(q, &times), quantile::quantile(&written, q)) {
                (Some(counted), Some(known)) => prop_assert!((counted - known).abs() < 1e-9, "{} {}", counted, known),
                (counted, known) => prop_assert_eq!(counted, known),
            }
        }
    }

    /// Share of 300 series for which the interval of the mean holds the true mean, 0. Each value is `memory` times the one
    /// before plus normal noise.
    fn coverage(memory: f64, length: usize) -> f64 {
        let jobs = 1_000;
        let covered = (0..300u64).filter(|series| {
            let mut rng = ChaCha8Rng::seed_from_u64(1_000 + series);
            let mut value = 0.0;
            let values: Vec<i64> = (0..jobs)
                .map(|_| {
                    let noise: f64 = StandardNormal.sample(&mut rng);
                    value = memory * value + noise;
                    (value * 1e6) as i64
                })
                .collect();
            let running = Running::new(values.into_iter());
            let mut means: Vec<f64> =
                Blocks::new(jobs, length, *series).resample(300, |stretches| running.over(stretches) as f64);
            let ends = quantile::quantiles_in_place(&mut means, &[0.025, 0.975]);
            ends[0].unwrap() <= 0.0 && ends[1].unwrap() >= 0.0
        });
        covered.count() as f64 / 300.0
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        // 300 series at 95 % have a standard error of 1.3 %.
        let independent = coverage(0.0, 1);
        assert!((0.90..=0.99).contains(&independent), "{independent}");
        // With a memory of 0.9 the mean's standard error is 1 / (1 − 0.9) / √(1 / (1 − 0.81)) = 4.4 times what single jobs
        // say, so their interval covers 2 Φ(1.96 / 4.4) − 1 = 34 %; blocks of 60 mend most of that.
        let single = coverage(0.9, 1);
        let blocks = coverage(0.9, 60);
        assert!((0.25..=0.45).contains(&single), "{single}");
        assert!(blocks > 0.85, "{blocks}");
    }

    #[test]
    fn the_thread_count_does_not_matter() {
        let running = Running::new((0..500).map(|value| value * value % 97));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Blocks::new(500, 20, 3).resample(100, |stretches| running.over(stretches)))
        };
        assert_eq!(run(1), run(4));
    }
}
