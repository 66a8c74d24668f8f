//! Factors: what turns energy into facility energy, carbon, money and water, as an auditor writes it down in `audit.toml`.
//!
//! ```toml
//! [pue]
//! value = 1.25
//! category = 2                # where IT energy is metered: 1 UPS output, 2 PDU output, 3 input of the IT equipment
//! period = "annual"           # or "interim": of less than a year
//! source = "Facility report 2024, page 3"
//!
//! [carbon.location]           # the grid the site is on
//! file = "DE_2023_hourly.csv" # Electricity Maps form; or `trace = true`; or a constant `g_per_kwh = 380`
//! zone = "DE"                 # if the file has several
//! method = "direct"           # or "lca" (life cycle)
//! source = "Electricity Maps"
//!
//! [carbon.market]             # what was bought
//! residual_g_per_kwh = 450    # of what no contract covers; or `rest_as_location = true` where no residual mix is published
//! contracts = [{ kind = "ppa", share = 0.6, g_per_kwh = 0, source = "Wind farm, contract 17" }]
//!
//! [price]
//! file = "DE_prices.csv"      # Datetime (UTC), Price (EUR/MWh); or a constant `per_kwh = 0.12` with `currency = "EUR"`
//! add_per_kwh = 0.03          # grid fees and the like, on top
//!
//! [demand_charge]
//! per_kw_month = 9.5
//! interval = "hour"           # or "quarter_hour"
//! timezone = "Europe/Berlin"  # of the months
//!
//! [water]
//! l_per_kwh = 1.8             # WUE: litres a kWh of IT energy
//!
//! [embodied]
//! kg_per_gpu = 164
//! kg_per_node = 1200          # without its GPUs; needs gpus_per_node
//! gpus_per_node = 8
//! lifetime_years = 5
//!
//! [meter]                     # what telemetry does not tell, see `meter`
//! node_overhead_w = 450       # of a node beside its GPUs
//! assumed_util = 0.6          # of GPUs that jobs hold
//! period_s = 60               # between readings
//! [meter.power.A100]          # a GPU type, or `*` for all others
//! idle_w = 55
//! tdp_w = 400
//!
//! [site]                      # see `account::eu`
//! installed_it_kw = 800
//! ```
//!
//! Every table takes a `source`, which goes into the manifest. Nothing has a default but `method`, which is `direct`: the scope 2 of the
//! GHG Protocol counts what power stations emit, not what went into building and fuelling them ("GHG Protocol Scope 2 Guidance",
//! WRI 2015, 6.10). A figure whose factor is absent is absent, and says so.
//!
//! Categories of PUE are those of ISO/IEC 30134-2 and EN 50600-4-2. A value below 1 is impossible and refused.
//!
//! Worked number: 60 % at 0 g and the rest at 450 g are 0.6 · 0 + 0.4 · 450 = 180 g/kWh market-based.

pub mod hourly;
mod load;
pub mod site;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::audit::meter;
use crate::audit::model::Given;
use crate::error::{Error, Result};
use crate::time::Zone;
pub use hourly::Hourly;
pub use load::{FactorRecord, Used, load};
pub use site::Site;

/// Most a carbon intensity can be, g/kWh: burning lignite in the worst of plants gives about 1,500.
const MOST_G_PER_KWH: f64 = 5_000.0;
/// Most that one GPU can draw, watts.
const MOST_GPU_W: f64 = 10_000.0;

/// Where IT energy is metered, by ISO/IEC 30134-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PueCategory {
    /// 1, basic: at the output of the UPS.
    UpsOutput,
    /// 2, intermediate: at the output of the PDUs.
    PduOutput,
    /// 3, advanced: at the input of the IT equipment.
    ItInput,
}

impl PueCategory {
    /// In words, with its number.
    pub fn words(self) -> &'static str {
        match self {
            Self::UpsOutput => "category 1 (IT energy at the output of the UPS)",
            Self::PduOutput => "category 2 (IT energy at the output of the PDUs)",
            Self::ItInput => "category 3 (IT energy at the input of the IT equipment)",
        }
    }
}

/// Over what time a PUE was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PuePeriod {
    /// A year, as the standard asks for.
    Annual,
    /// Less: an interim PUE.
    Interim,
}

/// Power usage effectiveness: facility energy over IT energy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pue {
    /// The ratio, at least 1.
    pub value: f64,
    /// Where IT energy was metered for it; `None` if not stated.
    pub category: Option<PueCategory>,
    /// Over what time it was measured; `None` if not stated.
    pub period: Option<PuePeriod>,
    /// Where it is from.
    pub source: Option<String>,
}

