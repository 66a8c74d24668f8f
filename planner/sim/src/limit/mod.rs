//! Limits by QOS, account and partition, as Slurm's accounting enforces them.
//!
//! A job has a QOS, or none, and its VC (a partition) may have one of its own, the *partition QOS*. Each limit of a job is that of the partition QOS, or, if that
//! does not set it, that of the job's own; a job's QOS with [`Qos::over_partition`] comes first. What runs counts for both. A job may also have an [`Association`], whose limits and those of
//! the accounts above hold where neither QOS sets one of the same kind; [`account`](Association) has the rules. These are the limits, in the order in
//! which they are tested; the name is that of the reason in `squeue` where jobs compete for GPUs:
//!
//! | limit | of | reason |
//! |---|---|---|
//! | [`Qos::wall_ms`] | the job's time limit | `QOSMaxWallDurationPerJobLimit` |
//! | [`Partition::wall_ms`] | the same, of the partition itself, not of its QOS | `PartitionTimeLimit` |
//! | [`Association::wall_ms`] | the job's time limit, where no QOS has `MaxWall` | `AssocMaxWallDurationPerJobLimit` |
//! | [`Qos::job_milli`] | the job's GPUs | `QOSMaxGRESPerJob` |
//! | [`Association::job_milli`] | the same, where no QOS sets it | `AssocMaxGRESPerJob` |
//! | [`Qos::group_jobs`] | jobs of the QOS that run, with the job | `QOSGrpJobsLimit` |
//! | [`Qos::used_wall_ms`] | time for which jobs of the QOS have run | `QOSGrpWallLimit` |
//! | [`Qos::account_jobs`] | jobs of the QOS that run and are of the job's account, with the job | `MaxJobsPerAccount` |
//! | [`Qos::user_jobs`] | those of them that are of the job's user | `QOSMaxJobsPerUserLimit` |
//! | [`Association::group_jobs`], of each on the path, the user's first | jobs of the branch that run, with the job, where no QOS has `GrpJobs` | `AssocGrpJobsLimit` |
//! | [`Association::used_wall_ms`], after each of these | time for which jobs of the branch have run, where no QOS has `GrpWall` | `AssocGrpWallLimit` |
//! | [`Association::jobs`], after the first of these | jobs of the job's own association, where no QOS has `MaxJobsPU` | `AssocMaxJobsLimit` |
//! | [`Qos::used_milli`] | GPU time that jobs of the QOS have used | `QOSGrpGRESMinutes` |
//! | [`Qos::group_milli`] | GPUs of the QOS at work, with the job's | `QOSGrpGRES` |
//! | [`Qos::account_milli`] | those of them that are of the job's account | `MaxGRESPerAccount` |
//! | [`Qos::user_milli`] | those of the QOS that are of the job's user | `QOSMaxGRESPerUser` |
//! | [`Qos::group_time_milli`] | GPU time that jobs of the QOS may still take by their time limits, with the job's | `QOSGrpGRESRunMinutes` |
//! | [`Association::used_milli`], of each on the path, the user's first | GPU time that jobs of the branch have used, where no QOS has `GrpTRESMins` | `AssocGrpGRESMinutes` |
//! | [`Association::group_milli`], of each on the path, the user's first | GPUs of the branch at work, with the job's, where no QOS has `GrpTRES` | `AssocGrpGRES` |
//! | [`Association::group_time_milli`], after each of these | GPU time that jobs of the branch may still take, where no QOS has `GrpTRESRunMins` | `AssocGrpGRESRunMinutes` |
//!
//! A job that is over one of them with nothing else at work is *held*: no end of another helps it. Where a QOS of it has [`Qos::deny`] (`DenyOnLimit`; of the partition's own
//! limit [`Partition::deny`]), it is rejected instead, but for the two of GPU time that may still be taken and the four of what was used. A job without a time limit is over no limit of time, and takes none of the GPU time that others may. That GPU time has
//! become free as running jobs go on is no event. The account of a job is its association, or that above if it is a user's. O(depth of the tree) for a test, O(depth × log jobs) for a start and an end.
//!
//! # Usage
//!
//! **Used** GPU time is ∫ g(s)·2^(−(t−s)/h) ds from time 0 to now, g(s) the GPUs at work of those who count, h [`Accounting::half_life_ms`]; nothing decays without one, and for a QOS with [`Qos::keeps_usage`]. Of the time for which jobs have run it is the
//! same with jobs in the place of GPUs. A job is over a limit of it if the usage is at least the limit. With [`Accounting::safe`] one that has a time limit is also over a limit of GPU time if the usage, what running jobs that
//! count may still take by their time limits, and GPUs × its own time limit are together more than that. (All to a relative 2⁻³².) Jobs that run are not stopped when the limit is reached; Slurm stops them, unless it is told to be `safe`. That usage has decayed is no event; but under an interval there is a
//! decision at every further multiple of it, though nothing runs or is to come, where a waiting job was at its turn over a limit of usage that decays (whatever other limit it was over). What runs at time 0 has used nothing before.
//!
//! Fair share: see [`share`].
//!
//! Worked number: an account has 10 GPU-minutes and a half-life of 1 h. A job of 2 GPUs has used 2·(60/ln 2)·(1 − 2^(−1/12)) = 9.7 of them after 5 min, so that another may start then. At 10 min, when that has run as long on as
//! many, 18.9 are used, and who comes later waits until that is worth 10: for log₂ 1.89 = 0.92 half-lives, 55 min.
//!
//! # Preemption
//!
//! A QOS may stop jobs of others ([`Qos::preempts`], `PreemptType=preempt/qos`), under the scans strict, skip and slurm; no QOS stops itself, over others or not. At its turn, a waiting job that is over no limit and
//! does not fit looks at the jobs that run in its pool, whose QOS its own stops, that are not spared: [`Qos::stopped`] says what becomes of them, they started earlier than now and at least
//! [`Qos::exempt_ms`] ago, and were stopped fewer than 1,000 times. They stand in order of (priority of their QOS, 65,535 at most; nodes they run on; job index), lowest first.
//!
//! * **strict, skip**: they are taken out from the first on until the job fits; then, of those taken out, from the last to the first, each that can be put back on its own GPUs so that the job still fits is put back.
//! * **slurm**: see the module `scan::slurm`.
//!
//! Those that are left are *told to stop*, if the job fits without them. Who has no grace stops at once; who has, runs on for it (if it was not told before) and stops then, in an event after the ends of an instant. Who is told to
//! stop still counts as what it is: it may be chosen again, and nothing comes of it. Under strict and skip the job starts at once if all that were chosen have stopped. Otherwise it waits on, as one that does not fit. A job that
//! stopped is over, or loses what it did since its last checkpoint and joins the queue [`Limits::requeue_ms`] later (an event after those of locality); its age in the multifactor order counts from then. Where a job stopped at once, another decision is due as after
//! any preemption. That an exempt time has passed is no event.
//!
//! Worked number: QOS `low` allows 16 GPUs in all and 8 a user. With jobs of 4 GPUs of ada and of 8 of bob at work, a job of 8 of ada is over the limit of the user (12), one
//! of 8 of cy over that of the QOS (20), and one of 4 of either may start.

