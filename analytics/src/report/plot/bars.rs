//! Bars by category, standing or lying, side by side or stacked.

use super::frame::{self, EDGE, Entry, LINE, Swatch};
use super::scale::{Span, range, rounded_up, ticks};
use super::scene::{Anchor, SMALL, Scene, Sheet, palette, text_width, wrap};
use crate::report::chart::{Axis, BarLayout, BarSeries, Chart, Reference, Scale, Ticks};
use crate::report::format;

/// Height of the area of standing bars.
const AREA: f64 = 230.0;

/// The bars of a chart.
pub(super) struct Bars<'a> {
    pub(super) categories: &'a [String],
    pub(super) series: &'a [BarSeries],
    pub(super) layout: BarLayout,
    pub(super) lying: bool,
}

/// One bar: category, series, and where it begins and ends in values.
struct Bar {
    category: usize,
    series: usize,
    from: f64,
    to: f64,
}

pub(super) fn layout(chart: &Chart, bars: &Bars<'_>, sheet: Sheet<'_>) -> Scene {
    let axis = if bars.lying || chart.y.label.is_empty() { &chart.x } else { &chart.y };
    // Bars measure from zero, so a logarithmic axis would make their lengths meaningless.
    let axis = Axis { scale: Scale::Linear, ..axis.clone() };
    let (placed, dropped) = place(bars);
    let notes: Vec<String> = if dropped > 0 {
        vec![format!(
            "{} not drawn: not finite, or negative in a stack.",
            format::counted(dropped as u64, "value", "values")
        )]
    } else {
        Vec::new()
    };
    if placed.is_empty() {
        return frame::empty(sheet, &notes);
    }
    let slot = (sheet.width - 80.0) / bars.categories.len().max(1) as f64;
    let fits = bars.categories.iter().all(|name| {
        let lines = wrap(name, SMALL, slot - 6.0, 2);
        lines.iter().all(|l| !l.ends_with('…')) || name.ends_with('…')
    });
    if bars.lying || !fits {
        lying(chart, bars, &axis, &placed, sheet, &notes)
    } else {
        standing(chart, bars, &axis, &placed, sheet, &notes)
    }
}

/// Places the bars, and counts the values without one.
fn place(bars: &Bars<'_>) -> (Vec<Bar>, usize) {
    let mut out = Vec::new();
    let mut dropped = 0;
    for category in 0..bars.categories.len() {
        let mut sum = 0.0;
        for (series, one) in bars.series.iter().enumerate() {
            let Some(value) = one.values.get(category).copied().flatten() else {
                continue;
            };
            let stacked = bars.layout == BarLayout::Stacked;
            if !value.is_finite() || (stacked && value < 0.0) {
                dropped += 1;
                continue;
            }
            let from = if stacked { sum } else { 0.0 };
            out.push(Bar { category, series, from, to: from + value });
            sum += value;
        }
    }
    (out, dropped)
}

fn legend(bars: &Bars<'_>) -> Vec<Entry> {
    if bars.series.len() < 2 {
        return Vec::new();
    }
    let entry =
        |(i, s): (usize, &BarSeries)| Entry { name: s.name.clone(), color: palette::series(i), swatch: Swatch::Box };
    bars.series.iter().enumerate().map(entry).collect()
}

fn values_range(axis: &Axis, placed: &[Bar], chart: &Chart, count: usize) -> (f64, f64) {
    let marks = chart.references.iter().filter_map(|r| match r {
        Reference::Horizontal { at, .. } | Reference::Vertical { at, .. } => Some(*at),
        Reference::Diagonal { .. } => None,
    });
    let ends = placed.iter().flat_map(|b| [b.from, b.to]).chain(marks);
    rounded_up(axis, range(axis, ends), count)
}

/// Where, across its category, a bar stands: offset and thickness as parts of the slot.
fn lane(bars: &Bars<'_>, series: usize) -> (f64, f64) {
    match bars.layout {
        BarLayout::Stacked => (0.16, 0.68),
        BarLayout::Grouped => {
            let width = 0.74 / bars.series.len().max(1) as f64;
            (0.13 + series as f64 * width, width * 0.94)
        }
    }
}

