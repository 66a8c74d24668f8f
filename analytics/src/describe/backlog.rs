//! A19: what still waits when the record ends, and why, as the scheduler says.
//!
//! A job waits at the end if its last state is that it waits. How long is from its submission, or from the end of its last attempt, to the
//! last moment of the record. The reason is the source's own word or message (Slurm's `Reason`; Kueue's and the pod scheduler's
//! conditions), with what changes from job to job left out ([`alike`]), so that messages that say the same are one row.
//!
//! Worked number: three pods say "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", two of 8 GPUs and one of 1, made 1 h, 2 h
//! and 3 h before the end; another says "0/5 nodes …: 5 Insufficient …", of 8 GPUs and 4 h. They are one row: "N/N nodes are
//! available: N Insufficient nvidia.com/gpu", 4 jobs, 25 GPUs, 4 h.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::report::format::{compact, count, counted, duration, percent};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::{JobState, Table};
use crate::time::SECOND_MS;

/// Reasons the report lists.
const SHOWN: usize = 12;
/// Characters of a reason that are kept.
const MOST_CHARS: usize = 200;
/// Replacement for a number.
const NUMBER: &str = "N";
/// Replacement for an identifier or a quoted name.
const NAME: &str = "…";
/// Label of jobs without a reason.
const UNKNOWN: &str = "the source does not say";

/// Jobs that wait for one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Waiting {
    /// The reason, without the numbers and names in it; `null` where the source gives none.
    pub reason: Option<String>,
    /// The source's text for the job that waits longest.
    pub example: Option<String>,
    /// Jobs.
    pub jobs: u64,
    /// GPUs they ask for; of those whose number is known.
    pub gpus: Option<f64>,
    /// Longest wait so far, seconds.
    pub longest_s: Option<f64>,
}

/// Jobs that wait when the record ends.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Backlog {
    /// Jobs.
    pub jobs: u64,
    /// GPUs they ask for; of those whose number is known.
    pub gpus: Option<f64>,
    /// Jobs whose number of GPUs is unknown.
    pub gpus_unknown: u64,
    /// Longest wait so far, seconds.
    pub longest_s: Option<f64>,
    /// GPUs × wait so far, hours.
    pub gpu_wait_hours: Option<f64>,
    /// Waiting jobs by reason, most GPUs first.
    pub by_reason: Vec<Waiting>,
}

/// Sums of one reason.
#[derive(Debug, Default)]
struct Sums<'t> {
    jobs: u64,
    gpus: Option<f64>,
    longest_s: Option<f64>,
    example: Option<&'t str>,
}

impl<'t> Sums<'t> {
    fn add(&mut self, gpus: Option<f64>, waited_s: Option<f64>, said: Option<&'t str>) {
        if self.jobs == 0 || waited_s > self.longest_s {
            self.example = said;
        }
        self.jobs += 1;
        self.gpus = gpus.map_or(self.gpus, |gpus| Some(self.gpus.unwrap_or(0.0) + gpus));
        self.longest_s = match (self.longest_s, waited_s) {
            (Some(longest), Some(waited)) => Some(longest.max(waited)),
            (longest, waited) => longest.or(waited),
        };
    }
}

