//! List of the tables that a query can name, with their columns, units, rows and unknowns.

use polars::prelude::{LazyFrame, PolarsResult};
use serde::Serialize;

use super::file::unreadable;
use super::{Tables, guarded, run};
use tracecast_analytics::error::Result;
use tracecast_analytics::facts::columns;
use tracecast_analytics::report::{Cell, Column, ReportTable};
use tracecast_analytics::schema::all_specs;

/// A table that a query can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedTable {
    /// Name of the table.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Columns, in order.
    pub columns: Vec<ListedColumn>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the values: text, time, date, integer, number or boolean.
    pub kind: String,
    /// Unit, where its name says one.
    pub unit: Option<&'static str>,
    /// Rows in which it is unknown.
    pub unknown: u64,
    /// Meaning; of the asker's own files there is none.
    pub meaning: Option<&'static str>,
}

/// Suffixes of names that say a unit.
const UNITS: [(&str, &str); 9] = [
    ("_j", "joules"),
    ("gpu_hours", "GPU-hours"),
    ("cpu_hours", "core-hours"),
    ("_kwh", "kWh"),
    ("gpu_s", "GPU-seconds"),
    ("_bytes", "bytes"),
    ("_ratio", "0 to 1"),
    ("_w", "watts"),
    ("_s", "seconds"),
];

impl Tables {
    /// All tables that have rows, `job_facts` first. Reads every column once.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn list(&self) -> Result<Vec<ListedTable>> {
        let mut listed = Vec::new();
        for name in self.names() {
            let frame = self.frame(&name)?;
            let counted = guarded(|| count(frame)).map_err(|error| unreadable(std::path::Path::new(&name), &error))?;
            let is_asked = self.with.iter().any(|(known, _)| *known == name);
            if counted.rows == 0 && !is_asked {
                continue;
            }
            let meanings = meanings(&name);
            let columns = counted
                .columns
                .into_iter()
                .map(|(column, kind, unknown)| ListedColumn {
                    unit: unit(&column),
                    meaning: meanings.iter().find(|(known, _)| *known == column).map(|(_, meaning)| *meaning),
                    name: column,
                    kind,
                    unknown,
                })
                .collect();
            listed.push(ListedTable { name, rows: counted.rows, columns });
        }
        Ok(listed)
    }
}

struct Counted {
    rows: u64,
    columns: Vec<(String, String, u64)>,
}

/// Rows, and unknowns by column.
fn count(mut frame: LazyFrame) -> PolarsResult<Counted> {
    let schema = frame.collect_schema()?;
    let nulls = run(frame.clone().null_count())?;
    let rows = run(frame.select([polars::prelude::len().alias("rows")]))?;
    let number = |frame: &polars::prelude::DataFrame, column: &str| -> PolarsResult<u64> {
        Ok(frame
            .column(column)?
            .cast(&polars::prelude::DataType::Int64)?
            .i64()?
            .get(0)
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(0))
    };
    let mut columns = Vec::new();
    for (name, kind) in schema.iter() {
        columns.push((name.to_string(), super::frame::kind_in_words(kind).to_owned(), number(&nulls, name)?));
    }
    Ok(Counted { rows: number(&rows, "rows")?, columns })
}

fn meanings(table: &str) -> Vec<(&'static str, &'static str)> {
    if table == columns::NAME {
        return columns::columns();
    }
    let specs = all_specs().into_iter().find(|(name, _)| *name == table).map_or(&[][..], |(_, specs)| specs);
    specs.iter().map(|column| (column.name, column.doc.trim())).collect()
}

fn unit(column: &str) -> Option<&'static str> {
    // `g_per_kwh` is no energy.
    UNITS
        .iter()
        .filter(|_| !column.contains("_per_"))
        .find(|(suffix, _)| column.ends_with(suffix))
        .map(|(_, unit)| *unit)
}

/// A listing for people: a table of the tables, and one of the columns of each. Columns without a known value are named in a note below.
pub fn tables(listed: &[ListedTable]) -> Vec<ReportTable> {
    let int = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    listed
        .iter()
        .map(|table| {
            let headings =
                vec![Column::text("Column"), Column::text("Holds"), Column::number("Unknown"), Column::text("Meaning")];
            let mut shown = ReportTable::new(
                format!(
                    "{}: {} rows",
                    table.name,
                    tracecast_analytics::report::format::integer(i64::try_from(table.rows).unwrap_or(i64::MAX))
                ),
                headings,
            );
            let (known, unknown): (Vec<&ListedColumn>, Vec<&ListedColumn>) =
                table.columns.iter().partition(|column| column.unknown < table.rows || table.rows == 0);
            for column in known {
                let holds = column.unit.map_or_else(|| column.kind.clone(), |unit| format!("{}, {unit}", column.kind));
                shown.rows.push(vec![
                    column.name.as_str().into(),
                    holds.into(),
                    int(column.unknown),
                    column.meaning.map_or(Cell::Missing, Cell::from),
                ]);
            }
            if !unknown.is_empty() {
                let names: Vec<&str> = unknown.iter().map(|column| column.name.as_str()).collect();
                shown.note = Some(format!("Unknown in every row: {}.", names.join(", ")));
            }
            shown
        })
        .collect()
}
