//! How many GPUs get which partition: an integer programme, solved exactly or with a proven bound.
//!
//! ```text
//! n_c    GPUs with partition c, whole numbers            k_cp  slices of profile p in it
//! x_jp   slices of profile p that job type j is given    a_jp  what one carries of the demand d_j    s_jp  what one makes
//! so that   Σ_p a_jp·x_jp = d_j (≤ d_j where the GPUs are given)      Σ_j x_jp ≤ Σ_c k_cp·n_c
//! ```
//!
//! Three goals, one after the other, each held by the next: the **fewest GPUs** (or, on so many GPUs, the **most progress** Σ s·x); the **most GPUs that stay as they are**,
//! Σ_c min(n_c, now_c); the most progress. With n given the rest is a transport problem, whose corners are whole numbers where a and d are, so only n is branched on: depth first, the most
//! fractional n_c first, with whole fleets rounded from each relaxation as candidates. Nodes are given up beyond a limit, and what they could still have brought is the **bound**. A fleet is told as
//! optimal only where the bound says so.
//!
//! As slow as its nodes, a linear programme each. Worked example: three jobs that may go on `3g` or larger and four that may go anywhere need two GPUs: `2x3g` has room for two of the three, and
//! `3g+4x1g` for the third and the four.

use good_lp::{Expression, Solution as _, Variable, constraint, variable, variables};

use super::partition::MigPartition;
use crate::error::{Error, Result};
use crate::plan::programme::solved_if_possible;

/// Nodes of the first goal.
const NODES: usize = 1500;
/// Nodes of goals after it.
const LATER_NODES: usize = 200;
/// Progress that is as good as more, a share of it.
const GAP: f64 = 1e-4;
/// What sums of floats differ by.
const CLOSE: f64 = 1e-6;

/// Need of a job type.
#[derive(Debug, Clone, PartialEq)]
pub struct MigNeed {
    /// How much.
    pub amount: f64,
    /// What one slice of each profile carries of it; 0 where it is not allowed.
    pub carries: Vec<f64>,
    /// What one slice of each profile makes, in whole GPUs.
    pub makes: Vec<f64>,
}

/// What is to be decided.
#[derive(Debug, Clone, PartialEq)]
pub struct MigProgramme<'a> {
    /// Partitions to choose from.
    pub partitions: &'a [MigPartition],
    /// GPUs that have each now.
    pub now: &'a [u32],
    /// Needs of the job types.
    pub needs: &'a [MigNeed],
    /// GPUs there are; `None` if all that is needed must be carried, on as few as possible.
    pub gpus: Option<u32>,
}

/// A fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct MigChoice {
    /// GPUs with each partition.
    pub counts: Vec<u32>,
    /// Slices of each profile that each job type is given.
    pub placed: Vec<Vec<f64>>,
    /// Progress, in whole GPUs.
    pub progress: f64,
    /// GPUs that stay as they are.
    pub kept: u32,
    /// The fewest GPUs that can do, or the most progress that can be made: no fleet is better.
    pub bound: f64,
}

impl MigChoice {
    /// GPUs that it partitions.
    pub fn gpus(&self) -> u32 {
        self.counts.iter().sum()
    }
}

/// What is sought; always as much of it as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    FewestGpus,
    Progress,
    Kept,
}

impl Goal {
    /// Whether its values are whole numbers.
    fn is_whole(self) -> bool {
        self != Self::Progress
    }

    /// The most that whole fleets below a relaxation of this value can have.
    fn bound(self, value: f64) -> f64 {
        if self.is_whole() { (value + CLOSE).floor() } else { value }
    }

    /// Whether a bound leaves nothing to gain over what was found.
    fn is_closed(self, bound: f64, result: Option<&(Vec<u32>, f64)>) -> bool {
        let slack = |value: f64| if self.is_whole() { 0.5 } else { GAP * value.abs().max(1.0) };
        result.is_some_and(|(_, value)| bound <= value + slack(*value))
    }
}

/// What goals before this one reached.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    gpus: Option<u32>,
    progress: Option<f64>,
    kept: Option<u32>,
}

/// Fleets between bounds, in fractions.
struct Relaxed {
    value: f64,
    counts: Vec<f64>,
    placed: Vec<Vec<f64>>,
}

/// The least and most GPUs of each partition.
type Node = (Vec<u32>, Vec<u32>);

