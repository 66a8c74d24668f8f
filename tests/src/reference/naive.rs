//! The replay's contract (`tracecast_planner::sim`), done in the plainest way: everything is computed anew at every decision.
//!
//! GPUs are numbers in nested lists, the queue is sorted each time, keys are sums over all that ever ran, reservations are found by trying
//! every moment. Nothing is shared with the engine but the types of its input and the rounding of keys. Cost: at least decisions × jobs²;
//! for a few dozen jobs.
//!
//! Worked number: see the tests, which take the contract's own example.

use std::cmp::Reverse;

use tracecast_planner::sim::{
    Cluster, Estimate, Key, Order, Outcome, Piece, Placement, Policy, Preemption, Scan, Shape, Stop, Workload,
};

/// What became of a job.
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
    /// Of the running segment.
    since: i64,
    pieces: Vec<Piece>,
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
    place: Place,
    failures: u32,
}

/// GPUs by node of the pool, thousandths left of each, and whether the node takes jobs.
type View = Vec<(Vec<u16>, bool)>;

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
}

/// Replays; one fate a job.
pub fn replay(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Vec<Fate> {
    let blank = Job {
        phase: Phase::Future,
        fate: Fate { outcome: Outcome::Stranded, segments: Vec::new(), preemptions: 0, restarts: 0 },
        done: 0,
        saved: 0,
        owed: 0,
        since: 0,
        pieces: Vec::new(),
    };
    let mut fates: Vec<Option<Fate>> = vec![None; workload.len()];
    let mut first = 0;
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
        };
        for (group, spec) in spec.groups.iter().enumerate() {
            for _ in 0..spec.most_nodes() {
                pool.nodes.push(Node { group, gpu_type: spec.gpu_type, place: Place::In, failures: 0 });
                pool.sizes.push(spec.gpus_per_node as usize);
            }
        }
        first += pool.nodes.len() as u32;
        pool.run();
        for job in pool.members {
            fates[job] = Some(pool.jobs[job].fate.clone());
        }
    }
    fates.into_iter().map(Option::unwrap).collect()
}

