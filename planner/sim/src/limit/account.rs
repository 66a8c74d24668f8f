//! Accounts as a tree, and the users in them: limits that bind all that is charged to a branch.
//!
//! Slurm calls each of them an *association*: an account, or a user in an account, maybe in one partition alone. A job has one, and counts for it and for all above it, up to the root.
//! A limit of a group (`Grp…`) binds everything at and below its association, so each on the path of a job must allow it. A limit of a job or of a user (`Max…`) is that of the nearest association on the path
//! that sets it; `MaxJobs` counts what runs of the job's own association, whoever set the number.
//!
//! Worked number: account `dept` has 10 GPUs (`GrpTRES`) and `MaxJobs=2`, and its child `nlp` 6. With 4 GPUs of nlp and 5 of another child at work, a job of nlp of 2 GPUs is over the limit of dept (11), though
//! nlp would have 6; one of 1 GPU may start, unless its user has two jobs in nlp at work.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Most associations.
const MOST: usize = 1_000_000;

/// Shares of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fairshare {
    /// The shares of the account above (`Fairshare=parent`).
    Parent,
    /// A number of shares, beside those of the siblings.
    Of(u32),
}

impl Default for Fairshare {
    fn default() -> Self {
        Self::Of(1)
    }
}

/// An account, or a user in one. What is `None` is not limited here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Association {
    /// Name in answers: the account, or account/user, or account/user/partition.
    pub name: String,
    /// The one above, which stands before it; `None` for a root.
    pub parent: Option<u32>,
    /// GPUs of all jobs at and below it at work (`GrpTRES`), thousandths.
    pub group_milli: Option<u64>,
    /// Jobs at and below it at work (`GrpJobs`).
    pub group_jobs: Option<u32>,
    /// GPU time that the running jobs at and below it may still take by their time limits (`GrpTRESRunMins`), thousandths of a GPU-minute.
    pub group_time_milli: Option<u64>,
    /// Jobs at work of a job's own association (`MaxJobs`).
    pub jobs: Option<u32>,
    /// GPUs of one job (`MaxTRESPerJob`), thousandths.
    pub job_milli: Option<u64>,
    /// Time limit of one job (`MaxWall`), milliseconds.
    pub wall_ms: Option<i64>,
    /// GPU time that all jobs at and below it may have used (`GrpTRESMins`), thousandths of a GPU-minute.
    pub used_milli: Option<u64>,
    /// Time for which all jobs at and below it may have run, each counted alone (`GrpWall`), milliseconds.
    pub used_wall_ms: Option<i64>,
    /// Whether the association is a user's, and not an account.
    pub is_user: bool,
    /// Shares beside those of the siblings (`Fairshare`).
    pub shares: Fairshare,
}

/// Limits that an association has from the nearest that sets them, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Inherited {
    pub(super) jobs: Option<(u32, u32)>,
    pub(super) job_milli: Option<(u32, u64)>,
    pub(super) wall_ms: Option<(u32, i64)>,
}

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tree {
    associations: Vec<Association>,
    inherited: Vec<Inherited>,
}

impl Tree {
    /// Builds a tree of associations that stand behind the one above them. O(n).
    pub(super) fn new(associations: Vec<Association>) -> Result<Self> {
        if associations.len() > MOST {
            return Err(Error::Cluster(format!(
                "there are {} associations; at most {MOST} can be replayed",
                associations.len()
            )));
        }
        let mut inherited: Vec<Inherited> = Vec::with_capacity(associations.len());
        for (at, own) in (0u32..).zip(&associations) {
            let above = match own.parent {
                None => Inherited::default(),
                Some(parent) => *inherited.get(parent as usize).ok_or_else(|| {
                    Error::Cluster(format!("the association {} stands before the one above it", own.name))
                })?,
            };
            // The same number again is no limit of one's own: sacctmgr prints what is inherited at every user.
            fn nearest<T: Copy + PartialEq>(at: u32, own: Option<T>, above: Option<(u32, T)>) -> Option<(u32, T)> {
                let own = own.filter(|own| above.is_none_or(|(_, above)| above != *own));
                own.map(|own| (at, own)).or(above)
            }
            inherited.push(Inherited {
                jobs: nearest(at, own.jobs, above.jobs),
                job_milli: nearest(at, own.job_milli, above.job_milli),
                wall_ms: nearest(at, own.wall_ms, above.wall_ms),
            });
        }
        Ok(Self { associations, inherited })
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Association] {
        &self.associations
    }

