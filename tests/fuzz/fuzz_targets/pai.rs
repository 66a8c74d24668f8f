//! Arbitrary bytes as a file of the `pai` reader.
#![no_main]

tracecast_fuzz::target!("pai");
