//! The answer of `plan nodes`.
//!
//! O(parts). Worked example: 12 nodes needed, 10 to 14, where there are 9: "Buy 5 nodes".

mod advise;
mod render;
mod row;

pub use render::report;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Zone, to_the_minute};
use tracecast_analytics::watch::Watch;

use super::faults::{FaultLog, FaultsAnswer, FaultsRequest};
use super::forward;
use super::growth::{BreakFactor, DemandTrend, FACTORS};
use super::heldout::{self, NodesBy};
use super::mix::{MixAnswer, NodeKinds};
use super::pooled::pooled;
use super::search::WaitTarget;
use super::tests_kept::TestsKept;
use crate::error::{Error, Result};
use crate::plan::SIZES_UNKNOWN;
use crate::plan::answer::{Advice, Answer, Head, answer};
use crate::plan::checkpoint::CheckpointCosts;
use crate::plan::forecast::Forecasting;
use crate::plan::forecast::runs::{ChosenRuns, replayed};
use crate::plan::trial::Trial;
use crate::plan::verdict::Verdict;
use crate::replay::fidelity::Fidelity;
use crate::replay::growth::{Growth, OverDraws};
use crate::replay::input::Loaded;
use crate::replay::nearest::met;
use crate::sim::{Policy, Scan, Workload};

/// Version of the answer; a change that breaks its readers raises it.
pub const SCHEMA: &str = "plan-nodes/2";

/// Request for a plan of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityRequest {
    /// How long jobs may wait.
    pub target: WaitTarget,
    /// Beginning of the last window that numbers are tested on, milliseconds since the Unix epoch; a quarter of the time before the end, at most two weeks, if `None`.
    pub eval_from_ms: Option<i64>,
    /// Order in which jobs are served.
    pub policy: Policy,
    /// Whether it is known what happens when a job does not fit: it was named, or the record tells.
    pub scan_is_known: bool,
    /// More work, or teams that join.
    pub growth: Option<Growth>,
    /// A log of faults, and what is asked of it.
    pub faults: Option<AskedOfFaults>,
    /// Kinds of nodes that can be had, with prices.
    pub kinds: Option<NodeKinds>,
    /// Predicted runs of the jobs, whose worth is told; `None` where the policy goes by none.
    pub runs: Option<ChosenRuns>,
}

impl CapacityRequest {
    /// Whether nodes are also sized for jobs that pass one that does not fit: a strict order is replayed of which nothing says that there is one.
    fn asks_if_passed(&self) -> bool {
        !self.scan_is_known && self.policy.scan == Scan::Strict
    }
}

/// The answer for jobs of which 95 % are to wait ten minutes at most, where whoever fits starts.
#[cfg(test)]
pub(super) fn of_ten_minutes(loaded: &Loaded) -> CapacityAnswer {
    of_ten_minutes_under(loaded, Scan::Skip)
}

/// An answer on `loaded` with a target of ten minutes, under a scan.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn of_ten_minutes_under(loaded: &Loaded, scan: Scan) -> CapacityAnswer {
    let request = CapacityRequest {
        target: WaitTarget { all_s: 600.0, by_class: BTreeMap::new() },
        eval_from_ms: None,
        policy: Policy { scan, ..Policy::default() },
        scan_is_known: false,
        growth: None,
        faults: None,
        kinds: None,
        runs: None,
    };
    plan(&Trace::default(), loaded, String::new(), &request, &()).unwrap()
}

/// A log of faults, and what is asked of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedOfFaults {
    /// The log.
    pub log: FaultLog,
    /// Share of the time in which spares are to be enough.
    pub availability: f64,
    /// Costs of checkpoints and restarts.
    pub costs: CheckpointCosts,
}

