//! Demand from the jobs: GPUs running and pending, and the nodes they need.
//!
//! GPUs are an exact sweep over the stretches in which jobs held them. A node is active while any job holds a GPU on it, where placements say on
//! which; elsewhere the nodes of a VC are its GPUs over the GPUs of a node, rounded up (the least that could serve them), and the pool's are
//! the sum over VCs. Jobs without a VC count for the pool only. O(n log n).
//!
//! Worked example: VC `a` holds 12 GPUs, `b` 3, nodes have 8: 2 + 1 nodes, where a shared pool of 15 GPUs could do with 2.

use std::collections::{BTreeMap, HashMap};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::load::{CountInterval, JobCounts};
use tracecast_analytics::facts::occupancy::{Steps, sum, walk};
use tracecast_analytics::facts::slot::Slots;
use tracecast_analytics::facts::{Capacity, JobFacts};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::Zone;

use super::{GPUS_PER_NODE, GatherOptions, Gathered, POOL, Series, Unit, check_vcs, most_so_far};
use crate::error::{Error, Result};

pub(super) fn gather(trace: &Trace, options: &GatherOptions, zone: &Zone) -> Result<Gathered> {
    let facts = JobFacts::of(trace);
    let window = facts.window.filter(|(from, to)| to > from);
    let Some((from, to)) = window else {
        return Err(Error::TooFew("the trace has neither jobs nor a count of activity to take demand from".to_owned()));
    };
    let unit = options.unit.unwrap_or(Unit::Gpus);
    let mut notes = Vec::new();
    let jobs = &trace.jobs;
    let mut known: Vec<&str> = (0..facts.len())
        .filter(|job| facts.is_gpu_job(*job))
        .filter_map(|job| jobs.vc.code(job))
        .collect::<std::collections::BTreeSet<u32>>()
        .into_iter()
        .filter_map(|code| jobs.vc.name(code))
        .collect();
    known.sort_unstable();
    check_vcs(options, &known)?;
    let taken =
        |vc: Option<&str>| options.vcs.is_empty() || vc.is_some_and(|vc| options.vcs.iter().any(|name| name == vc));
    let vc_of = |job: usize| jobs.vc.get(job);

    let JobCounts { held, waiting } = JobCounts::of(&facts, |job| taken(vc_of(job)));
    let waits_known = waiting.is_some();
    let name = |code: Option<u32>| code.and_then(|code| jobs.vc.name(code)).unwrap_or_default();
    let mut held: BTreeMap<&str, Vec<CountInterval>> =
        held.into_iter().map(|(code, list)| (name(code), list)).collect();
    let waits: BTreeMap<&str, Vec<CountInterval>> =
        waiting.into_iter().flatten().map(|(code, list)| (name(code), list)).collect();
    for vc in waits.keys() {
        held.entry(vc).or_default();
    }
    if facts.assumed_starts > 0 {
        let which = format::counted(facts.assumed_starts as u64, "job has", "jobs have");
        notes.push(format!("{which} no recorded start and are taken to have held GPUs from their submission on."));
    }
    let without = (0..facts.len()).filter(|job| facts.is_gpu_job(*job) && vc_of(*job).is_none()).count();
    if without > 0 && !known.is_empty() && options.vcs.is_empty() {
        notes.push(format!(
            "{} no VC and count for {POOL} alone.",
            format::counted(without as u64, "job has", "jobs have")
        ));
    }

    let per_node = options.gpus_per_node.or_else(|| common_gpus(trace)).unwrap_or(GPUS_PER_NODE);
    let to_nodes = |steps: &Steps| -> Steps {
        let nodes = |(start, end, gpus): CountInterval| (start, end, (gpus / per_node).ceil());
        Steps::of_intervals(steps.stretches(from, to.saturating_add(1)).map(nodes))
    };
    let placed = if unit == Unit::Nodes { placed_nodes(&facts, &taken) } else { None };
    if unit == Unit::Nodes && options.gpus_per_node.or_else(|| common_gpus(trace)).is_none() {
        notes.push(format!("Nobody recorded how many GPUs a node has; {GPUS_PER_NODE} are assumed."));
    }
    if unit == Unit::Nodes && placed.is_none() {
        notes.push(format!(
            "It is not known on which nodes jobs ran: nodes are the GPUs of each VC / {per_node}, rounded up, which is the least that could serve them."
        ));
    }
    let counted = |intervals: Vec<CountInterval>| -> Steps {
        let gpus = Steps::of_intervals(intervals);
        if unit == Unit::Nodes { to_nodes(&gpus) } else { gpus }
    };
    let mut used: BTreeMap<&str, Steps> = held.into_iter().map(|(vc, list)| (vc, counted(list))).collect();
    let mut pool_used = sum(used.values());
    if let Some(Placed { by_vc, pool }) = placed {
        for (vc, steps) in &mut used {
            *steps = by_vc.get(*vc).map(|intervals| Steps::of_intervals(intervals.iter().copied())).unwrap_or_default();
        }
        pool_used = Steps::of_intervals(pool);
    }
    let pending: BTreeMap<&str, Steps> = waits.into_iter().map(|(vc, list)| (vc, counted(list))).collect();
    let pool_pending = sum(pending.values());
    let totals = totals(trace, unit, per_node, from, to);

    let named = |time: i64| {
        let is = |job: &usize| [&jobs.submit, &jobs.start, &jobs.end].iter().any(|times| times.get(*job) == Some(time));
        let key = (0..facts.len()).find(is).and_then(|job| jobs.job_key.get(job));
        key.map_or_else(|| "an attempt".to_owned(), |key| format!("job {key}"))
    };
    let span = super::Span { from_ms: from, to_ms: to, first: named(from), last: named(to) };
    let many = used.len() + 1;
    super::check_slots(&vec![span; many], facts.len(), options.slot_ms, zone)?;
    let mut series = Vec::new();
    let mut unknown = Vec::new();
    let none = Steps::default();
    let vcs = used
        .iter()
        .filter(|(vc, _)| !vc.is_empty())
        .map(|(vc, steps)| (*vc, steps, pending.get(vc).unwrap_or(&none), totals.by_vc.get(*vc).unwrap_or(&none)));
    let whole = known.len() != 1 || options.vcs.is_empty() && without > 0;
    let own_total = if options.vcs.is_empty() {
        totals.pool.clone()
    } else {
        sum(options.vcs.iter().filter_map(|vc| totals.by_vc.get(vc)))
    };
    let several = whole && options.vcs.len() != 1;
    let all = several.then_some((POOL, &pool_used, &pool_pending, &own_total));
    for (name, used, pending, total) in vcs.chain(all) {
        let Some(mut slots) = Slots::new(from, to, options.slot_ms, zone) else { continue };
        let limited = !total.is_empty();
        walk(&[used, pending, total], from, to, |start, end, values| {
            if let &[used, pending, total] = values {
                let total = if limited { total } else { f64::INFINITY };
                slots.add(start, end, options.asked.of(used, pending, total), pending, total);
            }
        });
        let Some((start_ms, mut slots)) = slots.finish() else { continue };
        if !limited {
            most_so_far(&mut slots);
            unknown.push(name);
        }
        series.push(Series {
            name: name.to_owned(),
            unit,
            counts_pending: waits_known,
            start_ms,
            slot_ms: options.slot_ms,
            zone: zone.name().to_owned(),
            slots,
        });
    }
    notes.extend(super::unknown_totals(&unknown));
    notes.extend(Capacity::assumption(trace));
    let totals_unknown = unknown.iter().map(|name| (*name).to_owned()).collect();
    Ok(Gathered { series, notes, from_jobs: true, totals_unknown })
}

