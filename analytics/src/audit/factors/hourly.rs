//! Values by the hour: carbon intensity of a grid zone, or the price of electricity.
//!
//! **Carbon** is read by the Electricity Maps reader. **Prices** come as `Datetime (UTC)` and `Price (USD/MWh)` (or a kWh, or another
//! currency); a time may say its offset. Of several values within one hour their mean counts. An hour without a value has none: it is
//! never taken as 0, nor from its neighbours.
//!
//! Worked number: quarter-hours at 40, 60, 80 and 100 EUR/MWh make an hour at 70 EUR/MWh, 0.07 EUR/kWh.

use std::collections::BTreeMap;
use std::path::Path;

use super::Method;
use super::file::{MOST_G_PER_KWH, MOST_PRICE, plain};
use crate::error::{Error, Result};
use crate::ingest::{self, Delimited, Moment, ReadOptions, SourceFile};
use crate::quality::Ledger;
use crate::report::format;
use crate::schema::{CarbonTable, Table};
use crate::time::{HOUR_MS, Zone, format_utc};
use crate::trace::Trace;

/// The reader for files of carbon intensity.
const CARBON_READER: &str = "electricity-maps";

/// Zones that a message names.
const LISTED: usize = 8;

/// A value for each hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Hourly {
    constant: Option<f64>,
    hours: BTreeMap<i64, (f64, u32)>,
    /// Hours whose value its publisher estimated.
    pub estimated: u64,
    /// Caveats on the values, one sentence each.
    pub notes: Vec<String>,
}

impl Hourly {
    /// A series of one value for all hours.
    pub fn constant(value: f64) -> Self {
        Self { constant: Some(value), ..Self::empty() }
    }

    /// Builds the series from values at moments, milliseconds since the epoch; an hour gets their
    /// mean.
    pub fn new(values: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut series = Self::empty();
        for (ts, value) in values {
            let slot = series.hours.entry(ts.div_euclid(HOUR_MS) * HOUR_MS).or_default();
            slot.0 += value;
            slot.1 += 1;
        }
        series
    }

    fn empty() -> Self {
        Self { constant: None, hours: BTreeMap::new(), estimated: 0, notes: Vec::new() }
    }

    /// The value in the hour that begins at `hour_ms`.
    pub fn at(&self, hour_ms: i64) -> Option<f64> {
        self.constant.or_else(|| {
            let (sum, count) = self.hours.get(&(hour_ms.div_euclid(HOUR_MS) * HOUR_MS))?;
            Some(sum / f64::from(*count))
        })
    }

