//! Which setting of a rule, and which rule, the past would have chosen: never from more than it can tell.
//!
//! A rule with thousands of settings always has one that looks well on some days. So a rule is judged **held out**: for each block (a day, or
//! some) of the days of choice its setting is chosen on the others, and what that setting meant on the block counts.
//!
//! 1. Of the plain rules a **trailing maximum** with a buffer stands. A timeout replaces it on clear evidence, and all nodes stay on where it would have
//!    lost more than it saved.
//! 2. Another rule replaces that only on **clear evidence**: a lower held-out loss by two standard errors of the differences, block by block, from at
//!    least [`LEAST_BLOCKS`] blocks.
//! 3. Of several VCs each alone tells little: the setting of a plain rule for one is chosen by its own loss and [`OTHERS`] of the mean loss of the
//!    others; which plain rule stands is told by all of them together; another one for a VC on clear evidence. So on the past of all VCs
//!    together, held out, the choice is not worse than one plain rule everywhere.
//!
//! The loss is what an outcome [costs](crate::power::score::Sums::cost), or, where a service was
//! asked for, the sleep that is missed by the settings that keep to it; if none does, the one with
//! the least shortage is taken. The setting that is followed is the one that is best on all blocks.
//!
//! O(settings × blocks) a rule. Worked example: on seven days rule B cost 3, 1, 2, 4, 2, 3 and −1 less than the one that stands: 2 on average, with a
//! standard error of 0.62: clear. With −9 on the last day: 0.86 and 1.68: not clear.

use crate::power::rule::Setting;
use crate::power::rule::family::{Family, Tried};
use crate::power::score::service::Service;
use crate::power::score::{NodeDemand, Sums, Tolls};

/// Blocks of days that there must be to leave a plain rule, or the setting of all VCs.
pub const LEAST_BLOCKS: usize = 7;
/// What the mean loss of the other VCs counts beside a VC's own. Chosen on the first 21 days of May 2020 of Earth's VCs (six splits): held out, and
/// on the days after, it lost less than each VC for itself (0) and than halves or one setting for all, and was reported on the days after those.
pub const OTHERS: f64 = 0.25;
/// Standard errors by which a loss must be lower.
const CLEAR: f64 = 2.0;
/// Most blocks: longer pasts have blocks of several days.
const MOST_BLOCKS: usize = 28;

/// Slots of a block: days of choice are cut into whole days, or into several each.
pub(in crate::power) fn block_slots(slots: usize, slot_ms: i64) -> usize {
    let a_day = usize::try_from(tracecast_analytics::time::DAY_MS / slot_ms.max(1)).unwrap_or(1).max(1);
    let days = (slots / a_day).max(1);
    a_day * days.div_ceil(MOST_BLOCKS)
}

/// Why a rule is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// The rule is the plain one that stands, and no other was clearly better.
    PlainRuleStands,
    /// The rule was clearly better than the plain one that stands.
    ClearlyBetter,
    /// The plain rules lost more than they saved.
    SleepDoesNotPay,
    /// Under the guard of the promise it slept most on the days of choice.
    KeepsPromise,
}

impl Because {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::PlainRuleStands => "the plain rule that stands, as no other was clearly better",
            Self::ClearlyBetter => "clearly better than the plain rule",
            Self::SleepDoesNotPay => "not worse than any rule that sleeps, so all nodes stay on",
            Self::KeepsPromise => "the one that slept most on the days of choice under the guard of the promise",
        }
    }
}

/// What a rule is judged by.
#[derive(Debug, Clone, Copy)]
pub(in crate::power) struct Judge<'a> {
    tolls: Tolls,
    slot_days: f64,
    service: Option<&'a Service>,
}

impl<'a> Judge<'a> {
    pub(in crate::power) fn new(demand: &NodeDemand<'_>, service: Option<&'a Service>) -> Self {
        let one = Sums { slots: 1.0, ..Sums::default() };
        Self { tolls: demand.tolls(), slot_days: demand.days_of(&one), service }
    }

    pub(in crate::power) fn loss(&self, sums: &Sums) -> f64 {
        match self.service {
            None => sums.cost(&self.tolls),
            Some(_) => -sums.weighted,
        }
    }

