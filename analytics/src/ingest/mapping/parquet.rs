//! Rows of Parquet: columns of any plain type, one batch in memory.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit as ArrowUnit, TimestampMillisecondType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::cell::Raw;
use super::rows::Sink;
use crate::error::{Error, Result};
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, RowAudit};
use crate::storage::{PIPED_PARQUET, guarded, parquet_metadata};

impl Sink<'_, '_, '_> {
    /// Reads a Parquet file batch by batch.
    ///
    /// # Errors
    /// When it is no Parquet file, lacks a column the mapping names, or has one of a type we do not read.
    pub(super) fn read_parquet(&mut self, file: &SourceFile, ledger: &mut Ledger) -> Result<()> {
        let failed = |e| Error::Parquet { action: "read", path: file.path().to_owned(), source: e };
        if file.is_pipe() {
            let found = "Parquet through a pipe, which is read from its end";
            return Err(Error::format(file.name(), found, PIPED_PARQUET));
        }
        let opened = File::open(file.path()).map_err(|e| Error::io("open", file.path(), e))?;
        let metadata = parquet_metadata(&opened, file.path())?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(opened, metadata);
        let header: Vec<String> =
            builder.schema().fields().iter().map(|field| field.name().trim().to_ascii_lowercase()).collect();
        let positions = self.layout.find(file, &header)?;
        let twice = |name: &&&str| header.iter().filter(|have| have == *name).count() > 1;
        if let Some(name) = self.layout.wanted.iter().find(twice) {
            return Err(Error::Format {
                file: file.name().to_owned(),
                line: None,
                column: Some((*name).to_owned()),
                found: "two columns have this name, but for their case".to_owned(),
                remedy: "rename one of them".to_owned(),
            });
        }
        let mut roots: Vec<usize> = positions.iter().copied().flatten().collect();
        roots.sort_unstable();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots.iter().copied());
        let mut reader = guarded(|| builder.with_projection(mask).build())
            .unwrap_or_else(|| Err(ParquetError::General(BROKEN.to_owned())))
            .map_err(failed)?;
        let mut line = 0;
        loop {
            let batch = match guarded(|| reader.next()) {
                Some(None) => break,
                Some(Some(Ok(batch))) => batch,
                // The library's words are of its insides.
                Some(Some(Err(_))) | None => {
                    ledger.damaged(file.name(), line, BROKEN);
                    break;
                }
            };
            let mut columns = Vec::with_capacity(positions.len());
            for (position, name) in positions.iter().zip(&self.layout.wanted) {
                // Projected columns keep their order among themselves.
                let array =
                    position.and_then(|position| roots.binary_search(&position).ok()).map(|ix| batch.column(ix));
                let values = array.map_or(Ok(Values::Null), Values::of).map_err(|found| Error::Format {
                    file: file.name().to_owned(),
                    line: None,
                    column: Some((*name).to_owned()),
                    found,
                    remedy: "write it as text, number, boolean or timestamp".to_owned(),
                })?;
                columns.push(values);
            }
            for ix in 0..batch.num_rows() {
                line += 1;
                let row: Vec<Raw<'_>> = columns.iter().map(|column| column.get(ix)).collect();
                let whole = self.layout.key.map(|_| {
                    let mut hasher = DefaultHasher::new();
                    row.iter().for_each(|value| value.text().hash(&mut hasher));
                    hasher.finish()
                });
                let text = || {
                    let cells =
                        self.layout.wanted.iter().zip(&row).map(|(name, value)| format!("{name}={}", value.text()));
                    cells.collect::<Vec<_>>().join(", ")
                };
                self.push(&row, whole, text, RowAudit::new(file.name(), line), ledger);
            }
        }
        Ok(())
    }
}

/// Finding on a file that the library cannot read.
const BROKEN: &str = "the Parquet data is damaged";

/// A Parquet column in one of the types we read.
enum Values {
    Null,
    Text(StringArray),
    Int(Int64Array),
    Num(Float64Array),
    Flag(BooleanArray),
    Utc(TimestampMillisecondArray),
    Civil(TimestampMillisecondArray),
}

