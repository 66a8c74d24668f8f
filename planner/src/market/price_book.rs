//! Prices that stand beside traces: a list for each zone, or AWS's history.
//!
//! A list has a value for each tick of the trace of its zone, which its key names as SkyPilot names files (`{"us-east-1a_v100_1": [1.67, …]}`) or by the zone alone. AWS's
//! history (`describe-spot-price-history`) has quotes at dates, so the moment of the first tick must be told; of several instance types of a zone the one with the
//! trace's accelerators is used. Both become [steps](super::price).
//!
//! O(n log n). Worked example: `{"us-east-1a": [1.0, null, 1.2]}` is 1.0, 1.0 and 1.2 dollars an hour in the first three ticks of `us-east-1a`, one quote without a price.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use tracecast_analytics::Trace;
use tracecast_analytics::ingest::SourceFile;

use super::availability::SpotSeries;
use super::price::{PriceSteps, Quote, ZonePrice};
use crate::error::{Error, Result};

/// The largest file of price lists, bytes when unpacked.
const MOST_BYTES: u64 = 256 << 20;

/// Prices that stand beside traces.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceBook {
    /// Name of the file.
    name: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// Zone and instance, and a value for each tick.
    ByTick(BTreeMap<String, Vec<Option<f64>>>),
    /// Zone, GPU model, GPUs and instance type, and quotes at their moments.
    ByDate(Vec<(Label, Vec<Quote>)>),
}

/// Zone and instance of a history of prices.
#[derive(Debug, Clone, PartialEq)]
struct Label {
    zone: String,
    instance: String,
    gpu_type: Option<String>,
    gpus: Option<f64>,
}

fn wrong(file: &str, found: String, remedy: &'static str) -> Error {
    Error::SpotTrace { file: file.to_owned(), found, remedy }
}

const FORMS: &str = "give a list of prices for each zone, {\"us-east-1a_v100_1\": [1.67, …]}, or AWS's describe-spot-price-history as JSON";

impl PriceBook {
    /// Reads a list for each zone; nothing if the file is of another form.
    ///
    /// # Errors
    /// If the file cannot be read, or is too large.
    pub fn lists(file: &SourceFile) -> Result<Option<Self>> {
        let name = file.name().to_owned();
        let io = |error: std::io::Error| wrong(&name, format!("it cannot be read: {error}"), FORMS);
        let mut text = String::new();
        let reader = file.open(&()).map_err(|error| wrong(&name, error.to_string(), FORMS))?;
        let read = reader.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(io)?;
        if read as u64 > MOST_BYTES {
            return Err(wrong(&name, format!("it unpacks to more than {} MiB", MOST_BYTES >> 20), FORMS));
        }
        let Ok(Value::Object(zones)) = serde_json::from_str::<Value>(&text) else { return Ok(None) };
        if zones.is_empty() || zones.contains_key("SpotPriceHistory") || !zones.values().all(Value::is_array) {
            return Ok(None);
        }
        let values = |list: Value| -> Vec<Option<f64>> {
            list.as_array().map(|list| list.iter().map(Value::as_f64).collect()).unwrap_or_default()
        };
        let lists = zones.into_iter().map(|(zone, list)| (zone, values(list))).collect();
        Ok(Some(Self { name, form: Form::ByTick(lists) }))
    }

    /// From a history that was read as a source.
    ///
    /// # Errors
    /// If it holds no spot price.
    pub fn history(trace: &Trace, name: String) -> Result<Self> {
        let table = &trace.prices;
        let mut result: Vec<(Label, Vec<Quote>)> = Vec::new();
        for (row, (ts, usd_per_h)) in table.ts.iter().zip(table.usd_per_h.iter()).enumerate() {
            let (Some("spot"), Some(at_ms), Some(zone)) = (table.kind.get(row), ts, table.zone.get(row)) else {
                continue;
            };
            let label = Label {
                zone: zone.to_owned(),
                instance: table.instance.get(row).unwrap_or_default().to_owned(),
                gpu_type: table.gpu_type.get(row).map(str::to_owned),
                gpus: table.gpus.get(row),
            };
            let quote = Quote { at_ms, usd_per_h };
            match result.iter_mut().find(|(of, _)| *of == label) {
                Some((_, quotes)) => quotes.push(quote),
                None => result.push((label, vec![quote])),
            }
        }
        if result.is_empty() {
            return Err(wrong(&name, "it holds no spot price".to_owned(), FORMS));
        }
        Ok(Self { name, form: Form::ByDate(result) })
    }

