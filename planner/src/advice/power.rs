//! Which nodes can sleep: what the power plan recommends with all defaults, and its sections.
//!
//! Nothing is searched here; [`evaluate`] does. Worked example: where no rule was worth its shortages, its headline says so and
//! stands under what was left alone.

use tracecast_analytics::Trace;
use tracecast_analytics::report::Section;

use super::{Asked, Found, in_a_line};
use crate::plan::SIZES_UNKNOWN;
use crate::power::evaluate::evaluate;
use crate::power::recommend::recommendation;
use crate::power::request::PowerRequest;

/// Asks the plan.
pub(super) fn ask(trace: &Trace) -> Asked {
    match evaluate(trace, String::new(), &PowerRequest::default(), &|_| (), &()) {
        Ok((answer, _)) if answer.sizes_unknown => {
            Asked::refused(format!("The record does not say it: {SIZES_UNKNOWN}."))
        }
        Ok((answer, _)) => {
            let report = answer.report();
            let looked_at = report.summary.into_iter().next().unwrap_or_default();
            let notes = answer.cautions.iter().cloned().chain(report.notes).collect();
            let recommendation = recommendation(&answer);
            let asleep = recommendation.as_ref().and_then(|found| found.effects.first()).map_or(0.0, |of| of.change);
            let nodes = answer.leading_vcs().map_or(answer.pool.nodes_mean, |vcs| vcs.nodes_mean);
            let saves = asleep / nodes.max(1.0);
            Asked { found: Ok(Found { recommendation, saves, looked_at }), sections: report.sections, notes }
        }
        Err(error) => {
            let why = in_a_line(&error);
            let section = Section::not_available("power", "Which nodes can sleep", why.clone());
            Asked { sections: vec![section], ..Asked::refused(why) }
        }
    }
}
