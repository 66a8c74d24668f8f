//! The jobs that a deferral is decided for: what each holds, how long it runs, and how long it is expected to.
//!
//! Jobs stand on the calendar of the series: their times are moved by a whole number of weeks where trace and series are of different years, so that hours of the day and weekdays stay what they were. A job is **left
//! out** where an hour that it may touch under some policy, from its submission to its submission, longest wait and run, has no value, or no price where prices are told beside: never is such an hour taken as 0. The same jobs are thus counted under every policy.
//!
//! **Expected runs** are known at submission: the mean of the last two runs alike, as in `plan rent
//! burst`, and the mean of all runs of its size class that had ended, as GAIA takes that of a
//! queue.
//!
//! **Cells** are the classes that may wait differently long: a size class, and a class of time limits where jobs record them, as these are what a scheduler knows ([`DeferClassBy::Limit`]), or else of expected runs. A job without a limit is
//! then in no cell, and starts at once.
//!
//! O(jobs log jobs). Worked example: a job of 2 GPUs that is expected to run 3 h is in the cell `2-4` GPUs, 1 to 6 h.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::{JobFacts, SizeClass};
use tracecast_analytics::stats::rank;
use tracecast_analytics::time::HOUR_MS;

use super::series::HourSeries;
use crate::market::demand::UnwaitedJob;

/// Thousandths of a GPU.
pub const MILLI: u64 = 1_000;
/// Ends of the classes of time limits or expected runs, ms; the last class is open.
pub const RUNS_MS: [i64; 3] = [HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS];
/// Sizes of GPU jobs.
pub const SIZES: [SizeClass; 5] =
    [SizeClass::Fraction, SizeClass::One, SizeClass::Few, SizeClass::Node, SizeClass::Many];
/// Cells.
pub const CELLS: usize = SIZES.len() * (RUNS_MS.len() + 1);
/// Share of the jobs that must record a time limit for classes to be of these where nothing is asked for.
const MOSTLY: f64 = 0.9;
/// A run that nothing is known of, as burst takes it where no run has ended, ms.
const LONGEST_MS: f64 = 1e12;

/// What the classes are made of, beside sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeferClassBy {
    /// The time limit, as lines for a scheduler have it.
    Limit,
    /// The predicted run.
    Predicted,
}

impl DeferClassBy {
    /// Time limits where at least nine tenths of the jobs record one, else predicted runs. O(jobs).
    pub fn new(facts: &JobFacts<'_>, jobs: &[UnwaitedJob]) -> Self {
        let with = jobs.iter().filter(|job| facts.trace.jobs.time_limit_s.get(job.row).is_some()).count();
        if with > 0 && with as f64 >= MOSTLY * jobs.len() as f64 { Self::Limit } else { Self::Predicted }
    }

    /// The heading of its column.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Limit => "Time limit",
            Self::Predicted => "Expected run",
        }
    }

    /// The name of its column in files.
    pub fn column(self) -> &'static str {
        match self {
            Self::Limit => "time_limit",
            Self::Predicted => "expected_run",
        }
    }
}

/// A job to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferJob {
    /// Row of the job in the trace.
    pub row: usize,
    /// Submission on the calendar of the series, ms.
    pub submit_ms: i64,
    /// How long it runs, ms.
    pub run_ms: i64,
    /// GPUs of the job, thousandths.
    pub milli_gpus: u64,
    /// Run as predicted from the last two alike, ms.
    pub predicted_ms: i64,
    /// Run as the mean of the size class, ms.
    pub size_mean_ms: i64,
    /// Cell of the job; in none it starts at once.
    pub cell: Option<usize>,
}

impl DeferJob {
    /// Size class of the job.
    pub fn size(&self) -> SizeClass {
        SizeClass::new(self.milli_gpus as f64 / MILLI as f64)
    }
}

/// The cell of a size and a time limit or expected run.
pub fn cell(size: SizeClass, run_ms: i64) -> usize {
    let of_size = SIZES.iter().position(|known| *known == size).unwrap_or(0);
    let of_run = RUNS_MS.iter().filter(|end| run_ms >= **end).count();
    of_size * (RUNS_MS.len() + 1) + of_run
}

/// The size of a cell, and its class of time limits or expected runs.
pub fn of_cell(cell: usize) -> (SizeClass, usize) {
    let runs = RUNS_MS.len() + 1;
    (SIZES.get(cell / runs).copied().unwrap_or(SizeClass::One), cell % runs)
}

