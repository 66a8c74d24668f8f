//! The replay: jobs come, a policy allocates, rounds are given, steps are made.
//!
//! The contract:
//!
//! 1. Rounds begin at whole multiples of the round's length from time 0. A job that comes within a round waits for the next; where nobody is there, rounds are passed over.
//! 2. At the beginning of a round the policy sees the jobs that were submitted by then and are not done, and nothing of others. It allocates anew if a job came or ended since its last allocation, or every round
//!    if it [asks for that](AllocationPolicy::every_round). An allocation of [shares](Allocated::Shares) is kept for the [least time](RoundOptions::reallocate_ms) that is asked for, unless all
//!    who have a share in it are gone; who comes meanwhile has none and takes what is left over. Jobs of one user divide the weight of each of them by their number.
//!    Policies between users see in every round which users have come so far, and remember them ([`super::user`]).
//! 3. Who gets which type for the round is what the policy says, or, where it gives [shares](Allocated::Shares) of time, the contract of [`super::rounds`].
//! 4. A job makes the steps of its gang on that type, from the beginning of the round on. If it ran before, and not on that type in the round just before, a restart comes first, in which it
//!    holds its GPUs and makes no steps.
//!    Where nodes have processors and memory, its steps are its throughput times the speed of what it holds of these in the round ([`super::host`]). GPUs that the policy would have used, had GPUs alone counted, and does not, are idle for want of the two.
//! 5. A job whose steps are made ends at that moment, to the millisecond, rounded up (but for what sums of floats leave over). Its GPUs are free from the next round on.
//!
//! The **finish-time ratio** of a job is its time from submission to end over the time that it takes alone on its equal share ([`super::policy`]): its steps over (the mean of its equal share while it was there × its mean speed over the
//! fleet). Where others come and go, the share goes up and down, so it is that of this replay.
//!
//! O(rounds × pairs log pairs + allocations × programme). Worked example: in rounds of 6 min a job of 1,000 steps at 2 steps a second, submitted at 0:01, begins at 6:00, and ends at 14:20.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::active::{ActiveJob, equal_shares};
use super::genie::chosen;
use super::host::divide::{Division, HostHeld};
use super::host::tally::{HostRounds, HostTally, InRound};
use super::host::{HostOrder, HostUse, JobAsks, Seated};
use super::job::GangJob;
use super::lease::Leases;
use super::matching::MOST_GPUS;
use super::node::Gang;
use super::policy::{Allocated, AllocationPolicy, First, allocate, in_order};
use super::pool::{JobKind, TypedFleet};
use super::room::GangRoom;
use super::rounds::{Credit, RoundJob, choose};
use super::user::UserShares;
use tracecast_plan::{Error, Result};

/// Most rounds of a replay.
const MOST_ROUNDS: u64 = 10_000_000;
/// Work that is none, but the rounding of sums of floats: milliseconds, and a share of the whole
/// run.
const LEFT_MS: f64 = 1e-6;
const LEFT_SHARE: f64 = 1e-12;

/// How a replay goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundOptions {
    /// Length of a round, milliseconds.
    pub round_ms: i64,
    /// Cost of a start on other GPUs, milliseconds.
    pub restart_ms: i64,
    /// Least time between two allocations of shares, milliseconds.
    pub reallocate_ms: i64,
    /// GPUs of a node, `None` if gangs may lie anywhere within a type.
    pub per_node: Option<u32>,
    /// The part of a user's fair share that `karma` guarantees, 0 to 1.
    pub alpha: f64,
    /// Rounds of a lease under `chronus`.
    pub lease_rounds: u32,
    /// Order in which `proportional`, `synergy_greedy` and `synergy` let jobs into a round.
    pub host_order: HostOrder,
}

impl Default for RoundOptions {
    /// Rounds of 6 min, moves that cost nothing, allocations anew whenever a job comes or ends, gangs that lie anywhere, and half of a fair share guaranteed, leases of three rounds, and least attained service first.
    fn default() -> Self {
        Self {
            round_ms: 360_000,
            restart_ms: 0,
            reallocate_ms: 0,
            per_node: None,
            alpha: 0.5,
            lease_rounds: 3,
            host_order: HostOrder::default(),
        }
    }
}

/// Rounds in a row that a job had on one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stint {
    /// The job, a place in order of submission.
    pub job: usize,
    /// The type.
    pub at: usize,
    /// GPUs.
    pub gpus: u32,
    /// Begin, milliseconds.
    pub from_ms: i64,
    /// End, milliseconds.
    pub to_ms: i64,
    /// Steps made.
    pub steps: f64,
}

