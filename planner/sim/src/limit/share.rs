//! Fair share over the tree of accounts, as Slurm's multifactor plugin has it: what each association has used, its level, and the factor of each user.
//!
//! **Usage** of an association is what jobs at and below it have been charged from time 0 on: ∫ c(s)·2^(−(t−s)/h) ds in seconds, c(s) the charges ([`Workload::charge_of`]) of those that hold GPUs at s, h
//! [`Accounting::half_life_ms`] (without one nothing decays), or the half-life that the order names, if it is not that of [`Weights::default`]. All factors are worked out at [`Accounting::first_ms`] + k·[`Accounting::period_ms`]
//! (k a whole number), from the usage to that moment, and hold until the next. A moment before time 0 knows no usage.
//!
//! The **level above** an association is the nearest account above it that does not have [`Fairshare::Parent`], or the root; those with one level above are *siblings*. Accounts with `Fairshare::Parent` are nobody's siblings: their
//! children stand beside them instead. S is an association's shares over those of all its siblings (0 if these are 0; users with `Fairshare::Parent` have none).
//!
//! **Fair tree** ([`Algorithm::Tree`], Slurm's default): U is usage over that of the level above (0 if that is 0), and the level LF = S/U: ∞ for a user with `Fairshare::Parent`, else 0 if S is 0, else ∞ if U is 0. From the
//! root down, siblings are visited in order of LF, the greatest first, of equals users before accounts, then in the order of the list; at an account all below it are visited before its next sibling. n is the number of users in the tree. Each
//! user takes *rank*, and its factor is rank/n. Rank begins at n; at each user that is not *tied* it becomes n less the users visited before. Who has the LF of the sibling visited just before is tied, and so is the first of the
//! children of an account that is. (Slurm's page on fair tree says that the children of tied accounts are ranked as one list. Slurm does otherwise, to our knowledge in all versions, and 22.05 in the lab: the next account's
//! first user has the rank of the last user before it.) LF are compared as [`Key::new`] does; Slurm
//! compares them to the last bit, so that whether two that are used alike are tied is chance there.
//!
//! **Classic** ([`Algorithm::Classic`], `PriorityFlags=NO_FAIR_TREE`): s is the product of S from the association up to the root; u = usage over that of the root (0 if that is 0). The effective usage E is u where the level above is the root, and
//! otherwise u + (E′ − u)·S, E′ that of the level above, or E′ where the siblings have no shares. The factor is 2^(−E/(s·[`Accounting::dampening`])), 0 if s is 0; of a user with `Fairshare::Parent` it is that of the level above (of the root, E and s are 1).
//!
//! Slurm decays usage at each reckoning, and not in between: with a period much shorter than the half-life that is the same. Where it enforces no limits it
//! charges a job only up to the last reckoning at or before its end, and so it is without [`Accounting::charges_ends`].
//!
//! A job that is charged to no association, or to an account without a user, has factor 0. O(associations × log) for all factors, O(depth) for a start and an end.
//!
//! Worked number: a user of 1 share of 2 who has half of what its account used has LF 1. Two accounts of 3 and 1 shares have used 30 and 70 of 100: LF = 0.75/0.3 = 2.5 and 0.25/0.7 = 0.36. So the users of the first have the
//! greater factors, whatever they used themselves: with two each, 4/4 and 3/4 against 2/4 and 1/4.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;

use tracecast_analytics::time::WEEK_MS;

use super::account::{Association, Fairshare, Tree};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::spent::{Spent, spent_s};
use crate::weights::Weights;
#[cfg(doc)]
use crate::workload::Workload;

/// Five minutes: Slurm's default period.
const PERIOD_MS: i64 = 300_000;

/// How shares and usage become factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// Users are ranked, level by level.
    #[default]
    Tree,
    /// 2^(−usage / shares) (`PriorityFlags=NO_FAIR_TREE`).
    Classic,
}

