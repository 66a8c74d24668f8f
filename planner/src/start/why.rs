//! The answer of `why`: the one cause that keeps a job from starting now, proved by replay, who stands before
//! it, and what would start it sooner, as JSON (`why/1`) and as a report.
//!
//! **Cause.** One thing is taken away from the dumps at a time, and what is left is replayed from now:
//!
//! | cause | taken away |
//! |---|---|
//! | held, begin time, dependency, array limit, licences, limit | what the scheduler says keeps the job |
//! | drained | nodes that take no jobs do |
//! | reservation | reservations that have begun; or the job's own, as its scheduler says |
//! | fragmentation | what runs stands on as few nodes as it can, where as many GPUs are free as the job asks for and no nodes have them together |
//! | order | all others that wait |
//! | capacity | as many nodes are added as all that wait take |
//!
//! The cause is what alone starts the job now. It is **proven** if nothing else of the table but more nodes
//! does. Of several the first is named, and the others are told; where nothing else does, it is capacity,
//! proven if all others together do not either. A job that no nodes of its partition hold, were they all
//! empty and in service, is too large. Of what a scheduler names that alone is taken away; it is not proven
//! where the replay starts the job as it is, such as that of a task whose array is at its limit.
//!
//! **Sooner.** Fewer GPUs, a node fewer, a shorter limit and other partitions are replayed with the same draws;
//! what starts the job sooner by the median is told, with how many others then start later.
//!
//! O(changes × draws × replay). Worked example: on two nodes of 8 GPUs, of which one is drained and one is held
//! until its limit in an hour, a job of 8 starts now if the drained node is back, and not if others that wait
//! are gone: it is drained.

mod report;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::state::{Blocked, ClusterState, LiveJob, NodeState, Phase};
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::format_rfc3339;

use super::live::{
    Forward, History, JobOrShape, Starts, fits_together, forward, free_units, has_units_free, is_of, nodes_by_partition,
};
use super::when::{StartQuantiles, in_words};
use crate::error::{Error, Result};
use crate::sim::Scan;

/// Version of the JSON.
pub const SCHEMA: &str = "why/1";
/// Most jobs before it that are told.
const MOST_AHEAD: usize = 20;
/// Most jobs that are named of those that a change harms.
const MOST_NAMED: usize = 5;
/// Most other partitions that are tried.
const MOST_PARTITIONS: usize = 5;
/// A start later or sooner by less is the same, seconds.
const SAME_S: f64 = 60.0;

/// What keeps a job from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Somebody holds it.
    Held,
    /// It has a time to begin.
    BeginTime,
    /// It waits for other jobs.
    Dependency,
    /// As many tasks of its array run as may at once.
    ArrayLimit,
    /// It waits for licences.
    Licences,
    /// A limit of its QOS, account or partition.
    Limit,
    /// Nodes are out of service.
    Drained,
    /// Nodes are kept for others, or it waits for a reservation of its own.
    Reservation,
    /// Enough GPUs are free, and not together.
    Fragmentation,
    /// Others that wait come before it.
    Order,
    /// Too few GPUs are free.
    Capacity,
    /// No nodes of its partition hold it, were they all empty.
    TooLarge,
    /// Nothing that the dumps show: the replay starts it now.
    Nothing,
}

impl CauseKind {
    /// Name in words.
    fn in_words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::BeginTime => "time to begin",
            Self::Dependency => "dependency",
            Self::ArrayLimit => "limit of its array",
            Self::Licences => "licences",
            Self::Limit => "limit",
            Self::Drained => "nodes out of service",
            Self::Reservation => "reservation",
            Self::Fragmentation => "fragmentation",
            Self::Order => "order",
            Self::Capacity => "capacity",
            Self::TooLarge => "too large",
            Self::Nothing => "nothing",
        }
    }
}

/// A thing that was taken away by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CauseTried {
    /// What was taken away.
    pub kind: CauseKind,
    /// Whether the job then starts now.
    pub starts_now: bool,
}

/// The cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    /// What it is.
    pub kind: CauseKind,
    /// The cause in a sentence.
    pub text: String,
    /// Whether taking it away starts the job now, and taking any other away but a lack of nodes does not.
    pub proven: bool,
    /// What was taken away, one by one.
    pub tried: Vec<CauseTried>,
}

