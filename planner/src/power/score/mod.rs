//! What a plan of powered nodes would have meant, held against the demand that came.
//!
//! With u(t) the largest count of slot t, N(t) the nodes there are, and A(t) those ordered powered, decided before slot t began:
//!
//! * **asleep** = mean of N(t) − A(t);
//! * **unserved** = Σ max(0, u(t) − R(t)), node-slots, R(t) being ready: powered, and booted; in the slot in which they boot they lack for the time of the boot;
//! * **node-wakes** = Σ max(0, A(t) − A(t − 1)), a day: nodes, not occasions;
//! * nodes that **join** arrive powered: A(t) is what was ordered of the nodes there were, plus those that joined, and nobody woke these;
//! * **energy saved** = asleep node-hours × (idle − off) − node-wakes × (what a boot draws above idle, as the node counts as powered, and a shutdown above off), times the marginal PUE.
//!
//! O(slots). Worked example: ten nodes, demand 4, 6, 5, orders 8, 5, 5 with 8 before: 2 + 5 + 5 asleep (mean 4), 1 unserved, no wake. Slots of
//! an hour, 1,500 W idle and 10 W off: 12 × 1.49 kW h = 17.88 kWh.

pub(in crate::power) mod boot;
pub mod constants;
pub mod interval;
pub mod optimum;
pub mod service;
pub mod tariff;
pub mod yearly;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::KWH_J;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use crate::power::score::constants::Constants;
use boot::Boots;
use optimum::{Prices, dear, optimum};

/// Prices of sleep, service and wear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Worth {
    /// Money for a kWh. Default 0.10, an assumption.
    pub price_kwh: f64,
    /// Wear of one wake, in hours of idle energy. Default 2, the switching cost at which the offline optimum is stated.
    pub wear_h: f64,
    /// Money for an hour that a job waits for one GPU. Default 2.00, an assumption: about what clouds ask for a data-centre GPU.
    pub gpu_hour: f64,
    /// GPUs of a node. Default 8.
    pub gpus_per_node: f64,
}

impl Default for Worth {
    fn default() -> Self {
        Self { price_kwh: 0.10, wear_h: 2.0, gpu_hour: 2.0, gpus_per_node: 8.0 }
    }
}

/// Outcome of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Outcome")]
pub struct SleepOutcome {
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: f64,
    /// Mean number of nodes asleep, each slot weighted by its price against `price_kwh`, or by its
    /// emissions against the mean of the days before the evaluation; equals `nodes_asleep_mean`
    /// where hours are alike.
    pub nodes_asleep_weighted: f64,
    /// Node-slots of demand that found no node ready.
    pub unserved_node_slots: f64,
    /// Nodes woken a day.
    pub node_wakes_per_day: f64,
    /// Occasions a day on which nodes were woken.
    pub wake_events_per_day: f64,
    /// Energy saved against all nodes powered, kWh, net of boots.
    pub energy_saved_kwh: f64,
    /// Mean of demand over mean of powered nodes.
    pub utilisation: f64,
}

/// Demand to serve, and how.
#[derive(Debug, Clone, Copy)]
pub struct NodeDemand<'a> {
    /// Largest count of each slot.
    pub need: &'a [f64],
    /// Nodes there are, by slot.
    pub total: &'a [f64],
    /// Price (or emissions) of energy in each slot, against the price of `worth` (or the mean of
    /// the past): see [`tariff`]; empty where hours are alike.
    pub weights: &'a [f64],
    /// Powered before the first slot.
    pub before: f64,
    /// Slots that a boot takes, such as 0.5: one that is ordered for a slot begins with it.
    pub boot_slots: f64,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Power of nodes.
    pub constants: &'a Constants,
    /// Prices of sleep, service and wear.
    pub worth: &'a Worth,
}

