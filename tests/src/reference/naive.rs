//! The replay's contract (`tracecast_planner::sim`), done in the plainest way: everything is computed anew at every decision.
//!
//! GPUs are numbers in nested lists, the queue is sorted each time, keys are sums over all that ever ran, reservations are found by trying
//! every moment. Nothing is shared with the engine but the types of its input and the rounding of keys. Cost: at least decisions × jobs²;
//! for a few dozen jobs.
//!
//! Worked number: see the tests, which take the contract's own example.

mod cells;
mod domain;
mod kai;
mod key;
mod kueue;
mod limit;
mod place;
mod power;
mod share;
mod slurm;
mod switches;
mod volcano;
mod walk;

pub use power::{Powered, replay_powered};

use std::cmp::Reverse;
use std::collections::VecDeque;

use tracecast_planner::sim::power::Supervisor;
use tracecast_planner::sim::{
    Cluster, Estimate, Outcome, Piece, Placement, Policy, Preemption, Scan, Shape, Stop, Workload,
};

/// Outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// Finished, rejected or stranded.
    pub outcome: Outcome,
    /// When, why it stopped, and where: one entry for each time it held GPUs.
    pub segments: Vec<(i64, i64, Stop, Vec<Piece>)>,
    /// Preemptions.
    pub preemptions: u32,
    /// Failures of a node under it.
    pub restarts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Future,
    Waiting,
    /// Stopped for a job of another QOS, and not to start before some moment.
    Away,
    Running,
    Over,
}

#[derive(Debug, Clone)]
struct Job {
    phase: Phase,
    fate: Fate,
    done: i64,
    saved: i64,
    owed: i64,
    /// Start of the running segment, ms.
    since: i64,
    pieces: Vec<Piece>,
    /// Cell of its VC that each piece runs in, and its block there; none if it runs outside.
    cells: Vec<(cells::Cell, cells::Cell)>,
    /// Flavor it runs with under Kueue's admission, and whether it was set aside.
    flavor: Option<usize>,
    aside: bool,
    /// Time it is to stop under preemption by QOS, and since when it may start again.
    stops: Option<i64>,
    again: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    In,
    Draining,
    Away,
}

#[derive(Debug, Clone)]
struct Node {
    group: usize,
    gpu_type: Option<u16>,
    /// Thousandths of cores and MiB; none is as much as one likes.
    cores: Option<u32>,
    memory: Option<u32>,
    place: Place,
    failures: u32,
}

/// A change that happens by itself.
#[derive(Debug, Clone, Copy)]
enum Change {
    Repair(usize),
    Fail(usize),
    Size(usize, u32),
    Quota(usize, u64),
}

/// GPUs by node of the pool, thousandths left of each, and whether the node takes jobs.
type View = Vec<(Vec<u16>, bool, Beside)>;

/// Cores (thousandths) and memory (MiB) left on a node, far more than any job asks for where there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Beside {
    cores: i64,
    memory: i64,
}

/// A limit without bound.
const BOUNDLESS: i64 = i64::MAX / 4;

struct Pool<'a> {
    workload: &'a Workload,
    cluster: &'a Cluster,
    policy: &'a Policy,
    pool: usize,
    first: u32,
    nodes: Vec<Node>,
    sizes: Vec<usize>,
    jobs: Vec<Job>,
    members: Vec<usize>,
    quota: Vec<Option<u64>>,
    submitted: Vec<u64>,
    now: i64,
    power: Option<power::Power>,
    /// Whether the last cycle of Kueue's started a job or set one aside.
    moved: bool,
    /// Changes to come at times of their own: (time, class, which, what).
    changes: VecDeque<(i64, u8, usize, Change)>,
    /// Time at which a decision is due; `last` is the last instant there was.
    due: Option<i64>,
    last: i64,
    /// Jobs that run in other pools, under limits by QOS.
    elsewhere: Vec<usize>,
    /// GPUs held by jobs of other pools: (job, from, to).
    held_elsewhere: Vec<(usize, i64, i64)>,
    /// Start of each job that runs, in any pool.
    running_since: Vec<i64>,
    /// Running jobs of other pools by expected end, where the backfill is Slurm's.
    ends_elsewhere: Vec<(i64, usize)>,
    /// GPUs in service and from when on, under KAI's queues.
    served: Vec<(i64, u64)>,
}

