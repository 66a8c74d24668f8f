//! Jobs of a dump and of a history as a workload, in order of their submissions.
//!
//! O(jobs log jobs). Worked example: an array of six tasks of which two may run at once is two jobs, each of
//! three runs one after the other.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::state::{Blocked, ClusterState, LiveJob, Phase};
use tracecast_analytics::time::DAY_MS;

use super::history::{History, Numbered};
use super::nodes::Unit;
use crate::sim::{Shape, Workload};

/// Most tasks of a waiting array that are replayed.
const MOST_TASKS: u32 = 1000;

/// GPUs of a job as a shape; none where it asks for no whole ones.
pub(super) fn shape(gpus: Option<f64>, nodes: Option<u32>) -> Option<Shape> {
    let gpus = gpus.filter(|gpus| *gpus >= 1.0)?.round() as u32;
    let nodes = nodes.filter(|nodes| *nodes > 1 && *nodes <= gpus && gpus.is_multiple_of(*nodes)).unwrap_or(0);
    Some(Shape { nodes: u16::try_from(nodes).unwrap_or(0), ..Shape::whole(gpus) })
}

/// Why a pending job is left out that something other than its turn and room keeps; none of one that is
/// replayed.
pub(super) fn left_out(blocked: &Blocked) -> Option<&'static str> {
    match blocked {
        Blocked::Held => Some("held"),
        Blocked::Depends(_) => Some("waiting for other jobs"),
        Blocked::Reservation(_) | Blocked::Licences | Blocked::Limit(_) | Blocked::Nodes => {
            Some("waiting for a reservation, licences, a limit or nodes")
        }
        Blocked::Begins(_) | Blocked::ArrayLimit => None,
    }
}

/// Jobs that run, wait or have been submitted in the past.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) workload: Workload,
    pub(super) users: Numbered,
    /// Identifiers of those that are in the dumps; of an array of its first task.
    pub(super) names: BTreeMap<u32, String>,
    /// Jobs that run, with their starts.
    pub(super) running: Vec<(u32, i64)>,
    pub(super) waiting: Vec<u32>,
    /// Time limit of each job, seconds.
    pub(super) limits: Vec<Option<f64>>,
    /// How often each runs, one run after the other.
    pub(super) times: Vec<u32>,
    /// Jobs that are left out, by why.
    pub(super) left: BTreeMap<&'static str, usize>,
    /// Jobs of the history, which arrive again.
    pub(super) past: BTreeSet<u32>,
}

impl Queue {
    /// Adds a job; its place.
    pub(super) fn push(
        &mut self,
        (submit_ms, shape, vc): (i64, Shape, u16),
        user: u32,
        limit_s: Option<f64>,
        score: f64,
    ) -> u32 {
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
    pub(super) fn take(
        &mut self,
        submit: i64,
        job: &LiveJob,
        vcs: &BTreeMap<String, u16>,
        usable: &BTreeSet<String>,
        (now_ms, unit): (i64, Unit),
    ) -> Option<u32> {
        let vc = job.partition.as_ref().and_then(|name| vcs.get(name)).copied();
        let shape = shape(unit.of_job(job), job.nodes);
        let why = match (vc, shape) {
            (None, _) => Some("in a partition that is not known"),
            (_, None) => Some("without whole GPUs"),
            _ => job.blocked.as_ref().and_then(left_out),
        };
        let (Some(vc), Some(shape), None) = (vc, shape, why) else {
            *self.left.entry(why.unwrap_or_default()).or_default() += 1;
            return None;
        };
        let user = self.users.number(job.user.as_deref());
        // Priority as Slurm has it: the highest is served first.
        let score = -job.priority.unwrap_or(0.0);
        if job.phase == Phase::Running {
            // Of nodes that are not known all are taken to be usable.
            let held = job.on.iter().filter(|name| usable.contains(*name)).count();
            let gpus = u32::try_from(u64::from(shape.gpus) * held as u64 / job.on.len().max(1) as u64);
            let shape = match gpus {
                Ok(gpus) if held < job.on.len() => Shape::whole(gpus),
                _ => shape,
            };
            if shape.gpus == 0 {
                *self.left.entry("running on nodes that take no jobs").or_default() += 1;
                return None;
            }
            let at = self.push((submit, shape, vc), user, job.limit_s, score);
            self.names.insert(at, job.id.clone());
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
        self.names.extend(tasks.first().map(|at| (*at, job.id.clone())));
        tasks.first().copied()
    }
}

/// A job of the past, one that is there, or one that might be.
pub(super) enum Entry<'a> {
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
pub(super) fn entries<'a>(
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
