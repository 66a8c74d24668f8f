//! Growth of one tree: rows and columns are drawn, and leaves split while it pays, the leaf that
//! pays most first.
//!
//! What is drawn depends on the seed and the number of the tree alone, so trees of one number in several structures share it ([`Draw`]): to copy it takes a quarter as long as to grow a tree on it.
//!
//! Each row pulls with one number an output: the less of its loss would be left, the more it pulls. A leaf's **worth** is Σ over outputs of pull² / (weight +
//! λ), and a split gains what its two sides are worth beyond the whole. So one structure serves all outputs. Sums of pulls by bin tell the gain of every
//! split of a leaf; of two new leaves the smaller is summed, and the other is what is left of their parent. The numbers of a leaf's rows lie together: each split moves them. The rows
//! themselves are moved once, if the table is large: rows of small leaves would else be fetched from all over it.
//!
//! O(rows drawn × columns drawn × log leaves + leaves × columns drawn × bins). Worked example: four rows that pull −1, −1, 1, 1 are worth 0 together (λ = 0), and
//! 2² / 2 on either side of the middle: the split gains 4.

use std::borrow::Cow;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Trees;
use super::bins::{Binned, MOST, PAD, copy_rows, unknown};

/// Pulls by output, and the weight in the last lane.
pub(super) type Sum<const W: usize> = [f32; W];
/// Sums by bin of one column.
type Column<const W: usize> = [Sum<W>; MOST + 1];

/// Bytes of the sums that are added to at once. Sums beyond the nearest cache cost less than going over the rows of a large table again.
const NEAR: usize = 64 << 10;
/// Leaves at which the rows of a large table are put together by leaf, and its bytes from which on it is large.
const REGROUPED_AT: usize = 8;
const LARGE: usize = 1 << 20;
/// Gains below this are noise of the sums.
const LEAST_GAIN: f32 = 1e-6;

/// A split of a leaf, and what became of it: inner nodes come before those that they lead to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    /// Column.
    pub(super) column: usize,
    /// Rule for the bins that go left.
    pub(super) rule: Rule,
    /// Gain of the split.
    pub(super) gain: f32,
    /// Child on the left.
    pub(super) left: Child,
    pub(super) right: Child,
}

/// Rule for the bins of a column that go left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Last bin that goes left.
    pub(super) bin: u8,
    /// Bin of unknown values.
    unknown: u8,
    /// Whether unknown values go left.
    pub(super) unknown_left: bool,
}

impl Rule {
    /// Without a branch, as rows that are not in order would often take the other one; what is unknown is behind all bins.
    fn left(&self, bin: u8) -> bool {
        (bin <= self.bin) | (self.unknown_left & (bin == self.unknown))
    }
}

impl Branch {
    /// Child that a row of bins goes to.
    fn next(&self, row: &[u8]) -> Child {
        if self.rule.left(row.get(self.column).copied().unwrap_or(0)) { self.left } else { self.right }
    }
}

/// Child of a branch: another branch, or a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    /// To a branch.
    Branch(usize),
    /// To a leaf.
    Leaf(usize),
}

/// A tree without values: branches, and of each leaf the rows that came to it, and their sum.
#[derive(Debug)]
pub(super) struct Shape<const W: usize> {
    pub(super) branches: Vec<Branch>,
    pub(super) leaves: Vec<(Vec<u32>, Sum<W>)>,
    /// Whether these are all rows, and not only those drawn.
    whole: bool,
}

/// A split that could be made.
#[derive(Debug, Clone, Copy)]
struct Split<const W: usize> {
    gain: f32,
    /// Place among the columns drawn.
    place: usize,
    rule: Rule,
    left: Sum<W>,
}

/// A leaf that may be split further.
struct Leaf<const W: usize> {
    rows: Range<usize>,
    sum: Sum<W>,
    sums: Vec<Column<W>>,
    best: Option<Split<W>>,
    /// The branch it hangs on, and on which side.
    hangs: Option<(usize, bool)>,
}

/// Buffers that one tree leaves for the next to use again.
#[derive(Debug, Default)]
pub(super) struct Spare<const W: usize> {
    sums: Vec<Vec<Column<W>>>,
    tables: Vec<Vec<u8>>,
    numbers: Vec<Vec<u32>>,
    pulls: Vec<Vec<Sum<W>>>,
    right: Vec<u32>,
}

