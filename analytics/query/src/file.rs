//! The asker's own files as frames: Parquet by its name, else CSV with a header.
//!
//! The type of a CSV column has to suit every cell of it, and polars takes five microseconds to try what a cell may be: most of a minute for a million rows.
//! Cells of one *shape* are of one type, so polars is asked about the first cell of each shape alone. The shape of a number is its signs, its point, and whether an integer fits 64 bits.
//! The shape of any other cell is its text, with classes in place of digits:
//!
//! ```text
//! one digit or two, in a date:  by the days that such a month has (31, 30 or fewer), and 13 to 23, 24 to 28, 29, 30, 31, up to 59, or more
//! one digit or two, in a time:  up to 23 an hour, up to 59 a minute, or more
//! four digits:                  a leap year or none
//! more:                         alike
//! ```
//!
//! Worked example: `2024-03-05` and `2028-05-02` are of one shape, `2024-02-30` is of another, and is no date; so a column that holds all three is text.
//! Of a column of more shapes than are told apart, polars is asked about each cell, unless it is text already.
//!
//! Time: one pass over the file, without allocation for a cell whose shape is known.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, Writer};
use polars::prelude::{
    DataType, Expr, LazyCsvReader, LazyFileListReader as _, LazyFrame, PlRefPath, PolarsError, PolarsResult,
    ScanArgsParquet, ScanSources, SchemaRef, col,
};

use super::{guarded, reach};
use tracecast_analytics::error::{Error, Result};
use tracecast_analytics::ingest::ShortLines;
use tracecast_analytics::schema::{ColumnKind, all_specs};

/// Shapes of one column that are told apart: more than dates and times have in one form.
const SHAPES: usize = 4096;

/// The asker's own file as a frame.
pub(super) fn scan(path: &Path) -> Result<LazyFrame> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
        return as_text_where_ours(scan_parquet(path)?).map_err(|error| unreadable(path, &error));
    }
    let mut types = types(path)?;
    let ours = names_of_text();
    for (name, kind) in Arc::make_mut(&mut types).iter_mut() {
        // As it is written: a job may be called 007.
        if ours.contains(name.as_str()) {
            *kind = DataType::String;
        }
    }
    let reader = csv(LazyCsvReader::new(reference(path)?), Some(0)).with_dtype_overwrite(Some(types));
    guarded(|| reader.finish()).map_err(|error| unreadable(path, &error))
}

/// Names of columns that are text in every table of a trace that has them, such as `job_key` and `vc`: text in the asker's files, too, whatever their cells look
/// like, so that they can be joined.
fn names_of_text() -> BTreeSet<&'static str> {
    let is_text = |kind: ColumnKind| matches!(kind, ColumnKind::Text | ColumnKind::Label);
    let columns = || all_specs().into_iter().flat_map(|(_, columns)| columns);
    let other: BTreeSet<&str> = columns().filter(|column| !is_text(column.kind)).map(|column| column.name).collect();
    // What our own predictions call the key of a job.
    columns().map(|column| column.name).filter(|name| !other.contains(name)).chain(["job_id"]).collect()
}

/// A Parquet file's whole numbers as text where a trace has text.
fn as_text_where_ours(frame: LazyFrame) -> PolarsResult<LazyFrame> {
    let schema = guarded(|| frame.clone().collect_schema())?;
    let ours = names_of_text();
    let numbers = schema.iter().filter(|(name, kind)| kind.is_integer() && ours.contains(name.as_str()));
    let casts: Vec<Expr> = numbers.map(|(name, _)| col(name.clone()).cast(DataType::String)).collect();
    Ok(if casts.is_empty() { frame } else { frame.with_columns(casts) })
}

/// Reads CSV with a header, and tries what so many rows may be, or all.
fn csv(reader: LazyCsvReader, tried: Option<usize>) -> LazyCsvReader {
    reader.with_has_header(true).with_infer_schema_length(tried).with_try_parse_dates(true).with_glob(false)
}

