//! A12: GPUs that are free but of little use because of where they are.
//!
//! With u_n of c_n GPUs used on node n, free f_n = max(0, c_n - u_n):
//! * partly used node: 0 < u_n < c_n; its free GPUs are stranded in the sense that no job can have the whole node;
//! * a request of s GPUs is blocked by fragmentation at a moment when Σ f_n ≥ s but max f_n < s (s at most a node);
//! * fragmentation after FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), by GPUs only: F = Σ_n Σ_m p_m f_n
//!   \[f_n < s_m\] with p_m the share of GPU jobs that ask for s_m (requests beyond the largest node count as that node):
//!   free GPUs that a job drawn from the trace finds unusable. The paper's CPU, memory and single-GPU terms are left out,
//!   as traces seldom record them, so F is a lower bound of it.
//!
//! Where every node is bound to a VC, a request is held against the nodes of its own VC; F is always over all nodes.
//!
//! All are exact over time: an event sweep that keeps the nodes counted by free GPUs. Complexity: O(e log e + e (f log m +
//! s)) for e changes, f distinct numbers of free GPUs, m distinct request sizes and s kinds of
//! waiting requests (sizes up to a node × VCs).
//!
//! Worked number: nodes of 8 GPUs with 3 and 8 free, half of the jobs ask for 1 GPU and half for 4: F = 0.5 · 3 = 1.5 of 11
//! free GPUs. With 3 and 3 free a request of 4 is blocked although 6 are free, and F = 0.5 · 6 = 3.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::{CAVEAT_BELOW, Moments, Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::facts::occupancy::Steps;
use crate::facts::placed::{FreeNodes, MICRO, Placements, micros};
use crate::report::format::{compact, count, counted, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats::sum::NeumaierSum;

/// Points of the chart over time.
const POINTS: i64 = 600;

/// State of the nodes while requests of one size waited.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BlockedSize {
    /// GPUs asked for, fractions rounded up to whole GPUs.
    pub gpus: u64,
    /// Time in which some job of that size waited, hours; summed over VCs where nodes are bound to VCs.
    pub waiting_hours: f64,
    /// Share of that time in which fewer GPUs were free on the nodes it may use.
    pub full_share: f64,
    /// Share of that time in which enough GPUs were free, but on no single node.
    pub fragmented_share: f64,
    /// Share of that time in which a node could have hosted it: it waited for quota, order or policy.
    pub fits_share: f64,
}

/// One stretch of the observation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FreePoint {
    /// Beginning, ms.
    pub ms: i64,
    /// Free GPUs, mean.
    pub free_gpus: f64,
    /// Free GPUs on partly used nodes, mean.
    pub stranded_gpus: f64,
}

/// Fragmentation of the free GPUs. Means are over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Fragmentation {
    /// Nodes with GPUs in the inventory.
    pub nodes: u64,
    /// GPUs of these nodes.
    pub gpus: f64,
    /// Length of the observation, hours.
    pub hours: f64,
    /// Nodes partly used, mean.
    pub mean_partial_nodes: f64,
    /// Nodes wholly free, mean.
    pub mean_free_nodes: f64,
    /// Free GPUs, mean.
    pub mean_free_gpus: f64,
    /// Free GPUs on partly used nodes, mean.
    pub mean_stranded_gpus: f64,
    /// Stranded GPU time over free GPU time; `null` if nothing was ever free.
    pub stranded_share: Option<f64>,
    /// FGD's F by GPUs: free GPUs that a job drawn from the trace finds unusable, mean.
    pub mean_unusable_gpus: f64,
    /// Unusable GPU time over free GPU time.
    pub unusable_share: Option<f64>,
    /// Share of the nodes wholly free, mean over the time in which at least two thirds of the GPUs are in use.
    pub free_node_share_when_two_thirds_used: Option<f64>,
    /// Share of the time in which some node had more GPUs in use than it has.
    pub over_capacity_time_share: f64,
    /// Blocked requests by size, of those that fit one node, smallest first.
    pub by_size: Vec<BlockedSize>,
    /// Free GPUs over time, means of equal stretches.
    pub curve: Vec<FreePoint>,
    /// Share of the GPU time that is placed on nodes of the inventory.
    pub placed_share: f64,
    /// Jobs whose split over nodes was taken to be even.
    pub even_splits: u64,
    /// Time axis of the chart.
    #[serde(skip)]
    moments: Moments,
}

