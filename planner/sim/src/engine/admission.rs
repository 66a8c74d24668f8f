//! State of Kueue's admission: the use of each flavor by each queue, and the jobs that were set
//! aside.
//!
//! In a queue with a half-life of usage it keeps what each user has used there, too: GPU time that decays, as under the order by fair share.
//!
//! O(depth of the tree + log users) for a start or an end. Worked number: of 9 GPUs of its own a queue uses 4; a job of 6 is admitted only if its cohort lends 1.

use std::collections::BTreeMap;

use super::Run;
use crate::cohort::{Cohorts, Usage};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::spent::Spent;

/// No flavor.
const NONE: u16 = u16::MAX;

/// The state of quotas in a replay.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) cohorts: &'a Cohorts,
    pub(crate) usage: Usage,
    /// Flavor of each job that runs or is about to.
    flavor: Vec<u16>,
    /// Jobs that were found inadmissible; they are looked at again once something has been given back.
    aside: Vec<bool>,
    given_back: bool,
    /// Usage of each user in each queue that goes by it.
    spent: BTreeMap<(u16, u32), Spent>,
}

impl<'a> Admission<'a> {
    pub(super) fn new(cohorts: &'a Cohorts, jobs: usize) -> Self {
        let (flavor, aside) = (vec![NONE; jobs], vec![false; jobs]);
        Self { cohorts, usage: cohorts.unused(), flavor, aside, given_back: false, spent: BTreeMap::new() }
    }

    /// The flavor that a running job has.
    pub(crate) fn flavor_of(&self, job: u32) -> Option<u16> {
        self.flavor.get(job as usize).copied().filter(|flavor| *flavor != NONE)
    }

    /// Says which flavor a job is about to have.
    pub(crate) fn choose(&mut self, job: u32, flavor: u16) {
        if let Some(chosen) = self.flavor.get_mut(job as usize) {
            *chosen = flavor;
        }
    }

    /// A job is looked at no more until something is given back.
    pub(crate) fn set_aside(&mut self, job: u32) {
        if let Some(aside) = self.aside.get_mut(job as usize) {
            *aside = true;
        }
    }

    /// Marks that something was given back or changed: jobs that were set aside are looked at
    /// again.
    pub(crate) fn gives_back(&mut self) {
        self.given_back = true;
    }

    /// Takes up again who was set aside, if something was given back since the last call. O(jobs).
    pub(crate) fn refresh(&mut self, waiting: &[u32]) {
        if std::mem::take(&mut self.given_back) {
            for job in waiting {
                if let Some(aside) = self.aside.get_mut(*job as usize) {
                    *aside = false;
                }
            }
        }
    }

    /// Whether a job was set aside.
    pub(crate) fn is_aside(&self, job: u32) -> bool {
        self.aside.get(job as usize).copied().unwrap_or(false)
    }

    /// A user holds `held` thousandths of a GPU more in a queue from `now`.
    fn spend(&mut self, (queue, user): (u16, u32), held: i64, now: i64) {
        let rules = self.cohorts.rules().get(usize::from(queue));
        if let Some(half_life_ms) = rules.and_then(|rules| rules.usage_half_life_ms) {
            self.spent.entry((queue, user)).or_default().change(now, Some(half_life_ms), held);
        }
    }

    /// Returns the first key of the jobs of a queue: their user's usage there; the same for all
    /// where the queue does not go by it.
    pub(crate) fn usage_key(&self, queue: u16, user: u32, now: i64) -> Key {
        let rules = self.cohorts.rules().get(usize::from(queue));
        let Some(half_life_ms) = rules.and_then(|rules| rules.usage_half_life_ms) else { return Key(0) };
        Key::new(self.spent.get(&(queue, user)).map_or(0.0, |spent| spent.at(now, Some(half_life_ms))))
    }

    /// A job of `queue` starts with `amount` of its flavor.
    pub(super) fn start(&mut self, job: u32, (queue, user): (u16, u32), amount: u64, now: i64) -> Result<()> {
        let Some(flavor) = self.flavor_of(job) else {
            return Err(Error::Action(format!("job {job} starts without a flavor")));
        };
        if !self.cohorts.allows(&self.usage, queue, flavor, amount) {
            return Err(Error::Action(format!("job {job} starts over the quota of its queue or cohort")));
        }
        self.cohorts.add(&mut self.usage, queue, flavor, amount);
        self.spend((queue, user), amount.cast_signed(), now);
        Ok(())
    }

    /// Gives back what a job held that stops.
    pub(super) fn stop(&mut self, job: u32, (queue, user): (u16, u32), amount: u64, now: i64) {
        if let Some(flavor) = self.flavor_of(job) {
            self.cohorts.remove(&mut self.usage, queue, flavor, amount);
            self.spend((queue, user), -amount.cast_signed(), now);
        }
        self.choose(job, NONE);
    }
}

impl Run<'_> {
    /// Whether a job can have GPUs of a flavor: it wants their type, or no certain one.
    pub(crate) fn has_flavor(&self, job: u32, flavor: u16) -> bool {
        self.admission.as_ref().is_some_and(|admission| admission.cohorts.suits(flavor, self.shape(job).gpu_type))
    }

    /// A job's priority; 0 where none is known.
    pub(crate) fn priority(&self, job: u32) -> i32 {
        self.workload.priority.get(job as usize).copied().unwrap_or(0)
    }

    /// A job's user; 0 where none is known.
    pub(super) fn user(&self, job: u32) -> u32 {
        self.workload.user.get(job as usize).copied().unwrap_or(0)
    }

    /// Returns the first key of a job in its queue under Kueue's admission.
    pub(crate) fn usage_key(&self, job: u32) -> Key {
        let queue = self.workload.vc.get(job as usize).copied().unwrap_or(0);
        let key = |admission: &Admission<'_>| admission.usage_key(queue, self.user(job), self.now);
        self.admission.as_ref().map_or(Key(0), |admission| key(admission))
    }

    /// Lets jobs that were set aside be looked at again, once something was given back or changed.
    pub(super) fn admission_gives_back(&mut self) {
        if let Some(admission) = &mut self.admission {
            admission.gives_back();
        }
    }
}
