//! The numbers of nodes that an earlier stretch gives, tested on the stretch after it.
//!
//! Each window of time is decided with what was known at its beginning (runs and failures cut off there, jobs that had not started left out), and the jobs that are
//! submitted in it are then replayed with each number of nodes there from the first job on. Beside what the plan recommends, the needed number and its upper end stand
//! the nodes that there were, the [rules of thumb](super::rule), and the **oracle**: the fewest that would have been enough. A part with fewer than 20 judged jobs
//! before or in a window is no test. Where no number kept the target before, the rules that rest on one have the nodes that there were, and count as not kept.
//! Where none keeps it in the window, no number of nodes is right, and the test is counted apart (*unjudged*).
//!
//! At most [`MOST_WINDOWS`] windows are tested, the last ones, so that a record of decades takes no longer for its years; a note says how many are left out.
//!
//! O(windows × log nodes) replays. Worked number: 61 days without `--eval-from` are tested in three windows of 14 days, from days 19, 33 and 47 on.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::DAY_MS;
use tracecast_analytics::watch::Watch;

use super::part::Part;
use super::search::{Needed, Search, WaitTarget};
use crate::error::{Error, Result};
use crate::plan::offered::OfferedTraffic;
use crate::plan::waits::{FEWEST_OF_CLASS, NEVER, nearest_rank_s};
use crate::plan::window::rolling;
use crate::replay::input::Loaded;
use crate::sim::{Policy, Workload};

/// Longest window where nobody says.
const LONGEST_DAYS: i64 = 14;
/// Most windows that are tested.
pub(super) const MOST_WINDOWS: usize = 12;
/// Windows and past that the data are cut into where nobody says.
const STRETCHES: i64 = 4;

/// Where a number of nodes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodesBy {
    /// The nodes there are.
    Static,
    /// Recommendation of the plan: the upper end where there are too few or clearly too many, else
    /// the nodes there are.
    Recommended,
    /// The fewest that kept the target before.
    Needed,
    /// The upper end of the interval of that; the number itself without one.
    Upper,
    /// The peak of demand before.
    Peak,
    /// Mean demand over 0.8.
    Mean80,
    /// Erlang C with Allen and Cunneen's variability.
    Erlang,
    /// Square-root staffing.
    SquareRoot,
    /// The fewest that are enough, seen with hindsight.
    Oracle,
}

impl NodesBy {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 9] = [
        Self::Static,
        Self::Recommended,
        Self::Needed,
        Self::Upper,
        Self::Peak,
        Self::Mean80,
        Self::Erlang,
        Self::SquareRoot,
        Self::Oracle,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Static => "nodes as they are",
            Self::Recommended => "what the plan recommends",
            Self::Needed => "fewest that kept the target before",
            Self::Upper => "upper end of its interval",
            Self::Peak => "peak demand before",
            Self::Mean80 => "mean demand / 80 %",
            Self::Erlang => "Erlang C, Allen-Cunneen",
            Self::SquareRoot => "square-root staffing",
            Self::Oracle => "fewest, with hindsight",
        }
    }
}

/// One number of nodes in one part and window.
#[derive(Debug, Clone)]
pub(super) struct TestedPart {
    pub(super) by: NodesBy,
    pub(super) nodes: u32,
    pub(super) kept: bool,
    waits_ms: Vec<i64>,
}

/// Outcome of a part in a window.
enum Tested {
    /// With fewer than 20 judged jobs before or in it: no test.
    TooFewJobs,
    /// No number of nodes keeps the target in it.
    Unjudged,
    /// Every rule.
    Judged(Decided, Vec<TestedPart>),
}

/// What rules rest on in a part and window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decided {
    /// Traffic that its jobs offered before.
    pub(super) asked: OfferedTraffic,
    /// The nodes that kept the target before; `None` if no number did.
    pub(super) needed: Option<Needed>,
    /// The fewest that keep it in the window.
    pub(super) fewest: u32,
}

