//! What the report of `plan power` says in sentences above its sections: what leads where nodes are
//! to sleep, and why nothing is advised where they are not.
//!
//! What leads says in plain words how many nodes stay on and sleep, what that saves, what may go
//! wrong, and what a simple rule would do. Where nothing is advised no sentence says what is saved
//! in a year, as a reader would take that for advice. It is of what the trace has: its VCs as they
//! stand where their nodes are known, its nodes where those are, and where nobody recorded them it
//! says what is assumed. Worked example: a trailing maximum of 80 min chosen from 592 settings that
//! lets 115.1 of 420 nodes sleep where the optimum with as much unserved lets 127.0 saves about 91
//! % of its energy.

use tracecast_analytics::report::format;

use super::words::{change_of_wait, set, spelled};
use super::{Beforehand, ByHour, ChosenFor, PoolFindings, PowerTrial, Together};
use crate::plan::verdict::Verdict;
use crate::power::forward::Forward;
use crate::power::rule::Setting;
use crate::power::rule::family::Family;
use crate::power::score::interval::Intervals;
use crate::power::score::service::Service;
use crate::power::score::yearly::YEAR_DAYS;
use crate::power::study::study_result::Promise;

/// VCs that a sentence names.
const LISTED: usize = 5;
/// Place of the effect of the chosen rules.
pub(super) const FOLLOWED: usize = 1;

/// What intervals were drawn from.
pub(super) fn anew(intervals: &Intervals) -> &'static str {
    if intervals.block_days == 1 { "days drawn anew" } else { "weeks drawn anew" }
}

/// Where more of the nodes would sleep than this share, jobs may be missing.
const MOSTLY_ASLEEP: f64 = 0.95;

/// Where waiting jobs would have left less than this share of the sleeping nodes idle, the answer depends on whether they could have used them.
const LEFT_IDLE: f64 = 0.5;

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
    if low.abs() < 0.05 && high.abs() < 0.05 {
        return format!(" As many would sleep with the simple rule ({SIMPLE}).");
    }
    let one = |value: f64| format::float(value, 1);
    format!(
        " That is {} {than} ({} to {}) asleep than with the simple rule ({SIMPLE}).",
        one(many),
        one(low),
        one(high)
    )
}

/// Whether jobs waited, and would have left idle less than half of what is to sleep; nodes, those in use, and those in use or waited for.
fn taken_by_waiting([nodes, need, request]: [f64; 3], asleep: f64) -> bool {
    request > need && nodes - request < LEFT_IDLE * asleep
}

impl PowerTrial {
    /// The VCs as they stand, if the answer is of them: a promise that is made for all nodes as one pool is none of theirs.
    pub(crate) fn leading_vcs(&self) -> Option<&Together> {
        self.vcs_as_they_stand.as_ref().filter(|_| self.pool.promise.is_none() || self.planned_apart)
    }

    /// `at most 3 unserved node-slots of 10 min and 30 node-wakes a day`
    pub(super) fn asked_in_words(&self, service: &Service) -> String {
        format!(
            "at most {} unserved node-slots of {} and {} node-wakes a day",
            format::compact(service.unserved_per_day),
            format::duration(self.slot_s),
            format::compact(service.node_wakes_per_day)
        )
    }

    /// Returns the sentences that come first where nodes are to sleep: how many and what that
    /// saves, then the risk, the simple rule, and what one pool or no promise would do.
    pub(super) fn headline(&self, forward: &[Forward]) -> Vec<String> {
        let (pool, chosen) = (&self.pool, &self.pool.chosen);
        let outcome = &chosen.scored.outcome;
        if let Some(promise) = &pool.promise {
            return match self.leading_vcs() {
                Some(vcs) => self.each_promised(promise, vcs),
                None => self.promised(promise),
            };
        }
        if let Some(vcs) = &self.vcs_as_they_stand {
            let figures = &vcs.chosen;
            let stand = format!("With the {} VCs as they stand, each on its own nodes", vcs.vcs);
            let simple = vcs.over_trailing_maximum.as_ref().map_or_else(String::new, beside);
            let effect = [self.on_and_asleep(figures, vcs.nodes_mean), self.saves_a_year(vcs.energy_saved_kwh)];
            return vec![
                format!("{stand}, of {}", effect.join(" ")),
                self.risk(vcs.unserved_node_slots) + &simple,
                self.as_one_pool(),
            ];
        }
        let rule = match (chosen.name, &chosen.scored.setting) {
            (_, Setting::TrailingMaximum { slots, buffer }) => format!(
                "The rule is the simple one: keep on as many nodes as were needed at most in the last {}, and {buffer} to spare.",
                format::duration(*slots as f64 * self.slot_s)
            ),
            (name, _) => {
                let simple = chosen.over_trailing_maximum.as_ref().map_or_else(String::new, beside);
                format!("The rule is {}.{simple}", spelled(name))
            }
        };
        let effect = [
            self.assumed().map_or_else(|| "Of".to_owned(), |assumed| format!("{assumed}of")),
            self.on_and_asleep(&chosen.intervals, pool.nodes_mean),
            self.saves_a_year(outcome.energy_saved_kwh),
        ];
        vec![effect.join(" "), self.risk(outcome.unserved_node_slots), rule + &self.without_a_loop(forward)]
    }

