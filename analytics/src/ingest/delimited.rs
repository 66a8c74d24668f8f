//! Rows of delimited text (CSV and its kin) with named columns, one line a row.
//!
//! A line is split on its own, so that one unbalanced quote cannot swallow the rest of the file as it would in a parser
//! that lets quoted fields span lines. Accounting and telemetry exports hold no line breaks within fields; a record
//! that does is quarantined line by line, and the rows after it are read. O(bytes), one line of memory.

use super::field;
use super::progress::Observer;
use super::source::{Lines, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Ledger, RowAudit, reason};

/// Delimited text with a header.
#[derive(Debug)]
pub struct Delimited<'a> {
    lines: Lines<'a>,
    file: String,
    separator: u8,
    header: Vec<String>,
    /// The header's names in their own case.
    written: Vec<String>,
    /// Columns that repeat another's name: that one, and they.
    repeated: Vec<(usize, usize)>,
    /// A trailing separator on each row is not a field of its own.
    trailing: bool,
    /// Fields beyond the header belong to the last column (job names may hold the separator).
    last_takes_rest: bool,
    /// Lines that begin so are comments wherever they stand; empty for none.
    comment: String,
    text: String,
    ends: Vec<usize>,
    fields: String,
}

impl<'a> Delimited<'a> {
    /// Opens `file` and reads its header: the first line that is neither empty nor a `#` comment. Column names lose
    /// blanks and quotes around them and are compared in lower case.
    ///
    /// # Errors
    /// When the file cannot be opened or has no header.
    pub fn open(file: &SourceFile, separator: u8, observer: &'a dyn Observer) -> Result<Self> {
        let mut open = Self::headerless(file, separator, Vec::new(), observer)?;
        open.read_header("#")?;
        Ok(open)
    }

    /// Opens `file` as [`Delimited::open`] does, with `comment` in place of `#`, and passes over comments among the
    /// rows too. An empty `comment` means that there are none.
    ///
    /// # Errors
    /// When the file cannot be opened or has no header.
    pub fn open_with_comment(
        file: &SourceFile,
        separator: u8,
        comment: &str,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let mut open = Self::headerless(file, separator, Vec::new(), observer)?;
        open.read_header(comment)?;
        comment.clone_into(&mut open.comment);
        Ok(open)
    }

    fn read_header(&mut self, comment: &str) -> Result<()> {
        let open = self;
        let comment = comment.as_bytes();
        while let Some((_, line)) = open.lines.next_line() {
            if line.iter().all(u8::is_ascii_whitespace) || (!comment.is_empty() && line.starts_with(comment)) {
                continue;
            }
            open.text = String::from_utf8_lossy(line).into_owned();
            open.split();
            open.written =
                (0..open.ends.len()).filter_map(|ix| open.part(ix)).map(|name| name.trim().to_owned()).collect();
            if open.written.last().is_some_and(String::is_empty) && open.written.len() > 1 {
                open.written.pop();
                open.trailing = true;
            }
            open.header = open.written.iter().map(|name| name.to_ascii_lowercase()).collect();
            // VCs of Helios differ in their case alone, which is no repetition.
            open.repeated = (0..open.written.len())
                .filter_map(|again| {
                    let name = open.written.get(again).filter(|name| !name.is_empty())?;
                    let first = open.written.iter().position(|have| have == name)?;
                    (first < again).then_some((first, again))
                })
                .collect();
            return Ok(());
        }
        Err(Error::Empty {
            source_name: open.file.clone(),
            what: "the file is empty or holds no header".to_owned(),
            remedy: "export it again, with its header line".to_owned(),
        })
    }

