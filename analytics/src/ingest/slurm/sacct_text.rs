//! `sacct` text: `-P` or `-p`, with a header, or headerless in the column order Open XDMoD's manual recommends.
//!
//! Column names are compared without case and without a width (`JobID%20`). `sacct` quotes nothing, so a bar in a job
//! name or comment makes a line longer than its header: the surplus goes to the free-text column that leaves the job's
//! identifier, state and times readable, the job name first. Times are the server's local times without a zone, unless
//! `SLURM_TIME_FORMAT` made them epoch seconds or gave them an offset. Not responsible for what records mean together:
//! that is `assembly`. O(bytes).

use jiff::civil::Date;

use super::assembly::{Allocation, Assembly, Step, energy_j, state, util_ratio};
use super::duration::SlurmDuration;
use super::job_id::JobId;
use super::mem::Requested;
use super::tres::{self, Tres, TresUsage};
use crate::error::{Error, Result};
use crate::ingest::field::{self, Moment};
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile, TableHeaders};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::time::{TimeBasis, Zone, parse_local, seconds_to_ms};
use crate::trace::Trace;

/// Columns of a headerless export, in Open XDMoD's order.
const HEADERLESS: [&str; 26] = [
    "jobid",
    "jobidraw",
    "cluster",
    "partition",
    "qos",
    "account",
    "group",
    "gid",
    "user",
    "uid",
    "submit",
    "eligible",
    "start",
    "end",
    "elapsed",
    "exitcode",
    "state",
    "nnodes",
    "ncpus",
    "reqcpus",
    "reqmem",
    "reqtres",
    "alloctres",
    "timelimit",
    "nodelist",
    "jobname",
];

/// Columns whose text is the user's, and may hold a bar. The first that makes sense of a long line takes the surplus.
const FREE_TEXT: [&str; 8] =
    ["jobname", "comment", "admincomment", "constraints", "submitline", "workdir", "systemcomment", "extra"];

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
/// A duration that is none.
const NOT_A_DURATION: Reason = Reason {
    id: "not_a_duration",
    what: "a duration was expected; the value is set to unknown",
    remedy: "check the column in the source",
};

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
        let header = names(line);
        let has = |name: &str| header.iter().any(|have| have == name);
        let told = TELLING.iter().filter(|name| has(name)).count();
        // A table in Markdown begins with a bar.
        if line.contains('|') && !line.starts_with('|') && ((has("jobid") || has("jobidraw")) && told >= 2)
            || headerless(line)
        {
            Confidence::Sure
        } else {
            Confidence::No
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

/// Column names of a header line: lower case, without widths; the bar that `-p` adds at the end is not a column.
fn names(line: &str) -> Vec<String> {
    let mut names: Vec<String> =
        line.split('|').map(|name| name.split('%').next().unwrap_or_default().trim().to_ascii_lowercase()).collect();
    if names.len() > 1 && names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    names
}

/// Whether a line is a row in Open XDMoD's column order.
fn headerless(line: &str) -> bool {
    let fields: Vec<&str> = line.split('|').collect();
    let time = |ix: usize| fields.get(ix).is_some_and(|text| looks_like_time(text));
    fields.len() >= HEADERLESS.len()
        && fields.first().is_some_and(|id| JobId::parse(id).is_some())
        && (10..=13).all(time)
}

/// Whether a text could stand in a time column.
fn looks_like_time(text: &str) -> bool {
    let text = text.trim();
    field::is_null(text)
        || (text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit()))
        || text.get(..19).is_some_and(|time| parse_local(time).is_some())
}

/// Positions of the columns we read, and how many a line must have.
#[derive(Debug, Default)]
struct Columns {
    names: Vec<String>,
    /// `-p`: each line ends in a bar that is no part of its last field.
    trailing: bool,
    free_text: Vec<usize>,
    times: Vec<usize>,
    /// Columns that repeat another's name: that one, and they.
    repeated: Vec<(usize, usize)>,
}

