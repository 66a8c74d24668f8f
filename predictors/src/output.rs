//! Predictions as files: CSV, JSON lines, Parquet, Arrow IPC, and a Prometheus textfile.
//!
//! The CSV begins with `job_id,predicted_duration_s`, as `tracecast simulate --predictions` reads it; the duration there is the
//! quantile by which jobs are best ordered, chosen in training. All forms carry the same columns, in seconds, and whether the history was too short to
//! rely on the quantiles (`unsure`).
//!
//! Worked example: one job, `17,940.500,612.100,…`, whose run is expected to be 612.1 s and under 940.5 s in four of five cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tracecast_analytics::report::markup::csv_text;

use crate::duration::apply::Applied;
use crate::duration::predictor::Trained;
use crate::error::{Error, Result};
use crate::job::Prediction;

/// Version of the rows.
const SCHEMA: &str = "predictions/1";

/// Whether a job's quantiles are not to be relied upon, as a column.
const UNSURE: &str = "unsure";

type Cell = fn(&Prediction) -> f64;

/// Columns beside the job, in order.
const COLUMNS: [(&str, Cell); 7] = [
    ("predicted_duration_s", |job| job.predicted_duration_s),
    ("mean_s", |job| job.mean_s),
    ("p05_s", |job| job.p05_s),
    ("p10_s", |job| job.p10_s),
    ("p50_s", |job| job.p50_s),
    ("p90_s", |job| job.p90_s),
    ("p95_s", |job| job.p95_s),
];

fn wrong(reason: &dyn std::fmt::Display) -> Error {
    Error::Table { file: "predictions".to_owned(), reason: reason.to_string() }
}

/// Predictions as CSV.
///
/// # Errors
/// If the writer fails.
pub fn csv(predictions: &[Prediction]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = ["job_id"].into_iter().chain(COLUMNS.iter().map(|(name, _)| *name)).chain([UNSURE]);
    writer.write_record(header).map_err(|error| wrong(&error))?;
    for job in predictions {
        let cells = COLUMNS.iter().map(|(_, of)| format!("{:.3}", of(job))).chain([job.unsure.to_string()]);
        writer.write_record([csv_text(&job.job_id)].into_iter().chain(cells)).map_err(|error| wrong(&error))?;
    }
    writer.into_inner().map_err(|error| wrong(&error))
}

/// Predictions as JSON, one object a line.
///
/// # Errors
/// If a number is not one.
pub fn json_lines(predictions: &[Prediction], trained: &Trained) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for job in predictions {
        let line = Line { schema: SCHEMA.to_owned(), trained_to_ms: trained.to_ms, prediction: job.clone() };
        // Keys in order of name.
        let line = serde_json::to_value(line).map_err(|error| wrong(&error))?;
        serde_json::to_writer(&mut bytes, &line).map_err(|error| wrong(&error))?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// A prediction as a line of `predict --format jsonl`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Line {
    /// Version of the form.
    pub schema: String,
    /// End of the training, milliseconds since the Unix epoch.
    pub trained_to_ms: i64,
    /// What is said of the job.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// The JSON Schema of a [`Line`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

fn batch(predictions: &[Prediction], trained: &Trained) -> Result<RecordBatch> {
    let mut fields = vec![Field::new("job_id", DataType::Utf8, false)];
    fields.extend(COLUMNS.iter().map(|(name, _)| Field::new(*name, DataType::Float64, false)));
    fields.push(Field::new(UNSURE, DataType::Boolean, false));
    let facts = [("schema".to_owned(), SCHEMA.to_owned()), ("trained_to_ms".to_owned(), trained.to_ms.to_string())];
    let schema = Schema::new(fields).with_metadata(facts.into_iter().collect());
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values(predictions.iter().map(|job| &job.job_id)));
    let numbers =
        COLUMNS.iter().map(|(_, of)| Arc::new(Float64Array::from_iter_values(predictions.iter().map(of))) as ArrayRef);
    let unsure: ArrayRef = Arc::new(BooleanArray::from_iter(predictions.iter().map(|job| Some(job.unsure))));
    RecordBatch::try_new(Arc::new(schema), [ids].into_iter().chain(numbers).chain([unsure]).collect())
        .map_err(|error| wrong(&error))
}

/// Predictions as Parquet (zstd).
///
/// # Errors
/// If the writer fails.
pub fn parquet(predictions: &[Prediction], trained: &Trained) -> Result<Vec<u8>> {
    let batch = batch(predictions, trained)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).map_err(|error| wrong(&error))?;
    writer.write(&batch).map_err(|error| wrong(&error))?;
    writer.into_inner().map_err(|error| wrong(&error))
}

