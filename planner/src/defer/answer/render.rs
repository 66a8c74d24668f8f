//! The answer of `plan defer` as a report.
//!
//! O(rows). Worked example: a wait of 5,400 s is told as "1 h 30 min".

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, Report, ReportTable, Section, format};
use tracecast_analytics::time::{HOUR_MS, format_rfc3339, to_the_minute};

use super::super::rule::DeferRule;
use super::{DeferAim, DeferAnswer, DeferVerdict, NextStart, NextTable, NextWay};
use crate::plan::money::money;
use crate::plan::waits::WaitSummary;
use crate::plan::weeks::windows_table;

/// Rules that are shown window by window; JSON has all.
const SHOWN: [DeferRule; 5] =
    [DeferRule::Now, DeferRule::AllWait, DeferRule::Plan, DeferRule::SameWait, DeferRule::Oracle];

impl DeferAnswer {
    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("Which jobs wait for {} hours? {}", self.better(), self.title),
            format!(
                "no job waits longer than {}, and all of them no longer than {} on average",
                format::duration(self.max_wait_s),
                format::duration(self.target_mean_wait_s)
            ),
        );
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        report.sections = vec![
            self.plan_section(),
            self.tested(),
            self.sizes_section(),
            self.front_section(),
            self.forecast_section(),
            self.windows_section(),
        ];
        report
    }

    fn better(&self) -> &'static str {
        match self.aim {
            DeferAim::Carbon => "cleaner",
            DeferAim::Price => "cheaper",
        }
    }

    fn amount_column(&self) -> Column {
        Column::number(format!("{} a month", self.unit))
    }

    fn summary(&self) -> Vec<String> {
        let held = &self.held_out;
        let mut said = vec![self.action.clone()];
        let rule = |by: DeferRule| self.rule(by);
        if let (Some(plan), Some(now), Some(all_wait), Some(same), Some(oracle), Some(free)) = (
            rule(DeferRule::Plan),
            rule(DeferRule::Now),
            rule(DeferRule::AllWait),
            rule(DeferRule::SameWait),
            rule(DeferRule::Oracle),
            rule(DeferRule::FreeOracle),
        ) {
            let saved = |rule: &super::DeferRuleOverWindows| format::percent(1.0 - rule.of_now);
            if self.verdict != DeferVerdict::NothingToSave {
                said.push(format!(
                "Chosen on {} before {} and told on {} after: the plan saved **{} of the {}** of starting at once ({} to {}, {}), {} a month of {}. It saved least from {} on: {}.",
                held.chosen_on,
                to_the_minute(&held.split),
                format::counted(held.windows.len() as u64, "window", "windows"),
                format::percent(held.saving.value),
                self.what(),
                format::percent(held.saving.low),
                format::percent(held.saving.high),
                held.interval,
                self.amount(held.saving_per_month.value),
                self.amount(now.amount_per_month),
                to_the_minute(&held.worst_window),
                format::percent(held.worst_saving)
            ));
            }
            if self.verdict == DeferVerdict::Advised && plan.chosen.what != self.plan.what {
                said.push(format!(
                    "What was tested starts jobs in the {}. What to set from now on was chosen anew on all windows, so it differs.",
                    plan.chosen.what
                ));
            }
            said.push(format!(
                "Of the later jobs {} waited, on average of all {} ({} to {}); 95 % waited up to {}, the longest {}.",
                format::percent(plan.waits.waited),
                format::duration(plan.waits.mean_s),
                format::duration(held.mean_wait_s.low),
                format::duration(held.mean_wait_s.high),
                format::duration(plan.waits.p95_s),
                format::duration(plan.waits.longest_s)
            ));
            if self.verdict != DeferVerdict::NothingToSave {
                said.push(format!(
                "With the same mean wait, knowing all hours and runs saves {}. If all wait, the published window saves {} ({} on average), knowing all {}, and with free pauses {}.",
                saved(same),
                saved(all_wait),
                format::duration(all_wait.waits.mean_s),
                saved(oracle),
                saved(free)
            ));
            }
            if let (Some(cost), Some(currency)) = (plan.cost, &self.currency) {
                said.push(format!(
                    "It cost {} a month, {} of starting at once.",
                    money(cost.per_month, currency),
                    format::percent(cost.of_now)
                ));
            }
        }
        said.push(format!(
            "{} of the later jobs ran within a factor of 2 of what was predicted.",
            format::percent(held.predicted_within_twice)
        ));
        if let Some(recommendation) = &self.recommendation {
            said.push(format!("Confidence: {}.", recommendation.confidence.in_words()));
        }
        said
    }

    /// The starts of the day to come that differ, and the one of each class that waits; none of a class that starts at once all day.
    fn groups<'t>(&self, starts: &'t [NextStart]) -> (Vec<&'t [f64]>, Vec<Option<usize>>) {
        let mut distinct: Vec<&[f64]> = Vec::new();
        let mut of = |class: &super::DeferClass| {
            let found = starts.iter().find(|start| start.size == class.size && start.runs == class.runs)?;
            let at = distinct.iter().position(|known| *known == found.after_h.as_slice());
            Some(at.unwrap_or_else(|| {
                distinct.push(&found.after_h);
                distinct.len() - 1
            }))
        };
        let groups = self.plan.classes.iter().map(&mut of).collect();
        (distinct, groups)
    }

    fn plan_section(&self) -> Section {
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
        let heading = match (self.verdict, way) {
            (DeferVerdict::Advised, Some(_)) => "Who waits, and the day to come",
            (DeferVerdict::Advised, None) => "Who waits",
            _ => "Who would have waited: not advised",
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

    fn tested(&self) -> Section {
        let costs = self.held_out.by.iter().any(|rule| rule.cost.is_some());
        let mut columns = vec![
            Column::text("Rule"),
            Column::text("How"),
            self.amount_column(),
            Column::number("Saved"),
            Column::number("Beyond all known"),
        ];
        columns.extend(WaitSummary::columns());
        columns.push(Column::text("Target"));
        if costs {
            columns.push(Column::number(format!("{} a month", self.currency.as_deref().unwrap_or("cost"))));
            columns.push(Column::number("Of at once"));
        }
        let mut table = ReportTable::new("Chosen before, told after", columns);
        // Small sites save less than a whole unit.
        let now = self.rule(DeferRule::Now).map_or(0.0, |now| now.amount_per_month.abs());
        let digits = if now < 100.0 { 2 } else { 0 };
        for rule in &self.held_out.by {
            let mut row: Vec<Cell> = vec![
                rule.what.as_str().into(),
                rule.chosen.what.as_str().into(),
                Cell::float(rule.amount_per_month, digits),
                Cell::Percent(1.0 - rule.of_now),
                Cell::Percent(rule.regret),
            ];
            row.extend(rule.waits.cells());
            row.push(if rule.kept { "kept" } else { "missed" }.into());
            if costs {
                row.push(Cell::opt(rule.cost, |cost| Cell::float(cost.per_month, 0)));
                row.push(Cell::opt(rule.cost, |cost| Cell::Percent(cost.of_now)));
            }
            table.rows.push(row);
        }
        Section::new("defer-tested", "What came of it on later windows")
            .with_table(table)
            .with_definition("**The plan** is the better of \"a limit a day\" and \"a table a day\", which are written down at midnight UTC with what is known then: so what is tested is what is emitted. The other ways decide each job by itself, with all that is known when it is submitted.")
            .with_definition("Every rule has the forecast, the percentile and the bounds of each class that saved most on the windows before the split, of those with which the mean wait stayed within the target in both halves of them. **All wait** has one bound for all, and no target.")
            .with_definition("**Wait**: end less submission less run, what resuming costs included. **Worth its wait**: a job waits only if an hour of waiting is expected to save at least so much.")
            .with_definition("Known rules tell what a perfect prediction would be worth, and **all known** is the least that any start within the longest wait comes to; with **free pauses**, the least of all. They cannot be had.")
            .with_definition("GAIA: Hanafy and others, ASPLOS 2024. The two thresholds follow the idea of LACS (Bostandoost and others, 2024), with percentiles of past days in place of its own.")
    }

    fn sizes_section(&self) -> Section {
        let mut columns =
            vec![Column::text("GPUs"), Column::number("Jobs"), Column::number("Of all"), Column::number("Saved")];
        columns.extend(WaitSummary::columns());
        let mut table = ReportTable::new("Later jobs under the plan", columns);
        for size in &self.held_out.sizes {
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
        let mut table = ReportTable::new(
            "Error of forecasts",
            vec![
                Column::text("Forecast"),
                Column::number("Hours ahead"),
                Column::number(format!("Before, {}", self.value_unit())),
                Column::number(format!("After, {}", self.value_unit())),
            ],
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

    fn windows_section(&self) -> Section {
        let rows = self.held_out.windows.iter().flat_map(|window| {
            let shown = window.by.iter().filter(|by| SHOWN.contains(&by.by));
            shown.map(|by| (window.from.as_str(), window.to.as_str(), by.by.in_words(), by.amount, by.mean_wait_s))
        });
        let table = windows_table(&self.unit, rows);
        Section::new("defer-windows", "Window by window").with_table(table)
    }
}