    /// What it takes to follow the rule of all nodes as one pool, and what is left of it without; empty where no schedule was tried, or pools have rules of their own.
    fn without_a_loop(&self, forward: &[Forward]) -> String {
        let [Forward { schedule: Some(schedule), .. }] = forward else { return String::new() };
        let of = |asleep: f64, unserved: f64| {
            format!("{} sleep, with {} unserved node-slots a day", format::float(asleep, 1), format::compact(unserved))
        };
        let slurm = self.pool.as_emitted(Family::SlurmConf).map(|rule| {
            let of = of(rule.delivered.nodes_asleep_mean, rule.delivered.unserved_per_day);
            format!("the timeout of slurm.conf alone let {of}")
        });
        let day = match schedule.all_on {
            Some(_) => "by a schedule of the next day all stay on".to_owned(),
            None => {
                let of = of(schedule.nodes_asleep_mean, schedule.realised.unserved_per_day);
                format!("schedules of the next day let {of}")
            }
        };
        format!(
            " To follow it takes a loop that runs `decide power` every {}. Without one, {}{day}.",
            format::duration(self.slot_s),
            slurm.map_or_else(String::new, |slurm| slurm + "; ")
        )
    }

    /// Assumption where nobody recorded how many nodes there are, the beginning of a sentence.
    fn assumed(&self) -> Option<String> {
        (!self.capacity_known).then(|| {
            format!(
                "Nobody recorded how many nodes there are: if there were no more than were ever in use at once ({} by now), and each could serve every job, ",
                format::float(self.pool.nodes_mean.ceil(), 0)
            )
        })
    }

    /// What all nodes as one pool would do, beside the VCs as they stand.
    fn as_one_pool(&self) -> String {
        let outcome = &self.pool.chosen.scored.outcome;
        let PoolFindings { nodes_mean, demand_mean, asked_mean, .. } = self.pool;
        let spare = nodes_mean - asked_mean;
        // Jobs that waited for their own VC would have run there.
        let taken = taken_by_waiting([nodes_mean, demand_mean, asked_mean], outcome.nodes_asleep_mean).then(|| {
            format!(
                " That is by nodes in use: with all jobs that waited on them, {} would have been idle.",
                format::float(spare, 1)
            )
        });
        format!(
            "As one pool, if every node could serve every VC, {} of {} would sleep, and {} times in these days a node would be missing.{}",
            format::float(outcome.nodes_asleep_mean, 1),
            format::float(self.pool.nodes_mean, 0),
            format::compact(outcome.unserved_node_slots),
            taken.unwrap_or_default(),
        )
    }

