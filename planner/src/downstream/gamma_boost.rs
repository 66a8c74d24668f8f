//! γ-boost: an order that shortens the tail of the waits (arXiv 2404.08826).
//!
//! A job is served as if it had been submitted earlier by its boost b, which is longer for what is short:
//!
//! ```text
//! b = ln(E[e^γS] / (E[e^γS] − 1)) / γ        S: how long all GPUs of the pool would be busy with the job; E over its predicted distribution
//! λ (E[e^γS] − 1) = γ                        over the jobs that came before: how fast long waits become rare in the queue
//! ```
//!
//! In the M/G/1 queue with light tails no order that does not know more has a lighter tail. Here it is a rule of thumb: jobs are gangs, and many run at once. λ and S are those of the
//! jobs of a pool that had ended before the first job of the replay; γ has no positive solution where these asked for more than the pool has, and with fewer than 100 of them nothing
//! is known: there the order is that of submission. For short jobs b is −ln(γS)/γ, so it is the aged order with τ = 1/γ; long ones are held back less.
//!
//! O(jobs × levels). Worked number: S always 1 s and λ = ½ a second give ½ (e^γ − 1) = γ, so γ = 1.256 and b = ln(3.513 / 2.513) / 1.256 = 0.267 s.

use std::collections::HashMap;

use tracecast_predictors::timeline::Timeline;

use crate::replay::input::Loaded;
use crate::sim::Cluster;

/// Levels of the quantiles that stand for a distribution.
pub(super) const LEVELS: [f64; 20] = [
    0.025, 0.075, 0.125, 0.175, 0.225, 0.275, 0.325, 0.375, 0.425, 0.475, 0.525, 0.575, 0.625, 0.675, 0.725, 0.775,
    0.825, 0.875, 0.925, 0.975,
];
/// Fewest earlier jobs of a pool that γ is found from.
const ENOUGH: usize = 100;
/// Halvings of the interval in which γ lies.
const HALVINGS: usize = 80;

/// γ of each pool, 1/s; `None` where there is none.
pub(super) fn rates(loaded: &Loaded, timeline: &Timeline) -> Vec<Option<f64>> {
    let cluster = &loaded.cluster;
    let begin_ms = loaded.workload.origin_ms + loaded.workload.submit_ms.first().copied().unwrap_or(0).max(0);
    let pool_of: HashMap<&str, usize> = cluster.vcs.iter().map(|vc| (vc.name.as_str(), usize::from(vc.pool))).collect();
    let gpus = gpus(cluster);
    let mut seen: Vec<(i64, Vec<f64>)> = vec![(begin_ms, Vec::new()); cluster.pools.len()];
    for job in &timeline.jobs {
        let (Some(end), Some(run_s)) = (job.end_ms.filter(|end| *end < begin_ms), job.run_s) else { continue };
        let submission = &job.submission;
        let pool = submission.vc.as_deref().and_then(|vc| pool_of.get(vc));
        let Some((first, works)) = pool.and_then(|pool| seen.get_mut(*pool)) else { continue };
        *first = (*first).min(submission.submit_ms.min(end));
        works.push(run_s * submission.gpus);
    }
    let rate = |((first, works), gpus): (&(i64, Vec<f64>), &f64)| {
        let span_s = (begin_ms - first) as f64 / 1e3;
        let works: Vec<f64> = works.iter().map(|work| work / gpus).collect();
        (works.len() >= ENOUGH && span_s > 0.0).then(|| decay(&works, works.len() as f64 / span_s)).flatten()
    };
    seen.iter().zip(&gpus).map(rate).collect()
}

/// GPUs of each pool at the beginning, at least one.
fn gpus(cluster: &Cluster) -> Vec<f64> {
    let of = |pool: &crate::sim::Pool| {
        let groups = pool.groups.iter();
        let gpus = groups.map(|group| group.sizes.first().map_or(0, |(_, nodes)| *nodes) * group.gpus_per_node);
        f64::from(gpus.sum::<u32>()).max(1.0)
    };
    cluster.pools.iter().map(of).collect()
}

