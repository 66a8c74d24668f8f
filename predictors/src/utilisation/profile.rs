//! Profiles of job types from telemetry: the table that `model backtest interference --profiles`
//! and `plan share couples` take.
//!
//! A job type is a name of jobs, or a recurring group: user and stem of the name. Of each on each GPU type stand there the mean over its jobs of each job's mean
//! reading, and the most memory that any of them used on a GPU. The batch size is what the name tells. FLOPs and steps a second are not in telemetry, and stay
//! empty.
//!
//! O(jobs × GPU types). Worked example: two jobs `bert` that read 40 and 60 % on average, however long they ran, are a row of `bert` with 50 %.

use std::collections::BTreeMap;

use tracecast_analytics::stats::NeumaierSum;

use super::history::{SampledJob, UsageHistory};
use crate::error::{Error, Result};
use crate::feature::name::stem;
use crate::interference::alone::LOADS;
use crate::interference::table::{JobProfile, Quantity, batch_of_name, family_of_name};

/// Definition of a job type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeOfJob {
    /// The name of a job.
    Name,
    /// User and stem of the job's name, such as `ann/train_#`.
    UserName,
}

impl TypeOfJob {
    /// The type of a job; `None` if what it is made of is not known.
    fn of(self, job: &SampledJob) -> Option<String> {
        let name = job.known.name.as_deref().map(str::trim).filter(|name| !name.is_empty())?;
        match self {
            Self::Name => Some(name.to_owned()),
            Self::UserName => Some(format!("{}/{}", job.known.user.as_deref()?, stem(name))),
        }
    }
}

/// Telemetry of a job type on a GPU type.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledType {
    /// GPU type.
    pub gpu_type: String,
    /// Job type.
    pub job: String,
    /// Family of the job type.
    pub family: String,
    /// Profile of the job type.
    pub profile: JobProfile,
    /// Jobs that were read.
    pub jobs: usize,
    /// Readings of their GPUs.
    pub readings: u64,
}

/// Columns of quantities that telemetry, or a name, can tell.
const COLUMNS: [Quantity; 9] = [
    Quantity::SmUtilPct,
    Quantity::MemUtilPct,
    Quantity::SmActivePct,
    Quantity::TensorActivePct,
    Quantity::DramActivePct,
    Quantity::PcieMbS,
    Quantity::MemoryMb,
    Quantity::PowerW,
    Quantity::Batch,
];

#[derive(Debug, Default)]
struct Sums {
    jobs: usize,
    readings: u64,
    means: [(NeumaierSum, u32); LOADS.len()],
    peak_mb: Option<f64>,
}

/// The job types of a history on each GPU type, in order of their names, and how many jobs have none.
///
/// # Errors
/// If no job has one.
pub fn job_types(history: &UsageHistory, by: TypeOfJob) -> Result<(Vec<SampledType>, usize)> {
    let mut sums: BTreeMap<(&str, String), Sums> = BTreeMap::new();
    let types: Vec<Option<String>> = history.jobs.iter().map(|job| by.of(job)).collect();
    for ((at, gpu_type), of_job) in &history.sums {
        let Some(job_type) = types.get(*at).cloned().flatten() else { continue };
        let sums = sums.entry((gpu_type.as_str(), job_type)).or_default();
        sums.jobs += 1;
        sums.readings += of_job.readings;
        for ((sum, known), mean) in sums.means.iter_mut().zip(of_job.means()) {
            if let Some(mean) = mean {
                sum.add(mean);
                *known += 1;
            }
        }
        sums.peak_mb = sums.peak_mb.into_iter().chain(of_job.peak_mb).reduce(f64::max);
    }
    if sums.is_empty() {
        let what = match by {
            TypeOfJob::Name => "none with readings has a name",
            TypeOfJob::UserName => "none with readings has a user and a name; --by name takes the names alone",
        };
        return Err(Error::NotRecorded(format!("{} jobs with telemetry: {what}", history.jobs.len())));
    }
    let one = |((gpu_type, job), sums): ((&str, String), Sums)| {
        let mut profile = JobProfile::default();
        for (quantity, (sum, known)) in LOADS.into_iter().zip(sums.means) {
            profile.set(quantity, (known > 0).then(|| sum.value() / f64::from(known)));
        }
        profile.set(Quantity::MemoryMb, sums.peak_mb);
        profile.set(Quantity::Batch, batch_of_name(&job));
        SampledType {
            gpu_type: gpu_type.to_owned(),
            family: family_of_name(&job).to_owned(),
            job,
            profile,
            jobs: sums.jobs,
            readings: sums.readings,
        }
    };
    Ok((sums.into_iter().map(one).collect(), types.iter().filter(|job_type| job_type.is_none()).count()))
}

