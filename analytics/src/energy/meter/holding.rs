//! Which job held which device at what time, and which jobs share devices of a pool.
//!
//! Finest first:
//! - **Samples** name their job: then nothing else counts for the devices that have samples, and a
//!   sample without a job is of a device that nobody holds. Where no samples are near, and for
//!   devices without samples, placements tell; where every job is placed, the others are nobody's,
//!   else it is unknown who holds them. A name reaches into a gap no further than its jobs run.
//! - **Device**: a placement names node and GPUs.
//! - **Node**: a placement names the node alone. Its jobs share the node's GPUs that no placement names, by GPU time.
//! - **VC**: a job has no placement, but a VC that nodes belong to. Likewise among the nodes of the VC.
//! - **Cluster**: any other job with a start, an end and GPUs. Likewise among all nodes.
//!
//! A device belongs to the finest pool that has jobs. Sharing is by the hour: of the hour's GPU time of the pool, the jobs'
//! part is held, and what is drawn above idle power is theirs in the ratio of their GPU time.
//!
//! A node that has a meter and no readings of its GPUs is one device: its jobs hold it by the GPUs they were given there over all that it has.
//!
//! Jobs on one GPU share it by the fraction each has; without fractions, equally.
//!
//! O(n log n) in placements, O(job-hours) for pools. Worked number: jobs with 0.5 and 0.25 of a GPU that draws 160 W, 60 W of
//! them idle, for 60 s: 6,000 J above idle are 4,000 and 2,000 J; of 3,600 J idle 1,800 and 900 J are theirs, 900 J nobody's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::sink::Claim;
use crate::Trace;
use crate::facts::JobFacts;
use crate::schema::Table as _;
use crate::schema::device::board;
use crate::time::HOUR_MS;

/// Holders of a device over time.
#[derive(Debug, Clone)]
pub(in crate::energy) struct Holding {
    /// Moments and the claims that begin there, in order of time.
    steps: Vec<(i64, Claim)>,
    /// Before the first step, and wherever a step says nobody.
    base: Claim,
}

impl Holding {
    /// Holder of the device at `ts`, and the moment until which it holds.
    #[inline]
    pub(in crate::energy) fn at(&self, ts: i64) -> (Claim, i64) {
        if self.steps.is_empty() {
            return (self.base, i64::MAX);
        }
        let after = self.steps.partition_point(|(at, _)| *at <= ts);
        let claim = after.checked_sub(1).and_then(|ix| self.steps.get(ix)).map_or(self.base, |(_, claim)| *claim);
        let until = self.steps.get(after).map_or(i64::MAX, |(at, _)| *at);
        (if claim == Claim::Nobody { self.base } else { claim }, until)
    }
}

/// A job that energy goes to.
#[derive(Debug, Clone)]
pub(in crate::energy) struct Who {
    /// Key of the job.
    pub(in crate::energy) key: String,
    /// Row in the jobs table, if listed.
    pub(in crate::energy) row: Option<usize>,
    /// Part of a GPU that it has, if it has less than one.
    part: f64,
    /// Starts and ends of its runs, ms; empty if samples do not name jobs.
    runs: Vec<(i64, i64)>,
}

/// A whole node that jobs hold.
#[derive(Debug, Clone, Copy)]
pub(in crate::energy) struct NodeHeld {
    /// Index of the node's holding, for [`Claims::held`].
    pub(in crate::energy) holding: u32,
    /// GPUs it has.
    pub(in crate::energy) gpus: f64,
    /// Whether the GPUs are from the inventory.
    pub(in crate::energy) is_listed: bool,
}

/// GPU seconds by job, of one hour.
pub(in crate::energy) type Shares = BTreeMap<u32, f64>;

