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

use tracecast_analytics::schema::Resource;

use super::answer::{Answer, Replay, SCHEMA, Subject, Yardstick};
use super::compare::{self, TieBand, TieBreak, permute_ties};
use super::fidelity::Fidelity;
use super::growth::{self, Growth, GrowthAnswer};
use super::input::Loaded;
use super::metric::{Evaluation, evaluate};
use super::shard;
use crate::error::{Error, Result};
use crate::sim::cluster::Cluster;
use crate::sim::policy::{Compat, Estimate, Order, Policy, Preemption, Scan};
use crate::sim::schedule::Schedule;

/// Users listed by name.
const TOP_USERS: usize = 10;
/// Seed of the bootstrap and of the orders within a second.
const SEED: u64 = 1;
/// Shuffled orders within a second, beside the recorded and the reversed one.
const SHUFFLES: u64 = 3;
/// Why more work is not replayed on several clusters.
pub const ONE_CLUSTER: &str = "--scale and --add replay all scenarios on one cluster; leave the clusters of scenarios out, or name one with --cluster";
/// What the rows beside QSSF are called.
const FEWEST: &str = "fewest GPUs first";
const ORACLE: &str = "QSSF (oracle)";

/// A policy with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// What to call it.
    pub name: String,
    /// The policy.
    pub policy: Policy,
    /// Its nodes, a place in [`Study::clusters`]; `None` if they are those of the study.
    pub cluster: Option<usize>,
}