/// Results of a replay under a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocationReplay {
    /// End of each job, milliseconds.
    pub ends_ms: Vec<i64>,
    /// Finish-time ratio of each job.
    pub ratios: Vec<f64>,
    /// Stints of all jobs.
    pub stints: Vec<Stint>,
    /// GPU-milliseconds held of each type.
    pub held_ms: Vec<i64>,
    /// Use of processors and memory, `None` if they do not count.
    pub host: Option<HostTally>,
    /// Jobs that were admitted for their deadlines, by number; `None` under a policy that admits nobody.
    pub admitted: Option<BTreeSet<usize>>,
    /// Starts on other GPUs than in the round before, or after a pause.
    pub restarts: u64,
    /// Allocations that were made.
    pub allocations: u64,
    /// Programmes that they took.
    pub programmes: u64,
    /// Time that they took on this machine, seconds, in all and at most.
    pub allocating_s: (f64, f64),
}

/// A job's state.
#[derive(Debug, Clone, Default)]
struct Progress {
    remaining: f64,
    /// Steps made, each over the equal share at the time.
    alone_steps: f64,
    attained_gpu_s: f64,
    on: Option<usize>,
    /// GPUs that it last had, 0 if it never ran.
    gpus: u32,
    /// Equal share × milliseconds, and the milliseconds.
    shared_ms: f64,
    there_ms: f64,
}

/// Replays jobs, in order of submission, under a policy.
///
/// # Errors
/// If the order is another, the policy is for jobs of one GPU and there are others, or a solver fails.
pub fn replay(
    fleet: &TypedFleet,
    jobs: &[GangJob],
    policy: AllocationPolicy,
    options: &RoundOptions,
) -> Result<AllocationReplay> {
    let kinds = checked(fleet, jobs, policy, options)?;
    let mut course = Course::new(fleet, jobs, kinds, policy, options);
    let (mut now, mut next, mut changed, mut rounds_gone) = (0i64, 0, false, 0u64);
    // Whether a job came or ended in the round before, and, as `changed`, since the last allocation.
    let mut moved = false;
    loop {
        if course.active.is_empty() {
            let Some(job) = jobs.get(next) else { break };
            let rounds = job.submit_ms.div_euclid(options.round_ms) + i64::from(job.submit_ms % options.round_ms > 0);
            now = now.max(rounds * options.round_ms);
        }
        while jobs.get(next).is_some_and(|job| job.submit_ms <= now) {
            course.join(next);
            next += 1;
            moved = true;
        }
        changed |= moved;
        if moved {
            course.share_equally();
        }
        if policy.every_round() || changed && !course.keeps(now) {
            course.allocate(now, changed)?;
            changed = false;
        }
        rounds_gone += 1;
        if rounds_gone > MOST_ROUNDS {
            let alone = |job: &usize| rounds_alone(&jobs[*job], course.kinds[*job], options);
            let longest = course.active.iter().copied().max_by(|a, b| alone(a).total_cmp(&alone(b)));
            return Err(endless(&jobs[longest.unwrap_or(0)]));
        }
        let given = course.give()?;
        let held = course.hold(&given)?;
        moved = course.advance(now, &given, &held);
        now += options.round_ms;
    }
    Ok(course.end())
}

/// Rounds that a job takes alone on its fastest type.
fn rounds_alone(job: &GangJob, kind: &JobKind, options: &RoundOptions) -> f64 {
    job.steps / kind.fastest() * 1e3 / options.round_ms as f64
}

fn endless(job: &GangJob) -> Error {
    Error::policy(format!(
        "job `{}` would take the replay beyond {MOST_ROUNDS} rounds; give it fewer steps, or make rounds longer",
        job.name
    ))
}

