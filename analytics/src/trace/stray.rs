//! Times that lie far from all others, and what is done about them.
//!
//! One date of 2099 or 1900, or a run of 39 million minutes, would stretch the observation over a century: curves, slots and
//! hours would be of that century, and shares of time would mean nothing. So rows with such a time are set apart when a trace is
//! read, before anything is derived from it, and the quality ledger names them. This is the only place that decides it.
//!
//! **Far** is a time further from the bulk of its table than [`LEAST_GAP_MS`] (five years) and further than the bulk itself
//! spans. The bulk is the largest group of times that no gap of more than five years divides, with the groups near it. An archive
//! with an idle year, or one of ten or of thirty years, is one bulk. Times of jobs are their submission, eligibility, start, end
//! (where it is unknown: start and run), and those of their attempts; telemetry and activity have one a row.
//!
//! **Few** rows alone are set apart: at most one in twenty of a table, or one. Where more are far, the table holds two records of
//! different years, and which of them is wrong, if any, is not for a program to say. What works by slots bounds them by rows.
//!
//! **Used again**: a job whose number another job of the trace has too, and whose times are in order (submission, start and end), is
//! real however far it is: numbers begin again once they run out, after years.
//!
//! **1970**: where dates are true and the bulk begins after 1990, a time within a day of 1970-01-01 is a zero that stands for an
//! unknown time (of a job that has not started, say). It becomes unknown, and the row is kept, however many there are.
//!
//! **Late** is an end that is not far, but later after the last submission than all submissions span, and than [`LEAST_LATE_MS`] (30 days): a run of four years in a
//! record of some days. It may be true, so nothing is set apart; where such ends are few, a warning names one ([`late_ends`]).
//!
//! O(n log n) where the times of a table span more than five years, else O(n).
//!
//! Worked number: 2,000 jobs of 2020 and one that ends in 2099: the gap of 79 years is longer than five years and than the one
//! year that the others span, and 1 of 2,001 is few: the job is set apart. Jobs of 1990 to 2020 and of 2040 are all kept: the gap
//! of 20 years is shorter than the 30 years of the others.

use std::collections::HashSet;

use crate::quality::{Ledger, Reason};
use crate::report::format::counted;
use crate::schema::{Numbers, Table};
use crate::time::{DAY_MS, FARTHEST_MS, SECOND_MS, format_utc};
use crate::trace::Trace;

/// No time is far from others that are less than this away, ms: five years.
pub const LEAST_GAP_MS: i64 = 5 * YEAR_MS;

/// No end is late that is less than this after the last submission, ms: 30 days.
pub const LEAST_LATE_MS: i64 = 30 * DAY_MS;

const YEAR_MS: i64 = 365 * DAY_MS + DAY_MS / 4;
/// At most one row in so many is set apart (or one).
const FEW: usize = 20;
/// Fewer rows than this tell no bulk from a stray.
const LEAST_ROWS: usize = 3;
/// Number of characters of a job's key that are shown.
const SHOWN_KEY: usize = 24;

/// A row has a time that is far from all others.
pub const FAR_TIME: Reason = Reason {
    id: "time_far_from_all_others",
    what: "a time of the row lies more than five years from those of all other rows, and further than these span; the row \
           is not used",
    remedy: "correct the date in the source; where it is true, read that part of the record on its own",
};

/// A time of 1970 stands for an unknown one.
pub const ZERO_TIME: Reason = Reason {
    id: "time_of_1970",
    what: "a time is 1970-01-01, decades before all others: a zero that stands for an unknown time; it is set to unknown",
    remedy: "nothing is lost; export unknown times as empty",
};

