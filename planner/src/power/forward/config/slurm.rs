//! Slurm's power saving: what a plan changes in the user's `slurm.conf`, and the programs that it names.
//!
//! | plan | `slurm.conf` |
//! |---|---|
//! | `idle_s` | `SuspendTime`, for the cluster where all pools agree and nothing else is in it, else a partition (21.08 and later) |
//! | `boot_s` | `ResumeTimeout`: twice the boot, at least a minute more; a node that needs longer is set down and its jobs are queued again |
//! | `shutdown_s` | `SuspendTimeout`: a fifth more, at least 30 s; before it is over, the node is not woken |
//! | `sleeps_per_minute`, `wakes_per_minute` | `SuspendRate`, `ResumeRate`; 0 is no limit for both |
//! | `keep_idle` | `SuspendExcNodes=set:N`: Slurm leaves N idle nodes of the set powered |
//! | `canaries` | `SuspendExcNodes=set`, behind the sets with a number |
//!
//! Sources: `slurm.conf(5)` of 22.05.8 and `src/slurmctld/power_save.c`, of which two forms are understood: up to 22.05 everything before the colon
//! is one set and a number above its size spoils the whole list; from 23.02 on the list is cut at every comma. `SuspendExcStates`, and
//! `scontrol update SuspendExcNodes=`, came with 23.02. What cannot be told from the text (files that it includes, the version) is a warning.
//!
//! Nodes outside the pools never begin to sleep because of the plan: where the cluster's `SuspendTime` has to be set for all, they are excluded.
//! Settings of the user that are at least as patient as the plan needs are kept. Rendering again what was rendered changes nothing.
//! O(n log n) in the text and the nodes.
//!
//! Worked number: boot 300 s, shutdown 60 s: `ResumeTimeout=600` (2 × 300 > 300 + 60), `SuspendTimeout=72` (60 + 12).

mod exclude;

use std::collections::BTreeSet;

use tracecast_analytics::report::quote::is_slurm_value;

use super::{Rendered, refuse};
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::emit::own::{Changes, patch, path_of};
use crate::plan::emit::slurm::hosts::{Nodes, expand, fold};
use crate::plan::emit::slurm::{Conf, ConfPair};
use crate::power::forward::plan::{PoolPlan, PowerPlan};

/// A version of Slurm: `22.05` is year 22, month 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Year of the release, two digits.
    pub year: u16,
    /// Month of the release.
    pub month: u16,
}

impl Version {
    /// Reads `22.05`, `22.05.8` and what `sinfo --version` says: `slurm-wlm 22.05.8`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.split_whitespace().last()?;
        let mut parts = number.split('.');
        let digits = |part: Option<&str>| -> Option<u16> {
            let part = part?;
            (part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
        };
        let (year, month) = (digits(parts.next())?, digits(parts.next())?);
        (1..=12).contains(&month).then_some(Self { year, month })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}.{:02}", self.year, self.month)
    }
}

/// The version that is assumed where none is known: the oldest whose manual has `SuspendExcNodes=set:N` as written here.
const ASSUMED: Version = Version { year: 22, month: 5 };
/// Partitions have their own times.
const PARTITION_TIMES: Version = Version { year: 21, month: 8 };
/// `SuspendExcNodes=set:N` is as its manual says.
const COUNTS: Version = Version { year: 22, month: 5 };
/// `SuspendExcNodes` is cut at every comma, and there is `SuspendExcStates`.
const EACH_COMMA: Version = Version { year: 23, month: 2 };
/// Longest timeout and highest rate: Slurm keeps them in 16 bits, of which the last two values mean "none".
const MOST: u32 = 65_533;
/// What is written above new settings.
const NOTE: &str = "Power saving, planned by tracecast";
/// Steps that the patch alone does not do.
const STEPS: &str =
    "Before that, the programs it names have to be where it says. Power saving begins with a restart of slurmctld.";

