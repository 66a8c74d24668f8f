//! Arbitrary bytes as a file of the `philly-nodes` reader.
#![no_main]

tracecast_fuzz::target!("philly-nodes");
