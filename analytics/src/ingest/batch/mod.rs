//! Accounting logs of batch systems beside Slurm: PBS and Torque, IBM LSF, Grid Engine, Flux, HTCondor.
//!
//! Each reader turns the records of a log into jobs with their runs; `job` turns those into jobs, attempts and placements,
//! the same way for all, and `line` reads the lines of those that have lines.

mod flux;
mod htcondor;
mod job;
pub(super) mod line;
mod lsf;
mod pbs;
mod sge;
mod sge_json;

pub(super) use flux::Flux;
pub(super) use htcondor::HtCondor;
pub(super) use job::{Assembly, Gpus, Job, NamedNode, Run};
pub(super) use lsf::Lsf;
pub(super) use pbs::Pbs;
pub(super) use sge::Sge;
pub(super) use sge_json::SgeJson;
