//! Carbon of a fleet, and the mixes between which nothing is better in both cost and carbon.
//!
//! Nothing is known here of power or of grids: the offers file or the command line says what an instance draws while it runs, and the command line on which grid a zone is. Of the file of a grid the mean at each
//! [hour of the week](crate::market::grid) counts, as the hours of the record are hardly those of the file. An instance that is committed to counts as running around the clock, through clean and dirty hours, as nobody says what is switched off. Making the hardware is not in it.
//!
//! ```text
//! kg of an hour h of the week = kW × g(h) / 1000,   price with a weight = price + weight × kg
//! ```
//!
//! **Front**: the mix is solved with a weight on carbon, a price of a kg, which leaves what bills say as it is: so a dirty hour of one zone is rented in another, where that costs less than its carbon is weighed. First without one and with one that drowns prices. Then, between two mixes next to each other, with the weight at which
//! both would cost the same: what that finds below their line is put between them (Aneja and Nair, Management Science 1979), up to seven mixes. So no weight has to be guessed, and each mix is the best of some weight on the hours it was
//! chosen on. Mixes that lie within the hull are the best of no weight and not found. On [later hours](super::heldout) they may be worse than others in both: that is told. Later hours
//! are rented by what was known of the grids before the split, and emit what the later half of the files says.
//!
//! **What the hours gain**: beside each mix stand that of the same weight where only the mean of each grid is known, and what such mixes, those of these weights and of a front of their own, emit for as much money. With grids that do not change by the hour both are the same. So they are on one grid where all
//! instances draw as much a GPU, but for what is reserved where needs come at dirtier hours than others.
//!
//! O(points × searches). Worked example: instances of 1 kW cost 2 in a zone of 400 g a kWh, and 2.5 in one of 100 g. Without a weight the first are taken: 2 and 0.4 kg an hour; with a high one the second: 2.5 and 0.1 kg. Both cost the same
//! at 0.5 / 0.3 = 1.67 a kg, where nothing lies below their line.
//!
//! By the hour: two hours need an instance of 1 kW, at 2 in a zone of 500 and then 100 g, 300 on average, or at 2.2 in one of 200 g. All in the first is 4 and 0.6 kg. By the mean the second is the cleaner, at 4.4 and 0.4 kg; by the hour the first hour alone is rented there, for 4.2 and 0.2 + 0.1 = 0.3 kg.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::audit::factors::Hourly;
use tracecast_analytics::report::format;
use tracecast_analytics::time::HOUR_MS;

use super::commit::solve_by;
use super::heldout::{KnownOffers, Spent, bill_as};
use super::weighed::HourPrices;
use crate::error::{Error, Result};
use crate::market::demand::PoolDemand;
use crate::market::grid::{GridWeek, KnownWeek, WeekShape};
use crate::market::levels::levels_by;
use crate::market::offers::{InstanceOffer, Offers};
use crate::market::supply::{PoolSupply, SupplyOptions};
use crate::plan::money::MONTH_H;
use crate::plan::weeks::{WeekSplit, whole};

/// Most mixes of a front.
const MOST_POINTS: usize = 7;
/// Share of a price that a weight is at most that only decides between equal ones.
const TIES: f64 = 1e-9;
/// How many times the price of the dearest kg a weight is that drowns prices.
const DROWNS: f64 = 1e4;
/// Names that a message tells.
const MOST_NAMED: usize = 5;

/// On which grid the instances of a zone are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetGrid {
    /// Zone of the offers; or the name of an offer, which goes first.
    pub place: String,
    /// Zone of the grid, as its file names it.
    pub grid: String,
    /// Mean carbon intensity, grams a kWh.
    pub g_per_kwh: f64,
    /// Hours that this is the mean of.
    pub hours: u64,
    /// Mean of the cleanest hour of the week, grams a kWh.
    pub least_g_per_kwh: f64,
    /// Mean of the dirtiest hour of the week, grams a kWh.
    pub most_g_per_kwh: f64,
    /// Hours of the week that the file has none of: of 168, those that count as that hour of the day, or as the mean.
    pub missing_hours: u64,
    /// Mean of the hours that the front is chosen with: of the earlier half of the file, or of all where it has fewer than two weeks.
    pub earlier_g_per_kwh: f64,
    /// Mean of the hours that the later windows are told with: of the later half, or of all.
    pub later_g_per_kwh: f64,
    /// What a reader must know of them: what is counted, how many are estimates, and what could not be used.
    pub notes: Vec<String>,
    /// What is known of it hour by hour.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) week: KnownWeek,
}

