//! Several policies on the same jobs, and perhaps on other nodes: which to run, and everything that is said about them.
//!
//! The first scenario is the one asked for. Beside QSSF always stand the fewest GPUs first and QSSF on true durations. Scenarios run in
//! parallel, each on one thread, and come back in order, so the answer does not depend on the number of threads. Jobs are compared one by one, so a
//! cluster of a scenario must take the very jobs that the study's own does.
//!
//! Worked example: `--order qssf --predictions est.csv` runs three scenarios, and a fourth, FIFO, where the trace has recorded
//! starts to compare it with.

use std::borrow::Cow;
use std::time::Instant;

use rayon::prelude::*;

use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::SECOND_MS;
use tracecast_analytics::watch::Watch;

use super::answer::{Answer, KnownByRun, Replay, SCHEMA, Subject, Yardstick};
use super::compare::{self, TieBand, TieBreak, permute_ties};
use super::fidelity::{Fidelity, Verdict};
use super::growth::{self, Growth, GrowthAnswer};
use super::input::Loaded;
use super::metric::{Evaluation, evaluate, rejection};
use super::nearest::with_nearest;
use super::shard;
use crate::error::{Error, Result};
use tracecast_sim;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::policy::{Compat, Estimate, Order, Policy, Preemption, Scan};
use tracecast_sim::schedule::Schedule;
use tracecast_sim::topology::Topology;

/// Users listed by name.
const TOP_USERS: usize = 10;
/// Seed of the bootstrap and of the orders within a second.
const SEED: u64 = 1;
/// Shuffled orders within a second, beside the recorded and the reversed one.
const SHUFFLES: u64 = 3;
/// Why more work is not replayed on several clusters.
pub const ONE_CLUSTER: &str = "--scale and --add replay all scenarios on one cluster; leave the clusters of scenarios out, or name one with --site";
/// Names of the rows beside QSSF.
const FEWEST: &str = "fewest GPUs first";
const ORACLE: &str = "QSSF (oracle)";

/// A policy with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Name of the scenario.
    pub name: String,
    /// The policy.
    pub policy: Policy,
    /// Nodes, an index into [`Study::clusters`]; `None` if they are those of the study.
    pub cluster: Option<usize>,
}

/// The jobs on other nodes, or under other quotas or limits, than those of a study.
#[derive(Debug, Clone)]
pub struct OtherCluster {
    /// Name of the cluster, such as "on the nodes of more.toml".
    pub name: String,
    /// The jobs of the study, and these nodes.
    pub loaded: Loaded,
}

impl OtherCluster {
    /// Nodes that a study `of` these jobs can be held against; predictions and scores are those of the study.
    ///
    /// # Errors
    /// If they do not take the same jobs.
    pub fn new(name: String, mut loaded: Loaded, of: &Loaded) -> Result<Self> {
        if loaded.keys != of.keys || loaded.resource != of.resource {
            let (here, there) = (loaded.keys.len(), of.keys.len());
            return Err(Error::cluster(format!(
                "{name} takes {here} of the jobs and the cluster of the other scenarios {there}, and not the same ones; name in it every VC and GPU type that the other \
                 cluster has"
            )));
        }
        loaded.workload.predicted_s.clone_from(&of.workload.predicted_s);
        loaded.workload.score.clone_from(&of.workload.score);
        Ok(Self { name, loaded })
    }
}

impl Named {
    /// Adapts the policy to jobs that compete for `resource`, unless the placement was asked for.
    #[must_use]
    pub fn on(self, resource: Resource, placed: bool) -> Self {
        let policy = if placed { self.policy } else { self.policy.on(resource) };
        Self { policy, ..self }
    }
}

/// A scenario that was replayed.
#[derive(Debug, Clone)]
pub struct ReplayedScenario {
    evaluation: Evaluation,
    /// Schedule; only of the first scenario, and of the one that the cluster had, as a year of jobs
    /// under hundreds of policies does not fit into memory.
    pub schedule: Option<Schedule>,
}

