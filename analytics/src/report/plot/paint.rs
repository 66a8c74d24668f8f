//! Sends a scene to plotters: SVG text or PNG bytes, at [`PIXELS`] pixels per unit.
//!
//! The SVG is then trimmed: the font is named once on the root element as a stack of fonts that readers have, sizes are given
//! by the view box, and attributes that say the default are dropped.

use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, RGBAColor, ShapeStyle, TextStyle, register_font};

use super::scene::{Anchor, FONT, FONT_BOX, Rgb, Scene, Shape, palette};
use super::{SvgUse, png as png_file};
use crate::report::RenderError;
use crate::report::chart::Chart;
use crate::report::markup;

/// Pixels per unit of the sheet.
const PIXELS: f64 = 2.0;
/// Fonts of the reader's machine, the built-in one first so that SVG and PNG agree where it is installed.
const FONT_STACK: &str = "Ubuntu, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// Makes the built-in font known to plotters, once per process.
pub(super) fn register() -> Result<(), RenderError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).is_ok());
    if *done { Ok(()) } else { Err(RenderError::Font) }
}

/// Width and height in pixels.
fn size(scene: &Scene) -> (u32, u32) {
    ((scene.width * PIXELS) as u32, (scene.height.clamp(1.0, 20_000.0) * PIXELS) as u32)
}

/// The scene as SVG.
pub(super) fn svg(scene: &Scene, chart: &Chart, place: SvgUse) -> Result<String, RenderError> {
    let (width, height) = size(scene);
    let mut raw = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut raw, (width, height));
        if place == SvgUse::Standalone {
            fill(&mut backend, (width, height), chart)?;
        }
        paint(&mut backend, scene, chart, Target::Vector)?;
        backend.present().map_err(|e| draw_error(chart, &e))?;
    }
    let body = raw.split_once(">\n").map_or("", |(_, rest)| rest);
    // Quotes inside text are escaped by the backend, so these strings can only be attributes.
    let body = body
        .replace(&format!(" font-family=\"{FONT}\""), "")
        .replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" \"/>", "\"/>");
    let title = markup::escape_html(&chart.title);
    let (shown_width, shown_height) = (f64::from(width) / PIXELS, f64::from(height) / PIXELS);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{shown_width}\" \
         height=\"{shown_height}\" role=\"img\" font-family=\"{FONT_STACK}\"><title>{title}</title>\n{body}"
    ))
}

/// The scene as a PNG file on white.
pub(super) fn png(scene: &Scene, chart: &Chart) -> Result<Vec<u8>, RenderError> {
    let (width, height) = size(scene);
    let mut pixels = vec![0xFF_u8; width as usize * height as usize * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        paint(&mut backend, scene, chart, Target::Pixels)?;
        backend.present().map_err(|e| draw_error(chart, &e))?;
    }
    Ok(png_file::encode(&pixels, width, height)?)
}

fn fill<B: DrawingBackend>(backend: &mut B, (width, height): (u32, u32), chart: &Chart) -> Result<(), RenderError> {
    let corner = (width as i32, height as i32);
    backend.draw_rect((0, 0), corner, &style(palette::PAPER, 1.0, 0.5), true).map_err(|e| draw_error(chart, &e))
}

fn draw_error<E: std::fmt::Display>(chart: &Chart, error: &E) -> RenderError {
    RenderError::Draw { chart: chart.id.clone(), reason: error.to_string() }
}

/// A distance in pixels. Places far outside the sheet are pulled in, since backends multiply coordinates.
fn pixel(units: f64) -> i32 {
    (units * PIXELS).round().clamp(-10_000.0, 50_000.0) as i32
}

fn style((r, g, b): Rgb, alpha: f64, width: f64) -> ShapeStyle {
    let stroke_width = (width * PIXELS).round().max(1.0) as u32;
    // Three decimals keep the file small.
    ShapeStyle { color: RGBAColor(r, g, b, (alpha * 1000.0).round() / 1000.0), filled: true, stroke_width }
}

/// Kind of image that the backend makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Vector,
    Pixels,
}

fn paint<B: DrawingBackend>(backend: &mut B, scene: &Scene, chart: &Chart, target: Target) -> Result<(), RenderError> {
    let at = |p: &(f64, f64)| (pixel(p.0), pixel(p.1));
    for shape in &scene.shapes {
        let drawn = match shape {
            Shape::Path { points, color, width } => {
                let mut path: Vec<(i32, i32)> = points.iter().map(at).collect();
                path.dedup();
                if path.len() < 2 {
                    continue;
                }
                let style = style(*color, 1.0, *width);
                match target {
                    Target::Vector => backend.draw_path(path, &style),
                    // Segment by segment with round joints: the outline that the pixel backend makes of a whole
                    // path has notches where the path turns back.
                    Target::Pixels => path.windows(2).try_for_each(|pair| {
                        backend.draw_path(pair.iter().copied(), &style)?;
                        match pair.last() {
                            Some(&end) if style.stroke_width > 2 => {
                                backend.draw_circle(end, style.stroke_width / 2, &style, true)
                            }
                            _ => Ok(()),
                        }
                    }),
                }
            }
            Shape::Polygon { points, color, alpha } => {
                let mut path: Vec<(i32, i32)> = points.iter().map(at).collect();
                path.dedup();
                if path.len() < 3 {
                    continue;
                }
                backend.fill_polygon(path, &style(*color, *alpha, 0.5))
            }
            Shape::Rect { x, y, width, height, color, alpha } => {
                let (a, b) = (at(&(*x, *y)), at(&(x + width, y + height)));
                backend.draw_rect(a, b, &style(*color, *alpha, 0.5), true)
            }
            Shape::Dot { x, y, radius, color } => {
                let r = (radius * PIXELS).round().clamp(1.0, 100.0) as u32;
                backend.draw_circle(at(&(*x, *y)), r, &style(*color, 1.0, 0.5), true)
            }
            Shape::Text { x, y, text, size, color, anchor, bold } => {
                let weight = if *bold { FontStyle::Bold } else { FontStyle::Normal };
                let font = FontDesc::new(FontFamily::Name(FONT), size * PIXELS * FONT_BOX, weight);
                let h_pos = match anchor {
                    Anchor::Start => HPos::Left,
                    Anchor::Middle => HPos::Center,
                    Anchor::End => HPos::Right,
                };
                let ink = RGBAColor(color.0, color.1, color.2, 1.0);
                let style = TextStyle::from(font).color(&ink).pos(Pos::new(h_pos, VPos::Center));
                // The pixel backend centres ascent and descent, which puts letters a quarter em too high.
                let lower = if target == Target::Pixels { 0.25 * size } else { 0.0 };
                backend.draw_text(text, &style, at(&(*x, y + lower)))
            }
        };
        drawn.map_err(|e| draw_error(chart, &e))?;
    }
    Ok(())
}
