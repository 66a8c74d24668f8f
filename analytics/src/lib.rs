//! Trace analytics for GPU clusters: see [`report`] for the presentation model.

pub mod report;
