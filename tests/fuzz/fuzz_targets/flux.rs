//! Arbitrary bytes as a file of the `flux` reader.
#![no_main]

tracecast_fuzz::target!("flux");
