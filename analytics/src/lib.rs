//! Trace analytics on GPU clusters.

pub mod stats;
