//! The account: a [`EnergyLedger`] times [`Factors`](super::factors::Factors) is energy, carbon, money and water, by what they were spent on and by whose they are.
//!
//! | Figure | Formula | Rests on |
//! |---|---|---|
//! | facility energy | Σ E_h · PUE | `[pue]` |
//! | carbon ([`carbon`]) | Σ_h E_h · PUE · I_h, never ΣE · mean I | `[carbon.location]`, `[carbon.market]` |
//! | cost ([`cost`]) | Σ_h E_h · PUE · p_h, and peaks of months | `[price]`, `[demand_charge]` |
//! | water | Σ E_h · WUE | `[water]` |
//! | SCI ([`sci`]) | (E · I + M) / R (ISO/IEC 21031:2024), R in GPU hours | `[embodied]` |
//! | EU fields ([`eu`]) | E_DC, E_IT, PUE, WUE, ERF, REF … | `[site]` |
//!
//! Without a PUE, carbon and cost are those of IT energy alone and say so. An hour without a factor is not covered: its energy is counted as
//! such, beside the figure, and never as 0. Every amount tells how much of it a model gave and no reading ([`Bounded::modelled`]). Bounds are those of the ledger: they hold what gaps in the telemetry leave open, not errors of
//! meters or factors.
//!
//! Owners are charged by their energy in each hour, so that Σ owners + nobody = total for every figure. A job is charged at the mean
//! intensity and price of its owner, as the ledger has no hours of jobs.
//!
//! Complexity: O(entries · log hours) time, O(hours + owners) memory.
//!
//! Worked numbers. Two hours at 10 kWh and 30 kWh with 100 g/kWh and 500 g/kWh emit 10 · 100 + 30 · 500 = 16,000 g = 16 kg; total times mean
//! intensity would be 40 · 300 = 12,000 g, a quarter less. At a PUE of 1.25 it is 20 kg. If the second hour has no intensity, the figure is 1 kg
//! (1.25 kg) and 75 % of the energy is not covered.

pub mod carbon;
pub mod cost;
pub mod eu;
pub mod sci;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use carbon::Carbon;
pub use cost::Cost;
pub use eu::EuField;
pub use sci::Sci;

use super::factors::{Hourly, Loaded, Pue};
use crate::KWH_J;
use crate::energy::ledger::{Basis, EnergyEntry, EnergyLedger, Owner, Use};
use crate::stats::sum::NeumaierSum;
use crate::time::{HOUR_MS, HOUR_S};

/// An amount with the least and the most it can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bounded {
    /// The amount.
    pub value: f64,
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Part of the amount that a model supplies.
    pub modelled: f64,
}

impl Bounded {
    /// Returns the amount times a factor, which may be negative.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let (a, b) = (self.lower * factor, self.upper * factor);
        Self { value: self.value * factor, lower: a.min(b), upper: a.max(b), modelled: self.modelled * factor }
    }

    /// Part of the amount that readings supply, short gaps bridged.
    #[must_use]
    pub fn metered(self) -> f64 {
        self.value - self.modelled
    }
}

/// A sum of amounts with bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BoundedSum {
    value: NeumaierSum,
    lower: NeumaierSum,
    upper: NeumaierSum,
    modelled: NeumaierSum,
}

impl BoundedSum {
    pub(crate) fn add(&mut self, amount: Bounded) {
        self.value.add(amount.value);
        self.lower.add(amount.lower);
        self.upper.add(amount.upper);
        self.modelled.add(amount.modelled);
    }

    pub(crate) fn value(self) -> Bounded {
        Bounded {
            value: self.value.value(),
            lower: self.lower.value(),
            upper: self.upper.value(),
            modelled: self.modelled.value(),
        }
    }
}

/// Energy of an entry, kWh.
fn energy_kwh(entry: &EnergyEntry) -> Bounded {
    let modelled = if entry.basis == Basis::Model { entry.energy_j } else { 0.0 };
    Bounded { value: entry.energy_j, lower: entry.lower_j, upper: entry.upper_j, modelled }.times(1.0 / KWH_J)
}

/// Energy spent on one thing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UseLine {
    /// Purpose of the energy.
    pub spent_on: Use,
    /// IT energy, kWh.
    pub energy_kwh: Bounded,
    /// Share of all IT energy; may be below 0 for the residual.
    pub share: Option<f64>,
    /// Share of it that readings tell, and no model.
    pub measured: Option<f64>,
}

