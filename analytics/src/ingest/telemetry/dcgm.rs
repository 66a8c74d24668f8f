//! Metrics as Prometheus text, of dcgm-exporter and every exporter in the table of metrics: one scrape saved to a file, or
//! several one after another.
//!
//! A sample line is `name{label="value",…} value [time]`, the time in milliseconds (seconds in OpenMetrics; they are told
//! apart by size). Where lines have no time, it is taken from a `# scraped <time>` comment before them
//! (RFC 3339 or epoch), else from the file name; else it is unknown. A series that comes again in a scrape without times
//! begins another scrape. Energy counters are kept as they are, resets included: a difference that is negative is a
//! reset, and only its reader can say what to do with it.
//!
//! O(bytes); memory is one row a GPU and moment.

use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Gather, Put, When};
use super::label::{Labels, moment_in_name};
use super::series::{Found, Series};
use super::table::MetricTable;
use crate::error::{Error, Result};
use crate::quality::{RowAudit, reason};
use crate::time::{Zone, parse_with_offset, seconds_to_ms};
use crate::trace::Trace;

/// Number of seconds (the year 5138) from which a number must be milliseconds.
const MS_FROM: f64 = 1e11;

/// See the module.
pub(crate) struct Dcgm;

impl Reader for Dcgm {
    fn id(&self) -> &'static str {
        "dcgm"
    }

    fn describes(&self) -> &'static str {
        "metrics in Prometheus text form, one or several scrapes a file: dcgm-exporter, Jobstats and others"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let table = MetricTable::bundled();
        let described = |line: &str| {
            let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
            name.and_then(|name| name.split(' ').next()).is_some_and(|name| table.knows(name))
        };
        // Prose and source code about these metrics name them too: most lines must be samples of some metric.
        let (mut lines, mut metrics, mut labelled, mut known) = (0_usize, 0_usize, 0_usize, false);
        for line in head.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                known |= described(line);
                continue;
            }
            lines += 1;
            if let Some(sample) = Sample::parse(line) {
                metrics += 1;
                labelled += usize::from(!sample.labels.0.is_empty());
                known |= table.knows(sample.name);
            }
        }
        if known && metrics * 2 >= lines {
            Confidence::Sure
        } else if labelled > 0 && metrics == lines {
            // Of metrics that a user's own table may have.
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_beside(trace)?;
        let table = MetricTable::load(options)?;
        let mut gather = Gather::default();
        let mut scrape = 0;
        for file in files {
            let samples = read_file(file, options, (&zone, &table), &mut scrape, &mut gather, trace)?;
            if samples == 0 {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file holds no metric samples".to_owned(),
                    remedy: "save the exporter's /metrics page again".to_owned(),
                });
            }
        }
        gather.check_known(files, trace)?;
        gather.finish(trace);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// Origin of the time of lines without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A comment or nothing.
    Scrape(When),
    /// The file name, which can hold for the first scrape only.
    Name(When),
}

fn read_file(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    (zone, table): (&Zone, &MetricTable),
    scrape: &mut u32,
    gather: &mut Gather,
    trace: &mut Trace,
) -> Result<u64> {
    let name = file.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    *scrape += 1;
    let unknown = |scrape: u32| When { ts: None, scrape };
    let mut clock =
        moment_in_name(&name, zone).map_or(Source::Scrape(unknown(*scrape)), |ts| Source::Name(When::at(ts)));
    let (mut used_name, mut used_none, mut samples) = (false, false, 0);
    let mut lines = file.lines(options.observer)?;
    while let Some((number, bytes)) = lines.next_line() {
        let text = String::from_utf8_lossy(bytes);
        let line = text.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(when) = comment.trim().strip_prefix("scraped") {
                *scrape += 1;
                clock =
                    Source::Scrape(parse_time(when.trim_matches([' ', ':', '\t'])).map_or(unknown(*scrape), When::at));
            }
            continue;
        }
        samples += 1;
        let mut row = RowAudit::new(file.name(), number);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            row.repair(reason::NOT_UTF8, "", line);
        }
        let Some(sample) = Sample::parse(line) else {
            trace.ledger.quarantine(&row, reason::MALFORMED, "", line);
            continue;
        };
        let series = match Series::find(table, gather, sample.name, &sample.labels) {
            Found::Series(series) => series,
            Found::Unknown => {
                gather.pass_over(sample.name, 1);
                trace.ledger.keep(row);
                continue;
            }
            Found::NoDevice => {
                trace.ledger.quarantine(&row, reason::NO_KEY, "gpu", line);
                continue;
            }
        };
        let own_time = match sample.time {
            None => None,
            Some(time) => {
                let ts = parse_time(time);
                if ts.is_none() {
                    row.repair(reason::NOT_A_TIME, "time", time);
                }
                Some(ts.map_or(unknown(*scrape), When::at))
            }
        };
        let mut when = own_time.unwrap_or(match clock {
            Source::Scrape(when) | Source::Name(when) => when,
        });
        let mut put = series.put(gather, when, sample.value, &mut row);
        let again = matches!(put, Put::Same | Put::Conflict);
        let no_comment = matches!(clock, Source::Name(_) | Source::Scrape(When { ts: None, .. }));
        if again && own_time.is_none() && no_comment {
            *scrape += 1;
            when = unknown(*scrape);
            clock = Source::Scrape(when);
            // The repairs of the first try are those of the second: start the account of the line over.
            row = RowAudit::new(file.name(), number);
            put = series.put(gather, when, sample.value, &mut row);
        }
        if own_time.is_none() {
            used_name |= matches!(clock, Source::Name(_));
            used_none |= when.ts.is_none();
        }
        put.account(row, line, &mut trace.ledger);
    }
    lines.finish(&mut trace.ledger);
    if used_name {
        trace
            .note(format!("Samples without a time took it from the name of their file, read as {} time.", zone.name()));
    }
    if used_none {
        trace.note(
            "Some metric samples have no time: neither in their line nor in a `# scraped` comment nor in the file name.",
        );
    }
    Ok(samples)
}

