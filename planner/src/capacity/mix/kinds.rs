//! Kinds of nodes that can be had, with their prices and speeds: the file of `--node-types`.
//!
//! ```toml
//! currency = "USD"
//!
//! [[kind]]
//! name = "8 GPUs, as today"
//! gpus_per_node = 8                 # with gpu_type: what a group of today's nodes is matched by
//! per_hour = 20.0                   # what an hour of a node costs
//! there_per_hour = 14.0             # of a node that is there already, if that costs less
//!
//! [[kind]]
//! name = "8 x H100"
//! gpu_type = "H100"
//! gpus_per_node = 8
//! price = 250000                    # or bought: price and years, perhaps power_kw, pue, electricity and per_year
//! years = 5
//! speed = 2.0                       # how fast jobs run; 1 if nothing is said
//! speed_by_class = { "1" = 1.5 }    # of size classes that run at another speed
//! most_per_pool = 16
//! ```
//!
//! Speeds are of kinds; what counts is a kind's speed over that of a pool's nodes of today, on which the recorded runs were. Nothing is assumed where a price is missing.
//!
//! O(text). Worked number: with 1 for today's kind and 2 for another, a run of 3 h takes 1.5 h there.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use tracecast_analytics::facts::SizeClass;

use crate::capacity::part::Part;
use crate::error::{Error, Result};
use crate::market::price_file::{BoughtEntry, PriceFile, dollars};
use crate::sim::Group;
use crate::sim::cluster::MAX_GPUS_PER_NODE;

/// How far from 1 a relative speed may be and still be 1.
pub(super) const EQUAL: f64 = 1e-9;
/// Slowest and fastest that a kind may be.
const SPEEDS: (f64, f64) = (0.01, 100.0);

/// A kind of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeKind {
    /// Name of the kind, unique in the file.
    pub name: String,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// GPU type of the nodes, as the trace names it.
    pub gpu_type: Option<String>,
    /// Cost of an hour of a node that is yet to be had.
    pub per_h: f64,
    /// Cost of an hour of a node that is there already.
    pub there_per_h: f64,
    /// How fast jobs run on it.
    speed: f64,
    /// How fast jobs of a size class run on it, where that differs.
    speed_by_class: BTreeMap<SizeClass, f64>,
    /// Most nodes of it in a pool.
    pub most_per_pool: Option<u32>,
}

impl NodeKind {
    /// How fast jobs of a class run on it.
    pub fn speed(&self, class: SizeClass) -> f64 {
        self.speed_by_class.get(&class).copied().unwrap_or(self.speed)
    }

    fn is_of(&self, gpus_per_node: u32, gpu_type: Option<&str>) -> bool {
        let same_type = match (&self.gpu_type, gpu_type) {
            (None, None) => true,
            (Some(mine), Some(other)) => mine.eq_ignore_ascii_case(other),
            _ => false,
        };
        self.gpus_per_node == gpus_per_node && same_type
    }
}

/// A file of kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeKinds {
    /// Name of the file.
    pub file: String,
    /// Currency of all prices.
    pub currency: String,
    /// Kinds, as they stand there.
    pub kinds: Vec<NodeKind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default = "dollars")]
    currency: String,
    #[serde(default)]
    kind: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    gpus_per_node: Spanned<u32>,
    gpu_type: Option<String>,
    per_hour: Option<Spanned<f64>>,
    there_per_hour: Option<Spanned<f64>>,
    price: Option<Spanned<f64>>,
    years: Option<Spanned<f64>>,
    power_kw: Option<Spanned<f64>>,
    pue: Option<Spanned<f64>>,
    electricity: Option<Spanned<f64>>,
    per_year: Option<Spanned<f64>>,
    speed: Option<Spanned<f64>>,
    #[serde(default)]
    speed_by_class: BTreeMap<String, Spanned<f64>>,
    most_per_pool: Option<u32>,
}