/// GPUs asked for, rounded up, and the pool of nodes that may serve it (`None` for all nodes).
type Request = (u64, Option<usize>);

/// Waiting time of one kind of request by the state of the nodes, ms.
#[derive(Debug, Clone, Copy, Default)]
struct Met {
    waiting: u64,
    time: f64,
    full: f64,
    fragmented: f64,
}

/// Sums over time, in units of nodes or millionths of GPUs times ms.
#[derive(Debug, Default)]
struct Sums {
    partial: NeumaierSum,
    empty: NeumaierSum,
    free: NeumaierSum,
    stranded: NeumaierSum,
    unusable: NeumaierSum,
    busy_time: f64,
    busy_empty: f64,
    over_time: f64,
}

/// Share of GPU jobs by request size: sizes in millionths, ascending, and the share of jobs that ask for more than each.
struct Mix {
    sizes: Vec<i64>,
    /// `more[i]`: share of the jobs that ask for at least `sizes[i]`.
    at_least: Vec<f64>,
}

impl Mix {
    fn new(facts: &JobFacts<'_>, largest: i64) -> Self {
        let mut jobs: BTreeMap<i64, u64> = BTreeMap::new();
        for gpus in (0..facts.len()).filter_map(|job| facts.gpus(job)).filter(|gpus| *gpus > 0.0) {
            *jobs.entry(micros(gpus).min(largest)).or_default() += 1;
        }
        let all: u64 = jobs.values().sum();
        let mut left = all;
        let mut mix = Self { sizes: Vec::new(), at_least: Vec::new() };
        for (size, count) in jobs {
            mix.sizes.push(size);
            mix.at_least.push(left as f64 / all as f64);
            left -= count;
        }
        mix
    }

    /// Share of the jobs that ask for more than `free` millionths.
    fn more_than(&self, free: i64) -> f64 {
        self.at_least.get(self.sizes.partition_point(|size| *size <= free)).copied().unwrap_or(0.0)
    }

    /// FGD's F, millionths.
    fn unusable(&self, nodes: &FreeNodes) -> f64 {
        nodes.by_free().map(|(free, count)| free as f64 * count as f64 * self.more_than(free)).sum()
    }
}

