//! Arbitrary bytes as a file of the `sky-availability` reader.
#![no_main]

tracecast_fuzz::target!("sky-availability");
