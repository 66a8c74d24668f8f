//! Who asks for least of processors and memory, where these matter to a schedule.
//!
//! O(jobs). Worked number: jobs of 2 GPUs with 8 cores for each, and of a quarter of a GPU with 4 cores: one GPU of the first takes 8 cores, the part of the second 4.

use std::collections::BTreeSet;

use super::times::JobTimes;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::host::HostNeed;
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::workload::Workload;

/// Processors and memory beside one GPU of a kind of job (or its part of one), with the type of GPU
/// that it must have.
pub(super) type Least = (Option<u16>, HostNeed);

/// By pool, what one GPU of each kind of counted job that was not rejected takes beside it; nothing where that does not matter.
pub(super) fn least(workload: &Workload, cluster: &Cluster, schedule: &Schedule, times: &JobTimes) -> Vec<Vec<Least>> {
    let mut request = vec![BTreeSet::new(); cluster.pools.len()];
    if cluster.counts_hosts(workload) {
        for job in (0..workload.len()).filter(|job| times.is_counted(*job)) {
            let vc = workload.vc.get(job).and_then(|vc| cluster.vcs.get(usize::from(*vc)));
            let request = vc.and_then(|vc| request.get_mut(usize::from(vc.pool)));
            if let Some(request) = request.filter(|_| schedule.outcome.get(job) != Some(&Outcome::Rejected)) {
                let shape = workload.shape_of(job);
                request.insert((shape.gpu_type, shape.host));
            }
        }
    }
    request.into_iter().map(|request| request.into_iter().collect()).collect()
}
