//! What a GPU draws while a job holds it, from the readings of a trace, as the audit's [model](tracecast_analytics::energy::model) takes them.
//!
//! The mean power of working GPUs over all readings, where there are enough of them; else a constant that is marked as assumed. It is a scale: shares that are saved do not depend on it. What nodes draw beside their GPUs, and
//! cooling, is not in it.
//!
//! O(readings). Worked example: 20 readings of 250 W at 80 % utilisation and any number of 60 W at 0 %: 0.25 kW.

use tracecast_analytics::Trace;
use tracecast_analytics::energy::model::{PowerModel, Tally};
use tracecast_analytics::schema::Table as _;

/// Power of a GPU and its part of the node where neither the user nor readings tell it, kW.
const ASSUMED_KW: f64 = 0.3;

/// kW of a GPU, and where that is from.
pub fn gpu_kw(trace: &Trace) -> (f64, String) {
    let samples = &trace.gpu_samples;
    let mut tally = Tally::default();
    for row in 0..samples.len() {
        if let Some(power_w) = samples.power_w.get(row) {
            tally.add(power_w, samples.util_ratio.get(row));
        }
    }
    match PowerModel::new(None, &tally, None, None).busy_w.filter(|watts| *watts > 0.0) {
        Some(watts) => (watts / 1e3, "the mean reading of working GPUs in the trace".to_owned()),
        None => (ASSUMED_KW, "assumed, as the trace has too few readings of power (--gpu-kw)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracecast_analytics::schema::GpuSampleRow;

    #[test]
    fn the_worked_example() {
        let mut trace = Trace::default();
        assert_eq!(gpu_kw(&trace).0, ASSUMED_KW);
        for at in 0..60 {
            let works = at % 3 == 0;
            trace.gpu_samples.push(GpuSampleRow {
                ts: Some(at),
                util_ratio: Some(if works { 0.8 } else { 0.0 }),
                power_w: Some(if works { 250.0 } else { 60.0 }),
                ..GpuSampleRow::default()
            });
        }
        let (kw, from) = gpu_kw(&trace);
        assert!((kw - 0.25).abs() < 1e-12 && from.contains("reading"), "{kw} {from}");
    }
}
