//! `nvidia-smi -q -x` saved to files: the log of `nvidia-smi -q` as XML, one document or several one after another (`-l`).
//!
//! A value stands at the path of its elements below `gpu`, as `fb_memory_usage/used`. What is said of the text
//! ([`nvidia_smi_q`](super::nvidia_smi_q)) holds here. O(bytes); one query is in memory at a time, and one text of at most
//! 1 MiB.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use quick_xml::Reader as XmlReader;
use quick_xml::events::Event;

use super::super::document;
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::nvidia_smi_q::{Log, Query, read_logs};
use crate::error::{Error, Result};
use crate::trace::Trace;

/// See the module.
pub(crate) struct NvidiaSmiXml;

const REMEDY: &str = "run `nvidia-smi -q -x` again";
/// The longest text or tag, bytes, beside what is read ahead.
const LONGEST: usize = 1 << 20;

impl Reader for NvidiaSmiXml {
    fn id(&self) -> &'static str {
        "nvidia-smi-xml"
    }

    fn describes(&self) -> &'static str {
        "nvidia-smi -q -x: XML, one or several queries a file"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let is_xml = head.text.trim_start().starts_with('<');
        if is_xml && head.text.contains("<nvidia_smi_log") { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        read_logs(files, options, trace, REMEDY, &mut read_file)
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// A reader that ends with an error where one event takes too much of it.
struct Limited<R> {
    inner: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.get().checked_sub(count) {
            Some(left) => self.left.set(left),
            None => return Err(io::Error::other("a text or tag of more than 1 MiB")),
        }
        Ok(count)
    }
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, log: &mut Log<'_>) -> Result<()> {
    let left = Rc::new(Cell::new(LONGEST));
    let limited = Limited { inner: document::open(file, options)?, left: Rc::clone(&left) };
    let mut xml = XmlReader::from_reader(BufReader::with_capacity(1 << 16, limited));
    let (mut buffer, mut path, mut text) = (Vec::new(), Vec::<String>::new(), String::new());
    let mut query = Query::default();
    loop {
        left.set(LONGEST);
        buffer.clear();
        let event = match xml.read_event_into(&mut buffer) {
            Ok(event) => event,
            Err(error) => {
                let whole = query.gpus.is_empty() && log.is_empty();
                if whole {
                    return Err(Error::format(file.name(), format!("not the XML of nvidia-smi: {error}"), REMEDY));
                }
                // The GPU that was being read is cut off: not a row.
                if path.iter().any(|name| name == "gpu") {
                    query.gpus.pop();
                }
                log.add(&query);
                log.trace.ledger.damaged(file.name(), 0, error.to_string());
                return Ok(());
            }
        };
        match event {
            Event::Start(tag) => {
                path.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned());
                text.clear();
                if path.len() == 2 && path.last().is_some_and(|name| name == "gpu") {
                    query.gpus.push(Vec::new());
                }
            }
            Event::Text(part) => text.push_str(&String::from_utf8_lossy(&part)),
            Event::End(_) => {
                let value = text.trim();
                match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    [_] => log.add(&std::mem::take(&mut query)),
                    [_, "timestamp"] => query.time = Some(value.to_owned()),
                    [_, "attached_gpus"] => query.attached = value.parse().ok(),
                    [_, "gpu", within @ ..] if !within.is_empty() && !value.is_empty() => {
                        if let Some(gpu) = query.gpus.last_mut() {
                            gpu.push((within.join("/"), value.to_owned()));
                        }
                    }
                    _ => {}
                }
                path.pop();
                text.clear();
            }
            Event::Eof => {
                if !path.is_empty() {
                    if path.iter().any(|name| name == "gpu") {
                        query.gpus.pop();
                    }
                    log.trace.ledger.damaged(file.name(), 0, "the document is cut".to_owned());
                }
                log.add(&query);
                return Ok(());
            }
            _ => {}
        }
    }
}