/// Job types as a CSV of profiles.
///
/// # Errors
/// If the writer refuses a row.
pub fn csv(types: &[SampledType]) -> Result<String> {
    let failed = |reason: String| Error::Table { file: "profiles".to_owned(), reason };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["gpu_type", "job", "family"].into_iter().chain(COLUMNS.map(Quantity::name)).chain(["jobs", "readings"]);
    writer.write_record(head).map_err(|error| failed(error.to_string()))?;
    for one in types {
        let cell =
            |quantity: Quantity| one.profile.get(quantity).map_or(String::new(), |value| rounded(value).to_string());
        let names = [one.gpu_type.clone(), one.job.clone(), one.family.clone()];
        let counts = [one.jobs.to_string(), one.readings.to_string()];
        let row = names.into_iter().chain(COLUMNS.map(cell)).chain(counts);
        writer.write_record(row).map_err(|error| failed(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

/// Rounds to hundredths, which are finer than any meter of these.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::Trace;
    use tracecast_analytics::schema::{GpuSampleRow, JobRow};

    use super::*;
    use crate::interference::read::read_profiles;
    use crate::interference::table::SharingTable;

    /// Two jobs of `bert (batch size 16)` of 40 and 60 %, one of them read longer, and one without a name.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        for (key, name) in [("1", Some("bert (batch size 16)")), ("2", Some("bert (batch size 16)")), ("3", None)] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                user: Some("ann".into()),
                name: name.map(Into::into),
                submit: Some(0),
                start: Some(0),
                end: Some(10_000),
                run_s: Some(10.0),
                alloc_gpus: Some(1.0),
                ..JobRow::default()
            });
        }
        for (ts, job, util, mib) in
            [(0, "1", 0.4, 900.0), (0, "2", 0.5, 700.0), (1_000, "2", 0.7, 2_000.0), (0, "3", 0.9, 1.0)]
        {
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(ts),
                node: Some("n".into()),
                gpu: Some(job.into()),
                gpu_type: Some("A100".into()),
                util_ratio: Some(util),
                sm_active_ratio: (job == "1").then_some(0.2),
                pcie_bytes_per_s: (job == "2").then_some(1.5e9),
                mem_used_bytes: Some(mib * 1_048_576.0),
                job_key: Some(job.into()),
                ..GpuSampleRow::default()
            });
        }
        trace
    }

    #[test]
    fn a_job_type_has_the_mean_of_its_jobs_and_the_most_memory_of_any() {
        let history = UsageHistory::new(&trace()).unwrap();
        let (types, nameless) = job_types(&history, TypeOfJob::Name).unwrap();
        assert_eq!((types.len(), nameless), (1, 1));
        let text = csv(&types).unwrap();
        let expected = "gpu_type,job,family,sm_util_pct,mem_util_pct,sm_active_pct,tensor_active_pct,dram_active_pct,pcie_mb_s,memory_mb,power_w,batch,jobs,readings\n\
             A100,bert (batch size 16),bert,50,,20,,,1500,2000,,16,2,3\n";
        assert_eq!(text, expected);
        let (types, _) = job_types(&history, TypeOfJob::UserName).unwrap();
        assert_eq!((types[0].job.as_str(), types[0].jobs), ("ann/bert (batch size #)", 2));
        // What is written is read back without a word about columns that nothing is done with.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut table = SharingTable::new();
        read_profiles(file.path(), &mut table).unwrap();
        assert_eq!(table.profile(0, 0).get(Quantity::MemoryMb), Some(2000.0));
        assert!(table.notes.is_empty(), "{:?}", table.notes);
    }
}
