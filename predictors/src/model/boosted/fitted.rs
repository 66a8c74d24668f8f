//! Fitted trees: how they answer, and how they are written down.
//!
//! **One row** goes through each tree from branch to branch. **Many rows** do not: their columns are laid side by side, and each branch takes the leaves to its
//! left away from all rows of a block that go right, as bits of one word; the lowest bit that is left is the row's leaf (after QuickScorer, Lucchese et al. 2015).
//! That compares more than it must, but never waits and guesses nothing. Both give the same bits. Trees of more than [`WORD`] leaves are walked.
//!
//! **Bytes**: a word of four letters, a version, then counts and numbers, little-endian. Whatever bytes are read, each branch leads on, so every walk ends.
//!
//! O(trees × depth) one row, O(trees × leaves) a row of many, at a quarter of a comparison each. Worked number: 120 trees of 31 leaves are about 120 × 6
//! comparisons one row.

use std::ops::Range;

use serde_json::{Value, json};

use super::grow::{Branch, Child, Shape, Sum};
use crate::matrix::Matrix;

/// Marks a column whose unknown values go left.
const UNKNOWN_LEFT: u16 = 1 << 15;
/// Columns at most, as that bit is not of the number.
pub(super) const MOST_COLUMNS: usize = UNKNOWN_LEFT as usize - 1;
/// Leaves at most: branches and leaves together have numbers of 16 bits.
pub(super) const MOST_LEAVES: usize = 1 << 15;
/// Leaves that the bits of a word tell apart.
const WORD: usize = 32;
/// Rows that are answered side by side.
const BLOCK: usize = 64;
/// Version of the bytes.
const VERSION: u32 = 1;
/// First bytes of a saved model.
const MAGIC: [u8; 4] = *b"tcbt";

/// A branch: what is below the threshold goes left. Children are branches, or leaves behind all branches.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    threshold: f32,
    column: u16,
    left: u16,
    right: u16,
    /// Leaves that are not to its left.
    not_left: u32,
    gain: f32,
}

/// A tree: branches, none before the one that leads to it, and leaves from left to right.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The outputs it moves.
    outputs: Range<usize>,
    /// Leaf after leaf, a value an output.
    values: Vec<f32>,
    /// Leaf values by output, of a tree that is swept; empty for others.
    by_output: Vec<[f32; WORD]>,
}

/// Boosted trees, fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedTrees {
    width: usize,
    base: Vec<f32>,
    trees: Vec<Tree>,
    /// Whether each output is a chance.
    chances: Vec<bool>,
}

impl Node {
    fn column(&self) -> usize {
        usize::from(self.column & !UNKNOWN_LEFT)
    }

    fn unknown_left(&self) -> bool {
        self.column & UNKNOWN_LEFT != 0
    }

    fn next(&self, row: &[f32]) -> u16 {
        let value = row.get(self.column()).copied().unwrap_or(f32::NAN);
        let left = value < self.threshold || value.is_nan() && self.unknown_left();
        if left { self.left } else { self.right }
    }
}

impl Tree {
    pub(super) fn of<const W: usize>(
        shape: &Shape<W>,
        cuts: &[Vec<f32>],
        values: &[Sum<W>],
        outputs: Range<usize>,
    ) -> Self {
        let branches = shape.branches.len();
        // Leaves get their numbers from left to right.
        let mut order = Vec::with_capacity(values.len());
        let mut open = vec![Child::Branch(0)];
        while let Some(child) = open.pop() {
            match child {
                Child::Leaf(leaf) => order.push(leaf),
                Child::Branch(at) => {
                    open.extend(shape.branches.get(at).into_iter().flat_map(|branch| [branch.right, branch.left]));
                }
            }
        }
        let mut number = vec![0; values.len()];
        for (place, leaf) in order.iter().enumerate() {
            if let Some(slot) = number.get_mut(*leaf) {
                *slot = place;
            }
        }
        let child = |child: Child| match child {
            Child::Branch(at) => at as u16,
            Child::Leaf(at) => (branches + number.get(at).copied().unwrap_or(0)) as u16,
        };
        let node = |branch: &Branch| {
            // Beyond the last cut all that is known goes left.
            let cut = cuts.get(branch.column).and_then(|cuts| cuts.get(usize::from(branch.rule.bin)));
            Node {
                threshold: cut.copied().unwrap_or(f32::INFINITY),
                column: branch.column as u16 | if branch.rule.unknown_left { UNKNOWN_LEFT } else { 0 },
                left: child(branch.left),
                right: child(branch.right),
                not_left: 0,
                gain: branch.gain,
            }
        };
        let in_order = order.iter().filter_map(|leaf| values.get(*leaf));
        let values = in_order.flat_map(|value| value.iter().copied().take(outputs.len())).collect();
        Self::with(shape.branches.iter().map(node).collect(), outputs, values)
    }

