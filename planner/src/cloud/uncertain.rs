//! What it is worth to plan on the distribution of an uncertain work: the same policy, told other things of it, on the same windows.
//!
//! * `distribution`: the programme weighs what may come by its chance; the deadline is kept up to the top;
//! * `top`: the policy is told the top amount, and stops when the work is done; the deadline is kept as well;
//! * `median`: the policy is told the median, and its safety net keeps that. A longer job goes on, on the spot that it has or on-demand, and may **miss**.
//!
//! Of an elastic job the first is `conditional_quantile`: its programme plans for what covers what is left with a high chance, sample by sample (see [lanes](crate::cloud::elastic::programme)). Over several zones there is the second alone, as their
//! policies plan on the top.
//!
//! Each cost is a mean over the [amounts](WorkDistribution::amounts), as a share of the mean of all on-demand, and stands beside the optimum that knows the true work and all availability.
//!
//! O(windows × programmes). Worked example: two amounts of equal chance, 2 and 4 h in 5 h, no spot, no changeover, on-demand at three times the price. Every plan costs 3 · 3 h; told the median, 2 h, greedy waits
//! for 3 h and then runs: 4 h of work end at 7 h, so that half of the cases miss.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Section, format};

use super::attempt::{Attempt, MisledRun, Told, attempt, misled_by};
use super::job::DeadlineJob;
use super::policy::{CloudPolicy, Lessons};
use super::request::CloudRequest;
use super::work::{WorkDistribution, WorkPlanned, WorkQuantile};
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::interval::{average, mean};
use crate::plan::tell;
use crate::plan::window::Window;
use crate::replay::compare::IntervalEstimate;

/// What a policy is told of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlansOn {
    /// Distribution of the work.
    Distribution,
    /// So much as covers what is left with a high chance, sample by sample.
    ConditionalQuantile,
    /// The top amount.
    Top,
    /// The median.
    Median,
}

impl PlansOn {
    fn in_words(self) -> &'static str {
        match self {
            Self::Distribution => "the distribution",
            Self::ConditionalQuantile => "what covers the rest",
            Self::Top => "the top",
            Self::Median => "the median",
        }
    }
}

/// What the policy comes to that is told so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WorkPlan {
    /// Statement of the work that the policy gets.
    pub plans_on: PlansOn,
    /// Mean cost, as a share of all on-demand, with its interval.
    pub cost_ratio: IntervalEstimate,
    /// Mean cost above that of the optimum that knows the true work, as a share of that.
    pub over_omniscient_mean: f64,
    /// Chance that a deadline is missed, over windows and amounts.
    pub missed_share: f64,
    /// Mean time by which those were late, to the tick, seconds; nothing where none was, as with what is planned for every amount.
    pub late_s: Option<f64>,
}

/// One deadline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkPlansAt {
    /// Top of the work over time to the deadline.
    pub slack: f64,
    /// Windows.
    pub windows: usize,
    /// Told one thing or the other.
    pub plans: Vec<WorkPlan>,
}

/// An uncertain work, and what it is worth to plan on its distribution.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UncertainWork {
    /// What is known of it.
    pub quantiles: Vec<WorkQuantile>,
    /// The amount up to which the deadline is kept, seconds.
    pub top_s: f64,
    /// Chance of more than that.
    pub beyond: f64,
    /// Median of the work, seconds.
    pub median_s: f64,
    /// Mean of the work, with what is beyond the top at the top, seconds.
    pub mean_s: f64,
    /// The policy: the one that was chosen, or the semi-Markov programme where that is none.
    pub policy: CloudPolicy,
    /// Deadline by deadline.
    pub by_slack: Vec<WorkPlansAt>,
}

/// Outcome of one window: cost over all on-demand, over the optimum, chance of a miss, and time
/// late weighed by it.
#[derive(Debug, Clone, Copy)]
struct Came {
    share: f64,
    over: f64,
    missed: f64,
    late_s: Option<f64>,
}

/// A policy that is told so on a window.
fn came(
    (zone, lessons, window): (&SpotSeries, &Lessons, &Window),
    work: &WorkDistribution,
    job: &DeadlineJob,
    policy: CloudPolicy,
) -> Result<[Came; 3]> {
    let price = zone.price.as_ref();
    let told = |planned: bool, policies: &[CloudPolicy]| -> Result<Attempt> {
        let told = Told { work, planned };
        let result = attempt(policies, lessons, price, window, &[*job], Some(told))?;
        result.into_iter().next().ok_or_else(|| crate::error::Error::defect("a window was not tried".to_owned()))
    };
    let [on_distribution, on_top] = [told(true, &[policy, CloudPolicy::Omniscient])?, told(false, &[policy])?];
    let least = on_distribution.run(CloudPolicy::Omniscient).cost;
    let kept = |attempt: &Attempt| {
        let run = attempt.run(policy);
        Came { share: attempt.share(policy), over: run.cost / least - 1.0, missed: f64::from(run.missed), late_s: None }
    };
    let median = DeadlineJob { work_ms: work.quantile_ms(0.5), ..*job };
    let amounts = work.amounts();
    let works: Vec<i64> = amounts.iter().map(|(work_ms, _)| *work_ms).collect();
    let runs = misled_by(lessons, price, window, (&median, &works), policy);
    let weighed = |of: &dyn Fn(&MisledRun) -> f64| -> f64 {
        runs.iter().zip(&amounts).map(|(run, (_, chance))| chance * of(run)).sum()
    };
    let cost = weighed(&|run| run.cost);
    let on_median = Came {
        share: cost / weighed(&|run| run.on_demand),
        over: cost / least - 1.0,
        missed: weighed(&|run| f64::from(run.missed)),
        late_s: Some(weighed(&|run| run.late_ms as f64 / 1e3)),
    };
    Ok([kept(&on_distribution), kept(&on_top), on_median])
}

