//! What a forecast is worth to a plan: its outcome on held-out time where it is driven by the naive
//! rule, by the trained model, and by the truth.
//!
//! ```text
//! gap closed   (naive − model) / (naive − truth), of sums over the same blocks of time; less is
//!              better. Its interval is that of blocks drawn anew ([`interval`](crate::interval));
//!              where in a draw the truth is no better than the naive rule, nothing is closed
//! used         chosen beforehand, on the time that the plan is chosen on: the model where it is
//!              better there, else the naive rule
//! ```
//!
//! O(draws × blocks). Worked number: on two days jobs waited 100 and 60 h in all by the naive rule, 70
//! and 50 h by the model, and 40 and 40 h with runs known. The model closes (160 − 120) / (160 − 80),
//! a half of the gap.

pub mod runs;

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_replay::compare::IntervalEstimate;

use crate::interval;

/// What drives a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastUsed {
    /// The naive rule.
    Naive,
    /// The trained model.
    Model,
    /// Neither: the plan goes by no forecast.
    None,
}

/// Outcomes of a plan in a block of time by what drives it; less is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Driven {
    /// Outcome by the naive rule.
    pub naive: f64,
    /// Outcome by the trained model; `None` where there is none.
    pub model: Option<f64>,
    /// Outcome with the truth known.
    pub truth: f64,
}

impl Driven {
    /// Pairs the outcomes of blocks of time, which stand in the same order.
    pub fn blocks(naive: &[f64], model: Option<&[f64]>, truth: &[f64]) -> Vec<Self> {
        let block = |(at, (naive, truth)): (usize, (&f64, &f64))| Self {
            naive: *naive,
            model: model.and_then(|model| model.get(at)).copied(),
            truth: *truth,
        };
        naive.iter().zip(truth).enumerate().map(block).collect()
    }
}

/// What is forecast, and how a plan is measured by it, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForecastWords<'a> {
    /// Thing that is forecast, such as `run times`.
    pub forecast: &'a str,
    /// The naive rule, such as `the mean of the last two runs`.
    pub naive: &'a str,
    /// The model, such as `the trained model`.
    pub model: &'a str,
    /// Outcome of the plan, such as `mean wait of the later jobs`.
    pub metric: &'a str,
    /// Unit of the outcome; `s` for seconds.
    pub unit: &'a str,
}

/// Worth of a forecast to a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ForecastWorth {
    /// Thing that is forecast.
    pub forecast: String,
    /// The naive rule in words.
    pub naive_rule: String,
    /// The model in words.
    pub model_rule: String,
    /// Outcome of the plan on held-out time that is compared; less is better.
    pub metric: String,
    /// Unit of the outcome.
    pub unit: String,
    /// Outcome driven by the naive rule.
    pub naive: f64,
    /// Outcome driven by the trained model; null where there is none.
    pub model: Option<f64>,
    /// Outcome driven by the truth.
    pub truth: f64,
    /// Share that the model closes of the gap from the naive rule to the truth; null with a reason
    /// in `no_gap`.
    pub gap_closed: Option<IntervalEstimate>,
    /// Why no share of the gap is told.
    pub no_gap: Option<String>,
    /// What the plan that was tested goes by, chosen on earlier time. Whether the plan is advised is for
    /// its verdict.
    pub used: ForecastUsed,
    /// Why the plan does not use the model, or there is none.
    pub why: Option<String>,
}

impl ForecastWorth {
    /// Compares outcomes block by block; the outcomes told are sums over blocks divided by `per`,
    /// such as the number of jobs that waited.
    fn new(words: &ForecastWords<'_>, blocks: &[Driven], per: f64, used: ForecastUsed, why: Option<String>) -> Self {
        let model_of = |block: &Driven| block.model.unwrap_or(block.naive);
        let sums = |held: &mut dyn Iterator<Item = usize>| {
            held.filter_map(|at| blocks.get(at)).fold([0.0; 3], |[naive, model, truth], block| {
                [naive + block.naive, model + model_of(block), truth + block.truth]
            })
        };
        let [naive, model, truth] = sums(&mut (0..blocks.len()));
        let has_model = blocks.iter().all(|block| block.model.is_some());
        let no_gap = match () {
            () if !has_model => Some("there is no model"),
            () if naive <= truth => Some("the truth is no better than the naive rule"),
            () if blocks.len() < 2 => Some("one case has no interval"),
            () => None,
        };
        let closed = || {
            let [closed] = interval::drawn(blocks.len(), &|held| {
                let [naive, model, truth] = sums(held);
                [if naive > truth { (naive - model) / (naive - truth) } else { 0.0 }]
            });
            closed
        };
        let per = if per > 0.0 { per } else { 1.0 };
        Self {
            forecast: words.forecast.to_owned(),
            naive_rule: words.naive.to_owned(),
            model_rule: words.model.to_owned(),
            metric: words.metric.to_owned(),
            unit: words.unit.to_owned(),
            naive: naive / per,
            model: has_model.then_some(model / per),
            truth: truth / per,
            gap_closed: no_gap.is_none().then(closed),
            no_gap: no_gap.map(str::to_owned),
            used,
            why,
        }
    }