/// The kind of each job, if what was asked goes together.
fn checked<'a>(
    fleet: &'a TypedFleet,
    jobs: &[GangJob],
    policy: AllocationPolicy,
    options: &RoundOptions,
) -> Result<Vec<&'a JobKind>> {
    if options.round_ms <= 0 || !(0..options.round_ms).contains(&options.restart_ms) {
        return Err(Error::policy("a restart must take less than a round, and a round more than nothing"));
    }
    if !(0.0..=1.0).contains(&options.alpha) {
        return Err(Error::policy("the guaranteed part of a fair share must lie between 0 and 1"));
    }
    if options.lease_rounds == 0 {
        return Err(Error::policy("a lease must last a round or more"));
    }
    if !jobs.is_sorted_by_key(|job| job.submit_ms) {
        return Err(Error::defect("jobs to allocate GPUs to are not in order of submission".to_owned()));
    }
    let kinds = jobs.iter().map(|job| fleet.kinds.get(job.kind)).collect::<Option<Vec<_>>>();
    let kinds = kinds.ok_or_else(|| Error::defect("a job is of a kind that the fleet does not know".to_owned()))?;
    if policy == AllocationPolicy::Allox && kinds.iter().any(|kind| kind.gpus > 1) {
        return Err(Error::policy("allox is for jobs of one GPU; leave it out, or draw jobs without gangs"));
    }
    if policy == AllocationPolicy::Allox && fleet.gpus().iter().sum::<f64>() > MOST_GPUS as f64 {
        return Err(Error::policy(format!("allox is for fleets of at most {MOST_GPUS} GPUs; leave it out")));
    }
    let takes_longest = |(job, kind): &(&GangJob, &&JobKind)| rounds_alone(job, kind, options) > MOST_ROUNDS as f64;
    if let Some((job, _)) = jobs.iter().zip(&kinds).find(takes_longest) {
        return Err(endless(job));
    }
    if policy == AllocationPolicy::Allox && fleet.host.is_some() && jobs.iter().any(asks_exactly) {
        return Err(Error::policy("allox knows no processors and memory; leave it out where jobs need some"));
    }
    Ok(kinds)
}

/// Whether a job gives its needs of processors and memory itself.
fn asks_exactly(job: &GangJob) -> bool {
    matches!(job.host, HostUse::Exactly(_))
}

/// Who decides, and what it remembers.
#[derive(Clone)]
struct Decider<'a> {
    fleet: &'a TypedFleet,
    policy: AllocationPolicy,
    options: RoundOptions,
    users: Option<UserShares>,
    leases: Option<Leases>,
}

impl<'a> Decider<'a> {
    fn new(fleet: &'a TypedFleet, policy: AllocationPolicy, options: &RoundOptions) -> Self {
        let lease_s = seconds(options.round_ms) * f64::from(options.lease_rounds);
        let leases = || Leases::new(lease_s, seconds(options.restart_ms));
        Self {
            fleet,
            policy,
            options: *options,
            users: policy.by_user().then(|| UserShares::new(policy, options.alpha)),
            leases: (policy == AllocationPolicy::Chronus).then(leases),
        }
    }

    /// Whether jobs may have more than their GPUs' share of processors and memory.
    fn takes_best(&self) -> bool {
        self.policy.division() == Division::Best
    }

    fn decide(&mut self, now: i64, seen: &[ActiveJob<'_>], room: &GangRoom) -> Result<Allocated> {
        let (policy, options) = (self.policy, &self.options);
        Ok(match (&mut self.users, &mut self.leases) {
            (Some(users), _) => Allocated::Types(users.round(seen, room)),
            (_, Some(leases)) => Allocated::Types(leases.round(seconds(now), seen, room)?),
            _ if policy == AllocationPolicy::Genie => {
                Allocated::Gangs(chosen(seen, &self.fleet.kinds, room, seconds(options.restart_ms)))
            }
            _ if policy.by_host_order() => {
                let how = (true, self.takes_best());
                Allocated::Types(in_order(First::from(self.options.host_order), how, seen, room))
            }
            _ => allocate(policy, seen, room)?,
        })
    }
}

/// A replay while it runs.
struct Course<'a> {
    fleet: &'a TypedFleet,
    jobs: &'a [GangJob],
    kinds: Vec<&'a JobKind>,
    /// GPUs of each type.
    gpus: Vec<f64>,
    /// The user of each job, and what it weighs.
    owners: Vec<(usize, f64)>,
    asks: Vec<Option<JobAsks>>,
    room: GangRoom,
    /// Room of the nodes where GPUs alone count.
    gpus_alone: GangRoom,
    decider: Decider<'a>,
    host: Option<HostRounds<'a>>,
    credit: Credit,
    /// Jobs that are there and not done.
    active: Vec<usize>,
    state: Vec<Progress>,
    /// Last decision of the policy, and its time.
    allocated: Allocated,
    allocated_ms: i64,
    /// The equal share of each active job.
    equal: Vec<f64>,
    /// Whether processors and memory may keep the policy from a GPU, and, if so, GPUs that it would have used in the round if GPUs alone counted.
    narrow: bool,
    usable: Option<u32>,
    /// The last stint of each job.
    last: Vec<Option<usize>>,
    found: AllocationReplay,
}