impl Topic for Backlog {
    const ID: &'static str = "backlog";
    const CODE: &'static str = "A19";
    const TITLE: &'static str = "What waits at the end, and why";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let jobs = &facts.trace.jobs;
        let rows: Vec<usize> = (0..facts.len()).filter(|job| facts.state(*job) == JobState::Pending).collect();
        if rows.is_empty() {
            return Err("no job is recorded as waiting at the end".to_owned());
        }
        if rows.iter().all(|job| jobs.pending_reason.get(*job).is_none()) {
            let waits = counted(rows.len() as u64, "job waits", "jobs wait");
            return Err(format!("{waits} at the end, and the source does not say why"));
        }
        let released = released(facts, &rows);
        let (mut all, mut gpus_unknown, mut gpu_wait_s) = (Sums::default(), 0, None);
        let mut reasons: BTreeMap<Option<String>, Sums<'_>> = BTreeMap::new();
        for job in rows {
            let said = jobs.pending_reason.get(job);
            let gpus = jobs.req_gpus.get(job).or_else(|| facts.gpus(job));
            let since = match jobs.start.get(job) {
                None => jobs.submit.get(job),
                Some(_) => jobs.job_key.get(job).and_then(|key| released.get(key).copied()),
            };
            let waited = facts.record_end.zip(since).map(|(end, since)| (end - since) as f64 / SECOND_MS as f64);
            let waited = waited.filter(|waited| *waited >= 0.0);
            gpus_unknown += u64::from(gpus.is_none());
            if let Some((gpus, waited)) = gpus.zip(waited) {
                *gpu_wait_s.get_or_insert(0.0) += gpus * waited;
            }
            all.add(gpus, waited, said);
            reasons.entry(said.map(alike)).or_default().add(gpus, waited, said);
        }
        let mut by_reason: Vec<Waiting> = reasons
            .into_iter()
            .map(|(reason, sums)| Waiting {
                reason,
                example: sums.example.map(shortened),
                jobs: sums.jobs,
                gpus: sums.gpus,
                longest_s: sums.longest_s,
            })
            .collect();
        by_reason.sort_by(|a, b| {
            let key = |of: &Waiting| (of.gpus.unwrap_or(0.0), of.jobs);
            let ((a_gpus, a_jobs), (b_gpus, b_jobs)) = (key(a), key(b));
            b_gpus.total_cmp(&a_gpus).then(b_jobs.cmp(&a_jobs)).then_with(|| a.reason.cmp(&b.reason))
        });
        Ok(Self {
            jobs: all.jobs,
            gpus: all.gpus,
            gpus_unknown,
            longest_s: all.longest_s,
            gpu_wait_hours: gpu_wait_s.map(hours),
            by_reason,
        })
    }

    fn section(&self) -> Section {
        let mut finding = format!("**{}** when the record ends", counted(self.jobs, "job waits", "jobs wait"));
        if let Some(gpus) = self.gpus {
            finding.push_str(&format!(", for **{}** GPUs", compact(gpus)));
        }
        if let Some(longest) = self.longest_s {
            finding.push_str(&format!(", the longest for **{}**", duration(longest)));
        }
        let first = self.by_reason.first().filter(|first| first.reason.is_some() && self.by_reason.len() > 1);
        if let Some(part) = first.and_then(|first| share(first.gpus?, self.gpus?)) {
            finding.push_str(&format!("; {} of these GPUs wait for the same reason", percent(part)));
        }
        finding.push('.');
        let mut table = ReportTable::new(
            "Waiting at the end, by reason",
            vec![
                Column::text("Reason"),
                Column::number("Jobs"),
                Column::number("GPUs asked for"),
                Column::number("Longest wait"),
            ],
        );
        for of in self.by_reason.iter().take(SHOWN) {
            table.rows.push(vec![
                of.reason.as_deref().unwrap_or(UNKNOWN).into(),
                int(of.jobs),
                Cell::opt(of.gpus, Cell::Compact),
                Cell::opt(of.longest_s, Cell::Duration),
            ]);
        }
        if self.by_reason.len() > SHOWN {
            let more = count((self.by_reason.len() - SHOWN) as u64);
            table.note = Some(format!("{more} more reasons have fewer GPUs; the JSON form lists all."));
        }
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(self.gpu_wait_hours)
            .with_table(table)
            .with_definition(format!(
                "A reason is the scheduler's own word or message for the job; {NUMBER} stands for a number in it, and {NAME} for a \
                 name, so that messages that say the same are one row."
            ))
            .with_definition(
                "A wait is from the submission, or from the end of the last attempt, to the last moment of the record.",
            )
            .with_definition("The section is ranked by GPUs × wait so far.");
        if self.gpus_unknown > 0 {
            let unknown = counted(self.gpus_unknown, "waiting job", "waiting jobs");
            section = section.with_coverage(format!("How many GPUs {unknown} asked for is unknown."));
        }
        section
    }
}

