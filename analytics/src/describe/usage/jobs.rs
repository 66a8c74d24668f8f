//! Utilisation of whole jobs: GPU time held, and GPU time in which a kernel ran.
//!
//! A job's utilisation is the source's own figure, else the mean of the readings of its GPUs, taken to hold for its whole
//! run. Jobs without either are left out, and the coverage says how much GPU time that is.
//!
//! Complexity: O(n log n) in jobs.
//!
//! Worked number: 2 GPUs for an hour at 50 % and 1 GPU for two hours at 20 % held 4 GPU-hours, 1.4 of them with a kernel.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::LOW;
use crate::describe::status::words;
use crate::describe::summary::int;
use crate::describe::topic::{hours, share};
use crate::facts::job::JobUtilisation;
use crate::facts::samples::{Holder, HolderSource, Readings};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{compact, count, counted, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::schema::JobState;
use crate::stats::ecdf::{CurvePoint, Ecdf};
use crate::stats::quantile::weighted_quantiles;
use crate::stats::sum::NeumaierSum;

/// Jobs of one kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupPaid<K> {
    /// The kind.
    pub group: K,
    /// Jobs with a known utilisation.
    pub jobs: u64,
    /// GPU-hours they held.
    pub gpu_hours: f64,
    /// GPU-hours in which a kernel ran.
    pub kernel_gpu_hours: f64,
    /// The ratio of the two.
    pub util: Option<f64>,
}

/// Utilisation of whole jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobsUse {
    /// GPU jobs whose utilisation is the source's own figure.
    pub reported_jobs: u64,
    /// GPU jobs whose utilisation is the mean of their readings.
    pub sampled_jobs: u64,
    /// GPU-hours of those jobs.
    pub gpu_hours: f64,
    /// GPU-hours of jobs whose utilisation is the mean of their readings.
    pub sampled_gpu_hours: f64,
    /// GPU-hours over the GPU-hours of all jobs.
    pub gpu_time_coverage: Option<f64>,
    /// GPU-hours in which a kernel ran: Σ GPUs × run × utilisation.
    pub kernel_gpu_hours: f64,
    /// Utilisation, weighted by GPU time.
    pub util: f64,
    /// Quartiles of utilisation over GPU time: a quarter, a half and three quarters of the GPU time is in jobs of at most
    /// so much.
    pub quartiles: Vec<f64>,
    /// Share of the GPU time in jobs of a utilisation below 5 %.
    pub low_gpu_time_share: f64,
    /// Share of the GPU time in jobs of at most so much.
    pub curve: Vec<CurvePoint>,
    /// Utilisation by size.
    pub by_size: Vec<GroupPaid<SizeClass>>,
    /// Utilisation by state.
    pub by_state: Vec<GroupPaid<JobState>>,
}

/// GPU time held and GPU time in which a kernel ran, GPU-seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Paid {
    jobs: u64,
    held: NeumaierSum,
    kernel: NeumaierSum,
}

impl Paid {
    fn add(&mut self, gpu_s: f64, util: f64) {
        self.jobs += 1;
        self.held.add(gpu_s);
        self.kernel.add(gpu_s * util);
    }

    fn finish<K>(self, group: K) -> GroupPaid<K> {
        GroupPaid {
            group,
            jobs: self.jobs,
            gpu_hours: hours(self.held.value()),
            kernel_gpu_hours: hours(self.kernel.value()),
            util: share(self.kernel.value(), self.held.value()),
        }
    }
}

