//! How many nodes, and which waiting policy: tried on a stretch of time.
//!
//! ```text
//! criterion   the least cost of those with which 95 % of the jobs, and of those of each size class with at least 20, wait no longer than the target, in the stretch and in each half of it,
//!             so that neither many narrow jobs nor one quiet half hide anything
//! tried       every threshold of every family × nine numbers of nodes: at levels of the load over its hours (10 % to all), as few are best where nobody waits, and around its mean, as
//!             waits level it; nothing owned and nobody waiting stands among them, so that there is always an answer
//! refined     of each family, the best number of nodes by halving steps to its neighbours, to 1/64
//! ```
//!
//! Of equals, the fewest nodes, then what was tried first. What a stretch costs falls and rises with the number of nodes nearly like a valley, but not exactly, so the number that
//! is found is a good one and not surely the best. O((policies × 9 + families × log nodes) × replay), side by side. Worked example: levels of 8, 16 and 80 nodes are tried; 16 is best;
//! 12 and 20 are next, then 14 and 18 or what surrounds the better of them, and so on.

use rayon::prelude::*;
use tracecast_analytics::stats::rank;

use super::part::{BurstPart, BurstSetup};
use super::policy::{RunsFrom, WaitingFamily, WaitingPolicy};
use crate::error::Result;
use crate::market::demand::PoolDemand;
use crate::plan::weeks::Moments;

/// Levels of the load over its hours at which nodes are tried.
const LEVELS: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
/// Parts of its mean at which they are.
const OF_MEAN: [f64; 3] = [0.7, 1.0, 1.3];
/// Parts of a number of nodes to which it is refined.
const PRECISION: u32 = 64;

/// A setup that was tried, and its outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstTried {
    /// Nodes and policy.
    pub setup: BurstSetup,
    /// Cost of the stretch.
    pub cost: f64,
    /// The wait that 95 % of the jobs did not exceed, nor those of a size class, seconds.
    pub p95_s: f64,
    /// The longest of that and of those of both halves: what must be within the target.
    pub judged_s: f64,
}

/// All that was tried on a stretch.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstSearch {
    /// Setups that were tried, in the order of trial.
    pub tried: Vec<BurstTried>,
}

/// What is searched for.
#[derive(Debug, Clone, Copy)]
pub struct BurstAim {
    /// The wait that 95 % of the jobs, and of those of each size class, are not to exceed, seconds.
    pub target_s: f64,
    /// Nodes that there are, where their number is not to be chosen.
    pub nodes: Option<u32>,
}

/// Tries a setup.
///
/// # Errors
/// Errors of [`BurstPart::replay`].
pub fn tried(part: &BurstPart, setup: BurstSetup, stretch: Moments) -> Result<BurstTried> {
    let times = part.replay(&setup)?;
    let middle = i64::midpoint(stretch.0, stretch.1);
    let p95_s = part.p95_s(&times, stretch);
    let halves = [(stretch.0, middle), (middle, stretch.1)].map(|half| part.p95_s(&times, half));
    // A size class may have jobs enough to be judged in the whole, and not in a half.
    let judged_s = halves.into_iter().fold(p95_s, f64::max);
    Ok(BurstTried { setup, cost: part.cost(&setup, &times, stretch), p95_s, judged_s })
}

/// Numbers of nodes at levels of the load, rising.
fn counts(part: &BurstPart, demand: &PoolDemand) -> Vec<u32> {
    let mut needs: Vec<f64> = demand.hours.iter().map(|hour| hour.total).collect();
    needs.sort_unstable_by(f64::total_cmp);
    let at = |level: &f64| rank::closest_sorted(&needs, *level).unwrap_or(0.0);
    let mean = demand.gpu_hours / needs.len().max(1) as f64;
    let needs = LEVELS.iter().map(at).chain(OF_MEAN.iter().map(|part| part * mean));
    let most = part.own.limit.unwrap_or(u32::MAX);
    let nodes = |need: f64| ((need / part.own.gpus).ceil().clamp(0.0, 1e6) as u32).min(most);
    let mut result: Vec<u32> = needs.map(nodes).filter(|count| *count > 0).collect();
    result.sort_unstable();
    result.dedup();
    result
}

