//! Observation of files being read.

/// Progress of reading one file.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// Bytes read of it, as it lies on disk.
    pub done_bytes: u64,
    /// Size of the file on disk.
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