/// Energy known in one way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BasisLine {
    /// Origin of the figures.
    pub basis: Basis,
    /// IT energy, kWh.
    pub energy_kwh: f64,
    /// Share of all IT energy.
    pub share: Option<f64>,
}

/// Energy, carbon and cost charged to one owner.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Charge {
    /// Virtual cluster, partition or queue; `null` where it is unknown, and for nobody.
    pub vc: Option<String>,
    /// User; `null` where unknown, summed over, and for nobody.
    pub user: Option<String>,
    /// Whether the charge belongs to nobody: idle power without a job, and the residual.
    pub nobody: bool,
    /// IT energy, kWh.
    pub energy_kwh: Bounded,
    /// Share of it that readings tell, and no model.
    pub measured: Option<f64>,
    /// Part of the energy above idle, kWh.
    pub active_kwh: f64,
    /// Part that is work or idle power, not told apart, kWh.
    pub unsplit_kwh: f64,
    /// Idle power of GPUs held, or the share of nodes whose GPUs have no readings, kWh.
    pub idle_kwh: f64,
    /// Share of nodes' overhead, kWh.
    pub overhead_kwh: f64,
    /// Energy with the facility's share, kWh; `null` without a PUE.
    pub facility_kwh: Option<f64>,
    /// Location-based, kg of CO₂ equivalent, of the energy covered; `null` where none is.
    pub location_kg: Option<f64>,
    /// Share of its energy that has a location-based intensity.
    pub location_covered: Option<f64>,
    /// Market-based, kg of CO₂ equivalent, of the energy covered; `null` where none is.
    pub market_kg: Option<f64>,
    /// Cost of energy covered, and of demand; `null` where neither is known.
    pub cost: Option<f64>,
    /// Share of its energy that has a price.
    pub cost_covered: Option<f64>,
}

/// Energy, carbon and cost charged to one job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobCharge {
    /// The job.
    pub job_key: String,
    /// Virtual cluster, partition or queue.
    pub vc: Option<String>,
    /// User.
    pub user: Option<String>,
    /// GPU hours it held in the window.
    pub gpu_hours: f64,
    /// IT energy, kWh.
    pub energy_kwh: f64,
    /// Part of the energy above idle, kWh.
    pub active_kwh: f64,
    /// Part that is work or idle power, not told apart, kWh.
    pub unsplit_kwh: f64,
    /// Idle power of GPUs held, or the share of nodes whose GPUs have no readings, kWh.
    pub idle_kwh: f64,
    /// Share of nodes' overhead, kWh.
    pub overhead_kwh: f64,
    /// Part of the energy that a model supplies, kWh.
    pub modelled_kwh: f64,
    /// Share of its GPU time with readings.
    pub coverage: Option<f64>,
    /// Location-based at its owner's mean intensity, kg of CO₂ equivalent.
    pub location_kg: Option<f64>,
    /// Market-based at its owner's mean intensity, kg of CO₂ equivalent.
    pub market_kg: Option<f64>,
    /// Cost at its owner's mean price, demand charge included.
    pub cost: Option<f64>,
}

/// A figure that cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingFigure {
    /// Name of the figure.
    pub figure: String,
    /// Missing input, and how to supply it.
    pub why: String,
}

/// Differences between the sum of the parts and the total.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Conservation {
    /// Σ over what it was spent on, less the ledger's total, over that total.
    pub uses_relative: Option<f64>,
    /// Σ owners + nobody, less the ledger's total, over that total.
    pub owners_relative: Option<f64>,
    /// Σ jobs less Σ owners without nobody, kWh.
    pub jobs_difference_kwh: f64,
    /// The ledger's total less what the meters read and what a model fills of their gaps, kWh; `null` without meters.
    pub meter_difference_kwh: Option<f64>,
}

/// Power in one hour.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HourLine {
    /// Beginning of the hour, milliseconds since the epoch.
    pub hour_ms: i64,
    /// IT energy, kWh.
    pub energy_kwh: f64,
    /// Part of the energy that a model supplies, kWh.
    pub modelled_kwh: f64,
    /// Location-based intensity, g/kWh; `null` where there is none.
    pub g_per_kwh: Option<f64>,
    /// Location-based, kg of CO₂ equivalent.
    pub location_kg: Option<f64>,
    /// Price of energy, money a kWh; `null` where there is none.
    pub price_per_kwh: Option<f64>,
    /// Cost of energy.
    pub cost: Option<f64>,
}

