//! What can be changed about queues: the setups that are tried, each a set of changes from today.
//!
//! | change | values | who sets it |
//! |---|---|---|
//! | how nodes are shared | [`Sharing::TRIED`] | partitions and QOS, quotas and cohorts |
//! | order | shortest run first; on today's nodes also the fewest GPUs first; least GPU time first with ageing of 10 min, 1 h, 6 h, and without end; fair share of users with half-lives of a day and a week; age, fair share and small size together | a submission plugin; Slurm's multifactor |
//! | backfill | EASY; on today's nodes also by time limits, and passing over what does not fit where today is strict | `sched/backfill` |
//! | sizes of shares | half way, or all the way, to what the VCs asked for in the earlier time | quotas |
//! | a short queue | a quarter or a half of each share kept for jobs that are estimated to run at most 1 h or 4 h | a partition, or a queue, of its own |
//! | placement | packed, where today's is not | the scheduler's scoring |
//!
//! Left out: **limits of users** and of QOS do not go together with guarantees in the [replay](crate::sim), and a limit takes from a user what may be idle. A
//! **locality timeout** lets jobs spread sooner, and the replay does not know how much slower they run then, so it would always win. **Orders that nobody can set** without a
//! scheduler of one's own (attained service, Gittins, finish time) and **time limits**, which change what users submit. Sizes of shares move where all nodes are of one kind of GPU;
//! users have a fair share where the trace names at least two, and the queue of short jobs needs shares to keep a part of.
//!
//! A short queue is a VC of its own beside each VC: of a share of 96 GPUs and a part of a quarter, 24 are guaranteed to the short jobs (of at most 24 GPUs) and 72 to the others, and each may
//! borrow up to the ceiling times that. Nobody knows beforehand how long a job runs, so a job is short by its prediction, or by its time limit where today goes by limits.
//!
//! O(changes) for the setups, O(jobs) to prepare a replay. Worked number: VCs with 12 and 4 GPUs asked for 1 : 1 of the GPU time; half way their shares are 10 and 6.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::{DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS};

use super::share::{Shares, Sharing, ShortQueue};
use crate::error::Result;
use crate::sim::Weights;
use crate::sim::workload::UNKNOWN_USER;
use crate::sim::{Cluster, Estimate, Order, Placement, Policy, Preemption, Scan, Vc, Workload};

/// Ageing times that are tried, milliseconds.
const AGEING_MS: [i64; 3] = [10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS];
/// Half-lives of fair share that are tried, milliseconds.
const HALF_LIVES_MS: [i64; 2] = [DAY_MS, WEEK_MS];
/// How far shares are moved towards what was asked for.
const MOVES: [f64; 2] = [0.5, 1.0];
/// Short queues: how long their jobs run at most, seconds, and the part of a share that is kept for them.
const SHORT: [(u32, f64); 4] = [(3_600, 0.25), (3_600, 0.5), (14_400, 0.25), (14_400, 0.5)];

/// One way to share, with a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// How nodes are shared.
    pub sharing: Sharing,
    /// In which order jobs are served.
    pub policy: Policy,
    /// How far shares are moved from today's (0) to what was asked for (1).
    pub moved: f64,
    /// What is kept for short jobs.
    pub short: Option<ShortQueue>,
}

/// A part of queues that a setup changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueChange {
    /// Nodes are shared, with all that rests on it.
    Sharing,
    /// Jobs that borrow are stopped for a VC that needs its own share.
    Reclaim,
    /// Shares have other sizes.
    Shares,
    /// A part of each share is kept for short jobs.
    ShortQueue,
    /// Jobs are served in another order.
    Order,
    /// Jobs are backfilled.
    Backfill,
    /// Jobs go to other nodes.
    Placement,
}

