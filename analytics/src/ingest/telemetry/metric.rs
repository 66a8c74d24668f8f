//! Which metric means which column, in what unit, and which values of it are no readings at all.
//!
//! Source: dcgm-exporter's `etc/default-counters.csv` and DCGM's field list (`DCGM_FI_DEV_*_UTIL` in percent,
//! `DCGM_FI_PROF_*` as ratios, energy in millijoules, frame buffer in MiB, PCIe traffic in bytes a second, and in kB a second as the driver
//! reads it; exporters call both a counter, and they are rates); node power as node_exporter and
//! ipmi_exporter name it. DCGM writes "blank" for a field it cannot read as a number near the top of the field's type:
//! from 2,147,483,632 (32 bits), 140,737,488,355,328 (floating point) or 9,223,372,036,854,775,792 (64 bits) up.
//!
//! Worked number: `DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 2500000` is 2,500,000 mJ = 2,500 J.
//! O(metrics) to look a name up, done once a series or line.

use crate::ingest::field::MIB;
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
/// More than a bus carries in one direction, bytes a second: PCIe 6.0 with 16 lanes has about 121 GB/s. A total since the driver was loaded is soon above it.
const PCIE_MOST: f64 = 256e9;
/// From what number on a value is a blank of the field's 32 bits, and of its 64 bits.
const BLANK_32: f64 = 2_147_483_632.0;
const BLANK_64: f64 = 140_737_488_355_328.0;
/// The most slices a GPU is cut into, and so the most a MIG ratio can be off by.
const MIG_SLICES: f64 = 8.0;
// Divisors, as 87 × 0.01 is not the number nearest to 0.87 and 87 / 100 is. A mebibyte is a power of two: exact.
const PERCENT: f64 = 100.0;
const PER_MIB: f64 = 1.0 / MIB;
const PER_KB: f64 = 1.0 / 1_000.0;

/// What a metric of a GPU tells.
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
    MemFree,
    MemReserved,
    MemTotal,
    Power,
    Energy,
    Temp,
    PcieSent,
    PcieReceived,
    /// As the driver reads it over 20 ms: stands in for the two above, which need DCGM's profiling.
    PcieSentByDriver,
    PcieReceivedByDriver,
}

/// How many [`GpuField`]s there are.
pub(super) const GPU_FIELDS: usize = 17;

/// What a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// One GPU.
    Gpu(GpuField),
    /// Power of a node, watts.
    NodePower,
}

/// One metric: its name, its target, and what its values are divided by to be in the column's unit.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) target: Target,
    per: f64,
}

const fn gpu(name: &'static str, field: GpuField, per: f64) -> Metric {
    Metric { name, target: Target::Gpu(field), per }
}

const fn node(name: &'static str) -> Metric {
    Metric { name, target: Target::NodePower, per: 1.0 }
}

static METRICS: &[Metric] = &[
    gpu("DCGM_FI_DEV_GPU_UTIL", GpuField::Util, PERCENT),
    gpu("DCGM_FI_PROF_GR_ENGINE_ACTIVE", GpuField::EngineActive, 1.0),
    gpu("DCGM_FI_DEV_MEM_COPY_UTIL", GpuField::MemUtil, PERCENT),
    gpu("DCGM_FI_PROF_SM_ACTIVE", GpuField::SmActive, 1.0),
    gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", GpuField::TensorActive, 1.0),
    gpu("DCGM_FI_PROF_DRAM_ACTIVE", GpuField::DramActive, 1.0),
    gpu("DCGM_FI_DEV_FB_USED", GpuField::MemUsed, PER_MIB),
    gpu("DCGM_FI_DEV_FB_FREE", GpuField::MemFree, PER_MIB),
    gpu("DCGM_FI_DEV_FB_RESERVED", GpuField::MemReserved, PER_MIB),
    gpu("DCGM_FI_DEV_FB_TOTAL", GpuField::MemTotal, PER_MIB),
    gpu("DCGM_FI_DEV_POWER_USAGE", GpuField::Power, 1.0),
    gpu("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", GpuField::Energy, 1_000.0),
    gpu("DCGM_FI_DEV_GPU_TEMP", GpuField::Temp, 1.0),
    gpu("DCGM_FI_PROF_PCIE_TX_BYTES", GpuField::PcieSent, 1.0),
    gpu("DCGM_FI_PROF_PCIE_RX_BYTES", GpuField::PcieReceived, 1.0),
    gpu("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", GpuField::PcieSentByDriver, PER_KB),
    gpu("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", GpuField::PcieReceivedByDriver, PER_KB),
    node("node_hwmon_power_average_watt"),
    node("node_hwmon_power_watt"),
    node("ipmi_dcmi_power_consumption_watts"),
    node("ipmi_power_watts"),
];

