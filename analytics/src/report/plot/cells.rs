//! Charts with one row per name: shaded cells and boxes.

use super::bars::spelled;
use super::frame::{self, EDGE, LINE};
use super::scale::{Span, range, rounded_up, ticks};
use super::scene::{Anchor, SMALL, Scene, Sheet, palette, text_width};
use crate::report::chart::{Axis, BoxSummary, Chart, Scale};
use crate::report::format;

/// Shading of the smallest and the largest value.
const SHADE: (f64, f64) = (0.06, 1.0);
/// Height of one row of boxes.
const BOX_ROW: f64 = 26.0;

/// The cells of a heatmap.
pub(super) struct Grid<'a> {
    pub(super) columns: &'a [String],
    pub(super) rows: &'a [String],
    pub(super) values: &'a [Vec<Option<f64>>],
    pub(super) unit: &'a Axis,
}

impl Grid<'_> {
    /// A value that can be shaded.
    fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.values.get(row)?.get(column).copied().flatten().filter(|v| v.is_finite())
    }
}

pub(super) fn heatmap(grid: &Grid<'_>, sheet: Sheet<'_>) -> Scene {
    let all = || (0..grid.rows.len()).flat_map(|r| (0..grid.columns.len()).filter_map(move |c| grid.value(r, c)));
    let unknown = grid.rows.len() * grid.columns.len() - all().count();
    let mut notes = Vec::new();
    if unknown > 0 {
        notes.push(format!("{} without data left open (dotted).", format::counted(unknown as u64, "cell", "cells")));
    }
    let (mut low, mut high) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return frame::empty(sheet, &notes);
    }
    low = grid.unit.min.unwrap_or(low);
    high = grid.unit.max.unwrap_or(high);
    let shade = |v: f64| {
        let part = if high > low { ((v - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
        SHADE.0 + part * (SHADE.1 - SHADE.0)
    };

    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title);
    // The key: lowest value, a ramp, highest value.
    let y = top + LINE / 2.0;
    let mut x = EDGE;
    if !grid.unit.label.is_empty() {
        scene.text((x, y), &grid.unit.label, palette::MUTED, Anchor::Start);
        x += text_width(&grid.unit.label, SMALL) + 14.0;
    }
    let lowest = spelled(grid.unit, low);
    scene.text((x, y), &lowest, palette::INK, Anchor::Start);
    x += text_width(&lowest, SMALL) + 8.0;
    for step in 0..12 {
        let part = f64::from(step) / 11.0;
        let from = x + f64::from(step) * 10.0;
        scene.rect((from, y - 6.0), (from + 10.0, y + 6.0), palette::SERIES[0], SHADE.0 + part * (SHADE.1 - SHADE.0));
    }
    scene.text((x + 128.0, y), &spelled(grid.unit, high), palette::INK, Anchor::Start);

    let top = top + LINE + 8.0;
    let left = frame::row_labels(grid.rows.iter().map(String::as_str), sheet.width);
    let right = sheet.width - EDGE;
    let width = (right - left) / grid.columns.len().max(1) as f64;
    let height = if grid.rows.len() > 20 { 16.0 } else { 24.0 };
    for (r, name) in grid.rows.iter().enumerate() {
        let from = top + height * r as f64;
        frame::row_label(&mut scene, left, from + height / 2.0, name);
        for c in 0..grid.columns.len() {
            let start = left + width * c as f64;
            match grid.value(r, c) {
                Some(v) => {
                    scene.rect(
                        (start + 0.5, from + 0.5),
                        (start + width - 0.5, from + height - 0.5),
                        palette::SERIES[0],
                        shade(v),
                    );
                }
                None => scene.dot(start + width / 2.0, from + height / 2.0, 1.0, palette::MUTED),
            }
        }
    }
    let bottom = top + height * grid.rows.len() as f64;
    let mut free_from = f64::NEG_INFINITY;
    for (c, name) in grid.columns.iter().enumerate() {
        let half = text_width(name, SMALL) / 2.0;
        let middle = left + width * (c as f64 + 0.5);
        if middle - half >= free_from && middle + half <= sheet.width {
            free_from = middle + half + 6.0;
            scene.text((middle, bottom + 12.0), name, palette::MUTED, Anchor::Middle);
        }
    }
    frame::finish(scene, bottom + 12.0 + LINE / 2.0, &notes)
}

pub(super) fn boxes(chart: &Chart, boxes: &[BoxSummary], sheet: Sheet<'_>) -> Scene {
    let axis = &chart.x;
    let log = axis.scale == Scale::Log;
    let quantiles = |b: &BoxSummary| [b.p05, b.p25, b.p50, b.p75, b.p95];
    let known = |b: &&BoxSummary| quantiles(b).iter().all(|v| v.is_finite());
    let mut notes =
        vec!["Line from the 5 % to the 95 % quantile, box from 25 % to 75 %, bar at the median.".to_string()];
    let dropped = boxes.iter().filter(|b| !known(b)).count();
    if dropped > 0 {
        notes.push(format!("{} without quantiles not drawn.", format::counted(dropped as u64, "group", "groups")));
    }
    let below = boxes.iter().filter(known).filter(|b| log && b.p05 <= 0.0).count();
    if below > 0 {
        let which = format::counted(below as u64, "group reaches", "groups reach");
        notes.push(format!("{which} zero, which lies left of the logarithmic axis."));
    }
    if !boxes.iter().any(|b| known(&b)) {
        return frame::empty(sheet, notes.get(1..).unwrap_or(&[]));
    }

    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title) + 4.0;
    let bottom = top + BOX_ROW * boxes.len() as f64;
    let left = frame::row_labels(boxes.iter().map(|b| b.label.as_str()), sheet.width);
    let counts: Vec<String> = boxes.iter().map(|b| format!("n = {}", format::compact(b.count as f64))).collect();
    let right = sheet.width - EDGE - frame::widest(counts.iter().map(String::as_str), 140.0) - 14.0;
    let shown = rounded_up(axis, range(axis, boxes.iter().filter(known).flat_map(quantiles)), 6);
    let x = Span { scale: axis.scale, first: shown.0, last: shown.1, start: left, end: right };
    let value_ticks = ticks(axis, shown, 6);
    let next = frame::horizontal_axis(&mut scene, &x, &value_ticks, (top, bottom), frame::value_name(chart), true);
    // On a logarithmic axis what is at or below zero stands at the left end.
    let place = |v: f64| x.clamped(v).unwrap_or(left);
    for (i, one) in boxes.iter().enumerate() {
        let y = top + BOX_ROW * (i as f64 + 0.5);
        frame::row_label(&mut scene, left, y, &one.label);
        if let Some(count) = counts.get(i) {
            scene.text((sheet.width - EDGE, y), count, palette::MUTED, Anchor::End);
        }
        if !known(&one) {
            continue;
        }
        let color = palette::SERIES[0];
        scene.path(vec![(place(one.p05), y), (place(one.p95), y)], color, 1.0);
        for end in [one.p05, one.p95] {
            scene.path(vec![(place(end), y - 3.5), (place(end), y + 3.5)], color, 1.0);
        }
        scene.rect((place(one.p25), y - 7.0), (place(one.p75), y + 7.0), palette::PAPER, 1.0);
        scene.rect((place(one.p25), y - 7.0), (place(one.p75), y + 7.0), color, 0.35);
        scene.path(vec![(place(one.p50), y - 7.5), (place(one.p50), y + 7.5)], palette::INK, 2.0);
    }
    frame::finish(scene, next, &notes)
}
