//! The answer of `plan rent burst`.
//!
//! The later weeks say whether nodes and a waiting policy that were chosen so are worth having; those to come are then chosen anew on all weeks, back from the end of the record. Money is told by the month, of
//! 730.5 hours.
//!
//! O(rows) beside the searches. Worked example: a plan that cost 700 a month on later weeks where all on demand cost 1,000 saves 30 %.

mod advise;
mod forward;
mod render;
mod tested;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::{JobFacts, SizeClass};
use tracecast_analytics::report::format;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::Trace;

use super::heldout::{BurstCase, BurstRule, BurstTerms, TestedBurst, planned_unwaited, supplies};
use super::part::{BurstSetup, GUARD_MS, WaitedJob};
use super::policy::{RunsFrom, WaitingFamily, WaitingPolicy};
use crate::error::Result;
use crate::market::demand::{DemandTimes, Flexible, PoolJobs};
use crate::market::offers::Offers;
use crate::market::predicted::{PredictedRows, within_twice};
use crate::market::purchase::BoughtAs;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::forecast::runs::RunForecast;
use crate::plan::money::MONTH_H;
use crate::plan::trial::Trial;
use crate::plan::verdict::{Verdict, is_simpler_next, judge};
use crate::plan::waits::WaitSummary;
use crate::plan::weeks::WeekSplit;
use crate::replay::compare::IntervalEstimate;

pub use render::report;

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-rent-burst/2";

/// Request for a burst plan.
#[derive(Debug, Clone)]
pub struct BurstRequest {
    /// Beginning of the windows that the plan is priced on; a third of the record, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Target, limits and nodes.
    pub terms: BurstTerms,
    /// Predicted runs of jobs; for jobs without, the mean of the last two runs alike.
    pub runs: RunForecast,
}

/// A waiting policy, and where it knows runs from.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToldPolicy {
    /// Kind of policy.
    pub family: WaitingFamily,
    /// Source of the runs that the policy knows; none where it looks at none.
    pub runs: Option<RunsFrom>,
    /// Run from which on, or below which, jobs wait, seconds.
    pub run_s: Option<f64>,
    /// GPUs from which on, or up to which, jobs wait.
    pub gpus: Option<u32>,
    /// Foreseen wait up to which jobs wait, seconds.
    pub foreseen_s: Option<f64>,
    /// The longest wait, after which a job goes to the cloud, seconds; none without limit.
    pub most_s: Option<f64>,
    /// The policy in words.
    pub what: String,
}

impl ToldPolicy {
    fn new(setup: &BurstSetup, most_ms: i64) -> Self {
        let s = |ms: i64| Some(ms as f64 / 1e3);
        let policy = setup.policy;
        let family = policy.family();
        let mut told = Self {
            family,
            runs: family.needs_runs().then_some(setup.runs),
            run_s: None,
            gpus: None,
            foreseen_s: None,
            most_s: s(most_ms),
            what: policy.in_words(setup.runs, most_ms),
        };
        match policy {
            WaitingPolicy::Nobody => told.most_s = Some(0.0),
            WaitingPolicy::Everybody => told.most_s = None,
            WaitingPolicy::UpTo(ms) => told.most_s = s(ms),
            WaitingPolicy::Wide(gpus) | WaitingPolicy::Narrow(gpus) => told.gpus = Some(gpus),
            WaitingPolicy::Long(ms) | WaitingPolicy::Short(ms) => told.run_s = s(ms),
            WaitingPolicy::ShortWaits(ms) => told.foreseen_s = s(ms),
            WaitingPolicy::LongOrShortWaits(run, foreseen) => (told.run_s, told.foreseen_s) = (s(run), s(foreseen)),
        }
        told
    }
}

/// How long jobs waited, and how many ran in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BurstWaits {
    /// Waits of the jobs.
    #[serde(flatten)]
    pub all: WaitSummary,
    /// Share of them that ran in the cloud.
    pub cloud: f64,
}

