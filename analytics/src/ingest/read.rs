//! Reads a request (files, options) into a trace: the choice of readers, and the checks every job
//! row passes.

use std::collections::HashSet;
use std::path::Path;

use super::READERS;
use super::live::{LIVE, LIVE_REMEDY, is_live};
use super::misspelt::nearest;
use super::options::ReadOptions;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::{Error, Result, UNKNOWN_REMEDY};
use crate::quality::{RowAudit, reason};
use crate::schema::{JobRow, JobState, Table, gpu_count};
use crate::time::{SECOND_MS, seconds_to_ms};
use crate::trace::apart::Extent;
use crate::trace::{SourceRecord, Trace};

/// Every reader, in the order they are asked.
pub fn readers() -> &'static [&'static dyn Reader] {
    READERS
}

/// The reader that is surest that `file` is its own; the first of several equally sure.
///
/// # Errors
/// When the file cannot be opened.
pub fn sniff(file: &SourceFile) -> Result<Option<&'static dyn Reader>> {
    Ok(sniff_head(&file.head()?))
}

fn sniff_head(head: &Head) -> Option<&'static dyn Reader> {
    let mut best: Option<(&'static dyn Reader, Confidence)> = None;
    for reader in READERS.iter().copied() {
        let confidence = reader.sniff(head);
        if confidence > best.as_ref().map_or(Confidence::No, |(_, most)| *most) {
            best = Some((reader, confidence));
        }
    }
    best.map(|(reader, _)| reader)
}