/// A class of time limits or expected runs in words.
pub fn runs_in_words(class: usize) -> &'static str {
    match class {
        0 => "below 1 h",
        1 => "1 to 6 h",
        2 => "6 to 24 h",
        _ => "24 h or longer",
    }
}

/// The median of the predicted runs of the jobs of each class, ms; an hour where there is none. O(jobs log jobs).
pub fn class_runs(jobs: &[DeferJob]) -> [i64; CELLS] {
    let mut runs: [Vec<i64>; CELLS] = std::array::from_fn(|_| Vec::new());
    for job in jobs {
        if let Some(runs) = job.cell.and_then(|cell| runs.get_mut(cell)) {
            runs.push(job.predicted_ms);
        }
    }
    runs.map(|mut runs| rank::upper(&mut runs, 0.5).unwrap_or(HOUR_MS))
}

/// What becomes of jobs as they are taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferJobs {
    /// Decided jobs, in order of submission.
    pub jobs: Vec<DeferJob>,
    /// Jobs left out, as an hour that they may touch has no value.
    pub without_value: u64,
    /// Decided jobs that are in no cell.
    pub without_class: u64,
}

/// How the jobs are taken over.
#[derive(Debug, Clone, Copy)]
pub struct DeferTaking<'a> {
    /// Predicted run of each row of the trace, seconds.
    pub predicted_s: &'a [f64],
    /// What the classes are made of.
    pub class_by: DeferClassBy,
    /// How far the calendar of the series is ahead of the trace's, ms.
    pub shift_ms: i64,
    /// The longest wait, ms.
    pub most_ms: i64,
    /// Prices of electricity, where they are told beside.
    pub prices: Option<&'a HourSeries>,
}

impl DeferJobs {
    /// Takes over the jobs of a trace, in order of submission. O(jobs log jobs).
    pub fn new(facts: &JobFacts<'_>, all: &[UnwaitedJob], series: &HourSeries, taking: &DeferTaking<'_>) -> Self {
        let means = size_means(facts, all);
        let whole_ms = |seconds: f64| (seconds * 1e3).clamp(1.0, LONGEST_MS).round() as i64;
        let (mut jobs, mut without_value) = (Vec::with_capacity(all.len()), 0);
        for (job, mean_s) in all.iter().zip(means) {
            let submit_ms = job.submit_ms + taking.shift_ms;
            let known = |series: &HourSeries| series.is_known(submit_ms, submit_ms + taking.most_ms + job.run_ms);
            if !known(series) || !taking.prices.is_none_or(known) {
                without_value += 1;
                continue;
            }
            let predicted_ms = whole_ms(taking.predicted_s.get(job.row).copied().unwrap_or(0.0));
            let class_ms = match taking.class_by {
                DeferClassBy::Limit => facts.trace.jobs.time_limit_s.get(job.row).map(whole_ms),
                DeferClassBy::Predicted => Some(predicted_ms),
            };
            jobs.push(DeferJob {
                row: job.row,
                submit_ms,
                run_ms: job.run_ms,
                milli_gpus: ((job.gpus * MILLI as f64).round() as u64).max(1),
                predicted_ms,
                size_mean_ms: mean_s.map_or(predicted_ms, whole_ms),
                cell: class_ms.map(|ms| cell(SizeClass::new(job.gpus), ms)),
            });
        }
        let without_class = jobs.iter().filter(|job| job.cell.is_none()).count() as u64;
        Self { jobs, without_value, without_class }
    }
}

