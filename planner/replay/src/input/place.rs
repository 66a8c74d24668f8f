//! Where the nodes of a trace lie, by their names: as its machine list says, or a file beside it ([`super::switches`]).
//!
//! The machine list writes `LABEL=DOMAIN,LABEL=DOMAIN`, the widest level first. A level is called as its label ends: `cloud.provider.com/topology-rack` and `gce-topology-rack` are `rack`. The label `node` is `label-node`, as the node itself is a level.
//! Nodes of a cluster have numbers and those of a trace have names; which is which, [`super::failure`] says. O(nodes × levels). Worked example: of three nodes of 8 GPUs n1 and n3 lie in rack r1, n2 in r2: the nodes 0, 1 and 2 lie in r1, r2 and r1.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::schema::Table;

use super::failure;
use super::near::HOSTNAME;
use tracecast_sim;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::topology::{MOST_LEVELS, NODE, Topology};

/// Usual prefix of a level's name in its label.
const BEFORE: &str = "topology-";

/// Where nodes lie, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePlaces {
    /// Source of the places, in words.
    pub(super) basis: String,
    /// Names of the levels, the widest first.
    pub(super) levels: Vec<String>,
    /// By node, its domain of each level.
    pub(super) of: BTreeMap<String, Vec<String>>,
}

/// Where the nodes of a cluster lie, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Located {
    pub(super) levels: Vec<String>,
    /// By node, its domain of each level; `None` if it lies nowhere.
    pub(super) paths: Vec<Option<Vec<String>>>,
}

impl NodePlaces {
    /// Whether a node of the machine list lies in domains of these labels.
    pub fn has_labels(trace: &Trace, labels: &[String]) -> bool {
        let has = |place: &str| {
            let named: Vec<&str> = place.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
            labels.iter().all(|label| label == HOSTNAME || named.contains(&label.as_str()))
        };
        trace.nodes.place.iter().flatten().any(has)
    }

    /// Reads the places from the machine list of a trace; `None` if it says nothing of them. Nodes
    /// with other levels than the first count as lying nowhere, and of more levels than there may
    /// be the narrowest are taken.
    pub(super) fn of_trace(trace: &Trace) -> Option<Self> {
        let nodes = &trace.nodes;
        let read = |row: usize| {
            let pairs = nodes.place.get(row)?.split(',').map(|pair| pair.split_once('='));
            let pairs: Option<Vec<(&str, &str)>> = pairs.collect();
            Some((nodes.node.get(row)?, pairs?))
        };
        let (_, first) = (0..nodes.len()).find_map(read)?;
        let labels: Vec<&str> = first.iter().map(|(label, _)| *label).collect();
        let wider = labels.len().saturating_sub(MOST_LEVELS - 1);
        let alike =
            |(_, pairs): &(&str, Vec<(&str, &str)>)| pairs.iter().map(|(label, _)| *label).eq(labels.iter().copied());
        let path = |(node, pairs): (&str, Vec<(&str, &str)>)| {
            (node.to_owned(), pairs.into_iter().skip(wider).map(|(_, domain)| domain.to_owned()).collect())
        };
        let of = (0..nodes.len()).filter_map(read).filter(alike).map(path).collect();
        Some(Self { basis: "the trace's machine list".to_owned(), levels: names(&labels[wider..]), of })
    }

    /// Where the nodes of a cluster lie that is the trace's own; `None` if none of its nodes is known.
    pub(super) fn located(&self, trace: &Trace, cluster: &Cluster) -> Option<Located> {
        let mut paths: Vec<Option<Vec<String>>> = vec![None; cluster.most_nodes() as usize];
        for (name, number) in failure::numbers(trace, cluster) {
            if let Some(path) = paths.get_mut(number as usize) {
                *path = self.of.get(name).cloned();
            }
        }
        paths.iter().any(Option::is_some).then(|| Located { levels: self.levels.clone(), paths })
    }
}

impl Located {
    /// Builds the topology for a replay.
    ///
    /// # Errors
    /// Errors of [`Topology::new`].
    pub(super) fn topology(&self) -> tracecast_sim::Result<Topology> {
        let paths: Vec<Option<Vec<&str>>> =
            self.paths.iter().map(|path| Some(path.as_ref()?.iter().map(String::as_str).collect())).collect();
        Topology::of_names(self.levels.clone(), &paths)
    }

    /// The nodes `first..first + count` by where they lie, in the order of the domains' names; those that lie nowhere last.
    pub(super) fn together(&self, first: u32, count: u32) -> Vec<(Option<&Vec<String>>, Vec<u32>)> {
        let path = |node: u32| self.paths.get((first + node) as usize).and_then(Option::as_ref);
        let mut nodes: Vec<u32> = (0..count).collect();
        nodes.sort_by_key(|node| (path(*node).is_none(), path(*node)));
        nodes.chunk_by(|a, b| path(*a) == path(*b)).filter_map(|of| Some((path(*of.first()?), of.to_vec()))).collect()
    }
}