mod account;
mod kind;
mod ledger;
mod rule;
pub mod share;

use std::collections::BTreeMap;

use tracecast_analytics::schema::Resource;

use account::Tree;
pub use account::{Association, Fairshare};
pub use kind::{Kind, Refusal};
use ledger::Beside;
pub use ledger::Ledger;
use rule::Rules;
use share::Family;
pub use share::{Accounting, Algorithm, Level};

use super::weights::Weights;
use super::workload::Workload;
use crate::error::{Error, Result};

/// Most QOSs.
const MOST_QOS: usize = 10_000;

/// Fate of a job that is stopped for one of another QOS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stopped {
    /// Not stopped.
    #[default]
    Never,
    /// Requeued, with the progress since the last checkpoint lost (`PreemptMode=REQUEUE`).
    Requeued,
    /// Ended (`PreemptMode=CANCEL`).
    Cancelled,
}

/// A quality of service: limits of the jobs that have it. What is `None` is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qos {
    /// Name of the QOS.
    pub name: String,
    /// GPUs of all its jobs at work, thousandths (`GrpTRES`).
    pub group_milli: Option<u64>,
    /// Jobs at work (`GrpJobs`).
    pub group_jobs: Option<u32>,
    /// GPU time that its jobs may have used in all (`GrpTRESMins`), thousandths of a GPU-minute.
    pub used_milli: Option<u64>,
    /// Time for which its jobs may have run in all, each counted alone (`GrpWall`), milliseconds.
    pub used_wall_ms: Option<i64>,
    /// Whether what its jobs have used does not decay (`NoDecay`).
    pub keeps_usage: bool,
    /// GPUs of its jobs of one account (`MaxTRESPA`), thousandths.
    pub account_milli: Option<u64>,
    /// Jobs at work of one account (`MaxJobsPA`).
    pub account_jobs: Option<u32>,
    /// GPUs of its jobs of one user (`MaxTRESPU`), thousandths.
    pub user_milli: Option<u64>,
    /// Jobs at work of one user (`MaxJobsPU`).
    pub user_jobs: Option<u32>,
    /// GPU time that its running jobs may still take by their time limits (`GrpTRESRunMins`), thousandths of a GPU-minute.
    pub group_time_milli: Option<u64>,
    /// GPUs of one job (`MaxTRESPerJob`), thousandths.
    pub job_milli: Option<u64>,
    /// Time limit of one job (`MaxWall`), milliseconds.
    pub wall_ms: Option<i64>,
    /// Whether a job that could never start is rejected (`DenyOnLimit`), and not held.
    pub deny: bool,
    /// Whether the limits come before those of the partition QOS (`OverPartQOS`).
    pub over_partition: bool,
    /// Whether jobs may have longer time limits than the partition's (`PartitionTimeLimit`).
    pub over_partition_time: bool,
    /// Priority in the multifactor order (`Priority`).
    pub priority: u32,
    /// QOSs whose jobs its jobs stop (`Preempt`), indices.
    pub preempts: Vec<u16>,
    /// Fate of the QOS's jobs when they are stopped.
    pub stopped: Stopped,
    /// How long such a job runs on before it stops (`GraceTime`), milliseconds.
    pub grace_ms: i64,
    /// How long a job must have run to be stopped (`PreemptExemptTime`), milliseconds.
    pub exempt_ms: i64,
}

