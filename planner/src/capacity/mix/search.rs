//! The cheapest nodes by kind that are enough.
//!
//! In one queue a branch and bound goes over the counts of all kinds but the cheapest for a GPU, from none upwards, as long as they alone cost less than the best so far. What
//! money is then left buys the cheapest kind: if that is not enough, no count of it is, and the branch ends; else bisection finds the fewest. A branch that has no more nodes of any
//! kind than one that was not enough ends without a replay. The search begins with today's proportions, so it never ends dearer.
//!
//! This rests on more nodes being no worse, which is not always so: a mix that is enough while a larger one is not may be missed. Against the replay of every mix of two
//! kinds, the tests say how often and by how much (in none of 57 cases). At most 300 branches are replayed for a queue and a level, and the answer says where that ended a search (`complete`).
//!
//! Kinds of another speed, and kinds apart for some sizes, are then searched for on one line each, as far as they cost less.
//!
//! O(branches + log nodes) replays a queue. Worked number: with the best at 32 an hour and one node of 8 an hour fixed, at most seven of 3 an hour are tried.

use tracecast_analytics::facts::SizeClass;

use super::queue::{Level, Queue};
use super::way::{PartKinds, Side, Way};
use crate::capacity::search::{Search, WaitTarget};
use crate::error::Result;
use crate::sim::{Policy, Workload};

/// Most branches that are replayed for a queue and a level.
const BRANCHES: u32 = 300;
/// What is no saving, as a share of the cost.
const NOTHING: f64 = 1e-9;
/// Most nodes of a kind that a search goes to, beyond eight times those of today.
const FURTHER: u32 = 64;

/// Nodes by kind, how they stand, and what an hour of them costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mix {
    pub(super) way: Way,
    pub(super) counts: Vec<u32>,
    pub(super) per_h: f64,
}

/// The cheapest so far.
#[derive(Debug, Clone)]
pub(super) struct Best {
    pub(super) mix: Option<Mix>,
    /// Whether the search came to its end.
    pub(super) complete: bool,
}

/// The jobs of a part, in every draw, and those that are judged.
#[derive(Debug, Clone)]
pub(super) struct Bench<'a> {
    pub(super) kinds: PartKinds<'a>,
    draws: Vec<(Workload, Vec<u32>)>,
    with: (&'a Policy, &'a WaitTarget),
    window: (i64, i64),
}

impl<'a> Bench<'a> {
    /// Judges the jobs submitted within `window` that run with the nodes of today.
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn new(
        kinds: PartKinds<'a>,
        draws: Vec<Workload>,
        with: (&'a Policy, &'a WaitTarget),
        window: (i64, i64),
    ) -> Result<Self> {
        let judged = |jobs: Workload| {
            let judged = Search::new(&kinds.part, &jobs, with, window)?.judged().to_vec();
            Ok((jobs, judged))
        };
        let draws = draws.into_iter().map(judged).collect::<Result<_>>()?;
        Ok(Self { kinds, draws, with, window })
    }

    /// Classes of the judged jobs.
    fn classes(&self) -> Vec<SizeClass> {
        let has = |class: &SizeClass| {
            self.draws.iter().any(|(jobs, judged)| {
                judged.iter().any(|job| SizeClass::new(jobs.shape_of(*job as usize).as_gpus()) == *class)
            })
        };
        SizeClass::ALL.into_iter().filter(has).collect()
    }