impl BurstSearch {
    /// Searches some families on a stretch.
    ///
    /// # Errors
    /// Errors of [`BurstPart::replay`].
    pub fn new(
        part: &BurstPart,
        demand: &PoolDemand,
        stretch: Moments,
        families: &[(WaitingFamily, RunsFrom)],
        aim: &BurstAim,
    ) -> Result<Self> {
        let counts = aim.nodes.map_or_else(|| counts(part, demand), |nodes| vec![nodes]);
        let mut setups = vec![BurstSetup::unwaited(aim.nodes.unwrap_or(0))];
        for (family, runs) in families {
            for policy in WaitingPolicy::tried(*family, part.most_ms) {
                setups.extend(counts.iter().map(|nodes| BurstSetup { nodes: *nodes, policy, runs: *runs }));
            }
        }
        let tried_all = |setups: &[BurstSetup]| -> Result<Vec<BurstTried>> {
            setups.par_iter().map(|setup| tried(part, *setup, stretch)).collect()
        };
        let mut result = Self { tried: tried_all(&setups)? };
        if aim.nodes.is_none() {
            let refined: Vec<Result<Vec<BurstTried>>> = families
                .par_iter()
                .map(|(family, runs)| result.refined(part, stretch, (*family, *runs), aim, &counts))
                .collect();
            for refined in refined {
                result.tried.extend(refined?);
            }
        }
        Ok(result)
    }

    /// The best of a family with other numbers of nodes.
    fn refined(
        &self,
        part: &BurstPart,
        stretch: Moments,
        of: (WaitingFamily, RunsFrom),
        aim: &BurstAim,
        counts: &[u32],
    ) -> Result<Vec<BurstTried>> {
        let mut result = Vec::new();
        let allowed = |tried: &BurstTried| is_of(tried, of) && tried.setup.nodes > 0 && tried.judged_s <= aim.target_s;
        let Some(mut best) = self.best(allowed) else { return Ok(result) };
        let from = best.setup.nodes;
        let apart = |count: &u32| count.abs_diff(from);
        let nearest = counts.iter().map(apart).filter(|apart| *apart > 0).min().unwrap_or(from);
        let most = part.own.limit.unwrap_or(u32::MAX);
        let mut step = nearest.div_ceil(2);
        while step > 0 && step.saturating_mul(PRECISION) >= best.setup.nodes {
            let at = best.setup;
            for nodes in [at.nodes.saturating_sub(step), at.nodes.saturating_add(step).min(most)] {
                if nodes == 0 || nodes == at.nodes {
                    continue;
                }
                let next = tried(part, BurstSetup { nodes, ..at }, stretch)?;
                result.push(next);
                if next.judged_s <= aim.target_s && is_better(&next, &best) {
                    best = next;
                }
            }
            if best.setup == at {
                step /= 2;
            }
        }
        Ok(result)
    }

    /// The best of a family that keeps a target in the stretch and both halves. What was tried first, nobody waiting for nothing owned or for the nodes that there are, is of every family.
    pub fn best_of(&self, of: (WaitingFamily, RunsFrom), target_s: f64) -> Option<BurstTried> {
        let first = self.tried.first().map(|tried| tried.setup);
        self.best(|tried| (is_of(tried, of) || Some(tried.setup) == first) && tried.judged_s <= target_s)
    }

    /// The least cost of those that are allowed.
    pub fn best(&self, allowed: impl Fn(&BurstTried) -> bool) -> Option<BurstTried> {
        let mut best: Option<BurstTried> = None;
        for tried in self.tried.iter().filter(|tried| allowed(tried)) {
            if best.is_none_or(|best| is_better(tried, &best)) {
                best = Some(*tried);
            }
        }
        best
    }
}

/// Whether a trial is of a family.
fn is_of(tried: &BurstTried, (family, runs): (WaitingFamily, RunsFrom)) -> bool {
    tried.setup.policy.family() == family && tried.setup.runs == runs
}