/// A job that stands before it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AheadOfIt {
    /// Identifier.
    pub job: String,
    /// User.
    pub user: Option<String>,
    /// GPUs; of an array those of a task.
    pub gpus: Option<f64>,
    /// Tasks that wait under this identifier: 1 of a job that is no array.
    pub tasks: u32,
    /// Whether it runs; else it waits.
    pub runs: bool,
    /// Of one that runs the end of its time limit, of one that waits its start at the median; null where
    /// neither is known.
    pub until: Option<String>,
}

/// Others that start later by a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Harmed {
    /// Jobs that start later by more than a minute at the median.
    pub jobs: usize,
    /// Of these, jobs that then start in less than half of the draws.
    pub never: usize,
    /// By how much the others in all, seconds.
    pub later_s: f64,
    /// The first of them by identifier.
    pub first: Vec<String>,
}

impl Harmed {
    /// Jobs but the one of this identifier whose medians, seconds from now, are later after a change than before.
    fn new(id: &str, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Self {
        let mut harmed = Self::default();
        for (other, wait) in before.iter().filter(|(other, _)| *other != id) {
            let Some(later) = after.get(other).map(|then| then - wait).filter(|later| *later > SAME_S) else {
                continue;
            };
            harmed.jobs += 1;
            match later.is_finite() {
                true => harmed.later_s += later,
                false => harmed.never += 1,
            }
            if harmed.first.len() < MOST_NAMED {
                harmed.first.push(other.clone());
            }
        }
        harmed
    }
}

/// A change that starts the job sooner.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sooner {
    /// The change in words.
    pub change: String,
    /// When it then starts.
    pub start: StartQuantiles,
    /// Sooner by so much at the median, seconds; null where it never started before.
    pub sooner_s: Option<f64>,
    /// Others that it harms.
    pub harmed: Harmed,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WhyAnswer {
    /// Version of this form.
    pub schema: String,
    /// Job.
    pub job: String,
    /// The moment of the dumps.
    pub now: String,
    /// Partition.
    pub partition: String,
    /// GPUs; of a job without any, units of so many processor cores as `cores_each` says.
    pub gpus: u32,
    /// Processor cores that are one unit; null if units are GPUs.
    pub cores_each: Option<u32>,
    /// Since when it runs; null of one that waits.
    pub running_since: Option<String>,
    /// What keeps it; null of one that runs.
    pub cause: Option<Cause>,
    /// When it starts; nulls where it does not come to that.
    pub start: StartQuantiles,
    /// Who stands before it: who runs in its pool, next ends first, then who waits and starts before it.
    pub ahead: Vec<AheadOfIt>,
    /// Jobs that stand before it, in all.
    pub ahead_jobs: usize,
    /// What would start it sooner, the soonest first.
    pub sooner: Vec<Sooner>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// The JSON Schema of [`WhyAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(WhyAnswer).to_value()
}

/// The kind of what a scheduler says keeps a job.
fn kind_of(blocked: &Blocked) -> CauseKind {
    match blocked {
        Blocked::Held => CauseKind::Held,
        Blocked::Begins(_) => CauseKind::BeginTime,
        Blocked::Depends(_) => CauseKind::Dependency,
        Blocked::Reservation(_) => CauseKind::Reservation,
        Blocked::ArrayLimit => CauseKind::ArrayLimit,
        Blocked::Licences => CauseKind::Licences,
        Blocked::Limit(_) => CauseKind::Limit,
        Blocked::Nodes => CauseKind::Drained,
    }
}

/// A job of some dumps, how its scheduler decides, and how often is drawn.
#[derive(Debug, Clone, Copy)]
pub struct WhyRequest<'a> {
    /// The dumps.
    pub state: &'a ClusterState,
    /// What is known of runs and arrivals.
    pub history: Option<&'a History>,
    /// Job.
    pub job: &'a str,
    /// What the scheduler does if a job does not fit.
    pub scan: Scan,
    /// Draws.
    pub draws: usize,
    /// Seed.
    pub seed: u64,
}

/// A job that waits, and the request about it.
struct Waiting<'a> {
    request: WhyRequest<'a>,
    state: &'a ClusterState,
    job: &'a LiveJob,
}

