//! A15: failures: how often by size, how soon, how much GPU time they take, retries, and time between node failures.
//!
//! Failed is what ended by itself or by the machine without success: failed, out of memory, node failure, and jobs cut
//! off at their limit are told apart. Cancelled jobs are not failures: their user ended them.
//!
//! Worked number: 2 node failures in 10,000 GPU-hours of use: 5,000 GPU-hours between node failures.

use schemars::JsonSchema;
use serde::Serialize;

use super::status::words;
use super::summary::int;
use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{compact, count, counted, duration, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::schema::{JobState, Table as _};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};

/// States that are failures, in the order they are listed.
pub(super) const FAILURES: [JobState; 4] =
    [JobState::Failed, JobState::OutOfMemory, JobState::NodeFail, JobState::Timeout];

/// Failures of one kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ByKind {
    /// The state.
    pub state: JobState,
    /// Jobs.
    pub jobs: u64,
    /// Share of the jobs whose end is known.
    pub job_share: f64,
    /// GPU-hours they took; `null` where nobody recorded GPUs.
    pub gpu_hours: Option<f64>,
    /// Run until the failure, seconds.
    pub time_to_failure_s: Option<stats::quantile::Summary>,
}

/// Failures of one size class.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailuresBySize {
    /// The size class.
    pub size: SizeClass,
    /// Jobs whose end is known.
    pub jobs: u64,
    /// Failed among them.
    pub failed: u64,
    /// Share that failed.
    pub failed_share: f64,
}

/// Retries.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Retries {
    /// Jobs whose number of attempts is known.
    pub jobs: u64,
    /// Jobs with more than one attempt.
    pub retried: u64,
    /// Attempts in all.
    pub attempts: u64,
    /// GPU-hours of attempts that were not the last of their job, where attempts are recorded one by one.
    pub lost_gpu_hours: Option<f64>,
}

/// Failures of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failure {
    /// Jobs.
    pub jobs: u64,
    /// Jobs whose end is known.
    pub ended: u64,
    /// Failed among them.
    pub failed: u64,
    /// Run until the failure, all kinds, seconds.
    pub time_to_failure_s: Option<stats::quantile::Summary>,
    /// GPU-hours of the failed jobs; `null` where nobody recorded GPUs.
    pub gpu_hours: Option<f64>,
    /// Share of the failed jobs in the GPU time of all jobs whose end is known.
    pub gpu_time_share: Option<f64>,
    /// Failures by kind; kinds that do not occur are left out.
    pub by_kind: Vec<ByKind>,
    /// Failures by size class.
    pub by_size: Vec<FailuresBySize>,
    /// Share of the failed jobs that had failed after so long, thinned.
    pub curve: Vec<CurvePoint>,
    /// Retries; `null` where the source does not count attempts.
    pub retries: Option<Retries>,
    /// GPU-hours in use per node failure; `null` without one.
    pub gpu_hours_per_node_failure: Option<f64>,
}

