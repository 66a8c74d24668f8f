//! Which nodes can sleep: what the power plan recommends with all defaults, and its sections.
//!
//! Nothing is searched here; [`evaluate`] does. Worked example: where no rule was worth its shortages, its headline says so and
//! stands under what was left alone.

use tracecast_analytics::Trace;
use tracecast_analytics::report::Section;

use super::{Asked, Found, in_a_line, is_judged};
use crate::power::answer::report;
use crate::power::evaluate::evaluate;
use crate::power::request::PowerRequest;

/// Asks the plan.
pub(super) fn ask(trace: &Trace) -> Asked {
    match evaluate(trace, String::new(), &PowerRequest::default(), &|_| (), &()) {
        Ok((answer, _)) if !is_judged(answer.verdict) => Asked::refused(answer.action.replace("**", "")),
        Ok((answer, _)) => {
            let sections = report(&answer).sections;
            // What is recommended has its cautions and notes beside it.
            let stays = answer.recommendation.is_none();
            let notes = answer.cautions.iter().chain(&answer.notes).filter(|_| stays).cloned().collect();
            let looked_at = answer.action.replace("**", "");
            let nodes = answer.trial.leading_vcs().map_or(answer.trial.pool.nodes_mean, |vcs| vcs.nodes_mean);
            let recommendation = answer.recommendation;
            let asleep = recommendation.as_ref().and_then(|found| found.effects.first()).map_or(0.0, |of| of.change);
            let saves = asleep / nodes.max(1.0);
            Asked { found: Ok(Found { recommendation, saves, looked_at }), sections, notes }
        }
        Err(error) => {
            let why = in_a_line(&error);
            let section = Section::not_available("power", "Which nodes can sleep", why.clone());
            Asked { sections: vec![section], ..Asked::refused(why) }
        }
    }
}
