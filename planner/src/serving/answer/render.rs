//! The answer of `plan serving` as a report.
//!
//! O(rows). Worked example: a share of 0.962 is told as 96.2 %.

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, Report, ReportTable, Section, format};

use super::super::choose::ServingScore;
use super::super::heldout::ServingPolicy;
use super::super::target::seconds_as_asked;
use super::windows::ServingWindowSum;
use super::{ServingAnswer, ServingVerdict};

/// Seconds, with as many digits as are told apart.
fn seconds(value: f64) -> Cell {
    Cell::float(value, if value < 1.0 { 3 } else { 2 })
}

impl ServingAnswer {
    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("How many replicas, when, and on which terms? {}", self.title),
            format!("{} as {} says, decided every {}", self.replica.name, self.table, format::duration(self.slot_s)),
        );
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.tested()];
        report.sections.extend((!self.held_out.beside.is_empty()).then(|| self.beside_section()));
        report.sections.extend((!self.held_out.windows.is_empty()).then(|| self.windows_section()));
        // Where nothing is to be changed there is nothing to set, and no terms to have it on.
        report.sections.extend(self.is_advised().then(|| self.ahead_section()));
        report.sections.extend((!self.sensitivity.is_empty()).then(|| self.sensitivity_section()));
        report.sections.extend((self.is_advised() && !self.terms.is_empty()).then(|| self.terms_section()));
        report.sections.push(self.log_section());
        report
    }

    /// The promise in words.
    fn promise(&self) -> String {
        format!(
            "{} of the requests with their first token within {} and further ones {} apart or less",
            format::percent(self.target.share),
            seconds_as_asked(self.target.ttft_s),
            seconds_as_asked(self.target.tpot_s)
        )
    }

    fn summary(&self) -> Vec<String> {
        let held = &self.held_out;
        let mut said = vec![self.action.clone()];
        said.extend(self.standing_in_words());
        said.push(format!("Promised: {}.", self.promise()));
        let told = |by: ServingPolicy| {
            self.policy(by).map(|row| {
                format!(
                    "{} {} in time for {}",
                    row.what,
                    format::percent(row.later.attained),
                    self.amount(row.later.cost)
                )
            })
        };
        let rows =
            [held.best, held.against, ServingPolicy::Peak, ServingPolicy::ReactiveMatched, ServingPolicy::Hindsight];
        let mut told: Vec<String> = rows.into_iter().filter_map(told).collect();
        // What was chosen may itself be one of those beside it.
        told.dedup();
        said.push(format!("On the later half, from {} on: {}.", held.split, told.join("; ")));
        // Where nothing keeps the target, it says nothing what one failure costs beside another.
        if self.verdict == ServingVerdict::NothingKeeps {
            said.extend(self.windows_in_words());
            return said;
        }
        said.push(format!(
            "Of what the policy “{}” cost it saved **{}** ({} to {}, {}). No schedule that keeps the target costs less than {}: a bound, which may not be reachable.",
            held.against.in_words(),
            format::percent(held.saving.value),
            format::percent(held.saving.low),
            format::percent(held.saving.high),
            held.interval,
            self.amount(held.bound_cost)
        ));
        said.extend(self.cheaper_in_words());
        said.push(self.grown_in_words());
        said.extend(self.windows_in_words());
        if let Some(recommendation) = &self.recommendation {
            said.push(format!("Confidence: {}. {}", recommendation.confidence.in_words(), recommendation.risk));
        }
        said
    }

    /// In how many windows the promise was kept, where it was asked at several splits.
    fn windows_in_words(&self) -> Option<String> {
        let windows = self.held_out.windows.as_slice();
        let missed: Vec<String> = windows
            .iter()
            .filter(|row| row.chosen.attained < self.target.share)
            .map(|row| format::percent(row.chosen.attained))
            .collect();
        (!windows.is_empty()).then(|| {
            let kept = windows.len() - missed.len();
            let others = if missed.is_empty() {
                String::new()
            } else {
                format!(" In the others it served {} in time.", format::names(&missed, 9))
            };
            format!("Chosen anew before each of {} windows, it kept the promise in {kept}.{others}", windows.len())
        })
    }

    fn tested(&self) -> Section {
        let mut table = ReportTable::new(
            "Chosen on the earlier half, reported on the later one",
            vec![
                Column::text("Policy"),
                Column::text("Setting"),
                Column::number("In time, earlier"),
                Column::number("In time, later"),
                Column::text("Target"),
                Column::number("Replica-hours"),
                Column::number(format!("Cost, {}", self.unit())),
                Column::number("Starts"),
                Column::number("Most"),
                Column::number("TTFT p50, s"),
                Column::number("p95"),
                Column::number("p99"),
                Column::number("TPOT p95, s"),
            ],
        );
        for row in &self.held_out.by {
            let later = &row.later;
            table.rows.push(vec![
                row.what.as_str().into(),
                row.setting.as_str().into(),
                Cell::opt(row.earlier, |earlier| Cell::Percent(earlier.attained)),
                Cell::Percent(later.attained),
                if row.keeps { "kept" } else { "missed" }.into(),
                Cell::float(later.on_demand_h + later.spot_h, 2),
                Cell::float(later.cost, 2),
                Cell::Int(later.starts as i64),
                Cell::Int(i64::from(later.most_replicas)),
                seconds(later.ttft_p50_s),
                seconds(later.ttft_p95_s),
                seconds(later.ttft_p99_s),
                seconds(later.tpot_p95_s),
            ]);
        }
        let series =
            self.curves.iter().map(|(name, points)| ChartSeries::new(name.as_str(), Mark::Line, points.clone()));
        let chart = Chart::xy(
            "serving-replicas",
            "Replicas that were asked for on the later half",
            Axis::linear("Hours since the beginning of the log"),
            Axis::linear("Replicas"),
            series.collect(),
        );
        Section::new("serving-tested", "What came of it on later requests")
            .with_table(table)
            .with_chart(chart)
            .with_definition("**In time**: first token and further tokens as promised. A setting keeps the target on the earlier half with half of the misses it allows, also if a fifth more requests came; the earlier half counts from its first fifth on. The cheapest such setting is taken of reactive rules.")
            .with_definition("A constant or a forecast must also be late with no more requests than the reactive rule there, where that kept the target, and cost less. Half of what it saves is spent on safety: the setting with the fewest late is taken that costs no more than the middle between the cheapest and the reactive one. With `--standard target` the cheapest is taken that keeps the target.")
            .with_definition("**Reactive, chosen with hindsight** looks at the later half to find the cheapest reactive setting that serves as many in time as the chosen policy; nobody can set it. Where it is missing, none does.")
            .with_definition("**Best schedule found with hindsight** knows the later requests and takes replicas out one by one while the target is kept; the true optimum lies between the bound and it, and nothing proves it is the least.")
            .with_definition(format!(
                "**Bound**: {} replica-hours of work that whoever keeps the target must do, without whole replicas, starts and waiting for requests.",
                format::float(self.held_out.bound_h, 2)
            ))
    }

    fn beside_section(&self) -> Section {
        let held = &self.held_out;
        let points = |value: f64| Cell::float(100.0 * value, 2);
        let mut table = ReportTable::new(
            "The chosen policy beside reactive scaling, on the later half",
            vec![
                Column::text("Reactive rule"),
                Column::text("Target when chosen"),
                Column::number("Saved of its cost"),
                Column::number("At least"),
                Column::number("At most"),
                Column::number("More in time, points"),
                Column::number("At least"),
                Column::number("At most"),
            ],
        );
        for row in &held.beside {
            table.rows.push(vec![
                row.by.in_words().into(),
                if row.kept_when_chosen { "kept" } else { "missed" }.into(),
                Cell::Percent(row.saving.value),
                Cell::Percent(row.saving.low),
                Cell::Percent(row.saving.high),
                points(row.more_in_time.value),
                points(row.more_in_time.low),
                points(row.more_in_time.high),
            ]);
        }
        Section::new("serving-beside", "Beside reactive scaling").with_table(table).with_definition(format!(
            "Chosen: {}. Below 0, it cost more or served fewer in time. At least and at most: {}.",
            held.best.in_words(),
            held.interval
        ))
    }

    fn windows_section(&self) -> Section {
        let windows = &self.held_out.windows;
        let mut table = ReportTable::new(
            "Chosen anew before each window",
            vec![
                Column::text("Chosen until"),
                Column::text("Chosen"),
                Column::text("Setting"),
                Column::number("In time"),
                Column::number(format!("Cost, {}", self.unit())),
                Column::number("Reactive: in time"),
                Column::number("Cost"),
                Column::number("Defaults of Kubernetes: in time"),
                Column::number("Cost"),
            ],
        );
        let of = |score: Option<(f64, f64)>| {
            [Cell::opt(score, |(share, _)| Cell::Percent(share)), Cell::opt(score, |(_, cost)| Cell::float(cost, 2))]
        };
        for row in windows {
            let told = |score: &ServingScore| (score.attained, score.cost);
            let mut cells: Vec<Cell> =
                vec![row.split.as_str().into(), row.best.in_words().into(), row.setting.as_str().into()];
            cells.extend(of(Some(told(&row.chosen))));
            cells.extend(of(row.reactive.as_ref().map(told)));
            cells.extend(of(row.reactive_default.as_ref().map(told)));
            table.rows.push(cells);
        }
        // Sums of fewer windows would look cheaper.
        let sum = |scores: Vec<&ServingScore>| {
            let sum = ServingWindowSum::of(scores.iter().copied());
            of((scores.len() == windows.len() && sum.requests > 0).then(|| (sum.attained(), sum.cost)))
        };
        let mut cells: Vec<Cell> = vec!["all windows".into(), "".into(), "".into()];
        cells.extend(sum(windows.iter().map(|row| &row.chosen).collect()));
        cells.extend(sum(windows.iter().filter_map(|row| row.reactive.as_ref()).collect()));
        cells.extend(sum(windows.iter().filter_map(|row| row.reactive_default.as_ref()).collect()));
        table.rows.push(cells);
        Section::new("serving-windows", "At several splits").with_table(table).with_definition(
            "Everything is chosen anew on all requests before a window, and reported on that window alone. Nothing is chosen after a look at these rows.",
        )
    }

    fn ahead_section(&self) -> Section {
        let ahead = &self.ahead;
        let mut table =
            ReportTable::new("What the setting is on the whole log", vec![Column::text("What"), Column::text("Value")]);
        let mut row = |what: &str, value: String| table.rows.push(vec![what.into(), value.into()]);
        row("Policy", ahead.by.in_words().to_owned());
        row("Setting", ahead.setting.clone());
        row("Load of the last ten minutes, replicas at full use", format::float(ahead.load_now, 2));
        row("Replicas at the end of the log", ahead.replicas_now.to_string());
        row("Fewest and most on the log", format!("{} and {}", ahead.least, ahead.most));
        row("Mean on the log", format::float(ahead.mean_replicas, 2));
        row("Most to allow", ahead.limit.to_string());
        row("Cost of an hour on the log", self.amount(ahead.cost_per_h));
        row("In time on the log", format::percent(ahead.attained));
        Section::new("serving-ahead", "What to set from now on")
            .with_table(table)
            .with_definition("The settings are chosen anew on the whole log, so these figures are of requests that they were chosen on; the later half above says what to expect.")
            .with_definition(format!(
                "**Load**: thousands of input tokens × {} s + requests × {} thousand output tokens × {} s, over the time: the replicas that this keeps busy.",
                format::compact(1000.0 * ahead.load.input_token_s),
                format::float(ahead.load.mean_output / 1000.0, 3),
                format::compact(1000.0 * ahead.load.output_token_s)
            ))
    }

    fn sensitivity_section(&self) -> Section {
        let mut table = ReportTable::new(
            "The later half otherwise",
            vec![
                Column::text("If"),
                Column::number("In time"),
                Column::text("Target"),
                Column::number(format!("Cost, {}", self.unit())),
                Column::number("Against: in time"),
                Column::number("Cost"),
            ],
        );
        for row in &self.sensitivity {
            table.rows.push(vec![
                row.what.as_str().into(),
                Cell::Percent(row.attained),
                if row.keeps { "kept" } else { "missed" }.into(),
                Cell::float(row.cost, 2),
                Cell::Percent(row.against_attained),
                Cell::float(row.against_cost, 2),
            ]);
        }
        Section::new("serving-sensitivity", "What if starts, demand or the target were others")
            .with_table(table)
            .with_definition(format!(
                "Settings stay as they were chosen on the earlier half: {}, against {}.",
                self.held_out.best.in_words(),
                self.held_out.against.in_words()
            ))
    }

    fn terms_section(&self) -> Section {
        let mut table = ReportTable::new(
            "On which terms",
            vec![
                Column::text("Terms"),
                Column::number(format!("{} a replica-hour", self.unit())),
                Column::number("Break-even use"),
                Column::number("Replicas"),
            ],
        );
        for row in &self.terms {
            table.rows.push(vec![
                row.months
                    .map_or_else(
                        || "on demand, at most".to_owned(),
                        |months| format!("{} months", format::compact(months)),
                    )
                    .into(),
                Cell::float(row.price_per_h, 3),
                Cell::Percent(row.break_even),
                Cell::Int(i64::from(row.replicas)),
            ]);
        }
        Section::new("serving-terms", "On which terms")
            .with_table(table)
            .with_definition(format!(
                "Replicas that are wanted for at least the break-even use of this log, of {}: worth a commitment only if the months to come are like it. `plan fleet` chooses commitments from weeks.",
                format::duration(self.log.hours * 3600.0)
            ))
    }

    fn log_section(&self) -> Section {
        let log = &self.log;
        let mut table = ReportTable::new("What the log holds", vec![Column::text("What"), Column::text("Value")]);
        let mut row = |what: &str, value: String| table.rows.push(vec![what.into(), value.into()]);
        row("Requests", format::count(log.requests));
        row("From", log.from.clone());
        row("To", log.to.clone());
        row("Requests a second", format::float(log.requests_per_s, 2));
        row("Mean input, tokens", format::float(log.mean_input, 0));
        row("Mean output, tokens", format::float(log.mean_output, 0));
        row("Mean load, replicas at full use", format::float(log.mean_load, 2));
        row("Most load of a slot", format::float(log.most_load, 2));
        row(
            "Rows read, and quarantined",
            format!("{} and {}", format::count(self.quality.read), format::count(self.quality.quarantined)),
        );
        Section::new("serving-log", "What the log holds").with_table(table)
    }
}
