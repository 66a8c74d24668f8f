//! A6: how jobs end, by count, by GPU time and by size.
//!
//! Worked number: nine completed jobs of one GPU-hour and one failed job of 11: failures are 10 % of the jobs and
//! 11 / 20 = 55 % of the GPU time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{compact, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, Column, ReportTable, Section};
use crate::schema::JobState;
use crate::stats::NeumaierSum;

/// Jobs in one state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ByState {
    /// The state.
    pub state: JobState,
    /// Jobs.
    pub jobs: u64,
    /// Share of the jobs.
    pub job_share: f64,
    /// GPU jobs among them.
    pub gpu_jobs: u64,
    /// Share of the GPU jobs.
    pub gpu_job_share: Option<f64>,
    /// GPU-hours; `null` where the GPU time of none of them is known.
    pub gpu_hours: Option<f64>,
    /// Share of the GPU time; `null` where that of none of them is known.
    pub gpu_time_share: Option<f64>,
}

/// Jobs of one size class by state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SizeByState {
    /// The size class.
    pub size: SizeClass,
    /// Jobs.
    pub jobs: u64,
    /// Share of the jobs in each state that occurs in the trace, in the order of `by_state`.
    pub shares: Vec<f64>,
}

/// End states of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Status {
    /// Jobs by state, in the order of the states.
    pub by_state: Vec<ByState>,
    /// Jobs by size class and state.
    pub by_size: Vec<SizeByState>,
    /// The source's own words, with their jobs, most frequent first.
    pub reported: Vec<(String, u64)>,
}

/// Sums of one state, or of one state and size.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: u64,
    gpu_jobs: u64,
    /// Jobs whose GPU time is known.
    timed: u64,
    gpu_s: NeumaierSum,
}

