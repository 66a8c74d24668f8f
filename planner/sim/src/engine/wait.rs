//! The queue of a pool: ranked once where the order is fixed, sorted at every decision where it is not.
//!
//! Worked example: FIFO, SJF and QSSF know a job's key when it is submitted; WFP3 depends on how long it has waited, so its
//! order may be another at every decision.

use std::collections::BTreeMap;

use super::queue::{Entry, Ranked, Search};
use crate::cluster::Cluster;
use crate::divided::is_firm;
use crate::order::Keys;
use crate::policy::{Compat, Order, Placement, Policy, Preemption, Scan};
use crate::schedule::{NO_SEGMENT, Outcome, Schedule};
use crate::volcano::VolcanoQueues;
use crate::workload::Workload;

/// A line of a VC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Class of the line among the pool's, empty ones included.
    pub(crate) class: u32,
    /// Shape of the line's jobs, an index into the shapes.
    pub(crate) shape: u16,
    /// Whether the jobs may spread.
    pub(crate) relaxed: bool,
    /// Whether KAI would not stop the jobs.
    pub(crate) firm: bool,
}

/// Ranks and classes of all jobs, under an order that is fixed.
#[derive(Debug)]
pub(crate) struct Ranking {
    /// Job with each rank, over all pools.
    jobs: Vec<u32>,
    /// Rank of each job.
    rank: Vec<u32>,
    /// Class of each job within its pool.
    class: Vec<u32>,
    /// Estimate of each job, milliseconds; only for backfill.
    estimate_ms: Vec<i64>,
    /// Classes of each pool.
    classes: Vec<usize>,
    /// Lines of each VC.
    lines: Vec<Vec<Line>>,
}

impl Ranking {
    /// Ranks all jobs; `None` if the policy's order is not fixed, or jobs of a class do not share their fate under it.
    /// O(n log n).
    pub(crate) fn new(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Option<Self> {
        let personal = matches!(policy.placement, Placement::Locality(_))
            || (policy.scan == Scan::Easy && policy.placement == Placement::Random);
        // These walks take back who was stopped, or failed with a node.
        let takes_back = matches!(policy.scan, Scan::Volcano | Scan::Kai);
        let ranks = policy.order.is_fixed()
            && (policy.preemption == Preemption::Never || takes_back)
            && !matches!(policy.scan, Scan::Conservative | Scan::Slurm | Scan::Kueue)
            && (cluster.outages.is_empty() || takes_back)
            && (takes_back || !(0..cluster.pools.len()).any(|pool| cluster.guarantees(pool)))
            && cluster.limits.is_none()
            && !personal;
        if !ranks {
            return None;
        }
        let keys = Keys::new(workload, policy, &[], 0);
        let mut keyed: Vec<_> = (0..workload.len() as u32).map(|job| (keys.fixed(job), job)).collect();
        // The compatible QSSF sorts by GPUs each second before it sorts by priority.
        let helios = policy.compat == Compat::Helios && policy.order == Order::Qssf;
        let gpus = |job: u32| if helios { workload.shapes[usize::from(workload.shape[job as usize])].gpus } else { 0 };
        let is_kai = policy.scan == Scan::Kai;
        let volcanos = || takes_back && cluster.volcano.as_ref().is_some_and(VolcanoQueues::orders_by_priority);
        let by_priority = is_kai || volcanos();
        let priority = |job: u32| match workload.priority.get(job as usize) {
            Some(priority) if by_priority => -i64::from(*priority),
            _ => 0,
        };
        keyed.sort_unstable_by_key(|(key, job)| {
            (priority(*job), *key, gpus(*job), workload.submit_ms[*job as usize], *job)
        });
        let jobs: Vec<u32> = keyed.into_iter().map(|(_, job)| job).collect();
        let mut rank = vec![0; workload.len()];
        for (at, job) in (0u32..).zip(&jobs) {
            rank[*job as usize] = at;
        }
        let mut classes = vec![0; cluster.pools.len()];
        let mut known = BTreeMap::new();
        let mut lines = vec![Vec::new(); cluster.vcs.len()];
        let class = workload.vc.iter().zip(&workload.shape).enumerate().map(|(job, (vc, shape))| {
            let shape = if policy.scan == Scan::Strict { 0 } else { *shape };
            let firm = is_kai && is_firm(workload.priority.get(job).copied().unwrap_or(0));
            *known.entry((*vc, shape, firm)).or_insert_with(|| {
                let count = &mut classes[usize::from(cluster.vcs[usize::from(*vc)].pool)];
                *count += 1;
                let class = *count as u32 - 1;
                lines[usize::from(*vc)].push(Line { class, shape, relaxed: false, firm });
                class
            })
        });
        let class = class.collect();
        let estimate_ms = if policy.scan == Scan::Easy {
            (0..workload.len()).map(|job| policy.estimate_ms(workload, job).max(1)).collect()
        } else {
            Vec::new()
        };
        Some(Self { jobs, rank, class, estimate_ms, classes, lines })
    }

    /// The classes of each VC.
    pub(super) fn lines(&self) -> &[Vec<Line>] {
        &self.lines
    }

    /// The job with a rank.
    pub(crate) fn job(&self, rank: u32) -> u32 {
        self.jobs[rank as usize]
    }

    /// The class of a job within its pool.
    pub(crate) fn class(&self, job: u32) -> u32 {
        self.class[job as usize]
    }
}

/// Jobs that wait.
pub(crate) enum Queue<'a> {
    /// In classes, by rank.
    Ranked(Ranked, &'a Ranking),
    /// In no order.
    Loose(Vec<u32>),
}

impl<'a> Queue<'a> {
    /// An empty queue for the jobs of a pool.
    pub(super) fn new(ranking: Option<&'a Ranking>, pool: usize, jobs: &[u32], scan: Scan) -> Self {
        let Some(ranking) = ranking else { return Self::Loose(Vec::new()) };
        let search = match scan {
            Scan::Easy => Search::Estimate,
            Scan::Kai => Search::Rank,
            _ => Search::Head,
        };
        let mut members = Vec::new();
        if search != Search::Head {
            members = jobs.iter().map(|job| (ranking.rank[*job as usize], ranking.class(*job))).collect();
            members.sort_unstable();
        }
        Self::Ranked(Ranked::new(ranking.classes[pool], search, &members), ranking)
    }

    /// Jobs that wait.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ranked(ranked, _) => ranked.len(),
            Self::Loose(jobs) => jobs.len(),
        }
    }

    /// Whether any job that waits in no order is `such`.
    pub(crate) fn any(&self, such: impl Fn(u32) -> bool) -> bool {
        matches!(self, Self::Loose(jobs) if jobs.iter().any(|job| such(*job)))
    }

    /// A job joins.
    pub(crate) fn insert(&mut self, job: u32) {
        match self {
            Self::Ranked(ranked, ranking) => {
                let at = job as usize;
                let estimate_ms = ranking.estimate_ms.get(at).copied().unwrap_or(0);
                ranked.insert(ranking.rank[at], Entry { class: ranking.class[at], estimate_ms });
            }
            Self::Loose(jobs) => jobs.push(job),
        }
    }

    /// Whether a job waits.
    pub(super) fn contains(&self, job: u32, schedule: &Schedule) -> bool {
        match self {
            Self::Ranked(..) => {
                schedule.outcome[job as usize] == Outcome::Stranded && schedule.last_segment[job as usize] == NO_SEGMENT
            }
            Self::Loose(jobs) => jobs.contains(&job),
        }
    }
}
