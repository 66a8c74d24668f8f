//! What a plan of powered nodes would have meant, held against the demand that came.
//!
//! With u(t) the largest count of slot t, N(t) the nodes there are, and A(t) those ordered powered, decided before slot t began:
//!
//! * **asleep** = mean of N(t) − A(t);
//! * **unserved** = Σ max(0, u(t) − R(t)), node-slots, R(t) being ready: ordered powered in t and, if a boot takes L further slots, in the L before;
//! * **node-wakes** = Σ max(0, A(t) − A(t − 1)), a day: nodes, not occasions;
//! * **energy saved** = asleep node-hours × (idle − off) − node-wakes × (what a boot draws above idle, as the node counts as powered, and a shutdown above off), times the marginal PUE.
//!
//! O(slots). Worked example: ten nodes, demand 4, 6, 5, orders 8, 5, 5 with 8 before: 2 + 5 + 5 asleep (mean 4), 1 unserved, no wake. Slots of
//! an hour, 1,500 W idle and 10 W off: 12 × 1.49 kW h = 17.88 kWh.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::KWH_J;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use super::resim::Constants;

/// What things are worth to whoever chooses between sleep, service and wear.
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

/// What a plan would have meant.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Mean number of nodes asleep.
    pub nodes_asleep_mean: f64,
    /// The same, each slot weighted by what its energy costs or emits against the mean; equal where hours are alike.
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
pub struct Demand<'a> {
    /// Largest count of each slot.
    pub need: &'a [f64],
    /// Nodes there are, by slot.
    pub total: &'a [f64],
    /// What energy costs or emits in each slot, against the mean; empty where hours are alike.
    pub weights: &'a [f64],
    /// Powered before the first slot.
    pub before: f64,
    /// Slots that a boot takes beyond the one it is ordered for.
    pub boot_slots: usize,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// What nodes draw.
    pub constants: &'a Constants,
    /// What things are worth.
    pub worth: &'a Worth,
}

