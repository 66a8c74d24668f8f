//! A scene from dumps of a scheduler: its nodes, the jobs that run and wait, and what a history says of runs and arrivals.
//!
//! ```text
//! nodes       those that take jobs now, and those of a reservation that has begun are left out; nodes that share a partition, directly or over others, are one pool
//! queue       by the scheduler's priority, highest first, of equals by submission; backfill by time limits
//! resource    GPUs; of a job without any, processor cores, in parts of a 64th of the largest node
//! left out    jobs without GPUs, held jobs, jobs that wait for others, for licences or for a reservation: when these end nobody knows
//! begins      a job with a time to begin comes then; a waiting array is as many jobs as it has tasks, at most `MOST_TASKS`; one that may run k at once is k jobs, each
//!             as long as its part of the tasks one after the other
//! running     a job holds its GPUs of nodes that take jobs; those of others are of no use to anybody
//! runs        as in [`runs`](super::runs), from the jobs of the history that had ended; without one, evenly up to the time limit
//! arrivals    as the history had them on the last days, in whole weeks from then
//! ```
//!
//! O(nodes + jobs). Worked number: a job of 32 GPUs on four nodes of 8, of which one drains, cannot start on these nodes: nothing is said but that.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::state::{Blocked, ClusterState, LiveJob, NodeState, Phase};
use tracecast_analytics::time::DAY_MS;

use super::baseline::PastWaits;
use super::runs::{Like, PastRuns, RunsAhead};
use super::scene::{NEVER_MS, Scene};
use crate::error::{Error, Result};
use crate::sim::cluster::MAX_GPUS_PER_NODE;
use crate::sim::{Cluster, Estimate, Group, Order, Policy, Pool, Scan, Shape, Vc, Workload};

/// Most tasks of a waiting array that are replayed.
const MOST_TASKS: u32 = 1000;
/// Days of arrivals that are kept of a history.
const DAYS: i64 = 8;
/// Time limit where neither the job nor a history says one, seconds.
const USUAL_LIMIT_S: f64 = 86_400.0;

/// Resource that jobs wait for: GPUs, or so many processor cores at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// Cores that are one unit; none if units are GPUs.
    cores: Option<u32>,
}

impl Unit {
    /// What a job waits for; one that is not in the queue for GPUs.
    fn new(state: &ClusterState, found: Option<&LiveJob>) -> Self {
        let most = state.nodes.iter().map(|node| node.cpus).max().unwrap_or(0);
        let is_without = found.is_some_and(|job| job.gpus.is_none_or(|gpus| gpus <= 0.0));
        Self { cores: is_without.then(|| most.div_ceil(MAX_GPUS_PER_NODE).max(1)) }
    }

    /// Units of a node.
    fn of_node(self, node: &NodeState) -> u32 {
        self.cores.map_or(node.gpus, |cores| node.cpus / cores).min(MAX_GPUS_PER_NODE)
    }

    /// Units of a job, as a number of GPUs.
    fn of_job(self, job: &LiveJob) -> Option<f64> {
        match self.cores {
            None => job.gpus,
            Some(cores) => job.cpus.map(|cpus| (cpus / f64::from(cores)).ceil()),
        }
    }
}

/// A job that is not in the queue, and is asked about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShapeRequest {
    /// GPUs.
    pub gpus: u32,
    /// Nodes, if they are given.
    pub nodes: Option<u32>,
    /// Partition; the one with most nodes if none is given.
    pub partition: Option<String>,
    /// User.
    pub user: Option<String>,
    /// Time limit, seconds.
    pub limit_s: Option<f64>,
}

/// Job that is asked about.
#[derive(Debug, Clone, PartialEq)]
pub enum JobOrShape {
    /// One in the queue, by its identifier.
    Job(String),
    /// One that somebody would submit now.
    New(ShapeRequest),
}

