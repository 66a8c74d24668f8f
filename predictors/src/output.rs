//! Predictions as files: CSV, JSON lines, Parquet, Arrow IPC, and a Prometheus textfile.
//!
//! The CSV begins with `job_id,predicted_duration_s`, as `tracecast simulate --predictions` reads it; the duration there is the
//! quantile by which jobs are best ordered, chosen in training. All forms carry the same columns, in seconds, and whether the history was too short to
//! rely on the quantiles (`unsure`). A job that has started has an `expected_end`, to the second.
//!
//! Worked example: one job, `17,940.500,612.100,…`, whose run is expected to be 612.1 s and under 940.5 s in four of five cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Schema};
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::storage::encode;
use tracecast_analytics::time::Zone;

use crate::duration::apply::Applied;
use crate::duration::predictor::Trained;
use crate::error::{Error, Result};
use crate::job::Prediction;

/// Version of the rows.
const SCHEMA: &str = "predictions/1";

/// Whether a job's quantiles are not to be relied upon, as a column.
const UNSURE: &str = "unsure";
/// Name of the column of expected ends.
const EXPECTED_END: &str = "expected_end";

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

/// Predictions with what must be known to write them.
#[derive(Debug, Clone, Copy)]
pub struct PredictionRows<'a> {
    /// The predictions.
    pub applied: &'a Applied,
    /// Record that the model was trained on.
    pub trained: &'a Trained,
    /// The zone whose offset times carry as text.
    pub zone: &'a Zone,
}

/// A prediction as a line of `model predict duration --format jsonl`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Line {
    /// Version of the form.
    pub schema: String,
    /// End of the training, milliseconds since the Unix epoch.
    pub trained_to_ms: i64,
    /// Expected end of the job, RFC 3339, whole seconds: its start plus the expected run, given its
    /// age if it still runs; `null` while it is not known to have started.
    pub expected_end: Option<String>,
    /// Prediction for the job.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// The JSON Schema of a [`Line`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

impl PredictionRows<'_> {
    fn jobs(&self) -> &[Prediction] {
        &self.applied.predictions
    }

    /// The jobs, each with its expected end, milliseconds.
    fn ends(&self) -> impl Iterator<Item = (&Prediction, Option<i64>)> {
        let ends = self.applied.expected_ends_ms.iter().copied().chain(std::iter::repeat(None));
        self.jobs().iter().zip(ends)
    }

    /// Returns the predictions as CSV.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = ["job_id"].into_iter().chain(COLUMNS.iter().map(|(name, _)| *name)).chain([UNSURE, EXPECTED_END]);
        writer.write_record(header).map_err(|error| wrong(&error))?;
        for (job, end_ms) in self.ends() {
            let end = end_ms.map_or_else(String::new, |end| self.zone.rfc3339(end));
            let cells = COLUMNS.iter().map(|(_, of)| format!("{:.3}", of(job))).chain([job.unsure.to_string(), end]);
            writer.write_record([csv_text(&job.job_id)].into_iter().chain(cells)).map_err(|error| wrong(&error))?;
        }
        writer.into_inner().map_err(|error| wrong(&error))
    }

    /// Returns the predictions as JSON, one object a line.
    ///
    /// # Errors
    /// If a number is not one.
    pub fn json_lines(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (job, end_ms) in self.ends() {
            let line = Line {
                schema: SCHEMA.to_owned(),
                trained_to_ms: self.trained.to_ms,
                expected_end: end_ms.map(|end| self.zone.rfc3339(end)),
                prediction: job.clone(),
            };
            // Keys in order of name.
            let line = serde_json::to_value(line).map_err(|error| wrong(&error))?;
            serde_json::to_writer(&mut bytes, &line).map_err(|error| wrong(&error))?;
            bytes.push(b'\n');
        }
        Ok(bytes)
    }

    fn batch(&self) -> Result<RecordBatch> {
        let jobs = self.jobs();
        let ids: ArrayRef = Arc::new(StringArray::from_iter_values(jobs.iter().map(|job| &job.job_id)));
        let unsure: ArrayRef = Arc::new(BooleanArray::from_iter(jobs.iter().map(|job| Some(job.unsure))));
        let ends = self.ends().map(|(_, end)| end).collect::<TimestampMillisecondArray>();
        let ends: ArrayRef = Arc::new(ends.with_timezone("UTC"));
        let mut columns = vec![("job_id", ids, false)];
        columns.extend(COLUMNS.iter().map(|(name, of)| {
            let numbers: ArrayRef = Arc::new(Float64Array::from_iter_values(jobs.iter().map(of)));
            (*name, numbers, false)
        }));
        columns.extend([(UNSURE, unsure, false), (EXPECTED_END, ends, true)]);
        let fields =
            columns.iter().map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable));
        let facts =
            [("schema".to_owned(), SCHEMA.to_owned()), ("trained_to_ms".to_owned(), self.trained.to_ms.to_string())];
        let schema = Schema::new(fields.collect::<Vec<_>>()).with_metadata(facts.into_iter().collect());
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array, _)| array).collect())
            .map_err(|error| wrong(&error))
    }

    /// Returns the predictions as Parquet (zstd).
    ///
    /// # Errors
    /// If the writer fails.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        encode::parquet("the predictions", &self.batch()?).map_err(|error| wrong(&error))
    }

    /// Returns the predictions as an Arrow IPC file.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn arrow_ipc(&self) -> Result<Vec<u8>> {
        encode::arrow_ipc("the predictions", &self.batch()?).map_err(|error| wrong(&error))
    }
}

