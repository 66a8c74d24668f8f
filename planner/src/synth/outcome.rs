//! How jobs end and which limit they have.
//!
//! Published shares differ between counting jobs and counting their GPU time (Helios: 22 % of GPU jobs but 39 % of GPU
//! time is cancelled), so the probability of an end depends on resource time g = size × run:
//! `P(k | g) ∝ exp(a_k + b_k·x)`, x = ln g standardised, completion having a = b = 0. The a and b are found by fixed
//! point on both sets of shares. Ends are then given out from the largest job down by error diffusion: each takes the end
//! whose owed resource time is largest in units of the job's own, with some noise, so that both shares hold closely even
//! where a few jobs are most of the time.
//!
//! Worked number: two jobs of 100 and 100 GPU-seconds with P = (½, ½): the first takes an end and owes −50 to it and 50
//! to the other, so (but for noise) the second takes the other.
//!
//! A limit belongs to a name, so it does not tell a job's run: the first of the menu that is `margin` times the longest
//! run under that name. Jobs that ran into their limit have one of their own, equal to their run.

use tracecast_analytics::schema::JobState;

use super::demand::Demand;
use super::random::Stream;
use super::spec::{LimitSpec, StateSpec};

/// Bins of ln g for the fit.
const BINS: usize = 200;
/// Shortest run that can be a timeout, seconds: nobody asks for less.
const SHORTEST_LIMIT_S: i64 = 600;

