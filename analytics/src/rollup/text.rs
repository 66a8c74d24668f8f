//! Delimited text, in blocks of whole lines that threads parse side by side.
//!
//! A thread takes the next block from the one reader (file order, a lock held for one read), cuts it after its last
//! line end and leaves the rest for the next block; then it parses without a lock. A thread holds one block, so memory
//! is threads × 1 MiB whatever the size of the file, longer only for a longer line.
//!
//! A line is a row: quoted fields may hold separators and doubled quotes, not line ends. A row with another number of
//! fields than the header, or with a value that is neither known nor a spelling of unknown, is quarantined: rows read =
//! kept + quarantined. Separators are `,`, tab, `;` or `|`, whichever the header has most of.

use std::io::{BufRead, Read};
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memrchr};
use rayon::ThreadPool;

use super::columnar::COLUMNS;
use super::intern::Words;
use super::totals::{Totals, UNKNOWN_STATE, state_of};
use super::value::{Job, in_range};
use crate::error::{Error, Result};
use crate::ingest::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit, reason, shorten};

mod field;

/// Bytes read at a time: whole lines of it fit in a core's own cache along with the counts.
const BLOCK: usize = 1 << 20;
/// The longest line that is still a row.
const LONGEST_LINE: usize = 16 << 20;
/// Quarantined rows shown for each reason.
const SHOWN: usize = 5;

/// Counts all jobs of a file.
pub(super) fn read(source: &SourceFile, pool: &ThreadPool) -> Result<(Totals, Ledger)> {
    let mut feed = Feed::new(source.open(&())?);
    let header = feed.header(source.name())?;
    let feed = Mutex::new(feed);
    let parts: Vec<Parser> = pool.broadcast(|_| {
        let mut parser = Parser::new(&header);
        let mut buffer = Vec::new();
        loop {
            // If a thread panicked, the pool passes that on and what is counted here is never used.
            let block = feed.lock().unwrap_or_else(PoisonError::into_inner).next(&mut buffer);
            let Some(block) = block else { return parser };
            parser.block(&block, &buffer);
        }
    });
    let feed = feed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut totals = Totals::new();
    let mut lines = Vec::new();
    let mut rejects = Vec::new();
    for part in parts {
        totals.merge(part.totals);
        lines.extend(part.lines);
        rejects.extend(part.rejects);
    }
    lines.sort_unstable();
    let first_lines = first_lines(&lines, feed.header_lines);
    let mut ledger = Ledger::default();
    ledger.keep_many(totals.jobs);
    quarantine(&mut ledger, rejects, &first_lines, source.name());
    if let Some(what) = feed.damage {
        let after = feed.header_lines + lines.iter().map(|(_, lines)| lines).sum::<u64>();
        ledger.damaged(source.name(), after, what);
    }
    Ok((totals, ledger))
}

/// Number of the line before each block, from the lines of each block.
fn first_lines(lines: &[(u64, u64)], header_lines: u64) -> Vec<u64> {
    lines
        .iter()
        .scan(header_lines, |before, (_, lines)| {
            let first = *before;
            *before += lines;
            Some(first)
        })
        .collect()
}

fn quarantine(ledger: &mut Ledger, mut rejects: Vec<Reject>, first_lines: &[u64], file: &str) {
    rejects.sort_by_key(|reject| reject.reason.id);
    for group in rejects.chunk_by(|a, b| a.reason == b.reason) {
        let Some(first) = group.first() else { continue };
        let mut examples: Vec<&Example> = group.iter().flat_map(|reject| &reject.examples).collect();
        examples.sort_by_key(|example| (example.block, example.line));
        examples.truncate(SHOWN);
        for example in &examples {
            let before = first_lines.get(example.block as usize).copied().unwrap_or(0);
            let row = RowAudit::new(file, before + example.line);
            ledger.quarantine(&row, first.reason, example.column, &example.text);
        }
        let more = group.iter().map(|reject| reject.count).sum::<u64>() - examples.len() as u64;
        ledger.read += more;
        ledger.quarantined += more;
        if let Some(entry) = ledger.entries.iter_mut().find(|entry| entry.reason == first.reason.id) {
            entry.count += more;
        }
    }
    ledger.sort();
}

/// Content of the header.
struct Header {
    separator: u8,
    /// Place in [`COLUMNS`] of each column of the file.
    targets: Vec<Option<usize>>,
}

/// A run of whole lines.
struct Block {
    /// Blocks before it.
    number: u64,
    /// Bytes of the buffer it fills.
    bytes: usize,
    /// Whether the block is one line too long to be a row, cut.
    too_long: bool,
}

/// The file as a sequence of blocks.
struct Feed<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    /// Bytes read after the last line end handed out.
    carry: Vec<u8>,
    blocks: u64,
    header_lines: u64,
    ended: bool,
    damage: Option<String>,
}

impl<'a> Feed<'a> {
    fn new(reader: Box<dyn BufRead + Send + 'a>) -> Self {
        Self { reader, carry: Vec::new(), blocks: 0, header_lines: 0, ended: false, damage: None }
    }