impl FleetGrid {
    /// From the hours of a grid; nothing if there are none.
    pub fn new(place: &str, grid: &str, hourly: &Hourly) -> Option<Self> {
        Some(Self::known(place, grid, KnownWeek::learn(hourly)?, hourly.notes.clone()))
    }

    fn known(place: &str, grid: &str, week: KnownWeek, notes: Vec<String>) -> Self {
        let (least, most) = week.all.shape.range();
        Self {
            place: place.to_owned(),
            grid: grid.to_owned(),
            g_per_kwh: week.all.g_per_kwh,
            hours: week.all.hours,
            least_g_per_kwh: least * week.all.g_per_kwh,
            most_g_per_kwh: most * week.all.g_per_kwh,
            missing_hours: week.all.missing,
            earlier_g_per_kwh: week.before.g_per_kwh,
            later_g_per_kwh: week.after.g_per_kwh,
            notes,
            week,
        }
    }

    fn is_of(&self, offer: &InstanceOffer) -> bool {
        self.place == offer.name || Some(&self.place) == offer.zone.as_ref()
    }
}

/// What is said of the carbon of offers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetCarbonRequest {
    /// Grids of zones or offers.
    pub grids: Vec<FleetGrid>,
    /// Power of an instance, kW, by the name of its offer or its instance type; before what the
    /// offers file says.
    pub power_kw: Vec<(String, f64)>,
}

fn wrong(result: String, remedy: &str) -> Error {
    Error::malformed("carbon of the offers", result, remedy.to_owned())
}

fn some(names: &[&str]) -> String {
    format::names(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>(), MOST_NAMED)
}

impl FleetCarbonRequest {
    /// What the files of the grids say of themselves, each sentence once; and of which hours are known that were not when mixes were chosen, at the split of a record that ends then.
    pub(super) fn notes(&self, (split_ms, end_ms): (i64, i64)) -> Vec<String> {
        let mut result: Vec<String> = Vec::new();
        for FleetGrid { grid, week, .. } in &self.grids {
            let note = match week.known {
                None => format!(
                    "{grid}: the file is too short to be cut in two, so mixes are chosen and told with the same hours."
                ),
                Some((from, to)) if to > split_ms && from < end_ms => format!(
                    "{grid}: the hours that mixes are chosen with go on after the split of the record, so what they gain is told too well."
                ),
                Some(_) => continue,
            };
            if !result.contains(&note) {
                result.push(note);
            }
        }
        for note in self.grids.iter().flat_map(|grid| &grid.notes) {
            if !result.contains(note) {
                result.push(note.clone());
            }
        }
        result
    }

    fn power(&self, offer: &InstanceOffer) -> Option<f64> {
        let of = |named: &String| self.power_kw.iter().find(|(name, _)| name == named).map(|(_, kw)| *kw);
        of(&offer.name).or_else(|| of(offer.instance_type.as_ref()?)).or(offer.power_kw)
    }

    fn grid(&self, offer: &InstanceOffer) -> Option<&FleetGrid> {
        let by_name = self.grids.iter().find(|grid| grid.place == offer.name);
        by_name.or_else(|| self.grids.iter().find(|grid| grid.is_of(offer)))
    }

    /// Says of each offer what an hour of one instance emits, where its power and grid are known.
    ///
    /// # Errors
    /// If a grid or a power is of no offer.
    pub fn tell(&self, offers: &mut Offers) -> Result<()> {
        self.tell_as(offers, |known| &known.all)
    }

    fn tell_as(&self, offers: &mut Offers, known: fn(&KnownWeek) -> &GridWeek) -> Result<()> {
        if let Some(grid) = self.grids.iter().find(|grid| !offers.instances.iter().any(|offer| grid.is_of(offer))) {
            return Err(wrong(
                format!("no offer is in the zone `{}` or called so", grid.place),
                "name a zone of the offers file, or an offer",
            ));
        }
        let none = |name: &String| {
            let names = |offer: &InstanceOffer| *name == offer.name || Some(name) == offer.instance_type.as_ref();
            !offers.instances.iter().any(names)
        };
        if let Some((name, _)) = self.power_kw.iter().find(|(name, _)| none(name)) {
            return Err(wrong(format!("no offer is called `{name}`"), "name an offer, or its instance type"));
        }
        for offer in &mut offers.instances {
            let told = self.power(offer).zip(self.grid(offer)).map(|(kw, grid)| (kw, known(&grid.week)));
            offer.kg_per_h = told.map(|(kw, week)| kw * week.g_per_kwh / 1e3);
            offer.kg_by_hour = told.map_or_else(WeekShape::default, |(_, week)| week.shape.clone());
        }
        Ok(())
    }

