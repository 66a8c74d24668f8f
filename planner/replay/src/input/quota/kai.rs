//! Queues as KAI's objects have them: Queues, the SchedulingShard that says how they share, and priority classes.
//!
//! Read are Queues of the group `scheduling.run.ai` as `kubectl get queues.scheduling.run.ai -o yaml` prints them. A queue without queues below it is a VC of the replay; of its `resources` those of what jobs compete for count, `gpu`
//! (or `cpu`, in thousandths). What is not written is what KAI takes it for: a quota, a limit and a weight of 0, and a priority of 100. −1 is unlimited. Of a SchedulingShard are read `kValue`, `usageDBConfig` (which switches time-based share
//! on), `minRuntime` and the arguments of the plugin proportion. Of equals the queue with the earlier `creationTimestamp` comes first, one without before all others, then by name. A job's priority is the `value` of its PriorityClass, or of the classes that
//! come with KAI (train 50, build-preemptible 75, build 100, inference 125), else 50.
//!
//! O(bytes). Worked example: `gpu: {quota: 4, limit: -1, overQuotaWeight: 2}` is 4 GPUs that the queue is due, and of those beyond the quotas twice as many as a queue of weight 1 gets.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::parse_with_offset;

use super::listed::{self, ListedQueue, QueuePlace};
use super::{MOST_COUNTED, MOST_QUEUES, Place, miswritten, of_group, priority_class};
use crate::error::{Error, Result};
use crate::yaml::Document;
use tracecast_sim::cluster::{Cluster, Vc};
use tracecast_sim::kai::{Hierarchy, KaiQueue, KaiRules, UsageRule, UsageWindow};

/// The group of KAI's queues.
const GROUP: &str = "scheduling.run.ai/";
/// The group of what configures KAI.
const SHARD_GROUP: &str = "kai.scheduler/";
/// How the queues are exported.
const EXPORT: &str = "export all of them with `kubectl get queues.scheduling.run.ai -o yaml`";
/// The priority of a queue that has none, and of a job.
const QUEUE_PRIORITY: i32 = 100;
/// Priority of a job without a class.
pub(super) const JOB_PRIORITY: i32 = 50;
/// Classes that come with KAI.
const CLASSES: [(&str, i32); 4] =
    [("train", JOB_PRIORITY), ("build-preemptible", 75), ("build", 100), ("inference", 125)];
/// The most of a weight, and of kValue.
const MOST_WEIGHT: f64 = 1e6;
const MOST_FACTOR: f64 = 1e3;
/// Fields of a queue's `spec`, and of a resource.
const SPEC_FIELDS: [&str; 6] =
    ["displayName", "parentQueue", "priority", "resources", "preemptMinRuntime", "reclaimMinRuntime"];
const RESOURCE_FIELDS: [&str; 3] = ["quota", "limit", "overQuotaWeight"];
/// A century, ms: no length of time is longer.
const LONGEST_MS: f64 = 3.2e12;
/// The shortest window, and time between two measurements, ms.
const SHORTEST_MS: i64 = 1000;

/// Amounts of a resource that a queue has, thousandths of a GPU or processor.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    quota: Option<u64>,
    limit: Option<u64>,
    weight_milli: u64,
}

#[derive(Debug, Clone)]
struct Written {
    listed: ListedQueue,
    priority: i32,
    gpus: Amounts,
    cpus: Amounts,
    reclaim_min_ms: Option<i64>,
    preempt_min_ms: Option<i64>,
}

/// When windows of usage begin that tumble, ms since the Unix epoch.
#[derive(Debug, Clone, Copy)]
struct Start(i64);

/// A checked file of KAI's queues.
#[derive(Debug, Clone, Default)]
pub(super) struct KaiFile {
    file: String,
    queues: Vec<Written>,
    rules: KaiRules,
    start: Option<Start>,
    has_shard: bool,
    priorities: BTreeMap<String, i32>,
    notes: Vec<String>,
}

/// Fields of a SchedulingShard that are read.
const SHARD_FIELDS: [&str; 15] = [
    "kValue",
    "usageDBConfig",
    "clientType",
    "usageParams",
    "windowSize",
    "windowType",
    "halfLifePeriod",
    "fetchInterval",
    "tumblingWindowStartTime",
    "minRuntime",
    "reclaimMinRuntime",
    "preemptMinRuntime",
    "plugins",
    "proportion",
    "arguments",
];

/// Whether a file holds queues of KAI.
pub(super) fn is_kai(documents: &[Document]) -> bool {
    documents.iter().any(|document| of_group(&document.content, GROUP))
}

