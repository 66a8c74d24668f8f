//! A1: the trace at a glance.

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::facts::capacity::Capacity;
use crate::report::format::{compact, count, counted, duration};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::Table as _;
use crate::stats;
use crate::time::{DAY_MS, Zone};
use crate::trace::Trace;

/// Counts, span, and the size, run and wait of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TraceSummary {
    /// Jobs.
    pub jobs: u64,
    /// Jobs known to have GPUs.
    pub gpu_jobs: u64,
    /// Jobs known to have none.
    pub cpu_jobs: u64,
    /// Jobs whose GPU count nobody recorded.
    pub unknown_gpu_jobs: u64,
    /// GPUs × run, summed over the jobs where both are known, hours; `null` where they are known of none.
    pub gpu_hours: Option<f64>,
    /// GPU jobs whose run is unknown, so that they count for nothing in the GPU-hours.
    pub gpu_jobs_without_run: u64,
    /// Part of `gpu_hours` in which jobs were suspended and kept their GPUs; left out where no source says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_gpu_hours: Option<f64>,
    /// Jobs still running at the end of the observation.
    pub running_jobs: u64,
    /// Distinct users.
    pub users: Option<u64>,
    /// Distinct VCs, partitions or queues.
    pub vcs: Option<u64>,
    /// Nodes in the inventory.
    pub nodes: Option<u64>,
    /// Nodes with GPUs, which replays and plans count; `null` where no node's GPUs are known.
    pub gpu_nodes: Option<u64>,
    /// GPUs in the inventory or capacity, mean over the observation; where known by VC, of the VCs that jobs name.
    pub gpus: Option<f64>,
    /// First moment a job record names, ms since the epoch (or since the trace began).
    pub from_ms: Option<i64>,
    /// Last moment a job record names.
    pub to_ms: Option<i64>,
    /// Whether `from_ms` and `to_ms` are true dates.
    pub true_dates: bool,
    /// The cluster's time zone.
    pub zone: String,
    /// GPUs of the GPU jobs.
    pub gpus_per_gpu_job: Option<stats::quantile::Summary>,
    /// Run of the GPU jobs that ended, seconds.
    pub gpu_job_run_s: Option<stats::quantile::Summary>,
    /// Wait of the GPU jobs, seconds.
    pub gpu_job_wait_s: Option<stats::quantile::Summary>,
    /// Run of the CPU jobs that ended, seconds.
    pub cpu_job_run_s: Option<stats::quantile::Summary>,
    /// Wait of the CPU jobs, seconds.
    pub cpu_job_wait_s: Option<stats::quantile::Summary>,
    /// Run of all jobs that ended, seconds; for traces that do not count GPUs.
    pub run_s: Option<stats::quantile::Summary>,
    /// Wait of all jobs, seconds.
    pub wait_s: Option<stats::quantile::Summary>,
    /// Jobs whose run is the source's own figure, not derived from timestamps.
    pub reported_runs: u64,
    /// Jobs whose start is unknown and was taken to be their submission, for use over time.
    pub assumed_starts: u64,
    /// Share of these jobs in the GPU time.
    pub assumed_gpu_time_share: Option<f64>,
}

impl TraceSummary {
    /// Period and zone, in words.
    pub(super) fn subtitle(&self) -> String {
        match (self.from_ms, self.to_ms) {
            (Some(from), Some(to)) => period(from, to, self.true_dates, &self.zone),
            _ => String::new(),
        }
    }

    /// The first sentence of the report.
    pub(super) fn sentence(&self) -> String {
        let mut text =
            format!("The trace holds **{}** {}", count(self.jobs), if self.jobs == 1 { "job" } else { "jobs" });
        if self.unknown_gpu_jobs == self.jobs {
            text.push_str("; nobody recorded how many GPUs they had, so GPU time is **unknown**");
        } else {
            text.push_str(&format!(
                ", of which **{}** used GPUs, for {} GPU-hours",
                count(self.gpu_jobs),
                self.gpu_hours
                    .map_or_else(|| "an unknown number of".to_owned(), |hours| format!("**{}**", compact(hours)))
            ));
            if self.unknown_gpu_jobs > 0 {
                text.push_str(&format!(
                    "; the GPU count of {} is unknown",
                    counted(self.unknown_gpu_jobs, "job", "jobs")
                ));
            }
        }
        if let (Some(from), Some(to)) = (self.from_ms, self.to_ms) {
            text.push_str(&format!(", over {}", span(from, to)));
        }
        if let Some(users) = self.users {
            text.push_str(&format!(", from {}", counted(users, "user", "users")));
        }
        if let Some(gpus) = self.gpus {
            text.push_str(&format!(", on {}", counted(gpus.round() as u64, "GPU", "GPUs")));
        }
        text.push('.');
        text
    }
}