/// Last end of an attempt of each of these jobs, by key.
fn released<'t>(facts: &JobFacts<'t>, rows: &[usize]) -> HashMap<&'t str, i64> {
    let (jobs, attempts) = (&facts.trace.jobs, &facts.trace.attempts);
    let again = rows.iter().filter(|job| jobs.start.get(**job).is_some());
    let keys: BTreeSet<&str> = again.filter_map(|job| jobs.job_key.get(*job)).collect();
    let mut released: HashMap<&str, i64> = HashMap::new();
    for row in (0..attempts.len()).filter(|_| !keys.is_empty()) {
        if let (Some(key), Some(end)) =
            (attempts.job_key.get(row).filter(|key| keys.contains(key)), attempts.end.get(row))
        {
            let last = released.entry(key).or_insert(end);
            *last = end.max(*last);
        }
    }
    released
}

/// A reason without what changes from job to job: numbers and amounts, identifiers, quoted names, the nodes that Slurm lists, and the
/// part in which Kubernetes' scheduler says of preemption what it said of the nodes. O(length).
///
/// Worked example: "insufficient quota for nvidia.com/gpu in flavor a100, 8 more needed" keeps all words, and `8` becomes `N`.
pub fn alike(reason: &str) -> String {
    let reason = reason.split(" preemption: ").next().unwrap_or_default();
    let reason = reason.split("UnavailableNodes:").next().unwrap_or_default();
    let reason = reason.trim_end_matches([' ', ',', '.']);
    let mut text = String::new();
    for (at, part) in reason.split('"').enumerate() {
        // Between quotes stands every second part.
        if at % 2 == 1 {
            text.push_str(&format!("\"{NAME}\""));
            continue;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '+');
            let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            let bare = word.trim_end_matches(['.', '-']);
            let (_, stop) = word.split_at(bare.len());
            text.push_str(if is_identifier(bare) {
                NAME
            } else if is_number(bare) {
                NUMBER
            } else {
                bare
            });
            text.push_str(stop);
            let between = after.find(is_word).unwrap_or(after.len());
            let (between, next) = after.split_at(between);
            text.push_str(between);
            rest = next;
        }
    }
    shortened(&text)
}

/// Whether a word is a UUID.
fn is_identifier(word: &str) -> bool {
    let groups: Vec<&str> = word.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Whether a word is a number, an amount such as `512Mi` or `30s`, a range of numbers, or a time.
fn is_number(word: &str) -> bool {
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_');
    if !word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let unit = word.trim_start_matches(digits);
    let units =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "KB", "MB", "GB", "TB"];
    let times = ["s", "ms", "h", "d", "Z"];
    units.contains(&unit) || times.contains(&unit) || word.chars().all(|c| digits(c) || matches!(c, 'T' | 'Z'))
}

