//! `sacct` text: `-P` or `-p`, with a header, or headerless in the column orders Open XDMoD's manual has recommended.
//!
//! Which field belongs to which column, whatever separates them and whatever users wrote, is told by `columns`. A line
//! break within a job name, a comment or a command line breaks a record: lines that begin no record belong to the one
//! before them. Times are the server's local times without a zone, unless `SLURM_TIME_FORMAT` made them epoch seconds or
//! gave them an offset. Not responsible for what records mean together: that is `assembly`. O(bytes); memory: one record.

use std::borrow::Cow;

use jiff::civil::Date;

use super::allocation::{Allocation, Step, energy_j, state, summary, util_ratio};
use super::assembly::Assembly;
use super::columns::Columns;
use super::duration::SlurmDuration;
use super::job_id::JobId;
use super::mem::Requested;
use super::submit_line::{is_gpus, names_gpus};
use super::tres::{self, Tres, TresUsage};
use crate::error::{Error, Result};
use crate::ingest::field::{self, Moment};
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile, TableHeaders};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::time::{TimeBasis, Zone, parse_local, seconds_to_ms};
use crate::trace::Trace;

/// Names of which a header must hold two, beside the job's identifier.
const TELLING: [&str; 12] = [
    "submit",
    "start",
    "end",
    "elapsed",
    "elapsedraw",
    "state",
    "alloctres",
    "reqtres",
    "nnodes",
    "ncpus",
    "partition",
    "exitcode",
];

/// A time written for people.
const RELATIVE_TIME: Reason = Reason {
    id: "relative_time",
    what: "the time is written relative to the day of the export (SLURM_TIME_FORMAT=relative); it is set to unknown",
    remedy: "export with SLURM_TIME_FORMAT=%s",
};
/// A record in several lines.
const LINE_BREAK: Reason = Reason {
    id: "line_break_in_text",
    what: "a line break in a job name, a comment or a command line broke the row; its lines are joined",
    remedy: "nothing is lost; check the text column of the example if something other than a row stands there",
};
/// A duration that is none.
const NOT_A_DURATION: Reason = Reason {
    id: "not_a_duration",
    what: "a duration was expected; the value is set to unknown",
    remedy: "check the column in the source",
};

/// Lines and bytes of the longest record.
const MOST_LINES: usize = 10_000;
const MOST_TEXT: usize = 4 << 20;
/// Ways to end a record that are tried.
const MOST_TRIES: usize = 16;

/// Reads `sacct` text.
#[derive(Debug)]
pub struct SacctText;

impl Reader for SacctText {
    fn id(&self) -> &'static str {
        "sacct"
    }

    fn describes(&self) -> &'static str {
        "Slurm accounting: sacct -P or -p text, with a header or in Open XDMoD's column order"
    }

    /// Others serve as well; these are what everybody exports.
    fn columns(&self) -> TableHeaders {
        &[('|', &["jobid", "submit", "start", "end", "state"])]
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let line = head.first_line();
        if Columns::of_headerless(line).is_some() {
            return Confidence::Sure;
        }
        let Some(columns) = Columns::of_header(line) else { return Confidence::No };
        let told = TELLING.iter().filter(|name| columns.at(name).is_some()).count();
        let is_sacct = columns.at("jobid").or_else(|| columns.at("jobidraw")).is_some() && told >= 2;
        // Tables of others are separated so, too.
        let usual = !matches!(columns.separator(), "," | ";" | "\t") || told >= 4;
        match (is_sacct, usual) {
            (true, true) => Confidence::Sure,
            (true, false) => Confidence::Maybe,
            (false, _) => Confidence::No,
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or("UTC")?;
        let mut assembly = Assembly::new(options.shards_per_gpu);
        let mut seen = SeenKeys::default();
        let mut local = false;
        for file in files {
            assembly.begin(file.name());
            let mut table = File { zone: &zone, columns: Columns::default(), local: false, words: &mut assembly };
            table.read(file, options, &mut seen, &mut trace.ledger)?;
            local |= table.local;
        }
        trace.basis = if local { TimeBasis::Local } else { TimeBasis::Utc };
        zone.name().clone_into(&mut trace.zone);
        if local && options.zone.is_none() {
            trace.note(
                "Times carry no zone and are read as UTC, which is right for an export made with TZ=UTC; otherwise name \
                 the cluster's zone with --timezone.",
            );
        }
        assembly.finish(trace);
        Ok(())
    }
}

