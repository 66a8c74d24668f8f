//! Which jobs ask for blocks or racks: what they asked themselves, as far as the trace says it, else rules such as `required:rack:16`.
//!
//! A rule is `required:LEVEL`, `preferred:LEVEL` or `unconstrained`, for all jobs, or with `:GPUS` for jobs of at least so many. `slices=LEVEL/PODS` adds groups of so many pods that lie in one domain each. Rules are separated by
//! commas; a job has the one with the most GPUs that it reaches. Levels are those of the cluster's topology; a node label, as Kueue has it, stands for the level that it ends with.
//!
//! **What jobs asked themselves** (the column `topology` of a trace, in the words of a rule) comes before the rules, which are for those that did not ask. `none` before the rules, or alone, leaves what they asked out; `as-recorded` is what they asked, and no rule. Where a job asks for
//! what the topology does not have, it counts as one that did not ask, and is told; where there is no topology, so are all. What a rule asks for and the topology lacks is an error, as someone typed it.
//!
//! Under Kueue's quotas a job that asks for nothing, and that no rule reaches, has no request as well, but where all flavors of its queue name a `Topology`: there it is unconstrained, as Kueue has it. Jobs of a part of one GPU ask for nothing. A job with a request is made of as many pods as the trace
//! records, where it asks for no number of nodes (as under `--site gangs=as-recorded`). Pods are
//! equal: 9 GPUs in 4 pods are 3 pods of 3.
//!
//! O(jobs). Worked example: under `required:rack:2,preferred:block:65` a job of 1 GPU lies anywhere, one of 64 in one rack, one of 128 in one block if that can be; one of 64 that asked for `preferred:example.com/block` itself lies in one block if that can be.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::report::format;

use crate::error::{Error, Result};
use crate::metric::near;
use tracecast_sim;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::topology::{NODE, Topology, TopologyRequest};
use tracecast_sim::workload::{Shape, Workload};

/// How a rule is written.
const REMEDY: &str = "write required:LEVEL, preferred:LEVEL or unconstrained, then perhaps :GPUS and :slices=LEVEL/PODS, such as required:rack:16";
/// The words for no request at all, and for the jobs' own requests alone.
const NONE: &str = "none";
const AS_RECORDED: &str = "as-recorded";
/// Requests that are named in a note.
const LISTED: usize = 5;
/// The label of the node itself.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Nearness of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Required(String),
    Preferred(String),
    Unconstrained,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    mode: Mode,
    /// Jobs of at least so many GPUs.
    least_gpus: u32,
    slices: Option<(String, u16)>,
}

impl Rule {
    /// A rule as it is written.
    fn parse(rule: &str) -> Result<Self> {
        let mut parts = rule.split(':').map(str::trim);
        let mode = parts.next().unwrap_or_default();
        let mut level =
            || parts.next().filter(|level| !level.is_empty()).map(str::to_owned).ok_or_else(|| wrong(rule, REMEDY));
        let mode = match mode {
            "required" => Mode::Required(level()?),
            "preferred" => Mode::Preferred(level()?),
            "unconstrained" => Mode::Unconstrained,
            _ => return Err(wrong(rule, REMEDY)),
        };
        let mut result = Self { mode, least_gpus: 0, slices: None };
        for part in parts {
            if let Some(slices) = part.strip_prefix("slices=") {
                // A label holds a slash of its own.
                let (level, pods) = slices.rsplit_once('/').ok_or_else(|| wrong(rule, REMEDY))?;
                if result.slices.is_some() {
                    return Err(wrong(rule, "write one slices="));
                }
                let pods = pods.parse().ok().filter(|pods| *pods > 0).ok_or_else(|| wrong(rule, REMEDY))?;
                result.slices = Some((level.to_owned(), pods));
            } else if result.least_gpus > 0 {
                return Err(wrong(
                    rule,
                    "write one least number of GPUs; a rule for larger jobs ends where the next begins, such as required:rack:9,unconstrained:33",
                ));
            } else {
                result.least_gpus = part.parse().map_err(|_| wrong(rule, REMEDY))?;
            }
        }
        Ok(result)
    }

