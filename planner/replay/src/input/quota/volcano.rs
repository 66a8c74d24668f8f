//! Queues as Volcano's objects have them: Queues, the configuration of its scheduler, and priority classes.
//!
//! Read are Queues of the group `scheduling.volcano.sh` as `kubectl get queues.scheduling.volcano.sh -o yaml` prints them, and `volcano-scheduler.conf` in its ConfigMap, or as a document of its own (module `conf`). Of `deserved`, `guarantee.resource` and `capability` the amounts of what jobs compete for count: GPUs of all kinds
//! together (or `cpu`). What is not written is what Volcano takes it for: a weight of 1, no guarantee, no capability, reclaimable, a priority of 0. `root` is what lies above all queues, and no queue of its own. `parent` counts under the plugin capacity with `enableHierarchy: true`; a queue without queues below it
//! is then a VC of the replay, else every queue is. Of equals the queue with the earlier `creationTimestamp` comes first, one without before all others, then by name. A job's priority is the `value` of its PriorityClass, else that of the class that is the `globalDefault`, else 0.
//!
//! O(bytes). Worked example: `weight: 2` beside a queue of weight 1, both full of jobs, deserves two thirds of the GPUs under the plugin proportion.

mod conf;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tracecast_analytics::ingest::quantity::is_slice;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use self::conf::Conf;
use super::listed::{self, ListedQueue, QueuePlace};
use super::{MOST, MOST_COUNTED, MOST_QUEUES, Place, counts, of_group, priority_class};
use crate::error::{Error, Result};
use crate::yaml::{Document, documents};
use tracecast_sim::cluster::{Cluster, Vc};
use tracecast_sim::volcano::{Plugin, VolcanoQueue, VolcanoQueues, VolcanoRules};

/// The group of Volcano's queues.
const GROUP: &str = "scheduling.volcano.sh/";
/// How the queues are exported.
const EXPORT: &str = "export all of them with `kubectl get queues.scheduling.volcano.sh -o yaml`";
/// Name of the queue above all others.
const ROOT: &str = "root";
/// Fields of a queue's `spec`.
const SPEC_FIELDS: [&str; 12] = [
    "weight",
    "capability",
    "reclaimable",
    "guarantee",
    "deserved",
    "parent",
    "priority",
    "type",
    "affinity",
    "extendClusters",
    "dequeueStrategy",
    "state",
];

/// Amounts of a resource that a queue has, thousandths of a GPU or processor.
#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    deserved: Option<u64>,
    guarantee: Option<u64>,
    capability: Option<u64>,
}

#[derive(Debug, Clone)]
struct Written {
    listed: ListedQueue,
    weight: u32,
    priority: i32,
    reclaimable: bool,
    gpus: Amounts,
    cpus: Amounts,
}

/// A checked file of Volcano's queues.
#[derive(Debug, Clone, Default)]
pub(super) struct VolcanoFile {
    file: String,
    queues: Vec<Written>,
    rules: VolcanoRules,
    priorities: BTreeMap<String, i32>,
    usual: i32,
    notes: Vec<String>,
    /// Kinds of GPUs that are named.
    kinds: BTreeSet<String>,
}

/// Whether a file holds queues of Volcano.
pub(super) fn is_volcano(documents: &[Document]) -> bool {
    documents.iter().any(|document| is_queue(&document.content))
}

fn kind_of(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("object without a kind")
}

fn is_queue(object: &Value) -> bool {
    kind_of(object) == "Queue" && of_group(object, GROUP)
}

impl VolcanoFile {
    /// Reads the objects of a file called `file`.
    pub(super) fn parse(file: &str, documents: &[Document]) -> Result<Self> {
        let mut result = Self { file: file.to_owned(), ..Self::default() };
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        let mut conf: Option<Conf> = None;
        for document in documents {
            let object = &document.content;
            let kind = kind_of(object);
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let place = Place { file, line: document.line, what: format!("{kind} {name}").trim_end().to_owned() };
            let written = configuration(object, &place)?;
            if let Some(written) = written {
                if conf.replace(written).is_some() {
                    return Err(place.wrong("there is another configuration of the scheduler; leave the one that runs"));
                }
            } else if is_queue(object) {
                result.take(name, object, &place)?;
            } else if kind == "PriorityClass" {
                let value = priority_class(object, &place)?;
                if object.get("globalDefault").and_then(Value::as_bool) == Some(true) {
                    result.usual = value;
                }
                result.priorities.insert(name.to_owned(), value);
            } else {
                *others.entry(kind.to_owned()).or_default() += 1;
            }
        }
        if !others.is_empty() {
            let list: Vec<String> = others.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
            let list = list.join(", ");
            result.notes.push(format!("Objects of {file} that say nothing of Volcano's queues are not read: {list}."));
        }
        if result.queues.is_empty() {
            return Err(Error::File {
                file: file.to_owned(),
                line: 1,
                what: format!("there is no Queue but {ROOT}; {EXPORT}"),
            });
        }
        result.configure(conf);
        // What can be wrong with the queues is wrong for all resources.
        result.tree(Resource::Gpus)?;
        Ok(result)
    }

