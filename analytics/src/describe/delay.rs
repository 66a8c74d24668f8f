//! Why jobs waited: at moments spread over each wait, what kept the job from starting.
//!
//! At moment t a waiting job of g GPUs in VC v was delayed by, in this order:
//! 1. **capacity**: fewer than g GPUs are free in the whole cluster;
//! 2. **quota**: GPUs in use by v + g exceed v's capacity, or fewer than g GPUs are free on its nodes, where every node is
//!    bound to a VC, while the whole cluster has enough;
//! 3. **fragmentation**: enough are free on the nodes it may use, but the ⌈g / largest node⌉ of them with most free GPUs do
//!    not have g together;
//! 4. **order**: it would have fit, so others were ahead of it, or the scheduler held it back.
//!
//! These are the causes, and their order, of the planner's `replay::metric::delay`, which finds them in a replay. Here they are
//! those of the recorded schedule, and headlines weigh them by GPUs × wait, as there.
//!
//! A job in no VC of known capacity skips step 2, and so do all where more than a tenth of the GPU time names no VC.
//! Where nodes are unknown the free GPUs of the cluster are those of the VCs of known capacity together, and fragmentation
//! is not told from order. Each of the moments stands for an equal part of the wait.
//! Jobs that waited under a minute are left out: that is the scheduler's cycle. Of more than 20,000 jobs every k-th is
//! taken, in the order of the table, and at most 64 moments a job, one a minute where that is fewer; both choices depend
//! on the trace alone.
//!
//! Complexity: O(q log q + (p + q) f) for q moments (at most 1.28 million), p placements and f distinct numbers of free GPUs.
//!
//! Worked number: a job that waits 4 min is looked at 4 times, 30 s, 90 s, 150 s and 210 s after its submission. If every
//! node is full until 120 s and its VC until it starts, half of the wait is capacity's and half quota's.

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::{TopicResult, hours, share};
use crate::facts::capacity::MOST_WITHOUT_VC;
use crate::facts::load::{self, VcLoad};
use crate::facts::occupancy::{Steps, walk};
use crate::facts::placed::{FreeNodes, Placements, micros};
use crate::facts::{JobFacts, SizeClass};

/// Shortest wait that is looked into, seconds.
const SHORTEST_S: f64 = 60.0;
/// Largest number of jobs looked into.
const MOST_JOBS: usize = 20_000;
/// Largest number of moments looked into for a job.
const MOST_MOMENTS: usize = 64;

/// Reason why a job did not start at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The whole cluster had too few GPUs free.
    Capacity,
    /// The job's VC had too few GPUs free, by quota or nodes; the whole cluster had enough.
    Quota,
    /// Enough GPUs were free, but not on few enough nodes.
    Fragmentation,
    /// The job would have fit. Where nodes are unknown, this or fragmentation; where quotas are
    /// unknown, this or quota.
    Order,
}

impl Cause {
    /// All causes, in the order of the tests.
    pub const ALL: [Self; 4] = [Self::Capacity, Self::Quota, Self::Fragmentation, Self::Order];

    /// Name for people.
    pub fn name(self, quota_known: bool, nodes_known: bool) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Capacity => "capacity",
            Self::Fragmentation => "fragmentation",
            Self::Order if !nodes_known => "fragmentation or order",
            Self::Order if !quota_known => "order or quota",
            Self::Order => "order",
        }
    }
}

/// One cause.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CauseShare {
    /// The cause.
    pub cause: Cause,
    /// Share of the waiting time of the jobs looked into.
    pub wait_share: f64,
    /// Share of their GPUs × wait.
    pub gpu_wait_share: Option<f64>,
    /// Jobs whose largest part of the wait it caused (ties go to the cause tested first).
    pub jobs: u64,
}

/// Causes for jobs of one size class.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DelayBySize {
    /// The size class; `null` for all.
    pub size: Option<SizeClass>,
    /// Jobs looked into.
    pub jobs: u64,
    /// Wait of these jobs, hours.
    pub wait_hours: f64,
    /// GPUs × wait of these jobs, GPU-hours.
    pub gpu_wait_hours: f64,
    /// The causes that can be told, in the order of the tests.
    pub causes: Vec<CauseShare>,
}