/// The jobs on other nodes, or under other quotas or limits, than those of a study.
#[derive(Debug, Clone)]
pub struct OtherCluster {
    /// What they are, such as "on the nodes of more.toml".
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
            return Err(Error::Cluster(format!(
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
    /// The same for jobs that compete for `resource`, unless the placement was asked for.
    #[must_use]
    pub fn on(self, resource: Resource, placed: bool) -> Self {
        let policy = if placed { self.policy } else { self.policy.on(resource) };
        Self { policy, ..self }
    }
}

/// What is to be run on a loaded workload.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// Jobs and nodes.
    pub loaded: &'a Loaded,
    /// The scenarios, the one asked for (or compared with) first.
    pub scenarios: Vec<Named>,
    /// The policy that the cluster had, to check the replay with.
    pub recorded: Policy,
    /// Whether several were asked for, which are to be compared.
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
        asked: Vec<Named>,
        recorded: Policy,
        compares: bool,
        clusters: Vec<OtherCluster>,
    ) -> Result<Self> {
        let mut qssf = asked.iter().filter(|named| named.policy.order == Order::Qssf);
        let predicts = qssf.clone().find(|named| named.policy.estimate != Estimate::True);
        let qssf = predicts.or_else(|| qssf.next()).cloned();
        let mut study = Self { loaded, scenarios: asked, recorded, compares, clusters };
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

    /// What a scenario replays, in words.
    fn described(&self, named: &Named) -> String {
        let nodes = named.cluster.and_then(|at| self.clusters.get(at));
        nodes.map_or_else(|| named.policy.describe(), |other| format!("{}, {}", named.policy.describe(), other.name))
    }

    fn checked(self) -> Result<Self> {
        if self.scenarios.is_empty() {
            return Err(Error::NoScenario("there is no scenario"));
        }
        for named in &self.scenarios {
            named.policy.validate(&self.loaded_of(named).workload).map_err(|error| match error {
                Error::Policy(what) => Error::Policy(format!("{}: {what}", named.name)),
                other => other,
            })?;
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
    /// As [`crate::sim::simulate`].
    pub fn run(&self, at: usize) -> Result<(Schedule, f64)> {
        let Some(named) = self.scenarios.get(at) else {
            return Err(Error::Defect(format!("there is no scenario {at}")));
        };
        let began = Instant::now();
        let Loaded { workload, cluster, .. } = self.loaded_of(named);
        let schedule = crate::sim::simulate(workload, cluster, &named.policy)?;
        Ok((schedule, began.elapsed().as_secs_f64()))
    }

    /// Runs those of the scenarios for which `mine` says so; the first alone (so that its time means something), the others side by side.
    /// `done` is called after each.
    ///
    /// # Errors
    /// As [`crate::sim::simulate`].
    pub fn run_all(
        &self,
        mine: impl Fn(usize) -> bool + Sync,
        done: impl Fn() + Sync,
    ) -> Result<(Vec<Option<Schedule>>, Option<f64>)> {
        let run = |at: usize| {
            let ran = self.run(at);
            done();
            ran
        };
        let first = if mine(0) { Some(run(0)?) } else { None };
        let (first, seconds) = first.map_or((None, None), |(schedule, seconds)| (Some(schedule), Some(seconds)));
        let rest: Result<Vec<Option<Schedule>>> = (1..self.scenarios.len())
            .into_par_iter()
            .map(|at| if mine(at) { run(at).map(|(schedule, _)| Some(schedule)) } else { Ok(None) })
            .collect();
        let mut schedules = vec![first];
        schedules.extend(rest?);
        Ok((schedules, seconds))
    }

    /// Everything there is to say about `schedules`, one for each scenario.
    ///
    /// # Errors
    /// If there is not one schedule for each scenario, or one is not of this workload.
    pub fn answer(&self, mut subject: Subject, schedules: &[Schedule], engine_seconds: Option<f64>) -> Result<Answer> {
        let Loaded { workload, cluster, recorded_start_ms, .. } = self.loaded;
        if schedules.len() != self.scenarios.len() {
            return Err(Error::Defect(format!("{} schedules for {} scenarios", schedules.len(), self.scenarios.len())));
        }
        let evaluated = |(named, schedule): (&Named, &Schedule)| -> Result<Evaluation> {
            let Loaded { workload, cluster, resource, .. } = self.loaded_of(named);
            let mut found = evaluate(workload, &governing(cluster, &named.policy), schedule, TOP_USERS)?;
            if *resource != Resource::Gpus {
                // Gangs of eight processors are nobody's question.
                found.metrics.overall.fragmentation.room.clear();
            }
            Ok(found)
        };
        let evaluations: Result<Vec<Evaluation>> = self.scenarios.par_iter().zip(schedules).map(evaluated).collect();
        let evaluations = evaluations?;
        let (Some(first), Some(named)) = (evaluations.first(), self.scenarios.first()) else {
            return Err(Error::NoScenario("there is no scenario"));
        };
        // What was is held against the nodes there were, not against those of the what-if.
        let own = self.recorded.compat == Compat::None && self.recorded.scan != Scan::Kueue;
        let before = self.loaded.recorded_cluster.as_ref().filter(|_| own);
        let same = if before.is_none() { self.place_of(&self.recorded, None) } else { None };
        let fidelity = match (recorded_start_ms.iter().any(Option::is_some), same) {
            // Nothing to compare with: any schedule says so.
            (false, _) => Fidelity::of(workload, &schedules[0], recorded_start_ms)?,
            (true, Some(at)) => Fidelity::of(workload, &schedules[at], recorded_start_ms)?,
            (true, None) => {
                let schedule = crate::sim::simulate(workload, before.unwrap_or(cluster), &self.recorded)?;
                Fidelity::of(workload, &schedule, recorded_start_ms)?
            }
        };
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
        let comparison = if evaluations.len() > 1 {
            let policies: Vec<_> =
                self.scenarios.iter().zip(&evaluations).map(|(named, of)| (named.name.as_str(), &of.times)).collect();
            Some(compare::compare(workload, &policies, SEED)?)
        } else {
            None
        };
        let ties = if self.compares { self.tie_band(named, first)? } else { None };
        subject.notes.extend(self.scenarios.iter().filter_map(without_effect));
        let others = self.scenarios.iter().zip(&evaluations).skip(1).map(|(named, evaluation)| Replay {
            name: named.name.clone(),
            policy: self.described(named),
            oracle: named.policy.is_oracle(&self.loaded.workload),
            metrics: evaluation.metrics.clone(),
            charts: evaluation.charts.clone(),
        });
        Ok(Answer {
            schema: SCHEMA.to_owned(),
            subject,
            fidelity,
            recorded_policy: self.recorded.describe(),
            name: named.name.clone(),
            policy: self.described(named),
            oracle: named.policy.is_oracle(&self.loaded.workload),
            engine_seconds,
            metrics: first.metrics.clone(),
            yardstick,
            others: others.collect(),
            comparison,
            ties,
            growth: None,
            charts: first.charts.clone(),
        })
    }

    /// What more work would do under each scenario, beside what was `found` on the record. `done` is called after each of draws × scenarios replays.
    ///
    /// # Errors
    /// As [`crate::sim::simulate`]; if no job of the record holds GPUs, a team cannot be drawn, or a scenario has nodes of its own.
    pub fn grow(&self, found: &Answer, growth: &Growth, done: impl Fn() + Sync) -> Result<GrowthAnswer> {
        if !self.clusters.is_empty() {
            return Err(Error::Growth(ONE_CLUSTER.to_owned()));
        }
        let metrics = std::iter::once(&found.metrics).chain(found.others.iter().map(|replay| &replay.metrics));
        let policies: Vec<_> = self
            .scenarios
            .iter()
            .zip(metrics)
            .map(|(named, metrics)| (named.name.as_str(), &named.policy, metrics))
            .collect();
        growth::grow((&self.loaded.workload, &self.loaded.cluster), &policies, growth, done)
    }

    /// What the first scenario's mean wait is under other orders of jobs submitted in the same second.
    fn tie_band(&self, named: &Named, recorded: &Evaluation) -> Result<Option<TieBand>> {
        let Loaded { workload, cluster, .. } = self.loaded_of(named);
        let orders = std::iter::once(TieBreak::Reversed).chain((1..=SHUFFLES).map(TieBreak::Shuffled));
        let means: Result<Vec<Option<f64>>> = orders
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|how| {
                let (workload, _) = permute_ties(workload, how);
                let schedule = crate::sim::simulate(&workload, cluster, &named.policy)?;
                let metrics = evaluate(&workload, &governing(cluster, &named.policy), &schedule, 0)?.metrics;
                Ok(metrics.overall.group.wait.map(|wait| wait.mean_s))
            })
            .collect();
        let as_recorded = recorded.metrics.overall.group.wait.map(|wait| wait.mean_s);
        let all: Vec<f64> = means?.into_iter().chain(std::iter::once(as_recorded)).flatten().collect();
        Ok(TieBand::of(&all))
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

/// The policy a cluster is taken to have had if nobody says: FIFO, strict (or Kueue's admission, as `like`), consolidated, imitating what `like` imitates.
pub fn usual(like: &Policy) -> Policy {
    let order = Order::Fifo;
    let (scan, preemption) = match like.scan {
        Scan::Kueue => (like.scan, like.preemption),
        _ => (Scan::Strict, Preemption::Never),
    };
    let interval_ms = if like.compat == Compat::Helios { None } else { like.interval_ms };
    Policy { order, scan, preemption, interval_ms, compat: like.compat, ..Policy::default() }
}

/// The cluster with what a policy heeds of it: quotas in cohorts only if it is Kueue's.
fn governing<'c>(cluster: &'c Cluster, policy: &Policy) -> Cow<'c, Cluster> {
    if cluster.cohorts.is_none() || policy.scan == Scan::Kueue {
        return Cow::Borrowed(cluster);
    }
    Cow::Owned(Cluster { cohorts: None, ..cluster.clone() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracecast_analytics::Trace;

    use super::*;
    use crate::sim::cluster::Cluster;
    use crate::sim::workload::{Shape, Workload};

    /// One GPU. A runs 0–100 s; B (50 s), C (10 s) and D (30 s) are submitted at 1, 2 and 3 s. D is predicted to run longest.
    fn loaded() -> Loaded {
        let mut workload = Workload::default();
        for (submit_s, run_s) in [(0, 100), (1, 50), (2, 10), (3, 30)] {
            workload.push(submit_s * 1000, run_s * 1000, Shape::whole(1));
        }
        workload.predicted_s = [100.0, 50.0, 10.0, 60.0].map(Some).to_vec();
        Loaded {
            workload,
            cluster: Cluster::of_vcs(&[("all", 1, 1)]),
            recorded_start_ms: vec![None; 4],
            ..Loaded::default()
        }
    }

    fn named(name: &str, order: Order, estimate: Estimate) -> Named {
        Named { name: name.to_owned(), policy: Policy { order, estimate, ..Policy::default() }, cluster: None }
    }

    fn names(loaded: &Loaded, asked: Vec<Named>) -> Vec<String> {
        let study = Study::new(loaded, asked, Policy::default(), true, Vec::new()).unwrap();
        study.scenarios.into_iter().map(|named| named.name).collect()
    }

    fn answer(loaded: &Loaded, asked: Vec<Named>) -> Answer {
        let study = Study::new(loaded, asked, Policy::default(), false, Vec::new()).unwrap();
        let (schedules, seconds) = study.run_all(|_| true, || ()).unwrap();
        let schedules: Vec<Schedule> = schedules.into_iter().flatten().collect();
        study.answer(Subject::of("jobs", &Trace::default(), loaded), &schedules, seconds).unwrap()
    }

    #[test]
    fn qssf_never_stands_alone() {
        let loaded = loaded();
        let predicted = || named("mine", Order::Qssf, Estimate::Predicted);
        let oracle = || named("oracle", Order::Qssf, Estimate::True);
        assert_eq!(names(&loaded, vec![named("fifo", Order::Fifo, Estimate::True)]), ["fifo"]);
        assert_eq!(names(&loaded, vec![predicted()]), ["mine", FEWEST, ORACLE]);
        // What was asked for is not run twice.
        assert_eq!(names(&loaded, vec![oracle()]), ["oracle", FEWEST]);
        assert_eq!(names(&loaded, vec![oracle(), predicted()]), ["oracle", "mine", FEWEST]);
    }

    #[test]
    fn the_share_of_the_gap_by_hand() {
        let loaded = loaded();
        let found = answer(&loaded, vec![named("QSSF", Order::Qssf, Estimate::Predicted)]);
        // Fewest GPUs first is FIFO here: B, C, D start at 100, 150, 160 s and wait 99 + 148 + 157 s. The oracle takes C, D, B at
        // 100, 110, 140 s: 98 + 107 + 139. The predictions take C, B, D at 100, 110, 160 s: 98 + 109 + 157.
        let yardstick = found.yardstick.unwrap();
        assert_eq!(
            (yardstick.fewest_gpus_mean_wait_s, yardstick.qssf_mean_wait_s, yardstick.oracle_mean_wait_s),
            (404.0 / 4.0, 364.0 / 4.0, 344.0 / 4.0)
        );
        // (404 − 364) / (404 − 344).
        assert!((yardstick.gap_closed.unwrap() - 2.0 / 3.0).abs() < 1e-12 && !yardstick.without_predictions);
        // The one that predicts is measured, wherever it stands.
        let asked = vec![named("oracle", Order::Qssf, Estimate::True), named("QSSF", Order::Qssf, Estimate::Predicted)];
        assert!((answer(&loaded, asked).yardstick.unwrap().gap_closed.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        let alone = answer(&loaded, vec![named("oracle", Order::Qssf, Estimate::True)]).yardstick.unwrap();
        assert!(alone.without_predictions && alone.gap_closed.is_none());
    }

    /// The jobs of [`loaded`], so many times after one another. FIFO waits 101 s on average and the shortest job first, which knows runs, 86 s; the longest
    /// first waits 116 s.
    fn again(times: i64) -> Loaded {
        let mut workload = Workload::default();
        for at_s in (0..times).map(|time| time * 1000) {
            for (submit_s, run_s) in [(0, 100), (1, 50), (2, 10), (3, 30)] {
                workload.push((at_s + submit_s) * 1000, run_s * 1000, Shape::whole(1));
            }
        }
        workload.requested_ms = workload.run_ms.iter().copied().map(Some).collect();
        Loaded { recorded_start_ms: vec![None; workload.len()], workload, ..loaded() }
    }

    /// Over many days FIFO clearly beats the longest first; four jobs cannot tell. The oracle beats nobody.
    #[test]
    fn an_oracle_is_a_bound_and_beats_nobody() {
        assert!(compared(&again(1)).contains("None is clearly beaten"));
        let summary = compared(&again(200));
        assert!(summary.contains("Of the policies that are no oracles, **fifo** has the least mean wait"), "{summary}");
        assert!(summary.contains("sjf waits") && summary.contains("is an oracle"), "{summary}");
        assert!(summary.contains("**ljf** is beaten"), "{summary}");
    }

    /// What a comparison of FIFO, an oracle and the longest first says first.
    fn compared(loaded: &Loaded) -> String {
        let asked = vec![
            named("fifo", Order::Fifo, Estimate::Requested),
            named("sjf", Order::Sjf, Estimate::True),
            named("ljf", Order::Ljf, Estimate::Requested),
        ];
        let study = Study::new(loaded, asked, Policy::default(), true, Vec::new()).unwrap();
        let (schedules, seconds) = study.run_all(|_| true, || ()).unwrap();
        let schedules: Vec<Schedule> = schedules.into_iter().flatten().collect();
        let found = study.answer(Subject::of("jobs", &Trace::default(), loaded), &schedules, seconds).unwrap();
        assert_eq!((found.oracle, found.others[0].oracle, found.others[1].oracle), (false, true, false));
        found.report().summary.join("\n")
    }

    #[test]
    fn a_part_runs_its_own_only() {
        let loaded = loaded();
        let asked = vec![
            named("a", Order::Fifo, Estimate::True),
            named("b", Order::Sjf, Estimate::True),
            named("c", Order::Ljf, Estimate::True),
        ];
        let study = Study::new(&loaded, asked, Policy::default(), true, Vec::new()).unwrap();
        let done = AtomicUsize::new(0);
        let (schedules, seconds) = study
            .run_all(
                |at| at == 1,
                || {
                    done.fetch_add(1, Ordering::Relaxed);
                },
            )
            .unwrap();
        assert_eq!(schedules.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
        // Only the first is timed, and it was not run.
        assert_eq!((done.into_inner(), seconds), (1, None));
    }

    #[test]
    fn the_report_begins_with_what_it_is_worth() {
        let report = answer(&loaded(), vec![named("las", Order::Las, Estimate::True)]).report();
        let sections: Vec<&str> = report.available().iter().map(|section| section.id.as_str()).collect();
        assert_eq!(sections.first(), Some(&"fidelity"));
        assert!(report.summary[0].contains("no job has a recorded start"), "{}", report.summary[0]);
        assert!(report.notes.iter().any(|note| note.starts_with("las: ") && note.contains("--preempt")));
        assert!(!format!("{report:?}").contains("engine"), "what changes from run to run is in the data only");
    }

    #[test]
    fn what_cannot_be_run_names_the_scenario() {
        let loaded = loaded();
        let error = Study::new(
            &loaded,
            vec![named("mine", Order::Score, Estimate::True)],
            Policy::default(),
            false,
            Vec::new(),
        );
        assert_eq!(error.unwrap_err().to_string(), "policy: mine: the order `score` needs a score file (--score)");
        assert!(Study::new(&loaded, Vec::new(), Policy::default(), false, Vec::new()).is_err());
    }
}
