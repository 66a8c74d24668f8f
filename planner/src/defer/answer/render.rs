//! The answer of `plan defer` as a report.
//!
//! O(rows). Worked example: a wait of 5,400 s is told as "1 h 30 min".

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, Report, ReportTable, Section, format};
use tracecast_analytics::time::{HOUR_MS, format_rfc3339, to_the_minute};

use super::super::rule::DeferRule;
use super::{DeferAim, DeferAnswer, DeferBody, DeferFigures, NextStart, NextTable, NextWay};
use crate::plan::money::money;
use crate::plan::tell;
use crate::plan::verdict::Verdict;
use crate::plan::waits::WaitSummary;

/// Rules that are shown window by window; JSON has all.
const SHOWN: [DeferRule; 5] =
    [DeferRule::Now, DeferRule::AllWait, DeferRule::Plan, DeferRule::SameWait, DeferRule::Oracle];

/// The answer as a report.
pub fn report(answer: &DeferAnswer) -> Report {
    let body = &answer.body;
    let better = match body.aim {
        DeferAim::Carbon => "cleaner",
        DeferAim::Price => "cheaper",
    };
    let subtitle = format!(
        "no job waits longer than {}, and all of them no longer than {} on average",
        format::duration(body.max_wait_s),
        format::duration(body.target_mean_wait_s)
    );
    let windows = tell::windows("defer-windows", &answer.trial, &SHOWN, Column::number("Mean wait"), &|rule| {
        Cell::Duration(rule.figures.mean_wait_s)
    });
    let sections = vec![
        body.plan_section(answer.is_advised()),
        tested(answer),
        body.sizes_section(),
        body.front_section(),
        body.forecast_section(),
        windows,
    ];
    tell::report(answer, (&format!("Which jobs wait for {better} hours?"), subtitle), tested_in_words(answer), sections)
}

/// Outcome of the plan on later windows, in sentences.
fn tested_in_words(answer: &DeferAnswer) -> Vec<String> {
    let (trial, body, of) = (&answer.trial, &answer.body, &answer.trial.of);
    let plan = &of.plan.figures;
    let mut said = Vec::new();
    let has_shares = answer.verdict != Verdict::NothingToSave;
    if has_shares {
        let beside = format!(", {} a month of {}", body.amount(trial.saved.value), body.amount(of.baseline.amount));
        said.push(tell::saved(trial, "plan", &body.against(), &beside));
    }
    if answer.is_advised() && plan.chosen.what != body.plan.what {
        said.push(format!(
            "What was tested starts jobs in the {}. What to set from now on was chosen anew on all windows, so it differs.",
            plan.chosen.what
        ));
    }
    said.push(plan.waits.in_words(&body.mean_wait_s));
    let saved = |id: DeferRule| trial.rule(id).map(|rule| format::percent(1.0 - rule.of_baseline));
    if let (true, Some(same), Some(free)) = (has_shares, saved(DeferRule::SameWait), saved(DeferRule::FreeOracle)) {
        said.push(format!(
            "With the same mean wait, knowing all hours and runs saves {same}. If all wait, the published window saves {} ({} on average), knowing all {}, and with free pauses {free}.",
            format::percent(1.0 - of.naive.of_baseline),
            format::duration(of.naive.figures.waits.mean_s),
            format::percent(1.0 - of.oracle.of_baseline)
        ));
    }
    if let (Some(cost), Some(currency)) = (plan.cost, &body.currency) {
        said.push(format!(
            "It cost {} a month, {} of starting at once.",
            money(cost.per_month, currency),
            format::percent(cost.of_now)
        ));
    }
    said.push(tell::predicted(body.predicted_within_twice));
    said
}

