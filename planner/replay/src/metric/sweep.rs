//! One walk through a finished schedule, from which delay by cause, utilisation, fragmentation and the timelines come.
//!
//! The causes are defined in [`delay`](super::delay).
//!
//! Jobs of one VC and shape have the same cause at the same moment, so the walk keeps four clocks for each such *class* and
//! reads them when a job joins and leaves the queue. A class's cause can change only when something happens in its pool,
//! except between capacity and quota, which turn on what is free elsewhere; that is kept as one more clock for each shape.
//! An instant so costs O(shapes + classes that wait in the pools where something happened). Times are whole milliseconds
//! and amounts whole thousandths of a GPU, so the causes of a job add up to its wait exactly.
//!
//! Complexity: O(n log n + events × shapes), about 110 bytes a job: three events and four clocks.
//!
//! Worked number: two VCs of 8 GPUs on nodes of their own, one empty, the other with jobs of 6 GPUs (0–100 s). A job of 4 of
//! the second VC that comes at 10 s waits 90 s for quota. Had the VCs one pool, it would not wait.

use super::host::least;
use super::limit::{LimitWait, Reasons};
use super::near::{Nearby, Verdict};
use super::queues::Queues;
use super::quota::QuotaUse;
use super::state::{Looked, State};
use super::times::JobTimes;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::schedule::{Outcome, Schedule, Stop};
use tracecast_sim::workload::{Shape, Workload};

/// Sizes of gangs whose room is kept, GPUs: a node, two nodes and eight of the usual ones.
pub(super) const GANGS: [u32; 3] = [8, 16, 64];

/// Causes, in the order of [`Cause::ALL`](super::delay::Cause::ALL), limits, the topology, processors and memory.
pub(super) const CAUSES: usize = 8;
const CAPACITY: usize = 0;
const QUOTA: usize = 1;
const FRAGMENTATION: usize = 2;
const HEAD_OF_LINE: usize = 3;
const LIMIT: usize = 4;
pub(super) const TOPOLOGY: usize = 5;
const PROCESSORS: usize = 6;
const MEMORY: usize = 7;

/// An event; variants in the order of the engine within an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Release(u32),
    Repair(u32),
    Lost(u32),
    Fail(u32),
    Resize { group: u32, size: u32 },
    Quota { vc: u16, quota: u32 },
    Join(u32),
    Preempted(u32),
    Start(u32),
}

/// State over a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// Jobs that wait.
    pub(super) waiting: u64,
    /// Amount that waiting jobs ask for, thousandths of a GPU.
    pub(super) wanted: u64,
    /// Held, thousandths.
    pub(super) held: u64,
    /// In service, thousandths.
    pub(super) in_service: u64,
    /// Free, thousandths.
    pub(super) free: u64,
    /// Free on nodes that hold a job, thousandths.
    pub(super) partly_free: u64,
    /// Free in pools in which a job waits for nothing but fragmentation, thousandths.
    pub(super) stranded: u64,
    /// Free on nodes whose processors or memory left hold not one GPU of any job, thousandths.
    pub(super) hostless: u64,
    /// By size of [`GANGS`]: gangs that would fit, and that the free GPUs of each pool would make if they lay together.
    pub(super) room: [(u64, u64); GANGS.len()],
}

/// Jobs of one VC and shape.
#[derive(Debug, Clone, Copy)]
struct Class {
    vc: usize,
    shape: usize,
    waiting: u32,
    cause: usize,
    listed: bool,
    clocks: [i64; CAUSES],
    /// The shape's clock when the class's clocks were last brought up.
    short: i64,
}

#[derive(Debug, Clone, Default)]
struct Pool {
    /// Classes that wait.
    waiting: Vec<u32>,
    at: i64,
    stranded: u64,
    room: [(u64, u64); GANGS.len()],
    touched: bool,
}

struct Walk<'a> {
    workload: &'a Workload,
    cluster: &'a Cluster,
    schedule: &'a Schedule,
    state: State,
    classes: Vec<Class>,
    pools: Vec<Pool>,
    used: Vec<u64>,
    quota: Vec<Option<u64>>,
    /// By shape: for how long the whole cluster has had less free than it asks for.
    short: Vec<i64>,
    /// By job: its class's clocks at each leaving less those at each joining.
    causes: Vec<[i64; CAUSES]>,
    queued: Vec<bool>,
    now: Moment,
    /// Quotas in cohorts, if the cluster has them.
    queues: Option<Queues<'a>>,
    /// Limits by QOS and account, if the cluster has them: jobs of a class then share these and the user as well.
    reasons: Option<Reasons<'a>>,
    /// Blocks and racks, if jobs ask for such.
    nearby: Option<Nearby>,
    /// Whether processors or memory may keep a job from starting.
    hosted: bool,
}

