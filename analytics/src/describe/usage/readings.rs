//! Readings of GPUs: every metric, and utilisation by who held the GPU.
//!
//! A reading is one GPU at one moment; all weigh the same. By size and by state only readings count whose job is a row
//! of the jobs table. Not here: GPU time, see [`super::jobs`].
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: of four readings two name a job, with 90 % and 1 %; held GPUs are at 45.5 % on average, and half of
//! their readings are below 5 %.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::LOW;
use super::metric::{Metric, MetricUse, low_share};
use crate::describe::status::words;
use crate::describe::summary::int;
use crate::describe::topic::share;
use crate::facts::samples::{Holder, HolderSource, Readings};
use crate::facts::{JobFacts, SizeClass};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::schema::JobState;
use crate::stats;
use crate::stats::sum::NeumaierSum;

/// Readings of GPUs by whether a job held them.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct HeldUse {
    /// Whether a job held the GPU; `null` if the source does not tell.
    pub held: Option<bool>,
    /// Readings.
    pub readings: u64,
    /// Share of all readings.
    pub share: f64,
    /// Mean GPU utilisation of those with one.
    pub mean_util: Option<f64>,
    /// Share of those with a GPU utilisation that are below 5 %.
    pub low_util_share: Option<f64>,
    /// Mean share of SMs active, of those with one.
    pub mean_sm_active: Option<f64>,
    /// Share of those with one that are below 5 %.
    pub low_sm_active_share: Option<f64>,
}

/// Readings of GPUs that jobs of one kind held.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupUse<K> {
    /// The kind.
    pub group: K,
    /// Jobs with readings.
    pub jobs: u64,
    /// Readings.
    pub readings: u64,
    /// GPU utilisation of those with one.
    pub util: Option<stats::quantile::Summary>,
    /// Share of those below 5 %.
    pub low_util_share: Option<f64>,
    /// Mean share of SMs active, of those with one.
    pub mean_sm_active: Option<f64>,
}

/// GPU utilisation beside SMs active, over the readings that have both.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Paired {
    /// Readings with both.
    pub readings: u64,
    /// Mean GPU utilisation.
    pub mean_util: f64,
    /// Mean share of SMs active.
    pub mean_sm_active: f64,
}

/// Readings of GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadingsUse {
    /// Readings: one GPU at one moment.
    pub readings: u64,
    /// GPUs, or instances of GPUs that are cut into several.
    pub gpus: u64,
    /// Use by metric; a metric the source lacks is left out.
    pub metrics: Vec<MetricUse>,
    /// GPU utilisation beside SMs active; `null` if no reading has both.
    pub paired: Option<Paired>,
    /// Source of which job held a GPU.
    pub holders: HolderSource,
    /// Use by whether a job held the GPU.
    pub by_holder: Vec<HeldUse>,
    /// Use by size of the job that held the GPU.
    pub by_size: Vec<GroupUse<SizeClass>>,
    /// Use by the state that the job ended in.
    pub by_state: Vec<GroupUse<JobState>>,
}

/// Readings of one group, gathered.
#[derive(Debug, Default)]
struct Gathered {
    readings: u64,
    util: Vec<f64>,
    sm_active: NeumaierSum,
    sm_known: u64,
    sm_low: u64,
}

impl Gathered {
    fn add(&mut self, util: Option<f64>, sm_active: Option<f64>) {
        self.readings += 1;
        self.util.extend(util);
        if let Some(sm) = sm_active {
            self.sm_active.add(sm);
            self.sm_known += 1;
            self.sm_low += u64::from(sm < LOW);
        }
    }

    fn low_share(&self) -> Option<f64> {
        low_share(&self.util)
    }

    fn mean_sm_active(&self) -> Option<f64> {
        share(self.sm_active.value(), self.sm_known as f64)
    }

    fn finish<K>(self, group: K, jobs: u64) -> GroupUse<K> {
        GroupUse {
            group,
            jobs,
            readings: self.readings,
            low_util_share: self.low_share(),
            mean_sm_active: self.mean_sm_active(),
            util: stats::quantile::Summary::of_vec(self.util),
        }
    }
}

