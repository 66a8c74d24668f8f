//! Cluster energy saving (CES) as published with the Helios traces (Hu et al., SC 2021), decision by decision.
//!
//! With u(t) the demand of slot t, û its forecast, A(t) powered, N(t) there:
//!
//! 1. the first six slots: A = u + σ;
//! 2. if u(t) > A(t − 1): A(t) = min(u(t) + σ, N(t)), and nothing is put to sleep before t + κ;
//! 3. else down to u(t) + σ if the mean of the last h demands less u(t) is at least ξ_H, u(t) less the mean forecast of the next f slots is at
//!    least ξ_P, that mean is at least the one of the next 2f, the lock has expired, and at least ξ_D nodes would sleep.
//!
//! The published code decides for slot t having seen slot t, with forecasts made from what comes later. Here the decision made after slot t is
//! the order for slot t + 1, so a shortage counts as one, and where forecasts come from is the caller's: what came (which is not causal), values of
//! an hour before (the published leak), or a forecast from the past alone.
//!
//! Worked example: σ = 5, A = 20, u = 22: the order for the next slot is 27; the 2 that were missing count as unserved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thresholds {
    /// h: slots of the past.
    pub past_slots: usize,
    /// f: slots of the forecast.
    pub forecast_slots: usize,
    /// ξ_H: how far demand must have fallen.
    pub fallen: f64,
    /// ξ_P: how far it must be about to fall.
    pub falling: f64,
    /// ξ_D: how many nodes must be to gain.
    pub gain: f64,
    /// σ: nodes above demand.
    pub buffer: f64,
    /// κ: slots after a wake in which nothing sleeps.
    pub lock_slots: usize,
}

impl Thresholds {
    /// Thresholds published for Philly.
    pub const PHILLY: Self =
        Self { past_slots: 2, forecast_slots: 30, fallen: 0.1, falling: 0.0, gain: 1.0, buffer: 20.0, lock_slots: 10 };
    /// Thresholds published for Earth.
    pub const EARTH: Self =
        Self { past_slots: 6, forecast_slots: 18, fallen: 1.0, falling: 1.0, gain: 5.0, buffer: 5.0, lock_slots: 12 };
}

/// Slots whose orders are made from demand alone, so that all rules begin alike.
const FIRST_SLOTS: usize = 6;

/// What CES remembers of its own orders.
#[derive(Debug, Clone, Default)]
pub(in crate::power) struct Saving {
    powered: f64,
    /// Slots it has decided for.
    decided: usize,
    /// Until as many are decided for, nothing is put to sleep.
    locked: usize,
}

impl Saving {
    /// The order for the slot to come, of `there` nodes. `asked(ago)` is what the slot asked for that ended so many before the last one, and `forecast(ahead)`
    /// û for the slot so many after it (0: the last one itself).
    pub(in crate::power) fn order(
        &mut self,
        thresholds: &Thresholds,
        there: f64,
        request: impl Fn(usize) -> f64,
        forecast: impl Fn(usize) -> f64,
    ) -> f64 {
        let Thresholds { past_slots, forecast_slots, fallen, falling, gain, buffer, lock_slots } = *thresholds;
        let now = request(0);
        let wanted = (now + buffer).min(there);
        let slot = self.decided;
        self.decided += 1;
        if slot < FIRST_SLOTS {
            self.powered = wanted;
        } else if now > self.powered {
            self.powered = wanted;
            self.locked = slot + lock_slots;
        } else if slot >= self.locked {
            let past = (1..=past_slots).map(&request).sum::<f64>() / past_slots.max(1) as f64;
            let mean = |slots: usize| (0..slots).map(&forecast).sum::<f64>() / slots.max(1) as f64;
            let shrinks = past - now >= fallen && self.powered - (now + buffer) >= gain;
            if shrinks {
                let (near, far) = (mean(forecast_slots), mean(2 * forecast_slots));
                if now - near >= falling && near >= far {
                    self.powered = wanted;
                }
            }
        }
        self.powered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_at_once_waits_out_its_lock_and_sleeps_when_demand_falls() {
        let thresholds =
            Thresholds { past_slots: 2, forecast_slots: 2, lock_slots: 3, buffer: 5.0, ..Thresholds::PHILLY };
        // Six slots of 10 (orders 15), then 18, which is 3 more than powered: 23 from the next slot on, locked for three slots.
        let mut need = vec![10.0; 6];
        need.extend([18.0, 12.0, 11.0, 10.0, 9.0, 8.0]);
        let mut saving = Saving::default();
        let orders: Vec<f64> = (0..need.len() - 1)
            .map(|slot| {
                let request = |ago: usize| need.get(slot - ago).copied().unwrap_or(0.0);
                let forecast = |ahead: usize| need.get(slot + ahead).or(need.last()).copied().unwrap_or(0.0);
                saving.order(&thresholds, 100.0, request, forecast)
            })
            .collect();
        // Slots 1 to 6 stand at 15, 7 to 9 at 23 (decided in 6, locked in 7 and 8); in 9 demand has fallen from 11.5 to 10 and falls on: 15, 14, …
        assert_eq!(orders, vec![15.0, 15.0, 15.0, 15.0, 15.0, 15.0, 23.0, 23.0, 23.0, 15.0, 14.0]);
    }
}
