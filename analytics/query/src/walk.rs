//! One walk through a parsed query for whoever looks at its parts or changes them.
//!
//! The parser's own walks are generic over who looks: each closure has all kinds of nodes compiled for it once more, a good 200,000 lines
//! of intermediate code a time, and six of them were a quarter of what there was to compile in this crate. Here the looker is behind a
//! pointer, and the walk is compiled once.
//!
//! O(nodes). Worked example: of `a > (select max(b) from t)` it comes, in this order, to a, the query, b, max(b), the source t, the table t, the end of the query, the query as an
//! expression, and the comparison.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, ObjectName, Query, TableFactor, VisitMut, VisitorMut};

/// A part of a query, as the walk comes to it.
pub(super) enum Part<'a> {
    /// A query, before what is in it.
    Query(&'a mut Query),
    /// The end of a query.
    QueryEnd,
    /// A table by its name.
    Table(&'a ObjectName),
    /// What follows FROM or JOIN, before its parts: a table, a function that reads a file, a query.
    Source(&'a TableFactor),
    /// An expression, after what is in it.
    Expr(&'a mut Expr),
}

/// Result of visiting a part: go on, or stop with a reason.
pub(super) type Look = ControlFlow<String>;

struct Walk<'a>(&'a mut dyn FnMut(Part<'_>) -> Look);

impl VisitorMut for Walk<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> Look {
        self.0(Part::Query(query))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Look {
        self.0(Part::QueryEnd)
    }

    fn pre_visit_relation(&mut self, table: &mut ObjectName) -> Look {
        self.0(Part::Table(table))
    }

    fn pre_visit_table_factor(&mut self, source: &mut TableFactor) -> Look {
        self.0(Part::Source(source))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Look {
        self.0(Part::Expr(expr))
    }
}

/// Walks through a query; the reason, if one of the looks ended it.
pub(super) fn through(query: &mut Query, look: &mut dyn FnMut(Part<'_>) -> Look) -> Result<(), String> {
    told(query.visit(&mut Walk(look)))
}

/// Walks through an expression; the reason, if one of the looks ended it.
pub(super) fn through_expr(expr: &mut Expr, look: &mut dyn FnMut(Part<'_>) -> Look) -> Result<(), String> {
    told(expr.visit(&mut Walk(look)))
}

fn told(look: Look) -> Result<(), String> {
    match look {
        ControlFlow::Break(why) => Err(why),
        ControlFlow::Continue(()) => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn the_worked_example() {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql("a > (select max(b) from t)").unwrap();
        let mut expr = parser.parse_expr().unwrap();
        let mut seen = Vec::new();
        through_expr(&mut expr, &mut |part| {
            seen.push(match part {
                Part::Query(_) => "query".to_owned(),
                Part::QueryEnd => "end".to_owned(),
                Part::Table(name) => format!("table {name}"),
                Part::Source(source) => format!("source {source}"),
                Part::Expr(expr) => expr.to_string(),
            });
            ControlFlow::Continue(())
        })
        .unwrap();
        let query = "(SELECT max(b) FROM t)";
        assert_eq!(seen, ["a", "query", "b", "max(b)", "source t", "table t", "end", query, &format!("a > {query}")]);
    }

    #[test]
    fn a_look_ends_the_walk() {
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql("a + b").unwrap().parse_expr().unwrap();
        let mut looks = 0;
        let ended = through_expr(&mut expr, &mut |_| {
            looks += 1;
            ControlFlow::Break("enough".to_owned())
        });
        assert_eq!((ended, looks), (Err("enough".to_owned()), 1));
    }
}