/// Scenarios to run on a loaded workload.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// Jobs and nodes.
    pub loaded: &'a Loaded,
    /// The scenarios, the one asked for (or compared with) first.
    pub scenarios: Vec<Named>,
    /// The policy that the cluster had, to check the replay with.
    pub recorded: Policy,
    /// Whether the recorded policy was named. If not, it is FIFO with the scan of the first
    /// scenario, where that repeats the record and `recorded` does not.
    pub recorded_is_named: bool,
    /// Whether several scenarios were requested, to be compared.
    pub compares: bool,
    /// Nodes that scenarios have of their own.
    pub clusters: Vec<OtherCluster>,
}

impl<'a> Study<'a> {
    /// A study of `asked`; scenarios that must stand beside them are added. `clusters` are nodes that scenarios have of their own.
    ///
    /// # Errors
    /// If there is no scenario, or one does not go with the workload.
    pub fn new(
        loaded: &'a Loaded,
        request: Vec<Named>,
        recorded: Policy,
        compares: bool,
        clusters: Vec<OtherCluster>,
    ) -> Result<Self> {
        let mut qssf = request.iter().filter(|named| named.policy.order == Order::Qssf);
        let predicts = qssf.clone().find(|named| named.policy.estimate != Estimate::True);
        let qssf = predicts.or_else(|| qssf.next()).cloned();
        let recorded_is_named = true;
        let mut study = Self { loaded, scenarios: request, recorded, recorded_is_named, compares, clusters };
        if let Some(Named { policy, cluster, .. }) = qssf {
            let fewest = Policy { order: Order::FewestGpus, ..policy.clone() };
            let oracle = Policy { estimate: Estimate::True, ..policy };
            for (name, policy) in [(FEWEST, fewest), (ORACLE, oracle)] {
                if study.place_of(&policy, cluster).is_none() {
                    study.scenarios.push(Named { name: name.to_owned(), policy, cluster });
                }
            }
        }
        study.checked()
    }

    /// The scenario of a policy on some nodes.
    fn place_of(&self, policy: &Policy, cluster: Option<usize>) -> Option<usize> {
        self.scenarios.iter().position(|named| named.policy == *policy && named.cluster == cluster)
    }

    /// The jobs and nodes of a scenario.
    pub fn loaded_of(&self, named: &Named) -> &Loaded {
        named.cluster.and_then(|at| self.clusters.get(at)).map_or(self.loaded, |other| &other.loaded)
    }

    /// Returns the replayed policy and nodes in words.
    fn described(&self, named: &Named) -> String {
        let mut words = named.policy.describe();
        if let Some(KnownByRun { share, .. }) = self.known_by_run(named).filter(|known| known.share > 0.0) {
            words.push_str(&format!(", {} of the jobs by their true run", format::percent(share)));
        }
        if let Some(other) = named.cluster.and_then(|at| self.clusters.get(at)) {
            words.push_str(&format!(", {}", other.name));
        }
        words
    }

    /// Words on limits and shares that do nothing, or too little, in a scenario.
    fn limits_without_effect(&self, named: &Named) -> Vec<String> {
        let Some(limits) = &self.loaded_of(named).cluster.limits else { return Vec::new() };
        let mut said = Vec::new();
        let weighs = match &named.policy.order {
            Order::Multifactor(own) => limits.weights(own).fair_share > 0.0,
            _ => false,
        };
        if limits.has_unequal_shares() && !weighs {
            said.push(format!(
                "{}: shares of accounts (Fairshare) do nothing here, as the order gives them no weight; take --order multifactor:fair_share=10000, or multifactor with PriorityWeightFairshare in the file.",
                named.name
            ));
        }
        if limits.gives_way_with_time() && named.policy.interval_ms.is_none() {
            said.push(format!(
                "**{}: without --site interval, jobs wait longer than they would**: a limit of GPU time gives way as time goes by, and the replay looks only when a job comes or ends. Give --site interval=5m, Slurm's PriorityCalcPeriod.",
                named.name
            ));
        }
        said
    }

    /// Jobs that a scenario knows by their true run for want of an estimate.
    fn known_by_run(&self, named: &Named) -> Option<KnownByRun> {
        KnownByRun::new(&named.policy, &self.loaded.workload)
    }

    /// When nodes fail in a scenario: the seconds in which failures begin that matter to the replay, in order.
    fn failures(&self, named: &Named) -> Vec<i64> {
        let outages = &self.loaded_of(named).cluster.outages;
        let mut begun: Vec<i64> = outages
            .iter()
            .filter(|outage| outage.to_ms > 0)
            .map(|outage| outage.from_ms.max(0).div_euclid(SECOND_MS))
            .collect();
        begun.sort_unstable();
        begun
    }

