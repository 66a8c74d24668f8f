//! The candidates of a cloud plan, and what each learns of a trace.
//!
//! A job that begins at a tick is decided with the trace before it and what it has seen since. The programmes are fitted at the start and refitted on what came since, at [`FITS`] moments in all, evenly spread
//! over the time to the loosest deadline; [over zones](crate::cloud::zones::programme) at more. Nothing of a later tick is in any decision.
//!
//! O(programmes). Worked number: of a job of 300 ticks the programmes are fitted before ticks 0, 100 and 200.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::{DeadlineJob, Pilot};
use super::programme::{Fitted, Programme, Programmed};
use super::rule::{AllOnDemand, Greedy, TimeSliced, UniformProgress};
use super::work::WorkDistribution;
use crate::cloud::elastic::programme::{Shared, modelled};
use crate::cloud::elastic::rule::UniformLanes;
use crate::cloud::elastic::{InLanes, LanesPilot};
use crate::market::availability::Supply;
use crate::market::price::ZonePrice;
use crate::plan::window::Window;
use tracecast_predictors::spot::phases::{Belief, MOST, Phases, Sighting};

/// Moments at which a programme is fitted during a job, the start included.
pub const FITS: usize = 3;

/// How a job with a deadline is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudPolicy {
    /// On-demand from beginning to end.
    OnDemand,
    /// Spot or nothing, until only on-demand makes the deadline.
    Greedy,
    /// Greedy within slices of the time.
    TimeSliced,
    /// Keeps the share of work done at the share of time passed.
    UniformProgress,
    /// A dynamic programme on a two-state Markov chain.
    Markov,
    /// A dynamic programme on phases, in which the age of a run or outage matters.
    SemiMarkov,
    /// SkyNomad's rule over zones.
    SkyNomad,
    /// The optimum that knows all availability.
    Omniscient,
}

impl CloudPolicy {
    /// All of one zone, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::OnDemand,
        Self::Greedy,
        Self::TimeSliced,
        Self::UniformProgress,
        Self::Markov,
        Self::SemiMarkov,
        Self::Omniscient,
    ];
    /// All over several zones, in the order of tables.
    pub const TOGETHER: [Self; 6] =
        [Self::OnDemand, Self::Greedy, Self::UniformProgress, Self::SkyNomad, Self::SemiMarkov, Self::Omniscient];
    /// Policies to choose from in one zone.
    pub const CAUSAL: [Self; 6] =
        [Self::SemiMarkov, Self::Markov, Self::UniformProgress, Self::TimeSliced, Self::Greedy, Self::OnDemand];

    /// Policies to choose from over several zones.
    pub const CAUSAL_TOGETHER: [Self; 5] =
        [Self::SemiMarkov, Self::SkyNomad, Self::UniformProgress, Self::Greedy, Self::OnDemand];

    /// Policies to choose from in one zone where none may forecast.
    pub(super) const NAIVE: [Self; 4] = [Self::UniformProgress, Self::TimeSliced, Self::Greedy, Self::OnDemand];
    /// Policies to choose from over several zones where none may forecast.
    pub(super) const NAIVE_TOGETHER: [Self; 3] = [Self::UniformProgress, Self::Greedy, Self::OnDemand];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::OnDemand => "all on-demand",
            Self::Greedy => "greedy",
            Self::TimeSliced => "time-sliced",
            Self::UniformProgress => "Uniform Progress",
            Self::Markov => "Markov programme",
            Self::SemiMarkov => "semi-Markov programme",
            Self::SkyNomad => "SkyNomad's rule",
            Self::Omniscient => "omniscient optimum",
        }
    }

    /// Whether it decides from the past alone.
    pub fn causal(self) -> bool {
        self != Self::Omniscient
    }

    /// Phases of each kind of its programme, if it is one.
    pub(super) fn phases(self) -> Option<usize> {
        match self {
            Self::Markov => Some(1),
            Self::SemiMarkov => Some(MOST),
            _ => None,
        }
    }
}

/// What is learned for a window: from which tick of the job on, the phases, and the belief before that tick.
pub(super) type Learned = Vec<(usize, Phases, Belief)>;

/// What is learned of one instance for a job that begins at tick `start`.
pub(super) fn learned(up: &[bool], start: usize, policy: CloudPolicy, tick_ms: i64, ticks: usize) -> Learned {
    learned_at(&evenly(ticks), up, start, policy, tick_ms)
}

/// The moments of a job of so many ticks at which a programme is fitted.
pub(super) fn evenly(ticks: usize) -> Vec<usize> {
    (0..FITS).map(|fit| ticks * fit / FITS).collect()
}

/// What [`learned`] learns, at the given `moments` of the job, the start first.
pub(super) fn learned_at(moments: &[usize], up: &[bool], start: usize, policy: CloudPolicy, tick_ms: i64) -> Learned {
    let mut learned: Learned = Vec::new();
    let Some(each) = policy.phases() else { return learned };
    for from in moments.iter().copied() {
        if !learned.is_empty() && (from == 0 || start + from >= up.len()) {
            break;
        }
        let past = up.get(..start + from).unwrap_or(up);
        let (phases, before) = learned_from(past, learned.last().map(|(_, before, _)| before), each, tick_ms);
        learned.push((from, phases, before));
    }
    learned
}

