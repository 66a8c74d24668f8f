//! The back-test on a trace: what would have been said of each job when it started, and what its telemetry then read.
//!
//! What is said of a job rests on readings taken before its start (module `walk`). Of the jobs, 30 % only teach, the next 20 % serve intervals too, on the next 25 % the model is chosen
//! (by RMSLE, of those that were over by then), and the last 25 % are reported.
//!
//! O(fits × learners + n (log n + window)). Worked number: of 1,000 jobs 250 are scored, and learners are fitted at jobs 300, 400, … 900.

use serde::Serialize;

use super::history::{Usage, UsageHistory};
use super::learner::UsageForecast;
use super::model::{UsageLeftOut, UsageModel, UsageModelName};
use super::past::KnownBy;
use super::score::{Said, UsageScore, mae, rmsle, score};
use super::walk::{Asked, LEAST_JOBS, PARTS, Walk, too_few};
use crate::error::Result;
use crate::holdout::position;

/// Jobs by what was known of them.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageByKnown {
    /// The narrowest group of which something was known.
    pub known_by: KnownBy,
    /// Jobs scored.
    pub jobs: usize,
    /// Error of the chosen model, percent or MiB.
    pub mae: f64,
    /// RMSLE of the chosen model.
    pub rmsle: f64,
}

/// Results for one usage, tested in one way.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageSplit {
    /// Usage that is predicted.
    pub usage: Usage,
    /// Data that was left out.
    pub left_out: UsageLeftOut,
    /// Jobs or job types that teach: of those in order of time, before the first that is scored.
    pub taught: usize,
    /// Groups left out, one after the other; 0 where later jobs are.
    pub folds: usize,
    /// Jobs or job types scored.
    pub scored: usize,
    /// Mean of what came, percent or MiB.
    pub mean: f64,
    /// The rules, then the learners.
    pub models: Vec<UsageScore>,
    /// The model of least RMSLE on what is not reported; of profiles, `choice`: for each group that is left out, that of least RMSLE on the others.
    pub chosen: UsageModelName,
    /// Scores of the chosen model by what was known of a job; empty where no time is.
    pub by_known: Vec<UsageByKnown>,
}

fn one(walk: &Walk<'_>, usage: Usage, seed: u64) -> Result<Option<UsageSplit>> {
    let jobs = walk.asked.len();
    let [first, choose, report] = PARTS.map(|share| position(share, jobs));
    let mut models = Vec::new();
    let mut of_chosen: Option<(f64, UsageModel, Said)> = None;
    for model in UsageModel::ALL {
        let said = walk.say(model, first, usage, seed)?;
        let choice = rmsle(&walk.to_choose_by(&said, choose..report));
        let pairs: Said = said.into_iter().zip(walk.asked.iter().map(|asked| asked.truth)).collect();
        let reported = pairs.get(report..).unwrap_or_default();
        models.extend(score(model.named(UsageLeftOut::Later), reported, choice));
        // Of equal ones the first, which is the simpler.
        if let Some(choice) = choice.filter(|choice| of_chosen.as_ref().is_none_or(|(least, ..)| choice < least)) {
            of_chosen = Some((choice, model, reported.to_vec()));
        }
    }
    let Some((_, chosen, pairs)) = of_chosen else { return Ok(None) };
    let by_known = KnownBy::EACH.into_iter().filter_map(|known_by| {
        let of = |(pair, asked): (&(UsageForecast, f64), &Asked<'_>)| (asked.known_by == known_by).then_some(*pair);
        let pairs: Said = pairs.iter().zip(walk.asked.iter().skip(report)).filter_map(of).collect();
        Some(UsageByKnown { known_by, jobs: pairs.len(), mae: mae(&pairs)?, rmsle: rmsle(&pairs)? })
    });
    Ok(Some(UsageSplit {
        usage,
        left_out: UsageLeftOut::Later,
        taught: report,
        folds: 0,
        scored: pairs.len(),
        mean: pairs.iter().map(|(_, came)| came.exp_m1()).sum::<f64>() / pairs.len().max(1) as f64,
        by_known: by_known.collect(),
        models,
        chosen: chosen.named(UsageLeftOut::Later),
    }))
}

/// Tests what is said of the utilisation and the memory of the jobs of a trace.
///
/// # Errors
/// If of neither usage there are enough jobs that started after the first reading, or a learner fails.
pub fn run(history: &UsageHistory, seed: u64) -> Result<Vec<UsageSplit>> {
    let (mut splits, mut most) = (Vec::new(), 0);
    for usage in Usage::ALL {
        let walk = Walk::of(history, &[], usage);
        most = most.max(walk.asked.len());
        if walk.asked.len() >= LEAST_JOBS {
            splits.extend(one(&walk, usage, seed)?);
        }
    }
    if splits.is_empty() {
        return Err(too_few(history, most));
    }
    Ok(splits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    use super::super::past::tests::job;
    use super::*;
    use UsageModelName::{Boosted, Forest, Group, Last, Linear, Mean};

    /// Jobs of five recurring groups of three users, each group with a utilisation of its own, and some noise; one starts every `step_s`.
    pub(in super::super) fn world(jobs: usize, step_s: i64) -> UsageHistory {
        let one = |at: usize| {
            let group = (at * 7 + at / 5) % 6;
            let util = 10.0 + 14.0 * group as f64;
            let noise = |read: usize| ((at * 31 + read * 17) % 11) as f64 - 5.0;
            let utils: Vec<f64> = (0..5).map(|read| util + noise(read)).collect();
            let name = format!("work-{}-{at}", ["a", "b", "c", "d", "e", "f"][group]);
            job(["ann", "ben", "cyd"][group % 3], &name, at as i64 * step_s, &utils)
        };
        UsageHistory { jobs: (0..jobs).map(one).collect(), first_ms: Some(-1), ..UsageHistory::default() }
    }

    #[test]
    fn recurring_groups_are_told_apart_and_intervals_hold() {
        let splits = run(&world(400, 3), 1).unwrap();
        assert_eq!(splits.iter().map(|split| split.usage).collect::<Vec<_>>(), Usage::ALL);
        let util = &splits[0];
        let of = |name| util.models.iter().find(|model| model.name == name).unwrap();
        assert_eq!((util.scored, util.taught), (of(Mean).scored, 399 - util.scored));
        for name in [Last, Group, Linear, Forest, Boosted] {
            assert!(of(name).rmsle < of(Mean).rmsle / 3.0, "{:?} {:?}", of(name), of(Mean));
            assert!((0.8..=1.0).contains(&of(name).coverage90), "{:?}", of(name));
        }
        assert_eq!(util.by_known.len(), 1);
        assert_eq!((util.by_known[0].known_by, util.by_known[0].jobs), (KnownBy::Recurring, util.scored));
        assert_eq!(run(&world(400, 3), 1).unwrap(), splits);
    }

    #[test]
    fn too_few_jobs_are_refused_with_what_would_help() {
        let told = run(&world(15, 3), 1).unwrap_err().to_string();
        // Of the first job nothing is said, as nothing was known.
        assert!(told.contains("15 jobs have telemetry, and 14 of them") && told.contains("for longer"), "{told}");
    }
}
