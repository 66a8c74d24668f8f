//! Idle reclaim: GPUs that a job holds and does not use, handed back after so many minutes.
//!
//! A stretch is a run of readings of one GPU, all held by the same job and all idle (GPU utilisation of at most 1 %), whose gaps are at most
//! three times the GPU's median gap. Its length is from its first to its last reading. Handed back after T, it gives back its length less T.
//! Energy is the trapezoid of power over the part given back, where both ends of a gap have power; hours without it are told. A lower bound:
//! the time before the first and after the last idle reading is not counted, and neither are GPUs whose holder is unknown.
//!
//! What the energy means: saved where a GPU given back is switched off, spent on other work where it is given away.
//!
//! Complexity: O(n log n) in readings.
//!
//! Worked number: idle readings at 0, 10, 20, 30 min at 60 W, handed back after 15 min: 15 min, 0.25 GPU hours, 0.015 kWh.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::samples::{Holder, Readings};
use crate::facts::{HolderSource, JobFacts};
use crate::stats::rank;
use crate::stats::sampled::BRIDGE;
use crate::stats::sum::NeumaierSum;
use crate::time::{HOUR_MS, MINUTE_MS};
use crate::trace::Trace;

/// A GPU at no more than this utilisation is idle.
const IDLE: f64 = 0.01;
/// VCs listed, most hours first.
const MOST_VCS: usize = 20;

/// GPU hours freed when GPUs are handed back after `after_min` idle minutes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReclaimLine {
    /// Handed back after so many minutes.
    pub after_min: f64,
    /// Times that a GPU is handed back.
    pub times: u64,
    /// Jobs that lose one at least once.
    pub jobs: u64,
    /// GPU hours given back.
    pub gpu_hours: f64,
    /// Hours given back over the GPU hours held that have a utilisation.
    pub share_of_held: Option<f64>,
    /// Energy drawn in them, kWh, where power is known.
    pub energy_kwh: Option<f64>,
    /// Share of these GPU hours whose power is known.
    pub power_coverage: Option<f64>,
}

/// GPU hours of a VC.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReclaimVc {
    /// Virtual cluster, partition or queue.
    pub vc: Option<String>,
    /// GPU hours given back after the shortest patience.
    pub gpu_hours: f64,
}

/// Idle reclaim.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reclaim {
    /// GPU hours held, between readings with a utilisation.
    pub held_gpu_hours: f64,
    /// Source of which job held a GPU.
    pub holders: HolderSource,
    /// Results by patience, shortest first.
    pub lines: Vec<ReclaimLine>,
    /// Results by VC after the shortest patience, most first.
    pub by_vc: Vec<ReclaimVc>,
    /// Why there is nothing, if so.
    pub why_not: Option<String>,
}

/// Running sums of one patience.
#[derive(Debug, Default)]
struct Gathered {
    times: u64,
    jobs: std::collections::BTreeSet<usize>,
    hours: NeumaierSum,
    kwh: NeumaierSum,
    powered_hours: NeumaierSum,
}

/// One reading: when, how busy, how much power, whose.
type Point = (i64, Option<f64>, Option<f64>, Holder);

impl Reclaim {
    /// An empty result, with the reason.
    pub fn none(holders: HolderSource, why: &str) -> Self {
        Self { held_gpu_hours: 0.0, holders, lines: Vec::new(), by_vc: Vec::new(), why_not: Some(why.to_owned()) }
    }
}

