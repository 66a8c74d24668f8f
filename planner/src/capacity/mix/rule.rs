//! What the plan takes of a part's kinds, and the naive rules beside it.
//!
//! ```text
//! today's nodes are not enough    the cheapest mix that is enough in 97.5 % of resampled days; where that is not known, the cheapest that is enough
//! they are enough                 that mix where it costs at least 5 % less than today's nodes, unless such a mix broke the target in an earlier window in which
//!                                 today's nodes kept it
//! else                            change nothing
//! ```
//!
//! Where such a mix broke the target in an earlier window in which the upper end in today's proportions kept it, that upper end takes the place of the mix: what is cheapest has
//! the least slack.
//!
//! Naive are peak demand and mean demand / 80 %, in today's proportions and all of the kind whose GPUs cost least, of today's speed and with nodes that hold what today's hold.
//!
//! O(search). Worked number: today's 12 nodes are enough at 240 an hour; a mix of 230 changes nothing, one of 220 is had.

use schemars::JsonSchema;
use serde::Serialize;

use super::search::{Bench, Best, Mix};
use crate::capacity::search::Needed;
use crate::error::Result;
use crate::plan::offered::OfferedTraffic;
use crate::plan::recommendation::worth;

/// Where nodes by kind come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixBy {
    /// The nodes there are.
    Static,
    /// Recommendation of the plan.
    Recommended,
    /// The cheapest mix that kept the target before.
    Cheapest,
    /// The cheapest that kept it on 97.5 % of resampled days.
    Upper,
    /// The fewest that kept it before, in the proportions of today's kinds.
    Proportions,
    /// The upper end of their interval.
    ProportionsUpper,
    /// The peak of demand before, in these proportions.
    Peak,
    /// Mean demand over 0.8, in these proportions.
    Mean80,
    /// The peak, all of the cheapest kind for a GPU.
    PeakOfCheapest,
    /// Mean demand over 0.8, all of that kind.
    Mean80OfCheapest,
    /// The cheapest mix that is enough, seen with hindsight.
    Oracle,
}

impl MixBy {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 11] = [
        Self::Static,
        Self::Recommended,
        Self::Cheapest,
        Self::Upper,
        Self::Proportions,
        Self::ProportionsUpper,
        Self::Peak,
        Self::Mean80,
        Self::PeakOfCheapest,
        Self::Mean80OfCheapest,
        Self::Oracle,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Static => "nodes as they are",
            Self::Recommended => "what the plan recommends",
            Self::Cheapest => "cheapest mix that kept the target before",
            Self::Upper => "cheapest that kept it on 97.5 % of days drawn anew",
            Self::Proportions => "fewest that kept it before, today's proportions",
            Self::ProportionsUpper => "upper end of their interval",
            Self::Peak => "peak demand, today's proportions",
            Self::Mean80 => "mean demand / 80 %, today's proportions",
            Self::PeakOfCheapest => "peak demand, cheapest GPU",
            Self::Mean80OfCheapest => "mean demand / 80 %, cheapest GPU",
            Self::Oracle => "cheapest mix, with hindsight",
        }
    }

    /// Whether it rests on a number that kept the target.
    pub(super) fn rests_on_needed(self) -> bool {
        matches!(self, Self::Recommended | Self::Cheapest | Self::Upper | Self::Proportions | Self::ProportionsUpper)
    }
}

/// What earlier windows say of the upper mix of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Earlier {
    /// True if the mix broke the target in a window in which the nodes as they were kept it.
    pub(super) failed: bool,
    /// True if the mix broke the target in a window in which the upper end in today's proportions
    /// kept it.
    pub(super) worse: bool,
}

/// What is planned for a part.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// Today's nodes.
    pub(super) now: Mix,
    /// Whether they are enough.
    pub(super) enough_now: bool,
    /// The fewest in today's proportions.
    pub(super) proportions: Option<Mix>,
    /// The upper end of their interval.
    pub(super) proportions_upper: Option<Mix>,
    /// The cheapest, and the cheapest on other days.
    pub(super) cheapest: [Best; 2],
    /// Recommended stock.
    pub(super) recommended: Mix,
    /// By the peak and by the mean, in proportions; the same of the cheapest kind.
    pub(super) naive: [Mix; 4],
}

