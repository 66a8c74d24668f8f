//! Processors and memory beside GPUs: what of a node each job holds, and how fast that makes it.
//!
//! ```text
//! node of k GPUs, C processors, M GB ──────────▶ a GPU's share C/k, M/k; what fits      jobs' tables ──table──▶ speed by processors and memory
//! who is in the round (order, or drf) ──▶ divide: shares, best demands, or tune ──▶ what each holds ──▶ speed        bound beside it
//! ```
//!
//! A job makes its throughput `T` times the **speed** of what it holds, a share of its full speed, which its [table] gives by processors and memory a GPU. A job without a table does not depend on them, and one with needs holds exactly these and runs at full speed. After Synergy (Mohan et al., OSDI 2022), a round has three ways to
//! [divide] a node:
//!
//! | name | what a job holds | who is in the round |
//! |---|---|---|
//! | `proportional` | the GPUs' share of the node | by the order, if GPUs fit |
//! | `synergy_greedy` | its best demand: the least with which it is at full speed | by the order, if all of it fits; who finds too few processors or too little memory is passed over |
//! | `synergy` | its best demand if that fits, else what makes it as fast as its GPUs' share would ([`tune`]) | as under `proportional` |
//!
//! The orders are those of `fifo_aware` and `las_aware`, or the shortest remaining time first; every job takes the fastest type with room. All other policies know nothing of processors and memory, and their jobs hold their GPUs' shares. Under [`drf`](super::drf) users' jobs hold their best demands. Parts of a processor can be given.
//!
//! From the paper are the two demands of a job, that a job in the round always runs, that it falls back to the share and takes back from others on the node, and the programme of the [bound](mod@bound). Ours are: that what is free in the end is given away, that a gang is never spread over more nodes than it must, and that a gang of whole nodes holds a GPU's
//! share at most.
//!
//! Worked example: a node of 2 GPUs and 6 processors; a is at full speed with 4 processors and b with 1. By shares of 3, a has 0.75 of its speed and b all. Under `synergy` both have all, and a processor is free.

use schemars::JsonSchema;
use serde::Serialize;

use super::node::{Gang, HostNeeds};
use super::room::GangRoom;
use tracecast_plan::error::{Error, Result, excerpt};

pub mod bound;
pub mod class;
pub mod divide;
pub mod table;
pub mod tally;
pub mod tune;

use table::Sensitivity;

/// Most processors of a node, and most GB.
const MOST: f64 = 1e6;

/// How a job depends on processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum HostUse {
    /// Not at all.
    #[default]
    Any,
    /// By a table, a place in [`HostFleet::tables`].
    Table(usize),
    /// Needs so much for each GPU, and gains by no more.
    Exactly(HostNeeds),
}

/// In which order jobs are let into a round by the policies that divide processors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostOrder {
    /// In order of submission, until one does not fit; under `synergy_greedy` by its GPUs.
    Fifo,
    /// Least attained service first.
    #[default]
    Las,
    /// Shortest remaining time first, at full speed on the fastest type.
    Srtf,
}

/// A job that has GPUs of a type in the round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seated {
    /// GPUs.
    pub gpus: u32,
    /// How it depends on processors and memory.
    pub host: HostUse,
}

/// Processors and memory of a fleet's nodes, and the tables of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFleet {
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Processors and memory of a whole node of each type.
    pub per_node: Vec<HostNeeds>,
    /// Tables by which jobs depend on them.
    pub tables: Vec<Sensitivity>,
    /// Where the tables of [drawn classes](class) begin, if there are some.
    pub classes: Option<usize>,
}

impl HostFleet {
    /// Nodes of so many GPUs, and tables of job types.
    ///
    /// # Errors
    /// If a node has no processors or no memory.
    pub fn new(gpus_per_node: u32, per_node: Vec<HostNeeds>, tables: Vec<Sensitivity>) -> Result<Self> {
        let some = |amount: f64| amount > 0.0 && amount <= MOST;
        if gpus_per_node == 0 || !per_node.iter().all(|node| some(node.cpus) && some(node.memory_gb)) {
            return Err(Error::policy("a node has GPUs, processors and memory, of each more than nothing"));
        }
        Ok(Self { gpus_per_node, per_node, tables, classes: None })
    }

    /// Adds the tables of the classes that are drawn.
    #[must_use]
    pub fn with_classes(mut self) -> Self {
        self.classes = Some(self.tables.len());
        self.tables.extend(class::tables());
        self
    }

