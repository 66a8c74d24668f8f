//! The canonical tables: the one home of column names, types, units, job states and power sensors.
//!
//! A table is a struct of columns; a reader pushes rows, an analysis reads columns by index, [`crate::storage`] writes
//! them as Parquet. Every column may hold unknowns (`None`); a column nothing was ever pushed into takes no memory.
//!
//! Worked number: a million jobs with 12 known numeric columns and three label columns take about
//! 12 × 8 + 3 × 4 + 2 = 110 bytes a job, beside the text of the keys.

pub(crate) mod device;
pub mod sensor;

mod column;
mod resource;
mod state;
mod table;

pub use column::{Label, Numbers, Text};
pub use resource::Resource;
pub use state::JobState;
pub use table::{
    ActivityRow, ActivityTable, AttemptRow, AttemptTable, AvailabilityRow, AvailabilityTable, CapacityRow,
    CapacityTable, CarbonRow, CarbonTable, ColumnKind, ColumnMut, ColumnRef, ColumnSpec, GpuSampleRow, GpuSampleTable,
    JobRow, JobTable, NodeRow, NodeSampleRow, NodeSampleTable, NodeTable, PlacementRow, PlacementTable, PriceRow,
    PriceTable, Table, all_specs,
};

/// Version of the tables; a change that older readers cannot read raises it.
pub const VERSION: &str = "trace/1";

/// No number of a source is larger, whatever its unit: what is beyond is unknown, so that sums and products of the rest stay
/// finite. Above the largest 64-bit integer, as tools write "no value" as one near it, which is for the readers to tell.
pub const MOST_NUMBER: f64 = 1e20;
/// Bytes in a mebibyte, in which tools count memory.
pub const MIB: f64 = 1_048_576.0;

/// More GPUs than any job or node has: a count beyond is not one, and is unknown. It keeps sums of GPUs, counted in whole
/// millionths over time, exact.
pub const MOST_GPUS: f64 = 1e6;

/// A count of GPUs, `None` if negative, not a number or beyond [`MOST_GPUS`].
#[inline]
pub fn gpu_count(gpus: f64) -> Option<f64> {
    // False for NaN too.
    (0.0..=MOST_GPUS).contains(&gpus).then_some(gpus)
}
