//! Topology requests: whether jobs lay as near to each other as they asked, and how long they
//! waited for that.
//!
//! Of the jobs with one [`TopologyRequest`], and of those with none where the cluster has a topology: how many there are; how many lay in one domain of the level that they asked for (of the narrowest with a name, if they asked for none), when they ran last; how many no domain could ever take, although the nodes of their pool could; and how long they waited for
//! the cause *topology* ([`super::delay`]): their pods would have found GPUs, but not near enough to each other. A request that prefers, or that asks for nothing but slices, is spread in the end, so it waits for slices alone.
//!
//! O(nodes) for a class of jobs that wait, at each instant. Worked number: racks of two nodes of 8 GPUs, and one node of each is busy. A job of two nodes that requires a rack waits for the topology; one that prefers a rack starts,
//! and lies in two racks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::sum;

use super::state::{Looked, State};
use super::times::{JobTimes, hours};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::topology::{Nearness, Topology, TopologyRequest};
use tracecast_sim::workload::{Shape, Workload};

/// Name that jobs without a request are listed under.
pub(crate) const NOTHING: &str = "nothing";
/// Name of such jobs where Slurm chooses nodes by switches.
pub(crate) const SWITCHES: &str = "nothing, on switches";

/// Placement and waits of the jobs with one request.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TopologyUse {
    /// The request, such as "requires one rack"; "nothing" of jobs without one.
    pub request: String,
    /// The level asked for; the narrowest with a name where jobs may lie anywhere.
    pub level: String,
    /// Jobs that have it.
    pub jobs: u64,
    /// Jobs that ran.
    pub ran: u64,
    /// Jobs that lay on several nodes.
    pub on_several_nodes: u64,
    /// Jobs on several nodes that lay in one domain of the level.
    pub in_one_domain: u64,
    /// Jobs that were rejected and that no domain could take with all nodes in service and empty, although all nodes together could; 0 of jobs without a request.
    pub rejected: u64,
    /// Mean wait of those that ended, seconds.
    pub mean_wait_s: Option<f64>,
    /// Jobs that waited although GPUs were free for all their pods, as these were not in one domain.
    pub waited: u64,
    /// Time of these waits, job-hours.
    pub wait_hours: f64,
    /// GPUs asked for × that time, GPU-hours.
    pub gpu_wait_hours: f64,
    /// Nodes of the cluster that lie in no domain, and their GPUs; of all requests the same, and for people alone.
    #[serde(skip)]
    pub(crate) outside: (u64, u64),
}

/// A request in words.
pub(crate) fn in_words(request: TopologyRequest, topology: &Topology) -> String {
    let of = match request.nearness {
        Nearness::Required(level) => format!("requires one {}", topology.name(level)),
        Nearness::Preferred(level) => format!("prefers one {}", topology.name(level)),
        Nearness::Unconstrained => "anywhere".to_owned(),
    };
    let slices =
        request.slices.map(|slices| format!(", slices of {} in one {}", slices.pods, topology.name(slices.level)));
    of + &slices.unwrap_or_default()
}

/// Obstacle for a job with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too few nodes have room for its pods.
    Scattered,
    /// Enough nodes have room, but not near enough to each other.
    Far,
    /// Nothing.
    Fits,
}

/// Domains in a walk through a schedule.
#[derive(Debug)]
pub(super) struct Nearby {
    /// By level, the node last, and node: its domain, numbered from 0; `None` if it lies in none.
    domains: Vec<Vec<Option<u32>>>,
    /// Domains of each level.
    counts: Vec<usize>,
    /// Request of every job without one: where Slurm chooses nodes by switches, one domain of the
    /// widest.
    implied: Option<TopologyRequest>,
}

