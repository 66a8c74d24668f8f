//! What the report of `plan power` says in sentences: what leads, what stands above its sections, and what the emitted plan stands for.
//!
//! What leads says in plain words how many nodes stay on and sleep, what that saves, what may go wrong, and what a simple rule would do. It is of what the
//! trace has: its VCs as they stand where their nodes are known, its nodes where those are, and where nobody recorded them it says what is assumed. Worked example: a trailing maximum of 6 h chosen from 465 settings that lets 117.4 of 420
//! nodes sleep where the optimum with as much unserved lets 127.0 saves about 92 % of its energy.

use tracecast_analytics::report::format;

use super::words::{set, spelled};
use super::{Beforehand, ByHour, PoolFindings, PowerAnswer, Resimulated};
use crate::power::family::Family;
use crate::power::interval::Intervals;
use crate::power::rule::Setting;
use crate::power::yearly::YEAR_DAYS;

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

/// Where more of the nodes would sleep than this share, jobs may be missing.
const MOSTLY_ASLEEP: f64 = 0.95;
/// What is said then.
pub(in crate::power) const HARDLY_USED: &str = "Nearly all nodes would sleep: if the trace holds only part of the jobs, the others need nodes, too. Find that out first. ";

/// Whether so many of the nodes would sleep that jobs may be missing.
pub(in crate::power) fn hardly_used(asleep: f64, nodes: f64) -> bool {
    asleep > MOSTLY_ASLEEP * nodes
}

/// How many times as often as promised nodes are missing where the days tested are called unlike those of choice, if that is more than once a day.
const FAR_MORE: f64 = 10.0;

/// The rule that is simplest to follow, in words.
const SIMPLE: &str = "keep on as many nodes as were needed at most of late, and some to spare";

/// Against the simple rule.
fn beside(over: &Intervals) -> String {
    let asleep = &over.nodes_asleep_mean;
    let (many, low, high, than) = if asleep.value < 0.0 {
        (-asleep.value, -asleep.high, -asleep.low, "fewer")
    } else {
        (asleep.value, asleep.low, asleep.high, "more")
    };
    format!(" That is {many:.1} {than} ({low:.1} to {high:.1}) asleep than with the simple rule ({SIMPLE}).")
}

impl PowerAnswer {
    /// What leads: how many nodes stay on and sleep, what that saves, at which risk, and against which simple rule.
    pub fn headline(&self) -> String {
        let (pool, chosen) = (&self.pool, &self.pool.chosen);
        let outcome = &chosen.scored.outcome;
        if let Some(vcs) = &self.vcs_as_they_stand {
            let figures = &vcs.chosen;
            let stand = format!("With the {} VCs as they stand, each on its own nodes", vcs.vcs);
            let pooled = format!(
                "As one pool, if every node could serve every VC, {:.1} of {} would sleep, and {} times a node would be missing.",
                outcome.nodes_asleep_mean,
                format::float(pool.nodes_mean, 0),
                format::compact(outcome.unserved_node_slots),
            );
            if figures.nodes_asleep_mean.high <= 0.0 {
                let least = vcs.trailing_maximum.as_ref().map(|least| least.nodes_asleep_mean.value);
                return format!("{stand}, {} {pooled}", self.all_on(vcs.nodes_mean, least));
            }
            return format!(
                "{stand}, of {} {} {}{} {pooled}",
                self.on_and_asleep(figures, vcs.nodes_mean),
                self.saves(vcs.energy_saved_kwh),
                self.risk(vcs.unserved_node_slots),
                vcs.over_trailing_maximum.as_ref().map_or_else(String::new, beside),
            );
        }
        let assumed = if self.capacity_known {
            None
        } else {
            Some(format!(
                "Nobody recorded how many nodes there are: if there were no more than were ever in use at once ({} by now), and each could serve every job, ",
                format::float(pool.nodes_mean.ceil(), 0)
            ))
        };
        if chosen.name == Family::AlwaysOn {
            let row = pool.beforehand.iter().find(|rule| rule.policy == Family::TrailingMaximum);
            let least = row.map(|rule| rule.delivered.nodes_asleep_mean);
            let all_on = self.all_on(pool.nodes_mean, least);
            return match assumed {
                Some(assumed) => format!("{assumed}{all_on}"),
                None => all_on.replacen("**all", "**All", 1),
            };
        }
        let rule = match (chosen.name, &chosen.scored.setting) {
            (_, Setting::TrailingMaximum { slots, buffer }) => format!(
                " The rule is the simple one: keep on as many nodes as were needed at most in the last {}, and {buffer} to spare.",
                format::duration(*slots as f64 * self.slot_s)
            ),
            (name, _) => {
                let simple = chosen.over_trailing_maximum.as_ref().map_or_else(String::new, beside);
                format!(" The rule is {}.{simple}", spelled(name))
            }
        };
        format!(
            "{} {} {} {}{rule}",
            assumed.map_or_else(|| "Of".to_owned(), |assumed| format!("{assumed}of")),
            self.on_and_asleep(&chosen.intervals, pool.nodes_mean),
            self.saves(outcome.energy_saved_kwh),
            self.risk(outcome.unserved_node_slots),
        )
    }

