//! The report: what an analysis says to a person, apart from how it is drawn.
//!
//! An analysis fills a [`Report`] (sentences, tables, charts, definitions, coverage). The writers in this module turn that
//! one model into a self-contained HTML file ([`html`]), Markdown ([`markdown`]), terminal text ([`text`]) or tables for spreadsheets ([`csv`]), and a [`Chart`]
//! into SVG or PNG ([`plot`]). Nothing here reads traces or computes statistics, and nothing prints.
//!
//! Every writer is a pure function of the model: the same report gives the same bytes. Strings in the model are data and are
//! escaped by the writer; only `**bold**` and `` `code` `` in sentences are markup ([`markup`]).

pub mod chart;
pub mod csv;
pub mod format;
pub mod html;
pub mod markdown;
pub mod markup;
pub mod model;
pub mod opening;
pub mod part;
pub mod plot;
pub mod quote;
pub mod text;

#[cfg(test)]
mod demo;

pub use chart::{
    Axis, BarLayout, BarSeries, BoxSummary, Chart, ChartSeries, Mark, Plot, Reference, Scale, Step, StepKind, Ticks,
};
pub use model::{Align, Block, Cell, Column, Report, ReportTable, Section};
pub use opening::{Card, Changes, Figure, Question};
pub use part::ReportPart;

/// Why a report or a chart could not be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The drawing backend refused a shape of the named chart.
    #[error("chart {chart:?} could not be drawn: {reason}")]
    Draw {
        /// Identifier of the chart.
        chart: String,
        /// Message of the backend.
        reason: String,
    },
    /// The pixels of a chart could not be compressed.
    #[error("PNG could not be encoded: {0}")]
    Png(#[from] std::io::Error),
    /// The font that ships with the program could not be loaded.
    #[error("built-in font could not be registered")]
    Font,
}