    /// Sets the carbon of all known offers, each with the hours of the grids that were known then.
    ///
    /// # Errors
    /// Errors of [`tell`](Self::tell).
    pub fn tell_all(&self, known: &mut KnownOffers) -> Result<()> {
        self.tell_as(&mut known.before, |known| &known.before)?;
        self.tell_as(&mut known.after, |known| &known.after)?;
        self.tell(&mut known.all)
    }

    /// Checks that power and grid of each offer that jobs may run on are known.
    fn check(&self, offers: &Offers, demand: &[PoolDemand]) -> Result<()> {
        let request = offers.pools.iter().zip(demand).filter(|(_, demand)| demand.jobs > 0);
        let needed: Vec<&InstanceOffer> = request.flat_map(|(pool, _)| offers.of(pool)).collect();
        let lacking = |lacks: &dyn Fn(&InstanceOffer) -> bool| -> Vec<&str> {
            needed.iter().filter(|offer| lacks(offer)).map(|offer| offer.name.as_str()).collect()
        };
        let without = lacking(&|offer| self.power(offer).is_none());
        if !without.is_empty() {
            let problem = format!("nothing says what an instance of {} draws", some(&without));
            return Err(wrong(problem, "write power_kw in the offers file, or --power NAME=KW"));
        }
        let without = lacking(&|offer| self.grid(offer).is_none());
        if !without.is_empty() {
            let problem = format!("nothing says on which grid {} are", some(&without));
            return Err(wrong(problem, "write --grid ZONE=GRID for their zones, or with their names"));
        }
        Ok(())
    }
}

/// Emissions of an offer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetCarbonOffer {
    /// The instance.
    pub offer: String,
    /// Grid that feeds the instance.
    pub grid: String,
    /// Power of one instance, kW.
    pub power_kw: f64,
    /// Mean carbon intensity of the grid, grams a kWh.
    pub g_per_kwh: f64,
    /// Emissions of an hour of one instance, kg.
    pub kg_per_h: f64,
}

/// The mix that is chosen with a weight where only the mean intensity of each grid is known, and instances are rented by it; what it emits goes by the hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FleetCarbonByMean {
    /// GPUs that it commits to.
    pub committed_gpus: f64,
    /// Cost a month on the later windows.
    pub cost_per_month: f64,
    /// Emissions a month on these windows, kg.
    pub kg_per_month: f64,
    /// GPU-hours that nothing served on them.
    pub waiting_gpu_hours: f64,
}

/// A mix of the front.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetCarbonPoint {
    /// Weight on carbon that it was chosen with, money a tonne; nothing where carbon alone decided.
    pub per_tonne: Option<f64>,
    /// GPUs that it commits to.
    pub committed_gpus: f64,
    /// Cost a month on the hours it was chosen on.
    pub earlier_cost_per_month: f64,
    /// Emissions a month on these hours, kg.
    pub earlier_kg_per_month: f64,
    /// Cost a month on the later windows.
    pub cost_per_month: f64,
    /// Emissions a month on these windows, kg.
    pub kg_per_month: f64,
    /// What a tonne less than the mix chosen by cost alone costs on them, money; below 0 where this mix turned out cheaper as well, and nothing where it emitted no less.
    pub cost_per_tonne_saved: Option<f64>,
    /// GPU-hours that nothing served on them.
    pub waiting_gpu_hours: f64,
    /// Whether another mix of the front is no worse in both on the later windows, and better in one.
    pub is_dominated: bool,
    /// How far it may be from the least of its weight on the hours it was chosen on, a share: 0 but where a search ended early.
    pub gap: f64,
    /// What the same weight chooses by the mean of each grid in place of its hours.
    pub by_mean: FleetCarbonByMean,
    /// What mixes that are chosen by the mean emit a month for as much money on the later windows, kg: of those of these weights and of a front of their own, on the line between two. Nothing where all cost more, or leave other work without GPUs.
    pub by_mean_kg_for_as_much: Option<f64>,
}