impl Metric {
    /// The metric called `name`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// The metric whose name stands in `text` (a lower-case file name); the longest if several do.
    pub(super) fn within(text: &str) -> Option<&'static Self> {
        let found = METRICS.iter().filter(|metric| text.contains(&metric.name.to_ascii_lowercase()));
        found.max_by_key(|metric| metric.name.len())
    }

    /// A GPU reading in the column's unit, `None` if it is none; `text` is the value as it stood. The power of nodes
    /// has [`node_power`].
    pub(super) fn gpu_value(&self, field: GpuField, text: &str, mig: bool, row: &mut RowAudit<'_>) -> Option<f64> {
        let raw = super::super::field::number(Some(text), self.name, row)?;
        // The energy counter has 64 bits, and 2^31 mJ are used up within hours; 2^31 bytes go over a bus within a second.
        let blank_from = match field {
            GpuField::Energy | GpuField::PcieSent | GpuField::PcieReceived => BLANK_64,
            _ => BLANK_32,
        };
        if raw >= blank_from {
            row.repair(BLANK, self.name, text);
            return None;
        }
        gpu_in_range(field, raw / self.per, self.name, text, mig, row)
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
        | GpuField::DramActive => (0.0, 1.0),
        GpuField::Power => (0.0, GPU_MOST_W),
        GpuField::Temp => (-60.0, 200.0),
        GpuField::PcieSent | GpuField::PcieReceived | GpuField::PcieSentByDriver | GpuField::PcieReceivedByDriver => {
            (0.0, PCIE_MOST)
        }
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

/// Power of a node as a meter gave it, watts; `None` with a note if it cannot be a reading.
///
/// 25,550 W, and 2,555 W from a shared power supply, are what a controller reports while it has no reading: a counter of
/// all ones times the sensor's factor plus its offset (255 × 10 + 5 = 2,555, times ten for the other).
pub(super) fn node_power(sensor: &str, text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let watts = super::super::field::amount(text, column, row)?;
    let shared = is_shared(sensor);
    let reason = if watts == 25_550.0 || (shared && watts == 2_555.0) || watts >= BLANK_32 {
        BLANK
    } else if watts > if shared { CHASSIS_MOST_W } else { NODE_MOST_W } {
        reason::OUT_OF_RANGE
    } else {
        return Some(watts);
    };
    row.repair(reason, column, text.unwrap_or_default());
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(name: &str, text: &str, mig: bool) -> (Option<f64>, usize) {
        let metric = Metric::named(name).unwrap();
        let Target::Gpu(field) = metric.target else { return (None, 0) };
        let mut ledger = crate::quality::Ledger::default();
        let mut row = RowAudit::new("f", 1);
        let value = metric.gpu_value(field, text, mig, &mut row);
        ledger.keep(row);
        (value, ledger.entries.len())
    }

    #[test]
    fn units_become_the_columns_units() {
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL", "50", false), (Some(0.5), 0));
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", "0.5", false), (Some(0.5), 0));
        assert_eq!(value("DCGM_FI_DEV_FB_USED", "2", false), (Some(2_097_152.0), 0));
        assert_eq!(value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2500000", false), (Some(2_500.0), 0));
        assert_eq!(value("DCGM_FI_DEV_GPU_TEMP", "-3", false), (Some(-3.0), 0));
        assert_eq!(value("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "1500", false), (Some(1_500_000.0), 0));
    }

    #[test]
    fn a_bus_may_carry_more_than_32_bits_a_second_and_no_total() {
        assert_eq!(value("DCGM_FI_PROF_PCIE_TX_BYTES", "12000000000", false), (Some(12e9), 0));
        assert_eq!(value("DCGM_FI_PROF_PCIE_TX_BYTES", "900000000000", false), (None, 1));
        assert_eq!(value("DCGM_FI_PROF_PCIE_RX_BYTES", "9223372036854775794", false), (None, 1));
        // A terabyte since the driver was loaded, in kB.
        assert_eq!(value("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "1027729013", false), (None, 1));
    }

    #[test]
    fn blanks_are_unknown_and_counted_while_energy_may_pass_32_bits() {
        for blank in ["9223372036854775794", "2147483632", "140737488355328", "1e19"] {
            assert_eq!(value("DCGM_FI_DEV_POWER_USAGE", blank, false), (None, 1), "{blank}");
        }
        // 2,147,483,632 mJ = 2,147,483.632 J: some two hours at 300 W.
        let (energy, notes) = value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2147483632", false);
        assert!((energy.unwrap() - 2_147_483.632).abs() < 1e-6 && notes == 0);
        assert_eq!(value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "9223372036854775794", false), (None, 1));
        assert_eq!(value("DCGM_FI_DEV_POWER_USAGE", "NaN", false), (None, 0));
        assert_eq!(value("DCGM_FI_DEV_POWER_USAGE", "+Inf", false), (None, 1));
    }

    #[test]
    fn a_mig_ratio_may_exceed_one_and_others_may_not() {
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", "1.7", true), (Some(1.0), 1));
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", "1.7", false), (None, 1));
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL", "101", false), (None, 1));
    }

    #[test]
    fn a_power_supply_at_all_ones_is_no_reading_and_a_busy_node_is() {
        let mut row = RowAudit::new("f", 1);
        assert_eq!(node_power("PSU Power", Some("2555"), "watts", &mut row), None);
        assert_eq!(node_power("Sys Power", Some("2555"), "watts", &mut row), Some(2_555.0));
        assert_eq!(node_power("Chassis Power", Some("25550"), "watts", &mut row), None);
        assert_eq!(node_power("Chassis Power", Some("24000"), "watts", &mut row), Some(24_000.0));
        assert_eq!(node_power("Sys Power", Some("24000"), "watts", &mut row), None);
        assert_eq!(node_power("Sys Power", Some("-1"), "watts", &mut row), None);
        assert_eq!(node_power("Sys Power", Some("0"), "watts", &mut row), Some(0.0));
    }

    #[test]
    fn the_longest_name_in_a_file_name_wins() {
        let metric = Metric::within("dump_dcgm_fi_dev_power_usage_1.json").unwrap();
        assert_eq!(metric.name, "DCGM_FI_DEV_POWER_USAGE");
        assert!(Metric::within("power.json").is_none());
    }
}
