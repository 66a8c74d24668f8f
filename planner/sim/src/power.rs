//! Nodes that sleep: the rules a replay follows, and the record of who slept when.
//!
//! The contract is in [`super`], section *Power*. [`Rules`] says how long boots and shutdowns take and what keeps a
//! node from sleeping or waking; [`Supervisor`] holds them together with who decides how many nodes are powered, one
//! [`Controller`] a pool; [`PowerPolicy`] is the border to whoever decides; [`Record`] is what happened, from which energy
//! and node-hours follow. Nothing is decided here, and nothing placed.
//!
//! [`Record::durations`] costs O(changes + nodes) and gives whole milliseconds, so the states of all nodes add up to
//! nodes × time exactly.
//!
//! Worked number: two nodes for 100 s, the second told to sleep at 10 s with a shutdown of 5 s and woken at 60 s with a
//! boot of 20 s: powered 100 + 10 + 20 = 130 s, shutting down 5 s, asleep 45 s, booting 20 s, together 200 s.

use serde::{Deserialize, Serialize};
use tracecast_analytics::facts::demand::{Seen, Series, Slot};

use super::cluster::Cluster;
use crate::error::{Error, Result};

/// Rules of the sleep of nodes. Times in milliseconds of the replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Length of a slot: controllers are asked at every multiple of it.
    pub slot_ms: i64,
    /// From the order to wake until the node takes jobs.
    pub boot_ms: i64,
    /// From the order to sleep until it is off.
    pub shutdown_ms: i64,
    /// Probability that a boot fails and is tried again, below 1.
    pub failed_boot_ratio: f64,
    /// Seed of the draws of failed boots.
    pub seed: u64,
    /// At least so many nodes of a pool are powered or boot.
    pub canaries: u32,
    /// At least so many powered nodes without a job are left when one is put to sleep.
    pub keep_idle: u32,
    /// A node is powered for at least so long before it is put to sleep.
    pub min_on_ms: i64,
    /// A node is asleep for at least so long before it is woken.
    pub min_off_ms: i64,
    /// Most wakes ordered within one minute in a pool; 0: no limit.
    pub wakes_per_minute: u32,
    /// Most sleeps ordered within one minute in a pool; 0: no limit.
    pub sleeps_per_minute: u32,
    /// A node that was woken so often within one day (of 24 h from time 0) is put to sleep no more on that day; 0: no limit.
    pub wakes_per_node_day: u32,
    /// A node without a job for so long is put to sleep; `None`: only a controller puts nodes to sleep.
    pub idle_ms: Option<i64>,
    /// By pool, its own timeout and idle nodes instead of `idle_ms` and `keep_idle`; pools beyond the end have the common ones.
    pub by_pool: Vec<Timeout>,
    /// Whether waiting jobs wake the nodes they need.
    pub wake_on_demand: bool,
    /// Slots go on at least until here.
    pub until_ms: i64,
    /// Slots end when jobs wait for so long without anything else happening.
    pub patience_ms: i64,
    /// IANA name of the zone whose clock controllers are told of.
    pub zone: String,
}

/// Timeout of the idle nodes of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timeout {
    /// A node without a job for so long is put to sleep; `None`: only a controller puts nodes to sleep.
    pub idle_ms: Option<i64>,
    /// At least so many powered nodes without a job are left when one is put to sleep.
    pub keep_idle: u32,
}

impl Default for Rules {
    /// Ten-minute slots, boots of 5 min, shutdowns of 1 min, wake on demand; nothing puts a node to sleep.
    fn default() -> Self {
        Self {
            slot_ms: 600_000,
            boot_ms: 300_000,
            shutdown_ms: 60_000,
            failed_boot_ratio: 0.0,
            seed: 0,
            canaries: 0,
            keep_idle: 0,
            min_on_ms: 0,
            min_off_ms: 0,
            wakes_per_minute: 0,
            sleeps_per_minute: 0,
            wakes_per_node_day: 0,
            idle_ms: None,
            by_pool: Vec::new(),
            wake_on_demand: true,
            until_ms: 0,
            patience_ms: 7 * 86_400_000,
            zone: "UTC".to_owned(),
        }
    }
}

