//! Golden tests: each reader on hand-written fixtures, every cell compared. The comment above a snapshot says which
//! trap of the format each row stands for.
#![allow(clippy::unwrap_used)]

mod any_bytes;
mod aws_spot;
mod dcgm;
mod electricity_maps;
mod ipmi;
mod nvidia_smi;
mod prometheus;
mod sky_availability;
mod sky_catalog;
