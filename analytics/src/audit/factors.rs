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

mod file;
pub mod hourly;
mod load;
pub mod site;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::energy::meter;
use crate::energy::model::Given;
use crate::time::Zone;
pub use hourly::{CarbonFile, Hourly};
pub use load::{FactorRecord, Used, load};
pub use site::Site;

/// Factors with their files read.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The factors.
    pub factors: Factors,
    /// Location-based intensity, g/kWh.
    pub intensity: Option<Hourly>,
    /// Price of energy, money a kWh, all told.
    pub price: Option<Hourly>,
    /// Currency of prices.
    pub currency: Option<String>,
}

/// Point at which IT energy is metered, by ISO/IEC 30134-2.
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
    /// Words for people, with the category's number.
    pub fn words(self) -> &'static str {
        match self {
            Self::UpsOutput => "category 1 (IT energy at the output of the UPS)",
            Self::PduOutput => "category 2 (IT energy at the output of the PDUs)",
            Self::ItInput => "category 3 (IT energy at the input of the IT equipment)",
        }
    }
}

/// Period over which a PUE was measured.
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
    /// Point at which IT energy was metered; `None` if not stated.
    pub category: Option<PueCategory>,
    /// Period of the measurement; `None` if not stated.
    pub period: Option<PuePeriod>,
    /// Source of the ratio.
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

/// Kind of grid intensity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Emissions of power stations.
    Direct,
    /// Life cycle: with fuel supply and building.
    Lca,
}

impl Method {
    /// Spelling in the carbon table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Lca => "lca",
        }
    }
}

/// Origin of hourly values.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// One value for all times.
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
    /// Kind of intensity.
    pub method: Method,
    /// Source of the values.
    pub source: Option<String>,
}

/// Kind of electricity contract.
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
    /// Kind of instrument.
    pub kind: ContractKind,
    /// Share of the electricity it covers, 0 to 1.
    pub share: f64,
    /// Intensity, grams of CO₂ equivalent a kWh.
    pub g_per_kwh: f64,
    /// Source of the intensity.
    pub source: Option<String>,
}

/// Market-based factors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Market {
    /// Instruments.
    pub contracts: Vec<Contract>,
    /// Grams a kWh of what they do not cover.
    pub residual_g_per_kwh: Option<f64>,
    /// Whether electricity without a contract counts as location-based.
    pub rest_as_location: bool,
    /// Source of the residual mix.
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
    /// Source of the price.
    pub source: Option<String>,
}

/// Period over which power is averaged for a peak.
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
    /// Period over which power is averaged.
    pub interval: Interval,
    /// Time zone of the months.
    pub zone: Zone,
    /// Source of the charge.
    pub source: Option<String>,
}

/// Water usage effectiveness.
#[derive(Debug, Clone, PartialEq)]
pub struct Water {
    /// Litres a kWh of IT energy (ISO/IEC 30134-9).
    pub l_per_kwh: f64,
    /// Source of the figure.
    pub source: Option<String>,
}

/// Carbon that was emitted to make the hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct Embodied {
    /// Kilograms of CO₂ equivalent a GPU, its share of its node included.
    pub kg_per_gpu: f64,
    /// Lifetime in years of 8,766 hours.
    pub lifetime_years: f64,
    /// Source of the figure.
    pub source: Option<String>,
}

/// Power of one GPU type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RatedPower {
    /// Idle, watts.
    pub idle_w: Option<f64>,
    /// Maximum, watts.
    pub tdp_w: Option<f64>,
    /// Source of the figures.
    pub source: Option<String>,
}

/// Properties of devices that telemetry does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metering {
    /// Time between readings, seconds.
    pub period_s: Option<f64>,
    /// Utilisation of GPUs that jobs hold, 0 to 1.
    pub assumed_util: Option<f64>,
    /// Power of a node beside its GPUs, watts.
    pub node_overhead_w: Option<f64>,
    /// Values at which energy counters wrap, joules.
    pub wraps_j: Vec<f64>,
    /// Power by GPU type, `*` for all others.
    pub power: BTreeMap<String, RatedPower>,
    /// Source of the figures.
    pub source: Option<String>,
}

impl Metering {
    /// Options of the meter.
    pub fn options(&self) -> meter::Options {
        let given = |power: &RatedPower| Given { idle_w: power.idle_w, tdp_w: power.tdp_w };
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
    /// Properties of devices that telemetry does not tell.
    pub meter: Metering,
    /// Facts that the site reports to the European database.
    pub site: Site,
}

#[cfg(test)]
#[path = "factors/tests.rs"]
mod tests;
