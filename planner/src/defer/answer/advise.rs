//! What follows from the test: whether waiting is advised, and the recommendation.
//!
//! Waiting is advised only if, on the later windows, it saved at least 5 % of starting at once, the interval of that excludes none, the mean wait stayed within the target, and, with prices, it cost no more than it may.
//! Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a plan that saved 3.1 % (1.8 to 4.4 %) of the carbon is not advised: it is less than 5 %.

use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;

use super::super::job::DeferClassBy;
use super::super::rule::DeferRule;
use super::{DeferAim, DeferAnswer, DeferPlan, DeferVerdict, NextWay};
use crate::plan::money::money;
use crate::plan::waits::{gpus_in_words, harmed};
use crate::plan::{Basis, Confidence, Effect, Recommendation, Regret, WORTH, worth};

/// Classes that are named in a sentence.
const NAMED: usize = 4;

impl DeferPlan {
    /// Who waits how long at most, in words.
    pub(super) fn who(&self) -> String {
        let same = self.classes.first().is_some_and(|first| {
            self.classes.len() == super::super::job::CELLS
                && self.classes.iter().all(|class| class.most_wait_s == first.most_wait_s)
        });
        match self.classes.as_slice() {
            [] => "nobody waits".to_owned(),
            [first, ..] if same => format!("all jobs wait up to {}", format::duration(first.most_wait_s)),
            classes => {
                let of = |class: &super::DeferClass| {
                    format!(
                        "{}, {}: up to {}",
                        gpus_in_words(class.size),
                        class.runs,
                        format::duration(class.most_wait_s)
                    )
                };
                let mut said: Vec<String> = classes.iter().take(NAMED).map(of).collect();
                if classes.len() > NAMED {
                    said.push(format!("and {} more classes", classes.len() - NAMED));
                }
                said.join("; ")
            }
        }
    }
}

impl DeferAnswer {
    /// Carbon or money.
    pub(super) fn amount(&self, amount: f64) -> String {
        match self.aim {
            DeferAim::Carbon => format!("{} kg", format::compact(amount)),
            DeferAim::Price => money(amount, &self.unit),
        }
    }

