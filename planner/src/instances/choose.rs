//! One way for each job: least cost, or least time within a budget, with no more instances of an offer than there are.
//!
//! ```text
//! x_jo ∈ {0, 1}    job j runs in way o        Σ_o x_jo = 1
//! least Σ cost_jo·x_jo, or least Σ time_jo·x_jo with Σ cost_jo·x_jo ≤ budget
//! Σ_j Σ_o of an offer and market instances_jo·x_jo ≤ its limit: all jobs run at the same time
//! ```
//!
//! Without a limit or budget that binds, each job takes its best way alone. Else the programme is solved, without the ways that another of the same offer and market beats in cost, time and instances: exactly for up to 16 jobs.
//! For more it is solved in shares first. These leave hardly more jobs divided among ways than there are limits; the others keep their way, and the programme is solved in whole ways for the divided jobs and some more. What the
//! shares come to is a bound, and the **gap** to it is told. If that finds nothing, more jobs are opened, 64 at most.
//!
//! O(ways), or as slow as the programmes. Worked example: two jobs cost 10 on instances of which there is one, and 12 and 15 elsewhere. The job that would pay 15 takes it: 12 + 10.

use std::cmp::Ordering;

use good_lp::{Expression, Solution as _, Variable, constraint, variable, variables};
use schemars::JsonSchema;
use serde::Serialize;

use super::option::{RentMarket, RentOption};
use crate::error::Result;
use crate::market::offers::Offers;
use crate::plan::programme::solved_if_possible;

/// Jobs whose ways are chosen exactly, at first and at most.
const CORE: usize = 16;
const MOST_CORE: usize = 64;

/// Quantity to minimise.
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

/// Instances of an offer that some ways take.
fn used(taken: &[RentOption], offer: usize, market: RentMarket) -> u32 {
    taken.iter().filter(|way| way.offer == offer && way.market == market).map(|way| way.instances).sum()
}

/// Most of what can be had.
#[derive(Debug, Clone, Copy)]
pub struct RentBounds<'a> {
    /// Offers with their limits.
    pub offers: &'a Offers,
    /// Most cost of all jobs.
    pub budget: Option<f64>,
}

impl RentBounds<'_> {
    /// Offers and markets that are limited.
    fn limited(&self) -> Vec<(usize, RentMarket, u32)> {
        let all = self.offers.instances.iter().enumerate();
        let each = all.flat_map(|of| [RentMarket::OnDemand, RentMarket::Spot].map(|market| (of, market)));
        each.filter_map(|((at, offer), market)| Some((at, market, market.limit(offer)?))).collect()
    }

    /// Whether ways that were taken are within them.
    pub fn hold(&self, taken: &[RentOption]) -> bool {
        let cost: f64 = taken.iter().map(|way| way.cost).sum();
        self.limited().iter().all(|(offer, market, limit)| used(taken, *offer, *market) <= *limit)
            && self.budget.is_none_or(|budget| cost <= budget * (1.0 + 1e-9))
    }
}

/// The best of some ways for one job; of equal ones the cheaper, then the faster, then the one with fewer instances, then the first. Costs that differ by the last bits of a float are equal.
pub fn best(options: &[RentOption], goal: RentGoal) -> Option<RentOption> {
    let key = |option: &RentOption| (goal.of(option), option.cost, option.time_s, option.instances);
    options.iter().copied().min_by(|a, b| {
        let (a, b) = (key(a), key(b));
        let order = |a: f64, b: f64| {
            if (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) { Ordering::Equal } else { a.total_cmp(&b) }
        };
        order(a.0, b.0).then(order(a.1, b.1)).then(order(a.2, b.2)).then(a.3.cmp(&b.3))
    })
}