/// Water drawn.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WaterFigure {
    /// Litres.
    pub litres: Bounded,
    /// Litres a kWh of IT energy.
    pub l_per_kwh: f64,
}

/// Whole-node meters of all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NodeMeters {
    /// Energy read, kWh.
    pub read_kwh: f64,
    /// Energy that a model fills in for time without readings, kWh.
    pub filled_kwh: f64,
}

/// Part of the window that readings cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReadingCoverage {
    /// First reading of any device, inside the window or not, milliseconds since the epoch; `null` without readings.
    pub first_ms: Option<i64>,
    /// Last reading.
    pub last_ms: Option<i64>,
    /// Hours of the clock that the window touches.
    pub window_hours: u64,
    /// Hours among `window_hours` with energy from a reading.
    pub hours_read: u64,
    /// IT energy from readings, short gaps bridged, kWh.
    pub metered_kwh: f64,
    /// IT energy from a model, kWh.
    pub modelled_kwh: f64,
}

/// Everything accounted for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// IT energy, kWh.
    pub it_kwh: Bounded,
    /// Energy of whole-node meters; `null` without them, and where some nodes have none.
    pub node_meters: Option<NodeMeters>,
    /// Part of the window that readings cover.
    pub readings: ReadingCoverage,
    /// Share of device time with readings of its own.
    pub coverage: Option<f64>,
    /// GPU hours seen.
    pub gpu_hours: f64,
    /// GPU hours held by jobs.
    pub allocated_gpu_hours: f64,
    /// Hours with energy.
    pub hours: u64,
    /// Power usage effectiveness.
    pub pue: Option<Pue>,
    /// Facility energy, kWh; `null` without a PUE.
    pub facility_kwh: Option<Bounded>,
    /// Energy by purpose.
    pub by_use: Vec<UseLine>,
    /// Energy by how it is known.
    pub by_basis: Vec<BasisLine>,
    /// Location-based carbon.
    pub location: Option<Carbon>,
    /// Market-based carbon.
    pub market: Option<Carbon>,
    /// Cost.
    pub cost: Option<Cost>,
    /// Water.
    pub water: Option<WaterFigure>,
    /// Software carbon intensity.
    pub sci: Option<Sci>,
    /// Fields for the European database.
    pub eu: Vec<EuField>,
    /// Charges by VC, most energy first; nobody's last.
    pub by_vc: Vec<Charge>,
    /// Charges by VC and user, most energy first; nobody's last.
    pub by_user: Vec<Charge>,
    /// Charges by job, most energy first.
    pub jobs: Vec<JobCharge>,
    /// Energy by hour.
    pub by_hour: Vec<HourLine>,
    /// Differences between the sum of the parts and the total.
    pub conservation: Conservation,
    /// Figures that cannot be given.
    pub missing: Vec<MissingFigure>,
}

/// Energy by whether readings tell it. Amounts count without their sign: a negative residual is as well or badly known as a positive one.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    all: NeumaierSum,
    measured: NeumaierSum,
    located: NeumaierSum,
    marketed: NeumaierSum,
    priced: NeumaierSum,
}

impl Known {
    fn add(&mut self, entry: &EnergyEntry) {
        self.all.add(entry.energy_j.abs());
        if entry.basis != Basis::Model {
            self.measured.add(entry.energy_j.abs());
        }
    }

    fn share(&self) -> Option<f64> {
        self.part(self.measured)
    }

    fn part(&self, of: NeumaierSum) -> Option<f64> {
        share(of.value(), self.all.value())
    }
}

/// Running sums of one owner.
#[derive(Debug, Clone, Copy, Default)]
struct Purse {
    known: Known,
    energy: BoundedSum,
    active: NeumaierSum,
    unsplit: NeumaierSum,
    idle: NeumaierSum,
    overhead: NeumaierSum,
    location: NeumaierSum,
    market: NeumaierSum,
    cost: NeumaierSum,
}

impl Purse {
    fn merge(&mut self, other: &Self) {
        self.known.all.merge(other.known.all);
        self.known.measured.merge(other.known.measured);
        self.known.located.merge(other.known.located);
        self.known.marketed.merge(other.known.marketed);
        self.known.priced.merge(other.known.priced);
        self.energy.add(other.energy.value());
        self.active.merge(other.active);
        self.unsplit.merge(other.unsplit);
        self.idle.merge(other.idle);
        self.overhead.merge(other.overhead);
        self.location.merge(other.location);
        self.market.merge(other.market);
        self.cost.merge(other.cost);
    }
}

