//! A8: how busy each VC, partition or queue is, and how unequal they are.
//!
//! Utilisation at a moment is GPUs in use over GPUs there are, with no cap at 1: use beyond the capacity stays visible.
//! Moments at which the VC had no GPUs have no utilisation. A series' own utilisation is averaged beside it as a plain mean
//! of the samples, because published series round it and cap it at 1.
//!
//! Complexity: O(n log n) in jobs and samples.
//!
//! Worked number: a VC of 8 GPUs with 8 in use for 50 s and 4 for 150 s has a mean utilisation of (1 · 50 + 0.5 · 150) / 200
//! = 62.5 % and a median of 50 %.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, left_out, share};
use crate::facts::JobFacts;
use crate::facts::activity::Activity;
use crate::facts::load::{self, LoadSource, Spread, VcLoad};
use crate::facts::outage::Outages;
use crate::report::format::{compact, counted, percent};
use crate::report::{Axis, BarLayout, BarSeries, BoxSummary, Cell, Chart, Column, ReportTable, Section};
use crate::schema::Table as _;
use crate::stats::concentration::{Imbalance, gini};
use crate::stats::sum::NeumaierSum;
use crate::trace::Trace;

/// VCs that tables and charts show.
const SHOWN: usize = 30;
/// Share of the GPU time without a VC from which the finding says so.
const CAVEAT_SHARE: f64 = 0.05;

/// One VC, partition or queue.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VcUse {
    /// Name.
    pub vc: String,
    /// Origin of the figures.
    pub source: LoadSource,
    /// GPUs there were, mean over time; `null` where no capacity is recorded.
    pub mean_capacity_gpus: Option<f64>,
    /// GPUs in use.
    pub gpus_in_use: Spread,
    /// GPUs in use over GPUs there are, while there are any; not capped at 1.
    pub utilisation: Option<Spread>,
    /// Plain mean of the utilisation that the source's activity series reports for this VC.
    pub reported_utilisation_mean: Option<f64>,
    /// Samples that mean rests on.
    pub reported_utilisation_samples: u64,
    /// Stretches of constant use and capacity that the utilisation rests on; for the chart only.
    #[serde(skip)]
    pub utilisation_stretches: u64,
    /// Share of the time with more GPUs in use than there are.
    pub over_capacity_time_share: Option<f64>,
    /// GPUs that waiting jobs ask for, mean over time; `null` where the wait of more than a tenth of the
    /// jobs is unknown.
    pub mean_pending_gpus: Option<f64>,
    /// Share of the time in which some job waits.
    pub pending_time_share: Option<f64>,
    /// Jobs, CPU jobs among them; `null` for an activity series.
    pub jobs: Option<u64>,
    /// GPU-hours used.
    pub gpu_hours: f64,
    /// GPUs of a GPU job, mean over jobs.
    pub mean_request_gpus: Option<f64>,
}

/// Load of the VCs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VcLoads {
    /// VCs, most GPU-hours first.
    pub vcs: Vec<VcUse>,
    /// Inequality of the mean utilisations; needs two VCs with a capacity.
    pub imbalance: Option<Imbalance>,
    /// Gini coefficient of the mean utilisations.
    pub utilisation_gini: Option<f64>,
    /// Utilisation of all VCs with a capacity together: GPU time used over GPU time there was.
    pub pooled_utilisation: Option<f64>,
    /// GPU-hours of the VCs listed.
    pub gpu_hours: f64,
    /// Jobs whose VC is unknown.
    pub unknown_vc_jobs: u64,
    /// Share of the GPU time of all jobs that those jobs used.
    pub unknown_vc_gpu_time_share: Option<f64>,
    /// Hours of the activity series that are left out, as the whole cluster was counted at or near zero right after it was
    /// busy; the most of any VC.
    pub outage_hours: f64,
}

/// Sums over the jobs of a VC.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: u64,
    gpu_jobs: u64,
    gpus: f64,
    gpu_s: NeumaierSum,
}

/// A column of the table: its heading, and what it shows of a VC.
type Figure<'a> = (&'a str, &'a dyn Fn(&VcUse) -> Cell);

