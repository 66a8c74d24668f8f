//! The report as one HTML file that needs nothing else: charts inline, styles inside, no script, no network.
//!
//! Order: summary, contents, sections by the GPU time they concern, what the trace cannot tell, data quality, provenance. The
//! page follows the reader's light or dark setting; charts carry a fixed set of colours which the style sheet replaces in
//! the dark. A content security policy forbids loading anything, so a job name that slipped through could still do nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::chart::Chart;
use super::markup::{escape_html, sentence_html, slug};
use super::model::{Align, Block, Report, Section, Table};
use super::plot::{self, SvgUse};
use super::{RenderError, format};

/// The style sheet, with light, dark and print.
const STYLE: &str = include_str!("report.css");

/// Renders the report.
///
/// # Errors
/// [`RenderError`] if a chart cannot be drawn.
pub fn render(report: &Report) -> Result<String, RenderError> {
    let mut page = Page { out: String::new(), figures: 0, ids: BTreeMap::new() };
    let available = report.available();
    let ids: Vec<String> = available.iter().map(|s| page.unique(&s.id)).collect();
    page.head(report);
    page.summary(report);
    page.notes(report);
    page.contents(report, &available, &ids);
    for (section, id) in available.iter().zip(&ids) {
        page.section(section, id)?;
    }
    page.unavailable(&report.unavailable());
    if let Some(quality) = &report.quality {
        page.out.push_str("<section class=\"part plain\" id=\"data-quality\">\n<h2>Data quality</h2>\n");
        if quality.rows.is_empty() && quality.note.is_none() {
            let _ = writeln!(page.out, "<p>{}</p>", escape_html(&quality.title));
        } else {
            page.table(quality);
        }
        page.out.push_str("</section>\n");
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
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"
        );
        if !report.subtitle.is_empty() {
            let _ = writeln!(self.out, "<p class=\"subtitle\">{}</p>", escape_html(&report.subtitle));
        }
        self.out.push_str("</header>\n");
    }

    fn summary(&mut self, report: &Report) {
        if report.summary.is_empty() {
            return;
        }
        self.out.push_str("<section class=\"summary\" id=\"summary\">\n<h2>Summary</h2>\n<ul>\n");
        for sentence in &report.summary {
            let _ = writeln!(self.out, "<li>{}</li>", sentence_html(sentence));
        }
        self.out.push_str("</ul>\n</section>\n");
    }

    fn notes(&mut self, report: &Report) {
        if report.notes.is_empty() {
            return;
        }
        self.out.push_str("<section class=\"notes\" id=\"notes\">\n<h2>About this source</h2>\n<ul>\n");
        for note in &report.notes {
            let _ = writeln!(self.out, "<li>{}</li>", escape_html(note));
        }
        self.out.push_str("</ul>\n</section>\n");
    }

    fn contents(&mut self, report: &Report, available: &[&Section], ids: &[String]) {
        self.out.push_str("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n");
        for (section, id) in available.iter().zip(ids) {
            let _ = write!(self.out, "<li><a href=\"#{id}\">{}{}</a>", code(section), escape_html(&section.title));
            if let Some(hours) = hours(section) {
                let _ = write!(self.out, "<span class=\"hours\">{hours}</span>");
            }
            self.out.push_str("</li>\n");
        }
        if !report.unavailable().is_empty() {
            self.out.push_str("<li><a href=\"#cannot-tell\">What this trace cannot tell</a></li>\n");
        }
        if report.quality.is_some() {
            self.out.push_str("<li><a href=\"#data-quality\">Data quality</a></li>\n");
        }
        if !report.provenance.is_empty() {
            self.out.push_str("<li><a href=\"#provenance\">Provenance</a></li>\n");
        }
        self.out.push_str("</ol>\n</nav>\n");
    }

    fn section(&mut self, section: &Section, id: &str) -> Result<(), RenderError> {
        let _ = write!(
            self.out,
            "<section class=\"part\" id=\"{id}\">\n<h2>{}{}</h2>\n",
            code(section),
            escape_html(&section.title)
        );
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
                Block::Chart(chart) => self.figure(chart)?,
                Block::Text(text) => {
                    let _ = writeln!(self.out, "<p>{}</p>", sentence_html(text));
                }
            }
        }
        if !section.definitions.is_empty() {
            self.out.push_str("<aside class=\"defs\">\n<h3>Definitions</h3>\n<ul>\n");
            for definition in &section.definitions {
                let _ = writeln!(self.out, "<li>{}</li>", sentence_html(definition));
            }
            self.out.push_str("</ul>\n</aside>\n");
        }
        self.out.push_str("</section>\n");
        Ok(())
    }

    fn figure(&mut self, chart: &Chart) -> Result<(), RenderError> {
        self.figures += 1;
        let number = self.figures;
        let drawing = plot::svg(chart, SvgUse::Inline)?;
        // The caption names the figure, so that a screen reader reads the same words that others see.
        let drawing = drawing.replacen("role=\"img\"", &format!("role=\"img\" aria-labelledby=\"figure-{number}\""), 1);
        let _ = write!(
            self.out,
            "<figure>\n<figcaption id=\"figure-{number}\"><b>Figure {number}. {}</b>",
            escape_html(&chart.title)
        );
        if !chart.reading.is_empty() {
            let _ = write!(self.out, " <span>{}</span>", sentence_html(&chart.reading));
        }
        let _ = write!(self.out, "</figcaption>\n{drawing}</figure>\n");
        Ok(())
    }

    fn table(&mut self, table: &Table) {
        let name = escape_html(&table.title);
        let label = if name.is_empty() { "Table".to_string() } else { name.clone() };
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
                let text = escape_html(&table.cell(row, k).text());
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
        self.out.push_str(
            "<section class=\"part plain\" id=\"cannot-tell\">\n<h2>What this trace cannot tell</h2>\n<dl>\n",
        );
        for section in sections {
            let why = section.unavailable.as_deref().unwrap_or_default();
            let _ = writeln!(
                self.out,
                "<dt>{}{}</dt><dd>{}</dd>",
                code(section),
                escape_html(&section.title),
                sentence_html(why)
            );
        }
        self.out.push_str("</dl>\n</section>\n");
    }

    fn provenance(&mut self, entries: &[(String, String)]) {
        if entries.is_empty() {
            return;
        }
        self.out.push_str(
            "<footer class=\"plain\">\n<section class=\"part\" id=\"provenance\">\n<h2>Provenance</h2>\n<dl>\n",
        );
        for (name, value) in entries {
            let _ = writeln!(self.out, "<dt>{}</dt><dd>{}</dd>", escape_html(name), escape_html(value));
        }
        self.out.push_str("</dl>\n</section>\n</footer>\n");
    }
}

/// The code of a section as a badge.
fn code(section: &Section) -> String {
    section.code.as_deref().map_or_else(String::new, |c| format!("<span class=\"code\">{}</span>", escape_html(c)))
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
        let mut table = Table::new(bad, vec![Column::text(bad), Column::with_unit(bad, bad)]);
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
                .with_code(bad)
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
