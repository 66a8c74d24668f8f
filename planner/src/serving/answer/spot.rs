//! Spot as a trace of one zone says it, beside a log of requests: both begin at once.
//!
//! O(1) a moment. Worked example: samples of a minute 8, 8, 0 are eight replicas at 1 min 59 s and none at 2 min; a log of 3 min 1 s is longer than they last.

use tracecast_analytics::report::format;

use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;

/// Replicas that can be had on spot at a moment: the trace begins with the log, and each sample holds until the next.
pub(super) fn supply(series: &SpotSeries, from_us: i64) -> impl Fn(i64) -> u32 + Sync + '_ {
    move |at_us| {
        let tick = usize::try_from((at_us - from_us).max(0) / (series.tick_ms.max(1) * 1000)).unwrap_or(usize::MAX);
        series.counts.get(tick).map_or(0, |count| count.max(0.0) as u32)
    }
}

/// Refuses a trace of spot that ends before the log does.
pub(super) fn covers(series: &SpotSeries, log_us: i64) -> Result<()> {
    let trace_us = series.tick_ms.saturating_mul(1000).saturating_mul(series.counts.len() as i64);
    if trace_us >= log_us {
        return Ok(());
    }
    Err(Error::SpotTrace {
        file: series.name.clone(),
        found: format!(
            "it is {} long, and the log of requests {}",
            format::duration(trace_us as f64 / 1e6),
            format::duration(log_us as f64 / 1e6)
        ),
        remedy: "name a trace that is at least as long, as nothing is known of spot after its end",
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let series = SpotSeries::of_counts("zone", 60_000, vec![8.0, 8.0, 0.0]);
        let at = supply(&series, 5_000_000);
        assert_eq!([4, 124, 125, 184, 185].map(|second| at(second * 1_000_000)), [8, 8, 0, 0, 0]);
        assert!(covers(&series, 180_000_000).is_ok());
        let said = covers(&series, 181_000_000).unwrap_err().to_string();
        assert!(said.starts_with("zone: it is 3 min long, and the log of requests 3 min 1 s"), "{said}");
    }
}
