//! What a job could be told of its start when it is submitted, and how far that was from what came.
//!
//! A **rehearsal**: the jobs that run and wait at that moment are replayed with what is known of their runs, under the same policy and on the same nodes, as if nobody
//! else came. When the job starts there is what it could be told. What differs in the end is owed to wrong runs, to jobs that come later and pass it, and to nodes that fail. PCS (OSDI 2024)
//! calls the distance predictability, and chooses schedules by it.
//!
//! The rehearsal knows how many GPUs each job holds, not on which nodes, nor what an order has learnt from jobs that have ended. A job that runs longer than was known of it is taken to run for another
//! minute. [`SAMPLE`] jobs are asked, spread evenly over the time.
//!
//! O(sample × what a replay of the jobs in the system takes). Worked number: on one GPU, a job runs for 100 s and was predicted to run for 60; one that comes at 20 s is told 40 s, waits 80 s, and is off by
//! 40 s.

use rayon::prelude::*;
use tracecast_analytics::time::MINUTE_MS;

use super::setup::Scene;
use crate::error::Result;
use crate::sim::cluster::value_at;
use crate::sim::workload::Warm;
use crate::sim::{Cluster, Estimate, Outage, Policy, Schedule, Workload, simulate};

/// Jobs that are asked.
pub(super) const SAMPLE: usize = 100;

/// Samples at most [`SAMPLE`] jobs, spread evenly.
pub(super) fn sample(jobs: &[usize]) -> Vec<usize> {
    let count = jobs.len().min(SAMPLE);
    (0..count).filter_map(|at| jobs.get(at * jobs.len() / count.max(1)).copied()).collect()
}

/// How far the starts of these jobs in a replay are from what they could be told, milliseconds; those that never start are left out. `estimate` says what is known of runs.
///
/// # Errors
/// If a rehearsal cannot be replayed.
pub(super) fn errors_ms(
    scene: &Scene<'_>,
    schedule: &Schedule,
    estimate: Estimate,
    jobs: &[usize],
) -> Result<Vec<(usize, i64)>> {
    let one = |job: &usize| -> Result<Option<(usize, i64)>> {
        let Some(came) = schedule.start_ms(*job) else { return Ok(None) };
        let told = told_ms(scene, schedule, estimate, *job)?;
        Ok(told.map(|told| (*job, (came - told).abs())))
    };
    let result: Vec<Option<(usize, i64)>> = jobs.par_iter().map(one).collect::<Result<_>>()?;
    Ok(result.into_iter().flatten().collect())
}

/// When the job could be told that it starts; `None` if it would not.
fn told_ms(scene: &Scene<'_>, schedule: &Schedule, estimate: Estimate, job: usize) -> Result<Option<i64>> {
    let workload = &scene.workload;
    let known = Policy { estimate, ..Policy::default() };
    let Some(now) = workload.submit_ms.get(job).copied() else { return Ok(None) };
    let mut runs: Vec<(usize, i64)> = Vec::new();
    for segment in schedule.segments.iter().filter(|of| of.start_ms < now && of.end_ms > now) {
        runs.push((segment.job as usize, segment.start_ms));
    }
    runs.sort_unstable();
    let mut submits: Vec<i64> = Vec::new();
    let mut jobs: Vec<u32> = Vec::new();
    let mut left_ms: Vec<i64> = Vec::new();
    let mut warm: Vec<Warm> = Vec::new();
    for (other, submit) in workload.submit_ms.iter().enumerate().take(job + 1) {
        let expected = known.estimate_ms(workload, other);
        let running = runs.binary_search_by_key(&other, |(job, _)| *job).ok().and_then(|at| runs.get(at));
        if let Some((_, start)) = running {
            warm.push(Warm { job: jobs.len() as u32, start_ms: start - now });
            left_ms.push(if now - start < expected { expected - (now - start) } else { MINUTE_MS });
        } else if other == job || schedule.end_ms(other).is_none_or(|end| end > now) {
            left_ms.push(expected.max(1));
        } else {
            continue;
        }
        jobs.push(other as u32);
        submits.push(submit - now);
    }
    // The engine takes them in order of their starts.
    warm.sort_by_key(|of| of.start_ms);
    let mut then: Workload = workload.arranged(&jobs, submits);
    // The engine expects a job that runs to end what is known of it from time 0 on.
    for of in &warm {
        let (at, left) = (of.job as usize, left_ms.get(of.job as usize).copied());
        if let Some(requested) = then.requested_ms.get_mut(at) {
            *requested = requested.and(left);
        }
        if let Some(predicted) = then.predicted_s.get_mut(at) {
            *predicted = predicted.and(left.map(|left| left as f64 / 1e3));
        }
    }
    then.run_ms = left_ms;
    (then.warm, then.unfinished, then.once) = (warm, Vec::new(), Vec::new());
    let rehearsed = simulate(&then, &as_of(&scene.cluster, now), &scene.policy)?;
    Ok(rehearsed.start_ms(jobs.len() - 1).map(|start| now + start))
}