    /// Gives a trace its prices. `first_ms` is the moment of its first tick, where prices are dated; `on_demand` stands where the trace names no price.
    ///
    /// # Errors
    /// If there are none for the trace or its accelerators, several kinds of instances, a list is not as long as the trace, or the moment of its first tick is not
    /// known.
    pub fn price(&self, series: &mut SpotSeries, first_ms: Option<i64>) -> Result<()> {
        let ticks = series.counts.len();
        let steps = match &self.form {
            Form::ByTick(lists) => {
                let key = lists.keys().find(|key| is_of(key, series));
                let list = key.and_then(|key| lists.get(key));
                let Some(list) = list else { return Err(self.none_for(series)) };
                if list.len() != ticks {
                    return Err(wrong(
                        &self.name,
                        format!(
                            "its list for {} has {} prices, and the trace {ticks} samples",
                            series.name,
                            list.len()
                        ),
                        "give a price for each sample, null where it is not known, from the first sample on",
                    ));
                }
                let quotes =
                    list.iter().enumerate().map(|(tick, price)| Quote { at_ms: tick as i64, usd_per_h: *price });
                let steps = PriceSteps::new(quotes);
                (steps.by_tick(0, 1, ticks), steps.audit)
            }
            Form::ByDate(histories) => {
                let Some(first_ms) = first_ms else {
                    return Err(wrong(
                        &self.name,
                        "its prices are dated, and the traces count from their first sample".to_owned(),
                        "say when the first sample was taken, with --begins 2023-02-15T00:00:00Z",
                    ));
                };
                let of: Vec<&(Label, Vec<Quote>)> =
                    histories.iter().filter(|(label, _)| Some(&label.zone) == series.zone.as_ref()).collect();
                match same_instance(&of, series).as_slice() {
                    [] if of.is_empty() => return Err(self.none_for(series)),
                    [] => {
                        let mut kinds: Vec<String> = of.iter().filter_map(|(label, _)| label.accelerators()).collect();
                        kinds.sort_unstable();
                        kinds.dedup();
                        let (zone, instance) = (series.zone.as_deref(), series.instance.as_deref());
                        return Err(wrong(
                            &self.name,
                            format!(
                                "in {} it holds prices of {}, and {} is of {}",
                                zone.unwrap_or_default(),
                                kinds.join(", "),
                                series.name,
                                instance.unwrap_or_default()
                            ),
                            "name a file with prices of the trace's accelerators",
                        ));
                    }
                    [(_, quotes)] => {
                        let steps = PriceSteps::new(quotes.iter().copied());
                        (steps.by_tick(first_ms, series.tick_ms, ticks), steps.audit)
                    }
                    several => {
                        let types: Vec<&str> = several.iter().map(|(label, _)| label.instance.as_str()).collect();
                        return Err(wrong(
                            &self.name,
                            format!(
                                "for {} it holds prices of several instance types ({})",
                                series.name,
                                types.join(", ")
                            ),
                            "keep the one that the trace is of",
                        ));
                    }
                }
            }
        };
        let (spot, audit) = steps;
        if spot.iter().all(Option::is_none) {
            return Err(wrong(
                &self.name,
                format!("it has no price of {} before the end of its trace", series.name),
                "name a file of the same days",
            ));
        }
        let on_demand = series.list_price.or(series.price.as_ref().and_then(|price| price.on_demand));
        series.price = Some(ZonePrice { spot, on_demand, audit });
        Ok(())
    }

    fn none_for(&self, series: &SpotSeries) -> Error {
        let of = series.zone.as_deref().unwrap_or(&series.name);
        wrong(&self.name, format!("it holds no spot price of {of}"), "name a file with prices of each zone")
    }
}

impl Label {
    /// GPUs as SkyPilot writes them: `V100:1`.
    fn accelerators(&self) -> Option<String> {
        Some(format!("{}:{}", self.gpu_type.as_ref()?, self.gpus?))
    }
}

