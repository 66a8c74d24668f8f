//! Accounting logs of PBS Professional, OpenPBS and Torque: events of jobs, one a line.
//!
//! A log is a file a day in `$PBS_HOME/server_priv/accounting`, named `YYYYMMDD`. A line is `MM/DD/YYYY
//! HH:MM:SS;TYPE;ID;MESSAGE`, and the message of most types is a list of `key=value`, separated by blanks. Sources: PBS
//! Professional Administrator's Guide, "Accounting log contents", and `src/include/acct.h` of OpenPBS for the types; Torque
//! Administrator Guide, "Accounting records" and "Job exit status"; Open XDMoD, "GPU metrics", for where GPUs stand.
//!
//! * `Q` queued, `S` started, `T` restarted from a checkpoint, `E` ended, `D` deleted by request, `A` aborted by the server,
//!   `R` to be run again, `C` checkpointed and held, `M` moved to another server, `z` suspended, `r` resumed. Other types
//!   tell of reservations, licences, provisioning and changes, and make no job.
//! * `ctime`, `qtime`, `etime`, `start` and `end` are epoch seconds. The time of the line is the server's local time without
//!   a zone. It is needed only where the message has no such field (`D` and `A`; `Q` and `R` of Torque). Unless a zone is
//!   named, it is taken with the offset that `S` records show between the two.
//! * `123[4].server` is task 4 of the array `123[].server`, which has records of its own and is no job; `123-4` is how old
//!   Torque writes it.
//! * A job that is run again has an `S` for each run. `R` ends a run; so does the next `S`, at a time nobody recorded.
//! * A suspended job releases all its resources, unless the server attribute `restrict_res_to_release_on_suspend` names some:
//!   `z` then lists what was released in `resources_released`. Where that list is there and names no GPUs, the job keeps
//!   them, and the time counts as suspended. Else the suspension ends an attempt, and the next begins when it is resumed.
//! * GPUs asked for: `Resource_List.ngpus`, else `ngpus` or `gpus` in `select`, `nodes`, `neednodes` or `nodect`. GPUs given:
//!   `ngpus` in `exec_vnode`, or Torque's `exec_gpus`. `resources_used.ngpus` is not read, as sites report it to be 0.
//! * `Exit_status`: 0 is success; 1 to 255 the script's own; above 256 (PBS) a signal; below 0 the batch system's. PBS: -29
//!   and -28 are time limits, -27 and -26 memory. Torque: -11 and -12 are time limits, -10 memory.
//!
//! Worked number: `select=2:ncpus=8:ngpus=4`, `start=1000`, `R` at 1,060 s, `start=1100 end=1400 Exit_status=0`: 8 GPUs, two
//! attempts of 60 and 300 s. Events may come in any order. O(bytes + n log n).

mod event;
mod history;
mod resource;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use self::event::{Line, Part, Told, job_id};
use self::history::{Entry, Loose};
use super::job::{Assembly, Word};
use super::line::{each_record, mostly_records};
use crate::error::Result;
use crate::ingest::field::Moment;
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SeenKeys, SourceFile};
use crate::quality::{Reason, RowAudit, reason};
use crate::report::format::counted;
use crate::time::{HOUR_MS, MINUTE_MS, TimeBasis, Zone};
use crate::trace::Trace;

/// A line that is not shaped like a record.
const NOT_A_RECORD: Reason = Reason {
    id: "malformed_row",
    what: "the line is no accounting record: MM/DD/YYYY HH:MM:SS;TYPE;ID;MESSAGE",
    remedy: "fetch the log again; the last line of a log that is still written may be cut",
};
/// A start or an end without its time.
const CUT_RECORD: Reason = Reason {
    id: "cut_record",
    what: "the record of a start or an end does not say when that was, so it is cut",
    remedy: "fetch the log again; the last line of a log that is still written may be cut",
};
/// Reads PBS and Torque.
#[derive(Debug)]
pub(crate) struct Pbs;

