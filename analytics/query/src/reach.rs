//! Limits of a query: files of this machine only, and as many rows as memory can be set aside for.
//!
//! The engine fetches whatever looks like an address (`http://…`, `s3://…`, `hf://…`), reads a device to an end that never comes, and sets memory aside for
//! all the rows that a `LIMIT` names. So a function such as `read_csv('…')` names one regular file, and a far limit of the whole query is cut from its answer.
//!
//! O(1). Worked example: `select vc from jobs order by vc limit 5 offset 99999999` runs without its limit, and rows 99,999,999 to 100,000,003 of the answer are kept.

use std::path::Path;

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, LimitClause, Query, TableFactor, TableFunctionArgs, Value};

/// Last row up to which the engine may set memory aside for a limit.
const FARTHEST_ROW: u64 = 1 << 24;

/// Whether the engine would take a path for a URL, or for more than a path.
pub(super) fn is_address(path: &str) -> bool {
    path.contains("://") || path.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// Message for a URL: what is wrong, and the remedy.
pub(super) const ADDRESS: &str =
    "nothing is fetched from a network or by an address; save it as a file, and add that with --with NAME=FILE";

/// Checks that what stands behind FROM reads a regular file of this machine, if it is a function that reads one.
pub(super) fn check_source(source: &TableFactor) -> Result<(), String> {
    let (TableFactor::Table { args: Some(TableFunctionArgs { args, .. }), .. } | TableFactor::Function { args, .. }) =
        source
    else {
        return Ok(());
    };
    for arg in args {
        let (FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))
        | FunctionArg::Named { arg: FunctionArgExpr::Expr(Expr::Value(value)), .. }) = arg
        else {
            continue;
        };
        if let Value::SingleQuotedString(path) = &value.value {
            check_path(path)?;
        }
    }
    Ok(())
}

fn check_path(path: &str) -> Result<(), String> {
    if is_address(path) {
        return Err(format!("{path}: {ADDRESS}"));
    }
    if Path::new(path).is_file() {
        return Ok(());
    }
    Err(format!("{path} is no file; name one regular file, or add it with --with NAME=FILE"))
}

/// Rows of an answer that are kept: how many are passed over, and how many follow at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) offset: usize,
    pub(super) most: usize,
}

/// Takes a far limit out of a query: the rows of its answer that are to be kept; `None` if the limit is near, or there is none.
///
/// # Errors
/// If a far limit is one of a query within another (`inner`), whose rows would have to be cut where they are needed.
pub(super) fn take_far_limit(query: &mut Query, inner: bool) -> Result<Option<Kept>, String> {
    let number = |expr: Option<&Expr>| match expr {
        Some(Expr::Value(value)) => match &value.value {
            Value::Number(digits, _) => digits.parse::<u64>().ok(),
            _ => None,
        },
        _ => None,
    };
    let (offset, most) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (offset.as_ref().map(|offset| &offset.value), limit.as_ref())
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(offset), Some(limit)),
        Some(LimitClause::LimitOffset { .. }) | None => (None, None),
    };
    let most = most.or(query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()));
    let (offset, most) = (number(offset), number(most));
    if offset.unwrap_or(0).saturating_add(most.unwrap_or(0)) <= FARTHEST_ROW {
        return Ok(None);
    }
    if inner {
        return Err(format!("a LIMIT within the query reaches at most to row {FARTHEST_ROW}; leave it out"));
    }
    (query.limit_clause, query.fetch) = (None, None);
    let rows =
        |rows: Option<u64>, without: usize| rows.map_or(without, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
    Ok(Some(Kept { offset: rows(offset, 0), most: rows(most, usize::MAX) }))
}