/// The most frequent number of GPUs of the inventory's nodes.
fn common_gpus(trace: &Trace) -> Option<f64> {
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    for row in 0..trace.nodes.len() {
        let gpus = trace.nodes.gpus.get(row).filter(|gpus| *gpus >= 1.0 && *gpus < 1e6);
        if let Some(gpus) = gpus {
            *sizes.entry(gpus as u64).or_default() += 1;
        }
    }
    sizes.into_iter().max_by_key(|(gpus, nodes)| (*nodes, *gpus)).map(|(gpus, _)| gpus as f64)
}

/// Nodes in use, from placements.
struct Placed {
    by_vc: BTreeMap<String, Vec<CountInterval>>,
    pool: Vec<CountInterval>,
}

/// When nodes were in use; `None` where placements name the nodes of fewer than nine in ten jobs that held GPUs.
fn placed_nodes(facts: &JobFacts<'_>, taken: &dyn Fn(Option<&str>) -> bool) -> Option<Placed> {
    let trace = facts.trace;
    let places = &trace.placements;
    if places.is_empty() {
        return None;
    }
    let row_of: HashMap<&str, usize> =
        (0..facts.len()).filter_map(|row| Some((trace.jobs.job_key.get(row)?, row))).collect();
    let attempts = &trace.attempts;
    let mut attempt_of: HashMap<(&str, i64), usize> = HashMap::new();
    for row in 0..attempts.len() {
        if let (Some(key), Some(attempt)) = (attempts.job_key.get(row), attempts.attempt.get(row)) {
            attempt_of.insert((key, attempt), row);
        }
    }
    let mut first: HashMap<usize, (i64, i64)> = HashMap::new();
    for stretch in &facts.stretches {
        let span = first.entry(stretch.job).or_insert((stretch.start, stretch.end));
        *span = (span.0.min(stretch.start), span.1.max(stretch.end));
    }
    let end_of_record = facts.record_end;
    let mut named = std::collections::HashSet::new();
    let mut by_node: BTreeMap<(u32, Option<u32>), Vec<CountInterval>> = BTreeMap::new();
    for row in 0..places.len() {
        let (Some(key), Some(node)) = (places.job_key.get(row), places.node.code(row)) else { continue };
        let Some(job) = row_of.get(key).copied() else { continue };
        if !taken(trace.jobs.vc.get(job)) || !facts.is_gpu_job(job) || places.gpus.get(row) == Some(0.0) {
            continue;
        }
        let attempt = places.attempt.get(row).and_then(|attempt| attempt_of.get(&(key, attempt)).copied());
        let span = match attempt {
            Some(row) => attempts.start.get(row).zip(attempts.end.get(row).or(end_of_record)),
            None => first.get(&job).copied(),
        };
        let Some((start, end)) = span else { continue };
        named.insert(job);
        by_node.entry((node, trace.jobs.vc.code(job))).or_default().push((start, end, 1.0));
    }
    let holding = first.keys().filter(|job| facts.is_gpu_job(**job) && taken(trace.jobs.vc.get(**job))).count();
    if holding == 0 || named.len() * 10 < holding * 9 {
        return None;
    }
    let mut placed = Placed { by_vc: BTreeMap::new(), pool: Vec::new() };
    let mut whole: BTreeMap<u32, Vec<CountInterval>> = BTreeMap::new();
    for ((node, vc), list) in by_node {
        whole.entry(node).or_default().extend_from_slice(&list);
        if let Some(vc) = vc.and_then(|code| trace.jobs.vc.name(code)) {
            placed.by_vc.entry(vc.to_owned()).or_default().extend(union(list));
        }
    }
    placed.pool = whole.into_values().flat_map(union).collect();
    Some(placed)
}