    /// Sets the rules of all queues: as configured, or the usual ones for such queues.
    fn configure(&mut self, conf: Option<Conf>) {
        let has_parents = self.queues.iter().any(|queue| queue.listed.parent.is_some());
        let deserves = self.queues.iter().any(|queue| queue.gpus.deserved.or(queue.cpus.deserved).is_some());
        let conf = conf.unwrap_or_else(|| {
            let conf = Conf::usual(deserves, has_parents);
            self.notes.push(format!(
                "No volcano-scheduler.conf is in {}: taken are the plugin {}{} and the actions {}. Add its ConfigMap to name others.",
                self.file,
                if deserves { "capacity, as queues have `deserved`," } else { "proportion" },
                if conf.is_tree { " with `enableHierarchy: true`, as they have a `parent`," } else { "" },
                conf.actions(),
            ));
            conf
        });
        if has_parents && !conf.is_tree {
            self.queues.iter_mut().for_each(|queue| queue.listed.parent = None);
            self.notes.push("Queues have a `parent`; it counts under the plugin capacity with `enableHierarchy: true` alone, so all are equal here.".to_owned());
        }
        let weighs = self.queues.iter().any(|queue| queue.weight != 1);
        match conf.rules.plugin {
            Plugin::Capacity if !deserves => self.notes.push("No queue has an amount of GPUs (or cpu) that it deserves, so under the plugin capacity each deserves nothing; weights count under the plugin proportion alone.".to_owned()),
            Plugin::Capacity if weighs => self.notes.push("Weights of queues count under the plugin proportion alone, and are not read under capacity.".to_owned()),
            Plugin::Proportion if deserves => self.notes.push("Under the plugin proportion weights say what queues deserve; their `deserved` counts under the plugin capacity alone, and is not read.".to_owned()),
            _ => {}
        }
        self.rules = conf.rules;
        self.notes.extend(conf.notes);
        if self.kinds.len() > 1 {
            let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
            self.notes.push(format!(
                "GPUs of all kinds count alike, so amounts of these are added up: {}.",
                kinds.join(", ")
            ));
        }
    }

