//! Usage up to a moment, as it is worth now: it decays with a half-life, or does not.
//!
//! Decayed usage is kept as it was worth at the last whole half-life e: a hold of g GPUs from s to t adds
//! g·(h/ln 2)·2^((t−e)/h)·(1 − 2^(−(t−s)/h)) to a compensated sum, and at t the sum is worth 2^(−(t−e)/h) of itself. Nothing is multiplied at a
//! change but when a half-life has passed, so that a million changes round no more than one does: multiplying at each would round
//! the same way at equal steps and lose four digits. Without a half-life a hold adds g·(t−s). O(1) for a change, and O(1) for an instant. Worked number: 1 GPU held
//! for one half-life of 100 s from nothing is 100/ln 2 · 0.5 = 72.13 decayed GPU-seconds.

use std::cell::Cell;
use std::f64::consts::LN_2;

use tracecast_analytics::stats::NeumaierSum;

/// Usage up to a moment, and the amount held from then on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent {
    /// GPU-seconds used up to `since_ms`, as they are worth at `epoch_ms`.
    used: NeumaierSum,
    /// A whole number of half-lives, the last before `since_ms`.
    epoch_ms: i64,
    since_ms: i64,
    /// Thousandths of a GPU.
    held: i64,
    /// The last answer and its moment: a decision asks for each waiting job.
    answer: Cell<Option<(i64, f64)>>,
}

impl Spent {
    /// Returns the usage since the last change, GPU-seconds as they are worth now.
    fn recent(&self, now: i64, half_life_ms: Option<i64>) -> f64 {
        if self.held == 0 {
            return 0.0;
        }
        let Some(half_life_ms) = half_life_ms else {
            return self.held as f64 / 1000.0 * ((now - self.since_ms) as f64 / 1000.0);
        };
        let half_lives = (now - self.since_ms) as f64 / half_life_ms as f64;
        // 1 − 2^(−x), without losing digits where x is small.
        let gone = -(-half_lives * LN_2).exp_m1();
        self.held as f64 / 1000.0 * (half_life_ms as f64 / 1000.0) / LN_2 * gone
    }

    /// Returns the usage to now, GPU-seconds as they are worth now; no change was later.
    pub(crate) fn at(&self, now: i64, half_life_ms: Option<i64>) -> f64 {
        if let Some((moment, gpu_s)) = self.answer.get()
            && moment == now
        {
            return gpu_s;
        }
        let kept = half_life_ms.map_or(1.0, |half_life| (-((now - self.epoch_ms) as f64 / half_life as f64)).exp2());
        let gpu_s = self.used.value() * kept + self.recent(now, half_life_ms);
        self.answer.set(Some((now, gpu_s)));
        gpu_s
    }

    /// `held` thousandths of a GPU more are held from now.
    pub(crate) fn change(&mut self, now: i64, half_life_ms: Option<i64>, held: i64) {
        self.add(now, half_life_ms, self.recent(now, half_life_ms));
        self.held += held;
    }

    /// Adds so many GPU-seconds, as they are worth now, to those of what was held.
    pub(crate) fn charge(&mut self, now: i64, half_life_ms: Option<i64>, gpu_s: f64) {
        self.add(now, half_life_ms, self.recent(now, half_life_ms) + gpu_s);
    }

    fn add(&mut self, now: i64, half_life_ms: Option<i64>, gpu_s: f64) {
        let mut worth = 1.0;
        if let Some(half_life_ms) = half_life_ms {
            let into_ms = now.rem_euclid(half_life_ms);
            let epochs = (now - into_ms - self.epoch_ms) / half_life_ms;
            if epochs > 0 {
                // A power of two: exact.
                let kept = 0.5f64.powi(i32::try_from(epochs).unwrap_or(i32::MAX));
                self.used = std::iter::once(self.used.value() * kept).collect();
                self.epoch_ms = now - into_ms;
            }
            worth = (into_ms as f64 / half_life_ms as f64).exp2();
        }
        self.used.add(gpu_s * worth);
        self.since_ms = now;
        self.answer.set(None);
    }
}

/// Seconds from one moment to another, as they are worth at a third, not before them.
pub fn spent_s(from_ms: i64, to_ms: i64, at_ms: i64, half_life_ms: Option<i64>) -> f64 {
    let mut spent = Spent::default();
    spent.change(from_ms, half_life_ms, 1000);
    spent.change(to_ms, half_life_ms, -1000);
    spent.at(at_ms, half_life_ms)
}

#[cfg(test)]
mod tests {
    use super::Spent;

    /// 2 GPUs from 10 to 40 s: 60 GPU-seconds, then and for ever.
    #[test]
    fn what_does_not_decay_stays() {
        let mut spent = Spent::default();
        spent.change(10_000, None, 2_000);
        assert!((spent.at(25_000, None) - 30.0).abs() < 1e-9);
        spent.change(40_000, None, -2_000);
        assert!((spent.at(9_000_000_000, None) - 60.0).abs() < 1e-9);
    }
}
