//! Arbitrary bytes as a file of the `lsf` reader.
#![no_main]

tracecast_fuzz::target!("lsf");