impl ReadingsUse {
    /// Computes the statistics from the readings.
    pub(super) fn new(facts: &JobFacts<'_>, readings: &Readings<'_>) -> Option<Self> {
        let samples = &facts.trace.gpu_samples;
        let total = readings.all().count() as u64;
        // One metric at a time, so that no more than one is held twice.
        let metrics: Vec<MetricUse> =
            Metric::ALL.into_iter().filter_map(|metric| MetricUse::new(metric, samples, readings, total)).collect();
        if metrics.is_empty() {
            return None;
        }
        let mut by_holder: BTreeMap<u8, Gathered> = BTreeMap::new();
        let mut by_size: BTreeMap<SizeClass, Gathered> = BTreeMap::new();
        let mut by_state: BTreeMap<JobState, Gathered> = BTreeMap::new();
        let mut sampled = vec![false; facts.len()];
        let (mut both, mut both_util, mut both_sm) = (0u64, NeumaierSum::new(), NeumaierSum::new());
        for reading in readings.all() {
            let util = reading.value(&samples.util_ratio);
            let sm = reading.value(&samples.sm_active_ratio);
            if let (Some(util), Some(sm)) = (util, sm) {
                both += 1;
                both_util.add(util);
                both_sm.add(sm);
            }
            let slot = match reading.holder.held() {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            };
            by_holder.entry(slot).or_default().add(util, sm);
            let Holder::Job(job) = reading.holder else { continue };
            if let Some(seen) = sampled.get_mut(job) {
                *seen = true;
            }
            if let Some(gpus) = facts.gpus(job) {
                by_size.entry(SizeClass::new(gpus)).or_default().add(util, sm);
            }
            by_state.entry(facts.state(job)).or_default().add(util, sm);
        }
        let jobs = |keep: &dyn Fn(usize) -> bool| {
            sampled.iter().enumerate().filter(|(job, sampled)| **sampled && keep(*job)).count() as u64
        };
        Some(Self {
            readings: total,
            gpus: readings.gpus().count() as u64,
            metrics,
            paired: (both > 0).then(|| Paired {
                readings: both,
                mean_util: both_util.value() / both as f64,
                mean_sm_active: both_sm.value() / both as f64,
            }),
            holders: readings.source,
            by_holder: by_holder
                .into_iter()
                .map(|(slot, gathered)| HeldUse {
                    held: [Some(true), Some(false), None].get(usize::from(slot)).copied().flatten(),
                    readings: gathered.readings,
                    share: gathered.readings as f64 / total.max(1) as f64,
                    mean_util: stats::sum::mean(&gathered.util),
                    low_util_share: gathered.low_share(),
                    mean_sm_active: gathered.mean_sm_active(),
                    low_sm_active_share: share(gathered.sm_low as f64, gathered.sm_known as f64),
                })
                .collect(),
            by_size: by_size
                .into_iter()
                .map(|(size, gathered)| {
                    gathered.finish(size, jobs(&|job| facts.gpus(job).map(SizeClass::new) == Some(size)))
                })
                .collect(),
            by_state: by_state
                .into_iter()
                .map(|(state, gathered)| gathered.finish(state, jobs(&|job| facts.state(job) == state)))
                .collect(),
        })
    }

    pub(super) fn tell(&self, section: Section) -> Section {
        let mut metrics = ReportTable::new(
            "What the meters of the GPUs read",
            vec![
                Column::text("Metric"),
                Column::number("Known"),
                Column::number("Mean"),
                Column::number("p10"),
                Column::number("Median"),
                Column::number("p90"),
                Column::number("p99"),
                Column::number("Below 5 %"),
            ],
        );
        for m in &self.metrics {
            let mut row = vec![Cell::from(m.metric.name()), Cell::Percent(m.coverage)];
            row.extend([m.ratio.mean, m.ratio.p10, m.ratio.p50, m.ratio.p90, m.ratio.p99].map(Cell::Percent));
            row.push(Cell::Percent(m.low_share));
            metrics.rows.push(row);
        }
        let curves = self
            .metrics
            .iter()
            .map(|m| ChartSeries::new(m.metric.name(), Mark::Step, m.curve.iter().map(|p| (p.x, p.fraction)).collect()))
            .collect();
        let chart = Chart::xy(
            "usage-cdf",
            "Share of the readings of at most so much",
            Axis::share("Of the whole"),
            Axis::share("Share of readings"),
            curves,
        )
        .with_reading(
            "A curve that starts high at the left is a meter that often reads nothing; GPU utilisation far to the right of \
             SMs active means kernels that leave most of the GPU unused.",
        );
        let mut section = section.with_chart(chart).with_table(metrics);
        if self.holders != HolderSource::Unknown {
            let mut table = ReportTable::new(
                "GPUs that are held and GPUs that are not",
                vec![
                    Column::text("A job holds the GPU"),
                    Column::number("Readings"),
                    Column::number("Share"),
                    Column::number("Mean GPU utilisation"),
                    Column::number("Below 5 %"),
                    Column::number("Mean SMs active"),
                    Column::number("Below 5 %"),
                ],
            );
            for by in &self.by_holder {
                let held = match by.held {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "unknown",
                };
                table.rows.push(vec![
                    held.into(),
                    int(by.readings),
                    Cell::Percent(by.share),
                    Cell::opt(by.mean_util, Cell::Percent),
                    Cell::opt(by.low_util_share, Cell::Percent),
                    Cell::opt(by.mean_sm_active, Cell::Percent),
                    Cell::opt(by.low_sm_active_share, Cell::Percent),
                ]);
            }
            section = section.with_table(table);
        }
        if !self.by_state.is_empty() {
            let mut table = ReportTable::new(
                "Readings of GPUs by the job that held them",
                vec![
                    Column::text("Jobs"),
                    Column::number("Jobs with readings"),
                    Column::number("Readings"),
                    Column::number("Mean GPU utilisation"),
                    Column::number("Median"),
                    Column::number("Below 5 %"),
                    Column::number("Mean SMs active"),
                ],
            );
            for by in &self.by_size {
                table.rows.push(group_row(by.group.name().to_owned(), by));
            }
            for by in &self.by_state {
                table.rows.push(group_row(words(by.group), by));
            }
            section = section.with_table(table);
        }
        let how = match self.holders {
            HolderSource::Samples => {
                "Which job held a GPU is what the reading says; a reading that names none is of a GPU held by none."
            }
            HolderSource::Placements => {
                "Which job held a GPU is taken from placements (node and GPU) and the times of attempts; a GPU of such a \
                 node that none of them covers is held by none."
            }
            HolderSource::Unknown => "Which job held a GPU is not known.",
        };
        section
            .with_definition(
                "GPU utilisation is the share of time in which any kernel was resident on the GPU, SMs active the share of \
                 its SMs that had work: the first reads 100 % when a single SM is busy. Neither stands in for the other.",
            )
            .with_definition(
                "A reading is one GPU at one moment; all weigh the same, so GPUs sampled more often count for more. A metric \
                 that was not read is left out, never taken for 0.",
            )
            .with_definition(how)
    }
}

