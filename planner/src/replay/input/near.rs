//! Which jobs ask for blocks or racks: rules such as `required:rack:16`, for traces that do not say.
//!
//! A rule is `required:LEVEL`, `preferred:LEVEL` or `unconstrained`, for all jobs, or with `:GPUS` for jobs of at least so many. `slices=LEVEL/PODS` adds groups of so many pods that lie in one domain each. Rules are separated by
//! commas; a job has the one with the most GPUs that it reaches. Levels are those of the cluster's topology; a node label, as Kueue has it, stands for the level that it ends with.
//!
//! Under Kueue's quotas a job that no rule reaches asks for nothing as well, but where all flavors of its queue name a `Topology`: there it is unconstrained, as Kueue has it. Jobs of a part of one GPU ask for nothing.
//!
//! O(jobs). Worked example: under `required:rack:2,preferred:block:65` a job of 1 GPU lies anywhere, one of 64 in one rack, one of 128 in one block if that can be.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::report::format;

use crate::error::{Error, Result};
use crate::replay::metric::near;
use crate::sim::cluster::Cluster;
use crate::sim::topology::{NODE, Topology, TopologyRequest};
use crate::sim::workload::{Shape, Workload};

/// How a rule is written.
const REMEDY: &str = "write required:LEVEL, preferred:LEVEL or unconstrained, then perhaps :GPUS and :slices=LEVEL/PODS, such as required:rack:16";
/// The label of the node itself.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// How near to each other.
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

/// Rules that say what jobs ask of the topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyRules {
    text: String,
    /// The one with the most GPUs last.
    rules: Vec<Rule>,
}

impl TopologyRules {
    /// Rules as they are written.
    ///
    /// # Errors
    /// If one is not of this form, or two are for the same jobs.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |found: &str, remedy: &str| Error::Malformed {
            what: "rule for the topology",
            found: found.to_owned(),
            remedy: remedy.to_owned(),
        };
        let mut rules: Vec<Rule> = Vec::new();
        for rule in text.split(',').map(str::trim) {
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
            let mut found = Rule { mode, least_gpus: 0, slices: None };
            for part in parts {
                if let Some(slices) = part.strip_prefix("slices=") {
                    // A label holds a slash of its own.
                    let (level, pods) = slices.rsplit_once('/').ok_or_else(|| wrong(rule, REMEDY))?;
                    if found.slices.is_some() {
                        return Err(wrong(rule, "write one slices="));
                    }
                    let pods = pods.parse().ok().filter(|pods| *pods > 0).ok_or_else(|| wrong(rule, REMEDY))?;
                    found.slices = Some((level.to_owned(), pods));
                } else if found.least_gpus > 0 {
                    return Err(wrong(
                        rule,
                        "write one least number of GPUs; a rule for larger jobs ends where the next begins, such as required:rack:9,unconstrained:33",
                    ));
                } else {
                    found.least_gpus = part.parse().map_err(|_| wrong(rule, REMEDY))?;
                }
            }
            if rules.iter().any(|other| other.least_gpus == found.least_gpus) {
                return Err(wrong(
                    text,
                    "give each rule another least number of GPUs, such as required:rack:2,preferred:block:65",
                ));
            }
            rules.push(found);
        }
        rules.sort_by_key(|rule| rule.least_gpus);
        Ok(Self { text: text.to_owned(), rules })
    }

    /// What was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The requests of a topology, with the least number of GPUs of each.
    fn requests(&self, topology: &Topology) -> Result<Vec<(u32, TopologyRequest)>> {
        let level = |name: &str| {
            level_of(topology, name).ok_or_else(|| {
                let known: Vec<&str> = topology.levels().iter().map(String::as_str).chain([NODE]).collect();
                Error::Cluster(format!("no level of the topology is called `{name}`; there are {}", known.join(", ")))
            })
        };
        let of = |rule: &Rule| {
            let (request, own) = match &rule.mode {
                Mode::Required(name) => (TopologyRequest::required(level(name)?), level(name)?),
                Mode::Preferred(name) => (TopologyRequest::preferred(level(name)?), level(name)?),
                Mode::Unconstrained => (TopologyRequest::unconstrained(), 0),
            };
            let Some((name, pods)) = &rule.slices else { return Ok((rule.least_gpus, request)) };
            let inner = level(name)?;
            if inner < own {
                return Err(Error::Cluster(format!(
                    "slices are to lie in one {}, which is wider than one {}, where the whole job is to lie",
                    topology.name(inner),
                    topology.name(own)
                )));
            }
            Ok((rule.least_gpus, request.sliced(inner, *pods)))
        };
        self.rules.iter().map(of).collect()
    }
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

