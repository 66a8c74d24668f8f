//! Published and hand-worked values, and the simulator against the formulas.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::StudentsT;

use super::*;
use tracecast_replay::metric::JobTimes;
use tracecast_sim::{Cluster, Policy, Shape, Workload, simulate};

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} and {b}");
}

#[test]
fn erlang_by_hand() {
    // Load 1: B(1) = 1/2, B(2) = 1/5, B(3) = 1/16.
    near(erlang_b(1, 1.0), 0.5);
    near(erlang_b(2, 1.0), 0.2);
    near(erlang_b(3, 1.0), 1.0 / 16.0);
    // C(2, 1) = 2·(1/5) / (2 − 4/5) = 1/3; with one server the share that waits is the load.
    near(erlang_c(2, 1.0), 1.0 / 3.0);
    near(erlang_c(1, 0.7), 0.7);
    near(erlang_c(3, 3.0), 1.0);
    // As written out: a^k/k!·k/(k−a) over that and the sum of a^i/i!, i < k.
    let (k, a) = (5u32, 3.5f64);
    let term = |i: u32| a.powi(i as i32) / (1..=i).map(f64::from).product::<f64>();
    let last = term(k) * f64::from(k) / (f64::from(k) - a);
    near(erlang_c(k, a), last / ((0..k).map(term).sum::<f64>() + last));
}

#[test]
fn mean_waits_by_hand() {
    let hour = 3600.0;
    // The worked number: 20 min.
    near(Traffic::poisson(1.0 / hour, hour).mean_wait_s(2).unwrap(), 1200.0);
    // M/M/1 at load 1/2 waits a run, M/D/1 half of one, and Allen-Cunneen and Pollaczek-Khinchine agree with one server.
    near(pollaczek_khinchine_s(0.5, 1.0, 1.0).unwrap(), 1.0);
    near(pollaczek_khinchine_s(0.5, 1.0, 0.0).unwrap(), 0.5);
    near(Traffic { run_scv: 0.0, ..Traffic::poisson(0.5, 1.0) }.mean_wait_s(1).unwrap(), 0.5);
    assert_eq!(pollaczek_khinchine_s(1.0, 1.0, 1.0), None);
    assert_eq!(Traffic::poisson(2.0, 1.0).mean_wait_s(2), None);
}

#[test]
fn staffing_by_hand() {
    // Φ(1)/φ(1) = 0.841345 / 0.241971 = 3.477055.
    assert!((halfin_whitt(1.0) - 1.0 / 4.477_055).abs() < 1e-5);
    near(halfin_whitt(0.0), 1.0);
    // A share of 0.223361 waits: β = 1, so 100 + 10.
    near(square_root_staffing(100.0, halfin_whitt(1.0) + 1e-9), 110.0);
    // And it is near to what Erlang C asks for.
    let exact = f64::from(Traffic::poisson(100.0, 1.0).servers_for(0.0, 0.05).unwrap());
    assert!((square_root_staffing(100.0, 0.05) - exact).abs() <= 1.0, "{exact}");
}

#[test]
fn two_queues_wait_three_times_as_long_as_one() {
    // Two M/M/1 at load 1/2 wait a run; M/M/2 at load 1 waits a third of one.
    let gain = |rate: f64| {
        let apart = [(Traffic::poisson(rate, 1.0), 1); 2];
        pooling_gain(&apart, &(Traffic::poisson(2.0 * rate, 1.0), 2))
    };
    near(gain(0.5).unwrap(), 3.0);
    assert_eq!(gain(1.5), None);
    // Of uneven queues each job counts: one that has three quarters of the jobs and waits, and one that does not.
    let idle = Traffic { arrival_scv: 0.0, run_scv: 0.0, ..Traffic::poisson(0.2, 1.0) };
    let apart = [(Traffic::poisson(0.6, 4.0 / 3.0), 1), (idle, 1)];
    let one = Traffic::poisson(0.6, 4.0 / 3.0).mean_wait_s(1).unwrap();
    near(mean_wait_apart_s(&apart).unwrap(), one * 0.75);
    assert_eq!(mean_wait_apart_s(&[]), None);
}