/// Computes the GPU utilisation of each job: the source's figure, else the mean of its readings.
///
/// Of some of the jobs alone, readings count only where they name their job: a placement does not
/// show who shared the GPU. O(jobs + readings).
pub(super) fn utilisation(facts: &JobFacts<'_>, readings: Option<&Readings<'_>>) -> Vec<Option<JobUtilisation>> {
    let mut sampled = vec![(NeumaierSum::new(), 0u64); facts.len()];
    let is_complete = facts.trace.selected.is_none();
    let readings = readings.filter(|readings| is_complete || readings.source == HolderSource::Samples);
    for reading in readings.iter().flat_map(|readings| readings.all()) {
        let Holder::Job(job) = reading.holder else { continue };
        let util = reading.value(&facts.trace.gpu_samples.util_ratio);
        if let (Some(util), Some((sum, known))) = (util, sampled.get_mut(job)) {
            sum.add(util);
            *known += 1;
        }
    }
    let reported = &facts.trace.jobs.reported_gpu_util_ratio;
    let of_job = |(job, (sum, known)): (usize, &(NeumaierSum, u64))| {
        let reported = reported.get(job);
        let ratio = reported.or_else(|| share(sum.value(), *known as f64))?;
        Some(JobUtilisation { ratio, is_sampled: reported.is_none() })
    };
    sampled.iter().enumerate().map(of_job).collect()
}

impl JobsUse {
    pub(super) fn new(facts: &JobFacts<'_>, utilisation: &[Option<JobUtilisation>]) -> Option<Self> {
        let mut total = Paid::default();
        let (mut reported_jobs, mut sampled_jobs, mut sampled_gpu_s) = (0, 0, NeumaierSum::new());
        let mut by_size: BTreeMap<SizeClass, Paid> = BTreeMap::new();
        let mut by_state: BTreeMap<JobState, Paid> = BTreeMap::new();
        let (mut utils, mut weights) = (Vec::new(), Vec::new());
        for job in 0..facts.len() {
            let Some(gpu_s) = facts.gpu_s(job).filter(|gpu_s| *gpu_s > 0.0) else { continue };
            let Some(JobUtilisation { ratio: util, is_sampled }) = utilisation.get(job).copied().flatten() else {
                continue;
            };
            reported_jobs += u64::from(!is_sampled);
            if is_sampled {
                sampled_jobs += 1;
                sampled_gpu_s.add(gpu_s);
            }
            total.add(gpu_s, util);
            if let Some(gpus) = facts.gpus(job) {
                by_size.entry(SizeClass::new(gpus)).or_default().add(gpu_s, util);
            }
            by_state.entry(facts.state(job)).or_default().add(gpu_s, util);
            utils.push(util);
            weights.push(gpu_s);
        }
        let curve = Ecdf::weighted(&utils, &weights)?;
        Some(Self {
            reported_jobs,
            sampled_jobs,
            gpu_hours: hours(total.held.value()),
            sampled_gpu_hours: hours(sampled_gpu_s.value()),
            gpu_time_coverage: share(total.held.value(), facts.total_gpu_s()),
            kernel_gpu_hours: hours(total.kernel.value()),
            util: share(total.kernel.value(), total.held.value())?,
            quartiles: weighted_quantiles(&utils, &weights, &[0.25, 0.5, 0.75]).into_iter().flatten().collect(),
            low_gpu_time_share: curve.fraction_below(LOW),
            curve: curve.thin(100),
            by_size: by_size.into_iter().map(|(size, paid)| paid.finish(size)).collect(),
            by_state: by_state.into_iter().map(|(state, paid)| paid.finish(state)).collect(),
        })
    }

