//! The nodes from now on: each part sized on all that is known, and what other numbers of nodes would do.
//!
//! Without growth the jobs are those of the record and the interval is that of the [search](super::search). With growth (`--scale`, `--add`) every draw
//! is sized so; the number is the median over draws, and the ends are the fewest nodes that keep the target in 2.5 % and in 97.5 % of the days drawn anew of all draws together, so that more draws do not
//! widen the interval. Work that only grows needs no less than the record: its number and its ends are
//! never below those without growth, which a draw of other weeks may be by chance.
//!
//! ```text
//! fewer than needed          buy up to the upper end of the interval (up to the needed number, where that end is not known)
//! more than the upper end    the rest can go, if on no earlier window that number broke the target where the nodes as they were kept it
//! else                       change nothing
//! ```
//!
//! This rule, with the nodes of then and the windows before, is a row of the [test](super::heldout).
//!
//! O(draws × log nodes) replays a part. Worked number: 12 nodes needed, 10 to 14: with 9 nodes buy 5, with 13 change nothing, with 20 let 6 go.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::watch::Watch;

use super::growth::{BreakFactor, breaks_at};
use super::heldout::{TestedWindow, has_failed, longer_share, mean_wait_s, recommended, warmed_up};
use super::part::Part;
use super::search::{BOUNDS, MAY_WAIT, Needed, Search, SizedReplay, WaitTarget, is_kept_together};
use crate::error::Result;
use crate::plan::offered::OfferedTraffic;
use crate::plan::waits::{FEWEST_OF_CLASS, nearest_rank_s};
use crate::replay::growth::Growth;
use crate::replay::input::Loaded;
use crate::sim::{Policy, Workload};

/// Shares of today's nodes that are tried beside the needed number.
pub(super) const SHARES: [f64; 10] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0];

/// Theory and a replay of one number of nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    pub(super) nodes: u32,
    pub(super) servers: u32,
    /// GPUs of a server.
    pub(super) gang_gpus: f64,
    /// GPU time asked for over that of the nodes.
    pub(super) offered_load: f64,
    /// Share of jobs that wait longer than the target, in theory and replayed.
    pub(super) longer: (f64, f64),
    /// Mean wait, seconds.
    pub(super) mean_wait_s: (Option<f64>, Option<f64>),
}

/// A part, sized.
#[derive(Debug, Clone)]
pub(super) struct SizedPart {
    pub(super) part: Part,
    /// Judged jobs of the first draw.
    pub(super) jobs: u64,
    /// Jobs of the first draw that its nodes of today could never run.
    pub(super) impossible: u64,
    /// `None` with too few [jobs](Self::has_jobs), or where no number of nodes keeps the target.
    pub(super) needed: Option<Needed>,
    pub(super) recommended: u32,
    pub(super) breaks: Option<BreakFactor>,
    pub(super) theory: Vec<Compared>,
    /// Size classes whose 95 % wait breaks the target with today's nodes, and that wait.
    pub(super) broken: Vec<(SizeClass, Option<f64>)>,
    /// What breaks the target with one node fewer than needed: all jobs (no class) or size classes, each with its 95 % wait.
    pub(super) binding: Vec<(Option<SizeClass>, Option<f64>)>,
    /// Nodes by mean demand / 80 %, and whether they keep the target in every draw.
    pub(super) simple: (u32, bool),
    /// Jobs of the first draw, judged or not, and of them those that are submitted before any is judged.
    pub(super) all_jobs: (u64, u64),
    /// Replays by number of nodes, one a draw.
    pub(super) replays: BTreeMap<u32, Vec<SizedReplay>>,
}

/// All parts together, with some number of nodes each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    pub(super) nodes: u64,
    pub(super) p50_wait_s: Option<f64>,
    pub(super) p95_wait_s: Option<f64>,
    pub(super) utilisation: f64,
    pub(super) queue_jobs: f64,
    /// Parts that keep the target, of those that are judged; mean over draws.
    pub(super) kept: f64,
}