/// One file being read.
struct File<'a> {
    zone: &'a Zone,
    columns: Columns,
    /// Whether some time had no zone.
    local: bool,
    words: &'a mut Assembly,
}

/// Lines that may be one record.
#[derive(Debug, Default)]
struct Chunk {
    /// Numbers of the lines in the file, and where each ends in `text`.
    lines: Vec<(u64, usize)>,
    text: String,
    not_utf8: bool,
}

impl Chunk {
    fn push(&mut self, number: u64, line: &str, not_utf8: bool) {
        if !self.lines.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.lines.push((number, self.text.len()));
        self.not_utf8 |= not_utf8;
    }

    fn clear(&mut self) {
        self.lines.clear();
        self.text.clear();
        self.not_utf8 = false;
    }

    /// Whether the text is longer than any record.
    fn is_full(&self) -> bool {
        self.lines.len() >= MOST_LINES || self.text.len() >= MOST_TEXT
    }
}

impl File<'_> {
    fn read(
        &mut self,
        file: &SourceFile,
        options: &ReadOptions<'_>,
        seen: &mut SeenKeys,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let mut lines = file.lines(options.observer)?;
        let mut begun = false;
        let mut header = String::new();
        let mut chunk = Chunk::default();
        while let Some((number, bytes)) = lines.next_line() {
            let text = String::from_utf8_lossy(bytes);
            if text.trim().is_empty() || (!begun && text.starts_with('#')) {
                continue;
            }
            if !begun {
                begun = true;
                if let Some(columns) = Columns::of_headerless(&text) {
                    self.columns = columns;
                } else {
                    self.columns = Columns::of_header(&text).unwrap_or_default();
                    self.check_header(file)?;
                    header = text.into_owned();
                    continue;
                }
            } else if text == header {
                // Exports put one after the other repeat their header.
                continue;
            }
            if bytes.len() > 16 * 1024 * 1024 {
                ledger.quarantine(&RowAudit::new(file.name(), number), reason::LINE_TOO_LONG, "", &text);
                continue;
            }
            if chunk.lines.is_empty() || chunk.is_full() || self.columns.begins_record(&text) {
                self.record(&chunk, file.name(), seen, ledger);
                chunk.clear();
            }
            chunk.push(number, &text, matches!(text, Cow::Owned(_)));
        }
        self.record(&chunk, file.name(), seen, ledger);
        lines.finish(ledger);
        if !begun {
            return Err(Error::Empty {
                source_name: file.name().to_owned(),
                what: "the file is empty or holds no header".to_owned(),
                remedy: "export it again, with its header line".to_owned(),
            });
        }
        Ok(())
    }

    /// Takes the record that a chunk is; what of it is none is quarantined line by line.
    fn record(&mut self, chunk: &Chunk, file: &str, seen: &mut SeenKeys, ledger: &mut Ledger) {
        let line = |ix: usize| {
            let from = ix.checked_sub(1).and_then(|before| chunk.lines.get(before)).map_or(0, |(_, end)| end + 1);
            chunk.lines.get(ix).and_then(|(number, end)| Some((*number, chunk.text.get(from..*end)?)))
        };
        // All lines, or as many of the first as make sense: what follows a record may be a word of the shell.
        let most = chunk.lines.len();
        let mut whole = None;
        for many in (1..=most).rev().take(MOST_TRIES).chain((most > MOST_TRIES).then_some(1)) {
            let Some(text) = chunk.lines.get(many - 1).and_then(|(_, end)| chunk.text.get(..*end)) else { break };
            if let Some(fields) = self.columns.fields(text) {
                whole = Some((many, text, fields));
                break;
            }
        }
        let used = whole.as_ref().map_or(0, |(many, ..)| *many);
        if let (Some((many, text, fields)), Some((number, _))) = (&whole, line(0)) {
            let mut audit = RowAudit::new(file, number);
            if chunk.not_utf8 {
                audit.repair(reason::NOT_UTF8, "", text);
            }
            if *many > 1 {
                audit.repair(LINE_BREAK, "", text.trim_start_matches(line(0).map_or("", |(_, first)| first)));
            }
            let fields: Vec<&str> = fields.iter().map(|field| &**field).collect();
            for (first, again) in self.columns.repeated() {
                if let (Some(first), Some(other), Some(name)) =
                    (fields.get(*first), fields.get(*again), self.columns.names().get(*first))
                    && first != other
                {
                    audit.repair(reason::DUPLICATE_COLUMN, name, &format!("{first} and {other}"));
                }
            }
            self.row(&fields, text, audit, seen, ledger);
        }
        for (number, text) in (used..most).filter_map(line) {
            ledger.quarantine(&RowAudit::new(file, number), reason::FIELD_COUNT, "", text);
        }
    }

    fn check_header(&self, file: &SourceFile) -> Result<()> {
        let known = self.columns.at("jobid").or_else(|| self.columns.at("jobidraw")).is_some();
        if known && (self.columns.at("submit").is_some() || self.columns.at("start").is_some()) {
            return Ok(());
        }
        Err(Error::Format {
            file: file.name().to_owned(),
            line: Some(1),
            column: Some(if known { "Submit" } else { "JobID" }.to_owned()),
            found: format!("no such column among {}", self.columns.names().join(", ")),
            remedy: "export with sacct -P and at least JobID, Submit, Start, End and State".to_owned(),
        })
    }

    fn row(&mut self, fields: &[&str], raw: &str, audit: RowAudit<'_>, seen: &mut SeenKeys, ledger: &mut Ledger) {
        let columns = &self.columns;
        let text = |name: &str| field::text(columns.at(name).and_then(|ix| fields.get(ix)).copied());
        let Some(id) = text("jobid").or_else(|| text("jobidraw")) else {
            ledger.quarantine(&audit, reason::NO_KEY, "JobID", raw);
            return;
        };
        let Some(id) = JobId::parse(id) else {
            ledger.quarantine(&audit, reason::MALFORMED, "JobID", raw);
            return;
        };
        let same = ["cluster", "submit", "start", "end", "state", "dbindex"].map(|name| text(name).unwrap_or_default());
        let step = id.step.as_deref().unwrap_or_default();
        if !seen.is_new(&format!("{}.{step}|{}", id.allocation(), same.join("|"))) {
            ledger.quarantine(&audit, reason::DUPLICATE, "", raw);
            return;
        }
        let mut row = Row { columns, fields, audit, zone: self.zone, local: &mut self.local };
        let cluster = self.words.word(row.text("cluster"));
        if id.step.is_some() {
            let step = row.step();
            self.words.step(cluster, &id, step);
        } else {
            let (mut allocation, gpu_type) = row.allocation(self.words);
            allocation.cluster = cluster;
            for (slot, name) in [
                (&mut allocation.user, "user"),
                (&mut allocation.account, "account"),
                (&mut allocation.partition, "partition"),
                (&mut allocation.qos, "qos"),
                (&mut allocation.reported_state, "state"),
                (&mut allocation.pending_reason, "reason"),
            ] {
                *slot = self.words.word(row.text(name));
            }
            // A job may well be called `none` or `-`, so only an empty name is unknown.
            let name = row.field("jobname").map(str::trim).filter(|name| !name.is_empty());
            allocation.name = self.words.word(name);
            allocation.nodes_hostlist = self.words.word(row.text("nodelist"));
            allocation.gpu_type = self.words.word(gpu_type.as_deref());
            self.words.allocation(id, allocation, &mut row.audit);
        }
        ledger.keep(row.audit);
    }
}

