//! GPUs of each job on each node over time, and the free GPUs of the nodes at any moment. The
//! topics `fragment` and `locality` rest on it.
//!
//! A placement lasts as long as its attempt, or its job where the source has no attempts. Where the source does not say
//! how a job's GPUs are spread over its nodes, the rest is spread evenly, and such jobs are counted. The inventory is taken
//! to be the same at all times. GPUs are whole millionths inside, so that a node returns to exactly its size.
//!
//! Complexity: O(p log p) for p placements to build and to sweep; each change costs O(log f) for f distinct numbers of free
//! GPUs (at most 9 with nodes of 8 whole GPUs).
//!
//! Worked number: nodes of 8 and 4 GPUs of which 5 and 0 are used: 7 are free, 3 of them stranded on a partly used node, and
//! one node is wholly free.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::job::JobFacts;
use crate::schema::{Table, gpu_count};
use crate::stats::sum::NeumaierSum;

/// Millionths in one GPU.
pub(crate) const MICRO: f64 = 1e6;
/// Least share of the GPU time that must be placed: what is not placed would look free.
const LEAST_PLACED: f64 = 0.9;

/// GPUs in whole millionths; what is no count of GPUs is none.
pub(crate) fn micros(gpus: f64) -> i64 {
    gpu_count(gpus).map_or(0, |gpus| (gpus * MICRO).round() as i64)
}

/// A node with GPUs.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// GPUs, millionths.
    pub gpus: i64,
    /// The pool of nodes it belongs to, see [`Placements::pools`].
    pub pool: Option<usize>,
}

/// The nodes and what they held when.
#[derive(Debug)]
pub(crate) struct Placements {
    /// Nodes with GPUs.
    pub nodes: Vec<Node>,
    /// Names of the VCs to which nodes are bound; empty unless every node with GPUs names its VC.
    pub pools: BTreeMap<String, usize>,
    /// `(ms, node, millionths taken)`, in order of time; what is given back is negative.
    changes: Vec<(i64, usize, i64)>,
    /// Share of the GPU time of all jobs that is placed on nodes of the inventory.
    pub placed_share: f64,
    /// Jobs whose split over nodes was taken to be even.
    pub even_splits: u64,
}

/// Number of distinct nodes in the last attempt of each job, 0 where the source has no placements of it. O(placements).
pub(crate) fn nodes_of_jobs(facts: &JobFacts<'_>) -> Vec<u32> {
    let table = &facts.trace.placements;
    let of_key = rows_by_key(facts);
    let mut last = vec![(i64::MIN, 0u32); facts.len()];
    let mut seen = HashSet::new();
    for row in 0..table.len() {
        let job = table.job_key.get(row).and_then(|key| of_key.get(key)).copied();
        let (Some(job), Some(node)) = (job, table.node.code(row)) else { continue };
        let attempt = table.attempt.get(row).unwrap_or(1);
        let Some(entry) = last.get_mut(job) else { continue };
        if attempt < entry.0 || !seen.insert((job, attempt, node)) {
            continue;
        }
        *entry = if attempt > entry.0 { (attempt, 1) } else { (attempt, entry.1 + 1) };
    }
    last.into_iter().map(|(_, nodes)| nodes).collect()
}

fn rows_by_key<'t>(facts: &JobFacts<'t>) -> HashMap<&'t str, usize> {
    let keys = &facts.trace.jobs.job_key;
    (0..facts.len()).filter_map(|job| Some((keys.get(job)?, job))).collect()
}

/// A placement row whose job and time are known.
struct Row {
    job: usize,
    attempt: i64,
    node: Option<usize>,
    start: i64,
    end: i64,
    gpus: Option<f64>,
    total: Option<f64>,
}

