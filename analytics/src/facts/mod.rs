//! Facts of a trace, derived once: descriptions, audits, predictors and planners start from these
//! and draw their own conclusions.
//!
//! | module | holds |
//! |---|---|
//! | [`job`] | GPUs, run, wait, GPU time, state and stretches of each job |
//! | [`size`] | classes of job sizes |
//! | [`columns`] | `job_facts`: what is known and derived of each job, as columns |
//! | [`occupancy`] | how much of something is in use at each moment, and sums over time |
//! | [`activity`] | what a source itself counted over time, of its cluster and its VCs |
//! | [`slot`] | counts within slots of equal length: largest, last, mean |
//! | [`outage`] | times at which a whole cluster was not counted |
//! | `observed` | the time that a figure rests on: a span less the outages in it |
//! | [`capacity`] | how many GPUs there were, when, and in which VC |
//! | [`sizes`] | when a recorded size holds |
//! | [`load`] | what each VC had, used and waited for over time |
//! | `placed` | which node held how many GPUs of which job when |
//! | [`demand`] | demand for nodes or GPUs as slots of equal length, and what of it is known before a moment |
//! | [`samples`] | GPU samples as readings, each with the job that held the GPU |
//! | [`telemetry`] | readings of GPUs that one job held alone |
//! | [`work`] | jobs of one user and one name, as tries at the same work |
//!
//! Worked number: a job of 8 GPUs from 0 s to 1,800 s in a VC of 16 is 14,400 GPU-seconds ([`job`]), half of the VC's
//! capacity while it runs ([`load`]), and one of the class of 5 to 8 GPUs ([`size`]).

pub mod activity;
pub mod capacity;
pub mod columns;
pub mod demand;
pub mod job;
pub mod load;
pub(crate) mod observed;
pub mod occupancy;
pub mod outage;
pub(crate) mod placed;
#[cfg(test)]
pub(crate) mod rows;
pub mod samples;
pub mod size;
pub mod sizes;
pub mod slot;
pub mod telemetry;
pub mod work;

pub use capacity::{Capacity, MOST_LEFT_OUT};
pub use job::{JobFacts, Stretch};
pub use load::{LoadSource, Spread};
pub use occupancy::Steps;
pub use outage::Outages;
pub use samples::HolderSource;
pub use size::SizeClass;
