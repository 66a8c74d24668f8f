//! What follows from the test: whether nodes are to sleep, how sure that is, and the change in the
//! form of every plan.
//!
//! Nodes are to sleep if the rule that the past chose let some sleep on the days after it, saved
//! energy there and kept what was promised. Of VCs that are planned apart each has a promise of its
//! own: one kept is enough, and a caution names those that were broken. Worked example: 7.2 nodes
//! asleep (3.9 to 11.1) against all on, where the optimum lets 14.5 sleep.

use tracecast_analytics::report::format;
use tracecast_predictors::demand::gather::POOL;

use super::words::change_of_wait;
use super::{ChosenFor, PowerBody, PowerTrial};
use crate::plan::answer::Change;
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, Regret, SIZES_UNKNOWN};
use crate::power::forward::Forward;
use crate::power::forward::plan::{PoolPlan, PowerPlan};
use crate::power::rule::family::Family;
use crate::power::score::interval::Intervals;
use crate::power::score::service::Service;
use crate::replay::compare::IntervalEstimate;

impl PowerTrial {
    /// Figures and nodes of what is planned. VCs that stand apart sleep apart, unless somebody
    /// pools them.
    fn planned(&self) -> (&Intervals, f64) {
        let pool = (&self.pool.chosen.intervals, self.pool.nodes_mean);
        self.leading_vcs().map_or(pool, |vcs| (&vcs.chosen, vcs.nodes_mean))
    }

    /// Whether any node slept in the test, and saved energy.
    fn saves(&self) -> bool {
        let (figures, _) = self.planned();
        figures.nodes_asleep_mean.value > 0.0 && figures.energy_saved_kwh_per_day.value > 0.0
    }

    /// Whether nodes are to sleep.
    pub(super) fn judge(&self, sizes_unknown: bool) -> Verdict {
        let kept = match self.leading_vcs() {
            Some(vcs) => vcs.promises_kept.is_none_or(|kept| kept > 0),
            None => self.pool.promise.is_none_or(|promise| promise.kept),
        };
        if sizes_unknown {
            Verdict::SizesUnknown
        } else if self.planned().0.nodes_asleep_mean.value <= 0.0 {
            Verdict::NothingBetter
        } else if !kept {
            Verdict::LimitMissed
        } else if self.saves() {
            Verdict::Advised
        } else {
            Verdict::NoSaving
        }
    }

    /// The cautions for which an answer cannot be relied on, a sentence each: what takes the ground
    /// from it (`doubts`), and what its test found.
    fn lowering(&self, doubts: &[String]) -> Vec<String> {
        let (figures, nodes) = self.planned();
        let asleep = &figures.nodes_asleep_mean;
        let mut said = doubts.to_vec();
        said.extend(self.broken_in_words());
        said.extend(self.hardly_used(asleep.value, nodes));
        said.extend(self.waited_beside_idle(asleep.value).filter(|_| self.saves()));
        if self.saves() && asleep.low <= 0.0 {
            said.push(format!(
                "**Other days like those tested might have let no node sleep**: the interval of the nodes asleep is {} to {}.",
                format::float(asleep.low, 1),
                format::float(asleep.high, 1)
            ));
        }
        said
    }

    /// How sure the answer is, whether it changes anything or not.
    pub(super) fn assurance(&self, doubts: &[String]) -> Assurance {
        let nodes = format::float(self.planned().1, 0);
        let mut risk = format!("It was tried on one stretch of {:.0} days of {nodes} nodes.", self.pool.days);
        if self.saves() {
            risk.push_str(&format!(
                " Demand that rises faster than it ever did waits for a boot of {}.",
                format::duration(self.constants.boot_s)
            ));
        }
        risk.push_str(" `tracecast plan power --test` tries it on every stretch there is.");
        Assurance::lowered(Confidence::Medium, self.lowering(doubts), &risk)
    }

