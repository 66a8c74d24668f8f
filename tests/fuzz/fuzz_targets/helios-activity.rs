//! Arbitrary bytes as a file of the `helios-activity` reader.
#![no_main]

tracecast_fuzz::target!("helios-activity");
