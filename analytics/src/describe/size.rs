//! A2: job sizes, by count and by GPU time.
//!
//! Worked number: one job of 8 GPUs for 1 h beside nine of 1 GPU for 1 h: jobs of up to 1 GPU are 90 % of the jobs and
//! 9 / 17 = 53 % of the GPU time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::report::format::{compact, count, counted, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats::sum::NeumaierSum;

/// Thresholds of the published size distributions.
const THRESHOLDS: [f64; 16] =
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
/// Rows the table shows.
const SHOWN: usize = 16;

/// Jobs of one size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BySize {
    /// GPUs.
    pub gpus: f64,
    /// Jobs.
    pub jobs: u64,
    /// Share of the GPU jobs.
    pub job_share: f64,
    /// GPU-hours.
    pub gpu_hours: f64,
    /// Share of the GPU time.
    pub gpu_time_share: Option<f64>,
}

/// One point of the distribution.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AtMost {
    /// GPUs.
    pub gpus: f64,
    /// Share of the GPU jobs of at most that size.
    pub job_share: f64,
    /// Share of the GPU time in these jobs.
    pub gpu_time_share: Option<f64>,
}

/// Numbers of GPUs that jobs use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Size {
    /// Every size that occurs, smallest first; GPU jobs only.
    pub by_gpus: Vec<BySize>,
    /// The distribution at the usual thresholds.
    pub at_most: Vec<AtMost>,
    /// GPU-hours in all.
    pub gpu_hours: f64,
    /// Jobs on more than one node, where nodes are recorded.
    pub multi_node_jobs: Option<u64>,
    /// Jobs whose GPU count is unknown; they are in no other number here.
    pub unknown_gpu_jobs: u64,
    /// Jobs whose node count is known.
    pub known_node_jobs: u64,
}

