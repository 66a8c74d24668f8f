//! Answers of the Prometheus HTTP API (`query`, `query_range`) saved to files.
//!
//! `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{…},"values":[[time,"value"],…]}]}}`; a
//! `vector` has one `value` a series. Times are seconds, values are text. As a server hands out at most 11,000 points a
//! series, long ranges come in chunks that overlap; a point that comes again is counted and used once. A file may hold
//! several answers, one after another. The result of an expression has no name: `--metric` says what it is, or the file's
//! name does. A row of the ledger is one point, its line the number of the point in the file.
//!
//! O(bytes); one series is in memory at a time, beside the rows.

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Gather, When};
use super::label::Labels;
use super::series::{Found, NO_NAME, Series, check_named};
use super::table::MetricTable;
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
        "saved answers of the Prometheus HTTP API (query and query_range) with metrics of GPUs, nodes or Slurm"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let has = |word: &str| head.text.contains(word);
        let answer = has("\"resultType\"") && has("\"result\"") || has("\"errorType\"");
        let is_json = head.text.trim_start().starts_with('{');
        if is_json && has("\"status\"") && answer { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut gather = Gather::default();
        let table = MetricTable::load(options)?;
        for file in files {
            let stem = file.stem();
            // Dumps are often named after what was asked for.
            let unnamed = options.metric_of(file).or_else(|| table.within(&stem));
            let mut answers =
                Answers { file, table: &table, unnamed, point: 0, series: 0, gather: &mut gather, trace: &mut *trace };
            let remedy = "save the answer again, whole";
            let documents = document::read(file, options, &["data", "result"], "JSON", remedy, &mut answers)?;
            let (points, series) = (answers.point, answers.series);
            if documents == 0 && points == 0 && trace.ledger.damage.iter().all(|damage| damage.file != file.name()) {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file is empty".to_owned(),
                    remedy: "save the answer again".to_owned(),
                });
            }
            if documents > 0 && series == 0 && points == 0 {
                trace.note(format!("{}: the query found no series: check the name of the metric.", file.name()));
            }
            check_named(file, &trace.ledger)?;
        }
        gather.check_known(files, trace)?;
        gather.finish(trace);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// The answers in one file.
struct Answers<'a> {
    file: &'a SourceFile,
    table: &'a MetricTable,
    /// The metric of series without a name.
    unnamed: Option<&'a str>,
    point: u64,
    series: u64,
    gather: &'a mut Gather,
    trace: &'a mut Trace,
}

impl Sink for Answers<'_> {
    fn element(&mut self, series: Value) {
        // The result of a scalar is a list too, of a time and a value; the answer's end says what it was.
        if series.is_object() {
            self.series += 1;
            self.read_series(&series);
        }
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        let answer = &around.rest;
        let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let status = word(answer, "status");
        if status != "success" {
            let result = if status == "error" {
                format!("the query failed: {}: {}", word(answer, "errorType"), word(answer, "error"))
            } else {
                format!("not an answer of Prometheus: status is `{status}`")
            };
            return Err(Error::format(self.file.name(), result, "run the query again and save its answer"));
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

impl Answers<'_> {
    fn read_series(&mut self, series: &Value) {
        let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let labels = series.get("metric").and_then(Value::as_object).into_iter().flatten().filter_map(text);
        let labels = Labels(labels.collect());
        let no_points = Vec::new();
        let many = series.get("values").and_then(Value::as_array).unwrap_or(&no_points);
        let points = many.iter().chain(series.get("value"));
        let named = labels.get(&["__name__"]).or(self.unnamed);
        let result = named.map(|name| (name, Series::find(self.table, self.gather, name, &labels)));
        if let Some((name, Found::Unknown)) = result {
            let count = points.count() as u64;
            self.point += count;
            self.gather.pass_over(name, count);
            self.trace.ledger.keep_many(count);
            return;
        }
        let ledger = &mut self.trace.ledger;
        for pair in points {
            self.point += 1;
            let mut row = RowAudit::new(self.file.name(), self.point);
            let series = match &result {
                Some((_, Found::Series(series))) => series,
                Some(_) => {
                    ledger.quarantine(&row, reason::NO_KEY, "gpu", &pair.to_string());
                    continue;
                }
                None => {
                    ledger.quarantine(&row, NO_NAME, "__name__", &pair.to_string());
                    continue;
                }
            };
            let ts = pair.get(0).and_then(Value::as_f64).and_then(seconds_to_ms);
            let value = pair.get(1).and_then(Value::as_str);
            let (Some(ts), Some(value)) = (ts, value) else {
                ledger.quarantine(&row, reason::MALFORMED, "", &pair.to_string());
                continue;
            };
            let put = series.put(self.gather, When::at(ts), value, &mut row);
            put.account(row, &pair.to_string(), ledger);
        }
    }
}