/// Carbon of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FleetCarbon {
    /// Grids that were named.
    pub grids: Vec<FleetGrid>,
    /// Offers that jobs may run on.
    pub offers: Vec<FleetCarbonOffer>,
    /// Emissions of the mix to come a month, on all weeks of the record, kg.
    pub mix_kg_per_month: f64,
    /// Emissions of all on demand a month on the same weeks, kg.
    pub on_demand_kg_per_month: f64,
    /// The front, from the least cost to the least carbon on the hours it was chosen on.
    pub front: Vec<FleetCarbonPoint>,
}

impl PoolSupply {
    /// Two prices of a kg of carbon: one that counts for next to nothing beside prices, and one beside which they do.
    fn extremes(&self) -> [f64; 2] {
        // In every hour and at the mean, as mixes are chosen by both.
        let kg = |mean: f64, by_hour: &WeekShape| {
            let (least, most) = by_hour.range();
            [mean * least, mean, mean * most]
        };
        let rentals = self.on_demand.iter().chain(&self.spot);
        let rentals = rentals.map(|of| (of.per_gpu_h, kg(of.kg_per_gpu_h, &of.by_hour)));
        let committed = self.commitments.iter().map(|of| (of.per_h / of.gpus, [of.kg_per_h / of.gpus; 3]));
        let all: Vec<(f64, [f64; 3])> = rentals.chain(committed).collect();
        let dearest = all.iter().map(|of| of.0).fold(0.0, f64::max);
        let emitted = || all.iter().flat_map(|of| of.1);
        // Of means: an hour of next to nothing would leave no digits for prices.
        let least_kg = all.iter().map(|of| of.1[1]).filter(|kg| *kg > 0.0).fold(f64::INFINITY, f64::min);
        let most_kg = emitted().fold(0.0, f64::max);
        if most_kg > 0.0 { [TIES * dearest / most_kg, DROWNS * dearest / least_kg] } else { [0.0; 2] }
    }
}

/// A mix on some hours: commitments pool by pool, and what it cost and emitted.
#[derive(Debug, Clone)]
struct Mixed {
    per_kg: f64,
    counts: Vec<Vec<u32>>,
    spent: Spent,
    /// The greatest of a pool.
    gap: f64,
}

/// The mix of a weight. O(pools × searches).
fn mixed(pools: &[(PoolSupply, &PoolDemand)], per_kg: f64) -> Mixed {
    let (mut counts, mut spent, mut gap) = (Vec::with_capacity(pools.len()), Spent::default(), 0.0);
    for (supply, demand) in pools {
        let by = HourPrices::new(supply, per_kg, &demand.hours);
        let levels = levels_by(supply, demand.hours.iter().copied(), &|hour| by.class(hour));
        let chosen = solve_by(&by.over_all, &by.classes, &levels);
        spent.add(&bill_as(supply, &by, &demand.hours, &chosen.counts));
        gap = chosen.gap().max(gap);
        counts.push(chosen.counts);
    }
    Mixed { per_kg, counts, spent, gap }
}

