//! One bootstrap: which parts of a record each resample holds. What is computed of them is the user's part.
//!
//! Things that follow one another depend on each other (jobs stand in the same queue, today's demand is like yesterday's), so single ones must
//! not be drawn. There are two ways to draw, both with replacement:
//!
//! * **Moving blocks** ([`Blocks`]): blocks of consecutive items, from any item on, until there are as many items as before, the last block cut
//!   (Künsch, Annals of Statistics 17, 1989). For jobs in submit order. Schedules that are compared are resampled alike, so differences are paired.
//! * **Whole blocks** ([`whole`]): as many of the blocks of a record as it has, such as its days or weeks.
//!
//! **Block length** of jobs ([`block_length`]): the mean number of jobs a day, at least n^(1/3), at most n/10: a busy day and a quiet night belong
//! together, and ten blocks are the fewest from which a spread can be told. A trace of a few days has few blocks, and its
//! intervals are too narrow rather than too wide.
//!
//! Resample *r* draws from ChaCha8 keyed by the seed with nonce *r*. Resamples of [`Blocks`] run in parallel and are put in order, so the result
//! does not depend on the thread count. O(items / length) a resample.
//!
//! Worked number: ten items in blocks of four give resamples of stretches of 4, 4 and 2 items.

use crate::time::DAY_MS;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// The random numbers of resample `number`.
fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// Draws the blocks of resample `number` from `blocks` blocks, with replacement: as many as there
/// are.
pub fn whole(blocks: usize, seed: u64, number: u64) -> impl Iterator<Item = usize> {
    let mut rng = stream(seed, number);
    (0..blocks).map(move |_| rng.random_range(0..blocks))
}

/// Stretches of items in order of time, drawn with replacement.
#[derive(Debug, Clone)]
pub struct Blocks {
    items: usize,
    length: usize,
    seed: u64,
}

/// Length of blocks of `jobs` jobs submitted over `span_ms`, jobs.
pub fn block_length(jobs: usize, span_ms: i64) -> usize {
    let least = (jobs as f64).cbrt().ceil() as usize;
    let days = span_ms.max(0) as f64 / DAY_MS as f64;
    let a_day = if days > 1.0 { (jobs as f64 / days).ceil() as usize } else { jobs };
    a_day.max(least).min(jobs / 10).max(1)
}

impl Blocks {
    /// Blocks of `length` of `items` items.
    pub fn new(items: usize, length: usize, seed: u64) -> Self {
        Self { items, length: length.clamp(1, items.max(1)), seed }
    }

    /// Stretches [from, to) of items of resample `number`.
    fn draw(&self, number: usize) -> Vec<(usize, usize)> {
        let mut rng = stream(self.seed, number as u64);
        let mut left = self.items;
        let mut stretches = Vec::with_capacity(self.items.div_ceil(self.length));
        while left > 0 {
            let from = rng.random_range(0..=self.items - self.length);
            let take = self.length.min(left);
            stretches.push((from, from + take));
            left -= take;
        }
        stretches
    }

    /// `figure` of each of `resamples` resamples, in order.
    pub fn resample<T: Send>(&self, resamples: usize, figure: impl Fn(&[(usize, usize)]) -> T + Sync) -> Vec<T> {
        (0..resamples).into_par_iter().map(|number| figure(&self.draw(number))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_lengths() {
        // 10,000 jobs in 100 days: 100 a day, more than 22, fewer than 1,000.
        assert_eq!(block_length(10_000, 100 * 86_400_000), 100);
        // In half a day: a day's jobs are all, so a tenth.
        assert_eq!(block_length(10_000, 43_200_000), 1_000);
        // 1,000 jobs in 1,000 days: one a day, so the cube root, 10.
        assert_eq!(block_length(1_000, 1_000 * 86_400_000), 10);
        assert_eq!((block_length(5, 0), block_length(0, 0)), (1, 1));
    }

    #[test]
    fn resamples_are_blocks_of_the_right_number_of_jobs() {
        let blocks = Blocks::new(10, 4, 7);
        for stretches in blocks.resample(50, <[_]>::to_vec) {
            assert_eq!(stretches.iter().map(|(from, to)| to - from).collect::<Vec<_>>(), [4, 4, 2]);
            assert!(stretches.iter().all(|(_, to)| *to <= 10));
        }
        assert_ne!(blocks.draw(0), blocks.draw(1));
    }

    #[test]
    fn whole_blocks_are_as_many_as_there_are() {
        let drawn: Vec<usize> = whole(5, 7, 3).collect();
        assert!(drawn.len() == 5 && drawn.iter().all(|block| *block < 5));
        assert_eq!(drawn, whole(5, 7, 3).collect::<Vec<_>>());
        assert!((0..20).any(|number| whole(5, 7, number).collect::<Vec<_>>() != drawn));
        assert_eq!(whole(0, 7, 3).count(), 0);
    }
}