    /// Does something with the queue of a side.
    fn on<R>(&self, side: Side<'_>, then: impl FnOnce(&mut Queue<'_>) -> Result<R>) -> Result<R> {
        let jobs: Vec<(Workload, Vec<u32>)> =
            self.draws.iter().map(|(jobs, judged)| self.kinds.jobs(jobs, judged, side)).collect();
        let searches = jobs
            .iter()
            .map(|(jobs, judged)| Search::judging(&self.kinds.part, jobs, self.with, self.window, judged))
            .collect();
        then(&mut Queue::new(&self.kinds.part, searches))
    }

    /// The queues of a mix, with the nodes of each.
    fn sides<'w>(&self, mix: &'w Mix) -> Vec<(Side<'w>, Vec<u32>)> {
        match &mix.way {
            Way::OneQueue => vec![(Side::All, mix.counts.clone())],
            Way::All(kind) => vec![(Side::On(*kind, 1.0), mix.counts.clone())],
            Way::Apart(kind, classes) => {
                let own = mix.counts.get(*kind).copied().unwrap_or(0);
                let mut rest = mix.counts.clone();
                if let Some(count) = rest.get_mut(*kind) {
                    *count = 0;
                }
                vec![(Side::Own(*kind, classes), self.kinds.only(*kind, own)), (Side::Rest(*kind, classes), rest)]
            }
        }
    }

    /// Whether a mix keeps the target on the jobs of the first draw, queue by queue, and the waits.
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn test(&self, mix: &Mix) -> Result<(bool, Vec<i64>)> {
        let (mut kept, mut waits) = (true, Vec::new());
        let Some((jobs, judged)) = self.draws.first() else { return Ok((false, waits)) };
        for (side, counts) in self.sides(mix) {
            let (jobs, judged) = self.kinds.jobs(jobs, judged, side);
            let result =
                Search::judging(&self.kinds.part, &jobs, self.with, self.window, &judged).with_counts(&counts)?;
            kept &= result.kept;
            waits.extend(result.waits_ms);
        }
        Ok((kept, waits))
    }

    /// Whether nodes in one queue are enough.
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn is_enough(&self, counts: &[u32]) -> Result<bool> {
        self.on(Side::All, |queue| queue.enough(counts, Level::Kept))
    }

    /// A mix of nodes in one queue.
    pub(super) fn mix(&self, counts: Vec<u32>) -> Mix {
        Mix { way: Way::OneQueue, per_h: self.kinds.per_h(&counts), counts }
    }

    /// The cheapest mix of each [level](Level), given nodes in today's proportions that are enough for it (none of a level without).
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn cheapest(&self, known: &[Option<Vec<u32>>; 2]) -> Result<[Best; 2]> {
        let mut bests = known.each_ref().map(|_| Best { mix: None, complete: true });
        let levels: Vec<(usize, Level)> =
            Level::ALL.into_iter().enumerate().filter(|(at, _)| known.get(*at).is_some_and(Option::is_some)).collect();
        self.on(Side::All, |queue| {
            for ((at, level), known) in levels.iter().zip(known.iter().flatten()) {
                let Some(best) = bests.get_mut(*at) else { continue };
                best.mix = self.first(queue, known, *level)?.map(|counts| self.mix(counts));
                let mut walk = Walk { bench: self, queue, level: *level, bad: Vec::new(), left: BRANCHES };
                let order = walk.order();
                walk.go(&order, &mut vec![0; self.kinds.kinds.len()], best)?;
            }
            Ok(())
        })?;
        let classes = self.classes();
        for kind in (0..self.kinds.kinds.len()).filter(|kind| !self.kinds.is_own(*kind)) {
            if !self.kinds.in_one_queue(kind) {
                self.all_of(kind, &levels, &mut bests)?;
            }
            for way in self.kinds.apart(kind, &classes) {
                if let Way::Apart(kind, classes) = &way {
                    self.one_apart((*kind, classes), &levels, &mut bests)?;
                }
            }
        }
        Ok(bests)
    }

    /// Nodes to begin with: those in today's proportions, or, where these are more than can be had, the same GPUs and more of what can.
    fn first(&self, queue: &mut Queue<'_>, known: &[u32], level: Level) -> Result<Option<Vec<u32>>> {
        let most = |kind: usize| self.kinds.most(kind);
        if self.kinds.is_had(known) {
            return Ok(Some(known.to_vec()));
        }
        let mut counts: Vec<u32> = known.iter().enumerate().map(|(kind, count)| (*count).min(most(kind))).collect();
        let request = self.kinds.part.gpus_of(known);
        let mut order = self.queued();
        order.sort_by(|a, b| self.per_gpu_h(*a).total_cmp(&self.per_gpu_h(*b)));
        for tenths in [10, 12, 15, 20, 30, 40] {
            for kind in &order {
                let missing = (request * tenths / 10).saturating_sub(self.kinds.part.gpus_of(&counts));
                let each = self.kinds.kinds.get(*kind).map_or(1, |kind| u64::from(kind.gpus_per_node));
                if let Some(count) = counts.get_mut(*kind) {
                    let more = u32::try_from(missing.div_ceil(each)).unwrap_or(u32::MAX);
                    *count = count.saturating_add(more).min(most(*kind));
                }
            }
            if queue.enough(&counts, level)? {
                return Ok(Some(counts));
            }
        }
        Ok(None)
    }

    /// Kinds in the queue of today's nodes.
    pub(super) fn queued(&self) -> Vec<usize> {
        (0..self.kinds.kinds.len()).filter(|kind| self.kinds.in_one_queue(*kind)).collect()
    }

    /// Cost of an hour of a GPU that is yet to be had.
    pub(super) fn per_gpu_h(&self, kind: usize) -> f64 {
        self.kinds.kinds.get(kind).map_or(f64::INFINITY, |kind| kind.per_h / f64::from(kind.gpus_per_node))
    }

    /// The most nodes of a kind beside `counts` with which all cost less than `bound`.
    fn affordable(&self, kind: usize, counts: &[u32], bound: f64) -> u32 {
        let with = |nodes: u32| {
            let mut counts = counts.to_vec();
            if let Some(count) = counts.get_mut(kind) {
                *count = nodes;
            }
            self.kinds.per_h(&counts)
        };
        let cheaper = |nodes: u32| with(nodes) < bound * (1.0 - NOTHING);
        let today: u32 = self.kinds.part.nodes();
        let most = self.kinds.most(kind).min(today.saturating_mul(8).saturating_add(FURTHER).saturating_mul(8));
        if !cheaper(0) {
            return 0;
        }
        // The cost never falls with a node more.
        let (mut low, mut high) = (0, most.saturating_add(1));
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if cheaper(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// All nodes of a kind of another speed.
    fn all_of(&self, kind: usize, levels: &[(usize, Level)], bests: &mut [Best; 2]) -> Result<()> {
        self.on(Side::On(kind, 1.0), |queue| {
            for (at, level) in levels {
                let Some(best) = bests.get_mut(*at) else { continue };
                let bound = best.mix.as_ref().map_or(f64::INFINITY, |mix| mix.per_h);
                let most = self.affordable(kind, &self.kinds.only(kind, 0), bound);
                if let Some(nodes) = queue.least(&|nodes| self.kinds.only(kind, nodes), *level, (most, most))? {
                    let counts = self.kinds.only(kind, nodes);
                    best.mix = Some(Mix { way: Way::All(kind), per_h: self.kinds.per_h(&counts), counts });
                }
            }
            Ok(())
        })
    }

    /// A kind apart for some classes: the fewest of it, and for the others the fewest of today's kinds, as long as both cost less than the best.
    fn one_apart(
        &self,
        (kind, classes): (usize, &[SizeClass]),
        levels: &[(usize, Level)],
        bests: &mut [Best; 2],
    ) -> Result<()> {
        let mut own = [None; 2];
        self.on(Side::Own(kind, classes), |queue| {
            for (at, level) in levels {
                let bound = bests.get(*at).and_then(|best| best.mix.as_ref()).map_or(f64::INFINITY, |mix| mix.per_h);
                let most = self.affordable(kind, &self.kinds.only(kind, 0), bound);
                let result = queue.least(&|nodes| self.kinds.only(kind, nodes), *level, (most, most))?;
                if let Some(own) = own.get_mut(*at) {
                    *own = result;
                }
            }
            Ok(())
        })?;
        if own.iter().all(Option::is_none) {
            return Ok(());
        }
        self.on(Side::Rest(kind, classes), |queue| {
            for (at, level) in levels {
                let (Some(Some(own)), Some(best)) = (own.get(*at), bests.get_mut(*at)) else { continue };
                let bound = best.mix.as_ref().map_or(f64::INFINITY, |mix| mix.per_h);
                let line = queue.proportions();
                let with = |nodes: u32| {
                    let mut counts = line(nodes);
                    if let Some(count) = counts.get_mut(kind) {
                        *count = *own;
                    }
                    counts
                };
                let cheaper = |nodes: u32| {
                    let counts = with(nodes);
                    self.kinds.is_had(&counts) && self.kinds.per_h(&counts) < bound * (1.0 - NOTHING)
                };
                let today = self.kinds.part.nodes();
                let most = (1..=today.saturating_mul(8).saturating_add(FURTHER)).take_while(|nodes| cheaper(*nodes));
                let most = most.last().unwrap_or(0);
                if let Some(nodes) = queue.least(&line, *level, (most, most))? {
                    let counts = with(nodes);
                    let per_h = self.kinds.per_h(&counts);
                    best.mix = Some(Mix { way: Way::Apart(kind, classes.to_vec()), per_h, counts });
                }
            }
            Ok(())
        })
    }

    /// The fewest nodes of one kind alone, so many times as fast as said, whatever they cost; `None` if none are enough, or more than can be had.
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn alone(&self, kind: usize, faster: f64, guess: u32) -> Result<Option<u32>> {
        let most = self.kinds.most(kind).min(guess.saturating_mul(16).saturating_add(FURTHER));
        self.on(Side::On(kind, faster), |queue| {
            queue.least(&|nodes| self.kinds.only(kind, nodes), Level::Kept, (guess.max(1), most))
        })
    }
}

/// A branch and bound in one queue.
struct Walk<'w, 'q, 'a> {
    bench: &'w Bench<'a>,
    queue: &'w mut Queue<'q>,
    level: Level,
    /// Counts that were not enough.
    bad: Vec<Vec<u32>>,
    /// Branches that may still be replayed.
    left: u32,
}