    /// Returns the series with `change` applied to every value.
    #[must_use]
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        let hours = self.hours.iter().map(|(hour, (sum, count))| (*hour, (change(sum / f64::from(*count)), 1)));
        Self {
            constant: self.constant.map(&change),
            hours: hours.collect(),
            estimated: self.estimated,
            notes: self.notes.clone(),
        }
    }

    /// Hours with a value; `None` for a constant.
    pub fn len(&self) -> Option<usize> {
        self.constant.is_none().then_some(self.hours.len())
    }

    /// Beginning of the first hour and end of the last, milliseconds since the epoch; `None` for a constant.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((*self.hours.keys().next()?, *self.hours.keys().next_back()? + HOUR_MS))
    }

    /// Whether no hour has a value.
    pub fn is_empty(&self) -> bool {
        self.constant.is_none() && self.hours.is_empty()
    }

    /// Carbon intensity of the one zone, or of `zone`, in a table; g/kWh. Where the table lacks `method`, the other one is taken with a note.
    ///
    /// # Errors
    /// When the table has no such zone, or several and none was named. `name` is what to call it.
    pub fn carbon(table: &CarbonTable, name: &str, zone: Option<&str>, method: Method) -> Result<Self> {
        let mut zones: Vec<&str> = table.zone.iter().flatten().collect();
        zones.sort_unstable();
        zones.dedup();
        let wrong = |found: String, remedy: &str| Error::Setting {
            setting: format!("carbon intensity from {name}"),
            found,
            remedy: remedy.to_owned(),
        };
        let zone = match (zone, zones.as_slice()) {
            (_, []) => {
                return Err(wrong(
                    "there is none".to_owned(),
                    "name a file of hourly intensities; a negative value, or one that is no number, is none",
                ));
            }
            (None, [only]) => *only,
            (None, several) => {
                return Err(wrong(
                    format!("there are the zones {}", format::names(several, LISTED)),
                    "name one with --zone",
                ));
            }
            (Some(request), known) => match known.iter().find(|zone| **zone == request) {
                Some(found) => *found,
                None => {
                    let problem = format!("there is no zone `{request}`, but {}", format::names(known, LISTED));
                    return Err(wrong(problem, "name one of them with --zone"));
                }
            },
        };
        let other = if method == Method::Direct { Method::Lca } else { Method::Direct };
        for (at, method) in [method, other].into_iter().enumerate() {
            let mut estimated = 0;
            let rows = (0..table.len())
                .filter(|ix| table.zone.get(*ix) == Some(zone) && table.method.get(*ix) == Some(method.label()));
            let values: Vec<(i64, f64)> = rows
                .filter_map(|ix| {
                    let value = (table.ts.get(ix)?, table.g_per_kwh.get(ix)?);
                    estimated += u64::from(table.estimated.get(ix) == Some(1));
                    Some(value)
                })
                .collect();
            if values.is_empty() {
                continue;
            }
            if let Some((ts, grams)) = values.iter().find(|(_, grams)| !(0.0..=MOST_G_PER_KWH).contains(grams)) {
                return Err(wrong(
                    format!("{} g/kWh at {} UTC", plain(*grams), format_utc(*ts)),
                    &format!("give intensities from 0 to {MOST_G_PER_KWH} g/kWh"),
                ));
            }
            let mut series = Self::new(values);
            series.estimated = estimated;
            series.notes.push(format!("Carbon intensity is of zone {zone}, {}.", in_words(method)));
            if at == 1 {
                series.notes.push(format!("There is none that is {} in {name}.", in_words(other_of(method))));
            }
            if estimated > 0 {
                series.notes.push(format!("{estimated} values of the carbon intensity are the publisher's estimates."));
            }
            return Ok(series);
        }
        Err(wrong(format!("zone {zone} has no values"), "name another zone or file"))
    }

    /// Carbon intensity from a file in Electricity Maps' form, g/kWh.
    ///
    /// # Errors
    /// When it cannot be read, is of another form, or lacks the zone.
    pub fn carbon_file(path: &Path, zone: Option<&str>, method: Method) -> Result<Self> {
        let what = "carbon intensities";
        CarbonFile::read(path)?.of_zone(zone, method, (what, &format!("The file of {what}")))
    }

    /// Price of electricity from a file, money a kWh, and the currency its heading names.
    ///
    /// # Errors
    /// When it cannot be read or has no column of times or prices.
    pub fn price_file(path: &Path) -> Result<(Self, String)> {
        let file = SourceFile::new(path);
        let mut ledger = Ledger::default();
        let mut table = Delimited::open(&file, b',', &())?;
        let names: Vec<String> = table.header().iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |fits: &dyn Fn(&str) -> bool| names.iter().position(|name| fits(name));
        let time = find(&|name| name == "datetime (utc)").or_else(|| find(&|name| name.starts_with("datetime")));
        let price = find(&|name| name.starts_with("price"));
        let unit = price.and_then(|at| unit(table.header().get(at)?));
        let (Some(time), Some(price), Some((currency, kwh))) = (time, price, unit) else {
            return Err(Error::Format {
                file: file.name().to_owned(),
                line: Some(1),
                column: None,
                found: format!("no time and price among the columns {}", table.header().join(", ")),
                remedy: "name them `Datetime (UTC)` and `Price (EUR/MWh)` (or /kWh, or another currency)".to_owned(),
            });
        };
        let utc = Zone::utc();
        let mut values = Vec::new();
        while let Some(mut record) = table.next_row(&mut ledger) {
            let ts = record.moment(Some(time), Moment::Local(&utc), "Datetime (UTC)");
            // A price may be negative, and one beyond all reason must not pass for an hour without a price.
            let far = record.field(Some(price)).and_then(|text| text.trim().parse::<f64>().ok());
            let value = far.filter(|far| far.is_finite()).or_else(|| record.number(Some(price), "Price"));
            let raw = record.raw();
            if let Some(value) = value.filter(|value| !(-MOST_PRICE..=MOST_PRICE).contains(&(value / kwh))) {
                return Err(Error::Format {
                    file: file.name().to_owned(),
                    line: Some(record.audit.line()),
                    column: Some("Price".to_owned()),
                    found: format!("the price {}, which is {} a kWh", plain(value), plain(value / kwh)),
                    remedy: format!("give prices from {} to {} a kWh", plain(-MOST_PRICE), plain(MOST_PRICE)),
                });
            }
            match (ts, value) {
                (Some(ts), Some(value)) => {
                    values.push((ts, value / kwh));
                    ledger.keep(record.audit);
                }
                (None, _) => {
                    ledger.quarantine(&record.audit, crate::quality::reason::NOT_A_TIME, "Datetime (UTC)", raw);
                }
                (Some(_), None) => ledger.quarantine(&record.audit, NO_PRICE, "Price", raw),
            }
        }
        table.finish(&mut ledger);
        let mut series = Self::new(values);
        if series.is_empty() {
            return Err(Error::format(file.name(), "no row has a time and a price", "export it again"));
        }
        series.note_ledger(&ledger, ("prices", "The file of prices"));
        Ok((series, currency))
    }

    /// Notes what could not be used of the rows of what is named first, and that the file, as it is named second, is damaged.
    fn note_ledger(&mut self, ledger: &Ledger, (what, file): (&str, &str)) {
        if ledger.quarantined > 0 {
            self.notes.push(format!(
                "{} of {} rows of {what} could not be used; their hours have no value.",
                ledger.quarantined, ledger.read
            ));
        }
        for damage in &ledger.damage {
            self.notes.push(format!("{file} ends early{}.", damage.after()));
        }
    }
}

