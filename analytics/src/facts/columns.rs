//! `job_facts`: what is known and derived of each job, as columns for queries and for other programs.
//!
//! The columns of the `jobs` table come first; `run_s`, `state` and `censored` among them are those of [`JobFacts`], which brings sources to
//! one meaning. Derived columns follow. Times are moments in UTC; the calendar is the trace's own zone's.
//!
//! `gpu_hours = gpus × run_s / 3600`, `jct_s = wait_s + run_s` for jobs that ended.
//!
//! Hours are rounded to a multiple of 2⁻³² h (0.8 µs): sums of such numbers are exact below 2²¹ hours (2 million), so that no order of adding
//! them changes a digit.
//!
//! Worked number: 8 GPUs for 1,800 s are `gpu_s` 14,400 and `gpu_hours` 4; submitted on Friday 2017-10-06 at 09:30, `submit_week` is Monday
//! 2017-10-02, `submit_weekday` 5 and `submit_hour` 9.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{JobFacts, SizeClass};
use crate::KWH_J;
use crate::error::{Error, Result};
use crate::schema::{JobTable, Resource, Table};
use crate::storage;
use crate::time::{HOUR_S, LocalTime};

/// Name of the table.
pub const NAME: &str = "job_facts";

/// The step of which hours are multiples.
const HOURS_STEP: f64 = 1.0 / (1u64 << 32) as f64;

/// A column of [`NAME`].
#[derive(Debug, Clone, Copy)]
struct FactColumn {
    /// Name, with its unit as a suffix.
    name: &'static str,
    /// Meaning, one sentence.
    doc: &'static str,
    value: Value,
}

