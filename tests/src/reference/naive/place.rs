//! Placement of the naive reference, over lists of what every GPU has left.
//!
//! Worked number: nodes with 3, 8 and 5 free GPUs: a job of 3 goes to the first by best fit, to the second by worst fit.

use std::cmp::Reverse;

use tracecast_planner::sim::{HostNeed, Piece, Placement, Shape};

use super::{Beside, Pool, View};

impl Pool<'_> {
    pub(super) fn place(&self, view: &View, job: usize, relaxed: bool) -> Option<Vec<Piece>> {
        self.place_as(view, job, self.shape(job), relaxed)
    }

    pub(super) fn place_as(&self, view: &View, job: usize, shape: Shape, relaxed: bool) -> Option<Vec<Piece>> {
        if let Some(request) = shape.request {
            return self.place_near(view, shape, request);
        }
        let is_type = |node: usize, wanted: Option<u16>| wanted.is_none() || self.nodes[node].gpu_type == wanted;
        let eligible: Vec<usize> =
            (0..view.len()).filter(|node| view[*node].1 && is_type(*node, shape.gpu_type)).collect();
        let free = |node: usize| view[node].0.iter().filter(|left| **left == 1000).count();
        let draw = |node: usize| splitmix(self.policy.seed, job as u32, self.first + node as u32);
        let rule = self.policy.placement;
        let relaxed = relaxed && matches!(rule, Placement::Locality(_));
        if shape.milli > 0 {
            let fits =
                |node: &usize| view[*node].0.iter().any(|left| *left >= shape.milli) && has(view, *node, shape, 1);
            let amount = |node: usize| view[node].0.iter().map(|left| u64::from(*left)).sum::<u64>();
            let can: Vec<usize> = eligible.into_iter().filter(fits).collect();
            let node = match rule {
                Placement::FirstFit => can.first().copied(),
                Placement::Random => can.into_iter().min_by_key(|node| (draw(*node), *node)),
                Placement::WorstFit | Placement::Spread => {
                    can.into_iter().min_by_key(|node| (Reverse(amount(*node)), *node))
                }
                Placement::Fragmentation => can.into_iter().min_by_key(|node| {
                    let mut after = view[*node].0.clone();
                    let gpu = self.part_gpu(&after, shape.milli);
                    after[gpu] -= shape.milli;
                    let (before, beside) = (&view[*node].0, view[*node].2);
                    (self.waste(*node, &after, less(beside, shape, 1)) - self.waste(*node, before, beside), *node)
                }),
                _ => can.into_iter().min_by_key(|node| (amount(*node), *node)),
            }?;
            let gpu = self.part_gpu(&view[node].0, shape.milli);
            let node = self.first + node as u32;
            return Some(vec![Piece { node, milli: shape.milli, gpus: 1 << gpu, host: shape.host }]);
        }
        let wanted = shape.gpus as usize;
        let piece = |node: usize, count: usize| {
            let gpus = view[node].0.iter().enumerate().filter(|(_, left)| **left == 1000).take(count);
            whole(self.first + node as u32, shape, gpus.map(|(gpu, _)| gpu))
        };
        let fill = |order: Vec<usize>| {
            let mut left = wanted;
            let mut pieces = Vec::new();
            for node in order {
                let count = room(view, node, shape).min(left);
                if count > 0 {
                    pieces.push(piece(node, count));
                    left -= count;
                }
            }
            (left == 0).then_some(pieces)
        };
        if rule == Placement::Spread {
            let mut counts = vec![0; view.len()];
            for _ in 0..wanted {
                let can = eligible.iter().copied().filter(|node| room(view, *node, shape) > counts[*node]);
                let node = can.max_by_key(|node| (free(*node) - counts[*node], Reverse(*node)))?;
                counts[node] += 1;
            }
            return Some(
                (0..view.len()).filter(|node| counts[*node] > 0).map(|node| piece(node, counts[node])).collect(),
            );
        }
        if rule == Placement::Random {
            let mut order = eligible;
            order.sort_by_key(|node| (draw(*node), *node));
            return fill(order);
        }
        if relaxed {
            let mut order = eligible;
            order.sort_by_key(|node| (Reverse(free(*node)), *node));
            return fill(order);
        }
        let largest = |wanted: Option<u16>| {
            (0..view.len()).filter(|node| is_type(*node, wanted)).map(|node| self.sizes[node]).max().unwrap_or(0)
        };
        let l = largest(shape.gpu_type);
        let mut sizes = Vec::new();
        if shape.nodes > 0 {
            let each = wanted.div_ceil(usize::from(shape.nodes));
            let mut left = wanted;
            while left > 0 {
                sizes.push(left.min(each));
                left -= left.min(each);
            }
        } else if l == 0 {
            return None;
        } else {
            sizes = vec![l; wanted / l];
            if !wanted.is_multiple_of(l) {
                sizes.push(wanted % l);
            }
        }
        if rule == Placement::Buddy && sizes.len() > 1 {
            for among in self.cells_above(view) {
                let taken = among.iter().copied().filter(|node| eligible.contains(node)).collect::<Vec<_>>();
                if let Some(pieces) = self.buddies(view, shape, &sizes, &taken) {
                    return Some(pieces);
                }
            }
        }
        if rule == Placement::Buddy {
            return self.buddies(view, shape, &sizes, &eligible);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for size in &sizes {
            let rest = shape.nodes == 0 && wanted > l && *size < l;
            let unused = |node: &usize| !pieces.iter().any(|piece| piece.node == self.first + *node as u32);
            let can: Vec<usize> =
                eligible.iter().copied().filter(|node| room(view, *node, shape) >= *size).filter(unused).collect();
            let next = match rule {
                Placement::FirstFit => piece(can.first().copied()?, *size),
                Placement::WorstFit => piece(can.into_iter().min_by_key(|node| (Reverse(free(*node)), *node))?, *size),
                Placement::Consolidate | Placement::Locality(_) if rest => {
                    let whole = can.iter().copied().find(|node| free(*node) == l);
                    let most = can.iter().copied().min_by_key(|node| (Reverse(free(*node)), *node));
                    piece(whole.or(most)?, *size)
                }
                Placement::Fragmentation => {
                    let increase = |node: &usize| {
                        let mut after = view[*node].0.clone();
                        let mut left = *size;
                        for gpu in &mut after {
                            if *gpu == 1000 && left > 0 {
                                *gpu = 0;
                                left -= 1;
                            }
                        }
                        let (before, beside) = (&view[*node].0, view[*node].2);
                        (
                            self.waste(*node, &after, less(beside, shape, *size)) - self.waste(*node, before, beside),
                            *node,
                        )
                    };
                    piece(can.into_iter().min_by_key(increase)?, *size)
                }
                _ => piece(can.into_iter().min_by_key(|node| (free(*node), *node))?, *size),
            };
            pieces.push(next);
        }
        Some(pieces)
    }

    /// Pieces in buddy cells of these nodes.
    fn buddies(&self, view: &View, shape: Shape, sizes: &[usize], among: &[usize]) -> Option<Vec<Piece>> {
        let mut pieces: Vec<Piece> = Vec::new();
        for size in sizes {
            let unused = |node: &usize| !pieces.iter().any(|piece| piece.node == self.first + *node as u32);
            let can = among.iter().copied().filter(|node| room(view, *node, shape) >= *size).filter(unused);
            let cells = can.filter_map(|node| {
                let (home, position) = buddy(&view[node].0, *size)?;
                let home = if is_free(view, node) { home.max(self.home_above(view, node)) } else { home };
                Some((home, node, position))
            });
            let (_, node, position) = cells.min()?;
            pieces.push(whole(self.first + node as u32, shape, position..position + size));
        }
        (!pieces.is_empty()).then_some(pieces)
    }

    /// Nodes of the pool in the same domain of a level as a node, which is among them.
    fn beside(&self, view: &View, node: usize, level: usize) -> Option<Vec<usize>> {
        let topology = self.cluster.topology.as_ref()?;
        let domain = |node: usize| topology.domain(self.first + node as u32, level as u8);
        let of = domain(node)?;
        Some((0..view.len()).filter(|other| domain(*other) == Some(of)).collect())
    }

    fn levels(&self) -> usize {
        self.cluster.topology.as_ref().map_or(0, |topology| topology.levels().len())
    }

    /// GPUs of the widest domain about a node that is free.
    fn home_above(&self, view: &View, node: usize) -> usize {
        let free = (0..self.levels()).filter_map(|level| self.beside(view, node, level));
        let free = free.filter(|nodes| nodes.iter().all(|node| view[*node].1 && is_free(view, *node)));
        free.map(|nodes| nodes.iter().map(|node| self.sizes[*node]).sum()).max().unwrap_or(0)
    }

    /// The nodes of every domain, as a job of several pieces looks at them: the narrowest level first, and of a level the fullest.
    fn cells_above(&self, view: &View) -> Vec<Vec<usize>> {
        let free = |nodes: &[usize]| -> usize {
            let taking = nodes.iter().filter(|node| view[**node].1);
            taking.map(|node| view[*node].0.iter().filter(|left| **left == 1000).count()).sum()
        };
        let mut all = Vec::new();
        for level in (0..self.levels()).rev() {
            let mut cells: Vec<(Vec<usize>, Vec<usize>, Vec<usize>)> = Vec::new();
            for node in 0..view.len() {
                let about: Option<Vec<Vec<usize>>> = (0..=level).map(|at| self.beside(view, node, at)).collect();
                let Some(about) = about else { continue };
                let fullness = about.iter().rev().map(|nodes| free(nodes)).collect();
                let way = about.iter().map(|nodes| nodes[0]).collect();
                cells.push((fullness, way, about.into_iter().last().unwrap()));
            }
            cells.sort();
            cells.dedup();
            all.extend(cells.into_iter().map(|(_, _, nodes)| nodes));
        }
        all
    }

    pub(super) fn part_gpu(&self, left: &[u16], milli: u16) -> usize {
        let shared = (0..left.len()).filter(|gpu| left[*gpu] < 1000 && left[*gpu] >= milli);
        shared.min_by_key(|gpu| (left[*gpu], *gpu)).or_else(|| left.iter().position(|left| *left == 1000)).unwrap()
    }

    pub(super) fn waste(&self, node: usize, left: &[u16], beside: Beside) -> i128 {
        let mut waste = 0i128;
        for (shape, jobs) in self.workload.shapes.iter().zip(&self.submitted) {
            if shape.gpu_type.is_some() && shape.gpu_type != self.nodes[node].gpu_type {
                continue;
            }
            let shared = left.iter().filter(|left| **left < 1000).copied();
            let free = left.iter().filter(|left| **left == 1000).count();
            let l = (0..self.nodes.len())
                .filter(|other| shape.gpu_type.is_none() || self.nodes[*other].gpu_type == shape.gpu_type)
                .map(|other| self.sizes[other])
                .max()
                .unwrap_or(0);
            let needs = (shape.gpus as usize).min(l);
            let all = left.iter().map(|left| i128::from(*left)).sum::<i128>();
            let rest = less(beside, *shape, if shape.milli > 0 { 1 } else { needs });
            let lost: i128 = if rest.cores < 0 || rest.memory < 0 {
                all
            } else if shape.milli > 0 {
                shared.filter(|left| *left < shape.milli).map(i128::from).sum()
            } else {
                shared.map(i128::from).sum::<i128>() + if free < needs { free as i128 * 1000 } else { 0 }
            };
            waste += lost * i128::from(*jobs);
        }
        waste
    }
}

