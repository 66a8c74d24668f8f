//! Arbitrary bytes as a file of the `sge-json` reader.
#![no_main]

tracecast_fuzz::target!("sge-json");
