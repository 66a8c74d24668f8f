//! Slurm's backfill, as its plugin plans (22.05, `sched/backfill` with `select/cons_tres`), for replays of what a Slurm cluster did.
//!
//! It is conservative backfill with Slurm's own coarseness, all of which shows in recorded starts:
//!
//! * Times are whole seconds since the Unix epoch; a reservation begins and ends on whole minutes (`bf_resolution`, 60 s), and holds
//!   *whole nodes*: no job whose time limit reaches into it may use any GPU of them.
//! * The earliest start of a job is looked for by taking running jobs away in order of their limits, in steps of 30 s that double.
//! * A job goes to the run of neighbouring nodes that just suffices: of those with enough nodes the one with the fewest free processors, of equals the first. A job of one node goes to the node of
//!   that run with the fewest. Where no run suffices, that with the most comes first. A job of *n* GPUs asks for *k* nodes with ⌈n/k⌉ each, k as it says or as few as have its GPUs.
//! * Processors are those that fitting nodes have left, in whole cores, if all nodes of the pool have a number of them (section *Processors and memory* of [`crate::sim`]). Else each node has many, and each job takes one: the run of fewest nodes, then that with most jobs.
//!   Slurm counts of a node only the processors that the job could use: whole tasks of `--cpus-per-task`, at most `--ntasks-per-node`, with memory for each of `--mem-per-cpu`. No record has these, so here all that are left count.
//! * Where the nodes hang on switches, a job goes to leaf after leaf of them instead: see the module `tree`.
//!
//! * Those of partitions on other nodes are in that list as well (only where limits make pools one, as otherwise they know nothing of each other): a step goes on past one that ends within it.
//! * A job whose QOS stops others starts a decision after they have stopped: its nodes are kept whole until the end of this one. Where it waits for others as well, those it may stop are taken away first.
//!
//! Order and decision interval (`bf_interval`) are the policy's. Parts of GPUs are not known. Found by comparing with a real
//! Slurm's log, cycle by cycle; see the end-to-end test. O(queue × reservations × running jobs) for a decision.
//!
//! Worked number: at 09:00:10 a job with a limit of 2 min that must wait for one whose limit ends at 09:01:05 is promised 09:01:05, and its
//! nodes are kept from 09:01:00 to 09:03:00.

mod tree;

use crate::error::Result;
use crate::sim::engine::{Action, Run};
use crate::sim::nodes::{Nodes, lowest};
use crate::sim::policy::Scan;
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

/// A running job: the end of its limit in whole seconds, its index and its pieces (none in another pool).
struct Holder {
    end_s: i64,
    job: u32,
    pieces: Vec<Piece>,
}

/// A cycle.
pub(in crate::sim) struct Walk {
    now_s: i64,
    kept: Vec<Kept>,
    holders: Vec<Holder>,
    /// Whether a job was stopped.
    pub(super) stopped: bool,
}

/// What comes of a job's turn.
enum Turn {
    /// It starts on these nodes.
    Start(Vec<u32>),
    /// These jobs are told to stop for it.
    Stop(Vec<u32>),
    /// It waits.
    Wait,
}

/// How many nodes a job asks for, and how many GPUs on each, with what these need beside them.
#[derive(Clone, Copy)]
struct Gang {
    nodes: usize,
    each: u32,
    shape: Shape,
}

impl Gang {
    fn of(shape: Shape, nodes: &Nodes) -> Self {
        let largest = nodes.largest(shape.gpu_type).max(1);
        let count = if shape.nodes > 0 { u32::from(shape.nodes) } else { shape.gpus.div_ceil(largest) }.max(1);
        Self { nodes: count as usize, each: shape.gpus.div_ceil(count), shape }
    }

    /// Whether a node has room for its part.
    fn fits(self, nodes: &Nodes, node: u32) -> bool {
        nodes.room(node, self.shape) >= self.each
    }
}