/// Gives jobs their requests, and says what they are. `implied` says of each VC whether its jobs are unconstrained where no rule reaches them.
///
/// # Errors
/// If there are rules and the cluster has no topology, or not a level that they name.
pub(super) fn ask(
    workload: &mut Workload,
    cluster: &Cluster,
    rules: Option<&TopologyRules>,
    implied: &[bool],
) -> Result<Vec<String>> {
    let Some(topology) = &cluster.topology else {
        return match rules {
            None => Ok(Vec::new()),
            Some(rules) => Err(Error::Cluster(format!(
                "jobs ask for {}, and nothing says which nodes lie together; add to the file of --cluster, for racks of 16 nodes and blocks of 4 racks:\n\n[topology]\nlevels = [\"block\", \"rack\"]\nsizes = [4, 16]",
                rules.text
            ))),
        };
    };
    let requests = rules.map(|rules| rules.requests(topology)).transpose()?.unwrap_or_default();
    if requests.is_empty() && !implied.contains(&true) {
        return Ok(Vec::new());
    }
    let mut places: BTreeMap<Shape, u16> = BTreeMap::new();
    let mut shapes: Vec<Shape> = Vec::new();
    let (mut of_kinds, mut unsliced): (BTreeMap<TopologyRequest, u64>, u64) = (BTreeMap::new(), 0);
    let largest = cluster.pools.iter().flat_map(|pool| &pool.groups).map(|group| group.gpus_per_node).max();
    for (vc, at) in workload.vc.iter().zip(&mut workload.shape) {
        let mut shape = workload.shapes.get(usize::from(*at)).copied().unwrap_or_default();
        let ruled = requests.iter().rev().find(|(least, _)| shape.gpus >= *least).map(|(_, request)| *request);
        let otherwise = implied.get(usize::from(*vc)) == Some(&true);
        let request = ruled.or_else(|| otherwise.then(TopologyRequest::unconstrained));
        shape.request = request.filter(|_| shape.gpus > 0);
        if let Some(request) = shape.request {
            *of_kinds.entry(request).or_default() += 1;
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
    let level = |level: u8| {
        let name = topology.name(level);
        format::counted(topology.count(level) as u64, name, &format!("{name}s"))
    };
    let levels: Vec<String> = (0..topology.node_level()).map(level).collect();
    let asked = if told.is_empty() { "nothing: no rule reaches a job".to_owned() } else { told.join("; ") };
    let mut note = format!("The nodes lie in {}. What jobs ask: {asked}.", levels.join(" and "));
    let outside = topology.nodes().saturating_sub(topology.placed()) as u64;
    if outside > 0 {
        let nodes = format::counted(outside, "node lies in no domain, and takes", "nodes lie in no domain, and take");
        note.push_str(&format!(" **{nodes} none of these jobs**, those that may lie anywhere among them."));
    }
    let mut notes = vec![note];
    if unsliced > 0 {
        let jobs = format::counted(unsliced, "job is", "jobs are");
        notes.push(format!(
            "{jobs} of a number of pods that slices do not divide; Kueue would refuse such, and here each pod is a slice."
        ));
    }
    Ok(notes)
}

/// What to say of the topologies that flavors name.
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
                "Nothing says which nodes lie together in the Topology {name} ({}), so jobs are placed without it: add the Node objects to the file (`kubectl get nodes -o yaml`), or a [topology] to the file of --cluster, and --topology for what jobs ask.",
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

    /// What jobs of 1, 2, 64, 65 and 128 GPUs and one of half a GPU ask.
    fn asked(text: &str) -> Vec<Option<TopologyRequest>> {
        let mut workload = Workload::default();
        for gpus in [1, 2, 64, 65, 128] {
            workload.push(0, 1, Shape::whole(gpus));
        }
        workload.push(0, 1, Shape::part(500));
        let cluster = Cluster { topology: Some(topology()), ..Cluster::of_vcs(&[("all", 8, 8)]) };
        let rules = TopologyRules::parse(text).unwrap();
        let notes = ask(&mut workload, &cluster, Some(&rules), &[]).unwrap();
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
        let message = ask(&mut none, &cluster, Some(&rules), &[]).unwrap_err().to_string();
        assert!(message.contains("--cluster") && message.contains("[topology]"), "{message}");
    }
}
