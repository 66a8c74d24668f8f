//! Metrics of a schedule: waits, completion times, utilisation, fairness, fragmentation, and why
//! jobs waited.
//!
//! [`evaluate`] gives everything at once, as one walk through the schedule serves several figures.
//!
//! | module | holds |
//! |---|---|
//! | [`times`] | wait, JCT and held time of each job |
//! | [`group`] | the figures of a group of jobs |
//! | [`delay`] | waiting by cause |
//! | [`quota`] | what queues did with their quotas in cohorts, or with shares of KAI's and Volcano's |
//! | [`limit`] | which limits by QOS jobs waited for |
//! | [`load`] | what VCs ask for of what they have |
//! | [`near`] | whether jobs lay in one block or rack |
//! | [`fair`] | Jain index, finish-time ratio |
//! | [`timeline`] | quantities over time for charts |
//!
//! The **window** is from the first submission (or time 0, if later) to the last end or submission of a counted job. Jobs that
//! ran when the replay began are not counted, but the GPUs they hold are in use.
//!
//! * **Makespan**: length of the window.
//! * **Utilisation**: GPU time held / GPU time in service over the window. A node that drains is in service as far as jobs hold
//!   it, one that failed is not.
//! * **Fragmentation**: ∫ free GPUs on nodes that also hold a job / ∫ free GPUs. **Stranded GPUs**: time mean of the GPUs that
//!   are free in pools in which a job waits for nothing but fragmentation. **GPUs without a host**, where processors and memory count: time mean of the GPUs that are free on nodes whose processors or memory left hold not one GPU of any kind of job submitted to the pool, counted and not rejected (of a part of a GPU:
//!   not the part); jobs that must have another type of GPU do not count. So they stay free whatever waits. **Room**: gangs of 8, 16 and 64 GPUs that would have fitted: their time mean, their number at the end of the record
//!   (the last submission, after which the replay only runs empty), and over time for a chart.
//! * **Lost GPU time**: what finished jobs held beyond their true run (preemption's cost, work lost with a node).
//!
//! Complexity: O(n log n) for n jobs. Same output for the same schedule, whatever the thread count.
//!
//! Worked number: 8 GPUs, a job of 6 over 0–100 s and one of 4 over 100–150 s: utilisation (600 + 200) / (8 · 150) = 0.667.
//! While a job runs, its node's other GPUs are free beside it, so fragmentation is 1. If the job of 6 takes all but 3 of the node's cores and every job asks for at least 4 for each GPU, 2 GPUs are without a host for 100 of 150 s: 1.33.

pub mod delay;
mod divided;
pub mod fair;
pub mod group;
mod host;
pub mod limit;
pub mod load;
pub mod near;
mod queues;
pub mod quota;
pub mod rejection;
mod share;
mod state;
mod sweep;
pub mod timeline;
pub mod times;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::stats::ecdf::{CurvePoint, Ecdf};

pub use delay::{Cause, DelayByCause};
pub use fair::{Fairness, jain};
pub use group::{DurationClass, GroupFigures, OfDuration, OfName, OfSize, Slowdown, Times};
pub use limit::LimitWait;
pub use load::{OfferedLoads, VcLoad};
pub use near::TopologyUse;
pub use quota::QuotaUse;
pub use rejection::{RejectedFor, Rejection};
pub use share::Standing;
pub use timeline::{Series, Timeline};
pub use times::JobTimes;

use crate::error::Result;
use timeline::Buckets;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::{Outcome, Schedule};
use tracecast_sim::workload::Workload;

/// Version of the figures' layout.
pub const SCHEMA: &str = "simulate/1";

/// Most points of a curve for charts.
const CURVE_POINTS: usize = 200;

