//! The GPU time that jobs ask for in a stretch of time, and the traffic that it is to queueing theory.
//!
//! Servers are of ḡ GPUs ([`super::queueing`]). O(n log n) in jobs. Worked number: every hour a job of 8 GPUs that runs two, and one of 16 that runs one, hold 32 GPUs on average.

use tracecast_analytics::facts::Steps;
use tracecast_analytics::stats::sum;

use super::queueing::Traffic;
use tracecast_sim::Workload;

/// GPU demand of the jobs of a part, over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfferedTraffic {
    /// GPUs held on average if no job waited.
    pub mean_gpus: f64,
    /// The most at once.
    pub peak_gpus: f64,
    /// GPUs of the largest job.
    pub largest_gpus: f64,
    /// GPUs of a job, weighted by its run, ḡ.
    pub gang_gpus: f64,
    /// The jobs, as queueing theory sees them.
    pub traffic: Traffic,
}

/// Squared coefficient of variation; 1 where it cannot be told.
fn scv(values: &[f64]) -> f64 {
    let scv = sum::mean(values).zip(sum::variance(values)).map(|(mean, variance)| variance / (mean * mean));
    scv.filter(|scv| scv.is_finite()).unwrap_or(1.0)
}

impl OfferedTraffic {
    /// Computes the demand of the jobs submitted within `window`, milliseconds; `None` with fewer
    /// than two, or if none holds GPUs.
    pub fn new(workload: &Workload, window: (i64, i64)) -> Option<Self> {
        let (from, to) = window;
        let within = |job: &usize| workload.submit_ms.get(*job).is_some_and(|submit| (from..to).contains(submit));
        let jobs: Vec<usize> = (0..workload.len()).filter(within).collect();
        let span_s = (to - from).max(1) as f64 / 1e3;
        let submit = |job: &usize| workload.submit_ms.get(*job).copied().unwrap_or(0);
        let run = |job: &usize| workload.run_ms.get(*job).copied().unwrap_or(0);
        let runs_s: Vec<f64> = jobs.iter().map(|job| run(job) as f64 / 1e3).collect();
        let submits = jobs.iter().map(submit);
        let gaps_s: Vec<f64> = submits.clone().zip(submits.skip(1)).map(|(a, b)| (b - a) as f64 / 1e3).collect();
        // Within the window: what a long job does beyond it is not asked for in it.
        let held = Steps::of_intervals((0..workload.len()).map(|job| {
            let (start, end) = (submit(&job).max(from), (submit(&job).max(0) + run(&job)).min(to));
            (start, end, workload.shape_of(job).as_gpus())
        }));
        let peak_gpus = held.max(from, to);
        let run_s: f64 = runs_s.iter().sum();
        let held_s: f64 = jobs.iter().map(|job| workload.gpu_s(*job)).sum();
        (jobs.len() > 1 && run_s > 0.0 && peak_gpus > 0.0).then(|| Self {
            mean_gpus: held.integral_s(from, to) / span_s,
            peak_gpus,
            largest_gpus: jobs.iter().map(|job| workload.shape_of(*job).as_gpus()).fold(0.0, f64::max),
            gang_gpus: held_s / run_s,
            traffic: Traffic {
                rate: jobs.len() as f64 / span_s,
                mean_run_s: run_s / jobs.len() as f64,
                arrival_scv: scv(&gaps_s),
                run_scv: scv(&runs_s),
            },
        })
    }

    /// The offered load of so many GPUs in the window: GPU time of the jobs submitted in it, each run whole, over that of the GPUs. It is that of [`OfferedLoads`](tracecast_replay::metric::OfferedLoads), of
    /// another window; `None` without GPUs.
    pub fn offered_load(&self, gpus: f64) -> Option<f64> {
        (gpus > 0.0).then(|| self.traffic.load() * self.gang_gpus / gpus)
    }

    /// Servers of ḡ GPUs that so many GPUs are.
    pub fn servers(&self, gpus: u64) -> u32 {
        (gpus as f64 / self.gang_gpus.max(1e-3)) as u32
    }
}
