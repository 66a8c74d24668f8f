//! Choice of the quantile of predicted distributions that orders the queue best.
//!
//! Of two jobs that wait at once, the one served first makes the other wait for its work (run × GPUs), so the better order has the smaller work first
//! (Smith's rule). The **loss** of a key is, over the pairs of jobs within runs of 64 submissions, what the worse orders cost beyond the better ones, as a
//! share of what all pairs the wrong way round would cost:
//!
//! ```text
//! Σ (work served first − smaller work) / Σ (larger work − smaller work)
//! ```
//!
//! 0 is the right order, ½ that of chance. A median ignores that a job may be long; a high quantile sees nothing else. The level is chosen on jobs before
//! those that are reported, or served. O(64 n). Worked example: two jobs of 10 s and 100 s on one GPU whose keys are 20 and 15: the 100 s job goes first, the
//! loss is (100 − 10) / (100 − 10) = 1.

use super::distribution::Distribution;

/// Levels tried.
pub const TRIED: [f64; 6] = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// The level taken where too few jobs tell.
pub const USUAL: f64 = 0.8;
/// Jobs that are enough to tell.
const ENOUGH: usize = 200;
/// Submissions that are compared with each other.
const LIST: usize = 64;

/// A job that ended, and what was predicted of it.
#[derive(Debug, Clone, Copy)]
pub struct Ordered {
    /// The predicted distribution.
    pub distribution: Distribution,
    /// Log of its run.
    pub y: f64,
    /// GPUs of the job, or another measure of its size.
    pub gpus: f64,
}

/// The level of least loss, of [`TRIED`]; [`USUAL`] where there are too few jobs.
pub fn best_level(jobs: &[Ordered]) -> f64 {
    if jobs.len() < ENOUGH {
        return USUAL;
    }
    let losses = TRIED.map(|level| (level, loss(jobs, |job| job.distribution.log_quantile(level))));
    losses
        .into_iter()
        .filter(|(_, loss)| loss.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(USUAL, |best| best.0)
}

/// The loss of ordering jobs by e to a key × size; NaN if all works are equal.
pub fn loss(jobs: &[Ordered], key: impl Fn(&Ordered) -> f64) -> f64 {
    let (mut lost, mut most) = (0.0, 0.0);
    for list in jobs.chunks(LIST) {
        // A job without GPUs counts as one with one, as in the site factor.
        let size = |job: &Ordered| job.gpus.max(1.0);
        let known: Vec<(f64, f64)> =
            list.iter().map(|job| (key(job) + size(job).ln(), job.y.exp() * size(job))).collect();
        for (at, (one_key, one)) in known.iter().enumerate() {
            for (other_key, other) in known.iter().skip(at + 1) {
                let apart = (one - other).abs();
                most += apart;
                let share = match one_key.total_cmp(other_key) {
                    std::cmp::Ordering::Equal => 0.5,
                    order => f64::from(u8::from(order != one.total_cmp(other))),
                };
                lost += share * apart;
            }
        }
    }
    lost / most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::distribution::LEVELS;

    fn always(seconds: f64, high: f64) -> Distribution {
        Distribution::new(LEVELS.map(|level| if level <= 0.5 { seconds.ln() as f32 } else { high.ln() as f32 }))
    }

    #[test]
    fn orders_are_weighed_by_what_they_cost() {
        let job = |said: f64, run: f64, gpus: f64| Ordered { distribution: always(said, said), y: run.ln(), gpus };
        let by_median = |job: &Ordered| job.distribution.log_quantile(0.5);
        assert!((loss(&[job(20.0, 10.0, 1.0), job(15.0, 100.0, 1.0)], by_median) - 1.0).abs() < 1e-12);
        assert!(loss(&[job(20.0, 100.0, 1.0), job(15.0, 10.0, 1.0)], by_median).abs() < 1e-12);
        // 8 GPUs make the shorter job the larger one: 80 against 60.
        assert!(loss(&[job(10.0, 10.0, 8.0), job(60.0, 60.0, 1.0)], by_median).abs() < 1e-12);
        // Works 10, 20, 40 by keys 2, 1, 3: the first pair is wrong, 10 of 10 + 30 + 20.
        let three = [job(2.0, 10.0, 1.0), job(1.0, 20.0, 1.0), job(3.0, 40.0, 1.0)];
        assert!((loss(&three, by_median) - 10.0 / 60.0).abs() < 1e-12);
    }

    #[test]
    fn a_job_that_may_be_long_goes_behind_one_that_is_surely_short() {
        // Every other job has a median of 50 s, but two in five of those run 10,000 s; the others run 100 s.
        let job = |at: usize| {
            let risky = at.is_multiple_of(2);
            let run: f64 = if !risky {
                100.0
            } else if at % 10 < 4 {
                10_000.0
            } else {
                50.0
            };
            Ordered {
                distribution: if risky { always(50.0, 10_000.0) } else { always(100.0, 100.0) },
                y: run.ln(),
                gpus: 1.0,
            }
        };
        let jobs: Vec<Ordered> = (0..640).map(job).collect();
        assert!(best_level(&jobs) > 0.5);
        assert!((best_level(&jobs[..50]) - USUAL).abs() < 1e-12);
    }
}