    /// Whether sums keep to the service asked for.
    pub(in crate::power) fn keeps(&self, sums: &Sums) -> bool {
        self.service.is_none_or(|service| {
            let days = sums.slots * self.slot_days;
            sums.unserved <= service.unserved_per_day * days + 1e-9
                && sums.woken <= (service.node_wakes_per_day + 1e-9) * days
        })
    }

    /// Compares two outcomes: what keeps to the service comes before what does not; of those that
    /// do the smaller loss, of the others the smaller shortage. What sleeps more, of equals.
    pub(in crate::power) fn order(&self, a: &Sums, b: &Sums) -> std::cmp::Ordering {
        let key = |sums: &Sums| match self.keeps(sums) {
            true => (false, self.loss(sums)),
            false => (true, sums.unserved),
        };
        let (first, second) = (key(a), key(b));
        first.0.cmp(&second.0).then(first.1.total_cmp(&second.1)).then(b.asleep.total_cmp(&a.asleep))
    }

    /// The best of several, by place.
    fn best(&self, all: impl Iterator<Item = Sums>) -> Option<usize> {
        all.enumerate().min_by(|a, b| self.order(&a.1, &b.1)).map(|(place, _)| place)
    }

    /// Whether blocks of one rule are clearly better than those of the one that stands.
    pub(in crate::power) fn clear(&self, rule: &[Sums], stands: &[Sums]) -> bool {
        let less: Vec<f64> =
            rule.iter().zip(stands).map(|(block, stands)| self.loss(block) - self.loss(stands)).collect();
        let count = less.len() as f64;
        if less.len() < LEAST_BLOCKS {
            return false;
        }
        let mean = less.iter().sum::<f64>() / count;
        let variance = less.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // More sleep at a worse service is no evidence.
        let (whole, other) = (Sums::new(rule), Sums::new(stands));
        let served = self.keeps(&whole) || (!self.keeps(&other) && whole.unserved <= other.unserved);
        served && mean + CLEAR * (variance / count).sqrt() < 0.0
    }
}

/// The setting of a rule, and how the rule did.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::power) struct Elected {
    /// The best on all blocks.
    pub(in crate::power) setting: Setting,
    /// Outcome on all of these days.
    pub(in crate::power) whole: Sums,
    /// By block, what the setting meant that is best on the others.
    pub(in crate::power) held_out: Vec<Sums>,
}

/// What blocks of several settings mean: by setting, by block.
fn held_out(judge: &Judge<'_>, wholes: &[Sums], block: impl Fn(usize, usize) -> Sums, blocks: usize) -> Vec<usize> {
    let without = |left: usize| {
        let others = wholes.iter().enumerate().map(|(place, whole)| {
            let mut rest = *whole;
            // With one block there are no others.
            rest.add(&block(place, left), if blocks > 1 { -1.0 } else { 0.0 });
            rest
        });
        judge.best(others).unwrap_or(0)
    };
    (0..blocks).map(without).collect()
}

/// Chooses a setting of one rule.
pub(in crate::power) fn elect(judge: &Judge<'_>, tried: &[Tried]) -> Option<Elected> {
    elect_as(judge, tried, tried)
}

/// Chooses the setting that is best in `by`, and returns its outcome in `tried`.
fn elect_as(judge: &Judge<'_>, by: &[Tried], tried: &[Tried]) -> Option<Elected> {
    let wholes: Vec<Sums> = by.iter().map(|trial| Sums::new(&trial.blocks)).collect();
    let best = judge.best(wholes.iter().copied())?;
    let at =
        |all: &[Tried], place: usize, block: usize| all.get(place).and_then(|trial| trial.blocks.get(block)).copied();
    let blocks = tried.first().map_or(0, |trial| trial.blocks.len());
    let chosen = held_out(judge, &wholes, |place, block| at(by, place, block).unwrap_or_default(), blocks);
    Some(Elected {
        setting: tried.get(best)?.setting,
        whole: Sums::new(&tried.get(best)?.blocks),
        held_out: chosen
            .iter()
            .enumerate()
            .map(|(block, place)| at(tried, *place, block).unwrap_or_default())
            .collect(),
    })
}

