//! A13: how widely multi-GPU jobs are spread over nodes, whether jobs that insist on few nodes wait longer, and why jobs
//! waited ([`super::delay`]).
//!
//! A job of g GPUs needs at least ⌈g / c⌉ nodes, with c the GPUs of the largest node of the inventory; without an inventory c
//! is the most GPUs that any job had on a single node. Spread is the nodes it ran on last, less that.
//!
//! Complexity: O(n log n) in jobs and placements, beside the causes of delay.
//!
//! Worked number: 8 GPUs on nodes of 8 need one node; a job of 8 on three nodes is spread over 2 more than it needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::delay::{Cause, Delay, DelayBySize};
use super::summary::int;
use super::topic::{CAVEAT_BELOW, Topic, TopicResult, hours, share};
use crate::facts::placed::{self, Placements};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{capitalised, count, duration, percent};
use crate::report::{Axis, BarLayout, BarSeries, Cell, Chart, Column, ReportTable, Section};
use crate::stats::quantile;
use crate::stats::sum::NeumaierSum;

/// Multi-GPU jobs of one class of node counts or of spread.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitByNodes {
    /// The class.
    pub class: String,
    /// Jobs.
    pub jobs: u64,
    /// Share of the multi-GPU jobs whose nodes are known.
    pub job_share: f64,
    /// GPU-hours.
    pub gpu_hours: f64,
    /// GPUs of a job, mean.
    pub mean_gpus: f64,
    /// Waits of the jobs, seconds, where known.
    pub wait_s: Option<quantile::Summary>,
}

/// Nodes of jobs, and waits by them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Locality {
    /// Jobs with more than one GPU.
    pub multi_gpu_jobs: u64,
    /// Multi-GPU jobs whose node count is known.
    pub known_jobs: u64,
    /// GPUs of the largest node.
    pub gpus_per_node: Option<f64>,
    /// Whether `gpus_per_node` is from the inventory, and not the most GPUs of any job on a single
    /// node.
    pub gpus_per_node_from_inventory: bool,
    /// Share of the known jobs that ran on more nodes than they need.
    pub spread_job_share: Option<f64>,
    /// Share of the GPU time of those jobs.
    pub spread_gpu_time_share: Option<f64>,
    /// Waits by nodes.
    pub by_nodes: Vec<WaitByNodes>,
    /// Waits by nodes beyond the fewest.
    pub by_spread: Vec<WaitByNodes>,
    /// Why jobs waited; `null` where neither nodes nor the GPUs of VCs are known.
    pub delay: Option<Delay>,
    /// Why `delay` is `null`, or why it lacks the nodes.
    pub delay_note: Option<String>,
}

/// A multi-GPU job whose nodes are known.
struct Spread {
    job: usize,
    gpus: f64,
    nodes: u64,
    extra: u64,
}

