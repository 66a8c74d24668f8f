//! Units a mapping or a table of metrics may name, by the suffix of the canonical column.
//!
//! Worked number: `req_mem_bytes` with unit `GiB` multiplies by 1,073,741,824; `power_w` with `kW` by 1,000; `gpus`
//! with `percent` by 0.01, so that 50 becomes half a GPU.

use crate::KWH_J;
use crate::time::{DAY_S, HOUR_S, MINUTE_S};

/// Format of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// `2020-09-01 00:00:00`, with or without an offset.
    Text,
    /// `31.12.2025 14:05` or `31/12/2025`.
    DayFirst,
    /// `12/31/2025 2:05 PM`.
    MonthFirst,
    /// A number: so many nanoseconds each.
    Nanos(i64),
}

impl TimeUnit {
    /// Names of formats in a mapping.
    pub(super) const NAMES: [&'static str; 7] = ["text", "dmy", "mdy", "s", "ms", "us", "ns"];

    /// Whether times are written with a calendar, and not as a number.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Self::Nanos(_))
    }

    /// The unit called `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "dmy" => Self::DayFirst,
            "mdy" => Self::MonthFirst,
            "s" => Self::Nanos(1_000_000_000),
            "ms" => Self::Nanos(1_000_000),
            "us" => Self::Nanos(1_000),
            "ns" => Self::Nanos(1),
            _ => return None,
        })
    }
}

const SECONDS: &[(&str, f64)] =
    &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", MINUTE_S), ("h", HOUR_S), ("d", DAY_S)];
const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1_024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const WATTS: &[(&str, f64)] = &[("mW", 1e-3), ("W", 1.0), ("kW", 1e3)];
const JOULES: &[(&str, f64)] = &[("uJ", 1e-6), ("mJ", 1e-3), ("J", 1.0), ("kJ", 1e3), ("Wh", 3_600.0), ("kWh", KWH_J)];
const SHARES: &[(&str, f64)] = &[("ratio", 1.0), ("percent", 0.01)];
const RATES: &[(&str, f64)] =
    &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("KiB/s", 1_024.0), ("MiB/s", 1_048_576.0)];
const CELSIUS: &[(&str, f64)] = &[("C", 1.0)];
const COUNTS: &[(&str, f64)] = &[("one", 1.0), ("milli", 1e-3), ("percent", 0.01)];

/// Factor from a value of canonical column `column` in `unit` to the column's unit.
///
/// # Errors
/// The units known for the column, if `unit` is not one.
pub(super) fn factor(column: &str, unit: &str) -> Result<f64, String> {
    let stem = column.strip_suffix("_cum").unwrap_or(column);
    let units = match stem.rsplit('_').next().unwrap_or_default() {
        "s" if stem.ends_with("bytes_per_s") => RATES,
        "s" => SECONDS,
        "c" => CELSIUS,
        "bytes" => BYTES,
        "w" => WATTS,
        "j" => JOULES,
        "ratio" => SHARES,
        _ => COUNTS,
    };
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_with_the_columns_suffix() {
        assert_eq!(factor("mem_used_bytes", "GiB"), Ok(1_073_741_824.0));
        assert_eq!(factor("energy_j_cum", "mJ"), Ok(1e-3));
        assert_eq!(factor("util_ratio", "percent"), Ok(0.01));
        assert_eq!(factor("reported_run_s", "min"), Ok(60.0));
        assert_eq!(factor("req_gpus", "percent"), Ok(0.01));
        assert_eq!(factor("power_w", "GiB"), Err("mW, W, kW".to_owned()));
    }
}
