//! Rules tried on starts in the history: chosen on the earlier ones, reported on the later ones.
//!
//! Starts of each job are spread evenly over each part, from its beginning to where the job would just end within it. A start counts if the job ends before the part does under every rule, so that all rules are compared on the same starts. Costs are shares of what
//! the job costs where it begins at the cheapest place and stays, start by start. The rule with the least mean share on the earlier part is **chosen**; of equals the one that checks least often, and staying before moving.
//!
//! Jobs that overlap in time see the same prices, so an interval draws whole starts anew, with all jobs of each. It is of these starts: another year may have other prices.
//!
//! O(rules × starts × run). Worked example: of two starts, moving costs 0.90 and 1.00 of staying: 0.95.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::bound::bound;
use super::market::{PriceHistory, PricedJob};
use super::run::{FirstPlace, MoveRule, MoveRun, MoveTerms, Moving, first, run};
use crate::plan::interval::{average, drawn, ratio};
use crate::plan::recommendation::WORTH;
use crate::plan::window::spread;
use crate::replay::compare::IntervalEstimate;

/// Margins that are tried, shares.
const MARGINS: [f64; 4] = [0.0, 0.05, 0.1, 0.2];
/// Moments at which the longest run is looked for.
const LOOKED: usize = 50;

/// How rules are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialPlan {
    /// Where the later part begins, milliseconds.
    pub split_ms: i64,
    /// Starts in each part.
    pub starts: usize,
    /// Times between checks, seconds, in rising order.
    pub checks_s: Vec<f64>,
}

/// What a rule costs over the later starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MoveScore {
    /// The rule; nothing is the bound, which knows all prices.
    pub rule: Option<MoveRule>,
    /// Mean over starts and jobs of the cost as a share of that of staying.
    pub share: IntervalEstimate,
    /// The start on which the share is highest.
    pub worst_share: f64,
    /// Mean number of moves.
    pub moves: Option<f64>,
    /// Mean time from start to end over that of staying.
    pub time_share: Option<f64>,
}

/// What was tried.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MoveTrial {
    /// Starts of the earlier part that count, over all jobs.
    pub earlier: usize,
    /// Starts of the later part that count, over all jobs.
    pub later: usize,
    /// Starts that do not count, as the job does not end in its part under every rule.
    pub unfinished: usize,
    /// Jobs without a start in the later part, as they are longer than it.
    pub too_long: Vec<String>,
    /// The rule chosen on the earlier part.
    pub chosen: MoveRule,
    /// Its mean share there.
    pub earlier_share: f64,
    /// The later part, rule by rule; for each time between checks with the margin that was best on the earlier part.
    pub scores: Vec<MoveScore>,
}

impl MoveTrial {
    /// What a rule costs on the later part; the bound without one.
    pub fn score(&self, rule: Option<MoveRule>) -> Option<&MoveScore> {
        self.scores.iter().find(|score| score.rule == rule)
    }

    /// The chosen rule's score, if it is another than to stay where it costs least now and saves enough of that, beyond its interval; a rule that moves must not cost more than beginning at the cheapest mean price and staying, as else the place saves and not the moves.
    pub fn worth(&self) -> Option<&MoveScore> {
        let chosen = self.score(Some(self.chosen)).filter(|_| self.chosen != MoveRule::STAY)?;
        let on_average = self.score(Some(MoveRule { first: FirstPlace::OnAverage, moving: None }))?;
        let is_best = chosen.share.value <= on_average.share.value;
        (is_best && chosen.share.value <= 1.0 - WORTH && chosen.share.high < 1.0).then_some(chosen)
    }
}

/// All rules: [to stay](MoveRule::STAY) first, then to stay at the cheapest mean price, and those that move.
fn rules(checks_s: &[f64]) -> Vec<MoveRule> {
    let stays = [FirstPlace::Now, FirstPlace::OnAverage];
    let moving = checks_s.iter().rev().flat_map(|check_s| MARGINS.map(|margin| Moving { check_s: *check_s, margin }));
    let stays = stays.map(|first| MoveRule { first, moving: None });
    stays.into_iter().chain(moving.map(|moving| MoveRule { first: FirstPlace::Now, moving: Some(moving) })).collect()
}

/// One job from one start under every rule.
struct Tried {
    /// Its position among the jobs.
    job: usize,
    start: usize,
    runs: Vec<MoveRun>,
    bound: Option<f64>,
}

impl Tried {
    /// The run that all others are held against.
    fn stay(&self) -> Option<&MoveRun> {
        self.runs.first()
    }
}

