//! Options of a request, beside its files.

use std::path::{Path, PathBuf};

use super::progress::Observer;
use super::source::SourceFile;
use crate::error::{Error, Result};
use crate::time::Zone;
use crate::trace::Trace;

/// Most that a compressed JSON document may expand, times its size on disk, unless the user names a
/// bound. Telemetry and accounting shrink to a tenth or a thirtieth; gzip cannot shrink anything to
/// less than a thousandth.
pub const MOST_EXPANSION: u64 = 100;

/// A mapping file for one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMapping {
    /// A file or folder as it is named among the sources, or the name of a file without its folder.
    pub source: PathBuf,
    /// The mapping file.
    pub mapping: PathBuf,
}

/// The metric that the series of a source are of, where they have no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMetric {
    /// Source of the series, named like [`SourceMapping::source`]; `None` for all sources.
    pub source: Option<PathBuf>,
    /// Name of the metric.
    pub name: String,
}

/// Whether `source`, as named, is `file`, a folder above it, or its name.
fn is_of(source: &Path, file: &Path) -> bool {
    let named = || source.components().count() == 1 && file.file_name() == Some(source.as_os_str());
    source == file || file.starts_with(source) || named()
}

/// Options that the user gives beside the files.
pub struct ReadOptions<'a> {
    /// The reader to use for every file, instead of sniffing.
    pub reader: Option<String>,
    /// The cluster's time zone: of local times in the source, and for calendar statistics.
    pub zone: Option<Zone>,
    /// A mapping file that says what the columns of CSV or Parquet files mean: of all that have none of their own.
    pub mapping: Option<PathBuf>,
    /// Mapping files of single sources.
    pub mappings: Vec<SourceMapping>,
    /// A table of metrics that adds to the bundled one.
    pub metrics: Option<PathBuf>,
    /// Metrics of series that have no name.
    pub unnamed: Vec<SourceMetric>,
    /// The zone of the trace beside which files are read, where it is known before.
    pub zone_beside: Option<Zone>,
    /// Labels of Kubernetes nodes that say where these lie, the widest level first; if empty, those of `Topology` objects, else well-known ones.
    pub node_labels: Vec<String>,
    /// Shards (`gres/shard`) that a GPU holds in Slurm; unknown if `None`.
    pub shards_per_gpu: Option<u32>,
    /// Keep the text of quarantined rows, to write them out.
    pub keep_quarantined: bool,
    /// Make any quarantined row or damaged file an error.
    pub strict: bool,
    /// Most that a compressed JSON document may expand, times its size on disk; 16 MiB are always
    /// allowed.
    pub most_expansion: u64,
    /// Take sources for one cluster though years lie between them ([`apart`](crate::trace::apart)).
    pub one_cluster: bool,
    /// Observer of the reading.
    pub observer: &'a dyn Observer,
}

impl std::fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOptions")
            .field("reader", &self.reader)
            .field("zone", &self.zone)
            .field("mapping", &self.mapping)
            .field("mappings", &self.mappings)
            .field("metrics", &self.metrics)
            .field("unnamed", &self.unnamed)
            .field("zone_beside", &self.zone_beside)
            .field("node_labels", &self.node_labels)
            .field("shards_per_gpu", &self.shards_per_gpu)
            .field("keep_quarantined", &self.keep_quarantined)
            .field("strict", &self.strict)
            .field("most_expansion", &self.most_expansion)
            .field("one_cluster", &self.one_cluster)
            .finish_non_exhaustive()
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            reader: None,
            zone: None,
            mapping: None,
            mappings: Vec::new(),
            metrics: None,
            unnamed: Vec::new(),
            zone_beside: None,
            node_labels: Vec::new(),
            shards_per_gpu: None,
            keep_quarantined: false,
            strict: false,
            most_expansion: MOST_EXPANSION,
            one_cluster: false,
            observer: &(),
        }
    }
}

impl ReadOptions<'_> {
    /// The mapping file of `file`: its own, else the one of all.
    pub fn mapping_of(&self, file: &SourceFile) -> Option<&Path> {
        let of_file =
            self.mappings.iter().find(|entry| is_of(&entry.source, file.path())).map(|entry| entry.mapping.as_path());
        of_file.or(self.mapping.as_deref())
    }

    /// The metric of the series of `file` that have no name: the file's own, else the one of all.
    pub fn metric_of(&self, file: &SourceFile) -> Option<&str> {
        let own = |entry: &&SourceMetric| entry.source.as_ref().is_some_and(|source| is_of(source, file.path()));
        let of_all = || self.unnamed.iter().find(|entry| entry.source.is_none());
        self.unnamed.iter().find(own).or_else(of_all).map(|entry| entry.name.as_str())
    }

    /// Checks that every mapping and every metric has its source among `files`.
    ///
    /// # Errors
    /// When one has not.
    pub fn check_sources(&self, files: &[SourceFile]) -> Result<()> {
        let is_there = |source: &Path| files.iter().any(|file| is_of(source, file.path()));
        if let Some(lost) =
            self.unnamed.iter().find(|entry| entry.source.as_ref().is_some_and(|source| !is_there(source)))
        {
            let source = lost.source.clone().unwrap_or_default();
            return Err(Error::Setting {
                setting: format!("--metric {}={}", source.display(), lost.name),
                found: format!("there is no source {}", source.display()),
                remedy: "name the source as it stands among the others, or by its file name".to_owned(),
            });
        }
        match self.mappings.iter().find(|entry| !is_there(&entry.source)) {
            None => Ok(()),
            Some(lost) => Err(Error::Setting {
                setting: format!("--mapping {}={}", lost.source.display(), lost.mapping.display()),
                found: format!("there is no source {}", lost.source.display()),
                remedy: "name the source as it stands among the others, or by its file name".to_owned(),
            }),
        }
    }

    /// The zone the user named, or else the zone a format's documentation gives.
    ///
    /// # Errors
    /// When `default` is not in the time zone database.
    pub fn zone_or(&self, default: &str) -> Result<Zone> {
        self.zone.clone().map_or_else(|| Zone::named(default), Ok)
    }

    /// The zone the user named, or else that of the trace beside which a file is read, where that has dates.
    ///
    /// # Errors
    /// When the trace's is not in the time zone database.
    pub fn zone_beside(&self, trace: &Trace) -> Result<Zone> {
        self.zone_or(if trace.basis.has_dates() { &trace.zone } else { "UTC" })
    }
}