impl Demand<'_> {
    /// Energy that a sleeping node saves in a slot, kWh, before the building's part.
    fn slot_kwh(&self) -> f64 {
        (self.constants.idle_w - self.constants.off_w) * (self.slot_ms as f64 / 1000.0) / KWH_J
    }

    /// Energy of one wake and sleep beyond that of being powered and off: a node that boots counts as powered, one that shuts down as asleep.
    fn cycle_kwh(&self) -> f64 {
        let own = self.constants;
        (own.boot_j - own.idle_w * own.boot_s + own.shutdown_j - own.off_w * own.shutdown_s) / KWH_J
    }

    /// What one wake costs, in slots of sleep: energy of boot and shutdown, and wear.
    fn wake_slots(&self) -> f64 {
        let wear = self.worth.wear_h * HOUR_MS as f64 / self.slot_ms as f64;
        wear + self.cycle_kwh() / self.slot_kwh()
    }

    /// What one unserved node-slot costs, in slots of sleep.
    fn unserved_slots(&self) -> f64 {
        let hours = self.slot_ms as f64 / HOUR_MS as f64;
        let money = self.worth.gpus_per_node * hours * self.worth.gpu_hour;
        money / (self.slot_kwh() * self.constants.pue_marginal * self.worth.price_kwh)
    }

    /// Days of all slots.
    pub fn days(&self) -> f64 {
        self.need.len() as f64 * self.slot_ms as f64 / DAY_MS as f64
    }

    /// What `orders` (nodes ordered powered, by slot) plus `buffer` would have meant. Never more than there are, never below 0.
    pub fn score(&self, orders: &[f64], buffer: f64) -> Outcome {
        let mut outcome = Outcome::default();
        let (mut before, mut powered_sum, mut need_sum) = (self.before, 0.0, 0.0);
        let mut lately = vec![self.before; self.boot_slots];
        let slots = self.need.iter().zip(self.total).zip(orders);
        for (at, ((need, total), order)) in slots.enumerate() {
            let powered = (order + buffer).clamp(0.0, *total);
            let ready = lately.iter().copied().fold(powered, f64::min);
            if let Some(place) = at.checked_rem(self.boot_slots).and_then(|place| lately.get_mut(place)) {
                *place = powered;
            }
            let woken = (powered - before).max(0.0);
            outcome.nodes_asleep_mean += total - powered;
            outcome.nodes_asleep_weighted += (total - powered) * self.weights.get(at).copied().unwrap_or(1.0);
            outcome.unserved_node_slots += (need - ready).max(0.0);
            outcome.node_wakes_per_day += woken;
            outcome.wake_events_per_day += f64::from(u8::from(woken > 0.0));
            powered_sum += powered;
            need_sum += need.min(*total);
            before = powered;
        }
        let cycles_kwh = outcome.node_wakes_per_day * self.cycle_kwh();
        outcome.energy_saved_kwh =
            (outcome.nodes_asleep_mean * self.slot_kwh() - cycles_kwh) * self.constants.pue_marginal;
        outcome.nodes_asleep_mean /= (self.need.len() as f64).max(1.0);
        outcome.nodes_asleep_weighted /= (self.need.len() as f64).max(1.0);
        let days = self.days().max(f64::MIN_POSITIVE);
        outcome.node_wakes_per_day /= days;
        outcome.wake_events_per_day /= days;
        outcome.utilisation = if powered_sum > 0.0 { need_sum / powered_sum } else { 0.0 };
        outcome
    }

    /// The same, block by block of so many slots, with the days of each block.
    pub fn in_blocks(&self, orders: &[f64], buffer: f64, slots: usize) -> Vec<(f64, Outcome)> {
        let mut before = self.before;
        let parts = self.need.chunks(slots).zip(self.total.chunks(slots)).zip(orders.chunks(slots)).enumerate();
        parts
            .map(|(at, ((need, total), orders))| {
                let weights = self.weights.get(at * slots..).unwrap_or_default();
                let part = Self { need, total, weights, before, ..*self };
                if let (Some(order), Some(total)) = (orders.last(), total.last()) {
                    before = (order + buffer).clamp(0.0, *total);
                }
                (part.days(), part.score(orders, buffer))
            })
            .collect()
    }

    /// What an outcome costs, in node-slots of sleep lost a slot: what does not sleep (in slots as dear or dirty as the mean), and wakes and unserved slots at their price.
    pub fn cost(&self, outcome: &Outcome) -> f64 {
        let slots = (self.need.len() as f64).max(1.0);
        let wakes = outcome.node_wakes_per_day * self.days() * self.wake_slots();
        let unserved = outcome.unserved_node_slots * self.unserved_slots();
        (wakes + unserved) / slots - outcome.nodes_asleep_weighted
    }

    /// Energy saved in each slot, kWh at the building's meter, boots and shutdowns taken off where they are ordered. Adds up to
    /// [`Outcome::energy_saved_kwh`].
    pub fn saved_kwh(&self, orders: &[f64], buffer: f64) -> Vec<f64> {
        let mut before = self.before;
        let slots = self.total.iter().zip(orders);
        slots
            .map(|(total, order)| {
                let powered = (order + buffer).clamp(0.0, *total);
                let woken = (powered - before).max(0.0);
                before = powered;
                let kwh = (total - powered) * self.slot_kwh() - woken * self.cycle_kwh();
                kwh * self.constants.pue_marginal
            })
            .collect()
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
        let demand = Demand {
            need: &[4.0, 6.0, 5.0],
            total: &[10.0; 3],
            weights: &[],
            before: 8.0,
            boot_slots: 0,
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
        let demand = Demand {
            need: &[4.0, 6.0, 5.0],
            total: &[10.0; 3],
            weights: &[0.5, 2.0, 0.5],
            before: 5.0,
            boot_slots: 0,
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
        let demand = Demand {
            need: &[4.0, 6.0, 6.0, 6.0],
            total: &[10.0; 4],
            weights: &[],
            before: 4.0,
            boot_slots: 1,
            slot_ms: HOUR_MS,
            constants: &constants,
            worth: &Worth::default(),
        };
        // Ordered for slot 1, the two nodes are ready in slot 2; what is put to sleep in slot 3 is gone at once.
        let outcome = demand.score(&[4.0, 6.0, 6.0, 5.0], 0.0);
        assert_eq!(outcome.unserved_node_slots, 2.0 + 1.0);
    }
}
