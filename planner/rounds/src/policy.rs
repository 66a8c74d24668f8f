//! The policies: which share of its time each job is to spend on which GPU type.
//!
//! With N GPUs in all, weights w and W their sum over the jobs that are there, job j's **equal share** is `s_j = min(1, w_j·N / (W·n_j))` of its time, on every type by its number of GPUs; its
//! steps a second under it are `E_j = s_j·v_j`, where `v_j = Σ_t T_jt·N_t / N`. Jobs of one user divide the weight of one job.
//!
//! | name | the allocation | knows types | in Gavel |
//! |---|---|---|---|
//! | `fifo` | in order of submission until one does not fit; each keeps its GPUs to the end, of the type with most free | | `fifo` |
//! | `fifo_aware` | the same order; whenever a job comes or ends, each anew the fastest type with room | yes | `fifo_perf` |
//! | `las` | every round, the least attained GPU time over weight first; who does not fit is passed over | | |
//! | `las_aware` | the same order, each on the fastest type with room | yes | |
//! | `max_min` | maximises the least share of time against the equal share, on one pool of all GPUs, spread evenly over the types | | `max_min_fairness` |
//! | `max_min_aware` | maximises the least speed against the equal share: `need_j = E_j` | yes | `max_min_fairness_perf` |
//! | `finish_time` | minimises the worst finish-time ratio on one pool, as if all GPUs were of the first type on which the job runs, spread evenly over the types | | `finish_time_fairness` |
//! | `finish_time_aware` | minimises ρ, the worst of `(t_j + r_j / speed_j) / D_j` | yes | `finish_time_fairness_perf` |
//! | `makespan` | minimises the greatest `r_j / speed_j`: `need_j = r_j` | yes | `min_total_duration` |
//! | `allox` | the matching of jobs with places in the queues of GPUs that makes the sum of completion times least; jobs of one GPU | yes | `allox` |
//! | `trading` | equal shares, and then trades of fast GPU time for more slow time between those whom it serves most and least | yes | |
//! | `partition` | every user has at most its fair share of the GPUs | | |
//! | `user_max_min` | max-min fairness between users, of each round alone | | |
//! | `karma` | the same with credits that users earn by leaving GPUs to others | | |
//! | `edf` | the nearest deadline first, on the fastest type with room; then jobs without one, or whose deadline has passed, in order of submission; who does not fit is passed over | yes | |
//! | `genie` | jobs with deadlines get the fewest GPUs that meet them, who can wait least first; the others what they asked for | yes | |
//! | `drf` | dominant shares of GPUs, processors and memory are made equal between users | | |
//! | `chronus` | jobs whose deadlines can be met are admitted and get leases by a programme; the others run in the gaps | yes | |
//! | `proportional` | in an order that is asked for, on the fastest type with room, with the GPUs' share of processors and memory | yes | |
//! | `synergy_greedy` | the same order, with the best demand of these; who finds too little of these is passed over | yes | |
//! | `synergy` | as `proportional`, with the best demand where it fits, and never slower | yes | |
//!
//! t_j is the time since submission and r_j the steps left. **Finish-time fairness** is the objective of Themis (Mahajan et al., NSDI 2020). D_j is how long the job takes alone on its equal share, at v_j: each step that it made
//! at the equal share of its time, and the rest at the present one. The needs go into the [programme](super::programme); for a given ρ it is that with `need_j = r_j / (ρ·D_j − t_j)`. The equal share shows a ρ that can be
//! had. The z at some ρ gives a smaller ρ that can be had, the worst ratio of that allocation, and one that cannot be undercut, `min_j (τ_j + (ρ − τ_j) / z)` with
//! `τ_j = t_j / D_j`; the search ends when the two are within a thousandth.
//!
//! On one pool, where no type is known, no programme is needed. Every job is to have what a level asks for, and the level is the greatest at which all fit: `level·s_j` for `max_min`, and
//! `r_j / ((D_j / level − t_j)·v_j)` for `finish_time`. Who would need more than all of its time for its level has all of its time, and the others go on.
//!
//! The objectives, and what is known without types, are those of Gavel's policies of these names. Its `fifo` is another: it draws a type for each job and does not use what it drew, so nearly all jobs queue for one type.
//! AlloX (Le et al., EuroSys 2020) and the trades of Gandiva-fair (Chaudhary et al., EuroSys 2020) stand in [`super::matching`] and [`super::trade`]; the three policies between users, which remember earlier rounds, in [`super::user`] and [`super::karma`], GENIE in [`super::genie`] and Chronus in [`super::lease`]. Only `edf`, `genie` and `chronus` know deadlines, and only `genie` changes how many GPUs a job has. `drf` and the last three are about processors and memory, and stand in [`super::host`]; under all others a job holds its GPUs' share of these. Where GPUs alone count, dominant resource fairness of jobs
//! is `max_min`.
//!
//! Worked example: as in the [programme](super::programme), three jobs on a V100 and a K80: `max_min` gives each two thirds of its time, half of that on each type; `max_min_aware` gives each 1.2 times the steps of that.

