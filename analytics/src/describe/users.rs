//! A10: how few users hold how much of the GPU time, CPU time and wait, and how often their jobs complete.
//!
//! Every known user is a holder, with 0 where a quantity is known to be none. Top shares round the number of users up to
//! whole users ([`crate::stats::concentration`]). Jobs without a user are counted, and left out.
//!
//! Complexity: O(n + u log u) for n jobs and u users.
//!
//! Worked number: users with 6, 1 and 1 GPU-hours: the largest third holds 6 / 8 = 75 %, the Gini coefficient is
//! 2 (1 · 1 + 2 · 1 + 3 · 6) / (3 · 8) - 4 / 3 = 0.417.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{CAVEAT_BELOW, Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::report::format::{count, counted, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, Reference, ReportTable, Section};
use crate::schema::{JobState, Resource};
use crate::stats::concentration::Concentration;
use crate::stats::ecdf::{CurvePoint, Ecdf};
use crate::stats::quantile;
use crate::stats::sum::NeumaierSum;

/// Users listed.
const TOP: usize = 20;
/// Points of a curve.
const POINTS: usize = 200;
/// Fewest ended jobs from which a user's completion rate counts in the distribution.
const FEWEST: u64 = 10;
/// Fewest users of whom shares such as the top 5 % mean anything.
const ENOUGH: u64 = 20;

/// One user.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UserLoad {
    /// The user, as the source names them.
    pub user: String,
    /// Jobs.
    pub jobs: u64,
    /// GPU-hours.
    pub gpu_hours: f64,
    /// Share of the GPU time of all known users.
    pub gpu_time_share: Option<f64>,
    /// CPU core-hours, where cores are recorded.
    pub cpu_hours: Option<f64>,
    /// Jobs that completed, of those that ended in a known state.
    pub completed_share: Option<f64>,
    /// Mean wait, seconds, of the jobs whose wait is known.
    pub mean_wait_s: Option<f64>,
    /// GPUs × wait, hours.
    pub gpu_wait_hours: Option<f64>,
}

/// Concentration over users.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Users {
    /// Distinct users with a job.
    pub users: u64,
    /// Jobs whose user is known.
    pub jobs: u64,
    /// Jobs whose user is unknown.
    pub unknown_user_jobs: u64,
    /// GPU-hours of the jobs whose user is known.
    pub gpu_hours: f64,
    /// Concentration of GPU time, GPU-hours.
    pub gpu_time: Option<Concentration>,
    /// Concentration of CPU time, core-hours.
    pub cpu_time: Option<Concentration>,
    /// Concentration of wait, hours.
    pub wait: Option<Concentration>,
    /// Concentration of GPUs × wait, GPU-hours.
    pub gpu_wait: Option<Concentration>,
    /// Completion rates of the users with at least ten jobs that ended in a known state.
    pub completed_share: Option<quantile::Summary>,
    /// Distribution of the completion rates.
    pub completed_share_curve: Vec<CurvePoint>,
    /// The users with most GPU time (most jobs where GPU time is unknown).
    pub top: Vec<UserLoad>,
}

/// Sums over a user's jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: u64,
    gpu_s: NeumaierSum,
    cpu_s: NeumaierSum,
    wait_s: NeumaierSum,
    waits: u64,
    gpu_wait_s: NeumaierSum,
    ended: u64,
    completed: u64,
}