/// Facts on the site's Slurm.
#[derive(Debug, Clone)]
pub struct SlurmOptions {
    /// The text of its `slurm.conf`.
    pub conf: String,
    /// Name of that file, for the diff and for messages.
    pub conf_name: String,
    /// Version of Slurm; `None`: at least what the settings in the file need, else 22.05.
    pub version: Option<Version>,
    /// `ResumeTimeout`, seconds; `None`: twice the boot time, at least a minute more than it.
    pub resume_timeout_s: Option<u32>,
    /// `SuspendTimeout`, seconds; `None`: a fifth more than the shutdown time, at least 30 s.
    pub suspend_timeout_s: Option<u32>,
    /// Folder in which the site puts the programs that are written beside the fragment.
    pub programs_dir: String,
    /// States in which nodes are not put to sleep (23.02 and later).
    pub exc_states: Vec<String>,
}

impl Default for SlurmOptions {
    fn default() -> Self {
        Self {
            conf: String::new(),
            conf_name: "slurm.conf".to_owned(),
            version: None,
            resume_timeout_s: None,
            suspend_timeout_s: None,
            programs_dir: "/etc/slurm/power".to_owned(),
            // A node under repair must not be switched off under the hands of those who repair it; a planned one is about to get a job.
            exc_states: ["DOWN", "DRAIN", "FAIL", "MAINTENANCE", "PLANNED"].map(str::to_owned).to_vec(),
        }
    }
}

/// A partition of the file.
struct Partition {
    /// Index among the lines of partitions, which other lines do not shift.
    line: usize,
    name: String,
    /// `None` where they cannot be told from this file.
    nodes: Option<Nodes>,
}

/// A pool and its nodes.
struct Pool<'a> {
    plan: &'a PoolPlan,
    nodes: Nodes,
    idle_s: u32,
}

/// Working state: files, options and findings.
struct Work<'a> {
    /// The file as it is to be.
    conf: Conf,
    /// The file as it was, to which reported line numbers refer.
    original: Conf,
    options: &'a SlurmOptions,
    version: Version,
    /// All nodes of the file.
    nodes: Nodes,
    partitions: Vec<Partition>,
    pools: Vec<Pool<'a>>,
    /// Nodes outside the pools that would begin to sleep.
    outside: Nodes,
    warnings: Vec<String>,
    /// What becomes of what in the file.
    changes: Changes,
}

/// A value of a pair of a record.
fn value<'a>(pairs: &'a [ConfPair], key: &str) -> Option<&'a str> {
    pairs.iter().rfind(|pair| pair.is(key)).map(|pair| pair.value.as_str())
}

/// The lines of partitions, by their place among these.
fn partition_lines(conf: &Conf) -> impl Iterator<Item = (usize, &[ConfPair])> {
    conf.records("PartitionName").map(|(_, pairs)| pairs).enumerate()
}

/// Seconds of a time that Slurm may be given: `INFINITE` and -1 are none.
fn seconds(text: &str) -> Option<u32> {
    text.parse().ok().filter(|seconds| *seconds != u32::MAX)
}

/// Whether a `SuspendTime` says that nodes never sleep.
fn endless(text: &str) -> bool {
    ["INFINITE", "UNLIMITED", "-1"].iter().any(|word| text.eq_ignore_ascii_case(word)) || text.parse() == Ok(u32::MAX)
}

/// What `slurm.conf` says of the pools of a plan.
#[derive(Default)]
pub(super) struct Site {
    /// In the order of the plan.
    pub(super) pools: Vec<Placed>,
    /// Partitions of which the file does not tell the nodes: those that `Feature` chooses.
    pub(super) unknown: Vec<String>,
    /// User that the controller runs as.
    pub(super) user: String,
    /// What the file leaves open.
    pub(super) warnings: Vec<String>,
}

/// A pool as `slurm.conf` has it.
#[derive(Default)]
pub(super) struct Placed {
    pub(super) nodes: String,
    /// Partitions with any of its nodes, in the order of the file.
    pub(super) partitions: Vec<String>,
    /// Partitions that have nodes of other pools, too: nobody knows for which their jobs wait. They
    /// are not among `partitions`, unless there is no other.
    pub(super) shared: Vec<String>,
}

