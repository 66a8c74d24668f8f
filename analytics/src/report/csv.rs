//! The tables of a report as CSV, for spreadsheets: numbers as they are and not as they are shown.
//!
//! A heading carries its unit, as in `Waited (GPU-hours)`: durations are seconds, `(s)`, and shares run from 0 to 1, `(share)`. A column of several kinds, as in
//! tables of measures, has its units in a column of its own behind it. What is unknown is empty. A table is called after its section, and numbered
//! where that has several.
//!
//! O(cells). Worked example: a share of 0.25 under `Jobs`, shown as 25.0 %, is `0.25` under `Jobs (share)`.

use super::format::significant;
use super::model::{Block, Cell, Report, ReportTable};

/// A table with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvTable {
    /// Identifier of its section, with a number where that has several tables: `size` or `size-2`.
    pub name: String,
    /// The table, with a heading.
    pub text: String,
}

/// All tables of the sections of a report that are there, in their order.
///
/// # Errors
/// If the memory to write to is refused.
pub fn tables(report: &Report) -> Result<Vec<CsvTable>, csv::Error> {
    let mut result = Vec::new();
    for section in report.available() {
        let tables: Vec<&ReportTable> = section
            .blocks
            .iter()
            .filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None })
            .collect();
        for (number, table) in (1..).zip(&tables) {
            let name = if tables.len() > 1 { format!("{}-{number}", section.id) } else { section.id.clone() };
            result.push(CsvTable { name, text: render(table)? });
        }
    }
    Ok(result)
}

/// The unit of a cell that carries its own; `None` of words and of what is unknown.
fn unit(cell: &Cell) -> Option<&'static str> {
    match cell {
        Cell::Text(_) | Cell::Missing => None,
        Cell::Int(_) | Cell::Float { .. } | Cell::Compact(_) => Some(""),
        Cell::Percent(_) => Some("share"),
        Cell::Duration(_) => Some("s"),
    }
}

fn raw(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Int(value) => value.to_string(),
        Cell::Float { value, .. } | Cell::Compact(value) | Cell::Percent(value) | Cell::Duration(value) => {
            if value.is_finite() { significant(*value).to_string() } else { String::new() }
        }
        Cell::Missing => String::new(),
    }
}

/// A table as CSV.
fn render(table: &ReportTable) -> Result<String, csv::Error> {
    // Of each column its one unit, or that it has several.
    let units: Vec<Option<&str>> = (0..table.columns.len())
        .map(|column| {
            let mut units = (0..table.rows.len()).filter_map(|row| unit(table.cell(row, column)));
            let first = units.next().unwrap_or("");
            units.all(|unit| unit == first).then_some(first)
        })
        .collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut head: Vec<String> = Vec::new();
    for (column, own) in table.columns.iter().zip(&units) {
        let unit = column.unit.as_deref().filter(|unit| !unit.is_empty());
        head.push(match unit.or(own.filter(|own| !own.is_empty())) {
            Some(unit) => format!("{} ({unit})", column.name),
            None => column.name.clone(),
        });
        if own.is_none() {
            head.push(format!("{}, unit", column.name));
        }
    }
    writer.write_record(&head)?;
    for row in 0..table.rows.len() {
        let mut cells: Vec<String> = Vec::with_capacity(head.len());
        for (column, own) in units.iter().enumerate() {
            let cell = table.cell(row, column);
            cells.push(raw(cell));
            if own.is_none() {
                cells.push(unit(cell).unwrap_or("").to_owned());
            }
        }
        writer.write_record(&cells)?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::model::{Column, Section};
    use super::*;

    #[test]
    fn the_worked_example() {
        let columns = vec![Column::text("Size"), Column::number("Jobs"), Column::with_unit("Waited", "GPU-hours")];
        let mut sizes = ReportTable::new("Sizes", columns);
        sizes.rows.push(vec!["a, \"b\"".into(), Cell::Percent(0.25), Cell::Compact(12_345.678_000_000_002)]);
        sizes.rows.push(vec!["c".into(), Cell::Missing]);
        let mut measures = ReportTable::new("Use", vec![Column::text("Measure"), Column::number("Value")]);
        measures.rows.push(vec!["Makespan".into(), Cell::Duration(90.0)]);
        measures.rows.push(vec!["Jobs".into(), Cell::Int(7)]);
        let mut report = Report::new("r", "");
        report.sections = vec![
            Section::new("size", "Sizes").with_table(sizes),
            Section::new("use", "Use").with_table(measures.clone()).with_table(measures),
        ];
        let result = tables(&report).unwrap();
        let names: Vec<&str> = result.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["size", "use-1", "use-2"]);
        let expected = "Size,Jobs (share),Waited (GPU-hours)\n\"a, \"\"b\"\"\",0.25,12345.678\nc,,\n";
        assert_eq!(result.first().unwrap().text, expected);
        assert_eq!(result.last().unwrap().text, "Measure,Value,\"Value, unit\"\nMakespan,90,s\nJobs,7,\n");
    }
}
