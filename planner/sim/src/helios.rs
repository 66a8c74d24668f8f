//! The simulator published with the Helios traces, rule by rule, so that its published figures can be had again.
//!
//! Its clock counts whole seconds, every VC is alone on equal nodes, and time 0 is the submission of the first job. FIFO, SJF and QSSF
//! are the engine's strict walk with two differences: GPUs are given back in the second after a job of length zero started, and QSSF orders
//! jobs that come to an empty queue by GPUs in their first second and by priority only from the next on. This module has the other two,
//! which stop running jobs:
//!
//! * **SRTF**, every second: a running job with nothing left ends, any other has a second less left (so a job ends its run + 1 s after its
//!   start). Waiting and running jobs are sorted by what is left, waiting ones first where equal, and walked with the VC's GPUs as a
//!   quota, passing over what does not fit. Waiting jobs within the quota are to start; running jobs outside it are stopped, get 7, 30 or
//!   60 s (1, 2–8, more GPUs) added to what is left, and go to the end of the queue. Those to start are placed in order; one
//!   that finds no nodes waits on. A job stopped in a second does not start in it.
//! * **Tiresias** (Lucid's successor of that simulator): the same, but decided only in seconds that are multiples of 60; two queues, the lower
//!   for those that held more than 18,000 GPU-seconds (seconds that pay for a preemption included), FIFO by submission in each, running
//!   jobs first where equal; 40 s up to 8 GPUs, 60 s above.
//!
//! Two defects are mended: a job larger than its VC is rejected instead of blocking it for ever, and a job of length zero ends.
//!
//! Seconds in which nothing can change are passed over: after one without arrival, end, start and stop, the next that matters is an
//! arrival, an end, or the first in which a running job comes to have less left than a waiting one. O(waiting + running) for a
//! second that matters.
//!
//! Worked number: one node; A (8 GPUs, 10 s) at 0 s, B (8 GPUs, 2 s) at 3 s. At 3 s A has 7 s left and is stopped with 37; B runs 3–6 s, A
//! 6–44 s.

use super::cluster::Cluster;
use super::nodes::Nodes;
use super::place::{Ask, Placer};
use super::policy::{Order, Placement, Policy, Preemption, Scan};
use super::schedule::{NO_SEGMENT, Outcome, Schedule, Segment, Stop};
use super::workload::{Shape, Workload};
use crate::error::{Error, Result};

/// Seconds between two decisions of Tiresias.
const MINUTE: i64 = 60;
const SECOND_MS: i64 = 1000;

/// Checks that the simulator could have done this.
///
/// # Errors
/// Says what it does not know.
pub(crate) fn check(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<()> {
    let wrong =
        |what: &str| Err(Error::Policy(format!("the Helios simulator does not know {what}; leave out --site compat")));
    let preemptive = matches!(policy.order, Order::Srtf | Order::Tiresias(_));
    let known =
        preemptive || matches!(policy.order, Order::Fifo | Order::FewestGpus | Order::Sjf | Order::Qssf | Order::Score);
    if !known {
        return wrong("this order");
    }
    if policy.scan != Scan::Strict {
        return wrong("this scan (it has its own for each order; leave --scan out)");
    }
    if !matches!(policy.placement, Placement::Consolidate | Placement::Random) {
        return wrong("this placement (it has consolidate and random)");
    }
    if preemptive != (policy.preemption != Preemption::Never) {
        return wrong("this order with this preemption");
    }
    let interval = matches!(policy.order, Order::Tiresias(_)).then_some(MINUTE * SECOND_MS);
    if policy.interval_ms.is_some() && policy.interval_ms != interval {
        return wrong("this interval");
    }
    let moves =
        cluster.pools.iter().any(|pool| pool.groups.len() != 1 || pool.groups.iter().any(|g| g.sizes.len() > 1));
    if moves || !cluster.outages.is_empty() {
        return wrong("nodes of several kinds, sizes that change, or nodes that fail");
    }
    let mut pools: Vec<u16> = cluster.vcs.iter().map(|vc| vc.pool).collect();
    pools.sort_unstable();
    pools.dedup();
    if pools.len() != cluster.vcs.len()
        || cluster.vcs.iter().any(|vc| !vc.quota_milli.is_empty() || !vc.guarantee_milli.is_empty())
    {
        return wrong("VCs that share nodes");
    }
    if cluster.counts_hosts(workload) {
        return wrong("processors and memory (or replay GPUs alone)");
    }
    if workload.shapes.iter().any(|shape| shape.milli > 0 || shape.nodes > 0 || shape.gpu_type.is_some()) {
        return wrong("parts of GPUs, numbers of nodes, or GPU types");
    }
    if !workload.warm.is_empty() || workload.submit_ms.first().is_some_and(|submit| *submit < 0) {
        return wrong("jobs that were there before");
    }
    let whole = |ms: &i64| ms % SECOND_MS == 0;
    if !workload.submit_ms.iter().all(whole) || !workload.run_ms.iter().all(whole) {
        return wrong("parts of a second");
    }
    Ok(())
}

/// Replays SRTF or Tiresias.
///
/// # Errors
/// Errors of [`check`].
pub(crate) fn replay(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Schedule> {
    check(workload, cluster, policy)?;
    let mut schedule = Schedule::new(workload.len());
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); cluster.pools.len()];
    for (job, vc) in (0u32..).zip(&workload.vc) {
        members[usize::from(cluster.vcs[usize::from(*vc)].pool)].push(job);
    }
    let bound = match &policy.order {
        Order::Tiresias(bounds) => bounds.clone(),
        _ => Vec::new(),
    };
    for ((pool, first), jobs) in cluster.pools.iter().zip(cluster.first_nodes()).zip(members) {
        let nodes = Nodes::new(pool, first);
        let vc = Vc {
            workload,
            policy,
            bounds: &bound,
            gpus: nodes.eligible_free(),
            placer: Placer::new(policy, &workload.shapes),
            nodes,
            schedule: &mut schedule,
            queue: Vec::new(),
            running: Vec::new(),
            left: Vec::new(),
        };
        vc.replay(&jobs)?;
    }
    Ok(schedule)
}

