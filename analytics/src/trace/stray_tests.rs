#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::schema::{ActivityRow, AttemptRow, JobRow, PlacementRow};
use crate::time::{HOUR_MS, TimeBasis, parse_with_offset};

/// A moment of UTC.
fn at(date: &str) -> i64 {
    parse_with_offset(&format!("{date} 00:00:00Z")).unwrap()
}

fn job(key: usize, submit: i64, end: i64) -> JobRow<'static> {
    JobRow {
        job_key: Some(key.to_string().into()),
        submit: Some(submit),
        start: Some(submit),
        end: Some(end),
        ..JobRow::default()
    }
}

/// `count` jobs of an hour, one an hour from 2020 on.
fn year(count: usize) -> Trace {
    let mut trace = Trace::default();
    let mut times = at("2020-01-01");
    for key in 0..count {
        trace.jobs.push(job(key, times, times + HOUR_MS));
        times += HOUR_MS;
    }
    trace.ledger.keep_many(count as u64);
    trace
}

/// Keys of the jobs that were set apart, and what the ledger says of it.
fn apart(mut trace: Trace) -> (Vec<String>, u64, Vec<String>) {
    let before: Vec<String> = trace.jobs.job_key.iter().flatten().map(str::to_owned).collect();
    set_apart(&mut trace);
    assert!(trace.ledger.balances());
    let after: HashSet<&str> = trace.jobs.job_key.iter().flatten().collect();
    let gone = before.iter().filter(|key| !after.contains(key.as_str())).cloned().collect();
    let told = trace.ledger.entries.iter().flat_map(|entry| &entry.examples).map(|example| example.text.clone());
    let (told, count) = (told.collect(), trace.ledger.quarantined);
    let again = trace.ledger.clone();
    set_apart(&mut trace);
    assert_eq!(trace.ledger, again, "what was set apart once leaves nothing");
    (gone, count, told)
}

#[test]
fn one_date_of_another_century_is_set_apart_and_named() {
    for (submit, end, text) in [
        ("2020-02-01", "2099-01-01", "job 9999: 2099-01-01 00:00:00, all others 2020-01-01 to 2020-03-24"),
        ("1900-01-01", "1900-01-02", "job 9999: 1900-01-01 00:00:00, all others 2020-01-01 to 2020-03-24"),
    ] {
        // 2,000 hours from 2020-01-01 are 83 days and 8 hours: to 2020-03-24.
        let mut trace = year(2_000);
        trace.jobs.push(job(9_999, at(submit), at(end)));
        trace.ledger.keep_many(1);
        assert_eq!(apart(trace), (vec!["9999".to_owned()], 1, vec![text.to_owned()]));
    }
}

#[test]
fn a_run_of_39_million_minutes_is_set_apart_where_no_end_is_recorded() {
    let mut trace = year(2_000);
    let start = at("2020-02-01");
    trace.jobs.push(JobRow { end: None, reported_run_s: Some(39e6 * 60.0), ..job(7_777, start, 0) });
    // 39 M minutes are 74.15 years.
    let (gone, count, told) = apart(trace);
    assert_eq!((gone, count), (vec!["7777".to_owned()], 1));
    assert!(told[0].starts_with("job 7777: 2094-"), "{told:?}");
}

#[test]
fn honest_archives_are_kept_whole() {
    // An idle year, and an idle four years, between two months of jobs.
    for second in ["2021-04-01", "2024-04-01"] {
        let mut trace = year(700);
        trace.jobs.push(job(800, at(second), at(second) + HOUR_MS));
        assert_eq!(apart(trace).0, [""; 0]);
    }
    // Thirty years, a job a month, and one twenty years after: further than five years, but not than the archive is long.
    let mut trace = Trace::default();
    let month = 30 * DAY_MS;
    for key in 0..365 {
        let submit = at("1990-01-01") + key as i64 * month;
        trace.jobs.push(job(key, submit, submit + HOUR_MS));
    }
    trace.jobs.push(job(900, at("2040-01-01"), at("2040-01-02")));
    assert_eq!(apart(trace).0, [""; 0]);
    // Two records of different years, and two rows: no majority to judge by.
    let mut trace = year(10);
    for key in 20..30 {
        trace.jobs.push(job(key, at("2000-01-01"), at("2000-01-02")));
    }
    assert_eq!(apart(trace).0, [""; 0]);
    let mut trace = year(1);
    trace.jobs.push(job(5, at("2000-01-01"), at("2000-01-02")));
    assert_eq!(apart(trace).0, [""; 0]);
    // Without dates, 0 is a time like any other.
    let mut trace = Trace { basis: TimeBasis::Relative, ..Trace::default() };
    for key in 0..100 {
        trace.jobs.push(job(key, key as i64 * HOUR_MS, key as i64 * HOUR_MS + 1));
    }
    assert_eq!(apart(trace), (Vec::new(), 0, Vec::new()));
}

