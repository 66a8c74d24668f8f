//! Offers from a table of prices, as a [trace](Trace) holds it: one of instances on demand for each row.
//!
//! * **Pools.** GPUs of one model and memory are one type. Of a model in several sizes the least has the plain name, and the others say theirs, as clouds and SkyPilot call them: `A100` and `A100-80GB`. Each also serves jobs that
//!   ask for model and size (`A100-40GB`), and names with blanks serve those with dashes.
//! * **Names.** An instance is called as the table calls it. Where it has no name, or another has the same, the GPUs are said, then the zone and the cloud.
//! * **Left out** is what cannot be told apart and costs more (no name, and the same cloud, zone and GPUs), parts of a GPU, and **spot**: a table does not say how often it can be had or for how long, and
//!   a plan would take it to be there always.
//!
//! O(rows × offers). Worked example: `A100 (40 GB)` and `A100 (80 GB)` of one cloud, eight each and without names, are `cloud 8xA100` and `cloud 8xA100-80GB`, in two pools.

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;

use super::offers::{InstanceOffer, ListedOffer};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;
/// Most GPUs of an instance, as in an offers file.
const MOST_GPUS: f64 = 4096.0;

/// The offers of a table of prices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListedOffers {
    /// The instances, in the order of the table.
    pub offers: Vec<ListedOffer>,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

/// A row on demand.
struct Row<'t> {
    provider: Option<&'t str>,
    zone: Option<&'t str>,
    instance: Option<&'t str>,
    model: &'t str,
    gib: Option<u64>,
    gpus: u32,
    price: f64,
}

impl<'t> Row<'t> {
    fn of(trace: &'t Trace, row: usize) -> Option<Self> {
        let table = &trace.prices;
        let gpus = table.gpus.get(row).filter(|gpus| (1.0..=MOST_GPUS).contains(gpus) && gpus.fract() == 0.0)?;
        Some(Self {
            provider: table.provider.get(row),
            zone: table.zone.get(row),
            instance: table.instance.get(row),
            model: table.gpu_type.get(row)?,
            gib: table.gpu_mem_bytes.get(row).map(|bytes| (bytes / GIB).round() as u64),
            gpus: gpus as u32,
            price: table.usd_per_h.get(row).filter(|price| *price > 0.0 && price.is_finite())?,
        })
    }

    /// Whether nothing tells two instances apart but what they cost.
    fn is_like(&self, other: &Self) -> bool {
        let of = |row: &Self| (row.gib, row.gpus);
        self.instance == other.instance
            && (self.provider, self.zone) == (other.provider, other.zone)
            && self.model.eq_ignore_ascii_case(other.model)
            && of(self) == of(other)
    }
}

/// The type of a row's GPUs, and what else it is called, beside all `rows`.
fn gpu(row: &Row<'_>, rows: &[Row<'_>]) -> (String, Vec<String>) {
    let sizes = rows.iter().filter(|other| other.model.eq_ignore_ascii_case(row.model)).filter_map(|other| other.gib);
    let least = sizes.min();
    let sized = |gib: u64| format!("{}-{gib}GB", row.model);
    let name = match (row.gib, least) {
        (Some(gib), Some(least)) if gib > least => sized(gib),
        _ => row.model.to_owned(),
    };
    let mut also: Vec<String> = row.gib.or(least).map(sized).into_iter().collect();
    also.extend(
        [name.clone()].iter().chain(&also.clone()).filter(|name| name.contains(' ')).map(|name| name.replace(' ', "-")),
    );
    also.retain(|other| *other != name);
    (name, also)
}

