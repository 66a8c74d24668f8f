//! Guarantees in cells: a VC is promised so many aligned blocks of 1, 2, 4, … GPUs, as HiveD does (Zhao et al., OSDI 2020).
//!
//! A guarantee in GPUs does not say where they are. A job of 8 within such a guarantee waits while the free GPUs lie scattered over the nodes, and with GPUs on nodes of its own it would not: HiveD calls
//! that the sharing anomaly. A guarantee in cells is kept node by node, as if the VC had the cells to itself.
//!
//! # Contract
//!
//! **Cells.** A *block* is 1, 2, 4, … GPUs of a node, aligned to its size, up to the whole node. A VC of a pool may be guaranteed so many *cells* of each of these sizes. A cell is *bound* to a block of its
//! size as long as a job of its VC runs in it, and to none otherwise. Blocks of two bound cells never overlap. All nodes of such a pool have equally many GPUs, a power of two, and one type; the cells of all its VCs
//! have at most the GPUs that it has when it is smallest.
//!
//! **Within.** A job looks for a block for each of its pieces (see [`super::place`]) in turn: of the next power of two at least the size of the piece; if more than one piece is smaller than a node, a
//! whole node for each. It looks in two places:
//!
//! * In cells of its VC that are bound, on nodes that take jobs: a block no GPU of which lies in the block of a job in these cells. The *home* of a block is the largest such block of the cell that contains it.
//! * Among cells of its VC that are bound to none, of at least the size of the block: the smallest such cell is its home.
//!
//! It takes the smallest home, of equals one in a bound cell. Of several blocks with that home it takes the one of which jobs have the fewest GPUs, of equals that on the lowest node, then the lowest. If the home is a cell
//! that is bound to none, it is bound first: to a block of its size that is *open*, on a node that takes jobs and without a GPU of a bound cell. The home of an open block is the largest one that contains it. Of open blocks
//! the one with the smallest home is taken, of equals as above; and in that the block for the piece. The piece has the lowest GPUs of its block. What is left of the block is for no other job in these cells, as in HiveD; jobs outside may have it.
//!
//! A job is *within* its VC's cells if every piece finds a block, those found for pieces before it counting as had.
//!
//! **Walk** (under the scans strict and skip). There are no bands, and two walks, in the order of the queue. The first is through all jobs that wait. One that is within its VC's cells at its turn starts in them: other jobs that have any of
//! its GPUs are stopped, and it starts. One that is not is left to the second walk; under strict, so are all jobs of its VC behind it. The second walk is that of the scan through the jobs that are left. In it a job that fits by the placement rule
//! starts *outside* its VC's cells, wherever no job is, in cells of others too; it stops nobody. A job that was stopped is not looked at again in this decision, and another decision is due one second later, as
//! under guarantees in GPUs. Jobs outside cells may be stopped at any time, even if they have done nothing useful since they started. A job stays outside even if it would be within later, until it is stopped or fails with its node.
//!
//! **Safety.** As long as no node fails, drains or leaves, an open block is there whenever a cell needs one, so a job that is within its VC's cells at its turn starts, whatever other VCs do; and it is never stopped. For a size *s* let *r* be the GPUs of cells of at least *s* that are not
//! bound, and *f* those of homes of open blocks of at least *s*. At first *r* ≤ *f* for every *s*. When a cell of size *c* is bound in a home of size *h*, both fall by *c* for *s* ≤ *c*, and *f* falls by *s* for *c* < *s* ≤ *h*. There *f* is the same as at *c*, as no home is smaller than *h*, and *r* is
//! less than at *c* by at least *c*. So *r* < *f*, and as both are multiples of *s*, *r* ≤ *f* − *s*. When a cell is given up, *f* grows by as much as *r*, or more. While nodes are gone, a cell may find no block; the job is then not within.
//!
//! **Jobs that run at time 0** are put on nodes in two rounds, each in order of their start: those within their VC's cells there, then the others by the placement rule.
//!
//! **What goes together.** Cells need preemption. They go with no quota and no guarantee in GPUs in the pool, no limits, no sleeping nodes, no backfill and no compatible replay; not with jobs of parts of GPUs or with requests for blocks or racks; and they count GPUs
//! alone, so not with processors and memory.
//!
//! O(bound cells of the VC) for a piece, and O(nodes × blocks of a node) to bind a cell.
//!
//! Worked example: one node of 8 GPUs. VC a is guaranteed a cell of 4, VC b one of 2. At 0 s b submits a job of 4: it is not within, and starts outside on GPUs 0–3. At 10 s a submits one of 3. Its cell of 4 is bound to none, and the open
//! blocks 0–3 and 4–7 both have the node as home; of the second nobody has any GPU, so the job has 4–6. At 20 s b submits one of 2: of the open blocks 0–1 and 2–3, whose home is 0–3, it takes the first, and the job of 4 is stopped. A second later
//! that one does not fit, as 5 GPUs are in use.