/// Processors and memory left once a shape has `times` what it asks for each GPU (or for its part,
/// once).
fn less(beside: Beside, shape: Shape, times: usize) -> Beside {
    let of = |each: u32| i64::from(each) * times as i64;
    Beside { cores: beside.cores - of(shape.host.cores_milli), memory: beside.memory - of(shape.host.memory_mib) }
}

/// Whether a node has that.
fn has(view: &View, node: usize, shape: Shape, times: usize) -> bool {
    let rest = less(view[node].2, shape, times);
    rest.cores >= 0 && rest.memory >= 0
}

/// Number of GPUs of a node that a shape of whole GPUs could have: tried one by one.
pub(super) fn room(view: &View, node: usize, shape: Shape) -> usize {
    let free = view[node].0.iter().filter(|left| **left == 1000).count();
    (0..=free).rev().find(|gpus| has(view, node, shape, *gpus)).unwrap_or(0)
}

/// GPUs of a node for a shape, with what they need beside.
pub(super) fn whole(node: u32, shape: Shape, gpus: impl Iterator<Item = usize>) -> Piece {
    let gpus: Vec<usize> = gpus.collect();
    let many = gpus.len() as u32;
    let host = HostNeed { cores_milli: shape.host.cores_milli * many, memory_mib: shape.host.memory_mib * many };
    Piece { node, milli: 0, gpus: gpus.into_iter().map(|gpu| 1u64 << gpu).sum(), host }
}