impl Topic for Status {
    const ID: &'static str = "status";
    const CODE: &'static str = "A6";
    const TITLE: &'static str = "How jobs end";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        if facts.is_empty() {
            return Err("the source holds no jobs".to_owned());
        }
        if facts.state.iter().all(|state| *state == JobState::Unknown)
            && facts.trace.jobs.reported_state.is_all_unknown()
        {
            return Err("the source records no job states".to_owned());
        }
        let groups = grouped(facts);
        let mut states: BTreeMap<JobState, Sums> = BTreeMap::new();
        for ((state, _), sums) in &groups {
            let total = states.entry(*state).or_default();
            total.jobs += sums.jobs;
            total.gpu_jobs += sums.gpu_jobs;
            total.timed += sums.timed;
            total.gpu_s.add(sums.gpu_s.value());
        }
        let jobs: u64 = states.values().map(|sums| sums.jobs).sum();
        let gpu_jobs: u64 = states.values().map(|sums| sums.gpu_jobs).sum();
        let gpu_s: f64 = states.values().map(|sums| sums.gpu_s.value()).sum();
        let by_state: Vec<ByState> = states
            .iter()
            .map(|(state, sums)| ByState {
                state: *state,
                jobs: sums.jobs,
                job_share: sums.jobs as f64 / jobs as f64,
                gpu_jobs: sums.gpu_jobs,
                gpu_job_share: share(sums.gpu_jobs as f64, gpu_jobs as f64),
                gpu_hours: (sums.timed > 0).then(|| hours(sums.gpu_s.value())),
                gpu_time_share: share(sums.gpu_s.value(), gpu_s).filter(|_| sums.timed > 0),
            })
            .collect();
        let by_size = SizeClass::ALL
            .into_iter()
            .filter_map(|size| {
                let of = |state: JobState| groups.get(&(state, Some(size))).map_or(0, |sums| sums.jobs);
                let jobs: u64 = states.keys().map(|state| of(*state)).sum();
                let shares = states.keys().map(|state| of(*state) as f64 / jobs.max(1) as f64).collect();
                (jobs > 0).then_some(SizeByState { size, jobs, shares })
            })
            .collect();
        let mut words: BTreeMap<&str, u64> = BTreeMap::new();
        for word in facts.trace.jobs.reported_state.iter().flatten() {
            *words.entry(word).or_default() += 1;
        }
        let mut reported: Vec<(String, u64)> = words.into_iter().map(|(word, jobs)| (word.to_owned(), jobs)).collect();
        reported.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(Self { by_state, by_size, reported })
    }

    fn section(&self) -> Section {
        let lost: Vec<&ByState> =
            self.by_state.iter().filter(|s| s.state.is_final() && s.state != JobState::Completed).collect();
        let lost_time: f64 = lost.iter().filter_map(|s| s.gpu_time_share).sum();
        let lost_jobs: f64 = lost.iter().map(|s| s.job_share).sum();
        let of = |state: JobState| self.by_state.iter().find(|s| s.state == state);
        let mut finding = match of(JobState::Completed) {
            Some(done) => format!(
                "**{}** of the jobs complete, with {} of the GPU time",
                percent(done.job_share),
                done.gpu_time_share.map_or_else(|| "an unknown share".to_owned(), percent)
            ),
            None => "No job is recorded as completed".to_owned(),
        };
        if lost_jobs > 0.0 {
            finding.push_str(&format!(
                "; jobs that failed, were cancelled or timed out are {} of the jobs and took **{}** of the GPU time",
                percent(lost_jobs),
                if lost.iter().any(|s| s.gpu_time_share.is_some()) {
                    percent(lost_time)
                } else {
                    "an unknown share".to_owned()
                }
            ));
        }
        if let Some(unknown) = of(JobState::Unknown) {
            finding.push_str(&format!(
                "; how **{}** of the jobs ended, with {} of the GPU time, is unknown",
                percent(unknown.job_share),
                unknown.gpu_time_share.map_or_else(|| "an unknown share".to_owned(), percent)
            ));
        }
        finding.push('.');
        let concerned: Vec<f64> =
            lost.iter().copied().chain(of(JobState::Unknown)).filter_map(|state| state.gpu_hours).collect();
        let lost_hours = (!concerned.is_empty()).then(|| concerned.iter().sum());
        let mut table = ReportTable::new(
            "Jobs by state",
            vec![
                Column::text("State"),
                Column::number("Jobs"),
                Column::number("Share of jobs"),
                Column::number("Share of GPU jobs"),
                Column::number("GPU-hours"),
                Column::number("Share of GPU time"),
            ],
        );
        for s in &self.by_state {
            table.rows.push(vec![
                words(s.state).into(),
                int(s.jobs),
                Cell::Percent(s.job_share),
                Cell::opt(s.gpu_job_share, Cell::Percent),
                Cell::opt(s.gpu_hours, |value| Cell::Float { value, digits: 0 }),
                Cell::opt(s.gpu_time_share, Cell::Percent),
            ]);
        }
        let reported: Vec<String> =
            self.reported.iter().take(12).map(|(word, jobs)| format!("{word} {jobs}")).collect();
        if !reported.is_empty() {
            table.note = Some(format!("The source's own words: {}.", reported.join(", ")));
        }
        let mut categories = vec!["all, by jobs".to_owned(), "all, by GPU time".to_owned()];
        categories.extend(self.by_size.iter().map(|size| size.size.name().to_owned()));
        let series = self
            .by_state
            .iter()
            .enumerate()
            .map(|(ix, state)| {
                let mut values = vec![Some(state.job_share), state.gpu_time_share];
                values.extend(self.by_size.iter().map(|size| size.shares.get(ix).copied()));
                BarSeries::new(words(state.state), values)
            })
            .collect();
        let chart = Chart::rows(
            "status",
            "How jobs end, by count, GPU time and size",
            Axis::share("Share"),
            BarLayout::Stacked,
            categories,
            series,
        )
        .with_reading("Each bar adds up to all jobs (or GPU time) of its row. A state that grows from the first to the second bar ends the expensive jobs.");
        let total: f64 = self.by_state.iter().filter_map(|s| s.gpu_hours).sum();
        Self::heading()
            .with_finding(finding)
            .with_gpu_hours(lost_hours)
            .with_chart(chart)
            .with_table(table)
            .with_definition(
                "States are the source's words brought to one set; time-outs, lost nodes and exhausted memory are kept \
                 apart from failures here, while some papers fold them into failures.",
            )
            .with_definition(
                "The section is ranked by the GPU time of jobs that ended without completing, or nobody knows how.",
            )
            .with_coverage(if total > 0.0 {
                format!("{} GPU-hours in all.", compact(total))
            } else {
                "GPU time is unknown.".to_owned()
            })
    }
}

/// Jobs and GPU time by state and size class. O(jobs × log groups).
fn grouped(facts: &JobFacts<'_>) -> BTreeMap<(JobState, Option<SizeClass>), Sums> {
    let mut groups: BTreeMap<(JobState, Option<SizeClass>), Sums> = BTreeMap::new();
    for job in 0..facts.len() {
        let sums = groups.entry((facts.state(job), facts.gpus(job).map(SizeClass::new))).or_default();
        sums.jobs += 1;
        sums.gpu_jobs += u64::from(facts.is_gpu_job(job));
        if let Some(gpu_s) = facts.gpu_s(job) {
            sums.timed += 1;
            sums.gpu_s.add(gpu_s);
        }
    }
    groups
}

/// A state for people.
pub(super) fn words(state: JobState) -> String {
    state.id().replace('_', " ")
}