/// Where the pools of a plan lie.
///
/// # Errors
/// If the file does not have the nodes of a pool, or two pools share some.
pub(super) fn site(plan: &PowerPlan, options: &SlurmOptions) -> Result<Site> {
    let mut work = Work::new(options);
    work.read_conf();
    work.read_pools(plan)?;
    // The last line counts where a partition is written twice.
    let last = |at: usize, of: &Partition| work.partitions.iter().skip(at + 1).all(|later| later.name != of.name);
    let partitions = || work.partitions.iter().enumerate().filter(|(at, of)| last(*at, of)).map(|(_, of)| of);
    let meets =
        |of: &Partition, pool: &Pool<'_>| of.nodes.as_ref().is_some_and(|nodes| !nodes.is_disjoint(&pool.nodes));
    let place = |pool: &Pool<'_>| {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for of in partitions().filter(|of| meets(of, pool)) {
            let pools = work.pools.iter().filter(|pool| meets(of, pool)).count();
            if pools > 1 { &mut shared } else { &mut own }.push(of.name.clone());
        }
        let partitions = if own.is_empty() { std::mem::take(&mut shared) } else { own };
        Placed { nodes: fold(&pool.nodes), partitions, shared }
    };
    Ok(Site {
        pools: work.pools.iter().map(place).collect(),
        unknown: partitions().filter(|of| of.nodes.is_none()).map(|of| of.name.clone()).collect(),
        user: work.conf.setting("SlurmUser").unwrap_or("root").to_owned(),
        warnings: work.warnings,
    })
}

/// Writes the change of `slurm.conf` and the programs.
pub(super) fn render<'a>(plan: &'a PowerPlan, options: &'a SlurmOptions) -> Result<Rendered> {
    let mut work = Work::new(options);
    work.choose_version();
    work.read_conf();
    work.read_pools(plan)?;
    work.set_times(plan)?;
    work.set_rates(plan)?;
    work.set_idle_times();
    work.set_excluded(plan)?;
    let programs = work.set_programs(plan)?;
    work.tell(plan);

    let text = work.conf.text();
    let mut files = vec![("slurm.conf".to_owned(), text.to_owned())];
    let own = ([path_of(&options.conf_name), options.conf.as_str()], text.to_owned());
    let about = vec![format!("{NOTE}. NOTES.txt says what to expect of it.")];
    let made =
        (text != options.conf).then(|| patch("slurm.patch", about, (&work.changes, STEPS), std::iter::once(own)).file);
    let diff = made.as_ref().map(|(_, text)| text.clone());
    files.extend(made);
    files.extend(programs);
    Ok(Rendered { files, diff, warnings: work.warnings })
}

impl<'a> Work<'a> {
    /// Nothing done yet.
    fn new(options: &'a SlurmOptions) -> Self {
        Self {
            conf: Conf::read(&options.conf),
            original: Conf::read(&options.conf),
            options,
            version: ASSUMED,
            nodes: Nodes::new(),
            partitions: Vec::new(),
            pools: Vec::new(),
            outside: Nodes::new(),
            warnings: Vec::new(),
            changes: Changes::default(),
        }
    }

    fn warn(&mut self, what: impl Into<String>) {
        self.warnings.push(what.into());
    }

    /// Sets `key` for the cluster and tells what was there.
    fn set(&mut self, key: &str, value: &str) {
        let before = self.conf.setting(key).map(str::to_owned);
        self.tell_change(key, before.as_deref(), value);
        if let Some(before) = before.filter(|before| before != value) {
            self.warn(format!("{key} was {before} and becomes {value}"));
        }
        self.conf.set_setting(key, value, Some(NOTE));
        for line in self.original.in_vain(key) {
            self.warn(format!(
                "{}, line {line}: {key} is set again further down, which counts; it is taken out here",
                self.options.conf_name
            ));
        }
    }

    fn tell_change(&mut self, what: &str, before: Option<&str>, value: &str) {
        if before != Some(value) {
            self.changes.made.push(format!("{what} {} → {value}", before.unwrap_or("none")));
        }
    }

