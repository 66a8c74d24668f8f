//! Arbitrary bytes as a file of the `nvidia-smi-q` reader.
#![no_main]

tracecast_fuzz::target!("nvidia-smi-q");