/// One plain rule of one series, with all settings.
pub(in crate::power) struct Member<'a> {
    pub(in crate::power) judge: Judge<'a>,
    pub(in crate::power) tried: &'a [Tried],
}

/// The place of a setting among those tried, or of the next smaller buffer where a VC is too small for it.
fn place_of(tried: &[Tried], setting: &Setting) -> Option<usize> {
    let split = |setting: &Setting| match setting {
        Setting::TrailingMaximum { slots, buffer } => (*slots, *buffer),
        Setting::IdleTimeout { slots, keep_idle } => (*slots, *keep_idle),
        Setting::Timeout { slots } => (*slots, 0),
        _ => (0, 0),
    };
    let (slots, buffer) = split(setting);
    let fits = tried.iter().enumerate().map(|(place, trial)| (place, split(&trial.setting)));
    let fits = fits.filter(|(_, parts)| parts.0 == slots && parts.1 <= buffer);
    fits.max_by_key(|(_, parts)| parts.1).map(|(place, _)| place)
}

/// For each member the setting of a plain rule, chosen by its own loss and some of that of the others.
pub(in crate::power) fn elect_together(members: &[Member<'_>]) -> Vec<Option<Elected>> {
    let part = OTHERS / (members.len().max(2) - 1) as f64;
    let elect = |number: usize| {
        let member = members.get(number)?;
        // Whoever asks for a service asks for it in each VC, so each keeps to it by itself.
        if member.judge.service.is_some() {
            return elect(&member.judge, member.tried);
        }
        let others = || members.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, other)| other);
        let beside = |trial: &Tried| {
            let places: Vec<Option<&Tried>> =
                others().map(|other| other.tried.get(place_of(other.tried, &trial.setting)?)).collect();
            let blocks = trial.blocks.iter().enumerate().map(|(block, sums)| {
                let mut sums = *sums;
                let result = places.iter().flatten().filter_map(|other| other.blocks.get(block));
                result.for_each(|other| sums.add(other, part));
                sums
            });
            Tried { setting: trial.setting, blocks: blocks.collect() }
        };
        let beside: Vec<Tried> = member.tried.iter().map(beside).collect();
        elect_as(&member.judge, &beside, member.tried)
    };
    (0..members.len()).map(elect).collect()
}

/// The plain rule that stands, by place among rules and what they meant held out, by block.
fn standing(judge: &Judge<'_>, rules: &[(Family, Vec<Sums>)]) -> Option<(usize, Because)> {
    let of = |family: Family| rules.iter().position(|(rule, _)| *rule == family);
    let blocks = |place: usize| rules.get(place).map(|(_, blocks)| blocks.as_slice()).unwrap_or_default();
    let order = |a: &usize, b: &usize| judge.order(&Sums::new(blocks(*a)), &Sums::new(blocks(*b)));
    let plain = || (0..rules.len()).filter(|place| rules.get(*place).is_some_and(|(family, _)| family.plain()));
    let mut stands = of(Family::TrailingMaximum).or_else(|| plain().min_by(order))?;
    if let Some(timeout) = of(Family::Timeout).filter(|timeout| judge.clear(blocks(*timeout), blocks(stands))) {
        stands = timeout;
    }
    // Where a service is asked for, sleep is what is wanted; else it has to pay.
    let pays = |on: &usize| judge.loss(&Sums::new(blocks(stands))) < judge.loss(&Sums::new(blocks(*on)));
    match of(Family::AlwaysOn).filter(|on| judge.service.is_none() && !pays(on)) {
        Some(on) => Some((on, Because::SleepDoesNotPay)),
        None => Some((stands, Because::PlainRuleStands)),
    }
}

