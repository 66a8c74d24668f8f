//! Whom sharing helps and whom it slows: the scored jobs by VC, by user and by job type, under a way to share and with nobody sharing.
//!
//! **Delay** is from submission to end less the run alone. Who is slowed most, by the change of the mean delay, comes first. A table begins with who has most jobs that end later, as a mean
//! that falls may hide them, and has no groups to which nothing happened. O(jobs log jobs). Worked number: of two jobs of a VC one ends
//! 2 min later than with nobody sharing and one 10 min sooner: the mean delay falls by 4 min, and one of them has lost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, ReportTable, format};

use super::super::engine::SharingTimes;
use super::super::figures::{Counted, losses};
use crate::one_gpu::TypedJobs;
use crate::plan::tell;

/// Rows of a table of groups.
const MOST_ROWS: usize = 12;
/// Mean delays that differ by no more are the same, seconds: times are whole milliseconds.
const SAME_S: f64 = 1e-6;

/// Scored jobs of one VC, user or job type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharedGroup {
    /// Name of the group; null for jobs of which the record names none.
    pub name: Option<String>,
    /// How many.
    pub jobs: usize,
    /// Jobs that were beside another for any time.
    pub shared_jobs: usize,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// Mean wait with nobody sharing, seconds.
    pub exclusive_mean_wait_s: f64,
    /// Mean time from submission to end less the run alone, seconds.
    pub mean_delay_s: f64,
    /// Mean delay with nobody sharing, seconds.
    pub exclusive_mean_delay_s: f64,
    /// 0.9 quantile of the slowdown of those that shared; null where none did.
    pub slowdown90: Option<f64>,
    /// How many of those were slower than the SLO allows.
    pub over_slo_jobs: usize,
    /// Jobs that end later than with nobody sharing, by more than 1 % of their run.
    pub lost_jobs: usize,
}

/// The scored jobs in groups, each with the name that `name` gives it.
pub(super) fn groups<'a>(
    name: impl Fn(usize) -> Option<&'a str>,
    (jobs, times, base): (&TypedJobs, &[SharingTimes], &[SharingTimes]),
    scored: &[usize],
    slo: f64,
) -> Vec<SharedGroup> {
    let mut by: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for job in scored {
        by.entry(name(*job)).or_default().push(*job);
    }
    let of = |(name, own): (Option<&str>, Vec<usize>)| {
        let (counted, alone) = (Counted::new(jobs, times, &own, slo), Counted::new(jobs, base, &own, slo).figures());
        let figures = counted.figures();
        SharedGroup {
            name: name.map(str::to_owned),
            jobs: own.len(),
            shared_jobs: counted.slowdowns.len(),
            mean_wait_s: figures.mean_wait_s,
            exclusive_mean_wait_s: alone.mean_wait_s,
            mean_delay_s: figures.mean_delay_s,
            exclusive_mean_delay_s: alone.mean_delay_s,
            slowdown90: figures.slowdown90,
            over_slo_jobs: counted.over_slo,
            lost_jobs: losses(jobs, &own, base, times).0,
        }
    };
    let mut groups: Vec<SharedGroup> = by.into_iter().map(of).collect();
    groups.sort_by(|one, other| other.slowed_s().total_cmp(&one.slowed_s()));
    groups
}

impl SharedGroup {
    /// By how much the mean delay is longer than with nobody sharing, seconds.
    pub(super) fn slowed_s(&self) -> f64 {
        self.mean_delay_s - self.exclusive_mean_delay_s
    }

    /// Whether anything is other than with nobody sharing. Sums of equal delays may differ in their last digits.
    fn is_touched(&self) -> bool {
        self.shared_jobs > 0 || self.lost_jobs > 0 || self.slowed_s().abs() > SAME_S
    }
}

/// How many of the groups that have a name have jobs that end later, such as `3 of 8 VCs`; none where none has a name.
pub(super) fn losers(groups: &[SharedGroup], one: &str, many: &str) -> Option<String> {
    let named = || groups.iter().filter(|of| of.name.is_some());
    let lost = named().filter(|of| of.lost_jobs > 0).count();
    let all = named().count() as u64;
    (all > 0).then(|| format!("{} of {}", format::count(lost as u64), format::counted(all, one, many)))
}

/// Notes for readers of tables of these groups.
pub(super) fn definitions<'a>(groups: impl Iterator<Item = &'a SharedGroup>) -> Vec<String> {
    let is_negative = |of: &SharedGroup| of.mean_delay_s < 0.0;
    let mut said = vec![
        "**Delay**: from submission to end, less the run alone, on average. **Wait**: on average. **Change**: of the delay, against nobody sharing. The JSON has the same of every way to share.".to_owned(),
        "A group of which no job shared may have jobs that **end later** all the same: where others share, the queue moves.".to_owned(),
    ];
    if groups.into_iter().any(is_negative) {
        said.push("A delay below 0: some speeds above 1 were measured, so jobs beside others ended sooner than their run alone.".to_owned());
    }
    said
}

