//! What is rented in an hour beside commitments: whole instances that cover what is needed, for the least money.
//!
//! ```text
//! a, b    GPUs that are needed beyond the commitments: firm, and all
//! D(k)    the least price of whole instances on demand that have k GPUs or more
//! S(k)    the same of spot, of the instances that a state of spot leaves: a share of a limit is rounded down
//! least over k from a to b of D(k) + S(b − k)
//! ```
//!
//! D and S are tables by dynamic programming over the offers (a covering knapsack), in units: the greatest number of GPUs that divides all sizes. So the choice is the cheapest of all, of several sizes
//! too. Where limits leave no room for all, as much is served as can be, firm needs first, and the rest *waits*; of what serves as much, the cheapest is rented. Prices are counted in whole parts of 2⁻⁴⁰ of
//! the cheapest (of more where the dearest, times the units, is above 2¹⁸ times the cheapest), and each instance one part more: of equal prices, the fewest instances are rented, and sums are exact.
//!
//! Not every k need be looked at. Let g be the size of the unlimited offer that is cheapest by the GPU. Of any g instances, some have together a multiple of g GPUs, and that offer in their place costs no more. So where it is on demand, spot without a
//! limit has less than g instances; where it is spot, on-demand has less than g instances beyond what is firm (or limited).
//!
//! O(offers × units) for a table of each state, O(g × largest size + limited GPUs) an hour, all of the need where nothing is unlimited. Worked example: instances of 8 GPUs cost 8 an hour, of one GPU 1.5. One GPU costs 1.5, six cost 8 (9 alone), and nine cost
//! 9.5: one of each.

use super::demand::HourDemand;
use super::supply::{PoolSupply, Rental};

/// What nothing covers.
const NEVER: u64 = 1 << 62;
/// Parts into which the least price is cut.
const PARTS: f64 = (1u64 << 40) as f64;

/// Instances of one kind: what a table covers needs with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Covering {
    /// Units of one.
    pub(crate) size: usize,
    /// Price of one.
    pub(crate) price: f64,
    /// Most of them; without limit if `None`.
    pub(crate) most: Option<u32>,
}

impl Covering {
    /// Whether another, of which there are enough, covers as much for no more.
    fn is_spared_by(&self, other: &Self) -> bool {
        other.most.is_none() && other.size >= self.size && other.price <= self.price
    }
}

/// The least price of whole instances that cover so many units or more, for every number of units.
#[derive(Debug, Clone)]
pub(crate) struct CoverTable {
    /// Least price by units, in parts of a price.
    least: Vec<u64>,
    /// For each useful kind: its position, units of one, and how many are taken by units.
    taken: Vec<(usize, usize, Vec<u32>)>,
    /// The most units that can be covered, as far as the table goes.
    room: usize,
    /// A part of a price.
    part: f64,
}

/// A part of a price: so small that the least price has many, and so large that the dearest covering of `most` units is counted.
fn part_of(kinds: &[Covering], most: usize) -> f64 {
    let least = kinds.iter().map(|of| of.price).fold(f64::INFINITY, f64::min);
    let dearest = kinds.iter().map(|of| of.price).fold(0.0, f64::max);
    let part = (least / PARTS).max(dearest * (most + 1) as f64 / (NEVER / 4) as f64);
    if part.is_finite() && part > 0.0 { part } else { 1.0 }
}

impl CoverTable {
    /// For up to `most` units. O(kinds × most).
    pub(crate) fn new(kinds: &[Covering], most: usize) -> Self {
        Self::in_parts(kinds, most, part_of(kinds, most))
    }