impl NodeDemand<'_> {
    /// Energy that a sleeping node saves in a slot, kWh, before the building's part.
    fn slot_kwh(&self) -> f64 {
        (self.constants.idle_w - self.constants.off_w) * (self.slot_ms as f64 / 1000.0) / KWH_J
    }

    /// Energy of one wake and sleep beyond that of being powered and off: a node that boots counts as powered, one that shuts down as asleep.
    fn cycle_kwh(&self) -> f64 {
        let node = self.constants;
        (node.boot_j - node.idle_w * node.boot_s + node.shutdown_j - node.off_w * node.shutdown_s) / KWH_J
    }

    /// What a slot of sleep is worth on average, in slots at the price of [`Worth`]: 1 where hours are alike.
    fn level(&self) -> f64 {
        if self.weights.is_empty() { 1.0 } else { self.weights.iter().sum::<f64>() / self.weights.len() as f64 }
    }

    /// Price of shortage and wear here.
    pub fn tolls(&self) -> Tolls {
        let hours = self.slot_ms as f64 / HOUR_MS as f64;
        let money = self.worth.gpus_per_node * hours * self.worth.gpu_hour;
        Tolls {
            // Wear is a constant of the hardware; the energy of boot and shutdown costs what energy does.
            wake: self.worth.wear_h / hours + self.level() * self.cycle_kwh() / self.slot_kwh(),
            unserved: money / (self.slot_kwh() * self.constants.pue_marginal * self.worth.price_kwh),
        }
    }

    /// Days of all slots.
    pub fn days(&self) -> f64 {
        self.need.len() as f64 * self.slot_ms as f64 / DAY_MS as f64
    }

    /// Begins to carry out orders, slot by slot.
    pub(super) fn walker(&self) -> Walker<'_> {
        Walker {
            demand: self,
            at: 0,
            before: self.before,
            there: self.total.first().copied().unwrap_or(0.0),
            boots: Boots::new(self.boot_slots, self.before),
        }
    }

    /// Goes through the slots of `orders` (nodes ordered powered, by slot) plus `buffer`.
    fn walk(&self, orders: &[f64], buffer: f64, mut each: impl FnMut(usize, Sums)) {
        let mut walker = self.walker();
        for (at, order) in orders.iter().enumerate().take(self.need.len()) {
            each(at, walker.step(order + buffer));
        }
    }

    /// Outcome of `orders` (nodes ordered powered, by slot) plus `buffer`.
    pub fn score(&self, orders: &[f64], buffer: f64) -> SleepOutcome {
        let mut sums = Sums::default();
        self.walk(orders, buffer, |_, slot| sums.add(&slot, 1.0));
        self.outcome(&sums)
    }

    /// Sums of what `orders` plus `buffer` would have meant, by block of so many slots; they add up
    /// to the total.
    pub fn in_blocks(&self, orders: &[f64], buffer: f64, slots: usize) -> Vec<Sums> {
        let slots = slots.max(1);
        let mut blocks = vec![Sums::default(); self.need.len().div_ceil(slots)];
        self.walk(orders, buffer, |at, slot| {
            if let Some(block) = blocks.get_mut(at / slots) {
                block.add(&slot, 1.0);
            }
        });
        blocks
    }

    /// Outcome that sums give.
    pub fn outcome(&self, sums: &Sums) -> SleepOutcome {
        let slots = sums.slots.max(1.0);
        let days = self.days_of(sums).max(f64::MIN_POSITIVE);
        SleepOutcome {
            nodes_asleep_mean: sums.asleep / slots,
            nodes_asleep_weighted: sums.weighted / slots,
            unserved_node_slots: sums.unserved,
            node_wakes_per_day: sums.woken / days,
            wake_events_per_day: sums.occasions / days,
            energy_saved_kwh: (sums.asleep * self.slot_kwh() - sums.woken * self.cycle_kwh())
                * self.constants.pue_marginal,
            utilisation: if sums.powered > 0.0 { sums.need / sums.powered } else { 0.0 },
        }
    }

    /// Days that were summed.
    pub fn days_of(&self, sums: &Sums) -> f64 {
        sums.slots * self.slot_ms as f64 / DAY_MS as f64
    }

    /// What an outcome of all slots costs, in node-slots of sleep lost a slot: what does not sleep (in slots at the price of [`Worth`]), and wakes and
    /// unserved slots at their price.
    pub fn cost(&self, outcome: &SleepOutcome) -> f64 {
        let slots = (self.need.len() as f64).max(1.0);
        let tolls = self.tolls();
        let wakes = outcome.node_wakes_per_day * self.days() * tolls.wake;
        (wakes + outcome.unserved_node_slots * tolls.unserved) / slots - outcome.nodes_asleep_weighted
    }

    /// Energy saved in each slot, kWh at the building's meter, boots and shutdowns taken off where they are ordered. Adds up to
    /// [`SleepOutcome::energy_saved_kwh`].
    pub fn saved_kwh(&self, orders: &[f64], buffer: f64) -> Vec<f64> {
        let mut saved = Vec::with_capacity(self.need.len());
        self.walk(orders, buffer, |_, slot| {
            let kwh = slot.asleep * self.slot_kwh() - slot.woken * self.cycle_kwh();
            saved.push(kwh * self.constants.pue_marginal);
        });
        saved
    }

    /// The best outcome of all plans that leave at most `unserved` node-slots, at a switching cost
    /// of `wake` slots. A point on the line between the two [optima](mod@optimum) nearest to that
    /// shortage, so no plan of whole nodes costs less there.
    pub fn optimum_at(&self, unserved: f64, wake: f64) -> SleepOutcome {
        let weights = relative(self.weights);
        let at = |price: Option<f64>| {
            let prices = Prices { wake, unserved: price };
            let orders = optimum(self.need, self.total, &weights, self.before, self.boot_slots, prices);
            let mut sums = Sums::default();
            self.walk(&orders, 0.0, |_, slot| sums.add(&slot, 1.0));
            sums
        };
        // Dear enough that all is served, then cheaper and cheaper.
        let mut served = at(None);
        if unserved <= served.unserved {
            return self.outcome(&served);
        }
        let (mut high, mut low) = (dear(self.need.len(), &weights, self.boot_slots, wake), 0.0);
        let mut short = at(Some(low));
        for _ in 0..BISECTIONS {
            if short.unserved <= unserved {
                return self.outcome(&short);
            }
            let middle = (high * low.max(1e-3)).sqrt();
            let result = at(Some(middle));
            if result.unserved <= unserved {
                (high, served) = (middle, result);
            } else {
                (low, short) = (middle, result);
            }
        }
        let part = (unserved - served.unserved) / (short.unserved - served.unserved);
        let mut between = Sums::default();
        between.add(&served, 1.0 - part);
        between.add(&short, part);
        self.outcome(&between)
    }
}

