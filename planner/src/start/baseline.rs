//! Simple rules for the wait of a job, beside the replay: what they say without looking at who runs and who waits.
//!
//! | name | says |
//! |---|---|
//! | `class_mean` | the mean wait of the jobs of its VC and size that started before |
//! | `moving_average` | the mean wait of the last `LAST` jobs of its VC that started before |
//! | `binomial_bound` | by order: the wait that is, with a confidence of 95 %, no less than the quantile asked for, of the last `WINDOW` of its VC (Brevik, Nurmi, Wolski, PPoPP 2006) |
//!
//! Of the binomial bound the quantile of a level q of n waits in order is the k-th, with k the least for which P(Binomial(n, q) < k) ≥ 0.95, here by the normal approximation
//! k = ⌈nq + 1.645 √(nq(1 − q))⌉; the lower end of an interval is the k-th from below in the same way.
//!
//! A job that waits has waited for some time already; what a rule says of the whole wait is less that time, at least 0. O(WINDOW log WINDOW) an answer. Worked number: of 100 waits the bound of the
//! 90 % quantile is the 95th.

use std::collections::{BTreeMap, VecDeque};

/// Starts that a moving average is of.
const LAST: usize = 20;
/// Waits that the binomial bound is of.
const WINDOW: usize = 200;
/// z of a confidence of 95 % on one side.
const CONFIDENT: f64 = 1.645;

/// Waits of jobs that have started, seconds.
#[derive(Debug, Clone, Default)]
pub struct PastWaits {
    classes: BTreeMap<(u16, u64), (f64, u32)>,
    of_vc: BTreeMap<u16, VecDeque<f64>>,
}

impl PastWaits {
    /// Takes in the wait of a job that has started.
    pub fn learn(&mut self, vc: u16, amount: u64, wait_s: f64) {
        let (sum, jobs) = self.classes.entry((vc, amount)).or_default();
        *sum += wait_s;
        *jobs += 1;
        let waits = self.of_vc.entry(vc).or_default();
        if waits.len() == WINDOW {
            waits.pop_front();
        }
        waits.push_back(wait_s);
    }

    /// The mean wait of its class.
    pub fn class_mean_s(&self, vc: u16, amount: u64) -> Option<f64> {
        self.classes.get(&(vc, amount)).map(|(sum, jobs)| sum / f64::from(*jobs))
    }

    /// The mean of the last waits of its VC.
    pub fn moving_average_s(&self, vc: u16) -> Option<f64> {
        let waits = self.of_vc.get(&vc)?;
        let last = waits.iter().rev().take(LAST);
        Some(last.sum::<f64>() / waits.len().clamp(1, LAST) as f64)
    }

    /// Bounds of the quantiles of the waits of its VC: lower ones of levels below a half, upper ones of the others.
    pub fn binomial_bounds_s<const N: usize>(&self, vc: u16, levels: [f64; N]) -> Option<[f64; N]> {
        let mut sorted: Vec<f64> = self.of_vc.get(&vc)?.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let of = |level: f64| {
            let away = CONFIDENT * (count * level * (1.0 - level)).sqrt();
            let rank = if level < 0.5 { (count * level - away).floor() } else { (count * level + away).ceil() };
            sorted.get((rank.clamp(1.0, count.max(1.0)) as usize).saturating_sub(1)).copied().unwrap_or_default()
        };
        Some(levels.map(of))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let mut past = PastWaits::default();
        (1..=100).for_each(|wait| past.learn(0, 8000, f64::from(wait)));
        assert_eq!(past.binomial_bounds_s(0, [0.9, 0.1]), Some([95.0, 5.0]));
        assert_eq!(past.moving_average_s(0), Some(90.5));
        assert_eq!((past.class_mean_s(0, 8000), past.class_mean_s(0, 1000)), (Some(50.5), None));
        assert_eq!(past.moving_average_s(1), None);
    }
}
