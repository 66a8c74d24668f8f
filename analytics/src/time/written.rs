//! Moments and windows as people write them, the same for every command.
//!
//! A moment is a date, a local date and time, a date and time with its own offset (or `Z`), or seconds since the epoch. What
//! says no offset is in the trace's zone, which is known only once the trace is read: until then the moment is kept as it
//! was written, and an error can show it so.
//!
//! A window is half-open: what happens at its beginning is in, what happens at its end is out. A bare date stands for that
//! whole day. As a beginning it is the day's first moment, as an end the first moment of the next day, so that from
//! `2024-03-10` to `2024-03-10` is one day.
//!
//! Worked number: in `Asia/Shanghai`, from `2024-03-10` to `2024-03-11` goes from 9 March 16:00 UTC to 11 March 16:00 UTC,
//! 48 hours; to `2024-03-11T00:00` it ends at 10 March 16:00 UTC, 24 hours.

use std::fmt;

use jiff::civil::DateTime;

use super::{Zone, parse_local, parse_with_offset, seconds_to_ms, within_reach};
use crate::error::{Error, Result};

/// Forms of a moment, for messages.
const FORMS: &str = "write 2017-10-03 (that whole day), 2017-10-03T12:00 (in the trace's zone), 2017-10-03T12:00:00Z, or seconds since the epoch";

/// A moment as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    text: String,
    means: Means,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A moment that depends on no zone, milliseconds.
    Instant(i64),
    /// A time on a clock in the trace's zone.
    Local(DateTime),
    /// A day there: its first moment, and that of the next.
    Day(DateTime, DateTime),
}

impl Written {
    /// Reads a moment.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let means = Self::means(text.trim()).ok_or_else(|| Error::Window {
            asked: format!("`{text}`"),
            found: "is no moment".to_owned(),
            remedy: FORMS.to_owned(),
        })?;
        Ok(Self { text: text.trim().to_owned(), means })
    }

    fn means(text: &str) -> Option<Means> {
        if text.len() == "2017-10-03".len()
            && let Some(first) = parse_local(text)
        {
            return Some(Means::Day(first, first.checked_add(jiff::Span::new().days(1)).ok()?));
        }
        let instant = || parse_with_offset(text).or_else(|| seconds_to_ms(text.parse().ok()?));
        parse_local(text).map(Means::Local).or_else(|| instant().map(Means::Instant))
    }

    /// The first moment it stands for, milliseconds; what has no offset is in `zone`.
    ///
    /// # Errors
    /// If it is too far from 1970.
    pub fn first_ms(&self, zone: &Zone) -> Result<i64> {
        match self.means {
            Means::Instant(ms) => self.reached(within_reach(ms)),
            Means::Local(at) | Means::Day(at, _) => self.reached(zone.resolve(at).map(|(ms, _)| ms)),
        }
    }

    /// The moment at which a window ends that ends with it, milliseconds: of a day, the first of the next.
    ///
    /// # Errors
    /// If it is too far from 1970.
    pub fn end_ms(&self, zone: &Zone) -> Result<i64> {
        match self.means {
            Means::Day(_, next) => self.reached(zone.resolve(next).map(|(ms, _)| ms)),
            _ => self.first_ms(zone),
        }
    }

    /// The last moment it stands for, milliseconds: of a day, its last.
    ///
    /// # Errors
    /// If it is too far from 1970.
    pub fn last_ms(&self, zone: &Zone) -> Result<i64> {
        let end_ms = self.end_ms(zone)?;
        Ok(if matches!(self.means, Means::Day(..)) { end_ms - 1 } else { end_ms })
    }

    fn reached(&self, ms: Option<i64>) -> Result<i64> {
        ms.ok_or_else(|| Error::Window {
            asked: format!("`{self}`"),
            found: "is more than 139 years from 1970".to_owned(),
            remedy: "check the year".to_owned(),
        })
    }

    fn is_local(&self) -> bool {
        !matches!(self.means, Means::Instant(_))
    }
}

/// Writes the moment as it was typed.
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A half-open window as it was written; either side may be open.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// Names of the two sides where they are typed.
    names: [&'static str; 2],
    from: Option<&'a Written>,
    to: Option<&'a Written>,
}