    /// What is to change where that is advised.
    pub(super) fn change(&self, body: &PowerBody, sure: Assurance) -> Change {
        let pool = &self.pool;
        let (figures, _) = self.planned();
        let trailing = pool.as_emitted(Family::TrailingMaximum);
        let regret = Regret {
            oracle: "the optimum that knows all demand and serves it, at a switching cost of two hours".to_owned(),
            oracle_change: pool.offline_optimum.outcome.nodes_asleep_mean,
            naive_change: trailing.map(|rule| rule.scored.outcome.nodes_asleep_mean),
            naive: trailing.map(|rule| match rule.chosen_for {
                ChosenFor::Service => "trailing maximum for the same service, without a guard".to_owned(),
                _ => "trailing maximum".to_owned(),
            }),
        };
        let until = body.forward.first().and_then(|ahead| ahead.now.promised_until.as_ref());
        Change {
            plan: "power",
            effects: effects(figures, pool.days),
            against: "all nodes powered".to_owned(),
            basis: Basis::LaterDays,
            regret: Some(regret).filter(|_| self.leading_vcs().is_none()),
            harmed: self.harmed(figures.unserved_per_day.value),
            risk: sure.risk.clone(),
            sure,
            assumed: vec![
                format!(
                    "An idle node draws {} W and one that is off {} W.",
                    format::float(self.constants.idle_w, 0),
                    format::float(self.constants.off_w, 0)
                ),
                "Nodes boot when they are told to, and any node can serve any job of its pool.".to_owned(),
            ],
            holds_until: until.map_or_else(
                || "demand changes its habits; make a new plan every two weeks".to_owned(),
                |until| {
                    let clock = self.clock();
                    format!("{} ({}), when the promise ends", clock.moment(until), clock.name())
                },
            ),
            apply: if pool.promise.is_some() {
                "Save the plan and ask it each slot with `tracecast decide power`: nothing else keeps the promise. What your scheduler can hold by itself is written with --emit, and its notes say how it did."
            } else {
                "Write the change for your scheduler (slurm.conf is your own file), or save the plan and ask it each slot with `tracecast decide power`."
            }
            .to_owned(),
            command: Some(command(&body.slurm_plan.pools, self.criterion.as_ref())),
            undo: "Take SuspendTime (or the node pool's consolidation) out again and wake all nodes; jobs keep running.",
        }
    }

    /// Recommended action, in a sentence; where nothing is advised, why.
    pub(super) fn action(&self, body: &PowerBody, verdict: Verdict) -> String {
        match verdict {
            Verdict::Advised => self.act(body),
            Verdict::SizesUnknown => format!("**Change nothing on this answer**: {SIZES_UNKNOWN}."),
            Verdict::LimitMissed => format!("**Change nothing**. {}", self.missed()),
            _ => format!("**Change nothing**. {}", self.all_on(verdict)),
        }
    }

    /// What to do where nodes are to sleep: the rule, what it does in its first slot, and what
    /// Slurm can hold.
    fn act(&self, body: &PowerBody) -> String {
        let (name, promised) = (self.pool.chosen.name, self.pool.promise.is_some());
        let clock = self.clock();
        let now = match body.forward.as_slice() {
            [only] => format!(
                " From {} ({}): power {} of {} nodes.",
                clock.moment(&only.now.at),
                clock.name(),
                format::float(only.now.powered, 0),
                format::float(only.now.total, 0)
            ),
            [] => String::new(),
            // Planned apart, the pools have a slot each.
            all => {
                let sum = |of: fn(&Forward) -> f64| all.iter().map(of).sum::<f64>();
                let (powered, total) = (sum(|ahead| ahead.now.powered), sum(|ahead| ahead.now.total));
                format!(
                    " In the first slot of {} VCs: power {} of {} nodes.",
                    all.len(),
                    format::float(powered, 0),
                    format::float(total, 0)
                )
            }
        };
        let guard = match &self.criterion {
            Some(service) if promised => format!(" under a guard that holds it to {}", self.asked_in_words(service)),
            _ => String::new(),
        };
        format!(
            "**Let idle nodes sleep**, by the rule `{}`{guard}.{now}{}",
            name.name().replace('_', " "),
            self.in_slurm(&body.slurm_plan)
        )
    }