impl PriceFile<'_> {
    /// Cost of an hour of a node: rented, or bought and spread over its life.
    fn per_h(&self, entry: &Entry) -> Result<f64> {
        let name = entry.name.get_ref();
        let more_than_nothing = "write what it costs, more than 0";
        match (&entry.per_hour, &entry.price, &entry.years) {
            (Some(per_hour), None, None) => {
                let bought = [&entry.power_kw, &entry.pue, &entry.electricity, &entry.per_year];
                if let Some(value) = bought.into_iter().flatten().next() {
                    let what = format!(
                        "{name}: per_hour is all that a node costs; leave this key out, or write price and years in place of per_hour"
                    );
                    return Err(self.wrong(&value.span(), what));
                }
                self.number(&format!("{name}: per_hour"), per_hour, (f64::MIN_POSITIVE, 1e9), more_than_nothing)
            }
            (None, Some(price), Some(years)) => {
                let entry = BoughtEntry {
                    name,
                    price,
                    years,
                    power_kw: &entry.power_kw,
                    pue: &entry.pue,
                    electricity: &entry.electricity,
                    per_year: &entry.per_year,
                };
                Ok(self.bought(&entry, more_than_nothing)?.per_h)
            }
            _ => {
                let what = format!("{name}: write either per_hour, or price and years");
                Err(self.wrong(&entry.name.span(), what))
            }
        }
    }

    fn kind(&self, entry: &Entry) -> Result<NodeKind> {
        let name = entry.name.get_ref();
        let gpus_per_node = *entry.gpus_per_node.get_ref();
        if !(1..=MAX_GPUS_PER_NODE).contains(&gpus_per_node) {
            let what = format!("{name}: gpus_per_node is {gpus_per_node}; write 1 to {MAX_GPUS_PER_NODE}");
            return Err(self.wrong(&entry.gpus_per_node.span(), what));
        }
        let per_h = self.per_h(entry)?;
        let there_per_h = match &entry.there_per_hour {
            None => per_h,
            Some(value) => {
                let remedy = format!("write what keeping a node costs, 0 to {per_h}, what a further one costs");
                self.number(&format!("{name}: there_per_hour"), value, (0.0, per_h), &remedy)?
            }
        };
        let speed = |what: &str, value: &Spanned<f64>| {
            let remedy = "write how many times as fast jobs run as on a kind of speed 1, 0.01 to 100";
            self.number(&format!("{name}: {what}"), value, SPEEDS, remedy)
        };
        let mut speed_by_class = BTreeMap::new();
        for (class, value) in &entry.speed_by_class {
            let Some(known) = SizeClass::ALL.into_iter().find(|known| known.id() == class) else {
                let what =
                    format!("{name}: speed_by_class names `{class}`; the size classes are <1, 1, 2-4, 5-8 and >8");
                return Err(self.wrong(&value.span(), what));
            };
            speed_by_class.insert(known, speed(&format!("speed of {class}"), value)?);
        }
        Ok(NodeKind {
            name: name.clone(),
            gpus_per_node,
            gpu_type: entry.gpu_type.clone(),
            per_h,
            there_per_h,
            speed: entry.speed.as_ref().map_or(Ok(1.0), |value| speed("speed", value))?,
            speed_by_class,
            most_per_pool: entry.most_per_pool,
        })
    }
}

/// Nodes of a kind in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::capacity) struct KindStock {
    pub(super) kind: String,
    /// Nodes today.
    pub(super) there: u32,
    /// Nodes to have.
    pub(super) nodes: u32,
}

