//! Times: the basis a trace's clock has, reading the ways sources write them, and the cluster's local calendar.
//!
//! Inside, a time is `i64` milliseconds since the Unix epoch in UTC. A source without a calendar (relative seconds)
//! keeps its own zero, and calendar statistics are refused for it unless its documentation says what hour zero was.
//!
//! Worked number: `2017-11-05 01:30:00` in `America/Los_Angeles` happened twice (clocks went back at 02:00); the first
//! is 08:30 UTC, the second 09:30 UTC. [`Zone::resolve`] takes the first and tells the second.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

mod written;

pub use written::{Window, Written};

/// Milliseconds in a second.
pub const SECOND_MS: i64 = 1_000;
/// Milliseconds in a minute.
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
/// Milliseconds in a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// Milliseconds in a week.
pub const WEEK_MS: i64 = 7 * DAY_MS;
/// Hours in a day.
pub const DAY_HOURS: usize = 24;
/// Hours in a week.
pub const WEEK_HOURS: usize = 7 * DAY_HOURS;

/// Seconds in a minute.
pub const MINUTE_S: f64 = 60.0;
/// Seconds in an hour.
pub const HOUR_S: f64 = 60.0 * MINUTE_S;
/// Seconds in a day.
pub const DAY_S: f64 = 24.0 * HOUR_S;

/// No time lies further than this from the epoch (2^42 ms, about 139 years): what a source writes beyond it (`9999-12-31`,
/// microseconds taken for milliseconds) stands for something else, and is unknown. With this, the difference of any two
/// times is a plain subtraction, and a walk over the hours between any two of them ends.
pub const FARTHEST_MS: i64 = 1 << 42;

/// The moment `ms`, `None` if it is further from the epoch than [`FARTHEST_MS`].
pub fn within_reach(ms: i64) -> Option<i64> {
    (ms > -FARTHEST_MS && ms < FARTHEST_MS).then_some(ms)
}

/// Reference of a trace's times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeBasis {
    /// True times; the source gave UTC, epoch seconds or offsets.
    Utc,
    /// True times; the source gave local times of this zone, which were converted.
    Local,
    /// Seconds since some unknown moment. Hours and weekdays mean nothing.
    Relative,
    /// Seconds since some unknown moment whose hour and weekday are true in the trace's zone, while its date is not.
    RelativeWeek,
}

impl TimeBasis {
    /// Whether hour of day and weekday are meaningful.
    pub fn has_calendar(&self) -> bool {
        !matches!(self, Self::Relative)
    }

    /// Whether dates are meaningful.
    pub fn has_dates(&self) -> bool {
        matches!(self, Self::Utc | Self::Local)
    }
}

/// Resolution of a local time to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// A local time that happened once.
    Once,
    /// A local time that happened twice; the first was taken.
    Fold {
        /// The second, milliseconds in UTC.
        later_ms: i64,
    },
    /// A local time that never happened; it was moved past the gap.
    Gap,
}

