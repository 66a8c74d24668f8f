//! The answer of `model predict utilisation`, as JSON (`model-predict-utilisation/1`), as CSV, as a
//! report, and as a table of profiles.
//!
//! The **table of profiles** is that which teaches, with the forecasts added: the utilisation is the expected one, and the memory the 90 % quantile, which is meant to be enough nine
//! times of ten. What was measured stays as it was, with the columns `jobs` and `readings` that say what it rests on: of a measured row only what is unknown is set. Forecasts of
//! earlier runs are left out. The column `forecast` names what is forecast, and commands that take the table say so.
//!
//! O(rows log rows). Worked example: 41 % expected and 8,000 MiB at 90 % are a profile with `sm_util_pct` 41, `memory_mb` 8000 and `forecast` `sm_util_pct memory_mb`.

use std::collections::BTreeMap;

use serde::Serialize;
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::answer::digits;
use super::forecast::{self, UsageBasis, UsageChoice, UsageForecasts, UsageValue};
use super::held_out::GRAPH;
use super::history::{AskedJob, Usage};
use super::model::UsageLeftOut;
use super::score::too_few;
use crate::error::{Error, Result};
use crate::interference::committee::LEVELS;
use crate::interference::read::{FORECAST, JOBS, ProfileRow, READINGS};
use crate::interference::table::{JobProfile, Quantity, RestsOn, SharingTable};

/// Selects one column of what telemetry rested on.
type OfTelemetry = fn(&RestsOn) -> &Option<String>;

/// Version of the JSON.
pub const SCHEMA: &str = "model-predict-utilisation/1";

/// Subject of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageAsked {
    /// Job types on GPU types.
    JobTypes,
    /// Jobs that have not started.
    Jobs,
}

/// Forecasts for a job type or a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsageOfJob {
    /// Identifier of a job, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// GPU type of a job type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// The job type, or the name of the job.
    pub job: Option<String>,
    /// Family of a job type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// User of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// GPUs that a job asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<f64>,
    /// Mean utilisation of its GPUs, percent; null where nothing can be said.
    pub gpu_util_pct: Option<UsageValue>,
    /// Most memory that it uses on one GPU, MiB; null where nothing can be said.
    pub memory_mb: Option<UsageValue>,
}

impl UsageOfJob {
    fn get(&self, usage: Usage) -> Option<&UsageValue> {
        match usage {
            Usage::GpuUtilPct => self.gpu_util_pct.as_ref(),
            Usage::MemoryMb => self.memory_mb.as_ref(),
        }
    }
}

/// Forecasts of utilisation and memory, and what they rest on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsagePrediction {
    /// Version of this form.
    pub schema: String,
    /// Sources.
    pub title: String,
    /// Notes on the data, for readers.
    pub notes: Vec<String>,
    /// Seed of all draws.
    pub seed: u64,
    /// Levels of the quantiles.
    pub levels: Vec<f64>,
    /// Subject of the forecasts.
    pub asked: UsageAsked,
    /// The models that were chosen, by usage and by what was left out to choose them.
    pub choices: Vec<UsageChoice>,
    /// The forecasts, in order of what was asked.
    pub jobs: Vec<UsageOfJob>,
}

/// The JSON Schema of [`UsagePrediction`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(UsagePrediction).to_value()
}

fn csv_of(rows: impl IntoIterator<Item = Vec<String>>) -> Result<Vec<u8>> {
    let failed = |error: String| Error::Table { file: "forecasts as CSV".to_owned(), reason: error };
    let mut out = csv::Writer::from_writer(Vec::new());
    for row in rows {
        out.write_record(&row).map_err(|error| failed(error.to_string()))?;
    }
    out.into_inner().map_err(|error| failed(error.to_string()))
}

/// A row of the table of profiles.
#[derive(Debug, Default)]
struct Written<'a> {
    family: &'a str,
    profile: JobProfile,
    rests_on: RestsOn,
    forecast: Vec<&'static str>,
}

/// A number with as many digits as are worth writing; empty if it is unknown.
fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

