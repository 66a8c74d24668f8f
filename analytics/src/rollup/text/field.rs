//! Fields of a line and the values they spell, from bytes.
//!
//! Whole numbers and plain decimals are read eight digits at a time; anything else takes the way of
//! [`ingest::field`](crate::ingest::field), with the same spellings of unknown. Worked number: `1502753220000` is
//! 15,027,532 × 10^5 + 20,000.

use crate::ingest::field::is_null;
use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Zone, parse_local, parse_with_offset};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A field spells neither a value nor an unknown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misspelt;

/// Bytes before the next separator or line end, or all there are.
#[inline]
pub(super) fn length(from: &[u8], separator: u8) -> usize {
    let (separators, ends) = (u64::from(separator) * ONES, u64::from(b'\n') * ONES);
    // A byte is zero after the exclusive or where it was the one looked for; the lowest marked byte is exact.
    let marks = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(chunk) = from.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let result = marks(word ^ separators) | marks(word ^ ends);
        if result != 0 {
            return at + (result.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = from.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| *byte == separator || *byte == b'\n').unwrap_or(rest.len())
}

/// Takes the quoted field that `from` begins with into `out`; its bytes in the line, quotes included. `None` if the
/// quote does not close before a separator or the end of the line.
pub(super) fn quoted(from: &[u8], separator: u8, out: &mut Vec<u8>) -> Option<usize> {
    out.clear();
    let mut at = 1;
    loop {
        let byte = *from.get(at)?;
        at += 1;
        match (byte, from.get(at)) {
            (b'"', Some(b'"')) => {
                out.push(b'"');
                at += 1;
            }
            (b'"', next) => {
                let end = at + usize::from(next == Some(&b'\r') && from.get(at + 1) == Some(&b'\n'));
                let closed = from.get(end).is_none_or(|next| *next == separator || *next == b'\n');
                return closed.then_some(end);
            }
            (b'\n', _) => return None,
            _ => out.push(byte),
        }
    }
}

/// The whole number that eight digits spell, if they are digits.
#[inline]
fn eight_digits(chunk: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(chunk);
    let low = word.wrapping_sub(0x3030_3030_3030_3030);
    // A byte below '0' borrows and one above '9' carries when raised by 0x76: both show in the high bits.
    if (low | low.wrapping_add(0x7676_7676_7676_7676)) & HIGHS != 0 {
        return None;
    }
    // Pairs, then fours, then eight: each step multiplies the left half by its weight and adds the right one.
    let pairs = low.wrapping_mul(10).wrapping_add(low >> 8);
    let left = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let right = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    Some(left.wrapping_add(right) >> 32)
}

/// The whole number that 1 to 18 digits spell.
#[inline]
fn digits(text: &[u8]) -> Option<i64> {
    match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) if text.len() <= 16 => {
            // Two overlapping eights; in the second, the digits that the first has too are overwritten with zeros.
            let more = text.len() - 8;
            let mask = u64::MAX.checked_shl(8 * (8 - more as u32)).unwrap_or(0);
            let word = u64::from_le_bytes(*last) & mask | 0x3030_3030_3030_3030 & !mask;
            let (high, low) = (eight_digits(*first)?, eight_digits(word.to_le_bytes())?);
            Some((high * TENS.get(more)? + low) as i64)
        }
        _ if (1..=18).contains(&text.len()) => text.iter().try_fold(0, |sum, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit <= 9).then(|| sum * 10 + i64::from(digit))
        }),
        _ => None,
    }
}

/// Powers of ten by which the first eight of up to 16 digits count.
const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// A time in milliseconds: a whole number of them, or a date and time (UTC unless it says its offset).
#[inline]
pub(super) fn time(text: &[u8]) -> Result<Option<i64>, Misspelt> {
    match digits(text) {
        Some(value) => Ok(Some(value)),
        None => spelt_time(text),
    }
}

