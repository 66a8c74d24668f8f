//! The report as one HTML file that needs nothing else: charts inline, styles inside, no script, no network.
//!
//! Order: the row of figures, the whole time in one chart, what to change, the summary, the questions with what answers them, other analyses by the
//! GPU time they concern, what the trace cannot tell, data quality, provenance. Definitions, details and what is known of the source are folded; the
//! page opens them by itself for a link that leads there. It follows the reader's light or dark setting; charts carry a fixed set of colours which
//! the style sheet replaces in the dark. A content security policy forbids loading anything, so a job name that slipped through could still do
//! nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::chart::Chart;
use super::markup::{data_html, escape_html, sentence_html, slug};
use super::model::{Align, Block, Report, ReportTable, Section};
use super::opening::{Card, Changes, MOST_CARDS, MOST_FIGURES};
use super::part::ReportPart;
use super::plot::{self, SvgUse};
use super::{RenderError, format};

/// The style sheet, with light, dark and print.
const STYLE: &str = include_str!("report.css");
/// Anchor and heading of what to change.
const CHANGES: (&str, &str) = ("what-to-change", "What to change");
/// Anchor and heading of the questions.
const FOUND: (&str, &str) = ("what-we-found", "What we found");

/// Notes on the source that stand in the open.
const OPEN_NOTES: usize = 3;

/// Renders the report.
///
/// # Errors
/// [`RenderError`] if a chart cannot be drawn.
pub fn render(report: &Report) -> Result<String, RenderError> {
    let mut page = Page { out: String::new(), figures: 0, ids: BTreeMap::new() };
    let parts = report.parts();
    let others = report.others();
    let mut ids = |sections: &[&Section]| sections.iter().map(|s| page.unique(&s.id)).collect::<Vec<_>>();
    let part_ids: Vec<Vec<String>> = parts.iter().map(|part| ids(&part.sections)).collect();
    let other_ids = ids(&others);
    page.head(report);
    page.contents(report, &parts, &part_ids, (&others, &other_ids));
    page.out.push_str("<main>\n<header>\n");
    let _ = writeln!(page.out, "<h1>{}</h1>", escape_html(&report.title));
    if !report.subtitle.is_empty() {
        let _ = writeln!(page.out, "<p class=\"subtitle\">{}</p>", sentence_html(&report.subtitle));
    }
    if !report.figures.is_empty() {
        for sentence in report.summary.iter().chain(&report.cautions) {
            let _ = writeln!(page.out, "<p class=\"lead\">{}</p>", sentence_html(sentence));
        }
    }
    page.out.push_str("</header>\n");
    page.row(report);
    if let Some(chart) = &report.overview {
        page.figure(chart, true)?;
    }
    if let Some(changes) = &report.changes {
        page.changes(changes);
    }
    page.summary(report);
    if !parts.is_empty() {
        let _ = writeln!(page.out, "<section id=\"{}\">\n<h2>{}</h2>", FOUND.0, FOUND.1);
        for (part, ids) in parts.iter().zip(&part_ids) {
            page.part(part, ids)?;
        }
        page.out.push_str("</section>\n");
    }
    page.notes(report, parts.is_empty());
    for (section, id) in others.iter().zip(&other_ids) {
        if parts.is_empty() {
            page.section(section, id)?;
        } else {
            page.folded(section, id, &[])?;
        }
    }
    page.unavailable(&report.unavailable());
    if let Some(quality) = &report.quality {
        page.out.push_str("<details class=\"fold\">\n<summary>Data quality</summary>\n<div id=\"data-quality\">\n");
        if quality.rows.is_empty() && quality.note.is_none() {
            let _ = writeln!(page.out, "<p>{}</p>", sentence_html(&quality.title));
        } else {
            page.table(quality);
        }
        page.out.push_str("</div>\n</details>\n");
    }
    page.provenance(&report.provenance);
    page.out.push_str("</main>\n</body>\n</html>\n");
    Ok(page.out)
}

/// The file as written so far.
struct Page {
    out: String,
    figures: usize,
    ids: BTreeMap<String, usize>,
}

