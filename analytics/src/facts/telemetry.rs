//! Readings of single jobs: every reading of a GPU that one job held alone, with the type of the
//! GPU.
//!
//! Who held a GPU is found as in [`samples`](super::samples). A GPU that several jobs held at once says nothing of one of them, and is counted apart. A job that
//! a reading names and the jobs table does not hold (a pod, where only meters were recorded) is known by that name.
//!
//! The **type** is what the reading says, else what the inventory says of its node. An instance of a GPU that is cut into several (MIG) is a type of its own: its
//! profile stands behind the model, as what a job does on a slice is not what it does on the whole.
//!
//! O(n log n) in readings. Worked example: GPU `0/1g.10gb:3` of an `A100` that `a` held at 50 % is a reading of `a` on `A100 1g.10gb`.

use std::borrow::Cow;
use std::collections::HashMap;

use super::job::JobFacts;
use super::samples::{Holder, Readings};
use crate::Trace;

/// The job that a reading is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampledFor<'r> {
    /// A row of the jobs table.
    Row(usize),
    /// A job that is known by the readings alone.
    Named(&'r str),
}

/// A GPU at one moment, held by one job. What was not read is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReading<'r> {
    /// The job.
    pub job: SampledFor<'r>,
    /// Moment, ms.
    pub ts: Option<i64>,
    /// Type of the GPU, of an instance with its profile.
    pub gpu_type: Option<Cow<'r, str>>,
    /// Share of time a kernel was resident, 0 to 1; on an instance, share of time its compute engine was active.
    pub util_ratio: Option<f64>,
    /// Share of time the memory interface was busy, 0 to 1.
    pub mem_util_ratio: Option<f64>,
    /// Share of SMs active, 0 to 1.
    pub sm_active_ratio: Option<f64>,
    /// Share of cycles the tensor pipes were active, 0 to 1.
    pub tensor_active_ratio: Option<f64>,
    /// Share of cycles DRAM was active, 0 to 1.
    pub dram_active_ratio: Option<f64>,
    /// PCIe traffic of both directions, bytes a second; unknown of an instance, as its board serves others, too.
    pub pcie_bytes_per_s: Option<f64>,
    /// GPU memory in use, bytes.
    pub mem_used_bytes: Option<f64>,
    /// Power of the board, watts; unknown of an instance, as its board serves others, too.
    pub power_w: Option<f64>,
}

/// Readings by what they say of single jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadingsOfJobs {
    /// Readings of GPUs that one job held.
    pub alone: u64,
    /// Readings of GPUs that several jobs held at once.
    pub shared: u64,
    /// Readings of GPUs that no job held, or of which that is not known.
    pub others: u64,
}

/// GPU types of the inventory by node.
pub(crate) fn node_types(trace: &Trace) -> HashMap<&str, &str> {
    let nodes = &trace.nodes;
    nodes.node.iter().zip(nodes.gpu_type.iter()).filter_map(|(node, gpu_type)| node.zip(gpu_type)).collect()
}

/// Calls `each` with every reading of a GPU that one job held alone, GPU by GPU, each GPU's in order of time; `None` if the trace has no readings.
pub fn job_readings(facts: &JobFacts<'_>, mut each: impl FnMut(&JobReading<'_>)) -> Option<ReadingsOfJobs> {
    let trace = facts.trace;
    let samples = &trace.gpu_samples;
    let readings = Readings::new(facts)?;
    let types = node_types(trace);
    let mut counts = ReadingsOfJobs::default();
    for gpu in readings.gpus() {
        let of_node = gpu.node().and_then(|node| types.get(node)).copied();
        let profile = gpu.profile();
        for reading in gpu.readings() {
            let job = match reading.holder {
                Holder::Job(row) => SampledFor::Row(row),
                Holder::Unlisted => match reading.text(&samples.job_key) {
                    Some(name) => SampledFor::Named(name),
                    None => {
                        counts.others += 1;
                        continue;
                    }
                },
                Holder::Several => {
                    counts.shared += 1;
                    continue;
                }
                Holder::Unknown | Holder::Nobody => {
                    counts.others += 1;
                    continue;
                }
            };
            counts.alone += 1;
            let model = reading.text(&samples.gpu_type).or(of_node);
            each(&JobReading {
                job,
                ts: reading.ts,
                gpu_type: match (model, profile) {
                    (Some(model), None) => Some(model.into()),
                    (Some(model), Some(profile)) => Some(format!("{model} {profile}").into()),
                    (None, _) => None,
                },
                util_ratio: reading.value(&samples.util_ratio),
                mem_util_ratio: reading.value(&samples.mem_util_ratio),
                sm_active_ratio: reading.value(&samples.sm_active_ratio),
                tensor_active_ratio: reading.value(&samples.tensor_active_ratio),
                dram_active_ratio: reading.value(&samples.dram_active_ratio),
                pcie_bytes_per_s: reading.value(&samples.pcie_bytes_per_s).filter(|_| !gpu.is_instance()),
                mem_used_bytes: reading.value(&samples.mem_used_bytes),
                power_w: reading.value(&samples.power_w).filter(|_| !gpu.is_instance()),
            });
        }
    }
    Some(counts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{GpuSampleRow, JobRow, NodeRow};

    fn sample(trace: &mut Trace, ts: i64, gpu: &str, util: f64, job: &str) {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: Some("n".into()),
            gpu: Some(gpu.to_owned().into()),
            util_ratio: Some(util),
            power_w: Some(200.0),
            job_key: Some(job.to_owned().into()),
            ..GpuSampleRow::default()
        });
    }

    #[test]
    fn readings_go_to_the_job_that_held_the_gpu_alone() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow { job_key: Some("a".into()), ..JobRow::default() });
        trace.nodes.push(NodeRow { node: Some("n".into()), gpu_type: Some("A100".into()), ..NodeRow::default() });
        sample(&mut trace, 0, "0", 0.9, "a");
        sample(&mut trace, 1, "0", 0.7, "a,b");
        sample(&mut trace, 2, "0", 0.1, "pod");
        sample(&mut trace, 0, "1/1g.10gb:3", 0.5, "a");
        let mut result = Vec::new();
        let counts = job_readings(&JobFacts::new(&trace), |reading| {
            let job = match reading.job {
                SampledFor::Row(row) => format!("row {row}"),
                SampledFor::Named(name) => name.to_owned(),
            };
            let gpu_type = reading.gpu_type.clone().unwrap().into_owned();
            result.push((job, reading.ts.unwrap(), gpu_type, reading.util_ratio.unwrap(), reading.power_w.is_some()));
        });
        let of = |job: &str, ts, gpu_type: &str, util, power| (job.to_owned(), ts, gpu_type.to_owned(), util, power);
        let told = [
            of("row 0", 0, "A100", 0.9, true),
            of("pod", 2, "A100", 0.1, true),
            of("row 0", 0, "A100 1g.10gb", 0.5, false),
        ];
        assert_eq!(result, told);
        assert_eq!(counts, Some(ReadingsOfJobs { alone: 3, shared: 1, others: 0 }));
        assert_eq!(job_readings(&JobFacts::new(&Trace::default()), |_| ()), None);
    }
}
