//! What is told of tests in windows, of numbers of nodes and of mixes of kinds alike.
//!
//! O(windows). Worked example: of two pools in three windows, six tests.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use crate::plan::interval;
use crate::plan::window::Stretches;

/// How often a rule kept the target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestsKept {
    /// Nodes in all, mean over windows.
    pub nodes: f64,
    /// Pools that kept the target, over all windows.
    pub pools_kept: u64,
    /// Pools that were judged, over all windows.
    pub pools: u64,
}

/// Windows before each of which numbers are chosen anew.
pub(super) fn rolling(
    windows: impl Iterator<Item = (i64, i64)>,
    (per, spans): (&'static str, f64),
    day: &dyn Fn(i64) -> String,
) -> Stretches {
    let windows: Vec<(String, String)> = windows.map(|(from, to)| (day(from), day(to))).collect();
    Stretches {
        chosen_from: day(0),
        split: windows.first().map_or_else(String::new, |(from, _)| from.clone()),
        chosen_on: "what was known when each window began".to_owned(),
        per,
        spans,
        interval: format!("95 % of {} draws of the windows", format::count(interval::DRAWS)),
        is_long: windows.len() >= 3,
        windows,
    }
}
