//! Slurm's accounting, as `sacct` exports it.
//!
//! [`SacctText`] and [`SacctJson`] turn an export into records; `assembly` turns records into jobs, attempts and
//! placements, the same way for both. The modules [`duration`], [`hostlist`], [`job_id`], [`mem`] and [`tres`] read
//! Slurm's own notations and are used by whatever speaks to Slurm.

mod allocation;
mod assembly;
mod columns;
pub mod duration;
pub mod hostlist;
pub mod job_id;
mod jobstats;
pub mod mem;
mod record;
mod sacct_json;
mod sacct_text;
mod submit_line;
pub mod tres;

pub(super) use record::Records;
pub use sacct_json::SacctJson;
pub use sacct_text::SacctText;
