//! Why jobs could never run: what of the cluster they ask for more of than there ever is.
//!
//! The replay rejects a job at its submission and says no more. The cause is found again from the job and the cluster, with all nodes that there ever are in service and empty. The
//! first that holds counts:
//!
//! ```text
//! type         no node that its VC may use has the GPU type that it asks for
//! GPUs         it asks for more GPUs than all these nodes have
//! limit        it is over a limit of its QOS, account or partition that rejects
//! quota        it asks for more than the quota of its VC
//! nodes        the GPUs are there, but not so many on so many nodes
//! processors   they are, but no longer with its processors
//! memory       nor with its memory
//! topology     no block, rack or network of switches takes all of it
//! queue        what is left under Kueue, KAI and Volcano: no quota or bound of a queue ever lets it start
//! placement    what is left elsewhere: the placement rule finds no place
//! ```
//!
//! O(jobs + nodes × shapes that were rejected). Worked number: on one node of 4 GPUs, a job of 6 asks for more GPUs than there are; on two such nodes, a job that must lie on one node of 6 does not find it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use super::near::{Nearby, Verdict};
use super::state::{Looked, State};
use super::times::JobTimes;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::policy::Placement;
use tracecast_sim::schedule::Outcome;
use tracecast_sim::workload::{Shape, Workload};

/// Why a job could never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RejectedFor {
    /// No node has its GPU type.
    GpuType,
    /// More GPUs than its nodes have.
    Gpus,
    /// A limit that rejects.
    Limit,
    /// More than the quota of its VC.
    Quota,
    /// So many GPUs are not on so many nodes.
    Nodes,
    /// Not with its processors.
    Processors,
    /// Not with its memory.
    Memory,
    /// No domain takes all of it.
    Topology,
    /// Quotas or bounds of queues under Kueue, KAI and Volcano.
    Queue,
    /// The placement rule finds no place.
    Placement,
}

impl RejectedFor {
    /// Returns the end of a sentence that begins with the number of such jobs.
    pub fn in_words(self, jobs: u64) -> String {
        let one = jobs == 1;
        let (asks, are, finds) = if one { ("asks for", "is", "finds") } else { ("ask for", "are", "find") };
        match self {
            Self::GpuType => format!("{asks} a GPU type that no node of the VC or pool has"),
            Self::Gpus => format!("{asks} more GPUs than all nodes of the VC or pool have"),
            Self::Limit => format!("{are} over a limit of the QOS, account or partition"),
            Self::Quota => format!("{asks} more GPUs than the quota of the VC"),
            Self::Nodes => format!("{asks} more GPUs on one node, or more such nodes, than there are"),
            Self::Processors => format!("{asks} more processors than the nodes have beside the GPUs"),
            Self::Memory => format!("{asks} more memory than the nodes have beside the GPUs"),
            Self::Topology => format!("{finds} enough nodes, but never in one block, rack or network of switches"),
            Self::Queue => format!("{are} never let in by the quotas and bounds of the queues"),
            Self::Placement => format!("{finds} no place under the placement rule"),
        }
    }
}

/// Jobs that could never run, for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rejection {
    /// Why.
    pub cause: RejectedFor,
    /// How many.
    pub jobs: u64,
    /// The first of them.
    pub example: String,
}

/// All causes in a sentence, with an example of each: `9 ask for … (such as job 4711), 1 is over … (job 4712)`.
pub(crate) fn in_words(rejections: &[Rejection]) -> String {
    let of = |rejection: &Rejection| {
        let such_as = if rejection.jobs == 1 { "job" } else { "such as job" };
        let (jobs, does) = (format::count(rejection.jobs), rejection.cause.in_words(rejection.jobs));
        format!("{jobs} {does} ({such_as} {})", rejection.example)
    };
    rejections.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Counted jobs that were rejected, by cause, the most first. `keys` are their identifiers; `cluster` has what the policy heeds of it, which places jobs by `placement`.
pub(crate) fn rejections(
    workload: &Workload,
    cluster: &Cluster,
    placement: Placement,
    times: &JobTimes,
    keys: &[String],
) -> Vec<Rejection> {
    let is_rejected = |job: &usize| times.is_counted(*job) && times.outcome.get(*job) == Some(&Outcome::Rejected);
    let mut rejected = (0..workload.len()).filter(is_rejected).peekable();
    if rejected.peek().is_none() {
        return Vec::new();
    }
    let scatters = matches!(placement, Placement::Spread | Placement::Random | Placement::Locality(_));
    let empty = Empty { cluster, scatters, state: State::new(cluster), nearby: Nearby::new(workload, cluster) };
    let mut known: BTreeMap<(u16, Shape), RejectedFor> = BTreeMap::new();
    let mut by_cause: BTreeMap<RejectedFor, (u64, usize)> = BTreeMap::new();
    for job in rejected {
        let (vc, shape) = (workload.vc.get(job).copied().unwrap_or(0), workload.shape_of(job));
        let of_nodes = *known.entry((vc, shape)).or_insert_with(|| empty.cause(vc, shape));
        let denied = || {
            let limits = cluster.limits.as_ref();
            u32::try_from(job).is_ok_and(|job| limits.is_some_and(|limits| limits.alone(workload, job).1))
        };
        // No limit is to blame for what the nodes could not run without it.
        let cause = if of_nodes > RejectedFor::Gpus && denied() { RejectedFor::Limit } else { of_nodes };
        by_cause.entry(cause).or_insert((0, job)).0 += 1;
    }
    let named = |(cause, (jobs, example)): (RejectedFor, (u64, usize))| Rejection {
        cause,
        jobs,
        example: keys.get(example).cloned().unwrap_or_default(),
    };
    let mut rejections: Vec<Rejection> = by_cause.into_iter().map(named).collect();
    rejections.sort_by_key(|rejection| std::cmp::Reverse(rejection.jobs));
    rejections
}

/// All nodes there ever are, empty.
struct Empty<'c> {
    cluster: &'c Cluster,
    /// Whether GPUs of a job may lie on as many nodes as one likes.
    scatters: bool,
    state: State,
    nearby: Option<Nearby>,
}