    fn checked(self) -> Result<Self> {
        if self.scenarios.is_empty() {
            return Err(Error::NoScenario("there is no scenario"));
        }
        let predicted = self.loaded.workload.predicted_s.iter().any(Option::is_some);
        for named in &self.scenarios {
            let goes = named.policy.check_predictions(predicted);
            goes.and_then(|()| named.policy.validate(&self.loaded_of(named).workload)).map_err(
                |error| match error {
                    tracecast_sim::Error::Policy(what) => Error::policy(format!("{}: {what}", named.name)),
                    other => other.into(),
                },
            )?;
        }
        Ok(self)
    }

    /// Name and every switch of each scenario, by which parts of a study know each other, and its most nodes.
    pub fn identities(&self) -> Vec<(String, String, u32)> {
        let told = |named: &Named| match named.cluster {
            None => format!("{:?}", named.policy),
            Some(at) => format!("{:?} on cluster {at}", named.policy),
        };
        let nodes = |named: &Named| self.loaded_of(named).cluster.most_nodes();
        self.scenarios.iter().map(|named| (named.name.clone(), told(named), nodes(named))).collect()
    }

    /// Name of the jobs and nodes, likewise.
    pub fn fingerprint(&self) -> String {
        let of = |loaded: &Loaded| shard::fingerprint(&loaded.workload, &loaded.cluster);
        let others = self.clusters.iter().map(|other| of(&other.loaded));
        std::iter::once(of(self.loaded)).chain(others).collect::<Vec<_>>().join(" ")
    }

    /// Runs scenario `at`; its schedule and the time the engine took, seconds.
    ///
    /// # Errors
    /// Errors of [`tracecast_sim::simulate`].
    pub fn run(&self, at: usize) -> Result<(Schedule, f64)> {
        let Some(named) = self.scenarios.get(at) else {
            return Err(Error::Defect(format!("there is no scenario {at}")));
        };
        let began = Instant::now();
        let Loaded { workload, cluster, .. } = self.loaded_of(named);
        let schedule = tracecast_sim::simulate(workload, cluster, &named.policy)?;
        Ok((schedule, began.elapsed().as_secs_f64()))
    }

    /// Runs those of the scenarios for which `mine` says so, side by side; `None` for the others. `watch` is told after each.
    ///
    /// # Errors
    /// Errors of [`tracecast_sim::simulate`].
    pub fn run_some(&self, mine: impl Fn(usize) -> bool + Sync, watch: &dyn Watch) -> Result<Vec<Option<Schedule>>> {
        let run = |at: usize| -> Result<Option<Schedule>> {
            if !mine(at) {
                return Ok(None);
            }
            let (schedule, _) = self.run(at)?;
            watch.made();
            Ok(Some(schedule))
        };
        (0..self.scenarios.len()).into_par_iter().map(run).collect()
    }

    /// Runs all scenarios and evaluates each: the first alone (so that its time means something), the others side by side. `watch` is told after each.
    ///
    /// # Errors
    /// Errors of [`tracecast_sim::simulate`].
    pub fn replay_all(&self, watch: &dyn Watch) -> Result<(Vec<ReplayedScenario>, f64)> {
        let run = |at: usize| {
            let (schedule, seconds) = self.run(at)?;
            let replayed = self.evaluated(at, schedule)?;
            watch.made();
            Ok((replayed, seconds))
        };
        let (first, seconds) = run(0)?;
        let rest: Result<Vec<ReplayedScenario>> =
            (1..self.scenarios.len()).into_par_iter().map(|at| run(at).map(|(replayed, _)| replayed)).collect();
        Ok((std::iter::once(first).chain(rest?).collect(), seconds))
    }

    /// Evaluates schedules, one for each scenario.
    ///
    /// # Errors
    /// If there is not one schedule for each scenario, or one is not of this workload.
    pub fn evaluate_all(&self, schedules: Vec<Schedule>) -> Result<Vec<ReplayedScenario>> {
        if schedules.len() != self.scenarios.len() {
            return Err(Error::Defect(format!("{} schedules for {} scenarios", schedules.len(), self.scenarios.len())));
        }
        schedules.into_par_iter().enumerate().map(|(at, schedule)| self.evaluated(at, schedule)).collect()
    }

