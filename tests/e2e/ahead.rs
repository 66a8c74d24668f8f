//! Look-ahead of a real Slurm, replayed: `bf_max_job_test`, the waiting jobs that its backfill
//! looks at in a cycle, and `bf_window`, the time ahead for which it keeps nodes.
//!
//! 60 jobs in four bursts on 4 nodes of 8 GPUs, recorded once under each. The replay with the same bound is held against the recorded starts, beside that without.
//! Takes about five minutes.

use std::path::Path;

use tracecast_analytics::Trace;
use tracecast_planner::replay::input::{Loaded, Options, Site, load};
use tracecast_planner::sim::{Policy, Weights, simulate};

use crate::lab::Lab;
use crate::recording::{self, WARM_UP};
use crate::replay::{Agreement, align, compare, first_ms, slurm};
use crate::workload::{Asked, SHORT_RUNS_S, SplitMix};

const NODES: u32 = 4;
/// `bf_max_job_test`.
const DEPTH: u32 = 3;
/// `bf_window`, minutes.
const WINDOW_MIN: i64 = 2;
/// GPUs of jobs, and how many jobs of a hundred have so many.
const GPUS: [(u32, u64); 6] = [(1, 30), (2, 20), (4, 16), (8, 16), (16, 10), (24, 8)];

fn jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(12);
    (0..60)
        .map(|job| Asked {
            at_s: job / 15 * 14,
            name: format!("a{job:02}"),
            user: format!("u{}", 1 + random.below(4)),
            gpus: random.of_shares(&GPUS),
            run_s: random.of(&SHORT_RUNS_S),
            limit_min: 1 + random.below(3) as u32,
        })
        .collect()
}

/// The jobs but for those that warm the lab up.
fn loaded(trace: &Trace) -> Loaded {
    let site = format!("[[vc]]\nname = \"*\"\nnodes = {NODES}\ngpus_per_node = 8\n");
    let from_ms = first_ms(trace, |name| !WARM_UP.contains(&name));
    let options = Options { from_ms, gangs_as_recorded: true, ..Options::default() };
    let loaded = load(trace, Some(&Site::parse("lab", &site).unwrap()), &options).unwrap();
    assert_eq!(loaded.workload.len(), jobs().len(), "{:?}", loaded.excluded);
    loaded
}

/// Replays the recorded jobs with the bound and without, and demands that those with it are met.
fn agrees(trace: &Trace, bounded: impl Fn(Policy) -> Policy) {
    let mut jobs = loaded(trace);
    let period_ms = align(&mut jobs);
    let policy = slurm(Weights::default(), period_ms);
    let replayed = |name: &str, policy: &Policy| -> Agreement {
        let starts = compare(&jobs, &simulate(&jobs.workload, &jobs.cluster, policy).unwrap());
        println!("{name:<8} {starts}");
        starts
    };
    let starts = replayed("bounded", &bounded(policy.clone()));
    let without = replayed("without", &policy);
    // What is nearly right, such as a depth of jobs alone, comes to 0.987.
    assert!(starts.median_s == 0 && starts.tau >= 0.99, "{starts}");
    // Or the recording would not tell the two apart.
    assert!(without.tau < starts.tau, "{without} and {starts}");
}

fn recorded(option: &str, name: &str) -> Option<Trace> {
    let asked = jobs();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let record = || {
        let lab = Lab::with_scheduler(NODES, &format!("{},{option}", recording::SCHEDULER))?;
        assert!(lab.output("scontrol", &["show", "config"]).contains(option));
        Some(recording::record(&lab, &asked, &file))
    };
    recording::least_disturbed(record)
}

#[test]
fn recorded_with_a_short_look() {
    let Some(trace) = recorded(&format!("bf_max_job_test={DEPTH}"), "slurm-depth.txt") else { return };
    agrees(&trace, |policy| Policy { depth: Some(DEPTH), ..policy });
}

#[test]
fn recorded_with_a_short_window() {
    let Some(trace) = recorded(&format!("bf_window={WINDOW_MIN}"), "slurm-window.txt") else { return };
    agrees(&trace, |policy| Policy { window_ms: Some(WINDOW_MIN * 60_000), ..policy });
}

/// Recordings made before: `TRACECAST_SLURM_DEPTH` and `TRACECAST_SLURM_WINDOW` name them (as the tests above leave them).
#[test]
fn recordings_with_bounds_made_before_are_replayed() {
    if let Some(trace) = recording::made_before("TRACECAST_SLURM_DEPTH") {
        agrees(&trace, |policy| Policy { depth: Some(DEPTH), ..policy });
    }
    if let Some(trace) = recording::made_before("TRACECAST_SLURM_WINDOW") {
        agrees(&trace, |policy| Policy { window_ms: Some(WINDOW_MIN * 60_000), ..policy });
    }
}
