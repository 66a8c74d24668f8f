//! Figures of a resample of jobs: sums over stretches, and quantiles by how often each job was
//! drawn.
//!
//! Which stretches a resample holds is drawn by [`tracecast_analytics::stats::resample`]. Sums are of whole numbers, so their order does not matter.
//!
//! Complexity: a mean costs O(n / block) a resample by running sums; a quantile O(n / 256) for a table of what was drawn, and a step for each job beyond it.
//!
//! Worked number: differences 0, 0, 6, 6 with blocks of 2 have the block sums 0, 6, 12; a resample of two blocks has a mean of
//! 0, 1.5, 3, 4.5 or 6.

/// Running sums of a column, for the sum of any stretch.
#[derive(Debug, Clone)]
pub(super) struct Running(Vec<i128>);

impl Running {
    /// Sums whole numbers.
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

/// Jobs to a cell of [`Drawn`].
const CELL: usize = 256;

/// How often each job is in a resample. Stretches are few beside jobs, so it is told by where they begin and end.
#[derive(Debug)]
pub(super) struct Drawn {
    /// Each job as often as it is drawn.
    jobs: u64,
    /// Jobs from which on the number is another, in rising order.
    changes: Vec<usize>,
    /// The number before the first change, and after each.
    times: Vec<u32>,
    /// How many changes come before each cell.
    before: Vec<u32>,
}

impl Drawn {
    /// Counts how often each of `jobs` jobs is in `stretches`. O(jobs / `CELL` + stretches · log
    /// stretches).
    pub(super) fn new(jobs: usize, stretches: &[(usize, usize)]) -> Self {
        let mut ends: Vec<(usize, i32)> = stretches.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
        ends.sort_unstable_by_key(|(job, _)| *job);
        let mut now = 0i32;
        let mut times = vec![0];
        times.extend(ends.iter().map(|(_, change)| {
            now += change;
            now.unsigned_abs()
        }));
        let changes: Vec<usize> = ends.into_iter().map(|(job, _)| job).collect();
        let mut at = 0;
        let before = (0..jobs.div_ceil(CELL)).map(|cell| {
            while changes.get(at).is_some_and(|job| *job < cell * CELL) {
                at += 1;
            }
            at as u32
        });
        let before = before.collect();
        Self { jobs: stretches.iter().map(|(from, to)| (to - from) as u64).sum(), changes, times, before }
    }

    /// Returns the number of times that a job is drawn.
    fn times(&self, job: usize) -> u32 {
        let mut at = self.before.get(job / CELL).map_or(0, |before| *before as usize);
        while self.changes.get(at).is_some_and(|change| *change <= job) {
            at += 1;
        }
        self.times.get(at).copied().unwrap_or(0)
    }
}

/// A column in descending order, for quantiles of resamples near the top.
#[derive(Debug, Clone)]
pub(super) struct Ranked {
    /// (value, job).
    descending: Vec<(i64, u32)>,
}

impl Ranked {
    /// Ranks whole numbers.
    pub(super) fn new(values: impl Iterator<Item = i64>) -> Self {
        let mut descending: Vec<(i64, u32)> = values.zip(0u32..).collect();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        Self { descending }
    }

    /// Type 7 quantile where each job counts as often as it is drawn. O(jobs above the quantile).
    pub(super) fn quantile(&self, q: f64, drawn: &Drawn) -> Option<f64> {
        let n = drawn.jobs;
        let h = q * n.checked_sub(1)? as f64;
        let low = h.floor();
        // Counted from the top: the value below the quantile, and the one above it.
        let below = n - 1 - low as u64;
        let above = below.saturating_sub(1);
        let mut passed = 0;
        let mut upper = None;
        for (value, job) in &self.descending {
            passed += u64::from(drawn.times(*job as usize));
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
    use tracecast_analytics::stats::resample::Blocks;
    use tracecast_analytics::stats::{interval, quantile};

    use super::*;

    #[test]
    fn quantiles_of_resamples_by_hand() {
        // Values 5, 1, 9 counted 2, 1, 1 times are 1, 5, 5, 9: h = 0.95 · 3 = 2.85, 5 + 0.85 · 4 = 8.4.
        let ranked = Ranked::new([5, 1, 9].into_iter());
        let quantile = |q: f64, stretches: &[(usize, usize)]| ranked.quantile(q, &Drawn::new(3, stretches));
        assert!((quantile(0.95, &[(0, 3), (0, 1)]).unwrap() - 8.4).abs() < 1e-9);
        assert_eq!(quantile(1.0, &[(0, 3), (0, 1)]), Some(9.0));
        assert_eq!(quantile(0.0, &[(0, 2), (0, 1)]), Some(1.0));
        assert_eq!(quantile(0.5, &[]), None);
    }

    /// In two cells: jobs 0 to 299 once, 100 to 259 once more, 256 to 258 a third time.
    #[test]
    fn how_often_jobs_are_drawn_by_hand() {
        let drawn = Drawn::new(300, &[(100, 260), (0, 300), (256, 259)]);
        let times = [0, 99, 100, 255, 256, 258, 259, 260, 299].map(|job| drawn.times(job));
        assert_eq!(times, [1, 1, 2, 2, 3, 3, 2, 1, 1]);
        assert_eq!(drawn.jobs, 463);
    }

    proptest! {
        /// The quantile equals that of the values written out as often as they are drawn.
        #[test]
        fn quantiles_of_resamples_are_those_of_the_values_written_out(
            values in prop::collection::vec(-20i64..20, 1..600),
            ends in prop::collection::vec((0usize..600, 0usize..600), 0..12),
            q in prop::sample::select(vec![0.0, 0.3, 0.5, 0.95, 1.0]),
        ) {
            let within = |(a, b): (usize, usize)| (a.min(b).min(values.len()), a.max(b).min(values.len()));
            let stretches: Vec<(usize, usize)> = ends.into_iter().map(within).collect();
            let written: Vec<f64> =
                stretches.iter().flat_map(|(from, to)| &values[*from..*to]).map(|value| *value as f64).collect();
            let ranked = Ranked::new(values.iter().copied());
            match (ranked.quantile(q, &Drawn::new(values.len(), &stretches)), quantile::quantile(&written, q)) {
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
            let (low, high) = interval::percentile(&mut means).unwrap();
            low <= 0.0 && high >= 0.0
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