/// The mixes of the front of some pools, each a supply and what it needs: chosen on these hours.
fn front(pools: &[(PoolSupply, &PoolDemand)]) -> Vec<Mixed> {
    let mixed = |per_kg: f64| mixed(pools, per_kg);
    // Of equal prices the cleaner is taken.
    let extremes: Vec<[f64; 2]> = pools.iter().map(|(supply, _)| supply.extremes()).collect();
    let hardly = extremes.iter().map(|of| of[0]).filter(|per_kg| *per_kg > 0.0).reduce(f64::min).unwrap_or(0.0);
    let drowning = extremes.iter().map(|of| of[1]).fold(0.0, f64::max);
    let (cheapest, cleanest) = (mixed(hardly), mixed(drowning));
    let hair = |of: f64| 1e-9 * (1.0 + of.abs());
    if cheapest.spent.carbon_kg - cleanest.spent.carbon_kg <= hair(cheapest.spent.carbon_kg) {
        return vec![cheapest];
    }
    let mut result = vec![cheapest, cleanest];
    // Pairs next to each other, the first of each by its place; the widest is cut first.
    let mut open = vec![0usize];
    while result.len() < MOST_POINTS {
        let width = |at: &usize| match (result.get(*at), result.get(at + 1)) {
            (Some(a), Some(b)) => (a.spent.carbon_kg - b.spent.carbon_kg) * (b.spent.cost() - a.spent.cost()),
            _ => 0.0,
        };
        let Some(place) = (0..open.len()).max_by(|a, b| width(&open[*a]).total_cmp(&width(&open[*b])).then(b.cmp(a)))
        else {
            break;
        };
        let at = open.swap_remove(place);
        let (Some(a), Some(b)) = (result.get(at), result.get(at + 1)) else { continue };
        let (less_kg, more) = (a.spent.carbon_kg - b.spent.carbon_kg, b.spent.cost() - a.spent.cost());
        if less_kg <= hair(a.spent.carbon_kg) || more <= hair(a.spent.cost()) {
            continue;
        }
        let per_kg = more / less_kg;
        let middle = mixed(per_kg);
        let weighed = |of: &Mixed| of.spent.cost() + per_kg * of.spent.carbon_kg;
        // What lies on their line adds nothing; what waits is in neither.
        if weighed(&middle) < weighed(a) - 1e-9 * weighed(a).abs() {
            result.insert(at + 1, middle);
            open.iter_mut().filter(|open| **open > at).for_each(|open| *open += 1);
            open.extend([at, at + 1]);
        }
    }
    result
}

/// What a tonne less costs, of a mix beside the cheapest, each its cost, its kg and what waits; nothing where it saves none, or leaves other work without GPUs.
///
/// Worked example: 2,000 and 400 kg, and 2,500 and 150 kg a month: 500 for 0.25 t, 2,000 a tonne.
fn per_tonne_saved(cheapest: (f64, f64, f64), own: (f64, f64, f64)) -> Option<f64> {
    let less_kg = cheapest.1 - own.1;
    let same_work = (cheapest.2 - own.2).abs() < 1e-6;
    (less_kg > 1e-9 * (1.0 + cheapest.1.abs()) && same_work).then(|| 1e3 * (own.0 - cheapest.0) / less_kg)
}

/// The least carbon that mixes, each its cost and its kg, emit for so much money: of those that cost no more, and on lines between two. O(mixes²).
///
/// Worked example: 100 for 50 kg and 140 for 30 kg are 40 kg for 120, and 30 kg for 150.
fn on_line(mixes: &[(f64, f64)], cost: f64) -> Option<f64> {
    // What differs by a hair costs as much.
    let reach = cost + 1e-9 * (1.0 + cost.abs());
    let line = |a: &(f64, f64), b: &(f64, f64)| a.1 + (b.1 - a.1) * ((cost - a.0) / (b.0 - a.0)).max(0.0);
    let within = mixes.iter().filter(|of| of.0 <= reach);
    let beyond = || mixes.iter().filter(|of| of.0 > reach);
    within.flat_map(|a| std::iter::once(a.1).chain(beyond().map(move |b| line(a, b)))).reduce(f64::min)
}

