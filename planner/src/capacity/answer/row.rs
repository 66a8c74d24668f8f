//! Rows of the answer of `plan nodes`, made of what was sized and tested.
//!
//! O(parts). Worked example: a pool of two kinds of nodes, of which 8 and 4 are there and 9 in all are needed, is two rows: 8 → 6 and 4 → 3.

use std::collections::BTreeSet;

use tracecast_analytics::report::format;
use tracecast_analytics::time::WEEK_MS;

use super::{
    BindingJobs, CapacityPoint, CapacityRequest, CapacityTrial, JudgedJobs, NodeInterval, NodesInWindow, NodesOfType,
    NotJudged, PoolTests, TheoryCheck, UnjudgedPools, UntilBreak,
};
use crate::capacity::forward::{self, SHARES, SizedPart, Together};
use crate::capacity::growth::{BreakFactor, DemandTrend, FACTORS};
use crate::capacity::heldout::{NodesBy, TestedWindow};
use crate::capacity::pooled::TestedPool;
use crate::capacity::search::{FEWEST_BLOCKS, MAY_WAIT};
use crate::capacity::tests_kept::{TestsKept, rolling};
use crate::error::Result;
use crate::plan::interval::average;
use crate::plan::trial::{Priced, Roles, Trial};
use crate::replay::answer::KnownByRun;
use crate::replay::input::Loaded;
use crate::sim::Group;

/// Note on a part's numbers.
fn note(of: &SizedPart) -> Option<String> {
    let needed = of.needed.filter(|needed| needed.low.is_none() || needed.high.is_none())?;
    let why = match (needed.blocks < FEWEST_BLOCKS, needed.high) {
        (true, _) => "the record has fewer than seven days to draw from, so there is no interval",
        (false, None) => {
            "no number kept the target in 97.5 % of the draws, so the upper end of the interval is not known"
        }
        (false, Some(_)) => {
            "no number kept the target in 2.5 % of the draws only, so the lower end of the interval is not known"
        }
    };
    let bought = needed.high.is_none() && of.recommended > of.part.nodes();
    Some(format!("{why}{}", if bought { "; what to have is the needed number itself, without a margin" } else { "" }))
}

/// Assumptions.
pub(super) fn notes(
    loaded: &Loaded,
    request: &CapacityRequest,
    parts: &[SizedPart],
    left_out: Option<String>,
) -> Vec<String> {
    let mut notes = loaded.notes.clone();
    let impossible: u64 = parts.iter().map(|part| part.impossible).sum();
    if impossible > 0 {
        let jobs = format::counted(impossible, "job asks", "jobs ask");
        let beside = if loaded.workload.asks_hosts() { ", with their processors and memory," } else { "" };
        notes.insert(
            0,
            format!(
                "**{jobs} for more than today's nodes have{beside} even if all are empty.** They never run, and are not judged; further nodes of today's kinds are not sized for them."
            ),
        );
    }
    notes.extend(left_out);
    notes.extend(KnownByRun::note(&request.policy, &loaded.workload));
    if request.kinds.is_some() && loaded.cluster.counts_hosts(&loaded.workload) {
        notes.push(
            "Nodes of a kind that the cluster does not have are taken to have processors and memory for any job."
                .to_owned(),
        );
    }
    notes
}