impl Values {
    /// Converts `array`; what was found if its type is none we read.
    fn of(array: &ArrayRef) -> std::result::Result<Self, String> {
        let to = |kind: &DataType| cast(array, kind).map_err(|e| e.to_string());
        let other = || format!("type {}", array.data_type());
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(to(&DataType::Utf8)?.as_string_opt::<i32>().ok_or_else(other)?.clone())
            }
            DataType::Dictionary(_, value) => return Self::of(&to(value)?),
            // Identifiers may not fit a signed number; as text they keep all digits.
            DataType::UInt64 => Self::Text(to(&DataType::Utf8)?.as_string_opt::<i32>().ok_or_else(other)?.clone()),
            kind if kind.is_integer() => {
                Self::Int(to(&DataType::Int64)?.as_primitive_opt::<Int64Type>().ok_or_else(other)?.clone())
            }
            kind if kind.is_floating() => {
                Self::Num(to(&DataType::Float64)?.as_primitive_opt::<Float64Type>().ok_or_else(other)?.clone())
            }
            DataType::Boolean => Self::Flag(array.as_boolean_opt().ok_or_else(other)?.clone()),
            DataType::Timestamp(_, zone) => {
                let ms = to(&DataType::Timestamp(ArrowUnit::Millisecond, zone.clone()))?;
                let ms = ms.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(other)?.clone();
                if zone.is_some() { Self::Utc(ms) } else { Self::Civil(ms) }
            }
            DataType::Date32 | DataType::Date64 => {
                let ms = to(&DataType::Timestamp(ArrowUnit::Millisecond, None))?;
                Self::Civil(ms.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(other)?.clone())
            }
            _ => return Err(other()),
        })
    }

    fn get(&self, ix: usize) -> Raw<'_> {
        match self {
            Self::Null => Raw::Null,
            Self::Text(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Text(array.value(ix))),
            Self::Int(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Int(array.value(ix))),
            Self::Num(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Num(array.value(ix))),
            Self::Flag(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Flag(array.value(ix))),
            Self::Utc(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Utc(array.value(ix))),
            Self::Civil(array) => known(array, ix).map_or(Raw::Null, |ix| Raw::Civil(array.value(ix))),
        }
    }
}

