//! Logs of inference requests: when each came, how many tokens it brought, and how many it was given.
//!
//! | form | how it is known | time |
//! |---|---|---|
//! | Azure LLM inference traces | a CSV with `TIMESTAMP,ContextTokens,GeneratedTokens` | local, or with an offset |
//! | Mooncake traces | lines of JSON with `timestamp`, `input_length`, `output_length` | milliseconds from the beginning |
//! | our own | a CSV with `time,input_tokens,output_tokens` and, if there are several, `model` | a date and time, or seconds |
//!
//! Columns may stand in any order, and others beside them. Files may be compressed (`.gz`, `.zst`), `-` is standard input, and several files are one log. Rows that
//! cannot be read are quarantined with a reason; requests out of order are sorted, and counted. Times are kept to the microsecond, those with an
//! offset to the millisecond.
//!
//! O(rows log rows). Worked example: `2023-11-16 18:17:03.9799600,4808,10` is a request of 4,808 input and 10 output tokens at 18:17:03.97996.

use std::collections::BTreeMap;

use serde::Deserialize;
use tracecast_analytics::ingest::SourceFile;
use tracecast_analytics::quality::{Ledger, Reason, RowAudit, reason};
use tracecast_analytics::time::{Zone, parse_local, parse_with_offset, seconds_to_ms};
use tracecast_analytics::trace::SourceRecord;

use crate::error::{Error, Result};

/// More tokens than a request has.
const MOST_TOKENS: f64 = 1e8;

const NO_TOKENS: Reason = Reason {
    id: "no_tokens",
    what: "a request brought no token and was given none; it was left out",
    remedy: "leave requests out of the log that failed before they were served",
};

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Arrival, microseconds.
    pub at_us: i64,
    /// Tokens that it brought.
    pub input: u32,
    /// Tokens that it was given.
    pub output: u32,
}

impl LoggedRequest {
    /// All its tokens.
    pub fn tokens(&self) -> u64 {
        u64::from(self.input) + u64::from(self.output)
    }
}

/// A log.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestLog {
    /// Requests in order of arrival.
    pub requests: Vec<LoggedRequest>,
    /// Whether times are moments; else they are counted from the beginning.
    pub dated: bool,
    /// Requests that stood out of order.
    pub sorted: u64,
    /// Requests of each model, where the log names them.
    pub models: BTreeMap<String, u64>,
    /// Requests of other models than the one asked for.
    pub others: u64,
    /// Ledger of the rows that were read or skipped.
    pub ledger: Ledger,
    /// The files.
    pub sources: Vec<SourceRecord>,
}

/// What a file is.
#[derive(Debug, Clone, PartialEq)]
enum Form {
    Csv { reader: &'static str, time: usize, input: usize, output: usize, model: Option<usize>, fields: usize },
    Lines,
}

/// A line of a Mooncake trace; other keys are passed over.
#[derive(Debug, Deserialize)]
struct JsonRow {
    timestamp: f64,
    input_length: f64,
    output_length: f64,
    model: Option<String>,
}

const REMEDY: &str = "give a CSV with the columns time,input_tokens,output_tokens (and model), an Azure LLM inference trace, or lines of JSON with timestamp, input_length and output_length";

impl Form {
    /// What the first line says.
    fn of(line: &str) -> Option<Self> {
        if line.trim_start().starts_with('{') {
            return serde_json::from_str::<JsonRow>(line).ok().map(|_| Self::Lines);
        }
        let names: Vec<String> =
            line.split(',').map(|name| name.trim().trim_matches('"').to_ascii_lowercase()).collect();
        let find = |name: &str| names.iter().position(|have| have == name);
        let columns = |reader, time: &str, input: &str, output: &str| {
            Some(Self::Csv {
                reader,
                time: find(time)?,
                input: find(input)?,
                output: find(output)?,
                model: find("model"),
                fields: names.len(),
            })
        };
        columns("azure_llm", "timestamp", "contexttokens", "generatedtokens")
            .or_else(|| columns("requests_csv", "time", "input_tokens", "output_tokens"))
    }

    fn reader(&self) -> &'static str {
        match self {
            Self::Csv { reader, .. } => reader,
            Self::Lines => "mooncake",
        }
    }
}

