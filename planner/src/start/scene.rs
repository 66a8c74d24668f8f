//! A moment of a cluster, replayed forward again and again with drawn runs and drawn arrivals.
//!
//! At the moment some jobs run and some wait. Each draw replays them by the [engine](crate::sim), from then on as time 0: those that run are on nodes by the placement rule, with what is
//! left of a drawn run; those that wait have a drawn run and wait in the order of the policy; others arrive as they did on an earlier day, counted from the same hour, where the order lets
//! later jobs start first. Nodes are those of the moment: what changes later nobody knows. What a scheduler believes of a run (a limit, a prediction) is what it believed.
//!
//! O(draws × replay). Worked number: one node, a job on it with 1 h or 3 h left, each as likely, and one behind it: the starts that are drawn are 1 h and 3 h.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};
use statrs::distribution::{ContinuousCDF as _, Normal};
use tracecast_analytics::time::DAY_MS;

use super::runs::{ALIKE, Like, RunsAhead};
use crate::error::Result;
use crate::sim::cluster::value_at;
use crate::sim::{self, Cluster, Order, Outage, Policy, Scan, Warm, Workload};

/// A start that no replay comes to, milliseconds from the moment: a job that is never let in.
pub const NEVER_MS: i64 = 3650 * DAY_MS;
/// Time for which others arrive, milliseconds.
const ARRIVALS_MS: i64 = DAY_MS;
/// Earlier days on whose arrivals draws go by turns.
const DAYS: i64 = 7;

/// A moment of a cluster.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// Jobs of all times; those that run, wait or arrive are among them.
    pub workload: &'a Workload,
    /// Nodes, as they are at the moment.
    pub cluster: Cluster,
    /// Policy.
    pub policy: &'a Policy,
    /// The moment, milliseconds from the origin of the workload.
    pub now_ms: i64,
    /// Jobs that run, with their starts, in order of these.
    pub running: Vec<(u32, i64)>,
    /// Jobs that wait, in order of submission.
    pub waiting: Vec<u32>,
}

/// Whether jobs that come later can start before those that wait.
fn later_jobs_matter(policy: &Policy) -> bool {
    !(policy.order == Order::Fifo && policy.scan == Scan::Strict)
}

/// The nodes and quotas of a cluster as they are at a moment, for a replay in which that is time 0.
pub fn cluster_at(cluster: &Cluster, now_ms: i64) -> Cluster {
    fn at<T: Copy>(values: &[(i64, T)], now_ms: i64) -> Vec<(i64, T)> {
        value_at(values, now_ms).map(|value| (0, value)).into_iter().collect()
    }
    let mut result = cluster.clone();
    for group in result.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
        group.sizes = at(&group.sizes, now_ms);
    }
    for vc in &mut result.vcs {
        vc.quota_milli = at(&vc.quota_milli, now_ms);
        vc.guarantee_milli = at(&vc.guarantee_milli, now_ms);
    }
    // A node that is out is taken to be out for a day: when it is back nobody knows.
    let is_out = |outage: &&Outage| outage.from_ms <= now_ms && now_ms < outage.to_ms;
    result.outages =
        cluster.outages.iter().filter(is_out).map(|outage| Outage { from_ms: -1, to_ms: DAY_MS, ..*outage }).collect();
    result
}