impl Placements {
    /// Reads the placements from the trace.
    ///
    /// # Errors
    /// In one line what the source lacks.
    pub(crate) fn new(facts: &JobFacts<'_>) -> Result<Self, String> {
        let trace = facts.trace;
        if trace.placements.is_empty() {
            return Err("the source does not name the nodes that jobs ran on".to_owned());
        }
        let inventory = &trace.nodes;
        let bound = (0..inventory.len())
            .filter(|row| inventory.gpus.get(*row).and_then(gpu_count).is_some_and(|gpus| gpus > 0.0))
            .all(|row| inventory.vc.get(row).is_some());
        let (mut nodes, mut of_name, mut pools) = (Vec::new(), HashMap::new(), BTreeMap::new());
        for row in 0..inventory.len() {
            let (Some(name), Some(gpus)) = (inventory.node.get(row), inventory.gpus.get(row).and_then(gpu_count))
            else {
                continue;
            };
            if gpus <= 0.0 || of_name.contains_key(name) {
                continue;
            }
            of_name.insert(name, nodes.len());
            let next = pools.len();
            let pool = inventory.vc.get(row).filter(|_| bound).map(|vc| *pools.entry(vc.to_owned()).or_insert(next));
            nodes.push(Node { gpus: micros(gpus), pool });
        }
        if nodes.is_empty() {
            return Err("the source has no inventory of nodes with their GPUs".to_owned());
        }
        let rows = rows(facts, &of_name);
        let (splits, even_splits) = splits(&rows);
        let mut changes = Vec::new();
        let mut placed = NeumaierSum::new();
        for (row, gpus) in rows.iter().zip(splits) {
            let (Some(node), Some(gpus)) = (row.node, gpus) else { continue };
            let amount = micros(gpus);
            if amount > 0 && row.end > row.start {
                changes.push((row.start, node, amount));
                changes.push((row.end, node, -amount));
                placed.add(gpus * (row.end - row.start) as f64);
            }
        }
        changes.sort_unstable();
        let held: NeumaierSum = facts.stretches.iter().map(|s| s.gpus * (s.end - s.start).max(0) as f64).collect();
        let placed_share = crate::stats::share(placed.value(), held.value()).unwrap_or(0.0);
        if placed_share < LEAST_PLACED {
            return Err(format!(
                "only {} of the GPU time is placed on nodes of the inventory; the rest would look free",
                crate::report::format::percent(placed_share)
            ));
        }
        Ok(Self { nodes, pools, changes, placed_share, even_splits })
    }

    /// GPUs of the largest node, millionths.
    pub(crate) fn largest_node(&self) -> i64 {
        self.nodes.iter().map(|node| node.gpus).max().unwrap_or(0)
    }

    /// Starts before the first change, with all nodes empty.
    pub(crate) fn sweep(&self) -> Sweep<'_> {
        let mut sweep = Sweep {
            placements: self,
            next: 0,
            used: vec![0; self.nodes.len()],
            cluster: FreeNodes::default(),
            pools: vec![FreeNodes::default(); self.pools.len()],
        };
        for node in &self.nodes {
            sweep.cluster.count(node.gpus, 0, 1);
            if let Some(pool) = node.pool.and_then(|pool| sweep.pools.get_mut(pool)) {
                pool.count(node.gpus, 0, 1);
            }
        }
        sweep
    }
}

/// Placement rows with the time of their attempt.
fn rows(facts: &JobFacts<'_>, of_name: &HashMap<&str, usize>) -> Vec<Row> {
    let trace = facts.trace;
    let (table, attempts) = (&trace.placements, &trace.attempts);
    let of_key = rows_by_key(facts);
    let mut attempted: HashMap<(&str, i64), usize> = HashMap::new();
    let mut with_attempts: HashSet<&str> = HashSet::new();
    for ix in 0..attempts.len() {
        if let Some(key) = attempts.job_key.get(ix) {
            attempted.insert((key, attempts.attempt.get(ix).unwrap_or(1)), ix);
            with_attempts.insert(key);
        }
    }
    // Without attempt rows a job holds its GPUs once.
    let mut once: HashMap<usize, (i64, i64)> = HashMap::new();
    for stretch in &facts.stretches {
        once.insert(stretch.job, (stretch.start, stretch.end));
    }
    let node_of_code: Vec<Option<usize>> = (0..table.node.distinct())
        .map(|code| of_name.get(table.node.name(u32::try_from(code).ok()?)?).copied())
        .collect();
    let mut rows = Vec::with_capacity(table.len());
    for ix in 0..table.len() {
        let Some((key, job)) = table.job_key.get(ix).and_then(|key| Some((key, *of_key.get(key)?))) else { continue };
        let attempt = table.attempt.get(ix).unwrap_or(1);
        let (time, total) = if with_attempts.contains(key) {
            let Some(row) = attempted.get(&(key, attempt)).copied() else { continue };
            let open = (attempts.censored.get(row) == Some(1)).then_some(facts.record_end).flatten();
            let time = attempts.start.get(row).zip(attempts.end.get(row).or(open));
            (time, attempts.alloc_gpus.get(row).and_then(gpu_count).or_else(|| facts.gpus(job)))
        } else {
            (once.get(&job).copied(), facts.gpus(job))
        };
        let Some((start, end)) = time else { continue };
        let node = table.node.code(ix).and_then(|code| node_of_code.get(code as usize).copied().flatten());
        rows.push(Row { job, attempt, node, start, end, gpus: table.gpus.get(ix).and_then(gpu_count), total });
    }
    rows
}

