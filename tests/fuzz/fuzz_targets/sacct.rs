//! Arbitrary bytes as a file of the `sacct` reader.
#![no_main]

tracecast_fuzz::target!("sacct");