impl Topic for TraceSummary {
    const ID: &'static str = "summary";
    const CODE: &'static str = "A1";
    const TITLE: &'static str = "The trace at a glance";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        if facts.is_empty() {
            return Err("the source holds no jobs".to_owned());
        }
        let trace = facts.trace;
        let collect = |value: &dyn Fn(usize) -> Option<f64>, keep: &dyn Fn(usize) -> bool| {
            let values: Vec<f64> = (0..facts.len()).filter(|job| keep(*job)).filter_map(value).collect();
            stats::quantile::Summary::of_vec(values)
        };
        let number = |keep: &dyn Fn(usize) -> bool| (0..facts.len()).filter(|job| keep(*job)).count() as u64;
        let gpu = |job: usize| facts.is_gpu_job(job);
        let cpu = |job: usize| facts.gpus(job) == Some(0.0);
        let ended_run = |job: usize| facts.run_s(job).filter(|_| !facts.is_censored(job));
        let wait = |job: usize| facts.wait_s(job);
        let distinct = |label: &crate::schema::Label| (!label.is_all_unknown()).then(|| label.distinct() as u64);
        let total_gpu_s = facts.total_gpu_s();
        let gpus = facts.window.and_then(|(from, to)| {
            Capacity::of_jobs(facts, from, to).and_then(|capacity| capacity.cluster.mean(from, to.max(from + 1)))
        });
        Ok(Self {
            jobs: facts.len() as u64,
            gpu_jobs: number(&gpu),
            cpu_jobs: number(&cpu),
            unknown_gpu_jobs: number(&|job| facts.gpus(job).is_none()),
            gpu_hours: facts.gpu_time_s(0..facts.len()).map(hours),
            gpu_jobs_without_run: number(&|job| gpu(job) && facts.run_s(job).is_none()),
            suspended_gpu_hours: suspended_gpu_s(facts).map(hours),
            running_jobs: number(&|job| facts.is_censored(job)),
            users: distinct(&trace.jobs.user),
            vcs: distinct(&trace.jobs.vc),
            nodes: (!trace.nodes.is_empty()).then(|| trace.nodes.len() as u64),
            gpu_nodes: gpu_nodes(trace),
            gpus,
            from_ms: facts.window.map(|(from, _)| from),
            to_ms: facts.window.map(|(_, to)| to),
            true_dates: trace.basis.has_dates(),
            zone: trace.zone.clone(),
            gpus_per_gpu_job: collect(&|job| facts.gpus(job), &gpu),
            gpu_job_run_s: collect(&ended_run, &gpu),
            gpu_job_wait_s: collect(&wait, &gpu),
            cpu_job_run_s: collect(&ended_run, &cpu),
            cpu_job_wait_s: collect(&wait, &cpu),
            run_s: collect(&ended_run, &|_| true),
            wait_s: collect(&wait, &|_| true),
            reported_runs: facts.reported_runs as u64,
            assumed_starts: facts.assumed_starts as u64,
            assumed_gpu_time_share: share(facts.assumed_gpu_s, total_gpu_s),
        })
    }

    fn section(&self) -> Section {
        let mut counts = ReportTable::new("Counts", vec![Column::text("What"), Column::number("Value")]);
        let mut row = |what: &str, cell: Cell| counts.rows.push(vec![what.into(), cell]);
        row("Jobs", int(self.jobs));
        row("GPU jobs", int(self.gpu_jobs));
        row("CPU jobs", int(self.cpu_jobs));
        row("Jobs with unknown GPU count", int(self.unknown_gpu_jobs));
        row("Jobs still running at the end", int(self.running_jobs));
        let known = self.unknown_gpu_jobs < self.jobs;
        row("GPU-hours", Cell::opt(self.gpu_hours, |value| Cell::Float { value, digits: 0 }));
        if let Some(value) = self.suspended_gpu_hours {
            row("GPU-hours suspended", Cell::Float { value, digits: 1 });
        }
        row("Users", Cell::opt(self.users, int));
        row("VCs, partitions or queues", Cell::opt(self.vcs, int));
        row("Nodes", Cell::opt(self.nodes, int));
        row("Nodes with GPUs", Cell::opt(self.gpu_nodes, int));
        row("GPUs, mean over the observation", Cell::opt(self.gpus, |value| Cell::Float { value, digits: 0 }));

        let mut spread = ReportTable::new(
            "Size, run and wait",
            ["Of", "Known", "Mean", "Median", "90 %", "99 %", "Largest"]
                .iter()
                .enumerate()
                .map(|(ix, name)| if ix == 0 { Column::text(*name) } else { Column::number(*name) })
                .collect(),
        );
        let mut line = |what: &str, summary: Option<&stats::quantile::Summary>, cell: &dyn Fn(f64) -> Cell| {
            if let Some(s) = summary {
                let values = [s.mean, s.p50, s.p90, s.p99, s.max];
                let mut cells = vec![what.into(), int(s.count)];
                cells.extend(values.iter().map(|value| cell(*value)));
                spread.rows.push(cells);
            }
        };
        line("GPUs of GPU jobs", self.gpus_per_gpu_job.as_ref(), &|value| Cell::Float { value, digits: 2 });
        if known {
            line("Run of GPU jobs", self.gpu_job_run_s.as_ref(), &Cell::Duration);
            line("Wait of GPU jobs", self.gpu_job_wait_s.as_ref(), &Cell::Duration);
            line("Run of CPU jobs", self.cpu_job_run_s.as_ref(), &Cell::Duration);
            line("Wait of CPU jobs", self.cpu_job_wait_s.as_ref(), &Cell::Duration);
        } else {
            line("Run of all jobs", self.run_s.as_ref(), &Cell::Duration);
            line("Wait of all jobs", self.wait_s.as_ref(), &Cell::Duration);
        }
        let mut section = Self::heading()
            .with_finding(self.sentence())
            .with_gpu_hours(self.gpu_hours)
            .with_table(counts)
            .with_table(spread)
            .with_definition(
                "GPUs of a job: those given, or those asked for where the source does not say. A CPU job has none; a job \
                 whose count nobody recorded is neither.",
            )
            .with_definition(
                "Run: the time the attempts of a job ran, from their timestamps, or the source's own figure where those \
                 are missing. Runs of jobs that had not ended are left out of the spread above.",
            )
            .with_definition("Wait: from submission to the first start.")
            .with_definition(
                "GPU-hours: GPUs × run, with jobs still running counted until the end of the observation. `tracecast query --standard` \
                 counts the same; `tracecast simulate` replays jobs that ended, on nodes with GPUs.",
            );
        if self.suspended_gpu_hours.is_some() {
            section = section.with_definition(
                "Suspended: a job keeps its GPUs while it is stopped, which are counted. Its processors are not, as other \
                 jobs can use them.",
            );
        }
        if self.reported_runs > 0 {
            section = section.with_coverage(format!(
                "The run of {} is the source's own figure, as their start or end is not recorded.",
                counted(self.reported_runs, "job", "jobs")
            ));
        }
        section
    }
}