    fn in_parts(kinds: &[Covering], most: usize, part: f64) -> Self {
        let mut least = vec![NEVER; most + 1];
        if let Some(nothing) = least.first_mut() {
            *nothing = 0;
        }
        let mut taken = Vec::new();
        for (at, of) in kinds.iter().enumerate() {
            // Of kinds that spare each other the first is kept.
            let spared = kinds
                .iter()
                .enumerate()
                .any(|(other, than)| other != at && of.is_spared_by(than) && (other < at || !than.is_spared_by(of)));
            if spared || of.size == 0 || of.most == Some(0) {
                continue;
            }
            // One more than its price: of equal prices, the fewest.
            let price = (of.price / part).round() as u64 + 1;
            let counts = match of.most {
                None => unlimited(&mut least, of.size, price),
                Some(limit) => limited(&mut least, of.size, price, limit as usize),
            };
            taken.push((at, of.size, counts));
        }
        let room = least.iter().rposition(|price| *price < NEVER).unwrap_or(0);
        Self { least, taken, room, part }
    }

    fn parts(&self, units: usize) -> u64 {
        self.least.get(units).copied().unwrap_or(NEVER)
    }

    /// The most units that can be covered, as far as the table goes.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// The least price of so many units.
    pub(crate) fn price(&self, units: usize) -> f64 {
        self.parts(units) as f64 * self.part
    }

    /// How many of each kind that takes, by their positions.
    pub(crate) fn counts(&self, mut units: usize, kinds: usize) -> Vec<u32> {
        let mut result = vec![0; kinds];
        for (at, size, counts) in self.taken.iter().rev() {
            let count = counts.get(units).copied().unwrap_or(0);
            if let Some(result) = result.get_mut(*at) {
                *result = count;
            }
            units = units.saturating_sub(count as usize * size);
        }
        result
    }
}

/// Adds a kind without limit to the least prices, and says how many of it are taken.
fn unlimited(least: &mut [u64], size: usize, price: u64) -> Vec<u32> {
    let mut counts = vec![0u32; least.len()];
    for units in 1..least.len() {
        let before = units.saturating_sub(size);
        let with = least.get(before).map_or(NEVER, |least| least.saturating_add(price));
        let count = counts.get(before).copied().unwrap_or(0);
        if let (Some(least), Some(result)) = (least.get_mut(units), counts.get_mut(units))
            && with < *least
        {
            (*least, *result) = (with, count + 1);
        }
    }
    counts
}

/// Adds a kind with a limit: for needs that are whole instances apart, the least of as many before as the limit has, kept in a queue that rises. O(units).
fn limited(least: &mut [u64], size: usize, price: u64, limit: usize) -> Vec<u32> {
    let before = least.to_vec();
    let mut counts = vec![0u32; least.len()];
    for rest in 1..=size.min(least.len().saturating_sub(1)) {
        // Steps of a chain: nothing, `rest`, and one instance more each; with what each would cost if all of its instances were given back.
        let mut queue: std::collections::VecDeque<(usize, i64)> = std::collections::VecDeque::new();
        let places = std::iter::once(0).chain((rest..least.len()).step_by(size));
        for (step, units) in places.enumerate() {
            let Some(without) = before.get(units).copied() else { continue };
            while queue.front().is_some_and(|(first, _)| first + limit < step) {
                queue.pop_front();
            }
            if without < NEVER {
                let given_back = without as i64 - step as i64 * price as i64;
                while queue.back().is_some_and(|(_, other)| *other > given_back) {
                    queue.pop_back();
                }
                queue.push_back((step, given_back));
            }
            if let (Some((first, given_back)), Some(least), Some(count)) =
                (queue.front(), least.get_mut(units), counts.get_mut(units))
            {
                let with = given_back + step as i64 * price as i64;
                if u64::try_from(with).is_ok_and(|with| with < *least) {
                    (*least, *count) = (with as u64, (step - first) as u32);
                }
            }
        }
    }
    counts
}

/// How much of a state's spot, or of on-demand beyond what is firm, is worth a look.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reach {
    /// So many units of spot.
    OfSpot(usize),
    /// On-demand up to so many units beyond what is firm, or beyond so many that are limited.
    OfSteady { beyond: usize, limited: usize },
    /// All.
    All,
}

