//! How fast requests are replayed on replicas: `cargo bench -p tracecast-planner --bench serving`.
//!
//! An hour of 20,000 requests (Poisson-like arrivals with a slow swing, about 1,200 input and 210 output tokens) on the replica of `datasets/services/example.toml`. `replay`
//! is one replay with a forecast; `bound` the lower bound; `choose` all settings of the reactive rules.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use tracecast_planner::serving::choose::{ReplicaPrice, ServedStandard, ServingCase};
use tracecast_planner::serving::optimum::bound_s;
use tracecast_planner::serving::requests::LoggedRequest;
use tracecast_planner::serving::rule::{ServingLoad, ServingRule};
use tracecast_planner::serving::service::ReplicaService;
use tracecast_planner::serving::target::ServingTarget;

const REQUESTS: usize = 20_000;
const HOUR_US: i64 = 3_600_000_000;

fn main() {
    divan::main();
}

fn requests() -> Vec<LoggedRequest> {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let (input, output) = (LogNormal::new(6.6, 1.0).unwrap(), LogNormal::new(5.0, 0.8).unwrap());
    let mut result: Vec<LoggedRequest> = (0..REQUESTS)
        .map(|_| {
            let at_us = loop {
                let at = random.random_range(0..HOUR_US);
                let swing = 0.7 + 0.3 * (at as f64 / HOUR_US as f64 * 3.0 * std::f64::consts::TAU).sin();
                if random.random::<f64>() < swing {
                    break at;
                }
            };
            let length = |of: &LogNormal<f64>, random: &mut _, most: f64| of.sample(random).clamp(1.0, most) as u32;
            LoggedRequest {
                at_us,
                input: length(&input, &mut random, 14_000.0),
                output: length(&output, &mut random, 1_000.0),
            }
        })
        .collect();
    result.sort_by_key(|request| request.at_us);
    result
}

fn service() -> ReplicaService {
    ReplicaService::parse("example.toml", include_str!("../../datasets/services/example.toml")).unwrap()
}

fn case<'a>(requests: &'a [LoggedRequest], service: &'a ReplicaService) -> ServingCase<'a> {
    let price = ReplicaPrice { on_demand: 1.0, spot: 1.0 };
    ServingCase {
        service,
        target: ServingTarget::default(),
        requests,
        from_us: 0,
        slot_us: 30_000_000,
        price,
        spot: None,
        standard: ServedStandard::Reactive,
        naive: false,
    }
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn replay(bencher: divan::Bencher<'_, '_>) {
    let (requests, service) = (requests(), service());
    let case = case(&requests, &service);
    let load = ServingLoad::new(&service, &requests);
    let rule = ServingRule::Forecast {
        window_slots: 4,
        quantile: 0.9,
        margin: 0.5,
        root: 0.0,
        use_share: 0.7,
        guard: None,
        least: 1,
        hold_slots: 4,
    };
    bencher.bench_local(|| case.scored(rule, None, load, 5, (0, HOUR_US)).in_time);
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn bound(bencher: divan::Bencher<'_, '_>) {
    let (requests, service) = (requests(), service());
    bencher.bench_local(|| bound_s(&requests, &service, ServingTarget::default(), (0, HOUR_US)));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn choose(bencher: divan::Bencher<'_, '_>) {
    let (requests, service) = (requests(), service());
    let case = case(&requests, &service);
    let load = ServingLoad::new(&service, &requests);
    bencher.bench_local(|| {
        let settings = case.reactive_settings(6, false);
        case.scores(&settings, load, 6, (0, HOUR_US)).len()
    });
}