impl QueueChange {
    /// What is done, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Sharing => "sharing the nodes",
            Self::Reclaim => "reclaiming",
            Self::Shares => "the new sizes of shares",
            Self::ShortQueue => "the short queue",
            Self::Order => "the order",
            Self::Backfill => "backfill",
            Self::Placement => "packing",
        }
    }
}

impl Setup {
    /// Sharing in one way, and nothing else that today does not have.
    pub fn new(sharing: Sharing, policy: Policy) -> Self {
        Self { sharing, policy, moved: 0.0, short: None }
    }

    /// Changes from today.
    pub fn changes(&self, today: &Policy) -> Vec<QueueChange> {
        [
            (QueueChange::Sharing, self.sharing != Sharing::AsToday),
            (QueueChange::Reclaim, self.sharing.reclaims()),
            (QueueChange::Shares, self.moved > 0.0),
            (QueueChange::ShortQueue, self.short.is_some()),
            (QueueChange::Order, self.policy.order != today.order),
            (QueueChange::Backfill, self.policy.scan != today.scan),
            (QueueChange::Placement, self.policy.placement != today.placement),
        ]
        .into_iter()
        .filter_map(|(change, made)| made.then_some(change))
        .collect()
    }

    /// How little there is to set, the least first: how many changes from today, how many kinds of limits, and whether runs have to be known as they are not today.
    pub(super) fn plainness(&self, today: &Policy) -> (usize, u8, bool) {
        (self.changes(today).len(), self.sharing.limits(), self.policy.estimate != today.estimate)
    }

    /// Returns the setup with one change taken back.
    #[must_use]
    pub fn without(&self, change: QueueChange, today: &Policy) -> Self {
        let mut result = self.clone();
        match change {
            QueueChange::Sharing => result = Self::new(Sharing::AsToday, self.policy.clone()),
            QueueChange::Reclaim => {
                if let Sharing::Borrowing { ceiling, .. } = self.sharing {
                    result.sharing = Sharing::Borrowing { ceiling, reclaim: false };
                }
            }
            QueueChange::Shares => result.moved = 0.0,
            QueueChange::ShortQueue => result.short = None,
            QueueChange::Order => result.policy.order = today.order.clone(),
            QueueChange::Backfill => result.policy.scan = today.scan,
            QueueChange::Placement => result.policy.placement = today.placement,
        }
        if result.policy.order == today.order && result.policy.scan == today.scan {
            result.policy.estimate = today.estimate;
        }
        result
    }

    /// Returns the setup with today's policy: what partitions and quotas alone set.
    #[must_use]
    pub fn in_todays_order(&self, today: &Policy) -> Self {
        Self { policy: today.clone(), ..self.clone() }
    }

    /// The policy that it is replayed with: who is stopped for whom is a matter of how nodes are shared.
    pub fn replayed(&self) -> Policy {
        let preemption = match (self.sharing, self.policy.preemption) {
            (Sharing::AsToday, as_today) => as_today,
            (Sharing::Borrowing { reclaim: true, .. }, _) => Preemption::Requeue,
            // Without guarantees there is nothing to requeue for.
            (Sharing::Borrowing { reclaim: false, .. }, _) | (_, Preemption::Requeue) => Preemption::Never,
            (Sharing::Private | Sharing::OnePool, as_today) => as_today,
        };
        // Backfill reserves for jobs that run on, so whoever stops jobs lets others pass without.
        let scan = if self.sharing.reclaims() && self.policy.scan.backfills() { Scan::Skip } else { self.policy.scan };
        Policy { preemption, scan, ..self.policy.clone() }
    }
}

/// What may be changed, for some jobs on a cluster.
#[derive(Debug, Clone)]
pub struct Knobs<'a> {
    workload: &'a Workload,
    today: &'a Policy,
    /// What is known of runs.
    estimate: Estimate,
    /// Whether every job is predicted to run as long as any other.
    alike: bool,
    orders: Vec<Order>,
    moves: &'static [f64],
    /// Whether there are VCs to share nodes.
    several_vcs: bool,
}

