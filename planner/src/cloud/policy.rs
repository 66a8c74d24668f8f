//! The candidates of a cloud plan, and how each is tried on a window of a trace.
//!
//! A job that begins with a window is decided with the trace before the window and what it has seen since; [`attempt`] tries every candidate on it, and
//! the omniscient optimum beside them. The programmes are fitted at the start and refitted on what came since, at [`FITS`] moments in all, evenly spread
//! over the time to the loosest deadline. Nothing of a later tick is in any decision.
//!
//! O(programmes + optima). Worked number: 48 h of work in ticks of 195 s takes about a quarter of a second a window for three deadlines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::job::{DeadlineJob, Holding, JobRun, Pilot, Script};
use super::lanes::{InLanes, LanesPilot, Supply, ride_lanes, ride_misled, ride_without_net};
use super::lanes_optimum::{lanes_optimum, whole};
use super::lanes_programme::{Shared, modelled};
use super::lanes_rule::UniformLanes;
use super::optimum::{optima, optimum};
use super::phases::{Belief, MOST, Phases};
use super::price::ZonePrice;
use super::programme::{Fitted, Programme, Programmed};
use super::rule::{AllOnDemand, Greedy, TimeSliced, UniformProgress};
use super::work::WorkDistribution;
use crate::error::Result;
use crate::plan::window::Window;

/// Moments at which a programme is fitted during a job, the start included.
pub const FITS: usize = 3;

/// How a job with a deadline is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudPolicy {
    /// On-demand from beginning to end.
    OnDemand,
    /// Spot or nothing, until only on-demand makes the deadline.
    Greedy,
    /// Greedy within slices of the time.
    TimeSliced,
    /// As much progress as time has passed.
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
    /// Those to choose from in one zone.
    pub const CAUSAL: [Self; 6] =
        [Self::SemiMarkov, Self::Markov, Self::UniformProgress, Self::TimeSliced, Self::Greedy, Self::OnDemand];

    /// Those to choose from over several zones.
    pub const CAUSAL_TOGETHER: [Self; 5] =
        [Self::SemiMarkov, Self::SkyNomad, Self::UniformProgress, Self::Greedy, Self::OnDemand];

    /// In words.
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

/// What a window cost under each policy, for one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Each policy that was tried, and what became of it.
    pub runs: Vec<(CloudPolicy, JobRun)>,
    /// Cost of all on-demand: spot milliseconds, or dollars over several zones.
    pub on_demand: f64,
}

impl Attempt {
    /// The run of a policy.
    pub fn run(&self, policy: CloudPolicy) -> JobRun {
        self.runs.iter().find(|(of, _)| *of == policy).map(|(_, run)| *run).unwrap_or_default()
    }

    /// Its cost as a share of all on-demand.
    pub fn share(&self, policy: CloudPolicy) -> f64 {
        self.run(policy).cost / self.on_demand
    }

    /// Its cost above that of the optimum, as a share of that.
    pub fn over_omniscient(&self, policy: CloudPolicy) -> f64 {
        self.run(policy).cost / self.run(CloudPolicy::Omniscient).cost - 1.0
    }
}

/// What is learned for a window: from which tick of the job on, the phases, and the belief before that tick.
pub(super) type Learned = Vec<(usize, Phases, Belief)>;

