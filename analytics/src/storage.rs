//! Trace folders: the tables as Parquet files beside a `manifest.json`.
//!
//! The folder is written under a passing name, made durable and renamed ([`atomic`]), so a reader never sees half of one, also after the machine
//! failed. Only folders whose manifest says that this program wrote them are ever replaced, and of those only the manifest and the tables
//! that it lists. Parquet is written by
//! arrow's own writer: zstd, row groups of 256 k rows, times as `timestamp[ms, UTC]`, and key-value metadata with the
//! schema version. The manifest holds no clock time and no machine name: the same source gives the same bytes.

pub mod atomic;
pub mod encode;

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::quality::Ledger;
use crate::schema::{ColumnKind, ColumnMut, ColumnRef, MOST_NUMBER, Table, VERSION, all_specs};
use crate::time::{TimeBasis, within_reach};
use crate::trace::{Selected, SourceRecord, Trace, each_table};

use atomic::sync_folder;
pub use atomic::{Unfinished, write_files};

/// Rows in a row group, and in a batch on the way there.
const ROW_GROUP: usize = 1 << 18;

/// Content of `manifest.json`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of the tables.
    pub schema: String,
    /// Version of the program that wrote the folder.
    pub written_by: String,
    /// Reference of the times.
    pub basis: TimeBasis,
    /// IANA name of the cluster's own time zone.
    pub zone: String,
    /// Files the trace was read from.
    pub sources: Vec<SourceRecord>,
    /// Files that no reader recognised.
    pub skipped: Vec<String>,
    /// Notes of the reader on the source.
    pub notes: Vec<String>,
    /// Whether the source counts GPUs at all.
    pub counts_gpus: bool,
    /// Selection that the trace was cut to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<Selected>,
    /// Tables in the folder with their rows.
    pub tables: Vec<TableRecord>,
    /// Account of every row.
    pub quality: Ledger,
}

/// A table in a folder.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TableRecord {
    /// Name; the file is `<name>.parquet`.
    pub name: String,
    /// Rows.
    pub rows: usize,
}

/// Name of the file that makes a folder a trace folder.
const MANIFEST: &str = "manifest.json";
/// Longest manifest looked at, bytes.
const LONGEST_MANIFEST: u64 = 64 << 20;

/// Fields of a manifest that tell who wrote it. Other programs have files of that name too.
#[derive(Deserialize)]
struct Sign {
    schema: String,
    written_by: String,
    tables: Vec<TableRecord>,
}

/// The manifest of a folder that this program wrote, in this version or another; `None` if it is somebody else's, or none.
fn sign(folder: &Path) -> Option<Sign> {
    let file = File::open(folder.join(MANIFEST)).ok()?;
    let mut text = String::new();
    file.take(LONGEST_MANIFEST).read_to_string(&mut text).ok()?;
    let sign: Sign = serde_json::from_str(&text).ok()?;
    let ours = sign.written_by.starts_with("tracecast ") && sign.schema.starts_with("trace/");
    ours.then_some(sign)
}

/// Whether `path` is a trace folder: one whose `manifest.json` says so, or is damaged beside a table of ours.
pub fn is_folder(path: &Path) -> bool {
    let manifest = path.join(MANIFEST);
    if !manifest.is_file() {
        return false;
    }
    if sign(path).is_some() {
        return true;
    }
    let readable =
        File::open(&manifest).map(|file| serde_json::from_reader::<_, serde_json::Value>(file.take(LONGEST_MANIFEST)));
    // One that says another version, or nothing, of our schema is refused where it is read, for that reason.
    let says_schema =
        matches!(&readable, Ok(Ok(value)) if value.get("schema").is_some_and(serde_json::Value::is_string));
    let table = all_specs().iter().any(|(name, _)| path.join(format!("{name}.parquet")).is_file());
    table && (says_schema || !matches!(readable, Ok(Ok(_))))
}

/// The files that this program wrote into a trace folder: the manifest, and the tables that it lists by names that are ours.
fn own_files(sign: &Sign) -> Vec<String> {
    let known = all_specs();
    let listed = sign.tables.iter().filter(|table| known.iter().any(|(name, _)| *name == table.name));
    std::iter::once(MANIFEST.to_owned()).chain(listed.map(|table| format!("{}.parquet", table.name))).collect()
}

/// Content of the place where a trace folder is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nothing, or an empty folder.
    Free,
    /// A trace folder that this program wrote.
    Trace,
    /// Something else, which is never replaced.
    Other,
}