impl Topic for VcLoads {
    const ID: &'static str = "vc";
    const CODE: &'static str = "A8";
    const TITLE: &'static str = "Load by VC";
    const NEEDS_ALL_JOBS: bool = true;

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let jobs = &facts.trace.jobs;
        let mut sums: BTreeMap<&str, Sums> = BTreeMap::new();
        let (mut unknown_vc_jobs, mut unknown_gpu_s) = (0, NeumaierSum::new());
        for job in 0..facts.len() {
            let gpu_s = facts.gpu_s(job).unwrap_or(0.0);
            let Some(vc) = jobs.vc.get(job) else {
                unknown_vc_jobs += 1;
                unknown_gpu_s.add(gpu_s);
                continue;
            };
            let sums = sums.entry(vc).or_default();
            sums.jobs += 1;
            sums.gpu_s.add(gpu_s);
            if let Some(gpus) = facts.gpus(job).filter(|gpus| *gpus > 0.0) {
                sums.gpu_jobs += 1;
                sums.gpus += gpus;
            }
        }
        let reported = reported(facts.trace, &Activity::gpus(facts.trace).outages());
        let mut vcs = Vec::new();
        let (mut used, mut there) = (NeumaierSum::new(), NeumaierSum::new());
        let mut listed = BTreeSet::new();
        let mut outage_hours = 0f64;
        let of_jobs = load::of_jobs(facts).into_iter().map(|load| (LoadSource::Jobs, load));
        let of_activity = load::of_activity(facts.trace).into_iter().map(|load| (LoadSource::Activity, load));
        for (source, load) in of_jobs.chain(of_activity) {
            let job_sums = sums.get(load.name.as_str()).filter(|_| source == LoadSource::Jobs);
            if listed.contains(&load.name) {
                continue;
            }
            let Some(vc) = VcUse::new(&load, source, job_sums, reported.get(load.name.as_str())) else { continue };
            if let (Some(capacity), Some(in_use)) = (&load.capacity, &load.in_use) {
                used.add(load.observed.integral_s(in_use));
                there.add(load.observed.integral_s(capacity));
            }
            if source == LoadSource::Activity {
                outage_hours = outage_hours.max(load.observed.outage_hours());
            }
            listed.insert(load.name);
            vcs.push(vc);
        }
        if vcs.is_empty() {
            return Err("the source names no VC, partition or queue whose GPU use over time is known".to_owned());
        }
        vcs.sort_by(|a, b| b.gpu_hours.total_cmp(&a.gpu_hours).then_with(|| a.vc.cmp(&b.vc)));
        let means: Vec<f64> = vcs.iter().filter_map(|vc| Some(vc.utilisation?.mean)).collect();
        Ok(Self {
            imbalance: Imbalance::new(&means).filter(|_| means.len() > 1),
            utilisation_gini: gini(&means).filter(|_| means.len() > 1),
            pooled_utilisation: share(used.value(), there.value()),
            gpu_hours: vcs.iter().map(|vc| vc.gpu_hours).sum(),
            unknown_vc_jobs,
            unknown_vc_gpu_time_share: share(unknown_gpu_s.value(), facts.total_gpu_s()),
            outage_hours,
            vcs,
        })
    }

    fn section(&self) -> Section {
        let mut section = Self::heading()
            .with_finding(format!("{}{}.", self.finding(), self.caveat()))
            .with_gpu_hours(Some(self.gpu_hours))
            .with_chart(self.chart())
            .with_table(self.table())
            .with_definition(
                "Utilisation: GPUs in use over GPUs the VC had, over time, while it had any; not capped, so use beyond the \
                 capacity shows as more than 100 %, and Over is the share of the time with any. Quantiles are over time, \
                 not over jobs.",
            )
            .with_definition(
                "From jobs, GPUs are in use from each start to its end (exclusive), and pending from submission to start. \
                 From an activity series, each sample holds until the next, the last for one median gap.",
            )
            .with_definition(
                "Reported: the plain mean of the samples of the source's own utilisation column, which may be \
                 rounded or capped at 100 %.",
            )
            .with_definition(
                "VCs that have a capacity but no GPU job in the source are left out: the source may not cover them.",
            );
        if let Some(imbalance) = &self.imbalance {
            section = section.with_text(format!(
                "Imbalance of the mean utilisations of {} VCs: coefficient of variation {:.2}, Gini {}, largest over \
                 smallest {}, Jain's index {:.2} (1 is even).",
                imbalance.parts,
                imbalance.cov,
                self.utilisation_gini.map_or_else(|| "unknown".to_owned(), |gini| format!("{gini:.2}")),
                imbalance.max_min_ratio.map_or_else(|| "unbounded".to_owned(), |ratio| format!("{ratio:.1}")),
                imbalance.jain
            ));
        }
        let mut coverage =
            format!("{} with {} GPU-hours.", counted(self.vcs.len() as u64, "VC", "VCs"), compact(self.gpu_hours));
        if let Some(unknown) = self.unknown_vc_gpu_time_share.filter(|_| self.unknown_vc_jobs > 0) {
            coverage.push_str(&format!(
                " The VC of {} with {} of the GPU time is unknown, so use derived from jobs is too low by that much.",
                counted(self.unknown_vc_jobs, "job", "jobs"),
                percent(unknown)
            ));
        }
        if let Some(text) = left_out(self.outage_hours, None) {
            coverage.push_str(&format!(" {text}"));
        }
        section.with_coverage(coverage)
    }
}

