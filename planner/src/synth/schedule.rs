//! Who runs where and when: the requests, replayed by the simulator ([`crate::sim`]) under the policy of the specification.
//!
//! The waits and placements of a synthetic trace come out of real contention, and `tracecast simulate` under the same policy
//! repeats them to the millisecond, as it is the same engine and the trace says all that it needs: what was asked for, nodes
//! by VC over time, and when which node failed.
//!
//! Nodes fail and come back: the jobs on them end, and wait again if they may run again, from the beginning. Nodes move
//! between VCs: from the moment ordered on, the first node that is empty while none of its VC is out changes hands at once,
//! one at a time, and fails no more. So neither a node nor a VC ever gives out more than it has, and sizes alone, without
//! names of nodes, say what happened.
//!
//! A VC's nodes are *slots* to the simulator: a node that leaves frees its slot, one that comes takes the lowest free one.
//!
//! O(simulation × nodes that move). Worked example: a VC of two nodes is to give one at 50 s; one is busy until 80 s, the other
//! until 60 s. The second goes at 60 s, before anything that waits can start on it.

use std::collections::BTreeSet;

use tracecast_analytics::{Error, Result};

use crate::sim::{self, Cluster, Group, Policy, Pool, Segment, Shape, Stop, Vc, Workload};

/// Units a node may have: one bit each.
pub(super) const MAX_UNITS: u32 = sim::cluster::MAX_GPUS_PER_NODE;

/// The least time between two nodes that change hands, milliseconds.
const BETWEEN_MOVES_MS: i64 = 1_000;

/// Request of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// Submission, milliseconds.
    pub(super) submit_ms: i64,
    /// Index of its VC.
    pub(super) vc: u32,
    /// User who submits it.
    pub(super) user: u32,
    /// Units (GPUs or cores) it asks for, all at once.
    pub(super) units: u32,
    /// How long it runs if nothing fails, milliseconds.
    pub(super) run_ms: i64,
    /// Time limit of the job, milliseconds.
    pub(super) limit_ms: Option<i64>,
    /// Whether it runs again if a node fails under it.
    pub(super) requeues: bool,
}

/// The nodes at the beginning.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// Units on each node, at most [`MAX_UNITS`].
    pub(super) units_per_node: u32,
    /// The VC each node belongs to at first; those of a VC stand together.
    pub(super) node_vc: Vec<u32>,
    /// Names of the VCs.
    pub(super) vcs: Vec<String>,
}

/// A quota change: `nodes` nodes are to go from one VC to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// Moment of the order, milliseconds.
    pub(super) at_ms: i64,
    /// The VC that gives.
    pub(super) from: u32,
    /// The VC that gets.
    pub(super) to: u32,
    /// Nodes.
    pub(super) nodes: u32,
}

/// A node out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outage {
    /// The node.
    pub(super) node: u32,
    /// Moment of failure, milliseconds.
    pub(super) from_ms: i64,
    /// Moment of return, milliseconds.
    pub(super) to_ms: i64,
}

/// Units of one node that an attempt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    /// The node.
    pub(super) node: u32,
    /// The units, one bit each.
    pub(super) units: u64,
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Index of the job.
    pub(super) job: u32,
    /// 1 for the first.
    pub(super) number: u32,
    /// Start of the run, milliseconds.
    pub(super) start_ms: i64,
    /// End of the run, milliseconds; `None` if that is not before the record is taken.
    pub(super) end_ms: Option<i64>,
    /// Whether a node failure ended it.
    pub(super) failed: bool,
    /// Node slices that the run is on.
    pub(super) slices: Vec<Slice>,
}

/// A node that changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handover {
    /// When, milliseconds.
    pub(super) at_ms: i64,
    /// The VC that gave it.
    pub(super) from: u32,
    /// The VC that got it.
    pub(super) to: u32,
}

/// Schedule of the replay.
#[derive(Debug, Clone, Default)]
pub(super) struct Schedule {
    /// Attempts in order of their start.
    pub(super) attempts: Vec<Attempt>,
    /// Nodes that changed hands, in order of time.
    pub(super) handovers: Vec<Handover>,
    /// Failures that happened: not those of nodes that had changed hands.
    pub(super) outages: Vec<Outage>,
}