/// Whether a trial costs less than another, or has fewer nodes at the same cost.
fn is_better(a: &BurstTried, b: &BurstTried) -> bool {
    a.cost.total_cmp(&b.cost).then(a.setup.nodes.cmp(&b.setup.nodes)).is_lt()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tracecast_analytics::time::HOUR_MS;

    use super::super::part::tests::part;
    use super::super::policy::candidates;
    use super::*;
    use crate::market::demand::HourDemand;

    /// The load of jobs that begin with their submission, as the search is told it.
    fn load(jobs: &[(i64, i64, f64)], hours: i64) -> PoolDemand {
        let hour = |at: i64| {
            let (from, to) = (at * 60, (at + 1) * 60);
            let minute = |minute: i64| -> f64 {
                let runs = jobs.iter().filter(|(submit, run, _)| (*submit..submit + run).contains(&minute));
                runs.map(|(_, _, gpus)| gpus).sum()
            };
            let total = (from..to).map(minute).fold(0.0, f64::max);
            HourDemand::new(total, total)
        };
        let hours: Vec<HourDemand> = (0..hours).map(hour).collect();
        let gpu_hours = jobs.iter().map(|(_, run, gpus)| *run as f64 / 60.0 * gpus).sum();
        PoolDemand { hours, jobs: jobs.len() as u64, gpu_hours, ..PoolDemand::default() }
    }

    const AIM: BurstAim = BurstAim { target_s: 3_600.0, nodes: None };

    #[test]
    fn a_size_class_is_judged_by_the_whole_stretch() {
        // 30 wide jobs, 15 in each half, that wait up to a day for 3 nodes beside 600 of one GPU that never do.
        let mut jobs: Vec<(i64, i64, f64)> = (0..30).map(|at| (at / 15 * 7_200, 60, 12.0)).collect();
        jobs.extend((0..600).map(|at| (at * 24, 1, 1.0)));
        jobs.sort_by_key(|job| job.0);
        let part = part(&jobs, 24 * HOUR_MS);
        let setup = BurstSetup { policy: WaitingPolicy::Wide(8), ..BurstSetup::unwaited(3) };
        let result = tried(&part, setup, (0, 10 * 24 * HOUR_MS)).unwrap();
        assert!(result.judged_s >= result.p95_s && result.p95_s > 3_600.0, "{result:?}");
    }

    #[test]
    fn who_waits_an_hour_saves_a_node() {
        // Two jobs of 4 GPUs at once, every three hours; a node costs 6 an hour, and 4 GPUs in the cloud 10.
        let jobs: Vec<(i64, i64, f64)> = (0..16).map(|at| (at / 2 * 180, 60, 4.0)).collect();
        let part = part(&jobs, 24 * HOUR_MS);
        let stretch = (0, 24 * HOUR_MS);
        let result = BurstSearch::new(&part, &load(&jobs, 24), stretch, &candidates(), &AIM).unwrap();
        let best = result.best(|tried| tried.judged_s <= 3_600.0).unwrap();
        assert_eq!((best.setup.nodes, best.setup.policy), (1, WaitingPolicy::UpTo(HOUR_MS)));
        // Nobody waiting: all on demand costs 8 × 20; a node and the rest on demand 144 + 8 × 10.
        assert!((best.cost - 144.0).abs() < 1e-9);
        let nobody = result.best_of((WaitingFamily::Nobody, RunsFrom::Predicted), 3_600.0).unwrap();
        assert_eq!((nobody.setup.nodes, nobody.cost), (0, 160.0));
        // With a shorter target nobody may wait so long.
        assert_eq!(result.best(|tried| tried.judged_s <= 600.0).unwrap().cost, 160.0);
        // Nodes that are there are kept.
        let given = BurstAim { nodes: Some(2), ..AIM };
        let result = BurstSearch::new(&part, &load(&jobs, 24), stretch, &candidates(), &given).unwrap();
        assert!(result.tried.iter().all(|tried| tried.setup.nodes == 2));
        assert_eq!(result.best(|_| true).unwrap().setup, BurstSetup::unwaited(2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn no_neighbour_is_better(jobs in prop::collection::vec((0i64..1_440, 1i64..400, 1u8..12), 1..40)) {
            let mut jobs: Vec<(i64, i64, f64)> = jobs.iter().map(|(at, run, gpus)| (*at, *run, f64::from(*gpus))).collect();
            jobs.sort_by_key(|job| job.0);
            let part = part(&jobs, 24 * HOUR_MS);
            let stretch = (0, 24 * HOUR_MS);
            let result = BurstSearch::new(&part, &load(&jobs, 24), stretch, &candidates(), &AIM).unwrap();
            for family in candidates() {
                let Some(best) = result.best_of(family, AIM.target_s).filter(|best| best.setup.nodes > 0) else { continue };
                for nodes in [best.setup.nodes - 1, best.setup.nodes + 1] {
                    let next = tried(&part, BurstSetup { nodes, ..best.setup }, stretch).unwrap();
                    prop_assert!(nodes == 0 || next.judged_s > AIM.target_s || next.cost >= best.cost, "{:?} {:?}", best, next);
                }
            }
            // What is chosen costs no more than all on demand, and than nobody waiting.
            let best = result.best(|tried| tried.judged_s <= AIM.target_s).unwrap();
            prop_assert!(best.cost <= result.tried.first().unwrap().cost);
        }
    }
}