/// More work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownBy {
    /// Factor on today's work.
    pub factor: f64,
    /// Teams that join.
    pub teams: Vec<String>,
    /// Draws.
    pub draws: u64,
    /// GPU time asked for in the draws over that of the record, teams included: users with few weeks get more or less than was asked.
    pub gpu_time_ratio: Option<OverDraws>,
}

impl GrownBy {
    fn new(growth: &Growth, record: &Workload, draws: &[Workload]) -> Self {
        let teams = growth.teams().iter().map(|team| team.name.clone()).collect();
        let gpu_time_ratio = OverDraws::of_gpu_time(record, draws.iter().map(Workload::asked_gpu_s)).ok();
        Self { factor: growth.factor(), teams, draws: growth.draws(), gpu_time_ratio }
    }

    /// A caution that the draws together are not the work that was asked for; none where they are,
    /// or where teams join, whose work is not given as a factor.
    fn caution(&self) -> Option<String> {
        let drawn = self.gpu_time_ratio.filter(|_| self.teams.is_empty())?.mean;
        let is_off = (drawn / self.factor - 1.0).abs() > OFF;
        is_off.then(|| {
            format!(
                "{} have {} times the GPU time on average, where {} was asked for: ask for more of them, with --draws {}",
                format::counted(self.draws, "draw of the work", "draws of the work"),
                format::float(drawn, 3),
                format::float(self.factor, 2),
                (self.draws * 4).max(20)
            )
        })
    }
}

/// Draws whose mean is further off than this from the work that was asked for are too few.
const OFF: f64 = 0.03;

/// Nodes with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeInterval {
    /// Fewest that keep the target; under growth the median over draws.
    pub value: u32,
    /// Fewest that keep it in 2.5 % of resampled days or weeks; under growth in so many of those of all draws together. None with fewer than seven days, or if no number does.
    pub low: Option<u32>,
    /// Fewest that keep it in 97.5 % of them; under growth in so many of those of all draws together. None with fewer than seven days, or if no number does.
    pub high: Option<u32>,
}

/// Why a pool has no needed number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotJudged {
    /// Fewer than 20 jobs.
    TooFewJobs,
    /// No number of nodes keeps the target: its jobs wait for something else, such as quotas or failures.
    NoNumber,
}

/// Jobs that set a needed number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BindingJobs {
    /// Size class of the jobs; all jobs of the pool if none.
    pub class: Option<SizeClass>,
    /// 95 % quantile of their wait with one node fewer than needed, seconds; none if that job could not run.
    pub p95_wait_s: Option<f64>,
}

/// Jobs that are judged, of those that are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JudgedJobs {
    /// Judged: their waits count. Under growth of the first draw, as all here.
    pub judged: u64,
    /// All that are replayed.
    pub all: u64,
    /// Not judged, as they come while the nodes, which are empty when a replay begins, fill up: in the first day, or in the first tenth of the time if that is shorter.
    pub while_filling: u64,
    /// Not judged, as today's nodes could never run them.
    pub impossible: u64,
    /// Not judged, as they ran when the record was taken, or when it began.
    pub unfinished: u64,
}

/// A type of nodes: equal nodes of a VC or of the VCs of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NodesOfType {
    /// Name: its VCs, and its GPUs where a pool has several kinds.
    #[serde(rename = "type")]
    pub name: String,
    /// VCs that queue for it.
    pub vcs: Vec<String>,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// GPU type of the nodes.
    pub gpu_type: Option<String>,
    /// Nodes there are at the end of the data.
    pub now: u32,
    /// Fewest that are needed; none with fewer than 20 jobs, or where no number keeps the target.
    pub needed: Option<NodeInterval>,
    /// Why there is no such number.
    pub not_judged: Option<NotJudged>,
    /// How many to have: of a pool that is not judged, what there is.
    pub recommended: u32,
    /// Note on these numbers.
    pub note: Option<String>,
    /// Jobs it rests on.
    pub jobs: u64,
    /// Whether today's nodes keep the target on the record, grown if that was asked (in every draw).
    pub kept_now: bool,
    /// Draws of the grown work in which today's nodes keep it; none where work does not grow.
    pub kept_draws: Option<u64>,
    /// Size classes whose 95 % wait is beyond the target with today's nodes.
    pub broken_classes: Vec<SizeClass>,
    /// What breaks the target with one node fewer than needed, and so asks for that many. Empty where there is no such number, or a job could not run with fewer.
    pub binding: Vec<BindingJobs>,
    /// Whether fewer than needed kept it, too: waits do not fall with every node.
    pub uneven: bool,
    /// The factor of today's work at which today's nodes break the target.
    pub breaks_at: Option<BreakFactor>,
}

