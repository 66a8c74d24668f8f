//! Helios (SenseTime, four clusters, April to September 2020): job log and daily GPUs of each VC.
//!
//! `cluster_log.csv` has one row a job: `job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time,
//! end_time, duration, queue`. `cluster_gpu_number.csv` has one row a day: `date`, a column for each VC, `total`. Times
//! are local without a zone; the clusters stand in China, which has no daylight saving time.
//!
//! Capacity changes by the day and is kept as intervals: equal consecutive days become one. Worked number: 16, 16, 24
//! GPUs on 1, 2 and 3 April become 16 from 1 April 00:00 to 3 April 00:00 and 24 from then to 4 April 00:00, local time.
//!
//! VCs were renamed and merged within the trace and between its files. Published analyses rename them by hand; this
//! reader renames nothing and says which jobs have no capacity to match. O(rows).

use std::collections::{BTreeMap, BTreeSet};

use super::delimited::{Delimited, Record};
use super::field::Moment;
use super::options::ReadOptions;
use super::read::{SeenKeys, check_job, forget_unstarted};
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile, TableHeaders};
use crate::error::{Error, Result};
use crate::quality::{Reason, reason};
use crate::schema::{CapacityRow, JobRow, JobState};
use crate::time::{DAY_MS, TimeBasis, Zone, parse_local};
use crate::trace::Trace;

/// The clusters' zone.
pub(super) const ZONE: &str = "Asia/Shanghai";
/// The clusters, as file and folder names have them.
const CLUSTERS: [&str; 4] = ["venus", "earth", "saturn", "uranus"];

/// The VCs of a day do not add up to its total.
const TOTAL_DIFFERS: Reason = Reason {
    id: "total_differs",
    what: "the GPUs of the VCs do not add up to the day's total; the VCs are used",
    remedy: "check the row in the source",
};

/// Reads job logs and daily GPU numbers.
pub(super) struct Helios;

const LOG: &[&str] = &["job_id", "user", "vc", "gpu_num", "node_num", "state", "submit_time", "start_time"];

fn is_log(head: &Head) -> bool {
    head.has_columns(',', LOG)
}

/// Whether the file is a table of GPUs by day: a date, numbers, and last a total to which they add
/// up (in most of the rows that can be seen). The names of the VCs do not matter.
fn is_capacity(head: &Head) -> bool {
    let cells = |line: &str| -> Vec<String> {
        line.split(',').map(|cell| cell.trim().trim_matches('"').to_ascii_lowercase()).collect()
    };
    let header = cells(head.first_line());
    let columns = header.len();
    if columns < 3 || header.first().is_none_or(|name| name != "date") || header.last().is_none_or(|n| n != "total") {
        return false;
    }
    let of_vcs = header.iter().skip(1).take(columns - 2).all(|name| name.starts_with("vc"));
    let (mut rows, mut add_up) = (0, 0);
    let mut lines =
        head.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).skip(1).peekable();
    while let Some(line) = lines.next() {
        if head.more && lines.peek().is_none() {
            // The last line that can be seen may be cut.
            break;
        }
        let row = cells(line);
        rows += 1;
        let number = |cell: &String| if cell.is_empty() { Some(0.0) } else { cell.parse::<f64>().ok() };
        let dated = row.first().is_some_and(|date| parse_local(date).is_some());
        let gpus: Option<Vec<f64>> = row.iter().skip(1).map(number).collect();
        if let Some((total, parts)) = gpus.as_deref().and_then(<[f64]>::split_last)
            && dated
            && row.len() == columns
        {
            add_up += usize::from((parts.iter().sum::<f64>() - total).abs() < 0.5);
        }
    }
    of_vcs || (add_up > 0 && add_up * 2 > rows)
}

impl Reader for Helios {
    fn id(&self) -> &'static str {
        "helios"
    }

    fn describes(&self) -> &'static str {
        "Helios 2020: cluster_log.csv and cluster_gpu_number.csv of Venus, Earth, Saturn and Uranus"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', LOG)]
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if is_log(head) || is_capacity(head) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        trace.basis = TimeBasis::Local;
        let zone = options.zone_or(ZONE)?;
        zone.name().clone_into(&mut trace.zone);
        let clusters: BTreeSet<Option<&str>> = files.iter().map(cluster).collect();
        let mut reading = Reading {
            zone,
            several: clusters.len() > 1,
            seen: SeenKeys::default(),
            jobs: Vec::new(),
            vcs: BTreeMap::new(),
        };
        for file in files {
            let head = file.head()?;
            if is_log(&head) {
                reading.log(file, options, trace)?;
            } else if is_capacity(&head) {
                reading.capacity(file, options, trace)?;
            } else {
                return Err(Error::format(
                    file.name(),
                    "neither a Helios job log nor a table of GPUs per VC and day",
                    "check the file's first line, or leave out --reader",
                ));
            }
        }
        reading.note(trace);
        Ok(())
    }
}