/// What a history says.
#[derive(Debug, Clone, Default)]
pub struct History {
    runs: PastRuns,
    /// Waits of its jobs, by VC and size.
    pub waits: PastWaits,
    users: BTreeMap<String, u32>,
    vcs: BTreeMap<String, u16>,
    /// Submission, milliseconds since the Unix epoch, user, VC and GPUs of the last days.
    arrivals: Vec<(i64, u32, Option<String>, u32)>,
    /// Jobs that it is of.
    pub jobs: usize,
}

impl History {
    /// Of the jobs of a trace with GPUs that had ended, in order of their ends.
    pub fn new(trace: &Trace) -> Self {
        let facts = JobFacts::new(trace);
        let mut result = Self::default();
        let mut ended: Vec<(i64, usize)> = Vec::new();
        let known = |row: usize| {
            let gpus = facts.gpus(row).filter(|gpus| *gpus >= 1.0)?;
            let run = facts.run_s(row).filter(|run| run.is_finite() && *run >= 0.0)?;
            Some((gpus, run, trace.jobs.submit.get(row)?))
        };
        for row in 0..facts.len() {
            if let (Some((_, run, submit)), false) = (known(row), facts.is_censored(row)) {
                let wait = facts.wait_s(row).unwrap_or(0.0).max(0.0);
                ended.push((submit + ((wait + run) * 1e3) as i64, row));
            }
        }
        ended.sort_unstable();
        let last = ended.iter().filter_map(|(_, row)| trace.jobs.submit.get(*row)).max().unwrap_or(0);
        for (_, row) in ended {
            let Some((gpus, run, submit)) = known(row) else { continue };
            let user = result.user(trace.jobs.user.get(row));
            let vc = result.vc(trace.jobs.vc.get(row));
            let like = Like { user, amount: (gpus * 1e3).round() as u64 };
            result.runs.learn(like, run);
            if let Some(wait) = facts.wait_s(row) {
                result.waits.learn(vc, like.amount, wait.max(0.0));
            }
            if submit > last - DAYS * DAY_MS {
                let name = trace.jobs.vc.get(row).map(str::to_owned);
                result.arrivals.push((submit, user, name, gpus.round() as u32));
            }
            result.jobs += 1;
        }
        result.arrivals.sort();
        result
    }

    fn user(&mut self, name: Option<&str>) -> u32 {
        let next = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
        *self.users.entry(name.unwrap_or_default().to_owned()).or_insert(next)
    }

    fn vc(&mut self, name: Option<&str>) -> u16 {
        let next = u16::try_from(self.vcs.len()).unwrap_or(u16::MAX);
        *self.vcs.entry(name.unwrap_or_default().to_owned()).or_insert(next)
    }

    /// Number of a VC, if it has jobs.
    pub fn vc_of(&self, name: &str) -> Option<u16> {
        self.vcs.get(name).copied()
    }
}

/// When a job starts, in each draw, or why nothing is said.
#[derive(Debug, Clone, PartialEq)]
pub enum Starts {
    /// It runs since then, milliseconds since the Unix epoch.
    Runs(i64),
    /// Waits from now on, seconds, in each draw; of draws in which it never starts infinite.
    Drawn(Vec<f64>),
    /// Something other than its turn and room keeps it.
    Blocked(Blocked),
    /// No nodes that take jobs now hold it.
    TooLarge,
}

/// What is said of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Identifier, or none of one that somebody would submit.
    pub job: Option<String>,
    /// The moment, milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// Partition.
    pub partition: String,
    /// GPUs, or units of processor cores.
    pub gpus: u32,
    /// Cores that are one unit; none if units are GPUs.
    pub cores: Option<u32>,
    /// Start as the scheduler expects it, milliseconds since the Unix epoch.
    pub scheduled_ms: Option<i64>,
    /// When it starts.
    pub starts: Starts,
    /// Jobs that run and that wait in its pool, and GPUs there.
    pub around: [usize; 3],
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Names of the nodes that take jobs now and are in no reservation that has begun.
fn usable(state: &ClusterState, now_ms: i64) -> BTreeSet<String> {
    let begun = state.reservations.iter().filter(|of| (of.span_ms.0..of.span_ms.1).contains(&now_ms));
    let reserved: BTreeSet<&String> = begun.flat_map(|of| &of.nodes).collect();
    let usable = state.nodes.iter().filter(|node| node.usable && !reserved.contains(&node.name));
    usable.map(|node| node.name.clone()).collect()
}