/// What is learned of one instance for a job that begins at tick `start`.
pub(super) fn learned(up: &[bool], start: usize, policy: CloudPolicy, tick_ms: i64, ticks: usize) -> Learned {
    let mut learned: Learned = Vec::new();
    let Some(each) = policy.phases() else { return learned };
    for fit in 0..FITS {
        let from = ticks * fit / FITS;
        if fit > 0 && (from == 0 || start + from >= up.len()) {
            break;
        }
        let past = up.get(..start + from).unwrap_or(up);
        let phases = match learned.last() {
            None => Phases::fit(past, each, tick_ms),
            Some((_, before, _)) => before.again(past),
        };
        let phases = if each > 1 { phases.with_hours(past) } else { phases };
        let before = phases.after(past);
        learned.push((from, phases, before));
    }
    learned
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

/// The programmes of one of `lanes` lanes of a job that begins at tick `start`.
pub(super) fn programmes(
    learned: &Learned,
    lanes: usize,
    start: usize,
    tick_ms: i64,
    job: &DeadlineJob,
) -> Vec<(usize, Programme, Belief)> {
    programmes_of(learned, lanes, start, tick_ms, job, None)
}

/// As [`programmes`], where the work of a job of one lane may be uncertain, and its own is the top of it.
pub(super) fn programmes_of(
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

/// Tries all policies on a job that begins with a window, for each of `jobs`, which differ in their deadlines alone. `price` stands for their price ratio where it
/// is known. With several lanes the deadline is [`whole`].
///
/// # Errors
/// If the optimum cannot be computed exactly.
pub fn attempt(
    supply: &Supply,
    price: Option<&ZonePrice>,
    tick_ms: i64,
    window: &Window,
    jobs: &[DeadlineJob],
) -> Result<Vec<Attempt>> {
    attempt_of(&CloudPolicy::ALL, supply, price, tick_ms, window, jobs)
}

/// What is known of an uncertain work, and whether programmes plan on it or on its top. Only of a job of one lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    /// Its distribution.
    pub(super) work: &'a WorkDistribution,
    /// Whether programmes plan on it.
    pub(super) planned: bool,
}

impl<'a> Told<'a> {
    /// Of a request whose work is uncertain.
    pub(super) fn of(work: Option<&'a WorkDistribution>) -> Option<Self> {
        work.map(|work| Self { work, planned: true })
    }
}

/// What becomes of a job of one lane that holds what a list says, and how many ticks it took.
fn held_for(held: &[Holding], (up, price): (&[bool], &[f64]), tick_ms: i64, job: &DeadlineJob) -> (JobRun, i64) {
    let (mut ticks, held) = (0, held.to_vec());
    let mut script = Script(held.into_iter());
    let run = ride_without_net(&mut script, up, price, tick_ms, job, &mut |_| ticks += 1);
    (run, ticks)
}

/// The mean of runs by their chances; missed if any is.
fn weighed(runs: impl Iterator<Item = (f64, JobRun)>) -> JobRun {
    let (mut mean, mut sums) = (JobRun::default(), [0.0; 4]);
    for (chance, run) in runs {
        mean.cost += chance * run.cost;
        mean.missed |= run.missed;
        let figures = [run.spot_ms as f64, run.on_demand_ms as f64, run.changeovers as f64, run.lost as f64];
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += chance * figure);
    }
    let [spot_ms, on_demand_ms, changeovers, lost] = sums.map(f64::round);
    JobRun {
        spot_ms: spot_ms as i64,
        on_demand_ms: on_demand_ms as i64,
        changeovers: changeovers as usize,
        lost: lost as usize,
        ..mean
    }
}

