//! A14: how often the same work comes back, and how alike its runs are.
//!
//! A group is a (user, name, GPUs) that recurs; where names are not recorded, (user, VC, GPUs), which is coarser. What
//! recurs can be predicted from its own past; how well shows in two figures: the share of the variance of log run that
//! lies *between* groups, and the ratio of each run to the one before it in its group.
//!
//! Worked number: runs of 100 s, 100 s, 1,000 s in one group: ratios to the one before are 1 and 10, so the median
//! |log10 ratio| is 0.5 and half of the repeats are within a factor of two of the one before.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, opening, share};
use crate::facts::JobFacts;
use crate::report::format::{counted, duration, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::schema::Table as _;
use crate::stats;
use crate::stats::sum::NeumaierSum;

/// Repetitions the report counts.
const TIMES: [u64; 7] = [1, 2, 5, 10, 50, 100, 1_000];

/// Jobs in groups of at least so many.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AtLeast {
    /// Jobs of the group.
    pub times: u64,
    /// Groups.
    pub groups: u64,
    /// Jobs in them.
    pub jobs: u64,
    /// Share of the jobs.
    pub job_share: f64,
    /// Share of the GPU time.
    pub gpu_time_share: Option<f64>,
}

/// Recurrence of work.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Recurrence {
    /// Definition of a group.
    pub group: String,
    /// Jobs with everything that defines their group.
    pub jobs: u64,
    /// Groups.
    pub groups: u64,
    /// Groups by least size.
    pub at_least: Vec<AtLeast>,
    /// Time between submissions of the same group, seconds.
    pub gap_s: Option<stats::quantile::Summary>,
    /// Coefficient of variation of the run within groups of at least five ended jobs, one value a group.
    pub run_cov: Option<stats::quantile::Summary>,
    /// Share of the variance of log10 run that lies between groups, 0 to 1; runs of at least a second.
    pub between_groups_share: Option<f64>,
    /// Median |log10(run / run of the one that *ended* last before this was submitted, in the group)|.
    pub median_log10_ratio: Option<f64>,
    /// Share of those within a factor of two.
    pub within_twice_share: Option<f64>,
    /// Jobs that belong to no group, as their user or name is unknown.
    pub unknown_jobs: u64,
    /// Runs compared with one before.
    pub compared: u64,
    /// GPU-hours of the jobs in groups of at least five; `null` where nobody recorded GPUs.
    pub recurring_gpu_hours: Option<f64>,
}

