//! Files as readers see them: decompressed on the way, read line by line.
//!
//! A line ends at `\n`; a `\r` before it and a byte order mark at the start of the file are dropped, and where `\r` alone
//! ends the lines it is taken for `\n`. UTF-16 is read as UTF-8. A compressed file that ends early gives all its whole lines, then says where it
//! ended. Pipes are opened once ([`super::pipe`]). Memory: one line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::line_end::LineEnds;
use super::pipe::{Pipe, hexadecimal, is_pipe};
use super::progress::{Observer, Progress};
use super::utf16::Utf8;
use crate::error::{Error, Result};
use crate::quality::Ledger;

/// Size of the head that sniffing sees, bytes.
const HEAD_BYTES: usize = 64 * 1024;
/// The longest line that is still a row.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// A file's content, decompressed.
pub(super) type Content<'a> = Box<dyn BufRead + Send + 'a>;

/// First bytes of a file.
pub(super) struct Look {
    /// Head, for sniffing.
    pub(super) head: Head,
    /// The archive it is, if it is one: files within files, which no reader opens.
    pub(super) archive: Option<&'static str>,
    /// Why reading stopped before there was enough for sniffing.
    pub(super) damage: Option<io::Error>,
}

/// One file of a request.
#[derive(Debug, Clone)]
pub struct SourceFile {
    path: PathBuf,
    name: String,
    /// Set where the source can be read only once; all copies share it.
    pipe: Option<Arc<Pipe>>,
    passed: Option<Passed>,
}

/// Why something that a folder or pattern holds is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// A link to nothing, or to itself.
    DanglingLink,
    /// A FIFO, a socket or a device.
    NoFile,
    /// A folder of tables that `tracecast ingest` wrote.
    TraceFolder,
}

impl Passed {
    /// Words for the file, as they follow "is".
    pub fn what(self) -> &'static str {
        match self {
            Self::DanglingLink => "a link that leads nowhere",
            Self::NoFile => "a FIFO, a socket or a device; in a folder only files are read (name it by itself)",
            Self::TraceFolder => "a trace folder, which is not read together with other sources (name it by itself)",
        }
    }

    /// Whether data that should be there is missing.
    pub(super) fn is_damage(self) -> bool {
        !matches!(self, Self::TraceFolder)
    }
}