/// Ends of jobs with resource times `g` (size × run, seconds), in the same order: 0 completed, 1 cancelled, 2 failed.
pub(crate) fn draw_ends(g: &[f64], spec: &StateSpec, rng: &mut Stream) -> Vec<u8> {
    if g.is_empty() {
        return Vec::new();
    }
    let logs: Vec<f64> = g.iter().map(|g| g.max(1.0).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let spread = (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt().max(1e-9);
    let standard = |ln: f64| (ln - mean) / spread;
    let outcomes = fit(&logs, &standard, spec);
    let mut order: Vec<u32> = (0..g.len() as u32).collect();
    let at = |ix: u32| g.get(ix as usize).copied().unwrap_or(0.0).max(1.0);
    order.sort_by(|a, b| at(*b).total_cmp(&at(*a)).then(a.cmp(b)));
    let mut owed = [0.0; 3];
    let mut ends = vec![0; g.len()];
    for ix in order {
        let g = at(ix);
        let p = outcomes.probabilities(standard(g.ln()));
        let mut best = (f64::NEG_INFINITY, 0);
        for (end, (owed, p)) in (0u8..).zip(owed.iter_mut().zip(p)) {
            *owed += p * g;
            let score = *owed / g + 0.25 * rng.normal();
            if p > 0.0 && score > best.0 {
                best = (score, end);
            }
        }
        if let Some(owed) = owed.get_mut(usize::from(best.1)) {
            *owed -= g;
        }
        if let Some(end) = ends.get_mut(ix as usize) {
            *end = best.1;
        }
    }
    ends
}

struct Outcomes {
    a: [f64; 3],
    b: [f64; 3],
}

impl Outcomes {
    fn probabilities(&self, x: f64) -> [f64; 3] {
        let [p0, p1, p2] = [0, 1, 2].map(|k: usize| match (self.a.get(k), self.b.get(k)) {
            (Some(a), Some(b)) => (a + b * x).clamp(-700.0, 50.0).exp(),
            _ => 0.0,
        });
        let total = p0 + p1 + p2;
        [p0 / total, p1 / total, p2 / total]
    }
}

fn fit(logs: &[f64], standard: &dyn Fn(f64) -> f64, spec: &StateSpec) -> Outcomes {
    let (low, high) = logs.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let width = ((high - low) / BINS as f64).max(1e-9);
    let mut bins = vec![(0.0f64, 0.0f64); BINS];
    for x in logs {
        if let Some(bin) = bins.get_mut((((x - low) / width) as usize).min(BINS - 1)) {
            bin.0 += 1.0;
            bin.1 += x.exp();
        }
    }
    let jobs: f64 = bins.iter().map(|bin| bin.0).sum();
    let time: f64 = bins.iter().map(|bin| bin.1).sum();
    let complete = (1.0 - spec.cancelled - spec.failed).max(1e-12);
    let by_time = spec.cancelled_time.is_some() || spec.failed_time.is_some();
    let cancelled_time = spec.cancelled_time.unwrap_or(spec.cancelled);
    let failed_time = spec.failed_time.unwrap_or(spec.failed);
    let wanted = [(1, spec.cancelled, cancelled_time), (2, spec.failed, failed_time)];
    let start = |share: f64| if share > 0.0 { (share / complete).ln() } else { f64::NEG_INFINITY };
    let mut outcomes = Outcomes { a: [0.0, start(spec.cancelled), start(spec.failed)], b: [0.0; 3] };
    for _ in 0..400 {
        let mut reached = [(0.0, 0.0); 3];
        for (ix, (count, sum)) in bins.iter().enumerate().filter(|(_, bin)| bin.0 > 0.0) {
            let p = outcomes.probabilities(standard(low + (ix as f64 + 0.5) * width));
            for (reached, p) in reached.iter_mut().zip(p) {
                reached.0 += p * count / jobs;
                reached.1 += p * sum / time;
            }
        }
        for (k, share, time_share) in wanted {
            let (Some(a), Some(b), Some(reached)) = (outcomes.a.get_mut(k), outcomes.b.get_mut(k), reached.get(k))
            else {
                continue;
            };
            if share <= 0.0 {
                continue;
            }
            let by_count = (share / reached.0.max(1e-12)).ln();
            *a += 0.5 * by_count;
            if by_time && time_share > 0.0 {
                *b = (*b + 0.1 * ((time_share / reached.1.max(1e-12)).ln() - by_count)).clamp(-5.0, 5.0);
            }
        }
    }
    outcomes
}

/// What the scheduler's record says of the jobs at `which`, in that order: state and limit. Runs of timeouts are moved
/// to a whole minute, the limit they ran into.
pub(crate) fn draw(
    demand: &Demand,
    which: &[u32],
    runs_s: &mut [i64],
    states: &StateSpec,
    limits: &LimitSpec,
    rng: &mut Stream,
) -> Vec<(JobState, Option<i64>)> {
    let version_of = |ix: &u32| demand.submissions.get(*ix as usize).map_or(0, |(_, version)| *version as usize);
    let size = |ix: &u32| demand.versions.get(version_of(ix)).map_or(1.0, |version| f64::from(version.size));
    let g: Vec<f64> = which.iter().zip(runs_s.iter()).map(|(ix, run)| size(ix) * *run as f64).collect();
    let ends = draw_ends(&g, states, rng);
    let mut longest = vec![0i64; demand.versions.len()];
    for (ix, run) in which.iter().zip(runs_s.iter()) {
        if let Some(longest) = longest.get_mut(version_of(ix)) {
            *longest = (*longest).max(*run);
        }
    }
    let by_version: Vec<Option<i64>> = longest
        .iter()
        .map(|longest| {
            let without = rng.chance(limits.without);
            let need_h = *longest as f64 * limits.margin / 3_600.0;
            let limit = limits.menu_h.iter().find(|hours| **hours >= need_h);
            limit.filter(|_| !without).map(|hours| (hours * 3_600.0).round() as i64)
        })
        .collect();
    let long: Vec<bool> = runs_s.iter().map(|run| *run >= SHORTEST_LIMIT_S).collect();
    let failed = ends.iter().filter(|end| **end == 2).count() as f64;
    let failed_long = ends.iter().zip(&long).filter(|(end, long)| **end == 2 && **long).count() as f64;
    // Only long ones can be timeouts, so those are it more often, up to nine in ten.
    let timeout = if failed_long > 0.0 { (states.timeout * failed / failed_long).min(0.9) } else { 0.0 };
    let out_of_memory = states.out_of_memory / (1.0 - states.timeout).max(1e-9);
    which
        .iter()
        .zip(runs_s)
        .zip(ends.iter().zip(long))
        .map(|((ix, run), (end, long))| {
            let limit = by_version.get(version_of(ix)).copied().flatten();
            match end {
                0 => (JobState::Completed, limit),
                1 => (JobState::Cancelled, limit),
                _ if long && rng.chance(timeout) => {
                    *run = (*run + 30) / 60 * 60;
                    (JobState::Timeout, Some(*run))
                }
                _ if rng.chance(out_of_memory) => (JobState::OutOfMemory, limit),
                _ => (JobState::Failed, limit),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::random::Concern;

    #[test]
    fn shares_of_jobs_and_of_time_both_hold() {
        // 2,000 jobs whose resource time runs geometrically over seven decades: a few are most of the time.
        let g: Vec<f64> = (0..2_000).map(|ix| 10f64.powf(7.0 * f64::from(ix) / 2_000.0)).collect();
        let spec = StateSpec {
            cancelled: 0.221,
            failed: 0.155,
            cancelled_time: Some(0.394),
            failed_time: Some(0.093),
            ..StateSpec::default()
        };
        let ends = draw_ends(&g, &spec, &mut Stream::new(1, Concern::States));
        let total: f64 = g.iter().sum();
        for (end, share, time_share) in [(0, 0.624, 0.513), (1, 0.221, 0.394), (2, 0.155, 0.093)] {
            let count = ends.iter().filter(|e| **e == end).count() as f64 / 2_000.0;
            let time: f64 = ends.iter().zip(&g).filter(|(e, _)| **e == end).map(|(_, g)| g).sum();
            assert!((count - share).abs() < 0.02, "{end}: {count}");
            assert!((time / total - time_share).abs() < 0.02, "{end}: {}", time / total);
        }
    }

    #[test]
    fn an_end_with_no_share_never_happens() {
        let spec = StateSpec { cancelled: 0.0, failed: 0.5, ..StateSpec::default() };
        let ends = draw_ends(&[1.0; 100], &spec, &mut Stream::new(1, Concern::States));
        assert_eq!(ends.iter().filter(|end| **end == 1).count(), 0);
        // Error diffusion keeps the count of jobs of equal weight within a few of one half.
        let failed = ends.iter().filter(|end| **end == 2).count();
        assert!((47..=53).contains(&failed), "{failed}");
    }
}
