//! Several jobs on one GPU: how fast each of them runs, composed from the forecasts of all couples among them.
//!
//! ```text
//! speed of one of k    1 / s = 1 + Σ max(0, 1 / sᵢ − 1), with sᵢ its speed beside the other i alone: every other lengthens a step by as much as it does alone; min sᵢ where nobody slows it
//! quantiles            the same of the quantiles, as if all couples were slow together
//! does not fit         the largest of the chances of its couples, of these once the memory of the others joins theirs, and of what the share of the GPU's memory says
//! ```
//!
//! No group teaches; those that were measured test it (`interference::groups`). On groups of three and four jobs on an H100 it is nearer than multiplying speeds, the worst couple and the rule of utilisation
//! (`predictors/RESULTS.md`); of larger ones nothing was measured. Where it is known of what jobs take turns, it is what they lose: k jobs that each fill the GPU run at 1 / k. Of two jobs the answer is that about the pair,
//! bit for bit.
//!
//! The order of the jobs means nothing but the order of the answer. A further job, or more load of any, makes no job faster, and no group fit better. For slowdowns the lower quantiles are those that all k jobs exceed together with a chance
//! of about 90 %, as if they were independent: at 1 − 0.9^(1 / k), where the tails of a couple beyond its 5 % quantile are those of a logistic distribution, which are heavier than normal ones.
//!
//! O(k² × members). Worked number: beside one other a job runs at 0.8, beside a second at 0.5; beside both at 1 / (1 + 0.25 + 1) = 0.444.

use super::super::committee::{PairForecast, SpeedForecast};
use super::super::score::NORMAL90;
use super::super::table::Quantity;
use super::{Basis, SharingJob, SharingPredictor};

/// Most jobs on one GPU that are forecast together.
pub const MOST_TOGETHER: usize = 16;

/// Forecast of several jobs on one GPU, in the order in which they were named.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupForecast {
    /// Speed of each.
    pub speeds: Vec<SpeedForecast>,
    /// Speeds that all of them exceed together with a chance of about 90 %.
    pub low: Vec<f64>,
    /// The chance that they do not fit into the GPU's memory together.
    pub out_of_memory: f64,
    /// Whether the memory of each is known: else the chance is hardly more than that of the worst
    /// couple, and may be too low.
    pub is_memory_known: bool,
}

/// The speed of a job beside several, of those beside each. The order means nothing. What is measured faster than alone, as jobs are that wait for their processor, stays so while nobody slows it.
fn composed(speeds: impl Iterator<Item = f64>) -> f64 {
    let mut costs: Vec<f64> = speeds.map(|speed| if speed > 0.0 { 1.0 / speed - 1.0 } else { f64::INFINITY }).collect();
    costs.sort_by(f64::total_cmp);
    let worst = costs.last().copied().unwrap_or_default();
    1.0 / (1.0 + if worst > 0.0 { costs.iter().filter(|cost| **cost > 0.0).sum() } else { worst })
}

/// The 0.05 quantile of a couple, moved to where each of `count` jobs is faster with a chance of 0.9^(1 / count).
fn lowered(told: &SpeedForecast, count: usize) -> f64 {
    let each = 0.9f64.powf(1.0 / count as f64);
    let tail = (each / (1.0 - each)).ln() / 19.0f64.ln();
    let [p05, ..] = told.quantiles;
    (p05 - (tail - 1.0).max(0.0) * NORMAL90 * told.deviation).max(0.0)
}

