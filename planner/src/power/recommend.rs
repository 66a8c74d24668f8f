//! What a power plan recommends, in the form of every plan.
//!
//! Nodes are recommended to sleep if the rule that the past chose let some sleep on the days after it and saved energy there; else nothing is
//! recommended. Worked example: 7.2 nodes asleep (3.9 to 11.1) against all on, where the optimum lets 14.5 sleep.

use tracecast_analytics::report::format;
use tracecast_predictors::demand::gather::POOL;

use super::answer::{Beforehand, ChosenFor, PowerAnswer, change_of_wait};
use super::choice::Because;
use super::family::Family;
use super::forward::Forward;
use super::interval::Intervals;
use super::plan::PoolPlan;
use super::service::Service;
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, Recommendation, Regret};
use crate::replay::compare::IntervalEstimate;

/// What an answer is about: the VCs as they stand, or one pool.
struct Figures {
    intervals: Intervals,
    /// Whether it is the VCs.
    apart: bool,
    nodes: f64,
    /// Whether any node is to sleep.
    sleeps: bool,
}

impl Figures {
    fn of(answer: &PowerAnswer) -> Option<Self> {
        let pool = &answer.pool;
        let (intervals, nodes, apart) = match answer.leading_vcs() {
            // VCs that stand apart sleep apart, unless somebody pools them.
            Some(vcs) => (vcs.chosen, vcs.nodes_mean, true),
            None => (pool.beforehand.first()?.intervals, pool.nodes_mean, false),
        };
        let saves = intervals.nodes_asleep_mean.value > 0.0 && intervals.energy_saved_kwh_per_day.value > 0.0;
        let sleeps = saves && (apart || pool.chosen.because != Because::SleepDoesNotPay);
        Some(Self { intervals, apart, nodes, sleeps })
    }
}

/// The cautions for which an answer cannot be relied on, a sentence each: what takes the ground from it, and what its test found.
pub(super) fn lowering(answer: &PowerAnswer) -> Vec<String> {
    let mut said = answer.doubts.clone();
    said.extend(answer.broken_in_words());
    if let Some(Figures { intervals, nodes, sleeps, .. }) = Figures::of(answer) {
        let asleep = &intervals.nodes_asleep_mean;
        said.extend(answer.hardly_used(asleep.value, nodes));
        said.extend(answer.waited_beside_idle(asleep.value).filter(|_| sleeps));
        if sleeps && asleep.low <= 0.0 {
            said.push(format!(
                "**Other days like those tested might have let no node sleep**: the interval of the nodes asleep is {} to {}.",
                format::float(asleep.low, 1),
                format::float(asleep.high, 1)
            ));
        }
    }
    said
}

/// How sure an answer is, whether it changes anything or not.
pub fn assurance(answer: &PowerAnswer) -> Assurance {
    let tried = |nodes: f64| {
        format!("It was tried on one stretch of {:.0} days of {} nodes.", answer.pool.days, format::float(nodes, 0))
    };
    let lowered_by = lowering(answer);
    let Some(Figures { nodes, sleeps, .. }) = Figures::of(answer) else {
        return Assurance::lowered(Confidence::Low, lowered_by, &tried(answer.pool.nodes_mean));
    };
    let mut risk = tried(nodes);
    if sleeps {
        risk.push_str(&format!(
            " Demand that rises faster than it ever did waits for a boot of {}.",
            format::duration(answer.constants.boot_s)
        ));
    }
    risk.push_str(" `tracecast backtest power` tries it on every stretch there is.");
    Assurance::lowered(Confidence::Medium, lowered_by, &risk)
}

