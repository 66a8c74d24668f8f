//! Quotas of queues as Kueue's objects have them: ClusterQueues, Cohorts, ResourceFlavors, Topologies, priority classes and its Configuration; or as those of KAI ([`kai`]) or Volcano ([`volcano`]) have them, if the file holds such.
//!
//! Read are the versions v1beta1 and v1beta2 of the group `kueue.x-k8s.io`, from YAML documents or what `kubectl get … -o yaml` and `-o json` print. A ClusterQueue is a VC of the replay, of
//! its `resourceGroups` the one that covers GPUs counts (processors, if jobs compete for these). A ResourceFlavor stands for the nodes whose GPU type one of its node labels, or its name, says; letters and
//! digits alone are compared, in either case. Labels of Node objects say where nodes lie ([`node`]). A job's priority is the `value` of its WorkloadPriorityClass or PriorityClass, else 0. Fair sharing is on if a Configuration of the file has it, and so is admission fair sharing ([`usage`]).
//!
//! What is not replayed is said in a note: other resources, admission checks, a queue on hold, slices of GPUs. O(bytes). Worked example: `nominalQuota: 9` of `nvidia.com/gpu` and `borrowingLimit: 1`
//! let a queue use 10 GPUs if its cohort has one to lend.

mod divided;
mod kai;
mod listed;
mod node;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod usage;
mod volcano;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tracecast_analytics::ingest::misspelt;
use tracecast_analytics::ingest::quantity::{is_gpu, is_slice, quantity};
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;

use self::divided::DividedFile;
use self::node::LabelledNode;
use self::usage::{UsageSharing, goes_by_usage};
use crate::error::{Error, Result};
use crate::yaml::{Document, documents};
use tracecast_sim::cluster::{Cluster, Vc};
use tracecast_sim::cohort::{Cohorts, FairPreemption, Flavor, Member, QueueRules, Queueing, Quota, Reclaim, Within};
use tracecast_sim::policy::Scan;

/// The most of anything, such as bytes of memory.
const MOST: f64 = 1e15;
/// The most GPUs, or processors, of a quota.
const MOST_COUNTED: f64 = 1e7;
/// Queues a file may have.
const MOST_QUEUES: usize = 5_000;
/// The greatest weight.
const MOST_WEIGHT: f64 = 1e6;
/// The group of Kueue's objects.
const GROUP: &str = "kueue.x-k8s.io/";
/// Kinds of that group that say nothing of quotas.
const OTHER_KINDS: [&str; 7] = [
    "LocalQueue",
    "Workload",
    "AdmissionCheck",
    "ProvisioningRequestConfig",
    "MultiKueueConfig",
    "MultiKueueCluster",
    "WorkloadList",
];
/// Fields of a quota.
const QUOTA_FIELDS: [&str; 4] = ["name", "nominalQuota", "borrowingLimit", "lendingLimit"];
/// Fields of `preemption`.
const PREEMPTION_FIELDS: [&str; 3] = ["withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort"];
/// Fields of a queue.
const QUEUE_FIELDS: [&str; 13] = [
    "admissionChecks",
    "admissionChecksStrategy",
    "admissionScope",
    "cohortName",
    "cohort",
    "concurrentAdmissionPolicy",
    "fairSharing",
    "flavorFungibility",
    "namespaceSelector",
    "preemption",
    "queueingStrategy",
    "resourceGroups",
    "stopPolicy",
];
/// How an amount is mended.
const QUANTITY: &str = "write a quantity such as 8";
/// Kinds of objects that are read for quotas.
const KINDS: [&str; 7] =
    ["ClusterQueue", "Cohort", "ResourceFlavor", "Topology", "WorkloadPriorityClass", "PriorityClass", "Configuration"];

/// Quotas of a flavor and resource as written.
#[derive(Debug, Clone)]
struct Written {
    flavor: String,
    resource: String,
    quota: Quota,
}

#[derive(Debug, Clone)]
struct Queue {
    name: String,
    cohort: Option<String>,
    quotas: Vec<Written>,
    rules: QueueRules,
    weight_milli: u64,
    /// Whether the queue asks for admission fair sharing.
    by_usage: bool,
}

#[derive(Debug, Clone, Default)]
struct Cohort {
    parent: Option<String>,
    quotas: Vec<Written>,
    weight_milli: Option<u64>,
}

