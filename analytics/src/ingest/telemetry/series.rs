//! A series of a metric: which column of which device its values go to.

use super::gather::{Device, Gather, Put, Way, When};
use super::label::Labels;
use super::metric::{Quantity, node_power};
use super::table::{Metric, MetricTable, Role};
use crate::error::{Error, Result};
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit};
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

/// A series that has a column.
#[derive(Debug)]
pub(super) struct Series<'m> {
    metric: &'m Metric,
    device: u32,
    name: String,
    job: Option<u32>,
}

/// What is known of a series.
#[derive(Debug)]
pub(super) enum Found<'m> {
    Series(Series<'m>),
    /// Its labels name no GPU.
    NoDevice,
    /// The table has no such metric.
    Unknown,
}

impl<'m> Series<'m> {
    /// The series of the metric `name` with `labels`.
    pub(super) fn find(table: &'m MetricTable, gather: &mut Gather, name: &str, labels: &Labels) -> Found<'m> {
        let Some(metric) = table.find(name, labels) else { return Found::Unknown };
        let roles = &metric.roles;
        let of_gpu = matches!(metric.quantity, Quantity::Gpu(_) | Quantity::GpuJob | Quantity::GpuInfo);
        let device = match metric.quantity {
            Quantity::Node(_) => Some(labels.meter(metric)),
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
        let (at, way) = ((when, self.device), Way::of(self.metric));
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
                    super::metric::NodeField::Power => {
                        value.and_then(|watts| node_power(&self.name, watts, &self.metric.name, text, row))
                    }
                    super::metric::NodeField::Energy => value,
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
        let put = gather.gpu((at.0, device), field, Way::of(metric), value, None);
        all = Some(all.map_or(put, |all| all.and(put)));
    }
    all
}