/// Carries orders out, slot by slot: what [`NodeDemand::score`] counts, and what a rule that watches its own doing learns of it.
#[derive(Debug, Clone)]
pub(super) struct Walker<'a> {
    demand: &'a NodeDemand<'a>,
    at: usize,
    before: f64,
    there: f64,
    boots: Boots,
}

impl Walker<'_> {
    /// Nodes there were in the slot before: an order knows of no others.
    pub(super) fn there(&self) -> f64 {
        self.there
    }

    /// Nodes that are ready now; no bound where a boot takes no time.
    pub(super) fn ready(&self) -> f64 {
        self.boots.ready()
    }

    /// The next slot, with so many nodes ordered powered: never more than there were, never below 0. Nodes that join arrive powered: nobody has put
    /// them to sleep, and nobody wakes them.
    pub(super) fn step(&mut self, order: f64) -> Sums {
        let at = self.at;
        self.at += 1;
        let of = |values: &[f64], or: f64| values.get(at).copied().unwrap_or(or);
        let (need, total) = (of(self.demand.need, 0.0), of(self.demand.total, self.there));
        let joined = (total - self.there).max(0.0);
        let ordered = order.clamp(0.0, self.there.max(0.0));
        let woken = (ordered - self.before).max(0.0);
        let powered = (ordered + joined).min(total);
        (self.before, self.there) = (powered, total);
        Sums {
            slots: 1.0,
            asleep: total - powered,
            weighted: (total - powered) * of(self.demand.weights, 1.0),
            unserved: self.boots.unserved(powered, joined, need),
            woken,
            occasions: f64::from(u8::from(woken > 0.0)),
            powered,
            need: need.min(total),
        }
    }
}

