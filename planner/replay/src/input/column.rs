//! A value for each job from a CSV: predictions (`job_id,predicted_duration_s`) and scores (`job_id,score`).
//!
//! Rows may come in any order, further columns are ignored. A row that cannot be read is an error with its line, as a plan on half of
//! the predictions is worse than none; jobs without a row and rows without a job are counted. Worked example: three jobs, rows for two
//! of them and for one that is not replayed: 2 matched, 1 job without, 1 row unknown.

use std::collections::HashMap;
use std::io::Read;

use tracecast_analytics::report::markup::csv_text;

use super::jobs::Loaded;
use crate::error::{Error, Result, excerpt};

/// Values by job identifier.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    file: String,
    values: HashMap<String, (f64, u64)>,
}

/// How a column met the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Matched {
    /// Jobs that got a value.
    pub jobs: usize,
    /// Jobs that got none.
    pub without: usize,
    /// Rows whose job is not replayed.
    pub unknown: usize,
}

impl Column {
    /// Column of values by job identifier, of which the last counts; `file` is what to call it in
    /// messages.
    pub fn new(file: &str, values: impl Iterator<Item = (String, f64)>) -> Self {
        Self { file: file.to_owned(), values: values.map(|(key, value)| (key, (value, 0))).collect() }
    }

    /// Reads column `name` of a CSV; `file` is what to call it in messages. O(rows).
    ///
    /// # Errors
    /// If a column is missing, a row is short, a value is not a number (or negative, unless `signed`), or a job comes twice.
    pub fn parse(file: &str, name: &str, signed: bool, source: impl Read) -> Result<Self> {
        let wrong = |line: u64, what: String| Error::File { file: file.to_owned(), line, what };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(source);
        let header = reader.byte_headers().map_err(|error| wrong(1, error.to_string()))?.clone();
        let find = |column: &str| {
            let at = header.iter().position(|cell| cell == column.as_bytes());
            at.ok_or_else(|| wrong(1, format!("there is no column `{column}`; the header must have job_id and {name}")))
        };
        let (id_at, value_at) = (find("job_id")?, find(name)?);
        let mut values = HashMap::new();
        let mut row = csv::ByteRecord::new();
        loop {
            let more = reader.read_byte_record(&mut row).map_err(|error| wrong(0, error.to_string()))?;
            if !more {
                break;
            }
            let line = row.position().map_or(0, csv::Position::line);
            let cell = |at: usize| row.get(at).map(|cell| String::from_utf8_lossy(cell).into_owned());
            let (Some(id), Some(text)) = (cell(id_at), cell(value_at)) else {
                return Err(wrong(line, format!("the row has {} cells; job_id or {name} is missing", row.len())));
            };
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && value.abs() <= 1e12);
            let Some(value) = value.filter(|value| signed || *value >= 0.0) else {
                let kind = if signed { "a number" } else { "a number of seconds, 0 or more" };
                return Err(wrong(line, format!("{name} of job {id} is `{}`, which is not {kind}", excerpt(&text))));
            };
            if let Some((_, before)) = values.insert(id.clone(), (value, line)) {
                return Err(wrong(line, format!("job {id} has a row already, in line {before}; keep one of them")));
            }
        }
        Ok(Self { file: file.to_owned(), values })
    }

    /// The value of each job of `loaded`, and how many there are.
    ///
    /// # Errors
    /// If no row is about any of the jobs.
    pub fn of(&self, loaded: &Loaded) -> Result<(Vec<Option<f64>>, Matched)> {
        self.of_keys(&loaded.keys.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The value of each job of these identifiers, and how many there are.
    ///
    /// # Errors
    /// If no row is about any of the jobs.
    pub fn of_keys(&self, keys: &[&str]) -> Result<(Vec<Option<f64>>, Matched)> {
        let mut result = Matched::default();
        let value = |key: &str| {
            // Rows of the joined Philly table that have no identifier are known by their number.
            let bare = key.strip_prefix("row-").and_then(|number| self.values.get(number));
            // As `tracecast model predict duration` writes keys that a spreadsheet would take for
            // formulas.
            let written = || self.values.get(&csv_text(key));
            self.values.get(key).or(bare).or_else(written).map(|(value, _)| *value)
        };
        let values: Vec<Option<f64>> = keys.iter().map(|key| value(key)).collect();
        result.jobs = values.iter().flatten().count();
        result.without = values.len() - result.jobs;
        result.unknown = self.values.len().saturating_sub(result.jobs);
        if result.jobs == 0 && !values.is_empty() {
            let in_file = self.values.iter().min_by_key(|(_, (_, line))| *line).map_or("", |(id, _)| id.as_str());
            let theirs = keys.first().copied().unwrap_or_default();
            let what = format!("no job_id is that of a replayed job; the file has `{in_file}`, the trace `{theirs}`");
            return Err(Error::File { file: self.file.clone(), line: 2, what });
        }
        Ok((values, result))
    }
}
