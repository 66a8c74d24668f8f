//! Trace analytics for GPU clusters: canonical tables, readers for the formats clusters leave behind, data quality,
//! statistics and the report model.
//!
//! The flow is one way:
//!
//! ```text
//! source ──ingest──▶ Trace (typed tables, quality ledger) ──describe──▶ Description ──report──▶ text · JSON · HTML
//!                      │ storage: Parquet folder + manifest.json
//!                      └ rollup: streaming aggregates for traces larger than memory
//! ```
//!
//! Nothing here prints, reads the environment or exits; that is the command line's part. Times are integer
//! milliseconds since the Unix epoch in UTC, GPUs are `f64` (0.22 of a GPU is natural), and unknown is `None`, never 0.

pub mod audit;
pub mod bill;
pub mod describe;
pub mod energy;
pub mod error;
pub mod facts;
pub mod ingest;
pub mod quality;
pub mod report;
pub mod rollup;
pub mod schema;
pub mod state;
pub mod stats;
pub mod storage;
pub mod time;
pub mod trace;
pub mod watch;

pub use error::{Error, Kind, Result};
pub use trace::Trace;

/// Joules in a kilowatt-hour.
pub const KWH_J: f64 = 3_600_000.0;