fn standing(chart: &Chart, bars: &Bars<'_>, axis: &Axis, placed: &[Bar], sheet: Sheet<'_>, notes: &[String]) -> Scene {
    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title);
    let top = frame::legend(&mut scene, top, &legend(bars));
    let top = frame::vertical_name(&mut scene, top, &axis.label);
    let bottom = top + AREA;
    let shown = values_range(axis, placed, chart, 5);
    let value_ticks = ticks(axis, shown, 5);
    let left = EDGE + frame::widest(value_ticks.iter().map(|t| t.label.as_str()), 140.0) + 9.0;
    let right = sheet.width - 14.0;
    let y = Span { scale: Scale::Linear, first: shown.0, last: shown.1, start: bottom, end: top };
    frame::horizontal_grid(&mut scene, &y, &value_ticks, (left, right));
    let slot = (right - left) / bars.categories.len() as f64;
    for bar in placed {
        let (offset, thick) = lane(bars, bar.series);
        let x = left + slot * (bar.category as f64 + offset);
        if let (Some(a), Some(b)) = (y.clamped(bar.from), y.clamped(bar.to)) {
            scene.rect((x, a), (x + (slot * thick).max(1.0), b), palette::series(bar.series), 1.0);
        }
    }
    let zero = y.clamped(0.0).unwrap_or(bottom);
    scene.path(vec![(left, zero), (right, zero)], palette::MUTED, 0.5);
    let mut lines = 1;
    for (i, name) in bars.categories.iter().enumerate() {
        let middle = left + slot * (i as f64 + 0.5);
        let wrapped = wrap(name, SMALL, slot - 4.0, 2);
        lines = lines.max(wrapped.len());
        for (k, line) in wrapped.iter().enumerate() {
            scene.text((middle, bottom + 13.0 + 14.0 * k as f64), line, palette::INK, Anchor::Middle);
        }
    }
    for reference in &chart.references {
        if let Reference::Horizontal { at, label } = reference
            && let Some(level) = y.clamped(*at)
        {
            scene.dashes(&[(left, level), (right, level)], palette::INK, 1.0);
            scene.text((right - 4.0, level - 9.0), label, palette::INK, Anchor::End);
        }
    }
    let mut next = bottom + 13.0 + 14.0 * lines as f64;
    if !chart.x.label.is_empty() && chart.x.label != axis.label {
        scene.text((f64::midpoint(left, right), next + LINE / 2.0), &chart.x.label, palette::MUTED, Anchor::Middle);
        next += LINE;
    }
    frame::finish(scene, next, notes)
}

fn lying(chart: &Chart, bars: &Bars<'_>, axis: &Axis, placed: &[Bar], sheet: Sheet<'_>, notes: &[String]) -> Scene {
    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title);
    let top = frame::legend(&mut scene, top, &legend(bars)) + 4.0;
    let lanes = if bars.layout == BarLayout::Grouped { bars.series.len().max(1) } else { 1 };
    let slot = (12.0 * lanes as f64 + 8.0).max(22.0);
    let bottom = top + slot * bars.categories.len() as f64;
    let left = frame::row_labels(bars.categories.iter().map(String::as_str), sheet.width);
    let shown = values_range(axis, placed, chart, 6);
    // A single series has its values written at the bars; space is kept for them.
    let labels: Vec<String> =
        if bars.series.len() == 1 { placed.iter().map(|b| spelled(axis, b.to)).collect() } else { Vec::new() };
    let room = frame::widest(labels.iter().map(String::as_str), 120.0);
    let right = sheet.width - if labels.is_empty() { 22.0 } else { room + 14.0 };
    let x = Span { scale: Scale::Linear, first: shown.0, last: shown.1, start: left, end: right };
    let value_ticks = ticks(axis, shown, 6);
    let next = frame::horizontal_axis(&mut scene, &x, &value_ticks, (top, bottom), frame::value_name(chart), true);
    for (i, name) in bars.categories.iter().enumerate() {
        frame::row_label(&mut scene, left, top + slot * (i as f64 + 0.5), name);
    }
    for (i, bar) in placed.iter().enumerate() {
        let (offset, thick) = lane(bars, bar.series);
        let y = top + slot * (bar.category as f64 + offset);
        let (Some(a), Some(b)) = (x.clamped(bar.from), x.clamped(bar.to)) else {
            continue;
        };
        scene.rect((a, y), (b, y + slot * thick), palette::series(bar.series), 1.0);
        if let Some(label) = labels.get(i) {
            let middle = y + slot * thick / 2.0;
            // A negative bar is labelled on its right too, beyond the zero line.
            scene.text((a.max(b) + 6.0, middle), label, palette::INK, Anchor::Start);
        }
    }
    let zero = x.clamped(0.0).unwrap_or(left);
    scene.path(vec![(zero, top), (zero, bottom)], palette::MUTED, 0.5);
    for reference in &chart.references {
        if let Reference::Vertical { at, label } = reference
            && let Some(place) = x.clamped(*at)
        {
            scene.dashes(&[(place, top), (place, bottom)], palette::INK, 1.0);
            let fits = place + 4.0 + text_width(label, SMALL) < sheet.width;
            let anchor = if fits { Anchor::Start } else { Anchor::End };
            scene.text((if fits { place + 4.0 } else { place - 4.0 }, top - 1.0), label, palette::INK, anchor);
        }
    }
    frame::finish(scene, next, notes)
}

/// A value as written at its bar.
pub(super) fn spelled(axis: &Axis, value: f64) -> String {
    match axis.ticks {
        Ticks::Percent => format::percent(value),
        Ticks::Duration => format::duration(value),
        _ => format::compact(value),
    }
}
