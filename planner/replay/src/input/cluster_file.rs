//! The cluster that a trace describes, written as a cluster file ([`super::Site`]): a file to change and to replay on.
//!
//! * **What there is** is what a replay without a file takes (that of `recorded`), at one moment (the last of the record, if none is asked
//!   for), or with its sizes over time and its failures.
//! * **VCs**: those that jobs name. Others whose size is known stand in comments, as a replay without a file has no nodes for them.
//! * **Processors and memory** of nodes, where the machine list has them; nodes that have others are an entry of their own.
//! * **Where nodes lie**: what the machine list of the trace says, or a file beside it ([`NodePlaces`]); nodes that lie together are an entry of their own.
//! * **What the source does not say** is said in comments: what was assumed, rounded or left out.
//! * A source that records no size at all: the fewest nodes that hold what ran at once at the busiest moment, as nodes of 8 GPUs, of 64
//!   processors, or one by one. With a recorded start of less than half of the jobs, at least as many as have a load of 0.7 with what all of them ran. Where a file says where nodes lie, its nodes are those of the cluster (`named`).
//!
//! O(jobs × log jobs + capacity). Worked example: a VC `vision` of 96 GPUs until 2020-09-10 and 112 from then on, with no word on nodes, is
//! `nodes = 14`, `gpus_per_node = 8`; over time it is `nodes = 12`, `sizes = [{ at = "2020-09-10T00:00:00Z", nodes = 14 }]`.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;
use tracecast_analytics::facts::sizes::{self, Held};
use tracecast_analytics::facts::{Capacity, JobFacts, Steps};
use tracecast_analytics::report::format;
use tracecast_analytics::report::markup::printable;
use tracecast_analytics::report::quote::toml as quoted;
use tracecast_analytics::schema::{Resource, Table};
use tracecast_analytics::time::format_rfc3339;

use super::jobs::vcs_of;
use super::place::NodePlaces;
use super::recorded::{self, Recorded, gpus_assumed, usual_node};
use super::site::{INFERRED, Site};
use crate::error::{Error, Result};
use tracecast_sim::cluster::{Cluster, Group, Outage, Vc};
use tracecast_sim::host::HostRoom;

/// Characters in a line of a comment.
const WIDTH: usize = 100;
/// Longest outage that a cluster file takes, seconds.
const MOST_OUTAGE_S: f64 = 4e9;
/// Name of the pool of all nodes.
const POOL: &str = "cluster";
/// Start of the line that says where the nodes of a table lie.
const LIES: &str = "\ntopology =";
/// Load that the nodes are to have at least, where too few starts are recorded for what ran at once.
const LOAD: f64 = 0.7;
/// Processors of a node where nobody says.
const CPUS_PER_NODE: f64 = 64.0;

/// Which cluster of a trace.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The moment, milliseconds since the Unix epoch; the last of the record if `None`.
    pub at_ms: Option<i64>,
    /// With its sizes over time and its failures, in place of one moment.
    pub over_time: bool,
    /// The resource that jobs compete for; as the trace has it if `None`.
    pub resource: Option<Resource>,
    /// Where nodes lie; as the machine list of the trace says if `None`.
    pub places: Option<NodePlaces>,
}