/// Limits of the jobs of a VC.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// QOS of the partition, an index into the QOSs.
    pub qos: Option<u16>,
    /// Longest time limit (`MaxTime`), milliseconds.
    pub wall_ms: Option<i64>,
    /// Whether jobs over that time limit are rejected (`EnforcePartLimits`).
    pub deny: bool,
}

/// QOSs, the partitions that have them, and accounts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    qos: Vec<Qos>,
    accounts: Tree,
    accounting: Accounting,
    /// Family of accounts, where their shares count in the order.
    family: Option<Family>,
    partitions: Vec<Partition>,
    /// By VC, and QOS of the job: none, then each.
    rules: Vec<Rules>,
    resource: Resource,
    /// Whether a QOS stops jobs of another.
    preempts: bool,
    /// From the stop of a job to when it may start again, milliseconds.
    requeue_ms: i64,
}

/// Properties of a job that limits look at.
#[derive(Debug, Clone, Copy)]
struct Asking {
    rules: usize,
    user: usize,
    association: Option<u32>,
    /// The account that the association is, or is below.
    account: Option<u32>,
    amount: u64,
    limit_ms: Option<i64>,
}

impl Limits {
    /// Limits of `qos`, on VCs with these `partitions`, in the order of the cluster's VCs.
    ///
    /// # Errors
    /// If a partition's QOS does not exist, or there are too many.
    pub fn new(qos: Vec<Qos>, partitions: Vec<Partition>) -> Result<Self> {
        if qos.len() > MOST_QOS {
            return Err(Error::Cluster(format!("there are {} QOSs; at most {MOST_QOS} can be replayed", qos.len())));
        }
        if let Some(partition) = partitions.iter().find(|of| of.qos.is_some_and(|at| usize::from(at) >= qos.len())) {
            return Err(Error::Cluster(format!("the QOS {:?} of a partition does not exist", partition.qos)));
        }
        let mut rules = Vec::with_capacity(partitions.len() * (qos.len() + 1));
        for (vc, partition) in (0u16..).zip(&partitions) {
            for own in std::iter::once(None).chain((0u16..).take(qos.len()).map(Some)) {
                rules.push(Rules::new(&qos, vc, partition, own));
            }
        }
        if let Some(name) = preempts_itself(&qos) {
            return Err(Error::Cluster(format!(
                "QOS {name} preempts itself, over others or not, or one that does not exist"
            )));
        }
        let preempts = qos.iter().any(|of| !of.preempts.is_empty());
        Ok(Self { qos, partitions, rules, preempts, ..Self::default() })
    }