/// Histories of a zone for the trace's accelerators or instance type; if there are none, those
/// whose accelerators are unknown. All of them, if the trace's instance is not known.
fn same_instance<'a>(of: &[&'a (Label, Vec<Quote>)], series: &SpotSeries) -> Vec<&'a (Label, Vec<Quote>)> {
    let Some(instance) = &series.instance else { return of.to_vec() };
    let with = |wanted: Option<&str>| -> Vec<&'a (Label, Vec<Quote>)> {
        let alike = |kind: Option<String>| match (kind, wanted) {
            (Some(kind), Some(wanted)) => kind.eq_ignore_ascii_case(wanted),
            (None, None) => true,
            _ => false,
        };
        let named = |label: &Label| wanted.is_some_and(|wanted| label.instance.eq_ignore_ascii_case(wanted));
        of.iter().copied().filter(|(label, _)| named(label) || alike(label.accelerators())).collect()
    };
    let same = with(Some(instance));
    if same.is_empty() { with(None) } else { same }
}

/// A moment with its offset, such as `2023-02-15T00:00:00Z`, in milliseconds since 1970.
pub fn moment(text: &str) -> Option<i64> {
    text.parse().ok().map(jiff::Timestamp::as_millisecond)
}

/// Whether a key of price lists names a trace: its zone, alone or with its accelerator as SkyPilot names files.
fn is_of(key: &str, series: &SpotSeries) -> bool {
    let Some(zone) = &series.zone else { return key == series.name };
    let file = series.instance.as_ref().map(|instance| format!("{zone}_{}", instance.replace(':', "_")));
    key == zone || key == series.name || file.is_some_and(|file| file.eq_ignore_ascii_case(key))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn series(zone: &str) -> SpotSeries {
        SpotSeries {
            name: zone.to_owned(),
            zone: Some(zone.to_owned()),
            instance: Some("V100:1".to_owned()),
            tick_ms: 60_000,
            counts: vec![1.0; 3],
            unread: Vec::new(),
            begins_ms: None,
            price: None,
            list_price: Some(3.0),
            sources: Vec::new(),
        }
    }

    fn read(text: &str) -> Result<Option<PriceBook>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.json");
        std::fs::write(&path, text).unwrap();
        PriceBook::lists(&SourceFile::new(path))
    }

    #[test]
    fn the_worked_example() {
        for key in ["us-east-1a", "us-east-1a_v100_1"] {
            let book = read(&format!("{{\"{key}\": [1.0, null, 1.2]}}")).unwrap().unwrap();
            let mut zone = series("us-east-1a");
            book.price(&mut zone, None).unwrap();
            let price = zone.price.unwrap();
            assert_eq!(
                (price.spot, price.on_demand, price.audit.missing),
                (vec![Some(1.0), Some(1.0), Some(1.2)], Some(3.0), 1)
            );
            let other = book.price(&mut series("us-east-1b"), None).unwrap_err().to_string();
            assert!(other.contains("no spot price of us-east-1b"), "{other}");
        }
        let short = read("{\"us-east-1a\": [1.0, 1.2]}").unwrap().unwrap();
        let said = short.price(&mut series("us-east-1a"), None).unwrap_err().to_string();
        assert!(said.contains("has 2 prices, and the trace 3 samples"), "{said}");
        assert!(read("{\"SpotPriceHistory\": []}").unwrap().is_none() && read("[1]").unwrap().is_none());
    }

    /// The trace is of one V100. Prices of K80s are not its; those of an unknown kind may be, unless there are some of one V100.
    #[test]
    fn a_history_of_other_accelerators_is_refused() {
        let label = |gpu: Option<&str>| Label {
            zone: "us-east-1a".to_owned(),
            instance: "x".to_owned(),
            gpu_type: gpu.map(str::to_owned),
            gpus: gpu.map(|_| 1.0),
        };
        let of = |gpus: &[(Option<&str>, f64)]| {
            let quotes = |price| vec![Quote { at_ms: 0, usd_per_h: Some(price) }];
            let histories = gpus.iter().map(|(gpu, price)| (label(*gpu), quotes(*price))).collect();
            let mut zone = series("us-east-1a");
            let book = PriceBook { name: "history.json".to_owned(), form: Form::ByDate(histories) };
            book.price(&mut zone, Some(0)).map(|()| zone.price.unwrap().spot[0])
        };
        let said = of(&[(Some("K80"), 1.0)]).unwrap_err().to_string();
        assert!(said.contains("prices of K80:1, and us-east-1a is of V100:1"), "{said}");
        assert_eq!(of(&[(Some("K80"), 1.0), (Some("V100"), 2.0), (None, 3.0)]).unwrap(), Some(2.0));
        assert_eq!(of(&[(Some("K80"), 1.0), (None, 3.0)]).unwrap(), Some(3.0));
    }
}
