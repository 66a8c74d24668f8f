//! Slurm's backfill, as its plugin plans (22.05, `sched/backfill` with `select/cons_tres`), for replays of what a Slurm cluster did.
//!
//! It is conservative backfill with Slurm's own coarseness, all of which shows in recorded starts:
//!
//! * Times are whole seconds since the Unix epoch; a reservation begins and ends on whole minutes (`bf_resolution`, 60 s), and holds
//!   *whole nodes*: no job whose time limit reaches into it may use any GPU of them.
//! * The earliest start of a job is looked for by taking running jobs away in order of their limits, in steps of 30 s that double.
//! * A job goes to the run of neighbouring nodes that just suffices (the shortest, then the busiest); a job of one node to the node of
//!   that run with most jobs. A job of *n* GPUs asks for *k* nodes with ⌈n/k⌉ each, k as it says or as few as have its GPUs.
//!
//! Order and decision interval (`bf_interval`) are the policy's. Parts of GPUs are not known. Found by comparing with a real
//! Slurm's log, cycle by cycle; see the end-to-end test. O(queue × reservations × running jobs) for a decision.
//!
//! Worked number: at 09:00:10 a job with a limit of 2 min that must wait for one whose limit ends at 09:01:05 is promised 09:01:05, and its
//! nodes are kept from 09:01:00 to 09:03:00.

use crate::error::Result;
use crate::sim::engine::{Action, Run};
use crate::sim::nodes::{Nodes, lowest};
use crate::sim::schedule::Piece;
use crate::sim::workload::Shape;

/// `bf_resolution`, seconds.
const RESOLUTION_S: i64 = 60;
/// First step in which running jobs are taken away, seconds.
const STEP_S: i64 = 30;
/// Attempts at one job in one decision.
const ATTEMPTS: usize = 400;

/// Whole nodes kept from `begin_s` to `end_s`.
struct Kept {
    begin_s: i64,
    end_s: i64,
    nodes: Vec<bool>,
}

/// A running job: the end of its limit in whole seconds, its index and its pieces.
struct Holder {
    end_s: i64,
    job: u32,
    pieces: Vec<Piece>,
}

/// How many nodes a job asks for, and how many GPUs on each.
#[derive(Clone, Copy)]
struct Gang {
    nodes: usize,
    each: u32,
}

impl Gang {
    fn of(shape: Shape, nodes: &Nodes) -> Self {
        let largest = nodes.largest(shape.gpu_type).max(1);
        let count = if shape.nodes > 0 { u32::from(shape.nodes) } else { shape.gpus.div_ceil(largest) }.max(1);
        Self { nodes: count as usize, each: shape.gpus.div_ceil(count) }
    }
}