/// Where free GPUs were.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fragmentation {
    /// Share of the free GPU time that was on nodes which also held a job; `null` if nothing was ever free.
    pub partly_used_share: Option<f64>,
    /// Time mean of free GPUs.
    pub free_gpus: Option<f64>,
    /// Time mean of GPUs that were free where a job waited for nothing but fragmentation.
    pub stranded_gpus: Option<f64>,
    /// Time mean of GPUs that were free on nodes whose processors or memory left hold not one GPU of any kind of job; left out where processors and memory do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub hostless_gpus: Option<f64>,
    /// How many gangs of some sizes would have fitted; empty without jobs, and where jobs compete for processors or nodes.
    pub room: Vec<Room>,
}

/// How many gangs of one size would have fitted beside what ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Room {
    /// GPUs of a gang.
    pub gpus: u32,
    /// Mean number over time of gangs that would have fitted at once, on as few nodes as they need, whatever the quotas.
    pub gangs_mean: f64,
    /// Share of the time in which none would have fitted.
    pub none_share: f64,
    /// How many would have fitted at the end of the record: after what happens at the last submission.
    #[schemars(default)]
    pub gangs_at_end: u64,
    /// Mean number over time of gangs that the free GPUs of each pool would make if they lay together: what is more is lost to fragmentation.
    pub gangs_if_together_mean: f64,
}

/// The figures of a whole schedule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Overall {
    /// The figures of all jobs.
    #[serde(flatten)]
    pub group: GroupFigures,
    /// Length of the window, seconds; `null` without jobs.
    pub makespan_s: Option<f64>,
    /// GPU time held in the window, warm jobs included, GPU-hours.
    pub gpu_hours_in_use: f64,
    /// GPU time in service in the window, GPU-hours.
    pub gpu_hours_in_service: f64,
    /// GPU time held over GPU time in service; `null` if nothing was in service.
    pub utilisation: Option<f64>,
    /// GPU time that finished jobs held beyond their true run, GPU-hours.
    pub lost_gpu_hours: f64,
    /// How evenly users and VCs are treated.
    pub fairness: Fairness,
    /// Where free GPUs were.
    pub fragmentation: Fragmentation,
}

/// The figures of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Metrics {
    /// Version of the layout.
    pub schema: String,
    /// All jobs.
    pub overall: Overall,
    /// By size class, those with jobs.
    pub by_size: Vec<OfSize>,
    /// By VC, those with jobs, in the order of the cluster.
    pub by_vc: Vec<OfName>,
    /// The users with most GPU time (GPUs × true run, so that they are the same under every policy), most first.
    pub by_user: Vec<OfName>,
    /// All other users together.
    pub other_users: Option<GroupFigures>,
    /// By true run, classes with jobs.
    pub by_duration: Vec<OfDuration>,
    /// Offered load of the VCs; `null` where all jobs come at one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub offered: Option<OfferedLoads>,
    /// Why jobs waited.
    pub delay: DelayByCause,
    /// Use of each queue's quota, under Kueue's admission, or of its share, under KAI's and
    /// Volcano's queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub quotas: Vec<QuotaUse>,
    /// Which limits jobs waited for, where there are limits by QOS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub limits: Vec<LimitWait>,
    /// By QOS, those with jobs, where limits describe QOSs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub by_qos: Vec<OfName>,
    /// By the account that a job is charged to, those with jobs, where limits describe accounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub by_account: Vec<OfName>,
    /// Placement and waits of the jobs that ask for blocks, racks or the like, by request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub topology: Vec<TopologyUse>,
    /// Where accounts and users stand at the end, where shares of accounts count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub shares: Vec<Standing>,
    /// Why jobs could never run, the cause of most first; [`evaluate`] knows no identifiers of jobs and leaves it empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub rejections: Vec<Rejection>,
}

/// The distribution of the wait of one size class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WaitCurve {
    /// The size class.
    pub size: SizeClass,
    /// Share of its finished jobs that waited at most `x` seconds.
    pub points: Vec<CurvePoint>,
}

/// Data of the charts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Charts {
    /// Queue and GPUs over time.
    pub timeline: Timeline,
    /// Wait by size class, those with finished jobs.
    pub wait_by_size: Vec<WaitCurve>,
}

