//! Validity of recorded sizes of VCs and of the cluster: one definition for descriptions, plans,
//! replays and cluster files.
//!
//! A table of sizes is a record like any other, with a beginning and an end, and what it does not tell of a day is no word on that day:
//!
//! * A size holds until the next one of the same VC begins. A VC that has no GPUs any more is recorded with 0.
//! * The last size of a VC holds on where the whole record of sizes ends, or where a job of the VC comes after it: jobs do not run on nodes that are gone. Else it ends where it is said to end.
//! * The first holds from the beginning in the same way: where the whole record begins with it, or a job of the VC came before it.
//!
//! Sizes that end before most of the jobs come are of [another time](Outrun::is_of_another_time). O(n log n) in sizes and jobs.
//!
//! Worked example: the sizes of `a` are recorded to day 181 and those of `b` to day 180. If a job of `b` comes on day 181, its last size holds on; else `b` was gone by then.

use std::collections::BTreeMap;

use crate::schema::Table;
use crate::trace::Trace;

/// Share of the jobs that have to come while sizes are recorded for these to be of their time: half.
const OF_THEIR_TIME: f64 = 0.5;

/// Time in which a size holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Beginning, milliseconds since the epoch; `None`: from the beginning of the record.
    pub since: Option<i64>,
    /// End, milliseconds since the epoch; `None`: to the end of the record.
    pub until: Option<i64>,
}

impl Held {
    /// Whether the size holds at a moment.
    pub fn at(&self, ms: i64) -> bool {
        self.since.is_none_or(|since| since <= ms) && self.until.is_none_or(|until| ms < until)
    }

    /// Returns the time between two ends of a record.
    pub fn within(&self, from: i64, to: i64) -> (i64, i64) {
        (self.since.unwrap_or(from), self.until.unwrap_or(to))
    }
}

/// First and last moment at which a job came, by VC.
#[derive(Default)]
struct Came<'t> {
    of: BTreeMap<&'t str, (i64, i64)>,
    all: Option<(i64, i64)>,
}

impl<'t> Came<'t> {
    fn new(trace: &'t Trace) -> Self {
        let jobs = &trace.jobs;
        let mut came = Self::default();
        for job in 0..jobs.len() {
            // One that had to wait was there from its submission on, and ran at its start.
            let times = [jobs.submit.get(job), jobs.start.get(job)];
            let mut times = times.iter().flatten().copied();
            let Some(first) = times.next() else { continue };
            let last = times.next().unwrap_or(first);
            let wider = |(from, to): (i64, i64)| (from.min(first), to.max(last));
            came.all = Some(came.all.map_or((first, last), wider));
            if let Some(vc) = jobs.vc.get(job) {
                let known = came.of.entry(vc).or_insert((first, last));
                *known = wider(*known);
            }
        }
        came
    }
}

/// Rows of the capacity table that tell the size of a VC or of the cluster.
fn sized(trace: &Trace) -> impl Iterator<Item = usize> + '_ {
    let table = &trace.capacity;
    (0..table.len()).filter(move |row| {
        let of_all = matches!(table.scope.get(*row), Some("vc" | "cluster"));
        of_all && table.state.get(*row).is_none_or(|state| state == "up") && has_amount(trace, *row)
    })
}

fn has_amount(trace: &Trace, row: usize) -> bool {
    let table = &trace.capacity;
    [&table.gpus, &table.nodes, &table.cpus].iter().any(|amounts| amounts.get(row).is_some())
}

/// Time in which each row of the capacity table holds; a row that is no size of a VC or of the
/// cluster keeps its recorded time.
pub fn held(trace: &Trace) -> Vec<Held> {
    let table = &trace.capacity;
    let said = |row: usize| Held { since: table.from.get(row), until: table.to.get(row) };
    let mut result: Vec<Held> = (0..table.len()).map(said).collect();
    if sized(trace).next().is_none() {
        return result;
    }
    let begins = sized(trace).filter_map(|row| table.from.get(row)).min();
    let ends = sized(trace).map(|row| table.to.get(row)).try_fold(i64::MIN, |ends, to| Some(ends.max(to?)));
    let came = Came::new(trace);
    let mut by_name: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for row in sized(trace) {
        let key = (table.scope.get(row).unwrap_or_default(), table.name.get(row).unwrap_or_default());
        by_name.entry(key).or_default().push(row);
    }
    for ((scope, name), mut rows) in by_name {
        let begin = |row: &usize| table.from.get(*row).unwrap_or(i64::MIN);
        rows.sort_by_key(begin);
        let of_jobs = if scope == "vc" { came.of.get(name).copied() } else { came.all };
        for (at, row) in rows.iter().enumerate() {
            // Sizes that begin together are of one time.
            let next = rows.get(at..).unwrap_or_default().iter().map(begin).find(|next| *next > begin(row));
            let Some(held) = result.get_mut(*row) else { continue };
            held.until = match next {
                Some(next) => Some(next),
                None => held.until.filter(|until| {
                    let goes_on = ends == Some(*until) || of_jobs.is_some_and(|(_, last)| last >= *until);
                    !goes_on
                }),
            };
            let is_first = rows.first().map(begin) == Some(begin(row));
            if is_first {
                held.since = held.since.filter(|since| {
                    let was_there = begins == Some(*since) || of_jobs.is_some_and(|(first, _)| first < *since);
                    !was_there
                });
            }
        }
    }
    result
}

