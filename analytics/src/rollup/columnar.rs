//! A Parquet file, one row group a thread at a time, in small batches of the few columns needed.
//!
//! Strings are read as dictionaries: a user is looked up once for each distinct value of a row group, not for each row.
//! Columns of another type than the tables write (seconds as integers, other time units, large strings) are converted
//! batch by batch. Memory: per thread one batch and one page of each column, and the description of the row groups that the
//! file ends with (about 5 KB each: 2 MB at 100 M rows).

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Float64Type, Int32Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use rayon::ThreadPool;

use super::totals::{Totals, UNKNOWN_STATE, state_of};
use super::value::{Job, in_range};
use crate::error::{Error, Result};
use crate::quality::Ledger;
use crate::storage::{self, unreadable};

/// Columns that are read where the file has them.
pub(super) const COLUMNS: [&str; 10] =
    ["submit", "start", "end", "run_s", "reported_run_s", "alloc_gpus", "req_gpus", "suspended_s", "state", "user"];
/// Rows in a batch: small enough that a batch stays in a core's own cache.
const BATCH: usize = 8_192;

/// Counts all jobs of a file.
pub(super) fn read(path: &Path, pool: &ThreadPool) -> Result<(Totals, Ledger)> {
    let failed = |source| unreadable(path, Some(source));
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let plain = storage::parquet_metadata(&file, path)?;
    let schema = as_dictionaries(plain.schema(), &["state", "user"]);
    let metadata =
        ArrowReaderMetadata::try_new(plain.metadata().clone(), ArrowReaderOptions::new().with_schema(schema))
            .map_err(failed)?;
    if metadata.schema().column_with_name("submit").is_none() {
        return Err(Error::Format {
            file: path.display().to_string(),
            line: None,
            column: Some("submit".to_owned()),
            found: "no such column".to_owned(),
            remedy: "name a jobs table, or make one with `tracecast ingest`".to_owned(),
        });
    }
    let groups = metadata.metadata().num_row_groups();
    let next = AtomicUsize::new(0);
    let parts: Vec<Result<Totals>> = pool.broadcast(|_| {
        let mut counter = Counter { totals: Totals::new(), users: Keys::default(), states: Keys::default() };
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return Ok(counter.totals);
            }
            storage::guarded(|| read_group(path, &metadata, group, &mut counter))
                .unwrap_or_else(|| {
                    let found = "the Parquet data is damaged";
                    Err(Error::format(path.display().to_string(), found, "write it again"))
                })
                .inspect_err(|_| next.store(groups, Ordering::Relaxed))?;
        }
    });
    let mut totals = Totals::new();
    for part in parts {
        totals.merge(part?);
    }
    let mut ledger = Ledger::default();
    ledger.keep_many(totals.jobs);
    Ok((totals, ledger))
}

/// The schema with the strings called `names` as dictionaries.
pub(crate) fn as_dictionaries(schema: &Schema, names: &[&str]) -> Arc<Schema> {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let text = match field.data_type() {
                DataType::Dictionary(_, value) => value.as_ref(),
                other => other,
            };
            let text = matches!(text, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            let field = field.as_ref().clone();
            if text && names.contains(&field.name().as_str()) { field.with_data_type(dictionary()) } else { field }
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn read_group(path: &Path, metadata: &ArrowReaderMetadata, group: usize, counter: &mut Counter) -> Result<()> {
    let failed = |source| unreadable(path, Some(source));
    // A file of its own: duplicated descriptors share one position, and other threads read too.
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let wanted = metadata
        .schema()
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| COLUMNS.contains(&field.name().as_str()))
        .map(|(ix, _)| ix);
    let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(BATCH)
        .build()
        .map_err(failed)?;
    for batch in reader {
        let batch = batch.map_err(|_| unreadable(path, None))?;
        counter.add(&batch)?;
    }
    Ok(())
}

/// One thread's totals and the dictionaries it saw last.
struct Counter {
    totals: Totals,
    users: Keys,
    states: Keys,
}

impl Counter {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let [submit, start, end, run_s, reported_run_s, alloc_gpus, req_gpus, suspended_s, state, user] =
            COLUMNS.map(|name| batch.column_by_name(name));
        let times = |array| times("jobs", array);
        let reals = |array| reals("jobs", array);
        let (submit, start, end) = (times(submit)?, times(start)?, times(end)?);
        let (run_s, reported_run_s) = (reals(run_s)?, reals(reported_run_s)?);
        let (alloc_gpus, req_gpus) = (reals(alloc_gpus)?, reals(req_gpus)?);
        let suspended_s = reals(suspended_s)?;
        let (states, users) = (words("jobs", state)?, words("jobs", user)?);
        self.states.follow(states.as_ref(), |word| u32::from(state_of(word)));
        self.users.follow(users.as_ref(), |word| self.totals.user(word.as_bytes()));
        let (submit, start, end) = (Column::times(&submit), Column::times(&start), Column::times(&end));
        let (run_s, reported_run_s) = (Column::reals(&run_s), Column::reals(&reported_run_s));
        let (alloc_gpus, req_gpus) = (Column::reals(&alloc_gpus), Column::reals(&req_gpus));
        let suspended_s = Column::reals(&suspended_s);
        let (states, users) = (Column::keys(&states), Column::keys(&users));
        for row in 0..batch.num_rows() {
            let state = states.get(row).and_then(|key| self.states.number(key));
            let user = users.get(row).and_then(|key| self.users.number(key));
            self.totals.add(&Job {
                submit: submit.get(row).and_then(in_range),
                start: start.get(row).and_then(in_range),
                end: end.get(row).and_then(in_range),
                run_s: run_s.get(row),
                reported_run_s: reported_run_s.get(row),
                alloc_gpus: alloc_gpus.get(row),
                req_gpus: req_gpus.get(row),
                suspended_s: suspended_s.get(row),
                state: state.map_or(UNKNOWN_STATE, |state| state as u8),
                user: user.unwrap_or(0),
            });
        }
        Ok(())
    }
}

