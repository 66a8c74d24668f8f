//! How many slots demand is gathered in: work and memory follow the rows of a source and not the span of its times.
//!
//! A record of few jobs over many years is mostly slots in which nothing happens. All series of a source together have at most 30,000 slots and 5 for each row of the
//! source, and each may have 8,064; beyond, each keeps its newest. Worked example: 3,000 jobs in three VCs over twenty years have four series of 1,051,920 slots of ten
//! minutes; of each the newest 11,250 are gathered, which are 78 days.

use tracecast_analytics::facts::demand::Series;
use tracecast_analytics::report::format;

/// Slots that all series together may have of any source, and for each row of it.
const ANYWAY: usize = 30_000;
const A_ROW: usize = 5;
/// Slots that a series may have at least: eight weeks of ten minutes.
const EACH: usize = 8_064;
/// CPU-seconds that a model takes for a thousand slots to be tried on, about.
const MODEL_S: f64 = 0.15;

/// Slots that each of so many series may have, of a source of so many rows.
pub fn most_slots(rows: usize, series: usize) -> usize {
    (A_ROW.saturating_mul(rows).saturating_add(ANYWAY) / series.max(1)).max(EACH)
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
    use super::most_slots;

    #[test]
    fn the_worked_example() {
        assert_eq!((most_slots(3_000, 4), most_slots(0, 16), most_slots(usize::MAX, 0)), (11_250, 8_064, usize::MAX));
    }
}