/// Names of the levels with these labels, each a different one.
fn names(labels: &[&str]) -> Vec<String> {
    let plain = |label: &&str| label.rsplit_once('/').map_or(*label, |(_, plain)| plain).to_owned();
    let short = |label: &&str| {
        let plain = plain(label);
        let rest = plain.rsplit_once(BEFORE).map(|(_, rest)| rest).filter(|rest| !rest.is_empty());
        rest.map_or_else(|| plain.clone(), str::to_owned)
    };
    // Nor may one be called as the node is, or nothing.
    let is_name = |name: &str| name != NODE && !name.is_empty();
    let differ = |names: &[String]| (0..names.len()).all(|at| is_name(&names[at]) && !names[..at].contains(&names[at]));
    let short: Vec<String> = labels.iter().map(short).collect();
    let plain: Vec<String> = labels.iter().map(plain).collect();
    [short, plain].into_iter().find(|names| differ(names)).unwrap_or_else(|| whole(labels))
}

/// Labels as names of levels, in whole; what cannot be a name, or is one already, is written in another way.
fn whole(labels: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(labels.len());
    for label in labels {
        let begin = match *label {
            NODE => "label-node",
            "" => "label",
            other => other,
        };
        let mut name = begin.to_owned();
        let mut next = 2;
        while names.contains(&name) {
            name = format!("{begin}-{next}");
            next += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::NodeRow;

    use super::*;

    #[test]
    fn nodes_of_the_machine_list_lie_where_it_says() {
        let mut trace = Trace::default();
        for (name, gpus, place) in [
            ("n1", 8.0, Some("a/topology-block=b1,a/topology-rack=r1")),
            ("n2", 8.0, Some("a/topology-block=b1,a/topology-rack=r2")),
            ("cpu", 0.0, Some("a/topology-block=b1,a/topology-rack=r1")),
            ("n3", 8.0, Some("a/topology-block=b1,a/topology-rack=r1")),
            ("n4", 8.0, Some("zone=z")),
            ("n5", 4.0, None),
        ] {
            trace.nodes.push(NodeRow {
                node: Some(name.into()),
                gpus: Some(gpus),
                place: place.map(Into::into),
                ..NodeRow::default()
            });
        }
        let places = NodePlaces::of_trace(&trace).unwrap();
        assert_eq!(places.levels, ["block", "rack"]);
        // Four nodes of 8 GPUs, and one of 4, which comes first.
        let mut cluster = Cluster::of_vcs(&[("all", 1, 4)]);
        cluster.pools[0].groups.push(tracecast_sim::Group::fixed(4, 8));
        let located = places.located(&trace, &cluster).unwrap();
        let topology = located.topology().unwrap();
        let racks: Vec<Option<u32>> = (0..5).map(|node| topology.domain(node, 1)).collect();
        assert_eq!((racks[0], racks[1] == racks[3], racks[1] == racks[2], racks[4]), (None, true, false, None));
        let together: Vec<Vec<u32>> = located.together(1, 4).into_iter().map(|(_, nodes)| nodes).collect();
        assert_eq!(together, [vec![0, 2], vec![1], vec![3]]);
        assert_eq!(NodePlaces::of_trace(&Trace::default()), None);
    }

    #[test]
    fn of_too_many_levels_the_narrowest_are_taken() {
        let mut trace = Trace::default();
        let place: Vec<String> = (0..9).map(|level| format!("l{level}=d{level}")).collect();
        let node = NodeRow { node: Some("n".into()), place: Some(place.join(",").into()), ..NodeRow::default() };
        trace.nodes.push(node);
        let places = NodePlaces::of_trace(&trace).unwrap();
        assert_eq!((places.levels.len(), places.levels[0].as_str(), places.of["n"][0].as_str()), (7, "l2", "d2"));
    }

    #[test]
    fn levels_are_called_as_their_labels_end() {
        assert_eq!(
            names(&["cloud.google.com/gce-topology-block", "a/topology-rack", "zone"]),
            ["block", "rack", "zone"]
        );
        assert_eq!(names(&["a/topology-rack", "b/x-topology-rack"]), ["topology-rack", "x-topology-rack"]);
        assert_eq!(names(&["a/rack", "b/rack"]), ["a/rack", "b/rack"]);
        assert_eq!(names(&["a/topology-node"]), ["topology-node"]);
        // Whatever a label is, there is a topology.
        assert_eq!(names(&["zone", "node"]), ["zone", "label-node"]);
        assert_eq!(names(&["a", "a", ""]), ["a", "a-2", "label"]);
    }
}