/// GPUs of each row: those recorded, else an even part of what the attempt has beyond them; and how many jobs needed that.
fn splits(rows: &[Row]) -> (Vec<Option<f64>>, u64) {
    let mut known: HashMap<(usize, i64), (f64, u32)> = HashMap::new();
    for row in rows {
        let entry = known.entry((row.job, row.attempt)).or_default();
        entry.0 += row.gpus.unwrap_or(0.0);
        entry.1 += u32::from(row.gpus.is_none());
    }
    let mut guessed = HashSet::new();
    let gpus = rows
        .iter()
        .map(|row| {
            row.gpus.or_else(|| {
                let (sum, unknown) = known.get(&(row.job, row.attempt)).copied().unwrap_or((0.0, 1));
                // All of one node is no guess.
                if unknown > 1 {
                    guessed.insert(row.job);
                }
                Some((row.total? - sum).max(0.0) / f64::from(unknown))
            })
        })
        .collect();
    (gpus, guessed.len() as u64)
}

/// Free GPUs of a set of nodes at one moment. A node with more used than it has counts as having none free.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeNodes {
    /// Nodes by free GPUs, millionths.
    by_free: BTreeMap<i64, u64>,
    /// Free GPUs, millionths.
    pub free: i64,
    /// Free GPUs on nodes that are partly used, millionths.
    pub stranded: i64,
    /// Nodes partly used.
    pub partial: u64,
    /// Nodes wholly free.
    pub empty: u64,
    /// Nodes with more used than they have.
    pub over: u64,
}

impl FreeNodes {
    /// Adds (`by` = 1) or removes (`by` = -1) a node.
    fn count(&mut self, gpus: i64, used: i64, by: i64) {
        let free = (gpus - used).max(0);
        let step = |number: &mut u64| *number = number.saturating_add_signed(by);
        let nodes = self.by_free.entry(free).or_default();
        step(nodes);
        if *nodes == 0 {
            self.by_free.remove(&free);
        }
        self.free += by * free;
        if used > gpus {
            step(&mut self.over);
        }
        if used <= 0 {
            step(&mut self.empty);
        } else if free > 0 {
            step(&mut self.partial);
            self.stranded += by * free;
        }
    }

    /// Most free GPUs on one node, millionths.
    pub(crate) fn most(&self) -> i64 {
        self.by_free.last_key_value().map_or(0, |(free, _)| *free)
    }

    /// Free GPUs on the `nodes` nodes that have most, millionths. O(distinct numbers of free GPUs).
    pub(crate) fn top(&self, mut nodes: u64) -> i64 {
        let mut sum = 0;
        for (free, count) in self.by_free.iter().rev() {
            let taken = nodes.min(*count);
            sum += free * taken as i64;
            nodes -= taken;
            if nodes == 0 {
                break;
            }
        }
        sum
    }

    /// `(free GPUs in millionths, nodes)`, fewest free first.
    pub(crate) fn by_free(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.by_free.iter().map(|(free, nodes)| (*free, *nodes))
    }
}

/// The free GPUs of all nodes as time moves on.
#[derive(Debug)]
pub(crate) struct Sweep<'p> {
    placements: &'p Placements,
    next: usize,
    used: Vec<i64>,
    /// Free GPUs of all nodes.
    pub cluster: FreeNodes,
    /// Free GPUs of the nodes bound to each VC.
    pub pools: Vec<FreeNodes>,
}