impl UncertainWork {
    /// On windows of zones, with each of `jobs`, of which `slacks` are the slacks; nothing where the work is known.
    ///
    /// # Errors
    /// If an optimum cannot be computed exactly.
    pub(super) fn of(
        windows: &[(&SpotSeries, &Lessons, &Window)],
        jobs: &[DeadlineJob],
        request: &CloudRequest,
        chosen: CloudPolicy,
    ) -> Result<Option<Self>> {
        let Some(work) = &request.uncertain else { return Ok(None) };
        let policy = if chosen.phases().is_some() { chosen } else { CloudPolicy::SemiMarkov };
        let first = match request.planned() {
            WorkPlanned::Cover(_) => PlansOn::ConditionalQuantile,
            WorkPlanned::Distribution | WorkPlanned::Top => PlansOn::Distribution,
        };
        let mut by_slack = Vec::with_capacity(jobs.len());
        for job in jobs {
            let tried: Result<Vec<[Came; 3]>> = windows.par_iter().map(|on| came(*on, work, job, policy)).collect();
            let tried = tried?;
            let plan = |at: usize, plans_on: PlansOn| {
                let of = |figure: &dyn Fn(&Came) -> f64| -> Vec<f64> {
                    tried.iter().filter_map(|came| came.get(at)).map(figure).collect()
                };
                let average_of = |figure: &dyn Fn(&Came) -> f64| average(of(figure).into_iter());
                let missed = average_of(&|came| came.missed);
                let late: Option<Vec<f64>> =
                    tried.iter().filter_map(|came| came.get(at)).map(|came| came.late_s).collect();
                WorkPlan {
                    plans_on,
                    cost_ratio: mean(&of(&|came| came.share)),
                    over_omniscient_mean: average_of(&|came| came.over),
                    missed_share: missed,
                    late_s: late.filter(|_| missed > 0.0).map(|late| average(late.into_iter()) / missed),
                }
            };
            by_slack.push(WorkPlansAt {
                slack: job.work_ms as f64 / job.deadline_ms as f64,
                windows: tried.len(),
                plans: [first, PlansOn::Top, PlansOn::Median]
                    .into_iter()
                    .enumerate()
                    .map(|(at, plans_on)| plan(at, plans_on))
                    .collect(),
            });
        }
        Ok(Some(Self::told(work, policy, by_slack)))
    }

    /// Over several zones, of starts that were tried with each of `jobs`; nothing where the work is known.
    pub(super) fn over_zones(
        attempts: &[&[Attempt]],
        jobs: &[DeadlineJob],
        request: &CloudRequest,
        chosen: CloudPolicy,
    ) -> Option<Self> {
        let work = request.uncertain.as_ref()?;
        let at = |(place, job): (usize, &DeadlineJob)| {
            let tried: Vec<&Attempt> = attempts.iter().filter_map(|attempts| attempts.get(place)).collect();
            let missed = tried.iter().map(|attempt| f64::from(attempt.run(chosen).missed));
            WorkPlansAt {
                slack: job.work_ms as f64 / job.deadline_ms as f64,
                windows: tried.len(),
                plans: vec![WorkPlan {
                    plans_on: PlansOn::Top,
                    cost_ratio: mean(&tried.iter().map(|attempt| attempt.share(chosen)).collect::<Vec<_>>()),
                    over_omniscient_mean: average(tried.iter().map(|attempt| attempt.over_omniscient(chosen))),
                    missed_share: average(missed),
                    late_s: None,
                }],
            }
        };
        Some(Self::told(work, chosen, jobs.iter().enumerate().map(at).collect()))
    }

    fn told(work: &WorkDistribution, policy: CloudPolicy, by_slack: Vec<WorkPlansAt>) -> Self {
        let amounts = work.amounts();
        Self {
            quantiles: work.quantiles(),
            top_s: work.top_ms() as f64 / 1e3,
            beyond: work.beyond(),
            median_s: work.quantile_ms(0.5) as f64 / 1e3,
            mean_s: amounts.iter().map(|(work_ms, chance)| *work_ms as f64 / 1e3 * chance).sum(),
            policy,
            by_slack,
        }
    }

