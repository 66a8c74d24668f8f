//! The asker's own files as frames: Parquet by its name, else CSV with a header.
//!
//! The type of a CSV column has to suit every cell of it, and polars takes five microseconds to try what a cell may be: most of a minute for a million rows.
//! Cells of one *shape* are of one type, so polars is asked about the first cell of each shape alone. The shape of a cell is its text with numbers in place of digits:
//!
//! ```text
//! one digit or two:  by what it may be (up to 12 a month, up to 23 an hour, up to 31 a day, up to 59 a minute, or more)
//! three to 17:       alike, but for four, which may be a year
//! 18 and more:       by their number, since they may not fit 64 bits
//! ```
//!
//! Worked example: `2024-03-05` and `1999-11-02` are of one shape, `2024-13-05` is of another, and is no date; so a column that holds all three is text. A column of more than 256 shapes is
//! not looked at further: numbers and times have fewer, so what is in it is text.
//!
//! Time: one pass over the file, without allocation for a cell whose shape is known.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, Writer};
use polars::prelude::{
    LazyCsvReader, LazyFileListReader as _, LazyFrame, PlRefPath, PolarsError, ScanArgsParquet, ScanSources, SchemaRef,
};

use super::guarded;
use crate::error::{Error, Result};

/// Shapes of one column that are told apart.
const SHAPES: usize = 256;

/// The asker's own file as a frame.
pub(super) fn scan(path: &Path) -> Result<LazyFrame> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
        return scan_parquet(path);
    }
    let types = types(path)?;
    let reader = csv(LazyCsvReader::new(reference(path)?), Some(0)).with_dtype_overwrite(Some(types));
    guarded(|| reader.finish()).map_err(|error| unreadable(path, &error))
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
    Ok(PlRefPath::new(text))
}

/// What to say of a file that the engine cannot read.
pub(super) fn unreadable(path: &Path, error: &PolarsError) -> Error {
    unusable(path, error.to_string())
}

fn unusable(path: &Path, why: String) -> Error {
    Error::format(path.display().to_string(), why, "name a CSV file with a header, or a Parquet file (.parquet)")
}

/// Types of the columns of a CSV file that suit all of its cells.
fn types(path: &Path) -> Result<SchemaRef> {
    let examples = ScanSources::Buffers(Arc::from([examples(path)?.into()]));
    let reader = LazyCsvReader::new_with_sources(examples);
    guarded(|| csv(reader, None).finish()?.collect_schema()).map_err(|error| unreadable(path, &error))
}

/// A CSV file of the same header that holds a cell of each shape in each column.
fn examples(path: &Path) -> Result<Vec<u8>> {
    let bad = |error: csv::Error| unusable(path, error.to_string());
    let mut reader = ReaderBuilder::new().flexible(true).from_path(path).map_err(bad)?;
    let header = reader.byte_headers().map_err(bad)?.clone();
    let mut columns = vec![Column::default(); header.len()];
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(bad)? {
        for (column, cell) in columns.iter_mut().zip(&record) {
            column.look(cell);
        }
    }
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_byte_record(&header).map_err(bad)?;
    // An empty cell has a type of its own, unknown, and is an example of nothing; a row of empty cells keeps the file from being empty.
    let most = columns.iter().map(|column| column.examples.len()).max().unwrap_or(0).max(1);
    for row in 0..most {
        let cells = columns.iter().map(|column| column.examples.get(row).map_or(&b""[..], Vec::as_slice));
        writer.write_record(cells).map_err(bad)?;
    }
    writer.into_inner().map_err(|error| unusable(path, error.to_string()))
}

/// What a column was seen to hold.
#[derive(Debug, Clone, Default)]
struct Column {
    shapes: HashSet<Vec<u8>>,
    /// The first cell of each shape, in the order of the file.
    examples: Vec<Vec<u8>>,
    /// The shape of the cell that is looked at.
    shape: Vec<u8>,
}

impl Column {
    fn look(&mut self, cell: &[u8]) {
        if cell.is_empty() || self.examples.len() > SHAPES {
            return;
        }
        self.shape.clear();
        shape(cell, &mut self.shape);
        if !self.shapes.contains(&self.shape) {
            self.shapes.insert(self.shape.clone());
            self.examples.push(cell.to_vec());
        }
    }
}

/// Writes the shape of a cell. What stands for digits is not ASCII, so that no text is taken for a number.
fn shape(cell: &[u8], shape: &mut Vec<u8>) {
    let mut rest = cell;
    while let Some(&byte) = rest.first() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            shape.push(byte);
            rest = &rest[1..];
            continue;
        }
        let (run, after) = rest.split_at(digits);
        rest = after;
        match run {
            [ones] => shape.extend([0xf8, 1, class(ones - b'0')]),
            [tens, ones] => shape.extend([0xf8, 2, class(10 * (tens - b'0') + (ones - b'0'))]),
            [_, _, _, _] => shape.extend([0xf8, 4]),
            _ if digits < 18 => shape.extend([0xf8, 17]),
            _ => shape.extend([0xf8, digits.min(255) as u8]),
        }
    }
}

/// What a number of one digit or two may be in a calendar or on a clock.
fn class(number: u8) -> u8 {
    match number {
        0 => 0,
        1..=12 => 12,
        13..=23 => 23,
        24..=31 => 31,
        32..=59 => 59,
        _ => 99,
    }
}

#[cfg(test)]
mod tests {
    use polars::prelude::DataType;

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
            &["1", "12345678901234567890", "", "3", "4"],
            &["true", "false", "", "true", "false"],
            &["true", "1", "", "0", "false"],
            &["2024-03-05", "1999-11-02", "", "2024-12-31", "2024-01-01"],
            &["2024-03-05", "2024-13-05", "", "2024-12-31", "2024-01-01"],
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
    fn a_file_of_a_header_alone_has_its_columns() {
        let (by_shape, _) = both("a,b\n");
        assert_eq!(by_shape.len(), 2);
    }
}
