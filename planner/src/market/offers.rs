//! What can be rented or bought, and at what price: the offers file.
//!
//! ```toml
//! currency = "USD"
//! untyped = "V100"                    # what jobs ask for that name no GPU type; needed where several types are offered
//!
//! [[instance]]
//! name = "example.4v100"
//! gpu = "V100"                        # GPU type as the trace names it, and other names that it serves
//! also = ["V100-SXM2"]
//! gpus = 4
//! zone = "example-1a"
//! instance_type = "4v100.large"       # as the provider calls it; where it is left out, the name stands for it
//! provider = "example"               # aws, gcp, azure or another; where it is left out, the form of the zone's name tells it
//! on_demand = 10.0                    # an hour of an instance
//! reserved = [{ months = 12, price = 6.0 }]
//! spot = { price = 3.0, available = 0.9, interrupted_every = "20h" }
//!
//! [[owned]]
//! name = "own node"
//! gpu = "V100"
//! gpus = 8
//! price = 60000
//! years = 5
//! ```
//!
//! Instances of one `gpu` are one **pool**: a job of that type runs on any of them. A pool needs an on-demand price, as what is neither reserved nor on spot has
//! nowhere else to run. [Tables of prices](super::listed) can stand beside the file or in place of
//! it. Nothing is assumed where a price is missing, and a price of 0 is an error. The guide
//! `cli/guide/reference/rent.md` has every key.
//!
//! O(text). Worked example: the file above is one pool, V100, whose on-demand costs 10 / 4 = 2.5 USD for an hour of a GPU.

mod entry;
mod table;

use self::entry::Content;
pub(super) use self::table::plain_name;
pub use self::table::{ListedOffer, ListedOffers};

use super::grid::WeekShape;
use crate::error::{Error, Result};
use crate::market::price_file::{PriceFile, dollars};
use crate::market::zone::infra;

/// Prices of a GPU of one type that are so many times apart are hardly both of an instance and an hour.
const APART: f64 = 5.0;

/// A commitment to pay for an instance, used or not.
#[derive(Debug, Clone, PartialEq)]
pub struct ReservedOffer {
    /// Length of the commitment, months.
    pub months: f64,
    /// An hour of an instance.
    pub price: f64,
    /// Most instances that can be had.
    pub limit: Option<u32>,
}

/// Instances that can be taken away at any time.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotOffer {
    /// An hour of an instance.
    pub price: f64,
    /// Most instances that can be had.
    pub limit: Option<u32>,
    /// Shares of the instances asked for that can be had, and for which share of the time, the greatest first.
    pub availability: Vec<(f64, f64)>,
    /// Mean time until an instance is taken away, seconds; `None` if that does not happen.
    pub interrupted_every_s: Option<f64>,
    /// SkyPilot trace that says how many can be had, if one is named.
    pub trace: Option<String>,
    /// Whether the file itself says how often instances are taken away.
    told_interruptions: bool,
}

/// A type of instances.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceOffer {
    /// Name of the offer, unique in the file.
    pub name: String,
    /// Instance type, as its provider calls it, if that is known.
    pub instance_type: Option<String>,
    /// GPU type.
    pub gpu: String,
    /// GPUs of an instance.
    pub gpus: u32,
    /// Zone.
    pub zone: Option<String>,
    /// Whose it is: `aws`, `gcp`, `azure` or another name, if the file says it.
    pub provider: Option<String>,
    /// An hour of an instance on demand.
    pub on_demand: Option<f64>,
    /// Most instances on demand.
    pub on_demand_limit: Option<u32>,
    /// Commitments.
    pub reserved: Vec<ReservedOffer>,
    /// Spot.
    pub spot: Option<SpotOffer>,
    /// Power of a running instance, kW, if the file says it.
    pub power_kw: Option<f64>,
    /// Emissions of an hour of an instance at the mean intensity of its grid, kg, where its power
    /// and its grid are told.
    pub kg_per_h: Option<f64>,
    /// How the hours of the week stand to that.
    pub kg_by_hour: WeekShape,
}

