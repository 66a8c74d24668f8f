//! The answer of `plan power --test`, as JSON (`plan-power-test/1`) and as a report.
//!
//! Worked example: of sixteen promises on four fortnights, fifteen kept are a share of 0.94.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::Trace;
use tracecast_analytics::report::chart::{Axis, BarLayout, BarSeries, Chart};
use tracecast_analytics::report::{Cell, Report, Section, format};
use tracecast_analytics::time::{DAY_MS, Zone};
use tracecast_analytics::trace::SourceRecord;
use tracecast_analytics::watch::Watch;
use tracecast_predictors::demand::Series;

use super::{Promised, Rolled, Rule, TriedWindow, roll};
use crate::error::Result;
use crate::plan::tell;
use crate::power::evaluate::Prepared;
use crate::power::forward::clock::Clock;
use crate::power::request::PowerRequest;
use crate::power::score::service::Service;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-power-test/1";
/// Windows that the chart shows: those of the first series.
const SHOWN: usize = 12;

/// Promised against realised, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct PowerBacktestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// Notes on the data.
    pub notes: Vec<String>,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Length of a window, days.
    pub window_days: f64,
    /// Slots that a boot takes, such as 0.5.
    pub boot_slots: f64,
    /// The findings.
    #[serde(flatten)]
    pub rolled: Rolled,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// The JSON Schema of [`PowerBacktestAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(PowerBacktestAnswer).to_value()
}

