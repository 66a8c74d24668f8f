//! Numbers of nodes on Philly: chosen on earlier days, tested on later ones.
//!
//! Philly's 11 VCs get nodes for a load of 0.7 by the jobs of the time, as in the test of queues. `TRACECAST_STRETCHES=all cargo test --release --test
//! simulate capacity -- --nocapture` prints the figures of `planner/RESULTS.md`, of 59 days; by itself the test takes the first 28 and windows of a week.

use std::collections::BTreeMap;

use tracecast_planner::capacity::answer::plan;
use tracecast_planner::capacity::search::WaitTarget;
use tracecast_planner::capacity::{CapacityRequest, MixBy, NodeKinds, NodesBy};
use tracecast_planner::replay::input::{Options, load};
use tracecast_planner::sim::{Policy, Scan};
use tracecast_tests::{read, whole_trace};

use crate::queues::{OCTOBER_MS, WEEK_MS, site};

const DAY_MS: i64 = 86_400_000;

/// 95 % of the jobs wait an hour at most, first come, first served, and what does not fit is passed over.
fn asked(kinds: Option<NodeKinds>) -> CapacityRequest {
    CapacityRequest {
        target: WaitTarget { all_s: 3600.0, by_class: BTreeMap::new() },
        eval_from_ms: None,
        policy: Policy { scan: Scan::Skip, ..Policy::default() },
        scan_is_known: true,
        growth: None,
        faults: None,
        kinds,
        runs: None,
    }
}

#[test]
fn numbers_of_nodes_for_philly_hold_as_said() {
    let Some(path) = whole_trace("philly/philly_jobs.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let all = std::env::var("TRACECAST_STRETCHES").is_ok_and(|value| value == "all");
    let (last, window) = if all { (61, 14) } else { (30, 7) };
    let (from_ms, to_ms) = (OCTOBER_MS + 2 * DAY_MS, OCTOBER_MS + last * DAY_MS);
    let options =
        Options { from_ms: Some(from_ms), to_ms: Some(to_ms), longest_ms: Some(WEEK_MS), ..Options::default() };
    let loaded = load(&trace, Some(&site(&trace, &options, 0.7)), &options).unwrap();
    let request = asked(None);
    let answer = plan(&trace, &loaded, String::new(), &request, &()).unwrap();
    for rule in &answer.trial.rules {
        println!("{}: {:.1} nodes, {:?}", rule.words, rule.amount, rule.figures);
    }
    let rule = |by: NodesBy| &answer.trial.rule(by).unwrap().figures;
    println!("{}, {:?} not judged, {:?}", answer.action, answer.body.unjudged, answer.body.in_all);
    println!("{}", answer.body.until_break.sentence());
    let (recommended, mean, oracle) = (rule(NodesBy::Recommended), rule(NodesBy::Mean80), rule(NodesBy::Oracle));
    assert_eq!(oracle.pools_kept, oracle.pools);
    assert!(rule(NodesBy::Upper).pools_kept >= rule(NodesBy::Needed).pools_kept);
    assert!(recommended.pools_kept > mean.pools_kept, "the rule of 80 % kept the target as often");
    // What comes after a window begins changes nothing of what is chosen for it.
    let split_ms = to_ms - window * DAY_MS;
    let mut other = loaded.clone();
    for (run, submit) in other.workload.run_ms.iter_mut().zip(&loaded.workload.submit_ms) {
        if submit + loaded.workload.origin_ms >= split_ms {
            *run /= 2;
        }
    }
    let request = CapacityRequest { eval_from_ms: Some(split_ms), ..request };
    let [as_it_was, otherwise] = [&loaded, &other].map(|loaded| {
        let answer = plan(&trace, loaded, String::new(), &request, &()).unwrap();
        let window = answer.trial.windows.last().unwrap();
        let of = |by: NodesBy| window.rules.iter().find(|rule| rule.id == by).unwrap().amount;
        NodesBy::ALL.into_iter().filter(|by| *by != NodesBy::Oracle).map(of).collect::<Vec<_>>()
    });
    assert_eq!(as_it_was, otherwise);
}

#[test]
fn kinds_of_nodes_for_philly_hold_as_said() {
    let Some(path) = whole_trace("philly/philly_jobs.csv.gz") else { return };
    let trace = read(&[path]).unwrap();
    let (from_ms, to_ms) = (OCTOBER_MS + 2 * DAY_MS, OCTOBER_MS + 30 * DAY_MS);
    let options =
        Options { from_ms: Some(from_ms), to_ms: Some(to_ms), longest_ms: Some(WEEK_MS), ..Options::default() };
    let loaded = load(&trace, Some(&site(&trace, &options, 0.7)), &options).unwrap();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/node-types/example.toml");
    let kinds = NodeKinds::parse("example.toml", &std::fs::read_to_string(file).unwrap()).unwrap();
    let request = asked(Some(kinds));
    let answer = plan(&trace, &loaded, String::new(), &request, &()).unwrap();
    let mix = answer.body.mix.as_ref().unwrap();
    for rule in &mix.trial.rules {
        println!("{}: {:.0} a month, {:?}", rule.words, rule.amount, rule.figures);
    }
    let rule = |by: MixBy| &mix.trial.rule(by).unwrap().figures;
    assert_eq!(rule(MixBy::Oracle).pools_kept, rule(MixBy::Oracle).pools);
    // Tested as the numbers are: in the same pools and windows, and the same numbers keep it.
    for (by, same) in [(MixBy::Proportions, NodesBy::Needed), (MixBy::Static, NodesBy::Static)] {
        let same = &answer.trial.rule(same).unwrap().figures;
        assert_eq!((rule(by).pools_kept, rule(by).pools), (same.pools_kept, same.pools));
    }
    let cost = |by: MixBy| mix.trial.rule(by).unwrap().amount;
    assert!(cost(MixBy::Cheapest) < cost(MixBy::Proportions));
    for pool in &mix.pools {
        let cost =
            |of: &Option<_>| of.as_ref().map(|of: &tracecast_planner::capacity::mix::answer::PricedNodes| of.per_month);
        assert!(
            cost(&pool.cheapest).zip(cost(&pool.in_proportions)).is_none_or(|(mix, same)| mix <= same),
            "{}",
            pool.pool
        );
    }
}
