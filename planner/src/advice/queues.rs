//! How VCs should share their nodes, and in which order jobs should be served: what the [plan of queues](crate::queues) recommends.
//!
//! Today's scan is the one that repeats the record. The plan replays as many of its ways as [`MOST_REPLAYED`] jobs in all allow, those with the least to set; where
//! the replay of today is far from the record, it speaks for nothing. O(that of the plan).
//!
//! Worked number: on the bundled sample the mean wait of the later third falls from 87 to 1.3 min.

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;

use super::{Asked, Found, in_a_line, is_judged};
use crate::plan::Recommendation;
use crate::queues::pooling::{NO_SIZES, Pooling};
use crate::queues::share::Sharing;
use crate::queues::{self, QueuesAnswer, QueuesRequest, SearchRun};
use crate::replay::input::Loaded;
use crate::replay::nearest::{Backfill, Unnamed, todays};
use crate::sim::Policy;

/// Jobs that are replayed at most over the ways of the plan, some ten seconds' worth; what tests the chosen takes some replays more.
const MOST_REPLAYED: usize = 8_000_000;

/// What to do where nobody says how many nodes there are.
const SIZED: &str = " `tracecast cluster TRACE --out cluster.toml` writes a file of them to correct, and `tracecast plan queues TRACE --site cluster.toml` plans on it.";

/// Asks the plan of the jobs that were loaded; `pooling` is what one pool would do, if that was replayed.
pub(super) fn ask(trace: &Trace, loaded: &Result<Loaded, String>, pooling: &Result<Pooling, String>) -> Asked {
    let told = pooling.as_ref().map(Pooling::sentence).unwrap_or_default();
    match plan(trace, loaded) {
        Err(why) => Asked::refused(why),
        Ok(answer) if !answer.trial.fidelity.is_believed() => {
            Asked::refused(format!("{told} {}", answer.trial.fidelity.sentence()).trim_start().to_owned())
        }
        Ok(answer) if !is_judged(answer.verdict) => Asked::refused(answer.action.replace("**", "")),
        Ok(answer) => {
            let later = format::counted(answer.trial.today.jobs, "later job", "later jobs");
            let looked_at = format!("{told} On {later}: {}", answer.action.replace("**", ""));
            let saves =
                answer.trial.mean_wait_change_s.map_or(0.0, |change| -change.value / answer.trial.today.mean_wait_s);
            let recommendation =
                answer.recommendation.clone().map(|found| Recommendation { command: Some(command(&answer)), ..found });
            let sections = queues::answer::report(&answer).sections.into_iter().take(2).collect();
            let found = Found { recommendation, saves, looked_at: looked_at.trim_start().to_owned() };
            Asked { found: Ok(found), sections, notes: Vec::new() }
        }
    }
}

/// The command that writes what is advised.
fn command(answer: &QueuesAnswer) -> String {
    let setup = answer.body.setup().map(|setup| setup.sharing);
    let who = if setup == Some(Sharing::AsToday) { "slurm" } else { "slurm,kueue" };
    let named = if answer.body.today_is_by_limits() { " --scan easy --estimate requested" } else { "" };
    format!("tracecast plan queues TRACE{named} --emit {who} --emit-to queues")
}

/// Plans with all defaults.
fn plan(trace: &Trace, loaded: &Result<Loaded, String>) -> Result<QueuesAnswer, String> {
    let reason = |reason: String| {
        let remedy = if reason == NO_SIZES { SIZED } else { "" };
        format!("The trace does not allow it: {reason}.{remedy}")
    };
    let loaded = loaded.as_ref().map_err(|why| reason(why.clone()))?;
    let most_listed = MOST_REPLAYED / (2 * loaded.workload.len().max(1));
    let policy = Policy::default().on(loaded.resource);
    let result =
        todays(loaded, policy, None, Backfill::ByWhatIsKnown, Unnamed::Scan).map_err(|error| in_a_line(&error))?;
    // A report tells nothing of Kueue's admission.
    let request = QueuesRequest { most_listed, under_kueue: false, ..QueuesRequest::of_list(None, result.policy) };
    queues::plan(trace, loaded, String::new(), &request, SearchRun::default()).map_err(|error| in_a_line(&error))
}
