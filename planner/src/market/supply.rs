//! What a pool can be served with: commitments, on-demand and spot.
//!
//! Commitments are paid for whether used or not. What they do not cover is rented (`rent`) by the hour, in whole instances: on demand what must not be interrupted, and the
//! rest on whatever is cheapest of spot and on-demand. Where limits leave something that nothing serves, it *waits*; the choice of a mix counts that at [`WAITING`] times the dearest on-demand, the bill at
//! nothing.
//!
//! A commitment that is longer than the horizon is paid to its end: its price counts as months / horizon times as much. A node of one's own counts as
//! its purchase over its life, its electricity and its yearly cost. Spot counts with its [overhead](super::overhead): as many times its price as jobs run longer.
//!
//! Spot is not always there. Each offer can be had for a share of the time in full, and for others in part or not at all. Offers are taken to go
//! together (the worst hours of one are the worst of all), so that nothing is gained by having several: **states** with a weight each.
//!
//! O(offers × states). Worked example: of an offer that is there for 0.9 of the time and one for 0.6, both are there for 0.6, the first alone for 0.3, and none for 0.1.

use std::collections::BTreeSet;

use super::demand::{HourDemand, PoolDemand};
use super::grid::WeekShape;
use super::offers::{OfferPool, Offers};
use super::overhead::of_jobs;
use crate::plan::checkpoint::CheckpointCosts;
use tracecast_analytics::stats::divisor;

/// Units that are counted at most.
const MOST_UNITS: f64 = 1e7;

/// What an hour of a GPU that waits counts, in hours of the dearest on-demand.
pub const WAITING: f64 = 10.0;

/// What a commitment is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    /// Reserved for so many months.
    Reserved(f64),
    /// Bought.
    Owned,
}

/// A commitment that can be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Commitment {
    /// The instance or node.
    pub name: String,
    /// Term of the commitment.
    pub term: Term,
    /// GPUs of one.
    pub gpus: f64,
    /// An hour of one over the horizon.
    pub per_h: f64,
    /// An hour of one as the offers file has it.
    pub listed: f64,
    /// Most of them.
    pub limit: Option<u32>,
    /// Carbon of an hour of one at the mean intensity of its grid, kg; 0 where it is not known.
    pub kg_per_h: f64,
    /// How the hours of the week stand to that.
    pub by_hour: WeekShape,
}

/// An offer that is rented by the hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Rental {
    /// The instance.
    pub name: String,
    /// Zone.
    pub zone: Option<String>,
    /// GPUs of one.
    pub gpus: f64,
    /// An hour of a GPU, overhead included.
    pub per_gpu_h: f64,
    /// An hour of an instance as the offers file has it.
    pub listed: f64,
    /// Overhead: how many times as long jobs run on it.
    pub overhead: f64,
    /// Most GPUs.
    pub limit: f64,
    /// Carbon of an hour of a GPU at the mean intensity of its grid, overhead included, kg; 0 where it is not known.
    pub kg_per_gpu_h: f64,
    /// How the hours of the week stand to that.
    pub by_hour: WeekShape,
}

/// How much of each spot offer can be had, and for which share of the time.
#[derive(Debug, Clone, PartialEq)]
pub struct SpotState {
    /// Share of the time.
    pub weight: f64,
    /// Share of the instances that can be had, for each spot offer.
    pub shares: Vec<f64>,
}

/// Supply of a pool: commitments, on-demand and spot.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSupply {
    /// Commitments.
    pub commitments: Vec<Commitment>,
    /// On-demand, the cheapest first.
    pub on_demand: Vec<Rental>,
    /// Spot, the cheapest first.
    pub spot: Vec<Rental>,
    /// States of spot.
    pub states: Vec<SpotState>,
    /// GPUs that divide all sizes, the most that do: what is rented or committed to is whole units.
    pub unit: f64,
}

/// What commitments a supply counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SupplyOptions {
    /// Months that are planned for.
    pub horizon_months: f64,
    /// Whether nodes can be bought.
    pub buy: bool,
    /// Costs of checkpoints and restarts.
    pub costs: CheckpointCosts,
}

