//! Reads the documents of a dump into objects, each accounted for.
//!
//! A document is a list of objects (`kubectl get … -o json`), one object (`kubectl get pod a -o json`, a line of a watch), or an event of
//! a watch (`--output-watch-events`: `{"type": …, "object": …}`). Lists are read element by element.
//!
//! In the ledger a row is an object as one document holds it. A copy in another snapshot is kept, as it is folded into the object. The
//! same copy twice in one document is quarantined as a repetition. Objects that say nothing of jobs or machines (Services, pods
//! without GPUs) are kept, counted, and named in a note. Entries of an audit log are no objects: they are quarantined.
//!
//! Worked example: a list of two pods with GPUs, one without and a Service: 4 rows kept, two objects stored, and the note says
//! "Service (1); pod without GPUs (1)".

use std::collections::BTreeMap;

use serde_json::Value;

use super::batch::Job;
use super::node::Node;
use super::object::{Kind, Meta, latest, text};
use super::place::Levels;
use super::pod::{Pod, with_gpus};
use super::queue::{ClusterQueue, Flavor, LocalQueue, PodGroup, Queue};
use super::store::{Documents, Open, Place, Store, Stored, Taken};
use super::workload::{Workload, WorkloadEvent};
use crate::error::Result;
use crate::ingest::document::{Around, Sink};
use crate::quality::{Ledger, Reason, RowAudit, reason};

/// An element that is no object of Kubernetes.
const NO_KIND: Reason = Reason {
    id: "no_kind",
    what: "the record has no kind, and nothing in it tells which kind of object it is",
    remedy: "export whole objects: kubectl get … -o json",
};
/// The API server refused to answer.
const REFUSED: Reason = Reason {
    id: "api_refused",
    what: "the record is a refusal of the API server in place of objects",
    remedy: "check the permissions of the account, and export again",
};
/// An entry of an audit log.
const AUDIT: Reason = Reason {
    id: "audit_entry",
    what: "the record is an entry of the API server's audit log, which tells of requests and not what there is",
    remedy: "export objects in its place: kubectl get … -A -o json (events: kubectl get events -A -o json)",
};

/// All objects of a request.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) documents: Documents,
    pub(super) workloads: Store<Workload>,
    pub(super) pods: Store<Pod>,
    pub(super) jobs: Store<Job>,
    pub(super) nodes: Store<Node>,
    pub(super) cluster_queues: Store<ClusterQueue>,
    pub(super) cohorts: Store<ClusterQueue>,
    pub(super) local_queues: Store<LocalQueue>,
    pub(super) flavors: Store<Flavor>,
    pub(super) queues: Store<Queue>,
    pub(super) groups: Store<PodGroup>,
    pub(super) topologies: Store<Levels>,
    /// Events that tell when an attempt began or ended.
    pub(super) events: Vec<WorkloadEvent>,
    /// Files by their number.
    pub(super) files: Vec<String>,
    /// Counts of items read and not used, by their kind.
    pub(super) passed: BTreeMap<String, u64>,
    /// Rows, and how many of them are entries of an audit log.
    pub(super) rows: u64,
    pub(super) audited: u64,
}

impl Objects {
    fn pass(&mut self, what: &str) {
        if let Some(many) = self.passed.get_mut(what) {
            *many += 1;
        } else {
            self.passed.insert(what.to_owned(), 1);
        }
    }
}

/// The objects of one file.
pub(super) struct FileObjects<'a> {
    file: &'a str,
    number: u64,
    open: Open,
    objects: &'a mut Objects,
    ledger: &'a mut Ledger,
}

impl<'a> FileObjects<'a> {
    pub(super) fn begin(file: &'a str, objects: &'a mut Objects, ledger: &'a mut Ledger) -> Self {
        objects.files.push(file.to_owned());
        Self { file, number: 0, open: Open::default(), objects, ledger }
    }

    /// Ends the file, which may have been cut within a list; gives how many objects it held.
    pub(super) fn finish(mut self) -> u64 {
        self.objects.documents.end(&mut self.open, false);
        self.number
    }

