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

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

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

// In the order in which they happen at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End { attempt: u32 },
    Repair { node: u32 },
    Fail { node: u32 },
    Change { index: u32 },
    Submit { job: u32 },
}

#[derive(Debug)]
struct Node {
    vc: u32,
    free: u128,
    up: bool,
    /// Where it goes once empty, and since when.
    leaving: Option<(u32, i64)>,
    running: Vec<u32>,
}

#[derive(Debug)]
struct Vc {
    queue: VecDeque<u32>,
    /// Nodes that take jobs, by their free units.
    by_free: Vec<BTreeSet<u32>>,
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

struct Engine<'a> {
    requests: &'a [Request],
    queueing: Queueing,
    changes: &'a [Change],
    units_per_node: u32,
    events: BinaryHeap<Reverse<(i64, Event)>>,
    nodes: Vec<Node>,
    vcs: Vec<Vc>,
    started: Vec<u32>,
    concerned: BTreeSet<u32>,
    out: Schedule,
}

impl<'a> Engine<'a> {
    fn new(requests: &'a [Request], pool: &Pool, queueing: Queueing, changes: &'a [Change]) -> Self {
        let units_per_node = pool.units_per_node.clamp(1, MAX_UNITS);
        let free = mask(units_per_node);
        let nodes: Vec<Node> = pool
            .node_vc
            .iter()
            .map(|vc| Node { vc: *vc, free, up: true, leaving: None, running: Vec::new() })
            .collect();
        let vcs = (0..pool.vcs)
            .map(|_| Vc { queue: VecDeque::new(), by_free: vec![BTreeSet::new(); units_per_node as usize + 1] })
            .collect();
        let mut engine = Self {
            requests,
            queueing,
            changes,
            units_per_node,
            events: BinaryHeap::with_capacity(requests.len() + 16),
            nodes,
            vcs,
            started: vec![0; requests.len()],
            concerned: BTreeSet::new(),
            out: Schedule::default(),
        };
        for node in 0..engine.nodes.len() as u32 {
            engine.list(node);
        }
        engine
    }

    fn handle(&mut self, now: i64, event: Event) {
        match event {
            Event::End { attempt } => {
                // A node failure may have ended it before.
                if self.out.attempts.get(attempt as usize).is_some_and(|attempt| attempt.end_ms.is_none()) {
                    self.end(attempt, now, false);
                }
            }
            Event::Repair { node } => {
                if let Some(state) = self.nodes.get_mut(node as usize) {
                    state.up = true;
                    self.concerned.insert(state.vc);
                }
                self.list(node);
            }
            Event::Fail { node } => self.fail(node, now),
            Event::Change { index } => self.change(index, now),
            Event::Submit { job } => {
                let Some(request) = self.requests.get(job as usize) else { return };
                if let Some(vc) = self.vcs.get_mut(request.vc as usize) {
                    vc.queue.push_back(job);
                    self.concerned.insert(request.vc);
                }
            }
        }
    }

    /// Offers a node's free units to its VC, if it takes jobs.
    fn list(&mut self, node: u32) {
        let Some(state) = self.nodes.get(node as usize) else { return };
        if !state.up || state.leaving.is_some() {
            return;
        }
        let free = state.free.count_ones() as usize;
        if let Some(set) = self.vcs.get_mut(state.vc as usize).and_then(|vc| vc.by_free.get_mut(free)) {
            set.insert(node);
        }
    }

    /// Takes a node's free units off its VC's list.
    fn unlist(&mut self, node: u32) {
        let Some(state) = self.nodes.get(node as usize) else { return };
        let free = state.free.count_ones() as usize;
        if let Some(set) = self.vcs.get_mut(state.vc as usize).and_then(|vc| vc.by_free.get_mut(free)) {
            set.remove(&node);
        }
    }

    fn end(&mut self, attempt: u32, now: i64, failed: bool) {
        let Some(record) = self.out.attempts.get_mut(attempt as usize) else { return };
        record.end_ms = Some(now);
        record.failed = failed;
        let slices = record.slices.clone();
        for slice in slices {
            self.unlist(slice.node);
            if let Some(state) = self.nodes.get_mut(slice.node as usize) {
                state.free |= slice.units;
                state.running.retain(|running| *running != attempt);
                self.concerned.insert(state.vc);
            }
            self.list(slice.node);
            self.hand_over(slice.node, now);
        }
    }

