//! How many replicas there should be: rules that decide slot by slot, from the past alone.
//!
//! **Load.** What a slot asks for is told in replicas at full use: input tokens / prefill rate + requests × mean output × time of a token in a full batch, over the length of
//! the slot. The mean output is that of the part that a rule is chosen on, as an output is not known when its request comes.
//!
//! - **Constant**: n replicas.
//! - **Reactive**, as the Kubernetes HPA and KEDA decide on a metric with a target average: ⌈requests in flight / target⌉; no change while that quotient over the replicas
//!   that there are is within 10 % of 1 (the tolerance); fewer only down to the most that was asked for within the stabilisation window; never fewer than a least number.
//! - **Forecast**: ⌈(mean load of the last slots + margin) / use⌉, with the same tolerance, window and least number. The margin is a quantile of what the load was, a start-up time
//!   later, beyond that mean, on the part that the rule is chosen on: as a number, or as a multiple of the square root of the mean, as arrivals at random vary (square-root
//!   staffing). The mean, margin and use are one query to Prometheus, so what is tested is what can be set.
//! - **Forecast with a guard**: the forecast, and never fewer than ⌈requests in flight / guard⌉, with the same tolerance. The guard works off what the forecast did not see coming.
//! - **With spot**: as many as the rule inside says plus some more on spot; and as many on demand as spot replicas that serve are fewer than the rule says (SkyServe's
//!   SpotHedge).
//!
//! O(window) a slot. Worked example: 30-second slots, 4,000 input tokens a second and 1.008 ms a token: 100 requests with 60,000 input tokens and 200 output tokens on
//! average are (15 s + 100 × 200 × 1.008 ms) / 30 s = 1.172 replicas. With a margin of 0.4 and a use of 0.7 that is ⌈2.246⌉ = 3. Reactive with a target of 8: 31 requests in
//! flight are ⌈3.875⌉ = 4 replicas; with 4 there, 33 in flight are 4.125 / 4 = 1.03 of them, so nothing changes.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

use super::replay::{Seen, SlotSeen, WantedReplicas};
use super::requests::LoggedRequest;
use super::service::ReplicaService;

/// Share by which a quotient may differ from 1 without a change, as in the HPA.
pub const TOLERANCE: f64 = 0.1;
/// Least mean load over whose square root residuals are told, replicas at full use.
const LEAST_LEVEL: f64 = 0.05;
/// Most replicas that a rule asks for.
pub const MOST_REPLICAS: u32 = 4096;

/// What requests ask for, in replicas at full use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ServingLoad {
    /// Seconds of a replica for an input token.
    pub input_token_s: f64,
    /// Mean output of a request, tokens.
    pub mean_output: f64,
    /// Seconds of a replica for an output token, in a full batch.
    pub output_token_s: f64,
}

impl ServingLoad {
    /// With the mean output of some requests.
    pub fn new(service: &ReplicaService, requests: &[LoggedRequest]) -> Self {
        let outputs: f64 = requests.iter().map(|request| f64::from(request.output)).sum();
        Self {
            input_token_s: 1.0 / service.prefill_tokens_per_s,
            mean_output: outputs / requests.len().max(1) as f64,
            output_token_s: service.step_us(service.max_batch()) as f64 / 1e6 / service.max_batch() as f64,
        }
    }

    /// Load of a slot, replicas at full use.
    pub fn replicas(&self, seen: SlotSeen, slot_us: i64) -> f64 {
        let outputs = f64::from(seen.requests) * self.mean_output * self.output_token_s;
        (seen.input as f64 * self.input_token_s + outputs) / (slot_us.max(1) as f64 / 1e6)
    }
}

/// A rule with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServingRule {
    /// A constant number of replicas.
    Constant {
        /// Replicas.
        replicas: u32,
    },
    /// Replicas in proportion to requests in flight.
    Reactive {
        /// Requests in flight that a replica should have.
        target: u32,
        /// Fewest replicas.
        least: u32,
        /// Stabilisation window, slots.
        hold_slots: u32,
    },
    /// Replicas for a forecast of the load.
    Forecast {
        /// Slots that the level is the mean of.
        window_slots: u32,
        /// Quantile of the residuals that the margin is.
        quantile: f64,
        /// Added to the level, replicas at full use.
        margin: f64,
        /// Added for the square root of the level: a margin that grows with the load.
        root: f64,
        /// Load that a replica should have.
        use_share: f64,
        /// Most requests in flight for each replica, whatever the forecast says; none without a guard.
        guard: Option<u32>,
        /// Fewest replicas.
        least: u32,
        /// Stabilisation window, slots.
        hold_slots: u32,
    },
}

/// More replicas on spot than the rule asks for, and on-demand for those that do not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpotHedge {
    /// More on spot.
    pub extra: u32,
}

