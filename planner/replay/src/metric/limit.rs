//! Which limits jobs waited for, by the names that `squeue` shows.
//!
//! At every moment a waiting job that is over limits of its QOS, account or partition ([`tracecast_sim::limit`]) waits for the first of them, in the order in which they are tested, and for nothing else. Counted are
//! the jobs, and from when to when, that [`super::delay`] counts. A job that was held, as it was over a limit by itself, waits to the end.
//!
//! Jobs of one VC, shape, QOS, association and user (and of one time limit, where GPU time is limited) share their fate, but for those that are held. What they wait for is found at every instant.
//! O(waiting classes) for each.
//!
//! `members` says which QOS and which account a job belongs to, for the figures of each.
//!
//! Worked number: a QOS allows 8 GPUs. While 8 run, two jobs of 4 GPUs wait for an hour: QOSGrpGRES has 2 jobs, 2 job-hours and 8 GPU-hours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::times::hours;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::limit::{Ledger, Limits, Refusal};
use tracecast_sim::schedule::Schedule;
use tracecast_sim::workload::Workload;

/// Wait of jobs for one limit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LimitWait {
    /// The reason that `squeue` shows, such as QOSGrpGRES.
    pub reason: String,
    /// The QOS whose limit it is, or the account (with the user whose alone it is), or the partition.
    pub of: String,
    /// The limit: GPUs, jobs, seconds of a time limit, or GPU-minutes where running jobs may take no more.
    pub limit: f64,
    /// Jobs that waited for it.
    pub jobs: u64,
    /// Jobs that waited for the limit and never started.
    pub never_started: u64,
    /// Time they waited for it, job-hours.
    pub wait_hours: f64,
    /// GPUs asked for × that time, GPU-hours.
    pub gpu_wait_hours: f64,
}

/// Milliseconds that a class has waited for each limit.
type Clocks = Vec<(Refusal, i64)>;

#[derive(Debug, Clone, Copy)]
struct Class {
    /// A job of the class; limits treat them all the same.
    job: u32,
    refusal: Option<Refusal>,
}

#[derive(Debug, Clone, Default)]
struct Sum {
    /// Jobs, each once.
    jobs: std::collections::BTreeSet<u32>,
    wait_ms: i128,
    gpu_wait: i128,
}

/// Limits in a walk through a schedule.
#[derive(Debug)]
pub(super) struct Reasons<'a> {
    limits: &'a Limits,
    ledger: Ledger<'a>,
    /// Class of each job.
    class_of: Vec<usize>,
    classes: Vec<Class>,
    clocks: Vec<Clocks>,
    /// The clocks of its class when a job joined.
    joined: BTreeMap<u32, Clocks>,
    sums: BTreeMap<Refusal, Sum>,
}

impl<'a> Reasons<'a> {
    /// Takes the limits of a cluster, if it has any. O(jobs × log classes).
    pub(super) fn new(workload: &Workload, cluster: &'a Cluster) -> Option<Self> {
        let limits = cluster.limits.as_ref()?;
        let limits_time = limits.limits_time();
        let mut known = BTreeMap::new();
        let mut classes = Vec::new();
        let class_of = (0..workload.len() as u32).map(|job| {
            let at = job as usize;
            let key = (
                workload.vc.get(at).copied(),
                workload.shape.get(at).copied(),
                workload.qos_of(at),
                workload.association_of(at),
                workload.requested_ms.get(at).copied().flatten().filter(|_| limits_time),
                workload.user.get(at).copied(),
                limits.alone(workload, job).0,
            );
            *known.entry(key).or_insert_with(|| {
                classes.push(Class { job, refusal: None });
                classes.len() - 1
            })
        });
        let class_of = class_of.collect();
        Some(Self {
            limits,
            ledger: Ledger::new(limits, workload.users.len()),
            class_of,
            clocks: vec![Vec::new(); classes.len()],
            classes,
            joined: BTreeMap::new(),
            sums: BTreeMap::new(),
        })
    }

    /// VC and shape of each class.
    pub(super) fn classes(&self, workload: &Workload) -> impl Iterator<Item = (usize, usize)> {
        let of = |job: u32| {
            let at = job as usize;
            let (vc, shape) = (workload.vc.get(at).copied(), workload.shape.get(at).copied());
            (usize::from(vc.unwrap_or(0)), usize::from(shape.unwrap_or(0)))
        };
        self.classes.iter().map(move |class| of(class.job))
    }

