//! The table of a Slurm controller: expected run times by key, as text that `job_submit.lua` parses.
//!
//! ```text
//! tracecast-durations 2 ROWS DIGEST
//! s USER STEM GPUS ⇥ EXPECTED_MS ⇥ P95_MS ⇥ JOBS ⇥ TESTED ⇥ KILLED     of a user, a stem of a name and a number of GPUs
//! u USER GPUS ⇥ …                                    of a user and a number of GPUs
//! v VC GPUS ⇥ …                                      of a VC, which is a partition, and a number of GPUs
//! g GPUS ⇥ …                                         of a number of GPUs
//! a ⇥ …                                              of all jobs
//! end
//! ```
//!
//! Entries are in byte order of their keys, one a key. Every byte of a text other than `A-Z a-z 0-9 _ . # / -` is `%` and two hexadecimal
//! digits, so no text, whatever is in it, can end a field or a line. Numbers are whole: milliseconds, so that no locale reads a decimal point
//! its own way. The digest is of the lines after the header ([`digest`]): where a header is the same, so is the table, and the script refuses a table
//! whose lines have another digest. The number of rows and the last line tell a table that was cut short.
//!
//! `TESTED` and `KILLED` are of the back-test of time limits (`TimeLimit`): of later jobs that were looked up under the key, how many there were, and how
//! many would have run beyond the limit; 0 and 0 where none was made. The script sets a limit from no other entry than one that passed.
//!
//! It is text rather than a Lua program because a controller that runs a program from a file runs whatever is in the file, and a
//! table that was cut short may still be a program. Writing is O(n log n) in the entries.
//!
//! Worked example: for user `o'neil`, stem `train_v#`, 4 GPUs, 5,400 s, 9,000 s and 40 jobs, tested on 25 of which one was killed, the line is
//! `s o%27neil train_v# 4 ⇥ 5400000 ⇥ 9000000 ⇥ 40 ⇥ 25 ⇥ 1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Longest time written, milliseconds: 30,000 years. Longer ones are written as this.
const LONGEST_MS: f64 = 1e15;
/// Longest key written, bytes: the script takes lines of up to 4096 for damage and refuses their table. No user name comes near.
const LONGEST_KEY: usize = 4000;
/// Most jobs written: beyond it, neighbours are the same number to Lua.
const MOST_JOBS: u64 = 1 << 53;

/// Test of a limit made from an entry, on later jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Tested {
    /// Later jobs that would have been given a limit from it.
    pub jobs: u64,
    /// Jobs among these that ran longer: the limit would have killed them.
    pub killed: u64,
}

impl std::ops::AddAssign for Tested {
    fn add_assign(&mut self, other: Self) {
        self.jobs = self.jobs.saturating_add(other.jobs);
        self.killed = self.killed.saturating_add(other.killed);
    }
}

/// Expectation for the jobs that share a user, a stem of the name, a VC or a number of GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// User, as Slurm names them.
    pub user: Option<String>,
    /// Stem of the name ([`super::name_stem`]).
    pub name_stem: Option<String>,
    /// VC, which is the partition; an entry of a user is the same in every VC.
    pub vc: Option<String>,
    /// GPUs over all nodes; `None` for jobs with any number of them.
    pub gpus: Option<u32>,
    /// Expected run time, seconds.
    pub expected_s: f64,
    /// Run time that 95 % of these jobs stay under, seconds.
    pub p95_s: f64,
    /// Jobs it is known from.
    pub jobs: u64,
    /// Test of a time limit made from the entry, on later jobs; all 0 where it was not back-tested.
    pub tested: Tested,
}

impl Entry {
    /// The key under which the script looks it up, or `None` where there is no such look-up (a stem without a user, or anything but all jobs without a
    /// number of GPUs), where a time is not a number of seconds from 0 on, or where the key has more than 4,000 bytes: such an entry is not written.
    pub fn key(&self) -> Option<String> {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if !is_time(self.expected_s) || !is_time(self.p95_s) {
            return None;
        }
        let key = match (self.user.as_deref(), self.name_stem.as_deref(), self.vc.as_deref(), self.gpus) {
            (Some(user), Some(stem), _, Some(gpus)) => Some(format!("s {} {} {gpus}", escaped(user), escaped(stem))),
            (Some(user), None, _, Some(gpus)) => Some(format!("u {} {gpus}", escaped(user))),
            (None, None, Some(vc), Some(gpus)) => Some(format!("v {} {gpus}", escaped(vc))),
            (None, None, None, Some(gpus)) => Some(format!("g {gpus}")),
            (None, None, None, None) => Some("a".to_owned()),
            _ => None,
        };
        key.filter(|key| key.len() <= LONGEST_KEY)
    }
}

/// The table of `entries`, the same bytes for the same entries in whatever order. Entries without a key ([`Entry::key`]) are left out; those that
/// share one are merged: expected by the mean over jobs, 95 % under the longest. An entry of no jobs weighs as one of one.
pub fn write_table(entries: &[Entry]) -> Vec<u8> {
    let mut rows: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        if let Some(key) = entry.key() {
            rows.entry(key).or_default().push(entry);
        }
    }
    let mut body = String::new();
    let count = rows.len();
    for (key, mut same) in rows {
        // Sums of floats depend on their order.
        same.sort_by(|a, b| a.expected_s.total_cmp(&b.expected_s).then(a.jobs.cmp(&b.jobs)));
        let weight = |entry: &Entry| entry.jobs.max(1) as f64;
        let weights: f64 = same.iter().map(|entry| weight(entry)).sum();
        let expected_s: f64 = same.iter().map(|entry| entry.expected_s * (weight(entry) / weights)).sum();
        let p95_s = same.iter().map(|entry| entry.p95_s).fold(0.0, f64::max);
        let jobs = same.iter().fold(0u64, |jobs, entry| jobs.saturating_add(entry.jobs)).min(MOST_JOBS);
        let mut tested = Tested::default();
        same.iter().for_each(|entry| tested += entry.tested);
        let (tested, killed) = (tested.jobs.min(MOST_JOBS), tested.killed.min(MOST_JOBS));
        // Writing to a string cannot fail.
        let _ =
            writeln!(body, "{key}\t{}\t{}\t{jobs}\t{tested}\t{killed}", milliseconds(expected_s), milliseconds(p95_s));
    }
    body.push_str("end\n");
    format!("tracecast-durations 2 {count} {:08x}\n{body}", digest(body.as_bytes())).into_bytes()
}

/// Whole milliseconds.
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().min(LONGEST_MS) as u64
}

/// A text with every byte that could end a field, and every one that is not ASCII, as `%` and two hexadecimal digits.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.#/-".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A polynomial over the lines of a table modulo the largest prime below 2³². Three bytes a step, those beyond a line's end 0, then the line's
/// length: no step is beyond 2⁵³, so that Lua, whose numbers may be doubles, has the same digest. Any one damage goes unseen with a chance of
/// 2⁻³²; it is no protection against anybody.
pub(super) fn digest(body: &[u8]) -> u64 {
    const PRIME: u64 = 4_294_967_291;
    const BASE: u64 = 1_048_583;
    let lines = body.strip_suffix(b"\n").unwrap_or(body).split(|byte| *byte == b'\n');
    lines.fold(0, |sum, line| {
        let sum = line.chunks(3).fold(sum, |sum, three| {
            let word = (0..3).fold(0, |word, at| word << 8 | three.get(at).copied().map_or(0, u64::from));
            (sum * BASE + word) % PRIME
        });
        (sum * BASE + (1 << 24) + line.len() as u64) % PRIME
    })
}