impl Scene<'_> {
    /// Jobs that arrive within a day, as they did so many days earlier: those submitted then, with when, from the moment on.
    fn arrivals(&self, days: i64, is_in: &dyn Fn(u32) -> bool) -> Vec<(u32, i64)> {
        let from = self.now_ms - days * DAY_MS;
        let submits = &self.workload.submit_ms;
        let first = submits.partition_point(|submit| *submit < from);
        let until = submits.partition_point(|submit| *submit < from + ARRIVALS_MS.min(days * DAY_MS));
        let jobs = (first..until).filter_map(|job| u32::try_from(job).ok()).filter(|job| is_in(*job));
        jobs.map(|job| (job, submits.get(job as usize).copied().unwrap_or(from) - from)).collect()
    }

    /// When the jobs that wait start, in each draw: milliseconds from the moment, in the order of `waiting`. `ahead` says what a job may run that has run so
    /// many seconds, `is_in` which jobs may arrive.
    ///
    /// # Errors
    /// If the engine does not take the jobs.
    pub(super) fn draw(
        &self,
        draws: usize,
        seed: u64,
        ahead: &dyn Fn(u32, f64) -> RunsAhead,
        is_in: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<Vec<i64>>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let elapsed = |start: i64| (self.now_ms - start).max(0) as f64 / 1e3;
        let running: Vec<RunsAhead> = self.running.iter().map(|(job, start)| ahead(*job, elapsed(*start))).collect();
        let waiting: Vec<RunsAhead> = self.waiting.iter().map(|job| ahead(*job, 0.0)).collect();
        let normal = Normal::standard();
        let others_matter = later_jobs_matter(self.policy);
        let variants = if others_matter { DAYS } else { 1 };
        let mut result = vec![Vec::with_capacity(draws); self.waiting.len()];
        for variant in 1..=variants {
            let arriving = if others_matter { self.arrivals(variant, is_in) } else { Vec::new() };
            let coming: Vec<RunsAhead> = arriving.iter().map(|(job, _)| ahead(*job, 0.0)).collect();
            let Jobs { mut workload, places } = self.jobs(&arriving);
            let of_variant = (draws + variants as usize - variant as usize) / variants as usize;
            let likes: Vec<Like> = places.iter().map(|at| Like::new(&workload, *at)).collect();
            for _ in 0..of_variant {
                let mut alike: BTreeMap<Like, f64> = BTreeMap::new();
                let mut z = || -> f64 { StandardNormal.sample(&mut rng) };
                let aheads = running.iter().chain(&waiting).chain(&coming);
                for ((at, like), ahead) in places.iter().zip(&likes).zip(aheads) {
                    let shared = *alike.entry(*like).or_insert_with(&mut z);
                    let drawn = normal.cdf(ALIKE.sqrt() * shared + (1.0 - ALIKE).sqrt() * z());
                    if let Some(run) = workload.run_ms.get_mut(*at as usize) {
                        *run = (ahead.left_s(drawn) * 1e3).round() as i64;
                    }
                }
                let schedule = sim::simulate(&workload, &self.cluster, self.policy)?;
                let waits = places.iter().skip(running.len());
                for (starts, at) in result.iter_mut().zip(waits) {
                    starts.push(schedule.start_ms(*at as usize).map_or(NEVER_MS, |start| start.max(0)));
                }
            }
        }
        Ok(result)
    }

    /// The jobs of a draw, without their runs.
    fn jobs(&self, arriving: &[(u32, i64)]) -> Jobs {
        let submit = |job: u32| self.workload.submit_ms.get(job as usize).copied().unwrap_or(self.now_ms) - self.now_ms;
        let running = self.running.iter().map(|(job, _)| (*job, submit(*job).min(0)));
        let waiting = self.waiting.iter().map(|job| (*job, submit(*job)));
        let all: Vec<(u32, i64)> = running.chain(waiting).chain(arriving.iter().copied()).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        // Stable: of equals those that run come first.
        order.sort_by_key(|at| all.get(*at).map(|(_, submit)| *submit));
        let sorted: Vec<(u32, i64)> = order.iter().filter_map(|at| all.get(*at).copied()).collect();
        let mut places = vec![0u32; all.len()];
        for (place, at) in (0u32..).zip(&order) {
            if let Some(slot) = places.get_mut(*at) {
                *slot = place;
            }
        }
        let jobs: Vec<u32> = sorted.iter().map(|(job, _)| *job).collect();
        let mut workload = self.workload.arranged(&jobs, sorted.iter().map(|(_, submit)| *submit).collect());
        workload.unfinished.clear();
        let warm = places.iter().zip(&self.running);
        workload.warm = warm.map(|(at, (_, start))| Warm { job: *at, start_ms: start - self.now_ms }).collect();
        // Of one that runs, what a scheduler believes is of what is left.
        for (at, (_, start)) in places.iter().zip(&self.running) {
            let elapsed_ms = (self.now_ms - start).max(0);
            if let Some(Some(limit)) = workload.requested_ms.get_mut(*at as usize) {
                *limit = (*limit - elapsed_ms).max(1000);
            }
            if let Some(Some(predicted)) = workload.predicted_s.get_mut(*at as usize) {
                *predicted = (*predicted - elapsed_ms as f64 / 1e3).max(1.0);
            }
        }
        Jobs { workload, places }
    }
}

/// Jobs of a draw, and where in them those that run, those that wait and those that arrive are, in this order.
struct Jobs {
    workload: Workload,
    places: Vec<u32>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::runs::{Like, PastRuns};
    use super::*;
    use crate::sim::Shape;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_number() {
        let mut workload = Workload::default();
        workload.push(0, HOUR, Shape::whole(8));
        workload.push(HOUR, HOUR, Shape::whole(8));
        let policy = Policy::default();
        let scene = Scene {
            workload: &workload,
            cluster: Cluster::of_vcs(&[("all", 1, 8)]),
            policy: &policy,
            now_ms: 2 * HOUR,
            running: vec![(0, 0)],
            waiting: vec![1],
        };
        let mut past = PastRuns::default();
        let like = Like { user: 0, amount: 8000 };
        // It has run 2 h: what lasted longer took 3 and 5 h.
        [1.0, 3.0, 5.0].into_iter().for_each(|hours| past.learn(like, hours * 3600.0));
        let starts = scene.draw(40, 1, &|_, elapsed| past.ahead(like, elapsed, None), &|_| true).unwrap();
        let mut found = starts[0].clone();
        found.sort_unstable();
        found.dedup();
        assert_eq!((starts[0].len(), found), (40, vec![HOUR, 3 * HOUR]));
    }

    /// A short job that arrives each day is let in first by the shortest first, and not by strict FIFO.
    #[test]
    fn arrivals_count_where_they_can_be_first() {
        let mut workload = Workload::default();
        for day in 0..8 {
            workload.push(day * DAY_MS, 3 * HOUR, Shape::whole(8));
            workload.push(day * DAY_MS + HOUR, 5 * HOUR, Shape::whole(8));
            workload.push(day * DAY_MS + 2 * HOUR, HOUR / 2, Shape::whole(8));
        }
        workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
        let starts = |policy: &Policy| {
            let now_ms = 7 * DAY_MS + HOUR;
            let scene = Scene {
                workload: &workload,
                cluster: Cluster::of_vcs(&[("all", 1, 8)]),
                policy,
                now_ms,
                running: vec![(21, 7 * DAY_MS)],
                waiting: vec![22],
            };
            let ahead = |job: u32, elapsed: f64| {
                let mut past = PastRuns::default();
                let like = Like { user: 0, amount: 8000 };
                past.learn(like, workload.run_ms[job as usize] as f64 / 1e3);
                past.ahead(like, elapsed, None)
            };
            scene.draw(7, 1, &ahead, &|_| true).unwrap()[0].clone()
        };
        let shortest = Policy { order: Order::Sjf, estimate: sim::Estimate::Predicted, ..Policy::default() };
        assert_eq!(starts(&Policy::default()), [2 * HOUR; 7]);
        assert_eq!(starts(&shortest), [2 * HOUR + HOUR / 2; 7]);
    }
}
