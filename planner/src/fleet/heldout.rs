//! A mix that was chosen on earlier weeks, priced on later ones.
//!
//! Every [rule](super::rule) chooses on the hours before the split, as they were known then. The later hours are then served hour by hour with what it committed to,
//! and billed: commitments in full, the rest by the hour. Spot that comes and goes is billed in each of its states by their weights. Overheads of
//! interruptions are those of the later jobs.
//!
//! O(hours × states) a rule, beside its choice. Worked example: one GPU reserved at 1, on-demand at 2.5; two hours that need 1 and 3 GPUs cost 2 for the reservation and 5 on demand.

use std::ops::Range;

use super::rule::{FleetRule, choose};
use super::weighed::HourPrices;
use crate::market::demand::{HourDemand, PoolDemand, PoolJobs};
use crate::market::levels::levels;
use crate::market::offers::Offers;
use crate::market::rent::HourRents;
use crate::market::supply::{PoolSupply, Rental, SupplyOptions};
use crate::plan::weeks::{WeekSplit, blocks, hours, whole};

/// What some hours cost, and who served them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Commitments.
    pub committed: f64,
    /// Cost of GPUs on demand.
    pub on_demand: f64,
    /// Spot.
    pub spot: f64,
    /// GPU-hours that commitments served.
    pub committed_gpu_h: f64,
    /// GPU-hours that commitments could have served.
    pub committed_room_gpu_h: f64,
    /// GPU-hours of instances on demand.
    pub on_demand_gpu_h: f64,
    /// GPU-hours of instances on spot.
    pub spot_gpu_h: f64,
    /// GPU-hours that nothing served.
    pub waiting_gpu_h: f64,
    /// Carbon of all of it, kg; 0 where it is not known.
    pub carbon_kg: f64,
}

impl Spent {
    /// All of it.
    pub fn cost(&self) -> f64 {
        self.committed + self.on_demand + self.spot
    }

    /// Adds what other hours or pools cost.
    pub fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.on_demand += other.on_demand;
        self.spot += other.spot;
        self.committed_gpu_h += other.committed_gpu_h;
        self.committed_room_gpu_h += other.committed_room_gpu_h;
        self.on_demand_gpu_h += other.on_demand_gpu_h;
        self.spot_gpu_h += other.spot_gpu_h;
        self.waiting_gpu_h += other.waiting_gpu_h;
        self.carbon_kg += other.carbon_kg;
    }
}

/// Serves hours beside commitments, and bills them. O(hours × states).
pub fn bill(supply: &PoolSupply, needs: &[HourDemand], counts: &[u32]) -> Spent {
    served(supply, &[HourRents::new(supply, HourDemand::most(needs))], &|_| 0, needs, counts)
}

/// Bills hours as [`bill`] does, where what is rented is chosen `by` other prices than those it is
/// billed at.
pub(super) fn bill_as(supply: &PoolSupply, by: &HourPrices, needs: &[HourDemand], counts: &[u32]) -> Spent {
    let rents: Vec<HourRents<'_>> = by.classes.iter().map(|by| HourRents::new(by, HourDemand::most(needs))).collect();
    served(supply, &rents, &|hour| by.class(hour), needs, counts)
}

/// What hours cost and emit that rent by the prices of their class.
fn served(
    supply: &PoolSupply,
    rents: &[HourRents<'_>],
    class: &dyn Fn(&HourDemand) -> usize,
    needs: &[HourDemand],
    counts: &[u32],
) -> Spent {
    let room = supply.committed_gpus(counts);
    let per_h = supply.committed_per_h(counts);
    let mut spent = Spent::default();
    for need in needs {
        let Some(rents) = rents.get(class(need)) else { continue };
        let need = supply.rounded(*need);
        spent.committed += per_h;
        let held = supply.commitments.iter().zip(counts);
        spent.carbon_kg +=
            held.map(|(of, count)| of.kg_per_h * of.by_hour.at(need.of_week) * f64::from(*count)).sum::<f64>();
        spent.committed_room_gpu_h += room;
        spent.committed_gpu_h += need.total.min(room);
        for (at, state) in supply.states.iter().enumerate() {
            let fill = rents.fill(need, room, at);
            let of = |gpus: &[f64], rentals: &[Rental], what: &dyn Fn(&Rental) -> f64| -> f64 {
                gpus.iter().zip(rentals).map(|(gpus, of)| gpus * what(of)).sum()
            };
            let rented = |what: &dyn Fn(&Rental) -> f64| {
                [of(&fill.on_demand, &supply.on_demand, what), of(&fill.spot, &supply.spot, what)]
            };
            let [steady, spot] = rented(&|of| of.per_gpu_h);
            spent.on_demand += state.weight * steady;
            spent.spot += state.weight * spot;
            let kg = rented(&|of| of.kg_per_gpu_h * of.by_hour.at(need.of_week));
            spent.carbon_kg += state.weight * kg.iter().sum::<f64>();
            spent.on_demand_gpu_h += state.weight * fill.on_demand.iter().sum::<f64>();
            spent.spot_gpu_h += state.weight * fill.spot.iter().sum::<f64>();
            spent.waiting_gpu_h += state.weight * fill.waiting;
        }
    }
    spent
}

/// Offers known before and after the split: traces of spot are cut where the record is, so that
/// nothing is chosen with what came later.
#[derive(Debug, Clone)]
pub struct KnownOffers {
    /// Offers to choose with.
    pub before: Offers,
    /// Offers to price with.
    pub after: Offers,
    /// All, for the mix to come.
    pub all: Offers,
}

impl KnownOffers {
    /// Uses the same offers for all times.
    pub fn new(all: Offers) -> Self {
        Self { before: all.clone(), after: all.clone(), all }
    }

    /// What a trace says of the spot of an instance, in ticks of `tick_s`: its first half is what was known before the split, its second half what came after it.
    pub fn learn(&mut self, instance: usize, counts: &[f64], tick_s: f64) {
        let most = |counts: &[f64]| counts.iter().copied().fold(0.0, f64::max);
        let (early, late) = counts.split_at(counts.len() / 2);
        // How many were asked for shows in the most there ever were, as far as that was known.
        for (offers, seen, request) in [
            (&mut self.before, early, most(early)),
            (&mut self.after, late, most(counts)),
            (&mut self.all, counts, most(counts)),
        ] {
            if let Some(spot) = offers.instances.get_mut(instance).and_then(|offer| offer.spot.as_mut()) {
                spot.learn(seen, request, tick_s);
            }
        }
    }
}

/// One rule on the later hours.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedRule {
    /// The rule.
    pub rule: FleetRule,
    /// Commitments, pool by pool.
    pub counts: Vec<Vec<u32>>,
    /// Cost of each window.
    pub windows: Vec<Spent>,
    /// Cost of each block that intervals resample.
    pub blocks: Vec<Spent>,
}

