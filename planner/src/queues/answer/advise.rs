//! What to do, and what is to be expected of it.
//!
//! O(setups). Worked number: shares that were moved half way, a quarter of each kept for jobs of an hour, and an order give three sentences behind that of sharing.

use tracecast_analytics::report::format;

use super::super::search::SearchOutcome;
use super::super::share::Sharing;
use super::render::without_the_order;
use super::{QueuesBody, QueuesCandidate, QueuesTrial};
use crate::plan::answer::Change;
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Basis, Effect, Harm, Regret, SIZES_UNKNOWN};
use crate::replay::compare::Difference;
use crate::sim::{Estimate, Order, Policy, Scan};

/// Recommended action, in a sentence or two.
pub(in crate::queues) fn act(verdict: Verdict, trial: &QueuesTrial, body: &QueuesBody) -> String {
    let Some(setup) = body.setup().filter(|_| verdict == Verdict::Advised) else {
        if verdict == Verdict::SizesUnknown {
            return format!("**Change nothing on this answer**: {SIZES_UNKNOWN}.");
        }
        let nothing = body.objective.is_of_the_median()
            && body.candidates.first().is_some_and(|today| today.earlier.median_wait_s <= 0.0);
        let why = if body.chosen == 0 && nothing {
            "half of the earlier jobs did not wait at all, so the median wait is 0 already; another --objective looks at those that wait"
        } else if body.chosen == 0 && body.vcs.len() < 2 {
            "no order or backfill was better on the earlier jobs"
        } else if body.chosen == 0 {
            "no way to share that wrongs no VC was better on the earlier jobs"
        } else if trial.cannot_run > 0 {
            "under what was best on the earlier jobs, some later ones could not run"
        } else if trial.worse.iter().any(|worse| worse.beyond_interval) {
            "what was best on the earlier jobs made a VC wait longer on the later ones than nodes of its own"
        } else if trial.mean_wait_change_s.is_some_and(|change| change.high < 0.0) && trial.objective.cost >= 1.0 {
            return format!(
                "**Change nothing**: by {}, what was best on the earlier jobs cost {} times as much as today on the later ones, though their mean wait was shorter.",
                body.objective.in_words(),
                format::float(trial.objective.cost, 2)
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
    said.extend(sizes(setup));
    if setup.policy != body.today {
        said.push(match setup.sharing {
            Sharing::AsToday => {
                format!("**Change the order of jobs**: {}. Leave the nodes as they are.", setup.order)
            }
            _ => format!("Change the order of jobs: {}.", setup.order),
        });
    }
    said.retain(|said| !said.is_empty());
    trial.fidelity.qualified(said.join(" "))
}

/// What becomes of the sizes of shares, and what is kept of them.
fn sizes(setup: &QueuesCandidate) -> Vec<String> {
    let moved = (setup.shares_moved > 0.0).then(|| {
        let way = if setup.shares_moved < 1.0 {
            "Move the sizes of shares half way"
        } else {
            "Move the sizes of shares all the way"
        };
        format!("{way} to what the VCs asked for before the split.")
    });
    let known = if setup.setup.policy.estimate == Estimate::Requested { "asked to run" } else { "predicted to run" };
    let short = setup.short_queue.map(|short| {
        format!(
            "Keep {} of each share for jobs that are {known} {} at most.",
            format::percent(short.part),
            format::duration(f64::from(short.within_s))
        )
    });
    moved.into_iter().chain(short).collect()
}

/// The change that is advised.
pub(in crate::queues) fn change(
    trial: &QueuesTrial,
    body: &QueuesBody,
    sure: Assurance,
    change: &Difference,
    result: &SearchOutcome,
) -> Change {
    let interval = format!(
        "95 %, moving-block bootstrap over {} later jobs in blocks of {}",
        format::count(result.change.jobs),
        format::count(result.change.block_jobs)
    );
    let today = trial.today.mean_wait_s;
    let naive = body.sharing_alone(Sharing::OnePool).map(|pool| pool.later.mean_wait_s - today);
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
        Effect::new("Mean wait of a job", "s", &change.mean_wait_s, &interval),
        Effect::new("95 % quantile of the wait", "s", &change.p95_wait_s, &interval),
    ];
    if body.objective.is_of_the_tail() {
        effects.reverse();
    }
    let of_objective: Vec<Effect> = trial.objective.effects(&body.objective).collect();
    let place = if body.objective.is_of_waits() { effects.len() } else { 0 };
    effects.splice(place..place, of_objective);
    harmed.extend(trial.stops().map(|stops| Harm { who: "Those that borrow".to_owned(), how_much: stops }));
    Change {
            plan: "queues",
            effects,
            against: format!("the cluster as it is, {}", body.today),
            basis: Basis::LaterDays,
            regret: result.change.differences.get(1).map(|ideal| Regret {
                oracle: "the best of what was allowed, seen with hindsight".to_owned(),
                oracle_change: ideal.mean_wait_s.value,
                naive_change: naive,
                naive: naive.map(|_| "one pool without shares".to_owned()),
            }),
            harmed,
            risk: sure.risk.clone(),
            sure,
            assumed: vec![
                "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
                "Any job may run on any node with the GPU type it asks for: data and promises are near all of them."
                    .to_owned(),
                match body.setup().map(|setup| setup.sharing) {
                    Some(Sharing::OnePool | Sharing::AsToday) => "Nobody is stopped for others.",
                    Some(Sharing::Borrowing { reclaim: true, .. }) => {
                        "A job that is stopped begins anew, or from its last checkpoint where --site checkpoint says how often it writes one; what it lost counts as waiting."
                    }
                    _ => "Nobody is stopped so that a VC gets back what is its own: it waits for jobs that borrowed to end.",
                }
                .to_owned(),
            ]
            .into_iter()
            .chain(body.assumed.iter().cloned())
            .collect(),
            holds_until: "Shares, nodes or the mix of jobs change; make the plan again every month.".to_owned(),
            apply: format!(
                "Make the same plan with --emit slurm (or kueue, kai, volcano) --emit-to FOLDER, and read the files before you apply them.{}",
                without_the_order(body).map_or_else(String::new, |said| format!(" {said}"))
            ),
            command: None,
            undo: match body.setup().map(|setup| setup.sharing) {
                Some(Sharing::AsToday) => {
                    "Set the order of before again: save the configuration that there is before you apply the files, and put it back."
                }
                _ => {
                    "Give every VC its own nodes again: save the configuration, partitions or queues that there are before you apply the files, and put them back."
                }
            },
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
    // A scan by other runs is another order, too.
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

    /// Regression test: EASY by predicted runs, where today's was by requested ones, was reported
    /// "as today".
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

    /// Regression test: a backfill by predicted runs was advised where every job was predicted to
    /// run an hour.
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
