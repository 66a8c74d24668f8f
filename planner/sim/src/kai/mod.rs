//! Queues in a tree with fair shares, as NVIDIA's KAI scheduler has them.
//!
//! The leaves are the VCs of the cluster; the queues above them only divide. A queue has a *quota* that it deserves (or all there is: −1 in KAI), a *limit* that it never exceeds (or none),
//! a *weight* and a *priority* by which what is beyond the quotas is divided, and perhaps times for which its jobs run before others may stop them. All amounts are GPUs in thousandths.
//!
//! **Request.** A leaf requests what its jobs that run or wait ask for; a queue above, what the queues below it request. What of a request is at most the limit is *wanted*.
//!
//! **Fair share** (module `division`). The GPUs in service are divided among the top queues, what each gets among the queues below it, and so on:
//!
//! 1. Each queue gets its quota, as far as it wants it. (Quotas that add up to more than there is are all given: then nothing is left.)
//! 2. What is left goes to the queues of the highest priority first. Among these it is divided in rounds: queue i, which wants more, is due the part Pᵢ/ΣP of what is left, where
//!    Pᵢ = max(0, Wᵢ + k·(Wᵢ − Uᵢ)), Wᵢ is its weight over the weights of all that want more, Uᵢ its usage in the past (0 without time-based share), and k the `kValue`. It gets what it still wants, if that is at most what it is due,
//!    or else whole GPUs: what it is due, rounded down. Another round follows if one of them wanted less than it was due.
//! 3. What these roundings left goes to those that were rounded down, one GPU each (the last may get less), the largest remainder of its last rounding first, then the queue that was created first, then by name.
//!    Then comes the next priority.
//!
//! **Usage** (module `usage`). Uᵢ is what the queue's jobs held in a window of time, over what was in service in it, each worth half as much for every half-life that has passed since. It is
//! known as of the last multiple of the fetch interval. Nothing was used before the replay began.
//!
//! Worked numbers, KAI's own: two queues of quota 2 want 10 GPUs each, with weights 1 and 4, of 11. After the quotas 7 are left: the first is due 1.4 and gets 1, the second 5.6 and gets 5; the last GPU goes
//! to the second, which lost more to rounding: 3 and 8. Time-based: two queues of weight 1 and no quota want 16 of 16 GPUs; one has used all of the window, k is 1: it is due (1/2 + (1/2 − 1)) = 0 of it, the other everything.
//!
//! Sources: KAI's documentation (Scheduling Queues, Fairness, Time Based Fairshare, Scheduling Deep Dive, the designs of time-aware fairness and of minimum runtimes) and the behaviour of its proportion plugin.
//! Differences: fractions are exact here, where KAI computes in floating point; the usage is an exact integral, to 2⁻³² of the window's capacity, where KAI sums samples; GPUs alone are divided, not processors and memory.

pub(crate) mod division;
pub(crate) mod held;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
pub(crate) mod usage;

use division::{Claim, divide};
pub use usage::{UsageRule, UsageWindow};

use super::forest::Forest;
use crate::error::{Error, Result};

/// Levels of queues: to find the next job takes twice as long with each.
const MOST_LEVELS: usize = 8;

/// A queue: a leaf, which is a VC, or one above others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KaiQueue {
    /// Name of the queue.
    pub name: String,
    /// The queue above it, an index into the queues; `None` at the top.
    pub parent: Option<u16>,
    /// Deserved quota, thousandths of GPUs; everything if `None`.
    pub quota: Option<u64>,
    /// The most it may hold, thousandths of GPUs; no limit if `None`.
    pub limit: Option<u64>,
    /// Weight when GPUs beyond the quotas are divided, thousandths.
    pub weight_milli: u64,
    /// Priority, highest first.
    pub priority: i32,
    /// Place in the order of creation.
    pub created: u32,
    /// How long its jobs run before jobs of other queues may stop them, milliseconds; as the queue above says if `None`.
    pub reclaim_min_ms: Option<i64>,
    /// How long its jobs run before jobs of the queue itself may stop them, milliseconds; as the queue above says if `None`.
    pub preempt_min_ms: Option<i64>,
}

impl Default for KaiQueue {
    /// A queue at the top with a weight of 1 and a priority of 100, which deserves everything and has no limit.
    fn default() -> Self {
        Self {
            name: String::new(),
            parent: None,
            quota: None,
            limit: None,
            weight_milli: 1_000,
            priority: 100,
            created: 0,
            reclaim_min_ms: None,
            preempt_min_ms: None,
        }
    }
}

/// Rules of all queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KaiRules {
    /// The weight of usage in the past, thousandths.
    pub k_milli: u64,
    /// Which usage counts; none without time-based share.
    pub usage: Option<UsageRule>,
    /// By how much the saturation of who stops others is multiplied, thousandths, at least 1000.
    pub saturation_milli: u64,
    /// How long jobs run before jobs of other queues may stop them where no queue says so, milliseconds.
    pub reclaim_min_ms: i64,
    /// How long jobs run before jobs of the same queue may stop them where no queue says so,
    /// milliseconds.
    pub preempt_min_ms: i64,
}

impl Default for KaiRules {
    /// KAI's own: no usage, `kValue` 1, no multiplier, no minimum runtimes.
    fn default() -> Self {
        Self { k_milli: 1000, usage: None, saturation_milli: 1000, reclaim_min_ms: 0, preempt_min_ms: 0 }
    }
}

/// A forest of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    queues: Vec<KaiQueue>,
    forest: Forest,
    rules: KaiRules,
}