impl BurstWaits {
    fn new(jobs: &[WaitedJob]) -> Self {
        let waits: Vec<i64> = jobs.iter().map(|job| job.wait_ms).collect();
        let cloud = jobs.iter().filter(|job| job.cloud).count() as f64 / jobs.len().max(1) as f64;
        Self { all: WaitSummary::new(&waits), cloud }
    }
}

/// Choice of a rule for a GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstChoice {
    /// GPU type.
    pub gpu: String,
    /// Nodes of the pool.
    pub nodes: u32,
    /// Policy that says who waits.
    pub policy: ToldPolicy,
}

/// Figures of a rule over all windows, beside its cost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstFigures {
    /// Choices, by GPU type.
    pub chosen: Vec<BurstChoice>,
    /// GPUs of the pool.
    pub own_gpus: f64,
    /// Share of these that was in use; none without any.
    pub own_used: Option<f64>,
    /// Share of the GPU-hours that ran in the cloud.
    pub cloud_share: f64,
    /// Waits of the later jobs.
    pub waits: BurstWaits,
    /// The wait that 95 % of them did not exceed, in each GPU type and each of its size classes with at least 20 jobs, seconds.
    pub p95_of_sizes_s: f64,
}

/// Figures of a rule in a window, beside its cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BurstInWindow {
    /// Mean wait of the jobs submitted in it, seconds.
    pub mean_wait_s: f64,
}

/// The later jobs of a size, under the plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstSize {
    /// Size of the jobs.
    pub size: SizeClass,
    /// Waits of the jobs.
    pub waits: BurstWaits,
}

/// The pool to come of a GPU type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstPoolPlan {
    /// GPU type.
    pub gpu: String,
    /// The node, as the offers file calls it.
    pub offer: String,
    /// Reserved or bought.
    pub how: BoughtAs,
    /// Months of the commitment.
    pub months: Option<f64>,
    /// Nodes.
    pub nodes: u32,
    /// Fewest and most nodes that keep the target under the same policy and cost at most 3 % more on all weeks of the record, as far as bisection finds them.
    pub nodes_alike: (u32, u32),
    /// Price of the nodes if bought; none where they are reserved.
    pub purchase: Option<f64>,
    /// Years over which that is spread.
    pub years: Option<f64>,
    /// GPUs of a node.
    pub gpus_per_node: f64,
    /// An hour of a GPU of the pool.
    pub own_per_gpu_h: f64,
    /// An hour of a GPU on demand, the cheapest.
    pub on_demand_per_gpu_h: f64,
    /// Policy that says who waits.
    pub policy: ToldPolicy,
    /// Cost of the pool a month.
    pub own_per_month: f64,
    /// Cost of the cloud a month.
    pub cloud_per_month: f64,
    /// What is put off beyond the end of the record costs a month of it, less what is put off into it.
    pub put_off_per_month: f64,
    /// Cost of the baseline a month: all on demand, or, where the nodes are given, nobody waiting.
    pub baseline_per_month: f64,
    /// Share of the pool in use; none without any.
    pub own_used: Option<f64>,
    /// Share of the GPU-hours that run in the cloud.
    pub cloud_share: f64,
    /// Waits.
    pub waits: BurstWaits,
}

/// Cost of another target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstTarget {
    /// The wait that 95 % of the jobs, and of those of each size class, are not to exceed, seconds.
    pub target_s: f64,
    /// Choices, by GPU type.
    pub chosen: Vec<BurstChoice>,
    /// GPUs of the pool.
    pub own_gpus: f64,
    /// Cost a month.
    pub cost_per_month: f64,
}

/// The test on later windows. The limit that rules keep is the target.
pub type BurstTrial = Trial<BurstRule, BurstFigures, BurstInWindow>;

