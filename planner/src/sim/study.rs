//! Several policies on the same jobs: which to run, and everything that is said about them.
//!
//! The first scenario is the one asked for. Beside QSSF always stand the fewest GPUs first and QSSF on true durations. Scenarios run in
//! parallel, each on one thread, and come back in order, so the answer does not depend on the number of threads.
//!
//! Worked example: `--order qssf --predictions est.csv` runs three scenarios, and a fourth, FIFO, where the trace has recorded
//! starts to compare it with.

use std::time::Instant;

use rayon::prelude::*;

use super::answer::{Answer, Replay, SCHEMA, Subject, Yardstick};
use super::compare::{self, TieBand, TieBreak, permute_ties};
use super::fidelity::Fidelity;
use super::input::Loaded;
use super::metric::{Evaluation, evaluate};
use super::policy::{Compat, Estimate, Order, Policy, Preemption};
use super::schedule::Schedule;
use crate::error::{Error, Result};

/// Users listed by name.
const TOP_USERS: usize = 10;
/// Seed of the bootstrap and of the orders within a second.
const SEED: u64 = 1;
/// Shuffled orders within a second, beside the recorded and the reversed one.
const SHUFFLES: u64 = 3;
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
}

impl<'a> Study<'a> {
    /// A study of `asked`; scenarios that must stand beside them are added.
    ///
    /// # Errors
    /// If there is no scenario, or one does not go with the workload.
    pub fn new(loaded: &'a Loaded, asked: Vec<Named>, recorded: Policy, compares: bool) -> Result<Self> {
        let Some(qssf) = asked.iter().find(|named| named.policy.order == Order::Qssf).map(|named| named.policy.clone())
        else {
            return Self { loaded, scenarios: asked, recorded, compares }.checked();
        };
        let mut scenarios = asked;
        let fewest = Policy { order: Order::FewestGpus, ..qssf.clone() };
        let oracle = Policy { estimate: Estimate::True, ..qssf };
        for (name, policy) in [(FEWEST, fewest), (ORACLE, oracle)] {
            if !scenarios.iter().any(|named| named.policy == policy) {
                scenarios.push(Named { name: name.to_owned(), policy });
            }
        }
        Self { loaded, scenarios, recorded, compares }.checked()
    }

    fn checked(self) -> Result<Self> {
        if self.scenarios.is_empty() {
            return Err(Error::Policy("there is no scenario".to_owned()));
        }
        for named in &self.scenarios {
            let wrong = |error: Error| Error::Policy(format!("scenario `{}`: {error}", named.name));
            named.policy.validate(&self.loaded.workload).map_err(wrong)?;
        }
        Ok(self)
    }

    /// Runs scenario `at`; its schedule and the time the engine took, seconds.
    ///
    /// # Errors
    /// As [`super::simulate`].
    pub fn run(&self, at: usize) -> Result<(Schedule, f64)> {
        let Some(named) = self.scenarios.get(at) else {
            return Err(Error::Policy(format!("there is no scenario {at}")));
        };
        let began = Instant::now();
        let schedule = super::simulate(&self.loaded.workload, &self.loaded.cluster, &named.policy)?;
        Ok((schedule, began.elapsed().as_secs_f64()))
    }

    /// Runs those of the scenarios for which `mine` says so; the first alone (so that its time means something), the others side by side.
    ///
    /// # Errors
    /// As [`super::simulate`].
    pub fn run_all(&self, mine: impl Fn(usize) -> bool + Sync) -> Result<(Vec<Option<Schedule>>, Option<f64>)> {
        let first = if mine(0) { Some(self.run(0)?) } else { None };
        let (first, seconds) = first.map_or((None, None), |(schedule, seconds)| (Some(schedule), Some(seconds)));
        let rest: Result<Vec<Option<Schedule>>> = (1..self.scenarios.len())
            .into_par_iter()
            .map(|at| if mine(at) { self.run(at).map(|(schedule, _)| Some(schedule)) } else { Ok(None) })
            .collect();
        let mut schedules = vec![first];
        schedules.extend(rest?);
        Ok((schedules, seconds))
    }

