//! Predictors for GPU clusters: point-in-time features, models of duration, demand, interference and spot availability,
//! their scoring and their files.
//!
//! This crate holds no model yet. It marks the border that the first one will respect: features and models take frames
//! and slices, know no source format (that is `tracecast-analytics`) and no simulator (that is `tracecast-planner`,
//! which takes predictions as a column), and nothing in it prints, reads the environment or exits.
