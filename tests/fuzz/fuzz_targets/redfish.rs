//! Arbitrary bytes as a file of the `redfish` reader.
#![no_main]

tracecast_fuzz::target!("redfish");
