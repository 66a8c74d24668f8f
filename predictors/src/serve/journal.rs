//! Learnt state on disk: a journal of events and, now and then, a snapshot that replaces the events
//! before it. Not responsible for what an event means.
//!
//! A folder holds
//! - `lock`, locked while a server writes here;
//! - `journal-<first>.jsonl`: one line an event, `{"crc":"<8 hex digits>","seq":<n>,"event":{…}}`. `seq` counts events from 1 and never
//!   goes back; `crc` is the CRC-32 (IEEE 802.3) of the bytes of the line after `{"crc":"xxxxxxxx",`. `<first>` is the `seq` of the
//!   file's first line, in 20 digits, so that the names sort;
//! - `snapshot`: a line `tracecast-snapshot 2 seq=<n> recent=<n> bytes=<n> crc=<hex>`, then 16 bytes for each event learnt lately (see `recent`),
//!   then the bytes of the model. It stands for all events up to `seq`. `crc` is of the line before ` crc=` and of all that follows it. Version 1,
//!   without recent events and with a checksum of the bytes alone, is read, too.
//!
//! Durability: [`Journal::append`] returns after the lines are on disk (`fdatasync`), one sync for all events given. A snapshot is written
//! under another name, synced, renamed and the folder synced; only then are the files that it stands for removed. A crash between any two
//! of these steps leaves events twice on disk, and `seq` tells which are already in the snapshot: nothing is lost and nothing is doubled.
//!
//! Damage: a last line without its line break was never acknowledged; it is dropped and counted. A whole line with a wrong checksum
//! is skipped and counted, and so are numbers that no sound line has: events that were acknowledged and are lost. A whole line with a right checksum that this version cannot read stops the start, as does a damaged snapshot:
//! going on would forget silently.
//!
//! Cost: appending is O(bytes); opening reads every byte once, O(longest line + snapshot) memory.
//!
//! Worked example: two events of 90 bytes, then a third torn after 40: opening replays 2, counts 1 torn, cuts the file to 180 bytes, and
//! the next event gets `seq` 3.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tracecast_analytics::storage::write_files;

use super::error::{ServeError, ServeResult};
use super::recent::Identity;
use crate::job::Event;

const SNAPSHOT: &str = "snapshot";
const SNAPSHOT_HEAD: &str = "tracecast-snapshot 2";
const SNAPSHOT_HEAD_1: &str = "tracecast-snapshot 1";
/// Bytes of the identity of an event.
const IDENTITY: usize = 16;
/// Bytes written to find out whether more can be kept: a short post.
const PROBE_BYTES: usize = 512;
/// A line's bytes before its checksum, and the length of the checksum and what closes it.
const LINE_HEAD: &[u8] = b"{\"crc\":\"";
const LINE_SUM: usize = 8;
const LINE_REST: &[u8] = b"\",";

/// An item found on opening a journal, in the order in which it was learnt.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// First and at most once: the bytes of the snapshot, and the events learnt last before it, the oldest first.
    Snapshot(&'a [u8], &'a [Identity]),
    /// An event after the snapshot.
    Event(&'a Event),
}

/// Counts of what was found on opening a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// `seq` of the last event that the snapshot stands for, 0 without a snapshot.
    pub snapshot_seq: u64,
    /// Events replayed after it.
    pub events: u64,
    /// Replayed events that the model refused (as it did when they were posted).
    pub refused: u64,
    /// Torn last lines dropped: never acknowledged.
    pub torn: u64,
    /// Whole lines skipped, as their checksum was wrong.
    pub corrupt: u64,
    /// Lines skipped, as their events were already known.
    pub repeated: u64,
    /// Numbers between the first and the last that no sound line has: events that are lost, those of corrupt lines included.
    pub missing: u64,
}

impl Recovered {
    /// Warning for an operator, if anything was lost.
    pub fn warning(&self) -> Option<String> {
        let Self { missing, corrupt, .. } = *self;
        (missing + corrupt > 0).then(|| {
            format!(
                "the journal is damaged: of what was acknowledged, {missing} events are missing, and {corrupt} lines have a wrong checksum and were skipped; look at the disk, and post those events again if you have them"
            )
        })
    }
}

