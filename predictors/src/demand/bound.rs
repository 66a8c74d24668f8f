//! How many slots forecasters are tried on: work and memory follow the rows of a source and not the span of its times.
//!
//! A record of few jobs over many years is mostly slots in which nothing happens. All series of a source together have at most 30,000 slots and 5 for each row of the
//! source, and each may have 8,064; beyond, each keeps its newest, whole days. O(slots). Worked example: 3,000 jobs in three VCs over twenty years have four series of 1,051,920 slots of ten
//! minutes; of each the newest 11,232 are kept, which are 78 days.

use tracecast_analytics::facts::demand::Series;
use tracecast_analytics::report::format;
use tracecast_analytics::time::{DAY_MS, format_utc};

use super::gather::Gathered;

/// Slots that all series together may have of any source, and for each row of it.
const ANYWAY: usize = 30_000;
const A_ROW: usize = 5;
/// Slots that a series has at least: eight weeks of ten minutes.
const EACH: usize = 8_064;
/// CPU-seconds that a model takes for a thousand slots to be tried on, about.
const MODEL_S: f64 = 0.15;

/// Keeps the newest slots of each series, where all have more than the rows of the source are worth; notes say so.
pub fn bound(gathered: &mut Gathered, rows: usize) {
    let most = A_ROW.saturating_mul(rows).saturating_add(ANYWAY) / gathered.series.len().max(1);
    let most = most.max(EACH);
    let mut cut = None;
    for series in &mut gathered.series {
        let day = usize::try_from(DAY_MS / series.slot_ms.max(1)).unwrap_or(1).max(1);
        let dropped = series.slots.len().saturating_sub(most).div_ceil(day) * day;
        if dropped == 0 || dropped >= series.slots.len() {
            continue;
        }
        series.start_ms = series.time_ms(dropped);
        series.slots.drain(..dropped);
        cut = cut.max(Some(series.start_ms));
    }
    if let Some(from_ms) = cut {
        gathered.notes.insert(
            0,
            format!(
                "Forecasters are tried on the slots from {} (UTC) on alone, at most {} of each series: {} do not tell of more. Longer slots (--slot) reach back farther.",
                format_utc(from_ms),
                format::count(most as u64),
                format::counted(rows as u64, "row", "rows")
            ),
        );
    }
}

/// What it takes to try so many models on these series, in words, for people who wait.
pub fn work(series: &[Series], models: usize) -> String {
    let slots: usize = series.iter().map(|each| each.slots.len()).sum();
    format!(
        "{} on {} of {}: about {} of CPU time",
        format::counted(models as u64, "model", "models"),
        format::counted(series.len() as u64, "series", "series"),
        format::counted(slots as u64, "slot", "slots"),
        format::duration((MODEL_S * models as f64 * slots as f64 / 1000.0).max(1.0).round())
    )
}

#[cfg(test)]
mod tests {
    use tracecast_analytics::facts::demand::{Slot, Unit};

    use super::*;

    fn gathered(slots: usize, series: usize) -> Gathered {
        let one = |name: usize| Series {
            name: name.to_string(),
            unit: Unit::Gpus,
            counts_pending: true,
            start_ms: 0,
            slot_ms: 600_000,
            zone: "UTC".to_owned(),
            slots: (0..slots).map(|at| Slot { peak: at as f64, counted: true, ..Slot::default() }).collect(),
        };
        Gathered {
            series: (0..series).map(one).collect(),
            notes: Vec::new(),
            cautions: Vec::new(),
            doubts: Vec::new(),
            from_jobs: true,
            totals_unknown: Vec::new(),
        }
    }

    #[test]
    fn the_worked_example_keeps_the_newest_days_and_says_so() {
        let mut found = gathered(1_051_920, 4);
        bound(&mut found, 3_000);
        for series in &found.series {
            assert_eq!(series.slots.len(), 11_232);
            assert_eq!(series.start_ms, (1_051_920 - 11_232) * 600_000);
            assert_eq!(series.slots.last().map(|slot| slot.peak), Some(1_051_919.0));
        }
        assert_eq!(found.notes.len(), 1);
        // What the rows are worth stays as it is.
        let mut whole = gathered(20_000, 16);
        let before = whole.clone();
        bound(&mut whole, 111_549);
        assert_eq!(whole, before);
    }
}
