//! The answer of a back-test of durations: how each model did on jobs it had not seen, and what that is worth in the queue.
//!
//! [`tracecast_predictors::duration::backtest`] predicts and scores, [`downstream`](crate::downstream) replays. Here both become one JSON
//! (`backtest-duration/1`) and one report. Worked example: a model with pinball loss 0.21 at 10 % where `running_mean` has 0.33 shows 0.64 in
//! the column `p10 loss`.

use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, BarLayout, BarSeries, Chart, ChartSeries, Mark};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};
use tracecast_analytics::time::Zone;
use tracecast_predictors::duration::backtest::{Backtest, ModelScore, Part, Refusal, Span, UnderDrawnWaits};
use tracecast_predictors::duration::forecast::Model;
use tracecast_predictors::score::{Pinball, Score};

use crate::downstream::{Downstream, FEWEST, FIFO, LengthMeasure, ORACLE, QueueOutcome};

/// Version of the JSON.
pub const SCHEMA: &str = "backtest-duration/1";

/// A back-test of durations, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Answer")]
pub struct BacktestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// What a reader must know of the data.
    pub notes: Vec<String>,
    /// IANA name of the trace's zone, in which the report tells times.
    pub zone: String,
    /// Scores.
    #[serde(flatten)]
    pub backtest: Backtest,
    /// The scores with waits drawn in place of assumed starts, where most starts are assumed.
    pub drawn_waits: Option<UnderDrawnWaits>,
    /// Waits, if nodes were given or are known.
    pub downstream: Option<Downstream>,
}

/// The JSON Schema of [`BacktestAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(BacktestAnswer).to_value()
}

/// Losses at 10, 50 and 90 % as shares of the running mean's, and the shares of runs in the 80 and 90 % intervals.
fn losses(score: &Score, base: Pinball) -> [Cell; 5] {
    [
        Cell::float(score.pinball.p10 / base.p10, 3),
        Cell::float(score.pinball.p50 / base.p50, 3),
        Cell::float(score.pinball.p90 / base.p90, 3),
        Cell::share(score.coverage80),
        Cell::share(score.coverage90),
    ]
}

impl BacktestAnswer {
    fn span(&self, span: &Span) -> String {
        let zone = Zone::named(&self.zone).unwrap_or_else(|_| Zone::utc());
        let day = |ms: i64| zone.show(ms).chars().take("2017-10-03".len()).collect::<String>();
        format!(
            "{} jobs, {} to {} ({})",
            format::count(span.jobs as u64),
            day(span.from_ms),
            day(span.to_ms),
            zone.name()
        )
    }

    fn chosen(&self) -> Option<&ModelScore> {
        self.backtest.models.iter().find(|model| model.name == self.backtest.chosen)
    }