/// How usage is accounted, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accounting {
    /// How shares and usage become factors.
    pub algorithm: Algorithm,
    /// Half-life of usage (`PriorityDecayHalfLife`), milliseconds; `None` if it does not decay.
    pub half_life_ms: Option<i64>,
    /// From one reckoning of the factors to the next (`PriorityCalcPeriod`), milliseconds.
    pub period_ms: i64,
    /// The moment of one of them, milliseconds from time 0.
    pub first_ms: i64,
    /// `FairShareDampeningFactor`, of the classic factor alone.
    pub dampening: u32,
    /// Whether a job starts only if it may end within the GPU time that is left (`AccountingStorageEnforce=safe`).
    pub safe: bool,
    /// Whether jobs are charged to their end, and not only to the last reckoning at or before it.
    pub charges_ends: bool,
    /// Weights of the multifactor order where that names none.
    pub weights: Option<Weights>,
}

impl Default for Accounting {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Tree,
            half_life_ms: Some(WEEK_MS),
            period_ms: PERIOD_MS,
            first_ms: 0,
            dampening: 1,
            safe: false,
            charges_ends: true,
            weights: None,
        }
    }
}

impl Accounting {
    /// Checks that its times are longer than nothing.
    ///
    /// # Errors
    /// Says which is not.
    pub fn validate(&self) -> Result<()> {
        if self.period_ms <= 0 || self.half_life_ms.is_some_and(|half_life| half_life <= 0) || self.dampening == 0 {
            return Err(Error::Cluster(
                "fair share needs a period, a half-life and a dampening factor of more than nothing".to_owned(),
            ));
        }
        Ok(())
    }

    /// The last reckoning at or before a moment.
    pub fn reckoned_ms(&self, now_ms: i64) -> i64 {
        now_ms - (now_ms - self.first_ms).rem_euclid(self.period_ms.max(1))
    }

    /// Half-life of the usage that factors are of, where the order has these weights.
    pub fn half_life_of(&self, weights: &Weights) -> Option<i64> {
        let is_named = weights.half_life_ms != Weights::default().half_life_ms;
        if is_named { Some(weights.half_life_ms) } else { self.half_life_ms }
    }
}

/// Level and factor of an association at a moment, as `sshare -l` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Level {
    /// S under fair tree, s under classic; `None` where the shares are the account's.
    pub shares: Option<f64>,
    /// U under fair tree, E under classic.
    pub effective: f64,
    /// LF, under fair tree; `None` for the root, and for an account with the shares of the one above.
    pub level: Option<f64>,
    /// The factor of a user.
    pub factor: Option<f64>,
}

/// Siblings among the associations.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Family {
    root: usize,
    /// The level above; `None` for the root.
    above: Vec<Option<usize>>,
    /// In the order of the list, without accounts that have the shares of the one above.
    children: Vec<Vec<usize>>,
    /// S.
    shares: Vec<Option<f64>>,
    is_user: Vec<bool>,
    users: usize,
}

impl Family {
    /// Builds the family of a tree with one root. O(n × depth).
    ///
    /// # Errors
    /// If there is not exactly one, or someone is below a user.
    pub(super) fn new(tree: &Tree) -> Result<Self> {
        let all = tree.all();
        let mut roots = all.iter().enumerate().filter(|(_, of)| of.parent.is_none());
        let (Some((root, _)), None) = (roots.next(), roots.next()) else {
            return Err(Error::Cluster("fair share needs one account above all others".to_owned()));
        };
        let is_lent = |of: &Association| of.shares == Fairshare::Parent && !of.is_user;
        let mut above = vec![None; all.len()];
        let mut children = vec![Vec::new(); all.len()];
        for (at, of) in all.iter().enumerate() {
            let mut path = tree.path(of.parent);
            let Some(parent) = path.find(|(up, account)| *up as usize == root || !is_lent(account)) else { continue };
            if parent.1.is_user {
                return Err(Error::Cluster(format!("the association {} is below a user", of.name)));
            }
            let parent = parent.0 as usize;
            above[at] = Some(parent);
            if !is_lent(of) {
                children[parent].push(at);
            }
        }
        let own = |at: usize| match all[at].shares {
            Fairshare::Of(shares) => Some(shares),
            Fairshare::Parent => None,
        };
        let mut shares = vec![None; all.len()];
        for siblings in &children {
            let sum: u64 = siblings.iter().filter_map(|at| own(*at)).map(u64::from).sum();
            for at in siblings {
                shares[*at] = own(*at).map(|of| if sum > 0 { f64::from(of) / sum as f64 } else { 0.0 });
            }
        }
        let is_user: Vec<bool> = all.iter().map(|of| of.is_user).collect();
        let users = is_user.iter().filter(|is_user| **is_user).count();
        Ok(Self { root, above, children, shares, is_user, users })
    }

