//! The event loop of a pool: what happens, in order, and what that does to nodes, queue and jobs.
//!
//! One pool at a time. Who starts is decided in [`super::scan`], where it starts in [`super::place`], in what order in [`super::order`];
//! they ask for an [`Action`], and only [`Run::apply`] carries it out, after checking it. Submissions come from the workload
//! in order; everything else is in one heap. O(log n) for an event.
//!
//! Worked number: a job is one submission, one entry of the heap for its end, one for the queue: a replay of 68,503 jobs is
//! 137,006 instants at most.

mod action;
mod admission;
mod begin;
mod dismiss;
mod divided;
mod event;
mod guarantee;
mod joint;
#[cfg(test)]
mod laws;
mod line;
mod power;
mod queue;
mod service;
#[cfg(test)]
mod tests;
mod wait;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

pub(super) use admission::Admission;
use event::Event;
pub(super) use line::Lines;
use power::Power;
use service::Service;
pub(super) use wait::{Line, Queue, Ranking};

use super::cell::Cells;
use super::cluster::Cluster;
use super::divided::Divided;
use super::key::Key;
use super::limit::{Ledger, Limits};
use super::nodes::Nodes;
use super::order::{Keys, Progress};
use super::place::{Ask, Placer};
use super::policy::{Compat, Order, Placement, Policy, Preemption, Scan};
use super::power::{Record, Supervisor};
use super::schedule::{Outcome, Piece, Schedule, Segment, Stop};
use super::topology::{Domains, Topology};
use super::workload::{Shape, Workload};
use crate::error::{Error, Result};

/// One second, the tick of compatible replays and the pause after a preemption.
const SECOND_MS: i64 = 1000;

/// Replays `workload` on `cluster` under `policy`.
///
/// O(n log n) where the order is fixed; see [`super`].
///
/// # Errors
/// If the workload, the cluster or the policy is not valid, or they do not go together.
///
/// # Example
/// ```
/// use tracecast_sim::{Cluster, Policy, Shape, Workload, simulate};
///
/// let mut jobs = Workload::default();
/// jobs.push(0, 100_000, Shape::whole(6));
/// jobs.push(10_000, 50_000, Shape::whole(4));
/// let schedule = simulate(&jobs, &Cluster::of_vcs(&[("all", 1, 8)]), &Policy::default())?;
/// assert_eq!(schedule.start_ms(1), Some(100_000));
/// # Ok::<(), tracecast_sim::Error>(())
/// ```
pub fn simulate(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Schedule> {
    replay(workload, cluster, policy, None)
}

/// Replays jobs like [`simulate`], on nodes that sleep and wake as `supervisor` has it; see
/// [`super`], section *Power*.
///
/// # Errors
/// Errors of [`simulate`], and if the rules of power are not valid, or the policy is a compatible
/// one.
pub fn simulate_powered(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    supervisor: &mut Supervisor,
) -> Result<(Schedule, Record)> {
    supervisor.rules.validate()?;
    if policy.compat != Compat::None {
        return Err(Error::Policy("nodes sleep in no compatible replay: leave out the compatibility".to_owned()));
    }
    if let Some(scheduler) = policy.scan.scheduler() {
        return Err(Error::Policy(format!("nodes do not sleep under the scan `{scheduler}`; use `strict` or `skip`")));
    }
    let mut record = Record::new(cluster);
    let schedule = replay(workload, cluster, policy, Some((supervisor, &mut record)))?;
    Ok((schedule, record))
}

fn replay(
    workload: &Workload,
    cluster: &Cluster,
    policy: &Policy,
    mut supervision: Option<(&mut Supervisor, &mut Record)>,
) -> Result<Schedule> {
    cluster.validate()?;
    workload.validate(cluster.vcs.len())?;
    workload.check_requests(cluster.topology.as_ref())?;
    policy.validate(workload)?;
    policy.goes_with(cluster)?;
    if cluster.with_cells().is_some() && policy.scan.scheduler().is_none() {
        cluster.goes_in_cells(workload)?;
        if supervision.is_some() {
            return Err(Error::Policy("nodes do not sleep under guaranteed_cells; leave these out".to_owned()));
        }
    }
    if policy.compat == Compat::Helios && matches!(policy.order, Order::Srtf | Order::Tiresias(_)) {
        return super::helios::replay(workload, cluster, policy);
    }
    if policy.compat == Compat::Helios {
        super::helios::check(workload, cluster, policy)?;
    }
    if let Some(limits) = &cluster.limits {
        limits.validate(workload)?;
    }
    // Limits may bring the weights of the order.
    let weighted = cluster.limits.as_ref().map(|limits| policy.weighted(limits));
    let policy = weighted.as_ref().unwrap_or(policy);
    let mut schedule = Schedule::new(workload.len());
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); cluster.pools.len()];
    for (job, vc) in (0u32..).zip(&workload.vc) {
        members[usize::from(cluster.vcs[usize::from(*vc)].pool)].push(job);
    }
    let ranking = Ranking::new(workload, cluster, policy);
    let setting = Setting { workload, cluster, policy, ranking: ranking.as_ref() };
    if let Some(limits) = &cluster.limits {
        if supervision.is_some() {
            return Err(Error::Policy("nodes do not sleep under limits by QOS; leave the limits out".to_owned()));
        }
        return joint::replay(setting, limits, members, schedule);
    }
    for (pool, (jobs, first)) in members.into_iter().zip(cluster.first_nodes()).enumerate() {
        let power = supervision.as_mut().map(|(supervisor, record)| {
            let controller = supervisor.controllers.get_mut(pool).and_then(Option::as_mut);
            Power::new(&supervisor.rules, controller, record, cluster, pool, workload.origin_ms)
        });
        let mut run = Run::new(setting, pool, first, jobs, schedule, power)?;
        run.replay()?;
        schedule = run.schedule;
    }
    Ok(schedule)
}