    fn base(&self) -> Option<&ModelScore> {
        self.backtest
            .models
            .iter()
            .find(|model| model.name == Model::RunningMean.name())
            .or(self.backtest.models.first())
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "How long jobs run: a back-test of predictions");
        report.notes.clone_from(&self.notes);
        if !self.backtest.held {
            report.notes.push("No model's intervals held on the jobs to choose on while it was no worse than the running mean. The running mean is named for want of a better; do not rely on its intervals.".to_owned());
        }
        if let (Some(chosen), Some(base)) = (self.chosen(), self.base()) {
            report.summary.push(format!(
                "**{}** was chosen on earlier jobs. On the {} jobs after them its order agrees with the true one at Spearman {:.3} ({:.3} for the running mean), {} of its medians are within a factor of two, and its 80 % interval holds {} of the runs.",
                chosen.name,
                format::count(chosen.score.jobs as u64),
                chosen.score.spearman,
                base.score.spearman,
                format::percent(chosen.score.within_2x),
                format::percent(chosen.score.coverage80),
            ));
        }
        if let Some(drawn) = &self.drawn_waits {
            report.summary.extend(self.drawn_sentence(drawn));
        }
        report.sections = vec![self.models(), self.classes()];
        if let Some(drawn) = &self.drawn_waits {
            report.sections.push(self.drawn(drawn));
        }
        if let Some(downstream) = &self.downstream {
            report.summary.extend(sentence(downstream, self.backtest.ranked_at));
            report.sections.push(queue(downstream, self.backtest.ranked_at));
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    /// The score of the model chosen, or of what stands in for it, under drawn waits.
    fn drawn_sentence(&self, drawn: &UnderDrawnWaits) -> Option<String> {
        let redrawn = drawn.models.last()?;
        let before = self.backtest.models.iter().find(|model| model.name == redrawn.name)?;
        Some(format!(
            "Most starts of this trace are not recorded: {} jobs are taken to have started when they were submitted, so that their ends teach too early. With waits drawn from the {} that are recorded (mean {}), {} has Spearman {:.3} instead of {:.3}.",
            format::count(drawn.waits.drawn as u64),
            format::count(drawn.waits.known as u64),
            format::duration(drawn.waits.mean_s),
            redrawn.name,
            redrawn.score.spearman,
            before.score.spearman
        ))
    }

    fn drawn(&self, drawn: &UnderDrawnWaits) -> Section {
        let columns = vec![
            Column::text("Model"),
            Column::text("Starts"),
            Column::number("Spearman"),
            Column::number("R²"),
            Column::number("p10 loss"),
            Column::number("p50 loss"),
            Column::number("p90 loss"),
            Column::number("In 80 %"),
            Column::number("In 90 %"),
        ];
        let mut table = ReportTable::new("Scores with and without waits", columns);
        let row = |starts: &str, model: &ModelScore, base: &ModelScore| -> Vec<Cell> {
            let score = &model.score;
            let mut cells: Vec<Cell> = vec![
                model.name.as_str().into(),
                starts.into(),
                Cell::float(score.spearman, 3),
                Cell::float(score.r2, 3),
            ];
            cells.extend(losses(score, base.score.pinball));
            cells
        };
        for redrawn in &drawn.models {
            let before = self.backtest.models.iter().find(|model| model.name == redrawn.name);
            if let (Some(before), Some(base)) = (before, self.base()) {
                table.rows.push(row("assumed", before, base));
            }
            if let Some(base) = drawn.models.first() {
                table.rows.push(row("drawn", redrawn, base));
            }
        }
        Section::new("drawn-waits", "If jobs had waited")
            .with_finding(format!(
                "{} jobs get a wait drawn from the {} that are recorded; mean {}, median {}.",
                format::count(drawn.waits.drawn as u64),
                format::count(drawn.waits.known as u64),
                format::duration(drawn.waits.mean_s),
                format::duration(drawn.waits.median_s)
            ))
            .with_table(table)
            .with_definition("A job without a recorded start is taken to start when it is submitted. It then ends too early by its wait, and a model learns of it too early. Drawn waits are those of jobs of the same size class, by a seed; runs stay as they are.")
    }

    fn models(&self) -> Section {
        let test = &self.backtest;
        let mut table = ReportTable::new(
            "Scores on the jobs reported",
            vec![
                Column::text("Model"),
                Column::number("Spearman"),
                Column::number("Kendall"),
                Column::number("R²"),
                Column::number("p10 loss"),
                Column::number("p50 loss"),
                Column::number("p90 loss"),
                Column::number("In 80 %"),
                Column::number("In 90 %"),
                Column::number("80 % ends"),
                Column::number("Within 2×"),
                Column::number("p90 > limit"),
                Column::text("Not chosen as"),
            ],
        );
        for model in &test.models {
            let score = &model.score;
            let base = self.base().map_or(score.pinball, |base| base.score.pinball);
            let name = if model.name == test.chosen { format!("{} (chosen)", model.name) } else { model.name.clone() };
            let mut cells = vec![
                name.into(),
                Cell::float(score.spearman, 3),
                Cell::float(score.kendall, 3),
                Cell::float(score.r2, 3),
            ];
            cells.extend(losses(score, base));
            cells.extend([
                Cell::float(score.width80, 1),
                Cell::share(score.within_2x),
                Cell::opt(model.p90_beyond_limit, Cell::share),
                match model.refused {
                    None => "",
                    Some(Refusal::NoInterval) => "no interval",
                    Some(Refusal::Coverage) => "coverage",
                    Some(Refusal::ShortHistory) => "short history",
                    Some(Refusal::WorseThanRunningMean) => "worse than running_mean",
                }
                .into(),
            ]);
            table.rows.push(cells);
        }
        table.note = Some("p10, p50 and p90 loss: pinball losses as shares of the running mean's, below 1 is better. R²: of log runs. 80 % ends: upper over lower end of the interval, at the median. p90 > limit: share of the jobs with a time limit whose 90 % quantile is beyond it. Not chosen as: its intervals fell short of 80 or 90 % by more than 5 points and chance on the jobs to choose on, or most of them were wide for want of ended jobs, or its p50 or p90 loss there was above the running mean's.".to_owned());
        let made_of: Vec<String> =
            test.ensemble.iter().map(|member| format!("{:.1} {}", member.weight, member.model.name())).collect();
        let base = self.base().map_or(0.0, |base| base.score.pinball.p50);
        let share = |model: &ModelScore| (base > 0.0).then(|| model.score.pinball.p50 / base);
        let losses = Chart::rows(
            "loss-by-model",
            "Loss of the predicted median, as a share of the running mean's",
            Axis { min: Some(0.0), ..Axis::linear("Share of the running mean's loss").as_percent() },
            BarLayout::Grouped,
            test.models.iter().map(|model| model.name.clone()).collect(),
            vec![BarSeries::new("loss", test.models.iter().map(share).collect())],
        )
        .with_reading("Shorter is better; under 100 % is better than the running mean of the same user and queue.");
        let mut section = Section::new("models", "Which model predicts best")
            .with_finding(format!(
                "**{}** had the least pinball loss on the jobs to choose on{}; all figures are of later jobs.",
                test.chosen,
                if test.held { ", of the models whose intervals held there" } else { ", but no model's intervals held there" }
            ))
            .with_chart(losses)
            .with_table(table)
            .with_coverage(format!(
                "{} fits. Learned only: {}. Chosen on: {}. Reported: {}, of which {} never ran or never ended and are not scored.",
                test.fits,
                self.span(&test.taught),
                self.span(&test.chosen_on),
                self.span(&test.reported),
                format::count(test.unscored as u64)
            ));
        if !made_of.is_empty() {
            section = section.with_text(format!("The ensemble is {}.", made_of.join(" + ")));
        }
        section
            .with_definition("Spearman: correlation of the ranks of predicted and true runs, 1 if the order is right; Kendall: share of pairs in the right order less that in the wrong one. The ensemble averages the models' quantiles with weights chosen on the jobs to choose on.")
            .with_definition("Pinball loss of a quantile q of level a: a (y − q) above it, (1 − a)(q − y) below, with y the natural log of the run.")
            .with_definition("Every model is fitted at the start of each period on what had ended by then, and predicts the jobs submitted in it, each from what was known at its submission.")
    }

    fn classes(&self) -> Section {
        let mut section = Section::new("classes", "For whom the intervals hold");
        let Some(chosen) = self.chosen() else { return section };
        let worst = chosen.by_size.iter().map(|part| (part.score.coverage80 - 0.8).abs()).fold(0.0, f64::max);
        section = section.with_finding(format!(
            "The 80 % interval of {} holds {} of the runs; no size is farther than {:.1} points from 80 %. {} of the intervals are wide because fewer than 50 jobs had ended to calibrate them.",
            chosen.name,
            format::percent(chosen.score.coverage80),
            100.0 * worst,
            format::count(chosen.short_history as u64)
        ));
        let table = |title: &str, parts: &[Part]| {
            let columns = vec![
                Column::text("Jobs"),
                Column::number("Number"),
                Column::number("Spearman"),
                Column::number("In 80 %"),
                Column::number("In 90 %"),
                Column::number("80 % ends"),
                Column::number("Within 2×"),
            ];
            let mut table = ReportTable::new(title, columns);
            for part in parts {
                let score = &part.score;
                table.rows.push(vec![
                    part.class.as_str().into(),
                    Cell::Int(score.jobs as i64),
                    Cell::float(score.spearman, 3),
                    Cell::share(score.coverage80),
                    Cell::share(score.coverage90),
                    Cell::float(score.width80, 1),
                    Cell::share(score.within_2x),
                ]);
            }
            table
        };
        let of = |name: &str, share: fn(&Score) -> f64| {
            BarSeries::new(name, chosen.by_size.iter().map(|part| Some(share(&part.score))).collect())
        };
        let coverage = Chart::bars(
            "coverage-by-size",
            "Share of the runs that intervals hold, by size",
            Axis::share("Runs held"),
            BarLayout::Grouped,
            chosen.by_size.iter().map(|part| part.class.clone()).collect(),
            vec![of("80 % promised", |score| score.coverage80), of("90 % promised", |score| score.coverage90)],
        )
        .with_reading("A bar lower than its promise is a size whose intervals are too narrow; a higher one, too wide.");
        section
            .with_chart(coverage)
            .with_table(table(&format!("{} by size", chosen.name), &chosen.by_size))
            .with_table(table(&format!("{} by what was known of like jobs", chosen.name), &chosen.by_history))
    }
}

/// What the order that is handed out (`predicted_duration_s`) did, and the best aged one whose tail is no longer than FIFO's. The latter is
/// picked from the table afterwards, and said to be.
fn sentence(downstream: &Downstream, ranked_at: f64) -> Vec<String> {
    let mut said = Vec::new();
    // Nothing of this is worth more than its queue.
    if let Some(fidelity) = downstream.fidelity.as_ref() {
        said.push(if fidelity.is_close() {
            format!("The queue is that of FIFO as it is replayed here. {}", fidelity.sentence())
        } else {
            format!("**The queue is that of FIFO as it is replayed here.** {}", fidelity.sentence())
        });
    }
    let handed_out = |outcome: &&QueueOutcome| outcome.measure == Some(LengthMeasure::Ranked) && !outcome.ages();
    if let Some(outcome) = downstream.outcomes.iter().find(handed_out)
        && let (Some(gap), Some(tail)) = (outcome.gap_closed, outcome.p95_of_fifo)
    {
        said.push(format!(
            "Ordering the queue by the predicted {} quantiles (the level that ordered the jobs to choose on best) closes **{}** of the gap in mean wait from the fewest GPUs first to true durations, with a 95 % quantile of waits {tail:.2} times FIFO's.",
            format::percent(ranked_at),
            format::percent(gap),
        ));
    }
    if downstream.outcomes.iter().all(|outcome| outcome.gap_closed.is_none()) {
        said.push(
            "There is no gap to close: the fewest GPUs first, which needs no prediction, waits no longer on average than QSSF on true durations."
                .to_owned(),
        );
    }
    said.extend(chosen_in_words(downstream));
    if let Some((gap, outcome)) = best_with_hindsight(downstream).and_then(|best| Some((best.gap_closed?, best))) {
        said.push(format!(
            "Of the {} orders by predictions that stop no job, the best whose 95 % quantile is no longer than FIFO's closes {} ({}); it is picked with hindsight.",
            format::count(by_predictions(downstream).count() as u64),
            format::percent(gap),
            named(outcome)
        ));
    }
    said
}

/// Orders that go by predictions and stop no job.
fn by_predictions(downstream: &Downstream) -> impl Iterator<Item = &QueueOutcome> {
    downstream.outcomes.iter().filter(|outcome| outcome.model.is_some() && !outcome.preempts && !outcome.oracle)
}

/// Of these the one with the shortest mean wait whose 95 % quantile is no longer than FIFO's, seen with hindsight.
fn best_with_hindsight(downstream: &Downstream) -> Option<&QueueOutcome> {
    by_predictions(downstream)
        .filter(|outcome| outcome.p95_of_fifo.is_some_and(|tail| tail <= 1.0))
        .min_by(|a, b| a.mean_wait_s.total_cmp(&b.mean_wait_s))
}

/// The rows to read first: what needs no prediction, what was chosen beforehand, the best with hindsight, and the oracle.
fn in_short(downstream: &Downstream) -> ReportTable {
    let mut table = ReportTable::new(
        "In short",
        vec![
            Column::text("Order"),
            Column::text("Which"),
            Column::number("Mean wait"),
            Column::number("95 % wait under"),
            Column::number("95 % over FIFO's"),
        ],
    );
    let of = |name: &str| downstream.outcomes.iter().find(|outcome| outcome.order == name);
    let chosen = downstream.outcomes.iter().find(|outcome| outcome.chosen_before && outcome.ages());
    let rows = [
        ("first come, first served", of(FIFO)),
        ("needs no prediction", of(FEWEST)),
        ("chosen beforehand", chosen),
        ("best by predictions, with hindsight", best_with_hindsight(downstream)),
        ("knows true durations", of(ORACLE)),
    ];
    for (which, outcome) in rows.into_iter().filter_map(|(which, outcome)| Some((which, outcome?))) {
        table.rows.push(vec![
            named(outcome).into(),
            which.into(),
            Cell::Duration(outcome.mean_wait_s),
            Cell::Duration(outcome.p95_wait_s),
            Cell::opt(outcome.p95_of_fifo, |value| Cell::Float { value, digits: 2 }),
        ]);
    }
    table
}

/// What the order did that was chosen on an earlier replay, beside FIFO and what needs no prediction; `None` where none was chosen, or FIFO has no tail.
fn chosen_in_words(downstream: &Downstream) -> Option<String> {
    let of = |order: &str| downstream.outcomes.iter().find(|outcome| outcome.order == order);
    let chosen = downstream.outcomes.iter().find(|outcome| outcome.chosen_before)?;
    let tail = chosen.p95_of_fifo?;
    if !chosen.ages() {
        return Some(
            "On as long a time before, no order that ages waited less than FIFO on average without a longer 95 % quantile, so **FIFO** is what would have been chosen."
                .to_owned(),
        );
    }
    let less = |outcome: &QueueOutcome| outcome.order == chosen.order && outcome.tau() < chosen.tau();
    let why = if downstream.outcomes.iter().any(less) {
        "a step back from the best whose tail was no longer than FIFO's there"
    } else {
        "with the least ageing tried, as the best whose tail was no longer than FIFO's there aged no more than one step further"
    };
    let own = chosen.before.and_then(|before| before.p95_of_fifo).filter(|tail| *tail > 1.0);
    let own = own.map_or_else(String::new, |tail| format!("; its own tail there was {tail:.2} times FIFO's"));
    let closes = chosen.gap_closed.map(|gap| format!("; it closes **{}** of the gap", format::percent(gap)));
    let simpler = of(FEWEST).filter(|fewest| fewest.mean_wait_s <= chosen.mean_wait_s).map(|fewest| {
        let tail = fewest.p95_of_fifo.map(|tail| format!(", with a 95 % quantile {tail:.2} times FIFO's"));
        format!(
            " **The fewest GPUs first, which needs no prediction, waits no longer**: {}{}.",
            format::duration(fewest.mean_wait_s),
            tail.unwrap_or_default()
        )
    });
    Some(format!(
        "The order chosen on as long a time before ({}: {why}{own}) waits {} on average where FIFO waits {}, with a 95 % quantile {tail:.2} times FIFO's{}.{}",
        named(chosen),
        format::duration(chosen.mean_wait_s),
        of(FIFO).map_or_else(String::new, |fifo| format::duration(fifo.mean_wait_s)),
        closes.unwrap_or_default(),
        simpler.unwrap_or_default()
    ))
}

/// An order with its τ.
fn named(outcome: &QueueOutcome) -> String {
    match ageing(outcome) {
        Some(ageing) => format!("{}, τ = {ageing}", outcome.order),
        None => outcome.order.clone(),
    }
}

/// What an order ages by.
fn ageing(outcome: &QueueOutcome) -> Option<String> {
    let of_wait = |share: f64| format!("{share} × longest wait");
    outcome.ageing_s.map(format::duration).or_else(|| outcome.ageing_share.map(of_wait))
}

/// The orders that the table shows. Of those that age by predictions, the kind that was chosen, with every τ; where none was chosen, the measure that is handed out. All others, but for a quantile of the very level that is handed
/// out: it is the same order.
fn shown(downstream: &Downstream, ranked_at: f64) -> Vec<&QueueOutcome> {
    let chosen = downstream.outcomes.iter().find(|outcome| outcome.chosen_before && outcome.ages());
    let is_handed_out = |outcome: &QueueOutcome| outcome.measure == Some(LengthMeasure::Ranked);
    let is_there_twice = |outcome: &QueueOutcome| {
        let same = |other: &QueueOutcome| is_handed_out(other) && other.model == outcome.model;
        outcome.measure.and_then(LengthMeasure::level) == Some(ranked_at) && downstream.outcomes.iter().any(same)
    };
    let shows = |outcome: &&QueueOutcome| match (outcome.ages() && !outcome.oracle, chosen) {
        (true, Some(chosen)) => outcome.order == chosen.order,
        (true, None) => is_handed_out(outcome),
        (false, _) => !is_there_twice(outcome),
    };
    downstream.outcomes.iter().filter(shows).collect()
}

fn queue(downstream: &Downstream, ranked_at: f64) -> Section {
    let mut table = ReportTable::new(
        "Waits under each order",
        vec![
            Column::text("Order"),
            Column::text("τ"),
            Column::number("Mean wait"),
            Column::number("95 % wait under"),
            Column::number("Gap closed"),
            Column::number("95 % over FIFO's"),
        ],
    );
    let tried_before = downstream.outcomes.iter().any(|outcome| outcome.before.is_some());
    if tried_before {
        table.columns.extend([Column::number("Mean wait before"), Column::number("95 % over FIFO's before")]);
    }
    let ratio = |value: f64| Cell::Float { value, digits: 2 };
    let shown = shown(downstream, ranked_at);
    for outcome in &shown {
        let chosen = if outcome.chosen_before { " (chosen before)" } else { "" };
        let mut row = vec![
            format!("{}{chosen}", outcome.order).into(),
            ageing(outcome).unwrap_or_default().into(),
            Cell::Duration(outcome.mean_wait_s),
            Cell::Duration(outcome.p95_wait_s),
            Cell::opt(outcome.gap_closed, Cell::Percent),
            Cell::opt(outcome.p95_of_fifo, ratio),
        ];
        if tried_before {
            row.push(Cell::opt(outcome.before, |before| Cell::Duration(before.mean_wait_s)));
            row.push(Cell::opt(outcome.before.and_then(|before| before.p95_of_fifo), ratio));
        }
        table.rows.push(row);
    }
    let hours = |outcome: &QueueOutcome| (outcome.mean_wait_s / 3600.0, outcome.p95_wait_s / 3600.0);
    let points = |keep: &dyn Fn(&QueueOutcome) -> bool| {
        let mut points: Vec<(f64, f64)> =
            downstream.outcomes.iter().filter(|outcome| keep(outcome)).map(hours).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let aged = |outcome: &QueueOutcome| outcome.ages();
    let alike = |outcome: &QueueOutcome| outcome.ageing_share.is_some();
    let series = vec![
        ChartSeries::new("by jobs alike", Mark::Points, points(&|outcome| alike(outcome) && !outcome.oracle)),
        ChartSeries::new(
            "aged, predicted",
            Mark::Points,
            points(&|outcome| aged(outcome) && !alike(outcome) && !outcome.oracle),
        ),
        ChartSeries::new(
            "not aged",
            Mark::Points,
            points(&|outcome| !aged(outcome) && !outcome.oracle && !outcome.preempts),
        ),
        ChartSeries::new("aged, true durations", Mark::Points, points(&|outcome| aged(outcome) && outcome.oracle)),
    ];
    let chart = Chart::xy(
        "frontier",
        "Mean wait against the 95 % quantile",
        Axis::linear("Mean wait (h)"),
        Axis::linear("95 % quantile of waits (h)"),
        series,
    )
    .with_reading("Each point is an order. Left is better for most jobs, below is better for those that wait longest.");
    let finding = format!(
        "{} replayed, {} of them with a prediction made from what had ended before.",
        format::counted(downstream.jobs as u64, "job", "jobs"),
        format::count(downstream.predicted as u64)
    );
    let before = "Before: in a replay of as long a time before, on which the order that ages is chosen.";
    let others = downstream.outcomes.len() - shown.len();
    let others = (others > 0).then(|| {
        format!(
            "{} by other measures of the same predictions, most of them with ageing, are points of the chart and stand in `outcomes` of the JSON.",
            format::counted(others as u64, "order", "orders")
        )
    });
    let notes: Vec<String> = tried_before.then(|| before.to_owned()).into_iter().chain(others).collect();
    table.note = (!notes.is_empty()).then(|| notes.join(" "));
    Section::new("queue", "What predictions are worth in the queue")
        .with_finding(finding)
        .with_table(in_short(downstream))
        .with_chart(chart)
        .with_table(table)
        .with_definition(format!(
            "Measures of what a job is predicted to run. Mean of logs: e to the mean logarithm. Mean within a day: the mean of the runs cut off at a day. Quantile chosen on earlier jobs: that of {}, which `predict` hands out as predicted_duration_s.",
            format::percent(ranked_at)
        ))
        .with_definition("Gap closed: (mean wait of the fewest GPUs first − that of the order) / (the same − that of QSSF on true durations).")
        .with_definition("Aged: first the least τ · ln(expected GPU-seconds) + submission; τ = 0 is FIFO. The key stands from submission on.")
        .with_definition("By jobs alike: the same, with an expected run that goes by the jobs of the same VC, user and GPUs that were submitted within half an hour and have ended since, and with a τ that is a share of the longest wait in the pool at the moment. With --compat helios these orders are replayed without it, as that simulator does not know them.")
        .with_definition(format!(
            "γ-boost: first the least submission less a boost, which is longer for shorter jobs (arXiv 2404.08826). Its one setting comes from what ended before; {} of {} have one, and in the others the order is that of submission.",
            format::count(downstream.pools_with_gamma as u64),
            format::counted(downstream.pools as u64, "pool", "pools")
        ))
        .with_definition("Preemptive orders are another kind of cluster (jobs are stopped and started again at a cost of 7, 30 or 60 s) and stand apart.")
}

#[cfg(test)]
mod tests {
    use tracecast_analytics::report::Block;

    use super::*;

    fn outcome(order: &str, measure: Option<LengthMeasure>, ageing_s: Option<f64>) -> QueueOutcome {
        QueueOutcome {
            order: order.to_owned(),
            mean_wait_s: 0.0,
            p95_wait_s: 0.0,
            gap_closed: None,
            p95_of_fifo: None,
            model: measure.map(|_| "m".to_owned()),
            measure,
            ageing_s,
            ageing_share: None,
            chosen_before: false,
            before: None,
            oracle: false,
            preempts: false,
        }
    }

    /// Found by a newcomer: a table of a hundred orders, of which some were the same.
    #[test]
    fn the_table_shows_the_orders_of_the_choice() {
        use LengthMeasure::{Mean, Ranked, Upper};
        let mut outcomes = vec![outcome(FIFO, None, None)];
        for (name, measure) in [("mean", Mean), ("80 %", Upper), ("ranked", Ranked)] {
            outcomes.push(outcome(name, Some(measure), None));
            outcomes.extend([1.0, 2.0].map(|tau| outcome(&format!("aged, {name}"), Some(measure), Some(tau))));
        }
        outcomes.push(QueueOutcome { oracle: true, ..outcome("aged, true", None, Some(1.0)) });
        let mut downstream =
            Downstream { jobs: 0, predicted: 0, pools: 0, pools_with_gamma: 0, fidelity: None, outcomes };
        let told = |of: &Downstream, ranked_at: f64| -> Vec<String> {
            shown(of, ranked_at).into_iter().map(|outcome| outcome.order.clone()).collect()
        };
        let of_ranked = ["aged, ranked", "aged, ranked", "aged, true"];
        assert_eq!(told(&downstream, 0.7), [[FIFO, "mean", "80 %", "ranked"].as_slice(), &of_ranked].concat());
        // The 80 % quantile is what is handed out.
        assert_eq!(told(&downstream, 0.8), [[FIFO, "mean", "ranked"].as_slice(), &of_ranked].concat());
        // The second of the orders by the mean was chosen.
        downstream.outcomes[3].chosen_before = true;
        let of_mean = ["mean", "aged, mean", "aged, mean"];
        assert_eq!(told(&downstream, 0.8), [[FIFO].as_slice(), &of_mean, &["ranked", "aged, true"]].concat());
        let section = queue(&downstream, 0.8);
        let tables = section.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => table.note.clone(),
            _ => None,
        });
        let notes: Vec<String> = tables.collect();
        assert!(notes.iter().any(|note| note.contains("5 orders by other measures")), "{notes:?}");
    }