impl Topic for Locality {
    const ID: &'static str = "locality";
    const CODE: &'static str = "A13";
    const TITLE: &'static str = "Locality and why jobs wait";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let placed = placed::nodes_of_jobs(facts);
        let nodes = |job: usize| {
            let recorded = facts.trace.jobs.alloc_nodes.get(job).and_then(|nodes| u64::try_from(nodes).ok());
            let counted = placed.get(job).copied().map(u64::from);
            recorded.or(counted).filter(|nodes| *nodes > 0)
        };
        let inventory = &facts.trace.nodes;
        let largest = inventory.gpus.iter().flatten().filter(|gpus| *gpus > 0.0).reduce(f64::max);
        let per_node = largest.or_else(|| {
            (0..facts.len()).filter(|job| nodes(*job) == Some(1)).filter_map(|job| facts.gpus(job)).reduce(f64::max)
        });
        let multi: Vec<(usize, f64)> =
            (0..facts.len()).filter_map(|job| Some((job, facts.gpus(job).filter(|gpus| *gpus > 1.0)?))).collect();
        let spreads: Vec<Spread> = multi
            .iter()
            .filter_map(|(job, gpus)| {
                let nodes = nodes(*job)?;
                let fewest = per_node.filter(|size| *size > 0.0).map_or(nodes, |size| (gpus / size).ceil() as u64);
                Some(Spread { job: *job, gpus: *gpus, nodes, extra: nodes.saturating_sub(fewest) })
            })
            .collect();
        let placements = Placements::new(facts);
        let (delay, delay_note) = match Delay::of(facts, placements.as_ref().ok()) {
            Ok(delay) => (Some(delay), placements.err()),
            Err(reason) => (None, Some(reason)),
        };
        if spreads.is_empty() && delay.is_none() {
            return Err(
                "the source records neither the nodes of multi-GPU jobs nor the GPUs of VCs that jobs wait for"
                    .to_owned(),
            );
        }
        let gpu_s = |wide: bool| {
            let counted = spreads.iter().filter(|spread| !wide || spread.extra > 0);
            NeumaierSum::from_iter(counted.filter_map(|spread| facts.gpu_s(spread.job))).value()
        };
        let wide = spreads.iter().filter(|spread| spread.extra > 0).count() as f64;
        Ok(Self {
            multi_gpu_jobs: multi.len() as u64,
            known_jobs: spreads.len() as u64,
            gpus_per_node: per_node,
            gpus_per_node_from_inventory: largest.is_some(),
            spread_job_share: per_node.and(share(wide, spreads.len() as f64)),
            spread_gpu_time_share: per_node.and(share(gpu_s(true), gpu_s(false))),
            by_nodes: classes(facts, &spreads, |spread| match spread.nodes {
                1 => (1, "1 node"),
                2 => (2, "2 nodes"),
                3..=4 => (3, "3–4 nodes"),
                5..=8 => (4, "5–8 nodes"),
                _ => (5, "over 8 nodes"),
            }),
            by_spread: if per_node.is_some() {
                classes(facts, &spreads, |spread| match spread.extra {
                    0 => (0, "fewest nodes"),
                    1 => (1, "1 node more"),
                    2 => (2, "2 nodes more"),
                    _ => (3, "3 nodes more or beyond"),
                })
            } else {
                Vec::new()
            },
            delay,
            delay_note,
        })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading()
            .with_finding(self.finding())
            .with_gpu_hours(self.delay.as_ref().map(|delay| delay.all.gpu_wait_hours * delay.every as f64));
        if let Some(delay) = &self.delay {
            section = section
                .with_chart(delay_chart(delay))
                .with_table(delay_table(delay))
                .with_definition(
                    "Causes, tested in this order at each moment looked at: capacity, fewer GPUs were free in the whole \
                     cluster than the job asked for; quota, its VC's quota or nodes had too few while the cluster had \
                     enough; fragmentation, enough were free but not on the fewest nodes it needs; order, it would have \
                     fit, so others were ahead of it or the scheduler held it back. Where nodes are unknown, the free GPUs \
                     of the cluster are those of the VCs with a known capacity together.",
                )
                .with_definition(
                    "Looked into: started GPU jobs that waited a minute or longer, every k-th so that they are at most \
                     20,000, each at up to 64 moments evenly spread over its wait. Shares are of the GPU-hours waited (GPUs \
                     × wait). GPU models, CPU and memory are not considered.",
                )
                .with_definition(
                    "`tracecast simulate` gives the same causes, in the same order and also as shares of the GPU-hours \
                     waited, of a replay instead of the record, and of every wait, however short. The two agree as far as \
                     the replayed policy did what the cluster did.",
                );
        }
        if !self.by_nodes.is_empty() {
            let caption = "Multi-GPU jobs by nodes, and by nodes beyond the fewest";
            let mut table = ReportTable::new(
                caption,
                ["Jobs on", "Jobs", "Share", "GPU-hours", "GPUs a job", "Mean wait", "Median wait", "90 % wait"]
                    .iter()
                    .enumerate()
                    .map(|(ix, name)| if ix == 0 { Column::text(*name) } else { Column::number(*name) })
                    .collect(),
            );
            for class in self.by_nodes.iter().chain(&self.by_spread) {
                let wait = class.wait_s.as_ref();
                table.rows.push(vec![
                    class.class.as_str().into(),
                    int(class.jobs),
                    Cell::Percent(class.job_share),
                    Cell::Float { value: class.gpu_hours, digits: 0 },
                    Cell::Float { value: class.mean_gpus, digits: 1 },
                    Cell::opt(wait, |wait| Cell::Duration(wait.mean)),
                    Cell::opt(wait, |wait| Cell::Duration(wait.p50)),
                    Cell::opt(wait, |wait| Cell::Duration(wait.p90)),
                ]);
            }
            section = section.with_table(table);
        }
        if let Some(size) = self.gpus_per_node {
            let whose = if self.gpus_per_node_from_inventory {
                "the largest node of the inventory"
            } else {
                "the most that any job had on a single node"
            };
            section = section.with_definition(format!(
                "Fewest nodes: GPUs over {size:.0}, {whose}, rounded up. Nodes are those of the last attempt; the wait is \
                 until the first start, so a job that restarted elsewhere counts with its last nodes."
            ));
        }
        let mut coverage = format!(
            "The number of nodes is known for {} of {} multi-GPU jobs",
            count(self.known_jobs),
            count(self.multi_gpu_jobs)
        );
        if let Some(delay) = &self.delay {
            coverage.push_str(&format!(
                "; {} of {} delayed jobs were looked into",
                count(delay.jobs),
                count(delay.delayed_jobs)
            ));
            if !delay.quota_known {
                coverage.push_str("; the GPUs of their VCs are not recorded, so quota is not told from order");
            } else if delay.jobs_without_quota > 0 {
                coverage.push_str(&format!(
                    ", the VC of {} of them has no known capacity, so quota cannot be their cause",
                    count(delay.jobs_without_quota)
                ));
            }
        }
        if let Some(note) = &self.delay_note {
            let lacking = if self.delay.is_some() {
                "fragmentation is not told from order"
            } else {
                "causes of delay are not told"
            };
            coverage.push_str(&format!("; {lacking}, because {note}"));
        }
        coverage.push('.');
        section.with_coverage(coverage)
    }
}

