//! Rules of thumb for the number of nodes, which the replays are held against.
//!
//! ```text
//! peak         the most GPUs that jobs would hold at once if none waited
//! mean 80 %    the GPUs that jobs hold on average, over 0.8
//! Erlang       the fewest servers with which at most 5 % of the jobs wait longer than the target, by Erlang C with Allen and Cunneen's variability
//! square root  the load and β√load beyond it, so that at most 5 % wait at all
//! ```
//!
//! Servers are of ḡ GPUs ([`super::theory`]). No rule goes below the nodes of the largest job. O(n log n) in jobs. Worked number: a mean of 130 GPUs on nodes of
//! 8 is 16.25 nodes in use, so 21 by the rule of 80 %.

use tracecast_analytics::facts::Steps;
use tracecast_analytics::stats::sum;

use super::part::Part;
use super::search::MAY_WAIT;
use super::theory::{Traffic, square_root_staffing};
use crate::sim::Workload;

/// Share of the GPUs in use that the second rule aims at.
pub(super) const USUAL: f64 = 0.8;

/// What the jobs of a part ask for in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AskedFor {
    /// GPUs held on average if no job waited.
    pub mean_gpus: f64,
    /// The most at once.
    pub peak_gpus: f64,
    /// GPUs of the largest job.
    pub largest_gpus: f64,
    /// GPUs of a job, weighted by its run, ḡ.
    pub gang_gpus: f64,
    /// The jobs, as queueing theory sees them.
    pub traffic: Traffic,
}

/// Squared coefficient of variation; 1 where it cannot be told.
fn scv(values: &[f64]) -> f64 {
    let scv = sum::mean(values).zip(sum::variance(values)).map(|(mean, variance)| variance / (mean * mean));
    scv.filter(|scv| scv.is_finite()).unwrap_or(1.0)
}

impl AskedFor {
    /// Of the jobs submitted within `window`, milliseconds; `None` with fewer than two, or if none holds GPUs.
    pub fn of(workload: &Workload, window: (i64, i64)) -> Option<Self> {
        let (from, to) = window;
        let within = |job: &usize| workload.submit_ms.get(*job).is_some_and(|submit| (from..to).contains(submit));
        let jobs: Vec<usize> = (0..workload.len()).filter(within).collect();
        let span_s = (to - from).max(1) as f64 / 1e3;
        let submit = |job: &usize| workload.submit_ms.get(*job).copied().unwrap_or(0);
        let run = |job: &usize| workload.run_ms.get(*job).copied().unwrap_or(0);
        let runs_s: Vec<f64> = jobs.iter().map(|job| run(job) as f64 / 1e3).collect();
        let submits = jobs.iter().map(submit);
        let gaps_s: Vec<f64> = submits.clone().zip(submits.skip(1)).map(|(a, b)| (b - a) as f64 / 1e3).collect();
        // Within the window: what a long job does beyond it is not asked for in it.
        let held = Steps::of_intervals((0..workload.len()).map(|job| {
            let (start, end) = (submit(&job).max(from), (submit(&job).max(0) + run(&job)).min(to));
            (start, end, workload.shape_of(job).as_gpus())
        }));
        let peak_gpus = held.max(from, to);
        let run_s: f64 = runs_s.iter().sum();
        let held_s: f64 = jobs.iter().map(|job| workload.gpu_s(*job)).sum();
        (jobs.len() > 1 && run_s > 0.0 && peak_gpus > 0.0).then(|| Self {
            mean_gpus: held.integral_s(from, to) / span_s,
            peak_gpus,
            largest_gpus: jobs.iter().map(|job| workload.shape_of(*job).as_gpus()).fold(0.0, f64::max),
            gang_gpus: held_s / run_s,
            traffic: Traffic {
                rate: jobs.len() as f64 / span_s,
                mean_run_s: run_s / jobs.len() as f64,
                arrival_scv: scv(&gaps_s),
                run_scv: scv(&runs_s),
            },
        })
    }

    /// The offered load of so many GPUs in the window: GPU time of the jobs submitted in it, each run whole, over that of the GPUs. It is that of [`OfferedLoads`](crate::replay::metric::OfferedLoads), of
    /// another window; `None` without GPUs.
    pub fn offered_load(&self, gpus: f64) -> Option<f64> {
        (gpus > 0.0).then(|| self.traffic.load() * self.gang_gpus / gpus)
    }

    /// Servers of ḡ GPUs that so many GPUs are.
    pub fn servers(&self, gpus: u64) -> u32 {
        (gpus as f64 / self.gang_gpus.max(1e-3)) as u32
    }

    fn nodes(&self, part: &Part, gpus: f64) -> u32 {
        part.nodes_for(gpus.max(self.largest_gpus))
    }

    /// Nodes by the peak.
    pub fn by_peak(&self, part: &Part) -> u32 {
        self.nodes(part, self.peak_gpus)
    }

    /// Nodes for a mean use of 80 %.
    pub fn by_mean(&self, part: &Part) -> u32 {
        self.nodes(part, self.mean_gpus / USUAL)
    }

    /// Nodes by Erlang C, Allen and Cunneen.
    pub fn by_erlang(&self, part: &Part, target_s: f64) -> u32 {
        let servers = self.traffic.servers_for(target_s, MAY_WAIT).unwrap_or(u32::MAX);
        self.nodes(part, f64::from(servers) * self.gang_gpus)
    }

    /// Nodes by the square root.
    pub fn by_square_root(&self, part: &Part) -> u32 {
        self.nodes(part, square_root_staffing(self.traffic.load(), MAY_WAIT) * self.gang_gpus)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::{Cluster, Shape};

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
        let asked = AskedFor::of(&jobs, (2 * hour, 100 * hour)).unwrap();
        assert!((asked.mean_gpus - 32.0).abs() < 1e-9 && (asked.peak_gpus - 32.0).abs() < 1e-9);
        assert!((asked.gang_gpus - 32.0 / 3.0).abs() < 1e-9 && (asked.traffic.load() - 3.0).abs() < 1e-9);
        assert_eq!((asked.by_peak(&part), asked.by_mean(&part), asked.servers(72)), (4, 5, 6));
        // 32 GPUs at once of 64, whatever the servers.
        assert!((asked.offered_load(64.0).unwrap() - 0.5).abs() < 1e-9 && asked.offered_load(0.0).is_none());
        // Two at a time, an hour apart: the gaps are 0 and 1 h by turns, of which the squared variation is about one.
        assert!((asked.traffic.arrival_scv - 1.0).abs() < 0.03);
        // Three servers in use; β = 2.06 leaves 5 % waiting: 3 + 3.6, so 7 servers of 32/3 GPUs on 10 nodes.
        assert_eq!(asked.by_square_root(&part), 10);
        assert!(asked.by_erlang(&part, 3600.0) >= 4);
        assert_eq!(AskedFor::of(&jobs, (0, 0)), None);
    }
}
