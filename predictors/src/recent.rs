//! The last scores of forecasts, and the quantiles of them by which the next ones are moved.
//!
//! Split-conformal prediction takes the score of rank ⌈(n + 1) level⌉ of n (Vovk et al., Algorithmic Learning in a Random World, 2005): a new score is then
//! no greater with at least that chance. Where n is too small for a level that rank is above n, and no score tells the level.
//!
//! O(log n + n) to learn, O(1) to read. Worked number: of the scores −2, 0, 1 and 5 the one at level ½ has rank ⌈5 × ½⌉ = 3, and is 1; level 0.9 has rank 5, of
//! four.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The last scores, in order of time and of size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecentScores {
    recent: VecDeque<f32>,
    sorted: Vec<f32>,
}

impl FromIterator<f32> for RecentScores {
    fn from_iter<I: IntoIterator<Item = f32>>(scores: I) -> Self {
        let recent: VecDeque<f32> = scores.into_iter().collect();
        let mut sorted: Vec<f32> = recent.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        Self { recent, sorted }
    }
}

impl RecentScores {
    /// Adds a score, and forgets the oldest where there are `most` already.
    pub(crate) fn learn(&mut self, score: f32, most: usize) {
        let place = |sorted: &[f32], value: f32| sorted.partition_point(|known| known.total_cmp(&value).is_lt());
        if self.recent.len() >= most
            && let Some(oldest) = self.recent.pop_front()
        {
            let at = place(&self.sorted, oldest);
            if at < self.sorted.len() {
                self.sorted.remove(at);
            }
        }
        self.recent.push_back(score);
        self.sorted.insert(place(&self.sorted, score), score);
    }

    /// Number of scores.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The scores, in order of time.
    pub(crate) fn in_time(&self) -> impl Iterator<Item = f32> {
        self.recent.iter().copied()
    }

    /// Rank of a level, from 1.
    fn rank(&self, level: f64) -> usize {
        ((self.sorted.len() + 1) as f64 * level).ceil() as usize
    }

    /// Score at a level; `None` if there are too few for it.
    pub(crate) fn quantile(&self, level: f64) -> Option<f32> {
        self.sorted.get(self.rank(level).checked_sub(1)?).copied()
    }

    /// Score at a level, the greatest or the least where there are too few for it; `None` only if there is none.
    pub(crate) fn nearest_quantile(&self, level: f64) -> Option<f32> {
        self.sorted.get(self.rank(level).clamp(1, self.len().max(1)) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let scores: RecentScores = [5.0, -2.0, 1.0, 0.0].into_iter().collect();
        assert_eq!((scores.quantile(0.5), scores.quantile(0.9), scores.quantile(0.0)), (Some(1.0), None, None));
        assert_eq!([0.0, 0.5, 0.9].map(|level| scores.nearest_quantile(level)), [-2.0, 1.0, 5.0].map(Some));
        assert_eq!(RecentScores::default().nearest_quantile(0.5), None);
    }

    #[test]
    fn the_last_are_kept() {
        // Steps of 7 modulo 11 come in no order, and each value twice.
        let scores: Vec<f32> = (0..22).map(|at| (at * 7 % 11) as f32).collect();
        for most in 1..25 {
            let mut learned = RecentScores::default();
            scores.iter().for_each(|score| learned.learn(*score, most));
            assert_eq!(learned, scores.iter().copied().skip(scores.len().saturating_sub(most)).collect());
        }
    }
}
