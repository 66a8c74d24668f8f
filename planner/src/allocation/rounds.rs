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
//! **Room**: without nodes, a gang fits if as many GPUs of the type are free. With nodes of k GPUs (the last may be smaller), gangs are put onto nodes anew each round, the largest first: a gang of k or more takes whole
//! nodes, and what is left of it, or a smaller gang, goes onto the first node with room for it. A gang that does not fit so does not fit.
//!
//! O(pairs · log pairs) a round. Worked example: two jobs with shares of 0.75 and 0.25 of one GPU have it in the order a, b, a, a, a, b, a, a.

use std::cmp::Ordering;

/// A share below this is none.
const LEAST_SHARE: f64 = 1e-6;

/// A job that may have a round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundJob<'a> {
    /// Its number, in order of submission.
    pub job: usize,
    /// GPUs of the gang.
    pub gpus: u32,
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

/// GPUs of each type, and how many a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangRoom {
    /// GPUs of each type.
    pub gpus: Vec<u32>,
    /// GPUs of a node, `None` if gangs may lie anywhere.
    pub per_node: Option<u32>,
}

/// Room of which gangs have taken some.
#[derive(Debug)]
pub(super) struct OpenRoom<'a> {
    room: &'a GangRoom,
    free: Vec<u32>,
    gangs: Vec<Vec<u32>>,
}

impl GangRoom {
    /// With nobody in it.
    pub(super) fn open(&self) -> OpenRoom<'_> {
        OpenRoom { room: self, free: self.gpus.clone(), gangs: vec![Vec::new(); self.gpus.len()] }
    }

    /// GPUs of a node of a type; none where gangs may lie anywhere in it.
    fn per_node(&self, at: usize) -> Option<u32> {
        self.per_node.filter(|per_node| self.gpus.get(at).is_some_and(|gpus| per_node < gpus))
    }

    /// Whether gangs of these sizes fit on a type together.
    pub fn fits(&self, at: usize, gangs: &[u32]) -> bool {
        let gpus = self.gpus.get(at).copied().unwrap_or(0);
        let Some(per_node) = self.per_node(at) else {
            return gangs.iter().sum::<u32>() <= gpus;
        };
        let mut nodes = vec![per_node; (gpus / per_node) as usize];
        nodes.extend((gpus % per_node > 0).then_some(gpus % per_node));
        let mut gangs = gangs.to_vec();
        gangs.sort_unstable_by(|a, b| b.cmp(a));
        gangs.into_iter().all(|gang| {
            let mut left = gang;
            for node in nodes.iter_mut().filter(|node| **node == per_node) {
                if left < per_node {
                    break;
                }
                *node = 0;
                left -= per_node;
            }
            let room = if left >= per_node { None } else { nodes.iter_mut().find(|node| **node >= left) };
            room.is_some_and(|node| {
                *node -= left;
                true
            }) || left == 0
        })
    }
}

impl OpenRoom<'_> {
    /// Lets a gang onto a type, if it fits there beside those that are there.
    pub(super) fn take(&mut self, at: usize, gpus: u32) -> bool {
        let (Some(gangs), Some(free)) = (self.gangs.get_mut(at), self.free.get_mut(at)) else { return false };
        if *free < gpus {
            return false;
        }
        if self.room.per_node(at).is_some() {
            gangs.push(gpus);
            if !self.room.fits(at, gangs) {
                gangs.pop();
                return false;
            }
        }
        *free -= gpus;
        true
    }

    /// The types on which a job runs, by its speeds: the fastest first, or the one with most free GPUs; equals in their order.
    pub(super) fn types(&self, speeds: &[f64], fastest: bool) -> Vec<usize> {
        let worth = |at: &usize| {
            if fastest {
                speeds.get(*at).copied().unwrap_or(0.0)
            } else {
                f64::from(self.free.get(*at).copied().unwrap_or(0))
            }
        };
        let runs = |at: &usize| speeds.get(*at).is_some_and(|speed| *speed > 0.0);
        let mut types: Vec<usize> = (0..self.free.len()).filter(runs).collect();
        types.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.cmp(b)));
        types
    }
}

/// The type that each job has in the round that begins.
pub fn choose(jobs: &[RoundJob<'_>], credit: &Credit, room: &GangRoom, knows_types: bool) -> Vec<Option<usize>> {
    let mut given: Vec<Option<usize>> = vec![None; jobs.len()];
    let mut open = room.open();
    for (place, at) in pairs(jobs, credit) {
        let (Some(job), Some(slot)) = (jobs.get(place), given.get_mut(place)) else { continue };
        if slot.is_none() && open.take(at, job.gpus) {
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
        *slot = open.types(job.speeds, knows_types).into_iter().find(|at| open.take(*at, job.gpus));
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
