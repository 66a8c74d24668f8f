//! Rules of thumb for the number of nodes, which the replays are held against.
//!
//! ```text
//! peak         the most GPUs that jobs would hold at once if none waited
//! mean 80 %    the GPUs that jobs hold on average, over 0.8
//! Erlang       the fewest servers with which at most 5 % of the jobs wait longer than the target, by Erlang C with Allen and Cunneen's variability
//! square root  the load and β√load beyond it, so that at most 5 % wait at all
//! ```
//!
//! Servers are of ḡ GPUs ([`crate::plan::queueing`]). No rule goes below the nodes of the largest job. O(n log n) in jobs. Worked number: a mean of 130 GPUs on nodes of
//! 8 is 16.25 nodes in use, so 21 by the rule of 80 %.

use super::part::Part;
use super::search::MAY_WAIT;
use crate::plan::offered::OfferedTraffic;
use crate::plan::queueing::square_root_staffing;

/// Share of the GPUs in use that the second rule aims at.
pub(super) const USUAL: f64 = 0.8;

impl Part {
    fn nodes_of(&self, request: &OfferedTraffic, gpus: f64) -> u32 {
        self.nodes_for(gpus.max(request.largest_gpus))
    }

    /// Nodes by the peak.
    pub fn by_peak(&self, request: &OfferedTraffic) -> u32 {
        self.nodes_of(request, request.peak_gpus)
    }

    /// Nodes for a mean use of 80 %.
    pub fn by_mean(&self, request: &OfferedTraffic) -> u32 {
        self.nodes_of(request, request.mean_gpus / USUAL)
    }

    /// Nodes by Erlang C, Allen and Cunneen.
    pub fn by_erlang(&self, request: &OfferedTraffic, target_s: f64) -> u32 {
        let servers = request.traffic.servers_for(target_s, MAY_WAIT).unwrap_or(u32::MAX);
        self.nodes_of(request, f64::from(servers) * request.gang_gpus)
    }

    /// Nodes by the square root.
    pub fn by_square_root(&self, request: &OfferedTraffic) -> u32 {
        self.nodes_of(request, square_root_staffing(request.traffic.load(), MAY_WAIT) * request.gang_gpus)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::{Cluster, Shape, Workload};

    #[test]
    fn by_hand() {
        // Every hour a job of 8 GPUs that runs two, and one of 16 that runs one: 32 GPUs at once, ḡ = 32 / 3.
        let hour = 3_600_000;
        let mut jobs = Workload::default();
        for at in 0..100 {
            jobs.push(at * hour, 2 * hour, Shape::whole(8));
            jobs.push(at * hour, hour, Shape::whole(16));
        }
        let cluster = Cluster::of_vcs(&[("a", 9, 8)]);
        let part = Part::all(&cluster, 0).remove(0);
        let request = OfferedTraffic::new(&jobs, (2 * hour, 100 * hour)).unwrap();
        assert!((request.mean_gpus - 32.0).abs() < 1e-9 && (request.peak_gpus - 32.0).abs() < 1e-9);
        assert!((request.gang_gpus - 32.0 / 3.0).abs() < 1e-9 && (request.traffic.load() - 3.0).abs() < 1e-9);
        assert_eq!((part.by_peak(&request), part.by_mean(&request), request.servers(72)), (4, 5, 6));
        // 32 GPUs at once of 64, whatever the servers.
        assert!((request.offered_load(64.0).unwrap() - 0.5).abs() < 1e-9 && request.offered_load(0.0).is_none());
        // Two at a time, an hour apart: the gaps are 0 and 1 h by turns, of which the squared variation is about one.
        assert!((request.traffic.arrival_scv - 1.0).abs() < 0.03);
        // Three servers in use; β = 2.06 leaves 5 % waiting: 3 + 3.6, so 7 servers of 32/3 GPUs on 10 nodes.
        assert_eq!(part.by_square_root(&request), 10);
        assert!(part.by_erlang(&request, 3600.0) >= 4);
        assert_eq!(OfferedTraffic::new(&jobs, (0, 0)), None);
    }
}
