//! Wide telemetry: `Time` and one column a server (`10.140.1.10`) or GPU (`172.31.15.112-6`), a row every 15 s.
//!
//! Published values are percentages (also of the DCGM ratios), watts, degrees and MiB. An empty cell is a sample that
//! was not taken and makes no row. Columns that are neither a server nor a GPU (a table tool's second copies such as
//! `10.140.0.131.1`) are left out and counted. Node memory is left out: it is a share of a size the trace does not give.
//!
//! One sample each cell: a whole file of 77,403 rows and 2,344 GPUs would be 181 million samples, some gigabytes of
//! memory; cut it by time first. O(cells).

use std::net::Ipv4Addr;

use crate::error::Result;
use crate::ingest::delimited::Delimited;
use crate::ingest::field::{MIB, Moment};
use crate::ingest::options::ReadOptions;
use crate::ingest::source::{Head, SourceFile};
use crate::quality::reason;
use crate::schema::{GpuSampleRow, NodeSampleRow};
use crate::trace::Trace;

/// Quantity that a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    GpuUtil,
    MemCopyUtil,
    SmActive,
    TensorActive,
    DramActive,
    Power,
    GpuTemp,
    MemUsed,
    NodeCpu,
}

impl Metric {
    /// The metric of a file, told by its name; `None` if its header is not that of wide telemetry.
    pub(super) fn new(head: &Head) -> Option<Self> {
        let mut header = head.first_line().split(',').map(|name| name.trim().trim_matches('"'));
        if !header.next()?.eq_ignore_ascii_case("time") || place(header.next()?).is_none() {
            return None;
        }
        let names = [
            ("gpu_util", Self::GpuUtil),
            ("mem_copy_util", Self::MemCopyUtil),
            ("sm_active", Self::SmActive),
            ("pipe_tensor_active", Self::TensorActive),
            ("dram_active", Self::DramActive),
            ("power_usage", Self::Power),
            ("gpu_temp", Self::GpuTemp),
            ("fb_used", Self::MemUsed),
            ("node_cpu_utilization", Self::NodeCpu),
        ];
        names.into_iter().find(|(name, _)| head.name.starts_with(name)).map(|(_, metric)| metric)
    }

    /// Whether values are percentages.
    fn is_percent(self) -> bool {
        !matches!(self, Self::Power | Self::GpuTemp | Self::MemUsed)
    }
}

/// The server and, if any, GPU a column stands for.
fn place(column: &str) -> Option<(&str, Option<&str>)> {
    let (node, gpu) = column.split_once('-').map_or((column, None), |(node, gpu)| (node, Some(gpu)));
    let is_gpu = gpu.is_none_or(|gpu| !gpu.is_empty() && gpu.bytes().all(|byte| byte.is_ascii_digit()));
    (node.parse::<Ipv4Addr>().is_ok() && is_gpu).then_some((node, gpu))
}

/// Reads one metric.
///
/// # Errors
/// When the file cannot be opened or has no `Time`.
pub(super) fn read(metric: Metric, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
    let zone = options.zone_or(super::ZONE)?;
    let mut table = Delimited::open(file, b',', options.observer)?;
    let time_at = Some(table.require("time")?);
    let header = table.header().to_vec();
    let places: Vec<(usize, &str, Option<&str>)> = header
        .iter()
        .enumerate()
        .filter_map(|(at, column)| place(column).map(|(node, gpu)| (at, node, gpu)))
        .filter(|(_, _, gpu)| gpu.is_some() != (metric == Metric::NodeCpu))
        .collect();
    let left_out = header.len().saturating_sub(places.len() + 1);
    while let Some(mut row) = table.next_row(&mut trace.ledger) {
        let Some(ts) = row.moment(time_at, Moment::Local(&zone), "Time") else {
            trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "Time", row.raw());
            continue;
        };
        for (at, node, gpu) in &places {
            let Some(mut value) = row.amount(Some(*at), node) else { continue };
            if metric.is_percent() {
                value /= 100.0;
                // DCGM's ratios can slightly exceed 1; far beyond it they are not ratios.
                if value > 1.05 {
                    row.audit.repair(reason::OUT_OF_RANGE, node, row.field(Some(*at)).unwrap_or_default());
                    continue;
                }
            }
            let node = Some((*node).into());
            if metric == Metric::NodeCpu {
                trace.node_samples.push(NodeSampleRow {
                    ts: Some(ts),
                    node,
                    cpu_util_ratio: Some(value),
                    ..NodeSampleRow::default()
                });
                continue;
            }
            let when = |this: Metric| (metric == this).then_some(value);
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(ts),
                node,
                gpu: gpu.map(Into::into),
                util_ratio: when(Metric::GpuUtil),
                mem_util_ratio: when(Metric::MemCopyUtil),
                sm_active_ratio: when(Metric::SmActive),
                tensor_active_ratio: when(Metric::TensorActive),
                dram_active_ratio: when(Metric::DramActive),
                mem_used_bytes: when(Metric::MemUsed).map(|mib| mib * MIB),
                power_w: when(Metric::Power),
                temp_c: when(Metric::GpuTemp),
                ..GpuSampleRow::default()
            });
        }
        trace.ledger.keep(row.audit);
    }
    table.finish(&mut trace.ledger);
    if left_out > 0 {
        trace.note(format!("acme: {left_out} columns of {} name no server or GPU and are left out", file.stem()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_servers_or_gpus() {
        assert_eq!(place("10.140.1.10"), Some(("10.140.1.10", None)));
        assert_eq!(place("172.31.15.112-6"), Some(("172.31.15.112", Some("6"))));
        assert_eq!(place("10.140.0.131.1"), None);
        assert_eq!(place("172.31.15.112-"), None);
        assert_eq!(place("Time"), None);
    }
}
