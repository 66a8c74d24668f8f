//! One slot, decided from the latest counts: what a loop beside the scheduler asks every slot.
//!
//! A [state](PoolState) is what was counted since the plan was made, slot by slot, and how many
//! nodes were powered. The saved rule says what it wishes; if a service was promised, the
//! [ledger](crate::power::study::promise::Ledger) is kept from the state alone, so that nothing has
//! to be carried from one call to the next, and raises the wish as far as the promise needs.
//! Nothing of the slot to come can enter.
//!
//! O(slots since the plan × levels). Worked example: 290 nodes in use of 420, a trailing maximum of 295 and a buffer of 7: 302 are powered, 118
//! asleep; with 5 unserved node-slots left and rises of up to 40 expected, max(302, 300 + 40 − 5) = 335.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::time::{DAY_MS, format_rfc3339, parse_with_offset};
use tracecast_predictors::demand::{Series, Slot};

use super::saved::{SavedPlan, SavedPool, SavedPromise};
use crate::error::{Error, Result};
use crate::power::replay::apply;
use crate::power::rule::Setting;
use crate::power::score::constants::Constants;
use crate::power::score::{NodeDemand, Worth};
use crate::power::study::promise::Ledger;

/// Version of the decision's JSON.
pub const SCHEMA: &str = "decide-power/1";
/// Slots beyond which a state is not taken for one: longer than any plan holds.
const MOST_SLOTS: usize = 1 << 17;

/// The latest counts.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "State")]
pub struct PoolState {
    /// Pool of the plan; may be left out where there is one.
    #[serde(default)]
    pub pool: Option<String>,
    /// Slots that have ended since the plan was made, in order of time.
    pub slots: Vec<Ended>,
}

/// A slot that has ended.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Beginning of the slot, RFC 3339.
    pub at: String,
    /// Nodes in use, the largest count of the slot.
    pub peak: f64,
    /// Nodes in use at its end; the largest count, if it is left out.
    #[serde(default)]
    pub last: Option<f64>,
    /// Nodes that waiting jobs need, beside those in use: `peak` and `last` are without them, also where the plan was made with `--pending`, which adds them.
    #[serde(default)]
    pub pending: f64,
    /// Nodes there are.
    pub total: f64,
    /// Nodes that were powered in it; all of them, if it is left out.
    #[serde(default)]
    pub powered: Option<f64>,
}

/// Why so many nodes are powered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The rule wishes it.
    ByTheRule,
    /// Fewer could leave more unserved than is left of the promise, or wake more.
    ByThePromise,
    /// More was missed than was promised, so all nodes stay on.
    PromiseIsBroken,
}

/// What to do in the slot to come.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Decision {
    /// Version of this form.
    pub schema: String,
    /// Pool of the plan.
    pub pool: String,
    /// When the slot begins, UTC; in a plan of a trace without dates the day and hour since it began, such as `day 150, 08:00`.
    pub at: String,
    /// End of the slot.
    pub until: String,
    /// Nodes to be powered in it.
    pub powered: f64,
    /// Nodes to be asleep.
    pub asleep: f64,
    /// Nodes there are.
    pub total: f64,
    /// Nodes that the rule alone would power.
    pub wished: f64,
    /// The rule, and its parameters.
    pub setting: Setting,
    /// Why so many are powered.
    pub held: Held,
    /// Rest of the promise, if there is one.
    pub left: Option<Ledger>,
    /// Until when the promise holds, UTC.
    pub promised_until: Option<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The JSON Schema of [`Decision`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Decision).to_value()
}

/// The JSON Schema of [`PoolState`].
pub fn state_schema() -> serde_json::Value {
    schemars::schema_for!(PoolState).to_value()
}

/// A state from its JSON; `file` is what messages call it.
///
/// # Errors
/// If it is none.
pub fn state(file: &str, text: &str) -> Result<PoolState> {
    serde_json::from_str(text).map_err(|error| {
        Error::file(
            file.to_owned(),
            error.line() as u64,
            format!("{error}; `tracecast schema decide-power-state` has the form"),
        )
    })
}