/// Figures of a number of nodes in a window, beside that number.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NodesInWindow {
    /// Judged jobs.
    pub jobs: u64,
    /// Pools that kept the target.
    pub pools_kept: u64,
    /// Pools that are judged.
    pub pools: u64,
    /// 95 % quantile of all waits, seconds; none if that job could not run.
    pub p95_wait_s: Option<f64>,
}

/// Pools in a window that are no tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnjudgedPools {
    /// The window, from here.
    pub from: String,
    /// Pools in which no number of nodes keeps the target there.
    pub pools: Vec<String>,
}

/// The test on later days. Amounts are nodes, mean over windows; a rule keeps the limits if it kept the target in each test, a pool in a window. The simplest rule is mean demand / 80 %.
pub type CapacityTrial = Trial<NodesBy, TestsKept, NodesInWindow>;

/// One pool of all VCs, without shares, tested on later windows: sized on what was known at the beginning of each.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PoolTests {
    /// Windows.
    pub windows: u64,
    /// Windows in which it kept the target.
    pub kept: u64,
    /// Nodes of the pool, mean over windows.
    pub nodes: f64,
    /// The fewest that were enough, mean over windows.
    pub oracle: f64,
    /// Windows in which a VC waited longer than on the nodes that it has.
    pub windows_wronged: u64,
    /// Names of these VCs.
    pub wronged: Vec<String>,
}

/// Waits with some number of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CapacityPoint {
    /// Which number: a share of today's, the needed, the recommended.
    pub what: String,
    /// Nodes in all.
    pub nodes: u64,
    /// Median wait, seconds; none if half of the jobs could not run.
    pub p50_wait_s: Option<f64>,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: Option<f64>,
    /// Share of the GPU time that jobs held.
    pub utilisation: f64,
    /// Waiting jobs, mean over time.
    pub queue_jobs: f64,
    /// Pools that keep the target, of those that are judged; mean over draws.
    pub pools_kept: f64,
}

/// When today's nodes will break the target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UntilBreak {
    /// Growth of demand; none with fewer than four whole weeks.
    pub trend: Option<DemandTrend>,
    /// First pool to break the target, of those that keep it today.
    pub first: Option<String>,
    /// The factor of today's work at which it does.
    pub factor: Option<BreakFactor>,
    /// When that is, by the trend; none without growth beyond chance, or where the target holds to the end of the search for the factor.
    pub on: Option<String>,
    /// The soonest.
    pub soonest: Option<String>,
    /// The latest; none where some draw holds to the end of the search.
    pub latest: Option<String>,
    /// Pools that break it today.
    pub broken_today: Vec<String>,
}

