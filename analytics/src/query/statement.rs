//! What is asked: one query that changes nothing, which tables it names, and an order that leaves no ties to chance.
//!
//! Worked example: `select vc, sum(gpu_hours) h from job_facts group by vc order by h desc` leaves VCs with equal hours in no order;
//! with `, 1, 2` behind its `ORDER BY` the rows have one order.

use std::ops::ControlFlow;

use sqlparser::ast::{
    DataType, Distinct, Expr, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut, visit_expressions,
    visit_expressions_mut, visit_relations,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserOptions};
use sqlparser::tokenizer::{Token, Tokenizer, Word};

/// A query, parsed as the engine will parse it.
#[derive(Debug)]
pub(super) struct Statement {
    query: Box<Query>,
    tables: Vec<String>,
}

impl Statement {
    /// The single query that `sql` is, or why it is none.
    pub(super) fn parse(sql: &str) -> Result<Self, String> {
        let mut statements = parser(sql)?.parse_statements().map_err(|error| plain(&error.to_string()))?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err("write one query, such as select count(*) from job_facts".to_owned());
        };
        let sqlparser::ast::Statement::Query(mut query) = statement else {
            return Err("only queries are answered (SELECT, or WITH … SELECT); nothing can be changed".to_owned());
        };
        mend(&mut query)?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_counts(select);
            check_grouping(select)?;
        }
        order_by_aggregates(&mut query)?;
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

/// Brings to what is meant what the engine takes for something else: `user` is a column here, and the most asked for; a literal date or time is one of the
/// trace's zone.
fn mend(part: &mut impl VisitMut) -> Result<(), String> {
    let outcome = visit_expressions_mut(part, |expr: &mut Expr| {
        match expr {
            Expr::Function(function)
                if matches!(function.args, FunctionArguments::None)
                    && function.name.to_string().eq_ignore_ascii_case("user") =>
            {
                *expr = Expr::Identifier(Ident::with_quote('"', "user"));
            }
            // As a text it is compared in the zone of what it is compared with.
            Expr::TypedString(typed) => *expr = Expr::Value(typed.value.clone()),
            Expr::Cast { data_type: DataType::Date, .. } => {
                let what = "a cast to date takes the day in UTC; use submit_date, or strftime(submit, '%Y-%m-%d') for the day in the trace's zone";
                return ControlFlow::Break(what.to_owned());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match outcome {
        ControlFlow::Break(why) => Err(why),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Functions that make one value of many rows.
const AGGREGATES: [&str; 20] = [
    "array_agg",
    "avg",
    "corr",
    "count",
    "covar",
    "covar_pop",
    "covar_samp",
    "first",
    "last",
    "max",
    "median",
    "min",
    "quantile_cont",
    "quantile_disc",
    "stddev",
    "stddev_samp",
    "stdev",
    "sum",
    "var",
    "variance",
];

/// Whether `expr` makes one value of many rows.
fn aggregates(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part: &Expr| match part {
        Expr::Function(function) if function.over.is_none() => {
            let name = function.name.to_string().to_ascii_lowercase();
            if AGGREGATES.contains(&name.as_str()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The expression of a column of an answer; `None` for `*`.
fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// `count(*)` is called `count`, as elsewhere.
fn name_counts(select: &mut Select) {
    let counts = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Function(function)) if function.over.is_none() && function.to_string().eq_ignore_ascii_case("count(*)"));
    if select.projection.iter().filter(|item| counts(item)).count() != 1 {
        return;
    }
    for item in &mut select.projection {
        if counts(item)
            && let SelectItem::UnnamedExpr(expr) = item
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new("count") };
        }
    }
}

/// Refuses a column beside an aggregate where nothing is grouped: the engine would repeat the aggregate in every row.
fn check_grouping(select: &Select) -> Result<(), String> {
    if !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty()) {
        return Ok(());
    }
    let columns = || select.projection.iter();
    let lone = columns().find(|item| match expression(item) {
        Some(expr) => !aggregates(expr) && !matches!(expr, Expr::Value(_)),
        None => true,
    });
    match lone {
        Some(lone) if columns().filter_map(expression).any(aggregates) => {
            Err(format!("{lone} is neither grouped nor aggregated; add GROUP BY {lone}, or aggregate it"))
        }
        _ => Ok(()),
    }
}

/// An aggregate to order by is one of the answer's columns, by its number: the engine would take it over the answer's rows.
fn order_by_aggregates(query: &mut Query) -> Result<(), String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let columns: Vec<Option<String>> =
        select.projection.iter().map(|item| expression(item).map(ToString::to_string)).collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) = &mut query.order_by else { return Ok(()) };
    for one in by.iter_mut().filter(|one| aggregates(&one.expr)) {
        let text = one.expr.to_string();
        let place = columns.iter().position(|column| column.as_deref() == Some(text.as_str()));
        // Behind a `*` the number of a column is not known here.
        let Some(place) = place.filter(|place| columns.iter().take(*place).all(Option::is_some)) else {
            return Err(format!(
                "name what the rows are ordered by among the columns: {text} as value … order by value"
            ));
        };
        one.expr = Expr::value(Value::Number((place + 1).to_string(), false));
    }
    Ok(())
}

/// `condition` as the engine takes it, if it is one condition on a row: no query within it, and nothing behind it. What is wrong otherwise.
pub(super) fn condition(condition: &str) -> Result<String, String> {
    let mut parser = parser(condition)?;
    let mut expr = parser.parse_expr().map_err(|error| plain(&error.to_string()))?;
    mend(&mut expr)?;
    if aggregates(&expr) {
        return Err("a condition looks at one job at a time, so sums and the like are not possible; use `tracecast query` for that".to_owned());
    }
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
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

/// A parser of `sql` as the engine has it, but for `end`: where it ends no CASE, it is the column.
fn parser(sql: &str) -> Result<Parser<'static>, String> {
    let mut tokens =
        Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().map_err(|error| plain(&error.to_string()))?;
    let mut cases = 0usize;
    for token in &mut tokens {
        let Token::Word(word) = &mut token.token else { continue };
        match word.keyword {
            Keyword::CASE => cases += 1,
            Keyword::END if cases > 0 => cases -= 1,
            Keyword::END => {
                *word =
                    Word { value: word.value.to_ascii_lowercase(), quote_style: Some('"'), keyword: Keyword::NoKeyword }
            }
            _ => {}
        }
    }
    let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
    Ok(Parser::new(&GenericDialect {}).with_options(options).with_tokens_with_locations(tokens))
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
    fn what_is_meant_is_what_the_engine_gets() {
        let text = |sql: &str| Statement::parse(sql).map(|statement| statement.text());
        assert_eq!(
            text("select user, count(*), sum(x) from t group by user order by sum(x) desc, count(*)").unwrap(),
            "SELECT \"user\", count(*) AS count, sum(x) FROM t GROUP BY \"user\" ORDER BY 3 DESC, 2"
        );
        assert_eq!(
            text("select end, case when a > 1 then b else c end as d from t where end > date '2024-03-04'").unwrap(),
            "SELECT \"end\", CASE WHEN a > 1 THEN b ELSE c END AS d FROM t WHERE \"end\" > '2024-03-04'"
        );
        for wrong in [
            "select user, sum(x) from t",
            "select *, sum(x) from t",
            "select user from t group by user order by sum(x)",
            "select cast(submit as date) from t",
            "select submit::date from t",
        ] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        assert!(text("select sum(x), max(y) - min(y) from t").is_ok());
        assert!(text("select x, sum(x) over (partition by y) from t").is_ok());
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
            "sum(gpus) > 3",
        ] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }
}
