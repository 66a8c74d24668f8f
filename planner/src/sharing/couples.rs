//! Measured couples of job types that may share a GPU, without a trace (`measured-couples/1`).
//!
//! Slowdown is 1 / speed beside the other. A couple is listed if neither is slowed beyond the SLO,
//! the most throughput together first; couples in which a job was measured faster than alone come
//! last, as its speed alone was probably measured too low. Nothing is forecast: a couple that was
//! not measured is not listed.
//!
//! O(pairs × log pairs). Worked number: speeds of 0.8 and 0.9 are slowdowns of 1.25 and 1.11, and
//! 1.7 times the throughput of one job alone.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format::{count, counted, float};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section};
use tracecast_predictors::interference::table::SharingTable;

use super::evidence::gpu_named;
use crate::error::Result;
use crate::plan::forecast::Forecasting;

/// Version of the JSON.
pub const SCHEMA: &str = "measured-couples/1";

/// Two job types that were measured on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredCouple {
    /// GPU type.
    pub gpu_type: String,
    /// One job type.
    pub job_a: String,
    /// The other.
    pub job_b: String,
    /// How many times as slow as alone the one is.
    pub slowdown_a: f64,
    /// How many times as slow as alone the other is.
    pub slowdown_b: f64,
    /// Throughput of both together, where one alone makes 1.
    pub throughput: f64,
}

/// The couples that keep an SLO.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredCouples {
    /// Version of this form.
    pub schema: String,
    /// How many times as slow each of the two may be.
    pub slo: f64,
    /// Couples that were measured.
    pub measured: u64,
    /// Measured couples that did not fit into the memory of the GPU.
    pub did_not_fit: u64,
    /// Measured couples in which a job was faster beside the other than alone.
    pub faster_than_alone: u64,
    /// Couples that keep the SLO, most throughput first; those of `faster_than_alone` come last.
    pub couples: Vec<MeasuredCouple>,
    /// Reasons not to rely on the list, a sentence each.
    pub cautions: Vec<String>,
    /// Notes on the files, a sentence each.
    pub notes: Vec<String>,
    /// Worth of the forecast that the list rests on.
    #[serde(flatten)]
    pub forecasting: Forecasting,
}

/// The JSON Schema of [`MeasuredCouples`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(MeasuredCouples).to_value()
}

impl MeasuredCouple {
    /// True if a job was measured faster beside the other than alone.
    fn is_faster_than_alone(&self) -> bool {
        self.slowdown_a.min(self.slowdown_b) < 1.0
    }
}

impl MeasuredCouples {
    /// Lists the couples of a table on some GPU types, or on all if none is named.
    ///
    /// # Errors
    /// If nothing was measured on a GPU type that is named.
    pub fn from_table(table: &SharingTable, slo: f64, gpu_types: &[String]) -> Result<Self> {
        let gpus: Vec<usize> = gpu_types.iter().map(|name| gpu_named(table, name)).collect::<Result<_>>()?;
        let pairs = || table.pairs().iter().filter(|pair| gpus.is_empty() || gpus.contains(&pair.gpu));
        let job = |place: usize| table.jobs().get(place).cloned().unwrap_or_default();
        let mut couples: Vec<MeasuredCouple> = pairs()
            .filter_map(|pair| {
                let speeds = pair.speeds?;
                let (slowdown_a, slowdown_b) = (1.0 / speeds.a, 1.0 / speeds.b);
                (slowdown_a.max(slowdown_b) <= slo).then(|| MeasuredCouple {
                    gpu_type: table.gpu_types().get(pair.gpu).cloned().unwrap_or_default(),
                    job_a: job(pair.a),
                    job_b: job(pair.b),
                    slowdown_a,
                    slowdown_b,
                    throughput: speeds.a + speeds.b,
                })
            })
            .collect();
        // Stable: equals stay in the order of GPU types and job types.
        couples.sort_by(|a, b| {
            a.is_faster_than_alone().cmp(&b.is_faster_than_alone()).then(b.throughput.total_cmp(&a.throughput))
        });
        let faster =
            pairs().filter(|pair| pair.speeds.is_some_and(|speeds| speeds.a.max(speeds.b) > 1.0)).count() as u64;
        let cautions = (faster > 0).then(|| {
            format!(
                "In {} a job is faster beside the other than alone, so its speed alone was probably measured too low. \
                 **Measure these again**: they come last in the list.",
                counted(faster, "measured couple", "measured couples")
            )
        });
        Ok(Self {
            schema: SCHEMA.to_owned(),
            slo,
            measured: pairs().count() as u64,
            did_not_fit: pairs().filter(|pair| pair.speeds.is_none()).count() as u64,
            faster_than_alone: faster,
            couples,
            cautions: cautions.into_iter().collect(),
            notes: table.notes.clone(),
            forecasting: Forecasting::none("the couples were measured"),
        })
    }