/// Nodes that can be bought.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedOffer {
    /// Name of the nodes.
    pub name: String,
    /// GPU type.
    pub gpu: String,
    /// GPUs of a node.
    pub gpus: u32,
    /// An hour of a node over its life: purchase, electricity, and what it costs a year.
    pub per_h: f64,
    /// Price of one.
    pub price: f64,
    /// Years over which that is spread.
    pub years: f64,
    /// Most nodes.
    pub limit: Option<u32>,
}

/// A pool: the instances and nodes of a GPU type.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferPool {
    /// GPU type.
    pub gpu: String,
    /// Names under which jobs ask for it.
    pub names: Vec<String>,
    /// Instances, by their position in [`Offers::instances`].
    pub instances: Vec<usize>,
    /// Nodes, by their position in [`Offers::owned`].
    pub owned: Vec<usize>,
}

/// An offers file.
#[derive(Debug, Clone, PartialEq)]
pub struct Offers {
    /// Name of the file.
    pub file: String,
    /// Currency of all prices.
    pub currency: String,
    /// What jobs ask for that name no GPU type.
    pub untyped: Option<String>,
    /// Instances.
    pub instances: Vec<InstanceOffer>,
    /// Nodes that can be bought.
    pub owned: Vec<OwnedOffer>,
    /// Pools, in the order in which they are first named.
    pub pools: Vec<OfferPool>,
    /// What was left out of tables of prices, and what of them stands together, as clauses that begin small.
    pub notes: Vec<String>,
}

impl InstanceOffer {
    /// Whose it is: what the file says, or else what the form of its zone's name tells.
    pub fn whose(&self) -> Option<String> {
        let by_zone = || infra(None, self.zone.as_deref()?)?.split('/').next().map(str::to_owned);
        self.provider.clone().or_else(by_zone)
    }
}

impl SpotOffer {
    /// What a trace says of it: shares of the instances asked for that can be had (rounded down to quarters), and how often an instance is taken away.
    ///
    /// `counts` are instances that could be had in ticks of `tick_s`, of `most` at most. An
    /// instance is lost where fewer can be had than in the tick before. Of several
    /// asked for, no more than these are taken to be there, unless the file says a limit.
    pub fn learn(&mut self, counts: &[f64], most: f64, tick_s: f64) {
        let mut ticks = [0usize; 5];
        let quarter = |count: f64| (4.0 * (count / most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)).floor() as usize;
        for count in counts {
            if let Some(result) = ticks.get_mut(quarter(*count)) {
                *result += 1;
            }
        }
        let all = counts.len().max(1) as f64;
        let shares = ticks.iter().enumerate().rev().filter(|(_, count)| **count > 0);
        self.availability = shares.map(|(at, count)| (at as f64 / 4.0, *count as f64 / all)).collect();
        // Beyond what was asked for, nobody looked.
        if most > 1.0 && self.limit.is_none() {
            self.limit = Some(most as u32);
        }
        if self.told_interruptions {
            return;
        }
        let pairs = || counts.iter().zip(counts.iter().skip(1));
        let lost: f64 = pairs().map(|(before, after)| (before - after).max(0.0)).sum();
        let up: f64 = counts.iter().sum::<f64>() * tick_s;
        self.interrupted_every_s = (lost > 0.0).then(|| up / lost);
    }
}