    /// What would be done otherwise: of VCs that lead without their promises, if there are any, and
    /// as one pool; of the one pool without its promise, and in VCs as they stand.
    fn otherwise(&self) -> String {
        if let Some(vcs) = self.leading_vcs() {
            let without = vcs.unpromised.as_ref().map_or_else(String::new, |without| {
                if without.nodes_asleep_mean.high <= 0.0 {
                    return " Without promises all would stay on, as no rule saved more than its shortages cost."
                        .to_owned();
                }
                format!(
                    " Without promises {} would sleep, with {} unserved node-slots and {} node-wakes a day in all.",
                    format::float(without.nodes_asleep_mean.value, 1),
                    format::compact(without.unserved_per_day.value),
                    format::compact(without.node_wakes_per_day.value)
                )
            });
            return format!("{without} {}", self.as_one_pool());
        }
        if self.pool.promise.is_none() {
            return String::new();
        }
        let without = self.pool.beforehand.iter().find(|rule| rule.chosen_for == ChosenFor::Cost);
        let without = without.map_or_else(String::new, |rule| {
            if rule.policy == Family::AlwaysOn {
                return " Without a promise all would stay on, as no rule saved more than its shortages cost.".to_owned();
            }
            format!(
                " Without a promise, {} ({}) would be followed, which let {} sleep there, with {} unserved node-slots and {} node-wakes a day.",
                spelled(rule.policy),
                set(&rule.scored.setting, self.slot_s),
                format::float(rule.delivered.nodes_asleep_mean, 1),
                format::compact(rule.delivered.unserved_per_day),
                format::compact(rule.delivered.node_wakes_per_day)
            )
        });
        let apart = self.vcs_as_they_stand.as_ref().map_or_else(String::new, |vcs| {
            format!(
                " This is for all nodes as one pool, as if every node could serve every VC. With the {} VCs as they stand, each under such a promise of its own, {} of {} would sleep: `--by-vc` plans that.",
                vcs.vcs,
                format::float(vcs.chosen.nodes_asleep_mean.value, 1),
                format::float(vcs.nodes_mean, 0)
            )
        });
        without + &apart
    }

    /// What leads where a service is promised for all nodes as one pool, and was kept.
    fn promised(&self, promise: &Promise) -> Vec<String> {
        let chosen = &self.pool.chosen;
        let effect = format!(
            "**Promised: {}.** {} {} The promise was kept on these days: {} unserved node-slots and {} node-wakes a day came. {}",
            self.asked_in_words(&promise.asked),
            self.assumed().map_or_else(|| "Of".to_owned(), |assumed| format!("{assumed}of")),
            self.on_and_asleep(&chosen.intervals, self.pool.nodes_mean),
            format::compact(promise.realised.unserved_per_day),
            format::compact(promise.realised.node_wakes_per_day),
            self.saves_a_year(chosen.scored.outcome.energy_saved_kwh)
        );
        let rule = format!(
            "The rule is {} ({}), under a guard that holds it to the promise.{}",
            spelled(chosen.name),
            set(&chosen.scored.setting, self.slot_s),
            self.otherwise()
        );
        vec![effect, rule]
    }

    /// What leads where a service is promised for each of the VCs as they stand.
    fn each_promised(&self, promise: &Promise, vcs: &Together) -> Vec<String> {
        let effect = format!(
            "**Promised to each of the {} VCs: {}.** With the VCs as they stand, each on its own nodes, of {} {} of {} VCs kept the promise on these days; in all {} unserved node-slots and {} node-wakes a day came. {}",
            vcs.vcs,
            self.asked_in_words(&promise.asked),
            self.on_and_asleep(&vcs.chosen, vcs.nodes_mean),
            vcs.promises_kept.unwrap_or(0),
            vcs.vcs,
            format::compact(vcs.chosen.unserved_per_day.value),
            format::compact(vcs.chosen.node_wakes_per_day.value),
            self.saves_a_year(vcs.energy_saved_kwh)
        );
        vec![effect, self.otherwise().trim_start().to_owned()]
    }

    /// Why nothing is to change where a promise was broken.
    pub(super) fn missed(&self) -> String {
        self.broken_in_words().unwrap_or_default().replace("**", "")
    }

    /// Why nothing is to change where no node slept, or none that saved energy.
    pub(super) fn all_on(&self, verdict: Verdict) -> String {
        self.all_on_beside_simple(verdict).0
    }

    /// Returns the sentences after the action where nothing is advised: how many nodes would have
    /// slept under the simple rule, as one pool, or without a promise.
    pub(super) fn instead(&self, verdict: Verdict) -> Vec<String> {
        let simple = match verdict {
            Verdict::SizesUnknown => return Vec::new(),
            Verdict::LimitMissed => None,
            _ => self.all_on_beside_simple(verdict).1,
        };
        let otherwise = self.otherwise().trim_start().to_owned();
        simple.into_iter().chain(Some(otherwise).filter(|sentence| !sentence.is_empty())).collect()
    }

