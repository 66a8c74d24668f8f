//! A query: one statement that changes nothing, the tables that it names, and an order without
//! ties.
//!
//! Worked example: `select vc, sum(gpu_hours) h from job_facts group by vc order by h desc` leaves VCs with equal hours in no order;
//! with `, 1` behind its `ORDER BY` the rows have one order.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Distinct, Expr, FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserOptions};
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use super::reach::{Kept, check_source, take_far_limit};
use super::walk::{Look, Part, through, through_expr};

/// A query, parsed as the engine will parse it.
#[derive(Debug)]
pub(super) struct Statement {
    query: Box<Query>,
    tables: Vec<String>,
    /// Names that it gives to queries within it (WITH).
    defined: Vec<String>,
    /// Rows of the answer that are kept, where its limit is too far for the engine.
    kept: Option<Kept>,
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
        through(&mut query, &mut mend)?;
        let kept = take_far_limit(&mut query, false)?;
        let (mut depth, mut tables, mut defined) = (0usize, Vec::new(), Vec::new());
        through(&mut query, &mut |part| {
            match part {
                Part::Query(query) => {
                    defined.extend(named_within(query));
                    depth += 1;
                    if let Err(why) = mend_query(query, depth > 1) {
                        return ControlFlow::Break(why);
                    }
                }
                Part::QueryEnd => depth -= 1,
                Part::Table(name) => {
                    let name = name.to_string().replace(['"', '`'], "");
                    if !tables.contains(&name) {
                        tables.push(name);
                    }
                }
                Part::Source(source) => {
                    if let Err(why) = check_source(source) {
                        return ControlFlow::Break(why);
                    }
                }
                Part::Expr(_) => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(Self { query, tables, defined, kept })
    }

    /// Rows of the answer that are kept, if not all.
    pub(super) fn kept(&self) -> Option<Kept> {
        self.kept
    }

    /// Tables that it names, those that it defines itself among them.
    pub(super) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// Whether `table` may be something else than a table of the trace: one that it defines itself, or a function such as `read_csv()`.
    pub(super) fn defines(&self, table: &str) -> bool {
        self.defined.iter().any(|name| name.eq_ignore_ascii_case(table))
            || table.to_ascii_lowercase().starts_with("read_")
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
        let calls = through(&mut self.query.clone(), &mut |part| match part {
            Part::Expr(Expr::Function(_)) => ControlFlow::Break("a call".to_owned()),
            _ => ControlFlow::Continue(()),
        });
        !self.is_plain() || calls.is_err()
    }

    /// Breaks ties by columns of the answer, each with its number (from 1) and its name, in order; those that are no keys yet.
    pub(super) fn order_fully(&mut self, columns: impl Iterator<Item = (usize, String)>) {
        order_fully(&mut self.query, columns);
    }

    /// Columns and texts that it compares them with.
    pub(super) fn sought(&self) -> Vec<(String, String)> {
        let mut result = Vec::new();
        // Nothing in it ends the walk.
        let _ = through(&mut self.query.clone(), &mut |part| seek(part, &mut result));
        result
    }

    /// The query as text.
    pub(super) fn text(&self) -> String {
        self.query.to_string()
    }
}

/// Adds the texts that an expression compares a column with: `column = 'text'`, and `column in ('text', …)`.
fn seek(part: Part<'_>, result: &mut Vec<(String, String)>) -> Look {
    let Part::Expr(expr) = part else { return ControlFlow::Continue(()) };
    let column = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
        _ => None,
    };
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let pair = |a: &Expr, b: &Expr| column(a).zip(text(b));
            result.extend(pair(left, right).or_else(|| pair(right, left)));
        }
        Expr::InList { expr, list, negated: false } => {
            let column = column(expr);
            result.extend(list.iter().filter_map(|item| column.clone().zip(text(item))));
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

fn is_all(by: &[OrderByExpr]) -> bool {
    matches!(by, [OrderByExpr { expr: Expr::Identifier(name), .. }] if name.value.eq_ignore_ascii_case("all"))
}

/// Names that a query gives to queries within it (WITH).
fn named_within(query: &Query) -> impl Iterator<Item = String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| cte.alias.name.value.clone())
}