/// Carbon of a fleet: chosen before the split, scored after it.
///
/// # Errors
/// If power or grid of an offer that jobs may run on is not known.
pub(super) fn carbon(
    request: &FleetCarbonRequest,
    offers: &KnownOffers,
    (before, after): (&[PoolDemand], &[PoolDemand]),
    split: &WeekSplit,
    options: &SupplyOptions,
) -> Result<FleetCarbon> {
    for demand in [before, after] {
        request.check(&offers.all, demand)?;
    }
    let options = SupplyOptions { buy: false, ..*options };
    let supplied = |offers: &Offers, demand: &[PoolDemand]| -> Vec<PoolSupply> {
        let pools = offers.pools.iter().zip(demand);
        pools.map(|(pool, demand)| PoolSupply::new(offers, pool, demand, &options)).collect()
    };
    let then: Vec<(PoolSupply, &PoolDemand)> = supplied(&offers.before, before).into_iter().zip(before).collect();
    let now = supplied(&offers.after, after);
    // Later hours are served by what was known of the grids before, and billed by what came.
    let mut expected = offers.after.clone();
    request.tell_as(&mut expected, |known| &known.before)?;
    let expected = supplied(&expected, after);
    let hours = |(from, to): (i64, i64)| ((to - from) / HOUR_MS).max(1) as f64;
    let [earlier, later] =
        [hours(whole(&split.before)), split.hours_after().max(1) as f64].map(|hours| MONTH_H / hours);
    let score = |mixed: &Mixed, expected: &[PoolSupply]| {
        let (mut spent, mut committed_gpus) = (Spent::default(), 0.0);
        for (((supply, expected), demand), counts) in now.iter().zip(expected).zip(after).zip(&mixed.counts) {
            let by = HourPrices::new(expected, mixed.per_kg, &demand.hours);
            spent.add(&bill_as(supply, &by, &demand.hours, counts));
            committed_gpus += supply.committed_gpus(counts);
        }
        FleetCarbonByMean {
            committed_gpus,
            cost_per_month: spent.cost() * later,
            kg_per_month: spent.carbon_kg * later,
            waiting_gpu_hours: spent.waiting_gpu_h,
        }
    };
    // With only the mean of each grid known, it is billed as the others.
    let then_at_mean: Vec<_> = then.iter().map(|(supply, demand)| (supply.at_mean(), *demand)).collect();
    let expected_at_mean: Vec<PoolSupply> = expected.iter().map(PoolSupply::at_mean).collect();
    let chosen = front(&then);
    let of_weights = |mixed: &Mixed| score(&self::mixed(&then_at_mean, mixed.per_kg), &expected_at_mean);
    let by_mean: Vec<FleetCarbonByMean> = chosen.iter().map(of_weights).collect();
    let mut all_by_mean = by_mean.clone();
    all_by_mean.extend(front(&then_at_mean).iter().map(|mixed| score(mixed, &expected_at_mean)));
    let mut points: Vec<FleetCarbonPoint> = Vec::new();
    let last = chosen.len().saturating_sub(1);
    for ((at, mixed), by_mean) in chosen.iter().enumerate().zip(by_mean) {
        let by_hour = score(mixed, &expected);
        let same_work = all_by_mean.iter().filter(|of| (of.waiting_gpu_hours - by_hour.waiting_gpu_hours).abs() < 1e-6);
        let same_work: Vec<(f64, f64)> = same_work.map(|of| (of.cost_per_month, of.kg_per_month)).collect();
        points.push(FleetCarbonPoint {
            per_tonne: match at {
                0 => Some(0.0),
                at if at < last => Some(1e3 * mixed.per_kg),
                _ => None,
            },
            committed_gpus: by_hour.committed_gpus,
            earlier_cost_per_month: mixed.spent.cost() * earlier,
            earlier_kg_per_month: mixed.spent.carbon_kg * earlier,
            cost_per_month: by_hour.cost_per_month,
            kg_per_month: by_hour.kg_per_month,
            cost_per_tonne_saved: None,
            waiting_gpu_hours: by_hour.waiting_gpu_hours,
            is_dominated: false,
            gap: mixed.gap,
            by_mean,
            by_mean_kg_for_as_much: on_line(&same_work, by_hour.cost_per_month),
        });
    }
    let figures: Vec<(f64, f64, f64)> =
        points.iter().map(|of| (of.cost_per_month, of.kg_per_month, of.waiting_gpu_hours)).collect();
    let cheapest = figures.first().copied().unwrap_or_default();
    for (of, own) in points.iter_mut().zip(&figures) {
        of.cost_per_tonne_saved = per_tonne_saved(cheapest, *own);
        let no_worse = |other: &&(f64, f64, f64)| other.0 <= own.0 && other.1 <= own.1 && other.2 <= own.2;
        of.is_dominated = figures.iter().filter(no_worse).any(|other| other.0 < own.0 || other.1 < own.1);
    }
    let asked = offers.all.pools.iter().zip(before.iter().zip(after)).filter(|(_, (a, b))| a.jobs + b.jobs > 0);
    let told = asked.flat_map(|(pool, _)| offers.all.of(pool)).filter_map(|offer| {
        let (power_kw, grid) = request.power(offer).zip(request.grid(offer))?;
        Some(FleetCarbonOffer {
            offer: offer.name.clone(),
            grid: grid.grid.clone(),
            power_kw,
            g_per_kwh: grid.g_per_kwh,
            kg_per_h: offer.kg_per_h?,
        })
    });
    Ok(FleetCarbon {
        grids: request.grids.clone(),
        offers: told.collect(),
        mix_kg_per_month: 0.0,
        on_demand_kg_per_month: 0.0,
        front: points,
    })
}

#[cfg(test)]
#[path = "carbon_tests.rs"]
mod tests;
