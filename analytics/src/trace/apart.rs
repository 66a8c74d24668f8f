//! Sources that cannot be of one cluster: years lie between them.
//!
//! A call may name accounting from here, meters from there, and a log month by month: these overlap, or follow each other. A record of 2017
//! beside one of 2024 are two clusters, or one that was built anew, and figures of both together mean nothing. So where at least
//! [`LEAST_APART_MS`] (a year) lies between what two sources hold, with nothing in it, that is an error, unless the user says that they are of
//! one cluster. Looked at are jobs and samples; prices and carbon may be of any year, and a trace without dates says nothing.
//!
//! Files that one reader reads together are told apart by their jobs alone: a year without any divides them. Where hardly any job lies beyond
//! it (one, or one in twenty, and fewer than twenty), that is a wrong date, which [`stray`](super::stray) sees to, and not a source.
//!
//! O(n log n) for n jobs of one reader's files. Worked number: jobs of August to December 2017 and of March to August 2023 are 5 years apart.

use super::Trace;
use crate::error::{Error, Result};
use crate::schema::Table as _;
use crate::time::{DAY_MS, format_utc};

/// Time without anything from which on two sources are not taken for one cluster, ms.
pub const LEAST_APART_MS: i64 = 365 * DAY_MS;
/// At most one job in so many (or one) beyond a gap is a wrong date.
const FEW: usize = 20;

/// First and last moment, ms.
type Span = (i64, i64);

/// Numbers of rows of jobs and samples, at which the rows of the next source begin.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent([usize; 3]);

impl Extent {
    /// Counts the rows of a trace.
    pub fn new(trace: &Trace) -> Self {
        Self([trace.jobs.len(), trace.gpu_samples.len(), trace.node_samples.len()])
    }

    /// First and last moment of the rows from here up to `to`; `None` if they have none.
    fn span(self, trace: &Trace, to: Self) -> Option<Span> {
        let ([jobs, gpus, nodes], [jobs_to, gpus_to, nodes_to]) = (self.0, to.0);
        let of_jobs = [&trace.jobs.submit, &trace.jobs.start, &trace.jobs.end];
        let times = || {
            let jobs = of_jobs.into_iter().flat_map(move |of| (jobs..jobs_to).filter_map(move |row| of.get(row)));
            let gpus = (gpus..gpus_to).filter_map(move |row| trace.gpu_samples.ts.get(row));
            jobs.chain(gpus).chain((nodes..nodes_to).filter_map(move |row| trace.node_samples.ts.get(row)))
        };
        Some((times().min()?, times().max()?))
    }
}

fn refused(name: &str, [earlier, later]: [Span; 2]) -> Error {
    let day = |ms: i64| format_utc(ms).chars().take(10).collect::<String>();
    let span = |(from, to): Span| format!("{} to {}", day(from), day(to));
    Error::Setting {
        setting: "sources".to_owned(),
        found: format!(
            "they hold {} and {} ({name}), with nothing for {:.1} years between: they are hardly of one cluster",
            span(earlier),
            span(later),
            (later.0 - earlier.1) as f64 / (365.25 * DAY_MS as f64)
        ),
        remedy: "name the sources of one cluster alone, or --one-cluster if these are of one".to_owned(),
    }
}

fn meet(name: &str, here: Option<Span>, there: Option<Span>) -> Result<()> {
    let (Some(here), Some(there)) = (here, there) else { return Ok(()) };
    let (earlier, later) = if here.0 <= there.0 { (here, there) } else { (there, here) };
    if later.0.saturating_sub(earlier.1) < LEAST_APART_MS { Ok(()) } else { Err(refused(name, [earlier, later])) }
}

impl Trace {
    /// Checks that another trace, called `name` in messages, may be of the same cluster as this one.
    ///
    /// # Errors
    /// If years lie between the two.
    pub fn check_meets(&self, other: &Self, name: &str) -> Result<()> {
        if !(self.basis.has_dates() && other.basis.has_dates()) {
            return Ok(());
        }
        let span = |of: &Self| Extent::default().span(of, Extent::new(of));
        meet(name, span(self), span(other))
    }

