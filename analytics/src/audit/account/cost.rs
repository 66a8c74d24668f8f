//! Cost: energy at the price of its hour, and the highest power of each month.
//!
//! **Demand.** A month is charged by its highest hour of facility power. Where the window does not hold the whole month, the charge is that
//! share of the month's that the window covers, at the highest power seen: the true peak may lie outside, so it is a lower bound. The ledger
//! knows hours; where the tariff takes quarter-hours, the mean of the hour is a lower bound, too, and the answer says so. Whoever drew power
//! in the peak hour is charged by the share.
//!
//! Worked number: two hours at 10 and 30 kWh and 0.10 and 0.20 a kWh cost 1 + 6 = 7. The peak is 30 kW; at 9 a kW and month and two of
//! June's 720 hours that is 30 · 9 · 2 / 720 = 0.75. Together 7.75.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Bounded, BoundedSum, Loaded, MissingFigure, miss, share};
use crate::audit::factors::{DemandCharge, Interval};
use crate::stats::sum::NeumaierSum;
use crate::time::{HOUR_MS, Zone};

/// Peak of one month.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MonthPeak {
    /// `2020-04`.
    pub month: String,
    /// Beginning of the peak hour, milliseconds since the epoch.
    pub peak_hour_ms: i64,
    /// Mean power of that hour, kW.
    pub peak_kw: f64,
    /// Share of the month in the window.
    pub share_of_month: f64,
    /// Charge for that share.
    pub charge: f64,
}

/// Cost of the energy drawn.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// Currency; `null` if not stated.
    pub currency: Option<String>,
    /// Cost of the covered energy, with the bounds of the energy; `null` where no hour has a price.
    pub energy: Option<Bounded>,
    /// Demand charge; `null` without one.
    pub demand: Option<f64>,
    /// Sum of the costs that are known; `null` where none is.
    pub total: Option<f64>,
    /// Energy that has a price, kWh (facility energy where there is a PUE).
    pub covered_kwh: f64,
    /// Energy that has none, kWh.
    pub uncovered_kwh: f64,
    /// Covered over all energy.
    pub covered: Option<f64>,
    /// Hours with energy and without a price.
    pub hours_without: u64,
    /// Mean price of the energy covered, money a kWh.
    pub mean_per_kwh: Option<f64>,
    /// Covered energy times the mean of the hours' prices, for comparison with `energy`.
    pub mean_times_mean: Option<f64>,
    /// Peaks by month, where there is a demand charge.
    pub months: Vec<MonthPeak>,
    /// Whether the demand charge rests on longer means than the tariff takes.
    pub demand_is_lower_bound: bool,
}

impl Cost {
    /// Demand charge of the month whose peak hour begins at `hour_ms`; 0 for any other hour.
    pub(super) fn demand_at(&self, hour_ms: i64) -> f64 {
        self.months.iter().filter(|month| month.peak_hour_ms == hour_ms).map(|month| month.charge).sum()
    }
}

/// Sums over hours; `None` with neither a price nor a demand charge.
pub(super) fn figure(
    hours: &BTreeMap<i64, Bounded>,
    loaded: &Loaded,
    factor: f64,
    window: (i64, i64),
    missing: &mut Vec<MissingFigure>,
) -> Option<Cost> {
    let demand = loaded.factors.demand_charge.as_ref();
    if loaded.price.is_none() {
        miss(missing, "Cost of energy", "no price of electricity; give --price, or `[price]` in the factor file");
    }
    if loaded.price.is_none() && demand.is_none() {
        return None;
    }
    let mut energy_cost = BoundedSum::default();
    let (mut covered, mut uncovered, mut prices) = (NeumaierSum::new(), NeumaierSum::new(), NeumaierSum::new());
    let (mut with, mut without) = (0_u64, 0_u64);
    for (hour, energy) in hours {
        let drawn = energy.times(factor);
        match loaded.price.as_ref().and_then(|price| price.at(*hour)) {
            Some(price) => {
                energy_cost.add(drawn.times(price));
                covered.add(drawn.value);
                prices.add(price);
                with += 1;
            }
            None => {
                uncovered.add(drawn.value);
                without += 1;
            }
        }
    }
    let months = demand.map(|demand| peaks(hours, demand, factor, window)).unwrap_or_default();
    let charge = demand.map(|_| months.iter().map(|month| month.charge).collect::<NeumaierSum>().value());
    let (covered, uncovered) = (covered.value(), uncovered.value());
    let energy = (with > 0).then(|| energy_cost.value());
    Some(Cost {
        currency: loaded.currency.clone(),
        total: match (energy, charge) {
            (None, None) => None,
            (energy, charge) => Some(energy.map_or(0.0, |energy| energy.value) + charge.unwrap_or(0.0)),
        },
        energy,
        demand: charge,
        covered_kwh: covered,
        uncovered_kwh: uncovered,
        covered: share(covered, covered + uncovered),
        hours_without: without,
        mean_per_kwh: energy.and_then(|energy| share(energy.value, covered)),
        mean_times_mean: (with > 0).then(|| covered * prices.value() / with as f64),
        demand_is_lower_bound: demand.is_some_and(|demand| demand.interval == Interval::QuarterHour)
            || months.iter().any(|month| month.share_of_month < 1.0),
        months,
    })
}

/// First moment of the month of a local day, of the one after, and the month's name.
fn month_of(zone: &Zone, ms: i64) -> Option<(i64, i64, String)> {
    let local = jiff::Timestamp::from_millisecond(ms + zone.offset_ms(ms)).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    let first = local.date().first_of_month();
    let next = first.checked_add(jiff::Span::new().months(1)).ok()?;
    let begin = |date: jiff::civil::Date| zone.resolve(date.at(0, 0, 0, 0)).map(|(ms, _)| ms);
    Some((begin(first)?, begin(next)?, format!("{:04}-{:02}", first.year(), first.month())))
}

fn peaks(
    hours: &BTreeMap<i64, Bounded>,
    demand: &DemandCharge,
    factor: f64,
    (from_ms, to_ms): (i64, i64),
) -> Vec<MonthPeak> {
    let mut months: Vec<MonthPeak> = Vec::new();
    let mut ends = i64::MIN;
    for (hour, energy) in hours {
        // The first and the last hour may be in the window in part; energy over that part is its power.
        let part_ms = ((hour + HOUR_MS).min(to_ms) - (*hour).max(from_ms)).clamp(1, HOUR_MS);
        // A sliver of an hour is no interval of the tariff.
        let kw = if part_ms * 4 < HOUR_MS { 0.0 } else { energy.value * factor * HOUR_MS as f64 / part_ms as f64 };
        if *hour >= ends {
            let Some((begin, end, name)) = month_of(&demand.zone, *hour) else { continue };
            ends = end;
            let inside = (to_ms.min(end) - from_ms.max(begin)).max(0);
            let share_of_month = (inside as f64 / (end - begin) as f64).min(1.0);
            months.push(MonthPeak { month: name, peak_hour_ms: *hour, peak_kw: kw, share_of_month, charge: 0.0 });
        } else if let Some(month) = months.last_mut()
            && kw > month.peak_kw
        {
            (month.peak_hour_ms, month.peak_kw) = (*hour, kw);
        }
    }
    for month in &mut months {
        month.charge = month.peak_kw.max(0.0) * demand.per_kw_month * month.share_of_month;
    }
    months
}
