//! Limits that jobs on one GPU break, and the jobs that break each.
//!
//! Whether all fit, and what progress they make, is of all of them together; how slow one of them is, is of that one. O(jobs). Worked example: speeds of 0.95 and 0.50 at the 0.05 quantile are slowdowns of 1.05 and 2: under an SLO of 1.5
//! the second job alone breaks it.

use serde::Serialize;
use tracecast_analytics::report::format;

use super::super::committee::SLOWEST;
use super::super::predictor::Basis;
use super::{Refused, SharingLimits};

/// Limit that is not kept.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BrokenLimit {
    /// Which.
    pub limit: Refused,
    /// Job types that break it; empty where it is of all of them together.
    pub jobs: Vec<String>,
    /// Forecast: the slowdown as a factor, the chance not to fit, or the progress; null where
    /// nothing bounds it, or too little is known to forecast it.
    pub forecast: Option<f64>,
    /// Limit that was asked for.
    pub bound: f64,
}

/// Slowdown, as a factor, of a job that exceeds this speed with some chance; `None` where the speed
/// is the slowest that is forecast.
pub(super) fn bound(low: f64) -> Option<f64> {
    (low > SLOWEST).then(|| 1.0 / low)
}

impl BrokenLimit {
    /// All that some jobs break, by the progress and the chance not to fit that are forecast of
    /// them together, and by the speed that each exceeds; the worst limit first. A forecast that
    /// rests on nothing does not count.
    pub(super) fn all(
        limits: &SharingLimits,
        basis: Basis,
        (progress, out_of_memory): (f64, f64),
        lows: &[(&str, f64)],
    ) -> Vec<Self> {
        let told = |forecast: f64| (basis != Basis::Nothing).then_some(forecast);
        let together = |limit: Refused, forecast: f64, bound: f64| Self {
            limit,
            jobs: Vec::new(),
            forecast: told(forecast),
            bound,
        };
        let mut result = Vec::new();
        if out_of_memory > limits.most_out_of_memory {
            result.push(together(Refused::OutOfMemory, out_of_memory, limits.most_out_of_memory));
        }
        for (job, low) in lows {
            let forecast = bound(*low);
            let one = Self { limit: Refused::Slowdown, jobs: vec![(*job).to_owned()], forecast, bound: limits.slo };
            // A job beside its like is told once.
            if forecast.is_none_or(|slowdown| slowdown > limits.slo) && !result.contains(&one) {
                result.push(one);
            }
        }
        if progress <= limits.least_progress {
            result.push(together(Refused::Progress, progress, limits.least_progress));
        }
        result
    }

    /// Broken limit in words.
    fn in_words(&self) -> String {
        let number = |value: f64| format::float(value, 2);
        let bound = number(self.bound);
        match self.limit {
            Refused::OutOfMemory => {
                let forecast = self.forecast.map_or_else(|| "not known".to_owned(), format::percent);
                format!("may not fit together: {forecast} (limit {})", format::percent(self.bound))
            }
            Refused::Slowdown => {
                let forecast = self.forecast.map_or_else(|| "no bound is known".to_owned(), number);
                format!("{} may be slower than {bound} times: {forecast}", self.jobs.join(", "))
            }
            Refused::Progress => {
                let forecast = self.forecast.map_or_else(|| "not known".to_owned(), number);
                format!("make no more progress than {bound}: {forecast}")
            }
        }
    }
}

/// Limits that are broken in words, or `yes` where none is.
pub fn in_words(broken: &[BrokenLimit]) -> String {
    if broken.is_empty() {
        return "yes".to_owned();
    }
    broken.iter().map(BrokenLimit::in_words).collect::<Vec<String>>().join("; ")
}
