//! Arbitrary bytes as a file of the `htcondor` reader.
#![no_main]

tracecast_fuzz::target!("htcondor");
