//! How fast a fleet's mix is found: `cargo bench -p tracecast-planner --bench fleet`.
//!
//! A week of 100,000 jobs over 20 GPU types, arrivals with days and nights, runs lognormal (median 20 min, mean about two hours), 1 to 32 GPUs. Each type is offered as two
//! instances (4 and 8 GPUs), on demand, reserved for one and three years, and on spot in both with a limit on one. `mix` is all of it: demand by
//! the hour, and the programme of each type; `programme` one type alone.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::JobRow;
use tracecast_planner::fleet::commit::solve;
use tracecast_planner::market::demand::{DemandTimes, Flexible, PoolJobs};
use tracecast_planner::market::levels::levels;
use tracecast_planner::market::offers::Offers;
use tracecast_planner::market::supply::{PoolSupply, SupplyOptions};
use tracecast_planner::plan::checkpoint::CheckpointCosts;

const JOBS: usize = 100_000;
const TYPES: usize = 20;
const WEEK_MS: i64 = 604_800_000;
const OPTIONS: SupplyOptions = SupplyOptions {
    horizon_months: 12.0,
    buy: false,
    costs: CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 },
};

fn main() {
    divan::main();
}

fn trace() -> Trace {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let length = LogNormal::new(1200f64.ln(), 1.9).unwrap();
    let mut trace = Trace { zone: "UTC".to_owned(), ..Trace::default() };
    for job in 0..JOBS {
        // A day has one peak; nights have a fifth of it.
        let submit = loop {
            let at = random.random_range(0..WEEK_MS);
            let hour = (at % 86_400_000) as f64 / 3.6e6;
            if random.random::<f64>() < 0.6 - 0.4 * (hour * std::f64::consts::TAU / 24.0).cos() {
                break at;
            }
        };
        let run_s = length.sample(&mut random).clamp(1.0, 4e5);
        trace.jobs.push(JobRow {
            job_key: Some(format!("j{job}").into()),
            submit: Some(submit),
            start: Some(submit),
            end: Some(submit + (run_s * 1e3) as i64),
            run_s: Some(run_s),
            alloc_gpus: Some(f64::from(1u32 << random.random_range(0..6))),
            gpu_type: Some(format!("type {}", random.random_range(0..TYPES)).into()),
            state: Some("completed".into()),
            ..JobRow::default()
        });
    }
    trace
}

fn offers() -> Offers {
    let of = |number: usize| {
        let price = 10.0 + number as f64;
        format!(
            "[[instance]]\nname = \"large {number}\"\ngpu = \"type {number}\"\ngpus = 8\non_demand = {price}.0\nreserved = [{{ months = 12, price = {:.2} }}, {{ months = 36, price = {:.2} }}]\nspot = {{ price = {:.2}, available = 0.9, interrupted_every = \"20h\" }}\n\
             [[instance]]\nname = \"small {number}\"\ngpu = \"type {number}\"\ngpus = 4\non_demand = {:.2}\nreserved = [{{ months = 12, price = {:.2} }}]\nspot = {{ price = {:.2}, available = 0.7, limit = 12, interrupted_every = \"12h\" }}\n",
            price * 0.62,
            price * 0.21,
            price * 0.35,
            price * 0.53,
            price * 0.32,
            price * 0.16,
        )
    };
    Offers::parse("offers.toml", &(0..TYPES).map(of).collect::<String>()).unwrap()
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn mix(bencher: divan::Bencher<'_, '_>) {
    let (trace, offers) = (trace(), offers());
    let facts = JobFacts::new(&trace);
    bencher.bench_local(|| {
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::UpTo(None)).unwrap();
        let demand = jobs.demand((0, WEEK_MS), i64::MAX);
        let cost = |(pool, demand)| {
            let supply = PoolSupply::new(&offers, pool, demand, &OPTIONS);
            solve(&supply, &levels(&supply, demand.hours.iter().copied()))
        };
        let result: Vec<_> = offers.pools.iter().zip(&demand).map(cost).collect();
        let gap = result.iter().map(tracecast_planner::fleet::commit::FleetMix::gap).fold(0.0, f64::max);
        assert!(gap < 1e-2, "{gap}");
        gap
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn programme(bencher: divan::Bencher<'_, '_>) {
    let (trace, offers) = (trace(), offers());
    let facts = JobFacts::new(&trace);
    let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::UpTo(None)).unwrap();
    let demand = jobs.demand((0, WEEK_MS), i64::MAX);
    let supply = PoolSupply::new(&offers, &offers.pools[0], &demand[0], &OPTIONS);
    let levels = levels(&supply, demand[0].hours.iter().copied());
    bencher.bench_local(|| solve(&supply, &levels).cost);
}
