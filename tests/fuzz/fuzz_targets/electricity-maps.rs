//! Arbitrary bytes as a file of the `electricity-maps` reader.
#![no_main]

tracecast_fuzz::target!("electricity-maps");