/// A Parquet file as a frame.
pub(super) fn scan_parquet(path: &Path) -> Result<LazyFrame> {
    let options = ScanArgsParquet { glob: false, ..ScanArgsParquet::default() };
    let path_of = reference(path)?;
    guarded(|| LazyFrame::scan_parquet(path_of, options)).map_err(|error| unreadable(path, &error))
}

fn reference(path: &Path) -> Result<PlRefPath> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::format(path.display().to_string(), "its name is no UTF-8", "rename the file"))?;
    // Such a path may be there: a folder can be called `http:`.
    if reach::is_address(text) {
        return Err(Error::format(text, "the engine would take its name for an address", "rename its folder"));
    }
    Ok(PlRefPath::new(text))
}

/// Error for a file that the engine cannot read.
pub(super) fn unreadable(path: &Path, error: &PolarsError) -> Error {
    let text = error.to_string();
    // The engine's reader of Parquet leaves the names of what it counted unfilled.
    let why = if text.contains('{') { "its data are damaged, or cut off".to_owned() } else { text };
    unusable(path, why)
}

fn unusable(path: &Path, why: String) -> Error {
    Error::format(path.display().to_string(), why, "name a CSV file with a header, or a Parquet file (.parquet)")
}

/// Types of the columns of a CSV file that suit all of its cells.
fn types(path: &Path) -> Result<SchemaRef> {
    let columns = columns(path)?;
    let examples = ScanSources::Buffers(Arc::from([examples(path, &columns)?.into()]));
    let by_shape = typed(path, LazyCsvReader::new_with_sources(examples))?;
    let unsettled = |(column, of): (&Column, &DataType)| column.is_full() && *of != DataType::String;
    if columns.iter().zip(by_shape.iter_values()).any(unsettled) {
        return typed(path, LazyCsvReader::new(reference(path)?));
    }
    Ok(by_shape)
}

/// The types that all rows give.
fn typed(path: &Path, reader: LazyCsvReader) -> Result<SchemaRef> {
    guarded(|| csv(reader, None).finish()?.collect_schema()).map_err(|error| unreadable(path, &error))
}

/// Reads the distinct cell shapes of each column of a CSV file.
fn columns(path: &Path) -> Result<Vec<Column>> {
    let bad = |error: csv::Error| unusable(path, error.to_string());
    let opened = File::open(path).map_err(|error| unusable(path, error.to_string()))?;
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(ShortLines::new(opened));
    let header = reader.byte_headers().map_err(bad)?;
    if header.iter().all(<[u8]>::is_empty) {
        return Err(unusable(path, "it is empty".to_owned()));
    }
    if header.len() == 1 && header.iter().flatten().any(|byte| matches!(byte, b';' | b'\t')) {
        let problem = "its columns are separated by semicolons or tabs".to_owned();
        return Err(Error::format(path.display().to_string(), problem, "separate them by commas"));
    }
    let mut columns: Vec<Column> =
        header.iter().map(|name| Column { name: name.to_vec(), ..Column::default() }).collect();
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(bad)? {
        if record.len() > columns.len() {
            let line = record.position().map_or(0, csv::Position::line);
            let result =
                format!("line {line} has {} cells, where the first line names {}", record.len(), columns.len());
            return Err(unusable(path, result));
        }
        for (column, cell) in columns.iter_mut().zip(&record) {
            column.look(cell);
        }
    }
    Ok(columns)
}

/// A CSV file of the same header that holds a cell of each shape in each column.
fn examples(path: &Path, columns: &[Column]) -> Result<Vec<u8>> {
    let bad = |error: csv::Error| unusable(path, error.to_string());
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| &column.name)).map_err(bad)?;
    // An empty cell has a type of its own, unknown, and is an example of nothing; a row of empty cells keeps the file from being empty.
    let most = columns.iter().map(|column| column.examples.len()).max().unwrap_or(0).max(1);
    for row in 0..most {
        let cells = columns.iter().map(|column| column.examples.get(row).map_or(&b""[..], Vec::as_slice));
        writer.write_record(cells).map_err(bad)?;
    }
    writer.into_inner().map_err(|error| unusable(path, error.to_string()))
}