    /// Opens `file`, whose columns are `header` as it has no header of its own.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn headerless(
        file: &SourceFile,
        separator: u8,
        header: Vec<String>,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        Ok(Self {
            lines: file.lines(observer)?,
            file: file.name().to_owned(),
            separator,
            written: header.clone(),
            header,
            repeated: Vec::new(),
            trailing: false,
            last_takes_rest: false,
            comment: String::new(),
            text: String::new(),
            ends: Vec::new(),
            fields: String::new(),
        })
    }

    /// Gives fields beyond the header to the last column, separators included.
    #[must_use]
    pub fn last_column_takes_rest(mut self) -> Self {
        self.last_takes_rest = true;
        self
    }

    /// Forgives one empty field after the last column.
    #[must_use]
    pub fn with_trailing_separator(mut self) -> Self {
        self.trailing = true;
        self
    }

    /// Column names, lower case.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Column names in the case they are written in.
    pub fn written_header(&self) -> &[String] {
        &self.written
    }

    /// Position of a column, by lower-case name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|have| have == name)
    }

    /// Position of a column that must be there.
    ///
    /// # Errors
    /// When it is not, naming the columns there are.
    pub fn require(&self, name: &str) -> Result<usize> {
        self.column(name).ok_or_else(|| Error::Format {
            file: self.file.clone(),
            line: Some(1),
            column: Some(name.to_owned()),
            found: format!("no such column among {}", self.header.join(", ")),
            remedy: "export that column too, or name the format with --reader".to_owned(),
        })
    }

    /// The next row. Rows with another number of fields than the header are quarantined and passed over.
    pub fn next_row<'s>(&'s mut self, ledger: &mut Ledger) -> Option<Record<'s>> {
        loop {
            let (line, lossy, cut) = {
                let (line, bytes) = self.lines.next_line()?;
                self.text.clear();
                let lossy = match std::str::from_utf8(bytes) {
                    Ok(text) => {
                        self.text.push_str(text);
                        false
                    }
                    Err(_) => {
                        self.text.push_str(&String::from_utf8_lossy(bytes));
                        true
                    }
                };
                (line, lossy, self.lines.was_cut())
            };
            if self.text.trim().is_empty() || (!self.comment.is_empty() && self.text.starts_with(&self.comment)) {
                continue;
            }
            if cut {
                ledger.quarantine(&RowAudit::new(&self.file, line), reason::LINE_TOO_LONG, "", &self.text);
                continue;
            }
            self.split();
            let columns = self.header.len();
            if self.ends.len() == columns + 1 && self.trailing && self.part(columns) == Some("") {
                self.ends.pop();
            }
            if self.ends.len() > columns && self.last_takes_rest && columns > 0 {
                self.join_rest(columns);
            }
            if self.ends.len() != columns {
                ledger.quarantine(&RowAudit::new(&self.file, line), reason::FIELD_COUNT, "", &self.text);
                continue;
            }
            let mut audit = RowAudit::new(&self.file, line);
            if lossy {
                audit.repair(reason::NOT_UTF8, "", &self.text);
            }
            for (first, again) in &self.repeated {
                if let (Some(one), Some(other), Some(name)) =
                    (self.part(*first), self.part(*again), self.written.get(*first))
                    && one != other
                {
                    audit.repair(reason::DUPLICATE_COLUMN, name, &format!("{one} and {other}"));
                }
            }
            return Some(Record { audit, text: &self.text, fields: &self.fields, ends: &self.ends });
        }
    }

    /// Notes in the ledger that the file ended early, if it did. Call once after the last row.
    pub fn finish(self, ledger: &mut Ledger) {
        self.lines.finish(ledger);
    }

    fn part(&self, ix: usize) -> Option<&str> {
        slice(&self.fields, &self.ends, ix)
    }

    /// Splits `text` into `fields` and `ends`. A field that begins with a quote runs to its closing quote; `""` within
    /// is a quote. A quote elsewhere is a character like any other.
    fn split(&mut self) {
        self.fields.clear();
        self.ends.clear();
        let separator = char::from(self.separator);
        let mut rest = self.text.as_str();
        loop {
            let quoted = rest.trim_start_matches(' ').strip_prefix('"');
            let closed = quoted.and_then(|inside| take_quoted(inside, separator, &mut self.fields));
            let (next, more) = match closed {
                Some(after) => after,
                None => match rest.split_once(separator) {
                    Some((field, after)) => {
                        self.fields.push_str(field);
                        (after, true)
                    }
                    None => {
                        self.fields.push_str(rest);
                        ("", false)
                    }
                },
            };
            self.ends.push(self.fields.len());
            if !more {
                return;
            }
            rest = next;
        }
    }

    /// Joins the last column with all fields after it, as they stood in the line.
    fn join_rest(&mut self, columns: usize) {
        let separator = char::from(self.separator);
        let mut kept = self.ends.clone();
        kept.truncate(columns - 1);
        let before = kept.last().copied().unwrap_or(0);
        let tail: String = (columns - 1..self.ends.len())
            .filter_map(|ix| self.part(ix))
            .collect::<Vec<_>>()
            .join(&separator.to_string());
        self.fields.truncate(before);
        self.fields.push_str(&tail);
        kept.push(self.fields.len());
        self.ends = kept;
    }
}

