//! The lines of a log: which files hold any, and reading them one by one.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::ingest::{Head, ReadOptions, SourceFile};
use crate::quality::{Reason, RowAudit, reason};
use crate::trace::Trace;

/// The longest line that is still a row.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// A line with fewer fields than the format has.
pub(super) const TOO_FEW_FIELDS: Reason = Reason {
    id: "field_count",
    what: "the line has fewer fields than the format, so its values cannot be told apart",
    remedy: "fetch the log again; the last line of a log that is still written may be cut",
};

/// Lines a sniffer looks at.
const LOOKED_AT: usize = 20;

/// Whether `is_record` holds for most of the first lines that are neither empty nor comments.
pub(in crate::ingest) fn mostly_records(head: &Head, is_record: impl Fn(&str) -> bool) -> bool {
    let lines = head.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (mut records, mut others) = (0, 0);
    for line in lines.take(LOOKED_AT) {
        *(if is_record(line) { &mut records } else { &mut others }) += 1;
    }
    records > others
}

/// Calls `read` with each line of `file` that holds something and is no comment, and with the audit of its row.
///
/// # Errors
/// When the file cannot be opened or is empty.
pub(in crate::ingest) fn each_record(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    trace: &mut Trace,
    mut read: impl FnMut(&str, RowAudit<'_>, &mut Trace),
) -> Result<()> {
    let mut lines = file.lines(options.observer)?;
    let mut any = false;
    while let Some((number, bytes)) = lines.next_line() {
        let text = String::from_utf8_lossy(bytes);
        any |= !text.trim().is_empty();
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let mut audit = RowAudit::new(file.name(), number);
        if bytes.len() > LONGEST_LINE {
            trace.ledger.quarantine(&audit, reason::LINE_TOO_LONG, "", &text);
            continue;
        }
        if matches!(text, Cow::Owned(_)) {
            audit.repair(reason::NOT_UTF8, "", &text);
        }
        read(&text, audit, trace);
    }
    lines.finish(&mut trace.ledger);
    if any {
        return Ok(());
    }
    Err(Error::Empty {
        source_name: file.name().to_owned(),
        what: "the file is empty".to_owned(),
        remedy: "fetch it again".to_owned(),
    })
}