/// One line, its fields by name.
struct Row<'a> {
    columns: &'a Columns,
    fields: &'a [&'a str],
    audit: RowAudit<'a>,
    zone: &'a Zone,
    local: &'a mut bool,
}

impl<'a> Row<'a> {
    fn field(&self, name: &str) -> Option<&'a str> {
        self.columns.at(name).and_then(|ix| self.fields.get(ix)).copied()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        field::text(self.field(name))
    }

    fn whole(&mut self, name: &str) -> Option<i64> {
        field::whole(self.field(name), name, &mut self.audit)
    }

    fn amount(&mut self, name: &str) -> Option<f64> {
        field::amount(self.field(name), name, &mut self.audit)
    }

    fn time(&mut self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            // Epoch seconds; 0 is "not yet".
            let seconds: f64 = text.parse().ok()?;
            if seconds == 0.0 {
                return None;
            }
            let ms = seconds_to_ms(seconds);
            if ms.is_none() {
                self.audit.repair(reason::NOT_A_TIME, name, text);
            }
            return ms;
        }
        let date = text.get(..10).and_then(|date| date.parse::<Date>().ok());
        if date.is_none() && !text.starts_with(|c: char| c.is_ascii_digit() && text.len() >= 10) {
            self.audit.repair(RELATIVE_TIME, name, text);
            return None;
        }
        *self.local |= parse_local(text).is_some();
        Moment::Local(self.zone).read(Some(text), name, &mut self.audit)
    }

    fn duration(&mut self, name: &str) -> Option<f64> {
        let text = self.text(name)?;
        match SlurmDuration::parse(text) {
            Some(duration) => duration.seconds(),
            None => {
                self.audit.repair(NOT_A_DURATION, name, text);
                None
            }
        }
    }

    /// The resources in a column, `None` if it is empty or absent.
    fn tres(&mut self, name: &str) -> Option<Tres> {
        let tres = Tres::parse(self.text(name)?);
        tres::note(&tres, name, &mut self.audit);
        Some(tres)
    }

    fn energy(&mut self, elapsed_s: Option<f64>, nodes: Option<i64>, given: Option<&Tres>) -> Option<f64> {
        let raw = match self.text("consumedenergyraw") {
            Some(_) => field::number(self.field("consumedenergyraw"), "consumedenergyraw", &mut self.audit),
            None => self.text("consumedenergy").and_then(scaled).or_else(|| given.and_then(|tres| tres.energy_j)),
        };
        energy_j(raw, elapsed_s, nodes, &mut self.audit)
    }

    fn elapsed(&mut self) -> Option<f64> {
        match self.text("elapsedraw") {
            Some(_) => self.amount("elapsedraw"),
            None => self.duration("elapsed"),
        }
    }

    fn step(&mut self) -> Step {
        let given = self.tres("alloctres");
        let elapsed_s = self.elapsed();
        let nodes = given.as_ref().and_then(|tres| tres.nodes);
        let energy_j = self.energy(elapsed_s, nodes, given.as_ref());
        let gpus = given.as_ref().and_then(Tres::gpus);
        let total = self.text("tresusageintot").map(TresUsage::parse).unwrap_or_default();
        // The average is over tasks, which says what a GPU did only where there is one GPU.
        let average = self.text("tresusageinave").map(TresUsage::parse).unwrap_or_default();
        let percent = total.gpu_util_percent.or(average.gpu_util_percent.filter(|_| gpus == Some(1.0)));
        let mem = total.gpu_mem_bytes.or(average.gpu_mem_bytes);
        Step { gpu_util_ratio: util_ratio(percent, mem, gpus), energy_j }
    }

    /// The record, and the GPU type asked for, else given.
    fn allocation(&mut self, records: &mut Assembly) -> (Allocation, Option<String>) {
        let (state, requeued) = self.text("state").map_or((None, false), |words| state(words, &mut self.audit));
        let submit = self.time("submit");
        let eligible = self.time("eligible");
        let start = self.time("start");
        let end = self.time("end");
        let elapsed_s = self.elapsed();
        let planned = if self.columns.at("planned").is_some() { "planned" } else { "reserved" };
        let planned_s = self.duration(planned);
        let time_limit_s = match self.text("timelimitraw").filter(|text| text.bytes().all(|b| b.is_ascii_digit())) {
            Some(_) => self.amount("timelimitraw").map(|minutes| minutes * 60.0),
            None => self.duration("timelimit"),
        };
        let request = self.tres("reqtres");
        let given = self.tres("alloctres");
        let (asked_has, given_has) = (request.is_some(), given.is_some());
        let (mut request, mut given) = (request.unwrap_or_default(), given.unwrap_or_default());
        records.settle_shards(&mut request, &mut given);
        let nodes = self.whole("nnodes").filter(|nodes| *nodes > 0);
        let cpus = self.amount("ncpus").or_else(|| self.amount("alloccpus"));
        // NNodes and NCPUS are what was given once a job started, and what it asks for until then.
        let started = start.is_some() && (self.columns.at("nodelist").is_none() || self.text("nodelist").is_some());
        let req_cpus = self.amount("reqcpus").or(request.cpus);
        let req_nodes = request.nodes.or_else(|| nodes.filter(|_| !started));
        let req_mem_bytes = match self.text("reqmem").map(|text| (text, Requested::parse(text))) {
            Some((text, None)) => {
                self.audit.repair(reason::NOT_A_NUMBER, "ReqMem", text);
                None
            }
            Some((_, Some(mem))) => mem.total_bytes(req_cpus, request.nodes.or(nodes)),
            None => None,
        };
        let energy_j = self.energy(elapsed_s, given.nodes.or(nodes), Some(&given));
        let gpu_type = request.gpu_type().or_else(|| given.gpu_type());
        let allocation = Allocation {
            state,
            requeued,
            submit,
            eligible,
            start,
            end,
            elapsed_s: elapsed_s.filter(|_| start.is_some()),
            suspended_s: self.duration("suspended").filter(|_| start.is_some()),
            planned_s,
            time_limit_s,
            exit_code: self.exit_code(),
            req_nodes,
            alloc_nodes: given.nodes.or_else(|| nodes.filter(|_| started)),
            req_cpus,
            alloc_cpus: given.cpus.or_else(|| cpus.filter(|_| started)),
            req_mem_bytes: req_mem_bytes.or(request.mem_bytes.filter(|bytes| *bytes > 0)),
            alloc_mem_bytes: given.mem_bytes,
            req_gpus: request.gpus(),
            alloc_gpus: given.gpus(),
            req_listed: asked_has && !request.hides_gpus(),
            alloc_listed: given_has && !given.hides_gpus(),
            energy_j,
            summary: summary(self.text("admincomment"), &mut self.audit),
            typed_gpus: self.text("submitline").is_some_and(names_gpus)
                || ["reqgres", "allocgres"]
                    .iter()
                    .any(|name| self.text(name).is_some_and(|list| list.split(',').any(is_gpus))),
            nodes_told: self.columns.at("nodelist").is_some(),
            ..Allocation::default()
        };
        (allocation, gpu_type)
    }

    /// `code:signal`: the code.
    fn exit_code(&mut self) -> Option<i64> {
        let text = self.text("exitcode")?;
        let code = text.split(':').next().unwrap_or(text);
        field::whole(Some(code), "exitcode", &mut self.audit)
    }
}

/// Joules with a decimal suffix (`1.44M`).
fn scaled(text: &str) -> Option<f64> {
    let (digits, scale) = match text.char_indices().last()? {
        (at, 'K') => (text.get(..at)?, 1e3),
        (at, 'M') => (text.get(..at)?, 1e6),
        (at, 'G') => (text.get(..at)?, 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|value| value * scale)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn energy_suffixes_are_decimal() {
        assert_eq!(scaled("1.44M"), Some(1.44e6));
        assert_eq!(scaled("512"), Some(512.0));
        assert_eq!(scaled("é"), None);
    }
}