/// Whether nothing of a node is in use.
fn is_free(view: &View, node: usize) -> bool {
    view[node].0.iter().all(|left| *left == 1000)
}

/// Home and position of the best buddy cell for `size` GPUs.
fn buddy(left: &[u16], size: usize) -> Option<(usize, usize)> {
    let nodes_size = left.len();
    let is_free = |from: usize, count: usize| {
        from + count <= nodes_size && left[from..from + count].iter().all(|left| *left == 1000)
    };
    // All cells: (position, size).
    let mut cells: Vec<(usize, usize)> = vec![(0, nodes_size)];
    let mut block = 1;
    while block <= nodes_size {
        cells
            .extend((0..nodes_size).step_by(block).filter(|from| from + block <= nodes_size).map(|from| (from, block)));
        block *= 2;
    }
    let mut needs = 1;
    while needs < size {
        needs *= 2;
    }
    let wanted = if needs > nodes_size { nodes_size } else { needs };
    let home = |position: usize, count: usize| {
        let contains = |cell: &&(usize, usize)| cell.0 <= position && position + count <= cell.0 + cell.1;
        cells.iter().filter(contains).filter(|cell| is_free(cell.0, cell.1)).map(|cell| cell.1).max()
    };
    let candidates = cells.iter().filter(|cell| cell.1 == wanted && is_free(cell.0, cell.1));
    candidates.filter_map(|cell| Some((home(cell.0, cell.1)?, cell.0))).min()
}

fn splitmix(seed: u64, job: u32, node: u32) -> u64 {
    let mix = |value: u64| {
        let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    mix(mix(seed ^ mix(u64::from(job))) ^ u64::from(node))
}