/// Runs `requests` on `machine` from `from_ms` until `until_ms`.
///
/// # Errors
/// If the policy does not go with the requests.
pub(super) fn schedule(
    requests: &[Request],
    machine: &Machine,
    policy: &Policy,
    changes: &[Change],
    outages: &[Outage],
    (from_ms, until_ms): (i64, i64),
) -> Result<Schedule> {
    let (workload, order) = workload(requests, from_ms);
    let mut slots = Slots::new(machine);
    let mut outages: Vec<Outage> = outages.iter().filter(|outage| outage.to_ms > outage.from_ms).copied().collect();
    let run = |slots: &Slots, outages: &[Outage]| {
        let cluster = slots.cluster(machine, outages, from_ms);
        let schedule = sim::simulate(&workload, &cluster, policy).map_err(|error| Error::Setting {
            setting: "scheduler".to_owned(),
            found: error.to_string(),
            remedy: "choose a policy that needs nothing but the jobs".to_owned(),
        });
        Ok::<_, Error>((schedule?, cluster.first_nodes()))
    };
    let (mut replayed, mut firsts) = run(&slots, &outages)?;
    let mut handovers: Vec<Handover> = Vec::new();
    let wanted = changes.iter().flat_map(|change| (0..change.nodes).map(move |_| *change));
    for Change { at_ms, from, to, .. } in wanted {
        let after = handovers.last().map_or(i64::MIN, |last: &Handover| last.at_ms + BETWEEN_MOVES_MS);
        let first = firsts.get(from as usize).copied().unwrap_or(0);
        let busy = busy(&replayed, first, slots.of(from).len(), from_ms);
        let Some((slot, at_ms)) = slots.first_empty(from, &busy, &outages, at_ms.max(after)) else { continue };
        if at_ms >= until_ms {
            continue;
        }
        let Some(node) = slots.give(from, slot, to, at_ms) else { continue };
        outages.retain(|outage| outage.node != node || outage.from_ms < at_ms);
        handovers.push(Handover { at_ms, from, to });
        (replayed, firsts) = run(&slots, &outages)?;
    }
    let attempts = slots.attempts(&replayed, &workload, &firsts, &order, (from_ms, until_ms));
    outages.retain(|outage| outage.from_ms < until_ms);
    Ok(Schedule { attempts, handovers, outages })
}

/// The requests as a workload, in order of submission, and which request each job is.
fn workload(requests: &[Request], from_ms: i64) -> (Workload, Vec<u32>) {
    let mut order: Vec<u32> = (0..requests.len() as u32).collect();
    order.sort_by_key(|ix| requests.get(*ix as usize).map(|request| request.submit_ms));
    let mut jobs = Workload { origin_ms: from_ms, ..Workload::default() };
    let users = requests.iter().map(|request| request.user + 1).max().unwrap_or(0);
    for (job, request) in (0u32..).zip(order.iter().filter_map(|ix| requests.get(*ix as usize))) {
        jobs.push(request.submit_ms - from_ms, request.run_ms.max(0), Shape::whole(request.units));
        if let (Some(vc), Some(user), Some(limit)) =
            (jobs.vc.last_mut(), jobs.user.last_mut(), jobs.requested_ms.last_mut())
        {
            (*vc, *user, *limit) = (request.vc as u16, request.user, request.limit_ms);
        }
        if !request.requeues {
            jobs.once.push(job);
        }
    }
    jobs.users = (0..users).map(|user| user.to_string()).collect();
    (jobs, order)
}

/// When each of `slots` nodes from number `first` on is in use: (start, end) in order of start, milliseconds.
fn busy(schedule: &sim::Schedule, first: u32, slots: usize, from_ms: i64) -> Vec<Vec<(i64, i64)>> {
    let mut busy = vec![Vec::new(); slots];
    for segment in &schedule.segments {
        for piece in schedule.pieces_of(segment) {
            let slot = piece.node.checked_sub(first).and_then(|slot| busy.get_mut(slot as usize));
            if let Some(spans) = slot {
                spans.push((segment.start_ms + from_ms, segment.end_ms + from_ms));
            }
        }
    }
    for spans in &mut busy {
        spans.sort_unstable();
    }
    busy
}

/// Node in a slot: (since when, which), `None` while there is none.
type Slot = Vec<(i64, Option<u32>)>;

/// Nodes by slot of a VC, over time.
#[derive(Debug)]
struct Slots {
    /// Slots by VC.
    vcs: Vec<Vec<Slot>>,
    /// By VC: (when, how many nodes from then on).
    sizes: Vec<Vec<(i64, u32)>>,
}

impl Slots {
    fn new(machine: &Machine) -> Self {
        let mut vcs: Vec<Vec<Slot>> = vec![Vec::new(); machine.vcs.len()];
        for (node, vc) in (0u32..).zip(&machine.node_vc) {
            if let Some(slots) = vcs.get_mut(*vc as usize) {
                slots.push(vec![(i64::MIN, Some(node))]);
            }
        }
        let sizes = vcs.iter().map(|slots| vec![(i64::MIN, slots.len() as u32)]).collect();
        Self { vcs, sizes }
    }

    fn of(&self, vc: u32) -> &[Slot] {
        self.vcs.get(vc as usize).map_or(&[], Vec::as_slice)
    }