impl Run<'_> {
    /// One cycle of the backfill.
    pub(super) fn walk_slurm(&mut self) -> Result<()> {
        let second = |ms: i64| self.workload.origin_ms.saturating_add(ms).div_euclid(1000);
        let now_s = second(self.now);
        let mut kept: Vec<Kept> = Vec::new();
        let mut holders = self.holders();
        for job in self.sorted() {
            let found = if self.fits_quota(job) { self.plan(job, now_s, &mut kept, &holders) } else { None };
            match found {
                Some(nodes) => {
                    let pieces = self.slurm_pieces(job, &nodes);
                    self.apply(Action::Start { job, pieces: &pieces })?;
                    holders = self.holders();
                }
                None => self.queue.insert(job),
            }
        }
        Ok(())
    }

    /// Running jobs by the end of their limits.
    fn holders(&self) -> Vec<Holder> {
        let holder = |(end_ms, segment): &(i64, u32)| {
            let record = &self.schedule.segments[*segment as usize];
            let end_s = self.workload.origin_ms.saturating_add(*end_ms).div_euclid(1000);
            Holder { end_s, job: record.job, pieces: self.schedule.pieces_of(record).to_vec() }
        };
        let mut holders: Vec<Holder> = self.expected.iter().map(holder).collect();
        holders.sort_by_key(|holder| (holder.end_s, holder.job));
        holders
    }

    fn slurm_pieces(&self, job: u32, nodes: &[u32]) -> Vec<Piece> {
        let shape = self.shape(job);
        let gang = Gang::of(shape, &self.nodes);
        let mut left = shape.gpus;
        let mut pieces = Vec::with_capacity(nodes.len());
        for node in nodes {
            let count = gang.each.min(left);
            left -= count;
            if count > 0 {
                let gpus = lowest(self.nodes.free_bits(*node), count);
                pieces.push(Piece { node: self.nodes.number(*node), milli: 0, gpus });
            }
        }
        pieces
    }

    /// The nodes on which a job starts now; otherwise whole nodes are kept for it, if it will ever fit.
    fn plan(&self, job: u32, now_s: i64, kept: &mut Vec<Kept>, holders: &[Holder]) -> Option<Vec<u32>> {
        let shape = self.shape(job);
        let gang = Gang::of(shape, &self.nodes);
        // A limit is whole seconds; what is left of one is rounded up.
        let limit_s = self.expected_ms(job).saturating_add(999) / 1000;
        let count = self.nodes.len();
        let serves = |node: u32| self.nodes.is_eligible(node) && self.nodes.is_type(node, shape.gpu_type);
        let mut from_s = now_s;
        for _ in 0..ATTEMPTS {
            let until_s = from_s.saturating_add(limit_s);
            let touching = |other: &Kept| other.begin_s <= until_s && other.end_s > from_s;
            let allowed: Vec<bool> = (0..count)
                .map(|node| serves(node) && !kept.iter().any(|other| touching(other) && other.nodes[node as usize]))
                .collect();
            let later_s = next_release(kept, from_s, count);
            let enough = allowed.iter().filter(|allowed| **allowed).count() >= gang.nodes;
            let found = if enough { self.earliest(gang, &allowed, now_s, holders) } else { None };
            let Some((at_s, nodes)) = found else {
                from_s = later_s?;
                continue;
            };
            let at_s = at_s.max(from_s);
            if at_s <= now_s {
                return Some(nodes);
            }
            if let Some(later) = later_s.filter(|later| at_s > *later) {
                from_s = later;
                continue;
            }
            let minute = |second: i64| second.div_euclid(RESOLUTION_S) * RESOLUTION_S;
            let (begin_s, end_s) = (minute(at_s), minute(at_s.saturating_add(limit_s)));
            let clashes = |other: &Kept| {
                other.begin_s < end_s && other.end_s > begin_s && nodes.iter().any(|node| other.nodes[*node as usize])
            };
            if kept.iter().any(clashes) {
                from_s = if from_s == at_s { at_s + RESOLUTION_S } else { at_s };
                continue;
            }
            let mask = (0..count).map(|node| nodes.contains(&node)).collect();
            kept.push(Kept { begin_s, end_s: end_s.max(begin_s + RESOLUTION_S), nodes: mask });
            return None;
        }
        None
    }

    /// The earliest second at which `gang` fits on the allowed nodes, and where, taking running jobs away in order of their limits.
    fn earliest(&self, gang: Gang, allowed: &[bool], now_s: i64, holders: &[Holder]) -> Option<(i64, Vec<u32>)> {
        let mut nodes = self.nodes.clone();
        let mut jobs = vec![0i64; allowed.len()];
        let on = |holder: &Holder| -> Vec<usize> {
            holder.pieces.iter().map(|piece| self.nodes.local(piece.node) as usize).collect()
        };
        for holder in holders {
            for node in on(holder) {
                jobs[node] += 1;
            }
        }
        let fitting = |nodes: &Nodes| -> Vec<u32> {
            (0..nodes.len()).filter(|node| allowed[*node as usize] && nodes.free(*node) >= gang.each).collect()
        };
        if let Some(found) = pick(&fitting(&nodes), gang.nodes, &jobs) {
            return Some((now_s, found));
        }
        let mut rest = holders.iter().peekable();
        let (mut step_s, mut edge_s) = (STEP_S, None);
        while rest.peek().is_some() {
            let mut last_s = None;
            while let Some(holder) = rest.next() {
                let its = on(holder);
                if !its.iter().any(|node| allowed[*node]) {
                    continue;
                }
                let edge_s = *edge_s.get_or_insert(holder.end_s + step_s - holder.end_s.rem_euclid(step_s));
                for (piece, node) in holder.pieces.iter().zip(its) {
                    nodes.give(piece);
                    jobs[node] -= 1;
                }
                last_s = Some(holder.end_s);
                if rest.peek().is_none_or(|next| next.end_s > edge_s + step_s) {
                    break;
                }
            }
            let last_s = last_s?;
            if let Some(found) = pick(&fitting(&nodes), gang.nodes, &jobs) {
                return Some((last_s.max(now_s + 1), found));
            }
            step_s *= 2;
            while rest.peek().is_some_and(|next| next.end_s > edge_s.unwrap_or(0) + step_s) {
                step_s *= 2;
            }
        }
        None
    }
}

