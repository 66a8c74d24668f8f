//! What a power policy does to jobs and energy: the scheduler runs again with the powered nodes as its capacity.
//!
//! [`Baseline::new`] replays a workload on nodes that are always on; [`Baseline::effect`] replays
//! the same jobs under a
//! [`Plan`] (a timeout, wake on demand, a controller for each pool, or several of them) and says what changed, job by
//! job and joule by joule, within a window.
//!
//! * **Energy saved** is asleep node-time × (P_idle − P_off) less what boots and shutdowns draw above idle power, times
//!   the marginal PUE. Energy of running jobs is left out: they run equally long. What idle power that was saved is
//!   said as well, and the share of the offline optimum ([`Optimum`]) with every job when the plan ran it: at the service that the plan delivered. An
//!   optimum that runs jobs sooner is another one, and given beside it.
//! * **Unserved node-slots**: Σ over slots and pools of max(0, u − A); u is the largest number of nodes always-on
//!   replay had busy in the slot, A the number powered at its beginning, after that moment's events (a node that boots
//!   is not).
//! * **Added wait** of a job is its wait less its wait on nodes that are always on. Jobs queue, so the delay of one can
//!   be the gain of another: jobs that wait longer and shorter are counted apart.
//!
//! O(replay + hours × nodes). Deterministic for a seed.
//!
//! Worked example: one node of 1,240 W idle and 20 W off, 5 min to boot and 1 min to shut down at idle power; a job of
//! an hour at 0:00 and one at 6:00. Timeout 30 min: the node shuts down at 1:30, is asleep from 1:31 to 6:00 (269 min)
//! and boots until 6:05: 269 / 60 h · 1.22 kW = 5.47 kWh saved, the second job waits 5 min longer. The optimum sleeps
//! from 1:01 to 5:55 (294 min); with the second job 5 min late, until 6:00 (299 min).

mod account;
mod bound;
mod effect;

use tracecast_analytics::KWH_J;
use tracecast_analytics::stats::quantile;
use tracecast_analytics::time::{DAY_MS, HOUR_MS};
use tracecast_predictors::demand::Series;

use account::Blocks;
pub use account::{HourlyRates, PerHour};
pub use effect::{JobEffect, Moment, NodeHours, Optimum, PoolEffect, PowerEffect, Valued};

use crate::error::{Error, Result};
use crate::power::score::constants::Constants;
use crate::replay::compare::{IntervalEstimate, compare};
use crate::replay::input::Loaded;
use crate::replay::metric::JobTimes;
use crate::sim::power::{Controller, Record, Rules, State, Supervisor, Timeout, boots, durations};
use crate::sim::{Cluster, Group, Policy, Schedule, simulate_powered};

/// Waits that differ by less are the same, milliseconds.
const SAME_MS: i64 = 1000;

/// What is replayed, and over which time its effect is taken.
#[derive(Debug, Clone)]
pub struct ReplaySetting<'a> {
    /// Jobs and nodes.
    pub loaded: &'a Loaded,
    /// How jobs are scheduled.
    pub policy: &'a Policy,
    /// Power of nodes.
    pub constants: &'a Constants,
    /// Price and emissions of energy.
    pub rates: HourlyRates<'a>,
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// The effect is taken from here, milliseconds since the epoch; `None`: from the beginning.
    pub from_ms: Option<i64>,
    /// To here; `None`: to the end of the slot of the last submission. Jobs count that are submitted in between.
    pub to_ms: Option<i64>,
    /// IANA name of the zone whose clock controllers are told of.
    pub zone: &'a str,
    /// Seed of failed boots and of intervals.
    pub seed: u64,
}

/// A plan that puts nodes to sleep and wakes them.
#[derive(Debug)]
pub struct Plan {
    /// Name of the plan.
    pub name: String,
    /// A node without a job for so long is put to sleep, seconds; `None`: no timeout.
    pub idle_s: Option<f64>,
    /// By pool, its own timeout and the idle nodes that are left; empty: the same for all.
    pub by_pool: Vec<Timeout>,
    /// Whether waiting jobs wake the nodes they need.
    pub wake_on_demand: bool,
    /// Controllers by pool; may be empty.
    pub controllers: Vec<Option<Controller>>,
}

