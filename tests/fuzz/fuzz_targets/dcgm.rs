//! Arbitrary bytes as a file of the `dcgm` reader.
#![no_main]

tracecast_fuzz::target!("dcgm");