    /// Adds these accounts and the users in them, each behind the one above it.
    ///
    /// # Errors
    /// If one stands before the one above it, or there are too many.
    pub fn under(self, associations: Vec<Association>) -> Result<Self> {
        Ok(Self { accounts: Tree::new(associations)?, ..self })
    }

    /// Sets how usage is accounted: for limits of usage and, if there are accounts, for the fair
    /// share of the multifactor order.
    ///
    /// # Errors
    /// If the accounting is not valid, or there are accounts and not one above all others, or someone is below a user.
    pub fn accounted(self, accounting: Accounting) -> Result<Self> {
        accounting.validate()?;
        let family = if self.accounts.all().is_empty() { None } else { Some(Family::new(&self.accounts)?) };
        Ok(Self { accounting, family, ..self })
    }

    /// Returns how usage is accounted.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// Whether some limit gives way as time goes by, without a job that comes or ends: GPU time that running jobs may still take, and usage that decays.
    pub fn gives_way_with_time(&self) -> bool {
        let decays = self.accounting.half_life_ms.is_some();
        let of_qos = |qos: &Qos| {
            let used = qos.used_milli.is_some() || qos.used_wall_ms.is_some();
            qos.group_time_milli.is_some() || (used && decays && !qos.keeps_usage)
        };
        let of_association = |of: &Association| {
            of.group_time_milli.is_some() || (decays && (of.used_milli.is_some() || of.used_wall_ms.is_some()))
        };
        self.qos.iter().any(of_qos) || self.accounts.all().iter().any(of_association)
    }

    /// Whether an account or a user has shares that differ from those of a sibling.
    pub fn has_unequal_shares(&self) -> bool {
        let all = self.accounts.all();
        let mut first: BTreeMap<Option<u32>, Fairshare> = BTreeMap::new();
        all.iter().any(|of| *first.entry(of.parent).or_insert(of.shares) != of.shares)
    }

    /// Whether the fair share of the multifactor order is that of the accounts, and not of users alone.
    pub fn shares_by_account(&self) -> bool {
        self.family.is_some()
    }

    /// Returns the level of each association that has used so much (seconds of charge, by
    /// association); empty where shares of accounts do not count. O(associations × log).
    pub fn levels(&self, usage: &[f64]) -> Vec<Level> {
        match &self.family {
            Some(family) if usage.len() == self.accounts.all().len() => family.levels(&self.accounting, usage),
            _ => Vec::new(),
        }
    }

    /// The weights of the multifactor order: its own, or, if all of these are 0, those of the limits.
    pub fn weights(&self, own: &Weights) -> Weights {
        let names_none = [own.age, own.fair_share, own.size, own.qos].iter().all(|weight| *weight == 0.0);
        match self.accounting.weights {
            Some(weights) if names_none => Weights { half_life_ms: own.half_life_ms, ..weights },
            _ => *own,
        }
    }

    /// An association and all above it, by position.
    pub fn path(&self, association: Option<u32>) -> impl Iterator<Item = usize> {
        self.accounts.path(association).map(|(at, _)| at as usize)
    }