    /// Where no node is to sleep; under the simple rule so many would.
    fn all_on(&self, nodes: f64, simple: Option<f64>) -> String {
        let simple = simple.map_or_else(String::new, |asleep| {
            format!(
                " The simple rule ({SIMPLE}) would have let {asleep:.1} of them sleep over the {:.0} days tested.",
                self.pool.days
            )
        });
        format!(
            "**all {} nodes stay on**: on the days before those tested, no rule saved more than the shortages that it caused cost, at the prices assumed.{simple}",
            format::float(nodes, 0)
        )
    }

    /// `420 nodes **300.5 stay on and 119.5 sleep** on average (105.1 to 131.6 asleep, days drawn anew), as tried on the 18 days after those that chose the rule.`
    fn on_and_asleep(&self, figures: &Intervals, nodes: f64) -> String {
        let asleep = &figures.nodes_asleep_mean;
        let one = |value: f64| format::float(value, 1);
        format!(
            "{} nodes **{} stay on and {} sleep** on average ({} to {} asleep, {}), as tried on the {:.0} days after those that chose the rule.",
            format::float(nodes, 0),
            one((nodes - asleep.value).max(0.0)),
            one(asleep.value),
            one(asleep.low),
            one(asleep.high),
            anew(figures),
            self.pool.days,
        )
    }

    /// What so many kWh in the days tested are in a year and a month.
    fn saves(&self, kwh: f64) -> String {
        let year = kwh * YEAR_DAYS / self.pool.days.max(f64::MIN_POSITIVE);
        format!(
            "That saves **{}** kWh a year, or {} a month, boots paid for.",
            format::compact(year),
            format::compact(year / 12.0)
        )
    }

    /// What may go wrong, as it did.
    fn risk(&self, node_slots: f64) -> String {
        format!(
            "The risk: {} times in these days ({} a day) a node was needed and still asleep or booting, each for up to {}.",
            format::compact(node_slots),
            format::compact(node_slots / self.pool.days.max(f64::MIN_POSITIVE)),
            format::duration(self.slot_s)
        )
    }

    /// Where nodes were missing far more often than the days of choice promised, a sentence.
    pub(in crate::power) fn broken_in_words(&self) -> Option<String> {
        let rule = self.pool.beforehand.iter().find(|rule| rule.chosen)?;
        let (promised, delivered) = (rule.promised.unserved_per_day, rule.delivered.unserved_per_day);
        (delivered > FAR_MORE * promised && delivered > 1.0).then(|| {
            format!(
                "**The days tested were unlike those that chose the rule**: a node was missing {} times a day, where {} were promised. Demand that grows does this. Keep more nodes on, or choose anew more often, before you rely on it.",
                format::float(delivered, 1),
                format::float(promised, 1)
            )
        })
    }

