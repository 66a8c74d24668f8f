//! GPU and node telemetry, from which attempt held which GPU when.
//!
//! A GPU nobody holds draws power from the lower part of the given distribution (below `idle_share`), a GPU in use from
//! the rest: samples in use are ordered by a load score and given out by rank, so their distribution is exactly that part
//! whatever ran. The score is `√v·m + √(1−v)·x`, m a constant of the attempt, x an AR(1) process of the GPU under that
//! attempt, all standard normal. With f a constant of the family of the job and w `between_families`, m is `√w·f + √(1−w)·m'`.
//!
//! `sm_active_ratio` is the power's place between the idle and the highest point; `util_ratio`, which saturates long
//! before (it counts any resident kernel), is 1 − (1 − sm)⁵. A node's power is affine in that of its GPUs.
//!
//! Worked number: between 60 W idle and 460 W, 160 W is sm = 100/400 = 0.25 and util = 1 − 0.75⁵ = 0.76.
//!
//! O(s log s) in samples.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::schema::{GpuSampleRow, NodeSampleRow, sensor};
use tracecast_analytics::time::DAY_MS;

use super::random::Stream;
use super::record::{node_name, quantile};
use super::schedule::Schedule;
use super::spec::{Checked, TelemetrySpec};

/// Bytes in a gibibyte.
const GIB: f64 = 1_073_741_824.0;

#[derive(Debug, Clone, Copy)]
struct Sample {
    attempt: Option<u32>,
    score: f64,
    power_w: f64,
}

/// A job's traits, the same in all its samples.
#[derive(Debug, Clone, Copy)]
struct Traits {
    load: f64,
    mem_share: f64,
}

/// What jobs of a family use alike, by job.
#[derive(Debug, Clone)]
pub(crate) struct Alike {
    /// Part of the variance between jobs that is between families.
    share: f64,
    /// Load score and place of the memory of the family of each job.
    of: Vec<(f64, f64)>,
}

impl Alike {
    /// Draws it, by the family of each job.
    pub(crate) fn draw(families: &[u32], share: f64, rng: &mut Stream) -> Self {
        let count = families.iter().max().map_or(0, |last| *last as usize + 1);
        let drawn: Vec<(f64, f64)> = (0..count).map(|_| (rng.normal(), rng.unit())).collect();
        let of = families.iter().filter_map(|family| drawn.get(*family as usize).copied()).collect();
        Self { share, of }
    }

    /// Traits of a job from what is its own: a normal score, and a place between 0 and 1.
    fn traits(&self, job: Option<u32>, (load, memory): (f64, f64)) -> Traits {
        let family = job.and_then(|job| self.of.get(job as usize)).filter(|_| self.share > 0.0);
        let (load, memory) = family.map_or((load, memory), |of| {
            let mixed = self.share.sqrt() * of.0 + (1.0 - self.share).sqrt() * load;
            (mixed, self.share * of.1 + (1.0 - self.share) * memory)
        });
        Traits { load, mem_share: 0.1 + 0.85 * memory }
    }
}