/// Reads `files` into one trace. Files of the same format go to their reader together. A file that no reader
/// recognises is an error if it is the only one, and otherwise noted as skipped.
///
/// # Errors
/// When a file cannot be opened, is not in the format named, or `strict` is set and rows were quarantined.
pub fn read(files: &[SourceFile], options: &ReadOptions<'_>) -> Result<Trace> {
    let mut trace = Trace::default();
    if let Some(zone) = &options.zone_beside {
        zone.name().clone_into(&mut trace.zone);
    }
    if options.keep_quarantined {
        trace.ledger.keep_rows();
    }
    check_mapping(options)?;
    options.check_sources(files)?;
    if let Some(path) = &options.metrics {
        check_table("--metrics", path)?;
        super::check_metrics(path)?;
    }
    let mut groups: Vec<(&'static dyn Reader, Vec<SourceFile>)> = Vec::new();
    let mut archives = 0;
    let alone = files.iter().filter(|file| file.passed().is_none()).count() == 1;
    for file in files {
        if let Some(passed) = file.passed() {
            if passed.is_damage() {
                trace.ledger.damaged(file.name(), 0, format!("it is {}", passed.what()));
            }
            trace.note(format!("{} was not read: it is {}.", file.name(), passed.what()));
            trace.skipped.push(file.name().to_owned());
            continue;
        }
        let look = file.look()?;
        let nothing = look.head.text.trim().is_empty();
        let reader = match (&options.reader, options.mapping_of(file)) {
            _ if look.archive.is_some() || (nothing && look.damage.is_some()) => None,
            // A mapping of the file's own says how to read it, whatever reads the others.
            (Some(_), Some(mapping)) if Some(mapping) != options.mapping.as_deref() => Some(by_id("mapping")?),
            (Some(id), _) => Some(by_id(id)?),
            (None, Some(_)) => Some(by_id("mapping")?),
            (None, None) => sniff_head(&look.head),
        };
        let Some(reader) = reader else {
            if let Some(error) = &look.damage {
                if alone && !options.strict {
                    return Err(Error::UnknownFormat {
                        file: file.name().to_owned(),
                        found: format!(
                            "the file is truncated or damaged ({error}), and no reader recognises what is left of it"
                        ),
                        remedy: "fetch it again, whole".to_owned(),
                    });
                }
                let lines = look.head.text.matches('\n').count();
                trace.ledger.damaged(file.name(), lines as u64, error.to_string());
            } else if let Some(archive) = look.archive {
                if alone {
                    return Err(packed(file.name(), &format!("it is {archive}")));
                }
                archives += 1;
                trace.note(format!("{} is {archive} and was not read: unpack it and name the folder.", file.name()));
            } else if nothing {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file is empty".to_owned(),
                    remedy: "export it again".to_owned(),
                });
            }
            if alone && look.damage.is_none() {
                return Err(unknown(file.name(), Some(&look.head)));
            }
            trace.skipped.push(file.name().to_owned());
            continue;
        };
        match groups.iter_mut().find(|(other, _)| other.id() == reader.id()) {
            Some((_, group)) => group.push(file.clone()),
            None => groups.push((reader, vec![file.clone()])),
        }
    }
    if groups.is_empty() {
        if options.strict {
            trace.ledger.check_whole()?;
        }
        let names = trace.skipped.join(", ");
        return Err(if archives == trace.skipped.len() {
            packed(&names, "they are archives")
        } else {
            unknown(&names, None)
        });
    }
    groups.sort_by_key(|(reader, _)| reader.clock());
    // Where the cluster is, its jobs say, and not what is read beside them.
    let mut clock = None;
    for (reader, group) in &groups {
        let jobs = trace.jobs.len();
        let extent = Extent::new(&trace);
        let before = (trace.ledger.read, trace.row_counts(), trace.skipped.len(), trace.ledger.damage.len());
        reader.read(group, options, &mut trace)?;
        if trace.jobs.len() > jobs {
            clock = Some((trace.basis.clone(), trace.zone.clone()));
        }
        if !options.one_cluster {
            trace.check_together(extent, &group.iter().map(SourceFile::name).collect::<Vec<_>>())?;
        }
        if before == (trace.ledger.read, trace.row_counts(), trace.skipped.len(), trace.ledger.damage.len()) {
            let names: Vec<String> = group.iter().map(|file| file.name().to_owned()).collect();
            trace.note(no_rows(&names));
            trace.empty.extend(names);
        }
        for file in group {
            trace.sources.push(SourceRecord {
                name: file.name().to_owned(),
                reader: reader.id().to_owned(),
                size_bytes: file.size_bytes()?,
                sha256: file.sha256()?,
            });
        }
    }
    if let Some((basis, zone)) = clock.filter(|clock| clock.0.has_dates() == trace.basis.has_dates()) {
        (trace.basis, trace.zone) = (basis, zone);
    }
    let mut mappings: Vec<&Path> = files.iter().filter_map(|file| options.mapping_of(file)).collect();
    mappings.sort_unstable();
    mappings.dedup();
    let metrics = options.metrics.as_deref().map(|path| (path, METRICS_FILE));
    for (path, role) in mappings.into_iter().map(|path| (path, MAPPING_FILE)).chain(metrics) {
        // What the columns were taken to mean is as much a source as the rows.
        let file = SourceFile::new(path);
        trace.sources.push(SourceRecord {
            name: file.name().to_owned(),
            reader: role.to_owned(),
            size_bytes: file.size_bytes()?,
            sha256: file.sha256()?,
        });
    }
    if let Some(zone) = &options.zone {
        trace.zone = zone.name().to_owned();
    }
    let jobs = &trace.jobs;
    let in_vain = (0..jobs.len()).filter(|ix| jobs.waited_in_vain_s(*ix).is_some()).count();
    if in_vain > 0 {
        let (jobs, they) = if in_vain == 1 { ("job", "it") } else { ("jobs", "they") };
        trace.note(format!(
            "{in_vain} {jobs} ended while waiting and never started: how long {they} would have waited is not known, only \
             that it is longer than until then."
        ));
    }
    trace.finish();
    if options.strict {
        check_strict(&trace)?;
    }
    Ok(trace)
}

/// The longest mapping file, bytes: a hundred times more than any that a person wrote.
const LONGEST_MAPPING: u64 = 1 << 20;

/// Checks that the mapping is a file that can be read more than once and is no larger than a mapping is.
fn check_mapping(options: &ReadOptions<'_>) -> Result<()> {
    let of_files = options.mappings.iter().map(|entry| &entry.mapping);
    options.mapping.iter().chain(of_files).try_for_each(|path| check_table("--mapping", path))
}

fn check_table(option: &str, path: &Path) -> Result<()> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    let found = if !meta.is_file() {
        "it is no file".to_owned()
    } else if meta.len() > LONGEST_MAPPING {
        format!("{} bytes, where such a file has at most {LONGEST_MAPPING}", meta.len())
    } else {
        return Ok(());
    };
    Err(Error::Setting {
        setting: format!("{option} {}", path.display()),
        found,
        remedy: "name a TOML file as in datasets/mappings/README.md or cli/guide/formats.md".to_owned(),
    })
}

