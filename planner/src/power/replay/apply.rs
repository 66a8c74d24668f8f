//! From what was chosen to what the scheduler feels: the chosen rules, carried out in a replay of the jobs.
//!
//! The jobs are replayed with all nodes powered, and then under each plan, each pool with **the
//! rule that was [chosen](crate::power::study) for it**: the same setting, fitted on the same days,
//! chosen for the same service, boots and prices. Nothing is chosen here. The rules now see the
//! demand that their own doing has made ([`resim`]); waiting work counts as demand, and jobs that
//! wait wake the nodes they need: no rule can strand a job. Beside them run the trailing maximum
//! and the timeout chosen in the same way, and what `slurm.conf` is told, node by node.
//!
//! Worked example: a pool with 3 nodes busy and jobs for 1 more waiting, under a trailing maximum of half an hour and a buffer of 1, in which 5 were
//! busy 20 minutes ago: max(5, 3 + 1) + 1 = 6 nodes.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_predictors::demand::{Seen, Slot};

use super::resim::{self, Baseline, HourlyRates, Moment, Plan, PowerEffect};
use crate::error::Result;
use crate::plan::emit::slurm::hosts::deal;
use crate::power::rule::family::Family;
use crate::power::rule::{Past, Rule, Setting};
use crate::power::score::boot::{Boots, slots_booting};
use crate::power::score::constants::Constants;
use crate::power::score::service::Service;
use crate::power::study::promise::{Guard, Ledger};
use crate::power::study::{Studied, asked};
use crate::replay::input::Loaded;
use crate::sim;
use crate::sim::power::PowerPolicy as Policy;
use crate::sim::power::{Controller, Timeout};
use tracecast_predictors::demand::reach::{Reach, ReachNow};

/// The rule that a pool followed in a replay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Followed {
    /// The pool of the replay: its VC.
    pub pool: String,
    /// The rule and its parameters, as chosen; `null` if there was none, so that its nodes stayed on.
    pub setting: Option<Setting>,
}

/// A re-simulated plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Resimulated {
    /// Effect of the plan.
    #[serde(flatten)]
    pub effect: PowerEffect,
    /// What each pool followed.
    pub rules: Vec<Followed>,
    /// Busy, pending and powered nodes by slot.
    pub timeline: Vec<Moment>,
}

/// What a rule is told as a slot of a replay begins, or of a cluster that runs.
struct SoFar<'a> {
    seen: Seen<'a>,
    watch: &'a ReachNow,
}

impl Past for SoFar<'_> {
    fn there(&self) -> f64 {
        self.seen.slots.last().map_or(0.0, |slot| slot.total)
    }

    fn asked(&self, ago: usize) -> f64 {
        self.seen.slots.iter().rev().nth(ago).or(self.seen.slots.first()).map_or(0.0, asked)
    }

    fn most(&self, slots: usize) -> f64 {
        self.seen.slots.iter().rev().take(slots).map(asked).fold(0.0, f64::max)
    }

    fn in_use(&self) -> f64 {
        self.watch.in_use()
    }

    fn next(&self, chance: f32) -> Option<f64> {
        self.watch.reached(self.watch.first(), chance)
    }

    fn within(&self, slots: usize, chance: f32) -> Option<f64> {
        self.watch.reached(slots, chance)
    }

    fn slot_ms(&self) -> i64 {
        self.seen.series.slot_ms
    }
}

/// A [rule](crate::power::rule) that is asked slot by slot. It keeps what waiting jobs need,
/// whatever it tells of levels of busy nodes.
struct Asked {
    setting: Setting,
    rule: Rule,
    watch: ReachNow,
}

impl Policy for Asked {
    fn name(&self) -> String {
        Family::of(&self.setting).name().to_owned()
    }

    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64 {
        let Some(last) = seen.slots.last() else { return powered };
        if Family::of(&self.setting).learns() {
            self.watch.look(seen);
        }
        let order = self.rule.order(&SoFar { seen, watch: &self.watch }, powered);
        (order + self.setting.buffer()).max(asked(last))
    }
}

/// A rule under the guard of its promise: from the beginning of the promised time on it keeps the account of what the replay leaves unserved and wakes.
struct Guarded {
    rule: Asked,
    guard: Guard,
    service: Service,
    /// The promise is for so many days from here on, milliseconds since the epoch.
    from_ms: i64,
    days: f64,
    left: Option<(Ledger, Boots)>,
    /// Nodes that were ordered last, and how many of them were to be woken.
    ordered: (f64, f64),
}