/// Results of a walk.
pub(super) struct Walked {
    /// How long each counted job waited for each cause, milliseconds; a job that never started waits to the end.
    pub(super) causes: Vec<[i64; CAUSES]>,
    /// Use of each queue's quota; none without cohorts.
    pub(super) quotas: Vec<QuotaUse>,
    /// How long jobs waited for each limit; none without limits.
    pub(super) limits: Vec<LimitWait>,
}

/// Walks from `from` to `to`, telling `visit` of every stretch: (start, end, what is so).
pub(super) fn walk(
    workload: &Workload,
    cluster: &Cluster,
    schedule: &Schedule,
    times: &JobTimes,
    (from, to): (i64, i64),
    mut visit: impl FnMut(i64, i64, &Moment),
) -> Walked {
    let mut walk = Walk::new(workload, cluster, schedule, times);
    let events = walk.events(times);
    let mut last = i64::MIN;
    let mut rest = events.as_slice();
    let mut instant: Vec<Event> = Vec::new();
    while let Some((at, _)) = rest.first().copied() {
        if at > to {
            break;
        }
        // Few happen at one instant: to look for its end in all that is left would touch memory all over.
        let same = rest.iter().take_while(|(other, _)| *other == at).count();
        let (now, later) = rest.split_at(same);
        rest = later;
        if last > i64::MIN {
            walk.pass(at - last);
            if at > from {
                visit(last.max(from), at, &walk.now);
            }
        }
        walk.pass_quotas(last.max(0), at, from);
        instant.clear();
        instant.extend(now.iter().map(|(_, event)| *event));
        walk.happen(at, &instant);
        last = at;
    }
    if last > i64::MIN && to > last {
        walk.pass(to - last);
        visit(last.max(from), to, &walk.now);
        walk.pass_quotas(last, to, from);
    }
    walk.finish(to);
    let quotas = walk.queues.as_ref().map_or_else(Vec::new, |queues| queues.figures(to - from));
    let limits = walk.reasons.as_ref().map_or_else(Vec::new, |reasons| reasons.figures(cluster, schedule));
    Walked { causes: walk.causes, quotas, limits }
}

impl<'a> Walk<'a> {
    fn new(workload: &'a Workload, cluster: &'a Cluster, schedule: &'a Schedule, times: &JobTimes) -> Self {
        let shapes = workload.shapes.len();
        let class = |(vc, shape): (usize, usize)| Class {
            vc,
            shape,
            waiting: 0,
            cause: HEAD_OF_LINE,
            listed: false,
            clocks: [0; CAUSES],
            short: 0,
        };
        let reasons = Reasons::new(workload, cluster);
        let classes = match &reasons {
            Some(reasons) => reasons.classes(workload).map(class).collect(),
            None => (0..cluster.vcs.len() * shapes).map(|at| class((at / shapes.max(1), at % shapes.max(1)))).collect(),
        };
        Self {
            workload,
            cluster,
            schedule,
            state: State::new(cluster).for_least(least(workload, cluster, schedule, times)),
            hosted: cluster.counts_hosts(workload),
            classes,
            pools: vec![Pool::default(); cluster.pools.len()],
            used: vec![0; cluster.vcs.len()],
            quota: vec![None; cluster.vcs.len()],
            short: vec![0; shapes],
            causes: vec![[0; CAUSES]; workload.len()],
            queued: vec![false; workload.len()],
            now: Moment::default(),
            queues: Queues::of(cluster),
            reasons,
            nearby: Nearby::new(workload, cluster),
        }
    }

    /// Time of the window passes for the figures of quotas.
    fn pass_quotas(&mut self, since: i64, to: i64, from: i64) {
        if let Some(queues) = &mut self.queues {
            queues.pass(since, to, from, self.now.in_service);
        }
    }