impl Plan {
    /// Nodes sleep after so many idle seconds, and waiting jobs wake them.
    pub fn timeout(idle_s: f64) -> Self {
        let name = format!("timeout {} min", idle_s / 60.0);
        Self { name, idle_s: Some(idle_s), by_pool: Vec::new(), wake_on_demand: true, controllers: Vec::new() }
    }

    /// Nothing ever sleeps.
    pub fn always_on() -> Self {
        Self {
            name: "always on".to_owned(),
            idle_s: None,
            by_pool: Vec::new(),
            wake_on_demand: false,
            controllers: Vec::new(),
        }
    }
}

/// What a node did, from when on.
type States = Vec<(i64, State)>;

/// The replay on nodes that are always on.
#[derive(Debug)]
pub struct Baseline<'a> {
    setting: ReplaySetting<'a>,
    /// When and where jobs ran.
    pub schedule: Schedule,
    /// Busy nodes and pending work by pool, slot by slot, from time 0 on.
    pub series: Vec<Series>,
    times: JobTimes,
    states: Vec<States>,
    busy: Vec<Vec<(i64, i64)>>,
    /// Milliseconds of the replay.
    window: (i64, i64),
    /// The first node of each pool, and how many nodes there are.
    firsts: Vec<u32>,
}

/// A replay under a plan.
#[derive(Debug)]
pub struct ReplayedPlan {
    /// When and where jobs ran.
    pub schedule: Schedule,
    /// When nodes slept.
    pub record: Record,
    /// Effect of the plan.
    pub effect: PowerEffect,
}

impl<'a> Baseline<'a> {
    /// Replays on nodes that are always on.
    ///
    /// # Errors
    /// Errors of [`simulate_powered`]; if the constants mean nothing, or the window is empty.
    pub fn new(setting: ReplaySetting<'a>) -> Result<Self> {
        setting.constants.validate()?;
        let Loaded { workload, cluster, .. } = setting.loaded;
        if setting.slot_ms <= 0 {
            return Err(Error::policy("a slot must be longer than nothing"));
        }
        let slots = |ms: i64| ms.div_euclid(setting.slot_ms) * setting.slot_ms;
        let last = workload.submit_ms.last().copied().unwrap_or(0).max(0);
        let from_ms = setting.from_ms.map_or(0, |at| slots(at - workload.origin_ms).max(0));
        let to_ms = setting.to_ms.map_or(slots(last) + setting.slot_ms, |at| slots(at - workload.origin_ms));
        if to_ms <= from_ms {
            return Err(Error::NothingToEvaluate("the window of the effect is empty; give a later end".to_owned()));
        }
        let rules = Rules { until_ms: to_ms, ..rules(&setting, None, false) };
        let mut supervisor = Supervisor::reactive(rules);
        let (schedule, record) = simulate_powered(workload, cluster, setting.policy, &mut supervisor)?;
        Ok(Self {
            times: JobTimes::new(workload, &schedule)?,
            series: record.pools.iter().map(|pool| pool.seen.clone()).collect(),
            busy: bound::busy(&schedule, record.nodes),
            firsts: firsts(cluster),
            states: record.by_node(),
            window: (from_ms, to_ms),
            setting,
            schedule,
        })
    }

    /// Nodes of each pool.
    pub fn nodes(&self) -> Vec<u32> {
        self.firsts
            .windows(2)
            .map(|pair| pair.iter().rev().copied().reduce(|end, from| end - from).unwrap_or(0))
            .collect()
    }

    /// Replays under a plan and says what changes.
    ///
    /// # Errors
    /// Errors of [`simulate_powered`].
    pub fn effect(&self, plan: Plan) -> Result<ReplayedPlan> {
        let Loaded { workload, cluster, .. } = self.setting.loaded;
        let by_pool = plan.by_pool;
        let rules =
            Rules { until_ms: self.window.1, by_pool, ..rules(&self.setting, plan.idle_s, plan.wake_on_demand) };
        let mut supervisor = Supervisor { rules, controllers: plan.controllers };
        let (schedule, record) = simulate_powered(workload, cluster, self.setting.policy, &mut supervisor)?;
        let effect = self.compare(plan.name, &schedule, &record)?;
        Ok(ReplayedPlan { schedule, record, effect })
    }