/// Run left of a job and GPU time held, as of a second.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// Seconds left when it was last placed or stopped.
    left_s: i64,
    /// The second in which it was placed, while it runs.
    since: Option<i64>,
    /// GPU-seconds held before that.
    attained: u64,
}

impl Left {
    /// Seconds left in second `t`.
    fn at(self, t: i64) -> i64 {
        self.since.map_or(self.left_s, |since| self.left_s - (t - since))
    }

    /// The second in which it ends.
    fn end(self) -> Option<i64> {
        self.since.map(|since| since + self.left_s + 1)
    }
}

/// One VC.
struct Vc<'a> {
    workload: &'a Workload,
    policy: &'a Policy,
    bounds: &'a [f64],
    gpus: u64,
    nodes: Nodes,
    placer: Placer,
    schedule: &'a mut Schedule,
    queue: Vec<u32>,
    running: Vec<u32>,
    /// By job of the workload, from its index in the VC.
    left: Vec<(u32, Left)>,
}

impl Vc<'_> {
    fn shape(&self, job: u32) -> Shape {
        self.workload.shapes[usize::from(self.workload.shape[job as usize])]
    }

    fn left(&mut self, job: u32) -> &mut Left {
        let at = self.left.partition_point(|(other, _)| *other < job);
        &mut self.left[at].1
    }

    fn known(&self, job: u32) -> Left {
        self.left[self.left.partition_point(|(other, _)| *other < job)].1
    }

    fn attained(&self, job: u32, t: i64) -> u64 {
        let left = self.known(job);
        let held = left.since.map_or(0, |since| (t - since).unsigned_abs());
        left.attained + held * u64::from(self.shape(job).gpus)
    }

    fn replay(mut self, jobs: &[u32]) -> Result<()> {
        let second = |job: u32| self.workload.submit_ms[job as usize] / SECOND_MS;
        let runs = |job: &u32| self.workload.run_ms[*job as usize] / SECOND_MS;
        self.left = jobs.iter().map(|job| (*job, Left { left_s: runs(job), since: None, attained: 0 })).collect();
        let mut arrived = 0;
        let mut t = jobs.first().map_or(0, |job| second(*job));
        loop {
            self.end(t);
            while let Some(job) = jobs.get(arrived).copied()
                && self.workload.submit_ms[job as usize] / SECOND_MS <= t
            {
                arrived += 1;
                if u64::from(self.shape(job).gpus) > self.gpus {
                    self.schedule.outcome[job as usize] = Outcome::Rejected;
                } else {
                    self.queue.push(job);
                }
            }
            let srtf = self.policy.order == Order::Srtf;
            let decides = !self.queue.is_empty() && (srtf || t % MINUTE == 0);
            let next_change = if decides { self.decide(t)? } else { None };
            let arrival = jobs.get(arrived).map(|job| self.workload.submit_ms[*job as usize] / SECOND_MS);
            let end = self.running.iter().filter_map(|job| self.known(*job).end()).min();
            // Tiresias decides again at the next full minute while jobs wait: what running jobs attain may have changed.
            let minute = (!srtf && !self.queue.is_empty()).then(|| (t.div_euclid(MINUTE) + 1) * MINUTE);
            match [arrival, end, next_change, minute].into_iter().flatten().min() {
                Some(next) => t = next,
                None => return Ok(()),
            }
        }
    }

    /// Jobs with nothing left end.
    fn end(&mut self, t: i64) {
        let ended: Vec<u32> = self.running.iter().copied().filter(|job| self.known(*job).end() == Some(t)).collect();
        for job in ended {
            self.running.retain(|other| *other != job);
            self.release(job, t, Stop::Done);
            self.schedule.outcome[job as usize] = Outcome::Finished;
            self.schedule.end_ms[job as usize] = t * SECOND_MS;
        }
    }

    fn release(&mut self, job: u32, t: i64, stop: Stop) {
        let at = self.schedule.last_segment[job as usize] as usize;
        let segment = self.schedule.segments[at];
        for piece in self.schedule.pieces_of(&segment) {
            self.nodes.give(piece);
        }
        self.schedule.segments[at].end_ms = t * SECOND_MS;
        self.schedule.segments[at].stop = stop;
        let attained = self.attained(job, t);
        let left = self.left(job);
        *left = Left { left_s: left.at(t), since: None, attained };
    }

    /// Stops and starts jobs. Gives the second in which the decision can be another although nothing else happens.
    fn decide(&mut self, t: i64) -> Result<Option<i64>> {
        let srtf = self.policy.order == Order::Srtf;
        // (key, whether it runs, job), in order.
        let mut ordered: Vec<((i64, i64), bool, u32)> = Vec::with_capacity(self.queue.len() + self.running.len());
        if srtf {
            let waiting = self.queue.iter().map(|job| (false, *job));
            for (runs, job) in waiting.chain(self.running.iter().map(|job| (true, *job))) {
                ordered.push(((self.known(job).at(t), 0), runs, job));
            }
        } else {
            let running = self.running.iter().map(|job| (true, *job));
            for (runs, job) in running.chain(self.queue.iter().map(|job| (false, *job))) {
                let attained = self.attained(job, t) as f64;
                let below = self.bounds.iter().filter(|bound| attained > **bound).count() as i64;
                ordered.push(((below, self.workload.submit_ms[job as usize]), runs, job));
            }
        }
        ordered.sort_by_key(|(key, _, _)| *key);
        let mut quota = self.gpus;
        let mut starters = Vec::new();
        let mut stopped = Vec::new();
        for (_, runs, job) in &ordered {
            let gpus = u64::from(self.shape(*job).gpus);
            if gpus <= quota {
                quota -= gpus;
                if !runs {
                    starters.push(*job);
                }
            } else if *runs {
                stopped.push(*job);
            }
        }
        for job in &stopped {
            self.running.retain(|other| other != job);
            self.release(*job, t, Stop::Preempted);
            self.left(*job).left_s += self.policy.preemption.cost_ms(self.shape(*job)) / SECOND_MS;
            self.schedule.preemptions[*job as usize] += 1;
            self.queue.push(*job);
        }
        let mut changed = !stopped.is_empty();
        let mut pieces = Vec::new();
        for job in starters {
            let ask = Ask { job, shape: self.shape(job), relaxed: false };
            if !self.placer.place(&self.nodes, ask, &mut pieces) {
                continue;
            }
            for piece in &pieces {
                self.nodes.take(piece)?;
            }
            changed = true;
            self.begin(job, t, &pieces);
            self.queue.retain(|other| *other != job);
            self.running.push(job);
        }
        if !srtf {
            return Ok(None);
        }
        if changed {
            return Ok(Some(t + 1));
        }
        // A running job overtakes the waiting one before it when it has less left; neighbours are the first to do so.
        let crossing = ordered.windows(2).filter_map(|pair| match pair {
            [((waiting, _), false, _), ((running, _), true, _)] => Some(t + running - waiting + 1),
            _ => None,
        });
        Ok(crossing.min())
    }

    fn begin(&mut self, job: u32, t: i64, pieces: &[super::Piece]) {
        let at = job as usize;
        let segment = self.schedule.segments.len() as u32;
        let first_piece = self.schedule.pieces.len() as u32;
        self.schedule.pieces.extend_from_slice(pieces);
        let now = t * SECOND_MS;
        self.schedule.segments.push(Segment {
            job,
            first_piece,
            pieces: pieces.len() as u32,
            start_ms: now,
            end_ms: now,
            stop: Stop::Done,
        });
        if self.schedule.last_segment[at] == NO_SEGMENT {
            self.schedule.first_start_ms[at] = now;
        }
        self.schedule.last_segment[at] = segment;
        self.left(job).since = Some(t);
    }
}