/// All claims of a trace.
#[derive(Debug, Default)]
pub(in crate::energy) struct Claims {
    /// Jobs.
    pub(in crate::energy) whos: Vec<Who>,
    rows: HashMap<String, u32>,
    /// Jobs that hold one device together, each with its part of the device.
    pub(in crate::energy) sets: Vec<Vec<(u32, f64)>>,
    set_ids: HashMap<Vec<(u32, u64)>, u32>,
    /// Jobs of a named set of several that run, over time; by set and whether outside of all samples.
    reaches: HashMap<(u32, bool), Holding>,
    /// Jobs that share devices, by beginning of the hour.
    pub(in crate::energy) pools: Vec<BTreeMap<i64, Shares>>,
    holdings: Vec<Holding>,
    devices: HashMap<(String, String), u32>,
    nodes: HashMap<String, u32>,
    vcs: HashMap<String, u32>,
    node_vcs: HashMap<String, String>,
    /// Index of the holding of devices that nothing else is known of.
    default: u32,
    /// Whether samples name their jobs.
    pub(in crate::energy) labelled: bool,
    /// Jobs whose devices are not known, and jobs in all that held GPUs in the window.
    pub(in crate::energy) unplaced: (u64, u64),
}

/// Run of an attempt: job, number of the attempt, start, end, GPUs.
type Run = (usize, Option<i64>, i64, i64, Option<f64>);
/// A job takes a GPU (true) or leaves it: when, which, part of the GPU.
type Event = (i64, bool, u32, f64);

impl Claims {
    /// Reads jobs and placements within `span` (ms). `labelled`: samples name their jobs.
    pub(in crate::energy) fn new(trace: &Trace, span: (i64, i64), labelled: bool) -> Self {
        let facts = JobFacts::new(trace);
        let mut claims = Self { labelled, ..Self::default() };
        for job in 0..trace.jobs.len() {
            if let Some(key) = trace.jobs.job_key.get(job) {
                let part = facts.gpus(job).filter(|gpus| *gpus > 0.0).map_or(1.0, |gpus| gpus.min(1.0));
                claims.add(key, Some(job), part);
            }
        }
        let knows_jobs = !claims.whos.is_empty();
        claims.default = claims.hold(if knows_jobs && !labelled { Claim::Nobody } else { Claim::Unknown });
        let runs = if knows_jobs { runs(trace, &facts) } else { Vec::new() };
        if labelled {
            for run in &runs {
                let who = claims.who(trace, run.0).and_then(|who| claims.whos.get_mut(who as usize));
                who.into_iter().for_each(|who| who.runs.push((run.2, run.3)));
            }
        }
        if knows_jobs && !(labelled && trace.placements.is_empty()) {
            claims.place(trace, &runs, span);
        }
        claims
    }

    /// Returns the claims themselves if samples name their jobs.
    pub(in crate::energy) fn by_name(&self) -> Option<&Self> {
        self.labelled.then_some(self)
    }

    /// Returns the holder of a device at `ts` in a long gap of its samples, and until when: as
    /// placements (`holding`) tell, else of the jobs that the nearest sample names (`named`) those
    /// that run. A job of unknown run holds it from sample to sample, and `outside` of all samples
    /// not at all.
    pub(in crate::energy) fn between(&self, named: Claim, outside: bool, holding: &Holding, ts: i64) -> (Claim, i64) {
        let (placed, until) = holding.at(ts);
        let Claim::Set(set) = named else {
            let is_known = placed != Claim::Unknown || outside;
            return (if is_known { placed } else { named }, until);
        };
        let (running, change) = match self.reaches.get(&(set, outside)) {
            Some(reach) => reach.at(ts),
            None => self.alone(set, outside, ts),
        };
        let until = until.min(change);
        match placed {
            Claim::Set(_) => (placed, until),
            // Placements of listed jobs do not tell of a job whose run is unknown.
            Claim::Nobody if !self.is_unknown(set) => (placed, until),
            _ => (if running == Claim::Nobody { placed } else { running }, until),
        }
    }

    /// Whether the run of a job of the set is unknown.
    fn is_unknown(&self, set: u32) -> bool {
        let jobs = self.sets.get(set as usize).into_iter().flatten();
        jobs.filter_map(|(who, _)| self.whos.get(*who as usize)).any(|who| who.runs.is_empty())
    }

