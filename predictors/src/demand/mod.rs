//! Demand for nodes or GPUs over time: what was asked, slot by slot, and what will be.
//!
//! [`gather`] takes it from a trace. [`series`] holds demand as slots of equal length; it is the border to whoever plans with it.

pub mod gather;
pub mod series;

pub use series::{Seen, Series, Slot, Unit};
