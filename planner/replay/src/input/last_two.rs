//! Predictions that need no fitting: the mean of the last two runs alike.
//!
//! A job is predicted to run as long as the mean of the last two runs of the same user and job name that had ended before it was submitted (Tsafrir,
//! Etsion and Feitelson, TPDS 18(6), 2007), else of the user, else the mean of all, else an hour. Nothing that comes later is known.
//!
//! Worked number: a user's runs of 100 s and 300 s ended before 10:00, one of 900 s at 10:05. A job of 10:01 is predicted to run 200 s.

use std::collections::HashMap;

use tracecast_analytics::facts::JobFacts;

use super::Loaded;

/// Predicted run of a job of which nothing is known, seconds.
const UNKNOWN_S: f64 = 3_600.0;

/// The last two runs of a key.
#[derive(Default, Clone, Copy)]
struct Last {
    runs: [f64; 2],
    count: usize,
}

impl Last {
    fn add(&mut self, run_s: f64) {
        self.runs = [self.runs[1], run_s];
        self.count += 1;
    }

    fn mean(&self) -> Option<f64> {
        match self.count {
            0 => None,
            1 => Some(self.runs[1]),
            _ => Some(f64::midpoint(self.runs[0], self.runs[1])),
        }
    }
}

/// Predicts the run of each job, seconds, from runs that had ended before it was submitted. O(jobs
/// log jobs).
pub fn last_two(facts: &JobFacts<'_>, loaded: &Loaded) -> Vec<Option<f64>> {
    let submissions = loaded.rows.iter().zip(&loaded.workload.submit_ms);
    let submissions = submissions.map(|(row, submit)| (*row as usize, loaded.workload.origin_ms + submit));
    last_two_of(facts, submissions).into_iter().map(Some).collect()
}

/// Predicts the run of each job, seconds, from rows and submissions, milliseconds since the Unix
/// epoch, in order of submission.
pub fn last_two_of(facts: &JobFacts<'_>, submissions: impl Iterator<Item = (usize, i64)>) -> Vec<f64> {
    let jobs = &facts.trace.jobs;
    let mut ended: Vec<(i64, usize)> = (0..facts.len())
        .filter(|row| !facts.is_censored(*row) && facts.run_s(*row).is_some())
        .filter_map(|row| Some((jobs.end.get(row)?, row)))
        .collect();
    ended.sort_unstable();
    let key = |row: usize| (jobs.user.code(row), jobs.name.code(row));
    let mut by_name: HashMap<(Option<u32>, Option<u32>), Last> = HashMap::new();
    let mut by_user: HashMap<Option<u32>, Last> = HashMap::new();
    let (mut total, mut count) = (0.0, 0u64);
    let mut next = 0;
    let mut out = Vec::new();
    for (row, now) in submissions {
        while let Some((_, row)) = ended.get(next).filter(|(end, _)| *end <= now) {
            let run_s = facts.run_s(*row).unwrap_or(0.0);
            by_name.entry(key(*row)).or_default().add(run_s);
            by_user.entry(jobs.user.code(*row)).or_default().add(run_s);
            total += run_s;
            count += 1;
            next += 1;
        }
        let named = by_name.get(&key(row)).and_then(Last::mean);
        let user = || by_user.get(&jobs.user.code(row)).and_then(Last::mean);
        let all = || (count > 0).then(|| total / count as f64);
        out.push(named.or_else(user).or_else(all).unwrap_or(UNKNOWN_S));
    }
    out
}
