//! Curves and points over two axes.

use super::frame::{self, Entry, Swatch, inside};
use super::named;
use super::scale::{Span, range, rounded_up, ticks};
use super::scene::{Anchor, Rgb, SMALL, Scene, Sheet, palette, text_width};
use crate::report::chart::{Chart, ChartSeries, Mark, Reference, Scale, Ticks};
use crate::report::format;

/// Height of the area where the data stand.
const AREA: f64 = 250.0;

/// A series made ready to draw.
struct Ready {
    /// Unbroken runs of usable points.
    runs: Vec<Vec<(f64, f64)>>,
    band: Vec<(f64, f64, f64)>,
    mark: Mark,
    color: Rgb,
}

/// Counts of points that could not be drawn.
#[derive(Default)]
struct Dropped {
    unknown: usize,
    not_positive: usize,
    outside: usize,
    /// Curves of one point.
    lone: Vec<String>,
}

pub(super) fn layout(chart: &Chart, series: &[ChartSeries], sheet: Sheet<'_>) -> Scene {
    let mut dropped = Dropped::default();
    let mut drawn: Vec<Ready> =
        series.iter().enumerate().map(|(i, s)| ready(chart, s, palette::series(i), &mut dropped)).collect();
    // One point is no curve.
    for (one, series) in drawn.iter_mut().zip(series) {
        if one.mark != Mark::Points && one.runs.iter().map(Vec::len).sum::<usize>() == 1 {
            one.runs.clear();
            dropped.lone.push(series.name.clone());
        }
    }
    if drawn.iter().all(|s| s.runs.is_empty()) {
        return frame::empty(sheet, &notes(chart, &dropped));
    }

    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title);
    let named = named::are_named_points(series);
    let top = frame::legend(&mut scene, top, &if named { Vec::new() } else { entries(chart, series, &drawn) });
    let top = frame::vertical_name(&mut scene, top, &chart.y.label);
    let bottom = top + AREA;

    let xs = drawn.iter().flat_map(|s| s.runs.iter().flatten().map(|p| p.0).chain(s.band.iter().map(|b| b.0)));
    let x_marks = chart.references.iter().filter_map(|r| match r {
        Reference::Vertical { at, .. } => Some(*at),
        _ => None,
    });
    let ys =
        drawn.iter().flat_map(|s| s.runs.iter().flatten().map(|p| p.1).chain(s.band.iter().flat_map(|b| [b.1, b.2])));
    let y_marks = chart.references.iter().filter_map(|r| match r {
        Reference::Horizontal { at, .. } => Some(*at),
        _ => None,
    });
    let area = drawn.iter().any(|s| s.mark == Mark::Area) && chart.y.scale == Scale::Linear;
    let x_range = range(&chart.x, xs.chain(x_marks));
    let y_range = rounded_up(&chart.y, range(&chart.y, ys.chain(y_marks).chain(area.then_some(0.0))), 5);
    let y_ticks = ticks(&chart.y, y_range, 5);
    let left = frame::EDGE + frame::widest(y_ticks.iter().map(|t| t.label.as_str()), 140.0) + 9.0;
    let right = sheet.width - 22.0;
    let x = Span { scale: chart.x.scale, first: x_range.0, last: x_range.1, start: left, end: right };
    let y = Span { scale: chart.y.scale, first: y_range.0, last: y_range.1, start: bottom, end: top };
    // As many as fit beside each other.
    let apart = if matches!(chart.x.ticks, Ticks::Time(_)) { 95.0 } else { 76.0 };
    let wanted = ((sheet.width / apart) as usize).max(2);
    let x_ticks = ticks(&chart.x, x_range, wanted);

    frame::horizontal_grid(&mut scene, &y, &y_ticks, (left, right));
    let next = frame::horizontal_axis(&mut scene, &x, &x_ticks, (top, bottom), &chart.x.label, false);
    for reference in &chart.references {
        if let Reference::Diagonal { .. } = reference {
            scene.dashes(&[(left, bottom), (right, top)], palette::MUTED, 1.0);
        }
    }
    for one in &drawn {
        shade_band(&mut scene, one, &x, &y);
    }
    if named {
        named::draw(&mut scene, series, &x, &y);
    } else {
        for one in &drawn {
            draw(&mut scene, one, &x, &y, &mut dropped);
        }
    }
    scene.path(vec![(left, bottom), (right, bottom)], palette::MUTED, 0.5);
    for reference in &chart.references {
        mark_reference(&mut scene, reference, &x, &y);
    }
    frame::finish(scene, next, &notes(chart, &dropped))
}

