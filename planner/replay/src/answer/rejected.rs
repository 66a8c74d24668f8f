//! Report of the jobs that could never run, and why.
//!
//! Worked number: see [`rejection`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::metric::rejection;

impl Answer {
    /// Whether all replays reject the same jobs for the same causes.
    fn rejects_alike(&self) -> bool {
        self.others.iter().all(|replay| replay.metrics.rejections == self.metrics.rejections)
    }

    /// How many jobs could never run, why, and one of each; `None` if all could. Of several replays the first that rejects any is told, with its name where they differ.
    pub(super) fn rejected_sentence(&self) -> Option<String> {
        let first = self.replays().into_iter().find(|replay| !replay.metrics.rejections.is_empty())?;
        let rejections = &first.metrics.rejections;
        let jobs: u64 = rejections.iter().map(|rejection| rejection.jobs).sum();
        let under = if self.rejects_alike() { String::new() } else { format!(" under {}", first.name) };
        Some(format!(
            "{} could never run where submitted{under}: {}.",
            format::counted(jobs, "job", "jobs"),
            rejection::in_words(rejections)
        ))
    }

    /// Returns the rejected jobs as a table, with a row for each replay and cause where replays
    /// differ; none if every job could run.
    pub(super) fn rejected_section(&self) -> Option<Section> {
        let alike = self.rejects_alike();
        let finding = self.rejected_sentence()?;
        let mut columns = vec![Column::text("What they ask for"), Column::number("Jobs"), Column::text("Such as")];
        if !alike {
            columns.insert(0, Column::text("Policy"));
        }
        let mut table = ReportTable::new("Jobs that could never run", columns);
        for replay in self.replays().into_iter().take(if alike { 1 } else { usize::MAX }) {
            let name = (!alike).then_some(replay.name);
            table.rows.extend(replay.metrics.rejections.iter().map(|of| {
                let mut does = of.cause.in_words(of.jobs);
                if let Some(first) = does.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                let row = [does.into(), Cell::Int(of.jobs as i64), of.example.as_str().into()];
                name.into_iter().map(Cell::from).chain(row).collect()
            }));
        }
        Some(
            Section::new("rejected", "Jobs that could never run").with_finding(finding).with_table(table).with_definition(
                "A job is rejected where all nodes there ever are, empty, could not run it. Told is the first cause that holds: GPU type, GPUs, limit, quota of the VC, nodes, processors, memory, blocks and racks, queues, placement.",
            ),
        )
    }
}