impl Topic for Fragmentation {
    const ID: &'static str = "fragment";
    const CODE: &'static str = "A12";
    const TITLE: &'static str = "Fragmentation of free GPUs";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let placements = Placements::new(facts)?;
        let Some((from, to)) = facts.window.filter(|(from, to)| to > from) else {
            return Err("the observation spans no time".to_owned());
        };
        let largest = placements.largest_node();
        let mix = Mix::new(facts, largest);
        let waits = waits(facts, &placements, largest);
        let total: i64 = placements.nodes.iter().map(|node| node.gpus).sum();
        let mut met: BTreeMap<Request, Met> = BTreeMap::new();
        let mut sums = Sums::default();
        let (mut free_curve, mut stranded_curve) = (Vec::new(), Vec::new());
        let mut sweep = placements.sweep();
        let mut waiting = waits.iter().peekable();
        let mut now = from;
        while now < to {
            sweep.advance(now);
            while let Some((_, request, by)) = waiting.next_if(|(time, _, _)| *time <= now) {
                let met = met.entry(*request).or_default();
                met.waiting = met.waiting.saturating_add_signed(*by);
            }
            let next = [sweep.next_change(), waiting.peek().map(|(time, _, _)| *time)].into_iter().flatten().min();
            let next = next.unwrap_or(to).min(to);
            let nodes = &sweep.cluster;
            sums.add(nodes, &mix, total, placements.nodes.len(), (next - now) as f64);
            for ((gpus, pool), met) in met.iter_mut().filter(|(_, met)| met.waiting > 0) {
                let usable = pool.and_then(|pool| sweep.pools.get(pool)).unwrap_or(nodes);
                met.add(usable, *gpus as i64 * MICRO as i64, (next - now) as f64);
            }
            free_curve.push((now, nodes.free as f64 / MICRO));
            stranded_curve.push((now, nodes.stranded as f64 / MICRO));
            now = next;
        }
        let time = (to - from) as f64;
        let step = ((to - from) / POINTS).max(1);
        let means = |samples: Vec<(i64, f64)>| Steps::of_samples(samples).bucket_means(from, to, step);
        Ok(Self {
            nodes: placements.nodes.len() as u64,
            gpus: total as f64 / MICRO,
            hours: hours(time / 1_000.0),
            mean_partial_nodes: sums.partial.value() / time,
            mean_free_nodes: sums.empty.value() / time,
            mean_free_gpus: sums.free.value() / time / MICRO,
            mean_stranded_gpus: sums.stranded.value() / time / MICRO,
            stranded_share: share(sums.stranded.value(), sums.free.value()),
            mean_unusable_gpus: sums.unusable.value() / time / MICRO,
            unusable_share: share(sums.unusable.value(), sums.free.value()),
            free_node_share_when_two_thirds_used: share(sums.busy_empty, sums.busy_time),
            over_capacity_time_share: sums.over_time / time,
            by_size: by_size(&met),
            curve: means(free_curve)
                .into_iter()
                .zip(means(stranded_curve))
                .map(|((ms, free_gpus), (_, stranded_gpus))| FreePoint { ms, free_gpus, stranded_gpus })
                .collect(),
            placed_share: placements.placed_share,
            even_splits: placements.even_splits,
            moments: Moments::of(facts.trace),
        })
    }

    fn section(&self) -> Section {
        let mut finding = format!(
            "Of **{:.0}** GPUs free on average, **{:.0}** ({}) are on partly used nodes, and a job of this trace's mix finds \
             {} of the free GPUs unusable; **{:.1}** of {} nodes are wholly free{}.",
            self.mean_free_gpus,
            self.mean_stranded_gpus,
            self.stranded_share.map_or_else(|| "none free".to_owned(), percent),
            self.unusable_share.map_or_else(|| "none".to_owned(), percent),
            self.mean_free_nodes,
            count(self.nodes),
            if self.placed_share < CAVEAT_BELOW {
                format!(", with only {} of the GPU time placed on nodes", percent(self.placed_share))
            } else {
                String::new()
            }
        );
        let worst = self.by_size.iter().rev().max_by(|a, b| a.fragmented_share.total_cmp(&b.fragmented_share));
        if let Some(worst) = worst.filter(|size| size.fragmented_share > 0.0) {
            finding.push_str(&format!(
                " Requests of {} suffer most: for **{}** of the time that any waited, enough GPUs were free, but on \
                 no single node.",
                counted(worst.gpus, "GPU", "GPUs"),
                percent(worst.fragmented_share)
            ));
        }
        let part =
            |of: &dyn Fn(&BlockedSize) -> f64| self.by_size.iter().map(|size| Some(of(size))).collect::<Vec<_>>();
        let met = Chart::bars(
            "fragment-size",
            "What waiting requests met, by GPUs asked for",
            Axis::share("Share of the time with a request waiting"),
            BarLayout::Stacked,
            self.by_size.iter().map(|size| size.gpus.to_string()).collect(),
            vec![
                BarSeries::new("too few free", part(&|size| size.full_share)),
                BarSeries::new("free, but on no node", part(&|size| size.fragmented_share)),
                BarSeries::new("a node had room", part(&|size| size.fits_share)),
            ],
        )
        .with_reading(
            "The first part met too few free GPUs in the whole cluster, the middle one enough of them on too many nodes, the \
             last a node with room, and waited for quota, order or policy.",
        );
        let first = self.curve.first().map_or(0, |point| point.ms);
        let over_time = |of: &dyn Fn(&FreePoint) -> f64| {
            self.curve.iter().map(|point| (self.moments.place(point.ms, first), of(point))).collect::<Vec<_>>()
        };
        let curve = Chart::xy(
            "fragment-time",
            "Free GPUs, and those on partly used nodes",
            self.moments.axis(),
            Axis::linear("GPUs"),
            vec![
                ChartSeries::new("free", Mark::Step, over_time(&|point| point.free_gpus)),
                ChartSeries::new("on partly used nodes", Mark::Area, over_time(&|point| point.stranded_gpus)),
            ],
        )
        .with_reading(
            "Where the two meet, no whole node is free and jobs of a full node must wait, however many GPUs are free.",
        );
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(Some(self.mean_stranded_gpus * self.hours))
            .with_chart(curve);
        if !self.by_size.is_empty() {
            section = section.with_chart(met).with_table(self.size_table());
        }
        let mut coverage = format!(
            "{} with {} GPUs; {} of the GPU time is placed on them.",
            counted(self.nodes, "node", "nodes"),
            compact(self.gpus),
            percent(self.placed_share)
        );
        if self.even_splits > 0 {
            coverage.push_str(&format!(
                " The nodes of {} known without the split over them, which was taken to be even.",
                counted(self.even_splits, "job is", "jobs are")
            ));
        }
        if self.over_capacity_time_share > 0.0 {
            coverage.push_str(&format!(
                " For {} of the time some node had more GPUs in use than the inventory says; it counts as having none free.",
                percent(self.over_capacity_time_share)
            ));
        }
        section
            .with_table(self.table())
            .with_definition(
                "Stranded: free GPUs on nodes of which some GPUs are in use. All nodes of the inventory count as up at all \
                 times, so nodes that were down look wholly free.",
            )
            .with_definition(
                "Unusable: fragmentation after FGD by GPUs only: over all nodes, free GPUs × the share of GPU jobs that ask \
                 for more than the node has free. Requests larger than the largest node count as that node. CPU, memory, \
                 GPU model and quota are left out.",
            )
            .with_definition(
                "Requests by size: the time in which at least one job of that size waited, requests rounded up to whole GPUs \
                 and only those that fit the largest node. Where every node is bound to a VC, a request looks at its VC's \
                 nodes only, and times are summed over VCs.",
            )
            .with_coverage(coverage)
    }
}