/// Message on files that hold a header and nothing else.
pub fn no_rows(files: &[String]) -> String {
    let holds = if files.len() == 1 { "holds" } else { "hold" };
    format!("no rows: {} {holds} a header and nothing else.", files.join(", "))
}

/// Name in place of a reader for a mapping file among the sources.
pub const MAPPING_FILE: &str = "mapping file";
/// Name in place of a reader for a table of metrics among the sources.
pub const METRICS_FILE: &str = "table of metrics";

fn unknown(file: &str, head: Option<&Head>) -> Error {
    if head.is_some_and(|head| is_live(&head.text)) {
        return Error::UnknownFormat { file: file.to_owned(), found: LIVE.to_owned(), remedy: LIVE_REMEDY.to_owned() };
    }
    let near = head.and_then(nearest).map_or_else(String::new, |near| format!(": {near}"));
    Error::UnknownFormat {
        file: file.to_owned(),
        found: format!("no reader recognises this{near}"),
        remedy: UNKNOWN_REMEDY.to_owned(),
    }
}

fn packed(file: &str, found: &str) -> Error {
    Error::UnknownFormat {
        file: file.to_owned(),
        found: found.to_owned(),
        remedy: "unpack it first (tar -xf, unzip) and name the folder".to_owned(),
    }
}

fn by_id(id: &str) -> Result<&'static dyn Reader> {
    READERS.iter().copied().find(|reader| reader.id() == id).ok_or_else(|| Error::Setting {
        setting: "--reader".to_owned(),
        found: format!("there is no reader `{id}`"),
        remedy: "see `tracecast formats`".to_owned(),
    })
}

/// Makes any quarantined row or damaged file of `trace`, and a trace without rows, an error.
///
/// # Errors
/// When there is one.
pub fn check_strict(trace: &Trace) -> Result<()> {
    trace.ledger.check_whole()?;
    if trace.ledger.read == 0 && trace.row_counts().is_empty() {
        return Err(Error::Empty {
            source_name: names(trace),
            what: "no rows: a header and nothing else".to_owned(),
            remedy: "export it again, or leave out --strict to accept an empty trace".to_owned(),
        });
    }
    Ok(())
}

/// Makes a trace of which no row could be used an error. A source that holds a header and nothing else has no such row, and is
/// only noted.
///
/// # Errors
/// When rows were quarantined or files damaged, and nothing is left.
pub fn check_usable(trace: &Trace) -> Result<()> {
    let ledger = &trace.ledger;
    let used = ledger.kept + ledger.repaired > 0 || !trace.row_counts().is_empty();
    let damaged =
        || ledger.damage.first().map(|damage| format!("{} is damaged or ends early: {}", damage.file, damage.what));
    match ledger.worst().or_else(damaged) {
        Some(why) if !used => Err(Error::Unusable { source_name: names(trace), why }),
        _ => Ok(()),
    }
}

/// The files of a trace as the user named them, the first few.
fn names(trace: &Trace) -> String {
    let mut names: Vec<&str> = trace.sources.iter().take(3).map(|source| source.name.as_str()).collect();
    if trace.sources.len() > names.len() {
        names.push("…");
    }
    names.join(", ")
}

/// Takes of local times that happened twice those that agree with the run time and the wait that the source gives.
fn settle_folds(job: &mut JobRow<'_>, row: &mut RowAudit<'_>) {
    let both = |row: &RowAudit<'_>, ms: i64| [Some(ms), row.later(ms)].into_iter().flatten();
    let agrees = |from: i64, to: i64, seconds: f64| ((to - from) as f64 / SECOND_MS as f64 - seconds).abs() <= 1.0;
    // What sources report as the run leaves out the time suspended.
    let reported_s = job.reported_run_s.map(|run| run + job.suspended_s.unwrap_or(0.0));
    if let (Some(start), Some(end), Some(run_s)) = (job.start, job.end, reported_s)
        && (row.later(start).is_some() || row.later(end).is_some())
    {
        let mut pairs: Vec<(i64, i64)> = Vec::new();
        for from in both(row, start) {
            pairs.extend(both(row, end).filter(|to| agrees(from, *to, run_s)).map(|to| (from, to)));
        }
        // Where both are of the hour that came twice, two pairs agree and the order of times decides.
        if let [(from, to)] = pairs.as_slice() {
            row.told(end);
            row.told(start);
            (job.start, job.end) = (Some(*from), Some(*to));
        }
    }
    // A wait counts from the moment the job could first have started.
    let same = job.eligible.is_none() || job.eligible == job.submit;
    if let (Some(submit), Some(start), Some(wait_s), true) = (job.submit, job.start, job.reported_wait_s, same)
        && row.later(submit).is_some()
        && row.later(start).is_none()
        && let Some(told) = both(row, submit).find(|from| agrees(*from, start, wait_s))
    {
        row.told(submit);
        if job.eligible.is_some() {
            row.told(submit);
            job.eligible = Some(told);
        }
        job.submit = Some(told);
    }
}