    /// Sets `key` of the partition on `line`.
    fn set_in_record(&mut self, line: usize, key: &str, value: &str) {
        let Some((line, pairs)) = self.conf.records("PartitionName").nth(line) else { return };
        let what = format!("partition {}: {key}", self::value(pairs, "PartitionName").unwrap_or_default());
        if let Some(before) = self.conf.set_in_record(line, key, value) {
            self.tell_change(&what, before.as_deref(), value);
        }
    }

    fn choose_version(&mut self) {
        let newest = if self.conf.setting("SuspendExcStates").is_some() { EACH_COMMA } else { ASSUMED };
        match self.options.version {
            Some(version) => self.version = version,
            None => {
                self.version = newest;
                self.warn(format!(
                    "written for Slurm {newest}, as no version is given; name yours with --slurm-version, as `sinfo --version` prints it"
                ));
            }
        }
        let version = self.version;
        if version < PARTITION_TIMES {
            self.warn(format!(
                "Slurm {version} has one SuspendTime for all partitions; from 21.08 on each can have its own"
            ));
        }
    }

    /// The nodes and partitions of the file.
    fn read_conf(&mut self) {
        let name = self.options.conf_name.clone();
        for line in self.conf.lines().to_vec() {
            if let Some(file) = &line.include {
                self.warn(format!(
                    "{name}, line {}: includes {file}, which is not read here; if it sets nodes, partitions or power saving, merge it first",
                    line.number
                ));
            }
            if let Some(odd) = &line.odd {
                self.warn(format!("{name}, line {}: `{odd}` is no Key=Value and stays as it is", line.number));
            }
        }
        for (line, pairs) in self.conf.records("NodeName") {
            let Some(list) = value(pairs, "NodeName").filter(|list| !list.eq_ignore_ascii_case("DEFAULT")) else {
                continue;
            };
            match expand(list) {
                Ok(nodes) => self.nodes.extend(nodes),
                Err(what) => self.warnings.push(format!("{name}, line {}: {what}", self.conf.number(line))),
            }
        }
        let mut told = Vec::new();
        for (line, pairs) in self.conf.records("NodeName") {
            for key in
                ["SuspendTime", "SuspendTimeout", "ResumeTimeout"].iter().filter(|key| value(pairs, key).is_some())
            {
                told.push(format!(
                    "{name}, line {}: nodes with their own {key} keep it, whatever the plan says; take it out for the plan to hold",
                    self.conf.number(line)
                ));
            }
        }
        self.warnings.extend(told);
        let mut sets: Vec<(String, Option<Nodes>)> = Vec::new();
        for (_, pairs) in self.conf.records("NodeSet") {
            // Which nodes have a feature can change while Slurm runs.
            let nodes = value(pairs, "Nodes").filter(|_| value(pairs, "Feature").is_none());
            sets.push((
                value(pairs, "NodeSet").unwrap_or_default().to_owned(),
                nodes.and_then(|list| expand(list).ok()),
            ));
        }
        let resolve = |list: &str| -> Option<Nodes> {
            if list.eq_ignore_ascii_case("ALL") {
                return Some(self.nodes.clone());
            }
            let (mut all, mut hosts) = (Nodes::new(), Vec::new());
            for part in list.split(',') {
                match sets.iter().find(|(name, _)| name == part) {
                    Some((_, nodes)) => all.extend(nodes.clone()?),
                    None => hosts.push(part),
                }
            }
            if !hosts.is_empty() {
                all.extend(expand(&hosts.join(",")).ok()?);
            }
            Some(all)
        };
        let mut by_default: Option<String> = None;
        let mut partitions = Vec::new();
        for (line, pairs) in partition_lines(&self.conf) {
            let Some(name) = value(pairs, "PartitionName") else { continue };
            let listed = value(pairs, "Nodes").map(str::to_owned);
            if name.eq_ignore_ascii_case("DEFAULT") {
                by_default = listed.or(by_default);
                continue;
            }
            let list = listed.or_else(|| by_default.clone()).unwrap_or_default();
            let nodes = if list.is_empty() { Some(Nodes::new()) } else { resolve(&list) };
            partitions.push(Partition { line, name: name.to_owned(), nodes });
        }
        self.partitions = partitions;
    }

