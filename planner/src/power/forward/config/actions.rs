//! When how many nodes are powered, as JSON lines, for sites that carry a plan out with their own program.
//!
//! One object a line (`power-actions/1`), in order of time and then of the pools of the plan:
//! `schema`, `time` (RFC 3339, UTC), `pool`, `powered` (nodes powered from then on), `change` (above 0 wakes, below 0 puts to sleep) and `reason`.
//! [`read`] gives the same actions back. A note beside it says how to drive Slurm with them. O(n log n) in the actions.
//!
//! Worked number: 12 nodes powered at 06:00 after 8 are `{"schema":"power-actions/1","time":"2026-01-05T06:00:00Z","pool":"gpu","powered":12,
//! "change":4,"reason":"wake 4: more nodes are needed"}`.

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::Zone;

use super::{Rendered, refuse};
use crate::error::{Error, Result};
use crate::power::forward::clock::Clock;
use crate::power::forward::plan::{Action, PowerPlan};

/// Name of the format.
pub const SCHEMA: &str = "power-actions/1";
/// Name of the file of actions.
pub const FILE: &str = "power-actions.jsonl";
/// How the actions are carried out.
const NOTE: &str = include_str!("programs/power-actions.md");

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    schema: String,
    time: String,
    pool: String,
    powered: u32,
    change: i32,
    reason: String,
}

/// An action and the pool it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolAction {
    /// The pool.
    pub pool: String,
    /// What is done.
    pub action: Action,
    /// Why, in words.
    pub reason: String,
}

/// `at_ms` (milliseconds since the epoch) in RFC 3339, UTC.
///
/// # Errors
/// A time beyond the year 9999.
pub fn time(at_ms: i64) -> Result<String> {
    match jiff::Timestamp::from_millisecond(at_ms) {
        Ok(time) => Ok(time.to_string()),
        Err(_) => refuse(format!("{at_ms} ms since the epoch is beyond the year 9999; times are milliseconds")),
    }
}

/// Why the nodes of a pool change; where times have no dates, with the time since the beginning that is meant.
fn reason(action: &Action, first: bool, begins_ms: Option<i64>) -> String {
    let since = begins_ms.map_or_else(String::new, |begins_ms| {
        let clock = Clock::new(Zone::utc(), Some(begins_ms));
        format!(" ({} {})", clock.show(action.at_ms), clock.name())
    });
    let why = match action.change {
        0 if first => "the schedule begins".to_owned(),
        0 => "nothing changes".to_owned(),
        change if change > 0 => format!("wake {change}: more nodes are needed"),
        change => format!("put {} to sleep: fewer nodes are needed", change.unsigned_abs()),
    };
    why + &since
}

/// The actions of `plan` as JSON lines.
///
/// # Errors
/// A time beyond the year 9999.
pub fn write(plan: &PowerPlan) -> Result<String> {
    let mut all: Vec<(i64, usize, Line)> = Vec::new();
    for (at, pool) in plan.pools.iter().enumerate() {
        for (number, action) in pool.actions.iter().enumerate() {
            let line = Line {
                schema: SCHEMA.to_owned(),
                time: time(action.at_ms)?,
                pool: pool.name.clone(),
                powered: action.powered,
                change: action.change,
                reason: reason(action, number == 0, plan.begins_ms),
            };
            all.push((action.at_ms, at, line));
        }
    }
    all.sort_by_key(|(at_ms, pool, _)| (*at_ms, *pool));
    let mut text = String::new();
    for (_, _, line) in &all {
        text.push_str(
            &serde_json::to_string(line).map_err(|e| Error::Power(format!("an action cannot be written: {e}")))?,
        );
        text.push('\n');
    }
    Ok(text)
}

/// Reads what [`write()`] wrote; empty lines are skipped. `file` is the name for messages.
///
/// # Errors
/// A line that is no action, with its number.
pub fn read(text: &str, file: &str) -> Result<Vec<PoolAction>> {
    let mut all = Vec::new();
    for (number, line) in (1u64..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: String| Error::file(file.to_owned(), number, what);
        let read: Line = serde_json::from_str(line).map_err(|e| wrong(format!("no action of {SCHEMA}: {e}")))?;
        if read.schema != SCHEMA {
            return Err(wrong(format!("its schema is {:?} and not {SCHEMA:?}; write it anew", read.schema)));
        }
        let time: jiff::Timestamp =
            read.time.parse().map_err(|e| wrong(format!("{:?} is no time of RFC 3339: {e}", read.time)))?;
        let action = Action { at_ms: time.as_millisecond(), powered: read.powered, change: read.change };
        all.push(PoolAction { pool: read.pool, action, reason: read.reason });
    }
    Ok(all)
}

