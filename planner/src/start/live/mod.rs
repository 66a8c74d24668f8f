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

mod history;
mod nodes;
mod queue;

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::report::format;
use tracecast_analytics::state::{Blocked, ClusterState, LiveJob, Phase};

pub use history::History;
use nodes::{Unit, cluster, usable};
pub(super) use nodes::{fits_together, free_units, has_units_free, is_of, nodes_by_partition};
use queue::{Entry, Queue, entries, left_out, shape};

use super::runs::{Like, RunsAhead};
use super::scene::{NEVER_MS, Scene};
use crate::error::{Error, Result};
use crate::sim::{Estimate, Order, Policy, Scan, Workload};

/// Time limit where neither the job nor a history says one, seconds.
const USUAL_LIMIT_S: f64 = 86_400.0;

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

/// A replay forward: what is said of the job, and what becomes of the others in its pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Forward {
    pub(super) live: Live,
    /// Waits of the jobs that wait, seconds, in each draw, by identifier; of an array those of its first task.
    pub(super) waits: BTreeMap<String, Vec<f64>>,
    /// Identifiers of the jobs that run.
    pub(super) running: BTreeSet<String>,
}

impl Forward {
    /// Without a replay.
    fn known(live: Live) -> Self {
        Self { live, waits: BTreeMap::new(), running: BTreeSet::new() }
    }
}

/// What is known of the start of a job without a replay.
fn known(job: &LiveJob) -> Option<Starts> {
    match (job.phase, job.start_ms, &job.blocked) {
        (Phase::Running, Some(start), _) => Some(Starts::Runs(start)),
        (.., Some(blocked)) if left_out(blocked).is_some() || *blocked == Blocked::Begins(None) => {
            Some(Starts::Blocked(blocked.clone()))
        }
        _ => None,
    }
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
    draws: (usize, u64),
) -> Result<Live> {
    Ok(forward(state, history, target, scan, draws)?.live)
}

