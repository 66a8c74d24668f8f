//! The report as Markdown, for pull requests and wikis: the words and tables of the HTML file; of a chart, its name.

use std::fmt::Write as _;

use super::format;
use super::markup::{escape_markdown, sentence_markdown};
use super::model::{Align, Block, Report, Section, Table};

/// Renders the report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = format!("# {}\n", escape_markdown(&report.title));
    if !report.subtitle.is_empty() {
        let _ = write!(out, "\n{}\n", escape_markdown(&report.subtitle));
    }
    if !report.summary.is_empty() {
        out.push_str("\n## Summary\n\n");
        for sentence in &report.summary {
            let _ = writeln!(out, "- {}", sentence_markdown(sentence));
        }
    }
    if !report.notes.is_empty() {
        out.push_str("\n## About this source\n\n");
        for note in &report.notes {
            let _ = writeln!(out, "- {}", escape_markdown(note));
        }
    }
    for section in report.available() {
        write_section(&mut out, section);
    }
    let unavailable = report.unavailable();
    if !unavailable.is_empty() {
        out.push_str("\n## What this trace cannot tell\n\n");
        for section in unavailable {
            let why = sentence_markdown(section.unavailable.as_deref().unwrap_or_default());
            let _ = writeln!(out, "- **{}**: {why}", heading(section));
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

/// Code and title of a section.
fn heading(section: &Section) -> String {
    match &section.code {
        Some(code) => format!("{} {}", escape_markdown(code), escape_markdown(&section.title)),
        None => escape_markdown(&section.title),
    }
}

fn write_section(out: &mut String, section: &Section) {
    let _ = write!(out, "\n## {}\n", heading(section));
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
            Block::Chart(chart) => {
                let (title, id) = (escape_markdown(&chart.title), escape_markdown(&chart.id));
                let _ = write!(out, "\nChart, not shown here: {title} ({id})\n");
            }
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

fn write_table(out: &mut String, table: &Table) {
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
        let mut table = Table::new("Users", vec![Column::text("User"), Column::number("Jobs")]);
        table.rows.push(vec![Cell::from("a|b\n<script>"), Cell::Int(1_234)]);
        table.rows.push(vec![Cell::from("*c*")]);
        let mut report = Report::new("T", "");
        report
            .sections
            .push(Section::new("u", "Users").with_code("A2").with_finding("**One** user.").with_table(table));
        let expected = "# T\n\n## A2 Users\n\n**One** user.\n\n**Users**\n\n| User | Jobs |\n| :--- | ---: |\n\
                        | a\\|b &lt;script&gt; | 1,234 |\n| \\*c\\* | – |\n";
        assert_eq!(render(&report), expected);
    }
}
