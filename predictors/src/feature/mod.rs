//! Point-in-time features: what was known of a job, and of the cluster's past, at the moment it was submitted.
//!
//! A [`Store`] is told what happens, in order of time, and gives the features of a submission from that alone: it cannot know what comes
//! later, as it has not been told. The same store serves the back-test, which plays a trace to it, and the server, which is posted to.
//! A job that has ended is an observation; one that runs is a censored one, and its age is a feature. Jobs are grouped by
//! user × name stem, user × GPUs, user, VC × GPUs, VC, and all; each group gives the features of `group`, the group user × VC × GPUs those
//! of `phase`; where jobs have time limits, there is one more group, user × limit (VC × limit without users), and what `limit` says of the shares of
//! limits that jobs used. A user's new name stands in for the most similar of the user's last 64 names, if at least half alike ([`name`]).
//!
//! Counts that only ever grow are no features: trees take them for a calendar, and a calendar does not repeat.
//!
//! Playing a trace of n jobs costs O(n log n), memory is bounded by the groups and the open jobs. Worked example: user `ann` submits
//! `train_7` after `train_6` ran 100 s: `user_name.last_1` is log 100 = 4.61, and `name_likeness` 1.

mod group;
mod limit;
pub mod name;
mod phase;

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::job::Submission;
use group::Group;
use limit::Shares;
use phase::Phase;

/// Names remembered a user.
const NAMES: usize = 64;
/// Limits on what a bounded store keeps ([`Store::bound`]).
#[derive(Debug, Clone, Copy)]
struct Most {
    /// Groups, and phases.
    groups: usize,
    /// Users with names.
    users: usize,
    /// Texts that tell groups apart.
    texts: usize,
}

const MOST: Most = Most { groups: 250_000, users: 20_000, texts: 500_000 };
/// Names at least so alike stand in for each other.
const ALIKE: f64 = 0.5;
/// Features of the job itself.
const OWN: [&str; 7] = ["gpus", "cpus", "log_limit", "hour", "weekday", "name_likeness", "user_known"];

/// Jobs by whose weight a group's mean is pulled towards that of the wider group.
const SHRINK: f64 = 10.0;

/// Summary of earlier jobs for a submission, without any model; `None` where no job has ended yet.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Past {
    /// Mean log run of all ended jobs of its VC and size (of its VC, of all, where there is none).
    pub running_mean: Option<f64>,
    /// Mean log run of these jobs, each weighing ¹⁹⁄₂₀ of the next.
    pub weighted_mean: Option<f64>,
    /// Mean log run by user, name, size and VC, each shrunk towards the wider group.
    pub shrunk_mean: Option<f64>,
    /// Median log run of the last 30 of the most particular group with at least three.
    pub median: Option<f64>,
    /// Mean run of the most particular group, seconds: the rolling estimate of QSSF.
    pub mean_s: Option<f64>,
    /// Log of its own time limit; `None` if it has none.
    pub log_limit: Option<f64>,
}

/// Keys that jobs are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The user's jobs of that name.
    UserName,
    /// The user's jobs of that size.
    UserGpus,
    /// The user's jobs of that time limit; the VC's, where users are not known.
    Limit,
    /// The user's jobs.
    User,
    /// The VC's jobs of that size.
    VcGpus,
    /// The VC's jobs.
    Vc,
    /// All jobs.
    All,
}

impl Level {
    /// All levels, the most particular first.
    pub const ALL: [Self; 7] =
        [Self::UserName, Self::UserGpus, Self::Limit, Self::User, Self::VcGpus, Self::Vc, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::UserName => "user_name",
            Self::UserGpus => "user_gpus",
            Self::Limit => "limit",
            Self::User => "user",
            Self::VcGpus => "vc_gpus",
            Self::Vc => "vc",
            Self::All => "all",
        }
    }
}

/// Facts of jobs known at submission, which decide the groups there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Known {
    /// Whether users are known.
    pub user: bool,
    /// Whether job names are known.
    pub name: bool,
    /// Whether VCs are known.
    pub vc: bool,
    /// Whether time limits are known.
    #[serde(default)]
    pub limit: bool,
}

impl Known {
    fn levels(self) -> Vec<Level> {
        let there = |level: &Level| match level {
            Level::UserName => self.user && self.name,
            Level::UserGpus | Level::User => self.user,
            Level::Vc => self.vc,
            Level::Limit => self.limit,
            // Without VCs, all are one.
            Level::VcGpus | Level::All => true,
        };
        Level::ALL.into_iter().filter(there).collect()
    }
}