/// Inputs of a replay.
#[derive(Debug, Clone, Copy)]
struct Setting<'a> {
    workload: &'a Workload,
    cluster: &'a Cluster,
    policy: &'a Policy,
    ranking: Option<&'a Ranking>,
}

/// Action of a policy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action<'p> {
    /// A waiting job is to start on these GPUs.
    Start { job: u32, pieces: &'p [Piece] },
    /// A running job is to be stopped and wait again.
    Preempt { job: u32 },
}

/// Past of a job that may run more than once; kept only where policies look at it.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    done_ms: i64,
    /// Progress that a checkpoint has saved, milliseconds.
    saved_ms: i64,
    owed_ms: i64,
    attained: u64,
}

/// Reservation of EASY for the head of the queue; see the module `scan::easy`.
pub(super) struct Reservation {
    pub(super) head: u32,
    /// Time at which the head can start; `None` if no expected end lets it.
    pub(super) at_ms: Option<i64>,
    /// The nodes then.
    pub(super) nodes: Nodes,
    /// Thousandths of GPUs at work then, by VC.
    pub(super) used: Vec<u64>,
}

/// A replay of one pool.
pub(super) struct Run<'a> {
    pub(super) workload: &'a Workload,
    pub(super) cluster: &'a Cluster,
    pub(super) policy: &'a Policy,
    pub(super) schedule: Schedule,
    pub(super) now: i64,
    pub(super) nodes: Nodes,
    pub(super) placer: Placer,
    pub(super) queue: Queue<'a>,
    pub(super) keys: Keys<'a>,
    pub(super) service: Service,
    events: BinaryHeap<Reverse<(i64, Event)>>,
    jobs: Vec<u32>,
    arrived: usize,
    /// Thousandths of GPUs at work, by VC of the cluster.
    pub(super) used: Vec<u64>,
    /// Quota in force, by VC of the cluster.
    pub(super) quota: Vec<Option<u64>>,
    /// Whether a shape (with its VC's largest quota) could ever run here, by VC and shape.
    possible: Vec<Option<bool>>,
    /// The pool with every node there ever is.
    pub(super) whole: Nodes,
    /// Running segments by expected end, where the scan looks at them.
    pub(super) expected: BTreeSet<(i64, u32)>,
    expected_end: Vec<(i64, u8)>,
    /// Running segments, where someone may be stopped or looked at.
    pub(super) running: BTreeSet<u32>,
    past: Vec<Past>,
    pub(super) reservation: Option<Reservation>,
    next_decision: Option<i64>,
    /// Events to come other than decisions.
    to_come: usize,
    /// Pieces under construction, kept for its memory.
    pub(super) scratch: Vec<Piece>,
    /// Jobs that do not run again after a failure, in order.
    once: Vec<u32>,
    /// Whether any job asks for a part of a GPU.
    pub(super) shares: bool,
    /// Whether a VC of the pool has a guarantee.
    pub(super) guaranteed: bool,
    /// Cells that VCs of the pool are guaranteed; `None` if none is.
    pub(super) cells: Option<Box<Cells>>,
    /// Quotas in cohorts, under the scan `kueue`.
    pub(super) admission: Option<Box<Admission<'a>>>,
    /// Queues that divide the cluster, under the scans `kai` and `volcano`.
    pub(super) divided: Option<Divided<'a>>,
    /// Use under limits by QOS and account; lent from pool to pool.
    ledger: Option<Box<Ledger<'a>>>,
    /// Jobs of all pools that run, by expected end, under limits and where the scan looks at them; lent from pool to pool.
    pub(super) all_expected: BTreeSet<(i64, u32)>,
    pool: usize,
    /// Segments that were told to stop and still run.
    ending: BTreeSet<u32>,
    traits: Traits,
    /// Nodes that sleep; `None` where all are always powered.
    power: Option<Box<Power<'a>>>,
    /// Jobs submitted at this instant, under the compatible QSSF.
    pub(super) newcomers: Vec<u32>,
    /// Every reservation made: (head, shadow time).
    #[cfg(test)]
    pub(super) promises: Vec<(u32, i64)>,
}