/// The file of actions and the note.
pub(super) fn render(plan: &PowerPlan) -> Result<Rendered> {
    let text = write(plan)?;
    if text.is_empty() {
        return refuse(
            "it has no actions, as its policy is not a schedule; write it for slurm, karpenter or cluster-autoscaler",
        );
    }
    let mut warnings = Vec::new();
    if plan.begins_ms.is_some() {
        warnings.push(
            "the trace has no dates: the times of the actions count from a beginning that nobody dated, so that no program can carry them out as they are; each says which day and hour since the beginning it is"
                .to_owned(),
        );
    }
    for pool in plan.pools.iter().filter(|pool| pool.actions.is_empty()) {
        warnings
            .push(format!("pool {} has no actions: nobody powers its nodes up or down by this schedule", pool.name));
    }
    for pool in &plan.pools {
        for (before, after) in pool.actions.iter().zip(pool.actions.iter().skip(1)) {
            let span_s = (after.at_ms - before.at_ms) as f64 / 1000.0;
            let (rate, verb) = if before.change > 0 {
                (plan.wakes_per_minute, "wake")
            } else {
                (plan.sleeps_per_minute, "put to sleep")
            };
            let needed_s = f64::from(before.change.unsigned_abs()) * 60.0 / f64::from(rate);
            if rate > 0 && needed_s > span_s {
                warnings.push(format!(
                    "pool {}: to {verb} {} nodes from {} on takes {needed_s:.0} s at {rate} a minute, but the next action follows after {span_s:.0} s",
                    pool.name,
                    before.change.unsigned_abs(),
                    time(before.at_ms)?
                ));
                break;
            }
        }
    }
    let files = vec![(FILE.to_owned(), text), ("power-actions.md".to_owned(), NOTE.to_owned())];
    Ok(Rendered { files, diff: None, warnings })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{plan, pool};
    use super::super::{ConfigOptions, Target, render};
    use super::*;

    /// 2026-01-05T06:00:00Z.
    const SIX_MS: i64 = 1_767_592_800_000;

    fn scheduled() -> PowerPlan {
        let mut plan = plan(vec![pool("gpu", "n[1-16]", 16), pool("a \"b\"", "m[1-4]", 4)]);
        let action = |at_ms, powered, change| Action { at_ms, powered, change };
        plan.pools[0].actions =
            vec![action(SIX_MS, 12, 4), action(SIX_MS + 600_000, 12, 0), action(SIX_MS + 1_200_500, 7, -5)];
        plan.pools[1].actions = vec![action(SIX_MS, 4, 0)];
        plan
    }

    #[test]
    fn one_object_a_line_in_order_of_time() {
        let text = write(&scheduled()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"schema":"power-actions/1","time":"2026-01-05T06:00:00Z","pool":"gpu","powered":12,"change":4,"reason":"wake 4: more nodes are needed"}"#
        );
        assert!(lines[1].contains(r#""pool":"a \"b\"""#) && lines[1].contains("the schedule begins"), "{text}");
        // 1,200.5 s after six.
        assert!(
            lines[3].contains(r#""time":"2026-01-05T06:20:00.5Z""#) && lines[3].contains("put 5 to sleep"),
            "{text}"
        );
        let read = read(&text, "a").unwrap();
        let of = |name: &str| read.iter().filter(|one| one.pool == name).map(|one| one.action).collect::<Vec<_>>();
        assert_eq!(
            (of("gpu"), of("a \"b\"")),
            (scheduled().pools[0].actions.clone(), scheduled().pools[1].actions.clone())
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = write(&scheduled()).unwrap();
        let wrong = |line: &str| read(&format!("{good}\n{line}\n"), "x.jsonl").unwrap_err().to_string();
        assert!(wrong("{").starts_with("x.jsonl, line 6: no action"), "{}", wrong("{"));
        assert!(
            wrong(r#"{"schema":"power-actions/2","time":"","pool":"","powered":1,"change":0,"reason":""}"#)
                .contains("power-actions/2")
        );
        assert!(
            wrong(r#"{"schema":"power-actions/1","time":"six","pool":"","powered":1,"change":0,"reason":""}"#)
                .contains("RFC 3339")
        );
    }

    #[test]
    fn schedules_that_cannot_be_are_refused() {
        let refused = |change: &dyn Fn(&mut PowerPlan)| {
            let mut plan = scheduled();
            change(&mut plan);
            render(&plan, Target::Actions, &ConfigOptions::default()).unwrap_err().to_string()
        };
        assert!(refused(&|plan| plan.pools[0].actions.swap(0, 1)).contains("not in order"));
        assert!(refused(&|plan| plan.pools[0].actions[2].change = -4).contains("no change of -4"));
        assert!(refused(&|plan| plan.pools[1].actions[0].powered = 5).contains("has 4"));
        assert!(refused(&|plan| plan.pools.iter_mut().for_each(|pool| pool.actions.clear())).contains("no actions"));
        assert!(refused(&|plan| plan.pools[0].actions[2].at_ms = i64::MAX).contains("year 9999"));
    }

    #[test]
    fn a_rate_that_is_too_slow_is_told() {
        let mut plan = scheduled();
        plan.wakes_per_minute = 1;
        plan.pools[0].actions[1].at_ms = SIX_MS + 60_000;
        // 4 nodes at 1 a minute take 240 s, the next action follows after 60 s.
        let told = render(&plan, Target::Actions, &ConfigOptions::default()).unwrap().warnings;
        assert!(told.iter().any(|line| line.contains("takes 240 s") && line.contains("after 60 s")), "{told:?}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(steps in prop::collection::vec((1i64..10_000_000, 0u32..100), 1..40), start in -10_000_000_000_000i64..10_000_000_000_000) {
            let (mut at_ms, mut before) = (start, 50u32);
            let mut one = pool("p", "n[1-100]", 100);
            for (span_ms, powered) in steps {
                at_ms += span_ms;
                one.actions.push(Action { at_ms, powered, change: powered as i32 - before as i32 });
                before = powered;
            }
            let plan = plan(vec![one]);
            let read = read(&write(&plan).unwrap(), "a").unwrap();
            let actions: Vec<Action> = read.into_iter().map(|one| one.action).collect();
            prop_assert_eq!(&actions, &plan.pools[0].actions);
        }
    }
}