    /// Returns the rule as a request to a topology.
    fn request(&self, topology: &Topology) -> Result<TopologyRequest> {
        let level = |name: &str| {
            level_of(topology, name).ok_or_else(|| {
                let known: Vec<&str> = topology.levels().iter().map(String::as_str).chain([NODE]).collect();
                Error::cluster(format!("no level of the topology is called `{name}`; there are {}", known.join(", ")))
            })
        };
        let (request, own) = match &self.mode {
            Mode::Required(name) => (TopologyRequest::required(level(name)?), level(name)?),
            Mode::Preferred(name) => (TopologyRequest::preferred(level(name)?), level(name)?),
            Mode::Unconstrained => (TopologyRequest::unconstrained(), 0),
        };
        let Some((name, pods)) = &self.slices else { return Ok(request) };
        let inner = level(name)?;
        if inner < own {
            return Err(Error::cluster(format!(
                "slices are to lie in one {}, which is wider than one {}, where the whole job is to lie",
                topology.name(inner),
                topology.name(own)
            )));
        }
        Ok(request.sliced(inner, *pods))
    }
}

/// A rule that cannot be read.
fn wrong(found: &str, remedy: &str) -> Error {
    Error::Malformed { what: "rule for the topology", found: found.to_owned(), remedy: remedy.to_owned() }
}

/// Topology requests of jobs: whether their own count, and rules for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyRules {
    text: String,
    /// Whether the jobs' own requests come first.
    heeds_jobs: bool,
    /// The one with the most GPUs last.
    rules: Vec<Rule>,
}

impl TopologyRules {
    /// The jobs' own requests, and no rule.
    pub fn as_recorded() -> Self {
        Self { text: AS_RECORDED.to_owned(), heeds_jobs: true, rules: Vec::new() }
    }

    /// No request at all, whatever jobs asked themselves.
    pub fn none() -> Self {
        Self { text: NONE.to_owned(), heeds_jobs: false, rules: Vec::new() }
    }

    /// Rules as they are written; `none` before them, or alone, for jobs whose own requests do not count.
    ///
    /// # Errors
    /// If one is not of this form, or two are for the same jobs.
    pub fn parse(text: &str) -> Result<Self> {
        let mut result = Self { text: text.to_owned(), ..Self::as_recorded() };
        for (at, rule) in text.split(',').map(str::trim).enumerate() {
            if at == 0 && (rule == NONE || rule == AS_RECORDED) {
                result.heeds_jobs = rule == AS_RECORDED;
                continue;
            }
            if rule == NONE || rule == AS_RECORDED {
                return Err(wrong(text, "write none or as-recorded before all rules, such as none,required:rack:16"));
            }
            let rule = Rule::parse(rule)?;
            if result.rules.iter().any(|other| other.least_gpus == rule.least_gpus) {
                return Err(wrong(
                    text,
                    "give each rule another least number of GPUs, such as required:rack:2,preferred:block:65",
                ));
            }
            result.rules.push(rule);
        }
        result.rules.sort_by_key(|rule| rule.least_gpus);
        Ok(result)
    }

    /// Returns the rules as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether these are the jobs' own requests, and nothing else.
    pub fn is_as_recorded(&self) -> bool {
        self.heeds_jobs && self.rules.is_empty()
    }

    /// Whether nothing counts, neither the jobs' own requests nor a rule.
    pub(super) fn is_none(&self) -> bool {
        !self.heeds_jobs && self.rules.is_empty()
    }

    /// The requests of a topology, with the least number of GPUs of each.
    fn requests(&self, topology: &Topology) -> Result<Vec<(u32, TopologyRequest)>> {
        self.rules.iter().map(|rule| Ok((rule.least_gpus, rule.request(topology)?))).collect()
    }
}

/// Fields of a job that bear on where its pods lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Said<'t> {
    /// The job's own topology request, in the words of a rule.
    pub(super) topology: Option<&'t str>,
    /// Pods it is made of.
    pub(super) pods: Option<i64>,
}

/// The jobs' own requests, each wording read once.
#[derive(Debug, Default)]
struct OwnRequests<'t> {
    read: BTreeMap<&'t str, std::result::Result<TopologyRequest, String>>,
    /// Jobs that have one.
    met: u64,
    /// Jobs that ask for what is not there, by their wording.
    unmet: BTreeMap<&'t str, u64>,
}

impl<'t> OwnRequests<'t> {
    /// Returns the request that a wording stands for; `None` if the topology cannot meet it, which
    /// is counted.
    fn of(&mut self, text: &'t str, topology: &Topology) -> Option<TopologyRequest> {
        let read = || {
            // What a job asks for itself is not for jobs of another size.
            let rule = Rule::parse(text).ok().filter(|rule| rule.least_gpus == 0);
            let rule =
                rule.ok_or_else(|| "not of the form required:LEVEL, preferred:LEVEL or unconstrained".to_owned())?;
            rule.request(topology).map_err(|error| match error {
                Error::Engine(tracecast_sim::Error::Cluster(what)) => what,
                other => other.to_string(),
            })
        };
        match self.read.entry(text).or_insert_with(read) {
            Ok(request) => {
                self.met += 1;
                Some(*request)
            }
            Err(_) => {
                *self.unmet.entry(text).or_default() += 1;
                None
            }
        }
    }

