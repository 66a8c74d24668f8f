//! `nvidia-smi --query-gpu=… --format=csv[,noheader][,nounits] -l N` saved to files.
//!
//! The header names columns and units (`power.draw [W]`), the separator is a comma and a blank, times are the host's
//! local time without a zone, and values may carry their unit (`12 %`). A file without a header is read only if it has
//! the ten columns of [`DOCUMENTED`], in that order. Logs that are appended to hold the header again; rows under a header
//! with other columns cannot be told apart and are quarantined. The node comes from the file name. A file without a column
//! that names the GPU is of one GPU, called 0; if its rows come in bursts, it is of several that cannot be told apart, and
//! refused.
//!
//! Worked number: `1024 MiB` is 1,073,741,824 bytes. O(bytes).

use std::collections::BTreeSet;

use super::super::delimited::Delimited;
use super::super::field::{self, Moment};
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather, When};
use super::label::node_in_name;
use super::series::put_gpu;
use super::table::MetricTable;
use crate::error::{Error, Result};
use crate::quality::{Reason, RowAudit, reason};
use crate::time::{Zone, parse_local};
use crate::trace::Trace;

/// The columns of a file without a header: the query that the documentation names.
pub(crate) const DOCUMENTED: [&str; 10] = [
    "timestamp",
    "index",
    "uuid",
    "name",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "power.draw",
    "temperature.gpu",
];

/// The driver could not read the value.
const FAILED: Reason = Reason {
    id: "failed_reading",
    what: "nvidia-smi wrote an error in place of a value; it is set to unknown",
    remedy: "check the GPU and the rights of the user that runs nvidia-smi",
};
/// A row under a header that is not the file's first.
const OTHER_HEADER: Reason = Reason {
    id: "other_header",
    what: "a header with other columns stands further down in the file; it and the rows under it are not read",
    remedy: "split the file where the query changed",
};

/// See the module.
pub(crate) struct NvidiaSmi;