/// Appends the quoted field that `inside` begins with to `out`. Returns what follows the separator after it and whether
/// there was one; `None` (and `out` as before) if the quote never closes before a separator or the end.
fn take_quoted<'t>(inside: &'t str, separator: char, out: &mut String) -> Option<(&'t str, bool)> {
    let before = out.len();
    let mut rest = inside;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            out.truncate(before);
            return None;
        };
        out.push_str(part);
        if let Some(again) = after.strip_prefix('"') {
            out.push('"');
            rest = again;
            continue;
        }
        let after = after.trim_start_matches(' ');
        if after.is_empty() {
            return Some(("", false));
        }
        if let Some(next) = after.strip_prefix(separator) {
            return Some((next, true));
        }
        out.truncate(before);
        return None;
    }
}

fn slice<'f>(fields: &'f str, ends: &[usize], ix: usize) -> Option<&'f str> {
    let end = *ends.get(ix)?;
    let start = if ix == 0 { 0 } else { *ends.get(ix - 1)? };
    fields.get(start..end)
}

/// One row, and the account of what had to be repaired in it.
#[derive(Debug)]
pub struct Record<'a> {
    /// Location of the row and the repairs so far; hand it to the ledger when done.
    pub audit: RowAudit<'a>,
    text: &'a str,
    fields: &'a str,
    ends: &'a [usize],
}

impl<'a> Record<'a> {
    /// The whole line.
    pub fn raw(&self) -> &'a str {
        self.text
    }

    /// The field at `column` as it stands, `None` if there is no such column.
    pub fn field(&self, column: Option<usize>) -> Option<&'a str> {
        slice(self.fields, self.ends, column?)
    }

    /// The known text at `column`.
    pub fn text(&self, column: Option<usize>) -> Option<&'a str> {
        field::text(self.field(column))
    }

    /// The real number at `column`; failures are noted under `name`.
    pub fn number(&mut self, column: Option<usize>, name: &str) -> Option<f64> {
        field::number(self.field(column), name, &mut self.audit)
    }

    /// The non-negative number at `column`; failures are noted under `name`.
    pub fn amount(&mut self, column: Option<usize>, name: &str) -> Option<f64> {
        field::amount(self.field(column), name, &mut self.audit)
    }

    /// The percentage at `column` as a ratio; failures, and more than 100, are noted under `name`.
    pub fn percent(&mut self, column: Option<usize>, name: &str) -> Option<f64> {
        let value = self.amount(column, name)?;
        if value > 100.0 {
            self.audit.repair(reason::OUT_OF_RANGE, name, self.field(column).unwrap_or_default());
            return None;
        }
        Some(value / 100.0)
    }

    /// The whole number at `column`; failures are noted under `name`.
    pub fn whole(&mut self, column: Option<usize>, name: &str) -> Option<i64> {
        field::whole(self.field(column), name, &mut self.audit)
    }

    /// The time at `column`; failures are noted under `name`.
    pub fn moment(&mut self, column: Option<usize>, how: field::Moment<'_>, name: &str) -> Option<i64> {
        how.read(self.field(column), name, &mut self.audit)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rows(text: &str, rest: bool) -> (Vec<Vec<String>>, Ledger) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        let mut ledger = Ledger::default();
        let mut table = Delimited::open(&SourceFile::new(path), b',', &()).unwrap();
        if rest {
            table = table.last_column_takes_rest();
        }
        let columns = table.header().len();
        let mut out = Vec::new();
        while let Some(row) = table.next_row(&mut ledger) {
            out.push((0..columns).map(|ix| row.field(Some(ix)).unwrap().to_owned()).collect());
            ledger.keep(row.audit);
        }
        table.finish(&mut ledger);
        (out, ledger)
    }

    #[test]
    fn quotes_hold_separators_and_an_open_quote_costs_one_row_at_most() {
        let (rows, ledger) = rows("A , b\n\"x,y\",\"say \"\"hi\"\"\"\n\"open,2\n3,4\n", false);
        assert_eq!(rows, [vec!["x,y", "say \"hi\""], vec!["\"open", "2"], vec!["3", "4"]]);
        assert_eq!((ledger.read, ledger.quarantined), (3, 0));
    }

    #[test]
    fn wrong_field_counts_are_quarantined_with_their_line() {
        let (rows, ledger) = rows("a,b\n1\n1,2,3\n\n4,5\n", false);
        assert_eq!(rows, [["4", "5"]]);
        assert_eq!((ledger.read, ledger.kept, ledger.quarantined), (3, 1, 2));
        assert_eq!(ledger.entries[0].examples.iter().map(|e| e.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn the_last_column_can_take_the_rest_and_a_trailing_separator_is_forgiven() {
        assert_eq!(rows("a,name\n1,x,y,z\n", true).0, [["1", "x,y,z"]]);
        assert_eq!(rows("a,b,\n1,2,\n", false).0, [["1", "2"]]);
    }
}