/// Nodes as pools, and the partitions as VCs.
fn cluster(state: &ClusterState, now_ms: i64, unit: Unit) -> (Cluster, BTreeMap<String, u16>) {
    let usable = usable(state, now_ms);
    let mut names: BTreeSet<&str> = state.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
    names.extend(state.jobs.iter().filter_map(|job| job.partition.as_deref()));
    let places: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    // Partitions that share a node are in one pool: each leads to the first of its set.
    let mut first: Vec<usize> = (0..places.len()).collect();
    fn find(first: &[usize], at: usize) -> usize {
        let to = first.get(at).copied().unwrap_or(at);
        if to == at { at } else { find(first, to) }
    }
    for node in &state.nodes {
        let wanted: Vec<usize> = node.partitions.iter().filter_map(|name| places.get(name.as_str()).copied()).collect();
        for pair in wanted.windows(2) {
            let [a, b] = [0, 1].map(|at| pair.get(at).map_or(0, |place| find(&first, *place)));
            if let Some(slot) = first.get_mut(a.max(b)) {
                *slot = a.min(b);
            }
        }
    }
    let mut pools: BTreeMap<usize, BTreeMap<(u32, Option<String>), u32>> = BTreeMap::new();
    for (at, _) in first.iter().enumerate() {
        pools.entry(find(&first, at)).or_default();
    }
    for node in state.nodes.iter().filter(|node| unit.of_node(node) > 0 && usable.contains(&node.name)) {
        let Some(place) = node.partitions.first().and_then(|name| places.get(name.as_str())) else { continue };
        let group = pools.entry(find(&first, *place)).or_default();
        *group.entry((unit.of_node(node), node.gpu_type.clone())).or_default() += 1;
    }
    let roots: Vec<usize> = pools.keys().copied().collect();
    let mut result = Cluster::default();
    for groups in pools.into_values() {
        let groups = groups.into_iter().map(|((gpus, _), nodes)| Group::fixed(nodes, gpus)).collect();
        result.pools.push(Pool { groups });
    }
    let mut vcs = BTreeMap::new();
    for (name, place) in &places {
        let pool = roots.binary_search(&find(&first, *place)).unwrap_or_default();
        let at = u16::try_from(result.vcs.len()).unwrap_or(u16::MAX);
        vcs.insert((*name).to_owned(), at);
        result.vcs.push(Vc::new(*name, u16::try_from(pool).unwrap_or(u16::MAX)));
    }
    (result, vcs)
}

/// GPUs of a job as a shape; none where it asks for no whole ones.
fn shape(gpus: Option<f64>, nodes: Option<u32>) -> Option<Shape> {
    let gpus = gpus.filter(|gpus| *gpus >= 1.0)?.round() as u32;
    let nodes = nodes.filter(|nodes| *nodes > 1 && *nodes <= gpus && gpus.is_multiple_of(*nodes)).unwrap_or(0);
    Some(Shape { nodes: u16::try_from(nodes).unwrap_or(0), ..Shape::whole(gpus) })
}

/// Jobs that run, wait or have been submitted in the past.
#[derive(Default)]
struct Queue {
    workload: Workload,
    users: BTreeMap<String, u32>,
    running: Vec<(u32, i64)>,
    waiting: Vec<u32>,
    /// Time limit of each job, seconds.
    limits: Vec<Option<f64>>,
    /// How often each runs, one run after the other.
    times: Vec<u32>,
    /// Nodes that take jobs.
    usable: BTreeSet<String>,
    /// Jobs that are left out, by why.
    left: BTreeMap<&'static str, usize>,
    /// Jobs of the history.
    arrivals: u64,
}

