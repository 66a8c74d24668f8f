//! The canonical tables: the one home of column names, types, units, job states and power sensors.
//!
//! A table is a struct of columns; a reader pushes rows, an analysis reads columns by index, [`crate::storage`] writes
//! them as Parquet. Every column may hold unknowns (`None`); a column nothing was ever pushed into takes no memory.
//!
//! Worked number: a million jobs with 12 known numeric columns and three label columns take about
//! 12 × 8 + 3 × 4 + 2 = 110 bytes a job, beside the text of the keys.

pub mod sensor;

mod column;
mod state;
mod table;

pub use column::{Label, Numbers, Text};
pub use state::JobState;
pub use table::{
    ActivityRow, ActivityTable, AttemptRow, AttemptTable, AvailabilityRow, AvailabilityTable, CapacityRow,
    CapacityTable, CarbonRow, CarbonTable, ColumnKind, ColumnMut, ColumnRef, ColumnSpec, GpuSampleRow, GpuSampleTable,
    JobRow, JobTable, NodeRow, NodeSampleRow, NodeSampleTable, NodeTable, PlacementRow, PlacementTable, PriceRow,
    PriceTable, Table, all_specs,
};

/// Version of the tables; a change that older readers cannot read raises it.
pub const VERSION: &str = "trace/1";