impl Pool<'_> {
    fn shape(&self, job: usize) -> Shape {
        self.workload.shapes[usize::from(self.workload.shape[job])]
    }

    fn vc(&self, job: usize) -> usize {
        usize::from(self.workload.vc[job])
    }

    fn in_phase(&self, phase: Phase) -> Vec<usize> {
        self.members.iter().copied().filter(|job| self.jobs[*job].phase == phase).collect()
    }

    fn backfills(&self) -> bool {
        matches!(self.policy.scan, Scan::Easy | Scan::Conservative)
    }

    fn run(&mut self) {
        // Everything with a time of its own: (time, class, what).
        enum Change {
            Repair(usize),
            Fail(usize),
            Size(usize, u32),
            Quota(usize, u64),
        }
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
        let mut changes = changes.into_iter().peekable();

        let mut due: Option<i64> = None;
        let note = |due: &mut Option<i64>, at: i64, interval: Option<i64>| {
            let at = interval.map_or(at, |every| (at + every - 1).div_euclid(every) * every);
            *due = Some(due.map_or(at, |known| known.min(at)));
        };
        let interval = self.policy.interval_ms;

        let warm: Vec<usize> = self.workload.warm.iter().map(|warm| warm.job as usize).collect();
        let warm: Vec<usize> = warm.into_iter().filter(|job| self.members.contains(job)).collect();
        for job in warm {
            if !self.is_possible(job) {
                self.reject(job);
                continue;
            }
            self.submitted[usize::from(self.workload.shape[job])] += 1;
            self.jobs[job].phase = Phase::Waiting;
            match self.fits(job) {
                Some(pieces) => self.start(job, pieces),
                None => note(&mut due, 0, interval),
            }
        }

        let mut last = i64::MIN;
        loop {
            let submits = self.in_phase(Phase::Future).into_iter().map(|job| self.workload.submit_ms[job].max(0));
            let ends = self.in_phase(Phase::Running).into_iter().map(|job| self.end(job));
            let relaxes =
                self.in_phase(Phase::Waiting).into_iter().filter_map(|job| self.relaxes(job)).filter(|at| *at > last);
            let outlives = self.in_phase(Phase::Running).into_iter().filter_map(|job| self.outlives(job, last));
            let next = submits
                .chain(ends)
                .chain(relaxes)
                .chain(outlives)
                .chain(changes.peek().map(|change| change.0))
                .chain(due);
            let Some(now) = next.min() else { return };
            self.now = now;
            let mut happened = false;
            for job in self.in_phase(Phase::Running) {
                if self.end(job) == now {
                    self.stop(job, Stop::Done);
                    happened = true;
                }
            }
            while let Some((_, _, _, change)) = changes.next_if(|change| change.0 <= now) {
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
            }
            for job in self.in_phase(Phase::Future) {
                if self.workload.submit_ms[job] > now {
                    continue;
                }
                happened = true;
                if self.is_possible(job) {
                    self.submitted[usize::from(self.workload.shape[job])] += 1;
                    self.jobs[job].phase = Phase::Waiting;
                } else {
                    self.reject(job);
                }
            }
            if last < now {
                happened |= self.in_phase(Phase::Waiting).into_iter().any(|job| self.relaxes(job) == Some(now));
                happened |= self.in_phase(Phase::Running).into_iter().any(|job| self.outlives(job, last) == Some(now));
            }
            last = now;
            if happened {
                note(&mut due, now, interval);
            }
            if due == Some(now) {
                due = None;
                let stopped = self.decide();
                let waiting = self.in_phase(Phase::Waiting);
                let more = !self.in_phase(Phase::Running).is_empty()
                    || !self.in_phase(Phase::Future).is_empty()
                    || changes.peek().is_some()
                    || waiting.iter().any(|job| self.relaxes(*job).is_some_and(|at| at > now));
                let waits = !waiting.is_empty() && more;
                match interval {
                    Some(every) if waits => note(&mut due, now + every, interval),
                    None if stopped => note(&mut due, now + 1000, None),
                    _ => {}
                }
            }
        }
    }

    fn reject(&mut self, job: usize) {
        self.jobs[job].phase = Phase::Over;
        self.jobs[job].fate.outcome = Outcome::Rejected;
    }

    /// When its locality timeout expires, if it has one and it is after its submission is handled.
    fn relaxes(&self, job: usize) -> Option<i64> {
        let Placement::Locality(timeout) = self.policy.placement else { return None };
        let at = self.workload.submit_ms[job] + timeout;
        // At the moment of submission itself nothing more happens.
        (at > self.workload.submit_ms[job].max(0)).then_some(at)
    }

    fn left_ms(&self, job: usize) -> i64 {
        self.workload.run_ms[job] - self.jobs[job].done + self.jobs[job].owed
    }

    fn end(&self, job: usize) -> i64 {
        self.jobs[job].since + self.left_ms(job)
    }

    fn estimate(&self, job: usize) -> i64 {
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

    fn expected_ms(&self, job: usize) -> i64 {
        ((self.estimate(job) - self.jobs[job].done).max(0) + self.jobs[job].owed).max(1)
    }

    /// The moments at which a running job is thought to end, one after another.
    fn guesses(&self, job: usize) -> impl Iterator<Item = i64> + use<> {
        let minutes = [1, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000];
        let mut at = self.jobs[job].since + self.expected_ms(job);
        let mut corrections = minutes.into_iter().chain(std::iter::repeat(6000));
        std::iter::from_fn(move || {
            let guess = at;
            at += corrections.next()? * 60_000;
            Some(guess)
        })
    }

    /// When a running job is next found to have outlived its estimate, after `last`.
    fn outlives(&self, job: usize, last: i64) -> Option<i64> {
        if !self.backfills() {
            return None;
        }
        let end = self.end(job);
        self.guesses(job).take_while(|guess| *guess < end).find(|guess| *guess > last)
    }

    fn expected_end(&self, job: usize) -> i64 {
        self.guesses(job).find(|guess| *guess > self.now).unwrap()
    }

    fn stop(&mut self, job: usize, stop: Stop) {
        let now = self.now;
        let held = now - self.jobs[job].since;
        let paid = held.min(self.jobs[job].owed);
        let shape = self.shape(job);
        let state = &mut self.jobs[job];
        state.done += held - paid;
        state.owed -= paid;
        let pieces = std::mem::take(&mut state.pieces);
        state.fate.segments.push((state.since, now, stop, pieces));
        state.phase = Phase::Waiting;
        match stop {
            Stop::Done => {
                state.phase = Phase::Over;
                state.fate.outcome = Outcome::Finished;
            }
            Stop::Preempted => {
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
        for (node, (left, _)) in view.iter().enumerate() {
            if self.nodes[node].place == Place::Draining && left.iter().all(|left| *left == 1000) {
                self.nodes[node].place = Place::Away;
            }
        }
    }

    fn start(&mut self, job: usize, pieces: Vec<Piece>) {
        let now = self.now;
        let state = &mut self.jobs[job];
        state.phase = Phase::Running;
        state.since = now;
        state.pieces = pieces;
    }

    fn resize(&mut self, group: usize, target: u32) {
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

    fn empty(&self, all: bool) -> View {
        let takes = |node: &Node| all || (node.place == Place::In && node.failures == 0);
        self.nodes.iter().zip(&self.sizes).map(|(node, size)| (vec![1000; *size], takes(node))).collect()
    }

    fn view(&self) -> View {
        let mut view = self.empty(false);
        for job in self.in_phase(Phase::Running) {
            self.take(&mut view, &self.jobs[job].pieces);
        }
        view
    }

    fn take(&self, view: &mut View, pieces: &[Piece]) {
        for piece in pieces {
            let node = &mut view[(piece.node - self.first) as usize].0;
            for (gpu, left) in node.iter_mut().enumerate() {
                if piece.gpus >> gpu & 1 == 1 {
                    let wants = if piece.milli == 0 { 1000 } else { piece.milli };
                    *left = left.checked_sub(wants).expect("a GPU is given twice");
                }
            }
        }
    }

    fn used(&self, vc: usize, jobs: &[usize]) -> u64 {
        jobs.iter().filter(|job| self.vc(**job) == vc).map(|job| self.shape(*job).amount()).sum()
    }

    fn quota_allows(&self, job: usize, others: &[usize]) -> bool {
        let vc = self.vc(job);
        self.quota[vc].is_none_or(|quota| self.used(vc, others) + self.shape(job).amount() <= quota)
    }

    fn is_possible(&self, job: usize) -> bool {
        let most = self.cluster.vcs[self.vc(job)].quota_milli.iter().map(|(_, amount)| *amount).max();
        most.is_none_or(|most| self.shape(job).amount() <= most) && self.place(&self.empty(true), job, true).is_some()
    }

    fn fits(&self, job: usize) -> Option<Vec<Piece>> {
        if !self.quota_allows(job, &self.in_phase(Phase::Running)) {
            return None;
        }
        self.place(&self.view(), job, self.is_relaxed(job))
    }

    fn is_relaxed(&self, job: usize) -> bool {
        match self.policy.placement {
            Placement::Locality(timeout) => self.now - self.workload.submit_ms[job] >= timeout,
            _ => false,
        }
    }

    // ---- keys

    fn tenant(&self, job: usize) -> u32 {
        if self.policy.tenants_are_vcs { u32::from(self.workload.vc[job]) } else { self.workload.user[job] }
    }

    /// (start, end, thousandths of GPUs) of all that a job has held.
    fn held(&self, job: usize) -> Vec<(i64, i64, u64)> {
        let amount = self.shape(job).amount();
        let state = &self.jobs[job];
        let past = state.fate.segments.iter().map(|(start, end, _, _)| (*start, *end, amount));
        let present = (state.phase == Phase::Running).then_some((state.since, self.now, amount));
        past.chain(present).collect()
    }

    fn decayed_gpu_s(&self, tenant: Option<u32>, half_life_ms: i64) -> f64 {
        let half_life = half_life_ms as f64 / 1000.0;
        let mut sum = 0.0;
        for job in &self.members {
            if tenant.is_some_and(|tenant| self.tenant(*job) != tenant) {
                continue;
            }
            for (start, end, amount) in self.held(*job) {
                let age = |at: i64| (self.now - at) as f64 / 1000.0;
                // 2^(−age(end)/h) − 2^(−age(start)/h), without losing digits where the job was held for a short time.
                let held = (end - start) as f64 / 1000.0;
                let gone = -(-held / half_life * std::f64::consts::LN_2).exp_m1();
                let integral = half_life / std::f64::consts::LN_2 * (-age(end) / half_life).exp2() * gone;
                sum += amount as f64 / 1000.0 * integral;
            }
        }
        sum
    }

    fn key(&self, job: usize) -> Key {
        let gpus = self.shape(job).as_gpus();
        let submit = self.workload.submit_ms[job];
        let wait = (self.now - submit) as f64 / 1000.0;
        let estimate = self.estimate(job);
        let seconds = (estimate as f64 / 1000.0).max(1.0);
        let state = &self.jobs[job];
        let (mut done, mut owed) = (state.done, state.owed);
        if state.phase == Phase::Running {
            let held = self.now - state.since;
            let paid = held.min(owed);
            done += held - paid;
            owed -= paid;
        }
        let attained: u64 = self.held(job).iter().map(|(start, end, amount)| (end - start) as u64 * amount).sum();
        let most_gpus: usize = self.sizes.iter().sum();
        match &self.policy.order {
            Order::Fifo => Key(submit),
            Order::FewestGpus => Key(self.shape(job).amount() as i64),
            Order::Sjf => Key(estimate),
            Order::Ljf => Key(-estimate),
            Order::Srtf => Key((estimate - done + owed).max(0)),
            Order::Qssf => {
                let predicted = self.workload.predicted_s[job].filter(|_| self.policy.estimate == Estimate::Predicted);
                Key::exact(predicted.unwrap_or(estimate as f64 / 1000.0) * gpus)
            }
            Order::Las => Key(attained as i64),
            Order::Tiresias(bounds) => {
                Key(bounds.iter().filter(|bound| attained as f64 / 1e6 > **bound).count() as i64)
            }
            Order::Gittins => Key::of(-self.gittins(attained as f64 / 1e6)),
            Order::Wfp3 => Key::of(-(wait / seconds) * (wait / seconds) * (wait / seconds) * gpus),
            Order::F1 => {
                let at = (submit as f64 / 1000.0).max(1.0);
                Key::of(seconds.log10() * gpus + 870.0 * at.log10())
            }
            Order::Unicef => Key::of(-wait / ((1.0 + gpus).log2() * seconds)),
            Order::Multifactor(weights) => {
                let total = self.decayed_gpu_s(None, weights.half_life_ms);
                let mut tenants: Vec<u32> = self.members.iter().map(|job| self.tenant(*job)).collect();
                tenants.sort_unstable();
                tenants.dedup();
                let own = self.decayed_gpu_s(Some(self.tenant(job)), weights.half_life_ms);
                let share = if total > 0.0 { own / total * tenants.len() as f64 } else { 0.0 };
                let part = gpus / most_gpus as f64;
                let size = if weights.favor_small { 1.0 - part } else { part };
                let age = (wait * 1000.0 / weights.max_age_ms as f64).min(1.0);
                Key::of(-(weights.age * age + weights.fair_share * 2f64.powf(-share) + weights.size * size))
            }
            Order::FairShare(half_life) => Key::of(self.decayed_gpu_s(Some(self.tenant(job)), *half_life)),
            Order::LongTerm => {
                let own = self.members.iter().filter(|other| self.tenant(**other) == self.tenant(job));
                Key(own.flat_map(|job| self.held(*job)).map(|(start, end, amount)| (end - start) * amount as i64).sum())
            }
            Order::FinishTime => {
                let present = |phase| self.in_phase(phase);
                let mut tenants: Vec<u32> = present(Phase::Waiting)
                    .into_iter()
                    .chain(present(Phase::Running))
                    .map(|job| self.tenant(job))
                    .collect();
                tenants.sort_unstable();
                tenants.dedup();
                let there = |node: &Node| node.place != Place::Away && node.failures == 0;
                let in_service: usize =
                    self.nodes.iter().zip(&self.sizes).filter(|(node, _)| there(node)).map(|(_, size)| *size).sum();
                let left = ((estimate - done) as f64 / 1000.0).max(0.0);
                let crowding = (gpus * tenants.len() as f64 / in_service.max(1) as f64).max(1.0);
                Key::of(-(wait + left) / ((estimate as f64 / 1000.0).max(0.001) * crowding))
            }
            Order::Score => Key::exact(self.workload.score[job]),
        }
    }

    fn gittins(&self, attained: f64) -> f64 {
        let mut history = self.workload.history_gpu_s.clone();
        history.sort_by(f64::total_cmp);
        if history.len() > 1000 {
            history = (0..1000).map(|i| history[i * history.len() / 1000]).collect();
        }
        let grid = std::iter::once(0.0).chain((0..=250).map(|k| 1.1f64.powi(k)));
        let age = grid.take_while(|age| *age <= attained).last().unwrap();
        let above: Vec<f64> = history.into_iter().filter(|value| *value > age).collect();
        let index = |k: usize| {
            let spent: f64 = above[..k].iter().map(|value| value - age).sum();
            k as f64 / (spent + (above.len() - k) as f64 * (above[k - 1] - age))
        };
        (1..=above.len()).map(index).fold(0.0, f64::max)
    }

    fn sorted(&self, jobs: Vec<usize>) -> Vec<usize> {
        let mut keyed: Vec<_> =
            jobs.into_iter().map(|job| (self.key(job), self.workload.submit_ms[job], job)).collect();
        keyed.sort();
        keyed.into_iter().map(|(_, _, job)| job).collect()
    }

    // ---- decisions

    /// Starts and stops jobs; whether any was preempted.
    fn decide(&mut self) -> bool {
        let queue = self.sorted(self.in_phase(Phase::Waiting));
        match self.policy.scan {
            Scan::Easy => self.easy(&queue),
            Scan::Conservative => self.conservative(&queue),
            Scan::Strict | Scan::Skip => return self.walk(&queue),
            Scan::Slurm => panic!("the slurm scan is compared with a real Slurm, not with this"),
        }
        false
    }

    fn walk(&mut self, queue: &[usize]) -> bool {
        let strict = self.policy.scan == Scan::Strict;
        let mut blocked: Vec<usize> = Vec::new();
        let mut stopped = false;
        for job in queue.iter().copied() {
            if blocked.contains(&self.vc(job)) {
                continue;
            }
            if let Some(pieces) = self.fits(job) {
                self.start(job, pieces);
                continue;
            }
            let victims = self.victims(job);
            if !victims.is_empty() {
                for victim in victims {
                    self.stop(victim, Stop::Preempted);
                }
                stopped = true;
                let pieces = self.fits(job).expect("it fits once they are gone");
                self.start(job, pieces);
            } else if strict {
                if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                    break;
                }
                blocked.push(self.vc(job));
            }
        }
        stopped
    }

    fn victims(&self, job: usize) -> Vec<usize> {
        if self.policy.preemption == Preemption::Never {
            return Vec::new();
        }
        let own = self.key(job);
        let running = self.in_phase(Phase::Running);
        let mut candidates: Vec<usize> = running
            .iter()
            .copied()
            .filter(|other| self.now - self.jobs[*other].since > self.jobs[*other].owed && self.key(*other) > own)
            .collect();
        candidates = self.sorted(candidates);
        candidates.reverse();
        let fits_without = |gone: &[usize]| {
            let rest: Vec<usize> = running.iter().copied().filter(|other| !gone.contains(other)).collect();
            let mut view = self.empty(false);
            for other in &rest {
                self.take(&mut view, &self.jobs[*other].pieces);
            }
            self.quota_allows(job, &rest) && self.place(&view, job, self.is_relaxed(job)).is_some()
        };
        let Some(count) = (1..=candidates.len()).find(|count| fits_without(&candidates[..*count])) else {
            return Vec::new();
        };
        let mut gone = candidates[..count].to_vec();
        for candidate in candidates[..count].iter().rev() {
            let fewer: Vec<usize> = gone.iter().copied().filter(|other| other != candidate).collect();
            if fits_without(&fewer) {
                gone = fewer;
            }
        }
        gone
    }

    fn easy(&mut self, queue: &[usize]) {
        let mut rest = queue.iter().copied();
        let head = loop {
            let Some(job) = rest.next() else { return };
            match self.fits(job) {
                Some(pieces) => self.start(job, pieces),
                None => break job,
            }
        };
        // Jobs that still run at the shadow time, those taken beside the reservation included.
        let running = self.in_phase(Phase::Running);
        let mut ends: Vec<i64> = running.iter().map(|job| self.expected_end(*job)).collect();
        ends.sort_unstable();
        let fits_beside = |pool: &Self, others: &[usize]| {
            let mut view = pool.empty(false);
            for other in others {
                pool.take(&mut view, &pool.jobs[*other].pieces);
            }
            pool.quota_allows(head, others) && pool.place(&view, head, pool.is_relaxed(head)).is_some()
        };
        let beside =
            |at: i64| -> Vec<usize> { running.iter().copied().filter(|job| self.expected_end(*job) > at).collect() };
        let shadow = ends.into_iter().find(|at| fits_beside(self, &beside(*at)));
        let mut others = shadow.map(beside).unwrap_or_default();
        for job in rest {
            let Some(pieces) = self.fits(job) else { continue };
            let Some(at) = shadow else {
                self.start(job, pieces);
                continue;
            };
            if self.now + self.expected_ms(job) <= at {
                self.start(job, pieces);
                continue;
            }
            let before = self.jobs[job].clone();
            self.start(job, pieces);
            others.push(job);
            if !fits_beside(self, &others) {
                others.pop();
                self.jobs[job] = before;
            }
        }
    }

    fn conservative(&mut self, queue: &[usize]) {
        // (from, to, pieces, VC, amount)
        let mut held: Vec<(i64, i64, Vec<Piece>, usize, u64)> = self
            .in_phase(Phase::Running)
            .into_iter()
            .map(|job| {
                (
                    self.now,
                    self.expected_end(job),
                    self.jobs[job].pieces.clone(),
                    self.vc(job),
                    self.shape(job).amount(),
                )
            })
            .collect();
        for job in queue.iter().copied().take(self.policy.depth.map_or(usize::MAX, |depth| depth as usize)) {
            let mut moments: Vec<i64> = held.iter().flat_map(|(from, to, ..)| [*from, *to]).chain([self.now]).collect();
            moments.sort_unstable();
            moments.dedup();
            for from in moments.iter().copied() {
                let to = from + self.expected_ms(job).max(1);
                let inside = moments.iter().copied().filter(|at| *at == from || (*at > from && *at < to));
                let mut throughout: Option<View> = None;
                let mut allowed = true;
                for at in inside {
                    let mut view = self.empty(false);
                    let mut used = 0;
                    for (_, _, pieces, vc, amount) in held.iter().filter(|(from, to, ..)| *from <= at && at < *to) {
                        self.take(&mut view, pieces);
                        used += if *vc == self.vc(job) { *amount } else { 0 };
                    }
                    allowed &= self.quota[self.vc(job)].is_none_or(|quota| used + self.shape(job).amount() <= quota);
                    throughout = Some(match throughout {
                        None => view,
                        Some(mut known) => {
                            for ((known, _), (view, _)) in known.iter_mut().zip(&view) {
                                known.iter_mut().zip(view).for_each(|(known, left)| *known = (*known).min(*left));
                            }
                            known
                        }
                    });
                }
                let Some(pieces) =
                    throughout.filter(|_| allowed).and_then(|view| self.place(&view, job, self.is_relaxed(job)))
                else {
                    continue;
                };
                if from == self.now {
                    self.start(job, pieces.clone());
                }
                held.push((from, to, pieces, self.vc(job), self.shape(job).amount()));
                break;
            }
        }
    }

    // ---- placement

    fn place(&self, view: &View, job: usize, relaxed: bool) -> Option<Vec<Piece>> {
        let shape = self.shape(job);
        let is_type = |node: usize, wanted: Option<u16>| wanted.is_none() || self.nodes[node].gpu_type == wanted;
        let eligible: Vec<usize> =
            (0..view.len()).filter(|node| view[*node].1 && is_type(*node, shape.gpu_type)).collect();
        let free = |node: usize| view[node].0.iter().filter(|left| **left == 1000).count();
        let draw = |node: usize| splitmix(self.policy.seed, job as u32, self.first + node as u32);
        let rule = self.policy.placement;
        let relaxed = relaxed && matches!(rule, Placement::Locality(_));
        if shape.milli > 0 {
            let fits = |node: &usize| view[*node].0.iter().any(|left| *left >= shape.milli);
            let amount = |node: usize| view[node].0.iter().map(|left| u64::from(*left)).sum::<u64>();
            let can: Vec<usize> = eligible.into_iter().filter(fits).collect();
            let node = match rule {
                Placement::FirstFit => can.first().copied(),
                Placement::Random => can.into_iter().min_by_key(|node| (draw(*node), *node)),
                Placement::WorstFit | Placement::Spread => {
                    can.into_iter().min_by_key(|node| (Reverse(amount(*node)), *node))
                }
                Placement::Fragmentation => can.into_iter().min_by_key(|node| {
                    let mut after = view[*node].0.clone();
                    let gpu = self.part_gpu(&after, shape.milli);
                    after[gpu] -= shape.milli;
                    (self.waste(*node, &after) - self.waste(*node, &view[*node].0), *node)
                }),
                _ => can.into_iter().min_by_key(|node| (amount(*node), *node)),
            }?;
            let gpu = self.part_gpu(&view[node].0, shape.milli);
            return Some(vec![Piece { node: self.first + node as u32, milli: shape.milli, gpus: 1 << gpu }]);
        }
        let wanted = shape.gpus as usize;
        let piece = |node: usize, count: usize| {
            let gpus = view[node].0.iter().enumerate().filter(|(_, left)| **left == 1000).take(count);
            Piece { node: self.first + node as u32, milli: 0, gpus: gpus.map(|(gpu, _)| 1u64 << gpu).sum() }
        };
        let fill = |order: Vec<usize>| {
            let mut left = wanted;
            let mut pieces = Vec::new();
            for node in order {
                let count = free(node).min(left);
                if count > 0 {
                    pieces.push(piece(node, count));
                    left -= count;
                }
            }
            (left == 0).then_some(pieces)
        };
        if rule == Placement::Spread {
            let mut counts = vec![0; view.len()];
            for _ in 0..wanted {
                let node = eligible.iter().copied().max_by_key(|node| (free(*node) - counts[*node], Reverse(*node)))?;
                if free(node) == counts[node] {
                    return None;
                }
                counts[node] += 1;
            }
            return Some(
                (0..view.len()).filter(|node| counts[*node] > 0).map(|node| piece(node, counts[node])).collect(),
            );
        }
        if rule == Placement::Random {
            let mut order = eligible;
            order.sort_by_key(|node| (draw(*node), *node));
            return fill(order);
        }
        if relaxed {
            let mut order = eligible;
            order.sort_by_key(|node| (Reverse(free(*node)), *node));
            return fill(order);
        }
        let largest = |wanted: Option<u16>| {
            (0..view.len()).filter(|node| is_type(*node, wanted)).map(|node| self.sizes[node]).max().unwrap_or(0)
        };
        let l = largest(shape.gpu_type);
        let mut sizes = Vec::new();
        if shape.nodes > 0 {
            let each = wanted.div_ceil(usize::from(shape.nodes));
            let mut left = wanted;
            while left > 0 {
                sizes.push(left.min(each));
                left -= left.min(each);
            }
        } else if l == 0 {
            return None;
        } else {
            sizes = vec![l; wanted / l];
            if !wanted.is_multiple_of(l) {
                sizes.push(wanted % l);
            }
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for size in &sizes {
            let rest = shape.nodes == 0 && wanted > l && *size < l;
            let unused = |node: &usize| !pieces.iter().any(|piece| piece.node == self.first + *node as u32);
            let can: Vec<usize> = eligible.iter().copied().filter(|node| free(*node) >= *size).filter(unused).collect();
            let next = match rule {
                Placement::FirstFit => piece(can.first().copied()?, *size),
                Placement::WorstFit => piece(can.into_iter().min_by_key(|node| (Reverse(free(*node)), *node))?, *size),
                Placement::Consolidate | Placement::Locality(_) if rest => {
                    let whole = can.iter().copied().find(|node| free(*node) == l);
                    let most = can.iter().copied().min_by_key(|node| (Reverse(free(*node)), *node));
                    piece(whole.or(most)?, *size)
                }
                Placement::Fragmentation => {
                    let increase = |node: &usize| {
                        let mut after = view[*node].0.clone();
                        let mut left = *size;
                        for gpu in &mut after {
                            if *gpu == 1000 && left > 0 {
                                *gpu = 0;
                                left -= 1;
                            }
                        }
                        (self.waste(*node, &after) - self.waste(*node, &view[*node].0), *node)
                    };
                    piece(can.into_iter().min_by_key(increase)?, *size)
                }
                Placement::Buddy => {
                    let cells = can.into_iter().filter_map(|node| {
                        let (home, position) = buddy(&view[node].0, *size)?;
                        Some((home, node, position))
                    });
                    let (_, node, position) = cells.min()?;
                    let gpus = (position..position + size).map(|gpu| 1u64 << gpu).sum();
                    Piece { node: self.first + node as u32, milli: 0, gpus }
                }
                _ => piece(can.into_iter().min_by_key(|node| (free(*node), *node))?, *size),
            };
            pieces.push(next);
        }
        Some(pieces)
    }

    fn part_gpu(&self, left: &[u16], milli: u16) -> usize {
        let shared = (0..left.len()).filter(|gpu| left[*gpu] < 1000 && left[*gpu] >= milli);
        shared.min_by_key(|gpu| (left[*gpu], *gpu)).or_else(|| left.iter().position(|left| *left == 1000)).unwrap()
    }

    fn waste(&self, node: usize, left: &[u16]) -> i128 {
        let mut waste = 0i128;
        for (shape, jobs) in self.workload.shapes.iter().zip(&self.submitted) {
            if shape.gpu_type.is_some() && shape.gpu_type != self.nodes[node].gpu_type {
                continue;
            }
            let shared = left.iter().filter(|left| **left < 1000).copied();
            let free = left.iter().filter(|left| **left == 1000).count();
            let own: i128 = if shape.milli > 0 {
                shared.filter(|left| *left < shape.milli).map(i128::from).sum()
            } else {
                let l = (0..self.nodes.len())
                    .filter(|other| shape.gpu_type.is_none() || self.nodes[*other].gpu_type == shape.gpu_type)
                    .map(|other| self.sizes[other])
                    .max()
                    .unwrap_or(0);
                let needs = (shape.gpus as usize).min(l);
                shared.map(i128::from).sum::<i128>() + if free < needs { free as i128 * 1000 } else { 0 }
            };
            waste += own * i128::from(*jobs);
        }
        waste
    }
}

/// Home and position of the best buddy cell for `size` GPUs.
fn buddy(left: &[u16], size: usize) -> Option<(usize, usize)> {
    let nodes_size = left.len();
    let is_free = |from: usize, count: usize| {
        from + count <= nodes_size && left[from..from + count].iter().all(|left| *left == 1000)
    };
    // All cells: (position, size).
    let mut cells: Vec<(usize, usize)> = vec![(0, nodes_size)];
    let mut block = 1;
    while block <= nodes_size {
        cells
            .extend((0..nodes_size).step_by(block).filter(|from| from + block <= nodes_size).map(|from| (from, block)));
        block *= 2;
    }
    let mut needs = 1;
    while needs < size {
        needs *= 2;
    }
    let wanted = if needs > nodes_size { nodes_size } else { needs };
    let home = |position: usize, count: usize| {
        let contains = |cell: &&(usize, usize)| cell.0 <= position && position + count <= cell.0 + cell.1;
        cells.iter().filter(contains).filter(|cell| is_free(cell.0, cell.1)).map(|cell| cell.1).max()
    };
    let candidates = cells.iter().filter(|cell| cell.1 == wanted && is_free(cell.0, cell.1));
    candidates.filter_map(|cell| Some((home(cell.0, cell.1)?, cell.0))).min()
}

fn splitmix(seed: u64, job: u32, node: u32) -> u64 {
    let mix = |value: u64| {
        let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    mix(mix(seed ^ mix(u64::from(job))) ^ u64::from(node))
}
