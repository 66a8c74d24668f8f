//! Quotas in a tree: cohorts, and queues that borrow from each other, as Kueue has them.
//!
//! The leaves are the VCs of the cluster (Kueue's ClusterQueues), the inner nodes cohorts. A node may have a [`Quota`] of each *flavor*, a kind of GPU. Of a node
//! n and a flavor, in thousandths of GPUs:
//!
//! * *subtree*(n) = nominal(n) + Σ over children c of (subtree(c) − local(c)): what lies at n and may be used there;
//! * *local*(n) = max(0, subtree(n) − lending limit(n)), or 0 without such a limit: what n never lends;
//! * *usage*(queue) = what its jobs hold; *usage*(cohort) = Σ over children c of max(0, usage(c) − local(c));
//! * *available*(root) = subtree − usage; *available*(n) = max(0, local(n) − usage(n)) + available(parent), the second part at most
//!   subtree(n) − local(n) − max(0, usage(n) − local(n)) + borrowing limit(n) where there is such a limit;
//! * *potential*(n): available(n) if nothing were used, which no job can exceed.
//!
//! A queue *borrows* if its usage is above its nominal quota, a cohort if it is above its subtree. The *share* of a node below the root is
//! Σ over flavors of max(0, usage − subtree), over Σ over flavors of its parent's potential, over its weight: Kueue's dominant resource share, where the one
//! resource is GPUs. A node of weight 0 that borrows has an infinite share. Shares are compared exactly, as fractions.
//!
//! Sources: Kueue's concepts (ClusterQueue, Cohort, Fair Sharing) and its enhancement proposals 79 (hierarchical cohorts), 1224 (lending limit) and 1714 (fair sharing).
//! O(depth) for each amount. Worked number: queues of 9 and 12 GPUs in one cohort. The first may use 9 + 12 = 21 while the second is idle; with a borrowing limit of 1
//! it may use 10; with a lending limit of 5 at the second, 14.

mod share;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use share::Share;

use crate::error::{Error, Result};

/// Queues and cohorts there may be.
const MOST_MEMBERS: usize = 10_000;
/// Flavors there may be.
const MOST_FLAVORS: usize = 256;
/// Levels of cohorts there may be above a queue.
const HIGHEST: u32 = 64;

/// A kind of GPU that quotas are given for: a ResourceFlavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flavor {
    /// Name of the flavor.
    pub name: String,
    /// The GPU type of its nodes, an index into [`Cluster::gpu_types`](super::Cluster::gpu_types); any if the nodes are not told apart.
    pub gpu_type: Option<u16>,
}

/// Quota that a member of the tree has of one flavor, thousandths of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Private quota.
    pub nominal: u64,
    /// The most it borrows; as much as there is if `None`.
    pub borrowing_limit: Option<u64>,
    /// The most it lends; all if `None`.
    pub lending_limit: Option<u64>,
}

/// Treatment of the jobs behind the head of a queue that cannot be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queueing {
    /// Later jobs wait: `StrictFIFO`.
    Strict,
    /// Later jobs are looked at: `BestEffortFIFO`.
    #[default]
    BestEffort,
}

/// Which running jobs of its own queue a job may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Within {
    /// None.
    #[default]
    Never,
    /// Jobs of lower priority.
    LowerPriority,
    /// Jobs of lower priority, and jobs of the same priority that were submitted later.
    LowerOrNewerEqual,
}

/// Which running jobs of queues that borrow a job may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reclaim {
    /// None.
    #[default]
    Never,
    /// Jobs of lower priority.
    LowerPriority,
    /// Any.
    Any,
}

/// The rules of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueRules {
    /// Treatment of the jobs behind the head.
    pub strategy: Queueing,
    /// Whom its jobs may stop in the queue itself.
    pub within: Within,
    /// Whom they may stop in its cohort.
    pub reclaim: Reclaim,
    /// Whether jobs may stop others while they borrow: only jobs of lower priority than theirs, and
    /// of at most this priority if one is given.
    pub borrow_within: Option<Option<i32>>,
    /// Whether the next flavor is tried before GPUs are borrowed.
    pub next_before_borrowing: bool,
    /// Whether the next flavor is tried before jobs are stopped.
    pub next_before_preempting: bool,
    /// Flavors in the order in which they are tried.
    pub flavors: Vec<u16>,
    /// Half-life of what users have used in the queue, milliseconds, if its jobs are ordered first by that: usage-based admission fair sharing.
    pub usage_half_life_ms: Option<i64>,
}