impl<'a> Window<'a> {
    /// A window whose sides are called `names`, such as `--from` and `--to`.
    ///
    /// # Errors
    /// If it is empty or ends before it begins whatever the zone is, so that this is told before anything is read.
    pub fn new(names: [&'static str; 2], from: Option<&'a Written>, to: Option<&'a Written>) -> Result<Self> {
        let window = Self { names, from, to };
        if let (Some(from), Some(to)) = (from, to)
            && from.is_local() == to.is_local()
        {
            window.resolve(&Zone::utc())?;
        }
        Ok(window)
    }

    /// Returns the first moment of the window and the one at which it ends, milliseconds, where
    /// local times are of `zone`.
    ///
    /// # Errors
    /// If it is empty or ends before it begins.
    pub fn resolve(&self, zone: &Zone) -> Result<(Option<i64>, Option<i64>)> {
        let from_ms = self.from.map(|from| from.first_ms(zone)).transpose()?;
        let to_ms = self.to.map(|to| to.end_ms(zone)).transpose()?;
        if let (Some(from), Some(to)) = (self.from, self.to)
            && let (Some(from_ms), Some(to_ms)) = (from_ms, to_ms)
            && to_ms <= from_ms
        {
            let [begin, end] = self.names;
            let how = if to_ms == from_ms { "is empty: it ends where it begins" } else { "ends before it begins" };
            return Err(Error::Window {
                asked: format!("{begin} {from} {end} {to}"),
                found: format!("the time between them {how}"),
                remedy: format!("name an {end} after {begin}; a bare date is that whole day"),
            });
        }
        Ok((from_ms, to_ms))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::time::{DAY_MS, HOUR_MS, format_utc};

    fn between(from: &str, to: &str, zone: &str) -> Result<(String, String)> {
        let (from, to) = (Written::parse(from)?, Written::parse(to)?);
        let window = Window::new(["--from", "--to"], Some(&from), Some(&to))?;
        let (from, to) = window.resolve(&Zone::named(zone)?)?;
        Ok((format_utc(from.unwrap()), format_utc(to.unwrap())))
    }

    #[test]
    fn a_date_is_a_whole_day_in_the_trace_s_zone() {
        let of = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let day = between("2024-03-10", "2024-03-10", "Asia/Shanghai").unwrap();
        assert_eq!(day, of("2024-03-09 16:00:00", "2024-03-10 16:00:00"));
        let two = between("2024-03-10", "2024-03-11", "Asia/Shanghai").unwrap();
        assert_eq!(two, of("2024-03-09 16:00:00", "2024-03-11 16:00:00"));
        // A time is a moment, and not a day.
        let one = between("2024-03-10T00:00", "2024-03-11T00:00:00", "Asia/Shanghai").unwrap();
        assert_eq!(one, of("2024-03-09 16:00:00", "2024-03-10 16:00:00"));
        let mixed = between("2024-03-10T00:00:00Z", "1710115200", "Asia/Shanghai").unwrap();
        assert_eq!(mixed, of("2024-03-10 00:00:00", "2024-03-11 00:00:00"));
    }

    #[test]
    fn a_date_as_an_end_is_in_to_its_end() {
        let zone = Zone::named("America/Los_Angeles").unwrap();
        // 2017-12-01 is 17,501 days after 1970-01-01; the coast is 8 h behind.
        let day = 17_501 * DAY_MS + 8 * HOUR_MS;
        let of = |text: &str| {
            let written = Written::parse(text).unwrap();
            (written.first_ms(&zone).unwrap(), written.end_ms(&zone).unwrap())
        };
        assert_eq!(of("2017-12-01"), (day, day + DAY_MS));
        assert_eq!(of("2017-12-01T06:00:00"), (day + 6 * HOUR_MS, day + 6 * HOUR_MS));
        assert_eq!(of("2017-12-01T08:00:00Z"), (day, day));
        let last = |text: &str| Written::parse(text).unwrap().last_ms(&zone).unwrap();
        assert_eq!((last("2017-12-01"), last("2017-12-01T08:00:00Z")), (day + DAY_MS - 1, day));
    }

    #[test]
    fn a_day_on_which_clocks_change_has_23_hours() {
        let day = Written::parse("2024-03-31").unwrap();
        let zone = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(day.end_ms(&zone).unwrap() - day.first_ms(&zone).unwrap(), DAY_MS - HOUR_MS);
    }

    #[test]
    fn an_empty_or_inverted_window_shows_times_as_written() {
        let said = |from: &str, to: &str| between(from, to, "Europe/Berlin").unwrap_err().to_string();
        let inverted = said("2024-03-10", "2024-03-09");
        assert!(inverted.contains("--from 2024-03-10 --to 2024-03-09"), "{inverted}");
        // The 9th ends where the 10th begins.
        assert!(inverted.contains("is empty"), "{inverted}");
        assert!(said("2024-03-10", "2024-03-08").contains("ends before it begins"));
        assert!(said("2024-03-10T12:00", "2024-03-10T12:00").contains("is empty"));
        // Noon in Berlin is 11:00 UTC, which is known only with the zone.
        assert!(said("2024-01-10T12:00", "2024-01-10T11:00:00Z").contains("is empty"));
        assert!(between("2024-01-10T12:00", "2024-01-10T11:30:00Z", "Europe/Berlin").is_ok());
    }

    #[test]
    fn nonsense_is_no_moment() {
        for text in ["", "soon", "2024-13-01", "2024-02-30", "2024-03-10 25:00", "1e300", "NaN"] {
            assert!(Written::parse(text).is_err(), "{text}");
        }
        // The last day of the calendar has no end.
        assert!(Written::parse("9999-12-31").and_then(|far| far.end_ms(&Zone::utc())).is_err());
    }
}
