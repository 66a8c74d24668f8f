//! The report as Markdown, for pull requests and wikis: the words and tables of the HTML file; of a chart, its name. What the page folds stands
//! behind `<details>` here, too.

use std::fmt::Write as _;

use super::Chart;
use super::format;
use super::markup::{escape_markdown, printable, sentence_markdown};
use super::model::{Align, Block, Report, ReportTable, Section};
use super::opening::{Card, Changes, MOST_CARDS, MOST_FIGURES};
use super::part::ReportPart;

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = format!("# {}\n", escape_markdown(&report.title));
    if !report.subtitle.is_empty() {
        let _ = write!(out, "\n{}\n", sentence_markdown(&report.subtitle));
    }
    write_figures(&mut out, report);
    if let Some(chart) = &report.overview {
        write_chart(&mut out, chart);
    }
    if let Some(changes) = &report.changes {
        write_changes(&mut out, changes);
    }
    if !report.summary.is_empty() || !report.cautions.is_empty() {
        out.push_str("\n## Summary\n\n");
        let (lead, cautions, rest) = report.sentences();
        for sentence in [lead, cautions, rest].concat() {
            let _ = writeln!(out, "- {}", sentence_markdown(&sentence));
        }
    }
    if !report.notes.is_empty() {
        out.push_str("\n## About this source\n\n");
        for note in &report.notes {
            let _ = writeln!(out, "- {}", sentence_markdown(note));
        }
    }
    let parts = report.parts();
    if !parts.is_empty() {
        out.push_str("\n## What we found\n");
    }
    for part in &parts {
        write_part(&mut out, part);
    }
    for section in report.others() {
        write_section(&mut out, section, "##");
    }
    let unavailable = report.unavailable();
    if !unavailable.is_empty() {
        out.push_str("\n## What this trace cannot tell\n\n");
        for section in unavailable {
            let why = sentence_markdown(section.unavailable.as_deref().unwrap_or_default());
            let _ = writeln!(out, "- **{}**: {why}", escape_markdown(&section.title));
        }
    }
    if let Some(quality) = &report.quality {
        out.push_str("\n## Data quality\n");
        if quality.rows.is_empty() && quality.note.is_none() {
            let _ = write!(out, "\n{}\n", escape_markdown(&quality.title));
        } else {
            write_table(&mut out, quality);
        }
    }
    if !report.provenance.is_empty() {
        out.push_str("\n## Provenance\n\n");
        for (name, value) in &report.provenance {
            let _ = writeln!(out, "- {}: {}", escape_markdown(name), escape_markdown(value));
        }
    }
    out
}

/// The row of figures as a table.
fn write_figures(out: &mut String, report: &Report) {
    if report.figures.is_empty() {
        return;
    }
    out.push_str("\n| Figure | Value | Of what |\n| :--- | ---: | :--- |\n");
    for figure in report.figures.iter().take(MOST_FIGURES) {
        let (name, value) = (escape_markdown(&figure.name), escape_markdown(&figure.value));
        let _ = writeln!(out, "| {name} | **{value}** | {} |", sentence_markdown(&figure.note));
    }
}

fn write_changes(out: &mut String, changes: &Changes) {
    out.push_str("\n## What to change\n");
    if changes.cards.is_empty() {
        let _ = write!(out, "\n{}\n", sentence_markdown(&changes.nothing));
    }
    for (at, card) in changes.cards.iter().take(MOST_CARDS).enumerate() {
        write_card(out, at + 1, card);
    }
    if !changes.passed_over.is_empty() {
        out.push_str("\n<details><summary>Looked at and left alone</summary>\n\n");
        for (what, why) in &changes.passed_over {
            let _ = writeln!(out, "- {}: {}", sentence_markdown(what), sentence_markdown(why));
        }
        out.push_str("\n</details>\n");
    }
}

