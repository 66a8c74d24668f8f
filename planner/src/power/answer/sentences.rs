//! What the report of `plan power` says in sentences: what leads, what stands above its sections, and what the emitted plan stands for.
//!
//! The first sentence leads with what the trace has: its VCs as they stand where their nodes are known, its nodes where those are, and where nobody
//! recorded them the assumption stands in the same sentence. Worked example: a trailing maximum of 6 h chosen from 465 settings that lets 117.4 of 420
//! nodes sleep where the optimum with as much unserved lets 127.0 saves about 92 % of its energy.

use tracecast_analytics::report::format;

use super::words::{set, spelled};
use super::{Beforehand, ByHour, PowerAnswer, Resimulated};
use crate::power::family::Family;
use crate::power::interval::Intervals;

/// Place of the effect of the chosen rules.
pub(super) const FOLLOWED: usize = 1;

/// What a replay of a plan meant, a sentence.
fn replayed(replay: &Resimulated) -> Option<String> {
    let (asleep, saved) = (replay.effect.nodes_asleep_mean?, replay.effect.energy_saved_kwh?);
    let wait = replay.effect.jobs.added_wait_mean_s?;
    Some(format!(
        "Run again with the jobs, {} lets {:.1} of {} nodes sleep and saves {:.0} kWh; the mean wait changes by {:+.0} s ({:+.0} to {:+.0}).",
        replay.effect.name, asleep.value, replay.effect.nodes, saved.value, wait.value, wait.low, wait.high
    ))
}

/// What intervals were drawn from.
pub(super) fn anew(intervals: &Intervals) -> &'static str {
    if intervals.block_days == 1 { "days drawn anew" } else { "weeks drawn anew" }
}

impl PowerAnswer {
    /// What leads: one sentence on sleep, with what it assumes.
    pub fn headline(&self) -> String {
        let (pool, chosen) = (&self.pool, &self.pool.chosen);
        let beside = |over: Option<&Intervals>| match over {
            Some(over) if chosen.name != Family::TrailingMaximum || self.vcs_as_they_stand.is_some() => format!(
                " That is {:+.1} nodes ({:+.1} to {:+.1}) against a trailing maximum chosen in the same way.",
                over.nodes_asleep_mean.value, over.nodes_asleep_mean.low, over.nodes_asleep_mean.high
            ),
            _ => String::new(),
        };
        if let Some(vcs) = &self.vcs_as_they_stand {
            let figures = &vcs.chosen;
            let pooled = format!(
                "s one pool, if every node could serve every VC, {:.1} of {:.0} nodes with {} unserved",
                chosen.scored.outcome.nodes_asleep_mean,
                pool.nodes_mean,
                format::compact(chosen.scored.outcome.unserved_node_slots),
            );
            if figures.nodes_asleep_mean.high <= 0.0 {
                let least = vcs.trailing_maximum.as_ref().map_or_else(String::new, |least| {
                    let asleep = least.nodes_asleep_mean.value;
                    format!(" A trailing maximum would have let {asleep:.1} of them sleep over the {:.0} days that followed.", pool.days)
                });
                return format!(
                    "With the {} VCs as they stand, each on its own nodes, no rule was worth its shortages on the days before, at the prices assumed: **all {:.0} nodes stay on**.{least} A{pooled}.",
                    vcs.vcs, vcs.nodes_mean,
                );
            }
            return format!(
                "With the {} VCs as they stand, each on its own nodes, the rules chosen beforehand would have let **{:.1}** of {:.0} nodes sleep on average ({:.1} to {:.1}, {}) over the {:.0} days that followed, saved **{}** kWh net of boots and left {} node-slots of {} unserved; a{pooled}.{}",
                vcs.vcs,
                figures.nodes_asleep_mean.value,
                vcs.nodes_mean,
                figures.nodes_asleep_mean.low,
                figures.nodes_asleep_mean.high,
                anew(figures),
                pool.days,
                format::compact(vcs.energy_saved_kwh),
                format::compact(vcs.unserved_node_slots),
                format::duration(self.slot_s),
                beside(vcs.over_trailing_maximum.as_ref()),
            );
        }
        let assumed = if self.capacity_known {
            String::new()
        } else {
            format!(
                "Nobody recorded how many nodes there are: if there were no more than were ever in use at once ({:.0} by now), and each could serve every job, ",
                pool.nodes_mean.ceil()
            )
        };
        let figures = &chosen.intervals;
        let rule = format!("**{}**, chosen on the days before,", spelled(chosen.name));
        format!(
            "{assumed}{rule} would have let **{:.1}** of {:.0} nodes sleep on average ({:.1} to {:.1}, {}) over the {:.0} days that followed, saved **{}** kWh net of boots{} and left {} node-slots of {} unserved.{}",
            chosen.scored.outcome.nodes_asleep_mean,
            pool.nodes_mean,
            figures.nodes_asleep_mean.low,
            figures.nodes_asleep_mean.high,
            anew(figures),
            pool.days,
            format::compact(chosen.scored.outcome.energy_saved_kwh),
            chosen.share_of_optimum.map_or_else(String::new, |share| {
                format!(", {} of what the exact optimum saves that leaves as much unserved,", format::percent(share))
            }),
            format::compact(chosen.scored.outcome.unserved_node_slots),
            format::duration(self.slot_s),
            beside(chosen.over_trailing_maximum.as_ref()),
        )
    }

