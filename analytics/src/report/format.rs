//! Formatting of numbers for tables, charts and sentences.
//!
//! Rules: thousands are grouped by commas (`111,549`), large counts are shortened to three figures with an SI letter
//! (`3.62 M`), durations show their two largest units (`1 h 23 min`), shares are percent with one digit and never round to
//! a false 0 % or 100 %, and an unknown value is [`MISSING`], never 0.
//!
//! Worked number: 4,980 s = 3,600 + 23 × 60, hence `1 h 23 min`.

/// Text for an unknown value.
pub const MISSING: &str = "–";

/// Groups the digits of an unsigned decimal string by threes: `1234567` gives `1,234,567`.
fn group(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A whole number with thousands separators: `111,549`.
#[must_use]
pub fn integer(value: i64) -> String {
    let sign = if value < 0 { "−" } else { "" };
    format!("{sign}{}", group(&value.unsigned_abs().to_string()))
}

/// A count of things with thousands separators: `111,549`.
#[must_use]
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A count with what there is `one` or `many` of, and the verb where it has one: `1 GPU`, `0 GPUs`, `2 groups reach`.
#[must_use]
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// A text with its first letter as a capital.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Names separated by commas, the first `most` of them and how many there are more: `a, b and 3 more`.
#[must_use]
pub fn names<S: AsRef<str>>(all: &[S], most: usize) -> String {
    let first = all.iter().take(most).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match all.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Numbers from here on are written with an exponent, since nobody counts sixteen digits.
const EXPONENT_FROM: f64 = 1e15;

/// A number with an exponent and three figures: `1.20e18`.
fn with_exponent(value: f64) -> String {
    format!("{value:.2e}").replace('-', "−")
}

/// A number with a fixed count of decimals and thousands separators: `1,234.50`; [`MISSING`] if it is not finite.
#[must_use]
pub fn float(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    if value.abs() >= EXPONENT_FROM {
        return with_exponent(value);
    }
    let plain = format!("{:.*}", digits, value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let is_zero = plain.bytes().all(|b| b == b'0' || b == b'.');
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", group(whole))
}

/// `value` with ten significant digits: beyond them stand the errors of sums.
#[must_use]
pub fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // Through text, which rounds half to even and never overflows.
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// A number with three significant figures, without trailing zeros after the point: `12.3`, `0.012`, `7`.
fn three_figures(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor();
    if magnitude < -4.0 {
        return with_exponent(value);
    }
    // 10^-4 needs 6 decimals for three figures, 10^2 needs none.
    let decimals = (2.0 - magnitude).clamp(0.0, 6.0) as usize;
    let text = float(value, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Amounts below this are said to be below it: nobody tells 0.000944 GPUs from 0.000312.
const SMALLEST: f64 = 0.001;

/// A count or amount in little space: `<0.001`, `987`, `12.3`, `45,600`, `3.62 M`, `1.20 G`; [`MISSING`] if it is not finite.
#[must_use]
pub fn compact(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let size = value.abs();
    if value > 0.0 && value < SMALLEST {
        format!("<{SMALLEST}")
    } else if size < 999.5 {
        three_figures(value)
    } else if size < 999_999.5 {
        float(value, 0)
    } else if size >= EXPONENT_FROM {
        with_exponent(value)
    } else {
        // Each bound is where rounding to three figures would reach the next unit.
        let (unit, letter) = if size < 999.5e6 {
            (1e6, "M")
        } else if size < 999.5e9 {
            (1e9, "G")
        } else {
            (1e12, "T")
        };
        let scaled = value / unit;
        let digits = if scaled.abs() < 9.995 {
            2
        } else if scaled.abs() < 99.95 {
            1
        } else {
            0
        };
        format!("{} {letter}", float(scaled, digits))
    }
}

/// A share as percent with one decimal, from a ratio: 0.982 gives `98.2 %`. A share that is not 0 or 1 never looks like it:
/// `<0.1 %`, `>99.9 %`.
#[must_use]
pub fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return MISSING.to_string();
    }
    let value = ratio * 100.0;
    if value > 0.0 && value < 0.05 {
        "<0.1 %".to_string()
    } else if (99.95..100.0).contains(&value) {
        ">99.9 %".to_string()
    } else {
        format!("{} %", float(value, 1))
    }
}

/// A duration in its two largest units, from seconds: `850 ms`, `2.5 s`, `12 s`, `1 min 23 s`, `1 h 23 min`, `3 d 4 h`, `412 d`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return MISSING.to_string();
    }
    if seconds < 0.0 {
        return format!("−{}", duration(-seconds));
    }
    if seconds == 0.0 {
        return "0 s".to_string();
    }
    if seconds < 0.000_5 {
        return "<1 ms".to_string();
    }
    if seconds < 0.999_5 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 9.95 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.strip_suffix(".0").unwrap_or(&text));
    }
    // Each unit is rounded first and compared after, so that 59.7 s is `1 min` and not `60 s`.
    let whole_s = seconds.round();
    if whole_s < 60.0 {
        return format!("{whole_s:.0} s");
    }
    if whole_s < 3_600.0 {
        return two_units(whole_s, 60.0, "min", "s");
    }
    let whole_min = (seconds / 60.0).round();
    if whole_min < 1_440.0 {
        return two_units(whole_min, 60.0, "h", "min");
    }
    let whole_h = (seconds / 3_600.0).round();
    if whole_h < 2_400.0 {
        return two_units(whole_h, 24.0, "d", "h");
    }
    format!("{} d", float(seconds / 86_400.0, 0))
}

