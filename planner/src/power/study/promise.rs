//! A promised service, kept: a rule sleeps only as deep as what is left of its promise can bear.
//!
//! Promised for a period is a [service](crate::power::score::service::Service): at most so many
//! unserved node-slots and node-wakes. A **ledger** holds what is left of both, U and W. With r(t)
//! the trailing maximum of demand, N the nodes there are, and J the largest rise of demand above
//! r(t) that is to be expected in the period, the rule's own wish A(t) is raised to
//!
//! ```text
//! max( A(t),  r(t) + J − D,  N − W )          N where more than U was missed
//! D = min( U / (1 + L),  U − L × max(0, r(t) + J − R) )
//! ```
//!
//! * **r(t) + J − D**: a rise as large as J leaves at most U unserved. D nodes may lack: for a slot, and for the L slots of the boot that follows; where fewer are ready
//!   (R) than are powered, those lack first for the L slots of theirs. Each shortage lowers U, so the rule steps back as it misses; once more was missed than was
//!   promised, all nodes stay on.
//! * **N − W**: no more nodes sleep than may still be woken, so the promised wakes are never exceeded.
//! * **J** is the largest rise of the past, times a margin for what the past has not seen: of h slots to come after n seen, the largest stays with a
//!   chance of 90 % below the largest of the past times (h / (n × 0.105))^½, if rises fall off like a power of two (as heavy a tail as has
//!   a mean square); 0.105 is −ln 0.9. The margin is never below 1, and rises within the period count at once. So a past of few
//!   days sleeps little, and what has never been seen is no reason to trust.
//!
//! The bound on wakes holds always; that on shortage fails only if one rise exceeds J by more than
//! was left, or another comes while nodes boot for the first. How often it did is for
//! [`rolling`](crate::power::rolling) to say. O(slots).
//!
//! Worked example: 3 unserved and 8 wakes are left, 10 nodes; lately at most 4 were in use, and rises of up to 5 are expected. Wished 5: powered are
//! max(5, 4 + 5 − 3, 10 − 8) = 6 if a boot takes no time, and max(5, 4 + 5 − 2, 10 − 8) = 7 if it takes half a slot. Of the 6, a rise to 7 leaves 1 unserved and 2 to
//! go: now 4 + 5 − 2, or, with 7 lately, 10.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use super::choice::{self, Judge};
use crate::power::rule::Setting;
use crate::power::rule::family::Stretch;
use crate::power::rule::trailing::trailing_maximum;
use crate::power::score::boot::slots_booting;
use crate::power::score::service::Service;
use crate::power::score::{NodeDemand, Sums};

/// Slots of the trailing maximum that guards a rule, at least, hours.
const GUARDED_H: f64 = 6.0;
/// Settings of a learned rule that are tried under a guard: those nothing else beat in sleep, service and wakes at once, thinned out.
const MOST_TRIED: usize = 400;

/// −ln 0.9: the chance taken that a period has a larger rise than is expected.
const CHANCE: f64 = 0.105;
/// How rises fall off: as a power of 1 / TAIL.
const TAIL: f64 = 0.5;

/// What a rule must know to keep a promise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// Slots of the trailing maximum above which rises are measured.
    pub recent_slots: usize,
    /// Slots that a boot takes.
    pub boot_slots: f64,
    /// Largest rise of the past, nodes.
    pub largest_rise: f64,
    /// Times which a rise is expected.
    pub margin: f64,
}

/// Rest of a promise: what may still be unserved and woken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Node-slots that may still go unserved.
    pub unserved_left: f64,
    /// Nodes that may still be woken.
    pub wakes_left: f64,
    /// Rise of demand above its trailing maximum that is expected, nodes.
    pub expected_rise: f64,
}