/// Figures, charts, and the times of each job for comparisons.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Figures.
    pub metrics: Metrics,
    /// Charts.
    pub charts: Charts,
    /// Times of each job.
    pub times: JobTimes,
}

/// Computes all metrics of a schedule. `top_users` users are listed by name; `usize::MAX` lists
/// all.
///
/// # Errors
/// If the workload and the cluster are not valid or the schedule is not of this workload.
pub fn evaluate(workload: &Workload, cluster: &Cluster, schedule: &Schedule, top_users: usize) -> Result<Evaluation> {
    cluster.validate()?;
    workload.validate(cluster.vcs.len())?;
    let times = JobTimes::new(workload, schedule)?;
    let window = window(workload, schedule, &times);
    let span = window.unwrap_or((0, 0));

    let record_end = workload.submit_ms.last().copied().unwrap_or(0).clamp(span.0, span.1);
    let mut use_of = Totals::new(span, record_end);
    let sweep::Walked { causes, quotas, limits } =
        sweep::walk(workload, cluster, schedule, &times, span, |from, to, now| use_of.add(from, to, now));
    let far_ms: Vec<i64> = causes.iter().map(|causes| causes[sweep::TOPOLOGY]).collect();
    let ends: Vec<Option<i64>> = (0..workload.len()).map(|job| schedule.end_ms(job)).collect();

    let figures =
        |groups: usize, of: &dyn Fn(usize) -> Option<usize>| group::groups(workload, schedule, &times, groups, of);
    let size = |job: usize| Some(SizeClass::new(workload.shape_of(job).as_gpus()) as usize);
    let duration = |job: usize| workload.run_ms.get(job).map(|run| DurationClass::new(*run) as usize);
    let vc = |job: usize| workload.vc.get(job).map(|vc| usize::from(*vc));
    let ranks = user_ranks(workload, &times);
    let shown = top_users.min(workload.users.len());
    let user = |job: usize| ranks.of.get(*workload.user.get(job)? as usize).map(|rank| (*rank).min(shown));

    let all = figures(1, &|_| Some(0)).pop().flatten().unwrap_or_else(GroupFigures::empty);
    let mut by_user = figures(shown + 1, &user);
    let other_users = by_user.pop().flatten();
    let names = ranks.users.iter().filter_map(|user| workload.users.get(*user));
    let named = |names: &mut dyn Iterator<Item = &String>, groups: Vec<Option<GroupFigures>>| -> Vec<OfName> {
        names.zip(groups).filter_map(|(name, group)| Some(OfName { name: name.clone(), group: group? })).collect()
    };
    let bound = cluster.limits.as_ref().map(|limits| limit::members(workload, limits)).unwrap_or_default();
    let [by_qos, by_account] = bound
        .map(|(names, of): limit::Members| named(&mut names.iter(), figures(names.len(), &|job| of.get(job).copied())));
    let sizes = SizeClass::ALL.into_iter().zip(figures(SizeClass::ALL.len(), &size));
    let durations = DurationClass::ALL.into_iter().zip(figures(DurationClass::ALL.len(), &duration));
    let metrics = Metrics {
        schema: SCHEMA.to_owned(),
        overall: Overall {
            group: all,
            makespan_s: window.map(|(from, to)| (to - from) as f64 / 1000.0),
            gpu_hours_in_use: group::gpu_hours(use_of.held),
            gpu_hours_in_service: group::gpu_hours(use_of.in_service),
            utilisation: ratio(use_of.held, use_of.in_service),
            lost_gpu_hours: group::gpu_hours(lost(workload, &times)),
            fairness: fair::fairness(workload, cluster, &times, &ends, span.1),
            fragmentation: use_of.fragmentation(span.1 - span.0, cluster.counts_hosts(workload)),
        },
        by_size: sizes.filter_map(|(size, group)| Some(OfSize { size, group: group? })).collect(),
        by_vc: named(&mut cluster.vcs.iter().map(|vc| &vc.name), figures(cluster.vcs.len(), &vc)),
        by_user: named(&mut names.take(shown), by_user),
        other_users,
        by_duration: durations.filter_map(|(duration, group)| Some(OfDuration { duration, group: group? })).collect(),
        offered: OfferedLoads::new(workload, cluster, |job| times.outcome.get(job) != Some(&Outcome::Rejected)),
        delay: DelayByCause::new(workload, cluster, &times, &causes),
        quotas,
        limits,
        by_qos,
        by_account,
        topology: near::uses(workload, cluster, schedule, &times, &far_ms),
        shares: share::standings(workload, cluster, schedule),
        rejections: Vec::new(),
    };
    let charts = Charts { timeline: use_of.timeline(span.0), wait_by_size: wait_curves(workload, &times) };
    Ok(Evaluation { metrics, charts, times })
}