impl Reader for Pbs {
    fn id(&self) -> &'static str {
        "pbs"
    }

    fn describes(&self) -> &'static str {
        "PBS Professional, OpenPBS and Torque accounting logs (server_priv/accounting)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let is_record = |line: &str| Line::parse(line).is_some();
        if mostly_records(head, is_record) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_or("UTC")?;
        let mut log = Log { zone: options.zone.clone(), ..Log::default() };
        for file in files {
            log.assembly.begin(file.name());
            each_record(file, options, trace, |text, audit, trace| log.record(text, audit, trace))?;
        }
        log.finish(zone.name(), trace);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Log {
    assembly: Assembly,
    /// The zone the user named.
    zone: Option<Zone>,
    seen: SeenKeys,
    by_id: HashMap<Box<str>, usize>,
    entries: Vec<Entry>,
    /// Offset of local time from UTC, by hour of local time.
    offsets: BTreeMap<i64, i64>,
    /// Records that are about no job.
    others: u64,
}

impl Log {
    fn record(&mut self, text: &str, mut row: RowAudit<'_>, trace: &mut Trace) {
        let Some(line) = Line::parse(text) else {
            trace.ledger.quarantine(&row, NOT_A_RECORD, "", text);
            return;
        };
        if !b"QSTEDARCMzr".contains(&line.kind) {
            self.others += 1;
            trace.ledger.keep(row);
            return;
        }
        let Some((number, part, server)) = job_id(line.id) else {
            if line.id.starts_with(|c: char| c.is_ascii_alphabetic()) {
                self.others += 1;
                trace.ledger.keep(row);
            } else {
                trace.ledger.quarantine(&row, reason::NO_KEY, "id", text);
            }
            return;
        };
        if part == Part::Several {
            // One word for many tasks, whose own records tell the same.
            self.others += 1;
            trace.ledger.keep(row);
            return;
        }
        // Two records of one kind and second differ in their message, as those of a queue that passes jobs on.
        let mut hash = DefaultHasher::new();
        line.message.hash(&mut hash);
        let same = format!("{};{};{};{:x}", line.time, char::from(line.kind), line.id, hash.finish());
        if !self.seen.is_new(&same) {
            trace.ledger.quarantine(&row, reason::DUPLICATE, "", text);
            return;
        }
        let mut told = Told::of(line.message, &mut self.assembly, &mut row);
        // An array as a whole ends without having run.
        let lacks = match line.kind {
            b'S' => told.run.start.is_none(),
            b'E' => told.run.end.is_none(),
            _ => false,
        };
        if lacks && part != Part::Array {
            trace.ledger.quarantine(&row, CUT_RECORD, if line.kind == b'S' { "start" } else { "end" }, text);
            return;
        }
        if line.kind == b'S' {
            self.learn_offset(&line, told.run.start);
        }
        let is_loose = match line.kind {
            b'S' | b'E' => false,
            b'Q' => told.job.submit.is_none(),
            b'R' | b'C' => told.run.start.is_none() || told.run.end.is_none(),
            b'T' => told.run.start.is_none(),
            _ => true,
        };
        let at = if is_loose { self.local_time(&line, &mut row) } else { None };
        if is_loose && at.is_none() {
            trace.ledger.quarantine(&row, reason::NOT_A_TIME, "time", text);
            return;
        }
        let mut job = std::mem::take(&mut told.job);
        if is_loose || line.kind == b'Q' || part == Part::Array || told.run.start.is_none() {
            job.end = told.run.end;
        } else {
            job.runs.push(std::mem::take(&mut told.run));
        }
        let place = self.assembly.check(&mut job, &mut row);
        trace.ledger.keep(row);
        let ix = self.entry(number, part, server);
        let Some(entry) = self.entries.get_mut(ix) else { return };
        if let Some(at) = at {
            entry.loose.push(Loose { kind: line.kind, at, place, keeps_gpus: told.keeps_gpus });
        }
        if !is_loose || line.kind == b'Q' {
            entry.take(line.kind, job, &told);
        }
    }