impl Page {
    /// An identifier that no other part of the page has. Parts of the page itself have theirs without the prefix.
    fn unique(&mut self, text: &str) -> String {
        let base = format!("s-{}", slug(text));
        let seen = self.ids.entry(base.clone()).or_insert(0);
        *seen += 1;
        if *seen == 1 { base } else { format!("{base}--{seen}") }
    }

    fn head(&mut self, report: &Report) {
        let title = escape_html(&report.title);
        let _ = write!(
            self.out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        );
    }

    /// The list of what there is: beside the page where it is wide, above it elsewhere.
    fn contents(
        &mut self,
        report: &Report,
        parts: &[ReportPart<'_>],
        part_ids: &[Vec<String>],
        (others, other_ids): (&[&Section], &[String]),
    ) {
        self.out.push_str("<nav aria-label=\"Contents\">\n<ol>\n");
        if report.changes.is_some() {
            let _ = writeln!(self.out, "<li><a href=\"#{}\">{}</a></li>", CHANGES.0, CHANGES.1);
        }
        if !report.summary.is_empty() && report.figures.is_empty() {
            self.out.push_str("<li><a href=\"#summary\">Summary</a></li>\n");
        }
        for (part, ids) in parts.iter().zip(part_ids) {
            let (id, words) = (part.question.id(), part.question.words());
            let _ = writeln!(self.out, "<li><a href=\"#{id}\">{words}</a>\n<ol>");
            for (section, id) in part.sections.iter().zip(ids) {
                self.entry(section, id);
            }
            self.out.push_str("</ol></li>\n");
        }
        for (section, id) in others.iter().zip(other_ids) {
            self.entry(section, id);
        }
        for (there, id, words) in [
            (!report.notes.is_empty(), "notes", "About this source"),
            (!report.unavailable().is_empty(), "cannot-tell", "What this trace cannot tell"),
            (report.quality.is_some(), "data-quality", "Data quality"),
            (!report.provenance.is_empty(), "provenance", "Provenance"),
        ] {
            if there {
                let _ = writeln!(self.out, "<li><a href=\"#{id}\">{words}</a></li>");
            }
        }
        self.out.push_str("</ol>\n</nav>\n");
    }

    fn entry(&mut self, section: &Section, id: &str) {
        let _ = writeln!(self.out, "<li><a href=\"#{id}\">{}</a></li>", escape_html(&section.title));
    }

    /// The row of figures.
    fn row(&mut self, report: &Report) {
        if report.figures.is_empty() {
            return;
        }
        self.out.push_str("<dl class=\"figures\">\n");
        for figure in report.figures.iter().take(MOST_FIGURES) {
            let (name, value) = (escape_html(&figure.name), escape_html(&figure.value));
            let note = sentence_html(&figure.note);
            let _ = writeln!(self.out, "<div><dt>{name}</dt><dd><b>{value}</b> <span>{note}</span></dd></div>");
        }
        self.out.push_str("</dl>\n");
    }

    fn changes(&mut self, changes: &Changes) {
        let _ = writeln!(self.out, "<section id=\"{}\">\n<h2>{}</h2>", CHANGES.0, CHANGES.1);
        if changes.cards.is_empty() {
            let _ = writeln!(self.out, "<p class=\"finding\">{}</p>", sentence_html(&changes.nothing));
        }
        for (at, card) in changes.cards.iter().take(MOST_CARDS).enumerate() {
            self.card(at + 1, card);
        }
        if !changes.passed_over.is_empty() {
            self.out.push_str("<details class=\"fold\">\n<summary>Looked at and left alone</summary>\n<dl>\n");
            for (what, why) in &changes.passed_over {
                let _ = writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", sentence_html(what), sentence_html(why));
            }
            self.out.push_str("</dl>\n</details>\n");
        }
        self.out.push_str("</section>\n");
    }

    fn card(&mut self, number: usize, card: &Card) {
        let _ = writeln!(
            self.out,
            "<article class=\"card\" id=\"change-{number}\">\n<h3><span class=\"number\">{number}</span>{}</h3>\n\
             <p class=\"effect\">{}</p>\n<dl>",
            sentence_html(&card.action),
            sentence_html(&card.effect)
        );
        for (name, text) in [("Confidence", &card.confidence), ("Who pays", &card.cost)] {
            if !text.is_empty() {
                let _ = writeln!(self.out, "<dt>{name}</dt><dd>{}</dd>", sentence_html(text));
            }
        }
        let _ = write!(self.out, "<dt>Apply</dt><dd>{}", sentence_html(&card.apply));
        if let Some(command) = &card.command {
            let _ = write!(
                self.out,
                "<pre tabindex=\"0\" aria-label=\"Command\"><code>{}</code></pre>",
                escape_html(command)
            );
        }
        let _ = writeln!(self.out, "</dd>\n<dt>Undo</dt><dd>{}</dd>\n</dl>", sentence_html(&card.undo));
        if !card.details.is_empty() {
            self.out.push_str("<details>\n<summary>Assumptions and bounds</summary>\n<dl>\n");
            for (name, text) in &card.details {
                let _ = writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", escape_html(name), sentence_html(text));
            }
            self.out.push_str("</dl>\n</details>\n");
        }
        self.out.push_str("</article>\n");
    }

    fn summary(&mut self, report: &Report) {
        // Beside figures it stands above them.
        if report.summary.is_empty() && report.cautions.is_empty() || !report.figures.is_empty() {
            return;
        }
        let (lead, cautions, rest) = report.sentences();
        self.out.push_str("<section class=\"summary\" id=\"summary\">\n<h2>Summary</h2>\n");
        self.list(lead);
        if !cautions.is_empty() {
            self.out.push_str("<h3>Cautions</h3>\n");
            self.list(cautions);
        }
        if !rest.is_empty() {
            self.out.push_str("<details class=\"fold\">\n<summary>More on this answer</summary>\n");
            self.list(rest);
            self.out.push_str("</details>\n");
        }
        self.out.push_str("</section>\n");
    }

    fn list(&mut self, sentences: &[String]) {
        self.out.push_str("<ul>\n");
        for sentence in sentences {
            let _ = writeln!(self.out, "<li>{}</li>", sentence_html(sentence));
        }
        self.out.push_str("</ul>\n");
    }

    /// A question: a few sentences, the charts that show it, and its analyses folded.
    fn part(&mut self, part: &ReportPart<'_>, ids: &[String]) -> Result<(), RenderError> {
        let _ = write!(
            self.out,
            "<section class=\"part\" id=\"{}\">\n<h3>{}</h3>\n<ul class=\"leads\">\n",
            part.question.id(),
            part.question.words()
        );
        for (_, sentence) in part.sentences() {
            let _ = writeln!(self.out, "<li>{}</li>", sentence_html(&sentence));
        }
        self.out.push_str("</ul>\n");
        let charts = part.charts();
        for chart in &charts {
            self.figure(chart, true)?;
        }
        for (section, id) in part.sections.iter().zip(ids) {
            self.folded(section, id, &charts)?;
        }
        self.out.push_str("</section>\n");
        Ok(())
    }

    /// An analysis behind its title; charts that stand in the open already are left out.
    fn folded(&mut self, section: &Section, id: &str, shown: &[&Chart]) -> Result<(), RenderError> {
        let beside = hours(section).map_or_else(String::new, |hours| format!(" <span class=\"hours\">{hours}</span>"));
        let _ = write!(
            self.out,
            "<details class=\"fold\">\n<summary>{}{beside}</summary>\n<div id=\"{id}\">\n",
            escape_html(&section.title)
        );
        self.body(section, shown)?;
        self.out.push_str("</div>\n</details>\n");
        Ok(())
    }

    /// An analysis in the open.
    fn section(&mut self, section: &Section, id: &str) -> Result<(), RenderError> {
        let _ = write!(self.out, "<section class=\"part\" id=\"{id}\">\n<h2>{}</h2>\n", escape_html(&section.title));
        self.body(section, &[])?;
        self.out.push_str("</section>\n");
        Ok(())
    }

    fn body(&mut self, section: &Section, shown: &[&Chart]) -> Result<(), RenderError> {
        if !section.finding.is_empty() {
            let _ = writeln!(self.out, "<p class=\"finding\">{}</p>", sentence_html(&section.finding));
        }
        let mut meta: Vec<String> = Vec::new();
        meta.extend(hours(section).map(|h| format!("Concerns {h}")));
        meta.extend(section.coverage.as_deref().map(|c| format!("Coverage: {}", sentence_html(c))));
        if !meta.is_empty() {
            let _ = writeln!(self.out, "<p class=\"meta\">{}</p>", meta.join(" · "));
        }
        for block in &section.blocks {
            match block {
                Block::Table(table) => self.table(table),
                Block::Chart(chart) if shown.iter().any(|other| other.id == chart.id) => {}
                Block::Chart(chart) => self.figure(chart, false)?,
                Block::Text(text) => {
                    let _ = writeln!(self.out, "<p>{}</p>", sentence_html(text));
                }
            }
        }
        if !section.definitions.is_empty() {
            self.out.push_str("<details class=\"defs\">\n<summary>Definitions</summary>\n<ul>\n");
            for definition in &section.definitions {
                let _ = writeln!(self.out, "<li>{}</li>", sentence_html(definition));
            }
            self.out.push_str("</ul>\n</details>\n");
        }
        Ok(())
    }

    /// Notes on the source: in the open where they are short and nothing else stands before the
    /// analyses.
    fn notes(&mut self, report: &Report, open: bool) {
        if report.notes.is_empty() {
            return;
        }
        let open = if open && report.notes.len() <= OPEN_NOTES { " open" } else { "" };
        let count = format::counted(report.notes.len() as u64, "note", "notes");
        let _ = writeln!(
            self.out,
            "<details class=\"fold notes\"{open}>\n<summary>About this source <span class=\"hours\">{count}</span></summary>\n\
             <ul id=\"notes\">"
        );
        for note in &report.notes {
            let _ = writeln!(self.out, "<li>{}</li>", sentence_html(note));
        }
        self.out.push_str("</ul>\n</details>\n");
    }

    fn figure(&mut self, chart: &Chart, open: bool) -> Result<(), RenderError> {
        self.figures += 1;
        let number = self.figures;
        let drawing = plot::svg(chart, SvgUse::Inline)?;
        // The caption names the figure, so that a screen reader reads the same words that others see.
        let mut drawing =
            drawing.replacen("role=\"img\"", &format!("role=\"img\" aria-labelledby=\"figure-{number}\""), 1);
        if open {
            // Drawn again for a phone: what stands in the open is to be read without sliding.
            let narrow = plot::svg(chart, SvgUse::Narrow)?;
            let named = format!("class=\"narrow\" role=\"img\" aria-labelledby=\"figure-{number}\"");
            drawing.push_str(&narrow.replacen("role=\"img\"", &named, 1));
        }
        let _ = write!(self.out, "<figure>\n<figcaption id=\"figure-{number}\"><b>{}</b>", sentence_html(&chart.title));
        if !chart.reading.is_empty() {
            let _ = write!(self.out, " <span>{}</span>", sentence_html(&chart.reading));
        }
        let _ = write!(
            self.out,
            "</figcaption>\n<div class=\"drawing\" role=\"region\" tabindex=\"0\" aria-labelledby=\"figure-{number}\">{drawing}</div></figure>\n"
        );
        Ok(())
    }

    fn table(&mut self, table: &ReportTable) {
        let name = sentence_html(&table.title);
        let label = if name.is_empty() { "Table".to_string() } else { escape_html(&table.title) };
        // Reachable by keyboard, since a wide table scrolls sideways.
        let _ =
            write!(self.out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{label}\">\n<table>\n");
        if !name.is_empty() {
            let _ = writeln!(self.out, "<caption>{name}</caption>");
        }
        self.out.push_str("<thead><tr>");
        let class = |align: Align| {
            if align == Align::Right { " class=\"num\"" } else { "" }
        };
        for column in &table.columns {
            let _ =
                write!(self.out, "<th scope=\"col\"{}>{}</th>", class(column.align), escape_html(&column.heading()));
        }
        self.out.push_str("</tr></thead>\n<tbody>\n");
        for row in 0..table.rows.len() {
            self.out.push_str("<tr>");
            for (k, column) in table.columns.iter().enumerate() {
                let text = data_html(&table.cell(row, k).text());
                let class = class(column.align);
                if k == 0 && column.align == Align::Left {
                    let _ = write!(self.out, "<th scope=\"row\">{text}</th>");
                } else {
                    let _ = write!(self.out, "<td{class}>{text}</td>");
                }
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</tbody>\n</table>\n</div>\n");
        if let Some(note) = &table.note {
            let _ = writeln!(self.out, "<p class=\"note\">{}</p>", sentence_html(note));
        }
    }

    fn unavailable(&mut self, sections: &[&Section]) {
        if sections.is_empty() {
            return;
        }
        let _ = write!(
            self.out,
            "<details class=\"fold\">\n<summary>What this trace cannot tell <span class=\"hours\">{}</span></summary>\n\
             <dl id=\"cannot-tell\">\n",
            format::counted(sections.len() as u64, "question", "questions")
        );
        for section in sections {
            let why = section.unavailable.as_deref().unwrap_or_default();
            let _ = writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", escape_html(&section.title), sentence_html(why));
        }
        self.out.push_str("</dl>\n</details>\n");
    }

    fn provenance(&mut self, entries: &[(String, String)]) {
        if entries.is_empty() {
            return;
        }
        self.out
            .push_str("<footer>\n<details class=\"fold\">\n<summary>Provenance</summary>\n<dl id=\"provenance\">\n");
        for (name, value) in entries {
            let _ = writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", escape_html(name), data_html(value));
        }
        self.out.push_str("</dl>\n</details>\n</footer>\n");
    }
}

/// GPU time of a section with its unit.
fn hours(section: &Section) -> Option<String> {
    section.gpu_hours.filter(|h| h.is_finite()).map(|h| format!("{} GPU-hours", format::compact(h)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::model::{Cell, Column};

    #[test]
    fn a_hostile_job_name_stays_text_wherever_it_stands() {
        let bad = "<script>alert(1)</script>\"'&\u{1b}";
        let mut report = Report::new(bad, bad);
        report.summary.push(bad.to_string());
        report.provenance.push((bad.to_string(), bad.to_string()));
        let mut table = ReportTable::new(bad, vec![Column::text(bad), Column::with_unit(bad, bad)]);
        table.rows.push(vec![Cell::from(bad), Cell::Missing]);
        table.note = Some(bad.to_string());
        report.quality = Some(table.clone());
        let chart = crate::report::Chart::rows(
            bad,
            bad,
            crate::report::Axis::linear(bad),
            crate::report::BarLayout::Grouped,
            vec![bad.to_string()],
            vec![
                crate::report::BarSeries::new(bad, vec![Some(1.0)]),
                crate::report::BarSeries::new(bad, vec![Some(1.0)]),
            ],
        )
        .with_reading(bad);
        report.sections.push(
            Section::new(bad, bad)
                .with_finding(bad)
                .with_coverage(bad)
                .with_definition(bad)
                .with_text(bad)
                .with_table(table)
                .with_chart(chart),
        );
        report.sections.push(Section::not_available(bad, bad, bad));
        let html = render(&report).unwrap();
        assert!(!html.contains("<script"), "a tag from data reached the page");
        assert!(!html.contains('\u{1b}'));
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\u{FFFD}"));
    }

    #[test]
    fn sections_come_by_gpu_hours_with_links_that_resolve() {
        let mut report = Report::new("t", "");
        report.sections.push(Section::new("same", "Small").with_gpu_hours(Some(10.0)));
        report.sections.push(Section::new("same", "Large").with_gpu_hours(Some(3_620_000.0)));
        report.sections.push(Section::not_available("power", "Power", "No meter readings."));
        let html = render(&report).unwrap();
        assert!(html.find("<h2>Large").unwrap() < html.find("<h2>Small").unwrap());
        assert!(html.contains("Concerns 3.62 M GPU-hours"));
        assert!(html.contains("href=\"#s-same\"") && html.contains("id=\"s-same\""));
        assert!(html.contains("href=\"#s-same--2\"") && html.contains("id=\"s-same--2\""));
        assert!(html.contains("<dt>Power</dt><dd>No meter readings.</dd>"));
        assert!(
            !html.contains("http://") || html.matches("http://").count() == html.matches("xmlns=\"http://").count()
        );
    }
}
