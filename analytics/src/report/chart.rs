//! A chart as data: what is drawn, along which axes, and how to read it. Drawing is in [`super::plot`].
//!
//! The kinds cover what trace reports need: curves and points over two axes ([`Plot::Xy`]), bars ([`Plot::Bars`]), a grid of
//! shaded cells ([`Plot::Heatmap`]), one box per group ([`Plot::Boxes`]) and a total taken apart ([`Plot::Waterfall`]). Values are plain `f64` in the unit the axis label
//! names: seconds for durations, ratios for shares, seconds since 1970-01-01 UTC for times.

use jiff::tz::TimeZone;

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Identifier, used in file names and links.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Explanation in one or two sentences: how to read the chart and what it shows; `**bold**` is
    /// allowed.
    pub reading: String,
    /// Horizontal axis. For bars lying down and for boxes this is the axis of values.
    pub x: Axis,
    /// Vertical axis. For standing bars this is the axis of values.
    pub y: Axis,
    /// Data to draw.
    pub plot: Plot,
    /// Lines to compare with, drawn behind the data.
    pub references: Vec<Reference>,
}

impl Chart {
    /// Curves and points over two axes.
    #[must_use]
    pub fn xy(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis, series: Vec<ChartSeries>) -> Self {
        Self::new(id, title, x, y, Plot::Xy(series))
    }

    /// Standing bars, one group per category. Turned to lie down when the category names do not fit below them.
    #[must_use]
    pub fn bars(
        id: impl Into<String>,
        title: impl Into<String>,
        values: Axis,
        layout: BarLayout,
        categories: Vec<String>,
        series: Vec<BarSeries>,
    ) -> Self {
        let plot = Plot::Bars { categories, series, layout, lying: false };
        Self::new(id, title, Axis::linear(""), values, plot)
    }

    /// Lying bars, one row per category, first on top: for rankings and long names.
    #[must_use]
    pub fn rows(
        id: impl Into<String>,
        title: impl Into<String>,
        values: Axis,
        layout: BarLayout,
        categories: Vec<String>,
        series: Vec<BarSeries>,
    ) -> Self {
        let plot = Plot::Bars { categories, series, layout, lying: true };
        Self::new(id, title, values, Axis::linear(""), plot)
    }

    /// Shaded cells; `values[row][column]`, the stronger the colour the more. `unit` formats the key. A reading should say
    /// "stronger" and not "darker", since the page may be dark.
    #[must_use]
    pub fn heatmap(
        id: impl Into<String>,
        title: impl Into<String>,
        columns: Vec<String>,
        rows: Vec<String>,
        values: Vec<Vec<Option<f64>>>,
        unit: Axis,
    ) -> Self {
        Self::new(id, title, Axis::linear(""), Axis::linear(""), Plot::Heatmap { columns, rows, values, unit })
    }

    /// One lying box per group, first on top.
    #[must_use]
    pub fn boxes(id: impl Into<String>, title: impl Into<String>, values: Axis, boxes: Vec<BoxSummary>) -> Self {
        Self::new(id, title, values, Axis::linear(""), Plot::Boxes(boxes))
    }

    /// A total and what is taken off it, first on top.
    #[must_use]
    pub fn waterfall(id: impl Into<String>, title: impl Into<String>, values: Axis, steps: Vec<Step>) -> Self {
        Self::new(id, title, values, Axis::linear(""), Plot::Waterfall(steps))
    }

    fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis, plot: Plot) -> Self {
        Self { id: id.into(), title: title.into(), reading: String::new(), x, y, plot, references: Vec::new() }
    }

    /// Sets how to read the chart.
    #[must_use]
    pub fn with_reading(mut self, reading: impl Into<String>) -> Self {
        self.reading = reading.into();
        self
    }

    /// Adds a line to compare with.
    #[must_use]
    pub fn with_reference(mut self, reference: Reference) -> Self {
        self.references.push(reference);
        self
    }
}

/// One axis: what it measures and how its values are spelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Quantity, with the unit if the ticks do not carry it: `Power (W)`.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Placing and spelling of ticks.
    pub ticks: Ticks,
    /// First value; the data decide if absent.
    pub min: Option<f64>,
    /// Last value; the data decide if absent.
    pub max: Option<f64>,
}

impl Axis {
    /// A linear axis of plain numbers.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, ticks: Ticks::Auto, min: None, max: None }
    }

    /// A logarithmic axis of plain numbers.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// A linear axis of shares from 0 to 1, spelled in percent.
    #[must_use]
    pub fn share(label: impl Into<String>) -> Self {
        Self { ticks: Ticks::Percent, min: Some(0.0), max: Some(1.0), ..Self::linear(label) }
    }

    /// A linear axis of durations in seconds.
    #[must_use]
    pub fn duration(label: impl Into<String>) -> Self {
        Self { ticks: Ticks::Duration, ..Self::linear(label) }
    }

    /// A logarithmic axis of durations in seconds: 1 s, 1 min, 1 h, 1 d.
    #[must_use]
    pub fn log_duration(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::duration(label) }
    }

    /// A logarithmic axis of counts that double: 1, 2, 4, 8 GPUs.
    #[must_use]
    pub fn doubling(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ticks: Ticks::Doubling, ..Self::linear(label) }
    }

    /// A linear axis of times in seconds since 1970-01-01 UTC, spelled as dates in a time zone, which the label then names.
    #[must_use]
    pub fn time(label: impl Into<String>, zone: TimeZone) -> Self {
        let label: String = label.into();
        let named = zone.iana_name().map_or_else(String::new, |name| format!("({name})"));
        let label = [label, named].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        Self { ticks: Ticks::Time(zone), ..Self::linear(label) }
    }

    /// Fixes both ends.
    #[must_use]
    pub fn within(mut self, min: f64, max: f64) -> Self {
        self.min = Some(min);
        self.max = Some(max);
        self
    }

    /// Spells the values as percent.
    #[must_use]
    pub fn as_percent(mut self) -> Self {
        self.ticks = Ticks::Percent;
        self
    }
}

