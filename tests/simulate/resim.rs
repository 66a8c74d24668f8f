//! Power plans on real jobs: what holds of every one of them, and what they cost and save on Philly's October and the sample.
//!
//! `cargo test --release -p tracecast-tests --test simulate resim -- --nocapture` prints the figures.

use std::path::Path;

use tracecast_analytics::storage;
use tracecast_planner::power::replay::resim::{Baseline, HourlyRates, Plan, PowerEffect, ReplaySetting};
use tracecast_planner::power::score::constants::Constants;
use tracecast_planner::replay::input::{Loaded, Options, Site, load};
use tracecast_planner::sim::power::Controller;
use tracecast_planner::sim::power::PowerPolicy;
use tracecast_planner::sim::{Policy, Scan};
use tracecast_predictors::demand::Seen;
use tracecast_tests::{read, real_trace};

/// The largest demand of the last slots, what waits included, and some nodes more.
struct Trailing {
    slots: usize,
    buffer: f64,
}

impl PowerPolicy for Trailing {
    fn name(&self) -> String {
        format!("trailing maximum of {} slots + {}", self.slots, self.buffer)
    }

    fn target(&mut self, seen: Seen<'_>, _: f64) -> f64 {
        let from = seen.slots.len().saturating_sub(self.slots);
        seen.slots[from..].iter().map(|slot| slot.peak + slot.pending).fold(0.0, f64::max) + self.buffer
    }
}

fn trailing(pools: usize, buffer: f64, wake_on_demand: bool) -> Plan {
    let controller = || Some(Controller { policy: Box::new(Trailing { slots: 36, buffer }), history: Vec::new() });
    let how = if wake_on_demand { ", wake on demand" } else { "" };
    Plan {
        name: format!("trailing 6 h maximum + {buffer}{how}"),
        idle_s: None,
        by_pool: Vec::new(),
        wake_on_demand,
        controllers: (0..pools).map(|_| controller()).collect(),
    }
}

fn plans(pools: usize) -> Vec<Plan> {
    vec![
        Plan::always_on(),
        Plan::timeout(1800.0),
        trailing(pools, 1.0, false),
        trailing(pools, 1.0, true),
        trailing(pools, 2.0, true),
    ]
}

fn report(effect: &PowerEffect) {
    let jobs = &effect.jobs;
    let interval = |known: Option<tracecast_planner::replay::compare::IntervalEstimate>| {
        known.map_or_else(String::new, |of| format!("{:.1} ({:.1} to {:.1})", of.value, of.low, of.high))
    };
    println!(
        "  {}: asleep {} of {} nodes, {} wakes a day (most {} of a node in a day), {:.0} unserved node-slots; {} kWh saved ({:.1} % of idle energy, {} of the optimum); \
         {} jobs, wait {} s longer in the mean (of {:.0} s), p95 {:.0} s, JCT {} s; {} delayed, {} sooner, {} unfinished; 95 % quantile of waits {} s",
        effect.name,
        interval(effect.nodes_asleep_mean),
        effect.nodes,
        interval(effect.node_wakes_per_day),
        effect.most_wakes_of_a_node_a_day,
        effect.unserved_node_slots,
        interval(effect.energy_saved_kwh),
        100.0 * effect.idle_energy_saved_share.unwrap_or(0.0),
        effect.share_of_optimum.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share)),
        jobs.jobs,
        interval(jobs.added_wait_mean_s),
        jobs.baseline_wait_mean_s.unwrap_or(0.0),
        jobs.added_wait_p95_s.unwrap_or(0.0),
        interval(jobs.added_jct_mean_s),
        jobs.delayed,
        jobs.sooner,
        jobs.unfinished,
        interval(jobs.distribution.as_ref().map(|of| of.p95_wait_s)),
    );
}

fn effects(what: &str, loaded: &Loaded, policy: &Policy) -> Vec<PowerEffect> {
    let constants = Constants::default();
    let setting = ReplaySetting {
        loaded,
        policy,
        constants: &constants,
        rates: HourlyRates::default(),
        slot_ms: 600_000,
        from_ms: None,
        to_ms: None,
        zone: "UTC",
        seed: 1,
    };
    let began = std::time::Instant::now();
    let baseline = Baseline::new(setting).unwrap();
    let plans = plans(loaded.cluster.pools.len());
    let effects: Vec<PowerEffect> = plans.into_iter().map(|plan| baseline.effect(plan).unwrap().effect).collect();
    let optimum = effects[0].offline_optimum;
    println!(
        "{what}: {:.2} days; the optimum has {:.1} nodes asleep, {:.1} wakes a day, saves {:.0} kWh ({:.1} s for all)",
        effects[0].days,
        optimum.nodes_asleep_mean,
        optimum.node_wakes_per_day,
        optimum.energy_saved_kwh,
        began.elapsed().as_secs_f64()
    );
    for effect in &effects {
        report(effect);
        let hours = effect.node_hours;
        let sum = hours.busy + hours.idle + hours.booting + hours.shutting_down + hours.asleep + hours.out;
        assert!((sum - f64::from(effect.nodes) * effect.days * 24.0).abs() < 1e-6, "{hours:?}");
        // Net of its boots a plan saves what it has asleep, as boots draw as much as idle nodes do.
        let kwh = hours.asleep * (constants.idle_w - constants.off_w) / 1000.0;
        assert!((effect.node_energy_saved_kwh - kwh).abs() < 1e-6 * kwh.max(1.0));
    }
    let always = &effects[0];
    assert_eq!((always.jobs.delayed, always.jobs.unfinished, always.node_energy_saved_kwh), (0, 0, 0.0));
    assert!(effects.iter().skip(1).all(|effect| effect.node_energy_saved_kwh > 0.0));
    // Waiting jobs wake what they need: all of them end.
    assert!(effects.iter().filter(|effect| !effect.name.ends_with('1')).all(|effect| effect.jobs.unfinished == 0));
    effects
}

/// 11 VCs on nodes of their own, 3 to 14 October 2017.
#[test]
fn philly_s_october_with_nodes_that_sleep() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/clusters/philly_october.toml");
    let site = Site::parse("philly_october.toml", &std::fs::read_to_string(file).unwrap()).unwrap();
    // Midnights of 3 and 15 October 2017, UTC.
    let options = Options {
        from_ms: Some(1_506_988_800_000),
        to_ms: Some(1_508_025_600_000),
        longest_ms: Some(7 * 86_400_000),
        whole_seconds: true,
        ..Options::default()
    };
    let loaded = load(&read(&[path]).unwrap(), Some(&site), &options).unwrap();
    assert_eq!(loaded.workload.len(), 22_486);
    for scan in [Scan::Strict, Scan::Easy] {
        effects(&format!("Philly, FIFO, {scan:?}"), &loaded, &Policy { scan, ..Policy::default() });
    }
}

#[test]
fn the_sample_with_nodes_that_sleep() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    let loaded = load(&storage::load(&sample).unwrap(), None, &Options::default()).unwrap();
    effects("the sample, FIFO, Easy", &loaded, &Policy { scan: Scan::Easy, ..Policy::default() });
}
