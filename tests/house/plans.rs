//! No plan of the planner imports another plan: what two of them need stands in a foundation below both, which imports no plan either.
//!
//! Worked example: `burst` may name `market::offers`, and neither `fleet::offers` nor what `market` imports from `fleet`.

use std::collections::BTreeSet;

use super::circles::edges;
use super::{root, source};

/// The plans.
const PLANS: [&str; 11] =
    ["burst", "capacity", "cloud", "defer", "fleet", "instances", "mig", "power", "queues", "serving", "sharing"];
/// Modules that plans may import.
const FOUNDATIONS: [&str; 6] = ["backtest", "downstream", "market", "one_gpu", "start", "synth"];
/// Modules that may import plans.
const REPORTS: [&str; 1] = ["advice"];

/// Pairs of modules and imports in which a plan or a foundation imports a plan other than itself.
fn imports_of_plans<'e>(edges: impl Iterator<Item = &'e (String, String)>) -> Vec<(&'e str, &'e str)> {
    let is_plan = |module: &str| PLANS.contains(&module);
    let modules = edges.map(|(from, to)| (from.as_str(), to.as_str()));
    modules.filter(|(from, to)| is_plan(to) && from != to && (is_plan(from) || FOUNDATIONS.contains(from))).collect()
}

#[test]
fn no_plan_imports_another_plan() {
    let src = root().join("planner/src");
    let modules = source::modules(&src);
    let there: BTreeSet<&str> = modules.keys().filter_map(|path| path.first()).map(String::as_str).collect();
    let named: BTreeSet<&str> = PLANS.into_iter().chain(FOUNDATIONS).chain(REPORTS).collect();
    assert_eq!(there, named, "modules that are there, and those that are named plans, foundations or reports");
    let all = edges(&src);
    let edges = &all[&Vec::new()];
    let wrong: Vec<String> = imports_of_plans(edges.keys())
        .into_iter()
        .map(|(from, to)| format!("\n    {from} → {to}: {}", edges[&(from.to_owned(), to.to_owned())]))
        .collect();
    assert!(wrong.is_empty(), "plans that are imported below the reports:{}", wrong.concat());
}

#[test]
fn an_import_of_a_plan_is_found() {
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let allowed = [edge("burst", "market"), edge("advice", "power"), edge("market", "plan"), edge("fleet", "fleet")];
    assert!(imports_of_plans(allowed.iter()).is_empty());
    let wrong = [edge("burst", "fleet"), edge("market", "fleet"), edge("advice", "burst")];
    assert_eq!(imports_of_plans(wrong.iter()), [("burst", "fleet"), ("market", "fleet")]);
}