impl SizedPart {
    /// Nodes at a share of today's.
    pub(super) fn at_share(&self, share: f64) -> u32 {
        ((f64::from(self.part.nodes()) * share).ceil() as u32).max(1)
    }

    /// Whether it has enough jobs to be judged.
    pub(super) fn has_jobs(&self) -> bool {
        self.jobs >= FEWEST_OF_CLASS as u64
    }

    pub(super) fn value(&self) -> u32 {
        self.needed.map_or(self.part.nodes(), |needed| needed.value)
    }
}

/// The jobs of every draw: those of the record, or of the grown work.
pub(super) fn draws(loaded: &Loaded, growth: Option<&Growth>) -> Result<Vec<Workload>> {
    match growth {
        None => Ok(vec![loaded.workload.clone()]),
        Some(growth) => (0..growth.draws())
            .into_par_iter()
            .map(|draw| Ok(growth.jobs(&loaded.workload, &loaded.cluster, draw)?))
            .collect(),
    }
}

/// Sizes every part for the jobs of all draws. `watch` is told after each.
pub(super) fn size(
    loaded: &Loaded,
    with: (&Policy, &WaitTarget),
    (draws, growth): (&[Workload], Option<&Growth>),
    (windows, end): (&[TestedWindow], i64),
    watch: &dyn Watch,
) -> Result<Vec<SizedPart>> {
    let parts = Part::all(&loaded.cluster, end);
    let sized: Result<Vec<SizedPart>> = parts
        .into_par_iter()
        .map(|part| {
            let result = size_part(part, (&loaded.workload, draws, growth), with, (windows, end));
            watch.made();
            result
        })
        .collect();
    sized
}

fn size_part(
    part: Part,
    (record, draws, growth): (&Workload, &[Workload], Option<&Growth>),
    with: (&Policy, &WaitTarget),
    (windows, end): (&[TestedWindow], i64),
) -> Result<SizedPart> {
    let window = (warmed_up(end), end);
    let own: Vec<Workload> = draws.iter().map(|draw| part.jobs(draw)).collect();
    let mut searches: Vec<Search<'_>> =
        own.iter().map(|jobs| Search::new(&part, jobs, with, window)).collect::<Result<_>>()?;
    let request = own.first().and_then(|jobs| OfferedTraffic::new(jobs, window));
    let jobs = searches.first().map_or(0, |search| search.judged().len());
    let impossible = searches.first().map_or(0, Search::impossible);
    let guess = request.map_or(part.nodes(), |request| part.by_mean(&request));
    let mut needed = if jobs < FEWEST_OF_CLASS { None } else { needed(&mut searches, guess)? };
    if growth.is_some_and(|growth| growth.factor() >= 1.0) {
        let of_record = part.jobs(record);
        let mut search = Search::new(&part, &of_record, with, window)?;
        let without = if search.judged().len() < FEWEST_OF_CLASS { None } else { search.needed(guess)? };
        needed = needed.map(|needed| without.map_or(needed, |without| needed.at_least(&without)));
    }
    let now = part.nodes();
    let recommended = recommended(now, needed.as_ref(), has_failed(windows, &part.name));
    let mut numbers: Vec<u32> = vec![now, recommended];
    numbers.extend(needed.map(|needed| needed.value));
    // A queue that grows without end tells nothing, and takes long.
    let mean = request.map_or(0.0, |request| request.mean_gpus);
    let shares = SHARES.map(|share| ((f64::from(now) * share).ceil() as u32).max(1));
    numbers.extend(shares.into_iter().filter(|nodes| part.gpus(*nodes) as f64 > mean));
    let mut replays: BTreeMap<u32, Vec<SizedReplay>> = BTreeMap::new();
    for nodes in numbers {
        if let std::collections::btree_map::Entry::Vacant(entry) = replays.entry(nodes) {
            entry.insert(searches.iter_mut().map(|search| Ok(search.with(nodes)?.clone())).collect::<Result<_>>()?);
        }
    }
    let classes: Vec<SizeClass> = searches.first().map_or_else(Vec::new, |search| search.classes().collect());
    let today = replays.get(&now).and_then(|replays| replays.first());
    let broken = today.map_or_else(Vec::new, |today| broken(&classes, &today.waits_ms, with.1));
    let binding = match needed.and_then(|needed| needed.value.checked_sub(1)).filter(|fewer| *fewer > 0) {
        Some(fewer) => binding(&mut searches, fewer, with.1)?,
        None => Vec::new(),
    };
    let mut simple = (guess, true);
    for search in &mut searches {
        simple.1 &= search.with(guess)?.kept;
    }
    let submits = own.first().map_or(&[][..], |jobs| &jobs.submit_ms);
    let all_jobs = (submits.len() as u64, submits.iter().filter(|submit| **submit < window.0).count() as u64);
    let theory = match request {
        Some(request) if needed.is_some() => {
            let mut at: Vec<u32> = needed.map(|needed| needed.value).into_iter().chain([now]).collect();
            at.dedup();
            let compared = |nodes: u32| {
                let servers = request.servers(part.gpus(nodes));
                let replayed = replays.get(&nodes)?.first()?;
                Some(Compared {
                    nodes,
                    servers,
                    gang_gpus: request.gang_gpus,
                    offered_load: request.offered_load(part.gpus(nodes) as f64)?,
                    longer: (
                        request.traffic.longer_than(servers, with.1.all_s),
                        longer_share(&replayed.waits_ms, with.1.all_s),
                    ),
                    mean_wait_s: (request.traffic.mean_wait_s(servers), mean_wait_s(&replayed.waits_ms)),
                })
            };
            at.into_iter().filter_map(compared).collect()
        }
        _ => Vec::new(),
    };
    let breaks = match needed {
        Some(_) => Some(breaks_at(&part, &part.jobs(record), with, end)?),
        None => None,
    };
    drop(searches);
    let jobs = jobs as u64;
    Ok(SizedPart {
        jobs,
        impossible,
        needed,
        recommended,
        breaks,
        theory,
        broken,
        binding,
        simple,
        all_jobs,
        replays,
        part,
    })
}

