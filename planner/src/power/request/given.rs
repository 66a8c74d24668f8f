//! The nodes of a cluster file, as a power plan counts them: they go before what the trace records.
//!
//! A VC that shares nodes with others has none of its own. A VC of the file without any job in the trace is left out with its nodes, as they are not known to
//! be idle, and so is said. Worked example: a file of 20 nodes for `a` and 2 for `b`, a trace with jobs of `a` alone: a plan for 20 nodes, and a note on the 2.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_predictors::demand::gather::GivenNodes;

use crate::error::{Error, Result};
use crate::replay::input::Site;
use crate::sim::cluster::{Cluster, Pool};

/// VCs that a sentence names.
const NAMED: usize = 5;
/// Before and after all times of a trace, milliseconds since the epoch, with room to add a span.
const EVER: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

/// VCs that a trace's jobs, or else its counts, name.
fn vcs_named(trace: &Trace) -> Vec<String> {
    let of_jobs = trace.jobs.vc.iter().flatten().map(str::to_owned);
    let activity = &trace.activity;
    let of_counts = (0..activity.len()).filter(|row| activity.scope.get(*row) == Some("vc"));
    let of_counts = of_counts.filter_map(|row| activity.name.get(row).map(str::to_owned));
    let names: BTreeSet<String> = if activity.is_empty() { of_jobs.collect() } else { of_counts.collect() };
    names.into_iter().collect()
}

/// The first moment of a trace, which times of the file count from.
fn origin_ms(trace: &Trace) -> i64 {
    let counted = trace.activity.ts.iter().flatten().min();
    counted.or_else(|| JobFacts::new(trace).window.map(|(from, _)| from)).unwrap_or(0)
}

/// Nodes of a pool over time.
fn nodes_of(pool: &Pool, origin_ms: i64) -> Vec<(i64, i64, f64)> {
    let mut result = Vec::new();
    for group in &pool.groups {
        for (at, (from, nodes)) in group.sizes.iter().enumerate() {
            let begin = |from: i64| if from == i64::MIN { EVER.0 } else { from.saturating_add(origin_ms) };
            let until = group.sizes.get(at + 1).map_or(EVER.1, |(next, _)| begin(*next));
            result.push((begin(*from), until, f64::from(*nodes)));
        }
    }
    result
}

/// GPUs of a node with GPUs, on average over those of some pools.
fn mean_gpus(cluster: &Cluster, pools: &BTreeSet<u16>) -> f64 {
    let (mut nodes, mut gpus) = (0.0, 0.0);
    for group in pools.iter().filter_map(|pool| cluster.pools.get(usize::from(*pool))).flat_map(|pool| &pool.groups) {
        let many = f64::from(group.most_nodes());
        nodes += many;
        gpus += many * f64::from(group.gpus_per_node);
    }
    if nodes > 0.0 { gpus / nodes } else { 0.0 }
}

/// GPUs of the smallest and of the largest node of some pools.
fn range_of_gpus(cluster: &Cluster, pools: &BTreeSet<u16>) -> (u32, u32) {
    let groups = pools.iter().filter_map(|pool| cluster.pools.get(usize::from(*pool))).flat_map(|pool| &pool.groups);
    let known = groups.filter(|group| group.most_nodes() > 0).map(|group| group.gpus_per_node);
    known.fold((u32::MAX, 0), |(least, most), gpus| (least.min(gpus), most.max(gpus)))
}

/// The nodes of `site` for the VCs of `trace`.
///
/// # Errors
/// If the file has none for them.
pub(in crate::power) fn given(site: &Site, trace: &Trace) -> Result<GivenNodes> {
    let known = vcs_named(trace);
    site.fits(&known)?;
    let origin_ms = origin_ms(trace);
    let named = if known.is_empty() { vec!["all".to_owned()] } else { known.clone() };
    let all = site.build(&site.names(&named), origin_ms, 0)?;
    // A trace without VCs is of the whole cluster.
    let has_jobs = |name: &String| known.is_empty() || known.contains(name);
    let counted: BTreeSet<u16> = all.vcs.iter().filter(|vc| has_jobs(&vc.name)).map(|vc| vc.pool).collect();
    let idle: Vec<&str> = all.vcs.iter().filter(|vc| !counted.contains(&vc.pool)).map(|vc| vc.name.as_str()).collect();
    let mut by_vc = BTreeMap::new();
    for vc in all.vcs.iter().filter(|vc| has_jobs(&vc.name)) {
        let alone = all.vcs.iter().filter(|other| other.pool == vc.pool && has_jobs(&other.name)).count() == 1;
        let own = all.pools.get(usize::from(vc.pool)).filter(|_| alone).map(|pool| nodes_of(pool, origin_ms));
        by_vc.insert(vc.name.clone(), own);
    }
    let pools = || counted.iter().filter_map(|pool| all.pools.get(usize::from(*pool)));
    let pool: Vec<(i64, i64, f64)> = pools().flat_map(|pool| nodes_of(pool, origin_ms)).collect();
    let gpus_per_node = mean_gpus(&all, &counted);
    if gpus_per_node <= 0.0 {
        return Err(Error::cluster(format!(
            "{} has no node for the VCs of the trace; write `nodes` above 0",
            site.file()
        )));
    }
    let left_out = (!idle.is_empty()).then(|| {
        format!(
            "**{} of {} {} no job in the source and {} left out with the nodes** ({}): whether these are idle is not known.",
            format::counted(idle.len() as u64, "VC", "VCs"),
            site.file(),
            if idle.len() == 1 { "has" } else { "have" },
            if idle.len() == 1 { "is" } else { "are" },
            format::names(&idle, NAMED)
        )
    });
    Ok(GivenNodes {
        of: site.file().to_owned(),
        by_vc,
        pool,
        gpus_per_node,
        gpus_range: range_of_gpus(&all, &counted),
        left_out: left_out.into_iter().collect(),
    })
}