impl KaiFile {
    /// Reads the objects of a file called `file`.
    pub(super) fn parse(file: &str, documents: &[Document]) -> Result<Self> {
        let mut result = Self { file: file.to_owned(), ..Self::default() };
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        for document in documents {
            let object = &document.content;
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or("object without a kind");
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let place = Place { file, line: document.line, what: format!("{kind} {name}").trim_end().to_owned() };
            if kind == "Queue" && of_group(object, GROUP) {
                let queue = queue(name, object, &place)?;
                if result.queues.iter().any(|other| other.listed.name == name) {
                    return Err(place.wrong("it is there twice"));
                }
                if result.queues.len() >= MOST_QUEUES {
                    return Err(place.wrong(format!("there are more than {MOST_QUEUES} queues")));
                }
                result.queues.push(queue);
            } else if kind == "SchedulingShard" && of_group(object, SHARD_GROUP) {
                if std::mem::replace(&mut result.has_shard, true) {
                    return Err(place.wrong("there is another SchedulingShard; leave the one whose nodes are replayed"));
                }
                result.shard(object, &place)?;
            } else if kind == "PriorityClass" {
                result.priorities.insert(name.to_owned(), priority_class(object, &place)?);
            } else {
                *others.entry(kind.to_owned()).or_default() += 1;
            }
        }
        if !others.is_empty() {
            let list: Vec<String> = others.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
            result
                .notes
                .push(format!("Objects of {file} that say nothing of KAI's queues are not read: {}.", list.join(", ")));
        }
        // What can be wrong with the tree is wrong for all resources.
        result.tree(Resource::Gpus, 0)?;
        Ok(result)
    }