    /// Everything there is to say about `schedules`, one for each scenario.
    ///
    /// # Errors
    /// If a schedule is not of this workload.
    pub fn answer(&self, subject: Subject, schedules: &[Schedule], engine_seconds: Option<f64>) -> Result<Answer> {
        let Loaded { workload, cluster, recorded_start_ms, .. } = self.loaded;
        let evaluations: Result<Vec<Evaluation>> =
            schedules.par_iter().map(|schedule| evaluate(workload, cluster, schedule, TOP_USERS)).collect();
        let evaluations = evaluations?;
        let (Some(first), Some(named)) = (evaluations.first(), self.scenarios.first()) else {
            return Err(Error::Policy("there is no scenario".to_owned()));
        };
        let find = |policy: &Policy| self.scenarios.iter().position(|named| named.policy == *policy);
        let fidelity = match (recorded_start_ms.iter().any(Option::is_some), find(&self.recorded)) {
            // Nothing to compare with: any schedule says so.
            (false, _) => Fidelity::of(workload, &schedules[0], recorded_start_ms)?,
            (true, Some(at)) => Fidelity::of(workload, &schedules[at], recorded_start_ms)?,
            (true, None) => {
                let schedule = super::simulate(workload, cluster, &self.recorded)?;
                Fidelity::of(workload, &schedule, recorded_start_ms)?
            }
        };
        let mut yardstick = None;
        if let Some(qssf) = self.scenarios.iter().position(|named| named.policy.order == Order::Qssf) {
            let own = &self.scenarios[qssf].policy;
            let fewest = find(&Policy { order: Order::FewestGpus, ..own.clone() });
            let oracle = find(&Policy { estimate: Estimate::True, ..own.clone() });
            if let (Some(fewest), Some(oracle)) = (fewest, oracle) {
                let metrics = |at: usize| &evaluations[at].metrics;
                yardstick = Yardstick::of(metrics(fewest), metrics(qssf), metrics(oracle));
            }
        }
        let comparison = if evaluations.len() > 1 {
            let policies: Vec<_> =
                self.scenarios.iter().zip(&evaluations).map(|(named, of)| (named.name.as_str(), &of.times)).collect();
            Some(compare::compare(workload, &policies, SEED)?)
        } else {
            None
        };
        let ties = if self.compares { self.tie_band(&named.policy, first)? } else { None };
        let others = self.scenarios.iter().zip(&evaluations).skip(1).map(|(named, evaluation)| Replay {
            name: named.name.clone(),
            policy: named.policy.describe(),
            metrics: evaluation.metrics.clone(),
            charts: evaluation.charts.clone(),
        });
        Ok(Answer {
            schema: SCHEMA.to_owned(),
            subject,
            fidelity,
            recorded_policy: self.recorded.describe(),
            name: named.name.clone(),
            policy: named.policy.describe(),
            engine_seconds,
            metrics: first.metrics.clone(),
            yardstick,
            others: others.collect(),
            comparison,
            ties,
            charts: first.charts.clone(),
        })
    }

    /// What the first scenario's mean wait is under other orders of jobs submitted in the same second.
    fn tie_band(&self, policy: &Policy, recorded: &Evaluation) -> Result<Option<TieBand>> {
        let orders = std::iter::once(TieBreak::Reversed).chain((1..=SHUFFLES).map(TieBreak::Shuffled));
        let means: Result<Vec<Option<f64>>> = orders
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|how| {
                let (workload, _) = permute_ties(&self.loaded.workload, how);
                let schedule = super::simulate(&workload, &self.loaded.cluster, policy)?;
                let metrics = evaluate(&workload, &self.loaded.cluster, &schedule, 0)?.metrics;
                Ok(metrics.overall.group.wait.map(|wait| wait.mean_s))
            })
            .collect();
        let own = recorded.metrics.overall.group.wait.map(|wait| wait.mean_s);
        let all: Vec<f64> = means?.into_iter().chain(std::iter::once(own)).flatten().collect();
        Ok(TieBand::of(&all))
    }
}

/// The policy a cluster is taken to have had if nobody says: FIFO, strict, consolidated, imitating what `like` imitates.
pub fn usual(like: &Policy) -> Policy {
    let order = Order::Fifo;
    let preemption = Preemption::Never;
    let interval_ms = if like.compat == Compat::Helios { None } else { like.interval_ms };
    Policy { order, preemption, interval_ms, compat: like.compat, ..Policy::default() }
}
