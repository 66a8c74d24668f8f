//! What one pool of all VCs, without shares, would need, and who would wait longer in it.
//!
//! ```text
//! needed    the fewest nodes of one pool that keep the target on the jobs of the record
//! wronged   VCs that wait longer in the pool than on the nodes that they have, by the rule of [`incentive`](crate::plan::incentive), in a half of the judged time or of that which
//!           `plan queues` chooses on: with as many nodes in the pool as there are, or with the needed number
//! ```
//!
//! The rule is that of `plan queues`, which refuses a pool that wrongs a VC. That plan cuts runs off at its split, and has the nodes of each time, where here they are those of the end. So it may still
//! refuse a pool that wrongs nobody here.
//!
//! The pool is tested as the VCs are ([`test`]): at the beginning of each later window it gets the fewest nodes that kept the target on what was known by then, and is replayed in
//! the window.
//!
//! O(log nodes) replays of all jobs in each window, and one of each VC's. Worked number: VCs a and b have a node of one GPU each; if jobs of a fill both in one pool, b's wait for them, and b is wronged.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tracecast_analytics::stats::quantile::quantiles_in_place;

use super::heldout::{Before, warmed_up, windows};
use super::part::Part;
use super::search::{MAY_WAIT, Search, WaitTarget};
use crate::error::Result;
use crate::plan::incentive::{FEWEST_OF_VC, is_longer};
use crate::plan::interval::average;
use crate::plan::offered::OfferedTraffic;
use crate::plan::waits::{FEWEST_OF_CLASS, NEVER};
use crate::plan::window::split_ms;
use crate::replay::compare::Merit;
use crate::replay::input::Loaded;
use crate::sim::{Policy, Workload};

/// One pool of all VCs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pooled {
    /// Fewest nodes that keep the target.
    pub(super) needed: u32,
    /// VCs that wait longer there than on the nodes that they have, by name.
    pub(super) wronged: Vec<String>,
}

/// Waits of jobs by their position in the record, milliseconds.
type Waits = BTreeMap<u32, i64>;

/// The pool; `None` with one part, or where no number keeps the target.
pub(super) fn pooled(loaded: &Loaded, with: (&Policy, &WaitTarget), end: i64, guess: u32) -> Result<Option<Pooled>> {
    let window = (warmed_up(end), end);
    let parts = Part::all(&loaded.cluster.pooled(), end);
    let [pool] = parts.as_slice() else { return Ok(None) };
    let jobs = pool.jobs(&loaded.workload);
    let mut search = Search::new(pool, &jobs, with, window)?;
    let Some(needed) = search.fewest(guess)? else { return Ok(None) };
    let pooled: Vec<Waits> = [pool.nodes(), needed]
        .into_iter()
        .map(|nodes| waits(pool, &loaded.workload, &mut search, nodes))
        .collect::<Result<_>>()?;
    let alone = alone(&Part::all(&loaded.cluster, end), &loaded.workload, with, window)?;
    // Halves of the judged time, and of that which `plan queues` chooses on.
    let split = split_ms(&loaded.workload.submit_ms, loaded.workload.origin_ms, None);
    let halves = |(from, to): (i64, i64)| [(from, i64::midpoint(from, to)), (i64::midpoint(from, to), to)];
    let stretches = [halves(window), halves((0, split))].concat();
    let wrongs = |vc: u16| pooled.iter().any(|pooled| is_wronged(&loaded.workload, vc, &stretches, (pooled, &alone)));
    let wronged = (0u16..).zip(&loaded.cluster.vcs).filter(|(at, _)| wrongs(*at)).map(|(_, vc)| vc.name.clone());
    Ok(Some(Pooled { needed, wronged: wronged.collect() }))
}

/// One pool in a later window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestedPool {
    /// Nodes: the fewest that kept the target before, or as many as there were where no number did.
    pub(super) nodes: u32,
    /// Whether they kept it in the window; not where no number did before.
    pub(super) kept: bool,
    /// The fewest that keep it in the window.
    pub(super) fewest: u32,
    /// VCs that wait longer there than on the nodes that they have, by name.
    pub(super) wronged: Vec<String>,
}

