//! Golden tests: each reader on hand-written fixtures, every cell compared. The comment above a snapshot says which
//! trap of the format each row stands for.
#![allow(clippy::unwrap_used)]

mod acme;
mod alibaba_spot;
mod amd_smi;
mod any_bytes;
mod aws_spot;
mod azure_spot;
mod cloud_gpus;
mod clustercockpit;
mod dcgm;
mod electricity_maps;
mod flux;
mod helios;
mod htcondor;
mod ipmi;
mod ipmi_power;
mod kubernetes;
mod lsf;
mod mapping;
mod metrics;
mod nvidia_smi;
mod nvidia_smi_q;
mod nvidia_smi_xml;
mod openb;
mod pai;
mod pbs;
mod philly;
mod plain_text;
mod prometheus;
mod redfish;
mod rocm_smi;
mod sacct;
mod sacct_json;
mod sacct_sites;
mod sge;
mod sge_json;
mod sky_availability;
mod sky_catalog;
mod sonar;
mod sources;
mod spot_log;
mod supercloud;
mod swf;
