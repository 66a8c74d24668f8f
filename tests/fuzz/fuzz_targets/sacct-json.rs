//! Arbitrary bytes as a file of the `sacct-json` reader.
#![no_main]

tracecast_fuzz::target!("sacct-json");