/// Figures available for turning a [`Purse`] into a [`Charge`].
#[derive(Debug, Clone, Copy)]
struct Given {
    pue: Option<f64>,
    location: bool,
    market: bool,
    cost: bool,
    demand: bool,
}

impl Given {
    fn charge(self, vc: Option<String>, user: Option<String>, nobody: bool, purse: &Purse) -> Charge {
        let energy_kwh = purse.energy.value();
        Charge {
            vc,
            user,
            nobody,
            energy_kwh,
            measured: purse.known.share(),
            active_kwh: purse.active.value(),
            unsplit_kwh: purse.unsplit.value(),
            idle_kwh: purse.idle.value(),
            overhead_kwh: purse.overhead.value(),
            facility_kwh: self.pue.map(|pue| energy_kwh.value * pue),
            location_kg: (self.location && purse.known.located.value() > 0.0).then(|| purse.location.value()),
            location_covered: if self.location { purse.known.part(purse.known.located) } else { None },
            market_kg: (self.market && purse.known.marketed.value() > 0.0).then(|| purse.market.value()),
            cost: (self.demand || (self.cost && purse.known.priced.value() > 0.0)).then(|| purse.cost.value()),
            cost_covered: if self.cost { purse.known.part(purse.known.priced) } else { None },
        }
    }
}

/// A part over a whole, `None` if the whole is 0.
pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole != 0.0).then(|| part / whole)
}

/// Energy by hour, kWh, in order.
pub(crate) fn by_hour(ledger: &EnergyLedger) -> BTreeMap<i64, Bounded> {
    let mut hours: BTreeMap<i64, BoundedSum> = BTreeMap::new();
    for entry in &ledger.entries {
        hours.entry(entry.hour_ms.div_euclid(HOUR_MS) * HOUR_MS).or_default().add(energy_kwh(entry));
    }
    hours.into_iter().map(|(hour, sum)| (hour, sum.value())).collect()
}