    /// Returns the level of each association, by its usage.
    pub(crate) fn levels(&self, accounting: &Accounting, usage: &[f64]) -> Vec<Level> {
        match accounting.algorithm {
            Algorithm::Tree => self.tree(usage),
            Algorithm::Classic => self.classic(f64::from(accounting.dampening), usage),
        }
    }

    fn tree(&self, usage: &[f64]) -> Vec<Level> {
        let level = |at: usize| {
            let Some(above) = self.above[at] else { return Level { effective: 1.0, ..Level::default() } };
            let whole = usage[above];
            let effective = if whole > 0.0 { usage[at] / whole } else { 0.0 };
            let level = match self.shares[at] {
                None => self.is_user[at].then_some(f64::INFINITY),
                Some(0.0) => Some(0.0),
                Some(shares) => Some(shares / effective),
            };
            Level { shares: self.shares[at], effective, level, factor: None }
        };
        let mut levels: Vec<Level> = (0..self.above.len()).map(level).collect();
        let visited = |levels: &[Level], at: usize, tied: bool| {
            let key = |at: usize| Key::new(levels[at].level.unwrap_or(0.0));
            let mut items: Vec<(Key, usize)> = self.children[at].iter().map(|at| (key(*at), *at)).collect();
            items.sort_by_key(|(key, at)| (std::cmp::Reverse(*key), !self.is_user[*at], *at));
            Visit { items: items.into_iter(), before: None, tied }
        };
        let (mut rank, mut next) = (self.users, self.users);
        let mut open = vec![visited(&levels, self.root, false)];
        while let Some(visit) = open.last_mut() {
            let Some((key, at)) = visit.items.next() else {
                open.pop();
                continue;
            };
            let tied = match visit.before {
                None => visit.tied,
                Some(before) => before == key,
            };
            visit.before = Some(key);
            if self.is_user[at] {
                if !tied {
                    rank = next;
                }
                levels[at].factor = Some(rank as f64 / self.users as f64);
                next -= 1;
            } else {
                let below = visited(&levels, at, tied);
                open.push(below);
            }
        }
        levels
    }

    fn classic(&self, dampening: f64, usage: &[f64]) -> Vec<Level> {
        let all = usage[self.root];
        let mut levels: Vec<Level> = Vec::with_capacity(self.above.len());
        for (at, used) in usage.iter().enumerate().take(self.above.len()) {
            let used = if all > 0.0 { used / all } else { 0.0 };
            // The level above stands before.
            let Some(above) = self.above[at].filter(|above| *above < at) else {
                levels.push(Level { shares: Some(1.0), effective: 1.0, ..Level::default() });
                continue;
            };
            let parent = levels[above];
            let mut result = match self.shares[at] {
                None => Level { shares: None, ..parent },
                _ if above == self.root => Level { effective: used, ..Level::default() },
                Some(shares) => {
                    let siblings = self.children[above].iter().any(|at| self.shares[*at].is_some_and(|of| of > 0.0));
                    let effective = if siblings { used + (parent.effective - used) * shares } else { parent.effective };
                    Level { effective, ..Level::default() }
                }
            };
            let shares = self.shares[at].map(|shares| shares * parent.shares.unwrap_or(1.0));
            result.shares = shares.or(parent.shares);
            let norm = result.shares.unwrap_or(0.0);
            let factor = if norm > 0.0 { (-result.effective / norm / dampening).exp2() } else { 0.0 };
            result.factor = self.is_user[at].then_some(factor);
            levels.push(result);
        }
        levels
    }
}

