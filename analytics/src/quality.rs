//! The quality ledger: what became of every row that was read.
//!
//! The law is **read = kept + repaired + quarantined**, asserted by [`Ledger::balances`] and shown by every report. A
//! row is *repaired* when it was kept after one or more of its values were corrected or set to unknown, *quarantined*
//! when it could not be used. Comments, headers and blank lines are not rows. Rows that are folded into another (a job
//! step into its job) are kept.
//!
//! Worked number: 5 rows, one with a negative duration (run set to unknown) and one without a job id:
//! read 5 = kept 3 + repaired 1 + quarantined 1.

pub mod reason;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::report::format::{count, percent};

/// Number of examples that an entry keeps.
const EXAMPLES: usize = 5;
/// Number of characters of an offending text that are shown.
const SHOWN: usize = 80;
/// One row in so many makes a repair worth a warning.
const MANY: u64 = 100;

/// Why a row was repaired or quarantined. Readers declare theirs as constants beside the code that uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// Stable identifier, `snake_case`.
    pub id: &'static str,
    /// Finding and what was done about it, one sentence.
    pub what: &'static str,
    /// Remedy for the owner of the data, one sentence.
    pub remedy: &'static str,
}

/// Location of a row in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// The file as the user named it.
    pub file: String,
    /// 1-based line (or record number in formats without lines); 0 where only the whole record showed it.
    pub line: u64,
    /// The column to blame, empty if the whole row is.
    pub column: String,
    /// The offending text, at most 80 characters.
    pub text: String,
}

/// Treatment of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Kept after a correction.
    Repaired,
    /// Left out.
    Quarantined,
}

/// One reason with its count and examples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Treatment of the rows.
    pub outcome: Outcome,
    /// Stable identifier of the reason.
    pub reason: String,
    /// The reason in words.
    pub what: String,
    /// Remedy for the owner of the data.
    pub remedy: String,
    /// Rows (quarantined) or values (repaired) concerned.
    pub count: u64,
    /// The first places it was seen.
    pub examples: Vec<Example>,
}

/// A file that ended early or could not be decoded to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// The file as the user named it.
    pub file: String,
    /// The last line read.
    pub after_line: u64,
    /// Message of the decoder.
    pub what: String,
}

impl Damage {
    /// Returns where reading stopped, for a sentence: `, after line 1,200`; empty where no line is known.
    pub fn after(&self) -> String {
        match self.after_line {
            0 => String::new(),
            line => format!(", after line {}", count(line)),
        }
    }
}

/// A quarantined row as it stood in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// The file as the user named it.
    pub file: String,
    /// 1-based line or record number; 0 where only the whole record showed it.
    pub line: u64,
    /// Stable identifier of the reason.
    pub reason: String,
    /// The row's text.
    pub row: String,
}

/// The row being read: where it stands and what had to be repaired so far.
#[derive(Debug)]
pub struct RowAudit<'a> {
    file: &'a str,
    line: u64,
    repairs: Vec<(Reason, String, String)>,
    folded: Vec<Folded>,
}

/// A local time that happened twice and was taken as the first.
#[derive(Debug)]
struct Folded {
    ms: i64,
    later_ms: i64,
    repair: usize,
}

impl<'a> RowAudit<'a> {
    /// A row at `line` (1-based) of `file`.
    pub fn new(file: &'a str, line: u64) -> Self {
        Self { file, line, repairs: Vec::new(), folded: Vec::new() }
    }

    /// Notes that a value was corrected or set to unknown.
    pub fn repair(&mut self, reason: Reason, column: &str, text: &str) {
        self.repairs.push((reason, column.to_owned(), shorten(text)));
    }

    /// Notes that a local time happened twice: at `ms`, which is taken, and again at `later_ms` (milliseconds, UTC).
    pub fn fold(&mut self, ms: i64, later_ms: i64, column: &str, text: &str) {
        self.folded.push(Folded { ms, later_ms, repair: self.repairs.len() });
        self.repair(reason::DST_FOLD, column, text);
    }

    /// The second time of a local time read as `ms`, if it happened twice and the second is no earlier than
    /// `not_before`; the row then says that the second was taken.
    pub fn take_later(&mut self, ms: i64, not_before: i64) -> Option<i64> {
        // The last that was read so: times of a row are read in the order submit, start, end.
        let at = self.folded.iter().rposition(|fold| fold.ms == ms && fold.later_ms >= not_before)?;
        let fold = self.folded.remove(at);
        if let Some((reason, _, _)) = self.repairs.get_mut(fold.repair) {
            *reason = reason::DST_FOLD_LATER;
        }
        Some(fold.later_ms)
    }

