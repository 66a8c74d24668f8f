//! Whether a synthetic trace reproduces the published totals its specification names.
//!
//! Every measure is computed from the finished tables, as a reader of a real trace would, not from the generator's own
//! draws. Definitions follow the published table of Helios: *run* is the time attempts ran, jobs count once they are
//! over, failed includes time limit, memory and node failure, GPU time is GPUs × run, wait is first start − submit.
//! Quantiles are type 7 (linear between order statistics).
//!
//! Worked number: published 206 s with a relative tolerance of 0.15 accepts 175.1 to 236.9 s.
//!
//! O(n log n) for each measure.

use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::schema::JobState;
use tracecast_analytics::stats::quantile::quantile;

use super::spec::{Measure, Spec, TargetSpec};

/// A published total beside what the trace has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetResult {
    /// Measure that is compared.
    pub name: Measure,
    /// The published value.
    pub published: f64,
    /// The trace's value; unknown where the trace has nothing to measure it on.
    pub measured: Option<f64>,
    /// How far the value may be off, in its units.
    pub tolerance: f64,
    /// Whether it is within the tolerance; an unknown value is not.
    pub within: bool,
    /// Where the total was published.
    pub source: String,
}

/// Measures every target of `spec` on `trace`.
pub fn check(trace: &Trace, spec: &Spec) -> Vec<TargetResult> {
    let view = View::new(trace);
    spec.target.iter().map(|target| compare(&view, target)).collect()
}

fn compare(view: &View<'_>, target: &TargetSpec) -> TargetResult {
    let measured = view.measure(target.measure);
    let tolerance = if target.absolute { target.tolerance } else { target.tolerance * target.value.abs() };
    TargetResult {
        name: target.measure,
        published: target.value,
        measured,
        tolerance,
        within: measured.is_some_and(|measured| (measured - target.value).abs() <= tolerance),
        source: target.source.clone(),
    }
}

/// A job as far as totals go.
#[derive(Debug, Clone, Copy)]
struct Job {
    gpus: f64,
    wait_s: Option<f64>,
    /// State and run of a job that is over.
    over: Option<(JobState, f64)>,
}

struct View<'a> {
    trace: &'a Trace,
    gpu: Vec<Job>,
    cpu: Vec<Job>,
}

impl<'a> View<'a> {
    fn new(trace: &'a Trace) -> Self {
        let jobs = &trace.jobs;
        let (mut gpu, mut cpu) = (Vec::new(), Vec::new());
        for ix in 0..jobs.req_gpus.len() {
            let Some(gpus) = jobs.req_gpus.get(ix) else { continue };
            let state = jobs.state.get(ix).map(JobState::from_id).filter(|state| state.is_final());
            let wait = jobs.start.get(ix).zip(jobs.submit.get(ix)).map(|(start, submit)| start - submit);
            let job = Job { gpus, wait_s: wait.map(|wait| wait as f64 / 1_000.0), over: state.zip(jobs.run_s.get(ix)) };
            if gpus > 0.0 { gpu.push(job) } else { cpu.push(job) }
        }
        Self { trace, gpu, cpu }
    }

    fn measure(&self, measure: Measure) -> Option<f64> {
        let runs = |jobs: &[Job]| -> Vec<f64> { jobs.iter().filter_map(|job| job.over.map(|(_, run)| run)).collect() };
        let waits = |jobs: &[Job]| -> Vec<f64> { jobs.iter().filter_map(|job| job.wait_s).collect() };
        let gpus = || -> Vec<f64> { self.gpu.iter().map(|job| job.gpus).collect() };
        let power = || -> Vec<f64> { self.trace.gpu_samples.power_w.iter().flatten().collect() };
        match measure {
            Measure::CpuJobShare => {
                let all = self.gpu.len() + self.cpu.len();
                (all > 0).then(|| self.cpu.len() as f64 / all as f64)
            }
            Measure::GpuMeanGpus => mean(&gpus()),
            Measure::GpuMedianGpus => quantile(&gpus(), 0.5),
            Measure::GpuMeanRunS => mean(&runs(&self.gpu)),
            Measure::GpuMedianRunS => quantile(&runs(&self.gpu), 0.5),
            Measure::GpuMeanGpuS => {
                let times: Vec<f64> =
                    self.gpu.iter().filter_map(|job| job.over.map(|(_, run)| run * job.gpus)).collect();
                mean(&times)
            }
            Measure::CpuMeanRunS => mean(&runs(&self.cpu)),
            Measure::CpuMedianRunS => quantile(&runs(&self.cpu), 0.5),
            Measure::GpuMeanWaitS => mean(&waits(&self.gpu)),
            Measure::GpuMedianWaitS => quantile(&waits(&self.gpu), 0.5),
            Measure::CpuMedianWaitS => quantile(&waits(&self.cpu), 0.5),
            Measure::GpuCompletedShare => share(&self.gpu, End::Completed, false),
            Measure::GpuCancelledShare => share(&self.gpu, End::Cancelled, false),
            Measure::GpuFailedShare => share(&self.gpu, End::Failed, false),
            Measure::GpuTimeCompletedShare => share(&self.gpu, End::Completed, true),
            Measure::GpuTimeCancelledShare => share(&self.gpu, End::Cancelled, true),
            Measure::GpuTimeFailedShare => share(&self.gpu, End::Failed, true),
            Measure::CpuCompletedShare => share(&self.cpu, End::Completed, false),
            Measure::GpuPowerP10W => quantile(&power(), 0.1),
            Measure::GpuPowerP50W => quantile(&power(), 0.5),
            Measure::GpuPowerP90W => quantile(&power(), 0.9),
            Measure::GpuPowerMeanW => mean(&power()),
            Measure::NodePowerMeanW => mean(&self.trace.node_samples.power_w.iter().flatten().collect::<Vec<_>>()),
        }
    }
}