/// Why a row cannot be used: the reason, the column, and the text.
type Unusable = (Reason, &'static str, String);

/// A row as it was read.
struct Row {
    request: LoggedRequest,
    dated: bool,
    model: Option<String>,
}

/// Tokens of a text.
fn tokens(column: &'static str, value: Option<f64>, text: &str) -> std::result::Result<u32, Unusable> {
    let value = value.ok_or_else(|| (reason::NOT_A_NUMBER, column, text.to_owned()))?;
    if value < 0.0 {
        return Err((reason::NEGATIVE, column, text.to_owned()));
    }
    if !(value.is_finite() && value <= MOST_TOKENS && value.fract() == 0.0) {
        return Err((reason::OUT_OF_RANGE, column, text.to_owned()));
    }
    Ok(value as u32)
}

/// Microseconds of a count of seconds.
fn of_seconds(seconds: f64) -> Option<i64> {
    seconds_to_ms(seconds).map(|_| (seconds * 1e6).round() as i64)
}

/// A time as a CSV has it, microseconds, and whether it is a date.
fn time(text: &str, zone: &Zone) -> Option<(i64, bool)> {
    if let Ok(seconds) = text.parse::<f64>() {
        // Seconds since 1970 are a date; seconds from a beginning are not.
        return of_seconds(seconds).map(|us| (us, seconds >= 1e8));
    }
    if let Some(local) = parse_local(text) {
        let below_ms = i64::from(local.subsec_nanosecond() / 1000 % 1000);
        return zone.resolve(local).map(|(ms, _)| (ms * 1000 + below_ms, true));
    }
    parse_with_offset(text).map(|ms| (ms * 1000, true))
}

fn row(form: &Form, line: &str, zone: &Zone) -> std::result::Result<Row, Unusable> {
    let (at, input, output, model) = match form {
        Form::Lines => {
            let row: JsonRow = serde_json::from_str(line).map_err(|_| (reason::MALFORMED, "", line.to_owned()))?;
            let late = || (reason::NOT_A_TIME, "timestamp", row.timestamp.to_string());
            let at = of_seconds(row.timestamp / 1e3).ok_or_else(late)?;
            let input = tokens("input_length", Some(row.input_length), &row.input_length.to_string())?;
            let output = tokens("output_length", Some(row.output_length), &row.output_length.to_string())?;
            ((at, false), input, output, row.model)
        }
        Form::Csv { time: time_at, input, output, model, fields, .. } => {
            let cells = split(line);
            if cells.len() != *fields {
                return Err((reason::FIELD_COUNT, "", line.to_owned()));
            }
            let cell = |at: usize| cells.get(at).map_or("", |cell| cell.trim());
            let text = cell(*time_at);
            let at = time(text, zone).ok_or_else(|| (reason::NOT_A_TIME, "time", text.to_owned()))?;
            let count = |column, at: usize| tokens(column, cell(at).parse().ok(), cell(at));
            let named = model.map(|at| cell(at).to_owned()).filter(|name| !name.is_empty());
            (at, count("input tokens", *input)?, count("output tokens", *output)?, named)
        }
    };
    if input == 0 && output == 0 {
        return Err((NO_TOKENS, "", line.to_owned()));
    }
    Ok(Row { request: LoggedRequest { at_us: at.0, input, output }, dated: at.1, model })
}

/// Cells of a line of CSV.
fn split(line: &str) -> Vec<String> {
    if !line.contains('"') {
        return line.split(',').map(str::to_owned).collect();
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
    let record = reader.records().next().and_then(std::result::Result::ok);
    record.map_or_else(Vec::new, |record| record.iter().map(str::to_owned).collect())
}

impl RequestLog {
    /// Reads files as one log; of `model` alone, if one is named.
    ///
    /// # Errors
    /// If a file cannot be read, is no log of requests, or no request is left.
    pub fn read(files: &[SourceFile], zone: &Zone, model: Option<&str>) -> Result<Self> {
        let mut log = Self {
            requests: Vec::new(),
            dated: true,
            sorted: 0,
            models: BTreeMap::new(),
            others: 0,
            ledger: Ledger::default(),
            sources: Vec::new(),
        };
        let mut relative: Option<String> = None;
        let mut moments: Option<String> = None;
        for file in files {
            let reader = log.file(file, zone, model, &mut relative, &mut moments)?;
            log.sources.push(SourceRecord {
                name: file.name().to_owned(),
                reader: reader.to_owned(),
                size_bytes: file.size_bytes()?,
                sha256: file.sha256()?,
            });
        }
        if let (Some(relative), Some(moments)) = (&relative, &moments) {
            return Err(Error::no_jobs(format!(
                "{relative} counts its times from a beginning, and {moments} has dates, so they are no one log; plan them one by one"
            )));
        }
        log.dated = relative.is_none();
        if log.requests.is_empty() {
            let named: Vec<&str> = files.iter().map(SourceFile::name).collect();
            let models: Vec<&str> = log.models.keys().map(String::as_str).collect();
            let why = match (model, log.others) {
                (Some(model), 1..) if models.is_empty() => {
                    format!("no request names a model, so none is of the model {model}")
                }
                (Some(model), 1..) => format!("no request is of the model {model}; there are {}", models.join(", ")),
                _ if log.ledger.quarantined > 0 => {
                    let worst = log.ledger.entries.first().map_or("", |entry| entry.what.as_str());
                    format!("none of {} rows could be read: {worst}", log.ledger.read)
                }
                _ => "there is no request in it".to_owned(),
            };
            return Err(Error::no_jobs(format!("{}: {why}; {REMEDY}", named.join(", "))));
        }
        log.sorted = log.requests.windows(2).filter(|pair| matches!(pair, [a, b] if b.at_us < a.at_us)).count() as u64;
        log.requests.sort_by_key(|request| request.at_us);
        log.ledger.sort();
        Ok(log)
    }

    /// Adds a file; the reader that it was read with.
    fn file(
        &mut self,
        file: &SourceFile,
        zone: &Zone,
        model: Option<&str>,
        relative: &mut Option<String>,
        moments: &mut Option<String>,
    ) -> Result<&'static str> {
        let mut lines = file.lines(&())?;
        let mut form: Option<Form> = None;
        while let Some((number, bytes)) = lines.next_line() {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let known = match &form {
                Some(known) => known,
                None => {
                    let result = Form::of(text).ok_or_else(|| {
                        Error::file(
                            file.name().to_owned(),
                            number,
                            format!("this is no log of requests: `{}`; {REMEDY}", crate::error::excerpt(text)),
                        )
                    })?;
                    let header = matches!(result, Form::Csv { .. });
                    let known = &*form.insert(result);
                    if header {
                        continue;
                    }
                    known
                }
            };
            let audit = RowAudit::new(file.name(), number);
            match row(known, text, zone) {
                Ok(row) => {
                    self.ledger.keep(audit);
                    let place = if row.dated { &mut *moments } else { &mut *relative };
                    place.get_or_insert_with(|| file.name().to_owned());
                    let other = model.is_some() && row.model.as_deref() != model;
                    if let Some(name) = row.model {
                        *self.models.entry(name).or_default() += 1;
                    }
                    if other {
                        self.others += 1;
                    } else {
                        self.requests.push(row.request);
                    }
                }
                Err((why, column, result)) => self.ledger.quarantine(&audit, why, column, &result),
            }
        }
        lines.finish(&mut self.ledger);
        match form {
            Some(form) => Ok(form.reader()),
            None => Err(Error::no_jobs(format!("{}: the file is empty; {REMEDY}", file.name()))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<RequestLog> {
        of_model(text, None)
    }

    fn of_model(text: &str, model: Option<&str>) -> Result<RequestLog> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        std::fs::write(&path, text).unwrap();
        RequestLog::read(&[SourceFile::new(path)], &Zone::utc(), model)
    }

    #[test]
    fn the_worked_example_without_an_end_of_its_last_line() {
        let log = read("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10").unwrap();
        let at = parse_with_offset("2023-11-16T18:17:03Z").unwrap() * 1000 + 979_960;
        assert_eq!(log.requests, [LoggedRequest { at_us: at, input: 4808, output: 10 }]);
        assert!(log.dated && log.sorted == 0);
        assert_eq!(log.sources[0].reader, "azure_llm");
    }

    #[test]
    fn lines_of_json_and_our_own_form() {
        let log = read("{\"timestamp\": 1500, \"input_length\": 7, \"output_length\": 3, \"hash_ids\": [1]}\n{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 0}\n").unwrap();
        assert_eq!(log.requests[1], LoggedRequest { at_us: 1_500_000, input: 7, output: 3 });
        assert_eq!((log.dated, log.sorted, log.sources[0].reader.as_str()), (false, 1, "mooncake"));
        let text = "model,time,input_tokens,output_tokens\na,0.25,10,2\n\"b,c\",1.5,4,1\na,3,1,1\n";
        let log = read(text).unwrap();
        assert_eq!((log.requests.len(), log.requests[0].at_us), (3, 250_000));
        let one = of_model(text, Some("b,c")).unwrap();
        assert_eq!((one.requests.len(), one.others), (1, 2));
        assert!(of_model(text, Some("d")).unwrap_err().to_string().contains("there are a, b,c"));
    }

    #[test]
    fn what_cannot_be_read_is_counted_or_refused() {
        let log =
            read("time,input_tokens,output_tokens\n0,1,1\nsoon,1,1\n1,-2,1\n1,x,1\n1,2\n1,0,0\n1,1e99,1\n").unwrap();
        assert_eq!((log.requests.len(), log.ledger.read, log.ledger.quarantined), (1, 7, 6));
        let ids: Vec<&str> = log.ledger.entries.iter().map(|entry| entry.reason.as_str()).collect();
        assert!(ids.contains(&"no_tokens") && ids.contains(&reason::NOT_A_TIME.id), "{ids:?}");
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert!(said("").contains("the file is empty; give a CSV with the columns time,input_tokens,output_tokens"));
        assert!(said("time,input_tokens,output_tokens\n").contains("there is no request in it"));
        assert!(said("a,b\n1,2\n").contains("line 1: this is no log of requests: `a,b`"));
        assert!(said("time,input_tokens,output_tokens\nx,1,1\n").contains("none of 1 rows could be read"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn mangled_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), header in 0usize..3) {
            let head = ["", "time,input_tokens,output_tokens\n", "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n"];
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            std::fs::write(&path, [head[header].as_bytes(), &bytes].concat()).unwrap();
            if let Ok(log) = RequestLog::read(&[SourceFile::new(path)], &Zone::utc(), None) {
                prop_assert_eq!(log.ledger.read, log.ledger.kept + log.ledger.quarantined);
                prop_assert!(log.requests.is_sorted_by_key(|request| request.at_us));
            }
        }
    }
}
