//! What follows from the test: whether waiting is advised, and the recommendation.
//!
//! Waiting is advised only if, on the later windows, it saved at least 5 % of starting at once, the interval of that excludes none, the mean wait stayed within the target, and, with prices, it cost no more than it may.
//! Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a plan that saved 3.1 % (1.8 to 4.4 %) of the carbon is not advised: it is less than 5 %.

use tracecast_analytics::report::format;

use super::super::job::DeferClassBy;
use super::{DeferAim, DeferBody, DeferPlan, DeferTrial, NextWay};
use crate::plan::answer::Change;
use crate::plan::money::money;
use crate::plan::verdict::{Judged, TOO_SHORT, Verdict, confidence, unsaved_in_words};
use crate::plan::waits::{gpus_in_words, harmed};
use crate::plan::{Assurance, Basis, Effect};

/// Classes that are named in a sentence.
const NAMED: usize = 4;

impl DeferPlan {
    /// Describes who waits how long at most.
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

impl DeferBody {
    /// Carbon or money.
    pub(super) fn amount(&self, amount: f64) -> String {
        match self.aim {
            DeferAim::Carbon => format!("{} kg", format::compact(amount)),
            DeferAim::Price => money(amount, &self.unit),
        }
    }

    /// Quantity to keep low, in words.
    pub(super) fn what(&self) -> &'static str {
        match self.aim {
            DeferAim::Carbon => "carbon",
            DeferAim::Price => "cost of electricity",
        }
    }

    /// Baseline in words.
    pub(super) fn against(&self) -> String {
        format!("the {} of starting at once", self.what())
    }

    /// Steps to set the plan.
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
}

/// Inputs of the verdict beyond the trial; `plan` is the plan to come.
pub(super) fn judged(trial: &DeferTrial, plan: &DeferPlan) -> Judged {
    let changes = !plan.classes.is_empty() && !trial.of.plan.figures.chosen.classes.is_empty();
    Judged { changes, is_simplest: true, is_comparable: true, fewest_blocks: 1 }
}

/// Recommended action, in a sentence.
pub(super) fn act(trial: &DeferTrial, body: &DeferBody, verdict: Verdict) -> String {
    let plan = &trial.of.plan.figures;
    let why = match verdict {
        Verdict::Advised => {
            return format!(
                "**Start jobs in the {}** ({}); all others start at once.",
                body.plan.what,
                body.plan.who()
            );
        }
        Verdict::LimitMissed if plan.waits.mean_s > body.target_mean_wait_s => format!(
            "on the later windows jobs waited {} on average, longer than the {} asked for",
            format::duration(plan.waits.mean_s),
            format::duration(body.target_mean_wait_s)
        ),
        Verdict::LimitMissed => format!(
            "on the later windows the plan cost {} of starting at once, more than the {} that it may",
            format::percent(plan.cost.map_or(1.0, |cost| cost.of_now)),
            format::percent(1.0 + body.most_cost)
        ),
        Verdict::NothingToSave => format!(
            "on the later windows starting at once cost {} a month in all, as prices were negative, so there is no share to save",
            body.amount(trial.of.baseline.amount)
        ),
        Verdict::NothingBetter => "within the mean wait asked for, no waiting was found that saves anything".to_owned(),
        Verdict::TooShort => TOO_SHORT.to_owned(),
        Verdict::NoSaving
        | Verdict::SimplerAsGood
        | Verdict::NotComparable
        | Verdict::NothingKeeps
        | Verdict::Untested
        | Verdict::SizesUnknown => unsaved_in_words(trial, "plan", &body.against()),
    };
    format!("**Change nothing**: {why}.")
}

