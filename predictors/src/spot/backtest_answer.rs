//! The answer of a back-test of spot, as JSON (`model-backtest-spot/1`) and as a report.
//!
//! Worked example: a Brier score of 0.09 beside 0.10 of the shares shows 10.0 % in the column of the skill over them.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::backtest::{
    HorizonScore, SpotBacktest, SpotModel, SpotModelScore, SpotSkill, SpotTarget, SpotTestOptions, TargetReliability,
    TestedZone,
};
use super::score::ChanceScore;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-spot/1";

/// Fewest days that are drawn anew for an interval that is believed.
const FEWEST_DAYS: usize = 5;

/// A back-test of spot, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpotBacktestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Title: the source that was read.
    pub title: String,
    /// Notes on the data, for readers.
    pub notes: Vec<String>,
    /// Instances needed at once.
    pub need: u32,
    /// Whether the zones are of one time.
    pub together: bool,
    /// Days between two fits.
    pub refit_days: i64,
    /// Days with reported forecasts, which intervals draw from.
    pub days: usize,
    /// Zones.
    pub zones: Vec<TestedZone>,
    /// The model or simple rule with the least log loss on earlier forecasts.
    pub chosen: SpotModel,
    /// Baselines, then models.
    pub models: Vec<SpotModelScore>,
    /// Reliability of the chosen model.
    pub reliability: Vec<TargetReliability>,
}

/// The JSON Schema of [`SpotBacktestAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SpotBacktestAnswer).to_value()
}

fn named(target: SpotTarget) -> &'static str {
    match target {
        SpotTarget::At => "at",
        SpotTarget::Through => "through",
    }
}

/// The mean over targets and horizons.
fn mean(model: &SpotModelScore, of: fn(&ChanceScore) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = model.horizons.iter().map(|at| of(&at.score)).collect();
    tracecast_analytics::stats::sum::mean(&values?)
}

fn skill(skill: Option<SpotSkill>) -> Cell {
    Cell::opt(skill, |skill| {
        let percent = |share: f64| format::float(100.0 * share, 1);
        Cell::Text(format!("{} ({} to {})", percent(skill.skill), percent(skill.low), percent(skill.high)))
    })
}