    fn take(&mut self, name: &str, object: &Value, place: &Place<'_>) -> Result<()> {
        place.fields(object.get("spec"), "spec", &SPEC_FIELDS)?;
        if name == ROOT {
            return Ok(());
        }
        if self.queues.iter().any(|other| other.listed.name == name) {
            return Err(place.wrong("it is there twice"));
        }
        if self.queues.len() >= MOST_QUEUES {
            return Err(place.wrong(format!("there are more than {MOST_QUEUES} queues")));
        }
        let number = |field: &str, usual: i32, least: i32| -> Result<i32> {
            match object.pointer(&format!("/spec/{field}")) {
                None | Some(Value::Null) => Ok(usual),
                Some(value) => {
                    let number = value.as_i64().and_then(|value| i32::try_from(value).ok());
                    let what = if least > i32::MIN { format!(" from {least}") } else { String::new() };
                    number
                        .filter(|number| *number >= least)
                        .ok_or_else(|| place.wrong(format!("spec.{field} is {value}; write a whole number{what}")))
                }
            }
        };
        let reclaimable = match object.pointer("/spec/reclaimable") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(reclaimable)) => *reclaimable,
            Some(other) => return Err(place.wrong(format!("spec.reclaimable is {other}; write true or false"))),
        };
        let weight = number("weight", 1, 1)?;
        self.say(name, object);
        let parent = place.text(object, "/spec/parent")?.filter(|parent| parent != ROOT);
        let queue = Written {
            listed: ListedQueue::new(name, parent, object, place)?,
            weight: weight.unsigned_abs(),
            priority: number("priority", 0, i32::MIN)?,
            reclaimable,
            gpus: self.amounts(object, Resource::Gpus, place)?,
            cpus: self.amounts(object, Resource::Cpus, place)?,
        };
        self.queues.push(queue);
        Ok(())
    }

    /// Notes what of a queue is not replayed.
    fn say(&mut self, name: &str, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        if text("/status/state").is_some_and(|state| state != "Open") {
            self.notes.push(format!("Queue {name} is not open; in the replay it runs jobs."));
        }
        if let Some(strategy) = text("/spec/dequeueStrategy").filter(|strategy| *strategy != "traverse") {
            self.notes.push(format!("The dequeueStrategy {strategy} of queue {name} is not replayed, but `traverse`."));
        }
        let bare = object.pointer("/spec/guarantee").and_then(Value::as_object);
        if bare.is_some_and(|guarantee| !guarantee.is_empty() && !guarantee.contains_key("resource")) {
            self.notes.push(format!(
                "The guarantee of queue {name} is not read: its amounts must stand in `guarantee.resource`."
            ));
        }
        if object.pointer("/spec/affinity").is_some_and(|affinity| !affinity.is_null()) {
            self.notes.push(format!("The affinity of queue {name} is not replayed: its jobs run on all nodes."));
        }
    }

    /// Returns the amounts of a resource that a queue has.
    fn amounts(&mut self, object: &Value, resource: Resource, place: &Place<'_>) -> Result<Amounts> {
        let mut sum = |pointer: &str| -> Result<Option<u64>> {
            let of = match object.pointer(pointer) {
                None | Some(Value::Null) => return Ok(None),
                Some(Value::Object(of)) => of,
                Some(other) => return Err(place.wrong(format!("{pointer} is {other}; write resources and amounts"))),
            };
            let mut result = None;
            for (name, value) in of {
                let is_counted = [Resource::Gpus, Resource::Cpus].into_iter().any(|what| counts(name, what));
                let what = format!("{name} in {pointer}");
                let amount = place.milli(value, &what, if is_counted { MOST_COUNTED } else { MOST })?;
                if is_slice(name) && resource == Resource::Gpus {
                    self.notes.push(format!("{}: amounts of slices of GPUs are not replayed: {name}.", place.what));
                }
                if let Some(amount) = amount.filter(|_| counts(name, resource)) {
                    result = Some(result.unwrap_or(0) + amount);
                    if resource == Resource::Gpus {
                        self.kinds.insert(name.clone());
                    }
                }
            }
            Ok(result)
        };
        Ok(Amounts {
            deserved: sum("/spec/deserved")?,
            guarantee: sum("/spec/guarantee/resource")?,
            capability: sum("/spec/capability")?,
        })
    }

    /// Whether a queue has others below it.
    fn is_above(&self, queue: &Written) -> bool {
        listed::is_above(self.queues.iter().map(|queue| &queue.listed), &queue.listed.name)
    }

    /// Names of the queues that jobs wait in.
    pub(super) fn names(&self) -> Vec<String> {
        self.queues.iter().filter(|queue| !self.is_above(queue)).map(|queue| queue.listed.name.clone()).collect()
    }

    /// Whether the file gives priority classes their values.
    pub(super) fn ranks(&self) -> bool {
        !self.priorities.is_empty()
    }

    /// The priority of a class.
    pub(super) fn priority(&self, class: &str) -> Option<i32> {
        self.priorities.get(class).copied()
    }

    /// The priority of a job without a class.
    pub(super) fn usual_priority(&self) -> i32 {
        self.usual
    }

    /// GPUs that the queues that jobs wait in deserve, or are guaranteed.
    pub(super) fn nominal_gpus(&self) -> f64 {
        let leaves = self.queues.iter().filter(|queue| !self.is_above(queue));
        leaves.filter_map(|queue| queue.gpus.deserved.or(queue.gpus.guarantee)).map(|own| own as f64 / 1e3).sum()
    }

    /// The queues, of which those that jobs wait in are first.
    fn tree(&self, resource: Resource) -> Result<VolcanoQueues> {
        let wrong = |line: u64, what: String| Err(Error::File { file: self.file.clone(), line, what });
        let listed: Vec<&ListedQueue> = self.queues.iter().map(|queue| &queue.listed).collect();
        let (places, leaves) = listed::places(&self.file, &listed, "parent", EXPORT)?;
        let mut queues = Vec::with_capacity(places.len());
        for QueuePlace { at, parent, created } in places {
            let queue = &self.queues[at];
            let of = if resource == Resource::Cpus { queue.cpus } else { queue.gpus };
            let (guarantee, most) = (of.guarantee.unwrap_or(0), of.capability.unwrap_or(u64::MAX));
            if of.deserved.is_some_and(|deserved| deserved > most || deserved < guarantee) || guarantee > most {
                let ListedQueue { name, line, .. } = &queue.listed;
                return wrong(
                    *line,
                    format!(
                        "Queue {name}: its guarantee is above its deserved, or either above its capability; Volcano refuses such a queue"
                    ),
                );
            }
            queues.push(VolcanoQueue {
                name: queue.listed.name.clone(),
                parent,
                weight: queue.weight,
                deserved: of.deserved,
                guarantee,
                capability: of.capability,
                reclaimable: queue.reclaimable,
                priority: queue.priority,
                created,
            });
        }
        VolcanoQueues::new(queues, leaves, self.rules.clone()).or_else(|error| wrong(1, error.to_string()))
    }

    /// The cluster with all its nodes in one pool, the file's leaves as its VCs, and what they deserve of `resource`; what is assumed is added to `notes`.
    pub(super) fn govern(&self, cluster: &Cluster, resource: Resource, notes: &mut Vec<String>) -> Result<Cluster> {
        if resource == Resource::Nodes {
            let what = format!("no queue has an amount of {}", resource.many());
            return Err(Error::File { file: self.file.clone(), line: 1, what });
        }
        let tree = self.tree(resource)?;
        notes.extend(self.notes.iter().cloned());
        let vcs = self.names().into_iter().map(|name| Vc::new(name, 0)).collect();
        let cluster = Cluster { vcs, volcano: Some(tree), ..cluster.pooled() };
        notes.extend(told(&cluster, resource));
        Ok(cluster)
    }
}

