//! Exponential smoothing: level, damped trend and an additive daily season (Holt 1957, Winters 1960, Gardner and McKenzie 1985).
//!
//! With level l, trend b, season s of period m, and damping φ: the forecast error e = y − (l + φb + s) moves l by φb + αe, b to φb + βe and s by
//! γe; h ahead is l + (φ + … + φʰ) b + s. The parameters are those of a small grid with the least mean absolute error over near, middle and far
//! horizons within the last two weeks of what it is fitted on. O(slots) a fit and parameter, O(slots of four weeks) a forecast.
//!
//! Worked example: α = 1, β = γ = 0 is persistence.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use tracecast_analytics::time::DAY_MS;

use super::{Fan, Forecaster, Seen, Series};
use crate::error::Result;
use tracecast_analytics::facts::demand::Slot;

/// Slots that a forecast looks back over, days: what is farther back weighs nothing.
const LOOK_BACK_DAYS: i64 = 28;

/// Smoothing with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Smoothing {
    /// Share of an error that moves the level.
    pub alpha: f64,
    /// Share of an error that moves the trend.
    pub beta: f64,
    /// Share of an error that moves the season.
    pub gamma: f64,
    /// Share of the trend that remains after each slot.
    pub phi: f64,
    /// Slots of a day.
    pub period: usize,
    /// Slots to forecast.
    pub horizon: usize,
}

/// State after the slots so far.
#[derive(Debug, Clone)]
struct State {
    level: f64,
    trend: f64,
    season: Vec<f64>,
}

impl Smoothing {
    /// Fits the best smoothing of the grid to what is known.
    pub fn fit(seen: Seen<'_>, horizon: usize) -> Self {
        let period = usize::try_from(DAY_MS / seen.series.slot_ms.max(1)).unwrap_or(1).max(1);
        let base = Self { alpha: 1.0, beta: 0.0, gamma: 0.0, phi: 0.9, period, horizon };
        let score_from = seen.slots.len().saturating_sub(14 * period).max(seen.slots.len() / 2);
        let run_from = score_from.saturating_sub(14 * period);
        let slots = seen.slots.get(run_from..).unwrap_or_default();
        let ahead = [1, horizon.div_ceil(2), horizon];
        let loss = |tried: &Self| -> f64 {
            let mut sum = 0.0;
            let mut state = tried.begin(slots);
            for (at, slot) in slots.iter().enumerate() {
                tried.step(&mut state, run_from + at, slot);
                if run_from + at < score_from {
                    continue;
                }
                for ahead in ahead {
                    if let Some(truth) = slots.get(at + ahead).filter(|slot| slot.counted) {
                        sum += (truth.peak - tried.say(&state, run_from + at + 1, ahead)).abs();
                    }
                }
            }
            sum
        };
        let mut best = (loss(&base), base);
        for alpha in [0.3, 0.6, 0.85, 1.0] {
            for beta in [0.0, 0.03, 0.1] {
                for gamma in [0.0, 0.05, 0.2] {
                    let tried = Self { alpha, beta, gamma, ..base };
                    let loss = loss(&tried);
                    if loss < best.0 {
                        best = (loss, tried);
                    }
                }
            }
        }
        best.1
    }

    fn begin(&self, slots: &[Slot]) -> State {
        State { level: slots.first().map_or(0.0, |slot| slot.peak), trend: 0.0, season: vec![0.0; self.period] }
    }

    /// Takes in slot `at`.
    fn step(&self, state: &mut State, at: usize, slot: &Slot) {
        let Some(season) = state.season.get_mut(at % self.period.max(1)) else { return };
        let trend = self.phi * state.trend;
        let error = if slot.counted { slot.peak - (state.level + trend + *season) } else { 0.0 };
        state.level += trend + self.alpha * error;
        state.trend = trend + self.beta * error;
        *season += self.gamma * (1.0 - self.alpha) * error;
    }

    /// Forecast of slot `next + ahead − 1`, after all slots before `next`.
    fn say(&self, state: &State, next: usize, ahead: usize) -> f64 {
        let reach = self.phi * (1.0 - self.phi.powi(ahead as i32)) / (1.0 - self.phi).max(1e-9);
        let season = state.season.get((next + ahead - 1) % self.period.max(1)).copied().unwrap_or(0.0);
        state.level + reach * state.trend + season
    }

    fn fan(&self, state: &State, next: usize) -> Fan {
        Fan::of_points((1..=self.horizon).map(|ahead| self.say(state, next, ahead)).collect())
    }

    fn back(&self) -> usize {
        LOOK_BACK_DAYS as usize * self.period
    }
}

impl Forecaster for Smoothing {
    fn forecast(&self, seen: Seen<'_>) -> Result<Fan> {
        let now = seen.slots.len();
        let from = look_from(now, self.back());
        let slots = seen.slots.get(from..).unwrap_or_default();
        let mut state = self.begin(slots);
        for (at, slot) in slots.iter().enumerate() {
            self.step(&mut state, from + at, slot);
        }
        Ok(self.fan(&state, now))
    }

    fn forecasts(&self, series: &Series, origins: Range<usize>) -> Result<Vec<Fan>> {
        let mut fans = Vec::with_capacity(origins.len());
        let mut running: Option<(usize, State)> = None;
        for now in origins {
            let from = look_from(now, self.back());
            let slots = series.before(now);
            match &mut running {
                // The same look back as a forecast of its own: one slot more.
                Some((begun, state)) if *begun == from => {
                    if let Some((at, slot)) = now.checked_sub(1).and_then(|at| Some((at, slots.slots.get(at)?))) {
                        self.step(state, at, slot);
                    }
                    fans.push(self.fan(state, now));
                }
                _ => {
                    let recent = slots.slots.get(from..).unwrap_or_default();
                    let mut state = self.begin(recent);
                    for (at, slot) in recent.iter().enumerate() {
                        self.step(&mut state, from + at, slot);
                    }
                    fans.push(self.fan(&state, now));
                    running = Some((from, state));
                }
            }
        }
        Ok(fans)
    }
}

/// First slot of the look back: a multiple of its length, so that successive forecasts share it.
fn look_from(now: usize, back: usize) -> usize {
    (now / back.max(1)).saturating_sub(1) * back
}