/// A part that is judged in a window.
#[derive(Debug, Clone)]
pub(super) struct JudgedPart {
    pub(super) name: String,
    pub(super) decided: Decided,
    /// Every rule.
    pub(super) tested: Vec<TestedPart>,
}

/// A window, with the parts that are judged in it.
#[derive(Debug, Clone)]
pub(super) struct TestedWindow {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) jobs: u64,
    pub(super) parts: Vec<JudgedPart>,
    /// Parts in which no number of nodes keeps the target.
    pub(super) unjudged: Vec<String>,
}

impl TestedWindow {
    /// Nodes, parts that kept the target, and the 95 % quantile of all waits, by one rule.
    pub(super) fn by(&self, by: NodesBy) -> (u64, u64, Option<f64>) {
        let of: Vec<&TestedPart> =
            self.parts.iter().flat_map(|part| &part.tested).filter(|tested| tested.by == by).collect();
        let waits: Vec<i64> = of.iter().flat_map(|tested| tested.waits_ms.iter().copied()).collect();
        (
            of.iter().map(|tested| u64::from(tested.nodes)).sum(),
            of.iter().filter(|tested| tested.kept).count() as u64,
            nearest_rank_s(&waits, 1.0 - super::search::MAY_WAIT),
        )
    }
}

/// The first moment that is judged of a stretch that begins at time 0 with empty nodes: a day, or a tenth of it.
pub(super) fn warmed_up(to: i64) -> i64 {
    DAY_MS.min(to / 10)
}

/// The last [`MOST_WINDOWS`] windows of a record.
pub(super) fn windows(end: i64, eval_from: Option<i64>) -> Result<Vec<(i64, i64)>> {
    let mut all = all_windows(end, eval_from)?;
    Ok(all.split_off(all.len().saturating_sub(MOST_WINDOWS)))
}

/// All windows of a record: the last begins at `eval_from`, or a quarter of the time before the end, at most two weeks.
fn all_windows(end: i64, eval_from: Option<i64>) -> Result<Vec<(i64, i64)>> {
    let quarter = end / STRETCHES;
    let whole = if quarter >= DAY_MS { quarter / DAY_MS * DAY_MS } else { quarter };
    let from = eval_from.unwrap_or(end - whole.clamp(1, LONGEST_DAYS * DAY_MS));
    let at = |ms: i64| usize::try_from(ms).unwrap_or(0);
    if !(1..end).contains(&from) {
        return Err(Error::NothingToEvaluate(
            "--eval-from is not within the time of the jobs; choose a day that has jobs before and after it".to_owned(),
        ));
    }
    let result = rolling(at(end), at(end - from), 1);
    let ms = |slot: usize| i64::try_from(slot).unwrap_or(i64::MAX);
    if result.is_empty() {
        // A window that is longer than its past is still one test.
        return Ok(vec![(from, end)]);
    }
    Ok(result.into_iter().map(|window| (ms(window.ahead.start), ms(window.ahead.end))).collect())
}

/// A sentence that earlier windows are not tested, where there are more than are tested.
pub(super) fn left_out(end: i64, eval_from: Option<i64>) -> Option<String> {
    let all = all_windows(end, eval_from).ok()?.len();
    (all > MOST_WINDOWS).then(|| {
        format!("Of {all} windows the last {MOST_WINDOWS} are tested; those before are not, as a record of decades would take hours.")
    })
}

/// Whether the upper end broke the target in one of these windows in which the nodes as they were kept it.
pub(super) fn has_failed(windows: &[TestedWindow], name: &str) -> bool {
    windows.iter().flat_map(|window| &window.parts).filter(|part| part.name == name).any(|part| {
        let kept = |by: NodesBy| part.tested.iter().any(|tested| tested.by == by && tested.kept);
        kept(NodesBy::Static) && !kept(NodesBy::Upper)
    })
}

