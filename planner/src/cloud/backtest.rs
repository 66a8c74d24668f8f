//! Every policy over many start times of every trace: `plan rent job --test`.
//!
//! The starts of a trace are [spread evenly](crate::plan::window::spread) over it, the first at its first tick and the last so that the loosest deadline
//! ends with it; all deadlines are tried from the same starts. A start is decided with the ticks before it (the first with the prior of the
//! [phases](tracecast_predictors::spot::phases) alone) and what its job has seen since. A cost is a share of that of all on-demand. **Over the omniscient** is the mean, over
//! the starts, of the cost above the optimum as a share of that. **Chosen** is the policy that costs least, without a miss, over the earlier half of the starts
//! of each trace; its figures on the later half stand apart.
//!
//! O(traces × starts × slacks). Worked example: two starts that cost 0.6 and 0.5 where the optimum costs 0.5 and 0.5 cost 0.55 on average, 10 % over the
//! omniscient.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::watch::Watch;

use super::attempt::{Attempt, Told, attempt};
use super::job::JobRun;
use super::policy::{CloudPolicy, Lessons};
use super::request::{CloudRequest, check_need, longest, too_short};
use super::uncertain::UncertainWork;
use crate::cloud::zones::attempt_zones;
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::interval::{average, drawn};
use crate::plan::window::{Window, spread};
use crate::replay::compare::IntervalEstimate;

/// Name of the traces of one job in the cells.
pub const TOGETHER: &str = "together";

/// A trace, a slack and a policy; where the zones are those of one job, all traces are one, called [`TOGETHER`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudCell {
    /// Name of the trace.
    pub trace: String,
    /// Work over time to the deadline.
    pub slack: f64,
    /// Policy of the cell.
    pub policy: CloudPolicy,
    /// Starts tried.
    pub starts: usize,
    /// Deadlines missed.
    pub misses: usize,
    /// Mean cost, as a share of all on-demand.
    pub cost_ratio_mean: f64,
    /// Mean cost above the omniscient optimum, as a share of that.
    pub over_omniscient_mean: f64,
    /// Mean cost above the omniscient optimum over the later half of the starts, as a share of it;
    /// `None` where there is one start.
    pub later_over_omniscient_mean: Option<f64>,
    /// Mean share of the instance time that was on spot; unknown of the optimum.
    pub spot_share_mean: Option<f64>,
    /// Mean hours on-demand, those of all instances of an elastic job together; unknown of the optimum.
    pub on_demand_h_mean: Option<f64>,
    /// Mean number of instances begun, each of which costs a changeover; unknown of the optimum.
    pub changeovers_mean: Option<f64>,
    /// Mean number of spot instances lost; unknown of the optimum.
    pub lost_mean: Option<f64>,
    /// Mean number of tries to begin on spot that found none, where zones are probed; unknown of the optimum, and nothing where they are seen at every tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_tries_mean: Option<f64>,
    /// Mean number of zones that probes asked, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_mean: Option<f64>,
}

/// A policy over all traces, at one slack.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BySlack {
    /// Work over time to the deadline.
    pub slack: f64,
    /// Mean cost, as a share of all on-demand.
    pub cost_ratio_mean: f64,
    /// Mean cost as a share of all on-demand, with a 95 % interval by resampling starts.
    pub cost_ratio: IntervalEstimate,
    /// Mean cost above the omniscient optimum, as a share of that.
    pub over_omniscient_mean: f64,
    /// Mean cost over the mean cost of the optimum, less 1.
    pub over_omniscient_of_means: f64,
    /// Deadlines missed.
    pub misses: usize,
}

/// A policy over all traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PolicyTally {
    /// Name of the policy.
    pub name: CloudPolicy,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Slack by slack.
    pub by_slack: Vec<BySlack>,
    /// Mean cost over the earlier half of the starts, as a share of all on-demand: what the choice rests on.
    pub earlier_cost_ratio: f64,
    /// Mean cost over the later half of the starts, as a share of all on-demand.
    pub later_cost_ratio: f64,
}

/// Where the starts of a trace are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriedTrace {
    /// Name of the trace.
    pub trace: String,
    /// Zone, if known.
    pub zone: Option<String>,
    /// Length of a tick, seconds.
    pub tick_s: f64,
    /// Ticks.
    pub ticks: usize,
    /// Share of the ticks with enough instances.
    pub up_share: f64,
    /// Mean share of the instances that could be had; those beyond what the job takes count for nothing.
    pub had_share: f64,
    /// Dollars an hour of on-demand, where prices are known.
    pub on_demand_usd_per_h: Option<f64>,
    /// Starts, seconds after the first tick; each is decided with what came before it.
    pub starts_s: Vec<f64>,
}

/// Findings of a back-test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudBacktest {
    /// Traces and their starts.
    pub traces: Vec<TriedTrace>,
    /// Trace by trace, slack by slack, policy by policy.
    pub cells: Vec<CloudCell>,
    /// Over all traces.
    pub policies: Vec<PolicyTally>,
    /// The policy that costs least, without a miss, over the earlier starts.
    pub chosen: CloudPolicy,
    /// What it is worth to plan on the distribution of the work; nothing where that is known.
    pub uncertain: Option<UncertainWork>,
}

