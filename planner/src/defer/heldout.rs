//! Ways to defer that were chosen on earlier weeks, told on later ones.
//!
//! Every [rule](super::rule) chooses on the jobs that were submitted in the weeks before the split and whose run, as it was known at the split, and longest wait end before it: so no hour after the split is looked at. It is then
//! applied to the jobs that are submitted in the later weeks, each decided with the hours that had begun. A rule with bounds of its own for each cell has them chosen as [`choose`](super::choose) says, within the target of the
//! mean wait; the plan is the best of those that can be written down once a day, on the earlier weeks.
//!
//! Beside the plan stand starting at once, the published window with one bound for all, what a perfect prediction of runs or of hours would add, and bounds that know both.
//!
//! O(policies × bounds × jobs). Worked example: two weeks of which the second is told: on the first, hours of the lowest fifth of seven days with bounds of up to 12 h emit least within a mean wait of 4 h; on the second they
//! emit 93 % of starting at once, and the jobs wait 4.2 h on average.

use std::ops::Range;

use tracecast_analytics::time::HOUR_MS;

use super::choose::{CellChoice, CellTally, DeferSetup, best, bounds, least_worth, uniform};
use super::cost::{DeferPrices, DeferSpent};
use super::engine::{DeferEngine, Deferred};
use super::forecast::ForecastBy;
use super::job::{DeferJob, MILLI, class_runs};
use super::policy::{DeferPolicy, ExpectedRun, WindowGoal};
use super::rule::DeferRule;
use super::series::HourSeries;
use crate::error::{Error, Result};
use crate::plan::weeks::{Moments, WeekSplit, blocks, whole};

/// Choices on the way to the target at which costs are looked at.
const COSTED: usize = 12;

/// Request for a choice of what to defer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeferTerms {
    /// The mean wait that a plan may bring about, ms.
    pub target_ms: f64,
    /// The longest wait of a job, ms.
    pub most_ms: i64,
    /// Cost of resuming, ms.
    pub resume_ms: i64,
    /// How much more than starting at once a plan may cost, a share.
    pub most_cost: f64,
}

/// The price of electricity beside the series.
#[derive(Debug, Clone, Copy)]
pub struct PricedEnergy<'a> {
    /// Prices, on the calendar of the series.
    pub prices: &'a HourSeries,
    /// Money of a whole part × ms × thousandth of a GPU.
    pub each: f64,
}

/// Jobs to decide, and the data to decide with.
#[derive(Debug)]
pub struct DeferCase<'a> {
    /// Intensities or prices that are to be low.
    pub series: &'a HourSeries,
    /// Jobs that are chosen on.
    pub earlier: &'a [DeferJob],
    /// Jobs that are told.
    pub later: &'a [DeferJob],
    /// The windows, on the calendar of the series.
    pub split: &'a WeekSplit,
    /// The request.
    pub terms: &'a DeferTerms,
    /// Prices of GPUs, if they are weighed.
    pub prices: Option<&'a DeferPrices>,
    /// Prices of electricity, if they are told beside.
    pub energy: Option<PricedEnergy<'a>>,
}

/// A later job, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestedJob {
    /// The job.
    pub job: DeferJob,
    /// What became of it.
    pub found: Deferred,
    /// Emissions of starting at once, value × ms of one GPU.
    pub now: i128,
}

/// One rule on the later weeks.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedDefer {
    /// The rule.
    pub rule: DeferRule,
    /// Setup that the rule chose.
    pub setup: DeferSetup,
    /// Later jobs, in order of submission.
    pub jobs: Vec<TestedJob>,
    /// What the later weeks cost; none without prices.
    pub spent: Option<DeferSpent>,
}

impl TestedDefer {
    /// Mean wait of the later jobs, ms.
    pub fn mean_wait_ms(&self) -> f64 {
        let sum: i128 = self.jobs.iter().map(|told| i128::from(told.found.wait_ms)).sum();
        sum as f64 / self.jobs.len().max(1) as f64
    }
}