impl<'a> Course<'a> {
    fn new(
        fleet: &'a TypedFleet,
        jobs: &'a [GangJob],
        kinds: Vec<&'a JobKind>,
        policy: AllocationPolicy,
        options: &RoundOptions,
    ) -> Self {
        let (gpus, room) = (fleet.gpus(), fleet.room(options.per_node));
        let asks = jobs.iter().zip(&kinds);
        let asks = asks.map(|(job, kind)| Some(JobAsks::new(fleet.host.as_ref()?, job.host, kind.gpus, &room)));
        let begun = |job: &GangJob| Progress { remaining: job.steps, ..Progress::default() };
        Self {
            owners: owners(jobs),
            asks: asks.collect(),
            gpus_alone: GangRoom { host: None, ..room.clone() },
            room,
            decider: Decider::new(fleet, policy, options),
            host: fleet.host.as_ref().map(HostRounds::new),
            credit: Credit::new(jobs.len(), gpus.len()),
            active: Vec::new(),
            state: jobs.iter().map(begun).collect(),
            allocated: Allocated::Types(Vec::new()),
            allocated_ms: 0,
            equal: Vec::new(),
            narrow: false,
            usable: None,
            last: vec![None; jobs.len()],
            found: AllocationReplay {
                ends_ms: vec![0; jobs.len()],
                ratios: vec![0.0; jobs.len()],
                stints: Vec::new(),
                held_ms: vec![0; gpus.len()],
                host: None,
                admitted: None,
                restarts: 0,
                allocations: 0,
                programmes: 0,
                allocating_s: (0.0, 0.0),
            },
            fleet,
            jobs,
            kinds,
            gpus,
        }
    }

    /// Lets a job in. It has no share until the next allocation.
    fn join(&mut self, job: usize) {
        self.active.push(job);
        if let Allocated::Shares(levelled) = &mut self.allocated {
            levelled.shares.push(vec![0.0; self.gpus.len()]);
        }
    }

    /// Whether the last allocation is too young for another one, and still somebody's.
    fn keeps(&self, now: i64) -> bool {
        let Allocated::Shares(levelled) = &self.allocated else { return false };
        let somebody = levelled.shares.iter().flatten().any(|share| *share > 0.0);
        somebody && now - self.allocated_ms < self.decider.options.reallocate_ms
    }

    /// The equal share of each active job, after jobs came or ended.
    fn share_equally(&mut self) {
        let of = |(job, weight): (&usize, f64)| ActiveJob { weight, ..ActiveJob::new(self.kinds[*job], 0.0) };
        let seen: Vec<ActiveJob<'a>> = self.active.iter().zip(weights(self.jobs, &self.active)).map(of).collect();
        self.equal = equal_shares(&seen, &self.gpus);
    }

    /// Asks the policy anew; `changed` if a job came or ended since it was last asked.
    fn allocate(&mut self, now: i64, changed: bool) -> Result<()> {
        let weights = weights(self.jobs, &self.active);
        let of = |(job, weight): (&usize, f64)| {
            let (known, progress) = (&self.jobs[*job], &self.state[*job]);
            ActiveJob {
                kind: self.kinds[*job],
                weight,
                since_s: seconds(now - known.submit_ms),
                remaining: progress.remaining,
                alone_steps: progress.alone_steps,
                attained_gpu_s: progress.attained_gpu_s,
                on: progress.on,
                had_gpus: progress.gpus,
                user: self.owners[*job].0,
                user_weight: self.owners[*job].1,
                job: *job,
                due_s: known.due_ms.map(|due_ms| seconds(due_ms - now)),
                asks: self.asks[*job].as_ref(),
            }
        };
        let seen: Vec<ActiveJob<'_>> = self.active.iter().zip(weights).map(of).collect();
        let exact = || self.active.iter().any(|job| asks_exactly(&self.jobs[*job]));
        self.narrow = self.host.is_some() && (self.decider.takes_best() || exact());
        let before = self.narrow.then(|| self.decider.clone());
        let began = Instant::now();
        let allocated = self.decider.decide(now, &seen, &self.room)?;
        let took_s = began.elapsed().as_secs_f64();
        // Shares of time come true in the round, where they are looked at.
        self.usable = match (&allocated, before) {
            (Allocated::Shares(_), _) | (_, None) => None,
            (_, Some(mut before)) => Some(gpus_given(&before.decide(now, &seen, &self.gpus_alone)?, &seen, self.fleet)),
        };
        let took = self.found.allocating_s;
        self.found.allocating_s = (took.0 + took_s, took.1.max(took_s));
        self.found.allocations += 1;
        if let Allocated::Shares(levelled) = &allocated {
            self.found.programmes += levelled.programmes;
        }
        (self.allocated, self.allocated_ms) = (allocated, now);
        if changed {
            self.credit.begin();
        }
        Ok(())
    }