    /// Reads a SchedulingShard. It has many fields that say nothing of shares, so only those are
    /// refused that differ from one that does in the case of letters.
    fn shard(&mut self, object: &Value, place: &Place<'_>) -> Result<()> {
        if let Some((result, known)) = object.pointer("/spec").and_then(|spec| miswritten(spec, &SHARD_FIELDS)) {
            return Err(place.wrong(format!("`{result}` is no field of it; write `{known}`")));
        }
        let number = |pointers: &[&str], what: &str, least: f64| -> Result<Option<u64>> {
            let Some(value) = pointers.iter().find_map(|at| object.pointer(at)).filter(|value| !value.is_null()) else {
                return Ok(None);
            };
            let parsed = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
            match parsed.filter(|number| (least..=MOST_FACTOR).contains(number)) {
                Some(number) => Ok(Some((number * 1000.0).round() as u64)),
                None => Err(place.wrong(format!("{what} is {value}; write a number from {least} to {MOST_FACTOR}"))),
            }
        };
        let argument = |name: &str| format!("/spec/plugins/proportion/arguments/{name}");
        let (plain, own) = ("/spec/kValue", argument("kValue"));
        if let Some(k) = number(&[&own, plain], "kValue", 0.0)? {
            self.rules.k_milli = k;
        }
        // The documentation and the program call it differently.
        let names = [argument("reclaimerUtilizationMultiplier"), argument("relcaimerSaturationMultiplier")];
        if let Some(times) = number(&[&names[0], &names[1]], "the multiplier of saturation", 1.0)? {
            self.rules.saturation_milli = times;
        }
        for alpha in ["queuePriorityInQuotaReclaim", "steadyFairShareReclaim"] {
            let value = object.pointer(&argument(alpha));
            if value.is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true")) {
                self.notes.push(format!("{alpha} is on; it is not replayed."));
            }
        }
        let least = |field: &str| period(object, &format!("/spec/minRuntime/{field}"), place);
        self.rules.reclaim_min_ms = least("reclaimMinRuntime")?.unwrap_or(0);
        self.rules.preempt_min_ms = least("preemptMinRuntime")?.unwrap_or(0);
        let is_on =
            object.pointer("/spec/usageDBConfig/clientType").and_then(Value::as_str).is_some_and(|of| !of.is_empty());
        if !is_on {
            return Ok(());
        }
        let at = |field: &str| format!("/spec/usageDBConfig/usageParams/{field}");
        let of = |field: &str| period(object, &at(field), place);
        let size_ms = of("windowSize")?.unwrap_or(7 * 86_400_000);
        let kind = place.word(object, &at("windowType"), &["sliding", "tumbling", "cron"])?.unwrap_or(0);
        let window = match kind {
            0 => UsageWindow::Sliding { size_ms },
            1 => {
                let start = place.text(object, &at("tumblingWindowStartTime"))?;
                let start = start.as_deref().and_then(parse_with_offset);
                let what = "a tumbling window needs its tumblingWindowStartTime, such as 2026-01-05T00:00:00Z";
                self.start = Some(Start(start.ok_or_else(|| place.wrong(what))?));
                UsageWindow::Tumbling { start_ms: 0, size_ms }
            }
            _ => return Err(place.wrong("a window by `cron` is not replayed; write `sliding` or `tumbling`")),
        };
        // Off if it is nothing, as KAI takes it.
        let half_life_ms = of("halfLifePeriod")?.filter(|half_life| *half_life > 0);
        let fetch_ms = of("fetchInterval")?.unwrap_or(UsageRule::WEEK.fetch_ms);
        if size_ms.min(fetch_ms) < SHORTEST_MS {
            return Err(place.wrong("windowSize and fetchInterval are a second at least"));
        }
        self.rules.usage = Some(UsageRule { window, half_life_ms, fetch_ms });
        Ok(())
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
        let known = || CLASSES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
        self.priorities.get(class).copied().or_else(known)
    }

    /// GPUs that the top queues, or the leaves, deserve, whichever is more.
    pub(super) fn nominal_gpus(&self) -> f64 {
        let sum = |of: &dyn Fn(&Written) -> bool| -> f64 {
            self.queues
                .iter()
                .filter(|queue| of(queue))
                .filter_map(|queue| queue.gpus.quota)
                .map(|own| own as f64 / 1e3)
                .sum()
        };
        sum(&|queue| queue.listed.parent.is_none()).max(sum(&|queue| !self.is_above(queue)))
    }

    /// The queues as a tree, time 0 being `origin_ms`.
    fn tree(&self, resource: Resource, origin_ms: i64) -> Result<Hierarchy> {
        let wrong = |line: u64, what: String| Err(Error::File { file: self.file.clone(), line, what });
        let listed: Vec<&ListedQueue> = self.queues.iter().map(|queue| &queue.listed).collect();
        let (places, leaves) = listed::places(&self.file, &listed, "parentQueue", EXPORT)?;
        let mut queues = Vec::with_capacity(places.len());
        for QueuePlace { at, parent, created } in places {
            let queue = &self.queues[at];
            let amounts = if resource == Resource::Cpus { queue.cpus } else { queue.gpus };
            queues.push(KaiQueue {
                name: queue.listed.name.clone(),
                parent,
                quota: amounts.quota,
                limit: amounts.limit,
                weight_milli: amounts.weight_milli,
                priority: queue.priority,
                created,
                reclaim_min_ms: queue.reclaim_min_ms,
                preempt_min_ms: queue.preempt_min_ms,
            });
        }
        let mut rules = self.rules.clone();
        if let (Some(UsageRule { window: UsageWindow::Tumbling { start_ms, .. }, .. }), Some(Start(at))) =
            (&mut rules.usage, self.start)
        {
            *start_ms = at.saturating_sub(origin_ms).clamp(-(LONGEST_MS as i64), LONGEST_MS as i64);
        }
        Hierarchy::new(queues, leaves, rules).or_else(|error| wrong(1, error.to_string()))
    }

    /// The cluster with all its nodes in one pool, the file's leaves as its VCs, and their shares of `resource`; what is assumed is added to `notes`.
    pub(super) fn govern(
        &self,
        cluster: &Cluster,
        resource: Resource,
        origin_ms: i64,
        notes: &mut Vec<String>,
    ) -> Result<Cluster> {
        if resource == Resource::Nodes {
            let what = format!("no queue has a quota of {}", resource.many());
            return Err(Error::File { file: self.file.clone(), line: 1, what });
        }
        let tree = self.tree(resource, origin_ms)?;
        notes.extend(self.notes.iter().cloned());
        let vcs = self.names().into_iter().map(|name| Vc::new(name, 0)).collect();
        let cluster = Cluster { vcs, kai: Some(tree), ..cluster.pooled() };
        notes.extend(self.told(&cluster, resource));
        Ok(cluster)
    }

    /// Returns the notes on the queues.
    fn told(&self, cluster: &Cluster, resource: Resource) -> Vec<String> {
        let Some(tree) = &cluster.kai else { return Vec::new() };
        let all = cluster.largest().1;
        let mut notes = vec![format!(
            "Queues are KAI's: their shares, not nodes of their own, divide one pool of {} {}.",
            format::integer(all as i64),
            resource.many()
        )];
        let top = tree.below(None).iter().filter_map(|at| tree.queues()[usize::from(*at)].quota);
        let quotas: u64 = top.sum();
        if quotas > all * 1000 {
            notes.push(format!(
                "The quotas of the top queues add up to {} {}, more than there are: little is left to be divided by weight.",
                format::float(quotas as f64 / 1000.0, 0),
                resource.many()
            ));
        }
        let shut: Vec<&str> = (0..tree.leaves() as u16)
            .filter(|leaf| tree.path(*leaf).any(|at| tree.queues()[usize::from(at)].limit == Some(0)))
            .map(|leaf| tree.queues()[usize::from(leaf)].name.as_str())
            .collect();
        if !shut.is_empty() {
            notes.push(format!(
                "KAI takes a limit that is not written for 0, so that these queues run nothing: {}. Write `limit: -1` for none.",
                shut.join(", ")
            ));
        }
        if let Some(usage) = &tree.rules().usage {
            let (UsageWindow::Sliding { size_ms } | UsageWindow::Tumbling { size_ms, .. }) = usage.window;
            let hours = |ms: i64| format::duration(ms as f64 / 1000.0);
            let decay = usage
                .half_life_ms
                .map_or_else(String::new, |half_life| format!(" with a half-life of {}", hours(half_life)));
            notes.push(format!(
                "Time-based share is on: what queues used in a window of {}{decay} counts with kValue {}. Nothing is known of before the replay.",
                hours(size_ms),
                tree.rules().k_milli as f64 / 1000.0
            ));
        }
        notes
    }
}

