//! More (or less) work, or one more team: the jobs of a record multiplied, and the replays of
//! several draws.
//!
//! `draw` chooses jobs by user and week, so that habits stay; [`team`] says what a team is. Over draws, GPU time is what was asked for; the hour of the
//! week of no job changes. Every policy is replayed on every draw, beside what it did on the record itself. O(draws × policies × replay).
//!
//! Worked number: of ten draws with mean waits of 2 h and a standard deviation of 0.3 h, the 95 % interval of the mean is 2 ± 2.262 × 0.3 / √10 h =
//! 1.79 to 2.21 h (Student's t with 9 degrees of freedom).

mod draw;
pub mod team;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::interval::student_t;
use tracecast_analytics::stats::sum;
use tracecast_analytics::watch::Watch;

use super::metric::{Metrics, evaluate};
use crate::error::{Error, Result};
use draw::{Drawing, Grown};
use team::Team;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::policy::Policy;
use tracecast_sim::workload::Workload;

/// Least and most a record can be multiplied by.
pub const FACTORS: (f64, f64) = (0.05, 20.0);

/// Factor and teams of more work, and the number of draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// Factor of the work, within [`FACTORS`].
    factor: f64,
    /// Teams that join.
    teams: Vec<Team>,
    /// Draws, at least 2.
    draws: u64,
    /// Seed of all draws.
    seed: u64,
}

impl Growth {
    /// Checks it.
    ///
    /// # Errors
    /// If the factor or the number of draws makes no sense.
    pub fn new(factor: f64, teams: Vec<Team>, draws: u64, seed: u64) -> Result<Self> {
        let (least, most) = FACTORS;
        if !(least..=most).contains(&factor) {
            return Err(Error::Growth(format!("--scale {factor}: write a factor from {least} to {most}")));
        }
        if draws < 2 {
            return Err(Error::Growth("--draws: an interval needs at least 2 draws".to_owned()));
        }
        Ok(Self { factor, teams, draws, seed })
    }

    /// Returns the factor of the work.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Teams that join.
    pub fn teams(&self) -> &[Team] {
        &self.teams
    }

    /// Draws asked for.
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// The jobs of one draw of `record`.
    ///
    /// # Errors
    /// If a team is like nobody in the record, or cannot be made of so few jobs.
    pub fn jobs(&self, record: &Workload, cluster: &Cluster, draw: u64) -> Result<Workload> {
        Ok(Drawing::new(record, cluster, self)?.draw(self.seed_of(draw)).workload)
    }

    fn seed_of(&self, draw: u64) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(draw)
    }
}

/// `With 1.2 times the work and the team robotics`.
pub fn phrase(factor: f64, teams: &[Team]) -> String {
    let names: Vec<&str> = teams.iter().map(|team| team.name.as_str()).collect();
    let teams = match names.as_slice() {
        [] => None,
        [name] => Some(format!("the team {name}")),
        names => Some(format!("the teams {}", names.join(", "))),
    };
    let more = (factor != 1.0 || teams.is_none()).then(|| format!("{} times the work", format::float(factor, 2)));
    let parts: Vec<String> = more.into_iter().chain(teams).collect();
    format!("With {}", parts.join(" and "))
}

/// `5 draws: 1.213 times the GPU time on average (single draws 1.187 to 1.236)`.
pub fn drawn_phrase(draws: u64, gpu_time_ratio: &OverDraws) -> String {
    format!(
        "{}: {} times the GPU time on average (single draws {} to {})",
        format::counted(draws, "draw", "draws"),
        format::float(gpu_time_ratio.mean, 3),
        format::float(gpu_time_ratio.least, 3),
        format::float(gpu_time_ratio.greatest, 3)
    )
}

/// The mean of a figure over draws, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OverDraws {
    /// Mean.
    pub mean: f64,
    /// Lower end of the mean's 95 % interval (Student's t).
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Least of all draws.
    pub least: f64,
    /// Greatest of all draws.
    pub greatest: f64,
}

impl OverDraws {
    /// Computes the mean and its interval over draws; `None` of fewer than two values.
    pub fn new(values: &[f64]) -> Option<Self> {
        let mean = sum::mean(values)?;
        let variance = sum::variance(values)?;
        let n = values.len() as f64;
        let half = student_t(n - 1.0)? * (variance / n).sqrt();
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        // None of the figures can be negative.
        Some(Self { mean, low: (mean - half).max(0.0), high: mean + half, least, greatest })
    }