    /// Gives an empty node that is leaving to its new VC.
    fn hand_over(&mut self, node: u32, now: i64) {
        let Some(state) = self.nodes.get_mut(node as usize) else { return };
        let Some((to, ordered_ms)) = state.leaving else { return };
        if !state.running.is_empty() {
            return;
        }
        let from = state.vc;
        state.vc = to;
        state.leaving = None;
        self.concerned.insert(to);
        self.out.handovers.push(Handover { ordered_ms, at_ms: now, node, from, to });
        self.list(node);
    }

    fn fail(&mut self, node: u32, now: i64) {
        self.unlist(node);
        let Some(state) = self.nodes.get_mut(node as usize) else { return };
        state.up = false;
        for attempt in state.running.clone() {
            self.end(attempt, now, true);
            let Some(job) = self.out.attempts.get(attempt as usize).map(|attempt| attempt.job) else { continue };
            let Some(request) = self.requests.get(job as usize) else { continue };
            let started = self.started.get(job as usize).copied().unwrap_or(0);
            if started < request.max_attempts
                && let Some(vc) = self.vcs.get_mut(request.vc as usize)
            {
                vc.queue.push_back(job);
            }
        }
    }

    fn change(&mut self, index: u32, now: i64) {
        let Some(change) = self.changes.get(index as usize).copied() else { return };
        let mut candidates: Vec<(Reverse<u32>, u32)> = (0u32..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.vc == change.from && node.up && node.leaving.is_none())
            .map(|(ix, node)| (Reverse(node.free.count_ones()), ix))
            .collect();
        candidates.sort_unstable();
        for (_, node) in candidates.into_iter().take(change.nodes as usize) {
            self.unlist(node);
            if let Some(state) = self.nodes.get_mut(node as usize) {
                state.leaving = Some((change.to, now));
            }
            self.hand_over(node, now);
        }
    }

    /// Serves the queues that something happened to.
    fn serve(&mut self, now: i64) {
        for vc in std::mem::take(&mut self.concerned) {
            let mut passed = 0;
            while let Some(job) = self.vcs.get(vc as usize).and_then(|vc| vc.queue.get(passed).copied()) {
                let Some(request) = self.requests.get(job as usize).copied() else { break };
                if let Some(slices) = self.place(vc, request.units) {
                    if let Some(vc) = self.vcs.get_mut(vc as usize) {
                        vc.queue.remove(passed);
                    }
                    self.start(job, request, slices, now);
                } else if passed < self.queueing.overtake as usize
                    && now - request.submit_ms < self.queueing.patience_ms
                {
                    passed += 1;
                } else {
                    break;
                }
            }
        }
    }

    fn start(&mut self, job: u32, request: Request, slices: Vec<Slice>, now: i64) {
        let attempt = self.out.attempts.len() as u32;
        for slice in &slices {
            if let Some(state) = self.nodes.get_mut(slice.node as usize) {
                state.running.push(attempt);
            }
        }
        let mut number = 1;
        if let Some(started) = self.started.get_mut(job as usize) {
            *started += 1;
            number = *started;
        }
        self.events.push(Reverse((now + request.run_ms.max(0), Event::End { attempt })));
        self.out.attempts.push(Attempt { job, number, start_ms: now, end_ms: None, failed: false, slices });
    }

    /// Takes `units` units of `vc`, or nothing if they are not to be had together.
    fn place(&mut self, vc: u32, units: u32) -> Option<Vec<Slice>> {
        let per_node = self.units_per_node;
        let (whole, rest) = if units <= per_node { (0, units) } else { (units / per_node, units % per_node) };
        let by_free = &self.vcs.get(vc as usize)?.by_free;
        let empty = by_free.get(per_node as usize)?;
        if empty.len() < whole as usize {
            return None;
        }
        let mut chosen: Vec<(u32, u32)> = empty.iter().take(whole as usize).map(|node| (*node, per_node)).collect();
        if rest > 0 || whole == 0 {
            // The tightest node that fits; of the free ones, one that was not just taken.
            let tight = by_free
                .iter()
                .take(per_node as usize)
                .skip(rest as usize)
                .find_map(|nodes| nodes.first())
                .or_else(|| empty.iter().nth(whole as usize))?;
            chosen.push((*tight, rest));
        }
        let mut slices = Vec::with_capacity(chosen.len());
        for (node, units) in chosen {
            self.unlist(node);
            if let Some(state) = self.nodes.get_mut(node as usize) {
                let taken = lowest(state.free, units);
                state.free &= !taken;
                slices.push(Slice { node, units: taken });
            }
            self.list(node);
        }
        Some(slices)
    }
}

