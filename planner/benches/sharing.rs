//! How fast jobs are put onto 10,000 GPUs that may hold two: `cargo bench -p tracecast-planner --bench sharing`.
//!
//! 300,000 jobs of one GPU and of 26 kinds, as many as Gavel measured, with lognormal runs (median 10 min, mean 16 min) and drawn speeds. At a load of 1.2 all GPUs
//! are taken after some hours, and from then on jobs go beside others. Each line is the least of three runs on one thread.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use tracecast_planner::one_gpu::TypedJobs;
use tracecast_planner::sharing::engine::{PairSpeeds, SharingRule, replay};

const GPUS: u32 = 10_000;
const KINDS: usize = 26;
const JOBS: usize = 300_000;

fn jobs(load: f64) -> TypedJobs {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let length = LogNormal::new(600f64.ln(), 1.0).unwrap();
    let run_ms: Vec<i64> = (0..JOBS).map(|_| (length.sample(&mut random).min(1e6) * 1e3) as i64).collect();
    let work: i64 = run_ms.iter().sum();
    let span = work as f64 / load / f64::from(GPUS);
    let mut submit_ms: Vec<i64> = (0..JOBS).map(|_| (random.random::<f64>() * span) as i64).collect();
    submit_ms.sort_unstable();
    let kind = (0..JOBS).map(|_| random.random_range(0..KINDS as u16)).collect();
    TypedJobs { submit_ms, run_ms, kind }
}

fn main() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    let mut speeds = PairSpeeds::new(KINDS);
    let mut all = SharingRule::exclusive(KINDS);
    for a in 0..KINDS {
        for b in a..KINDS {
            let mut speed = || 0.5 + 0.5 * random.random::<f64>();
            speeds.set(a, b, (speed(), speed()));
            all.allow(a, b, 1);
            all.allow(b, a, 1);
        }
    }
    let exclusive = SharingRule::exclusive(KINDS);
    for (name, rule, load) in [("nobody shares, load 0.9", &exclusive, 0.9), ("all may share, load 1.2", &all, 1.2)] {
        let jobs = jobs(load);
        let mut best = f64::INFINITY;
        let mut shared = 0;
        for _ in 0..3 {
            let began = Instant::now();
            let times = replay(&jobs, GPUS, &speeds, rule).unwrap();
            best = best.min(began.elapsed().as_secs_f64());
            shared = times.iter().filter(|times| times.shared_ms > 0).count();
        }
        println!(
            "{name:<26} {JOBS} jobs on {GPUS} GPUs {best:>7.3} s {:>7.2} µs/job, {:.0} % shared",
            best / JOBS as f64 * 1e6,
            100.0 * shared as f64 / JOBS as f64
        );
    }
}