/// Parts of the machinery that a policy needs.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)]
struct Traits {
    backfill: bool,
    tracks_running: bool,
    keeps_past: bool,
    uses_keys: bool,
    helios: bool,
}

fn sorted(jobs: &[u32]) -> Vec<u32> {
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    jobs
}

impl<'a> Run<'a> {
    fn new(
        setting: Setting<'a>,
        pool: usize,
        first: u32,
        jobs: Vec<u32>,
        schedule: Schedule,
        power: Option<Power<'a>>,
    ) -> Result<Self> {
        let Setting { workload, cluster, policy, ranking } = setting;
        let Some(spec) = cluster.pools.get(pool) else {
            return Err(Error::Cluster(format!("pool {pool} does not exist")));
        };
        let whole = Nodes::new(spec, first);
        let matters =
            |topology: &&Topology| workload.has_requests() || policy.heeds_switches(topology) || policy.heeds_cells();
        let domains = cluster.topology.as_ref().filter(matters);
        let domains = domains.map(|topology| Arc::new(Domains::new(topology, first, whole.len())));
        let whole = whole.within(domains);
        let outages = cluster.outages.iter().any(|outage| (first..first + whole.len()).contains(&outage.node));
        let backfill = policy.scan.backfills();
        let dismisses = cluster.limits.as_ref().is_some_and(Limits::preempts);
        let preempts = policy.preemption != Preemption::Never || dismisses;
        let traits = Traits {
            backfill,
            tracks_running: preempts || outages || policy.scan.reserves_for_all(),
            keeps_past: preempts || outages || !policy.order.is_fixed(),
            uses_keys: !policy.order.is_fixed(),
            helios: policy.compat == Compat::Helios,
        };
        let cells = cluster.guarantees_cells(pool) && policy.scan.scheduler().is_none();
        let cells = cells.then(|| Box::new(Cells::new(&cluster.vcs, &whole)));
        let most_gpus = (0..whole.len()).map(|node| u64::from(whole.size(node))).sum();
        let keys = Keys::new(workload, policy, &jobs, most_gpus).with_limits(cluster.limits.as_ref());
        let queue = Queue::new(ranking, pool, &jobs, policy.scan);
        let mut run = Self {
            workload,
            cluster,
            policy,
            schedule,
            now: 0,
            service: Service::new(spec),
            nodes: whole.clone(),
            placer: Placer::new(policy, &workload.shapes),
            queue,
            keys,
            events: BinaryHeap::with_capacity(1024),
            jobs,
            arrived: 0,
            used: vec![0; cluster.vcs.len()],
            quota: vec![None; cluster.vcs.len()],
            possible: vec![None; cluster.vcs.len() * workload.shapes.len()],
            whole,
            expected: BTreeSet::new(),
            expected_end: if backfill { vec![(0, 0); workload.len()] } else { Vec::new() },
            running: BTreeSet::new(),
            past: if traits.keeps_past { vec![Past::default(); workload.len()] } else { Vec::new() },
            reservation: None,
            next_decision: None,
            to_come: 0,
            scratch: Vec::new(),
            once: sorted(&workload.once),
            guaranteed: cluster.guarantees(pool),
            cells,
            admission: cluster
                .cohorts
                .as_ref()
                .filter(|_| policy.scan == Scan::Kueue)
                .map(|cohorts| Box::new(Admission::new(cohorts, workload.len()))),
            divided: Divided::under(cluster, policy.scan),
            ledger: None,
            all_expected: BTreeSet::new(),
            pool,
            ending: BTreeSet::new(),
            shares: workload.shapes.iter().any(|shape| shape.milli > 0),
            traits,
            power: None,
            newcomers: Vec::new(),
            #[cfg(test)]
            promises: Vec::new(),
        };
        if let Some(power) = power {
            run.supervise(power);
        }
        if cluster.limits.is_none() {
            run.begin(pool)?;
        }
        Ok(run)
    }