/// A checked file of quotas.
#[derive(Debug, Clone, Default)]
pub struct QuotaFile {
    file: String,
    queues: Vec<Queue>,
    cohorts: BTreeMap<String, Cohort>,
    /// Values of node labels by flavor.
    labels: BTreeMap<String, Vec<String>>,
    /// The Topology of flavors that name one.
    topology_of: BTreeMap<String, String>,
    /// Labels of the levels of each Topology.
    topologies: BTreeMap<String, Vec<String>>,
    /// Node objects with GPUs: their labels say where nodes lie.
    nodes: Vec<LabelledNode>,
    priorities: BTreeMap<String, i32>,
    fair: Option<FairPreemption>,
    /// Admission fair sharing, if a Configuration has it.
    usage: Option<UsageSharing>,
    /// LocalQueues with a weight of their own.
    weighted_queues: u64,
    notes: Vec<String>,
    /// Queues of KAI or Volcano, if the file has such; all other fields are empty then.
    divided: Option<DividedFile>,
}

/// An object of the file, for messages.
struct Place<'f> {
    file: &'f str,
    line: u64,
    what: String,
}

impl Place<'_> {
    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::File { file: self.file.to_owned(), line: self.line, what: format!("{}: {what}", self.what) }
    }

    /// Returns the index in `known` of the word at `pointer`; `None` if the field is not there.
    fn word(&self, value: &Value, pointer: &str, known: &[&str]) -> Result<Option<usize>> {
        match value.pointer(pointer) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if known.contains(&text.as_str()) => {
                Ok(known.iter().position(|word| word == text))
            }
            Some(other) => Err(self.wrong(format!("{pointer} is {other}; there are {}", known.join(", ")))),
        }
    }

    fn milli(&self, value: &Value, what: &str, most: f64) -> Result<Option<u64>> {
        match value {
            Value::Null => Ok(None),
            value => match quantity(value).filter(|amount| (0.0..=most).contains(amount)) {
                Some(amount) => Ok(Some((amount * 1000.0).round() as u64)),
                None => Err(self.wrong(format!("{what} is {value}; {QUANTITY}"))),
            },
        }
    }

    /// Refuses fields that there are not: a word that is misspelt would be a rule that does not hold.
    fn fields(&self, value: Option<&Value>, what: &str, known: &[&str]) -> Result<()> {
        let unknown = value
            .and_then(Value::as_object)
            .and_then(|object| object.keys().find(|key| !known.contains(&key.as_str())));
        match unknown {
            Some(key) => Err(self.wrong(format!("{what} has no field `{key}`; there are {}", known.join(", ")))),
            None => Ok(()),
        }
    }

    /// Refuses fields that are hardly any but one of those known in other letters; others may be of a later version.
    fn misspelt(&self, value: Option<&Value>, what: &str, known: &[&str]) -> Result<()> {
        let Some(object) = value.and_then(Value::as_object) else { return Ok(()) };
        match misspelt(&object.keys().map(String::as_str), known) {
            Some((key, meant)) => Err(self.wrong(format!("{what} has no field `{key}`; there is {meant}"))),
            None => Ok(()),
        }
    }

    fn text(&self, value: &Value, pointer: &str) -> Result<Option<String>> {
        match value.pointer(pointer) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(other) => Err(self.wrong(format!("{pointer} is {other}; write a text"))),
        }
    }
}

