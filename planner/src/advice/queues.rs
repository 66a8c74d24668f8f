//! Should VCs share their nodes?
//!
//! Where the replay of the VCs as they stand comes near the record, the [plan of queues](crate::queues) says so: chosen on the earlier two thirds of the jobs, so
//! that no VC waits longer than on its own nodes, and tested on the later third. Of more jobs than that takes in a report, the replay on [one pool](crate::queues::pooling)
//! speaks alone. O(that of sixty replays).
//!
//! Worked number: on the bundled sample the mean wait of the later third falls from 87 to 4 min.

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;

use crate::plan::Recommendation;
use crate::queues::pooling::{NO_SIZES, Pooling};
use crate::queues::{QueuesAnswer, QueuesRequest, SearchRun};
use crate::replay::input::{Hosts, Options, last_two, load};
use crate::sim::{Policy, Scan};

/// Jobs beyond which a report does not plan queues by itself.
const MOST_JOBS: u64 = 20_000;

/// What to do where nobody says how many nodes there are.
const SIZED: &str = " `tracecast cluster TRACE --out cluster.toml` writes a file of them to correct, and `tracecast plan queues TRACE --cluster cluster.toml` plans on it.";

/// The recommendation, if one is worth it, and what was looked at; `Err` says why the trace does not allow it.
pub(super) fn look(
    trace: &Trace,
    pooling: &Result<Pooling, String>,
) -> Result<(Option<Recommendation>, String), String> {
    let pooling = pooling.as_ref().map_err(|reason| {
        let remedy = if reason == NO_SIZES { SIZED } else { "" };
        format!("The trace does not allow it: {reason}.{remedy}")
    })?;
    let told = pooling.sentence();
    let scan = pooling.replays.first().map_or(Scan::Skip, |first| first.scan);
    let named = scan.id();
    let with_command = |found: Recommendation| Recommendation {
        command: Some(format!("tracecast plan queues TRACE --scan {named} --emit slurm,kueue --emit-to queues")),
        ..found
    };
    if !pooling.is_believed() {
        return Err(format!("{told} {}", pooling.fidelity.sentence()));
    }
    if pooling.jobs > MOST_JOBS {
        return Ok((pooling.recommendation().map(with_command), told));
    }
    let mut loaded = load(trace, None, &Options { hosts: Hosts::Usual, ..Options::default() })
        .map_err(|error| super::in_a_line(&error))?;
    loaded.workload.predicted_s = last_two(&JobFacts::of(trace), &loaded);
    let request = QueuesRequest::of_list(None, Policy { scan, ..Policy::default() }.on(loaded.resource));
    let answer = QueuesAnswer::of(trace, &loaded, String::new(), &request, SearchRun::default());
    let answer = answer.map_err(|error| super::in_a_line(&error))?;
    let recommendation = answer.recommendation.map(with_command);
    let later = format::counted(answer.held_out.today.jobs, "later job", "later jobs");
    Ok((recommendation, format!("{told} On {later}: {}", answer.action.replace("**", ""))))
}
