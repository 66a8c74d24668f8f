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
//! does. Of several the first is named, and the others are told; where nothing else does, it is capacity. A
//! job that no nodes of its partition hold, were they all empty and in service, is too large.
//!
//! **Sooner.** Fewer GPUs, a node fewer, a shorter limit and other partitions are replayed with the same draws;
//! what starts the job sooner by the median is told, with how many others then start later.
//!
//! O(changes × draws × replay). Worked example: on two nodes of 8 GPUs, of which one is drained and one is held
//! until its limit in an hour, a job of 8 starts now if the drained node is back, and not if others that wait
//! are gone: it is drained.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Report, Section, format};
use tracecast_analytics::state::{Blocked, ClusterState, LiveJob, Phase};
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::format_rfc3339;

use super::live::{Forward, History, JobOrShape, Starts, fits_together, forward, free_units};
use super::when::{StartQuantiles, in_words};
use crate::error::Result;
use crate::plan::tell;
use crate::sim::Scan;

/// Version of the JSON.
pub const SCHEMA: &str = "why/1";
/// Most jobs before it that are told.
const MOST_AHEAD: usize = 20;
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
    /// GPUs.
    pub gpus: Option<f64>,
    /// Whether it runs; else it waits.
    pub runs: bool,
    /// Of one that runs the end of its time limit, of one that waits its start at the median; null where
    /// neither is known.
    pub until: Option<String>,
}

/// Others that start later by a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Harmed {
    /// Jobs that start later by more than a minute at the median.
    pub jobs: usize,
    /// By how much in all, seconds.
    pub later_s: f64,
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

/// A request about a job that waits.
struct Asked<'a> {
    state: &'a ClusterState,
    history: Option<&'a History>,
    job: &'a LiveJob,
    scan: Scan,
    draws: usize,
    seed: u64,
}