/// Why jobs waited.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Delay {
    /// Whether the capacity of any VC of these jobs is known, so that quota can be told.
    pub quota_known: bool,
    /// Whether placements and the inventory are known, so that fragmentation and order can be told apart.
    pub nodes_known: bool,
    /// Started GPU jobs that waited a minute or longer.
    pub delayed_jobs: u64,
    /// Sampling interval: one of every so many delayed jobs was looked into.
    pub every: u64,
    /// Jobs looked into.
    pub jobs: u64,
    /// Jobs whose VC has no known capacity: quota cannot be their cause.
    pub jobs_without_quota: u64,
    /// All jobs looked into.
    pub all: DelayBySize,
    /// Causes by size class.
    pub by_size: Vec<DelayBySize>,
}

/// A delayed job that is looked into.
struct Delayed {
    job: usize,
    gpus: f64,
    wait_s: f64,
    /// Index of its VC among the loads whose capacity is known.
    vc: Option<usize>,
    /// Pool of nodes it may use; `None` for the cluster.
    pool: Option<usize>,
    moments: usize,
    /// Moments by cause, in the order of [`Cause::ALL`].
    by_cause: [u32; 4],
}

impl Delay {
    /// Looks into the waits of `facts`.
    ///
    /// # Errors
    /// In one line what the source lacks.
    pub(super) fn of(facts: &JobFacts<'_>, placements: Option<&Placements>) -> TopicResult<Self> {
        // Where many jobs name no VC, what VCs have in use, and so their quota, is not known.
        let quotas = facts.gpu_time_without_vc().is_some_and(|unknown| unknown <= MOST_WITHOUT_VC);
        let loads: Vec<VcLoad> =
            load::of_jobs(facts).into_iter().filter(|load| quotas && load.capacity.is_some()).collect();
        if loads.is_empty() && placements.is_none() {
            return Err("neither the GPUs of VCs nor the nodes of jobs are recorded".to_owned());
        }
        let delayed: Vec<usize> = (0..facts.len())
            .filter(|job| facts.is_gpu_job(*job) && facts.trace.jobs.start.get(*job).is_some())
            .filter(|job| facts.wait_s(*job).is_some_and(|wait| wait >= SHORTEST_S))
            .collect();
        if delayed.is_empty() {
            return Err("no job is known to have waited a minute".to_owned());
        }
        let every = delayed.len().div_ceil(MOST_JOBS);
        let mut sampled: Vec<Delayed> = delayed
            .iter()
            .step_by(every)
            .filter_map(|job| {
                let vc = facts.trace.jobs.vc.get(*job);
                let wait_s = facts.wait_s(*job)?;
                Some(Delayed {
                    job: *job,
                    gpus: facts.gpus(*job)?,
                    wait_s,
                    vc: vc.and_then(|vc| loads.binary_search_by(|load| load.name.as_str().cmp(vc)).ok()),
                    pool: vc.and_then(|vc| placements?.pools.get(vc).copied()),
                    moments: ((wait_s / SHORTEST_S) as usize).clamp(1, MOST_MOMENTS),
                    by_cause: [0; 4],
                })
            })
            .collect();
        attribute(facts, placements, &loads, &mut sampled);
        let nodes_known = placements.is_some();
        let quota_known = sampled.iter().any(|delayed| delayed.vc.is_some());
        if !nodes_known && !quota_known {
            return Err("the nodes of jobs are not recorded, nor the GPUs of the VCs in which jobs waited".to_owned());
        }
        let told: Vec<Cause> = Cause::ALL
            .into_iter()
            .filter(|cause| match cause {
                Cause::Quota => quota_known,
                Cause::Fragmentation => nodes_known,
                Cause::Capacity | Cause::Order => true,
            })
            .collect();
        let by_size =
            SizeClass::ALL.into_iter().filter_map(|size| DelayBySize::new(Some(size), &sampled, &told)).collect();
        let all = DelayBySize::new(None, &sampled, &told).ok_or("no job is known to have waited a minute")?;
        Ok(Self {
            quota_known,
            nodes_known,
            delayed_jobs: delayed.len() as u64,
            every: every as u64,
            jobs: sampled.len() as u64,
            jobs_without_quota: sampled.iter().filter(|d| d.vc.is_none()).count() as u64,
            all,
            by_size,
        })
    }
}