/// Rows and columns drawn for the trees of one number, whichever structure they are of: the rows by
/// number, and their bins of the columns drawn, row after row; the table itself if that is all of
/// it.
#[derive(Debug)]
pub(super) struct Draw<'a> {
    numbers: Vec<u32>,
    bins: Cow<'a, [u8]>,
    columns: Vec<u32>,
    /// Bins of known values in each of these columns.
    known: Vec<u8>,
    /// Whether these are all rows.
    whole: bool,
}

/// Rows drawn, and what each of them asks for.
struct Drawn<'a, const W: usize> {
    numbers: Cow<'a, [u32]>,
    /// Places of rows in what is drawn; leaves hold stretches of it.
    order: Vec<u32>,
    pulls: Cow<'a, [Sum<W>]>,
    bins: Cow<'a, [u8]>,
    columns: &'a [u32],
    known: &'a [u8],
}

pub(super) fn plus<const W: usize>(sum: &mut Sum<W>, more: &Sum<W>) {
    for (lane, more) in sum.iter_mut().zip(more) {
        *lane += more;
    }
}

fn less<const W: usize>(mut sum: Sum<W>, part: &Sum<W>) -> Sum<W> {
    for (lane, part) in sum.iter_mut().zip(part) {
        *lane -= part;
    }
    sum
}

fn weight<const W: usize>(sum: &Sum<W>) -> f32 {
    sum.last().copied().unwrap_or(0.0)
}

/// Gain of a leaf with this sum of gradients.
fn worth<const W: usize>(sum: &Sum<W>, lambda: f32) -> f32 {
    let squares: f32 = sum.iter().take(W - 1).map(|pull| pull * pull).sum();
    squares / (weight(sum) + lambda)
}

/// Hangs a branch or a leaf on its place; the root hangs on none.
fn hang(branches: &mut [Branch], on: Option<(usize, bool)>, child: Child) {
    if let Some((on, left)) = on
        && let Some(above) = branches.get_mut(on)
    {
        *(if left { &mut above.left } else { &mut above.right }) = child;
    }
}

/// Grows a tree on what each row of `pulls` asks for, as far as it is drawn. A side of a split needs `least`.
pub(super) fn grow<const W: usize>(
    draw: &Draw<'_>,
    pulls: &[Sum<W>],
    growth: &Trees,
    spare: &mut Spare<W>,
) -> Shape<W> {
    let mut drawn = Drawn::of(draw, pulls, spare);
    let mut branches: Vec<Branch> = Vec::with_capacity(growth.leaves);
    let all = 0..drawn.numbers.len();
    let sum = drawn.sum(&all);
    let mut leaves = vec![Leaf { rows: all, sum, sums: Vec::new(), best: None, hangs: None }];
    if let Some(root) = leaves.first_mut() {
        root.sums = drawn.sums(&root.rows, spare);
        root.best = drawn.best(root, growth);
    }
    while leaves.len() < growth.leaves {
        // Of equals the first.
        let gain = |leaf: &Leaf<W>| leaf.best.as_ref().map_or(0.0, |best| best.gain);
        let most = leaves.iter().enumerate().rev().max_by(|a, b| gain(a.1).total_cmp(&gain(b.1)));
        let Some((at, best)) = most.and_then(|(at, leaf)| Some((at, leaf.best?))) else { break };
        let parent = leaves.swap_remove(at);
        let middle = drawn.part(&parent.rows, &best, &mut spare.right);
        let column = drawn.columns.get(best.place).map_or(0, |column| *column as usize);
        let branch = branches.len();
        hang(&mut branches, parent.hangs, Child::Branch(branch));
        branches.push(Branch { column, rule: best.rule, gain: best.gain, left: Child::Leaf(0), right: Child::Leaf(0) });
        let leaf = |rows: Range<usize>, sum: Sum<W>, left: bool| Leaf {
            rows,
            sum,
            sums: Vec::new(),
            best: None,
            hangs: Some((branch, left)),
        };
        let mut left = leaf(parent.rows.start..middle, best.left, true);
        let mut right = leaf(middle..parent.rows.end, less(parent.sum, &best.left), false);
        // The last leaves are not split, and none that is too light.
        let last = leaves.len() + 2 >= growth.leaves;
        let splits = |leaf: &Leaf<W>| !last && weight(&leaf.sum) >= 2.0 * growth.least as f32 && leaf.rows.len() > 1;
        if splits(&left) || splits(&right) {
            let (small, large) =
                if left.rows.len() <= right.rows.len() { (&mut left, &mut right) } else { (&mut right, &mut left) };
            small.sums = drawn.sums(&small.rows, spare);
            large.sums = parent.sums;
            drawn.take(&mut large.sums, &small.sums);
            for leaf in [&mut left, &mut right] {
                if splits(leaf) {
                    leaf.best = drawn.best(leaf, growth);
                }
                if leaf.best.is_none() {
                    spare.sums.push(std::mem::take(&mut leaf.sums));
                }
            }
        } else {
            spare.sums.push(parent.sums);
        }
        leaves.extend([left, right]);
        if leaves.len() == REGROUPED_AT && growth.leaves > 2 * REGROUPED_AT && drawn.bins.len() >= LARGE {
            drawn.regroup(spare);
        }
    }
    let mut result = Vec::with_capacity(leaves.len());
    for (number, leaf) in leaves.into_iter().enumerate() {
        hang(&mut branches, leaf.hangs, Child::Leaf(number));
        if !leaf.sums.is_empty() {
            spare.sums.push(leaf.sums);
        }
        let number = |place: &u32| drawn.numbers.get(*place as usize).copied();
        result.push((drawn.places(&leaf.rows).iter().filter_map(number).collect(), leaf.sum));
    }
    drawn.give_back(spare);
    Shape { branches, leaves: result, whole: draw.whole }
}

