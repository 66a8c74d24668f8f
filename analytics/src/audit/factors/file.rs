//! The text of `audit.toml` checked, key by key.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Contract, ContractKind, DemandCharge, Embodied, Factors, Interval, Location, Market, Metering, Method, Price, Pue,
    PueCategory, PuePeriod, RatedPower, Site, Values, Water,
};
use crate::error::{Error, Result};
use crate::time::{DAY_S, Zone};

/// Most a carbon intensity can be, g/kWh: burning lignite in the worst of plants gives about 1,500.
pub(super) const MOST_G_PER_KWH: f64 = 5_000.0;
/// No kWh costs more (or less than as much below 0), in whatever currency.
pub(super) const MOST_PRICE: f64 = 1e6;
/// Most that one GPU can draw, watts.
const MOST_GPU_W: f64 = 10_000.0;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pue: Option<PueEntry>,
    #[serde(default)]
    carbon: CarbonEntry,
    price: Option<PriceEntry>,
    demand_charge: Option<DemandEntry>,
    water: Option<WaterEntry>,
    embodied: Option<EmbodiedEntry>,
    #[serde(default)]
    meter: MeterEntry,
    #[serde(default)]
    site: Site,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PueEntry {
    value: Spanned<f64>,
    category: Option<Spanned<i64>>,
    period: Option<PuePeriod>,
    source: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CarbonEntry {
    location: Option<Spanned<LocationEntry>>,
    market: Option<Spanned<MarketEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocationEntry {
    g_per_kwh: Option<Spanned<f64>>,
    file: Option<String>,
    #[serde(default)]
    trace: bool,
    zone: Option<String>,
    method: Option<Method>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContractEntry {
    kind: ContractKind,
    share: Spanned<f64>,
    g_per_kwh: Spanned<f64>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarketEntry {
    #[serde(default)]
    contracts: Vec<ContractEntry>,
    residual_g_per_kwh: Option<Spanned<f64>>,
    #[serde(default)]
    rest_as_location: bool,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    per_kwh: Option<Spanned<f64>>,
    file: Option<Spanned<String>>,
    currency: Option<String>,
    add_per_kwh: Option<Spanned<f64>>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DemandEntry {
    per_kw_month: Spanned<f64>,
    interval: Interval,
    timezone: Option<Spanned<String>>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaterEntry {
    l_per_kwh: Spanned<f64>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbodiedEntry {
    kg_per_gpu: Spanned<f64>,
    kg_per_node: Option<Spanned<f64>>,
    gpus_per_node: Option<Spanned<f64>>,
    lifetime_years: Spanned<f64>,
    source: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeterEntry {
    period_s: Option<Spanned<f64>>,
    assumed_util: Option<Spanned<f64>>,
    node_overhead_w: Option<Spanned<f64>>,
    #[serde(default)]
    wraps_j: Vec<Spanned<f64>>,
    #[serde(default)]
    power: BTreeMap<String, PowerEntry>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerEntry {
    idle_w: Option<Spanned<f64>>,
    tdp_w: Option<Spanned<f64>>,
    source: Option<String>,
}

/// A file while it is checked.
struct Checked<'a> {
    file: &'a str,
    text: &'a str,
}

/// A number as people write it: with an exponent where it is far from 1.
pub(super) fn plain(number: f64) -> String {
    if number == 0.0 || (1e-4..1e15).contains(&number.abs()) { number.to_string() } else { format!("{number:e}") }
}

impl Checked<'_> {
    fn wrong(&self, at: usize, found: String, remedy: &str) -> Error {
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1;
        Error::Format { file: self.file.to_owned(), line: Some(line), column: None, found, remedy: remedy.to_owned() }
    }

    /// A number between two bounds, both included.
    fn within(&self, value: &Spanned<f64>, what: &str, least: f64, most: f64) -> Result<f64> {
        let number = *value.get_ref();
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.wrong(
            value.span().start,
            format!("{what} is {}", plain(number)),
            &format!("give a number from {} to {}", plain(least), plain(most)),
        ))
    }

    fn pue(&self, entry: &PueEntry) -> Result<Pue> {
        let value = self.within(&entry.value, "the PUE", 1.0, 10.0)?;
        let category = match &entry.category {
            None => None,
            Some(number) => Some(match number.get_ref() {
                1 => PueCategory::UpsOutput,
                2 => PueCategory::PduOutput,
                3 => PueCategory::ItInput,
                other => {
                    return Err(self.wrong(
                        number.span().start,
                        format!("there is no PUE category {other}"),
                        "write 1 (UPS output), 2 (PDU output) or 3 (input of the IT equipment)",
                    ));
                }
            }),
        };
        Ok(Pue { value, category, period: entry.period, source: entry.source.clone() })
    }

    fn location(&self, entry: &Spanned<LocationEntry>, folder: &Path) -> Result<Location> {
        let (at, entry) = (entry.span().start, entry.get_ref());
        let values = match (&entry.g_per_kwh, &entry.file, entry.trace) {
            (Some(grams), None, false) => {
                Values::Constant(self.within(grams, "the carbon intensity", 0.0, MOST_G_PER_KWH)?)
            }
            (None, Some(file), false) => Values::File(folder.join(file)),
            (None, None, true) => Values::Trace,
            _ => {
                return Err(self.wrong(
                    at,
                    "the location-based intensity is given in no way, or in several".to_owned(),
                    "give one of `g_per_kwh`, `file` and `trace = true`",
                ));
            }
        };
        if matches!(values, Values::Constant(_)) && (entry.zone.is_some() || entry.method.is_some()) {
            let problem = "`zone` and `method` choose among the rows of a file, and a constant has none".to_owned();
            return Err(self.wrong(at, problem, "leave them out, or name the `file`"));
        }
        let method = entry.method.unwrap_or(Method::Direct);
        Ok(Location { values, zone: entry.zone.clone(), method, source: entry.source.clone() })
    }

    fn market(&self, entry: &Spanned<MarketEntry>) -> Result<Market> {
        let (at, entry) = (entry.span().start, entry.get_ref());
        let mut contracts = Vec::new();
        for contract in &entry.contracts {
            contracts.push(Contract {
                kind: contract.kind,
                share: self.within(&contract.share, "the share of a contract", 0.0, 1.0)?,
                g_per_kwh: self.within(&contract.g_per_kwh, "the intensity of a contract", 0.0, MOST_G_PER_KWH)?,
                source: contract.source.clone(),
            });
        }
        let residual = entry.residual_g_per_kwh.as_ref();
        let residual = residual.map(|grams| self.within(grams, "the residual mix", 0.0, MOST_G_PER_KWH)).transpose()?;
        let market = Market {
            contracts,
            residual_g_per_kwh: residual,
            rest_as_location: entry.rest_as_location,
            source: entry.source.clone(),
        };
        let (_, rest) = market.covered();
        if rest < 0.0 {
            let problem = format!("contracts cover {:.4} of the electricity", 1.0 - rest);
            return Err(self.wrong(at, problem, "shares must not add up to more than 1"));
        }
        if rest > 0.0 && market.residual_g_per_kwh.is_some() == market.rest_as_location {
            let problem = format!("it is not clear what the {rest:.4} that no contract covers emit");
            return Err(self.wrong(at, problem, "give either `residual_g_per_kwh` or `rest_as_location = true`"));
        }
        Ok(market)
    }

    fn price(&self, entry: &PriceEntry, folder: &Path) -> Result<Price> {
        let values = match (&entry.per_kwh, &entry.file) {
            (Some(price), None) => Values::Constant(self.within(price, "the price", 0.0, MOST_PRICE)?),
            (None, Some(file)) => Values::File(folder.join(file.get_ref())),
            (Some(both), Some(_)) => {
                let problem = "the price is given twice".to_owned();
                return Err(self.wrong(both.span().start, problem, "give either `per_kwh` or `file`"));
            }
            (None, None) => {
                let at = self.text.find("[price]").unwrap_or(0);
                return Err(self.wrong(at, "[price] says no price".to_owned(), "give `per_kwh` or `file`"));
            }
        };
        let add = entry
            .add_per_kwh
            .as_ref()
            .map(|add| self.within(add, "`add_per_kwh`", -MOST_PRICE, MOST_PRICE))
            .transpose()?;
        Ok(Price {
            values,
            currency: entry.currency.clone(),
            add_per_kwh: add.unwrap_or(0.0),
            source: entry.source.clone(),
        })
    }

    fn demand_charge(&self, entry: &DemandEntry, zone: &Zone) -> Result<DemandCharge> {
        let zone = match &entry.timezone {
            None => zone.clone(),
            Some(name) => Zone::named(name.get_ref()).map_err(|_| {
                let result = format!("`{}` is not in the IANA time zone database", name.get_ref());
                self.wrong(name.span().start, result, "use a name such as Europe/Berlin or UTC")
            })?,
        };
        Ok(DemandCharge {
            per_kw_month: self.within(&entry.per_kw_month, "the demand charge", 0.0, 1e9)?,
            interval: entry.interval,
            zone,
            source: entry.source.clone(),
        })
    }

    fn meter(&self, entry: &MeterEntry) -> Result<Metering> {
        let known = |value: &Option<Spanned<f64>>, what: &str, least: f64, most: f64| {
            value.as_ref().map(|value| self.within(value, what, least, most)).transpose()
        };
        let mut power = BTreeMap::new();
        for (name, given) in &entry.power {
            let idle_w = known(&given.idle_w, "idle power of a GPU", 0.0, MOST_GPU_W)?;
            // No GPU can draw less at most than when it is idle.
            let tdp_w = known(&given.tdp_w, "the most a GPU draws", idle_w.unwrap_or(0.0), MOST_GPU_W)?;
            power.insert(name.clone(), RatedPower { idle_w, tdp_w, source: given.source.clone() });
        }
        let wraps = entry.wraps_j.iter().map(|wrap| self.within(wrap, "where a counter begins again", 1.0, 1e15));
        Ok(Metering {
            period_s: known(&entry.period_s, "the time between readings", 0.001, DAY_S)?,
            assumed_util: known(&entry.assumed_util, "the utilisation assumed", 0.0, 1.0)?,
            node_overhead_w: known(&entry.node_overhead_w, "power of a node beside its GPUs", 0.0, 20_000.0)?,
            wraps_j: wraps.collect::<Result<_>>()?,
            power,
            source: entry.source.clone(),
        })
    }

    fn embodied(&self, entry: &EmbodiedEntry) -> Result<Embodied> {
        let of_gpu = self.within(&entry.kg_per_gpu, "embodied carbon of a GPU", 0.0, 1e6)?;
        let of_node = match (&entry.kg_per_node, &entry.gpus_per_node) {
            (None, _) => 0.0,
            (Some(node), Some(gpus)) => {
                self.within(node, "embodied carbon of a node", 0.0, 1e7)?
                    / self.within(gpus, "`gpus_per_node`", 1.0, 1e4)?
            }
            (Some(node), None) => {
                let problem = "embodied carbon of a node without how many GPUs share it".to_owned();
                return Err(self.wrong(node.span().start, problem, "give `gpus_per_node`"));
            }
        };
        Ok(Embodied {
            kg_per_gpu: of_gpu + of_node,
            lifetime_years: self.within(&entry.lifetime_years, "the lifetime in years", 0.1, 100.0)?,
            source: entry.source.clone(),
        })
    }
}

impl Factors {
    /// Reads the text of a file called `file`; files it names lie beside it, in `folder`. Months are those of `zone` where it names none.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str, folder: &Path, zone: &Zone) -> Result<Self> {
        let checked = Checked { file, text };
        let content: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            checked.wrong(
                at,
                error.message().trim().replace('\n', " "),
                "see `tracecast audit --help` for what a factor file holds",
            )
        })?;
        if let Some((key, at, result)) = content.site.wrong() {
            let (least, most) = super::site::range(key);
            let remedy = format!("give a number from {} to {}", plain(least), plain(most));
            return Err(checked.wrong(at, format!("`{key}` is {}", plain(result)), &remedy));
        }
        Ok(Self {
            pue: content.pue.as_ref().map(|entry| checked.pue(entry)).transpose()?,
            location: content.carbon.location.as_ref().map(|entry| checked.location(entry, folder)).transpose()?,
            market: content.carbon.market.as_ref().map(|entry| checked.market(entry)).transpose()?,
            price: content.price.as_ref().map(|entry| checked.price(entry, folder)).transpose()?,
            demand_charge: content
                .demand_charge
                .as_ref()
                .map(|entry| checked.demand_charge(entry, zone))
                .transpose()?,
            water: match &content.water {
                None => None,
                Some(entry) => Some(Water {
                    l_per_kwh: checked.within(&entry.l_per_kwh, "water per kWh", 0.0, 1e3)?,
                    source: entry.source.clone(),
                }),
            },
            embodied: content.embodied.as_ref().map(|entry| checked.embodied(entry)).transpose()?,
            meter: checked.meter(&content.meter)?,
            site: content.site,
        })
    }
}
