//! Accounting logs of batch systems beside Slurm: PBS and Torque, IBM LSF, Grid Engine.
//!
//! [`Pbs`], [`Lsf`] and [`Sge`] turn the records of a log into jobs with their runs; `job` turns those into jobs, attempts
//! and placements, the same way for all three, and `line` reads the lines of all three.

mod job;
pub(super) mod line;
mod lsf;
mod pbs;
mod sge;

pub(super) use lsf::Lsf;
pub(super) use pbs::Pbs;
pub(super) use sge::Sge;