proptest! {
    #[test]
    fn the_fewest_servers_are_enough_and_one_less_is_not(rate in 0.01f64..50.0, wait in 0.0f64..3.0, scv in 0.2f64..5.0) {
        let traffic = Traffic { run_scv: scv, ..Traffic::poisson(rate, 1.0) };
        let servers = traffic.servers_for(wait, 0.05).unwrap();
        prop_assert!(traffic.longer_than(servers, wait) <= 0.05);
        prop_assert!(servers == 1 || traffic.longer_than(servers - 1, wait) > 0.05);
    }
}

/// Mean wait and the share that waits longer than a run, of independent replays of M/M/k, with 99.9 % intervals.
fn replayed(servers: u32, load: f64) -> [(f64, f64); 2] {
    const REPLAYS: u64 = 12;
    let (warm, jobs) = (4_000usize, 20_000usize);
    let figures: Vec<[f64; 2]> = (0..REPLAYS)
        .map(|seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed * 1000 + u64::from(servers));
            let mut draw = |mean: f64| -(1.0 - rng.random::<f64>()).ln() * mean;
            let run_ms = 1e6;
            let mut now = 0.0;
            let mut workload = Workload::default();
            for _ in 0..warm + jobs {
                now += draw(run_ms / load);
                workload.push(now as i64, draw(run_ms) as i64, Shape::whole(1));
            }
            let cluster = Cluster::of_vcs(&[("all", servers, 1)]);
            let schedule = simulate(&workload, &cluster, &Policy::default()).unwrap();
            let times = JobTimes::new(&workload, &schedule).unwrap();
            let waits: Vec<f64> = (warm..workload.len()).map(|job| times.wait_ms(job).unwrap() as f64).collect();
            let longer = waits.iter().filter(|wait| **wait > run_ms).count();
            [waits.iter().sum::<f64>() / jobs as f64 / 1e3, longer as f64 / jobs as f64]
        })
        .collect();
    std::array::from_fn(|at| {
        let values: Vec<f64> = figures.iter().map(|figure| figure[at]).collect();
        let mean = values.iter().sum::<f64>() / REPLAYS as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (REPLAYS - 1) as f64;
        let t = StudentsT::new(0.0, 1.0, (REPLAYS - 1) as f64).unwrap().inverse_cdf(0.9995);
        (mean, t * (variance / REPLAYS as f64).sqrt())
    })
}

#[test]
fn the_simulator_waits_as_erlang_says() {
    for servers in [1u32, 2, 5, 20] {
        for share in [0.5, 0.7, 0.85] {
            let load = share * f64::from(servers);
            let traffic = Traffic::poisson(load / 1000.0, 1000.0);
            let [(mean_s, half_s), (longer, half)] = replayed(servers, load);
            let (wait_s, beyond) = (traffic.mean_wait_s(servers).unwrap(), traffic.longer_than(servers, 1000.0));
            assert!(
                (mean_s - wait_s).abs() <= half_s + 0.5,
                "{servers} at {share}: {mean_s} ± {half_s}, Erlang {wait_s}"
            );
            assert!((longer - beyond).abs() <= half + 1e-4, "{servers} at {share}: {longer} ± {half}, Erlang {beyond}");
        }
    }
}

/// Draws: exponential, lognormal with a squared variation of 4, or one of two runs with one of 5.76; all with the mean given.
#[derive(Debug, Clone, Copy)]
enum Runs {
    Exponential,
    Lognormal,
    TwoPoint,
}

impl Runs {
    fn scv(self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Lognormal => 4.0,
            Self::TwoPoint => 5.76,
        }
    }

    fn draw(self, rng: &mut ChaCha8Rng, mean: f64) -> f64 {
        let uniform = 1.0 - rng.random::<f64>();
        match self {
            Self::Exponential => -uniform.ln() * mean,
            Self::Lognormal => {
                // exp(σz − σ²/2) has the mean 1 and the squared variation e^σ² − 1.
                let variance = 5.0f64.ln();
                let normal = (-2.0 * uniform.ln()).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos();
                mean * (variance.sqrt() * normal - variance / 2.0).exp()
            }
            // 0.9 · 0.2 + 0.1 · 8.2 = 1, and 0.9 · 0.04 + 0.1 · 67.24 = 1 + 5.76.
            Self::TwoPoint => mean * if uniform <= 0.9 { 0.2 } else { 8.2 },
        }
    }
}