impl Kept {
    /// Nodes kept from a second on for as long as a limit, by whole minutes.
    fn of(at_s: i64, limit_s: i64, nodes: &[u32], count: u32) -> Self {
        let minute = |second: i64| second.div_euclid(RESOLUTION_S) * RESOLUTION_S;
        let (begin_s, end_s) = (minute(at_s), minute(at_s.saturating_add(limit_s)));
        let nodes = (0..count).map(|node| nodes.contains(&node)).collect();
        Self { begin_s, end_s: end_s.max(begin_s + RESOLUTION_S), nodes }
    }
}

/// The pool without some of the jobs that run.
struct Without {
    nodes: Nodes,
    jobs: Vec<i64>,
}

impl Without {
    /// All still run.
    fn all(run: &Run<'_>) -> Self {
        let mut jobs = vec![0; run.nodes.len() as usize];
        for (_, segment) in &run.expected {
            for piece in run.schedule.pieces_of(&run.schedule.segments[*segment as usize]) {
                jobs[run.nodes.local(piece.node) as usize] += 1;
            }
        }
        Self { nodes: run.nodes.clone(), jobs }
    }

    fn take_out(&mut self, run: &Run<'_>, job: u32) {
        let Some(segment) = run.schedule.last_segment(job as usize) else { return };
        for piece in run.schedule.pieces_of(segment) {
            self.nodes.give(piece);
            self.jobs[run.nodes.local(piece.node) as usize] -= 1;
        }
    }

    /// Nodes for a gang among the allowed.
    fn fit(&self, run: &Run<'_>, gang: Gang, allowed: &[bool]) -> Option<Vec<u32>> {
        let fits = |node: &u32| allowed[*node as usize] && gang.fits(&self.nodes, *node);
        let fitting: Vec<u32> = (0..run.nodes.len()).filter(fits).collect();
        choose(&self.nodes, &fitting, gang.nodes, &self.jobs)
    }
}