/// An open journal. One at a time can be open in a folder.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    /// `seq` of the first line of `file`, present or to come.
    first: u64,
    /// Bytes of `file` that are known to be on disk.
    durable: u64,
    /// Bytes of the files before the current one.
    older: u64,
    next: u64,
    broken: bool,
    /// Locked until dropped.
    _lock: File,
}

/// A moment at which the journal was cut: everything up to `seq` lies in files that a snapshot can replace.
#[derive(Debug)]
pub(super) struct Cut {
    folder: PathBuf,
    seq: u64,
}

#[derive(Deserialize)]
struct Line {
    seq: u64,
    event: Event,
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> ServeError + 'a {
    move |source| ServeError::Io { action, path: path.to_owned(), source }
}

fn segment(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("journal-{first:020}.jsonl"))
}

/// The journal files of a folder with the `seq` in their names, in order.
fn segments(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut result = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let first = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".jsonl"));
        if let Some(first) = first.and_then(|digits| digits.parse().ok()) {
            result.push((first, path));
        }
    }
    result.sort();
    Ok(result)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn write_line(buffer: &mut Vec<u8>, seq: u64, event: &Event) -> io::Result<()> {
    buffer.extend_from_slice(LINE_HEAD);
    let sum_at = buffer.len();
    buffer.extend_from_slice(&[b'0'; LINE_SUM]);
    buffer.extend_from_slice(LINE_REST);
    let summed_at = buffer.len();
    write!(buffer, "\"seq\":{seq},\"event\":")?;
    serde_json::to_writer(&mut *buffer, event)?;
    buffer.push(b'}');
    let sum = format!("{:08x}", crc32fast::hash(buffer.get(summed_at..).unwrap_or_default()));
    if let Some(place) = buffer.get_mut(sum_at..sum_at + LINE_SUM) {
        place.copy_from_slice(sum.as_bytes());
    }
    buffer.push(b'\n');
    Ok(())
}

/// The part of a line that its checksum covers, if the checksum is right.
fn summed(line: &[u8]) -> Option<&[u8]> {
    let (sum, rest) = line.strip_prefix(LINE_HEAD)?.split_at_checked(LINE_SUM)?;
    let rest = rest.strip_prefix(LINE_REST)?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (crc32fast::hash(rest) == sum).then_some(rest)
}

