//! A11: what GPUs that are given to jobs do, by every meter the source has.
//!
//! Two kinds of evidence stand side by side. **Readings** of GPUs (one GPU at one moment, each of equal weight) give the
//! distribution of every metric and, where the job is known, utilisation by size and by state. **Jobs** for which a
//! utilisation is known (the source's own figure, else the mean of the job's readings) give GPU time paid for and GPU time
//! in which a kernel ran: Σ GPUs × run and Σ GPUs × run × utilisation.
//!
//! The pitfall is the metric: GPU utilisation (`GPU_UTIL`) counts the time in which *any* kernel was resident, so one busy
//! SM of 108 reads 100 %; `SM_ACTIVE` counts the SMs. They are never mixed here.
//!
//! Complexity: O(n log n) in readings, placements and jobs.
//!
//! Worked number: a job of 2 GPUs for an hour at 50 % and one of 1 GPU for two hours at 20 % paid for 4 GPU-hours and had
//! kernels running in 2 · 0.5 + 2 · 0.2 = 1.4 of them: 35 %.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::{JobFacts, SizeClass};
use super::samples::{HolderSource, Readings};
use super::status::words;
use super::summary::{count, int};
use super::topic::{Topic, TopicResult, hours, share};
use crate::report::format::{compact, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, Column, Mark, Section, Series, Table};
use crate::schema::{GpuSampleTable, JobState, Numbers, Table as _};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};
use crate::stats::quantile::weighted_quantiles;
use crate::stats::sum::NeumaierSum;

/// A GPU below this utilisation is called nearly idle.
const LOW: f64 = 0.05;

/// What a meter of a GPU measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of time in which some kernel was resident (`GPU_UTIL`).
    GpuUtil,
    /// Share of the SMs with a resident warp, mean over time (`SM_ACTIVE`).
    SmActive,
    /// Share of cycles in which the tensor pipes worked.
    TensorActive,
    /// Share of cycles in which memory moved data.
    DramActive,
    /// Share of time in which memory was read or written (`MEM_COPY_UTIL`).
    MemUtil,
    /// GPU memory in use over GPU memory there is.
    MemUsed,
}

impl Metric {
    const ALL: [Self; 6] =
        [Self::GpuUtil, Self::SmActive, Self::TensorActive, Self::DramActive, Self::MemUtil, Self::MemUsed];

    /// Name for people.
    fn name(self) -> &'static str {
        match self {
            Self::GpuUtil => "GPU utilisation",
            Self::SmActive => "SMs active",
            Self::TensorActive => "tensor pipes active",
            Self::DramActive => "DRAM active",
            Self::MemUtil => "memory utilisation",
            Self::MemUsed => "memory in use",
        }
    }

    /// Its column; memory in use has two.
    fn column(self, samples: &GpuSampleTable) -> &Numbers<f64> {
        match self {
            Self::GpuUtil => &samples.util_ratio,
            Self::SmActive => &samples.sm_active_ratio,
            Self::TensorActive => &samples.tensor_active_ratio,
            Self::DramActive => &samples.dram_active_ratio,
            Self::MemUtil => &samples.mem_util_ratio,
            Self::MemUsed => &samples.mem_used_bytes,
        }
    }
}

/// One metric over all readings of GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricUse {
    /// The metric.
    pub metric: Metric,
    /// Readings with a value over all readings.
    pub coverage: f64,
    /// Its distribution, 0 to 1, each reading of equal weight.
    pub ratio: stats::quantile::Summary,
    /// Share of the known readings below 5 %.
    pub low_share: f64,
    /// Share of the known readings of at most so much.
    pub curve: Vec<CurvePoint>,
}

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

/// What readings of GPUs say.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadingsUse {
    /// Readings: one GPU at one moment.
    pub readings: u64,
    /// GPUs, or instances of GPUs that are cut into several.
    pub gpus: u64,
    /// By metric; a metric the source lacks is left out.
    pub metrics: Vec<MetricUse>,
    /// GPU utilisation beside SMs active; `null` if no reading has both.
    pub paired: Option<Paired>,
    /// How it was found which job held a GPU.
    pub holders: HolderSource,
    /// By whether a job held the GPU.
    pub by_holder: Vec<HeldUse>,
    /// By size of the job that held the GPU.
    pub by_size: Vec<GroupUse<SizeClass>>,
    /// By the state that job ended in.
    pub by_state: Vec<GroupUse<JobState>>,
}

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

