//! Arbitrary bytes through a reader: what the property tests and the fuzz targets share.
//!
//! A reader may refuse a file with an error, and may quarantine every row of it. It must not panic, and every row it read
//! must be accounted for. Readers read files, so the bytes go through a temporary one: with `TMPDIR=/dev/shm` it never
//! touches a disk.

use std::io::Write as _;

use tracecast_analytics::Trace;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};

/// Reads `bytes` with the reader called `reader`, or with the one that sniffing picks. `None` if it refuses them.
///
/// # Panics
/// When the reader panics or its ledger does not add up: that is the finding.
pub fn read_bytes(reader: Option<&str>, bytes: &[u8]) -> Option<Trace> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let options = ReadOptions { reader: reader.map(str::to_owned), keep_quarantined: true, ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(file.path())], &options).ok()?;
    super::check(&trace);
    assert_eq!(trace.ledger.rows().len() as u64, trace.ledger.quarantined, "every quarantined row is kept");
    Some(trace)
}

/// Reads the bytes after the first with the reader that the first selects; one value beyond the readers is sniffing.
///
/// # Panics
/// Errors of [`read_bytes`].
pub fn read_any(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let readers = ingest::readers();
    let reader = readers.get(usize::from(*first) % (readers.len() + 1));
    read_bytes(reader.map(|reader| reader.id()), rest);
}
