//! Carbon by the hour: location-based and market-based, as scope 2 of the GHG Protocol wants both.
//!
//! Worked number: see the parent module; there, Σ E_h · I_h is 16 kg where ΣE · mean I is 12 kg: −25 %.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Bounded, BoundedSum, MissingFigure, miss, share};
use crate::audit::factors::{Factors, Hourly};
use crate::stats::sum::NeumaierSum;

/// Carbon of the energy drawn.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Carbon {
    /// Kilograms of CO₂ equivalent, of the energy covered; `null` where no hour has an intensity.
    pub kg: Option<Bounded>,
    /// Energy that has an intensity, kWh (facility energy where there is a PUE).
    pub covered_kwh: f64,
    /// Energy that has none, kWh.
    pub uncovered_kwh: f64,
    /// Covered over all energy.
    pub covered: Option<f64>,
    /// Hours with energy and without an intensity.
    pub hours_without: u64,
    /// Mean intensity of the energy covered, g/kWh.
    pub mean_g_per_kwh: Option<f64>,
    /// Least intensity of an hour, g/kWh.
    pub least_g_per_kwh: Option<f64>,
    /// Greatest intensity of an hour, g/kWh.
    pub most_g_per_kwh: Option<f64>,
    /// Covered energy times the mean of the hours' intensities, kg, for comparison with `kg`.
    pub mean_times_mean_kg: Option<f64>,
    /// `mean_times_mean_kg` over `kg`, less 1.
    pub mean_times_mean_difference: Option<f64>,
}

/// Sums over hours; `None` without intensities.
pub(super) fn figure(hours: &BTreeMap<i64, Bounded>, intensity: Option<&Hourly>, factor: f64) -> Option<Carbon> {
    let intensity = intensity?;
    let mut kg = BoundedSum::default();
    let (mut covered, mut uncovered, mut grams_of_hours) = (NeumaierSum::new(), NeumaierSum::new(), NeumaierSum::new());
    let (mut with, mut without) = (0_u64, 0_u64);
    let (mut least, mut most): (Option<f64>, Option<f64>) = (None, None);
    for (hour, energy) in hours {
        let drawn = energy.times(factor);
        let Some(grams) = intensity.at(*hour) else {
            uncovered.add(drawn.value);
            without += 1;
            continue;
        };
        kg.add(drawn.times(grams / 1_000.0));
        covered.add(drawn.value);
        grams_of_hours.add(grams);
        with += 1;
        least = Some(least.map_or(grams, |least| least.min(grams)));
        most = Some(most.map_or(grams, |most| most.max(grams)));
    }
    let (covered, uncovered) = (covered.value(), uncovered.value());
    let kg = (with > 0).then(|| kg.value());
    let naive = (with > 0).then(|| covered * grams_of_hours.value() / with as f64 / 1_000.0);
    Some(Carbon {
        kg,
        covered_kwh: covered,
        uncovered_kwh: uncovered,
        covered: share(covered, covered + uncovered),
        hours_without: without,
        mean_g_per_kwh: kg.and_then(|kg| share(kg.value * 1_000.0, covered)),
        least_g_per_kwh: least,
        most_g_per_kwh: most,
        mean_times_mean_kg: naive,
        mean_times_mean_difference: naive.zip(kg).and_then(|(naive, kg)| share(naive - kg.value, kg.value)),
    })
}

/// Market-based intensity by the hour: contracts by their shares, and the residual mix (or the grid's own) for the rest.
pub(super) fn market_intensity(
    factors: &Factors,
    location: Option<&Hourly>,
    missing: &mut Vec<MissingFigure>,
) -> Option<Hourly> {
    let Some(market) = &factors.market else {
        miss(
            missing,
            "Market-based carbon",
            "no residual mix, certificates or contracts; give `[carbon.market]` in the factor file",
        );
        return None;
    };
    let (grams, rest) = market.covered();
    if rest == 0.0 {
        return Some(Hourly::constant(grams));
    }
    if let Some(residual) = market.residual_g_per_kwh {
        return Some(Hourly::constant(grams + rest * residual));
    }
    let Some(location) = location else {
        let why = "what no contract covers is to count as location-based, and there is no such intensity; give --carbon, or `[carbon.location]`";
        miss(missing, "Market-based carbon", why);
        return None;
    };
    Some(location.map(|location| grams + rest * location))
}
