//! What the emitted files stand for, which `NOTES.txt` says beside them, and which rule is to be followed.
//!
//! What a site can hold without a loop watches no promise: slurm.conf, node pools and the schedule let nodes sleep under one only where their setting kept to the
//! service on the days of choice and on those evaluated. Worked example: a timeout of 1 h that left 4 node-slots a day unserved where 3 were promised is told, and keeps all
//! nodes on.

use tracecast_analytics::report::format;

use super::sentences::FOLLOWED;
use super::words::{change_of_wait, set, spelled};
use super::{Beforehand, PoolFindings, PowerAnswer, PowerTrial, Resimulated};
use crate::plan::Assurance;
use crate::plan::verdict::Verdict;
use crate::power::forward::config::Target;
use crate::power::rule::family::Family;

/// Outcome of a replay of a plan, a sentence.
fn replayed(replay: &Resimulated) -> Option<String> {
    let (asleep, saved) = (replay.effect.nodes_asleep_mean?, replay.effect.energy_saved_kwh?);
    let wait = replay.effect.jobs.added_wait_mean_s?;
    Some(format!(
        "Run again with the jobs, {} lets {} of {} nodes sleep and saves {} kWh in these days; the mean wait changes by {}.",
        replay.effect.name,
        format::float(asleep.value, 1),
        replay.effect.nodes,
        format::float(saved.value, 0),
        change_of_wait(&wait)
    ))
}

/// Outcome of a rule on the days evaluated.
fn meant(rule: &Beforehand, days: f64) -> String {
    format!(
        "over the {days:.0} days evaluated it would have let {} nodes sleep on average, with {} unserved node-slots, {} node-wakes and {} kWh saved a day",
        format::float(rule.delivered.nodes_asleep_mean, 1),
        format::float(rule.delivered.unserved_per_day, 1),
        format::float(rule.delivered.node_wakes_per_day, 1),
        format::float(rule.intervals.energy_saved_kwh_per_day.value, 0)
    )
}

/// What the plan as emitted for some targets stands for, a sentence each: of the one pool, or of
/// each VC where they are planned apart.
pub fn plan_in_words(answer: &PowerAnswer, targets: &[Target]) -> Vec<String> {
    let PowerAnswer { trial, body, .. } = answer;
    let asks_slot_by_slot = targets.contains(&Target::Loop);
    let has_slurm = targets.contains(&Target::Slurm);
    let has_kubernetes = [Target::Karpenter, Target::ClusterAutoscaler].iter().any(|of| targets.contains(of));
    let apart = trial.planned_apart;
    let pools: Vec<&PoolFindings> = if apart { trial.vcs.iter().collect() } else { vec![&trial.pool] };
    let of = |pool: &str| if apart { format!("{pool}: ") } else { String::new() };
    let sleeping = || pools.iter().filter(|pool| pool.chosen.name != Family::AlwaysOn);
    let rows = |family: Family| sleeping().filter_map(move |pool| Some((*pool, pool.as_emitted(family)?)));
    let mut said: Vec<String> = answer.cautions.clone();
    said.extend(pooled_in_words(trial));
    said.extend(trial.headline(&body.forward));
    said.extend(answer.assurance.as_ref().map(Assurance::sentence));
    said.extend(body.assumed.iter().cloned());
    if apart {
        said.push(format!(
            "Each of the {} VCs is planned on nodes of its own, and the files hold a pool for each.",
            trial.vcs.len()
        ));
    }
    if pools.iter().any(|pool| pool.promise.is_some()) {
        let which = if asks_slot_by_slot {
            "power-loop.sh does, while it runs. The other files"
        } else {
            "save the plan with --save plan.tcm, and ask `tracecast decide power --plan plan.tcm STATE` each slot. The files here"
        };
        said.push(format!(
            "**Only a loop keeps the promise**: {which} do not watch what comes. They let nodes sleep only where their setting kept to the service that was asked for, on the days of choice and on the days evaluated; else they keep all nodes on."
        ));
    }
    let stays = pools.iter().filter(|pool| pool.chosen.name == Family::AlwaysOn);
    said.extend(stays.map(|pool| {
        format!(
            "{}**Keep all nodes on**: no rule that sleeps was worth its shortages. The files keep them on.",
            of(&pool.series)
        )
    }));
    if asks_slot_by_slot && has_slurm {
        said.push(
            "power-loop.sh decides which nodes sleep. The slurm.conf beside it puts none to sleep by itself."
                .to_owned(),
        );
    }
    let by_itself = rows(Family::SlurmConf).filter(|_| has_slurm && !asks_slot_by_slot);
    said.extend(by_itself.map(|(pool, rule)| {
        let setting = set(&rule.scored.setting, trial.slot_s);
        let what = match rule.keeps_service {
            Some(false) => format!(
                "slurm.conf keeps all nodes on. The timeout that was best on the days of choice ({setting}) did not keep to the service"
            ),
            _ => format!(
                "slurm.conf puts each node to sleep by itself, leaves some idle and holds no reserve, so it gets a timeout of its own ({setting}) and not {}",
                spelled(pool.chosen.name)
            ),
        };
        format!("{}{what}: {}.", of(&pool.series), meant(rule, pool.days))
    }));
    let replay = trial.effects.last().filter(|_| trial.effects.len() > FOLLOWED && has_slurm && !asks_slot_by_slot);
    if let Some(replay) = replay {
        said.extend(replayed(replay));
    }
    said.extend(rows(Family::TrailingMaximum).filter(|_| has_kubernetes).map(|(pool, rule)| {
        let setting = set(&rule.scored.setting, trial.slot_s);
        let what = match rule.keeps_service {
            Some(false) => format!(
                "Karpenter and the cluster-autoscaler keep all nodes on. The trailing maximum that was best on the days of choice ({setting}) did not keep to the service without a guard"
            ),
            _ => format!(
                "Karpenter and the cluster-autoscaler time out and hold a reserve, so they get the trailing maximum as chosen ({setting})"
            ),
        };
        format!("{}{what}: {}.", of(&pool.series), meant(rule, pool.days))
    }));
    if targets.contains(&Target::Actions) {
        said.push(
            "The schedule of actions is for the day after the data: of each hour a quantile of the forecast demand, and a buffer; in the first hour no fewer nodes than the rule powers in its first slot. Without a forecast it holds the first slot alone. It does not watch what comes, so no promise is made for it; write it again every day."
                .to_owned(),
        );
        said.extend(body.forward.iter().filter_map(|ahead| {
            let why = ahead.schedule.as_ref()?.all_on.as_ref()?;
            Some(format!("{}The schedule keeps all nodes on: {why}.", of(&ahead.now.pool)))
        }));
    }
    if !trial.capacity_known {
        said.push(
            "How many nodes there are was not recorded: the most in use at once so far stand for them.".to_owned(),
        );
    }
    said
}

