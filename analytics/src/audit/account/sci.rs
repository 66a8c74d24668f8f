//! Software carbon intensity of ISO/IEC 21031:2024: ((E · I) + M) / R, with one GPU hour as the unit R.
//!
//! E is the energy drawn (facility energy where there is a PUE), I the location-based intensity hour by hour (contracts and certificates have
//! no place in it), M the embodied carbon of the GPUs for the time of the window, over their lifetime. R is a GPU hour that a job held; beside
//! it per GPU hour there was, held or not.
//!
//! Hours without an intensity count at the mean of the others in the value, at the least of any hour in the lower bound and at the most in the
//! upper; `extrapolated` is their share of the energy.
//!
//! Worked number: 16 kg, and 40 GPU hours of hardware with 175.32 kg a GPU over 5 years (43,830 h) are 40 · 175.32 / 43,830 = 0.16 kg. With 32
//! GPU hours held, (16 + 0.16) / 32 = 0.505 kg a GPU hour.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Bounded, Carbon, Loaded, MissingFigure, miss};
use crate::energy::ledger::EnergyLedger;

/// Hours in a year of 365.25 days.
const YEAR_H: f64 = 8_766.0;
/// Less energy than this share must be without an intensity for there to be a figure.
const MOST_EXTRAPOLATED: f64 = 0.5;

/// Software carbon intensity.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sci {
    /// Grams of CO₂ equivalent a GPU hour held by jobs.
    pub g_per_gpu_hour: Bounded,
    /// Grams of CO₂ equivalent a GPU hour there was; `null` if unknown.
    pub g_per_gpu_hour_seen: Option<f64>,
    /// E · I, kg.
    pub operational_kg: Bounded,
    /// M, kg; `null` without `[embodied]`: then the figure leaves it out.
    pub embodied_kg: Option<f64>,
    /// R: GPU hours held by jobs.
    pub gpu_hours: f64,
    /// Share of the energy whose intensity is that of other hours.
    pub extrapolated: f64,
}

pub(super) fn figure(
    ledger: &EnergyLedger,
    loaded: &Loaded,
    location: Option<&Carbon>,
    it_kwh: Bounded,
    factor: f64,
    missing: &mut Vec<MissingFigure>,
) -> Option<Sci> {
    const NAME: &str = "SCI per GPU hour";
    let Some(location) = location else {
        miss(
            missing,
            NAME,
            "needs a location-based carbon intensity; give --carbon, or `[carbon.location]` in the factor file",
        );
        return None;
    };
    if ledger.allocated_gpu_hours <= 0.0 {
        miss(
            missing,
            NAME,
            "the trace does not tell which GPUs jobs held when, so there are no GPU hours to divide by",
        );
        return None;
    }
    let uncovered = location.covered.map_or(1.0, |covered| 1.0 - covered).max(0.0);
    let (Some(kg), Some(mean), Some(least), Some(most)) =
        (location.kg, location.mean_g_per_kwh, location.least_g_per_kwh, location.most_g_per_kwh)
    else {
        miss(missing, NAME, "no hour of the window has a carbon intensity");
        return None;
    };
    if uncovered > MOST_EXTRAPOLATED {
        miss(missing, NAME, "less than half of the energy has a carbon intensity");
        return None;
    }
    let drawn = it_kwh.times(factor);
    // Bounds of the energy without an intensity are in proportion to its share.
    let operational_kg = Bounded {
        value: kg.value + location.uncovered_kwh * mean / 1_000.0,
        lower: kg.lower + drawn.lower * uncovered * least / 1_000.0,
        upper: kg.upper + drawn.upper * uncovered * most / 1_000.0,
        modelled: kg.modelled + drawn.modelled * uncovered * mean / 1_000.0,
    };
    let embodied_kg = loaded
        .factors
        .embodied
        .as_ref()
        .map(|embodied| ledger.gpu_hours * embodied.kg_per_gpu / (embodied.lifetime_years * YEAR_H));
    if embodied_kg.is_none() {
        miss(missing, "Embodied carbon in SCI", "M is left out of the SCI; give `[embodied]` in the factor file");
    }
    let added = embodied_kg.unwrap_or(0.0);
    let per = |kg: f64| (kg + added) * 1_000.0 / ledger.allocated_gpu_hours;
    Some(Sci {
        g_per_gpu_hour: Bounded {
            value: per(operational_kg.value),
            lower: per(operational_kg.lower),
            upper: per(operational_kg.upper),
            modelled: operational_kg.modelled * 1_000.0 / ledger.allocated_gpu_hours,
        },
        g_per_gpu_hour_seen: (ledger.gpu_hours > 0.0)
            .then(|| (operational_kg.value + added) * 1_000.0 / ledger.gpu_hours),
        operational_kg,
        embodied_kg,
        gpu_hours: ledger.allocated_gpu_hours,
        extrapolated: uncovered,
    })
}
