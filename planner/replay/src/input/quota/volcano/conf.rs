//! Rules of the queues in the configuration of Volcano's scheduler (`volcano-scheduler.conf`).
//!
//! The plugins `proportion` or `capacity` say what queues deserve; `priority` and `drf` order jobs, in the order in which they stand in the tiers. Who may be stopped is asked of the plugins tier by tier, as Volcano does it: a tier decides if its plugins agree on somebody. Of whole gangs, which is what jobs of a replay are,
//! `gang` and `drf` let nobody be stopped where they are asked (`enablePreemptable`, and for `gang` `enableReclaimable`); then the next tier is asked. So under Volcano's own two tiers reclaim stops whole gangs, as tier 1 finds nobody and tier 2 holds the plugin of the queues, and preempt does not.
//!
//! O(plugins). Worked example: `gang` with `enablePreemptable: false` and `drf` likewise leave `priority` to say who is preempted: jobs of lower priority.

use serde_json::Value;

use super::super::{Place, miswritten};
use crate::error::Result;
use tracecast_sim::volcano::{Eviction, JobOrder, Plugin, ReclaimFrom, VolcanoRules};

/// Actions there are.
const ACTIONS: [&str; 10] = [
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "gangpreempt",
    "gangreclaim",
    "shuffle",
    "elect",
    "reserve",
];
/// Fields that are read.
const FIELDS: [&str; 9] = [
    "actions",
    "tiers",
    "plugins",
    "name",
    "arguments",
    "enablePreemptable",
    "enableReclaimable",
    "enableJobOrder",
    "enableHierarchy",
];

/// A plugin of a tier.
#[derive(Debug, Clone)]
struct Enabled {
    name: String,
    preemptable: bool,
    reclaimable: bool,
    job_order: bool,
}

/// Answer of a plugin that is asked who may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nobody,
    /// Whom the action is about: jobs of queues that hold more than they deserve, or of lower priority.
    Such,
    Anybody,
}

/// The rules of the queues.
#[derive(Debug, Clone)]
pub(super) struct Conf {
    actions: Vec<String>,
    pub(super) rules: VolcanoRules,
    /// Whether queues may lie below each other.
    pub(super) is_tree: bool,
    pub(super) notes: Vec<String>,
}

impl Conf {
    /// Returns the usual configuration: Volcano's, or that of its guide to the plugin capacity.
    pub(super) fn usual(deserves: bool, has_parents: bool) -> Self {
        let (plugin, evictions) = match deserves {
            true => (Plugin::Capacity, vec![Eviction::Reclaim(ReclaimFrom::Over)]),
            false => (Plugin::Proportion, Vec::new()),
        };
        let actions =
            ["enqueue", "allocate", "backfill", "reclaim"].into_iter().filter(|of| deserves || *of != "reclaim");
        Self {
            actions: actions.map(str::to_owned).collect(),
            rules: VolcanoRules { plugin, evictions, ..VolcanoRules::default() },
            is_tree: deserves && has_parents,
            notes: Vec::new(),
        }
    }

    /// Returns the actions, in order.
    pub(super) fn actions(&self) -> String {
        self.actions.join(", ")
    }

    /// Reads a configuration.
    pub(super) fn parse(object: &Value, place: &Place<'_>) -> Result<Self> {
        if let Some((result, known)) = miswritten(object, &FIELDS) {
            return Err(place.wrong(format!("`{result}` is no field of volcano-scheduler.conf; write `{known}`")));
        }
        let actions = place.text(object, "/actions")?;
        let actions = actions.ok_or_else(|| place.wrong("volcano-scheduler.conf has no actions"))?;
        let actions: Vec<String> = actions.split(',').map(|action| action.trim().to_owned()).collect();
        if let Some(unknown) = actions.iter().find(|action| !ACTIONS.contains(&action.as_str())) {
            return Err(place.wrong(format!("there is no action `{unknown}`; there are {}", ACTIONS.join(", "))));
        }
        if !actions.iter().any(|action| action == "allocate") {
            return Err(place.wrong("without the action `allocate` no job starts; add it to actions"));
        }
        let mut result = Self { actions, rules: VolcanoRules::default(), is_tree: false, notes: Vec::new() };
        let tiers = result.tiers(object, place)?;
        let has = |name: &str| tiers.iter().flatten().any(|plugin| plugin.name == name);
        result.rules.plugin = match (has("proportion"), has("capacity")) {
            (true, true) => {
                return Err(place.wrong(
                    "the plugins proportion and capacity are both on, and contradict each other; leave one of them out",
                ));
            }
            (true, false) => Plugin::Proportion,
            (false, true) => Plugin::Capacity,
            (false, false) => {
                return Err(place.wrong(
                    "neither the plugin proportion nor capacity is on, so that queues divide nothing; add one of them",
                ));
            }
        };
        let order = |plugin: &Enabled| match plugin.name.as_str() {
            "priority" if plugin.job_order => Some(JobOrder::Priority),
            "drf" if plugin.job_order => Some(JobOrder::Drf),
            _ => None,
        };
        result.rules.order = tiers.iter().flatten().filter_map(order).collect();
        result.rules.order.dedup();
        result.evictions(&tiers, place)?;
        if result.actions.iter().any(|action| action == "enqueue") {
            result.notes.push("The action enqueue is not replayed: every waiting job is looked at.".to_owned());
        }
        for other in ["shuffle", "elect", "reserve"] {
            if result.actions.iter().any(|action| action == other) {
                result.notes.push(format!("The action {other} is not replayed."));
            }
        }
        Ok(result)
    }

