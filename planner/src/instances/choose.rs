//! One way for each job: least cost, or least time within a budget, with no more instances of an offer than there are.
//!
//! ```text
//! x_jo ∈ {0, 1}    job j runs in way o        Σ_o x_jo = 1
//! least Σ cost_jo·x_jo, or least Σ time_jo·x_jo with Σ cost_jo·x_jo ≤ budget
//! Σ_j Σ_o of an offer and market instances_jo·x_jo ≤ its limit: all jobs run at the same time
//! ```
//!
//! Without a limit or budget that binds, each job takes its best way alone. Else a mixed-integer programme is solved, without the ways that another of the same offer and market beats in cost, time and instances.
//!
//! O(ways), or as slow as the programme. Worked example: two jobs cost 10 on instances of which there is one, and 12 and 15 elsewhere. The job that would pay 15 takes it: 12 + 10.

use good_lp::{Expression, Solution as _, Variable, constraint, variable, variables};
use schemars::JsonSchema;
use serde::Serialize;

use super::option::{RentMarket, RentOption};
use crate::error::Result;
use crate::fleet::offers::FleetOffers;
use crate::plan::programme::solved_if_possible;

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RentGoal {
    /// The cost of all jobs.
    Cost,
    /// The sum of their times.
    Time,
}

impl RentGoal {
    /// What a way counts.
    pub fn of(self, option: &RentOption) -> f64 {
        match self {
            Self::Cost => option.cost,
            Self::Time => option.time_s,
        }
    }
}

/// Most of what can be had.
#[derive(Debug, Clone, Copy)]
pub struct RentBounds<'a> {
    /// Offers with their limits.
    pub offers: &'a FleetOffers,
    /// Most cost of all jobs.
    pub budget: Option<f64>,
}

impl RentBounds<'_> {
    fn limit(&self, offer: usize, market: RentMarket) -> Option<u32> {
        let offer = self.offers.instances.get(offer)?;
        match market {
            RentMarket::OnDemand => offer.on_demand_limit,
            RentMarket::Spot => offer.spot.as_ref()?.limit,
        }
    }

    /// Offers and markets that are limited.
    fn limited(&self) -> Vec<(usize, RentMarket, u32)> {
        let places = 0..self.offers.instances.len();
        let all = places.flat_map(|offer| [RentMarket::OnDemand, RentMarket::Spot].map(|market| (offer, market)));
        all.filter_map(|(offer, market)| Some((offer, market, self.limit(offer, market)?))).collect()
    }

    /// Whether ways that were taken are within them.
    pub fn hold(&self, taken: &[RentOption]) -> bool {
        let used = |offer: usize, market: RentMarket| -> u32 {
            taken.iter().filter(|way| way.offer == offer && way.market == market).map(|way| way.instances).sum()
        };
        let cost: f64 = taken.iter().map(|way| way.cost).sum();
        self.limited().iter().all(|(offer, market, limit)| used(*offer, *market) <= *limit)
            && self.budget.is_none_or(|budget| cost <= budget * (1.0 + 1e-9))
    }
}

/// The best of some ways for one job; of equal ones the cheaper, then the faster, then the one with fewer instances, then the first.
pub fn best(options: &[RentOption], goal: RentGoal) -> Option<RentOption> {
    let key = |option: &RentOption| (goal.of(option), option.cost, option.time_s, option.instances);
    options.iter().copied().min_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3))
    })
}

/// Ways that no other of the same offer and market beats.
fn unbeaten(options: &[RentOption]) -> Vec<RentOption> {
    let beats = |other: &RentOption, option: &RentOption| {
        let no_worse =
            other.cost <= option.cost && other.time_s <= option.time_s && other.instances <= option.instances;
        let better = other.cost < option.cost || other.time_s < option.time_s || other.instances < option.instances;
        other.offer == option.offer && other.market == option.market && no_worse && better
    };
    options.iter().filter(|option| !options.iter().any(|other| beats(other, option))).copied().collect()
}