    /// Which kind each active job runs as in the round that begins, and on which type.
    fn give(&mut self) -> Result<Vec<Option<(usize, usize)>>> {
        let request = |(job, at): (&usize, Option<usize>)| at.map(|at| (self.jobs[*job].kind, at));
        let given: Vec<Option<(usize, usize)>> = match &self.allocated {
            Allocated::Gangs(gangs) => gangs.clone(),
            Allocated::Types(types) => self.active.iter().zip(types.iter().copied()).map(request).collect(),
            Allocated::Shares(levelled) => {
                let gang = |job: usize| Gang {
                    gpus: self.kinds[job].gpus,
                    needs: self.asks[job].as_ref().and_then(|asks| asks.base),
                };
                let round: Vec<RoundJob<'_>> = self
                    .active
                    .iter()
                    .zip(&levelled.shares)
                    .map(|(job, shares)| RoundJob {
                        job: *job,
                        gang: gang(*job),
                        speeds: &self.kinds[*job].steps_per_s,
                        shares,
                    })
                    .collect();
                let knows_types = self.decider.policy.knows_types();
                let given = choose(&round, &self.credit, &self.room, knows_types);
                if self.narrow {
                    let alone = choose(&round, &self.credit, &self.gpus_alone, knows_types);
                    let runs = round.iter().zip(alone).filter(|(_, on)| on.is_some());
                    self.usable = Some(runs.map(|(job, _)| job.gang.gpus).sum());
                }
                self.credit.count(&round, &given);
                self.active.iter().zip(given).map(request).collect()
            }
        };
        if given.iter().all(Option::is_none) && !self.decider.policy.may_idle() {
            return Err(Error::defect(format!("{}: no job has a GPU in a round", self.decider.policy.name())));
        }
        Ok(given)
    }

    /// Divides processors and memory between the active jobs of the round; empty where they do not
    /// count.
    fn hold(&mut self, given: &[Option<(usize, usize)>]) -> Result<Vec<HostHeld>> {
        let Some(host) = &mut self.host else { return Ok(Vec::new()) };
        let of = |(job, gang): (&usize, &Option<(usize, usize)>)| InRound {
            on: gang.map(|(_, at)| at),
            seated: Seated {
                gpus: gang.map_or(0, |(kind, _)| self.fleet.kinds[kind].gpus),
                host: self.jobs[*job].host,
            },
            user: self.owners[*job].0,
        };
        let round: Vec<InRound> = self.active.iter().zip(given).map(of).collect();
        let used: u32 = round.iter().map(|job| job.seated.gpus).sum();
        let idle = self.usable.map_or(0, |usable| usable.saturating_sub(used));
        host.tally.idle_gpu_ms += f64::from(idle) * self.decider.options.round_ms as f64;
        host.round(&round, &self.room, self.decider.policy.division())
    }

