//! Conversion of a source's value into a canonical one: null spellings, renames, units, time zones,
//! and an account of failures.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::file::{Mapping, Rule};
use crate::error::{Error, Result};
use crate::ingest::Moment;
use crate::ingest::field;
use crate::ingest::unit::TimeUnit;
use crate::quality::{Reason, RowAudit, reason};
use crate::schema::{ColumnKind, ColumnSpec, MOST_NUMBER};
use crate::time::{Zone, within_reach};

/// A value as it stands in the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    /// Nothing.
    Null,
    /// Text; all that delimited files hold.
    Text(&'a str),
    /// A whole number.
    Int(i64),
    /// A real number.
    Num(f64),
    /// Yes or no.
    Flag(bool),
    /// A moment, milliseconds since the epoch in UTC.
    Utc(i64),
    /// A local time, milliseconds since 1970-01-01 00:00 on that clock.
    Civil(i64),
}

impl<'a> Raw<'a> {
    /// The value as text, for labels, renames and messages.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Null => "".into(),
            Self::Text(text) => text.trim().into(),
            Self::Int(value) => value.to_string().into(),
            Self::Num(value) => value.to_string().into(),
            Self::Flag(value) => value.to_string().into(),
            Self::Utc(ms) => crate::time::format_utc(ms).into(),
            Self::Civil(ms) => crate::time::format_utc(ms).into(),
        }
    }
}

/// A canonical value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    /// Unknown.
    Unknown,
    /// Value of a text or label column.
    Text(Cow<'a, str>),
    /// Value of a time (milliseconds), whole number or flag column.
    Int(i64),
    /// Value of a number column.
    Num(f64),
}

impl Cell<'_> {
    /// The whole number, time or flag.
    pub(super) fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// The text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A date of which it is not known whether the day or the month comes first.
pub(super) const DATE_ORDER: Reason = Reason {
    id: "date_order",
    what: "a date does not begin with its year, and the mapping does not say whether its day or its month does",
    remedy: "in the mapping, write time_unit = \"dmy\" (31.12.2025 14:05) or \"mdy\" (12/31/2025 2:05 PM) under [source], or unit = \"dmy\" in the column",
};

/// Whether a time begins with a day or a month: `31.12.2025`.
fn begins_with_a_day(text: &str) -> bool {
    let year = text.trim_start().get(..4).is_some_and(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
    !year && year_first(text, TimeUnit::DayFirst).is_some()
}

/// A time such as `31.12.2025 14:05`, `31/12/25` or `12/31/2025, 2:05 PM` with its year first: `2025-12-31 14:05`; one that begins
/// with its year as it is. `None` if it is no such time. Two digits of a year are of this century.
fn year_first(text: &str, unit: TimeUnit) -> Option<String> {
    let text = text.trim();
    let (date, rest) = text.split_once([' ', 'T', ',']).unwrap_or((text, ""));
    let parts: Vec<&str> = date.split(['.', '/', '-']).collect();
    let [first, second, last] = parts.as_slice() else { return None };
    let number = |text: &str, longest: usize| -> Option<u32> {
        let plain = (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse().ok() } else { None }
    };
    if first.len() == 4 {
        return Some(text.to_owned());
    }
    let (day, month) = if unit == TimeUnit::MonthFirst { (second, first) } else { (first, second) };
    let (day, month) = (number(day, 2)?, number(month, 2)?);
    let year = number(last, 4).filter(|_| last.len() == 4).or_else(|| number(last, 2).map(|year| 2_000 + year))?;
    let date = format!("{year:04}-{month:02}-{day:02}");
    let rest = rest.trim_matches([' ', ',']);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.'))).unwrap_or(rest.len());
    let (clock, tail) = rest.split_at_checked(end)?;
    let Some((hour, minutes)) = clock.split_once(':') else { return rest.is_empty().then_some(date) };
    let hour = number(hour, 2)?;
    let half = tail.trim().replace('.', "").to_ascii_lowercase();
    let (hour, tail) = match half.as_str() {
        "am" => (hour % 12, ""),
        "pm" => (hour % 12 + 12, ""),
        _ => (hour, tail),
    };
    Some(format!("{date} {hour:02}:{minutes}{tail}"))
}

/// Turns source values into canonical ones.
#[derive(Debug)]
pub(super) struct Converter<'m> {
    mapping: &'m Mapping,
    zone: &'m Zone,
    /// The moment time 0 stands for, milliseconds.
    origin_ms: i64,
}