/// A time zone of the IANA database (compiled in), by name.
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    /// The zone called `name`, for instance `Asia/Shanghai`.
    ///
    /// # Errors
    /// When the database has no such zone.
    pub fn named(name: &str) -> Result<Self> {
        if name == "UTC" {
            return Ok(Self::utc());
        }
        let zone = TimeZone::get(name).map_err(|_| Error::Setting {
            setting: "time zone".to_owned(),
            found: format!("`{name}` is not in the IANA time zone database"),
            remedy: "use a name such as Europe/Berlin, Asia/Shanghai or UTC".to_owned(),
        })?;
        Ok(Self { name: name.to_owned(), zone })
    }

    /// The zone's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The moment a local time stands for, in milliseconds, and how it was found; `None` beyond [`FARTHEST_MS`].
    pub fn resolve(&self, local: DateTime) -> Option<(i64, Resolution)> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let resolution = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Once,
            AmbiguousOffset::Fold { .. } => Resolution::Fold { later_ms: ambiguous.later().ok()?.as_millisecond() },
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        };
        let ms = within_reach(ambiguous.compatible().ok()?.as_millisecond())?;
        Some((ms, resolution))
    }

    /// Milliseconds to add to UTC to get local time at `utc_ms`.
    pub fn offset_ms(&self, utc_ms: i64) -> i64 {
        Timestamp::from_millisecond(utc_ms)
            .map_or(0, |moment| i64::from(self.zone.to_offset(moment).seconds()) * SECOND_MS)
    }

    /// Local calendar of the moment `utc_ms`.
    pub fn local(&self, utc_ms: i64) -> LocalTime {
        LocalTime::new(utc_ms.saturating_add(self.offset_ms(utc_ms)))
    }

    /// `2017-10-03 08:00:00`, as clocks in the zone show the moment `utc_ms`.
    pub fn show(&self, utc_ms: i64) -> String {
        format_utc(utc_ms.saturating_add(self.offset_ms(utc_ms)))
    }

    /// Shows the moment `utc_ms` like [`Zone::show`], without seconds where these are none:
    /// `2017-10-03 08:00`.
    pub fn show_short(&self, utc_ms: i64) -> String {
        let shown = self.show(utc_ms);
        shown.strip_suffix(":00").map_or_else(|| shown.clone(), str::to_owned)
    }

    /// `2017-10-06T09:30:00-07:00`: RFC 3339 with the offset of the zone at that moment, `Z` in UTC.
    pub fn rfc3339(&self, utc_ms: i64) -> String {
        if self.name == "UTC" {
            return format_rfc3339(utc_ms);
        }
        let minutes = self.offset_ms(utc_ms) / MINUTE_MS;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        format!("{}{sign}{hours:02}:{minutes:02}", self.show(utc_ms).replacen(' ', "T", 1))
    }

    /// `2017-10-03 00:00:00 to 2017-10-04 00:00:00 (Asia/Shanghai)`: the half-open time between two moments, with the zone.
    pub fn show_between(&self, from_ms: i64, to_ms: i64) -> String {
        format!("{} to {} ({})", self.show(from_ms), self.show(to_ms), self.name)
    }

    /// A calendar for many moments in (roughly) rising order: the zone is asked once a local hour.
    pub fn calendar(&self) -> Calendar<'_> {
        Calendar { zone: self, hour: None, offset_ms: 0 }
    }
}

/// Local calendar fields of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Days since 1970-01-01, local.
    pub day: i64,
    /// 0 to 23.
    pub hour: u8,
    /// 0 (Monday) to 6 (Sunday).
    pub weekday: u8,
}

impl LocalTime {
    fn new(local_ms: i64) -> Self {
        let day = local_ms.div_euclid(DAY_MS);
        let in_day = local_ms.rem_euclid(DAY_MS);
        // Day 0 was a Thursday. Both quotients are in range by construction.
        Self { day, hour: (in_day / HOUR_MS) as u8, weekday: (day + 3).rem_euclid(7) as u8 }
    }

    /// The hour of its week: 0 from midnight of Monday on, below [`WEEK_HOURS`].
    pub fn hour_of_week(self) -> usize {
        usize::from(self.weekday) * DAY_HOURS + usize::from(self.hour)
    }

    /// The first day of its month, in days since 1970-01-01.
    pub fn first_of_month(self) -> i64 {
        let date =
            Timestamp::from_millisecond(self.day.saturating_mul(DAY_MS)).map(|day| TimeZone::UTC.to_datetime(day));
        date.map_or(self.day, |date| self.day - i64::from(date.day()) + 1)
    }
}

/// Local calendar with the last offset remembered.
#[derive(Debug)]
pub struct Calendar<'a> {
    zone: &'a Zone,
    hour: Option<i64>,
    offset_ms: i64,
}

impl Calendar<'_> {
    /// Local calendar of the moment `utc_ms`.
    pub fn local(&mut self, utc_ms: i64) -> LocalTime {
        // No zone changes its offset within a quarter of an hour that begins on the quarter.
        let quarter = utc_ms.div_euclid(15 * MINUTE_MS);
        if self.hour != Some(quarter) {
            self.hour = Some(quarter);
            self.offset_ms = self.zone.offset_ms(utc_ms);
        }
        LocalTime::new(utc_ms.saturating_add(self.offset_ms))
    }
}

