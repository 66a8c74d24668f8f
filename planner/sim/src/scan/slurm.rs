//! Slurm's backfill, as its plugin plans (22.05, `sched/backfill` with `select/cons_tres`), for replays of what a Slurm cluster did.
//!
//! It is conservative backfill with Slurm's own coarseness, all of which shows in recorded starts:
//!
//! * Times are whole seconds since the Unix epoch; a reservation begins and ends on whole minutes (`bf_resolution`, 60 s), and holds
//!   *whole nodes*: no job whose time limit reaches into it may use any GPU of them.
//! * The earliest start of a job is looked for by taking running jobs away in order of their limits, in steps of 30 s that double: see the module `at_work`.
//! * A job goes to the run of neighbouring nodes that just suffices: of those with enough nodes the one with the fewest free processors, of equals the first. A job of one node goes to the node of
//!   that run with the fewest. Where no run suffices, that with the most comes first. A job of *n* GPUs asks for *k* nodes with ⌈n/k⌉ each, k as it says or as few as have its GPUs.
//! * Processors are those that fitting nodes have left, in whole cores, if all nodes of the pool have a number of them (section *Processors and memory* of [the contract](crate)). Else each node has many, and each job takes one: the run of fewest nodes, then that with most jobs.
//!   Slurm counts of a node only the processors that the job could use: whole tasks of `--cpus-per-task`, at most `--ntasks-per-node`, with memory for each of `--mem-per-cpu`. No record has these, so here all that are left count.
//! * How far ahead it plans may be bounded. The table of times ends with the last whole minute within the policy's window (`bf_window`). No nodes are kept for a job that would start in that minute or later. Of the waiting jobs a cycle looks at as many as the policy's depth (`bf_max_job_test`), and its table has as many rows: one at the
//!   beginning, and one for each second at which what is kept begins or ends, unless there is one. Where two neighbouring rows come to say the same, the first such pair after each job becomes one, and the row that this frees is not used again. A cycle with no row left ends at the first job for which nodes would be kept.
//!   Both are of a pool of nodes here, and of the whole cluster in Slurm.
//! * Where the nodes hang on switches, a job goes to leaf after leaf of them instead: see the module `tree`.
//!
//! * Running jobs of partitions on other nodes are taken away in the same order (only where limits make pools one, as otherwise they know nothing of each other): a step goes on past one that ends within it.
//! * A job whose QOS stops others starts a decision after they have stopped: its nodes are kept whole until the end of this one. Where it waits for others as well, those it may stop are taken away first.
//!
//! Order and decision interval (`bf_interval`) are the policy's. Parts of GPUs are not known. Found by comparing with a real
//! Slurm's log, cycle by cycle; see the end-to-end test. O(jobs × releases × (running jobs + nodes)) for a decision, with the jobs up to the last that has room now, and the releases of kept nodes that each has to wait past.
//!
//! Worked number: at 09:00:10 a job with a limit of 2 min that must wait for one whose limit ends at 09:01:05 is promised 09:01:05, and its
//! nodes are kept from 09:01:00 to 09:03:00.

mod at_work;
mod kept;
mod left;
mod mask;
mod ready;
mod tree;

use std::rc::Rc;

use crate::engine::{Action, Run};
use crate::error::Result;
use crate::nodes::lowest;
use crate::policy::Scan;
use crate::schedule::Piece;
use crate::workload::Shape;

use at_work::AtWork;
use kept::Kept;
use left::{Gang, Left, Part, Room};
use mask::Mask;

/// `bf_resolution`, seconds.
const RESOLUTION_S: i64 = 60;
/// Attempts at one job in one decision.
const ATTEMPTS: usize = 400;

/// A cycle.
pub(crate) struct Walk {
    now_s: i64,
    /// Jobs that were looked at.
    pub(super) looked: u32,
    /// Whether the table of times is full, so that no other is.
    over: bool,
    kept: Kept,
    /// Running jobs, once a job has to wait for them; until another runs.
    at_work: Option<Box<AtWork>>,
    /// Nodes in service of each GPU type that was asked for.
    serving: Vec<(Option<u16>, Rc<Mask>)>,
    /// Room for the nodes that a job may take, and for those that it would.
    masks: (Mask, Mask),
    /// Whether a job was stopped.
    pub(super) stopped: bool,
}

