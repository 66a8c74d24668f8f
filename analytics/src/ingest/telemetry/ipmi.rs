//! Node power as the board's management controller reports it: a CSV series, or the text of `ipmi sdr`.
//!
//! The series is `node,timestamp_utc,sensor,watts`. The text is one file a node, `Timestamp: <time> UTC` and then
//! `sensor | 650 Watts | ok` for each sensor; sensors that are not in watts are passed over. Which sensor is the whole
//! node differs by maker (`Sys Power`, `Pwr Consumption`); `Chassis Power` and `PSU Power` are shared by the nodes of a
//! chassis and must not be summed over them.
//!
//! Source: the Harvard FASRC sustainability data set. O(bytes).

use super::super::delimited::Delimited;
use super::super::field::{self, Moment};
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile, TableHeaders};
use super::gather::{Device, Gather, Put, Way, When};
use super::label::{moment_in_name, node_in_name};
use super::metric::{BLANK, NodeField, node_power};
use crate::error::{Error, Result};
use crate::quality::{RowAudit, reason};
use crate::schema::sensor::is_shared;
use crate::time::Zone;
use crate::trace::Trace;

/// See the module.
pub(crate) struct Ipmi;

impl Reader for Ipmi {
    fn id(&self) -> &'static str {
        "ipmi"
    }

    fn describes(&self) -> &'static str {
        "node power from IPMI: a CSV series (node,timestamp_utc,sensor,watts) or the text of `ipmi sdr`"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', &["node", "timestamp_utc", "sensor", "watts"])]
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if head.is_one_of(self.columns()) {
            return Confidence::Sure;
        }
        let power = |line: &str| watts(line).is_some();
        // Prose may quote a sensor line: without a time, most lines must be sensors.
        let lines: Vec<&str> = head.text.lines().filter(|line| !line.trim().is_empty()).collect();
        let sensors = lines.iter().filter(|line| line.split('|').count() == 3).count();
        match (head.text.lines().any(power), head.first_line().starts_with("Timestamp:")) {
            (true, true) => Confidence::Sure,
            (true, false) if sensors * 2 > lines.len() => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut gather = Gather::default();
        let mut shared = false;
        for (ix, file) in files.iter().enumerate() {
            let head = file.head()?;
            if head.has_columns(',', &["node", "timestamp_utc"]) {
                shared |= read_series(file, options, &mut gather, trace)?;
            } else {
                let snapshot = u32::try_from(ix).unwrap_or(u32::MAX);
                shared |= read_text(file, snapshot, options, &mut gather, trace)?;
            }
        }
        gather.finish(trace);
        if shared {
            trace.note(
                "Chassis Power and PSU Power are shared by the nodes of a chassis: each node reports the same reading, so \
                 they must not be summed over nodes.",
            );
        }
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// Watts of a sensor, `None` if it is no reading.
fn power(sensor: &str, text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let watts = field::amount(text, column, row)?;
    node_power(sensor, watts, column, text.unwrap_or_default(), row)
}

fn put(gather: &mut Gather, when: When, device: u32, watts: Option<f64>) -> Put {
    gather.node((when, device), NodeField::Power, Way::ONLY, watts)
}

/// Reads a CSV series; returns whether it holds a shared sensor.
fn read_series(file: &SourceFile, options: &ReadOptions<'_>, gather: &mut Gather, trace: &mut Trace) -> Result<bool> {
    let utc = Zone::utc();
    let mut table = Delimited::open(file, b',', options.observer)?;
    let columns = (
        Some(table.require("node")?),
        Some(table.require("timestamp_utc")?),
        Some(table.require("sensor")?),
        Some(table.require("watts")?),
    );
    let mut shared = false;
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let (Some(node), Some(sensor)) = (record.text(columns.0), record.text(columns.2)) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "node", raw);
            continue;
        };
        let Some(ts) = record.moment(columns.1, Moment::Local(&utc), "timestamp_utc") else {
            trace.ledger.quarantine(&record.audit, reason::NOT_A_TIME, "timestamp_utc", raw);
            continue;
        };
        let text = record.field(columns.3);
        let watts = power(sensor, text, "watts", &mut record.audit);
        shared |= is_shared(sensor);
        let device = gather.device(Device { node: Some(node.to_owned()), name: sensor.to_owned() });
        put(gather, When::at(ts), device, watts).account(record.audit, raw, &mut trace.ledger);
    }
    table.finish(&mut trace.ledger);
    Ok(shared)
}

