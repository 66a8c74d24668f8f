//! From what was studied to what the scheduler feels: rules fitted on each pool's own past, carried out in a replay of the jobs.
//!
//! The jobs are replayed once with all nodes powered. Each pool's demand in that replay, up to where the evaluation begins, is what rules are fitted
//! and chosen on ([`study`]); then the jobs are replayed under each plan, the rules now seeing the demand that their own doing has
//! made ([`resim`]). Waiting work counts as demand, and jobs that wait wake the nodes they need: no rule can strand a job.
//!
//! Worked example: a pool with 3 nodes busy and jobs for 1 more waiting, under a trailing maximum of half an hour and a buffer of 1, in which 5 were
//! busy 20 minutes ago: max(5, 3 + 1) + 1 = 6 nodes.

use std::sync::Arc;

use tracecast_predictors::demand::{Seen, Series, Slot};

use super::answer::Resimulated;
use super::ces::Thresholds;
use super::family::{Family, Setting};
use super::policy::Policy;
use super::reach::Reaching;
use super::resim::{self, Baseline, Constants, Plan, Rates};
use super::score::Worth;
use super::study::{self, Request};
use crate::error::Result;
use crate::sim;
use crate::sim::input::Loaded;
use crate::sim::power::Controller;

/// Idle time of the plain timeout that others are shown beside, seconds.
const TIMEOUT_S: f64 = 1800.0;

/// Slots that a boot takes beyond the one it is ordered for.
pub fn boot_slots(constants: &Constants, slot_ms: i64) -> usize {
    (constants.boot_s * 1000.0 / slot_ms.max(1) as f64).floor() as usize
}

/// A series whose demand holds what waits, too.
fn with_waiting(series: &Series) -> Series {
    let mut series = series.clone();
    for slot in &mut series.slots {
        slot.peak = asked(slot);
    }
    series
}

/// The trailing maximum of what is asked for, and a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Trailing {
    /// Slots of the maximum.
    pub slots: usize,
    /// Nodes.
    pub buffer: u32,
}

/// What a slot asks for: the busy nodes and those that waiting jobs need.
fn asked(slot: &Slot) -> f64 {
    (slot.peak + slot.pending).min(slot.total)
}

impl Policy for Trailing {
    fn name(&self) -> String {
        "trailing_maximum".to_owned()
    }

    fn target(&mut self, seen: Seen<'_>, _powered: f64) -> f64 {
        let from = seen.slots.len().saturating_sub(self.slots);
        let most = seen.slots.iter().skip(from).map(asked).fold(0.0, f64::max);
        most + f64::from(self.buffer)
    }
}

/// Our rule, which keeps what waiting jobs need on top of what it tells.
struct WithWaiting(Reaching);

impl Policy for WithWaiting {
    fn name(&self) -> String {
        self.0.name()
    }

    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64 {
        let waiting = seen.slots.last().map_or(0.0, asked);
        self.0.target(seen, powered).max(waiting)
    }
}

/// What is replayed, and how it is judged.
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    /// Jobs and nodes.
    pub loaded: &'a Loaded,
    /// How jobs are scheduled.
    pub policy: &'a sim::Policy,
    /// What nodes draw.
    pub constants: &'a Constants,
    /// What energy costs and emits.
    pub rates: Rates<'a>,
    /// What things are worth.
    pub worth: Worth,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// The evaluation begins here, milliseconds since the epoch.
    pub from_ms: i64,
    /// And ends here.
    pub to_ms: i64,
    /// IANA name of the zone.
    pub zone: &'a str,
    /// Of intervals and failed boots.
    pub seed: u64,
}

/// A controller for each pool: of its chosen trailing maximum, and of our rule where the pool's past allows one.
type Controllers = (Vec<Option<Controller>>, Vec<Option<Controller>>);