    /// The second time of a local time read as `ms`, if it happened twice, milliseconds in UTC.
    pub fn later(&self, ms: i64) -> Option<i64> {
        self.folded.iter().rev().find(|fold| fold.ms == ms).map(|fold| fold.later_ms)
    }

    /// Notes that the source itself told which of the two times of a local time read as `ms` is meant.
    pub fn told(&mut self, ms: i64) {
        let Some(at) = self.folded.iter().rposition(|fold| fold.ms == ms) else { return };
        let fold = self.folded.remove(at);
        if let Some((reason, _, _)) = self.repairs.get_mut(fold.repair) {
            *reason = reason::DST_FOLD_TOLD;
        }
    }

    /// Why a value of a column was corrected or set to unknown, if it was.
    pub fn repaired(&self, column: &str) -> Option<Reason> {
        self.repairs.iter().find(|(_, of, _)| of == column).map(|(reason, ..)| *reason)
    }

    /// Whether nothing was repaired in the row so far.
    pub fn is_clean(&self) -> bool {
        self.repairs.is_empty()
    }

    /// The 1-based line of the row.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// Account of every row read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Rows read.
    pub read: u64,
    /// Rows used as they were.
    pub kept: u64,
    /// Rows used after a correction.
    pub repaired: u64,
    /// Rows not used.
    pub quarantined: u64,
    /// Reasons, most frequent first within an outcome once [`Ledger::sort`] ran.
    pub entries: Vec<Entry>,
    /// Files that ended early.
    pub damage: Vec<Damage>,
    /// The quarantined rows themselves, kept only when [`Ledger::keep_rows`] was asked for.
    #[serde(skip)]
    rows: Vec<Quarantined>,
    #[serde(skip)]
    keep_rows: bool,
    #[serde(skip)]
    index: BTreeMap<(Outcome, String), usize>,
}

impl Ledger {
    /// Keeps the text of quarantined rows from now on, so that they can be written out.
    pub fn keep_rows(&mut self) {
        self.keep_rows = true;
    }

    /// The quarantined rows, in reading order.
    pub fn rows(&self) -> &[Quarantined] {
        &self.rows
    }

    /// Counts a row that was used.
    pub fn keep(&mut self, row: RowAudit<'_>) {
        self.read += 1;
        if row.repairs.is_empty() {
            self.kept += 1;
            return;
        }
        self.repaired += 1;
        let (file, line) = (row.file, row.line);
        for (reason, column, text) in row.repairs {
            self.enter(Outcome::Repaired, reason, file, line, &column, &text);
        }
    }

    /// Counts `rows` rows that were used as they were (formats without a row at a time).
    pub fn keep_many(&mut self, rows: u64) {
        self.read += rows;
        self.kept += rows;
    }

    /// Counts a row that cannot be used; `raw` is its text.
    pub fn quarantine(&mut self, row: &RowAudit<'_>, reason: Reason, column: &str, raw: &str) {
        self.read += 1;
        self.quarantined += 1;
        self.enter(Outcome::Quarantined, reason, row.file, row.line, column, raw);
        if self.keep_rows {
            self.rows.push(Quarantined {
                file: row.file.to_owned(),
                line: row.line,
                reason: reason.id.to_owned(),
                row: raw.to_owned(),
            });
        }
    }

    /// Moves a row counted as kept to repaired: for corrections found only after the whole file was read.
    pub fn repair_later(&mut self, reason: Reason, file: &str, line: u64, column: &str, text: &str) {
        if self.kept > 0 {
            self.kept -= 1;
            self.repaired += 1;
        }
        self.enter(Outcome::Repaired, reason, file, line, column, text);
    }

    /// Adds another account.
    pub fn merge(&mut self, other: Self) {
        self.read += other.read;
        self.kept += other.kept;
        self.repaired += other.repaired;
        self.quarantined += other.quarantined;
        for entry in other.entries {
            let known =
                self.entries.iter_mut().find(|known| known.outcome == entry.outcome && known.reason == entry.reason);
            match known {
                Some(known) => {
                    known.count += entry.count;
                    known.examples.extend(entry.examples);
                    known.examples.truncate(EXAMPLES);
                }
                None => self.entries.push(entry),
            }
        }
        // Places among the entries.
        self.index =
            self.entries.iter().enumerate().map(|(ix, entry)| ((entry.outcome, entry.reason.clone()), ix)).collect();
        self.damage.extend(other.damage);
        self.rows.extend(other.rows);
    }