/// Queueing theory beside a replay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TheoryCheck {
    /// The pool.
    pub pool: String,
    /// Nodes.
    pub nodes: u32,
    /// Servers that these are: GPUs over the GPUs of a job, weighted by its run.
    pub servers: u32,
    /// GPUs of a server: what a job holds on average, weighted by its run.
    pub gpus_per_server: f64,
    /// Offered load of the judged time ([`CapacityBody::judged_from`]): GPU time of the jobs submitted in it, each run whole, over that of the nodes in it. Servers are whole, so that theory has no wait
    /// from somewhat less than 1 on.
    pub load: f64,
    /// Share of the jobs that wait longer than the target, by Erlang C with Allen and Cunneen's variability.
    pub theory_longer_share: f64,
    /// Share of the jobs that wait longer than the target in the replay.
    pub replayed_longer_share: f64,
    /// Mean wait by theory, seconds; none where the load is 1 or more.
    pub theory_mean_wait_s: Option<f64>,
    /// Mean wait in the replay, seconds.
    pub replayed_mean_wait_s: Option<f64>,
    /// Whether the two shares differ by more than 2.5 % of the jobs, half of what may wait.
    pub differs: bool,
}

/// Nodes of the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodesInAll {
    /// Today.
    pub now: u64,
    /// Needed, pool by pool, in the pools that are judged.
    pub needed: u64,
    /// Today, in pools that are not judged.
    pub not_judged: u64,
    /// Recommended.
    pub recommended: u64,
    /// By the simple rule, mean demand / 80 %, in the pools that are judged.
    pub simple: u64,
    /// Pools that keep the target with these.
    pub simple_kept: u64,
    /// Pools that are judged.
    pub pools: u64,
    /// Needed in one pool of all VCs, without shares; none with one pool, or under growth. [`CapacityBody::wronged_in_one_pool`] says who would wait longer there.
    pub needed_in_one_pool: Option<u32>,
    /// Nodes in all, needed or as today in pools that are not judged, if jobs may pass one that does not fit (`--scan skip`); none but where a strict order is replayed that nobody named and the record does not tell.
    pub in_all_if_passed: Option<u64>,
}

/// The target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetOfWaits {
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: f64,
    /// Targets of size classes that have their own.
    pub by_class: BTreeMap<String, f64>,
}

/// The answer.
pub type CapacityAnswer = Answer<CapacityTrial, CapacityBody>;

/// Part of the answer that only this plan has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CapacityBody {
    /// Notes on what is taken for granted about the nodes, repeated in the files that are written.
    pub assumed: Vec<String>,
    /// Whether the recorded sizes are of another time than the jobs: how many nodes there are today is then not known, and nothing is advised.
    #[serde(skip)]
    #[schemars(skip)]
    pub sizes_unknown: bool,
    /// The target.
    pub target: TargetOfWaits,
    /// Order in which jobs are served.
    pub policy: String,
    /// What jobs compete for: what is called GPUs here.
    pub resource: Resource,
    /// More work, if that was asked.
    pub growth: Option<GrownBy>,
    /// How near the replay comes to the record.
    pub fidelity: Fidelity,
    /// Nodes by type.
    pub nodes: Vec<NodesOfType>,
    /// Nodes in all.
    pub in_all: NodesInAll,
    /// Jobs that the numbers rest on.
    pub judged: JudgedJobs,
    /// Jobs submitted from here on are judged. In the trace's zone.
    pub judged_from: String,
    /// VCs that would wait longer in one pool, of today's nodes or of those needed in it, than on the nodes that they have, by the rule of `plan queues` on the judged jobs, which refuses such a pool. Empty where it wrongs none, or was not sized.
    pub wronged_in_one_pool: Vec<String>,
    /// One pool of all VCs on later windows; `null` where it was not sized, or no window tests it.
    pub in_one_pool: Option<PoolTests>,
    /// Pools in windows that are no tests.
    pub unjudged: Vec<UnjudgedPools>,
    /// Waits with other numbers of nodes.
    pub curve: Vec<CapacityPoint>,
    /// When today's nodes break the target.
    pub until_break: UntilBreak,
    /// Queueing theory beside the replays.
    pub theory: Vec<TheoryCheck>,
    /// Failures and spares, if a log was given; spares are beside the nodes that are needed.
    pub faults: Option<FaultsAnswer>,
    /// Recommended kinds of nodes, if kinds were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixAnswer>,
    /// Why nothing may be written of it; `None` if it may.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) unproven: Option<String>,
    /// Recommendation, as `emit` writes it.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) sized: Vec<(super::part::Part, u32)>,
}