/// Finds the cause at each moment of each job.
fn attribute(facts: &JobFacts<'_>, placements: Option<&Placements>, loads: &[VcLoad], sampled: &mut [Delayed]) {
    let mut moments: Vec<(i64, usize)> = Vec::new();
    for (ix, delayed) in sampled.iter().enumerate() {
        let Some((from, to)) = facts.waiting_interval(delayed.job) else { continue };
        // The middles of equal parts of the wait.
        let part = (to - from) as f64 / delayed.moments as f64;
        moments.extend((0..delayed.moments).map(|nth| (from + (part * (nth as f64 + 0.5)) as i64, ix)));
    }
    moments.sort_unstable();
    let largest = placements.map_or(0, Placements::largest_node);
    let mut sweep = placements.map(Placements::sweep);
    // Without nodes, what the VCs leave free together.
    let free_of_vcs = if placements.is_some() { Steps::default() } else { free(loads) };
    for (time, ix) in moments {
        if let Some(sweep) = &mut sweep {
            sweep.advance(time);
        }
        let Some(delayed) = sampled.get_mut(ix) else { continue };
        let over_quota = delayed.vc.and_then(|vc| loads.get(vc)).is_some_and(|load| {
            let in_use = load.in_use.as_ref().map_or(0.0, |steps| steps.at(time));
            let capacity = load.capacity.as_ref().map_or(f64::INFINITY, |steps| steps.at(time));
            micros(in_use) + micros(delayed.gpus) > micros(capacity)
        });
        let request = micros(delayed.gpus);
        let free = sweep.as_ref().map_or_else(|| micros(free_of_vcs.at(time)), |sweep| sweep.cluster.free);
        let pool = sweep.as_ref().and_then(|sweep| sweep.pools.get(delayed.pool?));
        // Without nodes, a job of a VC of unknown capacity is not measured against the free GPUs of the others.
        let known = sweep.is_some() || delayed.vc.is_some();
        let cause = if known && free < request {
            Cause::Capacity
        } else if over_quota || pool.is_some_and(|pool| pool.free < request) {
            Cause::Quota
        } else {
            match &sweep {
                Some(sweep) if fragmented(pool.unwrap_or(&sweep.cluster), request, largest) => Cause::Fragmentation,
                _ => Cause::Order,
            }
        };
        if let Some(count) = delayed.by_cause.get_mut(cause as usize) {
            *count += 1;
        }
    }
}

/// GPUs that VCs of known capacity leave free together; use beyond the capacity of one takes none from another.
fn free(loads: &[VcLoad]) -> Steps {
    let idle: Vec<&Steps> = loads.iter().filter_map(|load| load.idle.as_ref()).collect();
    let spans = || loads.iter().map(|load| &load.observed);
    let window = spans().map(|span| span.from).min().zip(spans().map(|span| span.to).max());
    let Some((from, to)) = window.filter(|(from, to)| to > from) else { return Steps::default() };
    let mut samples = Vec::new();
    walk(&idle, from, to, |start, _, values| {
        samples.push((start, values.iter().map(|idle| idle.max(0.0)).sum()));
    });
    Steps::of_samples(samples)
}

/// Whether the `asked` millionths that `nodes` have free lie on too many nodes.
fn fragmented(nodes: &FreeNodes, request: i64, largest: i64) -> bool {
    let fewest = if largest > 0 { (request + largest - 1) / largest } else { 1 };
    nodes.top(u64::try_from(fewest).unwrap_or(1)) < request
}

impl DelayBySize {
    fn new(size: Option<SizeClass>, sampled: &[Delayed], told: &[Cause]) -> Option<Self> {
        let in_class = || sampled.iter().filter(|d| size.is_none_or(|size| SizeClass::new(d.gpus) == size));
        let jobs = in_class().count() as u64;
        let wait_s: f64 = in_class().map(|d| d.wait_s).sum();
        let gpu_wait_s: f64 = in_class().map(|d| d.wait_s * d.gpus).sum();
        if jobs == 0 {
            return None;
        }
        let causes = told
            .iter()
            .copied()
            .map(|cause| {
                let part = |d: &Delayed| f64::from(d.of(cause)) / d.moments as f64;
                CauseShare {
                    cause,
                    wait_share: in_class().map(|d| d.wait_s * part(d)).sum::<f64>() / wait_s,
                    gpu_wait_share: share(in_class().map(|d| d.wait_s * d.gpus * part(d)).sum(), gpu_wait_s),
                    jobs: in_class().filter(|d| d.main_cause() == cause).count() as u64,
                }
            })
            .collect();
        Some(Self { size, jobs, wait_hours: hours(wait_s), gpu_wait_hours: hours(gpu_wait_s), causes })
    }