    /// Reads the header: the first line that is neither empty nor a `#` comment.
    fn header(&mut self, file: &str) -> Result<Header> {
        loop {
            let mut line = Vec::new();
            let limit = LONGEST_LINE as u64;
            let outcome = self.reader.by_ref().take(limit).read_until(b'\n', &mut line);
            if let Err(e) = outcome {
                return Err(Error::io("read", file, e));
            }
            if line.is_empty() {
                return Err(Error::Empty {
                    source_name: file.to_owned(),
                    what: "the file is empty or holds no header".to_owned(),
                    remedy: "export it again, with its header line".to_owned(),
                });
            }
            self.header_lines += 1;
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
            let line = String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_ascii_lowercase();
            if !line.trim().is_empty() && !line.starts_with('#') {
                return header(&line, file, self.header_lines);
            }
        }
    }

    /// Fills `buffer` with the next whole lines; `None` at the end of the file.
    fn next(&mut self, buffer: &mut Vec<u8>) -> Option<Block> {
        let mut filled = self.carry.len();
        let mut room = BLOCK.max(filled + BLOCK / 2);
        if buffer.len() < room {
            buffer.resize(room, 0);
        }
        buffer.get_mut(..filled)?.copy_from_slice(&self.carry);
        self.carry.clear();
        loop {
            filled += self.fill(buffer.get_mut(filled..room)?);
            if self.ended {
                if self.damage.is_some() {
                    // The line it broke off in is not a row.
                    filled = memrchr(b'\n', buffer.get(..filled)?).map_or(0, |at| at + 1);
                }
                return (filled > 0).then(|| self.block(filled, false));
            }
            if let Some(at) = buffer.get(..filled).and_then(|bytes| memrchr(b'\n', bytes)) {
                self.carry.extend_from_slice(buffer.get(at + 1..filled)?);
                return Some(self.block(at + 1, false));
            }
            if filled > LONGEST_LINE {
                self.skip_line();
                return Some(self.block(filled, true));
            }
            room = filled + BLOCK;
            buffer.resize(room, 0);
        }
    }

    fn block(&mut self, bytes: usize, too_long: bool) -> Block {
        self.blocks += 1;
        Block { number: self.blocks - 1, bytes, too_long }
    }

    /// Reads until `room` is full or the file ends.
    fn fill(&mut self, room: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.damage = Some(e.to_string());
                    self.ended = true;
                    break;
                }
            }
        }
        filled
    }

    /// Passes over the rest of a line.
    fn skip_line(&mut self) {
        let mut part = vec![0; 1 << 16];
        while !self.ended {
            let count = self.fill(&mut part);
            let part = part.get(..count).unwrap_or_default();
            if let Some(at) = memchr(b'\n', part) {
                self.carry.extend_from_slice(part.get(at + 1..).unwrap_or_default());
                return;
            }
        }
    }
}

fn header(line: &str, file: &str, number: u64) -> Result<Header> {
    let count = |separator: &u8| line.bytes().filter(|byte| byte == separator).count();
    // The last of equals wins, and a comma should.
    let separator = [b'|', b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let names: Vec<&str> = line.split(char::from(separator)).map(|name| name.trim().trim_matches('"')).collect();
    let ours = names.iter().any(|name| COLUMNS.contains(name));
    if !ours || line.contains('\0') {
        return Err(Error::UnknownFormat {
            file: file.to_owned(),
            found: format!("line {number} is no header of a jobs table: {}", shorten(line)),
            remedy: "name a trace folder or a jobs table; make one with `tracecast ingest`".to_owned(),
        });
    }
    if !names.contains(&"submit") {
        return Err(Error::Format {
            file: file.to_owned(),
            line: Some(number),
            column: Some("submit".to_owned()),
            found: format!("no such column among {}", shorten(&names.join(", "))),
            remedy: "name the columns as the jobs table does, or run `tracecast ingest` first".to_owned(),
        });
    }
    let twice = COLUMNS.iter().find(|column| names.iter().filter(|name| name == column).count() > 1);
    if let Some(column) = twice {
        return Err(Error::Format {
            file: file.to_owned(),
            line: Some(number),
            column: Some((*column).to_owned()),
            found: "two columns have this name".to_owned(),
            remedy: "export each column once".to_owned(),
        });
    }
    let targets = names.iter().map(|name| COLUMNS.iter().position(|column| column == name)).collect();
    Ok(Header { separator, targets })
}

/// A quarantined row.
struct Example {
    block: u64,
    /// 1-based line within the block.
    line: u64,
    column: &'static str,
    text: String,
}

/// Rows quarantined for one reason.
struct Reject {
    reason: Reason,
    count: u64,
    /// The first ones.
    examples: Vec<Example>,
}

/// One thread's counts.
struct Parser<'h> {
    header: &'h Header,
    totals: Totals,
    states: Lexicon<u8>,
    users: Lexicon<u32>,
    rejects: Vec<Reject>,
    /// Block and the lines in it.
    lines: Vec<(u64, u64)>,
    /// A quoted field without its quotes.
    unquoted: Vec<u8>,
}