impl Topic for Failure {
    const ID: &'static str = "failure";
    const CODE: &'static str = "A15";
    const TITLE: &'static str = "Failures";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let ended: Vec<usize> = (0..facts.len()).filter(|job| facts.state(*job).is_final()).collect();
        let failed: Vec<usize> = ended.iter().copied().filter(|job| FAILURES.contains(&facts.state(*job))).collect();
        if failed.is_empty() {
            return Err("no job is recorded as failed; the source may not tell failures apart".to_owned());
        }
        let gpu_s = |jobs: &[usize]| facts.gpu_time_s(jobs.iter().copied());
        let runs = |jobs: &[usize]| jobs.iter().filter_map(|job| facts.run_s(*job)).collect::<Vec<f64>>();
        let by_kind = FAILURES
            .into_iter()
            .filter_map(|state| {
                let of: Vec<usize> = failed.iter().copied().filter(|job| facts.state(*job) == state).collect();
                (!of.is_empty()).then(|| ByKind {
                    state,
                    jobs: of.len() as u64,
                    job_share: of.len() as f64 / ended.len() as f64,
                    gpu_hours: gpu_s(&of).map(hours),
                    time_to_failure_s: stats::quantile::Summary::of_vec(runs(&of)),
                })
            })
            .collect();
        let by_size = SizeClass::ALL
            .into_iter()
            .filter_map(|size| {
                let in_class = |job: &&usize| facts.gpus(**job).map(SizeClass::new) == Some(size);
                let jobs = ended.iter().filter(in_class).count();
                let bad = failed.iter().filter(in_class).count();
                (jobs > 0).then(|| FailuresBySize {
                    size,
                    jobs: jobs as u64,
                    failed: bad as u64,
                    failed_share: bad as f64 / jobs as f64,
                })
            })
            .collect();
        let node_failures = node_failures(facts);
        let total = facts.total_gpu_s();
        Ok(Self {
            jobs: facts.len() as u64,
            ended: ended.len() as u64,
            failed: failed.len() as u64,
            time_to_failure_s: stats::quantile::Summary::of_vec(runs(&failed)),
            gpu_hours: gpu_s(&failed).map(hours),
            gpu_time_share: gpu_s(&failed).zip(gpu_s(&ended)).and_then(|(failed, ended)| share(failed, ended)),
            by_kind,
            by_size,
            curve: Ecdf::new(&runs(&failed)).map(|ecdf| ecdf.thin(160)).unwrap_or_default(),
            retries: retries(facts),
            gpu_hours_per_node_failure: (node_failures > 0 && total > 0.0).then(|| hours(total) / node_failures as f64),
        })
    }

    fn section(&self) -> Section {
        let half = self.time_to_failure_s.as_ref().map(|time| duration(time.p50));
        let of_all = if self.ended < self.jobs { format!(" (of {} in all)", count(self.jobs)) } else { String::new() };
        let mut finding = format!(
            "**{}** of the {} whose end is known{of_all} failed and took **{}** of their GPU time",
            percent(self.failed as f64 / self.ended as f64),
            counted(self.ended, "job", "jobs"),
            self.gpu_time_share.map_or_else(|| "an unknown share".to_owned(), percent)
        );
        match half {
            Some(half) => finding.push_str(&format!("; half of them failed within **{half}**.")),
            None => finding.push('.'),
        }
        if let Some(mtbf) = self.gpu_hours_per_node_failure {
            finding.push_str(&format!(" A node failure hits once in **{}** GPU-hours of use.", compact(mtbf)));
        }
        let mut table = ReportTable::new(
            "Failures by kind",
            vec![
                Column::text("Kind"),
                Column::number("Jobs"),
                Column::number("Share of ended jobs"),
                Column::number("GPU-hours"),
                Column::number("Median time to failure"),
                Column::number("90 %"),
            ],
        );
        let mut row = |kind: String, jobs: u64, gpu_hours: Option<f64>, time: Option<&stats::quantile::Summary>| {
            table.rows.push(vec![
                kind.into(),
                int(jobs),
                Cell::Percent(jobs as f64 / self.ended as f64),
                Cell::opt(gpu_hours, |value| Cell::Float { value, digits: 0 }),
                Cell::opt(time.map(|s| s.p50), Cell::Duration),
                Cell::opt(time.map(|s| s.p90), Cell::Duration),
            ]);
        };
        row("all".to_owned(), self.failed, self.gpu_hours, self.time_to_failure_s.as_ref());
        for kind in &self.by_kind {
            row(words(kind.state), kind.jobs, kind.gpu_hours, kind.time_to_failure_s.as_ref());
        }
        let curve = Chart::xy(
            "time-to-failure",
            "Share of the failed jobs that had failed after so long",
            Axis::log_duration("Run until the failure"),
            Axis::share("Share"),
            vec![ChartSeries::new("failed jobs", Mark::Step, self.curve.iter().map(|p| (p.x, p.fraction)).collect())],
        )
        .with_reading("A steep start is work that fails at once (wrong arguments, missing files): a short test run before the full request would catch it.");
        let bars = Chart::bars(
            "failure-by-size",
            "Share of ended jobs that failed, by size",
            Axis { ticks: crate::report::Ticks::Percent, ..Axis::linear("Share") },
            BarLayout::Grouped,
            self.by_size.iter().map(|row| row.size.name().to_owned()).collect(),
            vec![BarSeries::new("failed", self.by_size.iter().map(|row| Some(row.failed_share)).collect())],
        )
        .with_reading("Rising bars mean that larger jobs fail more often, each failure idling more GPUs.");
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(self.gpu_hours)
            .with_chart(curve)
            .with_chart(bars)
            .with_table(table)
            .with_definition(
                "Failed: ended by itself with an error, out of memory, by a node failure, or at its time limit. Jobs that \
                 their user cancelled are not failures.",
            )
            .with_coverage(format!("The end of {} of {} jobs is known.", count(self.ended), count(self.jobs)));
        if let Some(retries) = &self.retries {
            let lost = retries.lost_gpu_hours.map_or_else(String::new, |lost| {
                format!(" Attempts that were not the last took {} GPU-hours.", compact(lost))
            });
            section = section.with_text(format!(
                "{} of {} jobs had more than one attempt ({} attempts in all).{lost}",
                count(retries.retried),
                count(retries.jobs),
                count(retries.attempts)
            ));
        }
        section
    }
}