/// The cluster a file belongs to, if its path says so.
fn cluster(file: &SourceFile) -> Option<&'static str> {
    let path = file.name().to_ascii_lowercase();
    // The last name wins: a folder of one cluster may lie below a folder named after several.
    CLUSTERS.into_iter().filter_map(|name| Some((path.rfind(name)?, name))).max().map(|(_, name)| name)
}

struct Reading {
    zone: Zone,
    /// Whether the request spans several clusters, whose VCs and job ids share names.
    several: bool,
    seen: SeenKeys,
    /// VC and submit time of each job.
    jobs: Vec<(String, i64)>,
    /// GPUs of each VC as intervals `[from, to)`.
    vcs: BTreeMap<String, Vec<(i64, i64, f64)>>,
}

impl Reading {
    fn named(&self, cluster: Option<&str>, name: &str) -> String {
        match cluster {
            Some(cluster) if self.several => format!("{cluster}/{name}"),
            _ => name.to_owned(),
        }
    }

    fn log(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let cluster = cluster(file);
        let mut table = Delimited::open(file, b',', options.observer)?;
        let columns = Columns {
            id: Some(table.require("job_id")?),
            vc: Some(table.require("vc")?),
            gpus: Some(table.require("gpu_num")?),
            submit: Some(table.require("submit_time")?),
            start: Some(table.require("start_time")?),
            state: Some(table.require("state")?),
            user: table.column("user"),
            cpus: table.column("cpu_num"),
            nodes: table.column("node_num"),
            end: table.column("end_time"),
            duration: table.column("duration"),
            queue: table.column("queue"),
        };
        while let Some(mut row) = table.next_row(&mut trace.ledger) {
            let Some(id) = row.text(columns.id) else {
                trace.ledger.quarantine(&row.audit, reason::NO_KEY, "job_id", row.raw());
                continue;
            };
            let Some(submit) = row.moment(columns.submit, Moment::Local(&self.zone), "submit_time") else {
                trace.ledger.quarantine(&row.audit, reason::NO_SUBMIT, "submit_time", row.raw());
                continue;
            };
            let key = self.named(cluster, id);
            if !self.seen.is_new(&key) {
                trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "job_id", row.raw());
                continue;
            }
            let vc = row.text(columns.vc).map(|vc| self.named(cluster, vc));
            let mut job = columns.job(&mut row, &self.zone);
            job.cluster = cluster.map(Into::into);
            job.job_key = Some(key.into());
            job.submit = Some(submit);
            job.vc = vc.clone().map(Into::into);
            forget_unstarted(&mut job);
            check_job(&mut job, &mut row.audit);
            trace.jobs.push(job);
            trace.ledger.keep(row.audit);
            if let Some(vc) = vc {
                self.jobs.push((vc, submit));
            }
        }
        table.finish(&mut trace.ledger);
        trace.note("helios: run time is end minus start; the source's own durations are kept as reported");
        trace.note("helios: a job with 0 GPUs is a CPU job; about half of the published jobs are");
        Ok(())
    }

    fn capacity(&mut self, file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let cluster = cluster(file);
        let mut table = Delimited::open(file, b',', options.observer)?;
        let date_at = Some(table.require("date")?);
        let total_at = Some(table.require("total")?);
        // VC names differ only in case (vc6YE).
        let vcs: Vec<(usize, String)> = table
            .written_header()
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != date_at && Some(*at) != total_at)
            .map(|(at, name)| (at, self.named(cluster, name)))
            .collect();
        // Days in order, whatever the order of the rows; a repeated day is quarantined.
        let mut days: BTreeMap<i64, Vec<Option<f64>>> = BTreeMap::new();
        while let Some(mut row) = table.next_row(&mut trace.ledger) {
            let Some(local_ms) = row.moment(date_at, Moment::Local(&Zone::utc()), "date") else {
                trace.ledger.quarantine(&row.audit, reason::NOT_A_TIME, "date", row.raw());
                continue;
            };
            let day = local_ms.div_euclid(DAY_MS);
            if days.contains_key(&day) {
                trace.ledger.quarantine(&row.audit, reason::DUPLICATE, "date", row.raw());
                continue;
            }
            let gpus: Vec<Option<f64>> = vcs.iter().map(|(at, name)| row.amount(Some(*at), name)).collect();
            let total = row.amount(total_at, "total");
            if total.is_some_and(|total| (total - gpus.iter().flatten().sum::<f64>()).abs() > 0.5) {
                row.audit.repair(TOTAL_DIFFERS, "total", row.field(total_at).unwrap_or_default());
            }
            days.insert(day, gpus);
            trace.ledger.keep(row.audit);
        }
        table.finish(&mut trace.ledger);
        for (ix, (_, vc)) in vcs.iter().enumerate() {
            let of_vc = days.iter().filter_map(|(day, gpus)| Some((*day, gpus.get(ix).copied().flatten()?)));
            let intervals: Vec<(i64, i64, f64)> = merge(of_vc)
                .into_iter()
                .map(|(from, to, gpus)| (self.midnight(from), self.midnight(to), gpus))
                .collect();
            for (from, to, gpus) in &intervals {
                trace.capacity.push(CapacityRow {
                    scope: Some("vc".into()),
                    name: Some(vc.into()),
                    from: Some(*from),
                    to: Some(*to),
                    gpus: Some(*gpus),
                    state: Some("up".into()),
                    ..CapacityRow::default()
                });
            }
            self.vcs.entry(vc.clone()).or_default().extend(intervals);
        }
        trace.note("helios: GPUs of a VC are given by the day, so a change within a day is seen at midnight");
        Ok(())
    }

    /// The moment a local day begins.
    fn midnight(&self, day: i64) -> i64 {
        let local_ms = day.saturating_mul(DAY_MS);
        local_ms - self.zone.offset_ms(local_ms - self.zone.offset_ms(local_ms))
    }

    fn note(&self, trace: &mut Trace) {
        if self.several {
            trace.note("helios: several clusters were read together; job ids and VC names carry their cluster");
        }
        if self.vcs.is_empty() || self.jobs.is_empty() {
            return;
        }
        let mut absent: BTreeMap<&str, u64> = BTreeMap::new();
        let mut without: BTreeMap<&str, u64> = BTreeMap::new();
        for (vc, submit) in &self.jobs {
            match self.vcs.get(vc) {
                None => *absent.entry(vc).or_default() += 1,
                Some(intervals) => {
                    let gpus = intervals.iter().find(|(from, to, _)| (from..to).contains(&submit));
                    if gpus.is_some_and(|(_, _, gpus)| *gpus == 0.0) {
                        *without.entry(vc).or_default() += 1;
                    }
                }
            }
        }
        for (vc, jobs) in absent {
            trace.note(format!(
                "helios: {jobs} jobs belong to VC {vc}, which has no column in the GPU table; it may have been renamed, \
                 and is left as it is"
            ));
        }
        for (vc, jobs) in without {
            trace.note(format!("helios: {jobs} jobs were submitted to VC {vc} while it had 0 GPUs; left as it is"));
        }
    }
}