    /// The node in a slot, at the end.
    fn node(slot: &[(i64, Option<u32>)]) -> Option<u32> {
        slot.last().and_then(|(_, node)| *node)
    }

    /// From `from_ms` on, the first moment at which a slot of `vc` is empty and no node of it is out, and the slot that the
    /// simulator takes then: the highest.
    fn first_empty(&self, vc: u32, busy: &[Vec<(i64, i64)>], outages: &[Outage], from_ms: i64) -> Option<(usize, i64)> {
        let there: Vec<(usize, u32)> =
            self.of(vc).iter().enumerate().filter_map(|(at, slot)| Some((at, Self::node(slot)?))).collect();
        let mine: BTreeSet<u32> = there.iter().map(|(_, node)| *node).collect();
        // What starts at a moment starts after nodes have changed hands, what ends has ended.
        let idle_from = |slot: usize, at_ms: i64| {
            let spans = busy.get(slot).map_or(&[][..], Vec::as_slice);
            let mut at_ms = at_ms;
            for (start, end) in spans {
                if *start >= at_ms {
                    break;
                }
                at_ms = at_ms.max(*end);
            }
            at_ms
        };
        let mut at_ms = from_ms;
        loop {
            let next = there.iter().map(|(slot, _)| idle_from(*slot, at_ms)).min()?;
            let out = |outage: &&Outage| mine.contains(&outage.node) && outage.from_ms <= next && next < outage.to_ms;
            match outages.iter().filter(out).map(|outage| outage.to_ms).max() {
                Some(repaired) => at_ms = repaired,
                None => {
                    let empty = there.iter().rev().find(|(slot, _)| idle_from(*slot, next) == next)?;
                    return Some((empty.0, next));
                }
            }
        }
    }

    /// Moves the node in a slot of `from` to `to`; which it was.
    fn give(&mut self, from: u32, slot: usize, to: u32, at_ms: i64) -> Option<u32> {
        let spans = self.vcs.get_mut(from as usize)?.get_mut(slot)?;
        let node = Self::node(spans)?;
        spans.push((at_ms, None));
        let slots = self.vcs.get_mut(to as usize)?;
        match slots.iter_mut().find(|slot| Self::node(slot).is_none()) {
            Some(away) => away.push((at_ms, Some(node))),
            None => slots.push(vec![(at_ms, Some(node))]),
        }
        for vc in [from, to] {
            let present = self.of(vc).iter().filter(|slot| Self::node(slot).is_some()).count() as u32;
            if let Some(sizes) = self.sizes.get_mut(vc as usize) {
                sizes.push((at_ms, present));
            }
        }
        Some(node)
    }

    /// The nodes as the simulator has them, each VC on its own.
    fn cluster(&self, machine: &Machine, outages: &[Outage], from_ms: i64) -> Cluster {
        let mut cluster = Cluster::default();
        for ((at, name), sizes) in (0u16..).zip(&machine.vcs).zip(&self.sizes) {
            let since = |at_ms: i64| if at_ms == i64::MIN { at_ms } else { at_ms - from_ms };
            let sizes = sizes.iter().map(|(at_ms, nodes)| (since(*at_ms), *nodes)).collect();
            let group = Group { sizes, ..Group::fixed(0, machine.units_per_node.clamp(1, MAX_UNITS)) };
            cluster.pools.push(Pool { groups: vec![group] });
            cluster.vcs.push(Vc::new(name.clone(), at));
        }
        let firsts = cluster.first_nodes();
        for outage in outages {
            // A node that has moved fails no more, so it is where it was at first.
            let Some(vc) = machine.node_vc.get(outage.node as usize) else { continue };
            let before = machine.node_vc.iter().take(outage.node as usize).filter(|of| *of == vc).count() as u32;
            let node = firsts.get(*vc as usize).copied().unwrap_or(0) + before;
            let (from_ms, to_ms) = (outage.from_ms - from_ms, outage.to_ms - from_ms);
            cluster.outages.push(sim::Outage { node, from_ms, to_ms });
        }
        cluster
    }