impl SourceFile {
    /// The file at `path`, called so in messages.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let pipe = is_pipe(&path).then(|| Arc::new(Pipe::new(&path)));
        Self { name: path.display().to_string(), path, pipe, passed: None }
    }

    /// Something at `path` that is not to be read.
    pub(super) fn passed_over(path: &Path, passed: Passed) -> Self {
        Self { name: path.display().to_string(), path: path.to_owned(), pipe: None, passed: Some(passed) }
    }

    /// Why it is not read, where that is so.
    pub fn passed(&self) -> Option<Passed> {
        self.passed
    }

    /// Whether the file can be read only once, from its beginning on.
    pub fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// The path as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// File name without its folder and without `.gz` or `.zst`, in lower case.
    pub fn stem(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        for suffix in [".gz", ".zst"] {
            if let Some(stem) = name.strip_suffix(suffix) {
                return stem.to_owned();
            }
        }
        name
    }

    /// Size on disk, or of all that came through a pipe, bytes.
    ///
    /// # Errors
    /// When the file cannot be looked up, or the pipe cannot be read to its end.
    pub fn size_bytes(&self) -> Result<u64> {
        if let Some(pipe) = &self.pipe {
            return Ok(pipe.digest().map_err(|e| Error::io("read", &self.path, e))?.0);
        }
        Ok(std::fs::metadata(&self.path).map_err(|e| Error::io("open", &self.path, e))?.len())
    }

    /// SHA-256 of the file as it lies on disk, or of all that came through a pipe, hexadecimal.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn sha256(&self) -> Result<String> {
        if let Some(pipe) = &self.pipe {
            return Ok(pipe.digest().map_err(|e| Error::io("read", &self.path, e))?.1);
        }
        let mut file = File::open(&self.path).map_err(|e| Error::io("open", &self.path, e))?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut buffer).map_err(|e| Error::io("read", &self.path, e))?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
            hash.update(part);
        }
        Ok(hexadecimal(&hash.finalize()))
    }

    /// The file's content, decompressed as its first bytes ask for. A pipe can be opened so once.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open<'a>(&self, observer: &'a dyn Observer) -> Result<Box<dyn BufRead + Send + 'a>> {
        Ok(self.unpack(observer)?.0)
    }

    /// The content, and, if that is compressed, the bytes taken from the file so far.
    pub(super) fn unpack<'a>(&self, observer: &'a dyn Observer) -> Result<(Content<'a>, Option<Arc<AtomicU64>>)> {
        let failed = |action| move |e| Error::io(action, &self.path, e);
        let mut total_bytes = 0;
        let inner: Box<dyn Read + Send> = match &self.pipe {
            Some(pipe) => Box::new(pipe.reader().map_err(failed("open"))?),
            None => {
                let file = File::open(&self.path).map_err(failed("open"))?;
                total_bytes = file.metadata().map_or(0, |meta| meta.len());
                Box::new(file)
            }
        };
        let done = Arc::new(AtomicU64::new(0));
        let name = self.name.clone();
        let counted = Counted { inner, name, done: Arc::clone(&done), reported: 0, total_bytes, observer };
        let buffered = BufReader::with_capacity(1 << 17, counted);
        let (reader, packed) = decompress(buffered).map_err(failed("read"))?;
        Ok((Box::new(LineEnds::new(Utf8::new(reader))), packed.then_some(done)))
    }

    /// Whether the file begins with `magic`, as it lies on disk.
    ///
    /// # Errors
    /// When the file cannot be opened or read.
    pub(crate) fn begins_with(&self, magic: &[u8]) -> Result<bool> {
        let failed = |e| Error::io("read", &self.path, e);
        if let Some(pipe) = &self.pipe {
            return Ok(pipe.head().map_err(failed)?.0.starts_with(magic));
        }
        let mut bytes = Vec::new();
        let file = File::open(&self.path).map_err(|e| Error::io("open", &self.path, e))?;
        file.take(magic.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes == magic)
    }

    /// The beginning of the file, for sniffing.
    ///
    /// # Errors
    /// When the file cannot be opened or its very first bytes cannot be read.
    pub fn head(&self) -> Result<Head> {
        let Look { head, damage, .. } = self.look()?;
        // What could be read before an error is still worth sniffing.
        match damage {
            Some(e) if head.text.is_empty() => Err(Error::io("read", &self.path, e)),
            _ => Ok(head),
        }
    }

    /// The beginning of the file, and what is wrong with it.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(super) fn look(&self) -> Result<Look> {
        let mut bytes = Vec::new();
        let limit = HEAD_BYTES as u64 + 1;
        let damage = match &self.pipe {
            None => self.open(&())?.take(limit).read_to_end(&mut bytes).err(),
            Some(pipe) => {
                let failed = |e| Error::io("read", &self.path, e);
                let (head, whole) = pipe.head().map_err(failed)?;
                let (reader, _) = decompress(io::Cursor::new(head)).map_err(failed)?;
                let damage = LineEnds::new(Utf8::new(reader)).take(limit).read_to_end(&mut bytes).err();
                // What was kept of a longer pipe ends somewhere within its compressed data.
                damage.filter(|_| whole || bytes.is_empty())
            }
        };
        let more = bytes.len() > HEAD_BYTES;
        let archive = archive(&bytes);
        bytes.truncate(HEAD_BYTES);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
        Ok(Look { head: Head { name: self.stem(), text, more }, archive, damage })
    }

    /// The content line by line.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn lines<'a>(&self, observer: &'a dyn Observer) -> Result<Lines<'a>> {
        Ok(Lines { reader: self.open(observer)?, name: self.name.clone(), number: 0, buffer: Vec::new(), damage: None })
    }
}

/// The kind of archive that begins so. POSIX tar has its mark at byte 257 of the first entry's header; a zip file
/// begins with an entry, or is empty.
fn archive(bytes: &[u8]) -> Option<&'static str> {
    if bytes.get(257..262) == Some(b"ustar") {
        return Some("a tar archive");
    }
    (bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")).then_some("a zip archive (or a spreadsheet)")
}

