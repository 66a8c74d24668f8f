//! Line ends of old: a text whose lines end in `\r` alone is read as if they ended in `\n`.
//!
//! The first line end decides: `\n` or `\r\n`, and the text is passed on as it is; `\r` before anything else, and every
//! `\r` becomes `\n`. Memory: what comes before the first line end, at most 1 MiB, and one buffer.

use std::io::{self, BufRead, Read};

/// Number of bytes in which the first line end is looked for.
const LOOKED_AT: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Unknown so far.
    Open,
    /// Passed on as they are.
    Kept,
    /// Every `\r` is one.
    Carriage,
}

/// Passes on a text, with `\n` for `\r` where that alone ends its lines.
pub(super) struct LineEnds<R> {
    inner: R,
    ends: Ends,
    /// Bytes taken from `inner` and not yet passed on, from `at` on.
    held: Vec<u8>,
    at: usize,
    /// Error behind the held bytes.
    failure: Option<io::Error>,
}

impl<R: BufRead> LineEnds<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, ends: Ends::Open, held: Vec::new(), at: 0, failure: None }
    }

    /// Reads up to the first line end and decides.
    fn decide(&mut self) {
        let mut from = 0;
        self.ends = loop {
            let chunk = match self.inner.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.failure = Some(e);
                    break Ends::Kept;
                }
            };
            let count = chunk.len();
            if count == 0 {
                break Ends::Kept;
            }
            self.held.extend_from_slice(chunk);
            self.inner.consume(count);
            let left = self.held.get(from..).unwrap_or_default();
            match memchr::memchr2(b'\r', b'\n', left) {
                None if self.held.len() > LOOKED_AT => break Ends::Kept,
                None => from = self.held.len(),
                Some(at) => match (left.get(at), left.get(at + 1)) {
                    (Some(b'\r'), Some(b'\n')) => break Ends::Kept,
                    (Some(b'\r'), Some(_)) => break Ends::Carriage,
                    // Whether a line feed follows is in the next stretch.
                    (Some(b'\r'), None) => from += at,
                    _ => break Ends::Kept,
                },
            }
        };
        if self.ends == Ends::Carriage {
            replace(&mut self.held);
        }
    }
}

fn replace(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
}

impl<R: BufRead> BufRead for LineEnds<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.ends == Ends::Open {
            self.decide();
        }
        if self.at >= self.held.len() {
            self.held.clear();
            self.at = 0;
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.ends == Ends::Kept {
                return self.inner.fill_buf();
            }
            let chunk = self.inner.fill_buf()?;
            let count = chunk.len();
            self.held.extend_from_slice(chunk);
            self.inner.consume(count);
            replace(&mut self.held);
        }
        Ok(self.held.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.held.len() { self.at += count } else { self.inner.consume(count) }
    }
}

/// Reads from what a reader holds, as [`Read::read`] does.
pub(super) fn read_held(reader: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let count = reader.fill_buf()?.read(buffer)?;
    reader.consume(count);
    Ok(count)
}

impl<R: BufRead> Read for LineEnds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ends == Ends::Kept && self.at >= self.held.len() && self.failure.is_none() {
            return self.inner.read(buffer);
        }
        read_held(self, buffer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn read(text: &str, chunk: usize) -> String {
        let mut out = String::new();
        LineEnds::new(BufReader::with_capacity(chunk, text.as_bytes())).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn only_carriage_returns_that_stand_alone_from_the_first_on_become_line_feeds() {
        for chunk in [1, 2, 3, 64] {
            assert_eq!(read("a,b\r1,2\r3,4\r", chunk), "a,b\n1,2\n3,4\n", "{chunk} bytes at a time");
            assert_eq!(read("a,b\r\n1,2\r\n", chunk), "a,b\r\n1,2\r\n");
            assert_eq!(read("a,b\n1\r2\n", chunk), "a,b\n1\r2\n");
            assert_eq!(read("a,b", chunk), "a,b");
            assert_eq!(read("", chunk), "");
        }
    }
}
