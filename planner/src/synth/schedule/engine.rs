//! The event loop: ends, repairs, failures, moves and submissions, and the service of the queues they concern.
//!
//! Which node a job gets is [`super::nodes`]'s business. O(log n) for an event and O(queue passed over) for a service.
//! Worked number: a job that ends at the instant at which another is submitted leaves its units first, so the other starts
//! at once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use super::nodes::Nodes;
use super::{Attempt, Change, Handover, Pool, Queueing, Request, Schedule, Slice};

/// What happens, in the order in which it does at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    End { attempt: u32 },
    Repair { node: u32 },
    Fail { node: u32 },
    Change { index: u32 },
    Submit { job: u32 },
}

/// The state of the pool and its queues while events are handled.
pub(super) struct Engine<'a> {
    requests: &'a [Request],
    queueing: Queueing,
    changes: &'a [Change],
    pub(super) events: BinaryHeap<Reverse<(i64, Event)>>,
    nodes: Nodes,
    /// Jobs that wait, by VC.
    queues: Vec<VecDeque<u32>>,
    started: Vec<u32>,
    concerned: BTreeSet<u32>,
    pub(super) out: Schedule,
}

impl<'a> Engine<'a> {
    /// Everything free and no event yet.
    pub(super) fn new(requests: &'a [Request], pool: &Pool, queueing: Queueing, changes: &'a [Change]) -> Self {
        Self {
            requests,
            queueing,
            changes,
            events: BinaryHeap::with_capacity(requests.len() + 16),
            nodes: Nodes::new(pool),
            queues: (0..pool.vcs).map(|_| VecDeque::new()).collect(),
            started: vec![0; requests.len()],
            concerned: BTreeSet::new(),
            out: Schedule::default(),
        }
    }

    /// Lets `event` happen; queues it concerns are to be served afterwards.
    pub(super) fn handle(&mut self, now: i64, event: Event) {
        match event {
            Event::End { attempt } => {
                // A node failure may have ended it before.
                if self.out.attempts.get(attempt as usize).is_some_and(|attempt| attempt.end_ms.is_none()) {
                    self.end(attempt, now, false);
                }
            }
            Event::Repair { node } => {
                if let Some(state) = self.nodes.get_mut(node) {
                    state.up = true;
                    self.concerned.insert(state.vc);
                }
                self.nodes.list(node);
            }
            Event::Fail { node } => self.fail(node, now),
            Event::Change { index } => self.change(index, now),
            Event::Submit { job } => {
                let Some(request) = self.requests.get(job as usize) else { return };
                if let Some(queue) = self.queues.get_mut(request.vc as usize) {
                    queue.push_back(job);
                    self.concerned.insert(request.vc);
                }
            }
        }
    }

    fn end(&mut self, attempt: u32, now: i64, failed: bool) {
        let Some(record) = self.out.attempts.get_mut(attempt as usize) else { return };
        record.end_ms = Some(now);
        record.failed = failed;
        let slices = record.slices.clone();
        for slice in slices {
            self.nodes.unlist(slice.node);
            if let Some(state) = self.nodes.get_mut(slice.node) {
                state.free |= slice.units;
                state.running.retain(|running| *running != attempt);
                self.concerned.insert(state.vc);
            }
            self.nodes.list(slice.node);
            self.hand_over(slice.node, now);
        }
    }

    /// Gives an empty node that is leaving to its new VC.
    fn hand_over(&mut self, node: u32, now: i64) {
        let Some(state) = self.nodes.get_mut(node) else { return };
        let Some((to, ordered_ms)) = state.leaving else { return };
        if !state.running.is_empty() {
            return;
        }
        let from = state.vc;
        state.vc = to;
        state.leaving = None;
        self.concerned.insert(to);
        self.out.handovers.push(Handover { ordered_ms, at_ms: now, node, from, to });
        self.nodes.list(node);
    }

    fn fail(&mut self, node: u32, now: i64) {
        self.nodes.unlist(node);
        let Some(state) = self.nodes.get_mut(node) else { return };
        state.up = false;
        for attempt in state.running.clone() {
            self.end(attempt, now, true);
            let Some(job) = self.out.attempts.get(attempt as usize).map(|attempt| attempt.job) else { continue };
            let Some(request) = self.requests.get(job as usize) else { continue };
            let started = self.started.get(job as usize).copied().unwrap_or(0);
            if started < request.max_attempts
                && let Some(queue) = self.queues.get_mut(request.vc as usize)
            {
                queue.push_back(job);
            }
        }
    }

    fn change(&mut self, index: u32, now: i64) {
        let Some(change) = self.changes.get(index as usize).copied() else { return };
        let mut candidates: Vec<(Reverse<u32>, u32)> = (0u32..)
            .zip(self.nodes.all())
            .filter(|(_, node)| node.vc == change.from && node.up && node.leaving.is_none())
            .map(|(ix, node)| (Reverse(node.free.count_ones()), ix))
            .collect();
        candidates.sort_unstable();
        for (_, node) in candidates.into_iter().take(change.nodes as usize) {
            self.nodes.unlist(node);
            if let Some(state) = self.nodes.get_mut(node) {
                state.leaving = Some((change.to, now));
            }
            self.hand_over(node, now);
        }
    }

    /// Serves the queues that something happened to.
    pub(super) fn serve(&mut self, now: i64) {
        for vc in std::mem::take(&mut self.concerned) {
            let mut passed = 0;
            while let Some(job) = self.queues.get(vc as usize).and_then(|queue| queue.get(passed).copied()) {
                let Some(request) = self.requests.get(job as usize).copied() else { break };
                if let Some(slices) = self.nodes.place(vc, request.units) {
                    if let Some(queue) = self.queues.get_mut(vc as usize) {
                        queue.remove(passed);
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
            if let Some(state) = self.nodes.get_mut(slice.node) {
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
}