impl NodeDemand<'_> {
    /// About the most that could sleep in any plan that leaves at most `unserved` node-slots and
    /// wakes at most `wakes` nodes a day: the [optimum at that shortage](NodeDemand::optimum_at) at
    /// the least switching cost that keeps to the wakes.
    pub fn optimum_within(&self, unserved: f64, wakes: f64) -> SleepOutcome {
        let mut result = self.optimum_at(unserved, 0.0);
        let (mut low, mut high) = (0.0, 0.0);
        while result.node_wakes_per_day > wakes + 1e-9 && high < 4.0 * self.need.len() as f64 {
            (low, high) = (high, 2.0 * high.max(1.0));
            result = self.optimum_at(unserved, high);
        }
        for _ in 0..WAKE_BISECTIONS {
            if high <= low {
                break;
            }
            let middle = f64::midpoint(low, high);
            let tried = self.optimum_at(unserved, middle);
            if tried.node_wakes_per_day > wakes + 1e-9 {
                low = middle;
            } else {
                (high, result) = (middle, tried);
            }
        }
        result
    }
}

/// Halvings of the switching cost at which the wakes promised are kept.
const WAKE_BISECTIONS: usize = 6;

/// Weights against their mean, so that a switching cost in hours of idle power is one at the mean price; none where the mean says nothing.
pub(super) fn relative(weights: &[f64]) -> Vec<f64> {
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    if mean > 0.0 { weights.iter().map(|weight| weight / mean).collect() } else { Vec::new() }
}

/// Halvings of the price of shortage, on its logarithm: enough to tell prices apart by a thousandth.
const BISECTIONS: usize = 16;

/// What a wake and an unserved node-slot cost, in slots of sleep at the price of [`Worth`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolls {
    /// A wake: wear, and the energy of boot and shutdown.
    pub wake: f64,
    /// An unserved node-slot.
    pub unserved: f64,
}

/// Sums of the outcome of a plan over some slots.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Slots.
    pub slots: f64,
    /// Node-slots asleep.
    pub asleep: f64,
    /// Node-slots asleep, weighted.
    pub weighted: f64,
    /// Node-slots unserved.
    pub unserved: f64,
    /// Nodes woken.
    pub woken: f64,
    /// Slots in which some were.
    pub occasions: f64,
    /// Node-slots powered.
    pub powered: f64,
    /// Node-slots demanded.
    pub need: f64,
}

impl Sums {
    /// Adds `times` as much as another has; -1 takes it away.
    pub fn add(&mut self, other: &Self, times: f64) {
        self.slots += other.slots * times;
        self.asleep += other.asleep * times;
        self.weighted += other.weighted * times;
        self.unserved += other.unserved * times;
        self.woken += other.woken * times;
        self.occasions += other.occasions * times;
        self.powered += other.powered * times;
        self.need += other.need * times;
    }

    /// What they cost, in slots of sleep.
    pub fn cost(&self, tolls: &Tolls) -> f64 {
        self.woken * tolls.wake + self.unserved * tolls.unserved - self.weighted
    }