/// `ix`, if it is in range and not null: only then may a value be taken.
fn known(array: &dyn Array, ix: usize) -> Option<usize> {
    (ix < array.len() && array.is_valid(ix)).then_some(ix)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, Float32Array, LargeStringArray, RecordBatch, TimestampNanosecondArray, UInt16Array,
        UInt64Array,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::ingest::{self, ReadOptions};
    use crate::time::TimeBasis;

    const MAPPING: &str = r#"
        table = "jobs"
        [source]
        zone = "Asia/Shanghai"
        [columns]
        job_key = { column = "Id" }
        user = { column = "who" }
        name = { column = "serial" }
        submit = { column = "at" }
        start = { column = "begun" }
        end = { column = "begun", add = ["hours"], add_unit = "h" }
        req_gpus = { column = "gpus" }
        censored = { column = "open" }
    "#;

    /// A Parquet file of four jobs, and the mapping beside it.
    fn write_jobs(dir: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
        let who: DictionaryArray<Int32Type> = [Some("ada"), None, Some("ada"), None].into_iter().collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("spare", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
            ("gpus", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(2.0), Some(2.0)]))),
            ("who", Arc::new(who)),
            ("id", Arc::new(LargeStringArray::from(vec![Some("a"), Some("b"), None, Some("b")]))),
            // 08:00 and 09:00 on the clocks of Shanghai are 00:00 and 01:00 UTC.
            ("at", Arc::new(TimestampNanosecondArray::from(vec![28_800_000_000_000, 32_400_000_000_000, 0, 0]))),
            (
                "begun",
                Arc::new(TimestampMillisecondArray::from(vec![Some(60_000), None, None, None]).with_timezone("UTC")),
            ),
            ("hours", Arc::new(UInt16Array::from(vec![2, 2, 2, 2]))),
            ("serial", Arc::new(UInt64Array::from(vec![u64::MAX, 1, 2, 3]))),
            ("open", Arc::new(BooleanArray::from(vec![Some(false), Some(true), None, None]))),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch =
            RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, array)| array).collect()).unwrap();
        let (data, mapping) = (dir.join("jobs.parquet"), dir.join("m.toml"));
        let mut writer = ArrowWriter::try_new(File::create(&data).unwrap(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::write(&mapping, MAPPING).unwrap();
        (data, mapping)
    }

    /// Local nanoseconds and UTC milliseconds, unsigned and half-width numbers, dictionaries, booleans and nulls.
    #[test]
    fn parquet_types_are_converted() {
        let dir = tempfile::tempdir().unwrap();
        let (data, mapping) = write_jobs(dir.path());
        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        let trace = ingest::read(&[SourceFile::new(&data)], &options).unwrap();
        let jobs = &trace.jobs;
        assert_eq!((trace.basis, trace.zone.as_str()), (TimeBasis::Local, "Asia/Shanghai"));
        assert_eq!(jobs.job_key.iter().collect::<Vec<_>>(), [Some("a"), Some("b")]);
        assert_eq!(jobs.user.iter().collect::<Vec<_>>(), [Some("ada"), None]);
        assert_eq!(jobs.name.iter().collect::<Vec<_>>(), [Some("18446744073709551615"), Some("1")]);
        assert_eq!(jobs.submit.iter().collect::<Vec<_>>(), [Some(0), Some(3_600_000)]);
        assert_eq!(jobs.end.iter().collect::<Vec<_>>(), [Some(60_000 + 7_200_000), None]);
        assert_eq!(jobs.run_s.iter().collect::<Vec<_>>(), [Some(7_200.0), None]);
        assert_eq!(jobs.req_gpus.iter().collect::<Vec<_>>(), [Some(0.5), None]);
        assert_eq!(jobs.censored.iter().collect::<Vec<_>>(), [Some(0), Some(1)]);
        // Row 3 has no key; row 4 has that of row 2 and other values.
        assert_eq!((trace.ledger.count("no_key"), trace.ledger.count("repeated_key")), (1, 1));
        assert_eq!((trace.ledger.read, trace.ledger.kept), (4, 2));
    }

    /// The Arrow schema that writers embed is another's word on the data: damaged at will, the rows are the same.
    #[test]
    fn the_embedded_arrow_schema_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (data, mapping) = write_jobs(dir.path());
        let whole = std::fs::read(&data).unwrap();
        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        let jobs = |bytes: &[u8]| {
            std::fs::write(&data, bytes).unwrap();
            let trace = ingest::read(&[SourceFile::new(&data)], &options).unwrap();
            (trace.jobs.submit.iter().collect::<Vec<_>>(), trace.ledger.read)
        };
        let expected = jobs(&whole);
        // The value of the key is base64, which damage leaves base64.
        let key = b"ARROW:schema";
        let at = whole.windows(key.len()).position(|part| part == key).unwrap() + key.len();
        for offset in (8..400).step_by(3) {
            let mut bytes = whole.clone();
            if bytes[at + offset].is_ascii_alphanumeric() {
                bytes[at + offset] = if bytes[at + offset] == b'A' { b'/' } else { b'A' };
            }
            assert_eq!(jobs(&bytes), expected, "byte {offset} of the schema");
        }
    }

    /// Brotli is refused by its name; the column chunk's codec is what says so.
    #[test]
    fn brotli_is_refused_for_what_it_is() {
        use parquet::basic::{Compression, Type as Physical};
        use parquet::file::metadata::{
            ColumnChunkMetaData, FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
        };
        use parquet::schema::types::{SchemaDescriptor, Type};

        let column = Type::primitive_type_builder("id", Physical::INT64).build().unwrap();
        let root = Type::group_type_builder("schema").with_fields(vec![Arc::new(column)]).build().unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
        let chunk = ColumnChunkMetaData::builder(schema.column(0))
            .set_compression(Compression::BROTLI(Default::default()))
            .set_num_values(1)
            .set_data_page_offset(4)
            .set_total_compressed_size(4)
            .build()
            .unwrap();
        let group =
            RowGroupMetaData::builder(schema.clone()).set_num_rows(1).set_column_metadata(vec![chunk]).build().unwrap();
        let file = FileMetaData::new(2, 1, None, None, schema, None);
        let metadata = ParquetMetaDataBuilder::new(file).add_row_group(group).build();
        let mut bytes = b"PAR1data".to_vec();
        ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().unwrap();

        let dir = tempfile::tempdir().unwrap();
        let (data, mapping) = (dir.path().join("jobs.parquet"), dir.path().join("m.toml"));
        std::fs::write(&data, bytes).unwrap();
        std::fs::write(
            &mapping,
            "table = \"jobs\"\n[columns]\njob_key = { column = \"id\" }\nsubmit = { column = \"id\", unit = \"s\" }\n",
        )
        .unwrap();
        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        let error = ingest::read(&[SourceFile::new(&data)], &options).unwrap_err().to_string();
        assert!(error.contains("column id") && error.contains("compressed with brotli"), "{error}");
        assert!(error.contains("zstd, snappy, gzip or lz4"), "{error}");
    }

    /// Damage anywhere in a Parquet file is an error or a shorter trace, never a panic.
    #[test]
    fn damaged_parquet_does_not_panic() {
        let dir = tempfile::tempdir().unwrap();
        let (data, mapping) = write_jobs(dir.path());
        let whole = std::fs::read(&data).unwrap();
        let options = ReadOptions { mapping: Some(mapping), ..ReadOptions::default() };
        let (mut errors, mut read) = (0, 0);
        for at in (4..whole.len()).step_by(9) {
            for variant in [whole[..at].to_vec(), {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x5a;
                bytes
            }] {
                std::fs::write(&data, variant).unwrap();
                match ingest::read(&[SourceFile::new(&data)], &options) {
                    Ok(trace) => {
                        assert!(trace.ledger.balances());
                        read += 1;
                    }
                    Err(_) => errors += 1,
                }
            }
        }
        assert!(errors > 0 && read > 0);
    }
}
