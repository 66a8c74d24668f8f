//! A18: how jobs arrive and queue: gaps, dispersion, bursts, memory, and the length of the queue.
//!
//! The index of dispersion is the variance of the counts in windows over their mean: 1 for a Poisson stream, more for
//! bursts. A queueing model that assumes Poisson arrivals is too optimistic by about that factor.
//!
//! Worked number: hourly counts 0, 0, 0, 8: mean 2, variance 16 (divisor 3), index 8.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Moments, Topic, TopicResult};
use crate::facts::JobFacts;
use crate::report::format::{counted, duration, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats::arrival::Arrivals;

/// Share of the jobs whose wait must be known for the queue's length to be told.
const ENOUGH: f64 = 0.9;
/// Points of the queue curve.
const POINTS: i64 = 600;

/// Number of waiting jobs over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Queue {
    /// Mean over the observation.
    pub mean_jobs: f64,
    /// Most at one moment.
    pub peak_jobs: f64,
    /// Share of the time in which none waits.
    pub empty_time_share: f64,
    /// `(moment in ms, mean jobs waiting until the next)`.
    pub curve: Vec<(i64, f64)>,
}

/// Arrival pattern of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ArrivalPattern {
    /// Gaps, dispersion, correlation and bursts.
    pub arrivals: Arrivals,
    /// Queue length; `null` where the wait of more than a tenth of the jobs is unknown.
    pub queue: Option<Queue>,
    /// Time axis of the chart.
    #[serde(skip)]
    moments: Moments,
}

impl Topic for ArrivalPattern {
    const ID: &'static str = "arrival";
    const CODE: &'static str = "A18";
    const TITLE: &'static str = "How jobs arrive and queue";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let times: Vec<i64> = facts.trace.jobs.submit.iter().flatten().collect();
        if times.len() < 2 {
            return Err("fewer than two jobs have a submit time".to_owned());
        }
        // Of a time that was cut out, the empty hours at its ends count, too.
        let submitted = facts.trace.selected.as_ref().and_then(|selected| selected.submitted);
        let observed = submitted.zip(times.last()).map(|(time, last)| (time.from_ms, time.to_ms.max(last + 1)));
        let arrivals = Arrivals::new(&times, observed).map_err(|e| e.to_string())?;
        let waiting = facts.waiting(|_| Some(1.0));
        let known = facts.wait_s.iter().filter(|wait| wait.is_some()).count();
        // A queue of which most jobs are missing would be read as a short queue.
        let enough = known as f64 >= ENOUGH * facts.len() as f64;
        let queue = facts.window.filter(|(from, to)| enough && to > from).map(|(from, to)| {
            let empty: i64 =
                waiting.stretches(from, to).filter(|(_, _, jobs)| *jobs == 0.0).map(|(s, e, _)| e - s).sum();
            Queue {
                mean_jobs: waiting.mean(from, to).unwrap_or(0.0),
                peak_jobs: waiting.max(from, to),
                empty_time_share: empty as f64 / (to - from) as f64,
                curve: waiting.bucket_means(from, to, ((to - from) / POINTS).max(1)),
            }
        });
        Ok(Self { arrivals, queue, moments: Moments::of(facts.trace) })
    }

    fn section(&self) -> Section {
        let hourly =
            self.arrivals.dispersion.iter().find(|d| d.window_ms == crate::time::HOUR_MS).and_then(|d| d.index);
        let mut finding = match hourly {
            Some(index) => format!(
                "Arrivals are {}: the variance of the hourly counts is **{index:.1}** times that of a Poisson stream, and \
                 **{}** of the jobs share their submit second with another.",
                if index > 5.0 { "bursty" } else { "fairly even" },
                percent(self.arrivals.same_second_share)
            ),
            None => format!(
                "**{}** of the jobs share their submit second with another.",
                percent(self.arrivals.same_second_share)
            ),
        };
        if let Some(queue) = &self.queue {
            finding.push_str(&format!(
                " On average **{:.1}** jobs wait, at the peak {:.0}; the queue is empty {} of the time.",
                queue.mean_jobs,
                queue.peak_jobs,
                percent(queue.empty_time_share)
            ));
        }
        let mut table = ReportTable::new(
            "Dispersion of arrivals",
            vec![
                Column::text("Window"),
                Column::number("Windows"),
                Column::number("Jobs a window"),
                Column::number("Index of dispersion"),
            ],
        );
        for d in &self.arrivals.dispersion {
            table.rows.push(vec![
                duration(d.window_ms as f64 / 1_000.0).into(),
                int(d.windows),
                Cell::opt(d.mean_jobs, |value| Cell::Float { value, digits: 2 }),
                Cell::opt(d.index, |value| Cell::Float { value, digits: 1 }),
            ]);
        }
        let lags: Vec<String> = self
            .arrivals
            .hourly_correlation
            .iter()
            .filter_map(|c| Some(format!("{} h: {:.2}", c.lag_h, c.correlation?)))
            .collect();
        if !lags.is_empty() {
            table.note = Some(format!("Autocorrelation of the hourly counts at a lag of {}.", lags.join(", ")));
        }
        let mut section = Self::heading().with_finding(finding).with_table(table);
        if let Some(queue) = &self.queue {
            let first = queue.curve.first().map_or(0, |(ms, _)| *ms);
            let points = queue.curve.iter().map(|(ms, jobs)| (self.moments.place(*ms, first), *jobs)).collect();
            section = section.with_chart(
                Chart::xy(
                    "queue-length",
                    "Jobs waiting",
                    self.moments.axis(),
                    Axis::linear("Jobs"),
                    vec![ChartSeries::new("waiting", Mark::Area, points)],
                )
                .with_reading("Each point is the mean over about a 600th of the observation. Plateaus are stuck queues; spikes that clear at once are bursts of short jobs."),
            );
        }
        section
            .with_definition("Index of dispersion: variance over mean of the counts in full windows.")
            .with_definition(
                "Jobs that share a submit second have no true order among them, so results that depend on order (FIFO \
                 replays above all) carry that uncertainty.",
            )
            .with_coverage(format!(
                "{} with a submit time.{}",
                counted(self.arrivals.jobs, "job", "jobs"),
                if self.queue.is_some() {
                    ""
                } else {
                    " The length of the queue is left out: the wait of more than a tenth of the jobs is unknown."
                }
            ))
    }
}
