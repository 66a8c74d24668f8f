//! Arbitrary bytes as a file of the `openb` reader.
#![no_main]

tracecast_fuzz::target!("openb");
