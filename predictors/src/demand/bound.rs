//! Upper bound on the slots that demand is gathered in: work and memory follow the rows of a source
//! and not the span of its times.
//!
//! A record of few jobs over many years is mostly slots in which nothing happens. All series of a source together have at most 30,000 slots and 5 for each row of the
//! source, and each may have 16,416; beyond, each keeps its newest, counted from the end, or from where an evaluation begins. Worked example: 30,000 jobs in three VCs over twenty years have four series of 1,051,920 slots of ten
//! minutes; of each the newest 45,000 are gathered, which are 312 days.

use tracecast_analytics::facts::demand::Series;
use tracecast_analytics::report::format;

/// Slots that all series together may have of any source.
const ANYWAY: usize = 30_000;
/// Slots that they may have more for each row.
const A_ROW: usize = 5;
/// Slots of ten minutes that a series may have at least: twice the 57 days that a saved forecaster keeps, so that it can begin anew beyond a hole.
const EACH: usize = 2 * 57 * 144;
/// CPU-seconds that a model takes for a thousand slots to be tried on, about.
const MODEL_S: f64 = 0.15;

/// Returns how many slots each of `series` series may have, of a source of `rows` rows.
pub(super) fn most_slots(rows: usize, series: usize) -> usize {
    (A_ROW.saturating_mul(rows).saturating_add(ANYWAY) / series.max(1)).max(EACH)
}

/// Estimated work of trying so many models on these series, in words.
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
        assert_eq!((most_slots(30_000, 4), most_slots(0, 16), most_slots(usize::MAX, 0)), (45_000, 16_416, usize::MAX));
    }
}