/// Result of a job's turn.
enum Turn {
    /// Starts on these nodes.
    Start(Vec<u32>),
    /// These jobs are told to stop for it.
    Stop(Vec<u32>),
    /// Waits.
    Wait,
}

impl Run<'_> {
    /// A cycle of the backfill begins.
    pub(super) fn begin_slurm(&self) -> Walk {
        let now_s = self.workload.origin_ms.saturating_add(self.now).div_euclid(1000);
        let end_s = self.policy.window_ms.map_or(i64::MAX, |window| minute(now_s.saturating_add(window / 1000)));
        Walk {
            now_s,
            looked: 0,
            over: false,
            kept: Kept::new(self.nodes.len(), now_s, end_s),
            at_work: None,
            serving: Vec::new(),
            masks: (Mask::default(), Mask::default()),
            stopped: false,
        }
    }

    /// Whether one network of switches could have a job, where nodes hang on any.
    pub(crate) fn could_on_switches(&self, job: u32) -> bool {
        let (true, Some(domains)) = (self.policy.scan == Scan::Slurm, self.whole.domains()) else { return true };
        let gang = Gang::new(self.shape(job), &self.whole);
        let fitting: Vec<u32> = gang.fitting(&self.whole).collect();
        tree::pick(domains, &fitting, gang.nodes).is_some()
    }

    /// Whether a job of such a shape would start now if nothing was kept.
    pub(super) fn has_room_slurm(&self, shape: Shape) -> bool {
        let (nodes, gang) = (&self.nodes, Gang::new(shape, &self.nodes));
        let with_gpus = (gang.each..=nodes.most()).flat_map(|free| nodes.with_free(free));
        let mut fitting = with_gpus.filter(|node| nodes.is_type(*node, shape.gpu_type) && gang.fits(nodes, *node));
        fitting.nth(gang.nodes - 1).is_some()
    }

    /// A job starts, or nodes are kept for it.
    pub(super) fn look_slurm(&mut self, walk: &mut Walk, job: u32) -> Result<()> {
        if walk.over {
            self.queue.insert(job);
            return Ok(());
        }
        if self.is_joint() {
            // A job of another pool may have started since.
            walk.at_work = None;
        }
        let turn = if self.fits_quota(job) { self.plan(job, walk) } else { Turn::Wait };
        match turn {
            Turn::Start(nodes) => {
                let pieces = self.slurm_pieces(job, &nodes);
                self.apply(Action::Start { job, pieces: &pieces })?;
                walk.at_work = None;
            }
            Turn::Stop(victims) => {
                for victim in victims {
                    walk.stopped |= self.dismiss(victim)?;
                }
                (walk.at_work, walk.serving) = (None, Vec::new());
                self.queue.insert(job);
            }
            Turn::Wait => self.queue.insert(job),
        }
        Ok(())
    }

    /// O(running jobs + nodes).
    fn at_work(&self) -> Box<AtWork> {
        let second = |ms: i64| self.workload.origin_ms.saturating_add(ms).div_euclid(1000);
        let mut at_work = AtWork::new(Left::of(&self.nodes), self.expected.len());
        for (end_ms, segment) in &self.expected {
            let segment = &self.schedule.segments[*segment as usize];
            let parts = self.schedule.pieces_of(segment).iter().map(|piece| Part::new(&self.nodes, piece));
            at_work.push(second(*end_ms), segment.job, parts);
        }
        self.expected_elsewhere().for_each(|(end_ms, job)| at_work.push(second(end_ms), job, []));
        at_work.sort();
        Box::new(at_work)
    }

    /// Nodes in service that have what a shape asks for.
    fn serving(&self, walk: &mut Walk, shape: Shape) -> Rc<Mask> {
        if let Some((_, serving)) = walk.serving.iter().find(|(of, _)| *of == shape.gpu_type) {
            return Rc::clone(serving);
        }
        let serves = |node: u32| self.nodes.is_eligible(node) && self.nodes.is_type(node, shape.gpu_type);
        let serving = Rc::new(Mask::new(self.nodes.len(), serves));
        walk.serving.push((shape.gpu_type, Rc::clone(&serving)));
        serving
    }

    fn slurm_pieces(&self, job: u32, nodes: &[u32]) -> Vec<Piece> {
        let shape = self.shape(job);
        let gang = Gang::new(shape, &self.nodes);
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
        let mut masks = std::mem::take(&mut walk.masks);
        let turn = self.plan_with(job, walk, &mut masks);
        walk.masks = masks;
        turn
    }

    fn plan_with(&self, job: u32, walk: &mut Walk, (allowed, taken): &mut (Mask, Mask)) -> Turn {
        let now_s = walk.now_s;
        let candidates = self.dismissable(job);
        let shape = self.shape(job);
        let gang = Gang::new(shape, &self.nodes);
        // A limit is whole seconds; what is left of one is rounded up.
        let limit_s = self.expected_ms(job).saturating_add(999) / 1000;
        let serving = self.serving(walk, shape);
        let mut from_s = now_s;
        let (mut attempts, mut passed) = (ATTEMPTS, 0);
        while attempts > 0 {
            // Once it is listed what runs, times by whose end too few nodes have their GPUs are passed over.
            let at_work = walk.at_work.as_mut().filter(|_| candidates.is_empty());
            let ready = at_work.map(|at_work| (at_work.ready(gang.each), &mut passed));
            let times = (from_s, limit_s);
            let spared = walk.kept.spared_from(&serving, times, gang.nodes, ready, &mut attempts, allowed);
            let Some((spared_s, later_s)) = spared else { return Turn::Wait };
            from_s = spared_s;
            attempts -= 1;
            let result = self.earliest(gang, allowed, walk, &candidates, later_s);
            let Some((at_s, nodes)) = result else {
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
                let Some((nodes, victims)) = self.stops(gang, allowed, candidates) else { return Turn::Wait };
                let (begin_s, end_s) = whole_minutes(now_s, limit_s);
                taken.become_nodes(self.nodes.len(), nodes);
                walk.kept.keep(taken, begin_s, end_s);
                return Turn::Stop(victims);
            }
            taken.become_nodes(self.nodes.len(), nodes);
            let (begin_s, end_s) = whole_minutes(at_s, limit_s);
            if walk.kept.is_beyond(begin_s) {
                return Turn::Wait;
            }
            if walk.kept.meets(taken, begin_s, end_s) {
                from_s = if from_s == at_s { at_s + RESOLUTION_S } else { at_s };
                continue;
            }
            if self.policy.depth.is_some_and(|depth| walk.kept.rows() >= depth) {
                walk.over = true;
                return Turn::Wait;
            }
            walk.kept.keep(taken, begin_s, end_s);
            return Turn::Wait;
        }
        Turn::Wait
    }

    /// Whom a job stops, and the nodes on which it then fits. Candidates are taken out in order until it fits; then the last of them comes first, before it those on most of the nodes that were found, and it begins
    /// anew; at the third time, or with as few candidates as tries, those taken out that run on these nodes are told to stop.
    fn stops(&self, gang: Gang, allowed: &Mask, mut candidates: Vec<u32>) -> Option<(Vec<u32>, Vec<u32>)> {
        let count = candidates.len();
        let mut tries = 0;
        loop {
            let mut left = Left::of(&self.nodes);
            let (last, nodes) = candidates.iter().enumerate().find_map(|(at, candidate)| {
                self.pieces_of_job(*candidate).for_each(|piece| left.give(Part::new(&self.nodes, piece)));
                Some((at, left.choose(&self.nodes, gang, allowed)?))
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

    fn pieces_of_job(&self, job: u32) -> impl Iterator<Item = &Piece> {
        let pieces = self.schedule.last_segment(job as usize).map(|segment| self.schedule.pieces_of(segment));
        pieces.into_iter().flatten()
    }

    /// Nodes on which a job runs.
    fn nodes_of(&self, job: u32) -> impl Iterator<Item = u32> {
        self.pieces_of_job(job).map(|piece| self.nodes.local(piece.node))
    }

    /// The earliest second, not after `until_s`, at which `gang` fits on the allowed nodes, and where, taking running jobs away in order of their limits.
    /// Those that would stop for it go first, and if it fits then, that is now.
    fn earliest(
        &self,
        gang: Gang,
        allowed: &Mask,
        walk: &mut Walk,
        stops: &[u32],
        until_s: Option<i64>,
    ) -> Option<(i64, Vec<u32>)> {
        let nodes = &self.nodes;
        if (walk.at_work.is_none() || !stops.is_empty())
            && let Some(result) = nodes.choose(nodes, gang, allowed)
        {
            return Some((walk.now_s, result));
        }
        let at_work = walk.at_work.get_or_insert_with(|| self.at_work());
        let (end_s, result) = if stops.is_empty() {
            at_work.earliest(nodes, gang, allowed, until_s)
        } else {
            at_work.without(stops).earliest(nodes, gang, allowed, until_s)
        }?;
        Some((end_s.map_or(walk.now_s, |end_s| end_s.max(walk.now_s + 1)), result))
    }
}

/// The whole minute up to a second.
fn minute(second: i64) -> i64 {
    second.div_euclid(RESOLUTION_S) * RESOLUTION_S
}

/// When nodes are kept for a job that starts at a second: from and to whole minutes, and for one at least.
fn whole_minutes(at_s: i64, limit_s: i64) -> (i64, i64) {
    let begin_s = minute(at_s);
    (begin_s, minute(at_s.saturating_add(limit_s)).max(begin_s + RESOLUTION_S))
}

#[cfg(test)]
mod tests {
    use crate::*;

    /// One node of 8; origin on a whole minute. A (6 GPUs, limit 65 s) runs from 0 s. B (8 GPUs, limit 120 s) is promised 65 s and keeps the
    /// whole node from 60 s. C (1 GPU, limit 50 s) comes at 5 s, would end by 55 s and starts; D (1 GPU, limit 60 s) would reach 65 s, into
    /// what is kept, and waits, although the GPU it wants is free and B could start at 66 s.
    #[test]
    fn whole_nodes_are_kept_from_the_minute_on() {
        assert_eq!(starts(Policy::default()), [0, 65, 5, 185]);
    }

    /// The jobs of the first test. With a window of 1 min the table of the cycle at 5 s ends at 60
    /// s, so that nothing is kept for B, and D starts. B cannot before D ends, at 65 s. With one of
    /// 2 min B is kept for.
    #[test]
    fn nothing_is_kept_beyond_the_window() {
        assert_eq!(starts(Policy { window_ms: Some(60_000), ..Policy::default() }), [0, 65, 5, 5]);
        assert_eq!(starts(Policy { window_ms: Some(120_000), ..Policy::default() }), [0, 65, 5, 185]);
    }

    /// The jobs of the first test. A cycle that looks at one job looks at B alone, and C and D
    /// follow it one by one, each once the one before has ended. One that looks at two looks at B
    /// and C.
    #[test]
    fn a_cycle_looks_at_the_first_jobs() {
        assert_eq!(starts(Policy { depth: Some(1), ..Policy::default() }), [0, 65, 185, 235]);
        assert_eq!(starts(Policy { depth: Some(2), ..Policy::default() }), [0, 65, 5, 185]);
    }

    fn starts(policy: Policy) -> [i64; 4] {
        let mut workload = Workload { origin_ms: 600_000, ..Workload::default() };
        for (submit_s, run_s, gpus, limit_s) in [(0, 65, 6, 65), (1, 120, 8, 120), (5, 50, 1, 50), (5, 60, 1, 60)] {
            workload.push(submit_s * 1000, run_s * 1000, Shape::whole(gpus));
            if let Some(limit) = workload.requested_ms.last_mut() {
                *limit = Some(limit_s * 1000);
            }
        }
        let policy = Policy { scan: Scan::Slurm, estimate: Estimate::Requested, ..policy };
        let result = simulate(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &policy);
        result
            .map_or([-1; 4], |schedule| [0, 1, 2, 3].map(|job| schedule.start_ms(job).map_or(-1, |start| start / 1000)))
    }
}