/// Numbers that the values of the last dictionary stand for.
#[derive(Default)]
struct Keys {
    numbers: Vec<Option<u32>>,
    /// The dictionary they belong to; kept so that its address cannot be another's.
    values: Option<StringArray>,
}

impl Keys {
    /// Learns the dictionary of `words`, unless it is the one learned last.
    fn follow(&mut self, words: Option<&Words>, mut number: impl FnMut(&str) -> u32) {
        let Some(words) = words else { return };
        let same = self.values.as_ref().is_some_and(|known| {
            known.len() == words.values.len()
                && known.value_offsets().as_ptr() == words.values.value_offsets().as_ptr()
                && known.value_data().as_ptr() == words.values.value_data().as_ptr()
        });
        if !same {
            // A null or empty value names nobody.
            self.numbers =
                words.values.iter().map(|word| word.filter(|word| !word.is_empty()).map(&mut number)).collect();
            self.values = Some(words.values.clone());
        }
    }

    #[inline]
    fn number(&self, key: i32) -> Option<u32> {
        self.numbers.get(key as usize).copied().flatten()
    }
}

/// A column of strings as keys into distinct values.
pub(crate) struct Words {
    pub(crate) keys: Int32Array,
    pub(crate) values: StringArray,
}

/// A column's values and which of them are known; without values if the file lacks it.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a, T> {
    values: &'a [T],
    nulls: Option<&'a NullBuffer>,
}

impl<T: Copy> Column<'_, T> {
    /// The value of a row, `None` if unknown.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        match self.nulls {
            Some(nulls) if row >= nulls.len() || nulls.is_null(row) => None,
            _ => self.values.get(row).copied(),
        }
    }
}

impl<'a> Column<'a, i64> {
    pub(crate) fn times(array: &'a Option<ArrayRef>) -> Self {
        let values = array.as_ref().and_then(|array| match array.as_primitive_opt::<Int64Type>() {
            Some(values) => Some(&values.values()[..]),
            None => Some(&array.as_primitive_opt::<TimestampMillisecondType>()?.values()[..]),
        });
        Self { values: values.unwrap_or_default(), nulls: array.as_ref().and_then(|array| array.nulls()) }
    }
}

impl<'a> Column<'a, f64> {
    pub(crate) fn reals(array: &'a Option<ArrayRef>) -> Self {
        let values = array.as_ref().and_then(|array| Some(&array.as_primitive_opt::<Float64Type>()?.values()[..]));
        Self { values: values.unwrap_or_default(), nulls: array.as_ref().and_then(|array| array.nulls()) }
    }
}

impl<'a> Column<'a, i32> {
    pub(crate) fn keys(words: &'a Option<Words>) -> Self {
        words.as_ref().map_or(Self { values: &[], nulls: None }, Self::keys_of)
    }

    pub(crate) fn keys_of(words: &'a Words) -> Self {
        Self { values: &words.keys.values()[..], nulls: words.keys.nulls() }
    }
}

/// The column as milliseconds: integers as they are, times converted from their unit.
pub(crate) fn times(table: &'static str, array: Option<&ArrayRef>) -> Result<Option<ArrayRef>> {
    convert(table, array, |kind| match kind {
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => None,
        DataType::Timestamp(_, zone) => Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone())),
        kind if kind.is_integer() => Some(DataType::Int64),
        _ => Some(DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
    })
}

/// The column as real numbers.
pub(crate) fn reals(table: &'static str, array: Option<&ArrayRef>) -> Result<Option<ArrayRef>> {
    convert(table, array, |kind| (*kind != DataType::Float64).then_some(DataType::Float64))
}

/// The column as text, each distinct one once.
pub(crate) fn words(table: &'static str, array: Option<&ArrayRef>) -> Result<Option<Words>> {
    // Numbers as names become text first: dictionaries are made of text only.
    let array =
        convert(table, array, |kind| (*kind != dictionary() && *kind != DataType::Utf8).then_some(DataType::Utf8))?;
    let array = convert(table, array.as_ref(), |kind| (*kind != dictionary()).then(dictionary))?;
    Ok(array.and_then(|array| {
        let words = array.as_dictionary_opt::<Int32Type>()?;
        Some(Words { keys: words.keys().clone(), values: words.values().as_string_opt::<i32>()?.clone() })
    }))
}

fn convert(
    table: &'static str,
    array: Option<&ArrayRef>,
    target: impl Fn(&DataType) -> Option<DataType>,
) -> Result<Option<ArrayRef>> {
    let Some(array) = array else { return Ok(None) };
    match target(array.data_type()) {
        None => Ok(Some(array.clone())),
        Some(kind) => cast(array, &kind).map(Some).map_err(|source| Error::Arrow { table, source }),
    }
}
