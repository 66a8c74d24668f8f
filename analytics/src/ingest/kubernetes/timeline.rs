//! The attempts of a workload, from what is left of them.
//!
//! A Workload keeps the time of its latest admission and of its latest release only. Earlier ones are known from older snapshots of
//! the same object and from events, as far as these were kept. Kueue counts evictions and sums up how long the earlier attempts
//! ran, so that it is known how many are missing, and the one time that is missing of an otherwise known record follows from the
//! sum (to a second, as Kueue keeps whole seconds). What is unknown after that stays unknown.
//!
//! * An admission and a release in turn are one attempt. Two admissions without a release between them are two attempts, and when
//!   the first ended is unknown; within [`SAME_MS`] they are one, told by a condition and by an event.
//! * A release without an admission before it ends an attempt whose start is unknown. After a release, a second one is the same.
//! * Evictions are attempts where the workload ran before: Kueue has summed up past time, or it lost an admission. How many is known
//!   where Kueue counts evictions, and either there was one, or admission takes nothing but quota (otherwise a workload can be
//!   evicted before it ran).
//!
//! Worked example: one eviction, 600 s of past attempts, released 10:20:00, admitted again 11:00:00, finished 12:00:00. The first
//! attempt ended at 10:20:00 and so began at 10:10:00, the second ran from 11:00:00 to 12:00:00.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::JobState;
use crate::time::SECOND_MS;

/// An admission is told by a condition and by an event, whose times differ by at most so much.
const SAME_MS: i64 = 10 * SECOND_MS;
/// More attempts than this without a time are not listed one by one.
const MOST_UNKNOWN: u64 = 1_000;

/// Admissions and releases that any copy of a workload, or any event, told.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    pub(super) admitted: BTreeSet<i64>,
    pub(super) released: BTreeMap<i64, JobState>,
}

impl History {
    /// Takes what `other` tells.
    pub(super) fn join(&mut self, other: Self) {
        self.admitted.extend(other.admitted);
        for (at, cause) in other.released {
            self.release(at, cause);
        }
    }

    /// Notes a release. An eviction whose cause is told by one of two copies has that cause.
    pub(super) fn release(&mut self, at: i64, cause: JobState) {
        let known = self.released.entry(at).or_insert(cause);
        if *known == JobState::Cancelled {
            *known = cause;
        }
    }
}

/// What the latest copy of a workload says beside its history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest<'w> {
    /// Whether it is admitted.
    pub(super) running: bool,
    /// Whether it was deleted after that.
    pub(super) gone: bool,
    /// When it was over and how.
    pub(super) over: Option<(Option<i64>, JobState)>,
    /// Time its earlier attempts ran, seconds.
    pub(super) past_s: Option<f64>,
    /// Evictions by how they ended the attempt.
    pub(super) evictions: &'w [(JobState, u64)],
    /// Whether admission needs more than quota.
    pub(super) checked: bool,
    pub(super) created: Option<i64>,
}

/// One attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Attempt {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) reason: Option<JobState>,
    /// Whether it still runs.
    pub(super) open: bool,
}

impl Attempt {
    /// How long it ran, seconds.
    pub(super) fn run_s(&self) -> Option<f64> {
        Some((self.end? - self.start?) as f64 / SECOND_MS as f64)
    }
}

/// The attempts of a workload.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Timeline {
    pub(super) attempts: Vec<Attempt>,
    /// Whether that is all of them.
    pub(super) whole: bool,
}