/// A way for each job; `None` if limits and budget leave none.
///
/// # Errors
/// If the solver fails, which no input should bring about.
pub fn choose(jobs: &[Vec<RentOption>], goal: RentGoal, bounds: &RentBounds<'_>) -> Result<Option<Vec<RentOption>>> {
    let Some(alone) = jobs.iter().map(|options| best(options, goal)).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if bounds.hold(&alone) {
        return Ok(Some(alone));
    }
    let kept: Vec<Vec<RentOption>> = jobs.iter().map(|options| unbeaten(options)).collect();
    let mut vars = variables!();
    let ways: Vec<Vec<(RentOption, Variable)>> = kept
        .iter()
        .map(|options| options.iter().map(|option| (*option, vars.add(variable().binary()))).collect())
        .collect();
    let all = || ways.iter().flatten();
    // Goals are of the order of 1, so that the solver's tolerances mean the same for cents and for millions.
    let scale =
        alone.iter().map(|option| goal.of(option)).sum::<f64>().max(f64::MIN_POSITIVE) / alone.len().max(1) as f64;
    let sum = |of: &dyn Fn(&RentOption) -> f64| all().map(|(option, var)| *var * of(option)).sum::<Expression>();
    let mut rows: Vec<good_lp::Constraint> = ways
        .iter()
        .map(|options| constraint!(options.iter().map(|(_, var)| Expression::from(*var)).sum::<Expression>() == 1.0))
        .collect();
    for (offer, market, limit) in bounds.limited() {
        let of = |option: &RentOption| {
            if option.offer == offer && option.market == market { f64::from(option.instances) } else { 0.0 }
        };
        rows.push(constraint!(sum(&of) <= f64::from(limit)));
    }
    if let Some(budget) = bounds.budget {
        rows.push(constraint!(sum(&|option| option.cost / budget) <= 1.0));
    }
    let least = sum(&|option| goal.of(option) / scale);
    let Some(found) = solved_if_possible(vars.minimise(least), rows, "instances")? else { return Ok(None) };
    let taken = |options: &Vec<(RentOption, Variable)>| {
        options.iter().max_by(|a, b| found.value(a.1).total_cmp(&found.value(b.1))).map(|(option, _)| *option)
    };
    Ok(ways.iter().map(taken).collect::<Option<Vec<_>>>().filter(|taken| bounds.hold(taken)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::option::tests::offers;
    use super::super::scaling::RateBasis;
    use super::*;

    fn way(offer: usize, instances: u32, time_s: f64, cost: f64) -> RentOption {
        let market = RentMarket::OnDemand;
        let basis = RateBasis::Measured;
        RentOption { offer, market, instances, gpus: instances, steps_per_s: 1.0, basis, time_s, safe_s: time_s, cost }
    }

    #[test]
    fn the_worked_example() {
        // Of `eight` there are two instances.
        let offers = offers();
        let bounds = RentBounds { offers: &offers, budget: None };
        let jobs = [vec![way(1, 2, 1.0, 10.0), way(0, 1, 2.0, 12.0)], vec![way(1, 2, 1.0, 10.0), way(0, 1, 2.0, 15.0)]];
        let taken = choose(&jobs, RentGoal::Cost, &bounds).unwrap().unwrap();
        assert_eq!((taken[0].cost, taken[1].cost), (12.0, 10.0));
        // Both at once are beyond the limit, and nothing else is there.
        let jobs = [vec![way(1, 2, 1.0, 10.0)], vec![way(1, 2, 1.0, 10.0)]];
        assert_eq!(choose(&jobs, RentGoal::Cost, &bounds).unwrap(), None);
        // A budget of 25 buys one of two jobs the faster way: that which gains more.
        let jobs = [vec![way(0, 1, 8.0, 10.0), way(0, 2, 5.0, 15.0)], vec![way(0, 1, 9.0, 10.0), way(0, 2, 2.0, 15.0)]];
        let budget =
            |budget| choose(&jobs, RentGoal::Time, &RentBounds { offers: &offers, budget: Some(budget) }).unwrap();
        assert_eq!(budget(25.0).unwrap().iter().map(|way| way.time_s).collect::<Vec<_>>(), [8.0, 2.0]);
        assert_eq!(budget(30.0).unwrap().iter().map(|way| way.time_s).collect::<Vec<_>>(), [5.0, 2.0]);
        assert_eq!(budget(19.0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// No other choice that is within the limits is better: all are tried.
        #[test]
        fn nothing_is_better(
            jobs in prop::collection::vec(prop::collection::vec((0usize..3, 1u32..3, 1u32..50, 1u32..50), 1..5), 1..4),
            budget in prop::option::of(10u32..150),
            of_time in any::<bool>(),
        ) {
            let offers = offers();
            let bounds = RentBounds { offers: &offers, budget: budget.map(f64::from) };
            let goal = if of_time { RentGoal::Time } else { RentGoal::Cost };
            let jobs: Vec<Vec<RentOption>> = jobs.into_iter().map(|options| {
                options.into_iter().map(|(offer, instances, time, cost)| way(offer, instances, f64::from(time), f64::from(cost))).collect()
            }).collect();
            let mut all: Vec<Vec<RentOption>> = vec![Vec::new()];
            for options in &jobs {
                all = all.iter().flat_map(|taken| options.iter().map(move |option| [taken.as_slice(), &[*option]].concat())).collect();
            }
            let worth = |taken: &[RentOption]| taken.iter().map(|way| goal.of(way)).sum::<f64>();
            let least = all.iter().filter(|taken| bounds.hold(taken)).map(|taken| worth(taken)).reduce(f64::min);
            let found = choose(&jobs, goal, &bounds).unwrap();
            prop_assert_eq!(found.is_some(), least.is_some());
            if let (Some(found), Some(least)) = (found, least) {
                prop_assert!(bounds.hold(&found));
                prop_assert!((worth(&found) - least).abs() < 1e-6, "{} {}", worth(&found), least);
            }
        }
    }
}