impl Offers {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        Self::with_table(file, text, &ListedOffers::default())
    }

    /// Parses offers beside the instances of tables of prices, which are dollars. What the file
    /// says of an instance has priority; it may also say nothing of instances.
    ///
    /// # Errors
    /// Errors of [`Offers::parse`], and if the file is in another currency.
    pub fn with_table(file: &str, text: &str, table: &ListedOffers) -> Result<Self> {
        let content: Content = toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        let source = PriceFile { file, text };
        if !table.offers.is_empty() && content.currency != dollars() {
            let what = format!(
                "currency is {}, and a table of prices is in {}; write prices in that, or leave the table out",
                content.currency,
                dollars()
            );
            return Err(source.wrong(&(0..0), what));
        }
        if content.instance.is_empty() && table.offers.is_empty() {
            let what = "there is no [[instance]]; describe at least one with name, gpu, gpus and on_demand".to_owned();
            return Err(source.wrong(&(0..0), what));
        }
        let mut names: Vec<&str> = Vec::new();
        let entries = content.instance.iter().map(|entry| &entry.get_ref().name);
        for name in entries.chain(content.owned.iter().map(|entry| &entry.get_ref().name)) {
            if names.contains(&name.get_ref().as_str()) {
                let what = format!("{} is there already; give each a name of its own", name.get_ref());
                return Err(source.wrong(&name.span(), what));
            }
            names.push(name.get_ref());
        }
        let instances: Vec<InstanceOffer> =
            content.instance.iter().map(|entry| source.instance(entry.get_ref())).collect::<Result<_>>()?;
        let owned: Vec<OwnedOffer> =
            content.owned.iter().map(|entry| source.owned(entry.get_ref())).collect::<Result<_>>()?;
        let mut offers = Self {
            file: file.to_owned(),
            currency: content.currency.clone(),
            untyped: content.untyped.as_ref().map(|name| name.get_ref().clone()),
            instances,
            owned,
            pools: Vec::new(),
            notes: Vec::new(),
        };
        for (at, entry) in content.instance.iter().enumerate() {
            let entry = entry.get_ref();
            let pool = offers.pool(entry.gpu.get_ref());
            pool.instances.push(at);
            for name in &entry.also {
                if !pool.names.contains(name.get_ref()) {
                    pool.names.push(name.get_ref().clone());
                }
            }
        }
        offers.add(table);
        for (at, entry) in content.owned.iter().enumerate() {
            let gpu = &entry.get_ref().gpu;
            let Some(pool) = offers.pools.iter_mut().find(|pool| pool.gpu.eq_ignore_ascii_case(gpu.get_ref())) else {
                let what = format!(
                    "no [[instance]] has the GPU `{}`, so there is nothing to rent in its place; add one",
                    gpu.get_ref()
                );
                return Err(source.wrong(&gpu.span(), what));
            };
            pool.owned.push(at);
        }
        offers.check(&content, &source)?;
        Ok(offers)
    }

    /// The pool of a GPU type, which is made if it is not there.
    fn pool(&mut self, gpu: &str) -> &mut OfferPool {
        let at = self.pools.iter().position(|pool| pool.gpu.eq_ignore_ascii_case(gpu)).unwrap_or_else(|| {
            let names = vec![gpu.to_owned()];
            self.pools.push(OfferPool { gpu: gpu.to_owned(), names, instances: Vec::new(), owned: Vec::new() });
            self.pools.len() - 1
        });
        &mut self.pools[at]
    }

    /// What can only be told of all instances together.
    fn check(&self, content: &Content, source: &PriceFile<'_>) -> Result<()> {
        for pool in &self.pools {
            let entry = |at: &usize| content.instance.get(*at).map(|entry| entry.get_ref().gpu.span());
            let at = pool.instances.first().and_then(entry).unwrap_or(0..0);
            if self.of(pool).all(|offer| offer.on_demand.is_none()) {
                let what = format!(
                    "no instance with the GPU `{}` has an on_demand price, and what is neither reserved nor on spot has nowhere to run; write one",
                    pool.gpu
                );
                return Err(source.wrong(&at, what));
            }
            for name in &pool.names {
                let other = self.pools.iter().find(|other| {
                    other.gpu != pool.gpu && other.names.iter().any(|known| known.eq_ignore_ascii_case(name))
                });
                if let Some(other) = other {
                    let what = format!(
                        "jobs that ask for `{name}` belong to `{}` and to `{}`; keep one of them",
                        pool.gpu, other.gpu
                    );
                    return Err(source.wrong(&at, what));
                }
            }
        }
        if let Some(name) = &content.untyped
            && self.pool_of(name.get_ref()).is_none()
        {
            let what =
                format!("untyped is `{}`, and no [[instance]] has that GPU; name one that is there", name.get_ref());
            return Err(source.wrong(&name.span(), what));
        }
        Ok(())
    }

    /// The instances of a pool.
    pub fn of<'a>(&'a self, pool: &'a OfferPool) -> impl Iterator<Item = &'a InstanceOffer> {
        pool.instances.iter().filter_map(|at| self.instances.get(*at))
    }

    /// Prices that are possible and hardly meant, in words: what is bound or can be taken away costs no less than on demand, a longer commitment costs more than a
    /// shorter one, or a GPU of one instance costs five times what it costs in another of its pool.
    pub fn oddities(&self) -> Vec<String> {
        const REMEDY: &str = "is that price an hour, and of the whole instance?";
        let mut odd = Vec::new();
        for offer in &self.instances {
            let name = &offer.name;
            let dearer = |price: f64| offer.on_demand.filter(|on_demand| price >= *on_demand);
            for reserved in &offer.reserved {
                let (months, price) = (reserved.months, reserved.price);
                if let Some(on_demand) = dearer(price) {
                    odd.push(format!("{name}: a commitment of {months} months costs {price} an hour and on demand {on_demand}; {REMEDY}"));
                }
                let mut others = offer.reserved.iter();
                if let Some(shorter) = others.find(|other| other.months < months && other.price < price) {
                    odd.push(format!(
                        "{name}: a commitment of {months} months costs {price} an hour and one of {} months {}; {REMEDY}",
                        shorter.months, shorter.price
                    ));
                }
            }
            if let Some((spot, on_demand)) =
                offer.spot.as_ref().and_then(|spot| Some((spot.price, dearer(spot.price)?)))
            {
                odd.push(format!("{name}: spot costs {spot} an hour and on demand {on_demand}; {REMEDY}"));
            }
        }
        for pool in &self.pools {
            let price = |offer: &InstanceOffer| Some((offer.on_demand? / f64::from(offer.gpus), offer.name.clone()));
            let mut prices: Vec<(f64, String)> = self.of(pool).filter_map(price).collect();
            prices.sort_by(|a, b| a.0.total_cmp(&b.0));
            if let (Some((low, cheap)), Some((high, dear))) = (prices.first(), prices.last())
                && *high >= APART * low
            {
                odd.push(format!(
                    "{}: a GPU of {cheap} costs {low:.2} an hour and one of {dear} {high:.2}; {REMEDY}",
                    pool.gpu
                ));
            }
        }
        odd
    }

    /// What was left out of tables of prices, as sentences of an answer.
    pub fn notes_in_words(&self) -> impl Iterator<Item = String> {
        self.notes.iter().map(|note| format!("Tables of prices: {note}."))
    }

    /// The position of the pool that serves a GPU type.
    pub fn pool_of(&self, gpu: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.names.iter().any(|name| name.eq_ignore_ascii_case(gpu)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
currency = "EUR"
[[instance]]
name = "a4"
gpu = "V100"
also = ["V100-SXM2"]
gpus = 4
on_demand = 10.0
reserved = [{ months = 12, price = 6.0 }]
spot = { price = 3.0, available = 0.9, interrupted_every = "20h" }
[[owned]]
name = "own"
gpu = "V100"
gpus = 8
price = 60000
years = 5
power_kw = 3
pue = 1.3
electricity = 0.12
per_year = 4000
"#;

    #[test]
    fn the_example_is_one_pool() {
        let offers = Offers::parse("o.toml", EXAMPLE).unwrap();
        assert_eq!((offers.pools.len(), offers.currency.as_str()), (1, "EUR"));
        assert_eq!((offers.pool_of("v100-sxm2"), offers.pool_of("A100")), (Some(0), None));
        let spot = offers.instances[0].spot.as_ref().unwrap();
        assert_eq!(spot.interrupted_every_s, Some(72_000.0));
        assert!(spot.availability.iter().map(|(share, weight)| share * weight).sum::<f64>() - 0.9 < 1e-12);
        assert!((offers.owned[0].per_h - 2.293).abs() < 1e-3, "{}", offers.owned[0].per_h);
    }

    #[test]
    fn prices_that_are_hardly_meant_are_told() {
        let odd = |from: &str, to: &str| Offers::parse("o.toml", &EXAMPLE.replacen(from, to, 1)).unwrap().oddities();
        assert_eq!(odd("a4", "a4"), [""; 0]);
        let remedy = "is that price an hour, and of the whole instance?";
        // A month's price where an hour's belongs.
        let told = format!("a4: a commitment of 12 months costs 4383 an hour and on demand 10; {remedy}");
        assert_eq!(odd("price = 6.0", "price = 4383"), [told]);
        let told = format!("a4: spot costs 10 an hour and on demand 10; {remedy}");
        assert_eq!(odd("price = 3.0", "price = 10.0"), [told]);
        let told = format!("a4: a commitment of 36 months costs 7 an hour and one of 12 months 6; {remedy}");
        assert_eq!(odd("price = 6.0 }", "price = 6.0 }, { months = 36, price = 7.0 }"), [told]);
        // A GPU of one costs 2.5, and of the other 12.5.
        let other = "[[instance]]\nname = \"a1\"\ngpu = \"V100\"\ngpus = 1\non_demand = 12.5\n[[owned]]";
        let told = format!("V100: a GPU of a4 costs 2.50 an hour and one of a1 12.50; {remedy}");
        assert_eq!(odd("[[owned]]", other), [told]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let said = |from: &str, to: &str| {
            let text = EXAMPLE.replacen(from, to, 1);
            Offers::parse("o.toml", &text).unwrap_err().to_string()
        };
        assert_eq!(
            said("on_demand = 10.0", "on_demand = 0"),
            "o.toml, line 8: a4: on_demand is 0; write what an hour of an instance costs, more than 0, or leave the key out where it is not sold"
        );
        assert!(said("price = 6.0", "price = -6.0").starts_with("o.toml, line 9: a4: price of reserved is -6"));
        assert!(said("on_demand = 10.0\n", "").starts_with("o.toml, line 5: no instance with the GPU `V100`"));
        assert!(said("available = 0.9", "available = 1.2").contains("line 10: a4: available is 1.2"));
        assert!(said("\"20h\"", "\"soon\"").contains("interrupted_every is `soon`"));
        assert!(said("name = \"own\"", "name = \"a4\"").contains("line 12: a4 is there already"));
        assert!(
            said("gpu = \"V100\"\ngpus = 8", "gpu = \"T4\"\ngpus = 8")
                .contains("line 13: no [[instance]] has the GPU `T4`")
        );
        let free = said("electricity = 0.12\n", "");
        assert!(free.starts_with("o.toml, line 17: own has power_kw and no electricity"), "{free}");
        assert!(said("gpus = 4", "gpus = 0").contains("line 7"));
        assert!(said("currency = \"EUR\"", "untyped = \"T4\"").contains("line 2: untyped is `T4`"));
        assert!(said("gpus = 4", "gpu_count = 4").contains("unknown field `gpu_count`"));
        assert!(Offers::parse("o.toml", "").unwrap_err().to_string().contains("there is no [[instance]]"));
    }

    #[test]
    fn a_trace_says_shares_and_interruptions() {
        let mut spot =
            Offers::parse("o.toml", &EXAMPLE.replace(", interrupted_every = \"20h\"", "")).unwrap().instances[0]
                .spot
                .clone()
                .unwrap();
        // Of 4: all, 3 and none; 4 + 3 + 0 instance-hours until four are lost.
        spot.learn(&[4.0, 3.0, 0.0, 0.0], 4.0, 3600.0);
        assert_eq!(spot.availability, vec![(1.0, 0.25), (0.75, 0.25), (0.0, 0.5)]);
        assert_eq!((spot.interrupted_every_s, spot.limit), (Some(7.0 * 3600.0 / 4.0), Some(4)));
    }
}