/// How shares decide who of several queues is admitted first and who is stopped for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairPreemption {
    /// `LessThanOrEqualToFinalShare`: only where the share of who stops others, with the job, is at most that of the other without its job.
    Final,
    /// `LessThanInitialShare`: only where it is less than that of the other before.
    Initial,
    /// The first, then the second: Kueue's default.
    Both,
}

/// A queue or a cohort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of the queue or cohort.
    pub name: String,
    /// The cohort it belongs to, an index into the members; `None` at the root.
    pub parent: Option<u16>,
    /// Quota of each flavor; `None` if there is none of it.
    pub quotas: Vec<Option<Quota>>,
    /// Weight when shares are compared, thousandths.
    pub weight_milli: u64,
}

/// A forest of queues and cohorts, with what follows from their quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cohorts {
    flavors: Vec<Flavor>,
    members: Vec<Member>,
    rules: Vec<QueueRules>,
    fair: Option<FairPreemption>,
    /// By member.
    children: Vec<Vec<u16>>,
    height: Vec<u32>,
    /// By member and flavor.
    subtree: Vec<u64>,
    local: Vec<u64>,
    potential: Vec<u64>,
}

/// Use by member and flavor, thousandths of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage(Vec<u64>);

impl Cohorts {
    /// The forest of `members`: first the queues, in the order of the cluster's VCs and with `rules` each, then the cohorts. With `fair`, queues are
    /// served and stopped by their shares.
    ///
    /// # Errors
    /// If a parent is no cohort, or cohorts are each other's parents; if a queue's flavors or quotas do not match.
    pub fn new(
        flavors: Vec<Flavor>,
        members: Vec<Member>,
        rules: Vec<QueueRules>,
        fair: Option<FairPreemption>,
    ) -> Result<Self> {
        let wrong = |what: String| Err(Error::Cluster(what));
        if rules.len() > members.len() || members.len() > MOST_MEMBERS || flavors.len() > MOST_FLAVORS {
            let (members, flavors) = (members.len(), flavors.len());
            return wrong(format!(
                "there are {members} queues and cohorts and {flavors} flavors; at most {MOST_MEMBERS} and {MOST_FLAVORS} can be replayed"
            ));
        }
        for member in &members {
            let name = &member.name;
            if member.quotas.len() != flavors.len() {
                return wrong(format!("{name}: it needs a quota, or none, of each flavor"));
            }
            if let Some(parent) = member.parent.map(usize::from)
                && (parent < rules.len() || parent >= members.len())
            {
                return wrong(format!("{name}: its cohort is no cohort"));
            }
        }
        for (member, rules) in members.iter().zip(&rules) {
            let known = |flavor: &u16| member.quotas.get(usize::from(*flavor)).is_some_and(Option::is_some);
            if !rules.flavors.iter().all(known) {
                return wrong(format!("{}: it has no quota of a flavor that it tries", member.name));
            }
            if rules.usage_half_life_ms.is_some_and(|half_life_ms| half_life_ms <= 0) {
                return wrong(format!("{}: the half-life of usage is not above 0", member.name));
            }
        }
        let cells = members.len() * flavors.len();
        let mut children = vec![Vec::new(); members.len()];
        for (at, parent) in (0u16..).zip(&members).filter_map(|(at, member)| Some((at, member.parent?))) {
            children[usize::from(parent)].push(at);
        }
        let mut cohorts = Self {
            height: vec![0; members.len()],
            children,
            flavors,
            members,
            rules,
            fair,
            subtree: vec![0; cells],
            local: vec![0; cells],
            potential: vec![0; cells],
        };
        cohorts.derive()?;
        Ok(cohorts)
    }