/// Whether a policy backfills by time limits.
pub(super) fn plans_by_limits(policy: &Policy) -> bool {
    let plans = matches!(policy.scan, Scan::Easy | Scan::Conservative | Scan::Slurm);
    plans && policy.estimate == Estimate::Requested
}

/// Whether a policy serves the least predicted GPU time first, which a submission plugin sets.
pub(super) fn by_predicted_gpu_time(policy: &Policy) -> bool {
    matches!(policy.order, Order::Qssf | Order::Aged(_)) && policy.estimate == Estimate::Predicted
}

/// Predicted run of every job, seconds, if it is equal for all: a prediction that tells none from
/// another. O(jobs).
pub(super) fn predicted_alike_s(workload: &Workload) -> Option<f64> {
    let mut predicted = workload.predicted_s.iter();
    let first = (*predicted.next()?)?;
    predicted.all(|other| *other == Some(first)).then_some(first)
}

impl<'a> Knobs<'a> {
    /// Settings to try, from the jobs that are known when the plan is made.
    pub fn new(workload: &'a Workload, cluster: &Cluster, today: &'a Policy) -> Self {
        let shortest = |estimate| Policy { order: Order::Sjf, estimate, ..today.clone() };
        let limits = today.estimate == Estimate::Requested && !shortest(Estimate::Requested).is_oracle(workload);
        let estimate = if limits { Estimate::Requested } else { Estimate::Predicted };
        let alike = estimate == Estimate::Predicted && predicted_alike_s(workload).is_some();
        let mut orders = vec![today.order.clone()];
        // Where all runs are predicted alike, the shortest first is today's order under another name.
        if !alike {
            orders.extend([Order::Sjf, Order::Qssf]);
            orders.extend(AGEING_MS.map(Order::Aged));
        }
        let named = workload.users.iter().filter(|name| !name.starts_with(UNKNOWN_USER)).count();
        if named > 1 && !today.tenants_are_vcs {
            orders.extend(HALF_LIVES_MS.map(Order::FairShare));
            orders.push(Order::Multifactor(Weights {
                age: 1.0,
                max_age_ms: DAY_MS,
                fair_share: 1.0,
                size: 1.0,
                favor_small: true,
                half_life_ms: DAY_MS,
                ..Weights::default()
            }));
        }
        let kinds = cluster.pools.iter().flat_map(|pool| &pool.groups).map(|group| group.gpu_type);
        let mut kinds: Vec<Option<u16>> = kinds.collect();
        kinds.sort_unstable();
        kinds.dedup();
        let moves: &'static [f64] = if kinds.len() == 1 { &MOVES } else { &[] };
        Self { workload, today, estimate, alike, orders, moves, several_vcs: cluster.vcs.len() > 1 }
    }

    /// Today's policy, today's with backfill, and the shortest run first.
    fn policies(&self) -> Vec<Policy> {
        let today = self.today;
        let with = |order: Order, scan: Scan| Policy { order, scan, estimate: self.estimate, ..today.clone() };
        // Backfill reserves for jobs that run on.
        let backfill = Some(with(today.order.clone(), Scan::Easy)).filter(|_| today.preemption == Preemption::Never);
        let mut all = vec![today.clone()];
        let shortest = Some(with(Order::Sjf, today.scan)).filter(|_| !self.alike);
        for policy in backfill.into_iter().chain(shortest) {
            if !all.contains(&policy) {
                all.push(policy);
            }
        }
        all
    }