    /// The job of a set of one at `ts`, if it runs then, and until when that is so; `outside` as for
    /// [`Claims::between`].
    fn alone(&self, set: u32, outside: bool, ts: i64) -> (Claim, i64) {
        let job = self.sets.get(set as usize).and_then(|jobs| self.whos.get(jobs.first()?.0 as usize));
        let runs = job.map_or(&[][..], |job| &job.runs);
        if runs.is_empty() && !outside {
            return (Claim::Set(set), i64::MAX);
        }
        match runs.iter().filter(|(_, end)| *end > ts).min() {
            Some((start, end)) if *start <= ts => (Claim::Set(set), *end),
            Some((start, _)) => (Claim::Nobody, *start),
            None => (Claim::Nobody, i64::MAX),
        }
    }

    /// Notes which of several jobs on one device run when, for [`Claims::between`].
    fn reach(&mut self, set: u32) {
        let jobs = self.sets.get(set as usize).cloned().unwrap_or_default();
        if !self.labelled || jobs.len() < 2 || self.reaches.contains_key(&(set, false)) {
            return;
        }
        for outside in [false, true] {
            let mut events: Vec<Event> = Vec::new();
            for (who, part) in &jobs {
                let runs = self.whos.get(*who as usize).map(|who| who.runs.clone()).unwrap_or_default();
                let always = (runs.is_empty() && !outside).then_some((i64::MIN, i64::MAX));
                for (start, end) in runs.into_iter().chain(always) {
                    events.extend([(start, true, *who, *part), (end, false, *who, *part)]);
                }
            }
            events.sort_by_key(|event| (event.0, event.1, event.2));
            let steps = self.steps(events.into_iter());
            self.reaches.insert((set, outside), Holding { steps, base: Claim::Nobody });
        }
    }

    fn add(&mut self, key: &str, row: Option<usize>, part: f64) -> u32 {
        if let Some(who) = self.rows.get(key) {
            return *who;
        }
        let who = number(self.whos.len());
        self.whos.push(Who { key: key.to_owned(), row, part, runs: Vec::new() });
        self.rows.insert(key.to_owned(), who);
        who
    }

    fn hold(&mut self, base: Claim) -> u32 {
        self.holdings.push(Holding { steps: Vec::new(), base });
        number(self.holdings.len() - 1)
    }

    fn set(&mut self, mut parts: Vec<(u32, f64)>) -> Claim {
        parts.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let key: Vec<(u32, u64)> = parts.iter().map(|(who, part)| (*who, part.to_bits())).collect();
        let next = number(self.sets.len());
        let id = *self.set_ids.entry(key).or_insert(next);
        if id == next {
            self.sets.push(parts);
        }
        Claim::Set(id)
    }

