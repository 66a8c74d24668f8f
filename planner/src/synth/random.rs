//! Random numbers: one ChaCha stream per concern, so that drawing more in one concern leaves the others as they were.
//!
//! Stream `k` of seed `s` is ChaCha8 keyed by `s` with its nonce set to `k`. Turning telemetry off, for instance, does
//! not change a single job.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// What a stream of random numbers is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Concern {
    /// Users, their classes, families of jobs and names.
    Users = 1,
    /// When jobs come, in which bursts, and whose they are.
    Arrivals = 2,
    /// GPUs and cores asked for.
    Sizes = 3,
    /// Run times.
    Durations = 4,
    /// How jobs end, and their limits.
    States = 5,
    /// Node failures.
    Failures = 6,
    /// Power and utilisation.
    Telemetry = 7,
    /// Carbon intensity, prices and spot availability.
    Market = 8,
    /// What jobs of a family use alike.
    Families = 9,
}

/// The random numbers of one concern.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `concern` under `seed`.
    pub fn new(seed: u64, concern: Concern) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(concern as u64);
        Self(rng)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Whether an event of probability `p` happens.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Uniform in `0..n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// Index drawn with probability proportional to `weights`; `None` where no weight is above zero. O(n).
    pub fn pick(&mut self, weights: impl Iterator<Item = f64> + Clone) -> Option<usize> {
        let total: f64 = weights.clone().sum();
        if total <= 0.0 {
            return None;
        }
        let mut left = self.unit() * total;
        let mut last = None;
        for (ix, weight) in weights.enumerate() {
            if weight > 0.0 {
                last = Some(ix);
                if left < weight {
                    return last;
                }
                left -= weight;
            }
        }
        last
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Brings `items` into random order (Fisher-Yates). O(n).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for ix in (1..items.len()).rev() {
            items.swap(ix, self.below(ix + 1));
        }
    }
}

/// Weights drawn from in O(log n): running sums, searched.
#[derive(Debug, Clone, Default)]
pub struct Cumulative(Vec<f64>);

impl Cumulative {
    /// Running sums of `weights`; negative weights count as none.
    pub fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        Self(
            weights
                .map(|weight| {
                    sum += weight.max(0.0);
                    sum
                })
                .collect(),
        )
    }

    /// Sum of the weights.
    pub fn total(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    /// The item in which the share `unit` (0 to 1) of the total weight falls, and how far into it (0 to 1).
    pub fn at(&self, unit: f64) -> (usize, f64) {
        let mark = unit * self.total();
        let ix = self.0.partition_point(|sum| *sum <= mark).min(self.0.len().saturating_sub(1));
        let before = if ix == 0 { 0.0 } else { self.0.get(ix - 1).copied().unwrap_or(0.0) };
        let width = self.0.get(ix).copied().unwrap_or(0.0) - before;
        (ix, if width > 0.0 { ((mark - before) / width).clamp(0.0, 1.0) } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |seed, concern| Stream::new(seed, concern).bits();
        assert_eq!(draw(7, Concern::Users), draw(7, Concern::Users));
        assert_ne!(draw(7, Concern::Users), draw(7, Concern::Sizes));
        assert_ne!(draw(7, Concern::Users), draw(8, Concern::Users));
    }

    #[test]
    fn a_share_of_the_weight_falls_where_it_should() {
        // Weights 1, 0, 3: the first quarter is item 0, the rest item 2; half of the total is a third into item 2.
        let weights = Cumulative::new([1.0, 0.0, 3.0].into_iter());
        assert_eq!(weights.at(0.125), (0, 0.5));
        assert_eq!(weights.at(0.25), (2, 0.0));
        let (ix, into) = weights.at(0.5);
        assert!(ix == 2 && (into - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(weights.at(1.0).0, 2);
    }
}