/// Reads `YYYY-MM-DD HH:MM:SS`, with `T` or a space between, `/` for `-`, and an optional fraction. No offset.
pub fn parse_local(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| -> Option<i32> {
        let part = bytes.get(from..to)?;
        part.iter().try_fold(0i32, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i32::from(byte - b'0')))
    };
    let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|byte| any.contains(byte));
    if !(is(4, b"-/") && is(7, b"-/")) {
        return None;
    }
    let date = Date::new(
        i16::try_from(digits(0, 4)?).ok()?,
        i8::try_from(digits(5, 7)?).ok()?,
        i8::try_from(digits(8, 10)?).ok()?,
    )
    .ok()?;
    if bytes.len() == 10 {
        return Some(date.at(0, 0, 0, 0));
    }
    if !(is(10, b" T") && is(13, b":")) {
        return None;
    }
    let (hour, minute) = (digits(11, 13)?, digits(14, 16)?);
    let (second, rest) = if is(16, b":") { (digits(17, 19)?, 19) } else { (0, 16) };
    let mut nanos = 0i32;
    if is(rest, b".,") {
        let fraction = bytes.get(rest + 1..)?;
        if fraction.is_empty() || fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut scale = 100_000_000;
        for byte in fraction {
            nanos += i32::from(byte - b'0') * scale;
            scale /= 10;
        }
    } else if rest != bytes.len() {
        return None;
    }
    let date_time = DateTime::new(
        date.year(),
        date.month(),
        date.day(),
        i8::try_from(hour).ok()?,
        i8::try_from(minute).ok()?,
        i8::try_from(second).ok()?,
        nanos,
    );
    date_time.ok()
}

/// Reads a time that says its own offset: RFC 3339, `2020-04-01 00:00:00+08:00`, `+0800`, `+00`, `Z` or ` UTC`.
pub fn parse_with_offset(text: &str) -> Option<i64> {
    let text = text.trim();
    let (local, offset_s) = if let Some(local) = text.strip_suffix('Z').or_else(|| text.strip_suffix(" UTC")) {
        (local, 0)
    } else {
        let at = text.get(10..)?.rfind(['+', '-'])? + 10;
        let (local, offset) = text.split_at_checked(at)?;
        let negative = offset.starts_with('-');
        let digits: String = offset.chars().skip(1).filter(|c| *c != ':').collect();
        if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let hours: i64 = digits.get(..2)?.parse().ok()?;
        let minutes: i64 = digits.get(2..).filter(|m| !m.is_empty()).map_or(Some(0), |m| m.parse().ok())?;
        let seconds = hours * 3_600 + minutes * 60;
        (local, if negative { -seconds } else { seconds })
    };
    let (ms, _) = Zone::utc().resolve(parse_local(local.trim_end())?)?;
    within_reach(ms - offset_s * SECOND_MS)
}

/// `2017-08-14T23:27:00Z` for a moment: RFC 3339, as programs read it, and as [`parse_with_offset`] does.
pub fn format_rfc3339(ms: i64) -> String {
    format_utc(ms).replacen(' ', "T", 1) + "Z"
}

/// Milliseconds of a count of seconds; `None` if it is not a number or beyond [`FARTHEST_MS`].
pub fn seconds_to_ms(seconds: f64) -> Option<i64> {
    // The cast saturates, and what it saturates to is out of reach.
    if seconds.is_nan() { None } else { within_reach((seconds * 1_000.0).round() as i64) }
}

/// `2017-08-14 23:27:00` for a moment in UTC; the shortest exact form, with milliseconds where there are any.
pub fn format_utc(ms: i64) -> String {
    let Ok(moment) = Timestamp::from_millisecond(ms) else {
        return format!("{ms} ms");
    };
    let civil = TimeZone::UTC.to_datetime(moment);
    let fraction = ms.rem_euclid(SECOND_MS);
    let head = format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        civil.year(),
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second()
    );
    if fraction == 0 { head } else { format!("{head}.{fraction:03}") }
}