/// Groups jobs by the class `of` gives them: its place and name.
fn classes(facts: &JobFacts<'_>, spreads: &[Spread], of: impl Fn(&Spread) -> (u8, &'static str)) -> Vec<WaitByNodes> {
    let mut groups: BTreeMap<(u8, &'static str), Vec<&Spread>> = BTreeMap::new();
    for spread in spreads {
        groups.entry(of(spread)).or_default().push(spread);
    }
    groups
        .into_iter()
        .map(|((_, name), group)| WaitByNodes {
            class: name.to_owned(),
            jobs: group.len() as u64,
            job_share: group.len() as f64 / spreads.len() as f64,
            gpu_hours: hours(NeumaierSum::from_iter(group.iter().filter_map(|spread| facts.gpu_s(spread.job))).value()),
            mean_gpus: group.iter().map(|spread| spread.gpus).sum::<f64>() / group.len() as f64,
            wait_s: quantile::Summary::of_vec(group.iter().filter_map(|spread| facts.wait_s(spread.job)).collect()),
        })
        .collect()
}

/// Size class for people.
fn size_name(row: &DelayBySize) -> &'static str {
    row.size.map_or("all", SizeClass::name)
}

fn delay_chart(delay: &Delay) -> Chart {
    let rows: Vec<&DelayBySize> = std::iter::once(&delay.all).chain(&delay.by_size).collect();
    let series = Cause::ALL
        .into_iter()
        .filter(|cause| delay.all.causes.iter().any(|share| share.cause == *cause))
        .map(|cause| {
            BarSeries::new(
                cause.name(delay.quota_known, delay.nodes_known),
                rows.iter().map(|row| Some(row.gpu_wait_share(cause))).collect(),
            )
        })
        .collect();
    Chart::bars(
        "delay-cause",
        "What jobs waited for, by size",
        Axis::share("Share of the GPU-hours waited"),
        BarLayout::Stacked,
        rows.iter().map(|row| size_name(row).to_owned()).collect(),
        series,
    )
    .with_reading(
        "Each cause is what was short at the moments of the record, not what would shorten the wait: a job that starts \
         sooner also ends sooner. What another policy or cluster would do is told by a replay (`tracecast simulate`).",
    )
}

fn delay_table(delay: &Delay) -> ReportTable {
    let mut columns = vec![
        Column::text("Jobs"),
        Column::number("Looked into"),
        Column::with_unit("Wait", "h"),
        Column::with_unit("GPUs × wait", "h"),
    ];
    columns.extend(
        delay
            .all
            .causes
            .iter()
            .map(|share| Column::number(capitalised(share.cause.name(delay.quota_known, delay.nodes_known)))),
    );
    let mut table = ReportTable::new("What jobs waited for, shares of the GPU-hours waited", columns);
    for row in std::iter::once(&delay.all).chain(&delay.by_size) {
        let mut cells = vec![
            size_name(row).into(),
            int(row.jobs),
            Cell::Float { value: row.wait_hours, digits: 0 },
            Cell::Float { value: row.gpu_wait_hours, digits: 0 },
        ];
        cells.extend(row.causes.iter().map(|share| Cell::opt(share.gpu_wait_share, Cell::Percent)));
        table.rows.push(cells);
    }
    table
}