/// What is recommended, if anything is worth it.
pub fn recommendation(answer: &PowerAnswer) -> Option<Recommendation> {
    if answer.sizes_unknown {
        return None;
    }
    let pool = &answer.pool;
    let followed = pool.beforehand.first()?;
    let Figures { intervals, apart, .. } = Figures::of(answer).filter(|figures| figures.sleeps)?;
    let trailing = pool.as_emitted(Family::TrailingMaximum);
    let effects = effects(&intervals, pool.days);
    let unserved_per_day = intervals.unserved_per_day.value;
    let ahead = answer.forward.first();
    let now = ahead.map(|ahead| &ahead.now);
    Some(Recommendation {
        plan: "power".to_owned(),
        action: action(answer, followed),
        effects,
        against: "all nodes powered".to_owned(),
        basis: Basis::LaterDays,
        regret: Some(Regret {
            oracle: "the optimum that knows all demand and serves it, at a switching cost of two hours".to_owned(),
            oracle_change: pool.offline_optimum.outcome.nodes_asleep_mean,
            naive_change: trailing.map(|rule| rule.scored.outcome.nodes_asleep_mean),
            naive: trailing.map(|rule| match rule.chosen_for {
                ChosenFor::Service => "trailing maximum for the same service, without a guard".to_owned(),
                _ => "trailing maximum".to_owned(),
            }),
        })
        .filter(|_| !apart),
        harmed: harmed(answer, unserved_per_day),
        confidence: answer.assurance.confidence,
        risk: answer.assurance.risk.clone(),
        assumptions: vec![
            format!(
                "An idle node draws {} W and one that is off {} W.",
                format::float(answer.constants.idle_w, 0),
                format::float(answer.constants.off_w, 0)
            ),
            "Nodes boot when they are told to, and any node can serve any job of its pool.".to_owned(),
        ]
        .into_iter()
        .chain(answer.assumed.iter().cloned())
        .chain(answer.cautions.iter().filter(|caution| !answer.assurance.lowered_by.contains(caution)).cloned())
        .collect(),
        holds_until: now.and_then(|now| now.promised_until.clone()).map_or_else(
            || "demand changes its habits; make a new plan every two weeks".to_owned(),
            |until| {
                let clock = answer.clock();
                format!("{} ({}), when the promise ends", clock.moment(&until), clock.name())
            },
        ),
        apply: if pool.promise.is_some() {
            "Save the plan and ask it each slot with `tracecast decide power`: nothing else keeps the promise. What your scheduler can hold by itself is written with --emit, and its notes say how it did."
        } else {
            "Write the change for your scheduler (slurm.conf is your own file), or save the plan and ask it each slot with `tracecast decide power`."
        }
        .to_owned(),
        command: Some(command(&answer.slurm_plan.pools, answer.criterion.as_ref())),
        undo: "Take SuspendTime (or the node pool's consolidation) out again and wake all nodes; jobs keep running."
            .to_owned(),
    })
}

/// The command that carries the plan out, as far as it can be given: `--emit slurm` fails on a pool of all VCs whose nodes nobody named, as no partition of slurm.conf is called
/// so.
fn command(pools: &[PoolPlan], service: Option<&Service>) -> String {
    let plan = "tracecast plan power TRACE";
    match service {
        Some(service) => {
            format!("{plan} --service {},{} --save plan.tcm", service.unserved_per_day, service.node_wakes_per_day)
        }
        None if pools.iter().all(|pool| pool.nodes.is_some() || pool.name != POOL) => {
            format!("{plan} --save plan.tcm --emit slurm --against slurm.conf --emit-to plan")
        }
        None => format!("{plan} --save plan.tcm --emit actions --emit-to plan"),
    }
}

