//! The rows that models of duration learn from: each job of a timeline with its features and its past as they were when it was submitted.
//!
//! The timeline is played to a [`Store`] once, O(n log n). A row may be learned from at time t if its job had ended by then; if it had started,
//! it is a bound (its age). Worked example: of jobs that ran from 0 to 60 s and from 30 to 500 s, at t = 100 s the first is a label, log 60,
//! and the second a bound, log 70.

use tracecast_analytics::facts::SizeClass;

use super::calibrate::{About, Class};
use crate::feature::{Past, Store, log_run};
use crate::matrix::Matrix;
use crate::timeline::{Kind, Timeline};

/// What a row is beside its features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// When the job was submitted, milliseconds.
    pub submit_ms: i64,
    /// When it started.
    pub start_ms: Option<i64>,
    /// When it ended.
    pub end_ms: Option<i64>,
    /// Log of its run; `None` if it never ran or never ended.
    pub y: Option<f64>,
    /// GPUs.
    pub gpus: f64,
    /// Class for calibration.
    pub class: Class,
    /// Code of its user; `None` if unknown.
    pub user: Option<u32>,
    /// What the past said.
    pub past: Past,
}

impl Row {
    /// What the job is calibrated by.
    pub fn about(&self) -> About {
        About { class: self.class, user: self.user, log_limit: self.past.log_limit }
    }
}

/// Rows of a timeline, in order of submission.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Names of the features.
    pub columns: Vec<String>,
    /// Features, a row a job.
    pub features: Matrix,
    /// The rest, a row a job.
    pub rows: Vec<Row>,
    /// Attributes as QSSF's trees take them: GPUs, CPUs, month, day, weekday, hour, minute, and codes of user, VC and name stem.
    pub attributes: Matrix,
}

/// Plays a timeline; gives the rows, and the store as it is after the last event.
pub fn play(timeline: &Timeline) -> (Rows, Store) {
    let mut store = Store::new(timeline.known);
    let mut features = Matrix::new(store.width());
    let mut attributes = Matrix::new(10);
    let mut codes = Codes::default();
    let mut rows = Vec::with_capacity(timeline.jobs.len());
    let mut numbers: Vec<Option<u64>> = vec![None; timeline.jobs.len()];
    for (time, kind, at) in timeline.moments() {
        let Some(job) = timeline.jobs.get(at as usize) else { continue };
        let number = numbers.get(at as usize).copied().flatten();
        match (kind, number) {
            (Kind::Submit, _) => {
                let submission = &job.submission;
                store.features(submission, time, features.push());
                codes.attributes(submission, attributes.push());
                let user = submission.user.as_deref().map(|user| codes.code(0, Some(user)) as u32);
                rows.push(Row {
                    submit_ms: time,
                    start_ms: job.start_ms,
                    end_ms: job.end_ms,
                    y: job.run_s.map(log_run),
                    gpus: submission.gpus,
                    class: Class { size: SizeClass::of(submission.gpus), history: store.history(submission) },
                    user,
                    past: store.past(submission),
                });
                let number = store.submit(submission);
                if let Some(slot) = numbers.get_mut(at as usize) {
                    *slot = Some(number);
                }
            }
            (Kind::Start, Some(number)) => {
                store.start(number, time);
            }
            (Kind::End, Some(number)) => {
                store.end(number, time, job.run_s, job.failed);
            }
            (_, None) => {}
        }
    }
    (Rows { columns: store.columns(), features, rows, attributes }, store)
}

/// Codes of texts in order of appearance: what a text is called then is no news from later.
#[derive(Debug, Default)]
struct Codes(std::collections::HashMap<(u8, String), u32>);

impl Codes {
    fn code(&mut self, kind: u8, text: Option<&str>) -> f32 {
        let Some(text) = text else { return f32::NAN };
        let next = self.0.len() as u32;
        *self.0.entry((kind, text.to_owned())).or_insert(next) as f32
    }

    fn attributes(&mut self, job: &crate::job::Submission, row: &mut [f32]) {
        let at = jiff::Timestamp::from_millisecond(job.submit_ms).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
        let stem = job.name.as_deref().map(crate::feature::name::stem);
        let values = [
            job.gpus as f32,
            job.cpus.map_or(f32::NAN, |cpus| cpus as f32),
            f32::from(at.month()),
            f32::from(at.day()),
            f32::from(at.weekday().to_monday_zero_offset()),
            f32::from(at.hour()),
            f32::from(at.minute()),
            self.code(0, job.user.as_deref()),
            self.code(1, job.vc.as_deref()),
            self.code(2, stem.as_deref()),
        ];
        for (cell, value) in row.iter_mut().zip(values) {
            *cell = if value.is_finite() { value } else { f32::NAN };
        }
    }
}