/// Accounts for a ledger.
pub fn account(ledger: &EnergyLedger, loaded: &Loaded) -> Account {
    let factors = &loaded.factors;
    let mut missing = Vec::new();
    let hours = by_hour(ledger);
    let mut total = BoundedSum::default();
    hours.values().for_each(|energy| total.add(*energy));
    let it_kwh = total.value();
    let pue = factors.pue.as_ref().map(|pue| pue.value);
    let facility_factor = pue.unwrap_or(1.0);
    if pue.is_none() {
        miss(&mut missing, "Facility energy", "no PUE; give --pue, or `[pue]` in the factor file");
    }
    let market_intensity = carbon::market_intensity(factors, loaded.intensity.as_ref(), &mut missing);
    let location = carbon::figure(&hours, loaded.intensity.as_ref(), facility_factor);
    if location.is_none() {
        let why = "no carbon intensity of the grid; give --carbon, or `[carbon.location]` in the factor file";
        miss(&mut missing, "Location-based carbon", why);
    }
    let market = carbon::figure(&hours, market_intensity.as_ref(), facility_factor);
    let cost = cost::figure(&hours, loaded, facility_factor, (ledger.from_ms, ledger.to_ms), &mut missing);

    // Owners, nobody last.
    let nobody = ledger.owners.len();
    let mut purses = vec![Purse::default(); nobody + 1];
    let mut uses: BTreeMap<Use, (BoundedSum, Known)> = BTreeMap::new();
    let mut bases: BTreeMap<Basis, NeumaierSum> = BTreeMap::new();
    for entry in &ledger.entries {
        let energy = energy_kwh(entry);
        let of_use = uses.entry(entry.spent_on).or_default();
        of_use.0.add(energy);
        of_use.1.add(entry);
        bases.entry(entry.basis).or_default().add(energy.value);
        let owner = entry.owner.map_or(nobody, |owner| (owner as usize).min(nobody));
        let Some(purse) = purses.get_mut(owner) else { continue };
        purse.energy.add(energy);
        purse.known.add(entry);
        match entry.spent_on {
            Use::Active => purse.active.add(energy.value),
            Use::Unsplit => purse.unsplit.add(energy.value),
            Use::IdleAllocated | Use::IdleUnallocated | Use::NodeIdleAllocated | Use::NodeIdleUnallocated => {
                purse.idle.add(energy.value);
            }
            Use::Overhead => purse.overhead.add(energy.value),
            Use::Residual => {}
        }
        let drawn = energy.value * facility_factor;
        let at = |series: &Option<Hourly>| series.as_ref().and_then(|series| series.at(entry.hour_ms));
        // Hours without a factor add nothing; how much of the energy they hold is told beside the figure.
        if let Some(grams) = at(&loaded.intensity) {
            purse.location.add(drawn * grams / 1_000.0);
            purse.known.located.add(entry.energy_j.abs());
        }
        if let Some(grams) = at(&market_intensity) {
            purse.market.add(drawn * grams / 1_000.0);
            purse.known.marketed.add(entry.energy_j.abs());
        }
        if let Some(price) = at(&loaded.price) {
            purse.cost.add(drawn * price);
            purse.known.priced.add(entry.energy_j.abs());
        }
        let hour = entry.hour_ms.div_euclid(HOUR_MS) * HOUR_MS;
        let demand = cost.as_ref().map_or(0.0, |cost| cost.demand_at(hour));
        let whole = hours.get(&hour).map_or(0.0, |energy| energy.value);
        purse.cost.add(share(energy.value, whole).map_or(0.0, |part| part * demand));
    }
    let given = Given {
        pue,
        location: location.as_ref().is_some_and(|carbon| carbon.kg.is_some()),
        market: market.as_ref().is_some_and(|carbon| carbon.kg.is_some()),
        cost: cost.as_ref().is_some_and(|cost| cost.energy.is_some()),
        demand: cost.as_ref().is_some_and(|cost| cost.demand.is_some()),
    };
    let (by_vc, by_user) = charges(&ledger.owners, &purses, given);
    let jobs = jobs(ledger, &purses, given);
    let owners_kwh = purses.iter().map(|purse| purse.energy.value().value).collect::<NeumaierSum>().value();
    let held_kwh = purses.iter().take(nobody).map(|p| p.energy.value().value).collect::<NeumaierSum>().value();
    let jobs_kwh = jobs.iter().map(|job| job.energy_kwh).collect::<NeumaierSum>().value();
    let uses_kwh = uses.values().map(|sum| sum.0.value().value).collect::<NeumaierSum>().value();
    let total_kwh = ledger.total_j / KWH_J;
    let sci = sci::figure(ledger, loaded, location.as_ref(), it_kwh, facility_factor, &mut missing);
    let water = factors
        .water
        .as_ref()
        .map(|water| WaterFigure { litres: it_kwh.times(water.l_per_kwh), l_per_kwh: water.l_per_kwh });
    if water.is_none() {
        miss(&mut missing, "Water", "no water usage effectiveness; give `[water]` in the factor file");
    }
    let lines = hours.iter().map(|(hour, energy)| {
        let drawn = energy.value * facility_factor;
        let grams = loaded.intensity.as_ref().and_then(|series| series.at(*hour));
        let price = loaded.price.as_ref().and_then(|series| series.at(*hour));
        HourLine {
            hour_ms: *hour,
            energy_kwh: energy.value,
            modelled_kwh: energy.modelled,
            g_per_kwh: grams,
            location_kg: grams.map(|grams| drawn * grams / 1_000.0),
            price_per_kwh: price,
            cost: price.map(|price| drawn * price),
        }
    });
    Account {
        it_kwh,
        node_meters: ledger
            .metered_j
            .map(|joules| NodeMeters { read_kwh: joules / KWH_J, filled_kwh: ledger.filled_j / KWH_J }),
        readings: ReadingCoverage {
            first_ms: ledger.record.map(|record| record.from_ms),
            last_ms: ledger.record.map(|record| record.to_ms),
            window_hours: clock_hours(ledger.from_ms, ledger.to_ms),
            hours_read: ledger.hours_read,
            metered_kwh: it_kwh.metered(),
            modelled_kwh: it_kwh.modelled,
        },
        coverage: ledger.coverage_ratio,
        gpu_hours: ledger.gpu_hours,
        allocated_gpu_hours: ledger.allocated_gpu_hours,
        hours: hours.len() as u64,
        pue: factors.pue.clone(),
        facility_kwh: pue.map(|pue| it_kwh.times(pue)),
        by_use: uses
            .into_iter()
            .map(|(spent_on, (sum, known))| {
                let energy_kwh = sum.value();
                let share = share(energy_kwh.value, it_kwh.value);
                UseLine { spent_on, energy_kwh, share, measured: known.share() }
            })
            .collect(),
        by_basis: bases
            .into_iter()
            .map(|(basis, sum)| BasisLine { basis, energy_kwh: sum.value(), share: share(sum.value(), it_kwh.value) })
            .collect(),
        eu: eu::fields(&factors.site, it_kwh, pue, water.as_ref(), (ledger.from_ms, ledger.to_ms)),
        location,
        market,
        cost,
        water,
        sci,
        by_vc,
        by_user,
        jobs,
        by_hour: lines.collect(),
        conservation: Conservation {
            uses_relative: share(uses_kwh - total_kwh, total_kwh),
            owners_relative: share(owners_kwh - total_kwh, total_kwh),
            jobs_difference_kwh: jobs_kwh - held_kwh,
            meter_difference_kwh: ledger.metered_j.map(|joules| total_kwh - (joules + ledger.filled_j) / KWH_J),
        },
        missing,
    }
}

