//! Jobs with their telemetry, in order of their starts.
//!
//! A job's **moments** are the times at which any of its GPUs was read: utilisation is the mean over the GPUs read then, memory the largest. Its utilisation is the
//! mean over its moments, its memory the peak. Only GPUs that it held alone count. A job whose own record states its utilisation and that has no readings has
//! one moment, its end. A job that readings name and no record lists begins with its first reading and is over with its last.
//!
//! O(n log n) in readings. Worked example: two GPUs read at 40 and 60 % and then at 80 and 80 % are two moments, and 65 %.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::facts::telemetry::{JobReading, ReadingsOfJobs, SampledFor, job_readings};
use tracecast_analytics::schema::{JobState, MIB};
use tracecast_analytics::stats::NeumaierSum;

use crate::error::{Error, Result};
use crate::interference::alone::LOADS;
use crate::interference::table::Quantity;
use crate::timeline::{Timeline, TimelineOptions};

/// More than any GPU has: 1 TiB, in MiB.
const MOST_MIB: f64 = 1_048_576.0;
/// Moments that a job needs so that its mean says something: one or two may both fall into its start, when a GPU idles.
pub const LEAST_MOMENTS: usize = 3;
/// Bytes of a megabyte, in which profiles count PCIe traffic.
const BYTES_PER_MB: f64 = 1e6;
/// Name of a GPU type that nothing tells.
const UNKNOWN_TYPE: &str = "unknown";

/// Predicted quantity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// Mean utilisation of its GPUs, percent.
    GpuUtilPct,
    /// Most memory that it used on one GPU, MiB.
    MemoryMb,
}

impl Usage {
    /// Both usages.
    pub const ALL: [Self; 2] = [Self::GpuUtilPct, Self::MemoryMb];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuUtilPct => "GPU utilisation",
            Self::MemoryMb => "Peak GPU memory",
        }
    }

    /// Name of the usage within a sentence.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::GpuUtilPct => "utilisation",
            Self::MemoryMb => "memory use",
        }
    }

    /// Name in a section's ID.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::GpuUtilPct => "utilisation",
            Self::MemoryMb => "memory",
        }
    }

    /// Name of the column in a file.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::GpuUtilPct => "gpu_util_pct",
            Self::MemoryMb => "memory_mb",
        }
    }

    /// Unit of the usage.
    pub fn unit(self) -> &'static str {
        match self {
            Self::GpuUtilPct => "points",
            Self::MemoryMb => "MiB",
        }
    }

    /// The column of a profile that holds it.
    pub fn quantity(self) -> Quantity {
        match self {
            Self::GpuUtilPct => Quantity::SmUtilPct,
            Self::MemoryMb => Quantity::MemoryMb,
        }
    }

    /// Largest possible value.
    pub(super) fn most(self) -> f64 {
        match self {
            Self::GpuUtilPct => 100.0,
            Self::MemoryMb => MOST_MIB,
        }
    }
}

/// Readings of a job's GPUs at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsageMoment {
    /// When, milliseconds since the epoch.
    pub ts_ms: i64,
    /// Mean utilisation of the GPUs read, percent.
    pub util_pct: Option<f64>,
    /// Most memory on one of them, MiB.
    pub memory_mb: Option<f64>,
}

/// Facts of a job known before it starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobKnown {
    /// Name its user gave it; of a job that no record lists, the name in the readings.
    pub name: Option<String>,
    /// User who submitted the job.
    pub user: Option<String>,
    /// GPUs asked for.
    pub gpus: Option<f64>,
    /// CPU cores asked for.
    pub cpus: Option<f64>,
    /// Time limit, seconds.
    pub limit_s: Option<f64>,
}

/// A job that has not started, and is asked about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AskedJob {
    /// Identifier of the job, if it has one.
    pub id: Option<String>,
    /// Facts of the job.
    pub known: JobKnown,
}

/// A job with telemetry.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledJob {
    /// Key of the job in the record; `None` of one that readings name and no record lists.
    pub key: Option<String>,
    /// Facts of the job known before it started.
    pub known: JobKnown,
    /// Submission of the job, milliseconds since the epoch; its start where no record lists it.
    pub submit_ms: i64,
    /// Start of the job, milliseconds since the epoch; no later than its first reading.
    pub start_ms: i64,
    /// Time at which all of the job was known: its end or its last reading, whichever is later; of
    /// a job that had not ended, its last reading.
    pub done_ms: i64,
    /// Whether its utilisation is the source's own figure.
    pub reported: bool,
    /// Readings of the job, in order of time.
    pub moments: Vec<UsageMoment>,
}