    fn evaluated(&self, at: usize, schedule: Schedule) -> Result<ReplayedScenario> {
        let Some(named) = self.scenarios.get(at) else {
            return Err(Error::Defect(format!("there is no scenario {at}")));
        };
        let Loaded { workload, cluster, resource, keys, .. } = self.loaded_of(named);
        let cluster = governing(cluster, &named.policy);
        let mut evaluation = evaluate(workload, &cluster, &schedule, TOP_USERS)?;
        evaluation.metrics.rejections =
            rejection::rejections(workload, &cluster, named.policy.placement, &evaluation.times, keys);
        if *resource != Resource::Gpus {
            // Gangs of eight processors are nobody's question.
            evaluation.metrics.overall.fragmentation.room.clear();
            evaluation.charts.timeline.gangs.clear();
        }
        let kept = at == 0 || self.place_of(&self.recorded, None) == Some(at);
        Ok(ReplayedScenario { evaluation, schedule: kept.then_some(schedule) })
    }

    /// Everything there is to say about what was replayed, one for each scenario.
    ///
    /// # Errors
    /// If there is not one for each scenario.
    pub fn answer(
        &self,
        mut subject: Subject,
        replayed: &[ReplayedScenario],
        engine_seconds: Option<f64>,
    ) -> Result<Answer> {
        let Loaded { workload, cluster, recorded_start_ms, .. } = self.loaded;
        if replayed.len() != self.scenarios.len() {
            return Err(Error::Defect(format!("{} replays of {} scenarios", replayed.len(), self.scenarios.len())));
        }
        let evaluations: Vec<&Evaluation> = replayed.iter().map(|replayed| &replayed.evaluation).collect();
        let (Some(&first), Some(named)) = (evaluations.first(), self.scenarios.first()) else {
            return Err(Error::NoScenario("there is no scenario"));
        };
        // What was is held against the nodes there were, not against those of the what-if.
        let own = self.recorded.compat == Compat::None && self.recorded.scan.scheduler().is_none();
        let before = self.loaded.recorded_cluster.as_ref().filter(|_| own);
        // Nor can the policy of the record know of cells that it has no preemption for.
        let ground = before.unwrap_or(cluster);
        let without =
            (ground.with_cells().is_some() && self.recorded.goes_with(ground).is_err()).then(|| ground.without_cells());
        let ground = without.as_ref().unwrap_or(ground);
        // Nor is it held against what jobs are made to ask, but against what they asked themselves.
        let by_itself = self.recorded.scan == Scan::Slurm || self.recorded.compat != Compat::None;
        let request = self.loaded.asked_themselves && before.is_none() && !by_itself;
        let asks = workload.has_requests() && !request;
        let same = if before.is_none() && !asks { self.place_of(&self.recorded, None) } else { None };
        let jobs = if asks { Cow::Owned(workload.without_requests()) } else { Cow::Borrowed(workload) };
        // Where there is nothing to compare with, any schedule says so.
        let of = if recorded_start_ms.iter().any(Option::is_some) { same } else { Some(0) };
        let fidelity = match of.and_then(|at| replayed.get(at)?.schedule.as_ref()) {
            Some(schedule) => Fidelity::new(workload, schedule, recorded_start_ms)?,
            None => {
                let schedule = tracecast_sim::simulate(&jobs, ground, &self.recorded)?;
                Fidelity::new(workload, &schedule, recorded_start_ms)?
            }
        };
        let jobs_and_nodes = (jobs.as_ref(), ground);
        let mut fidelity = with_nearest(fidelity, jobs_and_nodes, &self.recorded, recorded_start_ms)?;
        let mut recorded = self.recorded.clone();
        if !self.recorded_is_named && fidelity.verdict == Verdict::FarOff {
            let Policy { scan, estimate, .. } = named.policy;
            let own = Policy { scan, estimate, ..recorded.clone() };
            // A backfill by predictions goes by those of today. What else would come near is known already.
            let again = if scan.scheduler().is_none() && own != recorded {
                let (jobs, nodes) = jobs_and_nodes;
                let schedule = tracecast_sim::simulate(jobs, nodes, &own)?;
                Some(Fidelity::new(jobs, &schedule, recorded_start_ms)?).filter(Fidelity::is_believed)
            } else {
                None
            };
            match again {
                Some(believed) => {
                    subject.notes.push(format!(
                        "{} stands for what the cluster had, as no --recorded is named and it repeats the recorded starts, where {} does not.",
                        own.describe(),
                        recorded.describe()
                    ));
                    (fidelity, recorded) = (believed, own);
                }
                None => fidelity.assumed = Some(recorded.describe()),
            }
        }
        let given = self.loaded.given.as_ref().filter(|_| before.is_none());
        let fidelity = if let Some(given) = given { fidelity.on_given(given) } else { fidelity };
        let mut yardstick = None;
        let qssf = |oracle: bool| {
            let is = |named: &Named| {
                named.policy.order == Order::Qssf && (named.policy.estimate == Estimate::True) == oracle
            };
            self.scenarios.iter().position(is)
        };
        if let Some(qssf) = qssf(false).or_else(|| qssf(true)) {
            let Named { policy, cluster, .. } = &self.scenarios[qssf];
            let fewest = self.place_of(&Policy { order: Order::FewestGpus, ..policy.clone() }, *cluster);
            let oracle = self.place_of(&Policy { estimate: Estimate::True, ..policy.clone() }, *cluster);
            if let (Some(fewest), Some(oracle)) = (fewest, oracle) {
                let metrics = |at: usize| &evaluations[at].metrics;
                yardstick = Yardstick::of(metrics(fewest), metrics(qssf), metrics(oracle), qssf == oracle);
            }
        }
        let policies: Vec<_> =
            self.scenarios.iter().zip(&evaluations).map(|(named, of)| (named.name.as_str(), &of.times)).collect();
        let comparison = if policies.len() > 1 { Some(compare::compare(workload, &policies, SEED)?) } else { None };
        let oracles: Vec<bool> =
            self.scenarios.iter().map(|named| named.policy.is_oracle(&self.loaded.workload)).collect();
        let pairs = compare::pairs(workload, &policies, &oracles, SEED);
        let failures: Vec<Vec<i64>> = self.scenarios.iter().map(|named| self.failures(named)).collect();
        let node_failures = |at: usize| failures.get(at).map_or(0, Vec::len) as u64;
        let ties = if self.compares { self.tie_band(named, first)? } else { None };
        subject.notes.extend(self.scenarios.iter().filter_map(without_effect));
        subject.notes.extend(self.scenarios.iter().flat_map(|named| self.limits_without_effect(named)));
        if recorded_start_ms.iter().any(Option::is_some) && self.loaded.cluster.limits.is_some() {
            subject.notes.push(
                "The policy of the record is replayed under the limits as well. If the cluster did not have them, name as the first scenario of --compare one with limits = \"none\"."
                    .to_owned(),
            );
        }
        let is_oracle = |at: usize| oracles.get(at).copied().unwrap_or(false);
        let others = self.scenarios.iter().zip(&evaluations).enumerate().skip(1);
        let others = others.map(|(at, (named, evaluation))| Replay {
            name: named.name.clone(),
            policy: self.described(named),
            oracle: is_oracle(at),
            known_by_run: self.known_by_run(named),
            node_failures: node_failures(at),
            metrics: evaluation.metrics.clone(),
            charts: evaluation.charts.clone(),
        });
        Ok(Answer {
            schema: SCHEMA.to_owned(),
            subject,
            fidelity,
            recorded_policy: recorded.describe(),
            name: named.name.clone(),
            policy: self.described(named),
            oracle: is_oracle(0),
            known_by_run: self.known_by_run(named),
            node_failures: node_failures(0),
            engine_seconds,
            metrics: first.metrics.clone(),
            yardstick,
            others: others.collect(),
            on_other_nodes: before.is_some_and(|before| *before != self.loaded_of(named).cluster),
            failures_differ: failures.windows(2).any(|pair| pair.first() != pair.last()),
            pairs,
            comparison,
            ties,
            growth: None,
            charts: first.charts.clone(),
        })
    }