/// A row for each kind of nodes of a part.
pub(super) fn types(of: &SizedPart, grows: bool) -> Vec<NodesOfType> {
    let part = &of.part;
    let by_kind = |nodes: u32| part.counts(nodes);
    let now = by_kind(part.nodes());
    let recommended = by_kind(of.recommended);
    let needed = of.needed.map(|needed| (by_kind(needed.value), needed.low.map(by_kind), needed.high.map(by_kind)));
    let not_judged = match of.needed {
        Some(_) => None,
        None if of.has_jobs() => Some(NotJudged::NoNumber),
        None => Some(NotJudged::TooFewJobs),
    };
    let several = part.groups().len() > 1;
    let row = |(at, group): (usize, &Group)| {
        let gpu_type = part.gpu_type(group).map(str::to_owned);
        let of_kind = |counts: &Vec<u32>| counts.get(at).copied().unwrap_or(0);
        let gpus = |group: &Group| (group.gpus_per_node, group.gpu_type);
        // Processors and memory are told where nothing else tells two kinds apart.
        let alike = part.groups().iter().filter(|other| gpus(other) == gpus(group)).count() > 1;
        let host = if alike { group.host.in_words() } else { String::new() };
        let kind = format!("{} × {}{host}", group.gpus_per_node, gpu_type.as_deref().unwrap_or("GPU"));
        NodesOfType {
            name: if several { format!("{} ({kind})", part.name) } else { part.name.clone() },
            vcs: part.vcs.clone(),
            gpus_per_node: group.gpus_per_node,
            gpu_type,
            now: of_kind(&now),
            needed: needed.as_ref().map(|(value, low, high)| NodeInterval {
                value: of_kind(value),
                low: low.as_ref().map(of_kind),
                high: high.as_ref().map(of_kind),
            }),
            not_judged,
            note: note(of),
            recommended: of_kind(&recommended),
            jobs: of.jobs,
            kept_now: of.replays.get(&part.nodes()).is_some_and(|draws| draws.iter().all(|draw| draw.kept)),
            kept_draws: of
                .replays
                .get(&part.nodes())
                .filter(|_| grows)
                .map(|draws| draws.iter().filter(|draw| draw.kept).count() as u64),
            broken_classes: of.broken.iter().map(|(class, _)| *class).collect(),
            binding: of
                .binding
                .iter()
                .map(|(class, p95_wait_s)| BindingJobs { class: *class, p95_wait_s: *p95_wait_s })
                .collect(),
            uneven: of.needed.is_some_and(|needed| needed.uneven),
            breaks_at: of.breaks,
        }
    };
    part.groups().iter().enumerate().map(row).collect()
}

/// Jobs that are judged, of all parts.
pub(super) fn judged(parts: &[SizedPart]) -> JudgedJobs {
    let sum = |of: &dyn Fn(&SizedPart) -> u64| parts.iter().map(of).sum::<u64>();
    let (judged, impossible) = (sum(&|part| part.jobs), sum(&|part| part.impossible));
    let (all, while_filling) = (sum(&|part| part.all_jobs.0), sum(&|part| part.all_jobs.1));
    let unfinished = all.saturating_sub(judged + while_filling + impossible);
    JudgedJobs { judged, all, while_filling, impossible, unfinished }
}

/// The test on later windows.
pub(super) fn trial(windows: &[TestedWindow], day: &dyn Fn(i64) -> String) -> Result<CapacityTrial> {
    let pools = |window: &TestedWindow| window.parts.len() as u64;
    let in_window = |window: &TestedWindow, by: NodesBy| {
        let (nodes, pools_kept, p95_wait_s) = window.by(by);
        (nodes as f64, NodesInWindow { jobs: window.jobs, pools_kept, pools: pools(window), p95_wait_s })
    };
    // A window without a test has no nodes to take the mean of.
    let judged: Vec<&TestedWindow> = windows.iter().filter(|window| !window.parts.is_empty()).collect();
    let priced = |by: NodesBy| {
        let nodes: Vec<f64> = judged.iter().map(|window| window.by(by).0 as f64).collect();
        let figures = TestsKept {
            nodes: average(nodes.iter().copied()),
            pools_kept: windows.iter().map(|window| window.by(by).1).sum(),
            pools: windows.iter().map(pools).sum(),
        };
        Priced {
            id: by,
            words: by.in_words().to_owned(),
            kept: figures.pools_kept == figures.pools,
            windows: windows.iter().map(|window| in_window(window, by)).collect(),
            blocks: nodes,
            figures,
        }
    };
    let roles = Roles {
        plan: NodesBy::Recommended,
        baseline: NodesBy::Static,
        simplest: NodesBy::Mean80,
        naive: NodesBy::Mean80,
        oracle: NodesBy::Oracle,
    };
    let spans = windows.iter().map(|window| (window.from_ms, window.to_ms));
    let stretches = rolling(spans, ("on average", judged.len().max(1) as f64), day);
    Trial::new("nodes", &NodesBy::ALL.map(priced), roles, stretches)
}

/// Pools in windows that are no tests.
pub(super) fn unjudged(windows: &[TestedWindow], day: &dyn Fn(i64) -> String) -> Vec<UnjudgedPools> {
    let without = windows.iter().filter(|window| !window.unjudged.is_empty());
    without.map(|window| UnjudgedPools { from: day(window.from_ms), pools: window.unjudged.clone() }).collect()
}