    /// What the report says above its sections.
    pub(super) fn summary(&self) -> Vec<String> {
        // First, as nothing that follows is worth more than the ground it stands on.
        let mut said = self.doubts.clone();
        said.push(self.headline());
        said.extend(self.broken_in_words());
        said.extend(self.cautions.iter().filter(|caution| !self.doubts.contains(caution)).cloned());
        let (asleep, nodes) = match &self.vcs_as_they_stand {
            Some(vcs) => (vcs.chosen.nodes_asleep_mean.value, vcs.nodes_mean),
            None => (self.pool.chosen.intervals.nodes_asleep_mean.value, self.pool.nodes_mean),
        };
        if hardly_used(asleep, nodes) {
            said.push(HARDLY_USED.trim_end().to_owned());
        }
        let told = |rule: &Beforehand| {
            format!(
                "{} {} with {} unserved",
                spelled(rule.policy),
                format::float(rule.delivered.nodes_asleep_mean, 1),
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
        // Nothing saved is said already.
        if let Some(yearly) = self.yearly.as_ref().filter(|yearly| yearly.saved_kwh_per_year != 0.0) {
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
        said.push(self.assurance.sentence());
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

    /// What the emitted plan stands for, a sentence each: of the one pool, or of each VC where they are planned apart.
    pub fn plan_in_words(&self) -> Vec<String> {
        let apart = !self.vcs.is_empty() && self.plan.pools.iter().all(|pool| pool.name != self.pool.series);
        let pools: Vec<&PoolFindings> = if apart { self.vcs.iter().collect() } else { vec![&self.pool] };
        let of = |pool: &PoolFindings| if apart { format!("{}: ", pool.series) } else { String::new() };
        let meant = |rule: &Beforehand, days: f64| {
            let outcome = &rule.scored.outcome;
            format!(
                "over the {days:.0} days evaluated it would have let {:.1} nodes sleep, with {:.0} unserved node-slots, {:.1} node-wakes a day and {:.0} kWh saved",
                outcome.nodes_asleep_mean,
                outcome.unserved_node_slots,
                outcome.node_wakes_per_day,
                outcome.energy_saved_kwh
            )
        };
        let rows = |family: Family| {
            let row = move |pool: &&PoolFindings| pool.beforehand.iter().find(|rule| rule.policy == family).cloned();
            pools.iter().filter_map(move |pool| Some((*pool, row(pool)?)))
        };
        let mut said: Vec<String> = self.cautions.clone();
        if apart {
            said.push(format!(
                "Each of the {} VCs is planned on nodes of its own, and the files hold a pool for each.",
                self.vcs.len()
            ));
        }
        let stays = pools.iter().filter(|pool| pool.chosen.name == Family::AlwaysOn);
        said.extend(stays.map(|pool| {
            format!(
                "{}**Keep all nodes on**: no rule that sleeps was worth its shortages. Settings of Slurm, Karpenter and the cluster-autoscaler are the best that these can hold, and are not recommended here.",
                of(pool)
            )
        }));
        said.extend(rows(Family::SlurmConf).map(|(pool, rule)| {
            format!(
                "{}slurm.conf puts each node to sleep by itself, leaves some idle and holds no reserve, so it gets a timeout of its own ({}) and not {}: {}.",
                of(pool),
                set(&rule.scored.setting, self.slot_s),
                spelled(pool.chosen.name),
                meant(&rule, pool.days)
            )
        }));
        if let Some(replay) = self.effects.last().filter(|_| self.effects.len() > FOLLOWED) {
            said.extend(replayed(replay));
        }
        said.extend(rows(Family::TrailingMaximum).map(|(pool, rule)| {
            format!(
                "{}Karpenter and the cluster-autoscaler time out and hold a reserve, so they get the trailing maximum as chosen ({}): {}.",
                of(pool),
                set(&rule.scored.setting, self.slot_s),
                meant(&rule, pool.days)
            )
        }));
        said.push(
            "The schedule of actions is for the day after the data: of each hour a quantile of the forecast demand, and a buffer; in the first hour no fewer nodes than the rule powers in its first slot. Without a forecast it holds the first slot alone. It does not watch what comes, so no promise is made for it; write it again every day."
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