    /// Share of the GPU-hours waited that a cause explains; 0 where it cannot be told.
    pub(super) fn gpu_wait_share(&self, cause: Cause) -> f64 {
        self.causes.iter().find(|share| share.cause == cause).and_then(|share| share.gpu_wait_share).unwrap_or(0.0)
    }
}

impl Delayed {
    fn of(&self, cause: Cause) -> u32 {
        self.by_cause.get(cause as usize).copied().unwrap_or(0)
    }

    fn main_cause(&self) -> Cause {
        // Of equal counts `max_by_key` takes the last, so from the last tested to the first.
        Cause::ALL.into_iter().rev().max_by_key(|cause| self.of(*cause)).unwrap_or(Cause::Order)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota};
    use crate::facts::rows::{node, place};
    use crate::trace::Trace;

    /// Wait shares of the one job that waited: capacity, quota, fragmentation, order.
    fn shares(trace: &Trace) -> [f64; 4] {
        let facts = JobFacts::new(trace);
        let placements = Placements::new(&facts).ok();
        let delay = Delay::of(&facts, placements.as_ref()).unwrap();
        assert_eq!((delay.delayed_jobs, delay.jobs, delay.nodes_known), (1, 1, placements.is_some()));
        assert_eq!(delay.quota_known, delay.all.causes.iter().any(|share| share.cause == Cause::Quota));
        Cause::ALL.map(|cause| delay.all.gpu_wait_share(cause))
    }

    /// Nodes of 8 GPUs n1 and n2, on which jobs a and b hold so many GPUs until 240 s. Job c asks for `asks` at 0 s and
    /// starts at 240 s.
    fn trace(a: f64, b: f64, asks: f64) -> Trace {
        let mut trace = Trace::default();
        for (key, vc, gpus, node) in [("a", "x", a, "n1"), ("b", "y", b, "n2")] {
            trace.jobs.push(job(key, vc, gpus, 0, 0, 240));
            trace.placements.push(place(key, node, Some(gpus)));
        }
        trace.jobs.push(job("c", "x", asks, 0, 240, 300));
        for name in ["n1", "n2"] {
            trace.placements.push(place("c", name, Some(asks / 2.0)));
            trace.nodes.push(node(name, 8.0));
        }
        trace
    }