/// Replays; one fate a job.
pub fn replay(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Vec<Fate> {
    let mut none = Vec::new();
    replay_with(workload, cluster, policy, None, &mut none)
}

fn replay_with(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    mut supervisor: Option<Supervisor>,
    powered: &mut Vec<Powered>,
) -> Vec<Fate> {
    let blank = Job {
        phase: Phase::Future,
        fate: Fate { outcome: Outcome::Stranded, segments: Vec::new(), preemptions: 0, restarts: 0 },
        done: 0,
        saved: 0,
        owed: 0,
        since: 0,
        pieces: Vec::new(),
        cells: Vec::new(),
        flavor: None,
        aside: false,
        stops: None,
        again: None,
    };
    let mut fates: Vec<Option<Fate>> = vec![None; workload.len()];
    let mut first = 0;
    let mut pools: Vec<Pool<'_>> = Vec::new();
    for (at, spec) in cluster.pools.iter().enumerate() {
        let mut pool = Pool {
            workload,
            cluster,
            policy,
            pool: at,
            first,
            nodes: Vec::new(),
            sizes: Vec::new(),
            jobs: vec![blank.clone(); workload.len()],
            members: (0..workload.len())
                .filter(|job| usize::from(cluster.vcs[usize::from(workload.vc[*job])].pool) == at)
                .collect(),
            quota: vec![None; cluster.vcs.len()],
            submitted: vec![0; workload.shapes.len()],
            now: 0,
            power: None,
            moved: false,
            changes: VecDeque::new(),
            due: None,
            last: i64::MIN,
            elsewhere: Vec::new(),
            held_elsewhere: Vec::new(),
            running_since: vec![0; workload.len()],
            ends_elsewhere: Vec::new(),
            served: Vec::new(),
        };
        for (group, spec) in spec.groups.iter().enumerate() {
            for _ in 0..spec.most_nodes() {
                pool.nodes.push(Node {
                    group,
                    gpu_type: spec.gpu_type,
                    cores: spec.host.cores_milli,
                    memory: spec.host.memory_mib,
                    place: Place::In,
                    failures: 0,
                });
                pool.sizes.push(spec.gpus_per_node as usize);
            }
        }
        first += pool.nodes.len() as u32;
        if let Some(supervisor) = &mut supervisor {
            let controller = supervisor.controllers.get_mut(at).and_then(Option::take);
            pool.power = Some(power::Power::new(supervisor.rules.clone(), controller, pool.nodes.len()));
        }
        if cluster.limits.is_some() {
            pools.push(pool);
            continue;
        }
        pool.run();
        powered.extend(pool.power.take().map(power::Power::finish));
        for job in pool.members {
            fates[job] = Some(pool.jobs[job].fate.clone());
        }
    }
    limit::run(&mut pools);
    for pool in pools {
        for job in pool.members {
            fates[job] = Some(pool.jobs[job].fate.clone());
        }
    }
    fates.into_iter().map(Option::unwrap).collect()
}

impl Pool<'_> {
    pub(super) fn shape(&self, job: usize) -> Shape {
        self.workload.shapes[usize::from(self.workload.shape[job])]
    }

    pub(super) fn vc(&self, job: usize) -> usize {
        usize::from(self.workload.vc[job])
    }

    pub(super) fn in_phase(&self, phase: Phase) -> Vec<usize> {
        self.members.iter().copied().filter(|job| self.jobs[*job].phase == phase).collect()
    }

    pub(super) fn backfills(&self) -> bool {
        matches!(self.policy.scan, Scan::Easy | Scan::Conservative | Scan::Slurm)
    }

    /// Replays the pool alone.
    pub(super) fn run(&mut self) {
        self.prepare();
        self.serve();
        let interval = self.policy.interval_ms;
        while let Some(now) = self.next_instant() {
            self.now = now;
            let is_powers = self.power_instants(self.last).contains(&now);
            let happened = self.happen(now);
            self.serve();
            if happened {
                self.note(now);
            }
            let decides = self.due == Some(now);
            if decides {
                self.due = None;
                let stopped = self.decide();
                self.serve();
                let waits = !self.in_phase(Phase::Waiting).is_empty() && (self.has_more() || self.moved);
                match interval {
                    Some(every) if waits => self.note(now + every),
                    None if stopped => self.note(now + 1000),
                    _ => {}
                }
            }
            if happened || decides || is_powers {
                self.power_step(!self.changes.is_empty());
            }
            self.power_end();
        }
    }

    /// Prepares the changes that happen by themselves, and the jobs that run at time 0.
    pub(super) fn prepare(&mut self) {
        let mut changes: Vec<(i64, u8, usize, Change)> = Vec::new();
        let spec = &self.cluster.pools[self.pool];
        for (group, of) in spec.groups.iter().enumerate() {
            let mut initial = of.sizes[0].1;
            for (ix, (from, nodes)) in of.sizes.iter().enumerate() {
                if *from <= 0 {
                    initial = *nodes;
                } else if ix > 0 {
                    changes.push((*from, 2, group, Change::Size(group, *nodes)));
                }
            }
            self.resize(group, initial);
        }
        for (vc, of) in self.cluster.vcs.iter().enumerate().filter(|(_, vc)| usize::from(vc.pool) == self.pool) {
            self.quota[vc] = of.quota_milli.first().map(|(_, amount)| *amount);
            for (ix, (from, amount)) in of.quota_milli.iter().enumerate() {
                if *from <= 0 {
                    self.quota[vc] = Some(*amount);
                } else if ix > 0 {
                    changes.push((*from, 3, vc, Change::Quota(vc, *amount)));
                }
            }
        }
        for outage in &self.cluster.outages {
            let Some(node) = outage.node.checked_sub(self.first).map(|node| node as usize) else { continue };
            if node < self.nodes.len() && outage.to_ms > 0 {
                if outage.from_ms < 0 {
                    self.nodes[node].failures += 1;
                } else {
                    changes.push((outage.from_ms, 1, node, Change::Fail(node)));
                }
                changes.push((outage.to_ms, 0, node, Change::Repair(node)));
            }
        }
        changes.sort_by_key(|(at, class, which, _)| (*at, *class, *which));
        self.changes = changes.into();

        let warm: Vec<usize> = self.workload.warm.iter().map(|warm| warm.job as usize).collect();
        let warm: Vec<usize> = warm.into_iter().filter(|job| self.members.contains(job)).collect();
        let mut rest = Vec::new();
        for job in warm {
            if !self.is_possible(job) || self.is_denied(job) {
                self.reject(job);
                continue;
            }
            self.submitted[usize::from(self.workload.shape[job])] += 1;
            self.jobs[job].phase = Phase::Waiting;
            if self.has_cells() {
                match self.within_cells(&self.view(), job) {
                    Some(result) => {
                        self.start_in_cells(job, result);
                    }
                    None => rest.push(job),
                }
                continue;
            }
            self.put(job);
        }
        for job in rest {
            self.put(job);
        }
    }

    /// Puts a job that runs at time 0 on its nodes.
    fn put(&mut self, job: usize) {
        let result = match self.hierarchy() {
            Some(tree) => self.fits_without(tree, job, &[]),
            None if self.cohorts().is_some() => self.flavored(job),
            None if self.volcano_queues().is_some() => self.volcano_queues().and_then(|tree| self.capable(tree, job)),
            None => self.fits(job),
        };
        match result {
            Some(pieces) => self.start(job, pieces),
            None => self.note(0),
        }
    }

    /// Notes that a decision is due at a moment, or at the next multiple of the interval.
    pub(super) fn note(&mut self, at: i64) {
        let at = self.policy.interval_ms.map_or(at, |every| (at + every - 1).div_euclid(every) * every);
        self.due = Some(self.due.map_or(at, |known| known.min(at)));
    }

    /// Whether anything runs or is to come.
    pub(super) fn has_more(&self) -> bool {
        !self.in_phase(Phase::Running).is_empty()
            || !self.in_phase(Phase::Future).is_empty()
            || !self.in_phase(Phase::Away).is_empty()
            || !self.changes.is_empty()
            || self.in_phase(Phase::Waiting).iter().any(|job| self.relaxes(*job).is_some_and(|at| at > self.now))
    }

    /// Next instant at which something happens.
    pub(super) fn next_instant(&self) -> Option<i64> {
        let last = self.last;
        let submits = self.in_phase(Phase::Future).into_iter().map(|job| self.workload.submit_ms[job].max(0));
        let ends = self.in_phase(Phase::Running).into_iter().map(|job| self.end(job));
        let relaxes =
            self.in_phase(Phase::Waiting).into_iter().filter_map(|job| self.relaxes(job)).filter(|at| *at > last);
        let outlives = self.in_phase(Phase::Running).into_iter().filter_map(|job| self.outlives(job, last));
        let stops = self.in_phase(Phase::Running).into_iter().filter_map(|job| self.jobs[job].stops);
        let agains = self.in_phase(Phase::Away).into_iter().filter_map(|job| self.jobs[job].again);
        let next = submits
            .chain(ends)
            .chain(stops)
            .chain(agains)
            .chain(relaxes)
            .chain(outlives)
            .chain(self.changes.front().map(|change| change.0))
            .chain(self.due);
        next.min().into_iter().chain(self.power_instants(last)).min()
    }

    /// The events of an instant; whether there were any.
    pub(super) fn happen(&mut self, now: i64) -> bool {
        let last = self.last;
        self.now = now;
        self.power_begin();
        let mut happened = false;
        for job in self.in_phase(Phase::Running) {
            if self.end(job) == now {
                self.stop(job, Stop::Done);
                self.power_service();
                happened = true;
            }
        }
        let told: Vec<usize> = self.in_phase(Phase::Running);
        let mut told: Vec<usize> = told.into_iter().filter(|job| self.jobs[*job].stops == Some(now)).collect();
        // In the order in which they started.
        told.sort_by_key(|job| self.jobs[*job].since);
        for job in told {
            self.stop(job, Stop::Preempted);
            happened = true;
        }
        while let Some((_, _, _, change)) = self.changes.pop_front_if(|change| change.0 <= now) {
            happened = true;
            match change {
                Change::Repair(node) => self.nodes[node].failures = self.nodes[node].failures.saturating_sub(1),
                Change::Fail(node) => {
                    for job in self.in_phase(Phase::Running) {
                        let number = self.first + node as u32;
                        if self.jobs[job].pieces.iter().any(|piece| piece.node == number) {
                            self.stop(job, Stop::Failed);
                        }
                    }
                    self.nodes[node].failures += 1;
                }
                Change::Size(group, nodes) => self.resize(group, nodes),
                Change::Quota(vc, amount) => self.quota[vc] = Some(amount),
            }
            self.power_service();
        }
        let booted = self.power_settle();
        if happened || booted {
            self.look_again();
        }
        for job in self.in_phase(Phase::Future) {
            if self.workload.submit_ms[job] > now {
                continue;
            }
            happened = true;
            if self.is_possible(job) && !self.is_denied(job) {
                self.submitted[usize::from(self.workload.shape[job])] += 1;
                self.jobs[job].phase = Phase::Waiting;
            } else {
                self.reject(job);
            }
        }
        if last < now {
            if self.in_phase(Phase::Waiting).into_iter().any(|job| self.relaxes(job) == Some(now)) {
                self.look_again();
                happened = true;
            }
            for job in self.in_phase(Phase::Away) {
                if self.jobs[job].again == Some(now) {
                    self.jobs[job].phase = Phase::Waiting;
                    happened = true;
                }
            }
            happened |= self.in_phase(Phase::Running).into_iter().any(|job| self.outlives(job, last) == Some(now));
        }
        self.last = now;
        self.power_progress(happened);
        happened || booted
    }

    pub(super) fn reject(&mut self, job: usize) {
        self.jobs[job].phase = Phase::Over;
        self.jobs[job].fate.outcome = Outcome::Rejected;
    }

    /// Expiry of the job's locality timeout, if it has one and it is after its submission is
    /// handled.
    pub(super) fn relaxes(&self, job: usize) -> Option<i64> {
        let Placement::Locality(timeout) = self.policy.placement else { return None };
        if self.is_held(job) {
            return None;
        }
        let at = self.workload.submit_ms[job] + timeout;
        // At the moment of submission itself nothing more happens.
        (at > self.workload.submit_ms[job].max(0)).then_some(at)
    }

    pub(super) fn left_ms(&self, job: usize) -> i64 {
        self.workload.run_ms[job] - self.jobs[job].done + self.jobs[job].owed
    }

    pub(super) fn end(&self, job: usize) -> i64 {
        self.jobs[job].since + self.left_ms(job)
    }

    pub(super) fn estimate(&self, job: usize) -> i64 {
        let run = self.workload.run_ms[job];
        let requested = self.workload.requested_ms[job];
        match self.policy.estimate {
            Estimate::True => run,
            Estimate::Requested => requested.unwrap_or(run),
            Estimate::Predicted => {
                self.workload.predicted_s[job].map(|s| (s * 1000.0).round() as i64).or(requested).unwrap_or(run)
            }
        }
    }

    pub(super) fn expected_ms(&self, job: usize) -> i64 {
        ((self.estimate(job) - self.jobs[job].done).max(0) + self.jobs[job].owed).max(1)
    }

    /// The moments at which a running job is thought to end, one after another.
    pub(super) fn guesses(&self, job: usize) -> impl Iterator<Item = i64> + use<> {
        let minutes = [1, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000];
        let mut at = self.jobs[job].since + self.expected_ms(job);
        let mut corrections = minutes.into_iter().chain(std::iter::repeat(6000));
        std::iter::from_fn(move || {
            let guess = at;
            at += corrections.next()? * 60_000;
            Some(guess)
        })
    }

    /// Next time after `last` at which a running job is found to have outlived its estimate.
    pub(super) fn outlives(&self, job: usize, last: i64) -> Option<i64> {
        if !self.backfills() {
            return None;
        }
        let end = self.end(job);
        self.guesses(job).take_while(|guess| *guess < end).find(|guess| *guess > last)
    }

    pub(super) fn expected_end(&self, job: usize) -> i64 {
        self.guesses(job).find(|guess| *guess > self.now).unwrap()
    }

    pub(super) fn stop(&mut self, job: usize, stop: Stop) {
        let now = self.now;
        let held = now - self.jobs[job].since;
        let paid = held.min(self.jobs[job].owed);
        let shape = self.shape(job);
        let dismisses = self.dismisses();
        let state = &mut self.jobs[job];
        state.done += held - paid;
        state.owed -= paid;
        let pieces = std::mem::take(&mut state.pieces);
        state.cells.clear();
        state.fate.segments.push((state.since, now, stop, pieces));
        state.phase = Phase::Waiting;
        state.stops = None;
        match stop {
            Stop::Done => {
                state.phase = Phase::Over;
                state.fate.outcome = Outcome::Finished;
            }
            Stop::Preempted => {
                if self.policy.preemption == Preemption::Requeue || dismisses {
                    if let Some(every) = self.policy.checkpoint_ms {
                        state.saved = state.saved.max(state.done / every * every);
                    }
                    state.done = state.saved;
                }
                state.saved = state.done;
                if let Preemption::Checkpoint { one_ms, node_ms, many_ms } = self.policy.preemption {
                    state.owed += if shape.gpus <= 1 {
                        one_ms
                    } else if shape.gpus <= 8 {
                        node_ms
                    } else {
                        many_ms
                    };
                }
                state.fate.preemptions += 1;
                if dismisses {
                    self.dismissed(job);
                }
            }
            Stop::Failed if self.workload.once.contains(&(job as u32)) => {
                state.phase = Phase::Over;
                state.fate.outcome = Outcome::Finished;
            }
            Stop::Failed => {
                if let Some(every) = self.policy.checkpoint_ms {
                    state.saved = state.saved.max(state.done / every * every);
                }
                state.done = state.saved;
                state.fate.restarts += 1;
            }
        }
        let view = self.view();
        for (node, (left, ..)) in view.iter().enumerate() {
            if self.nodes[node].place == Place::Draining && left.iter().all(|left| *left == 1000) {
                self.nodes[node].place = Place::Away;
            }
        }
    }

    pub(super) fn start(&mut self, job: usize, pieces: Vec<Piece>) {
        let now = self.now;
        let state = &mut self.jobs[job];
        state.phase = Phase::Running;
        state.since = now;
        state.pieces = pieces;
    }

    pub(super) fn resize(&mut self, group: usize, target: u32) {
        let target = target as usize;
        let view = self.view();
        let busy = |node: &usize| view[*node].0.iter().filter(|left| **left < 1000).count();
        let with = |pool: &Self, place: Place| -> Vec<usize> {
            (0..pool.nodes.len())
                .filter(|node| pool.nodes[*node].group == group && pool.nodes[*node].place == place)
                .collect()
        };
        let mut there = with(self, Place::In);
        if there.len() > target {
            there.sort_by_key(|node| (busy(node), Reverse(*node)));
            for node in &there[..there.len() - target] {
                self.nodes[*node].place = if busy(node) == 0 { Place::Away } else { Place::Draining };
            }
        } else {
            let missing = target - there.len();
            let back: Vec<usize> = with(self, Place::Draining).into_iter().chain(with(self, Place::Away)).collect();
            for node in &back[..missing] {
                self.nodes[*node].place = Place::In;
            }
        }
    }

    pub(super) fn empty(&self, all: bool) -> View {
        let takes =
            |at: usize, node: &Node| all || (node.place == Place::In && node.failures == 0 && self.is_powered(at));
        let nodes = self.nodes.iter().zip(&self.sizes).enumerate();
        let beside = |node: &Node| Beside {
            cores: node.cores.map_or(BOUNDLESS, i64::from),
            memory: node.memory.map_or(BOUNDLESS, i64::from),
        };
        nodes.map(|(at, (node, size))| (vec![1000; *size], takes(at, node), beside(node))).collect()
    }

    pub(super) fn view(&self) -> View {
        let mut view = self.empty(false);
        for job in self.in_phase(Phase::Running) {
            self.take(&mut view, &self.jobs[job].pieces);
        }
        view
    }

    pub(super) fn take(&self, view: &mut View, pieces: &[Piece]) {
        for piece in pieces {
            let (node, _, beside) = &mut view[(piece.node - self.first) as usize];
            beside.cores -= i64::from(piece.host.cores_milli);
            beside.memory -= i64::from(piece.host.memory_mib);
            assert!(beside.cores >= 0 && beside.memory >= 0, "processors or memory are given twice");
            for (gpu, left) in node.iter_mut().enumerate() {
                if piece.gpus >> gpu & 1 == 1 {
                    let wants = if piece.milli == 0 { 1000 } else { piece.milli };
                    *left = left.checked_sub(wants).expect("a GPU is given twice");
                }
            }
        }
    }

    pub(super) fn used(&self, vc: usize, jobs: &[usize]) -> u64 {
        jobs.iter().filter(|job| self.vc(**job) == vc).map(|job| self.shape(*job).amount()).sum()
    }

    pub(super) fn quota_allows(&self, job: usize, others: &[usize]) -> bool {
        let vc = self.vc(job);
        self.quota[vc].is_none_or(|quota| self.used(vc, others) + self.shape(job).amount() <= quota)
    }

    pub(super) fn is_possible(&self, job: usize) -> bool {
        if let Some(cohorts) = self.cohorts() {
            return self.is_ever_admitted(cohorts, job);
        }
        if let Some(tree) = self.hierarchy() {
            return self.could_have(tree, job) && self.place(&self.empty(true), job, true).is_some();
        }
        if let Some(tree) = self.volcano_queues() {
            return self.could_be_capable(tree, job) && self.place(&self.empty(true), job, true).is_some();
        }
        let most = self.cluster.vcs[self.vc(job)].quota_milli.iter().map(|(_, amount)| *amount).max();
        most.is_none_or(|most| self.shape(job).amount() <= most)
            && self.place(&self.empty(true), job, true).is_some()
            && self.has_a_network(job)
    }

    pub(super) fn fits(&self, job: usize) -> Option<Vec<Piece>> {
        if self.is_over_limit(job) || !self.quota_allows(job, &self.in_phase(Phase::Running)) {
            return None;
        }
        self.place(&self.view(), job, self.is_relaxed(job))
    }

    pub(super) fn is_relaxed(&self, job: usize) -> bool {
        match self.policy.placement {
            Placement::Locality(timeout) => self.now - self.workload.submit_ms[job] >= timeout,
            _ => false,
        }
    }
}
