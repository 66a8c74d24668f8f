//! Display of power, of GPUs and of nodes alike: the curve, the table, and the coverage of an
//! energy.
//!
//! O(1), but for the points of a curve. Worked number: three GPUs, one of them read once, over 2 hours of which 90 % is
//! bridged, read `; 3 GPUs, 1 read only once, on average over 2 h, 90 % of which is bridged`.

use super::energy::Energy;
use crate::describe::summary::int;
use crate::describe::topic::share;
use crate::report::format::{count, duration, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable};
use crate::stats;
use crate::stats::ecdf::CurvePoint;
use crate::time::HOUR_S;

/// The share of readings of at most so many watts.
pub(super) fn curve_chart(id: &str, title: &str, curve: &[CurvePoint]) -> Chart {
    Chart::xy(
        id,
        title,
        Axis::linear("Power (W)"),
        Axis::share("Share of readings"),
        vec![ChartSeries::new("readings", Mark::Step, curve.iter().map(|p| (p.x, p.fraction)).collect())],
    )
    .with_reading("A steep rise at the left is idle power; the right end is the most that was drawn.")
}

/// Continuation of a sentence on an energy: its `meters`, in words, and how much of their time is
/// covered.
pub(super) fn covered(energy: &Energy, meters: &str) -> String {
    let mut text = format!("; {meters}");
    if energy.lone_meters > 0 {
        text.push_str(&format!(", {} read only once", count(energy.lone_meters)));
    }
    if energy.zero_meters > 0 {
        text.push_str(&format!(", {} that never read more than 0 W", count(energy.zero_meters)));
    }
    if let (Some(span_h), Some(part)) = (share(energy.span_h, energy.meters as f64), energy.time_coverage) {
        text.push_str(&format!(
            ", on average over {}, {} of which is bridged",
            duration(span_h * HOUR_S),
            percent(part)
        ));
    }
    text
}

/// An empty table of power, its first column called `first`.
pub(super) fn power_table(title: &str, first: &str) -> ReportTable {
    ReportTable::new(
        title,
        vec![
            Column::text(first),
            Column::number("With power"),
            Column::with_unit("Mean", "W"),
            Column::with_unit("p10", "W"),
            Column::with_unit("Median", "W"),
            Column::with_unit("p90", "W"),
            Column::with_unit("p99", "W"),
            Column::with_unit("Energy", "kWh"),
        ],
    )
}

/// A row of [`power_table`].
pub(super) fn power_row(name: Cell, power: &stats::quantile::Summary, energy_kwh: Option<f64>) -> Vec<Cell> {
    let mut row = vec![name, int(power.count)];
    row.extend([power.mean, power.p10, power.p50, power.p90, power.p99].map(|value| Cell::Float { value, digits: 0 }));
    row.push(Cell::opt(energy_kwh, Cell::Compact));
    row
}
