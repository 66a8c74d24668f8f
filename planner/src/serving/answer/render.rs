//! The answer of `plan serving` as a report.
//!
//! O(rows). Worked example: a share of 0.962 is told as 96.2 %.

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Mark, Report, Section, format};

use super::super::choose::ServingScore;
use super::super::heldout::ServingPolicy;
use super::super::target::seconds_as_asked;
use super::advise::{against, amount};
use super::windows::ServingWindowSum;
use super::{ServingAnswer, ServingBody, ServingFigures, ServingTrial};
use crate::plan::tell;
use crate::plan::trial::RuleOverWindows;

/// Seconds, with as many digits as are told apart.
fn seconds(value: f64) -> Cell {
    Cell::float(value, if value < 1.0 { 3 } else { 2 })
}

/// The answer as a report.
pub fn report(answer: &ServingAnswer) -> Report {
    let (trial, body) = (&answer.trial, &answer.body);
    let is_advised = answer.is_advised();
    let subtitle =
        format!("{} as {} says, decided every {}", body.replica.name, body.table, format::duration(body.slot_s));
    let mut sections = vec![body.tested(trial)];
    sections.extend((!body.beside.is_empty()).then(|| body.beside_section(trial)));
    sections.extend((!body.splits.is_empty()).then(|| body.splits_section(trial)));
    // Where nothing is to be changed there is nothing to set, and no terms to have it on.
    sections.extend(is_advised.then(|| body.ahead_section(trial)));
    sections.extend((!body.sensitivity.is_empty()).then(|| body.sensitivity_section(trial)));
    sections.extend((is_advised && !body.terms.is_empty()).then(|| body.terms_section(trial)));
    sections.push(body.log_section());
    tell::report(answer, ("How many replicas, when, and on which terms?", subtitle), sentences(answer), sections)
}

/// A policy on the later half, in words.
fn told(trial: &ServingTrial, rule: &RuleOverWindows<ServingPolicy, ServingFigures>) -> String {
    let in_time = format::percent(rule.figures.later.attained);
    format!("{} {in_time} in time for {}", rule.words, amount(trial, rule.amount))
}

/// Outcome, in sentences.
fn sentences(answer: &ServingAnswer) -> Vec<String> {
    let (trial, body) = (&answer.trial, &answer.body);
    let (of, is_advised) = (&trial.of, answer.is_advised());
    let mut said: Vec<String> = Vec::new();
    if !is_advised {
        said.push(format!(
            "What runs today stays; the policy “{}” ({}) stands for it here.",
            of.baseline.words, of.baseline.figures.setting
        ));
    }
    said.push(format!(
        "Promised: {} of the requests with their first token within {} and further ones {} apart or less.",
        format::percent(body.target.share),
        seconds_as_asked(body.target.ttft_s),
        seconds_as_asked(body.target.tpot_s)
    ));
    let rows = [
        trial.roles.plan,
        trial.roles.baseline,
        ServingPolicy::Peak,
        ServingPolicy::ReactiveMatched,
        ServingPolicy::Hindsight,
    ];
    let mut rows: Vec<String> = rows.iter().filter_map(|by| Some(told(trial, trial.rule(*by)?))).collect();
    // What was chosen may itself be one of those beside it.
    rows.dedup();
    said.push(format!("On the later half, from {} on: {}.", trial.split, rows.join("; ")));
    // Where nothing keeps the target, it says nothing what one failure costs beside another.
    if of.plan.figures.kept_when_chosen == Some(true) {
        said.push(tell::saved(trial, "chosen setting", &against(trial), ""));
        said.push(format!(
            "No schedule that keeps the target costs less than {}: a bound, which may not be reachable.",
            amount(trial, body.bound_cost)
        ));
        said.extend((is_advised && trial.roles.plan == trial.roles.simplest).then(|| cheaper(trial)));
        let grown = body.sensitivity.iter().filter(|row| row.what.ends_with("more requests"));
        let grown = grown.map(|row| {
            format!("with {}, {} are in time for {}", row.what, format::percent(row.attained), amount(trial, row.cost))
        });
        let grown: Vec<String> = grown.collect();
        said.push(format!("As it was set before the split: {}.", grown.join("; ")));
    }
    said.extend(body.splits_in_words());
    said
}

/// Rules that look at no later request, kept the target on the later half and cost less there than the constant number that is advised, in a sentence.
fn cheaper(trial: &ServingTrial) -> String {
    let known = [ServingPolicy::ReactiveMatched, ServingPolicy::Hindsight];
    let rules = trial.rules.iter().filter(|rule| rule.kept && !known.contains(&rule.id));
    let cheaper: Vec<String> =
        rules.filter(|rule| rule.amount < trial.of.plan.amount).map(|rule| told(trial, rule)).collect();
    if cheaper.is_empty() {
        return "No other rule that knows the past alone kept the target on the later half for less.".to_owned();
    }
    format!(
        "Cheaper on the later half, with the target kept: {}. None of them was chosen before that half was looked at.",
        cheaper.join("; ")
    )
}

