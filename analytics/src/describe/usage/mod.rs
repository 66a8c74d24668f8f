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

mod jobs;
mod metric;
mod nodes;
mod readings;

use schemars::JsonSchema;
use serde::Serialize;

pub use jobs::{GroupPaid, JobsUse};
pub use metric::{Metric, MetricUse};
pub use nodes::NodesUse;
pub use readings::{GroupUse, HeldUse, Paired, ReadingsUse};

use super::topic::{Topic, TopicResult};
use crate::facts::JobFacts;
use crate::facts::job::JobUtilisation;
use crate::facts::samples::Readings;
use crate::report::Section;
use crate::report::format::{compact, counted, percent};

/// A GPU below this utilisation is called nearly idle.
const LOW: f64 = 0.05;

/// Allocation against utilisation. Parts without data are `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Usage {
    /// Use from readings of GPUs.
    pub gpus: Option<ReadingsUse>,
    /// Use from the utilisation of whole jobs.
    pub jobs: Option<JobsUse>,
    /// Use from readings of nodes.
    pub nodes: Option<NodesUse>,
}

impl Topic for Usage {
    const ID: &'static str = "usage";
    const CODE: &'static str = "A11";
    const TITLE: &'static str = "Allocation and utilisation";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let readings = Readings::new(facts);
        let gpus = readings.as_ref().and_then(|readings| ReadingsUse::new(facts, readings));
        let jobs = JobsUse::new(facts, facts.utilisation.get_or_init(|| jobs::utilisation(facts, readings.as_ref())));
        let nodes = NodesUse::new(facts);
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
            coverage.push(format!(
                "{} of {}.",
                counted(gpus.readings, "reading", "readings"),
                counted(gpus.gpus, "GPU", "GPUs")
            ));
        }
        if let Some(nodes) = &self.nodes {
            section = nodes.tell(section);
            coverage.push(format!(
                "{} of {}.",
                counted(nodes.readings, "reading", "readings"),
                counted(nodes.nodes, "node", "nodes")
            ));
        }
        section.with_coverage(coverage.join(" "))
    }
}

/// Returns the GPU utilisation of each job, `None` if unknown; computed once for all topics.
pub(crate) fn utilisation<'f>(facts: &'f JobFacts<'_>) -> &'f [Option<JobUtilisation>] {
    facts.utilisation.get_or_init(|| jobs::utilisation(facts, Readings::new(facts).as_ref()))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::GpuSampleRow;

    #[test]
    fn power_alone_is_no_utilisation() {
        let mut trace = Trace::default();
        trace.gpu_samples.push(GpuSampleRow { ts: Some(0), power_w: Some(60.0), ..GpuSampleRow::default() });
        assert!(Usage::of(&JobFacts::new(&trace)).is_err());
    }
}
