//! Arbitrary bytes as a file of the `kubernetes` reader.
#![no_main]

tracecast_fuzz::target!("kubernetes");
