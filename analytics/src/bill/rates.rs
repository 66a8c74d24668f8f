//! The rates file: what things cost, and who pays for what nobody held.
//!
//! ```toml
//! currency = "EUR"
//! charge = "use"            # or "allocation", the default
//! held_idle = 0.5           # with "use": price of a GPU-hour held idle, in parts of that used
//! spread = "allocation"     # who pays for what nobody held: "allocation", "equal" or "none"
//! [[gpu_hour]]              # the first that fits counts
//! gpu_type = "A100*"
//! hours = [8, 20]
//! price = 2.4
//! [[gpu_hour]]
//! price = 1.2
//! [unallocated]
//! price = 0.4
//! [energy]
//! per_kwh = 0.21
//! ```
//!
//! O(rates) to find one. Worked example: an hour of an A100 at 9:00 costs 2.40 by this file, at 21:00 1.20.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Highest price.
const MOST: f64 = 1e9;

/// What a GPU-hour is charged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChargedBy {
    /// What a job held.
    #[default]
    Allocation,
    /// What it used by telemetry, and what it held idle at a price of its own.
    Use,
}

/// Who pays for what nobody held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpreadRule {
    /// Each account in proportion to its GPU-hours.
    #[default]
    Allocation,
    /// Each account as much as another.
    Equal,
    /// Nobody: it stays with an account of its own.
    None,
}

/// Price of a GPU-hour of some jobs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuHourRate {
    /// Name of the rate in lines.
    pub name: Option<String>,
    /// GPU type; * stands for any text. All types without it.
    pub gpu_type: Option<String>,
    /// VC; all without it.
    pub vc: Option<String>,
    /// Hours of the day in the cluster's zone, from the first to before the second; over midnight where that
    /// is smaller. All without it.
    pub hours: Option<[u32; 2]>,
    /// Price.
    pub price: f64,
}

/// Price of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnePrice {
    /// Price.
    pub price: f64,
}

/// Price of energy.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyRate {
    /// Price of a kWh.
    pub per_kwh: f64,
}

/// Price of emissions.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CarbonRate {
    /// Price of a kg of CO2e.
    pub per_kg: f64,
    /// Emissions of a kWh, g.
    pub g_per_kwh: f64,
}

/// The rates file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// ISO 4217 code.
    pub currency: String,
    /// Decimals of an amount.
    #[serde(default = "two")]
    pub decimals: u32,
    /// Who writes the bill.
    pub issuer: Option<String>,
    /// Account of the whole cluster.
    pub billing_account: Option<String>,
    /// What a GPU-hour is charged by.
    #[serde(default)]
    pub charge: ChargedBy,
    /// Price of a GPU-hour held idle, in parts of that used.
    #[serde(default = "one")]
    pub held_idle: f64,
    /// Who pays for what nobody held.
    #[serde(default)]
    pub spread: SpreadRule,
    /// Prices of GPU-hours; the first that fits counts.
    #[serde(default)]
    pub gpu_hour: Vec<GpuHourRate>,
    /// Price of a core-hour of jobs without GPUs.
    pub core_hour: Option<OnePrice>,
    /// Price of a GPU-hour that no job held.
    pub unallocated: Option<OnePrice>,
    /// Price of energy.
    pub energy: Option<EnergyRate>,
    /// Price of emissions.
    pub carbon: Option<CarbonRate>,
}

fn two() -> u32 {
    2
}

fn one() -> f64 {
    1.0
}

/// Whether a pattern, in which * stands for any text, is that of a name; capitals do not matter.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut is_open = pattern.contains('*');
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        if at + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = rest.get(found + part.len()..).unwrap_or_default();
        is_open = true;
    }
    is_open || rest.is_empty()
}

impl GpuHourRate {
    /// Whether it is of a GPU type, a VC and an hour of the day.
    fn fits(&self, gpu_type: Option<&str>, vc: Option<&str>, hour: u32) -> bool {
        let is_type = self.gpu_type.as_ref().is_none_or(|of| gpu_type.is_some_and(|name| is_like(of, name)));
        let is_vc = self.vc.as_ref().is_none_or(|of| vc == Some(of.as_str()));
        let is_hour = self.hours.is_none_or(|[from, to]| match from <= to {
            true => (from..to).contains(&hour),
            false => hour >= from || hour < to,
        });
        is_type && is_vc && is_hour
    }
}

