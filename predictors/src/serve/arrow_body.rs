//! Jobs and predictions as Arrow IPC, stream or file. Not responsible for HTTP.
//!
//! In: a column a field of [`Submission`], by name: `job_id` (text), `submit_ms` (integer milliseconds, or a timestamp), and if there
//! `user`, `vc`, `name` (text), `gpus`, `cpus`, `limit_s` (numbers). Text may be dictionary-encoded. A null is unknown; `gpus` null is 0,
//! as in JSON. Another column is refused, as an unknown field of JSON is. Out: a column a field of [`Prediction`].
//!
//! A file is the stream between a magic number and a footer, so both are read as a stream. Lengths that the sender wrote are held
//! against the bytes there are before anything is set aside for them, and compressed batches are refused: a small request cannot
//! ask for much memory. Cost: O(bytes).
//!
//! Worked example: the columns job_id = [a, b], submit_ms = [0, 1000] are two jobs, both with 0 GPUs and no user.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::{FileWriter, StreamWriter};

use crate::job::{Prediction, Submission};

/// Media type of a stream.
pub(super) const STREAM: &str = "application/vnd.apache.arrow.stream";
/// Media type of a file.
pub(super) const FILE: &str = "application/vnd.apache.arrow.file";

/// Arrow IPC stream or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    File,
}

impl Form {
    pub(super) fn of(media_type: &str) -> Option<Self> {
        if media_type.eq_ignore_ascii_case(STREAM) {
            Some(Self::Stream)
        } else if media_type.eq_ignore_ascii_case(FILE) {
            Some(Self::File)
        } else {
            None
        }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Stream => STREAM,
            Self::File => FILE,
        }
    }
}

const MAGIC: &[u8] = b"ARROW1";
const CONTINUES: u32 = u32::MAX;
/// End of a stream: a message of length 0.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Least bytes of a job: 4 for the end of its identifier, 8 for its time.
const LEAST_JOB_BYTES: usize = 12;
const COLUMNS: [&str; 8] = ["job_id", "submit_ms", "user", "vc", "name", "gpus", "cpus", "limit_s"];

/// The jobs in the body of a request; what is wrong with it otherwise.
pub(super) fn jobs(body: Vec<u8>) -> Result<Vec<Submission>, String> {
    let buffer = Buffer::from_vec(body);
    // A library that reads offsets written by a stranger may still trip; that is the stranger's fault and nobody else's loss.
    std::panic::catch_unwind(|| read(&buffer)).unwrap_or_else(|_| Err("the Arrow data contradicts itself".to_owned()))
}

fn read(buffer: &Buffer) -> Result<Vec<Submission>, String> {
    // Writers fill up the space after the magic number to 8 or to 64 bytes with zeros.
    let after = buffer.strip_prefix(MAGIC).map(|rest| rest.iter().take_while(|byte| **byte == 0).count());
    let begin = after.map_or(0, |zeros| MAGIC.len() + zeros);
    let mut end = begin;
    while let Some(length) = frame(buffer.get(end..).unwrap_or_default())? {
        end += length;
    }
    let mut decoder = StreamDecoder::new();
    let mut jobs = Vec::new();
    // An end of our own: a sender may leave it out, and the decoder takes up a message without a body only when bytes follow.
    for mut piece in [buffer.slice_with_length(begin, end - begin), Buffer::from(END)] {
        while !piece.is_empty() {
            if let Some(batch) = decoder.decode(&mut piece).map_err(|error| error.to_string())? {
                append(&batch, &mut jobs)?;
            }
        }
    }
    match decoder.schema() {
        Some(schema) => check(&schema).map(|()| jobs),
        None => Err("no schema found".to_owned()),
    }
}

/// Length of the next message with its prefix and body, None at the end; an error if it tells of more than is there.
fn frame(bytes: &[u8]) -> Result<Option<usize>, String> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    let Some(first) = word(0) else {
        return if bytes.is_empty() { Ok(None) } else { Err("the stream ends inside a message".to_owned()) };
    };
    // Before version 0.15 the length stood alone.
    let (head, told) =
        if first == CONTINUES { (8, word(4).ok_or("the stream ends inside a message")?) } else { (4, first) };
    if told == 0 {
        return Ok(None);
    }
    let head_end = head + told as usize;
    let meta = bytes.get(head..head_end).ok_or("a message is longer than the body of the request")?;
    let message = ipc::root_as_message(meta).map_err(|error| format!("a message cannot be read: {error}"))?;
    let length = usize::try_from(message.bodyLength()).map_err(|_| "a message has a negative length")?;
    let end = head_end.checked_add(length).filter(|end| *end <= bytes.len());
    let end = end.ok_or("a message is longer than the body of the request")?;
    let batch = message.header_as_record_batch();
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let least = if batch.is_some() { LEAST_JOB_BYTES } else { 4 };
    for batch in [batch, dictionary].into_iter().flatten() {
        if batch.compression().is_some() {
            return Err("compressed batches are not read; write them without compression".to_owned());
        }
        let rows = usize::try_from(batch.length()).map_err(|_| "a batch has a negative number of rows")?;
        if rows > length / least {
            return Err("a batch tells of more rows than it has bytes for".to_owned());
        }
    }
    Ok(Some(end))
}