/// Reads the text of `ipmi sdr`; returns whether it holds a shared sensor.
fn read_text(
    file: &SourceFile,
    snapshot: u32,
    options: &ReadOptions<'_>,
    gather: &mut Gather,
    trace: &mut Trace,
) -> Result<bool> {
    let zone = options.zone_beside(trace)?;
    let node = node_in_name(file.path());
    let name = file.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut when = moment_in_name(&name, &zone).map_or(When { ts: None, scrape: snapshot }, When::at);
    let (mut shared, mut readings, mut untimed) = (false, 0_u64, false);
    let mut lines = file.lines(options.observer)?;
    while let Some((number, bytes)) = lines.next_line() {
        let text = String::from_utf8_lossy(bytes);
        let line = text.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut row = RowAudit::new(file.name(), number);
        if let Some(time) = line.strip_prefix("Timestamp:") {
            match Moment::Local(&zone).read(Some(time), "Timestamp", &mut row) {
                Some(ts) => when = When::at(ts),
                None => trace.note(format!("{}: the time `{}` cannot be read.", file.name(), time.trim())),
            }
            continue;
        }
        readings += 1;
        let mut parts = line.split('|').map(str::trim);
        let (Some(sensor), Some(value), Some(status), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            trace.ledger.quarantine(&row, reason::MALFORMED, "", line);
            continue;
        };
        if sensor.is_empty() {
            trace.ledger.quarantine(&row, reason::NO_KEY, "", line);
            continue;
        }
        let Some(number) = value.strip_suffix("Watts") else {
            gather.pass_over(unit(value), 1);
            trace.ledger.keep(row);
            continue;
        };
        let mut watts = power(sensor, Some(number), sensor, &mut row);
        if status.eq_ignore_ascii_case("ns") || status.eq_ignore_ascii_case("na") {
            row.repair(BLANK, sensor, line);
            watts = None;
        }
        shared |= is_shared(sensor);
        untimed |= when.ts.is_none();
        let device = gather.device(Device { node: node.clone(), name: sensor.to_owned() });
        put(gather, when, device, watts).account(row, line, &mut trace.ledger);
    }
    lines.finish(&mut trace.ledger);
    if readings == 0 {
        return Err(Error::Empty {
            source_name: file.name().to_owned(),
            what: "the file holds no sensor lines".to_owned(),
            remedy: "save the output of `ipmi sdr` again".to_owned(),
        });
    }
    if untimed {
        trace.note(format!("{} tells no time, neither in a Timestamp line nor in its name.", file.name()));
    }
    if node.is_none() {
        trace.note(format!("{} is not named after its node, so its samples have none.", file.name()));
    }
    Ok(shared)
}

/// Units that `ipmi sdr` writes, and what their values are counted under.
const UNITS: [(&str, &str); 7] = [
    ("RPM", "RPM"),
    ("percent", "percent"),
    ("degrees C", "degrees C"),
    ("Volts", "volts"),
    ("Amps", "amperes"),
    ("CFM", "CFM"),
    ("unspecified", "values without a unit"),
];

/// Category under which a value that is not in watts is counted.
fn unit(value: &str) -> &'static str {
    match value.split_once(' ') {
        None => "sensor states",
        Some((number, _)) if number.parse::<f64>().is_err() => "sensors without a reading",
        // Lines may be cut anywhere, so a unit may be a beginning of one.
        Some((_, unit)) => {
            UNITS.iter().find(|(whole, _)| whole.starts_with(unit.trim())).map_or("other units", |(_, name)| *name)
        }
    }
}

/// The watts of a line `sensor | 650 Watts | ok`.
fn watts(line: &str) -> Option<f64> {
    line.split('|').nth(1)?.trim().strip_suffix("Watts")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_are_told_from_other_sensors() {
        assert_eq!(watts("Sys Power                | 650 Watts         | ok"), Some(650.0));
        for line in ["Fan1A_Tach | 10496 RPM | ok", "Sys Power | Not Readable | ns", "650 Watts", ""] {
            assert_eq!(watts(line), None, "{line}");
        }
        assert_eq!(
            (unit("10496 RPM"), unit("0x00"), unit("Not Readable")),
            ("RPM", "sensor states", "sensors without a reading")
        );
        assert_eq!([unit("0 unspecif"), unit("1 unspecified")], ["values without a unit"; 2]);
        assert_eq!((unit("21 degrees C"), unit("3 furlongs")), ("degrees C", "other units"));
    }
}