    /// Replays all events.
    fn replay(&mut self) -> Result<()> {
        while let Some(now) = self.next_instant() {
            self.power_advance(now);
            let happened = self.happen(now);
            if happened {
                self.due(now);
            }
            let decides = self.is_due();
            if decides {
                self.next_decision = None;
                self.decide()?;
                if let Some(interval) = self.policy.interval_ms
                    && self.queue.len() > 0
                    && self.has_more()
                {
                    self.due(now.saturating_add(interval));
                }
            }
            self.power_step(happened || decides);
        }
        self.power_finish();
        Ok(())
    }

    /// Returns when something happens next.
    fn next_instant(&self) -> Option<i64> {
        let arrival = self.jobs.get(self.arrived).map(|job| self.workload.submit_ms[*job as usize].max(0));
        let event = self.events.peek().map(|Reverse((at, _))| *at);
        arrival.into_iter().chain(event).min()
    }

    /// Whether a decision is due now.
    fn is_due(&self) -> bool {
        self.next_decision.is_some_and(|at| at <= self.now)
    }

    /// Whether anything runs or is to come; if not, jobs that still wait would wait for ever.
    pub(super) fn has_more(&self) -> bool {
        self.to_come > 0 || self.arrived < self.jobs.len()
    }

    /// Handles the events of an instant; returns whether there were any.
    fn happen(&mut self, now: i64) -> bool {
        let workload = self.workload;
        self.now = now;
        let (mut happened, mut progressed) = self.happen_while(|event| event < (Event::Relaxed { job: 0 }));
        if happened {
            self.admission_gives_back();
        }
        self.newcomers.clear();
        while let Some(job) = self.jobs.get(self.arrived).copied() {
            if workload.submit_ms[job as usize] > now {
                break;
            }
            self.arrived += 1;
            (happened, progressed) = (true, true);
            if self.admit(job) {
                if let Some(power) = &mut self.power {
                    power.waits(workload.shape_of(job as usize).amount());
                }
                self.wait(job);
            }
        }
        let after = self.happen_while(|event| event >= (Event::Relaxed { job: 0 }));
        (happened, progressed) = (happened || after.0, progressed || after.1);
        if let Some(power) = &mut self.power
            && progressed
        {
            power.progressed(now);
        }
        happened
    }

    /// Handles the next events of now as long as they are of a kind; returns whether there were
    /// any, and any but those of power.
    fn happen_while(&mut self, of_kind: impl Fn(Event) -> bool) -> (bool, bool) {
        let (mut happened, mut progressed) = (false, false);
        while let Some(Reverse((at, event))) = self.events.peek().copied() {
            if at > self.now || !of_kind(event) {
                break;
            }
            self.events.pop();
            let did = self.handle(event);
            happened |= did;
            progressed |= did && !event.is_of_power();
        }
        (happened, progressed)
    }

    /// Notes what is to come.
    fn announce(&mut self, at: i64, event: Event) {
        if let Some(power) = &mut self.power
            && event.changes_the_cluster()
        {
            power.announce(true);
        }
        self.to_come += 1;
        self.events.push(Reverse((at, event)));
    }

