//! The answer of a back-test of demand, as JSON (`model-backtest-demand/1`) and as a report.
//!
//! Worked example: persistence with a mean pinball loss of 4.0 nodes and trees with 3.0 show 0.75 in the column `of persistence`.

use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::backtest::{DemandBacktest, DemandModelScore, DemandSpan};
use super::fan::{ENDS90, LEVELS, MEDIAN};
use super::gather::Asked;
use super::peaks::PeakBacktest;
use tracecast_analytics::facts::demand::Unit;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-demand/1";

/// A back-test of demand, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// Notes on the data, for readers.
    pub notes: Vec<String>,
    /// IANA name of the zone of the cluster's clock.
    pub zone: String,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Slots forecast.
    pub horizon: usize,
    /// Days between fits.
    pub refit_days: i64,
    /// Definition of demand that was used.
    pub asked: Asked,
    /// Levels of the quantiles, in the order of the pinball losses.
    pub levels: Vec<f64>,
    /// Back-test of each VC, then of the pool.
    pub series: Vec<DemandBacktest>,
}

/// The JSON Schema of [`Answer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Answer).to_value()
}

fn counted(unit: Unit) -> &'static str {
    match unit {
        Unit::Nodes => "nodes",
        Unit::Gpus => "GPUs",
    }
}

fn find<'a>(test: &'a DemandBacktest, name: &str) -> Option<&'a DemandModelScore> {
    test.models.iter().find(|model| model.name == name)
}

