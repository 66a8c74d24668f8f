//! The report for a terminal: wrapped sentences, aligned tables, and of each chart its reading with one line of blocks.
//!
//! No line is wider than the width given (at least [`MIN_WIDTH`] columns). A table that does not fit first narrows its widest
//! column of words, then continues its remaining columns below, repeating the first. Width counts terminal columns: wide East
//! Asian characters count two, combining marks none.

use super::chart::{BarLayout, Chart, Mark, Plot};
use super::format;
use super::markup::{printable, spans};
use super::model::{Align, Block, Report, Section, Table};

/// Narrowest width that is honoured, in columns.
pub const MIN_WIDTH: usize = 20;
/// A column of words is not narrowed below this.
const NARROWEST: usize = 8;
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
    writer.heading(&report.title, '=');
    writer.paragraph(&report.subtitle, "", true);
    if !report.summary.is_empty() {
        writer.blank();
        for sentence in &report.summary {
            writer.paragraph(sentence, "• ", false);
        }
    }
    if !report.notes.is_empty() {
        writer.blank();
        writer.heading("About this source", '-');
        for note in &report.notes {
            writer.paragraph(note, "• ", false);
        }
    }
    for section in report.available() {
        writer.section(section);
    }
    let unavailable = report.unavailable();
    if !unavailable.is_empty() {
        writer.blank();
        writer.heading("What this trace cannot tell", '-');
        for section in unavailable {
            let why = section.unavailable.as_deref().unwrap_or_default();
            writer.paragraph(&format!("{}: {why}", title(section)), "• ", false);
        }
    }
    if let Some(quality) = &report.quality {
        writer.blank();
        writer.heading("Data quality", '-');
        writer.table(quality);
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

/// Code and title of a section.
fn title(section: &Section) -> String {
    section.code.as_ref().map_or_else(|| section.title.clone(), |code| format!("{code} {}", section.title))
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

    fn section(&mut self, section: &Section) {
        self.blank();
        self.heading(&title(section), '-');
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
        self.paragraph(&format!("**{}.** {}", printable(&chart.title).replace('*', "∗"), chart.reading), "", false);
        if let Some(table) = ranking(chart) {
            self.table(&table);
        } else if let Some(line) = sparkline(chart, self.width) {
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }

    fn table(&mut self, table: &Table) {
        self.paragraph(&format!("**{}**", table.title.replace('*', "∗")), "", false);
        let grid: Vec<Vec<String>> = (0..table.rows.len())
            .map(|r| (0..table.columns.len()).map(|c| printable(&table.cell(r, c).text())).collect())
            .collect();
        let names: Vec<String> = table.columns.iter().map(|c| printable(&c.heading())).collect();
        for part in parts(&names, &grid, table, self.width) {
            let line = |cells: &dyn Fn(usize) -> String| -> String {
                let padded: Vec<String> =
                    part.iter().map(|(c, w)| pad(&cells(*c), *w, table.columns.get(*c).map(|c| c.align))).collect();
                padded.join(&" ".repeat(GAP)).trim_end().to_string()
            };
            let head = line(&|c| names.get(c).cloned().unwrap_or_default());
            let styled = self.styled(&head, "1");
            self.out.push_str(&styled);
            self.out.push('\n');
            let total: usize = part.iter().map(|(_, w)| w + GAP).sum::<usize>().saturating_sub(GAP);
            self.out.extend(std::iter::repeat_n('─', total));
            self.out.push('\n');
            for row in &grid {
                self.out.push_str(&line(&|c| row.get(c).cloned().unwrap_or_default()));
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
    let natural: Vec<usize> = (0..names.len())
        .map(|c| {
            let cells = grid.iter().filter_map(|row| row.get(c)).map(|t| width(t)).max().unwrap_or(0);
            cells.max(names.get(c).map_or(0, |n| width(n))).min(available)
        })
        .collect();
    let words = |c: usize| table.columns.get(c).is_some_and(|col| col.align == Align::Left);
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

/// The text in exactly `to` columns, cut with `…` or filled with spaces.
fn pad(text: &str, to: usize, align: Option<Align>) -> String {
    let text = cut(text, to);
    let fill = " ".repeat(to.saturating_sub(width(&text)));
    if align == Some(Align::Right) { fill + &text } else { text + &fill }
}

/// The text in at most `to` columns.
fn cut(text: &str, to: usize) -> String {
    if width(text) <= to {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = char_width(c);
        if used + w + 1 > to {
            break;
        }
        out.push(c);
        used += w;
    }
    if to > 0 {
        out.push('…');
    }
    out
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
        for (i, piece) in text.split(' ').enumerate() {
            match out.last_mut() {
                Some(last) if i == 0 && joined => last.text.push_str(piece),
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

/// The first curve of a chart over time or hours as one line of blocks from 0 to its maximum. Other charts say more in words.
fn sparkline(chart: &Chart, available: usize) -> Option<String> {
    let Plot::Xy(series) = &chart.plot else {
        return None;
    };
    let first = series.first().filter(|s| matches!(s.mark, Mark::Area))?;
    let known: Vec<(f64, f64)> =
        first.points.iter().copied().filter(|(x, y)| x.is_finite() && *y >= 0.0 && y.is_finite()).collect();
    let (start, end) = (known.first()?.0, known.last()?.0);
    let highest = known.iter().map(|p| p.1).fold(0.0, f64::max);
    if end <= start || highest <= 0.0 {
        return None;
    }
    let peak = format!(" peak {}", format::compact(highest));
    let columns = available.saturating_sub(width(&peak)).min(72);
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
    Some(line + &peak)
}

/// A ranking (lying bars of one series) as a table with a bar per row.
fn ranking(chart: &Chart) -> Option<Table> {
    use super::chart::Ticks;
    use super::model::{Cell, Column};
    let Plot::Bars { categories, series, layout: BarLayout::Grouped | BarLayout::Stacked, lying: true } = &chart.plot
    else {
        return None;
    };
    let [only] = series.as_slice() else {
        return None;
    };
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
        let bar = "█".repeat((part * 24.0).round() as usize);
        table.rows.push(vec![Cell::from(name.as_str()), cell, Cell::from(bar)]);
    }
    let hidden = categories.len().saturating_sub(20);
    if hidden > 0 {
        table.note = Some(format!("{hidden} more not shown."));
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
    use crate::report::model::{Cell, Column};

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
        let chart = Chart::xy("c", "c", Axis::linear(""), Axis::linear(""), vec![series]);
        assert_eq!(sparkline(&chart, 9).as_deref(), Some("▄█ peak 8"));
    }
}