    /// GPU time that each draw asks for, over that of the record; from GPU-seconds.
    ///
    /// # Errors
    /// If no job of the record holds GPUs, or there are fewer than two draws.
    pub fn of_gpu_time(record: &Workload, asked_gpu_s: impl IntoIterator<Item = f64>) -> Result<Self> {
        let of_record = work_of(record)?;
        let ratios: Vec<f64> = asked_gpu_s.into_iter().map(|request| request / of_record).collect();
        Self::new(&ratios).ok_or_else(|| Error::Defect("there are fewer than two draws".to_owned()))
    }
}

/// GPU-seconds that the jobs of a record ask for.
///
/// # Errors
/// If that is none, so that more of it is none.
pub fn work_of(record: &Workload) -> Result<f64> {
    let request = record.asked_gpu_s();
    if request > 0.0 {
        return Ok(request);
    }
    Err(Error::NoJobs("no job holds GPUs for any time, so there is no work to multiply".to_owned()))
}

/// One policy under more work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownReplay {
    /// Name of the policy.
    pub name: String,
    /// Mean wait, seconds; `null` where a draw finished no job.
    pub mean_wait_s: Option<OverDraws>,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: Option<OverDraws>,
    /// Share of the GPU time in service that jobs held.
    pub utilisation: Option<OverDraws>,
    /// Mean wait of the jobs that no team brings, seconds; `null` without teams.
    pub mean_wait_of_others_s: Option<OverDraws>,
    /// Mean wait of the jobs that teams bring, seconds.
    pub mean_wait_of_teams_s: Option<OverDraws>,
    /// Mean wait without growth, seconds.
    pub mean_wait_now_s: Option<f64>,
    /// 95 % quantile of the wait without growth, seconds.
    pub p95_wait_now_s: Option<f64>,
    /// Utilisation without growth.
    pub utilisation_now: Option<f64>,
}

/// Effect of more work on each policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrowthAnswer {
    /// Factor of the work; 1 if only teams joined.
    pub factor: f64,
    /// Teams that joined.
    pub teams: Vec<Team>,
    /// Draws.
    pub draws: u64,
    /// Whole weeks in the record; without one, jobs are drawn one by one.
    pub whole_weeks: u64,
    /// GPU time asked for, over that of the record; teams included.
    pub gpu_time_ratio: OverDraws,
    /// Jobs, over those of the record; teams included.
    pub jobs_ratio: OverDraws,
    /// The policies, in the order in which they were asked for.
    pub policies: Vec<GrownReplay>,
}

/// The figures of one policy in one draw.
#[derive(Debug, Clone, Copy)]
struct Figures {
    mean_wait_s: Option<f64>,
    p95_wait_s: Option<f64>,
    utilisation: Option<f64>,
    /// Mean wait of the jobs that no team brings, seconds.
    mean_wait_of_others_s: Option<f64>,
    mean_wait_of_teams_s: Option<f64>,
}

impl Figures {
    fn new(metrics: &Metrics) -> Self {
        let wait = metrics.overall.group.wait;
        Self {
            mean_wait_s: wait.map(|wait| wait.mean_s),
            p95_wait_s: wait.map(|wait| wait.p95_s),
            utilisation: metrics.overall.utilisation,
            mean_wait_of_others_s: None,
            mean_wait_of_teams_s: None,
        }
    }
}

/// One draw.
struct Draw {
    asked_gpu_s: f64,
    jobs: f64,
    found: Vec<Figures>,
}