/// Returns the notes on the queues.
fn told(cluster: &Cluster, resource: Resource) -> Vec<String> {
    let Some(tree) = &cluster.volcano else { return Vec::new() };
    let (all, many) = (cluster.largest().1, resource.many());
    let plugin = match tree.rules().plugin {
        Plugin::Proportion => "by weight (plugin proportion)",
        Plugin::Capacity => "as they deserve (plugin capacity)",
    };
    let mut notes = vec![format!(
        "Queues are Volcano's: {plugin}, not with nodes of their own, they divide one pool of {} {many}.",
        format::integer(all as i64)
    )];
    let leaves = &tree.queues()[..tree.leaves()];
    let deserved: u64 = leaves.iter().filter_map(|queue| queue.deserved).sum();
    if tree.rules().plugin == Plugin::Capacity && deserved > all * 1000 {
        notes.push(format!(
            "The queues deserve {} {many}, more than there are: those within what they deserve may wait for each other.",
            format::float(deserved as f64 / 1000.0, 0)
        ));
    }
    let guaranteed: u64 = leaves.iter().map(|queue| queue.guarantee).sum();
    if guaranteed > all * 1000 {
        notes.push(format!(
            "The queues are guaranteed {} {many}, more than there are: others are kept from what is guaranteed, whether it is used or not.",
            format::float(guaranteed as f64 / 1000.0, 0)
        ));
    }
    let shut: Vec<&str> =
        leaves.iter().filter(|queue| queue.capability == Some(0)).map(|queue| queue.name.as_str()).collect();
    if !shut.is_empty() {
        notes.push(format!("These queues have a capability of 0, so that they run nothing: {}.", shut.join(", ")));
    }
    notes
}

/// The configuration of the scheduler, if an object is one: its ConfigMap, or the text itself.
fn configuration(object: &Value, place: &Place<'_>) -> Result<Option<Conf>> {
    let is_conf = |value: &Value| value.get("tiers").is_some() && value.get("actions").is_some();
    if object.get("kind").is_none() && (object.get("tiers").is_some() || object.get("actions").is_some()) {
        let place = Place { file: place.file, line: place.line, what: "volcano-scheduler.conf".to_owned() };
        return Conf::parse(object, &place).map(Some);
    }
    if kind_of(object) != "ConfigMap" {
        return Ok(None);
    }
    let texts = object.get("data").and_then(Value::as_object).into_iter().flatten();
    let mut result: Vec<(&str, Value)> = Vec::new();
    for (name, text) in texts.filter_map(|(name, text)| Some((name.as_str(), text.as_str()?))) {
        if !text.contains("tiers") && !text.contains("actions") {
            continue;
        }
        let Ok(inner) = documents(place.file, text) else {
            return Err(place.wrong(format!("its {name} is no YAML")));
        };
        result
            .extend(inner.into_iter().map(|document| (name, document.content)).filter(|(_, content)| is_conf(content)));
    }
    // Volcano's own name for it; a ConfigMap may keep others beside it.
    if let Some(own) = result.iter().position(|(name, _)| *name == "volcano-scheduler.conf") {
        result.swap(0, own);
        result.truncate(1);
    }
    match result.as_slice() {
        [] => {}
        [(_, conf)] => return Conf::parse(conf, place).map(Some),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            return Err(place.wrong(format!(
                "it holds several configurations, {}, and none is called volcano-scheduler.conf; keep the one that the scheduler reads",
                names.join(" and ")
            )));
        }
    }
    Ok(None)
}
