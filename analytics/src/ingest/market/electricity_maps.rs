//! Carbon intensity of the grid as Electricity Maps publishes it, one row a zone and hour.
//!
//! Three generations of headers are about: `Zone Name`, `Zone Id`, `Carbon Intensity gCO₂eq/kWh (LCA)`, `Low Carbon
//! Percentage`; `Zone id`, `Carbon intensity gCO₂eq/kWh (Life cycle)`, `Carbon-free energy percentage (CFE%)`; and
//! mixtures of them, with `gCO2eq` for `gCO₂eq`. Columns are found by what their names begin and end with, whatever the
//! case. Each source row gives a `direct` and an `lca` (life cycle) row. A time is the beginning of its hour, UTC.
//!
//! Worked number: 400 g/kWh × 2.5 kWh = 1,000 g. O(bytes).

use std::collections::BTreeMap;

use super::super::delimited::Delimited;
use super::super::field::Moment;
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Reason, reason};
use crate::schema::CarbonRow;
use crate::time::{HOUR_MS, Zone};
use crate::trace::Trace;

/// A row without a value.
const NO_VALUE: Reason = Reason {
    id: "no_value",
    what: "the row has no carbon intensity, so the hour is missing",
    remedy: "nothing to do, unless the publisher has filled it since",
};

/// See the module.
pub(crate) struct ElectricityMaps;

/// Positions of the columns in use.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    time: Option<usize>,
    zone: Option<usize>,
    direct: Option<usize>,
    lca: Option<usize>,
    estimated: Option<usize>,
}

impl Columns {
    fn of<'n>(names: &(impl Iterator<Item = &'n str> + Clone)) -> Self {
        let find = |fits: &dyn Fn(&str) -> bool| names.clone().position(|name| fits(&name.trim().to_ascii_lowercase()));
        let intensity = |name: &str, end: &str| name.starts_with("carbon intensity") && name.ends_with(end);
        Self {
            time: find(&|name| name.starts_with("datetime")),
            zone: find(&|name| name == "zone id").or_else(|| find(&|name| name == "zone name")),
            direct: find(&|name| intensity(name, "(direct)")),
            lca: find(&|name| intensity(name, "(lca)") || intensity(name, "(life cycle)")),
            estimated: find(&|name| name == "data estimated"),
        }
    }

    fn are_enough(&self) -> bool {
        self.time.is_some() && self.zone.is_some() && (self.direct.is_some() || self.lca.is_some())
    }
}

impl Reader for ElectricityMaps {
    fn id(&self) -> &'static str {
        "electricity-maps"
    }

    fn describes(&self) -> &'static str {
        "hourly carbon intensity of grid zones (Electricity Maps CSV)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let names = head.first_line().split(',').map(|name| name.trim().trim_matches('"'));
        if Columns::of(&names).are_enough() { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut seen = SeenKeys::default();
        let mut zones: BTreeMap<String, ZoneHours> = BTreeMap::new();
        for file in files {
            read_file(file, options, &mut seen, &mut zones, trace)?;
        }
        for (zone, hours) in &mut zones {
            if let Some(note) = hours.describe(zone) {
                trace.note(note);
            }
        }
        Ok(())
    }
}