impl Guard {
    /// Learns the rises of the slots of `past`, less its first day, for a period of `period` slots to come.
    pub fn learn(
        (need, total): (&[f64], &[f64]),
        past: Range<usize>,
        (recent_slots, boot_slots): (usize, f64),
        period: usize,
        slot_ms: i64,
    ) -> Self {
        let day = usize::try_from(DAY_MS / slot_ms.max(1)).unwrap_or(1);
        // Within the first day the trailing maximum has little to look back on.
        let from = (past.start + day).min(past.end);
        let before = from.saturating_sub(slots_booting(boot_slots));
        let recent = trailing_maximum(need, before..past.end, recent_slots);
        let at = |slot: usize| slot.checked_sub(before).and_then(|place| recent.get(place)).copied().unwrap_or(0.0);
        let seen = past.end.saturating_sub(from).max(1) as f64;
        let margin = (period as f64 / (seen * CHANCE)).powf(TAIL).max(1.0);
        let mut guard = Self { recent_slots, boot_slots, largest_rise: 0.0, margin };
        guard.largest_rise = (from..past.end).map(|slot| guard.rise((need, total), at, slot)).fold(0.0, f64::max);
        guard
    }

    /// By how much demand rose above its trailing maximum in slot `at`, nodes; those that joined carry what they brought. Nodes that
    /// have to be ready as the slot begins were ordered before, so it is above what was known then as well.
    fn rise(&self, (need, total): (&[f64], &[f64]), recent: impl Fn(usize) -> f64, at: usize) -> f64 {
        let of = |values: &[f64], slot: usize| values.get(slot).copied().unwrap_or(0.0);
        let joined = |slot: usize| match slot.checked_sub(1) {
            Some(before) => (of(total, slot) - of(total, before)).max(0.0),
            None => 0.0,
        };
        let mut brought = 0.0;
        let mut most = 0.0f64;
        for ordered in (at.saturating_sub(slots_booting(self.boot_slots))..=at).rev() {
            brought += joined(ordered);
            most = most.max(of(need, at) - recent(ordered) - brought);
        }
        most
    }

    /// Nodes to power in the slot to come: what the rule wishes, or what the promise needs, of `there` of which so many are `ready`; `recent` is the trailing
    /// maximum.
    pub fn order(&self, left: &Ledger, wished: f64, recent: f64, (there, ready): (f64, f64)) -> f64 {
        if left.unserved_left < 0.0 {
            return there;
        }
        let risen = recent + left.expected_rise;
        let booting = self.boot_slots * (risen - ready).max(0.0);
        let served = risen - (left.unserved_left / (1.0 + self.boot_slots)).min(left.unserved_left - booting);
        let woken = there - left.wakes_left;
        wished.max(served).max(woken).ceil().clamp(0.0, there.max(0.0))
    }

    /// The ledger at the beginning of a period of so many days.
    pub fn ledger(&self, service: &Service, days: f64) -> Ledger {
        Ledger {
            unserved_left: service.unserved_per_day * days,
            wakes_left: service.node_wakes_per_day * days,
            expected_rise: self.largest_rise * self.margin,
        }
    }

    /// What a rule that wishes `wished` nodes powered, buffer included, orders in each slot of a stretch, so that the service holds over the whole of it;
    /// and what each slot brought.
    pub fn keep(&self, stretch: &Stretch<'_>, wished: &[f64], service: &Service) -> Kept {
        let ledger = self.ledger(service, stretch.demand.days());
        let series = (stretch.need, stretch.total);
        let wished = |at: usize| wished.get(at).copied().unwrap_or(0.0);
        let (kept, ..) = self.walk(series, stretch.range.start, &stretch.demand, ledger, |left, at, recent, nodes| {
            self.order(left, wished(at), recent, nodes)
        });
        kept
    }

    /// Carries out, slot by slot, what `order` says of the ledger, the slot (counted from the first), the trailing maximum, and the nodes there are and those
    /// ready, and books what it brought; and how many are ready in the end. The slots are those of `demand`, which begin at `first` of the whole series.
    pub(in crate::power) fn walk(
        &self,
        (need, total): (&[f64], &[f64]),
        first: usize,
        demand: &NodeDemand<'_>,
        mut ledger: Ledger,
        mut order: impl FnMut(&Ledger, usize, f64, (f64, f64)) -> f64,
    ) -> (Kept, Ledger, f64) {
        let mut walker = demand.walker();
        let begin = first.saturating_sub(slots_booting(self.boot_slots));
        let recent = trailing_maximum(need, begin..first + demand.need.len(), self.recent_slots);
        let recent_at =
            |slot: usize| slot.checked_sub(begin).and_then(|place| recent.get(place)).copied().unwrap_or(0.0);
        let slots = demand.need.len();
        let mut kept = Kept { orders: Vec::with_capacity(slots), sums: Vec::with_capacity(slots) };
        for at in 0..slots {
            let order = order(&ledger, at, recent_at(first + at), (walker.there(), walker.ready()));
            let sums = walker.step(order);
            let risen = self.rise((need, total), recent_at, first + at);
            ledger.book(sums.unserved, sums.woken, risen * self.margin);
            kept.orders.push(order);
            kept.sums.push(sums);
        }
        (kept, ledger, walker.ready())
    }
}

