//! A text whose lines are no longer than any table's: what has none, such as a device or a file of zeros, is not gathered in memory as one line.
//!
//! O(bytes). Worked example: of a file of 17 MiB without a line end, the first 16 MiB are passed on, and then comes an error that says so.

use std::io::{self, Read};

/// Longest line that is passed on, bytes.
const LONGEST: u64 = 16 << 20;

/// Passes on a text up to a line that is too long.
#[derive(Debug)]
pub struct ShortLines<R> {
    inner: R,
    /// Bytes since the last line end.
    line: u64,
}

impl<R: Read> ShortLines<R> {
    /// The text that `inner` gives.
    pub fn new(inner: R) -> Self {
        Self { inner, line: 0 }
    }
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let text = buffer.get(..count).unwrap_or_default();
        self.line = match memchr::memrchr(b'\n', text) {
            Some(at) => (count - at - 1) as u64,
            None => self.line + count as u64,
        };
        if self.line > LONGEST {
            return Err(io::Error::other("a line of it has more than 16 MiB; name the table that was meant"));
        }
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_line_is_refused() {
        let read = |text: &[u8]| ShortLines::new(text).read_to_end(&mut Vec::new()).map_err(|error| error.to_string());
        let lines = b"a line\n".repeat(3 << 20);
        assert_eq!(read(&lines), Ok(lines.len()));
        assert_eq!(read(&vec![0; LONGEST as usize]), Ok(LONGEST as usize));
        assert!(read(&vec![0; LONGEST as usize + 1]).unwrap_err().contains("more than 16 MiB"));
        assert!(ShortLines::new(io::repeat(0)).read_to_end(&mut Vec::new()).is_err());
    }
}