/// Goes over the readings from `from_ms` to `to_ms`; `after_ms` are patiences.
pub fn reclaim(trace: &Trace, (from_ms, to_ms): (i64, i64), after_ms: &[i64]) -> Reclaim {
    let mut patiences: Vec<i64> = after_ms.to_vec();
    patiences.sort_unstable();
    patiences.dedup();
    let facts = JobFacts::new(trace);
    let Some(readings) = Readings::new(&facts) else {
        return Reclaim::none(HolderSource::Unknown, "the source has no readings of GPUs");
    };
    if trace.gpu_samples.util_ratio.is_all_unknown() {
        return Reclaim::none(readings.source, "the readings have no GPU utilisation");
    }
    if readings.source == HolderSource::Unknown {
        return Reclaim::none(readings.source, "it is not known which job held which GPU");
    }
    let mut gathered: Vec<Gathered> = patiences.iter().map(|_| Gathered::default()).collect();
    let mut by_vc: BTreeMap<Option<String>, NeumaierSum> = BTreeMap::new();
    let mut held = NeumaierSum::new();
    let samples = &trace.gpu_samples;
    for gpu in readings.gpus() {
        let points: Vec<Point> = gpu
            .readings()
            .filter_map(|reading| {
                let ts = reading.ts.filter(|ts| (from_ms..to_ms).contains(ts))?;
                Some((ts, reading.value(&samples.util_ratio), reading.value(&samples.power_w), reading.holder))
            })
            .collect();
        let longest = longest_gap(&points);
        let joined = |a: &Point, b: &Point| b.0 - a.0 <= longest && a.3 == b.3;
        for (a, b) in points.iter().zip(points.iter().skip(1)) {
            if joined(a, b) && a.3.held() == Some(true) && a.1.is_some() && b.1.is_some() {
                held.add((b.0 - a.0) as f64 / HOUR_MS as f64);
            }
        }
        let is_idle = |point: &Point| point.3.held() == Some(true) && point.1.is_some_and(|util| util <= IDLE);
        for stretch in points.chunk_by(|a, b| is_idle(a) && is_idle(b) && joined(a, b)) {
            let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { continue };
            for (nth, (patience, into)) in patiences.iter().zip(&mut gathered).enumerate() {
                let back = first.0 + patience;
                if !is_idle(first) || last.0 <= back {
                    continue;
                }
                let hours = (last.0 - back) as f64 / HOUR_MS as f64;
                into.times += 1;
                into.hours.add(hours);
                if let Holder::Job(job) = first.3 {
                    into.jobs.insert(job);
                }
                if nth == 0 {
                    let vc = if let Holder::Job(job) = first.3 { trace.jobs.vc.get(job) } else { None };
                    by_vc.entry(vc.map(str::to_owned)).or_default().add(hours);
                }
                add_energy(stretch, back, into);
            }
        }
    }
    let held_gpu_hours = held.value();
    let lines = patiences.iter().zip(gathered).map(|(patience, result)| {
        let (hours, powered) = (result.hours.value(), result.powered_hours.value());
        ReclaimLine {
            after_min: *patience as f64 / MINUTE_MS as f64,
            times: result.times,
            jobs: result.jobs.len() as u64,
            gpu_hours: hours,
            share_of_held: (held_gpu_hours > 0.0).then(|| hours / held_gpu_hours),
            energy_kwh: (powered > 0.0).then(|| result.kwh.value()),
            power_coverage: (hours > 0.0).then(|| (powered / hours).min(1.0)),
        }
    });
    let lines = lines.collect();
    let mut vcs: Vec<ReclaimVc> =
        by_vc.into_iter().map(|(vc, hours)| ReclaimVc { vc, gpu_hours: hours.value() }).collect();
    vcs.sort_by(|a, b| b.gpu_hours.total_cmp(&a.gpu_hours).then_with(|| a.vc.cmp(&b.vc)));
    vcs.truncate(MOST_VCS);
    Reclaim { held_gpu_hours, holders: readings.source, lines, by_vc: vcs, why_not: None }
}

/// Gaps up to this are bridged: three times the median gap.
fn longest_gap(points: &[Point]) -> i64 {
    let mut gaps: Vec<i64> = points.iter().zip(points.iter().skip(1)).map(|(a, b)| b.0 - a.0).collect();
    rank::nearest(&mut gaps, 0.5).map_or(0, |median| median.saturating_mul(BRIDGE))
}

/// Energy of a stretch from `back` on.
fn add_energy(stretch: &[Point], back: i64, into: &mut Gathered) {
    for (a, b) in stretch.iter().zip(stretch.iter().skip(1)) {
        let begin = a.0.max(back);
        let (Some(before), Some(after)) = (a.2, b.2) else { continue };
        if b.0 <= begin {
            continue;
        }
        // Power where the part begins lies on the line between the two readings.
        let at = before + (after - before) * (begin - a.0) as f64 / (b.0 - a.0) as f64;
        let hours = (b.0 - begin) as f64 / HOUR_MS as f64;
        into.kwh.add(f64::midpoint(at, after) * hours / 1_000.0);
        into.powered_hours.add(hours);
    }
}

#[cfg(test)]
#[path = "reclaim_tests.rs"]
mod tests;
