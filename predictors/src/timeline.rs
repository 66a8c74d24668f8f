//! From a trace to what happened, in order: submissions, starts and ends of jobs, as a store or a server is told them.
//!
//! * **Run** of a job: the time its attempts ran as the source sums it, else as derived from timestamps, else as the source reports it.
//! * **Start**: as recorded, else the submission (then the job's age is the time since it was submitted).
//! * **End**: as recorded, but no sooner than start + run; else start + run. A job that still runs at the end of the record has none, and is a
//!   censored observation.
//!
//! Time limits that are the runs themselves (some published traces have such a column) are left out, and said to be.
//!
//! At equal times ends come first, then starts, then submissions in the order of the source: a job that ends in the millisecond in which
//! another is submitted is known to it. O(n log n). Worked example: a job submitted at 0 s, started at 10 s, that ran 60 s, ends at 70 s.

use tracecast_analytics::Trace;
use tracecast_analytics::describe::JobFacts;
use tracecast_analytics::schema::{JobState, gpu_count};

use crate::error::{Error, Result};
use crate::feature::Known;
use crate::job::Submission;

/// Which jobs, and what of them may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Only jobs whose VC is known.
    pub known_vc_only: bool,
    /// As if no job had a VC.
    pub ignore_vc: bool,
    /// As if no job had a name.
    pub ignore_name: bool,
    /// As if no job had a user.
    pub ignore_user: bool,
}

/// One job of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Row of the trace.
    pub row: u32,
    /// What was known at submission.
    pub submission: Submission,
    /// When it started, milliseconds; `None` if it never did.
    pub start_ms: Option<i64>,
    /// When it ended, milliseconds; `None` if it had not by the end of the record.
    pub end_ms: Option<i64>,
    /// How long it ran, seconds; `None` unless it started and ended.
    pub run_s: Option<f64>,
    /// Whether it failed.
    pub failed: bool,
}

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It ended.
    End,
    /// It started.
    Start,
    /// It was submitted.
    Submit,
}

/// One thing that happened: when, what, and to which job of the timeline.
pub type Moment = (i64, Kind, u32);

/// Jobs in order of submission, and what happened to them in order of time.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// What is known of them at submission.
    pub known: Known,
    /// Rows of the trace that are not jobs to learn from, by reason.
    pub left_out: Vec<(String, usize)>,
    /// Jobs whose start is taken to be their submission.
    pub assumed_starts: usize,
    /// GPUs of the cluster, where the trace has its inventory or capacity; no fewer than a job had.
    pub cluster_gpus: Option<f64>,
    /// Whether the time limits were the runs themselves, written down afterwards, and are left out.
    pub limit_is_run: bool,
}

/// Whether four in five of the jobs with a limit ran to within a second of it: no user asks so well.
fn limit_is_run(jobs: &[Job]) -> bool {
    let both: Vec<f64> = jobs.iter().filter_map(|job| Some((job.run_s? - job.submission.limit_s?).abs())).collect();
    let same = both.iter().filter(|apart| **apart <= 1.0).count();
    both.len() >= 20 && same * 5 >= both.len() * 4
}

/// GPUs that there are, or were at most: of the inventory, of the cluster's recorded capacity, and of its VCs' in sum the most.
fn cluster_gpus(trace: &Trace) -> Option<f64> {
    let nodes = trace.nodes.gpus.iter().flatten().filter(|gpus| gpus.is_finite()).sum::<f64>();
    let capacity = &trace.capacity;
    let mut cluster = 0f64;
    let mut vcs: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for row in 0..tracecast_analytics::schema::Table::len(capacity) {
        let Some(gpus) = capacity.gpus.get(row).filter(|gpus| gpus.is_finite()) else { continue };
        match (capacity.scope.get(row), capacity.name.get(row)) {
            (Some("cluster"), _) => cluster = cluster.max(gpus),
            (Some("vc"), Some(name)) => {
                let most = vcs.entry(name).or_default();
                *most = most.max(gpus);
            }
            _ => {}
        }
    }
    Some(nodes.max(cluster).max(vcs.values().sum())).filter(|gpus| *gpus > 0.0)
}

