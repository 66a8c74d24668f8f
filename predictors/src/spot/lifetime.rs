//! Durations of spells with enough spot, and of spells without: Kaplan-Meier curves in which spells
//! not seen to end are censored.
//!
//! A spell lasts as many ticks as it was seen. One that was not seen to end is censored. One whose beginning was not seen is left out, as its age is not known. The
//! median and the quartiles are those of the curve; there are none where it does not fall that far. The mean is restricted to the longest spell seen.
//!
//! O(spells log spells). Worked example: spells with enough of 1, 2 and 4 h and one of 3 h at the end of the record: the curve is 3/4 after 1 h, 1/2 after 2 h and 0
//! after 4 h. So the median is 2 h, and the mean 1 + 3/4 + 2 · 1/2 = 2.75 h.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::stats::survival::KaplanMeier;

use super::record::{SpotLevel, SpotRecord, spells};

/// Durations of spells of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotLifetime {
    /// Spells whose beginning was seen.
    pub spells: usize,
    /// Spells that were not seen to end.
    pub censored: usize,
    /// Seconds by which a quarter of the spells have ended.
    pub p25_s: Option<f64>,
    /// Seconds by which half of them have.
    pub median_s: Option<f64>,
    /// Lower end of the median's 95 % interval; an end is missing where the curve's limit does not
    /// fall that far.
    pub median_low_s: Option<f64>,
    /// Upper end of the median's 95 % interval.
    pub median_high_s: Option<f64>,
    /// Seconds by which three quarters have ended.
    pub p75_s: Option<f64>,
    /// Mean of what spells last, or of `up_to_s` if that is less, seconds.
    pub mean_s: Option<f64>,
    /// The longest spell seen, seconds.
    pub up_to_s: f64,
}

impl SpotLifetime {
    /// Durations of the spells with enough spot, or of those without; None where no spell began.
    pub fn new(record: &SpotRecord, need: u32, enough: bool) -> Option<Self> {
        let seen: Vec<Option<bool>> =
            record.levels(need).into_iter().map(|level| Some(level? == SpotLevel::Enough)).collect();
        let spells: Vec<_> = spells(&seen).into_iter().filter(|spell| spell.of == enough && spell.begun).collect();
        let times: Vec<f64> = spells.iter().map(|spell| spell.ticks as f64 * record.tick_ms as f64 / 1000.0).collect();
        let ends: Vec<bool> = spells.iter().map(|spell| spell.ended).collect();
        let curve = KaplanMeier::right_censored(&times, &ends).ok()?;
        let (median_low_s, median_high_s) = curve.quantile_interval(0.5);
        Some(Self {
            spells: spells.len(),
            censored: ends.iter().filter(|ended| !**ended).count(),
            p25_s: curve.quantile(0.25),
            median_s: curve.median(),
            median_low_s,
            median_high_s,
            p75_s: curve.quantile(0.75),
            mean_s: curve.restricted_mean(curve.last_time).map(|mean| mean.mean),
            up_to_s: curve.last_time,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn the_worked_example() {
        let counts = [0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1];
        let result = SpotLifetime::new(&record(&counts, 3_600_000), 1, true).unwrap();
        assert_eq!((result.spells, result.censored), (4, 1));
        assert_eq!((result.median_s, result.up_to_s), (Some(7200.0), 14_400.0));
        assert!((result.mean_s.unwrap() - 2.75 * 3600.0).abs() < 1e-9);
        // Of those without the first has no beginning.
        assert_eq!(SpotLifetime::new(&record(&counts, 3_600_000), 1, false).unwrap().spells, 3);
        assert_eq!(SpotLifetime::new(&record(&[0, 0], 1), 1, true), None);
    }
}