/// Memory to fill again.
fn emptied<T>(spare: &mut Vec<Vec<T>>) -> Vec<T> {
    let mut filled = spare.pop().unwrap_or_default();
    filled.clear();
    filled
}

/// The values at `places`, in their order.
fn named<T: Copy>(values: &[T], places: &[u32], spare: &mut Vec<Vec<T>>) -> Vec<T> {
    let mut result = emptied(spare);
    result.extend(places.iter().filter_map(|place| values.get(*place as usize)));
    result
}

/// Running sums up to each bin of a column, lane by lane, so that the gains of all bins are
/// computed side by side.
struct Scan<const W: usize> {
    lanes: [[f32; MOST + 1]; W],
    /// Sums of squared pulls of either side.
    squares: [[f32; MOST + 1]; 2],
    gains: [f32; MOST + 1],
}

impl<const W: usize> Scan<W> {
    fn new() -> Self {
        Self { lanes: [[0.0; MOST + 1]; W], squares: [[0.0; MOST + 1]; 2], gains: [0.0; MOST + 1] }
    }

    /// Bin after which a split gains most, and the gains of its sides; the first of equals, and
    /// none if no split leaves enough on either side.
    fn over<'a>(
        &mut self,
        bins: impl ExactSizeIterator<Item = &'a Sum<W>>,
        from: Sum<W>,
        all: &Sum<W>,
        growth: &Trees,
    ) -> Option<(usize, f32)> {
        let many = bins.len();
        let mut left = from;
        for (bin, sum) in bins.enumerate() {
            plus(&mut left, sum);
            for (lane, value) in self.lanes.iter_mut().zip(left) {
                lane[bin] = value;
            }
        }
        let (weights, pulls) = self.lanes.split_last()?;
        let gains = self.gains.get_mut(..many)?;
        let [of_left, of_right] = &mut self.squares;
        of_left.iter_mut().take(many).chain(of_right.iter_mut().take(many)).for_each(|sum| *sum = 0.0);
        for (lane, all) in pulls.iter().zip(all) {
            for ((left, right), pull) in of_left.iter_mut().zip(of_right.iter_mut()).zip(lane).take(many) {
                *left += pull * pull;
                *right += (all - pull) * (all - pull);
            }
        }
        let heavy = weight(all);
        let (least, lambda) = (growth.least as f32, growth.lambda as f32);
        for (((gain, weight), left), right) in gains.iter_mut().zip(weights).zip(of_left.iter()).zip(of_right.iter()) {
            let other = heavy - weight;
            let worth = left / (weight + lambda) + right / (other + lambda);
            *gain = if *weight >= least && other >= least { worth } else { 0.0 };
        }
        let most = gains.iter().fold(0.0f32, |most, gain| if *gain > most { *gain } else { most });
        let at = gains.iter().position(|gain| *gain >= most && most > 0.0)?;
        Some((at, most))
    }

    /// The sum up to a bin.
    fn left(&self, bin: usize) -> Sum<W> {
        let mut sum = [0.0; W];
        for (slot, lane) in sum.iter_mut().zip(&self.lanes) {
            *slot = lane.get(bin).copied().unwrap_or(0.0);
        }
        sum
    }
}

