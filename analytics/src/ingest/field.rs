//! The one home of null spellings and byte units, and of turning a field's text into a number or a time with an account of
//! failures.

use jiff::civil::DateTime;

use crate::quality::{RowAudit, reason};
pub(crate) use crate::schema::MIB;
use crate::schema::MOST_NUMBER;
use crate::time::{Resolution, Zone, parse_local, parse_with_offset};

/// Bytes in a gibibyte.
pub(crate) const GIB: f64 = 1_073_741_824.0;

/// The spellings of "unknown" that accounting and telemetry tools write, in lower case.
const NULLS: [&str; 13] =
    ["", "na", "n/a", "[n/a]", "nan", "none", "null", "(null)", "nil", "\\n", "-", "unknown", "none assigned"];

/// Whether a field is unknown: empty, or one of the known spellings.
pub(crate) fn is_null(text: &str) -> bool {
    let text = text.trim();
    // Asked of every field of every row: most are longer than any spelling.
    text.len() <= 13 && NULLS.iter().any(|null| text.eq_ignore_ascii_case(null))
}

/// A real number, `None` if unknown. What is not a number becomes unknown and is noted as a repair.
pub(crate) fn number(text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let text = text.map(str::trim).filter(|text| !is_null(text))?;
    match text.parse::<f64>() {
        Ok(value) if value.abs() <= MOST_NUMBER => Some(value),
        Ok(value) if value.is_finite() => {
            row.repair(reason::OUT_OF_RANGE, column, text);
            None
        }
        _ => {
            row.repair(reason::NOT_A_NUMBER, column, text);
            None
        }
    }
}

/// A real number that cannot be negative; a negative one becomes unknown and is noted as a repair.
pub(crate) fn amount(text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<f64> {
    let value = number(text, column, row)?;
    if value < 0.0 {
        row.repair(reason::NEGATIVE, column, text.unwrap_or_default());
        return None;
    }
    Some(value)
}

/// A whole number, also when written as `3.0`; what is not one becomes unknown and is noted as a repair.
pub(crate) fn whole(text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<i64> {
    let trimmed = text.map(str::trim).filter(|text| !is_null(text))?;
    if let Ok(value) = trimmed.parse::<i64>() {
        return Some(value);
    }
    let value = number(Some(trimmed), column, row)?;
    if value.fract() != 0.0 || value.abs() > 9e15 {
        row.repair(reason::NOT_A_NUMBER, column, trimmed);
        return None;
    }
    Some(value as i64)
}

/// A known text, `None` if unknown.
pub(crate) fn text(field: Option<&str>) -> Option<&str> {
    field.map(str::trim).filter(|text| !is_null(text))
}

/// Format of a column's times.
#[derive(Debug, Clone, Copy)]
pub enum Moment<'a> {
    /// `2020-04-01 00:00:00` in a zone (an offset in the text wins over the zone).
    Local(&'a Zone),
    /// Seconds since the epoch, or since the trace began.
    Seconds,
    /// Milliseconds since the epoch, or since the trace began.
    Millis,
    /// Microseconds since the epoch, or since the trace began.
    Micros,
}

impl Moment<'_> {
    /// The moment in milliseconds, `None` if unknown. What is not a time becomes unknown and is noted as a repair, as
    /// are local times that happened twice or never.
    pub fn read(self, text: Option<&str>, column: &str, row: &mut RowAudit<'_>) -> Option<i64> {
        let text = text.map(str::trim).filter(|text| !is_null(text))?;
        let scaled =
            |factor: f64| text.parse::<f64>().ok().and_then(|value| crate::time::seconds_to_ms(value * factor));
        let ms = match self {
            Self::Local(zone) => match parse_local(text) {
                Some(local) => return resolve(zone, local, text, column, row),
                None => parse_with_offset(text),
            },
            Self::Seconds => scaled(1.0),
            Self::Millis => scaled(1e-3),
            Self::Micros => scaled(1e-6),
        };
        if ms.is_none() {
            row.repair(reason::NOT_A_TIME, column, text);
        }
        ms
    }
}

fn resolve(zone: &Zone, local: DateTime, text: &str, column: &str, row: &mut RowAudit<'_>) -> Option<i64> {
    let Some((ms, how)) = zone.resolve(local) else {
        row.repair(reason::NOT_A_TIME, column, text);
        return None;
    };
    match how {
        Resolution::Once => {}
        Resolution::Fold { later_ms } => row.fold(ms, later_ms, column, text),
        Resolution::Gap => row.repair(reason::DST_GAP, column, text),
    }
    Some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_none_and_zero_is_zero() {
        let mut row = RowAudit::new("f", 1);
        for null in ["", " ", "NA", "None", "NaN", "[N/A]", "\\N", "None assigned"] {
            assert_eq!(number(Some(null), "c", &mut row), None, "{null:?}");
        }
        assert_eq!(number(Some(" 0 "), "c", &mut row), Some(0.0));
        assert_eq!(whole(Some("3.0"), "c", &mut row), Some(3));
        assert_eq!(whole(Some("1e300"), "c", &mut row), None);
        assert_eq!(amount(Some("-1"), "c", &mut row), None);
        assert_eq!(number(Some("inf"), "c", &mut row), None);
        assert_eq!(number(Some("1e308"), "c", &mut row), None);
    }

    #[test]
    fn times_are_read_in_the_columns_own_way() {
        let mut row = RowAudit::new("f", 1);
        let utc = Zone::utc();
        assert_eq!(Moment::Local(&utc).read(Some("1970-01-01 00:00:01"), "c", &mut row), Some(1_000));
        assert_eq!(Moment::Local(&utc).read(Some("1970-01-01 08:00:01+08:00"), "c", &mut row), Some(1_000));
        assert_eq!(Moment::Seconds.read(Some("1.5"), "c", &mut row), Some(1_500));
        assert_eq!(Moment::Micros.read(Some("5835000000"), "c", &mut row), Some(5_835_000));
        assert_eq!(Moment::Seconds.read(Some("soon"), "c", &mut row), None);
    }
}
