//! Use by each QOS, by each user of it, and by each account, kept up as jobs start and stop.
//!
//! Worked number: a job of 4 GPUs of user ada, QOS `low` and account `nlp` below `dept` counts four times: for low, for ada's part of it, for nlp and for dept (and for ada's own association in nlp).

use std::collections::BTreeMap;

use super::account::Remaining;
use super::share::Standing;
use super::{Asking, Limits, Qos, Refusal};
use crate::spent::Spent;
use crate::weights::Weights;
use crate::workload::Workload;

/// GPUs and jobs at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Use {
    pub(super) milli: u64,
    pub(super) jobs: u32,
}

/// Usage up to a moment: GPU-seconds, and job-seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) gpu_s: f64,
    pub(super) job_s: f64,
}

/// Usage of the jobs that count for a limit of usage.
#[derive(Debug, Clone, Default)]
struct Budget {
    gpus: Spent,
    jobs: Spent,
    /// `None` if nothing decays.
    half_life_ms: Option<i64>,
}

impl Budget {
    fn at(&self, now_ms: i64) -> Used {
        Used { gpu_s: self.gpus.at(now_ms, self.half_life_ms), job_s: self.jobs.at(now_ms, self.half_life_ms) }
    }

    fn change(&mut self, now_ms: i64, milli: i64, jobs: i64) {
        self.gpus.change(now_ms, self.half_life_ms, milli);
        self.jobs.change(now_ms, self.half_life_ms, jobs * 1000);
    }
}

/// Use and usage beside which a job would run, at a moment; nothing without a ledger.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'l> {
    ledger: Option<&'l Ledger<'l>>,
    now_ms: i64,
}

impl<'l> Beside<'l> {
    fn found(self, of: impl FnOnce(&'l Ledger<'l>) -> Option<&'l Use>) -> Use {
        self.ledger.and_then(of).copied().unwrap_or_default()
    }

    /// Use by a QOS.
    pub(super) fn group(self, at: u32) -> Use {
        self.found(|ledger| ledger.group.get(at as usize))
    }

    /// Use by a user of a QOS.
    pub(super) fn user(self, at: u32, user: usize) -> Use {
        self.found(|ledger| ledger.user.get(at as usize)?.get(user))
    }

    /// Use by an account, of a QOS; jobs without an account are together.
    pub(super) fn of_account(self, at: u32, account: Option<u32>) -> Use {
        self.found(|ledger| ledger.by_account.get(at as usize)?.get(&account))
    }

    /// Usage of the jobs of a QOS.
    pub(super) fn group_used(self, at: u32) -> Used {
        let used = self.ledger.and_then(|ledger| ledger.group_used.get(at as usize)?.as_ref());
        used.map_or(Used::default(), |used| used.at(self.now_ms))
    }

    /// Usage of the jobs at and below an association.
    pub(super) fn account_used(self, at: u32) -> Used {
        let used = self.ledger.and_then(|ledger| ledger.account_used.get(at as usize)?.as_ref());
        used.map_or(Used::default(), |used| used.at(self.now_ms))
    }

    /// Use by jobs at and below an association.
    pub(super) fn account(self, at: u32) -> Use {
        self.found(|ledger| ledger.account.get(at as usize))
    }

    /// GPU time that jobs of a QOS may still take, thousandths of a GPU × milliseconds.
    pub(super) fn group_time(self, at: u32) -> i128 {
        let left = self.ledger.and_then(|ledger| ledger.group_time.get(at as usize)?.as_ref());
        left.map_or(0, |left| left.at(self.now_ms))
    }

    /// GPU time that jobs at and below an association may still take, thousandths of a GPU ×
    /// milliseconds.
    pub(super) fn account_time(self, at: u32) -> i128 {
        let left = self.ledger.and_then(|ledger| ledger.account_time.get(at as usize)?.as_ref());
        left.map_or(0, |left| left.at(self.now_ms))
    }
}

/// Use by each QOS, by each user of it, and by each account.
#[derive(Debug, Clone)]
pub struct Ledger<'a> {
    limits: &'a Limits,
    group: Vec<Use>,
    /// By QOS, then user; empty for a QOS that limits no user.
    user: Vec<Vec<Use>>,
    /// By QOS that limits it, then account.
    by_account: Vec<BTreeMap<Option<u32>, Use>>,
    account: Vec<Use>,
    /// By QOS and by association, where that is limited.
    group_time: Vec<Option<Remaining>>,
    account_time: Vec<Option<Remaining>>,
    group_used: Vec<Option<Budget>>,
    account_used: Vec<Option<Budget>>,
    /// Shares of the accounts, where they count in the order.
    standing: Option<Standing<'a>>,
    /// When the limits of running jobs end, where GPU time is limited.
    ends_ms: BTreeMap<u32, i64>,
    limits_time: bool,
}