impl<'m> Converter<'m> {
    /// A converter for `mapping` in the cluster's `zone`.
    ///
    /// # Errors
    /// When the mapping's origin is not a time the zone can place.
    pub(super) fn new(mapping: &'m Mapping, zone: &'m Zone) -> Result<Self> {
        let origin_ms = match mapping.origin {
            None => 0,
            Some(origin) => zone.resolve(origin).map(|(ms, _)| ms).ok_or_else(|| {
                Error::format(&mapping.name, format!("origin {origin} is out of range"), "give a usual date")
            })?,
        };
        Ok(Self { mapping, zone, origin_ms })
    }

    /// The canonical value of `column` from `raw` under `rule`; `add` are the durations that go on top of a time.
    pub(super) fn cell<'a>(
        &self,
        column: &ColumnSpec,
        rule: &'a Rule,
        raw: Raw<'a>,
        add: &[Raw<'a>],
        audit: &mut RowAudit<'_>,
    ) -> Cell<'a> {
        let Some(raw) = self.known(raw) else { return Cell::Unknown };
        let raw = if rule.values.is_empty() {
            raw
        } else {
            match rule.values.get(raw.text().as_ref()) {
                Some(renamed) if renamed.is_empty() => return Cell::Unknown,
                Some(renamed) => Raw::Text(renamed),
                None => raw,
            }
        };
        let name = column.name;
        match column.kind {
            ColumnKind::Text | ColumnKind::Label => Cell::Text(raw.text()),
            ColumnKind::Time => self.sum(rule, raw, add, name, audit).map_or(Cell::Unknown, Cell::Int),
            ColumnKind::Flag => flag(raw, name, audit).map_or(Cell::Unknown, |flag| Cell::Int(i64::from(flag))),
            ColumnKind::Int => {
                let value = self.amount(rule, raw, name, audit).map(f64::round);
                value.filter(|value| value.abs() < 9.0e18).map_or(Cell::Unknown, |value| Cell::Int(value as i64))
            }
            ColumnKind::Num => self.amount(rule, raw, name, audit).map_or(Cell::Unknown, Cell::Num),
        }
    }

    /// The value unless it is one of the spellings of unknown.
    fn known<'a>(&self, raw: Raw<'a>) -> Option<Raw<'a>> {
        match raw {
            Raw::Null => None,
            Raw::Num(value) if value.is_nan() => None,
            Raw::Text(text) if field::is_null(text) => None,
            _ if self.mapping.null.is_empty() => Some(raw),
            _ => (!self.mapping.null.iter().any(|null| *null == raw.text())).then_some(raw),
        }
    }

    /// A time with durations on top. One that is unknown makes the sum unknown.
    fn sum(&self, rule: &Rule, raw: Raw<'_>, add: &[Raw<'_>], name: &str, audit: &mut RowAudit<'_>) -> Option<i64> {
        let mut ms = self.moment(rule.time_unit.unwrap_or(self.mapping.time_unit), raw, name, audit)?;
        for part in add {
            let part = self.number(self.known(*part)?, name, audit)? * rule.add_factor_ms;
            if part < 0.0 {
                audit.repair(reason::NEGATIVE, name, &part.to_string());
                return None;
            }
            let later =
                crate::time::seconds_to_ms(part / 1_000.0).and_then(|part| within_reach(ms.saturating_add(part)));
            let Some(later) = later else {
                audit.repair(reason::OUT_OF_RANGE, name, &part.to_string());
                return None;
            };
            ms = later;
        }
        Some(ms)
    }

    fn moment(&self, unit: TimeUnit, raw: Raw<'_>, name: &str, audit: &mut RowAudit<'_>) -> Option<i64> {
        let ms = match (raw, unit) {
            (Raw::Null, _) => return None,
            (Raw::Utc(ms), _) => within_reach(ms),
            (Raw::Civil(ms), _) => return self.civil(ms, name, audit),
            (Raw::Text(text), TimeUnit::Text) if begins_with_a_day(text) => {
                audit.repair(DATE_ORDER, name, text);
                return None;
            }
            (Raw::Text(text), TimeUnit::Text) => return Moment::Local(self.zone).read(Some(text), name, audit),
            (Raw::Text(text), TimeUnit::DayFirst | TimeUnit::MonthFirst) => match year_first(text, unit) {
                Some(iso) => return Moment::Local(self.zone).read(Some(&iso), name, audit),
                None => None,
            },
            (Raw::Text(text), TimeUnit::Nanos(nanos)) => match text.trim().parse::<i64>() {
                Ok(count) => self.since_origin_whole(count, nanos),
                Err(_) => {
                    let count = self.with_point(text.trim()).and_then(|text| text.parse::<f64>().ok());
                    count.and_then(|count| self.since_origin(count, nanos))
                }
            },
            (Raw::Int(count), TimeUnit::Nanos(nanos)) => self.since_origin_whole(count, nanos),
            (Raw::Num(count), TimeUnit::Nanos(nanos)) => self.since_origin(count, nanos),
            (Raw::Int(_) | Raw::Num(_) | Raw::Flag(_), _) => None,
        };
        if ms.is_none() {
            audit.repair(reason::NOT_A_TIME, name, &raw.text());
        }
        ms
    }

    /// Exact for whole numbers: a count of nanoseconds has more digits than a real number holds.
    fn since_origin_whole(&self, count: i64, nanos: i64) -> Option<i64> {
        const MS: i128 = 1_000_000;
        let total = i128::from(count) * i128::from(nanos);
        let ms = (total + MS / 2).div_euclid(MS);
        within_reach(self.origin_ms.saturating_add(i64::try_from(ms).ok()?))
    }

    fn since_origin(&self, count: f64, nanos: i64) -> Option<i64> {
        within_reach(self.origin_ms.saturating_add(crate::time::seconds_to_ms(count * nanos as f64 / 1e9)?))
    }

    fn civil(&self, ms: i64, name: &str, audit: &mut RowAudit<'_>) -> Option<i64> {
        let local: Option<DateTime> =
            Timestamp::from_millisecond(ms).ok().map(|moment| TimeZone::UTC.to_datetime(moment));
        let Some(local) = local else {
            audit.repair(reason::NOT_A_TIME, name, &ms.to_string());
            return None;
        };
        // Through text, so that folds and gaps are noted as they are in delimited files.
        let text = format!("{}", local.strftime("%Y-%m-%d %H:%M:%S%.f"));
        Moment::Local(self.zone).read(Some(&text), name, audit)
    }

    /// A number in its canonical unit. Only temperatures and exit codes can be negative, and a ratio is at most 1.
    fn amount(&self, rule: &Rule, raw: Raw<'_>, name: &str, audit: &mut RowAudit<'_>) -> Option<f64> {
        let value = self.number(raw, name, audit)? * rule.factor;
        if value < 0.0 && !matches!(name, "temp_c" | "exit_code") {
            audit.repair(reason::NEGATIVE, name, &raw.text());
            return None;
        }
        if value.abs() > MOST_NUMBER || (name.ends_with("_ratio") && value > 1.0) {
            audit.repair(reason::OUT_OF_RANGE, name, &raw.text());
            return None;
        }
        Some(value)
    }

    fn number(&self, raw: Raw<'_>, name: &str, audit: &mut RowAudit<'_>) -> Option<f64> {
        match raw {
            Raw::Text(text) if !self.mapping.decimal_comma && has_decimal_comma(text) => {
                audit.repair(super::DECIMAL_COMMA, name, text);
                None
            }
            Raw::Text(text) => match self.with_point(text) {
                Some(pointed) => field::number(Some(&pointed), name, audit),
                None => {
                    audit.repair(reason::NOT_A_NUMBER, name, text);
                    None
                }
            },
            Raw::Int(value) => Some(value as f64),
            Raw::Num(value) if value.is_finite() => Some(value),
            other => {
                audit.repair(reason::NOT_A_NUMBER, name, &other.text());
                None
            }
        }
    }

    /// A number's text with a point before its fraction. `None` for a point where a comma is due: `1.500` may be 1500.
    fn with_point<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        match (self.mapping.decimal_comma, text.contains('.')) {
            (false, _) => Some(text.into()),
            (true, true) => None,
            (true, false) => Some(text.replacen(',', ".", 1).into()),
        }
    }
}

