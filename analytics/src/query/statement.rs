//! What is asked: one query that changes nothing, which tables it names, and an order that leaves no ties to chance.
//!
//! Worked example: `select vc, sum(gpu_hours) h from job_facts group by vc order by h desc` leaves VCs with equal hours in no order;
//! with `, 1, 2` behind its `ORDER BY` the rows have one order.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, SetExpr, TableFactor, Value, VisitMut, visit_expressions, visit_expressions_mut,
    visit_relations,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserOptions};

/// A query, parsed as the engine will parse it.
#[derive(Debug)]
pub(super) struct Statement {
    query: Box<Query>,
    tables: Vec<String>,
}

impl Statement {
    /// The single query that `sql` is, or why it is none.
    pub(super) fn parse(sql: &str) -> Result<Self, String> {
        let mut statements = parser()
            .try_with_sql(sql)
            .and_then(|mut parser| parser.parse_statements())
            .map_err(|error| plain(&error.to_string()))?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err("write one query, such as select count(*) from job_facts".to_owned());
        };
        let sqlparser::ast::Statement::Query(mut query) = statement else {
            return Err("only queries are answered (SELECT, or WITH … SELECT); nothing can be changed".to_owned());
        };
        name_columns(&mut query);
        let mut tables = Vec::new();
        let _ = visit_relations(&query, |relation: &ObjectName| {
            let name = relation.to_string().replace(['"', '`'], "");
            if !tables.contains(&name) {
                tables.push(name);
            }
            ControlFlow::<()>::Continue(())
        });
        let ctes = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|cte| cte.alias.name.value.clone())
            .collect::<Vec<_>>();
        // A function such as read_csv() stands where a table does.
        tables.retain(|table| !ctes.contains(table) && !table.to_ascii_lowercase().starts_with("read_"));
        Ok(Self { query, tables })
    }

    /// Tables that it names, without those that it defines itself.
    pub(super) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// Whether it names the table `name`.
    pub(super) fn names(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table == name)
    }

    /// The single table and nothing that groups or joins: rows come in the table's own order.
    fn is_plain(&self) -> bool {
        let SetExpr::Select(select) = self.query.body.as_ref() else { return false };
        let grouped = match &select.group_by {
            GroupByExpr::Expressions(by, _) => !by.is_empty(),
            GroupByExpr::All(_) => true,
        };
        let distinct = matches!(&select.distinct, Some(Distinct::Distinct | Distinct::On(_)));
        let [from] = select.from.as_slice() else { return select.from.is_empty() };
        self.query.with.is_none()
            && !grouped
            && !distinct
            && from.joins.is_empty()
            && matches!(from.relation, TableFactor::Table { .. })
    }

    /// Whether its rows, or those that its `ORDER BY` leaves tied, come in an order that the engine may choose.
    pub(super) fn is_unordered(&self) -> bool {
        !self.is_plain() || self.query.order_by.is_some()
    }

    /// Whether its numbers may be sums, whose last digits depend on the order of adding.
    pub(super) fn is_aggregate(&self) -> bool {
        let calls = visit_expressions(&self.query, |expr: &Expr| match expr {
            Expr::Function(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        !self.is_plain() || calls.is_break()
    }

    /// Breaks ties by columns of the answer, counted from 1.
    pub(super) fn order_fully(&mut self, columns: impl Iterator<Item = usize>) {
        let by_column = |column: usize| OrderByExpr {
            expr: Expr::value(Value::Number(column.to_string(), false)),
            options: OrderByOptions { asc: None, nulls_first: None },
            with_fill: None,
        };
        match &mut self.query.order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) if !is_all(by) => {
                by.extend(columns.map(by_column));
            }
            // ORDER BY ALL is an order of all columns.
            Some(_) => {}
            none => {
                *none = Some(OrderBy {
                    kind: OrderByKind::Expressions(columns.map(by_column).collect()),
                    interpolate: None,
                });
            }
        }
    }

    /// The query as text.
    pub(super) fn text(&self) -> String {
        self.query.to_string()
    }
}

