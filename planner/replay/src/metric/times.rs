//! Times of each job under a schedule: wait, completion time and time holding GPUs, as columns.
//!
//! * **JCT** is end − submission.
//! * **held** is the time in which it held GPUs, all segments together.
//! * **queued** is JCT − held: all time between submission and end in which it held none, before its first start and after
//!   every preemption or failure.
//! * **lost** is what it held beyond its true run: work that a failure or a stop undid, and what preemptions cost.
//! * **wait** is queued + lost, which is JCT − run: all that a job takes beyond running once, undisturbed.
//! * **bounded slowdown** is max(1, JCT / max(true run, 10 s)), which is (wait + run) / run.
//!
//! This is the one definition of waiting: `report`, `simulate`, `plan queues` and `plan nodes` all
//! take it from here. Only
//! where a replay is compared with a record is the time until the first start taken of both ([`Fidelity`]), as records seldom
//! say what a job lost.
//!
//! Jobs that ran when the replay began, and those whose end nobody knows, are not counted; jobs that did not finish have no JCT and no
//! wait. One that a failing node ended for good held less than its run, and lost nothing. O(n).
//!
//! Worked number: a job of 50 s, submitted at 0 s, runs 10–40 s, loses that to a failure, and runs 60–110 s: JCT 110 s, held 80 s,
//! queued 30 s, lost 30 s, wait 60 s, bounded slowdown 110 / 50 = 2.2.
//!
//! [`Fidelity`]: crate::fidelity::Fidelity

use crate::error::{Error, Result};
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::workload::Workload;

/// Runs below this count as so long in a slowdown, milliseconds.
pub const SHORTEST_MS: i64 = 10_000;

/// Converts milliseconds to hours.
pub(super) fn hours(ms: i128) -> f64 {
    ms as f64 / 3_600_000.0
}

/// Times of each job under a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// Whether the job is counted.
    counted: Vec<bool>,
    /// Time holding GPUs, milliseconds.
    pub held_ms: Vec<i64>,
    /// Time holding GPUs beyond the run, milliseconds.
    pub lost_ms: Vec<i64>,
    /// Submission to end, milliseconds; `None` if it did not finish or is not counted.
    pub jct_ms: Vec<Option<i64>>,
    /// Outcome of the job.
    pub outcome: Vec<Outcome>,
}

impl JobTimes {
    /// Computes the times under a schedule.
    ///
    /// # Errors
    /// If the schedule is not of this workload.
    pub fn new(workload: &Workload, schedule: &Schedule) -> Result<Self> {
        let jobs = workload.len();
        let known = [schedule.outcome.len(), schedule.preemptions.len(), schedule.restarts.len()];
        let stranger = schedule.segments.iter().any(|segment| segment.job as usize >= jobs);
        if stranger || known.iter().any(|known| *known != jobs) {
            return Err(Error::workload(0, "the schedule is not of these jobs"));
        }
        let mut counted = vec![true; jobs];
        for job in workload.uncounted() {
            if let Some(counted) = counted.get_mut(job as usize) {
                *counted = false;
            }
        }
        let mut held_ms = vec![0; jobs];
        for segment in &schedule.segments {
            if let Some(held) = held_ms.get_mut(segment.job as usize) {
                *held += (segment.end_ms - segment.start_ms).max(0);
            }
        }
        let lost_ms = held_ms.iter().zip(&workload.run_ms).map(|(held, run)| (held - run).max(0)).collect();
        let jct = |(job, submit): (usize, &i64)| {
            let known = counted.get(job) == Some(&true);
            if known { schedule.end_ms(job).map(|end| end - submit) } else { None }
        };
        let jct_ms = workload.submit_ms.iter().enumerate().map(jct).collect();
        Ok(Self { counted, held_ms, lost_ms, jct_ms, outcome: schedule.outcome.clone() })
    }

    /// From a table of results: what became of each job, whether it is counted, JCT and wait in milliseconds. How much of the
    /// wait was lost work does not stand there, and none is taken to be.
    pub fn of_rows(rows: impl IntoIterator<Item = (Outcome, bool, Option<(i64, i64)>)>) -> Self {
        let mut times = Self::default();
        for (outcome, counted, jct_and_wait) in rows {
            times.outcome.push(outcome);
            times.counted.push(counted);
            times.held_ms.push(jct_and_wait.map_or(0, |(jct, wait)| jct - wait));
            times.lost_ms.push(0);
            times.jct_ms.push(jct_and_wait.filter(|_| counted).map(|(jct, _)| jct));
        }
        times
    }

    /// Jobs.
    pub fn len(&self) -> usize {
        self.jct_ms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.jct_ms.is_empty()
    }

    /// Whether a job is counted: it did not run when the replay began, and its end is known.
    pub fn is_counted(&self, job: usize) -> bool {
        self.counted.get(job) == Some(&true)
    }

    /// How long a job waited, lost work included, milliseconds; `None` if it did not finish or is not counted.
    pub fn wait_ms(&self, job: usize) -> Option<i64> {
        Some(self.queued_ms(job)? + self.lost_ms.get(job)?)
    }

    /// How long a job that finished held no GPUs, milliseconds; `None` as of [`JobTimes::wait_ms`].
    pub fn queued_ms(&self, job: usize) -> Option<i64> {
        let jct = self.jct_ms.get(job).copied().flatten()?;
        Some(jct - self.held_ms.get(job)?)
    }

    /// Bounded slowdown of a job that truly runs for `run_ms`.
    pub fn slowdown(&self, job: usize, run_ms: i64) -> Option<f64> {
        let jct = self.jct_ms.get(job).copied().flatten()?;
        Some((jct as f64 / run_ms.max(SHORTEST_MS) as f64).max(1.0))
    }
}