/// Amount of history of jobs like one, for reports and calibration by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// No job of the most particular group has ended.
    None,
    /// One to nine jobs of it have ended.
    Few,
    /// Ten or more have.
    Many,
}

impl History {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::None, Self::Few, Self::Many];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no like job has ended",
            Self::Few => "1 to 9 have",
            Self::Many => "10 or more have",
        }
    }
}

/// Group of a level: the level and the codes that tell its groups apart.
type Key = (Level, u32, u32);

/// A code that stands for an unknown text.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Open {
    submit_ms: i64,
    start_ms: Option<i64>,
    groups: Vec<u32>,
    phase: u32,
    user: u32,
    log_limit: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Names {
    recent: VecDeque<(u32, Vec<u32>)>,
}

/// A map as pairs in order of key: JSON has text keys only, and bytes must not depend on the order of a hash.
pub(crate) mod pairs {
    use std::collections::HashMap;
    use std::hash::Hash;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Ord + Serialize, V: Serialize, S: Serializer>(
        map: &HashMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut pairs: Vec<(&K, &V)> = map.iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(b.0));
        pairs.serialize(to)
    }

    pub(crate) fn deserialize<'de, K, V, D>(from: D) -> Result<HashMap<K, V>, D::Error>
    where
        K: Eq + Hash + Deserialize<'de>,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

/// The features of submissions, from what was told before.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Store {
    known: Known,
    levels: Vec<Level>,
    #[serde(with = "pairs")]
    codes: HashMap<String, u32>,
    #[serde(with = "pairs")]
    index: HashMap<Key, u32>,
    groups: Vec<Group>,
    #[serde(with = "pairs")]
    phase_index: HashMap<(u32, u32, u32), u32>,
    phases: Vec<Phase>,
    #[serde(with = "pairs")]
    names: HashMap<u32, Names>,
    /// Shares of limits used, by user, and of all jobs.
    #[serde(with = "pairs", default)]
    shares: HashMap<u32, Shares>,
    #[serde(default)]
    all_shares: Shares,
    #[serde(with = "pairs")]
    open: HashMap<u64, Open>,
    jobs: u64,
    /// Limits on what the store keeps.
    #[serde(skip)]
    most: Option<Most>,
}

/// The groups a submission belongs to, where they exist.
struct Places {
    /// Group of each level, in the order of the store's levels.
    groups: Vec<Option<u32>>,
    user: u32,
    phase: Option<u32>,
    likeness: f64,
    user_known: bool,
}

/// Codes that identify the groups of a job.
#[derive(Debug, Clone, Copy)]
struct Codes {
    user: u32,
    stem: u32,
    vc: u32,
    gpus: u32,
    limit: u32,
}

impl Store {
    /// An empty store for jobs of which so much is known.
    pub fn new(known: Known) -> Self {
        Self {
            known,
            levels: known.levels(),
            codes: HashMap::new(),
            index: HashMap::new(),
            groups: Vec::new(),
            phase_index: HashMap::new(),
            phases: Vec::new(),
            names: HashMap::new(),
            shares: HashMap::new(),
            all_shares: Shares::default(),
            open: HashMap::new(),
            jobs: 0,
            most: None,
        }
    }

    /// Bounds the store from now on to 250,000 groups and as many clocks (some 5 KB and 1 KB each),
    /// 500,000 texts, and the names of 20,000 users (some 20 KB each): 2 GB at the most, whatever
    /// it is told. Jobs of what is new beyond that are learnt in the wider groups that exist. For a
    /// store that strangers feed; a trace is as large as it is.
    pub fn bound(&mut self) {
        self.most = Some(MOST);
    }

    /// Facts of jobs known at submission.
    pub fn known(&self) -> Known {
        self.known
    }

    /// Names of the features, in order.
    pub fn columns(&self) -> Vec<String> {
        let plain = OWN.into_iter().map(str::to_owned);
        let clock = phase::COLUMNS.into_iter().map(|column| format!("clock.{column}"));
        let levels = self
            .levels
            .iter()
            .flat_map(|level| group::COLUMNS.into_iter().map(|column| format!("{}.{column}", level.name())));
        let shares = ["user", "all"]
            .into_iter()
            .filter(|_| self.known.limit)
            .flat_map(|whose| limit::COLUMNS.into_iter().map(move |column| format!("limit_used_{whose}.{column}")));
        plain.chain(clock).chain(levels).chain(shares).collect()
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        let shares = if self.known.limit { 2 * limit::COLUMNS.len() } else { 0 };
        OWN.len() + phase::COLUMNS.len() + self.levels.len() * group::COLUMNS.len() + shares
    }

