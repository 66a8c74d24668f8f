//! Nodes that Slurm leaves powered: `SuspendExcNodes`, `SuspendExcParts` and `SuspendExcStates`.
//!
//! What the user excludes stays excluded, but for a number of nodes of a pool, which is the plan's; then come the plan's idle nodes and canaries, and
//! nodes outside the pools that would begin to sleep. Sets with a number stand before those without, as Slurm wants them. O(n log n) in the nodes.
//!
//! Worked number: 2 idle nodes of `n[1-16]` and the canary n1 are `n[2-16]:2,n1`: the canary is none of the two.

use tracecast_analytics::report::quote::is_slurm_value;

use super::super::refuse;
use super::{COUNTS, EACH_COMMA, Work};
use crate::error::{Error, Result};
use crate::plan::emit::slurm::hosts::{Nodes, deal, expand, first, fold, parts, pieces};
use crate::power::forward::plan::PowerPlan;

/// `count` of `nodes` as pieces without a comma, each with its share.
fn dealt(nodes: &Nodes, count: usize) -> Vec<(String, usize)> {
    // Slurm takes a count of 0 for all.
    let count = if count == 0 { nodes.len() } else { count };
    let cut = pieces(nodes);
    let sizes: Vec<usize> = cut.iter().map(|(_, size)| *size).collect();
    cut.into_iter().map(|(list, _)| list).zip(deal(count, &sizes)).filter(|(_, count)| *count > 0).collect()
}