fn check(schema: &Schema) -> Result<(), String> {
    for (index, field) in schema.fields().iter().enumerate() {
        if !COLUMNS.contains(&field.name().as_str()) {
            return Err(format!("column {:?} is not known; known are {}", field.name(), COLUMNS.join(", ")));
        }
        if schema.fields().iter().take(index).any(|earlier| earlier.name() == field.name()) {
            return Err(format!("column {:?} is there twice", field.name()));
        }
    }
    for name in ["job_id", "submit_ms"] {
        if schema.field_with_name(name).is_err() {
            return Err(format!("column {name:?} is missing"));
        }
    }
    Ok(())
}

/// A column as the wanted type, if it is there; text as text and numbers as numbers, never one from the other.
fn column(batch: &RecordBatch, name: &str, wanted: &DataType) -> Result<Option<ArrayRef>, String> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    let plain = match column.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let fits = match wanted {
        DataType::Utf8 => matches!(plain, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        DataType::Int64 => plain.is_integer() || matches!(plain, DataType::Timestamp(..)),
        _ => plain.is_integer() || plain.is_floating(),
    };
    let failed = |error: ArrowError| format!("column {name:?}: {error}");
    if *plain == DataType::Null || fits {
        let column = if matches!(plain, DataType::Timestamp(..)) {
            &cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None)).map_err(failed)?
        } else {
            column
        };
        return cast(column, wanted).map(Some).map_err(failed);
    }
    Err(format!("column {name:?} is of type {}, which is no {wanted}", column.data_type()))
}

fn texts(batch: &RecordBatch, name: &str) -> Result<Option<StringArray>, String> {
    Ok(column(batch, name, &DataType::Utf8)?.and_then(|column| column.as_string_opt().cloned()))
}

fn numbers<T: ArrowPrimitiveType>(batch: &RecordBatch, name: &str) -> Result<Option<PrimitiveArray<T>>, String> {
    Ok(column(batch, name, &T::DATA_TYPE)?.and_then(|column| column.as_primitive_opt().cloned()))
}

fn text(column: Option<&StringArray>, row: usize) -> Option<String> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row).to_owned())
}

fn number<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

fn append(batch: &RecordBatch, jobs: &mut Vec<Submission>) -> Result<(), String> {
    check(batch.schema_ref())?;
    let job_id = texts(batch, "job_id")?;
    let submit_ms = numbers::<Int64Type>(batch, "submit_ms")?;
    let (user, vc, name) = (texts(batch, "user")?, texts(batch, "vc")?, texts(batch, "name")?);
    let gpus = numbers::<Float64Type>(batch, "gpus")?;
    let (cpus, limit_s) = (numbers::<Float64Type>(batch, "cpus")?, numbers::<Float64Type>(batch, "limit_s")?);
    for row in 0..batch.num_rows() {
        let missing = |name| format!("row {}: {name} is null", jobs.len() + 1);
        jobs.push(Submission {
            job_id: text(job_id.as_ref(), row).ok_or_else(|| missing("job_id"))?,
            submit_ms: number(submit_ms.as_ref(), row).ok_or_else(|| missing("submit_ms"))?,
            user: text(user.as_ref(), row),
            vc: text(vc.as_ref(), row),
            name: text(name.as_ref(), row),
            gpus: number(gpus.as_ref(), row).unwrap_or(0.0),
            cpus: number(cpus.as_ref(), row),
            limit_s: number(limit_s.as_ref(), row),
        });
    }
    Ok(())
}