/// Columns of the job log.
struct Columns {
    id: Option<usize>,
    vc: Option<usize>,
    gpus: Option<usize>,
    submit: Option<usize>,
    start: Option<usize>,
    state: Option<usize>,
    user: Option<usize>,
    cpus: Option<usize>,
    nodes: Option<usize>,
    end: Option<usize>,
    duration: Option<usize>,
    queue: Option<usize>,
}

impl Columns {
    fn job<'r>(&self, row: &mut Record<'r>, zone: &Zone) -> JobRow<'r> {
        let reported_state = row.text(self.state);
        let state = reported_state.map_or(JobState::Unknown, |word| {
            JobState::parse(word).unwrap_or_else(|| {
                row.audit.repair(reason::UNKNOWN_STATE, "state", word);
                JobState::Unknown
            })
        });
        let end = row.moment(self.end, Moment::Local(zone), "end_time");
        let gpus = row.amount(self.gpus, "gpu_num");
        let cpus = row.amount(self.cpus, "cpu_num");
        let nodes = row.whole(self.nodes, "node_num");
        JobRow {
            user: row.text(self.user).map(Into::into),
            state: Some(state.id().into()),
            reported_state: reported_state.map(Into::into),
            start: row.moment(self.start, Moment::Local(zone), "start_time"),
            end,
            censored: (end.is_none() && matches!(state, JobState::Running | JobState::Pending)).then_some(true),
            req_nodes: nodes,
            req_cpus: cpus,
            req_gpus: gpus,
            alloc_nodes: nodes,
            alloc_cpus: cpus,
            alloc_gpus: gpus,
            reported_run_s: row.amount(self.duration, "duration"),
            reported_wait_s: row.amount(self.queue, "queue"),
            ..JobRow::default()
        }
    }
}

/// Joins equal consecutive days into intervals `[from, to)`; a day that is missing ends an interval.
fn merge(days: impl Iterator<Item = (i64, f64)>) -> Vec<(i64, i64, f64)> {
    let mut out: Vec<(i64, i64, f64)> = Vec::new();
    for (day, gpus) in days {
        match out.last_mut() {
            Some((_, to, same)) if *to == day && same.to_bits() == gpus.to_bits() => *to = day + 1,
            _ => out.push((day, day + 1, gpus)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_days_join_and_a_gap_or_a_change_parts_them() {
        let days = [(1, 16.0), (2, 16.0), (3, 24.0), (5, 24.0)];
        assert_eq!(merge(days.into_iter()), [(1, 3, 16.0), (3, 4, 24.0), (5, 6, 24.0)]);
    }

    #[test]
    fn the_cluster_is_the_last_name_in_the_path() {
        assert_eq!(cluster(&SourceFile::new("helios/Earth/cluster_log.csv")), Some("earth"));
        assert_eq!(cluster(&SourceFile::new("earth/Venus_gpu_number.csv")), Some("venus"));
        assert_eq!(cluster(&SourceFile::new("log.csv")), None);
    }
}