impl UsagePrediction {
    fn new(title: String, mut notes: Vec<String>, seed: u64, asked: UsageAsked, said: UsageForecasts) -> Self {
        notes.extend(said.notes);
        let with_values = |[gpu_util_pct, memory_mb]: [Option<UsageValue>; Usage::ALL.len()]| UsageOfJob {
            gpu_util_pct,
            memory_mb,
            ..UsageOfJob::default()
        };
        Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            seed,
            levels: LEVELS.to_vec(),
            asked,
            choices: said.choices,
            jobs: said.values.into_iter().map(with_values).collect(),
        }
    }

    /// The answer about job types.
    pub fn of_types(
        title: String,
        notes: Vec<String>,
        seed: u64,
        table: &SharingTable,
        request: &[ProfileRow],
        said: UsageForecasts,
    ) -> Self {
        let mut answer = Self::new(title, notes, seed, UsageAsked::JobTypes, said);
        for (job, row) in answer.jobs.iter_mut().zip(request) {
            job.gpu_type = Some(row.gpu_type.clone());
            job.job = Some(row.job.clone());
            job.family = Some(forecast::family(table, row).to_owned());
        }
        answer
    }

    /// The answer about jobs.
    pub fn of_jobs(title: String, notes: Vec<String>, seed: u64, request: &[AskedJob], said: UsageForecasts) -> Self {
        let mut answer = Self::new(title, notes, seed, UsageAsked::Jobs, said);
        for (job, request) in answer.jobs.iter_mut().zip(request) {
            job.job_id.clone_from(&request.id);
            job.job.clone_from(&request.known.name);
            job.user.clone_from(&request.known.user);
            job.gpus = request.known.gpus;
        }
        answer
    }

    /// Returns the forecasts as CSV, a row for each job type or job.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let named: &[&str] = match self.asked {
            UsageAsked::JobTypes => &["gpu_type", "job", "family"],
            UsageAsked::Jobs => &["job_id", "job", "user", "gpus"],
        };
        let mut head: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        for usage in Usage::ALL {
            let column = usage.column();
            head.push(column.to_owned());
            head.extend(
                ["p05", "p10", "p50", "p90", "p95", "model", "rests_on"].map(|part| format!("{column}_{part}")),
            );
        }
        let row = |of: &UsageOfJob| {
            let text = |text: &Option<String>| text.as_deref().map_or(String::new(), csv_text);
            let mut row = match self.asked {
                UsageAsked::JobTypes => vec![text(&of.gpu_type), text(&of.job), text(&of.family)],
                UsageAsked::Jobs => {
                    let gpus = of.gpus.map_or(String::new(), |gpus| gpus.to_string());
                    vec![text(&of.job_id), text(&of.job), text(&of.user), gpus]
                }
            };
            for usage in Usage::ALL {
                let value = of.get(usage);
                let quantiles = value.and_then(|value| value.quantiles);
                let levels = quantiles.map(|of| [of.p05, of.p10, of.p50, of.p90, of.p95]);
                row.push(number(value.map(|value| value.expected)));
                row.extend((0..LEVELS.len()).map(|at| number(levels.and_then(|levels| levels.get(at).copied()))));
                row.push(value.and_then(|value| value.model).map_or("", super::model::UsageModelName::name).to_owned());
                row.push(value.map_or("", |value| value.rests_on.id()).to_owned());
            }
            row
        };
        csv_of(std::iter::once(head).chain(self.jobs.iter().map(row)))
    }

    /// The table of profiles with the forecasts added (CSV), as `plan share couples` takes it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn profiles(&self, table: &SharingTable, request: &[ProfileRow]) -> Result<Vec<u8>> {
        let mut rows: BTreeMap<(&str, &str), Written<'_>> = BTreeMap::new();
        for (gpu, gpu_type) in table.gpu_types().iter().enumerate() {
            for (job, name) in table.jobs().iter().enumerate() {
                let profile = table.profile(gpu, job);
                if Quantity::ALL.into_iter().any(|quantity| profile.get(quantity).is_some()) {
                    let family = table.families().get(table.family(job)).map_or("", String::as_str);
                    let rests_on = table.rests_on(gpu, job);
                    rows.insert((gpu_type, name), Written { family, profile, rests_on, forecast: Vec::new() });
                }
            }
        }
        for (of, row) in self.jobs.iter().zip(request) {
            let family = of.family.as_deref().unwrap_or_default();
            let entry =
                rows.entry((&row.gpu_type, &row.job)).or_insert_with(|| Written { family, ..Written::default() });
            let mut set = |quantity: Quantity, value: Option<f64>| {
                let is_new = value.is_some() && entry.profile.get(quantity).is_none();
                if is_new {
                    entry.profile.set(quantity, value);
                }
                is_new
            };
            for quantity in GRAPH {
                set(quantity, row.profile.get(quantity));
            }
            for usage in Usage::ALL {
                let quantity = usage.quantity();
                if set(quantity, of.get(usage).map(|value| value.to_reserve(usage))) {
                    entry.forecast.push(quantity.name());
                }
            }
        }
        let told = |quantity: &Quantity| rows.values().any(|row| row.profile.get(*quantity).is_some());
        let quantities: Vec<Quantity> = Quantity::ALL.into_iter().filter(told).collect();
        let of_telemetry: [(&str, OfTelemetry); 2] = [(JOBS, |of| &of.jobs), (READINGS, |of| &of.readings)];
        let of_telemetry: Vec<_> =
            of_telemetry.into_iter().filter(|(_, of)| rows.values().any(|row| of(&row.rests_on).is_some())).collect();
        let head = ["gpu_type", "job", "family"].into_iter().chain(quantities.iter().map(|quantity| quantity.name()));
        let head = head.chain(of_telemetry.iter().map(|(name, _)| *name)).chain([FORECAST]);
        let head = head.map(str::to_owned).collect();
        csv_of(std::iter::once(head).chain(rows.iter().map(|((gpu_type, job), row)| {
            let cell = |quantity: &Quantity| {
                row.profile.get(*quantity).map_or(String::new(), |value| {
                    if row.forecast.contains(&quantity.name()) { number(Some(value)) } else { value.to_string() }
                })
            };
            let named = [*gpu_type, *job, row.family].into_iter().map(str::to_owned);
            let rests_on = of_telemetry.iter().map(|(_, of)| of(&row.rests_on).clone().unwrap_or_default());
            named.chain(quantities.iter().map(cell)).chain(rests_on).chain([row.forecast.join(" ")]).collect()
        })))
    }

    /// Returns the forecasts as a report.
    pub fn report(&self) -> Report {
        let mut report =
            Report::new(self.title.clone(), "How much of a GPU will these jobs use? Forecasts before they run");
        report.notes.clone_from(&self.notes);
        report.summary = Usage::ALL.into_iter().filter_map(|usage| self.sentence(usage)).collect();
        if let Some(least) = self.choices.iter().min_by_key(|choice| choice.chosen_on) {
            let what = match self.asked {
                UsageAsked::JobTypes => format::counted(least.chosen_on as u64, "job type", "job types"),
                UsageAsked::Jobs => format::counted(least.chosen_on as u64, "job", "jobs"),
            };
            report.summary.extend(too_few(least.chosen_on, &format!("The {what} to choose a model on")));
        }
        report.sections.push(self.forecasts());
        if !self.choices.is_empty() {
            report.sections.push(self.models());
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("Seed".to_owned(), self.seed.to_string()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ];
        report
    }

    /// Number of forecasts of a usage, and their bases, in words.
    fn sentence(&self, usage: Usage) -> Option<String> {
        let values: Vec<&UsageValue> = self.jobs.iter().filter_map(|of| of.get(usage)).collect();
        if values.is_empty() {
            return None;
        }
        let mut by_basis: Vec<(UsageBasis, usize)> = Vec::new();
        for value in &values {
            match by_basis.iter_mut().find(|(basis, _)| *basis == value.rests_on) {
                Some((_, count)) => *count += 1,
                None => by_basis.push((value.rests_on, 1)),
            }
        }
        by_basis.sort_unstable();
        let told =
            |(basis, count): &(UsageBasis, usize)| format!("{}: {}", basis.in_words(), format::count(*count as u64));
        Some(format!(
            "{} is told of **{}** of {} ({}).",
            usage.name(),
            format::count(values.len() as u64),
            match self.asked {
                UsageAsked::JobTypes => format::counted(self.jobs.len() as u64, "job type", "job types"),
                UsageAsked::Jobs => format::counted(self.jobs.len() as u64, "job", "jobs"),
            },
            by_basis.iter().map(told).collect::<Vec<_>>().join(", ")
        ))
    }

    fn forecasts(&self) -> Section {
        let mut columns = match self.asked {
            UsageAsked::JobTypes => vec![Column::text("GPU"), Column::text("Job type"), Column::text("Family")],
            UsageAsked::Jobs => {
                vec![Column::text("Job"), Column::text("Name"), Column::text("User"), Column::number("GPUs")]
            }
        };
        for unit in ["Utilisation, %", "Peak memory, MiB"] {
            columns.extend([Column::text(format!("{unit} (80 %)")), Column::text("Rests on (model)")]);
        }
        let mut table = ReportTable::new("Forecasts", columns);
        let text = |text: &Option<String>| text.as_deref().map_or(Cell::Missing, Cell::from);
        for of in &self.jobs {
            let mut row = match self.asked {
                UsageAsked::JobTypes => vec![text(&of.gpu_type), text(&of.job), text(&of.family)],
                UsageAsked::Jobs => {
                    let gpus = Cell::opt(of.gpus, |gpus| Cell::float(gpus, if gpus.fract() == 0.0 { 0 } else { 2 }));
                    vec![text(&of.job_id), text(&of.job), text(&of.user), gpus]
                }
            };
            for usage in Usage::ALL {
                let Some(value) = of.get(usage) else {
                    row.extend([Cell::Missing, Cell::Missing]);
                    continue;
                };
                let shown = |number: f64| format::float(number, digits(usage));
                let interval =
                    value.quantiles.map_or(String::new(), |of| format!(" ({} to {})", shown(of.p10), shown(of.p90)));
                let model = value.model.map_or(String::new(), |model| format!(" ({})", model.name()));
                row.push(format!("{}{interval}", shown(value.expected)).into());
                row.push(format!("{}{model}", value.rests_on.in_words()).into());
            }
            table.rows.push(row);
        }
        let definitions: &[&str] = match self.asked {
            UsageAsked::JobTypes => &[
                "Expected, and the 10 and 90 % quantiles. A job type that was measured on the GPU type is told as measured, with the interval that it would have had if it had been left out; the model draws it.",
                "`model backtest utilisation` on the same table says how much such forecasts missed, and how often their intervals held, with families and with job types left out. Of GPU types that are not in the table it \
                 says nothing.",
            ],
            UsageAsked::Jobs => &[
                "Expected, and the 10 and 90 % quantiles, from readings up to the end of the record: of the narrowest group of which anything was read.",
                "The interval is as wide as all jobs were missed together: of a job that only its size or all jobs tell of, it may be too narrow.",
                "`model backtest utilisation` on the same sources says how much such forecasts missed later jobs, and how often their intervals held.",
            ],
        };
        definitions.iter().fold(Section::new("jobs", "Forecasts").with_table(table), |section, definition| {
            section.with_definition(*definition)
        })
    }

    fn models(&self) -> Section {
        let columns = vec![
            Column::text("Usage"),
            Column::text("Left out to choose it"),
            Column::text("Model"),
            Column::number("RMSLE there"),
            Column::number("Chosen on"),
            Column::number("Steps"),
        ];
        let mut table = ReportTable::new("Models", columns);
        for choice in &self.choices {
            let left_out = match choice.left_out {
                UsageLeftOut::Later => "later jobs",
                UsageLeftOut::Family => "families",
                UsageLeftOut::JobType => "job types of known families",
            };
            table.rows.push(vec![
                choice.usage.name().into(),
                left_out.into(),
                choice.model.name().into(),
                Cell::float(choice.rmsle, 3),
                Cell::Int(choice.chosen_on as i64),
                if choice.folds > 0 { Cell::Int(choice.folds as i64) } else { Cell::Missing },
            ]);
        }
        Section::new("models", "How the models were chosen")
            .with_table(table)
            .with_definition("RMSLE is the root of the mean of (ln(1 + forecast) − ln(1 + truth))², of percent or MiB. It is the least of six models on what they were chosen on, and flatters: the back-test has no part in the choice of what it reports.")
    }
}

impl UsageValue {
    /// Value to plan with: of memory the 90 % quantile, unless it was measured.
    fn to_reserve(self, usage: Usage) -> f64 {
        match (usage, self.rests_on, self.quantiles) {
            (Usage::MemoryMb, basis, Some(quantiles)) if basis != UsageBasis::JobType => quantiles.p90,
            _ => self.expected,
        }
    }
}