/// GPU time of all jobs in which they were suspended, GPU-seconds; `None` where there was none.
fn suspended_gpu_s(facts: &JobFacts<'_>) -> Option<f64> {
    let known = (0..facts.len()).filter_map(|job| Some(facts.gpus(job)? * facts.suspended_s(job)));
    Some(crate::stats::NeumaierSum::from_iter(known).value()).filter(|sum| *sum > 0.0)
}

/// Nodes of the inventory with at least a part of a GPU; `None` where no node's GPUs are known.
fn gpu_nodes(trace: &Trace) -> Option<u64> {
    let gpus = || trace.nodes.gpus.iter().flatten().filter_map(crate::schema::gpu_count);
    gpus().next()?;
    Some(gpus().filter(|gpus| *gpus > 0.0).count() as u64)
}

/// Period that a source without jobs covers, in words; `None` where it holds no samples either.
pub(super) fn observed(trace: &Trace) -> Option<String> {
    let times = || {
        let activity = trace.activity.ts.iter().flatten();
        activity.chain(trace.gpu_samples.ts.iter().flatten()).chain(trace.node_samples.ts.iter().flatten())
    };
    Some(period(times().min()?, times().max()?, trace.basis.has_dates(), &trace.zone))
}

/// A period in words.
fn period(from: i64, to: i64, true_dates: bool, zone: &str) -> String {
    if true_dates {
        // The reader and the manifest hold checked names; UTC is the safe reading of a damaged one.
        let zone = Zone::named(zone).unwrap_or_else(|_| Zone::utc());
        format!("{}, {}", zone.show_between(from, to), span(from, to))
    } else {
        format!("{} of relative time", span(from, to))
    }
}

fn span(from: i64, to: i64) -> String {
    let days = (to - from) as f64 / DAY_MS as f64;
    if days >= 2.0 { format!("{days:.0} days") } else { duration((to - from) as f64 / 1_000.0) }
}

/// A count as a cell.
pub(super) fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
