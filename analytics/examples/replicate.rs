//! Writes a jobs table of any number of rows, made from the Philly trace: `replicate PHILLY_JOBS ROWS OUT...`.
//!
//! `PHILLY_JOBS` is `philly_jobs.csv.gz` (111,549 jobs: row, submit_utc, submit_offset_s, num_gpus, wall_duration_s, vc,
//! …, inferred_status). Every `OUT` that ends in `.parquet` or `.csv` gets the same rows. Copies of the trace follow one
//! another, each 37 s later than the one before, so that hours and instants do not repeat exactly.
//!
//! Assumptions, as that table does not say it all: `start` is `submit` (start times are known for some jobs only), `end`
//! is `start + wall_duration_s`, `state` is `completed` for `Pass` and `failed` for `not_Pass` (which joins killed and
//! failed), and `user` is `u<row mod 319>` (as many names as the trace has users; who submitted what is not in the
//! table). Good for measuring speed, not for learning about Philly.
//!
//! Memory is one batch and one row group whatever the number of rows.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tracecast_analytics::time::parse_local;

/// Shift of each copy against the one before, ms.
const SHIFT_MS: i64 = 37_000;
/// Names of users.
const USERS: usize = 319;
/// Rows of a batch; a divisor of the row group.
const BATCH: usize = 1 << 14;
/// Rows in a row group, as trace folders have them.
const ROW_GROUP: usize = 1 << 18;

/// A job of the original.
struct Job {
    submit_ms: i64,
    run_ms: i64,
    gpus: u32,
    state: &'static str,
    user: String,
    vc: String,
}

/// A file the rows go to.
enum Output {
    Parquet(Box<ArrowWriter<File>>),
    Csv(BufWriter<File>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, rows, outputs @ ..] = arguments.as_slice() else {
        return Err("usage: replicate PHILLY_JOBS ROWS OUT.parquet|OUT.csv ...".into());
    };
    let rows: usize = rows.replace('_', "").parse()?;
    let jobs = read(source)?;
    if jobs.is_empty() {
        return Err("the trace holds no jobs".into());
    }
    let mut outputs = outputs.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut from = 0;
    while from < rows {
        let to = (from + BATCH).min(rows);
        let picked: Vec<(&Job, i64)> = (from..to)
            .filter_map(|row| Some((jobs.get(row % jobs.len())?, (row / jobs.len()) as i64 * SHIFT_MS)))
            .collect();
        for output in &mut outputs {
            match output {
                Output::Parquet(writer) => writer.write(&batch(&picked)?)?,
                Output::Csv(writer) => {
                    for (job, shift) in &picked {
                        let start = job.submit_ms + shift;
                        let end = start + job.run_ms;
                        writeln!(writer, "{start},{start},{end},{},{},{},{}", job.gpus, job.state, job.user, job.vc)?;
                    }
                }
            }
        }
        from = to;
    }
    for output in outputs {
        match output {
            Output::Parquet(writer) => drop(writer.close()?),
            Output::Csv(mut writer) => writer.flush()?,
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<Vec<Job>, Box<dyn Error>> {
    let mut reader = csv::Reader::from_reader(flate2::read::MultiGzDecoder::new(File::open(path)?));
    let header = reader.headers()?.clone();
    let column =
        |name: &str| header.iter().position(|have| have == name).ok_or_else(|| format!("{path}: no column {name}"));
    let (submit, gpus, run, vc, status) = (
        column("submit_utc")?,
        column("num_gpus")?,
        column("wall_duration_s")?,
        column("vc")?,
        column("inferred_status")?,
    );
    let mut jobs = Vec::new();
    for record in reader.records() {
        let record = record?;
        let field = |ix: usize| record.get(ix).unwrap_or_default();
        let civil = parse_local(field(submit)).ok_or_else(|| format!("{path}: {} is no time", field(submit)))?;
        let submit_ms = civil.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp().as_millisecond();
        jobs.push(Job {
            submit_ms,
            run_ms: field(run).parse::<i64>()? * 1_000,
            gpus: field(gpus).parse()?,
            state: if field(status) == "Pass" { "completed" } else { "failed" },
            user: format!("u{}", jobs.len() % USERS),
            vc: field(vc).to_owned(),
        });
    }
    Ok(jobs)
}

fn open(path: &str) -> Result<Output, Box<dyn Error>> {
    if path.ends_with(".csv") {
        let mut writer = BufWriter::new(File::create(path)?);
        writeln!(writer, "submit,start,end,req_gpus,state,user,vc")?;
        return Ok(Output::Csv(writer));
    }
    if !path.ends_with(".parquet") {
        return Err(format!("{path}: name a .parquet or .csv file").into());
    }
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    Ok(Output::Parquet(Box::new(ArrowWriter::try_new(File::create(path)?, schema(), Some(properties))?)))
}

fn schema() -> Arc<Schema> {
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("submit", time.clone(), true),
        Field::new("start", time.clone(), true),
        Field::new("end", time, true),
        Field::new("req_gpus", DataType::Float64, true),
        Field::new("state", DataType::Utf8, true),
        Field::new("user", DataType::Utf8, true),
        Field::new("vc", DataType::Utf8, true),
    ]))
}

fn batch(picked: &[(&Job, i64)]) -> Result<RecordBatch, Box<dyn Error>> {
    let times = |of: fn(&Job) -> i64| -> ArrayRef {
        let values = picked.iter().map(|(job, shift)| of(job) + shift);
        Arc::new(TimestampMillisecondArray::from_iter_values(values).with_timezone("UTC"))
    };
    let texts = |of: fn(&Job) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(picked.iter().map(|(job, _)| of(job))))
    };
    let gpus = Float64Array::from_iter_values(picked.iter().map(|(job, _)| f64::from(job.gpus)));
    Ok(RecordBatch::try_new(
        schema(),
        vec![
            times(|job| job.submit_ms),
            times(|job| job.submit_ms),
            times(|job| job.submit_ms + job.run_ms),
            Arc::new(gpus),
            texts(|job| job.state),
            texts(|job| &job.user),
            texts(|job| &job.vc),
        ],
    )?)
}