/// Splits a series at unknown values and sets aside what a logarithmic axis cannot hold.
fn ready(chart: &Chart, series: &ChartSeries, color: Rgb, dropped: &mut Dropped) -> Ready {
    let (log_x, log_y) = (chart.x.scale == Scale::Log, chart.y.scale == Scale::Log);
    let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut run: Vec<(f64, f64)> = Vec::new();
    // Height at which a curve enters a logarithmic axis from the left: that of its last point at or below zero.
    let mut enters_at = None;
    for &(x, y) in &series.points {
        if !x.is_finite() || !y.is_finite() {
            dropped.unknown += 1;
            if !run.is_empty() {
                runs.push(std::mem::take(&mut run));
            }
        } else if log_y && y <= 0.0 {
            dropped.not_positive += 1;
        } else if log_x && x <= 0.0 {
            dropped.not_positive += 1;
            enters_at = Some(y);
        } else {
            run.push((x, y));
        }
    }
    if !run.is_empty() {
        runs.push(run);
    }
    let steps = matches!(series.mark, Mark::Step | Mark::Area);
    if let (true, Some(height), Some(first)) = (steps, enters_at, runs.first_mut())
        && let Some(&(x, _)) = first.first()
    {
        let from = chart.x.min.filter(|m| *m > 0.0 && *m < x).unwrap_or(x);
        first.insert(0, (from, height));
    }
    let usable = |b: &&(f64, f64, f64)| {
        [b.0, b.1, b.2].iter().all(|v| v.is_finite()) && (!log_x || b.0 > 0.0) && (!log_y || b.1 > 0.0 && b.2 > 0.0)
    };
    let band: Vec<(f64, f64, f64)> = series.band.iter().filter(usable).copied().collect();
    Ready { runs, band, mark: series.mark, color }
}

/// Shades the uncertainty of a series; in steps if the series is drawn in steps.
fn shade_band(scene: &mut Scene, series: &Ready, x: &Span, y: &Span) {
    let steps = matches!(series.mark, Mark::Step | Mark::Area);
    let edge = |pick: fn(&(f64, f64, f64)) -> f64| {
        let points: Vec<(f64, f64)> =
            series.band.iter().filter_map(|b| Some((x.clamped(b.0)?, y.clamped(pick(b))?))).collect();
        let points = if steps { stepped(&points) } else { points };
        super::scene::thin(&points)
    };
    let mut outline = edge(|b| b.2);
    let mut low = edge(|b| b.1);
    low.reverse();
    outline.append(&mut low);
    scene.polygon(outline, series.color, 0.18);
}

/// Draws one series.
fn draw(scene: &mut Scene, series: &Ready, x: &Span, y: &Span, dropped: &mut Dropped) {
    for run in &series.runs {
        match series.mark {
            Mark::Line | Mark::Dashed => {
                let placed: Vec<(f64, f64)> = run.iter().filter_map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect();
                if let [only] = placed.as_slice()
                    && inside(only.0, x)
                    && inside(only.1, y)
                {
                    scene.dot(only.0, only.1, 2.5, series.color);
                }
                for part in clipped(&placed, x, y) {
                    if series.mark == Mark::Dashed {
                        scene.dashes(&part, series.color, 1.5);
                    } else {
                        scene.path(part, series.color, 1.5);
                    }
                }
            }
            Mark::Step | Mark::Area => {
                let placed: Vec<(f64, f64)> =
                    run.iter().filter_map(|p| Some((x.clamped(p.0)?, y.clamped(p.1)?))).collect();
                if let [only] = placed.as_slice() {
                    scene.dot(only.0, only.1, 2.5, series.color);
                }
                let line = super::scene::thin(&stepped(&placed));
                if series.mark == Mark::Area
                    && let (Some(first), Some(last)) = (line.first(), line.last())
                {
                    let floor = y.clamped(0.0).unwrap_or(y.start);
                    let mut outline = vec![(first.0, floor)];
                    outline.extend_from_slice(&line);
                    outline.push((last.0, floor));
                    scene.polygon(outline, series.color, 0.22);
                }
                scene.path(line, series.color, 1.5);
            }
            Mark::Points => {
                let mut places: Vec<(i64, i64)> = Vec::new();
                for point in run {
                    let (Some(px), Some(py)) = (x.at(point.0), y.at(point.1)) else {
                        continue;
                    };
                    if inside(px, x) && inside(py, y) {
                        places.push(((px * 2.0).round() as i64, (py * 2.0).round() as i64));
                    } else {
                        dropped.outside += 1;
                    }
                }
                // Dots in the same place are drawn once.
                places.sort_unstable();
                places.dedup();
                let radius = if places.len() > 300 { 1.5 } else { 2.5 };
                for (px, py) in places {
                    scene.dot(px as f64 / 2.0, py as f64 / 2.0, radius, series.color);
                }
            }
        }
    }
}

/// The corners of a curve whose value holds until the next point.
fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for &(x, y) in points {
        if let Some(&(_, before)) = out.last()
            && before != y
        {
            out.push((x, before));
        }
        out.push((x, y));
    }
    out
}