impl Reach {
    fn of(steady: &[Covering], spot: &[Covering]) -> Self {
        let unlimited = |kinds: &[Covering]| -> Vec<Covering> {
            kinds.iter().copied().filter(|of| of.most.is_none() && of.size > 0).collect()
        };
        let capacity = |kinds: &[Covering]| -> usize {
            let of = |kind: &Covering| (kind.most.unwrap_or(0) as usize).saturating_mul(kind.size);
            kinds.iter().map(of).fold(0, usize::saturating_add)
        };
        let largest = |kinds: &[Covering]| kinds.iter().map(|of| of.size).max().unwrap_or(0);
        let cheapest = |kinds: &[Covering]| {
            let by_unit = |of: &Covering| of.price / of.size as f64;
            kinds.iter().copied().min_by(|a, b| by_unit(a).total_cmp(&by_unit(b))).map(|of| (by_unit(&of), of.size))
        };
        let (free_steady, free_spot) = (unlimited(steady), unlimited(spot));
        match (cheapest(&free_steady), cheapest(&free_spot)) {
            (Some((steady_price, size)), by_spot) if by_spot.is_none_or(|(price, _)| steady_price <= price) => {
                Self::OfSpot(capacity(spot).saturating_add(size * largest(&free_spot)))
            }
            (_, Some((_, size))) => Self::OfSteady { beyond: size * largest(&free_steady), limited: capacity(steady) },
            _ => Self::All,
        }
    }
}

/// Rentals in an hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HourFill {
    /// GPUs of each on-demand offer, whole instances of them.
    pub on_demand: Vec<f64>,
    /// GPUs of each spot offer, whole instances of them.
    pub spot: Vec<f64>,
    /// GPUs that nothing serves.
    pub waiting: f64,
    /// Cost, commitments left out.
    pub cost: f64,
}

/// Rentals of a supply in its hours, beside any number of commitments.
#[derive(Debug, Clone)]
pub(crate) struct HourRents<'s> {
    supply: &'s PoolSupply,
    most: usize,
    steady: CoverTable,
    /// Covers of spot in each state of it.
    spot: Vec<(CoverTable, Reach)>,
    waiting_price: f64,
}

/// How an hour is covered, in units.
#[derive(Debug, Clone, Copy)]
struct Split {
    steady: usize,
    spot: usize,
    waiting: usize,
    parts: u64,
}

impl<'s> HourRents<'s> {
    /// For needs of up to `most` GPUs; what is needed beyond is taken to wait. O(states × offers × units).
    pub(crate) fn new(supply: &'s PoolSupply, most: f64) -> Self {
        let most = supply.units(most);
        let kind = |rental: &Rental, share: f64| {
            let instances = rental.limit / rental.gpus * share;
            let room = (instances + 1e-9).floor().clamp(0.0, 1e9) as u32;
            Covering {
                size: supply.units(rental.gpus),
                price: rental.per_gpu_h * rental.gpus,
                most: if share > 0.0 { instances.is_finite().then_some(room) } else { Some(0) },
            }
        };
        let steady: Vec<Covering> = supply.on_demand.iter().map(|rental| kind(rental, 1.0)).collect();
        // On-demand without a limit serves all, so spot that costs no less than as much of it is of no use: it would make the parts of prices coarse.
        let no_dearer = |than: &Covering, of: &Covering| {
            than.most.is_none() && than.size > 0 && of.size.div_ceil(than.size) as f64 * than.price <= of.price
        };
        let useful = |of: Covering| match steady.iter().any(|than| no_dearer(than, &of)) {
            true => Covering { most: Some(0), ..of },
            false => of,
        };
        let in_state = |shares: &[f64]| -> Vec<Covering> {
            let share = |at: usize| shares.get(at).copied().unwrap_or(0.0);
            supply.spot.iter().enumerate().map(|(at, rental)| useful(kind(rental, share(at)))).collect()
        };
        let states: Vec<Vec<Covering>> = supply.states.iter().map(|state| in_state(&state.shares)).collect();
        let all: Vec<Covering> = steady.iter().chain(states.iter().flatten()).copied().collect();
        let used: Vec<Covering> = all.into_iter().filter(|of| of.most != Some(0)).collect();
        let part = part_of(&used, most);
        let spot = states
            .into_iter()
            .map(|kinds| (CoverTable::in_parts(&kinds, most, part), Reach::of(&steady, &kinds)))
            .collect();
        Self {
            supply,
            most,
            steady: CoverTable::in_parts(&steady, most, part),
            spot,
            waiting_price: supply.waiting_price(),
        }
    }

