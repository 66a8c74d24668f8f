//! The meters of a GPU, and the distribution of each over all readings.
//!
//! A metric that the source never read is left out; a reading without it does not count towards it.
//!
//! Complexity: O(n log n) in readings, one metric in memory at a time.
//!
//! Worked number: readings of 0.9, 0.01, 0 and none have a mean of 0.91 / 3, two of three below 5 %, and a coverage of 75 %.

use schemars::JsonSchema;
use serde::Serialize;

use super::LOW;
use crate::describe::topic::share;
use crate::facts::samples::Readings;
use crate::schema::{GpuSampleTable, Numbers};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};

/// Quantity that a meter of a GPU measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of time in which some kernel was resident (`GPU_UTIL`).
    GpuUtil,
    /// Share of the SMs with a resident warp, mean over time (`SM_ACTIVE`).
    SmActive,
    /// Share of cycles in which the tensor pipes worked.
    TensorActive,
    /// Share of cycles in which memory moved data.
    DramActive,
    /// Share of time in which memory was read or written (`MEM_COPY_UTIL`).
    MemUtil,
    /// GPU memory in use over GPU memory there is.
    MemUsed,
}

impl Metric {
    pub(super) const ALL: [Self; 6] =
        [Self::GpuUtil, Self::SmActive, Self::TensorActive, Self::DramActive, Self::MemUtil, Self::MemUsed];

    /// Name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GpuUtil => "GPU utilisation",
            Self::SmActive => "SMs active",
            Self::TensorActive => "tensor pipes active",
            Self::DramActive => "DRAM active",
            Self::MemUtil => "memory utilisation",
            Self::MemUsed => "memory in use",
        }
    }

    /// Column of the metric; memory in use has two.
    fn column(self, samples: &GpuSampleTable) -> &Numbers<f64> {
        match self {
            Self::GpuUtil => &samples.util_ratio,
            Self::SmActive => &samples.sm_active_ratio,
            Self::TensorActive => &samples.tensor_active_ratio,
            Self::DramActive => &samples.dram_active_ratio,
            Self::MemUtil => &samples.mem_util_ratio,
            Self::MemUsed => &samples.mem_used_bytes,
        }
    }
}

/// One metric over all readings of GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricUse {
    /// The metric.
    pub metric: Metric,
    /// Readings with a value over all readings.
    pub coverage: f64,
    /// Distribution of the metric, 0 to 1, each reading of equal weight.
    pub ratio: stats::quantile::Summary,
    /// Share of the known readings below 5 %.
    pub low_share: f64,
    /// Share of the known readings of at most so much.
    pub curve: Vec<CurvePoint>,
}

impl MetricUse {
    pub(super) fn new(metric: Metric, samples: &GpuSampleTable, readings: &Readings<'_>, total: u64) -> Option<Self> {
        let column = metric.column(samples);
        if column.is_all_unknown() {
            return None;
        }
        let values: Vec<f64> = readings
            .all()
            .filter_map(|reading| {
                let value = reading.value(column)?;
                match metric {
                    Metric::MemUsed => {
                        reading.value(&samples.mem_total_bytes).filter(|all| *all > 0.0).map(|all| value / all)
                    }
                    _ => Some(value),
                }
            })
            .collect();
        let curve = Ecdf::new(&values)?.thin(100);
        let (known, low_share) = (values.len(), low_share(&values)?);
        let ratio = stats::quantile::Summary::of_vec(values)?;
        Some(Self { metric, coverage: known as f64 / total.max(1) as f64, ratio, low_share, curve })
    }
}

/// Share of `values` below [`LOW`]; `None` of no values.
pub(super) fn low_share(values: &[f64]) -> Option<f64> {
    share(values.iter().filter(|value| **value < LOW).count() as f64, values.len() as f64)
}
