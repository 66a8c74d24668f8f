//! A21: work that fails again and again.
//!
//! Work is what one user submits under one name, numbers aside ([`crate::facts::work`]); without
//! names, all that the user submits. Failures in a row are counted in the order in which the jobs
//! ended; a job that ended in any other way ends the row. Listed is work with at least three in a
//! row.
//!
//! Complexity: O(n log n) in jobs.
//!
//! Worked number: F F C F F F of one GPU-hour each are 6 jobs, 5 failures, 3 of them in a row, and
//! 5 GPU-hours lost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{RANKED, Topic, TopicResult, hours, larger_first, more};
use crate::facts::JobFacts;
use crate::facts::work::{Tries, Work};
use crate::report::format::{compact, count, counted};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::stats::sum::NeumaierSum;

/// Failures in a row from which on work is listed.
const IN_A_ROW: u64 = 3;

/// Work that failed at least three times in a row.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RepeatedFailure {
    /// User.
    pub user: String,
    /// Name in lower case with `#` for each number; `null` for jobs without a name.
    pub name: Option<String>,
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that failed, ran out of memory or reached their time limit.
    pub failures: u64,
    /// Most failures in a row.
    pub most_in_a_row: u64,
    /// GPU-hours of the failures; `null` where that of none is known.
    pub lost_gpu_hours: Option<f64>,
}

/// Repeated failures.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Repeated {
    /// Jobs that ended and whose user, submission and end are known.
    pub jobs: u64,
    /// Other jobs that ended, which are not counted.
    pub unknown_jobs: u64,
    /// Work with at least three failures in a row, most GPU-hours lost first.
    pub works: Vec<RepeatedFailure>,
    /// GPU-hours of its failures; `null` where that of none is known.
    pub lost_gpu_hours: Option<f64>,
}

/// Sums over the jobs of one work.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: u64,
    failures: u64,
    in_a_row: u64,
    most_in_a_row: u64,
    timed: u64,
    gpu_s: NeumaierSum,
}

