//! Scene of a chart, before any backend: shapes and words at places on a sheet.
//!
//! The sheet is [`WIDTH`] units wide, or [`NARROW`] for a phone, y grows downwards. The scene refuses shapes with a coordinate that is not finite, so no
//! backend ever sees one, and thins curves to what can be seen: at most four points per half unit of width.

use plotters::style::{FontDesc, FontFamily, FontStyle};

use crate::report::markup;

/// Width of a chart.
pub(super) const WIDTH: f64 = 760.0;
/// Width of a chart on a phone, on which words have the size they have on paper.
pub(super) const NARROW: f64 = 390.0;
/// Name under which the built-in font is registered.
pub(super) const FONT: &str = "tracecast";
/// The backend's font size covers ascent and descent; this is its ratio to the em.
pub(super) const FONT_BOX: f64 = 1.24;
/// A reader's own font may be wider than the one measured with.
const FONT_SLACK: f64 = 1.06;

/// Size of tick labels, legends and notes.
pub(super) const SMALL: f64 = 12.0;
/// Size of titles.
pub(super) const LARGE: f64 = 15.0;

/// Colours of charts. A page may recolour each by its hexadecimal spelling; none is used for two purposes.
pub mod palette {
    /// Words and axes.
    pub const INK: (u8, u8, u8) = (0x1F, 0x23, 0x28);
    /// Tick labels and notes.
    pub const MUTED: (u8, u8, u8) = (0x59, 0x63, 0x6E);
    /// Grid lines.
    pub const GRID: (u8, u8, u8) = (0xDD, 0xE2, 0xE8);
    /// Sheet.
    pub const PAPER: (u8, u8, u8) = (0xFF, 0xFF, 0xFF);
    /// Series, in order: Okabe and Ito's colours without the yellow, which cannot be read on white, and a grey.
    pub const SERIES: [(u8, u8, u8); 7] = [
        (0x00, 0x72, 0xB2),
        (0xE6, 0x9F, 0x00),
        (0x00, 0x9E, 0x73),
        (0xCC, 0x79, 0xA7),
        (0x56, 0xB4, 0xE9),
        (0xD5, 0x5E, 0x00),
        (0x8A, 0x91, 0x99),
    ];

    /// The colour of the series at a place; the last one repeats, since an eighth colour could not be told apart.
    #[must_use]
    pub fn series(index: usize) -> (u8, u8, u8) {
        SERIES.get(index).copied().unwrap_or(SERIES[6])
    }
}

/// A colour as red, green and blue.
pub(super) type Rgb = (u8, u8, u8);

/// Alignment of a word at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One thing to draw.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Path {
        points: Vec<(f64, f64)>,
        color: Rgb,
        width: f64,
    },
    Polygon {
        points: Vec<(f64, f64)>,
        color: Rgb,
        alpha: f64,
    },
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        color: Rgb,
        alpha: f64,
    },
    Dot {
        x: f64,
        y: f64,
        radius: f64,
        color: Rgb,
    },
    /// `y` is the middle of the line of text.
    Text {
        x: f64,
        y: f64,
        text: String,
        size: f64,
        color: Rgb,
        anchor: Anchor,
        bold: bool,
    },
}

/// A sheet with shapes, drawn in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

/// Sheet that a chart is laid out on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sheet<'t> {
    /// The title to write, if no page carries it.
    pub(super) title: Option<&'t str>,
    /// Width in units.
    pub(super) width: f64,
}

impl Scene {
    pub(super) fn new(width: f64) -> Self {
        Self { width, height: 0.0, shapes: Vec::new() }
    }

    pub(super) fn path(&mut self, points: Vec<(f64, f64)>, color: Rgb, width: f64) {
        let points: Vec<(f64, f64)> = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        if points.len() >= 2 {
            self.shapes.push(Shape::Path { points: thin(&points), color, width });
        }
    }

