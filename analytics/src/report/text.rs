//! The report for a terminal: wrapped sentences, aligned tables, the ledger as records, and of curves over time one line of
//! blocks each. Of charts that cannot be shown so only the name stands here, as a reading without its chart helps nobody.
//!
//! No line is wider than the width given (at least [`MIN_WIDTH`] columns). A table that does not fit first wraps the words of
//! its widest columns, then continues its remaining columns below, repeating the first. Width counts terminal columns: wide East
//! Asian characters count two, combining marks none.

mod curve;
mod fill;

use super::chart::Chart;
use super::format;
use super::markup::printable;
use super::model::{Align, Block, Cell, Report, ReportTable, Section};
use super::opening::{Changes, Figure, MOST_CARDS, MOST_FIGURES};

use curve::{ranking, sparklines, waterfall};
use fill::{Word, fill, pad, parts, width, words, wrap};

/// Narrowest width that is honoured, in columns.
pub const MIN_WIDTH: usize = 20;
/// A column of words is not narrowed below this.
const NARROWEST: usize = 12;
/// Columns between two columns of a table.
const GAP: usize = 2;

/// Options of output for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns available.
    pub width: usize,
    /// Whether bold and dim may be used (ANSI escapes).
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { width: 100, color: false }
    }
}

/// Renders the report.
#[must_use]
pub fn render(report: &Report, options: TextOptions) -> String {
    let mut writer = Writer { out: String::new(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.opening(report);
    writer.notes(report);
    for part in report.parts() {
        writer.blank();
        writer.heading(part.question.words(), '=');
        for section in &part.sections {
            writer.section(section);
        }
    }
    for section in report.others() {
        writer.section(section);
    }
    let unavailable = report.unavailable();
    if !unavailable.is_empty() {
        writer.blank();
        writer.heading("What this trace cannot tell", '-');
        for section in unavailable {
            let why = section.unavailable.as_deref().unwrap_or_default();
            writer.paragraph(&format!("{}: {why}", section.title), "• ", false);
        }
    }
    if let Some(quality) = &report.quality {
        writer.blank();
        writer.heading("Data quality", '-');
        writer.records(quality);
    }
    if !report.provenance.is_empty() {
        writer.blank();
        writer.heading("Provenance", '-');
        for (name, value) in &report.provenance {
            writer.paragraph(&format!("{name}: {value}"), "", true);
        }
    }
    writer.out
}

/// Renders one table.
#[must_use]
pub fn table(table: &ReportTable, options: TextOptions) -> String {
    let mut writer = Writer { out: String::new(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.table(table);
    writer.out
}

/// Largest number of rows of the table and of cautions that [`short`] shows.
const MOST_ROWS: usize = 10;
const MOST_CAUTIONS: usize = 5;

/// Renders what a reader decides by: the first sentences, the main table cut to ten rows, and five
/// cautions. A report that answers questions has the first sentences on each in the place of the
/// table.
#[must_use]
pub fn short(report: &Report, options: TextOptions) -> String {
    let mut writer = Writer { out: String::new(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.head(report);
    let (lead, cautions, _) = report.sentences();
    writer.sentences([lead]);
    // A report with figures describes a trace: sentences answer its questions, and no table is the
    // main one.
    let parts = if report.figures.is_empty() { Vec::new() } else { report.parts() };
    for part in &parts {
        writer.blank();
        writer.heading(part.question.words(), '-');
        for (_, sentence) in part.sentences() {
            writer.paragraph(&sentence, "• ", false);
        }
    }
    let table = report.available().into_iter().flat_map(|section| &section.blocks).find_map(|block| match block {
        Block::Table(table) if !table.rows.is_empty() => Some(table),
        _ => None,
    });
    if let Some(table) = table.filter(|_| parts.is_empty()) {
        let mut first = ReportTable { note: None, ..table.clone() };
        first.rows.truncate(MOST_ROWS);
        writer.blank();
        writer.columns(&first, 1);
        if table.rows.len() > MOST_ROWS {
            writer.paragraph(&format!("… and {} more rows", table.rows.len() - MOST_ROWS), "", true);
        }
    }
    if !parts.is_empty() {
        writer.notes(report);
    }
    // Whatever else is left out, the reason not to believe any of it is not.
    let gravest = report.caution.as_ref().filter(|caution| !lead.contains(caution));
    if gravest.is_some() || !cautions.is_empty() {
        writer.blank();
        writer.heading("Cautions", '-');
        for caution in gravest.into_iter().chain(cautions).take(MOST_CAUTIONS) {
            writer.paragraph(caution, "• ", false);
        }
    }
    writer.out
}

/// The line that names what a report holds beyond [`short`]; empty if nothing.
#[must_use]
pub fn more(report: &Report, options: TextOptions) -> String {
    let (_, cautions, rest) = report.sentences();
    let notes = if report.figures.is_empty() { report.notes.len() } else { 0 };
    let counted =
        [(cautions.len().saturating_sub(MOST_CAUTIONS), "caution", "cautions"), (rest.len() + notes, "note", "notes")];
    let mut more: Vec<String> = counted
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format::counted(count as u64, one, many))
        .collect();
    let ids: Vec<&str> = report.available().into_iter().map(|section| section.id.as_str()).collect();
    if !ids.is_empty() {
        more.push(format!("the sections {}", ids.join(", ")));
    }
    if more.is_empty() {
        return String::new();
    }
    let mut writer = Writer { out: "\n".to_owned(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.paragraph(&format!("`--details` also shows {}.", more.join(", ")), "", true);
    writer.out
}

/// Text written so far, and its options.
struct Writer {
    out: String,
    width: usize,
    color: bool,
}

impl Writer {
    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Text between two escapes, if they are allowed.
    fn styled(&self, text: &str, code: &str) -> String {
        if self.color && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }

    fn heading(&mut self, text: &str, rule: char) {
        let words: Vec<Word> = words(text).collect();
        let mut widest = 0;
        for line in fill(&words, self.width) {
            let plain: Vec<&str> = line.iter().map(|w| w.text.as_str()).collect();
            let plain = plain.join(" ");
            widest = widest.max(width(&plain));
            let styled = self.styled(&plain, "1");
            self.out.push_str(&styled);
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(rule, widest));
        self.out.push('\n');
    }

    /// A wrapped sentence with a mark before its first line; `dim` for what is beside the point.
    fn paragraph(&mut self, sentence: &str, mark: &str, dim: bool) {
        let words: Vec<Word> = words(sentence).collect();
        let indent = width(mark);
        for (i, line) in fill(&words, self.width - indent).iter().enumerate() {
            let lead = if i == 0 { mark.to_string() } else { " ".repeat(indent) };
            let styled: Vec<String> = line
                .iter()
                .map(|w| {
                    if w.bold {
                        self.styled(&w.text, "1")
                    } else if dim {
                        self.styled(&w.text, "2")
                    } else {
                        w.text.clone()
                    }
                })
                .collect();
            self.out.push_str(&lead);
            self.out.push_str(&styled.join(" "));
            self.out.push('\n');
        }
    }

    /// Everything before the analyses.
    fn opening(&mut self, report: &Report) {
        self.head(report);
        let (lead, cautions, rest) = report.sentences();
        self.sentences([lead, cautions, rest]);
    }

    /// A list of all sentences.
    fn sentences<const N: usize>(&mut self, lists: [&[String]; N]) {
        if lists.iter().all(|list| list.is_empty()) {
            return;
        }
        self.blank();
        for sentence in lists.into_iter().flatten() {
            self.paragraph(sentence, "• ", false);
        }
    }

    /// Title, figures, the whole time, and what to change.
    fn head(&mut self, report: &Report) {
        self.heading(&report.title, '=');
        self.paragraph(&report.subtitle, "", true);
        if !report.figures.is_empty() {
            self.blank();
            self.figures(&report.figures);
        }
        if let Some(chart) = &report.overview {
            self.blank();
            self.chart(chart);
        }
        if let Some(changes) = &report.changes {
            self.changes(changes);
        }
    }

    fn notes(&mut self, report: &Report) {
        if report.notes.is_empty() {
            return;
        }
        self.blank();
        self.heading("About this source", '-');
        for note in &report.notes {
            self.paragraph(note, "• ", false);
        }
    }

    /// A line a figure: name, value, what it is of.
    fn figures(&mut self, figures: &[Figure]) {
        let shown = figures.iter().take(MOST_FIGURES);
        let names = shown.clone().map(|figure| width(&figure.name)).max().unwrap_or(0);
        let values = shown.clone().map(|figure| width(&figure.value)).max().unwrap_or(0);
        for figure in shown {
            let name = pad(&printable(&figure.name), names, Some(Align::Left));
            let value = pad(&printable(&figure.value), values, Some(Align::Right));
            let line = format!("{name}  **{value}**  {}", figure.note);
            if width(&line) <= self.width + 4 && !figure.note.contains(['*', '`']) {
                // Aligned, so that no blank is taken away.
                let value = self.styled(&value, "1");
                self.out.push_str(format!("{name}  {value}  {}", printable(&figure.note)).trim_end());
                self.out.push('\n');
            } else {
                self.paragraph(&format!("{}: **{}** {}", figure.name, figure.value, figure.note), "", false);
            }
        }
    }

    fn changes(&mut self, changes: &Changes) {
        self.blank();
        self.heading("What to change", '-');
        if changes.cards.is_empty() {
            self.paragraph(&changes.nothing, "", false);
        }
        for (at, card) in changes.cards.iter().take(MOST_CARDS).enumerate() {
            if at > 0 {
                self.blank();
            }
            let number = format!("{}. ", at + 1);
            self.paragraph(&format!("**{}**", card.action.replace("**", "")), &number, false);
            self.paragraph(&card.effect, "   ", false);
            for (name, text) in [("Confidence", &card.confidence), ("Who pays", &card.cost), ("Apply", &card.apply)] {
                if !text.is_empty() {
                    self.paragraph(&format!("{name}: {text}"), "   ", false);
                }
            }
            if let Some(command) = &card.command {
                // On a line of its own, whole, to be copied.
                self.out.push_str(&format!("     {}\n", printable(command)));
            }
            self.paragraph(&format!("Undo: {}", card.undo), "   ", false);
        }
        if !changes.passed_over.is_empty() {
            self.blank();
            self.paragraph("Looked at and left alone:", "", true);
            for (what, why) in &changes.passed_over {
                self.paragraph(&format!("{what}: {why}"), "• ", true);
            }
        }
    }

    fn section(&mut self, section: &Section) {
        self.blank();
        self.heading(&section.title, '-');
        self.paragraph(&section.finding, "", false);
        if let Some(hours) = section.gpu_hours.filter(|h| h.is_finite()) {
            self.paragraph(&format!("Concerns {} GPU-hours.", format::compact(hours)), "", true);
        }
        if let Some(coverage) = &section.coverage {
            self.paragraph(&format!("Coverage: {coverage}"), "", true);
        }
        for block in &section.blocks {
            self.blank();
            match block {
                Block::Table(table) => self.table(table),
                Block::Chart(chart) => self.chart(chart),
                Block::Text(text) => self.paragraph(text, "", false),
            }
        }
        if !section.definitions.is_empty() {
            self.blank();
            for definition in &section.definitions {
                self.paragraph(definition, "  ", true);
            }
        }
    }

    fn chart(&mut self, chart: &Chart) {
        let title = printable(&chart.title).replace('*', "∗");
        let ranking = ranking(chart, self.width).or_else(|| waterfall(chart, self.width));
        let lines = sparklines(chart, self.width);
        if ranking.is_none() && lines.is_empty() {
            self.paragraph(&format!("Chart, not shown here: {title} ({})", printable(&chart.id)), "", true);
            return;
        }
        self.paragraph(&format!("**{title}.** {}", chart.reading), "", false);
        if let Some(table) = ranking {
            self.table(&table);
        }
        for line in lines {
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }

    /// A table of few rows with long texts: a paragraph a row, `name × count: text`, then the other columns with their names.
    fn records(&mut self, table: &ReportTable) {
        self.paragraph(&format!("**{}**", table.title.replace('*', "∗")), "", false);
        for row in 0..table.rows.len() {
            self.blank();
            let cell = |column: usize| table.cell(row, column).text().replace('*', "∗");
            self.paragraph(&format!("**{} × {}**: {}", cell(0), cell(1), cell(2)), "• ", false);
            for (ix, column) in table.columns.iter().enumerate().skip(3) {
                if *table.cell(row, ix) != Cell::Missing {
                    self.paragraph(&format!("{}: {}", column.heading().replace('*', "∗"), cell(ix)), "  ", false);
                }
            }
        }
        if let Some(note) = &table.note {
            self.blank();
            self.paragraph(note, "", true);
        }
    }

    fn table(&mut self, table: &ReportTable) {
        self.columns(table, usize::MAX);
    }

    /// A table, of which at most so many parts are shown where its columns do not fit beside each
    /// other.
    fn columns(&mut self, table: &ReportTable, most: usize) {
        self.paragraph(&format!("**{}**", table.title.replace('*', "∗")), "", false);
        let grid: Vec<Vec<String>> = (0..table.rows.len())
            .map(|r| (0..table.columns.len()).map(|c| printable(&table.cell(r, c).text())).collect())
            .collect();
        let names: Vec<String> = table.columns.iter().map(|c| printable(&c.heading())).collect();
        for part in parts(&names, &grid, table, self.width).into_iter().take(most) {
            let lines = |cells: &[String]| -> Vec<String> {
                let wrapped: Vec<Vec<String>> =
                    part.iter().map(|(c, w)| wrap(cells.get(*c).map_or("", String::as_str), *w)).collect();
                let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
                let line = |at: usize| {
                    let padded: Vec<String> = part
                        .iter()
                        .zip(&wrapped)
                        .map(|((c, w), pieces)| {
                            let text = pieces.get(at).map_or("", String::as_str);
                            pad(text, *w, table.columns.get(*c).map(|c| c.align))
                        })
                        .collect();
                    padded.join(&" ".repeat(GAP)).trim_end().to_string()
                };
                (0..height).map(line).collect()
            };
            for line in lines(&names) {
                let styled = self.styled(&line, "1");
                self.out.push_str(&styled);
                self.out.push('\n');
            }
            let total: usize = part.iter().map(|(_, w)| w + GAP).sum::<usize>().saturating_sub(GAP);
            self.out.extend(std::iter::repeat_n('─', total));
            self.out.push('\n');
            for line in grid.iter().flat_map(|row| lines(row)) {
                self.out.push_str(&line);
                self.out.push('\n');
            }
        }
        if let Some(note) = &table.note {
            self.paragraph(note, "", true);
        }
    }
}

/// The width of each line, for tests of other writers.
#[cfg(test)]
pub(crate) fn widest_line(text: &str) -> usize {
    text.lines().map(width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::chart::Mark;
    use super::super::model::Column;
    use super::*;

    fn wide() -> ReportTable {
        let mut table = ReportTable::new(
            "Users by GPU-hours",
            vec![
                Column::text("User"),
                Column::number("Jobs"),
                Column::with_unit("Energy", "kWh"),
                Column::text("Command"),
            ],
        );
        table.rows.push(vec![
            Cell::from("someone-with-a-very-long-name"),
            Cell::Int(111_549),
            Cell::Float { value: 1234.5, digits: 1 },
            Cell::from("python train.py --with many --flags and a path /data/模型/训练"),
        ]);
        table.rows.push(vec![Cell::from("b"), Cell::Missing]);
        table
    }

    #[test]
    fn a_waterfall_has_its_bars_where_they_begin_and_end() {
        use crate::report::chart::{Axis, Step};
        let steps = vec![Step::total("all", 10.0), Step::change("lost", -5.0), Step::total("left", 5.0)];
        let chart = Chart::waterfall("w", "W", Axis::linear("kWh"), steps);
        let table = waterfall(&chart, 30).unwrap();
        let bars: Vec<String> = (0..3).map(|row| table.cell(row, 2).text()).collect();
        // A third of 30 columns for 10 kWh.
        assert_eq!(bars, ["██████████", "·····█████", "█████"]);
    }

    /// Three sentences of four, ten rows of twelve and five cautions of six, without the notes.
    #[test]
    fn the_short_form_leaves_out_what_the_last_line_names() {
        let sentences = |what: &str, count: usize| (1..=count).map(|at| format!("{what} {at}.")).collect::<Vec<_>>();
        let mut table = ReportTable::new("Rules", vec![Column::text("Rule")]);
        table.rows = (1..=12).map(|at| vec![Cell::from(format!("rule {at}"))]).collect();
        let report = Report {
            summary: sentences("Sentence", 4),
            cautions: sentences("Caution", 6),
            notes: sentences("Note", 2),
            sections: vec![Section::new("rules", "Rules").with_table(table), Section::new("more", "More")],
            ..Report::new("Title", "Subtitle")
        };
        let short = short(&report, TextOptions::default());
        let shown = |what: &str| {
            (1..=12)
                .filter(|at| {
                    short
                        .lines()
                        .any(|line| line.ends_with(&format!("{what} {at}")) || line.ends_with(&format!("{what} {at}.")))
                })
                .count()
        };
        assert_eq!(["Sentence", "rule", "Caution", "Note"].map(shown), [3, 10, 5, 0], "{short}");
        assert!(short.contains("… and 2 more rows"), "{short}");
        let more = more(&report, TextOptions::default());
        assert_eq!(more.trim(), "`--details` also shows 1 caution, 3 notes, the sections rules, more.");
        let all = render(&report, TextOptions::default());
        assert!(all.contains("Caution 6.") && all.contains("Note 2.") && all.contains("rule 12"), "{all}");
    }

    #[test]
    fn a_table_that_fits_is_aligned() {
        let mut table = ReportTable::new("", vec![Column::text("VC"), Column::number("Jobs")]);
        table.rows.push(vec![Cell::from("alpha"), Cell::Int(1_234)]);
        table.rows.push(vec![Cell::from("b"), Cell::Missing]);
        let text = super::table(&table, TextOptions::default());
        assert_eq!(text, "VC      Jobs\n────────────\nalpha  1,234\nb          –\n");
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        for columns in [MIN_WIDTH, 30, 41, 60, 80, 200] {
            let text = super::table(&wide(), TextOptions { width: columns, color: false });
            assert!(widest_line(&text) <= columns, "{columns}:\n{text}");
            // Numbers are never cut at a width where the group can hold them.
            assert!(text.contains("111,549"), "{columns}:\n{text}");
        }
    }

    /// Two rows that only their zones tell apart: each part begins with offer and zone, so that 7 and 9 are known for whose they are.
    #[test]
    fn a_table_in_parts_repeats_what_tells_its_rows_apart() {
        let mut table = ReportTable::new(
            "",
            vec![
                Column::text("Offer"),
                Column::text("Zone"),
                Column::number("A cost in the first year"),
                Column::number("Used"),
            ],
        );
        for (zone, used) in [("a", 7), ("b", 9)] {
            table.rows.push(vec![Cell::from("8a100"), Cell::from(zone), Cell::Int(1_000_000), Cell::Int(used)]);
        }
        let text = super::table(&table, TextOptions { width: 25, color: false });
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        for (zone, used) in [("a", "7"), ("b", "9")] {
            assert!(rows.contains(&vec!["8a100", zone, used]), "{text}");
        }
    }

    #[test]
    fn sentences_wrap_and_bold_needs_permission() {
        let mut report = Report::new("A title", "");
        report.summary.push("One **two three** four, five.".to_string());
        let plain = render(&report, TextOptions { width: 20, color: false });
        assert_eq!(plain, "A title\n=======\n\n• One two three\n  four, five.\n");
        let colored = render(&report, TextOptions { width: 20, color: true });
        assert!(colored.contains("\u{1b}[1mtwo\u{1b}[0m"));
    }

    #[test]
    fn a_job_name_cannot_steer_the_terminal() {
        let mut table = ReportTable::new("t", vec![Column::text("Job")]);
        table.rows.push(vec![Cell::from("\u{1b}]0;owned\u{7}")]);
        let text = super::table(&table, TextOptions::default());
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    }

    #[test]
    fn a_curve_over_time_becomes_blocks() {
        use crate::report::chart::{Axis, ChartSeries};
        // Two columns: at most 4 of 8 in the first half, 8 in the second. Half of the maximum is block 4 of 8.
        let series = ChartSeries::new("GPUs", Mark::Area, vec![(0.0, 2.0), (1.0, 4.0), (3.0, 8.0), (4.0, 0.0)]);
        // A second curve of half the height shares the scale: its 4 of 8 are block 4.
        let half = ChartSeries::new("idle", Mark::Step, vec![(0.0, 4.0), (4.0, 4.0)]);
        let chart = Chart::xy("c", "c", Axis::linear(""), Axis::linear(""), vec![series, half]);
        // 20 columns less the 13 of a label are 7: four sevenths of a second each, of which 8 GPUs begin in the sixth.
        assert_eq!(sparklines(&chart, 20), ["▂▄▄▄▄██ GPUs, 0 to 8", "▄▄▄▄▄▄▄ idle, 0 to 4", "0     4"]);
        assert!(sparklines(&chart, 15).is_empty(), "no room for both ends of the axis");
    }

    #[test]
    fn a_chart_that_is_not_shown_is_named_without_its_reading() {
        use crate::report::chart::{Axis, ChartSeries};
        let chart = Chart::xy(
            "size-cdf",
            "Sizes",
            Axis::linear(""),
            Axis::linear(""),
            vec![ChartSeries::new("a", Mark::Line, vec![])],
        )
        .with_reading("Where the curve lags.");
        let mut report = Report::new("T", "");
        report.sections.push(Section::new("s", "S").with_chart(chart));
        let text = render(&report, TextOptions::default());
        assert!(text.contains("Chart, not shown here: Sizes (size-cdf)") && !text.contains("lags"), "{text}");
    }

    #[test]
    fn words_of_a_cell_wrap_and_none_is_lost() {
        let mut table = ReportTable::new("", vec![Column::text("Law"), Column::number("KS"), Column::text("Why")]);
        table.rows.push(vec![
            Cell::from("lognormal mixture"),
            Cell::Float { value: 0.5, digits: 1 },
            Cell::from("one two three four five"),
        ]);
        let text = super::table(&table, TextOptions { width: 36, color: false });
        assert!(!text.contains('…'), "{text}");
        let all: Vec<&str> = text.split_whitespace().collect();
        for word in "lognormal mixture one two three four five".split(' ') {
            assert!(all.contains(&word), "{word} is lost in {text}");
        }
        // 36 columns less two gaps and 3 of KS leave 29 for both texts: the wider gives way to 15 beside 14.
        assert!(widest_line(&text) <= 36, "{text}");
    }

    #[test]
    fn the_ledger_is_told_in_whole() {
        let mut report = Report::new("T", "");
        let columns = ["What was done", "Times", "Why", "First seen", "Remedy"];
        let mut ledger = ReportTable::new("5 rows read", columns.map(Column::text).into());
        let why = "a number was expected; the value is set to unknown";
        ledger.rows.push(
            ["repaired", "2", why, "a.csv, line 3, column gpus: many", "check the column"].map(Cell::from).into(),
        );
        report.quality = Some(ledger);
        let text = render(&report, TextOptions { width: 40, color: false });
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(
            "• repaired × 2: a number was expected; the value is set to unknown First seen: a.csv, line 3, column gpus: many \
             Remedy: check the column"
        ));
        assert!(widest_line(&text) <= 40);
    }
}
