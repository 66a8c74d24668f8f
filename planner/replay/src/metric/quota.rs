//! Who uses, borrows and waits within quotas of cohorts: figures of each queue under Kueue's admission; under KAI's and Volcano's queues see the module `divided`.
//!
//! Of a queue at a moment, with n its nominal quota and u what its jobs hold of a flavor, and w what its waiting jobs ask for: it *borrows* Σ max(0, u − n), leaves Σ max(0, n − u) of its own
//! *idle* (sums over flavors), and is *owed* as much of w as is idle: what it waits for although it is its own. The figures are means over the window of the replay. A job waits for quota if no flavor of its queue has
//! enough available ([`tracecast_sim::cohort`]); what a running job holds counts for the first flavor of its queue whose GPU type its nodes have.
//!
//! O(queues) for each instant. Worked number: a queue with 4 GPUs of its own holds 6 for an hour and 1 for another, in which a job of 2 waits: it borrows 1 GPU and is owed 1 on average.

use schemars::JsonSchema;
use serde::Serialize;

use tracecast_sim::cluster::{Cluster, Group};
use tracecast_sim::cohort::{Cohorts, Usage};
use tracecast_sim::schedule::Piece;
use tracecast_sim::workload::Shape;

/// Use of a queue's quota: means over the window of the replay, GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QuotaUse {
    /// The queue.
    pub name: String,
    /// Whether the queue stands above other queues, under KAI's and Volcano's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub above: bool,
    /// Private quota; under Volcano's queues the share of its weight in all weights, or the amount
    /// it is configured to deserve.
    pub nominal_gpus: f64,
    /// GPUs that the queue's jobs held.
    pub used_gpus: f64,
    /// GPUs held beyond the private quota.
    pub borrowed_gpus: f64,
    /// GPUs of the private quota that were not used.
    pub idle_gpus: f64,
    /// GPUs of the idle quota that waiting jobs asked for: the queue waited although it was within
    /// its quota.
    pub owed_gpus: f64,
    /// Fair share, under KAI's queues; under Volcano's the amount deserved of what ran and waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub fair_gpus: Option<f64>,
    /// GPUs that waiting jobs asked for and the fair share lacked, under KAI's and Volcano's
    /// queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub short_gpus: Option<f64>,
    /// The part of the time in which it held more than it deserved, under Volcano's queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub overused_ratio: Option<f64>,
    /// Jobs that were stopped for others, counted each time.
    pub stopped: u64,
}

/// Integrals over time, thousandths of GPUs × milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Integrals {
    used: u128,
    borrowed: u128,
    idle: u128,
    owed: u128,
}

/// Quotas in cohorts.
#[derive(Debug)]
pub(super) struct InCohorts<'a> {
    cohorts: &'a Cohorts,
    usage: Usage,
    groups: &'a [Group],
    /// GPUs that waiting jobs ask for, by queue, thousandths.
    waiting: Vec<u64>,
    totals: Vec<Integrals>,
    stopped: Vec<u64>,
}

impl<'a> InCohorts<'a> {
    /// Takes the quotas of a cluster, if it has cohorts.
    pub(super) fn new(cluster: &'a Cluster) -> Option<Self> {
        let cohorts = cluster.cohorts.as_ref()?;
        let queues = cohorts.rules().len();
        Some(Self {
            cohorts,
            usage: cohorts.unused(),
            groups: cluster.pools.first().map_or(&[], |pool| &pool.groups),
            waiting: vec![0; queues],
            totals: vec![Integrals::default(); queues],
            stopped: vec![0; queues],
        })
    }

    /// A job of `queue` takes or gives back what it holds.
    pub(super) fn hold(&mut self, queue: u16, pieces: &[Piece], take: bool) {
        let amount: u64 = pieces.iter().map(|piece| piece.amount()).sum();
        let mut left = pieces.first().map_or(0, |piece| piece.node);
        let of_node = self.groups.iter().find(|group| {
            let here = left < group.most_nodes();
            left = left.wrapping_sub(group.most_nodes());
            here
        });
        let gpu_type = of_node.and_then(|group| group.gpu_type);
        let is_its = |flavor: &u16| {
            let of = self.cohorts.flavors().get(usize::from(*flavor)).and_then(|flavor| flavor.gpu_type);
            of.is_none() || of == gpu_type
        };
        let Some(flavor) = self.cohorts.rules()[usize::from(queue)].flavors.iter().copied().find(is_its) else {
            return;
        };
        if take {
            self.cohorts.add(&mut self.usage, queue, flavor, amount);
        } else {
            self.cohorts.remove(&mut self.usage, queue, flavor, amount);
        }
    }

    /// A job of `queue` joins those that wait, or leaves them.
    pub(super) fn wait(&mut self, queue: usize, amount: u64, joins: bool) {
        if let Some(waiting) = self.waiting.get_mut(queue) {
            *waiting = if joins { *waiting + amount } else { waiting.saturating_sub(amount) };
        }
    }