impl Queue {
    fn user(&mut self, name: Option<&str>) -> u32 {
        let next = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
        *self.users.entry(name.unwrap_or_default().to_owned()).or_insert(next)
    }

    fn push(&mut self, (submit_ms, shape, vc): (i64, Shape, u16), user: u32, limit_s: Option<f64>, score: f64) -> u32 {
        let job = u32::try_from(self.workload.len()).unwrap_or(u32::MAX);
        self.workload.push(submit_ms, 0, shape);
        if let Some(slot) = self.workload.requested_ms.last_mut() {
            *slot = limit_s.map(|limit| (limit * 1e3) as i64);
        }
        self.workload.user.last_mut().into_iter().for_each(|slot| *slot = user);
        self.workload.vc.last_mut().into_iter().for_each(|slot| *slot = vc);
        self.workload.score.push(score);
        self.limits.push(limit_s);
        self.times.push(1);
        job
    }

    /// Takes in a job that runs or waits, or counts why it is left out; the first of its tasks, if it waits.
    fn take(
        &mut self,
        submit: i64,
        job: &LiveJob,
        vcs: &BTreeMap<String, u16>,
        (now_ms, unit): (i64, Unit),
    ) -> Option<u32> {
        let vc = job.partition.as_ref().and_then(|name| vcs.get(name)).copied();
        let shape = shape(unit.of_job(job), job.nodes);
        let why = match (vc, shape, &job.blocked) {
            (None, ..) => Some("in a partition that is not known"),
            (_, None, _) => Some("without whole GPUs"),
            (.., Some(Blocked::Held)) => Some("held"),
            (.., Some(Blocked::Depends(_))) => Some("waiting for other jobs"),
            (.., Some(Blocked::Reservation(_) | Blocked::Licences | Blocked::Limit(_) | Blocked::Nodes)) => {
                Some("waiting for a reservation, licences, a limit or nodes")
            }
            (.., Some(Blocked::Begins(_) | Blocked::ArrayLimit) | None) => None,
        };
        let (Some(vc), Some(shape), None) = (vc, shape, why) else {
            *self.left.entry(why.unwrap_or_default()).or_default() += 1;
            return None;
        };
        let user = self.user(job.user.as_deref());
        // Priority as Slurm has it: the highest is served first.
        let score = -job.priority.unwrap_or(0.0);
        if job.phase == Phase::Running {
            // Of nodes that are not known all are taken to be usable.
            let usable = job.on.iter().filter(|name| self.usable.contains(*name)).count();
            let held = u32::try_from(u64::from(shape.gpus) * usable as u64 / job.on.len().max(1) as u64);
            let shape = match held {
                Ok(held) if !job.on.is_empty() && usable < job.on.len() => Shape::whole(held),
                _ => shape,
            };
            if shape.gpus == 0 {
                *self.left.entry("running on nodes that take no jobs").or_default() += 1;
                return None;
            }
            let at = self.push((submit, shape, vc), user, job.limit_s, score);
            self.running.push((at, job.start_ms.map_or(submit, |start| start - now_ms).min(0)));
            return None;
        }
        let tasks = job.tasks.clamp(1, MOST_TASKS);
        let at_once = job.at_once.unwrap_or(tasks).clamp(1, tasks);
        let each = tasks.div_ceil(at_once);
        let tasks: Vec<u32> = (0..at_once).map(|_| self.push((submit, shape, vc), user, job.limit_s, score)).collect();
        for at in &tasks {
            self.times.get_mut(*at as usize).into_iter().for_each(|times| *times = each);
        }
        self.waiting.extend(&tasks);
        tasks.first().copied()
    }
}

/// A job of the past, one that is there, or one that might be.
enum Entry<'a> {
    Past {
        shape: Shape,
        user: u32,
        vc: u16,
    },
    Live(&'a LiveJob),
    /// One that somebody would submit now.
    New,
}