fn write_card(out: &mut String, number: usize, card: &Card) {
    let _ =
        write!(out, "\n### {number}. {}\n\n{}\n\n", sentence_markdown(&card.action), sentence_markdown(&card.effect));
    for (name, text) in
        [("Confidence", &card.confidence), ("Who pays", &card.cost), ("Apply", &card.apply), ("Undo", &card.undo)]
    {
        if !text.is_empty() {
            let _ = writeln!(out, "- {name}: {}", sentence_markdown(text));
        }
    }
    if let Some(command) = &card.command {
        let _ = write!(out, "\n```sh\n{}\n```\n", printable(command).replace("```", "` ` `"));
    }
    if !card.details.is_empty() {
        out.push_str("\n<details><summary>Assumptions and bounds</summary>\n\n");
        for (name, text) in &card.details {
            let _ = writeln!(out, "- {}: {}", escape_markdown(name), sentence_markdown(text));
        }
        out.push_str("\n</details>\n");
    }
}

/// A question: its sentences, then its analyses.
fn write_part(out: &mut String, part: &ReportPart<'_>) {
    let _ = write!(out, "\n### {}\n\n", part.question.words());
    for (_, sentence) in part.sentences() {
        let _ = writeln!(out, "- {}", sentence_markdown(&sentence));
    }
    for section in &part.sections {
        let _ = write!(out, "\n<details><summary>{}</summary>\n", super::markup::escape_html(&section.title));
        write_section(out, section, "####");
        out.push_str("\n</details>\n");
    }
}

fn write_section(out: &mut String, section: &Section, mark: &str) {
    let _ = write!(out, "\n{mark} {}\n", escape_markdown(&section.title));
    if !section.finding.is_empty() {
        let _ = write!(out, "\n{}\n", sentence_markdown(&section.finding));
    }
    let mut meta: Vec<String> = Vec::new();
    if let Some(hours) = section.gpu_hours.filter(|h| h.is_finite()) {
        meta.push(format!("Concerns {} GPU-hours.", format::compact(hours)));
    }
    meta.extend(
        section.coverage.as_deref().map(|c| format!("Coverage: {}.", sentence_markdown(c).trim_end_matches('.'))),
    );
    if !meta.is_empty() {
        let _ = write!(out, "\n{}\n", meta.join(" "));
    }
    for block in &section.blocks {
        match block {
            Block::Table(table) => write_table(out, table),
            Block::Chart(chart) => write_chart(out, chart),
            Block::Text(text) => {
                let _ = write!(out, "\n{}\n", sentence_markdown(text));
            }
        }
    }
    if !section.definitions.is_empty() {
        out.push_str("\nDefinitions:\n\n");
        for definition in &section.definitions {
            let _ = writeln!(out, "- {}", sentence_markdown(definition));
        }
    }
}

fn write_chart(out: &mut String, chart: &Chart) {
    let (title, id) = (escape_markdown(&chart.title), escape_markdown(&chart.id));
    let _ = write!(out, "\nChart, not shown here: {title} ({id})\n");
}

fn write_table(out: &mut String, table: &ReportTable) {
    if !table.title.is_empty() {
        let _ = write!(out, "\n**{}**\n", escape_markdown(&table.title));
    }
    if table.columns.is_empty() {
        return;
    }
    let names: Vec<String> = table.columns.iter().map(|c| escape_markdown(&c.heading())).collect();
    let rule: Vec<&str> = table.columns.iter().map(|c| if c.align == Align::Right { "---:" } else { ":---" }).collect();
    let _ = write!(out, "\n| {} |\n| {} |\n", names.join(" | "), rule.join(" | "));
    for row in 0..table.rows.len() {
        let cells: Vec<String> = (0..names.len()).map(|k| escape_markdown(&table.cell(row, k).text())).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if let Some(note) = &table.note {
        let _ = write!(out, "\n{}\n", sentence_markdown(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Cell, Column};

    #[test]
    fn tables_keep_their_shape_with_hostile_cells() {
        let mut table = ReportTable::new("Users", vec![Column::text("User"), Column::number("Jobs")]);
        table.rows.push(vec![Cell::from("a|b\n<script>"), Cell::Int(1_234)]);
        table.rows.push(vec![Cell::from("*c*")]);
        let mut report = Report::new("T", "");
        report.sections.push(Section::new("u", "Users").with_finding("**One** user.").with_table(table));
        let expected = "# T\n\n## Users\n\n**One** user.\n\n**Users**\n\n| User | Jobs |\n| :--- | ---: |\n\
                        | a\\|b &lt;script&gt; | 1,234 |\n| \\*c\\* | – |\n";
        assert_eq!(render(&report), expected);
    }
}
