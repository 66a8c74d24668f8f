//! Arbitrary bytes as a file of the `sge` reader.
#![no_main]

tracecast_fuzz::target!("sge");