/// Whether a job that starts and ends at the same moment never started: schedulers write the moment of the cancellation
/// as both. It was cancelled, and nothing says that it was given anything.
fn gave_up(job: &JobRow<'_>) -> bool {
    let given = job.alloc_nodes.is_some_and(|nodes| nodes > 0)
        || job.nodes_hostlist.is_some()
        || [job.alloc_gpus, job.alloc_cpus].into_iter().flatten().any(|count| count > 0.0);
    job.state.as_deref() == Some(JobState::Cancelled.id()) && job.start.is_some() && job.start == job.end && !given
}

/// Takes away what a cancelled job was given, where it has no start, or ends as it starts: sources that write down what a
/// job asks for as what it has cannot tell, and a job cancelled in its first second is far rarer than one cancelled while
/// it waited. To be called by readers of such sources, before [`check_job`].
pub(super) fn forget_unstarted(job: &mut JobRow<'_>) {
    let cancelled = job.state.as_deref() == Some(JobState::Cancelled.id());
    if cancelled && job.end.is_some() && (job.start.is_none() || job.start == job.end) {
        (job.alloc_nodes, job.alloc_cpus, job.alloc_gpus) = (None, None, None);
        job.nodes_hostlist = None;
        job.reported_run_s = job.reported_run_s.filter(|run| *run > 0.0);
        if job.start.is_none() {
            job.attempts = Some(0);
        }
    }
}

/// Checks that a job's times are in order and fills what follows from them; to be called by every reader before it
/// pushes a job. A local time that happened twice is taken as the one that agrees with the run time the source gives, else
/// as the second where the first would be out of order. A job cancelled while it waited has no start and no run. An end
/// before the start becomes unknown; a start before the submission stays, as the wait derived from it is then unknown.
/// GPU counts and durations beyond what is possible become unknown. `run_s` is set from start and end, less the time
/// suspended, where the reader has not set it from attempts.
pub fn check_job(job: &mut JobRow<'_>, row: &mut RowAudit<'_>) {
    settle_folds(job, row);
    if gave_up(job) {
        job.start = None;
        job.run_s = None;
        job.attempts = Some(0);
    }
    if let (Some(submit), Some(start)) = (job.submit, job.start)
        && start < submit
    {
        job.start = row.take_later(start, submit).or(job.start);
    }
    if let (Some(start), Some(end)) = (job.start, job.end)
        && end < start
    {
        job.end = row.take_later(end, start).or(job.end);
    }
    for (column, gpus) in [("req_gpus", &mut job.req_gpus), ("alloc_gpus", &mut job.alloc_gpus)] {
        if let Some(count) = gpus.filter(|count| gpu_count(*count).is_none()) {
            row.repair(reason::OUT_OF_RANGE, column, &count.to_string());
            *gpus = None;
        }
    }
    let lengths = [("reported_run_s", &mut job.reported_run_s), ("reported_wait_s", &mut job.reported_wait_s)];
    for (column, seconds) in lengths {
        if let Some(length) = seconds.filter(|length| seconds_to_ms(*length).is_none()) {
            row.repair(reason::OUT_OF_RANGE, column, &length.to_string());
            *seconds = None;
        }
    }
    if let (Some(start), Some(end)) = (job.start, job.end) {
        if end < start {
            row.repair(reason::END_BEFORE_START, "end", &format!("{} s before its start", (start - end) / SECOND_MS));
            job.end = None;
            job.run_s = None;
        } else if job.run_s.is_none() && job.attempts.is_none_or(|attempts| attempts <= 1) {
            job.run_s = Some(((end - start) as f64 / SECOND_MS as f64 - job.suspended_s.unwrap_or(0.0)).max(0.0));
        }
    }
    if let (Some(submit), Some(start)) = (job.submit, job.start)
        && start < submit
    {
        let text = format!("{} s before its submission", (submit - start) as f64 / SECOND_MS as f64);
        row.repair(reason::START_BEFORE_SUBMIT, "start", &text);
    }
}