    /// What the report says above its sections.
    pub(super) fn summary(&self) -> Vec<String> {
        let mut said = vec![self.headline()];
        let told = |rule: &Beforehand| {
            format!(
                "{} {:.1} with {} unserved",
                spelled(rule.policy),
                rule.delivered.nodes_asleep_mean,
                format::compact(rule.scored.outcome.unserved_node_slots)
            )
        };
        let others: Vec<String> = self.pool.beforehand.iter().filter(|rule| !rule.chosen).map(told).collect();
        let of_pool = if self.vcs_as_they_stand.is_some() { "For all nodes as one pool, beside" } else { "Beside" };
        if !others.is_empty() {
            said.push(format!(
                "{of_pool} {} ({}), chosen in the same way: {}.",
                spelled(self.pool.chosen.name),
                self.pool.chosen.because.in_words(),
                others.join("; ")
            ));
        }
        if let Some(rule) = self.pool.beforehand.iter().find(|rule| rule.chosen) {
            said.push(format!(
                "The days of choice promised {:.1} nodes asleep, {:.1} unserved node-slots and {:.1} node-wakes a day; the days evaluated delivered {:.1}, {:.1} and {:.1}.",
                rule.promised.nodes_asleep_mean,
                rule.promised.unserved_per_day,
                rule.promised.node_wakes_per_day,
                rule.delivered.nodes_asleep_mean,
                rule.delivered.unserved_per_day,
                rule.delivered.node_wakes_per_day
            ));
        }
        let covered = |hourly: &ByHour| match hourly.covered_share {
            share if share >= 1.0 => String::new(),
            share => format!(" (of the {} of the time whose hours are known)", format::percent(share)),
        };
        said.extend(self.promise_in_words());
        let whose = match (&self.pool.promise, &self.vcs_as_they_stand) {
            (Some(_), _) => " under the promise",
            (None, Some(_)) => " by the one pool",
            (None, None) => "",
        };
        if let Some(yearly) = &self.yearly {
            said.push(yearly.sentence(whose));
        }
        let money = self.cost_saved.as_ref().zip(self.currency.as_ref());
        let money = money.map(|(cost, unit)| format!("{} {unit}{}", format::compact(cost.value), covered(cost)));
        let carbon = self.co2_saved_kg.as_ref();
        let carbon = carbon.map(|co2| format!("{} kg of CO₂ equivalent{}", format::compact(co2.value), covered(co2)));
        let worth: Vec<String> = money.into_iter().chain(carbon).collect();
        if !worth.is_empty() {
            said.push(format!("By the rates of each hour {}{whose} is saved.", worth.join(" and ")));
        }
        said.extend(self.replayed_in_words());
        said
    }

    /// What the rule brought under the guard of a promise.
    fn promise_in_words(&self) -> Option<String> {
        let promise = self.pool.promise.as_ref()?;
        let days = self.pool.days.max(f64::MIN_POSITIVE);
        Some(format!(
            "Under the promise of at most {} unserved node-slots and {} node-wakes a day, {} let **{:.1}** nodes sleep over the {:.0} days evaluated, saved **{}** kWh a day, and left {} unserved at {} wakes a day: the promise was {}.",
            format::compact(promise.asked.unserved_per_day),
            format::compact(promise.asked.node_wakes_per_day),
            spelled(Family::of(&promise.scored.setting)),
            promise.scored.outcome.nodes_asleep_mean,
            self.pool.days,
            format::compact(promise.scored.outcome.energy_saved_kwh / days),
            format::compact(promise.realised.unserved_per_day),
            format::compact(promise.realised.node_wakes_per_day),
            if promise.kept { "kept" } else { "**broken**" }
        ))
    }