use std::collections::BTreeMap;

use super::cluster::Vc;
use super::nodes::{Nodes, block};
use super::workload::Shape;

/// Aligned GPUs of a node of a pool: 1, 2, 4, … of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Aligned {
    node: u32,
    position: u32,
    size: u32,
}

impl Aligned {
    fn bits(self) -> u64 {
        block(self.position, self.size)
    }

    /// The blocks of a size that lie within it.
    fn within(self, size: u32) -> impl Iterator<Item = Self> {
        let step = (size as usize).max(1);
        let positions = (self.position..self.position + self.size).step_by(step).filter(move |_| size <= self.size);
        positions.map(move |position| Self { position, size, ..self })
    }

    /// Size of the largest block about it, itself included, all of whose GPUs are `free` and lie within `all`; `None` if its own are not free.
    fn home(self, free: u64, all: Self) -> Option<u32> {
        let is_free = |of: Self| free & of.bits() == of.bits();
        if !is_free(self) {
            return None;
        }
        let mut home = self;
        while home.size < all.size {
            let size = home.size * 2;
            let wider = Self { position: home.position / size * size, size, ..home };
            if !is_free(wider) {
                break;
            }
            home = wider;
        }
        Some(home.size)
    }
}

/// A cell of a VC that is bound.
#[derive(Debug, Clone, Copy)]
struct Bound {
    to: Aligned,
    /// GPUs of the blocks of jobs in it.
    used: u64,
}

/// A piece of a job in a cell of its VC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceInCell {
    cell: Aligned,
    /// Part of the cell that the piece holds.
    block: Aligned,
    /// GPUs of the piece.
    pub(crate) gpus: u64,
}

impl PieceInCell {
    /// The node that it is on, an index into those of the pool.
    pub(crate) fn node(self) -> u32 {
        self.cell.node
    }
}

/// Which cells of a pool's VCs are bound, to what, and which jobs run in them.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    /// GPUs of a node.
    whole: u32,
    /// By VC of the cluster, the cells that it is guaranteed: GPUs of each and how many, rising.
    own: Vec<Vec<(u32, u32)>>,
    /// By VC of the cluster, those that are bound.
    bound: Vec<Vec<Bound>>,
    /// By node, the GPUs of bound cells.
    taken: Vec<u64>,
    /// Jobs that run in cells.
    inside: BTreeMap<u32, Vec<PieceInCell>>,
}

impl Cells {
    /// Takes the cells of a pool with these nodes; none is bound.
    pub(crate) fn new(vcs: &[Vc], nodes: &Nodes) -> Self {
        Self {
            whole: nodes.most(),
            own: vcs.iter().map(|vc| vc.guarantee_cells.clone()).collect(),
            bound: vec![Vec::new(); vcs.len()],
            taken: vec![0; nodes.len() as usize],
            inside: BTreeMap::new(),
        }
    }

    /// Where the pieces of a job of a VC go, if it is within the VC's cells now.
    pub(crate) fn find(&self, nodes: &Nodes, vc: u16, shape: Shape) -> Option<Vec<PieceInCell>> {
        let own = self.own.get(usize::from(vc)).filter(|own| !own.is_empty())?;
        let bound = self.bound.get(usize::from(vc))?.clone();
        let mut look = Look { cells: self, nodes, own, bound, fresh: Vec::new() };
        let (size, full, rest) = shape.cut(self.whole)?;
        let sizes = || std::iter::repeat_n(size, full as usize).chain((rest > 0).then_some(rest));
        let apart = sizes().filter(|size| *size < self.whole).nth(1).is_some();
        let needs = |size: u32| if apart { self.whole.max(size) } else { size.next_power_of_two() };
        sizes().map(|size| look.piece(size, needs(size))).collect()
    }

    /// A job starts where it was found to go.
    pub(crate) fn enter(&mut self, job: u32, vc: u16, pieces: Vec<PieceInCell>) {
        let Some(bound) = self.bound.get_mut(usize::from(vc)) else { return };
        for PieceInCell { cell, block, .. } in &pieces {
            match bound.iter_mut().find(|bound| bound.to == *cell) {
                Some(bound) => bound.used |= block.bits(),
                None => {
                    bound.push(Bound { to: *cell, used: block.bits() });
                    if let Some(taken) = self.taken.get_mut(cell.node as usize) {
                        *taken |= cell.bits();
                    }
                }
            }
        }
        self.inside.insert(job, pieces);
    }

