//! The attempts of a workload, from what is left of them.
//!
//! A Workload keeps the time of its latest admission and of its latest release only. Earlier ones are known from older snapshots of
//! the same object and from events, as far as these were kept. Kueue counts evictions and sums up how long the earlier attempts
//! ran, so that it is known how many are missing, and the one time that is missing of an otherwise known record follows from the
//! sum (to a second, as Kueue keeps whole seconds). What is unknown after that stays unknown.
//!
//! * An admission and a release in turn are one attempt. Two admissions without a release between them are two attempts, and when
//!   the first ended is unknown; within [`SAME_MS`] they are one, told by a condition and by an event.
//! * A release that a condition tells ends an attempt: without an admission before it, one whose start is unknown.
//! * An eviction that an event tells ends an attempt only where one was open, as workloads are evicted too that were never admitted.
//!   Before any admission it ends an attempt where Kueue's sum has time that no other attempt accounts for.
//! * Evictions are attempts where the workload ran before: Kueue has summed up past time, or it lost an admission. How many is known
//!   where Kueue counts evictions, and either there was one, or admission takes nothing but quota (otherwise a workload can be
//!   evicted before it ran). Of those without any time one is listed, the others are counted.
//!
//! Worked example: one eviction, 600 s of past attempts, released 10:20:00, admitted again 11:00:00, finished 12:00:00. The first
//! attempt ended at 10:20:00 and so began at 10:10:00, the second ran from 11:00:00 to 12:00:00.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::JobState;
use crate::time::SECOND_MS;

/// An admission is told by a condition and by an event, whose times differ by at most so much.
const SAME_MS: i64 = 10 * SECOND_MS;
/// Number of attempts without a time that are listed; more rows would say no more.
const MOST_UNKNOWN: u64 = 1;

/// Admissions and releases that any copy of a workload, or any event, told.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    pub(super) admitted: BTreeSet<i64>,
    /// Releases that a condition told: each ended an attempt.
    pub(super) released: BTreeMap<i64, JobState>,
    /// Evictions that an event told, be it of a workload that was not admitted.
    pub(super) evicted: BTreeMap<i64, JobState>,
}

impl History {
    /// Takes what `other` tells.
    pub(super) fn join(&mut self, other: Self) {
        self.admitted.extend(other.admitted);
        for (at, cause) in other.released {
            self.release(at, cause);
        }
        for (at, cause) in other.evicted {
            self.evict(at, cause);
        }
    }

    /// Notes a release that a condition tells.
    pub(super) fn release(&mut self, at: i64, cause: JobState) {
        note(&mut self.released, at, cause);
    }

    /// Notes an eviction that an event tells.
    pub(super) fn evict(&mut self, at: i64, cause: JobState) {
        note(&mut self.evicted, at, cause);
    }
}

/// Notes how an attempt ended. What one of two copies tells the cause of has that cause.
fn note(ends: &mut BTreeMap<i64, JobState>, at: i64, cause: JobState) {
    let known = ends.entry(at).or_insert(cause);
    if *known == JobState::Cancelled {
        *known = cause;
    }
}

/// State of a workload in its latest copy, beside its history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest<'w> {
    /// Whether the workload is admitted.
    pub(super) running: bool,
    /// Whether the workload was deleted after that.
    pub(super) gone: bool,
    /// End, if known, and end state, once over.
    pub(super) over: Option<(Option<i64>, JobState)>,
    /// Time that earlier attempts ran, seconds.
    pub(super) past_s: Option<f64>,
    /// Evictions by how they ended the attempt.
    pub(super) evictions: &'w [(JobState, u64)],
    /// Whether admission needs more than quota.
    pub(super) checked: bool,
    pub(super) created: Option<i64>,
}

impl Latest<'_> {
    /// Kueue's sum of earlier attempts, of a workload with `several`. It begins anew when a time limit was reached.
    fn sum_s(&self, several: bool) -> Option<f64> {
        let limit = |state: JobState| several && state == JobState::Timeout;
        let anew = self.over.is_some_and(|(_, state)| limit(state)) || self.evictions.iter().any(|(of, _)| limit(*of));
        self.past_s.filter(|_| !anew)
    }
}

/// One attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Attempt {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) reason: Option<JobState>,
    /// Whether the attempt still runs.
    pub(super) open: bool,
}

impl Attempt {
    /// Run time of the attempt, seconds.
    pub(super) fn run_s(&self) -> Option<f64> {
        Some((self.end? - self.start?) as f64 / SECOND_MS as f64)
    }
}

/// The attempts of a workload.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Timeline {
    pub(super) attempts: Vec<Attempt>,
    /// Attempts without a time beyond the one that is listed.
    pub(super) unlisted: u64,
    /// Whether all attempts are listed.
    pub(super) whole: bool,
    /// Kueue's sum of the run times of all attempts, of a workload with several that is over,
    /// seconds.
    pub(super) summed_s: Option<f64>,
}