    /// Busy, pending and powered nodes by slot of the window, for charts.
    pub fn timeline(&self, replayed: &ReplayedPlan) -> Vec<Moment> {
        let slots = self.slots();
        let pools = 0..self.firsts.len().saturating_sub(1);
        let states = replayed.record.by_node();
        let powered: Vec<Vec<(u32, u32)>> =
            pools.map(|pool| self.powered(entries(&states, self.nodes_of(pool)))).collect();
        let origin_ms = self.setting.loaded.workload.origin_ms;
        let moment = |slot: usize| {
            let seen = |of: fn(&tracecast_predictors::demand::Slot) -> f64| -> f64 {
                let of_pool = |pool: &crate::sim::power::PoolRecord| pool.seen.slots.get(pool.history + slot).map(of);
                replayed.record.pools.iter().filter_map(of_pool).sum()
            };
            let at = |of: fn(&(u32, u32)) -> u32| {
                powered.iter().filter_map(|pool| pool.get(slot - slots.start)).map(of).sum()
            };
            Moment {
                at_ms: origin_ms + slot as i64 * self.setting.slot_ms,
                busy: seen(|slot| slot.peak),
                pending: seen(|slot| slot.pending),
                powered: at(|counts| counts.0),
                on: at(|counts| counts.1),
            }
        };
        slots.clone().map(moment).collect()
    }

    /// Slots of the window.
    fn slots(&self) -> std::ops::Range<usize> {
        let at = |ms: i64| usize::try_from(ms / self.setting.slot_ms).unwrap_or(0);
        at(self.window.0)..at(self.window.1)
    }

    fn nodes_of(&self, pool: usize) -> std::ops::Range<usize> {
        let at = |pool: usize| self.firsts.get(pool).map_or(self.states.len(), |first| *first as usize);
        at(pool)..at(pool + 1)
    }

    /// Nodes of a pool powered, and powered or booting, at the beginning of each slot of the window.
    fn powered(&self, nodes: &[States]) -> Vec<(u32, u32)> {
        let slots = self.slots();
        let mut counts = vec![(0, 0); slots.len()];
        // The first slot that begins at or after a moment.
        let first = |ms: i64| {
            let at = ms.div_euclid(self.setting.slot_ms) + i64::from(ms.rem_euclid(self.setting.slot_ms) != 0);
            usize::try_from(at).unwrap_or(0).clamp(slots.start, slots.end) - slots.start
        };
        for states in nodes {
            let ends = states.iter().skip(1).map(|(at, _)| *at).chain([self.window.1]);
            for ((at, state), end) in states.iter().zip(ends) {
                let (powered, on) = match state {
                    State::Powered => (1, 1),
                    State::Booting => (0, 1),
                    _ => continue,
                };
                let (from, to) = (first(*at), first(end.min(self.window.1)));
                for count in counts.get_mut(from..to).unwrap_or_default() {
                    *count = (count.0 + powered, count.1 + on);
                }
            }
        }
        counts
    }