    /// A job has stopped; nothing happens if it ran outside.
    pub(crate) fn leave(&mut self, job: u32, vc: u16) {
        let (Some(pieces), Some(bound)) = (self.inside.remove(&job), self.bound.get_mut(usize::from(vc))) else {
            return;
        };
        for PieceInCell { cell, block, .. } in pieces {
            let Some(at) = bound.iter().position(|bound| bound.to == cell) else { continue };
            if let Some(bound) = bound.get_mut(at) {
                bound.used &= !block.bits();
            }
            if bound.get(at).is_some_and(|bound| bound.used == 0) {
                bound.remove(at);
                if let Some(taken) = self.taken.get_mut(cell.node as usize) {
                    *taken &= !cell.bits();
                }
            }
        }
    }

    /// Whether a job runs in cells.
    #[cfg(test)]
    pub(crate) fn holds(&self, job: u32) -> bool {
        self.inside.contains_key(&job)
    }

    /// Checks that cells of each VC are no more than it is guaranteed, that bound ones do not overlap, that jobs are in them, and that there is an open block for each that is not bound.
    #[cfg(test)]
    pub(crate) fn check(&self, nodes: &Nodes) -> Result<(), String> {
        let mut taken = vec![0u64; self.taken.len()];
        for (own, bound) in self.own.iter().zip(&self.bound) {
            for (size, count) in own {
                let there = bound.iter().filter(|bound| bound.to.size == *size).count();
                if there > *count as usize {
                    return Err(format!("more than {count} cells of {size} are bound"));
                }
                let look = Look { cells: self, nodes, own, bound: bound.clone(), fresh: Vec::new() };
                if there < *count as usize && look.open(*size).is_none() {
                    return Err(format!("no block is open for a cell of {size}"));
                }
            }
            for Bound { to, used } in bound {
                let taken = &mut taken[to.node as usize];
                if *taken & to.bits() != 0 || *used == 0 || used & !to.bits() != 0 {
                    return Err(format!("{to:?} overlaps another, or has jobs outside it, or none"));
                }
                *taken |= to.bits();
            }
        }
        if taken != self.taken {
            return Err("what is taken is not what is bound".to_owned());
        }
        Ok(())
    }
}

/// One job that looks for blocks.
struct Look<'c> {
    cells: &'c Cells,
    nodes: &'c Nodes,
    /// The VC's cells, and those that are bound, with what was found so far.
    own: &'c [(u32, u32)],
    bound: Vec<Bound>,
    /// Blocks that were bound for it.
    fresh: Vec<Aligned>,
}

