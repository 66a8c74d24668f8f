//! The answer of a back-test of durations: how each model did on jobs it had not seen, and what that is worth in the queue.
//!
//! [`tracecast_predictors::duration::backtest`] predicts and scores, [`downstream`](crate::downstream) replays. Here both become one JSON
//! (`model-backtest-duration/1`) and one report. Beside the model chosen stands the best simple
//! rule, chosen on the same jobs. Worked example: a model with pinball loss 0.21
//! at 10 % where that rule has 0.33 shows 0.64 in the column `p10 loss`.

mod queue;

use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, BarLayout, BarSeries, Chart};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};
use tracecast_analytics::time::Zone;
use tracecast_predictors::duration::backtest::{
    Backtest, ENOUGH_DAYS, ModelScore, Part, Refusal, Span, UnderDrawnWaits,
};
use tracecast_predictors::score::{Pinball, Score};

use crate::downstream::Downstream;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-duration/1";

/// A back-test of durations, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Answer")]
pub struct BacktestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// What a reader must know before any figure: that the record is too short to trust intervals, or how much of the GPU time was left out.
    pub cautions: Vec<String>,
    /// Notes on the data, cautions included.
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

/// Losses at 10, 50 and 90 % as shares of the best simple rule's, and the shares of runs in the 80 and 90 % intervals.
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

    /// The best simple rule, which others are compared with.
    fn base(&self) -> Option<&ModelScore> {
        let simple = self.backtest.models.iter().find(|model| model.name == self.backtest.simple);
        simple.or(self.backtest.models.first())
    }

    /// Whether the intervals of the model chosen are to be relied upon, if they are not.
    fn not_to_be_relied_upon(&self) -> Option<String> {
        let test = &self.backtest;
        let chosen = &self.chosen()?.score;
        let held = format!(
            "on the jobs reported, the 80 % interval of {} held {} of the runs and the 90 % interval {}",
            test.chosen,
            format::percent(chosen.coverage80),
            format::percent(chosen.coverage90)
        );
        match (test.held_when_chosen, test.held) {
            (_, true) => None,
            (false, false) => Some(format!(
                "**No model had intervals that held on the jobs to choose on while it was no worse than the running mean; do not rely on intervals here.** The best simple rule, {}, is named for want of a better: {held}.",
                test.simple
            )),
            (true, false) if self.cautions.is_empty() || test.record_days >= ENOUGH_DAYS => Some(format!(
                "**Do not rely on the intervals**: {held}, though they held on the jobs it was chosen on."
            )),
            // A caution says it.
            (true, false) => None,
        }
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "How long jobs run: a back-test of predictions");
        report.notes.clone_from(&self.notes);
        report.summary.extend(self.cautions.iter().map(|caution| format!("**{caution}**")));
        report.summary.extend(self.not_to_be_relied_upon());
        if let (Some(chosen), Some(base)) = (self.chosen(), self.base()) {
            let beside = if chosen.name == base.name {
                "the best simple rule on those earlier jobs".to_owned()
            } else {
                format!("{:.3} for {}, the best simple rule on those earlier jobs", base.score.spearman, base.name)
            };
            report.summary.push(format!(
                "**{}** was chosen on earlier jobs. On the {} jobs after them its order agrees with the true one at Spearman {:.3} ({beside}), {} of its medians are within a factor of two, and its 80 % interval holds {} of the runs.",
                chosen.name,
                format::count(chosen.score.jobs as u64),
                chosen.score.spearman,
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
            report.summary.extend(queue::sentence(downstream, &self.backtest.chosen, self.backtest.ranked_at));
            report.sections.push(queue::queue(downstream, &self.backtest.chosen, self.backtest.ranked_at));
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
            let mark = match (model.name == test.chosen, model.name == test.simple) {
                (true, _) => " (chosen)",
                (false, true) => " (best simple rule)",
                (false, false) => "",
            };
            let name = format!("{}{mark}", model.name);
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
        table.note = Some("p10, p50 and p90 loss: pinball losses as shares of those of the best simple rule, which had the least loss of the models without a learner on the jobs to choose on; below 1 is better. R²: of log runs. 80 % ends: upper over lower end of the interval, at the median. p90 > limit: share of the jobs with a time limit whose 90 % quantile is beyond it. Not chosen as: its intervals fell short of 80 or 90 % by more than 5 points and chance on the jobs to choose on, or most of them were wide for want of ended jobs, or its p50 or p90 loss there was above the running mean's.".to_owned());
        let made_of: Vec<String> =
            test.ensemble.iter().map(|member| format!("{:.1} {}", member.weight, member.model.name())).collect();
        let base = self.base().map_or(0.0, |base| base.score.pinball.p50);
        let share = |model: &ModelScore| (base > 0.0).then(|| model.score.pinball.p50 / base);
        let losses = Chart::rows(
            "loss-by-model",
            "Loss of the predicted median, as a share of the best simple rule's",
            Axis { min: Some(0.0), ..Axis::linear("Share of the best simple rule's loss").as_percent() },
            BarLayout::Grouped,
            test.models.iter().map(|model| model.name.clone()).collect(),
            vec![BarSeries::new("loss", test.models.iter().map(share).collect())],
        )
        .with_reading("Shorter is better; under 100 % is better than the best rule that needs no learner.");
        let mut section = Section::new("models", "Which model predicts best")
            .with_finding(format!(
                "**{}** had the least pinball loss on the jobs to choose on, {}; all figures are of later jobs.",
                test.chosen,
                if test.held_when_chosen { "of the models whose intervals held there" } else { "of the simple rules, as no model's intervals held there" }
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