/// A length of time as Kubernetes and Prometheus write it, such as 10m, 1h30m or 7d, in milliseconds.
pub(super) fn period(object: &Value, pointer: &str, place: &Place<'_>) -> Result<Option<i64>> {
    let Some(text) = place.text(object, pointer)? else { return Ok(None) };
    match milliseconds(&text) {
        Some(ms) => Ok(Some(ms)),
        None => Err(place.wrong(format!("{pointer} is \"{text}\"; write a length of time such as 10m, 1h30m or 168h"))),
    }
}

fn milliseconds(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    let mut parts = 0;
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(split);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, later) = after.split_at(end);
        let factor = match unit {
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3_600e3,
            "d" => 86_400e3,
            "w" => 7.0 * 86_400e3,
            "y" => 365.0 * 86_400e3,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        (parts, rest) = (parts + 1, later);
    }
    (parts > 0 && (0.0..=LONGEST_MS).contains(&total)).then_some(total.round() as i64)
}

fn queue(name: &str, object: &Value, place: &Place<'_>) -> Result<Written> {
    let listed = ListedQueue::new(name, place.text(object, "/spec/parentQueue")?, object, place)?;
    place.fields(object.get("spec"), "spec", &SPEC_FIELDS)?;
    let priority = match object.pointer("/spec/priority") {
        None | Some(Value::Null) => QUEUE_PRIORITY,
        Some(value) => {
            let number = value.as_i64().and_then(|value| i32::try_from(value).ok());
            number.ok_or_else(|| place.wrong(format!("spec.priority is {value}; write a whole number")))?
        }
    };
    Ok(Written {
        listed,
        priority,
        gpus: amounts(object, "gpu", 1000.0, place)?,
        cpus: amounts(object, "cpu", 1.0, place)?,
        reclaim_min_ms: period(object, "/spec/reclaimMinRuntime", place)?,
        preempt_min_ms: period(object, "/spec/preemptMinRuntime", place)?,
    })
}

/// Returns the amounts of a resource that a queue has, one of it being `milli` thousandths of what
/// is counted.
fn amounts(object: &Value, resource: &str, milli: f64, place: &Place<'_>) -> Result<Amounts> {
    let of = object.pointer(&format!("/spec/resources/{resource}"));
    place.fields(of, &format!("resources.{resource}"), &RESOURCE_FIELDS)?;
    let number = |field: &str| -> Result<f64> {
        match of.and_then(|of| of.get(field)) {
            None | Some(Value::Null) => Ok(0.0),
            Some(value) => value.as_f64().ok_or_else(|| {
                place.wrong(format!("{field} of {resource} is {value}; write a number such as 8, or -1 for no bound"))
            }),
        }
    };
    let bounded = |field: &str| -> Result<Option<u64>> {
        let value = number(field)?;
        if value == -1.0 {
            return Ok(None);
        }
        match (value * milli).round() {
            thousandths if (0.0..=MOST_COUNTED * 1000.0).contains(&thousandths) => Ok(Some(thousandths as u64)),
            _ => {
                Err(place.wrong(format!("{field} of {resource} is {value}; write a number from 0, or -1 for no bound")))
            }
        }
    };
    let weight = number("overQuotaWeight")?;
    if !(0.0..=MOST_WEIGHT).contains(&weight) {
        return Err(
            place.wrong(format!("overQuotaWeight of {resource} is {weight}; write a number from 0 to {MOST_WEIGHT}"))
        );
    }
    Ok(Amounts { quota: bounded("quota")?, limit: bounded("limit")?, weight_milli: (weight * 1000.0).round() as u64 })
}