impl PoolSupply {
    /// The supply of a pool for the jobs of `demand`.
    pub fn new(offers: &Offers, pool: &OfferPool, demand: &PoolDemand, options: &SupplyOptions) -> Self {
        let mut result =
            Self { commitments: Vec::new(), on_demand: Vec::new(), spot: Vec::new(), states: Vec::new(), unit: 1.0 };
        let mut availability: Vec<(f64, &[(f64, f64)])> = Vec::new();
        let mut unit = 0;
        let most = |limit: Option<u32>, gpus: f64| limit.map_or(f64::INFINITY, |limit| f64::from(limit) * gpus);
        for offer in offers.of(pool) {
            let gpus = f64::from(offer.gpus);
            unit = divisor(unit, offer.gpus);
            let kg_per_h = offer.kg_per_h.unwrap_or(0.0);
            let by_hour = &offer.kg_by_hour;
            let rental = |listed: f64, overhead: f64, limit: Option<u32>| Rental {
                name: offer.name.clone(),
                zone: offer.zone.clone(),
                gpus,
                per_gpu_h: listed / gpus * overhead,
                listed,
                overhead,
                limit: most(limit, gpus),
                kg_per_gpu_h: kg_per_h / gpus * overhead,
                by_hour: by_hour.clone(),
            };
            result.on_demand.extend(offer.on_demand.map(|price| rental(price, 1.0, offer.on_demand_limit)));
            result.commitments.extend(offer.reserved.iter().map(|reserved| Commitment {
                name: offer.name.clone(),
                term: Term::Reserved(reserved.months),
                gpus,
                per_h: reserved.price * (reserved.months / options.horizon_months).max(1.0),
                listed: reserved.price,
                limit: reserved.limit,
                kg_per_h,
                by_hour: by_hour.clone(),
            }));
            if let Some(spot) = &offer.spot {
                let overhead = of_jobs(&options.costs, &demand.flexible, offer.gpus, spot.interrupted_every_s);
                let rental = rental(spot.price, overhead, spot.limit);
                // Interrupted so often that nothing is ever done.
                if !rental.per_gpu_h.is_finite() {
                    continue;
                }
                availability.push((rental.per_gpu_h, &spot.availability));
                result.spot.push(rental);
            }
        }
        if options.buy {
            let nodes = pool.owned.iter().filter_map(|at| offers.owned.get(*at));
            unit = nodes.clone().fold(unit, |unit, node| divisor(unit, node.gpus));
            result.commitments.extend(nodes.map(|node| Commitment {
                name: node.name.clone(),
                term: Term::Owned,
                gpus: f64::from(node.gpus),
                per_h: node.per_h,
                listed: node.per_h,
                limit: node.limit,
                kg_per_h: 0.0,
                by_hour: WeekShape::default(),
            }));
        }
        result.unit = f64::from(unit.max(1));
        result.on_demand.sort_by(|a, b| a.per_gpu_h.total_cmp(&b.per_gpu_h));
        result.spot.sort_by(|a, b| a.per_gpu_h.total_cmp(&b.per_gpu_h));
        availability.sort_by(|a, b| a.0.total_cmp(&b.0));
        result.states = states(&availability.into_iter().map(|(_, shares)| shares).collect::<Vec<_>>());
        result
    }

    /// Returns the supply without spot.
    pub fn without_spot(&self) -> Self {
        Self { spot: Vec::new(), states: states(&[]), ..self.clone() }
    }

    /// A price for an hour of a GPU that waits.
    pub fn waiting_price(&self) -> f64 {
        WAITING * self.on_demand.iter().map(|rental| rental.per_gpu_h).fold(0.0, f64::max)
    }

    /// The commitment that is cheapest by the GPU, of those that may be made, and its position.
    pub fn cheapest(&self, may: impl Fn(Term) -> bool) -> Option<(usize, &Commitment)> {
        let result = self.commitments.iter().enumerate().filter(|(_, of)| may(of.term));
        result.min_by(|(_, a), (_, b)| (a.per_h / a.gpus).total_cmp(&(b.per_h / b.gpus)))
    }

    /// GPUs of commitments.
    pub fn committed_gpus(&self, counts: &[u32]) -> f64 {
        self.commitments.iter().zip(counts).map(|(commitment, count)| commitment.gpus * f64::from(*count)).sum()
    }

    /// Cost of an hour of commitments.
    pub fn committed_per_h(&self, counts: &[u32]) -> f64 {
        self.commitments.iter().zip(counts).map(|(commitment, count)| commitment.per_h * f64::from(*count)).sum()
    }