/// Whether a text is digits with one comma among them: `0,5`, not `1,2,3` and not `a,5`.
fn has_decimal_comma(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.trim();
    text.trim_start_matches(['-', '+']).split_once(',').is_some_and(|(whole, part)| digits(whole) && digits(part))
}

fn flag(raw: Raw<'_>, name: &str, audit: &mut RowAudit<'_>) -> Option<bool> {
    if let Raw::Flag(value) = raw {
        return Some(value);
    }
    let text = raw.text();
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Some(true),
        "0" | "false" | "f" | "no" | "n" => Some(false),
        _ => {
            audit.repair(super::NOT_A_FLAG, name, &text);
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::mapping::file::Mapping;

    const TEXT: &str = r#"
        table = "gpu_samples"
        [source]
        time_unit = "us"
        origin = "2020-09-01 00:00:00"
        zone = "Asia/Shanghai"
        null = ["-1"]
        [columns]
        ts = { column = "t", add = ["late"], add_unit = "min" }
        node = { column = "n", values = { a = "b", gone = "" } }
        gpu = { column = "g" }
        util_ratio = { column = "u", unit = "percent" }
        temp_c = { column = "c" }
    "#;

    fn convert(column: &str, raw: Raw<'_>, add: &[Raw<'_>]) -> Cell<'static> {
        let mapping = Mapping::parse("m", TEXT).unwrap();
        let zone = Zone::named("Asia/Shanghai").unwrap();
        let converter = Converter::new(&mapping, &zone).unwrap();
        let (spec, rule) = mapping.rules.iter().find(|(spec, _)| spec.name == column).unwrap();
        match converter.cell(spec, rule.as_ref().unwrap(), raw, add, &mut RowAudit::new("f", 1)) {
            Cell::Text(text) => Cell::Text(text.into_owned().into()),
            Cell::Int(value) => Cell::Int(value),
            Cell::Num(value) => Cell::Num(value),
            Cell::Unknown => Cell::Unknown,
        }
    }

    #[test]
    fn units_nulls_renames_and_the_origin() {
        // Midnight of 2020-09-01 in Shanghai is 2020-08-31 16:00 UTC = 1,598,889,600 s; 1.5 s later, plus 2 minutes.
        let base = 1_598_889_600_000;
        assert_eq!(convert("ts", Raw::Text("1500000"), &[Raw::Text("2")]), Cell::Int(base + 1_500 + 120_000));
        assert_eq!(convert("ts", Raw::Int(0), &[Raw::Null]), Cell::Unknown);
        assert_eq!(convert("ts", Raw::Utc(5), &[]), Cell::Int(5));
        assert_eq!(convert("ts", Raw::Civil(1_598_918_400_000), &[]), Cell::Int(base));
        assert_eq!(convert("util_ratio", Raw::Text("40"), &[]), Cell::Num(0.4));
        assert_eq!(convert("util_ratio", Raw::Int(140), &[]), Cell::Unknown);
        assert_eq!(convert("temp_c", Raw::Text("-1"), &[]), Cell::Unknown);
        assert_eq!(convert("temp_c", Raw::Text("-2"), &[]), Cell::Num(-2.0));
        assert_eq!(convert("node", Raw::Text(" a "), &[]), Cell::Text("b".into()));
        assert_eq!(convert("node", Raw::Text("gone"), &[]), Cell::Unknown);
        assert_eq!(convert("gpu", Raw::Int(3), &[]), Cell::Text("3".into()));
    }

    #[test]
    fn a_decimal_comma_is_read_where_the_mapping_says_so() {
        let text = |decimal: &str| TEXT.replace("[source]", &format!("[source]\n{decimal}"));
        let number = |decimal: &str, value: &str| {
            let mapping = Mapping::parse("m", &text(decimal)).unwrap();
            let zone = Zone::named("Asia/Shanghai").unwrap();
            let converter = Converter::new(&mapping, &zone).unwrap();
            let mut audit = RowAudit::new("f", 1);
            let result = converter.number(Raw::Text(value), "temp_c", &mut audit);
            let mut ledger = crate::quality::Ledger::default();
            ledger.keep(audit);
            (result, ledger.entries.first().map(|entry| entry.remedy.clone()).unwrap_or_default())
        };
        let comma = "decimal = \",\"";
        assert_eq!(number(comma, "0,5").0, Some(0.5));
        assert_eq!(number(comma, "-12").0, Some(-12.0));
        // 1.500 is 1500 where the comma is the decimal mark, or 1.5 where it was forgotten: not to be guessed.
        assert_eq!(number(comma, "1.500").0, None);
        assert_eq!(number("", "1.500").0, Some(1.5));
        let (result, remedy) = number("", "0,5");
        assert!(result.is_none() && remedy.contains("decimal = \",\""), "{remedy}");
        assert!(!number("", "a,5").1.contains("decimal"));
        assert!(Mapping::parse("m", &text("decimal = \"'\"")).unwrap_err().to_string().contains("decimal `'`"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}", count: i64, real: f64) {
            for column in ["ts", "node", "util_ratio", "temp_c"] {
                for raw in [Raw::Text(&text), Raw::Int(count), Raw::Num(real), Raw::Civil(count), Raw::Utc(count)] {
                    let cell = convert(column, raw, &[raw]);
                    if let (Cell::Num(value), true) = (&cell, column == "util_ratio") {
                        prop_assert!((0.0..=1.0).contains(value));
                    }
                }
            }
        }
    }
}