/// Blocked requests by size, all pools together.
fn by_size(met: &BTreeMap<Request, Met>) -> Vec<BlockedSize> {
    let mut sizes: BTreeMap<u64, Met> = BTreeMap::new();
    for ((gpus, _), met) in met {
        let sum = sizes.entry(*gpus).or_default();
        sum.time += met.time;
        sum.full += met.full;
        sum.fragmented += met.fragmented;
    }
    sizes
        .into_iter()
        .filter(|(_, met)| met.time > 0.0)
        .map(|(gpus, met)| BlockedSize {
            gpus,
            waiting_hours: hours(met.time / 1_000.0),
            full_share: met.full / met.time,
            fragmented_share: met.fragmented / met.time,
            fits_share: (met.time - met.full - met.fragmented) / met.time,
        })
        .collect()
}

impl Met {
    /// A stretch of time in which `asked` millionths were waited for on `nodes`.
    fn add(&mut self, nodes: &FreeNodes, request: i64, time: f64) {
        self.time += time;
        if nodes.free < request {
            self.full += time;
        } else if nodes.most() < request {
            self.fragmented += time;
        }
    }
}

/// `(ms, request, +1 or -1)` of waiting jobs that fit the largest node, in order of time.
fn waits(facts: &JobFacts<'_>, placements: &Placements, largest: i64) -> Vec<(i64, Request, i64)> {
    let mut waits = Vec::new();
    for job in 0..facts.len() {
        let Some(gpus) = facts.gpus(job).filter(|gpus| *gpus > 0.0 && micros(*gpus) <= largest) else { continue };
        if let Some((start, end)) = facts.waiting_interval(job).filter(|(start, end)| end > start) {
            let pool = facts.trace.jobs.vc.get(job).and_then(|vc| placements.pools.get(vc).copied());
            let request = (gpus.ceil() as u64, pool);
            waits.push((start, request, 1));
            waits.push((end, request, -1));
        }
    }
    waits.sort_unstable();
    waits
}

