//! Weights of Slurm's multifactor order; what they weigh stands in [`super::order`].
//!
//! Worked number: with an age of 1,000 and a maximal age of 7 days a job that has waited for 84 h gains 500.

use tracecast_analytics::time::WEEK_MS;

/// Weights of the multifactor order, as Slurm's plugin names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Weight of the age, which counts fully after `max_age_ms`.
    pub age: f64,
    /// When the age counts fully, milliseconds (Slurm's default is 7 days).
    pub max_age_ms: i64,
    /// Weight of the fair share.
    pub fair_share: f64,
    /// Weight of the size, as a share of the pool's GPUs.
    pub size: f64,
    /// Weight of the priority of the job's QOS, where there are limits.
    pub qos: f64,
    /// Whether small jobs gain by the size weight.
    pub favor_small: bool,
    /// Half-life of usage, milliseconds (Slurm's default is 7 days).
    pub half_life_ms: i64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            age: 0.0,
            max_age_ms: WEEK_MS,
            fair_share: 0.0,
            size: 0.0,
            qos: 0.0,
            favor_small: false,
            half_life_ms: WEEK_MS,
        }
    }
}