impl Waiting<'_> {
    /// Replays dumps forward with all draws.
    fn forward(&self, state: &ClusterState) -> Result<Forward> {
        self.request.forward(state, &self.job.id)
    }

    /// Whether the job of some dumps starts now: neither runs nor arrivals have a part in that.
    fn starts_now(&self, state: &ClusterState) -> Result<bool> {
        Ok(fits_together(state, self.job_in(state)) && self.starts_if_packed(state)?)
    }

    /// Whether the job starts now if what runs stands on as few nodes as it can.
    fn starts_if_packed(&self, state: &ClusterState) -> Result<bool> {
        let request = WhyRequest { history: None, draws: 1, ..self.request };
        let result = request.forward(state, &self.job.id)?;
        Ok(matches!(&result.live.starts, Starts::Drawn(waits) if waits.iter().all(|wait| *wait < 1.0)))
    }

    /// The job as it is in edited dumps.
    fn job_in<'s>(&'s self, state: &'s ClusterState) -> &'s LiveJob {
        state.jobs.iter().find(|job| job.id == self.job.id).unwrap_or(self.job)
    }

    /// Takes away one thing after the other.
    fn tried(&self) -> Result<Vec<CauseTried>> {
        let (state, job) = (self.state, self.job);
        if let Some(blocked) = &job.blocked {
            let free = edited(state, &job.id, |job| job.blocked = None);
            let without = match blocked {
                Blocked::Nodes => in_service(free),
                Blocked::Reservation(_) => unreserved(free),
                _ => free,
            };
            return Ok(vec![CauseTried { kind: kind_of(blocked), starts_now: self.starts_now(&without)? }]);
        }
        let mut result = Vec::new();
        let mut try_one = |kind, starts_now| result.push(CauseTried { kind, starts_now });
        // What changes nothing lets nothing start.
        let starts_by = |edited: ClusterState| Ok::<_, Error>(edited != *state && self.starts_now(&edited)?);
        try_one(CauseKind::Drained, starts_by(in_service(state.clone()))?);
        try_one(CauseKind::Reservation, starts_by(unreserved(state.clone()))?);
        let is_apart = !fits_together(state, job) && has_units_free(state, job);
        try_one(CauseKind::Fragmentation, is_apart && self.starts_if_packed(state)?);
        try_one(CauseKind::Order, starts_by(alone(state.clone(), &job.id))?);
        try_one(CauseKind::Capacity, self.starts_now(&grown(state, job))?);
        Ok(result)
    }

    /// What keeps the job.
    fn cause(&self, base: &Forward) -> Result<Cause> {
        let job = self.job;
        let only = ClusterState { jobs: vec![LiveJob { blocked: None, ..job.clone() }], ..self.state.clone() };
        let empty = in_service(unreserved(only));
        let may_be_too_large = matches!(&job.blocked, None | Some(Blocked::Limit(_) | Blocked::Nodes));
        if may_be_too_large && !self.starts_now(&empty)? {
            let text = "No nodes of its partition hold it, were they all empty and in service.".to_owned();
            return Ok(Cause { kind: CauseKind::TooLarge, text, proven: true, tried: Vec::new() });
        }
        if job.blocked.is_none() && self.starts_now(self.state)? {
            let text = "Nothing that the dumps show keeps it: replayed from now it starts at once. The scheduler may not have looked at it yet, or goes by what is in no dump.".to_owned();
            return Ok(Cause { kind: CauseKind::Nothing, text, proven: false, tried: Vec::new() });
        }
        let tried = self.tried()?;
        let others = |of: &&CauseTried| of.starts_now && of.kind != CauseKind::Capacity;
        let enough: Vec<CauseKind> = tried.iter().filter(others).map(|of| of.kind).collect();
        let kind = match (&job.blocked, enough.first()) {
            (Some(blocked), _) => kind_of(blocked),
            (None, Some(kind)) => *kind,
            // All nodes in service would hold it, and those that take jobs do not.
            (None, None) if base.live.starts == Starts::TooLarge => self.out_of_service(),
            (None, None) => CauseKind::Capacity,
        };
        let is_enough = tried.iter().any(|of| of.kind == kind && of.starts_now);
        let is_alone = enough.len() <= 1
            && match (&job.blocked, kind) {
                // Where it starts though nothing is taken away, the replay does not know what the scheduler
                // names.
                (Some(Blocked::Nodes | Blocked::Reservation(_)), _) => {
                    !self.starts_now(&edited(self.state, &job.id, |job| job.blocked = None))?
                }
                (Some(_), _) => !self.starts_now(self.state)?,
                (None, CauseKind::Capacity) => {
                    !self.starts_now(&alone(in_service(unreserved(self.state.clone())), &job.id))?
                }
                (None, _) => true,
            };
        let mut text = self.text(kind, base);
        if !is_enough {
            text += " Without that it would wait for its turn or room.";
        }
        if let Some((_, rest @ [_, ..])) = enough.split_first() {
            let rest: Vec<&str> = rest.iter().map(|kind| taken_away(*kind)).collect();
            text += &format!(" It would start as well {}.", rest.join(", or "));
        }
        if kind == CauseKind::Capacity && !is_alone {
            text += " It would start as well if nobody else waited, and nodes out of service and reserved ones were there, together.";
        }
        Ok(Cause { kind, text, proven: is_enough && is_alone, tried })
    }

    /// Names of the nodes of its partition that are out of service.
    fn drained(&self) -> Vec<String> {
        let out = self.state.nodes.iter().filter(|node| !node.usable && is_of(self.job, node));
        out.map(|node| node.name.clone()).collect()
    }

    /// Names of the reservations that have begun and keep nodes of its partition.
    fn reserved(&self) -> Vec<String> {
        let now_ms = self.state.now_ms.unwrap_or_default();
        let is_in = |name: &String| self.state.nodes.iter().any(|node| node.name == *name && is_of(self.job, node));
        let begun = self.state.reservations.iter().filter(|of| of.has_begun(now_ms));
        begun.filter(|of| of.nodes.iter().any(is_in)).map(|of| of.name.clone()).collect()
    }

    /// What keeps nodes from a job that all of them would hold.
    fn out_of_service(&self) -> CauseKind {
        if self.drained().is_empty() { CauseKind::Reservation } else { CauseKind::Drained }
    }

    /// The cause in a sentence.
    fn text(&self, kind: CauseKind, base: &Forward) -> String {
        let job = self.job;
        let gpus = |count: f64| format::counted(count.round() as u64, "GPU", "GPUs");
        let free: f64 = free_units(self.state, job).iter().sum();
        let wanted = gpus(f64::from(base.live.gpus));
        match (kind, &job.blocked) {
            (_, Some(blocked)) => format!("{}.", format::capitalised(&in_words(blocked))),
            (CauseKind::Drained, None) => {
                format!("Nodes of its partition are out of service: {}.", format::names(&self.drained(), 8))
            }
            (CauseKind::Reservation, None) => {
                format!("Nodes of its partition are kept by reservations: {}.", format::names(&self.reserved(), 8))
            }
            (CauseKind::Fragmentation, None) => {
                format!(
                    "It asks for {wanted}, and {} are free, but not together on nodes as it needs them.",
                    gpus(free)
                )
            }
            (CauseKind::Order, None) => {
                let waiting = base.waits.keys().filter(|id| **id != job.id).count();
                let others = format::counted(waiting as u64, "other that waits", "others that wait");
                format!("There is room for it, and others come first: without the {others} it starts now.")
            }
            _ => format!("It asks for {wanted}, and {} are free in its partition.", gpus(free)),
        }
    }

    /// Changes that are tried, in words, and the dumps with each.
    fn changes(&self, partition: &str) -> Vec<(String, ClusterState)> {
        let (state, job) = (self.state, self.job);
        let change = |text: String, by: &dyn Fn(&mut LiveJob)| (text, edited(state, &job.id, by));
        let mut result = Vec::new();
        let nodes = job.nodes.filter(|nodes| *nodes > 1);
        if let Some(gpus) = job.gpus.filter(|gpus| *gpus >= 1.0) {
            for part in [2u32, 4].into_iter().filter(|part| (gpus / f64::from(*part)).fract() == 0.0) {
                let fewer = gpus / f64::from(part);
                let text = format!("{} in place of {}", format::counted(fewer as u64, "GPU", "GPUs"), gpus as u64);
                let nodes = nodes.filter(|nodes| nodes.is_multiple_of(part)).map(|nodes| nodes / part);
                result.push(change(text, &|job| (job.gpus, job.nodes) = (Some(fewer), nodes)));
            }
            if let Some(nodes) = nodes.filter(|nodes| *nodes > 2 && (gpus / f64::from(*nodes)).fract() == 0.0) {
                let fewer = gpus - gpus / f64::from(nodes);
                let text = format!("one node fewer, with {}", format::counted(fewer as u64, "GPU", "GPUs"));
                result.push(change(text, &|job| (job.gpus, job.nodes) = (Some(fewer), Some(nodes - 1))));
            }
        }
        for (limit, shorter) in job.limit_s.iter().flat_map(|limit| [2.0, 4.0].map(|part| (limit, limit / part))) {
            let text = format!("a limit of {} in place of {}", format::duration(shorter), format::duration(*limit));
            result.push(change(text, &|job| job.limit_s = Some(shorter)));
        }
        let drained = self.drained();
        if !drained.is_empty() {
            let text = format!("nodes back in service: {}", format::names(&drained, 4));
            result.push((text, in_service(state.clone())));
        }
        let mut partitions: Vec<(&str, usize)> =
            nodes_by_partition(state, job).into_iter().filter(|(name, _)| *name != partition).collect();
        partitions.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
        result.extend(
            partitions
                .into_iter()
                .take(MOST_PARTITIONS)
                .map(|(name, _)| change(format!("partition {name}"), &|job| job.partition = Some(name.to_owned()))),
        );
        result
    }

    /// What would start the job sooner than the medians that are.
    fn sooner(&self, partition: &str, medians_now: &BTreeMap<String, f64>) -> Result<Vec<Sooner>> {
        let id = &self.job.id;
        let start_now = medians_now.get(id).copied().unwrap_or(f64::INFINITY);
        let mut result: Vec<(f64, Sooner)> = Vec::new();
        for (change, state) in self.changes(partition) {
            let after = self.forward(&state)?;
            let medians_then = medians(&after);
            let Some(start) = medians_then.get(id).copied().filter(|start| *start < start_now - SAME_S) else {
                continue;
            };
            // Who waits in another partition is harmed beside how it would be with the job behind all.
            let behind = match self.job_in(&state).partition == self.job.partition {
                true => None,
                false => Some(medians(&self.forward(&edited(&state, id, |job| job.priority = Some(f64::MIN)))?)),
            };
            let harmed = Harmed::new(id, behind.as_ref().unwrap_or(medians_now), &medians_then);
            let sooner_s = Some(start_now - start).filter(|sooner| sooner.is_finite());
            result.push((start, Sooner { change, start: StartQuantiles::from_live(&after.live), sooner_s, harmed }));
        }
        result.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(result.into_iter().map(|(_, sooner)| sooner).collect())
    }

    /// Who stands before the job, and how many these are.
    fn ahead(&self, base: &Forward, medians: &BTreeMap<String, f64>) -> (Vec<AheadOfIt>, usize) {
        let at = |ms: f64| format_rfc3339((ms / 1e3).round() as i64 * 1000);
        let now = base.live.now_ms as f64;
        let row = |of: &LiveJob, until: Option<f64>| AheadOfIt {
            job: of.id.clone(),
            user: of.user.clone(),
            gpus: of.gpus,
            tasks: of.tasks,
            runs: of.phase == Phase::Running,
            until: until.map(at),
        };
        let end = |of: &LiveJob| of.start_ms.zip(of.limit_s).map(|(start, limit)| start as f64 + limit * 1e3);
        let mut running: Vec<(&LiveJob, Option<f64>)> =
            self.state.jobs.iter().filter(|of| base.running.contains(&of.id)).map(|of| (of, end(of))).collect();
        running.sort_by(|one, other| one.1.unwrap_or(f64::INFINITY).total_cmp(&other.1.unwrap_or(f64::INFINITY)));
        let start_of_it = medians.get(&self.job.id).copied().unwrap_or(f64::INFINITY);
        let start = |of: &LiveJob| medians.get(&of.id).copied().filter(|start| *start < start_of_it);
        let mut waiting: Vec<(&LiveJob, f64)> = self
            .state
            .jobs
            .iter()
            .filter_map(|of| Some((of, start(of)?)))
            .filter(|(of, _)| of.phase == Phase::Pending)
            .collect();
        waiting.sort_by(|one, other| one.1.total_cmp(&other.1));
        let count = running.len() + waiting.len();
        let rows = running.iter().map(|(of, end)| row(of, *end));
        let half = MOST_AHEAD / 2;
        let few = if waiting.len() < half { MOST_AHEAD - waiting.len() } else { half };
        let waiting = waiting.iter().map(|(of, start)| row(of, Some(now + start * 1e3)));
        (rows.take(few).chain(waiting).take(MOST_AHEAD).collect(), count)
    }
}

