//! Amount that each queue deserves at a moment: the rule of [`super`], in whole millionths of a
//! GPU.
//!
//! Volcano takes amounts that differ by less than a ten-thousandth of a GPU for equal (`NEAR`); so what rounding down loses counts nowhere. O(queues²) at most: in each further round one queue is met. Worked numbers: see [`super`].

use super::{FINE, Plugin, VolcanoQueues};

/// Amounts that differ by less are equal, millionths.
pub(crate) const NEAR: u64 = 100;

/// Amounts due to queues at a decision.
#[derive(Debug, Clone, Default)]
pub struct Due {
    /// Amount that each queue deserves, millionths.
    pub(crate) deserved: Vec<u64>,
    /// The most that each queue may hold, thousandths.
    pub(crate) bounds: Vec<u64>,
}

impl Due {
    /// Whether a queue that holds so much holds more than it deserves.
    pub(crate) fn is_over(&self, queue: usize, held: u64) -> bool {
        held * FINE >= self.deserved[queue] + NEAR
    }

    /// Whether a queue that holds so much holds at most what it deserves.
    pub(crate) fn is_within(&self, queue: usize, held: u64) -> bool {
        !self.is_over(queue, held)
    }

    /// Whether a queue that holds so much has all that it deserves.
    pub(crate) fn has_all(&self, queue: usize, held: u64) -> bool {
        self.deserved[queue] < held * FINE + NEAR
    }
}

impl VolcanoQueues {
    /// Computes the amounts due to each queue of `total` in service, with these requests, by queue.
    pub(crate) fn due(&self, total: u64, requests: &[u64]) -> Due {
        let bounds = self.bounds(total);
        let deserved = match self.rules().plugin {
            Plugin::Proportion => self.filled(total, requests, &bounds),
            Plugin::Capacity => self
                .queues()
                .iter()
                .zip(&bounds)
                .map(|(queue, bound)| queue.deserved.unwrap_or(0).min(*bound).max(queue.guarantee) * FINE)
                .collect(),
        };
        Due { deserved, bounds }
    }

    /// Divides what is in service by weight.
    fn filled(&self, total: u64, requests: &[u64], bounds: &[u64]) -> Vec<u64> {
        let mut deserved = vec![0; self.queues().len()];
        let mut open: Vec<usize> =
            (0..deserved.len()).filter(|at| requests.get(*at).is_some_and(|of| *of > 0)).collect();
        let mut left = total * FINE;
        while !open.is_empty() {
            let weights: u128 = open.iter().map(|at| u128::from(self.queues()[*at].weight)).sum();
            let round = left;
            open.retain(|at| {
                let queue = &self.queues()[*at];
                let part = u128::from(round) * u128::from(queue.weight) / weights;
                let due = deserved[*at] + u64::try_from(part).unwrap_or(u64::MAX);
                let request = requests[*at] * FINE;
                let due = due.min(bounds[*at] * FINE).min(request).max(queue.guarantee * FINE);
                let is_met = request <= due || due == deserved[*at];
                deserved[*at] = due;
                !is_met
            });
            let given: u64 = deserved.iter().sum();
            left = (total * FINE).saturating_sub(given);
            if left < NEAR || left == round {
                break;
            }
        }
        deserved
    }
}