    /// Fills in what follows from the quotas. O(members × flavors).
    fn derive(&mut self) -> Result<()> {
        let order = self.leaves_first()?;
        for member in &order {
            let below = self.children[usize::from(*member)].iter().map(|child| self.height[usize::from(*child)] + 1);
            let height = below.max().unwrap_or(0);
            if height > HIGHEST {
                let name = &self.members[usize::from(*member)].name;
                return Err(Error::Cluster(format!("cohort {name} has more than {HIGHEST} levels below it")));
            }
            self.height[usize::from(*member)] = height;
            for flavor in 0..self.flavors.len() {
                let at = self.at(*member, flavor as u16);
                let quota = self.quota(*member, flavor as u16);
                self.subtree[at] = self.subtree[at].saturating_add(quota.nominal);
                self.local[at] = quota.lending_limit.map_or(0, |limit| self.subtree[at].saturating_sub(limit));
                if let Some(parent) = self.parent(*member) {
                    let lent = self.subtree[at] - self.local[at];
                    let above = self.at(parent, flavor as u16);
                    self.subtree[above] = self.subtree[above].saturating_add(lent);
                }
            }
        }
        for member in order.iter().rev() {
            for flavor in 0..self.flavors.len() {
                let at = self.at(*member, flavor as u16);
                let all = self.subtree[at];
                self.potential[at] = match self.parent(*member) {
                    None => all,
                    Some(parent) => {
                        let reach = self.local[at].saturating_add(self.potential[self.at(parent, flavor as u16)]);
                        let limit = self.quota(*member, flavor as u16).borrowing_limit;
                        limit.map_or(reach, |limit| reach.min(all.saturating_add(limit)))
                    }
                };
            }
        }
        Ok(())
    }

    /// Members so that children come before their parents.
    fn leaves_first(&self) -> Result<Vec<u16>> {
        let mut children = vec![0usize; self.members.len()];
        for parent in self.members.iter().filter_map(|member| member.parent) {
            children[usize::from(parent)] += 1;
        }
        let mut order: Vec<u16> = (0u16..).zip(&children).filter(|(_, count)| **count == 0).map(|(at, _)| at).collect();
        let mut next = 0;
        while let Some(member) = order.get(next).copied() {
            next += 1;
            if let Some(parent) = self.parent(member) {
                children[usize::from(parent)] -= 1;
                if children[usize::from(parent)] == 0 {
                    order.push(parent);
                }
            }
        }
        match (0..self.members.len()).find(|at| children[*at] > 0) {
            Some(at) => {
                Err(Error::Cluster(format!("cohort {} is its own parent, over others or not", self.members[at].name)))
            }
            None => Ok(order),
        }
    }

    fn at(&self, member: u16, flavor: u16) -> usize {
        usize::from(member) * self.flavors.len() + usize::from(flavor)
    }

    fn quota(&self, member: u16, flavor: u16) -> Quota {
        self.members[usize::from(member)].quotas[usize::from(flavor)].unwrap_or_default()
    }

    /// Kinds of GPUs.
    pub fn flavors(&self) -> &[Flavor] {
        &self.flavors
    }

    /// Queues and cohorts, the queues first.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The rules of each queue.
    pub fn rules(&self) -> &[QueueRules] {
        &self.rules
    }

    /// Whether shares decide, and by which strategies.
    pub fn fair(&self) -> Option<FairPreemption> {
        self.fair
    }

    /// The cohort of a member.
    pub fn parent(&self, member: u16) -> Option<u16> {
        self.members[usize::from(member)].parent
    }

