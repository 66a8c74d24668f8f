//! Arbitrary bytes as a file of the `rocm-smi` reader.
#![no_main]

tracecast_fuzz::target!("rocm-smi");
