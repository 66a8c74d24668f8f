//! The parts that all charts share: title, legend, axes, grid and notes around the area where the data stand.
//!
//! From the top: title (only where no page carries it), legend, name of the vertical axis (lying, so that no head need be
//! turned), the area, tick labels, name of the horizontal axis, notes.

use super::scale::{Span, Tick};
use super::scene::{Anchor, LARGE, Rgb, SMALL, Scene, Sheet, ellipsis, palette, text_width, wrap};
use crate::report::chart::Chart;

/// Distance between lines of text.
pub(super) const LINE: f64 = 17.0;
/// Free space at the sheet's left and right.
pub(super) const EDGE: f64 = 6.0;

/// Sign of a legend before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swatch {
    Line,
    Dashed,
    Box,
    Dot,
}

/// One name of a legend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) color: Rgb,
    pub(super) swatch: Swatch,
}

/// Draws the title and returns where the next line begins.
pub(super) fn title(scene: &mut Scene, title: Option<&str>) -> f64 {
    match title {
        Some(text) if !text.is_empty() => {
            scene.title((EDGE, EDGE + LARGE / 2.0 + 2.0), text);
            EDGE + LARGE + 13.0
        }
        _ => EDGE,
    }
}

/// Draws the legend from `top` in as many lines as it needs and returns where the next line begins. Unnamed entries are left out.
pub(super) fn legend(scene: &mut Scene, top: f64, entries: &[Entry]) -> f64 {
    let mut x = EDGE;
    let mut y = top + LINE / 2.0;
    let mut any = false;
    for entry in entries.iter().filter(|e| !e.name.is_empty()) {
        let name = ellipsis(&entry.name, SMALL, 300.0);
        let width = 24.0 + text_width(&name, SMALL) + 18.0;
        if any && x + width > scene.width - EDGE {
            x = EDGE;
            y += LINE + 1.0;
        }
        any = true;
        match entry.swatch {
            Swatch::Line => scene.path(vec![(x, y), (x + 18.0, y)], entry.color, 2.0),
            Swatch::Dashed => scene.dashes(&[(x, y), (x + 18.0, y)], entry.color, 1.5),
            Swatch::Box => scene.rect((x + 3.0, y - 5.5), (x + 14.0, y + 5.5), entry.color, 1.0),
            Swatch::Dot => scene.dot(x + 9.0, y, 3.5, entry.color),
        }
        scene.text((x + 24.0, y), &name, palette::INK, Anchor::Start);
        x += width;
    }
    if any { y + LINE / 2.0 + 5.0 } else { top }
}

/// Writes the name of the vertical axis above the area and returns where the area begins.
pub(super) fn vertical_name(scene: &mut Scene, top: f64, name: &str) -> f64 {
    if name.is_empty() {
        return top + 4.0;
    }
    scene.text(
        (EDGE, top + LINE / 2.0),
        &ellipsis(name, SMALL, scene.width - 2.0 * EDGE),
        palette::MUTED,
        Anchor::Start,
    );
    top + LINE + 11.0
}

/// Width that labels need, at most `most`.
pub(super) fn widest<'a>(labels: impl Iterator<Item = &'a str>, most: f64) -> f64 {
    labels.map(|l| text_width(l, SMALL)).fold(0.0, f64::max).min(most)
}

/// Draws lying grid lines with their labels left of the area.
pub(super) fn horizontal_grid(scene: &mut Scene, y: &Span, ticks: &[Tick], (left, right): (f64, f64)) {
    for tick in ticks {
        if let Some(at) = y.at(tick.value) {
            scene.path(vec![(left, at), (right, at)], palette::GRID, 0.5);
            scene.text((left - 7.0, at), &tick.label, palette::MUTED, Anchor::End);
        }
    }
}

/// Draws tick labels below the area, leaving out those that would touch, and the axis name; returns where the next line begins.
pub(super) fn horizontal_axis(
    scene: &mut Scene,
    x: &Span,
    ticks: &[Tick],
    (top, bottom): (f64, f64),
    name: &str,
    lines: bool,
) -> f64 {
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks {
        let Some(at) = x.at(tick.value) else { continue };
        if lines {
            scene.path(vec![(at, top), (at, bottom)], palette::GRID, 0.5);
        }
        let half = text_width(&tick.label, SMALL) / 2.0;
        let middle = at.clamp(half + 2.0, (scene.width - half - 2.0).max(half + 2.0));
        if middle - half < free_from {
            continue;
        }
        free_from = middle + half + 8.0;
        if !lines {
            scene.path(vec![(at, bottom), (at, bottom + 4.0)], palette::MUTED, 0.5);
        }
        scene.text((middle, bottom + 14.0), &tick.label, palette::MUTED, Anchor::Middle);
    }
    let mut next = bottom + 14.0 + LINE / 2.0;
    if !name.is_empty() {
        let middle = f64::midpoint(x.start, x.end);
        let fitted = ellipsis(name, SMALL, scene.width - 2.0 * EDGE);
        let half = text_width(&fitted, SMALL) / 2.0;
        let middle = middle.clamp(half + EDGE, (scene.width - half - EDGE).max(half + EDGE));
        scene.text((middle, next + LINE / 2.0 + 1.0), &fitted, palette::MUTED, Anchor::Middle);
        next += LINE + 2.0;
    }
    next
}

/// Writes the notes and sets the height of the sheet.
pub(super) fn finish(mut scene: Scene, next: f64, notes: &[String]) -> Scene {
    let mut y = next + 3.0;
    for note in notes {
        for line in wrap(note, SMALL, scene.width - 2.0 * EDGE, 3) {
            scene.text((EDGE, y + LINE / 2.0), &line, palette::MUTED, Anchor::Start);
            y += LINE;
        }
    }
    scene.height = (y + EDGE).ceil();
    scene
}

/// A chart without anything to draw: says so in place of the area.
pub(super) fn empty(sheet: Sheet<'_>, notes: &[String]) -> Scene {
    let mut scene = Scene::new(sheet.width);
    let top = title(&mut scene, sheet.title);
    scene.rect((EDGE, top), (sheet.width - EDGE, top + 70.0), palette::GRID, 0.35);
    scene.text((sheet.width / 2.0, top + 35.0), "No data to show", palette::MUTED, Anchor::Middle);
    finish(scene, top + 74.0, notes)
}

/// Position at which the labels of rows end and the area begins, for charts with one row per name.
pub(super) fn row_labels<'a>(labels: impl Iterator<Item = &'a str>, width: f64) -> f64 {
    EDGE + widest(labels, width * 0.42) + 8.0
}

/// Draws the name of a row, cut if it is wider than its space.
pub(super) fn row_label(scene: &mut Scene, left: f64, y: f64, label: &str) {
    let fitted = ellipsis(label, SMALL, left - 8.0 - EDGE + 0.5);
    scene.text((left - 8.0, y), &fitted, palette::INK, Anchor::End);
}

/// Name of the axis that the chart has instead of a title on the value axis, for the row charts.
pub(super) fn value_name(chart: &Chart) -> &str {
    if chart.x.label.is_empty() { &chart.y.label } else { &chart.x.label }
}

/// Whether a place lies within an axis, or within half a pixel of it.
pub(super) fn inside(at: f64, span: &Span) -> bool {
    let (low, high) = (span.start.min(span.end), span.start.max(span.end));
    at >= low - 0.5 && at <= high + 0.5
}