    /// Returns the note on requests that cannot be met.
    fn note(&self) -> Option<String> {
        let jobs: u64 = self.unmet.values().sum();
        let why = |text: &str| match self.read.get(text) {
            Some(Err(why)) => why.clone(),
            _ => String::new(),
        };
        let listed = listed(&self.unmet, |text, jobs| format!("{text} ({jobs}; {})", why(text)));
        let asked = format::counted(jobs, "job asked for what", "jobs asked for what");
        let counts =
            if jobs == 1 { "counts as one that asked for nothing" } else { "count as jobs that asked for nothing" };
        (jobs > 0).then(|| {
            format!("**{asked} the topology does not have**, and {counts}: {listed}. Kueue would admit none that asks for a level it does not know.")
        })
    }
}

/// Several of a level.
fn many(level: &str) -> String {
    match level {
        "leaf" => "leaves".to_owned(),
        _ if level.ends_with("ch") => format!("{level}es"),
        // Of 36 nodes each: no one says block36s.
        _ if level.ends_with(|last: char| last.is_ascii_digit()) => format!("domains of {level}"),
        _ => format!("{level}s"),
    }
}

/// Lists requests with the number of their jobs, the most frequent first.
fn listed(asked: &BTreeMap<&str, u64>, told: impl Fn(&str, String) -> String) -> String {
    let mut order: Vec<(&str, u64)> = asked.iter().map(|(text, jobs)| (*text, *jobs)).collect();
    order.sort_by_key(|(text, jobs)| (std::cmp::Reverse(*jobs), *text));
    let each = order.iter().take(LISTED).map(|(text, jobs)| told(text, format::counted(*jobs, "job", "jobs")));
    let mut list: Vec<String> = each.collect();
    if order.len() > LISTED {
        list.push("…".to_owned());
    }
    list.join("; ")
}