impl TestedRule {
    /// All windows together.
    pub fn spent(&self) -> Spent {
        let mut all = Spent::default();
        self.windows.iter().for_each(|window| all.add(window));
        all
    }
}

/// Replaces the results of the mix by those of `Uncommitted`, for where the mix reserves nothing.
pub(super) fn planned_uncommitted(mut tested: Vec<TestedRule>) -> Vec<TestedRule> {
    let free = tested.iter().find(|tested| tested.rule == FleetRule::Uncommitted).cloned();
    if let (Some(free), Some(mix)) = (free, tested.iter_mut().find(|tested| tested.rule == FleetRule::Mix)) {
        *mix = TestedRule { rule: FleetRule::Mix, ..free };
    }
    tested
}

/// A supply as a rule sees it.
pub fn seen(
    rule: FleetRule,
    offers: &Offers,
    pool: usize,
    demand: &PoolDemand,
    options: &SupplyOptions,
) -> Option<PoolSupply> {
    let options = SupplyOptions { buy: rule == FleetRule::Buying, ..*options };
    let supply = PoolSupply::new(offers, offers.pools.get(pool)?, demand, &options);
    Some(if rule.takes_spot() { supply } else { supply.without_spot() })
}

/// Every rule: chosen before the split with what was known then, priced after it.
pub fn test(jobs: &PoolJobs<'_>, offers: &KnownOffers, split: &WeekSplit, options: &SupplyOptions) -> Vec<TestedRule> {
    let before = jobs.demand(whole(&split.before), split.split_ms());
    let after = jobs.demand(whole(&split.after), i64::MAX);
    let owned = !offers.all.owned.is_empty();
    let rules = FleetRule::ALL.into_iter().filter(|rule| owned || *rule != FleetRule::Buying);
    rules.map(|rule| tested(rule, (&before, &after), offers, split, options)).collect()
}