impl SampledJob {
    /// Observed usage over all moments; `None` if too few have a value.
    pub fn truth(&self, usage: Usage) -> Option<f64> {
        let known: Vec<f64> = self.moments.iter().filter_map(|moment| moment.get(usage)).collect();
        if known.is_empty() || (known.len() < LEAST_MOMENTS && !self.reported) {
            return None;
        }
        match usage {
            Usage::GpuUtilPct => tracecast_analytics::stats::sum::mean(&known),
            Usage::MemoryMb => known.into_iter().reduce(f64::max),
        }
    }
}

impl UsageMoment {
    pub(super) fn get(&self, usage: Usage) -> Option<f64> {
        match usage {
            Usage::GpuUtilPct => self.util_pct,
            Usage::MemoryMb => self.memory_mb,
        }
    }
}

/// Sums of what the readings of a job on one GPU type say.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadingSums {
    pub(super) readings: u64,
    /// Sum of the readings, and their number, for each of [`LOADS`].
    means: [(NeumaierSum, u64); LOADS.len()],
    /// Most memory, MiB.
    pub(super) peak_mb: Option<f64>,
}

impl ReadingSums {
    fn add(&mut self, reading: &JobReading<'_>) {
        self.readings += 1;
        let percent = |ratio: Option<f64>| ratio.map(|ratio| ratio * 100.0);
        let values = [
            percent(reading.util_ratio),
            percent(reading.mem_util_ratio),
            percent(reading.sm_active_ratio),
            percent(reading.tensor_active_ratio),
            percent(reading.dram_active_ratio),
            reading.pcie_bytes_per_s.map(|bytes| bytes / BYTES_PER_MB),
            reading.power_w,
        ];
        for ((sum, known), value) in self.means.iter_mut().zip(values) {
            if let Some(value) = value {
                sum.add(value);
                *known += 1;
            }
        }
        let memory = reading.mem_used_bytes.map(|bytes| bytes / MIB);
        self.peak_mb = self.peak_mb.into_iter().chain(memory).reduce(f64::max);
    }

    /// Means by [`LOADS`].
    pub(super) fn means(&self) -> [Option<f64>; LOADS.len()] {
        self.means.map(|(sum, known)| (known > 0).then(|| sum.value() / known as f64))
    }
}

/// All jobs of a trace that have telemetry.
#[derive(Debug, Clone, Default)]
pub struct UsageHistory {
    /// The jobs, in order of their starts.
    pub jobs: Vec<SampledJob>,
    /// Time of the first reading, milliseconds since the epoch; `None` if none has a time.
    pub first_ms: Option<i64>,
    /// The jobs with GPUs that wait when the record ends, in order of their submissions.
    pub waiting: Vec<AskedJob>,
    /// Notes on the data for readers, a sentence each.
    pub notes: Vec<String>,
    /// Sums of readings by place in `jobs` and GPU type.
    pub(super) sums: BTreeMap<(usize, String), ReadingSums>,
}

/// A job while its readings are gathered: the time, utilisation and memory of each.
#[derive(Debug, Default)]
struct Gathered {
    readings: Vec<(i64, Option<f64>, Option<f64>)>,
    sums: BTreeMap<String, ReadingSums>,
}

impl Gathered {
    fn add(&mut self, reading: &JobReading<'_>) {
        if let Some(ts_ms) = reading.ts {
            let percent = reading.util_ratio.map(|ratio| ratio * 100.0);
            self.readings.push((ts_ms, percent, reading.mem_used_bytes.map(|bytes| bytes / MIB)));
        }
        let gpu_type = reading.gpu_type.as_deref().unwrap_or(UNKNOWN_TYPE);
        if !self.sums.contains_key(gpu_type) {
            self.sums.insert(gpu_type.to_owned(), ReadingSums::default());
        }
        if let Some(sums) = self.sums.get_mut(gpu_type) {
            sums.add(reading);
        }
    }

    /// The readings as moments, in order of time.
    fn moments(&mut self) -> Vec<UsageMoment> {
        self.readings.sort_by_key(|reading| reading.0);
        let of_moment = |readings: &[(i64, Option<f64>, Option<f64>)]| {
            Some(UsageMoment {
                ts_ms: readings.first()?.0,
                util_pct: tracecast_analytics::stats::sum::mean(readings.iter().filter_map(|reading| reading.1)),
                memory_mb: readings.iter().filter_map(|reading| reading.2).reduce(f64::max),
            })
        };
        self.readings.chunk_by(|a, b| a.0 == b.0).filter_map(of_moment).collect()
    }
}

