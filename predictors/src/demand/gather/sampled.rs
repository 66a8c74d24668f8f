//! Demand from the activity that the source itself counted.
//!
//! Each sample is a count at a moment; a slot is described by those within it, each weighing the same. Worked example: samples 3, 0, 0, 4 of
//! a cluster of 10 nodes: the zeros follow a busy sample, so they are an outage and the last count before them, 3, carries on.

use tracecast_analytics::Trace;
use tracecast_analytics::facts::Outages;
use tracecast_analytics::facts::activity::{Activity, Counts, gpus_in_use};
use tracecast_analytics::facts::slot::Slots;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::Zone;

use super::totals::{NAMED, nodes_of};
use super::{GPUS_PER_NODE, GatherOptions, Gathered, Newest, POOL, Series, Unit, check_vcs, most_so_far};
use crate::error::{Error, Result};

pub(super) fn gather(trace: &Trace, options: &GatherOptions, zone: &Zone) -> Result<Gathered> {
    let table = &trace.activity;
    let nodes_counted = (0..table.len()).any(|row| table.nodes_active.get(row).is_some());
    let unit = options.unit.unwrap_or(if nodes_counted { Unit::Nodes } else { Unit::Gpus });
    let mut notes = Vec::new();
    let per_node = options.gpus_per_node.unwrap_or(GPUS_PER_NODE);
    if unit == Unit::Nodes && !nodes_counted {
        notes.push(format!(
            "The source counts GPUs, not nodes: nodes are GPUs / {}, rounded up in each VC{}.",
            format::compact(per_node),
            if options.gpus_per_node.is_none() { " (the source does not say how many GPUs a node has)" } else { "" }
        ));
    }
    if unit == Unit::Gpus && !(0..table.len()).any(|row| gpus_in_use(trace, row).is_some()) {
        return Err(Error::NotRecorded("the source counts nodes, not GPUs; ask for nodes".to_owned()));
    }
    let nodes = |gpus: f64| nodes_of(gpus, per_node);
    let mut result = Activity::new(trace, |row| {
        let [used, pending, total] = [gpus_in_use(trace, row), table.gpus_pending.get(row), table.gpus_total.get(row)];
        Some(match unit {
            Unit::Gpus => [used, pending, total],
            // Pending GPUs as nodes, where both are known.
            Unit::Nodes if nodes_counted => {
                [table.nodes_active.get(row), pending.map(nodes), table.nodes_total.get(row)]
            }
            Unit::Nodes => [used, pending, total].map(|gpus| gpus.map(nodes)),
        })
    });
    let known: Vec<&str> = result.vcs.keys().map(String::as_str).collect();
    check_vcs(options, &known)?;
    let mut sum = pool(&result, &mut notes);
    // Of the whole cluster, and of all its VCs then: one of them alone may well be idle.
    let mut down = Outages::default();
    let whole = result.clusters.first_key_value().map(|(name, counts)| (name.as_str(), counts));
    if let Some((name, counts)) = whole.or(sum.as_ref().map(|sum| (POOL, sum))).filter(|_| !options.outages_are_idle) {
        down = Outages::new(&counts.list, counts.end());
        if down.samples > 0 {
            notes.push(format!(
                "{name}: {} in {} at or near 0 right after busy ones: the cluster was off or its counting failed, which is not lack of demand. They are left out, the last count before carries on.",
                format::counted(down.samples as u64, "sample is", "samples are"),
                format::counted(down.stretches.len() as u64, "stretch", "stretches"),
            ));
        }
    }
    let given = options.nodes.as_ref();
    let mut cautions = given.map(|given| given.left_out.clone()).unwrap_or_default();
    let is_asked = |name: &String| options.vcs.is_empty() || options.vcs.contains(name);
    let is_given = |name: &String| given.is_none_or(|given| given.by_vc.contains_key(name));
    let elsewhere: Vec<String> = result.vcs.keys().filter(|name| is_asked(name) && !is_given(name)).cloned().collect();
    if let Some(given) = given.filter(|_| !elsewhere.is_empty()) {
        cautions.push(format!(
            "**{} of {} VCs are left out**, as {} does not name them ({}).",
            elsewhere.len(),
            result.vcs.len(),
            given.of,
            format::names(&elsewhere, NAMED)
        ));
    }
    if !options.vcs.is_empty() || !elsewhere.is_empty() {
        result.vcs.retain(|name, _| is_asked(name) && is_given(name));
        result.clusters.clear();
        sum = pool(&result, &mut notes);
    }
    let named = || {
        let of_names = result.vcs.iter().chain(&result.clusters).map(|(name, counts)| (name.as_str(), counts));
        of_names.chain(sum.as_ref().map(|sum| (POOL, sum)))
    };
    let ends = named().filter_map(|(_, counts)| Some((counts.list.first()?.ts, counts.end())));
    let all = ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or((0, 0));
    let later = |from: i64| (0..table.len()).filter(|row| table.ts.get(*row).is_some_and(|ts| ts >= from)).count();
    let newest = Newest::new(options, all, (table.len(), named().count()), (&later, "samples"), zone);
    let begin = newest.begin_ms;
    let spans: Vec<super::Span> = named()
        .filter_map(|(name, counts)| {
            let (from_ms, to_ms) = (counts.list.first()?.ts, counts.list.last()?.ts);
            let (first, last) = (format!("the first sample of {name}"), format!("the last of {name}"));
            Some(super::Span { from_ms: from_ms.max(begin), to_ms, first, last })
        })
        .collect();
    super::check_slots(&spans, table.len(), options.slot_ms, zone)?;
    newest.tell(&mut cautions, &mut notes);
    let mut series = Vec::new();
    let (mut unknown, mut holes) = (Vec::new(), Vec::new());
    for (name, counts) in named() {
        let Some(first) = counts.list.first() else { continue };
        if counts.end() <= begin {
            notes.push(format!("{name}: left out, as it was not counted after {}.", zone.show_short(begin)));
            continue;
        }
        let Some(mut slots) = Slots::new(first.ts.max(begin), counts.end(), options.slot_ms, zone) else { continue };
        let said = given.and_then(|given| match result.vcs.contains_key(name) {
            true => given.of_vc(name, unit),
            false => given.of_asked(&options.vcs, unit),
        });
        for count in counts.list.iter().filter(|count| !down.contains(count.ts)) {
            let recorded = || count.total.unwrap_or(f64::INFINITY);
            let (pending, total) =
                (count.pending.unwrap_or(0.0), said.as_ref().map_or_else(recorded, |said| said.at(count.ts)));
            slots.add(count.ts, count.ts, options.asked.of(count.used, pending, total), pending, total);
        }
        let Some((start_ms, mut slots)) = slots.finish() else { continue };
        if let Some(said) = said {
            for (slot, from_ms) in slots.iter_mut().zip((0..).map(|at| start_ms + at * options.slot_ms)) {
                slot.total = said.at(from_ms.saturating_add(options.slot_ms - 1));
            }
        } else if given.is_some() || !counts.counts_total {
            most_so_far(&mut slots);
            unknown.push(name.to_owned());
        }
        // Single samples without a total stand for the last one.
        let mut total = slots.iter().map(|slot| slot.total).find(|total| total.is_finite()).unwrap_or(0.0);
        for slot in &mut slots {
            if slot.total.is_finite() {
                total = slot.total;
            }
            slot.total = total;
        }
        let gaps = slots.iter().filter(|slot| !slot.counted).count();
        if gaps > 0 {
            holes.push(format!("{name} ({})", format::count(gaps as u64)));
        }
        series.push(Series {
            name: name.to_owned(),
            unit,
            counts_pending: counts.counts_pending,
            start_ms,
            slot_ms: options.slot_ms,
            zone: zone.name().to_owned(),
            slots,
        });
    }
    notes.extend(super::unknown_totals(&unknown));
    if !holes.is_empty() {
        notes.push(format!("Nothing was counted in slots of {}: they carry on the last count.", holes.join(", ")));
    }
    Ok(Gathered { series, notes, cautions, doubts: Vec::new(), from_jobs: false, totals_unknown: unknown })
}

/// The sum of the VCs where the cluster has no series of its own, with a note of what lies outside of it.
fn pool(result: &Activity, notes: &mut Vec<String>) -> Option<Counts> {
    let (counts, outside) = result.pool()?;
    if outside > 0 {
        notes.push(format!(
            "{POOL}: the VCs were not counted over the same time; the pool covers what they share, {} are outside of it.",
            format::counted(outside as u64, "sample", "samples")
        ));
    }
    Some(counts)
}
