//! Moments as a power plan tells them: by the clocks of the cluster, or, where the trace has no dates, by day and hour since it began.
//!
//! Worked example: `2024-03-31T16:00:00Z` is `2024-03-31 18:00` two hours east; of a trace that counts seconds from its beginning, second 12,916,800 is `day 150, 12:00`.

use tracecast_analytics::Trace;
use tracecast_analytics::time::{DAY_MS, HOUR_MS, MINUTE_MS, Zone, parse_with_offset};

/// Tells moments.
#[derive(Debug, Clone)]
pub(in crate::power) struct Clock {
    zone: Zone,
    /// The beginning that days are counted from, milliseconds by the zone's own clock; `None` where moments have dates.
    begins_ms: Option<i64>,
}

impl Clock {
    /// Creates the clock of `zone`; days are counted from `begins_ms` (since the epoch) if moments
    /// have no dates.
    pub(in crate::power) fn new(zone: Zone, begins_ms: Option<i64>) -> Self {
        let begins_ms = begins_ms.map(|at_ms| at_ms + zone.offset_ms(at_ms));
        Self { zone, begins_ms }
    }

    /// Where days are counted from in a trace without dates whose demand begins at `start_ms`: there, or at its midnight where hours mean something. `None` in one with dates.
    pub(in crate::power) fn beginning(trace: &Trace, zone: &Zone, start_ms: i64) -> Option<i64> {
        let since_midnight = (start_ms + zone.offset_ms(start_ms)).rem_euclid(DAY_MS);
        let begins_ms = if trace.basis.has_calendar() { start_ms - since_midnight } else { start_ms };
        (!trace.basis.has_dates()).then_some(begins_ms)
    }

    /// What moments are told by: the name of the zone, or that they count from the beginning.
    pub(in crate::power) fn name(&self) -> &str {
        if self.begins_ms.is_some() { "since the beginning" } else { self.zone.name() }
    }

    /// A moment, milliseconds since the epoch.
    pub(in crate::power) fn show(&self, at_ms: i64) -> String {
        let Some(begins_ms) = self.begins_ms else { return self.zone.show_short(at_ms) };
        let since_ms = at_ms + self.zone.offset_ms(at_ms) - begins_ms;
        let (day, of_day) = (since_ms.div_euclid(DAY_MS) + 1, since_ms.rem_euclid(DAY_MS));
        format!("day {day}, {:02}:{:02}", of_day / HOUR_MS, of_day % HOUR_MS / MINUTE_MS)
    }

    /// A moment as answers write it for programs, RFC 3339; what is none stays as it is.
    pub(in crate::power) fn moment(&self, at: &str) -> String {
        parse_with_offset(at).map_or_else(|| at.to_owned(), |at_ms| self.show(at_ms))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::time::TimeBasis;

    use super::*;

    #[test]
    fn moments_are_those_of_the_clocks_of_the_cluster() {
        let of = |zone: &str, at: &str| Clock::new(Zone::named(zone).unwrap(), None).moment(at);
        assert_eq!(of("UTC", "2024-03-31T16:00:00Z"), "2024-03-31 16:00");
        assert_eq!(of("UTC", "2024-03-31T16:00:30Z"), "2024-03-31 16:00:30");
        assert_eq!(of("Asia/Shanghai", "2020-09-26T09:10:00Z"), "2020-09-26 17:10");
    }

    /// Regression test: seconds since an unknown beginning were shown as dates of 1970.
    #[test]
    fn without_dates_moments_count_from_the_beginning() {
        let trace = |basis| Trace { basis, zone: "UTC".to_owned(), ..Trace::default() };
        let of = |basis, start_ms: i64, at: &str| {
            let begins_ms = Clock::beginning(&trace(basis), &Zone::utc(), start_ms);
            Clock::new(Zone::utc(), begins_ms).moment(at)
        };
        assert_eq!(of(TimeBasis::Relative, 0, "1970-05-30T12:00:00Z"), "day 150, 12:00");
        // Of hours that mean something the day begins at midnight.
        assert_eq!(of(TimeBasis::Relative, 6 * HOUR_MS, "1970-01-02T08:05:00Z"), "day 2, 02:05");
        assert_eq!(of(TimeBasis::RelativeWeek, 6 * HOUR_MS, "1970-01-02T08:05:00Z"), "day 2, 08:05");
        assert_eq!(of(TimeBasis::Utc, 0, "1970-01-02T08:05:00Z"), "1970-01-02 08:05");
    }
}
