//! Sources that can be read only once: standard input, FIFOs and what a shell's `<(…)` names.
//!
//! Such a source is opened once. Its first bytes are kept, so that it can be looked at before it is read; a reader gets
//! them again, chained before the rest. The hash is that of all bytes, also of those that no reader asked for.
//! Memory: 256 KiB. A pipe may be of any length, but neither a device nor a line of a pipe that never ends is read for ever.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// Bytes kept of the beginning: more than the largest block of zstd, which can be decoded only whole.
const HEAD: usize = 256 * 1024;

/// Most bytes of a device, such as `/dev/zero`: what gives more hardly ends.
const MOST_OF_DEVICE: u64 = 256 << 20;

/// Longest line of a pipe, bytes; the text of one large JSON document is less.
const LONGEST_LINE: u64 = 1 << 30;

/// A source that can be read only once.
pub(super) struct Pipe {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first bytes, once it was opened.
    head: Option<Arc<[u8]>>,
    /// Data behind the head; absent where there is none, and while a reader has it.
    rest: Option<Rest>,
    /// Whether a reader has taken bytes beyond the head.
    taken: bool,
    /// Size and hash of all bytes, once known.
    digest: Option<(u64, String)>,
}

/// Data behind the head, with the hash of all bytes so far.
struct Rest {
    inner: Box<dyn Read + Send>,
    hash: Sha256,
    bytes: u64,
    /// Bytes since the last line end.
    line: u64,
    is_device: bool,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Whether `path` names standard input, or something that is neither file nor folder.
pub(super) fn is_pipe(path: &Path) -> bool {
    path == Path::new("-") || std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

impl Pipe {
    /// The source at `path`, not yet opened; `-` is standard input.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held leaves at worst a pipe that says it was read.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it, unless it is open, and reads its first bytes.
    fn begin(&self, state: &mut State) -> io::Result<Arc<[u8]>> {
        if let Some(head) = &state.head {
            return Ok(Arc::clone(head));
        }
        self.claim()?;
        let mut inner: Box<dyn Read + Send> =
            if self.path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(&self.path)?) };
        let mut head = Vec::new();
        inner.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let (bytes, hash) = (head.len() as u64, Sha256::new_with_prefix(&head));
        if head.len() < HEAD {
            state.digest = Some((bytes, hexadecimal(&hash.finalize())));
        } else {
            let is_device = self.path != Path::new("-") && is_device(&self.path);
            state.rest = Some(Rest { inner, hash, bytes, line: 0, is_device });
        }
        let head: Arc<[u8]> = head.into();
        state.head = Some(Arc::clone(&head));
        Ok(head)
    }

    /// Takes the FIFO for this source: opened once more, after its writer is gone, it would wait forever.
    fn claim(&self) -> io::Result<()> {
        static TAKEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let once = self.path == Path::new("-") || is_fifo(&self.path);
        if once && !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(self.path.clone()) {
            return Err(only_once());
        }
        Ok(())
    }

    /// The first bytes, and whether they are all.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub(super) fn head(&self) -> io::Result<(Arc<[u8]>, bool)> {
        let mut state = self.state();
        let head = self.begin(&mut state)?;
        let whole = head.len() < HEAD;
        Ok((head, whole))
    }

    /// All bytes from the first on.
    ///
    /// # Errors
    /// When it cannot be opened, or was read before.
    pub(super) fn reader(self: &Arc<Self>) -> io::Result<PipeReader> {
        let mut state = self.state();
        let head = self.begin(&mut state)?;
        if state.taken {
            return Err(only_once());
        }
        let rest = state.rest.take();
        state.taken = rest.is_some();
        Ok(PipeReader { pipe: Arc::clone(self), head, at: 0, rest })
    }

    /// Size in bytes and SHA-256 of all bytes; what no reader has asked for is read now.
    ///
    /// # Errors
    /// When it cannot be read to its end, or a reader still has it.
    pub(super) fn digest(&self) -> io::Result<(u64, String)> {
        let mut state = self.state();
        self.begin(&mut state)?;
        if let Some(digest) = &state.digest {
            return Ok(digest.clone());
        }
        let Some(mut rest) = state.rest.take() else {
            return Err(io::Error::other("the pipe is still being read"));
        };
        state.taken = true;
        let mut buffer = vec![0; 1 << 16];
        while rest.read(&mut buffer)? > 0 {}
        let digest = (rest.bytes, hexadecimal(&rest.hash.finalize()));
        state.digest = Some(digest.clone());
        Ok(digest)
    }
}

fn only_once() -> io::Error {
    io::Error::other("a pipe can be read only once; save it to a file and name that")
}

#[cfg(unix)]
fn is_fifo(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_fifo(_: &Path) -> bool {
    false
}

#[cfg(unix)]
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_char_device())
}

#[cfg(not(unix))]
fn is_device(_: &Path) -> bool {
    false
}

/// A digest as it is written.
pub(super) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(count) => {
                    let read = buffer.get(..count).unwrap_or_default();
                    self.hash.update(read);
                    self.bytes += count as u64;
                    self.line = match memchr::memrchr(b'\n', read) {
                        Some(at) => (count - at - 1) as u64,
                        None => self.line + count as u64,
                    };
                    return if self.is_endless() { Err(endless()) } else { Ok(count) };
                }
            }
        }
    }
}

impl Rest {
    fn is_endless(&self) -> bool {
        self.line > LONGEST_LINE || self.is_device && self.bytes > MOST_OF_DEVICE
    }
}

fn endless() -> io::Error {
    io::Error::other(
        "it seems to have no end: a device with more than 256 MiB, or a line of more than 1 GiB; save what was meant to a file and name that",
    )
}

/// Reads a pipe from its first byte; gives back what it did not read.
pub(super) struct PipeReader {
    pipe: Arc<Pipe>,
    head: Arc<[u8]>,
    at: usize,
    rest: Option<Rest>,
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut left = self.head.get(self.at..).unwrap_or_default();
        if left.is_empty() {
            return self.rest.as_mut().map_or(Ok(0), |rest| rest.read(buffer));
        }
        let count = left.read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.pipe.state().rest = Some(rest);
        }
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_given_up() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let pipe = Arc::new(Pipe::new(Path::new(device)));
            let mut reader = pipe.reader().unwrap();
            let told = io::copy(&mut reader, &mut io::sink()).unwrap_err().to_string();
            assert!(told.contains("no end"), "{device}: {told}");
            drop(reader);
            // Nor is what no reader asked for.
            assert!(pipe.digest().is_err(), "{device}");
        }
        let mut rest = Rest {
            inner: Box::new(io::repeat(b'x')),
            hash: Sha256::new(),
            bytes: 0,
            line: LONGEST_LINE,
            is_device: false,
        };
        assert!(rest.read(&mut [0; 9]).is_err());
        let lines = Box::new(io::Cursor::new(b"a\nb\n".repeat(9)));
        let mut rest =
            Rest { inner: lines, hash: Sha256::new(), bytes: MOST_OF_DEVICE, line: LONGEST_LINE, is_device: false };
        assert_eq!((rest.read(&mut [0; 4]).unwrap(), rest.line), (4, 0));
    }
}