/// The nodes to have where there are `now`: with fewer than needed the upper end of the interval, or the needed number where that has none; with more than the
/// upper end that, unless it has [failed](has_failed) before; else what there is.
pub(super) fn recommended(now: u32, needed: Option<&Needed>, failed: bool) -> u32 {
    match needed {
        Some(needed) if now < needed.value => needed.upper(),
        Some(Needed { high: Some(high), .. }) if now > *high && !failed => *high,
        _ => now,
    }
}

/// What a window is decided on, and what is then replayed in it.
pub(super) struct Before {
    /// The jobs as they were known when it began.
    pub(super) known: Workload,
    /// All jobs submitted until it ends.
    pub(super) ahead: Workload,
    /// The parts as they were when it began.
    pub(super) parts: Vec<Part>,
}

impl Before {
    /// Returns what is known before a window, milliseconds from time 0, and the jobs up to its end.
    /// O(jobs).
    pub(super) fn new(loaded: &Loaded, (from_ms, to_ms): (i64, i64)) -> Self {
        let until: Vec<u32> = (0u32..)
            .zip(&loaded.workload.submit_ms)
            .filter(|(_, submit)| **submit < to_ms)
            .map(|(job, _)| job)
            .collect();
        Self {
            known: loaded.known_at(from_ms),
            ahead: loaded.workload.only(&until),
            parts: Part::all(&loaded.cluster, from_ms),
        }
    }
}

/// Tests all rules on every window. `watch` is told after each part of each window.
pub(super) fn test(
    loaded: &Loaded,
    (policy, target): (&Policy, &WaitTarget),
    (eval_from, end): (Option<i64>, i64),
    watch: &dyn Watch,
) -> Result<Vec<TestedWindow>> {
    let mut result: Vec<TestedWindow> = Vec::new();
    for (from_ms, to_ms) in windows(end, eval_from)? {
        let Before { known, ahead, parts } = Before::new(loaded, (from_ms, to_ms));
        let tested: Result<Vec<(String, Tested)>> = parts
            .par_iter()
            .map(|part| {
                let jobs = (&part.jobs(&known), &part.jobs(&ahead));
                let failed = has_failed(&result, &part.name);
                let tested = tested(part, jobs, (policy, target), (from_ms, to_ms), failed);
                watch.made();
                Ok((part.name.clone(), tested?))
            })
            .collect();
        let (mut parts, mut unjudged): (Vec<JudgedPart>, Vec<String>) = (Vec::new(), Vec::new());
        for (name, tested) in tested? {
            match tested {
                Tested::TooFewJobs => (),
                Tested::Unjudged => unjudged.push(name),
                Tested::Judged(decided, tested) => parts.push(JudgedPart { name, decided, tested }),
            }
        }
        let jobs = parts.iter().filter_map(|part| Some(part.tested.first()?.waits_ms.len() as u64)).sum();
        if !parts.is_empty() || !unjudged.is_empty() {
            result.push(TestedWindow { from_ms, to_ms, jobs, parts, unjudged });
        }
    }
    Ok(result)
}

