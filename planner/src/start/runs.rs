//! What runs of jobs alike came to, as far as they had ended: from which the run of a job is drawn, given how long it has run already.
//!
//! A job is drawn from the last `WINDOW` runs of its user and size; where fewer than `LEAST` of these lasted longer than it has run already, from those of its user, then of its size,
//! then of all. Where nothing lasted longer and there is a time limit, runs are spread evenly up to that. Later runs count for more: one has half the weight of one that is `HALF` runs later. Without a limit, what is left is as long as what it has run, divided by a
//! number drawn evenly between 0 and 1 (a tail of index one). A run is never longer than its time limit.
//!
//! **Jobs alike run alike.** What a user submits today is often the same thing, so their runs are drawn together: the number that draws a job is Φ(√ρ·z + √(1 − ρ)·x), with z of its user and size in this
//! draw and x its own, both standard normal, and ρ `ALIKE`. Drawn apart, a queue of a hundred would be far too sure of how long it takes.
//!
//! O(WINDOW log WINDOW) a job. Worked number: of runs of 60, 100 and 300 s, a job that has run 80 s has those of 100 and 300 s before it.

use std::collections::{BTreeMap, VecDeque};

use crate::sim::Workload;

/// Runs kept of a group.
const WINDOW: usize = 200;
/// Runs after which one counts for half.
const HALF: f64 = 20.0;
/// Fewest runs to draw from.
const LEAST: usize = 5;
/// Most times that a run may last of what it has run already, where nothing lasted longer.
const LONGEST: f64 = 20.0;
/// How much of a run is that of all jobs alike in a draw.
pub const ALIKE: f64 = 0.5;

/// A job, as far as its run is told by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Like {
    /// Its user.
    pub user: u32,
    /// What it asks for, thousandths of a GPU.
    pub amount: u64,
}

/// Kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    UserAndSize(u32, u64),
    User(u32),
    Size(u64),
    All,
}

impl Like {
    /// Of a job of a workload.
    pub fn new(workload: &Workload, job: u32) -> Self {
        let user = workload.user.get(job as usize).copied().unwrap_or_default();
        Self { user, amount: workload.shape_of(job as usize).amount() }
    }

    fn groups(self) -> [Group; 4] {
        [Group::UserAndSize(self.user, self.amount), Group::User(self.user), Group::Size(self.amount), Group::All]
    }
}

/// Runs that have ended.
#[derive(Debug, Clone, Default)]
pub struct PastRuns {
    of: BTreeMap<Group, VecDeque<f64>>,
}

/// Runs that a job may come to, seconds, rising, with the weight of each and those before it; all longer than what it has run already.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsAhead {
    runs_s: Vec<(f64, f64)>,
    elapsed_s: f64,
    limit_s: f64,
    /// How often it runs, one run after the other.
    times: u32,
}

impl PastRuns {
    /// Takes in a run that has ended, seconds.
    pub fn learn(&mut self, like: Like, run_s: f64) {
        for group in like.groups() {
            let runs = self.of.entry(group).or_default();
            if runs.len() == WINDOW {
                runs.pop_front();
            }
            runs.push_back(run_s);
        }
    }

    /// Runs that a job may come to that has run `elapsed_s` (0 of one that waits), within its limit.
    pub fn ahead(&self, like: Like, elapsed_s: f64, limit_s: Option<f64>) -> RunsAhead {
        let longer = |group: Group| -> Vec<(f64, f64)> {
            let runs = self.of.get(&group).into_iter().flatten().rev().enumerate();
            runs.filter(|(_, run)| **run > elapsed_s).map(|(ago, run)| (*run, (-(ago as f64) / HALF).exp2())).collect()
        };
        let mut found = Vec::new();
        for group in like.groups() {
            let runs = longer(group);
            if runs.len() > found.len() {
                found = runs;
            }
            if found.len() >= LEAST {
                break;
            }
        }
        match limit_s {
            Some(limit_s) if found.is_empty() => RunsAhead::within(elapsed_s, limit_s),
            _ => RunsAhead::new(found, elapsed_s, limit_s.unwrap_or(f64::INFINITY).max(elapsed_s)),
        }
    }
}

