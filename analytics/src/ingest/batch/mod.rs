//! Accounting logs of batch systems beside Slurm: PBS and Torque, IBM LSF.
//!
//! [`Pbs`] and [`Lsf`] turn the records of a log into jobs with their runs; `job` turns those into jobs, attempts
//! and placements, the same way for both, and `line` reads the lines of both.

mod job;
mod line;
mod lsf;
mod pbs;

pub(super) use lsf::Lsf;
pub(super) use pbs::Pbs;