    /// The place of the records of a number.
    fn entry(&mut self, number: &str, part: Part<'_>, server: Option<&str>) -> usize {
        let array = format!("{number}[]");
        let (id, parent) = match part {
            Part::Task(task) => (format!("{number}[{task}]"), Some(array)),
            Part::Array | Part::Several => (array, None),
            Part::Whole => (number.to_owned(), None),
        };
        let key = format!("{id}.{}", server.unwrap_or_default());
        let next = self.entries.len();
        let ix = *self.by_id.entry(key.into()).or_insert(next);
        if ix == next {
            let cluster = self.assembly.word(server);
            self.entries.push(Entry { cluster, id, parent, is_array: part == Part::Array, ..Entry::default() });
        }
        ix
    }

    /// Local time of a line: UTC where a zone was named.
    fn local_time(&self, line: &Line<'_>, row: &mut RowAudit<'_>) -> Option<i64> {
        let utc = Zone::utc();
        Moment::Local(self.zone.as_ref().unwrap_or(&utc)).read(Some(&line.local()), "time", row)
    }

    /// Learns how far local time is from UTC: a start is recorded in the second it happens.
    fn learn_offset(&mut self, line: &Line<'_>, start: Option<i64>) {
        let local = Moment::Local(&Zone::utc()).read(Some(&line.local()), "time", &mut RowAudit::new("", 0));
        let (Some(local), Some(start)) = (local, start) else { return };
        let quarter = 15 * MINUTE_MS;
        let offset = (local - start + quarter / 2).div_euclid(quarter) * quarter;
        if offset.abs() <= 15 * HOUR_MS {
            // A record is written at the start or later, so the least is right.
            let known = self.offsets.entry(local.div_euclid(HOUR_MS)).or_insert(offset);
            *known = (*known).min(offset);
        }
    }

    fn finish(mut self, zone: &str, trace: &mut Trace) {
        if self.others > 0 {
            let records = counted(self.others, "record", "records");
            trace.note(format!("No job is made of {records} of reservations, licences, provisioning and changes."));
        }
        let loose = self.entries.iter().any(|entry| !entry.loose.is_empty());
        trace.basis =
            if loose && (self.zone.is_some() || self.offsets.is_empty()) { TimeBasis::Local } else { TimeBasis::Utc };
        zone.clone_into(&mut trace.zone);
        if loose && self.zone.is_none() {
            trace.note(if self.offsets.is_empty() {
                "Times of lines carry no zone and no start tells their offset, so they are read as UTC: name the cluster's \
                 zone with --timezone."
            } else {
                "Times of lines carry no zone; their offset is taken from the starts, which have both. Name the cluster's \
                 zone with --timezone for its hours and weekdays."
            });
        }
        let offsets = if self.zone.is_some() { BTreeMap::new() } else { std::mem::take(&mut self.offsets) };
        let utc = |at: i64| {
            let hour = at.div_euclid(HOUR_MS);
            let before = offsets.range(..=hour).next_back();
            at - before.or_else(|| offsets.range(hour..).next()).map_or(0, |(_, offset)| *offset)
        };
        let entries = std::mem::take(&mut self.entries);
        let begun: BTreeSet<(Word, String)> =
            entries.iter().filter_map(|entry| Some((entry.cluster.clone(), entry.parent.clone()?))).collect();
        let (mut waiting, mut in_part) = (0u64, 0u64);
        for mut entry in entries {
            if entry.is_array {
                if begun.contains(&(entry.cluster.clone(), entry.id.clone())) {
                    in_part += 1;
                    continue;
                }
                waiting += 1;
            }
            for loose in &mut entry.loose {
                loose.at = utc(loose.at);
            }
            entry.settle();
            for instance in std::mem::take(&mut entry.instances) {
                let mut job = instance.close(&mut self.assembly);
                (job.cluster, job.id, job.parent) = (entry.cluster.clone(), entry.id.clone(), entry.parent.clone());
                self.assembly.add(job);
            }
        }
        if waiting > 0 {
            let arrays = counted(waiting, "array", "arrays");
            trace.note(format!("No task of {arrays} has a record: one job stands for the array."));
        }
        if in_part > 0 {
            let arrays = counted(in_part, "array has", "arrays have");
            trace.note(format!("{arrays} tasks with records of their own: these are the jobs. Tasks that had not begun have none and are not counted."));
        }
        let remedy = "GPUs stand in Resource_List.ngpus, select, nodes or exec_vnode, if the server knows them.";
        self.assembly.finish(remedy, trace);
    }
}