impl Nearby {
    /// Takes the topology of a cluster, if jobs ask for it. O(nodes × levels × log nodes).
    pub(super) fn new(workload: &Workload, cluster: &Cluster) -> Option<Self> {
        let topology = cluster.topology.as_ref()?;
        let implied = topology.is_of_switches().then(|| TopologyRequest::required(0));
        if implied.is_none() && !workload.has_requests() {
            return None;
        }
        let (mut domains, mut counts) = (Vec::new(), Vec::new());
        for level in 0..=topology.node_level() {
            let mut known: BTreeMap<u32, u32> = BTreeMap::new();
            let mut number = |of: u32| {
                let next = known.len() as u32;
                *known.entry(of).or_insert(next)
            };
            let nodes = 0..cluster.most_nodes();
            domains.push(nodes.map(|node| topology.domain(node, level).map(&mut number)).collect());
            counts.push(known.len());
        }
        Some(Self { domains, counts, implied })
    }

    /// Whether a shape has to lie near.
    pub(super) fn concerns(&self, shape: Shape) -> bool {
        shape.request.or(self.implied).is_some()
    }

    fn domain(&self, level: usize, node: usize) -> Option<usize> {
        Some(self.domains.get(level)?.get(node).copied().flatten()? as usize)
    }

    /// Returns the obstacle for a shape with a request in a pool. O(nodes).
    pub(super) fn judge(&self, state: &State, pool: usize, shape: Shape, looked: Looked) -> Verdict {
        let Some(request) = shape.request.or(self.implied) else { return Verdict::Fits };
        let (count, each) = shape.pods(state.largest(pool, shape));
        let lowest = self.counts.len().saturating_sub(1);
        let slices = request.slices.filter(|slices| slices.pods > 0 && count.is_multiple_of(u32::from(slices.pods)));
        let size = slices.map_or(1, |slices| u32::from(slices.pods));
        let inner = slices.map_or(lowest, |slices| usize::from(slices.level)).min(lowest);
        let mut room = vec![0u32; self.counts.get(inner).copied().unwrap_or(0)];
        // Of each domain of slices the wider one that all must lie in.
        let level = match request.nearness {
            Nearness::Required(level) => Some(usize::from(level)),
            Nearness::Preferred(_) | Nearness::Unconstrained => None,
        };
        let mut wider = vec![0usize; room.len()];
        let mut all = 0;
        for node in state.nodes_of(pool, shape) {
            let here = state.usable_gpus(node, shape, looked) / each;
            all += here;
            // A node that lies in no domain takes none, which is for the topology's sake.
            let Some(of) = self.domain(inner, node) else { continue };
            if let Some(room) = room.get_mut(of) {
                *room += here;
                wider[of] = level.and_then(|level| self.domain(level, node)).unwrap_or(0);
            }
        }
        if all < count {
            return Verdict::Scattered;
        }
        let mut together = vec![0u32; level.map_or(1, |level| self.counts.get(level).copied().unwrap_or(0))];
        for (room, wider) in room.iter().zip(&wider) {
            if let Some(sum) = together.get_mut(*wider) {
                *sum += room / size;
            }
        }
        if together.iter().any(|slices| *slices >= count / size) { Verdict::Fits } else { Verdict::Far }
    }
}

#[derive(Debug, Clone, Default)]
struct Sum {
    jobs: u64,
    ran: u64,
    several: u64,
    together: u64,
    rejected: u64,
    waits_s: Vec<f64>,
    waited: u64,
    wait_ms: i128,
    gpu_wait: i128,
}

/// Nodes that lie in no domain, with their GPUs and what follows from that, in words.
pub(crate) fn apart(nodes: u64, gpus: u64, follows: &str) -> String {
    let (gpus, lie) = (format::counted(gpus, "GPU", "GPUs"), if nodes == 1 { "lies" } else { "lie" });
    format!("{} with {gpus} {lie} in no domain, so that {follows}", format::counted(nodes, "node", "nodes"))
}