impl Run<'_> {
    /// A cycle of the backfill begins.
    pub(super) fn begin_slurm(&self) -> Walk {
        let now_s = self.workload.origin_ms.saturating_add(self.now).div_euclid(1000);
        Walk { now_s, kept: Vec::new(), holders: self.holders(), stopped: false }
    }

    /// Whether one network of switches could have a job, where nodes hang on any.
    pub(in crate::sim) fn could_on_switches(&self, job: u32) -> bool {
        let (true, Some(domains)) = (self.policy.scan == Scan::Slurm, self.whole.domains()) else { return true };
        let shape = self.shape(job);
        let gang = Gang::of(shape, &self.whole);
        let fits = |node: &u32| self.whole.is_type(*node, shape.gpu_type) && gang.fits(&self.whole, *node);
        let fitting: Vec<u32> = (0..self.whole.len()).filter(fits).collect();
        tree::pick(domains, &fitting, gang.nodes).is_some()
    }

    /// A job starts, or nodes are kept for it.
    pub(super) fn look_slurm(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        if self.is_joint() {
            // A job of another pool may have started since.
            walk.holders = self.holders();
        }
        let turn = if self.fits_quota(job) { self.plan(job, walk) } else { Turn::Wait };
        match turn {
            Turn::Start(nodes) => {
                let pieces = self.slurm_pieces(job, &nodes);
                self.apply(Action::Start { job, pieces: &pieces })?;
                walk.holders = self.holders();
            }
            Turn::Stop(victims) => {
                for victim in victims {
                    walk.stopped |= self.dismiss(victim)?;
                }
                walk.holders = self.holders();
                self.queue.insert(job);
            }
            Turn::Wait => self.queue.insert(job),
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
        let elsewhere = self.expected_elsewhere().map(|(end_ms, job)| {
            let end_s = self.workload.origin_ms.saturating_add(end_ms).div_euclid(1000);
            Holder { end_s, job, pieces: Vec::new() }
        });
        holders.extend(elsewhere);
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
                pieces.push(Piece { host: shape.host_of(count), ..Piece::whole(self.nodes.number(*node), gpus) });
            }
        }
        pieces
    }

    /// The nodes on which a job starts now; otherwise whole nodes are kept for it, if it will ever fit.
    fn plan(&self, job: u32, walk: &mut Walk) -> Turn {
        let Walk { now_s, ref mut kept, ref holders, .. } = *walk;
        let candidates = self.dismissable(job);
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
            let found = if enough { self.earliest(gang, &allowed, now_s, holders, &candidates) } else { None };
            let Some((at_s, nodes)) = found else {
                let Some(later_s) = later_s else { return Turn::Wait };
                from_s = later_s;
                continue;
            };
            let at_s = at_s.max(from_s);
            if at_s <= now_s {
                let fits = nodes.iter().all(|node| gang.fits(&self.nodes, *node));
                if fits {
                    return Turn::Start(nodes);
                }
                let Some((nodes, victims)) = self.stops(gang, &allowed, candidates) else { return Turn::Wait };
                kept.push(Kept::of(now_s, limit_s, &nodes, count));
                return Turn::Stop(victims);
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
            kept.push(Kept::of(at_s, limit_s, &nodes, count));
            return Turn::Wait;
        }
        Turn::Wait
    }

    /// Whom a job stops, and the nodes on which it then fits. Candidates are taken out in order until it fits; then the last of them comes first, before it those on most of the nodes that were found, and it begins
    /// anew; at the third time, or with as few candidates as tries, those taken out that run on these nodes are told to stop.
    fn stops(&self, gang: Gang, allowed: &[bool], mut candidates: Vec<u32>) -> Option<(Vec<u32>, Vec<u32>)> {
        let count = candidates.len();
        let mut tries = 0;
        loop {
            let mut state = Without::all(self);
            let (last, nodes) = candidates.iter().enumerate().find_map(|(at, candidate)| {
                state.take_out(self, *candidate);
                Some((at, state.fit(self, gang, allowed)?))
            })?;
            tries += 1;
            let shared = |candidate: u32| self.nodes_of(candidate).filter(|node| nodes.contains(node)).count();
            if tries > 2 || count <= tries {
                candidates.truncate(last + 1);
                candidates.retain(|candidate| shared(*candidate) > 0);
                return Some((nodes, candidates));
            }
            let weight = |(at, candidate): (usize, &u32)| match at.cmp(&last) {
                std::cmp::Ordering::Less => shared(*candidate),
                std::cmp::Ordering::Equal => usize::MAX,
                std::cmp::Ordering::Greater => 0,
            };
            let mut weighed: Vec<(usize, u32)> =
                candidates.iter().enumerate().map(|(at, candidate)| (weight((at, candidate)), *candidate)).collect();
            weighed.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
            candidates = weighed.into_iter().map(|(_, candidate)| candidate).collect();
        }
    }

    /// Nodes on which a job runs.
    fn nodes_of(&self, job: u32) -> impl Iterator<Item = u32> {
        let pieces = self.schedule.last_segment(job as usize).map(|segment| self.schedule.pieces_of(segment));
        pieces.into_iter().flatten().map(|piece| self.nodes.local(piece.node))
    }

    /// The earliest second at which `gang` fits on the allowed nodes, and where, taking running jobs away in order of their limits.
    /// Those that would stop for it go first, and if it fits then, that is now.
    fn earliest(
        &self,
        gang: Gang,
        allowed: &[bool],
        now_s: i64,
        holders: &[Holder],
        stops: &[u32],
    ) -> Option<(i64, Vec<u32>)> {
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
            (0..nodes.len()).filter(|node| allowed[*node as usize] && gang.fits(nodes, *node)).collect()
        };
        if let Some(found) = choose(&nodes, &fitting(&nodes), gang.nodes, &jobs) {
            return Some((now_s, found));
        }
        let gone = |holder: &&Holder| stops.contains(&holder.job);
        for holder in holders.iter().filter(gone) {
            for (piece, node) in holder.pieces.iter().zip(on(holder)) {
                nodes.give(piece);
                jobs[node] -= 1;
            }
        }
        if !stops.is_empty()
            && let Some(found) = choose(&nodes, &fitting(&nodes), gang.nodes, &jobs)
        {
            return Some((now_s, found));
        }
        let holders: Vec<&Holder> = holders.iter().filter(|holder| !gone(holder)).collect();
        let mut rest = holders.into_iter().peekable();
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
            if let Some(found) = choose(&nodes, &fitting(&nodes), gang.nodes, &jobs) {
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

/// Free processors of a node: whole cores; where these are not known, one and less its jobs, as nodes have many more processors than jobs.
type Free = (i64, i64);

/// `count` of the fitting nodes (rising), by switches if they hang on any; `jobs` run on each node.
fn choose(nodes: &Nodes, fitting: &[u32], count: usize, jobs: &[i64]) -> Option<Vec<u32>> {
    match nodes.domains() {
        Some(domains) => tree::pick(domains, fitting, count),
        None => pick(fitting, count, &free(nodes, jobs)),
    }
}

fn free(nodes: &Nodes, jobs: &[i64]) -> Vec<Free> {
    // What jobs take is rounded down, by less than a thousandth for each GPU, so what is left is whole cores and a bit.
    let cores = |node: u32| nodes.host(node).cores_milli.map(|milli| (i64::from(milli / 1000), 0));
    let known: Option<Vec<Free>> = (0..nodes.len()).map(cores).collect();
    known.unwrap_or_else(|| jobs.iter().map(|jobs| (1, -jobs)).collect())
}

/// `count` of the fitting nodes (rising), by runs of neighbours.
fn pick(fitting: &[u32], count: usize, free: &[Free]) -> Option<Vec<u32>> {
    if fitting.len() < count {
        return None;
    }
    let mut runs: Vec<&[u32]> = fitting.chunk_by(|a, b| a + 1 == *b).collect();
    let of = |run: &[u32]| {
        run.iter().fold((0, 0), |sum: Free, node| (sum.0 + free[*node as usize].0, sum.1 + free[*node as usize].1))
    };
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    while chosen.len() < count {
        let missing = count - chosen.len();
        if let Some(run) = runs.iter().filter(|run| run.len() >= missing).min_by_key(|run| of(run)) {
            if missing == 1 && chosen.is_empty() {
                chosen.extend(run.iter().min_by_key(|node| (free[**node as usize], **node)));
            } else {
                chosen.extend(&run[..missing]);
            }
            break;
        }
        // None suffices: the largest, the first of equals.
        let largest = (0..runs.len()).rev().max_by_key(|at| of(runs[*at]))?;
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
        let jobs = [0, 2, 9, 1, 1, 1].map(|jobs| (1, -jobs));
        let fitting = [0, 1, 3, 4, 5];
        assert_eq!(pick(&fitting, 1, &jobs), Some(vec![1]));
        assert_eq!(pick(&fitting, 2, &jobs), Some(vec![0, 1]));
        assert_eq!(pick(&fitting, 3, &jobs), Some(vec![3, 4, 5]));
        assert_eq!(pick(&fitting, 4, &jobs), Some(vec![0, 3, 4, 5]));
        assert_eq!(pick(&fitting, 6, &jobs), None);
        // By cores: runs of 40 and 36 cores. One node: the run with fewer, its fullest node. Four: the run with more, then one of the other.
        let cores = [32, 8, 32, 10, 10, 16].map(|cores| (cores, 0));
        assert_eq!(pick(&fitting, 1, &cores), Some(vec![3]));
        assert_eq!(pick(&fitting, 2, &cores), Some(vec![3, 4]));
        assert_eq!(pick(&fitting, 4, &cores), Some(vec![0, 1, 3, 4]));
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
