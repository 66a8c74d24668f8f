//! Arbitrary bytes as a file of the `aws-spot` reader.
#![no_main]

tracecast_fuzz::target!("aws-spot");
