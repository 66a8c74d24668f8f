//! Jobs as they were known at a moment, for a plan that is made then. A job is known once it has
//! started, and its run is known up to that moment.
//!
//! What a scheduler saw is more: jobs that wait, too, though not how long they will run.
//!
//! O(n log n). Worked number: a job submitted at 0 s that ran from 50 s to 150 s is, at 100 s, one that ran 50 s and whose end nobody knows.

use std::collections::BTreeSet;

use super::Loaded;
use tracecast_sim::Workload;

/// The run of a job as it is known at a moment, and whether it had ended by then; `None` if the job had not started. `submit_and_start` are when it was submitted and
/// started, and its run is counted from `begun`. O(1).
pub fn run_known_at(now: i64, submit_and_start: [i64; 2], begun: i64, run: i64) -> Option<(i64, bool)> {
    let started = submit_and_start.into_iter().all(|at| at < now);
    started.then(|| if begun + run > now { ((now - begun).max(0), false) } else { (run, true) })
}

impl Loaded {
    /// The jobs as they are known at a moment: those that had started by then, their runs cut off there.
    pub fn known_at(&self, now: i64) -> Workload {
        self.jobs_known_at(now, false).1
    }

    /// Keeps the jobs of [`Loaded::known_at`], with everything else that is loaded of them.
    #[must_use]
    pub fn as_known_at(mut self, now: i64) -> Self {
        fn of<T: Clone>(values: &[T], jobs: &[u32]) -> Vec<T> {
            jobs.iter().filter_map(|job| values.get(*job as usize).cloned()).collect()
        }
        let (jobs, known) = self.jobs_known_at(now, false);
        (self.rows, self.keys) = (of(&self.rows, &jobs), of(&self.keys, &jobs));
        self.recorded_start_ms = of(&self.recorded_start_ms, &jobs);
        self.workload = known;
        self
    }

    /// Returns the jobs of [`Loaded::known_at`] and those that wait at the moment, with the starts
    /// of all by then. A job that waits has none, and would run until that moment if it had
    /// started; like those that run, it is not counted.
    pub fn seen_at(&self, now: i64) -> (Workload, Vec<Option<i64>>) {
        let (jobs, seen) = self.jobs_known_at(now, true);
        let start =
            |job: &u32| self.recorded_start_ms.get(*job as usize).copied().flatten().filter(|start| *start < now);
        (seen, jobs.iter().map(start).collect())
    }

    /// Returns the known jobs by index and as a workload; with those that are `waiting`, or
    /// without.
    fn jobs_known_at(&self, now: i64, waiting: bool) -> (Vec<u32>, Workload) {
        let workload = &self.workload;
        let warm: BTreeSet<u32> = workload.warm.iter().map(|warm| warm.job).collect();
        let (mut jobs, mut submits, mut cut) = (Vec::new(), Vec::new(), Vec::new());
        for (job, submit) in (0u32..).zip(&workload.submit_ms) {
            let start = self.recorded_start_ms.get(job as usize).copied().flatten().unwrap_or(*submit);
            let run = workload.run_ms.get(job as usize).copied().unwrap_or(0);
            // What ran when the replay began has a start before 0, and its run is counted from there.
            let begun = if warm.contains(&job) { 0 } else { start };
            let waits = || (waiting && *submit < now).then(|| (now - submit, false));
            let Some((run, ended)) = run_known_at(now, [*submit, start], begun, run).or_else(waits) else { continue };
            cut.push((!ended).then_some(run));
            jobs.push(job);
            submits.push(*submit);
        }
        let mut known = workload.arranged(&jobs, submits);
        for ((at, cut), run) in (0u32..).zip(&cut).zip(&mut known.run_ms) {
            if let Some(cut) = cut {
                *run = *cut;
                known.unfinished.push(at);
            }
        }
        known.unfinished.sort_unstable();
        known.unfinished.dedup();
        (jobs, known)
    }
}
