//! Arbitrary bytes as a file of the `clustercockpit` reader.
#![no_main]

tracecast_fuzz::target!("clustercockpit");