impl Topic for Users {
    const ID: &'static str = "users";
    const CODE: &'static str = "A10";
    const TITLE: &'static str = "Concentration over users";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let jobs = &facts.trace.jobs;
        let mut of_user = vec![Sums::default(); jobs.user.distinct()];
        let mut unknown_user_jobs = 0;
        for job in 0..facts.len() {
            let Some(sums) = jobs.user.code(job).and_then(|code| of_user.get_mut(code as usize)) else {
                unknown_user_jobs += 1;
                continue;
            };
            sums.jobs += 1;
            sums.gpu_s.add(facts.gpu_s(job).unwrap_or(0.0));
            let cpus = Resource::Cpus.given(jobs, job);
            sums.cpu_s.add(cpus.zip(facts.run_s(job)).map_or(0.0, |(cpus, run)| cpus * run));
            if let Some(wait) = facts.wait_s(job) {
                sums.waits += 1;
                sums.wait_s.add(wait);
                sums.gpu_wait_s.add(facts.gpus(job).map_or(0.0, |gpus| gpus * wait));
            }
            let state = facts.state(job);
            sums.ended += u64::from(state.is_final());
            sums.completed += u64::from(state == JobState::Completed);
        }
        let users: Vec<(&str, Sums)> = of_user
            .into_iter()
            .enumerate()
            .filter(|(_, sums)| sums.jobs > 0)
            .filter_map(|(code, sums)| Some((jobs.user.name(u32::try_from(code).ok()?)?, sums)))
            .collect();
        if users.is_empty() {
            return Err("the source does not name the users of jobs".to_owned());
        }
        let concentration = |of: &dyn Fn(&Sums) -> Option<f64>| {
            let values: Vec<f64> = users.iter().filter_map(|(_, sums)| of(sums)).collect();
            Concentration::new(&values, POINTS)
        };
        let gpu_s = NeumaierSum::from_iter(users.iter().map(|(_, sums)| sums.gpu_s.value())).value();
        let cpus_known = !(jobs.alloc_cpus.is_all_unknown() && jobs.req_cpus.is_all_unknown());
        let rates: Vec<f64> = users
            .iter()
            .filter(|(_, sums)| sums.ended >= FEWEST)
            .map(|(_, sums)| sums.completed as f64 / sums.ended as f64)
            .collect();
        let mut order: Vec<&(&str, Sums)> = users.iter().collect();
        order.sort_by(|a, b| {
            let key = |sums: &Sums| (sums.gpu_s.value(), sums.jobs);
            let ((gpu_a, jobs_a), (gpu_b, jobs_b)) = (key(&a.1), key(&b.1));
            gpu_b.total_cmp(&gpu_a).then(jobs_b.cmp(&jobs_a)).then_with(|| a.0.cmp(b.0))
        });
        let top = order
            .into_iter()
            .take(TOP)
            .map(|(user, sums)| UserLoad {
                user: (*user).to_owned(),
                jobs: sums.jobs,
                gpu_hours: hours(sums.gpu_s.value()),
                gpu_time_share: share(sums.gpu_s.value(), gpu_s),
                cpu_hours: cpus_known.then(|| hours(sums.cpu_s.value())),
                completed_share: share(sums.completed as f64, sums.ended as f64),
                mean_wait_s: share(sums.wait_s.value(), sums.waits as f64),
                gpu_wait_hours: (sums.waits > 0).then(|| hours(sums.gpu_wait_s.value())),
            })
            .collect();
        Ok(Self {
            users: users.len() as u64,
            jobs: facts.len() as u64 - unknown_user_jobs,
            unknown_user_jobs,
            gpu_hours: hours(gpu_s),
            gpu_time: concentration(&|sums| Some(hours(sums.gpu_s.value()))),
            cpu_time: concentration(&|sums| cpus_known.then(|| hours(sums.cpu_s.value()))),
            wait: concentration(&|sums| (sums.waits > 0).then(|| hours(sums.wait_s.value()))),
            gpu_wait: concentration(&|sums| (sums.waits > 0).then(|| hours(sums.gpu_wait_s.value()))),
            completed_share_curve: Ecdf::new(&rates).map(|ecdf| ecdf.thin(POINTS)).unwrap_or_default(),
            completed_share: quantile::Summary::of_vec(rates),
            top,
        })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading()
            .with_finding(self.finding())
            .with_gpu_hours((self.gpu_hours > 0.0).then_some(self.gpu_hours));
        let measures = [
            ("GPU time", self.gpu_time.as_ref()),
            ("CPU time", self.cpu_time.as_ref()),
            ("wait", self.wait.as_ref()),
            ("GPUs × wait", self.gpu_wait.as_ref()),
        ];
        let mut table = ReportTable::new(
            "Concentration over users",
            vec![
                Column::text("Of"),
                Column::number("Users"),
                Column::with_unit("Total", "h"),
                Column::number("Gini"),
                Column::number("Top 1 %"),
                Column::number("Top 5 %"),
                Column::number("Top 10 %"),
            ],
        );
        let mut series = Vec::new();
        for (name, measure) in measures {
            let Some(measure) = measure else { continue };
            table.rows.push(vec![
                name.into(),
                int(measure.holders),
                Cell::Compact(measure.total),
                Cell::Float { value: measure.gini, digits: 2 },
                Cell::Percent(measure.top_1_percent_share),
                Cell::Percent(measure.top_5_percent_share),
                Cell::Percent(measure.top_10_percent_share),
            ]);
            let points = measure.lorenz.iter().map(|point| (point.holder_share, point.value_share)).collect();
            series.push(ChartSeries::new(name, Mark::Line, points));
        }
        if !series.is_empty() {
            section = section
                .with_chart(
                    Chart::xy(
                        "users-lorenz",
                        "Share of the total held by the users who hold least",
                        Axis::share("Share of users, least first"),
                        Axis::share("Share held"),
                        series,
                    )
                    .with_reference(Reference::Diagonal { label: "all equal".to_owned() })
                    .with_reading(
                        "The further a curve sags below the diagonal, the fewer users hold the total. A wait curve below the \
                         GPU time curve means that the queue falls on few.",
                    ),
                )
                .with_table(table);
        }
        if self.completed_share_curve.len() > 1 {
            let points = self.completed_share_curve.iter().map(|point| (point.x, point.fraction)).collect();
            section = section.with_chart(
                Chart::xy(
                    "users-completed",
                    "Share of users whose jobs complete at most so often",
                    Axis::share("Completed jobs of a user's ended jobs"),
                    Axis::share("Share of users"),
                    vec![ChartSeries::new("users", Mark::Step, points)],
                )
                .with_reading("Users at the left seldom see a job complete: debugging help there frees most GPU time."),
            );
        }
        let mut coverage = format!("{} of {}", counted(self.jobs, "job", "jobs"), counted(self.users, "user", "users"));
        if self.unknown_user_jobs > 0 {
            coverage.push_str(&format!("; the user of {} is unknown", counted(self.unknown_user_jobs, "job", "jobs")));
        }
        coverage.push('.');
        section
            .with_table(self.table())
            .with_definition("Top 1 %: the largest hundredth of the users, rounded up to whole users, over all users' total.")
            .with_definition("CPU time: cores given (asked for where that is unknown) × run. GPUs × wait: the GPU time a user's jobs waited for.")
            .with_definition(format!(
                "Completion rate: completed jobs over jobs that ended in a known state; its distribution is over users with \
                 at least {FEWEST} such jobs."
            ))
            .with_coverage(coverage)
    }
}