impl MigProgramme<'_> {
    /// The best fleet; `None` if no fleet carries what is needed.
    ///
    /// # Errors
    /// If the solver fails, which no input should bring about.
    pub fn solve(&self) -> Result<Option<MigChoice>> {
        // Who needs nothing needs no room: of the types of a trace, some come later.
        if self.gpus.is_none() && !self.needs.iter().all(|need| need.amount <= 0.0 || self.has_room(need)) {
            return Ok(None);
        }
        let first = if self.gpus.is_some() { Goal::Progress } else { Goal::FewestGpus };
        let mut held = Held { gpus: self.gpus, ..Held::default() };
        let Some((mut counts, value, bound)) = self.search(first, held, None, NODES)? else { return Ok(None) };
        match first {
            // A little less, so that the fleet that was found is surely among those that keep it.
            Goal::Progress => held.progress = Some(value - CLOSE * value.abs().max(1.0)),
            _ => held.gpus = Some(counts.iter().sum()),
        }
        if self.now.iter().any(|gpus| *gpus > 0)
            && let Some((result, _, _)) = self.search(Goal::Kept, held, Some(counts.clone()), LATER_NODES)?
        {
            counts = result;
        }
        held.kept = Some(self.kept(&counts));
        if first != Goal::Progress
            && let Some((result, _, _)) = self.search(Goal::Progress, held, Some(counts.clone()), LATER_NODES)?
        {
            counts = result;
        }
        let all = Held { gpus: held.gpus, ..Held::default() };
        let Some(last) = self.relaxed(Goal::Progress, all, &(counts.clone(), counts.clone()))? else {
            return Err(Error::defect("a fleet that was found carries nothing".to_owned()));
        };
        let bound = if first == Goal::FewestGpus { -bound } else { bound };
        let kept = self.kept(&counts);
        Ok(Some(MigChoice { counts, placed: last.placed, progress: last.value, kept, bound }))
    }

    /// GPUs that stay as they are.
    fn kept(&self, counts: &[u32]) -> u32 {
        counts.iter().zip(self.now).map(|(count, now)| count.min(now)).sum()
    }

    /// Whether any partition has a slice on which a job type is allowed.
    fn has_room(&self, need: &MigNeed) -> bool {
        let on = |partition: &MigPartition| {
            partition.counts.iter().zip(&need.carries).any(|(slices, carries)| *slices > 0 && *carries > 0.0)
        };
        self.partitions.iter().any(on)
    }

    /// GPUs that surely suffice: one for every slice.
    fn enough(&self) -> u32 {
        let slices = |need: &MigNeed| {
            let least = need.carries.iter().copied().filter(|carries| *carries > 0.0).fold(f64::INFINITY, f64::min);
            if least.is_finite() { (need.amount / least).ceil() } else { 0.0 }
        };
        self.needs.iter().map(slices).sum::<f64>().clamp(1.0, 1e9) as u32
    }

    /// The best whole fleet, its value, and what no fleet exceeds.
    fn search(
        &self,
        goal: Goal,
        held: Held,
        begin: Option<Vec<u32>>,
        nodes: usize,
    ) -> Result<Option<(Vec<u32>, f64, f64)>> {
        let most = held.gpus.unwrap_or_else(|| self.enough());
        let all = self.partitions.len();
        let mut best = match begin {
            Some(counts) => self.tried(goal, held, counts)?,
            None => None,
        };
        let mut bound = f64::NEG_INFINITY;
        let mut stack: Vec<(Node, f64)> = vec![((vec![0; all], vec![most; all]), f64::INFINITY)];
        let mut visited = 0;
        while let Some((node, above)) = stack.pop() {
            if goal.is_closed(above, best.as_ref()) || visited >= nodes {
                bound = bound.max(above);
                continue;
            }
            visited += 1;
            let Some(relaxed) = self.relaxed(goal, held, &node)? else { continue };
            let here = goal.bound(relaxed.value).min(above);
            let away = |count: &f64| (count - count.round()).abs();
            let widest = (0..all).max_by(|a, b| {
                let of = |at: &usize| relaxed.counts.get(*at).map_or(0.0, away);
                of(a).total_cmp(&of(b)).then(b.cmp(a))
            });
            let mut near = vec![self.rounded(&relaxed.counts, held)];
            if best.is_none() {
                // All rounded up carry what the fractions carry: where GPUs are counted, there is a fleet from the first node on.
                near.push(relaxed.counts.iter().map(|count| (count - CLOSE).ceil().max(0.0) as u32).collect());
            }
            for counts in near {
                if !goal.is_closed(here, best.as_ref())
                    && let Some(result) = self.tried(goal, held, counts)?
                    && best.as_ref().is_none_or(|best| result.1 > best.1)
                {
                    best = Some(result);
                }
            }
            let fraction = widest.and_then(|at| Some((at, *relaxed.counts.get(at)?)));
            let fraction = fraction.filter(|(_, count)| away(count) > CLOSE);
            let (Some((at, count)), false) = (fraction, goal.is_closed(here, best.as_ref())) else {
                // The rounded fleet of an integral relaxation is that relaxation.
                bound = bound.max(here);
                continue;
            };
            let ((lows, highs), floor) = (node, count.floor().max(0.0) as u32);
            let mut up = lows.clone();
            let mut down = highs.clone();
            if let (Some(low), Some(high)) = (up.get_mut(at), down.get_mut(at)) {
                (*low, *high) = (floor + 1, floor);
            }
            let mut parts = [((lows, down), here), ((up, highs), here)];
            // The nearer whole number is looked at first: what is pushed last.
            if count - f64::from(floor) < 0.5 {
                parts.reverse();
            }
            stack.extend(parts);
        }
        Ok(best.map(|(counts, value)| {
            let bound = bound.max(value);
            (counts, value, bound)
        }))
    }

    /// A whole fleet with its value, if it keeps what is held.
    fn tried(&self, goal: Goal, held: Held, counts: Vec<u32>) -> Result<Option<(Vec<u32>, f64)>> {
        let result = self.relaxed(goal, held, &(counts.clone(), counts.clone()))?;
        Ok(result.map(|result| {
            let value = if goal.is_whole() { result.value.round() } else { result.value };
            (counts, value)
        }))
    }

    /// A whole fleet near a fractional one: all rounded down, and those with the greatest rest up, as many as make it whole.
    fn rounded(&self, counts: &[f64], held: Held) -> Vec<u32> {
        let near = |count: f64| if (count - count.round()).abs() < CLOSE { count.round() } else { count };
        let counts: Vec<f64> = counts.iter().map(|count| near(*count).max(0.0)).collect();
        let all = (counts.iter().sum::<f64>() - CLOSE).ceil().max(0.0) as u32;
        let all = held.gpus.map_or(all, |gpus| all.min(gpus));
        let mut result: Vec<u32> = counts.iter().map(|count| count.floor() as u32).collect();
        let mut rests: Vec<(usize, f64)> = counts.iter().map(|count| count.fract()).enumerate().collect();
        rests.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut left = all.saturating_sub(result.iter().sum());
        for (at, rest) in rests {
            if left == 0 || rest <= 0.0 {
                break;
            }
            if let Some(slot) = result.get_mut(at) {
                *slot += 1;
                left -= 1;
            }
        }
        result
    }

    /// Fleets in fractions between the bounds of a node; `None` if there is none.
    fn relaxed(&self, goal: Goal, held: Held, (lows, highs): &Node) -> Result<Option<Relaxed>> {
        let mut vars = variables!();
        let counts: Vec<Variable> = lows
            .iter()
            .zip(highs)
            .map(|(low, high)| vars.add(variable().min(f64::from(*low)).max(f64::from(*high))))
            .collect();
        let given: Vec<Vec<Option<Variable>>> = self
            .needs
            .iter()
            .map(|need| need.carries.iter().map(|of| (*of > 0.0).then(|| vars.add(variable().min(0.0)))).collect())
            .collect();
        let mut rows = Vec::new();
        let mut progress = Expression::default();
        let profiles = self.needs.first().map_or(0, |need| need.carries.len());
        let mut used = vec![Expression::default(); profiles];
        for (need, given) in self.needs.iter().zip(&given) {
            let mut carried = Expression::default();
            for (((slot, carries), makes), used) in given.iter().zip(&need.carries).zip(&need.makes).zip(&mut used) {
                let Some(slices) = *slot else { continue };
                carried.add_mul(*carries, slices);
                progress.add_mul(*makes, slices);
                used.add_mul(1.0, slices);
            }
            if given.iter().all(Option::is_none) {
                continue;
            }
            rows.push(if self.gpus.is_some() {
                constraint!(carried <= need.amount)
            } else {
                constraint!(carried == need.amount)
            });
        }
        for (profile, used) in used.into_iter().enumerate() {
            let mut there = Expression::default();
            for (count, partition) in counts.iter().zip(self.partitions) {
                let slices = partition.counts.get(profile).copied().unwrap_or(0);
                if slices > 0 {
                    there.add_mul(f64::from(slices), *count);
                }
            }
            rows.push(constraint!(used <= there));
        }
        let mut gpus = Expression::default();
        counts.iter().for_each(|count| gpus.add_mul(1.0, *count));
        if let Some(most) = held.gpus {
            rows.push(constraint!(gpus.clone() <= f64::from(most)));
        }
        let mut kept = Expression::default();
        if goal == Goal::Kept || held.kept.is_some() {
            for (count, now) in counts.iter().zip(self.now).filter(|(_, now)| **now > 0) {
                let stays = vars.add(variable().min(0.0).max(f64::from(*now)));
                rows.push(constraint!(stays <= *count));
                kept.add_mul(1.0, stays);
            }
        }
        if let Some(least) = held.kept.filter(|least| *least > 0) {
            rows.push(constraint!(kept.clone() >= f64::from(least)));
        }
        if let Some(least) = held.progress {
            rows.push(constraint!(progress.clone() >= least));
        }
        let sought = match goal {
            Goal::FewestGpus => -gpus,
            Goal::Progress => progress,
            Goal::Kept => kept,
        };
        let result = solved_if_possible(vars.maximise(sought.clone()), rows, "a fleet of partitions")?;
        Ok(result.map(|result| {
            let of = |slot: &Option<Variable>| slot.map_or(0.0, |slices| result.value(slices).max(0.0));
            Relaxed {
                value: result.eval(sought),
                counts: counts.iter().map(|count| result.value(*count)).collect(),
                placed: given.iter().map(|given| given.iter().map(of).collect()).collect(),
            }
        }))
    }
}

#[cfg(test)]
#[path = "programme_tests.rs"]
mod tests;
