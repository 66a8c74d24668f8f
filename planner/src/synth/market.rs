//! Carbon intensity of the grid, instance prices and spot availability over the time covered.
//!
//! Carbon: `mean·(1 − daily·cos(2π(h − 13)/24) + yearly·cos(2π(d − 15)/365.24) + noise)` with h the local hour and d the
//! day, so lowest at 13:00 and highest in mid January, with AR(1) noise, hour by hour, in whole grams. Prices: one
//! on-demand row without a time (a list price), and spot prices that step at random times around their mean.
//! Availability: a two-state chain sampled every 20 minutes.
//!
//! Worked number: mean 400, daily 0.2, no yearly wave and no noise: 400·(1 − 0.2) = 320 g/kWh at 13:00, 480 at 01:00.
//!
//! O(hours + changes).

use std::borrow::Cow;
use std::f64::consts::TAU;

use tracecast_analytics::Trace;
use tracecast_analytics::schema::{AvailabilityRow, CarbonRow, PriceRow};
use tracecast_analytics::time::{DAY_MS, HOUR_MS, MINUTE_MS};

use super::random::Stream;
use super::spec::{CarbonSpec, Checked, PriceSpec};

/// Time between samples of availability.
const GAP_MS: i64 = 20 * MINUTE_MS;

/// Writes carbon intensity, prices and availability.
pub(crate) fn record(trace: &mut Trace, checked: &Checked, rng: &mut Stream) {
    if let Some(spec) = &checked.spec.carbon {
        carbon(trace, checked, spec, rng);
    }
    for spec in &checked.spec.price {
        for zone in &spec.zones {
            price(trace, checked, spec, zone, rng);
        }
    }
}

fn carbon(trace: &mut Trace, checked: &Checked, spec: &CarbonSpec, rng: &mut Stream) {
    let mut noise = rng.normal();
    let mut calendar = checked.zone.calendar();
    let hours = (checked.end_ms - checked.start_ms) / HOUR_MS;
    for ts in (0..hours).map(|hour| checked.start_ms + hour * HOUR_MS) {
        let local = calendar.local(ts);
        let wave = intensity(spec, f64::from(local.hour), local.day as f64) + spec.noise * noise;
        noise = 0.95 * noise + (1.0f64 - 0.95 * 0.95).sqrt() * rng.normal();
        trace.carbon.push(CarbonRow {
            zone: Some(Cow::from(&spec.zone)),
            ts: Some(ts),
            g_per_kwh: Some((spec.mean_g_per_kwh * wave.max(0.05)).round()),
            method: Some("lca".into()),
            estimated: Some(true),
        });
    }
}

/// Intensity relative to its mean, without noise, at a local hour and a day since 1970.
fn intensity(spec: &CarbonSpec, hour: f64, day: f64) -> f64 {
    let daily = spec.daily * (TAU * (hour - 13.0) / 24.0).cos();
    let yearly = spec.yearly * (TAU * (day - 15.0) / 365.2425).cos();
    1.0 - daily + yearly
}

fn price(trace: &mut Trace, checked: &Checked, spec: &PriceSpec, zone: &str, rng: &mut Stream) {
    let mut row = |ts: Option<i64>, usd_per_h: f64, kind: &str| {
        trace.prices.push(PriceRow {
            provider: Some(Cow::from(&spec.provider)),
            zone: Some(Cow::from(zone)),
            instance: Some(Cow::from(&spec.instance)),
            gpu_type: Some(Cow::from(&spec.gpu_type)),
            gpus: Some(f64::from(spec.gpus)),
            gpu_mem_bytes: Some(f64::from(spec.gpu_mem_gib) * 1_073_741_824.0),
            ts,
            usd_per_h: Some((usd_per_h * 10_000.0).round() / 10_000.0),
            kind: Some(kind.into()),
        });
    };
    row(None, spec.ondemand_usd_per_h, "ondemand");
    let Some(ratio) = spec.spot_ratio else { return };
    // A zone's own level, around which the log of the price wanders and to which it returns.
    let level = (ratio * spec.ondemand_usd_per_h).max(1e-4).ln() + 0.1 * rng.normal();
    let mut ln = level;
    let mut ts = checked.start_ms;
    while ts < checked.end_ms {
        row(Some(ts), ln.exp().min(spec.ondemand_usd_per_h), "spot");
        ln = level + 0.9 * (ln - level) + 0.06 * rng.normal();
        ts += ((rng.exponential(DAY_MS as f64 / spec.changes_per_day) / 1_000.0).round() as i64).max(60) * 1_000;
    }
    // Leaving a state between two samples has the probability that an exponential stay of its mean ends within the gap.
    let leave = |mean_h: f64| 1.0 - (-(GAP_MS as f64) / (mean_h * HOUR_MS as f64)).exp();
    let mut up = rng.chance(spec.up_h / (spec.up_h + spec.down_h));
    for step in 0..(checked.end_ms - checked.start_ms) / GAP_MS {
        trace.availability.push(AvailabilityRow {
            zone: Some(Cow::from(zone)),
            instance: Some(Cow::from(&spec.instance)),
            ts: Some(checked.start_ms + step * GAP_MS),
            gap_s: Some(GAP_MS as f64 / 1_000.0),
            count: Some(if up { 1.0 } else { 0.0 }),
        });
        if rng.chance(leave(if up { spec.up_h } else { spec.down_h })) {
            up = !up;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_cleanest_at_one_in_the_afternoon() {
        let spec: CarbonSpec = toml::from_str("zone = 'X'\nmean_g_per_kwh = 400\nyearly = 0").unwrap();
        assert!((400.0 * intensity(&spec, 13.0, 100.0) - 320.0).abs() < 1e-9);
        assert!((400.0 * intensity(&spec, 1.0, 100.0) - 480.0).abs() < 1e-9);
    }
}
