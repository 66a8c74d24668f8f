//! Arbitrary bytes as a file of the `sonar` reader.
#![no_main]

tracecast_fuzz::target!("sonar");