/// Jobs with their submissions, milliseconds from now, in order of these.
fn entries<'a>(
    state: &'a ClusterState,
    history: Option<&History>,
    vcs: &BTreeMap<String, u16>,
    (now_ms, is_new): (i64, bool),
) -> Vec<(i64, Entry<'a>)> {
    let mut result = Vec::new();
    if let Some(history) = history {
        let last = history.arrivals.last().map_or(now_ms, |(submit, ..)| *submit);
        // An older history is taken to have been in the last week, at the same hours.
        let behind = (now_ms - DAY_MS - last).max(0);
        let shift = (behind + 7 * DAY_MS - 1) / (7 * DAY_MS) * 7 * DAY_MS;
        for (submit, user, name, gpus) in &history.arrivals {
            let vc = name.as_ref().and_then(|name| vcs.get(name)).copied();
            let submit = submit + shift - now_ms;
            if let Some(vc) = vc.filter(|_| submit < 0) {
                result.push((submit, Entry::Past { shape: Shape::whole(*gpus), user: *user, vc }));
            }
        }
    }
    for job in &state.jobs {
        let submit = match &job.blocked {
            Some(Blocked::Begins(Some(at))) if *at > now_ms => at - now_ms,
            _ => job.submit_ms.map_or(0, |submit| (submit - now_ms).min(0)),
        };
        result.push((submit, Entry::Live(job)));
    }
    if is_new {
        result.push((0, Entry::New));
    }
    // Stable: those of one moment stay in the order of the dumps.
    result.sort_by_key(|(submit, _)| *submit);
    result
}