    /// Further policies that are tried on today's nodes alone: orders that need no shares, and passing over jobs that do not fit.
    fn alone(&self) -> Vec<Policy> {
        let today = self.today;
        let least = Policy { order: Order::Qssf, estimate: self.estimate, ..today.clone() };
        let least = Some(least).filter(|_| !self.alike);
        let skip = Some(Policy { scan: Scan::Skip, ..today.clone() }).filter(|_| today.scan == Scan::Strict);
        // Limits are known to any scheduler; where few jobs have one, this is an oracle, and not tried.
        let by_limits = Policy { scan: Scan::Easy, estimate: Estimate::Requested, ..today.clone() };
        let by_limits = Some(by_limits).filter(|_| today.preemption == Preemption::Never && today.order == Order::Fifo);
        let fewest = Policy { order: Order::FewestGpus, ..today.clone() };
        let all = std::iter::once(fewest).chain(least).chain(skip).chain(by_limits);
        all.filter(|policy| policy.order != today.order || policy.scan != today.scan).collect()
    }

    /// Every way to share with every policy; today as it is first. One VC has nothing to share. At `most` so many, those with the least to set.
    pub fn list(&self, most: usize) -> Vec<Setup> {
        let policies = self.policies();
        let with = |sharing: Sharing| policies.iter().map(move |policy| Setup::new(sharing, policy.clone()));
        let alone = self.alone().into_iter().map(|policy| Setup::new(Sharing::AsToday, policy));
        let shared = Sharing::TRIED.into_iter().filter(|_| self.several_vcs);
        let all = with(Sharing::AsToday).chain(alone).chain(shared.flat_map(with));
        let mut all: Vec<(usize, Setup)> = all.filter(|setup| self.can_be(setup)).enumerate().collect();
        if all.len() > most {
            all.sort_by_key(|(at, setup)| (setup.plainness(self.today), *at));
            all.truncate(most);
            all.sort_by_key(|(at, _)| *at);
        }
        all.into_iter().map(|(_, setup)| setup).collect()
    }

    /// Setups that differ from one in one thing, those that differ most in what is set first.
    pub fn beside(&self, setup: &Setup) -> Vec<Setup> {
        let (today, policy) = (self.today, &setup.policy);
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Setup)| {
            let mut result = setup.clone();
            change(&mut result);
            let needs_runs = result.policy.order != today.order || result.policy.scan.backfills();
            let is_todays = result.policy.order == today.order && result.policy.scan == today.scan;
            result.policy.estimate = if is_todays || !needs_runs { today.estimate } else { self.estimate };
            all.push(result);
        };
        for order in &self.orders {
            with(&|result| result.policy.order = order.clone());
        }
        if matches!(setup.sharing, Sharing::Borrowing { .. }) {
            for moved in [0.0].iter().chain(self.moves) {
                with(&|result| result.moved = *moved);
            }
            with(&|result| result.short = None);
            for (within_s, part) in SHORT {
                with(&|result| result.short = Some(ShortQueue { within_s, part }));
            }
        }
        for scan in [today.scan, Scan::Easy] {
            with(&|result| result.policy.scan = scan);
        }
        // Packing leaves whole nodes for large jobs.
        if !matches!(today.placement, Placement::BestFit | Placement::Locality(_)) {
            with(&|result| result.policy.placement = Placement::Consolidate);
        }
        for sharing in Sharing::TRIED.into_iter().filter(|_| self.several_vcs) {
            let fits = matches!(sharing, Sharing::Borrowing { .. });
            with(&|result| {
                result.sharing = sharing;
                if !fits {
                    (result.moved, result.short) = (0.0, None);
                }
            });
        }
        // Today's placement, last: `policy` may have another.
        if policy.placement != today.placement {
            with(&|result| result.policy.placement = today.placement);
        }
        all.retain(|result| result != setup && self.can_be(result));
        all
    }

    /// Whether a setup may be tried: nothing is changed under a policy that knows how long jobs run, which nobody does, nor are nodes reclaimed with a backfill that today does not have.
    pub fn can_be(&self, setup: &Setup) -> bool {
        let scan = setup.policy.scan;
        if setup.sharing.reclaims() && scan.backfills() && scan != self.today.scan {
            return false;
        }
        let is_today = setup.changes(self.today).is_empty() && setup.policy == *self.today;
        let knows_short = setup.short.is_none() || !(self.alike || self.knows_no_runs());
        // Judged as replayed: reclaiming needs no runs, whatever today's backfill goes by.
        let is_known = knows_short && !setup.replayed().is_oracle(self.workload);
        is_today || (is_known && setup.replayed().validate(self.workload).is_ok())
    }

    /// Whether nothing is known of runs but what they came to be.
    pub(super) fn knows_no_runs(&self) -> bool {
        Policy { order: Order::Sjf, estimate: self.estimate, ..self.today.clone() }.is_oracle(self.workload)
    }

    /// What is known of runs where something hangs on them.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }
}