impl Policy for Guarded {
    fn name(&self) -> String {
        self.rule.name()
    }

    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64 {
        let wished = self.rule.target(seen, powered);
        let (Some((last, before)), recent_slots) = (seen.slots.split_last(), self.guard.recent_slots) else {
            return wished;
        };
        if seen.series.time_ms(seen.slots.len()) < self.from_ms {
            self.ordered = (wished, 0.0);
            return wished;
        }
        let most = |slots: &[Slot]| slots.iter().rev().take(recent_slots).map(asked).fold(0.0, f64::max);
        let left = match self.left.take() {
            None => (
                self.guard.ledger(&self.service, self.days),
                Boots::new(self.guard.boot_slots, powered.min(last.total)),
            ),
            Some((mut left, mut boots)) => {
                let (ordered, woken) = self.ordered;
                // Jobs that wait wake what they need, beyond what was ordered.
                let on_demand = (powered - ordered).max(0.0);
                let joined = (last.total - before.last().map_or(last.total, |slot| slot.total)).max(0.0);
                let unserved = boots.unserved(ordered.min(last.total), joined, asked(last));
                // Above what was known when the nodes were ordered that have to be ready.
                let known = |earlier: usize| before.get(..before.len().saturating_sub(earlier)).unwrap_or_default();
                let lags = 0..=slots_booting(self.guard.boot_slots);
                let risen = lags.map(|earlier| asked(last) - most(known(earlier))).fold(0.0, f64::max);
                left.book(unserved, woken + on_demand, risen * self.guard.margin);
                (left, boots)
            }
        };
        let order = self.guard.order(&left.0, wished, most(seen.slots), (last.total, left.1.ready()));
        self.ordered = (order, (order - powered).max(0.0));
        self.left = Some(left);
        order
    }
}

/// A setting as a policy of the replay; `None` of what is no policy: a rule that knows the future, or one that a scheduler carries out itself.
pub fn policy(setting: &Setting, reach: &Arc<Reach>) -> Option<Box<dyn Policy>> {
    asked_by(setting, reach).map(|asked| Box::new(asked) as Box<dyn Policy>)
}

fn asked_by(setting: &Setting, reach: &Arc<Reach>) -> Option<Asked> {
    let setting = *setting;
    let eligible = Family::of(&setting).eligible();
    eligible.then(|| Asked { setting, rule: Rule::new(setting), watch: ReachNow::new(Arc::clone(reach)) })
}

/// What is followed of a series as a policy of the replay, under the guard of its promise if one was made.
fn followed(study_result: &Studied) -> Option<Box<dyn Policy>> {
    let rule = asked_by(&study_result.followed(), &Arc::new(study_result.reach.clone()))?;
    let Some((promise, guard)) = study_result.promise.zip(study_result.guard) else { return Some(Box::new(rule)) };
    let (service, from_ms, days) = (promise.asked, study_result.from_ms, study_result.days[2]);
    Some(Box::new(Guarded { rule, guard, service, from_ms, days, left: None, ordered: (f64::MAX, 0.0) }))
}

/// What is replayed, and how it is judged.
#[derive(Debug, Clone)]
pub struct ReplayCase<'a> {
    /// Jobs and nodes.
    pub loaded: &'a Loaded,
    /// How jobs are scheduled.
    pub policy: &'a sim::Policy,
    /// Power of nodes.
    pub constants: &'a Constants,
    /// Price and emissions of energy.
    pub rates: HourlyRates<'a>,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// The evaluation begins here, milliseconds since the epoch.
    pub from_ms: i64,
    /// End of the evaluation, milliseconds since the epoch.
    pub to_ms: i64,
    /// IANA name of the zone.
    pub zone: &'a str,
    /// Seed of intervals and failed boots.
    pub seed: u64,
}

/// Rules that were chosen.
#[derive(Debug, Clone, Copy)]
pub struct ChosenRules<'a> {
    /// Choice for all nodes as one pool.
    pub pool: &'a Studied,
    /// Choice for each VC.
    pub vcs: &'a [Studied],
    /// Whether `slurm.conf` is told the timeouts of VCs, and not that of the pool for all nodes.
    pub slurm_by_vc: bool,
}

impl<'a> ChosenRules<'a> {
    /// What was chosen for a pool of the replay: for its VC, or, where the replay has but one pool, for all nodes.
    fn of(&self, name: &str, pools: usize) -> Option<&'a Studied> {
        let vc = self.vcs.iter().find(|study_result| study_result.name == name);
        vc.or_else(|| (pools == 1).then_some(self.pool))
    }
}

