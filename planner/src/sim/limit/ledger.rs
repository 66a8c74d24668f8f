//! What is at work of each QOS, of each user of it, and of each account, kept up as jobs start and stop.
//!
//! Worked number: a job of 4 GPUs of user ada, QOS `low` and account `nlp` below `dept` counts four times: for low, for ada's part of it, for nlp and for dept (and for ada's own association in nlp).

use std::collections::BTreeMap;

use super::account::Remaining;
use super::{Asking, Limits, Qos, Refusal};
use crate::sim::workload::Workload;

/// What is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Use {
    pub(super) milli: u64,
    pub(super) jobs: u32,
}

/// What a job would run beside, at a moment; nothing without a ledger.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'l> {
    ledger: Option<&'l Ledger<'l>>,
    now_ms: i64,
}

impl<'l> Beside<'l> {
    fn found(self, of: impl FnOnce(&'l Ledger<'l>) -> Option<&'l Use>) -> Use {
        self.ledger.and_then(of).copied().unwrap_or_default()
    }

    /// Of a QOS.
    pub(super) fn group(self, at: u32) -> Use {
        self.found(|ledger| ledger.group.get(at as usize))
    }

    /// Of a user of a QOS.
    pub(super) fn user(self, at: u32, user: usize) -> Use {
        self.found(|ledger| ledger.user.get(at as usize)?.get(user))
    }

    /// At and below an association.
    pub(super) fn account(self, at: u32) -> Use {
        self.found(|ledger| ledger.account.get(at as usize))
    }

    /// What jobs of a QOS may still take, thousandths of a GPU × milliseconds.
    pub(super) fn group_time(self, at: u32) -> i128 {
        let left = self.ledger.and_then(|ledger| ledger.group_time.get(at as usize)?.as_ref());
        left.map_or(0, |left| left.at(self.now_ms))
    }

    /// The same of jobs at and below an association.
    pub(super) fn account_time(self, at: u32) -> i128 {
        let left = self.ledger.and_then(|ledger| ledger.account_time.get(at as usize)?.as_ref());
        left.map_or(0, |left| left.at(self.now_ms))
    }
}

/// What is at work of each QOS, of each user of it, and of each account.
#[derive(Debug, Clone)]
pub(crate) struct Ledger<'a> {
    limits: &'a Limits,
    group: Vec<Use>,
    /// By QOS, then user; empty for a QOS that limits no user.
    user: Vec<Vec<Use>>,
    account: Vec<Use>,
    /// By QOS and by association, where that is limited.
    group_time: Vec<Option<Remaining>>,
    account_time: Vec<Option<Remaining>>,
    /// When the limits of running jobs end, where GPU time is limited.
    ends_ms: BTreeMap<u32, i64>,
    limits_time: bool,
}

impl<'a> Ledger<'a> {
    /// Nothing at work. O(QOSs that limit users × users + associations).
    pub(crate) fn new(limits: &'a Limits, users: usize) -> Self {
        let of = |qos: &Qos| if qos.user_milli.is_some() || qos.user_jobs.is_some() { users } else { 0 };
        let left = |limit: Option<u64>| limit.map(|_| Remaining::default());
        let associations = limits.accounts.all();
        Self {
            limits,
            group: vec![Use::default(); limits.qos.len()],
            user: limits.qos.iter().map(|qos| vec![Use::default(); of(qos)]).collect(),
            account: vec![Use::default(); associations.len()],
            group_time: limits.qos.iter().map(|qos| left(qos.group_time_milli)).collect(),
            account_time: associations.iter().map(|of| left(of.group_time_milli)).collect(),
            ends_ms: BTreeMap::new(),
            limits_time: limits.limits_time(),
        }
    }

    /// The limit that keeps a job from starting now. O(depth).
    pub(crate) fn refusal(&self, workload: &Workload, job: u32, now_ms: i64) -> Option<Refusal> {
        let asking = self.limits.asking(workload, job);
        let beside = Beside { ledger: Some(self), now_ms };
        self.limits.rules.get(asking.rules)?.refusals(&self.limits.accounts, asking, beside).next()
    }

    /// A job starts. O(depth × log jobs).
    pub(crate) fn start(&mut self, workload: &Workload, job: u32, now_ms: i64) {
        let asking = self.limits.asking(workload, job);
        self.change(asking, |using, amount| {
            using.milli += amount;
            using.jobs += 1;
        });
        let Some(limit_ms) = asking.limit_ms.filter(|_| self.limits_time) else { return };
        let end_ms = now_ms.saturating_add(limit_ms);
        self.ends_ms.insert(job, end_ms);
        self.change_time(asking, |left| left.start(job, end_ms, asking.amount));
    }

    /// A job stops. O(depth × log jobs).
    pub(crate) fn stop(&mut self, workload: &Workload, job: u32) {
        let asking = self.limits.asking(workload, job);
        self.change(asking, |using, amount| {
            using.milli = using.milli.saturating_sub(amount);
            using.jobs = using.jobs.saturating_sub(1);
        });
        if let Some(end_ms) = self.ends_ms.remove(&job) {
            self.change_time(asking, |left| left.stop(job, end_ms));
        }
    }

    fn change(&mut self, asking: Asking, change: impl Fn(&mut Use, u64)) {
        let limits = self.limits;
        let Some(rules) = limits.rules.get(asking.rules) else { return };
        for at in &rules.counts {
            let at = usize::from(*at);
            let users = self.user.get_mut(at).and_then(|users| users.get_mut(asking.user));
            for using in self.group.get_mut(at).into_iter().chain(users) {
                change(using, asking.amount);
            }
        }
        for (at, _) in limits.accounts.path(asking.association) {
            if let Some(using) = self.account.get_mut(at as usize) {
                change(using, asking.amount);
            }
        }
    }

    fn change_time(&mut self, asking: Asking, change: impl Fn(&mut Remaining)) {
        let limits = self.limits;
        let Some(rules) = limits.rules.get(asking.rules) else { return };
        for at in &rules.counts {
            if let Some(Some(left)) = self.group_time.get_mut(usize::from(*at)) {
                change(left);
            }
        }
        for (at, _) in limits.accounts.path(asking.association) {
            if let Some(Some(left)) = self.account_time.get_mut(at as usize) {
                change(left);
            }
        }
    }
}
