//! Arbitrary bytes as a file of the `swf` reader.
#![no_main]

tracecast_fuzz::target!("swf");
