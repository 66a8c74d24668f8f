//! Lower bounds of the mean completion time and of the makespan, for any schedule, even one with
//! future data.
//!
//! Let a GPU of type t be worth b_t an hour, Σ N_t·b_t = 1. Job j then takes work of at least `c_j = r_j·min_t n_j·b_t / T_jt`, on whichever types it runs, and all GPUs together do work at a rate of 1. So the fleet
//! is no better than one machine of speed 1 with jobs of c_j. On it the shortest remaining work first gives the least sum of completion times, and it is never idle, so
//! neither sum nor makespan can be less. The worths are the prices of the [programme](super::programme) of least makespan. No job is faster than alone on its fastest type
//! either, so a bound is the greater of the two.
//!
//! Deadlines that must be missed are counted in [`super::late`]. Gangs count as if they could be cut, and nobody waits for a round: the bound may lie well below what can be had. O(jobs log jobs) beside one programme.
//!
//! Worked example: one V100; two jobs of 1 h and 3 h, both there at once, take 1 + 4 = 5 h of completion time, and 4 h in all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::job::GangJob;
use super::late::{Due, Work, least_late};
use super::pool::TypedFleet;
use super::programme::{Claim, PART, dual};
use tracecast_plan::Result;

/// Lower bounds of any schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocationBound {
    /// Mean time from submission to end, seconds.
    pub mean_s: f64,
    /// Time from 0 to the last end, seconds.
    pub makespan_s: f64,
    /// Jobs that miss their deadlines ([`super::late`]).
    pub late: usize,
}

/// The bounds of some jobs in order of submission.
///
/// # Errors
/// If the solver fails.
pub fn bound(fleet: &TypedFleet, jobs: &[GangJob]) -> Result<AllocationBound> {
    let gpus = fleet.gpus();
    let claims: Vec<Claim> = jobs
        .iter()
        .filter_map(|of| {
            let kind = fleet.kinds.get(of.kind)?;
            Some(Claim { gpus: f64::from(kind.gpus), speeds: kind.steps_per_s.clone(), need: of.steps })
        })
        .collect();
    // Any worths bound; with many jobs those of some of them do.
    let every = claims.len().div_ceil(2 * PART).max(1);
    let some: Vec<Claim> = claims.iter().step_by(every).cloned().collect();
    let (worths, _) = dual(&some, &gpus, false)?;
    let all: f64 = worths.iter().zip(&gpus).map(|(worth, gpus)| worth * gpus).sum();
    let work = |claim: &Claim| {
        let on = |(speed, worth): (&f64, &f64)| claim.gpus * worth / all * claim.need / speed;
        let runs = claim.speeds.iter().zip(&worths).filter(|(speed, _)| **speed > 0.0);
        runs.map(on).fold(f64::INFINITY, f64::min)
    };
    let alone = |claim: &Claim| claim.need / claim.fastest();
    let submits: Vec<f64> = jobs.iter().map(|job| job.submit_ms as f64 / 1e3).collect();
    let works: Vec<f64> = claims.iter().map(work).collect();
    let (sum, last) = shortest_first(&submits, &works);
    let count = jobs.len().max(1) as f64;
    let fastest = claims.iter().map(alone).sum::<f64>();
    let latest = claims.iter().zip(&submits).map(|(claim, submit)| submit + alone(claim)).fold(0.0, f64::max);
    let due = |((job, claim), work): ((&GangJob, &Claim), &f64)| {
        let (submit_s, due_s) = (job.submit_ms as f64 / 1e3, job.due_ms? as f64 / 1e3);
        Some(Due { submit_s, due_s, work_s: *work, alone_s: alone(claim) })
    };
    let dues: Vec<Due> = jobs.iter().zip(&claims).zip(&works).filter_map(due).collect();
    Ok(AllocationBound { late: least_late(&dues), mean_s: sum.max(fastest) / count, makespan_s: last.max(latest) })
}