/// The longest that a job takes where it would begin, at moments spread over a part.
fn longest_ms(history: &PriceHistory, job: &PricedJob, (from_ms, to_ms): (i64, i64), terms: &MoveTerms) -> i64 {
    let moments = (0..LOOKED as i64).map(|at| from_ms + (to_ms - from_ms) * at / LOOKED as i64);
    let places = moments.flat_map(|at_ms| {
        [FirstPlace::OnAverage, FirstPlace::Now].map(|place| first(history, job, at_ms, place, terms))
    });
    let times = places
        .flatten()
        .filter_map(|offer| Some(((job.steps / job.on(offer)? * 1e3) as i64).saturating_add(terms.start_ms)));
    times.max().unwrap_or(0)
}

/// Every rule on every start of a part; how many starts do not count.
fn part(
    history: &PriceHistory,
    jobs: &[PricedJob],
    (from_ms, to_ms): (i64, i64),
    (rules, starts, bounded): (&[MoveRule], usize, bool),
    terms: &MoveTerms,
) -> (Vec<Tried>, usize) {
    let minutes = |ms: i64| usize::try_from(ms / 60_000).unwrap_or(0);
    let tasks: Vec<(usize, &PricedJob, usize, i64)> = jobs
        .iter()
        .enumerate()
        .flat_map(|(at, job)| {
            let longest = minutes(longest_ms(history, job, (from_ms, to_ms), terms)) + 1;
            let windows = spread(&(0..minutes(to_ms - from_ms)), longest, starts);
            let begins = windows.into_iter().map(|window| from_ms + window.ahead.start as i64 * 60_000);
            begins.enumerate().map(|(start, begin_ms)| (at, job, start, begin_ms)).collect::<Vec<_>>()
        })
        .collect();
    let tried: Vec<Option<Tried>> = tasks
        .par_iter()
        .map(|(at, job, start, begin_ms)| {
            // What comes after the part is not there for it.
            let within_ms = *begin_ms..to_ms;
            let runs: Option<Vec<MoveRun>> =
                rules.iter().map(|rule| run(history, job, &within_ms, rule, terms)).collect();
            runs.map(|runs| {
                let bound = bounded.then(|| bound(history, job, &within_ms, terms));
                Tried { job: *at, start: *start, runs, bound }
            })
        })
        .collect();
    let unfinished = tried.iter().filter(|tried| tried.is_none()).count();
    (tried.into_iter().flatten().collect(), unfinished)
}

/// Mean of a figure over what was tried.
fn mean_of(tried: &[Tried], figure: impl Fn(&Tried) -> Option<f64>) -> f64 {
    average(tried.iter().filter_map(figure))
}

/// The mean share and its interval over whole starts, and the worst share.
fn shares(tried: &[Tried], figure: &dyn Fn(&Tried) -> Option<f64>) -> (IntervalEstimate, f64) {
    let starts = tried.iter().map(|tried| tried.start + 1).max().unwrap_or(0);
    let mut of_start: Vec<(f64, f64)> = vec![(0.0, 0.0); starts];
    let mut worst: f64 = 0.0;
    for one in tried {
        if let (Some(share), Some(held)) = (figure(one), of_start.get_mut(one.start)) {
            *held = (held.0 + share, held.1 + 1.0);
            worst = worst.max(share);
        }
    }
    of_start.retain(|(_, count)| *count > 0.0);
    let [share] = drawn(of_start.len(), &|held| {
        let (sum, count) =
            held.filter_map(|start| of_start.get(start)).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        [ratio(sum, count)]
    });
    (share, worst)
}