    /// The claim that a sample's job name stands for; several names are separated by commas.
    pub(in crate::energy) fn named(&mut self, names: &str) -> Claim {
        let mut parts: Vec<(u32, f64)> = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let who = self.add(name, None, 1.0);
            let part = self.whos.get(who as usize).map_or(1.0, |who| who.part);
            if parts.iter().all(|(known, _)| *known != who) {
                parts.push((who, part));
            }
        }
        if parts.is_empty() {
            return Claim::Nobody;
        }
        let claim = self.set(parts);
        if let Claim::Set(set) = claim {
            self.reach(set);
        }
        claim
    }

    /// The claim of one listed job on whole devices.
    pub(in crate::energy) fn whole(&mut self, key: &str) -> Claim {
        let who = self.add(key, None, 1.0);
        self.set(vec![(who, 1.0)])
    }

    /// Place among holdings ([`Claims::held`]) of a device, by placements.
    pub(in crate::energy) fn unread(&self, node: Option<&str>, board: Option<&str>) -> u32 {
        let of_device =
            node.zip(board).and_then(|(node, board)| self.devices.get(&(node.to_owned(), board.to_owned())));
        let of_node = || node.and_then(|node| self.nodes.get(node));
        let place = of_device.or_else(of_node).or_else(|| self.vcs.get(self.node_vcs.get(node?)?));
        place.copied().unwrap_or(self.default)
    }

    /// Holders of a device.
    #[inline]
    pub(in crate::energy) fn held(&self, place: Option<u32>) -> Option<&Holding> {
        self.holdings.get(place? as usize)
    }

    fn place(&mut self, trace: &Trace, runs: &[Run], span: (i64, i64)) {
        let placements = &trace.placements;
        let (placed, per_run) = self.placed(trace, runs);
        for (name, vc) in (0..trace.nodes.len()).filter_map(|ix| trace.nodes.node.get(ix).zip(trace.nodes.vc.get(ix))) {
            self.node_vcs.insert(name.to_owned(), vc.to_owned());
        }
        let mut events: BTreeMap<(String, String), Vec<Event>> = BTreeMap::new();
        let mut of_nodes: BTreeMap<String, BTreeMap<i64, Shares>> = BTreeMap::new();
        for (run, ix) in placed {
            let (Some(node), Some(who)) = (placements.node.get(ix), self.who(trace, run.0)) else { continue };
            let given = placements.gpus.get(ix).filter(|gpus| *gpus > 0.0);
            let ids: BTreeSet<&str> = (placements.gpu_ids.get(ix).unwrap_or_default().split(','))
                .map(|id| board(id.trim()))
                .filter(|id| !id.is_empty())
                .collect();
            if ids.is_empty() {
                let nodes = per_run.get(&(run.0, run.1)).copied().unwrap_or(1);
                let Some(gpus) = given.or(run.4.map(|gpus| gpus / f64::from(nodes))) else { continue };
                share(of_nodes.entry(node.to_owned()).or_default(), who, run, gpus, span);
                continue;
            }
            let part = given.map_or(1.0, |gpus| (gpus / ids.len() as f64).min(1.0));
            for id in ids {
                let of_gpu = events.entry((node.to_owned(), id.to_owned())).or_default();
                of_gpu.push((run.2, true, who, part));
                of_gpu.push((run.3, false, who, part));
            }
        }
        let known_vcs: BTreeSet<&String> = self.node_vcs.values().collect();
        let mut of_vcs: BTreeMap<String, BTreeMap<i64, Shares>> = BTreeMap::new();
        let mut of_all: BTreeMap<i64, Shares> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.2 < span.1 && run.3 > span.0) {
            let (Some(who), Some(gpus)) = (self.who(trace, run.0), run.4.filter(|gpus| *gpus > 0.0)) else { continue };
            self.unplaced.1 += 1;
            if per_run.contains_key(&(run.0, run.1)) {
                continue;
            }
            self.unplaced.0 += 1;
            let vc = trace.jobs.vc.get(run.0).filter(|vc| known_vcs.iter().any(|known| known == vc));
            let pool = vc.map_or(&mut of_all, |vc| of_vcs.entry(vc.to_owned()).or_default());
            share(pool, who, run, gpus, span);
        }
        if self.labelled {
            // Samples say which devices a job without a placement holds: it has no part of a pool.
            // All runs count and not those of the window alone, whose last moment a stream and a table do not see alike.
            let with_gpus = |run: &&Run| run.4.is_some_and(|gpus| gpus > 0.0);
            let placed = runs.iter().filter(with_gpus).all(|run| per_run.contains_key(&(run.0, run.1)));
            self.default = self.hold(if placed { Claim::Nobody } else { Claim::Unknown });
            self.unplaced = (0, 0);
        } else {
            self.default = self.pool(of_all);
            for (vc, hours) in of_vcs {
                let place = self.pool(hours);
                self.vcs.insert(vc, place);
            }
        }
        for (node, hours) in of_nodes {
            let place = self.pool(hours);
            self.nodes.insert(node, place);
        }
        for ((node, id), mut of_gpu) in events {
            // Ends before starts, so that a job that follows another at once does not share with it.
            of_gpu.sort_by_key(|a| (a.0, a.1, a.2));
            let base = self.held(Some(self.unread(Some(&node), None))).map_or(Claim::Nobody, |holding| holding.base);
            let steps = self.steps(of_gpu.into_iter());
            self.holdings.push(Holding { steps, base });
            self.devices.insert((node, id), number(self.holdings.len() - 1));
        }
    }

    /// Finds the holders of whole nodes: nodes of `wanted` that placements name, or whose GPUs jobs
    /// of a pool hold. `wanted` has the nodes' GPUs by the inventory; without, a node has the most
    /// that were held at a time. O(placements log placements).
    pub(in crate::energy) fn nodes_held(
        &mut self,
        trace: &Trace,
        wanted: &BTreeMap<String, Option<f64>>,
    ) -> BTreeMap<String, NodeHeld> {
        let mut result = BTreeMap::new();
        if wanted.is_empty() || self.whos.is_empty() {
            return result;
        }
        let facts = JobFacts::new(trace);
        let runs = runs(trace, &facts);
        let placements = &trace.placements;
        let (placed, per_run) = self.placed(trace, &runs);
        let mut events: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
        for (run, ix) in placed {
            let Some(node) = placements.node.get(ix).filter(|node| wanted.contains_key(*node)) else { continue };
            let Some(who) = self.who(trace, run.0) else { continue };
            let ids =
                placements.gpu_ids.get(ix).map_or(0, |ids| ids.split(',').filter(|id| !id.trim().is_empty()).count());
            let nodes = f64::from(per_run.get(&(run.0, run.1)).copied().unwrap_or(1));
            let given = placements.gpus.get(ix).or((ids > 0).then_some(ids as f64)).or(run.4.map(|gpus| gpus / nodes));
            let Some(gpus) = given.filter(|gpus| *gpus > 0.0) else { continue };
            let of_node = events.entry(node).or_default();
            of_node.push((run.2, true, who, gpus));
            of_node.push((run.3, false, who, gpus));
        }
        for (node, mut of_node) in events {
            of_node.sort_by_key(|event| (event.0, event.1, event.2));
            let mut most = 0.0_f64;
            let mut sum = 0.0;
            for (_, starts, _, gpus) in &of_node {
                sum += if *starts { *gpus } else { -*gpus };
                most = most.max(sum);
            }
            let listed = wanted.get(node).copied().flatten();
            let gpus = listed.unwrap_or(most).max(f64::MIN_POSITIVE);
            let steps = self.steps(of_node.into_iter().map(|(at, starts, who, held)| (at, starts, who, held / gpus)));
            self.holdings.push(Holding { steps, base: Claim::Nobody });
            let holding = number(self.holdings.len() - 1);
            result.insert(node.to_owned(), NodeHeld { holding, gpus, is_listed: listed.is_some() });
        }
        for (node, gpus) in wanted {
            let holding = self.unread(Some(node), None);
            let pooled = self.held(Some(holding)).is_some_and(|holding| matches!(holding.base, Claim::Pool(_)));
            if let (Some(gpus), true, false) = (gpus, pooled, result.contains_key(node)) {
                result.insert(node.clone(), NodeHeld { holding, gpus: *gpus, is_listed: true });
            }
        }
        result
    }

    /// Holders of a device, step by step. `events` are in order of time, ends before starts.
    fn steps(&mut self, events: impl Iterator<Item = Event>) -> Vec<(i64, Claim)> {
        let mut now: Vec<(u32, f64)> = Vec::new();
        let mut steps: Vec<(i64, Claim)> = Vec::new();
        for (at, starts, who, part) in events {
            if starts {
                now.push((who, part));
            } else if let Some(place) = now.iter().position(|held| *held == (who, part)) {
                now.swap_remove(place);
            }
            let claim = if now.is_empty() { Claim::Nobody } else { self.set(now.clone()) };
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = claim,
                _ => steps.push((at, claim)),
            }
        }
        steps
    }

    /// Placements of known runs, each with its row, and how many nodes each run has.
    #[allow(clippy::type_complexity)] // two lists, each read once
    fn placed<'r>(
        &self,
        trace: &Trace,
        runs: &'r [Run],
    ) -> (Vec<(&'r Run, usize)>, HashMap<(usize, Option<i64>), u32>) {
        let placements = &trace.placements;
        let mut of_run: HashMap<(usize, Option<i64>), &Run> = HashMap::new();
        let mut of_job: HashMap<usize, Vec<&Run>> = HashMap::new();
        for run in runs {
            of_run.insert((run.0, run.1), run);
            of_job.entry(run.0).or_default().push(run);
        }
        let mut per_run: HashMap<(usize, Option<i64>), u32> = HashMap::new();
        let mut placed: Vec<(&Run, usize)> = Vec::new();
        for ix in 0..placements.len() {
            let who = placements.job_key.get(ix).and_then(|key| self.rows.get(key));
            let Some(job) = who.and_then(|who| self.whos.get(*who as usize)?.row) else { continue };
            // A job of one attempt needs no number.
            let alone = || of_job.get(&job).and_then(|runs| if runs.len() == 1 { runs.first() } else { None });
            let Some(run) = of_run.get(&(job, placements.attempt.get(ix))).or_else(alone) else { continue };
            if placements.node.get(ix).is_some() {
                *per_run.entry((run.0, run.1)).or_default() += 1;
                placed.push((run, ix));
            }
        }
        (placed, per_run)
    }

    fn who(&self, trace: &Trace, job: usize) -> Option<u32> {
        self.rows.get(trace.jobs.job_key.get(job)?).copied()
    }

    /// A pool of these jobs; without any, its devices are nobody's.
    fn pool(&mut self, hours: BTreeMap<i64, Shares>) -> u32 {
        if hours.is_empty() {
            return self.hold(Claim::Nobody);
        }
        self.pools.push(hours);
        self.hold(Claim::Pool(number(self.pools.len() - 1)))
    }
}