    /// Notes that a decision is due at `at`, or at the next multiple of the interval.
    pub(super) fn due(&mut self, at: i64) {
        let at = match self.policy.interval_ms {
            None => at,
            Some(interval) => {
                at.div_euclid(interval).saturating_add(i64::from(at.rem_euclid(interval) != 0)) * interval
            }
        };
        if self.next_decision.is_none_or(|known| at < known) {
            self.next_decision = Some(at);
            if at > self.now {
                self.events.push(Reverse((at, Event::Decide)));
            }
        }
    }

    /// Makes another decision due although nothing may happen until then: after a preemption, and
    /// on the second tick of the compatible QSSF.
    pub(super) fn due_next(&mut self) {
        if self.policy.interval_ms.is_none() {
            self.due(self.now + SECOND_MS);
        }
    }

    /// Whether an event is about a segment that ended before its time, so that it is not to come any more.
    fn is_stale(&self, event: Event) -> bool {
        let stop = |segment: u32| self.schedule.segments.get(segment as usize).map(|record| record.stop);
        match event {
            Event::End { segment } | Event::Outlived { segment } => stop(segment) != Some(Stop::Done),
            Event::Expire { segment } => !self.ending.contains(&segment),
            _ => false,
        }
    }

    /// Handles one event; returns `false` if it is about something that is no longer so.
    fn handle(&mut self, event: Event) -> bool {
        if event.is_of_power() {
            return self.power_event(event);
        }
        if event != Event::Decide && !self.is_stale(event) {
            self.to_come -= 1;
        }
        if let Some(power) = &mut self.power
            && event.changes_the_cluster()
        {
            power.announce(false);
        }
        match event {
            Event::End { segment } => return self.end(segment),
            Event::Expire { segment } => return self.expire(segment),
            Event::Eligible { job } => self.join(job),
            Event::Repair { node } => {
                self.service.repair(&mut self.nodes, node);
                self.tell_service();
            }
            Event::Fail { node } => self.fail(node),
            Event::Resize { group, size } => {
                let sizes = self.service.sizes(group);
                if let Some(nodes) = sizes.get(size as usize).map(|(_, nodes)| *nodes) {
                    self.resize(group, nodes);
                    self.tell_service();
                }
            }
            Event::Quota { vc, quota } => {
                let amounts = &self.cluster.vcs[usize::from(vc)].quota_milli;
                self.quota[usize::from(vc)] = amounts.get(quota as usize).map(|(_, amount)| *amount);
                self.reservation = None;
            }
            Event::Relaxed { job } => {
                let waits = self.queue.contains(job, &self.schedule);
                if waits {
                    self.admission_gives_back();
                }
                return waits;
            }
            Event::Outlived { segment } => return self.outlived(segment),
            // The decision itself is made after the instant's events, by the note of when it is due.
            _ => return false,
        }
        true
    }

    /// A job is submitted: it is counted, or rejected.
    fn admit(&mut self, job: u32) -> bool {
        if !self.is_possible(job) || !self.queue_could(job) || self.is_denied(job) {
            self.schedule.outcome[job as usize] = Outcome::Rejected;
            return false;
        }
        self.placer.submitted(self.workload.shape[job as usize]);
        if self.traits.uses_keys {
            self.keys.submitted(job, self.now);
        }
        true
    }

    /// Whether a job could run here with everything there ever is.
    fn is_possible(&mut self, job: u32) -> bool {
        let (vc, shape) = (self.workload.vc[job as usize], self.workload.shape[job as usize]);
        let at = usize::from(vc) * self.workload.shapes.len() + usize::from(shape);
        if let Some(known) = self.possible[at] {
            return known;
        }
        let amount = self.shape(job).amount();
        let mut pieces = Vec::new();
        let mut placed = |ask: Ask| self.placer.place(&self.whole, Ask { relaxed: true, ..ask }, &mut pieces);
        let possible = match self.admission.as_ref().map(|admission| admission.cohorts) {
            Some(cohorts) => cohorts.rules()[usize::from(vc)].flavors.iter().any(|flavor| {
                self.has_flavor(job, *flavor)
                    && amount <= cohorts.potential(vc, *flavor)
                    && placed(self.ask_of(job, *flavor))
            }),
            None => {
                let quota = self.cluster.vcs[usize::from(vc)].quota_milli.iter().map(|(_, amount)| *amount).max();
                let quota = quota.filter(|_| self.divided.is_none());
                quota.is_none_or(|quota| amount <= quota) && placed(self.ask(job)) && self.could_on_switches(job)
            }
        };
        self.possible[at] = Some(possible);
        possible
    }

