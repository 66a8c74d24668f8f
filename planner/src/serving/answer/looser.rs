//! Where nothing keeps the target: a looser one for which the same log has a plan.
//!
//! Times are loosened step by step from what a replica with nothing else to do takes, or from what was asked where that is more: the time to the first token, and the time between tokens where that is too short for any
//! replica; then both. A step counts once a constant number keeps it with its reserve on the earlier half, also if a fifth more requests came. Of such steps the first three are planned in full, as the command would
//! with that target, and the first that is advised is named. Where none of the times to the first token is, three steps of both times are planned too, and where none of those is, the first step that is kept is named as that. The answer has all
//! that were planned: what lies beyond the last of them was not looked at.
//!
//! O(steps × choosing). Worked example: alone, the first token of 97.5 % takes 16.4 s. 17 s are kept and save too little; 20 s are advised: `ttft=20s`.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::choose::ServingCase;
use super::super::heldout::{ServingSplit, is_enough};
use super::super::target::ServingTarget;
use super::{Moments, ServingLogFigures, planned};
use crate::error::Result;
use crate::plan::verdict::Verdict;

/// How many times the least time is tried.
const TIMES: [f64; 6] = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0];
/// Most targets that are planned in full, of each way to loosen one.
const MOST_PLANNED: usize = 3;
/// Longest time that a target may name, seconds.
const LONGEST_S: f64 = 86_400.0;

/// A looser target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ServingLooser {
    /// The target.
    pub target: ServingTarget,
    /// The target as `--target` takes it.
    pub written: String,
    /// Whether a setting is advised with it; else settings keep it where they are chosen, and the later half speaks for no change.
    pub advised: bool,
    /// The targets that were planned in full, in the order in which they were tried; looser ones were not.
    pub planned: Vec<String>,
}

/// A time with two digits, no less than it is: 16.43 s are 17 s.
fn rounded_up(seconds: f64) -> f64 {
    let ms = (seconds * 1e3).max(1.0);
    let unit = 10f64.powf(ms.log10().floor() - 1.0).max(1.0);
    (ms / unit - 1e-9).ceil() * unit / 1e3
}

/// The targets that are tried, in order.
fn steps(asked: ServingTarget, log: &ServingLogFigures, both: bool) -> Vec<ServingTarget> {
    let both = both || log.least_tpot_s > asked.tpot_s;
    let (ttft_s, tpot_s) = (asked.ttft_s.max(log.least_ttft_s), asked.tpot_s.max(log.least_tpot_s));
    let loosened = |asked: f64, from: f64, times: f64| {
        if from * times > asked { rounded_up(from * times) } else { asked }
    };
    let of = |times: f64| ServingTarget {
        ttft_s: loosened(asked.ttft_s, ttft_s, times),
        tpot_s: if both { loosened(asked.tpot_s, tpot_s, times) } else { asked.tpot_s },
        ..asked
    };
    let mut result: Vec<ServingTarget> = TIMES.iter().map(|times| of(*times)).collect();
    result.dedup();
    result.retain(|target| *target != asked && target.ttft_s <= LONGEST_S && target.tpot_s <= LONGEST_S);
    result
}

/// The first of some ways to loosen a target whose step is advised, else the first step that is kept at all; with the steps that were planned.
///
/// # Errors
/// As planning a step.
fn search(
    ways: [&[ServingTarget]; 2],
    is_kept: &dyn Fn(ServingTarget) -> bool,
    is_advised: &dyn Fn(ServingTarget) -> Result<bool>,
) -> Result<Option<ServingLooser>> {
    let mut planned: Vec<ServingTarget> = Vec::new();
    let told = |target: ServingTarget, advised: bool, planned: &[ServingTarget]| ServingLooser {
        target,
        written: target.written(),
        advised,
        planned: planned.iter().map(ServingTarget::written).collect(),
    };
    for steps in ways {
        let before = planned.len();
        for target in steps {
            // What was planned needs no second look.
            if planned.contains(target) || planned.len() >= before + MOST_PLANNED || !is_kept(*target) {
                continue;
            }
            planned.push(*target);
            if is_advised(*target)? {
                return Ok(Some(told(*target, true, &planned)));
            }
        }
    }
    Ok(planned.first().map(|target| told(*target, false, &planned)))
}