impl<'a> Ledger<'a> {
    /// Nothing at work. O(QOSs that limit users × users + associations).
    pub fn new(limits: &'a Limits, users: usize) -> Self {
        let of = |qos: &Qos| if qos.user_milli.is_some() || qos.user_jobs.is_some() { users } else { 0 };
        let left = |time: Option<u64>, used: Option<u64>| limits.bounds_time(time, used).then(Remaining::default);
        let half_life_ms = limits.accounting.half_life_ms;
        let budget = |milli: Option<u64>, wall_ms: Option<i64>, half_life_ms: Option<i64>| {
            (milli.is_some() || wall_ms.is_some()).then(|| Budget { half_life_ms, ..Budget::default() })
        };
        let of_qos = |qos: &Qos| budget(qos.used_milli, qos.used_wall_ms, half_life_ms.filter(|_| !qos.keeps_usage));
        let associations = limits.accounts.all();
        Self {
            limits,
            group: vec![Use::default(); limits.qos.len()],
            user: limits.qos.iter().map(|qos| vec![Use::default(); of(qos)]).collect(),
            account: vec![Use::default(); associations.len()],
            by_account: vec![BTreeMap::new(); limits.qos.len()],
            group_time: limits.qos.iter().map(|qos| left(qos.group_time_milli, qos.used_milli)).collect(),
            account_time: associations.iter().map(|of| left(of.group_time_milli, of.used_milli)).collect(),
            group_used: limits.qos.iter().map(of_qos).collect(),
            account_used: associations.iter().map(|of| budget(of.used_milli, of.used_wall_ms, half_life_ms)).collect(),
            standing: None,
            ends_ms: BTreeMap::new(),
            limits_time: limits.limits_time(),
        }
    }

    /// Adds the shares of the accounts, if there are any and they count with these weights.
    pub(crate) fn ranking(self, weights: Option<&Weights>) -> Self {
        let limits = self.limits;
        let weights = weights.filter(|weights| weights.fair_share != 0.0);
        let standing = weights
            .zip(limits.family.as_ref())
            .map(|(weights, family)| Standing::new(&limits.accounts, family, limits.accounting, weights));
        Self { standing, ..self }
    }

    /// Time has passed: factors that are due are worked out anew. O(1), or O(associations × log) once a period.
    pub(crate) fn refresh(&mut self, now_ms: i64) {
        if let Some(standing) = &mut self.standing {
            standing.refresh(now_ms);
        }
    }

    /// The factor of a job's association; `None` where shares of accounts do not count.
    pub(crate) fn factor(&self, workload: &Workload, job: u32) -> Option<f64> {
        self.standing.as_ref().map(|standing| standing.factor(workload.association_of(job as usize)))
    }

    /// Whether a job is over a limit of usage that decays, so that it may start later though nothing happens. O(depth).
    pub(crate) fn awaits_decay(&self, workload: &Workload, job: u32, now_ms: i64) -> bool {
        let asking = self.limits.asking(workload, job);
        let beside = Beside { ledger: Some(self), now_ms };
        let Some(rules) = self.limits.rules.get(asking.rules) else { return false };
        let decays = |refusal: Refusal| {
            let of = if refusal.kind.is_of_account() { &self.account_used } else { &self.group_used };
            let budget = of.get(refusal.owner as usize).and_then(Option::as_ref);
            refusal.kind.is_of_usage() && budget.is_some_and(|budget| budget.half_life_ms.is_some())
        };
        rules.refusals(self.limits, asking, beside).any(decays)
    }

    /// The limit that keeps a job from starting now. O(depth).
    pub fn refusal(&self, workload: &Workload, job: u32, now_ms: i64) -> Option<Refusal> {
        let asking = self.limits.asking(workload, job);
        let beside = Beside { ledger: Some(self), now_ms };
        self.limits.rules.get(asking.rules)?.refusals(self.limits, asking, beside).next()
    }

    /// A job starts. O(depth × log jobs).
    pub fn start(&mut self, workload: &Workload, job: u32, now_ms: i64) {
        let asking = self.limits.asking(workload, job);
        self.change(asking, |using, amount| {
            using.milli += amount;
            using.jobs += 1;
        });
        self.charge(workload, job, asking, now_ms, 1);
        let Some(limit_ms) = asking.limit_ms.filter(|_| self.limits_time) else { return };
        let end_ms = now_ms.saturating_add(limit_ms);
        self.ends_ms.insert(job, end_ms);
        self.change_time(asking, |left| left.start(job, end_ms, asking.amount));
    }

    /// A job stops. O(depth × log jobs).
    pub fn stop(&mut self, workload: &Workload, job: u32, now_ms: i64) {
        let asking = self.limits.asking(workload, job);
        self.change(asking, |using, amount| {
            using.milli = using.milli.saturating_sub(amount);
            using.jobs = using.jobs.saturating_sub(1);
        });
        self.charge(workload, job, asking, now_ms, -1);
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
            let is_limited = |qos: &&Qos| qos.account_milli.is_some() || qos.account_jobs.is_some();
            let by_account = limits.qos.get(at).filter(is_limited).and_then(|_| self.by_account.get_mut(at));
            let account = by_account.map(|of| of.entry(asking.account).or_default());
            for using in self.group.get_mut(at).into_iter().chain(users).chain(account) {
                change(using, asking.amount);
            }
        }
        for (at, _) in limits.accounts.path(asking.association) {
            if let Some(using) = self.account.get_mut(at as usize) {
                change(using, asking.amount);
            }
        }
    }

    /// Begins to charge a job, or ends it.
    fn charge(&mut self, workload: &Workload, job: u32, asking: Asking, now_ms: i64, sign: i64) {
        let limits = self.limits;
        let milli = sign * i64::try_from(asking.amount).unwrap_or(i64::MAX);
        if let Some(rules) = limits.rules.get(asking.rules) {
            for at in &rules.counts {
                if let Some(Some(used)) = self.group_used.get_mut(usize::from(*at)) {
                    used.change(now_ms, milli, sign);
                }
            }
            for (at, _) in limits.accounts.path(asking.association) {
                if let Some(Some(used)) = self.account_used.get_mut(at as usize) {
                    used.change(now_ms, milli, sign);
                }
            }
        }
        if let Some(standing) = &mut self.standing {
            standing.change(job, asking.association, now_ms, workload.charge_of(job as usize), sign > 0);
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