fn group_row<K>(name: String, by: &GroupUse<K>) -> Vec<Cell> {
    vec![
        name.into(),
        int(by.jobs),
        int(by.readings),
        Cell::opt(by.util.as_ref().map(|util| util.mean), Cell::Percent),
        Cell::opt(by.util.as_ref().map(|util| util.p50), Cell::Percent),
        Cell::opt(by.low_util_share, Cell::Percent),
        Cell::opt(by.mean_sm_active, Cell::Percent),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::describe::topic::Topic;
    use crate::describe::usage::Usage;
    use crate::schema::{GpuSampleRow, JobRow};

    fn sample(trace: &mut Trace, ts: i64, util: Option<f64>, sm: Option<f64>, job: Option<&str>) {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: Some("n".into()),
            gpu: Some("0".into()),
            util_ratio: util,
            sm_active_ratio: sm,
            job_key: job.map(Into::into),
            ..GpuSampleRow::default()
        });
    }

    #[test]
    fn held_and_free_gpus_are_apart_and_missing_metrics_are_no_zeros() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow {
            job_key: Some("a".into()),
            run_s: Some(3_600.0),
            alloc_gpus: Some(1.0),
            state: Some("completed".into()),
            ..JobRow::default()
        });
        sample(&mut trace, 0, Some(0.9), Some(0.3), Some("a"));
        sample(&mut trace, 1, Some(0.01), None, Some("a"));
        sample(&mut trace, 2, Some(0.0), None, None);
        sample(&mut trace, 3, None, Some(0.04), None);
        let usage = Usage::of(&JobFacts::new(&trace)).unwrap();
        let gpus = usage.gpus.as_ref().unwrap();
        assert_eq!((gpus.readings, gpus.gpus, gpus.holders), (4, 1, HolderSource::Samples));
        // Only the first reading has both.
        let paired = gpus.paired.as_ref().unwrap();
        assert_eq!((paired.readings, paired.mean_util, paired.mean_sm_active), (1, 0.9, 0.3));
        let names: Vec<(Metric, f64, u64)> =
            gpus.metrics.iter().map(|m| (m.metric, m.coverage, m.ratio.count)).collect();
        assert_eq!(names, [(Metric::GpuUtil, 0.75, 3), (Metric::SmActive, 0.5, 2)]);
        let held: Vec<_> = gpus.by_holder.iter().map(|by| (by.held, by.readings, by.low_util_share)).collect();
        assert_eq!(held, [(Some(true), 2, Some(0.5)), (Some(false), 2, Some(1.0))]);
        assert_eq!(gpus.by_holder[1].low_sm_active_share, Some(1.0));
        assert_eq!((gpus.by_size[0].group, gpus.by_size[0].jobs, gpus.by_size[0].readings), (SizeClass::One, 1, 2));
        // The job has no figure of its own: (0.9 + 0.01) / 2 of one GPU-hour.
        let jobs = usage.jobs.as_ref().unwrap();
        assert_eq!((jobs.sampled_jobs, jobs.gpu_hours, jobs.sampled_gpu_hours), (1, 1.0, 1.0));
        assert!((jobs.util - 0.455).abs() < 1e-12);
        assert!(!usage.section().finding.is_empty());
    }
}