/// Kinds of tables with a header: a separator, and names of columns in lower case.
pub type TableHeaders = &'static [(char, &'static [&'static str])];

/// The beginning of a file, decompressed.
#[derive(Debug, Clone)]
pub struct Head {
    /// File name without its folder and without `.gz` or `.zst`, in lower case.
    pub name: String,
    /// Text of at most 64 KiB; bad bytes are replaced, a byte order mark is gone, line ends are `
    /// `.
    pub text: String,
    /// Whether the file is longer than `text`.
    pub more: bool,
}

impl Head {
    /// The first line that is neither empty nor a `#` comment.
    pub fn first_line(&self) -> &str {
        self.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("")
    }

    /// Whether the first line is a header that holds all of `names`, in any order and case, separated by `separator`.
    pub fn has_columns(&self, separator: char, names: &[&str]) -> bool {
        let header = self.columns(separator);
        names.iter().all(|name| header.iter().any(|have| have == name))
    }

    /// Whether the first line is a header of one of the given tables.
    pub(super) fn is_one_of(&self, tables: TableHeaders) -> bool {
        tables.iter().any(|(separator, names)| self.has_columns(*separator, names))
    }

    /// Names in the first line, if it is a header: in lower case, without quotes.
    pub fn columns(&self, separator: char) -> Vec<String> {
        let names = self.first_line().split(separator);
        names.map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect()
    }
}

/// A file's lines, one buffer for all.
pub struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    name: String,
    number: u64,
    buffer: Vec<u8>,
    damage: Option<String>,
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("name", &self.name).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Lines<'_> {
    /// The next line without its end, and its 1-based number; `None` at the end of the file or where it is damaged.
    /// A line longer than 16 MiB is cut there. O(line).
    pub fn next_line(&mut self) -> Option<(u64, &[u8])> {
        self.buffer.clear();
        if self.damage.is_some() {
            return None;
        }
        if let Err(e) = self.fill() {
            self.damage = Some(e.to_string());
            // The line that was being read is cut off: not a row.
            return None;
        }
        if self.buffer.is_empty() {
            return None;
        }
        self.number += 1;
        let mut line = self.buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        Some((self.number, line))
    }

    /// Reads one line into the buffer; what goes beyond the longest line is read and dropped.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if available.is_empty() {
                return Ok(());
            }
            let (used, done) = match memchr::memchr(b'\n', available) {
                Some(at) => (at + 1, true),
                None => (available.len(), false),
            };
            let room = (LONGEST_LINE + 1).saturating_sub(self.buffer.len());
            if let Some(part) = available.get(..used.min(room)) {
                self.buffer.extend_from_slice(part);
            }
            self.reader.consume(used);
            if done {
                return Ok(());
            }
        }
    }

    /// Whether the line just returned was cut at the longest line.
    pub fn was_cut(&self) -> bool {
        self.buffer.len() > LONGEST_LINE
    }

    /// Notes in the ledger that the file ended early, if it did. Call once after the last line.
    pub fn finish(self, ledger: &mut Ledger) {
        if let Some(what) = self.damage {
            ledger.damaged(&self.name, self.number, what);
        }
    }
}

/// Decompresses what begins as gzip or zstd does; says whether it did.
fn decompress<'a>(mut source: impl BufRead + Send + 'a) -> io::Result<(Content<'a>, bool)> {
    let magic = source.fill_buf()?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        Ok((Box::new(BufReader::with_capacity(1 << 17, MultiGzDecoder::new(source))), true))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::stream::read::Decoder::with_buffer(source)?;
        Ok((Box::new(BufReader::with_capacity(1 << 17, decoder)), true))
    } else {
        Ok((Box::new(source), false))
    }
}

/// Counts bytes as they are read, for progress.
struct Counted<'a> {
    inner: Box<dyn Read + Send>,
    name: String,
    done: Arc<AtomicU64>,
    reported: u64,
    total_bytes: u64,
    observer: &'a dyn Observer,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let done = self.done.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if done - self.reported >= 1 << 20 || count == 0 {
            self.reported = done;
            let total_bytes = if self.total_bytes == 0 { done } else { self.total_bytes };
            self.observer.progress(&Progress { file: &self.name, done_bytes: done, total_bytes });
        }
        Ok(count)
    }
}

/// SHA-256 of bytes, hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, SourceFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv.gz");
        std::fs::write(&path, bytes).unwrap();
        (dir, SourceFile::new(path))
    }

    fn all(source: &SourceFile) -> (Vec<String>, Ledger) {
        let mut ledger = Ledger::default();
        let mut lines = source.lines(&()).unwrap();
        let mut out = Vec::new();
        while let Some((_, line)) = lines.next_line() {
            out.push(String::from_utf8_lossy(line).into_owned());
        }
        lines.finish(&mut ledger);
        (out, ledger)
    }

    #[test]
    fn bom_and_crlf_are_dropped_and_the_last_line_needs_no_end() {
        let (_dir, source) = file(b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4");
        assert_eq!(all(&source).0, ["a,b", "1,2", "3,4"]);
        assert_eq!(source.stem(), "a.csv");
        assert_eq!(source.head().unwrap().first_line(), "a,b");
    }

    #[test]
    fn utf_16_is_read_like_any_text() {
        let bytes: Vec<u8> = "\u{feff}a,ü\r\n1,2\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (_dir, source) = file(&bytes);
        assert_eq!(all(&source).0, ["a,ü", "1,2"]);
        assert_eq!(source.head().unwrap().text, "a,ü\n1,2\n");
    }

    #[test]
    fn a_truncated_gzip_gives_its_whole_lines_and_says_so() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        for line in 0..50_000 {
            writeln!(encoder, "{line},x").unwrap();
        }
        let whole = encoder.finish().unwrap();
        let (_dir, source) = file(&whole[..whole.len() / 2]);
        let (lines, ledger) = all(&source);
        assert!(lines.len() > 1_000 && lines.len() < 50_000);
        assert_eq!(lines.last().unwrap(), &format!("{},x", lines.len() - 1));
        assert_eq!((ledger.damage.len(), ledger.damage[0].after_line), (1, lines.len() as u64));
    }

    #[test]
    fn zstd_is_recognised_by_its_bytes() {
        let (_dir, source) = file(&zstd::encode_all(&b"a\nb\n"[..], 3).unwrap());
        assert_eq!(all(&source).0, ["a", "b"]);
    }
}