impl Topic for Size {
    const ID: &'static str = "size";
    const CODE: &'static str = "A2";
    const TITLE: &'static str = "Job sizes";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        // Sizes as whole millionths of a GPU, so that equal sizes are one row.
        let mut sizes: BTreeMap<i64, (u64, NeumaierSum)> = BTreeMap::new();
        for job in 0..facts.len() {
            let Some(gpus) = facts.gpus(job).filter(|gpus| *gpus > 0.0) else { continue };
            let entry = sizes.entry((gpus * 1e6).round() as i64).or_insert_with(|| (0, NeumaierSum::new()));
            entry.0 += 1;
            entry.1.add(facts.gpu_s(job).unwrap_or(0.0));
        }
        if sizes.is_empty() {
            return Err("no job is known to have used a GPU".to_owned());
        }
        let jobs: u64 = sizes.values().map(|(jobs, _)| jobs).sum();
        let gpu_s = NeumaierSum::from_iter(sizes.values().map(|(_, gpu_s)| gpu_s.value())).value();
        let by_gpus: Vec<BySize> = sizes
            .iter()
            .map(|(micro, (count, time))| BySize {
                gpus: *micro as f64 / 1e6,
                jobs: *count,
                job_share: *count as f64 / jobs as f64,
                gpu_hours: hours(time.value()),
                gpu_time_share: share(time.value(), gpu_s),
            })
            .collect();
        let largest = by_gpus.last().map_or(0.0, |size| size.gpus);
        let smallest = by_gpus.first().map_or(0.0, |size| size.gpus);
        let mut at_most: Vec<AtMost> = Vec::new();
        for gpus in THRESHOLDS {
            if gpus < smallest.min(1.0) {
                continue;
            }
            let below = by_gpus.iter().take_while(|size| size.gpus <= gpus);
            let (mut count, mut time) = (0, NeumaierSum::new());
            for size in below {
                count += size.jobs;
                time.add(size.gpu_hours);
            }
            at_most.push(AtMost {
                gpus,
                job_share: count as f64 / jobs as f64,
                gpu_time_share: share(time.value(), hours(gpu_s)),
            });
            if gpus >= largest {
                break;
            }
        }
        let nodes = |job: usize| {
            let table = &facts.trace.jobs;
            table.alloc_nodes.get(job).or_else(|| table.req_nodes.get(job)).filter(|_| facts.is_gpu_job(job))
        };
        let known_node_jobs = (0..facts.len()).filter(|job| nodes(*job).is_some()).count() as u64;
        let multi = (0..facts.len()).filter(|job| nodes(*job).is_some_and(|nodes| nodes > 1)).count() as u64;
        Ok(Self {
            by_gpus,
            at_most,
            gpu_hours: hours(gpu_s),
            multi_node_jobs: (known_node_jobs > 0).then_some(multi),
            unknown_gpu_jobs: (0..facts.len()).filter(|job| facts.gpus(*job).is_none()).count() as u64,
            known_node_jobs,
        })
    }

    fn section(&self) -> Section {
        let one = self.at_most.iter().find(|point| point.gpus == 1.0);
        let large: f64 = self.by_gpus.iter().filter(|size| size.gpus >= 8.0).map(|size| size.job_share).sum();
        let large_time: f64 =
            self.by_gpus.iter().filter(|size| size.gpus >= 8.0).filter_map(|s| s.gpu_time_share).sum();
        let mut finding = String::new();
        if let Some(one) = one {
            finding = format!(
                "**{}** of the GPU jobs ask for one GPU or less and take **{}** of the GPU time; jobs of 8 GPUs or more \
                 are {} of the jobs and **{}** of the GPU time",
                percent(one.job_share),
                one.gpu_time_share.map_or_else(|| "an unknown share".to_owned(), percent),
                percent(large),
                percent(large_time)
            );
            if self.unknown_gpu_jobs > 0 {
                finding.push_str(&format!(
                    "; the GPU count of {} is unknown",
                    counted(self.unknown_gpu_jobs, "further job", "further jobs")
                ));
            }
            finding.push('.');
        }
        let mut table = ReportTable::new(
            "Jobs by GPUs",
            vec![
                Column::number("GPUs"),
                Column::number("Jobs"),
                Column::number("Share of jobs"),
                Column::number("GPU-hours"),
                Column::number("Share of GPU time"),
            ],
        );
        // The sizes that matter: most GPU time or most jobs; the rest in one row.
        let mut order: Vec<usize> = (0..self.by_gpus.len()).collect();
        let weight = |ix: usize| self.by_gpus.get(ix).map_or(0.0, |s| s.gpu_time_share.unwrap_or(0.0).max(s.job_share));
        order.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)).then(a.cmp(b)));
        let mut shown: Vec<usize> = order.iter().take(SHOWN).copied().collect();
        shown.sort_unstable();
        for size in shown.iter().filter_map(|ix| self.by_gpus.get(*ix)) {
            table.rows.push(vec![
                Cell::from(number(size.gpus)),
                int(size.jobs),
                Cell::Percent(size.job_share),
                Cell::Float { value: size.gpu_hours, digits: 0 },
                Cell::opt(size.gpu_time_share, Cell::Percent),
            ]);
        }
        let hidden: Vec<&BySize> = order.iter().skip(SHOWN).filter_map(|ix| self.by_gpus.get(*ix)).collect();
        if !hidden.is_empty() {
            table.rows.push(vec![
                Cell::from(format!("{} other sizes", hidden.len())),
                int(hidden.iter().map(|s| s.jobs).sum()),
                Cell::Percent(hidden.iter().map(|s| s.job_share).sum()),
                Cell::Float { value: hidden.iter().map(|s| s.gpu_hours).sum(), digits: 0 },
                Cell::Percent(hidden.iter().filter_map(|s| s.gpu_time_share).sum()),
            ]);
        }
        let by_count = self.at_most.iter().map(|point| (point.gpus, point.job_share)).collect();
        let by_time = self.at_most.iter().filter_map(|point| Some((point.gpus, point.gpu_time_share?))).collect();
        let chart = Chart::xy(
            "size-cdf",
            "Share of jobs and of GPU time in jobs of at most so many GPUs",
            Axis::doubling("GPUs of the job"),
            Axis::share("Share"),
            vec![
                ChartSeries::new("of jobs", Mark::Step, by_count),
                ChartSeries::new("of GPU time", Mark::Step, by_time),
            ],
        )
        .with_reading(
            "Where the lower curve lags the upper one, few large jobs hold most of the GPU time: quotas and placement \
             decide about them, queue order about the many small ones.",
        );
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(Some(self.gpu_hours))
            .with_chart(chart)
            .with_table(table)
            .with_definition("Share of GPU time: GPUs × run of the jobs of that size over the same of all jobs.");
        if let Some(multi) = self.multi_node_jobs {
            section = section.with_text(format!(
                "{} of the {} GPU jobs whose node count is known ran on more than one node.",
                count(multi),
                count(self.known_node_jobs)
            ));
        }
        section.with_coverage(format!("GPU jobs only; {} GPU-hours in all.", compact(self.gpu_hours)))
    }
}

fn number(gpus: f64) -> String {
    if gpus.fract() == 0.0 { format!("{gpus:.0}") } else { format!("{gpus:.2}") }
}
