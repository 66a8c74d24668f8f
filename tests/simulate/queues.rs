//! Plans of queues on Philly: chosen on the earlier part of a stretch of days, held against the later part.
//!
//! Philly's 11 VCs get nodes for a load of 0.7 and of 0.9 by the jobs of the stretch, as the published nodes hardly make them wait. What is chosen must
//! at least halve the mean and the 95 % wait of the later jobs at equal nodes, with no VC beyond its interval worse than on nodes of its own.
//! `TRACECAST_STRETCHES=all cargo test --release --test simulate queues -- --nocapture` prints the figures of `planner/RESULTS.md`, of the list and of the search (`list`: of the list alone); by itself the
//! test takes the first two stretches. `TRACECAST_STRETCHES=other` prints other stretches, on which it was decided what is the default.

use std::collections::BTreeMap;
use std::time::Instant;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::storage;
use tracecast_planner::queues::answer::QueuesCandidate;
use tracecast_planner::queues::{self, QueuesAnswer, QueuesRequest, SearchRun};
use tracecast_planner::replay::input::{Loaded, Options, Site, last_two, load};
use tracecast_planner::sim::{Policy, Scan};
use tracecast_tests::{full_tier, is_full, read, real_trace};

const DAY_MS: i64 = 86_400_000;
/// Midnight of 1 October 2017, UTC.
pub(crate) const OCTOBER_MS: i64 = 1_506_816_000_000;
/// Days after that: a stretch begins, is split, and ends.
const STRETCHES: [(i64, i64, i64); 5] = [(2, 8, 14), (31, 40, 46), (14, 24, 31), (45, 54, 61), (2, 37, 61)];
/// Others: before and after those, and cut elsewhere.
const OTHERS: [(i64, i64, i64); 5] = [(-7, -1, 2), (61, 68, 72), (8, 20, 26), (20, 34, 40), (36, 50, 56)];
/// Number of stretches, from the first on, that the long tier tries; without it one is tried.
const FULL_STRETCHES: usize = 2;
pub(crate) const WEEK_MS: i64 = 7 * DAY_MS;

