//! Points that each have a name of their own: the names stand beside them, and none hides another.
//!
//! Points in the same place become rings around each other. A name stands where it touches no point and no other name, to the right if it can. One that finds no such place is left out, and the chart says how many are.

use super::frame::{self, inside};
use super::scale::Span;
use super::scene::{Anchor, Rgb, SMALL, Scene, palette, text_width};
use crate::report::chart::{ChartSeries, Mark};

/// Points nearer than this are in the same place.
const SAME: f64 = 4.0;
/// Places tried above and below a point.
const TRIED: u32 = 8;

/// A point on the sheet.
struct Placed<'s> {
    x: f64,
    y: f64,
    name: &'s str,
    color: Rgb,
}

/// An area of the sheet.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn touches(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

/// Possible place of a name.
struct Spot {
    area: Area,
    at: (f64, f64),
    anchor: Anchor,
}

/// Whether the chart is of several points, each with a name of its own.
pub(super) fn are_named_points(series: &[ChartSeries]) -> bool {
    series.len() > 1 && series.iter().all(|one| one.mark == Mark::Points && one.points.len() <= 1)
}

/// Draws them.
pub(super) fn draw(scene: &mut Scene, series: &[ChartSeries], x: &Span, y: &Span) {
    let place = |(at, one): (usize, &'_ ChartSeries)| {
        let (px, py) = *one.points.first()?;
        let (px, py) = (x.at(px)?, y.at(py)?);
        (inside(px, x) && inside(py, y)).then_some((px, py, palette::series(at)))
    };
    let placed: Vec<Placed<'_>> = series
        .iter()
        .enumerate()
        .filter_map(|(at, one)| {
            let (px, py, color) = place((at, one))?;
            Some(Placed { x: px, y: py, name: one.name.as_str(), color })
        })
        .collect();
    // The widest ring first.
    for (at, one) in placed.iter().enumerate() {
        let near = |other: &&Placed<'_>| (one.x - other.x).hypot(one.y - other.y) < SAME;
        let after = placed.iter().skip(at + 1).filter(near).count();
        scene.dot(one.x, one.y, 4.0 + 2.5 * after as f64, one.color);
    }
    let around =
        |one: &Placed<'_>| Area { left: one.x - 5.0, top: one.y - 5.0, right: one.x + 5.0, bottom: one.y + 5.0 };
    let mut taken: Vec<Area> = placed.iter().map(around).collect();
    let frame = Area { left: x.start, top: y.end - 8.0, right: x.end + 20.0, bottom: y.start + 2.0 };
    let mut left_out = 0;
    for one in &placed {
        let free = |spot: &Spot| {
            let area = &spot.area;
            let within = area.left >= frame.left && area.right <= frame.right && area.top >= frame.top;
            within && area.bottom <= frame.bottom && !taken.iter().any(|other| area.touches(other))
        };
        match spots(one).find(free) {
            Some(spot) => {
                scene.text(spot.at, one.name, palette::INK, spot.anchor);
                taken.push(spot.area);
            }
            None => left_out += 1,
        }
    }
    if left_out > 0 {
        let names = if left_out == 1 { "name does" } else { "names do" };
        let said = format!("{left_out} {names} not fit; the table has all");
        scene.text((x.end, y.end - 8.0), &said, palette::MUTED, Anchor::End);
    }
}

/// Possible places of a name, the best first.
fn spots(one: &Placed<'_>) -> impl Iterator<Item = Spot> {
    let (x, y, width) = (one.x, one.y, text_width(one.name, SMALL));
    let sides = |shift: f64| [(9.0, shift, Anchor::Start), (-9.0, shift, Anchor::End)];
    let shifts = (0..TRIED).flat_map(|step| [f64::from(step) * frame::LINE, -f64::from(step) * frame::LINE]);
    shifts.flat_map(sides).map(move |(dx, dy, anchor)| {
        let at = (x + dx, y + dy);
        let left = if anchor == Anchor::Start { at.0 } else { at.0 - width };
        Spot { area: Area { left, top: at.1 - 8.0, right: left + width, bottom: at.1 + 8.0 }, at, anchor }
    })
}
