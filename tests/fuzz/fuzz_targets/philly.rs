//! Arbitrary bytes as a file of the `philly` reader.
#![no_main]

tracecast_fuzz::target!("philly");
