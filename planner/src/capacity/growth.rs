//! How much more work today's nodes bear, and when there will be so much.
//!
//! The factor at which a part breaks its target is found by bisection over draws of its own jobs (whole weeks of a user), with the same chances at every
//! factor, so that more work is the same work and some more. Waits need not grow with every job, so it is a factor at which the target breaks, not the only one.
//! Demand's own growth is the slope of the logarithm of the GPU-hours submitted in each whole week, with Student's t interval. A week of which a job still runs
//! at the end of the record is left out: its GPU-hours are not all known, and to count those that are would tell a fall where there is none.
//!
//! ```text
//! weeks until the target breaks   ln(factor) / slope,  told only where the interval of the slope leaves out none
//! ```
//!
//! O(draws × 10) replays a part. Worked number: a factor of 1.2 at 2 % a week is ln 1.2 / ln 1.02 = 9.2 weeks.

use std::collections::BTreeSet;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::interval::student_t;
use tracecast_analytics::time::WEEK_MS;

use super::heldout::warmed_up;
use super::part::Part;
use super::search::{Search, WaitTarget};
use crate::error::Result;
use crate::replay::growth::Growth;
use crate::sim::{Policy, Workload};

/// Least and most work that is tried, as a factor of today's.
pub(super) const FACTORS: (f64, f64) = (0.25, 4.0);
/// Steps of √2 from today's work to either end.
const LEAPS: i32 = 4;
/// Steps of the bisection: a factor is known to about 1 %.
const STEPS: u32 = 5;
/// Draws.
const DRAWS: u64 = 5;
/// Seed of the draws.
const SEED: u64 = 1;
/// Fewest whole weeks from which a trend is told.
const FEWEST_WEEKS: usize = 4;

/// A factor of today's work, over draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BreakFactor {
    /// Median over draws: with more work than that, today's nodes break the target. Below 1 they do today. The search ends at a quarter of the work, where
    /// they may break it as well, and at four times the work.
    pub value: f64,
    /// Least of the draws.
    pub low: f64,
    /// Greatest of the draws.
    pub high: f64,
    /// Whether some draw keeps the target at four times today's work, where the search ends.
    pub beyond: bool,
}

/// How demand grew over the record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct DemandTrend {
    /// Whole weeks, without those of which a job still runs at the end of the record.
    pub weeks: u64,
    /// GPU-hours submitted in a week, mean.
    pub gpu_hours_per_week: f64,
    /// Growth a week, as a share.
    pub per_week: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl DemandTrend {
    /// Fits the trend of the whole weeks from time 0 to `end` whose jobs have all ended; `None`
    /// with fewer than four, or if nothing is asked for in one.
    pub fn new(workload: &Workload, end: i64) -> Option<Self> {
        let weeks = usize::try_from(end.div_euclid(WEEK_MS)).ok().filter(|weeks| *weeks >= FEWEST_WEEKS)?;
        let mut hours = vec![0.0; weeks];
        for (job, submit) in workload.submit_ms.iter().enumerate() {
            let week = usize::try_from(submit.div_euclid(WEEK_MS)).ok();
            if let Some(sum) = week.and_then(|week| hours.get_mut(week)) {
                *sum += workload.gpu_s(job) / 3600.0;
            }
        }
        let cut: BTreeSet<i64> = workload
            .unfinished
            .iter()
            .filter_map(|job| Some(workload.submit_ms.get(*job as usize)?.div_euclid(WEEK_MS)))
            .collect();
        let hours: Vec<(f64, f64)> = (0i64..)
            .zip(hours)
            .filter(|(week, _)| !cut.contains(week))
            .map(|(week, hours): (i64, f64)| (week as f64, hours))
            .collect();
        if hours.len() < FEWEST_WEEKS {
            return None;
        }
        let n = hours.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| hours.iter().map(of).sum::<f64>() / n;
        let (x_mean, y_mean) = (mean(&|(week, _)| *week), mean(&|(_, hours)| hours.ln()));
        let of = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
            hours.iter().map(|(week, hours)| value(week - x_mean, hours.ln() - y_mean)).sum()
        };
        let sxx = of(&|x, _| x * x);
        let slope = of(&|x, y| x * y) / sxx;
        let residual = of(&|x, y| (y - slope * x).powi(2));
        let half = student_t(n - 2.0)? * (residual / (n - 2.0) / sxx).sqrt();
        let share = |slope: f64| slope.exp() - 1.0;
        half.is_finite().then(|| Self {
            weeks: hours.len() as u64,
            gpu_hours_per_week: mean(&|(_, hours)| *hours),
            per_week: share(slope),
            low: share(slope - half),
            high: share(slope + half),
        })
    }

    /// Whether demand grows, beyond what chance would do.
    pub fn grows(&self) -> bool {
        self.low > 0.0
    }

    /// Weeks until demand has grown by a factor: (by the trend, soonest, latest); `None` without growth.
    pub fn weeks_to(&self, factor: &BreakFactor) -> Option<(f64, f64, f64)> {
        let weeks = |factor: f64, share: f64| factor.max(1.0).ln() / share.ln_1p();
        self.grows()
            .then(|| (weeks(factor.value, self.per_week), weeks(factor.low, self.high), weeks(factor.high, self.low)))
    }
}