    /// What Slurm can hold of it, a sentence with a blank before it.
    fn in_slurm(&self, plan: &PowerPlan) -> String {
        let promised = self.pool.promise.is_some();
        let sleep: Vec<String> =
            plan.pools.iter().filter(|pool| pool.may_sleep()).map(|pool| pool.name.clone()).collect();
        if promised && sleep.is_empty() && !plan.pools.is_empty() {
            return " In Slurm alone all nodes stay on, as no setting of slurm.conf kept the promise on all days."
                .to_owned();
        }
        let alone = if promised { " alone, which does not watch the promise" } else { "" };
        let [pool] = plan.pools.as_slice() else {
            if sleep.is_empty() {
                return String::new();
            }
            let names = format::names(&sleep, 6);
            return format!(" In Slurm{alone}: idle nodes of {names} may sleep, each after its own time.");
        };
        // What slurm.conf can hold is another rule, and did otherwise.
        let other = self.pool.as_emitted(Family::SlurmConf).filter(|_| self.pool.chosen.name != Family::SlurmConf);
        let brought = other.zip(self.pool.beforehand.first()).map_or_else(String::new, |(rule, followed)| {
            format!(
                ", which on those days let {} sleep where the rule let {}, with {} node-slots a day unserved where it had {}",
                format::float(rule.delivered.nodes_asleep_mean, 1),
                format::float(followed.delivered.nodes_asleep_mean, 1),
                format::float(rule.delivered.unserved_per_day, 1),
                format::float(followed.delivered.unserved_per_day, 1)
            )
        });
        format!(
            " In Slurm{alone}: after {} idle, with {} idle nodes left on{brought}.",
            format::duration(f64::from(pool.idle_s)),
            pool.keep_idle
        )
    }

    /// Those who are worse off, and by how much.
    fn harmed(&self, unserved_per_day: f64) -> Vec<Harm> {
        let mut harmed = vec![Harm {
            who: "jobs that need a node which is asleep".to_owned(),
            how_much: format!(
                "{} node-slots of {} a day wait for a boot of {}",
                format::float(unserved_per_day, 1),
                format::duration(self.slot_s),
                format::duration(self.constants.boot_s)
            ),
        }];
        let replayed = self.effects.get(1).and_then(|result| result.effect.jobs.added_wait_mean_s);
        harmed.extend(replayed.map(|wait| Harm {
            who: "all jobs, in a replay".to_owned(),
            how_much: format!("the mean wait changes by {}", change_of_wait(&wait)),
        }));
        harmed
    }
}

/// The command that carries the plan out, as far as it can be given: `--emit slurm` fails on a pool
/// of all VCs whose nodes nobody named, as no partition of slurm.conf is called so.
fn command(pools: &[PoolPlan], service: Option<&Service>) -> String {
    let plan = "tracecast plan power TRACE";
    match service {
        Some(service) => {
            format!("{plan} --promise {},{} --save plan.tcm", service.unserved_per_day, service.node_wakes_per_day)
        }
        None if pools.iter().all(|pool| pool.nodes.is_some() || pool.name != POOL) => {
            format!("{plan} --save plan.tcm --emit slurm --against slurm.conf --emit-to plan")
        }
        None => format!("{plan} --save plan.tcm --emit actions --emit-to plan"),
    }
}

fn effects(intervals: &Intervals, days: f64) -> Vec<Effect> {
    let blocks = match intervals.block_days {
        0 | 1 => "days".to_owned(),
        days => format!("blocks of {days} days"),
    };
    let interval = format!("95 %, {blocks} of the {days:.0} days after those it was chosen on, drawn anew");
    let of = |what: &str, unit: &str, estimate: &IntervalEstimate| Effect::new(what, unit, estimate, &interval);
    vec![
        of("nodes asleep, mean", "nodes", &intervals.nodes_asleep_mean),
        of("demand that found no node ready, a day", "node-slots", &intervals.unserved_per_day),
        of("nodes woken, a day", "nodes", &intervals.node_wakes_per_day),
        of("energy saved, a day", "kWh", &intervals.energy_saved_kwh_per_day),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the command of a report ended after 52 s with "no partition all VCs".
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
