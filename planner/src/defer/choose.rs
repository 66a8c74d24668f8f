//! Which cell of jobs may wait how long at most, so that least is emitted while the mean wait stays within a target.
//!
//! Jobs do not touch each other, so what a policy emits and how long jobs wait are sums over cells, each with a bound of its own. To choose the bounds is a knapsack with several choices, and the usual greedy way through
//! the lower hulls of the cells is taken:
//!
//! ```text
//! hull       of each cell: bounds such that each next one takes off less for each hour more that its jobs wait
//! order      all steps of all cells, the most taken off for an hour of waiting first
//! taken      each step with which the mean wait stays within the target in both halves of the time; a cell whose step does not fit takes no further one
//! ```
//!
//! On the hulls that is exact up to the last step; what lies above a hull is not looked at.
//!
//! O(jobs) a policy and O(cells × bounds²). Worked example: two cells of one job each and a target of 1 h on average. The first takes off 50 for 1 h and 60 for 2 h, the second 30 for 1 h: the steps are 50, 30 and 10 for an
//! hour each. The first two make the mean 1 h, so the third does not fit.

use rayon::prelude::*;

use super::engine::DeferEngine;
use super::job::{CELLS, DeferJob};
use super::policy::DeferPolicy;
use crate::error::{Error, Result};

/// Jobs that are decided together.
const CHUNK: usize = 512;

/// A policy and the bound of each cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferSetup {
    /// How jobs are decided.
    pub policy: DeferPolicy,
    /// The longest wait of the jobs of each cell, ms.
    pub bounds_ms: [i64; CELLS],
}

impl DeferSetup {
    /// Nobody waits.
    pub fn now() -> Self {
        Self { policy: DeferPolicy::Now, bounds_ms: [0; CELLS] }
    }

    /// All may wait as long.
    pub fn all(policy: DeferPolicy, bound_ms: i64) -> Self {
        Self { policy, bounds_ms: [bound_ms; CELLS] }
    }

    /// The bound of a job, ms.
    pub fn bound_ms(&self, job: &DeferJob) -> i64 {
        job.cell.and_then(|cell| self.bounds_ms.get(cell)).copied().unwrap_or(0)
    }

    /// Whether it lets nobody wait.
    pub fn is_now(&self) -> bool {
        self.policy == DeferPolicy::Now || self.bounds_ms.iter().all(|bound| *bound == 0)
    }
}

/// Emissions of the jobs of a cell under a bound, and their waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellSum {
    /// Value × milliseconds × thousandths of a GPU.
    pub amount: i128,
    /// Waits of the jobs submitted in each half, ms.
    pub waits_ms: [i128; 2],
}

impl CellSum {
    fn add(&mut self, other: &Self) {
        self.amount += other.amount;
        self.waits_ms.iter_mut().zip(other.waits_ms).for_each(|(sum, more)| *sum += more);
    }

    fn wait_ms(&self) -> i128 {
        self.waits_ms.iter().sum()
    }
}

/// The cells of some jobs under each bound.
#[derive(Debug, Clone, PartialEq)]
pub struct CellTally {
    /// Bounds, rising from 0, ms.
    pub bounds_ms: Vec<i64>,
    /// Sums by cell and bound.
    cells: Vec<Vec<CellSum>>,
    /// Emissions of jobs in no cell.
    rest: i128,
    /// Jobs submitted in each half.
    jobs: [u64; 2],
}

/// Bounds of some cells, and what they come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellChoice {
    /// The bound of each cell, ms.
    pub bounds_ms: [i64; CELLS],
    /// Value × milliseconds × thousandths of a GPU.
    pub amount: i128,
    /// Mean wait in each half, ms.
    pub mean_waits_ms: [f64; 2],
    /// Mean wait of all, ms.
    pub mean_wait_ms: f64,
}

