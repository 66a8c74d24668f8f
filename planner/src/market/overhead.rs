//! What interruptions of spot cost a job: how many times its run it takes.
//!
//! ```text
//! M   mean time between interruptions of the job: that of one instance over its instances
//! without checkpoints   M·e^(R/M)·(e^(L/M) − 1) / L          L is its run, R the time until it runs again
//! with checkpoints      M·e^(R/M)·(e^((τ+δ)/M) − 1) / τ      δ is what a checkpoint costs, τ is Daly's interval
//! ```
//!
//! A job takes the better of the two. A run is counted as known: one that was cut off counts as far as it was seen. Formulas of
//! [checkpoints](crate::plan::checkpoint::CheckpointCosts); interruptions are taken to be independent of each other.
//!
//! O(1). Worked number: δ = 5 min, R = 10 min, M = 24 h. A job of an hour has no checkpoint and takes 1.028 times its run; one of ten days saves every 116.7 min and
//! takes 1.096 times.

use crate::plan::checkpoint::CheckpointCosts;

/// Jobs that may run on spot, as far as their overhead needs them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlexibleJob {
    /// GPUs.
    pub gpus: f64,
    /// Run, seconds.
    pub run_s: f64,
    /// GPU time within the stretch looked at, GPU-seconds.
    pub gpu_s: f64,
}

/// How many times its run a job of `run_s` takes where it is interrupted every `mtbf_s`.
pub fn stretch(costs: &CheckpointCosts, run_s: f64, mtbf_s: f64) -> f64 {
    if run_s <= 0.0 {
        return 1.0;
    }
    // Without checkpoints all of the run is one interval, at whose end nothing is written.
    let whole = 1.0 / CheckpointCosts { checkpoint_s: 0.0, ..*costs }.goodput(run_s, mtbf_s);
    let saved = 1.0 / costs.goodput(costs.daly_s(mtbf_s), mtbf_s);
    // A goodput of nothing, or of less than a float holds, is no way to run.
    [whole, saved].into_iter().filter(|times| times.is_finite()).fold(f64::INFINITY, f64::min).max(1.0)
}

/// The mean of [`stretch`] over jobs by their GPU time, on instances of `gpus` that are each interrupted every `every_s`; 1 without jobs or interruptions.
pub fn of_jobs(costs: &CheckpointCosts, jobs: &[FlexibleJob], gpus: u32, every_s: Option<f64>) -> f64 {
    let Some(every_s) = every_s else { return 1.0 };
    let (mut sum, mut weight) = (0.0, 0.0);
    for job in jobs {
        let instances = (job.gpus / f64::from(gpus.max(1))).ceil().max(1.0);
        sum += job.gpu_s * stretch(costs, job.run_s, every_s / instances);
        weight += job.gpu_s;
    }
    if weight > 0.0 { sum / weight } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
        let day = 86_400.0;
        // e^(1/144) · 24 · (e^(1/24) − 1) = 1.006969 · 24 · 0.0425469.
        assert!((stretch(&costs, 3600.0, day) - 1.0282).abs() < 1e-3, "{}", stretch(&costs, 3600.0, day));
        // τ = 7001.4 s: 1.006969 · 86400 · (e^(7301.4/86400) − 1) / 7001.4.
        assert!((stretch(&costs, 10.0 * day, day) - 1.0959).abs() < 1e-3, "{}", stretch(&costs, 10.0 * day, day));
        let job = |gpus: f64, gpu_s: f64| FlexibleJob { gpus, run_s: 3600.0, gpu_s };
        // Two instances are interrupted twice as often; the mean is by GPU time.
        let result = of_jobs(&costs, &[job(4.0, 1.0), job(8.0, 3.0)], 4, Some(day));
        let wanted = (stretch(&costs, 3600.0, day) + 3.0 * stretch(&costs, 3600.0, day / 2.0)) / 4.0;
        assert!((result - wanted).abs() < 1e-12);
        assert!((of_jobs(&costs, &[], 4, Some(day)) - 1.0).abs() < 1e-12);
        assert!((of_jobs(&costs, &[job(1.0, 1.0)], 4, None) - 1.0).abs() < 1e-12);
    }
}
