//! The report as data: sections, tables and what they rest on. No drawing and no markup beyond `**bold**` and `` `code` ``.
//!
//! What it opens with is in [`super::opening`]. Sections that answer one of its questions stand there, in the order given; all others are ordered by the GPU time their finding concerns, largest first, so that the reader meets what costs most
//! first: with 900, unknown and 4,000 GPU hours the order is 4,000, 900, unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chart::Chart;
use super::format;
use super::opening::{Changes, Figure, Question};

/// Everything one report says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Heading of the report.
    pub title: String,
    /// One line below the heading: which trace, which window.
    pub subtitle: String,
    /// The figures that say most, at most [`MOST_FIGURES`](super::opening::MOST_FIGURES).
    pub figures: Vec<Figure>,
    /// The whole time in one chart.
    pub overview: Option<Chart>,
    /// Changes to make; `None` where they were not asked for.
    pub changes: Option<Changes>,
    /// Sentences a reader should take away; `**bold**` is allowed.
    pub summary: Vec<String>,
    /// Reasons not to rely on the answer, the gravest first, one sentence each.
    pub cautions: Vec<String>,
    /// The sentence of the summary without which no section may be read; `None` if each may be.
    pub caution: Option<String>,
    /// Caveats on the source, one sentence each.
    pub notes: Vec<String>,
    /// The analyses, in any order: writers order them by [`Report::available`].
    pub sections: Vec<Section>,
    /// Name and value: source files with size and hash, tool version, time zone, window.
    pub provenance: Vec<(String, String)>,
    /// The data-quality ledger.
    pub quality: Option<ReportTable>,
}

impl Report {
    /// A report with a heading and nothing else.
    #[must_use]
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Self {
        Self { title: title.into(), subtitle: subtitle.into(), ..Self::default() }
    }

    /// Sections that have results, by GPU hours: largest first, unknown last, ties in the order given.
    #[must_use]
    pub fn available(&self) -> Vec<&Section> {
        let mut sections: Vec<&Section> = self.sections.iter().filter(|s| s.unavailable.is_none()).collect();
        let key = |s: &Section| s.gpu_hours.filter(|h| h.is_finite()).unwrap_or(f64::NEG_INFINITY);
        sections.sort_by(|a, b| key(b).total_cmp(&key(a)));
        sections
    }

    /// Keeps only the sections of these identifiers; what opens the report and where it comes from goes, its notes and what it cautions against stay.
    ///
    /// # Errors
    /// If there is no section of an identifier.
    pub fn keep(&mut self, ids: &[String]) -> Result<(), NoSection> {
        let quality = self.quality.as_ref().map(|_| QUALITY);
        let known = || self.sections.iter().map(|section| section.id.as_str()).chain(quality);
        if let Some(asked) = ids.iter().find(|id| known().all(|known| known != id.as_str())) {
            return Err(NoSection { asked: asked.clone(), known: known().map(str::to_owned).collect() });
        }
        self.sections.retain(|section| ids.contains(&section.id));
        self.figures.clear();
        self.summary = self.caution.clone().into_iter().collect();
        self.cautions.clear();
        self.provenance.clear();
        (self.overview, self.changes) = (None, None);
        self.quality.take_if(|_| ids.iter().all(|id| id != QUALITY));
        Ok(())
    }

    /// The sentences before the cautions, the cautions, and the sentences after them.
    #[must_use]
    pub fn sentences(&self) -> (&[String], &[String], &[String]) {
        let (lead, rest) = self.summary.split_at(MOST_LEAD.min(self.summary.len()));
        (lead, &self.cautions, rest)
    }

    /// Sections that this trace cannot support, in the order given.
    #[must_use]
    pub fn unavailable(&self) -> Vec<&Section> {
        self.sections.iter().filter(|s| s.unavailable.is_some()).collect()
    }
}

/// Sentences of the summary that stand before the cautions: what to do, its effect, how sure that
/// is.
const MOST_LEAD: usize = 3;

/// The identifier of the data-quality ledger, among those of sections.
const QUALITY: &str = "data-quality";