/// Writes GPU and node samples; `gpu_jobs` are the indices of the jobs of `schedule`.
pub(crate) fn record(
    trace: &mut Trace,
    checked: &Checked,
    spec: &TelemetrySpec,
    (gpu_jobs, alike): (&[u32], &Alike),
    schedule: &Schedule,
    rng: &mut Stream,
) {
    let from_ms = checked.start_ms + (spec.first_day * DAY_MS as f64) as i64;
    let to_ms = (from_ms + (spec.days * DAY_MS as f64) as i64).min(checked.end_ms);
    let gap_ms = i64::from(spec.gap_s) * 1_000;
    let steps = ((to_ms - from_ms).max(0) / gap_ms) as usize;
    let per_node = checked.spec.cluster.gpus_per_node as usize;
    let lanes = spec.nodes as usize * per_node;
    // The nodes that report are spread evenly over all, so that they are of every large VC.
    let all: u32 = checked.spec.vc.iter().map(|vc| vc.nodes).sum();
    let reporting: BTreeMap<u32, usize> = (0..spec.nodes)
        .map(|ix| ((u64::from(ix) * u64::from(all) / u64::from(spec.nodes)) as u32, ix as usize))
        .collect();

    // Which attempt holds which GPU at which step; lanes are GPUs, node by node.
    let mut samples = vec![Sample { attempt: None, score: 0.0, power_w: 0.0 }; steps * lanes];
    for (ix, attempt) in (0u32..).zip(&schedule.attempts) {
        let step = |at_ms: i64| ((at_ms - from_ms + gap_ms - 1).max(0) / gap_ms) as usize;
        let (first, last) = (step(attempt.start_ms), step(attempt.end_ms.unwrap_or(i64::MAX / 2)).min(steps));
        for slice in attempt.slices.iter().filter(|_| first < last) {
            let Some(node) = reporting.get(&slice.node) else { continue };
            for gpu in (0..per_node).filter(|gpu| slice.units >> gpu & 1 == 1) {
                for step in first..last {
                    if let Some(sample) = samples.get_mut(step * lanes + node * per_node + gpu) {
                        sample.attempt = Some(ix);
                    }
                }
            }
        }
    }
    let traits = score(&mut samples, lanes, spec, (schedule, alike), rng);
    give_power(&mut samples, spec);

    let low = quantile(&spec.gpu_power_w, spec.idle_share / 2.0);
    let high = quantile(&spec.gpu_power_w, 1.0);
    let cluster = &checked.spec.cluster;
    let total_bytes = f64::from(cluster.gpu_mem_gib) * GIB;
    for (step, row) in (0i64..).zip(samples.chunks(lanes.max(1))) {
        let ts = from_ms + step * gap_ms;
        for (node, gpus) in reporting.keys().zip(row.chunks(per_node)) {
            let name = node_name(*node);
            for (gpu, sample) in gpus.iter().enumerate() {
                let sm = ((sample.power_w - low) / (high - low).max(1.0)).clamp(0.0, 1.0);
                let sm = if sample.attempt.is_some() { sm } else { 0.0 };
                let job = sample.attempt.and_then(|ix| schedule.attempts.get(ix as usize)).map(|attempt| attempt.job);
                let key = job.and_then(|job| gpu_jobs.get(job as usize)).map(|ix| (ix + 1).to_string());
                let mem = sample.attempt.and_then(|ix| traits.get(&ix)).map_or(0.0, |traits| traits.mem_share);
                trace.gpu_samples.push(GpuSampleRow {
                    ts: Some(ts),
                    node: Some(Cow::from(&name)),
                    gpu: Some(gpu.to_string().into()),
                    gpu_type: Some(Cow::from(&cluster.gpu_type)),
                    util_ratio: Some(((1.0 - (1.0 - sm).powi(5)) * 100.0).round() / 100.0),
                    sm_active_ratio: Some((sm * 100.0).round() / 100.0),
                    mem_used_bytes: Some((mem * f64::from(cluster.gpu_mem_gib)).round() * GIB),
                    mem_total_bytes: Some(total_bytes),
                    power_w: Some(sample.power_w),
                    // 30 °C at rest, 1 °C for each 9 W.
                    temp_c: Some((30.0 + (sample.power_w - low).max(0.0) / 9.0).round()),
                    job_key: key.map(Cow::from),
                    ..GpuSampleRow::default()
                });
            }
            let gpu_w: f64 = gpus.iter().map(|sample| sample.power_w).sum();
            trace.node_samples.push(NodeSampleRow {
                ts: Some(ts),
                node: Some(Cow::from(&name)),
                sensor: Some(sensor::SYS_POWER.into()),
                power_w: Some((spec.node_base_w + spec.node_per_gpu_w * gpu_w).round()),
                ..NodeSampleRow::default()
            });
        }
    }
}

/// Draws load scores and the traits of attempts.
fn score(
    samples: &mut [Sample],
    lanes: usize,
    spec: &TelemetrySpec,
    (schedule, alike): (&Schedule, &Alike),
    rng: &mut Stream,
) -> BTreeMap<u32, Traits> {
    let (between, within) = (spec.between_jobs.sqrt(), (1.0 - spec.between_jobs).sqrt());
    let (keep, fresh) = (spec.correlation, (1.0 - spec.correlation * spec.correlation).max(0.0).sqrt());
    let mut traits: BTreeMap<u32, Traits> = BTreeMap::new();
    let mut before: Vec<(Option<u32>, f64)> = vec![(None, 0.0); lanes];
    for row in samples.chunks_mut(lanes.max(1)) {
        for (sample, before) in row.iter_mut().zip(&mut before) {
            let same = before.0 == sample.attempt;
            let noise = rng.normal();
            let x = if same { keep * before.1 + fresh * noise } else { noise };
            *before = (sample.attempt, x);
            sample.score = match sample.attempt {
                None => x,
                Some(attempt) => {
                    let job = schedule.attempts.get(attempt as usize).map(|attempt| attempt.job);
                    let of = traits.entry(attempt).or_insert_with(|| alike.traits(job, (rng.normal(), rng.unit())));
                    between * of.load + within * x
                }
            };
        }
    }
    traits
}

/// Gives each sample its power: idle ones from below `idle_share`, the others from above, by rank of their score. Whole
/// watts.
fn give_power(samples: &mut [Sample], spec: &TelemetrySpec) {
    for (busy, from, to) in [(false, 0.0, spec.idle_share), (true, spec.idle_share, 1.0)] {
        let mut order: Vec<(f64, usize)> = samples
            .iter()
            .enumerate()
            .filter(|(_, sample)| sample.attempt.is_some() == busy)
            .map(|(ix, sample)| (sample.score, ix))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let count = order.len() as f64;
        for (rank, (_, ix)) in order.into_iter().enumerate() {
            if let Some(sample) = samples.get_mut(ix) {
                let p = from + (to - from) * (rank as f64 + 0.5) / count;
                sample.power_w = quantile(&spec.gpu_power_w, p).round();
            }
        }
    }
}