/// The JSON Schema of [`CapacityAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(CapacityAnswer).to_value()
}

/// The end of the jobs that are planned for, milliseconds from time 0: the last submission and what may come with it.
fn end_of(loaded: &Loaded) -> i64 {
    loaded.workload.submit_ms.last().map_or(0, |last| last + 1)
}

/// How often `watch` is told.
pub fn steps(loaded: &Loaded, request: &CapacityRequest) -> usize {
    let eval_from = request.eval_from_ms.map(|from| from - loaded.workload.origin_ms);
    let pools = loaded.cluster.pools.len();
    let once = heldout::steps(loaded, eval_from, end_of(loaded)) + pools;
    let passed = if request.asks_if_passed() { pools } else { 0 };
    passed + if request.kinds.is_some() { 2 * once } else { once }
}

/// When the first window of the test begins, milliseconds since the Unix epoch: nothing after it may decide what is tested. `eval_from_ms` is that of the request.
///
/// # Errors
/// If that is not within the time of the jobs.
pub fn first_test_ms(loaded: &Loaded, eval_from_ms: Option<i64>) -> Result<i64> {
    let origin_ms = loaded.workload.origin_ms;
    let windows = heldout::windows(end_of(loaded), eval_from_ms.map(|from| from - origin_ms))?;
    Ok(origin_ms + windows.iter().map(|(from, _)| *from).min().unwrap_or(0))
}

