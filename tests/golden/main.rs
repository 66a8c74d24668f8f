//! Golden tests: each reader on hand-written fixtures, every cell compared. The comment above a snapshot says which
//! trap of the format each row stands for.
#![allow(clippy::unwrap_used)]

mod acme;
mod alibaba_spot;
mod any_bytes;
mod aws_spot;
mod azure_spot;
mod cloud_gpus;
mod dcgm;
mod electricity_maps;
mod helios;
mod ipmi;
mod ipmi_power;
mod kubernetes;
mod lsf;
mod mapping;
mod nvidia_smi;
mod openb;
mod pai;
mod pbs;
mod philly;
mod plain_text;
mod prometheus;
mod sacct;
mod sacct_json;
mod sacct_sites;
mod sge;
mod sky_availability;
mod sky_catalog;
mod sources;
mod spot_log;
mod supercloud;
mod swf;
