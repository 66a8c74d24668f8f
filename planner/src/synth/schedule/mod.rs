//! Who runs where and when: a small event-driven scheduler that turns requests into waits, starts and placements.
//!
//! It exists so that the waits and placements of a synthetic trace come out of real contention; it will be replaced by
//! the simulator. It is deliberately one policy: first in, first out within a VC, each VC on its own nodes, no
//! preemption. With [`Queueing::overtake`] 0 nothing overtakes a job that does not fit; above, as many jobs of a queue are
//! passed over for those behind them that fit, but once one of them has waited [`Queueing::patience_ms`], nothing
//! overtakes it any more (a crude backfill, which needs no run times). A job of at most one node's units goes to the node with the
//! fewest free units that fits (lowest index on ties); a larger one takes completely free nodes, and its remainder goes
//! where a job of that size would. This is the consolidated placement of the Helios simulator but for the remainder.
//!
//! Nodes fail and come back: the jobs on them end, and go to the back of their queue if they may run again, from the
//! beginning. Nodes move between VCs: the emptiest nodes are drained (they take nothing new) and change hands when their
//! last job ends, so neither a node nor a VC ever gives out more than it has.
//!
//! At one instant: ends, then repairs, then failures, then moves, then submissions, each in order of their index; then
//! every queue concerned is served. O(log n) for an event, O(units per node × log nodes) for a placement.
//!
//! Worked example: one VC, one node of 8. Job 0 asks 6 at 0 s for 100 s, job 1 asks 4 at 10 s for 50 s, job 2 asks 1 at
//! 20 s for 5 s. Job 1 does not fit beside job 0, and job 2, which would, stands behind it: both start at 100 s.

mod engine;
mod nodes;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use engine::{Engine, Event};

/// Units a node may have: one bit each.
pub const MAX_UNITS: u32 = 128;

/// What a job asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// When it is submitted, milliseconds.
    pub submit_ms: i64,
    /// Index of its VC.
    pub vc: u32,
    /// Units (GPUs or cores) it asks for, all at once.
    pub units: u32,
    /// How long it runs if nothing fails, milliseconds.
    pub run_ms: i64,
    /// How often it may start.
    pub max_attempts: u32,
}

/// The nodes.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Units on each node, at most [`MAX_UNITS`].
    pub units_per_node: u32,
    /// The VC each node belongs to at first.
    pub node_vc: Vec<u32>,
    /// How many VCs there are.
    pub vcs: u32,
}

/// How a queue is served.
#[derive(Debug, Clone, Copy, Default)]
pub struct Queueing {
    /// Jobs that do not fit that may be passed over; 0 is strict.
    pub overtake: u32,
    /// A job that has waited so long is not passed over, milliseconds.
    pub patience_ms: i64,
}

/// A quota change: `nodes` nodes are to go from one VC to another.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// When it is ordered, milliseconds.
    pub at_ms: i64,
    /// The VC that gives.
    pub from: u32,
    /// The VC that gets.
    pub to: u32,
    /// Nodes.
    pub nodes: u32,
}

/// A node out of service.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    /// The node.
    pub node: u32,
    /// When it fails, milliseconds.
    pub from_ms: i64,
    /// When it is back, milliseconds.
    pub to_ms: i64,
}

/// Units of one node that an attempt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The node.
    pub node: u32,
    /// The units, one bit each.
    pub units: u128,
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Index of the job.
    pub job: u32,
    /// 1 for the first.
    pub number: u32,
    /// When it starts, milliseconds.
    pub start_ms: i64,
    /// When it ends, milliseconds; `None` if that is not before the record is taken.
    pub end_ms: Option<i64>,
    /// Whether a node failure ended it.
    pub failed: bool,
    /// Where it runs.
    pub slices: Vec<Slice>,
}

/// A node that changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// When it was told to take nothing new, milliseconds.
    pub ordered_ms: i64,
    /// When it was empty and changed hands, milliseconds.
    pub at_ms: i64,
    /// The node.
    pub node: u32,
    /// The VC that gave it.
    pub from: u32,
    /// The VC that got it.
    pub to: u32,
}

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Attempts in order of their start.
    pub attempts: Vec<Attempt>,
    /// Nodes that changed hands, in order of time.
    pub handovers: Vec<Handover>,
}

/// Runs `requests` on `pool` until `until_ms`. Requests may come in any order; those that tie are served in theirs. A
/// request that its VC can never hold waits for ever, and everything behind it: check sizes before.
pub fn schedule(
    requests: &[Request],
    pool: &Pool,
    queueing: Queueing,
    changes: &[Change],
    outages: &[Outage],
    until_ms: i64,
) -> Schedule {
    let mut engine = Engine::new(requests, pool, queueing, changes);
    for (ix, request) in (0u32..).zip(requests) {
        engine.events.push(Reverse((request.submit_ms, Event::Submit { job: ix })));
    }
    for (ix, change) in (0u32..).zip(changes) {
        engine.events.push(Reverse((change.at_ms, Event::Change { index: ix })));
    }
    for outage in outages.iter().filter(|outage| outage.to_ms > outage.from_ms) {
        engine.events.push(Reverse((outage.from_ms, Event::Fail { node: outage.node })));
        engine.events.push(Reverse((outage.to_ms, Event::Repair { node: outage.node })));
    }
    while let Some(Reverse((now, event))) = engine.events.pop() {
        if now >= until_ms {
            break;
        }
        engine.handle(now, event);
        if engine.events.peek().is_none_or(|Reverse((next, _))| *next > now) {
            engine.serve(now);
        }
    }
    engine.out
}