impl<'a> Draw<'a> {
    /// Draws rows and columns for the trees of this number, in the memory of another draw.
    pub(super) fn new(binned: &'a Binned, growth: &Trees, tree: u64, spare: Option<Self>) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(growth.seed);
        random.set_stream(tree);
        let rows = 0..u32::try_from(binned.rows()).unwrap_or(u32::MAX);
        let (mut numbers, table) = spare.map_or_else(Default::default, |spare| (spare.numbers, spare.bins));
        numbers.clear();
        if growth.rows >= 1.0 {
            numbers.extend(rows);
        } else {
            let share = (growth.rows * f64::from(u32::MAX)) as u32;
            numbers.extend(rows.filter(|_| random.random::<u32>() < share));
        }
        let mut columns: Vec<u32> =
            (0u32..).zip(&binned.cuts).filter(|(_, cuts)| !cuts.is_empty()).map(|(column, _)| column).collect();
        let many = ((columns.len() as f64 * growth.columns).ceil() as usize).clamp(1, columns.len().max(1));
        for at in 0..many.min(columns.len()) {
            let other = random.random_range(at..columns.len());
            columns.swap(at, other);
        }
        columns.truncate(many);
        columns.sort_unstable();
        let (all_rows, all_columns) = (numbers.len() == binned.rows(), columns.len() == binned.cuts.len());
        let bins = if all_rows && all_columns {
            Cow::Borrowed(binned.bins())
        } else {
            let mut bins = if let Cow::Owned(bins) = table { bins } else { Vec::new() };
            if all_columns {
                copy_rows(binned.bins(), columns.len(), &numbers, &mut bins);
            } else {
                bins.clear();
                bins.reserve(numbers.len() * columns.len() + PAD);
                // Columns of eight bits need no look at where a row ends.
                let narrow: Option<Vec<u8>> = columns.iter().map(|column| u8::try_from(*column).ok()).collect();
                for number in &numbers {
                    match (&narrow, binned.padded_row(*number as usize)) {
                        (Some(columns), Some(row)) => {
                            bins.extend(columns.iter().map(|column| row[usize::from(*column)]));
                        }
                        _ => {
                            let row = binned.row(*number as usize);
                            bins.extend(columns.iter().map(|column| row.get(*column as usize).copied().unwrap_or(0)));
                        }
                    }
                }
                bins.resize(bins.len() + PAD, 0);
            }
            Cow::Owned(bins)
        };
        let known = |column: &u32| binned.cuts.get(*column as usize).map_or(0, |cuts| unknown(cuts));
        Self { known: columns.iter().map(known).collect(), numbers, bins, columns, whole: all_rows }
    }
}

impl<'a, const W: usize> Drawn<'a, W> {
    fn of(draw: &'a Draw<'_>, pulls: &'a [Sum<W>], spare: &mut Spare<W>) -> Self {
        let Draw { numbers, bins, columns, known, whole } = draw;
        let pulls = if *whole { Cow::Borrowed(pulls) } else { Cow::Owned(named(pulls, numbers, &mut spare.pulls)) };
        let mut order = emptied(&mut spare.numbers);
        order.extend(0..numbers.len() as u32);
        Self { numbers: Cow::Borrowed(numbers), order, pulls, bins: Cow::Borrowed(bins), columns, known }
    }

    /// Puts rows that lie together by number together in memory, too.
    fn regroup(&mut self, spare: &mut Spare<W>) {
        let mut bins = spare.tables.pop().unwrap_or_default();
        copy_rows(&self.bins, self.columns.len(), &self.order, &mut bins);
        let pulls = named(&self.pulls, &self.order, &mut spare.pulls);
        let numbers = named(&self.numbers, &self.order, &mut spare.numbers);
        let mut order = emptied(&mut spare.numbers);
        order.extend(0..numbers.len() as u32);
        let (numbers, pulls, bins) = (Cow::Owned(numbers), Cow::Owned(pulls), Cow::Owned(bins));
        let regrouped = Self { numbers, order, pulls, bins, columns: self.columns, known: self.known };
        std::mem::replace(self, regrouped).give_back(spare);
    }