/// Nodes of 8 GPUs for each VC, so many that the jobs of `options` load them as said.
pub(crate) fn site(trace: &Trace, options: &Options, load: f64) -> Site {
    let facts = JobFacts::new(trace);
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

/// Setups that a search tries.
const REPLAYS: usize = 200;

fn plan(trace: &Trace, mut loaded: Loaded, scan: Scan, split_ms: Option<i64>, replays: usize) -> QueuesAnswer {
    loaded.workload.predicted_s = last_two(&JobFacts::new(trace), &loaded);
    let list = QueuesRequest::of_list(split_ms, Policy { scan, ..Policy::default() });
    queues::plan(trace, &loaded, String::new(), &QueuesRequest { replays, ..list }, SearchRun::default()).unwrap()
}

/// Prints what a search found beside the list.
fn searched(name: &str, answer: &QueuesAnswer) {
    let held = &answer.trial;
    let min = |s: f64| s / 60.0;
    let [list, setup] = [answer.body.list_choice, answer.body.best].map(|at| &answer.body.candidates[at]);
    let worse: Vec<_> = held.worse.iter().filter(|worse| worse.beyond_interval).map(|worse| &worse.vc).collect();
    println!(
        "{name}: search of {}: today {:.1} / {:.1}; list {:.1} / {:.1} (cost {:.4}); search {:.1} / {:.1} (cost {:.4}); hindsight {:.1} / {:.1}; {}, {}, moved {}, {:?}; followed {}, worse {worse:?}",
        answer.body.candidates.len(),
        min(held.today.mean_wait_s),
        min(held.today.p95_wait_s),
        min(list.later.mean_wait_s),
        min(list.later.p95_wait_s),
        list.cost,
        min(setup.later.mean_wait_s),
        min(setup.later.p95_wait_s),
        setup.cost,
        min(held.oracle.mean_wait_s),
        min(held.oracle.p95_wait_s),
        setup.sharing.in_words(),
        setup.order,
        setup.shares_moved,
        setup.short_queue,
        answer.is_advised(),
    );
    for of in &answer.body.ablation {
        println!(
            "{name}: without {}: earlier cost {:.4}, later {:.1} / {:.1}, allowed {}",
            of.change.in_words(),
            of.cost,
            min(of.later.mean_wait_s),
            min(of.later.p95_wait_s),
            of.allowed
        );
    }
}

/// Prints a row of the results and holds the plan to its promise.
fn held(name: &str, answer: &QueuesAnswer) {
    let held = &answer.trial;
    let min = |s: f64| s / 60.0;
    let setup = answer.body.setup().unwrap();
    println!(
        "{name}: {} later jobs, mean wait {:.1} min today, {:.1} as chosen, {:.1} with hindsight; 95 % {:.1}, {:.1}, {:.1}; {} nodes, instead {:?}; {}, {}",
        held.today.jobs,
        min(held.today.mean_wait_s),
        min(held.recommended.mean_wait_s),
        min(held.oracle.mean_wait_s),
        min(held.today.p95_wait_s),
        min(held.recommended.p95_wait_s),
        min(held.oracle.p95_wait_s),
        held.nodes,
        held.nodes_instead,
        setup.sharing.in_words(),
        setup.order,
    );
    // The order is not in Kueue's file, so what it does stands beside the sharing alone.
    let alone = answer.body.in_todays_order.unwrap_or(held.recommended);
    let under = held.under_kueue.as_ref().unwrap();
    println!(
        "{name}: sharing alone {:.1}, 95 % {:.1}; as Kueue admits {:.1}, 95 % {:.1}, {} stopped",
        min(alone.mean_wait_s),
        min(alone.p95_wait_s),
        min(under.later.mean_wait_s),
        min(under.later.p95_wait_s),
        under.stopped,
    );
    assert_eq!(under.later.jobs, held.today.jobs, "{name}");
    assert!(answer.is_advised(), "{name}");
    assert!(held.recommended.mean_wait_s <= held.today.mean_wait_s / 2.0, "{name}");
    assert!(held.recommended.p95_wait_s <= held.today.p95_wait_s / 2.0, "{name}");
    let worse: Vec<_> = held.worse.iter().filter(|worse| worse.beyond_interval).collect();
    assert!(worse.is_empty(), "{name}: {worse:?}");
}

#[test]
fn queues_of_philly_are_shared_and_no_vc_is_wronged() {
    let Some(path) = real_trace("philly/philly_jobs.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let asked = std::env::var("TRACECAST_STRETCHES").unwrap_or_default();
    let stretches: Vec<(i64, i64, i64)> = match asked.as_str() {
        "all" | "list" => STRETCHES.to_vec(),
        "other" => OTHERS.to_vec(),
        _ => STRETCHES[..if full_tier() { FULL_STRETCHES } else { 1 }].to_vec(),
    };
    for (from, split, to) in stretches {
        let [from_ms, split_ms, to_ms] = [from, split, to].map(|day| OCTOBER_MS + day * DAY_MS);
        let options =
            Options { from_ms: Some(from_ms), to_ms: Some(to_ms), longest_ms: Some(WEEK_MS), ..Options::default() };
        let loads: &[f64] = if is_full() || asked == "list" { &[0.7, 0.9] } else { &[0.9] };
        for &load_of in loads {
            let loaded = || load(&trace, Some(&site(&trace, &options, load_of)), &options).unwrap();
            let name = format!("Philly, days {from} to {split} to {to} of October 2017, load {load_of}");
            if asked != "other" {
                held(&name, &plan(&trace, loaded(), Scan::Skip, Some(split_ms), 0));
            }
            if !asked.is_empty() && asked != "list" {
                let began = Instant::now();
                searched(&name, &plan(&trace, loaded(), Scan::Skip, Some(split_ms), REPLAYS));
                println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
            }
        }
    }
}

/// The two VCs of the Helios slice on the nodes that they had. Whatever comes out is printed; what is recommended wrongs nobody.
#[test]
fn queues_of_the_venus_slice() {
    let Some(path) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let trace = read(&[path]).unwrap();
    let nodes = "[[vc]]\nname = \"vcvGl\"\nnodes = 20\n[[vc]]\nname = \"vcvlY\"\nnodes = 2\n";
    let site = Site::parse("nodes.toml", nodes).unwrap();
    for scan in [Scan::Skip, Scan::Strict] {
        let loaded = load(&trace, Some(&site), &Options::default()).unwrap();
        let answer = plan(&trace, loaded, scan, None, REPLAYS);
        println!("{}", answer.action);
        searched(&format!("Venus, {scan:?}"), &answer);
        let wronged = answer.trial.worse.iter().any(|worse| worse.beyond_interval);
        assert!(!(answer.is_advised() && wronged));
    }
}

#[test]
fn queues_of_the_sample_are_shared_and_no_vc_is_wronged() {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    let trace = storage::load(&sample).unwrap();
    for scan in [Scan::Skip, Scan::Strict] {
        let loaded = load(&trace, None, &Options::default()).unwrap();
        held(&format!("the sample, {scan:?}"), &plan(&trace, loaded, scan, None, 0));
        let loaded = load(&trace, None, &Options::default()).unwrap();
        let answer = plan(&trace, loaded, scan, None, REPLAYS);
        searched(&format!("the sample, {scan:?}"), &answer);
        // What a search finds is chosen on the earlier jobs, under the same promise.
        let [list, chosen] = [answer.body.list_choice, answer.body.best].map(|at| &answer.body.candidates[at]);
        let mean = |of: &QueuesCandidate| of.cost_by_window.iter().sum::<f64>() / of.cost_by_window.len() as f64;
        assert!(
            chosen.allowed && chosen.wronged.is_empty() && mean(chosen) <= mean(list),
            "{} {}",
            mean(chosen),
            mean(list)
        );
    }
}