/// Says when a job starts, by so many draws.
///
/// # Errors
/// If the dumps do not say what time it is, have no nodes with GPUs or no such job, or the engine does not take the jobs.
pub fn starts(
    state: &ClusterState,
    history: Option<&History>,
    target: &JobOrShape,
    scan: Scan,
    (draws, seed): (usize, u64),
) -> Result<Live> {
    let now_ms = state.now_ms.ok_or_else(|| {
        Error::no_jobs(
            "the dumps do not say when they were made; name one of `squeue --json` or `scontrol show job --json`"
                .to_owned(),
        )
    })?;
    let found = match target {
        JobOrShape::Job(id) => Some(find(state, id)?),
        JobOrShape::New(_) => None,
    };
    let unit = Unit::new(state, found);
    if state.nodes.iter().all(|node| unit.of_node(node) == 0) {
        let what = if state.nodes.is_empty() { "there is no dump of the nodes" } else { "no node has GPUs or cores" };
        return Err(Error::no_jobs(format!("{what}; name what `scontrol show node --json` prints")));
    }
    let mut notes = state.notes.clone();
    if let Some(cores) = unit.cores {
        let each = format::counted(u64::from(cores), "processor core", "processor cores");
        notes.push(format!(
            "The job asks for no GPUs: it waits for processor cores, counted by {each}; what is called a GPU here is that."
        ));
    }
    let (cluster, vcs) = cluster(state, now_ms, unit);
    let largest = || {
        let in_partition = |name: &String| state.nodes.iter().filter(|node| node.partitions.contains(name)).count();
        vcs.keys().max_by_key(|name| in_partition(name)).cloned().unwrap_or_default()
    };
    let (partition, gpus, nodes, limit_s, user) = match (target, found) {
        (JobOrShape::New(of), _) => {
            let partition = of.partition.clone().unwrap_or_else(largest);
            (partition, Some(f64::from(of.gpus)), of.nodes, of.limit_s, of.user.clone())
        }
        (_, Some(job)) => {
            let partition = job.partition.clone().unwrap_or_else(largest);
            (partition, unit.of_job(job), job.nodes, job.limit_s, job.user.clone())
        }
        (JobOrShape::Job(_), None) => return Err(Error::defect("a job was found and lost".to_owned())),
    };
    let Some(vc) = vcs.get(&partition).copied() else {
        let known: Vec<&str> = vcs.keys().map(String::as_str).collect();
        return Err(Error::malformed("partition", partition, format!("there are {}", known.join(", "))));
    };
    let Some(wanted) = shape(gpus, nodes) else {
        return Err(Error::no_jobs(
            "the job asks for no whole GPUs, or the dumps do not say how many; only what waits for these is replayed"
                .to_owned(),
        ));
    };
    let mut live = Live {
        job: found.map(|job| job.id.clone()),
        now_ms,
        partition,
        gpus: wanted.gpus,
        cores: unit.cores,
        scheduled_ms: found.and_then(|job| job.start_ms),
        starts: Starts::TooLarge,
        around: [0; 3],
        notes: Vec::new(),
    };
    if let Some(job) = found {
        if let (Phase::Running, Some(start)) = (job.phase, job.start_ms) {
            live.starts = Starts::Runs(start);
            live.notes = notes;
            return Ok(live);
        }
        let begins_later = matches!(job.blocked, Some(Blocked::Begins(Some(_)) | Blocked::ArrayLimit) | None);
        if let (Some(blocked), false) = (&job.blocked, begins_later) {
            live.starts = Starts::Blocked(blocked.clone());
            live.notes = notes;
            return Ok(live);
        }
    }
    let pool = cluster.vcs.get(usize::from(vc)).map_or(0, |vc| vc.pool);
    let pool_of: Vec<u16> = cluster.vcs.iter().map(|vc| vc.pool).collect();
    let mut queue = Queue { workload: Workload { origin_ms: now_ms, ..Workload::default() }, ..Queue::default() };
    queue.usable = usable(state, now_ms);
    queue.users = history.map(|history| history.users.clone()).unwrap_or_default();
    let mut target_at = None;
    for (submit, entry) in entries(state, history, &vcs, (now_ms, found.is_none())) {
        match entry {
            Entry::Past { shape, user, vc } => {
                queue.push((submit, shape, vc), user, None, 0.0);
                queue.arrivals += 1;
            }
            Entry::New => {
                let user = queue.user(user.as_deref());
                // Behind all that wait.
                let lowest = queue.waiting.iter().filter_map(|at| queue.workload.score.get(*at as usize)).copied();
                let score = lowest.fold(f64::NEG_INFINITY, f64::max);
                let at = queue.push((submit, wanted, vc), user, limit_s, if score.is_finite() { score } else { 0.0 });
                queue.waiting.push(at);
                target_at = Some(at);
            }
            Entry::Live(job) => {
                let first = queue.take(submit, job, &vcs, (now_ms, unit));
                if found.is_some_and(|found| found.id == job.id) {
                    target_at = first;
                }
            }
        }
    }
    let Some(target_at) = target_at else {
        return Err(Error::no_jobs("the job is not in the queue of any partition that is known".to_owned()));
    };
    let mut names: Vec<(&String, &u32)> = queue.users.iter().collect();
    names.sort_by_key(|(_, at)| **at);
    queue.workload.users = names.into_iter().map(|(name, _)| name.clone()).collect();
    let Queue { workload, mut running, mut waiting, limits, times, left, arrivals, .. } = queue;
    let in_pool = |at: u32| {
        let vc = workload.vc.get(at as usize).copied().unwrap_or_default();
        pool_of.get(usize::from(vc)) == Some(&pool)
    };
    running.retain(|(at, _)| in_pool(*at));
    waiting.retain(|at| in_pool(*at));
    running.sort_by_key(|(_, start)| *start);
    let policy = Policy { order: Order::Score, scan, estimate: Estimate::Requested, ..Policy::default() };
    live.around = [
        running.len(),
        waiting.len(),
        cluster.pools.get(usize::from(pool)).map_or(0, |pool| {
            pool.groups.iter().map(|group| group.nodes_at(0) as usize * group.gpus_per_node as usize).sum()
        }),
    ];
    let place = waiting.iter().position(|at| *at == target_at).unwrap_or_default();
    let ahead = |job: u32, elapsed_s: f64| -> RunsAhead {
        let limit = limits.get(job as usize).copied().flatten();
        let ahead = match history {
            Some(history) => history.runs.ahead(Like::new(&workload, job), elapsed_s, limit),
            None => RunsAhead::within(elapsed_s, limit.unwrap_or_else(|| USUAL_LIMIT_S.max(2.0 * elapsed_s))),
        };
        ahead.repeated(times.get(job as usize).copied().unwrap_or(1))
    };
    let scene = Scene { workload: &workload, cluster, policy: &policy, now_ms: 0, running, waiting };
    let drawn = scene.draw(draws, seed, &ahead, &in_pool)?;
    let waits: Vec<f64> = drawn
        .get(place)
        .into_iter()
        .flatten()
        .map(|wait| if *wait >= NEVER_MS { f64::INFINITY } else { *wait as f64 / 1e3 })
        .collect();
    if waits.iter().any(|wait| wait.is_finite()) {
        live.starts = Starts::Drawn(waits);
    }
    notes.extend(
        left.iter().map(|(why, jobs)| format!("Left out: {} {why}.", format::counted(*jobs as u64, "job", "jobs"))),
    );
    match history {
        Some(history) => notes.push(format!(
            "Runs are drawn from {} of the history, as those of the same user and size came to; {} of its last days arrive again.",
            format::counted(history.jobs as u64, "job", "jobs"),
            format::counted(arrivals, "job", "jobs")
        )),
        None => notes.push("No history: runs are drawn evenly up to the time limit, and nobody else arrives. Name one with --history.".to_owned()),
    }
    live.notes = notes;
    Ok(live)
}

