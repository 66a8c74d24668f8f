//! The quality ledger as part of a description: the counts, the reasons, and what that means for the reader.

use schemars::JsonSchema;
use serde::Serialize;

use crate::quality::{Damage, Entry, Outcome};
use crate::report::format::count;
use crate::report::{Cell, Column, ReportTable};
use crate::trace::Trace;

/// Counts of rows kept, repaired and left out, with the reasons.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quality {
    /// Rows read.
    pub read: u64,
    /// Rows used as they were.
    pub kept: u64,
    /// Rows used after a correction.
    pub repaired: u64,
    /// Rows not used.
    pub quarantined: u64,
    /// Reasons with counts and examples.
    pub entries: Vec<Entry>,
    /// Files that ended early.
    pub damage: Vec<Damage>,
    /// Files in the request that no reader recognised.
    pub skipped: Vec<String>,
}

impl Quality {
    /// The JSON Schema of a ledger as `inspect` writes it.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// The ledger of `trace`.
    pub fn new(trace: &Trace) -> Self {
        let ledger = &trace.ledger;
        Self {
            read: ledger.read,
            kept: ledger.kept,
            repaired: ledger.repaired,
            quarantined: ledger.quarantined,
            entries: ledger.entries.clone(),
            damage: ledger.damage.clone(),
            skipped: trace.skipped.clone(),
        }
    }

    /// Whether a row or a file could not be used.
    pub fn is_lossy(&self) -> bool {
        self.quarantined > 0 || !self.damage.is_empty()
    }

    /// The reasons for which rows could not be used, the most frequent first.
    fn why_not_used(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.outcome == Outcome::Quarantined).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        entries
    }

    /// One sentence for the summary.
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "Of **{}** rows read, {} were used as they were, {} after a repair, and {} could not be used",
            count(self.read),
            count(self.kept),
            count(self.repaired),
            count(self.quarantined)
        );
        text.push_str(&match self.why_not_used().as_slice() {
            [] => ".".to_owned(),
            [only] => format!(" ({}).", only.what),
            [most, ..] if 2 * most.count > self.quarantined => format!(" (mostly: {}).", most.what),
            [most, rest @ ..] => format!(" (for {} reasons, such as: {}).", rest.len() + 1, most.what),
        });
        for damage in &self.damage {
            if damage.after_line == 0 {
                text.push_str(&format!(" **{} could not be read**: {}.", damage.file, damage.what));
                continue;
            }
            text.push_str(&format!(" **{} ends early{}**: what follows is missing here.", damage.file, damage.after()));
        }
        text
    }

    /// The ledger as a table.
    pub fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            format!(
                "{} rows read = {} kept + {} repaired + {} quarantined",
                count(self.read),
                count(self.kept),
                count(self.repaired),
                count(self.quarantined)
            ),
            vec![
                Column::text("What was done"),
                Column::number("Times"),
                Column::text("Why"),
                Column::text("First seen"),
                Column::text("Remedy"),
            ],
        );
        for entry in &self.entries {
            let done = match entry.outcome {
                Outcome::Repaired => "repaired",
                Outcome::Quarantined => "quarantined",
            };
            let first = entry.examples.first().map_or(Cell::Missing, |example| {
                let column =
                    if example.column.is_empty() { String::new() } else { format!(", column {}", example.column) };
                Cell::from(format!("{}{column}: {}", example.place(), example.text))
            });
            table.rows.push(vec![
                done.into(),
                Cell::Int(i64::try_from(entry.count).unwrap_or(i64::MAX)),
                entry.what.as_str().into(),
                first,
                entry.remedy.as_str().into(),
            ]);
        }
        for damage in &self.damage {
            let (done, why) = match damage.after_line {
                0 => ("file not read", damage.what.clone()),
                _ => ("file cut short", format!("what follows is missing: {}", damage.what)),
            };
            table.rows.push(vec![
                done.into(),
                Cell::Int(1),
                why.into(),
                format!("{}{}", damage.file, damage.after()).into(),
                "fetch or export the file again".into(),
            ]);
        }
        if !self.skipped.is_empty() {
            table.note = Some(format!("Left out: {}.", self.skipped.join(", ")));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{Ledger, Reason, RowAudit, reason};

    /// No reason is called "mostly" where each occurred once.
    #[test]
    fn what_is_not_most_is_not_called_so() {
        let sentence = |reasons: &[Reason]| {
            let mut ledger = Ledger::default();
            for (line, reason) in (1..).zip(reasons) {
                ledger.quarantine(&RowAudit::new("a.csv", line), *reason, "", "x");
            }
            Quality::new(&Trace { ledger, ..Trace::default() }).sentence()
        };
        let (a, b) = (reason::NO_KEY, reason::MALFORMED);
        assert!(sentence(&[a]).ends_with(&format!("({}).", a.what)));
        assert!(sentence(&[a, b]).contains(&format!("(for 2 reasons, such as: {}).", a.what)));
        assert!(sentence(&[b, a, a]).contains(&format!("(mostly: {}).", a.what)));
        assert!(sentence(&[]).ends_with("could not be used."));
    }
}