/// A choice of the way that the plan goes by, from nobody waiting on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontChoice {
    /// Setup of this choice.
    pub setup: DeferSetup,
    /// What it comes to on the earlier jobs.
    pub earlier: CellChoice,
    /// What the earlier weeks cost; none without prices.
    pub spent: Option<DeferSpent>,
}

/// All rules, and the front that the plan is of.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferTested {
    /// Rules.
    pub rules: Vec<TestedDefer>,
    /// On the earlier weeks: the plan, and choices of which none is better in all of amount, mean wait and cost.
    pub front: Vec<FrontChoice>,
}

/// Jobs that a choice is made on.
#[derive(Clone, Copy)]
struct ChosenOn<'a> {
    jobs: &'a [DeferJob],
    stretch: Moments,
    middle_ms: i64,
}

impl DeferCase<'_> {
    /// The engine for all rules; the clock is of the hours of a stretch, and the runs of classes are those of some jobs.
    pub fn engine(&self, (from, to): Moments, jobs: &[DeferJob]) -> DeferEngine<'_> {
        let policies: Vec<DeferPolicy> = DeferRule::ALL.into_iter().flat_map(DeferRule::policies).collect();
        let clock = (from.div_euclid(HOUR_MS), to.div_euclid(HOUR_MS));
        DeferEngine::new(self.series, &policies, clock, self.terms.resume_ms, class_runs(jobs))
    }

    fn earlier(&self) -> ChosenOn<'_> {
        let stretch = whole(&self.split.before);
        ChosenOn { jobs: self.earlier, stretch, middle_ms: i64::midpoint(stretch.0, stretch.1) }
    }

    fn later(&self) -> ChosenOn<'_> {
        let stretch = whole(&self.split.after);
        ChosenOn { jobs: self.later, stretch, middle_ms: i64::MAX }
    }

    /// Cost of some jobs in a stretch; `None` without prices. O(jobs log jobs).
    fn spent(
        &self,
        engine: &DeferEngine<'_>,
        setup: &DeferSetup,
        jobs: &[DeferJob],
        stretch: Moments,
    ) -> Option<DeferSpent> {
        if self.prices.is_none() && self.energy.is_none() {
            return None;
        }
        let (mut used, mut energy) = (Vec::new(), 0i128);
        for job in jobs {
            for (from, to) in engine.pieces(setup.policy, job, setup.bound_ms(job)) {
                if let Some(priced) = &self.energy {
                    energy += priced.prices.integral(from, to) * i128::from(job.milli_gpus);
                }
                used.push((from, to, job.milli_gpus as f64 / MILLI as f64));
            }
        }
        let hours = (stretch.1 - stretch.0) as f64 / HOUR_MS as f64;
        let mut spent = self.prices.map_or_else(DeferSpent::default, |prices| prices.spent(used, hours));
        spent.energy = self.energy.map_or(0.0, |priced| energy as f64 * priced.each);
        Some(spent)
    }

    /// What a rule chooses on some jobs.
    fn choose(&self, engine: &DeferEngine<'_>, rule: DeferRule, on: ChosenOn<'_>) -> Result<(DeferSetup, CellChoice)> {
        let terms = self.terms;
        let mut result: Vec<(DeferSetup, CellChoice)> = Vec::new();
        for policy in rule.policies() {
            match (rule, policy) {
                (DeferRule::Now, _) => {
                    result.push((DeferSetup::now(), uniform(engine, policy, on.jobs, on.middle_ms, 0)));
                }
                (DeferRule::AllWait | DeferRule::Oracle | DeferRule::FreeOracle, _) => {
                    let setup = DeferSetup::all(policy, terms.most_ms);
                    result.push((setup, uniform(engine, policy, on.jobs, on.middle_ms, terms.most_ms)));
                }
                (_, DeferPolicy::Window { goal: WindowGoal::Worth(_), by, runs }) => {
                    result.push(self.worth(engine, (by, runs), on, terms.target_ms)?);
                }
                _ => {
                    let tally = CellTally::new(engine, policy, on.jobs, on.middle_ms, &bounds(terms.most_ms));
                    let path = tally.path(terms.target_ms);
                    result.extend(self.affordable(engine, policy, &path, on));
                }
            }
        }
        best(result)
    }

    /// The least worth of a wait that keeps a target.
    fn worth(
        &self,
        engine: &DeferEngine<'_>,
        (by, runs): (ForecastBy, ExpectedRun),
        on: ChosenOn<'_>,
        target_ms: f64,
    ) -> Result<(DeferSetup, CellChoice)> {
        let most = self.terms.most_ms;
        let policy = |worth: i64| DeferPolicy::Window { goal: WindowGoal::Worth(worth), by, runs };
        let (worth, choice) =
            least_worth(target_ms, &mut |worth| Ok(uniform(engine, policy(worth), on.jobs, on.middle_ms, most)))?;
        Ok((DeferSetup::all(policy(worth), most), choice))
    }

    /// The farthest choice of a path that does not cost too much.
    fn affordable(
        &self,
        engine: &DeferEngine<'_>,
        policy: DeferPolicy,
        path: &[CellChoice],
        on: ChosenOn<'_>,
    ) -> Option<(DeferSetup, CellChoice)> {
        let setup = |choice: &CellChoice| DeferSetup { policy, bounds_ms: choice.bounds_ms };
        let with = |choice: &CellChoice| (setup(choice), *choice);
        if self.prices.is_none() {
            return path.last().map(with);
        }
        let step = path.len().div_ceil(COSTED).max(1);
        let thinned = path.iter().rev().step_by(step).chain(path.first());
        thinned.map(with).find(|(setup, _)| self.is_affordable(engine, setup, on))
    }

    /// Whether a setup costs no more than it may.
    fn is_affordable(&self, engine: &DeferEngine<'_>, setup: &DeferSetup, on: ChosenOn<'_>) -> bool {
        let cost = |setup: &DeferSetup| self.spent(engine, setup, on.jobs, on.stretch).map(|spent| spent.cost());
        match (self.prices, cost(setup), cost(&DeferSetup::now())) {
            (Some(_), Some(cost), Some(now)) => cost <= now + now.abs() * self.terms.most_cost + 1e-9,
            _ => true,
        }
    }

    /// The best of the candidates that costs no more than it may.
    fn plan(
        &self,
        engine: &DeferEngine<'_>,
        on: ChosenOn<'_>,
        chosen: &dyn Fn(DeferRule) -> Option<(DeferSetup, CellChoice)>,
    ) -> Result<(DeferSetup, CellChoice)> {
        let mut result = vec![self.choose(engine, DeferRule::Now, on)?];
        for rule in DeferRule::WRITTEN {
            let way = match chosen(rule) {
                Some(way) => way,
                None => self.choose(engine, rule, on)?,
            };
            let keeps = way.1.mean_waits_ms.iter().all(|wait| *wait <= self.terms.target_ms);
            if keeps && self.is_affordable(engine, &way.0, on) {
                result.push(way);
            }
        }
        best(result)
    }

    /// A setup on the later jobs.
    fn told(&self, engine: &DeferEngine<'_>, rule: DeferRule, setup: DeferSetup) -> TestedDefer {
        let of = |job: &DeferJob| {
            let found = engine.decide(setup.policy, job, &[setup.bound_ms(job)]).first().copied();
            let now = self.series.integral(job.submit_ms, job.submit_ms + job.run_ms);
            let found = found.unwrap_or(Deferred { wait_ms: 0, extra_ms: 0, amount: now });
            TestedJob { job: *job, found, now }
        };
        let spent = self.spent(engine, &setup, self.later, whole(&self.split.after));
        TestedDefer { rule, setup, jobs: self.later.iter().map(of).collect(), spent }
    }

    fn check(&self) -> Result<()> {
        if self.earlier.is_empty() || self.later.is_empty() {
            let what = "jobs on either side of the split whose hours have a value; choose another --eval-from, a shorter --max-wait, or a file that covers more hours";
            return Err(Error::NothingToEvaluate(format!("there are no {what}")));
        }
        Ok(())
    }

    /// Every rule: chosen on the earlier jobs, told on the later ones.
    ///
    /// # Errors
    /// If there are no earlier or later jobs.
    pub fn test(&self, engine: &DeferEngine<'_>) -> Result<DeferTested> {
        self.check()?;
        let mut chosen: Vec<(DeferRule, (DeferSetup, CellChoice))> = Vec::new();
        let mut rules: Vec<TestedDefer> = Vec::new();
        for rule in DeferRule::ALL {
            let known = |rule: DeferRule| chosen.iter().find(|(of, _)| *of == rule).map(|(_, way)| *way);
            let setup = match rule {
                DeferRule::Plan => {
                    let way = self.plan(engine, self.earlier(), &known)?;
                    chosen.push((rule, way));
                    way.0
                }
                DeferRule::Hindsight => self.plan(engine, self.later(), &|_| None)?.0,
                DeferRule::SameWait => {
                    let plan = rules.iter().find(|tested| tested.rule == DeferRule::Plan);
                    let target = plan.map_or(0.0, TestedDefer::mean_wait_ms);
                    self.worth(engine, (ForecastBy::Known, ExpectedRun::Recorded), self.later(), target)?.0
                }
                // Nothing is chosen of what knows all.
                DeferRule::Oracle => DeferSetup::all(DeferPolicy::oracle(), self.terms.most_ms),
                DeferRule::FreeOracle => DeferSetup::all(DeferPolicy::FreeHours, self.terms.most_ms),
                _ => {
                    let way = self.choose(engine, rule, self.earlier())?;
                    chosen.push((rule, way));
                    way.0
                }
            };
            rules.push(self.told(engine, rule, setup));
        }
        let plan = chosen.iter().find(|(rule, _)| *rule == DeferRule::Plan).map(|(_, way)| *way);
        let front = plan.map_or_else(Vec::new, |plan| self.front(engine, plan, self.earlier()));
        Ok(DeferTested { rules, front })
    }

    /// The plan alone: the amount of the jobs that it is chosen on, in parts, and what becomes of the
    /// later jobs.
    ///
    /// # Errors
    /// Errors of [`Self::test`].
    pub(super) fn planned(&self) -> Result<(i128, TestedDefer)> {
        self.check()?;
        let engine = self.engine(whole(&self.split.before), self.earlier);
        let (setup, choice) = self.plan(&engine, self.earlier(), &|_| None)?;
        Ok((choice.amount, self.told(&engine, DeferRule::Plan, setup)))
    }

    /// What the jobs to come are deferred by, chosen on all of some jobs.
    ///
    /// # Errors
    /// Errors of [`Self::test`].
    pub fn forward(
        &self,
        engine: &DeferEngine<'_>,
        jobs: &[DeferJob],
        stretch: Moments,
    ) -> Result<(DeferSetup, CellChoice)> {
        let on = ChosenOn { jobs, stretch, middle_ms: i64::midpoint(stretch.0, stretch.1) };
        self.plan(engine, on, &|_| None)
    }

    /// From nobody waiting to all waiting as long as they may, by the way of the plan; what another choice beats in amount, mean wait and cost is left out, but for the plan.
    fn front(
        &self,
        engine: &DeferEngine<'_>,
        (plan, chosen): (DeferSetup, CellChoice),
        on: ChosenOn<'_>,
    ) -> Vec<FrontChoice> {
        let tally = CellTally::new(engine, plan.policy, on.jobs, on.middle_ms, &bounds(self.terms.most_ms));
        let path = tally.path(f64::INFINITY);
        let step = path.len().div_ceil(COSTED).max(1);
        let of = |choice: &CellChoice| (DeferSetup { policy: plan.policy, bounds_ms: choice.bounds_ms }, *choice);
        let mut choices: Vec<(DeferSetup, CellChoice)> = path.iter().step_by(step).chain(path.last()).map(of).collect();
        choices.push((plan, chosen));
        let mut all: Vec<FrontChoice> = choices
            .into_iter()
            .map(|(setup, earlier)| FrontChoice {
                setup,
                earlier,
                spent: self.spent(engine, &setup, on.jobs, on.stretch),
            })
            .collect();
        all.sort_by(|a, b| {
            let by_wait = a.earlier.mean_wait_ms.total_cmp(&b.earlier.mean_wait_ms);
            let is_plan = |choice: &FrontChoice| choice.setup == plan;
            by_wait.then(a.earlier.amount.cmp(&b.earlier.amount)).then(is_plan(b).cmp(&is_plan(a)))
        });
        all.dedup_by(|a, b| a.earlier.mean_wait_ms == b.earlier.mean_wait_ms && a.earlier.amount == b.earlier.amount);
        let cost = |choice: &FrontChoice| choice.spent.map_or(0.0, |spent| spent.cost());
        let beats = |a: &FrontChoice, b: &FrontChoice| {
            let no_worse = a.earlier.amount <= b.earlier.amount
                && a.earlier.mean_wait_ms <= b.earlier.mean_wait_ms
                && cost(a) <= cost(b);
            no_worse
                && (a.earlier.amount < b.earlier.amount
                    || a.earlier.mean_wait_ms < b.earlier.mean_wait_ms
                    || cost(a) < cost(b))
        };
        // The plan is shown, wherever it lies.
        let is_shown = |choice: &&FrontChoice| choice.setup == plan || !all.iter().any(|other| beats(other, choice));
        all.iter().filter(is_shown).copied().collect()
    }
}