impl Rules {
    /// Checks that times are not negative and the probability is one.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn validate(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Policy(what.to_owned()));
        if self.slot_ms <= 0 {
            return wrong("a slot must be longer than nothing");
        }
        let times = [self.boot_ms, self.shutdown_ms, self.min_on_ms, self.min_off_ms, self.patience_ms];
        let of_pools = self.by_pool.iter().filter_map(|pool| pool.idle_ms.as_ref());
        if times.iter().chain(&self.idle_ms).chain(of_pools).any(|time| *time < 0) {
            return wrong("boot, shutdown, minimum on and off times, timeout and patience cannot be negative");
        }
        if !(0.0..1.0).contains(&self.failed_boot_ratio) {
            return wrong("the share of failed boots must be at least 0 and below 1");
        }
        Ok(())
    }

    /// Returns the timeout of the idle nodes of a pool.
    pub fn timeout_of(&self, pool: usize) -> Timeout {
        let common = Timeout { idle_ms: self.idle_ms, keep_idle: self.keep_idle };
        self.by_pool.get(pool).copied().unwrap_or(common)
    }

    /// Whether the boot of a node (numbered over all pools) with this number (from 0, of that node) fails.
    pub fn boot_fails(&self, node: u32, number: u32) -> bool {
        let drawn = super::place::draw(self.seed, number, node);
        // The upper 53 bits: a number of [0, 1) that is exact.
        ((drawn >> 11) as f64) / ((1u64 << 53) as f64) < self.failed_boot_ratio
    }
}

/// Decides, slot by slot, how many nodes (or GPUs) are powered: the border between who decides and who carries it out.
pub trait PowerPolicy {
    /// Returns the name in reports and JSON.
    fn name(&self) -> String;

    /// How many shall be powered in the slot that begins now, of [`Slot::total`] there are, with `powered` now. Depends on `seen`, `powered` and
    /// the policy's own memory of earlier calls only. What exceeds the total, or falls short of what runs, is corrected by who carries it out.
    fn target(&mut self, seen: Seen<'_>, powered: f64) -> f64;
}

/// Controller of the number of powered nodes of a pool.
pub struct Controller {
    /// The policy.
    pub policy: Box<dyn PowerPolicy>,
    /// Slots before time 0, for policies that look back; the last ends at time 0.
    pub history: Vec<Slot>,
}

/// Rules, and a controller for each pool that has one.
#[derive(Debug)]
pub struct Supervisor {
    /// The rules, the same for all pools.
    pub rules: Rules,
    /// Controllers by pool; `None` (or none) leaves a pool to timeout and wake on demand.
    pub controllers: Vec<Option<Controller>>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("policy", &self.policy.name()).field("history", &self.history.len()).finish()
    }
}

impl Supervisor {
    /// Rules without any controller.
    pub fn reactive(rules: Rules) -> Self {
        Self { rules, controllers: Vec::new() }
    }
}

/// Power state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Powered: takes jobs, or runs some.
    Powered,
    /// On its way to sleep.
    ShuttingDown,
    /// Off.
    Asleep,
    /// On its way to take jobs.
    Booting,
    /// Failed, or not there.
    Out,
}

impl State {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Powered, Self::ShuttingDown, Self::Asleep, Self::Booting, Self::Out];
}

/// Change of a node's state. A boot that fails and is tried again is a change from booting to
/// booting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Moment of the change, milliseconds.
    pub at_ms: i64,
    /// The node, numbered over all pools.
    pub node: u32,
    /// State from then on.
    pub state: State,
}

/// Order of a controller at the beginning of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerOrder {
    /// Moment of the order, milliseconds.
    pub at_ms: i64,
    /// Nodes that shall be powered, as the policy said.
    pub asked: f64,
    /// Nodes powered or booting before it was carried out.
    pub on: u32,
}

/// Observations and orders of one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRecord {
    /// Slots of the pool, those of [`Controller::history`] included.
    pub seen: Series,
    /// How many of the slots were given as history.
    pub history: usize,
    /// Orders of the controller.
    pub orders: Vec<PowerOrder>,
}

/// Changes of the nodes' power states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Nodes there ever are, over all pools. All are powered at time 0 unless the first change says otherwise.
    pub nodes: u32,
    /// Changes, in order of time within a pool, pool after pool.
    pub changes: Vec<Change>,
    /// Records by pool.
    pub pools: Vec<PoolRecord>,
}

