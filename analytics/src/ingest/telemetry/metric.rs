//! Quantities that a metric can measure, and values that are no readings.
//!
//! Worked number: `DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 2500000` is 2,500,000 mJ = 2,500 J. O(1) for a value.

use crate::quality::{Reason, RowAudit, reason};
use crate::schema::sensor::is_shared;

/// A value that stands for "not supported" or "not read".
pub(super) const BLANK: Reason = Reason {
    id: "blank_reading",
    what: "the value is one that the meter writes when it has no reading; it is set to unknown",
    remedy: "leave the metric out if the device does not support it",
};
/// A ratio above one on a MIG instance.
pub(super) const ABOVE_ONE: Reason = Reason {
    id: "ratio_above_one",
    what: "a profiling ratio of a MIG instance is above one, as DCGM scales it by the instance's share; one is used",
    remedy: "update DCGM, or read the metric per GPU",
};
/// More than one GPU can draw, watts.
const GPU_MOST_W: f64 = 10_000.0;
/// More than one node can draw, watts.
const NODE_MOST_W: f64 = 20_000.0;
/// More than one chassis of several nodes can draw, watts.
const CHASSIS_MOST_W: f64 = 100_000.0;
/// More than a bus carries in one direction, bytes a second: PCIe 6.0 with 16 lanes has about 121 GB/s. A total since the
/// driver was loaded is soon above it.
const PCIE_MOST: f64 = 256e9;
/// Power of a node from which a value is a blank of 32 bits.
const BLANK_32: f64 = 2_147_483_632.0;
/// The most slices a GPU is cut into, and so the most a MIG ratio can be off by.
const MIG_SLICES: f64 = 8.0;

/// Quantity measured of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GpuField {
    Util,
    /// Share of time the graphics or compute engine was active: stands in for `Util`, which MIG instances lack.
    EngineActive,
    MemUtil,
    SmActive,
    TensorActive,
    DramActive,
    MemUsed,
    /// Memory in use as a share of what there is.
    MemUsedShare,
    MemFree,
    MemReserved,
    MemTotal,
    Power,
    Energy,
    Temp,
    PcieSent,
    PcieReceived,
}

/// Quantity measured of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeField {
    Power,
    Energy,
}

/// Quantity counted in a cluster, or in a partition of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueField {
    JobsRunning,
    JobsPending,
    GpusTotal,
    GpusRunning,
    GpusPending,
    GpusIdle,
    NodesTotal,
}

/// Quantity of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Gpu(GpuField),
    /// The job that runs on a GPU: its labels name it, or its value is the number.
    GpuJob,
    /// A GPU and its model, which the labels name.
    GpuInfo,
    Node(NodeField),
    Queue(QueueField),
}

/// Names of quantities in the table of metrics, and the column each is put into, which has its unit.
const QUANTITIES: [(&str, Quantity, &str); 27] = [
    ("gpu_util", Quantity::Gpu(GpuField::Util), "util_ratio"),
    ("gpu_engine_active", Quantity::Gpu(GpuField::EngineActive), "util_ratio"),
    ("gpu_mem_util", Quantity::Gpu(GpuField::MemUtil), "mem_util_ratio"),
    ("gpu_sm_active", Quantity::Gpu(GpuField::SmActive), "sm_active_ratio"),
    ("gpu_tensor_active", Quantity::Gpu(GpuField::TensorActive), "tensor_active_ratio"),
    ("gpu_dram_active", Quantity::Gpu(GpuField::DramActive), "dram_active_ratio"),
    ("gpu_mem_used", Quantity::Gpu(GpuField::MemUsed), "mem_used_bytes"),
    ("gpu_mem_used_share", Quantity::Gpu(GpuField::MemUsedShare), "mem_used_ratio"),
    ("gpu_mem_free", Quantity::Gpu(GpuField::MemFree), "mem_free_bytes"),
    ("gpu_mem_reserved", Quantity::Gpu(GpuField::MemReserved), "mem_reserved_bytes"),
    ("gpu_mem_total", Quantity::Gpu(GpuField::MemTotal), "mem_total_bytes"),
    ("gpu_power", Quantity::Gpu(GpuField::Power), "power_w"),
    ("gpu_energy", Quantity::Gpu(GpuField::Energy), "energy_j_cum"),
    ("gpu_temp", Quantity::Gpu(GpuField::Temp), "temp_c"),
    ("gpu_pcie_sent", Quantity::Gpu(GpuField::PcieSent), "pcie_bytes_per_s"),
    ("gpu_pcie_received", Quantity::Gpu(GpuField::PcieReceived), "pcie_bytes_per_s"),
    ("gpu_job", Quantity::GpuJob, ""),
    ("gpu_info", Quantity::GpuInfo, ""),
    ("node_power", Quantity::Node(NodeField::Power), "power_w"),
    ("node_energy", Quantity::Node(NodeField::Energy), "energy_j_cum"),
    ("jobs_running", Quantity::Queue(QueueField::JobsRunning), ""),
    ("jobs_pending", Quantity::Queue(QueueField::JobsPending), ""),
    ("gpus_total", Quantity::Queue(QueueField::GpusTotal), ""),
    ("gpus_running", Quantity::Queue(QueueField::GpusRunning), ""),
    ("gpus_pending", Quantity::Queue(QueueField::GpusPending), ""),
    ("gpus_idle", Quantity::Queue(QueueField::GpusIdle), ""),
    ("nodes_total", Quantity::Queue(QueueField::NodesTotal), ""),
];

