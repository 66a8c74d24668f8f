//! The cluster as its operator writes it down: `cluster.toml`.
//!
//! ```toml
//! [[vc]]                      # a VC on nodes of its own
//! name = "vision"
//! nodes = 12
//! gpus_per_node = 8           # the default
//! gpu_type = "A100"           # if jobs ask for types
//! cpus_per_node = 96          # where processors and memory are to count beside GPUs; without bound if left out
//! memory_gib_per_node = 1024   # 2³⁰ bytes each
//! sizes = [{ at_s = 86400, nodes = 14 }, { at = "2020-09-10T00:00:00Z", nodes = 10 }]
//!
//! [[pool]]                    # nodes that several VCs share
//! name = "shared"
//! nodes = 20
//!
//! [[vc]]
//! name = "speech"
//! pool = "shared"
//! quota_gpus = 64             # the most it may use at once
//! guaranteed_gpus = 32        # served first up to here
//!                             # or, in a pool without quotas: guaranteed_cells = { 8 = 3, 4 = 1 }, aligned GPUs on a node, so many of each size
//!
//! [[outage]]                  # node 3 of the VC or pool, counted from 0
//! of = "vision"
//! node = 3
//! at_s = 7200
//! for_s = 3600
//!
//! [topology]                  # racks of 16 nodes, blocks of 4 racks, in the order of the file; the widest level first
//! levels = ["block", "rack"]
//! sizes = [4, 16]             # or, in each [[vc]] with nodes and [[pool]], topology = { block = "b1", rack = "r1" }
//!
//! [failures]                  # or drawn: exponential, the same for the same seed
//! mtbf_h = 2000
//! repair_h = 4
//! seed = 1
//!
//! [rules]                     # under which jobs run, each of which `--site KEY=VALUE` may set as well
//! limits = "limits.txt"       # a file beside this one, as `quota` is
//! topology = "required:rack:16"
//! interval = "60s"
//! ```
//!
//! `at_s` counts from time 0 of the replay, `at` is a moment with an offset from UTC. A VC called `*` stands for every VC of the trace
//! that is not named, each with such nodes of its own unless it has a pool. A VC or pool may be named again for nodes of another kind.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use toml::Spanned;
use tracecast_analytics::report::format;
use tracecast_analytics::time::parse_with_offset;

use crate::error::{Error, Result, excerpt, line_of};
use tracecast_sim;
use tracecast_sim::cluster::{Cluster, Group, Outage, Pool, Vc};
use tracecast_sim::host::HostRoom;
use tracecast_sim::topology::Topology;