    /// Found by a newcomer: the best of all orders that were tried was told of those that age alone, and better ones stood in its own table.
    #[test]
    fn the_best_with_hindsight_is_the_best_of_all_that_go_by_predictions() {
        let of = |order: &str, mean_wait_s: f64, tail: f64, model: bool| QueueOutcome {
            mean_wait_s,
            p95_of_fifo: Some(tail),
            model: model.then(|| "m".to_owned()),
            ..outcome(order, None, None)
        };
        let outcomes = vec![
            of(FIFO, 100.0, 1.0, false),
            of(FEWEST, 10.0, 0.5, false),
            QueueOutcome { ageing_s: Some(1.0), ..of("aged", 60.0, 0.8, true) },
            of("QSSF", 40.0, 0.9, true),
            of("bold", 20.0, 1.1, true),
            QueueOutcome { preempts: true, ..of("stops jobs", 5.0, 0.1, true) },
        ];
        let downstream = Downstream { jobs: 0, predicted: 0, pools: 0, pools_with_gamma: 0, fidelity: None, outcomes };
        assert_eq!(best_with_hindsight(&downstream).map(|best| best.order.as_str()), Some("QSSF"));
        let short = in_short(&downstream);
        assert_eq!(short.rows.len(), 3, "{short:?}");
    }
}
