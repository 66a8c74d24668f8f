//! What the forecast of demand is worth to the plan of nodes that sleep.
//!
//! ```text
//! naive   the trailing maximum: what was needed lately is needed next
//! model   the learned chances of levels (reach)
//! truth   the optimum that knows the demand of all slots
//! cost    node-slots powered and idle, and wakes and shortage in idle node-slots at their price
//! ```
//!
//! Both rules have the setting that the days of choice elect; under a promise both have its guard, and
//! the truth serves all.
//!
//! O(slots). Worked example: of 10 nodes 4 are needed in a slot and 5 are powered: 1 idle node-slot.

use super::promise::{self, Followed};
use super::{Studied, Survey};
use crate::plan::forecast::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::power::rule::Setting;
use crate::power::rule::family::{Family, Stretch};
use crate::power::score::optimum::{Prices, optimum};
use crate::power::score::service::Service;
use crate::power::score::{Sums, interval, relative};
use tracecast_analytics::time::HOUR_MS;

impl Survey<'_> {
    /// Costs of the days evaluated, block by block, in idle node-slots; nothing where no trailing
    /// maximum was studied.
    pub(super) fn driven(&self, evaluating: &Stretch<'_>, promised: Option<&(&Service, Followed)>) -> Vec<Driven> {
        let elected = |family: Family| self.rule_of(family).map(|rule| rule.elected.setting);
        let (naive, model) = match promised {
            Some((_, followed)) => (followed.plain, followed.learned),
            None => (elected(Family::TrailingMaximum), elected(Family::Reach)),
        };
        let Some(naive) = naive else { return Vec::new() };
        let demand = &evaluating.demand;
        let block = interval::block_slots(demand);
        let sums = |setting: &Setting| match promised {
            Some((service, _)) => promise::keep(evaluating, setting, service).blocks(block),
            None => evaluating.try_in_blocks(setting, block).blocks,
        };
        let tolls = demand.tolls();
        let unserved = promised.is_none().then_some(tolls.unserved);
        let prices = Prices { wake: tolls.wake, unserved };
        let weights = relative(demand.weights);
        let orders = optimum(demand.need, demand.total, &weights, demand.before, demand.boot_slots, prices);
        let truth = demand.in_blocks(&orders, 0.0, block);
        let (naive, model) = (sums(&naive), model.as_ref().map(sums));
        // Slots that nobody needs, so that what is compared is time powered for nothing.
        let cost = |sums: &Sums| sums.powered + sums.asleep - sums.need + sums.cost(&tolls);
        let costs = |sums: &[Sums]| sums.iter().map(cost).collect::<Vec<f64>>();
        let model = model.map(|model| costs(&model));
        Driven::blocks(&costs(&naive), model.as_deref(), &costs(&truth))
    }
}

/// Worth of the forecast over the pools that are planned for, whose blocks are of the same days; of
/// `all` nodes as one pool where no model was learned for these; `naive` if none was to be.
pub(in crate::power) fn forecasting(planned: &[&Studied], all: &Studied, naive: bool) -> Forecasting {
    let is_known = |pool: &Studied| pool.driven.iter().all(|block| block.model.is_some());
    let as_one = [all];
    let is_of_planned = planned.iter().all(|pool| is_known(pool));
    let pools = if is_of_planned { planned } else { &as_one[..] };
    let blocks = pools.iter().map(|pool| pool.driven.len()).max().unwrap_or(0);
    let Some(first) = pools.first().filter(|_| blocks > 0) else {
        return Forecasting::none("no rule that looks at recent demand was studied");
    };
    let slot_h = first.slot_ms as f64 / HOUR_MS as f64;
    let knows = pools.iter().all(|pool| is_known(pool));
    let sum = |at: usize, of: &dyn Fn(&Driven) -> f64| -> f64 {
        pools.iter().filter_map(|pool| pool.driven.get(at)).map(|block| of(block) * slot_h).sum()
    };
    let block = |at: usize| Driven {
        naive: sum(at, &|block| block.naive),
        model: knows.then(|| sum(at, &|block| block.model.unwrap_or(block.naive))),
        truth: sum(at, &|block| block.truth),
    };
    let followed: Vec<Family> = planned.iter().map(|pool| Family::of(&pool.followed())).collect();
    let used = match () {
        () if followed.iter().any(|family| family.learns()) => ForecastUsed::Model,
        () if followed.iter().all(|family| *family == Family::AlwaysOn) => ForecastUsed::None,
        () => ForecastUsed::Naive,
    };
    let why = match used {
        ForecastUsed::Naive | ForecastUsed::None if naive => Some("no rule that learns was to be chosen".to_owned()),
        ForecastUsed::Naive | ForecastUsed::None if !is_of_planned => Some(
            "no model was learned for what is planned: there are fewer days to choose on than evidence takes"
                .to_owned(),
        ),
        ForecastUsed::Naive => Some("the model was not clearly better on the days of choice".to_owned()),
        ForecastUsed::None => Some("all nodes stay on".to_owned()),
        ForecastUsed::Model => None,
    };
    let words = ForecastWords {
        forecast: if is_of_planned { "nodes in demand" } else { "nodes in demand, as one pool" },
        naive: "the trailing maximum",
        model: "the learned chances of levels",
        metric: "idle node-hours, with wakes and shortage at their price",
        unit: "node-hours",
    };
    Forecasting::new(&words, &(0..blocks).map(block).collect::<Vec<_>>(), 1.0, used, why)
}
