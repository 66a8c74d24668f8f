//! Exact quantiles by group without the rows: each value once, with how many rows have it.
//!
//! The engine gathers all values of a group before it takes a quantile of them. Those of a trace repeat (whole seconds, a handful of sizes), so a plan that takes
//! quantiles of one number by group is rewritten: rows are counted by group and value, which streams, and the quantiles are read off the counts. With values
//! x₁ < x₂ < … of a group and N(x) of its n rows at or below x, the discrete quantile q is the first x with N(x) ≥ ⌈n q⌉; the continuous one lies between the
//! first x with N(x) > ⌊h⌋ and the first with N(x) > ⌈h⌉, where h = (n − 1) q. Counts, sums, means, least and largest of the same query are put together from
//! parts; a plan with anything else is left as it is.
//!
//! O(rows) to count, O(values × log values) for the quantiles, memory of the distinct values. Worked number: of 1, 1, 1, 5, 9 the counts up to each value are
//! 3, 4, 5; the discrete quantile 0.9 is the first with at least ⌈4.5⌉ = 5 rows, 9, and the median, h = 2, is 1.

use std::sync::Arc;

use polars::prelude::{
    AggExpr, DataType, DslPlan, Expr, FunctionExpr, LazyFrame, LazyGroupBy, NULL, PlSmallStr, QuantileMethod,
    SortMultipleOptions, SortOptions, col, len, lit, when,
};

/// The value that quantiles are of, and how many rows of a group have it.
const VALUE: &str = "__quantile_value";
const ROWS: &str = "__quantile_rows";

/// The plan with quantiles by group read off counts, where that gives the same answer; else as it was.
pub(super) fn off_counts(frame: LazyFrame) -> LazyFrame {
    match rewritten(&frame.logical_plan) {
        Some(plan) => LazyFrame::from(plan).with_optimizations(frame.get_current_optimizations()),
        None => frame,
    }
}

/// The rewritten plan, if there is something to rewrite in what its rows pass through last.
fn rewritten(plan: &DslPlan) -> Option<DslPlan> {
    match plan {
        DslPlan::IR { dsl, .. } => rewritten(dsl),
        DslPlan::GroupBy { input, keys, predicates, aggs, maintain_order: false, apply: None, options }
            if options.slice.is_none() =>
        {
            // What has no name of its own is called as the engine calls it.
            let schema = LazyFrame::from(plan.clone()).collect_schema().ok()?;
            let names: Vec<PlSmallStr> = schema.iter_names_cloned().collect();
            grouped(LazyFrame::from((**input).clone()), keys, predicates, aggs, &names)
        }
        _ => {
            let mut plan = plan.clone();
            match &mut plan {
                DslPlan::Select { input, .. }
                | DslPlan::HStack { input, .. }
                | DslPlan::Filter { input, .. }
                | DslPlan::Sort { input, .. }
                | DslPlan::Slice { input, .. }
                | DslPlan::Distinct { input, .. } => *input = Arc::new(rewritten(input)?),
                _ => return None,
            }
            Some(plan)
        }
    }
}

/// Groups that are read off counts, with columns named `columns`; `None` if an aggregate cannot be.
fn grouped(
    input: LazyFrame,
    keys: &[Expr],
    predicates: &[Expr],
    aggs: &[Expr],
    columns: &[PlSmallStr],
) -> Option<DslPlan> {
    let mut request = aggs.iter().chain(predicates).flat_map(IntoIterator::into_iter).filter_map(quantile);
    let (value, ..) = request.next()?;
    if request.any(|(other, ..)| other != value) {
        return None;
    }
    let mut parts = Parts { input: input.clone(), value, counted: vec![len().alias(ROWS)] };
    if !parts.is_number(value) {
        return None;
    }
    let names: Vec<Expr> = input.clone().select(keys).collect_schema().ok()?.iter_names_cloned().map(col).collect();
    if columns.len() != names.len() + aggs.len() {
        return None;
    }
    let called = columns.iter().skip(names.len());
    let named = aggs.iter().zip(called).map(|(expr, name)| Some(parts.of(expr)?.alias(name.clone())));
    let aggs: Vec<Expr> = named.collect::<Option<_>>()?;
    let predicates: Vec<Expr> = predicates.iter().map(|expr| parts.of(expr)).collect::<Option<_>>()?;
    let by = [keys, &[value.clone().alias(VALUE)]].concat();
    let groups = input.group_by(by).agg(parts.counted).group_by(names);
    Some(predicates.into_iter().fold(groups, LazyGroupBy::having).agg(aggs).logical_plan)
}

