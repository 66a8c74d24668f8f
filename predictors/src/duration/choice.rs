//! Choice of the model of duration from scores on earlier jobs, and of the simple rule shown beside
//! it.
//!
//! A model may be chosen if its 80 and 90 % intervals held no less than they say, but for 5 points and what chance allows so few jobs, not for want of history alone, and if its
//! losses at 50 and 90 % are not above the running mean's. Of those the one of least loss is used. If there is none it is the **best simple rule**: of the
//! models without a learner the one of least loss.
//!
//! O(jobs × models). Worked example: losses over the running mean's of 0.8, 0.9 and 1.2 have the mean 0.97.

use serde::Serialize;

use super::forecast::Model;
use super::order;
use super::rows::{Row, Rows};
use super::track::Track;
use crate::score::{Pinball, Score, score};

/// Why a model could not be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The model predicts one number, and no interval.
    NoInterval,
    /// The 80 or 90 % interval held too few of the runs of the jobs to choose on.
    Coverage,
    /// The interval was wide for most of the jobs to choose on, because too few had ended: that it
    /// held them says nothing.
    ShortHistory,
    /// The loss at 50 or 90 % was above the running mean's on the jobs to choose on.
    WorseThanRunningMean,
}

/// Coverage may fall so far short, and what chance allows, but never farther than twice that. One that holds more than it says keeps its word; that it is
/// wider than it need be is for the losses to punish.
const COVERAGE_OFF: f64 = 0.05;
/// Jobs that count as one where chance is reckoned with: like jobs are submitted together and run alike.
const ALIKE: f64 = 10.0;

/// Mean of three pinball losses, each as a share of another model's.
pub(super) fn loss_over(losses: Pinball, base: Pinball) -> f64 {
    (losses.p10 / base.p10 + losses.p50 / base.p50 + losses.p90 / base.p90) / 3.0
}

/// Scores of a track on the jobs that a model is chosen on.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    /// Model of the track.
    pub(crate) model: Model,
    /// Level by which its predictions order jobs best.
    pub(crate) ranked_at: f64,
    score: Score,
    short: bool,
    /// Whether its intervals held on the later half of these jobs alone.
    holds_later: bool,
}

impl Judged {
    /// Judges a calibrated track on its jobs from `from` on; `None` if none of them ran and ended.
    pub(crate) fn new(rows: &Rows, track: &Track, from: usize) -> Option<Self> {
        let ended = |at: usize| Some((at, rows.rows.get(at)?.y?));
        let known: Vec<(usize, f64)> = (from..rows.rows.len()).filter_map(ended).collect();
        let scored = |which: &[(usize, f64)]| {
            score(&which.iter().filter_map(|(at, y)| track.scored(*at, *y)).collect::<Vec<_>>())
        };
        Some(Self {
            model: track.model?,
            ranked_at: ranked_at(&rows.rows, track, &known),
            score: scored(&known)?,
            short: track.mostly_short(&known),
            holds_later: scored(known.get(known.len() / 2..).unwrap_or_default()).is_some_and(|score| holds(&score)),
        })
    }
}

/// The preferred model among candidates.
#[derive(Debug, Clone)]
pub(crate) struct Preferred {
    /// The model.
    pub(crate) judged: Judged,
    /// Whether its intervals held on these jobs, and on the later half of them alone.
    pub(crate) held: bool,
    /// The simple rule of least loss, and the loss of the model over that rule's.
    pub(crate) beside: Option<(Model, f64)>,
}

/// The model of least loss, of those that may be chosen; the best simple rule if none may. One is the running mean; `None` where that has no score.
pub(crate) fn prefer(candidates: &[Judged]) -> Option<Preferred> {
    let base = candidates.iter().find(|one| one.model == Model::RunningMean)?.score.pinball;
    let loss = |one: &Judged| loss_over(one.score.pinball, base);
    let least =
        |keep: &dyn Fn(&&Judged) -> bool| candidates.iter().filter(keep).min_by(|a, b| loss(a).total_cmp(&loss(b)));
    let best = least(&|one| refusal(&one.score, base, one.short).is_none());
    let simple = least(&|one| one.model.is_simple())?;
    let judged = best.unwrap_or(simple);
    Some(Preferred {
        judged: judged.clone(),
        held: best.is_some() && judged.holds_later,
        beside: Some((simple.model, loss(judged) / loss(simple))).filter(|(_, over)| over.is_finite()),
    })
}

/// The level by which a track's predictions order these jobs best.
pub(super) fn ranked_at(rows: &[Row], track: &Track, which: &[(usize, f64)]) -> f64 {
    let job = |(at, y): &(usize, f64)| {
        Some(order::Ordered {
            distribution: track.distributions.get(*at).copied().flatten()?,
            y: *y,
            gpus: rows.get(*at)?.gpus,
        })
    };
    order::best_level(&which.iter().filter_map(job).collect::<Vec<_>>())
}

/// Whether the 80 and 90 % intervals of a score reached their coverage, within 5 points and chance.
pub(super) fn holds(score: &Score) -> bool {
    let far = |coverage: f64, nominal: f64| {
        let chance = 2.0 * (nominal * (1.0 - nominal) * ALIKE / score.jobs.max(1) as f64).sqrt();
        nominal - coverage > COVERAGE_OFF + chance.min(COVERAGE_OFF)
    };
    !far(score.coverage80, 0.8) && !far(score.coverage90, 0.9)
}

/// Why a model with this score on the jobs to choose on may not be chosen.
pub(super) fn refusal(score: &Score, base: Pinball, short: bool) -> Option<Refusal> {
    if !holds(score) {
        return Some(Refusal::Coverage);
    }
    if short {
        return Some(Refusal::ShortHistory);
    }
    // Of the running mean itself, they are equal.
    let worse = score.pinball.p50 > base.p50 * (1.0 + 1e-9) || score.pinball.p90 > base.p90 * (1.0 + 1e-9);
    worse.then_some(Refusal::WorseThanRunningMean)
}
