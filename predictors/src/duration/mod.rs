//! How long a job will run: the rows to learn from, the models, their calibration and the distribution that comes out.

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
