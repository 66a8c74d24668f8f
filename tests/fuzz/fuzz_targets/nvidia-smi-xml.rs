//! Arbitrary bytes as a file of the `nvidia-smi-xml` reader.
#![no_main]

tracecast_fuzz::target!("nvidia-smi-xml");