use schemars::JsonSchema;
use serde::Serialize;

use super::active::{ActiveJob, equal_shares};
use super::host::HostOrder;
use super::host::divide::Division;
use super::matching::matched;
use super::programme::{Claim, Levelled, level_alone, levelled};
use super::room::GangRoom;
use super::trade::traded;
use tracecast_plan::{Error, Result};

/// How far apart the bounds of the worst finish-time ratio may be, a share.
const RATIO_GAP: f64 = 1e-3;
/// Most programmes for one finish-time fair allocation.
const RATIO_STEPS: usize = 12;

/// A policy of allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllocationPolicy {
    /// In order of submission.
    Fifo,
    /// In order of submission, on the fastest type with room.
    FifoAware,
    /// Least attained service.
    Las,
    /// Least attained service, on the fastest type with room.
    LasAware,
    /// Max-min fairness of time.
    MaxMin,
    /// Max-min fairness of speed.
    MaxMinAware,
    /// Finish-time fairness by mean speeds.
    FinishTime,
    /// Finish-time fairness.
    FinishTimeAware,
    /// Least makespan.
    Makespan,
    /// `AlloX`: the matching with the least sum of completion times.
    Allox,
    /// Gandiva-fair: equal shares with trades.
    Trading,
    /// Each user within its fair share.
    Partition,
    /// Max-min fairness between users, round by round.
    UserMaxMin,
    /// Karma: max-min fairness between users, with credits.
    Karma,
    /// Dominant resource fairness between users.
    Drf,
    /// Earliest deadline first, best effort in the gaps.
    Edf,
    /// GENIE: the fewest GPUs that meet a deadline.
    Genie,
    /// Chronus: admission and leases for jobs with deadlines.
    Chronus,
    /// In an order, with GPUs' shares of processors and memory.
    Proportional,
    /// In an order, with best demands of processors and memory; jobs that find too little of these
    /// are passed over.
    SynergyGreedy,
    /// Synergy: in an order, with best demands where they fit, and never less than the share is
    /// worth.
    Synergy,
}