    /// Why all nodes stay on, and how many would have slept under the simple rule.
    fn all_on_beside_simple(&self, verdict: Verdict) -> (String, Option<String>) {
        let (beginning, nodes, simple) = match self.leading_vcs() {
            Some(vcs) => (
                format!("With the {} VCs as they stand, each on its own nodes, all", vcs.vcs),
                vcs.nodes_mean,
                vcs.trailing_maximum.map(|trailing| trailing.nodes_asleep_mean.value),
            ),
            None => (
                self.assumed().map_or_else(|| "All".to_owned(), |assumed| format!("{assumed}all")),
                self.pool.nodes_mean,
                self.pool.as_emitted(Family::TrailingMaximum).map(|rule| rule.delivered.nodes_asleep_mean),
            ),
        };
        let why = match &self.criterion {
            _ if verdict == Verdict::NoSaving => "the nodes that slept in the test saved no energy, as boots took more".to_owned(),
            Some(service) => {
                format!("no rule that is held to {} let a node sleep on the days tested", self.asked_in_words(service))
            }
            None if self.leading_vcs().is_some() || self.pool.chosen.name == Family::AlwaysOn => "on the days before those tested, no rule saved more than the shortages that it caused cost, at the prices assumed".to_owned(),
            None => "the rule that was chosen let no node sleep on the days tested".to_owned(),
        };
        let simple = simple.map(|asleep| {
            format!(
                "The simple rule ({SIMPLE}) would have let {} of them sleep over the {:.0} days tested.",
                format::float(asleep, 1),
                self.pool.days
            )
        });
        (format!("{beginning} {} nodes stay on: {why}.", format::float(nodes, 0)), simple)
    }