impl Reader for NvidiaSmi {
    fn id(&self) -> &'static str {
        "nvidia-smi"
    }

    fn describes(&self) -> &'static str {
        "nvidia-smi --query-gpu output as CSV, with or without header and units"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let names = bare_names(head.first_line());
        let has = |name: &str| names.iter().any(|have| have == name);
        let measured = ["utilization.gpu", "memory.used", "power.draw", "power.draw.instant", "power.draw.average"];
        let count = measured.iter().filter(|name| has(name)).count();
        if (has("timestamp") || has("index") || has("uuid")) && count > 0 || count > 1 {
            Confidence::Sure
        } else if is_documented_row(head.first_line()) {
            if head.first_line().contains("GPU-") { Confidence::Sure } else { Confidence::Maybe }
        } else {
            Confidence::No
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_beside(trace)?;
        let table = MetricTable::load(options)?;
        let mut gather = Gather::default();
        let mut untimed = Untimed::default();
        for file in files {
            read_file(file, &mut untimed, options, (&zone, &table), &mut gather, trace)?;
        }
        gather.finish(trace);
        trace.note(format!(
            "nvidia-smi writes the host's local time without its zone; times were read as {} time.",
            zone.name()
        ));
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// Positions of the columns.
struct Columns {
    time: Option<usize>,
    gpu: Vec<usize>,
    model: Option<usize>,
    values: Vec<(usize, String)>,
}

impl Columns {
    fn of(header: &[String], table: &MetricTable) -> Self {
        let names: Vec<String> = header.iter().map(|name| bare(name)).collect();
        let find = |name: &str| names.iter().position(|have| have == name);
        let first = |all: &[&str]| all.iter().find_map(|name| find(name));
        Self {
            time: find("timestamp"),
            gpu: ["index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"]
                .iter()
                .filter_map(|name| find(name))
                .collect(),
            model: first(&["name", "gpu_name"]),
            values: names.iter().cloned().enumerate().filter(|(_, name)| table.knows(name)).collect(),
        }
    }
}

/// Tells rows without a time apart: a GPU that comes again begins another round of the loop.
#[derive(Debug, Default)]
struct Untimed {
    round: u32,
    seen: BTreeSet<u32>,
}

impl Untimed {
    fn when(&mut self, device: u32) -> When {
        if !self.seen.insert(device) {
            self.round = self.round.saturating_add(1);
            self.seen = BTreeSet::from([device]);
        }
        When { ts: None, scrape: self.round }
    }
}

fn read_file(
    file: &SourceFile,
    untimed: &mut Untimed,
    options: &ReadOptions<'_>,
    (zone, metrics): (&Zone, &MetricTable),
    gather: &mut Gather,
    trace: &mut Trace,
) -> Result<()> {
    let head = file.head()?;
    let mut table = if is_documented_row(head.first_line()) {
        let header = DOCUMENTED.iter().map(|name| (*name).to_owned()).collect();
        Delimited::headerless(file, b',', header, options.observer)?
    } else {
        Delimited::open(file, b',', options.observer)?
    };
    let header = table.header().to_vec();
    let columns = Columns::of(&header, metrics);
    if columns.values.is_empty() {
        return Err(Error::format(
            file.name(),
            format!("no measured value among the columns {}", header.join(", ")),
            format!("query {}", DOCUMENTED.join(",")),
        ));
    }
    let node = node_in_name(file.path());
    if node.is_none() {
        trace.note(format!("{} is not named after its node, so its samples have none.", file.name()));
    }
    if columns.time.is_none() {
        trace.note(format!("{} has no timestamp column, so the time of its samples is unknown.", file.name()));
    }
    let mut only = columns.gpu.is_empty().then(OnlyGpu::default);
    let mut readable = true;
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let names = bare_names(raw);
        if is_header(&names) {
            let bare_header: Vec<String> = header.iter().map(|name| bare(name)).collect();
            readable = names == bare_header;
            if !readable {
                trace.ledger.quarantine(&record.audit, OTHER_HEADER, "", raw);
            }
            continue;
        }
        if !readable {
            trace.ledger.quarantine(&record.audit, OTHER_HEADER, "", raw);
            continue;
        }
        let named = columns.gpu.iter().find_map(|at| known(record.field(Some(*at)), "gpu", &mut record.audit));
        let Some(gpu) = named.or(only.as_ref().map(|_| "0")) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "index", raw);
            continue;
        };
        let gpu = gpu.to_owned();
        let ts = record.moment(columns.time, Moment::Local(zone), "timestamp");
        if let Some(only) = &mut only {
            only.row(ts, record.text(columns.model));
        }
        let device = Device { node: node.clone(), name: gpu };
        let id = gather.device(device.clone());
        let when = ts.map_or_else(|| untimed.when(id), When::at);
        if let Some(model) = record.text(columns.model) {
            gather.set_model(id, model);
        }
        let mut values = Vec::new();
        for (at, name) in &columns.values {
            values.push((name.as_str(), known(record.field(Some(*at)), name, &mut record.audit)));
        }
        if let Some(put) = put_gpu(metrics, gather, (when, &device), values.into_iter(), &mut record.audit) {
            put.account(record.audit, raw, &mut trace.ledger);
        }
    }
    table.finish(&mut trace.ledger);
    if let Some(only) = only {
        if only.is_several() {
            return Err(Error::format(
                file.name(),
                "no column names the GPU, and the rows come in bursts, as of several GPUs that cannot be told apart",
                format!("query index or uuid too, as in {}", DOCUMENTED.join(",")),
            ));
        }
        trace.note(format!("{} has no column that names the GPU, so it is taken as one GPU, called 0.", file.name()));
    }
    Ok(())
}

/// Signs, in a file that names no GPU, of how many GPUs it is of.
#[derive(Debug, Default)]
struct OnlyGpu {
    times: Vec<i64>,
    models: BTreeSet<String>,
}

impl OnlyGpu {
    fn row(&mut self, ts: Option<i64>, model: Option<&str>) {
        self.times.extend(ts);
        if let Some(model) = model.filter(|model| !self.models.contains(*model)) {
            self.models.insert(model.to_owned());
        }
    }