/// Mapping of values to distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally far apart.
    Linear,
    /// Equal ratios are equally far apart. Values at or below zero have no place: curves enter from the left edge at their
    /// height, points are left out, and the chart says how many.
    Log,
}

/// Placing and spelling of ticks.
#[derive(Debug, Clone, PartialEq)]
pub enum Ticks {
    /// Round numbers.
    Auto,
    /// Ratios spelled in percent.
    Percent,
    /// Seconds spelled as durations, at round minutes, hours and days.
    Duration,
    /// Seconds since 1970-01-01 UTC spelled as dates in this time zone.
    Time(TimeZone),
    /// Powers of two.
    Doubling,
}

/// Curves or points of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSeries {
    /// Name in the legend.
    pub name: String,
    /// Style of drawing.
    pub mark: Mark,
    /// Points `(x, y)` in order of x. A `y` that is not finite is unknown and interrupts the curve.
    pub points: Vec<(f64, f64)>,
    /// Uncertainty `(x, low, high)` in order of x, shaded behind the curve.
    pub band: Vec<(f64, f64, f64)>,
}

impl ChartSeries {
    /// A series without a band.
    #[must_use]
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, band: Vec::new() }
    }

    /// Adds the uncertainty `(x, low, high)`.
    #[must_use]
    pub fn with_band(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        self.band = band;
        self
    }
}

/// Style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Straight lines between points.
    Line,
    /// A dashed line between points, for models and forecasts.
    Dashed,
    /// A value holds until the next point: distribution functions, GPUs in use.
    Step,
    /// Steps like [`Mark::Step`], shaded down to zero.
    Area,
    /// Dots.
    Points,
}

/// Data of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Curves and points over two axes.
    Xy(Vec<ChartSeries>),
    /// Bars by category.
    Bars {
        /// Names of the categories, in order.
        categories: Vec<String>,
        /// One value per category each.
        series: Vec<BarSeries>,
        /// Layout of several series in a category.
        layout: BarLayout,
        /// Whether the bars are horizontal.
        lying: bool,
    },
    /// Shaded cells.
    Heatmap {
        /// Names of the columns.
        columns: Vec<String>,
        /// Names of the rows, first on top.
        rows: Vec<String>,
        /// `values[row][column]`.
        values: Vec<Vec<Option<f64>>>,
        /// Label and spelling of the key.
        unit: Axis,
    },
    /// One lying box per group.
    Boxes(Vec<BoxSummary>),
    /// One lying bar per step.
    Waterfall(Vec<Step>),
}

/// One row of a waterfall.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name of the row.
    pub label: String,
    /// Kind of row.
    pub kind: StepKind,
    /// The total, or the change: below 0 is taken off.
    pub value: f64,
}

impl Step {
    /// A total.
    #[must_use]
    pub fn total(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), kind: StepKind::Total, value }
    }

    /// A change from the row above.
    #[must_use]
    pub fn change(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), kind: StepKind::Change, value }
    }
}

/// Kind of a waterfall's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A bar from zero.
    Total,
    /// A bar from where the one above ends.
    Change,
}

/// Values of one name, one per category.
#[derive(Debug, Clone, PartialEq)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// Values in the order of the categories.
    pub values: Vec<Option<f64>>,
}

impl BarSeries {
    /// A series of bars.
    #[must_use]
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Self {
        Self { name: name.into(), values }
    }
}

/// Layout of several series in a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarLayout {
    /// Side by side.
    Grouped,
    /// On top of each other; values must not be negative.
    Stacked,
}

/// Five quantiles of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxSummary {
    /// Name of the group.
    pub label: String,
    /// Values in the group.
    pub count: u64,
    /// 5 % quantile.
    pub p05: f64,
    /// 25 % quantile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75 % quantile.
    pub p75: f64,
    /// 95 % quantile.
    pub p95: f64,
}

/// A line to compare the data with. It takes part in the range of the axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// A level on the vertical axis, such as the GPUs installed.
    Horizontal {
        /// Level.
        at: f64,
        /// Name, written on the line.
        label: String,
    },
    /// A place on the horizontal axis, such as a change of policy.
    Vertical {
        /// Place.
        at: f64,
        /// Name, written beside the line.
        label: String,
    },
    /// A line from the first to the last corner, such as equality in a Lorenz curve.
    Diagonal {
        /// Name in the legend.
        label: String,
    },
}
