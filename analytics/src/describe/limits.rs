//! A22: time asked for and time used by GPU jobs, and what one default limit would have ended.
//!
//! A limit beyond the run reserves GPUs that a scheduler cannot plan with: GPUs × (limit − run).
//! The default limit is the least number of whole minutes within which 95 % of the completed jobs
//! stay, and jobs with 95 % of their GPU time: long jobs are few and hold most of it. It is chosen
//! on jobs that had completed before the last quarter of the jobs was submitted, and tested on that
//! quarter, so no later run is used to choose it. Where it would have ended jobs with more than a
//! tenth of that quarter's GPU-hours, it is not advised. Where no start or end is
//! recorded, a job is taken to have started when it was submitted.
//!
//! Complexity: O(n log n) in jobs.
//!
//! Worked number: two jobs of 2 GPUs with a limit of 4 h run 1 h and 4 h: the median of limit / run
//! is 2.5, and the limits reserved 2 · 3 + 2 · 0 = 6 GPU-hours beyond the runs.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{RANKED, Topic, TopicResult, hours, more};
use crate::facts::JobFacts;
use crate::report::format::{compact, count, counted, duration};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::JobState;
use crate::stats::quantile::{quantile, weighted_quantile};
use crate::stats::sum::NeumaierSum;

/// Share of the completed jobs, and of their GPU time, that stays within the default limit.
const WITHIN: f64 = 0.95;
/// Share of later GPU-hours above which a limit that would have ended them is not advised.
const MOST_ENDED: f64 = 0.1;

/// GPU jobs with a limit of one user.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UserLimits {
    /// User.
    pub user: String,
    /// GPU jobs that ended and whose limit and run are known.
    pub jobs: u64,
    /// Median of limit / run.
    pub median_limit_over_run: Option<f64>,
    /// GPU-hours that the limits reserved beyond the runs.
    pub reserved_gpu_hours: f64,
}

/// One limit for all GPU jobs, and what it would have ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DefaultLimit {
    /// The limit, seconds.
    pub limit_s: f64,
    /// Completed GPU jobs on which it was chosen.
    pub chosen_on_jobs: u64,
    /// GPU jobs of the last quarter.
    pub later_jobs: u64,
    /// Jobs of the last quarter that ran longer than the limit.
    pub ended_jobs: u64,
    /// Jobs that the limit would have ended and that completed in the record.
    pub ended_completed_jobs: u64,
    /// GPU-hours that the ended jobs held in the record.
    pub ended_gpu_hours: f64,
    /// GPU-hours of all jobs of the last quarter.
    pub later_gpu_hours: f64,
    /// Whether the limit is advised: at most a tenth of the later GPU-hours would have been ended.
    pub advised: bool,
}

/// Time asked for and time used.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimeLimits {
    /// GPU jobs that ended and whose run is known.
    pub jobs: u64,
    /// Jobs with a limit, of [`Self::jobs`].
    pub limited_jobs: u64,
    /// Median of limit / run of the jobs with a limit.
    pub median_limit_over_run: Option<f64>,
    /// GPU-hours that the limits reserved beyond the runs; `null` without a limit.
    pub reserved_gpu_hours: Option<f64>,
    /// Limits by user, most reserved first.
    pub users: Vec<UserLimits>,
    /// One limit for all; `null` where no GPU job had completed before the last quarter.
    pub default_limit: Option<DefaultLimit>,
}

/// A GPU job that ended, with its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitedJob {
    /// Row in the jobs table.
    pub row: usize,
    /// Limit, seconds.
    pub limit_s: f64,
    /// Run, seconds.
    pub run_s: f64,
}

/// Returns the GPU jobs that ran, ended and have a limit.
pub fn limited(facts: &JobFacts<'_>) -> impl Iterator<Item = LimitedJob> {
    ended(facts).filter_map(|(row, run_s)| {
        let limit_s = facts.trace.jobs.time_limit_s.get(row).filter(|limit| *limit > 0.0)?;
        Some(LimitedJob { row, limit_s, run_s })
    })
}

/// Returns the GPU jobs that ran and ended, with their runs in seconds.
fn ended(facts: &JobFacts<'_>) -> impl Iterator<Item = (usize, f64)> {
    let jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job) && !facts.is_censored(*job));
    jobs.filter_map(|job| Some((job, facts.run_s(job).filter(|run| *run > 0.0)?)))
}

/// Ratios of limit to run, and GPU-seconds reserved beyond the runs.
#[derive(Debug, Clone, Default)]
struct Sums {
    ratios: Vec<f64>,
    reserved: NeumaierSum,
}

impl Sums {
    fn add(&mut self, facts: &JobFacts<'_>, job: LimitedJob) {
        self.ratios.push(job.limit_s / job.run_s);
        self.reserved.add(facts.gpus(job.row).unwrap_or(0.0) * (job.limit_s - job.run_s).max(0.0));
    }

