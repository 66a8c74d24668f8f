//! Messages for failed queries: the engine's own words where they help, and the columns that may be
//! meant.
//!
//! Columns that may be meant are those whose name is part of the unknown one, or has it as a part, then those with the least Damerau-Levenshtein distance, as far as
//! that is at most half of the longer name. O(columns). Worked example: of `end_state`, `state` and `end` are parts; of `waits`, `wait_s` is one letter away.

use std::collections::BTreeSet;

use polars::prelude::{LazyFrame, PolarsError};
use strsim::damerau_levenshtein;

use super::{guarded, refused};
use tracecast_analytics::error::Error;

/// Columns that are named at most.
const MOST_NAMED: usize = 4;
/// Shortest name that counts as a part of another.
const LEAST_PART: usize = 3;
/// Hint that points to the list of all columns.
const LISTED: &str = "without a query, `tracecast query SOURCE` lists all columns, and texts stand in single quotes";

/// Error for a query that failed with `error`; `tables` are those that the query names.
pub(super) fn failed(sql: &str, error: &PolarsError, tables: &[LazyFrame]) -> Error {
    // The plan in which it failed, and what to write in Python, help nobody here.
    let text = error.to_string();
    let hints = ["\n\nResolved plan until failure", "\n\nThe current offset in the file"];
    let why = hints.iter().fold(text.as_str(), |why, hint| why.split(hint).next().unwrap_or_default()).trim();
    if let Some((what, _)) = why.split_once("; valid columns: [") {
        // The engine's list is of fifty names, and its guess of one.
        return refused(sql, format!("{what}{}; {LISTED}", meant(what, tables)));
    }
    let why = match why.split_once(". It's possible that multiple expressions") {
        Some((what, _)) => format!("{what}; give one of the columns another name with AS"),
        None => remedy(why).map_or_else(|| why.to_owned(), |remedy| format!("{why}; {remedy}")),
    };
    refused(sql, why)
}

/// Suggests what to write in place of what the engine cannot do.
fn remedy(why: &str) -> Option<String> {
    if let Some(rest) = why.strip_prefix("unsupported function '") {
        let function = rest.split('\'').next().unwrap_or_default().to_ascii_lowercase();
        return Some(quantile(&function).unwrap_or_else(|| {
            "for the calendar use submit_date, submit_week, submit_month or extract(... from submit)".to_owned()
        }));
    }
    let said = if why.contains("not supported for dtype `str`") {
        "a column of a file of your own is text if one of its cells is no number, such as n/a, or if all are empty"
    } else if why.contains("cannot compare 'date/datetime/time' to a string value") {
        "write a date as '2024-03-10' and a time as '2024-03-10 08:00:00'"
    } else if why.contains("cannot compare string with numeric type") {
        "a number stands without quotes, and lengths of time are seconds: wait_s > 3600 for an hour"
    } else {
        return None;
    };
    Some(said.to_owned())
}

/// Suggests a replacement for another engine's quantile function; `None` for any other function.
fn quantile(function: &str) -> Option<String> {
    let percentile = function.strip_prefix('p').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let level = match percentile.filter(|digits| !digits.is_empty()) {
        Some("100") => "1.0".to_owned(),
        Some(digits) => format!("0.{digits}"),
        None if ["percentile", "quantile", "perc"].iter().any(|name| function.contains(name)) => "0.95".to_owned(),
        None => return None,
    };
    Some(format!("write quantile_disc(x, {level}) for the quantile {level} of x"))
}

/// The columns of `tables` that may be meant by the unknown one that `what` names in double quotes; empty if none is alike.
fn meant(what: &str, tables: &[LazyFrame]) -> String {
    let Some(wanted) = what.split('"').nth(1).map(str::to_ascii_lowercase) else { return String::new() };
    let mut columns: BTreeSet<String> = BTreeSet::new();
    for table in tables {
        if let Ok(schema) = guarded(|| table.clone().collect_schema()) {
            columns.extend(schema.iter_names().map(ToString::to_string));
        }
    }
    let near = nearest(&wanted, &columns);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// The columns that may be meant by `wanted`, the likeliest first.
fn nearest<'c>(wanted: &str, columns: &'c BTreeSet<String>) -> Vec<&'c str> {
    let rank = |column: &'c String| {
        let part = column.len() >= LEAST_PART && wanted.contains(column.as_str())
            || wanted.len() >= LEAST_PART && column.contains(wanted);
        let apart = damerau_levenshtein(wanted, column);
        (part || 2 * apart <= wanted.len().max(column.len())).then_some((!part, apart, column.as_str()))
    };
    let mut ranked: Vec<(bool, usize, &str)> = columns.iter().filter_map(rank).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(MOST_NAMED).map(|(_, _, column)| column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_that_may_be_meant() {
        let columns: BTreeSet<String> =
            ["submit", "submit_date", "start", "end", "state", "wait_s", "run_s", "vc"].map(str::to_owned).into();
        assert_eq!(nearest("submit_time", &columns), ["submit", "submit_date"]);
        assert_eq!(nearest("end_state", &columns), ["state", "end"]);
        assert_eq!(nearest("waits", &columns), ["wait_s"]);
        assert_eq!(nearest("mib_of_something", &columns), [""; 0]);
    }

    #[test]
    fn quantiles_of_other_engines() {
        let of = |function: &str| quantile(function).unwrap_or_default();
        assert!(of("percentile_cont").contains("quantile_disc(x, 0.95)"));
        assert!(of("p95").contains("quantile_disc(x, 0.95)") && of("p5").contains("quantile_disc(x, 0.5)"));
        assert!(of("p99").contains("0.99") && of("p100").contains("1.0") && of("approx_quantile").contains("0.95"));
        assert_eq!((of("pi"), of("p")), (String::new(), String::new()));
    }
}