impl QuotaFile {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// Names the line and what would mend it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let mut result = Self { file: file.to_owned(), ..Self::default() };
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        let documents = documents(file, text)?;
        result.divided = DividedFile::parse(file, &documents)?;
        if result.divided.is_some() {
            return Ok(result);
        }
        for document in &documents {
            result.take(document, &mut others)?;
        }
        if result.queues.is_empty() {
            return Err(Error::File {
                file: file.to_owned(),
                line: 1,
                what: "there is no ClusterQueue; export with `kubectl get clusterqueues,cohorts,resourceflavors,topologies,nodes,workloadpriorityclasses -o yaml`, or KAI's queues with `kubectl get queues.scheduling.run.ai -o yaml`, or Volcano's with `kubectl get queues.scheduling.volcano.sh -o yaml`".to_owned(),
            });
        }
        if !others.is_empty() {
            let list: Vec<String> = others.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
            result
                .notes
                .push(format!("Objects of {file} that say nothing of quotas are not read: {}.", list.join(", ")));
        }
        // What can be wrong with the tree is wrong for all resources.
        result.tree(&[], Resource::Gpus)?;
        Ok(result)
    }

    fn take(&mut self, document: &Document, others: &mut BTreeMap<String, usize>) -> Result<()> {
        let object = &document.content;
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or("object without a kind");
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let file = self.file.clone();
        let place = Place { file: &file, line: document.line, what: format!("{kind} {name}").trim_end().to_owned() };
        if kind == "Node" {
            self.nodes.extend(LabelledNode::new(object));
            return Ok(());
        }
        if kind == "ConfigMap" {
            return self.config_map(object, &place, others);
        }
        if kind == "LocalQueue" && object.pointer("/spec/fairSharing/weight").is_some_and(|weight| !weight.is_null()) {
            self.weighted_queues += 1;
        }
        if !KINDS.contains(&kind) {
            let is_kueues = object.get("apiVersion").and_then(Value::as_str).is_some_and(|of| of.starts_with(GROUP));
            if is_kueues && !OTHER_KINDS.contains(&kind) {
                return Err(
                    place.wrong(format!("Kueue has no such kind of object; of {} quotas are read", KINDS.join(", ")))
                );
            }
            *others.entry(kind.to_owned()).or_default() += 1;
            return Ok(());
        }
        if name.is_empty() && kind != "Configuration" {
            return Err(place.wrong("it has no metadata.name"));
        }
        match kind {
            "ClusterQueue" => {
                if self.queues.len() >= MOST_QUEUES {
                    return Err(place.wrong(format!("there are more than {MOST_QUEUES} ClusterQueues")));
                }
                if self.queues.iter().any(|queue| queue.name == name) {
                    return Err(place.wrong("it is there twice"));
                }
                let queue = self.queue(name, object, &place)?;
                self.queues.push(queue);
            }
            "Cohort" => {
                let parent = place.text(object, "/spec/parentName")?;
                let parent = if parent.is_none() { place.text(object, "/spec/parent")? } else { parent };
                let quotas = quotas(object, &place)?;
                let weight_milli = weight(object, &place)?;
                if self.cohorts.insert(name.to_owned(), Cohort { parent, quotas, weight_milli }).is_some() {
                    return Err(place.wrong("it is there twice"));
                }
            }
            "ResourceFlavor" => {
                let labels = object.pointer("/spec/nodeLabels").and_then(Value::as_object);
                let values = labels.into_iter().flatten().filter_map(|(_, value)| value.as_str().map(str::to_owned));
                self.labels.insert(name.to_owned(), values.collect());
                if let Some(topology) = place.text(object, "/spec/topologyName")? {
                    self.topology_of.insert(name.to_owned(), topology);
                }
            }
            "Topology" => {
                let levels = object.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
                let label = |level: &Value| level.get("nodeLabel").and_then(Value::as_str).map(str::to_owned);
                let labels: Option<Vec<String>> = levels.map(label).collect();
                let labels = labels.filter(|labels| !labels.is_empty());
                let labels =
                    labels.ok_or_else(|| place.wrong("spec.levels is no list of levels with a nodeLabel each"))?;
                self.topologies.insert(name.to_owned(), labels);
            }
            "Configuration" => self.configuration(object, &place)?,
            _ => {
                self.priorities.insert(name.to_owned(), priority_class(object, &place)?);
            }
        }
        Ok(())
    }

    /// The Configuration that Kueue's manager reads lies in a ConfigMap, as a text.
    fn config_map(&mut self, object: &Value, place: &Place<'_>, others: &mut BTreeMap<String, usize>) -> Result<()> {
        let texts = object.get("data").and_then(Value::as_object).into_iter().flatten();
        let mut read = false;
        for text in texts.filter_map(|(_, text)| text.as_str()).filter(|text| text.contains("kind: Configuration")) {
            let inner = documents(&self.file, text).map_err(|_| place.wrong("its Configuration is no YAML"))?;
            let is_one = |of: &&Document| of.content.get("kind").and_then(Value::as_str) == Some("Configuration");
            for document in inner.iter().filter(is_one) {
                read = true;
                self.configuration(&document.content, place)?;
            }
        }
        if !read {
            *others.entry("ConfigMap".to_owned()).or_default() += 1;
        }
        Ok(())
    }

    fn configuration(&mut self, object: &Value, place: &Place<'_>) -> Result<()> {
        if let Some(usage) = UsageSharing::of(object, place)? {
            self.usage = Some(usage);
        }
        let Some(sharing) = object.get("fairSharing").filter(|sharing| !sharing.is_null()) else { return Ok(()) };
        // v1beta1 switches it on; in v1beta2 it is on if it is there.
        let is_old = object.get("apiVersion").and_then(Value::as_str).is_some_and(|of| of.ends_with("/v1beta1"));
        if !sharing.get("enable").and_then(Value::as_bool).unwrap_or(!is_old) {
            return Ok(());
        }
        let listed = sharing.get("preemptionStrategies").and_then(Value::as_array);
        let listed: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
        self.fair = Some(match listed.as_slice() {
            [] | ["LessThanOrEqualToFinalShare", "LessThanInitialShare"] => FairPreemption::Both,
            ["LessThanOrEqualToFinalShare"] => FairPreemption::Final,
            ["LessThanInitialShare"] => FairPreemption::Initial,
            _ => {
                let what = "its preemptionStrategies are not among [LessThanOrEqualToFinalShare], [LessThanInitialShare] and both in this order";
                return Err(place.wrong(what));
            }
        });
        Ok(())
    }

    fn queue(&mut self, name: &str, object: &Value, place: &Place<'_>) -> Result<Queue> {
        place.misspelt(object.get("spec"), "spec", &QUEUE_FIELDS)?;
        place.fields(object.pointer("/spec/preemption"), "spec.preemption", &PREEMPTION_FIELDS)?;
        let cohort = place.text(object, "/spec/cohortName")?;
        let cohort = if cohort.is_none() { place.text(object, "/spec/cohort")? } else { cohort };
        let strategy = place.word(object, "/spec/queueingStrategy", &["BestEffortFIFO", "StrictFIFO"])?;
        let within = place.word(
            object,
            "/spec/preemption/withinClusterQueue",
            &["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        )?;
        let reclaim = place.word(object, "/spec/preemption/reclaimWithinCohort", &["Never", "LowerPriority", "Any"])?;
        let borrow = place.word(object, "/spec/preemption/borrowWithinCohort/policy", &["Never", "LowerPriority"])?;
        let threshold = match object.pointer("/spec/preemption/borrowWithinCohort/maxPriorityThreshold") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let value = value.as_i64().and_then(|value| i32::try_from(value).ok());
                Some(value.ok_or_else(|| place.wrong("maxPriorityThreshold is no whole number of 32 bits"))?)
            }
        };
        let borrowing = place.word(
            object,
            "/spec/flavorFungibility/whenCanBorrow",
            &["Borrow", "MayStopSearch", "TryNextFlavor"],
        )?;
        let preempting = place.word(
            object,
            "/spec/flavorFungibility/whenCanPreempt",
            &["TryNextFlavor", "Preempt", "MayStopSearch"],
        )?;
        if place.word(object, "/spec/stopPolicy", &["None", "Hold", "HoldAndDrain"])?.unwrap_or(0) > 0 {
            self.notes.push(format!("ClusterQueue {name} is on hold; in the replay it admits jobs."));
        }
        let checks = ["/spec/admissionChecks", "/spec/admissionChecksStrategy/admissionChecks"];
        if checks.iter().filter_map(|at| object.pointer(at)?.as_array()).any(|checks| !checks.is_empty()) {
            self.notes.push(format!("The admission checks of ClusterQueue {name} are not replayed."));
        }
        let rules = QueueRules {
            strategy: if strategy == Some(1) { Queueing::Strict } else { Queueing::BestEffort },
            within: [Within::Never, Within::LowerPriority, Within::LowerOrNewerEqual][within.unwrap_or(0)],
            reclaim: [Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any][reclaim.unwrap_or(0)],
            borrow_within: (borrow == Some(1)).then_some(threshold),
            next_before_borrowing: borrowing == Some(2),
            next_before_preempting: preempting.unwrap_or(0) == 0,
            flavors: Vec::new(),
            usage_half_life_ms: None,
        };
        let quotas = quotas(object, place)?;
        let weight_milli = weight(object, place)?.unwrap_or(1000);
        let by_usage = goes_by_usage(object, place)?;
        Ok(Queue { name: name.to_owned(), cohort, quotas, rules, weight_milli, by_usage })
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The scan under which its quotas hold.
    pub fn scan(&self) -> Scan {
        self.divided.as_ref().map_or(Scan::Kueue, DividedFile::scan)
    }

    /// Whether the file gives priority classes their values.
    pub fn ranks(&self) -> bool {
        self.divided.as_ref().map_or(!self.priorities.is_empty(), DividedFile::ranks)
    }

    /// Names of its ClusterQueues, or of KAI's or Volcano's queues that jobs wait in.
    pub fn names(&self) -> Vec<String> {
        let own = || self.queues.iter().map(|queue| queue.name.clone()).collect();
        self.divided.as_ref().map_or_else(own, DividedFile::names)
    }

    /// The priority of a class; `None` if it is not known.
    pub fn priority(&self, class: &str) -> Option<i32> {
        self.divided.as_ref().map_or_else(|| self.priorities.get(class).copied(), |file| file.priority(class))
    }

    /// The priority of a job of no class, or of one that is not known.
    pub fn usual_priority(&self) -> i32 {
        self.divided.as_ref().map_or(0, DividedFile::usual_priority)
    }

    /// Whether a flavor that queues try is one of these GPU types.
    pub fn tells_types(&self, gpu_types: &[String]) -> bool {
        let written = self.queues.iter().flat_map(|queue| &queue.quotas);
        written.into_iter().any(|written| self.gpu_type(&written.flavor, gpu_types).is_some())
    }

    /// GPUs that all queues and cohorts have of their own.
    pub fn nominal_gpus(&self) -> f64 {
        if let Some(file) = &self.divided {
            return file.nominal_gpus();
        }
        let all =
            self.queues.iter().map(|queue| &queue.quotas).chain(self.cohorts.values().map(|cohort| &cohort.quotas));
        let gpus = all.flatten().filter(|written| counts(&written.resource, Resource::Gpus));
        gpus.map(|written| written.quota.nominal as f64 / 1000.0).sum()
    }

    /// The cluster with all its nodes in one pool, the file's queues as its VCs, and their quotas of `resource`, time 0 being `origin_ms`; what is assumed is added to `notes`.
    ///
    /// # Errors
    /// If no queue has a quota of the resource.
    pub fn govern(
        &self,
        cluster: &Cluster,
        resource: Resource,
        origin_ms: i64,
        notes: &mut Vec<String>,
    ) -> Result<Cluster> {
        if let Some(file) = &self.divided {
            return file.govern(cluster, resource, origin_ms, notes);
        }
        let (cohorts, assumed) = self.tree(&cluster.gpu_types, resource)?;
        if cohorts.flavors().is_empty() {
            let what = format!("no queue has a quota of {}", resource.many());
            return Err(Error::File { file: self.file.clone(), line: 1, what });
        }
        notes.extend(assumed);
        notes.extend(self.notes.iter().cloned());
        notes.extend(self.told_of_usage(resource));
        let vcs = self.queues.iter().map(|queue| Vc::new(queue.name.clone(), 0)).collect();
        let mut cluster = Cluster { vcs, cohorts: Some(cohorts), ..cluster.pooled() };
        self.locate(&mut cluster, resource, notes)?;
        let (gpus, nominal) = (cluster.largest().1, self.nominal_gpus());
        notes.push(format!(
            "Queues are ClusterQueues: their quotas, not nodes of their own, divide one pool of {} {}.",
            format::integer(gpus as i64),
            resource.many()
        ));
        if resource == Resource::Gpus && nominal > gpus as f64 {
            notes.push(format!(
                "The quotas add up to {} GPUs, more than there are: jobs within them may wait for nodes.",
                format::float(nominal, 0)
            ));
        }
        Ok(cluster)
    }

    /// The tree of quotas of `resource`, with what was assumed of it.
    fn tree(&self, gpu_types: &[String], resource: Resource) -> Result<(Cohorts, Vec<String>)> {
        let mut notes = Vec::new();
        let mut flavors: Vec<Flavor> = Vec::new();
        let written = self
            .queues
            .iter()
            .flat_map(|queue| &queue.quotas)
            .chain(self.cohorts.values().flat_map(|cohort| &cohort.quotas));
        let mut slices: BTreeSet<&str> = BTreeSet::new();
        for written in written {
            if is_slice(&written.resource) {
                slices.insert(&written.resource);
            }
            if counts(&written.resource, resource) && !flavors.iter().any(|flavor| flavor.name == written.flavor) {
                flavors
                    .push(Flavor { name: written.flavor.clone(), gpu_type: self.gpu_type(&written.flavor, gpu_types) });
            }
        }
        if !slices.is_empty() && resource == Resource::Gpus {
            let list: Vec<&str> = slices.into_iter().collect();
            notes.push(format!("Quotas of slices of GPUs are not replayed: {}.", list.join(", ")));
        }
        let twice = self.queues.iter().any(|queue| {
            let of = |written: &&Written| counts(&written.resource, resource);
            let flavors: Vec<&str> = queue.quotas.iter().filter(of).map(|written| written.flavor.as_str()).collect();
            flavors.iter().enumerate().any(|(at, flavor)| flavors[..at].contains(flavor))
        });
        if twice {
            notes.push("Where a flavor has quotas of several kinds of GPUs, the first counts.".to_owned());
        }
        let untyped: Vec<&str> =
            flavors.iter().filter(|flavor| flavor.gpu_type.is_none()).map(|flavor| flavor.name.as_str()).collect();
        if flavors.len() > 1 && !untyped.is_empty() && gpu_types.len() > 1 {
            notes.push(format!(
                "No GPU type of the nodes is that of the flavor {}: its jobs run on nodes of any type. There are {}.",
                untyped.join(", "),
                gpu_types.join(", ")
            ));
        }
        // Cohorts that are only named are there, too.
        let mut names: BTreeSet<&str> = self.cohorts.keys().map(String::as_str).collect();
        names.extend(self.queues.iter().filter_map(|queue| queue.cohort.as_deref()));
        names.extend(self.cohorts.values().filter_map(|cohort| cohort.parent.as_deref()));
        let place: BTreeMap<&str, u16> =
            (self.queues.len() as u16..).zip(&names).map(|(at, name)| (*name, at)).collect();
        let parent = |name: &Option<String>| name.as_deref().and_then(|name| place.get(name).copied());
        let by_flavor = |quotas: &[Written]| -> Vec<Option<Quota>> {
            let of = |flavor: &Flavor| {
                quotas
                    .iter()
                    .find(|written| written.flavor == flavor.name && counts(&written.resource, resource))
                    .map(|written| written.quota)
            };
            flavors.iter().map(of).collect()
        };
        let mut members: Vec<Member> = Vec::with_capacity(self.queues.len() + names.len());
        let mut rules: Vec<QueueRules> = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            let tried = queue.quotas.iter().filter(|written| counts(&written.resource, resource));
            let mut order: Vec<u16> = Vec::new();
            for flavor in tried.filter_map(|written| flavors.iter().position(|flavor| flavor.name == written.flavor)) {
                if !order.contains(&(flavor as u16)) {
                    order.push(flavor as u16);
                }
            }
            let usage_half_life_ms = self.half_life_ms(resource).filter(|_| queue.by_usage);
            rules.push(QueueRules { flavors: order, usage_half_life_ms, ..queue.rules.clone() });
            members.push(Member {
                name: queue.name.clone(),
                parent: parent(&queue.cohort),
                quotas: by_flavor(&queue.quotas),
                weight_milli: queue.weight_milli,
            });
        }
        let none = Cohort::default();
        for name in names {
            let cohort = self.cohorts.get(name).unwrap_or(&none);
            members.push(Member {
                name: name.to_owned(),
                parent: parent(&cohort.parent),
                quotas: by_flavor(&cohort.quotas),
                weight_milli: cohort.weight_milli.unwrap_or(1000),
            });
        }
        let cohorts = Cohorts::new(flavors, members, rules, self.fair).map_err(|error| Error::File {
            file: self.file.clone(),
            line: 1,
            what: error.to_string(),
        })?;
        Ok((cohorts, notes))
    }

    /// The GPU type that a flavor's node labels, or its name, say.
    fn gpu_type(&self, flavor: &str, gpu_types: &[String]) -> Option<u16> {
        let labels = || self.labels.get(flavor).into_iter().flatten().map(String::as_str);
        let known = gpu_types.iter().position(|known| is_of_type(flavor, labels(), known));
        known.and_then(|at| u16::try_from(at).ok())
    }
}