/// Returns the note on requests where nothing says which nodes lie together.
fn unplaced(said: &[Said<'_>]) -> Option<String> {
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    for text in said.iter().filter_map(|said| said.topology) {
        *asked.entry(text).or_default() += 1;
    }
    let jobs: u64 = asked.values().sum();
    let list = listed(&asked, |text, jobs| format!("{text}, {jobs}"));
    let what = format::counted(jobs, "job asked how near its pods lie", "jobs asked how near their pods lie");
    (jobs > 0).then(|| {
        format!(
            "{what} ({list}), and nothing says which nodes lie together, so that counts for nothing: name the Topology objects (`kubectl get topologies -o json`) and the Node objects beside the dump, or a cluster file with [topology] (--site), as `tracecast cluster --topology-labels A,B` writes by the labels A and B of Node objects."
        )
    })
}

/// The level that is meant by a name or a node label.
pub(super) fn level_of(topology: &Topology, name: &str) -> Option<u8> {
    if name == HOSTNAME {
        return Some(topology.node_level());
    }
    let plain = name.rsplit_once('/').map_or(name, |(_, plain)| plain);
    topology.level(name).or_else(|| topology.level(plain)).or_else(|| {
        // The longest name that the label ends with.
        let ends =
            |level: &&String| plain.strip_suffix(level.as_str()).is_some_and(|rest| rest.ends_with(['-', '_', '.']));
        topology.level(topology.levels().iter().filter(ends).max_by_key(|level| level.len())?)
    })
}

/// The switches that `--scan slurm` chooses nodes by, in words; `None` where the cluster has none, or they are not to be followed.
pub fn of_switches(cluster: &Cluster) -> Option<String> {
    let topology = cluster.topology.as_ref().filter(|topology| topology.is_of_switches())?;
    let mut said = format!(
        "The nodes hang on {}, and the scan `slurm` chooses nodes by these switches, as Slurm does with topology/tree; --site topology=none turns that off.",
        levels(topology)
    );
    let (nodes, gpus) = near::outside(cluster, topology);
    if nodes > 0 {
        said.push_str(&format!(" **{}**.", near::apart(nodes, gpus, "no job runs there under that scan")));
    }
    Some(said)
}

/// How many domains there are of each level, in words.
fn levels(topology: &Topology) -> String {
    let level = |level: u8| {
        let name = topology.name(level);
        format::counted(topology.count(level) as u64, name, &many(name))
    };
    (0..topology.node_level()).map(level).collect::<Vec<_>>().join(" and ")
}

/// Gives jobs their requests, and says what they are. `said` is what each job says of itself; `implied` says of each VC whether its jobs are unconstrained where they ask for nothing and no rule reaches them.
///
/// # Errors
/// If there are rules and the cluster has no topology, or not a level that they name.
pub(super) fn ask(
    workload: &mut Workload,
    cluster: &Cluster,
    rules: &TopologyRules,
    said: &[Said<'_>],
    implied: &[bool],
) -> Result<Vec<String>> {
    let Some(topology) = &cluster.topology else {
        if rules.rules.is_empty() {
            return Ok(unplaced(said).filter(|_| rules.heeds_jobs).into_iter().collect());
        }
        return Err(Error::cluster(format!(
            "jobs ask for {}, and nothing says which nodes lie together; add to the file of --site, for racks of 16 nodes and blocks of 4 racks:\n\n[topology]\nlevels = [\"block\", \"rack\"]\nsizes = [4, 16]",
            rules.text
        )));
    };
    let requests = rules.requests(topology)?;
    let asked = rules.heeds_jobs && said.iter().any(|said| said.topology.is_some());
    if requests.is_empty() && !asked && !implied.contains(&true) {
        return Ok(Vec::new());
    }
    let mut places: BTreeMap<Shape, u16> = BTreeMap::new();
    let mut shapes: Vec<Shape> = Vec::new();
    let (mut of_kinds, mut unsliced): (BTreeMap<TopologyRequest, u64>, u64) = (BTreeMap::new(), 0);
    let mut own = OwnRequests::default();
    let largest = cluster.pools.iter().flat_map(|pool| &pool.groups).map(|group| group.gpus_per_node).max();
    for (job, (vc, at)) in workload.vc.iter().zip(&mut workload.shape).enumerate() {
        let mut shape = workload.shapes.get(usize::from(*at)).copied().unwrap_or_default();
        let Said { topology: wish, pods } = said.get(job).copied().unwrap_or_default();
        let wish = wish.filter(|_| rules.heeds_jobs && shape.gpus > 0).and_then(|text| own.of(text, topology));
        let ruled = || requests.iter().rev().find(|(least, _)| shape.gpus >= *least).map(|(_, request)| *request);
        let otherwise = || (implied.get(usize::from(*vc)) == Some(&true)).then(TopologyRequest::unconstrained);
        shape.request = wish.or_else(ruled).or_else(otherwise).filter(|_| shape.gpus > 0);
        if let Some(request) = shape.request {
            *of_kinds.entry(request).or_default() += 1;
            let pods = pods.filter(|pods| shape.nodes == 0 && (1..=i64::from(shape.gpus)).contains(pods));
            shape.nodes = pods.and_then(|pods| u16::try_from(pods).ok()).unwrap_or(shape.nodes);
            let (count, _) = shape.pods(largest.unwrap_or(0));
            let divides = request.slices.is_none_or(|slices| count.is_multiple_of(u32::from(slices.pods)));
            unsliced += u64::from(!divides);
        }
        let next = shapes.len() as u16;
        let place = *places.entry(shape).or_insert(next);
        if place == next {
            shapes.push(shape);
        }
        *at = place;
    }
    workload.shapes = shapes;
    let told: Vec<String> = of_kinds
        .iter()
        .map(|(request, jobs)| {
            format!("{} ({})", near::in_words(*request, topology), format::counted(*jobs, "job", "jobs"))
        })
        .collect();
    let what = if told.is_empty() { "nothing: no rule reaches a job".to_owned() } else { told.join("; ") };
    let mut note = format!("The nodes lie in {}. What jobs ask: {what}.", levels(topology));
    if own.met > 0 {
        let others = if requests.is_empty() { "" } else { ", and the rules are for the others" };
        note.push_str(&format!(
            " {} themselves, as the trace records{others}; --site topology=none leaves that out.",
            format::counted(own.met, "job asked so", "jobs asked so")
        ));
    }
    let (nodes, gpus) = near::outside(cluster, topology);
    if nodes > 0 {
        let apart = near::apart(nodes, gpus, "no job that is placed by topology runs there");
        note.push_str(&format!(" **{apart}**, not even one that may lie anywhere."));
    }
    let mut notes = vec![note];
    notes.extend(own.note());
    if unsliced > 0 {
        let jobs = format::counted(unsliced, "job is", "jobs are");
        notes.push(format!(
            "{jobs} of a number of pods that slices do not divide; Kueue would refuse such, and here each pod is a slice."
        ));
    }
    Ok(notes)
}

/// Returns the notes on the topologies that flavors name.
pub(super) fn notes(
    named: &BTreeMap<String, Vec<String>>,
    missing: &BTreeSet<String>,
    topology: Option<&Topology>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !missing.is_empty() {
        let list: Vec<&str> = missing.iter().map(String::as_str).collect();
        notes.push(format!(
            "Flavors name a Topology that the file does not have: {}. Add what `kubectl get topologies -o yaml` prints.",
            list.join(", ")
        ));
    }
    for (name, labels) in named {
        match topology {
            None => notes.push(format!(
                "Nothing says which nodes lie together in the Topology {name} ({}), so jobs are placed without it: add the Node objects to the file (`kubectl get nodes -o yaml`), or a [topology] to the file of --site, and --site topology for what jobs ask.",
                labels.join(", ")
            )),
            Some(topology) => {
                let unknown: Vec<&str> =
                    labels.iter().map(String::as_str).filter(|label| level_of(topology, label).is_none()).collect();
                if !unknown.is_empty() {
                    notes.push(format!(
                        "No level of the nodes stands for {} of the Topology {name}; there are {}.",
                        unknown.join(", "),
                        topology.levels().join(", ")
                    ));
                }
            }
        }
    }
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        Topology::regular(vec!["block".to_owned(), "rack".to_owned()], &[2, 2], 8).unwrap()
    }

    /// Requests of jobs of 1, 2, 64, 65 and 128 GPUs and of half a GPU.
    fn asked(text: &str) -> Vec<Option<TopologyRequest>> {
        let mut workload = Workload::default();
        for gpus in [1, 2, 64, 65, 128] {
            workload.push(0, 1, Shape::whole(gpus));
        }
        workload.push(0, 1, Shape::part(500));
        let cluster = Cluster { topology: Some(topology()), ..Cluster::of_vcs(&[("all", 8, 8)]) };
        let rules = TopologyRules::parse(text).unwrap();
        let notes = ask(&mut workload, &cluster, &rules, &[], &[]).unwrap();
        assert!(notes[0].starts_with("The nodes lie in 2 blocks and 4 racks. What jobs ask: "), "{notes:?}");
        (0..6).map(|job| workload.shape_of(job).request).collect()
    }

    #[test]
    fn a_job_has_the_rule_with_the_most_gpus_that_it_reaches() {
        let (rack, block) = (Some(TopologyRequest::required(1)), Some(TopologyRequest::preferred(0)));
        assert_eq!(asked("required:rack:2,preferred:block:65"), [None, rack, rack, block, block, None]);
        assert_eq!(asked("preferred:block:65, required:rack:2"), [None, rack, rack, block, block, None]);
        let all = Some(TopologyRequest::unconstrained());
        assert_eq!(asked("unconstrained"), [all, all, all, all, all, None]);
        let sliced = Some(TopologyRequest::required(0).sliced(1, 2));
        assert_eq!(asked("required:block:65:slices=rack/2"), [None, None, None, sliced, sliced, None]);
    }

    #[test]
    fn labels_stand_for_the_level_they_end_with() {
        let topology = topology();
        let of = |name: &str| level_of(&topology, name);
        assert_eq!([of("rack"), of("cloud.provider.com/topology-rack"), of("example.com/rack")], [Some(1); 3]);
        assert_eq!([of("node"), of(HOSTNAME)], [Some(2); 2]);
        assert_eq!([of("crack"), of("zone"), of("topology-racks")], [None; 3]);
        assert_eq!(["rack", "leaf", "block8"].map(many), ["racks", "leaves", "domains of block8"]);
    }

    #[test]
    fn what_is_wrong_says_how_it_is_mended() {
        for wrong in [
            "",
            "rack",
            "required",
            "required:",
            "required:rack:many",
            "required:rack:slices=rack",
            "required:rack:slices=rack/0",
            "required:rack,",
        ] {
            let message = TopologyRules::parse(wrong).unwrap_err().to_string();
            assert!(message.contains("such as required:rack:16"), "{wrong}: {message}");
        }
        assert!(
            TopologyRules::parse("required:rack:8,preferred:rack:8")
                .unwrap_err()
                .to_string()
                .contains("another least number")
        );
        let told = |text: &str| TopologyRules::parse(text).unwrap().requests(&topology()).unwrap_err().to_string();
        assert!(told("required:zone").contains("`zone`; there are block, rack, node"));
        assert!(told("required:rack:slices=block/2").contains("wider than one rack"));
        let (mut none, cluster) = (Workload::default(), Cluster::of_vcs(&[("all", 8, 8)]));
        let rules = TopologyRules::parse("required:rack").unwrap();
        let message = ask(&mut none, &cluster, &rules, &[], &[]).unwrap_err().to_string();
        assert!(message.contains("--site") && message.contains("[topology]"), "{message}");
    }
    /// Jobs of 8, 8, 16, 16, 16, 4 and half a GPU; what they asked themselves, and their pods.
    const SAID: [(u32, Option<&str>, Option<i64>); 7] = [
        (8, Some("required:example.com/topology-rack"), Some(4)),
        (8, None, Some(2)),
        (16, Some("preferred:block:slices=example.com/rack/2"), Some(4)),
        (16, Some("required:example.com/zone"), None),
        (16, Some("required:rack:9"), None),
        (4, Some("preferred:kubernetes.io/hostname"), Some(99)),
        (0, Some("required:rack"), Some(1)),
    ];

    fn said(rules: &str, topology: Option<Topology>) -> (Vec<(Option<TopologyRequest>, u16)>, Vec<String>) {
        let mut workload = Workload::default();
        for (gpus, _, _) in SAID {
            workload.push(0, 1, if gpus > 0 { Shape::whole(gpus) } else { Shape::part(500) });
        }
        let said = SAID.map(|(_, topology, pods)| Said { topology, pods });
        let cluster = Cluster { topology, ..Cluster::of_vcs(&[("all", 8, 8)]) };
        let notes = ask(&mut workload, &cluster, &TopologyRules::parse(rules).unwrap(), &said, &[]).unwrap();
        let of = |job: usize| (workload.shape_of(job).request, workload.shape_of(job).nodes);
        ((0..SAID.len()).map(of).collect(), notes)
    }

    #[test]
    fn what_a_job_asked_itself_comes_before_the_rules() {
        let (rack, block, host) =
            (TopologyRequest::required(1), TopologyRequest::preferred(0), TopologyRequest::preferred(2));
        let own = [Some(rack), None, Some(block.sliced(1, 2)), None, None, Some(host), None];
        let (result, notes) = said("as-recorded", Some(topology()));
        assert_eq!(result.iter().map(|of| of.0).collect::<Vec<_>>(), own);
        // Pods are those of the record, where it has some, and where there are no more than GPUs.
        assert_eq!(result.iter().map(|of| of.1).collect::<Vec<_>>(), [4, 0, 4, 0, 0, 0, 0]);
        assert!(notes[0].contains("3 jobs asked so themselves"), "{notes:?}");
        assert!(notes[1].starts_with("**2 jobs asked for what the topology does not have**"), "{notes:?}");
        assert!(
            notes[1].contains("required:example.com/zone (1 job; ") && notes[1].contains("`example.com/zone`"),
            "{notes:?}"
        );
        // Rules are for the others, those among them that asked for what is not there.
        let ruled: Vec<_> = said("unconstrained:9", Some(topology())).0.iter().map(|of| of.0).collect();
        let anywhere = Some(TopologyRequest::unconstrained());
        assert_eq!(ruled, [own[0], None, own[2], anywhere, anywhere, own[5], None]);
        let alone: Vec<_> = said("none,unconstrained:9", Some(topology())).0.iter().map(|of| of.0).collect();
        assert_eq!(alone, [None, None, anywhere, anywhere, anywhere, None, None]);
        assert_eq!(said("none", Some(topology())), (vec![(None, 0); 7], Vec::new()));
    }

    #[test]
    fn without_a_topology_what_jobs_asked_is_told_and_counts_for_nothing() {
        let (result, notes) = said("as-recorded", None);
        assert_eq!(result, [(None, 0); 7]);
        assert!(notes.len() == 1 && notes[0].starts_with("6 jobs asked how near their pods lie ("), "{notes:?}");
        assert_eq!(said("none", None).1, Vec::<String>::new());
        let misplaced = TopologyRules::parse("required:rack,none").unwrap_err().to_string();
        assert!(misplaced.contains("none,required:rack:16"), "{misplaced}");
    }
}