    /// Adds a correction to a row counted as repaired: for what is found only after the whole file was read.
    pub fn repair_again(&mut self, reason: Reason, file: &str, line: u64, column: &str, text: &str) {
        self.enter(Outcome::Repaired, reason, file, line, column, text);
    }

    /// Adds the corrections of a row that was counted before, as kept if it was `clean`: for what only the whole record shows.
    pub fn amend(&mut self, row: RowAudit<'_>, clean: bool) {
        let (file, line) = (row.file, row.line);
        for (nth, (reason, column, text)) in row.repairs.into_iter().enumerate() {
            if clean && nth == 0 {
                self.repair_later(reason, file, line, &column, &text);
            } else {
                self.repair_again(reason, file, line, &column, &text);
            }
        }
    }

    /// Moves a row counted as kept or repaired to quarantined: for what only the whole record shows. `text` names the row.
    pub fn quarantine_later(&mut self, reason: Reason, file: &str, column: &str, text: &str) {
        if self.kept > 0 {
            self.kept -= 1;
        } else if self.repaired > 0 {
            self.repaired -= 1;
        } else {
            self.read += 1;
        }
        self.quarantined += 1;
        self.enter(Outcome::Quarantined, reason, file, 0, column, text);
        if self.keep_rows {
            let (file, reason, row) = (file.to_owned(), reason.id.to_owned(), text.to_owned());
            self.rows.push(Quarantined { file, line: 0, reason, row });
        }
    }

    /// Notes that `file` could not be read past `after_line`.
    pub fn damaged(&mut self, file: &str, after_line: u64, what: impl Into<String>) {
        self.damage.push(Damage { file: file.to_owned(), after_line, what: what.into() });
    }

    /// Whether read = kept + repaired + quarantined.
    pub fn balances(&self) -> bool {
        self.read == self.kept + self.repaired + self.quarantined
    }

    /// Rows (quarantined) or values (repaired) counted under `reason`.
    pub fn count(&self, reason: &str) -> u64 {
        self.entries.iter().filter(|entry| entry.reason == reason).map(|entry| entry.count).sum()
    }

    /// The most frequent reason for which rows were not used, in words, with its first place; `None` if all were used.
    pub fn worst(&self) -> Option<String> {
        let quarantined = || self.entries.iter().filter(|entry| entry.outcome == Outcome::Quarantined);
        // The first of the most frequent, sorted or not.
        let worst = quarantined().rev().max_by_key(|entry| entry.count)?;
        let place = worst.examples.first().map(|e| format!(" (first at {})", e.place())).unwrap_or_default();
        let others = match quarantined().count() - 1 {
            0 => String::new(),
            1 => ", and 1 other reason".to_owned(),
            more => format!(", and {more} other reasons"),
        };
        Some(format!("{} × {}{place}{others}", worst.count, worst.what))
    }

    /// Makes any damaged file and any quarantined row an error, as `--strict` does.
    ///
    /// # Errors
    /// When there is one.
    pub fn check_whole(&self) -> Result<()> {
        if let Some(damage) = self.damage.first() {
            return Err(Error::Damaged {
                file: damage.file.clone(),
                after_line: damage.after_line,
                what: damage.what.clone(),
            });
        }
        match self.worst() {
            Some(worst) => Err(Error::Strict { quarantined: self.quarantined, read: self.read, worst }),
            None => Ok(()),
        }
    }