/// Plans the nodes of a loaded trace. `watch` is told [`steps`] times, or less often where parts have no nodes.
///
/// # Errors
/// If too few jobs are there to plan on or to test with, or the policy does not go with the workload.
pub fn plan(
    trace: &Trace,
    loaded: &Loaded,
    title: String,
    request: &CapacityRequest,
    watch: &dyn Watch,
) -> Result<CapacityAnswer> {
    request.policy.validate(&loaded.workload)?;
    if let Some(vc) = loaded.cluster.with_cells() {
        return Err(Error::cluster(format!(
            "VC {} is guaranteed cells, which `simulate` alone knows; give it guaranteed_gpus here",
            vc.name
        )));
    }
    let with = (&request.policy, &request.target);
    let end = end_of(loaded);
    let eval_from = request.eval_from_ms.map(|from| from - loaded.workload.origin_ms);
    let windows = heldout::test(loaded, with, (eval_from, end), watch)?;
    if windows.iter().all(|window| window.parts.is_empty()) {
        return Err(Error::no_jobs(
            "in no window has a pool 20 jobs that run with today's nodes before and in it, and a number of nodes that keeps the target: choose another \
             --eval-from, a longer --target-p95, or more days"
                .to_owned(),
        ));
    }
    let growth = request.growth.as_ref();
    let draws = forward::draws(loaded, growth)?;
    let parts = forward::size(loaded, with, (&draws, growth), (&windows, end), watch)?;
    let fidelity = met((&loaded.workload, loaded.nodes_of_record()), &request.policy, &loaded.recorded_start_ms)?;
    let in_all_if_passed = if request.asks_if_passed() {
        let skip = Policy { scan: Scan::Skip, ..request.policy.clone() };
        let passed = forward::size(loaded, (&skip, &request.target), (&draws, growth), (&windows, end), watch)?;
        Some(passed.iter().map(|part| u64::from(part.value())).sum())
    } else {
        None
    };
    let judged = || parts.iter().filter(|part| part.needed.is_some());
    let in_all = NodesInAll {
        now: parts.iter().map(|part| u64::from(part.part.nodes())).sum(),
        needed: parts.iter().filter_map(|part| part.needed).map(|needed| u64::from(needed.value)).sum(),
        not_judged: parts.iter().filter(|part| part.needed.is_none()).map(|part| u64::from(part.part.nodes())).sum(),
        recommended: parts.iter().map(|part| u64::from(part.recommended)).sum(),
        simple: judged().map(|part| u64::from(part.simple.0)).sum(),
        simple_kept: judged().filter(|part| part.simple.1).count() as u64,
        pools: judged().count() as u64,
        needed_in_one_pool: None,
        in_all_if_passed,
    };
    let guess = u32::try_from(in_all.needed).unwrap_or(u32::MAX);
    let pool = match &request.growth {
        None if loaded.cluster.pools.len() > 1 => pooled(loaded, with, end, guess)?,
        _ => None,
    };
    let tested_pool = match &pool {
        Some(_) => row::in_one_pool(&super::pooled::test(loaded, with, (eval_from, end))?),
        None => None,
    };
    let grown = growth.map(|growth| GrownBy::new(growth, &loaded.workload, &draws));
    let zone = Zone::named(&trace.zone)?;
    let origin_ms = loaded.workload.origin_ms;
    let day = |ms: i64| trace.moment(&zone, origin_ms + ms, origin_ms);
    // What the ground lacks comes first: a replay may be far from the record for want of it.
    let mut cautions: Vec<String> =
        loaded.cautions.iter().cloned().chain(fidelity.reservation(&request.policy)).collect();
    cautions.extend(grown.as_ref().and_then(GrownBy::caution));
    let notes = row::notes(loaded, request, &parts, heldout::left_out(end, eval_from));
    let trial = row::trial(&windows, &day)?;
    let mix = match &request.kinds {
        None => None,
        Some(kinds) => {
            let of = (parts.as_slice(), windows.as_slice(), end);
            Some(MixAnswer::new(loaded, kinds, with, &draws, of, (&day, watch))?)
        }
    };
    let mut body = CapacityBody {
        assumed: loaded.assumed.clone(),
        sizes_unknown: loaded.of_another_time.is_some(),
        target: TargetOfWaits {
            p95_wait_s: request.target.all_s,
            by_class: request.target.by_class.iter().map(|(class, s)| (class.id().to_owned(), *s)).collect(),
        },
        policy: request.policy.describe(),
        resource: loaded.resource,
        growth: grown,
        fidelity,
        nodes: parts.iter().flat_map(|part| row::types(part, request.growth.is_some())).collect(),
        in_all: NodesInAll { needed_in_one_pool: pool.as_ref().map(|pool| pool.needed), ..in_all },
        wronged_in_one_pool: pool.map_or_else(Vec::new, |pool| pool.wronged),
        in_one_pool: tested_pool,
        unjudged: row::unjudged(&windows, &day),
        curve: row::curve(&parts),
        until_break: row::until_break(loaded, &parts, end, &day),
        theory: parts.iter().flat_map(row::theory).collect(),
        faults: request.faults.as_ref().map(|asked| {
            let cluster_nodes = u32::try_from(in_all.recommended).unwrap_or(u32::MAX);
            let costs = asked.costs;
            FaultsAnswer::new(&asked.log, FaultsRequest { availability: asked.availability, cluster_nodes, costs })
        }),
        mix,
        judged: row::judged(&parts),
        judged_from: day(heldout::warmed_up(end)),
        unproven: None,
        sized: parts.iter().map(|part| (part.part.clone(), part.recommended)).collect(),
    };
    body.unproven = body.unproven(&parts);
    let sure = body.assured(&trial, &cautions);
    // What the test found stands behind what the ground lacks.
    cautions.extend(body.cautions_of_the_test(&trial));
    let change = body.change(&trial, &parts, sure.clone()).filter(|_| !body.sizes_unknown);
    let verdict = match (&change, body.sizes_unknown) {
        (_, true) => Verdict::SizesUnknown,
        (Some(_), false) => Verdict::Advised,
        (None, false) => Verdict::NothingBetter,
    };
    let advice = change.map_or(Advice::Stay(Some(sure)), |change| Advice::Change(Box::new(change)));
    let action = body.act();
    let forecasting = forecasting(loaded, request)?;
    let head = Head { schema: SCHEMA, title, cautions, notes, forecasting, sources: trace.sources.clone() };
    Ok(answer(head, trial, body, (verdict, action), advice))
}