/// The cluster of `trace`, read from what is called `source`, as the text of a cluster file.
///
/// # Errors
/// If no VC has nodes at that moment, the trace holds neither sizes nor jobs, or places are given where processors or nodes are counted together.
pub fn cluster_file(trace: &Trace, source: &str, wanted: &Wanted) -> Result<String> {
    let resource = wanted.resource.unwrap_or_else(|| Resource::of_jobs(&trace.jobs));
    let facts = JobFacts::new(trace);
    let at_ms = moment(trace, &facts, wanted.at_ms);
    let mut text = String::new();
    let what = if wanted.over_time {
        format!("The cluster of {source} over time, for --site.")
    } else {
        // A trace without dates has no moment that says anything to anyone.
        match at_ms.filter(|_| trace.basis.has_dates()) {
            Some(at_ms) => format!("The cluster of {source} as of {}, for --site.", format_rfc3339(at_ms)),
            None => format!("The cluster of {source}, for --site."),
        }
    };
    comment(&mut text, &what);
    if resource != Resource::Gpus {
        let each = format!("gpus_per_node counts {} here: replay with --resource {}.", resource.many(), resource.id());
        comment(&mut text, &each);
    }
    let names = vcs_of(trace);
    match (recorded::cluster(trace, &names, 0, resource, None, true)?, &wanted.places) {
        (Some(mut found), places) => {
            if let Some(places) = places {
                if resource != Resource::Gpus {
                    return Err(named::uncounted(resource, places));
                }
                found.locate(trace, Some(places))?;
                found.located.as_ref().ok_or_else(|| named::unmatched(trace, places))?;
                named::compare(trace, places, &mut text);
            }
            let held = &sizes::held(trace);
            Writer { trace, held, resource, wanted, at_ms, found: &found }.write(&mut text)?;
        }
        (None, Some(places)) => named::write(&facts, &names, resource, places, &mut text)?,
        (None, None) => inferred(&facts, &names, resource, &mut text)?,
    }
    // What is written can be read.
    Site::parse("cluster.toml", &text)?;
    Ok(text)
}

/// The moment that is asked for, else the last of the record. Where sizes are dated and none is of then, the last that is dated.
fn moment(trace: &Trace, facts: &JobFacts<'_>, request: Option<i64>) -> Option<i64> {
    let capacity = &trace.capacity;
    let dated = (0..capacity.len()).filter(|row| capacity.scope.get(*row) != Some("node"));
    let last = dated.filter_map(|row| capacity.from.get(row)).max();
    request.or(match (facts.record_end, last) {
        (Some(end), Some(last)) => {
            let holds = (0..capacity.len()).any(|row| holds(trace, row, end));
            Some(if holds { end } else { last })
        }
        (end, last) => end.or(last),
    })
}

/// Whether a row of `capacity` holds at a moment.
fn holds(trace: &Trace, row: usize, at_ms: i64) -> bool {
    let capacity = &trace.capacity;
    capacity.scope.get(row) != Some("node")
        && capacity.from.get(row).is_none_or(|from| from <= at_ms)
        && capacity.to.get(row).is_none_or(|to| at_ms < to)
}

/// A sentence as lines of a comment.
fn comment(text: &mut String, sentence: &str) {
    let mut line = String::from("#");
    for word in sentence.split_whitespace() {
        if line.len() > 1 && line.chars().count() + word.chars().count() >= WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(&printable(word));
    }
    text.push_str(&line);
    text.push('\n');
}

/// Lines of a table of a cluster file with the size of a group: `nodes` and what they are.
pub fn sized(nodes: u32, gpus_per_node: u32, gpu_type: Option<&str>, host: HostRoom) -> String {
    let gpu_type = gpu_type.map_or_else(String::new, |name| format!("gpu_type = {}\n", quoted(name)));
    let line = |key: &str, amount: Option<u32>, units: f64| match amount {
        Some(amount) => format!("{key} = {}\n", f64::from(amount) / units),
        None => String::new(),
    };
    let cpus = line("cpus_per_node", host.cores_milli, 1000.0);
    let memory = line("memory_gib_per_node", host.memory_mib, 1024.0);
    format!("nodes = {nodes}\ngpus_per_node = {gpus_per_node}\n{gpu_type}{cpus}{memory}")
}

/// The levels of the topology.
fn levels(levels: &[String], text: &mut String) {
    let list: Vec<String> = levels.iter().map(|level| quoted(level)).collect();
    text.push_str(&format!("\n[topology]\nlevels = [{}]\n", list.join(", ")));
}

/// The line of a group that says where its nodes lie.
fn lie(levels: &[String], path: &[String]) -> String {
    let bare = |level: &str| level.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let key = |level: &String| if bare(level) { level.clone() } else { quoted(level) };
    let pairs: Vec<String> =
        levels.iter().zip(path).map(|(level, domain)| format!("{} = {}", key(level), quoted(domain))).collect();
    format!("{} {{ {} }}\n", LIES.trim_start(), pairs.join(", "))
}