    /// Replays more work under each scenario, beside what was `found` on the record. `watch` is
    /// told after each of draws × scenarios replays.
    ///
    /// # Errors
    /// Errors of [`tracecast_sim::simulate`], and if no job of the record holds GPUs, a team cannot
    /// be drawn, or a scenario has nodes of its own.
    pub fn grow(&self, result: &Answer, growth: &Growth, watch: &dyn Watch) -> Result<GrowthAnswer> {
        if !self.clusters.is_empty() {
            return Err(Error::Growth(ONE_CLUSTER.to_owned()));
        }
        let metrics = std::iter::once(&result.metrics).chain(result.others.iter().map(|replay| &replay.metrics));
        let policies: Vec<_> = self
            .scenarios
            .iter()
            .zip(metrics)
            .map(|(named, metrics)| (named.name.as_str(), &named.policy, metrics))
            .collect();
        growth::grow((&self.loaded.workload, &self.loaded.cluster), &policies, growth, watch)
    }

    /// Computes the first scenario's mean wait under other orders of jobs submitted in the same
    /// second.
    fn tie_band(&self, named: &Named, recorded: &Evaluation) -> Result<Option<TieBand>> {
        let Loaded { workload, cluster, .. } = self.loaded_of(named);
        let orders = std::iter::once(TieBreak::Reversed).chain((1..=SHUFFLES).map(TieBreak::Shuffled));
        let means: Result<Vec<Option<f64>>> = orders
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|how| {
                let (workload, _) = permute_ties(workload, how);
                let schedule = tracecast_sim::simulate(&workload, cluster, &named.policy)?;
                let metrics = evaluate(&workload, &governing(cluster, &named.policy), &schedule, 0)?.metrics;
                Ok(metrics.overall.group.wait.map(|wait| wait.mean_s))
            })
            .collect();
        let as_recorded = recorded.metrics.overall.group.wait.map(|wait| wait.mean_s);
        let all: Vec<f64> = means?.into_iter().chain(std::iter::once(as_recorded)).flatten().collect();
        Ok(TieBand::new(&all))
    }
}