    fn compare(&self, name: String, schedule: &Schedule, record: &Record) -> Result<PowerEffect> {
        let ReplaySetting { loaded, constants, rates, seed, .. } = &self.setting;
        let (workload, (from_ms, to_ms)) = (&loaded.workload, self.window);
        let days = (to_ms - from_ms) as f64 / DAY_MS as f64;
        let mut blocks = Blocks::new(from_ms, to_ms);
        let states = record.by_node();
        account::energy(&states, constants, rates, workload.origin_ms, self.window, &mut blocks);
        let pools = self.pools(&states, &mut blocks);
        let times = JobTimes::new(workload, schedule)?;
        let mut jobs = self.jobs(&times, &mut blocks);
        let total = blocks.total();

        let busy = bound::busy(schedule, record.nodes);
        let busy_ms =
            |busy: &[Vec<(i64, i64)>]| -> i64 { busy.iter().map(|node| bound::within(node, from_ms, to_ms)).sum() };
        let (busy_ms, busy_before_ms) = (busy_ms(&busy), busy_ms(&self.busy));
        let [powered, shutting, asleep, booting, out] = durations(&states, from_ms, to_ms);
        let before = durations(&self.states, from_ms, to_ms);
        let hours = |ms: i64| ms as f64 / HOUR_MS as f64;
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let idle_before_ms = before[State::Powered as usize] - busy_before_ms;
        let active_w = constants.active_w.unwrap_or(constants.idle_w);
        let kwh = |watts: f64, ms: i64| watts * hours(ms) / 1000.0;
        let power = |energy_j: f64, time_s: f64| if time_s > 0.0 { energy_j / time_s } else { 0.0 };

        // With jobs at the times they have always on, and at those that the plan gave them.
        let (optimum, as_served) = (self.bound(&self.busy), self.bound(&busy));
        let break_even_s = constants.break_even_s();
        let metered = |joules: f64| joules * constants.pue_marginal / KWH_J;
        let bound = |result: bound::Bound| Optimum {
            break_even_s: break_even_s.is_finite().then_some(break_even_s),
            energy_saved_kwh: metered(result.saved_j),
            nodes_asleep_mean: result.asleep_ms as f64 / (to_ms - from_ms) as f64,
            node_wakes_per_day: result.wakes as f64 / days,
        };
        let per_day = |sums: &account::Sums, value: f64| share(value, sums.days());
        let mean_s = |sums: &account::Sums, ms: i64| (sums.jobs > 0).then(|| ms as f64 / sums.jobs as f64 / 1000.0);
        let [asleep_mean, wakes, unserved, saved, cost, co2, wait, jct, delayed] = blocks.estimates(*seed, |sums| {
            [
                share(sums.asleep_ms as f64, sums.span_ms as f64),
                per_day(sums, sums.wakes as f64),
                per_day(sums, sums.unserved),
                Some(sums.scaled(metered(sums.saved_j), days)),
                Some(sums.scaled(sums.cost, days)),
                Some(sums.scaled(sums.co2_kg, days)),
                mean_s(sums, sums.added_wait_ms),
                mean_s(sums, sums.added_jct_ms),
                share(sums.delayed as f64, sums.jobs as f64),
            ]
        });
        (jobs.added_wait_mean_s, jobs.added_jct_mean_s, jobs.delayed_share) = (wait, jct, delayed);
        let compared = compare(workload, &[("always on", &self.times), (&name, &times)], *seed)?;
        jobs.distribution = compared.differences.into_iter().next();
        let valued = |known: bool, value: Option<IntervalEstimate>, covered_j: f64| {
            let covered_share = share(covered_j, total.saved_j * constants.pue_marginal);
            value.filter(|_| known).map(|value| Valued { value, covered_share })
        };
        Ok(PowerEffect {
            name,
            from_ms: workload.origin_ms + from_ms,
            to_ms: workload.origin_ms + to_ms,
            days,
            nodes: record.nodes,
            nodes_asleep_mean: asleep_mean,
            node_hours: NodeHours {
                busy: hours(busy_ms),
                idle: hours(powered - busy_ms),
                booting: hours(booting),
                shutting_down: hours(shutting),
                asleep: hours(asleep),
                out: hours(out),
            },
            node_utilisation_before: share(busy_before_ms as f64, before[State::Powered as usize] as f64),
            node_utilisation_after: share(busy_ms as f64, (powered + booting + shutting) as f64),
            node_wakes_per_day: wakes,
            most_wakes_of_a_node_a_day: most_wakes(&states, self.window),
            failed_boots: boots(&states).filter(|boot| boot.again && (from_ms..to_ms).contains(&boot.at_ms)).count()
                as u64,
            unserved_node_slots: total.unserved,
            unserved_node_slots_per_day: unserved,
            energy_saved_kwh: saved,
            node_energy_saved_kwh: total.saved_j / KWH_J,
            switching_kwh: kwh(power(constants.boot_j, constants.boot_s), booting)
                + kwh(power(constants.shutdown_j, constants.shutdown_s), shutting),
            baseline_kwh: kwh(constants.idle_w, idle_before_ms) + kwh(active_w, busy_before_ms),
            idle_energy_saved_share: share(total.saved_j / KWH_J, kwh(constants.idle_w, idle_before_ms)),
            cost_saved: valued(rates.price_per_kwh.is_some(), cost, total.priced_j),
            co2_saved_kg: valued(rates.co2_kg_per_kwh.is_some(), co2, total.rated_j),
            offline_optimum: bound(optimum),
            optimum_at_service: bound(as_served),
            share_of_optimum: share(total.saved_j, as_served.saved_j),
            jobs,
            pools,
            block: blocks.unit().to_owned(),
            blocks: blocks.sums.len() as u64,
        })
    }