/// Finds the attempts. O(n log n) for n times.
pub(super) fn timeline(history: &History, latest: Latest<'_>) -> Timeline {
    let mut attempts = walk(history);
    // The last attempt goes on, or ended with the job.
    let mut current = attempts.last().is_some_and(|last| last.end.is_none());
    if let (true, Some(last)) = (current, attempts.last_mut()) {
        match latest.over {
            Some((end, state)) if latest.running || end >= last.start => {
                last.end = end.filter(|end| last.start.is_none_or(|start| *end >= start));
                last.reason = state.is_final().then_some(state);
            }
            Some(_) => {}
            None if latest.running => last.open = !latest.gone,
            // It lost its admission at a time that is not known.
            None => current = false,
        }
    }
    let past = attempts.len() - usize::from(current);
    let evictions = latest.evictions.iter().fold(0_u64, |sum, (_, many)| sum.saturating_add(*many));
    let ran_before = latest.past_s.is_some() || past > 0;
    // How many earlier attempts there were, where that is known.
    let expected = match evictions {
        _ if !ran_before => Some(0),
        0 => None,
        1 => Some(1),
        many => (!latest.checked).then_some(many),
    };
    let missing = match expected {
        Some(expected) => expected.saturating_sub(past as u64),
        // There was at least one.
        None => u64::from(past == 0),
    };
    let listed = missing.min(MOST_UNKNOWN);
    attempts.splice(0..0, std::iter::repeat_n(Attempt::default(), listed as usize));
    let whole = expected.is_some() && listed == missing;
    let past = attempts.len() - usize::from(current);
    if let Some(past) = attempts.get_mut(..past) {
        // Where all evictions have one cause, it is that of each.
        if let [(cause, _)] = latest.evictions {
            past.iter_mut().for_each(|attempt| attempt.reason = attempt.reason.or(Some(*cause)));
        }
        if whole {
            fill(past, latest);
        }
    }
    Timeline { attempts, whole }
}

/// The attempts that admissions and releases tell, in their order; the last has no end where nothing after its admission is told.
fn walk(history: &History) -> Vec<Attempt> {
    let times: BTreeSet<i64> = history.admitted.iter().chain(history.released.keys()).copied().collect();
    let mut attempts: Vec<Attempt> = Vec::new();
    // Whether the last attempt has begun and was not released.
    let mut open = false;
    for at in times {
        let mut admit = history.admitted.contains(&at);
        let release = history.released.get(&at).copied();
        if admit && !open {
            attempts.push(Attempt { start: Some(at), ..Attempt::default() });
            (open, admit) = (true, false);
            if release.is_none() {
                continue;
            }
        }
        if let Some(cause) = release {
            match attempts.last_mut() {
                Some(last) => {
                    last.end = Some(at);
                    last.reason = last.reason.filter(|known| *known != JobState::Cancelled).or(Some(cause));
                }
                None => attempts.push(Attempt { end: Some(at), reason: Some(cause), ..Attempt::default() }),
            }
            open = false;
        }
        let again = |last: &Attempt| last.start.is_none_or(|start| at - start > SAME_MS);
        if admit && (!open || attempts.last().is_some_and(again)) {
            attempts.push(Attempt { start: Some(at), ..Attempt::default() });
            open = true;
        }
    }
    attempts
}