impl Topic for Repeated {
    const ID: &'static str = "repeated";
    const CODE: &'static str = "A21";
    const TITLE: &'static str = "Repeated failures";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let mut tries = Tries::from_facts(facts);
        if !tries.jobs.iter().any(|job| job.failed) {
            return Err("no job is recorded as failed with its user, submission and end".to_owned());
        }
        tries.jobs.sort_by_key(|job| (job.end_ms, job.row));
        let mut of_work: BTreeMap<Work, Sums> = BTreeMap::new();
        for job in &tries.jobs {
            let sums = of_work.entry(job.work).or_default();
            sums.jobs += 1;
            sums.in_a_row = if job.failed { sums.in_a_row + 1 } else { 0 };
            sums.most_in_a_row = sums.most_in_a_row.max(sums.in_a_row);
            if job.failed {
                sums.failures += 1;
                sums.timed += u64::from(job.gpu_s.is_some());
                sums.gpu_s.add(job.gpu_s.unwrap_or(0.0));
            }
        }
        of_work.retain(|_, sums| sums.most_in_a_row >= IN_A_ROW);
        let mut works: Vec<RepeatedFailure> = of_work
            .into_iter()
            .map(|(work, sums)| RepeatedFailure {
                user: facts.trace.jobs.user.name(work.user).unwrap_or_default().to_owned(),
                name: tries.stem(work).map(str::to_owned),
                jobs: sums.jobs,
                failures: sums.failures,
                most_in_a_row: sums.most_in_a_row,
                lost_gpu_hours: (sums.timed > 0).then(|| hours(sums.gpu_s.value())),
            })
            .collect();
        works.sort_by(|a, b| {
            larger_first(a.lost_gpu_hours, b.lost_gpu_hours)
                .then(b.failures.cmp(&a.failures))
                .then_with(|| (&a.user, &a.name).cmp(&(&b.user, &b.name)))
        });
        let ended = facts.state.iter().filter(|state| state.is_final()).count();
        Ok(Self {
            jobs: tries.jobs.len() as u64,
            unknown_jobs: (ended - tries.jobs.len()) as u64,
            lost_gpu_hours: works.iter().filter_map(|work| work.lost_gpu_hours).reduce(|a, b| a + b),
            works,
        })
    }

    fn section(&self) -> Section {
        let coverage = format!(
            "{} that ended; the user, submission or end of {} more is unknown.",
            counted(self.jobs, "job", "jobs"),
            count(self.unknown_jobs)
        );
        let section = Self::heading().with_gpu_hours(self.lost_gpu_hours).with_coverage(coverage).with_definition(
            "Failed: ended by itself with an error, out of memory, or at its time limit. Names are one but for case and \
             numbers, each of which is shown as #. In a row: one after the other by their ends.",
        );
        let Some(first) = self.works.first() else {
            return section.with_finding("No user's jobs of one name failed three times in a row.");
        };
        let finding = format!(
            "The jobs of **{}** failed at least three times in a row; the failures held **{}** GPU-hours. {}{} failed {} times of {}, \
             up to {} in a row.",
            counted(self.works.len() as u64, "user and name", "pairs of user and name"),
            self.lost_gpu_hours.map_or_else(|| "an unknown number of".to_owned(), compact),
            first.user,
            first.name.as_deref().map_or_else(String::new, |name| format!(" ({name})")),
            count(first.failures),
            count(first.jobs),
            count(first.most_in_a_row)
        );
        let mut columns = vec![Column::text("User"), Column::text("Name")];
        columns.extend(["Jobs", "Failures", "Most in a row"].map(Column::number));
        columns.push(Column::with_unit("Lost", "GPU-hours"));
        let mut table = ReportTable::new("Work that keeps failing", columns);
        for work in self.works.iter().take(RANKED) {
            table.rows.push(vec![
                work.user.as_str().into(),
                Cell::opt(work.name.as_deref(), Cell::from),
                int(work.jobs),
                int(work.failures),
                int(work.most_in_a_row),
                Cell::opt(work.lost_gpu_hours, |value| Cell::Float { value, digits: 1 }),
            ]);
        }
        table.note = more(self.works.len(), "more row", "more rows");
        section.with_finding(finding).with_table(table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::JobRow;

    /// Jobs of one user, an hour each, one after another: `F` fails, `N` loses its node.
    fn push(trace: &mut Trace, user: &str, name: Option<&str>, gpus: Option<f64>, states: &str) {
        for (at, state) in (0..).zip(states.chars()) {
            trace.jobs.push(JobRow {
                user: Some(user.to_owned().into()),
                name: name.map(|name| format!("{name}{at}").into()),
                submit: Some(at * 3_600_000),
                start: Some(at * 3_600_000),
                end: Some((at + 1) * 3_600_000),
                run_s: Some(3_600.0),
                alloc_gpus: gpus,
                state: Some(match state {
                    'F' => "failed".into(),
                    'N' => "node_fail".into(),
                    _ => "completed".into(),
                }),
                ..JobRow::default()
            });
        }
    }

    #[test]
    fn the_worked_number_and_who_is_listed() {
        let mut trace = Trace::default();
        push(&mut trace, "ann", Some("Train_"), Some(1.0), "FFCFFF");
        push(&mut trace, "bob", None, None, "FFF");
        // Two in a row each, for a lost node is no failure of the work.
        push(&mut trace, "cid", Some("x"), Some(8.0), "FFNFF");
        let result = Repeated::of(&JobFacts::new(&trace)).unwrap();
        let row = |w: &RepeatedFailure| {
            (w.user.clone(), w.name.clone(), w.jobs, w.failures, w.most_in_a_row, w.lost_gpu_hours)
        };
        let rows: Vec<_> = result.works.iter().map(row).collect();
        let ann = ("ann".to_owned(), Some("train_#".to_owned()), 6, 5, 3, Some(5.0));
        assert_eq!(rows, [ann, ("bob".to_owned(), None, 3, 3, 3, None)]);
        assert_eq!((result.jobs, result.unknown_jobs, result.lost_gpu_hours), (14, 0, Some(5.0)));
    }

    #[test]
    fn a_trace_without_failures_says_so() {
        let mut trace = Trace::default();
        push(&mut trace, "ann", Some("x"), Some(1.0), "CCC");
        assert!(Repeated::of(&JobFacts::new(&trace)).is_err());
        push(&mut trace, "ann", Some("y"), Some(1.0), "FFC");
        let result = Repeated::of(&JobFacts::new(&trace)).unwrap();
        assert!(result.works.is_empty() && result.lost_gpu_hours.is_none());
    }
}