/// Published classes of how a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Cancelled,
    Failed,
}

/// Share of the jobs that are over (or of their GPU time) that ended in `end`.
fn share(jobs: &[Job], end: End, by_time: bool) -> Option<f64> {
    let (mut part, mut all) = (0.0, 0.0);
    for job in jobs {
        let Some((state, run)) = job.over else { continue };
        let weight = if by_time { run * job.gpus } else { 1.0 };
        let is = match state {
            JobState::Completed => End::Completed,
            JobState::Cancelled => End::Cancelled,
            _ => End::Failed,
        };
        all += weight;
        if is == end {
            part += weight;
        }
    }
    (all > 0.0).then(|| part / all)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::JobRow;

    use super::*;

    fn trace() -> Trace {
        // GPU jobs: 1 GPU × 100 s completed, 4 × 50 s timeout, 2 GPUs still running. One CPU job, 3 s, cancelled.
        let mut trace = Trace::default();
        for (gpus, state, submit, start, run_s) in [
            (1.0, "completed", 0, Some(0), Some(100.0)),
            (4.0, "timeout", 0, Some(10_000), Some(50.0)),
            (2.0, "running", 0, Some(2_000), None),
            (0.0, "cancelled", 5_000, Some(5_000), Some(3.0)),
        ] {
            trace.jobs.push(JobRow {
                req_gpus: Some(gpus),
                state: Some(state.into()),
                submit: Some(submit),
                start,
                run_s,
                ..JobRow::default()
            });
        }
        trace
    }

    #[test]
    fn totals_by_hand() {
        let trace = trace();
        let view = View::new(&trace);
        let m = |measure| view.measure(measure).unwrap();
        assert_eq!(m(Measure::CpuJobShare), 0.25);
        assert!((m(Measure::GpuMeanGpus) - 7.0 / 3.0).abs() < 1e-12);
        assert_eq!((m(Measure::GpuMeanRunS), m(Measure::GpuMedianRunS)), (75.0, 75.0));
        // (100 + 200) / 2.
        assert_eq!(m(Measure::GpuMeanGpuS), 150.0);
        // Waits 0, 10 and 2 s.
        assert_eq!((m(Measure::GpuMeanWaitS), m(Measure::GpuMedianWaitS)), (4.0, 2.0));
        // The timeout counts as failed; the running job as neither.
        assert_eq!((m(Measure::GpuCompletedShare), m(Measure::GpuFailedShare)), (0.5, 0.5));
        assert!((m(Measure::GpuTimeFailedShare) - 200.0 / 300.0).abs() < 1e-12);
        assert_eq!(view.measure(Measure::GpuPowerP50W), None);
    }

    #[test]
    fn a_tolerance_is_relative_unless_said_otherwise() {
        let trace = trace();
        let view = View::new(&trace);
        let target = |value, absolute| TargetSpec {
            measure: Measure::GpuMeanRunS,
            value,
            tolerance: 0.1,
            absolute,
            source: String::new(),
        };
        // 75 against 80 ± 8, 80 ± 0.1 and 84 ± 8.4.
        assert!(compare(&view, &target(80.0, false)).within);
        assert!(!compare(&view, &target(80.0, true)).within);
        assert!(!compare(&view, &target(84.0, false)).within);
    }
}