/// Returns metrics for node_exporter's textfile collector: jobs and GPU time by VC, and the model's
/// age. VCs are the only labels, so that their number is bounded.
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
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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
            beside: None,
            record_days: None,
            ranked_at: 0.8,
        }
    }

    fn applied(predictions: Vec<Prediction>) -> Applied {
        let expected_ends_ms = predictions.iter().map(|job| (job.job_id != "waits").then_some(1_507_000_000_000));
        Applied { expected_ends_ms: expected_ends_ms.collect(), predictions, ..Applied::default() }
    }

    fn written<T>(predictions: Vec<Prediction>, write: impl FnOnce(PredictionRows<'_>) -> Result<T>) -> T {
        let (applied, trained, zone) = (applied(predictions), trained(), Zone::named("Asia/Shanghai").unwrap());
        write(PredictionRows { applied: &applied, trained: &trained, zone: &zone }).unwrap()
    }

    #[test]
    fn the_csv_is_what_simulate_reads() {
        let text = String::from_utf8(written(vec![job("a,b", 612.1), job("waits", 1.0)], |rows| rows.csv())).unwrap();
        assert_eq!(
            text,
            "job_id,predicted_duration_s,mean_s,p05_s,p10_s,p50_s,p90_s,p95_s,unsure,expected_end\n\"a,b\",6.500,612.100,1.000,2.000,3.000,4.000,5.000,false,2017-10-03T11:06:40+08:00\nwaits,6.500,1.000,1.000,2.000,3.000,4.000,5.000,false,\n"
        );
    }

    #[test]
    fn parquet_and_arrow_hold_the_same_rows() {
        let jobs = vec![job("1", 10.0), job("waits", 20.0)];
        let read = arrow::ipc::reader::FileReader::try_new(
            std::io::Cursor::new(written(jobs.clone(), |rows| rows.arrow_ipc())),
            None,
        );
        let one = read.unwrap().next().unwrap().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &written(jobs, |rows| rows.parquet())).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let other = reader.next().unwrap().unwrap();
        assert_eq!((one.num_rows(), one.columns()), (2, other.columns()));
    }

    #[test]
    fn json_lines_name_their_version() {
        let text = String::from_utf8(written(vec![job("1", 10.0)], |rows| rows.json_lines())).unwrap();
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
