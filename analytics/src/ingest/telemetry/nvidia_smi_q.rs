//! `nvidia-smi -q` saved to files: text, a block for each GPU, sections by indentation; several queries one after another
//! (`-l`).
//!
//! A value stands at the path of its section, lower case with underscores: `Used` under `FB Memory Usage` is
//! `fb_memory_usage/used`. Which paths mean what, the table of metrics says. The time is the host's local time without a
//! zone (`Fri Nov 15 10:23:11 2024`). A GPU is called by its place among the attached ones, which is its index, or, where
//! the log has some of them only, by its UUID. Readings of MIG instances are passed over; a GPU that is cut into them has
//! no utilisation. O(bytes); one query is in memory at a time.

use jiff::civil::DateTime;

use super::super::field::{self, Moment};
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather};
use super::nvidia_smi::known;
use super::snapshot::Snapshots;
use super::table::MetricTable;
use crate::error::Result;
use crate::quality::RowAudit;
use crate::time::Zone;
use crate::trace::Trace;

/// See the module.
pub(crate) struct NvidiaSmiQ;

const REMEDY: &str = "run `nvidia-smi -q` again";

impl Reader for NvidiaSmiQ {
    fn id(&self) -> &'static str {
        "nvidia-smi-q"
    }

    fn describes(&self) -> &'static str {
        "nvidia-smi -q: text, one or several queries a file"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let first = head.first_line();
        let is_log = first.starts_with("====") && first.contains("NVSMI LOG");
        if is_log { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        read_logs(files, options, trace, REMEDY, &mut read_file)
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// One query: when, of how many GPUs, and what of each.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) time: Option<String>,
    pub(super) attached: Option<usize>,
    /// Paths and values of each GPU.
    pub(super) gpus: Vec<Vec<(String, String)>>,
}

/// Receiver of queries.
pub(super) struct Log<'a> {
    snapshots: Snapshots<'a>,
    zone: &'a Zone,
    scrape: &'a mut u32,
    table: &'a MetricTable,
    gather: &'a mut Gather,
    pub(super) trace: &'a mut Trace,
}

/// Reads a file's queries into a log.
type ReadFile<'r> = dyn FnMut(&SourceFile, &ReadOptions<'_>, &mut Log<'_>) -> Result<()> + 'r;

/// Reads files of queries, each by `read_file`.
pub(super) fn read_logs(
    files: &[SourceFile],
    options: &ReadOptions<'_>,
    trace: &mut Trace,
    remedy: &str,
    read_file: &mut ReadFile<'_>,
) -> Result<()> {
    let (zone, table) = (options.zone_beside(trace)?, MetricTable::load(options)?);
    let (mut gather, mut scrape) = (Gather::default(), 0);
    for file in files {
        let snapshots = Snapshots::new(file, &zone);
        let mut log =
            Log { snapshots, zone: &zone, scrape: &mut scrape, table: &table, gather: &mut gather, trace: &mut *trace };
        read_file(file, options, &mut log)?;
        let Log { snapshots, trace, .. } = log;
        snapshots.finish("GPUs", remedy, trace)?;
    }
    gather.finish(trace);
    trace.note(format!(
        "nvidia-smi writes the host's local time without its zone; times were read as {} time.",
        zone.name()
    ));
    Ok(())
}

