//! Who may share with whom: the rule of a plan, and those it is held against.
//!
//! A policy is a table over kinds (which new job may go beside which running one, and which is preferred), as a scheduler is told of job types and not of single runs.
//!
//! | name | shares if | prefers |
//! |---|---|---|
//! | `exclusive` | never | |
//! | `gandiva` | always; after 5 min the new job is taken out if both together make no more than one alone | the GPU of the lowest number |
//! | `lucid` | the scores of both sum to at most 2, and they probably fit; a score is 0, 1 or 2 for a mean forecast speed beside others of at least 0.95, at least 0.85, and less | the lowest sum |
//! | `horus_published`, `horus` | always; the cost is 1.3 × memory + g / 100 + 1 | the lowest cost |
//! | `mean_forecast` | the expected speeds sum to more than 1 | the highest sum |
//! | `forecast` | expected progress above a threshold, the 0.9 quantile of the slowdown of the worse within the SLO, chance not to fit within its bound | expected progress |
//! | `forecast_trial` | the same; after 10 min the new job is taken out if a speed is below 1 / SLO or both make no more than one | expected progress |
//! | `oracle` | the measured speeds sum to more than 1, and the worse is within the SLO | measured progress |
//!
//! **Gandiva** (Xiao et al., OSDI 2018) packs when there are more jobs than GPUs, watches, and rolls back. What it learned of one job it does not carry to another of the same
//! type. **Lucid** (Hu et al., ASPLOS 2023) packs indolently; its conditions on durations and on arrivals are left out, its bound on memory is the chance not to fit, as devices differ,
//! and scores are of forecast speeds. **Horus** (Yeung et al., TPDS 2022): with x = utilisation of both − 100, g is 1.6 x above 0 and |x| below, and memory is
//! in MB as the authors' simulator has it, so that memory decides alone; corrected, memory is the share of the largest known job's double and g is 0 below 0, as
//! a GPU that is less full is no worse. Horus needs the utilisation of every job type; where one is unknown it has no say.
//!
//! O(kinds²). Worked number: speeds of 0.97 beside others on average give a score of 0, of 0.80 one of 2: together 2, and Lucid packs them.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_predictors::interference::share::{SharingLimits, merit};
use tracecast_predictors::interference::table::Quantity;

use super::engine::{ALONE, SharingRule, Trial};
use super::evidence::{Forecasts, PairEvidence};

/// Gandiva's look at a new pair.
const GANDIVA: Trial = Trial { after_ms: 300_000, least_total: ALONE as u64, least_speed: 0 };
/// When a forecast is held against what happens.
const TRIAL_MS: i64 = 600_000;
/// Lucid's scores.
const LUCID: [f64; 2] = [0.95, 0.85];
/// Largest sum of scores that Lucid packs.
const LUCID_SUM: i32 = 2;

/// A way to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharingPolicy {
    /// Nobody shares.
    Exclusive,
    /// Packing with roll-back.
    Gandiva,
    /// Indolent packing.
    Lucid,
    /// Horus' cost as published.
    HorusPublished,
    /// Horus' cost, corrected.
    Horus,
    /// Packing by the mean forecast.
    MeanForecast,
    /// The rule of the plan.
    Forecast,
    /// The same, and held against what happens.
    ForecastTrial,
    /// What knows the table.
    Oracle,
}