impl WhyRequest<'_> {
    /// Replays dumps forward, for the job of this identifier.
    fn forward(&self, state: &ClusterState, id: &str) -> Result<Forward> {
        forward(state, self.history, &JobOrShape::Job(id.to_owned()), self.scan, (self.draws, self.seed))
    }

    /// Answers.
    ///
    /// # Errors
    /// If the dumps have no such job or nodes, or the engine does not take the jobs.
    pub fn answer(&self) -> Result<WhyAnswer> {
        let base = self.forward(self.state, self.job)?;
        let live = &base.live;
        let id = live.job.clone().unwrap_or_default();
        let mut result = WhyAnswer {
            schema: SCHEMA.to_owned(),
            job: id.clone(),
            now: format_rfc3339(live.now_ms),
            partition: live.partition.clone(),
            gpus: live.gpus,
            cores_each: live.cores,
            running_since: None,
            cause: None,
            start: StartQuantiles::from_live(live),
            ahead: Vec::new(),
            ahead_jobs: 0,
            sooner: Vec::new(),
            notes: live.notes.clone(),
        };
        if let Starts::Runs(since) = live.starts {
            result.running_since = Some(format_rfc3339(since));
            return Ok(result);
        }
        let Some(job) = self.state.jobs.iter().find(|job| job.id == id) else { return Ok(result) };
        let waiting = Waiting { request: *self, state: self.state, job };
        let medians = medians(&base);
        result.cause = Some(waiting.cause(&base)?);
        (result.ahead, result.ahead_jobs) = waiting.ahead(&base, &medians);
        if job.blocked.is_none() {
            result.sooner = waiting.sooner(&base.live.partition, &medians)?;
        }
        Ok(result)
    }
}