/// Value of a step function at a moment; its first value holds from the beginning.
fn at<T: Copy>(amounts: &[(i64, T)], at_ms: Option<i64>) -> Option<T> {
    let many = at_ms.map_or(amounts.len(), |at_ms| amounts.partition_point(|(from, _)| *from <= at_ms));
    amounts.get(many.saturating_sub(1)).map(|(_, amount)| *amount)
}

/// A cluster that the trace records, on its way into a file.
struct Writer<'w> {
    trace: &'w Trace,
    /// When each row of the capacity table holds.
    held: &'w [Held],
    resource: Resource,
    wanted: &'w Wanted,
    at_ms: Option<i64>,
    found: &'w Recorded,
}

impl Writer<'_> {
    fn write(&self, text: &mut String) -> Result<()> {
        let cluster = &self.found.cluster;
        comment(text, &self.found.basis);
        self.assumptions(text);
        let begin = text.len();
        let shared = cluster.pools.len() == 1 && cluster.vcs.len() > 1;
        let quotas = cluster.vcs.iter().any(|vc| !vc.quota_milli.is_empty());
        let mut without = Vec::new();
        let mut any = false;
        if shared || quotas {
            any = self.groups(cluster, 0, "pool", POOL, text);
            if quotas {
                cluster.vcs.iter().for_each(|vc| self.sharing(vc, text));
            } else {
                let names: Vec<&str> = cluster.vcs.iter().map(|vc| vc.name.as_str()).collect();
                text.push('\n');
                comment(text, &format!("All VCs of the trace: {}.", names.join(", ")));
                text.push_str(&format!("[[vc]]\nname = \"*\"\npool = {}\n", quoted(POOL)));
            }
        } else {
            for (at, vc) in cluster.vcs.iter().enumerate() {
                let there = !self.is_gone(vc) && self.groups(cluster, at, "vc", &vc.name, text);
                any |= there;
                if !there {
                    without.push(vc.name.as_str());
                }
            }
        }
        if !any {
            let when = self.at_ms.map_or_else(String::new, |at_ms| format!(" on {}", format_rfc3339(at_ms)));
            return Err(Error::cluster(format!(
                "no VC has nodes{when}; ask for another moment with --at, or for all with --over-time"
            )));
        }
        if !without.is_empty() {
            text.push('\n');
            comment(text, &format!("Without nodes at that moment, and left out: {}.", without.join(", ")));
        }
        self.idle_vcs(text);
        if self.wanted.over_time {
            self.outages(cluster, text);
        }
        if let Some(located) = &self.found.located {
            let mut said = String::new();
            if text.get(begin..).is_some_and(|tables| tables.contains(LIES)) {
                levels(&located.levels, &mut said);
            } else {
                comment(
                    &mut said,
                    "Which nodes lie together is left out, as it is not known which of them there were when.",
                );
            }
            text.insert_str(begin, &said);
        }
        Ok(())
    }

    /// Writes comments on what the source does not say.
    fn assumptions(&self, text: &mut String) {
        let (trace, cluster) = (self.trace, &self.found.cluster);
        if let Some(assumed) = Capacity::assumption(trace) {
            comment(text, &assumed.replace("**", ""));
        }
        if self.resource != Resource::Gpus {
            return;
        }
        if let Some(assumed) = gpus_assumed(trace) {
            comment(text, &assumed);
        }
        if cluster.gpu_types.is_empty() {
            let known = !trace.nodes.gpu_type.is_all_unknown();
            let which = if known { "which VC has which GPU model" } else { "which GPU models they are" };
            comment(text, &format!("The source does not say {which}: add gpu_type if jobs ask for types."));
        }
        let changed = |group: &Group| group.sizes.len() > 1;
        if !self.wanted.over_time && cluster.pools.iter().flat_map(|pool| &pool.groups).any(changed) {
            comment(text, "Sizes changed during the record: these are of that moment, and --over-time writes all.");
        }
        let outages = cluster.outages.len() as u64;
        if outages > 0 && !self.wanted.over_time {
            let failures = format::counted(outages, "failure of a node is", "failures of nodes are");
            let down = self.down();
            let then = if down.is_empty() {
                String::new()
            } else {
                format!(" Out at that moment: {}.", down.into_iter().collect::<Vec<_>>().join(", "))
            };
            comment(text, &format!("{failures} recorded and left out; --over-time writes them.{then}"));
        }
    }

    /// Nodes that are out at the moment.
    fn down(&self) -> BTreeSet<&str> {
        let capacity = &self.trace.capacity;
        let out = |row: &usize| {
            capacity.scope.get(*row) == Some("node")
                && capacity.state.get(*row).is_some_and(|state| state != "up")
                && self.at_ms.is_some_and(|at_ms| {
                    capacity.from.get(*row).is_none_or(|from| from <= at_ms)
                        && capacity.to.get(*row).is_none_or(|to| at_ms < to)
                })
        };
        (0..capacity.len()).filter(out).filter_map(|row| capacity.name.get(row)).collect()
    }

    /// Whether the sizes of a VC are dated, and none is of the moment.
    fn is_gone(&self, vc: &Vc) -> bool {
        let capacity = &self.trace.capacity;
        let of_vc =
            |row: &usize| capacity.scope.get(*row) == Some("vc") && capacity.name.get(*row) == Some(vc.name.as_str());
        let Some(at_ms) = self.at_ms.filter(|_| !self.wanted.over_time) else { return false };
        let mut rows = (0..capacity.len()).filter(of_vc).peekable();
        rows.peek().is_some() && !rows.any(|row| self.held.get(row).is_some_and(|held| held.at(at_ms)))
    }

    /// The groups of a pool as tables; whether there was any.
    fn groups(&self, cluster: &Cluster, pool: usize, table: &str, name: &str, text: &mut String) -> bool {
        let groups = cluster.pools.get(pool).map_or(&[][..], |pool| &pool.groups);
        let mut any = false;
        let mut next = cluster.first_nodes().get(pool).copied().unwrap_or(0);
        for group in groups {
            let first = next;
            next += group.most_nodes();
            let nodes = if self.wanted.over_time {
                group.sizes.first().map(|(_, nodes)| *nodes)
            } else {
                at(&group.sizes, self.at_ms)
            };
            let Some(nodes) = nodes.filter(|nodes| *nodes > 0 || self.wanted.over_time) else { continue };
            any = true;
            let gpu_type = group.gpu_type.and_then(|at| cluster.gpu_types.get(usize::from(at)));
            let of = |nodes: u32| sized(nodes, group.gpus_per_node, gpu_type.map(String::as_str), group.host);
            text.push('\n');
            self.rounded(group, nodes, table, name, text);
            if let (Some(located), false) = (&self.found.located, self.changes(group)) {
                let entries = located.together(first, nodes).into_iter().map(|(path, nodes)| {
                    let lie = path.map_or_else(String::new, |path| lie(&located.levels, path));
                    format!("[[{table}]]\nname = {}\n{}{lie}", quoted(name), of(nodes.len() as u32))
                });
                text.push_str(&entries.collect::<Vec<_>>().join("\n"));
                continue;
            }
            text.push_str(&format!("[[{table}]]\nname = {}\n{}", quoted(name), of(nodes)));
            if self.wanted.over_time {
                let size =
                    |(from, nodes): &(i64, u32)| format!("{{ at = \"{}\", nodes = {nodes} }}", format_rfc3339(*from));
                list(text, "sizes", group.sizes.iter().skip(1).map(size).collect());
            }
        }
        any
    }

    /// Says so where the GPUs that are recorded of a VC are no whole number of its nodes.
    fn rounded(&self, group: &Group, nodes: u32, table: &str, name: &str, text: &mut String) {
        if self.wanted.over_time || self.resource != Resource::Gpus {
            return;
        }
        let capacity = &self.trace.capacity;
        let is_own = |row: &usize| match table {
            "vc" => capacity.scope.get(*row) == Some("vc") && capacity.name.get(*row) == Some(name),
            _ => capacity.scope.get(*row) == Some("cluster"),
        };
        let now =
            (0..capacity.len()).filter(is_own).filter(|row| self.at_ms.is_none_or(|at| holds(self.trace, *row, at)));
        let gpus = now.filter_map(|row| capacity.gpus.get(row)).next_back();
        let written = f64::from(nodes) * f64::from(group.gpus_per_node);
        if let Some(gpus) = gpus.filter(|gpus| self.trace.nodes.gpus.is_all_unknown() && (gpus - written).abs() > 1e-6)
        {
            comment(text, &format!("The source says {} GPUs.", format::compact(gpus)));
        }
    }

    /// A VC of the pool with its quota.
    fn sharing(&self, vc: &Vc, text: &mut String) {
        text.push_str(&format!("\n[[vc]]\nname = {}\npool = {}\n", quoted(&vc.name), quoted(POOL)));
        let gpus = |milli: u64| milli as f64 / 1e3;
        let first = vc.quota_milli.first().map(|(_, milli)| *milli);
        let quota = if self.wanted.over_time { first } else { at(&vc.quota_milli, self.at_ms) };
        if let Some(quota) = quota {
            text.push_str(&format!("quota_gpus = {:?}\n", gpus(quota)));
        }
        if self.wanted.over_time {
            let size = |(from, milli): &(i64, u64)| {
                format!("{{ at = \"{}\", gpus = {:?} }}", format_rfc3339(*from), gpus(*milli))
            };
            list(text, "quotas", vc.quota_milli.iter().skip(1).map(size).collect());
        }
    }

    /// VCs whose size is known and that no job names, as comments.
    fn idle_vcs(&self, text: &mut String) {
        let capacity = &self.trace.capacity;
        if self.resource != Resource::Gpus {
            return;
        }
        let known: BTreeSet<&str> = self.found.cluster.vcs.iter().map(|vc| vc.name.as_str()).collect();
        let of_capacity = (0..capacity.len()).filter(|row| capacity.scope.get(*row) == Some("vc"));
        let of_nodes = (0..self.trace.nodes.len()).filter_map(|row| self.trace.nodes.vc.get(row));
        let named = of_capacity.filter_map(|row| capacity.name.get(row)).chain(of_nodes);
        let idle: BTreeSet<&str> = named.filter(|name| !known.contains(name)).collect();
        if idle.is_empty()
            || self.found.cluster.vcs.len() == 1 && idle.len() == 1 && self.trace.jobs.vc.is_all_unknown()
        {
            return;
        }
        let names: Vec<String> = idle.iter().map(|name| (*name).to_owned()).collect();
        let Ok(Some(mut found)) = recorded::cluster(self.trace, &names, 0, self.resource, None, true) else { return };
        if self.wanted.places.is_some() && found.locate(self.trace, self.wanted.places.as_ref()).is_err() {
            return;
        }
        let of_idle = Writer { found: &found, ..*self };
        let mut tables = String::new();
        for (at, vc) in found.cluster.vcs.iter().enumerate() {
            if !vc.quota_milli.is_empty() {
                of_idle.sharing(vc, &mut tables);
            } else if found.cluster.pools.len() == found.cluster.vcs.len() && !self.is_gone(vc) {
                of_idle.groups(&found.cluster, at, "vc", &vc.name, &mut tables);
            }
        }
        if tables.is_empty() {
            return;
        }
        text.push('\n');
        comment(text, "No job of the source is of these VCs. To have them too, take the marks away:");
        for line in tables.lines() {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
    }

    /// Whether the size of a group is written as one that changes; where which of its nodes lie is then not known.
    fn changes(&self, group: &Group) -> bool {
        self.wanted.over_time && group.sizes.len() > 1
    }

    /// The number that each node of a pool has in the file, where nodes that lie together follow each other.
    fn renumbered(&self, cluster: &Cluster, pool: usize) -> Vec<u32> {
        let groups = cluster.pools.get(pool).map_or(&[][..], |pool| &pool.groups);
        let start = cluster.first_nodes().get(pool).copied().unwrap_or(0);
        let (mut before, mut order) = (0, Vec::new());
        for group in groups {
            let count = group.most_nodes();
            match &self.found.located {
                Some(located) if !self.changes(group) => {
                    let together = located.together(start + before, count).into_iter().flat_map(|(_, nodes)| nodes);
                    order.extend(together.map(|node| before + node));
                }
                _ => order.extend(before..before + count),
            }
            before += count;
        }
        let mut places = vec![0; order.len()];
        for (place, node) in (0u32..).zip(order) {
            if let Some(of) = places.get_mut(node as usize) {
                *of = place;
            }
        }
        places
    }

    /// The failures of nodes, one by one.
    fn outages(&self, cluster: &Cluster, text: &mut String) {
        let firsts = cluster.first_nodes();
        let places: Vec<Vec<u32>> = (0..cluster.pools.len()).map(|pool| self.renumbered(cluster, pool)).collect();
        for Outage { node, from_ms, to_ms } in &cluster.outages {
            let pool = firsts.partition_point(|first| first <= node).saturating_sub(1);
            let of = match cluster.vcs.iter().find(|vc| usize::from(vc.pool) == pool) {
                Some(vc) if cluster.is_alone(vc) && vc.quota_milli.is_empty() => vc.name.as_str(),
                _ => POOL,
            };
            let node = node - firsts.get(pool).copied().unwrap_or(0);
            let node = places.get(pool).and_then(|places| places.get(node as usize)).copied().unwrap_or(node);
            let for_s = ((to_ms - from_ms) as f64 / 1e3).min(MOST_OUTAGE_S);
            let (of, at) = (quoted(of), format_rfc3339(*from_ms));
            text.push_str(&format!("\n[[outage]]\nof = {of}\nnode = {node}\nat = \"{at}\"\nfor_s = {for_s:?}\n"));
        }
    }
}