/// A section that a report does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer has no section `{asked}`; it has {}", known.join(", "))]
pub struct NoSection {
    /// The identifier asked for.
    pub asked: String,
    /// Identifiers there are.
    pub known: Vec<String>,
}

/// One analysis and what it found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Identifier used for links: lower-case words joined by `-`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// One sentence that the reader should take away; `**bold**` is allowed.
    pub finding: String,
    /// GPU time in hours that the finding concerns; sections are ordered by it.
    pub gpu_hours: Option<f64>,
    /// Tables, charts and text, in order.
    pub blocks: Vec<Block>,
    /// Definitions of the section's terms, one each; `**bold**` is allowed.
    pub definitions: Vec<String>,
    /// Part of the trace that the section rests on, such as "98.2 % of 111,549 jobs have a wait".
    pub coverage: Option<String>,
    /// One line saying why the analysis is not available; such a section is only listed.
    pub unavailable: Option<String>,
    /// The question that it answers.
    pub question: Option<Question>,
}

impl Section {
    /// A section with a heading and nothing else.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// A section that only says why it has no result.
    #[must_use]
    pub fn not_available(id: impl Into<String>, title: impl Into<String>, why: impl Into<String>) -> Self {
        Self { unavailable: Some(why.into()), ..Self::new(id, title) }
    }

    /// Sets the question that it answers.
    #[must_use]
    pub fn answering(mut self, question: Question) -> Self {
        self.question = Some(question);
        self
    }

    /// Sets the sentence to take away.
    #[must_use]
    pub fn with_finding(mut self, finding: impl Into<String>) -> Self {
        self.finding = finding.into();
        self
    }

    /// Sets the GPU time, in hours, that the finding concerns.
    #[must_use]
    pub fn with_gpu_hours(mut self, gpu_hours: Option<f64>) -> Self {
        self.gpu_hours = gpu_hours;
        self
    }

    /// Appends a table.
    #[must_use]
    pub fn with_table(mut self, table: ReportTable) -> Self {
        self.blocks.push(Block::Table(table));
        self
    }

    /// Appends a chart.
    #[must_use]
    pub fn with_chart(mut self, chart: Chart) -> Self {
        self.blocks.push(Block::Chart(chart));
        self
    }

    /// Appends a paragraph.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Appends a definition.
    #[must_use]
    pub fn with_definition(mut self, definition: impl Into<String>) -> Self {
        self.definitions.push(definition.into());
        self
    }

    /// Sets how much of the trace the section rests on.
    #[must_use]
    pub fn with_coverage(mut self, coverage: impl Into<String>) -> Self {
        self.coverage = Some(coverage.into());
        self
    }
}

/// One piece of a section.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a report holds dozens of blocks, not millions")]
pub enum Block {
    /// A table.
    Table(ReportTable),
    /// A chart.
    Chart(Chart),
    /// A paragraph; `**bold**` is allowed.
    Text(String),
}

/// A table. A row shorter than the heading is filled with missing cells, a longer one is cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportTable {
    /// Caption.
    pub title: String,
    /// Headings.
    pub columns: Vec<Column>,
    /// Cells by row.
    pub rows: Vec<Vec<Cell>>,
    /// A line below the table.
    pub note: Option<String>,
}

impl ReportTable {
    /// A table with headings and no rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, rows: Vec::new(), note: None }
    }

    /// The cell at a place, missing where the row is too short.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> &Cell {
        self.rows.get(row).and_then(|r| r.get(column)).unwrap_or(&Cell::Missing)
    }
}

/// One heading of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Unit shown after the heading, if the cells do not carry it.
    pub unit: Option<String>,
    /// Alignment of the cells.
    pub align: Align,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), unit: None, align: Align::Left }
    }

    /// A column of numbers.
    #[must_use]
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), unit: None, align: Align::Right }
    }

    /// A column of numbers in a unit.
    #[must_use]
    pub fn with_unit(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: Some(unit.into()), align: Align::Right }
    }

    /// Heading with its unit: `Energy (kWh)`.
    #[must_use]
    pub fn heading(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.name),
            None => self.name.clone(),
        }
    }
}

/// Alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// One value of a table, not yet formatted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words; taken as data and escaped.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fixed count of decimals.
    Float {
        /// The number.
        value: f64,
        /// Decimals shown.
        digits: usize,
    },
    /// An amount that may be large: three figures and an SI letter.
    Compact(f64),
    /// A share: 1 is 100 %.
    Percent(f64),
    /// A duration in seconds.
    Duration(f64),
    /// Unknown.
    Missing,
}

impl Cell {
    /// A cell from a value that may be unknown: `Cell::opt(wait, Cell::Duration)`.
    #[must_use]
    pub fn opt<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Missing, cell)
    }

    /// A number with so many decimals; unknown where it is none.
    #[must_use]
    pub fn float(value: f64, digits: usize) -> Self {
        if value.is_finite() { Self::Float { value, digits } } else { Self::Missing }
    }

    /// A share; unknown where it is none.
    #[must_use]
    pub fn share(value: f64) -> Self {
        if value.is_finite() { Self::Percent(value) } else { Self::Missing }
    }

    /// The cell as the reader sees it, unescaped.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(value) => format::integer(*value),
            Self::Float { value, digits } => format::float(*value, *digits),
            Self::Compact(value) => format::compact(*value),
            Self::Percent(ratio) => format::percent(*ratio),
            Self::Duration(seconds) => format::duration(*seconds),
            Self::Missing => format::MISSING.to_string(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_ordered_by_gpu_hours_with_unknown_last_and_ties_stable() {
        let mut report = Report::new("t", "s");
        for (id, hours) in
            [("a", Some(900.0)), ("b", None), ("c", Some(4_000.0)), ("d", Some(900.0)), ("e", Some(f64::NAN))]
        {
            report.sections.push(Section::new(id, id).with_gpu_hours(hours));
        }
        report.sections.push(Section::not_available("x", "X", "no nodes").with_gpu_hours(Some(9e9)));
        let order: Vec<&str> = report.available().iter().map(|s| s.id.as_str()).collect();
        assert_eq!(order, ["c", "a", "d", "b", "e"]);
        assert_eq!(report.unavailable().len(), 1);
    }

    #[test]
    fn what_a_section_may_not_be_read_without_stays_with_it() {
        let caution = Some("far off".to_owned());
        let mut report = Report::new("t", "s");
        report.summary = vec!["far off".to_owned(), "waits are short".to_owned()];
        report.quality = Some(ReportTable::new("ledger", Vec::new()));
        report.sections = vec![Section::new("waits", "W"), Section::new("use", "U")];
        let of = |caution: &Option<String>, ids: &[&str]| {
            let mut kept = Report { caution: caution.clone(), ..report.clone() };
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            kept.keep(&ids).map(|()| (kept.summary, kept.sections.len(), kept.quality.is_some()))
        };
        assert_eq!(of(&caution, &["waits"]), Ok((vec!["far off".to_owned()], 1, false)));
        assert_eq!(of(&None, &["use", "data-quality"]), Ok((Vec::new(), 1, true)));
        let refused = of(&None, &["causes"]).unwrap_err();
        assert_eq!(refused.known, ["waits", "use", "data-quality"]);
    }

    #[test]
    fn cells_are_formatted_in_one_place_and_short_rows_are_missing() {
        let mut table = ReportTable::new("t", vec![Column::text("a"), Column::with_unit("Energy", "kWh")]);
        table.rows.push(vec![Cell::Int(111_549)]);
        assert_eq!(table.cell(0, 0).text(), "111,549");
        assert_eq!(table.cell(0, 1), &Cell::Missing);
        assert_eq!(table.cell(9, 9).text(), "–");
        assert_eq!(Cell::opt(None::<f64>, Cell::Duration).text(), "–");
        assert_eq!(Cell::opt(Some(83.0), Cell::Duration).text(), "1 min 23 s");
        assert_eq!(table.columns[1].heading(), "Energy (kWh)");
    }
}