/// As [`attempt`], of some policies, where the work may be uncertain: each run and the cost of all on-demand is then a mean over its amounts, and a deadline is missed if it is for any amount up to the
/// top.
///
/// # Errors
/// As [`attempt`].
pub(super) fn attempt_told(
    policies: &[CloudPolicy],
    supply: &Supply,
    price: Option<&ZonePrice>,
    tick_ms: i64,
    window: &Window,
    jobs: &[DeadlineJob],
    told: Option<Told<'_>>,
) -> Result<Vec<Attempt>> {
    let Some(told) = told else { return attempt_of(policies, supply, price, tick_ms, window, jobs) };
    let (start, lanes) = (window.ahead.start, supply.lanes);
    let ticks = jobs.iter().map(|job| job.ticks(tick_ms)).max().unwrap_or(0);
    let ahead = supply.within(window.ahead.clone());
    let up: Vec<bool> = ahead.iter().map(|up| *up > 0).collect();
    let amounts = told.work.amounts();
    let works: Vec<i64> = amounts.iter().map(|(work_ms, _)| *work_ms).collect();
    let mut attempts = Vec::with_capacity(jobs.len());
    let mut models: Vec<(CloudPolicy, Vec<Learned>)> = Vec::new();
    for policy in policies.iter().copied().filter(|policy| policy.causal()) {
        models.push((policy, learned_lanes(supply, start, policy, tick_ms, ticks)));
    }
    for job in jobs {
        let (prices, price_ratio) = relative(price, window, job.price_ratio);
        let job = DeadlineJob { price_ratio, ..*job };
        let of = |work_ms: i64| DeadlineJob { work_ms, ..job };
        let on_demand = amounts.iter().map(|(work_ms, chance)| chance * of(*work_ms).on_demand_cost()).sum::<f64>();
        let mut runs: Vec<(CloudPolicy, JobRun)> = Vec::with_capacity(policies.len());
        for policy in policies.iter().copied() {
            let learned = models.iter().find(|(of, _)| *of == policy).map(|(_, learned)| learned.as_slice());
            let run = match learned {
                None => {
                    let costs = optima(&up, &prices, tick_ms, &job, &works)?;
                    let cost = costs.iter().zip(&amounts).map(|(cost, (_, chance))| chance * cost).sum();
                    JobRun { cost, ..JobRun::default() }
                }
                Some(learned) => {
                    let work = told.planned.then_some(told.work);
                    let fitted: Vec<Vec<(usize, Programme, Belief)>> =
                        learned.iter().map(|of| programmes_of(of, lanes, start, tick_ms, &job, work)).collect();
                    // Nobody knows the amount before it is done, so that all jobs hold the same until they are.
                    let mut held = Vec::new();
                    let mut seen = |of: &[Holding]| held.extend_from_slice(of);
                    let mut pilot = lanes_pilot(policy, lanes, &fitted);
                    let top = ride_lanes(pilot.as_mut(), (ahead, &prices), lanes, tick_ms, &job, &mut seen);
                    let ride = |work_ms: i64| held_for(&held, (&up, &prices), tick_ms, &of(work_ms)).0;
                    // The top is kept as well, though it may have no chance of its own.
                    let top = std::iter::once((0.0, top));
                    weighed(amounts.iter().map(|(work_ms, chance)| (*chance, ride(*work_ms))).chain(top))
                }
            };
            runs.push((policy, run));
        }
        attempts.push(Attempt { runs, on_demand });
    }
    Ok(attempts)
}

/// As [`attempt`], of some policies.
///
/// # Errors
/// As [`attempt`].
pub(super) fn attempt_of(
    policies: &[CloudPolicy],
    supply: &Supply,
    price: Option<&ZonePrice>,
    tick_ms: i64,
    window: &Window,
    jobs: &[DeadlineJob],
) -> Result<Vec<Attempt>> {
    let (start, lanes) = (window.ahead.start, supply.lanes);
    let priced: Vec<(DeadlineJob, Vec<f64>)> = jobs
        .iter()
        .map(|job| {
            let (prices, price_ratio) = relative(price, window, job.price_ratio);
            let job = DeadlineJob { price_ratio, ..*job };
            (if lanes > 1 { whole(&job, tick_ms) } else { job }, prices)
        })
        .collect();
    let ticks = jobs.iter().map(|job| job.ticks(tick_ms)).max().unwrap_or(0);
    let ahead = supply.within(window.ahead.clone());
    let mut attempts: Vec<Attempt> = priced
        .iter()
        .map(|(job, _)| Attempt {
            runs: Vec::with_capacity(policies.len()),
            on_demand: job.on_demand_cost() * lanes as f64,
        })
        .collect();
    for policy in policies.iter().copied() {
        let learned = learned_lanes(supply, start, policy, tick_ms, ticks);
        for ((job, prices), attempt) in priced.iter().zip(&mut attempts) {
            let run = match policy {
                CloudPolicy::Omniscient => {
                    let cost = if lanes > 1 {
                        lanes_optimum(ahead, lanes, prices, tick_ms, job)?
                    } else {
                        optimum(&Supply { lanes, up: ahead.to_vec() }.lane(0), prices, tick_ms, job)?
                    };
                    JobRun { cost, ..JobRun::default() }
                }
                _ => {
                    let fitted: Vec<Vec<(usize, Programme, Belief)>> =
                        learned.iter().map(|of| programmes(of, lanes, start, tick_ms, job)).collect();
                    let mut pilot = lanes_pilot(policy, lanes, &fitted);
                    ride_lanes(pilot.as_mut(), (ahead, prices), lanes, tick_ms, job, &mut |_| ())
                }
            };
            attempt.runs.push((policy, run));
        }
    }
    Ok(attempts)
}