impl Ledger {
    /// Books what a slot brought.
    pub fn book(&mut self, unserved: f64, woken: f64, rise: f64) {
        self.unserved_left -= unserved;
        self.wakes_left -= woken;
        self.expected_rise = self.expected_rise.max(rise);
    }
}

/// The settings that keep a promise best, as the days of choice tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::power) struct Followed {
    /// What is followed: the plain rule, unless the learned one, chosen on the earlier half of the days of choice, is clearly better on the later.
    pub(in crate::power) setting: Option<Setting>,
    /// Outcome under the guard, on all days of choice.
    pub(in crate::power) before: Sums,
    /// Setting of the plain rule, the trailing maximum.
    pub(in crate::power) plain: Option<Setting>,
    /// Setting of the learned rule, `reach`.
    pub(in crate::power) learned: Option<Setting>,
}

/// The setting of a rule that keeps a promise best on the days of choice.
struct Guarded {
    setting: Setting,
    /// Outcome on all of these days.
    whole: Sums,
    /// By block of the later half of these days, what the setting meant that is best on the earlier half: of many settings one always looks well
    /// on the days it is chosen on.
    later: Vec<Sums>,
}

/// Chooses, for a trailing maximum and for `reach`, the setting that, guarded, slept most within
/// the service on the days of choice, `picking`, and the rule to follow for a period of `period`
/// slots. To leave the plain rule the evidence must be of as many days as the promise is for.
pub(in crate::power) fn follow(
    picking: &Stretch<'_>,
    (trailing, reach): (&[Setting], &[Setting]),
    service: &Service,
    period: usize,
) -> Followed {
    let (plain, learned) = (elect(picking, trailing, service), elect(picking, &thinned(reach), service));
    let judge = Judge::new(&picking.demand, Some(service));
    let enough = picking.range.len() / 2 >= period;
    let followed = match (&plain, &learned) {
        (Some(plain), Some(learned)) if enough && judge.clear(&learned.later, &plain.later) => Some(learned),
        (Some(plain), _) => Some(plain),
        (None, learned) => learned.as_ref(),
    };
    Followed {
        setting: followed.map(|result| result.setting),
        before: followed.map_or_else(Sums::default, |result| result.whole),
        plain: plain.map(|result| result.setting),
        learned: learned.map(|result| result.setting),
    }
}

/// Chooses the setting that, guarded, slept most within the service on the days of choice.
fn elect(stretch: &Stretch<'_>, settings: &[Setting], service: &Service) -> Option<Guarded> {
    let judge = Judge::new(&stretch.demand, Some(service));
    let block = choice::block_slots(stretch.range.len(), stretch.demand.slot_ms);
    // Many settings are guarded alike, and what guards them is learned from all of the past.
    let mut guards: BTreeMap<usize, Guard> = BTreeMap::new();
    let guarded = settings.iter().map(|setting| {
        let slots = guarded_by(setting, stretch.demand.slot_ms);
        (*setting, *guards.entry(slots).or_insert_with(|| guard_of(stretch, setting)))
    });
    let guarded: Vec<(Setting, Guard)> = guarded.collect();
    let tried: Vec<(Setting, Vec<Sums>)> = guarded
        .par_iter()
        .map(|(setting, guard)| (*setting, keep_by(guard, stretch, setting, service).blocks(block)))
        .collect();
    let half = tried.first().map_or(0, |(_, blocks)| blocks.len() / 2);
    let best = |of: &dyn Fn(&[Sums]) -> Sums| tried.iter().min_by(|a, b| judge.order(&of(&a.1), &of(&b.1)));
    let (setting, whole) = best(&|blocks| Sums::new(blocks))?;
    let (_, early) = best(&|blocks| Sums::new(blocks.get(..half).unwrap_or_default()))?;
    Some(Guarded { setting: *setting, whole: Sums::new(whole), later: early.get(half..).unwrap_or_default().to_vec() })
}

