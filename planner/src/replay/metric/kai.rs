//! Who is over its quota, borrows or starves under KAI's queues: figures of each queue, leaf or above others.
//!
//! Of a queue at a moment, with n its quota (all in service if it is unlimited), f its fair share ([`crate::sim::kai`], from what runs, waits and was used up to then), u what its jobs hold and w what its waiting jobs ask for: it *borrows* max(0, u − n), leaves
//! max(0, n − u) *idle*, is *owed* as much of w as is idle, and is *short* of as much of w as its fair share exceeds what it holds. The figures are means over the window of the replay. In service are nodes that take jobs, and what jobs hold on others.
//!
//! O(queues²) for each instant, and for each measurement of usage. Worked number: a queue of quota 4 and fair share 6 holds 3 GPUs for an hour in which a job of 8 waits: it is owed 1 GPU, and 3 short of its fair share.

use super::quota::QuotaUse;
use crate::sim::kai::Hierarchy;
use crate::sim::kai::held::KaiState;

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
}

/// Queues in a walk through a schedule.
#[derive(Debug)]
pub(super) struct FairQueues<'a> {
    state: KaiState<'a>,
    now: i64,
    /// By queue, thousandths of GPUs.
    waiting: Vec<u64>,
    totals: Vec<Integrals>,
    stopped: Vec<u64>,
}

impl<'a> FairQueues<'a> {
    pub(super) fn of(tree: &'a Hierarchy) -> Self {
        let count = tree.queues().len();
        Self {
            state: KaiState::new(tree),
            now: 0,
            waiting: vec![0; count],
            totals: vec![Integrals::default(); count],
            stopped: vec![0; count],
        }
    }

    /// A job of a leaf takes or gives back what it holds.
    pub(super) fn hold(&mut self, leaf: u16, amount: u64, take: bool) {
        // Whether it could be stopped matters to no figure.
        self.state.hold(self.now, leaf, amount, false, take);
    }

    /// A job of a leaf joins those that wait, or leaves them.
    pub(super) fn wait(&mut self, leaf: usize, amount: u64, joins: bool) {
        for queue in self.state.tree.path(leaf as u16) {
            let waiting = &mut self.waiting[usize::from(queue)];
            *waiting = if joins { *waiting + amount } else { waiting.saturating_sub(amount) };
        }
    }

    /// A job of a leaf was stopped for another.
    pub(super) fn stop(&mut self, leaf: u16) {
        self.state.tree.path(leaf).for_each(|queue| self.stopped[usize::from(queue)] += 1);
    }

    /// Whether a limit alone keeps a job of a leaf from starting.
    pub(super) fn lacks(&self, leaf: usize, amount: u64) -> bool {
        !self.state.held.allows(self.state.tree, leaf as u16, amount, false)
    }

    /// Nothing happens until `to`; what was before `from` is not counted.
    pub(super) fn pass(&mut self, to: i64, from: i64, in_service: u64) {
        self.state.serve(self.now, in_service);
        let requests: Vec<u64> =
            self.state.held.all.iter().zip(&self.waiting).map(|(held, waiting)| held + waiting).collect();
        while self.now < to {
            let (now, mut next) = (self.now, to);
            let mut used: &[u64] = &[];
            if let Some(usage) = &mut self.state.usage {
                next = next.min(usage.next_ms(now));
                used = usage.known(now);
            }
            let dt = u128::from(next.saturating_sub(now.max(from)).max(0).unsigned_abs());
            if dt > 0 {
                let fair = self.state.tree.fair_shares(in_service, &requests, used);
                self.count(&fair, in_service, dt);
            }
            self.now = next;
        }
    }

    fn count(&mut self, fair: &[u64], in_service: u64, dt: u128) {
        for (at, total) in self.totals.iter_mut().enumerate() {
            let (held, waiting, fair) = (self.state.held.all[at], self.waiting[at], fair.get(at).copied().unwrap_or(0));
            let nominal = self.state.tree.queues()[at].quota.unwrap_or(in_service);
            let idle = nominal.saturating_sub(held);
            total.nominal += u128::from(nominal) * dt;
            total.used += u128::from(held) * dt;
            total.borrowed += u128::from(held.saturating_sub(nominal)) * dt;
            total.idle += u128::from(idle) * dt;
            total.owed += u128::from(waiting.min(idle)) * dt;
            total.fair += u128::from(fair) * dt;
            total.short += u128::from(waiting.min(fair.saturating_sub(held))) * dt;
        }
    }

    /// The figures, over a window of so many milliseconds.
    pub(super) fn figures(&self, window_ms: i64) -> Vec<QuotaUse> {
        let mean = |total: u128| if window_ms > 0 { total as f64 / window_ms as f64 / 1000.0 } else { 0.0 };
        let of = |(at, total): (usize, &Integrals)| QuotaUse {
            name: self.state.tree.queues()[at].name.clone(),
            above: at >= self.state.tree.leaves(),
            nominal_gpus: mean(total.nominal),
            used_gpus: mean(total.used),
            borrowed_gpus: mean(total.borrowed),
            idle_gpus: mean(total.idle),
            owed_gpus: mean(total.owed),
            fair_gpus: Some(mean(total.fair)),
            short_gpus: Some(mean(total.short)),
            stopped: self.stopped[at],
        };
        self.totals.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::replay::metric::evaluate;
    use crate::sim::kai::tests::queue;
    use crate::sim::kai::{Hierarchy, KaiRules};
    use crate::sim::{Cluster, Policy, Scan, Shape, Workload, simulate};

    /// On a node of 4, a has a quota of 1 and b of 2, at equal weights. b holds 3 for 2 h; a's job of 2 comes at 1 h and waits until 2 h, then runs for 1 h.
    #[test]
    fn fair_shares_and_what_is_short_of_them_are_means_over_the_window() {
        let mut cluster = Cluster::of_vcs(&[("a", 1, 4), ("b", 0, 4)]).pooled();
        cluster.kai =
            Some(Hierarchy::new(vec![queue("a", None, 1), queue("b", None, 2)], 2, KaiRules::default()).unwrap());
        let hour = 3_600_000;
        let mut jobs = Workload::default();
        jobs.push(0, 2 * hour, Shape::whole(3));
        jobs.push(hour, hour, Shape::whole(2));
        jobs.vc = vec![1, 0];
        let never = Policy { scan: Scan::Kai, ..Policy::default() };
        let schedule = simulate(&jobs, &cluster, &never).unwrap();
        let found = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        let of = |queue: usize| {
            let of = &found.quotas[queue];
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
