//! What a request says beside its files, and who watches it being read.

use std::path::PathBuf;

use crate::error::Result;
use crate::time::Zone;

/// How many times its size on disk a compressed JSON document may expand to unless told otherwise. Telemetry and
/// accounting shrink to a tenth or a thirtieth; gzip cannot shrink anything to less than a thousandth.
pub const MOST_EXPANSION: u64 = 100;

/// How far reading one file has come.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// Bytes read of it, as it lies on disk.
    pub done_bytes: u64,
    /// Its size on disk.
    pub total_bytes: u64,
}

/// Watches long reads. `()` watches nothing.
pub trait Observer: Sync {
    /// Called about once a mebibyte, and at the end of each file.
    fn progress(&self, progress: &Progress<'_>);
}

impl Observer for () {
    fn progress(&self, _: &Progress<'_>) {}
}

/// What the user asked for beside the files.
pub struct ReadOptions<'a> {
    /// The reader to use for every file, instead of sniffing.
    pub reader: Option<String>,
    /// The cluster's time zone: of local times in the source, and for calendar statistics.
    pub zone: Option<Zone>,
    /// A mapping file that says what the columns of a CSV or Parquet file mean.
    pub mapping: Option<PathBuf>,
    /// Keep the text of quarantined rows, to write them out.
    pub keep_quarantined: bool,
    /// Make any quarantined row or damaged file an error.
    pub strict: bool,
    /// How many times its size on disk a compressed JSON document may expand to; 16 MiB are always allowed.
    pub most_expansion: u64,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

impl std::fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOptions")
            .field("reader", &self.reader)
            .field("zone", &self.zone)
            .field("mapping", &self.mapping)
            .field("keep_quarantined", &self.keep_quarantined)
            .field("strict", &self.strict)
            .field("most_expansion", &self.most_expansion)
            .finish_non_exhaustive()
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            reader: None,
            zone: None,
            mapping: None,
            keep_quarantined: false,
            strict: false,
            most_expansion: MOST_EXPANSION,
            observer: &(),
        }
    }
}

impl ReadOptions<'_> {
    /// The zone the user named, or else the zone a format's documentation gives.
    ///
    /// # Errors
    /// When `default` is not in the time zone database.
    pub fn zone_or(&self, default: &str) -> Result<Zone> {
        self.zone.clone().map_or_else(|| Zone::named(default), Ok)
    }
}