fn spelt_time(text: &[u8]) -> Result<Option<i64>, Misspelt> {
    if let Some(ms) = civil_seconds(text) {
        return Ok(Some(ms));
    }
    let text = known(text)?;
    let Some(text) = text else { return Ok(None) };
    if let Some(ms) = text.strip_prefix('-').and_then(|rest| digits(rest.as_bytes())) {
        return Ok(Some(-ms));
    }
    if let Some(local) = parse_local(text) {
        return Ok(Zone::utc().resolve(local).map(|(ms, _)| ms));
    }
    match (parse_with_offset(text), text.parse::<f64>()) {
        (Some(ms), _) => Ok(Some(ms)),
        // Pandas writes whole numbers with a null among them as 1502753220000.0. The cast saturates: out of range.
        (None, Ok(ms)) if ms.is_finite() => Ok(Some(ms.round() as i64)),
        _ => Err(Misspelt),
    }
}

/// `2017-08-14 23:27:00`, with a space or `T` between, in UTC. `None` for any other form.
#[inline]
fn civil_seconds(text: &[u8]) -> Option<i64> {
    let text: &[u8; 19] = text.try_into().ok()?;
    let [y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b' ' | b'T', h1, h2, b':', mi1, mi2, b':', s1, s2] = *text
    else {
        return None;
    };
    let mut all_digits = true;
    let mut two = |tens: u8, ones: u8| {
        let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
        all_digits &= tens <= 9 && ones <= 9;
        i64::from(tens) * 10 + i64::from(ones)
    };
    let year = two(y1, y2) * 100 + two(y3, y4);
    let (month, day) = (two(mo1, mo2), two(d1, d2));
    let (hour, minute, second) = (two(h1, h2), two(mi1, mi2), two(s1, s2));
    // The last days of some months are left to the calendar.
    let is_date = (1..=12).contains(&month) && day >= 1 && (day <= 28 || (day <= 30 && month != 2));
    if !(all_digits && is_date && hour < 24 && minute < 60 && second < 60) {
        return None;
    }
    Some(days(year, month, day) * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (Hinnant, `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A real number.
#[inline]
pub(super) fn real(text: &[u8]) -> Result<Option<f64>, Misspelt> {
    match text {
        // By far the most frequent: a few GPUs.
        [digit @ b'0'..=b'9'] => Ok(Some(f64::from(digit - b'0'))),
        _ => match decimal(text) {
            Some(value) => Ok(Some(value)),
            None => spelt_real(text),
        },
    }
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 16] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Reads up to 15 digits with or without a point: both sides of the one division are exact, so its
/// result is the nearest double to what is written.
#[inline]
fn decimal(text: &[u8]) -> Option<f64> {
    if text.len() > 16 {
        return None;
    }
    let Some(point) = text.iter().position(|byte| *byte == b'.') else {
        return (text.len() <= 15).then(|| digits(text)).flatten().map(|value| value as f64);
    };
    let (whole, fraction) = (text.get(..point)?, text.get(point + 1..)?);
    let (scale, weight) = (POWERS.get(fraction.len())?, 10i64.checked_pow(fraction.len() as u32)?);
    Some((digits(whole)? * weight + digits(fraction)?) as f64 / scale)
}

fn spelt_real(text: &[u8]) -> Result<Option<f64>, Misspelt> {
    let Some(text) = known(text)? else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Some(value)),
        _ => Err(Misspelt),
    }
}

/// The text of a number without blanks around it, `None` if it says "unknown".
fn known(text: &[u8]) -> Result<Option<&str>, Misspelt> {
    let text = std::str::from_utf8(text).map_err(|_| Misspelt)?.trim();
    Ok((!is_null(text)).then_some(text))
}

/// A name without blanks around it, `None` if it says "unknown".
pub(super) fn word(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    std::str::from_utf8(text).map_or(Some(text), |name| (!is_null(name)).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_a_number_and_anything_else_is_not() {
        assert_eq!(eight_digits(*b"15027532"), Some(15_027_532));
        assert_eq!(eight_digits(*b"00000000"), Some(0));
        assert_eq!(eight_digits(*b"99999999"), Some(99_999_999));
        for at in 0..8 {
            for other in [b'/', b':', b'-', b' ', 0, 0xff, b'a'] {
                let mut text = *b"12345678";
                text[at] = other;
                assert_eq!(eight_digits(text), None, "{text:?}");
            }
        }
    }

    #[test]
    fn whole_numbers_of_every_length_are_read() {
        let all = "123456789012345678";
        for length in 1..=18 {
            assert_eq!(digits(&all.as_bytes()[..length]), all[..length].parse().ok(), "{length}");
            for at in 0..length {
                let mut wrong = all.as_bytes()[..length].to_vec();
                wrong[at] = b'.';
                assert_eq!(digits(&wrong), None, "{length} {at}");
            }
        }
        assert_eq!([digits(b""), digits(b"1234567890123456789")], [None, None]);
    }

    #[test]
    fn fields_end_at_a_separator_a_line_end_or_the_end() {
        for (text, expected) in [
            (&b"abc,d"[..], 3),
            (b"abc\nd", 3),
            (b"", 0),
            (b",", 0),
            (b"0123456789ab,", 12),
            (b"01234567,", 8),
            (b"0123456789", 10),
            // A byte one above the separator follows it: the carry must not move the mark.
            (b"ab,-----", 2),
        ] {
            assert_eq!(length(text, b','), expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_milliseconds_or_dates() {
        assert_eq!(time(b"1502753220000"), Ok(Some(1_502_753_220_000)));
        // 2017-08-14 is day 17,392; 23:27 is 84,420 s: 17,392 × 86,400 + 84,420 = 1,502,753,220.
        for text in ["2017-08-14 23:27:00", "2017-08-14T23:27:00Z", "2017-08-15 07:27:00+08:00", "1502753220000.0"] {
            assert_eq!(time(text.as_bytes()), Ok(Some(1_502_753_220_000)), "{text}");
        }
        assert_eq!(time(b"1970-01-01 00:00:00"), Ok(Some(0)));
        assert_eq!(time(b"2000-02-29 00:00:01"), Ok(Some((10_957 + 59) * DAY_MS + 1_000)));
        assert_eq!(time(b"1969-12-31 23:59:59"), Ok(Some(-1_000)));
        assert_eq!(time(b"-5"), Ok(Some(-5)));
        assert_eq!([time(b""), time(b"None")], [Ok(None), Ok(None)]);
        for text in ["soon", "2017-02-30 00:00:00", "2017-13-01 00:00:00", "2017-01-00 00:00:00", "inf"] {
            assert_eq!(time(text.as_bytes()), Err(Misspelt), "{text}");
        }
    }

    #[test]
    fn decimals_are_the_nearest_double() {
        for text in [
            "0.22",
            "3.14159265358979",
            "8",
            "0.1",
            "123456789.5",
            "1e3",
            "-2",
            "100000000000000",
            "0.30000000000000004",
        ] {
            assert_eq!(real(text.as_bytes()), Ok(text.parse().ok()), "{text}");
        }
        assert_eq!([real(b" 4 "), real(b"NaN"), real(b"")], [Ok(Some(4.0)), Ok(None), Ok(None)]);
        assert_eq!([real(b"x"), real(b"1.2.3"), real(b".")], [Err(Misspelt), Err(Misspelt), Err(Misspelt)]);
    }

    #[test]
    fn quotes_close_before_a_separator() {
        let mut out = Vec::new();
        assert_eq!((quoted(b"\"a,\"\"b\",c", b',', &mut out), out.as_slice()), (Some(7), &b"a,\"b"[..]));
        assert_eq!(quoted(b"\"a\"b,c", b',', &mut out), None);
        assert_eq!(quoted(b"\"a\nb\"", b',', &mut out), None);
        assert_eq!((quoted(b"\"a\"\r\n", b',', &mut out), out.as_slice()), (Some(4), &b"a"[..]));
    }

    #[test]
    fn names_are_trimmed_and_may_say_unknown() {
        assert_eq!(
            [word(b" u1 "), word(b"ann"), word(b""), word(b"None"), word(b"N/A")],
            [Some(&b"u1"[..]), Some(b"ann"), None, None, None]
        );
    }
}