/// A rule at work.
#[derive(Debug, Clone)]
pub struct Deciding {
    rule: ServingRule,
    hedge: Option<SpotHedge>,
    load: ServingLoad,
    slot_us: i64,
    initial: u32,
    /// Loads of the last slots, and how many slots were taken in.
    loads: VecDeque<f64>,
    taken: usize,
    /// What was asked for lately, by slot, the greatest first.
    asked: VecDeque<(usize, u32)>,
    /// What the rule said last: it, not what spot adds, is what the tolerance is told against.
    last: u32,
}

impl Deciding {
    /// At the beginning, with `initial` replicas.
    pub fn new(rule: ServingRule, hedge: Option<SpotHedge>, load: ServingLoad, slot_us: i64, initial: u32) -> Self {
        Self {
            rule,
            hedge,
            load,
            slot_us,
            initial,
            loads: VecDeque::new(),
            taken: 0,
            asked: VecDeque::new(),
            last: initial.max(1),
        }
    }

    /// The mean load of the last `slots`; none before the first.
    fn level(&mut self, slots: u32, seen: &Seen<'_>) -> Option<f64> {
        for slot in seen.past.iter().skip(self.taken) {
            self.loads.push_back(self.load.replicas(*slot, self.slot_us));
        }
        self.taken = seen.past.len();
        while self.loads.len() > slots.max(1) as usize {
            self.loads.pop_front();
        }
        (!self.loads.is_empty()).then(|| self.loads.iter().sum::<f64>() / self.loads.len() as f64)
    }

    /// Replicas for `value` replicas' worth of a metric: with tolerance and stabilisation, and no fewer than the least.
    fn stabilised(&mut self, value: f64, (least, hold_slots): (u32, u32), slot: usize) -> u32 {
        let steady = (value / f64::from(self.last) - 1.0).abs() <= TOLERANCE;
        let asked = if steady { self.last } else { value.ceil().clamp(1.0, f64::from(MOST_REPLICAS)) as u32 };
        let asked = asked.max(least);
        while self.asked.back().is_some_and(|(_, other)| *other <= asked) {
            self.asked.pop_back();
        }
        self.asked.push_back((slot, asked));
        while self.asked.front().is_some_and(|(at, _)| at + hold_slots as usize <= slot && *at != slot) {
            self.asked.pop_front();
        }
        self.asked.front().map_or(asked, |(_, most)| *most)
    }

    /// Replicas for what is seen.
    pub fn decide(&mut self, seen: &Seen<'_>) -> WantedReplicas {
        let count = match self.rule {
            ServingRule::Constant { replicas } => replicas.clamp(1, MOST_REPLICAS),
            ServingRule::Reactive { target, least, hold_slots } => {
                if seen.slot == 0 {
                    self.initial.max(least).max(1)
                } else {
                    self.stabilised(
                        f64::from(seen.in_flight) / f64::from(target.max(1)),
                        (least, hold_slots),
                        seen.slot,
                    )
                }
            }
            ServingRule::Forecast { window_slots, margin, root, use_share, guard, least, hold_slots, .. } => {
                match self.level(window_slots, seen) {
                    None => self.initial.max(least).max(1),
                    Some(level) => {
                        let ahead = (level + margin + root * level.sqrt()).max(0.0) / use_share.max(0.01);
                        let waiting = guard.map_or(0.0, |guard| f64::from(seen.in_flight) / f64::from(guard.max(1)));
                        self.stabilised(ahead.max(waiting), (least, hold_slots), seen.slot)
                    }
                }
            }
        };
        self.last = count;
        match self.hedge {
            None => WantedReplicas::on_demand(count),
            Some(hedge) => {
                WantedReplicas { on_demand: count.saturating_sub(seen.spot_ready), spot: count + hedge.extra }
            }
        }
    }
}

/// Loads slot by slot of requests that stand in order, from `from_us` on.
pub fn loads(requests: &[LoggedRequest], load: &ServingLoad, (from_us, slot_us): (i64, i64), slots: usize) -> Vec<f64> {
    let mut seen = vec![SlotSeen::default(); slots];
    for request in requests {
        let at = (request.at_us - from_us).max(0) / slot_us.max(1);
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| seen.get_mut(at)) {
            slot.requests += 1;
            slot.input += u64::from(request.input);
        }
    }
    seen.into_iter().map(|slot| load.replicas(slot, slot_us)).collect()
}