/// Finds the attempts. O(n log n) for n times.
pub(super) fn timeline(history: &History, latest: Latest<'_>) -> Timeline {
    let mut attempts = walk(history, latest);
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
    // Where all evictions have one cause, it is that of each.
    if let [(cause, _)] = latest.evictions {
        attempts.iter_mut().take(past).for_each(|attempt| attempt.reason = attempt.reason.or(Some(*cause)));
    }
    if whole {
        fill(&mut attempts, past, latest);
    }
    let summed_s = summed_s(&attempts, latest);
    Timeline { attempts, unlisted: missing - listed, whole, summed_s }
}

/// Sum of the run times of all attempts of a workload with several, once it is over, seconds. The
/// last is in Kueue's sum where its admission was lost.
fn summed_s(attempts: &[Attempt], latest: Latest<'_>) -> Option<f64> {
    let over = latest.over.is_some_and(|(end, _)| end.is_some());
    let past_s = latest.sum_s(true).filter(|_| over && attempts.len() > 1)?;
    if latest.running { Some(past_s + attempts.last()?.run_s()?) } else { Some(past_s) }
}

/// The attempts that admissions and releases tell, in their order; the last has no end where nothing after its admission is told.
fn walk(history: &History, latest: Latest<'_>) -> Vec<Attempt> {
    let over = latest.over.and_then(|(end, _)| end).unwrap_or(i64::MAX);
    // What is told of a workload after its end is no end of an attempt.
    let evicted = history.evicted.range(..=over).map(|(at, _)| at);
    let times: BTreeSet<i64> = history.admitted.iter().chain(history.released.keys()).chain(evicted).copied().collect();
    let mut attempts: Vec<Attempt> = Vec::new();
    // Whether the last attempt has begun and was not released; whether an event alone tells its end; an eviction before all of them.
    let (mut open, mut by_event, mut early) = (false, false, None);
    for at in times {
        let mut admit = history.admitted.contains(&at);
        let release = history.released.get(&at).or(history.evicted.get(&at)).copied();
        let told = history.released.contains_key(&at);
        if admit && !open {
            attempts.push(Attempt { start: Some(at), ..Attempt::default() });
            (open, admit) = (true, false);
            if release.is_none() {
                continue;
            }
        }
        if let Some(cause) = release {
            match attempts.last_mut() {
                // The quota is free a while after the eviction, which the condition tells.
                Some(last) if open || (told && by_event) => {
                    last.end = Some(at);
                    last.reason = last.reason.filter(|known| *known != JobState::Cancelled).or(Some(cause));
                    by_event = !told;
                }
                _ if told => {
                    attempts.push(Attempt { end: Some(at), reason: Some(cause), ..Attempt::default() });
                    by_event = false;
                }
                None => early = Some((at, cause)),
                Some(_) => {}
            }
            open = false;
        }
        let again = |last: &Attempt| last.start.is_none_or(|start| at - start > SAME_MS);
        if admit && (!open || attempts.last().is_some_and(again)) {
            attempts.push(Attempt { start: Some(at), ..Attempt::default() });
            open = true;
        }
    }
    if let Some((at, cause)) = early
        && ran_before(&attempts, latest)
    {
        attempts.insert(0, Attempt { end: Some(at), reason: Some(cause), ..Attempt::default() });
    }
    attempts
}

/// Whether an eviction before these attempts ended another, so that Kueue's sum includes time of
/// other attempts.
fn ran_before(attempts: &[Attempt], latest: Latest<'_>) -> bool {
    let known_s: f64 = attempts.iter().filter_map(Attempt::run_s).sum();
    // Without a start, the first attempt may be the one that the event tells the end of.
    latest.past_s.is_some_and(|past_s| past_s > known_s) && attempts.first().is_none_or(|first| first.start.is_some())
}