impl UsageHistory {
    /// The history of a trace.
    ///
    /// # Errors
    /// If no reading and no record tells the utilisation of a job.
    pub fn new(trace: &Trace) -> Result<Self> {
        let facts = JobFacts::new(trace);
        let mut rows: BTreeMap<usize, Gathered> = BTreeMap::new();
        let mut named: BTreeMap<String, Gathered> = BTreeMap::new();
        let mut first_ms: Option<i64> = None;
        let counts = job_readings(&facts, |reading| {
            first_ms = first_ms.into_iter().chain(reading.ts).min();
            match reading.job {
                SampledFor::Row(row) => rows.entry(row).or_default().add(reading),
                SampledFor::Named(name) => match named.get_mut(name) {
                    Some(gathered) => gathered.add(reading),
                    None => named.entry(name.to_owned()).or_default().add(reading),
                },
            }
        });
        let unlisted = named.len();
        let mut result: Vec<(SampledJob, BTreeMap<String, ReadingSums>)> = Vec::new();
        let mut waiting = Vec::new();
        if !facts.is_empty() {
            let timeline = Timeline::new(trace, TimelineOptions::default())?;
            for job in &timeline.jobs {
                let row = job.row as usize;
                let submission = &job.submission;
                let known = JobKnown {
                    name: submission.name.clone(),
                    user: submission.user.clone(),
                    gpus: Some(submission.gpus),
                    cpus: submission.cpus,
                    limit_s: submission.limit_s,
                };
                if facts.state(row) == JobState::Pending && submission.gpus > 0.0 {
                    waiting.push(AskedJob { id: Some(submission.job_id.clone()), known: known.clone() });
                }
                let mut gathered = rows.remove(&row).unwrap_or_default();
                let mut moments = gathered.moments();
                let reported = if gathered.sums.is_empty() { job.end_ms.zip(stated(trace, row)) } else { None };
                moments.extend(reported.map(|(ts_ms, util_pct)| UsageMoment {
                    ts_ms,
                    util_pct: Some(util_pct),
                    memory_mb: None,
                }));
                if moments.is_empty() && gathered.sums.is_empty() {
                    continue;
                }
                let first = moments.first().map(|moment| moment.ts_ms);
                let last = moments.last().map(|moment| moment.ts_ms);
                let Some(start_ms) = job.start_ms.into_iter().chain(first).min() else { continue };
                let sampled = SampledJob {
                    key: trace.jobs.job_key.get(row).map(str::to_owned),
                    known,
                    submit_ms: submission.submit_ms.min(start_ms),
                    start_ms,
                    done_ms: job.end_ms.into_iter().chain(last).max().unwrap_or(start_ms),
                    reported: reported.is_some(),
                    moments,
                };
                result.push((sampled, gathered.sums));
            }
        }
        let mut left_out = rows.len();
        for (name, mut gathered) in named {
            let moments = gathered.moments();
            let Some((first, last)) = moments.first().zip(moments.last()) else {
                left_out += 1;
                continue;
            };
            let (start_ms, done_ms) = (first.ts_ms, last.ts_ms);
            let sampled = SampledJob {
                key: None,
                known: JobKnown { name: Some(name), ..JobKnown::default() },
                submit_ms: start_ms,
                start_ms,
                done_ms,
                reported: false,
                moments,
            };
            result.push((sampled, gathered.sums));
        }
        if result.is_empty() {
            return Err(Error::NotRecorded(
                "no job has telemetry: there are no readings of GPUs, or nothing says which job held a GPU; give DCGM, Prometheus or nvidia-smi samples \
                 beside a record of the jobs with their nodes and GPUs"
                    .to_owned(),
            ));
        }
        // Stable: those of one millisecond stay in the order of their submissions.
        result.sort_by_key(|(job, _)| job.start_ms);
        let mut history = Self { first_ms, waiting, ..Self::default() };
        let reported = result.iter().filter(|(job, _)| job.reported).count();
        history.notes = notes(counts, unlisted, reported, left_out);
        for (at, (job, sums)) in result.into_iter().enumerate() {
            history.jobs.push(job);
            history.sums.extend(sums.into_iter().map(|(gpu_type, sums)| ((at, gpu_type), sums)));
        }
        Ok(history)
    }
}