impl Topic for Recurrence {
    const ID: &'static str = "recurrence";
    const CODE: &'static str = "A14";
    const TITLE: &'static str = "Work that comes back";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let jobs = &facts.trace.jobs;
        if jobs.user.is_all_unknown() {
            return Err("the source does not say who submitted a job".to_owned());
        }
        let named = !jobs.name.is_all_unknown();
        let key = |job: usize| -> Option<(u32, u32, i64)> {
            let other = if named { jobs.name.code(job)? } else { jobs.vc.code(job).unwrap_or(u32::MAX) };
            Some((jobs.user.code(job)?, other, facts.gpus(job).map_or(-1, |gpus| (gpus * 1e6).round() as i64)))
        };
        let mut index: HashMap<(u32, u32, i64), usize> = HashMap::new();
        // Groups in order of their first job, so that nothing depends on the hash.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for job in 0..jobs.len() {
            let Some(key) = key(job) else { continue };
            let next = groups.len();
            let group = *index.entry(key).or_insert(next);
            match groups.get_mut(group) {
                Some(members) => members.push(job),
                None => groups.push(vec![job]),
            }
        }
        let number: usize = groups.iter().map(Vec::len).sum();
        if number == 0 {
            return Err("no job has both a user and a name".to_owned());
        }
        let gpu_s = |members: &[usize]| members.iter().filter_map(|job| facts.gpu_s(*job)).sum::<f64>();
        let total: f64 = groups.iter().map(|members| gpu_s(members)).sum();
        let at_least: Vec<AtLeast> = TIMES
            .into_iter()
            .filter_map(|times| {
                let big: Vec<&Vec<usize>> = groups.iter().filter(|members| members.len() as u64 >= times).collect();
                let jobs: usize = big.iter().map(|members| members.len()).sum();
                (jobs > 0).then(|| AtLeast {
                    times,
                    groups: big.len() as u64,
                    jobs: jobs as u64,
                    job_share: jobs as f64 / number as f64,
                    gpu_time_share: share(big.iter().map(|members| gpu_s(members)).sum(), total),
                })
            })
            .collect();
        let mut gaps = Vec::new();
        for members in &groups {
            let times: Vec<i64> = members.iter().filter_map(|job| jobs.submit.get(*job)).collect();
            gaps.extend(times.windows(2).filter_map(|pair| Some((pair.get(1)? - pair.first()?) as f64 / 1_000.0)));
        }
        let ended = |job: usize| facts.run_s(job).filter(|run| *run > 0.0 && !facts.is_censored(job));
        let covs = groups.iter().filter_map(|members| {
            let runs: Vec<f64> = members.iter().filter_map(|job| ended(*job)).collect();
            let spread = stats::sum::variance(&runs).filter(|_| runs.len() >= 5)?.sqrt();
            Some(spread / stats::sum::mean(&runs)?)
        });
        let run_cov = stats::quantile::Summary::of_vec(covs.collect());
        let ratios = ratios(facts, &groups);
        let twice = ratios.iter().filter(|ratio| **ratio <= 2f64.log10()).count();
        let recurring = groups.iter().filter(|members| members.len() >= 5).flatten().copied();
        Ok(Self {
            group: if named {
                "same user, name and number of GPUs".to_owned()
            } else {
                "same user, VC and number of GPUs, as names are not recorded".to_owned()
            },
            jobs: number as u64,
            groups: groups.len() as u64,
            at_least,
            gap_s: stats::quantile::Summary::of_vec(gaps),
            run_cov,
            between_groups_share: between(facts, &groups),
            unknown_jobs: (jobs.len() - number) as u64,
            compared: ratios.len() as u64,
            within_twice_share: share(twice as f64, ratios.len() as f64),
            median_log10_ratio: stats::quantile::quantile(&ratios, 0.5),
            recurring_gpu_hours: facts.gpu_time_s(recurring).map(hours),
        })
    }

    fn section(&self) -> Section {
        let five = self.at_least.iter().find(|row| row.times == 5);
        let opening = opening(self.jobs, self.jobs + self.unknown_jobs, "jobs", "whose user and name are known")
            .map_or_else(String::new, |opening| format!("{opening}, "));
        let mut finding = match five {
            Some(row) => format!(
                "{opening}**{}** {} work that came at least five times ({}).",
                percent(row.job_share),
                if opening.is_empty() { "of the jobs belong to" } else { "belong to" },
                self.group
            ),
            None => format!("No work came five times or more ({}).", self.group),
        };
        if let (Some(twice), Some(ratio)) = (self.within_twice_share, self.median_log10_ratio) {
            finding.push_str(&format!(
                " A run is within a factor of two of the last finished one of its group in **{}** of the cases; the \
                 median is a factor of {:.1}.",
                percent(twice),
                10f64.powf(ratio)
            ));
        }
        let mut table = ReportTable::new(
            "Groups by size",
            vec![
                Column::number("At least"),
                Column::number("Groups"),
                Column::number("Jobs in them"),
                Column::number("Share of jobs"),
                Column::number("Share of GPU time"),
            ],
        );
        for row in &self.at_least {
            table.rows.push(vec![
                int(row.times),
                int(row.groups),
                int(row.jobs),
                Cell::Percent(row.job_share),
                Cell::opt(row.gpu_time_share, Cell::Percent),
            ]);
        }
        let by_count = self.at_least.iter().map(|row| (row.times as f64, row.job_share)).collect();
        let by_time = self.at_least.iter().filter_map(|row| Some((row.times as f64, row.gpu_time_share?))).collect();
        let chart = Chart::xy(
            "recurrence",
            "Share in groups of at least so many jobs",
            Axis::log("Jobs of the group"),
            Axis::share("Share"),
            vec![
                ChartSeries::new("of jobs", Mark::Line, by_count),
                ChartSeries::new("of GPU time", Mark::Line, by_time),
            ],
        )
        .with_reading("High curves mean that most work recurs, so its past can tell its future.");
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(self.recurring_gpu_hours)
            .with_chart(chart)
            .with_table(table);
        let mut facts = Vec::new();
        if let Some(gap) = &self.gap_s {
            facts.push(format!("the median time to the next submission of a group is {}", duration(gap.p50)));
        }
        if let Some(cov) = &self.run_cov {
            facts.push(format!("the coefficient of variation of run within a group is {:.2} at the median", cov.p50));
        }
        if let Some(between) = self.between_groups_share {
            facts.push(format!("{} of the variance of log run lies between groups", percent(between)));
        }
        if !facts.is_empty() {
            section = section.with_text(format!("Within groups: {}.", facts.join("; ")));
        }
        section
            .with_definition(format!("Group: {}.", self.group))
            .with_definition(
                "The last finished run is the one of the group that had ended before the job was submitted and was \
                 submitted last: what a predictor could have known.",
            )
            .with_coverage(format!(
                "{} in {}.",
                counted(self.jobs, "job", "jobs"),
                counted(self.groups, "group", "groups")
            ))
    }
}