impl Walk<'_, '_, '_> {
    /// Kinds from the dearest for a GPU to the cheapest.
    fn order(&self) -> Vec<usize> {
        let mut order = self.bench.queued();
        order.sort_by(|a, b| self.bench.per_gpu_h(*b).total_cmp(&self.bench.per_gpu_h(*a)));
        order
    }

    fn go(&mut self, order: &[usize], counts: &mut Vec<u32>, best: &mut Best) -> Result<()> {
        let Some(bound) = best.mix.as_ref().map(|mix| mix.per_h) else { return Ok(()) };
        match order {
            [] => Ok(()),
            [last] => self.leaf(*last, counts, (bound, best)),
            [kind, rest @ ..] => {
                let kinds = &self.bench.kinds;
                for nodes in 0..=kinds.most(*kind) {
                    if let Some(count) = counts.get_mut(*kind) {
                        *count = nodes;
                    }
                    let bound = best.mix.as_ref().map_or(0.0, |mix| mix.per_h);
                    if !best.complete || kinds.per_h(counts) >= bound * (1.0 - NOTHING) {
                        break;
                    }
                    self.go(rest, counts, best)?;
                }
                if let Some(count) = counts.get_mut(*kind) {
                    *count = 0;
                }
                Ok(())
            }
        }
    }

    fn leaf(&mut self, kind: usize, counts: &[u32], (bound, best): (f64, &mut Best)) -> Result<()> {
        let most = self.bench.affordable(kind, counts, bound);
        let with = |nodes: u32| {
            let mut counts = counts.to_vec();
            if let Some(count) = counts.get_mut(kind) {
                *count = nodes;
            }
            counts
        };
        let largest = with(most);
        let no_more = |bad: &Vec<u32>| largest.iter().zip(bad).all(|(mine, bad)| mine <= bad);
        if largest.iter().all(|count| *count == 0) || self.bad.iter().any(no_more) {
            return Ok(());
        }
        if self.left == 0 {
            best.complete = false;
            return Ok(());
        }
        self.left -= 1;
        if !self.queue.enough(&largest, self.level)? {
            self.bad.push(largest);
            return Ok(());
        }
        // None of the last kind may be enough as well.
        let (mut low, mut high) = (-1i64, i64::from(most));
        let enough = |queue: &mut Queue<'_>, level: Level, nodes: i64| {
            queue.enough(&with(u32::try_from(nodes).unwrap_or(0)), level)
        };
        while high - low > 1 {
            let middle = i64::midpoint(low, high);
            if enough(self.queue, self.level, middle)? { high = middle } else { low = middle }
        }
        best.mix = Some(self.bench.mix(with(u32::try_from(high).unwrap_or(0))));
        Ok(())
    }
}