impl Look<'_> {
    /// The place of a piece of a size that needs a block of another.
    fn piece(&mut self, size: u32, needs: u32) -> Option<PieceInCell> {
        let unbound = self.own.iter().find(|(cell, count)| {
            *cell >= needs && self.bound.iter().filter(|bound| bound.to.size == *cell).count() < *count as usize
        });
        let mut result = self.inside(needs);
        if let Some((cell, _)) = unbound
            && result.is_none_or(|(home, ..)| home > *cell)
        {
            let to = self.open(*cell)?;
            self.fresh.push(to);
            self.bound.push(Bound { to, used: 0 });
            result = self.inside(needs);
        }
        let (.., position, at) = result?;
        let bound = self.bound.get_mut(at)?;
        let own = Aligned { position, size: needs, ..bound.to };
        bound.used |= own.bits();
        Some(PieceInCell { cell: bound.to, block: own, gpus: block(position, size) })
    }

    /// How many GPUs of a block jobs have.
    fn had(&self, of: Aligned) -> u32 {
        (of.bits() & !self.nodes.free_bits(of.node)).count_ones()
    }

    /// The best block of a size in bound cells: (home, GPUs that jobs have, node, position, which cell).
    fn inside(&self, size: u32) -> Option<(u32, u32, u32, u32, usize)> {
        let there = self.bound.iter().enumerate().filter(|(_, bound)| self.nodes.is_eligible(bound.to.node));
        let blocks = there.flat_map(|(at, bound)| {
            let rank = move |block: Aligned| {
                let home = block.home(bound.to.bits() & !bound.used, bound.to)?;
                Some((home, self.had(block), block.node, block.position, at))
            };
            bound.to.within(size).filter_map(rank)
        });
        blocks.min()
    }

    /// The best open block of a size.
    fn open(&self, size: u32) -> Option<Aligned> {
        let mut best: Option<((u32, u32), Aligned)> = None;
        for node in self.nodes.eligible() {
            let all = Aligned { node, position: 0, size: self.cells.whole };
            let fresh = self.fresh.iter().filter(|of| of.node == node).fold(0, |bits, of| bits | of.bits());
            let taken = self.cells.taken.get(node as usize).copied().unwrap_or(0) | fresh;
            for block in all.within(size) {
                let Some(home) = block.home(!taken, all) else { continue };
                let rank = (home, self.had(block));
                if best.is_none_or(|(known, _)| rank < known) {
                    best = Some((rank, block));
                }
            }
        }
        best.map(|(_, block)| block)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{Cluster, Policy, Preemption, Scan, Schedule, Shape, Workload, simulate};

    /// VCs (cells, as GPUs and how many) on one pool of nodes of 8.
    fn pool(nodes: u32, vcs: &[(&str, &[(u32, u32)])]) -> Cluster {
        let named: Vec<(&str, u32, u32)> =
            vcs.iter().enumerate().map(|(at, (name, _))| (*name, if at == 0 { nodes } else { 0 }, 8)).collect();
        let mut cluster = Cluster::of_vcs(&named).pooled();
        for (vc, (_, cells)) in cluster.vcs.iter_mut().zip(vcs) {
            vc.guarantee_cells = cells.to_vec();
        }
        cluster
    }

    /// Jobs as (VC, submitted at s, run s, GPUs).
    fn jobs(list: &[(u16, i64, i64, u32)]) -> Workload {
        let mut workload = Workload::default();
        for (vc, submit, run, gpus) in list {
            workload.push(submit * 1000, run * 1000, Shape::whole(*gpus));
            *workload.vc.last_mut().unwrap() = *vc;
        }
        workload
    }

    fn policy(scan: Scan) -> Policy {
        Policy { scan, preemption: Preemption::Requeue, ..Policy::default() }
    }

    /// Nodes and GPUs of pieces.
    type Places = Vec<(u32, u64)>;

    /// Job, start (s) and places of each segment.
    fn segments(schedule: &Schedule) -> Vec<(u32, i64, Places)> {
        let pieces = |segment| schedule.pieces_of(segment).iter().map(|piece| (piece.node, piece.gpus)).collect();
        schedule.segments.iter().map(|segment| (segment.job, segment.start_ms / 1000, pieces(segment))).collect()
    }

    /// The worked example of the contract.
    #[test]
    fn a_cell_is_bound_where_it_leaves_whole_ones_and_others_make_room() {
        let cluster = pool(1, &[("a", &[(4, 1)]), ("b", &[(2, 1)])]);
        let workload = jobs(&[(1, 0, 100, 4), (0, 10, 100, 3), (1, 20, 100, 2)]);
        let schedule = simulate(&workload, &cluster, &policy(Scan::Skip)).unwrap();
        assert_eq!(
            segments(&schedule),
            [
                (0, 0, vec![(0, 0b1111)]),
                (1, 10, vec![(0, 0b111_0000)]),
                (2, 20, vec![(0, 0b11)]),
                // At 110 s the job of 3 ends, and its cell is free to all.
                (0, 110, vec![(0, 0b11_1100)]),
            ]
        );
        assert_eq!(schedule.preemptions, [1, 0, 0]);
    }

    /// Two nodes. Both VCs are promised 8 GPUs, and b has two jobs of 4 at work, one on each node, as it was served by worst fit. A job of 8 of a's is within its guarantee and nobody borrows, but no node is free: it waits until 100 s. As
    /// a cell of 8 each, b's jobs lie in one, and a's starts at once.
    #[test]
    fn the_sharing_anomaly_is_gone() {
        let mut cluster = pool(2, &[("a", &[(8, 1)]), ("b", &[(8, 1)])]);
        let workload = jobs(&[(1, 0, 100, 4), (1, 0, 100, 4), (0, 10, 10, 8)]);
        let worst = Policy { placement: crate::Placement::WorstFit, ..policy(Scan::Skip) };
        assert_eq!(simulate(&workload, &cluster, &worst).unwrap().start_ms(2), Some(10_000));
        for vc in &mut cluster.vcs {
            vc.guarantee_cells.clear();
            vc.guarantee_milli = vec![(0, 8_000)];
        }
        assert_eq!(simulate(&workload, &cluster, &worst).unwrap().start_ms(2), Some(100_000));
    }

    /// a has cells of 8, 4 and 1 on three nodes. A job of 12 is 8 and 4. One of 8 on two nodes needs two whole ones, so it runs outside, and so does the second job of 1: the cells of 8 and 4 are in use.
    /// One of 1 that comes before has the smallest cell.
    #[test]
    fn pieces_take_the_smallest_cells() {
        let cluster = pool(3, &[("a", &[(1, 1), (4, 1), (8, 1)]), ("b", &[(8, 1)])]);
        let mut workload = jobs(&[(0, 0, 50, 1), (0, 1, 50, 12), (0, 2, 50, 1), (1, 3, 50, 8), (0, 60, 10, 8)]);
        let on_two = Shape { nodes: 2, ..Shape::whole(8) };
        workload.shapes.push(on_two);
        workload.shape[4] = workload.shapes.len() as u16 - 1;
        let schedule = simulate(&workload, &cluster, &policy(Scan::Skip)).unwrap();
        // The cell of 1 is of node 0; that of 8 needs a whole node, that of 4 the half of node 0 that is free.
        let places: Vec<_> = segments(&schedule).into_iter().map(|(job, _, places)| (job, places)).collect();
        assert_eq!(
            places,
            [
                (0, vec![(0, 0b1)]),
                (1, vec![(1, 0xff), (0, 0xf0)]),
                (2, vec![(0, 0b10)]),
                (3, vec![(2, 0xff)]),
                (4, vec![(0, 0b1111), (1, 0b1111)]),
            ]
        );
    }

    /// The worked example of the walk: a cell of 4 of one VC that has jobs of 4, 4 and 1; b fills the node from outside.
    #[test]
    fn who_is_not_within_waits_for_others() {
        let cluster = pool(1, &[("a", &[(4, 1)]), ("b", &[])]);
        let start = |first: u32, scan: Scan| {
            let workload = jobs(&[(1, 0, 100, 8), (0, 10, 50, first), (0, 10, 50, 4), (0, 10, 50, 1)]);
            let schedule = simulate(&workload, &cluster, &policy(scan)).unwrap();
            [1, 2, 3].map(|job| schedule.start_ms(job).map(|start| start / 1000))
        };
        // b's job is stopped, which leaves 4 GPUs to whoever comes.
        assert_eq!(start(4, Scan::Skip), [Some(10), Some(10), Some(60)]);
        assert_eq!(start(2, Scan::Skip), [Some(10), Some(10), Some(10)]);
        // Under strict the job of 1 is behind that of 4 and runs outside as well, on a GPU that the first leaves of its block.
        assert_eq!(start(3, Scan::Strict), [Some(10), Some(10), Some(10)]);
    }

    #[test]
    fn cells_that_cannot_be_kept_are_refused() {
        let workload = jobs(&[(0, 0, 1, 1)]);
        let said = |cluster: &Cluster, policy: &Policy| simulate(&workload, cluster, policy).unwrap_err().to_string();
        let skip = policy(Scan::Skip);
        let much = pool(2, &[("a", &[(8, 1)]), ("b", &[(1, 1), (8, 1)])]);
        assert!(said(&much, &skip).contains("(a, b) have 17 GPUs in all, and their pool has 16"));
        let odd = pool(2, &[("a", &[(3, 1)])]);
        assert!(said(&odd, &skip).contains("no cell of 3 GPUs"));
        assert!(said(&pool(2, &[("a", &[(16, 1)])]), &skip).contains("up to a node, which has 8"));
        let fine = pool(2, &[("a", &[(8, 1)]), ("b", &[])]);
        assert!(said(&fine, &Policy { scan: Scan::Skip, ..Policy::default() }).contains("--preempt requeue"));
        assert!(
            said(&fine, &Policy { scan: Scan::Easy, ..Policy::default() }).contains("use the scan `strict` or `skip`")
        );
        let mut limited = fine.clone();
        limited.vcs[1].quota_milli = vec![(0, 4_000)];
        assert!(said(&limited, &skip).contains("none has a quota"));
        let mut shrinks = fine.clone();
        shrinks.pools[0].groups[0].sizes = vec![(0, 2), (10_000, 0), (20_000, 2)];
        assert!(said(&shrinks, &skip).contains("their pool has 0 when it is smallest"));
        let mut parts = workload.clone();
        parts.push(5, 5, Shape::part(500));
        assert!(simulate(&parts, &fine, &skip).unwrap_err().to_string().contains("jobs ask for parts"));
    }
}