/// From the first submission to the last end or submission of a counted job; `None` without one.
fn window(workload: &Workload, schedule: &Schedule, times: &JobTimes) -> Option<(i64, i64)> {
    let mut submits = workload.submit_ms.iter().enumerate().filter(|(job, _)| times.is_counted(*job));
    let from = *submits.next()?.1;
    let last = submits.next_back().map_or(from, |(_, submit)| *submit);
    let ends = schedule.segments.iter().filter(|segment| times.is_counted(segment.job as usize));
    let to = ends.map(|segment| segment.end_ms).max().map_or(last, |end| end.max(last));
    Some((from.max(0), to.max(0)))
}

/// Users by GPUs × true run of counted jobs, most first.
struct Ranks {
    users: Vec<usize>,
    /// By user.
    of: Vec<usize>,
}

fn user_ranks(workload: &Workload, times: &JobTimes) -> Ranks {
    let mut work = vec![0u128; workload.users.len()];
    for (job, (user, run)) in workload.user.iter().zip(&workload.run_ms).enumerate() {
        if times.is_counted(job)
            && let Some(work) = work.get_mut(*user as usize)
        {
            *work += u128::from(run.unsigned_abs()) * u128::from(workload.shape_of(job).amount());
        }
    }
    let mut users: Vec<usize> = (0..work.len()).collect();
    users.sort_by_key(|user| std::cmp::Reverse(work.get(*user).copied()));
    let mut of = vec![0; users.len()];
    for (rank, user) in users.iter().enumerate() {
        if let Some(known) = of.get_mut(*user) {
            *known = rank;
        }
    }
    Ranks { users, of }
}

/// GPU time that finished jobs held beyond their true run, thousandths of GPUs × milliseconds.
fn lost(workload: &Workload, times: &JobTimes) -> u128 {
    let finished = |job: usize| times.is_counted(job) && times.outcome.get(job) == Some(&Outcome::Finished);
    let lost = |(job, ms): (usize, &i64)| u128::from(ms.unsigned_abs()) * u128::from(workload.shape_of(job).amount());
    times.lost_ms.iter().enumerate().filter(|(job, _)| finished(*job)).map(lost).sum()
}

fn wait_curves(workload: &Workload, times: &JobTimes) -> Vec<WaitCurve> {
    let mut waits: Vec<Vec<f64>> = vec![Vec::new(); SizeClass::ALL.len()];
    for job in 0..times.len() {
        let class = SizeClass::new(workload.shape_of(job).as_gpus()) as usize;
        if let (Some(wait), Some(waits)) = (times.wait_ms(job), waits.get_mut(class)) {
            waits.push(wait as f64 / 1000.0);
        }
    }
    let curve =
        |(size, waits): (SizeClass, Vec<f64>)| Some(WaitCurve { size, points: Ecdf::new(&waits)?.thin(CURVE_POINTS) });
    SizeClass::ALL.into_iter().zip(waits).filter_map(curve).collect()
}