    /// Leaves its memory to what is drawn next.
    fn give_back(self, spare: &mut Spare<W>) {
        spare.numbers.push(self.order);
        if let Cow::Owned(numbers) = self.numbers {
            spare.numbers.push(numbers);
        }
        if let Cow::Owned(bins) = self.bins {
            spare.tables.push(bins);
        }
        if let Cow::Owned(pulls) = self.pulls {
            spare.pulls.push(pulls);
        }
    }

    fn places(&self, rows: &Range<usize>) -> &[u32] {
        self.order.get(rows.clone()).unwrap_or_default()
    }

    fn pull(&self, place: u32) -> Sum<W> {
        self.pulls.get(place as usize).copied().unwrap_or([0.0; W])
    }

    fn sum(&self, rows: &Range<usize>) -> Sum<W> {
        // In parts, so that many rows lose no digits.
        let mut sum = [0.0; W];
        for part in self.places(rows).chunks(256) {
            let mut of_part = [0.0; W];
            part.iter().for_each(|place| plus(&mut of_part, &self.pull(*place)));
            plus(&mut sum, &of_part);
        }
        sum
    }

    /// Sums by bin of some rows.
    fn sums(&self, rows: &Range<usize>, spare: &mut Spare<W>) -> Vec<Column<W>> {
        let mut sums = spare.sums.pop().unwrap_or_default();
        sums.resize(self.columns.len(), [[0.0; W]; MOST + 1]);
        for (column, known) in sums.iter_mut().zip(self.known) {
            column.iter_mut().take(usize::from(*known) + 1).for_each(|sum| *sum = [0.0; W]);
        }
        let wide = self.columns.len();
        let most = self.known.iter().copied().max().map_or(1, |known| usize::from(known) + 1);
        let at_once = (NEAR / (most * size_of::<Sum<W>>())).clamp(4, wide.max(4));
        for (group, columns) in sums.chunks_mut(at_once).enumerate() {
            let from = group * at_once;
            for place in self.places(rows) {
                let row = *place as usize * wide + from;
                let (Some(row), pull) = (self.bins.get(row..row + columns.len()), self.pull(*place)) else { continue };
                for (column, bin) in columns.iter_mut().zip(row) {
                    plus(&mut column[usize::from(*bin)], &pull);
                }
            }
        }
        sums
    }

    /// Takes the sums of a part away.
    fn take(&self, sums: &mut [Column<W>], part: &[Column<W>]) {
        for ((column, part), known) in sums.iter_mut().zip(part).zip(self.known) {
            for (sum, part) in column.iter_mut().zip(part).take(usize::from(*known) + 1) {
                *sum = less(*sum, part);
            }
        }
    }

    /// The split that gains most; of equals the first.
    fn best(&self, leaf: &Leaf<W>, growth: &Trees) -> Option<Split<W>> {
        let whole = worth(&leaf.sum, growth.lambda as f32);
        let mut best: Option<Split<W>> = None;
        let mut scan = Scan::new();
        for (place, (column, known)) in leaf.sums.iter().zip(self.known).enumerate() {
            let known = usize::from(*known);
            let unknown = column.get(known).copied().unwrap_or([0.0; W]);
            let some_unknown = weight(&unknown) > 0.0;
            // Where what is unknown goes right, all that is known may go left.
            let right = (false, [0.0; W], if some_unknown { known } else { known - 1 });
            let left = some_unknown.then_some((true, unknown, known - 1));
            for (unknown_left, from, bins) in [Some(right), left].into_iter().flatten() {
                let Some((bin, gain)) = scan.over(column.iter().take(bins), from, &leaf.sum, growth) else { continue };
                let gain = gain - whole;
                if gain > best.as_ref().map_or(LEAST_GAIN, |best| best.gain) {
                    let rule = Rule { bin: bin as u8, unknown: known as u8, unknown_left };
                    best = Some(Split { gain, place, rule, left: scan.left(bin) });
                }
            }
        }
        best
    }