/// The first second after `from_s` at which kept nodes come free.
fn next_release(kept: &[Kept], from_s: i64, nodes: u32) -> Option<i64> {
    let mut edges: Vec<i64> =
        kept.iter().flat_map(|other| [other.begin_s, other.end_s]).filter(|at| *at > from_s).collect();
    edges.sort_unstable();
    edges.into_iter().find(|at| {
        (0..nodes as usize).any(|node| {
            let before = kept.iter().any(|other| other.begin_s < *at && *at <= other.end_s && other.nodes[node]);
            let after = kept.iter().any(|other| other.begin_s <= *at && *at < other.end_s && other.nodes[node]);
            before && !after
        })
    })
}

/// `count` of the fitting nodes (rising), by runs of neighbours; `jobs` run on each node.
fn pick(fitting: &[u32], count: usize, jobs: &[i64]) -> Option<Vec<u32>> {
    if fitting.len() < count {
        return None;
    }
    let mut runs: Vec<&[u32]> = fitting.chunk_by(|a, b| a + 1 == *b).collect();
    // Free CPUs, of which nodes have many more than jobs: the length of the run decides, then how busy it is.
    let free = |run: &&[u32]| (run.len(), -run.iter().map(|node| jobs[*node as usize]).sum::<i64>());
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    while chosen.len() < count {
        let missing = count - chosen.len();
        if let Some(run) = runs.iter().filter(|run| run.len() >= missing).min_by_key(|run| free(run)) {
            if missing == 1 && chosen.is_empty() {
                chosen.extend(run.iter().min_by_key(|node| (-jobs[**node as usize], **node)));
            } else {
                chosen.extend(&run[..missing]);
            }
            break;
        }
        // None suffices: the largest, the first of equals.
        let largest = (0..runs.len()).rev().max_by_key(|at| free(&runs[*at]))?;
        chosen.extend(runs.remove(largest));
    }
    chosen.sort_unstable();
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::pick;
    use crate::sim::*;

    #[test]
    fn nodes_are_picked_by_runs() {
        // Runs 0–1 and 3–5; one node: the shorter run, its busier node. Two: the shorter run. Three: the longer. Four: longer, then shorter.
        let jobs = [0, 2, 9, 1, 1, 1];
        let fitting = [0, 1, 3, 4, 5];
        assert_eq!(pick(&fitting, 1, &jobs), Some(vec![1]));
        assert_eq!(pick(&fitting, 2, &jobs), Some(vec![0, 1]));
        assert_eq!(pick(&fitting, 3, &jobs), Some(vec![3, 4, 5]));
        assert_eq!(pick(&fitting, 4, &jobs), Some(vec![0, 3, 4, 5]));
        assert_eq!(pick(&fitting, 6, &jobs), None);
    }

    /// One node of 8; origin on a whole minute. A (6 GPUs, limit 65 s) runs from 0 s. B (8 GPUs, limit 120 s) is promised 65 s and keeps the
    /// whole node from 60 s. C (1 GPU, limit 50 s) comes at 5 s, would end by 55 s and starts; D (1 GPU, limit 60 s) would reach 65 s, into
    /// what is kept, and waits, although the GPU it wants is free and B could start at 66 s.
    #[test]
    fn whole_nodes_are_kept_from_the_minute_on() {
        let mut workload = Workload { origin_ms: 600_000, ..Workload::default() };
        for (submit_s, run_s, gpus, limit_s) in [(0, 65, 6, 65), (1, 120, 8, 120), (5, 50, 1, 50), (5, 60, 1, 60)] {
            workload.push(submit_s * 1000, run_s * 1000, Shape::whole(gpus));
            if let Some(limit) = workload.requested_ms.last_mut() {
                *limit = Some(limit_s * 1000);
            }
        }
        let policy = Policy { scan: Scan::Slurm, estimate: Estimate::Requested, ..Policy::default() };
        let found = simulate(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &policy);
        let starts = found.map(|schedule| [0, 1, 2, 3].map(|job| schedule.start_ms(job).map(|start| start / 1000)));
        assert_eq!(starts.ok(), Some([Some(0), Some(65), Some(5), Some(185)]));
    }
}