    /// What is to be low, in words.
    pub(super) fn what(&self) -> &'static str {
        match self.aim {
            DeferAim::Carbon => "carbon",
            DeferAim::Price => "cost of electricity",
        }
    }

    /// Whether the plan is advised.
    pub(super) fn judge(&self) -> DeferVerdict {
        let (Some(plan), Some(now)) = (self.rule(DeferRule::Plan), self.rule(DeferRule::Now)) else {
            return DeferVerdict::NothingBetter;
        };
        let saving = self.held_out.saving;
        let dearer = self.prices_weigh() && plan.cost.is_some_and(|cost| cost.of_now > 1.0 + self.most_cost);
        if self.plan.classes.is_empty() || plan.chosen.classes.is_empty() {
            DeferVerdict::NothingBetter
        } else if now.amount_per_month <= 0.0 {
            DeferVerdict::NothingToSave
        } else if !worth(saving.value, saving.low, 1.0) {
            DeferVerdict::NoSaving
        } else if !plan.kept {
            DeferVerdict::WaitsTooLong
        } else if dearer {
            DeferVerdict::CostsMore
        } else {
            DeferVerdict::Advised
        }
    }

    /// Whether GPUs have prices, so that cost is a limit.
    fn prices_weigh(&self) -> bool {
        self.rule(DeferRule::Now).and_then(|now| now.cost).is_some_and(|cost| cost.per_month > cost.energy_per_month)
    }

    /// What to do, in a sentence.
    pub(super) fn act(&self) -> String {
        let saving = self.held_out.saving;
        let interval = format!("{} to {}", format::percent(saving.low), format::percent(saving.high));
        let plan = self.rule(DeferRule::Plan);
        let why = match self.verdict {
            DeferVerdict::Advised => {
                return format!(
                    "**Start jobs in the {}** ({}); all others start at once.",
                    self.plan.what,
                    self.plan.who()
                );
            }
            DeferVerdict::NoSaving => format!(
                "on the later windows the plan saved {} of the {} ({interval}), {}",
                format::percent(saving.value),
                self.what(),
                if saving.low <= 0.0 {
                    "which may be chance".to_owned()
                } else {
                    format!("less than the {} that a change is worth", format::percent(WORTH))
                }
            ),
            DeferVerdict::WaitsTooLong => format!(
                "on the later windows jobs waited {} on average, longer than the {} asked for",
                format::duration(plan.map_or(0.0, |plan| plan.waits.mean_s)),
                format::duration(self.target_mean_wait_s)
            ),
            DeferVerdict::CostsMore => format!(
                "on the later windows the plan cost {} of starting at once, more than the {} that it may",
                format::percent(plan.and_then(|plan| plan.cost).map_or(1.0, |cost| cost.of_now)),
                format::percent(1.0 + self.most_cost)
            ),
            DeferVerdict::NothingToSave => format!(
                "on the later windows starting at once cost {} a month in all, as prices were negative, so there is no share to save",
                self.amount(self.rule(DeferRule::Now).map_or(0.0, |now| now.amount_per_month))
            ),
            DeferVerdict::NothingBetter => {
                "within the mean wait asked for, no waiting was found that saves anything".to_owned()
            }
        };
        format!("**Change nothing**: {why}.")
    }

    /// How to set it.
    fn apply(&self) -> String {
        let set = match self.next_day.as_ref().map(|day| &day.way) {
            None => {
                return "Make the plan with the hours of the days of the jobs, up to today: it then writes what to set for tomorrow."
                    .to_owned();
            }
            Some(NextWay::Table(_)) => {
                "Give a job the start that defer.csv or defer_job_submit.lua name for its class and hour (Slurm: begin time), and write them anew each day."
            }
            Some(NextWay::Limit(_)) => {
                "Hold jobs of the classes that wait (defer_job_submit.lua), and run defer_release.sh at the beginning of each hour with its value: it starts them in the first hour at or below the limit. Write both anew each day."
            }
        };
        let class = match self.class_by {
            DeferClassBy::Limit => "The test took the class from the time limit, as Slurm's lines do.",
            DeferClassBy::Predicted => {
                "The test took the class from the predicted run; Slurm's lines take it from the time limit."
            }
        };
        format!("{set} {class}")
    }

    /// The same as every plan recommends; `None` where the plan is not advised.
    pub(super) fn recommend(&self) -> Option<Recommendation> {
        if self.verdict != DeferVerdict::Advised {
            return None;
        }
        let held = &self.held_out;
        let rule = |by: DeferRule| self.rule(by);
        let (plan, now) = (rule(DeferRule::Plan)?, rule(DeferRule::Now)?);
        let (oracle, naive) = (rule(DeferRule::Oracle)?, rule(DeferRule::AllWait)?);
        let what = match self.aim {
            DeferAim::Carbon => "Carbon of the GPUs on the later windows",
            DeferAim::Price => "Cost of electricity on the later windows",
        };
        let unit = format!("{} a month", self.unit);
        let mut effects = vec![
            Effect::of(what, &unit, &held.saving_per_month.negated(), &held.interval),
            Effect::of("Mean wait of the later jobs", "s", &held.mean_wait_s, &held.interval),
        ];
        if let (Some(after), Some(before), Some(currency)) = (plan.cost, now.cost, &self.currency) {
            effects.push(Effect {
                what: "Cost on the later windows".to_owned(),
                unit: format!("{currency} a month"),
                change: after.per_month - before.per_month,
                low: None,
                high: None,
                interval: "none: GPUs in use add up over days".to_owned(),
            });
        }
        let sure = held.drawn_weeks && held.worst_saving >= WORTH && self.shift_weeks == 0;
        let mut assumptions = self.notes.clone();
        assumptions
            .push("The hours to come are like those of the file, and the jobs like those of the record.".to_owned());
        Some(Recommendation {
            plan: "defer".to_owned(),
            action: self.action.clone(),
            effects,
            against: "starting every job at once".to_owned(),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "all hours and runs known, and all jobs waiting as long as they may".to_owned(),
                oracle_change: oracle.amount_per_month - now.amount_per_month,
                naive_change: Some(naive.amount_per_month - now.amount_per_month),
                naive: Some(format!("{}, {} on average", naive.what, format::duration(naive.waits.mean_s))),
            }),
            harmed: harmed(held.sizes.iter().map(|of| (of.size, of.waits))),
            confidence: if sure { Confidence::High } else { Confidence::Medium },
            risk: format!(
                "Chosen on {} before {}; it saved least from {} on ({}). Users who learn that jobs wait may ask for shorter runs or other classes.",
                held.chosen_on,
                to_the_minute(&held.split),
                to_the_minute(&held.worst_window),
                format::percent(held.worst_saving)
            ),
            assumptions,
            holds_until: "until grid or load change: make the plan again every season, and what it writes for a day every day.".to_owned(),
            apply: self.apply(),
            command: (self.shift_weeks == 0).then(|| "tracecast plan defer … --emit-to defer".to_owned()),
            undo: "Take the lines out of job_submit.lua; waiting jobs start at once with `scontrol update JobId=… StartTime=now`.".to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::time::HOUR_MS;

    use super::super::{DeferHours, DeferRequest};
    use super::*;
    use crate::defer::heldout::DeferTerms;
    use crate::defer::series::HourSeries;
    use crate::market::demand::tests::trace;

    /// Nine days of a job of one GPU and an hour each hour, where six hours of the day emit a quarter of the others.
    fn answer(mean_h: f64) -> DeferAnswer {
        let jobs: Vec<(i64, i64, i64, f64)> = (0..216).map(|at| (at * 60, at * 60, at * 60 + 60, 1.0)).collect();
        let value = |hour: i64| Some(if (10..16).contains(&(hour % 24)) { 100_000 } else { 400_000 });
        let hours = DeferHours {
            aim: DeferAim::Carbon,
            series: HourSeries::from_values(0, (0..400).map(value).collect()),
            name: "c.csv".to_owned(),
            currency: None,
            notes: Vec::new(),
        };
        let request = DeferRequest {
            eval_from_ms: None,
            terms: DeferTerms {
                target_ms: mean_h * HOUR_MS as f64,
                most_ms: 24 * HOUR_MS,
                resume_ms: 0,
                most_cost: 0.0,
            },
            shift_weeks: 0,
            gpu_kw: (1.0, "given".to_owned()),
            energy: None,
            prices: None,
            class_by: None,
            predictions: None,
        };
        DeferAnswer::of(&trace(&jobs), &hours, "jobs".to_owned(), &request).unwrap()
    }

    #[test]
    fn each_reason_not_to_change_is_told() {
        let good = answer(24.0);
        assert_eq!((good.verdict, good.recommendation.is_some()), (DeferVerdict::Advised, true), "{}", good.action);
        assert!(good.action.starts_with("**Start jobs in the ") && good.action.contains("1 GPU"), "{}", good.action);
        let change = |of: &dyn Fn(&mut DeferAnswer)| {
            let mut answer = good.clone();
            of(&mut answer);
            answer.verdict = answer.judge();
            assert_eq!(answer.recommend().is_some(), answer.verdict == DeferVerdict::Advised);
            (answer.verdict, answer.act())
        };
        let plan = |answer: &mut DeferAnswer, of: &dyn Fn(&mut super::super::DeferRuleOverWindows)| {
            answer.held_out.by.iter_mut().filter(|rule| rule.by == DeferRule::Plan).for_each(of);
        };
        let (verdict, told) = change(&|answer| answer.held_out.saving.low = -0.1);
        assert!(verdict == DeferVerdict::NoSaving && told.contains("may be chance"), "{told}");
        let (verdict, told) = change(&|answer| plan(answer, &|plan| plan.kept = false));
        assert!(verdict == DeferVerdict::WaitsTooLong && told.contains("longer than the 1 d asked for"), "{told}");
        let (verdict, _) = change(&|answer| answer.plan.classes.clear());
        assert_eq!(verdict, DeferVerdict::NothingBetter);
        let cost = |of_now: f64| super::super::DeferCost {
            per_month: 3.0,
            on_demand_per_month: 3.0,
            energy_per_month: 0.0,
            of_now,
        };
        let (verdict, told) = change(&|answer| {
            answer.held_out.by.iter_mut().for_each(|rule| rule.cost = Some(cost(1.0)));
            plan(answer, &|plan| plan.cost = Some(cost(1.2)));
        });
        assert!(verdict == DeferVerdict::CostsMore && told.contains("120.0 %"), "{told}");
    }

    #[test]
    fn a_short_mean_wait_is_kept_and_none_lets_nobody_wait() {
        let one = answer(1.0);
        let plan = one.rule(DeferRule::Plan).unwrap();
        assert!(plan.kept && plan.waits.mean_s <= 3_600.0, "{plan:?}");
        let none = answer(0.0);
        assert_eq!((none.verdict, none.next_day), (DeferVerdict::NothingBetter, None));
    }

    #[test]
    fn the_day_to_come_is_written_down_as_the_plan_goes_by() {
        let day = answer(24.0).next_day.unwrap();
        // The clean hours are a quarter of all, so the lowest fifth of them is any of them: hours that emit 100 g at most.
        assert!(matches!(day.way, NextWay::Limit(limit) if limit.limit == 100.0), "{day:?}");
        assert_eq!(day.from, "1970-01-17T16:00:00Z");
    }
}