/// A file of carbon intensities in Electricity Maps' form, read once for all the zones it is asked for.
#[derive(Debug)]
pub struct CarbonFile {
    /// Name of the file, without its folder.
    pub name: String,
    trace: Trace,
}

impl CarbonFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or is of another form.
    pub fn read(path: &Path) -> Result<Self> {
        let options = ReadOptions { reader: Some(CARBON_READER.to_owned()), ..ReadOptions::default() };
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self { name, trace: ingest::read(&[SourceFile::new(path)], &options)? })
    }

    /// Zones of its hours, with repetitions.
    pub fn zones(&self) -> impl Iterator<Item = &str> {
        self.trace.carbon.zone.iter().flatten()
    }

    /// The intensities of a zone, g/kWh, as [`Hourly::carbon`]; notes name the file.
    ///
    /// # Errors
    /// When it lacks the zone.
    pub fn hours(&self, zone: &str, method: Method) -> Result<Hourly> {
        self.of_zone(Some(zone), method, (&self.name, &self.name))
    }

    fn of_zone(&self, zone: Option<&str>, method: Method, called: (&str, &str)) -> Result<Hourly> {
        let mut series = Hourly::carbon(&self.trace.carbon, &self.name, zone, method)?;
        series.note_ledger(&self.trace.ledger, called);
        Ok(series)
    }
}

/// A row without a price.
const NO_PRICE: crate::quality::Reason = crate::quality::Reason {
    id: "no_value",
    what: "the row has no price, so the hour is missing",
    remedy: "nothing to do, unless the publisher has filled it since",
};

fn other_of(method: Method) -> Method {
    if method == Method::Direct { Method::Lca } else { Method::Direct }
}

fn in_words(method: Method) -> &'static str {
    match method {
        Method::Direct => "direct (what power stations emit)",
        Method::Lca => "of the life cycle (with fuel supply and building)",
    }
}

/// Currency and kWh of the unit in a heading: `Price (USD/MWh)` is USD and 1,000.
fn unit(heading: &str) -> Option<(String, f64)> {
    let inside = heading.split_once('(')?.1.split_once(')')?.0;
    let (currency, per) = inside.split_once('/')?;
    let kwh = match per.trim().to_ascii_lowercase().as_str() {
        "mwh" => 1_000.0,
        "kwh" => 1.0,
        _ => return None,
    };
    // Headings come in lower case.
    Some((currency.trim().to_ascii_uppercase(), kwh))
}