/// What becomes of a job that has other work than its policy was told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MisledRun {
    /// Cost until it is done, spot milliseconds.
    pub(super) cost: f64,
    /// Cost of all on-demand of the work that there is.
    pub(super) on_demand: f64,
    /// Whether its deadline passed before it was done.
    pub(super) missed: bool,
    /// How long after its deadline it was done, to the tick, milliseconds.
    pub(super) late_ms: i64,
}

/// Tries a policy, told `job`, on those that have each of `works_ms` of work instead and begin with a window.
pub(super) fn misled_by(
    supply: &Supply,
    price: Option<&ZonePrice>,
    tick_ms: i64,
    window: &Window,
    (job, works_ms): (&DeadlineJob, &[i64]),
    policy: CloudPolicy,
) -> Vec<MisledRun> {
    let (start, lanes) = (window.ahead.start, supply.lanes);
    // As long as it may take: on-demand for all of it, from the deadline on.
    let longest_ms = job.deadline_ms + works_ms.iter().max().unwrap_or(&0) + 2 * job.changeover_ms;
    let ticks = DeadlineJob { deadline_ms: longest_ms, ..*job }.ticks(tick_ms);
    let window = Window { past: window.past.clone(), ahead: start..(start + ticks).min(supply.up.len()) };
    let (prices, price_ratio) = relative(price, &window, job.price_ratio);
    let told = DeadlineJob { price_ratio, ..*job };
    let told = if lanes > 1 { whole(&told, tick_ms) } else { told };
    let learned = learned_lanes(supply, start, policy, tick_ms, told.ticks(tick_ms));
    let fitted: Vec<Vec<(usize, Programme, Belief)>> =
        learned.iter().map(|of| programmes(of, lanes, start, tick_ms, &told)).collect();
    let ahead = supply.within(window.ahead);
    let misled = |work_ms: i64, deadline_ms: i64, seen: &mut dyn FnMut(&[Holding])| {
        let job = DeadlineJob { work_ms, deadline_ms, ..told };
        let mut pilot = lanes_pilot(policy, lanes, &fitted);
        ride_misled(pilot.as_mut(), &told, (ahead, &prices), lanes, tick_ms, &job, seen)
    };
    // In one lane all hold the same until they are done, as nobody knows the amount before.
    let mut held = Vec::new();
    if let (1, Some(most_ms)) = (lanes, works_ms.iter().max()) {
        misled(*most_ms, longest_ms, &mut |of| held.extend_from_slice(of));
    }
    let up: Vec<bool> = ahead.iter().map(|up| *up > 0).collect();
    let ride = |work_ms: i64, deadline_ms: i64| {
        let job = DeadlineJob { work_ms, deadline_ms, ..told };
        if lanes == 1 {
            let (run, ticks) = held_for(&held, (&up, &prices), tick_ms, &job);
            return (run, ticks * tick_ms);
        }
        let mut ticks = 0;
        let run = misled(work_ms, deadline_ms, &mut |_| ticks += 1);
        (run, ticks * tick_ms)
    };
    let of = |work_ms: &i64| {
        let (run, ended_ms) = ride(*work_ms, longest_ms);
        let missed = ride(*work_ms, told.deadline_ms).0.missed;
        MisledRun {
            cost: run.cost,
            on_demand: DeadlineJob { work_ms: *work_ms, ..told }.on_demand_cost() * lanes as f64,
            missed,
            late_ms: if missed { (ended_ms - told.deadline_ms).max(0) } else { 0 },
        }
    };
    works_ms.iter().map(of).collect()
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

/// The pilot of a policy of lanes that decides from the past; `fitted` are the programmes of those with a model of their own.
pub(super) fn lanes_pilot<'a>(
    policy: CloudPolicy,
    lanes: usize,
    fitted: &'a [Vec<(usize, Programme, Belief)>],
) -> Box<dyn LanesPilot + 'a> {
    match policy {
        CloudPolicy::UniformProgress => Box::new(UniformLanes),
        CloudPolicy::Markov | CloudPolicy::SemiMarkov if lanes > 1 => {
            Box::new(Shared::new(lanes, fitted.iter().map(Vec::as_slice)))
        }
        _ => Box::new(InLanes(pilot(policy, fitted.first().map(Vec::as_slice).unwrap_or_default()))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::lanes::{ride, ride_uncertain};
    use super::super::optimum::tests::by_trying;
    use super::*;
    use crate::plan::window::spread;

    const MIN: i64 = 60_000;

    /// An enemy: spot is up until the job has been on it for long enough to have paid for `patience` ticks, then dies; and comes back when the job
    /// has left for on-demand.
    fn adversary(
        policy: CloudPolicy,
        past: &[bool],
        ticks: usize,
        tick_ms: i64,
        job: &DeadlineJob,
        patience: usize,
    ) -> Vec<bool> {
        // The policy is replayed on the trace so far, tick by tick, and the next tick is what hurts.
        let mut ahead: Vec<bool> = Vec::new();
        for _ in 0..ticks {
            let up = [past, ahead.as_slice()].concat();
            let fitted = programmes(&learned(&up, past.len(), policy, tick_ms, ticks), 1, past.len(), tick_ms, job);
            let mut held = Vec::new();
            ride(pilot(policy, &fitted).as_mut(), &ahead, tick_ms, job, &mut |holding| held.push(holding));
            held.truncate(ahead.len());
            let on_spot = held.iter().rev().take_while(|holding| **holding == Holding::Spot).count();
            ahead.push(on_spot < patience);
        }
        ahead
    }

    /// A job at three times the price of spot, in minutes; its deadline is `odd_ms` later than whole minutes.
    fn in_minutes(work_min: i64, spare_min: i64, changeover_min: i64, odd_ms: i64) -> DeadlineJob {
        DeadlineJob {
            work_ms: work_min * MIN,
            deadline_ms: (work_min + changeover_min + spare_min) * MIN + odd_ms,
            changeover_ms: changeover_min * MIN,
            price_ratio: 3.0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn no_trace_makes_a_policy_miss_and_none_beats_the_optimum(
            past in prop::collection::vec(any::<bool>(), 0..30),
            ahead in prop::collection::vec(any::<bool>(), 10),
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..60,
            changeover_min in 0i64..20,
        ) {
            let tick_ms = tick_min * MIN;
            let job = in_minutes(work_min, spare_min, changeover_min, 0);
            prop_assume!(job.ticks(tick_ms) <= 10);
            let up = [past.as_slice(), ahead.as_slice()].concat();
            let window = Window { past: 0..past.len(), ahead: past.len()..up.len() };
            let tried = attempt(&Supply::one(&up), None, tick_ms, &window, &[job]).unwrap();
            let least = tried[0].run(CloudPolicy::Omniscient).cost;
            if job.ticks(tick_ms) <= 7 {
                let all = by_trying(&ahead, &[], tick_ms, &job);
                prop_assert!((all - least).abs() < 1e-9 * all);
            }
            for policy in CloudPolicy::CAUSAL {
                let run = tried[0].run(policy);
                prop_assert!(!run.missed, "{policy:?} misses");
                prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
            }
            // The work may be anything up to that: none misses it either, and none beats the optimum that knows it.
            let levels = [(0.2, work_min.div_euclid(3).max(1)), (0.6, work_min.div_euclid(2).max(1)), (0.9, work_min)];
            let work = WorkDistribution::of(&levels.map(|(level, minutes)| (level, minutes * MIN))).unwrap();
            for planned in [true, false] {
                let told = Some(Told { work: &work, planned });
                let supply = Supply::one(&up);
                let tried = attempt_told(&CloudPolicy::ALL, &supply, None, tick_ms, &window, &[job], told).unwrap();
                let least = tried[0].run(CloudPolicy::Omniscient).cost;
                for policy in CloudPolicy::CAUSAL {
                    let run = tried[0].run(policy);
                    prop_assert!(!run.missed, "{policy:?} misses uncertain work");
                    if policy.phases().is_none() {
                        // Each amount on its own, with the safety net.
                        let alone = work.amounts().into_iter().map(|(work_ms, chance)| {
                            let mut pilot = lanes_pilot(policy, 1, &[]);
                            let of = (&job, work_ms);
                            chance * ride_uncertain(pilot.as_mut(), (supply.within(window.ahead.clone()), &[]), 1, tick_ms, of).cost
                        });
                        let alone: f64 = alone.sum();
                        prop_assert!((run.cost - alone).abs() <= 1e-9 * alone, "{policy:?}: {} and {alone}", run.cost);
                    }
                    prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
                }
            }
        }

        #[test]
        fn nor_does_one_that_hates_it(
            past in prop::collection::vec(any::<bool>(), 0..20),
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..40,
            changeover_min in 0i64..20,
            patience in 1usize..4,
        ) {
            let tick_ms = tick_min * MIN;
            let job = in_minutes(work_min, spare_min, changeover_min, 1);
            let ticks = job.ticks(tick_ms);
            prop_assume!(ticks <= 12);
            for policy in CloudPolicy::CAUSAL {
                let ahead = adversary(policy, &past, ticks, tick_ms, &job, patience);
                let up = [past.as_slice(), ahead.as_slice()].concat();
                let fitted = programmes(&learned(&up, past.len(), policy, tick_ms, ticks), 1, past.len(), tick_ms, &job);
                let run = ride(pilot(policy, &fitted).as_mut(), &ahead, tick_ms, &job, &mut |_| ());
                prop_assert!(!run.missed, "{policy:?}");
            }
        }
    }

    /// 2 h of work said, 3 h to the deadline, no spot: greedy waits an hour. Of 3 h in truth the last comes after the deadline; of 1 h it pays one.
    #[test]
    fn work_that_is_not_as_said() {
        const HOUR: i64 = 60 * MIN;
        let supply = Supply::one(&[false; 10]);
        let window = Window { past: 0..2, ahead: 2..5 };
        let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 3 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
        let of = |supply: &Supply, work_ms: i64| {
            let run = misled_by(supply, None, HOUR, &window, (&job, &[work_ms]), CloudPolicy::Greedy)[0];
            (run.cost / HOUR as f64, run.on_demand / HOUR as f64, run.missed, run.late_ms / HOUR)
        };
        assert_eq!(of(&supply, 3 * HOUR), (9.0, 9.0, true, 1));
        assert_eq!(of(&supply, HOUR), (3.0, 3.0, false, 0));
        assert_eq!(of(&supply, 2 * HOUR), (6.0, 6.0, false, 0));
        // Spot that is held once the work said is done is used to its end: here it is lost after the third hour.
        let spot: Vec<bool> = (0..10).map(|tick| (2..5).contains(&tick)).collect();
        assert_eq!(of(&Supply::one(&spot), 4 * HOUR), (6.0, 12.0, true, 1));
    }

    /// Where spot never comes, the programmes begin on-demand once and keep it, whatever they expected of spot: it costs all on-demand.
    #[test]
    fn a_zone_without_spot_costs_one_changeover() {
        let supply = Supply::one(&[false; 3000]);
        for changeover_min in [7, 30] {
            for slack in [0.6, 0.9] {
                let job = DeadlineJob::new(17 * 60 * MIN, slack, changeover_min * MIN, 3.0).unwrap();
                for window in spread(&(0..3000), job.ticks(5 * MIN), 4) {
                    let tried = attempt(&supply, None, 5 * MIN, &window, &[job]).unwrap();
                    for policy in [CloudPolicy::Markov, CloudPolicy::SemiMarkov] {
                        let run = tried[0].run(policy);
                        assert!(
                            (tried[0].share(policy) - 1.0).abs() < 1e-9,
                            "{policy:?} {changeover_min} {slack}: {run:?}"
                        );
                    }
                }
            }
        }
    }

    /// What comes after a tick changes no decision up to it: the cost up to there is the same whatever follows.
    #[test]
    fn the_future_changes_no_decision() {
        let past: Vec<bool> = (0..600).map(|tick| tick / 7 % 3 != 0).collect();
        let job = DeadlineJob { work_ms: 600 * MIN, deadline_ms: 800 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let held = |ahead: &[bool], policy: CloudPolicy| {
            let up = [past.as_slice(), ahead].concat();
            let fitted = programmes(&learned(&up, past.len(), policy, 5 * MIN, 160), 1, past.len(), 5 * MIN, &job);
            let mut held = Vec::new();
            ride(pilot(policy, &fitted).as_mut(), ahead, 5 * MIN, &job, &mut |holding| held.push(holding));
            held
        };
        let one: Vec<bool> = (0..160).map(|tick| tick / 11 % 2 == 0).collect();
        for cut in [1, 60, 100] {
            let mut other = one.clone();
            other[cut..].iter_mut().for_each(|up| *up = !*up);
            for policy in CloudPolicy::CAUSAL {
                let (first, second) = (held(&one, policy), held(&other, policy));
                assert_eq!(first.get(..cut), second.get(..cut), "{policy:?}");
            }
        }
    }

    /// What each policy of lanes holds on `ahead` after `past`.
    fn held_in_lanes(
        policy: CloudPolicy,
        lanes: usize,
        past: &[u32],
        ahead: &[u32],
        tick_ms: i64,
        job: &DeadlineJob,
    ) -> (Vec<Vec<Holding>>, JobRun) {
        let supply = Supply { lanes, up: [past, ahead].concat() };
        let learned = learned_lanes(&supply, past.len(), policy, tick_ms, job.ticks(tick_ms));
        let fitted: Vec<Vec<(usize, Programme, Belief)>> =
            learned.iter().map(|of| programmes(of, lanes, past.len(), tick_ms, job)).collect();
        let mut held = Vec::new();
        let mut pilot = lanes_pilot(policy, lanes, &fitted);
        let run = ride_lanes(pilot.as_mut(), (ahead, &[]), lanes, tick_ms, job, &mut |of| held.push(of.to_vec()));
        (held, run)
    }

    /// An enemy of an elastic job: spot of a lane is there until the lane has been on it for `patience` ticks.
    fn enemy_of_lanes(
        policy: CloudPolicy,
        lanes: usize,
        past: &[u32],
        tick_ms: i64,
        job: &DeadlineJob,
        patience: usize,
    ) -> Vec<u32> {
        let mut ahead: Vec<u32> = Vec::new();
        for _ in 0..job.ticks(tick_ms) {
            let (mut held, _) = held_in_lanes(policy, lanes, past, &ahead, tick_ms, job);
            held.truncate(ahead.len());
            let tired = |lane: usize| {
                held.iter().rev().take_while(|held| held.get(lane) == Some(&Holding::Spot)).count() >= patience
            };
            ahead.push((0..lanes).find(|lane| tired(*lane)).unwrap_or(lanes) as u32);
        }
        ahead
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_trace_makes_an_elastic_job_miss_and_none_beats_the_optimum(
            lanes in 1usize..4,
            past in prop::collection::vec(0u32..5, 0..30),
            ahead in prop::collection::vec(0u32..5, 10),
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..60,
            changeover_min in 0i64..20,
        ) {
            let tick_ms = tick_min * MIN;
            let job = in_minutes(work_min, spare_min, changeover_min, 0);
            prop_assume!(job.ticks(tick_ms) <= 10);
            let supply = Supply { lanes, up: [past.as_slice(), ahead.as_slice()].concat() };
            let window = Window { past: 0..past.len(), ahead: past.len()..supply.up.len() };
            let tried = attempt(&supply, None, tick_ms, &window, &[job]).unwrap();
            let least = tried[0].run(CloudPolicy::Omniscient).cost;
            // Less than all where a single tick does the job, and not all lanes are needed.
            prop_assert!(tried[0].share(CloudPolicy::OnDemand) < 1.0 + 1e-12);
            for policy in CloudPolicy::CAUSAL {
                let run = tried[0].run(policy);
                prop_assert!(!run.missed, "{policy:?} misses");
                prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
            }
        }

        #[test]
        fn nor_does_an_enemy_of_elastic_jobs(
            lanes in 2usize..4,
            past in prop::collection::vec(0u32..4, 0..20),
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..40,
            changeover_min in 0i64..20,
            patience in 1usize..4,
        ) {
            let tick_ms = tick_min * MIN;
            let job = in_minutes(work_min, spare_min, changeover_min, 1);
            prop_assume!(job.ticks(tick_ms) <= 10);
            for policy in CloudPolicy::CAUSAL {
                let ahead = enemy_of_lanes(policy, lanes, &past, tick_ms, &job, patience);
                let (_, run) = held_in_lanes(policy, lanes, &past, &ahead, tick_ms, &job);
                prop_assert!(!run.missed, "{policy:?}");
            }
        }
    }

    /// Three nodes: what comes after a tick changes nothing that is held up to it.
    #[test]
    fn the_future_changes_no_decision_of_an_elastic_job() {
        let past: Vec<u32> = (0..600).map(|tick| (tick / 7 + tick / 31) % 4).collect();
        let job = DeadlineJob { work_ms: 600 * MIN, deadline_ms: 800 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let one: Vec<u32> = (0..160).map(|tick| tick / 11 % 4).collect();
        for cut in [1, 60, 100] {
            let mut other = one.clone();
            other[cut..].iter_mut().for_each(|up| *up = 3 - *up);
            for policy in CloudPolicy::CAUSAL {
                let held = |ahead: &[u32]| held_in_lanes(policy, 3, &past, ahead, 5 * MIN, &job).0;
                assert_eq!(held(&one).get(..cut), held(&other).get(..cut), "{policy:?}");
            }
        }
    }

    /// Four nodes that come and go all at once, four hours each: an elastic job costs what one that needs all four does, or less, and the optimum of both is the same.
    #[test]
    fn all_or_none_is_no_dearer_in_lanes() {
        let up: Vec<bool> = (0..2000).map(|tick| tick / 48 % 2 == 0).collect();
        let job = DeadlineJob {
            work_ms: 24 * 60 * MIN,
            deadline_ms: 32 * 60 * MIN,
            changeover_ms: 12 * MIN,
            price_ratio: 3.0,
        };
        let window = Window { past: 0..1400, ahead: 1400..2000 };
        let gang = attempt(&Supply::one(&up), None, 5 * MIN, &window, &[job]).unwrap();
        let lanes = Supply { lanes: 4, up: up.iter().map(|up| 4 * u32::from(*up)).collect() };
        let elastic = attempt(&lanes, None, 5 * MIN, &window, &[job]).unwrap();
        let (gang, elastic) = (&gang[0], &elastic[0]);
        let least = elastic.share(CloudPolicy::Omniscient);
        assert!(least <= gang.share(CloudPolicy::Omniscient) + 1e-12);
        for policy in [CloudPolicy::Greedy, CloudPolicy::TimeSliced] {
            assert!((elastic.share(policy) - gang.share(policy)).abs() < 0.01, "{policy:?}");
        }
        let (shared, alone) = (elastic.share(CloudPolicy::SemiMarkov), gang.share(CloudPolicy::SemiMarkov));
        assert!(shared < alone + 0.02, "{shared} against {alone}, at least {least}");
    }
}