fn number(place: usize) -> u32 {
    // Four billion jobs do not fit in memory long before this saturates.
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Every attempt with a start; one that still runs ends at the end of time.
fn runs(trace: &Trace, facts: &JobFacts<'_>) -> Vec<Run> {
    let attempts = &trace.attempts;
    let rows: HashMap<&str, usize> =
        (0..trace.jobs.len()).filter_map(|job| Some((trace.jobs.job_key.get(job)?, job))).collect();
    let mut attempted = BTreeSet::new();
    let mut runs: Vec<Run> = Vec::new();
    for ix in 0..attempts.len() {
        let Some(job) = attempts.job_key.get(ix).and_then(|key| rows.get(key)) else { continue };
        attempted.insert(*job);
        let open = attempts.censored.get(ix) == Some(1);
        let end = attempts.end.get(ix).or(if open { Some(i64::MAX) } else { None });
        let gpus = attempts.alloc_gpus.get(ix).or_else(|| facts.gpus(*job));
        if let Some((start, end)) = attempts.start.get(ix).zip(end).filter(|(start, end)| start < end) {
            runs.push((*job, attempts.attempt.get(ix), start, end, gpus));
        }
    }
    for stretch in facts.stretches.iter().filter(|stretch| !attempted.contains(&stretch.job)) {
        let end = if facts.is_censored(stretch.job) { i64::MAX } else { stretch.end };
        runs.push((stretch.job, None, stretch.start, end, Some(stretch.gpus)));
    }
    let stretched: BTreeSet<usize> = facts.stretches.iter().map(|stretch| stretch.job).collect();
    for job in (0..trace.jobs.len()).filter(|job| !attempted.contains(job) && !stretched.contains(job)) {
        let open = facts.is_censored(job);
        let end = trace.jobs.end.get(job).or(if open { Some(i64::MAX) } else { None });
        if let Some((start, end)) = trace.jobs.start.get(job).zip(end) {
            runs.push((job, None, start, end, facts.gpus(job)));
        }
    }
    runs.retain(|run| run.2 < run.3);
    runs
}

/// Adds a run's GPU time to the hours it covers within `span`.
fn share(hours: &mut BTreeMap<i64, Shares>, who: u32, run: &Run, gpus: f64, span: (i64, i64)) {
    let (mut from, to) = (run.2.max(span.0), run.3.min(span.1));
    while from < to {
        let hour = from.div_euclid(HOUR_MS) * HOUR_MS;
        let until = to.min(hour + HOUR_MS);
        *hours.entry(hour).or_default().entry(who).or_default() += gpus * (until - from) as f64 / 1_000.0;
        from = until;
    }
}