/// Returns what is at `path`.
pub fn place(path: &Path) -> Place {
    if !path.exists() {
        return if path.is_symlink() { Place::Other } else { Place::Free };
    }
    let empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if empty {
        Place::Free
    } else if sign(path).is_some() {
        Place::Trace
    } else {
        Place::Other
    }
}

/// Writes `trace` as a new folder at `path`. Of a trace folder that this program wrote, the manifest and the tables are replaced, and
/// what others put beside them stays. Anything else there is an error.
///
/// # Errors
/// When something else is at `path` or the files cannot be written; what was there is then as before.
pub fn save(trace: &Trace, path: &Path) -> Result<Manifest> {
    let place = place(path);
    if place == Place::Other {
        return Err(Error::Setting {
            setting: format!("output {}", path.display()),
            found: "something that is no trace folder of this program is already there".to_owned(),
            remedy: "name another folder, or remove it yourself".to_owned(),
        });
    }
    // Of a link, the folder it leads to is replaced, and not the link.
    let target =
        if path.exists() { path.canonicalize().map_err(|e| Error::io("find", path, e))? } else { path.to_owned() };
    let parent = atomic::beside(&target);
    atomic::remove_left_behind(parent, &is_own_file);
    let unfinished = Unfinished::folder(&target).map_err(|e| Error::io("create a folder in", parent, e))?;
    let manifest = write_folder(trace, unfinished.path())?;
    sync_folder(unfinished.path())?;
    if place == Place::Trace {
        replace(unfinished, &target)?;
    } else {
        // Over an empty folder, too.
        unfinished.publish(&target).map_err(|e| Error::io("rename", path, e))?;
    }
    sync_folder(parent)?;
    Ok(manifest)
}

/// Whether a file of a trace folder may be this program's, by its name.
fn is_own_file(name: &str) -> bool {
    let table = name.strip_suffix(".parquet");
    name == MANIFEST || all_specs().iter().any(|(known, _)| table == Some(known))
}

/// Puts a new folder in the place of the trace folder `target`, with what is not ours in that.
fn replace(new: Unfinished, target: &Path) -> Result<()> {
    let ours = sign(target).map(|sign| own_files(&sign)).unwrap_or_default();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(target).map_err(|e| Error::io("list", target, e))? {
        let name = entry.map_err(|e| Error::io("list", target, e))?.file_name();
        if ours.iter().any(|file| name.to_str() == Some(file)) {
            continue;
        }
        if new.path().join(&name).exists() {
            return Err(Error::Setting {
                setting: format!("output {}", target.display()),
                found: format!(
                    "its {} is not among the files that its manifest lists, and would be lost",
                    name.display()
                ),
                remedy: "move that file away, or name another folder".to_owned(),
            });
        }
        others.push(name);
    }
    new.replace(target, &ours, &others)
}

/// Most that is read of a file that says how to do something (factors, a mapping, a configuration), bytes.
const MOST_TEXT: u64 = 16 << 20;

/// The text of a file that says how to do something, such as factors or a configuration. Not for sources, which may be of any length.
///
/// # Errors
/// When it cannot be read, is no text, or has more than 16 MiB (a device that never ends has).
pub fn read_text(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    read_text_from(path, file)
}

/// Reads the text of `source`, which is open already and which errors call `path`.
///
/// # Errors
/// When it cannot be read, is no text, or has more than 16 MiB.
pub fn read_text_from(path: &Path, source: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    source.take(MOST_TEXT + 1).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    let wrong = |result: &str| Error::format(path.display().to_string(), result, "name the file that was meant");
    if bytes.len() as u64 > MOST_TEXT {
        return Err(wrong("it has more than 16 MiB, the most that is read of such a file"));
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is no text (UTF-8)"))
}

fn write_folder(trace: &Trace, folder: &Path) -> Result<Manifest> {
    let mut tables = Vec::new();
    each_table!(&trace, table => write_table(table, folder, &mut tables)?);
    let manifest = Manifest {
        schema: VERSION.to_owned(),
        written_by: format!("tracecast {}", env!("CARGO_PKG_VERSION")),
        basis: trace.basis.clone(),
        zone: trace.zone.clone(),
        sources: trace.sources.clone(),
        skipped: trace.skipped.clone(),
        notes: trace.notes.clone(),
        counts_gpus: trace.counts_gpus,
        selected: trace.selected.clone(),
        tables,
        quality: trace.ledger.clone(),
    };
    let path = folder.join(MANIFEST);
    let mut text = serde_json::to_string_pretty(&manifest).map_err(|e| Error::Json {
        action: "write",
        path: path.clone(),
        source: e,
    })?;
    text.push('\n');
    let written =
        File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|e| Error::io("write", path, e))?;
    Ok(manifest)
}