    /// The cohorts above a member, the nearest first.
    pub fn above(&self, member: u16) -> impl Iterator<Item = u16> + '_ {
        std::iter::successors(self.parent(member), |cohort| self.parent(*cohort))
    }

    /// The top of a member's tree; the member itself if it has no cohort.
    pub fn root(&self, member: u16) -> u16 {
        self.above(member).last().unwrap_or(member)
    }

    /// Members of a cohort.
    pub fn children(&self, cohort: u16) -> impl Iterator<Item = u16> + '_ {
        self.children[usize::from(cohort)].iter().copied()
    }

    /// Returns the private quota of a queue of a flavor.
    pub fn nominal(&self, queue: u16, flavor: u16) -> u64 {
        self.quota(queue, flavor).nominal
    }

    /// The most a queue may borrow of a flavor; as much as there is if `None`.
    pub fn borrowing_limit(&self, queue: u16, flavor: u16) -> Option<u64> {
        self.quota(queue, flavor).borrowing_limit
    }

    /// Returns the most that a member could use of a flavor if nothing were used.
    pub fn potential(&self, member: u16, flavor: u16) -> u64 {
        self.potential[self.at(member, flavor)]
    }

    /// Nothing used.
    pub fn unused(&self) -> Usage {
        Usage(vec![0; self.members.len() * self.flavors.len()])
    }

    /// Returns the use of a flavor by a member.
    pub fn used(&self, usage: &Usage, member: u16, flavor: u16) -> u64 {
        usage.0[self.at(member, flavor)]
    }

    /// How much more than its quota a member would use with `more`.
    pub fn borrowed(&self, usage: &Usage, member: u16, flavor: u16, more: u64) -> u64 {
        let at = self.at(member, flavor);
        (usage.0[at] + more).saturating_sub(self.subtree[at])
    }

    /// Returns the amount that a member does not lend and does not use.
    pub fn own_rest(&self, usage: &Usage, member: u16, flavor: u16) -> u64 {
        let at = self.at(member, flavor);
        self.local[at].saturating_sub(usage.0[at])
    }

    /// Returns the amount that a member may use beyond its use of a flavor; below 0 if it uses more
    /// than it may. O(depth).
    pub fn available(&self, usage: &Usage, member: u16, flavor: u16) -> i128 {
        let at = self.at(member, flavor);
        let (all, local, used) = (i128::from(self.subtree[at]), i128::from(self.local[at]), i128::from(usage.0[at]));
        let Some(parent) = self.parent(member) else { return all - used };
        let mut above = self.available(usage, parent, flavor);
        if let Some(limit) = self.quota(member, flavor).borrowing_limit {
            above = above.min(all - local - (used - local).max(0) + i128::from(limit));
        }
        (local - used).max(0) + above
    }

    /// Whether a queue may use `more` of a flavor. O(depth).
    pub fn allows(&self, usage: &Usage, queue: u16, flavor: u16, more: u64) -> bool {
        self.available(usage, queue, flavor) >= i128::from(more)
    }

    /// Whether GPUs of a flavor are what is wanted: a GPU type, or any.
    pub fn suits(&self, flavor: u16, wanted: Option<u16>) -> bool {
        let has = self.flavors.get(usize::from(flavor)).and_then(|flavor| flavor.gpu_type);
        has.zip(wanted).is_none_or(|(has, wanted)| has == wanted)
    }

    /// Notes that a queue uses `more`. O(depth).
    pub fn add(&self, usage: &mut Usage, queue: u16, flavor: u16, more: u64) {
        self.change(usage, queue, flavor, |used| used + more);
    }

    /// Notes that a queue uses `less`. O(depth).
    pub fn remove(&self, usage: &mut Usage, queue: u16, flavor: u16, less: u64) {
        self.change(usage, queue, flavor, |used| used.saturating_sub(less));
    }

    fn change(&self, usage: &mut Usage, queue: u16, flavor: u16, change: impl Fn(u64) -> u64) {
        let at = self.at(queue, flavor);
        // What of it is seen above: the part beyond what it keeps to itself.
        let seen = |used: u64, at: usize| used.saturating_sub(self.local[at]);
        let before = usage.0[at];
        usage.0[at] = change(before);
        let (mut was, mut is) = (seen(before, at), seen(usage.0[at], at));
        for cohort in self.above(queue) {
            let at = self.at(cohort, flavor);
            let before = usage.0[at];
            usage.0[at] = (before + is).saturating_sub(was);
            (was, is) = (seen(before, at), seen(usage.0[at], at));
        }
    }

    /// How many levels of cohorts lie below a member.
    fn height(&self, member: u16) -> u32 {
        self.height[usize::from(member)]
    }

    /// How far up the tree a queue has to go for `more`: the height of the lowest subtree within whose quota it is (0 if that is the queue's own, the
    /// tree's if there is none), and whether that is less than the whole tree. O(depth).
    pub fn reach(&self, usage: &Usage, queue: u16, flavor: u16, more: u64) -> (u32, bool) {
        if self.borrowed(usage, queue, flavor, more) == 0 || self.parent(queue).is_none() {
            return (0, self.parent(queue).is_some());
        }
        let mut rest = more.saturating_sub(self.own_rest(usage, queue, flavor));
        let mut top = queue;
        for cohort in self.above(queue) {
            top = cohort;
            if self.borrowed(usage, cohort, flavor, rest) == 0 {
                break;
            }
            rest = rest.saturating_sub(self.own_rest(usage, cohort, flavor));
        }
        (self.height(top), self.parent(top).is_some())
    }
}