impl PowerBacktestAnswer {
    /// Tries promises on a trace: on all nodes as one pool and, if [`PowerRequest::by_vc`] says so, on each VC. `say` is told how many series there
    /// are, and `watch` of every window.
    ///
    /// # Errors
    /// If there is no demand, or no series is long enough for one window.
    pub fn new(
        trace: &Trace,
        title: String,
        request: &PowerRequest,
        window_ms: i64,
        services: &[Service],
        say: &dyn Fn(usize),
        watch: &dyn Watch,
    ) -> Result<Self> {
        let Prepared { pools, like, .. } = Prepared::new(trace, request)?;
        let mut notes = pools.cautions.clone();
        notes.extend(pools.notes.iter().cloned());
        notes.extend(trace.warnings());
        let mut all: Vec<Series> = if request.by_vc { pools.vcs } else { Vec::new() };
        all.push(pools.pool);
        say(all.len());
        let mut rolled = roll(&all, &like, window_ms, services, watch)?;
        let zone = Zone::named(&trace.zone)?;
        let begins_ms = all.last().and_then(|pool| Clock::beginning(trace, &zone, pool.start_ms));
        if begins_ms.is_some() {
            // Dates that nobody recorded are none.
            let clock = Clock::new(zone, begins_ms);
            for window in &mut rolled.windows {
                (window.from, window.to) = (clock.moment(&window.from), clock.moment(&window.to));
            }
        }
        notes.extend(rolled.left_out.iter().map(|why| format!("Left out: {why}.")));
        Ok(Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            slot_s: request.demand.slot_ms as f64 / 1000.0,
            window_days: window_ms as f64 / DAY_MS as f64,
            boot_slots: like.boot_slots,
            rolled,
            sources: trace.sources.clone(),
        })
    }

    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("Are promises kept? {}", self.title),
            format!(
                "{} of {:.0} days, each decided with what came before it",
                format::counted(self.rolled.windows.len() as u64, "window", "windows"),
                self.window_days
            ),
        );
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.rules(), self.by_series(), self.by_window()];
        report
    }

    fn summary(&self) -> Vec<String> {
        let of = |rule: Rule| self.rolled.policies.iter().find(|tally| tally.name == rule);
        let mut said = Vec::new();
        if let Some(tally) = of(Rule::Promise) {
            said.push(format!(
                "The recommended rule kept **{} of {} promises** ({}) and let {} nodes sleep on average.",
                tally.kept,
                tally.promises,
                format::percent(self.rolled.kept_share),
                format::float(tally.nodes_asleep_mean, 1)
            ));
        }
        let over = self.rolled.asleep_over_trailing_maximum;
        if let Some(tally) = of(Rule::TrailingMaximum) {
            let how = match over {
                over if over.abs() < 0.05 => "as many nodes sleep".to_owned(),
                over if over > 0.0 => format!("{} nodes fewer sleep", format::float(over, 1)),
                over => format!("{} nodes more sleep", format::float(-over, 1)),
            };
            said.push(format!(
                "Under a trailing maximum that is chosen and guarded in the same way, {how} and {} of {} promises are kept.",
                tally.kept, tally.promises
            ));
        }
        if let Some(tally) = of(Rule::TrailingMaximumUnguarded) {
            said.push(format!(
                "Without the guard, a trailing maximum that kept the service on the days it was chosen on keeps {} of {} promises, with {} nodes asleep.",
                tally.kept,
                tally.promises,
                format::float(tally.nodes_asleep_mean, 1)
            ));
        }
        said
    }

    fn rules(&self) -> Section {
        let mut table = tell::table(
            "Rules, over all windows and services",
            "Rule | #Promises | #Kept | #Kept, % | #Nodes asleep, mean",
        );
        for tally in &self.rolled.policies {
            table.rows.push(vec![
                tally.name.in_words().into(),
                Cell::Int(tally.promises as i64),
                Cell::Int(tally.kept as i64),
                Cell::float(100.0 * tally.kept as f64 / tally.promises.max(1) as f64, 1),
                Cell::float(tally.nodes_asleep_mean, 1),
            ]);
        }
        Section::new("promises-by-rule", "Which rule keeps its promises?")
            .with_finding("A promise is kept if, over the whole window, at most as many node-slots went unserved and at most as many nodes were woken as was asked for.")
            .with_table(table)
            .with_definition("**Guarded**: a rule sleeps only as deep as what is left of its promise can bear, and steps back as it misses.")
            .with_definition("**Unguarded**: the setting that slept most within the service on the days of choice is followed to the end of the window, whatever comes.")
    }

    fn by_series(&self) -> Section {
        let mut table = tell::table(
            "Series by series",
            "Series | #Promises | #Kept | #Asleep | #Asleep, trailing maximum | #Asleep, optimum",
        );
        for series in &self.rolled.by_series {
            let of = |rule: Rule| series.policies.iter().find(|tally| tally.name == rule);
            table.rows.push(vec![
                series.series.as_str().into(),
                Cell::opt(of(Rule::Promise), |tally| Cell::Int(tally.promises as i64)),
                Cell::opt(of(Rule::Promise), |tally| Cell::Int(tally.kept as i64)),
                Cell::opt(of(Rule::Promise), |tally| Cell::float(tally.nodes_asleep_mean, 2)),
                Cell::opt(of(Rule::TrailingMaximum), |tally| Cell::float(tally.nodes_asleep_mean, 2)),
                Cell::float(series.optimum_asleep, 2),
            ]);
        }
        table.note = Some(
            "Nodes asleep, mean. The optimum knows the window and keeps to the same service: a rule that breaks a promise may let more sleep than it."
                .to_owned(),
        );
        Section::new("promises-by-series", "Does it hold for each series?").with_table(table)
    }

    fn by_window(&self) -> Section {
        let mut table = tell::table(
            "Promised and realised, window by window",
            "Series | From | #Nodes | Asked: unserved, wakes a day | Realised | Kept | #Asleep | #Optimum",
        );
        for (window, promised) in
            self.rolled.windows.iter().flat_map(|window| window.services.iter().map(move |promised| (window, promised)))
        {
            let Some(tested) = promised.policies.first() else { continue };
            table.rows.push(vec![
                window.series.as_str().into(),
                day(&window.from).into(),
                Cell::float(window.nodes, 0),
                in_words(&promised.asked).into(),
                in_words(&tested.realised).into(),
                if tested.kept { "yes" } else { "**no**" }.into(),
                Cell::float(tested.nodes_asleep_mean, 1),
                Cell::float(promised.optimum_asleep, 1),
            ]);
        }
        table.note = Some("Unserved node-slots and node-wakes a day; nodes asleep, mean. The optimum knows the window and keeps to what was asked.".to_owned());
        Section::new("promises-by-window", "Promised and realised").with_chart(self.chart()).with_table(table)
    }

    /// Unserved node-slots of the windows of the last series, the pool, promised and realised.
    fn chart(&self) -> Chart {
        let pool = self.rolled.by_series.last().map(|series| series.series.as_str()).unwrap_or_default();
        let windows = self.rolled.windows.iter().filter(|window| window.series == pool);
        let all: Vec<(&TriedWindow, &Promised)> = windows
            .flat_map(|window| window.services.iter().map(move |promised| (window, promised)))
            .filter(|(_, promised)| !promised.policies.is_empty())
            .collect();
        let shown = all.get(..all.len().min(4 * SHOWN)).unwrap_or(&all);
        let label = |(window, promised): &(&TriedWindow, &Promised)| {
            let day = day(&window.from);
            // The month and the day of a date.
            let day = day.get(5..).filter(|_| !day.starts_with("day")).unwrap_or(day);
            format!("{day}, {}", format::float(promised.asked.unserved_per_day * self.window_days, 0))
        };
        let whole = |per_day: f64| Some(per_day * self.window_days);
        let of = |rule: Rule| {
            let value = |(_, promised): &(&TriedWindow, &Promised)| {
                let tested = promised.policies.iter().find(|tested| tested.name == rule)?;
                whole(tested.realised.unserved_per_day)
            };
            shown.iter().map(value).collect::<Vec<_>>()
        };
        let asked = shown.iter().map(|(_, promised)| whole(promised.asked.unserved_per_day)).collect();
        Chart::bars(
            "promised-realised",
            format!("Unserved node-slots, {pool}"),
            Axis::linear("node-slots in a window"),
            BarLayout::Grouped,
            shown.iter().map(label).collect(),
            vec![
                BarSeries::new("promised, at most", asked),
                BarSeries::new("recommended", of(Rule::Promise)),
                BarSeries::new("trailing maximum, unguarded", of(Rule::TrailingMaximumUnguarded)),
            ],
        )
        .with_reading("Below each group: the day the window begins, and how many were promised. A bar of the recommended rule above the one beside it would be a broken promise.")
    }
}

/// The day of a moment: its date, or how many there were since the beginning.
fn day(moment: &str) -> &str {
    moment.split(['T', ',']).next().unwrap_or(moment)
}

fn in_words(service: &Service) -> String {
    format!("{:.2}, {:.1}", service.unserved_per_day, service.node_wakes_per_day)
}
