//! Plans of queues on Philly: chosen on the earlier part of a stretch of days, held against the later part.
//!
//! Philly's 11 VCs get nodes for a load of 0.7 and of 0.9 by the jobs of the stretch, as the published nodes hardly make them wait. What is chosen must
//! at least halve the mean and the 95 % wait of the later jobs at equal nodes, with no VC beyond its interval worse than on nodes of its own.
//! `TRACECAST_STRETCHES=all cargo test --release --test simulate queues -- --nocapture` prints the figures of `planner/RESULTS.md`; by itself the
//! test takes the first two stretches.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::storage;
use tracecast_planner::queues::{self, QueuesAnswer, QueuesRequest};
use tracecast_planner::replay::input::{Loaded, Options, Site, last_two, load};
use tracecast_planner::sim::{Policy, Scan};
use tracecast_tests::{read, real_trace};

const DAY_MS: i64 = 86_400_000;
/// Midnight of 1 October 2017, UTC.
pub(crate) const OCTOBER_MS: i64 = 1_506_816_000_000;
/// Days after that: a stretch begins, is split, and ends.
const STRETCHES: [(i64, i64, i64); 5] = [(2, 8, 14), (31, 40, 46), (14, 24, 31), (45, 54, 61), (2, 37, 61)];
/// How many of them are always tried.
const ALWAYS: usize = 2;
pub(crate) const WEEK_MS: i64 = 7 * DAY_MS;

/// Nodes of 8 GPUs for each VC, so many that the jobs of `options` load them as said.
pub(crate) fn site(trace: &Trace, options: &Options, load: f64) -> Site {
    let facts = JobFacts::of(trace);
    let (from, to) = (options.from_ms.unwrap(), options.to_ms.unwrap());
    let mut by_vc: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in 0..trace.jobs.len() {
        let (Some(vc), Some(submit)) = (trace.jobs.vc.get(row), trace.jobs.submit.get(row)) else { continue };
        let (Some(gpus), Some(run_s)) = (trace.jobs.req_gpus.get(row), facts.run_s(row)) else { continue };
        if (from..to).contains(&submit) && run_s * 1e3 <= WEEK_MS as f64 {
            let entry = by_vc.entry(vc).or_default();
            *entry = (entry.0 + gpus * run_s, entry.1.max(gpus));
        }
    }
    let span_s = (to - from) as f64 / 1e3;
    let text: Vec<String> = by_vc
        .iter()
        .map(|(vc, (gpu_s, largest))| {
            let nodes = (gpu_s / span_s / load / 8.0).round().max((largest / 8.0).ceil()).max(1.0);
            format!("[[vc]]\nname = \"{vc}\"\nnodes = {nodes}\n")
        })
        .collect();
    Site::parse("nodes.toml", &text.concat()).unwrap()
}

fn plan(trace: &Trace, mut loaded: Loaded, scan: Scan, split_ms: Option<i64>) -> QueuesAnswer {
    loaded.workload.predicted_s = last_two(&JobFacts::of(trace), &loaded);
    let request = QueuesRequest { eval_from_ms: split_ms, today: Policy { scan, ..Policy::default() } };
    queues::plan(trace, &loaded, String::new(), &request, &|| ()).unwrap()
}

/// Prints a row of the results and holds the plan to its promise.
fn held(name: &str, answer: &QueuesAnswer) {
    let held = &answer.held_out;
    let min = |s: f64| s / 60.0;
    let setup = answer.setup().unwrap();
    println!(
        "{name}: {} later jobs, mean wait {:.1} min today, {:.1} as chosen, {:.1} with hindsight; 95 % {:.1}, {:.1}, {:.1}; {} nodes, instead {:?}; {}, {}",
        held.today.jobs,
        min(held.today.mean_wait_s),
        min(held.recommended.mean_wait_s),
        min(held.hindsight.mean_wait_s),
        min(held.today.p95_wait_s),
        min(held.recommended.p95_wait_s),
        min(held.hindsight.p95_wait_s),
        held.nodes,
        held.nodes_instead,
        setup.sharing.in_words(),
        setup.order,
    );
    // The order is not in Kueue's file, so what it does stands beside the sharing alone.
    let alone = answer.candidates.iter().find(|of| of.sharing == setup.sharing && of.policy == answer.today).unwrap();
    let under = held.under_kueue.unwrap();
    println!(
        "{name}: sharing alone {:.1}, 95 % {:.1}; as Kueue admits {:.1}, 95 % {:.1}, {} stopped",
        min(alone.later.mean_wait_s),
        min(alone.later.p95_wait_s),
        min(under.later.mean_wait_s),
        min(under.later.p95_wait_s),
        under.stopped,
    );
    assert_eq!(under.later.jobs, held.today.jobs, "{name}");
    assert!(answer.followed, "{name}");
    assert!(held.recommended.mean_wait_s <= held.today.mean_wait_s / 2.0, "{name}");
    assert!(held.recommended.p95_wait_s <= held.today.p95_wait_s / 2.0, "{name}");
    let worse: Vec<_> = held.worse.iter().filter(|worse| worse.beyond_interval).collect();
    assert!(worse.is_empty(), "{name}: {worse:?}");
}

#[test]
fn queues_of_philly_are_shared_and_no_vc_is_wronged() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let all = std::env::var("TRACECAST_STRETCHES").is_ok_and(|value| value == "all");
    for (from, split, to) in STRETCHES.into_iter().take(if all { STRETCHES.len() } else { ALWAYS }) {
        let [from_ms, split_ms, to_ms] = [from, split, to].map(|day| OCTOBER_MS + day * DAY_MS);
        let options =
            Options { from_ms: Some(from_ms), to_ms: Some(to_ms), longest_ms: Some(WEEK_MS), ..Options::default() };
        for load_of in [0.7, 0.9] {
            let loaded = load(&trace, Some(&site(&trace, &options, load_of)), &options).unwrap();
            let name = format!("Philly, days {from} to {split} to {to} of October 2017, load {load_of}");
            held(&name, &plan(&trace, loaded, Scan::Skip, Some(split_ms)));
        }
    }
}

#[test]
fn queues_of_the_sample_are_shared_and_no_vc_is_wronged() {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    let trace = storage::load(&sample).unwrap();
    for scan in [Scan::Skip, Scan::Strict] {
        let loaded = load(&trace, None, &Options::default()).unwrap();
        held(&format!("the sample, {scan:?}"), &plan(&trace, loaded, scan, None));
    }
}
