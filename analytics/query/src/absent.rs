//! Texts that a query compares a column with and that no row has: misspelt names, most often, of which the answer would show nothing.
//!
//! Looked for are `column = 'text'` and `column in ('text', …)` anywhere in a query. A text is absent if a table that the query names has a column of that name
//! with texts, and no such table has a row with that text. What is alike comes first by the Damerau-Levenshtein distance, then by name.
//!
//! O(rows of the columns that are compared). Worked example: with the VCs core, speech and vision, `vc in ('vison', 'core')` has one absent text, `vison`; `vision`, one
//! letter away, is the nearest value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use polars::prelude::{DataType, LazyFrame, PolarsResult, col};
use strsim::damerau_levenshtein;

use super::{guarded, run};

/// Values that are named of a column at most.
const MOST_NAMED: usize = 8;

/// A text that a query compares a column with and that no row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentText {
    /// The column.
    pub column: String,
    /// The text.
    pub text: String,
    /// Values that the column has, the nearest first: at most eight.
    pub nearest: Vec<String>,
    /// Number of distinct values in the column.
    pub values: usize,
}

impl fmt::Display for AbsentText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no row has {} = '{}'", self.column, self.text)?;
        let named = self.nearest.join(", ");
        match self.values {
            0 => Ok(()),
            values if values == self.nearest.len() => write!(f, "; there are {named}"),
            values => write!(f, "; of {values} values the nearest are {named}"),
        }
    }
}

/// Returns the pairs of column and text in `sought` that no row of `frames` holds, in their order.
pub(super) fn absent(sought: &[(String, String)], frames: &[LazyFrame]) -> PolarsResult<Vec<AbsentText>> {
    let columns: BTreeSet<&str> = sought.iter().map(|(column, _)| column.as_str()).collect();
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for frame in frames {
        let schema = guarded(|| frame.clone().collect_schema())?;
        for column in columns.iter().copied().filter(|name| schema.get(name) == Some(&DataType::String)) {
            let result = run(frame.clone().select([col(column).unique()]))?;
            let texts = result.column(column)?.str()?.iter().flatten().map(str::to_owned);
            known.entry(column).or_default().extend(texts);
        }
    }
    let absent = sought.iter().filter_map(|(column, text)| {
        let values = known.get(column.as_str()).filter(|values| !values.contains(text))?;
        let mut nearest: Vec<(usize, &String)> =
            values.iter().map(|value| (damerau_levenshtein(text, value), value)).collect();
        nearest.sort_unstable();
        let named = nearest.iter().take(MOST_NAMED).map(|(_, value)| (*value).clone());
        Some(AbsentText { column: column.clone(), text: text.clone(), nearest: named.collect(), values: values.len() })
    });
    Ok(absent.collect())
}
