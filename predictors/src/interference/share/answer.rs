//! The answer of `model predict interference`, as JSON (`model-predict-interference/1`), as CSV and
//! as a report.
//!
//! Worked example: two couples, one of which may share, are "**1** of 2 couples may share within the limits".

use serde::Serialize;
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::predictor::{Basis, SharingJob, SharingPredictor, SharingTrained, ToMeasure};
use super::super::slice::SliceSpeed;
use super::{BrokenLimit, GroupAnswer, PairAnswer, SharingLimits, SpeedAnswer, in_words, pair};
use crate::error::{Error, Result};

/// Version of the JSON.
pub const SCHEMA: &str = "model-predict-interference/1";

/// Answers and what they rest on, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SharingAnswer {
    /// Version of this form.
    pub schema: String,
    /// Record that the predictor was trained on.
    pub trained: SharingTrained,
    /// Limits that sharing must keep.
    pub limits: SharingLimits,
    /// The answers, in order of rank where candidates were asked about, else as asked.
    pub pairs: Vec<PairAnswer>,
    /// Pairs of a job to measure first, and what is known then, in the order of `pairs`; empty
    /// where all its pairs are measured, null where that was not asked.
    pub to_measure: Option<Vec<ToMeasure>>,
    /// All jobs together on one GPU, where that was asked.
    pub group: Option<GroupAnswer>,
    /// Each job on MIG slices, where that was asked.
    pub slices: Option<Vec<SliceSpeed>>,
    /// Warnings about GPU types on which nothing was measured, a sentence each; empty where all
    /// were.
    pub warnings: Vec<String>,
}

/// The JSON Schema of [`SharingAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SharingAnswer).to_value()
}

impl SharingAnswer {
    /// An answer.
    pub fn new(predictor: &SharingPredictor, limits: SharingLimits, pairs: Vec<PairAnswer>) -> Self {
        let mut warnings: Vec<String> = Vec::new();
        for of in pairs.iter().filter_map(|of| predictor.unmeasured(&of.gpu_type)) {
            if !warnings.contains(&of) {
                warnings.push(of);
            }
        }
        let trained = predictor.trained().clone();
        Self {
            schema: SCHEMA.to_owned(),
            trained,
            limits,
            pairs,
            to_measure: None,
            group: None,
            slices: None,
            warnings,
        }
    }

    /// An answer about jobs that all share one GPU.
    pub fn of_group(predictor: &SharingPredictor, limits: SharingLimits, group: GroupAnswer) -> Self {
        let warnings = predictor.unmeasured(&group.gpu_type).into_iter().collect();
        Self { group: Some(group), warnings, ..Self::new(predictor, limits, Vec::new()) }
    }

    /// An answer about jobs on MIG slices of a GPU type, as it was asked for.
    pub fn of_slices(
        predictor: &SharingPredictor,
        limits: SharingLimits,
        gpu_type: &str,
        slices: Vec<SliceSpeed>,
    ) -> Self {
        let measured = predictor.trained().slices_of.iter().filter(|of| !of.eq_ignore_ascii_case(gpu_type));
        let warning =
            |of: &String| format!("**Slices of GPU type {gpu_type} were not measured**; what follows is of {of}.");
        Self {
            slices: Some(slices),
            warnings: measured.map(warning).collect(),
            ..Self::new(predictor, limits, Vec::new())
        }
    }

    /// Pairs of a job to measure first, with their forecasts. Where all its pairs are measured, a
    /// sentence in `notes` says so.
    ///
    /// # Errors
    /// Errors of [`SharingPredictor::to_measure`].
    pub fn to_measure(
        predictor: &SharingPredictor,
        limits: SharingLimits,
        (gpu_type, job): (&str, &SharingJob),
        count: usize,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let to_measure = predictor.to_measure(gpu_type, job, count)?;
        if to_measure.is_empty() {
            let job = &job.job_type;
            notes.push(format!("All pairs of {job} on {gpu_type} are measured: there is none to measure first."));
        }
        let beside = |of: &ToMeasure| pair(predictor, gpu_type, job, &SharingJob::new(of.job_b.clone()), &limits);
        let pairs = to_measure.iter().map(beside).collect();
        Ok(Self { to_measure: Some(to_measure), ..Self::new(predictor, limits, pairs) })
    }