/// Decides the slot after the last one of a state.
///
/// # Errors
/// If the pool is not known, or a slot is out of order or cannot be.
pub fn decide(plan: &SavedPlan, state: &PoolState) -> Result<Decision> {
    let pool = pool_of(plan, state)?;
    let Extended { series, powered, waits, mut notes } = extended(pool, &state.slots)?;
    let Some(last) = series.slots.last().copied() else {
        return Err(Error::Power(format!("{}: the plan holds no slot to decide from", series.name)));
    };
    let count = series.slots.len();
    let before = powered.last().copied().flatten().unwrap_or(last.total);
    let rule = apply::policy(&pool.setting, &pool.reach);
    let mut rule = rule.ok_or_else(|| Error::Power(format!("{}: the plan's rule cannot be asked", series.name)))?;
    // CES goes on from its own orders, so it makes them again.
    if matches!(pool.setting, Setting::Ces { .. }) {
        for slot in 1..count {
            rule.target(series.before(slot), before);
        }
    }
    // What a rule goes on from is what it held, without its buffer.
    let held_before = (before - pool.setting.buffer()).max(0.0);
    let wished = rule.target(series.before(count), held_before).ceil().clamp(0.0, last.total);
    let now_ms = series.time_ms(count);
    let promise = pool.promise.map(|promise| (promise, ledger(&series, &powered, pool, &promise)));
    notes.extend(pool.note.clone());
    if waits > 0.0 {
        let counted = match pool.pending_in_peaks {
            Some(true) => "up to the nodes there are, as where the rule was scored: the plan was made with --pending",
            Some(false) => {
                "in the slots that the rule looks back on as well; where the rule was scored, only nodes in use did"
            }
            None => {
                "in the slots that the rule looks back on as well; where the rule was scored, only nodes in use did, unless the plan was made with --pending"
            }
        };
        notes.push(format!("Jobs that wait need {waits:.0} nodes. They count as demand here, {counted}."));
    }
    let mut held = Held::ByTheRule;
    let mut order = wished;
    if let Some((promise, (left, ready))) = &promise {
        let recent = recent(&series, promise, count);
        order = promise.guard.order(left, wished, recent, (last.total, *ready));
        if left.unserved_left < 0.0 {
            held = Held::PromiseIsBroken;
        } else if order > wished {
            held = Held::ByThePromise;
        }
        if now_ms >= promise.until_ms {
            notes.push("The promise has ended: make a new plan.".to_owned());
        }
    }
    if now_ms - pool.series.time_ms(pool.series.slots.len()) > 28 * DAY_MS {
        notes.push("The plan is more than four weeks old: make a new one.".to_owned());
    }
    Ok(Decision {
        schema: SCHEMA.to_owned(),
        pool: series.name.clone(),
        at: format_rfc3339(now_ms),
        until: format_rfc3339(now_ms + series.slot_ms),
        powered: order,
        asleep: last.total - order,
        total: last.total,
        wished,
        setting: pool.setting,
        held,
        left: promise.map(|(_, (left, _))| left),
        promised_until: promise.map(|(promise, _)| format_rfc3339(promise.until_ms)),
        notes,
    })
}

fn pool_of<'a>(plan: &'a SavedPlan, state: &PoolState) -> Result<&'a SavedPool> {
    let names = || plan.pools.iter().map(|pool| pool.series.name.as_str()).collect::<Vec<_>>().join(", ");
    match (&state.pool, plan.pools.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Error::Power(format!("name the pool: the plan has {}", names()))),
        (Some(name), pools) => pools
            .iter()
            .find(|pool| pool.series.name == *name)
            .ok_or_else(|| Error::Power(format!("the plan has no pool `{name}`; it has {}", names()))),
    }
}

/// The slots of a plan and those that ended since.
struct Extended {
    series: Series,
    /// Nodes powered in each slot, where known.
    powered: Vec<Option<f64>>,
    /// Nodes that jobs wait for after the last.
    waits: f64,
    /// Notes on these slots.
    notes: Vec<String>,
}

