//! Telemetry of GPUs and nodes: what DCGM, Prometheus, nvidia-smi, rocm-smi, amd-smi, IPMI and Redfish leave behind.
//!
//! Each format is one file. [`table`] says which metric means which column, in what unit, and which labels say what;
//! [`metric`] what values can be, [`gather`] brings single readings together into rows, [`label`] reads what labels and file
//! names say about node, GPU and job.

mod amd_smi;
mod dcgm;
mod gather;
mod ipmi;
mod label;
mod metric;
mod nvidia_smi;
mod nvidia_smi_q;
mod nvidia_smi_xml;
mod prometheus;
mod redfish;
mod rocm_smi;
mod role;
mod series;
mod snapshot;
mod sonar;
mod table;

pub(super) use amd_smi::AmdSmi;
pub(super) use dcgm::Dcgm;
pub(super) use ipmi::Ipmi;
pub(super) use label::moment_in_name;
pub(super) use nvidia_smi::NvidiaSmi;
pub(super) use nvidia_smi_q::NvidiaSmiQ;
pub(super) use nvidia_smi_xml::NvidiaSmiXml;
pub(super) use prometheus::Prometheus;
pub(super) use redfish::Redfish;
pub(super) use rocm_smi::RocmSmi;
pub(super) use sonar::Sonar;

/// Checks the table of metrics in a file.
///
/// # Errors
/// When it is wrong, or cannot be read.
pub(super) fn check_table(path: &std::path::Path) -> crate::error::Result<()> {
    table::MetricTable::check(path)
}