fn read_file(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    seen: &mut SeenKeys,
    zones: &mut BTreeMap<String, ZoneHours>,
    trace: &mut Trace,
) -> Result<()> {
    let utc = Zone::utc();
    let mut table = Delimited::open(file, b',', options.observer)?;
    let columns = Columns::of(&table.header().iter().map(String::as_str));
    if !columns.are_enough() {
        return Err(Error::Format {
            file: file.name().to_owned(),
            line: Some(1),
            column: None,
            found: format!("no time, zone or carbon intensity among the columns {}", table.header().join(", ")),
            remedy: "export Datetime (UTC), Zone id and a Carbon intensity column".to_owned(),
        });
    }
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let raw = record.raw();
        let Some(zone) = record.text(columns.zone) else {
            trace.ledger.quarantine(&record.audit, reason::NO_KEY, "Zone id", raw);
            continue;
        };
        let Some(ts) = record.moment(columns.time, Moment::Local(&utc), "Datetime (UTC)") else {
            trace.ledger.quarantine(&record.audit, reason::NOT_A_TIME, "Datetime (UTC)", raw);
            continue;
        };
        if !seen.is_new(&format!("{zone}|{ts}")) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "", raw);
            continue;
        }
        let direct = record.amount(columns.direct, "carbon intensity (direct)");
        let lca = record.amount(columns.lca, "carbon intensity (life cycle)");
        if direct.is_none() && lca.is_none() {
            trace.ledger.quarantine(&record.audit, NO_VALUE, "carbon intensity", raw);
            continue;
        }
        let estimated = match record.text(columns.estimated).map(str::to_ascii_lowercase).as_deref() {
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            _ => None,
        };
        for (g_per_kwh, method) in [(direct, "direct"), (lca, "lca")] {
            if g_per_kwh.is_some() {
                trace.carbon.push(CarbonRow {
                    zone: Some(zone.into()),
                    ts: Some(ts),
                    g_per_kwh,
                    method: Some(method.into()),
                    estimated,
                });
            }
        }
        let hours = zones.entry(zone.to_owned()).or_default();
        hours.times.push(ts);
        hours.estimated += u64::from(estimated == Some(true));
        trace.ledger.keep(record.audit);
    }
    table.finish(&mut trace.ledger);
    Ok(())
}

/// The hours that are there for a zone.
#[derive(Debug, Default)]
struct ZoneHours {
    times: Vec<i64>,
    estimated: u64,
}

impl ZoneHours {
    /// Note on the hours for the reader of the trace, if any.
    fn describe(&mut self, zone: &str) -> Option<String> {
        self.times.sort_unstable();
        let (first, last) = (*self.times.first()?, *self.times.last()?);
        let step = self.times.windows(2).filter_map(|pair| Some(pair.get(1)? - pair.first()?)).min();
        let mut facts = Vec::new();
        match step {
            Some(step) if step > HOUR_MS => {
                facts.push(format!("its rows are {} h apart, not hourly", step as f64 / HOUR_MS as f64));
            }
            _ => {
                let missing = (last - first) / HOUR_MS + 1 - self.times.len() as i64;
                if missing > 0 {
                    facts.push(format!("{missing} hours are missing between the first and the last"));
                }
            }
        }
        if self.estimated > 0 {
            facts.push(format!("{} of {} values are the publisher's estimates", self.estimated, self.times.len()));
        }
        (!facts.is_empty()).then(|| format!("Carbon intensity of {zone}: {}.", facts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str) -> Columns {
        Columns::of(&header.split(','))
    }

    #[test]
    fn three_generations_of_headers_and_ascii_units() {
        let all = Columns { time: Some(0), zone: Some(3), direct: Some(4), lca: Some(5), estimated: Some(6) };
        for header in [
            "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),Carbon Intensity gCO₂eq/kWh (LCA),Data Estimated",
            "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle),Data estimated",
            "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO2eq/kWh (direct),Carbon Intensity gCO2eq/kWh (Life cycle),Data Estimated",
        ] {
            assert_eq!(columns(header), all, "{header}");
        }
        assert!(!columns("Datetime (UTC),Zone id,Low Carbon Percentage").are_enough());
    }

    #[test]
    fn missing_hours_are_counted_and_days_are_not_hours() {
        let mut hours = ZoneHours { times: vec![3 * HOUR_MS, 0, HOUR_MS], estimated: 1 };
        assert_eq!(
            hours.describe("DE").as_deref(),
            Some(
                "Carbon intensity of DE: 1 hours are missing between the first and the last; 1 of 3 values are the publisher's estimates."
            )
        );
        let mut days = ZoneHours { times: vec![0, 24 * HOUR_MS], estimated: 0 };
        assert_eq!(
            days.describe("DE").as_deref(),
            Some("Carbon intensity of DE: its rows are 24 h apart, not hourly.")
        );
        assert_eq!(ZoneHours { times: vec![0], estimated: 0 }.describe("DE"), None);
    }
}
