//! Arbitrary bytes as a file of the `helios` reader.
#![no_main]

tracecast_fuzz::target!("helios");