impl RunsAhead {
    fn new(mut runs_s: Vec<(f64, f64)>, elapsed_s: f64, limit_s: f64) -> Self {
        runs_s.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut sum = 0.0;
        for (_, weight) in &mut runs_s {
            sum += *weight;
            *weight = sum;
        }
        Self { runs_s, elapsed_s, limit_s, times: 1 }
    }

    /// Runs spread evenly up to a limit, for jobs of which nothing but that is known.
    pub fn within(elapsed_s: f64, limit_s: f64) -> Self {
        let limit_s = limit_s.max(elapsed_s + 1.0);
        let steps = 20u32;
        let run = |step: u32| elapsed_s + (limit_s - elapsed_s) * f64::from(step) / f64::from(steps);
        Self::new((1..=steps).map(|step| (run(step), 1.0)).collect(), elapsed_s, limit_s)
    }

    /// So many of these runs, one after the other.
    #[must_use]
    pub fn repeated(self, times: u32) -> Self {
        Self { times: times.max(1), ..self }
    }

    /// What is left of the run, seconds, for a number drawn evenly between 0 and 1.
    pub fn left_s(&self, drawn: f64) -> f64 {
        let whole = self.runs_s.last().map_or(0.0, |(_, weights)| *weights);
        let at = self.runs_s.partition_point(|(_, weights)| *weights < drawn * whole);
        let run = self.runs_s.get(at).or(self.runs_s.last()).map_or_else(
            || {
                let least = self.elapsed_s.max(60.0);
                (least / (1.0 - drawn).max(1.0 / LONGEST)).max(self.elapsed_s + 1.0)
            },
            |(run, _)| *run,
        );
        (run.min(self.limit_s) - self.elapsed_s).max(1.0) * f64::from(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Like = Like { user: 1, amount: 1000 };

    #[test]
    fn the_worked_number() {
        let mut past = PastRuns::default();
        [60.0, 100.0, 300.0].into_iter().for_each(|run| past.learn(ANN, run));
        let ahead = past.ahead(ANN, 80.0, None);
        assert_eq!([ahead.left_s(0.1), ahead.left_s(0.6)], [20.0, 220.0]);
        // Its limit ends it.
        assert!((past.ahead(ANN, 80.0, Some(150.0)).left_s(0.6) - 70.0).abs() < 1e-9);
        // Nothing lasted longer: it lasts as long again, at the median, or evenly up to its limit.
        assert!((past.ahead(ANN, 400.0, Some(600.0)).left_s(0.5) - 100.0).abs() < 1e-9);
        assert!((past.ahead(ANN, 400.0, None).left_s(0.5) - 400.0).abs() < 1e-9);
    }

    #[test]
    fn where_too_few_are_alike_wider_groups_tell() {
        let mut past = PastRuns::default();
        past.learn(ANN, 10.0);
        (0..5).for_each(|_| past.learn(Like { user: 2, amount: 1000 }, 50.0));
        assert!((past.ahead(ANN, 0.0, None).left_s(0.9) - 50.0).abs() < 1e-9);
        (0..4).for_each(|_| past.learn(ANN, 10.0));
        assert!((past.ahead(ANN, 0.0, None).left_s(0.9) - 10.0).abs() < 1e-9);
    }

    /// Of 20 short runs and then 20 long ones the long ones have two thirds of the weight.
    #[test]
    fn later_runs_count_for_more() {
        let mut past = PastRuns::default();
        (0..20).for_each(|_| past.learn(ANN, 10.0));
        (0..20).for_each(|_| past.learn(ANN, 1000.0));
        let ahead = past.ahead(ANN, 0.0, None);
        assert_eq!([ahead.left_s(0.32), ahead.left_s(0.34)], [10.0, 1000.0]);
    }
}