    /// Checks that the rows from `from` on, which one reader has read of `files`, may be of the same cluster as each other and as those before.
    ///
    /// # Errors
    /// If years lie between them.
    pub fn check_together(&self, from: Extent, files: &[&str]) -> Result<()> {
        if !self.basis.has_dates() {
            return Ok(());
        }
        let name = match files {
            [one] => (*one).to_owned(),
            [one, ..] => format!("{one} and {} more", files.len() - 1),
            [] => return Ok(()),
        };
        meet(&name, Extent::default().span(self, from), from.span(self, Extent::new(self)))?;
        if files.len() < 2 {
            return Ok(());
        }
        let jobs = &self.jobs;
        let time = |row: usize| jobs.submit.get(row).or(jobs.start.get(row)).or(jobs.end.get(row));
        let mut times: Vec<i64> = (from.0[0]..jobs.len()).filter_map(time).collect();
        times.sort_unstable();
        let few = |rows: usize| rows < FEW && rows <= (times.len() / FEW).max(1);
        let parts: Vec<&[i64]> = times.chunk_by(|a, b| b.saturating_sub(*a) < LEAST_APART_MS).collect();
        let mut records = parts.iter().filter(|part| !few(part.len())).filter_map(|part| part.first().zip(part.last()));
        match (records.next(), records.next()) {
            (Some(earlier), Some(later)) => Err(refused(&name, [earlier, later].map(|(from, to)| (*from, *to)))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{GpuSampleRow, JobRow};
    use crate::time::SECOND_MS;

    /// A day of each year is enough.
    fn jobs(trace: &mut Trace, year: i64, count: i64) {
        for at in 0..count {
            let submit = (year - 1970) * 365 * DAY_MS + at * SECOND_MS;
            trace.jobs.push(JobRow { submit: Some(submit), start: Some(submit), ..JobRow::default() });
        }
    }

    #[test]
    fn years_apart_are_two_clusters_and_a_wrong_date_is_none() {
        let of = |years: &[(i64, i64)]| {
            let mut trace = Trace::default();
            years.iter().for_each(|(year, count)| jobs(&mut trace, *year, *count));
            trace
        };
        let together = |years: &[(i64, i64)], files: &[&str]| of(years).check_together(Extent::default(), files);
        let told = together(&[(2017, 30), (2024, 30)], &["a", "b"]).unwrap_err().to_string();
        assert!(told.contains("2016") && told.contains("2023") && told.contains("--one-cluster"), "{told}");
        // Small records, and one that is small beside the other, are records all the same.
        assert!(together(&[(2017, 3), (2024, 3)], &["a", "b"]).is_err());
        assert!(together(&[(2017, 9_000), (2024, 25)], &["a", "b"]).is_err());
        // A wrong date, one file, and years that follow each other are none.
        assert!(together(&[(2017, 30), (2024, 1)], &["a", "b"]).is_ok());
        assert!(together(&[(2017, 30), (2024, 30)], &["a"]).is_ok());
        let yearly: Vec<(i64, i64)> = (2017..2025).map(|year| (year, 30)).collect();
        let mut followed = of(&yearly);
        for row in 0..followed.jobs.len() {
            // A job in each quarter.
            let submit = followed.jobs.submit.get(row).unwrap() + (row as i64 % 4) * 91 * DAY_MS;
            followed.jobs.submit.set(row, Some(submit));
        }
        assert!(followed.check_together(Extent::default(), &["a", "b"]).is_ok());
    }

    #[test]
    fn meters_of_another_year_are_of_another_cluster() {
        let mut trace = Trace::default();
        jobs(&mut trace, 2017, 30);
        let mut meters = Trace::default();
        let mut sample = |year: i64| {
            meters.gpu_samples.push(GpuSampleRow { ts: Some((year - 1970) * 365 * DAY_MS), ..GpuSampleRow::default() });
            trace.check_meets(&meters, "meters")
        };
        assert!(sample(2024).is_err());
        // Meters over all the years overlap.
        assert!(sample(2016).is_ok());
        let from = Extent::new(&trace);
        trace.gpu_samples.push(GpuSampleRow { ts: Some(54 * 365 * DAY_MS), ..GpuSampleRow::default() });
        assert!(trace.check_together(from, &["meters.csv"]).is_err());
    }
}
