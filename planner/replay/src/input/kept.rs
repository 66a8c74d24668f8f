//! Selection of the rows of a trace that are replayed, and their jobs.
//!
//! O(jobs). Worked example: 1.5 GPUs are two whole ones; a seventh of a GPU is 142 thousandths, so that seven of them fit on one.

use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::Resource;

use super::failure::Runs;
use super::host::recorded_nodes;
use super::options::Options;
use tracecast_sim::workload::Shape;

/// Most GPUs a job may ask for.
const MOST_GPUS: f64 = 1e6;
/// Why jobs that never ran are left out.
const NEVER_STARTED: &str = "it never started, so how long it would run is not known";
/// Why jobs without GPUs are left out.
pub(super) const NO_GPU: &str = "no GPU";

/// A job that is kept.
pub(super) struct Kept {
    pub(super) row: u32,
    pub(super) submit_ms: i64,
    pub(super) run_ms: i64,
    pub(super) shape: Shape,
    pub(super) vc: String,
    /// Whether it still ran when the record was taken.
    pub(super) unfinished: bool,
}

/// The job of a row, if it can be replayed; its VC is filled in later.
pub(super) fn keep(
    facts: &JobFacts<'_>,
    row: usize,
    (options, resource): (&Options, Resource),
    cut_short: Option<Runs>,
    rounded: &mut usize,
) -> std::result::Result<Kept, &'static str> {
    let jobs = &facts.trace.jobs;
    let (unknown, none, too_many) = match resource {
        Resource::Gpus => ("the number of GPUs is unknown", NO_GPU, "more than a million GPUs"),
        Resource::Cpus => ("the number of processors is unknown", "no processor", "more than a million processors"),
        Resource::Nodes => ("the number of nodes is unknown", "no node", "more than a million nodes"),
    };
    let gpus = resource.given(jobs, row).ok_or(unknown)?;
    if gpus <= 0.0 {
        return Err(none);
    }
    if gpus > MOST_GPUS {
        return Err(too_many);
    }
    // Only GPUs are shared.
    let gpus = if resource == Resource::Gpus { gpus } else { gpus.max(1.0) };
    let submit_ms = jobs.submit.get(row).ok_or("the submission is unknown")?;
    if options.to_ms.is_some_and(|to| submit_ms >= to) {
        return Err("submitted after the window");
    }
    let unfinished = facts.is_censored(row);
    if unfinished && options.whole_seconds {
        return Err("still running when the record was taken");
    }
    let summed_s = jobs.reported_attempts_s.get(row).filter(|run| *run >= 0.0 && !unfinished);
    let run_s = match cut_short {
        Some(runs) => Some(runs.needs_ms() as f64 / 1000.0),
        None => summed_s.or_else(|| facts.run_s(row)),
    };
    // Whoever never started would run for a time that nobody knows.
    let never = jobs.start.get(row).is_none() && jobs.attempts.get(row).is_none_or(|attempts| attempts == 0);
    let run_s = run_s.ok_or(if never { NEVER_STARTED } else { "the run time is not recorded" })?;
    let whole = |ms: i64| if options.whole_seconds { ms.div_euclid(1000) * 1000 } else { ms };
    let run_ms = whole((run_s * 1000.0).round() as i64);
    if options.longest_ms.is_some_and(|longest| run_ms > longest) {
        return Err("ran longer than asked for");
    }
    if options.from_ms.is_some_and(|from| submit_ms < from) {
        let from = options.from_ms.unwrap_or(submit_ms);
        let end = jobs.end.get(row).or_else(|| facts.record_end.filter(|_| unfinished));
        if options.whole_seconds || end.is_none_or(|end| end <= from) {
            return Err("submitted before the window");
        }
    }
    let mut shape = if gpus < 1.0 {
        let milli = thousandths(gpus);
        if milli >= 1000.0 { Shape::whole(1) } else { Shape::part(milli.max(1.0) as u16) }
    } else {
        *rounded += usize::from(gpus.fract() > 1e-9);
        Shape::whole((gpus - 1e-9).ceil().max(1.0) as u32)
    };
    if options.gangs_as_recorded && shape.gpus > 0 {
        shape.nodes = recorded_nodes(facts.trace, row, shape.gpus);
    }
    Ok(Kept { row: row as u32, submit_ms: whole(submit_ms), run_ms, shape, vc: String::new(), unfinished })
}

/// A part of a GPU in thousandths, rounded down, so that seven sevenths fit on a GPU. What is within a thousandth of a whole one is one.
fn thousandths(gpus: f64) -> f64 {
    let milli = gpus * 1000.0 + 1e-3;
    if milli > 999.01 { 1000.0 } else { milli.floor() }
}
