//! The numbers of nodes that an earlier stretch gives, tested on the stretch after it.
//!
//! Each window of time is decided with what was known at its beginning (runs cut off there, jobs that had not started left out), and the jobs that are
//! submitted in it are then replayed with each number of nodes there from the first job on. Beside the needed number and its upper end stand the nodes that there
//! were, the [rules of thumb](super::rule), and the **oracle**: the fewest that would have been enough. A part with fewer than 20 judged jobs before or in
//! a window is not judged there.
//!
//! O(windows × log nodes) replays. Worked number: 61 days without `--eval-from` are tested in three windows of 14 days, from days 19, 33 and 47 on.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::DAY_MS;

use super::part::Part;
use super::rule::AskedFor;
use super::search::{FEWEST_OF_CLASS, NEVER, Search, WaitTarget, nearest_rank_s};
use crate::error::{Error, Result};
use crate::plan::window::rolling;
use crate::replay::input::Loaded;
use crate::sim::Policy;

/// Longest window where nobody says.
const LONGEST_DAYS: i64 = 14;
/// Windows and past that the data are cut into where nobody says.
const STRETCHES: i64 = 4;

/// Where a number of nodes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodesBy {
    /// The nodes there are.
    Static,
    /// The fewest that kept the target before.
    Needed,
    /// The upper end of the interval of that.
    Recommended,
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
    pub const ALL: [Self; 8] = [
        Self::Static,
        Self::Needed,
        Self::Recommended,
        Self::Peak,
        Self::Mean80,
        Self::Erlang,
        Self::SquareRoot,
        Self::Oracle,
    ];

    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Static => "nodes as they are",
            Self::Needed => "fewest that kept the target before",
            Self::Recommended => "upper end of its interval",
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

/// A part by its name, with every rule.
type NamedPart = (String, Vec<TestedPart>);

/// A window, with the parts that are judged in it, by position.
#[derive(Debug, Clone)]
pub(super) struct TestedWindow {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) jobs: u64,
    pub(super) parts: Vec<NamedPart>,
}

impl TestedWindow {
    /// Nodes, parts that kept the target, and the 95 % quantile of all waits, by one rule.
    pub(super) fn by(&self, by: NodesBy) -> (u64, u64, Option<f64>) {
        let of: Vec<&TestedPart> =
            self.parts.iter().flat_map(|(_, tested)| tested).filter(|tested| tested.by == by).collect();
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

/// The windows of a record: the last begins at `eval_from`, or a quarter of the time before the end, at most two weeks.
fn windows(end: i64, eval_from: Option<i64>) -> Result<Vec<(i64, i64)>> {
    let quarter = end / STRETCHES;
    let whole = if quarter >= DAY_MS { quarter / DAY_MS * DAY_MS } else { quarter };
    let from = eval_from.unwrap_or(end - whole.clamp(1, LONGEST_DAYS * DAY_MS));
    let at = |ms: i64| usize::try_from(ms).unwrap_or(0);
    if !(1..end).contains(&from) {
        return Err(Error::NothingToEvaluate(
            "--eval-from is not within the time of the jobs; choose a day that has jobs before and after it".to_owned(),
        ));
    }
    let found = rolling(at(end), at(end - from), 1);
    let ms = |slot: usize| i64::try_from(slot).unwrap_or(i64::MAX);
    if found.is_empty() {
        // A window that is longer than its past is still one test.
        return Ok(vec![(from, end)]);
    }
    Ok(found.into_iter().map(|window| (ms(window.ahead.start), ms(window.ahead.end))).collect())
}

/// Tests all rules on every window. `done` is called after each part of each window.
pub(super) fn test(
    loaded: &Loaded,
    (policy, target): (&Policy, &WaitTarget),
    (eval_from, end): (Option<i64>, i64),
    done: &(dyn Fn() + Sync),
) -> Result<Vec<TestedWindow>> {
    let mut found = Vec::new();
    for (from_ms, to_ms) in windows(end, eval_from)? {
        let known = loaded.known_at(from_ms);
        let until: Vec<u32> = (0u32..)
            .zip(&loaded.workload.submit_ms)
            .filter(|(_, submit)| **submit < to_ms)
            .map(|(job, _)| job)
            .collect();
        let submits = until.iter().filter_map(|job| loaded.workload.submit_ms.get(*job as usize).copied()).collect();
        let ahead = loaded.workload.arranged(&until, submits);
        let parts = Part::all(&loaded.cluster, from_ms);
        let tested: Result<Vec<Option<NamedPart>>> = parts
            .par_iter()
            .map(|part| {
                let tested = tested(part, (&part.jobs(&known), &part.jobs(&ahead)), (policy, target), (from_ms, to_ms));
                done();
                Ok(tested?.map(|tested| (part.name.clone(), tested)))
            })
            .collect();
        let parts: Vec<NamedPart> = tested?.into_iter().flatten().collect();
        let jobs = parts.iter().filter_map(|(_, tested)| Some(tested.first()?.waits_ms.len() as u64)).sum();
        if !parts.is_empty() {
            found.push(TestedWindow { from_ms, to_ms, jobs, parts });
        }
    }
    Ok(found)
}

/// Every rule in one part and window; `None` where too few jobs are judged, or no number of nodes kept the target before or after.
fn tested(
    part: &Part,
    (known, ahead): (&crate::sim::Workload, &crate::sim::Workload),
    with: (&Policy, &WaitTarget),
    (from, to): (i64, i64),
) -> Result<Option<Vec<TestedPart>>> {
    let past = (warmed_up(from), from);
    let mut learn = Search::new(part, known, with, past)?;
    let Some(asked) = AskedFor::of(known, past).filter(|_| learn.judged().len() >= FEWEST_OF_CLASS) else {
        return Ok(None);
    };
    let mut later = Search::new(part, ahead, with, (from, to))?;
    if later.judged().len() < FEWEST_OF_CLASS {
        return Ok(None);
    }
    let guess = asked.by_mean(part);
    let (Some(needed), Some(oracle)) = (learn.needed(guess)?, later.fewest(guess)?) else { return Ok(None) };
    let nodes = |by: NodesBy| match by {
        NodesBy::Static => part.nodes(),
        NodesBy::Needed => needed.value,
        NodesBy::Recommended => needed.high,
        NodesBy::Peak => asked.by_peak(part),
        NodesBy::Mean80 => asked.by_mean(part),
        NodesBy::Erlang => asked.by_erlang(part, with.1.all_s),
        NodesBy::SquareRoot => asked.by_square_root(part),
        NodesBy::Oracle => oracle,
    };
    let test = |by: NodesBy| {
        let nodes = nodes(by);
        let replay = later.with(nodes)?;
        Ok(TestedPart { by, nodes, kept: replay.kept, waits_ms: replay.waits_ms.clone() })
    };
    NodesBy::ALL.into_iter().map(test).collect::<Result<_>>().map(Some)
}

/// Replays are many; how often `done` is called.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let days = |days: i64| days * DAY_MS;
        assert_eq!(
            windows(days(61), None).unwrap(),
            [(days(19), days(33)), (days(33), days(47)), (days(47), days(61))]
        );
        assert_eq!(windows(days(61), Some(days(50))).unwrap().len(), 4);
        // Longer than its past, and still one test.
        assert_eq!(windows(days(10), Some(days(4))).unwrap(), [(days(4), days(10))]);
        assert!(windows(days(10), Some(days(10))).is_err() && windows(days(10), Some(0)).is_err());
    }
}