    /// The plugins, tier by tier.
    fn tiers(&mut self, object: &Value, place: &Place<'_>) -> Result<Vec<Vec<Enabled>>> {
        let list = |value: Option<&Value>, what: &str| -> Result<Vec<Value>> {
            let items = value.and_then(Value::as_array);
            items.cloned().ok_or_else(|| place.wrong(format!("{what} of volcano-scheduler.conf is no list")))
        };
        let mut tiers = Vec::new();
        for tier in list(object.get("tiers"), "tiers")? {
            let mut plugins = Vec::new();
            for plugin in list(tier.get("plugins"), "plugins")? {
                let name = plugin.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| place.wrong("a plugin has no name"))?.to_owned();
                let flag = |field: &str, usual: bool| match plugin.get(field) {
                    None | Some(Value::Null) => Ok(usual),
                    Some(Value::Bool(on)) => Ok(*on),
                    Some(other) => Err(place.wrong(format!("{field} of {name} is {other}; write true or false"))),
                };
                let is_tree = flag("enableHierarchy", false)?;
                self.is_tree |= is_tree && name == "capacity";
                if is_tree && name == "drf" {
                    self.notes.push("Hierarchical drf (enableHierarchy of the plugin drf) is not replayed.".to_owned());
                }
                let level =
                    plugin.pointer("/arguments/ancestorReclaimLevel").filter(|level| level.as_f64() != Some(0.0));
                if name == "capacity" && level.is_some() {
                    self.notes.push(
                        "ancestorReclaimLevel is not replayed: queues reclaim what they deserve themselves.".to_owned(),
                    );
                }
                let (preemptable, reclaimable) = (flag("enablePreemptable", true)?, flag("enableReclaimable", true)?);
                let job_order = flag("enableJobOrder", true)?;
                plugins.push(Enabled { name, preemptable, reclaimable, job_order });
            }
            tiers.push(plugins);
        }
        Ok(tiers)
    }

    /// Sets the actions that stop jobs.
    fn evictions(&mut self, tiers: &[Vec<Enabled>], place: &Place<'_>) -> Result<()> {
        let (mut evictions, mut notes) = (Vec::new(), Vec::new());
        for action in &self.actions {
            let eviction = match action.as_str() {
                "reclaim" => {
                    let asked = asked(tiers, |plugin| match plugin.name.as_str() {
                        "gang" if plugin.reclaimable => Some(Answer::Nobody),
                        "proportion" | "capacity" if plugin.reclaimable => Some(Answer::Such),
                        "conformance" if plugin.reclaimable => Some(Answer::Anybody),
                        _ => None,
                    });
                    match asked {
                        Answer::Nobody => {
                            notes.push("The action reclaim stops nobody: the plugin gang, in the tier of the plugin of the queues, protects whole gangs. Set its enableReclaimable to false, or use the action gangreclaim.".to_owned());
                            continue;
                        }
                        Answer::Such => Eviction::Reclaim(ReclaimFrom::Over),
                        Answer::Anybody => {
                            notes.push("The action reclaim takes from any reclaimable queue, within what it deserves or not: conformance decides in a tier in which the plugin of the queues is not asked.".to_owned());
                            Eviction::Reclaim(ReclaimFrom::Any)
                        }
                    }
                }
                "gangreclaim" if self.rules.plugin == Plugin::Proportion => {
                    notes.push("The action gangreclaim stops nobody: it asks the plugin capacity.".to_owned());
                    continue;
                }
                "gangreclaim" => Eviction::Reclaim(ReclaimFrom::Over),
                "preempt" => {
                    let asked = asked(tiers, |plugin| match plugin.name.as_str() {
                        "priority" if plugin.preemptable => Some(Answer::Such),
                        "gang" | "drf" if plugin.preemptable => Some(Answer::Nobody),
                        "conformance" if plugin.preemptable => Some(Answer::Anybody),
                        _ => None,
                    });
                    match asked {
                        Answer::Nobody => {
                            notes.push("The action preempt stops nobody: the plugin gang, or drf, protects whole gangs. Set their enablePreemptable to false, or use the action gangpreempt.".to_owned());
                            continue;
                        }
                        Answer::Such => Eviction::Preempt,
                        Answer::Anybody => {
                            return Err(place.wrong(
                                "the action preempt without the plugin priority would let jobs stop each other whatever their priority; add priority to the first tier, or leave preempt out",
                            ));
                        }
                    }
                }
                "gangpreempt" => Eviction::Preempt,
                _ => continue,
            };
            if !evictions.contains(&eviction) {
                evictions.push(eviction);
            }
        }
        self.rules.evictions = evictions;
        self.notes.extend(notes);
        Ok(())
    }
}

/// Combines the answers of the tiers' plugins on who may be stopped.
fn asked(tiers: &[Vec<Enabled>], says: impl Fn(&Enabled) -> Option<Answer>) -> Answer {
    let mut any_before = false;
    for tier in tiers {
        let mut agreed: Option<Answer> = None;
        for answer in tier.iter().filter_map(&says) {
            agreed = match (answer, agreed) {
                (Answer::Nobody, _) => None,
                (answer, None) if !any_before => Some(answer),
                // Who is left of an earlier answer, and that is nobody.
                (_, None) => None,
                (Answer::Such, Some(_)) => Some(Answer::Such),
                (Answer::Anybody, Some(before)) => Some(before),
            };
            if answer == Answer::Nobody {
                break;
            }
            any_before = true;
        }
        if let Some(agreed) = agreed {
            return agreed;
        }
    }
    Answer::Nobody
}
