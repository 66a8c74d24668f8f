//! Demand from the jobs: GPUs running and pending, and the nodes they need.
//!
//! GPUs are an exact sweep over the stretches in which jobs held them. A node is active while any job holds a GPU on it, where placements say on
//! which; elsewhere the nodes of a VC are its GPUs over the GPUs of a node, rounded up (the least that could serve them), and the pool's are
//! the sum over VCs. Jobs without a VC count for the pool only. O(n log n).
//!
//! Worked example: VC `a` holds 12 GPUs, `b` 3, nodes have 8: 2 + 1 nodes, where a shared pool of 15 GPUs could do with 2.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::load::{CountInterval, JobCounts};
use tracecast_analytics::facts::occupancy::{Steps, sum, walk};
use tracecast_analytics::facts::slot::Slots;
use tracecast_analytics::facts::{Capacity, JobFacts, MOST_LEFT_OUT};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::Zone;

use super::totals::{GivenNodes, NAMED, Totals, nodes_of};
use super::{GPUS_PER_NODE, GatherOptions, Gathered, Newest, POOL, Series, Unit, check_vcs, most_so_far};
use crate::error::{Error, Result};

pub(super) fn gather(trace: &Trace, options: &GatherOptions, zone: &Zone) -> Result<Gathered> {
    let facts = JobFacts::new(trace);
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
        .collect::<BTreeSet<u32>>()
        .into_iter()
        .filter_map(|code| jobs.vc.name(code))
        .collect();
    known.sort_unstable();
    check_vcs(options, &known)?;
    let given = options.nodes.as_ref();
    let is_given = |vc: &str| given.is_none_or(|given| given.by_vc.contains_key(vc));
    let taken = |vc: Option<&str>| match vc {
        Some(vc) => is_given(vc) && (options.vcs.is_empty() || options.vcs.iter().any(|name| name == vc)),
        None => options.vcs.is_empty(),
    };
    let mut cautions = Vec::new();
    let mut doubts = Vec::new();
    if let Some((most, told)) = given.and_then(|given| elsewhere(&facts, given)) {
        if most { &mut doubts } else { &mut cautions }.push(told);
    }
    known.retain(|vc| is_given(vc));
    let vc_of = |job: usize| jobs.vc.get(job);

    let JobCounts { held, waiting } = JobCounts::new(&facts, |job| taken(vc_of(job)));
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
        let nodes = |(start, end, gpus): CountInterval| (start, end, nodes_of(gpus, per_node));
        Steps::of_intervals(steps.stretches(from, to.saturating_add(1)).map(nodes))
    };
    let placed = if unit == Unit::Nodes { placed_nodes(&facts, &taken) } else { None };
    if unit == Unit::Nodes && options.gpus_per_node.or_else(|| common_gpus(trace)).is_none() {
        notes.push(format!("Nobody recorded how many GPUs a node has; {GPUS_PER_NODE} are assumed."));
    }
    if unit == Unit::Nodes && placed.is_none() {
        notes.push(format!(
            "It is not known on which nodes jobs ran: nodes are the GPUs of each VC / {}, rounded up, which is the least that could serve them.",
            format::compact(per_node)
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
    let totals = match given {
        Some(given) => Totals::given(given, unit),
        None => Totals::recorded(&facts, unit, per_node, (from, to)),
    };
    cautions.extend(totals.left_out.iter().cloned());

    let named = |time: i64| {
        let is = |job: &usize| [&jobs.submit, &jobs.start, &jobs.end].iter().any(|times| times.get(*job) == Some(time));
        let key = (0..facts.len()).find(is).and_then(|job| jobs.job_key.get(job));
        key.map_or_else(|| "an attempt".to_owned(), |key| format!("job {key}"))
    };
    let running = |from: i64| {
        let held = facts.stretches.iter().filter(|stretch| stretch.end > from && facts.is_gpu_job(stretch.job));
        held.map(|stretch| stretch.job).collect::<BTreeSet<usize>>().len()
    };
    let whole = known.len() != 1 || options.vcs.is_empty() && without > 0;
    let several = whole && options.vcs.len() != 1;
    let built = used.keys().filter(|vc| !vc.is_empty()).count() + usize::from(several);
    let newest = Newest::new(options, (from, to), (running(i64::MIN), built), (&running, "jobs with GPUs"), zone);
    let begin = newest.begin_ms;
    let span = super::Span { from_ms: begin, to_ms: to, first: named(begin.max(from)), last: named(to) };
    super::check_slots(&vec![span; used.len() + 1], facts.len(), options.slot_ms, zone)?;
    newest.tell(&mut cautions, &mut notes);
    let mut series = Vec::new();
    let mut unknown = Vec::new();
    let none = Steps::default();
    let vcs = used
        .iter()
        .filter(|(vc, _)| !vc.is_empty())
        .map(|(vc, steps)| (*vc, steps, pending.get(vc).unwrap_or(&none), totals.by_vc.get(*vc).unwrap_or(&none)));
    let shares = |vc: &String| given.is_some() && !totals.by_vc.contains_key(vc);
    let own_total = if options.vcs.is_empty() {
        totals.pool.clone()
    } else if options.vcs.iter().any(shares) {
        Steps::default()
    } else {
        sum(options.vcs.iter().filter_map(|vc| totals.by_vc.get(vc)))
    };
    let all = several.then_some((POOL, &pool_used, &pool_pending, &own_total));
    for (name, used, pending, total) in vcs.chain(all) {
        let Some(mut slots) = Slots::new(begin, to, options.slot_ms, zone) else { continue };
        let limited = !total.is_empty();
        walk(&[used, pending, total], begin, to, |start, end, values| {
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
    if given.is_none() && Capacity::of_other_vcs(trace).is_none() {
        notes.extend(Capacity::assumption(trace));
        doubts.extend(Capacity::of_another_time(trace));
    }
    cautions.splice(0..0, doubts.iter().cloned());
    notes.retain(|note| !doubts.contains(note));
    let totals_unknown = unknown.iter().map(|name| (*name).to_owned()).collect();
    Ok(Gathered { series, notes, cautions, doubts, from_jobs: true, totals_unknown })
}

/// The jobs of VCs that the cluster described does not know, a sentence, and whether they held [most of the GPU time](MOST_LEFT_OUT); `None` if there are none.
fn elsewhere(facts: &JobFacts<'_>, given: &GivenNodes) -> Option<(bool, String)> {
    let vc_of = |job: usize| facts.trace.jobs.vc.get(job);
    let is_elsewhere = |job: &usize| vc_of(*job).is_some_and(|vc| !given.by_vc.contains_key(vc));
    let gpu_jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job));
    let left: Vec<usize> = gpu_jobs.clone().filter(is_elsewhere).collect();
    let names: BTreeSet<&str> = left.iter().filter_map(|job| vc_of(*job)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let all = facts.total_gpu_s();
    let share = facts.gpu_time_s(left.iter().copied()).filter(|_| all > 0.0).map(|of_left| of_left / all);
    let jobs = format!(
        "{} of {}",
        format::count(left.len() as u64),
        format::counted(gpu_jobs.count() as u64, "job with GPUs", "jobs with GPUs")
    );
    let why = format!("as {} does not name their VCs ({})", given.of, format::names(&names, NAMED));
    let most = share.is_some_and(|share| share > MOST_LEFT_OUT);
    (!left.is_empty()).then(|| match share {
        Some(share) if most => {
            let rest = format::percent(1.0 - share);
            let told = format!(
                "**What follows is of {rest} of the GPU time alone**: {jobs} are left out, {why}. It says little of the whole cluster: find out first whether the file is of this one."
            );
            (true, told)
        }
        _ => {
            let time = share.map_or_else(String::new, |share| format!(", with {} of the GPU time", format::percent(share)));
            (false, format!("**{jobs} are left out{time}**, {why}."))
        }
    })
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

/// Times at which nodes were in use; `None` where placements name the nodes of fewer than nine in
/// ten jobs that held GPUs.
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
