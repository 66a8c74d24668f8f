//! Arbitrary bytes as a file of the `pbs` reader.
#![no_main]

tracecast_fuzz::target!("pbs");
