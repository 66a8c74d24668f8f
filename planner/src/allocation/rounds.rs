//! From shares of time to rounds: who has which GPU type in the round that begins.
//!
//! GPUs are given for a round at a time, whole gangs of one type, so that over rounds each job comes to its share (Gavel's mechanism, Narayanan et al., OSDI 2020, section 5). The contract:
//!
//! 1. **Pairs** of a job and a type with a share above 10⁻⁶ are served in order of priority: the share over the rounds that the job had on that type since the allocation was made, infinite if it had
//!    none. Ties go to the pair with the greater **deficit** (shares of all rounds so far less rounds had, kept from allocation to allocation), then to the greater share, then to the job submitted first, then to the type named
//!    first.
//! 2. A pair is passed over if its job has a type already in this round, or the type has no room for the gang.
//! 3. Jobs that have no type then are looked at in order of their deficits over all types, the greatest first, then of submission. Each takes, of the types on which it runs and that have room, the fastest, or the one
//!    with most free GPUs if the policy knows no types; the first of equals.
//! 4. The round counts as had for whoever has a type in it, also if the job ends within.
//!
//! What fits says [`super::room`].
//!
//! O(pairs · log pairs) a round. Worked example: two jobs with shares of 0.75 and 0.25 of one GPU have it in the order a, b, a, a, a, b, a, a.

use std::cmp::Ordering;

use super::node::Gang;
use super::room::GangRoom;

/// A share below this is none.
const LEAST_SHARE: f64 = 1e-6;

/// A job that may have a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundJob<'a> {
    /// Its number, in order of submission.
    pub job: usize,
    /// GPUs of the gang, and what it needs of nodes.
    pub gang: Gang,
    /// Steps a second on each type, 0 where it does not run.
    pub speeds: &'a [f64],
    /// Its share of each type.
    pub shares: &'a [f64],
}

/// What jobs have had, by job and type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credit {
    had: Vec<Vec<u32>>,
    deficit: Vec<Vec<f64>>,
}

impl Credit {
    /// Nothing, for so many jobs and types.
    pub fn new(jobs: usize, types: usize) -> Self {
        Self { had: vec![vec![0; types]; jobs], deficit: vec![vec![0.0; types]; jobs] }
    }

    /// Begins a new allocation: rounds are counted from here, deficits stay.
    pub fn begin(&mut self) {
        self.had.iter_mut().for_each(|had| had.fill(0));
    }

    fn had(&self, job: usize, at: usize) -> u32 {
        self.had.get(job).and_then(|had| had.get(at)).copied().unwrap_or(0)
    }

    fn deficit(&self, job: usize, at: usize) -> f64 {
        self.deficit.get(job).and_then(|deficit| deficit.get(at)).copied().unwrap_or(0.0)
    }

    fn deficits(&self, job: usize) -> f64 {
        self.deficit.get(job).map_or(0.0, |deficit| deficit.iter().sum())
    }

    /// Counts a round.
    pub fn count(&mut self, jobs: &[RoundJob<'_>], given: &[Option<usize>]) {
        for (job, given) in jobs.iter().zip(given) {
            if let Some(deficit) = self.deficit.get_mut(job.job) {
                deficit.iter_mut().zip(job.shares).for_each(|(deficit, share)| *deficit += share);
                if let Some(slot) = given.and_then(|at| deficit.get_mut(at)) {
                    *slot -= 1.0;
                }
            }
            if let Some(slot) = given.and_then(|at| self.had.get_mut(job.job)?.get_mut(at)) {
                *slot += 1;
            }
        }
    }
}

/// The type that each job has in the round that begins.
pub fn choose(jobs: &[RoundJob<'_>], credit: &Credit, room: &GangRoom, knows_types: bool) -> Vec<Option<usize>> {
    let mut given: Vec<Option<usize>> = vec![None; jobs.len()];
    let mut open = room.open();
    for (place, at) in pairs(jobs, credit) {
        let (Some(job), Some(slot)) = (jobs.get(place), given.get_mut(place)) else { continue };
        if slot.is_none() && open.take(at, job.gang) {
            *slot = Some(at);
        }
    }
    let mut left: Vec<(f64, usize)> = jobs
        .iter()
        .enumerate()
        .filter(|(place, _)| given.get(*place) == Some(&None))
        .map(|(place, job)| (credit.deficits(job.job), place))
        .collect();
    left.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, place) in left {
        let (Some(job), Some(slot)) = (jobs.get(place), given.get_mut(place)) else { continue };
        *slot = open.types(job.speeds, knows_types).into_iter().find(|at| open.take(*at, job.gang));
    }
    given
}

/// Pairs of a job's place and a type, in the order in which they are served.
fn pairs(jobs: &[RoundJob<'_>], credit: &Credit) -> Vec<(usize, usize)> {
    struct Pair {
        priority: f64,
        deficit: f64,
        share: f64,
        place: usize,
        at: usize,
    }
    let mut found: Vec<Pair> = Vec::new();
    for (place, job) in jobs.iter().enumerate() {
        for (at, share) in job.shares.iter().enumerate().filter(|(_, share)| **share > LEAST_SHARE) {
            let had = credit.had(job.job, at);
            let priority = if had == 0 { f64::INFINITY } else { share / f64::from(had) };
            found.push(Pair { priority, deficit: credit.deficit(job.job, at), share: *share, place, at });
        }
    }
    let first = |a: &Pair, b: &Pair| -> Ordering {
        b.priority
            .total_cmp(&a.priority)
            .then(b.deficit.total_cmp(&a.deficit))
            .then(b.share.total_cmp(&a.share))
            .then((a.place, a.at).cmp(&(b.place, b.at)))
    };
    found.sort_by(first);
    found.into_iter().map(|pair| (pair.place, pair.at)).collect()
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
