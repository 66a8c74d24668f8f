//! The answer of a back-test of utilisation, as JSON (`model-backtest-utilisation/1`) and as a
//! report.
//!
//! Worked example: an RMSLE of 0.20 at 50 % is a forecast of 41 or 61 %.

use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::backtest::UsageSplit;
use super::history::Usage;
use super::model::{UsageLeftOut, UsageModelName};
use super::score::{UsageScore, too_few};
use crate::interference::committee::LEVELS;

/// Version of the JSON.
pub const SCHEMA: &str = "model-backtest-utilisation/1";
/// RMSLE of GPU utilisation that the authors of Horus published ([`PublishedUsage`] says where, and why it cannot be compared).
const PUBLISHED_RMSLE: f64 = 0.154;

/// A figure that others published.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PublishedUsage {
    /// RMSLE of GPU utilisation.
    pub rmsle: f64,
    /// Source of the number.
    pub source: String,
    /// Why it is not to be compared.
    pub caveat: String,
}

/// A back-test of utilisation and memory, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageAnswer {
    /// Version of this form.
    pub schema: String,
    /// Sources.
    pub title: String,
    /// Notes on the data, for readers.
    pub notes: Vec<String>,
    /// Seed of all draws.
    pub seed: u64,
    /// Levels of the quantiles that are forecast.
    pub levels: Vec<f64>,
    /// The published figure.
    pub published: PublishedUsage,
    /// Results for each usage and way of leaving out.
    pub splits: Vec<UsageSplit>,
}

/// The JSON Schema of [`UsageAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(UsageAnswer).to_value()
}

impl UsageAnswer {
    /// An answer.
    pub fn new(title: String, notes: Vec<String>, seed: u64, splits: Vec<UsageSplit>) -> Self {
        let published = PublishedUsage {
            rmsle: PUBLISHED_RMSLE,
            source: "Yeung et al., Towards GPU Utilization Prediction for Cloud Deep Learning, HotCloud 2020"
                .to_owned(),
            caveat: "of other models on other GPUs, from the operations of each model's graph".to_owned(),
        };
        Self { schema: SCHEMA.to_owned(), title, notes, seed, levels: LEVELS.to_vec(), published, splits }
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report =
            Report::new(self.title.clone(), "Utilisation of jobs: a back-test of what is forecast before they start");
        report.notes.clone_from(&self.notes);
        for split in &self.splits {
            report.summary.push(sentence(split));
            report.sections.push(self.section(split));
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("Seed".to_owned(), self.seed.to_string()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    fn section(&self, split: &UsageSplit) -> Section {
        let unit = split.usage.unit();
        let digits = digits(split.usage);
        let columns = vec![
            Column::text("Model"),
            Column::number("RMSLE"),
            Column::with_unit("MAE", unit),
            Column::number("In 80 %"),
            Column::number("In 90 %"),
            Column::with_unit("90 % width", unit),
            Column::number("RMSLE, to choose by"),
        ];
        let mut table = ReportTable::new(format!("{} of what was left out", split.usage.name()), columns);
        for model in &split.models {
            let chosen = if model.name == split.chosen { " (chosen)" } else { "" };
            table.rows.push(vec![
                format!("{}{chosen}", model.name.name()).into(),
                Cell::float(model.rmsle, 3),
                Cell::float(model.mae, digits),
                Cell::share(model.coverage80),
                Cell::share(model.coverage90),
                Cell::float(model.width90, digits),
                Cell::opt(model.choice_rmsle, |value| Cell::float(value, 3)),
            ]);
        }
        if split.usage == Usage::GpuUtilPct {
            table.note = Some(format!(
                "Published: an RMSLE of {} ({}). It is {}, so it cannot be compared with these.",
                format::float(self.published.rmsle, 3),
                self.published.source,
                self.published.caveat
            ));
        }
        let (id, covers, definition) = match split.left_out {
            UsageLeftOut::Later => (
                "later",
                format!(
                    "{} scored, after {} that teach, calibrate or choose.",
                    format::counted(split.scored as u64, "job is", "jobs are"),
                    format::count(split.taught as u64)
                ),
                "Said of a job when it starts is what readings taken before then tell: of jobs that had ended, or of others as far as they had run. The model is chosen on earlier \
                 jobs than those reported.",
            ),
            UsageLeftOut::Family | UsageLeftOut::JobType => (
                if split.left_out == UsageLeftOut::Family { "family" } else { "job-type" },
                format!(
                    "{} scored, left out in {}.",
                    format::counted(split.scored as u64, "job type on a GPU type is", "job types on GPU types are"),
                    format::counted(split.folds as u64, "step", "steps")
                ),
                "`choice` takes, for each group that is left out, the model of least RMSLE on the groups that teach; what is reported has no part in that.",
            ),
        };
        let mut section = Section::new(format!("{}-{id}", split.usage.id()), what(split))
            .with_finding(sentence(split))
            .with_table(table)
            .with_coverage(covers)
            .with_definition("RMSLE is the root of the mean of (ln(1 + forecast) − ln(1 + truth))², of percent or MiB.")
            .with_definition(definition);
        if !split.by_known.is_empty() {
            let columns = vec![
                Column::text("Narrowest group known at the start"),
                Column::number("Jobs"),
                Column::number("RMSLE"),
                Column::with_unit("MAE", unit),
            ];
            let mut table = ReportTable::new("The chosen model by what was known", columns);
            for by in &split.by_known {
                table.rows.push(vec![
                    by.known_by.name().into(),
                    Cell::Int(by.jobs as i64),
                    Cell::float(by.rmsle, 3),
                    Cell::float(by.mae, digits),
                ]);
            }
            section = section.with_table(table);
        }
        section
    }
}

/// Digits that a value of a usage is shown with.
pub(super) fn digits(usage: Usage) -> usize {
    match usage {
        Usage::GpuUtilPct => 1,
        Usage::MemoryMb => 0,
    }
}

fn what(split: &UsageSplit) -> String {
    let left_out = match split.left_out {
        UsageLeftOut::Later => "later jobs",
        UsageLeftOut::Family => "families that were left out",
        UsageLeftOut::JobType => "job types that were left out, others of their families known",
    };
    format!("{}, {left_out}", split.usage.name())
}

fn sentence(split: &UsageSplit) -> String {
    let find = |name: UsageModelName| split.models.iter().find(|model| model.name == name);
    let Some(chosen) = find(split.chosen) else { return what(split) };
    let miss = |model: &UsageScore| {
        format!(
            "an RMSLE of {} and a mean error of {} {}",
            format::float(model.rmsle, 3),
            format::float(model.mae, digits(split.usage)),
            split.usage.unit()
        )
    };
    let beside = find(UsageModelName::Mean).filter(|mean| mean.name != chosen.name);
    let beside = beside.map_or_else(String::new, |mean| format!(" (the mean: {})", miss(mean)));
    let what_of = match split.left_out {
        UsageLeftOut::Later => format::counted(split.scored as u64, "scored job", "scored jobs"),
        UsageLeftOut::Family | UsageLeftOut::JobType => {
            format!(
                "{} in {}",
                format::counted(split.scored as u64, "job type", "job types"),
                format::counted(split.folds as u64, "group", "groups")
            )
        }
    };
    let few = too_few(split.scored, &what_of).map_or_else(String::new, |told| format!(" {told}"));
    format!(
        "{}: **{}** has {}{beside}; its 90 % interval holds {}.{few}",
        what(split),
        chosen.name.name(),
        miss(chosen),
        format::percent(chosen.coverage90)
    )
}
