//! The charts of a replay: queue, GPUs in use, wait by size, VCs, policies.

use jiff::tz::TimeZone;
use tracecast_analytics::report::{Axis, BarLayout, BarSeries, Chart, ChartSeries, Mark};

use super::super::metric::timeline;
use super::Answer;

/// Bars of VCs at most.
const MOST_VCS: usize = 20;

/// (time, value) of a quantity over time; times are seconds since the Unix epoch, or since time 0 where the trace has no dates.
fn curve(answer: &Answer, values: &[f64]) -> Vec<(f64, f64)> {
    let timeline = &answer.charts.timeline;
    let origin_s = if answer.subject.has_dates { answer.subject.origin_ms as f64 / 1000.0 } else { 0.0 };
    let begin = origin_s + timeline.from_s;
    values.iter().enumerate().map(|(at, value)| (begin + at as f64 * timeline.step_s, *value)).collect()
}

fn time_axis(answer: &Answer) -> Axis {
    if answer.subject.has_dates {
        Axis::time("Time", TimeZone::get(&answer.subject.zone).unwrap_or(TimeZone::UTC))
    } else {
        Axis::duration("Time since the replay began")
    }
}

/// Jobs that wait over time, the mean and the most in each stretch.
pub(super) fn queue(answer: &Answer) -> Chart {
    let timeline::Series { mean, max } = &answer.charts.timeline.queue_jobs;
    let series = vec![
        ChartSeries::new("mean", Mark::Area, curve(answer, mean)),
        ChartSeries::new("most", Mark::Step, curve(answer, max)),
    ];
    Chart::xy("queue", "Jobs that wait", time_axis(answer), Axis::linear("Jobs"), series)
        .with_reading("How many jobs stood in the queues, over each of up to 500 equal stretches of time.")
}

/// GPUs in use and in service over time.
pub(super) fn in_use(answer: &Answer) -> Chart {
    let timeline = &answer.charts.timeline;
    let series = vec![
        ChartSeries::new("in use", Mark::Area, curve(answer, &timeline.gpus_in_use.mean)),
        ChartSeries::new("in service", Mark::Dashed, curve(answer, &timeline.gpus_in_service.mean)),
    ];
    Chart::xy("gpus-in-use", "GPUs in use", time_axis(answer), Axis::linear("GPUs"), series)
        .with_reading("The area is what jobs held, the dashed line what there was. The gap between them while jobs wait is what a better policy could use.")
}

/// Gangs that would have fitted over time.
pub(super) fn gangs(answer: &Answer) -> Option<Chart> {
    let gangs = &answer.charts.timeline.gangs;
    let of = |(gpus, series): &(u32, timeline::Series)| {
        ChartSeries::new(format!("{gpus} GPUs"), Mark::Step, curve(answer, &series.mean))
    };
    let series = gangs.iter().map(of).collect();
    let chart =
        Chart::xy("gang-room", "Room for one more gang", time_axis(answer), Axis::linear("Gangs that fit"), series);
    (!gangs.is_empty()).then(|| {
        chart.with_reading("How many jobs of 8, 16 and 64 GPUs would have fitted at once beside what ran, the mean over each of up to 500 equal stretches. A line at 0 while GPUs are free is fragmentation.")
    })
}

/// Share of jobs that waited at most so long, by size.
pub(super) fn wait_by_size(answer: &Answer) -> Option<Chart> {
    let curves = &answer.charts.wait_by_size;
    let series: Vec<ChartSeries> = curves
        .iter()
        .map(|curve| {
            let points = curve.points.iter().map(|point| (point.x.max(1.0), point.fraction)).collect();
            ChartSeries::new(curve.size.name(), Mark::Step, points)
        })
        .collect();
    let chart = Chart::xy("wait-by-size", "Wait by size", Axis::log_duration("Wait"), Axis::share("Jobs"), series);
    (!curves.is_empty()).then(|| {
        chart.with_reading(
            "Share of the jobs of each size that waited at most so long. Waits under a second are drawn at one.",
        )
    })
}

/// Mean wait by VC, under each policy.
pub(super) fn vcs(answer: &Answer) -> Option<Chart> {
    let mut vcs: Vec<(&str, f64)> = answer
        .metrics
        .by_vc
        .iter()
        .map(|vc| (vc.name.as_str(), vc.group.wait.map_or(0.0, |wait| wait.mean_s)))
        .collect();
    vcs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    vcs.truncate(MOST_VCS);
    if vcs.len() < 2 {
        return None;
    }
    let names: Vec<String> = vcs.iter().map(|(name, _)| (*name).to_owned()).collect();
    let all = std::iter::once((answer.name.as_str(), &answer.metrics))
        .chain(answer.others.iter().map(|replay| (replay.name.as_str(), &replay.metrics)));
    let series = all.take(4).map(|(name, metrics)| {
        let mean = |vc: &String| {
            let result = metrics.by_vc.iter().find(|of| of.name == *vc)?;
            Some(result.group.wait?.mean_s)
        };
        BarSeries::new(name, names.iter().map(mean).collect())
    });
    let chart = Chart::rows(
        "wait-by-vc",
        "Mean wait by VC",
        Axis::duration("Mean wait"),
        BarLayout::Grouped,
        names.clone(),
        series.collect(),
    );
    Some(chart.with_reading(format!(
        "The {} VCs with the longest mean wait under {}, longest first.",
        names.len(),
        answer.name
    )))
}

/// Mean wait against its 95 % quantile, one point a policy.
pub(super) fn pareto(answer: &Answer) -> Option<Chart> {
    let all = std::iter::once((answer.name.as_str(), &answer.metrics))
        .chain(answer.others.iter().map(|replay| (replay.name.as_str(), &replay.metrics)));
    let series: Vec<ChartSeries> = all
        .filter_map(|(name, metrics)| {
            let wait = metrics.overall.group.wait?;
            Some(ChartSeries::new(name, Mark::Points, vec![(wait.mean_s, wait.p95_s)]))
        })
        .collect();
    let chart = Chart::xy(
        "policies",
        "Policies",
        Axis::duration("Mean wait"),
        Axis::duration("95 % quantile of the wait"),
        series,
    );
    (!answer.others.is_empty()).then(|| {
        chart.with_reading("Left is better for the average job, below is better for the unlucky one. A policy with another both left of and below it is beaten, unless the other is an oracle.")
    })
}