/// A list of a table, each entry on a line of its own; nothing if it is empty.
fn list(text: &mut String, key: &str, entries: Vec<String>) {
    if entries.is_empty() {
        return;
    }
    text.push_str(&format!("{key} = [\n"));
    for entry in entries {
        text.push_str(&format!("    {entry},\n"));
    }
    text.push_str("]\n");
}

/// Amounts that jobs of a VC, or of all, held and asked for.
#[derive(Debug, Default)]
struct Use {
    /// When each ran, and on how much: from, to, amount.
    runs: Vec<(i64, i64, f64)>,
    /// Amount that the largest job asked for.
    largest: f64,
    /// Amount held × seconds, over all jobs, whenever they ran.
    work: f64,
}

/// A cluster that holds what ran at once, where the trace records no size.
fn inferred(facts: &JobFacts<'_>, names: &[String], resource: Resource, text: &mut String) -> Result<()> {
    let jobs = &facts.trace.jobs;
    let each = match resource {
        Resource::Gpus => f64::from(usual_node(facts.trace)),
        Resource::Cpus => CPUS_PER_NODE,
        Resource::Nodes => 1.0,
    };
    // All VCs share processors and nodes; of GPUs each has its own.
    let alone = names.len() == 1 || resource == Resource::Gpus;
    let mut busiest: BTreeMap<&str, Use> = BTreeMap::new();
    let (mut all, mut known) = (0, 0);
    let (mut first_ms, mut last_ms, mut longest_s) = (i64::MAX, i64::MIN, 1.0_f64);
    for job in 0..facts.len() {
        let Some(amount) = resource.given(jobs, job).filter(|amount| *amount > 0.0) else { continue };
        let vc = jobs.vc.get(job).unwrap_or_default();
        let of = match names {
            _ if !alone => POOL,
            [only] => only.as_str(),
            _ if vc.is_empty() => continue,
            _ => vc,
        };
        all += 1;
        let Use { runs, largest, work } = busiest.entry(of).or_default();
        *largest = largest.max(amount);
        let run_s = facts.run_s(job).unwrap_or(0.0).max(0.0);
        *work += amount * run_s;
        longest_s = longest_s.max(run_s);
        if let Some(submit) = jobs.submit.get(job) {
            (first_ms, last_ms) = (first_ms.min(submit), last_ms.max(submit));
        }
        let end = jobs.end.get(job).or_else(|| facts.record_end.filter(|_| facts.is_censored(job)));
        let run = jobs.start.get(job).zip(end);
        known += u64::from(run.is_some());
        runs.extend(run.map(|(start, end)| (start, end, amount)));
    }
    if busiest.is_empty() {
        return Err(Error::NoJobs(format!(
            "the source records neither how many {} there are nor a job that asks for any, so there is no cluster to write",
            resource.many()
        )));
    }
    let too_few = 2 * known < all;
    comment(text, &how_inferred(resource, (known, all)));
    // No shorter than the longest job, so that no more than all are taken to have run at once.
    let span_s = (last_ms.saturating_sub(first_ms) as f64 / 1e3).max(longest_s);
    if resource != Resource::Nodes {
        comment(text, &format!("How many {} a node has is assumed: {each}.", resource.many()));
    }
    for (name, Use { runs, largest, work }) in busiest {
        let steps = Steps::of_intervals(runs.iter().copied());
        let (from, to) = runs.iter().fold((i64::MAX, i64::MIN), |(from, to), run| (from.min(run.0), to.max(run.1)));
        let most = if from < to { steps.max(from, to) } else { 0.0 };
        let of_load = if too_few { work / span_s / LOAD } else { 0.0 };
        let nodes = (most.max(largest).max(of_load) / each - 1e-9).ceil().clamp(1.0, 1e7) as u32;
        text.push('\n');
        let at_once = format!("{} taken at once: {} at most", resource.many(), format::compact(most));
        let largest = format!("the largest job asked for {}", format::compact(largest));
        let load = format!("a load of {LOAD} takes {} {}", format::compact(of_load), resource.many());
        let said = match (known, too_few) {
            // Of what ran at once nothing is known.
            (0, _) => [largest, load].join("; "),
            (_, true) => [at_once, largest, load].join("; "),
            (_, false) => [at_once, largest].join("; "),
        };
        comment(text, &format!("{}.", format::capitalised(&said)));
        let table = if alone { "vc" } else { "pool" };
        text.push_str(&format!(
            "[[{table}]]\nname = {}\n{}",
            quoted(name),
            sized(nodes, each as u32, None, HostRoom::default())
        ));
    }
    if !alone {
        text.push_str(&format!("\n[[vc]]\nname = \"*\"\npool = {}\n", quoted(POOL)));
    }
    Ok(())
}

/// How the nodes were inferred, of jobs of which so many of all have a recorded start and end.
fn how_inferred(resource: Resource, (known, all): (u64, u64)) -> String {
    let many = resource.many();
    let unknown = format!("{INFERRED}: the source does not say how many {many} there are");
    let load = format!(
        "a load of {LOAD} with what all jobs ran, over the time in which they were submitted (or the longest run, if that is more)"
    );
    let made = match known {
        0 => format!(
            ", and none of {} has a recorded start and end, so that it is not known what ran at once. These are the fewest nodes that have at most {load}, and that hold the largest job; there may be more or fewer.",
            format::counted(all, "job", "jobs")
        ),
        known if 2 * known < all => format!(
            ", and only {} of {} jobs have a recorded start and end, so that it is not known what all of them ran at once. These are the fewest nodes that hold what those ran at once and the largest job, and that have at most {load}; there may be more or fewer.",
            format::count(known),
            format::count(all)
        ),
        _ => ". These are the fewest nodes that hold what ran at once at the busiest moment, and the largest job; there may be more.".to_owned(),
    };
    format!("{unknown}{made} Correct them before you rely on an answer.")
}

mod named;
#[cfg(test)]
mod tests;
