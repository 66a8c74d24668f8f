//! Pools under limits by QOS and account, which they share: all are replayed at once.
//!
//! Each pool is a [`Run`] as ever. What they share ([`Shared`]) is lent to the one whose turn it is, so that nothing is kept twice. An event in any pool makes a
//! decision due for all, and a decision is one walk through the waiting jobs of all pools in order. O(pools) for an instant, O(log) for a job of a walk.
//!
//! Worked number: QOS `low` may run one job. Its job in pool A ends at 50 s, when its jobs of 10 s in pool B and of 20 s in pool A wait: the first submitted
//! starts, wherever it queues.

use std::collections::BTreeSet;

use super::{Past, Run, Setting};
use crate::error::Result;
use crate::limit::{Ledger, Limits, Refusal};
use crate::schedule::Schedule;

/// State that all pools share.
struct Shared<'a> {
    schedule: Schedule,
    past: Vec<Past>,
    expected_end: Vec<(i64, u8)>,
    ledger: Option<Box<Ledger<'a>>>,
    all_expected: BTreeSet<(i64, u32)>,
}

impl<'a> Shared<'a> {
    /// Lends all to a pool, or takes it back.
    fn swap(&mut self, run: &mut Run<'a>) {
        std::mem::swap(&mut self.schedule, &mut run.schedule);
        std::mem::swap(&mut self.past, &mut run.past);
        std::mem::swap(&mut self.expected_end, &mut run.expected_end);
        std::mem::swap(&mut self.ledger, &mut run.ledger);
        std::mem::swap(&mut self.all_expected, &mut run.all_expected);
    }

    /// Does something in a pool that has all of it meanwhile.
    fn lent<T>(&mut self, run: &mut Run<'a>, act: impl FnOnce(&mut Run<'a>) -> T) -> T {
        self.swap(run);
        let done = act(run);
        self.swap(run);
        done
    }
}

/// Replays all pools at once; `members` are the jobs of each.
pub(super) fn replay<'a>(
    setting: Setting<'a>,
    limits: &'a Limits,
    members: Vec<Vec<u32>>,
    schedule: Schedule,
) -> Result<Schedule> {
    let Setting { workload, cluster, policy, .. } = setting;
    let mut runs = Vec::with_capacity(members.len());
    let mut shared = Shared {
        schedule,
        past: Vec::new(),
        expected_end: Vec::new(),
        ledger: Some(Box::new(Ledger::new(limits, workload.users.len()).ranking(policy.order.weights()))),
        all_expected: BTreeSet::new(),
    };
    for (pool, (jobs, first)) in members.into_iter().zip(cluster.first_nodes()).enumerate() {
        let mut run = Run::new(setting, pool, first, jobs, Schedule::default(), None)?;
        // Each pool comes with its own; one is enough for all.
        let (past, expected_end) = (std::mem::take(&mut run.past), std::mem::take(&mut run.expected_end));
        if past.len() > shared.past.len() {
            shared.past = past;
        }
        if expected_end.len() > shared.expected_end.len() {
            shared.expected_end = expected_end;
        }
        runs.push(run);
    }
    for (pool, run) in runs.iter_mut().enumerate() {
        shared.lent(run, |run| run.begin(pool))?;
    }
    let begins = runs.iter().any(Run::is_due);
    if begins {
        runs.iter_mut().for_each(|run| run.due(0));
    }
    while let Some(now) = runs.iter().filter_map(Run::next_instant).min() {
        let mut happened = false;
        for run in &mut runs {
            happened |= shared.lent(run, |run| run.happen(now));
        }
        if happened {
            runs.iter_mut().for_each(|run| run.due(now));
        }
        if !runs.iter().any(Run::is_due) {
            continue;
        }
        runs.iter_mut().for_each(|run| run.next_decision = None);
        if let Some(ledger) = &mut shared.ledger {
            ledger.refresh(now);
        }
        let Decided { stopped, awaits_decay } = decide(&mut runs, &mut shared, now)?;
        let waits = runs.iter().any(|run| run.queue.len() > 0) && (awaits_decay || runs.iter().any(Run::has_more));
        for run in &mut runs {
            match policy.interval_ms {
                // Who stopped others at once under `slurm` starts in the next decision, though nothing may run until then.
                Some(interval) if waits || stopped => run.due(now.saturating_add(interval)),
                None if stopped => run.due_next(),
                _ => {}
            }
        }
    }
    Ok(shared.schedule)
}