/// Hours of the clock that a window touches.
fn clock_hours(from_ms: i64, to_ms: i64) -> u64 {
    let last = to_ms.saturating_sub(1).div_euclid(HOUR_MS);
    u64::try_from(last - from_ms.div_euclid(HOUR_MS) + 1).unwrap_or(0)
}

/// Notes a figure that cannot be given.
pub(crate) fn miss(missing: &mut Vec<MissingFigure>, figure: &str, why: &str) {
    missing.push(MissingFigure { figure: figure.to_owned(), why: why.to_owned() });
}

/// Charges by VC, and by VC and user.
fn charges(owners: &[Owner], purses: &[Purse], given: Given) -> (Vec<Charge>, Vec<Charge>) {
    let mut vcs: BTreeMap<Option<String>, Purse> = BTreeMap::new();
    // The same pair may be there more than once.
    let mut users: BTreeMap<(Option<String>, Option<String>), Purse> = BTreeMap::new();
    for (owner, purse) in owners.iter().zip(purses) {
        vcs.entry(owner.vc.clone()).or_default().merge(purse);
        users.entry((owner.vc.clone(), owner.user.clone())).or_default().merge(purse);
    }
    let last = purses.last().map(|purse| given.charge(None, None, true, purse));
    let finish = |mut lines: Vec<Charge>| {
        lines.sort_by(|a, b| {
            let by_energy = b.energy_kwh.value.total_cmp(&a.energy_kwh.value);
            by_energy.then_with(|| (&a.vc, &a.user).cmp(&(&b.vc, &b.user)))
        });
        lines.extend(last.clone());
        lines
    };
    let by_vc = vcs.into_iter().map(|(vc, purse)| given.charge(vc, None, false, &purse)).collect();
    let by_user = users.into_iter().map(|((vc, user), purse)| given.charge(vc, user, false, &purse)).collect();
    (finish(by_vc), finish(by_user))
}

/// Charges by job.
fn jobs(ledger: &EnergyLedger, purses: &[Purse], given: Given) -> Vec<JobCharge> {
    let mut lines: Vec<JobCharge> = ledger
        .jobs
        .iter()
        .map(|job| {
            let at = job.owner.map(|owner| owner as usize);
            let owner = at.and_then(|at| ledger.owners.get(at));
            let purse = at.and_then(|at| purses.get(at));
            let energy_kwh = (job.active_j + job.unsplit_j + job.idle_j + job.overhead_j) / KWH_J;
            // The job's share of its owner's energy is its share of what that energy caused.
            let part = purse.and_then(|purse| share(energy_kwh, purse.energy.value().value));
            let of = |given: bool, sum: fn(&Purse) -> f64| {
                if given { Some(part? * sum(purse?)) } else { None }
            };
            JobCharge {
                job_key: job.job_key.clone(),
                vc: owner.and_then(|owner| owner.vc.clone()),
                user: owner.and_then(|owner| owner.user.clone()),
                gpu_hours: job.gpu_s / HOUR_S,
                energy_kwh,
                active_kwh: job.active_j / KWH_J,
                unsplit_kwh: job.unsplit_j / KWH_J,
                idle_kwh: job.idle_j / KWH_J,
                overhead_kwh: job.overhead_j / KWH_J,
                modelled_kwh: job.modelled_j / KWH_J,
                coverage: job.coverage_ratio,
                location_kg: of(given.location, |purse| purse.location.value()),
                market_kg: of(given.market, |purse| purse.market.value()),
                cost: of(given.cost || given.demand, |purse| purse.cost.value()),
            }
        })
        .collect();
    lines.sort_by(|a, b| b.energy_kwh.total_cmp(&a.energy_kwh).then_with(|| a.job_key.cmp(&b.job_key)));
    lines
}
