//! The jobs of a GPU type beside what they can run on, and what a number of nodes and a waiting policy make of them.
//!
//! The nodes of the pool are paid around the clock, used or not. The cloud is paid as `plan rent
//! fleet` pays it: an hour needs the most GPUs that are there at once within it, and rents the
//! whole
//! instances on demand that cover this for the least money. So *all on demand* costs here what it costs there. The wait of a job is from its submission to its start, here or there, and is told of the jobs that were
//! submitted in a stretch; hours are paid by when they are.
//!
//! **Put off**: who waits runs later, and what waits at the end of a stretch would run beyond it for nothing. So a stretch also pays for the GPU-hours that its jobs run after its end and would have run
//! before it had nobody waited, at the price of a GPU where they run; what jobs of before put off into it, it does not pay. Where nobody waits this is nothing, and over stretches in a row it adds up.
//!
//! O(jobs log jobs + hours) a trial. Worked example: 1 node of 4 GPUs at 6 an hour, on-demand 2.5 for an hour of a GPU. In an hour 3 GPUs are in use in the pool and at most 2 in the cloud: it
//! costs 6 + 5. If a job of 2 GPUs and half an hour waits in the pool until the hour is over, the hour pays 2 × 0.5 × 6 / 4 = 1.5 more.

use std::collections::BTreeMap;
use std::ops::Range;

use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::HOUR_MS;

use super::engine::{BurstJobs, BurstPool, BurstTimes, MILLI, replay};
use super::policy::{RunsFrom, WaitingPolicy};
use crate::error::Result;
use crate::market::demand::{HourDemand, UnwaitedJob, peaks};
use crate::market::rent::HourRents;
use crate::market::supply::{Commitment, PoolSupply};
use crate::plan::waits::{FEWEST_OF_CLASS, TAIL, nearest_rank_s};
use crate::plan::weeks::Moments;

/// How long a job has waited when nobody passes it any more: a day.
pub const GUARD_MS: i64 = 24 * HOUR_MS;

/// A number of nodes and a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstSetup {
    /// Nodes of the pool.
    pub nodes: u32,
    /// Policy that says who waits.
    pub policy: WaitingPolicy,
    /// Where the policy knows runs from.
    pub runs: RunsFrom,
}

impl BurstSetup {
    /// Nobody waits.
    pub fn unwaited(nodes: u32) -> Self {
        Self { nodes, policy: WaitingPolicy::Nobody, runs: RunsFrom::Predicted }
    }
}

/// What a stretch cost, who served it, and how long its jobs waited.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BurstSpent {
    /// The pool.
    pub own: f64,
    /// The cloud.
    pub cloud: f64,
    /// What was put off to later, less what was put off to now.
    pub put_off: f64,
    /// GPU-hours that the pool could have served.
    pub room_gpu_h: f64,
    /// GPU-hours that it served.
    pub own_gpu_h: f64,
    /// GPU-hours of jobs in the cloud.
    pub cloud_gpu_h: f64,
    /// Jobs submitted.
    pub jobs: u64,
    /// Jobs that waited.
    pub waited: u64,
    /// Jobs that ran in the cloud.
    pub cloud_jobs: u64,
    /// Waits together, seconds.
    pub wait_s: f64,
}

impl BurstSpent {
    /// All of it.
    pub fn cost(&self) -> f64 {
        self.own + self.cloud + self.put_off
    }

    /// Adds another stretch or pool.
    pub fn add(&mut self, other: &Self) {
        self.own += other.own;
        self.cloud += other.cloud;
        self.put_off += other.put_off;
        self.room_gpu_h += other.room_gpu_h;
        self.own_gpu_h += other.own_gpu_h;
        self.cloud_gpu_h += other.cloud_gpu_h;
        self.jobs += other.jobs;
        self.waited += other.waited;
        self.cloud_jobs += other.cloud_jobs;
        self.wait_s += other.wait_s;
    }
}

impl<'s> std::iter::Sum<&'s Self> for BurstSpent {
    fn sum<I: Iterator<Item = &'s Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, of| {
            sum.add(of);
            sum
        })
    }
}