    /// Moves the rows of a leaf that go left before the others, both in their order; tells where the others begin.
    fn part(&mut self, rows: &Range<usize>, split: &Split<W>, right: &mut Vec<u32>) -> usize {
        let wide = self.columns.len();
        let Some(places) = self.order.get_mut(rows.clone()) else { return rows.start };
        right.resize(right.len().max(places.len()), 0);
        // Each row is written to both sides, and counts on one: which one cannot be foreseen.
        let (mut lefts, mut rights) = (0, 0);
        for at in 0..places.len() {
            let place = places[at];
            let left = self.bins.get(place as usize * wide + split.place).is_some_and(|bin| split.rule.left(*bin));
            places[lefts] = place;
            right[rights] = place;
            lefts += usize::from(left);
            rights += usize::from(!left);
        }
        places[lefts..].copy_from_slice(&right[..rights]);
        rows.start + lefts
    }
}

/// Leaf number of a row that was not drawn.
const NOT_DRAWN: u32 = u32::MAX;

impl<const W: usize> Shape<W> {
    /// The leaf of a row.
    fn leaf_of(&self, row: &[u8]) -> usize {
        let mut at = Child::Branch(0);
        loop {
            match at {
                Child::Leaf(leaf) => return leaf,
                Child::Branch(branch) => {
                    let Some(branch) = self.branches.get(branch) else { return 0 };
                    at = branch.next(row);
                }
            }
        }
    }

