//! Comparison of two policies: whose mean wait is shorter, and whether one episode decides it.
//!
//! The moving blocks of [`super`] are as long as a day has jobs. They say how much a difference hangs on single days; a jam of a week that one policy avoids
//! fills several blocks and narrows the interval about itself. So each difference comes with its worst **episode**: the days in a row whose submissions make
//! the greatest part of it. An episode lasts a quarter of the record in whole days, at least one and at most a week. Under a difference that is the same every day it
//! makes a quarter of it (more of a record of less than four days); where it makes more than half, the difference is that episode, which may not come again.
//!
//! O(n) a pair, and O(n / block) a resample.
//!
//! Worked number: over 28 days of one job each, jobs wait 10 s longer on the second to the seventh day and 1 s longer on each other day: 60 + 22 = 82 s. The worst
//! week is the first, with 61 of the 82 s, 74 %.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::stats::rank;
use tracecast_analytics::stats::resample::{Blocks, block_length};
use tracecast_analytics::time::DAY_MS;

use super::super::metric::JobTimes;
use super::resampled::Running;
use super::{IntervalEstimate, Merit, RESAMPLES};
use tracecast_sim::workload::Workload;

/// Share of a difference from which on one episode decides it.
const DECISIVE: f64 = 0.5;
/// Longest episode, days.
const MOST_DAYS: i64 = 7;
/// An episode lasts one part in so many of the record.
const PARTS: i64 = 4;

/// Days in a row that make the greatest part of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Episode {
    /// First of the days: a submission, milliseconds since the Unix epoch, or since some unknown
    /// moment where the trace has no dates.
    pub from_ms: i64,
    /// How many days.
    pub days: u32,
    /// Share of the difference; above 1 where the rest of the record says the contrary.
    pub share: f64,
}

impl Episode {
    /// The worst of a difference, of which `running` has the sums by job and `submit_ms` the submissions in rising order; `None` if the sum is 0. O(n).
    fn worst(submit_ms: &[i64], running: &Running, origin_ms: i64) -> Option<Self> {
        let (first, last) = (submit_ms.first()?, submit_ms.last()?);
        let total = running.total();
        if total == 0 {
            return None;
        }
        let quarter = (last - first + PARTS * DAY_MS / 2) / (PARTS * DAY_MS);
        let days = quarter.clamp(1, MOST_DAYS);
        let mut to = 0;
        let mut worst: Option<(i128, i64)> = None;
        for (from, begin) in submit_ms.iter().enumerate() {
            while submit_ms.get(to).is_some_and(|submit| *submit < begin + days * DAY_MS) {
                to += 1;
            }
            // Towards the whole difference, whichever its sign.
            let part = running.over(&[(from, to)]) * total.signum();
            if worst.is_none_or(|(most, _)| part > most) {
                worst = Some((part, *begin));
            }
        }
        let share = |part: i128| part as f64 / total.abs() as f64;
        worst.map(|(part, begin)| Self { from_ms: origin_ms + begin, days: days as u32, share: share(part) })
    }

    /// Whether the episode makes most of the difference.
    pub fn decides(&self) -> bool {
        self.share > DECISIVE
    }
}

/// The mean waits of two policies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PairedWait {
    /// One policy.
    pub name: String,
    /// The policy that it is held against.
    pub against: String,
    /// Mean of wait − wait under the other, over the jobs that end under every policy, seconds.
    pub mean_wait_s: IntervalEstimate,
    /// The days that make most of it; `None` where there is no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<Episode>,
}

impl PairedWait {
    /// Returns the comparison seen from the other policy.
    fn turned(&self) -> Self {
        let mean_wait_s = self.mean_wait_s.negated();
        Self { name: self.against.clone(), against: self.name.clone(), mean_wait_s, episode: self.episode }
    }

    /// The wait of `name` less that of `against`, from all pairs.
    pub fn find(pairs: &[Self], name: &str, against: &str) -> Option<Self> {
        pairs.iter().find_map(|pair| match (pair.name.as_str(), pair.against.as_str()) {
            result if result == (name, against) => Some(pair.clone()),
            result if result == (against, name) => Some(pair.turned()),
            _ => None,
        })
    }
}

/// Most policies of which every two are compared.
const ALL_PAIRS: usize = 20;