/// The mean run of the jobs of its size class that had ended when a job was submitted, seconds; `None` where none had.
fn size_means(facts: &JobFacts<'_>, all: &[UnwaitedJob]) -> Vec<Option<f64>> {
    let mut ended: Vec<(i64, SizeClass, f64)> = all
        .iter()
        .filter(|job| !facts.is_censored(job.row))
        .filter_map(|job| Some((facts.trace.jobs.end.get(job.row)?, SizeClass::new(job.gpus), job.run_ms as f64 / 1e3)))
        .collect();
    ended.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.total_cmp(&b.2)));
    let mut sums: BTreeMap<SizeClass, (f64, f64)> = BTreeMap::new();
    let mut next = 0;
    let mut of = |job: &UnwaitedJob| {
        while let Some((_, size, run_s)) = ended.get(next).filter(|(end, ..)| *end <= job.submit_ms) {
            let sum = sums.entry(*size).or_default();
            *sum = (sum.0 + run_s, sum.1 + 1.0);
            next += 1;
        }
        sums.get(&SizeClass::new(job.gpus)).map(|(sum, count)| sum / count)
    };
    all.iter().map(&mut of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::market::demand::tests::{OFFERS, trace};
    use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
    use crate::market::offers::Offers;

    #[test]
    fn the_worked_example() {
        let at = cell(SizeClass::new(2.0), 3 * HOUR_MS);
        assert_eq!((of_cell(at).0, runs_in_words(of_cell(at).1)), (SizeClass::Few, "1 to 6 h"));
        assert!((0..CELLS).all(|at| {
            let (size, runs) = of_cell(at);
            let run = if runs == 0 { 0 } else { RUNS_MS[runs - 1] };
            cell(size, run) == at
        }));
    }

    #[test]
    fn jobs_over_hours_without_a_value_are_left_out_and_counted() {
        // Hours 0 to 9, of which hour 4 has none. Two jobs of an hour; with a wait of up to an hour the second may touch hour 4.
        let trace = trace(&[(30, 30, 90, 1.0), (150, 150, 210, 1.0), (300, 300, 360, 2.0)]);
        let facts = JobFacts::new(&trace);
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap().unwaited(i64::MAX);
        let series = HourSeries::from_values(0, (0..10).map(|hour| (hour != 4).then_some(5)).collect());
        let predicted_s = vec![3_600.0; 3];
        let taking = DeferTaking {
            predicted_s: &predicted_s,
            class_by: DeferClassBy::Predicted,
            shift_ms: 0,
            most_ms: HOUR_MS,
            prices: None,
        };
        let result = DeferJobs::new(&facts, &jobs, &series, &taking);
        assert_eq!((result.without_value, result.jobs.len()), (1, 2));
        // A week later there is no hour at all.
        let later = DeferTaking { shift_ms: 7 * 24 * HOUR_MS, ..taking };
        assert_eq!(DeferJobs::new(&facts, &jobs, &series, &later).without_value, 3);
        // Nothing had ended of 2 GPUs when the last came, so its own prediction stands in.
        assert_eq!(result.jobs[1].size_mean_ms, HOUR_MS);
    }

    #[test]
    fn classes_are_of_time_limits_where_nearly_all_jobs_record_one() {
        let mut trace = trace(&[(30, 30, 90, 1.0), (150, 150, 210, 1.0), (300, 300, 360, 2.0)]);
        let predicted_s = vec![600.0; 3];
        let series = HourSeries::from_values(0, vec![Some(5); 10]);
        let mut with = |limits: [Option<f64>; 3]| {
            for (row, limit) in limits.into_iter().enumerate() {
                trace.jobs.time_limit_s.set(row, limit);
            }
            let facts = JobFacts::new(&trace);
            let offers = Offers::parse("o.toml", OFFERS).unwrap();
            let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap();
            let jobs = jobs.unwaited(i64::MAX);
            let taking = DeferTaking {
                predicted_s: &predicted_s,
                class_by: DeferClassBy::Limit,
                shift_ms: 0,
                most_ms: HOUR_MS,
                prices: None,
            };
            let result = DeferJobs::new(&facts, &jobs, &series, &taking);
            let cells: Vec<_> = result.jobs.iter().map(|job| job.cell).collect();
            (DeferClassBy::new(&facts, &jobs), cells, result.without_class)
        };
        // The predicted 10 min do not matter; a limit of 1 h is the first of the second class, as in the lines for Slurm.
        let of = |gpus: f64, hours: i64| Some(cell(SizeClass::new(gpus), hours * HOUR_MS));
        let all = with([Some(3_599.0), Some(3_600.0), Some(90_000.0)]);
        assert_eq!(all, (DeferClassBy::Limit, vec![of(1.0, 0), of(1.0, 1), of(2.0, 25)], 0));
        let two = with([Some(3_599.0), Some(3_600.0), None]);
        assert_eq!(two, (DeferClassBy::Predicted, vec![of(1.0, 0), of(1.0, 1), None], 1));
        assert_eq!(with([None; 3]).0, DeferClassBy::Predicted);
    }
}
