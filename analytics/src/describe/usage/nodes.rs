//! Readings of nodes: processors and memory in use.
//!
//! Rows of one node and moment are one reading. Memory in use over memory there is needs the node in the inventory.
//!
//! Complexity: O(n log n) in node samples.
//!
//! Worked number: 25 of 100 bytes in use on one node and 7 on another without a known memory: one ratio, 0.25, and a mean
//! of 16 bytes in use.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::describe::summary::int;
use crate::facts::JobFacts;
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::{Numbers, Table as _};
use crate::stats;

/// Processors and memory of nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodesUse {
    /// Readings: one node at one moment, with any metric.
    pub readings: u64,
    /// Nodes.
    pub nodes: u64,
    /// CPU utilisation, 0 to 1, of those with one.
    pub cpu_util: Option<stats::quantile::Summary>,
    /// Memory in use, bytes, of those with one.
    pub mem_used_bytes: Option<stats::quantile::Summary>,
    /// Memory in use over memory there is, of those whose node has a known memory.
    pub mem_used_ratio: Option<stats::quantile::Summary>,
}

impl NodesUse {
    pub(super) fn new(facts: &JobFacts<'_>) -> Option<Self> {
        let samples = &facts.trace.node_samples;
        if samples.cpu_util_ratio.is_all_unknown() && samples.mem_used_bytes.is_all_unknown() {
            return None;
        }
        let inventory = &facts.trace.nodes;
        let mem_of: HashMap<&str, i64> = (0..inventory.len())
            .filter_map(|ix| Some((inventory.node.get(ix)?, inventory.mem_bytes.get(ix)?)))
            .collect();
        let mem_bytes: Vec<Option<f64>> = (0..)
            .map_while(|code| samples.node.name(code))
            .map(|name| mem_of.get(name).map(|bytes| *bytes as f64).filter(|bytes| *bytes > 0.0))
            .collect();
        let mut order: Vec<u32> = (0..u32::try_from(samples.len()).unwrap_or(u32::MAX)).collect();
        let place = |ix: u32| (samples.node.code(ix as usize), samples.ts.get(ix as usize));
        order.sort_by_key(|ix| place(*ix));
        let (mut readings, mut nodes, mut last) = (0, 0, None);
        let (mut cpu, mut mem, mut mem_ratio) = (Vec::new(), Vec::new(), Vec::new());
        for rows in order.chunk_by(|a, b| place(*a).1.is_some() && place(*a) == place(*b)) {
            let value = |column: &Numbers<f64>| rows.iter().find_map(|ix| column.get(*ix as usize));
            let (used, busy) = (value(&samples.mem_used_bytes), value(&samples.cpu_util_ratio));
            if used.is_none() && busy.is_none() {
                continue;
            }
            let node = rows.first().and_then(|ix| samples.node.code(*ix as usize));
            readings += 1;
            nodes += u64::from(last != Some(node));
            last = Some(node);
            cpu.extend(busy);
            mem.extend(used);
            let all = node.and_then(|code| mem_bytes.get(code as usize).copied().flatten());
            mem_ratio.extend(used.zip(all).map(|(used, all)| used / all));
        }
        Some(Self {
            readings,
            nodes,
            cpu_util: stats::quantile::Summary::of_vec(cpu),
            mem_used_bytes: stats::quantile::Summary::of_vec(mem),
            mem_used_ratio: stats::quantile::Summary::of_vec(mem_ratio),
        })
    }

    pub(super) fn tell(&self, section: Section) -> Section {
        let mut table = ReportTable::new(
            "Processors and memory of the nodes",
            vec![
                Column::text("Metric"),
                Column::number("Readings"),
                Column::number("Mean"),
                Column::number("p10"),
                Column::number("Median"),
                Column::number("p90"),
                Column::number("p99"),
            ],
        );
        let mut row = |name: &str, summary: Option<&stats::quantile::Summary>, per: f64, cell: &dyn Fn(f64) -> Cell| {
            if let Some(s) = summary {
                let mut row = vec![Cell::from(name), int(s.count)];
                row.extend([s.mean, s.p10, s.p50, s.p90, s.p99].map(|value| cell(value / per)));
                table.rows.push(row);
            }
        };
        row("CPU utilisation", self.cpu_util.as_ref(), 1.0, &Cell::Percent);
        row("Memory in use, of the node's", self.mem_used_ratio.as_ref(), 1.0, &Cell::Percent);
        let gib = |value: f64| Cell::Float { value, digits: 1 };
        row("Memory in use, GiB", self.mem_used_bytes.as_ref(), 1_073_741_824.0, &gib);
        section.with_table(table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::describe::topic::Topic;
    use crate::describe::usage::Usage;
    use crate::schema::{NodeRow, NodeSampleRow};

    #[test]
    fn a_nodes_metrics_are_joined_by_moment_and_memory_needs_the_inventory() {
        let mut trace = Trace::default();
        trace.nodes.push(NodeRow { node: Some("n".into()), mem_bytes: Some(100), ..NodeRow::default() });
        for (node, cpu, mem) in [("n", Some(0.5), None), ("n", None, Some(25.0)), ("m", None, Some(7.0))] {
            trace.node_samples.push(NodeSampleRow {
                ts: Some(0),
                node: Some(node.into()),
                cpu_util_ratio: cpu,
                mem_used_bytes: mem,
                ..NodeSampleRow::default()
            });
        }
        let nodes = Usage::of(&JobFacts::new(&trace)).unwrap().nodes.unwrap();
        assert_eq!((nodes.readings, nodes.nodes), (2, 2));
        let ratio = nodes.mem_used_ratio.unwrap();
        assert_eq!((ratio.count, ratio.mean, nodes.mem_used_bytes.unwrap().mean), (1, 0.25, 16.0));
    }
}