    /// The class of a job.
    pub(super) fn class_of(&self, job: u32) -> Option<usize> {
        self.class_of.get(job as usize).copied()
    }

    /// A job takes its GPUs at a moment, or gives them back.
    pub(super) fn hold(&mut self, workload: &Workload, job: u32, take: bool, now_ms: i64) {
        if take {
            self.ledger.start(workload, job, now_ms);
        } else {
            self.ledger.stop(workload, job, now_ms);
        }
    }

    /// Finds anew what limit a class waits for at a moment; whether there is one.
    pub(super) fn judge(&mut self, class: u32, workload: &Workload, now_ms: i64) -> bool {
        let Some(class) = self.classes.get_mut(class as usize) else { return false };
        class.refusal = self.ledger.refusal(workload, class.job, now_ms);
        class.refusal.is_some()
    }

    /// Time passes in which a class waits for a limit.
    pub(super) fn pass(&mut self, class: u32, dt: i64) {
        let at = class as usize;
        let Some(refusal) = self.classes.get(at).and_then(|class| class.refusal) else { return };
        let Some(clocks) = self.clocks.get_mut(at) else { return };
        match clocks.iter_mut().find(|(known, _)| *known == refusal) {
            Some((_, clock)) => *clock += dt,
            None => clocks.push((refusal, dt)),
        }
    }

    /// A job of a class begins to wait.
    pub(super) fn join(&mut self, class: usize, job: u32) {
        if let Some(clocks) = self.clocks.get(class) {
            self.joined.insert(job, clocks.clone());
        }
    }

    /// A job waits no more.
    pub(super) fn leave(&mut self, class: usize, job: u32, amount: u64) {
        let Some(before) = self.joined.remove(&job) else { return };
        for (refusal, clock) in self.clocks.get(class).into_iter().flatten() {
            let then = before.iter().find(|(known, _)| known == refusal).map_or(0, |(_, clock)| *clock);
            let waited = i128::from(clock - then);
            if waited > 0 {
                let sum = self.sums.entry(*refusal).or_default();
                sum.jobs.insert(job);
                sum.wait_ms += waited;
                sum.gpu_wait += waited * i128::from(amount);
            }
        }
    }

    /// The figures, the limit that cost most GPU time first.
    pub(super) fn figures(&self, cluster: &Cluster, schedule: &Schedule) -> Vec<LimitWait> {
        let mut sums: Vec<(&Refusal, &Sum)> = self.sums.iter().collect();
        sums.sort_by_key(|(refusal, sum)| (std::cmp::Reverse(sum.gpu_wait), **refusal));
        let figure = |(refusal, sum): (&Refusal, &Sum)| {
            let (reason, of, limit) = self.limits.told(*refusal, |vc| cluster.vc_name(vc));
            let never = sum.jobs.iter().filter(|job| schedule.start_ms(**job as usize).is_none());
            LimitWait {
                reason: reason.to_owned(),
                of,
                limit,
                jobs: sum.jobs.len() as u64,
                never_started: never.count() as u64,
                wait_hours: hours(sum.wait_ms),
                gpu_wait_hours: hours(sum.gpu_wait) / 1000.0,
            }
        };
        sums.into_iter().map(figure).collect()
    }
}

/// Groups that each job is in one of: their names, and the number of its group by job.
pub(super) type Members = (Vec<String>, Vec<usize>);

/// The QOSs, and the accounts that jobs are charged to, with the jobs of each; jobs without one are in a last group. No groups of what limits do not describe. O(jobs × depth).
pub(super) fn members(workload: &Workload, limits: &Limits) -> [Members; 2] {
    let all = limits.associations();
    let is_account = |at: &usize| all.get(*at).is_some_and(|of| !of.is_user);
    let account = |job: usize| limits.path(workload.association_of(job)).find(is_account);
    let qos = |job: usize| workload.qos_of(job).map(usize::from);
    let of = |mut names: Vec<String>, rest: &str, group: &dyn Fn(usize) -> Option<usize>| {
        if names.is_empty() {
            return Members::default();
        }
        let groups = (0..workload.len()).map(|job| group(job).unwrap_or(names.len())).collect();
        names.push(rest.to_owned());
        (names, groups)
    };
    [
        of(limits.qos().iter().map(|qos| qos.name.clone()).collect(), "(without QOS)", &qos),
        of(all.iter().map(|of| of.name.clone()).collect(), "(of no account described)", &account),
    ]
}