/// A start of a trace.
struct Task {
    /// Position of the trace.
    at: usize,
    window: Window,
    /// Whether it is in the earlier half of the starts of its trace.
    earlier: bool,
}

/// Tries every policy on every start of every trace. `watch` is told after each start.
///
/// # Errors
/// If what is asked makes no sense, a trace is too short for the loosest deadline, or an optimum cannot be computed.
pub fn backtest(series: &[SpotSeries], request: &CloudRequest, watch: &dyn Watch) -> Result<CloudBacktest> {
    let jobs = request.jobs()?;
    check_need(series, request.need)?;
    let market = request.market(series)?;
    let together = market.is_some();
    let probed = market.as_ref().is_some_and(|market| market.probes.is_some());
    let (policies, choices) = request.policies();
    let tried_on = request.tried_on(series);
    let mut tasks: Vec<Task> = Vec::new();
    for (at, zone) in tried_on.iter().enumerate() {
        let (ticks, needed) = (zone.counts.len(), longest(zone, &jobs));
        let windows = spread(&(0..ticks), needed, request.starts);
        if windows.is_empty() {
            return Err(too_short(zone, ticks, needed, 1));
        }
        let half = windows.len().div_ceil(2);
        tasks.extend(windows.into_iter().enumerate().map(|(start, window)| Task { at, window, earlier: start < half }));
    }
    let told = Told::of(request.uncertain.as_ref());
    let lessons: Vec<Lessons> =
        series.iter().map(|zone| Lessons::new(zone.supply(request.need, request.elastic), zone.tick_ms)).collect();
    let tried: Result<Vec<Vec<Attempt>>> = tasks
        .par_iter()
        .map(|task| {
            let result = match (&market, series.get(task.at), lessons.get(task.at)) {
                (Some(market), ..) => attempt_zones(market, task.window.ahead.start, &jobs, request.uncertain.as_ref()),
                (None, Some(zone), Some(lessons)) => {
                    let price = zone.price.as_ref();
                    attempt(&CloudPolicy::ALL, lessons, price, &task.window, &jobs, told)
                }
                _ => Ok(Vec::new()),
            };
            watch.made();
            result
        })
        .collect();
    let tried: Vec<(&Task, Vec<Attempt>)> = tasks.iter().zip(tried?).collect();
    let mut result = CloudBacktest {
        traces: Vec::new(),
        cells: Vec::new(),
        policies: Vec::new(),
        chosen: CloudPolicy::OnDemand,
        uncertain: None,
    };
    for (at, zone) in series.iter().enumerate() {
        let up = zone.up(request.need);
        let had: f64 = zone.supply(request.need, true).up.iter().map(|had| f64::from(*had)).sum();
        let of = || tried.iter().filter(move |(task, _)| together || task.at == at);
        result.traces.push(TriedTrace {
            trace: zone.name.clone(),
            zone: zone.zone.clone(),
            tick_s: zone.tick_ms as f64 / 1e3,
            ticks: up.len(),
            up_share: up.iter().filter(|up| **up).count() as f64 / up.len().max(1) as f64,
            had_share: had / (up.len().max(1) as f64 * f64::from(request.need)),
            on_demand_usd_per_h: zone.price.as_ref().and_then(|price| price.on_demand_or(request.price_ratio)),
            starts_s: of().map(|(task, _)| task.window.ahead.start as f64 * zone.tick_ms as f64 / 1e3).collect(),
        });
    }
    for (at, zone) in tried_on.iter().enumerate() {
        let of = || tried.iter().filter(move |(task, _)| task.at == at);
        let name = if together { TOGETHER } else { zone.name.as_str() };
        for (place, slack) in request.slacks.iter().enumerate() {
            for policy in policies.iter().copied() {
                let attempts = || of().filter_map(move |(_, attempts)| attempts.get(place));
                let of_run = |figure: &dyn Fn(JobRun) -> f64| {
                    policy.causal().then(|| average(attempts().map(|attempt| figure(attempt.run(policy)))))
                };
                let later: Vec<f64> = of()
                    .filter(|(task, _)| !task.earlier)
                    .filter_map(|(_, attempts)| Some(attempts.get(place)?.over_omniscient(policy)))
                    .collect();
                let spot = |attempt: &Attempt| {
                    let run = attempt.run(policy);
                    run.spot_ms as f64 / (run.spot_ms + run.on_demand_ms).max(1) as f64
                };
                result.cells.push(CloudCell {
                    trace: name.to_owned(),
                    slack: *slack,
                    policy,
                    starts: attempts().count(),
                    misses: attempts().filter(|attempt| attempt.run(policy).missed).count(),
                    cost_ratio_mean: average(attempts().map(|attempt| attempt.share(policy))),
                    over_omniscient_mean: average(attempts().map(|attempt| attempt.over_omniscient(policy))),
                    later_over_omniscient_mean: (!later.is_empty()).then(|| average(later.into_iter())),
                    spot_share_mean: policy.causal().then(|| average(attempts().map(spot))),
                    on_demand_h_mean: of_run(&|run| run.on_demand_ms as f64 / 3.6e6),
                    changeovers_mean: of_run(&|run| run.changeovers as f64),
                    lost_mean: of_run(&|run| run.lost as f64),
                    failed_tries_mean: of_run(&|run| run.failed as f64).filter(|_| probed),
                    asked_mean: of_run(&|run| run.asked as f64).filter(|_| probed),
                });
            }
        }
    }
    for policy in policies.iter().copied() {
        let part = |earlier: bool| {
            let of = tried.iter().filter(|(task, _)| task.earlier == earlier);
            average(of.flat_map(|(_, attempts)| attempts.iter().map(|attempt| attempt.share(policy))))
        };
        let by_slack = request.slacks.iter().enumerate().map(|(place, slack)| {
            let attempts: Vec<&Attempt> = tried.iter().filter_map(|(_, attempts)| attempts.get(place)).collect();
            let shares: Vec<[f64; 2]> = attempts
                .iter()
                .map(|attempt| [attempt.share(policy), attempt.share(CloudPolicy::Omniscient)])
                .collect();
            let [cost_ratio] = drawn(shares.len(), &|held| {
                [average(held.filter_map(|start| shares.get(start)).map(|[cost, _]| *cost))]
            });
            let least = average(shares.iter().map(|[_, least]| *least));
            BySlack {
                slack: *slack,
                cost_ratio_mean: cost_ratio.value,
                cost_ratio,
                over_omniscient_mean: average(attempts.iter().map(|attempt| attempt.over_omniscient(policy))),
                over_omniscient_of_means: cost_ratio.value / least - 1.0,
                misses: attempts.iter().filter(|attempt| attempt.run(policy).missed).count(),
            }
        });
        result.policies.push(PolicyTally {
            name: policy,
            causal: policy.causal(),
            by_slack: by_slack.collect(),
            earlier_cost_ratio: part(true),
            later_cost_ratio: part(false),
        });
    }
    let missed = |policy: CloudPolicy| {
        let earlier = tried.iter().filter(|(task, _)| task.earlier);
        earlier.flat_map(|(_, attempts)| attempts).any(|attempt| attempt.run(policy).missed)
    };
    let cost = |policy: CloudPolicy| {
        result
            .policies
            .iter()
            .find(|tally| tally.name == policy)
            .map_or(f64::INFINITY, |tally| tally.earlier_cost_ratio)
    };
    let candidates = choices.iter().copied().filter(|policy| !missed(*policy));
    result.chosen = candidates.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(CloudPolicy::OnDemand);
    result.uncertain = if together {
        let attempts: Vec<&[Attempt]> = tried.iter().map(|(_, attempts)| attempts.as_slice()).collect();
        UncertainWork::over_zones(&attempts, &jobs, request, result.chosen)
    } else {
        let on = tasks.iter().filter_map(|task| Some((*tried_on.get(task.at)?, lessons.get(task.at)?, &task.window)));
        UncertainWork::of(&on.collect::<Vec<_>>(), &jobs, request, result.chosen)?
    };
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    /// Spot is never there: every policy waits as long as it may, or not, and pays on-demand for all of it. Spot is always there: all but on-demand cost a
    /// third.
    #[test]
    fn no_spot_and_nothing_but_spot() {
        let zone = |name: &str, count: f64| SpotSeries::of_counts(name, 3_600_000, vec![count; 30]);
        let request = CloudRequest {
            work_ms: 10 * 3_600_000,
            slacks: vec![0.5, 0.8],
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 3,
            need: 2,
            ..CloudRequest::default()
        };
        let result = backtest(&[zone("none", 1.0), zone("all", 2.0)], &request, &()).unwrap();
        assert_eq!(result.traces[0].starts_s, [0.0, 18_000.0, 36_000.0]);
        assert_eq!((result.traces[0].up_share, result.traces[1].up_share), (0.0, 1.0));
        assert_eq!(result.cells.len(), 2 * 2 * 7);
        for cell in &result.cells {
            let spot = cell.trace == "all" && cell.policy != CloudPolicy::OnDemand;
            assert!((cell.cost_ratio_mean - if spot { 1.0 / 3.0 } else { 1.0 }).abs() < 1e-12, "{cell:?}");
            assert_eq!((cell.starts, cell.misses), (3, 0));
        }
        assert_eq!(result.chosen, CloudPolicy::SemiMarkov);
        let few = backtest(&[zone("none", 1.0)], &request, &()).unwrap_err().to_string();
        assert!(few.contains("never more than 1 instances, and --need is 2"), "{few}");
        let short = CloudRequest { work_ms: 16 * 3_600_000, need: 1, ..request };
        let said = backtest(&[zone("none", 1.0)], &short, &()).unwrap_err().to_string();
        assert!(said.contains("30.0 h long") && said.contains("32.0 h"), "{said}");
    }
}