/// A word on an order that shows what it can do only with preemption.
fn without_effect(named: &Named) -> Option<String> {
    let order = match named.policy.order {
        Order::Las | Order::Tiresias(_) | Order::Gittins => "that of submission",
        Order::Srtf => "shortest first",
        _ => return None,
    };
    (named.policy.preemption == Preemption::Never).then(|| {
        format!(
            "{}: a job that waits has not run yet, so without preemption (--preempt) the order is {order}.",
            named.name
        )
    })
}

/// The policy a cluster is taken to have had if nobody says: FIFO, strict (or as Kueue, KAI or Volcano have it, as `like`), consolidated, imitating what `like` imitates.
pub fn usual(like: &Policy) -> Policy {
    let order = Order::Fifo;
    let (scan, preemption) = match like.scan {
        Scan::Kueue | Scan::Kai | Scan::Volcano => (like.scan, like.preemption),
        _ => (Scan::Strict, Preemption::Never),
    };
    let interval_ms = if like.compat == Compat::Helios { None } else { like.interval_ms };
    Policy { order, scan, preemption, interval_ms, compat: like.compat, ..Policy::default() }
}

/// The cluster with what a policy heeds of it: quotas in cohorts only if it is Kueue's, fair shares only if it is KAI's, and so on.
fn governing<'c>(cluster: &'c Cluster, policy: &Policy) -> Cow<'c, Cluster> {
    let idle = |there: bool, scan: Scan| there && policy.scan != scan;
    if !idle(cluster.cohorts.is_some(), Scan::Kueue)
        && !idle(cluster.kai.is_some(), Scan::Kai)
        && !idle(cluster.volcano.is_some(), Scan::Volcano)
        && !idle(cluster.topology.as_ref().is_some_and(Topology::is_of_switches), Scan::Slurm)
    {
        return Cow::Borrowed(cluster);
    }
    let mut cluster = cluster.clone();
    cluster.cohorts = cluster.cohorts.filter(|_| policy.scan == Scan::Kueue);
    cluster.kai = cluster.kai.filter(|_| policy.scan == Scan::Kai);
    cluster.volcano = cluster.volcano.filter(|_| policy.scan == Scan::Volcano);
    let unfollowed = |topology| if policy.scan == Scan::Slurm { topology } else { Topology::unfollowed(topology) };
    cluster.topology = cluster.topology.map(unfollowed);
    Cow::Owned(cluster)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