impl SharingPolicy {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Exclusive,
        Self::Gandiva,
        Self::Lucid,
        Self::HorusPublished,
        Self::Horus,
        Self::MeanForecast,
        Self::Forecast,
        Self::ForecastTrial,
        Self::Oracle,
    ];

    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Exclusive => "nobody shares",
            Self::Gandiva => "Gandiva: pack, and roll back",
            Self::Lucid => "Lucid: indolent packing",
            Self::HorusPublished => "Horus, as published",
            Self::Horus => "Horus, corrected",
            Self::MeanForecast => "mean forecast above 1",
            Self::Forecast => "forecast within the SLO",
            Self::ForecastTrial => "the same, and taken out where it is not kept",
            Self::Oracle => "oracle: knows the table",
        }
    }

    /// The rule over kinds; `None` where what it needs is not known.
    pub fn rule(self, evidence: &PairEvidence, forecasts: &Forecasts, limits: &SharingLimits) -> Option<SharingRule> {
        let kinds = evidence.kinds.len();
        let mut rule = SharingRule::exclusive(kinds);
        let preference = |progress: f64| (progress * 1e6).clamp(-2e9, 2e9) as i32;
        let both = |rule: &mut SharingRule, a: usize, b: usize, preference: i32| {
            rule.allow(a, b, preference);
            rule.allow(b, a, preference);
        };
        match self {
            Self::Exclusive => {}
            Self::Gandiva => {
                evidence.couples().for_each(|(a, b)| both(&mut rule, a, b, 0));
                rule.trial = Some(GANDIVA);
                rule.remembers = false;
            }
            Self::Lucid => {
                let score: Vec<i32> = (0..kinds).map(|kind| score(forecasts, kind, kinds)).collect();
                for (a, b) in evidence.couples() {
                    let sum = score.get(a)? + score.get(b)?;
                    let fits = forecasts.get(a, b)?.out_of_memory <= limits.most_out_of_memory;
                    if sum <= LUCID_SUM && fits {
                        both(&mut rule, a, b, -sum);
                    }
                }
            }
            Self::HorusPublished | Self::Horus => {
                let known = |quantity: Quantity| -> Option<Vec<f64>> {
                    evidence.profiles.iter().map(|profile| profile.get(quantity)).collect()
                };
                let used = known(Quantity::SmUtilPct)?;
                let memory = known(Quantity::MemoryMb).unwrap_or_else(|| vec![0.0; kinds]);
                let whole = (2.0 * memory.iter().copied().fold(0.0, f64::max)).max(1.0);
                for (a, b) in evidence.couples() {
                    let over = used.get(a)? + used.get(b)? - 100.0;
                    let mb = memory.get(a)? + memory.get(b)?;
                    let cost = if self == Self::HorusPublished {
                        1.3 * mb + if over > 0.0 { 1.6 * over } else { -over } / 100.0 + 1.0
                    } else {
                        1.3 * mb / whole + 1.6 * over.max(0.0) / 100.0 + 1.0
                    };
                    // Thousandths: the cost in MB must stay within 32 bits.
                    both(&mut rule, a, b, (-cost * 1000.0).clamp(-2e9, 0.0) as i32);
                }
            }
            Self::MeanForecast => {
                for (a, b) in evidence.couples() {
                    let told = forecasts.get(a, b)?;
                    let sum = told.a.mean + told.b.mean;
                    if sum > 1.0 {
                        both(&mut rule, a, b, preference(sum));
                    }
                }
            }
            Self::Forecast | Self::ForecastTrial => {
                for (a, b) in evidence.couples() {
                    let told = forecasts.get(a, b)?;
                    let (progress, slowdown90) = merit(told);
                    if limits.refusal(progress, slowdown90, told.out_of_memory).is_none() {
                        both(&mut rule, a, b, preference(progress));
                    }
                }
                if self == Self::ForecastTrial {
                    let least_speed = (f64::from(ALONE) / limits.slo) as u32;
                    rule.trial = Some(Trial { after_ms: TRIAL_MS, least_total: u64::from(ALONE), least_speed });
                }
            }
            Self::Oracle => {
                for (a, b) in evidence.couples() {
                    let Some((x, y)) = evidence.speeds(a, b) else { continue };
                    if x + y > limits.least_progress && 1.0 / x.min(y) <= limits.slo {
                        both(&mut rule, a, b, preference(x + y));
                    }
                }
            }
        }
        Some(rule)
    }
}

/// Lucid's score of a kind, by its mean forecast speed beside all others.
fn score(forecasts: &Forecasts, kind: usize, kinds: usize) -> i32 {
    let speeds: Vec<f64> = (0..kinds).filter_map(|other| forecasts.get(kind, other)).map(|told| told.a.mean).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len().max(1) as f64;
    LUCID.iter().filter(|bound| mean < **bound).count() as i32
}
