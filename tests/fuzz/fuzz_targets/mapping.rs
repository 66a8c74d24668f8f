//! Arbitrary bytes as a file of the `mapping` reader.
#![no_main]

tracecast_fuzz::target!("mapping");