/// Compares every two of `policies` (name and times of the jobs of `workload`), each with those
/// before it; of more than 20, those of which one is the first or on the Pareto front: no other
/// policy is better in mean and 95 % wait. Whoever is beaten is beaten by one of these. `oracles`
/// are not on the front. Jobs that do not end under every policy are left out. `seed` is the
/// bootstrap's.
///
/// O(pairs × jobs), side by side.
pub fn pairs(workload: &Workload, policies: &[(&str, &JobTimes)], oracles: &[bool], seed: u64) -> Vec<PairedWait> {
    let Some((_, first)) = policies.first() else { return Vec::new() };
    let ends = |job: &usize| policies.iter().all(|(_, times)| times.wait_ms(*job).is_some());
    let jobs: Vec<usize> = (0..workload.len()).filter(|job| first.is_counted(*job)).filter(ends).collect();
    let submit_ms: Vec<i64> = jobs.iter().filter_map(|job| workload.submit_ms.get(*job).copied()).collect();
    let span_ms = submit_ms.last().copied().unwrap_or(0) - submit_ms.first().copied().unwrap_or(0);
    let blocks = Blocks::new(jobs.len(), block_length(jobs.len(), span_ms), seed);
    let shown =
        if policies.len() > ALL_PAIRS { yardsticks(&jobs, policies, oracles) } else { vec![true; policies.len()] };
    let is_shown = |at: usize| shown.get(at).copied().unwrap_or(false);
    let request: Vec<(usize, usize)> = (0..policies.len())
        .flat_map(|at| (0..at).map(move |against| (at, against)))
        .filter(|(at, against)| is_shown(*at) || is_shown(*against))
        .collect();
    let of = |(at, against): (usize, usize)| -> Option<PairedWait> {
        let ((name, times), (against, others)) = (policies.get(at)?, policies.get(against)?);
        let more = |job: &usize| times.wait_ms(*job).unwrap_or(0) - others.wait_ms(*job).unwrap_or(0);
        let running = Running::new(jobs.iter().map(more));
        let seconds = |total: i128| total as f64 / jobs.len() as f64 / 1000.0;
        let resampled = blocks.resample(RESAMPLES, |stretches| seconds(running.over(stretches)));
        let mean_wait_s = IntervalEstimate::new(seconds(running.total()), resampled).filter(|_| !jobs.is_empty())?;
        let episode = Episode::worst(&submit_ms, &running, workload.origin_ms);
        Some(PairedWait { name: (*name).to_owned(), against: (*against).to_owned(), mean_wait_s, episode })
    };
    request.into_par_iter().map(of).collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Marks the policies that are the first, or on the Pareto front of mean and 95 % wait of those
/// that are no oracles.
fn yardsticks(jobs: &[usize], policies: &[(&str, &JobTimes)], oracles: &[bool]) -> Vec<bool> {
    let is_oracle = |at: usize| oracles.get(at) == Some(&true);
    let merit = |(_, times): &(&str, &JobTimes)| {
        let mut waits: Vec<i64> = jobs.iter().filter_map(|job| times.wait_ms(*job)).collect();
        let sum: i128 = waits.iter().map(|wait| i128::from(*wait)).sum();
        let p95 = rank::nearest(&mut waits, 0.95).unwrap_or(0);
        Merit { mean_wait_s: sum as f64 / jobs.len().max(1) as f64 / 1000.0, p95_wait_s: p95 as f64 / 1000.0 }
    };
    let merits: Vec<Merit> = policies.par_iter().map(merit).collect();
    let is_dominated = |of: &Merit| merits.iter().enumerate().any(|(at, other)| !is_oracle(at) && other.dominates(of));
    merits.iter().enumerate().map(|(at, of)| at == 0 || !(is_oracle(at) || is_dominated(of))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tracecast_sim::schedule::Outcome;
    use tracecast_sim::workload::Shape;

    /// One job a day that waits so many seconds under a policy.
    fn daily(waits_s: &[i64]) -> (Workload, JobTimes) {
        let mut jobs = Workload::default();
        for day in 0..waits_s.len() as i64 {
            jobs.push(day * DAY_MS, 100_000, Shape::whole(1));
        }
        let rows = waits_s.iter().map(|wait| (Outcome::Finished, true, Some((wait * 1000 + 100_000, wait * 1000))));
        (jobs, JobTimes::of_rows(rows))
    }

    #[test]
    fn the_worked_number_from_both_sides() {
        let waits: Vec<i64> = (0..28).map(|day| if (1..7).contains(&day) { 10 } else { 1 }).collect();
        let (jobs, slow) = daily(&waits);
        let (_, none) = daily(&[0; 28]);
        let all = pairs(&jobs, &[("none", &none), ("slow", &slow)], &[], 1);
        let pair = PairedWait::find(&all, "slow", "none").unwrap();
        let episode = pair.episode.unwrap();
        assert_eq!((episode.days, episode.from_ms), (7, 0));
        assert!((episode.share - 61.0 / 82.0).abs() < 1e-12 && episode.decides());
        let turned = PairedWait::find(&all, "none", "slow").unwrap();
        assert_eq!((turned.mean_wait_s.value, turned.episode), (-pair.mean_wait_s.value, pair.episode));
        assert!(PairedWait::find(&all, "none", "other").is_none());
    }

    #[test]
    fn what_is_the_same_every_day_is_no_episode() {
        let (jobs, slow) = daily(&[5; 28]);
        let (_, none) = daily(&[0; 28]);
        let all = pairs(&jobs, &[("none", &none), ("slow", &slow), ("again", &slow)], &[], 1);
        assert!((all[0].episode.unwrap().share - 0.25).abs() < 1e-12 && !all[0].episode.unwrap().decides());
        // Each with those before it; equal waits have no episode.
        let names: Vec<(&str, &str)> = all.iter().map(|pair| (pair.name.as_str(), pair.against.as_str())).collect();
        assert_eq!(names, [("slow", "none"), ("again", "none"), ("again", "slow")]);
        assert_eq!((all[2].episode, all[2].mean_wait_s.high), (None, 0.0));
    }

    #[test]
    fn a_short_record_has_short_episodes() {
        let of = |days: usize| {
            let (jobs, slow) = daily(&vec![5; days]);
            let (_, none) = daily(&vec![0; days]);
            pairs(&jobs, &[("none", &none), ("slow", &slow)], &[], 1)[0].episode.unwrap().days
        };
        assert_eq!([of(1), of(3), of(9), of(28), of(400)], [1, 1, 2, 7, 7]);
        assert!(pairs(&Workload::default(), &[], &[], 1).is_empty());
    }

    #[test]
    fn of_many_policies_each_is_held_against_the_first_and_the_front() {
        // Policy k makes every job wait k s, but the last is an oracle that makes nobody wait; so the front is policy 1.
        let days = 40;
        let worlds: Vec<(Workload, JobTimes)> =
            [5, 1, 2, 3].into_iter().chain(4..25).chain([0]).map(|wait| daily(&vec![wait; days])).collect();
        let names: Vec<String> = (0..worlds.len()).map(|at| format!("p{at}")).collect();
        let policies: Vec<(&str, &JobTimes)> =
            names.iter().map(String::as_str).zip(worlds.iter().map(|(_, times)| times)).collect();
        let oracles: Vec<bool> = (0..policies.len()).map(|at| at + 1 == policies.len()).collect();
        let result = pairs(&worlds[0].0, &policies, &oracles, 1);
        let others = policies.len() - 2;
        assert_eq!(result.len(), 2 * others + 1);
        for (at, name) in names.iter().enumerate().filter(|(at, _)| *at > 1) {
            for against in ["p0", "p1"] {
                let pair = PairedWait::find(&result, name, against).unwrap();
                assert!((at + 1 == names.len()) == (pair.mean_wait_s.value < 0.0) || against == "p0", "{pair:?}");
            }
        }
        assert!(PairedWait::find(&result, "p7", "p9").is_none());
    }

    proptest! {
        /// The worst episode is that of every beginning tried in turn.
        #[test]
        fn the_worst_is_the_worst(waits in prop::collection::vec((0i64..3, -50i64..50), 1..60)) {
            let mut day = 0;
            let submit_ms: Vec<i64> = waits.iter().map(|(gap, _)| { day += gap; day * DAY_MS / 2 }).collect();
            let running = Running::new(waits.iter().map(|(_, wait)| *wait));
            let total: i64 = waits.iter().map(|(_, wait)| wait).sum();
            let Some(result) = Episode::worst(&submit_ms, &running, 7) else {
                prop_assert_eq!(total, 0);
                return Ok(());
            };
            let of = |begin: &i64| {
                let in_it = submit_ms.iter().zip(&waits).filter(|(at, _)| *at >= begin && **at < begin + i64::from(result.days) * DAY_MS);
                in_it.map(|(_, (_, wait))| wait).sum::<i64>() as f64 / total as f64
            };
            // Jobs of one moment belong together or not at all in the naive sum; the worst begins at a first of them or leaves some out.
            let naive = submit_ms.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(result.share >= naive - 1e-9, "{} {}", result.share, naive);
            prop_assert!(submit_ms.contains(&(result.from_ms - 7)));
        }
    }
}