    /// A submitted job joins the queue.
    fn wait(&mut self, job: u32) {
        if self.traits.helios && self.policy.order == Order::Qssf {
            self.newcomers.push(job);
            return;
        }
        self.relaxes(job);
        self.join(job);
    }

    /// Looks at a job again when it has waited long enough to spread.
    fn relaxes(&mut self, job: u32) {
        if let Placement::Locality(timeout) = self.policy.placement {
            let at = self.workload.submit_ms[job as usize].saturating_add(timeout);
            if at > self.now {
                self.announce(at, Event::Relaxed { job });
            }
        }
    }

    /// Returns the shape of a job.
    pub(super) fn shape(&self, job: u32) -> Shape {
        let at = self.workload.shape.get(job as usize).copied().unwrap_or(0);
        self.workload.shapes.get(usize::from(at)).copied().unwrap_or_default()
    }

    /// A job as the placement rule sees it now.
    pub(super) fn ask(&self, job: u32) -> Ask {
        let relaxed = match self.policy.placement {
            Placement::Locality(timeout) => self.now - self.workload.submit_ms[job as usize] >= timeout,
            _ => false,
        };
        Ask { job, shape: self.shape(job), relaxed }
    }

    /// Whether its VC's quota allows a job.
    pub(super) fn fits_quota(&self, job: u32) -> bool {
        if self.admission.is_some() || self.divided.is_some() {
            // Its quotas are those of cohorts, or of KAI's or Volcano's queues.
            return true;
        }
        let vc = usize::from(self.workload.vc[job as usize]);
        self.quota[vc].is_none_or(|quota| self.used[vc] + self.shape(job).amount() <= quota)
    }

    /// Run done, cost owed and GPU time held by a job, to now.
    pub(super) fn progress(&self, job: u32) -> Progress {
        let past = self.past.get(job as usize).copied().unwrap_or_default();
        let mut progress =
            Progress { done_ms: past.done_ms, owed_ms: past.owed_ms, attained: past.attained, factor: None };
        if let Some(start) = self.running_since(job) {
            let held = self.now - start;
            let paid = held.min(past.owed_ms);
            progress.done_ms += held - paid;
            progress.owed_ms -= paid;
            progress.attained += self.shape(job).amount() * held.unsigned_abs();
        }
        progress
    }

    /// Whether a running segment has lasted longer than it takes to pay for its job's last preemption. Only then may it be preempted:
    /// jobs that took turns any sooner would never get anywhere.
    pub(super) fn has_progressed(&self, segment: &Segment) -> bool {
        self.now >= self.useful_ms(segment)
    }

    /// Returns the time from which on a segment has progressed.
    pub(super) fn useful_ms(&self, segment: &Segment) -> i64 {
        segment.start_ms + self.past.get(segment.job as usize).map_or(0, |past| past.owed_ms) + 1
    }

    /// Returns the start of a running job; `None` if it does not run.
    fn running_since(&self, job: u32) -> Option<i64> {
        let segment = self.schedule.last_segment[job as usize];
        if self.running.contains(&segment) { Some(self.schedule.segments[segment as usize].start_ms) } else { None }
    }

    /// The key of a job now.
    pub(super) fn key(&self, job: u32) -> Key {
        if self.policy.order.is_fixed() {
            return self.keys.fixed(job);
        }
        let factor = self.ledger.as_ref().and_then(|ledger| ledger.factor(self.workload, job));
        self.keys.at(job, self.now, &Progress { factor, ..self.progress(job) })
    }

    /// How long a job is expected to need from now on if it starts now, milliseconds, at least 1.
    pub(super) fn expected_ms(&self, job: u32) -> i64 {
        let estimate = self.policy.estimate_ms(self.workload, job as usize);
        let past = self.past.get(job as usize).copied().unwrap_or_default();
        ((estimate - past.done_ms).max(0) + past.owed_ms).max(1)
    }
}