/// Names counts and expressions, refuses a forgotten GROUP BY, orders by the aggregate that is meant, and lets no chance decide which rows an inner LIMIT leaves.
fn mend_query(query: &mut Query, inner: bool) -> Result<(), String> {
    if let SetExpr::Select(select) = query.body.as_mut() {
        name_counts(select);
        check_grouping(select)?;
        check_windows(select)?;
        name_expressions(select);
    }
    order_by_aggregates(query)?;
    if inner && (query.limit_clause.is_some() || query.fetch.is_some()) {
        if query.order_by.is_none() {
            return Err("a LIMIT within the query needs an ORDER BY, else any rows may be left".to_owned());
        }
        let columns = match query.body.as_ref() {
            SetExpr::Select(select) => numbered(select),
            _ => Vec::new(),
        };
        order_fully(query, columns.into_iter());
        take_far_limit(query, true)?;
    }
    Ok(())
}

/// Refuses windows over groups, which the engine computes within each group.
fn check_windows(select: &Select) -> Result<(), String> {
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let columns = || select.projection.iter().filter_map(expression);
    if !(grouped || columns().any(aggregates)) || !columns().any(|expr| has(expr, is_window)) {
        return Ok(());
    }
    Err("a window (OVER) beside GROUP BY would be taken within each group; group first: with a as (select state, sum(gpu_hours) as h from job_facts group by state) select state, h / sum(h) over () as share from a".to_owned())
}

/// Columns of a query with their numbers; none where a `*` hides them.
fn numbered(select: &Select) -> Vec<(usize, String)> {
    let names = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string().replace('"', "")),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    });
    let all: Option<Vec<String>> = names.collect();
    (1..).zip(all.unwrap_or_default()).collect()
}

/// Adds the columns (number and name) to the order of a query that are no keys of it yet, and drops keys that are there twice.
fn order_fully(query: &mut Query, columns: impl Iterator<Item = (usize, String)>) {
    let by_column = |column: usize| OrderByExpr {
        expr: Expr::value(Value::Number(column.to_string(), false)),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    match &mut query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(by), .. }) if !is_all(by) => {
            let mut keys: Vec<String> = Vec::new();
            by.retain(|one| {
                let key = one.expr.to_string().replace('"', "");
                let fresh = !keys.contains(&key);
                keys.push(key);
                fresh
            });
            let is_key =
                |(number, name): &(usize, String)| keys.iter().any(|key| *key == number.to_string() || key == name);
            by.extend(columns.filter(|column| !is_key(column)).map(|(number, _)| by_column(number)));
        }
        // ORDER BY ALL is an order of all columns.
        Some(_) => {}
        none => {
            let by = columns.map(|(number, _)| by_column(number)).collect();
            *none = Some(OrderBy { kind: OrderByKind::Expressions(by), interpolate: None });
        }
    }
}

/// Brings to what is meant what the engine takes for something else: `user` is a column here, and the most asked for; a literal date or time is one of the
/// trace's zone.
fn mend(part: Part<'_>) -> Look {
    let Part::Expr(expr) = part else { return ControlFlow::Continue(()) };
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
            let what = "a cast to date takes the day in UTC where a time has a zone; use submit_date, or strftime(submit, '%Y-%m-%d') for the day in the trace's zone";
            return ControlFlow::Break(what.to_owned());
        }
        _ => {}
    }
    ControlFlow::Continue(())
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

/// Whether `expr` itself, not what is in it, makes one value of many rows.
fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    function.over.is_none() && AGGREGATES.contains(&function.name.to_string().to_ascii_lowercase().as_str())
}

/// Whether `expr` itself, not what is in it, is a window.
fn is_window(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_some())
}

/// Whether `expr` or a part of it satisfies `is`.
fn has(expr: &Expr, is: fn(&Expr) -> bool) -> bool {
    let result = through_expr(&mut expr.clone(), &mut |part| match part {
        Part::Expr(expr) if is(expr) => ControlFlow::Break(String::new()),
        _ => ControlFlow::Continue(()),
    });
    result.is_err()
}