/// A moment in RFC 3339 to the minute, as a table has room for: `2017-10-03 08:00`. What is no date, of a trace without any, stays as it is.
pub fn to_the_minute(moment: &str) -> String {
    match moment.get(..16).filter(|minute| minute.as_bytes().get(10) == Some(&b'T')) {
        Some(minute) => minute.replace('T', " "),
        None => moment.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_fold_and_the_gap_of_2017() {
        let zone = Zone::named("America/Los_Angeles").unwrap();
        let fold = parse_local("2017-11-05 01:30:00").unwrap();
        let (ms, how) = zone.resolve(fold).unwrap();
        let later = Resolution::Fold { later_ms: ms + HOUR_MS };
        assert_eq!((format_utc(ms).as_str(), how), ("2017-11-05 08:30:00", later));
        let gap = parse_local("2017-03-12 02:30:00").unwrap();
        let (ms, how) = zone.resolve(gap).unwrap();
        // 02:30 standard time would be 10:30 UTC, which the clocks there called 03:30.
        assert_eq!((format_utc(ms).as_str(), how), ("2017-03-12 10:30:00", Resolution::Gap));
    }

    #[test]
    fn hours_of_the_week_begin_with_monday() {
        // The epoch began on a Thursday.
        let hour = |hours: i64| Zone::utc().local(hours * HOUR_MS).hour_of_week();
        assert_eq!([hour(0), hour(95), hour(96), hour(-1)], [72, WEEK_HOURS - 1, 0, 71]);
    }

    #[test]
    fn offsets_are_honoured_in_every_spelling() {
        for text in ["2020-04-01T00:00:00+08:00", "2020-04-01 00:00:00+0800", "2020-04-01 00:00:00 +08"] {
            assert_eq!(format_utc(parse_with_offset(text).unwrap()), "2020-03-31 16:00:00", "{text}");
        }
        assert_eq!(parse_with_offset("1970-01-01T00:00:01.250Z"), Some(1_250));
        assert_eq!(parse_with_offset("2020-04-01 00:00:00"), None);
    }

    #[test]
    fn nonsense_is_not_a_time() {
        for text in [
            "",
            "2020",
            "2020-13-01 00:00:00",
            "2020-01-01 25:00:00",
            "2020-01-01x00:00:00",
            "2020-01-01 00:00:00.",
            "é020-01-01 00:00:00",
        ] {
            assert_eq!(parse_local(text), None, "{text}");
        }
        assert_eq!(seconds_to_ms(f64::NAN), None);
        assert_eq!(seconds_to_ms(1e300), None);
    }

    #[test]
    fn a_sentinel_far_away_is_not_a_time() {
        // 2^42 ms are 4,398,046,511.104 s: 2109-05-15 07:35:11 UTC, and as long before the epoch.
        assert_eq!(seconds_to_ms(4_398_046_511.103), Some(FARTHEST_MS - 1));
        for seconds in [4_398_046_511.104, -4_398_046_511.104, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(seconds_to_ms(seconds), None, "{seconds}");
        }
        assert_eq!(parse_with_offset("9999-12-31T23:59:59Z"), None);
        assert_eq!(parse_with_offset("0001-01-01T00:00:00Z"), None);
        assert_eq!(Zone::utc().resolve(parse_local("9999-12-31 23:59:59").unwrap()), None);
        assert!(Zone::utc().resolve(parse_local("2109-05-15 07:35:11").unwrap()).is_some());
    }

    #[test]
    fn weekday_and_hour_are_local() {
        let zone = Zone::named("Asia/Shanghai").unwrap();
        // 2020-09-01 was a Tuesday; 20:00 UTC the day before is 04:00 there.
        let ms = parse_with_offset("2020-08-31T20:00:00Z").unwrap();
        let local = zone.local(ms);
        assert_eq!((local.weekday, local.hour), (1, 4));
        assert_eq!(zone.calendar().local(ms), local);
    }
}
