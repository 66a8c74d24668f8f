//! How fast allocations are found: `cargo bench -p tracecast-planner --bench allocation`.
//!
//! Jobs of 1 to 8 GPUs with drawn speeds on three GPU types, an eighth of the jobs as GPUs of each. `max_min` and `finish_time` are one allocation to 100 jobs, `split` one to 1,000 jobs in parts, `replay_96` the replay of 96 jobs under `max_min_aware`.
#![allow(clippy::unwrap_used)]

use rand::{RngExt, SeedableRng};
use tracecast_planner::rounds::active::ActiveJob;
use tracecast_planner::rounds::job::{DrawnRuns, GangJob, JobDraw, draw};
use tracecast_planner::rounds::policy::{AllocationPolicy, allocate};
use tracecast_planner::rounds::pool::{GpuPool, TypedFleet};
use tracecast_planner::rounds::replay::{RoundOptions, replay};
use tracecast_planner::rounds::room::GangRoom;
use tracecast_predictors::interference::rates::GangRate;

fn main() {
    divan::main();
}

/// 26 job types whose speeds differ from GPU type to GPU type by up to ten times.
fn fleet(gpus: u32) -> TypedFleet {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let mut rates = Vec::new();
    for job in 0..26 {
        let speeds = [1.0, random.random_range(0.3..1.1), random.random_range(0.1..0.6)];
        let steps: f64 = random.random_range(0.5..100.0);
        for (gpu, speed) in ["fast", "middle", "slow"].into_iter().zip(speeds) {
            for gang in [1u32, 2, 4, 8] {
                let steps_per_s = steps * speed * f64::from(gang).powf(random.random_range(0.6..1.0));
                rates.push(GangRate {
                    gpu: gpu.to_owned(),
                    job: format!("job {job}"),
                    gpus: gang,
                    steps_per_s,
                    apart_steps_per_s: None,
                });
            }
        }
    }
    let pools = ["fast", "middle", "slow"].map(|name| GpuPool { name: name.to_owned(), gpus });
    TypedFleet::new(pools.to_vec(), &rates).unwrap()
}

fn jobs(fleet: &TypedFleet, jobs: usize) -> Vec<GangJob> {
    draw(fleet, &JobDraw { jobs, per_hour: None, runs: DrawnRuns::Hours, gangs: true, ..JobDraw::default() }, 1)
        .unwrap()
}

fn active<'a>(fleet: &'a TypedFleet, jobs: &[GangJob]) -> Vec<ActiveJob<'a>> {
    let of = |(number, job): (usize, &GangJob)| ActiveJob {
        since_s: 60.0 * number as f64,
        ..ActiveJob::new(&fleet.kinds[job.kind], job.steps)
    };
    jobs.iter().enumerate().map(of).collect()
}

fn one(bencher: divan::Bencher<'_, '_>, policy: AllocationPolicy, count: usize) {
    let fleet = fleet(count as u32 / 8);
    let jobs = jobs(&fleet, count);
    let active = active(&fleet, &jobs);
    let room = GangRoom { gpus: fleet.pools.iter().map(|pool| pool.gpus).collect(), per_node: None, host: None };
    bencher.bench_local(|| allocate(policy, &active, &room).unwrap());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn max_min(bencher: divan::Bencher<'_, '_>) {
    one(bencher, AllocationPolicy::MaxMinAware, 100);
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn finish_time(bencher: divan::Bencher<'_, '_>) {
    one(bencher, AllocationPolicy::FinishTimeAware, 100);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn split(bencher: divan::Bencher<'_, '_>) {
    one(bencher, AllocationPolicy::MaxMinAware, 1000);
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn replay_96(bencher: divan::Bencher<'_, '_>) {
    let fleet = fleet(8);
    let jobs = jobs(&fleet, 96);
    let options = RoundOptions::default();
    bencher.bench_local(|| replay(&fleet, &jobs, AllocationPolicy::MaxMinAware, &options).unwrap().programmes);
}
