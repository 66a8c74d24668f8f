//! Who is over its quota, borrows or starves under queues that divide the cluster, KAI's or Volcano's: figures of each queue, leaf or above others.
//!
//! Of a queue at a moment, with n its own, f its fair share of what runs and waits, u what its jobs hold and w what its waiting jobs ask for: it *borrows* max(0, u − n), leaves
//! max(0, n − u) *idle*, is *owed* as much of w as is idle, and is *short* of as much of w as its fair share exceeds what it holds. The figures are means over the window of the replay. In service are nodes that take jobs, and what jobs hold on others.
//!
//! | queues | its own | its fair share |
//! |---|---|---|
//! | KAI's | its quota, all in service if it is unlimited | as KAI divides ([`tracecast_sim::kai`]), with what was used up to then |
//! | Volcano's, plugin `proportion` | its weight's part of all in service, of the weights of all queues | what it deserves ([`tracecast_sim::volcano`]) |
//! | Volcano's, plugin `capacity` | what it deserves | the same, at most what its jobs ask for |
//!
//! Under Volcano's queues a queue is *overused* while it holds more than it deserves: it can be reclaimed from. That is told as a part of the window.
//!
//! O(queues²) for each instant, and for each measurement of usage. Worked number: a queue of quota 4 and fair share 6 holds 3 GPUs for an hour in which a job of 8 waits: it is owed 1 GPU, and 3 short of its fair share.

use super::quota::QuotaUse;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::divided::{Divided, Entitlement};
use tracecast_sim::volcano::deserved::Due;

/// Integrals over time, thousandths of GPUs × milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Integrals {
    nominal: u128,
    used: u128,
    borrowed: u128,
    idle: u128,
    owed: u128,
    fair: u128,
    short: u128,
    /// Milliseconds in which it was overused.
    over: u128,
}

/// Queues in a walk through a schedule.
#[derive(Debug)]
pub(super) struct DividedQueues<'a> {
    state: Divided<'a>,
    now: i64,
    /// By queue, thousandths of GPUs.
    waiting: Vec<u64>,
    totals: Vec<Integrals>,
    stopped: Vec<u64>,
    /// Amounts due to queues, where these bound who may start.
    due: Option<Due>,
    /// GPUs in service that `due` was computed for, thousandths; `None` once it is outdated, as a
    /// job has taken, given back, joined or left since.
    due_of: Option<u64>,
}

impl<'a> DividedQueues<'a> {
    /// Takes the queues of a cluster, if it has KAI's or Volcano's.
    pub(super) fn new(cluster: &'a Cluster) -> Option<Self> {
        let state = Divided::new(cluster)?;
        let count = state.forest().queues();
        Some(Self {
            state,
            now: 0,
            waiting: vec![0; count],
            totals: vec![Integrals::default(); count],
            stopped: vec![0; count],
            due: None,
            due_of: None,
        })
    }

    /// Marks the amounts due as outdated, if they depend on requests.
    fn changed(&mut self) {
        if self.state.due_goes_by_requests() {
            self.due_of = None;
        }
    }

    /// A job of a leaf takes or gives back what it holds.
    pub(super) fn hold(&mut self, leaf: u16, amount: u64, take: bool) {
        self.changed();
        // Whether it could be stopped matters to no figure.
        self.state.hold(self.now, leaf, amount, 0, take);
    }

    /// A job of a leaf joins those that wait, or leaves them.
    pub(super) fn wait(&mut self, leaf: usize, amount: u64, joins: bool) {
        self.changed();
        for queue in self.state.forest().path(leaf as u16) {
            let waiting = &mut self.waiting[usize::from(queue)];
            *waiting = if joins { *waiting + amount } else { waiting.saturating_sub(amount) };
        }
    }

    /// A job of a leaf was stopped for another.
    pub(super) fn stop(&mut self, leaf: u16) {
        self.state.forest().path(leaf).for_each(|queue| self.stopped[usize::from(queue)] += 1);
    }

    /// Recomputes the amounts due after the events of this instant, with so many thousandths of
    /// GPUs in service.
    pub(super) fn settle(&mut self, in_service: u64) {
        if self.due_of != Some(in_service) {
            self.due = self.state.due(in_service, &self.waiting);
            self.due_of = Some(in_service);
        }
    }

    /// Whether the queue alone keeps a job of a leaf from starting.
    pub(super) fn lacks(&self, leaf: usize, amount: u64) -> bool {
        !self.state.may_start(self.due.as_ref(), leaf as u16, amount)
    }

