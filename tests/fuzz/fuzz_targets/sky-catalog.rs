//! Arbitrary bytes as a file of the `sky-catalog` reader.
#![no_main]

tracecast_fuzz::target!("sky-catalog");