/// Predictions as an Arrow IPC file.
///
/// # Errors
/// If the writer fails.
pub fn arrow_ipc(predictions: &[Prediction], trained: &Trained) -> Result<Vec<u8>> {
    let batch = batch(predictions, trained)?;
    let mut writer =
        arrow::ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).map_err(|error| wrong(&error))?;
    writer.write(&batch).map_err(|error| wrong(&error))?;
    writer.into_inner().map_err(|error| wrong(&error))
}

/// What is predicted, for node_exporter's textfile collector: jobs and GPU time by VC, and the model's age. VCs are the only labels, so that
/// their number is bounded.
pub fn prometheus(applied: &Applied, trained: &Trained) -> String {
    #[derive(Default)]
    struct Sum {
        jobs: u64,
        expected: f64,
        upper: f64,
    }
    let mut vcs: BTreeMap<&str, Sum> = BTreeMap::new();
    for ((job, vc), gpus) in applied.predictions.iter().zip(&applied.vcs).zip(&applied.gpus) {
        let sum = vcs.entry(vc.as_deref().unwrap_or("")).or_default();
        sum.jobs += 1;
        sum.expected += job.mean_s * gpus;
        sum.upper += job.p95_s * gpus;
    }
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, of: &dyn Fn(&Sum) -> f64| {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (vc, sum) in &vcs {
            let vc = vc.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(text, "{name}{{vc=\"{vc}\"}} {}", of(sum));
        }
    };
    metric("tracecast_predicted_jobs", "Jobs with a prediction.", &|sum| sum.jobs as f64);
    metric("tracecast_predicted_gpu_seconds", "Expected GPU time of these jobs.", &|sum| sum.expected);
    metric(
        "tracecast_predicted_gpu_seconds_p95",
        "Sum of what 95 % of each job's runs stay under, times its GPUs.",
        &|sum| sum.upper,
    );
    let name = "tracecast_model_trained_timestamp_seconds";
    let _ = write!(
        text,
        "# HELP {name} Last event the model was trained on.\n# TYPE {name} gauge\n{name} {}\n",
        trained.to_ms as f64 / 1000.0
    );
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::duration::forecast::{Model, Settings};

    fn job(id: &str, mean_s: f64) -> Prediction {
        Prediction {
            job_id: id.to_owned(),
            mean_s,
            p05_s: 1.0,
            p10_s: 2.0,
            p50_s: 3.0,
            p90_s: 4.0,
            p95_s: 5.0,
            predicted_duration_s: 6.5,
            unsure: false,
        }
    }

    fn trained() -> Trained {
        Trained {
            jobs: 1,
            from_ms: 0,
            to_ms: 7000,
            cluster_gpus: None,
            settings: Settings::default(),
            model: Model::Boosted,
            held: true,
            ranked_at: 0.8,
        }
    }

    #[test]
    fn the_csv_is_what_simulate_reads() {
        let text = String::from_utf8(csv(&[job("a,b", 612.1)]).unwrap()).unwrap();
        assert_eq!(
            text,
            "job_id,predicted_duration_s,mean_s,p05_s,p10_s,p50_s,p90_s,p95_s,unsure\n\"a,b\",6.500,612.100,1.000,2.000,3.000,4.000,5.000,false\n"
        );
    }

    #[test]
    fn parquet_and_arrow_hold_the_same_rows() {
        let jobs = [job("1", 10.0), job("2", 20.0)];
        let read =
            arrow::ipc::reader::FileReader::try_new(std::io::Cursor::new(arrow_ipc(&jobs, &trained()).unwrap()), None);
        let one = read.unwrap().next().unwrap().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &parquet(&jobs, &trained()).unwrap()).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let other = reader.next().unwrap().unwrap();
        assert_eq!((one.num_rows(), one.columns()), (2, other.columns()));
    }

    #[test]
    fn json_lines_name_their_version() {
        let text = String::from_utf8(json_lines(&[job("1", 10.0)], &trained()).unwrap()).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((line["schema"].as_str(), line["mean_s"].as_f64()), (Some("predictions/1"), Some(10.0)));
    }

    #[test]
    fn the_textfile_adds_up_gpu_time_by_vc() {
        let applied = Applied {
            predictions: vec![job("1", 10.0), job("2", 20.0)],
            vcs: vec![Some("a".to_owned()), Some("a".to_owned())],
            gpus: vec![2.0, 4.0],
            ..Applied::default()
        };
        // 2 × 10 + 4 × 20.
        assert!(prometheus(&applied, &trained()).contains("tracecast_predicted_gpu_seconds{vc=\"a\"} 100\n"));
    }
}
