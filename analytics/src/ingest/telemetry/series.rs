//! A series of a metric: which column of which device its values go to.

use super::gather::{Device, Gather, Put, Way, When};
use super::label::Labels;
use super::metric::{BLANK, NodeField, Quantity, gpu_in_range, node_power};
use super::role::Role;
use super::table::{Metric, MetricTable};
use crate::error::{Error, Result};
use crate::ingest::field;
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::device::is_instance;

/// A series that does not say what was measured.
pub(super) const NO_NAME: Reason = Reason {
    id: "no_metric_name",
    what: "the series has no name, as the result of an expression such as `sum by (…)` has none",
    remedy: "say what it is with --metric NAME, or name the file after the metric",
};

/// Makes it an error if no series of `file` has a name and nothing else was read.
///
/// # Errors
/// Where that is so.
pub(super) fn check_named(file: &SourceFile, ledger: &Ledger) -> Result<()> {
    if ledger.kept + ledger.repaired > 0 || ledger.count(NO_NAME.id) == 0 {
        return Ok(());
    }
    Err(Error::format(
        file.name(),
        format!("{} values: {}", ledger.count(NO_NAME.id), NO_NAME.what),
        "say what they are with --metric NAME (--metric FILE=NAME for one of several files), or name the file after the metric",
    ))
}

impl Metric {
    /// Returns the number in `text` in the unit of the quantity's column, `None` if it is none or no reading. `mig` says
    /// that it is of an instance of a GPU.
    pub(super) fn value(&self, text: &str, mig: bool, row: &mut RowAudit<'_>) -> Option<f64> {
        let (number, factor) = self.number_and_factor(text);
        let raw = field::number(Some(number), &self.name, row)?;
        if raw >= self.no_reading_from {
            row.repair(BLANK, &self.name, text);
            return None;
        }
        // 87 / 100 is the number nearest to 0.87, and 87 × 0.01 is not: factors below one are one by a whole number.
        let value = if factor < 1.0 { raw / factor.recip().round() } else { raw * factor };
        match self.quantity {
            Quantity::Gpu(field) => gpu_in_range(field, value, &self.name, text, mig, row),
            // The power of a node has `node_power`, as what is no reading of it depends on the meter.
            _ if value < 0.0 => {
                row.repair(reason::NEGATIVE, &self.name, text);
                None
            }
            _ => Some(value),
        }
    }
}

/// Rank of a metric among those of its quantity, and whether they are added.
fn way(metric: &Metric) -> Way {
    Way { rank: metric.rank, part: metric.part }
}

/// A series that has a column.
#[derive(Debug)]
pub(super) struct Series<'m> {
    metric: &'m Metric,
    device: u32,
    name: String,
    job: Option<u32>,
}

/// Result of looking up a series.
#[derive(Debug)]
pub(super) enum Found<'m> {
    Series(Series<'m>),
    /// A series whose labels name no GPU.
    NoDevice,
    /// A metric that the table does not have.
    Unknown,
}

