//! Tables as frames of polars, and frames as Arrow again.
//!
//! Times are moments in UTC that show the clock of the trace's zone, so that `submit >= '2017-10-03'` and `extract(hour from submit)` mean
//! what they say there. Of what polars has more kinds of than an answer needs, integers become 64-bit integers, lengths of time seconds and
//! categories text.
//!
//! Worked number: `submit` 2017-10-06T16:30:00Z in `America/Los_Angeles` is shown as 09:30, and is still that moment.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Field, Float64Type, Int64Type, Schema, TimestampMillisecondType,
};
use polars::prelude::{
    Column, DataFrame, DataType, Int32Chunked, Int64Chunked, IntoColumn as _, IntoSeries as _, LazyFrame,
    NamedFrom as _, PolarsError, PolarsResult, Series, TimeUnit, TimeZone, col,
};

use tracecast_analytics::error::{Error, Result};
use tracecast_analytics::report::format::significant;
use tracecast_analytics::time::{SECOND_MS, Zone};

/// Rows that are turned at a time.
const CHUNK: usize = 1 << 18;

/// A table of `rows` rows, `batch(from, to)` of which are given at a time, as a frame. O(rows × columns).
pub(super) fn of_rows(
    rows: usize,
    zone: &Zone,
    batch: impl Fn(usize, usize) -> Result<RecordBatch>,
) -> Result<DataFrame> {
    let mut whole = part(&batch(0, rows.min(CHUNK))?, zone)?;
    let mut from = CHUNK;
    while from < rows {
        let to = (from + CHUNK).min(rows);
        whole.vstack_mut(&part(&batch(from, to)?, zone)?).map_err(|error| internal(&error))?;
        from = to;
    }
    Ok(whole)
}

fn part(batch: &RecordBatch, zone: &Zone) -> Result<DataFrame> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, array)| column(field.name(), array, zone));
    let columns = columns.collect::<PolarsResult<Vec<Column>>>().map_err(|error| internal(&error))?;
    DataFrame::new(batch.num_rows(), columns).map_err(|error| internal(&error))
}

/// Error that cannot occur, as the tables fix the types of their columns.
fn internal(error: &PolarsError) -> Error {
    Error::Query { sql: "a table of the trace".to_owned(), why: error.to_string() }
}

fn column(name: &str, array: &ArrayRef, zone: &Zone) -> PolarsResult<Column> {
    let series = match array.data_type() {
        ArrowType::Utf8 => Series::new(name.into(), array.as_string::<i32>().iter().collect::<Vec<Option<&str>>>()),
        ArrowType::Boolean => Series::new(name.into(), array.as_boolean().iter().collect::<Vec<Option<bool>>>()),
        ArrowType::Int64 => {
            Series::new(name.into(), array.as_primitive::<Int64Type>().iter().collect::<Vec<Option<i64>>>())
        }
        ArrowType::Float64 => {
            Series::new(name.into(), array.as_primitive::<Float64Type>().iter().collect::<Vec<Option<f64>>>())
        }
        ArrowType::Date32 => {
            let days: Vec<Option<i32>> = array.as_primitive::<Date32Type>().iter().collect();
            Int32Chunked::new(name.into(), days).into_date().into_series()
        }
        ArrowType::Timestamp(..) => {
            let moments: Vec<Option<i64>> = array.as_primitive::<TimestampMillisecondType>().iter().collect();
            Int64Chunked::new(name.into(), moments)
                .into_datetime(TimeUnit::Milliseconds, TimeZone::opt_try_new(Some(zone.name()))?)
                .into_series()
        }
        other => return Err(PolarsError::SchemaMismatch(format!("no table has a column of {other}").into())),
    };
    Ok(series.into_column())
}

/// A stored table with its times in `zone`.
pub(super) fn in_zone(mut stored: LazyFrame, zone: &Zone) -> PolarsResult<LazyFrame> {
    if zone.name() == "UTC" {
        return Ok(stored);
    }
    let schema = stored.collect_schema()?;
    let zone = TimeZone::opt_try_new(Some(zone.name()))?;
    let times = schema.iter().filter(|(_, kind)| matches!(kind, DataType::Datetime(_, Some(_))));
    let shown = times.map(|(name, _)| col(name.clone()).cast(DataType::Datetime(TimeUnit::Milliseconds, zone.clone())));
    Ok(stored.with_columns(shown.collect::<Vec<_>>()))
}

/// A kind of polars in a word.
pub(super) fn kind_in_words(kind: &DataType) -> &'static str {
    match kind {
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => "text",
        DataType::Boolean => "boolean",
        DataType::Date => "date",
        DataType::Datetime(..) => "time",
        DataType::Duration(_) => "length of time",
        kind if kind.is_float() || kind.is_decimal() => "number",
        kind if kind.is_integer() => "integer",
        _ => "other",
    }
}

/// An answer of polars as an Arrow batch, times in `zone`. Where `rounded`, numbers have ten significant digits.
pub(super) fn to_batch(frame: &DataFrame, zone: &Zone, rounded: bool) -> PolarsResult<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for column in frame.columns() {
        let array = array(column, zone, rounded)?;
        fields.push(Field::new(column.name().as_str(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(frame.height()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| PolarsError::ComputeError(error.to_string().into()))
}

fn array(column: &Column, zone: &Zone, rounded: bool) -> PolarsResult<ArrayRef> {
    let of_float = |values: &Column| -> PolarsResult<ArrayRef> {
        let values = values.cast(&DataType::Float64)?;
        let shown = |value: f64| if rounded { significant(value) } else { value };
        Ok(Arc::new(values.f64()?.iter().map(|value| value.map(shown)).collect::<Float64Array>()))
    };
    let of_text = |values: &Column| -> PolarsResult<ArrayRef> {
        Ok(Arc::new(values.cast(&DataType::String)?.str()?.iter().collect::<StringArray>()))
    };
    Ok(match column.dtype() {
        DataType::Boolean => Arc::new(column.bool()?.iter().collect::<BooleanArray>()),
        DataType::Date => Arc::new(column.cast(&DataType::Int32)?.i32()?.iter().collect::<Date32Array>()),
        DataType::Datetime(..) => {
            let moments = column.cast(&DataType::Datetime(TimeUnit::Milliseconds, None))?.cast(&DataType::Int64)?;
            let local = matches!(column.dtype(), DataType::Datetime(_, None));
            let array: TimestampMillisecondArray = moments.i64()?.iter().collect();
            Arc::new(if local { array } else { array.with_timezone(zone.name()) })
        }
        DataType::Duration(_) => {
            let ms = column.cast(&DataType::Duration(TimeUnit::Milliseconds))?.cast(&DataType::Int64)?;
            Arc::new(ms.i64()?.iter().map(|ms| ms.map(|ms| ms as f64 / SECOND_MS as f64)).collect::<Float64Array>())
        }
        kind if kind.is_float() || kind.is_decimal() => of_float(column)?,
        kind if kind.is_integer() => {
            let values = column.strict_cast(&DataType::Int64)?;
            Arc::new(values.i64()?.iter().collect::<Int64Array>())
        }
        DataType::Null => Arc::new(std::iter::repeat_n(None::<&str>, column.len()).collect::<StringArray>()),
        kind if kind.is_nested() => {
            let what = format!("column {} holds {kind}; choose a part of it, or aggregate it", column.name());
            return Err(PolarsError::SchemaMismatch(what.into()));
        }
        _ => of_text(column)?,
    })
}