impl Answer {
    fn zone(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC)
    }

    fn span(&self, span: &DemandSpan) -> String {
        let day = |ms: i64| {
            jiff::Timestamp::from_millisecond(ms)
                .map_or_else(|_| "?".to_owned(), |at| at.to_zoned(self.zone()).strftime("%Y-%m-%d %H:%M").to_string())
        };
        format!(
            "{} slots, {} to {} ({})",
            format::count(span.slots as u64),
            day(span.from_ms),
            day(span.to_ms),
            self.zone
        )
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "Demand: a back-test of forecasts");
        report.notes.clone_from(&self.notes);
        report.notes.push(format!("Times are in the cluster's zone, {}.", self.zone));
        for test in &self.series {
            if let (Some(chosen), Some(base)) = (find(test, &test.chosen), test.models.first()) {
                report.summary.push(sentence(test, chosen, base));
            }
        }
        if self.series.len() > 1 {
            report.sections.push(self.all());
        }
        let several = self.series.len() > 1;
        for (at, test) in self.series.iter().enumerate() {
            report.sections.extend(self.one(test, at, several));
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    /// All series in one table.
    fn all(&self) -> Section {
        let columns = vec![
            Column::text("Series"),
            Column::number("Mean peak"),
            Column::text("Chosen"),
            Column::number("sMAPE"),
            Column::number("Persistence's"),
            Column::number("RMSE"),
            Column::number("Persistence's"),
            Column::number("Pinball of persistence"),
            Column::number("In 80 %"),
            Column::number("In 90 %"),
        ];
        let mut table = ReportTable::new("All series, over all horizons", columns);
        let (mut better, mut all) = (0u64, 0u64);
        for test in &self.series {
            let (Some(chosen), Some(base)) = (find(test, &test.chosen), test.models.first()) else { continue };
            all += 1;
            better += u64::from(chosen.of_persistence < 1.0);
            table.rows.push(vec![
                test.name.as_str().into(),
                Cell::float(test.mean_peak, 1),
                test.chosen.as_str().into(),
                Cell::float(chosen.score.smape, 2),
                Cell::float(base.score.smape, 2),
                Cell::float(chosen.score.rmse, 2),
                Cell::float(base.score.rmse, 2),
                Cell::float(chosen.of_persistence, 3),
                Cell::share(chosen.score.coverage80),
                Cell::share(chosen.score.coverage90),
            ]);
        }
        Section::new("all", "Each series beside persistence")
            .with_finding(format!(
                "What was chosen on earlier slots has less pinball loss than persistence on **{better} of {all}** series.",
            ))
            .with_table(table)
    }

    fn one(&self, test: &DemandBacktest, at: usize, several: bool) -> Vec<Section> {
        let unit = counted(test.unit);
        let mut table = ReportTable::new(
            "Scores on the slots reported, over all horizons",
            vec![
                Column::text("Model"),
                Column::number("sMAPE"),
                Column::number("RMSE"),
                Column::number("MAE"),
                Column::number("Pinball"),
                Column::number("of persistence"),
                Column::number("In 80 %"),
                Column::number("In 90 %"),
                Column::number("80 % width"),
                Column::number("90 % width"),
            ],
        );
        for model in &test.models {
            let name = if model.name == test.chosen { format!("{} (chosen)", model.name) } else { model.name.clone() };
            let score = &model.score;
            table.rows.push(vec![
                name.into(),
                Cell::float(score.smape, 2),
                Cell::float(score.rmse, 2),
                Cell::float(score.mae, 2),
                Cell::float(score.pinball_mean, 3),
                Cell::float(model.of_persistence, 3),
                Cell::share(score.coverage80),
                Cell::share(score.coverage90),
                Cell::float(score.width80, 1),
                Cell::float(score.width90, 1),
            ]);
        }
        table.note = Some(format!(
            "RMSE, MAE, pinball loss and widths in {unit}. Pinball: mean over the levels {}.",
            LEVELS.map(format::percent).join(", ")
        ));
        let id = |what: &str| if several { format!("{what}-{at}") } else { what.to_owned() };
        let title = |what: &str| if several { format!("{}: {what}", test.name) } else { what.to_owned() };
        let chosen = find(test, &test.chosen);
        let finding = match chosen.zip(test.models.first()) {
            Some((best, base)) => sentence(test, best, base),
            None => String::new(),
        };
        let by_horizon = |of: fn(&super::score::DemandScore) -> f64| -> Vec<ChartSeries> {
            let points = |model: &DemandModelScore| {
                model.by_horizon.iter().map(|at| (at.ahead_s, of(&at.score))).collect::<Vec<(f64, f64)>>()
            };
            let mark = |model: &DemandModelScore| if model.name == "persistence" { Mark::Dashed } else { Mark::Line };
            test.models.iter().map(|model| ChartSeries::new(model.name.clone(), mark(model), points(model))).collect()
        };
        let ahead = || Axis::duration("From the forecast to the end of the slot");
        let smape =
            Chart::xy(id("smape"), "sMAPE by horizon", ahead(), Axis::linear("sMAPE"), by_horizon(|score| score.smape))
                .with_reading("Lower is better; the dashed line says that nothing changes.");
        let loss = Chart::xy(
            id("pinball"),
            "Pinball loss by horizon",
            ahead(),
            Axis::linear(format!("Mean pinball loss ({unit})")),
            by_horizon(|score| score.pinball_mean),
        )
        .with_reading("What the quantiles cost, too much and too little together. Lower is better.");
        let held = chosen.map(|chosen| coverage(chosen, id("coverage"), ahead()));
        let made_of: Vec<String> =
            test.ensemble.iter().map(|member| format!("{:.1} {}", member.weight, member.model.name())).collect();
        let mut section = Section::new(id("models"), title("Which forecast is best")).with_finding(finding);
        // One horizon is no curve.
        if self.horizon > 1 {
            section = [Some(smape), Some(loss), held].into_iter().flatten().fold(section, Section::with_chart);
        }
        section = section
            .with_table(table)
            .with_table(self.horizons(test))
            .with_coverage(format!(
                "{} fits a model. Learned only: {}. Chosen on: {}. Reported: {}, of which {} were not counted and are not scored.",
                test.fits,
                self.span(&test.taught),
                self.span(&test.chosen_on),
                self.span(&test.reported),
                format::count(test.unscored as u64)
            ))
            .with_definition("Persistence: the last slot's peak. Forecast is the peak of a slot; horizon h of a slot is of the forecast made h − 1 slots before it begins, from slots that had ended.")
            .with_definition("sMAPE: 200 × the mean of |forecast − truth| / (|forecast| + |truth|). Pinball loss of a quantile q of level a: a (y − q) above it, (1 − a)(q − y) below.")
            .with_definition("The ensemble averages the models' quantiles with weights of least loss on the slots it is chosen on, and is calibrated as one.");
        if !made_of.is_empty() {
            section = section.with_text(format!("The ensemble is {}.", made_of.join(" + ")));
        }
        for left in &test.left_out {
            section = section.with_text(format!("{} is left out: {}.", left.model.name(), left.why));
        }
        let fan = self.fan(test, &id("fan"), &title("What was said and what came"));
        let peaks = test
            .peaks
            .as_ref()
            .map(|of| peaks(of, &id("peaks"), &title("How many are needed at most in the next hours"), unit));
        [Some(section), peaks, Some(fan)].into_iter().flatten().collect()
    }

    /// Some horizons of the chosen model beside persistence.
    fn horizons(&self, test: &DemandBacktest) -> ReportTable {
        let columns = vec![
            Column::number("Ahead"),
            Column::number("sMAPE"),
            Column::number("Persistence's"),
            Column::number("RMSE"),
            Column::number("Persistence's"),
            Column::number("Pinball"),
            Column::number("Persistence's"),
            Column::number("In 80 %"),
            Column::number("In 90 %"),
            Column::number("90 % width"),
        ];
        let mut table = ReportTable::new(format!("{} by horizon", test.chosen), columns);
        let (Some(chosen), Some(base)) = (find(test, &test.chosen), test.models.first()) else { return table };
        let named = [1, 2, 3, 6, 12, 18, 24, 36, 72, 144];
        for (row, base) in chosen.by_horizon.iter().zip(&base.by_horizon) {
            if !named.contains(&row.horizon) && row.horizon != self.horizon {
                continue;
            }
            table.rows.push(vec![
                Cell::Duration(row.ahead_s),
                Cell::float(row.score.smape, 2),
                Cell::float(base.score.smape, 2),
                Cell::float(row.score.rmse, 2),
                Cell::float(base.score.rmse, 2),
                Cell::float(row.score.pinball_mean, 3),
                Cell::float(base.score.pinball_mean, 3),
                Cell::share(row.score.coverage80),
                Cell::share(row.score.coverage90),
                Cell::float(row.score.width90, 1),
            ]);
        }
        table
    }

    fn fan(&self, test: &DemandBacktest, id: &str, title: &str) -> Section {
        let ahead = test.shown_horizon as f64 * self.slot_s;
        let time = |ms: i64| ms as f64 / 1000.0;
        let at = |quantiles: &[f64], ix: usize| quantiles.get(ix).copied().unwrap_or(f64::NAN);
        let band = |(low, high): (usize, usize)| -> Vec<(f64, f64, f64)> {
            test.shown
                .iter()
                .map(|slot| (time(slot.time_ms), at(&slot.quantiles, low), at(&slot.quantiles, high)))
                .collect()
        };
        let median: Vec<(f64, f64)> =
            test.shown.iter().map(|slot| (time(slot.time_ms), at(&slot.quantiles, MEDIAN))).collect();
        let truth: Vec<(f64, f64)> =
            test.shown.iter().map(|slot| (time(slot.time_ms), slot.truth.unwrap_or(f64::NAN))).collect();
        let curves = vec![
            ChartSeries::new("median, 5 to 95 %", Mark::Dashed, median).with_band(band(ENDS90)),
            ChartSeries::new("what came", Mark::Step, truth),
        ];
        let chart = Chart::xy(
            id,
            format!("{} of {}, said {} before the end of each slot", test.chosen, test.name, format::duration(ahead)),
            Axis::time("Time", self.zone()),
            Axis::linear(format!("Peak ({})", counted(test.unit))),
            curves,
        )
        .with_reading("The last three days reported. Nine in ten slots should lie within the shading.");
        let counted_slots: Vec<(&Vec<f64>, f64)> =
            test.shown.iter().filter_map(|slot| Some((&slot.quantiles, slot.truth?))).collect();
        let within = counted_slots
            .iter()
            .filter(|(quantiles, truth)| at(quantiles, ENDS90.0) <= *truth && *truth <= at(quantiles, ENDS90.1))
            .count();
        Section::new(id, title)
            .with_finding(format!(
                "{} of the {} slots shown lie within the 90 % interval.",
                format::count(within as u64),
                format::count(counted_slots.len() as u64)
            ))
            .with_chart(chart)
    }
}