/// Whether a flavor's node labels, or its name, say a GPU type: letters and digits alone count, in either case.
pub fn is_of_type<'a>(flavor: &'a str, labels: impl Iterator<Item = &'a str>, gpu_type: &str) -> bool {
    let wanted = plain_type(gpu_type);
    labels.chain([flavor]).any(|said| plain_type(said) == wanted)
}

/// A GPU type as it is compared: `A100-80GB` and `a100 80gb` are `a10080gb`.
pub fn plain_type(gpu_type: &str) -> String {
    gpu_type.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether an object is of a group of Kubernetes' API.
fn of_group(object: &Value, group: &str) -> bool {
    object.get("apiVersion").and_then(Value::as_str).is_some_and(|version| version.starts_with(group))
}

/// The value of a priority class.
fn priority_class(object: &Value, place: &Place<'_>) -> Result<i32> {
    let value = object.get("value").and_then(Value::as_i64).and_then(|value| i32::try_from(value).ok());
    value.ok_or_else(|| place.wrong("its `value` is no whole number of 32 bits"))
}

/// A field, at any depth, that is one of those known but for the case of its letters; and as it is written right.
fn miswritten<'v>(value: &'v Value, known: &[&'static str]) -> Option<(&'v str, &'static str)> {
    if let Some(items) = value.as_array() {
        return items.iter().find_map(|item| miswritten(item, known));
    }
    value.as_object()?.iter().find_map(|(name, inner)| {
        let right = known.iter().find(|known| *known != name && known.eq_ignore_ascii_case(name));
        right.map(|right| (name.as_str(), *right)).or_else(|| miswritten(inner, known))
    })
}

/// Whether an amount of a resource is one of what jobs compete for.
fn counts(resource: &str, of: Resource) -> bool {
    match of {
        Resource::Gpus => is_gpu(resource) && !is_slice(resource),
        Resource::Cpus => resource == "cpu",
        Resource::Nodes => false,
    }
}

fn weight(object: &Value, place: &Place<'_>) -> Result<Option<u64>> {
    object
        .pointer("/spec/fairSharing/weight")
        .map_or(Ok(None), |weight| place.milli(weight, "fairSharing.weight", MOST_WEIGHT))
}

/// The quotas of a queue or cohort, in the order of its flavors.
fn quotas(object: &Value, place: &Place<'_>) -> Result<Vec<Written>> {
    let list = |value: Option<&Value>, what: &str| -> Result<Vec<Value>> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list.clone()),
            Some(_) => Err(place.wrong(format!("{what} is no list"))),
        }
    };
    let mut result: Vec<Written> = Vec::new();
    for group in list(object.pointer("/spec/resourceGroups"), "spec.resourceGroups")? {
        for flavor in list(group.get("flavors"), "flavors")? {
            let name = flavor.get("name").and_then(Value::as_str).ok_or_else(|| place.wrong("a flavor has no name"))?;
            for resource in list(flavor.get("resources"), "resources")? {
                let Some(of) = resource.get("name").and_then(Value::as_str) else {
                    return Err(place.wrong(format!("a resource of the flavor {name} has no name")));
                };
                place.fields(Some(&resource), &format!("{of} in {name}"), &QUOTA_FIELDS)?;
                let is_counted = [Resource::Gpus, Resource::Cpus].into_iter().any(|what| counts(of, what));
                let most = if is_counted { MOST_COUNTED } else { MOST };
                let amount = |field: &str| {
                    let what = format!("{field} of {of} in {name}");
                    resource.get(field).map_or(Ok(None), |value| place.milli(value, &what, most))
                };
                let nominal = amount("nominalQuota")?;
                let nominal =
                    nominal.ok_or_else(|| place.wrong(format!("{of} in {name} has no nominalQuota; {QUANTITY}")))?;
                let quota = Quota {
                    nominal,
                    borrowing_limit: amount("borrowingLimit")?,
                    lending_limit: amount("lendingLimit")?,
                };
                if quota.lending_limit.is_some_and(|limit| limit > quota.nominal) {
                    return Err(place.wrong(format!("lendingLimit of {of} in {name} is above its nominalQuota")));
                }
                if result.iter().any(|written| written.flavor == name && written.resource == of) {
                    return Err(place.wrong(format!("{of} in {name} is there twice")));
                }
                result.push(Written { flavor: name.to_owned(), resource: of.to_owned(), quota });
            }
        }
    }
    Ok(result)
}