/// End of the record of sizes, if jobs come after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outrun {
    /// End of the record, milliseconds since the epoch.
    pub end_ms: i64,
    /// First submission or start of a job, milliseconds since the epoch.
    pub first_ms: i64,
    /// Share of the jobs that came after the end of the record.
    pub later_share: f64,
}

impl Outrun {
    /// `None` where no job comes after all sizes have ended, or a size has no date or no end.
    pub fn new(trace: &Trace) -> Option<Self> {
        let table = &trace.capacity;
        let mut end: Option<i64> = None;
        for row in sized(trace) {
            table.from.get(row)?;
            let to = table.to.get(row)?;
            end = Some(end.map_or(to, |end| end.max(to)));
        }
        let end_ms = end?;
        let jobs = &trace.jobs;
        let came = (0..jobs.len()).filter_map(|job| jobs.submit.get(job).or(jobs.start.get(job)));
        let (mut all, mut later, mut first_ms) = (0u64, 0u64, i64::MAX);
        for at in came {
            all += 1;
            later += u64::from(at >= end_ms);
            first_ms = first_ms.min(at);
        }
        (later > 0).then(|| Self { end_ms, first_ms, later_share: later as f64 / all as f64 })
    }

    /// Whether so many jobs came later that the sizes are of another time than the jobs.
    pub fn is_of_another_time(&self) -> bool {
        self.later_share > OF_THEIR_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota};
    use crate::schema::CapacityRow;

    const DAY_S: i64 = 86_400;
    const DAY_MS: i64 = 1_000 * DAY_S;

    fn size(vc: &'static str, days: (i64, i64), gpus: f64) -> CapacityRow<'static> {
        CapacityRow { from: Some(days.0 * DAY_MS), to: Some(days.1 * DAY_MS), ..quota(vc, gpus) }
    }

    fn trace(jobs: &[(&'static str, i64)], sizes: &[CapacityRow<'static>]) -> Trace {
        let mut trace = Trace { zone: "UTC".to_owned(), ..Trace::default() };
        for (vc, day) in jobs {
            trace.jobs.push(job("1", vc, 4.0, day * DAY_S, day * DAY_S, (day + 1) * DAY_S));
        }
        sizes.iter().for_each(|size| trace.capacity.push(size.clone()));
        trace
    }

    /// The module's worked example: the nodes of `b` end with its sizes on day 180; replays once
    /// kept them.
    #[test]
    fn the_worked_example() {
        let sizes = [size("a", (0, 181), 8.0), size("b", (0, 180), 8.0)];
        let until =
            |jobs: &[(&'static str, i64)]| held(&trace(jobs, &sizes)).iter().map(|one| one.until).collect::<Vec<_>>();
        assert_eq!(until(&[("a", 1), ("b", 181)]), [None, None]);
        assert_eq!(until(&[("a", 181), ("b", 179)]), [None, Some(180 * DAY_MS)]);
    }

    #[test]
    fn a_size_holds_until_the_next_and_the_first_from_the_beginning() {
        let sizes = [size("a", (0, 5), 8.0), size("a", (7, 9), 16.0), size("b", (3, 9), 8.0), size("c", (3, 9), 8.0)];
        let result = held(&trace(&[("a", 1), ("b", 1), ("c", 4)], &sizes));
        let day = |from: Option<i64>, to: Option<i64>| Held {
            since: from.map(|day| day * DAY_MS),
            until: to.map(|day| day * DAY_MS),
        };
        // Nobody recorded days 5 and 6. A job of b came before its first size, and none of c.
        assert_eq!(result, [day(None, Some(7)), day(Some(7), None), day(None, None), day(Some(3), None)]);
        assert!(result[0].at(6 * DAY_MS) && !result[0].at(7 * DAY_MS));
        assert_eq!(result[1].within(0, 20 * DAY_MS), (7 * DAY_MS, 20 * DAY_MS));
    }

    /// One early job does not hide that most jobs come after the sizes.
    #[test]
    fn sizes_are_of_another_time_where_most_jobs_come_later() {
        let sizes = [size("a", (0, 10), 8.0)];
        let later: Vec<(&'static str, i64)> = (20..29).map(|day| ("a", day)).collect();
        let outrun = |jobs: &[(&'static str, i64)]| Outrun::new(&trace(jobs, &sizes));
        let result =
            outrun(&[&[("a", 1)], later.as_slice()].concat()).map(|of| (of.later_share, of.is_of_another_time()));
        assert_eq!(result, Some((0.9, true)));
        let half: Vec<(&'static str, i64)> = (0..9).map(|day| ("a", day)).collect();
        let result = outrun(&[half.as_slice(), later.as_slice()].concat()).map(|of| of.is_of_another_time());
        assert_eq!(result, Some(false));
        assert_eq!(outrun(&half), None);
        // What has no end is of today.
        let open = CapacityRow { to: None, ..size("a", (0, 10), 8.0) };
        assert_eq!(Outrun::new(&trace(&later, &[open])), None);
    }
}