    /// A tree, ready to be swept if it has few leaves.
    fn with(nodes: Vec<Node>, outputs: Range<usize>, values: Vec<f32>) -> Self {
        let mut tree = Self { nodes, outputs, values, by_output: Vec::new() };
        if tree.leaves() <= WORD {
            tree.mark();
            tree.by_output = vec![[0.0; WORD]; tree.outputs.len()];
            for (leaf, values) in tree.values.chunks_exact(tree.outputs.len().max(1)).enumerate() {
                for (output, value) in tree.by_output.iter_mut().zip(values) {
                    output[leaf % WORD] = *value;
                }
            }
        }
        tree
    }

    /// Finds the leaves to the left of each branch, of a tree that is swept.
    fn mark(&mut self) {
        let branches = self.nodes.len();
        // First and last leaf below each branch; children come behind, so from the end.
        let mut below = vec![(0, 0); branches];
        let span = |child: u16, below: &[(usize, usize)]| {
            let child = usize::from(child);
            below.get(child).copied().unwrap_or((child.saturating_sub(branches), child.saturating_sub(branches)))
        };
        for (at, node) in self.nodes.iter_mut().enumerate().rev() {
            let (left, right) = (span(node.left, &below), span(node.right, &below));
            if let Some(slot) = below.get_mut(at) {
                *slot = (left.0, right.1);
            }
            node.not_left = !(left.0..=left.1).fold(0, |bits, leaf| bits | 1u32 << leaf.min(WORD - 1));
        }
    }

    fn leaves(&self) -> usize {
        self.nodes.len() + 1
    }

    fn value(&self, leaf: usize) -> &[f32] {
        let outputs = self.outputs.len();
        self.values.get(leaf * outputs..(leaf + 1) * outputs).unwrap_or_default()
    }

    /// Moves what is said of a row in this leaf.
    fn say(&self, leaf: usize, said: &mut [f32]) {
        for (said, value) in said.iter_mut().skip(self.outputs.start).zip(self.value(leaf)) {
            *said += value;
        }
    }

    /// The leaf of a row.
    fn walk(&self, row: &[f32]) -> usize {
        let mut at = 0;
        while let Some(node) = self.nodes.get(usize::from(at)) {
            at = node.next(row);
        }
        usize::from(at).saturating_sub(self.nodes.len())
    }

    /// Adds the leaf values of a tree of any number of leaves, from the rows themselves.
    fn walk_all<'a>(&self, rows: impl Iterator<Item = &'a [f32]>, said: &mut [[f32; BLOCK]]) {
        for (at, row) in rows.enumerate() {
            let values = self.value(self.walk(row));
            for (said, value) in said.iter_mut().skip(self.outputs.start).zip(values) {
                said[at % BLOCK] += value;
            }
        }
    }

    /// Moves what is said of a block of rows, whose columns lie side by side, output by output; by bits, so for trees of few leaves.
    fn sweep(&self, columns: &[[f32; BLOCK]], said: &mut [[f32; BLOCK]]) {
        let mut bits = [u32::MAX; BLOCK];
        for node in &self.nodes {
            let Some(column) = columns.get(node.column()) else { continue };
            if node.unknown_left() {
                for (bits, value) in bits.iter_mut().zip(column) {
                    *bits &= u32::from((*value < node.threshold) | value.is_nan()).wrapping_neg() | node.not_left;
                }
            } else {
                for (bits, value) in bits.iter_mut().zip(column) {
                    *bits &= u32::from(*value < node.threshold).wrapping_neg() | node.not_left;
                }
            }
        }
        let leaves = bits.map(lowest);
        for (said, values) in said.iter_mut().skip(self.outputs.start).zip(&self.by_output) {
            for (said, leaf) in said.iter_mut().zip(leaves) {
                *said += values[leaf as usize % WORD];
            }
        }
    }
}

/// Index of the lowest set bit, as the exponent of its float: of several words at once, which
/// counting zeros is not.
fn lowest(bits: u32) -> u32 {
    let lowest = bits & bits.wrapping_neg();
    // The highest bit is the sign of an integer, and of no consequence to the exponent.
    let exponent = ((lowest as i32 as f32).to_bits() >> (f32::MANTISSA_DIGITS - 1)) & 0xff;
    exponent.wrapping_sub(f32::MAX_EXP as u32 - 1)
}

impl FittedTrees {
    pub(super) fn new(width: usize, base: Vec<f32>, trees: Vec<Tree>, chances: Vec<bool>) -> Self {
        Self { width, base, trees, chances }
    }