    /// The sum of several.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        parts.into_iter().fold(Self::default(), |mut sum, part| {
            sum.add(part, 1.0);
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let constants = Constants {
            idle_w: 1500.0,
            off_w: 10.0,
            boot_j: 451_500.0,
            shutdown_s: 0.0,
            shutdown_j: 0.0,
            ..Constants::default()
        };
        let demand = NodeDemand {
            need: &[4.0, 6.0, 5.0],
            total: &[10.0; 3],
            weights: &[],
            before: 8.0,
            boot_slots: 0.0,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &Worth::default(),
        };
        let outcome = demand.score(&[8.0, 5.0, 5.0], 0.0);
        assert_eq!(
            (outcome.nodes_asleep_mean, outcome.unserved_node_slots, outcome.node_wakes_per_day),
            (4.0, 1.0, 0.0)
        );
        assert!((outcome.energy_saved_kwh - 17.88).abs() < 1e-9);
        // A node more throughout: nothing unserved, and one is woken at the start: the boot draws 451.5 kJ, 1.5 kJ more than if idle.
        // Three hours are an eighth of a day.
        let outcome = demand.score(&[8.0, 5.0, 5.0], 1.0);
        assert_eq!(
            (outcome.nodes_asleep_mean, outcome.unserved_node_slots, outcome.node_wakes_per_day),
            (3.0, 0.0, 8.0)
        );
        assert!((outcome.energy_saved_kwh - (9.0 * 1.49 - 1.5 / 3600.0)).abs() < 1e-9);
    }

    #[test]
    fn dear_hours_weigh_more_and_slots_add_up() {
        let constants = Constants::default();
        let demand = NodeDemand {
            need: &[4.0, 6.0, 5.0],
            total: &[10.0; 3],
            weights: &[0.5, 2.0, 0.5],
            before: 5.0,
            boot_slots: 0.0,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &Worth::default(),
        };
        let orders = [4.0, 7.0, 5.0];
        let outcome = demand.score(&orders, 0.0);
        // Asleep 6, 3, 5: weighted 3 + 6 + 2.5.
        assert!((outcome.nodes_asleep_weighted - 11.5 / 3.0).abs() < 1e-12);
        let saved = demand.saved_kwh(&orders, 0.0);
        // 1,220 W for six, three and five hours, less three wakes, whose shutdowns draw 73,200 J more than sleep, in the second.
        assert!((saved.get(1).copied().unwrap_or(0.0) - (3.0 * 1.22 - 3.0 * 0.073_2 / 3.6)).abs() < 1e-9);
        assert!((saved.iter().sum::<f64>() - outcome.energy_saved_kwh).abs() < 1e-9);
    }

    #[test]
    fn a_boot_that_takes_a_slot_longer_serves_a_slot_later() {
        let constants = Constants::default();
        let demand = NodeDemand {
            need: &[4.0, 6.0, 6.0, 6.0],
            total: &[10.0; 4],
            weights: &[],
            before: 4.0,
            boot_slots: 1.0,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &Worth::default(),
        };
        // Ordered for slot 1, the two nodes are ready in slot 2; what is put to sleep in slot 3 is gone at once.
        let outcome = demand.score(&[4.0, 6.0, 6.0, 5.0], 0.0);
        assert_eq!(outcome.unserved_node_slots, 2.0 + 1.0);
    }

    /// Demand 3, 1, 1, 3 from 3 powered, a wake 3 slots. Level 1 is on throughout. Levels 2 and 3 each cost 4 powered slots to serve both needs, 1 to serve
    /// the first alone (they are on already), 0 to serve none: with one node-slot unserved 4 + 4 + 1 of 20 are powered, with two 4 + 1 + 1.
    #[test]
    fn the_optimum_at_the_service_of_a_rule() {
        let (constants, worth) = (Constants::default(), Worth::default());
        let demand = NodeDemand {
            need: &[3.0, 1.0, 1.0, 3.0],
            total: &[5.0; 4],
            weights: &[],
            before: 3.0,
            boot_slots: 0.0,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &worth,
        };
        for (unserved, powered) in [(0.0, 12.0), (1.0, 9.0), (2.0, 6.0)] {
            let result = demand.optimum_at(unserved, 3.0);
            assert!((result.nodes_asleep_mean - (20.0 - powered) / 4.0).abs() < 1e-9, "{unserved}: {result:?}");
            assert!((result.unserved_node_slots - unserved).abs() < 1e-9, "{unserved}: {result:?}");
        }
    }

    /// At ten times the price sleep outweighs ten times the shortage, wear stays what it is, and the energy of a boot costs ten times as much.
    #[test]
    fn the_level_of_the_price_counts() {
        let constants = Constants { boot_j: 300.0 * 1240.0 + 3.6e6, ..Constants::default() };
        let worth = Worth::default();
        let of = |weights: &'static [f64]| NodeDemand {
            need: &[4.0, 6.0],
            total: &[10.0; 2],
            weights,
            before: 10.0,
            boot_slots: 0.0,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &worth,
        };
        let (usual, dear) = (of(&[1.0, 1.0]), of(&[10.0, 10.0]));
        let short = [4.0, 4.0];
        assert!((usual.cost(&usual.score(&short, 0.0)) - (2.0 * usual.tolls().unserved / 2.0 - 6.0)).abs() < 1e-9);
        assert!((dear.cost(&dear.score(&short, 0.0)) - (2.0 * usual.tolls().unserved / 2.0 - 60.0)).abs() < 1e-9);
        // A kWh more a boot, and a minute's shutdown at 1,220 W more than off: (1 + 1.22 / 60) / 1.22 slots.
        let energy = (1.0 + 1.22 / 60.0) / 1.22;
        assert!(
            (usual.tolls().wake - 2.0 - energy).abs() < 1e-9 && (dear.tolls().wake - 2.0 - 10.0 * energy).abs() < 1e-9
        );
    }
}
