//! Draws a [`Chart`] as SVG or PNG.
//!
//! Two steps. Layout turns the chart into a `scene::Scene`: lines, rectangles and words at places in a sheet 760 units
//! wide (`xy`, `bars`, `cells`, `waterfall` on the axes of `frame` and the ticks of `scale`). Painting (`paint`) sends the scene
//! to a plotters backend at two pixels per unit, so that lines sit on half units and PNG files are sharp.
//!
//! Words are measured and, in PNG, drawn with a font that ships with the program: no font of the machine is looked up, and
//! the bytes are the same everywhere.

mod bars;
mod cells;
mod frame;
mod named;
mod paint;
mod png;
mod scale;
mod scene;
mod waterfall;
mod xy;

use super::RenderError;
use super::chart::{Chart, Plot};
use scene::{Scene, Sheet};

pub use scene::palette;
pub(super) use waterfall::spans;

/// Use of an SVG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SvgUse {
    /// A file of its own: white background, title inside.
    Standalone,
    /// Inside an HTML page that carries the title and may recolour it for dark mode: no background, no title.
    Inline,
    /// An [`SvgUse::Inline`] for a page as narrow as a phone: half as wide, with words of the same
    /// size.
    Narrow,
}

/// The chart as an SVG document or element.
///
/// # Errors
/// [`RenderError`] if the backend refuses a shape or the built-in font cannot be loaded.
pub fn svg(chart: &Chart, place: SvgUse) -> Result<String, RenderError> {
    paint::register()?;
    let title = (place == SvgUse::Standalone).then_some(chart.title.as_str());
    let width = if place == SvgUse::Narrow { scene::NARROW } else { scene::WIDTH };
    let scene = layout(chart, Sheet { title, width });
    paint::svg(&scene, chart, place)
}

/// The chart as a PNG file, 1,520 pixels wide, on white with its title.
///
/// # Errors
/// [`RenderError`] if the backend refuses a shape, the built-in font cannot be loaded or the pixels cannot be compressed.
pub fn png(chart: &Chart) -> Result<Vec<u8>, RenderError> {
    paint::register()?;
    let scene = layout(chart, Sheet { title: Some(chart.title.as_str()), width: scene::WIDTH });
    paint::png(&scene, chart)
}

/// Places everything the chart shows.
fn layout(chart: &Chart, sheet: Sheet<'_>) -> Scene {
    match &chart.plot {
        Plot::Xy(series) => xy::layout(chart, series, sheet),
        Plot::Bars { categories, series, layout, lying } => {
            bars::layout(chart, &bars::Bars { categories, series, layout: *layout, lying: *lying }, sheet)
        }
        Plot::Heatmap { columns, rows, values, unit } => {
            cells::heatmap(&cells::Grid { columns, rows, values, unit }, sheet)
        }
        Plot::Boxes(boxes) => cells::boxes(chart, boxes, sheet),
        Plot::Waterfall(steps) => waterfall::layout(chart, steps, sheet),
    }
}

#[cfg(test)]
mod tests;