/// The lowest `units` bits.
fn mask(units: u32) -> u128 {
    if units >= MAX_UNITS { u128::MAX } else { (1 << units) - 1 }
}

/// The lowest `units` of the bits set in `free`.
fn lowest(free: u128, units: u32) -> u128 {
    let (mut left, mut taken) = (free, 0);
    for _ in 0..units {
        let bit = left & left.wrapping_neg();
        taken |= bit;
        left &= !bit;
    }
    taken
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job(submit_s: i64, vc: u32, units: u32, run_s: i64) -> Request {
        Request { submit_ms: submit_s * 1_000, vc, units, run_ms: run_s * 1_000, max_attempts: 2 }
    }

    fn pool(nodes: &[u32]) -> Pool {
        Pool { units_per_node: 8, node_vc: nodes.to_vec(), vcs: nodes.iter().max().map_or(0, |vc| vc + 1) }
    }

    /// (job, attempt, start s, end s, failed) of each attempt.
    fn timeline(schedule: &Schedule) -> Vec<(u32, u32, i64, i64, bool)> {
        schedule
            .attempts
            .iter()
            .map(|a| (a.job, a.number, a.start_ms / 1_000, a.end_ms.map_or(-1, |end| end / 1_000), a.failed))
            .collect()
    }

    fn nodes(schedule: &Schedule, attempt: usize) -> Vec<(u32, u128)> {
        schedule.attempts[attempt].slices.iter().map(|slice| (slice.node, slice.units)).collect()
    }

    const STRICT: Queueing = Queueing { overtake: 0, patience_ms: 0 };
    const LONG: i64 = 1_000_000_000;

    #[test]
    fn nothing_overtakes_a_job_that_does_not_fit() {
        // Node of 8: job 0 holds 6 of 8 for 0..100. Job 1 (4) waits; job 2 (1) would fit but stands behind it.
        let jobs = [job(0, 0, 6, 100), job(10, 0, 4, 50), job(20, 0, 1, 5)];
        let out = schedule(&jobs, &pool(&[0]), STRICT, &[], &[], LONG);
        assert_eq!(timeline(&out), [(0, 1, 0, 100, false), (1, 1, 100, 150, false), (2, 1, 100, 105, false)]);
    }

    #[test]
    fn a_job_that_fits_overtakes_until_patience_ends() {
        // As above with 2 of 8 left beside job 0. Job 2 (1) passes job 1 (4) at 20 s, when that has waited 10 s; job 3, the
        // same at 80 s, does not, as by then it has waited 70 s, more than 60.
        let jobs = [job(0, 0, 6, 100), job(10, 0, 4, 50), job(20, 0, 1, 5), job(80, 0, 1, 5)];
        let queueing = Queueing { overtake: 1, patience_ms: 60_000 };
        let out = schedule(&jobs, &pool(&[0]), queueing, &[], &[], LONG);
        let expected = [(0, 1, 0, 100, false), (2, 1, 20, 25, false), (1, 1, 100, 150, false), (3, 1, 100, 105, false)];
        assert_eq!(timeline(&out), expected);
    }

    #[test]
    fn small_jobs_go_to_the_tightest_node_and_large_ones_to_free_nodes() {
        // Three nodes. Job 0 takes 5 of node 0 (3 left), job 1 takes 6 of node 1 (best fit for 6 is a free node: lowest),
        // job 2 (2) fits node 1's 2 exactly, job 3 (3) node 0's 3 exactly, job 4 (8) the free node 2.
        let jobs = [job(0, 0, 5, 10), job(0, 0, 6, 10), job(0, 0, 2, 10), job(0, 0, 3, 10), job(0, 0, 8, 10)];
        let out = schedule(&jobs, &pool(&[0, 0, 0]), STRICT, &[], &[], LONG);
        assert_eq!(nodes(&out, 0), [(0, 0b0001_1111)]);
        assert_eq!(nodes(&out, 1), [(1, 0b0011_1111)]);
        assert_eq!(nodes(&out, 2), [(1, 0b1100_0000)]);
        assert_eq!(nodes(&out, 3), [(0, 0b1110_0000)]);
        assert_eq!(nodes(&out, 4), [(2, 0b1111_1111)]);
    }

    #[test]
    fn a_gang_takes_free_nodes_and_puts_its_rest_where_it_fits_best() {
        // 20 = two free nodes and 4. Job 0 holds 3 of node 0, so 5 are left there: nodes 1 and 2 whole, 4 on node 0.
        let jobs = [job(0, 0, 3, 100), job(1, 0, 20, 10)];
        let out = schedule(&jobs, &pool(&[0, 0, 0]), STRICT, &[], &[], LONG);
        assert_eq!(nodes(&out, 1), [(1, 0xff), (2, 0xff), (0, 0b0111_1000)]);
        // With only two nodes there is one free node where two are needed: it waits for job 0, then fits only 16 of 20.
        let out = schedule(&jobs, &pool(&[0, 0]), STRICT, &[], &[], LONG);
        assert_eq!(timeline(&out), [(0, 1, 0, 100, false)]);
    }

    #[test]
    fn vcs_do_not_borrow() {
        // VC 0 is full until 100 s; VC 1's node stays idle while job 1 waits.
        let jobs = [job(0, 0, 8, 100), job(5, 0, 1, 10), job(6, 1, 1, 10)];
        let out = schedule(&jobs, &pool(&[0, 1]), STRICT, &[], &[], LONG);
        assert_eq!(timeline(&out), [(0, 1, 0, 100, false), (2, 1, 6, 16, false), (1, 1, 100, 110, false)]);
    }

    #[test]
    fn a_failed_node_requeues_its_jobs_from_the_beginning() {
        // One node, down 50..80 s. Job 0 (100 s) loses its 50 s and runs again 80..180; job 1, submitted at 10 s behind
        // it and not fitting, was first in the queue when the node came back and runs 80..90 with 8 of 8 units, so job 0
        // follows at 90 and ends at 190.
        let jobs = [job(0, 0, 8, 100), job(10, 0, 8, 10)];
        let down = [Outage { node: 0, from_ms: 50_000, to_ms: 80_000 }];
        let out = schedule(&jobs, &pool(&[0]), STRICT, &[], &down, LONG);
        assert_eq!(timeline(&out), [(0, 1, 0, 50, true), (1, 1, 80, 90, false), (0, 2, 90, 190, false)]);
        // With one attempt allowed it ends there.
        let once = jobs.map(|job| Request { max_attempts: 1, ..job });
        let out = schedule(&once, &pool(&[0]), STRICT, &[], &down, LONG);
        assert_eq!(timeline(&out), [(0, 1, 0, 50, true), (1, 1, 80, 90, false)]);
    }

    #[test]
    fn a_node_changes_hands_when_its_last_job_ends() {
        // At 10 s one node of VC 0 is to go to VC 1. Node 1 holds less (1 against 8), so it is drained: it takes neither
        // job 2 (which waits for node 0) nor anything of VC 1 before job 1 ends at 60 s. Then job 3 starts on it.
        let jobs = [job(0, 0, 8, 100), job(0, 0, 1, 60), job(20, 0, 1, 5), job(30, 1, 8, 5)];
        let change = [Change { at_ms: 10_000, from: 0, to: 1, nodes: 1 }];
        let mut pool = pool(&[0, 0]);
        pool.vcs = 2;
        let out = schedule(&jobs, &pool, STRICT, &change, &[], LONG);
        assert_eq!(
            timeline(&out),
            [(0, 1, 0, 100, false), (1, 1, 0, 60, false), (3, 1, 60, 65, false), (2, 1, 100, 105, false)]
        );
        assert_eq!(nodes(&out, 2), [(1, 0xff)]);
        assert_eq!(out.handovers, [Handover { ordered_ms: 10_000, at_ms: 60_000, node: 1, from: 0, to: 1 }]);
    }

    #[test]
    fn what_is_not_over_when_the_record_is_taken_has_no_end() {
        let out = schedule(&[job(0, 0, 1, 100), job(200, 0, 1, 1)], &pool(&[0]), STRICT, &[], &[], 100_000);
        assert_eq!(timeline(&out), [(0, 1, 0, -1, false)]);
    }

    /// Units in use and units there are, checked at every instant at which something starts.
    fn check(requests: &[Request], pool: &Pool, queueing: Queueing, outages: &[Outage], out: &Schedule, until_ms: i64) {
        let vc_at = |node: u32, at_ms: i64| {
            let moved = out.handovers.iter().rev().find(|h| h.node == node && h.at_ms <= at_ms);
            moved.map_or(pool.node_vc[node as usize], |h| h.to)
        };
        for (ix, a) in out.attempts.iter().enumerate() {
            let request = requests[a.job as usize];
            let units: u32 = a.slices.iter().map(|slice| slice.units.count_ones()).sum();
            assert_eq!(units, request.units, "all units at once");
            assert!(a.start_ms >= request.submit_ms);
            let end = a.end_ms.unwrap_or(until_ms);
            if a.end_ms.is_some() && !a.failed {
                assert_eq!(end - a.start_ms, request.run_ms);
            }
            for slice in &a.slices {
                assert!(slice.units <= mask(pool.units_per_node));
                assert_eq!(vc_at(slice.node, a.start_ms), request.vc, "on a node of its VC when it starts");
                if a.end_ms.is_some() && end > a.start_ms {
                    assert_eq!(vc_at(slice.node, end - 1), request.vc, "and as long as it runs");
                }
                for outage in outages.iter().filter(|outage| outage.node == slice.node) {
                    assert!(end <= outage.from_ms || a.start_ms >= outage.to_ms, "not on a node that is down");
                }
                for b in out.attempts.iter().skip(ix + 1) {
                    let b_end = b.end_ms.unwrap_or(until_ms);
                    if a.start_ms < b_end && b.start_ms < end {
                        let shared = b.slices.iter().any(|o| o.node == slice.node && o.units & slice.units != 0);
                        assert!(!shared, "no unit is given twice");
                    }
                }
            }
        }
        // Strict FIFO within a VC: first attempts start in order of submission.
        for vc in (0..pool.vcs).filter(|_| queueing.overtake == 0) {
            let mut firsts: Vec<(i64, u32, i64)> = out
                .attempts
                .iter()
                .filter(|a| a.number == 1 && requests[a.job as usize].vc == vc)
                .map(|a| (requests[a.job as usize].submit_ms, a.job, a.start_ms))
                .collect();
            firsts.sort_unstable();
            assert!(firsts.is_sorted_by_key(|(_, _, start)| *start), "first in, first out");
        }
    }

    proptest! {
        #[test]
        fn no_unit_is_given_twice(
            jobs in prop::collection::vec((0i64..500, 0u32..2, 1u32..=20, 0i64..120, 1u32..4), 1..60),
            change_s in 0i64..500,
            outage in (0u32..7, 0i64..500, 1i64..100),
            until_s in 100i64..2_000,
            overtake in 0u32..4,
        ) {
            let requests: Vec<Request> = jobs
                .iter()
                .map(|(submit, vc, units, run, tries)| Request { max_attempts: *tries, ..job(*submit, *vc, *units, *run) })
                .collect();
            // Four and three nodes of 8; after the change three and four: 20 units always fit.
            let pool = pool(&[0, 0, 0, 0, 1, 1, 1]);
            let change = [Change { at_ms: change_s * 1_000, from: 0, to: 1, nodes: 1 }];
            let (node, from, length) = outage;
            let outages = [Outage { node, from_ms: from * 1_000, to_ms: (from + length) * 1_000 }];
            let queueing = Queueing { overtake, patience_ms: 50_000 };
            let out = schedule(&requests, &pool, queueing, &change, &outages, until_s * 1_000);
            check(&requests, &pool, queueing, &outages, &out, until_s * 1_000);
            // Given time, every job starts.
            let done = schedule(&requests, &pool, queueing, &change, &outages, LONG);
            let started = done.attempts.iter().filter(|a| a.number == 1).count();
            prop_assert_eq!(started, requests.len());
        }
    }
}