    /// Returns the answer as CSV, a row for each couple; or each job of a group; or each job on
    /// each slice.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn csv(&self) -> Result<Vec<u8>> {
        match (&self.group, &self.slices) {
            (Some(group), _) => written(&GROUP_COLUMNS, group_rows(group)),
            (None, Some(slices)) => written(&SLICE_COLUMNS, slices.iter().map(slice_row)),
            (None, None) => self.csv_of_pairs(),
        }
    }

    fn csv_of_pairs(&self) -> Result<Vec<u8>> {
        let head = [
            "gpu_type",
            "job_a",
            "job_b",
            "speed_a",
            "speed_a_p05",
            "speed_a_p95",
            "speed_b",
            "speed_b_p05",
            "speed_b_p95",
            "out_of_memory",
            "expected_progress",
            "slowdown90",
            "share",
            "refused",
            "basis",
            // Last, as readers may go by position.
            "gpu_type_measured",
            "broken",
        ];
        let row = |of: &PairAnswer| {
            let mut row: Vec<String> = [&of.gpu_type, &of.job_a, &of.job_b].iter().map(|name| csv_text(name)).collect();
            let numbers = [
                of.speed_a.mean,
                of.speed_a.p05,
                of.speed_a.p95,
                of.speed_b.mean,
                of.speed_b.p05,
                of.speed_b.p95,
                of.out_of_memory,
                of.expected_progress,
            ];
            row.extend(numbers.iter().map(|number| format!("{number:.4}")));
            row.push(slowdown(of.slowdown90));
            row.extend([of.share.to_string(), word(&of.refused), word(&of.basis)]);
            row.extend([of.gpu_type_measured.to_string(), broken(&of.broken)]);
            row
        };
        written(&head, self.pairs.iter().map(row))
    }

    /// Recommendation where one job was asked about beside several, best first.
    fn best(&self) -> Option<String> {
        let first = self.pairs.first()?;
        let one_job = self.pairs.iter().all(|of| (&of.gpu_type, &of.job_a) == (&first.gpu_type, &first.job_a));
        let key = |of: &PairAnswer| (of.share, of.expected_progress);
        if self.to_measure.is_some()
            || self.pairs.len() < 2
            || !one_job
            || !self.pairs.is_sorted_by(|one, other| key(one) >= key(other))
        {
            return None;
        }
        Some(if first.share {
            format!("Put {} beside **{}**; the rows stand in order, best first.", first.job_a, first.job_b)
        } else {
            format!("Leave {} **alone**: beside none of these would it keep the limits.", first.job_a)
        })
    }

    /// Returns the answer as a report.
    pub fn report(&self, notes: Vec<String>) -> Report {
        let mut report = Report::new(
            "Who can share a GPU with whom?",
            "forecast speeds beside each other, as shares of the speed alone",
        );
        let count = self.pairs.iter().filter(|of| of.share).count();
        let couples = format::counted(self.pairs.len() as u64, "couple", "couples");
        report.summary.extend(self.warnings.iter().cloned());
        report.summary.extend(self.best());
        if !self.pairs.is_empty() {
            report.summary.push(format!("**{count}** of {couples} may share within the limits."));
        }
        let to_measure = self.to_measure.as_deref().unwrap_or_default();
        if let (Some(first), Some(last)) = (to_measure.first(), to_measure.last()) {
            let beside: Vec<String> = to_measure.iter().map(|of| format!("**{}**", of.job_b)).collect();
            let at = self.warnings.len();
            report
                .summary
                .insert(at, format!("Measure {} beside {} first, in this order.", first.job_a, beside.join(", then ")));
            report.summary.insert(at + 1, format!(
                "Its speeds beside all job types are known with a standard deviation of {}, and of {} after that (root mean squares over the job types).",
                format::float(first.deviation_before, 3),
                format::float(last.deviation_after, 3)
            ));
        }
        report.notes = notes;
        let columns = vec![
            Column::text("GPU"),
            Column::text("Job"),
            Column::text("Beside"),
            Column::text("Speed of the job, 90 %"),
            Column::text("Of the other, 90 %"),
            Column::number("Does not fit"),
            Column::number("Progress"),
            Column::number("Slowdown, 0.9"),
            Column::text("Share"),
            Column::text("Rests on"),
        ];
        let mut table = ReportTable::new("Couples", columns);
        for of in &self.pairs {
            table.rows.push(vec![
                of.gpu_type.as_str().into(),
                of.job_a.as_str().into(),
                of.job_b.as_str().into(),
                speed(&of.speed_a, of.basis).into(),
                speed(&of.speed_b, of.basis).into(),
                Cell::share(of.out_of_memory),
                Cell::opt((of.basis != Basis::Nothing).then_some(of.expected_progress), |made| Cell::float(made, 2)),
                of.slowdown90.map_or("no bound".into(), |slowdown| Cell::float(slowdown, 2)),
                in_words(&of.broken).into(),
                of.basis.in_words().into(),
            ]);
        }
        if !self.pairs.is_empty() {
            report.sections.push(
                Section::new("couples", "Forecasts")
                    .with_table(table)
                    .with_definition("**Progress**: expected speeds of both together, where one job alone makes 1; what does not fit makes 1.")
                    .with_definition(self.kept()),
            );
        }
        if let Some(group) = &self.group {
            report.summary.push(verdict(group));
            report.sections.push(group_section(group).with_definition(self.kept()));
        }
        if let Some(slices) = &self.slices {
            report.sections.push(slice_section(slices));
        }
        report.provenance =
            vec![("Form".to_owned(), self.schema.clone()), ("Table".to_owned(), self.trained.table_sha256.clone())];
        report
    }
    /// The limits, in a sentence.
    fn kept(&self) -> String {
        format!(
            "Limits: progress above {}, the slowest job at most {} times as slow at the 0.9 quantile, at most {} not to fit.",
            format::float(self.limits.least_progress, 2),
            format::float(self.limits.slo, 2),
            format::percent(self.limits.most_out_of_memory)
        )
    }
}