fn tested(
    rule: FleetRule,
    (before, after): (&[PoolDemand], &[PoolDemand]),
    offers: &KnownOffers,
    split: &WeekSplit,
    options: &SupplyOptions,
) -> TestedRule {
    let (windows, blocks) = (hours(&split.after), blocks(&split.after));
    let mut result = TestedRule {
        rule,
        counts: Vec::new(),
        windows: vec![Spent::default(); windows.len()],
        blocks: vec![Spent::default(); blocks.len()],
    };
    for (pool, (before, after)) in before.iter().zip(after).enumerate() {
        let (Some(then), Some(now)) =
            (seen(rule, &offers.before, pool, before, options), seen(rule, &offers.after, pool, after, options))
        else {
            continue;
        };
        let counts = match rule {
            FleetRule::Hindsight => choose(rule, &now, &levels(&now, after.hours.iter().copied())),
            _ => choose(rule, &then, &levels(&then, before.hours.iter().copied())),
        };
        let add = |spent: &mut [Spent], stretches: &[Range<usize>]| {
            for (spent, stretch) in spent.iter_mut().zip(stretches) {
                spent.add(&bill(&now, after.hours.get(stretch.clone()).unwrap_or(&[]), &counts));
            }
        };
        add(&mut result.windows, &windows);
        add(&mut result.blocks, &blocks);
        result.counts.push(counts);
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tracecast_analytics::facts::JobFacts;
    use tracecast_analytics::time::DAY_MS;

    use super::*;
    use crate::market::demand::tests::{Drawn, OFFERS, changed_after_the_split, changes, drawn, nine_days, trace};
    use crate::market::demand::{DemandTimes, Flexible};
    use crate::market::supply::tests::simple;
    use crate::plan::checkpoint::CheckpointCosts;

    const OPTIONS: SupplyOptions = SupplyOptions {
        horizon_months: 12.0,
        buy: false,
        costs: CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 },
    };

    #[test]
    fn the_worked_example() {
        let supply = simple(1.0, 2.5, None);
        let needs = [1.0, 3.0].map(|total| HourDemand::new(total, total));
        let spent = bill(&supply, &needs, &[1]);
        assert_eq!((spent.committed, spent.on_demand, spent.cost()), (2.0, 5.0, 7.0));
        assert_eq!((spent.committed_gpu_h, spent.committed_room_gpu_h, spent.on_demand_gpu_h), (2.0, 2.0, 2.0));
    }

    /// One job of one GPU on instances of eight: each hour in which it runs pays a whole one.
    #[test]
    fn one_job_of_one_gpu_pays_whole_instances() {
        let run = |offers: &str| {
            let trace = trace(&[(0, 0, 9 * 24 * 60, 1.0)]);
            let facts = JobFacts::new(&trace);
            let offers = Offers::parse("o.toml", offers).unwrap();
            let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap();
            let split = WeekSplit::new((0, 9 * DAY_MS), Some(6 * DAY_MS)).unwrap();
            let tested = test(&jobs, &KnownOffers::new(offers), &split, &OPTIONS);
            let cost = |rule: FleetRule| tested.iter().find(|of| of.rule == rule).unwrap().spent().cost();
            (cost(FleetRule::OnDemand), cost(FleetRule::Mix))
        };
        let eight = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 8\non_demand = 24.0\nreserved = [{ months = 12, price = 15.0 }]\n";
        let one = "[[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 1\non_demand = 4.0\n";
        assert_eq!(run(eight), (72.0 * 24.0, 72.0 * 15.0));
        // An instance of one GPU is the cheapest, though a GPU of the larger one costs less.
        assert_eq!(run(&format!("{eight}{one}")), (72.0 * 4.0, 72.0 * 4.0));
    }

    #[test]
    fn what_spot_does_later_changes_nothing_before() {
        let known = |late: [f64; 4]| {
            let mut known = KnownOffers::new(Offers::parse("o.toml", OFFERS).unwrap());
            known.learn(0, &[&[2.0, 1.0, 0.0, 2.0], &late[..]].concat(), 600.0);
            known
        };
        let (few, many) = (known([0.0, 1.0, 1.0, 0.0]), known([8.0; 4]));
        assert_eq!(few.before, many.before);
        assert_ne!(few.after, many.after);
    }

    /// Instances of 8 and of 1 and nodes of 3 GPUs, where spot comes and goes.
    const SIZES: &str = "[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 8\non_demand = 16.0\nreserved = [{ months = 12, price = 9.0 }]\nspot = { price = 6.0, available = 0.8 }\n[[instance]]\nname = \"b\"\ngpu = \"V100\"\ngpus = 1\non_demand = 2.6\nreserved = [{ months = 12, price = 1.4, limit = 5 }]\nspot = { price = 1.0, available = 0.6, limit = 6 }\n[[instance]]\nname = \"c\"\ngpu = \"V100\"\ngpus = 3\non_demand = 6.9\n";

    fn rules(drawn: &Drawn) -> Vec<TestedRule> {
        rules_with(drawn, OFFERS)
    }

    fn rules_with(drawn: &Drawn, offers: &str) -> Vec<TestedRule> {
        let trace = nine_days(drawn);
        let facts = JobFacts::new(&trace);
        let offers = Offers::parse("o.toml", offers).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::UpTo(None)).unwrap();
        let split = WeekSplit::new((0, 9 * DAY_MS), Some(6 * DAY_MS)).unwrap();
        let known = KnownOffers::new(offers);
        test(&jobs, &known, &split, &OPTIONS)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_happens_after_the_split_changes_no_decision(jobs in drawn(), changes in changes()) {
            let other = changed_after_the_split(&jobs, changes);
            let (one, two) = (rules(&jobs), rules(&other));
            for (one, two) in one.iter().zip(&two).filter(|(one, _)| one.rule != FleetRule::Hindsight) {
                prop_assert_eq!(&one.counts, &two.counts, "{:?}", one.rule);
            }
        }

        #[test]
        fn nothing_beats_hindsight(jobs in drawn(), several in any::<bool>()) {
            let tested = rules_with(&jobs, if several { SIZES } else { OFFERS });
            let best = tested.iter().find(|rule| rule.rule == FleetRule::Hindsight).unwrap().spent().cost();
            for rule in &tested {
                prop_assert!(rule.spent().cost() >= best * (1.0 - 1e-9), "{:?}", rule.rule);
                let of = |parts: &[Spent]| parts.iter().map(Spent::cost).sum::<f64>();
                prop_assert!((of(&rule.windows) - of(&rule.blocks)).abs() < 1e-6 * (1.0 + best));
            }
        }
    }
}