/// Nine years before the others: the first job of a number that began again is one, a date that is wrong is none.
#[test]
fn a_job_whose_number_was_used_again_is_kept_however_far_it_is() {
    let with = |first: JobRow<'static>| {
        let mut trace = year(100);
        trace
            .jobs
            .push(JobRow { job_key: Some("777@1577836800".into()), ..job(777, at("2020-01-01"), at("2020-01-02")) });
        trace.jobs.push(JobRow { job_key: Some("777".into()), ..first });
        trace.ledger.keep_many(2);
        apart(trace).0
    };
    let mut others = year(100);
    others.jobs.push(job(999, at("2011-01-01"), at("2011-01-02")));
    assert_eq!(apart(others).0, ["999"]);
    assert_eq!(with(job(777, at("2011-01-01"), at("2011-01-02"))), [""; 0]);
    let wrong = JobRow { start: Some(at("2020-01-01")), ..job(777, at("2011-01-01"), at("2020-01-02")) };
    assert_eq!(with(wrong), ["777"]);
}

#[test]
fn attempts_and_placements_go_with_their_job() {
    let mut trace = year(100);
    for (key, end) in [("3", at("1970-03-01")), ("4", at("2020-01-02"))] {
        let start = Some(at("2020-01-01"));
        trace.attempts.push(AttemptRow { job_key: Some(key.into()), start, end: Some(end), ..AttemptRow::default() });
        trace.placements.push(PlacementRow { job_key: Some(key.into()), ..PlacementRow::default() });
    }
    set_apart(&mut trace);
    assert_eq!((trace.jobs.len(), trace.attempts.len(), trace.placements.len()), (99, 1, 1));
    assert_eq!(trace.ledger.quarantined, 1);
    assert!(trace.ledger.entries[0].examples[0].text.starts_with("job 3: 1970-03-01"), "{:?}", trace.ledger.entries);
}

#[test]
fn samples_of_another_time_are_set_apart() {
    let mut trace = Trace::default();
    for minute in 0..1_000 {
        let ts = Some(at("2023-05-01") + minute * 60_000);
        trace.activity.push(ActivityRow { ts, ..ActivityRow::default() });
    }
    trace.activity.push(ActivityRow { ts: Some(0), ..ActivityRow::default() });
    trace.ledger.keep_many(1_001);
    set_apart(&mut trace);
    assert_eq!((trace.activity.len(), trace.ledger.quarantined), (1_000, 1));
    assert!(trace.ledger.balances());
}

#[test]
fn a_time_of_1970_is_unknown_however_many_there_are() {
    let mut trace = year(100);
    for key in 100..180 {
        // Waiting still: start and end are zeros, and a reader derived the run from them.
        let submit = at("2020-01-03");
        trace.jobs.push(JobRow { start: Some(0), end: Some(submit), run_s: Some(1.5e9), ..job(key, submit, 0) });
    }
    trace.ledger.keep_many(80);
    set_apart(&mut trace);
    assert_eq!((trace.jobs.len(), trace.ledger.repaired, trace.ledger.quarantined), (180, 80, 0));
    assert_eq!((trace.jobs.start.get(150), trace.jobs.run_s.get(150)), (None, None));
    assert!(trace.ledger.balances());
}

/// A run of nearly five years in a file of days is reported.
#[test]
fn an_end_long_after_all_others_is_told() {
    let with = |ends: &[&str]| {
        let mut trace = year(200);
        for (key, end) in (1_000..).zip(ends) {
            trace.jobs.push(job(key, at("2020-01-05"), at(end)));
        }
        late_ends(&trace)
    };
    let told = with(&["2024-09-01"]).unwrap();
    assert!(
        told.contains("1 job ends more than 30 days after the last submission, such as 1000 (1696 days)"),
        "{told}"
    );
    // A month is nothing out of the ordinary, and what many do is no error.
    assert_eq!((with(&[]), with(&["2020-02-05"]), with(&["2024-09-01"; 30])), (None, None, None));
}
