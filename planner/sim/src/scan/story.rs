//! Jobs of a few queues on nodes of 8 GPUs, as tests of the schedulers of Kubernetes tell them.

use crate::{Cluster, Policy, Preemption, Scan, Schedule, Shape, Workload, simulate};

/// Name of one of the first queues: a, b and so on.
pub(super) fn name(at: usize) -> String {
    char::from(b'a' + at as u8).to_string()
}

/// Some queues of these names, and all nodes in one pool.
pub(super) fn pool(nodes: u32, names: &[String]) -> Cluster {
    let nodes_of: Vec<(&str, u32, u32)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), if at == 0 { nodes } else { 0 }, 8)).collect();
    Cluster::of_vcs(&nodes_of).pooled()
}

/// Jobs as (queue, submitted at s, run s, GPUs, priority).
pub(super) fn jobs(list: &[(u16, i64, i64, u32, i32)]) -> Workload {
    let mut workload = Workload::default();
    for (queue, submit, run, gpus, priority) in list {
        workload.push(submit * 1000, run * 1000, Shape::whole(*gpus));
        *workload.vc.last_mut().unwrap() = *queue;
        workload.priority.push(*priority);
    }
    workload
}

/// The schedule under a scan; who is stopped begins anew.
pub(super) fn replay(jobs: &Workload, cluster: &Cluster, scan: Scan, interval_ms: Option<i64>) -> Schedule {
    let policy = Policy { scan, preemption: Preemption::Requeue, interval_ms, ..Policy::default() };
    simulate(jobs, cluster, &policy).unwrap()
}

/// When each job started, each time, seconds.
pub(super) fn starts(schedule: &Schedule) -> Vec<Vec<i64>> {
    let of = |job: usize| schedule.segments.iter().filter(move |segment| segment.job as usize == job);
    (0..schedule.outcome.len()).map(|job| of(job).map(|segment| segment.start_ms / 1000).collect()).collect()
}