/// Splits a quantile into its value, its level, and whether it may lie between two values.
fn quantile(expr: &Expr) -> Option<(&Expr, f64, bool)> {
    match expr {
        Expr::Agg(AggExpr::Median(value)) => Some((value.as_ref(), 0.5, true)),
        Expr::Function { input, function: FunctionExpr::Quantile { method } } => {
            let [value, Expr::Literal(level)] = input.as_slice() else { return None };
            let between = match method {
                QuantileMethod::Linear => true,
                QuantileMethod::Equiprobable => false,
                _ => return None,
            };
            Some((value, level.to_any_value()?.extract()?, between))
        }
        _ => None,
    }
}

/// Counts by group and value, and the expressions that combine them into a group's aggregates.
struct Parts<'a> {
    input: LazyFrame,
    value: &'a Expr,
    counted: Vec<Expr>,
}

impl Parts<'_> {
    /// Whether `expr` is a number whose quantiles the engine returns as 64-bit floats.
    fn is_number(&self, expr: &Expr) -> bool {
        let schema = self.input.clone().select([expr.clone().alias(VALUE)]).collect_schema();
        let kind = schema.ok().and_then(|schema| schema.get(VALUE).cloned());
        kind.is_some_and(|kind| kind.is_integer() || kind == DataType::Float64)
    }

    /// Counts something by group and value, too.
    fn count(&mut self, part: Expr) -> Expr {
        let name = PlSmallStr::from(format!("__quantile_part_{}", self.counted.len()));
        self.counted.push(part.alias(name.clone()));
        col(name)
    }

    /// Translates an expression over the rows of a group into one over their counts.
    fn of(&mut self, expr: &Expr) -> Option<Expr> {
        if let Some((value, level, between)) = quantile(expr) {
            return (value == self.value).then(|| read_off(level, between));
        }
        Some(match expr {
            Expr::Literal(_) => expr.clone(),
            Expr::Len => col(ROWS).sum(),
            Expr::Agg(AggExpr::Count { .. } | AggExpr::Sum(_))
            | Expr::Function { function: FunctionExpr::NullCount, .. } => self.count(expr.clone()).sum(),
            Expr::Agg(AggExpr::Min { .. }) => self.count(expr.clone()).min(),
            Expr::Agg(AggExpr::Max { .. }) => self.count(expr.clone()).max(),
            Expr::Agg(AggExpr::Mean(of)) if self.is_number(of) => {
                let of = of.as_ref().clone();
                let sum = self.count(of.clone().cast(DataType::Float64).sum()).sum();
                let many = self.count(of.count()).sum();
                when(many.clone().gt(lit(0))).then(sum / many).otherwise(lit(NULL))
            }
            Expr::Alias(inner, name) => self.of(inner)?.alias(name.clone()),
            Expr::Cast { expr, dtype, options } => {
                Expr::Cast { expr: Arc::new(self.of(expr)?), dtype: dtype.clone(), options: *options }
            }
            Expr::BinaryExpr { left, op, right } => {
                Expr::BinaryExpr { left: Arc::new(self.of(left)?), op: *op, right: Arc::new(self.of(right)?) }
            }
            Expr::Ternary { predicate, truthy, falsy } => Expr::Ternary {
                predicate: Arc::new(self.of(predicate)?),
                truthy: Arc::new(self.of(truthy)?),
                falsy: Arc::new(self.of(falsy)?),
            },
            Expr::Function { input, function } => Expr::Function {
                input: input.iter().map(|expr| self.of(expr)).collect::<Option<_>>()?,
                function: function.clone(),
            },
            _ => return None,
        })
    }
}