impl Users {
    fn finding(&self) -> String {
        let mut text = match &self.gpu_time {
            Some(_) if self.users < ENOUGH => format!(
                "The GPU time is that of few users ({}), the largest of whom holds **{}** of it",
                count(self.users),
                self.top
                    .first()
                    .and_then(|user| user.gpu_time_share)
                    .map_or_else(|| "an unknown share".to_owned(), percent)
            ),
            Some(gpu) => format!(
                "The top 5 % of {} users hold **{}** of the GPU time, the top 10 % {} (Gini {:.2})",
                count(self.users),
                percent(gpu.top_5_percent_share),
                percent(gpu.top_10_percent_share),
                gpu.gini
            ),
            None => {
                format!("{} submitted jobs; their GPU time is unknown or none", counted(self.users, "user", "users"))
            }
        };
        if let Some(wait) = self.gpu_wait.as_ref().filter(|_| self.users >= ENOUGH) {
            text.push_str(&format!(
                "; of the GPU time that was waited for, the top 5 % bear **{}**",
                percent(wait.top_5_percent_share)
            ));
        }
        let jobs = self.jobs + self.unknown_user_jobs;
        if let Some(unknown) =
            share(self.unknown_user_jobs as f64, jobs as f64).filter(|share| *share > 1.0 - CAVEAT_BELOW)
        {
            text.push_str(&format!("; the user of **{}** of the jobs is unknown", percent(unknown)));
        }
        text.push('.');
        if let Some(rates) = self.completed_share.as_ref().filter(|rates| rates.count >= ENOUGH) {
            text.push_str(&format!(
                " Half of the users see at most **{}** of their jobs complete, a tenth at most {}.",
                percent(rates.p50),
                percent(rates.p10)
            ));
        }
        text
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Users with most GPU time",
            vec![
                Column::text("User"),
                Column::number("Jobs"),
                Column::number("GPU-hours"),
                Column::number("Share"),
                Column::number("Complete"),
                Column::number("Mean wait"),
                Column::with_unit("GPUs × wait", "h"),
            ],
        );
        for user in &self.top {
            table.rows.push(vec![
                user.user.as_str().into(),
                int(user.jobs),
                Cell::Float { value: user.gpu_hours, digits: 0 },
                Cell::opt(user.gpu_time_share, Cell::Percent),
                Cell::opt(user.completed_share, Cell::Percent),
                Cell::opt(user.mean_wait_s, Cell::Duration),
                Cell::opt(user.gpu_wait_hours, Cell::Compact),
            ]);
        }
        if self.users > TOP as u64 {
            table.note = Some(format!("{}.", counted(self.users - TOP as u64, "more user", "more users")));
        }
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::JobRow;
    use crate::trace::Trace;