    /// A GPU's share of a node of each type.
    pub fn shares(&self) -> Vec<HostNeeds> {
        self.per_node.iter().map(|node| node.times(1.0 / f64::from(self.gpus_per_node))).collect()
    }

    /// How a job of a type depends on processors and memory by the tables.
    pub fn of_type(&self, job: &str) -> HostUse {
        self.tables.iter().position(|table| table.job == job).map_or(HostUse::Any, HostUse::Table)
    }

    /// The table of a job, if it has one.
    pub fn table(&self, of: HostUse) -> Option<&Sensitivity> {
        if let HostUse::Table(at) = of { self.tables.get(at) } else { None }
    }

    /// How fast a job is with so much for each GPU, a share of its full speed.
    pub fn speed(&self, of: HostUse, has: HostNeeds) -> f64 {
        self.table(of).map_or(1.0, |table| table.speed(has))
    }

    /// Best demand of a job on a type, for each GPU: as fast as it can be there, with the least
    /// memory, and then the fewest processors.
    pub fn best(&self, of: HostUse, gpus: u32, at: usize, room: &GangRoom) -> HostNeeds {
        match of {
            HostUse::Any => HostNeeds::default(),
            HostUse::Exactly(needs) => needs,
            HostUse::Table(_) => {
                let (share, node) = (room.share(at), f64::from(room.gpus_of_node(at)));
                // A gang within a node may have all of it; one of whole nodes has no more than these have.
                let most = share.times((node / f64::from(gpus)).max(1.0));
                self.table(of).map_or(most, |table| {
                    let wish = table.best().min(most);
                    // Less memory than at full speed may not do where processors are fewer.
                    table.least(if table.speed(wish) < table.speed(most) { most } else { wish })
                })
            }
        }
    }

    /// Least demand at which a job is as fast as with its GPUs' share, with the least memory, and
    /// then the fewest processors; its needs if it has some.
    pub fn floor(&self, of: HostUse, share: HostNeeds) -> HostNeeds {
        match of {
            HostUse::Any => HostNeeds::default(),
            HostUse::Exactly(needs) => needs,
            HostUse::Table(_) => self.table(of).map_or(share, |table| table.least(share)),
        }
    }
}

/// Demand of a job when it is let into a round.
#[derive(Debug, Clone, PartialEq)]
pub struct JobAsks {
    /// Needs for each GPU; `None` if it takes its GPUs' share.
    pub base: Option<HostNeeds>,
    /// Best demand for each GPU, on each type.
    pub best: Vec<HostNeeds>,
}

impl JobAsks {
    /// Computes the demand of a job of so many GPUs.
    pub fn new(fleet: &HostFleet, host: HostUse, gpus: u32, room: &GangRoom) -> Self {
        Self {
            base: if let HostUse::Exactly(needs) = host { Some(needs) } else { None },
            best: (0..room.gpus.len()).map(|at| fleet.best(host, gpus, at, room)).collect(),
        }
    }

    /// The gang to let onto a type.
    pub fn gang(&self, gpus: u32, at: usize, best: bool) -> Gang {
        Gang { gpus, needs: if best { self.best.get(at).copied() } else { self.base } }
    }
}

/// Parses an amount for the nodes of each type, from a text such as `24`, or `v100=24,k80=16`, by
/// the types of the fleet.
///
/// # Errors
/// If it is of another form, or leaves out a type.
pub fn by_type(text: &str, types: &[&str]) -> Result<Vec<f64>> {
    let malformed = |remedy: &str| Error::malformed("amount of each node", excerpt(text), remedy.to_owned());
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|amount| *amount > 0.0 && *amount <= MOST);
    if let Some(amount) = number(text) {
        return Ok(vec![amount; types.len()]);
    }
    let mut result = vec![None; types.len()];
    for part in text.split(',') {
        let how = "write a number above 0, or one for each type, such as v100=24,k80=16";
        let (name, amount) = part.split_once('=').ok_or_else(|| malformed(how))?;
        let at = types.iter().position(|known| *known == name.trim());
        let slot = at.and_then(|at| result.get_mut(at)).filter(|slot| slot.is_none());
        let slot = slot.ok_or_else(|| malformed("name each type of --fleet once"))?;
        *slot = Some(number(amount).ok_or_else(|| malformed(how))?);
    }
    result.into_iter().collect::<Option<_>>().ok_or_else(|| malformed("name each type of --fleet once"))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
