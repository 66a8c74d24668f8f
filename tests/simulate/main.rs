//! The replay engine against slow programs that are plainly right.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod accounts;
mod alike;
mod allocation;
mod capacity;
mod cases;
mod cells;
mod fragmentation;
mod helios;
mod hosts;
mod kai;
mod kueue;
mod limits;
mod mig;
mod naive;
mod power;
mod processors;
mod queues;
mod resim;
mod shares;
mod sharing;
mod switches;
mod topology;
mod volcano;
mod waits;
