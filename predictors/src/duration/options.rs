//! Options of a back-test of durations: its models, its parts and the times of its fits.
//!
//! Worked example: of 1,000 jobs, by default models predict from the 501st, are chosen from the 601st and reported from the 801st.

use super::calibrate::RATE;
use super::forecast::{Model, Settings};

/// Models and parts of a back-test.
#[derive(Debug, Clone, PartialEq)]
pub struct BacktestOptions {
    /// Share of jobs after which models predict: those up to `choose_from` only teach the calibration.
    pub predict_from: f64,
    /// Share of jobs after which models are chosen.
    pub choose_from: f64,
    /// Share of jobs after which results are reported.
    pub report_from: f64,
    /// Days between fits.
    pub refit_days: i64,
    /// Models, each once; those that need time limits are left out where no job has one.
    pub models: Vec<Model>,
    /// Settings the models are fitted with.
    pub settings: Settings,
    /// Share of the scores' scale by which one job moves a calibrated level (see [`Calibrator::new`](super::calibrate::Calibrator::new)).
    pub adapt: f64,
}

impl Default for BacktestOptions {
    fn default() -> Self {
        use Model::{Boosted, Limit, LimitShare, Qssf, RecentMedian, RunningMean, ShrunkMean, Survival, WeightedMean};
        Self {
            predict_from: 0.5,
            choose_from: 0.6,
            report_from: 0.8,
            refit_days: 7,
            models: vec![
                RunningMean,
                WeightedMean,
                ShrunkMean,
                RecentMedian,
                Limit,
                LimitShare,
                Qssf,
                Survival,
                Boosted,
            ],
            settings: Settings::default(),
            adapt: RATE,
        }
    }
}
