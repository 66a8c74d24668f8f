//! Interference: how fast each of two jobs runs that share a GPU, as quantiles, and whether both fit.
//!
//! ```text
//! pairs, profiles ──read──▶ SharingTable ──alone──▶ traits, loads ──effects──▶ posterior ──committee──▶ PairForecast
//!                                        └────────memory──▶ P(does not fit)         └ backtest ▶ scores beside the baselines
//!                                                                 committee ──predictor──▶ one file ──share──▶ answers, candidates in order
//! step times on MIG slices ──slice──▶ speed on each slice
//! ```
//!
//! A **normalised speed** is the speed beside another job over the speed alone: 1 is no slowdown, 0.5 is half as fast. [`table`] holds what was measured,
//! [`read`], [`gavel`] and [`lucid`] fill it, [`effects`] is the model, [`committee`] chooses its priors and makes its intervals hold, `memory` says what does not
//! fit, [`backtest`] tests all of it on families and GPU types that were left out. [`predictor`] is the model in one file, [`share`] what it answers. [`mod@slice`] is about MIG, [`rates`] about gangs alone.
//!
//! Worked number: alone a job makes 4.8 steps a second, beside another 2.4: its normalised speed is 0.5.

pub mod alone;
pub mod answer;
pub mod backtest;
mod baseline;
mod cholesky;
pub mod committee;
pub mod effects;
pub mod gavel;
pub mod groups;
mod load;
pub mod lucid;
mod memory;
pub mod predictor;
pub mod rates;
pub mod read;
pub mod score;
pub mod share;
pub mod slice;
pub mod table;