fn tested(answer: &DeferAnswer) -> Section {
    let costs = answer.trial.of.baseline.figures.cost.is_some();
    let mut columns = [vec![Column::text("How")], WaitSummary::columns()].concat();
    if costs {
        let currency = answer.body.currency.as_deref().unwrap_or("cost");
        columns.extend([Column::number(format!("{currency} a month")), Column::number("Of at once")]);
    }
    tell::rules("defer-tested", &answer.trial, "starting every job at once", columns, &|rule| {
        let DeferFigures { chosen, waits, cost, .. } = &rule.figures;
        let mut row = [vec![chosen.what.as_str().into()], waits.cells()].concat();
        if costs {
            row.push(Cell::opt(*cost, |cost| Cell::float(cost.per_month, 0)));
            row.push(Cell::opt(*cost, |cost| Cell::Percent(cost.of_now)));
        }
        row
    })
    .with_definition("**The plan** is the better of \"a limit a day\" and \"a table a day\", which are written down at midnight UTC with what is known then: so what is tested is what is emitted. The other ways decide each job by itself, with all that is known when it is submitted.")
    .with_definition("Every rule has the forecast, the percentile and the bounds of each class that saved most on the windows before the split, of those with which the mean wait stayed within the target in both halves of them. **All wait** has one bound for all, and no target. **Limits** are the mean wait asked for and, with prices of GPUs, the cost.")
    .with_definition("**Wait**: end less submission less run, what resuming costs included. **Worth its wait**: a job waits only if an hour of waiting is expected to save at least so much.")
    .with_definition("Known rules tell what a perfect prediction would be worth, and **all known** is the least that any start within the longest wait comes to: **beyond hindsight** is beyond that. With **free pauses** it is the least of all. They cannot be had.")
    .with_definition("GAIA: Hanafy and others, ASPLOS 2024. The two thresholds follow the idea of LACS (Bostandoost and others, 2024), with percentiles of past days in place of its own.")
}

