//! What follows from the test: whether the plan is advised, and the recommendation.
//!
//! A plan is advised only if, on the later windows, it saved at least 5 % of what it is held against, the interval of that excludes none, no more than 5 % of the jobs of any GPU type, and of any of its size classes with at least 20, waited longer than
//! the target, and, if anybody waits, nobody waiting cost more. Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a plan that lets jobs wait for an hour and cost 900 on later weeks, where its number of nodes for nobody waiting cost 880: nothing is advised.

use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;

use super::super::heldout::BurstRule;
use super::super::policy::WaitingFamily;
use super::{BurstAnswer, BurstPoolPlan, BurstVerdict};
use crate::market::purchase::{BoughtAs, offers_in_words, to_come};
use crate::plan::money::money;
use crate::plan::waits::{FEWEST_OF_CLASS, harmed};
use crate::plan::{Basis, Confidence, Effect, Recommendation, Regret, WORTH, worth};

impl BurstAnswer {
    /// Money, with its currency.
    pub(super) fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Whether the plan to come lets anybody wait.
    pub(super) fn somebody_waits(&self) -> bool {
        self.pools.iter().any(|pool| pool.policy.family != WaitingFamily::Nobody)
    }

    /// Whether the plan is advised.
    pub(super) fn judge(&self) -> BurstVerdict {
        let (Some(plan), Some(nobody)) = (self.rule(BurstRule::Plan), self.rule(BurstRule::Nobody)) else {
            return BurstVerdict::NothingBetter;
        };
        let somebody_waits = self.somebody_waits();
        let owns = self.nodes_given.is_none() && self.pools.iter().any(|pool| pool.nodes > 0);
        let saving = self.held_out.saving;
        if !owns && !somebody_waits {
            BurstVerdict::NothingBetter
        } else if self.held_out.blocks < 2 {
            BurstVerdict::TooShort
        } else if !plan.kept {
            BurstVerdict::TargetMissed
        } else if somebody_waits && plan.cost_per_month >= nobody.cost_per_month {
            BurstVerdict::WaitingLost
        } else if worth(saving.value, saving.low, 1.0) {
            BurstVerdict::Advised
        } else {
            BurstVerdict::NoSaving
        }
    }

