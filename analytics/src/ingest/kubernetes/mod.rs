//! Reads what `kubectl get … -o json` writes: Kueue workloads and queues, pods, Jobs, nodes, KAI queues and events.
//!
//! Several files, and several snapshots taken at different times, are read as one; in which order makes no difference ([`store`]).
//!
//! * A Kueue [`workload`] is one job, from its creation over its admission to its end; earlier attempts as far as they are known
//!   ([`timeline`]). Its VC is the ClusterQueue ([`queue`]).
//! * A [`pod`] with GPUs that belongs to a workload says where that ran and on which GPU model. Other pods with GPUs are jobs: those
//!   of one owner (a `batch/v1` Job, a PyTorchJob, a JobSet, a PodGroup) are one job, a pod of a Deployment, a StatefulSet or of no
//!   owner is one of its own. A `batch/v1` Job ([`batch`]) of which no workload and no pod is left is a job too.
//! * What pods ask of the [`topology`] stands beside their job, and where a node lies ([`place`]) beside the node.
//! * A [`node`] is a machine of the machine list. Where its GPUs are time-sliced or cut into slices, what is asked for is a [`part`] of a GPU.
//!
//! **What still runs**: a dump does not say when it was taken. What runs or waits in the latest copy of it is counted as running or
//! waiting until the latest moment that any job of the trace names, as for every source without an end of record. What an older
//! snapshot holds and a later one lacks was deleted in between: its end is unknown, unless its Job still tells it.
//!
//! O(bytes) and a sort. Memory: what is used of each object, a few hundred bytes.
//!
//! Worked example: a Workload made at 10:00:00, admitted at 10:05:00 and finished at 11:05:00 with reason `Succeeded`, of 2 pods with 8
//! GPUs each, whose LocalQueue names the ClusterQueue `vision`: a job of 16 GPUs in the VC `vision` that waited 300 s, ran 3,600 s
//! and completed; two pods with its label on nodes `n1` and `n2` place 8 GPUs on each.

mod assembly;
mod batch;
mod division;
mod group;
mod job;
mod node;
mod note;
mod object;
mod objects;
mod part;
mod place;
mod pod;
pub mod quantity;
mod queue;
mod store;
mod timeline;
mod topology;
mod workload;

use super::document;
use super::options::ReadOptions;
use super::reader::{Confidence, Reader};
use super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::time::TimeBasis;
use crate::trace::Trace;
use objects::{FileObjects, Objects};

const REMEDY: &str = "export with `kubectl get … -o json`, and check that the command did not fail";

/// Kinds of objects that are read, and lists of them.
const KINDS: [&str; 13] = [
    "Workload",
    "Pod",
    "Job",
    "Node",
    "ClusterQueue",
    "LocalQueue",
    "Cohort",
    "ResourceFlavor",
    "Queue",
    "PodGroup",
    "Topology",
    "Event",
    "List",
];

/// Objects of a Kubernetes cluster.
#[derive(Debug)]
pub(super) struct Kubernetes;

impl Reader for Kubernetes {
    fn id(&self) -> &'static str {
        "kubernetes"
    }

    fn describes(&self) -> &'static str {
        "Kubernetes objects: kubectl get … -o json of Kueue workloads and queues, pods, Jobs, nodes, KAI queues"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if !head.text.trim_start().starts_with(['{', '[']) {
            return Confidence::No;
        }
        let named =
            |key: &'static str| fields(&head.text).filter(move |(name, _)| *name == key).map(|(_, value)| value);
        let kinds: Vec<&str> = named("kind").collect();
        if named("apiVersion").next().is_none() || kinds.is_empty() {
            return Confidence::No;
        }
        let known = |kind: &&str| KINDS.iter().any(|known| kind == known || kind.strip_suffix("List") == Some(*known));
        if kinds.iter().any(known) { Confidence::Sure } else { Confidence::Maybe }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut objects = Objects::default();
        for file in files {
            let mut sink = FileObjects::begin(file.name(), &mut objects, &mut trace.ledger);
            let documents = document::read(file, options, &["items"], "JSON", REMEDY, &mut sink)?;
            let any = sink.finish() > 0 || documents > 0;
            if !any && trace.ledger.damage.iter().all(|damage| damage.file != file.name()) {
                return Err(Error::Empty {
                    source_name: file.name().to_owned(),
                    what: "the file is empty".to_owned(),
                    remedy: REMEDY.to_owned(),
                });
            }
        }
        if objects.audited > 0 && objects.audited == objects.rows {
            return Err(Error::Format {
                file: files.first().map_or("", SourceFile::name).to_owned(),
                line: None,
                column: Some("apiVersion".to_owned()),
                found: "an audit log of the API server (audit.k8s.io), whose entries are requests and not objects"
                    .to_owned(),
                remedy: "export objects with `kubectl get … -A -o json` (events: `kubectl get events -A -o json`)"
                    .to_owned(),
            });
        }
        trace.basis = TimeBasis::Utc;
        options.zone_or("UTC")?.name().clone_into(&mut trace.zone);
        let divided = part::apply(&mut objects);
        assembly::assemble(&objects, divided, &options.node_labels, trace);
        Ok(())
    }
}

/// Names and values of the fields of a JSON text whose value is a text, as far as that can be told without parsing it.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    // Between quotes stands every second piece; escapes only shift that within a text of its own.
    let mut pieces = text.split('"');
    let mut before: Option<&str> = None;
    let mut colon = false;
    pieces.next();
    std::iter::from_fn(move || {
        loop {
            let word = pieces.next()?;
            let between = pieces.next().unwrap_or_default().trim();
            let result = before.filter(|_| colon).map(|name| (name, word));
            (before, colon) = (Some(word), between == ":");
            if result.is_some() {
                return result;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(text: &str) -> Confidence {
        Kubernetes.sniff(&Head { name: "a.json".to_owned(), text: text.to_owned(), more: true })
    }

    #[test]
    fn dumps_are_told_from_other_json() {
        assert_eq!(sniffed(r#"{ "apiVersion": "v1", "items": [], "kind": "List", "metadata": {} }"#), Confidence::Sure);
        assert_eq!(sniffed(r#"{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Pod","meta"#), Confidence::Sure);
        assert_eq!(sniffed(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"#), Confidence::Sure);
        assert_eq!(sniffed(r#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","#), Confidence::Sure);
        // An audit log is taken on, so that its reader can say what it is and what to export.
        assert_eq!(sniffed(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Meta"#), Confidence::Sure);
        assert_eq!(sniffed(r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"#), Confidence::Maybe);
        assert_eq!(sniffed(r#"{"kind":"Pod","jobs":[]}"#), Confidence::No);
        assert_eq!(sniffed(r#"{"meta":{"apiVersion":3},"jobs":[]}"#), Confidence::No);
        assert_eq!(sniffed("apiVersion: v1\nkind: Pod\n"), Confidence::No);
    }
}