/// Every rule in one part and window. `failed` is whether the upper end broke the target in an earlier window in which the nodes as they were kept it.
fn tested(
    part: &Part,
    (known, ahead): (&Workload, &Workload),
    with: (&Policy, &WaitTarget),
    (from, to): (i64, i64),
    failed: bool,
) -> Result<Tested> {
    let past = (warmed_up(from), from);
    let then = part.known_at(from);
    let mut learn = Search::new(&then, known, with, past)?;
    let Some(asked) = OfferedTraffic::new(known, past).filter(|_| learn.judged().len() >= FEWEST_OF_CLASS) else {
        return Ok(Tested::TooFewJobs);
    };
    let mut later = Search::new(part, ahead, with, (from, to))?;
    if later.judged().len() < FEWEST_OF_CLASS {
        return Ok(Tested::TooFewJobs);
    }
    let guess = part.by_mean(&asked);
    let Some(fewest) = later.fewest(guess)? else { return Ok(Tested::Unjudged) };
    let needed = learn.needed(guess)?;
    let now = part.nodes();
    let nodes = |by: NodesBy| match by {
        NodesBy::Static => now,
        NodesBy::Recommended => recommended(now, needed.as_ref(), failed),
        NodesBy::Needed => needed.map_or(now, |needed| needed.value),
        NodesBy::Upper => needed.as_ref().map_or(now, Needed::upper),
        NodesBy::Peak => part.by_peak(&asked),
        NodesBy::Mean80 => part.by_mean(&asked),
        NodesBy::Erlang => part.by_erlang(&asked, with.1.all_s),
        NodesBy::SquareRoot => part.by_square_root(&asked),
        NodesBy::Oracle => fewest,
    };
    let test = |by: NodesBy| {
        let nodes = nodes(by);
        let replay = later.with(nodes)?;
        let rests = matches!(by, NodesBy::Recommended | NodesBy::Needed | NodesBy::Upper);
        let kept = replay.kept && (needed.is_some() || !rests);
        Ok(TestedPart { by, nodes, kept, waits_ms: replay.waits_ms.clone() })
    };
    let tested = NodesBy::ALL.into_iter().map(test).collect::<Result<_>>()?;
    Ok(Tested::Judged(Decided { asked, needed, fewest }, tested))
}

/// Replays are many; how often `watch` is told.
pub(super) fn steps(loaded: &Loaded, eval_from: Option<i64>, end: i64) -> usize {
    windows(end, eval_from).map_or(0, |windows| windows.len()) * loaded.cluster.pools.len()
}

/// The share of waits longer than a target; those of jobs that never ran are longer than any.
pub(super) fn longer_share(waits_ms: &[i64], target_s: f64) -> f64 {
    let target = (target_s * 1e3).round() as i64;
    waits_ms.iter().filter(|wait| **wait > target).count() as f64 / waits_ms.len().max(1) as f64
}

