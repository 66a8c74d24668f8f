//! Demand for nodes or GPUs over time: what was asked, slot by slot, and what will be.
//!
//! ```text
//! Trace ──gather──▶ Series ──forecast──▶ Fan ──calibrate──▶ quantiles that hold ──▶ backtest · predictor (file) · who plans with it
//! ```
//!
//! [`gather`] takes it from a trace, and [`bound`] keeps what the rows are worth. A [`Series`]
//! holds demand as slots of equal length; it is the border to whoever plans with it. [`model
//! predict demand`]
//! has the forecasters, [`calibrate`] makes their quantiles hold, [`backtest`] tells how good they are, and [`predictor`] keeps one in a file.
//!
//! What nodes are powered for is the most of the next slots: [`reach`] learns the chance that a
//! [`level`] is reached within some, and [`peaks`] tests it beside the forecasts by slot.

pub mod answer;
pub mod backtest;
pub mod bound;
pub mod calibrate;
pub mod fan;
pub mod forecast;
pub mod gather;
pub mod level;
pub mod peaks;
pub mod predictor;
pub mod reach;
pub mod score;

pub use tracecast_analytics::facts::demand::{Seen, Series, Slot, Unit};
