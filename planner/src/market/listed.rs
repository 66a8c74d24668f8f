//! Offers from tables of prices, as [traces](Trace) hold them: one of instances on demand for each row.
//!
//! * **Pools.** GPUs of one model and memory are one type. Of a model in several sizes the least has the plain name, and the others say theirs, as clouds and SkyPilot call them: `A100` and `A100-80GB`. Each also serves jobs that
//!   ask for model and size (`A100-40GB`), and names with blanks serve those with dashes. Sizes are those of all tables together, and sizes within a tenth are one: tables write 24 GB, 24 GiB or the 22,888 MiB that the driver shows.
//! * **Names.** An instance is called as the table calls it. Where it has no name, or another has the same, the GPUs are said, then the zone and the cloud. Its instance type stays what the table calls it.
//! * **Left out** is what cannot be told apart and costs more (no name, and the same cloud, zone and GPUs), parts of a GPU, and **spot**: a table does not say how often it can be had or for how long, and
//!   a plan would take it to be there always. So are accelerators without their host, which cost less than an instance, and GPUs that are billed while they are used, which are no instances.
//! * **Which clouds and regions** are left is told, as a table of many clouds puts them all into one pool. A row that names no region is in none that is asked for.
//!
//! O(rows · log rows). Worked example: `A100 (40 GB)` and `A100 (80 GB)` of one cloud, eight each and without names, are `cloud 8xA100` and `cloud 8xA100-80GB`, in two pools.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;

use super::grid::WeekShape;
use super::offers::{InstanceOffer, ListedOffer, ListedOffers, plain_name};
use crate::error::{Error, Result};
use crate::market::zone::region_of;

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;
/// Most GPUs of an instance, as in an offers file.
const MOST_GPUS: f64 = 4096.0;
/// Sizes of memory that are so many times apart, and no more, are one.
const SAME_SIZE: f64 = 1.1;
/// Most names that are told at once.
const TOLD: usize = 24;

/// Filter on clouds and regions of tables of prices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableFilter {
    /// Clouds; none for all.
    pub providers: Vec<String>,
    /// Regions, or zones; none for all.
    pub regions: Vec<String>,
}

impl TableFilter {
    fn has(wanted: &[String], result: &[Option<&str>]) -> bool {
        let is_one = |name: &&str| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
        wanted.is_empty() || result.iter().flatten().any(is_one)
    }

