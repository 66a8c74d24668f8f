//! Prediction of job durations: the rows to learn from, the models, their calibration and the
//! resulting distribution.

pub mod apply;
pub mod backtest;
pub mod calibrate;
mod choice;
pub mod distribution;
pub mod forecast;
pub mod moments;
mod online_model;
mod options;
pub mod order;
mod overrun;
pub mod predictor;
pub mod rows;
mod track;