    /// Whole units that so many GPUs need.
    pub fn units(&self, gpus: f64) -> usize {
        // Sums of parts of GPUs may miss a whole number by a hair.
        ((gpus / self.unit) - 1e-9).ceil().clamp(0.0, MOST_UNITS) as usize
    }

    /// A need in whole units, by which what is rented for it does not change.
    pub fn rounded(&self, need: HourDemand) -> HourDemand {
        let up = |gpus: f64| self.units(gpus) as f64 * self.unit;
        HourDemand { firm: up(need.firm), total: up(need.total), ..need }
    }
}

/// States of offers that are the worst together, each offer as shares with weights, the greatest share first.
///
/// Worked example: one that is there for 0.9 of the time and one for 0.6: both for 0.6, the first alone for 0.3, none for 0.1.
fn states(offers: &[&[(f64, f64)]]) -> Vec<SpotState> {
    // Moments at which some offer changes, in parts of a million of the time.
    let mut ends = BTreeSet::from([1_000_000]);
    let steps: Vec<Vec<(u32, f64)>> = offers
        .iter()
        .map(|shares| {
            let mut until = 0.0;
            shares
                .iter()
                .map(|(share, weight)| {
                    until += weight;
                    ((until * 1e6).round().clamp(0.0, 1e6) as u32, *share)
                })
                .collect()
        })
        .collect();
    ends.extend(steps.iter().flatten().map(|(until, _)| *until));
    let mut begun = 0;
    let mut result = Vec::new();
    for until in ends.into_iter().filter(|until| *until > 0) {
        let share =
            |steps: &Vec<(u32, f64)>| steps.iter().find(|(end, _)| *end >= until).map_or(0.0, |(_, share)| *share);
        result.push(SpotState { weight: f64::from(until - begun) / 1e6, shares: steps.iter().map(share).collect() });
        begun = until;
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;

    /// A supply of one kind each, by GPU: reserved, on demand, spot.
    pub(crate) fn simple(reserved: f64, on_demand: f64, spot: Option<(f64, f64)>) -> PoolSupply {
        let rental = |per_gpu_h: f64| Rental {
            name: "a".to_owned(),
            zone: None,
            gpus: 1.0,
            per_gpu_h,
            listed: per_gpu_h,
            overhead: 1.0,
            limit: f64::INFINITY,
            kg_per_gpu_h: 0.0,
            by_hour: WeekShape::default(),
        };
        let commitment = Commitment {
            name: "a".to_owned(),
            term: Term::Reserved(12.0),
            gpus: 1.0,
            per_h: reserved,
            listed: reserved,
            limit: None,
            kg_per_h: 0.0,
            by_hour: WeekShape::default(),
        };
        let shares = spot.map(|(_, share)| vec![(1.0, share), (0.0, 1.0 - share)]);
        PoolSupply {
            commitments: vec![commitment],
            on_demand: vec![rental(on_demand)],
            spot: spot.iter().map(|(price, _)| rental(*price)).collect(),
            states: states(&shares.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            unit: 1.0,
        }
    }

    #[test]
    fn states_of_offers_that_go_together() {
        let result = states(&[&[(1.0, 0.9), (0.0, 0.1)], &[(1.0, 0.6), (0.0, 0.4)]]);
        let told: Vec<(f64, &[f64])> = result.iter().map(|state| (state.weight, state.shares.as_slice())).collect();
        assert_eq!(told, [(0.6, &[1.0, 1.0][..]), (0.3, &[1.0, 0.0]), (0.1, &[0.0, 0.0])]);
        assert_eq!(states(&[]), [SpotState { weight: 1.0, shares: vec![] }]);
    }

    #[test]
    fn a_long_commitment_is_paid_to_its_end() {
        let offers = Offers::parse(
            "o.toml",
            "[[instance]]\nname = \"a\"\ngpu = \"V\"\ngpus = 2\non_demand = 4.0\nreserved = [{ months = 36, price = 1.0 }, { months = 6, price = 3.0 }]\n",
        )
        .unwrap();
        let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
        let options = SupplyOptions { horizon_months: 12.0, buy: false, costs };
        let supply = PoolSupply::new(&offers, &offers.pools[0], &PoolDemand::default(), &options);
        let per_h: Vec<f64> = supply.commitments.iter().map(|commitment| commitment.per_h).collect();
        assert_eq!(per_h, [3.0, 3.0]);
        let need = supply.rounded(HourDemand::new(0.1, 3.0));
        assert_eq!(need, HourDemand::new(2.0, 4.0));
    }
}