/// Replays policies, each with its name and what it did on the record, on several draws of more work. Draws run side by side; the
/// answer does not depend on threads. `watch` is told after each of draws × scenarios replays.
///
/// # Errors
/// Errors of [`tracecast_sim::simulate`], and if no job of the record holds GPUs.
pub(super) fn grow(
    (record, cluster): (&Workload, &Cluster),
    policies: &[(&str, &Policy, &Metrics)],
    growth: &Growth,
    watch: &dyn Watch,
) -> Result<GrowthAnswer> {
    work_of(record)?;
    let figures = |drawn: &Grown, policy: &Policy| -> Result<Figures> {
        let schedule = tracecast_sim::simulate(&drawn.workload, cluster, policy)?;
        let found = evaluate(&drawn.workload, cluster, &schedule, 0)?;
        let mean_wait_s = |joined: bool| {
            let jobs = (0..drawn.workload.len()).filter(|job| drawn.joined.get(*job) == Some(&joined));
            let counted = jobs.filter(|job| found.times.is_counted(*job));
            sum::mean(counted.filter_map(|job| found.times.wait_ms(job)).map(|wait| wait as f64 / 1000.0))
        };
        watch.made();
        Ok(Figures {
            mean_wait_of_others_s: mean_wait_s(false),
            mean_wait_of_teams_s: mean_wait_s(true),
            ..Figures::new(&found.metrics)
        })
    };
    let drawing = Drawing::new(record, cluster, growth)?;
    let draws: Vec<Draw> = (0..growth.draws)
        .into_par_iter()
        .map(|draw| {
            let drawn = drawing.draw(growth.seed_of(draw));
            let found: Result<_> = policies.par_iter().map(|(_, policy, _)| figures(&drawn, policy)).collect();
            let workload = &drawn.workload;
            Ok(Draw { asked_gpu_s: workload.asked_gpu_s(), jobs: workload.len() as f64, found: found? })
        })
        .collect::<Result<_>>()?;
    let gpu_time_ratio = OverDraws::of_gpu_time(record, draws.iter().map(|draw| draw.asked_gpu_s))?;
    let jobs: Vec<f64> = draws.iter().map(|draw| draw.jobs / record.len() as f64).collect();
    let jobs_ratio = OverDraws::new(&jobs).ok_or_else(|| Error::Defect("there are fewer than two draws".to_owned()))?;
    let has_teams = !growth.teams.is_empty();
    let replays = policies.iter().enumerate().map(|(at, (name, _, metrics))| {
        let now = Figures::new(metrics);
        let over = |figure: &dyn Fn(&Figures) -> Option<f64>| {
            let values: Option<Vec<f64>> = draws.iter().map(|draw| draw.found.get(at).and_then(figure)).collect();
            values.and_then(|values| OverDraws::new(&values))
        };
        GrownReplay {
            name: (*name).to_owned(),
            mean_wait_s: over(&|found| found.mean_wait_s),
            p95_wait_s: over(&|found| found.p95_wait_s),
            utilisation: over(&|found| found.utilisation),
            mean_wait_of_others_s: over(&|found| found.mean_wait_of_others_s).filter(|_| has_teams),
            mean_wait_of_teams_s: over(&|found| found.mean_wait_of_teams_s),
            mean_wait_now_s: now.mean_wait_s,
            p95_wait_now_s: now.p95_wait_s,
            utilisation_now: now.utilisation,
        }
    });
    Ok(GrowthAnswer {
        factor: growth.factor,
        teams: growth.teams.clone(),
        draws: growth.draws,
        whole_weeks: u64::try_from(drawing.whole_weeks()).unwrap_or(0),
        gpu_time_ratio,
        jobs_ratio,
        policies: replays.collect(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn gpu_time_of_draws_is_over_that_of_the_record() {
        let mut record = Workload::default();
        record.push(0, 1_000, tracecast_sim::Shape::whole(2));
        let ratio = OverDraws::of_gpu_time(&record, [2.0, 4.0]).unwrap();
        assert_eq!((ratio.mean, ratio.least, ratio.greatest), (1.5, 1.0, 2.0));
        let said = OverDraws::of_gpu_time(&Workload::default(), [2.0, 4.0]).unwrap_err().to_string();
        assert!(said.contains("no work to multiply"), "{said}");
        assert!(OverDraws::of_gpu_time(&record, [2.0]).is_err());
    }

    #[test]
    fn the_interval_of_a_mean_by_hand() {
        // Mean 2, s = 1, t(0.975, 2) = 4.3027: 2 ± 4.3027 / √3.
        let over = OverDraws::new(&[1.0, 2.0, 3.0]).unwrap();
        assert!(
            (over.high - (2.0 + 4.302_652_73 / 3f64.sqrt())).abs() < 1e-6 && over.least == 1.0 && over.greatest == 3.0
        );
        assert_eq!(OverDraws::new(&[1.0]), None);
    }
}