impl Journal {
    /// Opens the journal of a folder, which is made if it is not there, and tells `learn` all that it holds. `learn` says whether the
    /// event was taken (false: refused) and fails if the snapshot cannot be restored.
    ///
    /// # Errors
    /// If another server has it open, if the system refuses a file, or if what was acknowledged cannot be read back.
    pub(super) fn open(
        folder: &Path,
        learn: &mut dyn FnMut(Found<'_>) -> Result<bool, String>,
    ) -> ServeResult<(Self, Recovered)> {
        fs::create_dir_all(folder).map_err(io_error("make the journal folder", folder))?;
        let lock_path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ServeError::Locked { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &lock_path)(source)),
        }
        let mut recovered = Recovered::default();
        if let Some((seq, recent, bytes)) = read_snapshot(folder)? {
            learn(Found::Snapshot(&bytes, &recent)).map_err(|reason| ServeError::Memory {
                path: folder.join(SNAPSHOT),
                found: format!("the model cannot take it up: {reason}"),
                remedy: "start with the model that wrote it, or give another journal folder",
            })?;
            recovered.snapshot_seq = seq;
        }
        let mut last = recovered.snapshot_seq;
        let mut files = segments(folder).map_err(io_error("list", folder))?;
        let mut older = 0;
        let mut durable = 0;
        for (first, path) in &files {
            older += durable;
            // A file that begins later than the one before it ended.
            let gap = first.saturating_sub(1).saturating_sub(last);
            recovered.missing += gap;
            last += gap;
            durable = replay(path, &mut last, &mut recovered, learn)?;
            last = last.max(first.saturating_sub(1));
        }
        let first = match files.pop() {
            Some((first, path)) => {
                // Cut the torn line off, so that the next one starts a line.
                let file = OpenOptions::new().write(true).open(&path).map_err(io_error("open", &path))?;
                file.set_len(durable).and_then(|()| file.sync_all()).map_err(io_error("cut", &path))?;
                first
            }
            None => last + 1,
        };
        let path = segment(folder, first);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io_error("open", &path))?;
        file.sync_all().and_then(|()| sync_folder(folder)).map_err(io_error("sync", folder))?;
        let folder = folder.to_owned();
        let journal = Self { folder, file, first, durable, older, next: last + 1, broken: false, _lock: lock };
        Ok((journal, recovered))
    }

    /// Bytes of all files of the journal, the snapshot apart.
    pub(super) fn bytes(&self) -> u64 {
        self.older + self.durable
    }

    /// Whether the journal takes no more events: after a failure, what the disk holds is unknown.
    pub(super) fn broken(&self) -> bool {
        self.broken
    }

    /// Writes events and returns when they are on disk. After an error none of them is known to be there, and none counts as written.
    pub(super) fn append<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the journal failed before and takes no events until a restart"));
        }
        let mut lines = Vec::new();
        let mut next = self.next;
        for event in events {
            write_line(&mut lines, next, event)?;
            next += 1;
        }
        if let Err(error) = self.file.write_all(&lines) {
            // A full disk: take back what was written of it, so that nothing torn stands in the middle.
            self.broken = self.file.set_len(self.durable).and_then(|()| self.file.sync_data()).is_err();
            return Err(error);
        }
        if let Err(error) = self.file.sync_data() {
            // The kernel may have dropped the pages that it could not write, and a second sync would call them clean.
            self.broken = true;
            return Err(error);
        }
        self.durable += lines.len() as u64;
        self.next = next;
        Ok(())
    }

    /// Finds out whether more could be kept, by writing a little and taking it back.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the journal failed before and takes no events until a restart"));
        }
        // Without a line break: if the machine fails right now, it is a torn line, which was never acknowledged.
        let written = self.file.write_all(&[b' '; PROBE_BYTES]).and_then(|()| self.file.sync_data());
        let taken_back = self.file.set_len(self.durable).and_then(|()| self.file.sync_data());
        self.broken = taken_back.is_err();
        written.and(taken_back)
    }

    /// Begins a new file, so that a snapshot taken now can replace the ones before.
    pub(super) fn cut(&mut self) -> io::Result<Cut> {
        if self.first < self.next {
            let path = segment(&self.folder, self.next);
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            file.sync_all()?;
            sync_folder(&self.folder)?;
            self.file = file;
            self.older += self.durable;
            (self.first, self.durable) = (self.next, 0);
        }
        Ok(Cut { folder: self.folder.clone(), seq: self.next - 1 })
    }

    /// Forgets the size of the files that a snapshot replaced.
    pub(super) fn replaced(&mut self) {
        self.older = 0;
    }
}

impl Cut {
    /// Writes the snapshot of what was known when the journal was cut, with the events learnt last, and removes the files that it stands for.
    pub(super) fn replace(&self, bytes: &[u8], recent: &[Identity]) -> io::Result<()> {
        let head = format!("{SNAPSHOT_HEAD} seq={} recent={} bytes={}", self.seq, recent.len(), bytes.len());
        let recent: Vec<u8> = recent.iter().flat_map(|identity| identity.to_bytes()).collect();
        let sum = sum_of(head.as_bytes(), &[&recent, bytes]);
        let whole = [format!("{head} crc={sum:08x}\n").as_bytes(), &recent, bytes].concat();
        write_files(&[(&self.folder.join(SNAPSHOT), &whole)]).map_err(|error| match error {
            tracecast_analytics::Error::Io { source, .. } => source,
            other => io::Error::other(other),
        })?;
        for (first, path) in segments(&self.folder)? {
            if first <= self.seq {
                fs::remove_file(path)?;
            }
        }
        sync_folder(&self.folder)
    }
}