/// A quantile, read off the values of a group and their rows.
fn read_off(level: f64, between: bool) -> Expr {
    let known = |of: &str| col(of).filter(col(VALUE).is_not_null());
    let values = known(VALUE).sort(SortOptions::default()).cast(DataType::Float64);
    let upto = known(ROWS).cast(DataType::Int64).sort_by([known(VALUE)], SortMultipleOptions::default()).cum_sum(false);
    let first = |from: Expr| values.clone().filter(from).first();
    let rows = known(ROWS).sum().cast(DataType::Float64);
    if !between {
        return first(upto.gt_eq((rows * lit(level)).ceil()));
    }
    let place = (rows - lit(1.0)) * lit(level);
    let (low, high) = (first(upto.clone().gt(place.clone().floor())), first(upto.gt(place.clone().ceil())));
    let share = place.clone() - place.floor();
    when(low.clone().eq(high.clone())).then(low.clone()).otherwise(share * (high - low.clone()) + low)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use polars::prelude::{Column, DataFrame, IntoLazy as _};
    use polars::sql::SQLContext;
    use proptest::prelude::*;

    use super::*;

    type Row = (Option<u8>, Option<i64>, Option<f64>);

    fn table(rows: &[Row]) -> LazyFrame {
        let columns = vec![
            Column::new("g".into(), rows.iter().map(|row| row.0.map(i64::from)).collect::<Vec<_>>()),
            Column::new("whole".into(), rows.iter().map(|row| row.1).collect::<Vec<_>>()),
            Column::new("x".into(), rows.iter().map(|row| row.2).collect::<Vec<_>>()),
        ];
        DataFrame::new(rows.len(), columns).unwrap().lazy()
    }

    fn planned(rows: &[Row], sql: &str) -> LazyFrame {
        let mut context = SQLContext::new();
        context.register("t", table(rows));
        context.execute(sql).unwrap()
    }

    #[test]
    fn the_worked_number() {
        let rows: Vec<Row> = [1, 1, 1, 5, 9].map(|whole| (Some(0), Some(whole), None)).to_vec();
        let sql = "select g, quantile_disc(whole, 0.9) as a, median(whole) as b from t group by g";
        let frame = off_counts(planned(&rows, sql));
        assert!(frame.describe_plan().unwrap().contains(VALUE));
        let result = frame.collect().unwrap();
        let value = |name| result.column(name).unwrap().f64().unwrap().get(0);
        assert_eq!((value("a"), value("b")), (Some(9.0), Some(1.0)));
    }

    /// A quantile without AS keeps the column name that the engine gives it; it was once lost.
    #[test]
    fn a_quantile_without_a_name_is_called_as_before() {
        let rows: Vec<Row> = [1, 1, 1, 5, 9].map(|whole| (Some(0), Some(whole), None)).to_vec();
        for sql in
            ["select g, median(whole) from t group by g", "select quantile_disc(whole, 0.5), g from t group by g"]
        {
            let frame = off_counts(planned(&rows, sql));
            assert!(frame.describe_plan().unwrap().contains(VALUE), "{sql}");
            let result = frame.collect().unwrap();
            assert_eq!(result.column("whole").unwrap().f64().unwrap().get(0), Some(1.0), "{sql}");
        }
    }

    #[test]
    fn what_cannot_be_put_together_is_left_alone() {
        for sql in [
            "select g, median(x) as a, median(whole) as b from t group by g",
            "select g, median(x) as a, count(distinct whole) as b from t group by g",
            "select g, median(x) as a, stddev(whole) as b from t group by g",
            "select g, sum(x) as a from t group by g",
            "select median(x) as a from t",
        ] {
            let plan = off_counts(planned(&[(Some(1), Some(1), Some(1.0))], sql)).describe_plan().unwrap();
            assert!(!plan.contains(VALUE), "{sql}: {plan}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn quantiles_off_counts_are_those_of_the_rows(
            rows in prop::collection::vec(
                (
                    prop::option::of(0u8..3),
                    prop::option::of(-3i64..6),
                    prop::option::of(prop_oneof![
                        6 => (-2i32..3).prop_map(f64::from),
                        3 => -1e3..1e3f64,
                        1 => Just(f64::NAN),
                        1 => Just(f64::INFINITY),
                    ]),
                ),
                0..40,
            ),
            level in prop_oneof![Just(0.0), Just(0.5), Just(0.9), Just(1.0), 0.0..=1.0f64],
        ) {
            for value in ["x", "whole", "whole / 4.0"] {
                let sql = format!(
                    "select g, quantile_disc({value}, {level:.4}) as a, quantile_cont({value}, {level:.4}) as b, median({value}) * 2 as c, \
                     count(*) as n, count(x) as k, sum(whole) as s, min(whole) as lo, max(whole) as hi, avg(whole) as m, round(avg(x), 3) as r \
                     from t where whole is null or whole < 5 group by g having count(*) > 1 order by g"
                );
                let plain = planned(&rows, &sql);
                let counted = off_counts(plain.clone());
                let plan = counted.describe_plan().unwrap();
                prop_assert!(plan.contains(VALUE), "{sql}: {plan}");
                let (plain, counted) = (plain.collect().unwrap(), counted.collect().unwrap());
                prop_assert_eq!(plain.schema(), counted.schema());
                prop_assert_eq!(plain.height(), counted.height());
                for (a, b) in plain.columns().iter().zip(counted.columns()) {
                    let name = a.name().clone();
                    let (a, b) = (a.cast(&DataType::Float64).unwrap(), b.cast(&DataType::Float64).unwrap());
                    for (a, b) in a.f64().unwrap().iter().zip(b.f64().unwrap().iter()) {
                        let same = match (a, b) {
                            (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(1.0),
                            (a, b) => a == b,
                        };
                        prop_assert!(same, "{name} of {value}: {a:?} {b:?} in {rows:?}");
                    }
                }
            }
        }
    }
}