    /// How many ways to cover an hour are looked at, at most.
    pub(crate) fn widest(&self) -> usize {
        let of = |(table, reach): &(CoverTable, Reach)| match reach {
            Reach::OfSpot(units) => *units.min(&table.room()),
            Reach::OfSteady { beyond, limited } => limited.saturating_add(*beyond).min(self.most),
            Reach::All => self.most,
        };
        self.spot.iter().map(of).max().unwrap_or(0) + 1
    }

    /// The cheapest way to cover a need beside `committed` GPUs in a state of spot.
    fn split(&self, need: HourDemand, committed: f64, state: usize) -> Split {
        let beyond = |gpus: f64| self.supply.units(gpus - committed);
        let all = beyond(need.total.max(need.firm));
        let over = all.saturating_sub(self.most);
        let (firm, all) = (beyond(need.firm).min(self.most), all - over);
        let steady_firm = firm.min(self.steady.room());
        let firm_waits = firm - steady_firm;
        let (table, reach) = match self.spot.get(state) {
            Some((table, reach)) => (Some(table), *reach),
            None => (None, Reach::OfSpot(0)),
        };
        let spot_room = table.map_or(0, CoverTable::room);
        let wanted = all - firm_waits;
        let covered = wanted.min(self.steady.room() + spot_room);
        let waiting = over + firm_waits + (wanted - covered);
        let from = match reach {
            Reach::OfSpot(units) => covered.saturating_sub(units.min(spot_room)),
            _ => covered.saturating_sub(spot_room),
        }
        .max(steady_firm);
        let to = match reach {
            Reach::OfSteady { beyond, limited } => covered.min(from.max(limited).saturating_add(beyond)),
            _ => covered,
        }
        .min(self.steady.room());
        let mut best = Split { steady: to, spot: covered - to, waiting, parts: u64::MAX };
        // From on-demand to spot: of equal prices and as many instances, on-demand, which nobody takes away.
        for steady in (from..=to).rev() {
            let spot = covered - steady;
            let parts = self.steady.parts(steady) + table.map_or(0, |table| table.parts(spot));
            if parts < best.parts {
                best = Split { steady, spot, waiting, parts };
            }
        }
        best
    }

    /// Cost of an hour beside `committed` GPUs in a state of spot, what waits included at its
    /// price.
    pub(crate) fn cost(&self, need: HourDemand, committed: f64, state: usize) -> f64 {
        let split = self.split(need, committed, state);
        split.parts as f64 * self.steady.part + split.waiting as f64 * self.supply.unit * self.waiting_price
    }

    /// What is rented for an hour beside `committed` GPUs in a state of spot.
    pub(crate) fn fill(&self, need: HourDemand, committed: f64, state: usize) -> HourFill {
        let split = self.split(need, committed, state);
        let gpus = |rentals: &[Rental], counts: Vec<u32>| -> Vec<f64> {
            rentals.iter().zip(counts).map(|(rental, count)| f64::from(count) * rental.gpus).collect()
        };
        let (offers, spots) = (&self.supply.on_demand, &self.supply.spot);
        let on_demand = gpus(offers, self.steady.counts(split.steady, offers.len()));
        let of_spot = |(table, _): &(CoverTable, Reach)| table.counts(split.spot, spots.len());
        let spot = gpus(spots, self.spot.get(state).map_or_else(|| vec![0; spots.len()], of_spot));
        let cost = |rentals: &[Rental], gpus: &[f64]| -> f64 {
            rentals.iter().zip(gpus).map(|(rental, gpus)| gpus * rental.per_gpu_h).sum()
        };
        let cost = cost(offers, &on_demand) + cost(spots, &spot);
        HourFill { on_demand, spot, waiting: split.waiting as f64 * self.supply.unit, cost }
    }
}

#[cfg(test)]
#[path = "rent_tests.rs"]
pub(crate) mod tests;