/// Sum of the times from submission to end, and the last end, on one machine that serves the least remaining work first.
fn shortest_first(submits: &[f64], works: &[f64]) -> (f64, f64) {
    let mut waiting: BinaryHeap<Reverse<Work>> = BinaryHeap::new();
    let (mut now, mut ends) = (0.0f64, 0.0f64);
    let mut next = 0;
    loop {
        if waiting.is_empty() {
            let Some(submit) = submits.get(next) else { break };
            now = now.max(*submit);
        }
        while submits.get(next).is_some_and(|submit| *submit <= now) {
            waiting.push(Reverse(Work(works.get(next).copied().unwrap_or(0.0))));
            next += 1;
        }
        let Some(Reverse(Work(left))) = waiting.pop() else { break };
        let until = submits.get(next).copied().unwrap_or(f64::INFINITY);
        if now + left > until {
            waiting.push(Reverse(Work(left - (until - now))));
            now = until;
        } else {
            now += left;
            ends += now;
        }
    }
    (ends - submits.iter().sum::<f64>(), now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::host::HostUse;
    use super::super::job::{DeadlineDraw, DrawnRuns, JobDraw, draw};
    use super::super::policy::AllocationPolicy;
    use super::super::pool::pools;
    use super::super::pool::tests::rate;
    use super::super::replay::{RoundOptions, replay};
    use super::*;

    #[test]
    fn the_worked_example() {
        let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 1.0)]).unwrap();
        let job = |steps: f64| GangJob {
            name: "j".into(),
            kind: 0,
            submit_ms: 0,
            steps,
            weight: 1.0,
            user: None,
            due_ms: None,
            host: HostUse::Any,
        };
        let result = bound(&fleet, &[job(3600.0), job(10_800.0)]).unwrap();
        assert!((result.mean_s - 9_000.0).abs() < 1e-3 && (result.makespan_s - 14_400.0).abs() < 1e-3, "{result:?}");
        // The second comes after half an hour and is done first if it is short: 1 h + half an hour, and half an hour.
        assert_eq!(shortest_first(&[0.0, 0.5], &[1.0, 0.25]), (1.25 + 0.25, 1.25));
    }

    #[test]
    fn no_policy_undercuts_it() {
        let mut rates = Vec::new();
        for (job, speeds) in [("a", [8.0, 4.0, 1.0]), ("b", [3.0, 2.0, 1.5]), ("c", [5.0, 0.0, 2.0])] {
            for (gpu, speed) in ["v100", "p100", "k80"].into_iter().zip(speeds) {
                rates.extend([1u32, 2, 4].map(|gpus| rate(gpu, job, gpus, speed * f64::from(gpus).powf(0.9))));
            }
        }
        let fleet = TypedFleet::new(pools("v100=4,p100=4,k80=4").unwrap(), &rates).unwrap();
        for seed in 0..6 {
            let deadlines = Some(DeadlineDraw { share: 0.5, runs: (1.1, 2.0) });
            let per_hour = (seed % 2 == 0).then_some(8.0);
            let what = JobDraw {
                jobs: 30,
                per_hour,
                runs: DrawnRuns::Hours,
                gangs: seed < 4,
                deadlines,
                ..JobDraw::default()
            };
            let jobs = draw(&fleet, &what, seed).unwrap();
            let late = |ends: &[i64]| {
                jobs.iter().zip(ends).filter(|(job, end)| job.due_ms.is_some_and(|due| **end > due)).count()
            };
            let least = bound(&fleet, &jobs).unwrap();
            for policy in AllocationPolicy::ALL.into_iter().filter(|policy| !policy.resizes()) {
                if policy == AllocationPolicy::Allox && seed < 4 {
                    continue;
                }
                let options = RoundOptions { round_ms: 60_000, ..RoundOptions::default() };
                let result = replay(&fleet, &jobs, policy, &options).unwrap();
                assert!(late(&result.ends_ms) >= least.late, "{policy:?}: {least:?}");
                let took = |(end, job): (&i64, &GangJob)| (end - job.submit_ms) as f64 / 1e3;
                let mean = result.ends_ms.iter().zip(&jobs).map(took).sum::<f64>() / jobs.len() as f64;
                let last = *result.ends_ms.iter().max().unwrap() as f64 / 1e3;
                assert!(mean >= least.mean_s && last >= least.makespan_s, "{policy:?}: {mean} {last} {least:?}");
            }
        }
    }
}
