//! From a request (files, options) to a trace: who reads what, and the checks every job row passes.

use std::collections::HashSet;
use std::path::PathBuf;

use super::READERS;
use super::reader::{Confidence, Reader};
use super::source::SourceFile;
use crate::error::{Error, Result};
use crate::quality::{Outcome, RowAudit, reason};
use crate::schema::{JobRow, gpu_count};
use crate::time::{SECOND_MS, Zone, seconds_to_ms};
use crate::trace::{SourceRecord, Trace};

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
            .finish_non_exhaustive()
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self { reader: None, zone: None, mapping: None, keep_quarantined: false, strict: false, observer: &() }
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

/// Every reader, in the order they are asked.
pub fn readers() -> &'static [&'static dyn Reader] {
    READERS
}

/// The reader that is surest that `file` is its own; the first of several equally sure.
///
/// # Errors
/// When the file cannot be opened.
pub fn sniff(file: &SourceFile) -> Result<Option<&'static dyn Reader>> {
    let head = file.head()?;
    let mut best: Option<(&'static dyn Reader, Confidence)> = None;
    for reader in READERS.iter().copied() {
        let confidence = reader.sniff(&head);
        if confidence > best.as_ref().map_or(Confidence::No, |(_, most)| *most) {
            best = Some((reader, confidence));
        }
    }
    Ok(best.map(|(reader, _)| reader))
}

/// Reads `files` into one trace. Files of the same format go to their reader together. A file that no reader
/// recognises is an error if it is the only one, and otherwise noted as skipped.
///
/// # Errors
/// When a file cannot be opened, is not in the format named, or `strict` is set and rows were quarantined.
pub fn read(files: &[SourceFile], options: &ReadOptions<'_>) -> Result<Trace> {
    let mut trace = Trace::default();
    if options.keep_quarantined {
        trace.ledger.keep_rows();
    }
    let mut groups: Vec<(&'static dyn Reader, Vec<SourceFile>)> = Vec::new();
    for file in files {
        let reader = match (&options.reader, &options.mapping) {
            (Some(id), _) => Some(by_id(id)?),
            (None, Some(_)) => Some(by_id("mapping")?),
            (None, None) => sniff(file)?,
        };
        let Some(reader) = reader else {
            if file.size_bytes()? == 0 || file.head()?.text.trim().is_empty() {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file is empty".to_owned(),
                    remedy: "export it again".to_owned(),
                });
            }
            if files.len() == 1 {
                let known = READERS.iter().map(|reader| reader.id()).collect::<Vec<_>>().join(", ");
                return Err(Error::UnknownFormat { file: file.name().to_owned(), known });
            }
            trace.skipped.push(file.name().to_owned());
            continue;
        };
        match groups.iter_mut().find(|(other, _)| other.id() == reader.id()) {
            Some((_, group)) => group.push(file.clone()),
            None => groups.push((reader, vec![file.clone()])),
        }
    }
    if groups.is_empty() {
        let known = READERS.iter().map(|reader| reader.id()).collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownFormat { file: trace.skipped.join(", "), known });
    }
    for (reader, group) in &groups {
        reader.read(group, options, &mut trace)?;
        for file in group {
            trace.sources.push(SourceRecord {
                name: file.name().to_owned(),
                reader: reader.id().to_owned(),
                size_bytes: file.size_bytes()?,
                sha256: file.sha256()?,
            });
        }
    }
    if let Some(zone) = &options.zone {
        trace.zone = zone.name().to_owned();
    }
    trace.finish();
    if options.strict {
        check_strict(&trace)?;
    }
    Ok(trace)
}

fn by_id(id: &str) -> Result<&'static dyn Reader> {
    READERS.iter().copied().find(|reader| reader.id() == id).ok_or_else(|| Error::Setting {
        setting: "--reader".to_owned(),
        found: format!("there is no reader `{id}`"),
        remedy: format!("use one of {}", READERS.iter().map(|reader| reader.id()).collect::<Vec<_>>().join(", ")),
    })
}

