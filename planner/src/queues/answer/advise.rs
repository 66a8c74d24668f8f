//! What to do, and what is to be expected of it.
//!
//! O(setups). Worked number: shares that were moved half way, a quarter of each kept for jobs of an hour, and an order give three sentences behind that of sharing.

use tracecast_analytics::report::format;

use super::super::search::SearchOutcome;
use super::super::share::Sharing;
use super::{QueuesAnswer, QueuesCandidate};
use crate::plan::verdict::Verdict;
use crate::plan::{Basis, Effect, Harm, Recommendation, Regret, SIZES_UNKNOWN};
use crate::replay::compare::Difference;
use crate::sim::{Estimate, Order, Policy, Scan};

impl QueuesAnswer {
    /// What to do, in a sentence or two.
    pub(super) fn act(&self) -> String {
        let Some(setup) = self.setup().filter(|_| self.is_followed()) else {
            if self.verdict == Verdict::SizesUnknown {
                return format!("**Change nothing on this answer**: {SIZES_UNKNOWN}.");
            }
            let nothing = self.objective.is_of_the_median()
                && self.candidates.first().is_some_and(|today| today.earlier.median_wait_s <= 0.0);
            let why = if self.chosen == 0 && nothing {
                "half of the earlier jobs did not wait at all, so the median wait is 0 already; another --objective looks at those that wait"
            } else if self.chosen == 0 && self.vcs.len() < 2 {
                "no order or backfill was better on the earlier jobs"
            } else if self.chosen == 0 {
                "no way to share that wrongs no VC was better on the earlier jobs"
            } else if self.held_out.cannot_run > 0 {
                "under what was best on the earlier jobs, some later ones could not run"
            } else if self.held_out.worse.iter().any(|worse| worse.beyond_interval) {
                "what was best on the earlier jobs made a VC wait longer on the later ones than nodes of its own"
            } else if self.held_out.mean_wait_change_s.is_some_and(|change| change.high < 0.0)
                && self.held_out.objective.cost >= 1.0
            {
                return format!(
                    "**Change nothing**: by {}, what was best on the earlier jobs cost {} times as much as today on the later ones, though their mean wait was shorter.",
                    self.objective.in_words(),
                    format::float(self.held_out.objective.cost, 2)
                );
            } else {
                "what was best on the earlier jobs was not clearly better on the later ones"
            };
            return format!("**Change nothing**: {why}.");
        };
        let share = match setup.sharing {
            Sharing::AsToday | Sharing::Private => String::new(),
            Sharing::Borrowing { ceiling, reclaim } => format!(
                "**Put all VCs on one pool of nodes, and serve each first up to its own share**; {}{}",
                ceiling.map_or_else(
                    || "what is idle, anyone may borrow".to_owned(),
                    |ceiling| format!("let it use up to {ceiling} times that share")
                ),
                if reclaim {
                    ", and stop jobs that borrow, the last started first, when a VC needs its share."
                } else {
                    "."
                }
            ),
            Sharing::OnePool => "**Put all VCs on one pool of nodes**, without shares.".to_owned(),
        };
        let mut said = vec![share];
        said.extend(self.sizes(setup));
        if setup.policy != self.today {
            said.push(match setup.sharing {
                Sharing::AsToday => {
                    format!("**Change the order of jobs**: {}. Leave the nodes as they are.", setup.order)
                }
                _ => format!("Change the order of jobs: {}.", setup.order),
            });
        }
        said.retain(|said| !said.is_empty());
        self.fidelity.qualified(said.join(" "))
    }

    /// What becomes of the sizes of shares, and what is kept of them.
    fn sizes(&self, setup: &QueuesCandidate) -> Vec<String> {
        let moved = (setup.shares_moved > 0.0).then(|| {
            let way = if setup.shares_moved < 1.0 {
                "Move the sizes of shares half way"
            } else {
                "Move the sizes of shares all the way"
            };
            format!("{way} to what the VCs asked for before the split.")
        });
        let known =
            if setup.setup.policy.estimate == Estimate::Requested { "asked to run" } else { "predicted to run" };
        let short = setup.short_queue.map(|short| {
            format!(
                "Keep {} of each share for jobs that are {known} {} at most.",
                format::percent(short.part),
                format::duration(f64::from(short.within_s))
            )
        });
        moved.into_iter().chain(short).collect()
    }