/// Phases, `each` of a kind, and the belief after what was seen: fitted anew, or from those that were fitted before.
pub(super) fn learned_from<S: Sighting>(
    past: &[S],
    before: Option<&Phases>,
    each: usize,
    tick_ms: i64,
) -> (Phases, Belief) {
    let phases = match before {
        None => Phases::fit(past, each, tick_ms),
        Some(before) => before.again(past),
    };
    let phases = if each > 1 { phases.with_hours(past) } else { phases };
    let belief = phases.after(past);
    (phases, belief)
}

/// What is learned of each lane that has a model of its own.
pub(super) fn learned_lanes(
    supply: &Supply,
    start: usize,
    policy: CloudPolicy,
    tick_ms: i64,
    ticks: usize,
) -> Vec<Learned> {
    if policy.phases().is_none() {
        return Vec::new();
    }
    modelled(supply.lanes).into_iter().map(|lane| learned(&supply.lane(lane), start, policy, tick_ms, ticks)).collect()
}

/// What is learned: for which policy, from which tick on, and for how many.
type Lesson = (CloudPolicy, usize, usize);

/// What has been learned of each lane of a zone. Prices, work and changeover are nothing to it, so a plan that tries many of them learns once.
#[derive(Debug)]
pub(super) struct Lessons {
    /// Availability in the zone.
    pub(super) supply: Supply,
    /// Length of its ticks, milliseconds.
    pub(super) tick_ms: i64,
    kept: Mutex<BTreeMap<Lesson, Arc<Vec<Learned>>>>,
}

impl Lessons {
    pub(super) fn new(supply: Supply, tick_ms: i64) -> Self {
        Self { supply, tick_ms, kept: Mutex::default() }
    }

    /// Returns what [`learned_lanes`] learns, and keeps it, so each question is computed once.
    pub(super) fn of(&self, start: usize, policy: CloudPolicy, ticks: usize) -> Arc<Vec<Learned>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (policy, start, ticks);
        if let Some(result) = kept().get(&key) {
            return Arc::clone(result);
        }
        let result = Arc::new(learned_lanes(&self.supply, start, policy, self.tick_ms, ticks));
        kept().insert(key, Arc::clone(&result));
        result
    }
}

/// The programmes of one of `lanes` lanes of a job that begins at tick `start`. The work of a job of one lane may be uncertain; its own is the top of it then.
pub(super) fn programmes(
    learned: &Learned,
    lanes: usize,
    start: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    work: Option<&WorkDistribution>,
) -> Vec<(usize, Programme, Belief)> {
    let solve = |phases: Phases| match lanes {
        0 | 1 => Programme::solve_uncertain(phases, tick_ms, job, start, work),
        _ => Programme::solve_lane(phases, tick_ms, job, start),
    };
    let within = learned.iter().filter(|(from, ..)| *from < job.ticks(tick_ms));
    within.map(|(from, phases, before)| (*from, solve(phases.clone()), before.clone())).collect()
}

/// The [`programmes`] of each lane that has its own model.
pub(super) fn lanes_programmes(
    learned: &[Learned],
    lanes: usize,
    start: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    work: Option<&WorkDistribution>,
) -> Vec<Vec<(usize, Programme, Belief)>> {
    learned.iter().map(|of| programmes(of, lanes, start, tick_ms, job, work)).collect()
}

/// The price of spot in each tick of a window over that at its start, and the price of on-demand over that; no prices where none are known.
///
/// Where the price at the start is not known, it is the price of on-demand over `ratio`. Where the price of on-demand is not known, it is `ratio` times the first
/// price of spot that is.
pub(super) fn relative(price: Option<&ZonePrice>, window: &Window, ratio: f64) -> (Vec<f64>, f64) {
    let Some(price) = price else { return (Vec::new(), ratio) };
    let Some(on_demand) = price.on_demand_or(ratio) else { return (Vec::new(), ratio) };
    let first = price.spot.get(window.ahead.start).copied().flatten().unwrap_or(on_demand / ratio);
    let ahead = price.spot.get(window.ahead.clone()).unwrap_or_default();
    (ahead.iter().map(|price| price.map_or(1.0, |price| price / first)).collect(), on_demand / first)
}

/// The pilot of a policy of one instance that decides from the past.
pub(super) fn pilot<'a>(policy: CloudPolicy, fitted: &'a Fitted) -> Box<dyn Pilot + 'a> {
    match policy {
        CloudPolicy::Greedy => Box::new(Greedy),
        CloudPolicy::TimeSliced => Box::new(TimeSliced),
        CloudPolicy::UniformProgress => Box::new(UniformProgress),
        CloudPolicy::Markov | CloudPolicy::SemiMarkov => Box::new(Programmed::new(fitted)),
        CloudPolicy::OnDemand | CloudPolicy::SkyNomad | CloudPolicy::Omniscient => Box::new(AllOnDemand),
    }
}

/// The pilot of a policy of lanes that decides from the past; `fitted` are the programmes of those with a model of their own. `work` is what programmes of several lanes know of work that is uncertain; that of one lane
/// is in its programmes.
pub(super) fn lanes_pilot<'a>(
    policy: CloudPolicy,
    lanes: usize,
    fitted: &'a [Vec<(usize, Programme, Belief)>],
    work: Option<&'a WorkDistribution>,
) -> Box<dyn LanesPilot + 'a> {
    match policy {
        CloudPolicy::UniformProgress => Box::new(UniformLanes),
        CloudPolicy::Markov | CloudPolicy::SemiMarkov if lanes > 1 => {
            Box::new(Shared::new(lanes, fitted.iter().map(Vec::as_slice), work))
        }
        _ => Box::new(InLanes(pilot(policy, fitted.first().map(Vec::as_slice).unwrap_or_default()))),
    }
}