/// Replays forward, and says when a job and the others in its pool start.
///
/// # Errors
/// Errors of [`starts`].
pub(super) fn forward(
    state: &ClusterState,
    history: Option<&History>,
    target: &JobOrShape,
    scan: Scan,
    (draws, seed): (usize, u64),
) -> Result<Forward> {
    let now_ms = state.now_ms.ok_or_else(|| {
        Error::no_jobs(
            "the dumps do not say when they were made; name one of `squeue --json` or `scontrol show job --json`"
                .to_owned(),
        )
    })?;
    let (found, unit, request) = match target {
        JobOrShape::New(request) => (
            None,
            Unit::new(state, None),
            (Some(f64::from(request.gpus)), request.nodes, &request.partition, &request.user, request.limit_s),
        ),
        JobOrShape::Job(id) => {
            let job = find(state, id)?;
            let unit = Unit::new(state, Some(job));
            (Some(job), unit, (unit.of_job(job), job.nodes, &job.partition, &job.user, job.limit_s))
        }
    };
    let (gpus, nodes, partition, user, limit_s) = request;
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
    let usable = usable(state, now_ms);
    let (cluster, vcs) = cluster(state, &usable, unit);
    let largest = || {
        let in_partition = |name: &String| state.nodes.iter().filter(|node| node.partitions.contains(name)).count();
        vcs.keys().max_by_key(|name| in_partition(name)).cloned().unwrap_or_default()
    };
    let partition = partition.clone().unwrap_or_else(largest);
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
    if let Some(known) = found.and_then(known) {
        return Ok(Forward::known(Live { starts: known, notes, ..live }));
    }
    let pool_of: Vec<u16> = cluster.vcs.iter().map(|vc| vc.pool).collect();
    let pool = pool_of.get(usize::from(vc)).copied().unwrap_or_default();
    let mut queue = Queue { workload: Workload { origin_ms: now_ms, ..Workload::default() }, ..Queue::default() };
    queue.users = history.map(|history| history.users.clone()).unwrap_or_default();
    let mut target_at = None;
    for (submit, entry) in entries(state, history, &vcs, (now_ms, found.is_none())) {
        match entry {
            Entry::Past { shape, user, vc } => {
                let at = queue.push((submit, shape, vc), user, None, 0.0);
                queue.past.insert(at);
            }
            Entry::New => {
                let user = queue.users.number(user.as_deref());
                // Behind all that wait.
                let lowest = queue.waiting.iter().filter_map(|at| queue.workload.score.get(*at as usize)).copied();
                let score = lowest.fold(f64::NEG_INFINITY, f64::max);
                let at = queue.push((submit, wanted, vc), user, limit_s, if score.is_finite() { score } else { 0.0 });
                queue.waiting.push(at);
                target_at = Some(at);
            }
            Entry::Live(job) => {
                let first = queue.take(submit, job, &vcs, &usable, (now_ms, unit));
                if found.is_some_and(|found| found.id == job.id) {
                    target_at = first;
                }
            }
        }
    }
    let Some(target_at) = target_at else {
        return Err(Error::no_jobs("the job is not in the queue of any partition that is known".to_owned()));
    };
    let Queue { mut workload, users, names, mut running, mut waiting, limits, times, left, past } = queue;
    workload.users = users.into_names();
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
    let name = |at: u32| names.get(&at).cloned();
    let ids: Vec<Option<String>> = waiting.iter().map(|at| name(*at)).collect();
    let running_ids = running.iter().filter_map(|(at, _)| name(*at)).collect();
    let ahead = |job: u32, elapsed_s: f64| -> RunsAhead {
        let limit = limits.get(job as usize).copied().flatten();
        let ahead = match history {
            Some(history) => history.runs.ahead(Like::new(&workload, job), elapsed_s, limit),
            None => RunsAhead::within(elapsed_s, limit.unwrap_or_else(|| USUAL_LIMIT_S.max(2.0 * elapsed_s))),
        };
        ahead.repeated(times.get(job as usize).copied().unwrap_or(1))
    };
    let scene = Scene { workload: &workload, cluster, policy: &policy, now_ms: 0, running, waiting };
    let drawn = scene.draw(draws, seed, &ahead, &|at| in_pool(at) && past.contains(&at))?;
    let wait_s = |wait: &i64| if *wait >= NEVER_MS { f64::INFINITY } else { *wait as f64 / 1e3 };
    let drawn: Vec<Vec<f64>> = drawn.iter().map(|waits| waits.iter().map(wait_s).collect()).collect();
    if let Some(waits) = drawn.get(place).filter(|waits| waits.iter().any(|wait| wait.is_finite())) {
        live.starts = Starts::Drawn(waits.clone());
    }
    let waits = ids.into_iter().zip(drawn).filter_map(|(id, waits)| Some((id?, waits))).collect();
    notes.extend(
        left.iter().map(|(why, jobs)| format!("Left out: {} {why}.", format::counted(*jobs as u64, "job", "jobs"))),
    );
    match history {
        Some(history) => notes.push(format!(
            "Runs are drawn from {} of the history, as those of the same user and size came to; {} of its last days arrive again.",
            format::counted(history.jobs as u64, "job", "jobs"),
            format::counted(past.len() as u64, "job", "jobs")
        )),
        None => notes.push("No history: runs are drawn evenly up to the time limit, and nobody else arrives. Name one with --history.".to_owned()),
    }
    live.notes = notes;
    Ok(Forward { live, waits, running: running_ids })
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
pub(super) mod tests {
    use tracecast_analytics::state::NodeState;

    use super::*;

    const HOUR: i64 = 3_600_000;

    /// A node of 8 GPUs.
    pub(in crate::start) fn node(name: &str, usable: bool, partitions: &[&str]) -> NodeState {
        NodeState {
            name: name.to_owned(),
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
            gpus: 8,
            gpu_type: None,
            cpus: 64,
            usable,
        }
    }

    /// A job of `ann` in partition `gpu`, with a limit of two hours; submitted at 0, and begun then.
    pub(in crate::start) fn job(id: &str, phase: Phase, gpus: f64, on: &[&str]) -> LiveJob {
        LiveJob {
            id: id.to_owned(),
            user: Some("ann".to_owned()),
            partition: Some("gpu".to_owned()),
            phase,
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