/// RFC 3339, or a number of seconds or milliseconds since 1970, told apart by size.
fn parse_time(text: &str) -> Option<i64> {
    match text.parse::<f64>() {
        Ok(number) if number.abs() >= MS_FROM => seconds_to_ms(number / 1_000.0),
        Ok(number) => seconds_to_ms(number),
        Err(_) => parse_with_offset(text),
    }
}

/// A sample line, taken apart.
#[derive(Debug)]
struct Sample<'a> {
    name: &'a str,
    labels: Labels,
    value: &'a str,
    time: Option<&'a str>,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')))?;
        let (name, rest) = line.split_at_checked(end)?;
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let rest = rest.trim_start();
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(inside) => parse_labels(inside)?,
            None => (Labels::default(), rest),
        };
        // What follows a `#` is an OpenMetrics exemplar.
        let mut words = rest.split('#').next().unwrap_or(rest).split_ascii_whitespace();
        let value = words.next()?;
        let time = words.next();
        let is_number = value.parse::<f64>().is_ok();
        (is_number && words.next().is_none()).then_some(Self { name, labels, value, time })
    }
}

/// Labels up to the closing brace, and what follows it. Within quotes, `\\`, `\"` and `\n` are escapes.
fn parse_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::default();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let mut value = String::new();
        let mut chars = after.trim_start().strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        labels.0.push((name.trim().to_owned(), value));
        rest = chars.as_str();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_with_escapes_braces_and_time() {
        let line = r#"A_B{x="a}b",y="say \"hi\", c:\\d",} 1.5e3 1684936800000"#;
        let sample = Sample::parse(line).unwrap();
        assert_eq!((sample.name, sample.value, sample.time), ("A_B", "1.5e3", Some("1684936800000")));
        assert_eq!(sample.labels.get(&["x"]), Some("a}b"));
        assert_eq!(sample.labels.get(&["y"]), Some(r#"say "hi", c:\d"#));
        let plain = Sample::parse("up NaN").unwrap();
        assert_eq!((plain.name, plain.value, plain.time), ("up", "NaN", None));
    }

    #[test]
    fn what_is_not_a_sample_is_refused() {
        for line in ["", "a", "a{", "a{x=\"1\"", "a{x=1} 2", "1a 2", "a b", "a 1 2 3", "a{x=\"1\"}", "{} 1", "é 1"] {
            assert!(Sample::parse(line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn times_are_seconds_or_milliseconds_by_size() {
        assert_eq!(parse_time("1684936800"), Some(1_684_936_800_000));
        assert_eq!(parse_time("1684936800000"), Some(1_684_936_800_000));
        assert_eq!(parse_time("1684936800.25"), Some(1_684_936_800_250));
        assert_eq!(parse_time("2023-05-24T14:00:00Z"), Some(1_684_936_800_000));
        assert_eq!(parse_time("noon"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_line_parses_or_is_refused(line in ".{0,80}") {
            let _ = Sample::parse(&line);
        }

        #[test]
        fn escaped_labels_come_back(value in ".{0,40}", number in -1e9..1e9_f64) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("m{{a=\"{escaped}\",b=\"x\"}} {number} 17");
            let sample = Sample::parse(&line).unwrap();
            proptest::prop_assert_eq!(&sample.labels.0[0].1, &value);
            proptest::prop_assert_eq!(sample.value.parse::<f64>().unwrap(), number);
            proptest::prop_assert_eq!(sample.time, Some("17"));
        }
    }
}
