//! Arbitrary bytes as a file of the `amd-smi` reader.
#![no_main]

tracecast_fuzz::target!("amd-smi");