impl AllocationPolicy {
    /// All of them, as they are listed.
    pub const ALL: [Self; 21] = [
        Self::Fifo,
        Self::FifoAware,
        Self::Las,
        Self::LasAware,
        Self::MaxMin,
        Self::MaxMinAware,
        Self::FinishTime,
        Self::FinishTimeAware,
        Self::Makespan,
        Self::Allox,
        Self::Trading,
        Self::Partition,
        Self::UserMaxMin,
        Self::Karma,
        Self::Drf,
        Self::Edf,
        Self::Genie,
        Self::Chronus,
        Self::Proportional,
        Self::SynergyGreedy,
        Self::Synergy,
    ];
    /// Names of the policies.
    pub const NAMES: [&'static str; 21] = [
        "fifo",
        "fifo_aware",
        "las",
        "las_aware",
        "max_min",
        "max_min_aware",
        "finish_time",
        "finish_time_aware",
        "makespan",
        "allox",
        "trading",
        "partition",
        "user_max_min",
        "karma",
        "drf",
        "edf",
        "genie",
        "chronus",
        "proportional",
        "synergy_greedy",
        "synergy",
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|other| *other == self).unwrap_or_default();
        Self::NAMES.get(at).copied().unwrap_or_default()
    }

    /// The policy of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name);
        let unknown = || Error::unknown("policy of allocation", name.to_owned(), &Self::NAMES);
        at.and_then(|at| Self::ALL.get(at).copied()).ok_or_else(unknown)
    }

    /// Whether the policy knows how fast a job is on each type.
    pub fn knows_types(self) -> bool {
        !matches!(self, Self::Fifo | Self::Las | Self::MaxMin | Self::FinishTime) && !self.by_user()
    }

    /// Whether the policy gives GPUs to users, and remembers them from round to round
    /// ([`super::user`]).
    pub fn by_user(self) -> bool {
        matches!(self, Self::Partition | Self::UserMaxMin | Self::Karma | Self::Drf)
    }

    /// Whether the policy knows deadlines.
    pub fn by_deadline(self) -> bool {
        matches!(self, Self::Edf | Self::Genie | Self::Chronus)
    }

    /// Whether the policy divides processors and memory ([`super::host`]).
    pub fn by_host(self) -> bool {
        self == Self::Drf || self.by_host_order()
    }

    /// Whether the policy lets jobs into rounds by the [requested
    /// order](super::replay::RoundOptions::host_order).
    pub fn by_host_order(self) -> bool {
        matches!(self, Self::Proportional | Self::SynergyGreedy | Self::Synergy)
    }

    /// How it divides processors and memory.
    pub fn division(self) -> Division {
        match self {
            Self::Synergy => Division::Tuned,
            Self::SynergyGreedy | Self::Drf => Division::Best,
            _ => Division::Shares,
        }
    }

    /// Whether the policy changes how many GPUs a job has, so that bounds for the GPUs requested do
    /// not hold for it.
    pub fn resizes(self) -> bool {
        self == Self::Genie
    }

    /// Whether the policy remembers earlier rounds or goes by options of the replay, so that it
    /// decides in a [replay](mod@super::replay) alone.
    pub fn remembers(self) -> bool {
        self.by_user() || self.by_host_order() || self == Self::Chronus
    }

    /// Whether the policy gives shares of time, which may be kept for a while.
    pub fn shares(self) -> bool {
        use AllocationPolicy as P;
        let fair = matches!(self, P::MaxMin | P::MaxMinAware | P::FinishTime | P::FinishTimeAware);
        fair || matches!(self, P::Makespan | P::Trading)
    }

    /// Whether there may be rounds in which nobody has a GPU though somebody waits.
    pub fn may_idle(self) -> bool {
        self == Self::Partition
    }

    /// Whether the policy decides anew every round, and not only when a job comes or ends.
    pub fn every_round(self) -> bool {
        matches!(self, Self::Las | Self::LasAware | Self::Edf) || self.remembers()
    }
}

/// Decision of a policy for the jobs that are there.
#[derive(Debug, Clone, PartialEq)]
pub enum Allocated {
    /// Shares of time, which [rounds](super::rounds) bring about.
    Shares(Levelled),
    /// The type that each job has, round after round.
    Types(Vec<Option<usize>>),
    /// The kind, which says how many GPUs, and the type that each job has, round after round.
    Gangs(Vec<Option<(usize, usize)>>),
}