    /// Accounts, and the users in them.
    pub fn associations(&self) -> &[Association] {
        self.accounts.all()
    }

    /// Whether the GPU time that running jobs may still take is limited, so that a job's time limit
    /// counts for more than itself.
    pub fn limits_time(&self) -> bool {
        self.qos.iter().any(|qos| self.bounds_time(qos.group_time_milli, qos.used_milli))
            || self.accounts.all().iter().any(|of| self.bounds_time(of.group_time_milli, of.used_milli))
    }

    /// Whether such limits bound the GPU time that running jobs may still take.
    fn bounds_time(&self, group_time: Option<u64>, used: Option<u64>) -> bool {
        group_time.is_some() || (self.accounting.safe && used.is_some())
    }

    /// Sets the time from the stop of a job to when it may start again.
    #[must_use]
    pub fn requeued_after(self, requeue_ms: i64) -> Self {
        Self { requeue_ms: requeue_ms.max(0), ..self }
    }

    /// From the stop of a job to when it may start again, milliseconds.
    pub fn requeue_ms(&self) -> i64 {
        self.requeue_ms
    }

    /// Whether a QOS stops jobs of another.
    pub fn preempts(&self) -> bool {
        self.preempts
    }

    /// The QOS of a job.
    pub(crate) fn own(&self, workload: &Workload, job: u32) -> Option<&Qos> {
        self.qos.get(usize::from(workload.qos_of(job as usize)?))
    }

    /// The QOS of a running job, if a waiting one may stop it as far as that says.
    pub(crate) fn may_stop(&self, workload: &Workload, waiting: u32, running: u32) -> Option<&Qos> {
        let of_running = workload.qos_of(running as usize)?;
        let stops = self.own(workload, waiting)?.preempts.contains(&of_running);
        self.qos.get(usize::from(of_running)).filter(|qos| stops && qos.stopped != Stopped::Never)
    }

    /// Sets the resource that jobs compete for, by which reasons are named.
    #[must_use]
    pub fn of(self, resource: Resource) -> Self {
        Self { resource, ..self }
    }

    /// The reason that `squeue` shows for a refusal, whose limit it is, and how much that is: GPUs, jobs, seconds or GPU-minutes.
    pub fn told(&self, refusal: Refusal, vc_name: impl Fn(usize) -> String) -> (&'static str, String, f64) {
        let owner = refusal.owner as usize;
        let reason = refusal.kind.reason(self.resource);
        if refusal.kind == Kind::PartitionTime {
            let wall_ms = self.partitions.get(owner).and_then(|partition| partition.wall_ms);
            return (reason, vc_name(owner), wall_ms.unwrap_or(0) as f64 / 1000.0);
        }
        let amount = |milli: Option<u64>| milli.unwrap_or(0) as f64 / 1000.0;
        if refusal.kind.is_of_account() {
            let Some(of) = self.accounts.all().get(owner) else { return (reason, String::new(), 0.0) };
            let limit = match refusal.kind {
                Kind::AccountJobGpus => amount(of.job_milli),
                Kind::AccountGroupJobs => f64::from(of.group_jobs.unwrap_or(0)),
                Kind::AccountJobs => f64::from(of.jobs.unwrap_or(0)),
                Kind::AccountGroupGpus => amount(of.group_milli),
                Kind::AccountGroupTime => amount(of.group_time_milli),
                Kind::AccountUsedGpus => amount(of.used_milli),
                Kind::AccountUsedWall => of.used_wall_ms.unwrap_or(0) as f64 / 1000.0,
                _ => of.wall_ms.unwrap_or(0) as f64 / 1000.0,
            };
            return (reason, of.name.clone(), limit);
        }
        let Some(qos) = self.qos.get(owner) else { return (reason, String::new(), 0.0) };
        let limit = match refusal.kind {
            Kind::JobGpus => amount(qos.job_milli),
            Kind::GroupJobs => f64::from(qos.group_jobs.unwrap_or(0)),
            Kind::UserJobs => f64::from(qos.user_jobs.unwrap_or(0)),
            Kind::GroupGpus => amount(qos.group_milli),
            Kind::UserGpus => amount(qos.user_milli),
            Kind::GroupTime => amount(qos.group_time_milli),
            Kind::UsedGpus => amount(qos.used_milli),
            Kind::UsedWall => qos.used_wall_ms.unwrap_or(0) as f64 / 1000.0,
            Kind::PerAccountGpus => amount(qos.account_milli),
            Kind::PerAccountJobs => f64::from(qos.account_jobs.unwrap_or(0)),
            _ => qos.wall_ms.unwrap_or(0) as f64 / 1000.0,
        };
        (reason, qos.name.clone(), limit)
    }