/// GPUs of a node if the file does not say.
const GPUS_PER_NODE: u32 = 8;
/// Least cores, and least GiB, of a node: a thousandth, as what is less is counted as none.
const LEAST_OF_HOST: f64 = 0.001;
/// VCs that an error names.
const NAMED: usize = 8;
/// Most failures of one node that are drawn.
const MOST_FAILURES: usize = 100_000;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    at_s: Option<f64>,
    at: Option<Spanned<String>>,
    nodes: Option<u32>,
    gpus: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct VcEntry {
    name: Spanned<String>,
    nodes: Option<u32>,
    gpus_per_node: Option<u32>,
    gpu_type: Option<String>,
    cpus_per_node: Option<f64>,
    memory_gib_per_node: Option<f64>,
    #[serde(default)]
    sizes: Vec<Moment>,
    pool: Option<String>,
    quota_gpus: Option<f64>,
    #[serde(default)]
    quotas: Vec<Moment>,
    guaranteed_gpus: Option<f64>,
    guaranteed_cells: Option<BTreeMap<String, u32>>,
    topology: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolEntry {
    name: Spanned<String>,
    nodes: u32,
    gpus_per_node: Option<u32>,
    gpu_type: Option<String>,
    cpus_per_node: Option<f64>,
    memory_gib_per_node: Option<f64>,
    #[serde(default)]
    sizes: Vec<Moment>,
    topology: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyEntry {
    levels: Spanned<Vec<String>>,
    sizes: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutageEntry {
    of: Spanned<String>,
    node: u32,
    at_s: Option<f64>,
    at: Option<Spanned<String>>,
    for_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failures {
    mtbf_h: f64,
    repair_h: f64,
    #[serde(default)]
    seed: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    vc: Vec<VcEntry>,
    #[serde(default)]
    pool: Vec<PoolEntry>,
    #[serde(default)]
    outage: Vec<OutageEntry>,
    failures: Option<Failures>,
    topology: Option<TopologyEntry>,
    #[serde(default)]
    rules: BTreeMap<String, Spanned<Rule>>,
}

/// Value of a rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Rule {
    Text(String),
    Number(u32),
}

/// Names of the rules that a file may hold.
pub const RULES: [&str; 11] =
    ["checkpoint", "compat", "depth", "gangs", "hosts", "interval", "limits", "quota", "tenants", "topology", "window"];

/// Where the nodes of an entry lie.
#[derive(Debug, Clone, Copy)]
struct Lie<'e> {
    /// Position of the entry in the text.
    at: usize,
    domains: Option<&'e BTreeMap<String, String>>,
}

/// First word of a file whose nodes were inferred and counted by nobody.
pub(super) const INFERRED: &str = "INFERRED";

/// Returns the error for a file that is a table or JSON and no TOML, with what reads it.
fn not_toml(text: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let form = "a cluster file is TOML, with a [[vc]] for each VC; `tracecast cluster SOURCE` writes one from a trace";
    if first.starts_with('{') {
        return Some(format!("this is JSON, and {form}"));
    }
    let is_toml = first.starts_with('[') || first.contains('=');
    let separator = [',', ';', '\t'].into_iter().find(|separator| first.matches(*separator).count() > 0);
    let separator = separator.filter(|_| !is_toml)?;
    let named: Vec<&str> = first.split(separator).map(str::trim).take(NAMED).collect();
    Some(format!(
        "this looks like a table with the columns {}, and {form}. A table of a trace, such as Helios' sizes of VCs or a list of nodes, is named beside the jobs, as a SOURCE",
        named.join(", ")
    ))
}

impl VcEntry {
    /// Whether two entries of a VC are of nodes that nothing tells apart.
    fn is_the_same_as(&self, other: &Self) -> bool {
        let kind = |entry: &Self| {
            let of_node = (entry.gpus_per_node, entry.gpu_type.clone(), entry.cpus_per_node, entry.memory_gib_per_node);
            (entry.name.get_ref().clone(), of_node, entry.topology.clone())
        };
        let apart_in_time = !self.sizes.is_empty() || !other.sizes.is_empty();
        !apart_in_time && kind(self) == kind(other)
    }
}

/// A checked `cluster.toml`.
#[derive(Debug, Clone)]
pub struct Site {
    file: String,
    text: String,
    content: File,
}

impl Site {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        if let Some(what) = not_toml(text) {
            return Err(Error::File { file: file.to_owned(), line: 1, what });
        }
        let content: File = toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        let site = Self { file: file.to_owned(), text: text.to_owned(), content };
        if site.content.vc.is_empty() && (site.content.rules.is_empty() || !site.content.pool.is_empty()) {
            return Err(site.wrong(0, "there is no [[vc]]; name at least one, or `*` for all".to_owned()));
        }
        for (key, value) in &site.content.rules {
            if !RULES.contains(&key.as_str()) {
                let what = format!("[rules]: there is no rule `{key}`; there are {}", RULES.join(", "));
                return Err(site.wrong(value.span().start, what));
            }
        }
        for (position, vc) in site.content.vc.iter().enumerate() {
            let at = vc.name.span().start;
            let name = vc.name.get_ref();
            if site.content.vc.iter().take(position).any(|before| before.is_the_same_as(vc)) {
                return Err(site.wrong(
                    at,
                    format!("VC {name} stands there twice with nodes of one kind; write one [[vc]] with all of them, or another name"),
                ));
            }
            match (&vc.pool, vc.nodes) {
                (Some(pool), None) => {
                    if !site.content.pool.iter().any(|known| known.name.get_ref() == pool) {
                        return Err(site.wrong(at, format!("VC {name}: there is no [[pool]] called `{pool}`")));
                    }
                    let described = vc.gpus_per_node.is_some() || vc.gpu_type.is_some() || vc.topology.is_some();
                    let described = described || vc.cpus_per_node.is_some() || vc.memory_gib_per_node.is_some();
                    if described || !vc.sizes.is_empty() {
                        return Err(site.wrong(at, format!("VC {name}: nodes are described with the pool `{pool}`")));
                    }
                }
                (None, Some(_)) => {
                    let promised = vc.guaranteed_gpus.is_some() || vc.guaranteed_cells.is_some();
                    if vc.quota_gpus.is_some() || !vc.quotas.is_empty() || promised {
                        let what = format!(
                            "VC {name}: a quota or a guarantee is for a VC that shares a pool; its own nodes are both"
                        );
                        return Err(site.wrong(at, what));
                    }
                }
                (Some(_), Some(_)) | (None, None) => {
                    return Err(site.wrong(at, format!("VC {name} needs either `nodes` of its own or a `pool`")));
                }
            }
        }
        // Times, sizes and quotas are checked by building once, as far as they can be without knowing time 0.
        let names: Vec<String> = site.names(&[]);
        site.assemble(&names, None, 0)?;
        Ok(site)
    }

    fn wrong(&self, at: usize, what: String) -> Error {
        Error::File { file: self.file.clone(), line: line_of(&self.text, at), what }
    }

    /// True if the file lists nodes, and not rules alone.
    pub fn has_nodes(&self) -> bool {
        !self.content.vc.is_empty()
    }

    /// Returns the rules of the file by name, as text.
    pub fn rules(&self) -> impl Iterator<Item = (&str, String)> {
        self.content.rules.iter().map(|(key, value)| {
            let text = match value.get_ref() {
                Rule::Text(text) => text.clone(),
                Rule::Number(number) => number.to_string(),
            };
            (key.as_str(), text)
        })
    }

    /// Whether the head of the file says that its nodes were [inferred](super::cluster_file()) from
    /// the jobs.
    pub fn is_inferred(&self) -> bool {
        self.text.lines().any(|line| line.strip_prefix('#').is_some_and(|said| said.trim_start().starts_with(INFERRED)))
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Names of its VCs, those of `trace` for `*` included, each once.
    pub fn names(&self, trace: &[String]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let entries = self.content.vc.iter().map(|vc| vc.name.get_ref());
        for name in entries.filter(|name| *name != "*") {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if self.takes_all() {
            for name in trace {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// Whether the file has a VC `*`.
    pub fn takes_all(&self) -> bool {
        self.content.vc.iter().any(|vc| vc.name.get_ref() == "*")
    }

    /// Checks that it has nodes for some of the VCs that a trace names (none, where it names no VC at all).
    ///
    /// # Errors
    /// Names VCs of both sides, and what would mend it.
    pub fn fits(&self, trace: &[String]) -> Result<()> {
        let names = self.names(&[]);
        if self.takes_all() || trace.is_empty() || trace.iter().any(|vc| names.contains(vc)) {
            return Ok(());
        }
        Err(Error::cluster(format!(
            "{} names no VC of the trace: it has {}, and the jobs are of {}; give the file of this cluster, correct the names, or name one VC `*` for all",
            self.file,
            format::names(&names, NAMED),
            format::names(trace, NAMED)
        )))
    }

    /// The cluster with VCs `names` ([`Site::names`]), time 0 being `origin_ms` (since the Unix epoch). Failures are drawn until
    /// `horizon_ms` (from time 0).
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn build(&self, names: &[String], origin_ms: i64, horizon_ms: i64) -> Result<Cluster> {
        self.assemble(names, Some(origin_ms), horizon_ms)
    }

    /// Builds the cluster like [`Site::build`]; without time 0, lists of times of both kinds are
    /// left out, as they cannot be put in order.
    fn assemble(&self, names: &[String], origin_ms: Option<i64>, horizon_ms: i64) -> Result<Cluster> {
        let mut cluster = Cluster::default();
        let mut pools: BTreeMap<String, u16> = BTreeMap::new();
        // Where the nodes of each group of each pool lie.
        let mut lie: Vec<Vec<Lie<'_>>> = Vec::new();
        for entry in &self.content.pool {
            let at = entry.name.span().start;
            let nodes = (entry.nodes, entry.gpus_per_node, &entry.gpu_type);
            let group = self.group(&mut cluster.gpu_types, at, nodes, &entry.sizes, origin_ms)?;
            let host = self.host(at, entry.cpus_per_node, entry.memory_gib_per_node)?;
            let group = Group { host, ..group };
            let next = cluster.pools.len() as u16;
            let pool = *pools.entry(entry.name.get_ref().clone()).or_insert(next);
            if pool == next {
                cluster.pools.push(Pool::default());
                lie.push(Vec::new());
            }
            cluster.pools[usize::from(pool)].groups.push(group);
            lie[usize::from(pool)].push(Lie { at, domains: entry.topology.as_ref() });
        }
        let mut exclusive: BTreeMap<String, u16> = BTreeMap::new();
        for name in names {
            let mut entries: Vec<&VcEntry> = self.content.vc.iter().filter(|vc| vc.name.get_ref() == name).collect();
            if entries.is_empty() {
                entries = self.content.vc.iter().filter(|vc| vc.name.get_ref() == "*").collect();
            }
            let Some(first) = entries.first().copied() else { continue };
            let at = first.name.span().start;
            if let Some(shared) = &first.pool {
                if entries.len() > 1 {
                    return Err(
                        self.wrong(at, format!("VC {name} is named twice; one entry is enough for a shared pool"))
                    );
                }
                let pool = pools.get(shared).copied().unwrap_or(0);
                let quota_milli = self.quota(first, at, origin_ms)?;
                let guarantee_milli = match first.guaranteed_gpus {
                    Some(gpus) if first.quota_gpus.is_some_and(|quota| gpus > quota) => {
                        return Err(self.wrong(at, format!("VC {name} is guaranteed more than its quota_gpus allows")));
                    }
                    Some(gpus) => vec![(i64::MIN, self.milli(gpus, at)?)],
                    None => Vec::new(),
                };
                let guarantee_cells = self.cells(first, at)?;
                let vc = Vc { quota_milli, guarantee_milli, guarantee_cells, ..Vc::new(name.clone(), pool) };
                cluster.vcs.push(vc);
                continue;
            }
            let pool = cluster.pools.len() as u16;
            cluster.pools.push(Pool::default());
            lie.push(Vec::new());
            exclusive.insert(name.clone(), pool);
            for entry in entries {
                let nodes = (entry.nodes.unwrap_or(0), entry.gpus_per_node, &entry.gpu_type);
                let group = self.group(&mut cluster.gpu_types, at, nodes, &entry.sizes, origin_ms)?;
                let host = self.host(at, entry.cpus_per_node, entry.memory_gib_per_node)?;
                let group = Group { host, ..group };
                cluster.pools[usize::from(pool)].groups.push(group);
                lie[usize::from(pool)].push(Lie { at: entry.name.span().start, domains: entry.topology.as_ref() });
            }
            cluster.vcs.push(Vc::new(name.clone(), pool));
        }
        cluster.topology = self.topology(&cluster, &lie)?;
        self.outages(&mut cluster, &pools, &exclusive, origin_ms)?;
        self.failures(&mut cluster, horizon_ms)?;
        cluster.validate().map_err(|error| self.wrong(0, error.to_string()))?;
        Ok(cluster)
    }

    /// The cells that a VC is guaranteed, rising by their GPUs.
    fn cells(&self, vc: &VcEntry, at: usize) -> Result<Vec<(u32, u32)>> {
        let mut cells = Vec::new();
        for (size, count) in vc.guaranteed_cells.iter().flatten() {
            let Ok(size) = size.parse::<u32>() else {
                let what = format!(
                    "VC {}: guaranteed_cells has the key `{size}`; keys are GPUs of a cell, as in {{ 8 = 3, 4 = 1 }}",
                    vc.name.get_ref()
                );
                return Err(self.wrong(at, what));
            };
            cells.push((size, *count));
        }
        cells.sort_unstable();
        Ok(cells)
    }

    /// Where the nodes lie: as many together as the sizes say, or where the entry of each group says.
    fn topology(&self, cluster: &Cluster, lie: &[Vec<Lie<'_>>]) -> Result<Option<Topology>> {
        let said = lie.iter().flatten().find(|lie| lie.domains.is_some());
        let Some(entry) = &self.content.topology else {
            return match said {
                None => Ok(None),
                Some(lie) => Err(self.wrong(
                    lie.at,
                    "a `topology` of nodes needs the levels, the widest first: [topology] with levels = [\"block\", \"rack\"]"
                        .to_owned(),
                )),
            };
        };
        let (at, levels) = (entry.levels.span().start, entry.levels.get_ref());
        let placed = |error: tracecast_sim::Error| match error {
            tracecast_sim::Error::Cluster(what) => self.wrong(at, what),
            other => other.into(),
        };
        match (&entry.sizes, said) {
            (Some(_), Some(lie)) => Err(self.wrong(
                lie.at,
                "where nodes lie is said by `sizes` of [topology] or by a `topology` of each entry, not by both".to_owned(),
            )),
            (Some(sizes), None) => {
                Topology::regular(levels.clone(), sizes, cluster.most_nodes()).map(Some).map_err(placed)
            }
            (None, None) => Err(self.wrong(
                at,
                "[topology] needs `sizes`, one for each level (racks of a block, nodes of a rack), or each [[pool]] and [[vc]] with nodes a `topology`"
                    .to_owned(),
            )),
            (None, Some(_)) => {
                let mut paths = Vec::new();
                for (group, lie) in cluster.pools.iter().flat_map(|pool| &pool.groups).zip(lie.iter().flatten()) {
                    let of = lie.domains.map(|of| self.path(lie.at, levels, of)).transpose()?;
                    paths.extend((0..group.most_nodes()).map(|_| of.clone()));
                }
                Topology::of_names(levels.clone(), &paths).map(Some).map_err(placed)
            }
        }
    }

    /// The domain of each level that an entry names.
    fn path<'e>(&self, at: usize, levels: &[String], of: &'e BTreeMap<String, String>) -> Result<Vec<&'e str>> {
        if let Some(level) = of.keys().find(|level| !levels.contains(level)) {
            return Err(self.wrong(at, format!("`{level}` is no level of [topology]; there are {}", levels.join(", "))));
        }
        let domain = |level: &String| {
            let missing = || self.wrong(at, format!("its `topology` does not say which {level} its nodes lie in"));
            of.get(level).map(String::as_str).ok_or_else(missing)
        };
        levels.iter().map(domain).collect()
    }

    fn group(
        &self,
        types: &mut Vec<String>,
        at: usize,
        (nodes, gpus_per_node, gpu_type): (u32, Option<u32>, &Option<String>),
        sizes: &[Moment],
        origin_ms: Option<i64>,
    ) -> Result<Group> {
        let gpu_type = gpu_type.as_ref().map(|name| {
            let known = types.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                types.push(name.clone());
                types.len() - 1
            }) as u16
        });
        let mut all = vec![(i64::MIN, nodes)];
        for moment in sizes {
            let nodes = moment.nodes.filter(|_| moment.gpus.is_none());
            let nodes = nodes.ok_or_else(|| self.wrong(at, "a size needs `nodes` and a time".to_owned()))?;
            all.push((self.moment(moment.at_s, moment.at.as_ref(), at, origin_ms)?, nodes));
        }
        if origin_ms.is_none() && is_mixed(sizes) {
            all.truncate(1);
        }
        if !all.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(self.wrong(at, "sizes must be in order of time".to_owned()));
        }
        Ok(Group { gpu_type, sizes: all, ..Group::fixed(0, gpus_per_node.unwrap_or(GPUS_PER_NODE)) })
    }

    /// Processors and memory of a node.
    fn host(&self, at: usize, cpus: Option<f64>, memory_gib: Option<f64>) -> Result<HostRoom> {
        let some = |key: &str, amount: Option<f64>, most: f64, units: f64| {
            let Some(amount) = amount else { return Ok(None) };
            if !(LEAST_OF_HOST..=most).contains(&amount) {
                // In its short form, as 1e300 has 300 digits.
                let problem = format!("{key} = {amount:?} cannot be; write {LEAST_OF_HOST} to {most}");
                return Err(self.wrong(at, problem + ", or leave it out for as much as one likes"));
            }
            Ok(Some((amount * units + 1e-6).floor() as u32))
        };
        Ok(HostRoom {
            cores_milli: some("cpus_per_node", cpus, 1e6, 1000.0)?,
            memory_mib: some("memory_gib_per_node", memory_gib, 4e6, 1024.0)?,
        })
    }

    /// A number of GPUs in thousandths.
    fn milli(&self, gpus: f64, at: usize) -> Result<u64> {
        let fits = (0.0..=1e9).contains(&gpus);
        if fits {
            Ok((gpus * 1000.0).round() as u64)
        } else {
            Err(self.wrong(at, format!("{gpus} is no number of GPUs; write 0 or more")))
        }
    }

    fn quota(&self, vc: &VcEntry, at: usize, origin_ms: Option<i64>) -> Result<Vec<(i64, u64)>> {
        let Some(first) = vc.quota_gpus else {
            if vc.quotas.is_empty() {
                return Ok(Vec::new());
            }
            return Err(self.wrong(at, "`quotas` change a `quota_gpus`; give that as well".to_owned()));
        };
        let mut quotas = vec![(i64::MIN, self.milli(first, at)?)];
        for moment in &vc.quotas {
            let gpus = moment.gpus.filter(|_| moment.nodes.is_none());
            let gpus = gpus.ok_or_else(|| self.wrong(at, "a quota needs `gpus` and a time".to_owned()))?;
            quotas.push((self.moment(moment.at_s, moment.at.as_ref(), at, origin_ms)?, self.milli(gpus, at)?));
        }
        if origin_ms.is_none() && is_mixed(&vc.quotas) {
            quotas.truncate(1);
        }
        if !quotas.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(self.wrong(at, "quotas must be in order of time".to_owned()));
        }
        Ok(quotas)
    }

    fn moment(
        &self,
        at_s: Option<f64>,
        at: Option<&Spanned<String>>,
        near: usize,
        origin_ms: Option<i64>,
    ) -> Result<i64> {
        match (at_s, at) {
            (Some(seconds), None) if seconds.abs() <= 4e9 => Ok((seconds * 1000.0).round() as i64),
            (None, Some(text)) => {
                parse_with_offset(text.get_ref()).map(|ms| ms - origin_ms.unwrap_or(0)).ok_or_else(|| {
                    let what = format!("`{}` is no moment; write 2020-09-10T00:00:00Z", excerpt(text.get_ref()));
                    self.wrong(text.span().start, what)
                })
            }
            _ => Err(self.wrong(near, "a time is either `at_s` (seconds from time 0) or `at` (a moment)".to_owned())),
        }
    }

    fn outages(
        &self,
        cluster: &mut Cluster,
        pools: &BTreeMap<String, u16>,
        exclusive: &BTreeMap<String, u16>,
        origin_ms: Option<i64>,
    ) -> Result<()> {
        let sizes: Vec<u32> =
            cluster.pools.iter().map(|pool| pool.groups.iter().map(Group::most_nodes).sum()).collect();
        for entry in &self.content.outage {
            let at = entry.of.span().start;
            let name = entry.of.get_ref();
            let Some(pool) = exclusive.get(name).or_else(|| pools.get(name)) else {
                // A VC of the trace under `*` may be known only later; one that is nowhere is a mistake.
                if self.takes_all() {
                    continue;
                }
                return Err(self.wrong(at, format!("an outage is of `{name}`, which is no VC with nodes and no pool")));
            };
            let nodes = sizes[usize::from(*pool)];
            if entry.node >= nodes {
                return Err(
                    self.wrong(at, format!("{name} has nodes 0 to {}, not {}", nodes.saturating_sub(1), entry.node))
                );
            }
            let from_ms = self.moment(entry.at_s, entry.at.as_ref(), at, origin_ms)?;
            if !(entry.for_s > 0.0 && entry.for_s <= 4e9) {
                return Err(self.wrong(at, format!("an outage of {} s is none", entry.for_s)));
            }
            let node = sizes[..usize::from(*pool)].iter().sum::<u32>() + entry.node;
            let to_ms = from_ms.saturating_add((entry.for_s * 1000.0).round() as i64).max(from_ms + 1);
            cluster.outages.push(Outage { node, from_ms, to_ms });
        }
        Ok(())
    }

    /// Draws failures node by node, each from a stream of its own.
    fn failures(&self, cluster: &mut Cluster, horizon_ms: i64) -> Result<()> {
        let Some(failures) = &self.content.failures else { return Ok(()) };
        let hours = |value: f64| value.is_finite() && value > 0.0;
        if !hours(failures.mtbf_h) || !hours(failures.repair_h) {
            return Err(self.wrong(0, "[failures] needs mtbf_h and repair_h above 0".to_owned()));
        }
        let nodes: u32 = cluster.pools.iter().flat_map(|pool| &pool.groups).map(Group::most_nodes).sum();
        for node in 0..nodes {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(failures.seed);
            random.set_stream(u64::from(node));
            let mut draw = |mean_h: f64| {
                let uniform: f64 = random.random();
                (-(1.0 - uniform).ln() * mean_h * 3_600_000.0).min(1e13) as i64 + 1
            };
            let mut now = 0i64;
            for _ in 0..MOST_FAILURES {
                let from_ms = now + draw(failures.mtbf_h);
                if from_ms >= horizon_ms {
                    break;
                }
                now = from_ms + draw(failures.repair_h);
                cluster.outages.push(Outage { node, from_ms, to_ms: now });
            }
        }
        Ok(())
    }
}

/// Whether some times count from time 0 and others are moments.
fn is_mixed(moments: &[Moment]) -> bool {
    moments.iter().any(|moment| moment.at.is_some()) && moments.iter().any(|moment| moment.at_s.is_some())
}