/// Siblings that are being visited.
struct Visit {
    items: std::vec::IntoIter<(Key, usize)>,
    /// LF of the one visited last.
    before: Option<Key>,
    /// Whether the first of them is tied.
    tied: bool,
}

/// Usage and factors in a replay.
#[derive(Debug, Clone)]
pub(super) struct Standing<'a> {
    tree: &'a Tree,
    family: &'a Family,
    accounting: Accounting,
    half_life_ms: Option<i64>,
    usage: Vec<Spent>,
    factors: Vec<f64>,
    reckoned_ms: i64,
    /// Association, start and charge of the jobs that hold GPUs, where they are charged at reckonings alone.
    running: BTreeMap<u32, (Option<u32>, i64, u64)>,
}

impl<'a> Standing<'a> {
    /// Nothing used yet.
    pub(super) fn new(tree: &'a Tree, family: &'a Family, accounting: Accounting, weights: &Weights) -> Self {
        let usage = vec![Spent::default(); tree.all().len()];
        let half_life_ms = accounting.half_life_of(weights);
        let mut result = Self {
            tree,
            family,
            accounting,
            half_life_ms,
            usage,
            factors: Vec::new(),
            reckoned_ms: i64::MIN,
            running: BTreeMap::new(),
        };
        result.reckon(0);
        result
    }

    fn reckon(&mut self, at_ms: i64) {
        let usage: Vec<f64> = self.usage.iter().map(|used| used.at(at_ms, self.half_life_ms)).collect();
        let levels = self.family.levels(&self.accounting, &usage);
        self.factors = levels.into_iter().map(|level| level.factor.unwrap_or(0.0)).collect();
    }

    /// Works the factors out anew if that was due since the last call; before every change. O(1), or O(associations × log).
    pub(super) fn refresh(&mut self, now_ms: i64) {
        let due_ms = self.accounting.reckoned_ms(now_ms);
        if due_ms > self.reckoned_ms {
            let last_ms = std::mem::replace(&mut self.reckoned_ms, due_ms);
            if due_ms > 0 {
                self.collect(last_ms, due_ms);
                self.reckon(due_ms);
            }
        }
    }

    /// Charges what runs for the time from one reckoning to another. O(jobs × depth).
    fn collect(&mut self, last_ms: i64, due_ms: i64) {
        for (association, start_ms, charge) in self.running.values() {
            let from_ms = last_ms.max(*start_ms);
            let used = *charge as f64 / 1000.0 * spent_s(from_ms, due_ms, due_ms, self.half_life_ms);
            for (at, _) in self.tree.path(*association) {
                if let Some(spent) = self.usage.get_mut(at as usize) {
                    spent.charge(due_ms, self.half_life_ms, used);
                }
            }
        }
    }

    /// A job is charged to an association from now on, or no more. O(depth).
    pub(super) fn change(&mut self, job: u32, association: Option<u32>, now_ms: i64, charge: u64, more: bool) {
        self.refresh(now_ms);
        if !self.accounting.charges_ends {
            if more {
                self.running.insert(job, (association, now_ms, charge));
            } else {
                self.running.remove(&job);
            }
            return;
        }
        let charge = i64::try_from(charge).unwrap_or(i64::MAX);
        let charge = if more { charge } else { -charge };
        for (at, _) in self.tree.path(association) {
            if let Some(used) = self.usage.get_mut(at as usize) {
                used.change(now_ms, self.half_life_ms, charge);
            }
        }
    }

    /// The factor in force.
    pub(super) fn factor(&self, association: Option<u32>) -> f64 {
        association.and_then(|at| self.factors.get(at as usize)).copied().unwrap_or(0.0)
    }
}
