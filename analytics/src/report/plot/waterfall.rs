//! A waterfall: a total on top, what is taken off it row by row, and totals between.

use super::frame::{self, Entry, Swatch};
use super::scale::{Span, range, rounded_up, ticks};
use super::scene::{Anchor, Scene, Sheet, palette};
use crate::report::chart::{Axis, Chart, Scale, Step, StepKind};
use crate::report::format;

/// Height of a row.
const SLOT: f64 = 26.0;
/// Beginning and end of a bar, as a share of its row.
const BAR: (f64, f64) = (0.18, 0.82);

/// Beginning and end of each bar in values: a total from 0, a change from where the last bar ended.
/// A value that is not finite has none.
pub(crate) fn spans(steps: &[Step]) -> Vec<Option<(f64, f64)>> {
    let mut level = 0.0;
    steps
        .iter()
        .map(|step| {
            let to = match step.kind {
                StepKind::Total => step.value,
                StepKind::Change => level + step.value,
            };
            if !to.is_finite() {
                return None;
            }
            let from = if step.kind == StepKind::Total { 0.0 } else { level };
            level = to;
            Some((from, to))
        })
        .collect()
}

/// Colour of a row: totals, what is taken off, what is added.
fn series(step: &Step) -> usize {
    match step.kind {
        StepKind::Total => 0,
        StepKind::Change if step.value <= 0.0 => 1,
        StepKind::Change => 2,
    }
}

pub(super) fn layout(chart: &Chart, steps: &[Step], sheet: Sheet<'_>) -> Scene {
    let places = spans(steps);
    let drawn = || places.iter().flatten();
    let missing = places.iter().filter(|place| place.is_none()).count();
    let notes: Vec<String> = (missing > 0)
        .then(|| format!("{} not drawn: not finite.", format::counted(missing as u64, "value", "values")))
        .into_iter()
        .collect();
    if drawn().next().is_none() {
        return frame::empty(sheet, &notes);
    }
    // Bars measure from zero, so a logarithmic axis would make their lengths meaningless.
    let axis = Axis { scale: Scale::Linear, ..chart.x.clone() };
    let mut scene = Scene::new(sheet.width);
    let top = frame::title(&mut scene, sheet.title);
    let names = ["Total", "Taken off", "Added"];
    let entries: Vec<Entry> = names
        .iter()
        .enumerate()
        .filter(|(at, _)| steps.iter().any(|step| series(step) == *at))
        .map(|(at, name)| Entry { name: (*name).to_owned(), color: palette::series(at), swatch: Swatch::Box })
        .collect();
    let top = frame::legend(&mut scene, top, &entries) + 4.0;
    let bottom = top + SLOT * steps.len() as f64;
    let left = frame::row_labels(steps.iter().map(|step| step.label.as_str()), sheet.width);
    let shown = rounded_up(&axis, range(&axis, drawn().flat_map(|(a, b)| [*a, *b]).chain([0.0])), 6);
    let labels: Vec<String> = steps.iter().map(|step| super::bars::spelled(&axis, step.value)).collect();
    let right = sheet.width - frame::widest(labels.iter().map(String::as_str), 120.0) - 14.0;
    let x = Span { scale: Scale::Linear, first: shown.0, last: shown.1, start: left, end: right };
    let next =
        frame::horizontal_axis(&mut scene, &x, &ticks(&axis, shown, 6), (top, bottom), frame::value_name(chart), true);
    for (at, ((step, place), label)) in steps.iter().zip(&places).zip(&labels).enumerate() {
        let y = top + SLOT * at as f64;
        frame::row_label(&mut scene, left, y + SLOT / 2.0, &step.label);
        let Some((from, to)) = *place else { continue };
        let (Some(a), Some(b)) = (x.clamped(from), x.clamped(to)) else { continue };
        scene.rect((a, y + SLOT * BAR.0), (b, y + SLOT * BAR.1), palette::series(series(step)), 1.0);
        scene.text((a.max(b) + 6.0, y + SLOT / 2.0), label, palette::INK, Anchor::Start);
        // The end of one bar is where the next begins.
        if at + 1 < steps.len() {
            scene.path(vec![(b, y + SLOT * BAR.1), (b, y + SLOT * (1.0 + BAR.0))], palette::MUTED, 0.5);
        }
    }
    let zero = x.clamped(0.0).unwrap_or(left);
    scene.path(vec![(zero, top), (zero, bottom)], palette::MUTED, 0.5);
    frame::finish(scene, next, &notes)
}