    /// A path in dashes of 5 units with gaps of 4.
    pub(super) fn dashes(&mut self, points: &[(f64, f64)], color: Rgb, width: f64) {
        const DASH: [f64; 2] = [5.0, 4.0];
        let mut part = 0_usize;
        let mut left = DASH[0];
        let mut current: Vec<(f64, f64)> = Vec::new();
        for pair in thin(points).windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            // Longer than any sheet: not a place but a mistake, and dashing it would not end.
            if !length.is_finite() || length <= 0.0 || length > 1e5 {
                continue;
            }
            let mut done = 0.0;
            if part == 0 && current.is_empty() {
                current.push(from);
            }
            while done < length {
                let step = left.min(length - done);
                done += step;
                left -= step;
                let at = (from.0 + (to.0 - from.0) * done / length, from.1 + (to.1 - from.1) * done / length);
                if part == 0 {
                    current.push(at);
                }
                if left <= 1e-9 {
                    if part == 0 {
                        self.path(std::mem::take(&mut current), color, width);
                    } else {
                        current = vec![at];
                    }
                    part = 1 - part;
                    left = DASH[part];
                }
            }
        }
        self.path(current, color, width);
    }

    pub(super) fn polygon(&mut self, points: Vec<(f64, f64)>, color: Rgb, alpha: f64) {
        if points.len() >= 3 && points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
            self.shapes.push(Shape::Polygon { points, color, alpha });
        }
    }

    /// A filled rectangle between two corners in any order.
    pub(super) fn rect(&mut self, a: (f64, f64), b: (f64, f64), color: Rgb, alpha: f64) {
        if [a.0, a.1, b.0, b.1].iter().all(|v| v.is_finite()) {
            let (x, y) = (a.0.min(b.0), a.1.min(b.1));
            let (width, height) = ((a.0 - b.0).abs(), (a.1 - b.1).abs());
            self.shapes.push(Shape::Rect { x, y, width, height, color, alpha });
        }
    }

    pub(super) fn dot(&mut self, x: f64, y: f64, radius: f64, color: Rgb) {
        if x.is_finite() && y.is_finite() {
            self.shapes.push(Shape::Dot { x, y, radius, color });
        }
    }

    pub(super) fn text(&mut self, at: (f64, f64), text: &str, color: Rgb, anchor: Anchor) {
        self.word(at, text, SMALL, color, anchor, false);
    }

    pub(super) fn title(&mut self, at: (f64, f64), text: &str) {
        let fitted = ellipsis(text, LARGE, self.width - 2.0 * at.0);
        self.word(at, &fitted, LARGE, palette::INK, Anchor::Start, true);
    }

    fn word(&mut self, at: (f64, f64), text: &str, size: f64, color: Rgb, anchor: Anchor, bold: bool) {
        if at.0.is_finite() && at.1.is_finite() && !text.is_empty() {
            let text = markup::printable(text);
            self.shapes.push(Shape::Text { x: at.0, y: at.1, text, size, color, anchor, bold });
        }
    }
}

/// Keeps, of each run of points in the same half unit of width, the first, the lowest, the highest and the last: the picture
/// is the same, the file does not grow with the trace.
pub(super) fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let column = |p: &(f64, f64)| (p.0 * 2.0).round();
    let mut out: Vec<(f64, f64)> = Vec::new();
    for run in points.chunk_by(|a, b| column(a) == column(b)) {
        let lowest = (0..run.len()).min_by(|&a, &b| run[a].1.total_cmp(&run[b].1)).unwrap_or(0);
        let highest = (0..run.len()).max_by(|&a, &b| run[a].1.total_cmp(&run[b].1)).unwrap_or(0);
        let mut keep = [0, lowest, highest, run.len() - 1];
        keep.sort_unstable();
        let mut last = None;
        for index in keep {
            if last != Some(index) {
                out.extend(run.get(index));
                last = Some(index);
            }
        }
    }
    out
}

/// Width of a line of text in units. Without a font every character counts 0.55 em.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    // The backend rounds to whole pixels; measured at 100 units the error is below one part in a hundred per word.
    let font = FontDesc::new(FontFamily::Name(FONT), 100.0 * FONT_BOX, FontStyle::Normal);
    let em100 = match font.layout_box(text) {
        Ok(((x0, _), (x1, _))) => f64::from(x1 - x0),
        Err(_) => 55.0 * text.chars().count() as f64,
    };
    em100 / 100.0 * size * FONT_SLACK
}

/// The text, cut with `…` if it is wider than `width`.
pub(super) fn ellipsis(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    // Longer text is wider, so the longest prefix that fits is found by halving.
    let letters: Vec<char> = text.chars().take(400).collect();
    let cut = |kept: usize| letters.iter().take(kept).collect::<String>().trim_end().to_string() + "…";
    let (mut fits, mut too_long) = (0, letters.len());
    while too_long - fits > 1 {
        let middle = usize::midpoint(fits, too_long);
        if text_width(&cut(middle), size) <= width {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    cut(fits)
}

/// The text in lines no wider than `width`, broken at spaces; a word that is too wide is cut. At most `lines`, the last cut.
pub(super) fn wrap(text: &str, size: f64, width: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = out.len() >= lines.max(1);
        match out.last_mut() {
            Some(line) if full || text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => out.push(word.to_string()),
        }
    }
    out.iter().map(|line| ellipsis(line, size, width)).collect()
}
