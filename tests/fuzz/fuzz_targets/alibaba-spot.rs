//! Arbitrary bytes as a file of the `alibaba-spot` reader.
#![no_main]

tracecast_fuzz::target!("alibaba-spot");
