//! How long a job will run: the rows to learn from, the models, their calibration and the distribution that comes out.

pub mod apply;
mod brain;
pub mod calibrate;
pub mod forecast;
pub mod law;
mod overrun;
pub mod predictor;
pub mod rows;
