//! Files of queues that divide a cluster, whoever's they are: KAI's or Volcano's.
//!
//! O(bytes). Worked examples: see [`super::kai`] and [`super::volcano`].

use tracecast_analytics::schema::Resource;

use super::kai::{JOB_PRIORITY, KaiFile, is_kai};
use super::volcano::{VolcanoFile, is_volcano};
use crate::error::Result;
use crate::yaml::Document;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::policy::Scan;

/// A checked file of such queues.
#[derive(Debug, Clone)]
pub(super) enum DividedFile {
    /// KAI's.
    Kai(KaiFile),
    /// Volcano's.
    Volcano(VolcanoFile),
}

impl DividedFile {
    /// Reads the objects of a file called `file`, if they are of either.
    pub(super) fn parse(file: &str, documents: &[Document]) -> Result<Option<Self>> {
        if is_kai(documents) {
            return Ok(Some(Self::Kai(KaiFile::parse(file, documents)?)));
        }
        if is_volcano(documents) {
            return Ok(Some(Self::Volcano(VolcanoFile::parse(file, documents)?)));
        }
        Ok(None)
    }

    /// The scan under which they hold.
    pub(super) fn scan(&self) -> Scan {
        match self {
            Self::Kai(_) => Scan::Kai,
            Self::Volcano(_) => Scan::Volcano,
        }
    }

    /// Names of the queues that jobs wait in.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Kai(file) => file.names(),
            Self::Volcano(file) => file.names(),
        }
    }

    /// Whether the file gives priority classes their values.
    pub(super) fn ranks(&self) -> bool {
        match self {
            Self::Kai(file) => file.ranks(),
            Self::Volcano(file) => file.ranks(),
        }
    }

    /// The priority of a class.
    pub(super) fn priority(&self, class: &str) -> Option<i32> {
        match self {
            Self::Kai(file) => file.priority(class),
            Self::Volcano(file) => file.priority(class),
        }
    }

    /// The priority of a job without a class.
    pub(super) fn usual_priority(&self) -> i32 {
        match self {
            Self::Kai(_) => JOB_PRIORITY,
            Self::Volcano(file) => file.usual_priority(),
        }
    }

    /// GPUs that are their own.
    pub(super) fn nominal_gpus(&self) -> f64 {
        match self {
            Self::Kai(file) => file.nominal_gpus(),
            Self::Volcano(file) => file.nominal_gpus(),
        }
    }

    /// The cluster with all its nodes in one pool, divided by them; what is assumed is added to `notes`.
    pub(super) fn govern(
        &self,
        cluster: &Cluster,
        resource: Resource,
        origin_ms: i64,
        notes: &mut Vec<String>,
    ) -> Result<Cluster> {
        match self {
            Self::Kai(file) => file.govern(cluster, resource, origin_ms, notes),
            Self::Volcano(file) => file.govern(cluster, resource, notes),
        }
    }
}