/// Models of the most that is needed within the next slots.
fn peaks(test: &PeakBacktest, id: &str, title: &str, unit: &str) -> Section {
    let ahead = test.models.first().map(|model| model.by_horizon.as_slice()).unwrap_or_default();
    let columns = [Column::text("Model"), Column::number("of recent rises")].into_iter();
    let columns = columns.chain(ahead.iter().map(|at| Column::number(format::duration(at.ahead_s))));
    let mut table = ReportTable::new("Pinball loss of the most of the next slots", columns.collect());
    for model in &test.models {
        let name = if model.name == test.chosen { format!("{} (chosen)", model.name) } else { model.name.clone() };
        let losses = model.by_horizon.iter().map(|at| Cell::float(at.pinball_mean, 3));
        table.rows.push([name.into(), Cell::float(model.of_recent_rises, 3)].into_iter().chain(losses).collect());
    }
    let chances = test.chances.iter().map(|chance| format::percent(f64::from(*chance))).collect::<Vec<_>>();
    table.note =
        Some(format!("In {unit}; a mean over levels that are exceeded with chances of {}.", chances.join(", ")));
    let chosen = test.models.iter().find(|model| model.name == test.chosen);
    let finding = chosen.map_or_else(String::new, |chosen| {
        let of = format::percent(chosen.of_recent_rises);
        match chosen.name == test.models.first().map_or("", |model| &model.name) {
            true => "No model was better on earlier slots than the rises of the last 14 days.".to_owned(),
            false => format!(
                "**{}** was chosen on earlier slots: {of} of the loss of the rises of the last 14 days.",
                chosen.name
            ),
        }
    });
    Section::new(id, title).with_finding(finding).with_table(table).with_definition(
        "Recent rises: what is in use, and the quantile of how far the most of as many slots was above it in the last 14 days. \
         Reach: boosted trees of the chance that a level is reached, the learned rule of `plan power`. Others: the largest quantile of their slots.",
    )
}

