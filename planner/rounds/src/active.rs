//! The jobs that are there, as a policy sees them, and their equal shares.
//!
//! O(jobs). Worked example: of three jobs of one GPU each on two GPUs, the equal share of each is two thirds of its time; of one job alone it is all of it.

use super::host::JobAsks;
use super::node::Gang;
use super::pool::JobKind;
use super::programme::Claim;

/// A job that is there and not done, as a policy sees it.
#[derive(Debug, Clone)]
pub struct ActiveJob<'a> {
    /// GPUs and speeds.
    pub kind: &'a JobKind,
    /// Weight, after its user's jobs have divided theirs.
    pub weight: f64,
    /// Seconds since it was submitted.
    pub since_s: f64,
    /// Steps left.
    pub remaining: f64,
    /// Steps that it made, each over the job's equal share when it made it: over a speed, how long they take alone on equal shares.
    pub alone_steps: f64,
    /// GPU-seconds that it has had.
    pub attained_gpu_s: f64,
    /// The type that it had in the round before.
    pub on: Option<usize>,
    /// GPUs that it had then, or the last time that it ran; 0 if it never did.
    pub had_gpus: u32,
    /// User, numbered from 0 in the order in which users come.
    pub user: usize,
    /// Weight of the user.
    pub user_weight: f64,
    /// Number of the job, in order of submission of all jobs.
    pub job: usize,
    /// Seconds until its deadline, below 0 if that has passed; `None` if it has none.
    pub due_s: Option<f64>,
    /// Demand of processors and memory, `None` if these do not count.
    pub asks: Option<&'a JobAsks>,
}

impl<'a> ActiveJob<'a> {
    /// A job that was just submitted and is like all others, with so many steps to make.
    pub fn new(kind: &'a JobKind, remaining: f64) -> Self {
        Self {
            kind,
            weight: 1.0,
            since_s: 0.0,
            remaining,
            alone_steps: 0.0,
            attained_gpu_s: 0.0,
            on: None,
            had_gpus: 0,
            user: 0,
            user_weight: 1.0,
            job: 0,
            due_s: None,
            asks: None,
        }
    }

    /// GPUs of the gang.
    pub fn gpus(&self) -> f64 {
        f64::from(self.kind.gpus)
    }

    /// Returns the gang on a type, by the best demand of processors and memory or by the needs.
    pub fn gang(&self, at: usize, best: bool) -> Gang {
        self.asks.map_or(self.kind.gpus.into(), |asks| asks.gang(self.kind.gpus, at, best))
    }

    /// A gang of another size of it, by what it needs.
    pub(super) fn gang_of(&self, gpus: u32) -> Gang {
        Gang { gpus, needs: self.asks.and_then(|asks| asks.base) }
    }

    /// Returns the claim of the job with another need.
    pub(super) fn claim(&self, need: f64) -> Claim {
        Claim { gpus: self.gpus(), speeds: self.kind.steps_per_s.clone(), need }
    }
}

/// The equal share of each job's time.
pub fn equal_shares(active: &[ActiveJob<'_>], gpus: &[f64]) -> Vec<f64> {
    let (all, weights) = (gpus.iter().sum::<f64>(), active.iter().map(|job| job.weight).sum::<f64>());
    active.iter().map(|job| (job.weight * all / (weights * job.gpus())).min(1.0)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn kind(gpus: u32, speeds: &[f64]) -> JobKind {
        JobKind { job: "a".into(), gpus, steps_per_s: speeds.to_vec() }
    }

    pub(in super::super) fn active(kinds: &[JobKind]) -> Vec<ActiveJob<'_>> {
        let of = |(job, kind)| ActiveJob { job, ..ActiveJob::new(kind, 1000.0) };
        kinds.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_worked_example() {
        let kinds = [kind(1, &[1.0]), kind(1, &[1.0]), kind(1, &[1.0])];
        assert!(equal_shares(&active(&kinds), &[2.0]).iter().all(|share| (share - 2.0 / 3.0).abs() < 1e-12));
        assert_eq!(equal_shares(&active(&kinds[..1]), &[2.0]), [1.0]);
        // A gang of two has half the time of a job of one, and twice the weight twice as much.
        let kinds = [kind(1, &[1.0]), kind(2, &[1.0])];
        let mut jobs = active(&kinds);
        assert_eq!(equal_shares(&jobs, &[1.0]), [0.5, 0.25]);
        jobs[1].weight = 3.0;
        assert_eq!(equal_shares(&jobs, &[1.0]), [0.25, 0.375]);
    }
}