/// Over draws the median, and the ends of the days drawn anew of all of them together; of one record, its own interval.
fn needed(searches: &mut [Search<'_>], guess: u32) -> Result<Option<Needed>> {
    if let [one] = searches {
        return one.needed(guess);
    }
    let result: Vec<Option<Needed>> = searches.iter_mut().map(|search| search.needed(guess)).collect::<Result<_>>()?;
    let Some(mut result) = result.into_iter().collect::<Option<Vec<Needed>>>() else { return Ok(None) };
    result.sort_unstable_by_key(|needed| needed.value);
    let Some(middle) = result.get(result.len() / 2) else { return Ok(None) };
    let ends = |of: &dyn Fn(&Needed) -> Option<u32>| -> Option<(u32, u32)> {
        let ends = result.iter().map(of).collect::<Option<Vec<u32>>>()?;
        Some((*ends.iter().min()?, *ends.iter().max()?))
    };
    // Between the ends of the single draws lie those of all together.
    let mut end = |between: Option<(u32, u32)>, share: f64| match between {
        Some(between) => kept_together(searches, share, between).map(Some),
        None => Ok(None),
    };
    let low = end(ends(&|needed| needed.low), BOUNDS.0)?;
    let high = end(ends(&|needed| needed.high), BOUNDS.1)?;
    Ok(Some(Needed {
        value: middle.value,
        low: low.map(|low| low.min(middle.value)),
        high: high.map(|high| high.max(middle.value)),
        uneven: result.iter().any(|needed| needed.uneven),
        blocks: result.iter().map(|needed| needed.blocks).min().unwrap_or(0),
    }))
}

/// The fewest nodes of some that keep the target in a share of the days drawn anew of all draws together. O(draws × log nodes) replays.
fn kept_together(searches: &mut [Search<'_>], share: f64, (mut from, mut to): (u32, u32)) -> Result<u32> {
    while from < to {
        let middle = from.midpoint(to);
        let mut kept = 0.0;
        for search in &mut *searches {
            kept += search.with(middle)?.kept_share;
        }
        if is_kept_together(kept, share, searches.len()) { to = middle } else { from = middle + 1 }
    }
    Ok(to)
}

/// What breaks the target with so many nodes, in the first draw in which anything does: all jobs, then size classes.
fn binding(
    searches: &mut [Search<'_>],
    nodes: u32,
    target: &WaitTarget,
) -> Result<Vec<(Option<SizeClass>, Option<f64>)>> {
    for search in searches {
        let classes: Vec<SizeClass> = search.classes().collect();
        let replay = search.with(nodes)?;
        if replay.kept {
            continue;
        }
        let all = nearest_rank_s(&replay.waits_ms, 1.0 - MAY_WAIT);
        let mut result: Vec<(Option<SizeClass>, Option<f64>)> = Vec::new();
        result.extend(all.is_none_or(|all| all > target.all_s).then_some((None, all)));
        result.extend(broken(&classes, &replay.waits_ms, target).into_iter().map(|(class, p95)| (Some(class), p95)));
        return Ok(result);
    }
    Ok(Vec::new())
}

/// Classes whose 95 % wait is longer than their target.
fn broken(classes: &[SizeClass], waits_ms: &[i64], target: &WaitTarget) -> Vec<(SizeClass, Option<f64>)> {
    let of = |class: SizeClass| {
        let waits: Vec<i64> =
            classes.iter().zip(waits_ms).filter(|(of, _)| **of == class).map(|(_, wait)| *wait).collect();
        let p95 = nearest_rank_s(&waits, 1.0 - MAY_WAIT);
        let breaks = waits.len() >= FEWEST_OF_CLASS && p95.is_none_or(|p95| p95 > target.of(class));
        breaks.then_some((class, p95))
    };
    SizeClass::ALL.into_iter().filter_map(of).collect()
}

/// All parts with the nodes that `nodes` says; `None` if a part was not replayed with them.
pub(super) fn together(parts: &[SizedPart], nodes: &dyn Fn(&SizedPart) -> u32) -> Option<Together> {
    let draws = parts.iter().map(|part| part.replays.values().next().map_or(0, Vec::len)).min()?;
    let mut of_draws: Vec<Together> = Vec::with_capacity(draws);
    for draw in 0..draws {
        let mut waits = Vec::new();
        let mut all =
            Together { nodes: 0, p50_wait_s: None, p95_wait_s: None, utilisation: 0.0, queue_jobs: 0.0, kept: 0.0 };
        let mut gpus = 0.0;
        for part in parts {
            let count = nodes(part);
            let replay = part.replays.get(&count)?.get(draw)?;
            let own = part.part.gpus(count) as f64;
            waits.extend_from_slice(&replay.waits_ms);
            all.nodes += u64::from(count);
            all.utilisation += replay.utilisation * own;
            all.queue_jobs += replay.queue_jobs;
            all.kept += f64::from(u8::from(replay.kept && part.needed.is_some()));
            gpus += own;
        }
        all.utilisation /= f64::max(gpus, 1.0);
        (all.p50_wait_s, all.p95_wait_s) = (nearest_rank_s(&waits, 0.5), nearest_rank_s(&waits, 1.0 - MAY_WAIT));
        of_draws.push(all);
    }
    let n = draws.max(1) as f64;
    let mean = |of: &dyn Fn(&Together) -> f64| of_draws.iter().map(of).sum::<f64>() / n;
    let known = |of: &dyn Fn(&Together) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = of_draws.iter().map(of).collect();
        Some(values?.iter().sum::<f64>() / n)
    };
    Some(Together {
        nodes: of_draws.first()?.nodes,
        p50_wait_s: known(&|of| of.p50_wait_s),
        p95_wait_s: known(&|of| of.p95_wait_s),
        utilisation: mean(&|of| of.utilisation),
        queue_jobs: mean(&|of| of.queue_jobs),
        kept: mean(&|of| of.kept),
    })
}