    /// Nothing happens until `to`; what was before `from` is not counted.
    pub(super) fn pass(&mut self, to: i64, from: i64, in_service: u64) {
        self.state.serve(self.now, in_service);
        while self.now < to {
            let (now, next) = (self.now, self.state.changes_ms(self.now).map_or(to, |at| at.min(to)));
            let dt = u128::from(next.saturating_sub(now.max(from)).max(0).unsigned_abs());
            if dt > 0 {
                self.settle(in_service);
                let due = self.state.entitlements(now, in_service, &self.waiting, self.due.as_ref());
                self.count(&due, dt);
            }
            self.now = next;
        }
    }

    fn count(&mut self, due: &[Entitlement], dt: u128) {
        for ((at, total), due) in self.totals.iter_mut().enumerate().zip(due) {
            let (held, waiting) = (self.state.held()[at], self.waiting[at]);
            let idle = due.own.saturating_sub(held);
            total.nominal += u128::from(due.own) * dt;
            total.used += u128::from(held) * dt;
            total.borrowed += u128::from(held.saturating_sub(due.own)) * dt;
            total.idle += u128::from(idle) * dt;
            total.owed += u128::from(waiting.min(idle)) * dt;
            total.fair += u128::from(due.fair) * dt;
            total.short += u128::from(waiting.min(due.fair.saturating_sub(held))) * dt;
            total.over += if due.is_over { dt } else { 0 };
        }
    }

    /// The figures, over a window of so many milliseconds.
    pub(super) fn figures(&self, window_ms: i64) -> Vec<QuotaUse> {
        let mean = |total: u128| if window_ms > 0 { total as f64 / window_ms as f64 / 1000.0 } else { 0.0 };
        let of = |(at, total): (usize, &Integrals)| QuotaUse {
            name: self.state.name(at).to_owned(),
            above: at >= self.state.forest().leaves(),
            nominal_gpus: mean(total.nominal),
            used_gpus: mean(total.used),
            borrowed_gpus: mean(total.borrowed),
            idle_gpus: mean(total.idle),
            owed_gpus: mean(total.owed),
            fair_gpus: Some(mean(total.fair)),
            short_gpus: Some(mean(total.short)),
            overused_ratio: self.state.tells_over().then(|| mean(total.over) * 1000.0),
            stopped: self.stopped[at],
        };
        self.totals.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::metric::evaluate;
    use tracecast_sim::kai::{Hierarchy, KaiQueue, KaiRules};
    use tracecast_sim::{Cluster, Policy, Scan, Shape, Workload, simulate};

    fn queue(name: &str, quota: u64) -> KaiQueue {
        KaiQueue { name: name.to_owned(), quota: Some(quota * 1000), ..KaiQueue::default() }
    }

    /// On a node of 4, a has a quota of 1 and b of 2, at equal weights. b holds 3 for 2 h; a's job of 2 comes at 1 h and waits until 2 h, then runs for 1 h.
    #[test]
    fn fair_shares_and_what_is_short_of_them_are_means_over_the_window() {
        let mut cluster = Cluster::of_vcs(&[("a", 1, 4), ("b", 0, 4)]).pooled();
        cluster.kai = Some(Hierarchy::new(vec![queue("a", 1), queue("b", 2)], 2, KaiRules::default()).unwrap());
        let hour = 3_600_000;
        let mut jobs = Workload::default();
        jobs.push(0, 2 * hour, Shape::whole(3));
        jobs.push(hour, hour, Shape::whole(2));
        jobs.vc = vec![1, 0];
        let never = Policy { scan: Scan::Kai, ..Policy::default() };
        let schedule = simulate(&jobs, &cluster, &never).unwrap();
        let result = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        let of = |queue: usize| {
            let of = &result.quotas[queue];
            [
                of.nominal_gpus,
                of.used_gpus,
                of.borrowed_gpus,
                of.owed_gpus,
                of.fair_gpus.unwrap(),
                of.short_gpus.unwrap(),
            ]
            .map(|gpus| (gpus * 3.0).round() as i64)
        };
        // Over 3 h. In the second, a wants 2 and b 3 of 4: beyond the quotas one GPU is left, half for each: the first of the two gets it. a is owed 1 and 2 short.
        assert_eq!(of(0), [3, 2, 1, 1, 4, 2]);
        // b's fair share is 3, 2 and 0.
        assert_eq!(of(1), [6, 6, 2, 0, 5, 0]);
    }
}