impl Pue {
    /// `1.25, category 2 (…), annual`.
    pub fn words(&self) -> String {
        let category = self.category.map_or("category not stated", PueCategory::words);
        let period = match self.period {
            Some(PuePeriod::Annual) => "annual",
            Some(PuePeriod::Interim) => "interim (less than a year)",
            None => "period not stated",
        };
        format!("{}, {category}, {period}", self.value)
    }
}

/// Which intensity of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// What power stations emit.
    Direct,
    /// Life cycle: with fuel supply and building.
    Lca,
}

impl Method {
    /// As the carbon table spells it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Lca => "lca",
        }
    }
}

/// Where values by the hour come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// The same at all times.
    Constant(f64),
    /// A file, resolved against the folder of `audit.toml`.
    File(PathBuf),
    /// The trace's own carbon table.
    Trace,
}

/// Carbon intensity of the grid the site is on.
#[derive(Debug, Clone, PartialEq)]
pub struct Location {
    /// Grams of CO₂ equivalent a kWh, or where they are.
    pub values: Values,
    /// Grid zone, where the values have several.
    pub zone: Option<String>,
    /// Which intensity.
    pub method: Method,
    /// Where they are from.
    pub source: Option<String>,
}

/// How electricity was bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContractKind {
    /// Guarantees of origin, renewable energy certificates and the like.
    Certificate,
    /// A power purchase agreement.
    Ppa,
    /// The supplier's own mix.
    Supplier,
}

/// A contractual instrument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contract {
    /// Its kind.
    pub kind: ContractKind,
    /// Share of the electricity it covers, 0 to 1.
    pub share: f64,
    /// Its grams of CO₂ equivalent a kWh.
    pub g_per_kwh: f64,
    /// Where that is from.
    pub source: Option<String>,
}

/// Market-based factors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Market {
    /// Instruments.
    pub contracts: Vec<Contract>,
    /// Grams a kWh of what they do not cover.
    pub residual_g_per_kwh: Option<f64>,
    /// What they do not cover counts as location-based.
    pub rest_as_location: bool,
    /// Where the residual mix is from.
    pub source: Option<String>,
}

impl Market {
    /// Grams a kWh that the instruments bring, and the share they do not cover.
    pub fn covered(&self) -> (f64, f64) {
        let grams = self.contracts.iter().map(|contract| contract.share * contract.g_per_kwh).sum();
        let share: f64 = self.contracts.iter().map(|contract| contract.share).sum();
        // Three thirds are not exactly one.
        let rest = if (1.0 - share).abs() < 1e-9 { 0.0 } else { 1.0 - share };
        (grams, rest)
    }
}

/// Price of electricity.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Money a kWh, or where it is.
    pub values: Values,
    /// Currency of a constant; a file says its own.
    pub currency: Option<String>,
    /// Money a kWh on top at all times.
    pub add_per_kwh: f64,
    /// Where it is from.
    pub source: Option<String>,
}

/// Over what time the highest power is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// Means of hours.
    Hour,
    /// Means of quarter-hours.
    QuarterHour,
}

/// Money for the highest power of a month.
#[derive(Debug, Clone)]
pub struct DemandCharge {
    /// Money a kW and month.
    pub per_kw_month: f64,
    /// Over what time power is averaged for it.
    pub interval: Interval,
    /// Time zone of the months.
    pub zone: Zone,
    /// Where it is from.
    pub source: Option<String>,
}

/// Water usage effectiveness.
#[derive(Debug, Clone, PartialEq)]
pub struct Water {
    /// Litres a kWh of IT energy (ISO/IEC 30134-9).
    pub l_per_kwh: f64,
    /// Where it is from.
    pub source: Option<String>,
}

/// Carbon that was emitted to make the hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct Embodied {
    /// Kilograms of CO₂ equivalent a GPU, its share of its node included.
    pub kg_per_gpu: f64,
    /// Over so many years of 8,766 hours.
    pub lifetime_years: f64,
    /// Where it is from.
    pub source: Option<String>,
}

/// Power of one GPU type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuPower {
    /// Idle, watts.
    pub idle_w: Option<f64>,
    /// At most, watts.
    pub tdp_w: Option<f64>,
    /// Where it is from.
    pub source: Option<String>,
}

/// What telemetry does not tell of devices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metering {
    /// Time between readings, seconds.
    pub period_s: Option<f64>,
    /// Utilisation of GPUs that jobs hold, 0 to 1.
    pub assumed_util: Option<f64>,
    /// Power of a node beside its GPUs, watts.
    pub node_overhead_w: Option<f64>,
    /// Where energy counters begin again, joules.
    pub wraps_j: Vec<f64>,
    /// By GPU type, `*` for all others.
    pub power: BTreeMap<String, GpuPower>,
    /// Where it is from.
    pub source: Option<String>,
}