impl NodeKinds {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let content: Content = toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        let source = PriceFile { file, text };
        if content.kind.is_empty() {
            let what = "there is no [[kind]]; describe at least one with name, gpus_per_node and per_hour".to_owned();
            return Err(source.wrong(&(0..0), what));
        }
        let mut kinds: Vec<NodeKind> = Vec::new();
        for entry in &content.kind {
            let entry = entry.get_ref();
            let kind = source.kind(entry)?;
            if kinds.iter().any(|known| known.name == kind.name) {
                let what = format!("{} is there already; give each kind a name of its own", kind.name);
                return Err(source.wrong(&entry.name.span(), what));
            }
            if let Some(known) = kinds.iter().find(|known| known.is_of(kind.gpus_per_node, kind.gpu_type.as_deref())) {
                let what = format!(
                    "{} has the GPUs of {}, so nothing tells their nodes apart; keep one of them, or give it another gpu_type",
                    kind.name, known.name
                );
                return Err(source.wrong(&entry.name.span(), what));
            }
            kinds.push(kind);
        }
        Ok(Self { file: file.to_owned(), currency: content.currency, kinds })
    }

    /// Cost of an hour of the nodes of all pools, where those of a kind that are there serve any
    /// pool.
    pub(super) fn per_h_of_all<'s>(&self, stock: impl Iterator<Item = &'s KindStock>) -> f64 {
        let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for of in stock {
            let sum = all.entry(of.kind.as_str()).or_default();
            *sum = (sum.0 + u64::from(of.there), sum.1 + u64::from(of.nodes));
        }
        let cost = |kind: &NodeKind| {
            let (there, nodes) = all.get(kind.name.as_str()).copied().unwrap_or_default();
            nodes.min(there) as f64 * kind.there_per_h + nodes.saturating_sub(there) as f64 * kind.per_h
        };
        self.kinds.iter().map(cost).sum()
    }

    /// The kinds of a part: those of its own nodes, in their order, and then all others.
    ///
    /// # Errors
    /// If nodes that it has are no kind of the file, or differ in speed.
    pub(super) fn of_part(&self, part: &Part) -> Result<Vec<&NodeKind>> {
        let own = |group: &Group| {
            let gpu_type = part.gpu_type(group);
            let of = |kind: &&NodeKind| kind.is_of(group.gpus_per_node, gpu_type);
            self.kinds.iter().find(of).ok_or_else(|| Error::file(self.file.clone(), 1, format!(
                    "no [[kind]] is of the nodes that {} has, with {} × {}; add one with gpus_per_node = {}, {}and what a node costs",
                    part.name,
                    group.gpus_per_node,
                    gpu_type.unwrap_or("GPU"),
                    group.gpus_per_node,
                    gpu_type.map_or_else(|| "without gpu_type ".to_owned(), |name| format!("gpu_type = \"{name}\" "))
                )))
        };
        let mut kinds: Vec<&NodeKind> = part.groups().iter().map(own).collect::<Result<_>>()?;
        // Jobs of the record ran on all of them, and nobody says on which: their runs are of no speed in particular.
        let differs = |other: &&&NodeKind| {
            let first = kinds.first().copied().unwrap_or(other);
            SizeClass::ALL.into_iter().any(|class| (other.speed(class) / first.speed(class) - 1.0).abs() > EQUAL)
        };
        if let Some(other) = kinds.iter().find(differs) {
            let first = kinds.first().map_or("", |kind| kind.name.as_str());
            return Err(Error::file(
                self.file.clone(),
                1,
                format!(
                    "{} has nodes of `{first}` and of `{}`, which differ in speed, and no job says on which it ran; give them one speed, or plan the pool without --node-types",
                    part.name, other.name
                ),
            ));
        }
        for kind in &self.kinds {
            if !kinds.iter().any(|known| known.name == kind.name) {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sim::Cluster;

    const EXAMPLE: &str = r#"
currency = "EUR"
[[kind]]
name = "now"
gpus_per_node = 8
per_hour = 20.0
there_per_hour = 14.0
[[kind]]
name = "h"
gpu_type = "H100"
gpus_per_node = 8
price = 60000
years = 5
power_kw = 3
pue = 1.3
electricity = 0.12
per_year = 4000
speed = 2.0
speed_by_class = { "1" = 1.5 }
most_per_pool = 16
"#;

    #[test]
    fn the_example_is_read() {
        let kinds = NodeKinds::parse("k.toml", EXAMPLE).unwrap();
        let [now, h] = kinds.kinds.as_slice() else { panic!("two kinds") };
        assert_eq!((now.per_h, now.there_per_h, now.speed(SizeClass::One)), (20.0, 14.0, 1.0));
        assert!((h.per_h - 2.293).abs() < 1e-3 && h.there_per_h == h.per_h);
        assert_eq!((h.speed(SizeClass::One), h.speed(SizeClass::Node), h.most_per_pool), (1.5, 2.0, Some(16)));
        let part = Part::all(&Cluster::of_vcs(&[("a", 2, 8)]), 0).remove(0);
        let names: Vec<&str> = kinds.of_part(&part).unwrap().iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["now", "h"]);
        let other = Part::all(&Cluster::of_vcs(&[("a", 2, 4)]), 0).remove(0);
        assert!(
            kinds.of_part(&other).unwrap_err().to_string().contains("add one with gpus_per_node = 4, without gpu_type")
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let said = |from: &str, to: &str| {
            let text = EXAMPLE.replacen(from, to, 1);
            NodeKinds::parse("k.toml", &text).unwrap_err().to_string()
        };
        assert_eq!(
            said("per_hour = 20.0", "per_hour = 0"),
            "k.toml, line 6: now: per_hour is 0; write what it costs, more than 0"
        );
        assert!(said("there_per_hour = 14.0", "there_per_hour = 30").contains("line 7: now: there_per_hour is 30"));
        assert!(said("per_hour = 20.0\n", "").contains("line 4: now: write either per_hour, or price and years"));
        assert!(said("there_per_hour = 14.0", "pue = 1.2").contains("line 7: now: per_hour is all that a node costs"));
        assert!(said("name = \"h\"", "name = \"now\"").contains("line 9: now is there already"));
        assert!(said("gpu_type = \"H100\"\n", "").contains("line 9: h has the GPUs of now"));
        assert!(said("gpus_per_node = 8", "gpus_per_node = 65").contains("line 5: now: gpus_per_node is 65"));
        assert!(said("speed = 2.0", "speed = 0").contains("speed is 0"));
        assert!(said("\"1\" = 1.5", "\"3\" = 1.5").contains("speed_by_class names `3`"));
        assert!(said("most_per_pool", "most").contains("unknown field `most`"));
        assert!(NodeKinds::parse("k.toml", "").unwrap_err().to_string().contains("there is no [[kind]]"));
    }
}
