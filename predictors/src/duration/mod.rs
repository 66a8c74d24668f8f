//! How long a job will run: the rows to learn from, the models, their calibration and the distribution that comes out.

pub mod apply;
pub mod backtest;
mod brain;
pub mod calibrate;
pub mod forecast;
pub mod law;
pub mod order;
mod overrun;
pub mod predictor;
pub mod rows;