    /// A job of `queue` was stopped for another.
    pub(super) fn stop(&mut self, queue: u16) {
        if let Some(stopped) = self.stopped.get_mut(usize::from(queue)) {
            *stopped += 1;
        }
    }

    /// Whether quota alone keeps a job of `queue` from starting: no flavor has enough.
    pub(super) fn lacks(&self, queue: usize, shape: Shape) -> bool {
        let Some(rules) = self.cohorts.rules().get(queue) else { return false };
        !rules.flavors.iter().any(|flavor| {
            self.cohorts.suits(*flavor, shape.gpu_type)
                && self.cohorts.allows(&self.usage, queue as u16, *flavor, shape.amount())
        })
    }

    fn nominal(&self, queue: usize) -> u64 {
        let flavors = 0..self.cohorts.flavors().len() as u16;
        flavors.map(|flavor| self.cohorts.nominal(queue as u16, flavor)).sum()
    }

    /// Time passes and nothing happens.
    pub(super) fn pass(&mut self, dt: u128) {
        for queue in 0..self.totals.len() {
            let waiting = self.waiting[queue];
            let (mut held, mut borrowed, mut idle) = (0, 0, 0);
            for flavor in 0..self.cohorts.flavors().len() as u16 {
                let nominal = self.cohorts.nominal(queue as u16, flavor);
                let used = self.cohorts.used(&self.usage, queue as u16, flavor);
                held += used;
                borrowed += used.saturating_sub(nominal);
                idle += nominal.saturating_sub(used);
            }
            let total = &mut self.totals[queue];
            total.used += u128::from(held) * dt;
            total.borrowed += u128::from(borrowed) * dt;
            total.idle += u128::from(idle) * dt;
            total.owed += u128::from(waiting.min(idle)) * dt;
        }
    }

    /// The figures, over a window of so many milliseconds.
    pub(super) fn figures(&self, window_ms: i64) -> Vec<QuotaUse> {
        let mean = |total: u128| if window_ms > 0 { total as f64 / window_ms as f64 / 1000.0 } else { 0.0 };
        let of = |(queue, total): (usize, &Integrals)| QuotaUse {
            name: self.cohorts.members()[queue].name.clone(),
            above: false,
            nominal_gpus: self.nominal(queue) as f64 / 1000.0,
            used_gpus: mean(total.used),
            borrowed_gpus: mean(total.borrowed),
            idle_gpus: mean(total.idle),
            owed_gpus: mean(total.owed),
            fair_gpus: None,
            short_gpus: None,
            overused_ratio: None,
            stopped: self.stopped[queue],
        };
        self.totals.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::metric::evaluate;
    use tracecast_sim::cohort::{Cohorts, Flavor, Member, QueueRules, Quota};
    use tracecast_sim::{Cluster, Policy, Preemption, Scan, Shape, Workload, simulate};

    /// a has 4 GPUs of its own and b none, on a node of 4 that lets b borrow. b holds 3 for 2 h. a's job of 2 comes at 1 h and waits until 2 h, then runs for 1 h.
    #[test]
    fn borrowed_idle_and_owed_are_means_over_the_window() {
        let member = |name: &str, parent, gpus: Option<u64>| Member {
            name: name.to_owned(),
            parent,
            quotas: vec![gpus.map(|gpus| Quota { nominal: gpus * 1000, ..Quota::default() })],
            weight_milli: 1000,
        };
        let members = vec![member("a", Some(2), Some(4)), member("b", Some(2), Some(0)), member("all", None, None)];
        let rules = vec![QueueRules { flavors: vec![0], ..QueueRules::default() }; 2];
        let flavors = vec![Flavor { name: "any".to_owned(), gpu_type: None }];
        let mut cluster = Cluster::of_vcs(&[("a", 1, 4), ("b", 0, 4)]).pooled();
        cluster.cohorts = Some(Cohorts::new(flavors, members, rules, None).unwrap());
        let hour = 3_600_000;
        let mut jobs = Workload::default();
        jobs.push(0, 2 * hour, Shape::whole(3));
        jobs.push(hour, hour, Shape::whole(2));
        jobs.vc = vec![1, 0];
        let policy = Policy { scan: Scan::Kueue, preemption: Preemption::Requeue, ..Policy::default() };
        let schedule = simulate(&jobs, &cluster, &policy).unwrap();
        let result = evaluate(&jobs, &cluster, &schedule, 1).unwrap().metrics;
        let of = |queue: usize| {
            let of = &result.quotas[queue];
            [of.nominal_gpus, of.used_gpus, of.borrowed_gpus, of.idle_gpus, of.owed_gpus]
                .map(|gpus| (gpus * 3.0).round() as i64)
        };
        // Over 3 h: a used 2 for one of them, had 4, 4 and 2 idle, and was owed 2 in the second.
        assert_eq!(of(0), [12, 2, 0, 10, 2]);
        assert_eq!(of(1), [0, 6, 6, 0, 0]);
        // It waited although the quota was there for it: one GPU was free, too few on the whole cluster.
        assert_eq!(result.overall.group.wait.unwrap().mean_s, 1800.0);
        assert_eq!(schedule.preemptions, [0, 0]);
    }
}
