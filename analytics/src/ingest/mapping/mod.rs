//! Reads any CSV, TSV or Parquet file whose columns a small TOML file describes (`--mapping FILE`), and the formats
//! whose descriptions are built in.
//!
//! A mapping names a canonical table, and for each of its columns the source column (or a constant), the unit and how
//! values are renamed; see `datasets/mappings/README.md`. Built-in mappings lie in `analytics/mappings` and are
//! recognised by the columns they detect. For formats with more to them (joins, attempts, several row kinds) there are
//! readers of their own.
//!
//! O(bytes); memory for the rows of the canonical table, and a hash a row to find rows that repeat. Worked number:
//! `submit = { column = "t" }` with time_unit `us` and origin 2020-09-01 00:00 in Asia/Shanghai turns 5835000000 into
//! 5,835 s past that midnight, 2020-08-31 17:37:15 UTC.

mod cell;
mod file;
mod parquet;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use self::cell::Converter;
use self::file::Mapping;
use self::rows::Rows;
use super::options::ReadOptions;
use super::reader::{Clock, Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Ledger, Reason, reason};
use crate::schema::Table;
use crate::trace::{Trace, each_table};

/// Text of the built-in mappings; where two fit a file, the first wins.
const BUILT_IN: &[(&str, &str)] = &[
    ("helios-venus-2020-09.toml", include_str!("../../../mappings/helios-venus-2020-09.toml")),
    ("fleetsim.toml", include_str!("../../../mappings/fleetsim.toml")),
];

static BUILT_IN_MAPPINGS: LazyLock<Vec<Mapping>> = LazyLock::new(|| {
    // A test holds that every one of them is right.
    BUILT_IN.iter().filter_map(|(name, text)| Mapping::parse(name, text).ok()).collect()
});

const NOT_A_FLAG: Reason = Reason {
    id: "not_a_flag",
    what: "yes or no was expected; the value is set to unknown",
    remedy: "rename the source's words to true and false with `values` in the mapping",
};
const DECIMAL_COMMA: Reason = Reason {
    id: "decimal_comma",
    what: "a number was expected, and what is there has a comma in it; the value is set to unknown",
    remedy: "if numbers are written with a decimal comma, say decimal = \",\" under [source] in the mapping",
};
const UNKNOWN_WORD: Reason = Reason {
    id: reason::UNKNOWN_STATE.id,
    what: reason::UNKNOWN_STATE.what,
    remedy: "add it to `values` of the state in the mapping",
};
const REPEATED_KEY: Reason = Reason {
    id: "repeated_key",
    what: "another row with other values has the same key, which must be unique; only the first is used",
    remedy: "map a column that tells rows apart, or export one row a job or node",
};
const NO_VALUE: Reason = Reason {
    id: "no_value",
    what: "a value without which the row says nothing is unknown",
    remedy: "export the column for every row, or give its null spelling and check the mapping",
};
const ENDED_WHILE_RUNNING: Reason = Reason {
    id: "ended_while_running",
    what: "the state says that the job is still running or waiting, yet it has an end; the end is set to unknown",
    remedy: "check the state, or rename it with `values` in the mapping",
};

/// Files described by a mapping.
#[derive(Debug)]
pub(super) struct MappingReader;

impl Reader for MappingReader {
    fn id(&self) -> &'static str {
        "mapping"
    }

    fn describes(&self) -> &'static str {
        "any CSV, TSV or Parquet file described by --mapping FILE, and built-in descriptions (fleetsim slices)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if built_in(head).is_some() { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut users: BTreeMap<&Path, Mapping> = BTreeMap::new();
        for path in files.iter().filter_map(|file| options.mapping_of(file)) {
            if !users.contains_key(path) {
                let text = crate::storage::read_text(path)?;
                users.insert(path, Mapping::parse(&path.display().to_string(), &text)?);
            }
        }
        let mut rows = Rows::default();
        let mut described = Vec::new();
        for file in files {
            let head = file.head()?;
            let given = options.mapping_of(file).and_then(|path| users.get(path));
            let Some(mapping) = given.or_else(|| built_in(&head)) else {
                return Err(Error::Setting {
                    setting: format!("--mapping for {}", file.name()),
                    found: "none is given and no built-in one fits".to_owned(),
                    remedy: "describe the file's columns as in datasets/mappings/README.md".to_owned(),
                });
            };
            described.push((file, head, mapping));
        }
        // Jobs first, and what names its zone: others are of that zone.
        described.sort_by_key(|(_, _, mapping)| (mapping.table != "jobs", mapping.zone.is_none()));
        for (file, head, mapping) in described {
            read_file(file, &head, mapping, options, &mut rows, trace)?;
        }
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Mapping
    }
}

/// The built-in mapping whose columns and texts a file beginning with `head` has.
fn built_in(head: &Head) -> Option<&'static Mapping> {
    BUILT_IN_MAPPINGS.iter().find(|mapping| {
        mapping.detect.as_ref().is_some_and(|detect| {
            let separator = char::from(mapping.separator.unwrap_or_else(|| rows::separator(head, &mapping.comment)));
            let columns: Vec<&str> = detect.columns.iter().map(String::as_str).collect();
            head.has_columns(separator, &columns) && detect.text.iter().all(|text| head.text.contains(text.as_str()))
        })
    })
}

fn read_file(
    file: &SourceFile,
    head: &Head,
    mapping: &Mapping,
    options: &ReadOptions<'_>,
    rows: &mut Rows,
    trace: &mut Trace,
) -> Result<()> {
    let zone = match &mapping.zone {
        Some(zone) => options.zone_or(zone)?,
        None => options.zone_beside(trace)?,
    };
    let converter = Converter::new(mapping, &zone)?;
    let mut ledger: Ledger = std::mem::take(&mut trace.ledger);
    let mut outcome = Ok(());
    each_table!(&mut trace, table => {
        if name(table) == mapping.table {
            outcome = rows.read(table, file, head, mapping, &converter, options, &mut ledger);
        }
    });
    trace.ledger = ledger;
    outcome?;
    if let Some(basis) = mapping.basis(&zone) {
        if basis.has_dates() && mapping.zone.is_none() && options.zone.is_none() {
            trace.note(format!(
                "{}: no time zone is given; times without an offset are taken as those of {}.",
                mapping.name,
                zone.name()
            ));
        }
        // Where the cluster is, its jobs say.
        let of_jobs = mapping.table == "jobs" || trace.jobs.is_empty();
        if of_jobs || basis.has_dates() != trace.basis.has_dates() {
            trace.basis = basis;
            zone.name().clone_into(&mut trace.zone);
        }
    }
    if !mapping.counts_gpus {
        trace.counts_gpus = false;
    }
    trace.note(format!("mapping: {}", mapping.name));
    for note in &mapping.notes {
        trace.note(note.as_str());
    }
    Ok(())
}

fn name<T: Table>(_: &T) -> &'static str {
    T::NAME
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_mapping_is_right_and_detects_something() {
        for (name, text) in BUILT_IN {
            let mapping = Mapping::parse(name, text).unwrap();
            assert!(!mapping.detect.unwrap().columns.is_empty(), "{name}");
        }
    }
}