/// The positive γ with λ (E[e^γS] − 1) = γ; `None` if λ E[S] is 1 or more.
fn decay(works: &[f64], rate: f64) -> Option<f64> {
    let longest = works.iter().copied().fold(0.0, f64::max);
    // Convex, 0 at 0, below it at first and above it in the end.
    let over = |gamma: f64| rate * mean_expm1(works, gamma) - gamma;
    let load = rate * works.iter().sum::<f64>() / works.len() as f64;
    if !(load < 1.0 && longest > 0.0) {
        return None;
    }
    // Beyond this e^γS leaves what numbers can hold.
    let (mut low, mut high) = (0.0, 600.0 / longest);
    if over(high) <= 0.0 {
        return None;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if over(middle) > 0.0 { high = middle } else { low = middle }
    }
    Some(high).filter(|gamma| *gamma > 0.0)
}

/// E[e^γS] − 1.
fn mean_expm1(works: &[f64], gamma: f64) -> f64 {
    works.iter().map(|work| (gamma * work).exp_m1()).sum::<f64>() / works.len() as f64
}

/// Score of each job, least first: its submission less its boost, seconds. `runs` are runs that stand for what is known of a job, seconds; of one of which nothing is known, the boost
/// is that of the usual job of its pool.
pub(super) fn scores(loaded: &Loaded, rates: &[Option<f64>], runs: impl Fn(usize) -> Option<Vec<f64>>) -> Vec<f64> {
    let workload = &loaded.workload;
    let pool_gpus = gpus(&loaded.cluster);
    let boost = |job: usize| -> Option<f64> {
        let vc = loaded.cluster.vcs.get(usize::from(*workload.vc.get(job)?))?;
        let pool = usize::from(vc.pool);
        let (gamma, all) = (rates.get(pool).copied().flatten()?, pool_gpus.get(pool)?);
        let gpus = workload.shape_of(job).as_gpus();
        let works: Vec<f64> = runs(job)?.iter().map(|run| run.max(1.0) * gpus / all).collect();
        let grown = mean_expm1(&works, gamma);
        Some(((1.0 + grown) / grown).ln() / gamma).filter(|boost| boost.is_finite())
    };
    let boosts: Vec<Option<f64>> = (0..workload.len()).map(boost).collect();
    let mut known: Vec<f64> = boosts.iter().flatten().copied().collect();
    known.sort_unstable_by(f64::total_cmp);
    let usual = known.get(known.len() / 2).copied().unwrap_or(0.0);
    let pool_has = |job: usize| {
        let vc = workload.vc.get(job).and_then(|vc| loaded.cluster.vcs.get(usize::from(*vc)));
        vc.and_then(|vc| rates.get(usize::from(vc.pool)).copied().flatten()).is_some()
    };
    (0..workload.len())
        .map(|job| {
            let submit_s = workload.submit_ms.get(job).copied().unwrap_or(0) as f64 / 1000.0;
            let boost = boosts.get(job).copied().flatten();
            submit_s - boost.unwrap_or(if pool_has(job) { usual } else { 0.0 })
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::{Shape, Workload};

    #[test]
    fn the_worked_number() {
        let gamma = decay(&[1.0], 0.5).unwrap();
        assert!((gamma - 1.2564).abs() < 1e-4, "{gamma}");
        let mut workload = Workload::default();
        workload.push(0, 1000, Shape::whole(8));
        let cluster = Cluster::of_vcs(&[("a", 1, 8)]);
        let loaded = Loaded { workload, cluster, ..Loaded::default() };
        let score = scores(&loaded, &[Some(gamma)], |_| Some(vec![1.0]))[0];
        assert!((score + 0.2667).abs() < 1e-3, "{score}");
        // What asks for more than there is has no such rate.
        assert_eq!(decay(&[1.0], 1.0), None);
    }

    #[test]
    fn the_shorter_goes_first_and_without_a_rate_the_earlier() {
        let mut workload = Workload::default();
        for submit_s in [0, 1] {
            workload.push(submit_s * 1000, 1000, Shape::whole(1));
        }
        let cluster = Cluster::of_vcs(&[("a", 1, 8)]);
        let loaded = Loaded { workload, cluster, ..Loaded::default() };
        let runs = |job: usize| Some(vec![if job == 0 { 8_000.0 } else { 80.0 }]);
        let of = |rates: &[Option<f64>]| scores(&loaded, rates, runs);
        let (with, without) = (of(&[Some(0.001)]), of(&[None]));
        assert!(with[1] < with[0], "{with:?}");
        assert_eq!(without, [0.0, 1.0]);
    }
}