/// The checksum of a snapshot's head and of what follows it.
fn sum_of(head: &[u8], rest: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    rest.iter().for_each(|part| sum.update(part));
    sum.finalize()
}

/// Contents of a snapshot: the `seq` that it reaches to, the events learnt last, the oldest first,
/// and its bytes.
type Snapshot = (u64, Vec<Identity>, Vec<u8>);

/// The snapshot of a folder.
fn read_snapshot(folder: &Path) -> ServeResult<Option<Snapshot>> {
    let path = folder.join(SNAPSHOT);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    let mut file = BufReader::new(file);
    let mut head = Vec::new();
    file.by_ref().take(200).read_until(b'\n', &mut head).map_err(io_error("read", &path))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io_error("read", &path))?;
    let found = parse_snapshot(&head, &bytes);
    found.map(Some).ok_or_else(|| ServeError::Memory {
        path,
        found: "not a snapshot of version 1 or 2, or damaged".to_owned(),
        remedy: "put back a copy; without one, move it away, and what it stood for is forgotten",
    })
}

fn parse_snapshot(head: &[u8], bytes: &[u8]) -> Option<Snapshot> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix('\n')?;
    let (summed, sum) = head.rsplit_once(" crc=")?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    let number = |word: Option<&str>, name: &str| word?.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok();
    if let Some(rest) = summed.strip_prefix(SNAPSHOT_HEAD_1) {
        let mut words = rest.split_ascii_whitespace();
        let (seq, length) = (number(words.next(), "seq")?, number(words.next(), "bytes")?);
        let sound = length == bytes.len() as u64 && sum == crc32fast::hash(bytes);
        return sound.then(|| (seq, Vec::new(), bytes.to_vec()));
    }
    if sum_of(summed.as_bytes(), &[bytes]) != sum {
        return None;
    }
    let mut words = summed.strip_prefix(SNAPSHOT_HEAD)?.split_ascii_whitespace();
    let seq = number(words.next(), "seq")?;
    let recent = usize::try_from(number(words.next(), "recent")?).ok()?.checked_mul(IDENTITY)?;
    let length = number(words.next(), "bytes")?;
    let (recent, state) = bytes.split_at_checked(recent)?;
    let (identities, []) = recent.as_chunks::<IDENTITY>() else { return None };
    let identities = identities.iter().map(|bytes| Identity::from_bytes(*bytes)).collect();
    (state.len() as u64 == length).then(|| (seq, identities, state.to_vec()))
}

/// Tells the events of one file to `learn`; returns the bytes up to its last line break.
fn replay(
    path: &Path,
    last: &mut u64,
    recovered: &mut Recovered,
    learn: &mut dyn FnMut(Found<'_>) -> Result<bool, String>,
) -> ServeResult<u64> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(io_error("open", path))?);
    let mut line = Vec::new();
    let mut whole_bytes = 0;
    let mut number = 0u64;
    loop {
        line.clear();
        let read = file.read_until(b'\n', &mut line).map_err(io_error("read", path))?;
        if read == 0 {
            return Ok(whole_bytes);
        }
        number += 1;
        let Some(whole) = line.strip_suffix(b"\n") else {
            recovered.torn += 1;
            return Ok(whole_bytes);
        };
        whole_bytes += read as u64;
        if summed(whole).is_none() {
            recovered.corrupt += 1;
            continue;
        }
        let Line { seq, event } = serde_json::from_slice(whole).map_err(|error| ServeError::Memory {
            path: path.to_owned(),
            found: format!("line {number} is whole but is no event known here: {error}"),
            remedy: "start the version that wrote it",
        })?;
        if seq <= *last {
            recovered.repeated += 1;
            continue;
        }
        recovered.missing += seq - *last - 1;
        *last = seq;
        recovered.events += 1;
        match learn(Found::Event(&event)) {
            Ok(true) => {}
            Ok(false) => recovered.refused += 1,
            Err(reason) => {
                let remedy = "start with the model that wrote it, or give another journal folder";
                return Err(ServeError::Memory {
                    path: path.to_owned(),
                    found: format!("line {number}: {reason}"),
                    remedy,
                });
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