/// Every so-manieth of some settings, so that at most [`MOST_TRIED`] are left.
fn thinned(settings: &[Setting]) -> Vec<Setting> {
    let step = settings.len().div_ceil(MOST_TRIED).max(1);
    settings.iter().copied().step_by(step).collect()
}

/// Slots of the trailing maximum that guards a setting: its own if it is one, and some hours at least, as a guard that follows every move of demand
/// spends the promised wakes.
pub(in crate::power) fn guarded_by(setting: &Setting, slot_ms: i64) -> usize {
    let least = (GUARDED_H * HOUR_MS as f64 / slot_ms.max(1) as f64).round().max(1.0) as usize;
    match setting {
        Setting::TrailingMaximum { slots, .. } => least.max(*slots),
        _ => least,
    }
}

/// What guards a setting, as the past of a stretch teaches.
pub(in crate::power) fn guard_of(stretch: &Stretch<'_>, setting: &Setting) -> Guard {
    let demand = &stretch.demand;
    let lengths = (guarded_by(setting, demand.slot_ms), demand.boot_slots);
    Guard::learn((stretch.need, stretch.total), 0..stretch.range.start, lengths, stretch.range.len(), demand.slot_ms)
}

/// A setting under a guard.
fn keep_by(guard: &Guard, stretch: &Stretch<'_>, setting: &Setting, service: &Service) -> Kept {
    let (orders, buffer) = stretch.orders(setting);
    let wished: Vec<f64> = orders.into_iter().map(|order| order + buffer).collect();
    guard.keep(stretch, &wished, service)
}

/// A setting under the guard that the past of a stretch teaches.
pub(in crate::power) fn keep(stretch: &Stretch<'_>, setting: &Setting, service: &Service) -> Kept {
    keep_by(&guard_of(stretch, setting), stretch, setting, service)
}

/// A stretch under a promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Nodes ordered powered, by slot.
    pub orders: Vec<f64>,
    pub(in crate::power) sums: Vec<Sums>,
}

impl Kept {
    /// Total outcome.
    pub(in crate::power) fn whole(&self) -> Sums {
        Sums::new(&self.sums)
    }