    /// The most that could be saved while nodes are busy at these times, each pool for itself.
    fn bound(&self, busy: &[Vec<(i64, i64)>]) -> bound::Bound {
        let mut sum = bound::Bound::default();
        for pool in 0..self.firsts.len().saturating_sub(1) {
            let (busy, states) = (entries(busy, self.nodes_of(pool)), entries(&self.states, self.nodes_of(pool)));
            sum.add(bound::optimum(busy, states, self.window, self.setting.constants));
        }
        sum
    }

    /// Pools, and their shortage in its blocks.
    fn pools(&self, states: &[States], blocks: &mut Blocks) -> Vec<PoolEffect> {
        let (from_ms, to_ms) = self.window;
        let days = (to_ms - from_ms) as f64 / DAY_MS as f64;
        let span = (to_ms - from_ms) as f64;
        let mut pools = Vec::new();
        for (pool, series) in self.series.iter().enumerate() {
            let nodes = self.nodes_of(pool);
            let (states, busy) = (entries(states, nodes.clone()), entries(&self.busy, nodes.clone()));
            let mut unserved = 0.0;
            for ((slot, powered), at) in self.slots().zip(self.powered(states)).zip(0i64..) {
                let needed = series.slots.get(slot).map_or(0.0, |slot| slot.peak);
                let short = (needed - f64::from(powered.0)).max(0.0);
                unserved += short;
                blocks.at(from_ms + at * self.setting.slot_ms).into_iter().for_each(|sums| sums.unserved += short);
            }
            let wakes = boots(states).filter(|boot| !boot.again && (from_ms..to_ms).contains(&boot.at_ms)).count();
            let busy_ms: i64 = busy.iter().map(|node| bound::within(node, from_ms, to_ms)).sum();
            pools.push(PoolEffect {
                name: series.name.clone(),
                nodes: nodes.len() as u32,
                nodes_asleep_mean: durations(states, from_ms, to_ms)[State::Asleep as usize] as f64 / span,
                nodes_busy_mean: busy_ms as f64 / span,
                node_wakes_per_day: wakes as f64 / days,
                unserved_node_slots: unserved,
            });
        }
        pools
    }

    /// Jobs submitted in the window, paired; their sums go into the blocks.
    fn jobs(&self, times: &JobTimes, blocks: &mut Blocks) -> JobEffect {
        let workload = &self.setting.loaded.workload;
        let (mut waits, mut jcts) = (Vec::new(), Vec::new());
        let (mut unfinished, mut sooner, mut delayed, mut delayed_gpu_ms, mut before_ms) = (0, 0, 0, 0.0, 0i64);
        for (job, submit) in workload.submit_ms.iter().enumerate() {
            if !(self.window.0..self.window.1).contains(submit) {
                continue;
            }
            let Some(base_ms) = self.times.wait_ms(job) else { continue };
            let Some(wait_ms) = times.wait_ms(job) else {
                unfinished += 1;
                continue;
            };
            let added_ms = wait_ms - base_ms;
            let jct = |times: &JobTimes| times.jct_ms.get(job).copied().flatten().unwrap_or(0);
            let added_jct_ms = jct(times) - jct(&self.times);
            before_ms += base_ms;
            sooner += u64::from(added_ms <= -SAME_MS);
            if added_ms >= SAME_MS {
                delayed += 1;
                delayed_gpu_ms += added_ms as f64 * workload.shape_of(job).as_gpus();
            }
            if let Some(sums) = blocks.at(*submit) {
                sums.jobs += 1;
                sums.added_wait_ms += added_ms;
                sums.added_jct_ms += added_jct_ms;
                sums.delayed += u64::from(added_ms >= SAME_MS);
            }
            waits.push(added_ms as f64 / 1000.0);
            jcts.push(added_jct_ms as f64 / 1000.0);
        }
        let jobs = waits.len();
        let tail = |values: &mut Vec<f64>| quantile::quantiles_in_place(values, &[0.95]).first().copied().flatten();
        JobEffect {
            jobs: jobs as u64,
            unfinished,
            added_wait_mean_s: None,
            added_wait_max_s: waits.iter().copied().reduce(f64::max),
            added_wait_p95_s: tail(&mut waits),
            added_jct_mean_s: None,
            added_jct_p95_s: tail(&mut jcts),
            delayed,
            delayed_share: None,
            sooner,
            delayed_gpu_hours: delayed_gpu_ms / HOUR_MS as f64,
            baseline_wait_mean_s: (jobs > 0).then(|| before_ms as f64 / jobs as f64 / 1000.0),
            distribution: None,
        }
    }
}