impl DeferBody {
    /// The starts of the day to come that differ, and the one of each class that waits; none of a class that starts at once all day.
    fn groups<'t>(&self, starts: &'t [NextStart]) -> (Vec<&'t [f64]>, Vec<Option<usize>>) {
        let mut distinct: Vec<&[f64]> = Vec::new();
        let mut of = |class: &super::DeferClass| {
            let result = starts.iter().find(|start| start.size == class.size && start.runs == class.runs)?;
            let at = distinct.iter().position(|known| *known == result.after_h.as_slice());
            Some(at.unwrap_or_else(|| {
                distinct.push(&result.after_h);
                distinct.len() - 1
            }))
        };
        let groups = self.plan.classes.iter().map(&mut of).collect();
        (distinct, groups)
    }

    fn plan_section(&self, is_advised: bool) -> Section {
        let way = self.next_day.as_ref().map(|day| &day.way);
        let day_table = match way {
            Some(NextWay::Table(table)) => Some(table),
            _ => None,
        };
        let (distinct, groups) = self.groups(day_table.map_or(&[][..], |table| &table.starts));
        let mut columns =
            vec![Column::text("GPUs"), Column::text(self.class_by.heading()), Column::number("Waits up to")];
        if day_table.is_some() {
            columns.push(Column::text("Group"));
        }
        let mut table = ReportTable::new("Who may wait", columns);
        for (class, group) in self.plan.classes.iter().zip(&groups) {
            let mut row: Vec<Cell> =
                vec![class.size.id().into(), class.runs.as_str().into(), Cell::Duration(class.most_wait_s)];
            if day_table.is_some() {
                row.push(group.map_or_else(String::new, |group| format!("{}", group + 1)).into());
            }
            table.rows.push(row);
        }
        let heading = match (is_advised, way) {
            (true, Some(_)) => "Who waits, and the day to come",
            (true, None) => "Who waits",
            (false, _) => "Who would have waited: not advised",
        };
        let mut section = Section::new("defer-plan", heading).with_table(table).with_definition(format!(
            "How: {}. Chosen on all windows, where it saves {}. Classes that are not named start at once.",
            self.plan.what,
            format::percent(self.plan_saves)
        ));
        if let Some(table) = day_table {
            section = section.with_table(self.day_table(table, &distinct)).with_definition(format!(
                "The hours after the last one of the file, as forecast by {}, and a job of the median of each class. 0 starts at once. Classes of a **group** start alike that day; one without a group starts at once.",
                table.by
            ));
        }
        if let (Some(NextWay::Limit(limit)), Some(day)) = (way, &self.next_day) {
            section = section.with_definition(format!(
                "The day from {} on: what waits starts in the first hour at or below **{} {}**, which {} % of the hours of the {} days before are, or when its time is over.",
                to_the_minute(&day.from),
                format::float(limit.limit, self.value_digits()),
                self.value_unit(),
                limit.percent,
                limit.days
            ));
        }
        section
    }

    /// The starts of a day by hour of submission.
    fn day_table(&self, day: &NextTable, distinct: &[&[f64]]) -> ReportTable {
        let from_ms = self.next_day.as_ref().map_or(0, |day| day.from_ms);
        let mut columns = vec![Column::text("Submitted (UTC)"), Column::number(self.value_unit())];
        columns.extend((0..distinct.len()).map(|group| Column::number(format!("Group {}", group + 1))));
        let mut table = ReportTable::new("Starts of the day to come, hours after submission", columns);
        for (at, expected) in day.expected.iter().enumerate().take(24) {
            let hour = format_rfc3339(from_ms + at as i64 * HOUR_MS);
            let mut row: Vec<Cell> = vec![to_the_minute(&hour).into(), Cell::float(*expected, self.value_digits())];
            row.extend(
                distinct.iter().map(|after_h| Cell::opt(after_h.get(at).copied(), |after| Cell::float(after, 1))),
            );
            table.rows.push(row);
        }
        table
    }

    fn value_unit(&self) -> String {
        match self.aim {
            DeferAim::Carbon => "g/kWh".to_owned(),
            DeferAim::Price => format!("{}/kWh", self.unit),
        }
    }

    fn value_digits(&self) -> usize {
        if self.aim == DeferAim::Carbon { 1 } else { 4 }
    }

    fn sizes_section(&self) -> Section {
        let mut columns =
            vec![Column::text("GPUs"), Column::number("Jobs"), Column::number("Of all"), Column::number("Saved")];
        columns.extend(WaitSummary::columns());
        let mut table = ReportTable::new("Later jobs under the plan", columns);
        for size in &self.sizes {
            let mut row: Vec<Cell> = vec![
                size.size.id().into(),
                Cell::Int(size.waits.jobs as i64),
                Cell::Percent(size.of_all),
                Cell::Percent(size.saved),
            ];
            row.extend(size.waits.cells());
            table.rows.push(row);
        }
        Section::new("defer-sizes", "Who waits how long")
            .with_table(table)
            .with_definition(format!("**Of all**: their share of the {} of starting at once.", self.what()))
    }

    fn front_section(&self) -> Section {
        let costs = self.front.iter().any(|point| point.cost_of_now.is_some());
        let mut columns = vec![Column::number("Mean wait"), Column::number("Saved")];
        if costs {
            columns.push(Column::number("Cost of at once"));
        }
        columns.push(Column::text(""));
        let mut table = ReportTable::new("Pareto front on the earlier windows", columns);
        for point in &self.front {
            let mut row: Vec<Cell> = vec![Cell::Duration(point.mean_wait_s), Cell::Percent(point.saved)];
            if costs {
                row.push(Cell::opt(point.cost_of_now, Cell::Percent));
            }
            row.push(if point.chosen { "the plan" } else { "" }.into());
            table.rows.push(row);
        }
        let mut section = Section::new("defer-front", "What longer waits would save").with_table(table);
        let points: Vec<(f64, f64)> =
            self.front.iter().map(|point| (point.mean_wait_s / 3_600.0, 100.0 * point.saved)).collect();
        if points.len() > 1 {
            let series = vec![ChartSeries::new("earlier windows", Mark::Line, points)];
            let chart = Chart::xy(
                "defer-front-saved",
                "Saved over the mean wait, on the earlier windows",
                Axis::linear("Mean wait, h"),
                Axis::linear("Saved, %"),
                series,
            )
            .with_reading("The first hours of waiting save most. Each point is one choice of who waits how long.");
            section = section.with_chart(chart);
        }
        section.with_definition("No other choice of the plan's way is better in all columns. It is in sample: only the plan is told on later windows.")
    }

    fn forecast_section(&self) -> Section {
        let mut table = tell::table(
            "Error of forecasts",
            &format!("Forecast | #Hours ahead | #Before, {} | #After, {}", self.value_unit(), self.value_unit()),
        );
        for score in &self.forecasts {
            let error = |error: Option<f64>| Cell::opt(error, |error| Cell::float(error, self.value_digits()));
            table.rows.push(vec![
                score.by.as_str().into(),
                Cell::Int(i64::from(score.ahead_h)),
                error(score.earlier),
                error(score.later),
            ]);
        }
        Section::new("defer-forecasts", "How well hours are forecast").with_table(table).with_definition(
            "The mean distance of what was expected so many hours before from what came, on the windows before and after the split. A level that is wrong by the same for all hours misplaces no start.",
        )
    }
}