fn write_table<T: Table>(table: &T, folder: &Path, tables: &mut Vec<TableRecord>) -> Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    write_parquet(table, &folder.join(format!("{}.parquet", T::NAME)))?;
    tables.push(TableRecord { name: T::NAME.to_owned(), rows: table.len() });
    Ok(())
}

/// Writes one table as a Parquet file at `path`, where nothing may be yet.
///
/// # Errors
/// When the file cannot be written.
pub fn write_parquet<T: Table>(table: &T, path: &Path) -> Result<()> {
    let file = File::create_new(path).map_err(|e| Error::io("create", path, e))?;
    let failed = |e| Error::Parquet { action: "write", path: path.to_owned(), source: e };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_created_by(format!("tracecast {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![KeyValue::new("tracecast.schema".to_owned(), VERSION.to_owned())]))
        .build();
    let mut writer = ArrowWriter::try_new(file, schema::<T>(), Some(properties)).map_err(failed)?;
    let mut from = 0;
    while from < table.len() {
        let to = (from + ROW_GROUP).min(table.len());
        writer.write(&batch(table, from, to)?).map_err(failed)?;
        from = to;
    }
    let mut file = writer.into_inner().map_err(failed)?;
    file.flush().and_then(|()| file.sync_all()).map_err(|e| Error::io("write", path, e))
}

/// The Arrow schema of a table.
pub fn schema<T: Table>() -> SchemaRef {
    let fields: Vec<Field> = T::COLUMNS
        .iter()
        .map(|column| {
            let kind = match column.kind {
                ColumnKind::Text | ColumnKind::Label => DataType::Utf8,
                ColumnKind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
                ColumnKind::Int => DataType::Int64,
                ColumnKind::Num => DataType::Float64,
                ColumnKind::Flag => DataType::Boolean,
            };
            Field::new(column.name, kind, true)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// Rows `from..to` of a table as an Arrow batch.
///
/// # Errors
/// When the columns differ in length, which no table allows.
pub fn batch<T: Table>(table: &T, from: usize, to: usize) -> Result<RecordBatch> {
    let arrays: Vec<ArrayRef> = T::COLUMNS
        .iter()
        .zip(table.columns())
        .map(|(spec, column)| -> ArrayRef {
            match (spec.kind, column) {
                (_, ColumnRef::Text(text)) => Arc::new((from..to).map(|ix| text.get(ix)).collect::<StringArray>()),
                (_, ColumnRef::Label(label)) => Arc::new((from..to).map(|ix| label.get(ix)).collect::<StringArray>()),
                (_, ColumnRef::Num(num)) => Arc::new((from..to).map(|ix| num.get(ix)).collect::<Float64Array>()),
                (ColumnKind::Time, ColumnRef::Int(int)) => Arc::new(
                    (from..to).map(|ix| int.get(ix)).collect::<TimestampMillisecondArray>().with_timezone("UTC"),
                ),
                (ColumnKind::Flag, ColumnRef::Int(int)) => {
                    Arc::new((from..to).map(|ix| int.get(ix).map(|flag| flag != 0)).collect::<BooleanArray>())
                }
                (_, ColumnRef::Int(int)) => Arc::new((from..to).map(|ix| int.get(ix)).collect::<Int64Array>()),
            }
        })
        .collect();
    RecordBatch::try_new(schema::<T>(), arrays).map_err(|e| Error::Arrow { table: T::NAME, source: e })
}

/// Reads a trace folder.
///
/// # Errors
/// When the manifest or a table is missing, damaged or of another version.
pub fn load(path: &Path) -> Result<Trace> {
    load_but(path, None)
}

/// Reads a trace folder without one of its tables, such as telemetry that is larger than memory.
///
/// # Errors
/// See [`load`].
pub fn load_but(path: &Path, left_out: Option<&str>) -> Result<Trace> {
    load_where(path, |table| Some(table) != left_out)
}

/// Reads some tables of a trace folder; the others stay empty.
///
/// # Errors
/// See [`load`].
pub fn load_only(path: &Path, tables: &[&str]) -> Result<Trace> {
    load_where(path, |table| tables.contains(&table))
}

fn load_where(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Trace> {
    let manifest = manifest(path)?;
    let mut trace = Trace {
        basis: manifest.basis,
        zone: manifest.zone,
        sources: manifest.sources,
        skipped: manifest.skipped,
        notes: manifest.notes,
        counts_gpus: manifest.counts_gpus,
        selected: manifest.selected,
        ledger: manifest.quality,
        ..Trace::default()
    };
    let kept: Vec<TableRecord> = manifest.tables.into_iter().filter(|record| wanted(&record.name)).collect();
    each_table!(&mut trace, table => read_table(table, path, &kept)?);
    // Of folders that were written before this was done when a source is read.
    crate::trace::stray::set_apart(&mut trace);
    Ok(trace)
}

/// Reads the manifest of a trace folder.
///
/// # Errors
/// When it is missing, damaged or of another version.
pub fn manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(LONGEST_MANIFEST).read_to_string(&mut text));
    read.map_err(|e| Error::io("read", &path, e))?;
    let failed = |e| Error::Json { action: "read", path: path.clone(), source: e };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(failed)?;
    let found = value.get("schema").and_then(|schema| schema.as_str()).unwrap_or("none");
    if found != VERSION {
        return Err(Error::SchemaVersion { path: folder.to_owned(), found: found.to_owned(), supported: VERSION });
    }
    serde_json::from_value(value).map_err(failed)
}

fn read_table<T: Table>(table: &mut T, folder: &Path, tables: &[TableRecord]) -> Result<()> {
    let Some(record) = tables.iter().find(|record| record.name == T::NAME) else { return Ok(()) };
    let path = folder.join(format!("{}.parquet", T::NAME));
    *table = read_parquet(&path)?;
    if table.len() != record.rows {
        return Err(Error::format(
            path.display().to_string(),
            format!("{} rows where the manifest says {}", table.len(), record.rows),
            "ingest the source again",
        ));
    }
    Ok(())
}

/// Reads one table from the Parquet file at `path`. Columns the file lacks are unknown; columns this version does not
/// know are passed over.
///
/// # Errors
/// When the file cannot be read, a column has another type, or a time or a number is beyond what any reader lets through
/// ([`crate::time::FARTHEST_MS`], [`MOST_NUMBER`]).
pub fn read_parquet<T: Table>(path: &Path) -> Result<T> {
    guarded(|| read_parquet_unguarded(path)).unwrap_or_else(|| Err(unreadable(path, None)))
}

/// The outcome of `read`, `None` if it panicked: the Parquet library asserts in places what damaged data breaks.
/// Nothing `read` touches may be used after that. Such a panic is an answer, so nothing is printed of it.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    static QUIET_WHERE_GUARDED: Once = Once::new();
    QUIET_WHERE_GUARDED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let of_engine = ENGINES.load(Ordering::Relaxed) > 0 && is_of_engine(&std::thread::current());
            if !(GUARDED.get() || of_engine) {
                before(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(read)).ok();
    GUARDED.set(outer);
    outcome
}

/// Returns the outcome of `work`, or `None` if it panicked, there or on a thread of the query engine. Nothing that `work` touches may be used after that,
/// and nothing is printed of the panic.
pub fn guarded_with_engine<T>(work: impl FnOnce() -> T) -> Option<T> {
    ENGINES.fetch_add(1, Ordering::Relaxed);
    let outcome = guarded(work);
    ENGINES.fetch_sub(1, Ordering::Relaxed);
    outcome
}

/// Queries that are being answered.
static ENGINES: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is one of the query engine's, by its name.
fn is_of_engine(thread: &std::thread::Thread) -> bool {
    thread.name().is_some_and(|name| ["polars-", "async-executor-", "tokio-"].iter().any(|of| name.starts_with(of)))
}

thread_local! {
    /// Whether this thread is within [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Error for a Parquet file that cannot be read: its data do not decode (`None`), or the library
/// says why. A message with the library's internals, or with unfilled names, is not shown.
pub(crate) fn unreadable(path: &Path, why: Option<ParquetError>) -> Error {
    match why.filter(|why| !why.to_string().contains('{')) {
        Some(source) => Error::Parquet { action: "read", path: path.to_owned(), source },
        None => {
            let result = "its Parquet data are damaged, or cut off";
            Error::format(path.display().to_string(), result, "copy the file again, or write it from its source")
        }
    }
}

/// Remedy for Parquet that comes through a pipe.
pub(crate) const PIPED_PARQUET: &str = "save it to a file and name that";

/// Reads the metadata of the Parquet file `file`, found at `path`. Types are those of Parquet: the
/// Arrow schema that writers embed is not looked at, as nothing checks it against the data.
///
/// # Errors
/// When the file is damaged, or a column is compressed in a way that is not read.
pub(crate) fn parquet_metadata(file: &File, path: &Path) -> Result<ArrowReaderMetadata> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = guarded(|| ArrowReaderMetadata::load(file, options))
        .map_or_else(|| Err(unreadable(path, None)), |read| read.map_err(|e| unreadable(path, Some(e))))?;
    let mut columns = metadata.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns);
    let unread = columns.find(|column| matches!(column.compression(), Compression::BROTLI(_) | Compression::LZO));
    if let Some(column) = unread {
        return Err(Error::Format {
            file: path.display().to_string(),
            line: None,
            column: Some(column.column_path().string()),
            found: format!("it is compressed with {}", name_of(column.compression())),
            remedy: "write the file again with zstd, snappy, gzip or lz4".to_owned(),
        });
    }
    Ok(metadata)
}

fn name_of(compression: Compression) -> &'static str {
    if matches!(compression, Compression::LZO) { "LZO" } else { "brotli" }
}

fn read_parquet_unguarded<T: Table>(path: &Path) -> Result<T> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let metadata = parquet_metadata(&file, path)?;
    let built = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build();
    let reader = built.map_err(|e| unreadable(path, Some(e)))?;
    let mut table = T::default();
    for batch in reader {
        let batch = batch.map_err(|_| unreadable(path, None))?;
        for (spec, column) in T::COLUMNS.iter().zip(table.columns_mut()) {
            append(column, batch.column_by_name(spec.name), batch.num_rows()).map_err(|found| Error::Format {
                file: path.display().to_string(),
                line: None,
                column: Some(spec.name.to_owned()),
                found,
                remedy: "ingest the source again".to_owned(),
            })?;
        }
        table.grow(batch.num_rows());
    }
    Ok(table)
}

/// Appends an array of `rows` rows (or as many unknowns) to a column; what was found if that cannot be.
fn append(column: ColumnMut<'_>, array: Option<&ArrayRef>, rows: usize) -> std::result::Result<(), String> {
    let Some(array) = array else {
        match column {
            ColumnMut::Text(text) => (0..rows).for_each(|_| text.push(None)),
            ColumnMut::Label(label) => (0..rows).for_each(|_| label.push(None)),
            ColumnMut::Num(num) => (0..rows).for_each(|_| num.push(None)),
            ColumnMut::Int(int) => (0..rows).for_each(|_| int.push(None)),
        }
        return Ok(());
    };
    let other = || format!("type {} where another is due", array.data_type());
    match column {
        ColumnMut::Text(text) => array.as_string_opt::<i32>().ok_or_else(other)?.iter().for_each(|v| text.push(v)),
        ColumnMut::Label(label) => array.as_string_opt::<i32>().ok_or_else(other)?.iter().for_each(|v| label.push(v)),
        ColumnMut::Num(num) => {
            let values = array.as_primitive_opt::<Float64Type>().ok_or_else(other)?;
            // False for NaN, which is not the way to say unknown.
            let possible = |value: &f64| (-MOST_NUMBER..=MOST_NUMBER).contains(value);
            if let Some(far) = values.iter().flatten().find(|value| !possible(value)) {
                return Err(format!("the number {far:e}, which no source gives"));
            }
            values.iter().for_each(|v| num.push(v));
        }
        ColumnMut::Int(int) => {
            if let Some(values) = array.as_primitive_opt::<TimestampMillisecondType>() {
                if let Some(far) = values.iter().flatten().find(|ms| within_reach(*ms).is_none()) {
                    return Err(format!("the time {far} ms, more than 139 years from 1970"));
                }
                values.iter().for_each(|v| int.push(v));
            } else if let Some(values) = array.as_boolean_opt() {
                values.iter().for_each(|v| int.push(v.map(i64::from)));
            } else {
                array.as_primitive_opt::<Int64Type>().ok_or_else(other)?.iter().for_each(|v| int.push(v));
            }
        }
    }
    Ok(())
}

/// The JSON Schema of [`Manifest`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Manifest).to_value()
}

#[cfg(test)]
#[path = "storage_tests.rs"]
mod tests;