    /// Describes the outcomes, the share of the gap closed, and what the plan uses.
    pub fn sentence(&self) -> String {
        let amount = |value: f64| match self.unit.as_str() {
            "s" => format::duration(value),
            unit => format!("{} {unit}", format::float(value, if value.abs() < 100.0 { 2 } else { 0 })),
        };
        let model = self.model.map_or_else(String::new, |model| format!("{} by {}, ", amount(model), self.model_rule));
        let closed = match (&self.gap_closed, &self.no_gap) {
            (Some(closed), _) => format!(
                ": the model closes {} ({} to {}) of the gap",
                format::percent(closed.value),
                format::percent(closed.low),
                format::percent(closed.high)
            ),
            (None, Some(why)) if self.model.is_some() => format!(": no share of the gap is told, as {why}"),
            (None, _) => String::new(),
        };
        let used = match self.used {
            ForecastUsed::Naive => "The plan that was tested goes by the naive rule",
            ForecastUsed::Model => "The plan that was tested goes by the model",
            ForecastUsed::None => "The plan goes by neither",
        };
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!(
            "What the forecast of {} is worth, in {}: {} by {}, {model}{} with the truth known{closed}. {used}{why}.",
            self.forecast,
            self.metric,
            amount(self.naive),
            self.naive_rule,
            amount(self.truth),
        )
    }
}

/// What an answer tells of the forecast that its plan rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Forecasting {
    /// Worth of the forecast that the plan rests on; null where it rests on none.
    pub forecast_worth: Option<ForecastWorth>,
    /// Why the plan rests on no forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_forecast: Option<String>,
}

impl Forecasting {
    /// Compares outcomes block by block by what drives a plan; the outcomes told are sums over blocks
    /// divided by `per`, such as the number of jobs that waited. `why` says why the plan does not use
    /// the model.
    pub fn new(
        words: &ForecastWords<'_>,
        blocks: &[Driven],
        per: f64,
        used: ForecastUsed,
        why: Option<String>,
    ) -> Self {
        if blocks.is_empty() {
            return Self::none("there is no later time to compare forecasts on");
        }
        let worth = ForecastWorth::new(words, blocks, per, used, why);
        Self { forecast_worth: Some(worth), no_forecast: None }
    }

    /// A plan that rests on no forecast, and why.
    pub fn none(why: &str) -> Self {
        Self { forecast_worth: None, no_forecast: Some(why.to_owned()) }
    }

    /// Describes it in a sentence.
    pub fn sentence(&self) -> Option<String> {
        match (&self.forecast_worth, &self.no_forecast) {
            (Some(worth), _) => Some(worth.sentence()),
            (None, Some(why)) => Some(format!("No forecast: {why}.")),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const WORDS: ForecastWords<'static> = ForecastWords {
        forecast: "run times",
        naive: "the mean of the last two runs",
        model: "the trained model",
        metric: "mean wait of the later jobs",
        unit: "h",
    };

    fn worth(blocks: &[(f64, Option<f64>, f64)]) -> ForecastWorth {
        let driven = |&(naive, model, truth): &(f64, Option<f64>, f64)| Driven { naive, model, truth };
        let blocks: Vec<Driven> = blocks.iter().map(driven).collect();
        ForecastWorth::new(&WORDS, &blocks, 4.0, ForecastUsed::Model, None)
    }

    #[test]
    fn the_worked_number() {
        let result = worth(&[(100.0, Some(70.0), 40.0), (60.0, Some(50.0), 40.0)]);
        let closed = result.gap_closed.unwrap();
        assert!((closed.value - 0.5).abs() < 1e-12 && (closed.low - 0.5).abs() < 1e-12, "{closed:?}");
        assert_eq!((result.naive, result.model, result.truth), (40.0, Some(30.0), 20.0));
    }

    #[test]
    fn nothing_is_closed_where_there_is_no_gap_or_no_model() {
        let no_gap = |worth: ForecastWorth| worth.no_gap.unwrap();
        assert!(no_gap(worth(&[(10.0, Some(5.0), 10.0); 2])).contains("no better"));
        assert!(no_gap(worth(&[(10.0, Some(5.0), 4.0)])).contains("one case"));
        assert_eq!(Forecasting::new(&WORDS, &[], 1.0, ForecastUsed::Naive, None).forecast_worth, None);
        let without = worth(&[(10.0, None, 5.0)]);
        assert_eq!((without.gap_closed, without.model, without.naive), (None, None, 2.5));
        // One day without a gap: a quarter of the draws of two blocks hold that day alone.
        let closed = worth(&[(10.0, Some(8.0), 6.0), (10.0, Some(10.0), 10.0)]).gap_closed.unwrap();
        assert!((closed.value - 0.5).abs() < 1e-12 && closed.low == 0.0, "{closed:?}");
        // A model that is worse than the naive rule closes less than nothing.
        assert!(worth(&[(10.0, Some(14.0), 6.0); 2]).gap_closed.unwrap().value < 0.0);
    }
}
