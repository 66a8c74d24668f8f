//! Planning for GPU clusters: what would happen to the jobs of a trace under another policy, size or price.
//!
//! The crate stands above [`tracecast_analytics`], whose [`Trace`](tracecast_analytics::Trace) it reads and writes. The simulator
//! takes predictions as a column, so it knows no model; [`downstream`] puts those of [`tracecast_predictors`] into it. Times are integer milliseconds since the Unix epoch, GPUs are
//! counted in `f64` in tables and in whole GPUs where they are placed, and the same input and seed give the same bytes
//! whatever the number of threads.
//!
//! [`synth`] makes complete traces from a small specification, calibrated to the totals that operators of GPU clusters
//! have published. Everything that needs a trace (examples, tests, scenarios) can start from one of these without
//! downloading anything.
//!
//! [`sim`] is the engine: it replays jobs under any order, scan, placement and preemption, on any cluster, and imports none of its users.
//! [`replay`] surrounds it: it reads jobs and clusters from a trace, and measures, compares and tells what the replays give.
//!
//! [`power`] plans which nodes can sleep, [`cloud`] whether a job with a deadline runs on spot or on-demand, [`instances`] which instances a job rents, [`fleet`] how much to reserve, [`burst`] who waits for nodes of one's own, [`defer`] which jobs wait for cleaner hours, [`serving`] how many replicas of an inference service, [`queues`] how VCs share the nodes, [`rounds`] who gets which GPU type, [`mig`] which GPUs are cut into slices, [`start`] says when a waiting job starts;
//! [`plan`] is what plans share, [`market`] what can be rented or bought at which price and what jobs need of it; no plan imports another. [`plan::emit`] writes what a plan advises, and puts it into files that a site has.
//!
//! [`advice`] gathers what is worth changing and makes the report around it.
//!
//! Nothing here prints, reads the environment or exits; that is the command line's part.

pub mod advice;
pub mod backtest;
pub mod burst;
pub mod capacity;
pub mod cloud;
pub mod defer;
pub mod downstream;
pub mod fleet;
pub mod instances;
pub mod market;
pub mod mig;
pub mod one_gpu;
pub mod power;
pub mod queues;
pub mod serving;
pub mod sharing;
pub mod start;
pub mod synth;

use tracecast_plan::yaml;
pub use tracecast_plan::{self as plan, Error, Result, error};
pub use tracecast_replay as replay;
pub use tracecast_rounds as rounds;
pub use tracecast_sim as sim;