/// The first [`MOST_CHARS`] characters.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::job;
    use crate::schema::{AttemptRow, JobRow};
    use crate::trace::Trace;

    #[test]
    fn messages_that_say_the_same_are_alike() {
        for (said, reason) in [
            (
                "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No victims.",
                "N/N nodes are available: N Insufficient nvidia.com/gpu",
            ),
            (
                "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed",
                "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, N more needed",
            ),
            ("insufficient memory, 512Mi more needed", "insufficient memory, N more needed"),
            (
                "Preempted for a workload (UID: 3f2a6c1e-0b1d-4a7e-9c55-0a1b2c3d4e5f) at 2026-03-02T10:00:00Z",
                "Preempted for a workload (UID: …) at N:N:N",
            ),
            ("persistentvolumeclaim \"data-17\" not found.", "persistentvolumeclaim \"…\" not found"),
            ("slices of mig-1g.5gb on gpu-7", "slices of mig-1g.5gb on gpu-7"),
            ("ReqNodeNotAvail, UnavailableNodes:gpu[01-17]", "ReqNodeNotAvail"),
            ("Dependency on job[12-14],", "Dependency on job[N]"),
            ("Resources", "Resources"),
            ("", ""),
        ] {
            assert_eq!(alike(said), reason, "{said}");
        }
        assert_eq!(alike(&"ä".repeat(300)).chars().count(), MOST_CHARS + 1);
    }

    fn waits(key: &'static str, gpus: f64, submit_s: i64, reason: Option<&'static str>) -> JobRow<'static> {
        let row = job(key, "x", gpus, submit_s, 0, 0);
        JobRow {
            start: None,
            end: None,
            run_s: None,
            state: Some("pending".into()),
            pending_reason: reason.map(Into::into),
            ..row
        }
    }

    // The worked number of the module; the record ends at 5 h. Job `again` ran from 1 h to 2 h and waits for 3 h since; of `none` nothing is said.
    #[test]
    fn what_waits_is_counted_by_reason() {
        let hour = 3_600;
        let full = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.";
        let mut trace = Trace::default();
        trace.jobs.push(job("done", "x", 1.0, 0, 0, 5 * hour));
        trace.jobs.push(waits("a", 8.0, 4 * hour, Some(full)));
        trace.jobs.push(waits("b", 8.0, 3 * hour, Some(full)));
        trace.jobs.push(waits("c", 1.0, 2 * hour, Some(full)));
        trace.jobs.push(waits("d", 8.0, hour, Some("0/5 nodes are available: 5 Insufficient nvidia.com/gpu.")));
        let again = waits("again", 4.0, 0, Some("Priority"));
        trace.jobs.push(JobRow { start: Some(hour * 1_000), ..again });
        trace.attempts.push(AttemptRow {
            job_key: Some("again".into()),
            start: Some(hour * 1_000),
            end: Some(2 * hour * 1_000),
            ..AttemptRow::default()
        });
        trace.jobs.push(waits("none", 2.0, 5 * hour, None));
        let result = Backlog::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((result.jobs, result.gpus, result.longest_s), (6, Some(31.0), Some(4.0 * 3_600.0)));
        // 8 × 1 + 8 × 2 + 1 × 3 + 8 × 4 + 4 × 3 + 2 × 0.
        assert_eq!(result.gpu_wait_hours, Some(71.0));
        let hours = |of: &Waiting| of.longest_s.map(|wait| wait / 3_600.0);
        let rows: Vec<_> =
            result.by_reason.iter().map(|of| (of.reason.as_deref(), of.jobs, of.gpus, hours(of))).collect();
        assert_eq!(
            rows,
            [
                (Some("N/N nodes are available: N Insufficient nvidia.com/gpu"), 4, Some(25.0), Some(4.0)),
                (Some("Priority"), 1, Some(4.0), Some(3.0)),
                (None, 1, Some(2.0), Some(0.0)),
            ]
        );
        assert!(result.by_reason[0].example.as_deref().unwrap().starts_with("0/5 nodes"));
        // 25 of 31 GPUs.
        let finding = result.section().finding;
        assert_eq!(
            finding,
            "**6 jobs wait** when the record ends, for **31** GPUs, the longest for **4 h**; 80.6 % of these GPUs wait for the same reason."
        );
    }

    #[test]
    fn without_a_reason_there_is_nothing_to_tell() {
        let mut trace = Trace::default();
        trace.jobs.push(job("done", "x", 1.0, 0, 0, 60));
        let why = |trace: &Trace| Backlog::of(&JobFacts::new(trace)).unwrap_err();
        assert_eq!(why(&trace), "no job is recorded as waiting at the end");
        trace.jobs.push(waits("a", 1.0, 0, None));
        assert_eq!(why(&trace), "1 job waits at the end, and the source does not say why");
    }
}