    fn job(
        user: Option<&'static str>,
        gpus: f64,
        submit_h: i64,
        start_h: i64,
        end_h: i64,
        state: &'static str,
    ) -> JobRow<'static> {
        JobRow {
            user: user.map(Into::into),
            submit: Some(submit_h * 3_600_000),
            start: Some(start_h * 3_600_000),
            end: Some(end_h * 3_600_000),
            run_s: Some((end_h - start_h) as f64 * 3_600.0),
            req_gpus: Some(gpus),
            state: Some(state.into()),
            ..JobRow::default()
        }
    }

    #[test]
    fn the_worked_number_and_each_users_row() {
        let mut trace = Trace::default();
        // ann: 2 GPUs × 3 h after 1 h of wait; bob and cid one GPU-hour each, bob after 3 h; one job of nobody.
        trace.jobs.push(job(Some("ann"), 2.0, 0, 1, 4, "completed"));
        trace.jobs.push(job(Some("cid"), 1.0, 0, 0, 1, "failed"));
        trace.jobs.push(job(Some("bob"), 1.0, 0, 3, 4, "unknown"));
        trace.jobs.push(job(None, 8.0, 0, 0, 1, "completed"));
        let users = Users::of(&JobFacts::new(&trace)).unwrap();
        let gpu = users.gpu_time.as_ref().unwrap();
        assert!((gpu.gini - 5.0 / 12.0).abs() < 1e-12);
        assert_eq!((gpu.total, gpu.top_10_percent_share), (8.0, 0.75));
        // GPU-hours waited for: 2 · 1, 1 · 3 and 0.
        assert_eq!(users.gpu_wait.as_ref().unwrap().top_1_percent_share, 0.6);
        assert_eq!((users.users, users.jobs, users.unknown_user_jobs), (3, 3, 1));
        assert!(users.cpu_time.is_none() && users.completed_share.is_none());
        // The tie of bob and cid goes by name; bob's state is unknown, so no rate; cid's is 0.
        let rows: Vec<_> =
            users.top.iter().map(|u| (u.user.as_str(), u.gpu_hours, u.completed_share, u.mean_wait_s)).collect();
        assert_eq!(
            rows,
            [
                ("ann", 6.0, Some(1.0), Some(3_600.0)),
                ("bob", 1.0, None, Some(10_800.0)),
                ("cid", 1.0, Some(0.0), Some(0.0))
            ]
        );
    }

    #[test]
    fn cpu_time_uses_cores_given_before_cores_asked_for() {
        let mut trace = Trace::default();
        let mut a = job(Some("ann"), 0.0, 0, 0, 2, "completed");
        (a.alloc_cpus, a.req_cpus) = (Some(4.0), Some(16.0));
        let mut b = job(Some("bob"), 0.0, 0, 0, 1, "completed");
        b.req_cpus = Some(2.0);
        trace.jobs.push(a);
        trace.jobs.push(b);
        let users = Users::of(&JobFacts::new(&trace)).unwrap();
        // 4 · 2 + 2 · 1.
        assert_eq!(users.cpu_time.as_ref().unwrap().total, 10.0);
        assert!(users.gpu_time.is_none());
        assert!(Users::of(&JobFacts::new(&Trace::default())).is_err());
    }
}