/// The rule to follow, by place among `rules`, and why; `stands` is the plain rule of all VCs, if there are several.
pub(in crate::power) fn decide(
    judge: &Judge<'_>,
    rules: &[(Family, &Elected)],
    stands: Option<(usize, Because)>,
) -> (usize, Because) {
    let alone = || {
        let held_out: Vec<(Family, Vec<Sums>)> =
            rules.iter().map(|(family, elected)| (*family, elected.held_out.clone())).collect();
        standing(judge, &held_out)
    };
    let blocks = |place: usize| rules.get(place).map(|(_, elected)| elected.held_out.as_slice()).unwrap_or_default();
    let eligible = |place: &usize| rules.get(*place).is_some_and(|(family, _)| family.eligible());
    let others = (0..rules.len()).filter(eligible);
    let best = |all: &mut dyn Iterator<Item = usize>| {
        all.min_by(|a, b| judge.order(&Sums::new(blocks(*a)), &Sums::new(blocks(*b))))
    };
    match stands.or_else(alone) {
        Some((standing, why)) => match best(&mut others.filter(|place| *place != standing)) {
            Some(other) if judge.clear(blocks(other), blocks(standing)) => (other, Because::ClearlyBetter),
            _ => (standing, why),
        },
        // Only rules that are not plain were asked for.
        None => (best(&mut others.into_iter()).unwrap_or(0), Because::ClearlyBetter),
    }
}