impl Columns {
    fn new(names: Vec<String>, trailing: bool) -> Self {
        let at = |name: &str| names.iter().position(|have| have == name);
        let free_text = FREE_TEXT.iter().filter_map(|name| at(name)).collect();
        let times = ["submit", "eligible", "start", "end"].iter().filter_map(|name| at(name)).collect();
        let repeated = (0..names.len())
            .filter_map(|again| {
                let first = at(names.get(again)?)?;
                (first < again).then_some((first, again))
            })
            .collect();
        Self { names, trailing, free_text, times, repeated }
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|have| have == name)
    }

    /// The fields of a line, one a column. A longer line gives its surplus to a free-text column.
    fn fields<'l>(&self, line: &'l str) -> Option<Vec<&'l str>> {
        let columns = self.names.len();
        let line = if self.trailing { line.strip_suffix('|').unwrap_or(line) } else { line };
        let parts: Vec<&str> = line.split('|').collect();
        let surplus = parts.len().checked_sub(columns)?;
        if surplus == 0 {
            return Some(parts);
        }
        self.free_text.iter().find_map(|column| {
            let fields = join(line, &parts, *column, surplus)?;
            self.plausible(&fields).then_some(fields)
        })
    }

    /// Whether identifier, state and times are readable.
    fn plausible(&self, fields: &[&str]) -> bool {
        let field = |ix: Option<usize>| ix.and_then(|ix| fields.get(ix)).copied();
        let id = field(self.at("jobid").or_else(|| self.at("jobidraw")));
        let word = field(self.at("state"));
        id.is_some_and(|id| JobId::parse(id).is_some())
            && word.is_none_or(|word| word.split(',').any(|word| crate::schema::JobState::parse(word).is_some()))
            && self.times.iter().all(|ix| field(Some(*ix)).is_some_and(looks_like_time))
    }
}