    /// `420 nodes **303.5 stay on and 116.5 sleep** on average (102.1 to 128.6 asleep, days drawn anew), as tried on the 18 days after those that chose the rule.`
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
    fn saves_a_year(&self, kwh: f64) -> String {
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

    /// Where nearly all nodes would sleep, a sentence.
    pub(super) fn hardly_used(&self, asleep: f64, nodes: f64) -> Option<String> {
        (asleep > MOSTLY_ASLEEP * nodes).then(|| {
            "**Nearly all nodes would sleep**: if the trace holds only part of the jobs, the others need nodes, too. Find that out first.".to_owned()
        })
    }

    /// Where jobs waited beside idle nodes, a sentence: whether these may sleep depends on whether the jobs could have used them.
    pub(super) fn waited_beside_idle(&self, asleep: f64) -> Option<String> {
        let pool = &self.pool;
        let [nodes, need, request] = match self.leading_vcs() {
            Some(vcs) => [vcs.nodes_mean, vcs.demand_mean, vcs.asked_mean],
            None => [pool.nodes_mean, pool.demand_mean, pool.asked_mean],
        };
        taken_by_waiting([nodes, need, request], asleep).then(|| {
            format!(
                "**Jobs waited while nodes were idle**: of {} nodes {} were idle on average, and {} would have been with all jobs on them that waited. Rules are scored by nodes in use, so {} asleep take for granted that these jobs would have waited anyway, for want of a quota or of nodes side by side. In the first slot they count as demand; `--pending` counts them always.",
                format::float(nodes, 0),
                format::float(nodes - need, 1),
                format::float(nodes - request, 1),
                format::float(asleep, 1)
            )
        })
    }

    /// Where a promise was broken, or nodes were missing far more often than the days of choice promised, a sentence.
    pub(super) fn broken_in_words(&self) -> Option<String> {
        if let (Some(promise), Some(vcs)) = (&self.pool.promise, self.leading_vcs()) {
            let broken = self.vcs.iter().filter(|vc| vc.promise.is_some_and(|promise| !promise.kept));
            let broken: Vec<&str> = broken.map(|vc| vc.series.as_str()).collect();
            return (!broken.is_empty()).then(|| {
                format!(
                    "**The promise was broken in {} of {} VCs on the days tested** ({}): {} each were promised. Demand rose there as it never had before, and may do so again.",
                    broken.len(),
                    vcs.vcs,
                    format::names(&broken, LISTED),
                    self.asked_in_words(&promise.asked)
                )
            });
        }
        if let Some(promise) = &self.pool.promise {
            return (!promise.kept).then(|| {
                format!(
                    "**The promise was broken on the days tested**: {} were promised, and {} and {} came. Demand rose as it never had before, and may do so again.",
                    self.asked_in_words(&promise.asked),
                    format::compact(promise.realised.unserved_per_day),
                    format::compact(promise.realised.node_wakes_per_day)
                )
            });
        }
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

    /// What the report says above its sections where nodes are to sleep, behind what to do.
    pub(super) fn summary(&self, forward: &[Forward]) -> Vec<String> {
        let mut said = self.headline(forward);
        let told = |rule: &Beforehand| {
            format!(
                "{} {} asleep with {} unserved node-slots a day",
                spelled(rule.policy),
                format::float(rule.delivered.nodes_asleep_mean, 1),
                format::compact(rule.delivered.unserved_per_day)
            )
        };
        // What would be without a promise, the headline says.
        let others = self.pool.beforehand.iter().filter(|rule| !rule.chosen);
        let others = others.filter(|rule| self.pool.promise.is_none() || rule.chosen_for != ChosenFor::Cost);
        let others: Vec<String> = others.map(told).collect();
        let of_pool = if self.leading_vcs().is_some() { "For all nodes as one pool, beside" } else { "Beside" };
        if !others.is_empty() {
            said.push(format!(
                "{of_pool} {} ({}), chosen {}: {}.",
                spelled(self.pool.chosen.name),
                self.pool.chosen.because.in_words(),
                if self.pool.promise.is_some() {
                    "for the same service and without a guard"
                } else {
                    "in the same way"
                },
                others.join("; ")
            ));
        }
        if let Some(rule) = self.pool.beforehand.iter().find(|rule| rule.chosen && self.pool.promise.is_none()) {
            said.push(format!(
                "By the days of choice {} nodes were to sleep, with {} unserved node-slots and {} node-wakes a day; on the days evaluated it was {}, {} and {}.",
                format::float(rule.promised.nodes_asleep_mean, 1),
                format::float(rule.promised.unserved_per_day, 1),
                format::float(rule.promised.node_wakes_per_day, 1),
                format::float(rule.delivered.nodes_asleep_mean, 1),
                format::float(rule.delivered.unserved_per_day, 1),
                format::float(rule.delivered.node_wakes_per_day, 1)
            ));
        }
        let covered = |hourly: &ByHour| match hourly.covered_share {
            share if share >= 1.0 => String::new(),
            share => format!(" (of the {} of the time whose hours are known)", format::percent(share)),
        };
        let whose = match (self.leading_vcs(), &self.pool.promise) {
            (Some(_), _) => " by the one pool",
            (None, Some(_)) => " under the promise",
            (None, None) => "",
        };
        let yearly = self.yearly.as_ref().filter(|yearly| yearly.saved_kwh_per_year != 0.0);
        said.extend(yearly.map(|yearly| yearly.sentence(whose)));
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

    /// A rule of the table, with what its setting was chosen for where that differs.
    pub(super) fn called(&self, rule: &Beforehand) -> String {
        let name = spelled(rule.policy);
        match (rule.chosen_for, &self.pool.promise) {
            (ChosenFor::Promise, _) => format!("{name}, under the promise"),
            (ChosenFor::Service, _) => format!("{name}, for the same service without a guard"),
            (ChosenFor::Cost, Some(_)) => format!("{name}, without a promise"),
            (ChosenFor::Cost, None) => name.to_owned(),
        }
    }

    /// Saving and wait of the rules that were chosen, from one and the same replay.
    fn replayed_in_words(&self) -> Option<String> {
        let (first, followed) = (self.effects.first()?, self.effects.get(FOLLOWED)?);
        let jobs = &followed.effect.jobs;
        let (wait, base) = (jobs.added_wait_mean_s?, first.effect.jobs.baseline_wait_mean_s?);
        let (asleep, saved) = (followed.effect.nodes_asleep_mean?, followed.effect.energy_saved_kwh?);
        Some(format!(
            "With the scheduler run again under the rules {}, {} of {} nodes sleep, {} kWh are saved in these days, and the mean wait of {} changes by {} ({} on nodes that are always on).",
            followed.effect.name,
            format::float(asleep.value, 1),
            followed.effect.nodes,
            format::compact(saved.value),
            format::counted(jobs.jobs, "job", "jobs"),
            change_of_wait(&wait),
            format::duration(base),
        ))
    }
}
