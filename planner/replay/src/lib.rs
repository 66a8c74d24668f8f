//! The parts around the engine: from a trace and a scenario to a schedule that is measured,
//! compared and reported.
//!
//! ```text
//! trace, site file ──input──▶ workload, cluster ─┐
//! names, file ──────scenario──▶ policies ────────┴─study (shard)──▶ schedules ──metric, fidelity, compare──▶ answer · output
//! ```
//!
//! [`input`] turns a trace and the user's files into what [`sim`](tracecast_sim) replays; [`scenario`] turns names into policies; [`study`] replays
//! each of them, over [`shard`]s where a trace is too long for one piece. [`metric`] says what became of the jobs, [`fidelity`] how close the replay of
//! the recorded policy comes to what was recorded, [`compare`] by how much two policies differ, and [`growth`] what more work would do. [`answer`]
//! tells it, and [`output`] writes the schedule job by job.
//!
//! The engine imports nothing from here. Worked number: of Philly's 111,549 jobs, [`input`] takes the 68,503 of October and November 2017 (UTC) whose
//! VC's size is known.

pub mod answer;
pub mod compare;
pub mod error;
pub mod fidelity;
pub mod growth;
pub mod input;
pub mod metric;
pub mod nearest;
pub mod output;
pub mod scenario;
pub mod shard;
pub mod study;
pub mod yaml;

pub use error::{Error, Result};
pub use scenario::Scenario;