/// What setups are prepared from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) shares: &'a Shares,
    /// GPU time that each VC asked for in the earlier time.
    pub(super) asked: &'a [f64],
    /// By what a job is short.
    pub(super) estimate: Estimate,
}

/// Workload, cluster and policy to replay.
#[derive(Debug)]
pub(super) struct Scene<'w> {
    pub(super) workload: Cow<'w, Workload>,
    pub(super) cluster: Cluster,
    pub(super) policy: Policy,
}

impl Ground<'_> {
    /// Whether there are VCs to share nodes, so that one may be wronged.
    pub(super) fn is_shared(&self) -> bool {
        self.cluster.vcs.len() > 1
    }

    /// The shares of a setup.
    pub(super) fn shares_of(&self, setup: &Setup) -> Shares {
        if setup.moved > 0.0 { self.shares.moved(self.asked, setup.moved) } else { self.shares.clone() }
    }

    /// Prepares a setup for a replay of jobs.
    ///
    /// # Errors
    /// Errors of [`Shares::shared`].
    pub(super) fn scene<'w>(&self, setup: &Setup, workload: &'w Workload) -> Result<Scene<'w>> {
        let shares = self.shares_of(setup);
        let mut cluster = shares.shared(self.cluster, setup.sharing)?;
        let policy = setup.replayed();
        let Some(short) = setup.short.filter(|_| matches!(setup.sharing, Sharing::Borrowing { .. })) else {
            return Ok(Scene { workload: Cow::Borrowed(workload), cluster, policy });
        };
        let (others, kept) = shares.kept(short);
        let names: Vec<(String, u16)> = cluster.vcs.iter().map(|vc| (format!("{} short", vc.name), vc.pool)).collect();
        cluster.vcs.extend(names.into_iter().map(|(name, pool)| Vc::new(name, pool)));
        let parts = others.amounts().iter().chain(kept.amounts());
        for (vc, own) in cluster.vcs.iter_mut().zip(parts) {
            setup.sharing.promise(vc, own);
        }
        let mut routed = workload.clone();
        for (job, vc) in self.routes(&shares, short, workload) {
            if let Some(place) = routed.vc.get_mut(job) {
                *place = vc;
            }
        }
        Ok(Scene { workload: Cow::Owned(routed), cluster, policy })
    }

    /// Jobs that go to the short queue, and the VC that it is.
    pub(super) fn routes(&self, shares: &Shares, short: ShortQueue, workload: &Workload) -> Vec<(usize, u16)> {
        let known = Policy { estimate: self.estimate, ..Policy::default() };
        let is_short = |job: usize, vc: usize| {
            let submit = workload.submit_ms.get(job).copied().unwrap_or(0);
            known.estimate_ms(workload, job) <= i64::from(short.within_s) * 1000
                && workload.shape_of(job).as_gpus() <= short.kept(shares.gpus_at(vc, submit))
        };
        let queue = |job: usize| {
            let vc = usize::from(*workload.vc.get(job)?);
            let short = u16::try_from(vc + self.cluster.vcs.len()).ok()?;
            is_short(job, vc).then_some((job, short))
        };
        (0..workload.len()).filter_map(queue).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
