//! Arbitrary bytes as a file of the `cloud-gpus` reader.
#![no_main]

tracecast_fuzz::target!("cloud-gpus");