/// The allocation of a policy to the jobs that are there.
///
/// # Errors
/// If the policy remembers earlier rounds or changes gangs, so that it decides in a [replay](mod@super::replay) alone, or a solver fails, which no input should bring about.
pub fn allocate(policy: AllocationPolicy, active: &[ActiveJob<'_>], room: &GangRoom) -> Result<Allocated> {
    use AllocationPolicy as P;
    let gpus: &[f64] = &room.gpus.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let equal = || -> Vec<f64> {
        let shares = equal_shares(active, gpus);
        active.iter().zip(shares).map(|(job, share)| share * job.kind.mean_speed(gpus)).collect()
    };
    Ok(Allocated::Shares(match policy {
        P::Fifo => return Ok(Allocated::Types(in_order(First::Running, (false, false), active, room))),
        P::FifoAware => return Ok(Allocated::Types(in_order(First::Submitted, (true, false), active, room))),
        P::Las | P::LasAware => {
            return Ok(Allocated::Types(in_order(First::LeastServed, (policy.knows_types(), false), active, room)));
        }
        P::Edf => return Ok(Allocated::Types(in_order(First::NearestDue, (true, false), active, room))),
        P::Allox => return Ok(Allocated::Types(matched(active, gpus))),
        P::MaxMin => {
            let equal = equal_shares(active, gpus);
            spread(active, gpus, &poured(active, gpus, &|at, level| level * equal.get(at).unwrap_or(&0.0)))
        }
        P::MaxMinAware => levelled(&claims(active, &equal()), gpus)?,
        P::FinishTime => {
            let speeds: Vec<f64> = active.iter().map(|job| job.kind.first_speed()).collect();
            let alone = alone_s(active, gpus, &speeds);
            // A ratio of 1 over the level; who cannot have it any more takes all of its time.
            let share = |at: usize, level: f64| -> Option<f64> {
                let (job, alone, speed) = (active.get(at)?, alone.get(at)?, speeds.get(at)?);
                let left_s = alone / level - job.since_s;
                Some(if left_s > 0.0 { job.remaining / (left_s * speed) } else { 1.0 })
            };
            spread(active, gpus, &poured(active, gpus, &|at, level| share(at, level).unwrap_or(0.0)))
        }
        P::FinishTimeAware => finish_time(active, &equal(), gpus)?,
        P::Makespan => {
            let needs: Vec<f64> = active.iter().map(|job| job.remaining).collect();
            levelled(&claims(active, &needs), gpus)?
        }
        P::Trading => Levelled { shares: traded(active, gpus), ..Levelled::default() },
        P::Partition
        | P::UserMaxMin
        | P::Karma
        | P::Drf
        | P::Chronus
        | P::Genie
        | P::Proportional
        | P::SynergyGreedy
        | P::Synergy => {
            return Err(Error::defect(format!("{} was asked outside of a replay", policy.name())));
        }
    }))
}

fn claims(active: &[ActiveJob<'_>], needs: &[f64]) -> Vec<Claim> {
    active.iter().zip(needs).map(|(job, need)| job.claim(need.max(1e-12))).collect()
}

/// Halvings of a level until it is known as well as floats know it.
const HALVINGS: usize = 100;

/// Shares of one pool of all GPUs, by the greatest level at which they fit; `share` says what a job is to have at a level, and may only grow with it.
fn poured(active: &[ActiveJob<'_>], gpus: &[f64], share: &dyn Fn(usize, f64) -> f64) -> Vec<f64> {
    let all: f64 = gpus.iter().sum();
    let at = |level: f64| -> Vec<f64> { (0..active.len()).map(|job| share(job, level).clamp(0.0, 1.0)).collect() };
    let fits = |level: f64| active.iter().zip(at(level)).map(|(job, share)| job.gpus() * share).sum::<f64>() <= all;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        if !fits(high) {
            break;
        }
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    at(low)
}

/// Shares of one pool, spread over the types on which each job runs by their numbers of GPUs.
fn spread(active: &[ActiveJob<'_>], gpus: &[f64], pool: &[f64]) -> Levelled {
    let of = |(job, share): (&ActiveJob<'_>, &f64)| -> Vec<f64> {
        let runs: Vec<f64> =
            job.kind.steps_per_s.iter().zip(gpus).map(|(speed, gpus)| if *speed > 0.0 { *gpus } else { 0.0 }).collect();
        let all: f64 = runs.iter().sum();
        runs.iter().map(|gpus| share * gpus / all).collect()
    };
    let mut shares: Vec<Vec<f64>> = active.iter().zip(pool).map(of).collect();
    // Jobs that run on some types only may crowd these.
    for (at, gpus) in gpus.iter().enumerate() {
        let used: f64 =
            active.iter().zip(&shares).map(|(job, shares)| job.gpus() * shares.get(at).unwrap_or(&0.0)).sum();
        if used > *gpus {
            let shares = shares.iter_mut().filter_map(|shares| shares.get_mut(at));
            shares.for_each(|share| *share *= gpus / used);
        }
    }
    Levelled { shares, ..Levelled::default() }
}

/// Computes the time of each job alone on its equal share at some speeds, seconds: past steps at
/// the past shares, and the rest at the present one.
fn alone_s(active: &[ActiveJob<'_>], gpus: &[f64], speeds: &[f64]) -> Vec<f64> {
    let of = |((job, share), speed): ((&ActiveJob<'_>, f64), &f64)| (job.alone_steps + job.remaining / share) / speed;
    active.iter().zip(equal_shares(active, gpus)).zip(speeds).map(of).collect()
}

/// The allocation with the least worst finish-time ratio, by programmes of needs; `equal` is the speed of each on its equal share.
fn finish_time(active: &[ActiveJob<'_>], equal: &[f64], gpus: &[f64]) -> Result<Levelled> {
    let speeds: Vec<f64> = active.iter().map(|job| job.kind.mean_speed(gpus)).collect();
    let alone = alone_s(active, gpus, &speeds);
    let since: Vec<f64> = active.iter().zip(&alone).map(|(job, alone)| job.since_s / alone).collect();
    let needs = |ratio: f64| -> Vec<f64> {
        active.iter().zip(&alone).map(|(job, alone)| job.remaining / (ratio * alone - job.since_s)).collect()
    };
    let floor = since.iter().copied().fold(0.0, f64::max);
    // The ratio of the equal share can be had; in parts of many jobs it may be a little more.
    let ratios = active.iter().zip(equal).zip(&alone);
    let shared = ratios.map(|((job, equal), alone)| (job.since_s + job.remaining / equal) / alone);
    let (mut low, mut high, mut ratio) = (floor, f64::INFINITY, shared.fold(0.0, f64::max).max(floor + 1e-9));
    let mut programmes = 0;
    for _ in 0..RATIO_STEPS {
        let result = level_alone(&claims(active, &needs(ratio)), gpus)?;
        programmes += result.programmes;
        // What z allows: at most this by the allocation at hand, and no less than that by any.
        let at = |since: &f64| since + (ratio - since) / result.level;
        high = high.min(since.iter().map(at).fold(0.0, f64::max));
        low = low.max(since.iter().map(at).fold(f64::INFINITY, f64::min)).min(high);
        if high - low <= RATIO_GAP * high {
            break;
        }
        ratio = f64::midpoint(low.max(floor + 1e-9), high);
    }
    let mut result = levelled(&claims(active, &needs(high.max(floor + 1e-9))), gpus)?;
    result.programmes += programmes;
    Ok(result)
}

/// Priority of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Running jobs first, then by submission; nobody passes a job that does not fit.
    Running,
    /// By submission; nobody passes a job that does not fit.
    Submitted,
    /// Least GPU time over weight first.
    LeastServed,
    /// Earliest deadline first.
    NearestDue,
    /// Shortest remaining time first, alone on the fastest type.
    ShortestLeft,
}

impl From<HostOrder> for First {
    fn from(order: HostOrder) -> Self {
        match order {
            HostOrder::Fifo => Self::Submitted,
            HostOrder::Las => Self::LeastServed,
            HostOrder::Srtf => Self::ShortestLeft,
        }
    }
}

/// Jobs one by one on one type each, on the fastest with room if types are `known`, and by their `best` demands of processors and memory or by what they need.
pub(super) fn in_order(
    first: First,
    (known, best): (bool, bool),
    active: &[ActiveJob<'_>],
    room: &GangRoom,
) -> Vec<Option<usize>> {
    let mut open = room.open();
    let mut result = vec![None; active.len()];
    let mut order: Vec<usize> = (0..active.len()).collect();
    let attained = |at: &usize| active.get(*at).map_or(0.0, |job| job.attained_gpu_s / job.weight);
    let left = |at: &usize| active.get(*at).map_or(0.0, |job| job.remaining / job.kind.fastest());
    let due =
        |at: &usize| active.get(*at).and_then(|job| job.due_s.filter(|due_s| *due_s > 0.0)).unwrap_or(f64::INFINITY);
    match first {
        // Who runs goes on, before anybody else is let in.
        First::Running => order.sort_by_key(|at| (active.get(*at).is_none_or(|job| job.on.is_none()), *at)),
        First::Submitted => {}
        First::NearestDue => order.sort_by(|a, b| due(a).total_cmp(&due(b)).then(a.cmp(b))),
        First::LeastServed => order.sort_by(|a, b| attained(a).total_cmp(&attained(b)).then(a.cmp(b))),
        First::ShortestLeft => order.sort_by(|a, b| left(a).total_cmp(&left(b)).then(a.cmp(b))),
    }
    for at in order {
        let (Some(job), Some(slot)) = (active.get(at), result.get_mut(at)) else { continue };
        let mut types = open.types(&job.kind.steps_per_s, known);
        // The type that it has comes first.
        types.sort_by_key(|other| known || job.on != Some(*other));
        *slot = types.iter().copied().find(|at| open.take(*at, job.gang(*at, best)));
        if slot.is_none() && matches!(first, First::Running | First::Submitted) {
            // Best demands of processors and memory are passed over where they do not fit; too few GPUs hold up everybody.
            let narrow = best && types.iter().any(|at| open.has_gpus(*at, job.kind.gpus));
            if !narrow {
                break;
            }
        }
    }
    result
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