impl<'m> Series<'m> {
    /// The series of the metric `name` with `labels`.
    pub(super) fn find(table: &'m MetricTable, gather: &mut Gather, name: &str, labels: &Labels) -> Found<'m> {
        let Some(metric) = table.find(name, labels) else { return Found::Unknown };
        let roles = &metric.roles;
        let of_gpu = matches!(metric.quantity, Quantity::Gpu(_) | Quantity::GpuJob | Quantity::GpuInfo);
        let device = match metric.quantity {
            Quantity::Node(_) => Some(labels.meter(roles, metric.meter.as_deref(), &metric.name)),
            Quantity::Queue(_) => Some(labels.queue(roles)),
            _ => labels.gpu(roles),
        };
        let Some(device) = device else { return Found::NoDevice };
        let job = labels.job(roles).filter(|_| of_gpu).map(|job| gather.job_id(&job));
        let name = device.name.clone();
        let device = gather.device(device);
        if let Some(model) = labels.role(roles, Role::GpuModel).filter(|_| of_gpu) {
            gather.set_model(device, model);
        }
        Found::Series(Self { metric, device, name, job })
    }

    /// Adds a value of the series.
    pub(super) fn put(&self, gather: &mut Gather, when: When, text: &str, row: &mut RowAudit<'_>) -> Put {
        let (at, way) = ((when, self.device), way(self.metric));
        match self.metric.quantity {
            Quantity::GpuInfo => Put::New,
            Quantity::GpuJob => {
                let number = self.metric.value(text, false, row).filter(|job| *job >= 1.0);
                let job = self.job.or_else(|| Some(gather.job_id(&format!("{:.0}", number?))));
                // A job that is labelled runs there while the value is not 0.
                job.filter(|_| number.is_some()).map_or(Put::New, |job| gather.gpu_job(at, job))
            }
            Quantity::Gpu(field) => {
                let value = self.metric.value(text, is_instance(&self.name), row);
                gather.gpu(at, field, way, value, self.job)
            }
            Quantity::Node(field) => {
                let value = self.metric.value(text, false, row);
                let value = match field {
                    NodeField::Power => {
                        value.and_then(|watts| node_power(&self.name, watts, &self.metric.name, text, row))
                    }
                    NodeField::Energy => value,
                };
                gather.node(at, field, way, value)
            }
            Quantity::Queue(field) => {
                let value = self.metric.value(text, false, row);
                gather.queue(at, field, way, value)
            }
        }
    }
}

/// Adds a row of a GPU: names of metrics and values as they stand. Names that the table lacks are passed over; `None`
/// if it knows none of them.
pub(super) fn put_gpu<'v>(
    table: &MetricTable,
    gather: &mut Gather,
    at: (When, &Device),
    values: impl Iterator<Item = (&'v str, Option<&'v str>)>,
    row: &mut RowAudit<'_>,
) -> Option<Put> {
    let none = Labels::default();
    let known = values.filter_map(|(name, text)| {
        let metric = table.find(name, &none)?;
        let Quantity::Gpu(field) = metric.quantity else { return None };
        Some((metric, field, text))
    });
    let mut all: Option<Put> = None;
    for (metric, field, text) in known {
        let device = gather.device(at.1.clone());
        let value = text.and_then(|text| metric.value(text, false, row));
        let put = gather.gpu((at.0, device), field, way(metric), value, None);
        all = Some(all.map_or(put, |all| all.and(put)));
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(name: &str, text: &str, mig: bool) -> (Option<f64>, usize) {
        let table = MetricTable::bundled();
        let mut ledger = crate::quality::Ledger::default();
        let mut row = RowAudit::new("f", 1);
        let value = table.find(name, &Labels::default()).unwrap().value(text, mig, &mut row);
        ledger.keep(row);
        (value, ledger.entries.len())
    }

    #[test]
    fn units_become_the_columns_units() {
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL", "87", false), (Some(0.87), 0));
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", "0.5", false), (Some(0.5), 0));
        assert_eq!(value("DCGM_FI_DEV_FB_USED", "2", false), (Some(2_097_152.0), 0));
        assert_eq!(value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2500000", false), (Some(2_500.0), 0));
        assert_eq!(value("DCGM_FI_DEV_GPU_TEMP", "-3", false), (Some(-3.0), 0));
        assert_eq!(value("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "1500", false), (Some(1_500_000.0), 0));
        assert_eq!(value("nvidia_gpu_power_usage_milliwatts", "200000", false), (Some(200.0), 0));
        assert_eq!(value("nvidia_gpu_memory_used_bytes", "17040539648", false), (Some(17_040_539_648.0), 0));
        assert_eq!(value("gpu_energy_consumed", "962825096297442.9", false), (Some(962_825_096.297_442_9), 0));
        assert_eq!(value("gpu_package_power", "65535", false), (None, 1));
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
}