/// The slots of the plan with those that ended since.
fn extended(pool: &SavedPool, ended: &[Ended]) -> Result<Extended> {
    let mut series = pool.series.clone();
    let in_peaks = pool.pending_in_peaks == Some(true);
    let mut waits = series.slots.last().map_or(0.0, |slot| slot.pending);
    let mut powered = vec![None; series.slots.len()];
    let (mut known, mut carried) = (0usize, 0usize);
    for (number, slot) in (1u64..).zip(ended) {
        let wrong = |what: String| Error::Power(format!("slot {number} of the state ({}): {what}", slot.at));
        let at_ms = parse_with_offset(&slot.at)
            .ok_or_else(|| wrong("its time is none; write 2017-12-15T00:00:00Z".to_owned()))?;
        // Of before the plan's end: a plan that was made since may have slots that begin at other times.
        if at_ms < pool.series.time_ms(pool.series.slots.len()) {
            known += 1;
            continue;
        }
        let since = at_ms - series.start_ms;
        if since.rem_euclid(series.slot_ms) != 0 {
            let seconds = series.slot_ms / 1000;
            return Err(wrong(format!(
                "no slot begins then; slots of {seconds} s begin at {}",
                format_rfc3339(series.start_ms)
            )));
        }
        let counts = [slot.peak, slot.total, slot.last.unwrap_or(0.0), slot.pending, slot.powered.unwrap_or(0.0)];
        if counts.iter().any(|count| !(count.is_finite() && *count >= 0.0)) {
            return Err(wrong("a count is below 0 or none".to_owned()));
        }
        let place = usize::try_from(since / series.slot_ms).unwrap_or(0);
        if place < series.slots.len() {
            return Err(wrong(
                "it does not come after the slot before it; order the slots by time, each once".to_owned(),
            ));
        }
        if place - pool.series.slots.len() > MOST_SLOTS {
            return Err(wrong("it is years after the plan; make a new plan".to_owned()));
        }
        while series.slots.len() < place {
            let before = series.slots.last().copied().unwrap_or_default();
            series.slots.push(Slot { peak: before.last, mean: before.last, counted: false, ..before });
            powered.push(None);
            carried += 1;
        }
        waits = slot.pending;
        // Where what waits is in the peaks that the rule was chosen on, as demand is gathered, it is in those to come, and nobody is to count it again.
        let request = |used: f64| if in_peaks { (used + waits).min(slot.total).max(used) } else { used };
        let last = request(slot.last.unwrap_or(slot.peak));
        series.slots.push(Slot {
            peak: request(slot.peak),
            last,
            mean: last,
            pending: if in_peaks { 0.0 } else { waits },
            total: slot.total,
            counted: true,
        });
        powered.push(slot.powered);
    }
    let mut notes = Vec::new();
    if known > 0 {
        notes.push(format!("{known} slots of the state are older than the plan and were passed over."));
    }
    if carried > 0 {
        notes.push(format!(
            "**{carried} slots are missing from the state**: the count before them stands for them, so peaks in them are not known and too few nodes may be powered. Keep all slots that have ended since the plan was made."
        ));
    }
    Ok(Extended { series, powered, waits, notes })
}

/// The trailing maximum above which rises are measured, before slot `at`.
fn recent(series: &Series, promise: &SavedPromise, at: usize) -> f64 {
    let from = at.saturating_sub(promise.guard.recent_slots);
    let slots = series.slots.get(from..at).unwrap_or_default();
    slots.iter().map(|slot| slot.peak.min(slot.total)).fold(0.0, f64::max)
}