/// Shapes of the cells of one column.
#[derive(Debug, Default)]
struct Column {
    name: Vec<u8>,
    shapes: HashSet<Vec<u8>>,
    /// The first cell of each shape, in the order of the file.
    examples: Vec<Vec<u8>>,
    /// The shape of the cell that is looked at.
    shape: Vec<u8>,
}

impl Column {
    /// Whether the column has more shapes than are kept.
    fn is_full(&self) -> bool {
        self.examples.len() > SHAPES
    }

    fn look(&mut self, cell: &[u8]) {
        if cell.is_empty() || self.is_full() {
            return;
        }
        self.shape.clear();
        if !number(cell, &mut self.shape) {
            text(cell, &mut self.shape);
        }
        if !self.shapes.contains(&self.shape) {
            self.shapes.insert(self.shape.clone());
            self.examples.push(cell.to_vec());
        }
    }
}

/// Stands for digits in a shape. No byte of UTF-8, so that no text is taken for a number.
const DIGITS: u8 = 0xf8;

/// Writes the shape of a cell that looks like a number; else nothing.
fn number(cell: &[u8], shape: &mut Vec<u8>) -> bool {
    let (mut before, mut points) = (None, 0);
    for byte in cell {
        let fits = match byte {
            b'0'..=b'9' | b'e' | b'E' => true,
            b'.' => points == 0,
            b'+' | b'-' => matches!(before, None | Some(b'e' | b'E')),
            _ => false,
        };
        if !fits {
            shape.clear();
            return false;
        }
        points += usize::from(*byte == b'.');
        if !byte.is_ascii_digit() {
            shape.push(*byte);
        } else if before.is_none_or(|before: u8| !before.is_ascii_digit()) {
            shape.push(DIGITS);
        }
        before = Some(*byte);
    }
    // Only a long integer may not fit.
    if cell.len() >= 18 {
        shape.push(u8::from(std::str::from_utf8(cell).is_ok_and(|cell| cell.parse::<i64>().is_ok())));
    }
    true
}

/// Writes the shape of any other cell.
fn text(cell: &[u8], shape: &mut Vec<u8>) {
    let mut rest = cell;
    let mut is_time = false;
    while let Some(&byte) = rest.first() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            // A time of day stands behind its date.
            is_time |= matches!(byte, b' ' | b'T' | b':');
            shape.push(byte);
            rest = &rest[1..];
            continue;
        }
        let (run, after) = rest.split_at(digits);
        rest = after;
        let value = run.iter().take(4).fold(0u16, |value, digit| 10 * value + u16::from(digit - b'0'));
        let class = match digits {
            1 | 2 if is_time || after.first() == Some(&b':') => of_clock(value),
            1 | 2 => of_calendar(value),
            4 => u8::from(value.is_multiple_of(4) && (!value.is_multiple_of(100) || value.is_multiple_of(400))),
            _ => 0,
        };
        shape.extend([DIGITS, digits.min(5) as u8, class]);
    }
}

/// Class of a one- or two-digit number on a clock.
fn of_clock(number: u16) -> u8 {
    match number {
        0..=23 => 23,
        24..=59 => 59,
        _ => 99,
    }
}