/// Blocks of the later windows that intervals resample.
pub fn later_blocks(split: &WeekSplit) -> Vec<Moments> {
    let begin = whole(&split.after).0;
    let moments = |hours: Range<usize>| (begin + hours.start as i64 * HOUR_MS, begin + hours.end as i64 * HOUR_MS);
    blocks(&split.after).into_iter().map(moments).collect()
}

/// The jobs that a choice may look at: those submitted in the earlier windows whose run, as it was known at the split, and longest wait end before the split.
pub fn earlier_jobs(known: &[DeferJob], split: &WeekSplit, most_ms: i64) -> Vec<DeferJob> {
    let (from, to) = whole(&split.before);
    let inside = |job: &&DeferJob| job.submit_ms >= from && job.submit_ms + job.run_ms + most_ms <= to;
    known.iter().filter(inside).copied().collect()
}

/// The jobs that are told: those submitted in the later windows.
pub fn later_jobs(all: &[DeferJob], split: &WeekSplit) -> Vec<DeferJob> {
    let (from, to) = whole(&split.after);
    all.iter().filter(|job| (from..to).contains(&job.submit_ms)).copied().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tracecast_analytics::facts::JobFacts;
    use tracecast_analytics::time::DAY_MS;

    use super::super::job::DeferClassBy;
    use super::*;
    use crate::defer::job::{DeferJobs, DeferTaking};
    use crate::market::demand::tests::{Drawn, OFFERS, changed_after_the_split, changes, drawn, nine_days};
    use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
    use crate::market::offers::Offers;
    use crate::market::predicted::last_two_by_row;

    const TERMS: DeferTerms =
        DeferTerms { target_ms: 3.0 * HOUR_MS as f64, most_ms: 12 * HOUR_MS, resume_ms: HOUR_MS / 12, most_cost: 0.05 };
    /// Where the nine days are split.
    const SPLIT_H: usize = 6 * 24;

    fn tested(drawn: &Drawn, values: &[i64], weighed: bool) -> Option<DeferTested> {
        let trace = nine_days(drawn);
        let facts = JobFacts::new(&trace);
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap();
        let split = WeekSplit::new((0, 9 * DAY_MS), Some(6 * DAY_MS)).unwrap();
        let series = HourSeries::from_values(0, values.iter().copied().map(Some).collect());
        let all = jobs.unwaited(i64::MAX);
        let predicted_s = last_two_by_row(&facts, &all);
        let taking = DeferTaking {
            predicted_s: &predicted_s,
            class_by: DeferClassBy::Predicted,
            shift_ms: 0,
            most_ms: TERMS.most_ms,
            prices: None,
        };
        let taken = |known: i64| DeferJobs::new(&facts, &jobs.unwaited(known), &series, &taking).jobs;
        let earlier = earlier_jobs(&taken(split.split_ms()), &split, TERMS.most_ms);
        let later = later_jobs(&taken(i64::MAX), &split);
        let prices = DeferPrices::new(&offers, &all, 3.0).unwrap();
        let case = DeferCase {
            series: &series,
            earlier: &earlier,
            later: &later,
            split: &split,
            terms: &TERMS,
            prices: weighed.then_some(&prices),
            energy: None,
        };
        let engine = case.engine(whole(&split.before), &earlier);
        case.test(&engine).ok()
    }

    /// Hours of fourteen days.
    fn hours() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(10i64..900, 14 * 24)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn what_happens_after_the_split_changes_no_choice(
            jobs in drawn(), changes in changes(), values in hours(), other in hours(), weighed in any::<bool>(),
        ) {
            let changed: Vec<i64> = values.iter().take(SPLIT_H).chain(other.iter().skip(SPLIT_H)).copied().collect();
            let (one, two) = (tested(&jobs, &values, weighed), tested(&changed_after_the_split(&jobs, changes), &changed, weighed));
            let (Some(one), Some(two)) = (one, two) else { return Ok(()) };
            for (one, two) in one.rules.iter().zip(&two.rules) {
                if !one.rule.knows() {
                    prop_assert_eq!(&one.setup, &two.setup, "{:?}", one.rule);
                }
            }
            prop_assert_eq!(one.front, two.front);
        }

        #[test]
        fn bounds_hold_and_waits_are_kept(jobs in drawn(), values in hours(), weighed in any::<bool>()) {
            let Some(tested) = tested(&jobs, &values, weighed) else { return Ok(()) };
            let amount = |tested: &TestedDefer| -> i128 {
                tested.jobs.iter().map(|told| told.found.amount * i128::from(told.job.milli_gpus)).sum()
            };
            let of = |rule: DeferRule| tested.rules.iter().find(|tested| tested.rule == rule).unwrap();
            let (oracle, free) = (amount(of(DeferRule::Oracle)), amount(of(DeferRule::FreeOracle)));
            for rule in &tested.rules {
                prop_assert!(rule.jobs.iter().all(|told| (0..=TERMS.most_ms).contains(&told.found.wait_ms)));
                prop_assert!(amount(rule) >= free, "{:?}", rule.rule);
                let pauses = rule.jobs.iter().any(|told| told.found.extra_ms > 0);
                prop_assert!(pauses || rule.rule.pauses() || amount(rule) >= oracle, "{:?}", rule.rule);
                prop_assert_eq!(rule.spent.is_some(), weighed);
            }
            prop_assert!(of(DeferRule::Now).jobs.iter().all(|told| told.found.wait_ms == 0 && told.found.amount == told.now));
            let same = of(DeferRule::SameWait).mean_wait_ms();
            prop_assert!(same <= of(DeferRule::Plan).mean_wait_ms() + 1e-6);
            // The plan stands among them even where another choice beats it: it keeps the mean wait in both halves.
            let plan = of(DeferRule::Plan).setup;
            let beside: Vec<&FrontChoice> = tested.front.iter().filter(|choice| choice.setup != plan).collect();
            let less = |(a, b): (&&FrontChoice, &&FrontChoice)| weighed || b.earlier.amount <= a.earlier.amount;
            prop_assert!(beside.iter().zip(beside.iter().skip(1)).all(less));
            prop_assert!(tested.front.is_sorted_by(|a, b| a.earlier.mean_wait_ms <= b.earlier.mean_wait_ms));
        }
    }
}