/// A sentence that what is written is for one pool, where the VCs have private nodes.
pub fn pooled_in_words(trial: &PowerTrial) -> Option<String> {
    let vcs = trial.vcs_as_they_stand.as_ref().filter(|_| !trial.planned_apart)?;
    Some(format!(
        "**What is written here is of all nodes as one pool, as if each of the {} VCs could use every node.** Where each VC has nodes of its own, make the plan with --by-vc.",
        vcs.vcs
    ))
}

impl PowerTrial {
    /// A sentence on the rule to be followed, or that was chosen where nothing is advised, and why.
    pub(super) fn criterion_in_words(&self, verdict: Verdict) -> String {
        let followed = if verdict == Verdict::Advised { "is to be followed" } else { "was chosen" };
        let name = spelled(self.pool.chosen.name);
        let days = self.pool.choice_days;
        let why = self.pool.chosen.because.in_words();
        let chosen = self.pool.beforehand.iter().find(|rule| rule.chosen);
        let (Some(service), Some(rule)) = (&self.criterion, chosen) else {
            return if self.planned_apart {
                format!(
                    "Of all nodes as one pool, if every node could serve every VC, **{name}** was chosen: judged by cost on the {days:.1} days of choice it is {why}. Each VC has a rule of its own, so this is shown for comparison."
                )
            } else {
                let pooled = if self.vcs_as_they_stand.is_some() { "If all nodes are one pool, " } else { "" };
                format!("{pooled}**{name}** {followed}: judged by cost on the {days:.1} days of choice it is {why}.")
            };
        };
        format!(
            "Asked for {}, **{name}** {} under a guard, which lets nodes sleep only as deep as what is left of the promise can bear: on the {days:.1} days of choice {} slept so. Over the days evaluated {} unserved node-slots and {} node-wakes a day came: the promise was {}.",
            self.asked_in_words(service),
            if self.planned_apart {
                "was chosen for all nodes as one pool, which is shown for comparison,"
            } else {
                followed
            },
            format::float(rule.promised.nodes_asleep_mean, 1),
            format::compact(rule.delivered.unserved_per_day),
            format::compact(rule.delivered.node_wakes_per_day),
            if self.pool.promise.is_some_and(|promise| promise.kept) { "kept" } else { "**broken**" }
        )
    }
}