/// What the utilisation of whole jobs says.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobsUse {
    /// GPU jobs whose utilisation is the source's own figure.
    pub reported_jobs: u64,
    /// GPU jobs whose utilisation is the mean of their readings.
    pub sampled_jobs: u64,
    /// GPU-hours of those jobs.
    pub gpu_hours: f64,
    /// Of them, GPU-hours of jobs whose utilisation is the mean of their readings.
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
    /// By size.
    pub by_size: Vec<GroupPaid<SizeClass>>,
    /// By state.
    pub by_state: Vec<GroupPaid<JobState>>,
}

/// Processors and memory of nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodesUse {
    /// Readings: one node at one moment, with any metric.
    pub readings: u64,
    /// Nodes.
    pub nodes: u64,
    /// CPU utilisation, 0 to 1, of those with one.
    pub cpu_util: Option<stats::quantile::Summary>,
    /// Memory in use, bytes, of those with one.
    pub mem_used_bytes: Option<stats::quantile::Summary>,
    /// Memory in use over memory there is, of those whose node has a known memory.
    pub mem_used_ratio: Option<stats::quantile::Summary>,
}

/// Allocation against utilisation. Parts without data are `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Usage {
    /// From readings of GPUs.
    pub gpus: Option<ReadingsUse>,
    /// From the utilisation of whole jobs.
    pub jobs: Option<JobsUse>,
    /// From readings of nodes.
    pub nodes: Option<NodesUse>,
}

impl Topic for Usage {
    const ID: &'static str = "usage";
    const CODE: &'static str = "A11";
    const TITLE: &'static str = "Allocation and utilisation";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let readings = Readings::of(facts);
        let mut of_job = vec![(NeumaierSum::new(), 0u64); facts.len()];
        let gpus = readings.as_ref().and_then(|readings| ReadingsUse::of(facts, readings, &mut of_job));
        let jobs = JobsUse::of(facts, &of_job);
        let nodes = NodesUse::of(facts);
        if gpus.is_none() && jobs.is_none() && nodes.is_none() {
            return Err("the source holds neither utilisation readings nor a utilisation for jobs".to_owned());
        }
        Ok(Self { gpus, jobs, nodes })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading().with_finding(self.finding());
        let mut coverage: Vec<String> = Vec::new();
        if let Some(jobs) = &self.jobs {
            section = jobs.tell(section);
            coverage.push(jobs.covers());
        }
        if let Some(gpus) = &self.gpus {
            section = gpus.tell(section);
            coverage.push(format!("{} readings of {} GPUs.", count(gpus.readings), count(gpus.gpus)));
        }
        if let Some(nodes) = &self.nodes {
            section = nodes.tell(section);
            coverage.push(format!("{} readings of {} nodes.", count(nodes.readings), count(nodes.nodes)));
        }
        section.with_coverage(coverage.join(" "))
    }
}

