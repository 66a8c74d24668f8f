//! A16: fractions of GPUs: who asks for them, and how many whole GPUs sharing saves.
//!
//! Without sharing every fractional job would hold a whole GPU. The GPUs needed at a moment are then the sum of the
//! requests each rounded up; with perfect packing they are the sum of the requests. The truth lies between: packing
//! cannot always be perfect.
//!
//! Worked number: three jobs of 0.5 GPU at once: 3 GPUs without sharing, 1.5 (so 2) with it.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, share};
use crate::facts::JobFacts;
use crate::facts::occupancy::Steps;
use crate::report::format::{counted, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};

/// GPUs needed over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Needed {
    /// Mean over the observation.
    pub mean_gpus: f64,
    /// Most at one moment.
    pub peak_gpus: f64,
}

/// Jobs that ask for a fraction of a GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sharing {
    /// GPU jobs.
    pub gpu_jobs: u64,
    /// Jobs that ask for less than one GPU.
    pub fractional_jobs: u64,
    /// Share of the GPU jobs.
    pub fractional_share: f64,
    /// Jobs that ask for exactly one.
    pub one_gpu_jobs: u64,
    /// Share of the GPU jobs.
    pub one_gpu_share: f64,
    /// Jobs that ask for more than one.
    pub multi_gpu_jobs: u64,
    /// Share of the GPU jobs.
    pub multi_gpu_share: f64,
    /// Share of the fractional jobs that ask for at most so much of a GPU.
    pub request_curve: Vec<CurvePoint>,
    /// The fractions asked for.
    pub request: stats::quantile::Summary,
    /// GPU-hours of the fractional jobs.
    pub fractional_gpu_hours: f64,
    /// GPUs needed if fractional jobs are packed perfectly.
    pub with_sharing: Option<Needed>,
    /// GPUs needed if each fractional job holds a whole GPU.
    pub without_sharing: Option<Needed>,
    /// 1 − mean with sharing / mean without.
    pub saved_share: Option<f64>,
}

impl Topic for Sharing {
    const ID: &'static str = "sharing";
    const CODE: &'static str = "A16";
    const TITLE: &'static str = "Fractions of GPUs";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let sizes: Vec<f64> = (0..facts.len()).filter_map(|job| facts.gpus(job)).filter(|gpus| *gpus > 0.0).collect();
        let fractions: Vec<f64> = sizes.iter().copied().filter(|gpus| *gpus < 1.0).collect();
        let request =
            stats::quantile::Summary::new(&fractions).ok_or("no job is recorded to ask for a fraction of a GPU")?;
        let total = sizes.len() as f64;
        let one = sizes.iter().filter(|gpus| **gpus == 1.0).count();
        let multi = sizes.iter().filter(|gpus| **gpus > 1.0).count();
        let gpu_s: f64 = (0..facts.len())
            .filter(|job| facts.gpus(*job).is_some_and(|gpus| gpus > 0.0 && gpus < 1.0))
            .filter_map(|job| facts.gpu_s(job))
            .sum();
        let needed = |round: &dyn Fn(f64) -> f64| {
            let (from, to) = facts.window.filter(|(from, to)| to > from)?;
            let steps = Steps::of_intervals(facts.stretches.iter().map(|s| (s.start, s.end, round(s.gpus))));
            (!steps.is_empty())
                .then(|| Needed { mean_gpus: steps.mean(from, to).unwrap_or(0.0), peak_gpus: steps.max(from, to) })
        };
        let with_sharing = needed(&|gpus| gpus);
        let without_sharing = needed(&f64::ceil);
        let saved_share = with_sharing
            .as_ref()
            .zip(without_sharing.as_ref())
            .and_then(|(with, without)| share(with.mean_gpus, without.mean_gpus))
            .map(|kept| 1.0 - kept);
        Ok(Self {
            gpu_jobs: sizes.len() as u64,
            fractional_jobs: fractions.len() as u64,
            fractional_share: fractions.len() as f64 / total,
            one_gpu_jobs: one as u64,
            one_gpu_share: one as f64 / total,
            multi_gpu_jobs: multi as u64,
            multi_gpu_share: multi as f64 / total,
            request_curve: Ecdf::new(&fractions).map(|ecdf| ecdf.thin(100)).unwrap_or_default(),
            request,
            fractional_gpu_hours: hours(gpu_s),
            with_sharing,
            without_sharing,
            saved_share,
        })
    }

    fn section(&self) -> Section {
        let mut finding = format!(
            "**{}** of the GPU jobs ask for a fraction of one GPU, half of them for {} or less",
            percent(self.fractional_share),
            percent(self.request.p50)
        );
        if let Some(saved) = self.saved_share {
            finding.push_str(&format!(
                "; were they packed perfectly, which is the most that sharing can do, **{}** fewer GPUs would be needed on \
                 average than with a whole GPU each",
                percent(saved)
            ));
        }
        finding.push('.');
        let mut table = ReportTable::new(
            "GPUs asked for",
            vec![Column::text("Jobs that ask for"), Column::number("Jobs"), Column::number("Share of GPU jobs")],
        );
        for (what, jobs, part) in [
            ("a fraction", self.fractional_jobs, self.fractional_share),
            ("one GPU", self.one_gpu_jobs, self.one_gpu_share),
            ("several", self.multi_gpu_jobs, self.multi_gpu_share),
        ] {
            table.rows.push(vec![what.into(), int(jobs), Cell::Percent(part)]);
        }
        let chart = Chart::xy(
            "fraction-cdf",
            "Share of the fractional jobs that ask for at most so much of a GPU",
            Axis::share("Of a GPU"),
            Axis::share("Share"),
            vec![ChartSeries::new("jobs", Mark::Step, self.request_curve.iter().map(|p| (p.x, p.fraction)).collect())],
        )
        .with_reading(
            "Steps are favourite fractions. Fractions just above a half do not pair and waste what is left of the GPU.",
        );
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(Some(self.fractional_gpu_hours))
            .with_chart(chart)
            .with_table(table);
        if let (Some(with), Some(without)) = (&self.with_sharing, &self.without_sharing) {
            let mut table = ReportTable::new(
                "GPUs needed",
                vec![Column::text("If fractional jobs"), Column::number("Mean GPUs"), Column::number("Peak GPUs")],
            );
            for (what, needed) in [("are packed perfectly", with), ("hold a whole GPU each", without)] {
                table.rows.push(vec![
                    what.into(),
                    Cell::Float { value: needed.mean_gpus, digits: 1 },
                    Cell::Float { value: needed.peak_gpus, digits: 1 },
                ]);
            }
            section = section.with_table(table);
        }
        section
            .with_definition("Perfect packing is a lower bound: no GPU is left partly used.")
            .with_coverage(format!("{}.", counted(self.gpu_jobs, "GPU job", "GPU jobs")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::JobRow;

    #[test]
    fn three_halves_need_three_gpus_or_one_and_a_half() {
        let mut trace = Trace::default();
        for (key, gpus) in [("a", 0.5), ("b", 0.5), ("c", 0.5), ("d", 0.0)] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(0),
                start: Some(0),
                end: Some(10_000),
                run_s: Some(10.0),
                req_gpus: Some(gpus),
                ..JobRow::default()
            });
        }
        let result = Sharing::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((result.gpu_jobs, result.fractional_share), (3, 1.0));
        assert_eq!(result.with_sharing.unwrap().peak_gpus, 1.5);
        assert_eq!(result.without_sharing.unwrap().peak_gpus, 3.0);
        assert_eq!(result.saved_share, Some(0.5));
    }
}