    /// Against what the plan is held, in words.
    pub(super) fn against(&self) -> &'static str {
        if self.nodes_given.is_some() { "the same nodes with nobody waiting" } else { "all on demand" }
    }

    /// What to do, in a sentence.
    pub(super) fn act(&self) -> String {
        let saving = self.held_out.saving;
        let interval = format!("{} to {}", format::percent(saving.low), format::percent(saving.high));
        let cost = |by: BurstRule| self.money(self.rule(by).map_or(0.0, |rule| rule.cost_per_month));
        let why = match self.verdict {
            BurstVerdict::Advised => {
                let several = self.pools.len() > 1;
                let of = |pool: &BurstPoolPlan| {
                    let verb = match (pool.how, self.nodes_given) {
                        (_, Some(_)) => "keep",
                        (BoughtAs::Reserved, _) => "reserve",
                        _ => "have",
                    };
                    let gpu = if several { format!("{}: ", pool.gpu) } else { String::new() };
                    if pool.nodes == 0 {
                        return format!("{gpu}all on demand");
                    }
                    let nodes = offers_in_words(pool.nodes, &pool.offer, pool.how, pool.months);
                    format!("{gpu}{verb} {nodes}, where {}", pool.policy.what)
                };
                let said: Vec<String> = self.pools.iter().map(of).collect();
                let mut said = said.join("; ");
                if let Some(first) = said.get(..1).map(str::to_uppercase).filter(|_| !several) {
                    said.replace_range(..1, &first);
                }
                let rest = if self.somebody_waits() { "has not started by then" } else { "does not start at once" };
                return format!("**{said}**; what {rest} runs on demand.");
            }
            BurstVerdict::NoSaving => format!(
                "on the later windows the plan saved {} of {} ({interval}), which is too little or may be chance",
                format::percent(saving.value),
                self.against()
            ),
            BurstVerdict::TooShort => format!(
                "the plan was priced on one {} after the split, which is no evidence of others; choose an earlier --eval-from, or bring a longer record",
                if self.held_out.drawn_weeks { "week" } else { "day" }
            ),
            BurstVerdict::TargetMissed => {
                let longest = self.held_out.sizes.iter().filter(|size| size.waits.jobs >= FEWEST_OF_CLASS as u64);
                let longest = longest.max_by(|a, b| a.waits.p95_s.total_cmp(&b.waits.p95_s));
                let whose = longest.map_or_else(String::new, |size| format!(" of those of {} GPUs", size.size.id()));
                format!(
                    "on the later windows the plan let more than 5 % of the jobs, or of those of a size, wait longer than {}: 95 %{whose} waited up to {}",
                    format::duration(self.target_p95_s),
                    format::duration(self.rule(BurstRule::Plan).map_or(0.0, |rule| rule.p95_of_sizes_s))
                )
            }
            BurstVerdict::WaitingLost => format!(
                "on the later windows the plan cost {} a month and nodes for nobody waiting {}, so waiting was worth nothing",
                cost(BurstRule::Plan),
                cost(BurstRule::Nobody)
            ),
            BurstVerdict::NothingBetter => format!(
                "of what keeps the target, {} is the cheapest for this load at these prices; the table of other targets says what longer waits would cost",
                self.against()
            ),
        };
        format!("**Change nothing**: {why}.")
    }

    /// The same as every plan recommends; `None` where the plan is not advised.
    pub(super) fn recommend(&self) -> Option<Recommendation> {
        if self.verdict != BurstVerdict::Advised {
            return None;
        }
        let held = &self.held_out;
        let (plan, best, nobody) =
            (self.rule(BurstRule::Plan)?, self.rule(BurstRule::Hindsight)?, self.rule(BurstRule::Nobody)?);
        let base = self.rule(held.baseline)?;
        let naive = self.rule(BurstRule::Newsvendor).unwrap_or(nobody);
        let unit = format!("{} a month", self.currency);
        let cost = held.saving_per_month.negated();
        let effects = vec![
            Effect::of("Cost of the GPUs on the later windows", &unit, &cost, &held.interval),
            Effect::of("Mean wait of the later jobs", "s", &held.mean_wait_s, &held.interval),
            to_come("plan", unit, self.cost_per_month.value - self.baseline_per_month.value),
        ];
        // Nodes bind for long: some must have been chosen before the split as well, and each later window must have paid. So must waits, beyond chance. A window in which it cost more than what it is
        // held against says how wrong it may be.
        let tested = self.nodes_given.is_some() || plan.own_gpus > 0.0;
        let paid = !self.somebody_waits() || held.waiting.low > 0.0;
        let sure = held.drawn_weeks && held.worst_saving >= WORTH && tested && paid;
        let confidence = match (sure, tested) {
            (true, _) => Confidence::High,
            (false, true) if held.worst_saving >= 0.0 => Confidence::Medium,
            (false, _) => Confidence::Low,
        };
        let mut assumptions = self.notes.clone();
        assumptions.push(
            "The weeks to come are like those of the record; nodes are paid to their end whatever comes.".to_owned(),
        );
        Some(Recommendation {
            plan: "burst".to_owned(),
            action: self.action.clone(),
            effects,
            against: self.against().to_owned(),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "the best nodes and waiting policy, chosen with hindsight on the later windows".to_owned(),
                oracle_change: best.cost_per_month - base.cost_per_month,
                naive_change: Some(naive.cost_per_month - base.cost_per_month),
                naive: Some(naive.what.clone()),
            }),
            harmed: harmed(held.sizes.iter().map(|of| (of.size, of.waits.summary()))),
            confidence,
            risk: format!(
                "Chosen on {} before {}, the plan cost {} more than the best with hindsight on the later windows; it saved least from {} on ({}).",
                held.chosen_on,
                to_the_minute(&held.split),
                format::percent(plan.regret),
                to_the_minute(&held.worst_window),
                format::percent(held.worst_saving)
            ),
            assumptions,
            holds_until: "until load or prices change: make the plan again when the load of a month differs by a fifth, and before nodes are bought or a commitment ends.".to_owned(),
            apply: "Let the submission plugin or a job of your own send what has waited long enough to the partition or cluster in the cloud; the answer names who waits, and how long.".to_owned(),
            command: None,
            undo: "Who waits can be changed at any time; what is reserved is paid to its end, and nodes that are bought stay.".to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::BurstRequest;
    use super::*;
    use crate::burst::heldout::BurstTerms;
    use crate::market::demand::tests::{OFFERS, trace};
    use crate::market::offers::Offers;

    const TERMS: BurstTerms = BurstTerms {
        target_s: 3_600.0,
        most_ms: 86_400_000,
        nodes: None,
        nobody_waits: false,
        own: None,
        horizon_months: 12.0,
    };

    /// Nine days of two jobs of 4 GPUs at once every three hours; a node costs 5 an hour, and 4 GPUs in the cloud 10.
    fn answer(nodes: Option<u32>) -> BurstAnswer {
        let jobs: Vec<(i64, i64, i64, f64)> = (0..144)
            .map(|at| {
                let begin = at / 2 * 180;
                (begin, begin, begin + 60, 4.0)
            })
            .collect();
        let terms = BurstTerms { nodes, ..TERMS };
        let request = BurstRequest { eval_from_ms: None, terms, predictions: None };
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        BurstAnswer::of(&trace(&jobs), &offers, "jobs", &request).unwrap()
    }

    #[test]
    fn each_reason_not_to_change_is_told() {
        let good = answer(None);
        assert_eq!((good.verdict, good.recommendation.is_some()), (BurstVerdict::Advised, true));
        assert_eq!(
            good.action,
            "**Reserve 1 × a for 1 year, where all jobs wait up to 1 h**; what has not started by then runs on demand."
        );
        let change = |of: &dyn Fn(&mut BurstAnswer)| {
            let mut answer = good.clone();
            of(&mut answer);
            answer.verdict = answer.judge();
            assert!(answer.recommend().is_none() || answer.verdict == BurstVerdict::Advised);
            (answer.verdict, answer.act())
        };
        let rule = |answer: &mut BurstAnswer, of: &dyn Fn(&mut super::super::BurstRuleOverWindows)| {
            answer.held_out.by.iter_mut().filter(|rule| rule.by == BurstRule::Plan).for_each(of);
        };
        let (verdict, told) =
            change(&|answer| rule(answer, &|plan| (plan.kept, plan.p95_of_sizes_s) = (false, 7_200.0)));
        assert!(
            verdict == BurstVerdict::TargetMissed
                && told.contains("wait longer than 1 h: 95 % of those of 2-4 GPUs waited up to 2 h"),
            "{told}"
        );
        let (verdict, told) = change(&|answer| rule(answer, &|plan| plan.cost_per_month *= 9.0));
        assert!(verdict == BurstVerdict::WaitingLost && told.contains("waiting was worth nothing"), "{told}");
        let (verdict, told) = change(&|answer| answer.held_out.saving.low = -0.1);
        assert!(verdict == BurstVerdict::NoSaving && told.contains("may be chance"), "{told}");
        let (verdict, told) = change(&|answer| answer.held_out.blocks = 1);
        assert!(verdict == BurstVerdict::TooShort && told.contains("no evidence of others"), "{told}");
        let mut lost = good.clone();
        lost.held_out.worst_saving = -0.1;
        assert_eq!(lost.recommend().unwrap().confidence, Confidence::Low);
        let (verdict, told) = change(&|answer| answer.pools.clear());
        assert!(verdict == BurstVerdict::NothingBetter && told.contains("all on demand is the cheapest"), "{told}");
    }

    #[test]
    fn where_waiting_fails_on_later_windows_nodes_for_nobody_waiting_are_planned() {
        // Every 90 min two jobs at once, which run for 40 min on eight days: one node serves both if the second waits. On four more days they run for 90 min, and one node serves one.
        let jobs: Vec<(i64, i64, i64, f64)> = (0..384)
            .map(|at| {
                let begin = at / 2 * 90;
                (begin, begin, begin + if at < 256 { 40 } else { 90 }, 4.0)
            })
            .collect();
        let request = |nobody_waits: bool| BurstRequest {
            eval_from_ms: None,
            terms: BurstTerms { nobody_waits, ..TERMS },
            predictions: None,
        };
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let planned = |nobody_waits| BurstAnswer::of(&trace(&jobs), &offers, "jobs", &request(nobody_waits)).unwrap();
        let (answer, asked) = (planned(false), planned(true));
        assert_eq!((answer.verdict, answer.somebody_waits()), (BurstVerdict::Advised, false), "{}", answer.action);
        assert_eq!((&answer.action, answer.pools[0].nodes), (&asked.action, 2));
        let note = answer.notes.iter().find(|note| note.starts_with("Waiting was tested first")).unwrap();
        assert!(note.contains("waiting was worth nothing") && note.contains("flatters"), "{note}");
        assert!(!asked.notes.iter().any(|note| note.starts_with("Waiting was tested first")));
    }

    #[test]
    fn nodes_that_are_there_are_held_against_nobody_waiting() {
        let one = answer(Some(1));
        assert_eq!((one.verdict, one.held_out.baseline), (BurstVerdict::Advised, BurstRule::Nobody));
        // 5 an hour and 10 every third, or 5 alone.
        assert!((one.held_out.saving.value - (1.0 - 15.0 / 25.0)).abs() < 1e-9, "{:?}", one.held_out.saving);
        let two = answer(Some(2));
        assert_eq!((two.verdict, two.recommendation), (BurstVerdict::NothingBetter, None));
    }
}
