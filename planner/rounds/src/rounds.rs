//! From shares of time to rounds: who has which GPU type in the round that begins.
//!
//! GPUs are given for a round at a time, whole gangs of one type, so that over rounds each job comes to its share (Gavel's mechanism, Narayanan et al., OSDI 2020, section 5). The contract:
//!
//! 1. **Types** are served one after the other. If the policy knows types, the one on which the jobs that are there are fastest comes first (by the mean of
//!    their speeds on it over the speeds on their fastest types; equals as they are named). If it knows none, they come as they are named, and each round begins
//!    with another one.
//! 2. On a type, the jobs that run on it and have no other in this round come in order of **priority**: the share of the type over half a round more than the rounds
//!    that the job had on it since the allocation was made. Ties go to the greater **deficit** (shares of the type in all rounds so far less rounds had on it, kept
//!    from allocation to allocation), then to the greater share, then to the job submitted first. So jobs without a share of the type come last, and take what is left.
//! 3. A job is passed over if the type has no room for its gang.
//! 4. The round counts as had for whoever has a type in it, also if the job ends within.
//!
//! What fits says [`super::room`]. No GPU stays idle on which a job without one would fit.
//!
//! The order of types, the half round and what is left over are as Gavel's simulator has them, which draws the order of types where a policy knows none.
//!
//! O(types · jobs log jobs) a round. Worked example: two jobs with shares of 0.75 and 0.25 of one GPU have it in the order a, b, a, a, a, b, a, a.

use std::cmp::Ordering;

use super::node::Gang;
use super::room::GangRoom;

/// A share below this is none.
const LEAST_SHARE: f64 = 1e-6;

/// A job that may have a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundJob<'a> {
    /// Number of the job, in order of submission.
    pub job: usize,
    /// GPUs of the gang, and what it needs of nodes.
    pub gang: Gang,
    /// Steps a second on each type, 0 where it does not run.
    pub speeds: &'a [f64],
    /// Shares of time on each type.
    pub shares: &'a [f64],
}

/// Rounds that jobs have had, by job and type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credit {
    had: Vec<Vec<u32>>,
    deficit: Vec<Vec<f64>>,
    rounds: usize,
}

impl Credit {
    /// Nothing, for so many jobs and types.
    pub fn new(jobs: usize, types: usize) -> Self {
        Self { had: vec![vec![0; types]; jobs], deficit: vec![vec![0.0; types]; jobs], rounds: 0 }
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

    /// Counts a round.
    pub fn count(&mut self, jobs: &[RoundJob<'_>], given: &[Option<usize>]) {
        self.rounds += 1;
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
    for at in types_in_turn(jobs, credit, room.gpus.len(), knows_types) {
        for place in jobs_in_turn(jobs, credit, at) {
            let (Some(job), Some(slot)) = (jobs.get(place), given.get_mut(place)) else { continue };
            if slot.is_none() && open.take(at, job.gang) {
                *slot = Some(at);
            }
        }
    }
    given
}

/// The types in the order in which they are served.
fn types_in_turn(jobs: &[RoundJob<'_>], credit: &Credit, types: usize, knows_types: bool) -> Vec<usize> {
    let mut result: Vec<usize> = (0..types).collect();
    if knows_types {
        let part = |job: &RoundJob<'_>, at: usize| {
            let fastest = job.speeds.iter().copied().fold(0.0, f64::max);
            job.speeds.get(at).map_or(0.0, |speed| speed / fastest)
        };
        let speeds: Vec<f64> = result.iter().map(|at| jobs.iter().map(|job| part(job, *at)).sum()).collect();
        let speed = |at: &usize| speeds.get(*at).copied().unwrap_or(0.0);
        result.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
    } else if types > 0 {
        result.rotate_left(credit.rounds % types);
    }
    result
}

/// Places of the jobs that run on a type, in the order in which they are served there.
fn jobs_in_turn(jobs: &[RoundJob<'_>], credit: &Credit, at: usize) -> Vec<usize> {
    let of = |(place, job): (usize, &RoundJob<'_>)| {
        job.speeds.get(at).filter(|speed| **speed > 0.0)?;
        let share = job.shares.get(at).copied().filter(|share| *share > LEAST_SHARE).unwrap_or(0.0);
        let priority = share / (f64::from(credit.had(job.job, at)) + 0.5);
        Some(([priority, credit.deficit(job.job, at), share], place))
    };
    let mut result: Vec<([f64; 3], usize)> = jobs.iter().enumerate().filter_map(of).collect();
    let first = |a: &[f64; 3], b: &[f64; 3]| {
        b.iter().zip(a).map(|(b, a)| b.total_cmp(a)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    result.sort_by(|(a, _), (b, _)| first(a, b));
    result.into_iter().map(|(_, place)| place).collect()
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