/// A cluster as it is at a moment, which becomes time 0: sizes and shares to come are not known, nor are failures. What is broken is known, and for how long.
fn as_of(cluster: &Cluster, now: i64) -> Cluster {
    fn current<T: Copy>(of: &mut Vec<(i64, T)>, now: i64) {
        *of = value_at(of, now).map(|value| (0, value)).into_iter().collect();
    }
    let mut result = cluster.clone();
    for group in result.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        current(&mut group.sizes, now);
    }
    for vc in &mut result.vcs {
        current(&mut vc.quota_milli, now);
        current(&mut vc.guarantee_milli, now);
    }
    result.outages = cluster
        .outages
        .iter()
        .filter(|of| of.from_ms <= now && of.to_ms > now)
        .map(|of| Outage { from_ms: -1, to_ms: of.to_ms - now, ..*of })
        .collect();
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::sim::{Order, Scan, Shape};

    const S: i64 = 1_000;

    fn workload(jobs: &[(i64, i64, i64)]) -> Workload {
        let mut workload = Workload::default();
        for (submit_s, run_s, predicted_s) in jobs {
            workload.push(submit_s * S, run_s * S, Shape::whole(1));
            *workload.predicted_s.last_mut().unwrap() = Some(*predicted_s as f64);
        }
        workload
    }

    fn scene(workload: &Workload, gpus: u32, order: Order) -> Scene<'_> {
        scanned(workload, gpus, order, Scan::Skip)
    }

    fn scanned(workload: &Workload, gpus: u32, order: Order, scan: Scan) -> Scene<'_> {
        let policy = Policy { order, scan, estimate: Estimate::Predicted, ..Policy::default() };
        Scene { workload: Cow::Borrowed(workload), cluster: Cluster::of_vcs(&[("all", 1, gpus)]), policy }
    }

    fn told(scene: &Scene<'_>, jobs: &[usize]) -> Vec<(usize, i64)> {
        let schedule = simulate(&scene.workload, &scene.cluster, &scene.policy).unwrap();
        errors_ms(scene, &schedule, Estimate::Predicted, jobs).unwrap()
    }

    #[test]
    fn the_worked_number() {
        let jobs = workload(&[(0, 100, 60), (20, 10, 10)]);
        assert_eq!(told(&scene(&jobs, 1, Order::Fifo), &[0, 1]), [(0, 0), (1, 40 * S)]);
        // It runs longer than predicted already when the second comes at 70 s: one more minute is told, and 30 s it takes.
        let jobs = workload(&[(0, 100, 60), (70, 10, 10)]);
        assert_eq!(told(&scene(&jobs, 1, Order::Fifo), &[1]), [(1, 30 * S)]);
    }

    #[test]
    fn who_is_passed_could_not_be_told() {
        // At 1 s the job of 50 s is told 100 s. The shortest first, one of 10 s that comes at 2 s goes before it, which nobody knew.
        let jobs = workload(&[(0, 100, 100), (1, 50, 50), (2, 10, 10)]);
        assert_eq!(told(&scene(&jobs, 1, Order::Fifo), &[1, 2]), [(1, 0), (2, 0)]);
        assert_eq!(told(&scene(&jobs, 1, Order::Sjf), &[1, 2]), [(1, 10 * S), (2, 0)]);
    }

    #[test]
    fn who_runs_is_expected_to_end_as_known() {
        // Two GPUs. The first job runs until 100 s, so the one of two GPUs that comes at 10 s is told 100 s, and one of a GPU and 60 s that comes at 50 s would end
        // after that: it is told that it goes last, at 150 s. If what was left of the first were taken for its whole run, it would be told to start at once.
        let mut jobs = workload(&[(0, 100, 100), (10, 50, 50), (50, 60, 60)]);
        jobs.shapes.push(Shape::whole(2));
        jobs.shape[1] = 1;
        assert_eq!(told(&scanned(&jobs, 2, Order::Fifo, Scan::Easy), &[0, 1, 2]), [(0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn a_sample_is_spread_evenly() {
        let jobs: Vec<usize> = (0..1_000).collect();
        let result = sample(&jobs);
        assert_eq!((result.len(), result[0], result[1], result[99]), (SAMPLE, 0, 10, 990));
        assert_eq!((sample(&jobs[..3]), sample(&[])), (vec![0, 1, 2], vec![]));
    }

    proptest! {
        /// First come, first served with runs that are known, jobs start when they were told; and nothing that comes later changes what they are told.
        #[test]
        fn nothing_later_counts(
            drawn in prop::collection::vec((0i64..40, 1i64..60, 1i64..60), 1..25),
            gpus in 1u32..4,
            order in prop_oneof![Just(Order::Fifo), Just(Order::Sjf)],
        ) {
            let mut at = 0;
            let mut jobs: Vec<(i64, i64, i64)> = Vec::new();
            for (gap, run, predicted) in drawn {
                at += gap;
                jobs.push((at, run, predicted));
            }
            let exact: Vec<(i64, i64, i64)> = jobs.iter().map(|(submit, run, _)| (*submit, *run, *run)).collect();
            let known = workload(&exact);
            let all: Vec<usize> = (0..jobs.len()).collect();
            prop_assert!(told(&scene(&known, gpus, Order::Fifo), &all).iter().all(|(_, error)| *error == 0));

            let whole = workload(&jobs);
            let of_whole = scene(&whole, gpus, order.clone());
            let schedule = simulate(&whole, &of_whole.cluster, &of_whole.policy).unwrap();
            let job = jobs.len() / 2;
            // All that are submitted after it are other jobs.
            let mut other = jobs.clone();
            for (submit, run, predicted) in other.iter_mut().skip(job + 1) {
                (*submit, *run, *predicted) = ((*submit).max(jobs[job].0 + 1) + 5, 61 - *run, 61 - *predicted);
            }
            let other = workload(&other);
            let of_other = scene(&other, gpus, order);
            let others = simulate(&other, &of_other.cluster, &of_other.policy).unwrap();
            if jobs.get(job + 1).is_none_or(|next| next.0 > jobs[job].0) {
                prop_assert_eq!(
                    told_ms(&of_whole, &schedule, Estimate::Predicted, job).unwrap(),
                    told_ms(&of_other, &others, Estimate::Predicted, job).unwrap()
                );
            }
        }
    }
}