impl Timeline {
    /// The timeline of a trace.
    ///
    /// # Errors
    /// If no job is left.
    pub fn of(trace: &Trace, options: Options) -> Result<Self> {
        let facts = JobFacts::of(trace);
        let table = &trace.jobs;
        let mut left_out = [
            ("the submission is unknown", 0usize),
            ("the number of GPUs is unknown", 0),
            ("the VC is unknown", 0),
            ("it is over, but neither its run nor its end is known", 0),
        ];
        let mut timeline = Self::default();
        for row in 0..facts.len() {
            let submit_ms = table.submit.get(row);
            // What was asked for: what was given is known only once the job starts.
            let gpus = table.req_gpus.get(row).and_then(gpu_count).or_else(|| facts.gpus(row));
            let vc = table.vc.get(row);
            let reason = if submit_ms.is_none() {
                Some(0)
            } else if gpus.is_none() {
                Some(1)
            } else if options.known_vc_only && vc.is_none() {
                Some(2)
            } else if facts.state(row).is_final() && run_of(&facts, row).is_none() && table.end.get(row).is_none() {
                Some(3)
            } else {
                None
            };
            if let Some(reason) = reason {
                if let Some((_, count)) = left_out.get_mut(reason) {
                    *count += 1;
                }
                continue;
            }
            let (Some(submit_ms), Some(gpus)) = (submit_ms, gpus) else { continue };
            let own = |text: Option<&str>, ignored: bool| text.filter(|_| !ignored).map(str::to_owned);
            let submission = Submission {
                job_id: table.job_key.get(row).map_or_else(|| format!("row-{row}"), str::to_owned),
                submit_ms,
                user: own(table.user.get(row), options.ignore_user),
                vc: own(vc, options.ignore_vc),
                name: own(table.name.get(row), options.ignore_name),
                gpus,
                cpus: table.req_cpus.get(row).filter(|cpus| cpus.is_finite()),
                limit_s: table.time_limit_s.get(row).filter(|limit| limit.is_finite() && *limit > 0.0),
            };
            timeline.jobs.push(timeline_job(&facts, row, submission, &mut timeline.assumed_starts));
        }
        // Stable: those of the same millisecond stay in the order of the source.
        timeline.jobs.sort_by_key(|job| job.submission.submit_ms);
        if timeline.jobs.is_empty() {
            return Err(Error::TooFew(
                "there is no job with a known submission and number of GPUs to learn from".to_owned(),
            ));
        }
        timeline.cluster_gpus =
            cluster_gpus(trace).map(|gpus| timeline.jobs.iter().map(|job| job.submission.gpus).fold(gpus, f64::max));
        timeline.limit_is_run = limit_is_run(&timeline.jobs);
        if timeline.limit_is_run {
            for job in &mut timeline.jobs {
                job.submission.limit_s = None;
            }
        }
        timeline.left_out =
            left_out.into_iter().filter(|(_, count)| *count > 0).map(|(why, count)| (why.to_owned(), count)).collect();
        timeline.known = Known {
            user: timeline.jobs.iter().any(|job| job.submission.user.is_some()),
            name: timeline.jobs.iter().any(|job| job.submission.name.is_some()),
            vc: timeline.jobs.iter().any(|job| job.submission.vc.is_some()),
        };
        Ok(timeline)
    }

    /// The same as it was known at a moment: jobs submitted later are not there, those that started or ended later had not yet.
    ///
    /// # Errors
    /// If no job is left.
    pub fn until(mut self, now_ms: i64) -> Result<Self> {
        self.jobs.retain(|job| job.submission.submit_ms < now_ms);
        if self.jobs.is_empty() {
            return Err(Error::TooFew("no job was submitted before that moment".to_owned()));
        }
        for job in &mut self.jobs {
            if job.end_ms.is_some_and(|end| end > now_ms) {
                (job.end_ms, job.run_s, job.failed) = (None, None, false);
            }
            job.start_ms = job.start_ms.filter(|start| *start <= now_ms);
        }
        Ok(self)
    }

    /// Everything that happened, in order.
    pub fn moments(&self) -> Vec<Moment> {
        let mut moments = Vec::with_capacity(3 * self.jobs.len());
        for (at, job) in (0u32..).zip(&self.jobs) {
            moments.push((job.submission.submit_ms, Kind::Submit, at));
            if let Some(start) = job.start_ms {
                moments.push((start, Kind::Start, at));
            }
            if let Some(end) = job.end_ms {
                moments.push((end, Kind::End, at));
            }
        }
        // A job's own start comes after its submission, and its own end after its start, also where all are in one millisecond.
        moments.sort_by_key(|(time, kind, at)| {
            let job = self.jobs.get(*at as usize);
            let submitted_now = job.is_some_and(|job| *time <= job.submission.submit_ms);
            let started_now = job.is_some_and(|job| job.start_ms == Some(*time));
            // What befalls a job in the millisecond of its submission comes right behind it, before the next submission.
            let (class, step) = match kind {
                Kind::Submit => (2u8, 0u8),
                Kind::Start if submitted_now => (2, 1),
                Kind::End if submitted_now => (2, 2),
                Kind::End if started_now => (1, 2),
                Kind::Start => (1, 1),
                Kind::End => (0, 0),
            };
            // Of others that start, all do before any of them ends.
            (*time, class, if class == 1 { step } else { 0 }, *at, step)
        });
        moments
    }
}