/// What costs least an hour; of equal ones the cheapest.
pub fn least_an_hour(ways: &[RentOption], offers: &Offers) -> Option<RentOption> {
    let hour = |option: &RentOption| {
        let price = offers.instances.get(option.offer).and_then(|offer| option.market.price(offer));
        price.unwrap_or(f64::INFINITY) * f64::from(option.instances)
    };
    ways.iter().copied().min_by(|a, b| hour(a).total_cmp(&hour(b)).then(a.cost.total_cmp(&b.cost)))
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

/// A way for each job, and how far from the best that may be.
#[derive(Debug, Clone, PartialEq)]
pub struct RentChoice {
    /// Ways, in order of the jobs.
    pub ways: Vec<RentOption>,
    /// No choice is better by more than this share of its goal.
    pub gap: f64,
}

/// What is left of limits and budget for some jobs.
struct Left {
    limits: Vec<(usize, RentMarket, f64)>,
    budget: Option<f64>,
}

impl Left {
    fn of(bounds: &RentBounds<'_>, taken: &[RentOption]) -> Self {
        let left = |(offer, market, limit): (usize, RentMarket, u32)| {
            (offer, market, f64::from(limit) - f64::from(used(taken, offer, market)))
        };
        let cost: f64 = taken.iter().map(|way| way.cost).sum();
        Self {
            limits: bounds.limited().into_iter().map(left).collect(),
            budget: bounds.budget.map(|budget| budget - cost),
        }
    }
}

/// Shares of the ways of each job, or whole ways: the least of the goal within what is left; `None` if there is none.
fn programme(jobs: &[&Vec<RentOption>], goal: RentGoal, left: &Left, whole: bool) -> Result<Option<Vec<Vec<f64>>>> {
    let mut vars = variables!();
    let mut share = || vars.add(if whole { variable().binary() } else { variable().min(0.0) });
    let ways: Vec<Vec<(RentOption, Variable)>> =
        jobs.iter().map(|options| options.iter().map(|option| (*option, share())).collect()).collect();
    let all = || ways.iter().flatten();
    // Goals and costs are of the order of 1, so that the solver's tolerances mean the same for cents and for millions.
    let most = |of: &dyn Fn(&RentOption) -> f64| all().map(|(option, _)| of(option)).fold(f64::MIN_POSITIVE, f64::max);
    let (goal_scale, cost_scale) = (most(&|option| goal.of(option)), most(&|option| option.cost));
    let sum = |of: &dyn Fn(&RentOption) -> f64| all().map(|(option, var)| *var * of(option)).sum::<Expression>();
    let one = |options: &Vec<(RentOption, Variable)>| {
        constraint!(options.iter().map(|(_, var)| Expression::from(*var)).sum::<Expression>() == 1.0)
    };
    let mut rows: Vec<good_lp::Constraint> = ways.iter().map(one).collect();
    for (offer, market, limit) in &left.limits {
        let of = |option: &RentOption| {
            if option.offer == *offer && option.market == *market { f64::from(option.instances) } else { 0.0 }
        };
        rows.push(constraint!(sum(&of) <= *limit));
    }
    if let Some(budget) = left.budget {
        rows.push(constraint!(sum(&|option| option.cost / cost_scale) <= budget / cost_scale));
    }
    let least = sum(&|option| goal.of(option) / goal_scale);
    let Some(result) = solved_if_possible(vars.minimise(least), rows, "instances")? else { return Ok(None) };
    Ok(Some(ways.iter().map(|options| options.iter().map(|(_, var)| result.value(*var)).collect()).collect()))
}

/// The way with the greatest share.
fn greatest(options: &[RentOption], shares: &[f64]) -> Option<RentOption> {
    options.iter().zip(shares).max_by(|a, b| a.1.total_cmp(b.1)).map(|(option, _)| *option)
}

/// A way for each job; `None` if limits and budget leave none, or none was found.
///
/// # Errors
/// If the solver fails, which no input should bring about.
pub fn choose(jobs: &[Vec<RentOption>], goal: RentGoal, bounds: &RentBounds<'_>) -> Result<Option<RentChoice>> {
    let Some(alone) = jobs.iter().map(|options| best(options, goal)).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if bounds.hold(&alone) {
        return Ok(Some(RentChoice { ways: alone, gap: 0.0 }));
    }
    let kept: Vec<Vec<RentOption>> = jobs.iter().map(|options| unbeaten(options)).collect();
    let all: Vec<&Vec<RentOption>> = kept.iter().collect();
    let Some(shares) = programme(&all, goal, &Left::of(bounds, &[]), false)? else { return Ok(None) };
    let relaxed = |(options, shares): (&Vec<RentOption>, &Vec<f64>)| -> f64 {
        options.iter().zip(shares).map(|(option, share)| goal.of(option) * share).sum()
    };
    let bound: f64 = kept.iter().zip(&shares).map(relaxed).sum();
    // Jobs that are divided among ways come first; then those that lose least by another way.
    let is_divided = |at: usize| shares.get(at).is_some_and(|shares| shares.iter().all(|share| *share < 1.0 - 1e-6));
    let loss = |at: usize| {
        let mut goals: Vec<f64> = kept.get(at).into_iter().flatten().map(|option| goal.of(option)).collect();
        goals.sort_by(f64::total_cmp);
        goals.get(1).map_or(f64::INFINITY, |second| second - goals.first().copied().unwrap_or(0.0))
    };
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by(|a, b| is_divided(*b).cmp(&is_divided(*a)).then(loss(*a).total_cmp(&loss(*b))).then(a.cmp(b)));
    let divided = order.iter().filter(|at| is_divided(**at)).count();
    let mut core = CORE.max(divided);
    loop {
        let mut open: Vec<usize> = order.iter().take(core).copied().collect();
        open.sort_unstable();
        let is_open = |at: usize| open.binary_search(&at).is_ok();
        let mut ways: Vec<Option<RentOption>> =
            kept.iter().zip(&shares).map(|(options, of)| greatest(options, of)).collect();
        let held: Vec<RentOption> =
            ways.iter().enumerate().filter(|(at, _)| !is_open(*at)).filter_map(|(_, way)| *way).collect();
        let some: Vec<&Vec<RentOption>> = open.iter().filter_map(|at| kept.get(*at)).collect();
        if let Some(result) = programme(&some, goal, &Left::of(bounds, &held), true)? {
            for (at, (options, shares)) in open.iter().zip(some.iter().zip(&result)) {
                if let Some(way) = ways.get_mut(*at) {
                    *way = greatest(options, shares);
                }
            }
            if let Some(ways) = ways.into_iter().collect::<Option<Vec<_>>>().filter(|ways| bounds.hold(ways)) {
                let value: f64 = ways.iter().map(|way| goal.of(way)).sum();
                let exact = core >= kept.len();
                let gap = if exact || value <= 0.0 { 0.0 } else { (1.0 - bound / value).max(0.0) };
                return Ok(Some(RentChoice { ways, gap }));
            }
        }
        if core >= kept.len() || core >= MOST_CORE {
            return Ok(None);
        }
        core = (core * 2).min(kept.len());
    }
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
        let taken = choose(&jobs, RentGoal::Cost, &bounds).unwrap().unwrap().ways;
        assert_eq!((taken[0].cost, taken[1].cost), (12.0, 10.0));
        // Both at once are beyond the limit, and nothing else is there.
        let jobs = [vec![way(1, 2, 1.0, 10.0)], vec![way(1, 2, 1.0, 10.0)]];
        assert_eq!(choose(&jobs, RentGoal::Cost, &bounds).unwrap(), None);
        // A budget of 25 buys one of two jobs the faster way: that which gains more.
        let jobs = [vec![way(0, 1, 8.0, 10.0), way(0, 2, 5.0, 15.0)], vec![way(0, 1, 9.0, 10.0), way(0, 2, 2.0, 15.0)]];
        let budget = |budget| {
            choose(&jobs, RentGoal::Time, &RentBounds { offers: &offers, budget: Some(budget) })
                .unwrap()
                .map(|result| result.ways)
        };
        assert_eq!(budget(25.0).unwrap().iter().map(|way| way.time_s).collect::<Vec<_>>(), [8.0, 2.0]);
        assert_eq!(budget(30.0).unwrap().iter().map(|way| way.time_s).collect::<Vec<_>>(), [5.0, 2.0]);
        assert_eq!(budget(19.0), None);
    }

    #[test]
    fn many_jobs_are_within_the_gap_that_is_told() {
        // 300 jobs that are worth from 1 to 300 hours less on two instances of one GPU, for 10 more each; the budget has room for a hundred such.
        let jobs: Vec<Vec<RentOption>> =
            (1..=300).map(|at| vec![way(0, 1, 400.0, 10.0), way(0, 2, 400.0 - f64::from(at), 20.0)]).collect();
        let offers = offers();
        let bounds = RentBounds { offers: &offers, budget: Some(4_005.0) };
        let result = choose(&jobs, RentGoal::Time, &bounds).unwrap().unwrap();
        let faster: Vec<bool> = result.ways.iter().map(|way| way.instances == 2).collect();
        assert!(faster[..200].iter().all(|faster| !faster) && faster[200..].iter().all(|faster| *faster));
        // In shares the 201st would be half faster: 100 of 94,950 hours.
        assert!((result.gap - 100.0 / 94_950.0).abs() < 1e-6, "{}", result.gap);
        assert_eq!(
            choose(&jobs, RentGoal::Time, &RentBounds { offers: &offers, budget: Some(2_999.0) }).unwrap(),
            None
        );
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
            let result = choose(&jobs, goal, &bounds).unwrap();
            prop_assert_eq!(result.is_some(), least.is_some());
            if let (Some(RentChoice { ways: result, gap }), Some(least)) = (result, least) {
                prop_assert!(bounds.hold(&result) && gap == 0.0);
                prop_assert!((worth(&result) - least).abs() < 1e-6, "{} {}", worth(&result), least);
            }
        }
    }
}