    /// The recommendation.
    pub(super) fn recommended(&self, change: &Difference, found: &SearchOutcome) -> Recommendation {
        let interval = format!(
            "95 %, moving-block bootstrap over {} later jobs in blocks of {}",
            format::count(found.change.jobs),
            format::count(found.change.block_jobs)
        );
        let today = self.held_out.today.mean_wait_s;
        let naive = self.sharing_alone(Sharing::OnePool).map(|pool| pool.later.mean_wait_s - today);
        let mut harmed = vec![Harm {
            who: "Jobs that wait longer".to_owned(),
            how_much: format!(
                "{} of all; {} wait less",
                format::percent(change.more_wait_share),
                format::percent(change.less_wait_share)
            ),
        }];

        // The reason first: what the objective is about.
        let mut effects = vec![
            Effect::of("Mean wait of a job", "s", &change.mean_wait_s, &interval),
            Effect::of("95 % quantile of the wait", "s", &change.p95_wait_s, &interval),
        ];
        if self.objective.is_of_the_tail() {
            effects.reverse();
        }
        let of_objective: Vec<Effect> = self.held_out.objective.effects(&self.objective).collect();
        let place = if self.objective.is_of_waits() { effects.len() } else { 0 };
        effects.splice(place..place, of_objective);
        harmed.extend(self.held_out.stops().map(|stops| Harm { who: "Those that borrow".to_owned(), how_much: stops }));
        Recommendation {
            plan: "queues".to_owned(),
            action: self.action.clone(),
            effects,
            against: format!("the cluster as it is, {}", self.today),
            basis: Basis::LaterDays,
            regret: found.change.differences.get(1).map(|ideal| Regret {
                oracle: "the best of what was allowed, seen with hindsight".to_owned(),
                oracle_change: ideal.mean_wait_s.value,
                naive_change: naive,
                naive: naive.map(|_| "one pool without shares".to_owned()),
            }),
            harmed,
            confidence: self.assurance.confidence,
            risk: self.assurance.risk.clone(),
            assumptions: vec![
                "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
                "Any job may run on any node with the GPU type it asks for: data and promises are near all of them."
                    .to_owned(),
                match self.setup().map(|setup| setup.sharing) {
                    Some(Sharing::OnePool | Sharing::AsToday) => "Nobody is stopped for others.",
                    Some(Sharing::Borrowing { reclaim: true, .. }) => {
                        "A job that is stopped begins anew, or from its last checkpoint where --checkpoint says how often it writes one; what it lost counts as waiting."
                    }
                    _ => "Nobody is stopped so that a VC gets back what is its own: it waits for jobs that borrowed to end.",
                }
                .to_owned(),
            ]
            .into_iter()
            .chain(self.assumed.iter().cloned())
            .collect(),
            holds_until: "Shares, nodes or the mix of jobs change; make the plan again every month.".to_owned(),
            apply: format!(
                "Make the same plan with --emit slurm (or kueue, kai, volcano) --emit-to FOLDER, and read the files before you apply them.{}",
                self.without_the_order().map_or_else(String::new, |said| format!(" {said}"))
            ),
            command: None,
            undo: match self.setup().map(|setup| setup.sharing) {
                Some(Sharing::AsToday) => "Set the order of before again",
                _ => "Give every VC its own nodes again",
            }
            .to_owned()
                + ": save the configuration, partitions or queues that there are before you apply the files, and put them back.",
        }
    }
}

/// A policy as it differs from today's; `alike_s` is what every job is predicted to run, if that is the same of all: then nothing is known of runs.
pub(super) fn order(policy: &Policy, today: &Policy, alike_s: Option<f64>) -> String {
    let known = match policy.estimate {
        Estimate::True => "known",
        Estimate::Requested => "requested",
        Estimate::Predicted => "predicted",
    };
    let runs = match alike_s.filter(|_| policy.estimate == Estimate::Predicted) {
        Some(alike_s) => format!("with each run taken for {}, as nothing is known of runs", format::duration(alike_s)),
        None => format!("by {known} runs"),
    };
    let time = |ms: i64| format::duration(ms as f64 / 1e3);
    let order = match &policy.order {
        order if *order == today.order => None,
        Order::Sjf => Some(format!("shortest {known} run first")),
        Order::Qssf => Some(format!("least {known} GPU time first")),
        Order::Aged(tau_ms) => Some(format!("least {known} GPU time first, aged by {}", time(*tau_ms))),
        Order::Alike(share) => {
            Some(format!("least GPU time first, as jobs alike have run, aged by {share} of the longest wait"))
        }
        Order::FairShare(half_life_ms) => {
            Some(format!("the user with the least GPU time first, half-life {}", time(*half_life_ms)))
        }
        Order::Multifactor(_) => Some("age, fair share of users and small size together".to_owned()),
        other => Some(other.title().to_owned()),
    };
    // The same scan by other runs is another order, too.
    let by_other_runs = order.is_none() && policy.estimate != today.estimate;
    let scan = (policy.scan != today.scan || by_other_runs).then(|| match policy.scan {
        Scan::Easy => format!("EASY backfill {runs}"),
        Scan::Skip if !by_other_runs => "jobs may pass those that do not fit".to_owned(),
        other if by_other_runs => format!("{} {runs}", format!("{other:?}").to_lowercase()),
        other => format!("{other:?}").to_lowercase(),
    });
    let packed = (policy.placement != today.placement).then(|| "packed on as few nodes as can be".to_owned());
    let words: Vec<String> = order.into_iter().chain(scan).chain(packed).collect();
    if words.is_empty() { "as today".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a newcomer: EASY by predicted runs, where it went by requested ones, was told as "as today".
    #[test]
    fn other_runs_are_told() {
        let easy = |estimate| Policy { scan: Scan::Easy, estimate, ..Policy::default() };
        let today = easy(Estimate::Requested);
        assert_eq!(order(&easy(Estimate::Predicted), &today, None), "EASY backfill by predicted runs");
        assert_eq!(
            order(&Policy { order: Order::Sjf, ..easy(Estimate::Predicted) }, &today, None),
            "shortest predicted run first"
        );
        assert_eq!(order(&today, &today, None), "as today");
    }

    /// Found by a newcomer: a backfill by predicted runs was advised where every job was predicted to run an hour.
    #[test]
    fn a_backfill_that_knows_no_runs_is_called_so() {
        let easy = Policy { scan: Scan::Easy, estimate: Estimate::Predicted, ..Policy::default() };
        let told = order(&easy, &Policy::default(), Some(3600.0));
        assert_eq!(told, "EASY backfill with each run taken for 1 h, as nothing is known of runs");
        // Limits are known.
        let limits = Policy { estimate: Estimate::Requested, ..easy };
        assert_eq!(order(&limits, &Policy::default(), Some(3600.0)), "EASY backfill by requested runs");
    }
}