/// The plain rule that stands for all VCs together, by place among the rules of each.
pub(in crate::power) fn decide_together(
    judges: &[Judge<'_>],
    rules: &[Vec<(Family, &Elected)>],
) -> Option<(usize, Because)> {
    let together = |place: usize, family: Family| {
        let mut sum: Vec<Sums> = Vec::new();
        for (_, elected) in rules.iter().filter_map(|vc| vc.get(place)) {
            sum.resize(sum.len().max(elected.held_out.len()), Sums::default());
            sum.iter_mut().zip(&elected.held_out).for_each(|(sum, block)| sum.add(block, 1.0));
        }
        (family, sum)
    };
    let all: Vec<(Family, Vec<Sums>)> =
        rules.first()?.iter().enumerate().map(|(place, (family, _))| together(place, *family)).collect();
    standing(judges.first()?, &all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Node-slots are worth 1, shortage 10 and a wake 1; a block is a day.
    fn judge(service: Option<&Service>) -> Judge<'_> {
        Judge { tolls: Tolls { wake: 1.0, unserved: 10.0 }, slot_days: 1.0, service }
    }

    fn day(asleep: f64, unserved: f64) -> Sums {
        Sums { slots: 1.0, asleep, weighted: asleep, unserved, ..Sums::default() }
    }

    fn tried(slots: usize, days: &[(f64, f64)]) -> Tried {
        Tried {
            setting: Setting::Timeout { slots },
            blocks: days.iter().map(|(asleep, unserved)| day(*asleep, *unserved)).collect(),
        }
    }

    #[test]
    fn the_worked_example() {
        let stands = vec![day(10.0, 0.0); 7];
        let less = |last: f64| -> Vec<Sums> {
            [3.0, 1.0, 2.0, 4.0, 2.0, 3.0, last].iter().map(|less| day(10.0 + less, 0.0)).collect()
        };
        assert!(judge(None).clear(&less(-1.0), &stands));
        assert!(!judge(None).clear(&less(-9.0), &stands));
        // Six days are too few, whatever they say.
        assert!(!judge(None).clear(&vec![day(99.0, 0.0); 6], &stands));
    }

    /// Two settings, each best on what the other's day says: the first sleeps 20 on day 1 alone, the second 5 on all days. On all days the first is
    /// best (20 against 15), held out it never counts on its day: 5 for day 1 (chosen on 2 and 3), and 0 for each other.
    #[test]
    fn what_looks_best_is_judged_on_other_days() {
        let all = [tried(1, &[(20.0, 0.0), (0.0, 0.0), (0.0, 0.0)]), tried(2, &[(5.0, 0.0); 3])];
        let result = elect(&judge(None), &all).unwrap();
        assert_eq!(result.setting, Setting::Timeout { slots: 1 });
        assert_eq!(result.held_out, vec![day(5.0, 0.0), day(0.0, 0.0), day(0.0, 0.0)]);
    }

    #[test]
    fn a_service_asked_for_comes_before_sleep() {
        let service = Service { unserved_per_day: 1.0, node_wakes_per_day: 9.0 };
        let all = [tried(1, &[(9.0, 2.0); 2]), tried(2, &[(6.0, 1.0); 2]), tried(3, &[(4.0, 0.0); 2])];
        assert_eq!(elect(&judge(Some(&service)), &all).unwrap().setting, Setting::Timeout { slots: 2 });
        // None keeps to less than nothing: the least shortage.
        let none = Service { unserved_per_day: -1.0, ..service };
        assert_eq!(elect(&judge(Some(&none)), &all).unwrap().setting, Setting::Timeout { slots: 3 });
    }

    /// VC a would have slept 5 with setting 1 and 4 with setting 2, the other three 0 and 8: with a quarter of their mean, 5 + 0 against 4 + 2. Where
    /// it would have slept 9 with setting 1 it keeps to its own: 9 against 6.
    #[test]
    fn a_vc_is_told_something_by_the_others() {
        let others = [tried(1, &[(0.0, 0.0); 7]), tried(2, &[(8.0, 0.0); 7])];
        let with = |asleep: f64| {
            let vc_a = [tried(1, &[(asleep, 0.0); 7]), tried(2, &[(4.0, 0.0); 7])];
            let vcs: [&[Tried]; 4] = [&vc_a, &others, &others, &others];
            let members: Vec<Member<'_>> = vcs.iter().map(|tried| Member { judge: judge(None), tried }).collect();
            elect_together(&members).remove(0).unwrap()
        };
        let result = with(5.0);
        assert_eq!(result.setting, Setting::Timeout { slots: 2 });
        // What it means is its own, without the others.
        assert_eq!((result.whole.asleep, result.held_out.len()), (28.0, 7));
        assert_eq!(with(9.0).setting, Setting::Timeout { slots: 1 });
    }

    #[test]
    fn a_rule_with_many_settings_replaces_a_plain_one_on_clear_evidence_alone() {
        let elected = |days: &[f64]| Elected {
            setting: Setting::AlwaysOn,
            whole: Sums::default(),
            held_out: days.iter().map(|asleep| day(*asleep, 0.0)).collect(),
        };
        let on = elected(&[0.0; 8]);
        let (noisy, better) = (elected(&[40.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), elected(&[6.0; 8]));
        let decided = |trailing: &Elected, reach: &Elected| {
            let rules = [(Family::AlwaysOn, &on), (Family::TrailingMaximum, trailing), (Family::Reach, reach)];
            decide(&judge(None), &rules, None)
        };
        assert_eq!(decided(&elected(&[5.0; 8]), &noisy), (1, Because::PlainRuleStands));
        assert_eq!(decided(&elected(&[5.0; 8]), &better), (2, Because::ClearlyBetter));
        // A trailing maximum that costs more than it saves: all nodes on, and no noise changes that.
        assert_eq!(decided(&elected(&[-1.0; 8]), &noisy), (0, Because::SleepDoesNotPay));
        // Four days are no evidence, however good they look.
        let four = |asleep| elected(&[asleep; 4]);
        assert_eq!(decided(&four(5.0), &four(50.0)), (1, Because::PlainRuleStands));
    }

    /// One of two VCs would rather not sleep; together it pays, so both follow the trailing
    /// maximum.
    #[test]
    fn which_plain_rule_stands_is_told_by_all_vcs() {
        let elected = |asleep: f64| Elected {
            setting: Setting::AlwaysOn,
            whole: Sums::default(),
            held_out: vec![day(asleep, 0.0); 7],
        };
        let (on, lost, won) = (elected(0.0), elected(-1.0), elected(5.0));
        let one = vec![(Family::AlwaysOn, &on), (Family::TrailingMaximum, &lost)];
        let two = vec![(Family::AlwaysOn, &on), (Family::TrailingMaximum, &won)];
        let result = decide_together(&[judge(None), judge(None)], &[one.clone(), two]);
        assert_eq!(result, Some((1, Because::PlainRuleStands)));
        let result = decide_together(&[judge(None), judge(None)], &[one.clone(), one]);
        assert_eq!(result, Some((0, Because::SleepDoesNotPay)));
    }
}