/// What loads were beyond the mean of the `window` slots before a decision, `ahead` slots after it, in rising order; of `by_root`, over the square root of that mean,
/// without slots before which there was none.
pub fn residuals(loads: &[f64], window: usize, ahead: usize, by_root: bool) -> Vec<f64> {
    let window = window.max(1);
    let mut result: Vec<f64> = (window..loads.len())
        .filter_map(|slot| {
            let level = loads.get(slot - window..slot)?.iter().sum::<f64>() / window as f64;
            let beyond = loads.get(slot + ahead)? - level;
            match by_root {
                true => (level > LEAST_LEVEL).then(|| beyond / level.sqrt()),
                false => Some(beyond),
            }
        })
        .collect();
    result.sort_unstable_by(f64::total_cmp);
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::serving::service::tests::EXAMPLE;

    fn load() -> ServingLoad {
        let service = ReplicaService::parse("s.toml", EXAMPLE).unwrap();
        ServingLoad::new(
            &service,
            &[LoggedRequest { at_us: 0, input: 5, output: 100 }, LoggedRequest { at_us: 1, input: 5, output: 300 }],
        )
    }

    fn seen(slot: usize, past: &[SlotSeen], in_flight: u32) -> Seen<'_> {
        Seen { slot, past, in_flight, spot_ready: 0 }
    }

    #[test]
    fn the_worked_example() {
        let slot = SlotSeen { requests: 100, input: 60_000 };
        assert!((load().replicas(slot, 30_000_000) - 1.172_222).abs() < 1e-6);
        let forecast = ServingRule::Forecast {
            window_slots: 2,
            quantile: 0.9,
            margin: 0.4,
            root: 0.0,
            use_share: 0.7,
            guard: None,
            least: 1,
            hold_slots: 1,
        };
        let mut deciding = Deciding::new(forecast, None, load(), 30_000_000, 5);
        // Nothing is known at first: what was there stays.
        assert_eq!(deciding.decide(&seen(0, &[], 0)), WantedReplicas::on_demand(5));
        assert_eq!(deciding.decide(&seen(1, &[slot], 0)), WantedReplicas::on_demand(3));
        // The square root of 1.172 is 1.083: (1.172 + 1.083) / 0.7 is 3.2. A guard of 8 asks for five where 33 wait.
        let rooted = |guard| ServingRule::Forecast {
            window_slots: 2,
            quantile: 0.9,
            margin: 0.0,
            root: 1.0,
            use_share: 0.7,
            guard,
            least: 1,
            hold_slots: 1,
        };
        let request = |guard, in_flight| {
            let mut deciding = Deciding::new(rooted(guard), None, load(), 30_000_000, 1);
            deciding.decide(&seen(1, &[slot], in_flight)).on_demand
        };
        assert_eq!((request(None, 33), request(Some(8), 33), request(Some(8), 9)), (4, 5, 4));
        let mut reactive =
            Deciding::new(ServingRule::Reactive { target: 8, least: 1, hold_slots: 1 }, None, load(), 30_000_000, 1);
        let request: Vec<u32> = [0, 31, 33, 36, 0]
            .iter()
            .enumerate()
            .map(|(slot, flight)| reactive.decide(&seen(slot, &[], *flight)).on_demand)
            .collect();
        assert_eq!(request, [1, 4, 4, 5, 1]);
    }

    #[test]
    fn the_window_keeps_replicas_and_starts_none() {
        let mut reactive =
            Deciding::new(ServingRule::Reactive { target: 1, least: 1, hold_slots: 3 }, None, load(), 30_000_000, 2);
        let flights = [0, 8, 2, 2, 2, 4, 1, 1, 1];
        let request: Vec<u32> = flights
            .iter()
            .enumerate()
            .map(|(slot, flight)| reactive.decide(&seen(slot, &[], *flight)).on_demand)
            .collect();
        // Eight were asked for at slot 1, and hold until slot 3; from then on two, then four for three slots.
        assert_eq!(request, [2, 8, 8, 8, 2, 4, 4, 4, 1]);
    }

    #[test]
    fn spot_is_doubled_and_on_demand_fills_what_does_not_serve() {
        let mut hedged =
            Deciding::new(ServingRule::Constant { replicas: 4 }, Some(SpotHedge { extra: 2 }), load(), 30_000_000, 4);
        let at = |spot_ready| Seen { slot: 0, past: &[], in_flight: 0, spot_ready };
        assert_eq!(hedged.decide(&at(1)), WantedReplicas { on_demand: 3, spot: 6 });
        assert_eq!(hedged.decide(&at(6)), WantedReplicas { on_demand: 0, spot: 6 });
    }

    #[test]
    fn residuals_by_hand() {
        // The mean of two slots, and the load one slot after the decision: 4 − 1.5 and 1 − 2.5.
        assert_eq!(residuals(&[1.0, 2.0, 3.0, 4.0, 1.0], 2, 1, false), [-1.5, 2.5]);
        // Over the root: (0 − 4) / 2 and (8 − 9) / 3; nothing is told of what follows no load.
        assert_eq!(residuals(&[4.0, 9.0, 0.0, 8.0, 5.0], 1, 1, true), [-2.0, -1.0 / 3.0]);
    }
}