/// Remembers which keys were seen, for sources whose files overlap.
#[derive(Debug, Default)]
pub struct SeenKeys(HashSet<Box<str>>);

impl SeenKeys {
    /// Whether `key` is met for the first time; records it.
    pub fn is_new(&mut self, key: &str) -> bool {
        !self.0.contains(key) && self.0.insert(key.into())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ingest::Moment;
    use crate::quality::Ledger;
    use crate::time::Zone;

    // Berlin, 2024-10-27: 02:00 to 03:00 summer time (00:00 to 01:00 UTC) is followed by 02:00 to 03:00 winter time
    // (01:00 to 02:00 UTC). A job from 02:50 to 02:10 ran from 00:50 to 01:10 UTC, 20 minutes.
    #[test]
    fn an_end_in_the_second_pass_of_a_fold_is_after_its_start() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let check = |times: [&str; 3]| {
            let mut row = RowAudit::new("f", 1);
            let [submit, start, end] =
                times.map(|time| Moment::Local(&zone).read(Some(&format!("2024-10-27 {time}")), "time", &mut row));
            let mut job = JobRow { submit, start, end, ..JobRow::default() };
            check_job(&mut job, &mut row);
            let mut ledger = Ledger::default();
            ledger.keep(row);
            let of = |time: Option<i64>| time.map_or_else(String::new, |ms| crate::time::format_utc(ms)[11..16].into());
            let counts = ["dst_fold", "dst_fold_later", "end_before_start"].map(|reason| ledger.count(reason));
            ([of(job.submit), of(job.start), of(job.end)], job.run_s, counts)
        };
        let expect = |times: [&str; 3]| times.map(str::to_owned);
        assert_eq!(
            check(["01:30:00", "02:50:00", "02:10:00"]),
            (expect(["23:30", "00:50", "01:10"]), Some(1_200.0), [1, 1, 0])
        );
        // Submitted 02:40, started 02:05, ended 02:10: start and end are both of the second pass.
        assert_eq!(
            check(["02:40:00", "02:05:00", "02:10:00"]),
            (expect(["00:40", "01:05", "01:10"]), Some(300.0), [1, 2, 0])
        );
        // In order as it stands: the first pass stays.
        assert_eq!(
            check(["02:10:00", "02:20:00", "02:50:00"]),
            (expect(["00:10", "00:20", "00:50"]), Some(1_800.0), [3, 0, 0])
        );
        // 03:10 and 01:50 happened once: nothing to choose.
        assert_eq!(check(["01:30:00", "03:10:00", "01:50:00"]), (expect(["23:30", "02:10", ""]), None, [0, 0, 1]));
    }

    #[test]
    fn an_end_before_the_start_is_unknown_and_an_early_start_is_kept() {
        let mut row = RowAudit::new("f", 1);
        let mut job = JobRow { submit: Some(0), start: Some(5_000), end: Some(4_000), ..JobRow::default() };
        check_job(&mut job, &mut row);
        assert_eq!((job.end, job.run_s), (None, None));
        let mut job = JobRow { submit: Some(9_000), start: Some(5_000), end: Some(6_500), ..JobRow::default() };
        check_job(&mut job, &mut row);
        assert_eq!((job.start, job.run_s), (Some(5_000), Some(1.5)));
        // Suspended for half a second of it.
        let mut job = JobRow { start: Some(5_000), end: Some(6_500), suspended_s: Some(0.5), ..JobRow::default() };
        check_job(&mut job, &mut row);
        assert_eq!(job.run_s, Some(1.0));
    }

    #[test]
    fn impossible_counts_and_lengths_are_unknown_and_noted() {
        let mut ledger = Ledger::default();
        let mut row = RowAudit::new("f", 1);
        let mut job = JobRow {
            req_gpus: Some(1e308),
            alloc_gpus: Some(1e6),
            reported_run_s: Some(1e308),
            reported_wait_s: Some(4e9),
            ..JobRow::default()
        };
        check_job(&mut job, &mut row);
        ledger.keep(row);
        assert_eq!((job.req_gpus, job.alloc_gpus), (None, Some(1e6)));
        assert_eq!((job.reported_run_s, job.reported_wait_s), (None, Some(4e9)));
        assert_eq!((ledger.repaired, ledger.count("out_of_range")), (1, 2));
    }
}