/// Type of a column, with the function that finds a job's value.
#[derive(Debug, Clone, Copy)]
enum Value {
    Text(fn(&JobFacts<'_>, usize) -> Option<&'static str>),
    Num(fn(&JobFacts<'_>, usize) -> Option<f64>),
    Flag(fn(&JobFacts<'_>, usize) -> Option<bool>),
    /// Hour of the local calendar of the job's submission, where hours are true.
    Hour(fn(LocalTime) -> i64),
    /// A calendar day, from the local calendar of its submission, where dates are true.
    Day(fn(LocalTime) -> i64),
}

/// Columns of the `jobs` table that have one meaning for all sources here.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the methods are of one lifetime, the pointers of any")]
const DERIVED: [FactColumn; 3] = [
    column(
        "state",
        "Canonical state; `unknown` where the source says none.",
        Value::Text(|facts, job| Some(facts.state(job).id())),
    ),
    column(
        "run_s",
        "Time its attempts ran, seconds: from their timestamps, else the source's own figure; until the end of the record for a job that still runs. Time in which it was suspended is not in it.",
        Value::Num(|facts, job| facts.run_s(job)),
    ),
    column(
        "censored",
        "Whether its run was cut off by the end of the record.",
        Value::Flag(|facts, job| Some(facts.is_censored(job))),
    ),
];

/// Columns that the `jobs` table lacks.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the methods are of one lifetime, the pointers of any")]
const ADDED: [FactColumn; 14] = [
    column("gpus", "GPUs given, else asked for; 0 is a job without GPUs.", Value::Num(|facts, job| facts.gpus(job))),
    column(
        "size_class",
        "Class of its GPUs: `0`, `<1`, `1`, `2-4`, `5-8` or `>8`.",
        Value::Text(|facts, job| facts.gpus(job).map(|gpus| SizeClass::new(gpus).id())),
    ),
    column("wait_s", "From submission to the first start, seconds.", Value::Num(|facts, job| facts.wait_s(job))),
    column("jct_s", "Job completion time, seconds: wait plus run of a job that ended.", Value::Num(jct_s)),
    column(
        "gpu_s",
        "GPUs times the time they were held (run and suspension), GPU-seconds.",
        Value::Num(|facts, job| facts.gpu_s(job)),
    ),
    column(
        "gpu_hours",
        "GPUs times the time they were held (run and suspension), GPU-hours.",
        Value::Num(|facts, job| facts.gpu_s(job).map(hours)),
    ),
    column(
        "cpu_hours",
        "CPU cores (given, else asked for) times run, core-hours.",
        Value::Num(|facts, job| Some(hours(Resource::Cpus.given(&facts.trace.jobs, job)? * facts.run_s(job)?))),
    ),
    column(
        "energy_kwh",
        "Energy as the source reports it, kWh.",
        Value::Num(|facts, job| facts.trace.jobs.reported_energy_j.get(job).map(|joules| joules / KWH_J)),
    ),
    column(
        "waited_gpu_hours",
        "GPUs times wait, GPU-hours.",
        Value::Num(|facts, job| Some(hours(facts.gpus(job)? * facts.wait_s(job)?))),
    ),
    column(
        "submit_hour",
        "Hour of the day of its submission, 0 to 23, in the trace's zone.",
        Value::Hour(|local| i64::from(local.hour)),
    ),
    column(
        "submit_weekday",
        "Weekday of its submission, 1 (Monday) to 7, in the trace's zone.",
        Value::Hour(|local| i64::from(local.weekday) + 1),
    ),
    column("submit_date", "Day of its submission, in the trace's zone.", Value::Day(|local| local.day)),
    column(
        "submit_week",
        "Monday of the week of its submission, in the trace's zone.",
        Value::Day(|local| local.day - i64::from(local.weekday)),
    ),
    column(
        "submit_month",
        "First day of the month of its submission, in the trace's zone.",
        Value::Day(LocalTime::first_of_month),
    ),
];

const fn column(name: &'static str, doc: &'static str, value: Value) -> FactColumn {
    FactColumn { name, doc, value }
}

fn hours(seconds: f64) -> f64 {
    (seconds / HOUR_S / HOURS_STEP).round() * HOURS_STEP
}

fn jct_s(facts: &JobFacts<'_>, job: usize) -> Option<f64> {
    let ended = facts.trace.jobs.end.get(job).is_some() && !facts.is_censored(job);
    if ended { Some(facts.wait_s(job)? + facts.run_s(job)?) } else { None }
}

/// Name and meaning of every column, in order.
pub fn columns() -> Vec<(&'static str, &'static str)> {
    let of_jobs = JobTable::COLUMNS
        .iter()
        .map(|column| (column.name, derived(column.name).map_or(column.doc, |derived| derived.doc)));
    of_jobs.chain(ADDED.iter().map(|column| (column.name, column.doc))).collect()
}

fn derived(name: &str) -> Option<&'static FactColumn> {
    DERIVED.iter().find(|column| column.name == name)
}

/// The Arrow schema of [`batch`].
pub fn schema() -> SchemaRef {
    let fields = storage::schema::<JobTable>().fields().iter().cloned().collect::<Vec<_>>();
    let added = ADDED.iter().map(|column| {
        let kind = match column.value {
            Value::Text(_) => DataType::Utf8,
            Value::Num(_) => DataType::Float64,
            Value::Flag(_) => DataType::Boolean,
            Value::Hour(_) => DataType::Int64,
            Value::Day(_) => DataType::Date32,
        };
        Arc::new(Field::new(column.name, kind, true))
    });
    Arc::new(Schema::new(fields.into_iter().chain(added).collect::<Vec<_>>()))
}

/// The facts of jobs `from..to`, in the order of the jobs table. O(columns × jobs).
///
/// # Errors
/// When the columns differ in length, which no table allows.
pub fn batch(facts: &JobFacts<'_>, from: usize, to: usize) -> Result<RecordBatch> {
    let jobs = storage::batch(&facts.trace.jobs, from, to)?;
    let mut arrays: Vec<ArrayRef> = JobTable::COLUMNS
        .iter()
        .zip(jobs.columns())
        .map(|(column, array)| derived(column.name).map_or_else(|| array.clone(), |column| of(column, facts, from, to)))
        .collect();
    arrays.extend(ADDED.iter().map(|column| of(column, facts, from, to)));
    RecordBatch::try_new(schema(), arrays).map_err(|e| Error::Arrow { table: NAME, source: e })
}

fn of(column: &FactColumn, facts: &JobFacts<'_>, from: usize, to: usize) -> ArrayRef {
    let rows = from..to;
    let mut calendar = facts.zone.calendar();
    let mut submitted = |job: usize, known: bool| {
        facts.trace.jobs.submit.get(job).filter(|_| known).map(|submit| calendar.local(submit))
    };
    match column.value {
        Value::Text(value) => Arc::new(rows.map(|job| value(facts, job)).collect::<StringArray>()),
        Value::Num(value) => Arc::new(rows.map(|job| value(facts, job)).collect::<Float64Array>()),
        Value::Flag(value) => Arc::new(rows.map(|job| value(facts, job)).collect::<BooleanArray>()),
        Value::Hour(value) => {
            let known = facts.trace.basis.has_calendar();
            Arc::new(rows.map(|job| submitted(job, known).map(value)).collect::<Int64Array>())
        }
        Value::Day(value) => {
            let known = facts.trace.basis.has_dates();
            let day = |local| i32::try_from(value(local)).ok();
            Arc::new(rows.map(|job| submitted(job, known).and_then(day)).collect::<Date32Array>())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::AsArray as _;
    use arrow::datatypes::{Date32Type, Float64Type, Int64Type};

    use super::*;
    use crate::schema::JobRow;
    use crate::time::parse_with_offset;
    use crate::trace::Trace;

    fn trace() -> Trace {
        let mut trace = Trace { zone: "America/Los_Angeles".to_owned(), ..Trace::default() };
        let at = |text: &str| parse_with_offset(text);
        // Friday 09:30 in Los Angeles is 16:30 UTC.
        trace.jobs.push(JobRow {
            job_key: Some("a".into()),
            submit: at("2017-10-06T16:30:00Z"),
            start: at("2017-10-06T16:40:00Z"),
            end: at("2017-10-06T17:10:00Z"),
            run_s: Some(1_800.0),
            req_gpus: Some(4.0),
            alloc_gpus: Some(8.0),
            alloc_cpus: Some(2.0),
            reported_energy_j: Some(7_200_000.0),
            state: Some("completed".into()),
            ..JobRow::default()
        });
        trace.jobs.push(JobRow { job_key: Some("b".into()), ..JobRow::default() });
        trace
    }

    #[test]
    fn the_worked_number_holds_and_what_is_unknown_stays_so() {
        let trace = trace();
        let batch = batch(&JobFacts::new(&trace), 0, 2).unwrap();
        let num = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
            column.iter().collect::<Vec<_>>()
        };
        assert_eq!(num("gpu_s"), [Some(14_400.0), None]);
        assert_eq!(num("gpu_hours"), [Some(4.0), None]);
        assert_eq!(num("cpu_hours"), [Some(1.0), None]);
        assert_eq!(num("wait_s"), [Some(600.0), None]);
        assert_eq!(num("jct_s"), [Some(2_400.0), None]);
        assert_eq!(num("waited_gpu_hours").first().unwrap().unwrap(), hours(4_800.0));
        assert_eq!(num("energy_kwh"), [Some(2.0), None]);
        let int = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().next().unwrap();
        assert_eq!((int("submit_hour"), int("submit_weekday")), (Some(9), Some(5)));
        let day = |name: &str| {
            batch.column_by_name(name).unwrap().as_primitive::<Date32Type>().value_as_date(0).unwrap().to_string()
        };
        assert_eq!(
            (day("submit_date"), day("submit_week"), day("submit_month")),
            ("2017-10-06".into(), "2017-10-02".into(), "2017-10-01".into())
        );
        assert_eq!(batch.column_by_name("state").unwrap().as_string::<i32>().value(1), "unknown");
    }

    #[test]
    fn hours_add_up_to_the_same_in_any_order() {
        let parts: Vec<f64> = (1..10_000u32).map(|s| hours(f64::from(s) * 0.37)).collect();
        let forwards: f64 = parts.iter().sum();
        let backwards: f64 = parts.iter().rev().sum();
        assert_eq!(forwards.to_bits(), backwards.to_bits());
    }

    #[test]
    fn columns_and_schema_agree() {
        let schema = schema();
        let names: Vec<&str> = columns().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>());
    }
}
