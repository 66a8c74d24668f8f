//! The elements of a large JSON array of objects, one at a time, with a broken one costing only itself.
//!
//! A parser of the whole document would hold all of it and give up at the first error. This splits at the brackets of
//! the array's own level, outside strings, and hands over each object's text. It comes back into step in two ways:
//! a line end ends an open string (JSON strings hold none), and an object that begins where an object's key should
//! stand (`, {` inside `{`) begins a new element. O(bytes), memory of one element.

use std::io::{BufRead, ErrorKind};

use crate::error::Result;
use crate::ingest::progress::Observer;
use crate::ingest::source::SourceFile;
use crate::quality::Ledger;

/// The longest element that is still a job.
const LONGEST: usize = 16 * 1024 * 1024;

/// One element's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// 1-based place in the array.
    pub(super) number: u64,
    /// The text, bad bytes replaced.
    pub(super) text: String,
}

/// State of the splitter within the text.
#[derive(Debug, Default)]
struct Splitter {
    open: Vec<u8>,
    in_string: bool,
    escaped: bool,
    last: u8,
    buffer: Vec<u8>,
}

/// Effect of a byte.
enum Step {
    More,
    /// The element in the buffer is complete.
    Done,
    /// The element in the buffer never ended, and another begins with this byte.
    Broken,
}

impl Splitter {
    fn step(&mut self, byte: u8) -> Step {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' | b'\n' => self.in_string = false,
                _ => {}
            }
            if !self.in_string {
                // After a string that never closed, the next object may well be the next element.
                self.last = if byte == b'\n' { b',' } else { byte };
                self.escaped = false;
            }
            self.keep(byte);
            return Step::More;
        }
        match byte {
            b'{' if self.open.last() == Some(&b'{') && self.last == b',' => return Step::Broken,
            b'{' if self.open.is_empty() && !self.buffer.is_empty() => return Step::Broken,
            b'{' | b'[' if !self.open.is_empty() || byte == b'{' => self.open.push(byte),
            b'}' | b']' if !self.open.is_empty() => {
                self.open.pop();
                self.keep(byte);
                self.last = byte;
                return if self.open.is_empty() { Step::Done } else { Step::More };
            }
            b'"' => self.in_string = !self.open.is_empty(),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        // Between elements only brackets and commas may stand; anything else is kept, to be reported.
        if !self.open.is_empty() || !matches!(byte, b'[' | b']' | b'}' | b',' | b' ' | b'\t' | b'\r' | b'\n') {
            self.keep(byte);
        }
        Step::More
    }

    fn keep(&mut self, byte: u8) {
        if self.buffer.len() < LONGEST {
            self.buffer.push(byte);
        }
    }

    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.buffer).into_owned();
        self.buffer.clear();
        text
    }

    /// Starts anew with an object's opening brace.
    fn restart(&mut self) {
        self.open.clear();
        self.open.push(b'{');
        self.in_string = false;
        self.last = b'{';
        self.keep(b'{');
    }
}

/// Calls `each` with every element of the array in `file`. What is left over at the end (a cut-off element) is an
/// element too.
///
/// # Errors
/// When the file cannot be opened.
pub(super) fn for_each(
    file: &SourceFile,
    observer: &dyn Observer,
    ledger: &mut Ledger,
    mut each: impl FnMut(&Element, &mut Ledger),
) -> Result<()> {
    let mut reader = file.open(observer)?;
    let mut splitter = Splitter::default();
    let mut number = 0;
    let mut first = true;
    loop {
        let bytes = match reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => {
                // The element being read is cut off: not a row.
                ledger.damaged(file.name(), number, e.to_string());
                return Ok(());
            }
        };
        if bytes.is_empty() {
            break;
        }
        let used = bytes.len();
        let bytes = if first { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
        first = false;
        for byte in bytes {
            let step = splitter.step(*byte);
            if matches!(step, Step::More) {
                continue;
            }
            number += 1;
            let element = Element { number, text: splitter.take() };
            each(&element, ledger);
            if matches!(step, Step::Broken) {
                splitter.restart();
            }
        }
        reader.consume(used);
    }
    let rest = splitter.take();
    if !rest.trim().is_empty() {
        each(&Element { number: number + 1, text: rest }, ledger);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, text).unwrap();
        let mut out = Vec::new();
        let mut ledger = Ledger::default();
        for_each(&SourceFile::new(path), &(), &mut ledger, |element, _| out.push(element.text.clone())).unwrap();
        out
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert_eq!(split(br#"[{"a":"}]{\""}, {"b":[{"c":1}]}]"#), [r#"{"a":"}]{\""}"#, r#"{"b":[{"c":1}]}"#]);
        assert!(split(b" [ ] ").is_empty());
    }

    #[test]
    fn a_missing_brace_or_quote_costs_one_element() {
        // The first object is never closed: the second begins where a key should stand.
        assert_eq!(split(b"[{\"a\":1, {\"b\":2}]"), ["{\"a\":1, ", "{\"b\":2}"]);
        // The string is closed by the line end.
        assert_eq!(split(b"[{\"a\":\"x},\n{\"b\":2}]").last().unwrap(), "{\"b\":2}");
        // Text between elements is an element of its own.
        assert_eq!(split(b"[{\"a\":1}} oops, {\"b\":2}]"), ["{\"a\":1}", "oops", "{\"b\":2}"]);
        // A cut-off array gives what it has of its last element.
        assert_eq!(split(b"[{\"a\":1},{\"b\""), ["{\"a\":1}", "{\"b\""]);
    }

    proptest! {
        #[test]
        fn whole_objects_come_back_as_they_were(keys in proptest::collection::vec("[a-z\\[\\]{},]{0,6}", 0..8)) {
            let objects: Vec<String> = keys.iter().map(|key| serde_json::json!({ "k": [key, { "x": key }] }).to_string()).collect();
            let array = format!("[{}]", objects.join(",\n"));
            prop_assert_eq!(split(array.as_bytes()), objects);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            split(&bytes);
        }
    }
}