impl<'h> Parser<'h> {
    fn new(header: &'h Header) -> Self {
        Self {
            header,
            totals: Totals::new(),
            states: Lexicon::new(UNKNOWN_STATE),
            users: Lexicon::new(0),
            rejects: Vec::new(),
            lines: Vec::new(),
            unquoted: Vec::new(),
        }
    }

    fn block(&mut self, block: &Block, buffer: &[u8]) {
        let bytes = buffer.get(..block.bytes).unwrap_or_default();
        if block.too_long {
            self.lines.push((block.number, 1));
            self.reject(&Bad { reason: reason::LINE_TOO_LONG, column: "" }, block.number, 1, bytes);
            return;
        }
        let quotes = memchr(b'"', bytes).is_some();
        let mut line_number = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            line_number += 1;
            let outcome = match self.line(rest, quotes) {
                Ok(used) => {
                    rest = rest.get(used..).unwrap_or_default();
                    continue;
                }
                Err(bad) => bad,
            };
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            self.reject(&outcome, block.number, line_number, rest.get(..end).unwrap_or_default());
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        self.lines.push((block.number, line_number));
    }

    /// Counts the job of the first line of `rest`; the bytes it took, with its line end.
    #[inline]
    fn line(&mut self, rest: &[u8], quotes: bool) -> std::result::Result<usize, Bad> {
        let separator = self.header.separator;
        let columns = self.header.targets.len();
        let mut job = Job { state: UNKNOWN_STATE, ..Job::default() };
        let mut at = 0;
        for (ix, target) in self.header.targets.iter().enumerate() {
            let from = rest.get(at..).unwrap_or_default();
            let mut unquoted = false;
            let length = if quotes && from.first() == Some(&b'"') {
                match field::quoted(from, separator, &mut self.unquoted) {
                    Some(length) => {
                        unquoted = true;
                        length
                    }
                    None => field::length(from, separator),
                }
            } else {
                field::length(from, separator)
            };
            at += length;
            let ended = rest.get(at) != Some(&separator);
            let mut text = from.get(..length).unwrap_or_default();
            if ended {
                text = text.strip_suffix(b"\r").unwrap_or(text);
                if ix == 0 && text.trim_ascii().is_empty() {
                    // A blank line is no row.
                    return Ok(at + 1);
                }
            }
            if ended != (ix + 1 == columns) {
                return Err(Bad { reason: reason::FIELD_COUNT, column: "" });
            }
            at += 1;
            let Some(target) = target else { continue };
            let text = if unquoted { self.unquoted.as_slice() } else { text };
            let bad = |reason| Bad { reason, column: COLUMNS.get(*target).copied().unwrap_or_default() };
            match target {
                0..=2 => {
                    let time = field::time(text).map_err(|_| bad(reason::NOT_A_TIME))?.and_then(in_range);
                    match target {
                        0 => job.submit = time,
                        1 => job.start = time,
                        _ => job.end = time,
                    }
                }
                3..=7 => {
                    let value = field::real(text).map_err(|_| bad(reason::NOT_A_NUMBER))?;
                    match target {
                        3 => job.run_s = value,
                        4 => job.reported_run_s = value,
                        5 => job.alloc_gpus = value,
                        6 => job.req_gpus = value,
                        _ => job.suspended_s = value,
                    }
                }
                8 => job.state = self.states.meaning(text, |word| state_of(&String::from_utf8_lossy(word))),
                _ => {
                    let totals = &mut self.totals;
                    job.user = self.users.meaning(text, |word| field::word(word).map_or(0, |name| totals.user(name)));
                }
            }
        }
        self.totals.add(&job);
        Ok(at)
    }

    #[cold]
    fn reject(&mut self, bad: &Bad, block: u64, line: u64, text: &[u8]) {
        let place = self.rejects.iter().position(|reject| reject.reason == bad.reason).unwrap_or_else(|| {
            self.rejects.push(Reject { reason: bad.reason, count: 0, examples: Vec::new() });
            self.rejects.len() - 1
        });
        if let Some(reject) = self.rejects.get_mut(place) {
            reject.count += 1;
            if reject.examples.len() < SHOWN {
                // The ledger shows 80 characters, which are at most 320 bytes.
                let text = String::from_utf8_lossy(text.get(..400).unwrap_or(text)).into_owned();
                reject.examples.push(Example { block, line, column: bad.column, text });
            }
        }
    }
}

/// Why a row cannot be used.
struct Bad {
    reason: Reason,
    column: &'static str,
}

/// Words as fields spell them, with what each stands for, worked out once.
struct Lexicon<T> {
    words: Words,
    meanings: Vec<T>,
}

impl<T: Copy> Lexicon<T> {
    fn new(unknown: T) -> Self {
        Self { words: Words::new(), meanings: vec![unknown] }
    }

    #[inline]
    fn meaning(&mut self, word: &[u8], look_up: impl FnOnce(&[u8]) -> T) -> T {
        let number = self.words.number(word) as usize;
        match self.meanings.get(number) {
            Some(meaning) => *meaning,
            None => {
                // Numbers rise by one, so the new word is the next one.
                let meaning = look_up(word);
                self.meanings.push(meaning);
                meaning
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