impl ReplayCase<'_> {
    /// Replays the jobs under: always on, the chosen rules, the trailing maximum and the timeout chosen in the same way, and the timeouts of
    /// `slurm.conf`. With it come notes on pools for which nothing was chosen.
    ///
    /// # Errors
    /// Errors of [`Baseline::new`].
    pub fn run(&self, chosen: &ChosenRules<'_>) -> Result<(Vec<Resimulated>, Vec<String>)> {
        let baseline = Baseline::new(resim::ReplaySetting {
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
        let pools: Vec<(&str, Option<&Studied>)> = baseline
            .series
            .iter()
            .map(|series| (series.name.as_str(), chosen.of(&series.name, baseline.series.len())))
            .collect();
        let missing = pools.iter().filter(|(_, study_result)| study_result.is_none());
        let notes = missing
            .map(|(name, _)| format!("{name}: all its nodes stay on in the replay, as nothing could be chosen for it."))
            .collect();
        // Replays a rule, or what is followed if `of` is `None`.
        let ruled = |name: &str, of: Option<Family>| {
            let setting = |study_result: &Studied| match of {
                Some(family) => study_result.curve(family).map(|curve| curve.chosen.setting),
                None => Some(study_result.followed()),
            };
            let settings: Vec<Option<Setting>> = pools
                .iter()
                .map(|(_, study_result)| study_result.as_ref().and_then(|study_result| setting(study_result)))
                .collect();
            let controllers = pools.iter().zip(&settings).map(|((_, study_result), setting)| {
                let study_result = study_result.as_ref()?;
                let policy = match of {
                    Some(_) => policy(setting.as_ref()?, &Arc::new(study_result.reach.clone()))?,
                    None => followed(study_result)?,
                };
                Some(Controller { policy, history: Vec::new() })
            });
            let plan = Plan {
                name: name.to_owned(),
                idle_s: None,
                by_pool: Vec::new(),
                wake_on_demand: true,
                controllers: controllers.collect(),
            };
            (plan, settings)
        };
        let promised = pools
            .iter()
            .any(|(_, study_result)| study_result.is_some_and(|study_result| study_result.promise.is_some()));
        let led = if promised { "chosen beforehand, under the guard of the promise" } else { "chosen beforehand" };
        let plans = [
            (Plan::always_on(), vec![Some(Setting::AlwaysOn); pools.len()]),
            ruled(led, None),
            ruled("trailing maximum + buffer", Some(Family::TrailingMaximum)),
            ruled("timeout", Some(Family::Timeout)),
            self.slurm(chosen, &pools, &baseline),
        ];
        let effects = plans
            .into_iter()
            .map(|(plan, settings)| {
                let replayed = baseline.effect(plan)?;
                let timeline = baseline.timeline(&replayed);
                let rules = pools.iter().zip(settings);
                let rules = rules.map(|((name, _), setting)| Followed { pool: (*name).to_owned(), setting });
                Ok(Resimulated { effect: replayed.effect, rules: rules.collect(), timeline })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok((effects, notes))
    }

    /// The timeouts that `slurm.conf` is told, node by node and without a reserve.
    fn slurm(
        &self,
        chosen: &ChosenRules<'_>,
        pools: &[(&str, Option<&Studied>)],
        baseline: &Baseline<'_>,
    ) -> (Plan, Vec<Option<Setting>>) {
        // One list of idle nodes for the whole cluster is shared by its pools.
        let sizes: Vec<usize> = baseline.nodes().into_iter().map(|nodes| nodes as usize).collect();
        let shares = deal(chosen.pool.slurm().1 as usize, &sizes).into_iter().map(|share| share as u32);
        let of = |(study_result, share): (Option<&Studied>, u32)| match (study_result, chosen.slurm_by_vc) {
            (Some(study_result), true) => Some(study_result.slurm()),
            (None, true) => None,
            (_, false) => Some((chosen.pool.slurm().0, share)),
        };
        let told: Vec<Option<(u32, u32)>> =
            pools.iter().map(|(_, study_result)| *study_result).zip(shares).map(of).collect();
        let by_pool = told.iter().map(|told| match told {
            Some((idle_s, keep_idle)) => {
                Timeout { idle_ms: Some(i64::from((*idle_s).max(1)) * 1000), keep_idle: *keep_idle }
            }
            None => Timeout::default(),
        });
        let setting = |(idle_s, keep_idle): (u32, u32)| Setting::IdleTimeout {
            slots: usize::try_from(i64::from(idle_s) * 1000 / self.slot_ms.max(1)).unwrap_or(0),
            keep_idle,
        };
        let plan = Plan {
            name: "slurm.conf as emitted".to_owned(),
            idle_s: None,
            by_pool: by_pool.collect(),
            wake_on_demand: true,
            controllers: Vec::new(),
        };
        (plan, told.into_iter().map(|told| told.map(setting)).collect())
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::time::HOUR_MS;

    use super::*;
    use crate::power::made::{self, Known};
    use tracecast_predictors::demand::reach::horizons;

    #[test]
    fn the_worked_example() {
        let mut series = made::series([7.0, 5.0, 3.0, 3.0].map(|peak| (peak, 8.0)));
        (series.counts_pending, series.slot_ms, series.slots[3].pending) = (true, 600_000, 1.0);
        let nothing = Arc::new(Reach::fit(&series, 0..0, &[]).unwrap());
        let target = |setting| policy(&setting, &nothing).unwrap().target(series.before(4), 8.0);
        assert_eq!(target(Setting::TrailingMaximum { slots: 3, buffer: 1 }), 6.0);
        // The seven of half an hour and more ago no longer count; with one slot more of memory they would.
        assert_eq!(target(Setting::TrailingMaximum { slots: 4, buffer: 1 }), 8.0);
    }

    /// Demand that jumps now and then, with a promise that is short of both: nodes sleep, and the
    /// account is that of the guard.
    #[test]
    fn under_a_promise_a_replay_orders_what_the_guard_does() {
        let slot = |at: usize| (8.0 + (at * 7 % 5) as f64 + if at.is_multiple_of(17) { 6.0 } else { 0.0 }, 20.0);
        let series = made::series((0..400).map(slot));
        let range = 200..400;
        let known = Known::of(&series);
        let mut stretch = known.stretch(range.clone(), 20.0);
        let boot_slots = 1.5;
        stretch.demand.boot_slots = boot_slots;
        let setting = Setting::TrailingMaximum { slots: 3, buffer: 0 };
        let service = Service { unserved_per_day: 6.0, node_wakes_per_day: 20.0 };
        let guard = Guard::learn((&known.need, &known.total), 0..range.start, (6, boot_slots), range.len(), HOUR_MS);
        let (orders, buffer) = stretch.orders(&setting);
        let wished: Vec<f64> = orders.into_iter().map(|order| order + buffer).collect();
        let kept = guard.keep(&stretch, &wished, &service).orders;
        let nothing = Arc::new(Reach::fit(&series, 0..0, &[]).unwrap());
        let mut policy = Guarded {
            rule: asked_by(&setting, &nothing).unwrap(),
            guard,
            service,
            from_ms: series.time_ms(range.start),
            days: stretch.demand.days(),
            left: None,
            ordered: (f64::MAX, 0.0),
        };
        let mut powered = 20.0;
        for (slot, order) in range.zip(&kept) {
            let result = policy.target(series.before(slot), powered);
            assert_eq!(result, *order, "slot {slot}");
            powered = result;
        }
        assert!(kept.iter().any(|order| *order < 20.0), "{kept:?}");
    }

    /// Whatever a rule is, and whatever its parameters: asked slot by slot it orders what it is scored by over the stretch, and never less than is
    /// in use or waits.
    #[test]
    fn each_rule_orders_in_a_replay_what_it_is_scored_by() {
        let slot = |at: usize| {
            let peak = (10 + at * 7 % 13 + 5 * usize::from(at % 24 > 8)) as f64;
            (peak, if at < 150 { 60.0 } else { 64.0 })
        };
        let series = made::series((0..200).map(slot));
        let range = 140..200;
        let reach = Arc::new(Reach::fit(&series, 0..range.start, &horizons(HOUR_MS, 0)).unwrap());
        let mut known = Known::of(&series);
        known.readings = reach.read(&series, range.clone()).unwrap();
        let stretch = known.stretch(range.clone(), 60.0);
        let mut asked = 0;
        for family in Family::ALL.into_iter().filter(|family| family.eligible()) {
            let settings: Vec<Setting> = stretch.sweep(family).into_iter().map(|scored| scored.setting).collect();
            for setting in settings.iter().step_by(settings.len() / 20 + 1) {
                let mut policy = policy(setting, &reach).unwrap();
                let (orders, buffer) = stretch.orders(setting);
                for (slot, order) in range.clone().zip(orders) {
                    let result = policy.target(series.before(slot), 60.0);
                    assert_eq!(result, (order + buffer).max(known.need[slot - 1]), "{setting:?}, slot {slot}");
                }
                asked += 1;
            }
        }
        assert!(asked > 50, "{asked} settings");
    }
}
