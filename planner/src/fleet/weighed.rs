//! A supply whose prices weigh carbon, hour by hour.
//!
//! A price of a kg of carbon is put on top of what an hour of an instance costs, by what it emits in that [hour of the week](crate::market::grid). It is in no bill: what is rented is chosen by these prices, and paid at those of the supply.
//!
//! Hours in which the grids of all that is rented stand to their means alike are priced alike: a **class**, for which prices are made once. With flat grids there is one, with grids that change by the hour up to 168. Commitments run around the clock, so
//! theirs is the mean over the hours that are asked for.
//!
//! O(168 × offers + hours). Worked example: an instance costs 2 an hour and emits 0.2 kg in one and 0.6 kg in the next. At 5 a kg it is rented at 3 and at 5, in two classes, and a commitment to it at 1 costs 1 + 5 × 0.4 = 3 in both.

use std::collections::BTreeMap;

use crate::market::demand::HourDemand;
use crate::market::grid::WeekShape;
use crate::market::supply::PoolSupply;

/// A supply in the classes of hours that are priced alike.
#[derive(Debug, Clone)]
pub(super) struct HourPrices {
    /// What commitments cost, over the hours as they come.
    pub(super) over_all: PoolSupply,
    /// What is rented, class by class.
    pub(super) classes: Vec<PoolSupply>,
    /// Class of each hour of the week, and of one of an unknown time.
    of_hour: BTreeMap<Option<usize>, usize>,
}

impl HourPrices {
    /// Where a kg of carbon costs so much more, for these hours. O(168 × offers + hours).
    pub(super) fn new(supply: &PoolSupply, per_kg: f64, hours: &[HourDemand]) -> Self {
        let mut often: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        hours.iter().for_each(|hour| *often.entry(hour.of_week).or_default() += 1.0);
        let mut over_all = supply.clone();
        for of in &mut over_all.commitments {
            let factors: f64 = often.iter().map(|(hour, count)| of.by_hour.at(*hour) * count).sum();
            of.kg_per_h *= factors / (hours.len().max(1) as f64);
        }
        let (mut classes, mut of_hour) = (Vec::new(), BTreeMap::new());
        let mut result: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        for hour in often.into_keys() {
            let rentals = supply.on_demand.iter().chain(&supply.spot);
            let class = *result.entry(rentals.map(|of| of.by_hour.at(hour).to_bits()).collect()).or_insert_with(|| {
                classes.push(supply.in_hour(hour).with_carbon_price(per_kg));
                classes.len() - 1
            });
            of_hour.insert(hour, class);
        }
        Self { over_all: over_all.with_carbon_price(per_kg), classes, of_hour }
    }

    /// The class of an hour that is among those that prices were made for.
    pub(super) fn class(&self, hour: &HourDemand) -> usize {
        self.of_hour.get(&hour.of_week).copied().unwrap_or(0)
    }
}

impl PoolSupply {
    /// Returns the supply at a carbon price of so much more a kg.
    #[must_use]
    pub fn with_carbon_price(&self, per_kg: f64) -> Self {
        let mut result = self.clone();
        result.commitments.iter_mut().for_each(|of| of.per_h += per_kg * of.kg_per_h);
        result.on_demand.iter_mut().chain(&mut result.spot).for_each(|of| of.per_gpu_h += per_kg * of.kg_per_gpu_h);
        result
    }

    /// Returns the supply with grids that emit their mean at all times.
    #[must_use]
    pub(super) fn at_mean(&self) -> Self {
        let mut result = self.clone();
        result.commitments.iter_mut().for_each(|of| of.by_hour = WeekShape::default());
        result.on_demand.iter_mut().chain(&mut result.spot).for_each(|of| of.by_hour = WeekShape::default());
        result
    }

    /// Returns the supply with the emissions of an hour of the week in place of the mean, for what
    /// is rented.
    fn in_hour(&self, of_week: Option<usize>) -> Self {
        let mut result = self.clone();
        result.on_demand.iter_mut().chain(&mut result.spot).for_each(|of| of.kg_per_gpu_h *= of.by_hour.at(of_week));
        result
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::time::WEEK_HOURS;

    use super::*;
    use crate::market::supply::tests::simple;

    #[test]
    fn hours_that_emit_alike_are_one_class() {
        let mut supply = simple(1.0, 2.0, None);
        (supply.on_demand[0].kg_per_gpu_h, supply.commitments[0].kg_per_h) = (0.4, 0.4);
        let hours: Vec<HourDemand> = [Some(0), Some(1), Some(2), Some(1), None]
            .into_iter()
            .map(|of_week| HourDemand { of_week, ..HourDemand::new(1.0, 1.0) })
            .collect();
        let flat = HourPrices::new(&supply, 10.0, &hours);
        assert_eq!(
            (flat.classes.len(), &flat.classes[0], &flat.over_all),
            (1, &flat.over_all, &supply.with_carbon_price(10.0))
        );
        let mut factors = [1.0; WEEK_HOURS];
        (factors[0], factors[1]) = (0.5, 1.5);
        let shape = WeekShape::new(&factors);
        (supply.on_demand[0].by_hour, supply.commitments[0].by_hour) = (shape.clone(), shape);
        let result = HourPrices::new(&supply, 10.0, &hours);
        // An hour whose factor is 1 is as one that nobody knows the time of.
        assert_eq!(result.classes.len(), 3);
        let per_gpu_h = |hour: &HourDemand| result.classes[result.class(hour)].on_demand[0].per_gpu_h;
        assert_eq!(hours.iter().map(per_gpu_h).collect::<Vec<_>>(), [4.0, 8.0, 6.0, 8.0, 6.0]);
        // Over these hours a commitment emits 0.4 × (0.5 + 1.5 + 1 + 1.5 + 1) / 5 = 0.44 an hour.
        assert!((result.over_all.commitments[0].per_h - 5.4).abs() < 1e-9);
    }
}