/// A job that was submitted in a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaitedJob {
    /// Size of the job.
    pub size: SizeClass,
    /// Wait of the job, ms.
    pub wait_ms: i64,
    /// Whether it ran in the cloud.
    pub cloud: bool,
}

/// The jobs of a GPU type, and what they can run on.
#[derive(Debug, Clone)]
pub struct BurstPart {
    /// GPU type.
    pub gpu: String,
    /// Nodes of the pool: reserved, or one's own.
    pub own: Commitment,
    /// On-demand, without spot.
    pub supply: PoolSupply,
    /// The longest wait of a policy that has a limit, ms.
    pub most_ms: i64,
    predicted: BurstJobs,
    recorded: BurstJobs,
    gpus: Vec<f64>,
}

impl BurstPart {
    /// The jobs of a pool of offers, of those `all`, with what each row of the trace is predicted to run, seconds.
    pub fn new(
        (gpu, pool): (&str, usize),
        all: &[UnwaitedJob],
        predicted_s: &[f64],
        (own, supply): (Commitment, PoolSupply),
        most_ms: i64,
    ) -> Self {
        let jobs: Vec<&UnwaitedJob> = all.iter().filter(|job| job.pool == pool).collect();
        let run_ms: Vec<i64> = jobs.iter().map(|job| job.run_ms).collect();
        let predicted = |job: &&UnwaitedJob| {
            // Longer than any record is long enough.
            (predicted_s.get(job.row).copied().unwrap_or(0.0).clamp(0.0, 1e12) * 1e3).round() as i64
        };
        let recorded = BurstJobs {
            submit_ms: jobs.iter().map(|job| job.submit_ms).collect(),
            milli_gpus: jobs.iter().map(|job| ((job.gpus * MILLI as f64).round() as u64).max(1)).collect(),
            expected_ms: run_ms.clone(),
            run_ms,
        };
        Self {
            gpu: gpu.to_owned(),
            own,
            supply,
            most_ms,
            predicted: BurstJobs { expected_ms: jobs.iter().map(predicted).collect(), ..recorded.clone() },
            gpus: jobs.iter().map(|job| job.gpus).collect(),
            recorded,
        }
    }

    /// Replays all jobs. O(jobs log jobs).
    ///
    /// # Errors
    /// If the engine refuses the jobs, which no record should bring about.
    pub fn replay(&self, setup: &BurstSetup) -> Result<Vec<BurstTimes>> {
        let jobs = match setup.runs {
            RunsFrom::Predicted => &self.predicted,
            RunsFrom::Recorded => &self.recorded,
        };
        let milli_gpus = (f64::from(setup.nodes) * self.own.gpus * MILLI as f64).round() as u64;
        replay(jobs, BurstPool { milli_gpus, guard_ms: GUARD_MS }, &setup.policy.waits(jobs, self.most_ms))
    }

    /// What the cloud costs in each whole hour of a stretch. O(jobs log jobs + hours).
    pub fn cloud_costs(&self, times: &[BurstTimes], (from, to): Moments) -> Vec<f64> {
        let away = self.ran(times).filter(|(_, times, _)| times.cloud);
        let needs: Vec<(i64, i64, f64)> = away
            .map(|(job, times, run)| (times.start_ms, times.start_ms + run, self.gpus.get(job).copied().unwrap_or(0.0)))
            .filter(|(start, end, _)| *start < to && *end > from)
            .collect();
        let peaks = peaks(needs, from, to);
        let rents = HourRents::new(&self.supply, peaks.iter().copied().fold(0.0, f64::max));
        peaks.into_iter().map(|peak| rents.fill(HourDemand::new(peak, peak), 0.0, 0).cost).collect()
    }