/// The answer.
pub type BurstAnswer = Answer<BurstTrial, BurstBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BurstBody {
    /// Currency of all money.
    pub currency: String,
    /// The offers file.
    pub offers: String,
    /// Months that are planned for.
    pub horizon_months: f64,
    /// The wait that 95 % of the jobs, and of those of each size class, are not to exceed, seconds.
    pub target_p95_s: f64,
    /// The longest wait, seconds.
    pub most_wait_s: f64,
    /// Nodes that there are; none where their number was chosen.
    pub nodes_given: Option<u32>,
    /// Mean wait of the later jobs under the plan, seconds.
    pub mean_wait_s: IntervalEstimate,
    /// Later jobs by size, under the plan.
    pub sizes: Vec<BurstSize>,
    /// Share of the later jobs that ran no more than twice and no less than half as long as predicted.
    pub predicted_within_twice: f64,
    /// The pools to come.
    pub pools: Vec<BurstPoolPlan>,
    /// Cost of the nodes and the cloud a month, on all weeks of the record.
    pub cost_per_month: IntervalEstimate,
    /// Cost of the baseline a month on the same weeks.
    pub baseline_per_month: IntervalEstimate,
    /// Costs of other targets.
    pub targets: Vec<BurstTarget>,
    /// Costs over numbers of nodes, pool by pool.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) curves: Vec<CostCurve>,
}

/// What a month costs over the GPUs of the pool, policy by policy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CostCurve {
    pub(super) gpu: String,
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
    pub(super) chosen: f64,
}

/// The JSON Schema of [`BurstAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(BurstAnswer).to_value()
}

/// Plans for the jobs of a trace. Where waiting fails on the later weeks, or what it adds may be chance, nodes for nobody waiting are planned instead if these are advised.
///
/// # Errors
/// If GPU types are not offered, nothing can be owned of one, there are no GPU jobs, predictions are of other jobs, or there are too few days to choose on or to price on.
pub fn plan(trace: &Trace, offers: &Offers, title: &str, request: &BurstRequest) -> Result<BurstAnswer> {
    let facts = JobFacts::new(trace);
    let jobs = PoolJobs::new(&facts, offers, DemandTimes::Unwaited, &Flexible::Nobody)?;
    let span = jobs.span()?;
    let split = WeekSplit::new(span, request.eval_from_ms)?;
    let terms = &request.terms;
    let supplies = supplies(&jobs, offers, terms)?;
    let all = jobs.unwaited(i64::MAX);
    let predicted = PredictedRows::new(&facts, &all, &request.runs)?;
    let months = split.hours_after() as f64 / MONTH_H;
    let unit = format!("{} a month", offers.currency);
    let outcome =
        |predicted_s: &[f64]| BurstCase { jobs: &jobs, offers, predicted_s, terms }.planned(&supplies, &split);
    let (used, driven) = predicted.choose(&outcome)?;
    let predicted_s = predicted.by(used);
    let case = BurstCase { jobs: &jobs, offers, predicted_s, terms };
    let tested = case.test(&supplies, &split)?;
    let zone = Zone::named(&trace.zone)?;
    let day = |ms: i64| trace.moment(&zone, ms, span.0);
    let gpu = |pool: usize| offers.pools.get(pool).map_or_else(String::new, |pool| pool.gpu.clone());
    let gpus: Vec<(String, f64)> = supplies.iter().map(|supply| (gpu(supply.pool), supply.own.gpus)).collect();
    let teller = Teller { gpus: &gpus, most_ms: terms.most_ms };
    let near = within_twice(&all, predicted_s, split.split_ms());
    let planned = |terms: &BurstTerms, tested: &[TestedBurst]| -> Result<(BurstTrial, BurstBody)> {
        let trial = tested::trial(tested, &split, terms, &teller, &offers.currency, &day)?;
        let forward = forward::plan(&BurstCase { terms, ..case }, &supplies, &split, &teller)?;
        let (mean_wait_s, sizes) = tested::waits(tested);
        let body = BurstBody {
            currency: offers.currency.clone(),
            offers: offers.file.clone(),
            horizon_months: terms.horizon_months,
            target_p95_s: terms.target_s,
            most_wait_s: terms.most_ms as f64 / 1e3,
            nodes_given: terms.nodes,
            mean_wait_s,
            sizes,
            predicted_within_twice: near,
            pools: forward.pools,
            cost_per_month: forward.cost_per_month,
            baseline_per_month: forward.baseline_per_month,
            targets: forward.targets,
            curves: forward.curves,
        };
        Ok((trial, body))
    };
    let (mut trial, mut body) = planned(terms, &tested)?;
    let mut verdict = judge(&trial, &body.judged());
    let mut turned_to = None;
    if is_simpler_next(&trial, &body.judged(), verdict) && terms.nodes.is_none() && !terms.nobody_waits {
        let unwaited = planned(&BurstTerms { nobody_waits: true, ..*terms }, &planned_unwaited(tested))?;
        if judge(&unwaited.0, &unwaited.1.judged()) == Verdict::Advised {
            turned_to = Some(advise::waiting_failed(&trial, &body, verdict));
            ((trial, body), verdict) = (unwaited, Verdict::Advised);
        }
    }
    let unused = (!body.goes_by_runs()).then_some("who waits is chosen by no run times");
    let head = Head {
        schema: SCHEMA,
        title: title.to_owned(),
        cautions: offers.oddities().into_iter().map(|odd| format!("A price is odd. {odd}")).collect(),
        notes: offers
            .notes_in_words()
            .chain(notes(&jobs, span, &split, request, predicted.in_words(used), &day))
            .chain(turned_to)
            .collect(),
        forecasting: predicted.forecast.worth(("cost of the later windows", &unit, months), &driven, used, unused),
        sources: trace.sources.clone(),
    };
    let action = advise::act(&trial, &body, verdict);
    let advice = Advice::new(&trial, verdict, || advise::change(&trial, &body));
    Ok(answer(head, trial, body, (verdict, action), advice))
}

