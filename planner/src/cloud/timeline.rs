//! One job, tick by tick: when spot could be had, what the chosen policy held and what the optimum holds, and how far each came.
//!
//! The start is the middle one of the first trace, with the middle one of the deadlines, so that nobody picked it. Only of a job in one zone that needs its instances at once. O(ticks ×
//! needs). Worked example: of 20 starts and the slacks 0.65, 0.8 and 0.9 it is the eleventh start with 0.8.

use tracecast_analytics::report::Section;
use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark};

use super::job::{DeadlineJob, Holding, JobView, Pilot, Script};
use super::optimum::optimal_holdings;
use super::policy::{CloudPolicy, learned, pilot, programmes, relative};
use super::request::CloudRequest;
use crate::cloud::elastic::{ride_priced, ride_without_net};
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::window::Window;

/// Most columns of the chart of what was held.
const MOST_COLUMNS: usize = 60;

/// What was held in a tick, and the share of the work that was done before it.
type Moment = (Holding, f64);

/// One job, tick by tick.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudTimeline {
    /// Name of the trace.
    pub trace: String,
    /// Work over time to the deadline.
    pub slack: f64,
    /// Start of the job, seconds after the first tick of the trace.
    pub start_s: f64,
    /// Length of a tick, seconds.
    pub tick_s: f64,
    /// The job.
    pub job: DeadlineJob,
    /// The policy.
    pub policy: CloudPolicy,
    /// Whether spot can be had, to the deadline.
    pub up: Vec<bool>,
    /// The policy, until its work is done.
    pub held: Vec<Moment>,
    /// The optimum, until its work is done.
    pub optimum: Vec<Moment>,
}

/// A pilot of which is kept how much work was left before each tick.
struct Watched<P> {
    pilot: P,
    left_ms: Vec<i64>,
}

impl<P: Pilot> Pilot for Watched<P> {
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding {
        self.left_ms.push(view.work_ms);
        self.pilot.hold(job, view)
    }
}

impl CloudTimeline {
    /// Timeline of one start with one deadline; `None` for an elastic job of several instances,
    /// which takes what there is of them.
    ///
    /// # Errors
    /// If the optimum cannot be computed exactly.
    ///
    /// # Errors
    /// If the optimum cannot be computed exactly.
    pub(super) fn of(
        zone: &SpotSeries,
        request: &CloudRequest,
        (slack, job): (f64, &DeadlineJob),
        start: usize,
        policy: CloudPolicy,
    ) -> Result<Option<Self>> {
        if request.elastic && request.need > 1 {
            return Ok(None);
        }
        let (up, tick_ms) = (zone.up(request.need), zone.tick_ms);
        let ticks = job.ticks(tick_ms);
        let window = Window { past: 0..start, ahead: start..(start + ticks).min(up.len()) };
        let (prices, price_ratio) = relative(zone.price.as_ref(), &window, job.price_ratio);
        let job = DeadlineJob { price_ratio, ..*job };
        let ahead = up.get(window.ahead).unwrap_or_default();
        let learned = learned(&up, start, policy, tick_ms, ticks);
        // Where the work is uncertain, the job that is shown has all of it.
        let fitted = programmes(&learned, 1, start, tick_ms, &job, request.uncertain.as_ref());
        let moments = |left_ms: Vec<i64>, held: Vec<Holding>| -> Vec<Moment> {
            let done = |left_ms: i64| (job.work_ms - left_ms) as f64 / job.work_ms as f64;
            held.into_iter().zip(left_ms).map(|(held, left_ms)| (held, done(left_ms))).collect()
        };
        let mut held = Vec::new();
        let mut watched = Watched { pilot: pilot(policy, &fitted), left_ms: Vec::new() };
        ride_priced(&mut watched, ahead, &prices, tick_ms, &job, &mut |of| held.push(of));
        let followed = moments(watched.left_ms, held);
        let optimal = optimal_holdings(ahead, &prices, tick_ms, &job)?;
        if optimal.is_empty() {
            // More choices than are kept: without the optimum there is nothing to hold the job against.
            return Ok(None);
        }
        let script = Script(optimal.into_iter());
        let mut held = Vec::new();
        let mut watched = Watched { pilot: script, left_ms: Vec::new() };
        ride_without_net(&mut watched, ahead, &prices, tick_ms, &job, &mut |of| held.push(of));
        Ok(Some(Self {
            trace: zone.name.clone(),
            slack,
            start_s: (start as i64 * tick_ms) as f64 / 1e3,
            tick_s: tick_ms as f64 / 1e3,
            policy,
            up: ahead.to_vec(),
            held: followed,
            optimum: moments(watched.left_ms, held),
            job,
        }))
    }