    fn median(&self) -> Option<f64> {
        quantile(&self.ratios, 0.5)
    }
}

impl Topic for TimeLimits {
    const ID: &'static str = "limits";
    const CODE: &'static str = "A22";
    const TITLE: &'static str = "Time asked for and time used";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let names = &facts.trace.jobs.user;
        let (mut all, mut of_user) = (Sums::default(), vec![Sums::default(); names.distinct()]);
        for job in limited(facts) {
            all.add(facts, job);
            if let Some(sums) = names.code(job.row).and_then(|code| of_user.get_mut(code as usize)) {
                sums.add(facts, job);
            }
        }
        let default_limit = DefaultLimit::choose(facts);
        if all.ratios.is_empty() && default_limit.is_none() {
            return Err("neither the limit nor the submission and run of enough GPU jobs are known".to_owned());
        }
        let row = |(user, sums): (&str, &Sums)| UserLimits {
            user: user.to_owned(),
            jobs: sums.ratios.len() as u64,
            median_limit_over_run: sums.median(),
            reserved_gpu_hours: hours(sums.reserved.value()),
        };
        let named = (0..).map_while(|code| names.name(code)).zip(&of_user);
        let mut users: Vec<UserLimits> = named.filter(|(_, sums)| !sums.ratios.is_empty()).map(row).collect();
        users.sort_by(|a, b| b.reserved_gpu_hours.total_cmp(&a.reserved_gpu_hours).then_with(|| a.user.cmp(&b.user)));
        Ok(Self {
            jobs: ended(facts).count() as u64,
            limited_jobs: all.ratios.len() as u64,
            median_limit_over_run: all.median(),
            reserved_gpu_hours: (!all.ratios.is_empty()).then(|| hours(all.reserved.value())),
            users,
            default_limit,
        })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading().with_gpu_hours(self.reserved_gpu_hours);
        let limits = match self.reserved_gpu_hours.zip(self.median_limit_over_run) {
            Some((reserved, ratio)) => format!(
                "Half of the GPU jobs with a limit asked for at least **{ratio:.1} times** the time they ran; all asked \
                 for **{}** GPU-hours more than they held.",
                compact(reserved)
            ),
            None => "No GPU job that ended has a time limit on record.".to_owned(),
        };
        let limit = self.default_limit.as_ref().map(DefaultLimit::sentence);
        section = section.with_finding([limits].into_iter().chain(limit).collect::<Vec<_>>().join(" "));
        if !self.users.is_empty() {
            let mut columns = vec![Column::text("User")];
            columns.extend(["Jobs with a limit", "Median of limit / run"].map(Column::number));
            columns.push(Column::with_unit("Asked for beyond the runs", "GPU-hours"));
            let mut table = ReportTable::new("Limits by user", columns);
            for user in self.users.iter().take(RANKED) {
                table.rows.push(vec![
                    user.user.as_str().into(),
                    int(user.jobs),
                    Cell::opt(user.median_limit_over_run, |value| Cell::Float { value, digits: 1 }),
                    Cell::Float { value: user.reserved_gpu_hours, digits: 1 },
                ]);
            }
            table.note = more(self.users.len(), "more user", "more users");
            section = section.with_table(table);
        }
        section
            .with_definition(
                "Asked for beyond the runs: Σ GPUs × (limit − run), of jobs that ended within their limit.",
            )
            .with_coverage(format!(
                "{} of {} that ended have a limit.",
                count(self.limited_jobs),
                counted(self.jobs, "GPU job", "GPU jobs")
            ))
    }
}

impl DefaultLimit {
    /// Chooses it on the earlier GPU jobs and counts what it would have ended of the last quarter.
    fn choose(facts: &JobFacts<'_>) -> Option<Self> {
        let submit = &facts.trace.jobs.submit;
        let known = |job: usize| Some((submit.get(job)?, job, facts.run_s(job).filter(|_| facts.is_gpu_job(job))?));
        let mut jobs: Vec<(i64, usize, f64)> = (0..facts.len()).filter_map(known).collect();
        jobs.sort_by_key(|(submit, job, _)| (*submit, *job));
        let (_, later) = jobs.split_at_checked(jobs.len() - jobs.len() / 4)?;
        let split = later.first()?.0;
        let completed = |job: usize| facts.state(job) == JobState::Completed;
        let is_over = |job: usize| facts.end_ms(job).is_some_and(|end| end <= split);
        let earlier = jobs.iter().filter(|(_, job, _)| completed(*job) && is_over(*job));
        let (runs, gpu_s): (Vec<f64>, Vec<f64>) =
            earlier.filter_map(|(_, job, run_s)| Some((*run_s, facts.gpu_s(*job)?))).unzip();
        let of_jobs = weighted_quantile(&runs, &vec![1.0; runs.len()], WITHIN)?;
        let of_time = weighted_quantile(&runs, &gpu_s, WITHIN)?;
        let limit_s = (of_jobs.max(of_time) / 60.0).ceil() * 60.0;
        let ended: Vec<usize> = later.iter().filter(|(_, _, run_s)| *run_s > limit_s).map(|(_, job, _)| *job).collect();
        let ended_gpu_hours = facts.gpu_time_s(ended.iter().copied()).map_or(0.0, hours);
        let later_gpu_hours = facts.gpu_time_s(later.iter().map(|(_, job, _)| *job)).map(hours)?;
        Some(Self {
            limit_s,
            chosen_on_jobs: runs.len() as u64,
            later_jobs: later.len() as u64,
            ended_jobs: ended.len() as u64,
            ended_completed_jobs: ended.iter().filter(|job| completed(**job)).count() as u64,
            ended_gpu_hours,
            later_gpu_hours,
            advised: ended_gpu_hours <= MOST_ENDED * later_gpu_hours,
        })
    }

