//! Arbitrary bytes as a file of the `philly-joined` reader.
#![no_main]

tracecast_fuzz::target!("philly-joined");