impl Work<'_> {
    /// `SuspendExcNodes`, `SuspendExcParts` and `SuspendExcStates`.
    pub(super) fn set_excluded(&mut self, plan: &PowerPlan) -> Result<()> {
        let canaries = match &plan.canaries {
            Some(list) => expand(list).map_err(|what| Error::Power(format!("canaries: {what}")))?,
            None => Nodes::new(),
        };
        let unknown: Nodes = canaries.difference(&self.nodes).cloned().collect();
        if !unknown.is_empty() && !self.includes() {
            return refuse(format!(
                "{} has no canaries {}; give the names that Slurm has",
                self.options.conf_name,
                fold(&unknown)
            ));
        }
        self.exclude_partitions();

        let before = self.conf.setting("SuspendExcNodes").unwrap_or_default().to_owned();
        let (mut counted, mut whole) = self.excluded(&before);
        for list in counted.iter().map(|(list, _)| list).chain(&whole) {
            if let Err(what) = expand(list) {
                let line = self.original.line_of("SuspendExcNodes").map_or(0, |line| line.number) as u64;
                let what = format!("SuspendExcNodes: {what}; Slurm ignores all of it, so mend or remove it first");
                return Err(Error::file(self.options.conf_name.clone(), line, what));
            }
        }
        let mut named = canaries.clone();
        named.extend(std::mem::take(&mut self.outside));
        let mut told = Vec::new();
        let mut ours = Vec::new();
        for pool in &self.pools {
            // A number that another list of the user has for these nodes is replaced.
            counted.retain(|(list, _)| !expand(list).is_ok_and(|nodes| nodes.is_subset(&pool.nodes)));
            let free: Nodes = pool.nodes.difference(&canaries).cloned().collect();
            let keep = pool.plan.keep_idle as usize;
            if keep == 0 {
                continue;
            }
            // All of them stay, however many names there are.
            if keep >= free.len().min(pool.plan.total_nodes as usize) {
                told.push(format!(
                    "pool {}: it never sleeps, as it shall keep {keep} idle nodes and has {}",
                    pool.plan.name,
                    free.len().min(pool.plan.total_nodes as usize)
                ));
                named.extend(free);
            } else if self.version < COUNTS {
                let kept = first(&free, keep);
                told.push(format!(
                    "pool {}: Slurm {} is not known to take set:N, so {} stay powered and not any {keep} idle nodes",
                    pool.plan.name,
                    self.version,
                    fold(&kept)
                ));
                named.extend(kept);
            } else if self.version < EACH_COMMA {
                ours.push((fold(&free), keep));
            } else {
                let cut = pieces(&free);
                if cut.len() > 1 {
                    told.push(format!(
                        "pool {}: Slurm {} takes a number for one range only, so its {keep} idle nodes are shared out among {} ranges",
                        pool.plan.name,
                        self.version,
                        cut.len()
                    ));
                }
                ours.extend(dealt(&free, keep));
            }
        }
        ours.extend(counted);
        let each_comma = self.version >= EACH_COMMA;
        // What the user excludes stays excluded.
        let mut kept = Nodes::new();
        whole.iter().filter_map(|list| expand(list).ok()).for_each(|nodes| kept.extend(nodes));
        for pool in &self.pools {
            let more: Nodes = pool.nodes.intersection(&kept).filter(|node| !named.contains(*node)).cloned().collect();
            if !more.is_empty() {
                told.push(format!(
                    "pool {}: {} never sleep, as SuspendExcNodes has them already; take them out if they may",
                    pool.plan.name,
                    fold(&more)
                ));
            }
        }
        named.retain(|node| !kept.contains(node));
        if !named.is_empty() {
            whole.push(fold(&named));
        }
        if each_comma && !ours.is_empty() {
            // With a number anywhere, the commas in the brackets of all sets count.
            let nodes = |list: &String| expand(list).unwrap_or_default();
            whole = whole.iter().flat_map(|list| pieces(&nodes(list))).map(|(list, _)| list).collect();
            ours = ours.iter().flat_map(|(list, count)| dealt(&nodes(list), *count)).collect();
        }
        let counted = ours.into_iter().map(|(list, count)| format!("{list}:{count}"));
        let after = counted.chain(whole).collect::<Vec<_>>().join(",");
        if !after.is_empty() && self.excluded(&after) != self.excluded(&before) {
            self.set("SuspendExcNodes", &after);
        } else if after.is_empty() && !before.is_empty() {
            self.warn(format!(
                "SuspendExcNodes is {before}, which the plan does not ask for; it stays, take it out if it is of no use"
            ));
        }
        self.warnings.extend(told);
        self.exclude_states()
    }

    /// What a `SuspendExcNodes` says: sets with a number, and sets all of which are excluded.
    fn excluded(&self, text: &str) -> (Vec<(String, usize)>, Vec<String>) {
        let (mut counted, mut whole, mut set) = (Vec::new(), Vec::new(), String::new());
        let bare: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        for part in parts(&bare, ['[', ']']).filter(|part| !part.is_empty()) {
            let (list, count) = part.split_once(':').map_or((part, None), |(list, count)| (list, Some(count)));
            if !set.is_empty() {
                set.push(',');
            }
            set.push_str(list);
            match count.map(str::parse) {
                Some(Ok(count)) => counted.push((std::mem::take(&mut set), count)),
                // A number that is none excludes all.
                Some(Err(_)) => whole.push(std::mem::take(&mut set)),
                // Before 23.02 all that comes before a number is one set.
                None if self.version < EACH_COMMA => {}
                None => whole.push(std::mem::take(&mut set)),
            }
        }
        if !set.is_empty() {
            whole.push(set);
        }
        (counted, whole)
    }

    /// Partitions that hold no node of a pool, and only nodes that would begin to sleep, are excluded as a whole.
    fn exclude_partitions(&mut self) {
        let before = self.conf.setting("SuspendExcParts").unwrap_or_default().to_owned();
        let mut names: Vec<String> = before.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut told = Vec::new();
        for name in &names {
            let partition = self.partitions.iter().find(|partition| partition.name == *name);
            for pool in self.pools.iter().filter(|pool| partition.is_some_and(|partition| self.shares(partition, pool)))
            {
                told.push(format!(
                    "pool {}: its nodes in partition {name} never sleep, as SuspendExcParts has it; take it out for the plan to save anything",
                    pool.plan.name
                ));
            }
        }
        let count = names.len();
        let mut whole = Nodes::new();
        for partition in &self.partitions {
            let Some(nodes) =
                partition.nodes.as_ref().filter(|nodes| !nodes.is_empty() && nodes.is_subset(&self.outside))
            else {
                continue;
            };
            whole.extend(nodes.iter().cloned());
            if !names.contains(&partition.name) {
                names.push(partition.name.clone());
            }
        }
        self.outside.retain(|node| !whole.contains(node));
        if names.len() > count {
            self.set("SuspendExcParts", &names.join(","));
        }
        self.warnings.extend(told);
    }

    fn exclude_states(&mut self) -> Result<()> {
        let before = self.conf.setting("SuspendExcStates").unwrap_or_default().to_owned();
        if self.version < EACH_COMMA {
            if !before.is_empty() {
                self.warn(format!(
                    "SuspendExcStates needs Slurm 23.02 and this is {}, whose slurmctld will not start with it",
                    self.version
                ));
            }
            let version = self.version;
            self.warn(format!(
                "Slurm {version} powers nodes down that are down or drained as well; put nodes under repair into SuspendExcNodes (from 23.02 on SuspendExcStates does it)"
            ));
            return Ok(());
        }
        let mut states: Vec<String> = before.split(',').filter(|state| !state.is_empty()).map(str::to_owned).collect();
        for state in &self.options.exc_states {
            if !is_slurm_value(state) || state.contains(',') {
                return refuse(format!(
                    "`{state}` is no state of nodes for SuspendExcStates; use for example DOWN or DRAIN"
                ));
            }
            if !states.iter().any(|have| have.eq_ignore_ascii_case(state)) {
                states.push(state.clone());
            }
        }
        if !states.is_empty() {
            self.set("SuspendExcStates", &states.join(","));
        }
        Ok(())
    }
}