impl Record {
    /// Creates a record without changes.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { nodes: cluster.most_nodes(), changes: Vec::new(), pools: Vec::new() }
    }

    /// Returns, for each node, its states from time 0 on: (from, state), the last one open.
    /// O(changes + nodes).
    pub fn by_node(&self) -> Vec<Vec<(i64, State)>> {
        let mut nodes = vec![vec![(0, State::Powered)]; self.nodes as usize];
        for change in &self.changes {
            if let Some(states) = nodes.get_mut(change.node as usize) {
                states.push((change.at_ms, change.state));
            }
        }
        nodes
    }

    /// Node-milliseconds in each state of [`State::ALL`] between two moments.
    pub fn durations(&self, from_ms: i64, to_ms: i64) -> [i64; 5] {
        durations(&self.by_node(), from_ms, to_ms)
    }

    /// Wakes ordered and boots that failed within [from, to).
    pub fn wakes(&self, from_ms: i64, to_ms: i64) -> (u64, u64) {
        let nodes = self.by_node();
        let begun = boots(&nodes).filter(|boot| (from_ms..to_ms).contains(&boot.at_ms));
        begun.fold((0, 0), |(wakes, failed), boot| (wakes + u64::from(!boot.again), failed + u64::from(boot.again)))
    }
}

/// A node begins to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot {
    /// Index in the list of nodes.
    pub node: usize,
    /// Start of the boot.
    pub at_ms: i64,
    /// Whether the boot follows one that failed.
    pub again: bool,
}

/// All boots of some nodes, as [`Record::by_node`] has them.
pub fn boots(nodes: &[Vec<(i64, State)>]) -> impl Iterator<Item = Boot> + '_ {
    let of_node = |(node, states): (usize, &'_ Vec<(i64, State)>)| {
        let boots = states.windows(2).filter_map(move |pair| match pair {
            [(_, before), (at_ms, State::Booting)] => {
                Some(Boot { node, at_ms: *at_ms, again: *before == State::Booting })
            }
            _ => None,
        });
        boots.collect::<Vec<Boot>>()
    };
    nodes.iter().enumerate().flat_map(of_node)
}

/// Node-milliseconds of some nodes in each state of [`State::ALL`] between two moments.
pub fn durations(nodes: &[Vec<(i64, State)>], from_ms: i64, to_ms: i64) -> [i64; 5] {
    let mut sums = [0; 5];
    for states in nodes {
        let ends = states.iter().skip(1).map(|(at, _)| *at).chain([i64::MAX]);
        for ((at, state), end) in states.iter().zip(ends) {
            let held = end.min(to_ms) - (*at).max(from_ms);
            if let Some(sum) = sums.get_mut(*state as usize) {
                *sum += held.max(0);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the module.
    #[test]
    fn states_add_up() {
        let change = |at_s: i64, state| Change { at_ms: at_s * 1000, node: 1, state };
        let changes = vec![
            change(10, State::ShuttingDown),
            change(15, State::Asleep),
            change(60, State::Booting),
            change(80, State::Powered),
        ];
        let record = Record { nodes: 2, changes, pools: Vec::new() };
        assert_eq!(record.durations(0, 100_000), [130_000, 5_000, 45_000, 20_000, 0]);
        assert_eq!(record.wakes(0, 100_000), (1, 0));
        // From 12 to 62 s: the first node 50 s, the second 3 + 45 + 2 s.
        assert_eq!(record.durations(12_000, 62_000), [50_000, 3_000, 45_000, 2_000, 0]);
        assert_eq!(record.wakes(61_000, 100_000), (0, 0));
    }

    #[test]
    fn boots_fail_as_often_as_said() {
        let rules = Rules { failed_boot_ratio: 0.1, seed: 3, ..Rules::default() };
        let failed = (0..10_000).filter(|number| rules.boot_fails(5, *number)).count();
        // 1000 ± 4 standard deviations of 30.
        assert!((880..=1120).contains(&failed), "{failed}");
        assert!(!(0..1000).any(|number| Rules::default().boot_fails(5, number)));
        assert!(Rules { failed_boot_ratio: 1.0, ..Rules::default() }.validate().is_err());
    }
}