    fn code(&self, text: Option<&str>) -> u32 {
        text.and_then(|text| self.codes.get(text)).copied().unwrap_or(UNKNOWN)
    }

    fn code_for(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return UNKNOWN };
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        if self.most.is_some_and(|most| self.codes.len() >= most.texts) {
            return UNKNOWN;
        }
        let code = self.codes.len() as u32;
        self.codes.insert(text.to_owned(), code);
        code
    }

    /// Texts of a job that tell groups apart; those of which nothing is known are left out.
    fn texts(&self, job: &Submission) -> (Option<String>, Option<String>, Option<String>) {
        let user = job.user.as_deref().filter(|_| self.known.user).map(|user| format!("u:{user}"));
        let stem = job.name.as_deref().filter(|_| self.known.name).map(|name| format!("n:{}", name::stem(name)));
        let vc = job.vc.as_deref().filter(|_| self.known.vc).map(|vc| format!("v:{vc}"));
        (user, stem, vc)
    }

    /// Codes that tell the groups of a level apart.
    fn key(level: Level, codes: Codes) -> Key {
        let Codes { user, stem, vc, gpus, limit } = codes;
        match level {
            Level::UserName => (level, user, stem),
            Level::UserGpus => (level, user, gpus),
            // Both are codes of texts that no user and VC share.
            Level::Limit => (level, if user == UNKNOWN { vc } else { user }, limit),
            Level::User => (level, user, 0),
            Level::VcGpus => (level, vc, gpus),
            Level::Vc => (level, vc, 0),
            Level::All => (level, 0, 0),
        }
    }

    fn places(&self, job: &Submission) -> Places {
        let (user, stem, vc) = self.texts(job);
        let (user, code, vc) = (self.code(user.as_deref()), self.code(stem.as_deref()), self.code(vc.as_deref()));
        let (gpus, limit) = (size(job), whole_limit(job));
        let mut likeness = f64::NAN;
        let mut stand_in = code;
        if let (Some(stem), Some(names)) = (stem.as_deref(), self.names.get(&user)) {
            if self.index.contains_key(&(Level::UserName, user, code)) {
                likeness = 1.0;
            } else {
                let stem_triples = name::triples(stem.get(2..).unwrap_or_default());
                likeness = 0.0;
                // The last of equals.
                for (other, triples) in &names.recent {
                    let alike = name::likeness(&stem_triples, triples);
                    if alike >= likeness {
                        likeness = alike;
                        if alike >= ALIKE {
                            stand_in = *other;
                        }
                    }
                }
            }
        }
        let codes = Codes { user, stem: stand_in, vc, gpus, limit };
        let find = |level: &Level| self.index.get(&Self::key(*level, codes)).copied();
        Places {
            user,
            groups: self.levels.iter().map(find).collect(),
            phase: self.phase_index.get(&(user, vc, gpus)).copied(),
            likeness,
            user_known: self.index.contains_key(&(Level::User, user, 0)),
        }
    }

    /// Features of a submission at `now_ms`, into a row of [`Store::width`] cells; NaN is unknown.
    pub fn features(&self, job: &Submission, now_ms: i64, row: &mut [f32]) {
        row.fill(f32::NAN);
        let places = self.places(job);
        let (plain, rest) = row.split_at_mut(OWN.len().min(row.len()));
        let at = Timestamp::from_millisecond(now_ms).unwrap_or_default().to_zoned(TimeZone::UTC);
        let values = [
            job.gpus as f32,
            job.cpus.map_or(f32::NAN, |cpus| cpus as f32),
            job.limit_s.filter(|limit| *limit > 0.0).map_or(f32::NAN, |limit| limit.ln() as f32),
            f32::from(at.hour()) + f32::from(at.minute()) / 60.0,
            f32::from(at.weekday().to_monday_zero_offset()),
            places.likeness as f32,
            if self.known.user { f32::from(u8::from(places.user_known)) } else { f32::NAN },
        ];
        for (cell, value) in plain.iter_mut().zip(values) {
            // Learners take no infinity.
            *cell = if value.is_finite() { value } else { f32::NAN };
        }
        let (clock, levels) = rest.split_at_mut(phase::COLUMNS.len().min(rest.len()));
        if let Some(phase) = places.phase.and_then(|phase| self.phases.get(phase as usize)) {
            phase.features(now_ms, clock);
        }
        let (levels, shares) = levels.split_at_mut((self.levels.len() * group::COLUMNS.len()).min(levels.len()));
        for (place, cells) in places.groups.iter().zip(levels.chunks_mut(group::COLUMNS.len())) {
            if let Some(group) = place.and_then(|place| self.groups.get(place as usize)) {
                group.features(now_ms, cells);
            }
        }
        if let Some(log_limit) = log_limit(job) {
            let whose = [self.shares.get(&places.user), Some(&self.all_shares)];
            for (shares, cells) in whose.into_iter().zip(shares.chunks_mut(limit::COLUMNS.len())) {
                if let Some(shares) = shares {
                    shares.features(log_limit as f32, cells);
                }
            }
        }
    }

    /// Means and medians of earlier jobs for a submission, without any model.
    pub fn past(&self, job: &Submission) -> Past {
        let places = self.places(job);
        let mut past = Past { log_limit: log_limit(job), ..Past::default() };
        // From all jobs to the most particular group: each mean is pulled towards the wider one as if by ten jobs more.
        for (level, place) in self.levels.iter().zip(&places.groups).rev() {
            let Some(group) = place.and_then(|place| self.groups.get(place as usize)) else { continue };
            let (Some(mean), Some(mean_s), Some(recent), Some(median)) =
                (group.mean(), group.mean_s(), group.recent_mean(), group.median())
            else {
                continue;
            };
            let count = group.count as f64;
            let wider = past.shrunk_mean.unwrap_or(mean);
            past.shrunk_mean = Some((count * mean + SHRINK * wider) / (count + SHRINK));
            if group.count >= 3 || past.median.is_none() {
                past.median = Some(median);
            }
            past.mean_s = Some(mean_s);
            // The most particular of VC × GPUs, VC and all.
            if matches!(level, Level::VcGpus | Level::Vc | Level::All) {
                past.running_mean = Some(mean);
                past.weighted_mean = Some(recent);
            }
        }
        past
    }

    /// Amount of history of jobs like this one.
    pub fn history(&self, job: &Submission) -> History {
        let places = self.places(job);
        let particular = |level: &&Level| !matches!(level, Level::User | Level::UserGpus | Level::Limit);
        // By user and name where there are names, else by VC and size.
        let at = if self.known.user && !self.known.name {
            self.levels.iter().position(|level| *level == Level::UserGpus)
        } else {
            self.levels.iter().position(|level| particular(&level))
        };
        let place = at.and_then(|at| places.groups.get(at).copied().flatten());
        match place.and_then(|place| self.groups.get(place as usize)).map_or(0, |group| group.count) {
            0 => History::None,
            1..10 => History::Few,
            _ => History::Many,
        }
    }

    /// Records a submitted job; returns the number it is known by from now on. O(levels) and the
    /// length of its texts.
    pub fn submit(&mut self, job: &Submission) -> u64 {
        let number = self.jobs;
        self.jobs += 1;
        let (user, stem, vc) = self.texts(job);
        let user = self.code_for(user.as_deref());
        let code = self.code_for(stem.as_deref());
        let vc = self.code_for(vc.as_deref());
        let gpus = size(job);
        let codes = Codes { user, stem: code, vc, gpus, limit: whole_limit(job) };
        let named = self.most.is_none_or(|most| self.names.len() < most.users) || self.names.contains_key(&user);
        if let Some(stem) = stem.as_deref().filter(|_| user != UNKNOWN && code != UNKNOWN && named) {
            let recent = &mut self.names.entry(user).or_default().recent;
            if !recent.iter().any(|(other, _)| *other == code) {
                if recent.len() == NAMES {
                    recent.pop_front();
                }
                recent.push_back((code, name::triples(stem.get(2..).unwrap_or_default())));
            }
        }
        let mut groups = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let (_, one, other) = Self::key(*level, codes);
            // A job of an unknown user is of no user's group.
            let unknown = matches!(level, Level::UserName | Level::UserGpus | Level::User) && user == UNKNOWN
                || *level == Level::UserName && code == UNKNOWN
                || *level == Level::Limit && codes.limit == UNKNOWN;
            if unknown {
                continue;
            }
            let next = self.groups.len() as u32;
            let full = self.most.is_some_and(|most| self.groups.len() >= most.groups);
            if full && !self.index.contains_key(&(*level, one, other)) {
                continue;
            }
            let place = *self.index.entry((*level, one, other)).or_insert(next);
            if place == next {
                self.groups.push(Group::default());
            }
            if let Some(group) = self.groups.get_mut(place as usize) {
                group.submit(number, job.submit_ms);
            }
            groups.push(place);
        }
        let next = self.phases.len() as u32;
        let full = self.most.is_some_and(|most| self.phases.len() >= most.groups);
        let phase = match self.phase_index.get(&(user, vc, gpus)) {
            Some(phase) => *phase,
            None if full => u32::MAX,
            None => *self.phase_index.entry((user, vc, gpus)).or_insert(next),
        };
        if phase == next {
            self.phases.push(Phase::default());
        }
        if let Some(phase) = self.phases.get_mut(phase as usize) {
            phase.submit(number, job.submit_ms);
        }
        self.open.insert(
            number,
            Open { submit_ms: job.submit_ms, start_ms: None, groups, phase, user, log_limit: log_limit(job) },
        );
        number
    }

    /// Records the start of a job. Returns whether it was open and had not started.
    pub fn start(&mut self, job: u64, start_ms: i64) -> bool {
        let Some(open) = self.open.get_mut(&job).filter(|open| open.start_ms.is_none()) else { return false };
        open.start_ms = Some(start_ms);
        for place in &open.groups {
            if let Some(group) = self.groups.get_mut(*place as usize) {
                group.start(job, start_ms);
            }
        }
        if let Some(phase) = self.phases.get_mut(open.phase as usize) {
            phase.start(job, start_ms);
        }
        true
    }

    /// Start of an open job; `None` if it is not open or waits.
    pub fn started(&self, job: u64) -> Option<i64> {
        self.open.get(&job).and_then(|open| open.start_ms)
    }

    /// Records the end of a job after a run of `run_s` seconds (`None` if it never ran). Returns
    /// whether it was open.
    pub fn end(&mut self, job: u64, end_ms: i64, run_s: Option<f64>, failed: bool) -> bool {
        let Some(open) = self.open.remove(&job) else { return false };
        let y = run_s.map(log_run);
        for place in &open.groups {
            if let Some(group) = self.groups.get_mut(*place as usize) {
                group.end(job, end_ms, y, failed);
            }
        }
        if let (Some(phase), Some(y)) = (self.phases.get_mut(open.phase as usize), y) {
            phase.end(job, open.submit_ms, end_ms, y);
        }
        if let (true, Some(log_limit), Some(y)) = (self.known.limit, open.log_limit, y) {
            if open.user != UNKNOWN
                && (self.most.is_none_or(|most| self.shares.len() < most.users) || self.shares.contains_key(&open.user))
            {
                self.shares.entry(open.user).or_default().learn(y, log_limit);
            }
            self.all_shares.learn(y, log_limit);
        }
        true
    }
}

/// The log of a run, at least one second: below, the clock tells runs no better apart.
pub fn log_run(run_s: f64) -> f64 {
    run_s.max(1.0).ln()
}

/// Log of a job's time limit, if it has one.
pub fn log_limit(job: &Submission) -> Option<f64> {
    job.limit_s.filter(|limit| limit.is_finite() && *limit > 0.0).map(log_run)
}

/// A time limit as a code, in whole seconds.
fn whole_limit(job: &Submission) -> u32 {
    job.limit_s
        .filter(|limit| limit.is_finite() && *limit > 0.0)
        .map_or(UNKNOWN, |limit| limit.round().clamp(0.0, 4e9) as u32)
}

/// Size of a job as a code: its GPUs, or its CPUs if it asks for none.
fn size(job: &Submission) -> u32 {
    const CPUS: u32 = 1 << 31;
    match job.cpus {
        Some(cpus) if job.gpus <= 0.0 && cpus > 0.0 => CPUS | milli(cpus).min(CPUS - 1),
        _ => milli(job.gpus),
    }
}

/// An amount as a code, in thousandths.
fn milli(gpus: f64) -> u32 {
    (gpus * 1000.0).round().clamp(0.0, 4e9) as u32
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