    /// All events in order; sets what is so at time 0.
    fn events(&mut self, times: &JobTimes) -> Vec<(i64, Event)> {
        let mut events = Vec::with_capacity(3 * self.workload.len());
        let groups = self.cluster.pools.iter().flat_map(|pool| &pool.groups);
        for (group, spec) in (0u32..).zip(groups) {
            let current = spec.sizes.partition_point(|(from, _)| *from <= 0).saturating_sub(1);
            if let Some((_, nodes)) = spec.sizes.get(current) {
                self.state.resize(group as usize, *nodes);
            }
            let later = (0u32..).zip(&spec.sizes).skip(current + 1);
            events.extend(later.map(|(size, (from, _))| (*from, Event::Resize { group, size })));
        }
        for (vc, spec) in (0u16..).zip(&self.cluster.vcs) {
            let current = spec.quota_milli.partition_point(|(from, _)| *from <= 0).saturating_sub(1);
            if let Some(quota) = self.quota.get_mut(usize::from(vc)) {
                *quota = spec.quota_milli.get(current).map(|(_, amount)| *amount);
            }
            let later = (0u32..).zip(&spec.quota_milli).skip(current + 1);
            events.extend(later.map(|(quota, (from, _))| (*from, Event::Quota { vc, quota })));
        }
        for outage in self.cluster.outages.iter().filter(|outage| outage.to_ms > 0) {
            events.push((outage.from_ms.max(0), Event::Fail(outage.node)));
            events.push((outage.to_ms, Event::Repair(outage.node)));
        }
        for (job, submit) in (0u32..).zip(&self.workload.submit_ms) {
            let rejected = self.schedule.outcome.get(job as usize) == Some(&Outcome::Rejected);
            if times.is_counted(job as usize) && !rejected {
                events.push(((*submit).max(0), Event::Join(job)));
            }
        }
        for (segment, record) in (0u32..).zip(&self.schedule.segments) {
            // Started and stopped at one instant (after a job of length zero two decisions follow each other): it waits on.
            if record.end_ms <= record.start_ms && record.stop != Stop::Done {
                continue;
            }
            events.push((record.start_ms, Event::Start(segment)));
            if record.end_ms > record.start_ms {
                let end = match record.stop {
                    Stop::Done => Event::Release(segment),
                    Stop::Failed => Event::Lost(segment),
                    Stop::Preempted => Event::Preempted(segment),
                };
                events.push((record.end_ms, end));
            }
            if record.stop != Stop::Done && times.is_counted(record.job as usize) {
                events.push((record.end_ms, Event::Join(record.job)));
            }
        }
        events.sort_unstable();
        self.note();
        for pool in 0..self.pools.len() {
            self.make_room(pool);
        }
        events
    }

    /// Time passes and nothing happens.
    fn pass(&mut self, dt: i64) {
        for (short, shape) in self.short.iter_mut().zip(&self.workload.shapes) {
            if self.state.cluster_free(*shape) < shape.amount() {
                *short += dt;
            }
        }
    }

    /// The events of one instant.
    fn happen(&mut self, at: i64, events: &[Event]) {
        let mut touched: Vec<usize> = Vec::new();
        for event in events {
            let Some(pool) = self.pool_of(*event) else { continue };
            if let Some(known) = self.pools.get_mut(pool)
                && !known.touched
            {
                known.touched = true;
                touched.push(pool);
            }
        }
        if self.reasons.is_some() && !touched.is_empty() {
            // Limits are of all pools.
            touched = (0..self.pools.len()).collect();
        }
        for pool in &touched {
            self.bring_up(*pool, at);
        }
        for event in events {
            self.apply(*event);
        }
        for pool in &touched {
            self.judge(*pool);
        }
        self.note();
    }

    fn pool_of(&self, event: Event) -> Option<usize> {
        let of_vc = |vc: u16| self.cluster.vcs.get(usize::from(vc)).map(|vc| usize::from(vc.pool));
        let of_job = |job: u32| self.workload.vc.get(job as usize).copied().and_then(of_vc);
        match event {
            Event::Release(segment) | Event::Lost(segment) | Event::Preempted(segment) | Event::Start(segment) => {
                of_job(self.schedule.segments.get(segment as usize)?.job)
            }
            Event::Join(job) => of_job(job),
            Event::Quota { vc, .. } => of_vc(vc),
            Event::Repair(node) | Event::Fail(node) => self.state.pool_of(node),
            Event::Resize { group, .. } => {
                let mut left = group as usize;
                self.cluster.pools.iter().position(|pool| {
                    let here = left < pool.groups.len();
                    left = left.wrapping_sub(pool.groups.len());
                    here
                })
            }
        }
    }