    /// Outcome in each block of so many slots.
    pub(in crate::power) fn blocks(&self, slots: usize) -> Vec<Sums> {
        self.sums.chunks(slots.max(1)).map(Sums::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::power::made::{self, Known};

    #[test]
    fn the_worked_example() {
        let mut ledger = Ledger { unserved_left: 3.0, wakes_left: 8.0, expected_rise: 5.0 };
        let guard = |boot_slots| Guard { recent_slots: 1, boot_slots, largest_rise: 5.0, margin: 1.0 };
        assert_eq!(guard(0.5).order(&ledger, 5.0, 4.0, (10.0, 8.0)), 7.0);
        // With five ready, four would lack for half a slot first: 9 − (3 − 2).
        assert_eq!(guard(0.5).order(&ledger, 5.0, 4.0, (10.0, 5.0)), 8.0);
        let order = |ledger: &Ledger, wished, recent| guard(0.0).order(ledger, wished, recent, (10.0, f64::INFINITY));
        assert_eq!(order(&ledger, 5.0, 4.0), 6.0);
        ledger.book(1.0, 0.0, 3.0);
        assert_eq!((order(&ledger, 5.0, 4.0), order(&ledger, 5.0, 7.0)), (7.0, 10.0));
        // Three wakes left: seven stay on whatever is wished.
        ledger.book(0.0, 5.0, 0.0);
        assert_eq!(order(&ledger, 0.0, 0.0), 7.0);
        ledger.book(2.5, 0.0, 0.0);
        assert_eq!(order(&ledger, 0.0, 0.0), 10.0);
    }

    /// Demand 2, then 6 in one slot, then 2, of days of two slots: it rises by 4 above the maximum of two slots before. Five slots are learned from (all
    /// but a day), and five are promised: (1 / 0.105)^½ = 3.09.
    #[test]
    fn the_past_tells_what_rise_to_expect() {
        let need = [2.0, 2.0, 2.0, 6.0, 2.0, 2.0, 2.0];
        let total = [10.0; 7];
        let guard = Guard::learn((&need, &total), 0..7, (2, 0.0), 5, DAY_MS / 2);
        assert_eq!(guard.largest_rise, 4.0);
        assert!((guard.margin - (1.0f64 / 0.105).sqrt()).abs() < 1e-12);
        // Where nodes join with the work, they carry it.
        let joined = [10.0, 10.0, 10.0, 13.0, 13.0, 13.0, 13.0];
        assert_eq!(Guard::learn((&need, &joined), 0..7, (2, 0.0), 5, DAY_MS / 2).largest_rise, 1.0);
        // A boot that takes a slot longer has to be ordered a slot earlier: above the maximum as it was then.
        let climbing = [2.0, 2.0, 2.0, 3.0, 5.0, 5.0, 5.0];
        assert_eq!(Guard::learn((&climbing, &total), 0..7, (1, 0.0), 5, DAY_MS / 2).largest_rise, 2.0);
        assert_eq!(Guard::learn((&climbing, &total), 0..7, (1, 1.0), 5, DAY_MS / 2).largest_rise, 3.0);
    }

    proptest! {
        /// Whatever a rule wishes and whatever comes: no more nodes are woken than promised; and if no rise exceeds what is expected, no more
        /// goes unserved.
        #[test]
        fn a_promise_is_kept_where_rises_are_as_expected(
            need in prop::collection::vec(0u32..=9, 8..80),
            wished in prop::collection::vec(0u32..=9, 80),
            recent_slots in 1usize..6,
            boot in 0u32..6,
            unserved in 0u32..20,
            wakes in 0u32..20,
            expected in any::<bool>(),
        ) {
            let wished: Vec<f64> = wished.into_iter().map(f64::from).collect();
            let known = Known::of(&made::series(need.into_iter().map(|need| (f64::from(need), 9.0))));
            let range = 4..known.need.len();
            let mut stretch = known.stretch(range.clone(), 9.0);
            let boot_slots = f64::from(boot) / 2.0;
            (stretch.demand.boot_slots, stretch.demand.slot_ms) = (boot_slots, DAY_MS);
            let days = range.len() as f64;
            let service = Service {
                unserved_per_day: f64::from(unserved) / days,
                node_wakes_per_day: f64::from(wakes) / days,
            };
            let mut guard = Guard::learn((&known.need, &known.total), range.clone(), (recent_slots, boot_slots), 1, DAY_MS);
            guard.margin = 1.0;
            // A rise of all nodes, or none.
            guard.largest_rise = if expected { 9.0 } else { 0.0 };
            let whole = guard.keep(&stretch, &wished[..range.len()], &service).whole();
            prop_assert!(whole.woken <= f64::from(wakes) + 1e-9);
            if expected {
                prop_assert!(whole.unserved <= f64::from(unserved) + 1e-9);
            }
        }

        /// A rise that comes once, however long nodes boot: what lacks does so for the slot and for the boot, and that is what was promised.
        #[test]
        fn a_single_rise_breaks_no_promise_while_nodes_boot(
            (before, after) in (0u32..=9, 0u32..=9),
            (at, wished) in (6usize..30, 0u32..=9),
            boot in 0u32..40,
            unserved in 0u32..20,
        ) {
            let of = |slot: usize| f64::from(if slot < at { before } else { after });
            let known = Known::of(&made::series((0..40).map(|slot| (of(slot), 9.0))));
            let mut stretch = known.stretch(4..40, 9.0);
            (stretch.demand.boot_slots, stretch.demand.slot_ms) = (f64::from(boot) / 10.0, DAY_MS);
            let service = Service { unserved_per_day: f64::from(unserved) / 36.0, node_wakes_per_day: 9.0 };
            let rise = (of(39) - of(0)).max(0.0);
            let guard =
                Guard { recent_slots: 40, boot_slots: stretch.demand.boot_slots, largest_rise: rise, margin: 1.0 };
            let whole = guard.keep(&stretch, &[f64::from(wished); 36], &service).whole();
            prop_assert!(whole.unserved <= f64::from(unserved) + 1e-9, "{}", whole.unserved);
        }
    }
}