    /// What ran, by request and node.
    fn attempts(
        &self,
        schedule: &sim::Schedule,
        workload: &Workload,
        firsts: &[u32],
        order: &[u32],
        (from_ms, until_ms): (i64, i64),
    ) -> Vec<Attempt> {
        let mut segments: Vec<&Segment> =
            schedule.segments.iter().filter(|segment| segment.start_ms + from_ms < until_ms).collect();
        segments.sort_by_key(|segment| segment.start_ms);
        let mut started = vec![0u32; order.len()];
        let mut attempts = Vec::with_capacity(segments.len());
        for segment in segments {
            let (Some(job), Some(started)) = (order.get(segment.job as usize), started.get_mut(segment.job as usize))
            else {
                continue;
            };
            *started += 1;
            let vc = workload.vc.get(segment.job as usize).copied().unwrap_or(0);
            let first = firsts.get(usize::from(vc)).copied().unwrap_or(0);
            let start_ms = segment.start_ms + from_ms;
            let slice = |piece: &sim::Piece| {
                let slot = self.of(u32::from(vc)).get(piece.node.checked_sub(first)? as usize)?;
                let at = slot.partition_point(|(since, _)| *since <= start_ms).checked_sub(1)?;
                Some(Slice { node: slot.get(at)?.1?, units: piece.gpus })
            };
            let end_ms = Some(segment.end_ms + from_ms).filter(|end| *end < until_ms);
            attempts.push(Attempt {
                job: *job,
                number: *started,
                start_ms,
                end_ms,
                failed: end_ms.is_some() && segment.stop == Stop::Failed,
                slices: schedule.pieces_of(segment).iter().filter_map(slice).collect(),
            });
        }
        attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000;

    /// Two VCs, `a` with two nodes of 8 and `b` with one.
    fn machine() -> Machine {
        Machine { units_per_node: 8, node_vc: vec![0, 0, 1], vcs: vec!["a".into(), "b".into()] }
    }

    fn request(submit_s: i64, vc: u32, units: u32, run_s: i64) -> Request {
        let (submit_ms, run_ms) = (submit_s * S, run_s * S);
        Request { submit_ms, vc, user: 0, units, run_ms, limit_ms: None, requeues: true }
    }

    fn run(requests: &[Request], changes: &[Change], outages: &[Outage]) -> Schedule {
        schedule(requests, &machine(), &Policy::default(), changes, outages, (0, 1_000 * S)).unwrap()
    }

    /// (job, start, end, nodes), seconds.
    fn ran(schedule: &Schedule) -> Vec<(u32, i64, Option<i64>, Vec<u32>)> {
        let nodes = |attempt: &Attempt| attempt.slices.iter().map(|slice| slice.node).collect();
        let attempt = |of: &Attempt| (of.job, of.start_ms / S, of.end_ms.map(|end| end / S), nodes(of));
        schedule.attempts.iter().map(attempt).collect()
    }

    #[test]
    fn a_node_changes_hands_when_it_is_empty() {
        // Node 0 is busy until 80 s, node 1 until 60 s: the second goes, ordered at 50 s. What waits in `a` since 10 s gets node 0
        // at 80 s, what waits in `b` for two nodes gets nodes 2 and 1.
        let requests = [request(0, 0, 8, 80), request(0, 0, 8, 60), request(10, 0, 8, 5), request(10, 1, 16, 7)];
        let change = Change { at_ms: 50 * S, from: 0, to: 1, nodes: 1 };
        let result = run(&requests, &[change], &[]);
        assert_eq!(result.handovers, [Handover { at_ms: 60 * S, from: 0, to: 1 }]);
        let expected = vec![
            (0, 0, Some(80), vec![0]),
            (1, 0, Some(60), vec![1]),
            (3, 60, Some(67), vec![2, 1]),
            (2, 80, Some(85), vec![0]),
        ];
        assert_eq!(ran(&result), expected);
    }

    #[test]
    fn a_failure_ends_what_runs_and_a_moved_node_fails_no_more() {
        // Node 0 is out 20–40 s. Of the jobs on it, the first runs again when the node is back, from the beginning; the second does not.
        // Node 1 leaves at 50 s, so its failure at 60 s does not happen.
        let mut requests = [request(0, 0, 2, 100), request(0, 0, 2, 100), request(0, 0, 8, 45)];
        requests[1].requeues = false;
        let outage = |node, from_s: i64, to_s: i64| Outage { node, from_ms: from_s * S, to_ms: to_s * S };
        let change = Change { at_ms: 50 * S, from: 0, to: 1, nodes: 1 };
        let result = run(&requests, &[change], &[outage(0, 20, 40), outage(1, 60, 70)]);
        let expected = vec![
            (0, 0, Some(20), vec![0]),
            (1, 0, Some(20), vec![0]),
            (2, 0, Some(45), vec![1]),
            (0, 40, Some(140), vec![0]),
        ];
        assert_eq!(ran(&result), expected);
        assert_eq!(result.outages, [outage(0, 20, 40)]);
        assert_eq!(result.handovers.first().map(|handover| handover.at_ms), Some(50 * S));
        assert!(result.attempts[0].failed && result.attempts[1].failed && !result.attempts[3].failed);
    }

    #[test]
    fn what_runs_when_the_record_is_taken_has_no_end() {
        let result = schedule(
            &[request(0, 1, 1, 30), request(0, 1, 8, 30)],
            &machine(),
            &Policy::default(),
            &[],
            &[],
            (0, 30 * S),
        )
        .unwrap();
        assert_eq!(ran(&result), [(0, 0, None, vec![2])]);
    }
}
