//! Arbitrary bytes as a file of the `acme` reader.
#![no_main]

tracecast_fuzz::target!("acme");