const GROUP_COLUMNS: [&str; 14] = [
    "gpu_type",
    "gpu_type_measured",
    "job",
    "speed",
    "speed_p05",
    "speed_p95",
    "out_of_memory",
    "expected_progress",
    "slowdown90",
    "share",
    "refused",
    "basis",
    "composed_from_pairs",
    "broken",
];

const SLICE_COLUMNS: [&str; 7] = ["gpu_type", "job", "slice", "speed", "speed_p10", "memory_suffices", "basis"];

fn written(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<Vec<u8>> {
    let failed = |error: String| Error::Table { file: "answers as CSV".to_owned(), reason: error };
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(head).map_err(|error| failed(error.to_string()))?;
    for row in rows {
        out.write_record(&row).map_err(|error| failed(error.to_string()))?;
    }
    out.into_inner().map_err(|error| failed(error.to_string()))
}

/// Word for a value in JSON; empty for null.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

fn group_rows(of: &GroupAnswer) -> impl Iterator<Item = Vec<String>> {
    of.jobs.iter().map(|member| {
        let mut row = vec![csv_text(&of.gpu_type), of.gpu_type_measured.to_string(), csv_text(&member.job)];
        let speed = &member.speed;
        let numbers = [speed.mean, speed.p05, speed.p95, of.out_of_memory, of.expected_progress];
        row.extend(numbers.iter().map(|number| format!("{number:.4}")));
        row.push(slowdown(of.slowdown90));
        row.extend([of.share.to_string(), word(&of.refused), word(&of.basis), of.composed_from_pairs.to_string()]);
        row.push(broken(&of.broken));
        row
    })
}

fn slice_row(of: &SliceSpeed) -> Vec<String> {
    let mut row = [&of.gpu_type, &of.job, &of.slice].map(|name| csv_text(name)).to_vec();
    row.extend([of.speed, of.p10].map(|number| format!("{number:.4}")));
    row.push(of.memory_suffices.map_or_else(String::new, |holds| holds.to_string()));
    row.push(word(&of.basis));
    row
}

/// Broken limits as a cell of a CSV: empty where there are none.
fn broken(limits: &[BrokenLimit]) -> String {
    if limits.is_empty() { String::new() } else { csv_text(&in_words(limits)) }
}

/// A slowdown as a cell of a CSV: empty where nothing bounds it.
fn slowdown(of: Option<f64>) -> String {
    of.map_or_else(String::new, |slowdown| format!("{slowdown:.4}"))
}

/// A speed with its interval. Where it rests on nothing there is an interval alone.
fn speed(of: &SpeedAnswer, basis: Basis) -> String {
    let mean = if basis == Basis::Nothing { "not known".to_owned() } else { format::float(of.mean, 2) };
    format!("{mean} ({} to {})", format::float(of.p05, 2), format::float(of.p95, 2))
}

/// Whether a group may share, in a sentence.
fn verdict(of: &GroupAnswer) -> String {
    let jobs = format::counted(of.jobs.len() as u64, "job", "jobs");
    let progress = if of.basis == Basis::Nothing {
        "what progress they make is not known".to_owned()
    } else {
        format!("they make {} times the progress of one alone", format::float(of.expected_progress, 2))
    };
    let slowest = of.slowdown90.map_or_else(
        || "nothing bounds how slow the slowest is".to_owned(),
        |slowdown| format!("the slowest is {} times as slow at the 0.9 quantile", format::float(slowdown, 2)),
    );
    let numbers = format!("{progress}, and {slowest}");
    match of.refused {
        None => format!("These {jobs} **may share** one GPU within the limits: {numbers}."),
        Some(_) => format!("These {jobs} should **not share** one GPU ({}): {numbers}.", in_words(&of.broken)),
    }
}

fn group_section(of: &GroupAnswer) -> Section {
    let columns = vec![Column::text("Job"), Column::text("Speed, 90 %")];
    let mut table = ReportTable::new(format!("All on one {}", of.gpu_type), columns);
    for member in &of.jobs {
        table.rows.push(vec![member.job.as_str().into(), speed(&member.speed, of.basis).into()]);
    }
    let mut section = Section::new("group", "Together on one GPU")
        .with_table(table)
        .with_coverage(format!(
            "The chance that they do not fit is {}. The answer rests on: {}.",
            format::percent(of.out_of_memory),
            of.basis.in_words()
        ))
        .with_definition(
            "**Progress**: expected speeds of all together, where one job alone makes 1; what does not fit makes 1.",
        );
    if of.composed_from_pairs {
        section = section.with_definition("**Composed from couples**: every other job is taken to lengthen a step by as much as it does alone. No group of more than two teaches. It was tested on groups of three and four jobs (`model backtest interference --groups`); of more than four jobs nothing was measured: try these on one GPU first.");
        if !of.memory_known {
            section = section.with_definition("The memory of some of these jobs is not known. So the chance that they do not fit is hardly more than that of the worst couple, and may be too low: give `memory_mb` in the profiles.");
        }
    }
    section
}

fn slice_section(slices: &[SliceSpeed]) -> Section {
    let columns = vec![
        Column::text("GPU"),
        Column::text("Job"),
        Column::text("Slice"),
        Column::number("Speed"),
        Column::number("Reached, 90 %"),
        Column::text("Memory"),
        Column::text("Rests on"),
    ];
    let mut table = ReportTable::new("Speed on a slice, relative to the whole GPU", columns);
    for of in slices {
        let memory = match of.memory_suffices {
            Some(true) => "suffices",
            Some(false) => "may not suffice",
            None => "not known",
        };
        table.rows.push(vec![
            of.gpu_type.as_str().into(),
            of.job.as_str().into(),
            of.slice.as_str().into(),
            Cell::float(of.speed, 2),
            Cell::float(of.p10, 2),
            memory.into(),
            of.basis.in_words().into(),
        ]);
    }
    Section::new("slices", "On MIG slices")
        .with_table(table)
        .with_definition("**Reached, 90 %**: families that were left out fell short of it one time of ten. What was measured is told as measured.")
        .with_definition("**Memory**: what the job takes on the whole GPU against 95 % of what the name of the slice says. Many jobs take what they are given, and would do with less.")
}