/// The parts of a curve inside the area (Liang and Barsky's clipping, one segment after the other).
fn clipped(points: &[(f64, f64)], x: &Span, y: &Span) -> Vec<Vec<(f64, f64)>> {
    let low = (x.start.min(x.end), y.start.min(y.end));
    let high = (x.start.max(x.end), y.start.max(y.end));
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    for pair in points.windows(2) {
        let [a, b] = [pair[0], pair[1]];
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        let mut seen = true;
        for (p, q) in [(-dx, a.0 - low.0), (dx, high.0 - a.0), (-dy, a.1 - low.1), (dy, high.1 - a.1)] {
            if p == 0.0 {
                seen &= q >= 0.0;
            } else if p < 0.0 {
                enter = enter.max(q / p);
            } else {
                leave = leave.min(q / p);
            }
        }
        if !seen || enter > leave {
            continue;
        }
        // Clamped, since a segment that is very long loses the digits that would place its ends on the frame.
        let along = |t: f64| ((a.0 + t * dx).clamp(low.0, high.0), (a.1 + t * dy).clamp(low.1, high.1));
        let (from, to) = (along(enter), along(leave));
        match parts.last_mut() {
            Some(part) if enter == 0.0 && part.last() == Some(&a) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
    }
    parts
}

/// Draws a level or a place with its name.
fn mark_reference(scene: &mut Scene, reference: &Reference, x: &Span, y: &Span) {
    match reference {
        Reference::Horizontal { at, label } => {
            if let Some(level) = y.at(*at).filter(|v| inside(*v, y)) {
                scene.dashes(&[(x.start, level), (x.end, level)], palette::INK, 1.0);
                // Above the line, or below it where the frame is too near.
                let text_y = if level - 22.0 < y.end { level + 13.0 } else { level - 12.0 };
                label_on_paper(scene, (x.end - 4.0, text_y), label, Anchor::End);
            }
        }
        Reference::Vertical { at, label } => {
            if let Some(place) = x.at(*at).filter(|v| inside(*v, x)) {
                scene.dashes(&[(place, y.end), (place, y.start)], palette::INK, 1.0);
                let fits_right = place + 6.0 + text_width(label, SMALL) < x.end;
                let (text_x, anchor) =
                    if fits_right { (place + 6.0, Anchor::Start) } else { (place - 6.0, Anchor::End) };
                label_on_paper(scene, (text_x, y.end + 13.0), label, anchor);
            }
        }
        Reference::Diagonal { .. } => {}
    }
}

/// A label on a patch of paper, so that curves behind it do not cross the words.
fn label_on_paper(scene: &mut Scene, (x, y): (f64, f64), label: &str, anchor: Anchor) {
    if label.is_empty() {
        return;
    }
    let width = text_width(label, SMALL);
    let from = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    scene.rect((from - 3.0, y - 8.0), (from + width + 3.0, y + 8.0), palette::PAPER, 0.8);
    scene.text((x, y), label, palette::INK, anchor);
}

/// The legend: all series that are drawn if there are several or a line to compare with.
fn entries(chart: &Chart, series: &[ChartSeries], drawn: &[Ready]) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::new();
    let compared = chart.references.iter().any(|r| matches!(r, Reference::Diagonal { .. }));
    if series.len() > 1 || compared {
        let seen = |(i, _): &(usize, &ChartSeries)| drawn.get(*i).is_some_and(|one| !one.runs.is_empty());
        for (i, one) in series.iter().enumerate().filter(seen) {
            let swatch = match one.mark {
                Mark::Line | Mark::Step => Swatch::Line,
                Mark::Area => Swatch::Box,
                Mark::Dashed => Swatch::Dashed,
                Mark::Points => Swatch::Dot,
            };
            out.push(Entry { name: one.name.clone(), color: palette::series(i), swatch });
        }
    }
    for reference in &chart.references {
        if let Reference::Diagonal { label } = reference {
            out.push(Entry { name: label.clone(), color: palette::MUTED, swatch: Swatch::Dashed });
        }
    }
    out
}

/// Says what is not drawn.
fn notes(chart: &Chart, dropped: &Dropped) -> Vec<String> {
    let mut out = Vec::new();
    if dropped.unknown > 0 {
        out.push(format!("{} without a value not drawn.", format::counted(dropped.unknown as u64, "point", "points")));
    }
    if dropped.not_positive > 0 {
        let which = match (chart.x.scale, chart.y.scale) {
            (Scale::Log, Scale::Linear) => "left of the logarithmic axis",
            (Scale::Linear, Scale::Log) => "below the logarithmic axis",
            _ => "outside the logarithmic axes",
        };
        let count =
            format::counted(dropped.not_positive as u64, "point at or below zero lies", "points at or below zero lie");
        out.push(format!("{count} {which}."));
    }
    for name in dropped.lone.iter().filter(|name| !name.is_empty()) {
        out.push(format!("{name}: a single value, not drawn."));
    }
    if dropped.outside > 0 {
        out.push(format!("{} outside the axes not drawn.", format::counted(dropped.outside as u64, "point", "points")));
    }
    out
}