/// Fills the one time that is missing of the first `past` attempts, from the sum of how long they ran. A time that does not lie between
/// the attempts beside it is none.
fn fill(attempts: &mut [Attempt], past: usize, latest: Latest<'_>) {
    let earlier = || attempts.iter().take(past);
    let Some(past_s) = latest.sum_s(attempts.len() > 1) else { return };
    let known_s: f64 = earlier().filter_map(Attempt::run_s).sum::<f64>().max(0.0);
    let mut open = earlier().enumerate().filter(|(_, attempt)| attempt.run_s().is_none());
    let (Some((ix, attempt)), None) = (open.next(), open.next()) else { return };
    let rest_ms = ((past_s - known_s) * SECOND_MS as f64) as i64;
    if rest_ms < 0 {
        return;
    }
    let before = attempts.iter().take(ix).rev().find_map(|attempt| attempt.end.or(attempt.start)).or(latest.created);
    let after = attempts.iter().skip(ix + 1).find_map(|attempt| attempt.start.or(attempt.end));
    let after = after.or(latest.over.and_then(|(end, _)| end)).unwrap_or(i64::MAX);
    let (start, end) = match (attempt.start, attempt.end) {
        (None, Some(end)) => (end.checked_sub(rest_ms).filter(|start| Some(*start) >= before), Some(end)),
        (Some(start), None) => (Some(start), start.checked_add(rest_ms).filter(|end| *end <= after)),
        times => times,
    };
    if let Some(attempt) = attempts.get_mut(ix) {
        (attempt.start, attempt.end) = (start, end);
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
            evicted: BTreeMap::new(),
        }
    }

    fn with_events(admitted: &[i64], released: &[i64], evicted: &[i64]) -> History {
        let evicted = evicted.iter().map(|second| (second * 1_000, JobState::Preempted)).collect();
        History { evicted, ..history(admitted, released) }
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
        let result = timeline(&history(&[500], &[]), latest);
        assert_eq!((result.attempts.len(), result.unlisted, result.whole), (2, 2, false));
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
        let both = with_events(&[5, 90], &[58], &[50]);
        assert_eq!(told(&both, latest), (vec![(Some(5), Some(58)), (Some(90), None)], true));
        // Released and admitted in the same second.
        assert_eq!(told(&history(&[5, 50], &[50]), latest), (vec![(Some(5), Some(50)), (Some(50), None)], true));
    }

    #[test]
    fn a_count_of_billions_is_no_list() {
        let evictions = [(JobState::Preempted, u64::MAX), (JobState::Cancelled, 1)];
        let latest = Latest { past_s: Some(1.0), evictions: &evictions, ..NOW };
        let result = timeline(&history(&[5], &[]), latest);
        assert_eq!((result.attempts.len(), result.unlisted, result.whole), (2, u64::MAX - 1, false));
    }

    // Workloads are evicted that never ran: an event ends an attempt only where one is open, or where Kueue's sum knows of one.
    #[test]
    fn an_event_ends_only_what_had_begun() {
        let waits = Latest { running: false, ..NOW };
        assert_eq!(told(&with_events(&[], &[], &[50]), waits), (vec![], true));
        assert_eq!(told(&with_events(&[90], &[], &[50]), NOW), (vec![(Some(90), None)], true));
        let evictions = [(JobState::Preempted, 1)];
        let ran = Latest { past_s: Some(20.0), evictions: &evictions, ..waits };
        assert_eq!(told(&with_events(&[], &[], &[50]), ran), (vec![(Some(30), Some(50))], true));
        // The 20 s are those of the attempt from 60 to 80, and the event before it ended none.
        assert_eq!(told(&with_events(&[60], &[80], &[50]), ran), (vec![(Some(60), Some(80))], true));
        // Long after the release, or after the end.
        assert_eq!(told(&with_events(&[5], &[50], &[500]), waits).0, vec![(Some(5), Some(50))]);
        let over = Latest { over: Some((Some(50_000), JobState::Completed)), ..NOW };
        assert_eq!(told(&with_events(&[5], &[], &[500]), over).0, vec![(Some(5), Some(50))]);
    }

    // The condition of another snapshot tells another release: an attempt between the two, of which 70 - (50 - 5) = 25 s are left.
    #[test]
    fn a_second_release_is_of_another_attempt() {
        let evictions = [(JobState::Preempted, 2)];
        let latest = Latest { running: false, past_s: Some(70.0), evictions: &evictions, ..NOW };
        assert_eq!(told(&history(&[5], &[50, 500]), latest), (vec![(Some(5), Some(50)), (Some(475), Some(500))], true));
    }

    // A sum that no clock can hold, and one that reaches into the next attempt (5 + 86 s is after 90), fill nothing.
    #[test]
    fn a_sum_that_does_not_fit_fills_nothing() {
        let evictions = [(JobState::Preempted, 1)];
        for (past_s, end) in [(u64::MAX as f64, None), (1e300, None), (86.0, None), (85.0, Some(90))] {
            let latest = Latest { past_s: Some(past_s), evictions: &evictions, ..NOW };
            assert_eq!(told(&history(&[5, 90], &[]), latest).0, vec![(Some(5), end), (Some(90), None)], "{past_s}");
            let released = told(&history(&[90], &[50]), Latest { past_s: Some(past_s), ..latest }).0;
            assert_eq!(released, vec![(None, Some(50)), (Some(90), None)], "{past_s}");
        }
    }

    // 600 + 300 s. Where the last admission was lost, the sum holds it already; at a time limit the sum begins anew.
    #[test]
    fn the_sum_holds_the_last_attempt_once() {
        let evictions = [(JobState::Preempted, 1)];
        let of = |running: bool, past_s: f64, state: JobState, history: History| {
            let over = Some((Some(1_300_000), state));
            let latest = Latest { running, over, past_s: Some(past_s), evictions: &evictions, ..NOW };
            timeline(&history, latest).summed_s
        };
        assert_eq!(of(true, 600.0, JobState::Completed, history(&[1_000], &[700])), Some(900.0));
        assert_eq!(of(false, 900.0, JobState::Cancelled, history(&[100, 1_000], &[700, 1_300])), Some(900.0));
        assert_eq!(of(false, 300.0, JobState::Timeout, history(&[100, 1_000], &[700, 1_300])), None);
    }
}