    /// Returns the report.
    pub fn report(&self) -> Report {
        let subtitle =
            format!("{}; {} did not fit", counted(self.measured, "couple", "couples"), count(self.did_not_fit));
        let mut report = Report::new("Which job types may share a GPU, as measured?", subtitle);
        report.notes.clone_from(&self.notes);
        report.cautions.clone_from(&self.cautions);
        let sound = self.couples.iter().filter(|couple| !couple.is_faster_than_alone()).count() as u64;
        let mut finding = format!(
            "In **{}** of {} neither job is slowed beyond {} times{}.",
            count(sound),
            counted(self.measured, "measured couple", "measured couples"),
            float(self.slo, 2),
            match self.couples.len() as u64 - sound {
                0 => String::new(),
                doubtful => format!(", and in {} more by measurements that are doubtful", count(doubtful)),
            }
        );
        let mut section = Section::new("couples", "Couples that keep the SLO");
        if let Some(best) = self.couples.first() {
            finding.push_str(&format!(
                " The best is {} beside {}: **{} times** the throughput of one alone.",
                best.job_a,
                best.job_b,
                float(best.throughput, 2)
            ));
            let mut columns = vec![Column::text("GPU type"), Column::text("Job"), Column::text("Other job")];
            columns.extend(["Slowdown", "Slowdown of the other", "Throughput together"].map(Column::number));
            let mut table = ReportTable::new("Most throughput together first, doubtful measurements last", columns);
            for couple in &self.couples {
                let names = [&couple.gpu_type, &couple.job_a, &couple.job_b].map(|name| Cell::from(name.as_str()));
                let numbers =
                    [couple.slowdown_a, couple.slowdown_b, couple.throughput].map(|value| Cell::float(value, 2));
                table.rows.push(names.into_iter().chain(numbers).collect());
            }
            section = section.with_table(table);
        }
        report.summary.push(finding);
        report.sections.push(section.with_definition(
            "Slowdown: time beside the other over time alone. Throughput together: the sum of both speeds, where one job \
             alone makes 1. Only measured couples are listed; `model predict interference` forecasts others.",
        ));
        report
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_predictors::interference::table::{SharedPair, Speeds};

    use super::*;

    #[test]
    fn the_worked_number_and_what_is_left_out() {
        let mut table = SharingTable::new();
        let gpus = ["v", "w"].map(|name| table.gpu_type(name));
        let [a, b, c] = ["a", "b", "c"].map(|name| table.job(name));
        let pair = |gpu, a, b, speeds: Option<(f64, f64)>| SharedPair {
            gpu,
            a,
            b,
            speeds: speeds.map(|(a, b)| Speeds { a, b }),
        };
        table.add_pairs([
            pair(gpus[0], a, b, Some((0.8, 0.9))),
            // Slowed 1.43 times; did not fit.
            pair(gpus[0], a, c, Some((0.7, 1.0))),
            pair(gpus[0], b, c, None),
            pair(gpus[1], a, b, Some((0.95, 0.9))),
            // Slowed 2 times, and faster than alone.
            pair(gpus[1], b, c, Some((0.5, 1.1))),
        ]);
        let result = MeasuredCouples::from_table(&table, 1.25, &[]).unwrap();
        let row = |c: &MeasuredCouple| (c.gpu_type.clone(), c.slowdown_a, (c.throughput * 1e9).round());
        let rows: Vec<_> = result.couples.iter().map(row).collect();
        assert_eq!(rows, [("w".to_owned(), 1.0 / 0.95, 1.85e9), ("v".to_owned(), 1.25, 1.7e9)]);
        assert_eq!(
            (result.measured, result.did_not_fit, result.faster_than_alone, result.cautions.len()),
            (5, 1, 1, 1)
        );
        // Slowed 2 times is listed at an SLO of 2, and last, as the other job was faster than
        // alone.
        let lax = MeasuredCouples::from_table(&table, 2.0, &[]).unwrap();
        let throughputs: Vec<f64> = lax.couples.iter().map(|couple| (couple.throughput * 1e9).round() / 1e9).collect();
        assert_eq!(throughputs, [1.85, 1.7, 1.7, 1.6]);
        let on_v = MeasuredCouples::from_table(&table, 1.2, &["v".to_owned()]).unwrap();
        assert_eq!((on_v.measured, on_v.couples.len(), on_v.report().sections.len()), (3, 0, 1));
        assert!(MeasuredCouples::from_table(&table, 1.25, &["x".to_owned()]).is_err());
    }
}