    /// Brings the clocks of the classes that wait in a pool up to `at`.
    fn bring_up(&mut self, pool: usize, at: i64) {
        let Some(pool) = self.pools.get_mut(pool) else { return };
        let dt = at - pool.at;
        pool.at = at;
        for class_ix in &pool.waiting {
            let Some(class) = self.classes.get_mut(*class_ix as usize) else { continue };
            let total = self.short.get(class.shape).copied().unwrap_or(0);
            if class.cause == LIMIT
                && let Some(reasons) = &mut self.reasons
            {
                reasons.pass(*class_ix, dt);
            }
            if class.cause == QUOTA {
                let short = total - class.short;
                class.clocks[CAPACITY] += short;
                class.clocks[QUOTA] += dt - short;
            } else if let Some(clock) = class.clocks.get_mut(class.cause) {
                *clock += dt;
            }
            class.short = total;
        }
    }

    /// Finds anew what the classes of a pool wait for.
    fn judge(&mut self, pool_ix: usize) {
        let Some(pool) = self.pools.get_mut(pool_ix) else { return };
        if let Some(queues) = &mut self.queues {
            queues.settle(self.now.in_service);
        }
        pool.touched = false;
        let mut fragmented = false;
        let (classes, state, reasons, hosted) = (&mut self.classes, &self.state, &mut self.reasons, self.hosted);
        pool.waiting.retain(|ix| {
            let Some(class) = classes.get_mut(*ix as usize) else { return false };
            if class.waiting == 0 {
                class.listed = false;
                return false;
            }
            let shape = self.workload.shapes.get(class.shape).copied().unwrap_or_default();
            let amount = shape.amount();
            let used = self.used.get(class.vc).copied().unwrap_or(0);
            let quota = self.quota.get(class.vc).copied().flatten();
            let over = quota.is_some_and(|quota| used + amount > quota)
                || self.queues.as_ref().is_some_and(|queues| queues.lacks(class.vc, shape));
            let limited = reasons.as_mut().is_some_and(|reasons| reasons.judge(*ix, self.workload, pool.at));
            let nearby = self.nearby.as_ref().filter(|nearby| nearby.concerns(shape));
            let near = nearby.map(|nearby| nearby.judge(state, pool_ix, shape, Looked::Gpus));
            let fits = |looked: Looked| match nearby {
                Some(nearby) => nearby.judge(state, pool_ix, shape, looked) == Verdict::Fits,
                None => state.fits_beside(pool_ix, shape, looked),
            };
            let asks = hosted && !shape.host.is_none();
            class.cause = if limited {
                LIMIT
            } else if over || state.pool_free(pool_ix, shape) < amount {
                QUOTA
            } else if near == Some(Verdict::Far) {
                TOPOLOGY
            } else if !near.map_or_else(|| state.fits(pool_ix, shape), |near| near == Verdict::Fits) {
                FRAGMENTATION
            } else if asks && !fits(Looked::Processors) {
                PROCESSORS
            } else if asks && !fits(Looked::All) {
                MEMORY
            } else {
                HEAD_OF_LINE
            };
            fragmented |= class.cause == FRAGMENTATION;
            true
        });
        let stranded = if fragmented { self.state.all_free(pool_ix) } else { 0 };
        self.now.stranded = self.now.stranded - pool.stranded + stranded;
        pool.stranded = stranded;
        self.make_room(pool_ix);
    }

    /// Counts anew what would fit in a pool.
    fn make_room(&mut self, pool_ix: usize) {
        let Some(pool) = self.pools.get_mut(pool_ix) else { return };
        let free = self.state.all_free(pool_ix) / 1000;
        for ((gpus, before), all) in GANGS.into_iter().zip(&mut pool.room).zip(&mut self.now.room) {
            let now = (self.state.room(pool_ix, gpus), free / u64::from(gpus));
            *all = (all.0 - before.0 + now.0, all.1 - before.1 + now.1);
            *before = now;
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Release(segment) | Event::Lost(segment) => self.hold(segment, false),
            Event::Preempted(segment) => {
                self.hold(segment, false);
                let job = self.schedule.segments.get(segment as usize).map(|record| record.job as usize);
                let vc = job.and_then(|job| self.workload.vc.get(job));
                if let (Some(queues), Some(vc)) = (&mut self.queues, vc) {
                    queues.stop(*vc);
                }
            }
            Event::Start(segment) => {
                let Some(record) = self.schedule.segments.get(segment as usize) else { return };
                if self.queued.get(record.job as usize) == Some(&true) {
                    self.leave(record.job);
                }
                if record.end_ms > record.start_ms {
                    self.hold(segment, true);
                }
            }
            Event::Repair(node) => self.state.repair(node),
            Event::Fail(node) => self.state.fail(node),
            Event::Resize { group, size } => {
                let mut groups = self.cluster.pools.iter().flat_map(|pool| &pool.groups);
                let target = groups.nth(group as usize).and_then(|group| group.sizes.get(size as usize));
                if let Some((_, nodes)) = target {
                    self.state.resize(group as usize, *nodes);
                }
            }
            Event::Quota { vc, quota } => {
                let amounts = self.cluster.vcs.get(usize::from(vc)).map(|vc| &vc.quota_milli);
                let amount = amounts.and_then(|amounts| amounts.get(quota as usize)).map(|(_, amount)| *amount);
                if let Some(known) = self.quota.get_mut(usize::from(vc)) {
                    *known = amount;
                }
            }
            Event::Join(job) => self.join(job),
        }
    }