/// Node failures: of attempts where they are recorded one by one, else of jobs.
fn node_failures(facts: &JobFacts<'_>) -> u64 {
    let attempts = &facts.trace.attempts;
    let of_attempts = attempts.end_reason.iter().flatten().filter(|reason| *reason == JobState::NodeFail.id()).count();
    let of_jobs = facts.state.iter().filter(|state| **state == JobState::NodeFail).count();
    of_attempts.max(of_jobs) as u64
}

fn retries(facts: &JobFacts<'_>) -> Option<Retries> {
    let jobs = &facts.trace.jobs;
    let known: Vec<u64> = jobs.attempts.iter().flatten().filter_map(|attempts| u64::try_from(attempts).ok()).collect();
    if known.is_empty() {
        return None;
    }
    let attempts = &facts.trace.attempts;
    let mut last: std::collections::HashMap<&str, i64> = std::collections::HashMap::new();
    for ix in 0..attempts.len() {
        if let (Some(key), Some(number)) = (attempts.job_key.get(ix), attempts.attempt.get(ix)) {
            let slot = last.entry(key).or_insert(number);
            *slot = (*slot).max(number);
        }
    }
    let gpus_of: std::collections::HashMap<&str, f64> =
        (0..facts.len()).filter_map(|job| Some((jobs.job_key.get(job)?, facts.gpus(job)?))).collect();
    let lost = (0..attempts.len()).filter_map(|ix| {
        let key = attempts.job_key.get(ix)?;
        let earlier = attempts.attempt.get(ix)? < *last.get(key)?;
        let run = (attempts.end.get(ix)? - attempts.start.get(ix)?) as f64 / 1_000.0;
        // Where an attempt does not say what it held, it held what its job did.
        let gpus = attempts.alloc_gpus.get(ix).or_else(|| gpus_of.get(key).copied())?;
        earlier.then_some(run.max(0.0) * gpus)
    });
    Some(Retries {
        jobs: known.len() as u64,
        retried: known.iter().filter(|attempts| **attempts > 1).count() as u64,
        attempts: known.iter().fold(0, |sum: u64, attempts| sum.saturating_add(*attempts)),
        lost_gpu_hours: (!attempts.is_empty()).then(|| hours(stats::sum::NeumaierSum::from_iter(lost).value())),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::{AttemptRow, JobRow};

    #[test]
    fn cancelled_is_no_failure_and_lost_attempts_are_counted() {
        let mut trace = Trace::default();
        for (key, state, run, attempts) in [
            ("a", "completed", 3_600, 2),
            ("b", "failed", 7_200, 1),
            ("c", "cancelled", 60, 1),
            ("d", "node_fail", 3_600, 1),
        ] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(0),
                start: Some(0),
                end: Some(run * 1_000),
                run_s: Some(run as f64),
                alloc_gpus: Some(2.0),
                state: Some(state.into()),
                attempts: Some(attempts),
                ..JobRow::default()
            });
        }
        for (attempt, start, end) in [(1, 0, 1_800_000), (2, 1_800_000, 3_600_000)] {
            trace.attempts.push(AttemptRow {
                job_key: Some("a".into()),
                attempt: Some(attempt),
                start: Some(start),
                end: Some(end),
                alloc_gpus: Some(2.0),
                ..AttemptRow::default()
            });
        }
        let result = Failure::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((result.ended, result.failed), (4, 2));
        // b: 2 GPUs · 2 h, d: 2 GPUs · 1 h.
        assert_eq!(result.gpu_hours, Some(6.0));
        let retries = result.retries.unwrap();
        // The first attempt of a: 2 GPUs · half an hour.
        assert_eq!((retries.retried, retries.attempts, retries.lost_gpu_hours), (1, 5, Some(1.0)));
        // 2 + 4 + 60 s · 2 + 2 GPU-hours in use for one node failure.
        assert!((result.gpu_hours_per_node_failure.unwrap() - (8.0 + 2.0 / 60.0)).abs() < 1e-9);
    }
}