/// Stretches in which at least one interval holds, each as 1.
fn union(mut list: Vec<CountInterval>) -> Vec<CountInterval> {
    list.sort_unstable_by_key(|(start, end, _)| (*start, *end));
    let mut merged: Vec<CountInterval> = Vec::new();
    for (start, end, _) in list {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end, 1.0)),
        }
    }
    merged
}

/// How many there are.
#[derive(Debug, Default)]
struct Totals {
    by_vc: BTreeMap<String, Steps>,
    pool: Steps,
}

fn totals(trace: &Trace, unit: Unit, per_node: f64, from: i64, to: i64) -> Totals {
    let table = &trace.capacity;
    let mut by_vc: BTreeMap<String, Vec<CountInterval>> = BTreeMap::new();
    let mut cluster: Vec<CountInterval> = Vec::new();
    let value = |gpus: Option<f64>, nodes: Option<f64>| match unit {
        Unit::Gpus => gpus,
        Unit::Nodes => nodes.or_else(|| gpus.map(|gpus| (gpus / per_node).ceil())),
    };
    for row in 0..table.len() {
        if table.state.get(row).is_some_and(|state| state != "up") {
            continue;
        }
        let Some(many) = value(table.gpus.get(row), table.nodes.get(row)).filter(|many| *many > 0.0) else { continue };
        let stretch = (table.from.get(row).unwrap_or(from), table.to.get(row).unwrap_or(to.saturating_add(1)), many);
        match (table.scope.get(row), table.name.get(row)) {
            (Some("vc"), Some(name)) => by_vc.entry(name.to_owned()).or_default().push(stretch),
            (Some("cluster"), _) => cluster.push(stretch),
            _ => {}
        }
    }
    if by_vc.is_empty() && cluster.is_empty() {
        let until = to.saturating_add(1);
        for row in 0..trace.nodes.len() {
            let Some(many) = value(trace.nodes.gpus.get(row), Some(1.0)).filter(|many| *many > 0.0) else { continue };
            cluster.push((from, until, many));
            if let Some(vc) = trace.nodes.vc.get(row) {
                by_vc.entry(vc.to_owned()).or_default().push((from, until, many));
            }
        }
    }
    if cluster.is_empty() {
        cluster = by_vc.values().flatten().copied().collect();
    }
    Totals {
        by_vc: by_vc.into_iter().map(|(vc, list)| (vc, Steps::of_intervals(list))).collect(),
        pool: Steps::of_intervals(cluster),
    }
}