/// The factor at which a part with its nodes of today breaks the target. `workload` holds its jobs alone.
pub(super) fn breaks_at(
    part: &Part,
    workload: &Workload,
    with: (&Policy, &WaitTarget),
    end: i64,
) -> Result<BreakFactor> {
    let cluster = part.with(part.nodes());
    let window = (warmed_up(end), end);
    let factor_of = |draw: u64| -> Result<f64> {
        let kept = |factor: f64| -> Result<bool> {
            let jobs = Growth::new(factor, Vec::new(), DRAWS, SEED)?.jobs(workload, &cluster, draw)?;
            Ok(Search::new(part, &jobs, with, window)?.with(part.nodes())?.kept)
        };
        // In steps away from today's work, as replays of far too much work are slow.
        let bears = kept(1.0)?;
        let (mut near, mut far) = (1.0, None);
        for power in 1..=LEAPS {
            let power = if bears { power } else { -power };
            let next = std::f64::consts::SQRT_2.powi(power).clamp(FACTORS.0, FACTORS.1);
            if kept(next)? != bears {
                far = Some(next);
                break;
            }
            near = next;
        }
        let Some(far) = far else { return Ok(near) };
        let (mut low, mut high) = if bears { (near, far) } else { (far, near) };
        for _ in 0..STEPS {
            let middle = f64::sqrt(low * high);
            if kept(middle)? { low = middle } else { high = middle }
        }
        Ok(low)
    };
    let mut factors: Vec<f64> = (0..DRAWS).into_par_iter().map(factor_of).collect::<Result<_>>()?;
    factors.sort_unstable_by(f64::total_cmp);
    let at = |at: usize| factors.get(at).copied().unwrap_or(1.0);
    let last = factors.len().saturating_sub(1);
    Ok(BreakFactor { value: at(last / 2), low: at(0), high: at(last), beyond: at(last) >= FACTORS.1 })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sim::Shape;

    #[test]
    fn a_trend_by_hand() {
        let mut jobs = Workload::default();
        for week in 0..8i32 {
            // 100 GPU-hours in the first week, and 2 % more every week.
            let run_ms = (100.0 * 1.02f64.powi(week) * 3.6e6) as i64;
            jobs.push(i64::from(week) * WEEK_MS, run_ms, Shape::whole(1));
        }
        let trend = DemandTrend::new(&jobs, 8 * WEEK_MS).unwrap();
        assert!((trend.per_week - 0.02).abs() < 1e-6 && trend.grows(), "{trend:?}");
        let factor = BreakFactor { value: 1.2, low: 1.1, high: 1.3, beyond: false };
        let (weeks, soonest, latest) = trend.weeks_to(&factor).unwrap();
        assert!((weeks - 9.207).abs() < 1e-2 && soonest < weeks && weeks < latest);
        assert_eq!(DemandTrend::new(&jobs, 3 * WEEK_MS), None);
        // Nothing in a week has no logarithm.
        assert_eq!(DemandTrend::new(&jobs, 9 * WEEK_MS), None);
        // What the last two weeks asked for is known in part; without them the trend is the same.
        jobs.unfinished = vec![6, 7];
        jobs.run_ms[6] /= 10;
        jobs.run_ms[7] /= 100;
        let trend = DemandTrend::new(&jobs, 8 * WEEK_MS).unwrap();
        assert!((trend.per_week - 0.02).abs() < 1e-6 && trend.weeks == 6, "{trend:?}");
        jobs.unfinished = vec![3, 4, 5, 6, 7];
        assert_eq!(DemandTrend::new(&jobs, 8 * WEEK_MS), None);
    }
}