fn action(answer: &PowerAnswer, followed: &Beforehand) -> String {
    let idle = |pool: &PoolPlan| format::duration(f64::from(pool.idle_s));
    let promised = answer.pool.promise.is_some();
    let slurm = answer
        .slurm_plan
        .pools
        .first()
        .map(|pool| {
            // What slurm.conf can hold is another rule, and did otherwise.
            let of_slurm = answer.pool.as_emitted(Family::SlurmConf);
            let brought = of_slurm.filter(|_| followed.policy != Family::SlurmConf).map(|rule| {
                format!(
                    ", which on those days let {} sleep where the rule let {}, with {} node-slots a day unserved where it had {}",
                    format::float(rule.delivered.nodes_asleep_mean, 1),
                    format::float(followed.delivered.nodes_asleep_mean, 1),
                    format::float(rule.delivered.unserved_per_day, 1),
                    format::float(followed.delivered.unserved_per_day, 1)
                )
            });
            if promised && pool.keep_idle >= pool.total_nodes {
                return " In Slurm alone all nodes stay on, as no setting of slurm.conf kept the promise on all days.".to_owned();
            }
            format!(
                " In Slurm{}: after {} idle, with {} idle nodes left on{}.",
                if promised { " alone, which does not watch the promise" } else { "" },
                idle(pool),
                pool.keep_idle,
                brought.unwrap_or_default()
            )
        });
    let rule = followed.policy.name().replace('_', " ");
    let clock = answer.clock();
    let now = match answer.forward.as_slice() {
        [only] => Some(format!(
            " From {} ({}): power {} of {} nodes.",
            clock.moment(&only.now.at),
            clock.name(),
            format::float(only.now.powered, 0),
            format::float(only.now.total, 0)
        )),
        [] => None,
        // Planned apart, the pools have a slot each.
        all => {
            let sum = |of: fn(&Forward) -> f64| all.iter().map(of).sum::<f64>();
            let (powered, total) = (sum(|ahead| ahead.now.powered), sum(|ahead| ahead.now.total));
            Some(format!(
                " In the first slot of {} VCs: power {} of {} nodes.",
                all.len(),
                format::float(powered, 0),
                format::float(total, 0)
            ))
        }
    };
    let guard = match &answer.criterion {
        Some(service) if promised => format!(" under a guard that holds it to {}", answer.asked_in_words(service)),
        _ => String::new(),
    };
    format!(
        "**Let idle nodes sleep**, by the rule `{rule}`{guard}.{}{}",
        now.unwrap_or_default(),
        slurm.unwrap_or_default()
    )
}

fn effects(intervals: &Intervals, days: f64) -> Vec<Effect> {
    let blocks = match intervals.block_days {
        0 | 1 => "days".to_owned(),
        days => format!("blocks of {days} days"),
    };
    let interval = format!("95 %, {blocks} of the {days:.0} days after those it was chosen on, drawn anew");
    let of = |what: &str, unit: &str, estimate: &IntervalEstimate| Effect::of(what, unit, estimate, &interval);
    vec![
        of("nodes asleep, mean", "nodes", &intervals.nodes_asleep_mean),
        of("demand that found no node ready, a day", "node-slots", &intervals.unserved_per_day),
        of("nodes woken, a day", "nodes", &intervals.node_wakes_per_day),
        of("energy saved, a day", "kWh", &intervals.energy_saved_kwh_per_day),
    ]
}

fn harmed(answer: &PowerAnswer, unserved_per_day: f64) -> Vec<Harm> {
    let mut harmed = vec![Harm {
        who: "jobs that need a node which is asleep".to_owned(),
        how_much: format!(
            "{} node-slots of {} a day wait for a boot of {}",
            format::float(unserved_per_day, 1),
            format::duration(answer.slot_s),
            format::duration(answer.constants.boot_s)
        ),
    }];
    let replayed = answer.effects.get(1).and_then(|found| found.effect.jobs.added_wait_mean_s);
    if let Some(wait) = replayed {
        harmed.push(Harm {
            who: "all jobs, in a replay".to_owned(),
            how_much: format!("the mean wait changes by {}", change_of_wait(&wait)),
        });
    }
    harmed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a newcomer: the command of a report ended after 52 s with "no partition all VCs".
    #[test]
    fn a_pool_of_all_vcs_is_no_partition() {
        let pool = |name: &str, nodes: Option<&str>| PoolPlan {
            name: name.to_owned(),
            nodes: nodes.map(str::to_owned),
            total_nodes: 4,
            gpus_per_node: 8,
            keep_idle: 1,
            idle_s: 600,
            actions: Vec::new(),
        };
        let emits = |pool: PoolPlan| command(&[pool], None).contains("--emit slurm");
        assert!(emits(pool("vision", None)) && emits(pool(POOL, Some("n[1-4]"))));
        assert!(!emits(pool(POOL, None)) && command(&[pool(POOL, None)], None).contains("--emit actions"));
    }
}
