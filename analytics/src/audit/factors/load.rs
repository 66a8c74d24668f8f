//! Loads factors: reads the files that they name, and records the values used.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Factors, Hourly, Interval, Loaded, Location, Metering, Method, Price, Values};
use crate::audit::name::base;
use crate::error::{Error, Result};
use crate::time::format_utc;
use crate::trace::Trace;

/// A factor as it was used, for the reader and for the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactorRecord {
    /// Name of the factor.
    pub name: String,
    /// Value in words.
    pub value: String,
    /// Source, as stated; `null` if not stated.
    pub source: Option<String>,
}

/// Factors with their records, files and notes.
#[derive(Debug, Clone, Default)]
pub struct Used {
    /// The factors with their values.
    pub loaded: Loaded,
    /// Factors as they were used.
    pub records: Vec<FactorRecord>,
    /// Files read, each with what for.
    pub files: Vec<(&'static str, PathBuf)>,
    /// Caveats on the factors, one sentence each.
    pub notes: Vec<String>,
}

/// `hourly from de.csv, 8,760 hours from 2023-01-01 00:00:00 to 2024-01-01 00:00:00 UTC`.
fn hourly_words(series: &Hourly, from: &str) -> String {
    let hours = series.len().unwrap_or(0);
    let hours = crate::report::format::counted(hours as u64, "hour", "hours");
    let span = series
        .span()
        .map_or_else(String::new, |(first, end)| format!(" from {} to {} UTC", format_utc(first), format_utc(end)));
    format!("hourly from {from}, {hours}{span}")
}

/// Reads what `factors` name. Where they name no location-based intensity and the trace has one of a single zone, that is used, with a note.
///
/// # Errors
/// When a file cannot be read, or a zone is missing or not clear.
pub fn load(mut factors: Factors, trace: &Trace) -> Result<Used> {
    let mut used = Used::default();
    if factors.location.is_none() && has_one_zone(trace) {
        used.notes.push("No carbon intensity was given; that of the trace's own table is used.".to_owned());
        let source = Some("the trace's own carbon table".to_owned());
        factors.location = Some(Location { values: Values::Trace, zone: None, method: Method::Direct, source });
    }
    let mut record = |name: &str, value: String, source: Option<&String>| {
        used.records.push(FactorRecord { name: name.to_owned(), value, source: source.cloned() });
    };
    if let Some(pue) = &factors.pue {
        record("PUE", pue.words(), pue.source.as_ref());
    }
    let mut intensity = None;
    if let Some(location) = &factors.location {
        let zone = location.zone.as_deref();
        let (series, from) = match &location.values {
            Values::Constant(grams) => (Hourly::constant(*grams), format!("{grams} g/kWh at all times")),
            Values::File(path) => {
                used.files.push(("carbon", path.clone()));
                let series = Hourly::carbon_file(path, zone, location.method)?;
                let words = hourly_words(&series, &base(path));
                (series, words)
            }
            Values::Trace => {
                let series = Hourly::carbon(&trace.carbon, "the trace's carbon table", zone, location.method)?;
                let words = hourly_words(&series, "the trace's carbon table");
                (series, words)
            }
        };
        record("Carbon intensity, location-based", from.clone(), location.source.as_ref());
        used.notes.push(format!("Location-based carbon intensity: {from}."));
        used.notes.extend(series.notes.iter().cloned());
        intensity = Some(series);
    }
    if let Some(market) = &factors.market {
        for contract in &market.contracts {
            let kind = match contract.kind {
                super::ContractKind::Certificate => "certificates",
                super::ContractKind::Ppa => "power purchase agreement",
                super::ContractKind::Supplier => "supplier's mix",
            };
            let value = format!("{} of the electricity at {} g/kWh", contract.share, contract.g_per_kwh);
            record(&format!("Carbon intensity, market-based: {kind}"), value, contract.source.as_ref());
        }
        let (_, rest) = market.covered();
        if rest > 0.0 {
            let grams = market
                .residual_g_per_kwh
                .map_or_else(|| "as location-based".to_owned(), |grams| format!("at {grams} g/kWh"));
            let value = format!("{rest:.4} of the electricity {grams}");
            record("Carbon intensity, market-based: rest", value, market.source.as_ref());
        }
    }
    let (mut price, mut currency) = (None, None);
    if let Some(given) = &factors.price {
        let (series, code, words) = priced(given, &mut used.files)?;
        let add = if given.add_per_kwh == 0.0 { String::new() } else { format!(", plus {} a kWh", given.add_per_kwh) };
        record("Price of electricity", format!("{words}{add}"), given.source.as_ref());
        used.notes.extend(series.notes.iter().cloned());
        price = Some(if given.add_per_kwh == 0.0 { series } else { series.map(|price| price + given.add_per_kwh) });
        currency = code;
    }
    if let Some(demand) = &factors.demand_charge {
        let interval = match demand.interval {
            Interval::Hour => "hour",
            Interval::QuarterHour => "quarter-hour",
        };
        let value =
            format!("{} a kW of the highest {interval} of a month ({})", demand.per_kw_month, demand.zone.name());
        record("Demand charge", value, demand.source.as_ref());
    }
    if let Some(water) = &factors.water {
        record("WUE", format!("{} L/kWh of IT energy", water.l_per_kwh), water.source.as_ref());
    }
    if let Some(embodied) = &factors.embodied {
        let value = format!("{} kg a GPU over {} years", embodied.kg_per_gpu, embodied.lifetime_years);
        record("Embodied carbon", value, embodied.source.as_ref());
    }
    metering(&factors.meter, &mut record);
    if let Some(source) = &factors.site.source {
        record("Site data", "as listed under the EU fields".to_owned(), Some(source));
    }
    used.loaded = Loaded { factors, intensity, price, currency };
    Ok(used)
}

/// Records what was stated of devices.
fn metering(meter: &Metering, record: &mut impl FnMut(&str, String, Option<&String>)) {
    let source = meter.source.as_ref();
    if let Some(watts) = meter.node_overhead_w {
        record("Power of a node beside its GPUs", format!("{watts} W"), source);
    }
    if let Some(util) = meter.assumed_util {
        record("Utilisation assumed of GPUs held", util.to_string(), source);
    }
    if let Some(seconds) = meter.period_s {
        record("Time between readings", format!("{seconds} s"), source);
    }
    for wrap in &meter.wraps_j {
        record("Counters begin again at", format!("{wrap} J"), source);
    }
    for (name, power) in &meter.power {
        let watts = |watts: Option<f64>| watts.map_or_else(|| "not stated".to_owned(), |watts| format!("{watts} W"));
        let value = format!("idle {}, at most {}", watts(power.idle_w), watts(power.tdp_w));
        record(&format!("Power of GPU type {name}"), value, power.source.as_ref().or(source));
    }
}

fn has_one_zone(trace: &Trace) -> bool {
    let mut zones = trace.carbon.zone.iter().flatten();
    zones.next().is_some_and(|first| zones.all(|zone| zone == first))
}

/// Prices with their currency, and in words.
fn priced(given: &Price, files: &mut Vec<(&'static str, PathBuf)>) -> Result<(Hourly, Option<String>, String)> {
    match &given.values {
        Values::File(path) => {
            files.push(("price", path.clone()));
            let (series, currency) = Hourly::price_file(path)?;
            if let Some(stated) = given.currency.as_ref().filter(|stated| !stated.eq_ignore_ascii_case(&currency)) {
                return Err(Error::Setting {
                    setting: "price of electricity".to_owned(),
                    found: format!("{} is in {currency}, and `currency` says {stated}", path.display()),
                    remedy: "leave `currency` out, or convert the file".to_owned(),
                });
            }
            let words = hourly_words(&series, &base(path));
            Ok((series, Some(currency), words))
        }
        Values::Constant(price) => {
            let unit = given.currency.clone().unwrap_or_default();
            let words = format!("{price} {unit}").trim().to_owned() + " a kWh at all times";
            Ok((Hourly::constant(*price), given.currency.clone(), words))
        }
        Values::Trace => Err(Error::Setting {
            setting: "price of electricity".to_owned(),
            found: "a trace holds prices of instances and not of electricity".to_owned(),
            remedy: "give `per_kwh` or `file`".to_owned(),
        }),
    }
}