/// Tries all rules; nothing where no start of either part counts.
pub fn trial(history: &PriceHistory, jobs: &[PricedJob], plan: &TrialPlan, terms: &MoveTerms) -> Option<MoveTrial> {
    let rules = rules(&plan.checks_s);
    let (earlier, lost_earlier) =
        part(history, jobs, (history.begins_ms, plan.split_ms), (&rules, plan.starts, false), terms);
    let (later, lost_later) = part(history, jobs, (plan.split_ms, history.ends_ms), (&rules, plan.starts, true), terms);
    if earlier.is_empty() || later.is_empty() {
        return None;
    }
    let share = |tried: &Tried, usd: f64| tried.stay().filter(|stay| stay.usd > 0.0).map(|stay| usd / stay.usd);
    let of_rule = |tried: &Tried, at: usize| share(tried, tried.runs.get(at)?.usd);
    let earlier_shares: Vec<f64> = (0..rules.len()).map(|at| mean_of(&earlier, |tried| of_rule(tried, at))).collect();
    let best = |of: &dyn Fn(&MoveRule) -> bool| {
        let such = rules.iter().zip(&earlier_shares).enumerate().filter(|(_, (rule, _))| of(rule));
        let found = such.reduce(|best, next| if *next.1.1 < *best.1.1 - 1e-9 { next } else { best });
        found.map(|(at, _)| at)
    };
    // Staying stands first, and rules that check least often before others.
    let chosen = best(&|_| true)?;
    let mut shown: Vec<usize> =
        (0..rules.len()).filter(|at| rules.get(*at).is_some_and(|rule| rule.moving.is_none())).collect();
    for check_s in plan.checks_s.iter().rev() {
        shown.extend(best(&|rule| rule.moving.is_some_and(|moving| moving.check_s == *check_s)));
    }
    let mut scores: Vec<MoveScore> = shown
        .into_iter()
        .map(|at| {
            let (share, worst_share) = shares(&later, &|tried| of_rule(tried, at));
            let time = |tried: &Tried| {
                let (of, stay) = (tried.runs.get(at)?, tried.stay()?);
                Some(of.time_ms as f64 / stay.time_ms.max(1) as f64)
            };
            MoveScore {
                rule: rules.get(at).copied(),
                share,
                worst_share,
                moves: Some(mean_of(&later, |tried| tried.runs.get(at).map(|run| run.moves as f64))),
                time_share: Some(mean_of(&later, time)),
            }
        })
        .collect();
    let (bound, worst_share) = shares(&later, &|tried| share(tried, tried.bound?));
    scores.push(MoveScore { rule: None, share: bound, worst_share, moves: None, time_share: None });
    Some(MoveTrial {
        earlier: earlier.len(),
        later: later.len(),
        unfinished: lost_earlier + lost_later,
        too_long: jobs
            .iter()
            .zip(0..)
            .filter(|(_, at)| later.iter().all(|tried| tried.job != *at))
            .map(|(job, _)| job.name.clone())
            .collect(),
        chosen: rules.get(chosen).copied()?,
        earlier_share: earlier_shares.get(chosen).copied()?,
        scores,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::time::HOUR_MS;

    use super::super::market::tests::{history, job};
    use super::*;

    const TERMS: MoveTerms = MoveTerms { start_ms: 0, egress_usd: 0.0, trusted_ms: 1000 * HOUR_MS };

    fn tried(prices: &PriceHistory, hours: f64) -> Option<MoveTrial> {
        let plan = TrialPlan { split_ms: 240 * HOUR_MS, starts: 10, checks_s: vec![3600.0, 86_400.0] };
        trial(prices, &[job(hours, &[10.0, 10.0])], &plan, &TERMS)
    }

    /// One place costs 1.00 always, the other 0.50 and 2.00 in turn, for a day each: who looks every hour never pays 2.00.
    #[test]
    fn a_rule_that_moves_is_chosen_where_prices_swing() {
        let swings: Vec<(i64, f64)> = (0..20).map(|day| (day * 24, if day % 2 == 0 { 0.5 } else { 2.0 })).collect();
        let prices = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &swings)], 480);
        let found = tried(&prices, 72.0).unwrap();
        assert_eq!((found.earlier, found.later, found.unfinished), (10, 10, 0));
        assert_eq!(found.chosen.moving.unwrap().check_s, 3600.0);
        let of = |rule: Option<MoveRule>| found.scores.iter().find(|score| score.rule == rule).unwrap();
        let (chosen, stay, bound) = (of(Some(found.chosen)), of(Some(MoveRule::STAY)), of(None));
        assert!((stay.share.value - 1.0).abs() < 1e-12 && chosen.share.value < 0.85, "{chosen:?}");
        // Half of the time at 0.50 and half at 1.00; the last hours may fall on either.
        assert!(bound.share.value <= chosen.share.value && chosen.moves.unwrap() >= 2.0);
    }

    #[test]
    fn staying_is_chosen_where_nothing_moves() {
        let prices = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &[(0, 1.1)])], 480);
        let found = tried(&prices, 72.0).unwrap();
        assert_eq!((found.chosen, found.earlier_share), (MoveRule::STAY, 1.0));
        assert!(found.too_long.is_empty());
    }

    #[test]
    fn a_job_longer_than_a_part_is_not_tried() {
        let prices = history(&[("us-east-1a", &[(0, 1.0)]), ("us-east-1b", &[(0, 1.1)])], 480);
        assert!(tried(&prices, 300.0).is_none());
        let plan = TrialPlan { split_ms: 240 * HOUR_MS, starts: 4, checks_s: vec![3600.0] };
        let jobs = [job(10.0, &[10.0, 10.0]), PricedJob { name: "long".to_owned(), ..job(300.0, &[10.0, 10.0]) }];
        let found = trial(&prices, &jobs, &plan, &TERMS).unwrap();
        assert_eq!((found.later, found.too_long), (4, vec!["long".to_owned()]));
    }
}
