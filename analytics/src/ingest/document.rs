//! Large JSON documents, read piece by piece and bounded.
//!
//! The elements of one list are handed over as they are parsed; what stands around them is given at the end. So memory
//! holds one element, not the document. A compressed document may expand to 16 MiB, and beyond that to
//! [`ReadOptions::most_expansion`] times the bytes it was read from, so that a small file cannot fill the memory.
//! One element, compressed or not, may have 128 MiB of text, as it takes many times that in memory.
//! Several documents may follow one another. What comes before damage is used, and the damage noted.
//!
//! Worked number: 328 KiB of gzip hold up to 338 MB; with a bound of 100 times, reading stops at 32 MiB. O(bytes).

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::options::ReadOptions;
use super::plain_json::Plain;
use super::source::{Content, SourceFile};
use crate::error::{Error, Result};
use crate::quality::Ledger;

/// Size that a compressed document may always expand to, bytes.
const ALWAYS: u64 = 16 << 20;

/// Most text of one element, bytes: `[0,0,…` takes sixteen times its text in memory.
const MOST_ELEMENT: u64 = 128 << 20;

/// A reader that refuses to expand its source beyond what is allowed, and an element that is too long.
pub(super) struct Bounded<R> {
    inner: R,
    /// Bytes taken from the compressed file; absent where nothing is compressed and nothing bounded.
    packed: Option<Arc<AtomicU64>>,
    most_expansion: u64,
    since: Since,
}

/// The content of a file as one large document, which a compressed file must not blow up to more than
/// [`ReadOptions::most_expansion`] allows.
///
/// # Errors
/// When the file cannot be opened.
pub(super) fn open<'a>(file: &SourceFile, options: &'a ReadOptions<'_>) -> Result<Bounded<Content<'a>>> {
    let (reader, packed) = file.unpack(options.observer)?;
    Ok(Bounded::new(reader, packed, options.most_expansion))
}

/// Start of the bound's count: the beginning, or the last [`Since::restart`].
#[derive(Clone, Default)]
pub(super) struct Since {
    packed: Option<Arc<AtomicU64>>,
    /// Bytes read and compressed bytes taken when counting began.
    from: Rc<Cell<(u64, u64)>>,
    read: Rc<Cell<u64>>,
    /// Bytes read when the last element ended.
    element: Rc<Cell<u64>>,
}

impl Since {
    /// Counts anew from here: what came before is no longer in memory.
    pub(super) fn restart(&self) {
        let taken = self.packed.as_ref().map_or(0, |packed| packed.load(Ordering::Relaxed));
        self.from.set((self.read.get(), taken));
        self.next_element();
    }

    /// An element is over.
    fn next_element(&self) {
        self.element.set(self.read.get());
    }
}

/// A document expands beyond what is allowed.
#[derive(Debug, thiserror::Error)]
#[error(
    "its content expands beyond {} MiB, the larger of 16 MiB and {most_expansion} times the {packed_bytes} compressed bytes it was read from",
    .limit_bytes >> 20
)]
pub(super) struct TooLarge {
    limit_bytes: u64,
    packed_bytes: u64,
    most_expansion: u64,
}

/// An element is longer than any that a document of this kind has.
#[derive(Debug, thiserror::Error)]
#[error("one element of it, or what stands around them, has more than {} MiB", MOST_ELEMENT >> 20)]
pub(super) struct TooLong;

impl<R: Read> Bounded<R> {
    pub(super) fn new(inner: R, packed: Option<Arc<AtomicU64>>, most_expansion: u64) -> Self {
        let since = Since { packed: packed.clone(), ..Since::default() };
        Self { inner, packed, most_expansion, since }
    }

    /// Start of the bound's count.
    pub(super) fn since(&self) -> Since {
        self.since.clone()
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = self.since.read.get() + count as u64;
        self.since.read.set(read);
        if read - self.since.element.get() > MOST_ELEMENT {
            return Err(io::Error::other(TooLong));
        }
        if let Some(packed) = &self.packed {
            let (from_read, from_taken) = self.since.from.get();
            let packed_bytes = packed.load(Ordering::Relaxed).saturating_sub(from_taken);
            let limit_bytes = ALWAYS.max(packed_bytes.saturating_mul(self.most_expansion));
            if read - from_read > limit_bytes {
                let most_expansion = self.most_expansion;
                return Err(io::Error::other(TooLarge { limit_bytes, packed_bytes, most_expansion }));
            }
        }
        Ok(count)
    }
}