    /// The rows that are meant.
    fn rows<'t>(&self, all: &[(&'t Trace, usize)]) -> Result<Vec<(&'t Trace, usize)>> {
        let provider = |of: &(&'t Trace, usize)| of.0.prices.provider.get(of.1);
        let zone = |of: &(&'t Trace, usize)| of.0.prices.zone.get(of.1);
        let clouds: BTreeSet<&str> = all.iter().filter_map(provider).collect();
        Self::check(&self.providers, &clouds, &clouds, "cloud of the tables of prices")?;
        let mut rows: Vec<(&'t Trace, usize)> = all.to_vec();
        rows.retain(|of| Self::has(&self.providers, &[provider(of)]));
        let zones: BTreeSet<&str> = rows.iter().filter_map(zone).collect();
        let regions: BTreeSet<&str> = zones.iter().map(|zone| region_of(zone)).collect();
        let places: BTreeSet<&str> = zones.union(&regions).copied().collect();
        Self::check(&self.regions, &places, &regions, "region of the tables of prices")?;
        rows.retain(|of| Self::has(&self.regions, &[zone(of), zone(of).map(region_of)]));
        Ok(rows)
    }

    /// Describes which clouds are left, and how many prices of others are not; `None` where all are
    /// of one cloud and nothing was asked.
    fn in_words(&self, rows: &[Row<'_>], left_out: u64) -> Option<String> {
        let clouds: BTreeSet<&str> = rows.iter().filter_map(|row| row.provider).collect();
        if *self == Self::default() {
            let count = clouds.len();
            let told = || format!("instances of {count} clouds are in one pool a GPU type ({})", named(&clouds));
            return (count > 1).then(told);
        }
        let whose = if clouds.is_empty() { String::new() } else { format!(" of {}", named(&clouds)) };
        let place = if self.regions.is_empty() { String::new() } else { format!(" in {}", self.regions.join(", ")) };
        let count = format::counted(left_out, "price", "prices");
        Some(format!(
            "as asked, instances{whose}{place} are offered alone; left out: {count} of other clouds or regions"
        ))
    }

    /// Refuses a name that there is not.
    fn check(wanted: &[String], there: &BTreeSet<&str>, told: &BTreeSet<&str>, what: &'static str) -> Result<()> {
        let is_there = |name: &&String| there.iter().any(|there| there.eq_ignore_ascii_case(name));
        let Some(result) = wanted.iter().find(|name| !is_there(name)) else { return Ok(()) };
        let remedy = if told.is_empty() {
            "they name none, so leave the option out".to_owned()
        } else {
            format!("there are {}", named(told))
        };
        Err(Error::malformed(what, result.clone(), remedy))
    }
}

/// Some names, separated by commas.
fn named(names: &BTreeSet<&str>) -> String {
    let more = names.len().saturating_sub(TOLD);
    let told = names.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{told} and {more} more") } else { told }
}

/// A row on demand.
#[derive(Debug, Clone, Copy)]
struct Row<'t> {
    provider: Option<&'t str>,
    zone: Option<&'t str>,
    instance: Option<&'t str>,
    model: &'t str,
    /// Memory of a GPU, GiB.
    gib: Option<f64>,
    /// Whether the table calls the model by its size, as `A100-80GB`.
    is_sized: bool,
    gpus: u32,
    price: f64,
}

/// `A100-80GB` of 80 GiB as `A100`, 80 GiB, and that it was so called; `GH200-480GB` of 96 GiB stays as it is.
fn parted(model: &str, gib: Option<f64>) -> (&str, Option<f64>, bool) {
    let size = |text: &str| text.strip_suffix("GB")?.parse().ok().filter(|size: &f64| *size > 0.0 && size.is_finite());
    let Some((plain, told)) = model.rsplit_once('-').and_then(|(plain, last)| Some((plain, size(last)?))) else {
        return (model, gib, false);
    };
    let is_its = gib.is_none_or(|gib| gib.max(told) <= SAME_SIZE * gib.min(told));
    if plain.is_empty() || !is_its { (model, gib, false) } else { (plain, gib.or(Some(told)), true) }
}

impl<'t> Row<'t> {
    fn new(trace: &'t Trace, row: usize) -> Option<Self> {
        let table = &trace.prices;
        let gpus = table.gpus.get(row).filter(|gpus| (1.0..=MOST_GPUS).contains(gpus) && gpus.fract() == 0.0)?;
        let gib = table.gpu_mem_bytes.get(row).map(|bytes| bytes / GIB).filter(|gib| *gib > 0.0 && gib.is_finite());
        let (model, gib, is_sized) = parted(table.gpu_type.get(row)?, gib);
        Some(Self {
            provider: table.provider.get(row),
            zone: table.zone.get(row),
            instance: table.instance.get(row),
            model,
            gib,
            is_sized,
            gpus: gpus as u32,
            price: table.usd_per_h.get(row).filter(|price| *price > 0.0 && price.is_finite())?,
        })
    }
}

/// GPUs of one model whose memory is one size.
#[derive(Debug, Clone, Default)]
struct Size {
    /// Least memory of its rows, GiB.
    least: f64,
    /// The memory of its rows in whole GiB.
    gib: BTreeSet<u64>,
    /// Whether each row calls the model by its size.
    are_sized: bool,
}

/// The sizes of each model, the least first.
struct Sizes(BTreeMap<String, Vec<Size>>);

impl Sizes {
    fn new(rows: &[Row<'_>]) -> Self {
        let mut by_model: BTreeMap<String, Vec<&Row<'_>>> = BTreeMap::new();
        for row in rows {
            by_model.entry(plain_name(row.model)).or_default().push(row);
        }
        let sizes = by_model.into_iter().map(|(model, rows)| {
            let mut known: Vec<(f64, bool)> = rows.iter().filter_map(|row| Some((row.gib?, row.is_sized))).collect();
            known.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut sizes: Vec<Size> = Vec::new();
            for (gib, is_sized) in known {
                match sizes.last_mut().filter(|size| gib <= SAME_SIZE * size.least) {
                    Some(size) => {
                        size.gib.insert(gib.round() as u64);
                        size.are_sized &= is_sized;
                    }
                    None => {
                        sizes.push(Size { least: gib, gib: BTreeSet::from([gib.round() as u64]), are_sized: is_sized });
                    }
                }
            }
            (model, sizes)
        });
        Self(sizes.collect())
    }

    /// Index of a row's size among those of its model, counted from the least. A row without memory
    /// is of the least size that is named by the model alone.
    fn place(&self, row: &Row<'_>) -> Option<usize> {
        let sizes = self.0.get(&plain_name(row.model))?;
        match row.gib {
            Some(gib) => sizes.iter().rposition(|size| size.least <= gib),
            None => sizes.iter().position(|size| !size.are_sized),
        }
    }

    /// The type of a row's GPUs, and what else it is called.
    fn gpu(&self, row: &Row<'_>) -> (String, Vec<String>) {
        let place = self.place(row);
        let size = place.and_then(|place| self.0.get(&plain_name(row.model))?.get(place));
        let mut also: Vec<String> =
            size.iter().flat_map(|size| size.gib.iter().rev()).map(|gib| format!("{}-{gib}GB", row.model)).collect();
        let name = match (size, also.first()) {
            (Some(size), Some(sized)) if place > Some(0) || size.are_sized => sized.clone(),
            _ => row.model.to_owned(),
        };
        let dashed = |name: &String| name.contains(' ').then(|| name.replace(' ', "-"));
        also.extend(std::iter::once(&name).chain(&also.clone()).filter_map(dashed).collect::<Vec<_>>());
        also.retain(|other| *other != name);
        (name, also)
    }
}

/// What tells two instances apart but for what they cost.
type Alike<'t> = (Option<&'t str>, Option<&'t str>, Option<&'t str>, String, Option<usize>, u32);

/// Gives each row a name of its own.
fn offers_of(rows: &[Row<'_>], sizes: &Sizes) -> Vec<ListedOffer> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut offers = Vec::with_capacity(rows.len());
    for row in rows {
        let (gpu, also) = sizes.gpu(row);
        let count = format!("{}x{gpu}", row.gpus);
        let with =
            |more: Option<&str>, name: &str| more.map_or_else(|| name.to_owned(), |more| format!("{name} {more}"));
        let plain = row.instance.map_or_else(|| with(Some(&count), row.provider.unwrap_or("unnamed")), str::to_owned);
        let sized = row.instance.map_or_else(|| plain.clone(), |name| with(Some(&count), name));
        let zoned = with(row.zone, &sized);
        let whose = with(row.provider, &zoned);
        let numbered = (2..=rows.len() + 1).map(|number| format!("{whose} ({number})"));
        let mut candidates: Vec<String> = [plain, sized, zoned, whose.clone()].into();
        candidates.dedup();
        let free = candidates.iter().position(|name| !names.contains(name));
        let (name, longer) = match free {
            Some(at) => (candidates.remove(at), candidates.split_off(at)),
            None => (numbered.into_iter().find(|name| !names.contains(name)).unwrap_or_default(), Vec::new()),
        };
        names.insert(name.clone());
        let offer = InstanceOffer {
            name,
            instance_type: row.instance.map(str::to_owned),
            gpu,
            gpus: row.gpus,
            zone: row.zone.map(str::to_owned),
            provider: row.provider.map(str::to_owned),
            on_demand: Some(row.price),
            on_demand_limit: None,
            reserved: Vec::new(),
            spot: None,
            power_kw: None,
            kg_per_h: None,
            kg_by_hour: WeekShape::default(),
        };
        offers.push(ListedOffer { offer, also, longer });
    }
    offers
}

impl ListedOffers {
    /// Collects the prices of traces, which are dollars.
    ///
    /// # Errors
    /// If the filter names a cloud or a region that no row is of.
    pub fn new(tables: &[&Trace], filter: &TableFilter) -> Result<Self> {
        let rows_of = |trace: &'_ Trace| 0..trace.prices.ts.len();
        let all: Vec<(&Trace, usize)> =
            tables.iter().flat_map(|trace| rows_of(trace).map(move |row| (*trace, row))).collect();
        let kept = filter.rows(&all)?;
        let count = |rows: &[(&Trace, usize)], kinds: &[&str]| {
            let is_one =
                |(trace, row): &&(&Trace, usize)| trace.prices.kind.get(*row).is_some_and(|kind| kinds.contains(&kind));
            rows.iter().filter(is_one).count() as u64
        };
        let (mut result, mut odd): (Vec<Row<'_>>, u64) = (Vec::new(), 0);
        for (trace, row) in kept.iter().filter(|(trace, row)| trace.prices.kind.get(*row) == Some("ondemand")) {
            match Row::new(trace, *row) {
                Some(row) => result.push(row),
                None => odd += 1,
            }
        }
        let sizes = Sizes::new(&result);
        let (mut rows, mut alike): (Vec<Row<'_>>, u64) = (Vec::new(), 0);
        let mut places: BTreeMap<Alike<'_>, usize> = BTreeMap::new();
        for row in result {
            let model = plain_name(row.model);
            let key = (row.instance, row.provider, row.zone, model, sizes.place(&row), row.gpus);
            match places.get(&key).and_then(|at| rows.get_mut(*at)) {
                Some(other) => {
                    alike += 1;
                    if row.price < other.price {
                        *other = row;
                    }
                }
                None => {
                    places.insert(key, rows.len());
                    rows.push(row);
                }
            }
        }
        let told = |count: u64, after: &str| {
            (count > 0).then(|| format!("left out: {}{after}", format::counted(count, "price", "prices")))
        };
        let notes = [
            filter.in_words(&rows, count(&all, &["ondemand"]) - count(&kept, &["ondemand"])),
            told(
                count(&kept, &["spot"]),
                " of spot, as a table does not say how often spot can be had; write `spot` with `available` and `interrupted_every` for an instance in an offers file beside it",
            ),
            told(
                count(&kept, &["accelerator", "accelerator_spot"]),
                " of accelerators without their host (rows that name no instance type), as an instance costs more; write the whole instance in an offers file beside it",
            ),
            told(
                count(&kept, &["serverless"]),
                " of GPUs that are billed while they are used (serverless), which are no instances",
            ),
            told(alike, " that another instance has too, which differs in the price alone; the cheapest is taken"),
            told(odd, " of no whole GPU"),
        ];
        Ok(Self { offers: offers_of(&rows, &sizes), notes: notes.into_iter().flatten().collect() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::PriceRow;

    use super::super::offers::Offers;
    use super::*;

    fn of(rows: &[(&str, &str, f64, f64, f64, &str)]) -> ListedOffers {
        ListedOffers::new(&[&trace(rows)], &TableFilter::default()).unwrap()
    }

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
        let listed = of(&rows);
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
            listed.notes.len() == 4 && listed.notes[1].starts_with("left out: 1 price of spot"),
            "{:?}",
            listed.notes
        );
        assert_eq!(listed.notes[0], "instances of 2 clouds are in one pool a GPU type (aws, gcp)");
        // Offers of a fleet, alone and with a file beside it, which has priority and may hold
        // nothing but what is missing.
        let of = |text: &str| Offers::with_table("o.toml", text, &listed);
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

    /// A price of one GPU without its host, and of one that is billed while it is used, are no instances, however cheap.
    #[test]
    fn what_is_no_instance_is_left_out_and_counted() {
        let rows = [
            ("", "V100", 16.0, 1.0, 0.5, "accelerator"),
            ("", "V100", 16.0, 1.0, 0.2, "accelerator_spot"),
            ("", "V100", 16.0, 1.0, 0.1, "serverless"),
            ("n1-v100", "V100", 16.0, 1.0, 3.0, "ondemand"),
        ];
        let listed = of(&rows);
        assert_eq!(listed.offers.iter().map(|of| of.offer.on_demand).collect::<Vec<_>>(), [Some(3.0)]);
        assert!(
            listed.notes[0].starts_with("left out: 2 prices of accelerators without their host"),
            "{:?}",
            listed.notes
        );
        assert!(listed.notes[1].starts_with("left out: 1 price of GPUs that are billed while they are used"));
    }

    /// Prices in zones, of a table that stands alone or beside another.
    fn zoned(rows: &[(&str, &str, &str, f64, f64)]) -> Trace {
        let mut trace = Trace::default();
        for (provider, zone, model, gib, price) in rows {
            trace.prices.push(PriceRow {
                provider: Some((*provider).into()),
                zone: Some(*zone).filter(|zone| !zone.is_empty()).map(Into::into),
                instance: Some("x1".into()),
                gpu_type: Some((*model).into()),
                gpus: Some(1.0),
                gpu_mem_bytes: Some(gib * GIB).filter(|bytes| *bytes > 0.0),
                usd_per_h: Some(*price),
                kind: Some("ondemand".into()),
                ..PriceRow::default()
            });
        }
        trace
    }

    /// The driver's 22,888 MiB are the 24 GB of the maker; of two tables that call one GPU by its size and by its model, the pools are the same.
    #[test]
    fn sizes_of_several_tables_are_the_same_sizes() {
        let one = zoned(&[("a", "z", "L4", 22_888.0 / 1024.0, 1.0), ("a", "z", "A100-80GB", 80.0, 5.0)]);
        let other =
            zoned(&[("b", "z", "L4", 24.0, 1.1), ("b", "z", "A100", 79.6, 4.9), ("b", "z", "GH200-480GB", 96.0, 6.0)]);
        let gpus = |tables: &[&Trace]| {
            let listed = ListedOffers::new(tables, &TableFilter::default()).unwrap();
            let offers = Offers::with_table("o.toml", "", &listed).unwrap();
            offers.pools.iter().map(|pool| (pool.gpu.clone(), pool.names.join(" "))).collect::<Vec<_>>()
        };
        let of = |gpu: &str, names: &str| (gpu.to_owned(), names.to_owned());
        assert_eq!(
            gpus(&[&one, &other]),
            [
                of("L4", "L4 L4-24GB L4-22GB"),
                of("A100", "A100 A100-80GB"),
                of("GH200-480GB", "GH200-480GB GH200-480GB-96GB")
            ]
        );
        assert_eq!(gpus(&[&one]), [of("L4", "L4 L4-22GB"), of("A100-80GB", "A100-80GB")]);
        // A model of no told size is not that which is called by its size.
        let plain = zoned(&[("c", "z", "A100", 0.0, 3.0)]);
        assert_eq!(gpus(&[&one, &plain])[1..], [of("A100-80GB", "A100-80GB"), of("A100", "A100")]);
        // Blanks and dashes tell nothing apart.
        let [blank, dashed] =
            ["H100 PCIe", "H100-PCIe"].map(|gpu| zoned(&[("c", "z", gpu, 80.0, 3.0), ("d", "z", gpu, 94.0, 4.0)]));
        let both = ["H100 PCIe-80GB", "H100-PCIe", "H100-PCIe-80GB"].join(" ");
        assert_eq!(gpus(&[&blank, &dashed])[0], of("H100 PCIe", &format!("H100 PCIe {both}")));
        // A file calls by its size what a table calls by its model.
        let listed = ListedOffers::new(&[&zoned(&[("c", "z", "A100", 80.0, 3.0)])], &TableFilter::default()).unwrap();
        let text = "[[instance]]\nname = \"o\"\ngpu = \"A100-80GB\"\ngpus = 1\non_demand = 9.0\n";
        let offers = Offers::with_table("o.toml", text, &listed).unwrap();
        assert_eq!((offers.pools.len(), offers.pools[0].instances.len()), (1, 2));
        // Beside the smaller one the size is told.
        let small = zoned(&[("c", "z", "A100", 40.0, 3.0)]);
        assert_eq!(gpus(&[&other, &small])[1], of("A100-80GB", "A100-80GB"));
    }

    #[test]
    fn clouds_and_regions_are_picked() {
        let table = zoned(&[
            ("aws", "us-east-1a", "V100", 16.0, 3.0),
            ("aws", "us-west-2b", "V100", 16.0, 2.0),
            ("gcp", "us-central1-a", "V100", 16.0, 1.0),
            ("lambda", "", "V100", 16.0, 0.5),
        ]);
        let of = |providers: &[&str], regions: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let filter = TableFilter { providers: owned(providers), regions: owned(regions) };
            let result = ListedOffers::new(&[&table], &filter).map_err(|error| error.to_string())?;
            let prices: Vec<f64> = result.offers.iter().filter_map(|of| of.offer.on_demand).collect();
            Ok::<_, String>((prices, result.notes.first().cloned().unwrap_or_default()))
        };
        let (prices, said) = of(&["AWS", "gcp"], &[]).unwrap();
        assert_eq!((prices.len(), prices[2]), (3, 1.0));
        assert_eq!(
            said,
            "as asked, instances of aws, gcp are offered alone; left out: 1 price of other clouds or regions"
        );
        let (prices, said) = of(&["aws"], &["us-east-1"]).unwrap();
        assert_eq!(prices, [3.0]);
        assert!(said.contains("instances of aws in us-east-1 are offered alone; left out: 3 prices"), "{said}");
        assert_eq!(of(&[], &["us-central1-a", "us-west-2"]).unwrap().0, [2.0, 1.0]);
        assert_eq!(of(&[], &[]).unwrap().1, "instances of 3 clouds are in one pool a GPU type (aws, gcp, lambda)");
        let said = of(&["azure"], &[]).unwrap_err();
        assert_eq!(said, "`azure` is no cloud of the tables of prices; there are aws, gcp, lambda");
        // A region of a cloud that is not meant is none.
        let said = of(&["gcp"], &["us-east-1"]).unwrap_err();
        assert_eq!(said, "`us-east-1` is no region of the tables of prices; there are us-central1");
        assert!(of(&["lambda"], &["us-east-1"]).unwrap_err().ends_with("they name none, so leave the option out"));
    }

    /// What a file says of an instance type holds in all its zones, or in the one that it names; nothing of a table is lost for a name.
    #[test]
    fn what_a_file_says_holds_in_every_zone() {
        let table = zoned(&[
            ("aws", "us-east-1a", "V100", 16.0, 3.0),
            ("aws", "us-east-1b", "V100", 16.0, 3.1),
            ("aws", "us-east-1c", "T4", 16.0, 1.0),
        ]);
        let listed = ListedOffers::new(&[&table], &TableFilter::default()).unwrap();
        let of = |more: &str| {
            let text = format!("[[instance]]\nname = \"x1\"\ngpu = \"V100\"\ngpus = 1\non_demand = 9.0\n{more}");
            let offers = Offers::with_table("o.toml", &text, &listed).unwrap();
            let names = offers.instances.iter().map(|of| (of.name.clone(), of.on_demand.unwrap())).collect::<Vec<_>>();
            (names, offers.notes.join("; "), offers.instances[0].clone())
        };
        let named =
            |names: &[(&str, f64)]| names.iter().map(|(name, price)| ((*name).to_owned(), *price)).collect::<Vec<_>>();
        let (names, said, own) = of("");
        assert_eq!(names, named(&[("x1", 9.0), ("x1 1xT4", 1.0)]));
        assert_eq!(said, "left out: 2 instances of the tables that o.toml describes itself (x1)");
        assert_eq!((own.instance_type.as_deref(), own.provider.as_deref()), (Some("x1"), Some("aws")));
        // Zone a of the table is called x1, and gives its name to the file's zone b.
        let (names, said, _) = of("zone = \"us-east-1b\"\n");
        assert_eq!(names, named(&[("x1", 9.0), ("x1 1xV100", 3.0), ("x1 1xT4", 1.0)]));
        assert!(said.starts_with("left out: 1 instance "), "{said}");
        // An own node of that name leaves the table's instance there.
        let (names, _, _) = of(
            "zone = \"us-east-1b\"\n[[owned]]\nname = \"x1 1xV100\"\ngpu = \"V100\"\ngpus = 1\nprice = 9\nyears = 1\n",
        );
        assert_eq!(names[1], ("x1 1xV100 us-east-1a".to_owned(), 3.0));
        // By a name that is no instance type: that of the table stays.
        let text = "[[instance]]\nname = \"x1 1xV100\"\ngpu = \"V100\"\ngpus = 1\non_demand = 9.0\n";
        let offers = Offers::with_table("o.toml", text, &listed).unwrap();
        let names: Vec<&str> = offers.instances.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["x1 1xV100", "x1", "x1 1xT4"]);
        assert_eq!(offers.instances[0].instance_type.as_deref(), Some("x1"));
    }
}
