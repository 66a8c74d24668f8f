//! The answer of a back-test of starts, as JSON (`model-backtest-start/1`) and as a report.
//!
//! O(models × horizons). Worked example: a median error of 12 min beside one of 30 min of the moving average is told as 0.40 of it.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Report, Section, format};

use super::backtest::{StartAccuracy, StartBacktest, StartModel, StartScore};
use crate::plan::tell;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-start/1";

/// A back-test of starts, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartTestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Sources.
    pub title: String,
    /// Policy of the replay, in words.
    pub policy: String,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Replays of each job that was asked about.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// Results.
    #[serde(flatten)]
    pub backtest: StartBacktest,
}

/// The JSON Schema of [`StartTestAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(StartTestAnswer).to_value()
}

impl StartTestAnswer {
    /// The report.
    pub fn report(&self) -> Report {
        let StartBacktest { jobs, waited, questions, models, chosen } = &self.backtest;
        let mut report = Report::new(
            format!("When would jobs have started? {}", self.title),
            format!(
                "{} that waited of {} replayed under {}; the later half of {} asked about is scored",
                format::counted(*waited as u64, "job", "jobs"),
                format::count(*jobs as u64),
                self.policy,
                format::count(*questions as u64)
            ),
        );
        report.notes.clone_from(&self.notes);
        let find = |name: StartModel| models.iter().find(|of| of.name == name);
        if let Some(of) = find(*chosen) {
            let beside = find(StartModel::MovingAverage).map_or_else(String::new, |rule| {
                format!(" (the moving average: {})", format::duration(rule.accuracy.median_abs_error_s))
            });
            report.summary.push(format!(
                "**{}** misses the start by {} at the median{beside}; its 80 and 90 % intervals hold {} and {} of the starts.",
                format::capitalised(of.name.in_words()),
                format::duration(of.accuracy.median_abs_error_s),
                format::percent(of.accuracy.coverage80),
                format::percent(of.accuracy.coverage90)
            ));
        }
        report.sections.push(self.section());
        report
    }

    fn section(&self) -> Section {
        let mut table = tell::table(
            "Models on the later half".to_owned(),
            "Model | Horizon | #Jobs | #Median error | #In 80 % | #In 90 %",
        );
        let row = |of: &StartScore, horizon: String, accuracy: StartAccuracy| {
            let chosen = if of.name == self.backtest.chosen && horizon == "all" { " (chosen)" } else { "" };
            vec![
                format!("{}{chosen}", of.name.in_words()).into(),
                horizon.into(),
                Cell::Int(accuracy.jobs as i64),
                Cell::Duration(accuracy.median_abs_error_s),
                Cell::share(accuracy.coverage80),
                Cell::share(accuracy.coverage90),
            ]
        };
        for of in &self.backtest.models {
            table.rows.push(row(of, "all".to_owned(), of.accuracy));
        }
        for of in self.backtest.models.iter().filter(|of| of.name == self.backtest.chosen) {
            for horizon in &of.by_horizon {
                let upto = horizon
                    .up_to_s
                    .map_or_else(|| "longer".to_owned(), |most| format!("up to {}", format::duration(most)));
                table.rows.push(row(of, upto, horizon.accuracy));
            }
        }
        Section::new("models", "How good are the answers?")
            .with_table(table)
            .with_definition("**Horizon**: of the answer's median. **Median error**: of the absolute difference between the median that was said and what came.")
            .with_definition("A job is asked about as it is submitted, if it does not start at once. Known are the jobs that run and wait then, and what had ended before.")
    }
}