    fn includes(&self) -> bool {
        self.conf.lines().iter().any(|line| line.include.is_some())
    }

    /// The nodes of each pool, which no two pools share.
    fn read_pools(&mut self, plan: &'a PowerPlan) -> Result<()> {
        let mut taken: Vec<(Nodes, String)> = Vec::new();
        for pool in &plan.pools {
            let name = &pool.name;
            let named: Vec<&Partition> = self.partitions.iter().filter(|partition| partition.name == *name).collect();
            let nodes = match (&pool.nodes, named.last()) {
                (Some(list), _) => expand(list).map_err(|what| Error::Power(format!("pool {name}: {what}")))?,
                (None, Some(Partition { nodes: Some(nodes), .. })) if !nodes.is_empty() => nodes.clone(),
                (None, _) => {
                    return refuse(format!(
                        "which nodes pool {name} has is not known, as {} has no partition {name} whose Nodes are host names; name them in the plan",
                        self.options.conf_name
                    ));
                }
            };
            let unknown: Nodes = nodes.difference(&self.nodes).cloned().collect();
            if !unknown.is_empty() && !self.includes() {
                return refuse(format!(
                    "{} has no {} of pool {name}; give the plan the names that Slurm has, or the file that defines them",
                    self.options.conf_name,
                    fold(&unknown)
                ));
            }
            if let Some((shared, other)) = taken.iter().find(|(other, _)| !other.is_disjoint(&nodes)) {
                let shared: Nodes = shared.intersection(&nodes).cloned().collect();
                return refuse(format!("pools {other} and {name} share {}; give each node to one pool", fold(&shared)));
            }
            if nodes.len() != pool.total_nodes as usize {
                self.warn(format!(
                    "pool {name} has {} nodes by the plan and {} by name; the names count",
                    pool.total_nodes,
                    nodes.len()
                ));
            }
            taken.push((nodes.clone(), name.clone()));
            let idle_s = pool.idle_s.max(1);
            if pool.idle_s == 0 {
                self.warn(format!(
                    "pool {name}: SuspendTime becomes 1, as nodes cannot sleep before they were idle at all"
                ));
            }
            if idle_s < plan.boot_s.saturating_add(plan.shutdown_s) {
                self.warn(format!(
                    "pool {name}: nodes sleep after {idle_s} s idle but take {} s down and up again; a short gap costs more than it saves",
                    plan.boot_s.saturating_add(plan.shutdown_s)
                ));
            }
            self.pools.push(Pool { plan: pool, nodes, idle_s });
        }
        Ok(())
    }

    /// `ResumeTimeout` and `SuspendTimeout`.
    fn set_times(&mut self, plan: &PowerPlan) -> Result<()> {
        let (boot_s, shutdown_s) = (plan.boot_s, plan.shutdown_s);
        if let Some(request) = self.options.resume_timeout_s.filter(|request| *request <= boot_s) {
            return refuse(format!(
                "a ResumeTimeout of {request} s is not above the {boot_s} s that a node takes to boot: Slurm would set every node down that wakes; ask for {} s or more",
                boot_s.saturating_mul(2).max(boot_s.saturating_add(60))
            ));
        }
        if let Some(request) = self.options.suspend_timeout_s.filter(|request| *request < shutdown_s) {
            return refuse(format!(
                "a SuspendTimeout of {request} s is below the {shutdown_s} s that a node takes to shut down: Slurm would wake nodes that are still going down; ask for {shutdown_s} s or more"
            ));
        }
        let resume_s = boot_s.saturating_mul(2).max(boot_s.saturating_add(60));
        let suspend_s = shutdown_s.saturating_add(shutdown_s.div_ceil(5)).max(30);
        self.set_time("ResumeTimeout", self.options.resume_timeout_s, resume_s)?;
        self.set_time("SuspendTimeout", self.options.suspend_timeout_s, suspend_s)
    }

