//! The queues of a cluster in a walk through a schedule, whoever's they are: Kueue's, within quotas in cohorts, or KAI's, with fair shares.
//!
//! Worked numbers: see [`super::quota`] and [`super::kai`]. O(1) beside what they take.

use super::kai::FairQueues;
use super::quota::{InCohorts, QuotaUse};
use crate::sim::cluster::Cluster;
use crate::sim::schedule::Piece;
use crate::sim::workload::Shape;

/// Queues in a walk through a schedule.
#[derive(Debug)]
pub(super) enum Queues<'a> {
    /// Kueue's.
    Cohorts(InCohorts<'a>),
    /// KAI's.
    Fair(Box<FairQueues<'a>>),
}

impl<'a> Queues<'a> {
    /// Of a cluster, if it has any.
    pub(super) fn of(cluster: &'a Cluster) -> Option<Self> {
        let fair = || Some(Self::Fair(Box::new(FairQueues::of(cluster.kai.as_ref()?))));
        InCohorts::of(cluster).map(Self::Cohorts).or_else(fair)
    }

    /// A job of `queue` takes or gives back what it holds.
    pub(super) fn hold(&mut self, queue: u16, pieces: &[Piece], take: bool) {
        match self {
            Self::Cohorts(queues) => queues.hold(queue, pieces, take),
            Self::Fair(queues) => queues.hold(queue, pieces.iter().map(|piece| piece.amount()).sum(), take),
        }
    }

    /// A job of `queue` joins those that wait, or leaves them.
    pub(super) fn wait(&mut self, queue: usize, amount: u64, joins: bool) {
        match self {
            Self::Cohorts(queues) => queues.wait(queue, amount, joins),
            Self::Fair(queues) => queues.wait(queue, amount, joins),
        }
    }

    /// A job of `queue` was stopped for another.
    pub(super) fn stop(&mut self, queue: u16) {
        match self {
            Self::Cohorts(queues) => queues.stop(queue),
            Self::Fair(queues) => queues.stop(queue),
        }
    }

    /// Whether quota alone keeps a job of `queue` from starting.
    pub(super) fn lacks(&self, queue: usize, shape: Shape) -> bool {
        match self {
            Self::Cohorts(queues) => queues.lacks(queue, shape),
            Self::Fair(queues) => queues.lacks(queue, shape.amount()),
        }
    }

    /// Nothing happens from `since` to `to`, with so many thousandths of GPUs in service; what was before `from` is not counted.
    pub(super) fn pass(&mut self, since: i64, to: i64, from: i64, in_service: u64) {
        match self {
            Self::Cohorts(queues) => queues.pass(u128::from((to - since.max(from)).max(0).unsigned_abs())),
            Self::Fair(queues) => queues.pass(to, from, in_service),
        }
    }

    /// The figures, over a window of so many milliseconds.
    pub(super) fn figures(&self, window_ms: i64) -> Vec<QuotaUse> {
        match self {
            Self::Cohorts(queues) => queues.figures(window_ms),
            Self::Fair(queues) => queues.figures(window_ms),
        }
    }
}
