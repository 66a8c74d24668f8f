//! Facts of each job, derived once from the tables: GPUs, run time, wait, GPU time, state,
//! intervals.
//!
//! Definitions, which the report prints:
//! * **GPUs** of a job: those given; where the source does not say, those asked for. 0 is a CPU job, unknown is neither.
//! * **run**: the time its attempts ran, from their timestamps; where those are missing, the source's own figure. For a
//!   job still running, the time its attempts ran until the end of the observation, flagged as censored. Time in which it
//!   was suspended is not in it.
//! * **wait**: first start minus submission; where a start is missing, the source's own figure. A start before the
//!   submission makes it unknown.
//! * **GPU time**: GPUs × the time they were held: run and suspension, as a suspended job gives back its processors and keeps
//!   its GPUs.
//!
//! Worked number: 8 GPUs for 1,800 s are 14,400 GPU-seconds, 4 GPU-hours. Suspended for another 900 s: 6 GPU-hours.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::occupancy::Steps;
use crate::schema::{JobState, Table, gpu_count};
use crate::stats::{NeumaierSum, share};
use crate::time::{FARTHEST_MS, SECOND_MS, Zone};
use crate::trace::Trace;

/// One stretch in which a job held GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Row of the job.
    pub job: usize,
    /// Start, ms.
    pub start: i64,
    /// End, ms; the end of the observation if it was still running.
    pub end: i64,
    /// GPUs held.
    pub gpus: f64,
}

/// GPU utilisation of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JobUtilisation {
    /// Share of its run in which a kernel ran.
    pub(crate) ratio: f64,
    /// Whether `ratio` is the mean of the job's readings, and not the source's figure.
    pub(crate) is_sampled: bool,
}

/// Derived columns of the jobs table, one entry a job.
#[derive(Debug)]
pub struct JobFacts<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// The cluster's own zone.
    pub zone: Zone,
    /// GPUs.
    pub gpus: Vec<Option<f64>>,
    /// Run, seconds.
    pub run_s: Vec<Option<f64>>,
    /// Whether the run was cut off by the end of the observation.
    pub censored: Vec<bool>,
    /// Wait, seconds.
    pub wait_s: Vec<Option<f64>>,
    /// State.
    pub state: Vec<JobState>,
    /// Intervals in which jobs held GPUs.
    pub stretches: Vec<Stretch>,
    /// The observation: from the first to the last moment any job record names, ms; where the jobs were chosen by a time, that time.
    pub window: Option<(i64, i64)>,
    /// End of the observation, ms: jobs that have not ended by then run, or wait, until then. Where
    /// the jobs were chosen by a time, the end of the whole record.
    pub record_end: Option<i64>,
    /// Jobs whose run is the source's own figure.
    pub reported_runs: usize,
    /// Jobs whose start is unknown and was taken to be their submission, for use over time.
    pub assumed_starts: usize,
    /// GPU time of those jobs, GPU-seconds.
    pub assumed_gpu_s: f64,
    /// GPU utilisation, once a description has computed it.
    pub(crate) utilisation: OnceLock<Vec<Option<JobUtilisation>>>,
}

/// Rows of the attempts of each job, by its identifier.
pub(crate) fn attempts_by_job(trace: &Trace) -> HashMap<&str, Vec<usize>> {
    let mut result: HashMap<&str, Vec<usize>> = HashMap::new();
    for ix in 0..trace.attempts.len() {
        if let Some(key) = trace.attempts.job_key.get(ix) {
            result.entry(key).or_default().push(ix);
        }
    }
    result
}