impl Locality {
    fn finding(&self) -> String {
        let mut text = String::new();
        if let Some(delay) = &self.delay {
            let parts: Vec<String> = delay
                .all
                .causes
                .iter()
                .map(|share| {
                    format!(
                        "**{}** {}",
                        share.gpu_wait_share.map_or_else(|| "unknown".to_owned(), percent),
                        share.cause.name(delay.quota_known, delay.nodes_known)
                    )
                })
                .collect();
            text = format!(
                "What kept delayed jobs from starting in the record, by the GPU-hours they waited: {}.",
                parts.join(", ")
            );
        }
        if let (Some(jobs), Some(time)) = (self.spread_job_share, self.spread_gpu_time_share) {
            if !text.is_empty() {
                text.push(' ');
            }
            let known = share(self.known_jobs as f64, self.multi_gpu_jobs as f64).filter(|known| *known < CAVEAT_BELOW);
            let whose = known.map_or_else(String::new, |known| {
                format!(" of the **{}** whose number of nodes is known", percent(known))
            });
            if jobs == 0.0 {
                text.push_str(&format!("No multi-GPU job{whose} ran on more nodes than it needs."));
                return text;
            }
            text.push_str(&format!(
                "**{}** of the multi-GPU jobs{}, with {} of their GPU time, ran on more nodes than they need",
                percent(jobs),
                if known.is_some() { " whose number of nodes is known" } else { "" },
                percent(time)
            ));
            let mean = |class: &WaitByNodes| class.wait_s.as_ref().map(|wait| wait.mean);
            let narrow = self.by_spread.first().filter(|class| class.class == "fewest nodes").and_then(mean);
            let wide: Vec<(f64, f64)> = self
                .by_spread
                .iter()
                .filter(|class| class.class != "fewest nodes")
                .filter_map(|class| class.wait_s.as_ref().map(|wait| (wait.mean, wait.count as f64)))
                .collect();
            let waits: f64 = wide.iter().map(|(_, jobs)| jobs).sum();
            let wide = share(wide.iter().map(|(mean, jobs)| mean * jobs).sum(), waits);
            if let (Some(narrow), Some(wide)) = (narrow, wide) {
                text.push_str(&format!("; they waited {} on average, the others {}", duration(wide), duration(narrow)));
            }
            text.push('.');
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::job;
    use crate::facts::rows::{node, place};
    use crate::trace::Trace;

    #[test]
    fn spread_is_nodes_beyond_the_fewest() {
        let mut trace = Trace::default();
        // 8 GPUs on three nodes of 8 after 90 s; 8 on one after 30 s; 12 on two at once; one GPU does not count.
        trace.jobs.push(job("a", "v", 8.0, 0, 90, 190));
        trace.jobs.push(job("b", "v", 8.0, 0, 30, 130));
        trace.jobs.push(job("c", "v", 12.0, 0, 0, 100));
        trace.jobs.push(job("d", "v", 1.0, 0, 0, 100));
        trace.jobs.alloc_nodes.set(2, Some(2));
        for (key, name) in [("a", "n1"), ("a", "n2"), ("a", "n3"), ("b", "n1")] {
            trace.placements.push(place(key, name, None));
        }
        trace.nodes.push(node("n1", 8.0));
        let locality = Locality::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((locality.multi_gpu_jobs, locality.known_jobs, locality.gpus_per_node), (3, 3, Some(8.0)));
        // 800 of 800 + 800 + 1,200 GPU-seconds.
        assert_eq!((locality.spread_job_share, locality.spread_gpu_time_share), (Some(1.0 / 3.0), Some(2.0 / 7.0)));
        let spread: Vec<_> =
            locality.by_spread.iter().map(|c| (c.class.as_str(), c.jobs, c.wait_s.as_ref().unwrap().mean)).collect();
        assert_eq!(spread, [("fewest nodes", 2, 15.0), ("2 nodes more", 1, 90.0)]);
        let nodes: Vec<_> = locality.by_nodes.iter().map(|c| (c.class.as_str(), c.jobs)).collect();
        assert_eq!(nodes, [("1 node", 1), ("2 nodes", 1), ("3–4 nodes", 1)]);
        // n2 and n3 are not in the inventory, so most of the GPU time is not placed: no causes.
        assert!(locality.delay.is_none());
    }

    #[test]
    fn without_inventory_the_largest_job_on_one_node_sets_the_size() {
        let mut trace = Trace::default();
        for (key, gpus, nodes) in [("a", 4.0, 1), ("b", 8.0, 2), ("c", 8.0, 4)] {
            let mut row = job(key, "v", gpus, 0, 10, 20);
            row.alloc_nodes = Some(nodes);
            trace.jobs.push(row);
        }
        let locality = Locality::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((locality.gpus_per_node, locality.gpus_per_node_from_inventory), (Some(4.0), false));
        // b needs and has 2 nodes; c has 4.
        assert_eq!(locality.spread_job_share, Some(1.0 / 3.0));
        assert!(Locality::of(&JobFacts::new(&Trace::default())).is_err());
    }
}