/// What predicted run times are worth on today's nodes, from the first test on.
fn forecasting(loaded: &Loaded, request: &CapacityRequest) -> Result<Forecasting> {
    let Some(runs) = &request.runs else {
        return Ok(Forecasting::none(
            "nodes are counted in replays of the jobs that came, and the policy goes by no predicted run times",
        ));
    };
    let from_ms = first_test_ms(loaded, request.eval_from_ms)? - loaded.workload.origin_ms;
    let replay = |workload: &Workload| replayed(workload, &loaded.cluster, &request.policy);
    let metric = "mean wait of the later jobs on today's nodes";
    runs.worth(metric, true, (&loaded.workload, from_ms), &replay)
}

impl CapacityBody {
    /// Why nothing may be written that a site applies; `None` if it may.
    pub fn refused(&self) -> Option<String> {
        self.sizes_unknown.then(|| SIZES_UNKNOWN.to_owned()).or_else(|| self.unproven.clone())
    }
}

impl UntilBreak {
    /// Until when today's nodes do.
    pub fn sentence(&self) -> String {
        let soonest = self.soonest.as_deref().map(to_the_minute);
        let Some(trend) = &self.trend else {
            return "The record is too short for a trend of demand (four whole weeks); make the plan again every month.".to_owned();
        };
        let (Some(first), Some(factor), true) = (&self.first, &self.factor, trend.grows()) else {
            return format!(
                "There is no sign of growth: demand changes by {} a week ({} to {}).",
                signed(trend.per_week),
                signed(trend.low),
                signed(trend.high)
            );
        };
        let grows = format!(
            "Demand grows by {} a week ({} to {})",
            signed(trend.per_week),
            signed(trend.low),
            signed(trend.high)
        );
        let not_before = soonest.as_ref().map_or_else(String::new, |soonest| format!("not before {soonest}"));
        if factor.value >= FACTORS.1 {
            let most = format::float(FACTORS.1, 0);
            return format!(
                "{grows}; {first}, the first to break the target, still keeps it at {most} times today's work, where the search ends, so no date is told{}.",
                if not_before.is_empty() { not_before } else { format!(" ({not_before})") }
            );
        }
        let (on, latest) = (self.on.as_deref().map(to_the_minute), self.latest.as_deref().map(to_the_minute));
        let when = match (on, latest) {
            (Some(on), Some(latest)) => {
                format!("about {on} ({} to {latest})", soonest.as_deref().unwrap_or("unknown"))
            }
            (Some(on), None) => format!("about {on} ({not_before}; the latest is not known)"),
            (None, _) => "in more than fifty years".to_owned(),
        };
        format!("{grows}; at {} times today's work {first} breaks the target, {when}.", format::float(factor.value, 2))
    }
}

/// A share with its sign.
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", format::percent(share.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_that_are_not_the_work_asked_for_are_told() {
        let grown = |mean: f64, teams: &[&str]| GrownBy {
            factor: 1.2,
            teams: teams.iter().map(|team| (*team).to_owned()).collect(),
            draws: 5,
            gpu_time_ratio: Some(OverDraws { mean, low: mean, high: mean, least: mean, greatest: mean }),
        };
        let told = grown(1.131, &[]).caution().unwrap_or_default();
        assert_eq!(
            told,
            "5 draws of the work have 1.131 times the GPU time on average, where 1.20 was asked for: ask for more of them, with --draws 20"
        );
        assert_eq!((grown(1.19, &[]).caution(), grown(2.0, &["robotics"]).caution()), (None, None));
    }
}
