//! A power plan as what operators run: Slurm's power saving, a schedule of actions, Karpenter, cluster-autoscaler.
//!
//! [`render`] writes the files of one target and decides nothing that the plan has not decided. What the target cannot hold is told as a warning, and
//! what cannot work there is refused with what would mend it. The same plan and options give the same bytes.
//!
//! * [`slurm`]: `slurm.conf` and a patch to the user's own, and the programs it names;
//! * `slurm_loop`: a program that asks the saved plan every slot and has Slurm do it;
//! * [`actions`]: when how many nodes are powered, as JSON lines;
//! * `kubernetes`: node pools that sleep after a while, and pods that hold nodes awake.
//!
//! Nothing is read or written here but text; the cost is that of the text and of the names of nodes, O(n log n).
//!
//! Worked number: nodes that boot in 300 s get `ResumeTimeout` 600, twice the time, as Slurm takes a node that needs longer for broken.

pub mod actions;
mod kubernetes;
pub mod slurm;
mod slurm_loop;

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::power::forward::plan::{PoolPlan, PowerPlan};

/// System that carries a plan out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Slurm's power saving: [`slurm`].
    Slurm,
    /// A loop beside Slurm that asks the saved plan every slot.
    Loop,
    /// A site's own program, by a schedule: [`actions`].
    Actions,
    /// Karpenter: `kubernetes`.
    Karpenter,
    /// The cluster-autoscaler of Kubernetes: `kubernetes`.
    ClusterAutoscaler,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Slurm, Self::Loop, Self::Actions, Self::Karpenter, Self::ClusterAutoscaler];

    /// Name of the target on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Loop => "loop",
            Self::Actions => "actions",
            Self::Karpenter => "karpenter",
            Self::ClusterAutoscaler => "cluster-autoscaler",
        }
    }
}

/// What the targets need to know beyond the plan.
#[derive(Debug, Clone, Default)]
pub struct ConfigOptions {
    /// For [`Target::Slurm`]; [`Target::Loop`] takes the partitions of pools from the text, where there is one.
    pub slurm: slurm::SlurmOptions,
    /// For [`Target::Slurm`]: whether the program of [`Target::Loop`] decides which nodes sleep.
    pub beside_loop: bool,
    /// For [`Target::Loop`]: what the file of the saved plan is called, without its folder; `plan.tcm` if `None`.
    pub plan_file: Option<String>,
}

/// Files for a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Names and contents of files. Those that end in `.sh` are programs.
    pub files: Vec<Emitted>,
    /// The change of the user's own file as a patch; `None` where there is no such file or nothing to change.
    pub diff: Option<String>,
    /// Warnings for the operator, a sentence each.
    pub warnings: Vec<String>,
}

/// Writes `plan` for `target`.
///
/// # Errors
/// A plan or options that cannot work there; the message says what would.
pub fn render(plan: &PowerPlan, target: Target, options: &ConfigOptions) -> Result<Rendered> {
    check(plan)?;
    match target {
        Target::Slurm if options.beside_loop => slurm::render(&slurm_loop::beside(plan), &options.slurm),
        Target::Slurm => slurm::render(plan, &options.slurm),
        Target::Loop => slurm_loop::render(plan, options),
        Target::Actions => actions::render(plan),
        Target::Karpenter => kubernetes::karpenter(plan),
        Target::ClusterAutoscaler => kubernetes::cluster_autoscaler(plan),
    }
}

/// What no target can do.
fn check(plan: &PowerPlan) -> Result<()> {
    if plan.pools.is_empty() {
        return refuse("it has no pools, so there is nothing to power; name at least one");
    }
    let mut names = BTreeSet::new();
    for pool in &plan.pools {
        let name = &pool.name;
        if name.is_empty() || name.chars().any(char::is_control) {
            return refuse(format!("a pool is called {name:?}; give it a name"));
        }
        if !names.insert(name) {
            return refuse(format!("two pools are called {name}; join them or rename one"));
        }
        if pool.keep_idle > pool.total_nodes {
            return refuse(format!(
                "pool {name} shall keep {} idle nodes powered but has {}; ask for at most that many",
                pool.keep_idle, pool.total_nodes
            ));
        }
        check_actions(pool)?;
    }
    Ok(())
}

/// Whether a schedule is in order and adds up.
fn check_actions(pool: &PoolPlan) -> Result<()> {
    for action in &pool.actions {
        if action.powered > pool.total_nodes {
            return refuse(format!(
                "pool {} shall have {} nodes powered at {} but has {}",
                pool.name,
                action.powered,
                actions::time(action.at_ms)?,
                pool.total_nodes
            ));
        }
    }
    for (before, after) in pool.actions.iter().zip(pool.actions.iter().skip(1)) {
        let at = actions::time(after.at_ms)?;
        if before.at_ms >= after.at_ms {
            return refuse(format!("the actions of pool {} are not in order of time at {at}; sort them", pool.name));
        }
        if i64::from(before.powered) + i64::from(after.change) != i64::from(after.powered) {
            return refuse(format!(
                "pool {} has {} nodes powered, and {} at {at}, which is no change of {}",
                pool.name, before.powered, after.powered, after.change
            ));
        }
    }
    Ok(())
}

/// A plan that cannot be carried out.
fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Power(what.into()))
}

#[cfg(test)]
mod tests;