    /// Sets a timeout to what is asked; else to at least `least_s`, for partitions with their own as well.
    fn set_time(&mut self, key: &str, request: Option<u32>, least_s: u32) -> Result<()> {
        let now_s = self.conf.setting(key).and_then(seconds);
        let value_s = request.unwrap_or_else(|| least_s.max(now_s.unwrap_or(0)));
        if value_s > MOST {
            return refuse(format!(
                "{key} would be {value_s} s, but Slurm takes at most {MOST} s; plan with a shorter time"
            ));
        }
        self.set(key, &value_s.to_string());
        for (line, name, time) in self.own_times(key) {
            if time.is_none_or(|own_s| own_s < value_s) {
                self.warn(format!("partition {name}: its own {key} is too short and becomes {value_s}"));
                self.set_in_record(line, key, &value_s.to_string());
            }
        }
        Ok(())
    }

    /// Partitions with their own `key` that have nodes of a pool, and the defaults of partitions: line, name and seconds.
    fn own_times(&self, key: &str) -> Vec<(usize, String, Option<u32>)> {
        let mut times = Vec::new();
        for (line, pairs) in partition_lines(&self.conf) {
            let name = value(pairs, "PartitionName").unwrap_or_default();
            let partition = self.partitions.iter().find(|partition| partition.line == line);
            let touched = partition.is_none_or(|partition| self.pools.iter().any(|pool| self.shares(partition, pool)));
            if let Some(text) = value(pairs, key).filter(|_| touched) {
                times.push((line, name.to_owned(), seconds(text)));
            }
        }
        times
    }

    /// Whether a partition has nodes of a pool, as far as this file tells.
    fn shares(&self, partition: &Partition, pool: &Pool<'_>) -> bool {
        partition.name == pool.plan.name
            || partition.nodes.as_ref().is_some_and(|nodes| !nodes.is_disjoint(&pool.nodes))
    }

    fn set_rates(&mut self, plan: &PowerPlan) -> Result<()> {
        for (key, rate) in [("SuspendRate", plan.sleeps_per_minute), ("ResumeRate", plan.wakes_per_minute)] {
            if rate > MOST {
                return refuse(format!(
                    "{key} would be {rate} nodes a minute, but Slurm takes at most {MOST}; 0 is no limit"
                ));
            }
            self.set(key, &rate.to_string());
        }
        Ok(())
    }

    /// `SuspendTime`, for the cluster or a partition.
    fn set_idle_times(&mut self) {
        let mut covered = Nodes::new();
        self.pools.iter().for_each(|pool| covered.extend(pool.nodes.iter().cloned()));
        let others: Nodes = self.nodes.difference(&covered).cloned().collect();
        let times: BTreeSet<u32> = self.pools.iter().map(|pool| pool.idle_s).collect();
        let longest_s = times.last().copied().unwrap_or(1);
        let before_s = self.conf.setting("SuspendTime").and_then(seconds);
        let alone = times.len() == 1 && others.is_empty() && !self.includes();
        let lines: Vec<Vec<usize>> = self.pools.iter().map(|pool| self.lines_of(pool)).collect();
        let apart = self.version >= PARTITION_TIMES && lines.iter().all(|lines| !lines.is_empty());
        if !alone && apart {
            self.set_times_of_partitions(&lines, &covered, before_s);
            return;
        }
        if times.len() > 1 {
            self.warn(format!(
                "pools differ in how long nodes are idle before they sleep; all take the longest, {longest_s} s"
            ));
        }
        self.set("SuspendTime", &longest_s.to_string());
        let never = self.never();
        for (line, name, own_s) in self.own_times("SuspendTime") {
            if never.contains(&line) {
                self.tell_never(&name);
            } else if own_s != Some(longest_s) {
                self.warn(format!("partition {name}: its own SuspendTime would count, and becomes {longest_s}"));
                self.set_in_record(line, "SuspendTime", &longest_s.to_string());
            }
        }
        if self.includes() {
            self.warn("nodes that included files define sleep as well after SuspendTime; put them into SuspendExcNodes if they must not");
        }
        match before_s {
            None => self.outside = others,
            Some(before_s) if !others.is_empty() && before_s != longest_s => {
                self.warn(format!(
                    "{} are in no pool: they slept after {before_s} s and do after {longest_s} s now",
                    fold(&others)
                ));
            }
            Some(_) => {}
        }
    }