    pub(super) fn tell(&self, section: Section) -> Section {
        let mut table = ReportTable::new(
            "GPU time held and GPU time in which a kernel ran",
            vec![
                Column::text("Jobs"),
                Column::number("Count"),
                Column::number("GPU-hours held"),
                Column::number("GPU-hours with a kernel"),
                Column::number("Utilisation"),
            ],
        );
        let mut row = |name: String, jobs: u64, held: f64, kernel: f64, util: Option<f64>| {
            table.rows.push(vec![
                name.into(),
                int(jobs),
                Cell::Compact(held),
                Cell::Compact(kernel),
                Cell::opt(util, Cell::Percent),
            ]);
        };
        let jobs = self.reported_jobs + self.sampled_jobs;
        row("all".to_owned(), jobs, self.gpu_hours, self.kernel_gpu_hours, Some(self.util));
        for by in &self.by_size {
            row(by.group.name().to_owned(), by.jobs, by.gpu_hours, by.kernel_gpu_hours, by.util);
        }
        for by in &self.by_state {
            row(words(by.group), by.jobs, by.gpu_hours, by.kernel_gpu_hours, by.util);
        }
        let categories: Vec<String> = (self.by_size.iter().map(|by| by.group.name().to_owned()))
            .chain(self.by_state.iter().map(|by| words(by.group)))
            .collect();
        let values = self.by_size.iter().map(|by| by.util).chain(self.by_state.iter().map(|by| by.util)).collect();
        let chart = Chart::rows(
            "usage-of-jobs",
            "GPU utilisation by size and state, over GPU time",
            Axis::share("Utilisation"),
            BarLayout::Grouped,
            categories,
            vec![BarSeries::new("utilisation", values)],
        )
        .with_reading("The rest of each bar, up to 100 %, is GPU time paid for in which no kernel ran.");
        let curve = Chart::xy(
            "usage-over-gpu-time",
            "Share of the GPU time in jobs of at most so much utilisation",
            Axis::share("GPU utilisation of the job"),
            Axis::share("Share of GPU time"),
            vec![ChartSeries::new("jobs", Mark::Step, self.curve.iter().map(|p| (p.x, p.fraction)).collect())],
        )
        .with_reading("The height at the left edge is GPU time held by jobs that hardly use their GPUs.");
        section
            .with_gpu_hours(Some((self.gpu_hours - self.kernel_gpu_hours).max(0.0)))
            .with_chart(chart)
            .with_chart(curve)
            .with_table(table)
            .with_definition(
                "Utilisation of a job: the source's own figure, else the mean of the readings of its GPUs, taken to hold for \
                 its whole run even where they cover only a part of it. GPU-hours with a kernel: Σ GPUs × run × \
                 utilisation. The section is ranked by the GPU-hours without one.",
            )
    }

    pub(super) fn covers(&self) -> String {
        let part = self
            .gpu_time_coverage
            .map_or_else(String::new, |part| format!(", {} of the GPU time of all jobs", percent(part)));
        format!(
            "The utilisation of {} is known ({} from the source, {} from readings): {} GPU-hours{part}; {} of them rest \
             on readings.",
            counted(self.reported_jobs + self.sampled_jobs, "job", "jobs"),
            count(self.reported_jobs),
            count(self.sampled_jobs),
            compact(self.gpu_hours),
            compact(self.sampled_gpu_hours)
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::describe::topic::Topic;
    use crate::describe::usage::Usage;
    use crate::schema::JobRow;

    fn job(trace: &mut Trace, key: &str, gpus: f64, run_s: f64, util: Option<f64>, state: &str) {
        trace.jobs.push(JobRow {
            job_key: Some(key.to_owned().into()),
            run_s: Some(run_s),
            alloc_gpus: Some(gpus),
            state: Some(state.to_owned().into()),
            reported_gpu_util_ratio: util,
            ..JobRow::default()
        });
    }

    #[test]
    fn four_gpu_hours_paid_for_hold_one_point_four_of_kernels() {
        let mut trace = Trace::default();
        job(&mut trace, "a", 2.0, 3_600.0, Some(0.5), "completed");
        job(&mut trace, "b", 1.0, 7_200.0, Some(0.2), "failed");
        // Unknown utilisation is not zero: 4 of 8 GPU-hours are covered.
        job(&mut trace, "c", 4.0, 3_600.0, None, "completed");
        let usage = Usage::of(&JobFacts::new(&trace)).unwrap();
        let jobs = usage.jobs.as_ref().unwrap();
        assert_eq!((jobs.gpu_hours, jobs.gpu_time_coverage), (4.0, Some(0.5)));
        // 3,600 s · (2 · 0.5) + 7,200 s · 0.2 = 5,040 GPU-seconds.
        assert!((jobs.kernel_gpu_hours - 1.4).abs() < 1e-12 && (jobs.util - 0.35).abs() < 1e-12);
        assert_eq!((jobs.reported_jobs, jobs.sampled_jobs, jobs.low_gpu_time_share), (2, 0, 0.0));
        assert!(usage.gpus.is_none() && usage.nodes.is_none());
        assert_eq!(usage.section().gpu_hours.map(|hours| (hours * 1e9).round()), Some(2.6e9));
    }
}
