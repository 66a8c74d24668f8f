//! A condition over `job_facts` as a mask of the jobs: what `--where` selects.
//!
//! A job of which the condition is unknown (its VC, say, was not recorded) is not selected, and is counted.
//!
//! Worked number: of three jobs with 8, 1 and an unknown number of GPUs, `gpus >= 8` selects one; of one it is unknown.

use polars::sql::SQLContext;

use super::absent::{self, AbsentText};
use super::hint::failed;
use super::statement;
use super::{facts, guarded, refused, run};
use tracecast_analytics::error::Result;
use tracecast_analytics::facts::columns;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::Zone;
use tracecast_analytics::trace::Trace;

/// Jobs that a condition selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Whether each job is selected, in the order of the jobs table.
    pub mask: Vec<bool>,
    /// Jobs of which the condition is unknown. They are not selected.
    pub unknown: usize,
    /// Texts that the condition looks for and that no job has.
    pub absent: Vec<AbsentText>,
}

/// Evaluates a condition, in SQL, on the facts of every job. Times without an offset are in the trace's zone. O(jobs).
///
/// # Errors
/// When the condition is none, names a column that there is not, or is neither true nor false.
pub fn select(trace: &Trace, condition: &str) -> Result<Selection> {
    let taken = statement::condition(condition).map_err(|why| refused(condition, why))?;
    let zone = Zone::named(&trace.zone)?;
    let mut context = SQLContext::new();
    let facts = facts(trace, &zone)?;
    context.register(columns::NAME, facts.clone());
    // `job_key` beside it, so that a condition without any column is one value a job, too.
    let sql = format!("select job_key, ({}) as selected from {}", taken.text, columns::NAME);
    let tables = [facts];
    let wrong = |error| failed(condition, &error, &tables);
    let frame = guarded(|| context.execute(&sql)).map_err(wrong)?;
    let result = run(frame).map_err(wrong)?;
    let column = result.column("selected").map_err(wrong)?;
    let values = column.bool().map_err(|_| {
        refused(condition, format!("it is {}, not true or false; compare it with something", column.dtype()))
    })?;
    let mask: Vec<bool> = values.iter().map(|value| value == Some(true)).collect();
    if mask.len() != trace.jobs.len() {
        return Err(refused(condition, "it does not say one thing of each job".to_owned()));
    }
    let absent = absent::absent(&taken.sought, &tables).map_err(wrong)?;
    Ok(Selection { unknown: values.null_count(), mask, absent })
}
