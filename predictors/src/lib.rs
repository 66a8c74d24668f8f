//! Predictors for GPU clusters: point-in-time features, models of the run time of jobs with intervals that hold, their scoring, their files,
//! and what serves them to schedulers.
//!
//! ```text
//! Trace ──timeline──▶ moments in order ──feature::Store──▶ rows of features ──model──▶ quantiles ──duration──▶ Distribution (calibrated)
//!                                                                                   └ backtest ▶ scores beside the baselines
//! Distribution ──▶ Prediction ──▶ CSV · Parquet · Arrow IPC · JSON lines · Lua table · HTTP
//! ```
//!
//! Models take rows and slices: they know no source format (that is `tracecast-analytics`) and no simulator (that is `tracecast-planner`, which
//! takes predictions as a column). Nothing here prints, reads the environment or exits.

pub mod demand;
pub mod duration;
pub mod ensemble;
pub mod error;
pub mod feature;
pub mod holdout;
pub mod interference;
pub mod job;
pub mod matrix;
pub mod model;
pub mod model_file;
pub mod output;
mod recent;
pub mod score;
pub mod serve;
pub mod sheet;
pub mod slurm;
pub mod spot;
pub mod timeline;
pub mod utilisation;

pub use error::{Error, Result};
pub use model_file::read as read_model;