impl<'t> JobFacts<'t> {
    /// Derives the facts of all jobs. O(jobs + attempts).
    pub fn new(trace: &'t Trace) -> Self {
        let jobs = &trace.jobs;
        let rows = jobs.len();
        let submitted = trace.selected.as_ref().and_then(|selected| selected.submitted);
        let observation = trace.observation();
        let window = submitted.map(|time| (time.from_ms, time.to_ms)).or(observation);
        let record_end = submitted.map(|time| time.record_end_ms).or(observation.map(|(_, end)| end));
        let mut facts = Self {
            trace,
            // The reader and the manifest hold checked names; UTC is the safe reading of a damaged one.
            zone: Zone::named(&trace.zone).unwrap_or_else(|_| Zone::utc()),
            gpus: Vec::with_capacity(rows),
            run_s: Vec::with_capacity(rows),
            censored: Vec::with_capacity(rows),
            wait_s: Vec::with_capacity(rows),
            state: Vec::with_capacity(rows),
            stretches: Vec::new(),
            window,
            record_end,
            reported_runs: 0,
            assumed_starts: 0,
            assumed_gpu_s: 0.0,
            utilisation: OnceLock::new(),
        };
        for ix in 0..rows {
            let gpus =
                jobs.alloc_gpus.get(ix).and_then(gpu_count).or_else(|| jobs.req_gpus.get(ix).and_then(gpu_count));
            let state = jobs.state.get(ix).map_or(JobState::Unknown, JobState::from_id);
            let (start, end) = (jobs.start.get(ix), jobs.end.get(ix));
            let flagged = jobs.censored.get(ix) == Some(1);
            let running = start.is_some() && end.is_none() && (flagged || state == JobState::Running);
            let mut run = jobs.run_s.get(ix).and_then(length_s);
            if running {
                let suspended = jobs.suspended_s.get(ix).and_then(length_s).unwrap_or(0.0);
                let until_end = start.zip(record_end).map(|(start, end)| (seconds(start, end) - suspended).max(0.0));
                run = until_end.or(run);
            } else if run.is_none() && jobs.attempts.get(ix) != Some(0) {
                run = jobs.reported_run_s.get(ix).and_then(length_s);
                facts.reported_runs += usize::from(run.is_some());
            }
            let wait = match (jobs.submit.get(ix), start) {
                (Some(submit), Some(start)) if start >= submit => Some(seconds(submit, start)),
                (Some(_), Some(_)) => None,
                // What the source calls its wait ended with the job, not with a start.
                (_, None) if jobs.attempts.get(ix) == Some(0) => None,
                _ => jobs.reported_wait_s.get(ix).and_then(length_s),
            };
            facts.gpus.push(gpus);
            facts.run_s.push(run);
            facts.censored.push(running);
            facts.wait_s.push(wait);
            facts.state.push(state);
        }
        facts.hold();
        facts
    }

    /// Fills the stretches: from the attempts where there are any, else from the job's own start and end.
    fn hold(&mut self) {
        let jobs = &self.trace.jobs;
        let attempts = &self.trace.attempts;
        let of_job = attempts_by_job(self.trace);
        for job in 0..jobs.len() {
            let runs = jobs.job_key.get(job).and_then(|key| of_job.get(key));
            if let Some(runs) = runs {
                let mut run_ms = Some(0);
                for ix in runs {
                    let gpus = attempts
                        .alloc_gpus
                        .get(*ix)
                        .and_then(gpu_count)
                        .or_else(|| self.gpus.get(job).copied().flatten());
                    let span = self.attempt_ms(*ix);
                    run_ms = run_ms.zip(span).map(|(sum, (start, end))| sum + (end - start).max(0));
                    if let (Some((start, end)), Some(gpus)) = (span, gpus) {
                        self.stretches.push(Stretch { job, start, end, gpus });
                    }
                }
                // The gaps between the attempts of a job that still runs are no part of its run either.
                let suspended = self.suspended_s(job);
                if let (true, Some(run_ms), Some(run)) = (self.is_censored(job), run_ms, self.run_s.get_mut(job)) {
                    *run = Some((seconds(0, run_ms) - suspended).max(0.0));
                }
                continue;
            }
            let run = self.run_s.get(job).copied().flatten();
            let Some(gpus) = self.gpus.get(job).copied().flatten() else { continue };
            let start = jobs.start.get(job);
            let Some(end) = self.end_ms(job) else { continue };
            if let Some(start) = start {
                self.stretches.push(Stretch { job, start, end, gpus });
            } else if let (Some(submit), Some(run)) = (jobs.submit.get(job), run) {
                self.assumed_starts += 1;
                self.assumed_gpu_s += gpus * run;
                self.stretches.push(Stretch { job, start: submit, end, gpus });
            }
        }
    }

    /// Start and end of an attempt, ms; the end of the observation of one that was still running then.
    pub(crate) fn attempt_ms(&self, attempt: usize) -> Option<(i64, i64)> {
        let attempts = &self.trace.attempts;
        let still_runs = attempts.censored.get(attempt) == Some(1);
        let end = attempts.end.get(attempt).or(self.record_end.filter(|_| still_runs));
        attempts.start.get(attempt).zip(end)
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.trace.jobs.len()
    }