impl Hierarchy {
    /// The forest of `queues`: first the `leaves`, in the order of the cluster's VCs, then the queues above them.
    ///
    /// # Errors
    /// If a parent is no queue above others, or queues are each other's parents; if they lie deeper than eight levels; if a rule is out of its bounds.
    pub fn new(queues: Vec<KaiQueue>, leaves: usize, rules: KaiRules) -> Result<Self> {
        let wrong = |what: String| Err(Error::Cluster(what));
        if rules.k_milli > 1_000_000 || !(1000..=1_000_000).contains(&rules.saturation_milli) {
            return wrong("kValue is at most 1000, and the multiplier of saturation from 1 to 1000".to_owned());
        }
        let known = [rules.reclaim_min_ms, rules.preempt_min_ms].into_iter();
        let own = queues.iter().flat_map(|queue| [queue.reclaim_min_ms, queue.preempt_min_ms]).flatten();
        if known.chain(own).any(|least| least < 0) {
            return wrong("a minimum runtime is not negative".to_owned());
        }
        if let Some(usage) = &rules.usage {
            usage.validate()?;
        }
        if let Some(queue) = queues.iter().find(|queue| queue.weight_milli > 1_000_000_000) {
            return wrong(format!("queue {}: its weight is above 1,000,000", queue.name));
        }
        let members: Vec<(&str, Option<u16>)> =
            queues.iter().map(|queue| (queue.name.as_str(), queue.parent)).collect();
        let forest = Forest::new(&members, leaves)?;
        let too_deep = (0..leaves as u16).find(|leaf| forest.path(*leaf).count() > MOST_LEVELS);
        if let Some(queue) = too_deep.and_then(|leaf| queues.get(usize::from(leaf))) {
            return wrong(format!(
                "queue {}: more than {} queues lie above it; leave out some that divide nothing",
                queue.name,
                MOST_LEVELS - 1
            ));
        }
        Ok(Self { queues, forest, rules })
    }

    /// All queues, the leaves first.
    pub fn queues(&self) -> &[KaiQueue] {
        &self.queues
    }

    /// How many of them are leaves.
    pub fn leaves(&self) -> usize {
        self.forest.leaves()
    }

    /// Returns the rules of all queues.
    pub fn rules(&self) -> &KaiRules {
        &self.rules
    }

    /// Which lies above which.
    pub(crate) fn forest(&self) -> &Forest {
        &self.forest
    }

    /// A queue and those above it, the nearest first.
    pub fn path(&self, queue: u16) -> impl Iterator<Item = u16> + '_ {
        self.forest.path(queue)
    }

    /// The queues below one; the top queues for `None`.
    pub fn below(&self, queue: Option<u16>) -> &[u16] {
        self.forest.below(queue)
    }

    /// Where two leaves part: the queue above (or at) each of them just below the last that both share. O(depth).
    pub fn parted(&self, one: u16, other: u16) -> (u16, u16) {
        self.forest.parted(one, other)
    }

    /// How long a job of a queue runs before one of another may stop it, and before one of its own may, milliseconds: what the queue nearest
    /// to `queue` upwards says.
    pub fn min_runtime_ms(&self, queue: u16, own: bool) -> i64 {
        let says = |at: u16| {
            let queue = &self.queues[usize::from(at)];
            if own { queue.preempt_min_ms } else { queue.reclaim_min_ms }
        };
        let all = if own { self.rules.preempt_min_ms } else { self.rules.reclaim_min_ms };
        self.path(queue).find_map(says).unwrap_or(all)
    }

    /// Returns the request of each queue if its leaves request so much. O(leaves × depth).
    pub fn requests(&self, of_leaves: &[u64]) -> Vec<u64> {
        self.forest.sums(of_leaves)
    }

    /// The fair share of each queue of `total`, with these requests and this usage in units of 2⁻³², by queue. O(queues²) at most.
    pub fn fair_shares(&self, total: u64, requests: &[u64], usage: &[u64]) -> Vec<u64> {
        let mut shares = vec![0; self.queues.len()];
        let mut open: Vec<(u64, &[u16])> = vec![(total, self.below(None))];
        while let Some((total, members)) = open.pop() {
            let claim = |at: &u16| {
                let queue = &self.queues[usize::from(*at)];
                let request = requests.get(usize::from(*at)).copied().unwrap_or(0);
                Claim {
                    quota: queue.quota,
                    wanted: queue.limit.map_or(request, |limit| limit.min(request)),
                    weight_milli: queue.weight_milli,
                    priority: queue.priority,
                    rank: (queue.created, *at),
                    usage: usage.get(usize::from(*at)).copied().unwrap_or(0),
                }
            };
            let claims: Vec<Claim> = members.iter().map(claim).collect();
            for (at, share) in members.iter().zip(divide(total, &claims, self.rules.k_milli)) {
                shares[usize::from(*at)] = share;
                let below = self.below(Some(*at));
                if !below.is_empty() {
                    open.push((share, below));
                }
            }
        }
        shares
    }

    /// Returns the amount that a queue may hold before it is over its share: its fair share or its
    /// quota, whichever is more, at most its limit; everything if `None`.
    pub fn allocatable(&self, queue: u16, fair: u64) -> Option<u64> {
        let of = &self.queues[usize::from(queue)];
        match of.quota {
            None => of.limit,
            Some(quota) => Some(of.limit.map_or(quota.max(fair), |limit| limit.min(quota.max(fair)))),
        }
    }
}
