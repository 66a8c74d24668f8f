//! Arbitrary bytes as a file of the `supercloud` reader.
#![no_main]

tracecast_fuzz::target!("supercloud");