impl Empty<'_> {
    /// Why jobs of a shape are rejected in a VC, limits aside. O(nodes).
    fn cause(&self, vc: u16, shape: Shape) -> RejectedFor {
        let Some(vc) = self.cluster.vcs.get(usize::from(vc)) else { return RejectedFor::Placement };
        let (pool, state) = (usize::from(vc.pool), &self.state);
        let in_queues = self.cluster.cohorts.is_some() || self.cluster.kai.is_some() || self.cluster.volcano.is_some();
        let quota = vc.quota_milli.iter().map(|(_, amount)| *amount).max().filter(|_| !in_queues);
        let fits = |looked| state.fits_beside(pool, shape, looked);
        let far = |nearby: &Nearby| nearby.judge(state, pool, shape, Looked::All) == Verdict::Far;
        if shape.gpu_type.is_some() && state.nodes_of(pool, shape).next().is_none() {
            RejectedFor::GpuType
        } else if state.pool_free(pool, shape) < shape.amount() {
            RejectedFor::Gpus
        } else if quota.is_some_and(|quota| quota < shape.amount()) {
            RejectedFor::Quota
        } else if !fits(Looked::Gpus) && !self.scatters {
            RejectedFor::Nodes
        } else if fits(Looked::Gpus) && !fits(Looked::Processors) {
            RejectedFor::Processors
        } else if fits(Looked::Processors) && !fits(Looked::All) {
            RejectedFor::Memory
        } else if self.nearby.as_ref().is_some_and(far) {
            RejectedFor::Topology
        } else if in_queues {
            RejectedFor::Queue
        } else {
            RejectedFor::Placement
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tracecast_sim::host::{HostNeed, HostRoom};
    use tracecast_sim::topology::{Topology, TopologyRequest};
    use tracecast_sim::{Policy, simulate};

    /// Causes of the jobs that never run, with how many each has and the first of them.
    fn found(cluster: &Cluster, shapes: &[Shape]) -> Vec<(RejectedFor, u64, String)> {
        let mut jobs = Workload { gpu_types: cluster.gpu_types.clone(), ..Workload::default() };
        shapes.iter().for_each(|shape| jobs.push(0, 1000, *shape));
        let schedule = simulate(&jobs, cluster, &Policy::default()).unwrap();
        let times = JobTimes::new(&jobs, &schedule).unwrap();
        let keys: Vec<String> = (0..jobs.len()).map(|job| format!("j{job}")).collect();
        let told = rejections(&jobs, cluster, Policy::default().placement, &times, &keys);
        told.into_iter().map(|of| (of.cause, of.jobs, of.example)).collect()
    }

    #[test]
    fn every_cause_that_the_nodes_have_is_told() {
        // Two nodes of 8 GPUs, 64 cores and 100 GiB each, of type 0; a job may hold 12 at once.
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8)]);
        cluster.gpu_types = vec!["A100".to_owned(), "H100".to_owned()];
        cluster.pools[0].groups[0].gpu_type = Some(0);
        cluster.pools[0].groups[0].host = HostRoom { cores_milli: Some(64_000), memory_mib: Some(102_400) };
        let host = |cores: u32, gib: u32| HostNeed { cores_milli: cores * 1000, memory_mib: gib * 1024 };
        let shapes = [
            Shape::whole(4),
            Shape { gpu_type: Some(1), ..Shape::whole(1) },
            Shape::whole(17),
            Shape { host: host(9, 1), ..Shape::whole(8) },
            Shape { host: host(1, 101), ..Shape::whole(1) },
            Shape::whole(24),
            Shape { nodes: 3, ..Shape::whole(9) },
        ];
        let one = |cause: RejectedFor, job: &str| (cause, 1, job.to_owned());
        assert_eq!(
            found(&cluster, &shapes),
            [
                (RejectedFor::Gpus, 2, "j2".to_owned()),
                one(RejectedFor::GpuType, "j1"),
                one(RejectedFor::Nodes, "j6"),
                one(RejectedFor::Processors, "j3"),
                one(RejectedFor::Memory, "j4"),
            ]
        );
        cluster.vcs[0].quota_milli = vec![(0, 3000)];
        assert_eq!(found(&cluster, &shapes[..1]), [one(RejectedFor::Quota, "j0")]);
        // Racks of one node: a job of two that requires one is rejected.
        let mut racks = Cluster::of_vcs(&[("a", 2, 8)]);
        racks.topology = Some(Topology::regular(vec!["rack".to_owned()], &[1], 2).unwrap());
        let near = Shape { request: Some(TopologyRequest::required(0)), ..Shape::whole(16) };
        assert_eq!(found(&racks, &[near]), [one(RejectedFor::Topology, "j0")]);
    }

    #[test]
    fn they_are_told_in_words() {
        let of = |cause, jobs, example: &str| Rejection { cause, jobs, example: example.to_owned() };
        let said = in_words(&[of(RejectedFor::Gpus, 1200, "a"), of(RejectedFor::Limit, 1, "b")]);
        assert_eq!(
            said,
            "1,200 ask for more GPUs than all nodes of the VC or pool have (such as job a), 1 is over a limit of the QOS, account or partition (job b)"
        );
    }
}
