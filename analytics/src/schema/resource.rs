//! Resource that jobs compete for: GPUs, CPU cores (processors), or whole nodes.
//!
//! A trace is replayed and learned from by one of them. Which it is follows from the trace unless the user says: GPUs if any job has one,
//! else CPUs if any job has some, else nodes. O(jobs). Worked number: a log of 3,170 jobs with processors and no GPU field is of CPUs.

use serde::{Deserialize, Serialize};

use super::{JobTable, Table as _, gpu_count};

/// Resource that jobs compete for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// GPUs.
    #[default]
    Gpus,
    /// CPU cores: the processors of a log that knows no GPUs.
    Cpus,
    /// Whole nodes.
    Nodes,
}

impl Resource {
    /// All resources, in the order in which they are guessed.
    pub const ALL: [Self; 3] = [Self::Gpus, Self::Cpus, Self::Nodes];

    /// Resource that the jobs of a trace compete for, as far as their table tells; GPUs if it tells
    /// nothing.
    pub fn of_jobs(jobs: &JobTable) -> Self {
        let has = |resource: &Self| (0..jobs.len()).any(|row| resource.given(jobs, row).is_some_and(|many| many > 0.0));
        Self::ALL.into_iter().find(has).unwrap_or_default()
    }

    /// Name as an option.
    pub fn id(self) -> &'static str {
        match self {
            Self::Gpus => "gpus",
            Self::Cpus => "cpus",
            Self::Nodes => "nodes",
        }
    }

    /// Singular in words.
    pub fn one(self) -> &'static str {
        match self {
            Self::Gpus => "GPU",
            Self::Cpus => "processor",
            Self::Nodes => "node",
        }
    }

    /// Plural in words.
    pub fn many(self) -> &'static str {
        match self {
            Self::Gpus => "GPUs",
            Self::Cpus => "processors",
            Self::Nodes => "nodes",
        }
    }

    /// Amount that the job of a row was given; where that is not known, the amount it asked for.
    pub fn given(self, jobs: &JobTable, row: usize) -> Option<f64> {
        let (given, request) = self.columns(jobs, row);
        given.or(request)
    }

    /// Amount that the job of a row asked for; where that is not known, the amount it was given.
    pub fn asked(self, jobs: &JobTable, row: usize) -> Option<f64> {
        let (given, asked) = self.columns(jobs, row);
        asked.or(given)
    }

    /// (given, asked for).
    fn columns(self, jobs: &JobTable, row: usize) -> (Option<f64>, Option<f64>) {
        let cpus = |value: Option<f64>| value.filter(|cpus| (0.0..=1e9).contains(cpus));
        let nodes = |value: Option<i64>| value.filter(|nodes| *nodes >= 0).map(|nodes| nodes as f64);
        match self {
            Self::Gpus => (jobs.alloc_gpus.get(row).and_then(gpu_count), jobs.req_gpus.get(row).and_then(gpu_count)),
            Self::Cpus => (cpus(jobs.alloc_cpus.get(row)), cpus(jobs.req_cpus.get(row))),
            Self::Nodes => (nodes(jobs.alloc_nodes.get(row)), nodes(jobs.req_nodes.get(row))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::JobRow;

    fn jobs(rows: &[JobRow<'static>]) -> JobTable {
        let mut jobs = JobTable::default();
        rows.iter().for_each(|row| jobs.push(row.clone()));
        jobs
    }

    #[test]
    fn it_follows_from_what_jobs_have() {
        let cpu = JobRow { req_gpus: Some(0.0), alloc_cpus: Some(4.0), ..JobRow::default() };
        let gpu = JobRow { req_gpus: Some(1.0), alloc_cpus: Some(4.0), ..JobRow::default() };
        let node = JobRow { req_nodes: Some(2), ..JobRow::default() };
        // CPU jobs beside a GPU job are of a GPU cluster; alone, even with a count of no GPUs, they are of processors.
        assert_eq!(Resource::of_jobs(&jobs(&[cpu.clone(), gpu])), Resource::Gpus);
        assert_eq!(Resource::of_jobs(&jobs(&[cpu.clone(), node.clone()])), Resource::Cpus);
        assert_eq!(Resource::of_jobs(&jobs(&[node])), Resource::Nodes);
        assert_eq!(Resource::of_jobs(&jobs(&[])), Resource::Gpus);
        let both = jobs(&[JobRow { req_cpus: Some(8.0), ..cpu }]);
        assert_eq!((Resource::Cpus.given(&both, 0), Resource::Cpus.asked(&both, 0)), (Some(4.0), Some(8.0)));
    }
}