    /// The QOSs.
    pub fn qos(&self) -> &[Qos] {
        &self.qos
    }

    /// Returns the limits of each VC.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The priority of a job's QOS as a part of the greatest there is; 0 if it has none.
    pub(crate) fn priority_share(&self, workload: &Workload, job: usize) -> f64 {
        let most = self.qos.iter().map(|qos| qos.priority).max().unwrap_or(0).max(1);
        let own = workload.qos_of(job).and_then(|at| self.qos.get(usize::from(at)));
        f64::from(own.map_or(0, |qos| qos.priority)) / f64::from(most)
    }

    /// Checks that the jobs' QOSs and associations exist.
    ///
    /// # Errors
    /// Names the first job of which it does not.
    pub fn validate(&self, workload: &Workload) -> Result<()> {
        let unknown = |at: &Option<u16>| at.is_some_and(|at| usize::from(at) >= self.qos.len());
        if let Some(job) = workload.qos.iter().position(unknown) {
            return Err(Error::Workload { job, what: "its QOS is not among the limits".into() });
        }
        let unknown = |at: &Option<u32>| at.is_some_and(|at| at as usize >= self.accounts.all().len());
        match workload.association.iter().position(unknown) {
            Some(job) => Err(Error::Workload { job, what: "its association is not among the limits".into() }),
            None => Ok(()),
        }
    }

    fn asking(&self, workload: &Workload, job: u32) -> Asking {
        let at = job as usize;
        let vc = workload.vc.get(at).map_or(0, |vc| usize::from(*vc));
        let own = workload.qos_of(at).map_or(0, |own| usize::from(own) + 1);
        let association = workload.association_of(at);
        Asking {
            rules: vc * (self.qos.len() + 1) + own,
            user: workload.user.get(at).map_or(0, |user| *user as usize),
            association,
            account: self.accounts.account_of(association),
            amount: workload.shape_of(at).amount(),
            limit_ms: workload.requested_ms.get(at).copied().flatten(),
        }
    }

    /// The first limit that a job is over with nothing else at work, and whether it is rejected for one. O(depth).
    pub fn alone(&self, workload: &Workload, job: u32) -> (Option<Refusal>, bool) {
        let asking = self.asking(workload, job);
        let Some(rules) = self.rules.get(asking.rules) else { return (None, false) };
        let over = || rules.refusals(self, asking, Beside::default());
        // Another limit than the first may be what it is rejected for.
        let denied = |refusal: Refusal| match refusal.kind {
            Kind::PartitionTime => rules.deny_partition,
            // Slurm does not look at these when a job is submitted.
            Kind::GroupTime | Kind::AccountGroupTime => false,
            kind if kind.is_of_usage() => false,
            _ => rules.deny,
        };
        (over().next(), over().any(denied))
    }
}

/// A QOS that stops its own jobs, over others or not, or one that does not exist.
fn preempts_itself(qos: &[Qos]) -> Option<&str> {
    // What is left when those that stop nobody who is left are taken out, again and again.
    let mut left: Vec<usize> = (0..qos.len()).collect();
    loop {
        let stops = |at: &usize| {
            let mut others = qos[*at].preempts.iter().map(|other| usize::from(*other));
            others.any(|other| left.contains(&other) || other >= qos.len())
        };
        let rest: Vec<usize> = left.iter().copied().filter(stops).collect();
        if rest.len() == left.len() {
            return rest.first().map(|at| qos[*at].name.as_str());
        }
        left = rest;
    }
}
