//! The rows that models of duration learn from: each job of a timeline with its features and its past as they were when it was submitted.
//!
//! The timeline is played to a [`Store`] once, O(n log n). A row may be learned from at time t if its job had ended by then; if it had started,
//! it is a bound (its age). Worked example: of jobs that ran from 0 to 60 s and from 30 to 500 s, at t = 100 s the first is a label, log 60,
//! and the second a bound, log 70.

use std::collections::HashMap;

use tracecast_analytics::facts::SizeClass;

use super::calibrate::{About, Class};
use crate::feature::{History, Past, Store, log_run};
use crate::matrix::Matrix;
use crate::timeline::{Job, Kind, Moment, Timeline};

/// A row without its features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Submission of the job, milliseconds.
    pub submit_ms: i64,
    /// Start of the job, milliseconds.
    pub start_ms: Option<i64>,
    /// End of the job, milliseconds.
    pub end_ms: Option<i64>,
    /// Log of its run; `None` if it never ran or never ended.
    pub y: Option<f64>,
    /// GPUs.
    pub gpus: f64,
    /// Class for calibration.
    pub class: Class,
    /// Code of its user; `None` if unknown.
    pub user: Option<u32>,
    /// Summary of earlier jobs at submission.
    pub past: Past,
}

impl Row {
    /// Facts of the job that its calibration depends on.
    pub fn about(&self) -> About {
        About { class: self.class, user: self.user, log_limit: self.past.log_limit }
    }
}

/// Rows of a timeline, in order of submission.
#[derive(Debug, Clone, Default)]
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
    Play::new(timeline, 0, timeline.jobs.len()).finish()
}

/// A timeline that is played as far as rows are needed, so that not all features have to be held at once.
pub(crate) struct Play<'a> {
    timeline: &'a Timeline,
    moments: std::iter::Peekable<std::vec::IntoIter<Moment>>,
    store: Store,
    codes: Codes,
    numbers: Vec<Option<u64>>,
    /// The rows: of those not played yet only what happens to the job is known.
    pub(crate) rows: Rows,
    /// First row whose features are held.
    held_from: usize,
    /// Features of jobs that never end, by row: they are asked about after the record.
    pub(crate) open: HashMap<usize, Vec<f32>>,
}

impl<'a> Play<'a> {
    /// New play of a timeline, with nothing played yet; features will be held from row `held_from`
    /// on, of so many rows at a time.
    pub(crate) fn new(timeline: &'a Timeline, held_from: usize, room: usize) -> Self {
        let store = Store::new(timeline.known);
        let features = Matrix::from_row(held_from, store.width(), room);
        let rows = Rows {
            columns: store.columns(),
            features,
            rows: skeleton(timeline),
            attributes: Matrix::from_row(held_from, 10, room),
        };
        Self {
            timeline,
            moments: timeline.moments().into_iter().peekable(),
            store,
            codes: Codes::default(),
            numbers: vec![None; timeline.jobs.len()],
            rows,
            held_from,
            open: HashMap::new(),
        }
    }

    /// Plays on until rows up to this one are known.
    pub(crate) fn until(&mut self, row: usize) {
        let mut aside = Vec::new();
        while let Some((time, kind, at)) =
            self.moments.next_if(|(_, kind, at)| *kind != Kind::Submit || (*at as usize) < row)
        {
            let at = at as usize;
            let Some(job) = self.timeline.jobs.get(at) else { continue };
            let number = self.numbers.get(at).copied().flatten();
            match (kind, number) {
                (Kind::Submit, _) => {
                    let submission = &job.submission;
                    if at >= self.held_from {
                        self.store.features(submission, time, self.rows.features.push());
                        self.codes.attributes(submission, self.rows.attributes.push());
                    } else {
                        self.codes.attributes(submission, &mut []);
                    }
                    if job.end_ms.is_none() {
                        aside.resize(self.store.width(), f32::NAN);
                        self.store.features(submission, time, &mut aside);
                        self.open.insert(at, aside.clone());
                    }
                    if let Some(row) = self.rows.rows.get_mut(at) {
                        row.class.history = self.store.history(submission);
                        row.user = submission.user.as_deref().map(|user| self.codes.code(0, Some(user)) as u32);
                        row.past = self.store.past(submission);
                    }
                    let number = self.store.submit(submission);
                    if let Some(slot) = self.numbers.get_mut(at) {
                        *slot = Some(number);
                    }
                }
                (Kind::Start, Some(number)) => {
                    self.store.start(number, time);
                }
                (Kind::End, Some(number)) => {
                    self.store.end(number, time, job.run_s, job.failed);
                }
                (_, None) => {}
            }
        }
    }

    /// Forgets the features of rows before this one.
    pub(crate) fn forget_before(&mut self, row: usize) {
        self.held_from = self.held_from.max(row);
        self.rows.features.forget_before(row);
        self.rows.attributes.forget_before(row);
    }

    /// Plays to the end; gives the rows, with the features that are held, and the store as it is then.
    pub(crate) fn finish(mut self) -> (Rows, Store) {
        self.until(usize::MAX);
        (self.rows, self.store)
    }
}

/// Rows before anything is played: what happens to each job.
pub(crate) fn skeleton(timeline: &Timeline) -> Vec<Row> {
    let row = |job: &Job| Row {
        submit_ms: job.submission.submit_ms,
        start_ms: job.start_ms,
        end_ms: job.end_ms,
        y: job.run_s.map(log_run),
        gpus: job.submission.gpus,
        class: Class { size: SizeClass::new(job.submission.gpus), history: History::None },
        user: None,
        past: Past::default(),
    };
    timeline.jobs.iter().map(row).collect()
}

/// Codes of texts in order of appearance: what a text is called then is no news from later.
#[derive(Debug, Default)]
struct Codes(HashMap<(u8, String), u32>);

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

/// Rows to learn from at one time.
#[derive(Debug, Clone, Default)]
pub struct Lesson {
    /// Rows, in order of submission.
    pub rows: Vec<u32>,
    /// Labels of the rows: log of the run, or of the age where the job still ran.
    pub labels: Vec<f32>,
    /// Whether each still ran.
    pub censored: Vec<bool>,
}

impl Rows {
    /// Rows known at `now_ms`: jobs submitted before it that had ended by then, at most the `most`
    /// last submitted; with `running`, also those that had started.
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