impl CellTally {
    /// Decides all jobs under each bound; those submitted from `middle_ms` on are the second half. O(jobs × bounds).
    pub fn new(
        engine: &DeferEngine<'_>,
        policy: DeferPolicy,
        jobs: &[DeferJob],
        middle_ms: i64,
        bounds_ms: &[i64],
    ) -> Self {
        let empty = || Self {
            bounds_ms: bounds_ms.to_vec(),
            cells: vec![vec![CellSum::default(); bounds_ms.len()]; CELLS],
            rest: 0,
            jobs: [0; 2],
        };
        let of = |jobs: &[DeferJob]| {
            let mut tally = empty();
            for job in jobs {
                let half = usize::from(job.submit_ms >= middle_ms);
                if let Some(count) = tally.jobs.get_mut(half) {
                    *count += 1;
                }
                let Some(cell) = job.cell.and_then(|cell| tally.cells.get_mut(cell)) else {
                    let at_once = engine.decide(DeferPolicy::Now, job, &[0]);
                    tally.rest += at_once.iter().map(|result| result.amount * i128::from(job.milli_gpus)).sum::<i128>();
                    continue;
                };
                for (sum, result) in cell.iter_mut().zip(engine.decide(policy, job, bounds_ms)) {
                    sum.amount += result.amount * i128::from(job.milli_gpus);
                    if let Some(wait) = sum.waits_ms.get_mut(half) {
                        *wait += i128::from(result.wait_ms);
                    }
                }
            }
            tally
        };
        // Sums of whole numbers are the same in any order.
        jobs.par_chunks(CHUNK).map(of).reduce(empty, |mut one, two| {
            for (cell, more) in one.cells.iter_mut().zip(&two.cells) {
                cell.iter_mut().zip(more).for_each(|(sum, more)| sum.add(more));
            }
            one.rest += two.rest;
            one.jobs.iter_mut().zip(two.jobs).for_each(|(count, more)| *count += more);
            one
        })
    }

    fn sum(&self, cell: usize, bound: usize) -> CellSum {
        self.cells.get(cell).and_then(|sums| sums.get(bound)).copied().unwrap_or_default()
    }

    /// What some positions of bounds come to.
    fn choice(&self, at: &[usize; CELLS]) -> CellChoice {
        let mut sum = CellSum::default();
        at.iter().enumerate().for_each(|(cell, bound)| sum.add(&self.sum(cell, *bound)));
        let mean = |wait: i128, jobs: u64| wait as f64 / jobs.max(1) as f64;
        let [first, second] = sum.waits_ms;
        CellChoice {
            bounds_ms: at.map(|bound| self.bounds_ms.get(bound).copied().unwrap_or(0)),
            amount: sum.amount + self.rest,
            mean_waits_ms: [mean(first, self.jobs[0]), mean(second, self.jobs[1])],
            mean_wait_ms: mean(first + second, self.jobs[0] + self.jobs[1]),
        }
    }

    /// All with one bound, by its position.
    pub fn uniform(&self, bound: usize) -> CellChoice {
        self.choice(&[bound; CELLS])
    }

    /// The steps along the lower hull of a cell: what each takes off for a millisecond of waiting, and the bound it goes to.
    fn hull(&self, cell: usize) -> Vec<(f64, usize)> {
        let mut steps = Vec::new();
        let mut at = 0;
        loop {
            let from = self.sum(cell, at);
            let mut best: Option<(f64, usize)> = None;
            for bound in at + 1..self.bounds_ms.len() {
                let to = self.sum(cell, bound);
                let less = (from.amount - to.amount) as f64;
                if less <= 0.0 {
                    continue;
                }
                let longer = (to.wait_ms() - from.wait_ms()) as f64;
                let slope = if longer > 0.0 { less / longer } else { f64::INFINITY };
                if best.is_none_or(|(steepest, _)| slope > steepest) {
                    best = Some((slope, bound));
                }
            }
            let Some((slope, bound)) = best else { return steps };
            steps.push((slope, bound));
            at = bound;
        }
    }

