//! What-if analyses: GPUs under a power cap, and GPUs handed back when a job leaves them idle.
//!
//! * [`cap`]: measured power and speed of trainings under power caps, in the form that Zeus (You et al., NSDI 2023) published, and what that
//!   means for the audited GPUs of the same type.
//! * [`reclaim`]: GPU hours and energy of stretches in which a GPU was held and idle.

pub mod cap;
pub mod reclaim;
