//! What a history says to a scene from dumps: runs and waits of jobs that had ended, and who was submitted on
//! its last days.
//!
//! O(jobs log jobs). Worked example: of a history that ends on a Sunday the submissions from the Saturday of
//! the week before on are kept.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::time::DAY_MS;

use crate::start::baseline::PastWaits;
use crate::start::runs::{Like, PastRuns};

/// Days of arrivals that are kept of a history.
const DAYS: i64 = 8;

/// Names, numbered as they first come; whoever has no name has the empty one.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbered(BTreeMap<String, u32>);

impl Numbered {
    /// Number of a name.
    pub(super) fn number(&mut self, name: Option<&str>) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(name.unwrap_or_default().to_owned()).or_insert(next)
    }

    /// Names in order of their numbers.
    pub(super) fn into_names(self) -> Vec<String> {
        let mut names: Vec<(String, u32)> = self.0.into_iter().collect();
        names.sort_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

/// What a history says.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(super) runs: PastRuns,
    /// Waits of its jobs, by VC and size.
    pub waits: PastWaits,
    pub(super) users: Numbered,
    vcs: Numbered,
    /// Submission, milliseconds since the Unix epoch, user, VC and GPUs of the last days.
    pub(super) arrivals: Vec<(i64, u32, Option<String>, u32)>,
    /// Jobs that it is of.
    pub jobs: usize,
}

impl History {
    /// Of the jobs of a trace with GPUs that had ended, in order of their ends.
    pub fn new(trace: &Trace) -> Self {
        let facts = JobFacts::new(trace);
        let mut result = Self::default();
        let mut ended: Vec<(i64, usize)> = Vec::new();
        let known = |row: usize| {
            let gpus = facts.gpus(row).filter(|gpus| *gpus >= 1.0)?;
            let run = facts.run_s(row).filter(|run| run.is_finite() && *run >= 0.0)?;
            Some((gpus, run, trace.jobs.submit.get(row)?))
        };
        for row in 0..facts.len() {
            if let (Some((_, run, submit)), false) = (known(row), facts.is_censored(row)) {
                let wait = facts.wait_s(row).unwrap_or(0.0).max(0.0);
                ended.push((submit + ((wait + run) * 1e3) as i64, row));
            }
        }
        ended.sort_unstable();
        let last = ended.iter().filter_map(|(_, row)| trace.jobs.submit.get(*row)).max().unwrap_or(0);
        for (_, row) in ended {
            let Some((gpus, run, submit)) = known(row) else { continue };
            let user = result.users.number(trace.jobs.user.get(row));
            let vc = u16::try_from(result.vcs.number(trace.jobs.vc.get(row))).unwrap_or(u16::MAX);
            let like = Like { user, amount: (gpus * 1e3).round() as u64 };
            result.runs.learn(like, run);
            if let Some(wait) = facts.wait_s(row) {
                result.waits.learn(vc, like.amount, wait.max(0.0));
            }
            if submit > last - DAYS * DAY_MS {
                let name = trace.jobs.vc.get(row).map(str::to_owned);
                result.arrivals.push((submit, user, name, gpus.round() as u32));
            }
            result.jobs += 1;
        }
        result.arrivals.sort();
        result
    }

    /// Number of a VC, if it has jobs.
    pub fn vc_of(&self, name: &str) -> Option<u16> {
        self.vcs.0.get(name).and_then(|vc| u16::try_from(*vc).ok())
    }
}