/// Class of a one- or two-digit number in a calendar; months are grouped by their number of days.
fn of_calendar(number: u16) -> u8 {
    match number {
        2 => 1,
        4 | 6 | 9 | 11 => 2,
        1..=12 => 3,
        13..=23 => 23,
        24..=28 => 28,
        29..=31 => number as u8,
        32..=59 => 59,
        _ => 99,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types by shapes, and types by all cells.
    fn both(text: &str) -> (Vec<DataType>, Vec<DataType>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.csv");
        std::fs::write(&path, text).unwrap();
        let reader = LazyCsvReader::new(reference(&path).unwrap());
        let all = csv(reader, None).finish().and_then(|mut frame| frame.collect_schema()).unwrap();
        let of = |schema: &SchemaRef| schema.iter_values().cloned().collect();
        (of(&types(&path).unwrap()), of(&all))
    }

    #[test]
    fn shapes_give_the_types_that_all_cells_give() {
        let columns: &[&[&str]] = &[
            &["1", "22", "-3", "", "123456789012345678"],
            &["1", "2.5", "1e-9", "", "-0.25"],
            &["1", "9223372036854775807", "-9223372036854775808", "", "4"],
            &["true", "false", "", "true", "false"],
            &["true", "1", "", "0", "false"],
            &["2024-03-05", "1999-11-02", "", "2024-12-31", "2024-01-01"],
            &["2024-03-05", "2024-13-05", "", "2024-12-31", "2024-01-01"],
            &["2024-03-05", "2024-02-28", "", "2024-02-30", "2024-01-31"],
            &["2024-02-29", "2024-02-28", "", "2023-02-29", "2024-01-31"],
            &["2024-06-30", "2024-07-31", "", "2024-06-31", "2024-01-31"],
            &["28/02/2024", "30/01/2024", "", "30/02/2024", "01/01/2024"],
            &["2024-03-05 10:20:30", "2024-03-05 24:00:00", "", "2024-03-05 00:00:00", "2024-03-06 01:02:03"],
            &["10:20:30", "23:59:59", "", "00:00:00", "01:02:03"],
            &["1.2.3", "10.20.30", "", "4.5.6", "7.8.9"],
            &["-", "+", "", ".", "e"],
            &["1.5", "2024-03-05", "", "7", "x"],
            &["2024-03-05 10:20:30", "2024-03-05 23:59:59", "", "2024-03-05 00:00:00", "2024-03-06 01:02:03"],
            &["2024-03-05T10:20:30Z", "2024-03-05T23:59:59Z", "", "2024-03-05T00:00:00Z", "2024-03-06T01:02:03Z"],
            &["05/03/2024", "31/12/2024", "", "13/01/2024", "01/02/2024"],
            &["vision", "7", "", "x,y", "u0"],
            &["", "", "", "", ""],
            &["", "", "", "", "5"],
            &["NaN", "1.0", "inf", "", "2"],
            &["1_000", "2", "3", "4", "5"],
        ];
        for column in columns {
            let quoted = |cell: &str| if cell.contains(',') { format!("\"{cell}\"") } else { cell.to_owned() };
            let rows: Vec<String> = column.iter().map(|cell| format!("{},k", quoted(cell))).collect();
            let (by_shape, by_cell) = both(&format!("a,key\n{}\n", rows.join("\n")));
            assert_eq!(by_shape, by_cell, "{column:?}");
        }
    }

    #[test]
    fn what_is_rare_and_late_still_counts() {
        let mut text = String::from("n,s\n");
        for row in 0..5_000 {
            text.push_str(&format!("{row},\n"));
        }
        text.push_str("1.5,late\n");
        let (by_shape, by_cell) = both(&text);
        assert_eq!(by_shape, [DataType::Float64, DataType::String]);
        assert_eq!(by_shape, by_cell);
    }

    #[test]
    fn more_shapes_than_are_told_apart_are_looked_at_cell_by_cell() {
        let word = |at: usize| format!("{}x", "ab".repeat(at % 80) + &"c".repeat(at / 80));
        let mut text = String::from("a,b\n");
        for at in 0..SHAPES + 10 {
            text.push_str(&format!("2024-03-05T10:20:30.{},{}\n", "5".repeat(1 + at % 9), word(at)));
        }
        let (by_shape, by_cell) = both(&text);
        assert_eq!(by_shape, by_cell);
        assert_eq!(by_shape.last(), Some(&DataType::String));
    }

    #[test]
    fn a_file_of_a_header_alone_has_its_columns() {
        let (by_shape, _) = both("a,b\n");
        assert_eq!(by_shape.len(), 2);
    }
}