impl Replay<'_> {
    /// Replays the jobs under: always on, a timeout, the trailing maximum and our rule as chosen for each pool. With it come notes on pools that have
    /// too little past for a rule.
    ///
    /// # Errors
    /// As [`Baseline::of`].
    pub fn run(&self) -> Result<(Vec<Resimulated>, Vec<String>)> {
        let baseline = Baseline::of(resim::Setting {
            loaded: self.loaded,
            policy: self.policy,
            constants: self.constants,
            rates: self.rates,
            slot_ms: self.slot_ms,
            from_ms: Some(self.from_ms),
            to_ms: Some(self.to_ms),
            zone: self.zone,
            seed: self.seed,
        })?;
        let ((trailing, reach), notes) = self.controllers(&baseline);
        let plan =
            |name: &str, controllers| Plan { name: name.to_owned(), idle_s: None, wake_on_demand: true, controllers };
        let plans = [
            Plan::always_on(),
            Plan::timeout(TIMEOUT_S),
            plan("trailing maximum + buffer", trailing),
            plan("reach (ours)", reach),
        ];
        let effects = plans
            .into_iter()
            .map(|plan| {
                let replayed = baseline.effect(plan)?;
                let timeline = baseline.timeline(&replayed);
                Ok(Resimulated { effect: replayed.effect, timeline })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok((effects, notes))
    }

    fn controllers(&self, baseline: &Baseline<'_>) -> (Controllers, Vec<String>) {
        let boot_slots = boot_slots(self.constants, self.slot_ms);
        let mut both: Controllers = (Vec::new(), Vec::new());
        let mut notes = Vec::new();
        for series in &baseline.series {
            let slot = |ms: i64| usize::try_from((ms - series.start_ms).div_euclid(self.slot_ms)).unwrap_or(0);
            let (from, to) = (slot(self.from_ms), slot(self.to_ms).min(series.slots.len()));
            let request = Request {
                fit: 0..from,
                eval: from..to,
                families: vec![Family::TrailingMaximum, Family::Reach],
                boot_slots,
                weights: Vec::new(),
                constants: self.constants.clone(),
                worth: self.worth,
                ces: Thresholds::EARTH,
                budget: None,
                services: Vec::new(),
            };
            // A pool with too little past stays on.
            let studied = match study::study(&with_waiting(series), &request) {
                Ok(studied) => studied,
                Err(error) => {
                    notes.push(format!("{}: all its nodes stay on: {error}", series.name));
                    both.0.push(None);
                    both.1.push(None);
                    continue;
                }
            };
            let chosen = |family: Family| {
                studied.curves.iter().find(|curve| curve.family == family).map(|curve| curve.chosen.setting)
            };
            let mut own: Option<Box<dyn Policy>> = None;
            if let Some(Setting::TrailingMaximum { slots, buffer }) = chosen(Family::TrailingMaximum) {
                own = Some(Box::new(Trailing { slots, buffer }));
            }
            let controller =
                |policy: Option<Box<dyn Policy>>| policy.map(|policy| Controller { policy, history: Vec::new() });
            both.0.push(controller(own));
            let mut own: Option<Box<dyn Policy>> = None;
            if let Some(Setting::Reach(switches)) = chosen(Family::Reach) {
                own = Some(Box::new(WithWaiting(Reaching::new(Arc::new(studied.reach), switches))));
            }
            both.1.push(controller(own));
        }
        (both, notes)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use tracecast_predictors::demand::Unit;

    use super::*;

    #[test]
    fn the_worked_example() {
        let slot = |peak: f64, pending: f64| Slot { peak, last: peak, mean: peak, pending, total: 8.0, counted: true };
        let series = Series {
            name: "pool".to_owned(),
            unit: Unit::Nodes,
            counts_pending: true,
            start_ms: 0,
            slot_ms: 600_000,
            zone: "UTC".to_owned(),
            slots: vec![slot(7.0, 0.0), slot(5.0, 0.0), slot(3.0, 0.0), slot(3.0, 1.0)],
        };
        let mut rule = Trailing { slots: 3, buffer: 1 };
        assert_eq!(rule.target(series.before(4), 8.0), 6.0);
        // The seven of half an hour and more ago no longer count; with one slot more of memory they would.
        assert_eq!(Trailing { slots: 4, buffer: 1 }.target(series.before(4), 8.0), 8.0);
    }
}