    /// Outputs of a row.
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// Columns that a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All outputs of all rows, row after row. Columns that a row lacks are unknown.
    pub fn say(&self, rows: &Matrix) -> Vec<f32> {
        let (outputs, wide) = (self.outputs().max(1), rows.columns().max(1));
        let mut said = vec![0.0; rows.rows() * self.outputs()];
        let mut columns = vec![[f32::NAN; BLOCK]; self.width];
        let mut of_block = vec![[0.0; BLOCK]; outputs];
        for (rows, said) in rows.values().chunks(BLOCK * wide).zip(said.chunks_mut(BLOCK * outputs)) {
            for (at, row) in rows.chunks_exact(wide).enumerate() {
                for (column, value) in columns.iter_mut().zip(row) {
                    column[at % BLOCK] = *value;
                }
            }
            for (of_block, base) in of_block.iter_mut().zip(&self.base) {
                *of_block = [*base; BLOCK];
            }
            // In the order of the trees, as one row is told: sums of another order are other bits.
            for tree in &self.trees {
                if tree.leaves() <= WORD {
                    tree.sweep(&columns, &mut of_block);
                } else {
                    tree.walk_all(rows.chunks_exact(wide), &mut of_block);
                }
            }
            for (at, said) in said.chunks_exact_mut(outputs).enumerate() {
                for (said, of_block) in said.iter_mut().zip(&of_block) {
                    *said = of_block[at % BLOCK];
                }
            }
        }
        self.finish(&mut said);
        said
    }

    /// All outputs of one row, into `said`, without allocating.
    pub fn say_one(&self, row: &[f32], said: &mut [f32]) {
        for (said, base) in said.iter_mut().zip(&self.base) {
            *said = *base;
        }
        for tree in &self.trees {
            tree.say(tree.walk(row), said);
        }
        self.finish(said);
    }

    fn finish(&self, said: &mut [f32]) {
        if self.chances.iter().any(|chance| *chance) {
            for row in said.chunks_mut(self.outputs().max(1)) {
                for (odds, _) in row.iter_mut().zip(&self.chances).filter(|(_, chance)| **chance) {
                    *odds = logistic(*odds);
                }
            }
        }
    }

    /// Total gain of each column, by its number, largest first.
    pub fn gains(&self) -> Vec<(u32, f64)> {
        let mut gains = vec![0.0; self.width];
        for node in self.trees.iter().flat_map(|tree| &tree.nodes) {
            if let Some(slot) = gains.get_mut(node.column()) {
                *slot += f64::from(node.gain);
            }
        }
        let mut gains: Vec<(u32, f64)> = (0u32..).zip(gains).filter(|(_, gain)| *gain > 0.0).collect();
        gains.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        gains
    }

    /// The model as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let count = |number: usize| (number as u32).to_le_bytes();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(count(self.width));
        bytes.extend(count(self.base.len()));
        bytes.extend(self.base.iter().flat_map(|base| base.to_le_bytes()));
        bytes.extend(self.chances.iter().map(|chance| u8::from(*chance)));
        bytes.extend(count(self.trees.len()));
        for tree in &self.trees {
            bytes.extend([tree.outputs.start, tree.outputs.end, tree.nodes.len()].into_iter().flat_map(count));
            for node in &tree.nodes {
                bytes.extend(node.threshold.to_le_bytes());
                bytes.extend([node.column, node.left, node.right].into_iter().flat_map(u16::to_le_bytes));
                bytes.extend(node.gain.to_le_bytes());
            }
            bytes.extend(tree.values.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }

    /// The model from bytes that [`FittedTrees::encode`] gave; `None` if they are none, or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut read = Bytes(bytes);
        if read.take()? != MAGIC || u32::from_le_bytes(read.take()?) != VERSION {
            return None;
        }
        let (width, outputs) = (read.count()?, read.count()?);
        if width > MOST_COLUMNS || outputs == 0 {
            return None;
        }
        let base = read.numbers(outputs)?;
        let chances: Vec<bool> = read.part(outputs)?.iter().map(|byte| *byte == 1).collect();
        let trees = read.count()?;
        let mut result = Vec::new();
        for _ in 0..trees {
            let (from, to, branches) = (read.count()?, read.count()?, read.count()?);
            if from >= to || to > outputs {
                return None;
            }
            let mut nodes = Vec::new();
            for at in 0..branches {
                let threshold = f32::from_le_bytes(read.take()?);
                let mut short = || Some(u16::from_le_bytes(read.take()?));
                let (column, left, right) = (short()?, short()?, short()?);
                let gain = f32::from_le_bytes(read.take()?);
                let node = Node { threshold, column, left, right, not_left: 0, gain };
                let onward = |child: u16| usize::from(child) > at && usize::from(child) <= 2 * branches;
                if node.column() >= width || !onward(left) || !onward(right) {
                    return None;
                }
                nodes.push(node);
            }
            let values = read.numbers((branches + 1).checked_mul(to - from)?)?;
            result.push(Tree::with(nodes, from..to, values));
        }
        read.0.is_empty().then_some(Self { width, base, trees: result, chances })
    }