    /// Saving and wait of the rules that were chosen, from one and the same replay.
    fn replayed_in_words(&self) -> Option<String> {
        let (first, followed) = (self.effects.first()?, self.effects.get(FOLLOWED)?);
        let jobs = &followed.effect.jobs;
        let (wait, base) = (jobs.added_wait_mean_s?, first.effect.jobs.baseline_wait_mean_s?);
        let (asleep, saved) = (followed.effect.nodes_asleep_mean?, followed.effect.energy_saved_kwh?);
        Some(format!(
            "With the scheduler run again under the rules {}, {:.1} of {} nodes sleep, {} kWh are saved, and the mean wait of {} changes by {:+.0} s ({:+.0} to {:+.0}; {} on nodes that are always on).",
            followed.effect.name,
            asleep.value,
            followed.effect.nodes,
            format::compact(saved.value),
            format::counted(jobs.jobs, "job", "jobs"),
            wait.value,
            wait.low,
            wait.high,
            format::duration(base),
        ))
    }

    /// What the emitted plan stands for, a sentence each.
    pub fn plan_in_words(&self) -> Vec<String> {
        let row = |family: Family| self.pool.beforehand.iter().find(|rule| rule.policy == family);
        let meant = |rule: &Beforehand| {
            let outcome = &rule.scored.outcome;
            format!(
                "over the {:.0} days evaluated it would have let {:.1} nodes sleep, with {:.0} unserved node-slots, {:.1} node-wakes a day and {:.0} kWh saved",
                self.pool.days,
                outcome.nodes_asleep_mean,
                outcome.unserved_node_slots,
                outcome.node_wakes_per_day,
                outcome.energy_saved_kwh
            )
        };
        let mut said = Vec::new();
        if let Some(rule) = row(Family::SlurmConf) {
            said.push(format!(
                "slurm.conf puts each node to sleep by itself, leaves some idle and holds no reserve, so it gets a timeout of its own ({}) and not {}: {}.",
                set(&rule.scored.setting, self.slot_s),
                spelled(self.pool.chosen.name),
                meant(rule)
            ));
        }
        if let Some(replay) = self.effects.last().filter(|_| self.effects.len() > FOLLOWED) {
            said.extend(replayed(replay));
        }
        if let Some(rule) = row(Family::TrailingMaximum) {
            said.push(format!(
                "Karpenter and the cluster-autoscaler time out and hold a reserve, so they get the trailing maximum as chosen ({}): {}.",
                set(&rule.scored.setting, self.slot_s),
                meant(rule)
            ));
        }
        said.push(
            "The schedule of actions is for the day after the data: of each hour a quantile of the forecast demand, and a buffer. Without a forecast it holds the first slot alone. It does not watch what comes, so no promise is made for it; write it again every day."
                .to_owned(),
        );
        if !self.capacity_known {
            said.push(
                "How many nodes there are was not recorded: the most in use at once so far stand for them.".to_owned(),
            );
        }
        said
    }

    /// Which rule is to be followed, and why.
    pub(super) fn criterion_in_words(&self) -> String {
        let name = spelled(self.pool.chosen.name);
        let days = self.pool.choice_days;
        let why = self.pool.chosen.because.in_words();
        match &self.criterion {
            None => {
                format!("**{name}** is to be followed: judged by cost on the {days:.1} days of choice it is {why}.")
            }
            Some(service) => {
                let followed = self.pool.beforehand.iter().find(|rule| rule.chosen);
                let kept = followed.is_some_and(|rule| {
                    let policy = self.pool.policies.iter().find(|policy| policy.name == rule.policy);
                    policy.is_some_and(|policy| service.holds(&policy.chosen_before, days))
                });
                let asked = format!(
                    "{} unserved node-slots and {} node-wakes a day",
                    service.unserved_per_day, service.node_wakes_per_day
                );
                let delivered = followed.map_or_else(String::new, |rule| {
                    format!(
                        " Over the days evaluated it delivered {:.1} and {:.1}.",
                        rule.delivered.unserved_per_day, rule.delivered.node_wakes_per_day
                    )
                });
                if kept {
                    format!(
                        "Asked for at most {asked}, **{name}** is to be followed: on the days of choice it kept to that, and it is {why}.{delivered}"
                    )
                } else {
                    format!(
                        "On the days of choice no rule kept to {asked}; **{name}** had the least shortage.{delivered}"
                    )
                }
            }
        }
    }
}