/// Nodes of a cluster that lie in no domain, and their GPUs. O(nodes).
pub(crate) fn outside(cluster: &Cluster, topology: &Topology) -> (u64, u64) {
    let groups = cluster.pools.iter().flat_map(|pool| &pool.groups);
    let gpus = groups.flat_map(|group| (0..group.most_nodes()).map(move |_| u64::from(group.gpus_per_node)));
    let apart = (0u32..).zip(gpus).filter(|(node, _)| topology.domain(*node, 0).is_none());
    apart.fold((0, 0), |(nodes, all), (_, gpus)| (nodes + 1, all + gpus))
}

/// Computes the use of each request, in their order; none without a topology. `waited_ms` is how
/// long each job waited for the topology. O(jobs + pieces + nodes × shapes that were rejected).
pub(super) fn uses(
    workload: &Workload,
    cluster: &Cluster,
    schedule: &Schedule,
    times: &JobTimes,
    waited_ms: &[i64],
) -> Vec<TopologyUse> {
    let Some(topology) = &cluster.topology else { return Vec::new() };
    let outside = outside(cluster, topology);
    let nearby = Nearby::new(workload, cluster);
    // Whether the topology alone refuses a shape in a pool: what is over a quota or larger than the cluster is refused without it.
    let mut far: BTreeMap<(usize, Shape), bool> = BTreeMap::new();
    let mut empty: Option<State> = None;
    let mut is_far = |job: usize, shape: Shape| {
        let Some(nearby) = nearby.as_ref().filter(|nearby| nearby.concerns(shape)) else { return false };
        let vc = workload.vc.get(job).and_then(|vc| cluster.vcs.get(usize::from(*vc)));
        let Some(pool) = vc.map(|vc| usize::from(vc.pool)) else { return false };
        let empty = empty.get_or_insert_with(|| State::new(cluster));
        *far.entry((pool, shape)).or_insert_with(|| nearby.judge(empty, pool, shape, Looked::All) == Verdict::Far)
    };
    // Those without a request come last.
    let mut sums: BTreeMap<(bool, Option<TopologyRequest>), Sum> = BTreeMap::new();
    for (job, waited) in waited_ms.iter().copied().enumerate().filter(|(job, _)| times.is_counted(*job)) {
        let shape = workload.shape_of(job);
        let sum = sums.entry((shape.request.is_none(), shape.request)).or_default();
        sum.jobs += 1;
        sum.rejected += u64::from(times.outcome.get(job) == Some(&Outcome::Rejected) && is_far(job, shape));
        sum.waits_s
            .extend(times.jct_ms.get(job).copied().flatten().and(times.wait_ms(job)).map(|wait| wait as f64 / 1000.0));
        sum.waited += u64::from(waited > 0);
        sum.wait_ms += i128::from(waited);
        sum.gpu_wait += i128::from(waited) * i128::from(shape.amount());
        let Some(segment) = schedule.last_segment(job) else { continue };
        sum.ran += 1;
        let pieces = schedule.pieces_of(segment);
        if let [first, others @ ..] = pieces
            && !others.is_empty()
        {
            sum.several += 1;
            let domain = |node: u32| topology.domain(node, level_of(shape.request, topology));
            let near = domain(first.node).is_some();
            sum.together += u64::from(near && others.iter().all(|other| domain(other.node) == domain(first.node)));
        }
    }
    let nothing = if topology.is_of_switches() { SWITCHES } else { NOTHING };
    let told = |((_, request), sum): ((bool, Option<TopologyRequest>), Sum)| TopologyUse {
        request: request.map_or_else(|| nothing.to_owned(), |request| in_words(request, topology)),
        level: topology.name(level_of(request, topology)).to_owned(),
        jobs: sum.jobs,
        ran: sum.ran,
        on_several_nodes: sum.several,
        in_one_domain: sum.together,
        rejected: sum.rejected,
        mean_wait_s: sum::mean(&sum.waits_s),
        waited: sum.waited,
        wait_hours: hours(sum.wait_ms),
        gpu_wait_hours: hours(sum.gpu_wait) / 1000.0,
        outside,
    };
    sums.into_iter().map(told).collect()
}