    /// Takes or gives back what a segment holds.
    fn hold(&mut self, segment: u32, take: bool) {
        let schedule = self.schedule;
        let Some(record) = schedule.segments.get(segment as usize) else { return };
        let mut amount = 0;
        for piece in schedule.pieces_of(record) {
            amount += piece.amount();
            if take {
                self.state.take(piece);
            } else {
                self.state.give(piece);
            }
        }
        if let Some(reasons) = &mut self.reasons {
            reasons.hold(self.workload, record.job, take, if take { record.start_ms } else { record.end_ms });
        }
        let vc = self.workload.vc.get(record.job as usize).copied().unwrap_or(0);
        if let Some(used) = self.used.get_mut(usize::from(vc)) {
            *used = if take { *used + amount } else { used.saturating_sub(amount) };
        }
        if let Some(queues) = &mut self.queues {
            queues.hold(vc, schedule.pieces_of(record), take);
        }
    }

    fn class_of(&self, job: u32) -> Option<(usize, Shape)> {
        let shape = usize::from(*self.workload.shape.get(job as usize)?);
        let vc = usize::from(*self.workload.vc.get(job as usize)?);
        let class = match &self.reasons {
            Some(reasons) => reasons.class_of(job)?,
            None => vc * self.workload.shapes.len() + shape,
        };
        Some((class, self.workload.shapes.get(shape).copied()?))
    }

    fn join(&mut self, job: u32) {
        let Some((ix, shape)) = self.class_of(job) else { return };
        let Some(class) = self.classes.get_mut(ix) else { return };
        if class.waiting == 0 && !class.listed {
            class.listed = true;
            class.short = self.short.get(class.shape).copied().unwrap_or(0);
            let pool = self.cluster.vcs.get(class.vc).map_or(0, |vc| usize::from(vc.pool));
            if let Some(pool) = self.pools.get_mut(pool) {
                pool.waiting.push(ix as u32);
            }
        }
        if let Some(reasons) = &mut self.reasons {
            reasons.join(ix, job);
        }
        class.waiting += 1;
        self.now.waiting += 1;
        self.now.wanted += shape.amount();
        if let Some(queues) = &mut self.queues {
            queues.wait(class.vc, shape.amount(), true);
        }
        if let (Some(causes), Some(queued)) = (self.causes.get_mut(job as usize), self.queued.get_mut(job as usize)) {
            for (total, clock) in causes.iter_mut().zip(&class.clocks) {
                *total -= clock;
            }
            *queued = true;
        }
    }

    fn leave(&mut self, job: u32) {
        let Some((ix, shape)) = self.class_of(job) else { return };
        let Some(class) = self.classes.get_mut(ix) else { return };
        if let Some(reasons) = &mut self.reasons {
            reasons.leave(ix, job, shape.amount());
        }
        class.waiting = class.waiting.saturating_sub(1);
        self.now.waiting = self.now.waiting.saturating_sub(1);
        self.now.wanted = self.now.wanted.saturating_sub(shape.amount());
        if let Some(queues) = &mut self.queues {
            queues.wait(class.vc, shape.amount(), false);
        }
        if let (Some(causes), Some(queued)) = (self.causes.get_mut(job as usize), self.queued.get_mut(job as usize)) {
            for (total, clock) in causes.iter_mut().zip(&class.clocks) {
                *total += clock;
            }
            *queued = false;
        }
    }

    /// Updates the state of the moment.
    fn note(&mut self) {
        self.now.held = self.state.held;
        self.now.in_service = self.state.in_service;
        self.now.free = self.state.free();
        self.now.partly_free = self.state.partly_free;
        self.now.hostless = self.state.hostless;
    }

    /// The end: whatever still waits has waited until now.
    fn finish(&mut self, at: i64) {
        for pool in 0..self.pools.len() {
            self.bring_up(pool, at);
        }
        let left: Vec<u32> = (0u32..).zip(&self.queued).filter(|(_, queued)| **queued).map(|(job, _)| job).collect();
        for job in left {
            self.leave(job);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
