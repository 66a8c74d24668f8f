//! What a request says beside its files.

use std::path::{Path, PathBuf};

use super::progress::Observer;
use super::source::SourceFile;
use crate::error::{Error, Result};
use crate::time::Zone;

/// How many times its size on disk a compressed JSON document may expand to unless told otherwise. Telemetry and
/// accounting shrink to a tenth or a thirtieth; gzip cannot shrink anything to less than a thousandth.
pub const MOST_EXPANSION: u64 = 100;

/// A mapping file for one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMapping {
    /// A file or folder as it is named among the sources, or the name of a file without its folder.
    pub source: PathBuf,
    /// The mapping file.
    pub mapping: PathBuf,
}

impl SourceMapping {
    fn is_of(&self, file: &Path) -> bool {
        let named = || self.source.components().count() == 1 && file.file_name() == Some(self.source.as_os_str());
        self.source == file || file.starts_with(&self.source) || named()
    }
}

/// What the user asked for beside the files.
pub struct ReadOptions<'a> {
    /// The reader to use for every file, instead of sniffing.
    pub reader: Option<String>,
    /// The cluster's time zone: of local times in the source, and for calendar statistics.
    pub zone: Option<Zone>,
    /// A mapping file that says what the columns of CSV or Parquet files mean: of all that have none of their own.
    pub mapping: Option<PathBuf>,
    /// Mapping files of single sources.
    pub mappings: Vec<SourceMapping>,
    /// Labels of Kubernetes nodes that say where these lie, the widest level first; if empty, those of `Topology` objects, else well-known ones.
    pub node_labels: Vec<String>,
    /// Shards (`gres/shard`) that a GPU holds in Slurm; unknown if `None`.
    pub shards_per_gpu: Option<u32>,
    /// Keep the text of quarantined rows, to write them out.
    pub keep_quarantined: bool,
    /// Make any quarantined row or damaged file an error.
    pub strict: bool,
    /// How many times its size on disk a compressed JSON document may expand to; 16 MiB are always allowed.
    pub most_expansion: u64,
    /// Take sources for one cluster though years lie between them ([`apart`](crate::trace::apart)).
    pub one_cluster: bool,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

impl std::fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOptions")
            .field("reader", &self.reader)
            .field("zone", &self.zone)
            .field("mapping", &self.mapping)
            .field("mappings", &self.mappings)
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
        let of_file = self.mappings.iter().find(|entry| entry.is_of(file.path())).map(|entry| entry.mapping.as_path());
        of_file.or(self.mapping.as_deref())
    }

    /// Whether every mapping has its source among `files`.
    ///
    /// # Errors
    /// When one has not.
    pub fn check_mappings(&self, files: &[SourceFile]) -> Result<()> {
        match self.mappings.iter().find(|entry| !files.iter().any(|file| entry.is_of(file.path()))) {
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
}