/// A looser target than that of a case, which nothing keeps.
///
/// # Errors
/// As a plan with that target.
pub(super) fn looser(
    case: &ServingCase<'_>,
    split: &ServingSplit,
    told: &Moments<'_>,
    log: &ServingLogFigures,
) -> Result<Option<ServingLooser>> {
    let (first, both) = (steps(case.target, log, false), steps(case.target, log, true));
    // Both may be loosened at once already, and what nothing kept needs no second look.
    let both: Vec<ServingTarget> = both.into_iter().filter(|target| !first.contains(target)).collect();
    let with = |target: ServingTarget| ServingCase { target, ..*case };
    search([&first, &both], &|target| is_enough(&with(target), split.earlier()), &|target| {
        Ok(planned(&with(target), split, told)?.verdict == Verdict::Advised)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_two_digits_and_are_looser() {
        for (seconds, of) in [(16.43, 17.0), (17.0, 17.0), (0.0221, 0.023), (0.003, 0.003), (1.01, 1.1), (120.0, 120.0)]
        {
            assert!((rounded_up(seconds) - of).abs() < 1e-9, "{seconds} is {}", rounded_up(seconds));
        }
        let log = ServingLogFigures { least_ttft_s: 16.43, least_tpot_s: 0.022, ..ServingLogFigures::default() };
        let written = |request: &str, both: bool| -> Vec<String> {
            let request = ServingTarget::parse(request);
            request
                .map(|request| steps(request, &log, both).iter().map(ServingTarget::written).collect())
                .unwrap_or_default()
        };
        let result = written("ttft=2s,tpot=100ms", false);
        assert_eq!(result[..2], ["ttft=17s,tpot=100ms,share=0.95", "ttft=20s,tpot=100ms,share=0.95"]);
        // What is asked for is not named again; a time between tokens that no replica keeps is loosened at once.
        assert_eq!(written("ttft=20s,tpot=100ms", false)[0], "ttft=24s,tpot=100ms,share=0.95");
        assert_eq!(written("ttft=20s,tpot=10ms", false)[0], "ttft=20s,tpot=22ms,share=0.95");
        assert_eq!(written("ttft=20s,tpot=100ms", true)[0], "ttft=24s,tpot=120ms,share=0.95");
    }

    fn targets(ttft_s: &[f64], tpot_s: f64) -> Vec<ServingTarget> {
        ttft_s.iter().map(|ttft_s| ServingTarget { ttft_s: *ttft_s, tpot_s, share: 0.95 }).collect()
    }

    /// Steps of the first token that are kept and not advised leave both times to be loosened, and each way has three plans.
    #[test]
    fn both_times_are_loosened_where_no_first_token_is_advised() {
        let (first, both) = (targets(&[1.0, 2.0, 3.0, 4.0], 0.1), targets(&[1.0, 2.0, 3.0, 4.0], 0.2));
        let tried = |advised: &dyn Fn(ServingTarget) -> bool| {
            let kept = |target: ServingTarget| target.ttft_s > 1.0;
            search([&first, &both], &kept, &|target| Ok(advised(target))).ok().flatten()
        };
        let result = tried(&|target| target.tpot_s > 0.1 && target.ttft_s > 2.0);
        let planned = [
            "ttft=2s,tpot=100ms",
            "ttft=3s,tpot=100ms",
            "ttft=4s,tpot=100ms",
            "ttft=2s,tpot=200ms",
            "ttft=3s,tpot=200ms",
        ];
        let planned: Vec<String> = planned.iter().map(|of| format!("{of},share=0.95")).collect();
        assert!(
            result
                .as_ref()
                .is_some_and(|result| result.advised && result.written == planned[4] && result.planned == planned),
            "{result:?}"
        );
        // Nothing is advised: the first that is kept, and where the search ended.
        let result = tried(&|_| false);
        assert!(
            result.as_ref().is_some_and(|result| !result.advised
                && result.written == planned[0]
                && result.planned.len() == 6
                && result.planned[5] == "ttft=4s,tpot=200ms,share=0.95"),
            "{result:?}"
        );
        assert!(matches!(search([&first, &both], &|_| false, &|_| Ok(true)), Ok(None)));
        // A fourth step of one way is not planned.
        let five = targets(&[2.0, 3.0, 4.0, 5.0, 6.0], 0.1);
        let result = search([&five, &[]], &|_| true, &|target| Ok(target.ttft_s > 4.0));
        assert!(result.is_ok_and(|result| result.is_some_and(|result| !result.advised && result.planned.len() == 3)));
    }
}