/// The tests of one pool; `None` without any.
pub(super) fn in_one_pool(tested: &[TestedPool]) -> Option<PoolTests> {
    let wronged: BTreeSet<&String> = tested.iter().flat_map(|pool| &pool.wronged).collect();
    (!tested.is_empty()).then(|| PoolTests {
        windows: tested.len() as u64,
        kept: tested.iter().filter(|pool| pool.kept).count() as u64,
        nodes: average(tested.iter().map(|pool| f64::from(pool.nodes))),
        oracle: average(tested.iter().map(|pool| f64::from(pool.fewest))),
        windows_wronged: tested.iter().filter(|pool| !pool.wronged.is_empty()).count() as u64,
        wronged: wronged.into_iter().cloned().collect(),
    })
}

pub(super) fn curve(parts: &[SizedPart]) -> Vec<CapacityPoint> {
    let point = |what: &str, of: Option<Together>| {
        of.map(|of| CapacityPoint {
            what: what.to_owned(),
            nodes: of.nodes,
            p50_wait_s: of.p50_wait_s,
            p95_wait_s: of.p95_wait_s,
            utilisation: of.utilisation,
            queue_jobs: of.queue_jobs,
            pools_kept: of.kept,
        })
    };
    let mut points: Vec<CapacityPoint> = SHARES
        .into_iter()
        .filter_map(|share| {
            let what = if share == 1.0 {
                "today".to_owned()
            } else {
                format!("{} % of today's", format::float(100.0 * share, 0))
            };
            point(&what, forward::together(parts, &|part| part.at_share(share)))
        })
        .collect();
    points.extend(point("needed", forward::together(parts, &SizedPart::value)));
    points.extend(point("recommended", forward::together(parts, &|part| part.recommended)));
    points.sort_by_key(|point| point.nodes);
    points
}

pub(super) fn until_break(loaded: &Loaded, parts: &[SizedPart], end: i64, day: &dyn Fn(i64) -> String) -> UntilBreak {
    let trend = DemandTrend::new(&loaded.workload, end);
    let broken = |factor: &BreakFactor| factor.value < 1.0;
    let known = parts.iter().filter_map(|part| Some((part.part.name.as_str(), part.breaks?)));
    let first = known.clone().filter(|(_, factor)| !broken(factor)).min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let weeks = trend.zip(first).and_then(|(trend, (_, factor))| trend.weeks_to(&factor));
    let ends = |first: Option<(&str, BreakFactor)>| first.is_some_and(|(_, factor)| factor.value >= FACTORS.1);
    // A date that is centuries off is none.
    let on = |weeks: f64| (weeks < 2600.0).then(|| day(end + (weeks * WEEK_MS as f64) as i64));
    UntilBreak {
        trend,
        first: first.map(|(name, _)| name.to_owned()),
        factor: first.map(|(_, factor)| factor),
        // Where the search ended, the target breaks later than told, or not at all.
        on: weeks.filter(|_| !ends(first)).and_then(|(by_trend, ..)| on(by_trend)),
        soonest: weeks.and_then(|(_, soonest, _)| on(soonest)),
        latest: weeks.filter(|_| !first.is_some_and(|(_, factor)| factor.beyond)).and_then(|(.., latest)| on(latest)),
        broken_today: known.filter(|(_, factor)| broken(factor)).map(|(name, _)| name.to_owned()).collect(),
    }
}

pub(super) fn theory(of: &SizedPart) -> Vec<TheoryCheck> {
    of.theory
        .iter()
        .map(|compared| TheoryCheck {
            pool: of.part.name.clone(),
            nodes: compared.nodes,
            servers: compared.servers,
            gpus_per_server: compared.gang_gpus,
            load: compared.offered_load,
            theory_longer_share: compared.longer.0,
            replayed_longer_share: compared.longer.1,
            theory_mean_wait_s: compared.mean_wait_s.0,
            replayed_mean_wait_s: compared.mean_wait_s.1,
            differs: (compared.longer.0 - compared.longer.1).abs() > MAY_WAIT / 2.0,
        })
        .collect()
}
