//! Nodes by kind that an earlier stretch gives, priced and tested on the stretch after it.
//!
//! The windows are those of the [test of numbers](crate::capacity::heldout), and so is what is known when one begins: runs and failures cut off there. A mix is
//! kept if every queue of it keeps the target on the window's jobs, in a replay with its nodes there from the first job on. The oracle is the cheapest mix that is enough in the window,
//! by the same search. Where no number in today's proportions kept the target before, what rests on one has the nodes that there were, and counts as not kept.
//!
//! O(windows × search) replays. Worked number: of two pools in three windows, six tests.

use rayon::prelude::*;
use tracecast_analytics::watch::Watch;

use super::kinds::{KindStock, NodeKinds};
use super::rule::{Earlier, MixBy, Planned};
use super::search::Bench;
use super::way::PartKinds;
use crate::capacity::heldout::{Before, Decided, TestedWindow, warmed_up};
use crate::capacity::part::Part;
use crate::capacity::search::WaitTarget;
use crate::error::Result;
use crate::replay::input::Loaded;
use crate::sim::{Policy, Workload};

/// Nodes by one rule in one part and window.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::capacity) struct TestedMix {
    pub(in crate::capacity) by: MixBy,
    pub(in crate::capacity) stock: Vec<KindStock>,
    pub(in crate::capacity) kept: bool,
}

/// A part by its name, with every rule.
type NamedPart = (String, Vec<TestedMix>);

/// A window with its judged parts.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::capacity) struct MixWindow {
    pub(in crate::capacity) from_ms: i64,
    pub(in crate::capacity) to_ms: i64,
    pub(in crate::capacity) parts: Vec<NamedPart>,
}

impl MixWindow {
    /// What an hour costs, nodes, and parts that kept the target, by one rule.
    pub(super) fn by(&self, kinds: &NodeKinds, by: MixBy) -> (f64, u64, u64) {
        let of = || self.parts.iter().flat_map(|(_, tested)| tested).filter(move |tested| tested.by == by);
        (
            kinds.per_h_of_all(of().flat_map(|tested| &tested.stock)),
            of().flat_map(|tested| &tested.stock).map(|of| u64::from(of.nodes)).sum(),
            of().filter(|tested| tested.kept).count() as u64,
        )
    }
}

/// What the windows so far say of the upper mix of a part.
pub(super) fn earlier(windows: &[MixWindow], name: &str) -> Earlier {
    let broke_where = |by: MixBy| {
        windows.iter().flat_map(|window| &window.parts).filter(|(of, _)| of == name).any(|(_, tested)| {
            let kept = |by: MixBy| tested.iter().any(|tested| tested.by == by && tested.kept);
            kept(by) && !kept(MixBy::Upper)
        })
    };
    Earlier { failed: broke_where(MixBy::Static), worse: broke_where(MixBy::ProportionsUpper) }
}

/// Tests all rules on the windows of the [test of numbers](crate::capacity::heldout), on the parts that are judged in them. `watch` is told after each part of each window.
pub(in crate::capacity) fn test(
    loaded: &Loaded,
    kinds: &NodeKinds,
    with: (&Policy, &WaitTarget),
    windows: &[TestedWindow],
    watch: &dyn Watch,
) -> Result<Vec<MixWindow>> {
    let mut result: Vec<MixWindow> = Vec::new();
    for window in windows {
        let stretch = (window.from_ms, window.to_ms);
        let Before { known, ahead, parts } = Before::new(loaded, stretch);
        let tested: Result<Vec<Option<NamedPart>>> = parts
            .par_iter()
            .map(|part| {
                let judged = window.parts.iter().find(|judged| judged.name == part.name);
                let tested = judged.map(|judged| {
                    let jobs = (part.jobs(&known), part.jobs(&ahead));
                    tested(part, kinds, jobs, with, (stretch, &judged.decided, earlier(&result, &part.name)))
                });
                watch.made();
                Ok(tested.transpose()?.map(|tested| (part.name.clone(), tested)))
            })
            .collect();
        let parts: Vec<NamedPart> = tested?.into_iter().flatten().collect();
        if !parts.is_empty() {
            result.push(MixWindow { from_ms: window.from_ms, to_ms: window.to_ms, parts });
        }
    }
    Ok(result)
}

/// Every rule in one part and window.
fn tested(
    part: &Part,
    kinds: &NodeKinds,
    (known, ahead): (Workload, Workload),
    with: (&Policy, &WaitTarget),
    ((from, to), decided, so_far): ((i64, i64), &Decided, Earlier),
) -> Result<Vec<TestedMix>> {
    let then = part.known_at(from);
    let earlier = Bench::new(PartKinds::new(&then, kinds.of_part(&then)?), vec![known], with, (warmed_up(from), from))?;
    let planned = Planned::of(&earlier, decided.needed.as_ref(), &decided.asked, so_far)?;
    drop(earlier);
    let bench = Bench::new(PartKinds::new(part, kinds.of_part(part)?), vec![ahead], with, (from, to))?;
    let [oracle, _] = bench.cheapest(&[Some(bench.kinds.part.counts(decided.fewest)), None])?;
    let test = |by: MixBy| {
        let mix = match (&oracle.mix, by) {
            (Some(mix), MixBy::Oracle) => mix,
            _ => planned.by(by),
        };
        let (kept, _) = bench.test(mix)?;
        let known = !by.rests_on_needed() || decided.needed.is_some();
        Ok(TestedMix { by, stock: bench.kinds.stock(&mix.counts), kept: kept && known })
    };
    MixBy::ALL.into_iter().map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_windows_say_by_hand() {
        let tested = |by: MixBy, kept: bool| TestedMix { by, stock: Vec::new(), kept };
        let window = |now: bool, upper: bool, same: bool| MixWindow {
            from_ms: 0,
            to_ms: 1,
            parts: vec![(
                "a".to_owned(),
                vec![tested(MixBy::Static, now), tested(MixBy::Upper, upper), tested(MixBy::ProportionsUpper, same)],
            )],
        };
        let said = |windows: &[MixWindow]| earlier(windows, "a");
        assert_eq!(said(&[]), Earlier { failed: false, worse: false });
        assert_eq!(said(&[window(false, true, true)]), Earlier { failed: false, worse: false });
        assert_eq!(
            said(&[window(false, true, true), window(false, false, true)]),
            Earlier { failed: false, worse: true }
        );
        assert_eq!(said(&[window(true, false, false)]), Earlier { failed: true, worse: false });
        assert_eq!(earlier(&[window(true, false, true)], "b"), Earlier { failed: false, worse: false });
    }
}
