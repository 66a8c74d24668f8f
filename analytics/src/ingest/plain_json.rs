//! JSON as the standard has it, from what tools write.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

/// JSON as the standard has it: bare `Infinity`, `-Infinity` and `NaN` become `null`, bytes that are not UTF-8 the
/// replacement character, and a byte order mark is dropped.
pub(super) struct Plain<R> {
    inner: R,
    out: VecDeque<u8>,
    /// A bare word outside strings, as far as it was read.
    held: Vec<u8>,
    /// Bytes of a character that the next read completes.
    cut: Vec<u8>,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl<R: BufRead> Plain<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            out: VecDeque::new(),
            held: Vec::new(),
            cut: Vec::new(),
            in_string: false,
            escaped: false,
            begun: false,
        }
    }

    /// Takes one byte of text outside or inside a string.
    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.out.push_back(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        // A bare word: letters, and the sign that `-Infinity` begins with.
        if byte.is_ascii_alphabetic() || byte == b'-' {
            self.held.push(byte);
            return;
        }
        self.release();
        self.in_string = byte == b'"';
        self.out.push_back(byte);
    }

    /// Passes on a held word, or `null` for one that is no JSON.
    fn release(&mut self) {
        let word: &[u8] = match self.held.as_slice() {
            b"Infinity" | b"-Infinity" | b"NaN" | b"-NaN" | b"inf" | b"-inf" | b"nan" | b"-nan" => b"null",
            word => word,
        };
        self.out.extend(word);
        self.held.clear();
    }

    /// Takes the next stretch of input; `false` at its end.
    fn fill(&mut self) -> io::Result<bool> {
        let chunk = self.inner.fill_buf()?;
        let (length, end) = (chunk.len(), chunk.is_empty());
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(chunk);
        self.inner.consume(length);
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            let (good, bad) = match std::str::from_utf8(left) {
                Ok(_) => (left, None),
                Err(e) => (left.get(..e.valid_up_to()).unwrap_or_default(), Some(e.error_len())),
            };
            left = left.get(good.len()..).unwrap_or_default();
            let text = if self.begun { good } else { good.strip_prefix(b"\xef\xbb\xbf").unwrap_or(good) };
            self.begun |= !good.is_empty();
            text.iter().for_each(|byte| self.take(*byte));
            match bad {
                None => {}
                Some(None) if !end => {
                    self.cut = left.to_vec();
                    break;
                }
                Some(length) => {
                    "\u{fffd}".bytes().for_each(|byte| self.take(byte));
                    left = left.get(length.unwrap_or(left.len())..).unwrap_or_default();
                }
            }
        }
        if end {
            self.release();
        }
        Ok(!end)
    }
}

impl<R: BufRead> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.out.is_empty() && self.fill()? {}
        self.out.read(buffer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn plain(bytes: &[u8], chunk: usize) -> String {
        let mut out = String::new();
        Plain::new(BufReader::with_capacity(chunk, bytes)).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn bare_infinity_is_null_and_text_is_left_alone() {
        let text = br#"{"a":Infinity,"b":-Infinity,"c":"NaN \" Infinity","d":NaN,"e":-1.5e-3,"f":true}"#;
        for chunk in [1, 3, 64] {
            assert_eq!(
                plain(text, chunk),
                r#"{"a":null,"b":null,"c":"NaN \" Infinity","d":null,"e":-1.5e-3,"f":true}"#,
                "{chunk} bytes at a time"
            );
        }
    }

    #[test]
    fn bad_bytes_are_replaced_and_characters_cut_by_a_read_are_not() {
        assert_eq!(plain("\u{feff}\"é\"".as_bytes(), 4), "\"é\"");
        assert_eq!(plain(b"\"a\xffb\"", 2), "\"a\u{fffd}b\"");
    }

    #[test]
    fn a_character_split_between_two_reads_survives_any_buffer() {
        let text = "{\"name\":\"größe → 語\"}";
        for chunk in 1..12 {
            assert_eq!(plain(text.as_bytes(), chunk), text);
        }
    }

    proptest! {
        #[test]
        fn json_without_bare_words_passes_unchanged(text in "[\\[\\]{}:,0-9. \"a-zé\\\\-]{0,60}", chunk in 1usize..9) {
            prop_assume!(!["inf", "nan"].iter().any(|word| text.contains(word)));
            prop_assert_eq!(plain(text.as_bytes(), chunk), text);
        }
    }
}
