//! Entries of an offers file as they are written, and what is checked of each alone.
//!
//! O(text). Worked example: `available = 1.2` is an error that names its line.

use serde::Deserialize;
use toml::Spanned;

use super::{InstanceOffer, OwnedOffer, ReservedOffer, SpotOffer};
use crate::error::Result;
use crate::market::grid::WeekShape;
use crate::market::price_file::{Bought, BoughtEntry, PriceFile, dollars};
use crate::replay::scenario::parse_duration;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    #[serde(default = "dollars")]
    pub(super) currency: String,
    pub(super) untyped: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) instance: Vec<Spanned<InstanceEntry>>,
    #[serde(default)]
    pub(super) owned: Vec<Spanned<OwnedEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InstanceEntry {
    pub(super) name: Spanned<String>,
    instance_type: Option<String>,
    pub(super) gpu: Spanned<String>,
    #[serde(default)]
    pub(super) also: Vec<Spanned<String>>,
    gpus: Spanned<u32>,
    zone: Option<String>,
    provider: Option<String>,
    on_demand: Option<Spanned<f64>>,
    on_demand_limit: Option<u32>,
    #[serde(default)]
    reserved: Vec<ReservedEntry>,
    spot: Option<SpotEntry>,
    power_kw: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservedEntry {
    months: Spanned<f64>,
    price: Spanned<f64>,
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpotEntry {
    price: Spanned<f64>,
    limit: Option<u32>,
    available: Option<Spanned<f64>>,
    availability: Option<Spanned<String>>,
    interrupted_every: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnedEntry {
    pub(super) name: Spanned<String>,
    pub(super) gpu: Spanned<String>,
    gpus: Spanned<u32>,
    price: Spanned<f64>,
    years: Spanned<f64>,
    power_kw: Option<Spanned<f64>>,
    pue: Option<Spanned<f64>>,
    electricity: Option<Spanned<f64>>,
    per_year: Option<Spanned<f64>>,
    limit: Option<u32>,
}

impl PriceFile<'_> {
    fn price(&self, of: &str, value: &Spanned<f64>) -> Result<f64> {
        let remedy = "write what an hour of an instance costs, more than 0, or leave the key out where it is not sold";
        self.number(of, value, (f64::MIN_POSITIVE, 1e9), remedy)
    }

    fn gpus(&self, name: &str, value: &Spanned<u32>) -> Result<u32> {
        let result = *value.get_ref();
        if (1..=4096).contains(&result) {
            return Ok(result);
        }
        Err(self.wrong(&value.span(), format!("{name}: gpus is {result}; write the GPUs of one instance, 1 to 4096")))
    }

    /// An instance, without what only all of them together tell.
    ///
    /// # Errors
    /// If a number is out of bounds, or it has no price.
    pub(super) fn instance(&self, entry: &InstanceEntry) -> Result<InstanceOffer> {
        let name = entry.name.get_ref();
        let price = |what: &str, value: &Spanned<f64>| self.price(&format!("{name}: {what}"), value);
        let reserved = |entry: &ReservedEntry| {
            let remedy = "write the months of the commitment, 1 to 120";
            Ok(ReservedOffer {
                months: self.number(&format!("{name}: months"), &entry.months, (1.0, 120.0), remedy)?,
                price: price("price of reserved", &entry.price)?,
                limit: entry.limit,
            })
        };
        let power = |value: &Spanned<f64>| {
            let remedy = "write what an instance draws while it runs, kW, more than 0";
            self.number(&format!("{name}: power_kw"), value, (f64::MIN_POSITIVE, 1e3), remedy)
        };
        let offer = InstanceOffer {
            name: name.clone(),
            instance_type: Some(entry.instance_type.clone().unwrap_or_else(|| name.clone())),
            gpu: entry.gpu.get_ref().clone(),
            gpus: self.gpus(name, &entry.gpus)?,
            zone: entry.zone.clone(),
            provider: entry.provider.as_deref().map(str::to_ascii_lowercase),
            on_demand: entry.on_demand.as_ref().map(|value| price("on_demand", value)).transpose()?,
            on_demand_limit: entry.on_demand_limit,
            reserved: entry.reserved.iter().map(reserved).collect::<Result<_>>()?,
            spot: entry.spot.as_ref().map(|spot| self.spot(name, spot)).transpose()?,
            power_kw: entry.power_kw.as_ref().map(power).transpose()?,
            kg_per_h: None,
            kg_by_hour: WeekShape::default(),
        };
        if offer.on_demand.is_none() && offer.reserved.is_empty() && offer.spot.is_none() {
            let what = format!("{name} has no price; write on_demand, reserved or spot, or remove the instance");
            return Err(self.wrong(&entry.name.span(), what));
        }
        Ok(offer)
    }

    fn spot(&self, name: &str, entry: &SpotEntry) -> Result<SpotOffer> {
        let share = match &entry.available {
            None => 1.0,
            Some(value) => {
                let remedy = "write the share of the time in which it can be had, 0 to 1";
                self.number(&format!("{name}: available"), value, (0.0, 1.0), remedy)?
            }
        };
        if let (Some(_), Some(trace)) = (&entry.available, &entry.availability) {
            let what = format!("{name}: available and availability say the same; keep one of them");
            return Err(self.wrong(&trace.span(), what));
        }
        let every = |written: &Spanned<String>| {
            let result = parse_duration(written.get_ref()).ok().filter(|ms| *ms > 0).map(|ms| ms as f64 / 1e3);
            let what = || format!("{name}: interrupted_every is `{}`; write a time such as 20h", written.get_ref());
            result.ok_or_else(|| self.wrong(&written.span(), what()))
        };
        Ok(SpotOffer {
            price: self.price(&format!("{name}: price of spot"), &entry.price)?,
            limit: entry.limit,
            availability: constant(share),
            interrupted_every_s: entry.interrupted_every.as_ref().map(every).transpose()?,
            trace: entry.availability.as_ref().map(|path| path.get_ref().clone()),
            told_interruptions: entry.interrupted_every.is_some(),
        })
    }

    /// A node that can be bought.
    ///
    /// # Errors
    /// If a number is out of bounds.
    pub(super) fn owned(&self, entry: &OwnedEntry) -> Result<OwnedOffer> {
        let name = entry.name.get_ref();
        let bought = BoughtEntry {
            name,
            price: &entry.price,
            years: &entry.years,
            power_kw: &entry.power_kw,
            pue: &entry.pue,
            electricity: &entry.electricity,
            per_year: &entry.per_year,
        };
        let Bought { price, years, per_h } = self.bought(&bought, "write what a node costs to buy, more than 0")?;
        Ok(OwnedOffer {
            name: name.clone(),
            gpu: entry.gpu.get_ref().clone(),
            gpus: self.gpus(name, &entry.gpus)?,
            per_h,
            price,
            years,
            limit: entry.limit,
        })
    }
}

/// All instances for a share of the time, and none for the rest.
fn constant(share: f64) -> Vec<(f64, f64)> {
    [(1.0, share), (0.0, 1.0 - share)].into_iter().filter(|(_, weight)| *weight > 0.0).collect()
}