impl ServingBody {
    /// In how many windows the promise was kept, where it was asked at several splits.
    fn splits_in_words(&self) -> Option<String> {
        let windows = self.splits.as_slice();
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

    fn tested(&self, trial: &ServingTrial) -> Section {
        let columns = tell::columns(
            "Setting | #In time, earlier | #In time, later | #Replica-hours | #Starts | #Most | #TTFT p50, s | #p95 | #p99 | #TPOT p95, s",
        );
        let series =
            self.curves.iter().map(|(name, points)| ChartSeries::new(name.as_str(), Mark::Line, points.clone()));
        let chart = Chart::xy(
            "serving-replicas",
            "Replicas that were asked for on the later half",
            Axis::linear("Hours since the beginning of the log"),
            Axis::linear("Replicas"),
            series.collect(),
        );
        tell::rules("serving-tested", trial, &format!("the policy “{}”", trial.of.baseline.words), columns, &|rule| {
            let later = &rule.figures.later;
            vec![
                rule.figures.setting.as_str().into(),
                Cell::opt(rule.figures.earlier, |earlier| Cell::Percent(earlier.attained)),
                Cell::Percent(later.attained),
                Cell::float(later.on_demand_h + later.spot_h, 2),
                Cell::Int(later.starts as i64),
                Cell::Int(i64::from(later.most_replicas)),
                seconds(later.ttft_p50_s),
                seconds(later.ttft_p95_s),
                seconds(later.ttft_p99_s),
                seconds(later.tpot_p95_s),
            ]
        })
        .with_chart(chart)
        .with_definition("**In time**: first token and further tokens as promised. A setting keeps the target on the earlier half with half of the misses it allows, also if a fifth more requests came; the earlier half counts from its first fifth on. The cheapest such setting is taken of reactive rules.")
        .with_definition("A constant or a forecast must also be late with no more requests than the reactive rule there, where that kept the target, and cost less. Half of what it saves is spent on safety: the setting with the fewest late is taken that costs no more than the middle between the cheapest and the reactive one. With `--standard target` the cheapest is taken that keeps the target.")
        .with_definition("**Reactive, chosen with hindsight** looks at the later half to find the cheapest reactive setting that serves as many in time as the chosen policy; nobody can set it. Where it is missing, none does.")
        .with_definition("**Best schedule found with hindsight** knows the later requests and takes replicas out one by one while the target is kept; the true optimum lies between the bound and it, and nothing proves it is the least.")
        .with_definition(format!(
                "**Bound**: {} replica-hours of work that whoever keeps the target must do, without whole replicas, starts and waiting for requests.",
                format::float(self.bound_h, 2)
            ))
    }

    fn beside_section(&self, trial: &ServingTrial) -> Section {
        let points = |value: f64| Cell::float(100.0 * value, 2);
        let mut table = tell::table(
            "The chosen policy beside reactive scaling, on the later half",
            "Reactive rule | Target when chosen | #Saved of its cost | #At least | #At most | #More in time, points | #At least | #At most",
        );
        for row in &self.beside {
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
            trial.of.plan.words, trial.interval
        ))
    }

    fn splits_section(&self, trial: &ServingTrial) -> Section {
        let windows = &self.splits;
        let mut table = tell::table(
            "Chosen anew before each window",
            &format!(
                "Chosen until | Chosen | Setting | #In time | #Cost, {} | #Reactive: in time | #Cost | #Defaults of Kubernetes: in time | #Cost",
                trial.unit
            ),
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
            let sum = ServingWindowSum::new(scores.iter().copied());
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

    fn ahead_section(&self, trial: &ServingTrial) -> Section {
        let ahead = &self.ahead;
        let table = tell::values(
            "What the setting is on the whole log",
            &[
                ("Policy", ahead.by.in_words().to_owned()),
                ("Setting", ahead.setting.clone()),
                ("Load of the last ten minutes, replicas at full use", format::float(ahead.load_now, 2)),
                ("Replicas at the end of the log", ahead.replicas_now.to_string()),
                ("Fewest and most on the log", format!("{} and {}", ahead.least, ahead.most)),
                ("Mean on the log", format::float(ahead.mean_replicas, 2)),
                ("Most to allow", ahead.limit.to_string()),
                ("Cost of an hour on the log", amount(trial, ahead.cost_per_h)),
                ("In time on the log", format::percent(ahead.attained)),
            ],
        );
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

    fn sensitivity_section(&self, trial: &ServingTrial) -> Section {
        let mut table = tell::table(
            "The later half otherwise",
            &format!("If | #In time | Target | #Cost, {} | #Against: in time | #Cost", trial.unit),
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
                trial.of.plan.words, trial.of.baseline.words
            ))
    }

    fn terms_section(&self, trial: &ServingTrial) -> Section {
        let mut table = tell::table(
            "On which terms",
            &format!("Terms | #{} a replica-hour | #Break-even use | #Replicas", trial.unit),
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
                "Replicas that are wanted for at least the break-even use of this log, of {}: worth a commitment only if the months to come are like it. `plan rent fleet` chooses commitments from weeks.",
                format::duration(self.log.hours * 3600.0)
            ))
    }

    fn log_section(&self) -> Section {
        let log = &self.log;
        let table = tell::values(
            "What the log holds",
            &[
                ("Requests", format::count(log.requests)),
                ("From", log.from.clone()),
                ("To", log.to.clone()),
                ("Requests a second", format::float(log.requests_per_s, 2)),
                ("Mean input, tokens", format::float(log.mean_input, 0)),
                ("Mean output, tokens", format::float(log.mean_output, 0)),
                ("Mean load, replicas at full use", format::float(log.mean_load, 2)),
                ("Most load of a slot", format::float(log.most_load, 2)),
                (
                    "Rows read, and quarantined",
                    format!("{} and {}", format::count(self.quality.read), format::count(self.quality.quarantined)),
                ),
            ],
        );
        Section::new("serving-log", "What the log holds").with_table(table)
    }
}