/// Fills the one time that is missing of otherwise known attempts, from the sum of how long they ran.
fn fill(past: &mut [Attempt], latest: Latest<'_>) {
    let Some(past_s) = latest.past_s else { return };
    let known_s: f64 = past.iter().filter_map(Attempt::run_s).sum::<f64>().max(0.0);
    let mut open = past.iter_mut().filter(|attempt| attempt.run_s().is_none());
    let (Some(attempt), None) = (open.next(), open.next()) else { return };
    let rest_ms = ((past_s - known_s) * SECOND_MS as f64) as i64;
    if rest_ms < 0 {
        return;
    }
    match (attempt.start, attempt.end) {
        (None, Some(end)) => attempt.start = Some(end - rest_ms).filter(|start| Some(*start) >= latest.created),
        (Some(start), None) => attempt.end = Some(start + rest_ms),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Latest<'_> = Latest {
        running: true,
        gone: false,
        over: None,
        past_s: None,
        evictions: &[],
        checked: false,
        created: Some(0),
    };

    fn history(admitted: &[i64], released: &[i64]) -> History {
        History {
            admitted: admitted.iter().map(|second| second * 1_000).collect(),
            released: released.iter().map(|second| (second * 1_000, JobState::Preempted)).collect(),
        }
    }

    /// Start and end in seconds.
    type Span = (Option<i64>, Option<i64>);

    /// The attempts, and whether they are all.
    fn told(history: &History, latest: Latest<'_>) -> (Vec<Span>, bool) {
        let seconds = |ms: Option<i64>| ms.map(|ms| ms / 1_000);
        let timeline = timeline(history, latest);
        (timeline.attempts.iter().map(|of| (seconds(of.start), seconds(of.end))).collect(), timeline.whole)
    }

    #[test]
    fn one_admission_is_one_attempt() {
        assert_eq!(told(&history(&[5], &[]), NOW), (vec![(Some(5), None)], true));
        let over = Latest { over: Some((Some(9_000), JobState::Completed)), ..NOW };
        assert_eq!(told(&history(&[5], &[]), over), (vec![(Some(5), Some(9))], true));
        assert_eq!(told(&history(&[], &[]), Latest { running: false, ..NOW }), (vec![], true));
        // Deleted while it ran: it ended, and when is unknown.
        let gone = timeline(&history(&[5], &[]), Latest { gone: true, ..NOW });
        assert_eq!((gone.attempts.len(), gone.attempts.iter().any(|of| of.open), gone.whole), (1, false, true));
        assert!(timeline(&history(&[5], &[]), NOW).attempts.iter().all(|of| of.open));
    }

    // Evicted once after 600 s, released at 1,200: it began at 600. Admitted again at 3,000.
    #[test]
    fn the_one_missing_time_follows_from_the_sum() {
        let evictions = [(JobState::Preempted, 1)];
        let latest = Latest { past_s: Some(600.0), evictions: &evictions, ..NOW };
        assert_eq!(
            told(&history(&[3_000], &[1_200]), latest),
            (vec![(Some(600), Some(1_200)), (Some(3_000), None)], true)
        );
        // An older snapshot told the first admission.
        assert_eq!(
            told(&history(&[600, 3_000], &[]), latest),
            (vec![(Some(600), Some(1_200)), (Some(3_000), None)], true)
        );
        // Neither is told: there was an attempt of which no time is known.
        assert_eq!(told(&history(&[3_000], &[]), latest), (vec![(None, None), (Some(3_000), None)], true));
        // It cannot have begun before it was created.
        let late = Latest { created: Some(700_000), ..latest };
        assert_eq!(told(&history(&[], &[1_200]), Latest { running: false, ..late }), (vec![(None, Some(1_200))], true));
    }

    #[test]
    fn how_many_there_were_is_unknown_where_nothing_counts_them() {
        let latest = Latest { past_s: Some(60.0), ..NOW };
        assert_eq!(told(&history(&[500], &[]), latest), (vec![(None, None), (Some(500), None)], false));
        let evictions = [(JobState::Preempted, 3)];
        let latest = Latest { evictions: &evictions, ..latest };
        assert_eq!(told(&history(&[500], &[]), latest).0.len(), 4);
        // With admission checks an eviction may have come before any run.
        assert!(!told(&history(&[500], &[]), Latest { checked: true, ..latest }).1);
        // Evicted, and never ran.
        let waited = Latest { past_s: None, running: false, ..latest };
        assert_eq!(told(&history(&[], &[]), waited), (vec![], true));
    }

    #[test]
    fn an_event_and_a_condition_tell_the_same_admission() {
        assert_eq!(told(&history(&[5, 6], &[]), NOW), (vec![(Some(5), None)], true));
        let evictions = [(JobState::Preempted, 1)];
        let latest = Latest { evictions: &evictions, ..NOW };
        // An event says evicted at 50, the condition that quota was free at 58.
        assert_eq!(told(&history(&[5, 90], &[50, 58]), latest), (vec![(Some(5), Some(58)), (Some(90), None)], true));
        // Released and admitted in the same second.
        assert_eq!(told(&history(&[5, 50], &[50]), latest), (vec![(Some(5), Some(50)), (Some(50), None)], true));
    }

    #[test]
    fn a_count_of_billions_is_no_list() {
        let evictions = [(JobState::Preempted, u64::MAX), (JobState::Cancelled, 1)];
        let latest = Latest { past_s: Some(1.0), evictions: &evictions, ..NOW };
        let found = timeline(&history(&[5], &[]), latest);
        assert_eq!((found.attempts.len(), found.whole), (1_001, false));
    }
}