/// The first node of each pool, and how many nodes there are.
fn firsts(cluster: &Cluster) -> Vec<u32> {
    let mut firsts = vec![0];
    let mut next = 0;
    for pool in &cluster.pools {
        next += pool.groups.iter().map(Group::most_nodes).sum::<u32>();
        firsts.push(next);
    }
    firsts
}

/// The entries of some nodes.
fn entries<T>(of: &[T], nodes: std::ops::Range<usize>) -> &[T] {
    of.get(nodes).unwrap_or_default()
}

fn most_wakes(states: &[States], window: (i64, i64)) -> u32 {
    let begun = boots(states).filter(|boot| !boot.again && (window.0..window.1).contains(&boot.at_ms));
    let mut days: Vec<(usize, i64)> = begun.map(|boot| (boot.node, boot.at_ms.div_euclid(DAY_MS))).collect();
    days.sort_unstable();
    days.chunk_by(|a, b| a == b).map(|same| same.len() as u32).max().unwrap_or(0)
}

fn rules(setting: &ReplaySetting<'_>, idle_s: Option<f64>, wake_on_demand: bool) -> Rules {
    let constants = setting.constants;
    let ms = |seconds: f64| (seconds * 1000.0).round() as i64;
    Rules {
        slot_ms: setting.slot_ms,
        boot_ms: ms(constants.boot_s),
        shutdown_ms: ms(constants.shutdown_s),
        failed_boot_ratio: constants.failed_boot_ratio,
        seed: setting.seed,
        canaries: constants.canaries,
        keep_idle: constants.keep_idle,
        min_on_ms: ms(constants.min_on_s),
        min_off_ms: ms(constants.min_off_s),
        wakes_per_minute: constants.wakes_per_minute,
        sleeps_per_minute: constants.sleeps_per_minute,
        wakes_per_node_day: constants.wakes_per_node_day,
        idle_ms: idle_s.map(ms),
        wake_on_demand,
        zone: setting.zone.to_owned(),
        ..Rules::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::{Shape, Workload};

    fn loaded(jobs: &[(i64, i64, u32)], nodes: u32) -> Loaded {
        let mut workload = Workload::default();
        for (submit_min, run_min, gpus) in jobs {
            workload.push(submit_min * 60_000, run_min * 60_000, Shape::whole(*gpus));
        }
        Loaded { workload, cluster: Cluster::of_vcs(&[("all", nodes, 8)]), ..Loaded::default() }
    }

    fn setting<'a>(loaded: &'a Loaded, policy: &'a Policy, constants: &'a Constants) -> ReplaySetting<'a> {
        ReplaySetting {
            loaded,
            policy,
            constants,
            rates: HourlyRates { price_per_kwh: Some(PerHour::Constant(0.5)), co2_kg_per_kwh: None },
            slot_ms: 600_000,
            from_ms: None,
            to_ms: None,
            zone: "UTC",
            seed: 1,
        }
    }

    /// The example of the module. The window ends with the slot of the last submission, at 6:10.
    #[test]
    fn the_example() {
        let loaded = loaded(&[(0, 60, 8), (360, 60, 8)], 1);
        let (policy, constants) = (Policy::default(), Constants::default());
        let baseline = Baseline::new(setting(&loaded, &policy, &constants)).unwrap();
        let ReplayedPlan { effect, .. } = baseline.effect(Plan::timeout(1800.0)).unwrap();
        let saved = 269.0 / 60.0 * 1.22;
        assert!((effect.energy_saved_kwh.unwrap().value - saved).abs() < 1e-9, "{effect:?}");
        assert!((effect.cost_saved.unwrap().value.value - saved / 2.0).abs() < 1e-9);
        assert_eq!((effect.cost_saved.unwrap().covered_share, effect.co2_saved_kg), (Some(1.0), None));
        assert!((effect.nodes_asleep_mean.unwrap().value - 269.0 / 370.0).abs() < 1e-12);
        assert!((effect.offline_optimum.energy_saved_kwh - 294.0 / 60.0 * 1.22).abs() < 1e-9);
        // With the job at 6:05, when the plan ran it, five minutes more could have been slept.
        assert!((effect.optimum_at_service.energy_saved_kwh - 299.0 / 60.0 * 1.22).abs() < 1e-9);
        assert!((effect.share_of_optimum.unwrap() - 269.0 / 299.0).abs() < 1e-9);
        let jobs = &effect.jobs;
        assert_eq!((jobs.jobs, jobs.delayed, jobs.sooner, jobs.unfinished), (2, 1, 0, 0));
        assert_eq!((jobs.added_wait_mean_s.unwrap().value, jobs.added_wait_max_s), (150.0, Some(300.0)));
        // 0 and 300 s: 0.95 of the way.
        assert!((jobs.added_wait_p95_s.unwrap() - 285.0).abs() < 1e-9);
        // 8 GPUs wait for 5 min.
        assert!((jobs.delayed_gpu_hours - 40.0 / 60.0).abs() < 1e-9);
        // The slot of 6:00 has a peak of 1 and no node powered at its beginning; in that of 0:00 it was.
        assert_eq!(effect.unserved_node_slots, 1.0);
        // 370 min: an hour and 5 min busy, 30 min idle, shutdown 1, boot 5.
        let hours = effect.node_hours;
        for (result, minutes) in [
            (hours.busy, 65.0),
            (hours.idle, 30.0),
            (hours.shutting_down, 1.0),
            (hours.asleep, 269.0),
            (hours.booting, 5.0),
            (hours.out, 0.0),
        ] {
            assert!((result * 60.0 - minutes).abs() < 1e-9, "{hours:?}");
        }
        // 6 min at 1.24 kW.
        assert!((effect.switching_kwh - 0.124).abs() < 1e-12);
        assert_eq!((effect.most_wakes_of_a_node_a_day, effect.failed_boots), (1, 0));
        let timeline = baseline.timeline(&baseline.effect(Plan::timeout(1800.0)).unwrap());
        assert_eq!((timeline.len(), timeline[0].powered, timeline[36].powered, timeline[36].on), (37, 1, 0, 1));
    }

    /// Always on changes nothing and saves nothing; cooling and a boot above idle power count.
    #[test]
    fn nothing_asleep_saves_nothing() {
        let loaded = loaded(&[(0, 60, 8), (360, 60, 8)], 2);
        let policy = Policy::default();
        let constants = Constants { pue_marginal: 1.5, boot_j: 1240.0 * 300.0 + 3.6e6, ..Constants::default() };
        let baseline = Baseline::new(setting(&loaded, &policy, &constants)).unwrap();
        let always = baseline.effect(Plan::always_on()).unwrap().effect;
        assert_eq!((always.energy_saved_kwh.unwrap().value, always.jobs.delayed), (0.0, 0));
        assert_eq!((always.unserved_node_slots, always.share_of_optimum), (0.0, Some(0.0)));
        let slept = baseline.effect(Plan::timeout(1800.0)).unwrap().effect;
        // The first node as in the example less a kWh for its boot; the second, idle from 0:00, is asleep from 0:31 to the end.
        let saved = 1.5 * (269.0 / 60.0 * 1.22 - 1.0 + 339.0 / 60.0 * 1.22);
        assert!((slept.energy_saved_kwh.unwrap().value - saved).abs() < 1e-9);
    }

    #[test]
    fn an_empty_window_is_refused() {
        let loaded = loaded(&[(0, 60, 8)], 1);
        let (policy, constants) = (Policy::default(), Constants::default());
        let empty = ReplaySetting { to_ms: Some(0), ..setting(&loaded, &policy, &constants) };
        assert!(Baseline::new(empty).is_err());
    }
}