/// The level by which it is told whether a job lies near.
fn level_of(request: Option<TopologyRequest>, topology: &Topology) -> u8 {
    match request.map(|request| request.nearness) {
        Some(Nearness::Required(level) | Nearness::Preferred(level)) => level,
        Some(Nearness::Unconstrained) | None => topology.node_level().saturating_sub(1),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::metric::{Cause, evaluate};
    use tracecast_sim::{Policy, Scan, simulate};

    /// Racks of two nodes of 8. Three jobs of a node take nodes 0, 1 and 2 from 0 to 100, 200 and 300 s; one of two nodes comes at 10 s and runs 50 s.
    fn found(request: Option<TopologyRequest>) -> (Vec<TopologyUse>, f64) {
        let mut cluster = Cluster::of_vcs(&[("all", 4, 8)]);
        cluster.topology = Some(Topology::regular(vec!["rack".to_owned()], &[2], 4).unwrap());
        let mut jobs = Workload::default();
        for end in [100, 200, 300] {
            jobs.push(0, end * 1000, Shape::whole(8));
        }
        jobs.push(10_000, 50_000, Shape { request, ..Shape::whole(16) });
        let schedule = simulate(&jobs, &cluster, &Policy { scan: Scan::Skip, ..Policy::default() }).unwrap();
        let metrics = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        let cause = metrics.delay.all.causes.iter().find(|of| of.cause == Cause::Topology);
        (metrics.topology, cause.map_or(0.0, |cause| cause.wait_hours * 3600.0))
    }

    #[test]
    fn waits_for_a_rack_are_told_from_those_for_gpus() {
        // It waits for GPUs until 100 s, when nodes 0 and 3 are free, and from then on for a rack, until 200 s.
        let (uses, cause_s) = found(Some(TopologyRequest::required(0)));
        let [required, others] = uses.as_slice() else { panic!("{uses:?}") };
        assert_eq!((required.request.as_str(), required.level.as_str()), ("requires one rack", "rack"));
        assert_eq!((required.jobs, required.ran, required.on_several_nodes, required.in_one_domain), (1, 1, 1, 1));
        assert_eq!((others.request.as_str(), others.jobs, others.on_several_nodes), (NOTHING, 3, 0));
        assert_eq!((required.waited, required.mean_wait_s), (1, Some(190.0)));
        assert!((required.wait_hours * 3600.0 - 100.0).abs() < 1e-9 && (cause_s - 100.0).abs() < 1e-9);
        assert!((required.gpu_wait_hours * 3600.0 - 1600.0).abs() < 1e-9);
        // Preferred, it starts at 100 s in two racks.
        let (preferred, cause_s) = found(Some(TopologyRequest::preferred(0)));
        assert_eq!((preferred[0].waited, preferred[0].mean_wait_s, preferred[0].in_one_domain), (0, Some(90.0), 0));
        assert_eq!(cause_s, 0.0);
        assert_eq!(found(Some(TopologyRequest::unconstrained())).0[0].request, "anywhere");
        // Without a request it does the same, and is counted as well.
        let (without, _) = found(None);
        assert_eq!(
            (without.len(), without[0].jobs, without[0].on_several_nodes, without[0].in_one_domain),
            (1, 4, 1, 0)
        );
    }

    /// Two leaf switches of two nodes: under Slurm the job of two nodes waits until one leaf has
    /// both.
    #[test]
    fn waits_for_a_switch_are_told_too() {
        let mut cluster = Cluster::of_vcs(&[("all", 4, 8)]);
        cluster.topology = Some(Topology::regular(vec!["leaf".to_owned()], &[2], 4).unwrap());
        let mut jobs = Workload::default();
        // Three nodes are busy, for 100, 300 and 200 s.
        for (gpus, at, end) in [(8, 0, 100), (8, 0, 300), (8, 0, 200), (16, 10, 50)] {
            jobs.push(at * 1000, end * 1000, Shape { nodes: (gpus / 8) as u16, ..Shape::whole(gpus) });
        }
        let policy = Policy { scan: Scan::Slurm, ..Policy::default() };
        let schedule = simulate(&jobs, &cluster, &policy).unwrap();
        let waited_s = schedule.start_ms(3).unwrap() / 1000 - 10;
        let metrics = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        let of = |cause: Cause| {
            let found = metrics.delay.all.causes.iter().find(|of| of.cause == cause);
            found.map_or(0.0, |found| found.wait_hours * 3600.0)
        };
        let [only] = metrics.topology.as_slice() else { panic!("{:?}", metrics.topology) };
        assert_eq!((only.request.as_str(), only.jobs, only.waited), (SWITCHES, 4, 1));
        // Whatever it did not wait for GPUs, it waited for the switches, and for nothing else.
        assert!(of(Cause::Topology) > 0.0 && (only.wait_hours * 3600.0 - of(Cause::Topology)).abs() < 1e-9);
        let told = of(Cause::Capacity) + of(Cause::Topology);
        assert!((told - waited_s as f64).abs() < 1e-6, "{told} of {waited_s}");
        // Followed no more, nothing is said of switches.
        cluster.topology = cluster.topology.map(Topology::unfollowed);
        let schedule = simulate(&jobs, &cluster, &policy).unwrap();
        let metrics = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        assert_eq!(metrics.topology[0].request, NOTHING);
    }

    /// Racks of two nodes of 8, and one node in no rack.
    #[test]
    fn too_large_is_what_the_topology_alone_refuses() {
        let mut cluster = Cluster::of_vcs(&[("all", 5, 8)]);
        let paths = [Some(vec![0]), Some(vec![0]), Some(vec![1]), Some(vec![1]), None];
        cluster.topology = Some(Topology::new(vec!["rack".to_owned()], paths.to_vec()).unwrap());
        assert_eq!(outside(&cluster, cluster.topology.as_ref().unwrap()), (1, 8));
        let mut jobs = Workload::default();
        // Of 16, 24 and 48 GPUs: a rack holds the first, the cluster the second, and nothing the third.
        for gpus in [16, 24, 48] {
            jobs.push(0, 1000, Shape { request: Some(TopologyRequest::required(0)), ..Shape::whole(gpus) });
        }
        // Racks hold 32 GPUs, and all nodes 40.
        for gpus in [32, 40, 48] {
            jobs.push(0, 1000, Shape { request: Some(TopologyRequest::unconstrained()), ..Shape::whole(gpus) });
        }
        jobs.push(0, 1000, Shape::whole(48));
        let schedule = simulate(&jobs, &cluster, &Policy { scan: Scan::Skip, ..Policy::default() }).unwrap();
        let uses = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics.topology;
        let of = |name: &str| uses.iter().find(|of| of.request == name).map(|of| (of.jobs, of.ran, of.rejected));
        assert_eq!(of("requires one rack"), Some((3, 1, 1)));
        assert_eq!(of("anywhere"), Some((3, 1, 1)));
        assert_eq!(of(NOTHING), Some((1, 0, 0)));
        assert_eq!(uses[0].outside, (1, 8));
    }

    #[test]
    fn slices_are_told_too() {
        let topology = Topology::regular(vec!["block".to_owned(), "rack".to_owned()], &[2, 2], 8).unwrap();
        assert_eq!(
            in_words(TopologyRequest::preferred(0).sliced(1, 4), &topology),
            "prefers one block, slices of 4 in one rack"
        );
        assert_eq!(in_words(TopologyRequest::required(2), &topology), "requires one node");
    }
}