/// First and last of the times that belong together, of times in rising order; `None` if there are none.
fn bulk(sorted: &[i64]) -> Option<(i64, i64)> {
    let groups: Vec<&[i64]> = sorted.chunk_by(|a, b| b.saturating_sub(*a) <= LEAST_GAP_MS).collect();
    // Of groups as large as each other, the first.
    let (main, _) = groups.iter().enumerate().rev().max_by_key(|(_, group)| group.len())?;
    let (mut low, mut high) = (main, main);
    let ends = |low: usize, high: usize| Some((*groups.get(low)?.first()?, *groups.get(high)?.last()?));
    loop {
        let (first, last) = ends(low, high)?;
        let reach = last.saturating_sub(first).max(LEAST_GAP_MS);
        let before = low.checked_sub(1).and_then(|at| groups.get(at)?.last());
        let after = groups.get(high + 1).and_then(|group| group.first());
        if before.is_some_and(|before| first.saturating_sub(*before) <= reach) {
            low -= 1;
        } else if after.is_some_and(|after| after.saturating_sub(last) <= reach) {
            high += 1;
        } else {
            return Some((first, last));
        }
    }
}

/// Whether a time is far from the bulk.
fn is_far(time: i64, (first, last): (i64, i64)) -> bool {
    let reach = last.saturating_sub(first).max(LEAST_GAP_MS);
    time < first.saturating_sub(reach) || time > last.saturating_add(reach)
}

/// The bulk of some times, where they span enough for one to be far.
fn bulk_of(mut times: Vec<i64>) -> Option<(i64, i64)> {
    let (first, last) = (*times.iter().min()?, *times.iter().max()?);
    if last.saturating_sub(first) <= LEAST_GAP_MS {
        return None;
    }
    times.sort_unstable();
    bulk(&times)
}

/// Sets apart the rows of `trace` that have a time far from all others, and makes times of 1970 that stand for unknown ones unknown.
/// The ledger counts and names them. What was set apart once leaves nothing to set apart.
pub fn set_apart(trace: &mut Trace) {
    let file = trace.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
    let file = if file.is_empty() { "the trace".to_owned() } else { file };
    if trace.basis.has_dates() {
        zeros(trace, &file);
    }
    jobs(trace, &file);
    let ledger = &mut trace.ledger;
    samples(&mut trace.activity, |table| &table.ts, &file, ledger);
    samples(&mut trace.gpu_samples, |table| &table.ts, &file, ledger);
    samples(&mut trace.node_samples, |table| &table.ts, &file, ledger);
}

/// A sentence on jobs that end long after all others, where those are few; `None` if there are none. O(jobs).
pub fn late_ends(trace: &Trace) -> Option<String> {
    let jobs = &trace.jobs;
    let submitted = || jobs.submit.iter().flatten();
    let (first, last) = (submitted().min()?, submitted().max()?);
    let latest = last.saturating_add(last.saturating_sub(first).max(LEAST_LATE_MS));
    let late = || (0..jobs.len()).filter_map(|job| Some((job, jobs.end.get(job).filter(|end| *end > latest)?)));
    let count = late().count();
    if count == 0 || count > (jobs.len() / FEW).max(1) || jobs.len() < LEAST_ROWS {
        return None;
    }
    let (job, end) = late().max_by_key(|(_, end)| *end)?;
    let days = (end - last) / DAY_MS;
    Some(format!(
        "{} more than {} days after the last submission, such as {} ({days} days): if that is an error of the source, correct it there, as means and totals hang on it.",
        counted(count as u64, "job ends", "jobs end"),
        (latest - last) / DAY_MS,
        shown(jobs.job_key.get(job)),
    ))
}