    /// The choices on the way from nobody waiting to the last step that fits, each with one step more. O(cells × bounds²).
    pub fn path(&self, target_ms: f64) -> Vec<CellChoice> {
        let mut steps: Vec<(f64, usize, usize)> = (0..CELLS)
            .flat_map(|cell| self.hull(cell).into_iter().map(move |(slope, bound)| (slope, cell, bound)))
            .collect();
        // Steps of a cell come in the order of its hull, as their slopes fall.
        steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut at = [0; CELLS];
        let mut closed = [false; CELLS];
        let mut path = vec![self.choice(&at)];
        for (_, cell, bound) in steps {
            let (Some(slot), Some(closed)) = (at.get_mut(cell), closed.get_mut(cell)) else { continue };
            if *closed {
                continue;
            }
            let before = *slot;
            *slot = bound;
            let next = self.choice(&at);
            if next.mean_waits_ms.iter().all(|wait| *wait <= target_ms) {
                path.push(next);
            } else {
                *closed = true;
                if let Some(slot) = at.get_mut(cell) {
                    *slot = before;
                }
            }
        }
        path
    }
}

/// What one policy with one bound for all comes to on some jobs. O(jobs).
pub fn uniform(
    engine: &DeferEngine<'_>,
    policy: DeferPolicy,
    jobs: &[DeferJob],
    middle_ms: i64,
    bound_ms: i64,
) -> CellChoice {
    CellTally::new(engine, policy, jobs, middle_ms, &[bound_ms]).uniform(0)
}

/// The longest waits that are tried, up to the longest of all, rising from 0, ms.
pub fn bounds(most_ms: i64) -> Vec<i64> {
    use tracecast_analytics::time::HOUR_MS;
    let mut all: Vec<i64> = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48].map(|hours| hours * HOUR_MS).to_vec();
    all.retain(|bound| *bound < most_ms || *bound == 0);
    all.push(most_ms);
    all.dedup();
    all
}

/// The least worth of an hour waited, in steps of an eighth of a doubling, with which the mean wait stays within a target in both halves: `with` says what each comes to. O(9 × `with`).
///
/// # Errors
/// As `with`.
pub fn least_worth(target_ms: f64, with: &mut dyn FnMut(i64) -> Result<CellChoice>) -> Result<(i64, CellChoice)> {
    // Up to where not even the dirtiest hour of the widest job is worth a wait.
    const STEPS: i32 = 8 * 56;
    let worth = |step: i32| if step == 0 { 0 } else { (f64::from(step) / 8.0).exp2().round() as i64 };
    let fits = |choice: &CellChoice| choice.mean_waits_ms.iter().all(|wait| *wait <= target_ms);
    let (mut low, mut high) = (0, STEPS);
    let first = with(0)?;
    if fits(&first) {
        return Ok((0, first));
    }
    let mut best = None;
    while high - low > 1 {
        let middle = i32::midpoint(low, high);
        let result = with(worth(middle))?;
        if fits(&result) {
            (high, best) = (middle, Some((worth(middle), result)));
        } else {
            low = middle;
        }
    }
    match best {
        Some(best) => Ok(best),
        None => Ok((worth(high), with(worth(high))?)),
    }
}

