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
//! jobs of a pool that had ended before the first job of the replay (those that still ran are missing, so S is a little short); γ has no positive solution where these asked for more than
//! the pool has, and with fewer than 100 of them nothing is known: there the order is that of submission. For short jobs b is −ln(γS)/γ, so it is the aged order with τ = 1/γ; long ones are held back less.
//!
//! O(jobs × levels). Worked number: S always 1 s and λ = ½ a second give ½ (e^γ − 1) = γ, so γ = 1.256 and b = ln(3.513 / 2.513) / 1.256 = 0.267 s.

use std::collections::HashMap;

use tracecast_analytics::stats::rank;
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

/// What the past says of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// γ, 1/s.
    gamma: f64,
    /// The boost of the median job, seconds: that of a job of which nothing is known.
    usual: f64,
}

/// The pace of each pool; `None` where there is none. Runs longer than `longest_s` are not replayed, and do not count.
pub(super) fn paces(loaded: &Loaded, timeline: &Timeline, longest_s: Option<f64>) -> Vec<Option<Pace>> {
    let cluster = &loaded.cluster;
    let begin_ms = loaded.workload.origin_ms + loaded.workload.submit_ms.first().copied().unwrap_or(0).max(0);
    let pool_of: HashMap<&str, usize> = cluster.vcs.iter().map(|vc| (vc.name.as_str(), usize::from(vc.pool))).collect();
    let gpus = gpus(cluster);
    let mut seen: Vec<(i64, Vec<f64>)> = vec![(begin_ms, Vec::new()); cluster.pools.len()];
    for job in &timeline.jobs {
        let run_s = job.run_s.filter(|run| longest_s.is_none_or(|longest| *run <= longest));
        let (Some(end), Some(run_s)) = (job.end_ms.filter(|end| *end < begin_ms), run_s) else { continue };
        let submission = &job.submission;
        let pool = submission.vc.as_deref().and_then(|vc| pool_of.get(vc));
        let Some((first, works)) = pool.and_then(|pool| seen.get_mut(*pool)) else { continue };
        *first = (*first).min(submission.submit_ms.min(end));
        works.push(run_s * submission.gpus);
    }
    let pace = |((first, works), gpus): (&(i64, Vec<f64>), &f64)| {
        let span_s = (begin_ms - first) as f64 / 1e3;
        let mut works: Vec<f64> = works.iter().map(|work| work / gpus).collect();
        works.sort_unstable_by(f64::total_cmp);
        let known = works.len() >= ENOUGH && span_s > 0.0;
        let gamma = known.then(|| decay(&works, works.len() as f64 / span_s)).flatten()?;
        let usual = rank::upper_sorted(&works, 0.5).map_or(0.0, |work| boost(&[work], gamma));
        Some(Pace { gamma, usual })
    };
    seen.iter().zip(&gpus).map(pace).collect()
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

/// ln(E/(E − 1)) / γ with E = E[e^γS], seconds: 0 for what is so long that e^γS has no number.
fn boost(works: &[f64], gamma: f64) -> f64 {
    mean_expm1(works, gamma).recip().ln_1p() / gamma
}

/// Score of each job, least first: its submission less its boost, seconds. `runs` are runs that stand for what is known of a job, seconds.
pub(super) fn scores(loaded: &Loaded, paces: &[Option<Pace>], runs: impl Fn(usize) -> Option<Vec<f64>>) -> Vec<f64> {
    let workload = &loaded.workload;
    let pool_gpus = gpus(&loaded.cluster);
    let boosted = |job: usize| -> Option<f64> {
        let vc = loaded.cluster.vcs.get(usize::from(*workload.vc.get(job)?))?;
        let pool = usize::from(vc.pool);
        let (pace, all) = (paces.get(pool).copied().flatten()?, pool_gpus.get(pool)?);
        let gpus = workload.shape_of(job).as_gpus();
        Some(runs(job).map_or(pace.usual, |runs| {
            let works: Vec<f64> = runs.iter().map(|run| run.max(1.0) * gpus / all).collect();
            boost(&works, pace.gamma)
        }))
    };
    (0..workload.len())
        .map(|job| {
            let submit_s = workload.submit_ms.get(job).copied().unwrap_or(0) as f64 / 1000.0;
            submit_s - boosted(job).unwrap_or(0.0)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_predictors::job::Submission;
    use tracecast_predictors::timeline::Job;

    use super::*;
    use crate::sim::{Shape, Workload};

    /// One VC of 8 GPUs with two jobs, submitted at day 10 and a second later.
    fn two() -> Loaded {
        let mut workload = Workload { origin_ms: 10 * 86_400_000, ..Workload::default() };
        for submit_s in [0, 1] {
            workload.push(submit_s * 1000, 1000, Shape::whole(1));
        }
        Loaded { workload, cluster: Cluster::of_vcs(&[("a", 1, 8)]), ..Loaded::default() }
    }

    /// So many jobs of 8 GPUs, one an hour, that ran half an hour each.
    fn past(jobs: usize) -> Timeline {
        let job = |at: usize| {
            let submission = Submission {
                job_id: at.to_string(),
                submit_ms: at as i64 * 3_600_000,
                vc: Some("a".to_owned()),
                gpus: 8.0,
                ..Submission::default()
            };
            Job::without_wait(at as u32, submission, 1_800.0)
        };
        Timeline { jobs: (0..jobs).map(job).collect(), ..Timeline::default() }
    }

    #[test]
    fn the_worked_number() {
        let gamma = decay(&[1.0], 0.5).unwrap();
        assert!((gamma - 1.2564).abs() < 1e-4, "{gamma}");
        assert!((boost(&[1.0], gamma) - 0.2667).abs() < 1e-3);
        // What asks for more than there is has no such rate, and what is too long for a number no boost.
        assert_eq!(decay(&[1.0], 1.0), None);
        assert_eq!(boost(&[1e6 / gamma], gamma), 0.0);
    }

    #[test]
    fn the_shorter_goes_first_and_without_a_pace_the_earlier() {
        let loaded = two();
        let runs = |job: usize| Some(vec![if job == 0 { 8_000.0 } else { 80.0 }]);
        let of = |paces: &[Option<Pace>]| scores(&loaded, paces, runs);
        let with = of(&[Some(Pace { gamma: 0.001, usual: 0.0 })]);
        assert!(with[1] < with[0], "{with:?}");
        assert_eq!(of(&[None]), [0.0, 1.0]);
        // Of whom nothing is known, the usual job.
        assert_eq!(scores(&loaded, &[Some(Pace { gamma: 0.001, usual: 5.0 })], |_| None), [-5.0, -4.0]);
    }

    #[test]
    fn the_past_alone_sets_the_pace() {
        let loaded = two();
        let of = |timeline: &Timeline| paces(&loaded, timeline, None);
        // S is half an hour and one comes each hour: the worked number, with half an hour for its second.
        let pace = of(&past(240))[0].unwrap();
        assert!((pace.gamma * 1_800.0 - 1.2564).abs() < 0.02, "{pace:?}");
        assert_eq!(of(&past(99)), [None]);
        assert_eq!(paces(&loaded, &past(240), Some(600.0)), [None]);
        // Jobs 240 and later are of the replay's time: whatever becomes of them changes nothing.
        let (mut longer, mut shorter) = (past(300), past(300));
        for job in &mut longer.jobs[240..] {
            job.run_s = Some(1e6);
        }
        shorter.jobs.truncate(240);
        assert_eq!(of(&longer), of(&shorter));
    }
}