impl SpotBacktestAnswer {
    /// Answer made of the results of a back-test.
    pub fn new(title: String, notes: Vec<String>, options: &SpotTestOptions, result: SpotBacktest) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            need: options.need,
            together: options.together,
            refit_days: options.refit_days,
            days: result.days,
            zones: result.zones,
            chosen: result.chosen,
            models: result.models,
            reliability: result.reliability,
        }
    }

    fn of(&self, model: SpotModel) -> Option<&SpotModelScore> {
        self.models.iter().find(|score| score.model == model)
    }

    fn at(&self, model: SpotModel, target: SpotTarget, hours: f64) -> Option<&HorizonScore> {
        self.of(model)?.horizons.iter().find(|at| at.target == target && at.hours == hours)
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "Spot: a back-test of chances");
        report.notes.clone_from(&self.notes);
        report.summary.push(self.sentence());
        report.sections = SpotTarget::ALL.into_iter().map(|target| self.target(target)).collect();
        report.sections.extend([self.all_models(), self.calibration(), self.by_zone()]);
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    fn sentence(&self) -> String {
        let of = |model: SpotModel, by: fn(&ChanceScore) -> Option<f64>| {
            self.of(model)
                .and_then(|score| mean(score, by))
                .map_or_else(|| "?".to_owned(), |value| format::float(value, 3))
        };
        let brier = |score: &ChanceScore| Some(score.brier);
        format!(
            "**{}** was chosen on earlier forecasts. Later, over all horizons, its mean Brier score is **{}** (persistence {}, its shares {}, climatology {}, Markov {}), \
             and its mean log loss {} (shares {}, climatology {}, Markov {}).",
            self.chosen.in_words(),
            of(self.chosen, brier),
            of(SpotModel::Persistence, brier),
            of(SpotModel::Shares, brier),
            of(SpotModel::Climatology, brier),
            of(SpotModel::Markov, brier),
            of(self.chosen, |score| score.log_loss),
            of(SpotModel::Shares, |score| score.log_loss),
            of(SpotModel::Climatology, |score| score.log_loss),
            of(SpotModel::Markov, |score| score.log_loss),
        )
    }

    /// The chosen model beside the baselines, horizon by horizon.
    fn target(&self, target: SpotTarget) -> Section {
        let mut table = ReportTable::new(
            "The chosen model, by horizon",
            vec![
                Column::number("Ahead"),
                Column::number("Forecasts"),
                Column::number("Came"),
                Column::number("Brier"),
                Column::number("Log loss"),
                Column::number("Shares'"),
                Column::number("Calibration error"),
                Column::text("Skill over persistence, %"),
                Column::text("Skill over its shares, %"),
            ],
        );
        let (mut better, mut worse, mut all) = (0, 0, 0);
        for at in self.of(self.chosen).into_iter().flat_map(|score| &score.horizons).filter(|at| at.target == target) {
            let shares = self.at(SpotModel::Shares, target, at.hours).and_then(|at| at.score.log_loss);
            all += 1;
            better += usize::from(at.over_shares.is_some_and(|skill| skill.low > 0.0));
            worse += usize::from(at.over_shares.is_some_and(|skill| skill.high < 0.0));
            table.rows.push(vec![
                Cell::Duration(at.hours * 3600.0),
                Cell::Int(at.score.cases as i64),
                Cell::share(at.score.happened),
                Cell::float(at.score.brier, 3),
                Cell::opt(at.score.log_loss, |loss| Cell::float(loss, 3)),
                Cell::opt(shares, |loss| Cell::float(loss, 3)),
                Cell::float(at.score.calibration_error, 3),
                skill(at.over_persistence),
                skill(at.over_shares),
            ]);
        }
        table.note = Some(
            "Skill: 1 less the Brier score over that of the baseline, with its 95 % interval: days drawn anew."
                .to_owned(),
        );
        let curve = |model: &SpotModelScore| -> Vec<(f64, f64)> {
            let of = model.horizons.iter().filter(|at| at.target == target);
            of.map(|at| (at.hours * 3600.0, at.score.brier)).collect()
        };
        let shown = self
            .models
            .iter()
            .filter(|score| SpotModel::BASELINES.contains(&score.model) || score.model == self.chosen);
        let series: Vec<ChartSeries> = shown
            .map(|score| {
                let mark = if score.model == self.chosen { Mark::Line } else { Mark::Dashed };
                ChartSeries::new(score.model.in_words(), mark, curve(score))
            })
            .collect();
        let chart = Chart::xy(
            format!("brier-{}", named(target)),
            "Brier score by horizon",
            Axis::duration("Ahead"),
            Axis::linear("Brier score"),
            series,
        )
        .with_reading("Lower is better; the full line is the chosen model.");
        let title = match target {
            SpotTarget::At => "Enough spot at the end of the horizon",
            SpotTarget::Through => "Enough spot through the horizon, where there is enough now",
        };
        Section::new(named(target), title)
            .with_finding(if self.chosen == SpotModel::Shares {
                "The shares of persistence themselves were chosen: no model had less log loss on the earlier forecasts."
                    .to_owned()
            } else if self.days < FEWEST_DAYS {
                format!(
                    "These forecasts are of {}: too few to say where the chosen model is better than the shares of persistence.",
                    format::counted(self.days as u64, "day", "days")
                )
            } else {
                format!(
                    "At {better} of {all} horizons the chosen model is better than the shares of persistence beyond doubt, and at {worse} it is worse."
                )
            })
            .with_chart(chart)
            .with_table(table)
    }

    fn all_models(&self) -> Section {
        let mut table = ReportTable::new(
            "All models, means over targets and horizons",
            vec![
                Column::text("Model"),
                Column::number("Earlier log loss"),
                Column::number("Brier"),
                Column::number("Log loss"),
                Column::number("Calibration error"),
            ],
        );
        for score in &self.models {
            let chosen = if score.model == self.chosen { " (chosen)" } else { "" };
            let cell = |value: Option<f64>| Cell::opt(value, |value| Cell::float(value, 3));
            table.rows.push(vec![
                format!("{}{chosen}", score.model.in_words()).as_str().into(),
                cell(score.earlier_log_loss),
                cell(mean(score, |score| Some(score.brier))),
                cell(mean(score, |score| score.log_loss)),
                cell(mean(score, |score| Some(score.calibration_error))),
            ]);
        }
        let judged = self.of(self.chosen).is_some_and(|chosen| chosen.earlier_log_loss.is_some());
        Section::new("models", "Models and baselines")
            .with_finding(if judged {
                format!(
                    "**{}** has the least log loss on the earlier forecasts of all that state a chance, which is what the choice rests on; the other columns are of later ones.",
                    self.chosen.in_words()
                )
            } else {
                format!(
                    "No forecast came true before the report begins, so nothing could be chosen: **{}**, the simplest rule, is reported.",
                    self.chosen.in_words()
                )
            })
            .with_table(table)
            .with_definition("Persistence (0 or 1): what is, stays. Persistence (share): the share of past moments, with enough or without, that were followed by enough so much later. Climatology: the share of all time. Markov: constant chances to change.")
            .with_definition("Each model adds to the one by age: memory is the length of the two spells before, week the hour and the day, zones the share of the others without, price a rise or a fall within three hours.")
            .with_definition("Log loss keeps chances 0.0001 away from 0 and 1. Calibration error: mean distance of the chances of a tenth from the share of them that came.")
    }

    fn calibration(&self) -> Section {
        let mut table = ReportTable::new(
            "Chances of the chosen model and what came, all horizons together",
            vec![
                Column::text("Asked"),
                Column::text("Chance"),
                Column::number("Forecasts"),
                Column::number("Mean chance"),
                Column::number("Came"),
            ],
        );
        let mut series = vec![ChartSeries::new("as it should be", Mark::Dashed, vec![(0.0, 0.0), (1.0, 1.0)])];
        for of in &self.reliability {
            for tenth in &of.tenths {
                let chance = format!("{} to {}", format::percent(tenth.from), format::percent(tenth.to));
                table.rows.push(vec![
                    named(of.target).into(),
                    chance.as_str().into(),
                    Cell::Int(tenth.cases as i64),
                    Cell::share(tenth.mean_forecast),
                    Cell::share(tenth.happened),
                ]);
            }
            let points = of.tenths.iter().map(|tenth| (tenth.mean_forecast, tenth.happened)).collect();
            series.push(ChartSeries::new(named(of.target), Mark::Line, points));
        }
        let chart =
            Chart::xy("reliability", "Reliability", Axis::share("Chance told"), Axis::share("Share that came"), series)
                .with_reading("On the dashed line chances come true as often as told; above it more often.");
        let off = self.of(self.chosen).and_then(|score| mean(score, |score| Some(score.calibration_error)));
        let finding = off.map_or_else(String::new, |off| {
            format!("Chances are off what came by **{}** on average, tenth by tenth.", format::percent(off))
        });
        Section::new("calibration", "Whether chances come true")
            .with_finding(finding)
            .with_chart(chart)
            .with_table(table)
    }

    fn by_zone(&self) -> Section {
        let mut table = ReportTable::new(
            "Zone by zone, means over targets and horizons",
            vec![
                Column::text("Zone"),
                Column::number("Tick"),
                Column::number("Ticks"),
                Column::number("Of the time"),
                Column::number("Brier"),
                Column::number("Shares'"),
                Column::number("Log loss"),
                Column::number("Shares'"),
            ],
        );
        let mut better = 0;
        for zone in &self.zones {
            better += usize::from(zone.log_loss < zone.log_loss_of_shares);
            table.rows.push(vec![
                zone.zone.as_str().into(),
                Cell::Duration(zone.tick_s),
                Cell::Int(zone.ticks as i64),
                Cell::share(zone.up_share),
                Cell::float(zone.brier, 3),
                Cell::float(zone.brier_of_shares, 3),
                Cell::float(zone.log_loss, 3),
                Cell::float(zone.log_loss_of_shares, 3),
            ]);
        }
        Section::new("zones", "Zone by zone")
            .with_finding(if self.chosen == SpotModel::Shares {
                "The shares of persistence are what was chosen.".to_owned()
            } else {
                format!(
                    "What was chosen has less log loss than the shares of persistence in **{better} of {}** zones.",
                    self.zones.len()
                )
            })
            .with_table(table)
            .with_coverage(format!(
                "The first 40 % of each record only teach, the next 20 % choose the model, and the last 40 % are reported, over {}. Models are fitted again {}.",
                format::counted(self.days as u64, "day", "days"),
                if self.refit_days == 1 {
                    "every day".to_owned()
                } else {
                    format!("every {} days", self.refit_days)
                }
            ))
    }
}