fn is_all(by: &[OrderByExpr]) -> bool {
    matches!(by, [OrderByExpr { expr: Expr::Identifier(name), .. }] if name.value.eq_ignore_ascii_case("all"))
}

/// SQL has a function `user`, which is written without parentheses; here it is a column, and the most asked for.
fn name_columns(part: &mut impl VisitMut) {
    let _ = visit_expressions_mut(part, |expr: &mut Expr| {
        if let Expr::Function(function) = expr
            && matches!(function.args, FunctionArguments::None)
            && function.name.to_string().eq_ignore_ascii_case("user")
        {
            *expr = Expr::Identifier(Ident::with_quote('"', "user"));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// `condition` as the engine takes it, if it is one condition on a row: no query within it, and nothing behind it. What is wrong otherwise.
pub(super) fn condition(condition: &str) -> Result<String, String> {
    let mut parser = parser().try_with_sql(condition).map_err(|error| plain(&error.to_string()))?;
    let mut expr = parser.parse_expr().map_err(|error| plain(&error.to_string()))?;
    name_columns(&mut expr);
    let rest = parser.peek_token();
    if rest.token != sqlparser::tokenizer::Token::EOF {
        return Err(format!("what is {} doing after the condition?", rest.token));
    }
    let beyond = visit_expressions(&expr, |part: &Expr| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            ControlFlow::Break("a query within a condition")
        }
        Expr::Function(function) if function.over.is_some() => ControlFlow::Break("a window (OVER)"),
        _ => ControlFlow::Continue(()),
    });
    match beyond {
        ControlFlow::Break(what) => Err(format!(
            "a condition looks at one job at a time, so {what} is not possible; use `tracecast query` for that"
        )),
        ControlFlow::Continue(()) => Ok(expr.to_string()),
    }
}

fn parser() -> Parser<'static> {
    Parser::new(&GenericDialect {}).with_options(ParserOptions { trailing_commas: true, ..ParserOptions::default() })
}

/// A message of the parser without its prefix.
fn plain(message: &str) -> String {
    message.trim_start_matches("sql parser error: ").to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_single_queries_are_taken() {
        for sql in ["", "drop table jobs", "select 1; select 2", "create table a as select 1", "selec 1"] {
            assert!(Statement::parse(sql).is_err(), "{sql}");
        }
        let joined =
            Statement::parse("with a as (select * from jobs) select * from a join \"nodes\" n on a.vc = n.vc").unwrap();
        assert_eq!(joined.tables(), ["jobs", "nodes"]);
    }

    #[test]
    fn ties_are_broken_where_the_engine_chooses_an_order() {
        let mut grouped =
            Statement::parse("select vc, count(*) n from jobs group by vc order by n desc limit 3").unwrap();
        assert!(grouped.is_unordered() && grouped.is_aggregate());
        grouped.order_fully(1..=2);
        assert_eq!(grouped.text(), "SELECT vc, count(*) AS n FROM jobs GROUP BY vc ORDER BY n DESC, 1, 2 LIMIT 3");
        let plain = Statement::parse("select job_key, run_s from jobs where run_s > 3").unwrap();
        assert!(!plain.is_unordered() && !plain.is_aggregate());
        assert!(Statement::parse("select sum(run_s) from jobs").unwrap().is_aggregate());
        assert!(Statement::parse("select job_key from jobs order by submit").unwrap().is_unordered());
    }

    #[test]
    fn a_condition_is_about_one_row() {
        assert_eq!(condition("vc = 'vision' and user <> 'x'").unwrap(), "vc = 'vision' AND \"user\" <> 'x'");
        for wrong in [
            "",
            "gpus >= ",
            "gpus > 1; drop table jobs",
            "gpus > (select 1)",
            "vc in (select vc from jobs)",
            "row_number() over () < 3",
        ] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }
}
