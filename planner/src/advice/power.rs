//! Which nodes can sleep: what the power plan recommends with all defaults, and its sections.
//!
//! Nothing is searched here; [`evaluate`] does. Worked example: where no rule was worth its shortages, its headline says so and
//! stands under what was left alone.

use tracecast_analytics::Trace;
use tracecast_analytics::report::Section;

use super::in_a_line;
use crate::plan::Recommendation;
use crate::power::evaluate::evaluate;
use crate::power::recommend::recommendation;
use crate::power::request::PowerRequest;

/// What the plan has to say.
pub(super) struct Sleep {
    /// Its recommendation, if any, and what it found; or why it says nothing.
    pub(super) found: Result<(Option<Recommendation>, String), String>,
    /// Its sections.
    pub(super) sections: Vec<Section>,
    /// What it takes for granted, in sentences.
    pub(super) notes: Vec<String>,
}

impl Sleep {
    /// Nothing, for a reason.
    pub(super) fn not_looked_at(why: String) -> Self {
        Self { found: Err(why), sections: Vec::new(), notes: Vec::new() }
    }
}

/// Asks the plan, with all defaults.
pub(super) fn look(trace: &Trace) -> Sleep {
    match evaluate(trace, String::new(), &PowerRequest::default(), &|_| (), &()) {
        Ok((answer, _)) => {
            let report = answer.report();
            let headline = report.summary.into_iter().next().unwrap_or_default();
            let notes = answer.cautions.iter().cloned().chain(report.notes).collect();
            Sleep { found: Ok((recommendation(&answer), headline)), sections: report.sections, notes }
        }
        Err(error) => {
            let why = in_a_line(&error);
            let section = Section::not_available("power", "Which nodes can sleep", why.clone());
            Sleep { found: Err(why), sections: vec![section], notes: Vec::new() }
        }
    }
}