/// Makes any quarantined row or damaged file of `trace` an error.
///
/// # Errors
/// When there is one.
pub fn check_strict(trace: &Trace) -> Result<()> {
    let ledger = &trace.ledger;
    if let Some(damage) = ledger.damage.first() {
        return Err(Error::Damaged { file: damage.file.clone(), line: damage.after_line, what: damage.what.clone() });
    }
    let worst = ledger.entries.iter().find(|entry| entry.outcome == Outcome::Quarantined);
    let Some(worst) = worst else { return Ok(()) };
    let place = worst.examples.first().map(|e| format!(" (first at {}, line {})", e.file, e.line)).unwrap_or_default();
    Err(Error::Strict {
        quarantined: ledger.quarantined,
        read: ledger.read,
        worst: format!("{} × {}{place}", worst.count, worst.what),
    })
}

/// Checks that a job's times are in order and fills what follows from them; to be called by every reader before it
/// pushes a job. An end before the start becomes unknown; a start before the submission stays, as the wait derived from
/// it is then unknown. `run_s` is set from start and end where the reader has not set it from attempts.
pub fn check_job(job: &mut JobRow<'_>, row: &mut RowAudit<'_>) {
    for (column, gpus) in [("req_gpus", &mut job.req_gpus), ("alloc_gpus", &mut job.alloc_gpus)] {
        if let Some(count) = gpus.filter(|count| gpu_count(*count).is_none()) {
            row.repair(reason::OUT_OF_RANGE, column, &count.to_string());
            *gpus = None;
        }
    }
    let lengths = [("reported_run_s", &mut job.reported_run_s), ("reported_wait_s", &mut job.reported_wait_s)];
    for (column, seconds) in lengths {
        if let Some(length) = seconds.filter(|length| seconds_to_ms(*length).is_none()) {
            row.repair(reason::OUT_OF_RANGE, column, &length.to_string());
            *seconds = None;
        }
    }
    if let (Some(start), Some(end)) = (job.start, job.end) {
        if end < start {
            row.repair(reason::END_BEFORE_START, "end", &format!("{} s before its start", (start - end) / SECOND_MS));
            job.end = None;
            job.run_s = None;
        } else if job.run_s.is_none() && job.attempts.is_none_or(|attempts| attempts <= 1) {
            job.run_s = Some((end - start) as f64 / SECOND_MS as f64);
        }
    }
    if let (Some(submit), Some(start)) = (job.submit, job.start)
        && start < submit
    {
        let text = format!("{} s before its submission", (submit - start) as f64 / SECOND_MS as f64);
        row.repair(reason::START_BEFORE_SUBMIT, "start", &text);
    }
}

/// Remembers which keys were seen, for sources whose files overlap.
#[derive(Debug, Default)]
pub struct Seen(HashSet<Box<str>>);

impl Seen {
    /// Whether `key` is new; it is not the next time.
    pub fn is_new(&mut self, key: &str) -> bool {
        !self.0.contains(key) && self.0.insert(key.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Ledger;

    #[test]
    fn an_end_before_the_start_is_unknown_and_an_early_start_is_kept() {
        let mut row = RowAudit::new("f", 1);
        let mut job = JobRow { submit: Some(0), start: Some(5_000), end: Some(4_000), ..JobRow::default() };
        check_job(&mut job, &mut row);
        assert_eq!((job.end, job.run_s), (None, None));
        let mut job = JobRow { submit: Some(9_000), start: Some(5_000), end: Some(6_500), ..JobRow::default() };
        check_job(&mut job, &mut row);
        assert_eq!((job.start, job.run_s), (Some(5_000), Some(1.5)));
    }

    #[test]
    fn impossible_counts_and_lengths_are_unknown_and_noted() {
        let mut ledger = Ledger::default();
        let mut row = RowAudit::new("f", 1);
        let mut job = JobRow {
            req_gpus: Some(1e308),
            alloc_gpus: Some(1e6),
            reported_run_s: Some(1e308),
            reported_wait_s: Some(4e9),
            ..JobRow::default()
        };
        check_job(&mut job, &mut row);
        ledger.keep(row);
        assert_eq!((job.req_gpus, job.alloc_gpus), (None, Some(1e6)));
        assert_eq!((job.reported_run_s, job.reported_wait_s), (None, Some(4e9)));
        assert_eq!((ledger.repaired, ledger.count("out_of_range")), (1, 2));
    }
}
