//! Arbitrary bytes as a file of the `ipmi` reader.
#![no_main]

tracecast_fuzz::target!("ipmi");
