//! How GPUs are had, in words: reserved, bought or rented by the hour.
//!
//! O(1). Worked example: 14 of `example.8v100`, reserved for 12 months, are `14 × example.8v100 for 1 year`.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use super::supply::Term;
use crate::plan::Effect;

/// How GPUs are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoughtAs {
    /// Reserved for some months.
    Reserved,
    /// Bought.
    Owned,
    /// By the hour.
    OnDemand,
    /// By the hour, until they are taken away.
    Spot,
}

impl BoughtAs {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Owned => "bought",
            Self::OnDemand => "on demand",
            Self::Spot => "spot",
        }
    }
}

impl Term {
    /// How it is had, and for how many months if it is reserved.
    pub fn how(self) -> (BoughtAs, Option<f64>) {
        match self {
            Self::Reserved(months) => (BoughtAs::Reserved, Some(months)),
            Self::Owned => (BoughtAs::Owned, None),
        }
    }
}

/// Months in words: whole years as such.
pub(crate) fn months_in_words(months: f64) -> String {
    let years = months / 12.0;
    if years.fract() == 0.0 && years >= 1.0 {
        format::counted(years as u64, "year", "years")
    } else {
        format!("{} months", format::compact(months))
    }
}

/// So many of an offer, with the term they are reserved for, as a sentence has them.
pub(crate) fn offers_in_words(count: u32, offer: &str, how: BoughtAs, months: Option<f64>) -> String {
    let what = match (how, months) {
        (BoughtAs::Reserved, Some(months)) => format!(" for {}", months_in_words(months)),
        _ => String::new(),
    };
    format!("{} × {offer}{what}", format::count(u64::from(count)))
}

/// What the mix or plan to come changes, on the weeks that it was chosen on.
pub(crate) fn to_come(what: &str, unit: String, change: f64) -> Effect {
    Effect {
        what: format!("Cost of the GPUs with the {what} to come, on all weeks of the record"),
        unit,
        change,
        low: None,
        high: None,
        interval: "none: these are the weeks that it was chosen on".to_owned(),
    }
}