/// Name of a time and its value, ms.
type Time = (&'static str, i64);

/// The times of a job: those recorded, and the end that its run leads to where none is.
fn times_of(trace: &Trace, job: usize) -> impl Iterator<Item = Time> {
    let jobs = &trace.jobs;
    let [submit, eligible, start, end] = [&jobs.submit, &jobs.eligible, &jobs.start, &jobs.end].map(|of| of.get(job));
    let run = || {
        let run = jobs.reported_attempts_s.get(job).or(jobs.run_s.get(job)).or(jobs.reported_run_s.get(job))?;
        let from = start.or(submit)?;
        (run >= 0.0).then(|| from.saturating_add((run * SECOND_MS as f64).round() as i64).min(FARTHEST_MS))
    };
    let by_run = if end.is_none() { run() } else { None };
    [("submit", submit), ("eligible", eligible), ("start", start), ("end", end), ("start and run", by_run)]
        .into_iter()
        .filter_map(|(name, time)| Some((name, time?)))
}

/// A key as messages show it.
fn shown(key: Option<&str>) -> String {
    key.map_or_else(|| "without a key".to_owned(), |key| key.chars().take(SHOWN_KEY).collect())
}

fn jobs(trace: &mut Trace, file: &str) {
    let attempts = &trace.attempts;
    let of_attempts = |row: usize| {
        let ends = [("start of an attempt", &attempts.start), ("end of an attempt", &attempts.end)];
        ends.into_iter().filter_map(move |(name, of)| Some((name, of.get(row)?)))
    };
    let all =
        (0..trace.jobs.len()).flat_map(|job| times_of(trace, job)).chain((0..attempts.len()).flat_map(of_attempts));
    let Some(bulk) = bulk_of(all.map(|(_, time)| time).collect()) else { return };
    let far = |(_, time): &Time| is_far(*time, bulk);
    // By job: an attempt of a job that is set apart goes with it.
    let mut keys: HashSet<&str> = HashSet::new();
    let mut by_attempt: Vec<(Option<&str>, Time)> = Vec::new();
    for row in 0..attempts.len() {
        if let Some(time) = of_attempts(row).find(far) {
            let key = attempts.job_key.get(row);
            if key.is_none_or(|key| keys.insert(key)) {
                by_attempt.push((key, time));
            }
        }
    }
    let mut result: Vec<(Option<&str>, Time)> = Vec::new();
    let mut rows: HashSet<usize> = HashSet::new();
    let numbers = reused(trace);
    for job in 0..trace.jobs.len() {
        let key = trace.jobs.job_key.get(job);
        let again = key.is_some_and(|key| numbers.contains(number(key))) && in_order(trace, job);
        let of_job = times_of(trace, job).filter(|_| !again).find(far);
        let time = of_job.or_else(|| {
            let key = key.filter(|key| keys.contains(key))?;
            by_attempt.iter().find(|(of, _)| *of == Some(key)).map(|(_, time)| *time)
        });
        if let Some(time) = time {
            rows.insert(job);
            result.push((key, time));
        }
    }
    let all = trace.jobs.len().max(attempts.len());
    if all < LEAST_ROWS || result.len().max(by_attempt.len()) > (all / FEW).max(1) {
        return;
    }
    let gone: HashSet<String> =
        result.iter().chain(&by_attempt).filter_map(|(key, _)| key.map(str::to_owned)).collect();
    let told = if result.is_empty() { &by_attempt } else { &result };
    for (key, (name, time)) in told {
        let text = format!("job {}: {}", shown(*key), against(*time, bulk));
        trace.ledger.quarantine_later(FAR_TIME, file, name, &text);
    }
    if !result.is_empty() {
        keep(&mut trace.jobs, |_, row| !rows.contains(&row));
    }
    let stays = |key: Option<&str>| key.is_none_or(|key| !gone.contains(key));
    keep(&mut trace.attempts, |table, row| {
        stays(table.job_key.get(row))
            && [&table.start, &table.end].iter().all(|of| of.get(row).is_none_or(|time| !is_far(time, bulk)))
    });
    if !gone.is_empty() {
        keep(&mut trace.placements, |table, row| stays(table.job_key.get(row)));
    }
}

/// The number of a job without the submission that tells it from others of that number.
fn number(key: &str) -> &str {
    key.split_once('@').map_or(key, |(number, _)| number)
}

/// Numbers that several jobs have.
fn reused(trace: &Trace) -> HashSet<&str> {
    trace.jobs.job_key.iter().flatten().filter(|key| key.contains('@')).map(number).collect()
}

/// Whether a job's submission, start and end are known and follow one another within the time that
/// is never far.
fn in_order(trace: &Trace, job: usize) -> bool {
    let jobs = &trace.jobs;
    let times = [&jobs.submit, &jobs.start, &jobs.end].map(|of| of.get(job));
    let [Some(submit), Some(start), Some(end)] = times else { return false };
    submit <= start && start <= end && end.saturating_sub(submit) <= LEAST_GAP_MS
}

/// A time against the bulk, in words.
fn against(time: i64, (first, last): (i64, i64)) -> String {
    let day = |ms: i64| format_utc(ms).chars().take(10).collect::<String>();
    format!("{}, all others {} to {}", format_utc(time), day(first), day(last))
}

fn samples<T: Table>(table: &mut T, times: impl Fn(&T) -> &Numbers<i64>, file: &str, ledger: &mut Ledger) {
    let Some(bulk) = bulk_of(times(table).iter().flatten().collect()) else { return };
    let far: Vec<i64> = times(table).iter().flatten().filter(|time| is_far(*time, bulk)).collect();
    if table.len() < LEAST_ROWS || far.len() > (table.len() / FEW).max(1) {
        return;
    }
    for time in far {
        ledger.quarantine_later(FAR_TIME, file, "ts", &format!("{}: {}", T::NAME, against(time, bulk)));
    }
    keep(table, |table, row| times(table).get(row).is_none_or(|time| !is_far(time, bulk)));
}

/// Keeps the rows for which `stays` holds.
fn keep<T: Table>(table: &mut T, stays: impl Fn(&T, usize) -> bool) {
    // Row numbers are 32 bits throughout, as [`Table::permute`] takes them.
    let order: Vec<u32> = (0u32..).take(table.len()).filter(|row| stays(table, *row as usize)).collect();
    if order.len() < table.len() {
        table.permute(&order);
    }
}

/// Makes times within a day of 1970-01-01 unknown where all others are from after 1990.
fn zeros(trace: &mut Trace, file: &str) {
    let zero = |time: i64| time.unsigned_abs() <= DAY_MS.unsigned_abs();
    let jobs = &trace.jobs;
    let columns = [&jobs.submit, &jobs.eligible, &jobs.start, &jobs.end, &trace.attempts.start, &trace.attempts.end];
    let all = || columns.iter().flat_map(|of| of.iter()).flatten();
    if !all().any(zero) {
        return;
    }
    let mut others: Vec<i64> = all().filter(|time| !zero(*time)).collect();
    others.sort_unstable();
    if bulk(&others).is_none_or(|(first, _)| first < 20 * YEAR_MS) {
        return;
    }
    // A run of decades that was derived from such a time is none either.
    let derived = |run: Option<f64>| run.is_some_and(|run| run * SECOND_MS as f64 > LEAST_GAP_MS as f64);
    for row in 0..trace.jobs.len() {
        let jobs = &mut trace.jobs;
        let times = [
            ("submit", &mut jobs.submit),
            ("eligible", &mut jobs.eligible),
            ("start", &mut jobs.start),
            ("end", &mut jobs.end),
        ];
        let mut names = Vec::new();
        for (name, of) in times {
            if of.get(row).is_some_and(zero) {
                of.set(row, None);
                names.push(name);
            }
        }
        if names.is_empty() {
            continue;
        }
        for of in [&mut jobs.run_s, &mut jobs.reported_run_s, &mut jobs.reported_wait_s] {
            if derived(of.get(row)) {
                of.set(row, None);
            }
        }
        let text = format!("job {}", shown(jobs.job_key.get(row)));
        trace.ledger.repair_later(ZERO_TIME, file, 0, &names.join(", "), &text);
    }
    let attempts = &mut trace.attempts;
    for row in 0..attempts.len() {
        for of in [&mut attempts.start, &mut attempts.end] {
            if of.get(row).is_some_and(zero) {
                of.set(row, None);
            }
        }
    }
}

#[cfg(test)]
#[path = "stray_tests.rs"]
mod tests;
