//! Demand from the activity that the source itself counted.
//!
//! Each sample is a count at a moment; a slot is described by those within it, each weighing the same. Worked example: samples 3, 0, 0, 4 of
//! a cluster of 10 nodes: the zeros follow a busy sample, so they are an outage and the last count before them, 3, carries on.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::outage::{Count, Outages};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::Zone;

use super::{GPUS_PER_NODE, Gathered, Options, POOL, Series, Tallies, Unit, check_vcs, most_so_far};
use crate::error::{Error, Result};

/// What was counted at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    ts: i64,
    used: f64,
    pending: Option<f64>,
    total: Option<f64>,
}

/// Samples of one name in order of time.
#[derive(Debug, Default)]
struct Samples {
    list: Vec<Sample>,
    counts_pending: bool,
    counts_total: bool,
}

pub(super) fn gather(trace: &Trace, options: &Options, zone: &Zone) -> Result<Gathered> {
    let table = &trace.activity;
    let nodes_counted = (0..table.len()).any(|row| table.nodes_active.get(row).is_some());
    let unit = options.unit.unwrap_or(if nodes_counted { Unit::Nodes } else { Unit::Gpus });
    let mut notes = Vec::new();
    let per_node = options.gpus_per_node.unwrap_or(GPUS_PER_NODE);
    if unit == Unit::Nodes && !nodes_counted {
        notes.push(format!(
            "The source counts GPUs, not nodes: nodes are GPUs / {per_node}, rounded up in each VC{}.",
            if options.gpus_per_node.is_none() { " (the source does not say how many GPUs a node has)" } else { "" }
        ));
    }
    if unit == Unit::Gpus && !(0..table.len()).any(|row| used_gpus(trace, row).is_some()) {
        return Err(Error::NotRecorded("the source counts nodes, not GPUs; ask for nodes".to_owned()));
    }
    let mut by_name: BTreeMap<(bool, String), Samples> = BTreeMap::new();
    for row in 0..table.len() {
        let (Some(ts), Some(scope)) = (table.ts.get(row), table.scope.get(row)) else { continue };
        let nodes = |gpus: f64| (gpus / per_node).ceil();
        let (used, pending, total) = if unit == Unit::Gpus {
            (used_gpus(trace, row), table.gpus_pending.get(row), table.gpus_total.get(row))
        } else if nodes_counted {
            // Pending GPUs as nodes, where both are known.
            (table.nodes_active.get(row), table.gpus_pending.get(row).map(nodes), table.nodes_total.get(row))
        } else {
            let [pending, total] = [&table.gpus_pending, &table.gpus_total].map(|column| column.get(row).map(nodes));
            (used_gpus(trace, row).map(nodes), pending, total)
        };
        let Some(used) = used.filter(|used| *used >= 0.0) else { continue };
        let name = table.name.get(row).unwrap_or("cluster").to_owned();
        let own = by_name.entry((scope == "cluster", name)).or_default();
        own.counts_pending |= pending.is_some();
        own.counts_total |= total.is_some();
        own.list.push(Sample { ts, used, pending, total });
    }
    for samples in by_name.values_mut() {
        // Stable: of two samples of one moment the first is kept.
        samples.list.sort_by_key(|sample| sample.ts);
        samples.list.dedup_by_key(|sample| sample.ts);
    }
    let known: Vec<&str> = by_name.keys().filter(|(pool, _)| !pool).map(|(_, name)| name.as_str()).collect();
    check_vcs(options, &known)?;
    let pooled = |by_name: &BTreeMap<(bool, String), Samples>, notes: &mut Vec<String>| {
        let vcs: Vec<&Samples> = by_name.iter().filter(|((pool, _), _)| !pool).map(|(_, samples)| samples).collect();
        (!by_name.keys().any(|(pool, _)| *pool) && vcs.len() > 1).then(|| pool(&vcs, notes))
    };
    let mut sum = pooled(&by_name, &mut notes);
    // Of the whole cluster, and of all its VCs then: one of them alone may well be idle.
    let whole = by_name.iter().find(|((pool, _), _)| *pool).map(|((_, name), samples)| (name.as_str(), samples));
    let mut down = Outages::default();
    if let Some((name, samples)) = whole.or(sum.as_ref().map(|sum| (POOL, sum))).filter(|_| !options.outages_are_idle) {
        down = outages(&samples.list);
        if down.samples > 0 {
            notes.push(format!(
                "{name}: {} in {} at or near 0 right after busy ones: the cluster was off or its counting failed, which is not lack of demand. They are left out, the last count before carries on.",
                format::counted(down.samples as u64, "sample is", "samples are"),
                format::counted(down.stretches.len() as u64, "stretch", "stretches"),
            ));
        }
    }
    if !options.vcs.is_empty() {
        by_name.retain(|(pool, name), _| !pool && options.vcs.contains(name));
        sum = pooled(&by_name, &mut notes);
    }
    let spans: Vec<super::Span> = by_name
        .iter()
        .map(|((_, name), samples)| (name.as_str(), samples))
        .chain(sum.as_ref().map(|sum| (POOL, sum)))
        .filter_map(|(name, samples)| {
            let (from_ms, to_ms) = (samples.list.first()?.ts, samples.list.last()?.ts);
            let (first, last) = (format!("the first sample of {name}"), format!("the last of {name}"));
            Some(super::Span { from_ms, to_ms, first, last })
        })
        .collect();
    super::check_slots(&spans, table.len(), options.slot_ms, zone)?;
    let mut series = Vec::new();
    let (mut unknown, mut holes) = (Vec::new(), Vec::new());
    for ((_, name), samples) in by_name.into_iter().chain(sum.map(|sum| ((true, POOL.to_owned()), sum))) {
        let mut list = samples.list;
        let spacing = spacing(&list);
        let ends = list.first().map(|sample| sample.ts).zip(list.last().map(|sample| sample.ts));
        let Some((from, last)) = ends else { continue };
        list.retain(|sample| !down.contains(sample.ts));
        let Some(mut tallies) = Tallies::new(from, last.saturating_add(spacing), options, zone) else { continue };
        for sample in &list {
            let total = sample.total.unwrap_or(f64::INFINITY);
            tallies.add(sample.ts, sample.ts, sample.used, sample.pending.unwrap_or(0.0), total);
        }
        let Some((start_ms, mut slots)) = tallies.finish() else { continue };
        if !samples.counts_total {
            most_so_far(&mut slots);
            unknown.push(name.clone());
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
            name,
            unit,
            counts_pending: samples.counts_pending,
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
    Ok(Gathered { series, notes, from_jobs: false, totals_unknown: unknown })
}

fn used_gpus(trace: &Trace, row: usize) -> Option<f64> {
    let table = &trace.activity;
    let rest = || Some(table.gpus_total.get(row)? - table.gpus_idle.get(row)?);
    table.gpus_running.get(row).or_else(rest)
}

/// Median time between samples.
fn spacing(list: &[Sample]) -> i64 {
    let mut gaps: Vec<i64> = list.windows(2).filter_map(|pair| Some(pair.last()?.ts - pair.first()?.ts)).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or(0)
}

/// The outages among samples, by the rule that descriptions of a trace follow too.
fn outages(list: &[Sample]) -> Outages {
    let counts: Vec<Count> =
        list.iter().map(|sample| Count { ts: sample.ts, used: sample.used, total: sample.total }).collect();
    let end = list.last().map_or(0, |last| last.ts.saturating_add(spacing(list)));
    Outages::of(&counts, end)
}

/// The sum of VCs at each moment at which one was counted, over the time in which all were.
fn pool(vcs: &[&Samples], notes: &mut Vec<String>) -> Samples {
    let from = vcs.iter().filter_map(|vc| vc.list.first()).map(|sample| sample.ts).max().unwrap_or(0);
    let to = vcs.iter().filter_map(|vc| vc.list.last()).map(|sample| sample.ts).min().unwrap_or(0);
    let cut = vcs.iter().flat_map(|vc| &vc.list).filter(|sample| sample.ts < from || sample.ts > to).count();
    if cut > 0 {
        notes.push(format!(
            "{POOL}: the VCs were not counted over the same time; the pool covers what they share, {} are outside of it.",
            format::counted(cut as u64, "sample", "samples")
        ));
    }
    let mut moments: Vec<(i64, usize, Sample)> = vcs
        .iter()
        .enumerate()
        .flat_map(|(vc, samples)| samples.list.iter().map(move |sample| (sample.ts, vc, *sample)))
        .filter(|(ts, _, _)| *ts <= to)
        .collect();
    moments.sort_by_key(|(ts, vc, _)| (*ts, *vc));
    let mut held: Vec<Option<Sample>> = vec![None; vcs.len()];
    let mut list = Vec::new();
    let add = |of: &dyn Fn(&Sample) -> Option<f64>, held: &[Option<Sample>]| -> Option<f64> {
        held.iter().map(|sample| of(sample.as_ref()?)).sum()
    };
    for now in moments.chunk_by(|a, b| a.0 == b.0) {
        for (_, vc, sample) in now {
            if let Some(slot) = held.get_mut(*vc) {
                let before = *slot;
                *slot = Some(Sample { total: sample.total.or_else(|| before?.total), ..*sample });
            }
        }
        let Some((ts, _, _)) = now.first().filter(|(ts, _, _)| *ts >= from) else { continue };
        let Some(used) = add(&|sample| Some(sample.used), &held) else { continue };
        let pending = add(&|sample| sample.pending, &held);
        list.push(Sample { ts: *ts, used, pending, total: add(&|sample| sample.total, &held) });
    }
    Samples {
        list,
        counts_pending: vcs.iter().all(|vc| vc.counts_pending),
        counts_total: vcs.iter().all(|vc| vc.counts_total),
    }
}
