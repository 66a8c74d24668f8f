//! The words of a report on jobs that do not compete for GPUs.
//!
//! Sections are written for GPUs; on a log of processors or nodes, headings, findings and definitions name those instead. What the
//! source calls a thing (names of VCs, users and policies) is left as it is, and so are cells but for measures. O(words). Worked
//! number: "12 GPU-hours" becomes "12 processor-hours".

use tracecast_analytics::report::{Block, Cell, Report};
use tracecast_analytics::schema::Resource;

/// Names `resource` where `report` says GPU.
pub(super) fn name(report: &mut Report, resource: Resource) {
    if resource == Resource::Gpus {
        return;
    }
    let reword = |text: &mut String| {
        if text.contains("GPU") {
            let begins = text.starts_with("GPU");
            *text = text.replace("GPUs", resource.many()).replace("GPU", resource.one());
            if begins && let Some(first) = text.get_mut(..1) {
                first.make_ascii_uppercase();
            }
        }
    };
    report.summary.iter_mut().for_each(reword);
    for section in &mut report.sections {
        reword(&mut section.title);
        reword(&mut section.finding);
        section.definitions.iter_mut().for_each(reword);
        for block in &mut section.blocks {
            match block {
                Block::Text(text) => reword(text),
                Block::Chart(chart) => {
                    [&mut chart.title, &mut chart.reading, &mut chart.y.label].into_iter().for_each(reword);
                }
                Block::Table(table) => {
                    reword(&mut table.title);
                    table.columns.iter_mut().for_each(|column| {
                        reword(&mut column.name);
                        column.unit.iter_mut().for_each(reword);
                    });
                    // Measures and sizes stand in the first column; what the source named stands there under another heading.
                    let ours =
                        table.columns.first().is_some_and(|column| ["Measure", "Size"].contains(&column.name.as_str()));
                    for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()).filter(|_| ours) {
                        if let Cell::Text(text) = cell {
                            reword(text);
                        }
                    }
                }
            }
        }
    }
}