/// The reported utilisations of each VC of the activity series.
fn reported<'t>(trace: &'t Trace, outages: &Outages) -> BTreeMap<&'t str, Vec<f64>> {
    let table = &trace.activity;
    let mut of_vc: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in 0..table.len() {
        if let (Some("vc"), Some(name), Some(ratio)) =
            (table.scope.get(row), table.name.get(row), table.reported_util_ratio.get(row))
            && !table.ts.get(row).is_some_and(|ts| outages.contains(ts))
        {
            of_vc.entry(name).or_default().push(ratio);
        }
    }
    of_vc
}

impl VcUse {
    fn new(load: &VcLoad, source: LoadSource, job_sums: Option<&Sums>, reported: Option<&Vec<f64>>) -> Option<Self> {
        let observed = &load.observed;
        let in_use = load.in_use.as_ref()?;
        let (mut ratios, mut lengths, mut over) = (Vec::new(), Vec::new(), 0.0);
        if let Some(capacity) = &load.capacity {
            observed.walk(&[in_use, capacity], |start, end, values| {
                let &[used, there] = values else { return };
                let length = (end - start) as f64;
                if used > there {
                    over += length;
                }
                if there > 0.0 {
                    ratios.push(used / there);
                    lengths.push(length);
                }
            });
        }
        let pending_time = load.pending.as_ref().map(|pending| {
            let queued = observed.stretches(pending).filter(|(_, _, gpus)| *gpus > 0.0);
            queued.map(|(s, e, _)| (e - s) as f64).sum::<f64>()
        });
        let time = observed.length() as f64;
        Some(Self {
            vc: load.name.clone(),
            source,
            mean_capacity_gpus: load.capacity.as_ref().and_then(|capacity| observed.mean(capacity)),
            gpus_in_use: Spread::of_steps(in_use, observed)?,
            utilisation: Spread::of(&ratios, &lengths),
            utilisation_stretches: ratios.len() as u64,
            reported_utilisation_mean: reported.and_then(crate::stats::sum::mean),
            reported_utilisation_samples: reported.map_or(0, |ratios| ratios.len() as u64),
            over_capacity_time_share: load.capacity.as_ref().and(share(over, time)),
            mean_pending_gpus: load.pending.as_ref().and_then(|pending| observed.mean(pending)),
            pending_time_share: pending_time.and_then(|pending| share(pending, time)),
            jobs: job_sums.map(|sums| sums.jobs),
            gpu_hours: hours(job_sums.map_or_else(|| observed.integral_s(in_use), |sums| sums.gpu_s.value())),
            mean_request_gpus: job_sums.and_then(|sums| share(sums.gpus, sums.gpu_jobs as f64)),
        })
    }
}