/// Shares of the slots that the intervals of a model hold, beside what they promise.
fn coverage(model: &DemandModelScore, id: String, ahead: Axis) -> Chart {
    let curve = |of: fn(&super::score::DemandScore) -> f64| -> Vec<(f64, f64)> {
        model.by_horizon.iter().map(|at| (at.ahead_s, of(&at.score))).collect()
    };
    let promised = |share: f64| -> Vec<(f64, f64)> { model.by_horizon.iter().map(|at| (at.ahead_s, share)).collect() };
    let curves = vec![
        ChartSeries::new("in the 80 % interval", Mark::Line, curve(|score| score.coverage80)),
        ChartSeries::new("in the 90 % interval", Mark::Line, curve(|score| score.coverage90)),
        ChartSeries::new("80 % promised", Mark::Dashed, promised(0.8)),
        ChartSeries::new("90 % promised", Mark::Dashed, promised(0.9)),
    ];
    Chart::xy(
        id,
        format!("What the intervals of {} hold, by horizon", model.name),
        ahead,
        Axis::share("Slots held"),
        curves,
    )
    .with_reading("A line below its dashes is an interval that is too narrow at that horizon.")
}

fn sentence(test: &DemandBacktest, chosen: &DemandModelScore, base: &DemandModelScore) -> String {
    let verdict = if chosen.name == base.name {
        "no model was better on earlier slots".to_owned()
    } else if chosen.of_persistence < 1.0 {
        format!("{} less pinball loss than persistence", format::percent(1.0 - chosen.of_persistence))
    } else {
        format!(
            "{} **more** pinball loss than persistence: persistence wins here",
            format::percent(chosen.of_persistence - 1.0)
        )
    };
    format!(
        "{}: **{}** was chosen on earlier slots: {verdict}, sMAPE {:.2} ({:.2}), RMSE {:.1} {} ({:.1}), its 90 % interval holds {} of the slots.",
        test.name,
        chosen.name,
        chosen.score.smape,
        base.score.smape,
        chosen.score.rmse,
        counted(test.unit),
        base.score.rmse,
        format::percent(chosen.score.coverage90),
    )
}