    /// Lines of partitions whose nodes the site never lets sleep: their own `SuspendTime`, or the default before them, is without end.
    fn never(&self) -> BTreeSet<usize> {
        let (mut never, mut by_default) = (BTreeSet::new(), false);
        for (line, pairs) in partition_lines(&self.conf) {
            let is_default = value(pairs, "PartitionName").is_some_and(|name| name.eq_ignore_ascii_case("DEFAULT"));
            let stated = value(pairs, "SuspendTime").map(endless);
            if stated.unwrap_or(by_default) {
                never.insert(line);
            }
            if is_default {
                by_default = stated.unwrap_or(by_default);
            }
        }
        never
    }

    fn tell_never(&mut self, name: &str) {
        self.warn(format!(
            "partition {name}: its SuspendTime is without end and stays so: none of its nodes sleeps; take it out if they may"
        ));
    }

    /// The lines that define the partition of a pool.
    fn lines_of(&self, pool: &Pool<'_>) -> Vec<usize> {
        let all = self.partitions.iter().filter(|partition| partition.name == pool.plan.name);
        let fits = all
            .clone()
            .next_back()
            .is_some_and(|last| last.nodes.as_ref().is_none_or(|nodes| pool.nodes.is_subset(nodes)));
        if fits { all.map(|partition| partition.line).collect() } else { Vec::new() }
    }

    fn set_times_of_partitions(&mut self, lines: &[Vec<usize>], covered: &Nodes, before_s: Option<u32>) {
        match before_s {
            None if self.conf.setting("SuspendTime").is_none() => self.set("SuspendTime", "INFINITE"),
            None => {}
            Some(before_s) => self.warn(format!("nodes outside the pools sleep after {before_s} s as before")),
        }
        let never = self.never();
        let (mut told, mut sets) = (Vec::new(), Vec::new());
        let named: Vec<(usize, String)> =
            self.partitions.iter().map(|partition| (partition.line, partition.name.clone())).collect();
        for (line, name) in named {
            if never.contains(&line) && lines.iter().flatten().any(|of_pool| *of_pool == line) {
                self.tell_never(&name);
            }
        }
        for (pool, lines) in self.pools.iter().zip(lines) {
            sets.extend(lines.iter().filter(|line| !never.contains(*line)).map(|line| (*line, pool.idle_s)));
            for partition in self.partitions.iter().filter(|partition| lines.contains(&partition.line)) {
                let nodes = partition.nodes.iter().flatten().filter(|node| !covered.contains(*node));
                self.outside.extend(nodes.cloned());
            }
            for (line, pairs) in partition_lines(&self.conf).filter(|(line, _)| !lines.contains(line)) {
                let partition = self.partitions.iter().find(|partition| partition.line == line);
                let own_s = value(pairs, "SuspendTime").and_then(seconds);
                if let Some(partition) = partition.filter(|_| never.contains(&line))
                    && self.shares(partition, pool)
                {
                    told.push(format!(
                        "nodes of pool {} are also in partition {}, whose SuspendTime is without end, so Slurm never puts them to sleep",
                        pool.plan.name, partition.name
                    ));
                }
                if let (Some(partition), Some(own_s)) = (partition, own_s)
                    && own_s > pool.idle_s
                    && self.shares(partition, pool)
                {
                    told.push(format!(
                        "nodes of pool {} are also in partition {}, and of the two SuspendTimes, {} and {own_s} s, Slurm takes the longer",
                        pool.plan.name, partition.name, pool.idle_s
                    ));
                }
            }
        }
        sets.into_iter().for_each(|(line, idle_s)| self.set_in_record(line, "SuspendTime", &idle_s.to_string()));
        self.warnings.extend(told);
    }

