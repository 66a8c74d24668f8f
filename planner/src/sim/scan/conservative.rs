//! Conservative backfill: everyone in the queue gets a reservation, and no one starts who would be in the way of one before.
//!
//! The future is a list of steps: from each moment on, which GPUs are free and what VCs use. A job's reservation is the first moment from
//! which its GPUs are free in all steps its estimate touches. O(queue × steps × nodes) for a decision at worst; steps in which too few GPUs
//! are free are passed over without looking at nodes.
//!
//! Worked example: one node of 8. A (6 GPUs) is expected to end at 100 s. B (8 GPUs, 50 s) is promised 100 to 150 s. C (2 GPUs): with 90 s it
//! starts now; with 120 s it is promised 150 s.

use crate::sim::nodes::Nodes;
use crate::sim::place::{Ask, Placer};
use crate::sim::schedule::Piece;

/// A running job.
pub(crate) struct Held<'a> {
    /// When it is expected to end, milliseconds, later than now.
    pub(crate) expected_end_ms: i64,
    /// Where it runs.
    pub(crate) pieces: &'a [Piece],
    /// Its VC.
    pub(crate) vc: u16,
    /// Thousandths of GPUs.
    pub(crate) amount: u64,
}

/// A waiting job.
pub(crate) struct Waiting {
    /// What it asks for.
    pub(crate) ask: Ask,
    /// Its VC.
    pub(crate) vc: u16,
    /// Thousandths of GPUs.
    pub(crate) amount: u64,
    /// How long it is expected to run, milliseconds.
    pub(crate) estimate_ms: i64,
}

/// What VCs may use and do use, thousandths of GPUs, by VC.
#[derive(Clone, Copy)]
pub(crate) struct Quotas<'a> {
    /// Most they may use.
    pub(crate) quota: &'a [Option<u64>],
    /// What they use now.
    pub(crate) used: &'a [u64],
}

/// From a moment on, until that of the next step.
#[derive(Clone)]
struct Step {
    from_ms: i64,
    nodes: Nodes,
    used: Vec<u64>,
}

/// The jobs of `queue` that start now and where, in order. `held` is in order of expected end; at most `depth` jobs are looked at.
pub(crate) fn starts(
    nodes: &Nodes,
    placer: &Placer,
    now: i64,
    held: &[Held<'_>],
    queue: &[Waiting],
    quotas: Quotas<'_>,
    depth: Option<u32>,
) -> Vec<(u32, Vec<Piece>)> {
    let mut steps = vec![Step { from_ms: now, nodes: nodes.clone(), used: quotas.used.to_vec() }];
    for job in held {
        let Some(last) = steps.last_mut() else { continue };
        if last.from_ms < job.expected_end_ms {
            let next = Step { from_ms: job.expected_end_ms, ..last.clone() };
            steps.push(next);
        }
        let Some(last) = steps.last_mut() else { continue };
        for piece in job.pieces {
            last.nodes.give(piece);
        }
        last.used[usize::from(job.vc)] -= job.amount;
    }
    let mut starts = Vec::new();
    let mut pieces = Vec::new();
    for job in queue.iter().take(depth.map_or(usize::MAX, |depth| depth as usize)) {
        let Some(at) = reserve(&steps, placer, job, quotas, &mut pieces) else { continue };
        let from_ms = steps[at].from_ms;
        hold(&mut steps, at, from_ms.saturating_add(job.estimate_ms.max(1)), job, &pieces);
        if from_ms == now {
            starts.push((job.ask.job, pieces.clone()));
        }
    }
    starts
}

/// The first step from which `job` can run, its pieces left in `pieces`.
fn reserve(
    steps: &[Step],
    placer: &Placer,
    job: &Waiting,
    quotas: Quotas<'_>,
    pieces: &mut Vec<Piece>,
) -> Option<usize> {
    let quota = quotas.quota[usize::from(job.vc)];
    let part = job.ask.shape.milli > 0;
    let has_room = |step: &Step| {
        quota.is_none_or(|quota| step.used[usize::from(job.vc)] + job.amount <= quota)
            && (part || step.nodes.eligible_free() * 1000 >= job.amount)
    };
    let mut at = 0;
    'starts: while at < steps.len() {
        let end_ms = steps[at].from_ms.saturating_add(job.estimate_ms.max(1));
        let touched = steps[at..].iter().take_while(|step| step.from_ms < end_ms).count();
        // Every start up to a step without room would touch it.
        if let Some(full) = steps[at..at + touched].iter().rposition(|step| !has_room(step)) {
            at += full + 1;
            continue 'starts;
        }
        if touched == 1 {
            if placer.place(&steps[at].nodes, job.ask, pieces) {
                return Some(at);
            }
        } else if placer.fits(&steps[at].nodes, job.ask) {
            let mut throughout = steps[at].nodes.clone();
            for step in &steps[at + 1..at + touched] {
                throughout.intersect(&step.nodes);
            }
            if placer.place(&throughout, job.ask, pieces) {
                return Some(at);
            }
        }
        at += 1;
    }
    None
}

/// Takes `pieces` out of the steps from `at` until `end_ms`.
fn hold(steps: &mut Vec<Step>, at: usize, end_ms: i64, job: &Waiting, pieces: &[Piece]) {
    let after = at + steps[at..].partition_point(|step| step.from_ms < end_ms);
    if steps.get(after).is_none_or(|step| step.from_ms != end_ms) {
        let end = Step { from_ms: end_ms, ..steps[after - 1].clone() };
        steps.insert(after, end);
    }
    for step in &mut steps[at..after] {
        for piece in pieces {
            // Free throughout, as it was just found to be.
            let taken = step.nodes.retake(piece);
            debug_assert!(taken.is_ok());
        }
        step.used[usize::from(job.vc)] += job.amount;
    }
}