    /// Model of one output in XGBoost's JSON, which XGBoost reads.
    pub fn xgboost_json(&self, output: usize) -> Value {
        let base = self.base.get(output).copied().unwrap_or(0.0);
        let of_it = self.trees.iter().filter(|tree| tree.outputs.contains(&output)).enumerate();
        let trees: Vec<Value> = of_it.map(|(id, tree)| tree.xgboost(id, self.width, output)).collect();
        json!({
            "version": [3, 0, 0],
            "learner": {
                "attributes": {},
                "feature_names": [],
                "feature_types": [],
                "gradient_booster": {
                    "name": "gbtree",
                    "model": {
                        "gbtree_model_param": { "num_parallel_tree": "1", "num_trees": trees.len().to_string() },
                        "iteration_indptr": (0..=trees.len()).collect::<Vec<usize>>(),
                        "tree_info": vec![0; trees.len()],
                        "trees": trees,
                    },
                },
                "learner_model_param": {
                    "base_score": format!("[{base:E}]"),
                    "boost_from_average": "0",
                    "num_class": "0",
                    "num_feature": self.width.to_string(),
                    "num_target": "1",
                },
                "objective": { "name": "reg:squarederror", "reg_loss_param": { "scale_pos_weight": "1" } },
            },
        })
    }
}

impl Tree {
    /// The tree in XGBoost's form, for one output: branches, then leaves.
    fn xgboost(&self, id: usize, width: usize, output: usize) -> Value {
        let (branches, leaves) = (self.nodes.len(), self.leaves());
        let all = branches + leaves;
        let of_nodes = |of: fn(&Node) -> Value, leaf: Value| -> Vec<Value> {
            self.nodes.iter().map(of).chain(std::iter::repeat_n(leaf, leaves)).collect()
        };
        let mut parents = vec![json!(i32::MAX); all];
        for (at, node) in self.nodes.iter().enumerate() {
            for child in [node.left, node.right] {
                if let Some(slot) = parents.get_mut(usize::from(child)) {
                    *slot = json!(at);
                }
            }
        }
        let value = |leaf: usize| json!(self.value(leaf).get(output - self.outputs.start).copied().unwrap_or(0.0));
        let values: Vec<Value> = (0..leaves).map(value).collect();
        // JSON has no infinity; nothing known is above the greatest number.
        let threshold = |node: &Node| json!(node.threshold.min(f32::MAX));
        let conditions: Vec<Value> = self.nodes.iter().map(threshold).chain(values.iter().cloned()).collect();
        let weights: Vec<Value> = std::iter::repeat_n(json!(0.0), branches).chain(values).collect();
        json!({
            "id": id,
            "tree_param": {
                "num_deleted": "0",
                "num_feature": width.to_string(),
                "num_nodes": all.to_string(),
                "size_leaf_vector": "1",
            },
            "left_children": of_nodes(|node| json!(node.left), json!(-1)),
            "right_children": of_nodes(|node| json!(node.right), json!(-1)),
            "parents": parents,
            "split_indices": of_nodes(|node| json!(node.column()), json!(0)),
            "split_conditions": conditions,
            "default_left": of_nodes(|node| json!(u8::from(node.unknown_left())), json!(0)),
            "base_weights": weights,
            "loss_changes": of_nodes(|node| json!(node.gain), json!(0.0)),
            "sum_hessian": vec![0.0; all],
            "split_type": vec![0; all],
            "categories": [],
            "categories_nodes": [],
            "categories_segments": [],
            "categories_sizes": [],
        })
    }
}

/// The chance that log odds stand for.
pub(super) fn logistic(odds: f32) -> f32 {
    1.0 / (1.0 + (-odds).exp())
}

/// Bytes that are left to read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn count(&mut self) -> Option<usize> {
        Some(u32::from_le_bytes(self.take()?) as usize)
    }

    fn part(&mut self, many: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(many)?;
        self.0 = rest;
        Some(taken)
    }

    fn numbers(&mut self, many: usize) -> Option<Vec<f32>> {
        let taken = self.part(many.checked_mul(4)?)?;
        let number = |four: &[u8]| four.try_into().map_or(f32::NAN, f32::from_le_bytes);
        Some(taken.chunks_exact(4).map(number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bit_is_the_first_leaf_left() {
        for leaf in 0..WORD as u32 {
            assert_eq!((lowest(1 << leaf), lowest(u32::MAX << leaf)), (leaf, leaf));
        }
    }
}