/// Result of a decision.
struct Decided {
    /// Whether a job was stopped.
    stopped: bool,
    /// Whether a job was over a limit of usage that decays.
    awaits_decay: bool,
}

/// One walk through the waiting jobs of all pools.
fn decide<'a>(runs: &mut [Run<'a>], shared: &mut Shared<'a>, now: i64) -> Result<Decided> {
    let mut order = Vec::new();
    let mut walks = Vec::with_capacity(runs.len());
    for (pool, run) in runs.iter_mut().enumerate() {
        walks.push(if run.is_idle() {
            None
        } else {
            shared.lent(run, |run| {
                order.extend(run.keyed().into_iter().map(|(key, job)| (key, job, pool)));
                Some(run.begin_walk())
            })
        });
    }
    // Submissions are in order of index.
    order.sort_unstable();
    let reach_of = |(pool, run): (usize, &Run<'a>)| {
        if !run.policy.scan.reserves_for_all() {
            return usize::MAX;
        }
        let its: Vec<u32> = order.iter().filter(|(.., of)| *of == pool).map(|(_, job, _)| *job).collect();
        run.reach(&its)
    };
    let mut reach: Vec<usize> = runs.iter().enumerate().map(reach_of).collect();
    let mut awaits_decay = false;
    for (_, job, pool) in order {
        if let (Some(ledger), Some(run), false) = (&shared.ledger, runs.get(pool), awaits_decay) {
            awaits_decay = run.policy.interval_ms.is_some() && ledger.awaits_decay(run.workload, job, now);
        }
        if let (Some(run), Some(Some(walk))) = (runs.get_mut(pool), walks.get_mut(pool)) {
            if reach[pool] == 0 {
                run.queue.insert(job);
                continue;
            }
            reach[pool] -= 1;
            shared.lent(run, |run| run.look_at(walk, job))?;
        }
    }
    let mut stopped = false;
    for walk in walks.iter().flatten() {
        stopped |= walk.has_stopped();
    }
    Ok(Decided { stopped, awaits_decay })
}

impl Run<'_> {
    /// The limit of its QOS or account that keeps a job from starting now. O(depth of the accounts).
    pub(crate) fn over_limit(&self, job: u32) -> Option<Refusal> {
        self.ledger.as_ref().and_then(|ledger| ledger.refusal(self.workload, job, self.now))
    }

    /// Whether the pools are replayed together.
    pub(crate) fn is_joint(&self) -> bool {
        self.ledger.is_some()
    }

    /// Updates the expected ends that all pools share: removes one, and adds one.
    pub(super) fn expect_everywhere(&mut self, no_more: Option<(i64, u32)>, now: Option<(i64, u32)>) {
        if self.is_joint() {
            if let Some(expected) = no_more {
                self.all_expected.remove(&expected);
            }
            self.all_expected.extend(now);
        }
    }

    /// Running jobs of other pools, with their expected ends; none without limits, where pools know nothing of each other.
    pub(crate) fn expected_elsewhere(&self) -> impl Iterator<Item = (i64, u32)> {
        let is_elsewhere = |job: u32| {
            let vc = self.workload.vc.get(job as usize).and_then(|vc| self.cluster.vcs.get(usize::from(*vc)));
            self.is_joint() && vc.is_some_and(|vc| usize::from(vc.pool) != self.pool)
        };
        self.all_expected.iter().copied().filter(move |(_, job)| is_elsewhere(*job))
    }

    /// Whether a job is rejected for a limit that it is over by itself.
    pub(super) fn is_denied(&self, job: u32) -> bool {
        self.cluster.limits.as_ref().is_some_and(|limits| limits.alone(self.workload, job).1)
    }

    /// A job joins the queue, unless it is held: over a limit by itself.
    pub(super) fn join(&mut self, job: u32) {
        let held = self.cluster.limits.as_ref().is_some_and(|limits| limits.alone(self.workload, job).0.is_some());
        if !held {
            self.queue_join(job);
            self.queue.insert(job);
        }
    }
}