    /// Returns the limits that an association has from the nearest that sets them.
    pub(super) fn inherited(&self, at: Option<u32>) -> Inherited {
        at.and_then(|at| self.inherited.get(at as usize)).copied().unwrap_or_default()
    }

    /// The account that an association is, or is below.
    pub(super) fn account_of(&self, at: Option<u32>) -> Option<u32> {
        self.path(at).find(|(_, of)| !of.is_user).map(|(at, _)| at)
    }

    /// An association and all above it.
    pub(super) fn path(&self, at: Option<u32>) -> impl Iterator<Item = (u32, &Association)> {
        let of = |at: u32| Some((at, self.associations.get(at as usize)?));
        std::iter::successors(at.and_then(of), move |(_, last)| last.parent.and_then(of))
    }
}

/// GPU time that running jobs may still take by their time limits. A job beyond its limit takes none.
#[derive(Debug, Clone, Default)]
pub(super) struct Remaining {
    /// Amounts of the jobs, by the end of their limits.
    ends: BTreeMap<(i64, u32), u64>,
    /// Σ amount.
    milli: i128,
    /// Σ amount × end of the limit.
    weighted: i128,
}

impl Remaining {
    /// A job runs whose limit ends then. O(log n).
    pub(super) fn start(&mut self, job: u32, end_ms: i64, milli: u64) {
        self.ends.insert((end_ms, job), milli);
        self.milli += i128::from(milli);
        self.weighted += i128::from(milli) * i128::from(end_ms);
    }

    /// Removes a job that runs no more. O(log n).
    pub(super) fn stop(&mut self, job: u32, end_ms: i64) {
        if let Some(milli) = self.ends.remove(&(end_ms, job)) {
            self.milli -= i128::from(milli);
            self.weighted -= i128::from(milli) * i128::from(end_ms);
        }
    }

    /// Thousandths of a GPU × milliseconds, at a moment. O(log n + jobs beyond their limits).
    pub(super) fn at(&self, now_ms: i64) -> i128 {
        let beyond = self.ends.range(..=(now_ms, u32::MAX));
        let beyond: i128 = beyond.map(|((end_ms, _), milli)| i128::from(*milli) * i128::from(now_ms - end_ms)).sum();
        self.weighted - self.milli * i128::from(now_ms) + beyond
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 4 GPUs until 100 s and 1 GPU until 20 s: 420 GPU-s at 0 s, 280 at 30 s (the second is beyond its limit), 0 at 100 s.
    #[test]
    fn gpu_time_that_is_left() {
        let mut left = Remaining::default();
        left.start(0, 100_000, 4_000);
        left.start(1, 20_000, 1_000);
        let at = |left: &Remaining, second: i64| left.at(second * 1000) / 1_000_000;
        assert_eq!([0, 10, 20, 30, 100, 200].map(|second| at(&left, second)), [420, 370, 320, 280, 0, 0]);
        left.stop(0, 100_000);
        assert_eq!((at(&left, 10), at(&left, 30)), (10, 0));
    }

    #[test]
    fn the_nearest_limit_counts_and_the_same_number_is_no_other() {
        let of = |parent, jobs, job_milli| Association { parent, jobs, job_milli, ..Association::default() };
        let tree = Tree::new(vec![
            of(None, Some(4), Some(8_000)),
            of(Some(0), Some(2), None),
            of(Some(1), Some(2), Some(8_000)),
            of(Some(1), None, Some(1_000)),
        ])
        .unwrap();
        let result = |at| (tree.inherited(Some(at)).jobs, tree.inherited(Some(at)).job_milli);
        assert_eq!(result(2), (Some((1, 2)), Some((0, 8_000))));
        assert_eq!(result(3), (Some((1, 2)), Some((3, 1_000))));
        assert_eq!(tree.path(Some(3)).map(|(at, _)| at).collect::<Vec<_>>(), [3, 1, 0]);
        assert_eq!(tree.path(None).count() + tree.path(Some(9)).count(), 0);
        assert!(Tree::new(vec![of(Some(1), None, None), of(None, None, None)]).is_err());
    }
}