/// The pool in each window that tests it: with at least 20 judged jobs before and in it, and a number of nodes that keeps the target in it.
pub(super) fn test(
    loaded: &Loaded,
    with: (&Policy, &WaitTarget),
    (eval_from, end): (Option<i64>, i64),
) -> Result<Vec<TestedPool>> {
    let tested = windows(end, eval_from)?.into_par_iter().map(|window| tested(loaded, with, window));
    Ok(tested.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn tested(loaded: &Loaded, with: (&Policy, &WaitTarget), window: (i64, i64)) -> Result<Option<TestedPool>> {
    let (from, _) = window;
    let Before { known, ahead, parts } = Before::new(loaded, window);
    let pools = Part::all(&loaded.cluster.pooled(), from);
    let [pool] = pools.as_slice() else { return Ok(None) };
    let (known, jobs) = (pool.jobs(&known), pool.jobs(&ahead));
    let past = (warmed_up(from), from);
    let then = pool.known_at(from);
    let mut learn = Search::new(&then, &known, with, past)?;
    let mut later = Search::new(pool, &jobs, with, window)?;
    let few = learn.judged().len().min(later.judged().len()) < FEWEST_OF_CLASS;
    let Some(request) = OfferedTraffic::new(&known, past).filter(|_| !few) else { return Ok(None) };
    let guess = pool.by_mean(&request);
    let Some(fewest) = later.fewest(guess)? else { return Ok(None) };
    let needed = learn.fewest(guess)?;
    let nodes = needed.unwrap_or(pool.nodes());
    let kept = later.with(nodes)?.kept && needed.is_some();
    let pooled = waits(pool, &ahead, &mut later, nodes)?;
    let alone = alone(&parts, &ahead, with, window)?;
    let wrongs = |vc: u16| is_wronged(&ahead, vc, &[window], (&pooled, &alone));
    let wronged = (0u16..).zip(&loaded.cluster.vcs).filter(|(at, _)| wrongs(*at)).map(|(_, vc)| vc.name.clone());
    Ok(Some(TestedPool { nodes, kept, fewest, wronged: wronged.collect() }))
}

/// Waits of judged jobs with each VC on the nodes that it has.
fn alone(parts: &[Part], workload: &Workload, with: (&Policy, &WaitTarget), window: (i64, i64)) -> Result<Waits> {
    let mut alone = Waits::new();
    for part in parts {
        let jobs = part.jobs(workload);
        alone.extend(waits(part, workload, &mut Search::new(part, &jobs, with, window)?, part.nodes())?);
    }
    Ok(alone)
}

/// Waits of judged jobs of a part with so many nodes.
fn waits(part: &Part, workload: &Workload, search: &mut Search<'_>, nodes: u32) -> Result<Waits> {
    let members = part.members(workload);
    let waits = search.with(nodes)?.waits_ms.clone();
    let whole = |job: &u32| members.get(*job as usize).copied();
    Ok(search.judged().iter().zip(waits).filter_map(|(job, wait)| Some((whole(job)?, wait))).collect())
}

/// Whether a VC waits longer in the pool, in a stretch of time, on the jobs that are judged in both.
fn is_wronged(workload: &Workload, vc: u16, stretches: &[(i64, i64)], (pooled, alone): (&Waits, &Waits)) -> bool {
    stretches.iter().any(|(from, to)| {
        let mine = alone.iter().filter_map(|(job, alone)| {
            let at = *job as usize;
            let submit = workload.submit_ms.get(at)?;
            let is_mine = workload.vc.get(at) == Some(&vc) && (from..to).contains(&submit);
            Some((*pooled.get(job)?, *alone)).filter(|_| is_mine)
        });
        let (pooled, alone): (Vec<i64>, Vec<i64>) = mine.unzip();
        let (Some(of_pool), Some(of_own)) = (merit(&pooled), merit(&alone)) else { return false };
        pooled.len() >= FEWEST_OF_VC && is_longer(&of_pool, &of_own)
    })
}

/// The mean and the 95 % quantile of waits in milliseconds; one that never ends waits without end. `None` without waits.
fn merit(waits_ms: &[i64]) -> Option<Merit> {
    let seconds = |ms: &i64| if *ms == NEVER { f64::INFINITY } else { *ms as f64 / 1e3 };
    let mut waits: Vec<f64> = waits_ms.iter().map(seconds).collect();
    let mean_wait_s = average(waits.iter().copied());
    let &[Some(p95_wait_s)] = quantiles_in_place(&mut waits, &[1.0 - MAY_WAIT]).as_slice() else { return None };
    Some(Merit { mean_wait_s, p95_wait_s })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::time::{DAY_MS, HOUR_MS, MINUTE_MS};

    use super::*;
    use crate::capacity::answer::{CapacityAnswer, of_ten_minutes, report};
    use crate::sim::{Cluster, Scan, Shape, Workload};

    /// A job of each of two VCs with a node of 8 GPUs every 10 min over four days: `a` asks for 6 GPUs and `runs_min`, `b` for 6 GPUs and 5 min.
    fn loaded(runs_min: i64) -> Loaded {
        let mut workload = Workload::default();
        for job in 0..4 * DAY_MS / (10 * MINUTE_MS) {
            workload.push(job * 10 * MINUTE_MS, runs_min * MINUTE_MS, Shape::whole(6));
            workload.push(job * 10 * MINUTE_MS, 5 * MINUTE_MS, Shape::whole(6));
        }
        workload.vc = (0..workload.len()).map(|job| (job % 2) as u16).collect();
        Loaded { cluster: Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]), workload, ..Loaded::default() }
    }

    fn of(loaded: &Loaded) -> Pooled {
        let (policy, target) =
            (Policy { scan: Scan::Skip, ..Policy::default() }, WaitTarget { all_s: 600.0, by_class: BTreeMap::new() });
        pooled(loaded, (&policy, &target), 4 * DAY_MS, 2).unwrap().unwrap()
    }

    #[test]
    fn who_asks_for_too_much_wrongs_the_others_in_one_pool() {
        // Apart b never waits. Runs of a's that come to 1.8 nodes leave it 0.2 of the two, of which it needs half a node.
        assert_eq!(of(&loaded(18)), Pooled { needed: 3, wronged: vec!["b".to_owned()] });
    }

    #[test]
    fn nobody_is_wronged_where_both_have_enough() {
        assert_eq!(of(&loaded(9)), Pooled { needed: 2, wronged: Vec::new() });
        // A VC of fewer jobs than are judged is not.
        let mut few = loaded(18);
        let last = few.workload.len() - 1;
        for (job, vc) in few.workload.vc.iter_mut().enumerate() {
            *vc = u16::from(job % 2 == 1 && job + 30 > last);
        }
        assert_eq!(of(&few).wronged, Vec::<String>::new());
    }

    /// VCs a and c with a node each, which both submit eight jobs of a node and an hour a day, at midnight and at six; and, if asked for, b with jobs of one GPU that never waits on its own.
    fn bursts(with_b: bool) -> CapacityAnswer {
        let mut jobs: Vec<(i64, u16, i64, u32)> = Vec::new();
        for day in 0..28 {
            for (vc, hour) in [(0, 0), (1, 6)] {
                jobs.extend((0..8).map(|_| (day * DAY_MS + hour * HOUR_MS, vc, HOUR_MS, 8)));
            }
            let steady = (0..144).map(|at| (day * DAY_MS + at * 10 * MINUTE_MS + 1, 2, 5 * MINUTE_MS, 1));
            jobs.extend(steady.filter(|_| with_b));
        }
        jobs.sort_unstable();
        let mut workload = Workload::default();
        jobs.iter().for_each(|(submit, _, run, gpus)| workload.push(*submit, *run, Shape::whole(*gpus)));
        workload.vc = jobs.iter().map(|(_, vc, ..)| *vc).collect();
        let vcs = [("a", 1, 8), ("c", 1, 8), ("b", 1, 8)];
        let cluster = Cluster::of_vcs(if with_b { &vcs } else { &vcs[..2] });
        let loaded = Loaded { recorded_start_ms: vec![None; workload.len()], cluster, workload, ..Loaded::default() };
        of_ten_minutes(&loaded)
    }

    /// Regression test: the answer sent its reader to a pool that `plan queues` refuses.
    #[test]
    fn a_pool_that_wrongs_a_vc_is_told_and_not_advised() {
        let answer = bursts(true);
        assert_eq!(
            (answer.body.in_all.now, answer.body.in_all.needed, answer.body.in_all.needed_in_one_pool),
            (3, 17, Some(9))
        );
        assert_eq!(answer.body.wronged_in_one_pool, ["b"]);
        assert!(answer.action.starts_with("**Buy 14 nodes**: a 7, c 7."), "{}", answer.action);
        let said = report(&answer).summary.join(" ");
        assert!(
            said.contains(
                "One pool of all VCs, without shares, would need 9. **It is not advised**: b would wait longer"
            ),
            "{said}"
        );
        assert!(
            said.contains("`plan queues` refuses it. Ask that plan for another way")
                && !said.contains("before you buy any"),
            "{said}"
        );
    }

    #[test]
    fn a_pool_that_wrongs_nobody_comes_before_nodes_are_bought() {
        let answer = bursts(false);
        assert_eq!((answer.body.in_all.needed_in_one_pool, answer.body.wronged_in_one_pool.len()), (Some(8), 0));
        let share = "**Let the VCs share nodes before you buy any**: in one pool 8 nodes keep the target, and there are 2, so 6 would still be to buy.";
        assert!(answer.action.starts_with(share), "{}", answer.action);
        assert!(!report(&answer).summary.join(" ").contains("would need"));
        // What is advised leads the effects, and what the tests are of is said.
        let advised = answer.recommendation.unwrap();
        let nodes: Vec<(&str, f64)> = advised.effects.iter().map(|of| (of.what.as_str(), of.change)).take(2).collect();
        assert_eq!(nodes, [("Nodes to buy, in one pool", 6.0), ("Nodes, each VC on its own", 14.0)]);
        let tests = answer.body.in_one_pool.unwrap();
        // Each day is like the others, so what was enough before is enough later, and wrongs nobody.
        assert_eq!((tests.windows, tests.kept, tests.wronged.len()), (3, 3, 0));
        assert_eq!((tests.nodes, tests.oracle), (8.0, 8.0));
        assert!(advised.risk.contains("kept the target in 3 of 3 later windows"), "{}", advised.risk);
    }
}