/// |log10| of each run over the run of the last finished one of its group, known at its submission. O(n log n).
fn ratios(facts: &JobFacts<'_>, groups: &[Vec<usize>]) -> Vec<f64> {
    let jobs = &facts.trace.jobs;
    let mut out = Vec::new();
    for members in groups {
        // Ends in rising order beside the jobs in order of submission.
        let mut ends: Vec<(i64, usize)> = members
            .iter()
            .filter(|job| !facts.is_censored(**job))
            .filter(|job| facts.run_s(**job).is_some())
            .filter_map(|job| Some((facts.end_ms(*job)?, *job)))
            .collect();
        ends.sort_unstable();
        let mut known = ends.iter().peekable();
        let mut last: Option<usize> = None;
        for job in members {
            let Some(submit) = jobs.submit.get(*job) else { continue };
            while let Some((_, ended)) = known.next_if(|(end, _)| *end <= submit) {
                last = Some(last.map_or(*ended, |before| before.max(*ended)));
            }
            let (Some(run), Some(before)) = (facts.run_s(*job), last.and_then(|before| facts.run_s(before))) else {
                continue;
            };
            if !facts.is_censored(*job) && run > 0.0 && before > 0.0 {
                out.push((run / before).log10().abs());
            }
        }
    }
    out
}

/// Share of the variance of log10 run between groups: 1 − (sum of squares within) / (sum of squares in all).
fn between(facts: &JobFacts<'_>, groups: &[Vec<usize>]) -> Option<f64> {
    let log = |job: usize| facts.run_s(job).filter(|run| *run >= 1.0 && !facts.is_censored(job)).map(f64::log10);
    let all: Vec<f64> = groups.iter().flatten().filter_map(|job| log(*job)).collect();
    let squares = |values: &[f64]| {
        let mean = stats::sum::mean(values).unwrap_or(0.0);
        NeumaierSum::from_iter(values.iter().map(|value| (value - mean).powi(2))).value()
    };
    let within: f64 =
        groups.iter().map(|members| squares(&members.iter().filter_map(|job| log(*job)).collect::<Vec<f64>>())).sum();
    let total = squares(&all);
    (total > 0.0).then(|| 1.0 - within / total)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::JobRow;

    #[test]
    fn three_runs_of_one_group_and_one_alone() {
        let mut trace = Trace::default();
        for (key, name, submit, run) in
            [("a", "x", 0, 100), ("b", "x", 1_000, 100), ("c", "x", 2_000, 1_000), ("d", "y", 3_000, 7)]
        {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                user: Some("u".into()),
                name: Some(name.into()),
                req_gpus: Some(1.0),
                submit: Some(submit * 1_000),
                start: Some(submit * 1_000),
                end: Some((submit + run) * 1_000),
                run_s: Some(run as f64),
                ..JobRow::default()
            });
        }
        let result = Recurrence::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((result.jobs, result.groups, result.compared), (4, 2, 2));
        // Ratios 1 and 10: median of |log10| 0.5, one of two within twice.
        assert_eq!((result.median_log10_ratio, result.within_twice_share), (Some(0.5), Some(0.5)));
        assert_eq!(result.at_least.iter().map(|r| (r.times, r.jobs)).collect::<Vec<_>>(), [(1, 4), (2, 3)]);
    }

    #[test]
    fn a_run_that_had_not_ended_is_not_known() {
        let mut trace = Trace::default();
        for (key, submit, run) in [("a", 0, 500), ("b", 100, 50)] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                user: Some("u".into()),
                name: Some("x".into()),
                submit: Some(submit * 1_000),
                end: Some((submit + run) * 1_000),
                run_s: Some(run as f64),
                ..JobRow::default()
            });
        }
        assert_eq!(Recurrence::of(&JobFacts::new(&trace)).unwrap().compared, 0);
    }
}
