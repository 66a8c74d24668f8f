//! What is expected of the job that is planned, beside what the same rule came to on the later windows.
//!
//! The later windows say how good the rule is; their mean is of other days than the one on which the job begins. What it is expected to cost now is asked of its programme (module `outlook`), with what holds at the end of the data. Beside it stands what the programme expected at
//! the beginning of each later window, in the zone of that window: held against what the windows cost, it says whether the programme expects too little. A policy that knows no chances expects nothing, so the semi-Markov programme is asked, and is said to be.
//! Over several zones as one job the programme prices a spare hour to decide by, and what it adds up is no expected cost: nothing is told then.
//!
//! O(windows × programme). Worked example: 34 % is expected now; the later windows cost 39 %, and 37 % had been expected of them.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use super::super::job::DeadlineJob;
use super::super::outlook::{expected_share, programme_of};
use super::super::policy::CloudPolicy;
use super::super::request::CloudRequest;
use super::chosen::TriedZone;
use super::{CloudBody, CloudTrial};
use crate::plan::interval::average;
use crate::plan::window::Window;

/// Expected cost of a job that begins at the end of the data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Expected")]
pub struct CloudExpected {
    /// The programme that expects it: that of the policy chosen, or the semi-Markov one where that knows no chances.
    pub by: CloudPolicy,
    /// Expected cost, as a share of all on-demand in the zone of the plan.
    pub cost_ratio: f64,
    /// What it expected at the beginnings of the later windows, on the mean, as a share of all on-demand in the zone of each; nothing where it could not say it of all.
    pub later_expected_mean: Option<f64>,
    /// What these windows cost under `by`, likewise.
    pub later_cost_ratio_mean: f64,
}

impl CloudExpected {
    /// Expected cost of the policy that was chosen, in the zone of now by position; `later` are the
    /// zones of the later windows.
    pub(super) fn new(
        all: &[TriedZone<'_>],
        (now, later, windows): (usize, &[usize], &[[Vec<Window>; 2]]),
        (policy, job): (CloudPolicy, &DeadlineJob),
        request: &CloudRequest,
    ) -> Option<Self> {
        let by = programme_of(policy);
        let at = |place: usize, start: usize| {
            let tried = all.get(place)?;
            expected_share(&tried.lessons, tried.zone.price.as_ref(), start, (by, job), request.uncertain.as_ref())
        };
        let cost_ratio = at(now, all.get(now)?.zone.counts.len().checked_sub(1)?)?;
        let begun = |(at, place): (usize, &usize)| Some((*place, windows.get(*place)?[1].get(at)?.ahead.start));
        let begun: Vec<(usize, usize)> = later.iter().enumerate().filter_map(begun).collect();
        let expected: Option<Vec<f64>> = begun.par_iter().map(|(place, start)| at(*place, *start)).collect();
        let came =
            later.iter().enumerate().filter_map(|(at, place)| Some(all.get(*place)?.attempts[1].get(at)?.share(by)));
        Some(Self {
            by,
            cost_ratio,
            later_expected_mean: expected.map(|expected| average(expected.into_iter())),
            later_cost_ratio_mean: average(came),
        })
    }
}

impl CloudBody {
    /// What is expected now of a job that follows a policy, as a share of all on-demand; nothing of one that knows no chances.
    pub(super) fn expected_of(&self, policy: CloudPolicy) -> Option<f64> {
        self.expected_now.as_ref().filter(|of| of.is_of(policy)).map(|of| of.cost_ratio)
    }

    /// What is expected now, and what the rule came to on the later windows, in short: a sentence behind what to do.
    pub(super) fn expected_and_tested(&self, trial: &CloudTrial) -> String {
        let tested = trial.beside(trial.chosen).map(|of| of.report_cost_ratio.value);
        let expected = self.expected_of(trial.chosen);
        let share = format::percent;
        match (expected, tested) {
            (Some(expected), Some(tested)) => format!(
                " Expected now: **{}** of all on-demand. The test of the same rule on later windows: **{}**.",
                share(expected),
                share(tested)
            ),
            (None, Some(tested)) => {
                let why = if self.expected_now.is_some() { "This rule does not say" } else { "It is not told" };
                format!(
                    " The test of this rule on later windows: **{}** of all on-demand. {why} what the job that begins now will cost.",
                    share(tested)
                )
            }
            (_, None) => String::new(),
        }
    }

    /// What is expected now, in a sentence with what it rests on.
    pub(super) fn expected_in_words(&self, chosen: CloudPolicy) -> String {
        let Some(expected) = &self.expected_now else {
            let why = if self.zones.is_some() {
                "over zones as one job the programme adds up no expected cost"
            } else {
                "the programme finds none"
            };
            return format!("**Expected now**: nothing is told, as {why}; the test below is of other days.");
        };
        let by = expected.by.in_words();
        let who = if expected.is_of(chosen) {
            format!("the {by} expects, from what holds at the end of the data,")
        } else {
            format!(
                "the {} knows no chances, so the {by} is asked: of a job that follows it, from what holds at the end of the data, it expects",
                chosen.in_words()
            )
        };
        let held = match expected.later_expected_mean {
            Some(later) => format!(
                "Of the later windows it had expected {} as they began, and they cost {}{}.",
                format::percent(later),
                format::percent(expected.later_cost_ratio_mean),
                if expected.is_of(chosen) { "" } else { " under it" }
            ),
            None => String::new(),
        };
        format!(
            "**Expected now**: {who} **{}** of all on-demand in `{}`. It has no interval. {held}",
            format::percent(expected.cost_ratio),
            self.trace
        )
    }
}

impl CloudExpected {
    /// Whether it is of a job that follows this policy.
    fn is_of(&self, policy: CloudPolicy) -> bool {
        self.by == policy
    }
}