/// What is left of the promise after the slots that have ended, and how many nodes are ready: a slot of which it is not known how many nodes were powered counts as one with all on.
fn ledger(series: &Series, powered: &[Option<f64>], pool: &SavedPool, promise: &SavedPromise) -> (Ledger, f64) {
    let days = (promise.until_ms - promise.from_ms) as f64 / DAY_MS as f64;
    let ledger = promise.guard.ledger(&promise.service, days);
    let first = pool.series.slots.len();
    let need: Vec<f64> = series.slots.iter().map(|slot| slot.peak.min(slot.total)).collect();
    let total: Vec<f64> = series.slots.iter().map(|slot| slot.total).collect();
    let of = |values: &[f64], slot: usize| values.get(slot).copied().unwrap_or(0.0);
    let on = |slot: usize| powered.get(slot).copied().flatten().unwrap_or_else(|| of(&total, slot));
    let (constants, worth) = (Constants::default(), Worth::default());
    let demand = NodeDemand {
        need: need.get(first..).unwrap_or_default(),
        total: total.get(first..).unwrap_or_default(),
        weights: &[],
        // What joins in the first slot arrives powered.
        before: first.checked_sub(1).map_or(0.0, |last| on(last) + (of(&total, first) - of(&total, last)).max(0.0)),
        boot_slots: pool.boot_slots,
        slot_ms: series.slot_ms,
        constants: &constants,
        worth: &worth,
    };
    // Nodes that had just joined were on, but not ordered.
    let ordered = |at: usize, there: f64| on(first + at) - (of(&total, first + at) - there).max(0.0);
    let order = |_: &Ledger, at: usize, _: f64, (there, _): (f64, f64)| ordered(at, there);
    let (_, left, ready) = promise.guard.walk((&need, &total), first, &demand, ledger, order);
    (left, ready)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::power::made::{self, Known};
    use crate::power::rule::Forecast;
    use crate::power::rule::ces::Thresholds;
    use crate::power::score::service::Service;

    /// Demand of some days that jumps about, by a rule of the place.
    fn series(slots: usize) -> Series {
        let slot = |at: usize| {
            let peak = 8.0 + (at * 7 % 5) as f64 + if at.is_multiple_of(17) { 6.0 } else { 0.0 };
            (peak, if at < 150 { 20.0 } else { 24.0 })
        };
        made::series((0..slots).map(slot))
    }

    fn plan(series: &Series, service: Option<&Service>) -> SavedPlan {
        let setting = Setting::TrailingMaximum { slots: 3, buffer: 0 };
        let learned = super::super::saved::Learned { learned_from_ms: 0, learned_to_ms: 1 };
        SavedPlan { learned, pools: vec![SavedPool::fit(series, setting, service, 0.5).unwrap()] }
    }

    fn ended(series: &Series, at: usize, powered: f64) -> Ended {
        let slot = &series.slots[at];
        Ended {
            at: format_rfc3339(series.time_ms(at)),
            peak: slot.peak,
            last: Some(slot.last),
            pending: 0.0,
            total: slot.total,
            powered: Some(powered),
        }
    }

    /// Asked slot by slot, each time with what has ended, it orders what the guard orders that walks through the same slots at once: with nodes that
    /// join on the way, and a promise that is short of both.
    #[test]
    fn asked_slot_by_slot_it_decides_as_the_back_test_does() {
        use super::super::saved::PERIOD_DAYS;
        use crate::power::study::promise::Guard;

        let (known, period) = (96, PERIOD_DAYS as usize * 24);
        let whole = series(known + period);
        let past = Series { slots: whole.slots[..known].to_vec(), ..whole.clone() };
        let service = Service { unserved_per_day: 6.0, node_wakes_per_day: 20.0 };
        let plan = plan(&past, Some(&service));
        let counts = Known::of(&whole);
        let total = &counts.total;
        let range = known..known + period;
        let mut stretch = counts.stretch(range.clone(), total[known - 1]);
        stretch.demand.boot_slots = 0.5;
        let guard: Guard = plan.pools[0].promise.unwrap().guard;
        let (orders, buffer) = stretch.orders(&plan.pools[0].setting);
        let wished: Vec<f64> = orders.iter().map(|order| order + buffer).collect();
        let kept = guard.keep(&stretch, &wished, &service);
        let mut state = PoolState { pool: None, slots: Vec::new() };
        for (at, order) in range.zip(&kept.orders) {
            let decision = decide(&plan, &state).unwrap();
            assert_eq!(decision.powered, *order, "slot {at}");
            // What joins arrives powered.
            let joined = (total[at] - total[at - 1]).max(0.0);
            state.slots.push(ended(&whole, at, order + joined));
        }
        let woken: f64 = kept.whole().woken;
        assert!(woken > 0.0 && woken <= 20.0 * PERIOD_DAYS as f64, "{woken} woken");
    }

    /// A plan of 150 hours, after which four nodes join: with all on, nobody has woken any.
    #[test]
    fn nodes_that_join_right_after_the_plan_are_no_wakes() {
        let whole = series(152);
        let past = Series { slots: whole.slots[..150].to_vec(), ..whole.clone() };
        let service = Service { unserved_per_day: 1.0, node_wakes_per_day: 9.0 };
        let plan = plan(&past, Some(&service));
        let left =
            |slots: Vec<Ended>| decide(&plan, &PoolState { pool: None, slots }).unwrap().left.unwrap().wakes_left;
        let before = left(Vec::new());
        assert_eq!(left(vec![ended(&whole, 150, 24.0)]), before);
        // One of these nodes has been put to sleep and woken.
        assert_eq!(left(vec![ended(&whole, 150, 23.0), ended(&whole, 151, 24.0)]), before - 1.0);
    }

    /// CES waits out its lock and its thresholds: asked slot by slot it orders what it would have ordered all along.
    #[test]
    fn ces_goes_on_from_its_own_orders() {
        let whole = series(150);
        let setting = Setting::Ces { forecast: Forecast::LastValue, thresholds: Thresholds::EARTH };
        let counts = Known::of(&whole);
        let (orders, _) = counts.stretch(1..150, 20.0).orders(&setting);
        let mut held = 0;
        for known in 100..150 {
            let past = Series { slots: whole.slots[..known].to_vec(), ..whole.clone() };
            let learned = super::super::saved::Learned { learned_from_ms: 0, learned_to_ms: 1 };
            let plan = SavedPlan { learned, pools: vec![SavedPool::fit(&past, setting, None, 0.5).unwrap()] };
            let decision = decide(&plan, &PoolState { pool: None, slots: Vec::new() }).unwrap();
            assert_eq!(decision.wished, orders[known - 1], "slot {known}");
            held += usize::from(decision.wished > whole.slots[known - 1].peak + Thresholds::EARTH.buffer);
        }
        assert!(held > 0, "the lock never held");
    }

    /// Found in review: on a plan made with `--pending`, which counts waits in the peaks it looks back on, waits of the loop stood apart, so that the ledger never saw them.
    #[test]
    fn where_the_plan_counts_waits_those_to_come_count_alike() {
        let whole = series(152);
        let past = Series { slots: whole.slots[..150].to_vec(), ..whole.clone() };
        let service = Service { unserved_per_day: 1.0, node_wakes_per_day: 9.0 };
        let mut plan = plan(&past, Some(&service));
        let state = |peak: f64, pending: f64| PoolState {
            pool: None,
            slots: vec![Ended { peak, last: Some(peak), pending, ..ended(&whole, 150, 12.0) }],
        };
        let left = |plan: &SavedPlan, state: &PoolState| decide(plan, state).unwrap().left.unwrap();
        // In use or waited for, six nodes more than were on: as one, if the plan counts waits, and else not.
        assert_ne!(left(&plan, &state(12.0, 6.0)), left(&plan, &state(18.0, 0.0)));
        plan.pools[0].pending_in_peaks = Some(true);
        let (apart, together) = (state(12.0, 6.0), state(18.0, 0.0));
        assert_eq!(left(&plan, &apart), left(&plan, &together));
        assert_eq!(decide(&plan, &apart).unwrap().powered, decide(&plan, &together).unwrap().powered);
        // No more than there are.
        assert_eq!(left(&plan, &state(12.0, 60.0)), left(&plan, &state(24.0, 0.0)));
        let read = SavedPlan::from_bytes("p.tcm", &plan.to_bytes().unwrap()).unwrap();
        assert_eq!(read.pools[0].pending_in_peaks, Some(true));
        let notes = decide(&read, &apart).unwrap().notes;
        assert!(notes.iter().any(|note| note.starts_with("Jobs that wait need 6 nodes") && note.contains("--pending")));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_and_damage_is_told() {
        let whole = series(120);
        let service = Service { unserved_per_day: 1.0, node_wakes_per_day: 9.0 };
        let saved = plan(&whole, Some(&service));
        let bytes = saved.to_bytes().unwrap();
        let read = SavedPlan::from_bytes("p.tcm", &bytes).unwrap();
        let state = PoolState { pool: None, slots: Vec::new() };
        assert_eq!(decide(&read, &state).unwrap(), decide(&saved, &state).unwrap());
        assert_eq!(read.pools[0].series, saved.pools[0].series);
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let told = SavedPlan::from_bytes("p.tcm", &damaged).unwrap_err().to_string();
        assert!(told.contains("p.tcm") && told.contains("damaged"), "{told}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place_and_gaps_are_told() {
        let whole = series(120);
        let plan = plan(&series(96), None);
        let told = |slots: Vec<Ended>| decide(&plan, &PoolState { pool: None, slots }).unwrap_err().to_string();
        let (first, second) = (ended(&whole, 96, 20.0), ended(&whole, 97, 20.0));
        assert!(told(vec![second.clone(), first.clone()]).contains("slot 2"));
        assert!(told(vec![Ended { peak: -1.0, ..first.clone() }]).contains("below 0"));
        assert!(told(vec![Ended { at: "yesterday".to_owned(), ..first.clone() }]).contains("yesterday"));
        // A slot before the plan's end may be of another plan, with other beginnings of slots.
        let older = Ended { at: "1970-01-02T00:00:01Z".to_owned(), ..first.clone() };
        let slots = |slots: Vec<Ended>| decide(&plan, &PoolState { pool: None, slots }).unwrap().at;
        assert_eq!(slots(vec![older, first.clone()]), slots(vec![first.clone()]));
        assert!(told(vec![Ended { at: "1970-01-05T00:00:01Z".to_owned(), ..first }]).contains("no slot begins then"));
        let gap = decide(&plan, &PoolState { pool: None, slots: vec![ended(&whole, 99, 20.0)] }).unwrap();
        assert!(gap.notes.iter().any(|note| note.contains("3 slots are missing")), "{:?}", gap.notes);
        let other =
            decide(&plan, &PoolState { pool: Some("b".to_owned()), slots: Vec::new() }).unwrap_err().to_string();
        assert!(other.contains("no pool `b`") && other.contains("pool"), "{other}");
    }
}