    /// The programs: the site's own where it has them.
    fn set_programs(&mut self, plan: &PowerPlan) -> Result<Vec<Emitted>> {
        let dir = self.options.programs_dir.trim_end_matches('/').to_owned();
        let mut files = Vec::new();
        let programs = [
            ("SuspendProgram", &plan.suspend_program, "suspend.sh", SUSPEND),
            ("ResumeProgram", &plan.resume_program, "resume.sh", RESUME),
        ];
        for (key, program, file, text) in programs {
            match (program, self.conf.setting(key)) {
                (Some(program), _) => {
                    self.check_program(key, program)?;
                    self.set(key, program);
                }
                // One that the site has does what its machines need.
                (None, Some(now)) if now != format!("{dir}/{file}") => {
                    let now = now.to_owned();
                    self.check_program(key, &now)?;
                    self.warn(format!("{key} stays {now}"));
                }
                (None, _) => {
                    let program = format!("{dir}/{file}");
                    self.check_program(key, &program)?;
                    self.set(key, &program);
                    files.push((file.to_owned(), text.replace("@common@\n", COMMON)));
                }
            }
        }
        let failed = format!("{dir}/resume-failed.sh");
        let now = self.conf.setting("ResumeFailProgram").map(str::to_owned);
        if !files.is_empty() && now.as_ref().is_none_or(|now| *now == failed) {
            self.set("ResumeFailProgram", &failed);
            files.push(("resume-failed.sh".to_owned(), RESUME_FAILED.replace("@common@\n", COMMON)));
        } else if now.is_none() {
            self.warn("there is no ResumeFailProgram, so that nobody is told of nodes that do not wake");
        }
        if !files.is_empty() {
            self.warn(format!(
                "copy {} to {dir} with mode 755 (Slurm refuses programs that others than their owner can write) and try them by hand; they use ipmitool, or {dir}/site-power where it is executable",
                files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            ));
        }
        Ok(files)
    }

    fn check_program(&self, key: &str, program: &str) -> Result<()> {
        if !program.starts_with('/') {
            return refuse(format!(
                "{key} is `{program}`, and Slurm turns power saving off unless it is an absolute path; write /.../{program}"
            ));
        }
        if !is_slurm_value(program) {
            return refuse(format!(
                "{key} is `{program}`, which is no path of slurm.conf: no blanks, quotes, # or \\, and no arguments"
            ));
        }
        Ok(())
    }

    /// What the operator has to know besides.
    fn tell(&mut self, plan: &PowerPlan) {
        let back = self.conf.setting("ReturnToService").unwrap_or("0").to_owned();
        if back != "2" {
            self.warn(format!(
                "ReturnToService is {back}: a node that wakes too late stays down until an administrator resumes it; with 2 it comes back when it registers"
            ));
        }
        let scheduler = self.conf.setting("SchedulerParameters").unwrap_or_default();
        if !scheduler.contains("sbatch_wait_nodes") {
            self.warn("a job on several nodes starts when its first node is awake; with SchedulerParameters=sbatch_wait_nodes,salloc_wait_nodes it waits for all");
        }
        if plan.pools.iter().any(|pool| pool.keep_idle > 0) {
            self.warn("Slurm wakes no node to keep idle ones in reserve: set:N only keeps it from putting the last N to sleep");
        }
        let actions: usize = plan.pools.iter().map(|pool| pool.actions.len()).sum();
        if actions > 0 {
            self.warn(format!(
                "slurm.conf holds no schedule, and its SuspendTime puts idle nodes to sleep whatever one says: follow either this file or the {actions} actions that --emit actions writes (its power-actions.md says how to set SuspendTime for these)"
            ));
        }
        self.warn("power saving begins with a restart of slurmctld; later changes need only `scontrol reconfigure`");
    }
}

/// The programs of the site that has none.
const COMMON: &str = include_str!("programs/common.sh");
const SUSPEND: &str = include_str!("programs/suspend.sh");
const RESUME: &str = include_str!("programs/resume.sh");
const RESUME_FAILED: &str = include_str!("programs/resume-failed.sh");