impl Asked<'_> {
    /// Replays dumps forward with all draws.
    fn forward(&self, state: &ClusterState) -> Result<Forward> {
        let target = JobOrShape::Job(self.job.id.clone());
        forward(state, self.history, &target, self.scan, (self.draws, self.seed))
    }

    /// Whether the job of some dumps starts now: neither runs nor arrivals have a part in that.
    fn starts_now(&self, state: &ClusterState) -> Result<bool> {
        Ok(fits_together(state, self.job_in(state)) && self.starts_if_packed(state)?)
    }

    /// Whether the job starts now if what runs stands on as few nodes as it can.
    fn starts_if_packed(&self, state: &ClusterState) -> Result<bool> {
        let target = JobOrShape::Job(self.job.id.clone());
        let result = forward(state, None, &target, self.scan, (1, self.seed))?;
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
            let without = edited(state, &job.id, |job| job.blocked = None);
            return Ok(vec![CauseTried { kind: kind_of(blocked), starts_now: self.starts_now(&without)? }]);
        }
        let mut result = Vec::new();
        let mut try_one = |kind, starts_now| result.push(CauseTried { kind, starts_now });
        let mut whole = state.clone();
        whole.nodes.iter_mut().for_each(|node| node.usable = true);
        try_one(CauseKind::Drained, whole != *state && self.starts_now(&whole)?);
        let unreserved = ClusterState { reservations: Vec::new(), ..state.clone() };
        try_one(CauseKind::Reservation, unreserved != *state && self.starts_now(&unreserved)?);
        try_one(CauseKind::Fragmentation, !fits_together(state, job) && self.starts_if_packed(state)?);
        let mut alone = state.clone();
        alone.jobs.retain(|other| other.phase == Phase::Running || other.id == job.id);
        try_one(CauseKind::Order, alone.jobs.len() < state.jobs.len() && self.starts_now(&alone)?);
        try_one(CauseKind::Capacity, self.starts_now(&grown(state, job))?);
        Ok(result)
    }

    /// What keeps the job.
    fn cause(&self, base: &Forward) -> Result<Cause> {
        let job = self.job;
        let mut empty = ClusterState {
            reservations: Vec::new(),
            jobs: vec![LiveJob { blocked: None, ..job.clone() }],
            ..self.state.clone()
        };
        empty.nodes.iter_mut().for_each(|node| node.usable = true);
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
        let found: Vec<CauseKind> = tried.iter().filter(others).map(|of| of.kind).collect();
        let kind = match (&job.blocked, found.first()) {
            (Some(blocked), _) => kind_of(blocked),
            (None, Some(kind)) => *kind,
            // All nodes in service would hold it, and those that take jobs do not.
            (None, None) if base.live.starts == Starts::TooLarge => self.out_of_service(),
            (None, None) => CauseKind::Capacity,
        };
        let is_enough = tried.iter().any(|of| of.kind == kind && of.starts_now);
        let mut text = self.text(kind, base);
        if !is_enough {
            text += " Without that it would wait for its turn or room.";
        }
        if let Some((_, rest @ [_, ..])) = found.split_first() {
            let rest: Vec<&str> = rest.iter().map(|kind| taken_away(*kind)).collect();
            text += &format!(" It would start as well {}.", rest.join(", or "));
        }
        Ok(Cause { kind, text, proven: is_enough && found.len() <= 1, tried })
    }

    /// What keeps nodes from a job that all of them would hold.
    fn out_of_service(&self) -> CauseKind {
        let is_drained = self.state.nodes.iter().any(|node| !node.usable);
        if is_drained { CauseKind::Drained } else { CauseKind::Reservation }
    }

    /// The cause in a sentence.
    fn text(&self, kind: CauseKind, base: &Forward) -> String {
        let job = self.job;
        let gpus = |count: f64| format::counted(count.round() as u64, "GPU", "GPUs");
        let free: f64 = free_units(self.state, job).iter().sum();
        let asked = gpus(f64::from(base.live.gpus));
        match (kind, &job.blocked) {
            (_, Some(blocked)) => {
                let words = in_words(blocked);
                let mut letters = words.chars();
                let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
                format!("{first}{}.", letters.as_str())
            }
            (CauseKind::Drained, None) => {
                let out = self
                    .state
                    .nodes
                    .iter()
                    .filter(|node| !node.usable && node.partitions.contains(&base.live.partition));
                let names: Vec<String> = out.map(|node| node.name.clone()).collect();
                format!("Nodes of its partition are out of service: {}.", format::names(&names, 8))
            }
            (CauseKind::Reservation, None) => {
                let names: Vec<String> = self.state.reservations.iter().map(|of| of.name.clone()).collect();
                format!("Nodes are kept by reservations: {}.", format::names(&names, 8))
            }
            (CauseKind::Fragmentation, None) => {
                format!("It asks for {asked}, and {} are free, but not together on nodes as it needs them.", gpus(free))
            }
            (CauseKind::Order, None) => {
                let waiting = base.waits.keys().filter(|id| **id != job.id).count();
                let others = format::counted(waiting as u64, "other that waits", "others that wait");
                format!("There is room for it, and others come first: without the {others} it starts now.")
            }
            _ => format!("It asks for {asked}, and {} are free in its partition.", gpus(free)),
        }
    }

    /// Changes of the job that are tried, in words.
    fn changes(&self, partition: &str) -> Vec<(String, ClusterState)> {
        let job = self.job;
        let mut result = Vec::new();
        let mut change = |text: String, by: &dyn Fn(&mut LiveJob)| result.push((text, edited(self.state, &job.id, by)));
        let nodes = job.nodes.filter(|nodes| *nodes > 1);
        if let Some(gpus) = job.gpus.filter(|gpus| *gpus >= 1.0) {
            for part in [2.0, 4.0].into_iter().filter(|part| (gpus / part).fract() == 0.0) {
                let text =
                    format!("{} in place of {}", format::counted((gpus / part) as u64, "GPU", "GPUs"), gpus as u64);
                change(text, &|job: &mut LiveJob| {
                    job.gpus = Some(gpus / part);
                    job.nodes =
                        nodes.filter(|nodes| nodes.is_multiple_of(part as u32)).map(|nodes| nodes / part as u32);
                });
            }
            if let Some(nodes) = nodes.filter(|nodes| *nodes > 2 && (gpus / f64::from(*nodes)).fract() == 0.0) {
                let fewer = gpus - gpus / f64::from(nodes);
                let text = format!("one node fewer, with {}", format::counted(fewer as u64, "GPU", "GPUs"));
                change(text, &|job: &mut LiveJob| {
                    job.gpus = Some(fewer);
                    job.nodes = Some(nodes - 1);
                });
            }
        }
        if let Some(limit) = job.limit_s {
            for part in [2.0, 4.0] {
                let text =
                    format!("a limit of {} in place of {}", format::duration(limit / part), format::duration(limit));
                change(text, &|job: &mut LiveJob| job.limit_s = Some(limit / part));
            }
        }
        let mut partitions: BTreeMap<&String, usize> = BTreeMap::new();
        for node in self.state.nodes.iter().filter(|node| node.usable && node.gpus > 0) {
            node.partitions.iter().for_each(|name| *partitions.entry(name).or_default() += 1);
        }
        let mut partitions: Vec<(&String, usize)> =
            partitions.into_iter().filter(|(name, _)| *name != partition).collect();
        partitions.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
        for (name, _) in partitions.into_iter().take(MOST_PARTITIONS) {
            change(format!("partition {name}"), &|job: &mut LiveJob| job.partition = Some(name.clone()));
        }
        result
    }

    /// What would start the job sooner.
    fn sooner(&self, base: &Forward) -> Result<Vec<Sooner>> {
        let job = self.job;
        let medians = |of: &Forward| -> BTreeMap<String, f64> {
            of.waits.iter().map(|(id, waits)| (id.clone(), median(waits))).collect()
        };
        let before = medians(base);
        let now = before.get(&job.id).copied().unwrap_or(f64::INFINITY);
        let mut result: Vec<(f64, Sooner)> = Vec::new();
        for (change, state) in self.changes(&base.live.partition) {
            let after = self.forward(&state)?;
            let medians = medians(&after);
            let Some(start) = medians.get(&job.id).copied().filter(|start| *start < now - SAME_S) else { continue };
            let later = before.iter().filter(|(id, _)| **id != job.id).filter_map(|(id, wait)| {
                let later = medians.get(id)? - wait;
                (later.is_finite() && later > SAME_S).then_some(later)
            });
            let harmed =
                later.fold(Harmed::default(), |sum, later| Harmed { jobs: sum.jobs + 1, later_s: sum.later_s + later });
            let sooner_s = Some(now - start).filter(|sooner| sooner.is_finite());
            result.push((start, Sooner { change, start: StartQuantiles::from_live(&after.live), sooner_s, harmed }));
        }
        result.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(result.into_iter().map(|(_, sooner)| sooner).collect())
    }

    /// Who stands before the job, and how many these are.
    fn ahead(&self, base: &Forward) -> (Vec<AheadOfIt>, usize) {
        let at = |ms: f64| format_rfc3339(ms as i64);
        let now = base.live.now_ms as f64;
        let row = |of: &LiveJob, until: Option<f64>| AheadOfIt {
            job: of.id.clone(),
            user: of.user.clone(),
            gpus: of.gpus,
            runs: of.phase == Phase::Running,
            until: until.map(at),
        };
        let end = |of: &LiveJob| of.start_ms.zip(of.limit_s).map(|(start, limit)| start as f64 + limit * 1e3);
        let mut running: Vec<(&LiveJob, Option<f64>)> =
            self.state.jobs.iter().filter(|of| base.running.contains(&of.id)).map(|of| (of, end(of))).collect();
        running.sort_by(|one, other| one.1.unwrap_or(f64::INFINITY).total_cmp(&other.1.unwrap_or(f64::INFINITY)));
        let medians: BTreeMap<&String, f64> = base.waits.iter().map(|(id, waits)| (id, median(waits))).collect();
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
    /// Answers.
    ///
    /// # Errors
    /// If the dumps have no such job or nodes, or the engine does not take the jobs.
    pub fn answer(&self) -> Result<WhyAnswer> {
        let target = JobOrShape::Job(self.job.to_owned());
        let base = forward(self.state, self.history, &target, self.scan, (self.draws, self.seed))?;
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
        let Self { state, history, scan, draws, seed, .. } = *self;
        let request = Asked { state, history, job, scan, draws, seed };
        result.cause = Some(request.cause(&base)?);
        (result.ahead, result.ahead_jobs) = request.ahead(&base);
        if job.blocked.is_none() {
            result.sooner = request.sooner(&base)?;
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

/// The middle of waits, seconds; infinite of none.
fn median(waits: &[f64]) -> f64 {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::INFINITY)
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
    let is_in = |names: &[String]| job.partition.as_ref().is_none_or(|name| names.contains(name));
    let largest =
        state.nodes.iter().filter(|node| is_in(&node.partitions)).max_by_key(|node| (node.gpus, node.cpus)).cloned();
    let Some(largest) = largest else { return state };
    let of = |job: &LiveJob| {
        let part = |asked: Option<f64>, each: u32| (asked.unwrap_or(0.0) / f64::from(each.max(1))).ceil() as u32;
        let nodes = part(job.gpus, largest.gpus).max(part(job.cpus, largest.cpus)).max(job.nodes.unwrap_or(1)).max(1);
        nodes.saturating_mul(job.at_once.unwrap_or(job.tasks).clamp(1, 1000))
    };
    let waiting = state.jobs.iter().filter(|job| job.phase == Phase::Pending);
    let count = waiting.map(of).fold(0u32, u32::saturating_add).min(100_000);
    let more = (0..count).map(|at| tracecast_analytics::state::NodeState {
        name: format!("+{at}"),
        usable: true,
        ..largest.clone()
    });
    state.nodes.extend(more);
    state
}

impl WhyAnswer {
    /// The report.
    pub fn report(&self) -> Report {
        let gpus = format::counted(u64::from(self.gpus), "GPU", "GPUs");
        let mut report = Report::new(
            format!("Why does job {} wait?", self.job),
            format!("{gpus} in partition {}, as of {}", self.partition, self.now),
        );
        report.notes.clone_from(&self.notes);
        if let Some(since) = &self.running_since {
            report.summary.push(format!("**It runs since {since}.**"));
        }
        let Some(cause) = &self.cause else { return report };
        let has_proof = cause.proven && cause.kind != CauseKind::TooLarge;
        let proof =
            if has_proof { " Replayed without that it starts now, and without anything else it does not." } else { "" };
        report.summary.push(format!("**{}: {}**{proof}", format::capitalised(cause.kind.in_words()), cause.text));
        if let Some(start) = &self.start.p50 {
            let late = self.start.p90.as_deref().unwrap_or("never, in some draws");
            report.summary.push(format!("It starts most likely by {start}, with a chance of 90 % by {late}."));
        }
        if let Some(best) = self.sooner.first() {
            report.summary.push(format!(
                "Soonest: {}, and it starts most likely by {}.",
                best.change,
                best.start.p50.as_deref().unwrap_or("then")
            ));
        }
        let mut ahead = tell::table(
            format!("{} before it", format::counted(self.ahead_jobs as u64, "job", "jobs")),
            "Job | User | #GPUs | Now | Until",
        );
        for of in &self.ahead {
            let (phase, until) = if of.runs { ("runs", "its limit, ") } else { ("waits", "its start, ") };
            ahead.rows.push(vec![
                of.job.as_str().into(),
                of.user.as_deref().unwrap_or("").into(),
                Cell::opt(of.gpus, |gpus| Cell::float(gpus, 0)),
                phase.into(),
                of.until.as_ref().map_or_else(String::new, |at| format!("{until}{at}")).into(),
            ]);
        }
        if !ahead.rows.is_empty() {
            report.sections.push(Section::new("ahead", "Who stands before it").with_table(ahead));
        }
        let mut sooner = tell::table(
            "Changes, replayed one by one".to_owned(),
            "Change | Start, median | 90 % | #Sooner | #Others later | #By, in all",
        );
        for of in &self.sooner {
            sooner.rows.push(vec![
                of.change.as_str().into(),
                of.start.p50.clone().unwrap_or_default().into(),
                of.start.p90.clone().unwrap_or_default().into(),
                Cell::opt(of.sooner_s, Cell::Duration),
                Cell::Int(of.harmed.jobs as i64),
                Cell::Duration(of.harmed.later_s),
            ]);
        }
        if !sooner.rows.is_empty() {
            report.sections.push(Section::new("sooner", "What would start it sooner").with_table(sooner));
        }
        report
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tracecast_analytics::state::Reservation;

    use super::super::live::tests::{job, node};
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn ask(state: &ClusterState, id: &str, scan: Scan) -> WhyAnswer {
        WhyRequest { state, history: None, job: id, scan, draws: 14, seed: 1 }.answer().unwrap()
    }

    /// The kind of the cause, and whether it is proven.
    fn cause(state: &ClusterState, id: &str) -> (CauseKind, bool) {
        let cause = ask(state, id, Scan::Strict).cause.unwrap();
        (cause.kind, cause.proven)
    }

    /// Two nodes, the second of which takes jobs or not, and job 3 of 8 GPUs that waits.
    fn state(usable: bool, jobs: Vec<LiveJob>) -> ClusterState {
        let jobs = jobs.into_iter().chain([job("3", Phase::Pending, 8.0, &[])]).collect();
        let nodes = vec![node("n1", true, &["gpu"]), node("n2", usable, &["gpu"])];
        ClusterState { now_ms: Some(HOUR), nodes, jobs, ..ClusterState::default() }
    }

    #[test]
    fn the_worked_example() {
        let drained = state(
            false,
            vec![
                job("1", Phase::Running, 8.0, &["n1"]),
                LiveJob { priority: Some(0.0), ..job("2", Phase::Pending, 1.0, &[]) },
            ],
        );
        let answer = ask(&drained, "3", Scan::Strict);
        let cause = answer.cause.unwrap();
        assert_eq!((cause.kind, cause.proven), (CauseKind::Drained, true));
        assert!(cause.text.contains("n2"));
        let tried = |kind| cause.tried.iter().find(|of| of.kind == kind).unwrap().starts_now;
        assert!(tried(CauseKind::Drained) && !tried(CauseKind::Order) && tried(CauseKind::Capacity));
        // Job 1 ends within its limit an hour from now; job 2 comes after job 3.
        assert_eq!(
            (answer.ahead[0].job.as_str(), answer.ahead[0].until.as_deref()),
            ("1", Some("1970-01-01T02:00:00Z"))
        );
    }

    #[test]
    fn each_cause_by_hand() {
        let run = |id: &str, gpus: f64, on: &str| job(id, Phase::Running, gpus, &[on]);
        let first = LiveJob { priority: Some(9.0), ..job("2", Phase::Pending, 16.0, &[]) };
        assert_eq!(cause(&state(true, vec![run("1", 8.0, "n1"), first]), "3"), (CauseKind::Order, true));
        let full = state(true, vec![run("1", 8.0, "n1"), run("2", 8.0, "n2")]);
        assert_eq!(cause(&full, "3"), (CauseKind::Capacity, true));
        let halves = state(true, vec![run("1", 4.0, "n1"), run("2", 4.0, "n2")]);
        assert_eq!(cause(&halves, "3"), (CauseKind::Fragmentation, true));
        assert_eq!(cause(&state(true, Vec::new()), "3"), (CauseKind::Nothing, false));
        let reserved = Reservation { name: "r".to_owned(), nodes: vec!["n2".to_owned()], span_ms: (0, 2 * HOUR) };
        let kept = ClusterState { reservations: vec![reserved], ..state(true, vec![run("1", 8.0, "n1")]) };
        assert_eq!(cause(&kept, "3"), (CauseKind::Reservation, true));
        let large = edited(&full, "3", |job| job.gpus = Some(24.0));
        assert_eq!(cause(&large, "3"), (CauseKind::TooLarge, true));
        for (blocked, kind) in [
            (Blocked::Held, CauseKind::Held),
            (Blocked::Begins(Some(9 * HOUR)), CauseKind::BeginTime),
            (Blocked::Depends("afterok:1".to_owned()), CauseKind::Dependency),
            (Blocked::ArrayLimit, CauseKind::ArrayLimit),
            (Blocked::Licences, CauseKind::Licences),
            (Blocked::Limit("QOSMaxGRESPerUser".to_owned()), CauseKind::Limit),
        ] {
            let block = |state: &ClusterState| edited(state, "3", |job| job.blocked = Some(blocked.clone()));
            // Where it would wait for room without that, that alone does not let it start.
            assert_eq!(cause(&block(&state(true, Vec::new())), "3"), (kind, true));
            assert_eq!(cause(&block(&full), "3"), (kind, false));
        }
    }

    /// Half as many GPUs fit beside job 1 now, and harm the job behind it, which had these.
    #[test]
    fn fewer_gpus_start_sooner_and_others_later() {
        let mut full =
            state(true, vec![job("1", Phase::Running, 4.0, &["n1"]), job("2", Phase::Running, 8.0, &["n2"])]);
        full.jobs.push(LiveJob { priority: Some(0.0), limit_s: Some(600.0), ..job("4", Phase::Pending, 4.0, &[]) });
        let answer = ask(&full, "3", Scan::Easy);
        let half = answer.sooner.iter().find(|of| of.change.starts_with("4 GPUs")).unwrap();
        assert_eq!(half.start.p50.as_deref(), Some("1970-01-01T01:00:00Z"));
        assert_eq!(half.harmed.jobs, 1);
    }

    /// Nodes in use, out of service or reserved, and jobs that wait by their nodes, the first first.
    #[derive(Debug, Clone)]
    struct Drawn {
        nodes: Vec<(bool, bool, bool)>,
        waiting: Vec<usize>,
        place: usize,
    }

    impl Drawn {
        fn state(&self) -> ClusterState {
            let name = |at: usize| format!("n{at}");
            let nodes = self.nodes.iter().enumerate().map(|(at, of)| node(&name(at), !of.1, &["gpu"])).collect();
            let busy = (0..self.nodes.len()).filter(|at| self.nodes[*at].0);
            let running = busy.map(|at| job(&format!("r{at}"), Phase::Running, 8.0, &[&name(at)]));
            let waiting = self.waiting.iter().enumerate().map(|(at, nodes)| LiveJob {
                priority: Some(100.0 - at as f64),
                nodes: Some(*nodes as u32),
                ..job(&format!("w{at}"), Phase::Pending, 8.0 * *nodes as f64, &[])
            });
            let reserved: Vec<String> = (0..self.nodes.len()).filter(|at| self.nodes[*at].2).map(name).collect();
            let of = Reservation { name: "r".to_owned(), nodes: reserved.clone(), span_ms: (0, 9 * HOUR) };
            ClusterState {
                now_ms: Some(HOUR),
                nodes,
                jobs: running.chain(waiting).collect(),
                reservations: if reserved.is_empty() { Vec::new() } else { vec![of] },
                ..ClusterState::default()
            }
        }

        /// Whether the job starts now by counting nodes, with some things taken away.
        fn starts(&self, gone: &BTreeSet<CauseKind>) -> bool {
            let gone = |kind| gone.contains(&kind);
            let is_free = |of: &&(bool, bool, bool)| {
                !of.0 && (!of.1 || gone(CauseKind::Drained)) && (!of.2 || gone(CauseKind::Reservation))
            };
            let mut free = self.nodes.iter().filter(is_free).count();
            let is_there = |of: &&(bool, bool, bool)| is_free(&&(false, of.1, of.2));
            let there = self.nodes.iter().filter(is_there).count();
            let first = if gone(CauseKind::Order) { self.place } else { 0 };
            // Who never fits keeps nobody else from starting.
            for nodes in self.waiting[first..self.place].iter().filter(|nodes| **nodes <= there) {
                if *nodes > free {
                    return false;
                }
                free -= nodes;
            }
            self.waiting[self.place] <= free
        }

        fn cause(&self) -> (CauseKind, bool) {
            if self.waiting[self.place] > self.nodes.len() {
                return (CauseKind::TooLarge, true);
            }
            if self.starts(&BTreeSet::new()) {
                return (CauseKind::Nothing, false);
            }
            let alone = |kind: &CauseKind| self.starts(&BTreeSet::from([*kind]));
            let kinds = [CauseKind::Drained, CauseKind::Reservation, CauseKind::Order];
            let found: Vec<CauseKind> = kinds.into_iter().filter(alone).collect();
            let there = self.nodes.iter().filter(|of| !of.1 && !of.2).count();
            if found.is_empty() && self.waiting[self.place] > there {
                let is_drained = self.nodes.iter().any(|of| of.1);
                return (if is_drained { CauseKind::Drained } else { CauseKind::Reservation }, false);
            }
            (found.first().copied().unwrap_or(CauseKind::Capacity), found.len() <= 1)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// The cause that is named is the one that counting nodes finds.
        #[test]
        fn the_cause_is_the_true_one(
            nodes in prop::collection::vec((any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2)), 1..5),
            waiting in prop::collection::vec(1usize..4, 1..4),
            place in 0usize..4,
        ) {
            let drawn = Drawn { place: place % waiting.len(), nodes, waiting };
            let answer = ask(&drawn.state(), &format!("w{}", drawn.place), Scan::Strict);
            let cause = answer.cause.unwrap();
            prop_assert_eq!((cause.kind, cause.proven), drawn.cause(), "{:?}", cause);
        }
    }
}
