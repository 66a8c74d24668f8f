//! Whom sharing helps and whom it slows: the scored jobs by VC, by user and by job type, under a way to share and with nobody sharing.
//!
//! **Delay** is from submission to end less the run alone. Who is slowed most, by the change of the mean delay, comes first. O(jobs log jobs). Worked number: of two jobs of a VC one ends
//! 2 min later than with nobody sharing and one 10 min sooner: the mean delay falls by 4 min, and one of them has lost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, ReportTable};

use super::super::engine::SharingTimes;
use super::super::figures::{Counted, losses};
use crate::one_gpu::TypedJobs;

/// Rows of a table of groups.
const MOST_ROWS: usize = 12;

/// Scored jobs of one VC, user or job type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SharedGroup {
    /// Which; null for jobs of which the record names none.
    pub name: Option<String>,
    /// How many.
    pub jobs: usize,
    /// Those that were beside another for any time.
    pub shared_jobs: usize,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// The same with nobody sharing.
    pub exclusive_mean_wait_s: f64,
    /// Mean time from submission to end less the run alone, seconds.
    pub mean_delay_s: f64,
    /// The same with nobody sharing.
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
        let (counted, alone) = (Counted::of(jobs, times, &own, slo), Counted::of(jobs, base, &own, slo).figures());
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
}

/// A table of the groups that are slowed most, and then helped least; they are of this (`VC`), and its title begins so (`By VC`).
pub(super) fn table(of: &str, title: &str, groups: &[SharedGroup]) -> ReportTable {
    let title = if groups.len() > MOST_ROWS {
        format!("{title}: the {MOST_ROWS} of {} whose mean delay grew most or fell least", groups.len())
    } else {
        format!("{title}; first whose mean delay grew most or fell least")
    };
    let mut table = ReportTable::new(
        title,
        vec![
            Column::text(of),
            Column::number("Jobs"),
            Column::number("Shared"),
            Column::number("Wait, nobody shares"),
            Column::number("Wait"),
            Column::number("Delay, nobody shares"),
            Column::number("Delay"),
            Column::number("Slowdown, 0.9"),
            Column::number("Over the SLO"),
            Column::number("End later"),
        ],
    );
    for of in groups.iter().take(MOST_ROWS) {
        table.rows.push(vec![
            of.name.as_deref().unwrap_or("not named").into(),
            Cell::Int(of.jobs as i64),
            Cell::Int(of.shared_jobs as i64),
            Cell::Duration(of.exclusive_mean_wait_s),
            Cell::Duration(of.mean_wait_s),
            Cell::Duration(of.exclusive_mean_delay_s),
            Cell::Duration(of.mean_delay_s),
            Cell::opt(of.slowdown90, |slowdown| Cell::float(slowdown, 2)),
            Cell::Int(of.over_slo_jobs as i64),
            Cell::Int(of.lost_jobs as i64),
        ]);
    }
    table
}

#[cfg(test)]
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
        let found = groups(|job| vcs[job], (&jobs, &times, &base), &[0, 1, 2], 1.1);
        // Who gains nothing comes before who gains.
        assert_eq!(found.iter().map(|of| of.name.as_deref()).collect::<Vec<_>>(), [None, Some("a")]);
        let a = &found[1];
        assert_eq!((a.jobs, a.shared_jobs, a.over_slo_jobs, a.lost_jobs), (2, 1, 1, 1));
        assert_eq!((a.slowed_s(), a.exclusive_mean_delay_s, a.slowdown90), (-240.0, 660.0, Some(1.2)));
        assert_eq!((a.mean_wait_s, a.exclusive_mean_wait_s), (360.0, 660.0));
    }
}
