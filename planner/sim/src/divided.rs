//! The queues that divide a cluster, whoever's they are: KAI's, with fair shares, or Volcano's. What a start and an end of a job is to them; the engine and what is told of a schedule go by it.
//!
//! O(depth of the tree) for a start or an end. Worked number: see `kai::held` and [`crate::volcano`].

use super::cluster::Cluster;
use super::forest::Forest;
use super::kai::held::{KaiState, is_within};
use super::policy::Scan;
use super::volcano::deserved::Due;
use super::volcano::state::VolcanoState;
use super::volcano::{FINE, Plugin};

/// Under KAI, jobs of this priority and above are not stopped, and run within quotas alone.
const FIRM_PRIORITY: i32 = 100;

/// Whether KAI would not stop a job of this priority.
pub(crate) fn is_firm(priority: i32) -> bool {
    priority >= FIRM_PRIORITY
}

/// Queues at a moment.
#[derive(Debug)]
pub enum Divided<'a> {
    /// KAI's.
    Kai(Box<KaiState<'a>>),
    /// Volcano's.
    Volcano(VolcanoState<'a>),
}

impl<'a> Divided<'a> {
    /// Takes the queues of a cluster that hold under a scan.
    pub(crate) fn under(cluster: &'a Cluster, scan: Scan) -> Option<Self> {
        match scan {
            Scan::Kai => cluster.kai.as_ref().map(|tree| Self::Kai(Box::new(KaiState::new(tree)))),
            Scan::Volcano => cluster.volcano.as_ref().map(|tree| Self::Volcano(VolcanoState::new(tree))),
            _ => None,
        }
    }

    /// Takes the queues of a cluster, which has KAI's or Volcano's or none.
    pub fn new(cluster: &'a Cluster) -> Option<Self> {
        Self::under(cluster, Scan::Kai).or_else(|| Self::under(cluster, Scan::Volcano))
    }

    /// Returns the tree of queues.
    pub fn forest(&self) -> &'a Forest {
        match self {
            Self::Kai(kai) => kai.tree.forest(),
            Self::Volcano(volcano) => volcano.tree.forest(),
        }
    }

    /// Returns the name of a queue.
    pub fn name(&self, queue: usize) -> &'a str {
        match self {
            Self::Kai(kai) => &kai.tree.queues()[queue].name,
            Self::Volcano(volcano) => &volcano.tree.queues()[queue].name,
        }
    }

    /// Returns the amount that each queue holds, thousandths.
    pub fn held(&self) -> &[u64] {
        match self {
            Self::Kai(kai) => &kai.held.all,
            Self::Volcano(volcano) => &volcano.held,
        }
    }

    /// A job of a leaf takes `amount` from `now`, or gives it back.
    pub fn hold(&mut self, now: i64, leaf: u16, amount: u64, priority: i32, takes: bool) {
        match self {
            Self::Kai(kai) => kai.hold(now, leaf, amount, is_firm(priority), takes),
            Self::Volcano(volcano) => volcano.hold(leaf, amount, priority, takes),
        }
    }

    /// A job of a leaf joins those that wait.
    pub(crate) fn join(&mut self, leaf: u16, amount: u64) {
        self.wait(leaf, amount, true);
    }

    /// A job of a leaf that waited has started.
    pub(crate) fn leave(&mut self, leaf: u16, amount: u64) {
        self.wait(leaf, amount, false);
    }

    fn wait(&mut self, leaf: u16, amount: u64, joins: bool) {
        let waiting = match self {
            Self::Kai(kai) => &mut kai.waiting[usize::from(leaf)],
            Self::Volcano(volcano) => &mut volcano.waiting[usize::from(leaf)],
        };
        *waiting = if joins { *waiting + amount } else { waiting.saturating_sub(amount) };
    }

    /// Sets the thousandths of GPUs in service from `now`.
    pub fn serve(&mut self, now: i64, milli: u64) {
        if let Self::Kai(kai) = self {
            kai.serve(now, milli);
        }
    }

    /// Whether the fixed bounds let a job of a leaf start now: limits, quotas of firm jobs,
    /// capabilities.
    pub(crate) fn allows(&self, leaf: u16, amount: u64, priority: i32) -> bool {
        match self {
            Self::Kai(kai) => kai.held.allows(kai.tree, leaf, amount, is_firm(priority)),
            Self::Volcano(volcano) => volcano.tree.is_capable(leaf, |at| volcano.held[at] + amount),
        }
    }

    /// Whether the fixed bounds let a job of a leaf start with nothing held.
    pub(crate) fn could_allow(&self, leaf: u16, amount: u64, priority: i32) -> bool {
        match self {
            Self::Kai(kai) => is_within(kai.tree, leaf, is_firm(priority), |_| (amount, amount)),
            Self::Volcano(volcano) => volcano.tree.is_capable(leaf, |_| amount),
        }
    }

    /// Returns the amounts due to queues with `in_service` there and waiting jobs that ask for so
    /// much, where these bound who may start.
    pub fn due(&self, in_service: u64, waiting: &[u64]) -> Option<Due> {
        match self {
            Self::Kai(_) => None,
            Self::Volcano(volcano) => Some(volcano.tree.due(in_service, &self.requests(waiting))),
        }
    }

    /// Whether the amounts due depend on the requests of jobs, and not on what is in service alone.
    pub fn due_goes_by_requests(&self) -> bool {
        !matches!(self, Self::Volcano(volcano) if volcano.tree.rules().plugin == Plugin::Capacity)
    }

    /// Whether the queues' bounds alone let a job of a leaf start, with the amounts due.
    pub fn may_start(&self, due: Option<&Due>, leaf: u16, amount: u64) -> bool {
        match (self, due) {
            (Self::Volcano(volcano), Some(due)) => volcano.tree.may_have(due, &volcano.held, leaf, amount),
            _ => self.allows(leaf, amount, 0),
        }
    }

    /// Returns, by queue, the amount held plus the amount that waiting jobs ask for.
    fn requests(&self, waiting: &[u64]) -> Vec<u64> {
        self.held().iter().zip(waiting).map(|(held, waiting)| held + waiting).collect()
    }

    /// Whether it is known who holds more than it deserves.
    pub fn tells_over(&self) -> bool {
        matches!(self, Self::Volcano(_))
    }

    /// Returns when the amounts due change next although nothing happens.
    pub fn changes_ms(&self, now: i64) -> Option<i64> {
        match self {
            Self::Kai(kai) => kai.usage.as_ref().map(|usage| usage.next_ms(now)),
            Self::Volcano(_) => None,
        }
    }

    /// Returns the amounts due to each queue now, with `in_service` there and waiting jobs that ask
    /// for so much, by queue; `due` is the result of [`Divided::due`] for these.
    pub fn entitlements(&mut self, now: i64, in_service: u64, waiting: &[u64], due: Option<&Due>) -> Vec<Entitlement> {
        let requests = self.requests(waiting);
        match self {
            Self::Kai(kai) => {
                let used = kai.usage.as_mut().map_or(&[][..], |usage| usage.known(now));
                let fair = kai.tree.fair_shares(in_service, &requests, used);
                let own = kai.tree.queues().iter().map(|queue| queue.quota.unwrap_or(in_service));
                own.zip(fair).map(|(own, fair)| Entitlement { own, fair, is_over: false }).collect()
            }
            Self::Volcano(volcano) => due.map_or_else(Vec::new, |due| entitled(volcano, in_service, &requests, due)),
        }
    }
}

/// Amounts due to a queue, thousandths.
#[derive(Debug, Clone, Copy)]
pub struct Entitlement {
    /// Amount due whoever asks for it.
    pub own: u64,
    /// Share of what runs and waits now.
    pub fair: u64,
    /// Whether the queue holds more than it deserves, under Volcano's queues.
    pub is_over: bool,
}

fn entitled(volcano: &VolcanoState<'_>, in_service: u64, requests: &[u64], due: &Due) -> Vec<Entitlement> {
    let tree = volcano.tree;
    let weights: u64 = tree.queues().iter().map(|queue| u64::from(queue.weight)).sum();
    let of = |at: usize| {
        let whole = due.deserved[at] / FINE;
        let (own, fair) = match tree.rules().plugin {
            Plugin::Proportion => {
                let part = u128::from(in_service) * u128::from(tree.queues()[at].weight) / u128::from(weights.max(1));
                (u64::try_from(part).unwrap_or(u64::MAX), whole)
            }
            Plugin::Capacity => (whole, whole.min(requests[at])),
        };
        Entitlement { own, fair, is_over: due.is_over(at, volcano.held[at]) }
    };
    (0..tree.queues().len()).map(of).collect()
}
