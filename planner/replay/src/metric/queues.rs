//! The queues of a cluster in a walk through a schedule, whoever's they are: Kueue's, within quotas in cohorts, or KAI's and Volcano's, which divide the cluster.
//!
//! Worked numbers: see [`super::quota`] and [`super::divided`]. O(1) beside what they take.

use super::divided::DividedQueues;
use super::quota::{InCohorts, QuotaUse};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::Piece;
use tracecast_sim::workload::Shape;

/// Queues in a walk through a schedule.
#[derive(Debug)]
pub(super) enum Queues<'a> {
    /// Kueue's.
    Cohorts(InCohorts<'a>),
    /// KAI's or Volcano's.
    Divided(Box<DividedQueues<'a>>),
}

impl<'a> Queues<'a> {
    /// Takes the queues of a cluster, if it has any.
    pub(super) fn of(cluster: &'a Cluster) -> Option<Self> {
        let divided = || DividedQueues::new(cluster).map(|queues| Self::Divided(Box::new(queues)));
        InCohorts::new(cluster).map(Self::Cohorts).or_else(divided)
    }

    /// A job of `queue` takes or gives back what it holds.
    pub(super) fn hold(&mut self, queue: u16, pieces: &[Piece], take: bool) {
        match self {
            Self::Cohorts(queues) => queues.hold(queue, pieces, take),
            Self::Divided(queues) => queues.hold(queue, pieces.iter().map(|piece| piece.amount()).sum(), take),
        }
    }

    /// A job of `queue` joins those that wait, or leaves them.
    pub(super) fn wait(&mut self, queue: usize, amount: u64, joins: bool) {
        match self {
            Self::Cohorts(queues) => queues.wait(queue, amount, joins),
            Self::Divided(queues) => queues.wait(queue, amount, joins),
        }
    }

    /// A job of `queue` was stopped for another.
    pub(super) fn stop(&mut self, queue: u16) {
        match self {
            Self::Cohorts(queues) => queues.stop(queue),
            Self::Divided(queues) => queues.stop(queue),
        }
    }

    /// Recomputes the amounts due after the events of this instant, with so many thousandths of
    /// GPUs in service.
    pub(super) fn settle(&mut self, in_service: u64) {
        if let Self::Divided(queues) = self {
            queues.settle(in_service);
        }
    }

    /// Whether quota alone keeps a job of `queue` from starting.
    pub(super) fn lacks(&self, queue: usize, shape: Shape) -> bool {
        match self {
            Self::Cohorts(queues) => queues.lacks(queue, shape),
            Self::Divided(queues) => queues.lacks(queue, shape.amount()),
        }
    }

    /// Nothing happens from `since` to `to`, with so many thousandths of GPUs in service; what was before `from` is not counted.
    pub(super) fn pass(&mut self, since: i64, to: i64, from: i64, in_service: u64) {
        match self {
            Self::Cohorts(queues) => queues.pass(u128::from((to - since.max(from)).max(0).unsigned_abs())),
            Self::Divided(queues) => queues.pass(to, from, in_service),
        }
    }

    /// The figures, over a window of so many milliseconds.
    pub(super) fn figures(&self, window_ms: i64) -> Vec<QuotaUse> {
        match self {
            Self::Cohorts(queues) => queues.figures(window_ms),
            Self::Divided(queues) => queues.figures(window_ms),
        }
    }
}
