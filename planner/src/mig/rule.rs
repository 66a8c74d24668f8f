//! Fleets beside each other: by which partitions a rule may choose, and by what it takes for the speeds.
//!
//! Every rule is put to the same [programme](super::programme). What differs is what it believes, and which partitions it has. Then the jobs are put where the rule has them, and what was
//! measured there says how many are beyond the SLO. A placement without a measured speed is told apart: the job did not fit there, or nobody measured it.
//!
//! As slow as its programmes. Worked example: a rule that takes the share of the SMs for the speed puts nothing on `3g` at an SLO of 2 (3/7 is below a half), where a job that
//! runs there at 0.6 would have been within it.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::time::HOUR_S;

use super::demand::{MigDemand, MigDemandRow};
use super::gpu::MigGpu;
use super::partition::{MigPartition, WHOLE, full};
use super::programme::{MigChoice, MigNeed, MigProgramme};
use super::speed::{MigEvidence, MigSpeed, SpeedBelief};
use crate::error::Result;

/// Request for a plan of MIG partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct MigRequest {
    /// GPUs there are; `None` for the fewest that carry everything.
    pub gpus: Option<u32>,
    /// How many times as slow as on the whole GPU a job may be.
    pub slo: f64,
    /// Share of the time that slices may be held, where jobs come and go.
    pub busy: f64,
    /// How GPUs are partitioned now; nothing if nobody said.
    pub now: Vec<(MigPartition, u32)>,
    /// How long a GPU takes no job before its partition is changed, seconds.
    pub drain_s: f64,
}

impl Default for MigRequest {
    fn default() -> Self {
        Self { gpus: None, slo: 2.0, busy: 0.8, now: Vec::new(), drain_s: HOUR_S }
    }
}

/// A way to choose a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MigRule {
    /// Every job on a whole GPU.
    WholeGpus,
    /// The best partition that all GPUs have.
    OnePartition,
    /// Any partitions; a slice is as fast as its share of the SMs.
    ShareOfSms,
    /// Any partitions; a slice is as fast as expected.
    MeanForecast,
    /// Any partitions; a slice is allowed by what is reached with a chance of 90 %.
    Forecast,
    /// Any partitions; every speed is known.
    Oracle,
    /// Any partitions, with what is known now.
    Plan,
}

impl MigRule {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::WholeGpus => "whole GPUs",
            Self::OnePartition => "one partition for all GPUs",
            Self::ShareOfSms => "by the share of SMs",
            Self::MeanForecast => "by the mean forecast",
            Self::Forecast => "by the forecast at 90 %",
            Self::Oracle => "with every speed known",
            Self::Plan => "the plan",
        }
    }
}

/// GPUs with one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MigPartitionRow {
    /// Name of the partition: profiles joined by `+`, or `whole`.
    pub partition: String,
    /// Slices of each profile, the largest first.
    pub slices: Vec<MigSliceCount>,
    /// GPUs that have it.
    pub gpus: u32,
}

impl MigPartitionRow {
    /// Whether these GPUs are whole.
    pub fn is_whole(&self) -> bool {
        self.partition == WHOLE
    }
}

/// Slices of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MigSliceCount {
    /// The profile.
    pub profile: String,
    /// How many.
    pub count: u32,
}

/// A fleet, and what became of the jobs on it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MigTried {
    /// How it was chosen.
    pub rule: MigRule,
    /// GPUs that it takes.
    pub gpus: u32,
    /// Partitions of the GPUs, those of most GPUs first.
    pub partitions: Vec<MigPartitionRow>,
    /// What the jobs make, in whole GPUs, by the speeds that the rule believes.
    pub progress: f64,
    /// The fewest GPUs, or the most progress on the GPUs given, of any fleet: what the programme has proven.
    pub bound: f64,
    /// Jobs (at once, or an hour) that have no room.
    pub waiting: f64,
    /// Share of the placed jobs that run slower than the SLO, by what was measured.
    pub over_slo: f64,
    /// Share of the placed jobs that are on slices where their type was not measured, or did not fit.
    pub not_measured: f64,
    /// What the jobs make by what was measured, in whole GPUs; none where jobs come and go, or something was not measured.
    pub measured_progress: Option<f64>,
    /// Share of the time that slices are held, by what was measured; none where jobs at once are told, or something was not measured.
    pub measured_busy: Option<f64>,
}