    /// When spot could be had and what was held, as shares of columns of equal length.
    fn holdings(&self) -> Chart {
        let ticks = self.up.len().max(1);
        let per = ticks.div_ceil(MOST_COLUMNS);
        let share = |of: &dyn Fn(usize) -> bool| -> Vec<Option<f64>> {
            let column = |first: usize| {
                let last = (first + per).min(ticks);
                Some((first..last).filter(|tick| of(*tick)).count() as f64 / (last - first).max(1) as f64)
            };
            (0..ticks).step_by(per).map(column).collect()
        };
        let holds =
            |of: &[Moment], what: Holding| share(&|tick: usize| of.get(tick).is_some_and(|(held, _)| *held == what));
        let name = self.policy.in_words();
        let rows = vec![
            "spot could be had".to_owned(),
            format!("{name}: spot"),
            format!("{name}: on-demand"),
            "optimum: spot".to_owned(),
            "optimum: on-demand".to_owned(),
        ];
        let values = vec![
            share(&|tick: usize| self.up.get(tick).copied().unwrap_or(false)),
            holds(&self.held, Holding::Spot),
            holds(&self.held, Holding::OnDemand),
            holds(&self.optimum, Holding::Spot),
            holds(&self.optimum, Holding::OnDemand),
        ];
        let hours = (0..ticks).step_by(per).map(|tick| format!("{:.1}", tick as f64 * self.tick_s / 3600.0)).collect();
        Chart::heatmap(
            "one-job-held",
            "One job: when spot could be had, and what was held (hours from the start)",
            hours,
            rows,
            values,
            Axis::share("share of the time"),
        )
        .with_reading("Columns are equal stretches of time, to the deadline. The stronger a cell, the more of its stretch. Where neither row of a way is strong, it waits or is done.")
    }

    /// How far the work came, beside what must be done by then.
    fn progress(&self) -> Chart {
        let line = |of: &[Moment]| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> =
                of.iter().enumerate().map(|(tick, (_, done))| (tick as f64 * self.tick_s, *done)).collect();
            // Done within the last tick.
            points.push(((of.len() as f64 * self.tick_s).min(self.job.deadline_ms as f64 / 1e3), 1.0));
            points
        };
        let s = |ms: i64| ms as f64 / 1e3;
        let last_ms = self.job.deadline_ms - self.job.changeover_ms;
        let must = vec![(s(last_ms - self.job.work_ms), 0.0), (s(last_ms), 1.0)];
        Chart::xy(
            "one-job-progress",
            "One job: work done against the deadline",
            Axis::duration("time from the start"),
            Axis::share("work done"),
            vec![
                ChartSeries::new(self.policy.in_words(), Mark::Line, line(&self.held)),
                ChartSeries::new("omniscient optimum", Mark::Line, line(&self.optimum)),
                ChartSeries::new("what must be done for on-demand to make it", Mark::Dashed, must),
            ],
        )
        .with_reading("A line that touches the dashed one must go on-demand there: that is the safety net. A level stretch is waiting, or a changeover.")
    }

    /// The charts as sections of a report.
    pub(super) fn sections(&self) -> [Section; 2] {
        let of = format!(
            "{} from {:.1} h after its first tick on, slack {}: the middle start of the first trace.",
            self.trace,
            self.start_s / 3600.0,
            self.slack
        );
        [
            Section::new("one-job-held", "How does one job go?")
                .with_chart(self.holdings())
                .with_definition(of.clone()),
            Section::new("one-job-progress", "Does one job keep ahead of its deadline?")
                .with_chart(self.progress())
                .with_definition(of),
        ]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use tracecast_analytics::report::Block;

    use super::*;

    /// The worked example of the contract: 2 h of work in 3 h, a changeover of 12 min, spot in the second hour only. Greedy has no time to wait and is on-demand throughout: 0.8 h are done after the first
    /// hour, 1.8 h after the second. The optimum goes to spot in between and has 1.6 h by then.
    #[test]
    fn the_worked_example() {
        const MIN: i64 = 60_000;
        let zone = SpotSeries::of_counts("a", 60 * MIN, vec![0.0, 0.0, 1.0, 0.0]);
        let request = CloudRequest {
            work_ms: 120 * MIN,
            slacks: vec![2.0 / 3.0],
            changeover_ms: 12 * MIN,
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 1,
            need: 1,
            ..CloudRequest::default()
        };
        let job = request.jobs().unwrap()[0];
        let result = CloudTimeline::of(&zone, &request, (2.0 / 3.0, &job), 1, CloudPolicy::Greedy).unwrap().unwrap();
        use Holding::{OnDemand as D, Spot as S};
        assert_eq!(result.up, [false, true, false]);
        assert_eq!(result.held, [(D, 0.0), (D, 0.4), (D, 0.9)]);
        assert_eq!(result.optimum, [(D, 0.0), (S, 0.4), (D, 0.8)]);
        let blocks = || result.sections().into_iter().flat_map(|of| of.blocks);
        let charts: Vec<String> =
            blocks().filter_map(|of| if let Block::Chart(chart) = of { Some(chart.id) } else { None }).collect();
        assert_eq!(charts, ["one-job-held", "one-job-progress"]);
        assert!(
            CloudTimeline::of(
                &zone,
                &CloudRequest { need: 2, elastic: true, ..request },
                (0.5, &job),
                1,
                CloudPolicy::Greedy
            )
            .unwrap()
            .is_none()
        );
    }
}
