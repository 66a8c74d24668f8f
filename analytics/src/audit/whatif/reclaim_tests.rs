#![allow(clippy::unwrap_used)]

use super::*;
use crate::schema::{GpuSampleRow, JobRow};

/// Readings of GPU 0 of node n: minute, utilisation, watts, job.
fn trace(readings: &[(i64, f64, Option<f64>, Option<&str>)]) -> Trace {
    let mut trace = Trace::default();
    for key in ["a", "b"] {
        trace.jobs.push(JobRow {
            job_key: Some(key.into()),
            vc: Some(format!("vc-{key}").into()),
            submit: Some(0),
            ..JobRow::default()
        });
    }
    for (minute, util, power_w, job) in readings {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(minute * MINUTE_MS),
            node: Some("n".into()),
            gpu: Some("0".into()),
            util_ratio: Some(*util),
            power_w: *power_w,
            job_key: job.map(Into::into),
            ..GpuSampleRow::default()
        });
    }
    trace.finish();
    trace
}

const ALL: (i64, i64) = (0, i64::MAX);

#[test]
fn a_stretch_gives_back_its_length_less_the_patience() {
    let held = Some("a");
    let trace = trace(&[
        (0, 0.0, Some(60.0), held),
        (10, 0.0, Some(60.0), held),
        (20, 0.01, Some(60.0), held),
        (30, 0.0, Some(60.0), held),
        (40, 0.5, Some(200.0), held),
        (50, 0.0, Some(60.0), None),
    ]);
    let result = reclaim(&trace, ALL, &[15 * MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS]);
    // Sorted: 5, 15, 30 min of a stretch of 30 min.
    let hours: Vec<f64> = result.lines.iter().map(|line| line.gpu_hours).collect();
    assert_eq!(hours, [25.0 / 60.0, 0.25, 0.0]);
    let line = &result.lines[1];
    // 15 min at 60 W; held from 0 to 40 min.
    assert!((line.energy_kwh.unwrap() - 0.015).abs() < 1e-12);
    assert!((line.share_of_held.unwrap() - 15.0 / 40.0).abs() < 1e-12);
    assert_eq!((line.times, line.jobs, line.power_coverage), (1, 1, Some(1.0)));
    assert_eq!((result.lines[2].times, result.lines[2].energy_kwh), (0, None));
    assert_eq!(result.by_vc, [ReclaimVc { vc: Some("vc-a".into()), gpu_hours: 25.0 / 60.0 }]);
}

#[test]
fn another_job_or_a_long_gap_begins_a_new_stretch() {
    let result = reclaim(
        &trace(&[
            (0, 0.0, None, Some("a")),
            (10, 0.0, None, Some("a")),
            (20, 0.0, None, Some("b")),
            (30, 0.0, None, Some("b")),
            // 31 min later, and the median gap is 10 min: not bridged.
            (61, 0.0, None, Some("b")),
            (71, 0.0, None, Some("b")),
        ]),
        ALL,
        &[0],
    );
    // 0 to 10, 20 to 30 and 61 to 71 min.
    assert_eq!((result.lines[0].gpu_hours, result.lines[0].times, result.lines[0].jobs), (0.5, 3, 2));
    assert_eq!((result.lines[0].energy_kwh, result.lines[0].power_coverage), (None, Some(0.0)));
}

#[test]
fn part_of_a_gap_takes_power_from_the_line_between_its_ends() {
    // 60 W falling to 0 W over 60 min; after 30 min it is 30 W, so 15 W on average over half an hour: 7.5 Wh.
    let result =
        reclaim(&trace(&[(0, 0.0, Some(60.0), Some("a")), (60, 0.0, Some(0.0), Some("a"))]), ALL, &[30 * MINUTE_MS]);
    assert!((result.lines[0].energy_kwh.unwrap() - 0.007_5).abs() < 1e-12);
}

#[test]
fn without_what_it_needs_it_says_why() {
    let empty = reclaim(&Trace::default(), ALL, &[0]);
    assert_eq!(empty.why_not.as_deref(), Some("the source has no readings of GPUs"));
    let mut unknown = trace(&[(0, 0.0, None, None), (10, 0.0, None, None)]);
    unknown.gpu_samples.job_key = crate::schema::Label::default();
    for _ in 0..2 {
        unknown.gpu_samples.job_key.push(None);
    }
    assert_eq!(reclaim(&unknown, ALL, &[0]).why_not.as_deref(), Some("it is not known which job held which GPU"));
}