/// Whether `expr`, or a part of it, makes one value of many rows.
fn aggregates(expr: &Expr) -> bool {
    has(expr, is_aggregate)
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

/// Names each unnamed expression by its text, as other engines do. This engine names it by the
/// first column within: `avg(wait_s) / 3600` becomes `wait_s`.
fn name_expressions(select: &mut Select) {
    fn is_column(expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Nested(inner) => is_column(inner),
            _ => false,
        }
    }
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let text = expr.to_string().replace('"', "");
        // One expression for many columns.
        let many = text.to_ascii_lowercase().contains("columns(");
        if !is_column(expr) && !many {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', text) };
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

/// A condition on a row.
#[derive(Debug)]
pub(super) struct Condition {
    /// Text of the condition, for the engine.
    pub(super) text: String,
    /// Columns and texts that it compares them with.
    pub(super) sought: Vec<(String, String)>,
}

/// `condition`, if it is one condition on a row: no query within it, and nothing behind it. What is wrong otherwise.
pub(super) fn condition(condition: &str) -> Result<Condition, String> {
    let mut parser = parser(condition.trim_end().trim_end_matches(';'))?;
    let mut expr = parser.parse_expr().map_err(|error| plain(&error.to_string()))?;
    through_expr(&mut expr, &mut mend)?;
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        return Err(format!("what is {} doing after the condition?", rest.token));
    }
    let row_wise = through_expr(&mut expr, &mut |part| match part {
        Part::Query(_) => ControlFlow::Break("a query within a condition".to_owned()),
        Part::Expr(expr) if is_window(expr) => ControlFlow::Break("a window (OVER)".to_owned()),
        Part::Expr(expr) if is_aggregate(expr) => ControlFlow::Break("a sum or the like".to_owned()),
        _ => ControlFlow::Continue(()),
    });
    row_wise.map_err(|what| {
        format!("a condition looks at one job at a time, so {what} is not possible; use `tracecast query` for that")
    })?;
    let mut sought = Vec::new();
    through_expr(&mut expr, &mut |part| seek(part, &mut sought))?;
    Ok(Condition { text: expr.to_string(), sought })
}

/// A parser of `sql` as the engine has it, but for words of SQL that are columns: `end` where it ends no CASE, and any behind a point (`j.user`, `c.from`).
fn parser(sql: &str) -> Result<Parser<'static>, String> {
    let mut tokens =
        Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().map_err(|error| plain(&error.to_string()))?;
    let calls: Vec<bool> = tokens.iter().skip(1).map(|next| next.token == Token::LParen).collect();
    let (mut cases, mut behind_point) = (0usize, false);
    for (at, token) in tokens.iter_mut().enumerate() {
        let of_table = std::mem::replace(&mut behind_point, token.token == Token::Period);
        let Token::Word(word) = &mut token.token else { continue };
        let is_column = match word.keyword {
            Keyword::NoKeyword => false,
            _ if of_table => !calls.get(at).is_some_and(|call| *call),
            Keyword::CASE => {
                cases += 1;
                false
            }
            Keyword::END if cases > 0 => {
                cases -= 1;
                false
            }
            keyword => keyword == Keyword::END,
        };
        if is_column {
            *word =
                Word { value: word.value.to_ascii_lowercase(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
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
        assert_eq!(joined.tables(), ["jobs", "a", "nodes"]);
        assert!(joined.defines("A") && !joined.defines("jobs"));
    }

    #[test]
    fn ties_are_broken_where_the_engine_chooses_an_order() {
        let mut grouped =
            Statement::parse("select vc, count(*) n from jobs group by vc order by n desc limit 3").unwrap();
        assert!(grouped.is_unordered() && grouped.is_aggregate());
        grouped.order_fully([(1, "vc".to_owned()), (2, "n".to_owned())].into_iter());
        assert_eq!(grouped.text(), "SELECT vc, count(*) AS n FROM jobs GROUP BY vc ORDER BY n DESC, 1 LIMIT 3");
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
            "SELECT \"user\", count(*) AS count, sum(x) AS \"sum(x)\" FROM t GROUP BY \"user\" ORDER BY 3 DESC, 2"
        );
        assert_eq!(
            text("select end, case when a > 1 then b else c end as d from t where end > date '2024-03-04'").unwrap(),
            "SELECT \"end\", CASE WHEN a > 1 THEN b ELSE c END AS d FROM t WHERE \"end\" > '2024-03-04'"
        );
        assert_eq!(
            text("select avg(x)/3600, t.y, (z), upper(user) from t group by all").unwrap(),
            "SELECT avg(x) / 3600 AS \"avg(x) / 3600\", t.y, (z), upper(\"user\") AS \"upper(user)\" FROM t GROUP BY ALL"
        );
        assert_eq!(
            text("select j.user, case when J.End > 1 then k.from end as f from t j join s as k on j.user = k.user")
                .unwrap(),
            "SELECT j.\"user\", CASE WHEN J.\"end\" > 1 THEN k.\"from\" END AS f FROM t j JOIN s AS k ON j.\"user\" = k.\"user\""
        );
        for wrong in [
            "select user, sum(x) from t",
            "select *, sum(x) from t",
            "select user from t group by user order by sum(x)",
            "select cast(submit as date) from t",
            "select submit::date from t",
            "select a, sum(sum(x)) over () from t group by a",
            "select a, count(*) / sum(count(*)) over () from t group by a",
            "select a, count(*) over () from t group by a",
            "select sum(sum(x)) over () from t",
            "select b from (select a as b, sum(1) over () from t group by a) as s",
            "select a from (select user as a from t group by user order by sum(x)) as s",
            "select a from (select a from t limit 3) as s",
        ] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        assert!(text("select sum(x), max(y) - min(y) from t").is_ok());
        assert!(text("select x, sum(x) over (partition by y) from t").is_ok());
    }

    #[test]
    fn texts_are_sought_where_a_column_is_compared_with_them() {
        let sought = |sql: &str| -> Vec<String> {
            let result = Statement::parse(sql).unwrap().sought();
            result.into_iter().map(|(column, text)| format!("{column}={text}")).collect()
        };
        let all = "select a from t join s on t.b = s.b where 'x' = a and t.b in ('y', 'z', 1) and c <> 'w' and d not in ('v') and gpus = 1";
        assert_eq!(sought(all), ["a=x", "b=y", "b=z"]);
        assert_eq!(sought("with u as (select a from t where a = 'x') select count(*) from u"), ["a=x"]);
        assert_eq!(condition("user = 'x' or gpus > 1").unwrap().sought, [("user".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn a_far_limit_is_cut_from_the_answer() {
        let kept = |sql: &str| Statement::parse(sql).map(|statement| (statement.text(), statement.kept()));
        let rows = |offset, most| Some(Kept { offset, most });
        let all = "SELECT a FROM t ORDER BY a";
        for (limit, expected) in [
            ("limit 99999999999999", rows(0, 99_999_999_999_999)),
            ("limit 5 offset 99999999", rows(99_999_999, 5)),
            ("offset 18446744073709551615", rows(usize::MAX, usize::MAX)),
            ("limit 99999999, 5", rows(99_999_999, 5)),
            ("fetch first 99999999 rows only", rows(0, 99_999_999)),
        ] {
            assert_eq!(kept(&format!("select a from t order by a {limit}")), Ok((all.to_owned(), expected)), "{limit}");
        }
        assert_eq!(kept("select a from t limit 5 offset 3"), Ok(("SELECT a FROM t LIMIT 5 OFFSET 3".to_owned(), None)));
        assert!(
            kept("select a from (select a from t order by a limit 99999999) as s")
                .unwrap_err()
                .contains("leave it out")
        );
    }

    #[test]
    fn files_of_this_machine_alone_are_read() {
        let told = |path: &str| {
            let within = format!("select (select max(a) from read_csv('{path}')) as a from t");
            let of = |sql: &str| Statement::parse(sql).map_or_else(|why| why, |_| String::new());
            let plain = of(&format!("with u as (select * from READ_Parquet('{path}')) select * from u"));
            assert_eq!(of(&within), plain);
            plain
        };
        for address in
            ["http://127.0.0.1:1/x", "HTTPS://a.b/c", "s3://a/b", "hf://a/b", "gs://a", "abfss://a", "FILE:/etc/x"]
        {
            assert!(told(address).contains("nothing is fetched from a network"), "{address}");
        }
        for path in ["/dev/zero", "/dev", "no/such/file.csv", "src/*.rs", ""] {
            assert!(told(path).contains("no file"), "{path}");
        }
        assert_eq!(told("Cargo.toml"), "");
    }

    #[test]
    fn a_condition_is_about_one_row() {
        assert_eq!(condition("vc = 'vision' and user <> 'x'").unwrap().text, "vc = 'vision' AND \"user\" <> 'x'");
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