    /// Whether there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// GPUs of a job, `None` if unknown.
    pub fn gpus(&self, job: usize) -> Option<f64> {
        self.gpus.get(job).copied().flatten()
    }

    /// Run of a job in seconds, `None` if unknown.
    pub fn run_s(&self, job: usize) -> Option<f64> {
        self.run_s.get(job).copied().flatten()
    }

    /// Wait of a job in seconds, `None` if unknown.
    pub fn wait_s(&self, job: usize) -> Option<f64> {
        self.wait_s.get(job).copied().flatten()
    }

    /// Time a job was suspended within its attempts, seconds; 0 where the source says nothing of it.
    pub fn suspended_s(&self, job: usize) -> f64 {
        self.trace.jobs.suspended_s.get(job).and_then(length_s).unwrap_or(0.0)
    }

    /// Returns the end of a job, ms; where it is not recorded, its start (else its submission) plus
    /// run and suspension.
    pub fn end_ms(&self, job: usize) -> Option<i64> {
        let jobs = &self.trace.jobs;
        jobs.end.get(job).or_else(|| {
            let from = jobs.start.get(job).or_else(|| jobs.submit.get(job))?;
            Some(later(from, self.run_s(job)? + self.suspended_s(job)))
        })
    }

    /// GPU time of a job in GPU-seconds, `None` if its GPUs or run are unknown.
    pub fn gpu_s(&self, job: usize) -> Option<f64> {
        Some(self.gpus(job)? * (self.run_s(job)? + self.suspended_s(job)))
    }

    /// State of a job.
    pub fn state(&self, job: usize) -> JobState {
        self.state.get(job).copied().unwrap_or(JobState::Unknown)
    }

    /// Whether a job's run was cut off by the end of the observation.
    pub fn is_censored(&self, job: usize) -> bool {
        self.censored.get(job).copied().unwrap_or(false)
    }

    /// Whether a job is known to have GPUs.
    pub fn is_gpu_job(&self, job: usize) -> bool {
        self.gpus(job).is_some_and(|gpus| gpus > 0.0)
    }

    /// Total GPU time in GPU-seconds; 0 where no job's is known.
    pub fn total_gpu_s(&self) -> f64 {
        self.gpu_time_s(0..self.len()).unwrap_or(0.0)
    }

    /// GPU time of some jobs in GPU-seconds, over those where it is known; `None` if it is known of none of them.
    pub fn gpu_time_s(&self, jobs: impl IntoIterator<Item = usize>) -> Option<f64> {
        let mut known = jobs.into_iter().filter_map(|job| self.gpu_s(job)).peekable();
        known.peek()?;
        Some(NeumaierSum::from_iter(known).value())
    }

    /// Share of the GPU time of all jobs whose VC is unknown; `None` if there is no GPU time.
    pub fn gpu_time_without_vc(&self) -> Option<f64> {
        let vc = &self.trace.jobs.vc;
        let unknown: NeumaierSum =
            (0..self.len()).filter(|job| vc.code(*job).is_none()).filter_map(|job| self.gpu_s(job)).collect();
        share(unknown.value(), self.total_gpu_s())
    }

    /// GPUs in use over time, of all jobs for which `keep` holds.
    pub fn in_use(&self, keep: impl Fn(usize) -> bool) -> Steps {
        Steps::of_intervals(self.stretches.iter().filter(|stretch| keep(stretch.job)).map(|s| (s.start, s.end, s.gpus)))
    }

    /// Interval in which a job waited, ms: from its submission to its start (or the end of the
    /// observation, if it was still waiting then). `None` without a known wait.
    pub fn waiting_interval(&self, job: usize) -> Option<(i64, i64)> {
        let jobs = &self.trace.jobs;
        let submit = jobs.submit.get(job)?;
        let until = match (jobs.start.get(job), self.wait_s(job)) {
            (Some(start), _) => start,
            (None, Some(wait)) => later(submit, wait),
            (None, None) if self.state(job) == JobState::Pending => self.record_end?,
            (None, None) => return None,
        };
        Some((submit, until))
    }