impl BurstBody {
    /// Whether who waits in one of the pools depends on predicted runs.
    fn goes_by_runs(&self) -> bool {
        self.pools.iter().any(|pool| pool.policy.family.needs_runs())
    }
}

/// Tells what was chosen: GPU types with the GPUs of a node.
struct Teller<'a> {
    gpus: &'a [(String, f64)],
    most_ms: i64,
}

impl Teller<'_> {
    fn chosen(&self, setups: &[BurstSetup]) -> Vec<BurstChoice> {
        let one = |((gpu, _), setup): (&(String, f64), &BurstSetup)| BurstChoice {
            gpu: gpu.clone(),
            nodes: setup.nodes,
            policy: ToldPolicy::new(setup, self.most_ms),
        };
        self.gpus.iter().zip(setups).map(one).collect()
    }

    fn own_gpus(&self, setups: &[BurstSetup]) -> f64 {
        self.gpus.iter().zip(setups).map(|((_, gpus), setup)| gpus * f64::from(setup.nodes)).sum()
    }
}

/// Assumptions, in words.
fn notes(
    jobs: &PoolJobs<'_>,
    span: (i64, i64),
    split: &WeekSplit,
    request: &BurstRequest,
    predicted: String,
    day: &dyn Fn(i64) -> String,
) -> Vec<String> {
    let mut notes = vec![
        "Each job runs for as long as it ran, in the pool or in the cloud, and needs all its GPUs at once; the pool is a number of GPUs without nodes or places.".to_owned(),
        format!(
            "Jobs that wait are started in order of submission, the first that fits first; nobody passes a job that has waited for {}.",
            format::duration(GUARD_MS as f64 / 1e3)
        ),
        "The cloud has room for all, starts at once, and is paid by the hour, for the whole instances that cover the most GPUs in use in it for the least money; data and its transfer cost nothing.".to_owned(),
        predicted,
    ];
    notes.extend(split.left_over(span.0, day, "replayed, and neither chosen on nor priced"));
    notes.extend(jobs.notes());
    if let Some(nodes) = request.terms.nodes {
        notes.push(format!(
            "The pool has {} (--nodes); only who waits is chosen, and savings are told against nobody waiting.",
            format::counted(u64::from(nodes), "node", "nodes")
        ));
    }
    notes
}
