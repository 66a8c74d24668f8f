//! Golden tests: each reader on hand-written fixtures, every cell compared. The comment above a snapshot says which
//! trap of the format each row stands for.
#![allow(clippy::unwrap_used)]

mod acme;
mod alibaba_spot;
mod helios;
mod mapping;
mod openb;
mod pai;
mod philly;
mod supercloud;
mod any_bytes;
mod aws_spot;
mod dcgm;
mod electricity_maps;
mod ipmi;
mod nvidia_smi;
mod prometheus;
mod sky_availability;
mod sky_catalog;
