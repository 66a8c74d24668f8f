//! The utilisation logs: GPUs, CPUs and memory of each machine, minute by minute.
//!
//! Times carry ` PST` or ` PDT`, which fixes them even in the hour that happened twice on 2017-11-05: `01:30:00 PDT` is
//! 08:30 UTC and `01:30:00 PST` 09:30 UTC. GPU rows end in a comma. `NA` is a machine or GPU that was offline: the
//! sample is kept with its value unknown, so that coverage can be told; an empty field is a GPU the machine does not
//! have. Memory is in KiB; used is total less free, caches included. O(rows).

use crate::error::Result;
use crate::ingest::delimited::{Delimited, Record};
use crate::ingest::field::Moment;
use crate::ingest::options::ReadOptions;
use crate::ingest::source::SourceFile;
use crate::quality::reason;
use crate::schema::{GpuSampleRow, NodeSampleRow};
use crate::time::{HOUR_MS, Zone};
use crate::trace::Trace;

/// Bytes in a KiB.
const KIB: f64 = 1_024.0;

/// Log of utilisation that a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telemetry {
    Gpu,
    Cpu,
    Memory,
}

/// Reads one utilisation log.
///
/// # Errors
/// When it cannot be opened or lacks its columns.
pub(super) fn read(
    kind: Telemetry,
    file: &SourceFile,
    zone: &Zone,
    options: &ReadOptions<'_>,
    trace: &mut Trace,
) -> Result<()> {
    let mut table = Delimited::open(file, b',', options.observer)?.with_trailing_separator();
    let time_at = Some(table.require("time")?);
    let node_at = match table.column("machine_id") {
        Some(at) => Some(at),
        None => Some(table.require("machineid")?),
    };
    let gpu_columns: Vec<(usize, String)> = table
        .header()
        .iter()
        .enumerate()
        .filter_map(|(at, name)| Some((at, name.strip_suffix("_util")?.to_owned())))
        .filter(|(_, name)| name.starts_with("gpu"))
        .collect();
    let [cpu_at, total_at, free_at] = ["cpu_util", "mem_total", "mem_free"].map(|name| table.column(name));
    while let Some(mut row) = table.next_row(&mut trace.ledger) {
        let Some(node) = row.text(node_at) else {
            trace.ledger.quarantine(&row.audit, reason::NO_KEY, "machineId", row.raw());
            continue;
        };
        let Some(ts) = moment(&mut row, time_at, zone) else {
            trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "time", row.raw());
            continue;
        };
        match kind {
            Telemetry::Gpu => {
                for (at, gpu) in &gpu_columns {
                    if row.field(Some(*at)).is_none_or(|text| text.trim().is_empty()) {
                        continue;
                    }
                    let util_ratio = row.percent(Some(*at), gpu);
                    trace.gpu_samples.push(GpuSampleRow {
                        ts: Some(ts),
                        node: Some(node.into()),
                        gpu: Some(gpu.into()),
                        util_ratio,
                        ..GpuSampleRow::default()
                    });
                }
            }
            Telemetry::Cpu => {
                let cpu_util_ratio = row.percent(cpu_at, "cpu_util");
                trace.node_samples.push(NodeSampleRow {
                    ts: Some(ts),
                    node: Some(node.into()),
                    cpu_util_ratio,
                    ..NodeSampleRow::default()
                });
            }
            Telemetry::Memory => {
                let total = row.amount(total_at, "mem_total");
                let free = row.amount(free_at, "mem_free");
                let mut used = total.zip(free).map(|(total, free)| (total - free) * KIB);
                if used.is_some_and(|used| used < 0.0) {
                    row.audit.repair(reason::OUT_OF_RANGE, "mem_free", row.field(free_at).unwrap_or_default());
                    used = None;
                }
                trace.node_samples.push(NodeSampleRow {
                    ts: Some(ts),
                    node: Some(node.into()),
                    mem_used_bytes: used,
                    ..NodeSampleRow::default()
                });
            }
        }
        trace.ledger.keep(row.audit);
    }
    table.finish(&mut trace.ledger);
    match kind {
        Telemetry::Gpu => trace.note("philly: a GPU sample without a value is a GPU that was offline, not an idle one"),
        Telemetry::Memory => trace.note("philly: memory in use is total less free, so it holds caches too"),
        Telemetry::Cpu => {}
    }
    Ok(())
}

/// The moment of a row; the suffix says the offset, without it the time is local.
fn moment(row: &mut Record<'_>, at: Option<usize>, zone: &Zone) -> Option<i64> {
    let text = row.text(at)?;
    let utc = Zone::utc();
    for (suffix, behind_h) in [(" PST", 8), (" PDT", 7)] {
        if let Some(local) = text.strip_suffix(suffix) {
            let ms = Moment::Local(&utc).read(Some(local), "time", &mut row.audit)?;
            return Some(ms + behind_h * HOUR_MS);
        }
    }
    Moment::Local(zone).read(Some(text), "time", &mut row.audit)
}
