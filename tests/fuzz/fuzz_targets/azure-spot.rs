//! Arbitrary bytes as a file of the `azure-spot` reader.
#![no_main]

tracecast_fuzz::target!("azure-spot");