impl Sums {
    fn add(&mut self, nodes: &FreeNodes, mix: &Mix, total: i64, count: usize, time: f64) {
        self.partial.add(nodes.partial as f64 * time);
        self.empty.add(nodes.empty as f64 * time);
        self.free.add(nodes.free as f64 * time);
        self.stranded.add(nodes.stranded as f64 * time);
        self.unusable.add(mix.unusable(nodes) * time);
        if nodes.over > 0 {
            self.over_time += time;
        }
        // Two thirds in use is one third free or less.
        if nodes.free.saturating_mul(3) <= total {
            self.busy_time += time;
            self.busy_empty += nodes.empty as f64 / count as f64 * time;
        }
    }
}

impl Fragmentation {
    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Nodes and free GPUs, means over time",
            vec![Column::text("What"), Column::number("Value")],
        );
        let one = |value: f64| Cell::Float { value, digits: 1 };
        let rows = [
            ("Nodes partly used", one(self.mean_partial_nodes)),
            ("Nodes wholly free", one(self.mean_free_nodes)),
            ("Free GPUs", one(self.mean_free_gpus)),
            ("of them stranded", one(self.mean_stranded_gpus)),
            ("of them unusable for a job of the mix", one(self.mean_unusable_gpus)),
            (
                "Nodes wholly free while two thirds of the GPUs are in use",
                Cell::opt(self.free_node_share_when_two_thirds_used, Cell::Percent),
            ),
        ];
        table.rows.extend(rows.into_iter().map(|(what, cell)| vec![what.into(), cell]));
        table
    }

    fn size_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "What waiting requests met",
            vec![
                Column::number("GPUs"),
                Column::with_unit("Time with one waiting", "h"),
                Column::number("Too few free"),
                Column::number("Free, but on no node"),
                Column::number("A node had room"),
            ],
        );
        for size in &self.by_size {
            table.rows.push(vec![
                super::summary::int(size.gpus),
                Cell::Float { value: size.waiting_hours, digits: 1 },
                Cell::Percent(size.full_share),
                Cell::Percent(size.fragmented_share),
                Cell::Percent(size.fits_share),
            ]);
        }
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::job;
    use crate::facts::rows::{node, place};
    use crate::trace::Trace;

    /// Two nodes of 8. Job a holds 5 of n1 from 0 s to 100 s; job b holds 5 of n2 from 50 s to 100 s; job c asks for 4 at
    /// 60 s and starts on n1 at 100 s, until 200 s.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        trace.jobs.push(job("a", "v", 5.0, 0, 0, 100));
        trace.jobs.push(job("b", "v", 5.0, 50, 50, 100));
        trace.jobs.push(job("c", "v", 4.0, 60, 100, 200));
        trace.placements.push(place("a", "n1", Some(5.0)));
        trace.placements.push(place("b", "n2", Some(5.0)));
        trace.placements.push(place("c", "n1", Some(4.0)));
        trace.nodes.push(node("n1", 8.0));
        trace.nodes.push(node("n2", 8.0));
        trace
    }

    #[test]
    fn means_and_blocked_requests_by_hand() {
        let trace = trace();
        let fragmentation = Fragmentation::of(&JobFacts::new(&trace)).unwrap();
        // Free: 11 for 50 s (3 + 8), 6 for 50 s (3 + 3), 12 for 100 s (4 + 8): (550 + 300 + 1,200) / 200.
        assert_eq!(fragmentation.mean_free_gpus, 10.25);
        // Stranded: 3, 6 and 4: (150 + 300 + 400) / 200.
        assert_eq!(fragmentation.mean_stranded_gpus, 4.25);
        // Partly used nodes 1, 2, 1; wholly free 1, 0, 1.
        assert_eq!((fragmentation.mean_partial_nodes, fragmentation.mean_free_nodes), (1.25, 0.75));
        // Two of three jobs ask for 5, one for 4. F: 3 · 1, 6 · 1, then 4 · 2/3: (150 + 300 + 266.67) / 200.
        assert!((fragmentation.mean_unusable_gpus - (450.0 + 800.0 / 3.0) / 200.0).abs() < 1e-9);
        // While c waits for 4, 6 are free, 3 on each node.
        let sizes: Vec<_> = fragmentation.by_size.iter().map(|s| (s.gpus, s.fragmented_share, s.full_share)).collect();
        assert_eq!(sizes, [(4, 1.0, 0.0)]);
        // Never two thirds in use: at most 10 of 16.
        assert_eq!(fragmentation.free_node_share_when_two_thirds_used, None);
    }

    #[test]
    fn the_worked_number() {
        let mix = Mix { sizes: vec![1_000_000, 4_000_000], at_least: vec![1.0, 0.5] };
        let of = |used: [i64; 2]| {
            let mut trace = Trace::default();
            trace.nodes.push(node("n1", 8.0));
            trace.nodes.push(node("n2", 8.0));
            trace.jobs.push(job("a", "v", used[0] as f64 + used[1] as f64, 0, 0, 10));
            trace.placements.push(place("a", "n1", Some(used[0] as f64)));
            trace.placements.push(place("a", "n2", Some(used[1] as f64)));
            let placements = Placements::new(&JobFacts::new(&trace)).unwrap();
            let mut sweep = placements.sweep();
            sweep.advance(0);
            mix.unusable(&sweep.cluster) / MICRO
        };
        assert_eq!((of([5, 0]), of([5, 5])), (1.5, 3.0));
    }

    #[test]
    fn a_request_looks_only_at_the_nodes_of_its_vc_where_nodes_are_bound() {
        let mut trace = trace();
        trace.nodes.vc.set(0, Some("v"));
        trace.nodes.vc.set(1, Some("w"));
        let fragmentation = Fragmentation::of(&JobFacts::new(&trace)).unwrap();
        // While c waits for 4 in VC v, n1 has 3 free: full, whatever n2 of VC w has.
        let sizes: Vec<_> = fragmentation.by_size.iter().map(|s| (s.gpus, s.fragmented_share, s.full_share)).collect();
        assert_eq!(sizes, [(4, 0.0, 1.0)]);
    }

    #[test]
    fn a_full_cluster_is_not_fragmentation() {
        let mut trace = trace();
        // d asks for 7 at 50 s and starts at 100 s on n2: only 6 are free while it waits.
        trace.jobs.push(job("d", "v", 7.0, 50, 100, 200));
        trace.placements.push(place("d", "n2", Some(7.0)));
        let fragmentation = Fragmentation::of(&JobFacts::new(&trace)).unwrap();
        let seven = fragmentation.by_size.iter().find(|size| size.gpus == 7).unwrap();
        assert_eq!((seven.full_share, seven.fragmented_share, seven.fits_share), (1.0, 0.0, 0.0));
    }
}