impl Log<'_> {
    /// Whether no GPU of the file was added yet.
    pub(super) fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// Adds a query.
    pub(super) fn add(&mut self, query: &Query) {
        if query.gpus.is_empty() {
            return;
        }
        let mut first = self.snapshots.row();
        let time = query.time.as_deref().and_then(|time| moment(time, self.zone, &mut first));
        let when = self.snapshots.begin(time, self.scrape);
        let whole = query.attached.is_none_or(|attached| attached == query.gpus.len());
        let mut row = Some(first);
        for (ix, gpu) in query.gpus.iter().enumerate() {
            let mut row = row.take().unwrap_or_else(|| self.snapshots.row());
            let find = |paths: &[&str]| {
                let result = paths.iter().find_map(|path| gpu.iter().find(|(have, _)| have == path));
                field::text(result.map(|(_, value)| value.as_str()))
            };
            let uuid = find(&["gpu_uuid", "uuid"]).filter(|_| !whole);
            let name = uuid.map_or_else(|| ix.to_string(), str::to_owned);
            let device = Device { node: self.snapshots.node.clone(), name };
            let id = self.gather.device(device.clone());
            if let Some(model) = find(&["product_name"]) {
                self.gather.set_model(id, model);
            }
            let cut = find(&["mig_mode/current", "mig_mode/current_mig"]) == Some("Enabled");
            let values: Vec<(&str, Option<&str>)> = gpu
                .iter()
                .map(|(path, value)| {
                    let of_none = cut && path.starts_with("utilization/");
                    (path.as_str(), known(Some(value), path, &mut row).filter(|_| !of_none))
                })
                .collect();
            self.snapshots.gpu((when, &device), values.into_iter(), (self.table, self.gather, self.trace), row);
        }
        if !whole {
            self.trace.note("An nvidia-smi log has some of the attached GPUs only; they are called by their UUID.");
        }
    }
}

/// The moment that a query's time names, in `zone`.
fn moment(time: &str, zone: &Zone, row: &mut RowAudit<'_>) -> Option<i64> {
    let words: Vec<&str> = time.split_whitespace().collect();
    let local = DateTime::strptime("%a %b %d %H:%M:%S %Y", words.join(" "));
    let text = local.map_or_else(|_| time.to_owned(), |local| local.strftime("%Y-%m-%d %H:%M:%S").to_string());
    Moment::Local(zone).read(Some(&text), "timestamp", row)
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, log: &mut Log<'_>) -> Result<()> {
    let mut lines = file.lines(options.observer)?;
    let mut query = Query::default();
    // Sections around the line: their indentation and name.
    let mut sections: Vec<(usize, String)> = Vec::new();
    while let Some((_, bytes)) = lines.next_line() {
        let text = String::from_utf8_lossy(bytes);
        let line = text.trim();
        let indent = text.len() - text.trim_start().len();
        if line.is_empty() {
            continue;
        }
        if line.starts_with("====") {
            log.add(&std::mem::take(&mut query));
            continue;
        }
        if indent == 0 && line.starts_with("GPU ") {
            query.gpus.push(Vec::new());
            sections.clear();
            continue;
        }
        while sections.last().is_some_and(|(at, _)| *at >= indent) {
            sections.pop();
        }
        let Some((key, value)) = line.split_once(" :").map(|(key, value)| (key.trim(), value.trim())) else {
            sections.push((indent, plain(line)));
            continue;
        };
        match query.gpus.last_mut() {
            Some(gpu) => {
                let around = sections.iter().map(|(_, name)| name.as_str());
                let path: Vec<&str> = around.collect();
                let key = plain(key);
                gpu.push((if path.is_empty() { key } else { format!("{}/{key}", path.join("/")) }, value.to_owned()));
            }
            None if key == "Timestamp" => query.time = Some(value.to_owned()),
            None if key == "Attached GPUs" => query.attached = value.parse().ok(),
            None => {}
        }
    }
    log.add(&query);
    lines.finish(&mut log.trace.ledger);
    Ok(())
}

/// A key in lower case with underscores, as XML has it.
fn plain(key: &str) -> String {
    key.to_lowercase().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_ctime_in_the_zone() {
        let mut row = RowAudit::new("f", 1);
        let zone = Zone::named("Asia/Shanghai").unwrap_or_else(|_| Zone::utc());
        // 2023-08-04 11:44:30 in Shanghai is 03:44:30 UTC.
        assert_eq!(moment("Fri Aug  4 11:44:30 2023", &zone, &mut row), Some(1_691_120_670_000));
        assert!(row.is_clean());
        assert_eq!(moment("yesterday", &zone, &mut row), None);
        assert!(!row.is_clean());
    }
}