    fn sentence(&self) -> String {
        let advice = if self.advised { "Default limit" } else { "No default limit is advised. 95 % would give" };
        format!(
            "{advice}: **{}**. Of {} that completed before the last quarter was submitted, at least 95 % stay within it, with at least 95 % of \
             their GPU time. It would have ended **{}** of the {} of that quarter, {} of which completed. The ended jobs \
             held **{}** of the {} GPU-hours of that quarter.",
            duration(self.limit_s),
            counted(self.chosen_on_jobs, "GPU job", "GPU jobs"),
            count(self.ended_jobs),
            counted(self.later_jobs, "GPU job", "GPU jobs"),
            count(self.ended_completed_jobs),
            compact(self.ended_gpu_hours),
            compact(self.later_gpu_hours)
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::JobRow;

    /// A job of 2 GPUs that starts when it is submitted; times in hours.
    fn push(trace: &mut Trace, user: &str, submit: i64, run: f64, limit: Option<f64>, state: &str) {
        trace.jobs.push(JobRow {
            user: Some(user.to_owned().into()),
            submit: Some(submit * 3_600_000),
            start: Some(submit * 3_600_000),
            end: Some(submit * 3_600_000 + (run * 3_600_000.0) as i64),
            run_s: Some(run * 3_600.0),
            alloc_gpus: Some(2.0),
            time_limit_s: limit.map(|hours| hours * 3_600.0),
            state: Some(state.to_owned().into()),
            ..JobRow::default()
        });
    }

    #[test]
    fn the_worked_number_by_user() {
        let mut trace = Trace::default();
        push(&mut trace, "ann", 0, 1.0, Some(4.0), "completed");
        push(&mut trace, "ann", 1, 4.0, Some(4.0), "timeout");
        // Ran beyond its limit, which reserves nothing; and no limit is not a limit of 0.
        push(&mut trace, "bob", 2, 2.0, Some(1.0), "timeout");
        push(&mut trace, "cid", 3, 1.0, None, "completed");
        let result = TimeLimits::of(&JobFacts::new(&trace)).unwrap();
        let users: Vec<_> = result
            .users
            .iter()
            .map(|u| (u.user.as_str(), u.jobs, u.median_limit_over_run, u.reserved_gpu_hours))
            .collect();
        assert_eq!(users, [("ann", 2, Some(2.5), 6.0), ("bob", 1, Some(0.5), 0.0)]);
        assert_eq!((result.jobs, result.limited_jobs, result.reserved_gpu_hours), (4, 3, Some(6.0)));
        assert_eq!(result.median_limit_over_run, Some(1.0));
    }

    #[test]
    fn a_default_limit_is_chosen_on_what_had_ended_and_tested_on_the_last_quarter() {
        let mut trace = Trace::default();
        push(&mut trace, "u", 0, 1.0, None, "completed");
        push(&mut trace, "u", 0, 2.001, None, "completed");
        // One failed; two end after the last quarter begins, so their runs are not known then.
        push(&mut trace, "u", 0, 5.0, None, "failed");
        push(&mut trace, "u", 0, 50.0, None, "completed");
        push(&mut trace, "u", 5, 1.0, None, "completed");
        push(&mut trace, "u", 10, 2.0, None, "completed");
        push(&mut trace, "u", 11, 3.0, None, "completed");
        push(&mut trace, "u", 12, 4.0, None, "failed");
        let result = TimeLimits::of(&JobFacts::new(&trace)).unwrap().default_limit.unwrap();
        // Of 1, 2.001 and 1 h the largest, rounded up to 2 h 1 min, which the last two exceed.
        assert_eq!((result.limit_s, result.chosen_on_jobs, result.later_jobs), (7_260.0, 3, 2));
        assert_eq!((result.ended_jobs, result.ended_completed_jobs, result.ended_gpu_hours), (2, 1, 14.0));
        // They held all GPU-hours of the quarter.
        assert!(!result.advised);
        assert!(TimeLimits::of(&JobFacts::new(&Trace::default())).is_err());
    }
}
