//! Which jobs should wait for cleaner (or cheaper) hours, and what that saves.
//!
//! Capacity is elastic here: a job's GPUs are there when it starts, so jobs do not wait for each other, and each is decided on its own, and exactly. What a job emits is its energy times the intensity of the
//! hours that it runs in:
//!
//! ```text
//! energy   = GPUs × kW a GPU × (run + what resuming costs)
//! carbon   = Σ over hours: intensity of the hour × energy in the hour
//! wait     = end − submission − run, at most a bound
//! ```
//!
//! An hourly [series] of intensities (or prices) is forecast from [its past](forecast); a [policy] says how a job is decided, the [engine] decides it, and a [choice](choose) says which class of jobs waits how long at
//! most. What is chosen on earlier weeks is [told on later ones](heldout) beside starting at once, the published rules, and bounds that know the future. With prices, what [clumped starts cost](cost) is
//! weighed as well. The [answer] advises to wait only if the later weeks speak for it, and [says](emit) in which hours to start what.
//!
//! Worked example: a job of 1 GPU at 0.5 kW comes at 0:30 and runs an hour. Hours emit 400, 400, 100 g/kWh. At once it emits 200 g. From 2:00 on, after a wait of 1 h 30 min, it emits 50 g.

pub mod answer;
pub mod choose;
pub mod cost;
pub mod emit;
pub mod engine;
pub mod forecast;
pub mod heldout;
pub mod job;
pub mod policy;
pub mod power;
pub mod rule;
pub mod series;