/// A table of the groups with most jobs that end later, and of equals of those that are slowed most or helped least; they are of this (`VC`), and its title begins so (`By VC`). None where nothing happened to any.
pub(super) fn table(of: &str, title: &str, groups: &[SharedGroup]) -> Option<ReportTable> {
    let mut touched: Vec<&SharedGroup> = groups.iter().filter(|of| of.is_touched()).collect();
    if touched.is_empty() {
        return None;
    }
    // Of equals the order of the answer stays.
    touched.sort_by_key(|of| std::cmp::Reverse(of.lost_jobs));
    let title = if touched.len() > MOST_ROWS {
        format!("{title}: the {MOST_ROWS} of {} with most jobs that end later", format::count(touched.len() as u64))
    } else {
        format!("{title}; first who has most jobs that end later")
    };
    let mut table = tell::table(
        title,
        &format!(
            "{of} | #Jobs | #Shared | #End later | #Wait, nobody shares | #Wait | #Delay, nobody shares | #Delay | #Change | #Slowdown, 0.9 | #Over the SLO"
        ),
    );
    for of in touched.iter().take(MOST_ROWS) {
        table.rows.push(vec![
            of.name.as_deref().unwrap_or("not named").into(),
            Cell::Int(of.jobs as i64),
            Cell::Int(of.shared_jobs as i64),
            Cell::Int(of.lost_jobs as i64),
            Cell::Duration(of.exclusive_mean_wait_s),
            Cell::Duration(of.mean_wait_s),
            Cell::Duration(of.exclusive_mean_delay_s),
            Cell::Duration(of.mean_delay_s),
            format::duration_change(of.slowed_s()).into(),
            Cell::opt(of.slowdown90, |slowdown| Cell::float(slowdown, 2)),
            Cell::Int(of.over_slo_jobs as i64),
        ]);
    }
    let untouched = (groups.len() - touched.len()) as u64;
    if untouched > 0 {
        table.note = Some(format!(
            "{} left out, to which nothing happened: no job shared, none ends later, and the delay is the same.",
            format::counted(untouched, "more is", "more are")
        ));
    }
    Some(table)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two jobs of 10 min of the VC a, and one of none: with nobody sharing they end after 12, 30 and 10 min, and beside each other after 14, 20 and 10.
    #[test]
    fn the_worked_number() {
        let jobs = TypedJobs { submit_ms: vec![0; 3], run_ms: vec![600_000; 3], kind: vec![0; 3] };
        let ending = |minute: i64| SharingTimes {
            start_ms: (minute - 10) * 60_000,
            end_ms: minute * 60_000,
            held_ms: 600_000,
            shared_ms: 0,
            failed: 0,
            taken_out: 0,
        };
        let base = [12, 30, 10].map(ending);
        let mut times = [14, 20, 10].map(ending);
        times[0] = SharingTimes { start_ms: 120_000, held_ms: 720_000, shared_ms: 720_000, ..times[0] };
        let vcs = [Some("a"), Some("a"), None];
        let result = groups(|job| vcs[job], (&jobs, &times, &base), &[0, 1, 2], 1.1);
        // Who gains nothing comes before who gains.
        assert_eq!(result.iter().map(|of| of.name.as_deref()).collect::<Vec<_>>(), [None, Some("a")]);
        let a = &result[1];
        assert_eq!((a.jobs, a.shared_jobs, a.over_slo_jobs, a.lost_jobs), (2, 1, 1, 1));
        assert_eq!((a.slowed_s(), a.exclusive_mean_delay_s, a.slowdown90), (-240.0, 660.0, Some(1.2)));
        assert_eq!((a.mean_wait_s, a.exclusive_mean_wait_s), (360.0, 660.0));
    }

    /// Regression test: tables were full of groups that were 0 everywhere, and had no room for the
    /// one with most jobs that end later, as its mean delay fell.
    #[test]
    fn a_table_begins_with_who_has_most_jobs_that_end_later() {
        let group = |name: &str, [shared, lost]: [usize; 2], [alone_s, delay_s]: [f64; 2]| SharedGroup {
            name: Some(name.to_owned()),
            jobs: 9,
            shared_jobs: shared,
            mean_wait_s: 0.0,
            exclusive_mean_wait_s: 0.0,
            mean_delay_s: delay_s,
            exclusive_mean_delay_s: alone_s,
            slowdown90: None,
            over_slo_jobs: 0,
            lost_jobs: lost,
        };
        // In the order of the answer.
        let mut result = vec![group("slowed", [2, 1], [10.0, 70.0]), group("bystander", [0, 1], [10.0, 40.0])];
        result.extend((0..20).map(|at| group(&format!("idle{at}"), [0, 0], [5.0, 5.0])));
        result.extend([group("moved", [0, 0], [5.0, 4.0]), group("most", [9, 7], [90.0, -30.0])]);
        let told = table("User", "By user", &result).unwrap();
        let column = |name: &str| told.columns.iter().position(|column| column.name == name).unwrap();
        let of = |name: &str| told.rows.iter().map(|row| row[column(name)].text()).collect::<Vec<_>>();
        assert_eq!(of("User"), ["most", "slowed", "bystander", "moved"]);
        assert_eq!(of("End later"), ["7", "1", "1", "0"]);
        assert_eq!(of("Change"), ["−2 min", "+1 min", "+30 s", "−1 s"]);
        assert_eq!(told.title, "By user; first who has most jobs that end later");
        assert!(told.note.as_ref().is_some_and(|note| note.starts_with("20 more are left out")), "{:?}", told.note);
        assert_eq!(losers(&result, "user", "users").as_deref(), Some("3 of 24 users"));
        // A delay below 0 is explained where there is one.
        assert_eq!((definitions(result.iter()).len(), definitions(result.iter().take(2)).len()), (3, 2));
        assert!(table("User", "By user", &result[2..22]).is_none() && losers(&[], "user", "users").is_none());
    }
}
