//! A power rule, once: how many nodes it orders for the slot to come, from what it is told of the slots that have ended.
//!
//! One `Rule` is scored over whole stretches of days ([`family`], where the demand of all
//! slots is at hand) and asked slot by slot, in a replay of jobs or by a loop that runs a cluster
//! ([`apply`](crate::power::replay::apply)). Both are a `Past`. With u(t) what slot t asked for,
//! M(t, n) the most that the n slots before t asked for, c(H, θ) the highest level that is reached
//! within H slots with a chance over θ, and A(t) the order:
//!
//! | Rule | A(t), without its buffer |
//! |---|---|
//! | always on | all nodes |
//! | timeout, trailing maximum | M(t, n) |
//! | newsvendor | max(c(1, θ), in use) |
//! | lazy provisioning | max(M(t, β − w), c(w, ½)) |
//! | CES | as [`ces`] has it |
//! | idle timeout of `slurm.conf` | max(M(t, n), min(A(t − 1), u(t − 1) + k)) |
//! | reach | max(c(1, θ_wake), min(A(t − 1), c(H, θ_keep)), M(t, linger), in use) |
//!
//! *Timeout* is the trailing maximum without a buffer: a level sleeps when nobody has needed it for so many slots. Lazy capacity provisioning (Lin,
//! Wierman, Andrew and Thereska, INFOCOM 2011) clips the last order between the optima of what has passed, computed with wakes and with sleeps charged;
//! where all demand must be served these are the demand itself and the demand kept for as long as a wake costs, so it *is* the timeout at the
//! switching cost β, unless it is told some slots ahead: with a window w it lets a level go when it has been idle for β − w slots and is not
//! expected for w more. The idle nodes k that Slurm keeps are no reserve: once in use, nobody wakes others in their place.
//!
//! O(1) a slot (CES: O(slots of its forecast)) and what the past takes to answer. Worked example: demand 5, 9, 4, 4, 4. A trailing maximum of two slots with a buffer of 1, from
//! slot 1 on: 6, 10, 10, 5, 5.

pub mod ces;
pub mod family;
pub mod trailing;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use ces::{Saving, Thresholds};

/// Source of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forecast {
    /// What came: not to be had.
    Perfect,
    /// Values of one hour before each moment forecast, most of which lie in the future: the leak of the published code.
    HourBefore,
    /// The last value, for all that comes.
    LastValue,
    /// The value of this hour on the day before.
    Yesterday,
}

/// Slots for which levels may be kept after a need, whatever their chance.
pub const LINGER: [usize; 3] = [0, 3, 6];

/// Switches of the rule *reach*.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// Slots that keeping looks ahead.
    pub keep_slots: usize,
    /// Chance of being needed in the next slot from which a level is woken.
    pub wake_chance: f32,
    /// Chance of being needed within `keep_slots` down to which a level is kept.
    pub keep_chance: f32,
    /// Slots for which a level is kept after it was needed, whatever its chance.
    pub linger_slots: usize,
    /// Nodes powered beyond those held.
    pub buffer: u32,
}

/// One rule with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Setting {
    /// Nothing sleeps.
    AlwaysOn,
    /// What nobody needed for so long sleeps.
    Timeout {
        /// Slots.
        slots: usize,
    },
    /// The trailing maximum and a buffer.
    TrailingMaximum {
        /// Slots of the maximum.
        slots: usize,
        /// Nodes.
        buffer: u32,
    },
    /// The quantile of what the next slot asks for: the critical ratio is 1 − `chance`.
    Newsvendor {
        /// Chance of being short.
        chance: f32,
        /// Nodes.
        buffer: u32,
    },
    /// Lazy capacity provisioning.
    Lazy {
        /// Switching cost, slots.
        switch_slots: usize,
        /// Slots it is told of.
        window_slots: usize,
        /// Nodes.
        buffer: u32,
    },
    /// CES.
    Ces {
        /// Source of its forecast.
        forecast: Forecast,
        /// Thresholds of the rule.
        thresholds: Thresholds,
    },
    /// Each node sleeps that was idle for so long, and some idle ones are left: what Slurm can do by itself.
    IdleTimeout {
        /// Slots.
        slots: usize,
        /// Idle nodes that are left powered; nobody wakes others in their place.
        keep_idle: u32,
    },
    /// Levels kept for as long as their return is likely.
    Reach(Switches),
}

impl Setting {
    /// Nodes powered beyond what the rule orders. CES counts its own within its thresholds.
    pub fn buffer(&self) -> f64 {
        match self {
            Self::TrailingMaximum { buffer, .. } | Self::Newsvendor { buffer, .. } | Self::Lazy { buffer, .. } => {
                f64::from(*buffer)
            }
            Self::Reach(switches) => f64::from(switches.buffer),
            Self::AlwaysOn | Self::Timeout { .. } | Self::Ces { .. } | Self::IdleTimeout { .. } => 0.0,
        }
    }