/// The best of several choices: the least amount, then the shortest wait, then the first.
///
/// # Errors
/// If there is none, which no caller brings about.
pub fn best<T: Copy>(choices: impl IntoIterator<Item = (T, CellChoice)>) -> Result<(T, CellChoice)> {
    let better = |a: &CellChoice, b: &CellChoice| {
        a.amount.cmp(&b.amount).then(a.mean_wait_ms.total_cmp(&b.mean_wait_ms)).is_lt()
    };
    let mut best: Option<(T, CellChoice)> = None;
    for (of, choice) in choices {
        if best.as_ref().is_none_or(|(_, best)| better(&choice, best)) {
            best = Some((of, choice));
        }
    }
    best.ok_or_else(|| Error::defect("no way to defer was tried".to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tracecast_analytics::time::HOUR_MS;

    /// Two cells under bounds of 0 to some hours: what each takes off, and how long it waits.
    fn tally(cells: [&[(i128, i128)]; 2], jobs: [u64; 2]) -> CellTally {
        let most = cells.iter().map(|cell| cell.len()).max().unwrap_or(0) + 1;
        let sums = |cell: &[(i128, i128)]| {
            let rest = cell.iter().copied().chain(std::iter::repeat(*cell.last().unwrap()));
            let told = rest.take(most - 1).map(|(less, wait)| CellSum { amount: 100 - less, waits_ms: [wait, 0] });
            std::iter::once(CellSum { amount: 100, ..CellSum::default() }).chain(told).collect::<Vec<_>>()
        };
        let mut all = vec![vec![CellSum::default(); most]; CELLS];
        (all[0], all[1]) = (sums(cells[0]), sums(cells[1]));
        CellTally { bounds_ms: (0..most as i64).map(|hour| hour * HOUR_MS).collect(), cells: all, rest: 0, jobs }
    }

    #[test]
    fn the_worked_example() {
        let hour = i128::from(HOUR_MS);
        let tally = tally([&[(50, hour), (60, 2 * hour)], &[(30, hour)]], [2, 0]);
        let path = tally.path(HOUR_MS as f64);
        let told: Vec<(i64, i64, i128)> =
            path.iter().map(|at| (at.bounds_ms[0] / HOUR_MS, at.bounds_ms[1] / HOUR_MS, at.amount)).collect();
        assert_eq!(told, [(0, 0, 200), (1, 0, 150), (1, 1, 120)]);
        assert_eq!(tally.path(2.0 * HOUR_MS as f64).last().unwrap().amount, 110);
        assert_eq!(tally.path(0.0).len(), 1);
    }

    #[test]
    fn the_waits_that_are_tried() {
        let hours = |most: i64| bounds(most * HOUR_MS / 2).iter().map(|bound| bound * 2 / HOUR_MS).collect::<Vec<_>>();
        assert_eq!(hours(5), [0, 2, 4, 5]);
        assert_eq!(hours(8), [0, 2, 4, 6, 8]);
        assert_eq!(hours(0), [0]);
    }

    #[test]
    fn the_least_worth_is_found() {
        // Waits fall from 100 to 0 as the worth rises to 1,000.
        let mut with = |worth: i64| {
            let wait = (100.0 - worth as f64 / 10.0).max(0.0);
            Ok(CellChoice { bounds_ms: [0; CELLS], amount: 0, mean_waits_ms: [wait, 0.0], mean_wait_ms: wait })
        };
        let (worth, result) = least_worth(50.0, &mut with).unwrap();
        assert!((500..=545).contains(&worth) && result.mean_wait_ms <= 50.0, "{worth}");
        assert_eq!(least_worth(100.0, &mut with).unwrap().0, 0);
        assert!(least_worth(-1.0, &mut with).is_ok());
    }

    proptest! {
        #[test]
        fn no_choice_on_the_hulls_is_better_by_more_than_a_step(
            cells in prop::collection::vec(prop::collection::vec((1i128..60, 1i128..9), 1..5), 2..3), target in 0.0f64..12.0,
        ) {
            // Both rise with the bound.
            let rising = |cell: &Vec<(i128, i128)>| {
                let mut all = cell.clone();
                (1..all.len()).for_each(|at| { all[at].0 += all[at - 1].0; all[at].1 += all[at - 1].1; });
                all
            };
            let (one, two) = (rising(&cells[0]), rising(&cells[1]));
            let tally = tally([&one, &two], [1, 0]);
            let path = tally.path(target);
            let chosen = path.last().unwrap();
            prop_assert!(chosen.mean_wait_ms <= target);
            prop_assert!(path.windows(2).all(|pair| pair[1].amount < pair[0].amount));
            // By trying all.
            let bounds = tally.bounds_ms.len();
            let mut least = i128::MAX;
            for (a, b) in (0..bounds).flat_map(|a| (0..bounds).map(move |b| (a, b))) {
                let mut at = [0; CELLS];
                (at[0], at[1]) = (a, b);
                let choice = tally.choice(&at);
                if choice.mean_wait_ms <= target {
                    least = least.min(choice.amount);
                }
            }
            let step = one.iter().chain(&two).map(|(less, _)| *less).max().unwrap_or(0);
            prop_assert!(least <= chosen.amount && chosen.amount - least <= step);
        }
    }
}
