//! Answers of the Prometheus HTTP API (`query`, `query_range`) saved to files.
//!
//! `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{…},"values":[[time,"value"],…]}]}}`; a
//! `vector` has one `value` a series. Times are seconds, values are text. As a server hands out at most 11,000 points a
//! series, long ranges come in chunks that overlap; a point that comes again is counted and used once. A file may hold
//! several answers, one after another. A row of the ledger is one point, its line the number of the point in the file.
//!
//! O(bytes); one series is in memory at a time, beside the rows.

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::options::ReadOptions;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Gather, When};
use super::label::Labels;
use super::metric::{Metric, Target, node_power};
use crate::error::{Error, Result};
use crate::quality::{Ledger, RowAudit, reason};
use crate::time::seconds_to_ms;
use crate::trace::Trace;

/// See the module.
pub(crate) struct Prometheus;

impl Reader for Prometheus {
    fn id(&self) -> &'static str {
        "prometheus"
    }

    fn describes(&self) -> &'static str {
        "saved answers of the Prometheus HTTP API (query and query_range) with DCGM or node power metrics"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let has = |word: &str| head.text.contains(word);
        let answer = has("\"resultType\"") && has("\"result\"") || has("\"errorType\"");
        let is_json = head.text.trim_start().starts_with('{');
        if is_json && has("\"status\"") && answer { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut gather = Gather::default();
        for file in files {
            let mut answers = Answers { file, point: 0, gather: &mut gather, trace: &mut *trace };
            let remedy = "save the answer again, whole";
            if document::read(file, options, &["data", "result"], "JSON", remedy, &mut answers)? == 0
                && answers.point == 0
                && trace.ledger.damage.iter().all(|damage| damage.file != file.name())
            {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file is empty".to_owned(),
                    remedy: "save the answer again".to_owned(),
                });
            }
        }
        gather.finish(trace);
        Ok(())
    }
}

/// The answers in one file.
struct Answers<'a> {
    file: &'a SourceFile,
    point: u64,
    gather: &'a mut Gather,
    trace: &'a mut Trace,
}

impl Sink for Answers<'_> {
    fn element(&mut self, series: Value) {
        // The result of a scalar is a list too, of a time and a value; the answer's end says what it was.
        if series.is_object() {
            read_series(self.file, &series, &mut self.point, self.gather, self.trace);
        }
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        let answer = &around.rest;
        let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let status = word(answer, "status");
        if status != "success" {
            let found = if status == "error" {
                format!("the query failed: {}: {}", word(answer, "errorType"), word(answer, "error"))
            } else {
                format!("not an answer of Prometheus: status is `{status}`")
            };
            return Err(Error::format(self.file.name(), found, "run the query again and save its answer"));
        }
        let data = answer.get("data").unwrap_or(&Value::Null);
        let kind = word(data, "resultType");
        if data.get("result") != Some(&Value::Bool(true)) || (kind != "matrix" && kind != "vector") {
            return Err(Error::format(
                self.file.name(),
                format!("the result is of type `{kind}`, which names no device"),
                "query a metric, so that the result is a matrix or a vector",
            ));
        }
        for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            self.trace.note(format!("Prometheus warned: {warning}"));
        }
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}

fn read_series(file: &SourceFile, series: &Value, point: &mut u64, gather: &mut Gather, trace: &mut Trace) {
    let labels = Labels(
        series
            .get("metric")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
    );
    let no_points = Vec::new();
    let many = series.get("values").and_then(Value::as_array).unwrap_or(&no_points);
    let points = many.iter().chain(series.get("value"));
    let name = labels.get(&["__name__"]);
    // The result of an expression has no name; dumps are often named after what was asked for.
    let metric = name.map_or_else(|| Metric::within(&file.stem()), Metric::named);
    let Some(metric) = metric else {
        let count = points.count() as u64;
        *point += count;
        gather.pass_over(name.unwrap_or("(no name)"), count);
        trace.ledger.keep_many(count);
        return;
    };
    let device = match metric.target {
        Target::Gpu(_) => labels.gpu(),
        Target::NodePower => Some(labels.sensor(metric.name)),
    };
    let mig = labels.is_mig();
    let job = labels.job();
    let sensor = device.as_ref().map(|device| device.name.clone()).unwrap_or_default();
    let id = device.map(|device| gather.device(device));
    if let (Some(id), Some(model)) = (id, labels.get(&["modelname", "model_name"])) {
        gather.set_model(id, model);
    }
    for pair in points {
        *point += 1;
        let mut row = RowAudit::new(file.name(), *point);
        let Some(id) = id else {
            trace.ledger.quarantine(&row, reason::NO_KEY, "gpu", &pair.to_string());
            continue;
        };
        let ts = pair.get(0).and_then(Value::as_f64).and_then(seconds_to_ms);
        let value = pair.get(1).and_then(Value::as_str);
        let (Some(ts), Some(value)) = (ts, value) else {
            trace.ledger.quarantine(&row, reason::MALFORMED, "", &pair.to_string());
            continue;
        };
        let when = When::at(ts);
        let put = match metric.target {
            Target::Gpu(field) => {
                let value = metric.gpu_value(field, value, mig, &mut row);
                gather.gpu(when, id, field, value, job.as_deref())
            }
            Target::NodePower => {
                let watts = node_power(&sensor, Some(value), metric.name, &mut row);
                gather.node(when, id, watts)
            }
        };
        put.account(row, &pair.to_string(), &mut trace.ledger);
    }
}