    /// Position, times and run of each job.
    fn ran<'a>(&'a self, times: &'a [BurstTimes]) -> impl Iterator<Item = (usize, &'a BurstTimes, i64)> {
        times.iter().zip(&self.recorded.run_ms).enumerate().map(|(job, (times, run))| (job, times, *run))
    }

    /// Cost of an hour of the pool.
    fn own_per_h(&self, nodes: u32) -> f64 {
        f64::from(nodes) * self.own.per_h
    }

    /// What the jobs submitted before a moment run after it and would have run before it had they not waited, at the price of a GPU where they run. O(jobs).
    fn put_off(&self, times: &[BurstTimes], at: i64) -> f64 {
        let in_cloud = self.supply.on_demand.first().map_or(0.0, |rental| rental.per_gpu_h);
        let in_pool = self.own.per_h / self.own.gpus;
        let after = |start: i64, run: i64| (start + run).max(at) - start.max(at);
        let jobs = self.ran(times).zip(&self.recorded.submit_ms).zip(&self.gpus);
        jobs.filter(|((_, submit), _)| **submit < at)
            .map(|(((_, times, run), submit), gpus)| {
                let put_off = after(times.start_ms, run) - after(*submit, run);
                let price = if times.cloud { in_cloud } else { in_pool };
                put_off as f64 / HOUR_MS as f64 * gpus * price
            })
            .sum()
    }

    /// Cost of a stretch. O(jobs log jobs + hours).
    pub fn cost(&self, setup: &BurstSetup, times: &[BurstTimes], stretch: Moments) -> f64 {
        let cloud = self.cloud_costs(times, stretch);
        let end = stretch.0 + cloud.len() as i64 * HOUR_MS;
        self.own_per_h(setup.nodes) * cloud.len() as f64 + cloud.iter().sum::<f64>() + self.put_off(times, end)
            - self.put_off(times, stretch.0)
    }

    /// The jobs submitted in a stretch.
    pub fn waits<'a>(
        &'a self,
        times: &'a [BurstTimes],
        (from, to): Moments,
    ) -> impl Iterator<Item = WaitedJob> + use<'a> {
        let submitted = self.recorded.submit_ms.iter().zip(times).zip(&self.gpus);
        submitted.filter(move |((submit, _), _)| (from..to).contains(*submit)).map(|((submit, times), gpus)| {
            WaitedJob { size: SizeClass::new(*gpus), wait_ms: times.start_ms - submit, cloud: times.cloud }
        })
    }

    /// The wait that 95 % of the jobs submitted in a stretch do not exceed, and 95 % of those of each size class with at least [20](FEWEST_OF_CLASS) jobs, seconds; 0 without
    /// jobs. O(jobs).
    pub fn p95_s(&self, times: &[BurstTimes], stretch: Moments) -> f64 {
        let mut all = Vec::new();
        let mut by_size: BTreeMap<SizeClass, Vec<i64>> = BTreeMap::new();
        for job in self.waits(times, stretch) {
            all.push(job.wait_ms);
            by_size.entry(job.size).or_default().push(job.wait_ms);
        }
        let classes = by_size.values().filter(|waits| waits.len() >= FEWEST_OF_CLASS);
        classes.chain([&all]).filter_map(|waits| nearest_rank_s(waits, TAIL)).fold(0.0, f64::max)
    }

    /// What each of some ranges of hours of a stretch cost, and so on. O(jobs log jobs + jobs × ranges + hours).
    pub fn account(
        &self,
        setup: &BurstSetup,
        times: &[BurstTimes],
        stretch: Moments,
        ranges: &[Range<usize>],
    ) -> Vec<BurstSpent> {
        let cloud = self.cloud_costs(times, stretch);
        let of = |range: &Range<usize>| {
            let hours = range.len() as f64;
            let (from, to) = (stretch.0 + range.start as i64 * HOUR_MS, stretch.0 + range.end as i64 * HOUR_MS);
            let mut spent = BurstSpent {
                own: self.own_per_h(setup.nodes) * hours,
                cloud: cloud.get(range.clone()).unwrap_or(&[]).iter().sum(),
                put_off: self.put_off(times, to) - self.put_off(times, from),
                room_gpu_h: f64::from(setup.nodes) * self.own.gpus * hours,
                ..BurstSpent::default()
            };
            for (job, times, run) in self.ran(times) {
                let inside = ((times.start_ms + run).min(to) - times.start_ms.max(from)).max(0);
                let gpu_h = self.gpus.get(job).copied().unwrap_or(0.0) * inside as f64 / HOUR_MS as f64;
                *(if times.cloud { &mut spent.cloud_gpu_h } else { &mut spent.own_gpu_h }) += gpu_h;
            }
            for job in self.waits(times, (from, to)) {
                spent.jobs += 1;
                spent.waited += u64::from(job.wait_ms > 0);
                spent.cloud_jobs += u64::from(job.cloud);
                spent.wait_s += job.wait_ms as f64 / 1e3;
            }
            spent
        };
        ranges.iter().map(of).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use tracecast_analytics::time::MINUTE_MS;

    use super::*;
    use crate::market::grid::WeekShape;
    use crate::market::supply::{Rental, SpotState, Term};

    /// A part with nodes of 4 GPUs at 6 an hour, beside on-demand at 2.5 a GPU and hour; submission and run in minutes, GPUs. Runs are predicted as they are.
    pub(in crate::burst) fn part(jobs: &[(i64, i64, f64)], most_ms: i64) -> BurstPart {
        let unwaited = |(row, (submit, run, gpus)): (usize, &(i64, i64, f64))| UnwaitedJob {
            row,
            pool: 0,
            submit_ms: submit * MINUTE_MS,
            run_ms: run * MINUTE_MS,
            gpus: *gpus,
        };
        let all: Vec<UnwaitedJob> = jobs.iter().enumerate().map(unwaited).collect();
        let predicted: Vec<f64> = jobs.iter().map(|(_, run, _)| *run as f64 * 60.0).collect();
        let own = Commitment {
            name: "own".to_owned(),
            term: Term::Owned,
            gpus: 4.0,
            per_h: 6.0,
            listed: 6.0,
            limit: None,
            kg_per_h: 0.0,
            by_hour: WeekShape::default(),
        };
        let rental = Rental {
            name: "rented".to_owned(),
            zone: None,
            gpus: 1.0,
            per_gpu_h: 2.5,
            listed: 2.5,
            overhead: 1.0,
            limit: f64::INFINITY,
            kg_per_gpu_h: 0.0,
            by_hour: WeekShape::default(),
        };
        let supply = PoolSupply {
            commitments: vec![own.clone()],
            on_demand: vec![rental],
            spot: Vec::new(),
            states: vec![SpotState { weight: 1.0, shares: Vec::new() }],
            unit: 1.0,
        };
        BurstPart::new(("V", 0), &all, &predicted, (own, supply), most_ms)
    }

    #[test]
    fn the_worked_example() {
        // 3 GPUs run in the pool; of two jobs of 2 and one of 1, the 1 fits beside, and the first 2 is gone when the second comes.
        let part = part(&[(0, 60, 3.0), (0, 20, 2.0), (10, 10, 1.0), (30, 20, 2.0)], HOUR_MS);
        let setup = BurstSetup::unwaited(1);
        let times = part.replay(&setup).unwrap();
        assert!((part.cost(&setup, &times, (0, HOUR_MS)) - 11.0).abs() < 1e-12);
        let result = part.account(&setup, &times, (0, 2 * HOUR_MS), &[0..1, 1..2]);
        let (first, second) = (result[0], result[1]);
        assert_eq!((first.own, first.cloud, second.own, second.cloud), (6.0, 5.0, 6.0, 0.0));
        assert!((first.own_gpu_h - (3.0 + 1.0 / 6.0)).abs() < 1e-9 && (first.cloud_gpu_h - 4.0 / 3.0).abs() < 1e-9);
        assert_eq!((first.jobs, first.waited, first.cloud_jobs, second.jobs), (4, 0, 2, 0));
        // Where all wait, nothing is rented: the first of 2 GPUs waits for an hour, and the last follows it, or goes beside.
        let all = BurstSetup { policy: WaitingPolicy::Everybody, ..setup };
        let times = part.replay(&all).unwrap();
        let result = part.account(&all, &times, (0, 2 * HOUR_MS), std::slice::from_ref(&(0..2)));
        assert_eq!((result[0].cloud, result[0].waited, result[0].cloud_jobs), (0.0, 2, 0));
        assert!(
            (result[0].wait_s - 90.0 * 60.0).abs() < 1e-9 && (part.p95_s(&times, (0, HOUR_MS)) - 3600.0).abs() < 1e-9
        );
    }

    #[test]
    fn what_is_put_off_beyond_the_end_is_paid() {
        // A job of 2 GPUs and half an hour comes at 50 min to a node that is full until 60.
        let part = part(&[(0, 60, 4.0), (50, 30, 2.0)], HOUR_MS);
        let hour = |policy: WaitingPolicy, from: i64, to: i64| {
            let setup = BurstSetup { policy, ..BurstSetup::unwaited(1) };
            let times = part.replay(&setup).unwrap();
            let cost = part.cost(&setup, &times, (from * HOUR_MS, to * HOUR_MS));
            let all = part.account(
                &setup,
                &times,
                (from * HOUR_MS, to * HOUR_MS),
                std::slice::from_ref(&(0..(to - from) as usize)),
            );
            assert!((all[0].cost() - cost).abs() < 1e-9);
            cost
        };
        // Nobody waiting, 10 min in the first hour and 20 in the second: two instances in each. Put off, a sixth of an hour of 2 GPUs moved to the second.
        let waits = WaitingPolicy::Everybody;
        assert!(
            (hour(WaitingPolicy::Nobody, 0, 1) - 11.0).abs() < 1e-9
                && (hour(WaitingPolicy::Nobody, 1, 2) - 11.0).abs() < 1e-9
        );
        assert!((hour(waits, 0, 1) - 6.5).abs() < 1e-9 && (hour(waits, 1, 2) - 5.5).abs() < 1e-9);
        assert!((hour(waits, 0, 2) - 12.0).abs() < 1e-9);
    }

    #[test]
    fn work_is_conserved_and_the_target_is_for_each_size() {
        // 30 jobs of 1 GPU never wait on 3 nodes; 25 of 12 GPUs do, as one fills the pool.
        let mut jobs: Vec<(i64, i64, f64)> = (0..25).map(|at| (at * 40, 60, 12.0)).collect();
        jobs.extend((0..600).map(|at| (2_000 + at, 5, 1.0)));
        let part = part(&jobs, 24 * HOUR_MS);
        let work: f64 = jobs.iter().map(|(_, run, gpus)| *run as f64 / 60.0 * gpus).sum();
        for policy in [
            WaitingPolicy::Nobody,
            WaitingPolicy::Everybody,
            WaitingPolicy::UpTo(30 * MINUTE_MS),
            WaitingPolicy::Wide(8),
            WaitingPolicy::LongOrShortWaits(HOUR_MS, 0),
        ] {
            let setup = BurstSetup { nodes: 3, policy, runs: RunsFrom::Recorded };
            let times = part.replay(&setup).unwrap();
            let result = part.account(&setup, &times, (0, 200 * HOUR_MS), std::slice::from_ref(&(0..200)));
            assert!((result[0].own_gpu_h + result[0].cloud_gpu_h - work).abs() < 1e-6, "{policy:?}");
            assert!(result[0].own_gpu_h <= result[0].room_gpu_h && result[0].jobs == 625, "{policy:?}");
        }
        let setup = BurstSetup { policy: WaitingPolicy::UpTo(30 * MINUTE_MS), ..BurstSetup::unwaited(3) };
        let times = part.replay(&setup).unwrap();
        let all: Vec<i64> = part.waits(&times, (0, 200 * HOUR_MS)).map(|job| job.wait_ms).collect();
        // 4 % of the jobs are wide: of all, 95 % do not wait; of the wide ones, they wait half an hour.
        assert_eq!(nearest_rank_s(&all, TAIL), Some(0.0));
        assert_eq!(part.p95_s(&times, (0, 200 * HOUR_MS)), 1_800.0);
    }
}