fn run_of(facts: &JobFacts<'_>, row: usize) -> Option<f64> {
    facts.trace.jobs.reported_attempts_s.get(row).or_else(|| facts.run_s(row)).filter(|run| *run >= 0.0)
}

fn timeline_job(facts: &JobFacts<'_>, row: usize, submission: Submission, assumed: &mut usize) -> Job {
    let table = &facts.trace.jobs;
    let failed = matches!(facts.state(row), JobState::Failed | JobState::NodeFail | JobState::OutOfMemory);
    let submit_ms = submission.submit_ms;
    let run_s = run_of(facts, row);
    let recorded = table.start.get(row).filter(|start| *start >= submit_ms);
    if facts.is_censored(row) {
        let start_ms = recorded.or(Some(submit_ms));
        return Job { row: row as u32, submission, start_ms, end_ms: None, run_s: None, failed };
    }
    let Some(run_s) = run_s else {
        // Never ran, as far as is known: it leaves when the source says, or is waiting still.
        let end_ms = table.end.get(row).filter(|end| *end >= submit_ms);
        return Job { row: row as u32, submission, start_ms: None, end_ms, run_s: None, failed };
    };
    if recorded.is_none() {
        *assumed += 1;
    }
    let start_ms = recorded.unwrap_or(submit_ms);
    let least_end_ms = start_ms.saturating_add((run_s * 1000.0).round() as i64);
    let end_ms = table.end.get(row).map_or(least_end_ms, |end| end.max(least_end_ms));
    Job { row: row as u32, submission, start_ms: Some(start_ms), end_ms: Some(end_ms), run_s: Some(run_s), failed }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::schema::{JobRow, Table as _};

    use super::*;

    fn trace(rows: Vec<JobRow<'static>>) -> Trace {
        let mut trace = Trace::default();
        for row in rows {
            trace.jobs.push(row);
        }
        trace
    }

    fn row(key: &'static str, submit: i64) -> JobRow<'static> {
        JobRow { job_key: Some(key.into()), submit: Some(submit), alloc_gpus: Some(1.0), ..JobRow::default() }
    }

    #[test]
    fn ends_come_before_submissions_of_the_same_moment_and_a_jobs_own_events_after_its_submission() {
        let trace = trace(vec![
            JobRow { reported_run_s: Some(60.0), start: Some(10_000), ..row("a", 0) },
            // Submitted in the millisecond in which `a` ends, and over at once.
            JobRow { reported_run_s: Some(0.0), start: Some(70_000), ..row("b", 70_000) },
        ]);
        assert_eq!(trace.jobs.len(), 2);
        let timeline = Timeline::of(&trace, Options::default()).unwrap();
        assert_eq!(timeline.jobs[0].end_ms, Some(70_000));
        use Kind::{End, Start, Submit};
        let expected = [
            (0, Submit, 0),
            (10_000, Start, 0),
            (70_000, End, 0),
            (70_000, Submit, 1),
            (70_000, Start, 1),
            (70_000, End, 1),
        ];
        assert_eq!(timeline.moments(), expected);
    }

    #[test]
    fn a_job_without_a_start_is_taken_to_start_at_once_and_one_that_runs_on_has_no_end() {
        let trace = trace(vec![
            JobRow { reported_run_s: Some(60.0), ..row("a", 0) },
            JobRow { start: Some(5000), censored: Some(true), state: Some("RUNNING".into()), ..row("b", 1000) },
        ]);
        let timeline = Timeline::of(&trace, Options::default()).unwrap();
        assert_eq!(
            (timeline.jobs[0].start_ms, timeline.jobs[0].end_ms, timeline.assumed_starts),
            (Some(0), Some(60_000), 1)
        );
        assert_eq!(
            (timeline.jobs[1].start_ms, timeline.jobs[1].end_ms, timeline.jobs[1].run_s),
            (Some(5000), None, None)
        );
    }
}