    /// Warnings for whoever uses the rows, one sentence each: how many could not be used, repairs
    /// of many rows that change what is counted, and files that end early.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings_with("`tracecast inspect` shows the whole ledger.")
    }

    /// Warnings on rows that `tracecast inspect` does not read; `ledger` is a sentence that says
    /// where the whole ledger is.
    pub fn warnings_with(&self, ledger: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.quarantined > 0 {
            let share = self.quarantined as f64 / self.read.max(1) as f64;
            let why = self.worst().map_or_else(String::new, |worst| format!(": {worst}"));
            warnings.push(format!(
                "{} of {} rows ({}) could not be used{why}. {ledger}",
                count(self.quarantined),
                count(self.read),
                percent(share)
            ));
        }
        let many = |entry: &&Entry| entry.count * MANY >= self.read && reason::WARNED.contains(&entry.reason.as_str());
        for entry in self.entries.iter().filter(|entry| entry.outcome == Outcome::Repaired).filter(many) {
            let (rows, read) = (count(entry.count), count(self.read));
            warnings.push(format!("In {rows} of {read} rows {}: {}.", entry.what, entry.remedy));
        }
        for damage in self.damage.iter().take(EXAMPLES) {
            let (file, after, what) = (&damage.file, damage.after(), &damage.what);
            warnings.push(match damage.after_line {
                0 => format!("{file} is damaged or ends early ({what}): what could be read of it is used."),
                _ => format!("{file} is damaged or ends early{after}: what follows is missing ({what})."),
            });
        }
        if self.damage.len() > EXAMPLES {
            let more = self.damage.len() - EXAMPLES;
            warnings.push(format!("{} more files are damaged or end early.", count(more as u64)));
        }
        warnings
    }

    /// Orders entries: quarantined before repaired, most frequent first, ties by identifier.
    pub fn sort(&mut self) {
        self.entries.sort_by(|a, b| {
            b.outcome.cmp(&a.outcome).then(b.count.cmp(&a.count)).then_with(|| a.reason.cmp(&b.reason))
        });
        self.index =
            self.entries.iter().enumerate().map(|(ix, entry)| ((entry.outcome, entry.reason.clone()), ix)).collect();
    }

    fn enter(&mut self, outcome: Outcome, reason: Reason, file: &str, line: u64, column: &str, text: &str) {
        let key = (outcome, reason.id.to_owned());
        let next = self.entries.len();
        let ix = *self.index.entry(key).or_insert(next);
        if ix == next {
            self.entries.push(Entry {
                outcome,
                reason: reason.id.to_owned(),
                what: reason.what.to_owned(),
                remedy: reason.remedy.to_owned(),
                count: 0,
                examples: Vec::new(),
            });
        }
        if let Some(entry) = self.entries.get_mut(ix) {
            entry.count += 1;
            if entry.examples.len() < EXAMPLES {
                entry.examples.push(Example {
                    file: file.to_owned(),
                    line,
                    column: column.to_owned(),
                    text: shorten(text),
                });
            }
        }
    }
}

impl Example {
    /// `a.csv, line 3`; the file alone where the line is not known.
    pub fn place(&self) -> String {
        if self.line == 0 { self.file.clone() } else { format!("{}, line {}", self.file, self.line) }
    }
}

/// Shortens a text to at most 80 characters, for messages.
pub(crate) fn shorten(text: &str) -> String {
    let text = text.trim_end_matches(['\r', '\n']);
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(SHOWN - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rows_balance() {
        let mut ledger = Ledger::default();
        ledger.keep_rows();
        for line in 2..5 {
            ledger.keep(RowAudit::new("a.csv", line));
        }
        let mut row = RowAudit::new("a.csv", 5);
        row.repair(reason::NEGATIVE, "duration", "-3");
        ledger.keep(row);
        ledger.quarantine(&RowAudit::new("a.csv", 6), reason::NO_KEY, "job_id", ",x,3");
        assert_eq!((ledger.read, ledger.kept, ledger.repaired, ledger.quarantined), (5, 3, 1, 1));
        assert!(ledger.balances());
        assert_eq!(ledger.rows()[0].row, ",x,3");
        assert_eq!(ledger.count("negative_value"), 1);
        ledger.sort();
        assert_eq!(ledger.entries[0].outcome, Outcome::Quarantined);
    }

    #[test]
    fn cut_lists_are_told_where_they_are_many() {
        let warnings = |cut: u64| {
            let mut ledger = Ledger::default();
            for line in 0..200 {
                let mut row = RowAudit::new("a.txt", line);
                if line < cut {
                    row.repair(reason::CUT_ALLOC_TRES, "alloctres", "gre+");
                }
                ledger.keep(row);
            }
            ledger.warnings().concat()
        };
        assert_eq!(warnings(1), "");
        let many = warnings(150);
        assert!(many.contains("In 150 of 200 rows AllocTRES is cut") && many.contains("AllocTRES%200"), "{many}");
    }

    #[test]
    fn long_texts_are_shortened_on_characters_not_bytes() {
        let text = "é".repeat(200);
        assert_eq!(shorten(&text).chars().count(), SHOWN);
    }
}