    #[test]
    fn too_few_free_gpus_is_capacity() {
        // 16 - 8 - 5 = 3 free, 4 asked.
        assert_eq!(shares(&trace(8.0, 5.0, 4.0)), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn enough_gpus_on_too_many_nodes_is_fragmentation() {
        // 3 and 3 free, 4 asked: one node should do.
        assert_eq!(shares(&trace(5.0, 5.0, 4.0)), [0.0, 0.0, 1.0, 0.0]);
        // 8 asked of 4 + 4 free: still one node. 10 asked of 8 + 4: two nodes, which have 12.
        assert_eq!(shares(&trace(4.0, 4.0, 8.0)), [0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn a_job_that_would_have_fit_waited_for_its_turn() {
        assert_eq!(shares(&trace(5.0, 4.0, 4.0)), [0.0, 0.0, 0.0, 1.0]);
        // 9 asked of 3 + 6 free on the two nodes it takes at least.
        assert_eq!(shares(&trace(5.0, 2.0, 9.0)), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_full_vc_is_quota_while_nodes_are_free_and_capacity_while_none_is() {
        let mut trace = trace(5.0, 4.0, 4.0);
        // x has 8: 5 in use and 4 more are too many; 3 + 4 = 7 GPUs are free in the cluster.
        trace.capacity.push(quota("x", 8.0));
        assert_eq!(shares(&trace), [0.0, 1.0, 0.0, 0.0]);
        let facts = JobFacts::new(&trace);
        let delay = Delay::of(&facts, Placements::new(&facts).ok().as_ref()).unwrap();
        assert_eq!(delay.jobs_without_quota, 0);
        // With 3 free in the whole cluster its VC is as full, but no other VC has what it asks for: as in a replay.
        let mut full = super::tests::trace(5.0, 8.0, 4.0);
        full.capacity.push(quota("x", 8.0));
        assert_eq!(shares(&full), [1.0, 0.0, 0.0, 0.0]);
        // With b's 960 of 2,400 GPU-seconds in no known VC, quotas cannot be told.
        let mut unlabelled = trace.clone();
        unlabelled.jobs.vc.set(1, None);
        assert_eq!(shares(&unlabelled), [0.0, 0.0, 0.0, 1.0]);
        // One more in the quota and it would have fit.
        trace.capacity = crate::schema::CapacityTable::default();
        trace.capacity.push(quota("x", 9.0));
        assert_eq!(shares(&trace), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn shares_weigh_waits_by_gpus_as_a_replay_does() {
        let mut trace = trace(5.0, 4.0, 4.0);
        trace.capacity.push(quota("x", 8.0));
        // Beside c, which waits 240 s for 4 GPUs of x's quota, a job of one GPU waits 240 s though it would have fit.
        trace.jobs.push(job("d", "x", 1.0, 0, 240, 300));
        trace.placements.push(place("d", "n1", Some(1.0)));
        let facts = JobFacts::new(&trace);
        let delay = Delay::of(&facts, Placements::new(&facts).ok().as_ref()).unwrap();
        assert_eq!((delay.all.gpu_wait_share(Cause::Quota), delay.all.gpu_wait_share(Cause::Order)), (0.8, 0.2));
        let quota = delay.all.causes.iter().find(|share| share.cause == Cause::Quota).unwrap();
        assert_eq!(quota.wait_share, 0.5);
    }

    #[test]
    fn the_worked_number_and_a_split_wait() {
        let mut trace = trace(8.0, 8.0, 4.0);
        // b gives n2 back at 120 s, and x's quota of 8 stays full until a ends.
        trace.jobs.end.set(1, Some(120_000));
        trace.jobs.run_s.set(1, Some(120.0));
        trace.capacity.push(quota("x", 8.0));
        assert_eq!(shares(&trace), [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn nodes_bound_to_a_vc_are_all_its_jobs_may_use() {
        let mut trace = trace(5.0, 0.0, 4.0);
        trace.nodes = crate::schema::NodeTable::default();
        for (name, vc) in [("n1", "x"), ("n2", "y")] {
            let mut row = node(name, 8.0);
            row.vc = Some(vc.into());
            trace.nodes.push(row);
        }
        // n2 is empty, but belongs to y; of x's 8 GPUs 3 are free. The inventory makes that x's quota, too.
        assert_eq!(shares(&trace), [0.0, 1.0, 0.0, 0.0]);
        // So it is by its nodes, where a quota of 16 is recorded: the whole cluster has 11 free.
        trace.capacity.push(quota("x", 16.0));
        assert_eq!(shares(&trace), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn without_nodes_capacity_and_quota_are_told_from_the_rest() {
        let mut trace = trace(5.0, 4.0, 4.0);
        trace.placements = crate::schema::PlacementTable::default();
        // x has 3 of 8 free, and the job asks for 4: with x alone known, that is all that is free.
        trace.capacity.push(quota("x", 8.0));
        assert_eq!(shares(&trace), [1.0, 0.0, 0.0, 0.0]);
        // y has 4 of 8 free.
        trace.capacity.push(quota("y", 8.0));
        assert_eq!(shares(&trace), [0.0, 1.0, 0.0, 0.0]);
        trace.capacity = crate::schema::CapacityTable::default();
        trace.nodes = crate::schema::NodeTable::default();
        let facts = JobFacts::new(&trace);
        assert!(Delay::of(&facts, None).unwrap_err().contains("neither"));
        // A capacity of another VC says nothing of this one.
        trace.capacity.push(quota("y", 8.0));
        assert!(Delay::of(&JobFacts::new(&trace), None).unwrap_err().contains("nor"));
    }
}
