//! Charts that a terminal can show: curves over time as lines of blocks, rankings and waterfalls as tables with a bar a row.

use super::super::chart::{BarLayout, Chart, Mark, Plot, Ticks};
use super::super::format;
use super::super::markup::printable;
use super::super::model::{Cell, Column, ReportTable};
use super::fill::width;

/// Eight heights of a block.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The curves of a chart over time, a line of blocks each from 0 to the highest of all, with their names and ranges; then the
/// ends of the axis. Empty for other charts, which say more in words.
pub(super) fn sparklines(chart: &Chart, available: usize) -> Vec<String> {
    let Plot::Xy(series) = &chart.plot else {
        return Vec::new();
    };
    if !series.first().is_some_and(|s| matches!(s.mark, Mark::Area)) {
        return Vec::new();
    }
    let known: Vec<(&str, Vec<(f64, f64)>)> = series
        .iter()
        .map(|s| {
            let points = s.points.iter().copied().filter(|(x, y)| x.is_finite() && *y >= 0.0 && y.is_finite());
            (s.name.as_str(), points.collect())
        })
        .collect();
    let points = || known.iter().flat_map(|(_, points)| points);
    let start = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let end = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let highest = points().map(|p| p.1).fold(0.0, f64::max);
    if end <= start || highest <= 0.0 {
        return Vec::new();
    }
    let label = |name: &str, points: &[(f64, f64)]| {
        let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
        format!(" {}, 0 to {}", printable(name), format::compact(most))
    };
    let longest = known.iter().map(|(name, points)| width(&label(name, points))).max().unwrap_or(0);
    let columns = available.saturating_sub(longest).min(72);
    let (from, to) = (moment(chart, start), moment(chart, end));
    if columns < width(&from) + width(&to) + 1 {
        return Vec::new();
    }
    let mut lines: Vec<String> = known
        .iter()
        .map(|(name, points)| blocks(points, start, end, highest, columns) + &label(name, points))
        .collect();
    let to = to + &zone_named(chart);
    lines.push(format!("{from}{}{to}", " ".repeat(columns.saturating_sub(width(&from) + width(&to)).max(1))));
    lines
}

/// An end of the horizontal axis in words.
pub(super) fn moment(chart: &Chart, x: f64) -> String {
    match &chart.x.ticks {
        Ticks::Time(zone) => jiff::Timestamp::from_second(x as i64)
            .map_or_else(|_| String::new(), |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()),
        Ticks::Duration => format::duration(x),
        _ => format::compact(x),
    }
}

/// The zone of a horizontal axis of dates, to stand behind them.
pub(super) fn zone_named(chart: &Chart) -> String {
    match &chart.x.ticks {
        Ticks::Time(zone) => zone.iana_name().map_or_else(String::new, |name| format!(" ({name})")),
        _ => String::new(),
    }
}

/// One curve as blocks.
pub(super) fn blocks(known: &[(f64, f64)], start: f64, end: f64, highest: f64, columns: usize) -> String {
    let mut line = String::new();
    let mut next = 0;
    let mut value = 0.0;
    for column in 0..columns {
        // The highest value that held within this column's stretch.
        let until = start + (end - start) * (column + 1) as f64 / columns as f64;
        let mut most: f64 = value;
        while let Some(&(x, y)) = known.get(next).filter(|p| p.0 <= until) {
            let _ = x;
            value = y;
            most = most.max(y);
            next += 1;
        }
        let level = ((most / highest * 8.0).ceil() as usize).clamp(1, 8) - 1;
        line.push(BLOCKS.get(level).copied().unwrap_or('█'));
    }
    line
}

/// A ranking (lying bars of one series) as a table with a bar per row.
pub(super) fn ranking(chart: &Chart, available: usize) -> Option<ReportTable> {
    let Plot::Bars { categories, series, layout: BarLayout::Grouped | BarLayout::Stacked, lying: true } = &chart.plot
    else {
        return None;
    };
    let [only] = series.as_slice() else {
        return None;
    };
    let longest = (available / 4).min(24) as f64;
    let highest = only.values.iter().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let heading = if chart.x.label.is_empty() { only.name.clone() } else { chart.x.label.clone() };
    let mut table = ReportTable::new("", vec![Column::text(""), Column::number(heading), Column::text("")]);
    for (name, value) in categories.iter().zip(&only.values).take(20) {
        let part = value.filter(|v| v.is_finite() && highest > 0.0).map_or(0.0, |v| (v / highest).clamp(0.0, 1.0));
        let cell = Cell::opt(*value, |v| match chart.x.ticks {
            Ticks::Percent => Cell::Percent(v),
            Ticks::Duration => Cell::Duration(v),
            _ => Cell::Compact(v),
        });
        let bar = "█".repeat((part * longest).round() as usize);
        table.rows.push(vec![Cell::from(name.as_str()), cell, Cell::from(bar)]);
    }
    let hidden = categories.len().saturating_sub(20);
    if hidden > 0 {
        table.note = Some(format!("{hidden} more not shown."));
    }
    Some(table)
}

/// A waterfall as a table with a bar per row, each where it begins and ends.
pub(super) fn waterfall(chart: &Chart, available: usize) -> Option<ReportTable> {
    let Plot::Waterfall(steps) = &chart.plot else {
        return None;
    };
    let longest = (available / 3).min(40);
    let spans = super::super::plot::spans(steps);
    let ends = || spans.iter().flatten().flat_map(|(from, to)| [*from, *to]).chain([0.0]);
    let (least, most) = (ends().fold(0.0, f64::min), ends().fold(0.0, f64::max));
    let place = |value: f64| if most > least { (value - least) / (most - least) * longest as f64 } else { 0.0 };
    let mut table =
        ReportTable::new("", vec![Column::text(""), Column::number(chart.x.label.clone()), Column::text("")]);
    for (step, span) in steps.iter().zip(&spans) {
        let bar = span.map_or_else(String::new, |(from, to)| {
            let (a, b) = (place(from.min(to)).round() as usize, place(from.max(to)).round() as usize);
            format!("{}{}", "·".repeat(a.min(longest)), "█".repeat(b.min(longest).saturating_sub(a)))
        });
        table.rows.push(vec![Cell::from(step.label.as_str()), Cell::Compact(step.value), Cell::from(bar)]);
    }
    Some(table)
}