/// The parts of `line` with `surplus` + 1 of them from `column` on as one, bars included.
fn join<'l>(line: &'l str, parts: &[&'l str], column: usize, surplus: usize) -> Option<Vec<&'l str>> {
    let start: usize = parts.get(..column)?.iter().map(|part| part.len() + 1).sum();
    let joined = parts.get(column..=column + surplus)?;
    let length = joined.iter().map(|part| part.len() + 1).sum::<usize>() - 1;
    let mut fields = parts.get(..column)?.to_vec();
    fields.push(line.get(start..start + length)?);
    fields.extend_from_slice(parts.get(column + surplus + 1..)?);
    Some(fields)
}

/// One file being read.
struct File<'a> {
    zone: &'a Zone,
    columns: Columns,
    /// Whether some time had no zone.
    local: bool,
    words: &'a mut Assembly,
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
        while let Some((number, bytes)) = lines.next_line() {
            let text = String::from_utf8_lossy(bytes);
            if text.trim().is_empty() || (!begun && text.starts_with('#')) {
                continue;
            }
            if !begun {
                begun = true;
                if headerless(&text) {
                    // Only -p gives one field more, and that empty; a job name seldom ends in a bar.
                    let trailing = text.ends_with('|') && text.split('|').count() == HEADERLESS.len() + 1;
                    self.columns = Columns::new(HEADERLESS.map(str::to_owned).to_vec(), trailing);
                } else {
                    self.columns = Columns::new(names(&text), text.trim_end().ends_with('|'));
                    self.check_header(file)?;
                    header = text.into_owned();
                    continue;
                }
            } else if text == header {
                // Exports put one after the other repeat their header.
                continue;
            }
            let mut audit = RowAudit::new(file.name(), number);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                audit.repair(reason::NOT_UTF8, "", &text);
            }
            if bytes.len() > 16 * 1024 * 1024 {
                ledger.quarantine(&audit, reason::LINE_TOO_LONG, "", &text);
                continue;
            }
            let Some(fields) = self.columns.fields(&text) else {
                ledger.quarantine(&audit, reason::FIELD_COUNT, "", &text);
                continue;
            };
            for (first, again) in &self.columns.repeated {
                if let (Some(first), Some(other), Some(name)) =
                    (fields.get(*first), fields.get(*again), self.columns.names.get(*first))
                    && first != other
                {
                    audit.repair(reason::DUPLICATE_COLUMN, name, &format!("{first} and {other}"));
                }
            }
            self.row(&fields, &text, audit, seen, ledger);
        }
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

    fn check_header(&self, file: &SourceFile) -> Result<()> {
        let known = self.columns.at("jobid").or_else(|| self.columns.at("jobidraw")).is_some();
        if known && (self.columns.at("submit").is_some() || self.columns.at("start").is_some()) {
            return Ok(());
        }
        Err(Error::Format {
            file: file.name().to_owned(),
            line: Some(1),
            column: Some(if known { "Submit" } else { "JobID" }.to_owned()),
            found: format!("no such column among {}", self.columns.names.join(", ")),
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
        let asked = self.tres("reqtres");
        let given = self.tres("alloctres");
        let (asked_has, given_has) = (asked.is_some(), given.is_some());
        let (mut asked, mut given) = (asked.unwrap_or_default(), given.unwrap_or_default());
        records.settle_shards(&mut asked, &mut given);
        let nodes = self.whole("nnodes").filter(|nodes| *nodes > 0);
        let cpus = self.amount("ncpus").or_else(|| self.amount("alloccpus"));
        // NNodes and NCPUS are what was given once a job started, and what it asks for until then.
        let started = start.is_some() && (self.columns.at("nodelist").is_none() || self.text("nodelist").is_some());
        let req_cpus = self.amount("reqcpus").or(asked.cpus);
        let req_nodes = asked.nodes.or_else(|| nodes.filter(|_| !started));
        let req_mem_bytes = match self.text("reqmem").map(|text| (text, Requested::parse(text))) {
            Some((text, None)) => {
                self.audit.repair(reason::NOT_A_NUMBER, "ReqMem", text);
                None
            }
            Some((_, Some(mem))) => mem.total_bytes(req_cpus, asked.nodes.or(nodes)),
            None => None,
        };
        let energy_j = self.energy(elapsed_s, given.nodes.or(nodes), Some(&given));
        let gpu_type = asked.gpu_type().or_else(|| given.gpu_type());
        let allocation = Allocation {
            state,
            requeued,
            submit,
            eligible,
            start,
            end,
            elapsed_s: elapsed_s.filter(|_| start.is_some()),
            planned_s,
            time_limit_s,
            exit_code: self.exit_code(),
            req_nodes,
            alloc_nodes: given.nodes.or_else(|| nodes.filter(|_| started)),
            req_cpus,
            alloc_cpus: given.cpus.or_else(|| cpus.filter(|_| started)),
            req_mem_bytes: req_mem_bytes.or(asked.mem_bytes.filter(|bytes| *bytes > 0)),
            alloc_mem_bytes: given.mem_bytes,
            req_gpus: asked.gpus(),
            alloc_gpus: given.gpus(),
            req_listed: asked_has && !asked.hides_gpus(),
            alloc_listed: given_has && !given.hides_gpus(),
            energy_j,
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
    fn widths_case_and_the_last_bar_of_a_header_are_dropped() {
        assert_eq!(names("JobID%30|STATE|JobName%-20|"), ["jobid", "state", "jobname"]);
    }

    #[test]
    fn a_bar_in_a_name_is_given_back_to_the_name_wherever_it_stands() {
        let columns = Columns::new(names("JobID|JobName|State|Submit"), false);
        assert_eq!(
            columns.fields("1|a|b|c|COMPLETED|2024-01-01T00:00:00").unwrap(),
            ["1", "a|b|c", "COMPLETED", "2024-01-01T00:00:00"]
        );
        // Constraints hold bars too; the name cannot take this one, as the state would then be `r2]`.
        let columns = Columns::new(names("JobID|Constraints|State|JobName"), false);
        assert_eq!(columns.fields("1|[r1|r2]|FAILED|x").unwrap(), ["1", "[r1|r2]", "FAILED", "x"]);
        assert_eq!(columns.fields("1|x|BANANA|x|y|z"), None);
        assert_eq!(columns.fields("1|x"), None);
    }

    /// Found by the test against a real Slurm: the last bar of -p was counted among those of the name.
    #[test]
    fn the_last_bar_of_a_line_is_not_the_names() {
        let columns = Columns::new(names("JobName|JobID|State|"), true);
        assert_eq!(columns.fields("a|b|c|7|FAILED|").unwrap(), ["a|b|c", "7", "FAILED"]);
        assert_eq!(columns.fields("a|7|FAILED|").unwrap(), ["a", "7", "FAILED"]);
        let columns = Columns::new(names("JobID|State|JobName|"), true);
        assert_eq!(columns.fields("7|FAILED|a|b||").unwrap(), ["7", "FAILED", "a|b|"]);
    }

    #[test]
    fn energy_suffixes_are_decimal() {
        assert_eq!(scaled("1.44M"), Some(1.44e6));
        assert_eq!(scaled("512"), Some(512.0));
        assert_eq!(scaled("é"), None);
    }
}