    /// Sum of `amount(job)` over waiting jobs, over time: each counts during
    /// [`JobFacts::waiting_interval`].
    pub fn waiting(&self, amount: impl Fn(usize) -> Option<f64>) -> Steps {
        Steps::of_intervals((0..self.len()).filter_map(|job| {
            let (submit, until) = self.waiting_interval(job)?;
            Some((submit, until, amount(job)?))
        }))
    }
}

/// The moment `after_s` seconds after `from`, no later than a time can be: a source's own figure has no such limit.
fn later(from: i64, after_s: f64) -> i64 {
    from.saturating_add((after_s * SECOND_MS as f64).round() as i64).min(FARTHEST_MS)
}

/// A length of time in seconds, `None` if negative, not a number or longer than lies between any two times.
fn length_s(seconds: f64) -> Option<f64> {
    (seconds >= 0.0 && seconds <= 2.0 * (FARTHEST_MS / SECOND_MS) as f64).then_some(seconds)
}

fn seconds(from: i64, to: i64) -> f64 {
    (to - from) as f64 / SECOND_MS as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{AttemptRow, JobRow};

    #[test]
    fn unknown_starts_running_jobs_and_attempts_each_follow_their_definition() {
        let mut trace = Trace::default();
        // Ends at 100 s: the end of the observation.
        trace.jobs.push(JobRow {
            job_key: Some("a".into()),
            submit: Some(0),
            start: Some(10_000),
            end: Some(100_000),
            run_s: Some(90.0),
            req_gpus: Some(2.0),
            state: Some("completed".into()),
            ..JobRow::default()
        });
        // Still running: 60 s until then.
        trace.jobs.push(JobRow {
            job_key: Some("b".into()),
            submit: Some(1_000),
            start: Some(40_000),
            censored: Some(true),
            alloc_gpus: Some(1.0),
            state: Some("running".into()),
            ..JobRow::default()
        });
        // No start, the source's own run.
        trace.jobs.push(JobRow {
            job_key: Some("c".into()),
            submit: Some(2_000),
            reported_run_s: Some(5.0),
            req_gpus: Some(4.0),
            ..JobRow::default()
        });
        // Two attempts of 10 s and 20 s.
        trace.jobs.push(JobRow {
            job_key: Some("d".into()),
            submit: Some(3_000),
            start: Some(4_000),
            end: Some(50_000),
            run_s: Some(30.0),
            attempts: Some(2),
            alloc_gpus: Some(8.0),
            ..JobRow::default()
        });
        for (attempt, start, end) in [(1, 4_000, 14_000), (2, 30_000, 50_000)] {
            trace.attempts.push(AttemptRow {
                job_key: Some("d".into()),
                attempt: Some(attempt),
                start: Some(start),
                end: Some(end),
                alloc_gpus: Some(8.0),
                ..AttemptRow::default()
            });
        }
        // Ran for 5 s, was requeued for 65 s and runs again since 80 s: 5 + 20 s until the end.
        trace.jobs.push(JobRow {
            job_key: Some("e".into()),
            submit: Some(5_000),
            start: Some(10_000),
            censored: Some(true),
            alloc_gpus: Some(0.0),
            state: Some("running".into()),
            ..JobRow::default()
        });
        for (attempt, start, end) in [(1, 10_000, Some(15_000)), (2, 80_000, None)] {
            trace.attempts.push(AttemptRow {
                job_key: Some("e".into()),
                attempt: Some(attempt),
                start: Some(start),
                end,
                censored: Some(end.is_none()),
                ..AttemptRow::default()
            });
        }
        let facts = JobFacts::new(&trace);
        assert_eq!(facts.run_s, [Some(90.0), Some(60.0), Some(5.0), Some(30.0), Some(25.0)]);
        assert_eq!(facts.wait_s, [Some(10.0), Some(39.0), None, Some(1.0), Some(5.0)]);
        assert_eq!(facts.censored, [false, true, false, false, true]);
        assert_eq!((facts.assumed_starts, facts.assumed_gpu_s, facts.reported_runs), (1, 20.0, 1));
        assert_eq!(facts.stretches.len(), 7);
        // 2·90 + 1·60 + 4·5 + 8·30 = 500 GPU-seconds, and the use over time adds up to the same.
        assert_eq!(facts.total_gpu_s(), 500.0);
        let (from, to) = facts.window.unwrap();
        assert_eq!(facts.in_use(|_| true).integral_s(from, to + 1), 500.0);
    }
}