    /// In a sentence for each deadline.
    pub(super) fn summary(&self) -> Vec<String> {
        let of = |at: &WorkPlansAt| {
            let said: Vec<String> = at
                .plans
                .iter()
                .map(|plan| {
                    let misses = if plan.missed_share > 0.0 {
                        format!(", with {} of deadlines missed", format::percent(plan.missed_share))
                    } else {
                        String::new()
                    };
                    format!("{} on {}{misses}", format::percent(plan.cost_ratio.value), plan.plans_on.in_words())
                })
                .collect();
            format!(
                "The work is uncertain. At a slack of {} the {} costs, planned: {}.",
                format::float(at.slack, 2),
                self.policy.in_words(),
                said.join("; ")
            )
        };
        self.by_slack.iter().map(of).chain(self.beyond_in_words()).collect()
    }

    /// A sentence that the quantiles end below certainty, so that the deadline is no promise;
    /// `None` where the top is certain.
    fn beyond_in_words(&self) -> Option<String> {
        (self.beyond > 1e-9).then(|| {
            format!(
                "**With a chance of {} the work is more than {}**: no deadline is promised then, and it counts as {} in these costs and misses. Give 1 as the last chance to have it promised.",
                format::percent(self.beyond),
                format::duration(self.top_s),
                format::duration(self.top_s)
            )
        })
    }

    /// Returns the comparison as a section of a report.
    pub(super) fn section(&self) -> Section {
        let mut table = tell::table(
            format!("The {}, told one thing or another of the work", self.policy.in_words()),
            "Planned on | #Slack | #Cost, % of all on-demand | 95 % interval | #Over the omniscient, % | #Deadlines missed, % | Late by",
        );
        for at in &self.by_slack {
            for plan in &at.plans {
                table.rows.push(vec![
                    plan.plans_on.in_words().into(),
                    Cell::float(at.slack, 2),
                    Cell::float(100.0 * plan.cost_ratio.value, 1),
                    format!("{:.1} to {:.1}", 100.0 * plan.cost_ratio.low, 100.0 * plan.cost_ratio.high).into(),
                    Cell::float(100.0 * plan.over_omniscient_mean, 1),
                    Cell::float(100.0 * plan.missed_share, 1),
                    plan.late_s.map_or_else(String::new, format::duration).into(),
                ]);
            }
        }
        table.note = Some(format!(
            "Amounts from {} to {}, their mean {}. Costs are means over them. The omniscient knows the true work and all availability. Who misses a deadline spends less on keeping it.",
            format::duration(self.quantiles.first().map_or(0.0, |of| of.work_s)),
            format::duration(self.top_s),
            format::duration(self.mean_s)
        ));
        Section::new("cloud-uncertain-work", "What is it worth to plan on what is known of the work?").with_table(table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// Without spot, told the median of 2 h, greedy waits for 3 h: of 4 h in truth the last two come after the deadline.
    #[test]
    fn the_worked_example() {
        let zone = SpotSeries::of_counts("none", HOUR, vec![0.0; 30]);
        let work = WorkDistribution::new(&[(0.5, 2 * HOUR), (0.5, 4 * HOUR), (1.0, 4 * HOUR)]).unwrap();
        let request = CloudRequest {
            work_ms: 4 * HOUR,
            deadline_ms: Some(5 * HOUR),
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 1,
            need: 1,
            uncertain: Some(work.clone()),
            ..CloudRequest::default()
        };
        let jobs = request.jobs().unwrap();
        let window = Window { past: 0..10, ahead: 10..15 };
        let lessons = Lessons::new(zone.supply(1, false), zone.tick_ms);
        let on = (&zone, &lessons, &window);
        let result = came(on, &work, &jobs[0], CloudPolicy::Greedy).unwrap();
        for of in result {
            assert!((of.share - 1.0).abs() < 1e-12 && of.over.abs() < 1e-12, "{of:?}");
        }
        assert_eq!(result.map(|of| of.missed), [0.0, 0.0, 0.5]);
        assert!(result[0].late_s.is_none() && result[2].late_s.is_some_and(|late| (late - 0.5 * 7200.0).abs() < 1e-9));
        let all = UncertainWork::of(&[on], &jobs, &request, CloudPolicy::Greedy).unwrap().unwrap();
        assert_eq!((all.policy, all.by_slack.len(), all.by_slack[0].plans.len()), (CloudPolicy::SemiMarkov, 1, 3));
        assert!((all.mean_s - 3.0 * 3600.0).abs() < 1e-9 && all.beyond.abs() < 1e-12);
        // What is certain to stay within the top needs no warning; an open end has one beside the figures.
        assert_eq!(all.summary().len(), 1);
        let open = WorkDistribution::new(&[(0.5, 2 * HOUR), (0.9, 4 * HOUR)]).unwrap();
        let open_request = CloudRequest { uncertain: Some(open), ..request.clone() };
        let told = UncertainWork::of(&[on], &jobs, &open_request, CloudPolicy::Greedy).unwrap().unwrap().summary();
        assert!(
            told.last().is_some_and(|said| said.contains("chance of 10.0 % the work is more than 4 h")),
            "{told:?}"
        );
        let known = CloudRequest { uncertain: None, ..request };
        assert!(UncertainWork::of(&[], &jobs, &known, CloudPolicy::Greedy).unwrap().is_none());
    }
}
