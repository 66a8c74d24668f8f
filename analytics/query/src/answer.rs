//! The rows of an answer, and the forms they are written in.
//!
//! Times carry the offset of the zone they are shown in (`2017-10-06T09:30:00-07:00`), unknown is empty in CSV and `null` in JSON. Numbers
//! that are no numbers (0 / 0) are unknown.

use std::io::Write;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type, TimestampMillisecondType};
use polars::prelude::{DataFrame, PolarsResult};
use serde_json::Value;

use super::absent::AbsentText;
use super::frame;
use tracecast_analytics::error::Result;
use tracecast_analytics::report::{Cell, Column, ReportTable};
use tracecast_analytics::storage::encode;
use tracecast_analytics::time::{DAY_MS, Zone, format_utc};

/// Name of the answer in error messages.
const NAME: &str = "the answer";

/// The rows that a query found.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// Columns: text, booleans, 64-bit integers and floats, dates, and moments (milliseconds, with the zone as theirs).
    pub batch: RecordBatch,
    /// Texts that the query looks for and that no row has.
    pub absent: Vec<AbsentText>,
    zone: Zone,
}

impl QueryAnswer {
    pub(super) fn of(result: &DataFrame, zone: &Zone, rounded: bool) -> PolarsResult<Self> {
        Ok(Self { batch: frame::to_batch(result, zone, rounded)?, absent: Vec::new(), zone: zone.clone() })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the first `most` rows as a table for a terminal.
    pub fn table(&self, most: usize) -> ReportTable {
        let is_number = |kind: &DataType| matches!(kind, DataType::Int64 | DataType::Float64);
        let schema = self.batch.schema();
        let columns = schema.fields().iter().map(|field| {
            if is_number(field.data_type()) {
                Column::number(field.name().as_str())
            } else {
                Column::text(field.name().as_str())
            }
        });
        let rows = self.rows();
        let mut title = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
        if schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Timestamp(_, Some(_)))) {
            title.push_str(&format!(", times in {}", self.zone.name()));
        }
        let mut table = ReportTable::new(title, columns.collect());
        for row in 0..rows.min(most) {
            let cell = |array: &ArrayRef| match self.shown(array, row) {
                Value::Null => Cell::Missing,
                Value::String(text) => Cell::Text(text),
                other => Cell::Text(other.to_string()),
            };
            table.rows.push(self.batch.columns().iter().map(cell).collect());
        }
        if rows > most {
            table.note =
                Some(format!("The first {most} of {rows} rows; --rows shows more, and --format csv writes all."));
        }
        table
    }

    /// Writes the answer as CSV with a header (RFC 4180).
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn write_csv(&self, out: impl Write) -> std::io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(self.names())?;
        for row in 0..self.rows() {
            let fields = self.batch.columns().iter().map(|array| match self.value(array, row) {
                Value::Null => String::new(),
                Value::String(text) => text,
                other => other.to_string(),
            });
            writer.write_record(fields)?;
        }
        writer.flush()
    }

    /// Writes the answer as one JSON array of objects, an object a line.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn write_json(&self, mut out: impl Write) -> std::io::Result<()> {
        let names = self.names();
        out.write_all(b"[")?;
        for row in 0..self.rows() {
            out.write_all(if row == 0 { b"\n" } else { b",\n" })?;
            self.write_object(&names, row, &mut out)?;
        }
        out.write_all(if self.rows() == 0 { b"]\n" } else { b"\n]\n" })
    }

    /// Writes the answer as JSON lines, an object a line.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn write_jsonl(&self, mut out: impl Write) -> std::io::Result<()> {
        let names = self.names();
        for row in 0..self.rows() {
            self.write_object(&names, row, &mut out)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// An object with the columns in their order.
    fn write_object(&self, names: &[String], row: usize, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(b"{")?;
        for (ix, (name, array)) in names.iter().zip(self.batch.columns()).enumerate() {
            if ix > 0 {
                out.write_all(b", ")?;
            }
            serde_json::to_writer(&mut *out, name)?;
            out.write_all(b": ")?;
            serde_json::to_writer(&mut *out, &self.value(array, row))?;
        }
        out.write_all(b"}")
    }

    /// Encodes the answer as a Parquet file.
    ///
    /// # Errors
    /// When a column cannot be written.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        encode::parquet(NAME, &self.batch)
    }

    /// Encodes the answer as an Arrow IPC file.
    ///
    /// # Errors
    /// When a column cannot be written.
    pub fn arrow(&self) -> Result<Vec<u8>> {
        encode::arrow_ipc(NAME, &self.batch)
    }

    /// One value for people: as [`Self::value`], but for times, whose zone the title names.
    fn shown(&self, array: &ArrayRef, row: usize) -> Value {
        match array.data_type() {
            DataType::Timestamp(_, Some(_)) if !array.is_null(row) => {
                Value::from(self.zone.show(array.as_primitive::<TimestampMillisecondType>().value(row)))
            }
            _ => self.value(array, row),
        }
    }

    /// One value, as JSON holds it.
    fn value(&self, array: &ArrayRef, row: usize) -> Value {
        if array.is_null(row) {
            return Value::Null;
        }
        match array.data_type() {
            DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
            DataType::Boolean => Value::from(array.as_boolean().value(row)),
            DataType::Int64 => Value::from(array.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Value::from(array.as_primitive::<Float64Type>().value(row)),
            DataType::Date32 => {
                let day = i64::from(array.as_primitive::<Date32Type>().value(row));
                Value::from(format_utc(day.saturating_mul(DAY_MS)).split(' ').next().unwrap_or_default())
            }
            DataType::Timestamp(_, zone) => {
                let ms = array.as_primitive::<TimestampMillisecondType>().value(row);
                Value::from(if zone.is_some() { self.zone.rfc3339(ms) } else { format_utc(ms).replacen(' ', "T", 1) })
            }
            _ => Value::Null,
        }
    }
}