/// Mean waits, seconds, of independent replays of Poisson arrivals to queues with these servers and rates of 1,000 s runs; pooled, all jobs wait for all servers.
fn mean_waits(queues: &[(u32, f64)], runs: Runs, pooled: bool, replays: u64) -> Vec<f64> {
    let (warm, jobs) = (4_000usize, 20_000usize);
    let names: Vec<String> = (0..queues.len()).map(|at| at.to_string()).collect();
    let vcs: Vec<(&str, u32, u32)> = names.iter().zip(queues).map(|(name, of)| (name.as_str(), of.0, 1)).collect();
    let cluster = Cluster::of_vcs(&vcs);
    let cluster = if pooled { cluster.pooled() } else { cluster };
    let load: f64 = queues.iter().map(|(_, load)| load).sum();
    let one = |seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed * 1_000 + 7);
        let (mut now, mut workload) = (0.0, Workload::default());
        for _ in 0..warm + jobs {
            now += Runs::Exponential.draw(&mut rng, 1e6 / load);
            workload.push(now as i64, runs.draw(&mut rng, 1e6) as i64, Shape::whole(1));
            let mut at = rng.random::<f64>() * load;
            let queue = queues.iter().position(|(_, load)| {
                at -= load;
                at < 0.0
            });
            *workload.vc.last_mut().unwrap() = queue.unwrap_or(queues.len() - 1) as u16;
        }
        let schedule = simulate(&workload, &cluster, &Policy::default()).unwrap();
        let times = JobTimes::new(&workload, &schedule).unwrap();
        let waits = (warm..workload.len()).map(|job| times.wait_ms(job).unwrap() as f64 / 1e3);
        waits.sum::<f64>() / jobs as f64
    };
    (0..replays).map(one).collect()
}

/// The mean of some independent values, and its 99.9 % interval by the bootstrap.
fn bootstrapped(values: &[f64]) -> (f64, f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let count = values.len();
    let mut means: Vec<f64> = (0..10_000)
        .map(|_| (0..count).map(|_| values[rng.random_range(0..count)]).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    (values.iter().sum::<f64>() / count as f64, means[5], means[9_994])
}

#[test]
fn one_server_waits_as_pollaczek_and_khinchine_say_whatever_runs_are() {
    for runs in [Runs::Exponential, Runs::Lognormal, Runs::TwoPoint] {
        for load in [0.3, 0.6] {
            let (mean, low, high) = bootstrapped(&mean_waits(&[(1, load)], runs, false, 40));
            let theory = pollaczek_khinchine_s(load / 1000.0, 1000.0, runs.scv()).unwrap();
            // Runs and times are cut to milliseconds.
            assert!(
                (low - 0.5..=high + 0.5).contains(&theory),
                "{runs:?} at {load}: {mean} ({low} to {high}), theory {theory}"
            );
        }
    }
}

#[test]
fn pooling_gains_in_replays_what_theory_says() {
    // Two queues alike, and a small idle one beside a large busy one.
    for queues in [[(2u32, 1.4), (2, 1.4)], [(1, 0.4), (3, 2.4)]] {
        let apart: Vec<(Traffic, u32)> =
            queues.iter().map(|(servers, load)| (Traffic::poisson(load / 1000.0, 1000.0), *servers)).collect();
        let (servers, load) = (queues[0].0 + queues[1].0, queues[0].1 + queues[1].1);
        let pooled = (Traffic::poisson(load / 1000.0, 1000.0), servers);
        let [separate, together] = [false, true].map(|pool| mean_waits(&queues, Runs::Exponential, pool, 24));
        let theory = [mean_wait_apart_s(&apart).unwrap(), pooled.0.mean_wait_s(servers).unwrap()];
        for (of, theory) in [&separate, &together].into_iter().zip(theory) {
            let (mean, low, high) = bootstrapped(of);
            assert!(
                (low - 0.5..=high + 0.5).contains(&theory),
                "{queues:?}: {mean} ({low} to {high}), theory {theory}"
            );
        }
        // The same jobs in both replays, so the gain is judged seed by seed.
        let gain = pooling_gain(&apart, &pooled).unwrap();
        let beyond: Vec<f64> = separate.iter().zip(&together).map(|(a, b)| a - gain * b).collect();
        let (mean, low, high) = bootstrapped(&beyond);
        assert!((low..=high).contains(&0.0), "{queues:?}: {mean} ({low} to {high}) beyond a gain of {gain}");
        assert!(gain > 1.5);
    }
}
