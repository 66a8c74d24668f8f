//! Conservative backfill: everyone in the queue gets a reservation, and no one starts who would be in the way of one before.
//!
//! The future is a list of steps: from each moment on, which GPUs are free and what VCs use. A job's reservation is the first moment from
//! which its GPUs are free in all steps its estimate touches. O(queue × steps × nodes) for a decision at worst; steps in which too few GPUs
//! are free are passed over without looking at nodes.
//!
//! Worked example: one node of 8. A (6 GPUs) is expected to end at 100 s. B (8 GPUs, 50 s) is promised 100 to 150 s. C (2 GPUs): with 90 s it
//! starts now; with 120 s it is promised 150 s.

use crate::engine::{Action, Run};
use crate::error::Result;
use crate::nodes::Nodes;
use crate::place::{Ask, Placer};
use crate::schedule::Piece;

/// A running job.
pub(super) struct Held<'a> {
    /// Expected end, milliseconds, later than now.
    expected_end_ms: i64,
    /// Pieces that the job holds.
    pieces: &'a [Piece],
    /// VC of the job.
    vc: u16,
    /// Thousandths of GPUs.
    amount: u64,
}

/// A waiting job.
struct Waiting {
    /// Request of the job.
    ask: Ask,
    /// VC of the job.
    vc: u16,
    /// Thousandths of GPUs.
    amount: u64,
    /// How long it is expected to run, milliseconds.
    estimate_ms: i64,
}

/// From a moment on, until that of the next step.
#[derive(Clone)]
struct Step {
    from_ms: i64,
    nodes: Nodes,
    used: Vec<u64>,
}

/// Reservations made so far in a decision, as steps.
pub(crate) struct Plan {
    now: i64,
    /// The last moment at which a reservation may begin.
    latest_ms: i64,
    steps: Vec<Step>,
    /// Jobs that were looked at.
    pub(super) looked: u32,
}

impl Plan {
    /// Nothing reserved yet, and nothing will be that begins later than `window_ms` from now. `held` is in order of expected end; `used` is what VCs use now, thousandths of GPUs.
    pub(super) fn new(nodes: &Nodes, now: i64, window_ms: Option<i64>, held: &[Held<'_>], used: Vec<u64>) -> Self {
        let mut steps = vec![Step { from_ms: now, nodes: nodes.clone(), used }];
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
        let latest_ms = window_ms.map_or(i64::MAX, |window| now.saturating_add(window));
        Self { now, latest_ms, steps, looked: 0 }
    }

    /// Reserves for a job, within its VC's quota; whether that begins now, its pieces left in `pieces`.
    fn reserve(&mut self, placer: &Placer, job: &Waiting, quota: Option<u64>, pieces: &mut Vec<Piece>) -> bool {
        let near = self.steps.partition_point(|step| step.from_ms <= self.latest_ms);
        let Some(at) = reserve(&self.steps, near, placer, job, quota, pieces) else { return false };
        let from_ms = self.steps[at].from_ms;
        hold(&mut self.steps, at, from_ms.saturating_add(job.estimate_ms.max(1)), job, pieces);
        from_ms == self.now
    }
}

impl Run<'_> {
    /// Running jobs, by expected end.
    pub(super) fn held(&self) -> Vec<Held<'_>> {
        let held = |(expected_end_ms, segment): &(i64, u32)| {
            let record = &self.schedule.segments[*segment as usize];
            Held {
                expected_end_ms: *expected_end_ms,
                pieces: self.schedule.pieces_of(record),
                vc: self.workload.vc[record.job as usize],
                amount: self.shape(record.job).amount(),
            }
        };
        self.expected.iter().map(held).collect()
    }

    /// Reserves for a job, and starts it if that begins now.
    pub(super) fn look_conservative(&mut self, plan: &mut Plan, job: u32) -> Result<()> {
        let waiting = Waiting {
            ask: self.ask(job),
            vc: self.workload.vc[job as usize],
            amount: self.shape(job).amount(),
            estimate_ms: self.expected_ms(job),
        };
        let quota = self.quota[usize::from(waiting.vc)];
        let mut pieces = std::mem::take(&mut self.scratch);
        if plan.reserve(&self.placer, &waiting, quota, &mut pieces) {
            self.apply(Action::Start { job, pieces: &pieces })?;
        } else {
            self.queue.insert(job);
        }
        self.scratch = pieces;
        Ok(())
    }
}

/// The first of the `near` steps from which `job` can run, its pieces left in `pieces`.
fn reserve(
    steps: &[Step],
    near: usize,
    placer: &Placer,
    job: &Waiting,
    quota: Option<u64>,
    pieces: &mut Vec<Piece>,
) -> Option<usize> {
    let part = job.ask.shape.milli > 0;
    let has_room = |step: &Step| {
        quota.is_none_or(|quota| step.used[usize::from(job.vc)] + job.amount <= quota)
            && (part || step.nodes.eligible_free() * 1000 >= job.amount)
    };
    let mut at = 0;
    'starts: while at < near {
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
