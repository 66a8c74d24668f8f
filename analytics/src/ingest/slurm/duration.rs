//! Slurm's durations.
//!
//! One grammar covers every column: `[D-]HH:MM:SS[.mmm]` (`Elapsed`, `Timelimit`, `Planned`, `Suspended`) and
//! `MM:SS[.mmm]`, which `TotalCPU` and its kin fall back to under an hour. Two numbers are therefore minutes and
//! seconds, three are hours, minutes and seconds: `01:49.036` is 109.036 s, `01:49:03` is 6,543 s. The words
//! `UNLIMITED`, `Partition_Limit` and `INVALID` are unknown durations, not failures. O(text).

use crate::time::{DAY_S, HOUR_S, MINUTE_S};

/// Content of a duration column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlurmDuration {
    /// A length, seconds.
    Seconds(f64),
    /// A word that stands for no particular length (`UNLIMITED`, `Partition_Limit`, `INVALID`), or nothing.
    Unbounded,
}

impl SlurmDuration {
    /// Reads a duration, `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.to_ascii_lowercase().as_str() {
            "" | "unlimited" | "partition_limit" | "invalid" | "unknown" | "none" | "n/a" => Some(Self::Unbounded),
            _ => seconds(text).map(Self::Seconds),
        }
    }

    /// The length in seconds, where there is one.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Unbounded => None,
        }
    }
}

/// Seconds in `[D-]HH:MM:SS[.mmm]` or `MM:SS[.mmm]`; `None` for anything else.
pub fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, digits)) if !digits.is_empty() && digits.len() <= 9 => {
            (clock, number(digits)? / 10f64.powi(i32::try_from(digits.len()).ok()?))
        }
        Some(_) => return None,
        None => (clock, 0.0),
    };
    let parts = clock.split(':').map(number).collect::<Option<Vec<f64>>>()?;
    let within = |value: f64| (value < 60.0).then_some(value);
    let whole = match (days, parts.as_slice()) {
        (None, [minutes, seconds]) => minutes * 60.0 + within(*seconds)?,
        (_, [hours, minutes, seconds]) => {
            days.unwrap_or(0.0) * DAY_S + hours * HOUR_S + within(*minutes)? * MINUTE_S + within(*seconds)?
        }
        _ => return None,
    };
    Some(whole + fraction)
}

/// `[D-]HH:MM:SS` for a whole number of seconds, as Slurm's commands and configuration take it. Negative is zero.
pub fn format(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

/// A number of digits only (no sign, no blank), small enough to be exact.
fn number(digits: &str) -> Option<f64> {
    let plain = !digits.is_empty() && digits.len() <= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_forms_of_one_column() {
        // 1 × 60 + 49.036; 1 × 3600 + 49 × 60 + 3; 2 × 86400 + 3 × 3600 + 4 × 60 + 5.
        assert_eq!(seconds("01:49.036"), Some(109.036));
        assert_eq!(seconds("01:49:03"), Some(6_543.0));
        assert_eq!(seconds("2-03:04:05"), Some(183_845.0));
        assert_eq!(seconds("00:00:00"), Some(0.0));
        assert_eq!(seconds("30:00:00"), Some(108_000.0));
    }

    #[test]
    fn words_are_no_length_and_nonsense_is_no_duration() {
        for word in ["UNLIMITED", "Partition_Limit", "INVALID", ""] {
            assert_eq!(SlurmDuration::parse(word), Some(SlurmDuration::Unbounded), "{word}");
        }
        for text in ["90", "1:2:3:4", "1:60", "00:61:00", "-1:00:00", "1-", "1-02:03", "a:b", "1:2.", "é:00"] {
            assert_eq!(SlurmDuration::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(total in 0i64..40_000_000) {
            prop_assert_eq!(seconds(&format(total)), Some(total as f64));
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            if let Some(value) = seconds(&text) {
                prop_assert!(value >= 0.0 && value.is_finite());
            }
        }
    }
}
