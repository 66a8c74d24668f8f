//! Prediction of spot instances: how long they last, and the chance of at least k of them now and
//! for the next hours.
//!
//! ```text
//! SpotRecord ──track──▶ Standing at each tick ──process──▶ SpotProcess ──▶ Outlook (at, through) ──backtest──▶ scores beside persistence
//! ```
//!
//! * [`record`]: what was seen of a zone, and its spells; [`lifetime`]: how long they last; [`track`]: where a zone stands at each tick;
//! * `hazard`, [`factor`] and [`process`]: the model, fitted and asked; [`phases`]: the chain that `plan rent job` decides with;
//! * `baseline`: what it has to beat; [`score`] and [`backtest`]: whether it does;
//! * [`predictor`]: the model of several zones, and its file; [`answer`] and [`backtest_answer`]: what is printed.
//!
//! Worked number: of nine zones of V100 over 45 days, the chances have a Brier score of 0.141, and the shares of persistence one of 0.158.

pub mod answer;
pub mod backtest;
pub mod backtest_answer;
mod baseline;
pub mod factor;
mod hazard;
pub mod lifetime;
mod model;
pub mod phases;
pub mod predictor;
pub mod process;
pub mod record;
pub mod score;
pub mod track;