/// Predictions in the form asked for.
pub(super) fn predictions(predictions: &[Prediction], form: Form) -> Result<Vec<u8>, ArrowError> {
    type Get = fn(&Prediction) -> f64;
    let numbers: [(&str, Get); 7] = [
        ("mean_s", |prediction| prediction.mean_s),
        ("p05_s", |prediction| prediction.p05_s),
        ("p10_s", |prediction| prediction.p10_s),
        ("p50_s", |prediction| prediction.p50_s),
        ("p90_s", |prediction| prediction.p90_s),
        ("p95_s", |prediction| prediction.p95_s),
        ("predicted_duration_s", |prediction| prediction.predicted_duration_s),
    ];
    let mut fields = vec![Field::new("job_id", DataType::Utf8, false)];
    let ids = StringArray::from_iter_values(predictions.iter().map(|prediction| &prediction.job_id));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(ids)];
    for (name, get) in numbers {
        fields.push(Field::new(name, DataType::Float64, false));
        columns.push(Arc::new(Float64Array::from_iter_values(predictions.iter().map(get))));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    let mut body = Vec::new();
    match form {
        Form::Stream => {
            let mut writer = StreamWriter::try_new(&mut body, &schema)?;
            writer.write(&batch)?;
            writer.finish()?;
        }
        Form::File => {
            let mut writer = FileWriter::try_new(&mut body, &schema)?;
            writer.write(&batch)?;
            writer.finish()?;
        }
    }
    Ok(body)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use arrow::array::{DictionaryArray, Int32Array, Int64Array, NullArray, TimestampMicrosecondArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn body(columns: Vec<(&str, ArrayRef)>, form: Form) -> Vec<u8> {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
                .unwrap();
        let mut body = Vec::new();
        match form {
            Form::Stream => {
                let mut writer = StreamWriter::try_new(&mut body, &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.write(&batch.slice(0, 1)).unwrap();
                writer.finish().unwrap();
            }
            Form::File => {
                let mut writer = FileWriter::try_new(&mut body, &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.write(&batch.slice(0, 1)).unwrap();
                writer.finish().unwrap();
            }
        }
        body
    }

    fn columns() -> Vec<(&'static str, ArrayRef)> {
        let user: DictionaryArray<Int32Type> = [Some("ann"), None].into_iter().collect();
        vec![
            ("submit_ms", Arc::new(TimestampMicrosecondArray::from(vec![1_000_000, 2_000_500]))),
            ("job_id", Arc::new(arrow::array::LargeStringArray::from(vec!["a", "b"]))),
            ("user", Arc::new(user)),
            ("vc", Arc::new(NullArray::new(2))),
            ("gpus", Arc::new(Int32Array::from(vec![Some(8), None]))),
            ("cpus", Arc::new(Float64Array::from(vec![None, Some(0.5)]))),
        ]
    }

    #[test]
    fn both_forms_and_many_types_give_the_same_jobs() {
        let a = Submission {
            job_id: "a".into(),
            submit_ms: 1000,
            user: Some("ann".into()),
            gpus: 8.0,
            ..Submission::default()
        };
        // 2,000,500 µs are 2,000 whole ms; null GPUs are none.
        let b = Submission { job_id: "b".into(), submit_ms: 2000, cpus: Some(0.5), ..Submission::default() };
        let wanted = vec![a.clone(), b, a];
        assert_eq!(jobs(body(columns(), Form::Stream)).unwrap(), wanted);
        assert_eq!(jobs(body(columns(), Form::File)).unwrap(), wanted);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let ids: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let times: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let cases: [(Vec<(&str, ArrayRef)>, &str); 5] = [
            (vec![("job_id", ids.clone())], "\"submit_ms\" is missing"),
            (
                vec![("job_id", ids.clone()), ("submit_ms", times.clone()), ("gpu", times.clone())],
                "\"gpu\" is not known",
            ),
            (vec![("job_id", times.clone()), ("submit_ms", times.clone())], "\"job_id\" is of type Int64"),
            (vec![("job_id", ids.clone()), ("submit_ms", ids.clone())], "\"submit_ms\" is of type Utf8"),
            (vec![("job_id", ids), ("submit_ms", times)], "row 2: job_id is null"),
        ];
        for (columns, part) in cases {
            let error = jobs(body(columns, Form::Stream)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(jobs(Vec::new()).unwrap_err().contains("no schema"));
        assert!(jobs(b"{\"jobs\":[]}".to_vec()).is_err());
    }

    #[test]
    fn a_body_cut_or_damaged_anywhere_is_refused_or_read_and_never_trips() {
        let whole = body(columns(), Form::Stream);
        for length in 0..whole.len() {
            // Cut between two messages it is a shorter stream; elsewhere it is refused.
            if let Ok(read) = jobs(whole[..length].to_vec()) {
                assert!(read.len() <= 3);
            }
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                if let Ok(read) = jobs(damaged) {
                    assert!(read.len() <= 3, "byte {at}");
                }
            }
        }
    }

    #[test]
    fn a_length_beyond_the_body_sets_nothing_aside() {
        let mut whole = body(columns(), Form::Stream);
        whole[4..8].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        assert!(jobs(whole).unwrap_err().contains("longer than the body"));
    }

    #[test]
    fn predictions_come_back_as_they_were() {
        let one = Prediction {
            job_id: "a".into(),
            mean_s: 1.0,
            p05_s: 2.0,
            p10_s: 3.0,
            p50_s: 4.0,
            p90_s: 5.0,
            p95_s: 6.0,
            predicted_duration_s: 7.0,
            unsure: false,
        };
        let stream = predictions(std::slice::from_ref(&one), Form::Stream).unwrap();
        let file = predictions(std::slice::from_ref(&one), Form::File).unwrap();
        let mut stream = ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap();
        let mut file = ipc::reader::FileReader::try_new(std::io::Cursor::new(file), None).unwrap();
        let batch = stream.next().unwrap().unwrap();
        assert_eq!(batch, file.next().unwrap().unwrap());
        assert_eq!(batch.column_by_name("job_id").unwrap().as_string::<i32>().value(0), "a");
        for (name, value) in
            [("mean_s", 1.0), ("p05_s", 2.0), ("p50_s", 4.0), ("p95_s", 6.0), ("predicted_duration_s", 7.0)]
        {
            assert_eq!(batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().value(0), value, "{name}");
        }
    }
}