    /// Lets all rows come to the leaves, also those that were not drawn; the others are there.
    pub(super) fn gather(&mut self, binned: &Binned, pulls: &[Sum<W>]) {
        if self.whole {
            return;
        }
        let mut of_row = vec![NOT_DRAWN; pulls.len()];
        for (leaf, (rows, _)) in (0u32..).zip(&self.leaves) {
            for row in rows {
                if let Some(slot) = of_row.get_mut(*row as usize) {
                    *slot = leaf;
                }
            }
        }
        let mut leaves = vec![(Vec::new(), [0.0; W]); self.leaves.len()];
        for ((row, pull), known) in (0u32..).zip(pulls).zip(of_row) {
            let leaf = if known == NOT_DRAWN { self.leaf_of(binned.row(row as usize)) } else { known as usize };
            if let Some((rows, sum)) = leaves.get_mut(leaf) {
                rows.push(row);
                plus(sum, pull);
            }
        }
        (self.leaves, self.whole) = (leaves, true);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;

    /// All rows and columns, and nothing draws leaves to zero.
    const WHOLE: Trees =
        Trees { trees: 1, leaves: 2, rate: 1.0, rows: 1.0, columns: 1.0, least: 1.0, lambda: 0.0, bins: 8, seed: 1 };

    #[test]
    fn the_worked_example() {
        let binned = Binned::new(&Matrix::of(1, vec![1.0, 2.0, 3.0, 4.0]).unwrap(), 8);
        let pulls = [[-1.0, 1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, 1.0]];
        let growth = Trees { leaves: 2, ..WHOLE };
        let shape = grow(&Draw::new(&binned, &growth, 0, None), &pulls, &growth, &mut Spare::default());
        let branch = shape.branches[0];
        assert_eq!((branch.rule.bin, branch.gain, branch.left, branch.right), (1, 4.0, Child::Leaf(0), Child::Leaf(1)));
        assert_eq!(shape.leaves, [(vec![0, 1], [-2.0, 2.0]), (vec![2, 3], [2.0, 2.0])]);
    }

    #[test]
    fn rows_put_together_are_the_same_rows() {
        let binned = Binned::new(&Matrix::of(2, vec![3.0, 1.0, 1.0, 2.0, 4.0, 3.0, 2.0, 4.0]).unwrap(), 8);
        let pulls = [[-1.0, 1.0], [-2.0, 1.0], [4.0, 1.0], [8.0, 1.0]];
        let draw = Draw::new(&binned, &WHOLE, 0, None);
        let mut drawn = Drawn::of(&draw, &pulls, &mut Spare::default());
        let split =
            Split { gain: 0.0, place: 0, rule: Rule { bin: 1, unknown: 4, unknown_left: false }, left: [6.0, 2.0] };
        assert_eq!(drawn.part(&(0..4), &split, &mut Vec::new()), 2);
        // The first column is 3, 1, 4, 2: the second and the last row go left.
        assert_eq!(drawn.order, [1, 3, 0, 2]);
        let before = drawn.sums(&(0..2), &mut Spare::default());
        drawn.regroup(&mut Spare::default());
        assert_eq!((drawn.order.as_slice(), &drawn.numbers[..]), (&[0, 1, 2, 3][..], &[1, 3, 0, 2][..]));
        assert_eq!((&drawn.bins[..8], drawn.sum(&(0..2))), (&[0, 1, 1, 3, 2, 0, 3, 2][..], [6.0, 2.0]));
        assert_eq!(drawn.sums(&(0..2), &mut Spare::default()), before);
    }

    /// Rows that were drawn are in the leaf that they would walk to.
    #[test]
    fn all_rows_come_to_the_leaf_they_walk_to() {
        let values = (0..2_000).map(|at| (at * 7919 % 1013) as f32).collect();
        let binned = Binned::new(&Matrix::of(4, values).unwrap(), 64);
        let pulls: Vec<Sum<2>> = (0..500).map(|row| [((row * 31) % 17) as f32 - 8.0, 1.0]).collect();
        let growth = Trees { leaves: 12, rows: 0.5, columns: 0.5, ..WHOLE };
        let mut shape = grow(&Draw::new(&binned, &growth, 3, None), &pulls, &growth, &mut Spare::default());
        let drawn: usize = shape.leaves.iter().map(|(rows, _)| rows.len()).sum();
        assert!(drawn > 150 && drawn < 350 && shape.leaves.len() == 12, "{drawn}");
        shape.gather(&binned, &pulls);
        let mut seen = 0;
        for (leaf, (rows, sum)) in shape.leaves.iter().enumerate() {
            assert!(rows.iter().all(|row| shape.leaf_of(binned.row(*row as usize)) == leaf));
            assert!(rows.is_sorted());
            assert_eq!(sum[1], rows.len() as f32);
            seen += rows.len();
        }
        assert_eq!(seen, 500);
    }

    /// Bins are drawn unchanged, with more columns than eight bits can number, too.
    #[test]
    fn bins_are_drawn_as_they_are() {
        for wide in [40usize, 300] {
            let values = (0..wide * 20).map(|at| (at * 7919 % 1013) as f32).collect();
            let binned = Binned::new(&Matrix::of(wide, values).unwrap(), 8);
            let draw = Draw::new(&binned, &Trees { rows: 0.5, columns: 0.5, ..WHOLE }, 1, None);
            assert_eq!(draw.columns.len(), wide / 2);
            assert!(wide < 256 || draw.columns.iter().any(|column| *column > 255));
            for (at, number) in draw.numbers.iter().enumerate() {
                let row = binned.row(*number as usize);
                let wanted: Vec<u8> = draw.columns.iter().map(|column| row[*column as usize]).collect();
                assert_eq!(draw.bins[at * wide / 2..(at + 1) * wide / 2], wanted);
            }
        }
    }

    #[test]
    fn a_side_that_is_too_light_is_no_side() {
        let binned = Binned::new(&Matrix::of(1, vec![1.0, 2.0, 3.0, 4.0]).unwrap(), 8);
        let pulls = [[-9.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]];
        let growth = Trees { leaves: 4, least: 2.0, ..WHOLE };
        let shape = grow(&Draw::new(&binned, &growth, 0, None), &pulls, &growth, &mut Spare::default());
        assert_eq!(shape.branches.iter().map(|branch| branch.rule.bin).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn what_is_unknown_goes_where_it_gains_more() {
        let rows = Matrix::of(1, vec![1.0, 2.0, f32::NAN, f32::NAN]).unwrap();
        let growth = Trees { leaves: 2, ..WHOLE };
        for (of_unknown, left) in [(-1.0, true), (1.0, false)] {
            let pulls = [[-1.0, 1.0], [1.0, 1.0], [of_unknown, 1.0], [of_unknown, 1.0]];
            let binned = Binned::new(&rows, 8);
            let shape = grow(&Draw::new(&binned, &growth, 0, None), &pulls, &growth, &mut Spare::default());
            assert_eq!((shape.branches[0].rule.bin, shape.branches[0].rule.unknown_left), (0, left));
        }
    }
}