impl Rates {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is no TOML of rates, or has a price below 0 or hours that are none.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let remedy = "`tracecast schema rates --example` prints a rates file";
        let fail = |line: Option<u64>, found: String| Error::Format {
            file: file.to_owned(),
            line,
            column: None,
            found,
            remedy: remedy.to_owned(),
        };
        let rates: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.and_then(|before| u64::try_from(before.matches('\n').count() + 1).ok());
            fail(line, error.message().to_owned())
        })?;
        let prices = rates.gpu_hour.iter().map(|rate| rate.price).chain([rates.held_idle]);
        let prices = prices.chain([rates.core_hour, rates.unallocated].into_iter().flatten().map(|rate| rate.price));
        let prices = prices.chain(rates.energy.map(|rate| rate.per_kwh));
        let mut prices = prices.chain(rates.carbon.into_iter().flat_map(|rate| [rate.per_kg, rate.g_per_kwh]));
        if let Some(price) = prices.find(|price| !(0.0..=MOST).contains(price)) {
            return Err(fail(None, format!("{price} is no price from 0 to {MOST}")));
        }
        if rates.currency.len() != 3 || !rates.currency.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return Err(fail(None, format!("currency = \"{}\": write three capitals, such as EUR", rates.currency)));
        }
        if [&rates.issuer, &rates.billing_account].into_iter().flatten().any(|name| name.trim().is_empty()) {
            return Err(fail(None, "issuer or billing_account is empty".to_owned()));
        }
        if let Some(hours) =
            rates.gpu_hour.iter().filter_map(|rate| rate.hours).find(|hours| hours.iter().any(|hour| *hour > 24))
        {
            return Err(fail(None, format!("hours = [{}, {}]: hours of the day are 0 to 24", hours[0], hours[1])));
        }
        if rates.decimals > 4 {
            return Err(fail(None, format!("decimals = {}: write 0 to 4", rates.decimals)));
        }
        let is_empty = rates.gpu_hour.is_empty() && rates.core_hour.is_none() && rates.energy.is_none();
        if is_empty && rates.unallocated.is_none() && rates.carbon.is_none() {
            return Err(fail(None, "it has no price".to_owned()));
        }
        Ok(rates)
    }

    /// Whether an amount has more decimals than lines have.
    pub fn decimals_beyond(&self, amount: Option<f64>) -> bool {
        let cents = amount.map(|amount| amount * self.cents());
        cents.is_some_and(|cents| (cents.round() - cents).abs() > 1e-4)
    }

    /// Cents of one: 10 to the decimals.
    pub(super) fn cents(&self) -> f64 {
        10f64.powi(i32::try_from(self.decimals).unwrap_or(2))
    }

    /// Whether some price is of some hours alone.
    pub(super) fn has_hours(&self) -> bool {
        self.gpu_hour.iter().any(|rate| rate.hours.is_some())
    }

    /// Place of the rate of a GPU-hour.
    pub(super) fn of_gpu(&self, gpu_type: Option<&str>, vc: Option<&str>, hour: u32) -> Option<usize> {
        self.gpu_hour.iter().position(|rate| rate.fits(gpu_type, vc, hour))
    }
}

/// The JSON Schema of [`Rates`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Rates).to_value()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FILE: &str = "currency = \"EUR\"\n[[gpu_hour]]\ngpu_type = \"A100*\"\nhours = [8, 20]\nprice = 2.4\n[[gpu_hour]]\nprice = 1.2\n";

    #[test]
    fn the_worked_example() {
        let rates = Rates::parse("rates.toml", FILE).unwrap();
        let price = |name, hour| rates.gpu_hour[rates.of_gpu(Some(name), None, hour).unwrap()].price;
        assert_eq!([price("a100-sxm4", 9), price("A100", 21), price("V100", 9)], [2.4, 1.2, 1.2]);
        let night = Rates::parse("r", &FILE.replace("[8, 20]", "[22, 6]")).unwrap();
        assert_eq!([23, 5, 6].map(|hour| night.of_gpu(Some("A100"), None, hour)), [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn patterns() {
        for (pattern, name, is) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acd", false),
            ("abc", "abcd", false),
            ("*b*", "abc", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, told) in [
            (FILE.replace("price = 1.2", "prize = 1.2"), "prize"),
            (FILE.replace("2.4", "-2.4"), "no price"),
            (FILE.replace("EUR", "euro"), "three capitals"),
            (FILE.replace("20]", "25]"), "0 to 24"),
            ("currency = \"EUR\"\n".to_owned(), "no price"),
        ] {
            let error = Rates::parse("rates.toml", &text).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("rates.toml"), "{error}");
        }
    }
}