/// What was taken away, after "it would start".
fn taken_away(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Drained => "with the nodes back that are out of service",
        CauseKind::Reservation => "without the reservations of others",
        CauseKind::Fragmentation => "if what runs stood closer together",
        CauseKind::Order => "without the others that wait",
        _ => "without what its scheduler names",
    }
}

/// Median wait of each job, seconds; infinite of one that starts in less than half of the draws.
fn medians(of: &Forward) -> BTreeMap<String, f64> {
    let median = |waits: &Vec<f64>| quantile(waits, 0.5).unwrap_or(f64::INFINITY);
    of.waits.iter().map(|(id, waits)| (id.clone(), median(waits))).collect()
}

/// Dumps with all nodes in service.
fn in_service(mut state: ClusterState) -> ClusterState {
    state.nodes.iter_mut().for_each(|node| node.usable = true);
    state
}

/// Dumps without reservations.
fn unreserved(state: ClusterState) -> ClusterState {
    ClusterState { reservations: Vec::new(), ..state }
}

/// Dumps in which no other job waits.
fn alone(mut state: ClusterState, id: &str) -> ClusterState {
    state.jobs.retain(|other| other.phase == Phase::Running || other.id == id);
    state
}

/// Dumps with one job changed.
fn edited(state: &ClusterState, id: &str, by: impl Fn(&mut LiveJob)) -> ClusterState {
    let mut state = state.clone();
    state.jobs.iter_mut().filter(|job| job.id == id).for_each(by);
    state
}

/// Dumps with as many more nodes of the job's partition as all take that wait, each on nodes of its own.
fn grown(state: &ClusterState, job: &LiveJob) -> ClusterState {
    let mut state = state.clone();
    let largest = state.nodes.iter().filter(|node| is_of(job, node)).max_by_key(|node| (node.gpus, node.cpus)).cloned();
    let Some(largest) = largest else { return state };
    let of = |job: &LiveJob| {
        let part = |asked: Option<f64>, each: u32| (asked.unwrap_or(0.0) / f64::from(each.max(1))).ceil() as u32;
        let nodes = part(job.gpus, largest.gpus).max(part(job.cpus, largest.cpus)).max(job.nodes.unwrap_or(1)).max(1);
        nodes.saturating_mul(job.at_once.unwrap_or(job.tasks).clamp(1, 1000))
    };
    let waiting = state.jobs.iter().filter(|job| job.phase == Phase::Pending);
    let count = waiting.map(of).fold(0u32, u32::saturating_add).min(100_000);
    let more = (0..count).map(|at| NodeState { name: format!("+{at}"), usable: true, ..largest.clone() });
    state.nodes.extend(more);
    state
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
