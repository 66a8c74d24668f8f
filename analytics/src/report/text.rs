//! The report for a terminal: wrapped sentences, aligned tables, the ledger as records, and of curves over time one line of
//! blocks each. Of charts that cannot be shown so only the name stands here, as a reading without its chart helps nobody.
//!
//! No line is wider than the width given (at least [`MIN_WIDTH`] columns). A table that does not fit first wraps the words of
//! its widest columns, then continues its remaining columns below, repeating the first. Width counts terminal columns: wide East
//! Asian characters count two, combining marks none.

use super::chart::{BarLayout, Chart, Mark, Plot, Ticks};
use super::format;
use super::markup::{printable, spans};
use super::model::{Align, Block, Cell, Column, Report, Section, Table};
use super::opening::{Changes, Figure, MOST_CARDS, MOST_FIGURES};

/// Narrowest width that is honoured, in columns.
pub const MIN_WIDTH: usize = 20;
/// A column of words is not narrowed below this.
const NARROWEST: usize = 12;
/// Columns between two columns of a table.
const GAP: usize = 2;

/// How to write for a terminal.
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
pub fn table(table: &Table, options: TextOptions) -> String {
    let mut writer = Writer { out: String::new(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.table(table);
    writer.out
}

/// Renders what a reader decides by: figures, the whole time, what to change, and the first sentences on each question.
#[must_use]
pub fn brief(report: &Report, options: TextOptions) -> String {
    let mut writer = Writer { out: String::new(), width: options.width.max(MIN_WIDTH), color: options.color };
    writer.opening(report);
    for part in report.parts() {
        writer.blank();
        writer.heading(part.question.words(), '-');
        for (_, sentence) in part.sentences() {
            writer.paragraph(&sentence, "• ", false);
        }
    }
    writer.notes(report);
    writer.out
}

/// What is written so far, and how.
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

    /// What stands before the analyses.
    fn opening(&mut self, report: &Report) {
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
        if !report.summary.is_empty() {
            self.blank();
            for sentence in &report.summary {
                self.paragraph(sentence, "• ", false);
            }
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
    fn records(&mut self, table: &Table) {
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

    fn table(&mut self, table: &Table) {
        self.paragraph(&format!("**{}**", table.title.replace('*', "∗")), "", false);
        let grid: Vec<Vec<String>> = (0..table.rows.len())
            .map(|r| (0..table.columns.len()).map(|c| printable(&table.cell(r, c).text())).collect())
            .collect();
        let names: Vec<String> = table.columns.iter().map(|c| printable(&c.heading())).collect();
        for part in parts(&names, &grid, table, self.width) {
            let lines = |cells: &[String]| -> Vec<String> {
                let wrapped: Vec<Vec<String>> =
                    part.iter().map(|(c, w)| wrap(cells.get(*c).map_or("", String::as_str), *w)).collect();
                let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
                let line = |at: usize| {
                    let padded: Vec<String> = part
                        .iter()
                        .zip(&wrapped)
                        .map(|((c, w), own)| {
                            let text = own.get(at).map_or("", String::as_str);
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

/// Which columns stand beside each other, with their widths; several groups if one line cannot hold all.
fn parts(names: &[String], grid: &[Vec<String>], table: &Table, available: usize) -> Vec<Vec<(usize, usize)>> {
    let words = |c: usize| table.columns.get(c).is_some_and(|col| col.align == Align::Left);
    let widths = |heading: &dyn Fn(usize, &str) -> usize| -> Vec<usize> {
        let cells = |c: usize| grid.iter().filter_map(|row| row.get(c)).map(|t| width(t)).max().unwrap_or(0);
        names.iter().enumerate().map(|(c, name)| cells(c).max(heading(c, name)).min(available)).collect()
    };
    let mut natural = widths(&|_, name| width(name));
    // The headings of numbers wrap first: on two lines, then on as many as they have words.
    let longest = |name: &str| name.split(' ').map(width).max().unwrap_or(0);
    let halved = |name: &str| longest(name).max(width(name).div_ceil(2) + 2).min(width(name));
    for heading in [&halved as &dyn Fn(&str) -> usize, &longest] {
        if natural.iter().map(|w| w + GAP).sum::<usize>() > available + GAP {
            natural = widths(&|c, name| if words(c) { width(name) } else { heading(name) });
        }
    }
    let mut out = Vec::new();
    let mut next = 0;
    while next < names.len() {
        // The first column names the row, so every group begins with it.
        let mut group: Vec<(usize, usize)> = Vec::new();
        if next > 0 {
            group.push((0, natural.first().copied().unwrap_or(0)));
        }
        let smallest = |g: &[(usize, usize)]| -> usize {
            g.iter().map(|(c, w)| if words(*c) { (*w).min(NARROWEST) } else { *w }).sum::<usize>()
                + GAP * g.len().saturating_sub(1)
        };
        let first_new = group.len();
        while next < names.len() {
            group.push((next, natural.get(next).copied().unwrap_or(0)));
            if smallest(&group) > available && group.len() > first_new + 1 {
                group.pop();
                break;
            }
            next += 1;
        }
        narrow(&mut group, available, words);
        out.push(group);
    }
    out
}

/// Narrows a group to the width: the widest column of words first, any other only when nothing else is left.
fn narrow(group: &mut [(usize, usize)], available: usize, words: impl Fn(usize) -> bool) {
    let space = available.saturating_sub(GAP * group.len().saturating_sub(1));
    while group.iter().map(|(_, w)| w).sum::<usize>() > space {
        let widest = |g: &[(usize, usize)], only_words: bool| {
            (0..g.len())
                .filter(|&i| {
                    g.get(i).is_some_and(|(c, w)| if only_words { words(*c) && *w > NARROWEST } else { *w > 1 })
                })
                .max_by_key(|&i| (g.get(i).map(|(_, w)| *w), std::cmp::Reverse(i)))
        };
        let Some(entry) = widest(group, true).or_else(|| widest(group, false)).and_then(|i| group.get_mut(i)) else {
            break;
        };
        entry.1 -= 1;
    }
}

/// The text filled with spaces to `to` columns.
fn pad(text: &str, to: usize, align: Option<Align>) -> String {
    let fill = " ".repeat(to.saturating_sub(width(text)));
    if align == Some(Align::Right) { fill + text } else { text.to_string() + &fill }
}

/// The text of a cell on lines of at most `to` columns.
fn wrap(text: &str, to: usize) -> Vec<String> {
    if width(text) <= to {
        return vec![text.to_string()];
    }
    let words: Vec<Word> =
        text.split(' ').filter(|w| !w.is_empty()).map(|w| Word { text: w.to_string(), bold: false }).collect();
    let join = |line: &Vec<Word>| line.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" ");
    fill(&words, to.max(1)).iter().map(join).collect()
}

/// Terminal columns of a text.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Terminal columns of a character: two for East Asian wide ranges and emoji, none for combining marks.
fn char_width(c: char) -> usize {
    match c {
        '\u{0300}'..='\u{036F}' | '\u{200B}'..='\u{200F}' | '\u{20D0}'..='\u{20FF}' | '\u{FE00}'..='\u{FE0F}' => 0,
        '\u{1100}'..='\u{115F}'
        | '\u{2E80}'..='\u{303E}'
        | '\u{3041}'..='\u{A4CF}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}'
        | '\u{FF00}'..='\u{FF60}'
        | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1FAFF}'
        | '\u{20000}'..='\u{3FFFD}' => 2,
        _ => 1,
    }
}

/// A word of a sentence.
struct Word {
    text: String,
    bold: bool,
}

/// Words of a sentence with their weight. A weight that changes inside a word is that of its first part.
fn words(sentence: &str) -> impl Iterator<Item = Word> {
    let mut out: Vec<Word> = Vec::new();
    let mut joined = false;
    for span in spans(sentence) {
        let text = printable(span.text);
        // A terminal shows code as it is typed in prose: between backticks.
        let text = if span.code { format!("`{text}`") } else { text };
        for (i, piece) in text.split(' ').enumerate() {
            match out.last_mut() {
                Some(last) if i == 0 && joined => last.text.push_str(piece),
                // A number and its sign stay on one line.
                Some(last) if piece.starts_with('%') => last.text.push_str(&format!(" {piece}")),
                _ if piece.is_empty() => {}
                _ => out.push(Word { text: piece.to_string(), bold: span.bold }),
            }
            joined = !piece.is_empty();
        }
    }
    out.into_iter()
}

/// Lines of words no wider than `to`; a word that is wider alone is broken.
fn fill(words: &[Word], to: usize) -> Vec<Vec<Word>> {
    let mut lines: Vec<Vec<Word>> = Vec::new();
    let mut used = 0;
    for word in words {
        let mut rest = word.text.clone();
        while !rest.is_empty() {
            let mut piece = String::new();
            let mut taken = 0;
            for c in rest.chars() {
                if taken + char_width(c) > to && taken > 0 {
                    break;
                }
                taken += char_width(c);
                piece.push(c);
            }
            rest = rest.split_off(piece.len());
            let new = Word { text: piece, bold: word.bold };
            match lines.last_mut() {
                Some(line) if used + 1 + taken <= to => {
                    line.push(new);
                    used += 1 + taken;
                }
                _ => {
                    lines.push(vec![new]);
                    used = taken;
                }
            }
        }
    }
    lines
}

/// Eight heights of a block.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The curves of a chart over time, a line of blocks each from 0 to the highest of all, with their names and ranges; then the
/// ends of the axis. Empty for other charts, which say more in words.
fn sparklines(chart: &Chart, available: usize) -> Vec<String> {
    let Plot::Xy(series) = &chart.plot else {
        return Vec::new();
    };
    if !series.first().is_some_and(|s| matches!(s.mark, Mark::Area)) {
        return Vec::new();
    }
    let known: Vec<(&str, Vec<(f64, f64)>)> = series
        .iter()
        .map(|s| {
            let points = s.points.iter().copied().filter(|(x, y)| x.is_finite() && *y >= 0.0 && y.is_finite());
            (s.name.as_str(), points.collect())
        })
        .collect();
    let points = || known.iter().flat_map(|(_, points)| points);
    let start = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let end = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let highest = points().map(|p| p.1).fold(0.0, f64::max);
    if end <= start || highest <= 0.0 {
        return Vec::new();
    }
    let label = |name: &str, points: &[(f64, f64)]| {
        let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
        format!(" {}, 0 to {}", printable(name), format::compact(most))
    };
    let longest = known.iter().map(|(name, points)| width(&label(name, points))).max().unwrap_or(0);
    let columns = available.saturating_sub(longest).min(72);
    let (from, to) = (moment(chart, start), moment(chart, end));
    if columns < width(&from) + width(&to) + 1 {
        return Vec::new();
    }
    let mut lines: Vec<String> = known
        .iter()
        .map(|(name, points)| blocks(points, start, end, highest, columns) + &label(name, points))
        .collect();
    let to = to + &zone_named(chart);
    lines.push(format!("{from}{}{to}", " ".repeat(columns.saturating_sub(width(&from) + width(&to)).max(1))));
    lines
}

/// An end of the horizontal axis in words.
fn moment(chart: &Chart, x: f64) -> String {
    match &chart.x.ticks {
        Ticks::Time(zone) => jiff::Timestamp::from_second(x as i64)
            .map_or_else(|_| String::new(), |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()),
        Ticks::Duration => format::duration(x),
        _ => format::compact(x),
    }
}

/// The zone of a horizontal axis of dates, to stand behind them.
fn zone_named(chart: &Chart) -> String {
    match &chart.x.ticks {
        Ticks::Time(zone) => zone.iana_name().map_or_else(String::new, |name| format!(" ({name})")),
        _ => String::new(),
    }
}

/// One curve as blocks.
fn blocks(known: &[(f64, f64)], start: f64, end: f64, highest: f64, columns: usize) -> String {
    let mut line = String::new();
    let mut next = 0;
    let mut value = 0.0;
    for column in 0..columns {
        // The highest value that held within this column's stretch.
        let until = start + (end - start) * (column + 1) as f64 / columns as f64;
        let mut most: f64 = value;
        while let Some(&(x, y)) = known.get(next).filter(|p| p.0 <= until) {
            let _ = x;
            value = y;
            most = most.max(y);
            next += 1;
        }
        let level = ((most / highest * 8.0).ceil() as usize).clamp(1, 8) - 1;
        line.push(BLOCKS.get(level).copied().unwrap_or('█'));
    }
    line
}

/// A ranking (lying bars of one series) as a table with a bar per row.
fn ranking(chart: &Chart, available: usize) -> Option<Table> {
    let Plot::Bars { categories, series, layout: BarLayout::Grouped | BarLayout::Stacked, lying: true } = &chart.plot
    else {
        return None;
    };
    let [only] = series.as_slice() else {
        return None;
    };
    let longest = (available / 4).min(24) as f64;
    let highest = only.values.iter().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let heading = if chart.x.label.is_empty() { only.name.clone() } else { chart.x.label.clone() };
    let mut table = Table::new("", vec![Column::text(""), Column::number(heading), Column::text("")]);
    for (name, value) in categories.iter().zip(&only.values).take(20) {
        let part = value.filter(|v| v.is_finite() && highest > 0.0).map_or(0.0, |v| (v / highest).clamp(0.0, 1.0));
        let cell = Cell::opt(*value, |v| match chart.x.ticks {
            Ticks::Percent => Cell::Percent(v),
            Ticks::Duration => Cell::Duration(v),
            _ => Cell::Compact(v),
        });
        let bar = "█".repeat((part * longest).round() as usize);
        table.rows.push(vec![Cell::from(name.as_str()), cell, Cell::from(bar)]);
    }
    let hidden = categories.len().saturating_sub(20);
    if hidden > 0 {
        table.note = Some(format!("{hidden} more not shown."));
    }
    Some(table)
}

/// A waterfall as a table with a bar per row, each where it begins and ends.
fn waterfall(chart: &Chart, available: usize) -> Option<Table> {
    let Plot::Waterfall(steps) = &chart.plot else {
        return None;
    };
    let longest = (available / 3).min(40);
    let spans = super::plot::spans(steps);
    let ends = || spans.iter().flatten().flat_map(|(from, to)| [*from, *to]).chain([0.0]);
    let (least, most) = (ends().fold(0.0, f64::min), ends().fold(0.0, f64::max));
    let place = |value: f64| if most > least { (value - least) / (most - least) * longest as f64 } else { 0.0 };
    let mut table = Table::new("", vec![Column::text(""), Column::number(chart.x.label.clone()), Column::text("")]);
    for (step, span) in steps.iter().zip(&spans) {
        let bar = span.map_or_else(String::new, |(from, to)| {
            let (a, b) = (place(from.min(to)).round() as usize, place(from.max(to)).round() as usize);
            format!("{}{}", "·".repeat(a.min(longest)), "█".repeat(b.min(longest).saturating_sub(a)))
        });
        table.rows.push(vec![Cell::from(step.label.as_str()), Cell::Compact(step.value), Cell::from(bar)]);
    }
    Some(table)
}

/// The width of each line, for tests of other writers.
#[cfg(test)]
pub(crate) fn widest_line(text: &str) -> usize {
    text.lines().map(width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> Table {
        let mut table = Table::new(
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

    #[test]
    fn a_table_that_fits_is_aligned() {
        let mut table = Table::new("", vec![Column::text("VC"), Column::number("Jobs")]);
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
        let mut table = Table::new("t", vec![Column::text("Job")]);
        table.rows.push(vec![Cell::from("\u{1b}]0;owned\u{7}")]);
        let text = super::table(&table, TextOptions::default());
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    }

    #[test]
    fn a_curve_over_time_becomes_blocks() {
        use crate::report::chart::{Axis, Series};
        // Two columns: at most 4 of 8 in the first half, 8 in the second. Half of the maximum is block 4 of 8.
        let series = Series::new("GPUs", Mark::Area, vec![(0.0, 2.0), (1.0, 4.0), (3.0, 8.0), (4.0, 0.0)]);
        // A second curve of half the height shares the scale: its 4 of 8 are block 4.
        let half = Series::new("idle", Mark::Step, vec![(0.0, 4.0), (4.0, 4.0)]);
        let chart = Chart::xy("c", "c", Axis::linear(""), Axis::linear(""), vec![series, half]);
        // 20 columns less the 13 of a label are 7: four sevenths of a second each, of which 8 GPUs begin in the sixth.
        assert_eq!(sparklines(&chart, 20), ["▂▄▄▄▄██ GPUs, 0 to 8", "▄▄▄▄▄▄▄ idle, 0 to 4", "0     4"]);
        assert!(sparklines(&chart, 15).is_empty(), "no room for both ends of the axis");
    }

    #[test]
    fn a_chart_that_is_not_shown_is_named_without_its_reading() {
        use crate::report::chart::{Axis, Series};
        let chart = Chart::xy(
            "size-cdf",
            "Sizes",
            Axis::linear(""),
            Axis::linear(""),
            vec![Series::new("a", Mark::Line, vec![])],
        )
        .with_reading("Where the curve lags.");
        let mut report = Report::new("T", "");
        report.sections.push(Section::new("s", "S").with_chart(chart));
        let text = render(&report, TextOptions::default());
        assert!(text.contains("Chart, not shown here: Sizes (size-cdf)") && !text.contains("lags"), "{text}");
    }

    #[test]
    fn words_of_a_cell_wrap_and_none_is_lost() {
        let mut table = Table::new("", vec![Column::text("Law"), Column::number("KS"), Column::text("Why")]);
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
        let mut ledger = Table::new("5 rows read", columns.map(Column::text).into());
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