impl VcLoads {
    fn finding(&self) -> String {
        let mean = |vc: &&VcUse| vc.utilisation.map(|spread| spread.mean);
        let mut rated: Vec<(f64, &VcUse)> = self.vcs.iter().filter_map(|vc| Some((mean(&vc)?, vc))).collect();
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.vc.cmp(&b.1.vc)));
        match (rated.as_slice(), self.vcs.first()) {
            ([(high, busiest), .., (low, idlest)], _) => {
                let mut text = format!(
                    "VCs are used from **{}** ({}) to **{}** ({}) on average",
                    percent(*low),
                    idlest.vc,
                    percent(*high),
                    busiest.vc
                );
                if let Some(pooled) = self.pooled_utilisation {
                    text.push_str(&format!(", all together {}", percent(pooled)));
                }
                let queued = |vc: &VcUse| vc.pending_time_share.unwrap_or(0.0) > 0.25;
                let calm = rated.iter().filter(|(mean, vc)| *mean < 0.5 && !queued(vc)).count();
                let full = self.vcs.iter().filter(|vc| queued(vc)).count();
                if full + calm > 0 {
                    text.push_str(&format!(
                        "; VCs where jobs wait for more than a quarter of the time: **{full}**, less than half used and \
                         seldom with a queue: **{calm}**"
                    ));
                }
                text
            }
            ([(mean, only)], _) if self.vcs.len() == 1 => {
                format!("{}, the only VC, is used **{}** on average", only.vc, percent(*mean))
            }
            (_, Some(first)) => format!(
                "**{}** uses most, {} of the GPU-hours that the VCs hold (there are {}), **{:.1}** GPUs on average",
                first.vc,
                share(first.gpu_hours, self.gpu_hours).map_or_else(|| "an unknown share".to_owned(), percent),
                self.vcs.len(),
                first.gpus_in_use.mean
            ),
            (_, None) => String::new(),
        }
    }

    /// Caveat on the finding where much of the load has no VC; else empty.
    fn caveat(&self) -> String {
        match self.unknown_vc_gpu_time_share {
            Some(unknown) if unknown > CAVEAT_SHARE => {
                format!("; the VC of **{}** of the GPU time is unknown, so true loads are higher", percent(unknown))
            }
            _ => String::new(),
        }
    }

    fn chart(&self) -> Chart {
        let shown = || self.vcs.iter().take(SHOWN);
        let boxes: Vec<BoxSummary> = shown()
            .filter_map(|vc| {
                let spread = vc.utilisation?;
                Some(BoxSummary {
                    label: vc.vc.clone(),
                    count: vc.utilisation_stretches,
                    p05: spread.p5,
                    p25: spread.p25,
                    p50: spread.p50,
                    p75: spread.p75,
                    p95: spread.p95,
                })
            })
            .collect();
        if boxes.is_empty() {
            return Chart::rows(
                "vc-use",
                "GPUs in use by VC, mean over time",
                Axis::linear("GPUs"),
                BarLayout::Grouped,
                shown().map(|vc| vc.vc.clone()).collect(),
                vec![BarSeries::new("in use", shown().map(|vc| Some(vc.gpus_in_use.mean)).collect())],
            )
            .with_reading(
                "No capacity is recorded, so the load is shown in GPUs; whether a VC is full cannot be told.",
            );
        }
        Chart::boxes(
            "vc-use",
            "Utilisation by VC over time",
            Axis::linear("GPUs in use over capacity").as_percent(),
            boxes,
        )
        .with_reading(
            "A box spans the middle half of the time, its line the median, the whiskers 5 % to 95 %; n \
                 counts stretches of constant use. VCs at the right \
                 edge are full; boxes near the left beside them have idle GPUs at the same time.",
        )
    }

    fn table(&self) -> ReportTable {
        let one = |value: f64| Cell::Float { value, digits: 1 };
        let columns: [Figure<'_>; 11] = [
            ("GPUs", &|vc| Cell::opt(vc.mean_capacity_gpus, one)),
            ("In use", &|vc| one(vc.gpus_in_use.mean)),
            ("Utilisation", &|vc| Cell::opt(vc.utilisation, |spread| Cell::Percent(spread.mean))),
            ("Median", &|vc| Cell::opt(vc.utilisation, |spread| Cell::Percent(spread.p50))),
            ("95 %", &|vc| Cell::opt(vc.utilisation, |spread| Cell::Percent(spread.p95))),
            ("Reported", &|vc| Cell::opt(vc.reported_utilisation_mean, Cell::Percent)),
            ("Over", &|vc| Cell::opt(vc.over_capacity_time_share.filter(|share| *share > 0.0), Cell::Percent)),
            ("Pending", &|vc| Cell::opt(vc.mean_pending_gpus, one)),
            ("Jobs", &|vc| Cell::opt(vc.jobs, int)),
            ("GPU-hours", &|vc| Cell::Float { value: vc.gpu_hours, digits: 0 }),
            ("GPUs a job", &|vc| Cell::opt(vc.mean_request_gpus, |value| Cell::Float { value, digits: 2 })),
        ];
        // A column nobody fills takes the room of those that say something.
        let filled: Vec<_> =
            columns.iter().filter(|(_, cell)| self.vcs.iter().any(|vc| cell(vc) != Cell::Missing)).collect();
        let mut headings = vec![Column::text("VC")];
        headings.extend(filled.iter().map(|(name, _)| Column::number(*name)));
        let mut table = ReportTable::new("VCs, means over time", headings);
        for vc in self.vcs.iter().take(SHOWN) {
            let mut cells = vec![vc.vc.as_str().into()];
            cells.extend(filled.iter().map(|(_, cell)| cell(vc)));
            table.rows.push(cells);
        }
        if self.vcs.len() > SHOWN {
            table.note = Some(format!("{} more VCs use less; the JSON form lists all.", self.vcs.len() - SHOWN));
        }
        table
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::{job, quota, sample};

    #[test]
    fn the_worked_number_and_the_imbalance() {
        let mut trace = Trace::default();
        // VC a, 8 GPUs: 8 in use until 50 s, 4 until 200 s. VC b, 4 GPUs: 1 in use all the time.
        trace.jobs.push(job("1", "a", 4.0, 0, 0, 50));
        trace.jobs.push(job("2", "a", 4.0, 0, 0, 200));
        trace.jobs.push(job("3", "b", 1.0, 0, 0, 200));
        trace.capacity.push(quota("a", 8.0));
        trace.capacity.push(quota("b", 4.0));
        let loads = VcLoads::of(&JobFacts::new(&trace)).unwrap();
        let [a, b] = loads.vcs.as_slice() else { panic!("two VCs") };
        assert_eq!((a.vc.as_str(), b.vc.as_str()), ("a", "b"));
        let spread = a.utilisation.unwrap();
        assert_eq!((spread.mean, spread.p5, spread.p50, spread.p95), (0.625, 0.5, 0.5, 1.0));
        assert_eq!((a.jobs, a.mean_request_gpus, a.mean_pending_gpus), (Some(2), Some(4.0), Some(0.0)));
        assert_eq!(b.utilisation.unwrap().mean, 0.25);
        // (8 · 50 + 4 · 150 + 1 · 200) / (12 · 200) = 1,200 / 2,400.
        assert_eq!(loads.pooled_utilisation, Some(0.5));
        // 0.625 over 0.25.
        assert_eq!(loads.imbalance.unwrap().max_min_ratio, Some(2.5));
    }

    #[test]
    fn a_series_keeps_its_reported_utilisation_apart_from_the_derived_one() {
        let mut trace = Trace::default();
        // 12 of 8 GPUs in use (the source caps that at 1), then 4 of 8, then no sample of the ratio.
        for (ts, running, reported) in [(0, 12.0, Some(1.0)), (60, 4.0, Some(0.5)), (120, 0.0, None)] {
            let mut row = sample("a", ts, 8.0, running, 2.0);
            row.reported_util_ratio = reported;
            trace.activity.push(row);
        }
        let loads = VcLoads::of(&JobFacts::new(&trace)).unwrap();
        let vc = loads.vcs.first().unwrap();
        assert_eq!((vc.reported_utilisation_mean, vc.reported_utilisation_samples), (Some(0.75), 2));
        // (1.5 + 0.5 + 0) / 3, uncapped.
        assert!((vc.utilisation.unwrap().mean - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((vc.over_capacity_time_share, vc.mean_pending_gpus), (Some(1.0 / 3.0), Some(2.0)));
        assert_eq!((vc.source, vc.jobs, loads.imbalance), (LoadSource::Activity, None, None));
        // 16 GPU-minutes.
        assert!((vc.gpu_hours - 16.0 / 60.0).abs() < 1e-12);
    }

    #[test]
    fn without_capacity_the_load_is_in_gpus_and_jobs_without_vc_are_counted() {
        let mut trace = Trace::default();
        trace.jobs.push(job("1", "a", 3.0, 0, 0, 100));
        let mut other = job("2", "", 1.0, 0, 0, 100);
        other.vc = None;
        trace.jobs.push(other);
        let loads = VcLoads::of(&JobFacts::new(&trace)).unwrap();
        let vc = loads.vcs.first().unwrap();
        assert_eq!((vc.utilisation, vc.mean_capacity_gpus, vc.gpus_in_use.mean), (None, None, 3.0));
        assert_eq!((loads.unknown_vc_jobs, loads.unknown_vc_gpu_time_share), (1, Some(0.25)));
    }
}
