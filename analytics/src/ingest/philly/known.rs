//! Jobs that several Philly files describe: the job log and the joined table overlap.
//!
//! A job that another reader has already brought is not a second job: what its other description knows more is filled
//! in, and nothing that is known is overwritten. A job that the same reader meets twice is a repeat.

use std::collections::BTreeMap;

use crate::ingest::read::SeenKeys;
use crate::schema::{JobRow, JobState, JobTable};
use crate::trace::Trace;

/// The jobs met so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    elsewhere: BTreeMap<String, usize>,
    seen: SeenKeys,
}

/// Relation of a job to those already met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A new job.
    New,
    /// A job that this reader has met before.
    Repeated,
    /// A job that another reader has brought, as this row.
    Elsewhere(usize),
}

impl Known {
    /// The jobs other readers have brought into `trace`.
    pub(super) fn of(trace: &Trace) -> Self {
        let jobs = &trace.jobs;
        let elsewhere = jobs
            .job_key
            .iter()
            .enumerate()
            .filter(|(ix, _)| jobs.cluster.get(*ix) == Some(super::CLUSTER))
            .filter_map(|(ix, key)| Some((key?.to_owned(), ix)))
            .collect();
        Self { elsewhere, seen: SeenKeys::default() }
    }

    /// Looks up the job `key`.
    pub(super) fn place(&mut self, key: &str) -> Place {
        if !self.seen.is_new(key) {
            return Place::Repeated;
        }
        self.elsewhere.get(key).map_or(Place::New, |ix| Place::Elsewhere(*ix))
    }
}

/// Fills what row `ix` does not know with what `job` knows.
pub(super) fn fold(jobs: &mut JobTable, ix: usize, job: &JobRow<'_>) {
    macro_rules! fill {
        (labels $($field:ident),*) => {
            $( if jobs.$field.get(ix).is_none() { jobs.$field.set(ix, job.$field.as_deref()); } )*
        };
        (numbers $($field:ident),*) => {
            $( if jobs.$field.get(ix).is_none() { jobs.$field.set(ix, job.$field); } )*
        };
    }
    // Where one still saw the job run, the other's end is of a later moment.
    let running = jobs.censored.get(ix) == Some(1) || job.censored == Some(true);
    if !running {
        fill!(numbers end, run_s);
    }
    fill!(labels user, vc, reported_state);
    fill!(numbers submit, start, attempts, req_gpus, alloc_nodes, alloc_gpus, reported_run_s, reported_wait_s);
    let unknown = Some(JobState::Unknown.id());
    if jobs.state.get(ix).is_none() || jobs.state.get(ix) == unknown {
        jobs.state.set(ix, job.state.as_deref());
    }
}
