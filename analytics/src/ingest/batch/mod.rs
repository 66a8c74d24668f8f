//! Accounting logs of batch systems beside Slurm: PBS and Torque.
//!
//! [`Pbs`] turns the records of a log into jobs with their runs; `job` turns those into jobs, attempts and placements, and
//! `line` reads the lines of a log.

mod job;
mod line;
mod pbs;

pub(super) use pbs::Pbs;