/// Utilisation that the record of a job states, percent.
fn stated(trace: &Trace, row: usize) -> Option<f64> {
    let ratio = trace.jobs.reported_gpu_util_ratio.get(row)?;
    (0.0..=1.0).contains(&ratio).then_some(ratio * 100.0)
}

fn notes(counts: Option<ReadingsOfJobs>, unlisted: usize, reported: usize, left_out: usize) -> Vec<String> {
    use tracecast_analytics::report::format::{count, counted};
    let mut notes = Vec::new();
    if let Some(counts) = counts {
        let shared = if counts.shared == 0 {
            String::new()
        } else {
            format!(" {} of GPUs that several jobs shared are left out.", counted(counts.shared, "reading", "readings"))
        };
        notes.push(format!(
            "{} of GPUs that one job held; {} others, of GPUs that no job held or of which that is not known.{shared}",
            counted(counts.alone, "reading is", "readings are"),
            count(counts.others)
        ));
    }
    if unlisted > 0 {
        let jobs = counted(unlisted as u64, "job is", "jobs are");
        notes.push(format!(
            "{jobs} known from readings alone: each begins with its first reading and is over with its last."
        ));
    }
    if reported > 0 {
        let jobs = counted(reported as u64, "job has", "jobs have");
        notes.push(format!("{jobs} no readings but a utilisation in the record, which was known when the job ended."));
    }
    if left_out > 0 {
        let jobs = counted(left_out as u64, "job with readings is", "jobs with readings are");
        notes.push(format!(
            "{jobs} left out: the record lacks the submission or the GPUs, or the readings have no time."
        ));
    }
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::schema::{GpuSampleRow, JobRow, Table as _};

    use super::*;

    fn sample(trace: &mut Trace, ts: i64, gpu: &str, util: f64, mib: f64, job: &str) {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: Some("n".into()),
            gpu: Some(gpu.to_owned().into()),
            util_ratio: Some(util),
            mem_used_bytes: Some(mib * MIB),
            job_key: Some(job.to_owned().into()),
            ..GpuSampleRow::default()
        });
    }

    #[test]
    fn two_gpus_and_two_times_are_two_moments() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow {
            job_key: Some("a".into()),
            name: Some("train".into()),
            submit: Some(0),
            start: Some(1_000),
            end: Some(9_000),
            run_s: Some(8.0),
            alloc_gpus: Some(2.0),
            ..JobRow::default()
        });
        trace.jobs.push(JobRow {
            job_key: Some("b".into()),
            submit: Some(0),
            start: Some(500),
            end: Some(700),
            run_s: Some(0.2),
            alloc_gpus: Some(1.0),
            reported_gpu_util_ratio: Some(0.3),
            ..JobRow::default()
        });
        assert_eq!(trace.jobs.len(), 2);
        for (ts, one, other) in [(2_000, 0.4, 0.6), (3_000, 0.8, 0.8)] {
            sample(&mut trace, ts, "0", one, 100.0, "a");
            sample(&mut trace, ts, "1", other, 300.0, "a");
        }
        sample(&mut trace, 4_000, "2", 0.1, 5.0, "pod");
        let history = UsageHistory::new(&trace).unwrap();
        let (b, a, pod) = (&history.jobs[0], &history.jobs[1], &history.jobs[2]);
        assert_eq!((b.reported, b.truth(Usage::GpuUtilPct), b.truth(Usage::MemoryMb)), (true, Some(30.0), None));
        assert_eq!(a.moments.iter().map(|moment| moment.util_pct).collect::<Vec<_>>(), [Some(50.0), Some(80.0)]);
        assert_eq!((a.moments[0].memory_mb, a.start_ms, a.done_ms), (Some(300.0), 1_000, 9_000));
        // Two moments are too few to say what the job used.
        assert_eq!(a.truth(Usage::GpuUtilPct), None);
        assert_eq!((pod.known.name.as_deref(), pod.start_ms, pod.done_ms), (Some("pod"), 4_000, 4_000));
        sample(&mut trace, 5_000, "0", 0.65, 200.0, "a");
        let a = UsageHistory::new(&trace).unwrap().jobs[1].clone();
        assert_eq!((a.truth(Usage::GpuUtilPct), a.truth(Usage::MemoryMb)), (Some(65.0), Some(300.0)));
    }

    #[test]
    fn a_trace_without_telemetry_says_what_it_lacks() {
        let told = UsageHistory::new(&Trace::default()).unwrap_err().to_string();
        assert!(told.contains("no job has telemetry"), "{told}");
    }
}