impl Usage {
    fn finding(&self) -> String {
        let mut finding = String::new();
        if let Some(jobs) = &self.jobs {
            finding = format!(
                "Of **{}** GPU-hours that jobs held, kernels ran in **{}**: a utilisation of **{}** over GPU time; {} of \
                 that GPU time is in jobs below 5 %.",
                compact(jobs.gpu_hours),
                compact(jobs.kernel_gpu_hours),
                percent(jobs.util),
                percent(jobs.low_gpu_time_share)
            );
        }
        if let Some(gpus) = &self.gpus {
            let held = gpus.by_holder.iter().find(|by| by.held == Some(true));
            if let Some((held, low)) = held.and_then(|held| Some((held.mean_util?, held.low_util_share?))) {
                finding.push_str(&format!(
                    " While a job holds a GPU, its utilisation is {} on average and below 5 % in **{}** of the readings.",
                    percent(held),
                    percent(low)
                ));
            }
            let util = gpus.metrics.iter().find(|m| m.metric == Metric::GpuUtil);
            if let Some(both) = &gpus.paired {
                finding.push_str(&format!(
                    " Where both are read, GPU utilisation is {} and SMs active **{}**, which is closer to the work done.",
                    percent(both.mean_util),
                    percent(both.mean_sm_active)
                ));
            } else if let Some(util) = util.filter(|_| held.is_none()) {
                finding.push_str(&format!(" Over all readings GPU utilisation is **{}**.", percent(util.ratio.mean)));
            }
        }
        if let (true, Some(cpu)) = (finding.is_empty(), self.nodes.as_ref().and_then(|nodes| nodes.cpu_util.as_ref())) {
            finding = format!("The nodes' processors are in use **{}** on average.", percent(cpu.mean));
        }
        finding.trim_start().to_owned()
    }
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

fn low_share(values: &[f64]) -> Option<f64> {
    share(values.iter().filter(|value| **value < LOW).count() as f64, values.len() as f64)
}

impl ReadingsUse {
    /// Goes over the readings; adds to `of_job` each job's sum and count of GPU utilisation.
    fn of(facts: &JobFacts<'_>, readings: &Readings<'_>, of_job: &mut [(NeumaierSum, u64)]) -> Option<Self> {
        let samples = &facts.trace.gpu_samples;
        let total = readings.all().count() as u64;
        // One metric at a time, so that no more than one is held twice.
        let metrics: Vec<MetricUse> =
            Metric::ALL.into_iter().filter_map(|metric| MetricUse::of(metric, samples, readings, total)).collect();
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
            let super::samples::Holder::Job(job) = reading.holder else { continue };
            if let Some(seen) = sampled.get_mut(job) {
                *seen = true;
            }
            if let Some(gpus) = facts.gpus(job) {
                by_size.entry(SizeClass::of(gpus)).or_default().add(util, sm);
            }
            by_state.entry(facts.state(job)).or_default().add(util, sm);
            if let (Some(util), Some((sum, known))) = (util, of_job.get_mut(job)) {
                sum.add(util);
                *known += 1;
            }
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
                    gathered.finish(size, jobs(&|job| facts.gpus(job).map(SizeClass::of) == Some(size)))
                })
                .collect(),
            by_state: by_state
                .into_iter()
                .map(|(state, gathered)| gathered.finish(state, jobs(&|job| facts.state(job) == state)))
                .collect(),
        })
    }

    fn tell(&self, section: Section) -> Section {
        let mut metrics = Table::new(
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
            .map(|m| Series::new(m.metric.name(), Mark::Step, m.curve.iter().map(|p| (p.x, p.fraction)).collect()))
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
            let mut table = Table::new(
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
            let mut table = Table::new(
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

impl MetricUse {
    fn of(metric: Metric, samples: &GpuSampleTable, readings: &Readings<'_>, total: u64) -> Option<Self> {
        let column = metric.column(samples);
        if column.is_all_unknown() {
            return None;
        }
        let values: Vec<f64> = readings
            .all()
            .filter_map(|reading| {
                let value = reading.value(column)?;
                match metric {
                    Metric::MemUsed => {
                        reading.value(&samples.mem_total_bytes).filter(|all| *all > 0.0).map(|all| value / all)
                    }
                    _ => Some(value),
                }
            })
            .collect();
        let curve = Ecdf::new(&values)?.thin(100);
        let (known, low_share) = (values.len(), low_share(&values)?);
        let ratio = stats::quantile::Summary::of_vec(values)?;
        Some(Self { metric, coverage: known as f64 / total.max(1) as f64, ratio, low_share, curve })
    }
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

impl JobsUse {
    fn of(facts: &JobFacts<'_>, sampled: &[(NeumaierSum, u64)]) -> Option<Self> {
        let mut total = Paid::default();
        let (mut reported_jobs, mut sampled_jobs, mut sampled_gpu_s) = (0, 0, NeumaierSum::new());
        let mut by_size: BTreeMap<SizeClass, Paid> = BTreeMap::new();
        let mut by_state: BTreeMap<JobState, Paid> = BTreeMap::new();
        let (mut utils, mut weights) = (Vec::new(), Vec::new());
        for job in 0..facts.len() {
            let Some(gpu_s) = facts.gpu_s(job).filter(|gpu_s| *gpu_s > 0.0) else { continue };
            let reported = facts.trace.jobs.reported_gpu_util_ratio.get(job);
            let of_samples = sampled.get(job).and_then(|(sum, known)| share(sum.value(), *known as f64));
            let Some(util) = reported.or(of_samples) else { continue };
            reported_jobs += u64::from(reported.is_some());
            if reported.is_none() {
                sampled_jobs += 1;
                sampled_gpu_s.add(gpu_s);
            }
            total.add(gpu_s, util);
            if let Some(gpus) = facts.gpus(job) {
                by_size.entry(SizeClass::of(gpus)).or_default().add(gpu_s, util);
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

    fn tell(&self, section: Section) -> Section {
        let mut table = Table::new(
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
            vec![Series::new("jobs", Mark::Step, self.curve.iter().map(|p| (p.x, p.fraction)).collect())],
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

    fn covers(&self) -> String {
        let part = self
            .gpu_time_coverage
            .map_or_else(String::new, |part| format!(", {} of the GPU time of all jobs", percent(part)));
        format!(
            "The utilisation of {} jobs is known ({} from the source, {} from readings): {} GPU-hours{part}; {} of them rest \
             on readings.",
            count(self.reported_jobs + self.sampled_jobs),
            count(self.reported_jobs),
            count(self.sampled_jobs),
            compact(self.gpu_hours),
            compact(self.sampled_gpu_hours)
        )
    }
}

impl NodesUse {
    fn of(facts: &JobFacts<'_>) -> Option<Self> {
        let samples = &facts.trace.node_samples;
        if samples.cpu_util_ratio.is_all_unknown() && samples.mem_used_bytes.is_all_unknown() {
            return None;
        }
        let inventory = &facts.trace.nodes;
        let mem_of: HashMap<&str, i64> = (0..inventory.len())
            .filter_map(|ix| Some((inventory.node.get(ix)?, inventory.mem_bytes.get(ix)?)))
            .collect();
        let mem_bytes: Vec<Option<f64>> = (0..)
            .map_while(|code| samples.node.name(code))
            .map(|name| mem_of.get(name).map(|bytes| *bytes as f64).filter(|bytes| *bytes > 0.0))
            .collect();
        let mut order: Vec<u32> = (0..u32::try_from(samples.len()).unwrap_or(u32::MAX)).collect();
        let place = |ix: u32| (samples.node.code(ix as usize), samples.ts.get(ix as usize));
        order.sort_by_key(|ix| place(*ix));
        let (mut readings, mut nodes, mut last) = (0, 0, None);
        let (mut cpu, mut mem, mut mem_ratio) = (Vec::new(), Vec::new(), Vec::new());
        for rows in order.chunk_by(|a, b| place(*a).1.is_some() && place(*a) == place(*b)) {
            let value = |column: &Numbers<f64>| rows.iter().find_map(|ix| column.get(*ix as usize));
            let (used, busy) = (value(&samples.mem_used_bytes), value(&samples.cpu_util_ratio));
            if used.is_none() && busy.is_none() {
                continue;
            }
            let node = rows.first().and_then(|ix| samples.node.code(*ix as usize));
            readings += 1;
            nodes += u64::from(last != Some(node));
            last = Some(node);
            cpu.extend(busy);
            mem.extend(used);
            let all = node.and_then(|code| mem_bytes.get(code as usize).copied().flatten());
            mem_ratio.extend(used.zip(all).map(|(used, all)| used / all));
        }
        Some(Self {
            readings,
            nodes,
            cpu_util: stats::quantile::Summary::of_vec(cpu),
            mem_used_bytes: stats::quantile::Summary::of_vec(mem),
            mem_used_ratio: stats::quantile::Summary::of_vec(mem_ratio),
        })
    }

    fn tell(&self, section: Section) -> Section {
        let mut table = Table::new(
            "Processors and memory of the nodes",
            vec![
                Column::text("Metric"),
                Column::number("Readings"),
                Column::number("Mean"),
                Column::number("p10"),
                Column::number("Median"),
                Column::number("p90"),
                Column::number("p99"),
            ],
        );
        let mut row = |name: &str, summary: Option<&stats::quantile::Summary>, per: f64, cell: &dyn Fn(f64) -> Cell| {
            if let Some(s) = summary {
                let mut row = vec![Cell::from(name), int(s.count)];
                row.extend([s.mean, s.p10, s.p50, s.p90, s.p99].map(|value| cell(value / per)));
                table.rows.push(row);
            }
        };
        row("CPU utilisation", self.cpu_util.as_ref(), 1.0, &Cell::Percent);
        row("Memory in use, of the node's", self.mem_used_ratio.as_ref(), 1.0, &Cell::Percent);
        let gib = |value: f64| Cell::Float { value, digits: 1 };
        row("Memory in use, GiB", self.mem_used_bytes.as_ref(), 1_073_741_824.0, &gib);
        section.with_table(table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::{GpuSampleRow, JobRow, NodeRow, NodeSampleRow};

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
    fn four_gpu_hours_paid_for_hold_one_point_four_of_kernels() {
        let mut trace = Trace::default();
        job(&mut trace, "a", 2.0, 3_600.0, Some(0.5), "completed");
        job(&mut trace, "b", 1.0, 7_200.0, Some(0.2), "failed");
        // Unknown utilisation is not zero: 4 of 8 GPU-hours are covered.
        job(&mut trace, "c", 4.0, 3_600.0, None, "completed");
        let usage = Usage::of(&JobFacts::of(&trace)).unwrap();
        let jobs = usage.jobs.as_ref().unwrap();
        assert_eq!((jobs.gpu_hours, jobs.gpu_time_coverage), (4.0, Some(0.5)));
        // 3,600 s · (2 · 0.5) + 7,200 s · 0.2 = 5,040 GPU-seconds.
        assert!((jobs.kernel_gpu_hours - 1.4).abs() < 1e-12 && (jobs.util - 0.35).abs() < 1e-12);
        assert_eq!((jobs.reported_jobs, jobs.sampled_jobs, jobs.low_gpu_time_share), (2, 0, 0.0));
        assert!(usage.gpus.is_none() && usage.nodes.is_none());
        assert_eq!(usage.section().gpu_hours.map(|hours| (hours * 1e9).round()), Some(2.6e9));
    }

    #[test]
    fn held_and_free_gpus_are_apart_and_missing_metrics_are_no_zeros() {
        let mut trace = Trace::default();
        job(&mut trace, "a", 1.0, 3_600.0, None, "completed");
        sample(&mut trace, 0, Some(0.9), Some(0.3), Some("a"));
        sample(&mut trace, 1, Some(0.01), None, Some("a"));
        sample(&mut trace, 2, Some(0.0), None, None);
        sample(&mut trace, 3, None, Some(0.04), None);
        let usage = Usage::of(&JobFacts::of(&trace)).unwrap();
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

    #[test]
    fn a_nodes_metrics_are_joined_by_moment_and_memory_needs_the_inventory() {
        let mut trace = Trace::default();
        trace.nodes.push(NodeRow { node: Some("n".into()), mem_bytes: Some(100), ..NodeRow::default() });
        for (node, cpu, mem) in [("n", Some(0.5), None), ("n", None, Some(25.0)), ("m", None, Some(7.0))] {
            trace.node_samples.push(NodeSampleRow {
                ts: Some(0),
                node: Some(node.into()),
                cpu_util_ratio: cpu,
                mem_used_bytes: mem,
                ..NodeSampleRow::default()
            });
        }
        let nodes = Usage::of(&JobFacts::of(&trace)).unwrap().nodes.unwrap();
        assert_eq!((nodes.readings, nodes.nodes), (2, 2));
        let ratio = nodes.mem_used_ratio.unwrap();
        assert_eq!((ratio.count, ratio.mean, nodes.mem_used_bytes.unwrap().mean), (1, 0.25, 16.0));
    }

    #[test]
    fn power_alone_is_no_utilisation() {
        let mut trace = Trace::default();
        trace.gpu_samples.push(GpuSampleRow { ts: Some(0), power_w: Some(60.0), ..GpuSampleRow::default() });
        assert!(Usage::of(&JobFacts::of(&trace)).is_err());
    }
}