/// Jobs of one type on slices of one profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigPut {
    /// Place of the job type in the demand.
    pub at: usize,
    /// Place of the profile.
    pub profile: usize,
    /// Slices; parts of one where jobs come and go, and types share it.
    pub slices: f64,
    /// Jobs: at once, or an hour.
    pub jobs: f64,
}

/// A fleet with its placements.
#[derive(Debug, Clone, PartialEq)]
pub struct MigFleet {
    /// Figures of the fleet.
    pub tried: MigTried,
    /// GPUs that stay as they are.
    pub kept: u32,
    /// Where jobs are.
    pub puts: Vec<MigPut>,
    /// Speeds that were believed, by job type and profile.
    pub speeds: Vec<Vec<MigSpeed>>,
}

/// What is decided on.
#[derive(Debug)]
pub struct MigQuestion<'a> {
    /// What is known.
    pub evidence: &'a MigEvidence<'a>,
    /// What must be carried.
    pub demand: &'a MigDemand,
    /// The request.
    pub request: &'a MigRequest,
    /// Places of the profiles that may be used.
    pub profiles: Vec<usize>,
}

impl MigQuestion<'_> {
    fn gpu(&self) -> &'static MigGpu {
        self.evidence.gpu()
    }

    /// Partitions to choose from: the full ones, and those there are now.
    fn partitions(&self) -> Vec<MigPartition> {
        let mut all = full(self.gpu());
        for (partition, _) in &self.request.now {
            if !all.contains(partition) {
                all.push(partition.clone());
            }
        }
        let may = |partition: &MigPartition| {
            partition.counts.iter().enumerate().all(|(at, count)| *count == 0 || self.profiles.contains(&at))
        };
        all.retain(may);
        all
    }

    fn needs(&self, speeds: &[Vec<MigSpeed>]) -> Vec<MigNeed> {
        let held = if self.demand.is_load { self.request.busy } else { 1.0 };
        let need = |(row, speeds): (&MigDemandRow, &Vec<MigSpeed>)| {
            let allowed = |(at, of): (usize, &MigSpeed)| self.profiles.contains(&at) && of.is_allowed(self.request.slo);
            let carried = |(at, of): (usize, &MigSpeed)| match (allowed((at, of)), self.demand.is_load) {
                (false, _) => 0.0,
                (true, true) => held * of.speed,
                (true, false) => 1.0,
            };
            MigNeed {
                amount: row.load(),
                carries: speeds.iter().enumerate().map(carried).collect(),
                makes: speeds.iter().map(|of| held * of.speed).collect(),
            }
        };
        self.demand.rows.iter().zip(speeds).map(need).collect()
    }

    /// The fleet of a rule; `None` where its partitions have no room for a job type.
    ///
    /// # Errors
    /// If the solver fails, which no input should bring about.
    pub fn fleet(&self, rule: MigRule, belief: SpeedBelief) -> Result<Option<MigFleet>> {
        let speeds = self.evidence.speeds(belief);
        let needs = self.needs(&speeds);
        let partitions = match rule {
            MigRule::WholeGpus => vec![MigPartition::whole(self.gpu())],
            _ => self.partitions(),
        };
        let now = |of: &MigPartition| {
            let result = self.request.now.iter().find(|(partition, _)| partition == of);
            result.filter(|_| matches!(rule, MigRule::Plan | MigRule::OnePartition)).map_or(0, |(_, gpus)| *gpus)
        };
        let solve = |partitions: &[MigPartition]| {
            let now: Vec<u32> = partitions.iter().map(now).collect();
            MigProgramme { partitions, now: &now, needs: &needs, gpus: self.request.gpus }.solve()
        };
        let result = if rule == MigRule::OnePartition {
            let mut best: Option<(Vec<MigPartition>, MigChoice)> = None;
            for partition in partitions {
                let alone = vec![partition];
                let Some(choice) = solve(&alone)? else { continue };
                let better = best.as_ref().is_none_or(|(_, best)| {
                    let fewer = choice.gpus().cmp(&best.gpus()).reverse();
                    let more = choice.progress.total_cmp(&(best.progress * (1.0 + 1e-6)));
                    if self.request.gpus.is_some() { more.is_gt() } else { fewer.then(more).is_gt() }
                });
                if better {
                    best = Some((alone, choice));
                }
            }
            best
        } else {
            solve(&partitions)?.map(|choice| (partitions, choice))
        };
        let Some((partitions, choice)) = result else { return Ok(None) };
        let puts = self.puts(&choice, &needs);
        let tried = self.tried(rule, &partitions, &choice, &puts);
        Ok(Some(MigFleet { tried, kept: choice.kept, puts, speeds }))
    }

    /// Where jobs are put by a choice, in order of job types and profiles.
    fn puts(&self, choice: &MigChoice, needs: &[MigNeed]) -> Vec<MigPut> {
        let mut result = Vec::new();
        for (at, ((row, need), placed)) in self.demand.rows.iter().zip(needs).zip(&choice.placed).enumerate() {
            for (profile, (carries, slices)) in need.carries.iter().zip(placed).enumerate() {
                if *slices > 1e-6 {
                    let jobs = row.jobs * carries * slices / need.amount;
                    result.push(MigPut { at, profile, slices: snapped(*slices), jobs: snapped(jobs) });
                }
            }
        }
        result
    }

    /// Figures of a fleet.
    fn tried(&self, rule: MigRule, partitions: &[MigPartition], choice: &MigChoice, puts: &[MigPut]) -> MigTried {
        let (mut all, mut over, mut unknown, mut made) = (0.0, 0.0, 0.0, 0.0);
        let (mut held, mut slices) = (0.0, 0.0);
        for put in puts {
            all += put.jobs;
            slices += put.slices;
            let load = self.demand.rows.get(put.at).map_or(0.0, |row| row.load() / row.jobs);
            match self.evidence.measured(put.at, put.profile) {
                Some(speed) => {
                    made += speed * put.slices;
                    held += put.jobs * load / speed;
                    over += if speed * self.request.slo < 1.0 - 1e-9 { put.jobs } else { 0.0 };
                }
                None => unknown += put.jobs,
            }
        }
        let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
        let there = partitions.iter().zip(&choice.counts).filter(|(_, gpus)| **gpus > 0);
        let mut rows: Vec<MigPartitionRow> = there.map(|(of, gpus)| row(self.gpu(), of, *gpus)).collect();
        rows.sort_by(|a, b| b.gpus.cmp(&a.gpus).then(a.partition.cmp(&b.partition)));
        MigTried {
            rule,
            gpus: choice.gpus(),
            partitions: rows,
            progress: choice.progress,
            bound: choice.bound,
            waiting: snapped((self.demand.jobs() - all).max(0.0)),
            over_slo: share(over),
            not_measured: share(unknown),
            measured_progress: (!self.demand.is_load && unknown <= 0.0).then_some(made),
            measured_busy: (self.demand.is_load && unknown <= 0.0 && slices > 0.0).then(|| held / slices),
        }
    }
}

/// A number without what sums of floats differ by from a whole one.
pub(super) fn snapped(value: f64) -> f64 {
    if (value - value.round()).abs() < 1e-6 { value.round() } else { value }
}

/// The row of a partition.
pub fn row(gpu: &MigGpu, partition: &MigPartition, gpus: u32) -> MigPartitionRow {
    let slice = |(profile, count): (&str, u32)| MigSliceCount { profile: profile.to_owned(), count };
    MigPartitionRow {
        partition: partition.name(gpu),
        slices: partition.parts(gpu).into_iter().map(slice).collect(),
        gpus,
    }
}