    /// Returns the setting without the nodes of its [buffer](Self::buffer).
    pub(super) fn without_buffer(&self) -> Self {
        let mut bare = *self;
        match &mut bare {
            Self::TrailingMaximum { buffer, .. }
            | Self::Newsvendor { buffer, .. }
            | Self::Lazy { buffer, .. }
            | Self::Reach(Switches { buffer, .. }) => *buffer = 0,
            Self::AlwaysOn | Self::Timeout { .. } | Self::Ces { .. } | Self::IdleTimeout { .. } => {}
        }
        bare
    }

    /// Returns those of `horizons` at which the rule needs [chances](tracecast_predictors::demand::reach); waking uses the first
    /// of all horizons.
    pub(super) fn asks(&self, horizons: &[usize]) -> Vec<usize> {
        let first = horizons.first().copied();
        match self {
            Self::Newsvendor { .. } => first.into_iter().collect(),
            Self::Lazy { window_slots, .. } => Some(*window_slots).filter(|window| *window > 0).into_iter().collect(),
            Self::Reach(switches) => {
                let keep = Some(switches.keep_slots).filter(|keep| Some(*keep) != first);
                first.into_iter().chain(keep).collect()
            }
            Self::AlwaysOn
            | Self::Timeout { .. }
            | Self::TrailingMaximum { .. }
            | Self::Ces { .. }
            | Self::IdleTimeout { .. } => Vec::new(),
        }
    }

    /// Slots over which the rule asks for the most of the past, if it does.
    pub(super) fn looks_back(&self) -> usize {
        match self {
            Self::Timeout { slots } | Self::TrailingMaximum { slots, .. } | Self::IdleTimeout { slots, .. } => *slots,
            Self::Lazy { switch_slots, window_slots, .. } => switch_slots.saturating_sub(*window_slots).max(1),
            Self::Reach(switches) => switches.linger_slots,
            Self::AlwaysOn | Self::Newsvendor { .. } | Self::Ces { .. } => 0,
        }
    }
}

/// What a rule is told before a slot begins.
pub(super) trait Past {
    /// Nodes there are.
    fn there(&self) -> f64;

    /// What the slot asked for that ended so many slots before the last one; the first known, of a past that is shorter.
    fn asked(&self, ago: usize) -> f64;

    /// The most that the last `slots` asked for; 0 of none.
    fn most(&self, slots: usize) -> f64;

    /// Nodes in use as the last slot ended.
    fn in_use(&self) -> f64;

    /// The highest level that the next slot (or the next for which a boot can be ordered) reaches with more than a chance; `None` if nothing tells.
    fn next(&self, chance: f32) -> Option<f64>;

    /// The highest level that the next `slots` slots reach with more than a chance; `None` if
    /// nothing tells.
    fn within(&self, slots: usize, chance: f32) -> Option<f64>;

    /// Length of a slot, milliseconds.
    fn slot_ms(&self) -> i64;

    /// What the slot asks for that comes so many slots after the next one: only a back-test of a rule that leaks has it.
    fn to_come(&self, _ahead: usize) -> Option<f64> {
        None
    }
}

/// A rule, with what it remembers of its own orders.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    setting: Setting,
    /// Last order, without the buffer.
    ordered: Option<f64>,
    saving: Saving,
}

impl Rule {
    /// A rule that has ordered nothing yet.
    pub(super) fn new(setting: Setting) -> Self {
        Self { setting, ordered: None, saving: Saving::default() }
    }

    /// Nodes ordered for the slot to come, [buffer](Setting::buffer) not counted; `powered` are powered now, which only the first order looks at.
    pub(super) fn order(&mut self, past: &impl Past, powered: f64) -> f64 {
        let before = self.ordered.unwrap_or(powered);
        let most = |slots: usize| past.most(slots);
        let order = match &self.setting {
            Setting::AlwaysOn => past.there(),
            Setting::Timeout { slots } | Setting::TrailingMaximum { slots, .. } => most(*slots),
            Setting::Newsvendor { chance, .. } => past.next(*chance).unwrap_or(before).max(past.in_use()),
            // Told of a window, it is told the median of the most of it.
            Setting::Lazy { window_slots, .. } => {
                let expected = if *window_slots == 0 { None } else { past.within(*window_slots, 0.5) };
                most(self.setting.looks_back()).max(expected.unwrap_or(0.0))
            }
            Setting::Ces { forecast, thresholds } => {
                let ahead = |slots: usize| forecast_of(*forecast, past, slots);
                self.saving.order(thresholds, past.there(), |ago| past.asked(ago), ahead)
            }
            Setting::IdleTimeout { slots, keep_idle } => {
                most(*slots).max(before.min(past.asked(0) + f64::from(*keep_idle)))
            }
            Setting::Reach(switches) => {
                // If a chance cannot be told, nothing is let go.
                let wake = past.next(switches.wake_chance).unwrap_or(0.0);
                let keep = past.within(switches.keep_slots, switches.keep_chance).unwrap_or(before);
                wake.max(before.min(keep)).max(most(switches.linger_slots)).max(past.in_use())
            }
        };
        self.ordered = Some(order);
        order
    }
}

