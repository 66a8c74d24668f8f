//! Arbitrary bytes as a file of the `prometheus` reader.
#![no_main]

tracecast_fuzz::target!("prometheus");