fn ratio(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Integrals over the window, thousandths of GPUs × milliseconds.
struct Totals {
    held: u128,
    in_service: u128,
    free: u128,
    partly_free: u128,
    stranded: u128,
    hostless: u128,
    /// By gang size: gangs that fit, gangs if all that is free lay together, and time in which none fits.
    room: [[u128; 3]; sweep::GANGS.len()],
    /// When the last job is submitted, and gangs that fit then, by size.
    record_end: i64,
    room_at_end: [u64; sweep::GANGS.len()],
    gangs: [Buckets; sweep::GANGS.len()],
    queue_jobs: Buckets,
    queue_gpus: Buckets,
    in_use: Buckets,
    service: Buckets,
}

impl Totals {
    fn new(window: (i64, i64), record_end: i64) -> Self {
        let buckets = Buckets::new(window);
        Self {
            held: 0,
            in_service: 0,
            free: 0,
            partly_free: 0,
            stranded: 0,
            hostless: 0,
            room: [[0; 3]; sweep::GANGS.len()],
            record_end,
            room_at_end: [0; sweep::GANGS.len()],
            gangs: std::array::from_fn(|_| buckets.clone()),
            queue_jobs: buckets.clone(),
            queue_gpus: buckets.clone(),
            in_use: buckets.clone(),
            service: buckets,
        }
    }

    fn add(&mut self, from: i64, to: i64, now: &sweep::Moment) {
        let dt = u128::from((to - from).max(0).unsigned_abs());
        self.held += u128::from(now.held) * dt;
        self.in_service += u128::from(now.in_service) * dt;
        self.free += u128::from(now.free) * dt;
        self.partly_free += u128::from(now.partly_free) * dt;
        self.stranded += u128::from(now.stranded) * dt;
        self.hostless += u128::from(now.hostless) * dt;
        for ([fit, together, none], (fits, would)) in self.room.iter_mut().zip(now.room) {
            *fit += u128::from(fits) * dt;
            *together += u128::from(would) * dt;
            *none += u128::from(fits == 0) * dt;
        }
        for ((at_end, gangs), (fits, _)) in self.room_at_end.iter_mut().zip(&mut self.gangs).zip(now.room) {
            if from <= self.record_end {
                *at_end = fits;
            }
            gangs.add(from, to, fits);
        }
        self.queue_jobs.add(from, to, now.waiting);
        self.queue_gpus.add(from, to, now.wanted);
        self.in_use.add(from, to, now.held);
        self.service.add(from, to, now.in_service);
    }

    fn fragmentation(&self, window_ms: i64, hosted: bool) -> Fragmentation {
        let mean = |total: u128| (window_ms > 0).then(|| total as f64 / window_ms as f64 / 1000.0);
        Fragmentation {
            partly_used_share: ratio(self.partly_free, self.free),
            free_gpus: mean(self.free),
            stranded_gpus: mean(self.stranded),
            hostless_gpus: mean(self.hostless).filter(|_| hosted),
            room: self.room(window_ms),
        }
    }

    fn room(&self, window_ms: i64) -> Vec<Room> {
        let of = |((gpus, [fit, together, none]), at_end): ((u32, &[u128; 3]), &u64)| {
            let mean = |total: &u128| *total as f64 / window_ms as f64;
            Room {
                gpus,
                gangs_mean: mean(fit),
                none_share: mean(none),
                gangs_at_end: *at_end,
                gangs_if_together_mean: mean(together),
            }
        };
        let sizes = sweep::GANGS.into_iter().zip(&self.room).zip(&self.room_at_end);
        if window_ms > 0 { sizes.map(of).collect() } else { Vec::new() }
    }

    fn timeline(&self, from_ms: i64) -> Timeline {
        Timeline {
            from_s: from_ms as f64 / 1000.0,
            step_s: self.in_use.step_ms() as f64 / 1000.0,
            queue_jobs: self.queue_jobs.series(1.0),
            queue_gpus: self.queue_gpus.series(1000.0),
            gpus_in_use: self.in_use.series(1000.0),
            gpus_in_service: self.service.series(1000.0),
            gangs: sweep::GANGS.into_iter().zip(&self.gangs).map(|(gpus, of)| (gpus, of.series(1.0))).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