/// Mean of waits, seconds; `None` of none, or if a job never ran.
pub(super) fn mean_wait_s(waits_ms: &[i64]) -> Option<f64> {
    let known = !waits_ms.is_empty() && waits_ms.iter().all(|wait| *wait != NEVER);
    known.then(|| waits_ms.iter().map(|wait| *wait as f64 / 1e3).sum::<f64>() / waits_ms.len() as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(in crate::capacity) mod tests {
    use super::*;
    use crate::sim::{Cluster, Outage, Scan, Shape};

    #[test]
    fn the_worked_number() {
        let days = |days: i64| days * DAY_MS;
        assert_eq!(
            windows(days(61), None).unwrap(),
            [(days(19), days(33)), (days(33), days(47)), (days(47), days(61))]
        );
        assert_eq!(windows(days(61), Some(days(50))).unwrap().len(), 4);
        // Twenty years have as many tests as half a year, the last ones.
        let years = windows(days(7_300), None).unwrap();
        assert_eq!((years.len(), years[11], years[0].0), (MOST_WINDOWS, (days(7_286), days(7_300)), days(7_132)));
        assert!(left_out(days(7_300), None).unwrap().contains("Of 520 windows") && left_out(days(61), None).is_none());
        // Longer than its past, and still one test.
        assert_eq!(windows(days(10), Some(days(4))).unwrap(), [(days(4), days(10))]);
        assert!(windows(days(10), Some(days(10))).is_err() && windows(days(10), Some(0)).is_err());
    }

    #[test]
    fn what_to_have_by_hand() {
        let needed = Needed { value: 12, low: Some(10), high: Some(14), uneven: false, blocks: 30 };
        let of = |now: u32, failed: bool| recommended(now, Some(&needed), failed);
        assert_eq!((of(9, false), of(13, false), of(20, false), of(20, true)), (14, 13, 14, 20));
        let open = Needed { high: None, ..needed };
        assert_eq!((recommended(9, Some(&open), false), recommended(20, Some(&open), false)), (12, 20));
        assert_eq!(recommended(9, None, false), 9);
    }

    /// A job of a node each half hour that runs 1 to 3 hours, on nodes that fail.
    fn failing() -> Loaded {
        let mut workload = Workload::default();
        for at in 0..40 * 48i64 {
            workload.push(at * DAY_MS / 48, (1 + at * 7 % 3) * 3_600_000, Shape::whole(8));
        }
        on_failing_nodes(workload)
    }

    /// Forty days on eight nodes, one of which fails every third day for half a day.
    pub(in crate::capacity) fn on_failing_nodes(workload: Workload) -> Loaded {
        let mut cluster = Cluster::of_vcs(&[("a", 8, 8)]);
        cluster.outages = (0..13i64)
            .map(|at| Outage { node: (at % 8) as u32, from_ms: at * 3 * DAY_MS, to_ms: (at * 6 + 1) * DAY_MS / 2 })
            .collect();
        Loaded {
            recorded_start_ms: workload.submit_ms.iter().map(|submit| Some(*submit)).collect(),
            cluster,
            workload,
            ..Loaded::default()
        }
    }

    fn target() -> WaitTarget {
        WaitTarget { all_s: 600.0, by_class: std::collections::BTreeMap::new() }
    }

    #[test]
    fn failures_after_a_window_begins_change_nothing_that_is_chosen_for_it() {
        let (policy, target) = (Policy { scan: Scan::Skip, ..Policy::default() }, target());
        let begins = 30 * DAY_MS;
        let chosen = |loaded: &Loaded| -> Vec<(NodesBy, u32)> {
            let windows = test(loaded, (&policy, &target), (Some(begins), 40 * DAY_MS), &()).unwrap();
            let last = windows.last().unwrap();
            assert_eq!(last.from_ms, begins);
            let rules = last.parts.iter().flat_map(|part| &part.tested);
            rules.filter(|tested| tested.by != NodesBy::Oracle).map(|tested| (tested.by, tested.nodes)).collect()
        };
        let as_it_was = failing();
        let mut otherwise = as_it_was.clone();
        // Later failures last longer and come from other nodes, and one that had begun does not
        // end.
        for outage in &mut otherwise.cluster.outages {
            if outage.from_ms >= begins {
                (outage.node, outage.from_ms, outage.to_ms) = (0, begins, 39 * DAY_MS);
            }
        }
        otherwise.cluster.outages.dedup_by_key(|outage| (outage.node, outage.from_ms));
        for node in 1..4 {
            otherwise.cluster.outages.push(Outage { node, from_ms: begins, to_ms: 39 * DAY_MS });
        }
        assert_eq!(chosen(&as_it_was), chosen(&otherwise));
    }

    #[test]
    fn where_no_number_is_enough_the_test_is_counted_apart() {
        let (policy, target) = (Policy { scan: Scan::Skip, ..Policy::default() }, target());
        let mut loaded = failing();
        let all = |from_ms: i64, to_ms: i64| (0..8).map(move |node| Outage { node, from_ms, to_ms });
        // All nodes are down in the last three days.
        loaded.cluster.outages = all(37 * DAY_MS, 41 * DAY_MS).collect();
        let windows = test(&loaded, (&policy, &target), (Some(30 * DAY_MS), 40 * DAY_MS), &()).unwrap();
        let last = windows.last().unwrap();
        assert_eq!((last.unjudged.clone(), last.parts.len()), (vec!["a".to_owned()], 0));
        // The same days as the past of a window: no number was found, though one is enough later.
        loaded.cluster.outages = all(21 * DAY_MS, 29 * DAY_MS).collect();
        let windows = test(&loaded, (&policy, &target), (Some(35 * DAY_MS), 40 * DAY_MS), &()).unwrap();
        let tested = &windows.last().unwrap().parts[0].tested;
        let of = |by: NodesBy| tested.iter().find(|tested| tested.by == by).unwrap();
        assert_eq!((of(NodesBy::Recommended).nodes, of(NodesBy::Recommended).kept), (8, false));
        assert!(!of(NodesBy::Needed).kept && !of(NodesBy::Upper).kept && of(NodesBy::Oracle).kept);
    }
}