/// What may be learned from at a time.
#[derive(Debug, Clone, Default)]
pub struct Lesson {
    /// Rows, in order of submission.
    pub rows: Vec<u32>,
    /// Their labels: log of the run, or of the age where it still ran.
    pub labels: Vec<f32>,
    /// Whether each still ran.
    pub censored: Vec<bool>,
}

impl Rows {
    /// What was known at `now_ms`: jobs submitted before it that had ended by then, at most the `most` last submitted; with `running`, those
    /// that had started, too.
    pub fn lesson(&self, now_ms: i64, running: bool, most: usize) -> Lesson {
        let mut lesson = Lesson::default();
        let before = self.rows.partition_point(|row| row.submit_ms < now_ms);
        for (at, row) in self.rows.iter().enumerate().take(before).rev() {
            if lesson.rows.len() >= most {
                break;
            }
            let known = match (row.y, row.end_ms) {
                (Some(y), Some(end)) if end <= now_ms => Some((y, false)),
                _ => row
                    .start_ms
                    .filter(|start| running && *start < now_ms && row.end_ms.is_none_or(|end| end > now_ms))
                    .map(|start| (log_run((now_ms - start) as f64 / 1000.0), true)),
            };
            if let Some((y, censored)) = known {
                lesson.rows.push(at as u32);
                lesson.labels.push(y as f32);
                lesson.censored.push(censored);
            }
        }
        lesson.rows.reverse();
        lesson.labels.reverse();
        lesson.censored.reverse();
        lesson
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::job::Submission;
    use crate::timeline::Job;

    fn job(submit_s: i64, run_s: f64) -> Job {
        let submission = Submission { submit_ms: submit_s * 1000, gpus: 1.0, ..Submission::default() };
        Job::without_wait(0, submission, run_s)
    }

    #[test]
    fn the_worked_example() {
        let timeline = Timeline { jobs: vec![job(0, 60.0), job(30, 470.0), job(90, 1.0)], ..Timeline::default() };
        let (rows, _) = play(&timeline);
        // The third is submitted when only the first has ended.
        assert!((rows.rows[2].past.running_mean.unwrap() - 60f64.ln()).abs() < 1e-9);
        assert!(rows.rows[1].past.running_mean.is_none());
        let lesson = rows.lesson(100_000, true, 10);
        assert_eq!(
            (lesson.rows.as_slice(), lesson.censored.as_slice()),
            ([0, 1, 2].as_slice(), [false, true, false].as_slice())
        );
        assert!((lesson.labels[1] - 70f32.ln()).abs() < 1e-6);
        assert_eq!(rows.lesson(100_000, false, 10).rows, [0, 2]);
        assert_eq!(rows.lesson(100_000, false, 1).rows, [2], "the last ones are kept");
    }

    /// The leak test: whatever happens after t, what is known of jobs submitted up to t is the same.
    #[test]
    fn what_comes_later_changes_nothing_before() {
        let mut state = 7u64;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut jobs: Vec<Job> = (0..400).map(|at| job(at * 37, (1 + draw(3000)) as f64)).collect();
        for job in &mut jobs {
            job.submission.user = Some(format!("u{}", draw(4)));
            job.submission.name = Some(format!("n{}", draw(30)));
            job.submission.vc = Some(format!("v{}", draw(2)));
        }
        let known = crate::feature::Known { user: true, name: true, vc: true, limit: false };
        let (one, _) = play(&Timeline { jobs: jobs.clone(), known, ..Timeline::default() });
        let now = 200 * 37_000;
        // Ends after `now` come at other times, and later jobs run other lengths under other names.
        let mut changed = jobs;
        for (at, job) in changed.iter_mut().enumerate() {
            if job.end_ms.unwrap() > now {
                let run_s = (now - job.submission.submit_ms).max(0) as f64 / 1000.0 + 1.0 + draw(9000) as f64;
                job.run_s = Some(run_s);
                job.end_ms = Some(job.submission.submit_ms + (run_s * 1000.0) as i64);
            }
            if at > 200 {
                job.submission.user = Some(format!("u{}", draw(9)));
            }
        }
        let (other, _) = play(&Timeline { jobs: changed, known, ..Timeline::default() });
        let bits = |rows: &Rows, at: usize| rows.features.row(at).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for at in 0..=200 {
            assert_eq!(bits(&one, at), bits(&other, at), "row {at}");
            assert_eq!(one.rows[at].past, other.rows[at].past);
        }
        // And it would tell: a later row does differ.
        assert!((201..400).any(|at| bits(&one, at) != bits(&other, at)));
        let (first, second) = (one.lesson(now, true, 9999), other.lesson(now, true, 9999));
        assert_eq!((first.rows, first.labels), (second.rows, second.labels));
    }
}
