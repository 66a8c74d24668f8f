//! The answer of `predict interference`, as JSON (`predict-interference/1`), as CSV and as a report.
//!
//! Worked example: two couples, one of which may share, are "**1** of 2 couples may share within the limits".

use serde::Serialize;
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::predictor::{SharingJob, SharingPredictor, SharingTrained, ToMeasure};
use super::{PairAnswer, Refused, SharingLimits, SpeedAnswer, pair};
use crate::error::{Error, Result};

/// Version of the JSON.
pub const SCHEMA: &str = "predict-interference/1";

/// Answers and what they rest on, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SharingAnswer {
    /// Version of this form.
    pub schema: String,
    /// What the predictor was trained on.
    pub trained: SharingTrained,
    /// What sharing must keep.
    pub limits: SharingLimits,
    /// The answers, in order of rank where candidates were asked about, else as asked.
    pub pairs: Vec<PairAnswer>,
    /// What to measure of a job first, and what is known then, in the order of `pairs`; empty where all its pairs are measured, null where that was not asked.
    pub to_measure: Option<Vec<ToMeasure>>,
}

/// The JSON Schema of [`SharingAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(SharingAnswer).to_value()
}

impl SharingAnswer {
    /// An answer.
    pub fn new(predictor: &SharingPredictor, limits: SharingLimits, pairs: Vec<PairAnswer>) -> Self {
        Self { schema: SCHEMA.to_owned(), trained: predictor.trained().clone(), limits, pairs, to_measure: None }
    }

    /// What to measure of a job first, with the forecasts of these pairs. Where all its pairs are measured, a sentence in `notes` says so.
    ///
    /// # Errors
    /// As [`SharingPredictor::to_measure`].
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

    /// As CSV, a row for each couple.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let failed = |error: String| Error::Table { file: "answers as CSV".to_owned(), reason: error };
        let mut out = csv::Writer::from_writer(Vec::new());
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
        ];
        out.write_record(head).map_err(|error| failed(error.to_string()))?;
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for of in &self.pairs {
            let mut row: Vec<String> = [&of.gpu_type, &of.job_a, &of.job_b].map(|name| csv_text(name)).to_vec();
            let numbers = [
                of.speed_a.mean,
                of.speed_a.p05,
                of.speed_a.p95,
                of.speed_b.mean,
                of.speed_b.p05,
                of.speed_b.p95,
                of.out_of_memory,
                of.expected_progress,
                of.slowdown90,
            ];
            row.extend(numbers.iter().map(|number| format!("{number:.4}")));
            row.push(of.share.to_string());
            row.push(word(serde_json::to_value(of.refused).unwrap_or_default()));
            row.push(word(serde_json::to_value(of.basis).unwrap_or_default()));
            out.write_record(&row).map_err(|error| failed(error.to_string()))?;
        }
        out.into_inner().map_err(|error| failed(error.to_string()))
    }

    /// Where one job was asked about beside several, best first: what to do with it.
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

    /// As a report.
    pub fn report(&self, notes: Vec<String>) -> Report {
        let mut report = Report::new(
            "Who can share a GPU with whom?",
            "forecast speeds beside each other, as shares of the speed alone",
        );
        let count = self.pairs.iter().filter(|of| of.share).count();
        let couples = format::counted(self.pairs.len() as u64, "couple", "couples");
        report.summary.extend(self.best());
        if !self.pairs.is_empty() {
            report.summary.push(format!("**{count}** of {couples} may share within the limits."));
        }
        let to_measure = self.to_measure.as_deref().unwrap_or_default();
        if let (Some(first), Some(last)) = (to_measure.first(), to_measure.last()) {
            let beside: Vec<String> = to_measure.iter().map(|of| format!("**{}**", of.job_b)).collect();
            report
                .summary
                .insert(0, format!("Measure {} beside {} first, in this order.", first.job_a, beside.join(", then ")));
            report.summary.insert(1, format!(
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
        let speed = |of: &SpeedAnswer| {
            format!("{} ({} to {})", format::float(of.mean, 2), format::float(of.p05, 2), format::float(of.p95, 2))
        };
        for of in &self.pairs {
            table.rows.push(vec![
                of.gpu_type.as_str().into(),
                of.job_a.as_str().into(),
                of.job_b.as_str().into(),
                speed(&of.speed_a).into(),
                speed(&of.speed_b).into(),
                Cell::share(of.out_of_memory),
                Cell::float(of.expected_progress, 2),
                Cell::float(of.slowdown90, 2),
                of.refused.map_or("yes", Refused::in_words).into(),
                of.basis.in_words().into(),
            ]);
        }
        let limits = format!(
            "Limits: progress above {}, the worse of the two at most {} times as slow at the 0.9 quantile, at most {} not to fit.",
            format::float(self.limits.least_progress, 2),
            format::float(self.limits.slo, 2),
            format::percent(self.limits.most_out_of_memory)
        );
        if !self.pairs.is_empty() {
            report.sections.push(
                Section::new("couples", "Forecasts")
                    .with_table(table)
                    .with_definition("**Progress**: expected speeds of both together, where one job alone makes 1; what does not fit makes 1.")
                    .with_definition(limits),
            );
        }
        report.provenance =
            vec![("Form".to_owned(), self.schema.clone()), ("Table".to_owned(), self.trained.table_sha256.clone())];
        report
    }
}