impl Planned {
    /// On the jobs of a bench, of which `needed` nodes are known to be enough in today's proportions. `earlier` is what the windows so far
    /// say of such mixes.
    ///
    /// # Errors
    /// Errors of [`crate::sim::simulate`].
    pub(super) fn of(
        bench: &Bench<'_>,
        needed: Option<&Needed>,
        request: &OfferedTraffic,
        earlier: Earlier,
    ) -> Result<Self> {
        let part = &bench.kinds.part;
        let in_proportions = |nodes: u32| bench.mix(part.counts(nodes));
        let now = bench.mix(part.now().to_vec());
        let enough_now = bench.is_enough(part.now())?;
        let counts = |nodes: Option<u32>| nodes.map(|nodes| part.counts(nodes));
        let known = [counts(needed.map(|needed| needed.value)), counts(needed.and_then(|needed| needed.high))];
        let cheapest = bench.cheapest(&known)?;
        let [kept, upper] = cheapest.each_ref().map(|best| best.mix.as_ref());
        let same =
            |nodes: u32| Some(in_proportions(nodes)).filter(|mix| earlier.worse && bench.kinds.is_had(&mix.counts));
        let upper_same = needed.and_then(|needed| needed.high).and_then(same);
        let kept_same = needed.and_then(|needed| same(needed.value));
        let (kept, upper) = (kept_same.as_ref().or(kept), upper_same.as_ref().or(upper));
        let cheaper = |upper: &Mix| worth(now.per_h - upper.per_h, now.per_h - upper.per_h, now.per_h);
        let recommended = match (kept, upper) {
            (None, _) => &now,
            (Some(kept), upper) if !enough_now => upper.unwrap_or(kept),
            (_, Some(upper)) if !earlier.failed && cheaper(upper) => upper,
            _ => &now,
        };
        let cheap = cheapest_kind(bench, request);
        let of_cheap = |gpus: f64| {
            let each = f64::from(bench.kinds.kinds.get(cheap).map_or(1, |kind| kind.gpus_per_node));
            bench.mix(bench.kinds.only(cheap, ((gpus.max(request.largest_gpus) / each).ceil() as u32).max(1)))
        };
        Ok(Self {
            recommended: recommended.clone(),
            enough_now,
            proportions: needed.map(|needed| in_proportions(needed.value)),
            proportions_upper: needed.map(|needed| in_proportions(needed.upper())),
            naive: [
                in_proportions(part.by_peak(request)),
                in_proportions(part.by_mean(request)),
                of_cheap(request.peak_gpus),
                of_cheap(request.mean_gpus / crate::capacity::rule::USUAL),
            ],
            now,
            cheapest,
        })
    }

    /// The nodes of a rule; those that there are where it rests on a number that is not known. The oracle is not planned.
    pub(super) fn by(&self, by: MixBy) -> &Mix {
        let [kept, upper] = &self.cheapest;
        let [peak, mean, peak_cheap, mean_cheap] = &self.naive;
        let result = match by {
            MixBy::Static | MixBy::Oracle => None,
            MixBy::Recommended => Some(&self.recommended),
            MixBy::Cheapest => kept.mix.as_ref(),
            MixBy::Upper => upper.mix.as_ref().or(kept.mix.as_ref()),
            MixBy::Proportions => self.proportions.as_ref(),
            MixBy::ProportionsUpper => self.proportions_upper.as_ref(),
            MixBy::Peak => Some(peak),
            MixBy::Mean80 => Some(mean),
            MixBy::PeakOfCheapest => Some(peak_cheap),
            MixBy::Mean80OfCheapest => Some(mean_cheap),
        };
        result.unwrap_or(&self.now)
    }
}

/// The kind whose GPUs cost least among those as fast as today's whose nodes hold what today's
/// largest hold, as far as a job asks for it.
fn cheapest_kind(bench: &Bench<'_>, request: &OfferedTraffic) -> usize {
    let part = &bench.kinds.part;
    let today = part.groups().iter().take(part.own_kinds()).map(|group| group.gpus_per_node).max().unwrap_or(1);
    let holds = request.largest_gpus.min(f64::from(today));
    let able = |kind: &usize| bench.kinds.kinds.get(*kind).is_some_and(|kind| f64::from(kind.gpus_per_node) >= holds);
    let queued = bench.queued().into_iter().filter(able);
    queued.min_by(|a, b| bench.per_gpu_h(*a).total_cmp(&bench.per_gpu_h(*b))).unwrap_or(0)
}