impl Quantity {
    /// The quantity that the table of metrics calls `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        QUANTITIES.iter().find(|(id, _, _)| *id == name).map(|(_, quantity, _)| *quantity)
    }

    /// All names, for a message.
    pub(super) fn names() -> String {
        QUANTITIES.map(|(id, _, _)| id).join(", ")
    }

    /// The column whose suffix says what units there are; empty where there is none.
    pub(super) fn column(self) -> &'static str {
        QUANTITIES.iter().find(|(_, quantity, _)| *quantity == self).map_or("", |(_, _, column)| *column)
    }

    /// Whether a metric of the quantity has a unit.
    pub(super) fn has_unit(self) -> bool {
        !self.column().is_empty()
    }
}

/// `value` (in the unit of its column) if it is possible for `field`, else `None` with a note.
pub(super) fn gpu_in_range(
    field: GpuField,
    value: f64,
    column: &str,
    text: &str,
    mig: bool,
    row: &mut RowAudit<'_>,
) -> Option<f64> {
    if value < 0.0 && field != GpuField::Temp {
        row.repair(reason::NEGATIVE, column, text);
        return None;
    }
    let (least, most) = match field {
        GpuField::Util
        | GpuField::EngineActive
        | GpuField::MemUtil
        | GpuField::SmActive
        | GpuField::TensorActive
        | GpuField::DramActive
        | GpuField::MemUsedShare => (0.0, 1.0),
        GpuField::Power => (0.0, GPU_MOST_W),
        GpuField::Temp => (-60.0, 200.0),
        GpuField::PcieSent | GpuField::PcieReceived => (0.0, PCIE_MOST),
        GpuField::MemUsed | GpuField::MemFree | GpuField::MemReserved | GpuField::MemTotal | GpuField::Energy => {
            (0.0, f64::INFINITY)
        }
    };
    if mig && most == 1.0 && value > 1.0 && value <= MIG_SLICES {
        row.repair(ABOVE_ONE, column, text);
        return Some(1.0);
    }
    if value < least || value > most {
        row.repair(reason::OUT_OF_RANGE, column, text);
        return None;
    }
    Some(value)
}

/// Returns `watts` if the meter of a node called `sensor` can read so much, else `None` with a note.
///
/// 25,550 W, and 2,555 W from a shared power supply, are what a controller reports while it has no reading: a counter of
/// all ones times the sensor's factor plus its offset (255 × 10 + 5 = 2,555, times ten for the other).
pub(super) fn node_power(sensor: &str, watts: f64, column: &str, text: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let shared = is_shared(sensor);
    let reason = if watts == 25_550.0 || (shared && watts == 2_555.0) || watts >= BLANK_32 {
        BLANK
    } else if watts > if shared { CHASSIS_MOST_W } else { NODE_MOST_W } {
        reason::OUT_OF_RANGE
    } else {
        return Some(watts);
    };
    row.repair(reason, column, text);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_supply_at_all_ones_is_no_reading_and_a_busy_node_is() {
        let mut row = RowAudit::new("f", 1);
        let mut of = |sensor: &str, watts: f64| node_power(sensor, watts, "watts", "", &mut row);
        assert_eq!(of("PSU Power", 2_555.0), None);
        assert_eq!(of("Sys Power", 2_555.0), Some(2_555.0));
        assert_eq!(of("Chassis Power", 25_550.0), None);
        assert_eq!(of("Chassis Power", 24_000.0), Some(24_000.0));
        assert_eq!(of("Sys Power", 24_000.0), None);
        assert_eq!(of("Sys Power", 0.0), Some(0.0));
    }
}