/// A few identifiers.
fn some(jobs: &[LiveJob]) -> String {
    jobs.iter().take(5).map(|job| job.id.as_str()).collect::<Vec<_>>().join(", ")
}

/// The job of this identifier; of a task of a waiting array the array.
fn find<'s>(state: &'s ClusterState, id: &str) -> Result<&'s LiveJob> {
    let array = id.split_once('_').map(|(array, _)| array);
    let exact = state.jobs.iter().find(|job| job.id == id);
    exact.or_else(|| state.jobs.iter().find(|job| Some(job.id.as_str()) == array)).ok_or_else(|| {
        let jobs = format::counted(state.jobs.len() as u64, "job", "jobs");
        Error::malformed(
            "job",
            id,
            format!("name one that runs or waits; the dumps have {jobs}, such as {}", some(&state.jobs)),
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::state::NodeState;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn node(name: &str, usable: bool, partitions: &[&str]) -> NodeState {
        NodeState {
            name: name.to_owned(),
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
            gpus: 8,
            gpu_type: None,
            cpus: 64,
            usable,
            state: String::new(),
        }
    }

    fn job(id: &str, phase: Phase, gpus: f64, on: &[&str]) -> LiveJob {
        LiveJob {
            id: id.to_owned(),
            name: None,
            user: Some("ann".to_owned()),
            account: None,
            qos: None,
            partition: Some("gpu".to_owned()),
            phase,
            reason: None,
            blocked: None,
            priority: Some(1.0),
            submit_ms: Some(0),
            start_ms: (phase == Phase::Running).then_some(0),
            limit_s: Some(7200.0),
            gpus: Some(gpus),
            cpus: Some(8.0 * gpus),
            nodes: None,
            on: on.iter().map(|name| (*name).to_owned()).collect(),
            tasks: 1,
            at_once: None,
        }
    }

    /// Two nodes at work, of which one drains, and a job of 8 GPUs that waits.
    fn state() -> ClusterState {
        ClusterState {
            now_ms: Some(HOUR),
            nodes: vec![node("n1", true, &["gpu"]), node("n2", false, &["gpu"]), node("n3", true, &["cpu"])],
            jobs: vec![
                job("1", Phase::Running, 8.0, &["n1"]),
                job("2", Phase::Running, 8.0, &["n2"]),
                job("3", Phase::Pending, 8.0, &[]),
            ],
            ..ClusterState::default()
        }
    }

    fn ask(state: &ClusterState, id: &str) -> Live {
        starts(state, None, &JobOrShape::Job(id.to_owned()), Scan::Easy, (40, 1)).unwrap()
    }

    #[test]
    fn a_job_starts_when_that_before_it_ends_within_its_limit() {
        let live = ask(&state(), "3");
        // One of two hours has passed: the rest of the limit is an hour, and any part of it as likely. The node that drains is of no use.
        let Starts::Drawn(waits) = &live.starts else { panic!("{live:?}") };
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!(waits.iter().all(|wait| (1.0..=3600.0).contains(wait)) && (1200.0..2400.0).contains(&mean), "{mean}");
        assert_eq!(live.around, [1, 1, 8]);
        assert!(matches!(ask(&state(), "1").starts, Starts::Runs(0)));
    }

    #[test]
    fn what_cannot_start_is_told() {
        let mut large = state();
        large.jobs[2].gpus = Some(16.0);
        assert_eq!(ask(&large, "3").starts, Starts::TooLarge);
        let mut held = state();
        held.jobs[2].blocked = Some(Blocked::Held);
        assert_eq!(ask(&held, "3").starts, Starts::Blocked(Blocked::Held));
        let unknown = starts(&state(), None, &JobOrShape::Job("9".to_owned()), Scan::Easy, (7, 1)).unwrap_err();
        assert!(unknown.to_string().contains("`9`"), "{unknown}");
    }

    /// Of two that wait the one with the higher priority comes first, and a new one after both.
    #[test]
    fn the_queue_is_that_of_priorities() {
        let mut state = state();
        state.jobs.push(LiveJob { priority: Some(9.0), ..job("4", Phase::Pending, 8.0, &[]) });
        let median = |live: Live| {
            let Starts::Drawn(mut waits) = live.starts else { panic!("{live:?}") };
            waits.sort_by(f64::total_cmp);
            waits[waits.len() / 2]
        };
        let [first, second] = ["4", "3"].map(|id| median(ask(&state, id)));
        let new =
            JobOrShape::New(ShapeRequest { gpus: 8, partition: Some("gpu".to_owned()), ..ShapeRequest::default() });
        let third = median(starts(&state, None, &new, Scan::Easy, (40, 1)).unwrap());
        assert!(first < second && second < third, "{first} {second} {third}");
    }

    /// Without GPUs cores are waited for: 128 of a node are 64 units of two.
    #[test]
    fn where_no_node_has_gpus_cores_count() {
        let mut state = state();
        for node in &mut state.nodes {
            (node.gpus, node.cpus) = (0, 128);
        }
        for job in &mut state.jobs {
            (job.gpus, job.cpus) = (Some(0.0), Some(127.0));
        }
        let live = ask(&state, "3");
        assert_eq!((live.gpus, live.cores, live.around), (64, Some(2), [1, 1, 64]));
        assert!(matches!(live.starts, Starts::Drawn(_)));
    }

    /// Six tasks, two at once, on a node of 8: another job of 8 waits for three runs.
    #[test]
    fn an_array_with_a_limit_runs_its_tasks_one_after_the_other() {
        let mut state = state();
        state.jobs[0].gpus = Some(4.0);
        state.jobs[0].blocked = None;
        let sweep = LiveJob { tasks: 6, at_once: Some(2), priority: Some(9.0), ..job("5", Phase::Pending, 4.0, &[]) };
        let short = LiveJob { tasks: 2, at_once: None, ..sweep.clone() };
        let after = |sweep: LiveJob| {
            let mut state = state.clone();
            state.jobs.insert(2, sweep);
            let Starts::Drawn(waits) = ask(&state, "3").starts else { panic!("nothing drawn") };
            waits.iter().sum::<f64>() / waits.len() as f64
        };
        assert!(after(sweep) > 2.0 * after(short));
    }
}
