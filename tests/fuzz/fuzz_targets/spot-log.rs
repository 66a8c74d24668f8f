//! Arbitrary bytes as a file of the `spot-log` reader.
#![no_main]

tracecast_fuzz::target!("spot-log");