    /// Whether the rows are of several GPUs: of two models, or written in bursts. Of k GPUs, all but one in k of the steps
    /// from row to row are short. `nvidia-smi -l` waits a second and more between its rounds.
    fn is_several(&self) -> bool {
        let mut times = self.times.clone();
        times.sort_unstable();
        let mut steps: Vec<i64> = times.windows(2).filter_map(|pair| Some(pair.get(1)? - pair.first()?)).collect();
        steps.sort_unstable();
        let Some(round) = steps.get(steps.len() * 19 / 20) else { return self.models.len() > 1 };
        let short = steps.iter().filter(|step| **step <= round / 4).count();
        self.models.len() > 1
            || *round < BURST_MS
            // Of two GPUs one step in two is short; a few may be lost.
            || (*round >= ROUND_MS && short * 5 >= steps.len() * 2)
    }
}

/// The shortest round of `nvidia-smi -l`, milliseconds, with some play.
const ROUND_MS: i64 = 500;
/// The rows of one round follow each other within this, milliseconds.
const BURST_MS: i64 = 20;

/// A known text. `[N/A]` and `[Not Supported]` are unknown; errors of the driver are unknown and counted.
pub(super) fn known<'t>(text: Option<&'t str>, column: &str, row: &mut RowAudit<'_>) -> Option<&'t str> {
    let text = field::text(text)?;
    if text == "ERR!" {
        row.repair(FAILED, column, text);
        return None;
    }
    if text.starts_with('[') && text.ends_with(']') {
        if !text.eq_ignore_ascii_case("[not supported]") {
            row.repair(FAILED, column, text);
        }
        return None;
    }
    Some(text)
}

/// A column's name without its unit, lower case.
fn bare(name: &str) -> String {
    name.split('[').next().unwrap_or(name).trim().trim_matches('"').to_ascii_lowercase()
}

fn bare_names(line: &str) -> Vec<String> {
    line.split(',').map(bare).collect()
}

/// Whether a line's fields are column names: two or more that only nvidia-smi has, or the only two we need.
fn is_header(names: &[String]) -> bool {
    let known = |name: &&String| DOCUMENTED.contains(&name.as_str()) || name.starts_with("power.draw");
    names.iter().filter(known).count() >= 2
}

/// Whether a line looks like a row of the documented query.
fn is_documented_row(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let time = fields.first().and_then(|time| parse_local(time));
    let index = fields.get(1).is_some_and(|index| index.parse::<u32>().is_ok());
    fields.len() == DOCUMENTED.len() && time.is_some() && index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_and_without_units_and_every_null() {
        let mut row = RowAudit::new("f", 1);
        assert_eq!(known(Some(" 12 %"), "u", &mut row), Some("12 %"));
        let mut ledger = crate::quality::Ledger::default();
        for null in ["[N/A]", "N/A", "[Not Supported]", ""] {
            assert_eq!(known(Some(null), "p", &mut row), None, "{null}");
        }
        ledger.keep(row);
        assert_eq!(ledger.kept, 1, "nulls are not repairs");
        for error in ["[Insufficient Permissions]", "[Unknown Error]", "[GPU is lost]", "ERR!"] {
            let mut row = RowAudit::new("f", 1);
            assert_eq!(known(Some(error), "p", &mut row), None, "{error}");
            ledger.keep(row);
        }
        assert_eq!(ledger.count("failed_reading"), 4);
    }

    #[test]
    fn only_the_documented_order_needs_no_header() {
        let row = "2023/05/01 12:00:00.123, 0, GPU-1, NVIDIA A100, 12 %, 3 %, 10 MiB, 20 MiB, 99.1 W, 40";
        assert!(is_documented_row(row));
        assert!(!is_documented_row("2023/05/01 12:00:00.123, 0, 12 %"));
        assert!(!is_documented_row(
            "0, 2023/05/01 12:00:00.123, GPU-1, NVIDIA A100, 12 %, 3 %, 10 MiB, 20 MiB, 99 W, 40"
        ));
    }
}