/// A change of a duration, from seconds: `+1 h 23 min`, `−12 s`, `0 s`.
#[must_use]
pub fn duration_change(seconds: f64) -> String {
    let sign = if seconds > 0.0 { "+" } else { "" };
    format!("{sign}{}", duration(seconds))
}

/// `total` small units as large and small ones: 83 at 60 per `h` is `1 h 23 min`.
fn two_units(total: f64, per_large: f64, large: &str, small: &str) -> String {
    let whole = (total / per_large).floor();
    let rest = total - whole * per_large;
    if rest == 0.0 { format!("{whole:.0} {large}") } else { format!("{whole:.0} {large} {rest:.0} {small}") }
}

/// A size in binary units, from bytes: `512 B`, `1.5 KiB`, `23.0 GiB`.
#[must_use]
pub fn bytes(size_bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if size_bytes < 1024 {
        return format!("{size_bytes} B");
    }
    let mut value = size_bytes as f64;
    let mut name = "B";
    for unit in UNITS {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        name = unit;
    }
    format!("{value:.1} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_are_kept() {
        assert_eq!(significant(0.1 + 0.2), 0.3);
        assert_eq!(significant(123_456_789.123_4), 123_456_789.1);
        assert_eq!(significant(-2.5e-300), -2.5e-300);
        assert!(significant(f64::NAN).is_nan());
    }

    #[test]
    fn names_beyond_the_most_are_counted() {
        let all = ["a", "b", "c", "d"];
        assert_eq!(names(&all, 2), "a, b and 2 more");
        assert_eq!(
            (names(&all, 4), names(&all[..1], 4), names::<&str>(&[], 4)),
            ("a, b, c, d".into(), "a".into(), String::new())
        );
    }

    #[test]
    fn integers_are_grouped_by_threes() {
        assert_eq!(integer(0), "0");
        assert_eq!(integer(999), "999");
        assert_eq!(integer(111_549), "111,549");
        assert_eq!(integer(-1_234_567), "−1,234,567");
        assert_eq!(integer(i64::MIN), "−9,223,372,036,854,775,808");
    }

    #[test]
    fn one_thing_is_singular_and_none_are_plural() {
        assert_eq!(counted(1, "GPU", "GPUs"), "1 GPU");
        assert_eq!(counted(0, "GPU", "GPUs"), "0 GPUs");
        assert_eq!(counted(1_200, "job ends", "jobs end"), "1,200 jobs end");
    }

    #[test]
    fn floats_keep_their_decimals_and_have_no_negative_zero() {
        assert_eq!(float(1234.5, 2), "1,234.50");
        assert_eq!(float(-0.001, 2), "0.00");
        assert_eq!(float(-12.345, 1), "−12.3");
        assert_eq!(float(f64::NAN, 1), MISSING);
    }

    #[test]
    fn compact_keeps_three_figures_and_moves_unit_when_rounding_would_reach_it() {
        assert_eq!(compact(0.0), "0");
        assert_eq!(compact(12.345), "12.3");
        assert_eq!(compact(0.012), "0.012");
        assert_eq!((compact(0.000_944), compact(0.001)), ("<0.001".to_owned(), "0.001".to_owned()));
        assert_eq!(compact(999.6), "1,000");
        assert_eq!(compact(45_600.4), "45,600");
        assert_eq!(compact(999_999.6), "1.00 M");
        assert_eq!(compact(3_621_000.0), "3.62 M");
        assert_eq!(compact(36_210_000.0), "36.2 M");
        assert_eq!(compact(1.2e9), "1.20 G");
        assert_eq!(compact(1.2e18), "1.20e18");
        assert_eq!(compact(f64::INFINITY), MISSING);
    }

    #[test]
    fn percent_never_rounds_to_a_false_bound() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.000_1), "<0.1 %");
        assert_eq!(percent(0.982), "98.2 %");
        assert_eq!(percent(0.999_99), ">99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
    }

    #[test]
    fn durations_show_two_units_and_carry() {
        assert_eq!(duration(0.0), "0 s");
        assert_eq!(duration(0.000_1), "<1 ms");
        assert_eq!(duration(0.85), "850 ms");
        assert_eq!(duration(2.0), "2 s");
        assert_eq!(duration(2.5), "2.5 s");
        assert_eq!(duration(59.7), "1 min");
        assert_eq!(duration(83.0), "1 min 23 s");
        // 3,600 + 23 × 60 = 4,980 s.
        assert_eq!(duration(4_980.0), "1 h 23 min");
        // 86,390 s is 1,439.8 min, which rounds to 1,440 min = 1 d.
        assert_eq!(duration(86_390.0), "1 d");
        assert_eq!(duration(3.0 * 86_400.0 + 4.0 * 3_600.0), "3 d 4 h");
        assert_eq!(duration(412.0 * 86_400.0), "412 d");
        assert_eq!(duration(-90.0), "−1 min 30 s");
        assert_eq!([90.0, 0.0, -90.0].map(duration_change), ["+1 min 30 s", "0 s", "−1 min 30 s"]);
        assert_eq!(duration(f64::NAN), MISSING);
    }

    #[test]
    fn bytes_use_binary_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(1_048_575), "1.0 MiB");
        assert_eq!(bytes(23 * 1024 * 1024 * 1024), "23.0 GiB");
    }
}