impl SharingPredictor {
    /// The forecast for all jobs that share one GPU, and what it rests on: the least of what its couples rest on. A job that is alone runs at its speed alone.
    pub fn group(&self, gpu_type: &str, jobs: &[SharingJob]) -> (GroupForecast, Basis) {
        let mut beside: Vec<Vec<SpeedForecast>> = vec![Vec::new(); jobs.len()];
        let gpu = self.table.gpu_types().iter().position(|known| known == gpu_type).unwrap_or(usize::MAX);
        let memory: Vec<(usize, Option<f64>)> = jobs
            .iter()
            .map(|job| {
                let (at, _) = self.place(job);
                (at, self.profile(gpu, at, job).get(Quantity::MemoryMb))
            })
            .collect();
        // Whether each couple was measured to fit says nothing of all together.
        let together = if jobs.len() > 2 { self.committee.group_out_of_memory(gpu, &memory) } else { 0.0 };
        let (mut out_of_memory, mut basis) = (together, Basis::Measured);
        for (i, a) in jobs.iter().enumerate() {
            for (j, b) in jobs.iter().enumerate().skip(i + 1) {
                let (told, rests_on) = self.pair(gpu_type, a, b);
                basis = basis.min(rests_on);
                if jobs.len() == 2 {
                    return (of_pair(&told, &memory), basis);
                }
                out_of_memory = f64::max(out_of_memory, told.out_of_memory);
                for (at, speed) in [(i, told.a), (j, told.b)] {
                    if let Some(slot) = beside.get_mut(at) {
                        slot.push(speed);
                    }
                }
            }
        }
        let speeds = beside.iter().map(|others| {
            let mut quantiles = [1.0; 5];
            for (at, slot) in quantiles.iter_mut().enumerate() {
                *slot = composed(others.iter().filter_map(|told| told.quantiles.get(at).copied()));
            }
            let [low, .., high] = quantiles;
            SpeedForecast {
                mean: composed(others.iter().map(|told| told.mean)),
                quantiles,
                deviation: ((high - low) / 2.0 / NORMAL90).max(1e-6),
            }
        });
        let low = |others: &Vec<SpeedForecast>| composed(others.iter().map(|told| lowered(told, jobs.len())));
        let forecast = GroupForecast {
            speeds: speeds.collect(),
            low: beside.iter().map(low).collect(),
            out_of_memory,
            is_memory_known: is_known(&memory),
        };
        (forecast, basis)
    }
}

fn is_known(memory: &[(usize, Option<f64>)]) -> bool {
    memory.iter().all(|(_, mb)| mb.is_some())
}

fn of_pair(told: &PairForecast, memory: &[(usize, Option<f64>)]) -> GroupForecast {
    let low = |told: &SpeedForecast| told.quantiles.first().copied().unwrap_or_default();
    GroupForecast {
        speeds: vec![told.a, told.b],
        low: vec![low(&told.a), low(&told.b)],
        out_of_memory: told.out_of_memory,
        is_memory_known: is_known(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_numbers() {
        assert!((composed([0.8, 0.5].into_iter()) - 1.0 / 2.25).abs() < 1e-12);
        // Four that each fill the GPU; faster beside others than alone counts as no cost beside one that has a cost; nothing is slower than one that stands.
        assert!((composed([0.5; 3].into_iter()) - 0.25).abs() < 1e-12);
        assert!((composed([1.2, 0.5].into_iter()) - 0.5).abs() < 1e-12);
        // Beside others that each leave it as fast or faster, the least of that, and no step where one of them begins to slow it.
        assert!((composed([1.4, 1.2].into_iter()) - 1.2).abs() < 1e-12);
        assert!((composed([1.4, 1.0].into_iter()) - 1.0).abs() < 1e-12);
        assert!((composed([1.4, 0.999].into_iter()) - 0.999).abs() < 1e-12);
        assert_eq!((composed([0.0, 0.0, 0.9].into_iter()), composed(std::iter::empty())), (0.0, 1.0));
        let told = SpeedForecast { mean: 0.6, quantiles: [0.5, 0.52, 0.6, 0.68, 0.7], deviation: 0.1 / NORMAL90 };
        // Three are all faster with a chance of 90 % if each is with one of 96.5 %: 1.127 times as far below the mean.
        assert!((lowered(&told, 3) - (0.5 - 0.0127)).abs() < 1e-3, "{}", lowered(&told, 3));
        assert!(lowered(&told, 16) < lowered(&told, 4));
    }
}