/// What a forecast says of the slot so many after the last one that has ended.
fn forecast_of(forecast: Forecast, past: &impl Past, ahead: usize) -> f64 {
    let slots = |ms: i64| usize::try_from(ms / past.slot_ms().max(1)).unwrap_or(1).max(1);
    let (hour, day) = (slots(HOUR_MS), slots(DAY_MS));
    let known_or_to_come = |ahead: usize, back: usize| match ahead.checked_sub(back) {
        None | Some(0) => past.asked(back.saturating_sub(ahead)),
        Some(future) => past.to_come(future - 1).unwrap_or_else(|| past.asked(0)),
    };
    match forecast {
        Forecast::Perfect => known_or_to_come(ahead, 0),
        Forecast::HourBefore => known_or_to_come(ahead, hour),
        Forecast::LastValue => past.asked(0),
        // The last such hour that has passed.
        Forecast::Yesterday => past.asked((day * (1 + ahead / day)).saturating_sub(ahead)),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A past of which only demand is known, of ten nodes, and slots of an hour.
    struct Known<'a>(&'a [f64]);

    impl Past for Known<'_> {
        fn there(&self) -> f64 {
            10.0
        }
        fn asked(&self, ago: usize) -> f64 {
            self.0.iter().rev().nth(ago).or(self.0.first()).copied().unwrap_or(0.0)
        }
        fn most(&self, slots: usize) -> f64 {
            self.0.iter().rev().take(slots).copied().fold(0.0, f64::max)
        }
        fn in_use(&self) -> f64 {
            self.asked(0)
        }
        fn next(&self, _chance: f32) -> Option<f64> {
            None
        }
        fn within(&self, _slots: usize, _chance: f32) -> Option<f64> {
            None
        }
        fn slot_ms(&self) -> i64 {
            HOUR_MS
        }
    }

    /// What a rule with its buffer orders for the slots from `from` on, one after the last known among them.
    fn orders(setting: Setting, demand: &[f64], from: usize) -> Vec<f64> {
        let mut rule = Rule::new(setting);
        (from..=demand.len()).map(|slot| rule.order(&Known(&demand[..slot]), 10.0) + setting.buffer()).collect()
    }

    #[test]
    fn the_worked_example() {
        let result = orders(Setting::TrailingMaximum { slots: 2, buffer: 1 }, &[5.0, 9.0, 4.0, 4.0, 4.0], 1);
        assert_eq!(result, [6.0, 10.0, 10.0, 5.0, 5.0]);
    }

    /// Ten nodes, of which each sleeps after two idle slots unless fewer than 2 idle ones would be left. Demand 4, 4, 4, 7, 4, 4, 4, 4 from 4: the ten
    /// fall to 4 + 2; 7 wakes the one that is missing and no reserve, so 7 stay for two slots more, then 6.
    #[test]
    fn idle_nodes_time_out_one_by_one_and_nobody_fills_a_reserve() {
        let demand = [4.0, 4.0, 4.0, 4.0, 7.0, 4.0, 4.0, 4.0];
        let result = orders(Setting::IdleTimeout { slots: 2, keep_idle: 2 }, &demand, 1);
        assert_eq!(result, [6.0, 6.0, 6.0, 6.0, 7.0, 7.0, 6.0, 6.0]);
        // The trailing maximum with a buffer of 2 would have had 9 after the jump.
        assert_eq!(orders(Setting::TrailingMaximum { slots: 2, buffer: 2 }, &demand, 1).get(4), Some(&9.0));
    }

    #[test]
    fn yesterday_is_the_last_such_hour_that_has_passed() {
        // Slot 30 is the last that ended: yesterday's is slot 6, two on slot 8; a day on again slot 6, as slot 30 has nothing to say of slot 54 but itself.
        let demand: Vec<f64> = (0..=30).map(f64::from).collect();
        let of = |ahead| forecast_of(Forecast::Yesterday, &Known(&demand), ahead);
        assert_eq!((of(0), of(2), of(23), of(24)), (6.0, 8.0, 29.0, 6.0));
        // Nothing of the future can enter.
        assert_eq!(forecast_of(Forecast::Perfect, &Known(&demand), 3), 30.0);
    }

    proptest! {
        #[test]
        fn lazy_provisioning_that_is_told_nothing_is_the_timeout_at_the_switching_cost(
            values in prop::collection::vec(0u32..10, 1..60),
            switch in 1usize..12,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let lazy = Setting::Lazy { switch_slots: switch, window_slots: 0, buffer: 0 };
            prop_assert_eq!(orders(lazy, &values, 0), orders(Setting::Timeout { slots: switch }, &values, 0));
        }
    }
}