impl Metering {
    /// As the meter takes it.
    pub fn options(&self) -> meter::Options {
        let given = |power: &GpuPower| Given { idle_w: power.idle_w, tdp_w: power.tdp_w };
        meter::Options {
            period_s: self.period_s,
            assumed_util_ratio: self.assumed_util,
            node_overhead_w: self.node_overhead_w,
            wraps_j: self.wraps_j.clone(),
            power: self.power.iter().map(|(name, power)| (name.clone(), given(power))).collect(),
            ..meter::Options::default()
        }
    }
}

/// All factors.
#[derive(Debug, Clone, Default)]
pub struct Factors {
    /// Facility energy over IT energy.
    pub pue: Option<Pue>,
    /// Location-based carbon intensity.
    pub location: Option<Location>,
    /// Market-based carbon intensity.
    pub market: Option<Market>,
    /// Price of energy.
    pub price: Option<Price>,
    /// Price of power.
    pub demand_charge: Option<DemandCharge>,
    /// Water.
    pub water: Option<Water>,
    /// Embodied carbon.
    pub embodied: Option<Embodied>,
    /// What telemetry does not tell.
    pub meter: Metering,
    /// What the site reports to the European database.
    pub site: Site,
}

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
            format!("{what} is {number}"),
            &format!("give a number from {least} to {most}"),
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
            let found = "`zone` and `method` choose among the rows of a file, and a constant has none".to_owned();
            return Err(self.wrong(at, found, "leave them out, or name the `file`"));
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
            let found = format!("contracts cover {:.4} of the electricity", 1.0 - rest);
            return Err(self.wrong(at, found, "shares must not add up to more than 1"));
        }
        if rest > 0.0 && market.residual_g_per_kwh.is_some() == market.rest_as_location {
            let found = format!("it is not clear what the {rest:.4} that no contract covers emit");
            return Err(self.wrong(at, found, "give either `residual_g_per_kwh` or `rest_as_location = true`"));
        }
        Ok(market)
    }

    fn price(&self, entry: &PriceEntry, folder: &Path) -> Result<Price> {
        const MOST: f64 = 1e6;
        let values = match (&entry.per_kwh, &entry.file) {
            (Some(price), None) => Values::Constant(self.within(price, "the price", -MOST, MOST)?),
            (None, Some(file)) => Values::File(folder.join(file.get_ref())),
            (Some(both), Some(_)) => {
                let found = "the price is given twice".to_owned();
                return Err(self.wrong(both.span().start, found, "give either `per_kwh` or `file`"));
            }
            (None, None) => {
                let at = self.text.find("[price]").unwrap_or(0);
                return Err(self.wrong(at, "[price] says no price".to_owned(), "give `per_kwh` or `file`"));
            }
        };
        let add = entry.add_per_kwh.as_ref().map(|add| self.within(add, "`add_per_kwh`", -MOST, MOST)).transpose()?;
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
                let found = format!("`{}` is not in the IANA time zone database", name.get_ref());
                self.wrong(name.span().start, found, "use a name such as Europe/Berlin or UTC")
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
            power.insert(name.clone(), GpuPower { idle_w, tdp_w, source: given.source.clone() });
        }
        let wraps = entry.wraps_j.iter().map(|wrap| self.within(wrap, "where a counter begins again", 1.0, 1e15));
        Ok(Metering {
            period_s: known(&entry.period_s, "the time between readings", 0.001, 86_400.0)?,
            assumed_util: known(&entry.assumed_util, "the utilisation assumed", 0.0, 1.0)?,
            node_overhead_w: known(&entry.node_overhead_w, "power of a node beside its GPUs", 0.0, 20_000.0)?,
            wraps_j: wraps.collect::<Result<_>>()?,
            power,
            source: entry.source.clone(),
        })
    }

    fn embodied(&self, entry: &EmbodiedEntry) -> Result<Embodied> {
        let own = self.within(&entry.kg_per_gpu, "embodied carbon of a GPU", 0.0, 1e6)?;
        let of_node = match (&entry.kg_per_node, &entry.gpus_per_node) {
            (None, _) => 0.0,
            (Some(node), Some(gpus)) => {
                self.within(node, "embodied carbon of a node", 0.0, 1e7)?
                    / self.within(gpus, "`gpus_per_node`", 1.0, 1e4)?
            }
            (Some(node), None) => {
                let found = "embodied carbon of a node without how many GPUs share it".to_owned();
                return Err(self.wrong(node.span().start, found, "give `gpus_per_node`"));
            }
        };
        Ok(Embodied {
            kg_per_gpu: own + of_node,
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
        if let Some((key, at, found)) = content.site.wrong() {
            return Err(checked.wrong(at, format!("`{key}` is {found}"), "give a number that is not negative"));
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

#[cfg(test)]
#[path = "factors/tests.rs"]
mod tests;