impl ListedOffers {
    /// Of the prices of a trace, which are dollars.
    pub fn of(trace: &Trace) -> Self {
        let table = &trace.prices;
        let of_kind = |kind: &'static str| (0..table.ts.len()).filter(move |row| table.kind.get(*row) == Some(kind));
        let (mut rows, mut odd, mut alike): (Vec<Row<'_>>, u64, u64) = (Vec::new(), 0, 0);
        for at in of_kind("ondemand") {
            let Some(row) = Row::of(trace, at) else {
                odd += 1;
                continue;
            };
            match rows.iter_mut().find(|other| other.is_like(&row)) {
                Some(other) => {
                    alike += 1;
                    if row.price < other.price {
                        *other = row;
                    }
                }
                None => rows.push(row),
            }
        }
        let mut names: Vec<String> = Vec::new();
        let mut offers = Vec::with_capacity(rows.len());
        for row in &rows {
            let (gpu, also) = gpu(row, &rows);
            let count = format!("{}x{gpu}", row.gpus);
            let with =
                |more: Option<&str>, name: &str| more.map_or_else(|| name.to_owned(), |more| format!("{name} {more}"));
            let plain =
                row.instance.map_or_else(|| with(Some(&count), row.provider.unwrap_or("unnamed")), str::to_owned);
            let sized = row.instance.map_or_else(|| plain.clone(), |name| with(Some(&count), name));
            let zoned = with(row.zone, &sized);
            let whose = with(row.provider, &zoned);
            let mut candidates = [plain, sized, zoned, whose.clone()].into_iter();
            let mut numbered = (2u32..).map(|number| format!("{whose} ({number})"));
            let free = |name: &String| !names.contains(name);
            let Some(name) = candidates.find(free).or_else(|| numbered.find(free)) else { continue };
            names.push(name.clone());
            let offer = InstanceOffer {
                name,
                gpu,
                gpus: row.gpus,
                zone: row.zone.map(str::to_owned),
                provider: row.provider.map(str::to_owned),
                on_demand: Some(row.price),
                on_demand_limit: None,
                reserved: Vec::new(),
                spot: None,
            };
            offers.push(ListedOffer { offer, also });
        }
        let told = |count: u64, before: &str, after: &str| {
            (count > 0).then(|| format!("{before}: {}{after}", format::counted(count, "price", "prices")))
        };
        let spot = of_kind("spot").count() as u64;
        let notes = [
            told(
                spot,
                "left out",
                " of spot, as a table does not say how often spot can be had; write `spot` with `available` and `interrupted_every` for an instance in an offers file beside it",
            ),
            told(
                alike,
                "left out",
                " that another instance has too, which differs in the price alone; the cheapest is taken",
            ),
            told(odd, "left out", " of no whole GPU"),
        ];
        Self { offers, notes: notes.into_iter().flatten().collect() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::PriceRow;

    use super::super::offers::FleetOffers;
    use super::*;

    fn trace(rows: &[(&str, &str, f64, f64, f64, &str)]) -> Trace {
        let mut trace = Trace::default();
        for (instance, gpu, gib, gpus, price, kind) in rows {
            trace.prices.push(PriceRow {
                provider: Some(if instance.starts_with("n1") { "gcp" } else { "aws" }.into()),
                instance: Some(*instance).filter(|name| !name.is_empty()).map(Into::into),
                gpu_type: Some((*gpu).into()),
                gpus: Some(*gpus),
                gpu_mem_bytes: Some(gib * GIB).filter(|bytes| *bytes > 0.0),
                usd_per_h: Some(*price),
                kind: Some((*kind).into()),
                ..PriceRow::default()
            });
        }
        trace
    }

    #[test]
    fn the_worked_example() {
        let rows = [
            ("", "A100", 40.0, 8.0, 32.0, "ondemand"),
            ("", "A100", 80.0, 8.0, 40.0, "ondemand"),
            ("", "A100", 80.0, 8.0, 39.0, "ondemand"),
            ("", "A100", 80.0, 8.0, 9.0, "spot"),
            ("n1", "T4", 16.0, 1.0, 0.8, "ondemand"),
            ("n1", "H100 PCIe", 80.0, 1.0, 3.0, "ondemand"),
            ("half", "A10", 0.0, 0.5, 1.0, "ondemand"),
        ];
        let listed = ListedOffers::of(&trace(&rows));
        let told: Vec<(&str, &str, f64)> = listed
            .offers
            .iter()
            .map(|of| (of.offer.name.as_str(), of.offer.gpu.as_str(), of.offer.on_demand.unwrap()))
            .collect();
        assert_eq!(
            told,
            [
                ("aws 8xA100", "A100", 32.0),
                ("aws 8xA100-80GB", "A100-80GB", 39.0),
                ("n1", "T4", 0.8),
                ("n1 1xH100 PCIe", "H100 PCIe", 3.0)
            ]
        );
        assert_eq!(listed.offers[0].also, ["A100-40GB"]);
        assert_eq!(listed.offers[3].also, ["H100 PCIe-80GB", "H100-PCIe", "H100-PCIe-80GB"]);
        assert!(
            listed.notes.len() == 3 && listed.notes[0].starts_with("left out: 1 price of spot"),
            "{:?}",
            listed.notes
        );
        // As offers of a fleet, alone and with a file beside it, which goes first and may hold nothing but what is missing.
        let of = |text: &str| FleetOffers::with_table("o.toml", text, &listed.offers);
        let alone = of("").unwrap();
        assert_eq!((alone.pools.len(), alone.pool_of("a100-40gb"), alone.pool_of("A100-80GB")), (4, Some(0), Some(1)));
        assert_eq!(alone.instances[0].whose().as_deref(), Some("aws"));
        let beside =
            of("untyped = \"T4\"\n[[owned]]\nname = \"own\"\ngpu = \"A100\"\ngpus = 8\nprice = 1e5\nyears = 5\n")
                .unwrap();
        assert_eq!(
            (beside.untyped.as_deref(), beside.pools[beside.pool_of("A100").unwrap()].owned.len()),
            (Some("T4"), 1)
        );
        let own = of("[[instance]]\nname = \"n1\"\ngpu = \"T4\"\ngpus = 1\non_demand = 0.5\n").unwrap();
        let n1: Vec<Option<f64>> = own.instances.iter().filter(|of| of.name == "n1").map(|of| of.on_demand).collect();
        assert_eq!(n1, [Some(0.5)]);
        let said = of("currency = \"EUR\"\n").unwrap_err().to_string();
        assert!(said.contains("a table of prices is in USD"), "{said}");
        assert!(of("untyped = \"K80\"\n").unwrap_err().to_string().contains("untyped is `K80`"));
    }
}