impl Sweep<'_> {
    /// Moment of the next change, ms.
    pub(crate) fn next_change(&self) -> Option<i64> {
        self.placements.changes.get(self.next).map(|(time, _, _)| *time)
    }

    /// Moves on to `time`: applies every change up to and at it.
    pub(crate) fn advance(&mut self, time: i64) {
        while let Some((_, ix, amount)) = self.placements.changes.get(self.next).filter(|(at, _, _)| *at <= time) {
            self.next += 1;
            let (Some(node), Some(used)) = (self.placements.nodes.get(*ix), self.used.get_mut(*ix)) else { continue };
            let before = *used;
            *used += amount;
            self.cluster.count(node.gpus, before, -1);
            self.cluster.count(node.gpus, *used, 1);
            if let Some(pool) = node.pool.and_then(|pool| self.pools.get_mut(pool)) {
                pool.count(node.gpus, before, -1);
                pool.count(node.gpus, *used, 1);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, node, place};
    use crate::schema::AttemptRow;
    use crate::trace::Trace;

    #[test]
    fn the_worked_number_and_the_top_nodes() {
        let mut free = FreeNodes::default();
        free.count(8_000_000, 5_000_000, 1);
        free.count(4_000_000, 0, 1);
        assert_eq!((free.free, free.stranded, free.partial, free.empty), (7_000_000, 3_000_000, 1, 1));
        assert_eq!((free.most(), free.top(1), free.top(2), free.top(9)), (4_000_000, 4_000_000, 7_000_000, 7_000_000));
        // A node with 9 of 8 used has none free, not -1.
        free.count(8_000_000, 9_000_000, 1);
        assert_eq!((free.free, free.over, free.partial), (7_000_000, 1, 1));
        free.count(8_000_000, 9_000_000, -1);
        assert_eq!((free.over, free.by_free().count()), (0, 2));
    }

    #[test]
    fn attempts_give_the_times_and_unknown_splits_are_even() {
        let mut trace = Trace::default();
        // Two attempts: 6 GPUs over two nodes from 0 s to 10 s (split unknown), then 8 on one from 20 s to 40 s.
        let mut row = job("a", "v", 8.0, 0, 0, 40);
        row.run_s = Some(30.0);
        trace.jobs.push(row);
        for (attempt, start, end, gpus) in [(1, 0, 10_000, 6.0), (2, 20_000, 40_000, 8.0)] {
            trace.attempts.push(AttemptRow {
                job_key: Some("a".into()),
                attempt: Some(attempt),
                start: Some(start),
                end: Some(end),
                alloc_gpus: Some(gpus),
                ..AttemptRow::default()
            });
        }
        trace.placements.push(place("a", "n1", None));
        trace.placements.push(place("a", "n2", None));
        let mut second = place("a", "n2", None);
        second.attempt = Some(2);
        trace.placements.push(second);
        trace.nodes.push(node("n1", 8.0));
        trace.nodes.push(node("n2", 8.0));
        let placements = Placements::new(&JobFacts::new(&trace)).unwrap();
        assert_eq!((placements.placed_share, placements.even_splits), (1.0, 1));
        assert_eq!(nodes_of_jobs(&JobFacts::new(&trace)), [1]);
        let mut sweep = placements.sweep();
        let mut seen = Vec::new();
        for time in [0, 10_000, 20_000, 40_000] {
            sweep.advance(time);
            seen.push((sweep.cluster.free / 1_000_000, sweep.cluster.empty, sweep.cluster.partial));
        }
        assert_eq!(seen, [(10, 0, 2), (16, 2, 0), (8, 1, 0), (16, 2, 0)]);
    }

    #[test]
    fn jobs_that_are_not_placed_would_look_free_so_few_are_refused() {
        let mut trace = Trace::default();
        trace.jobs.push(job("a", "v", 4.0, 0, 0, 10));
        trace.jobs.push(job("b", "v", 1.0, 0, 0, 10));
        trace.placements.push(place("a", "n1", Some(4.0)));
        assert!(Placements::new(&JobFacts::new(&trace)).unwrap_err().contains("inventory"));
        trace.nodes.push(node("n1", 8.0));
        // 4 of 5 GPUs are placed.
        assert!(Placements::new(&JobFacts::new(&trace)).unwrap_err().contains("80.0 %"));
    }
}