    /// Takes one object: of a list, or one that a watch says was deleted.
    fn object(&mut self, value: &Value, listed: bool, deleted: bool) {
        self.number += 1;
        self.objects.rows += 1;
        let mut row = RowAudit::new(self.file, self.number);
        let Some((kind, word)) = Kind::of(value) else {
            self.ledger.quarantine(&row, NO_KIND, "kind", &value.to_string());
            return;
        };
        if kind == Kind::Audit {
            self.objects.audited += 1;
            self.ledger.quarantine(&row, AUDIT, "apiVersion", text(value.get("apiVersion")).unwrap_or_default());
            return;
        }
        if word == "Status" {
            self.ledger.quarantine(&row, REFUSED, text(value.get("reason")).unwrap_or_default(), &value.to_string());
            return;
        }
        let Some(meta) = Meta::read(value, kind, &mut row) else {
            self.ledger.quarantine(&row, reason::NO_KEY, "name", &value.to_string());
            return;
        };
        let latest = latest(value);
        self.open.tells(kind, &meta, latest, listed);
        let created = meta.created;
        let place = Place { file: self.objects.files.len().saturating_sub(1), line: self.number, clean: true };
        let taken = Taken { place, document: self.objects.documents.current(), latest, deleted };
        let objects = &mut *self.objects;
        let new = match kind {
            Kind::Workload | Kind::Job if created.is_none() => Err(()),
            Kind::Workload => Ok(put(&mut objects.workloads, Workload::read(value, meta, &mut row), taken, &row)),
            Kind::Job => Ok(put(&mut objects.jobs, Job::read(value, meta, &mut row), taken, &row)),
            Kind::Pod => match with_gpus(value, meta, &mut row) {
                None => {
                    objects.pass("pod without GPUs");
                    Ok(true)
                }
                Some(pod) if pod.is_reservation() => {
                    objects.pass("pod that reserves a GPU for those that share it");
                    Ok(true)
                }
                Some(_) if created.is_none() => Err(()),
                Some(pod) => Ok(put(&mut objects.pods, pod, taken, &row)),
            },
            Kind::Node => Ok(put(&mut objects.nodes, Node::read(value, meta, &mut row), taken, &row)),
            Kind::ClusterQueue => {
                Ok(put(&mut objects.cluster_queues, ClusterQueue::read(value, meta, &mut row), taken, &row))
            }
            Kind::Cohort => Ok(put(&mut objects.cohorts, ClusterQueue::read(value, meta, &mut row), taken, &row)),
            Kind::LocalQueue => Ok(put(&mut objects.local_queues, LocalQueue::read(value, meta), taken, &row)),
            Kind::Flavor => Ok(put(&mut objects.flavors, Flavor::read(value, meta), taken, &row)),
            Kind::Queue => Ok(put(&mut objects.queues, Queue::read(value, meta), taken, &row)),
            Kind::PodGroup => Ok(put(&mut objects.groups, PodGroup::read(value, meta, &mut row), taken, &row)),
            Kind::Topology => Ok(put(&mut objects.topologies, Levels::read(value, meta, &mut row), taken, &row)),
            Kind::Event => {
                match WorkloadEvent::read(value, &mut row) {
                    Some(event) => objects.events.push(event),
                    None => objects.pass("Event"),
                }
                Ok(true)
            }
            Kind::Audit | Kind::Other => {
                objects.pass(word);
                Ok(true)
            }
        };
        match new {
            Ok(true) => self.ledger.keep(row),
            Ok(false) => self.ledger.quarantine(&row, reason::DUPLICATE, "uid", &value.to_string()),
            Err(()) => self.ledger.quarantine(&row, reason::NO_SUBMIT, "creationTimestamp", &value.to_string()),
        }
    }
}

/// Stores an object; `false` if the document held the same copy before.
fn put<T: Stored>(store: &mut Store<T>, object: T, mut taken: Taken, row: &RowAudit<'_>) -> bool {
    taken.place.clean = row.is_clean();
    store.take(object, taken)
}

impl Sink for FileObjects<'_> {
    fn element(&mut self, value: Value) {
        self.object(&value, true, false);
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        let rest = &around.rest;
        let is_list = rest.is_boolean()
            || rest.get("items").is_some_and(|items| items.is_boolean() || items.is_null())
            || text(rest.get("kind")).is_some_and(|kind| kind.ends_with("List"));
        match (text(rest.get("type")), rest.get("object").filter(|object| object.is_object())) {
            _ if is_list => {}
            // A bookmark only says how far the watch has come.
            (Some("BOOKMARK"), Some(_)) => {}
            (Some(what), Some(object)) => self.object(object, false, what == "DELETED"),
            _ => self.object(rest, false, false),
        }
        self.objects.documents.empty += u64::from(is_list && self.open.is_empty());
        self.objects.documents.end(&mut self.open, true);
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.ledger
    }
}