    /// Makes the steps of the round; whether a job ended in it.
    fn advance(&mut self, now: i64, given: &[Option<(usize, usize)>], held: &[HostHeld]) -> bool {
        let RoundOptions { round_ms, restart_ms, .. } = self.decider.options;
        let end = now + round_ms;
        let mut ended = false;
        for (place, ((job, gang), equal)) in self.active.iter().copied().zip(given).zip(&self.equal).enumerate() {
            let mut there_ms = round_ms;
            let progress = &mut self.state[job];
            if let Some((kind, at)) = *gang {
                let part = held.get(place).map_or(1.0, |held| held.speed);
                let kind = &self.fleet.kinds[kind];
                let (gpus, speed) = (kind.gpus, kind.steps_per_s[at] * part);
                let restarted = progress.gpus > 0 && (progress.on, progress.gpus) != (Some(at), gpus);
                self.found.restarts += u64::from(restarted);
                let from = now + if restarted { restart_ms } else { 0 };
                let left_ms = LEFT_MS + LEFT_SHARE * self.jobs[job].steps / speed * 1e3;
                let takes_ms = (progress.remaining / speed * 1e3 - left_ms).ceil().max(1.0);
                let (to, steps) = if takes_ms <= (end - from) as f64 {
                    (from + takes_ms as i64, progress.remaining)
                } else {
                    (end, speed * (end - from) as f64 / 1e3)
                };
                progress.remaining =
                    if to < end || takes_ms <= (end - from) as f64 { 0.0 } else { progress.remaining - steps };
                there_ms = to - now;
                progress.alone_steps += steps / equal;
                progress.attained_gpu_s += f64::from(gpus) * seconds(there_ms);
                self.found.held_ms[at] += i64::from(gpus) * there_ms;
                if let Some(host) = &mut self.host {
                    host.count(gpus, there_ms, part);
                }
                let stint = Stint { job, at, gpus, from_ms: now, to_ms: to, steps };
                push(&mut self.found.stints, &mut self.last, stint);
                progress.gpus = gpus;
            }
            progress.on = gang.map(|(_, at)| at);
            progress.shared_ms += equal * there_ms as f64;
            progress.there_ms += there_ms as f64;
            if progress.remaining <= 0.0 {
                let (known, to) = (&self.jobs[job], now + there_ms);
                self.found.ends_ms[job] = to;
                let share = progress.shared_ms / progress.there_ms.max(1.0);
                let mean = self.kinds[job].mean_speed(&self.gpus);
                self.found.ratios[job] = seconds(to - known.submit_ms) / (known.steps / (share * mean));
                ended = true;
            }
        }
        if ended {
            // The shares go with the jobs that stay.
            let stays = |job: usize| self.state[job].remaining > 0.0;
            if let Allocated::Shares(levelled) = &mut self.allocated {
                let mut jobs = self.active.iter();
                levelled.shares.retain(|_| jobs.next().is_some_and(|job| stays(*job)));
            }
            self.active.retain(|job| stays(*job));
        }
        ended
    }

    /// Returns the results.
    fn end(self) -> AllocationReplay {
        let mut found = AllocationReplay { host: self.host.map(|host| host.tally), ..self.found };
        if let Some(leases) = self.decider.leases {
            found.programmes = leases.programmes();
            found.admitted = Some(leases.admitted().clone());
        }
        found
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

/// GPUs that jobs have by what a policy says; none of shares of time, which say nothing of one round.
fn gpus_given(allocated: &Allocated, seen: &[ActiveJob<'_>], fleet: &TypedFleet) -> u32 {
    match allocated {
        Allocated::Types(types) => {
            seen.iter().zip(types).filter(|(_, on)| on.is_some()).map(|(job, _)| job.kind.gpus).sum()
        }
        Allocated::Gangs(gangs) => {
            gangs.iter().flatten().filter_map(|(kind, _)| fleet.kinds.get(*kind)).map(|kind| kind.gpus).sum()
        }
        Allocated::Shares(_) => 0,
    }
}

/// Weights of the jobs that are there, divided among those of one user.
fn weights(jobs: &[GangJob], active: &[usize]) -> Vec<f64> {
    let mut of: BTreeMap<&str, f64> = BTreeMap::new();
    for user in active.iter().filter_map(|job| jobs[*job].user.as_deref()) {
        *of.entry(user).or_default() += 1.0;
    }
    let share = |job: &usize| jobs[*job].user.as_deref().and_then(|user| of.get(user)).copied().unwrap_or(1.0);
    active.iter().map(|job| jobs[*job].weight / share(job)).collect()
}

/// The user of each job, numbered in the order in which they come, and what it weighs: as much as its first job. Jobs without one are one user's.
fn owners(jobs: &[GangJob]) -> Vec<(usize, f64)> {
    let mut known: BTreeMap<Option<&str>, (usize, f64)> = BTreeMap::new();
    let mut result = Vec::with_capacity(jobs.len());
    for job in jobs {
        let next = known.len();
        result.push(*known.entry(job.user.as_deref()).or_insert((next, job.weight)));
    }
    result
}

/// Adds a stint, to the one before of the same job if it goes on on the same type.
fn push(stints: &mut Vec<Stint>, last: &mut [Option<usize>], new: Stint) {
    let before = last[new.job].and_then(|at| stints.get_mut(at));
    if let Some(before) =
        before.filter(|before| (before.at, before.gpus) == (new.at, new.gpus) && before.to_ms == new.from_ms)
    {
        before.to_ms = new.to_ms;
        before.steps += new.steps;
        return;
    }
    last[new.job] = Some(stints.len());
    stints.push(new);
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
