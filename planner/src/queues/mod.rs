//! `plan queues`: how the VCs of a cluster should share its nodes, and in which order their jobs should be served.
//!
//! * [`share`]: what is a VC's own, and the ways to share: nodes of one's own, one pool in which every VC is served first up to its own share and
//!   borrows beyond it, one pool without shares.
//! * [`setup`]: what can be changed: how nodes are shared, the sizes of shares, the order, backfill, a queue of short jobs.
//! * [`measure`]: how long jobs wait in a replay, and whom it wrongs. [`objective`]: what that is worth.
//! * [`search`]: every way with three policies, and what a search finds from there, replayed on the earlier jobs, chosen under the **sharing incentive** (no VC waits longer than on
//!   nodes of its own), and held against the later jobs.
//! * [`journal`]: what a search has replayed, on disk, so that it goes on after an interruption.
//! * [`grown`]: whether it holds when demand grows.
//! * [`pooling`]: the VCs as they stand held against one pool of the same nodes.
//! * [`UnderKueue`]: what Kueue itself would make of it.
//! * [`choose_runs`]: which predictions it goes by, and what they are worth.
//! * [`plan()`]: what follows from the search.
//! * [`answer`]: the answer as data, and as a report. [`emit`]: the configuration as Slurm and Kueue read it.
//!
//! The steps are those of [every plan](crate::plan); see [`search`] for what is what, and for a worked number.

pub mod against;
pub mod answer;
pub mod emit;
pub mod grown;
pub mod journal;
pub mod measure;
pub mod objective;
mod plan;
pub mod pooling;
pub mod search;
pub mod setup;
pub mod share;
mod told;
mod trial;
mod under_kueue;
mod worth;

pub use answer::{QueuesAnswer, UnderKueue};
pub use journal::{Journal, SearchRun};
pub use objective::Objective;
pub use plan::plan;
pub use search::QueuesRequest;
pub use worth::choose_runs;