/// The recommendation.
pub(super) fn change(trial: &DeferTrial, body: &DeferBody) -> Change {
    let of = &trial.of;
    let amount = match body.aim {
        DeferAim::Carbon => "Carbon of the GPUs on the later windows",
        DeferAim::Price => "Cost of electricity on the later windows",
    };
    let mut effects =
        vec![trial.effect(amount), Effect::new("Mean wait of the later jobs", "s", &body.mean_wait_s, &trial.interval)];
    if let (Some(after), Some(before), Some(currency)) =
        (of.plan.figures.cost, of.baseline.figures.cost, &body.currency)
    {
        effects.push(Effect {
            what: "Cost on the later windows".to_owned(),
            unit: format!("{currency} a month"),
            change: after.per_month - before.per_month,
            low: None,
            high: None,
            interval: "none: GPUs in use add up over days".to_owned(),
        });
    }
    let naive_wait = format::duration(of.naive.figures.waits.mean_s);
    Change {
        plan: "defer",
        effects,
        against: "starting every job at once".to_owned(),
        basis: Basis::LaterDays,
        regret: trial.regret(
            "all hours and runs known, and all jobs waiting as long as they may",
            &format!("{}, {naive_wait} on average", of.naive.words),
        ),
        harmed: harmed(body.sizes.iter().map(|of| (of.size, of.waits))),
        sure: Assurance::lowered(confidence(trial, body.shift_weeks == 0, false), Vec::new(), ""),
        risk: trial.risk("Users who learn that jobs wait may ask for shorter runs or other classes."),
        assumed: vec![
            "The hours to come are like those of the file, and the jobs like those of the record.".to_owned(),
        ],
        holds_until:
            "until grid or load change: make the plan again every season, and what it writes for a day every day."
                .to_owned(),
        apply: body.apply(),
        command: (body.shift_weeks == 0).then(|| "tracecast plan defer … --emit-to defer".to_owned()),
        undo: "Take the lines out of job_submit.lua; waiting jobs start at once with `scontrol update JobId=… StartTime=now`.",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::time::HOUR_MS;

    use super::super::{DeferAnswer, DeferCost, DeferHours, DeferRequest, plan};
    use super::*;
    use crate::defer::heldout::DeferTerms;
    use crate::defer::series::HourSeries;
    use crate::market::demand::tests::trace;
    use crate::plan::forecast::runs::RunForecast;
    use crate::plan::verdict::judge;

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
            runs: RunForecast::Naive(String::new()),
        };
        plan(&trace(&jobs), &hours, "jobs".to_owned(), &request).unwrap()
    }

    #[test]
    fn each_reason_not_to_change_is_told() {
        let good = answer(24.0);
        assert_eq!((good.verdict, good.recommendation.is_some()), (Verdict::Advised, true), "{}", good.action);
        assert!(good.action.starts_with("**Start jobs in the ") && good.action.contains("1 GPU"), "{}", good.action);
        let said = |verdict: Verdict, of: &dyn Fn(&mut DeferAnswer)| {
            let mut answer = good.clone();
            of(&mut answer);
            assert_eq!(judge(&answer.trial, &judged(&answer.trial, &answer.body.plan)), verdict);
            act(&answer.trial, &answer.body, verdict)
        };
        let told = said(Verdict::NoSaving, &|answer| answer.trial.saving.low = -0.1);
        assert!(told.contains("may be chance"), "{told}");
        let told = said(Verdict::LimitMissed, &|answer| {
            let plan = &mut answer.trial.of.plan;
            (plan.kept, plan.figures.waits.mean_s) = (false, 90_000.0);
        });
        assert!(told.contains("longer than the 1 d asked for"), "{told}");
        said(Verdict::NothingBetter, &|answer| answer.body.plan.classes.clear());
        let told = said(Verdict::LimitMissed, &|answer| {
            let plan = &mut answer.trial.of.plan;
            plan.kept = false;
            let cost = DeferCost { per_month: 3.0, on_demand_per_month: 3.0, energy_per_month: 0.0, of_now: 1.2 };
            plan.figures.cost = Some(cost);
        });
        assert!(told.contains("120.0 %"), "{told}");
    }

    #[test]
    fn a_short_mean_wait_is_kept_and_none_lets_nobody_wait() {
        let one = answer(1.0);
        let plan = &one.trial.of.plan;
        assert!(plan.kept && plan.figures.waits.mean_s <= 3_600.0, "{plan:?}");
        let none = answer(0.0);
        assert_eq!((none.verdict, none.body.next_day), (Verdict::NothingBetter, None));
    }

    #[test]
    fn the_day_to_come_is_written_down_as_the_plan_goes_by() {
        let day = answer(24.0).body.next_day.unwrap();
        // The clean hours are a quarter of all, so the lowest fifth of them is any of them: hours that emit 100 g at most.
        assert!(matches!(day.way, NextWay::Limit(limit) if limit.limit == 100.0), "{day:?}");
        assert_eq!(day.from, "1970-01-17T16:00:00Z");
    }
}
