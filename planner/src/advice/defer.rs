//! Which jobs could wait for hours of cleaner electricity: what the [plan to defer](crate::defer) recommends with all defaults, on the carbon intensities of the trace.
//!
//! Worked example: on the bundled sample the plan saves 5.2 % of the carbon, and misses its mean wait on the later days.

use tracecast_analytics::Trace;
use tracecast_analytics::schema::Table as _;

use super::{Asked, Found, in_a_line, is_judged};
use crate::defer::answer::{DeferHours, DeferRequest, plan, report};
use crate::plan::Recommendation;

/// Asks the plan.
pub(super) fn ask(trace: &Trace) -> Asked {
    if trace.carbon.is_empty() {
        return Asked::refused(
            "The record has no carbon intensities. `tracecast plan defer TRACE --carbon FILE` takes hourly ones, and prices of electricity with --energy-price."
                .to_owned(),
        );
    }
    let answer = DeferHours::of_trace(trace, None)
        .and_then(|hours| plan(trace, &hours, String::new(), &DeferRequest::usual(trace)));
    match answer {
        Err(error) => Asked::refused(in_a_line(&error)),
        Ok(answer) if !is_judged(answer.verdict) => Asked::refused(answer.action.replace("**", "")),
        Ok(answer) => {
            let recommendation = answer.recommendation.clone().map(|found| Recommendation {
                command: Some("tracecast plan defer TRACE --emit slurm --emit-to defer".to_owned()),
                ..found
            });
            let sections = report(&answer).sections.into_iter().take(2).collect();
            let (saves, looked_at) = (answer.trial.saving.value, answer.action.replace("**", ""));
            Asked { found: Ok(Found { recommendation, saves, looked_at }), sections, notes: Vec::new() }
        }
    }
}