/// Handles a parser's error in `file`, of which something was read (`any`) or nothing: damage is
/// noted in the ledger, else the error says what the document should be and what to do.
///
/// # Errors
/// When nothing was read, or the document expands beyond its bound.
pub(super) fn failure(
    file: &SourceFile,
    error: serde_json::Error,
    any: bool,
    should_be: &str,
    remedy: &str,
    ledger: &mut Ledger,
) -> Result<()> {
    let (line, found, is_io) = (error.line() as u64, error.to_string(), error.is_io());
    if is_io {
        let source = io::Error::from(error);
        if let Some(too_large) = source.get_ref().filter(|inner| inner.is::<TooLarge>()) {
            return Err(Error::format(
                file.name(),
                too_large.to_string(),
                "if it is to be trusted, allow more with --max-expansion, or unpack it and name the unpacked file",
            ));
        }
        if let Some(too_long) = source.get_ref().filter(|inner| inner.is::<TooLong>()) {
            return Err(Error::format(file.name(), too_long.to_string(), "export it again, in smaller pieces"));
        }
    }
    if any || is_io {
        ledger.damaged(file.name(), line, found);
        return Ok(());
    }
    Err(Error::Format {
        file: file.name().to_owned(),
        line: Some(line),
        column: None,
        found: format!("not {should_be}: {found}"),
        remedy: remedy.to_owned(),
    })
}

/// Document around its list.
#[derive(Debug)]
pub(super) struct Around {
    /// The document, with `true` in place of the list.
    pub(super) rest: Value,
}

/// Reads every document of `file`: hands the elements of the list at `path` (object keys; also of a list that stands at
/// the top) to `each`, and what stands around it to `done` once a document is over. Returns how many documents were
/// read to their end.
///
/// # Errors
/// When the file cannot be opened, is no JSON, or expands beyond its bound, and what `done` gives.
pub(super) fn read(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    path: &[&str],
    should_be: &str,
    remedy: &str,
    sink: &mut dyn Sink,
) -> Result<u64> {
    let bounded = open(file, options)?;
    let since = bounded.since();
    let reader = BufReader::with_capacity(1 << 16, Plain::new(BufReader::new(bounded)));
    let mut parser = serde_json::Deserializer::from_reader(reader);
    let (mut documents, mut elements) = (0, 0);
    loop {
        if parser.end().is_ok() {
            return Ok(documents);
        }
        let mut each = |value: Value| {
            elements += 1;
            since.next_element();
            sink.element(value);
        };
        match (Walk { path, each: &mut each }).deserialize(&mut parser) {
            Ok(rest) => sink.document(&Around { rest })?,
            Err(e) => {
                // Bytes that are no document say nothing of those before them.
                failure(file, e, documents > 0 || elements > 0, should_be, remedy, sink.ledger())?;
                return Ok(documents);
            }
        }
        documents += 1;
    }
}

/// Takes what [`read`] finds.
pub(super) trait Sink {
    /// Takes one element of the list.
    fn element(&mut self, value: Value);
    /// Takes what stands around the list, once the document is over. By default an object without a list is one element.
    ///
    /// # Errors
    /// When the document is not what it should be.
    fn document(&mut self, around: &Around) -> Result<()> {
        if around.rest.is_object() {
            self.element(around.rest.clone());
        }
        Ok(())
    }
    /// Ledger in which damage is noted.
    fn ledger(&mut self) -> &mut Ledger;
}

/// One value on the way to the list.
struct Walk<'w> {
    path: &'w [&'w str],
    each: &'w mut dyn FnMut(Value),
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match self.path.split_first() {
                Some((first, rest)) if *first == key => {
                    map.next_value_seed(Walk { path: rest, each: &mut *self.each })?
                }
                _ => map.next_value::<Value>()?,
            };
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        while let Some(element) = list.next_element::<Value>()? {
            (self.each)(element);
        }
        Ok(Value::Bool(true))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        // Only a list is `true` here.
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
