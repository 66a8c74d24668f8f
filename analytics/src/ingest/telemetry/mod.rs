//! Telemetry of GPUs and nodes: what DCGM, Prometheus, nvidia-smi and IPMI leave behind.
//!
//! Each format is one file. [`metric`] says which metric means which column and in what unit, [`gather`] brings single
//! readings together into rows, [`label`] reads what labels and file names say about node, GPU and job.

mod dcgm;
mod gather;
mod ipmi;
mod label;
mod metric;
mod nvidia_smi;
mod prometheus;
mod sonar;

pub(super) use dcgm::Dcgm;
pub(super) use ipmi::Ipmi;
pub(super) use label::moment_in_name;
pub(super) use nvidia_smi::NvidiaSmi;
pub(super) use prometheus::Prometheus;
pub(super) use sonar::Sonar;
