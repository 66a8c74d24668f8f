//! Which jobs could never run, and why, told to people.
//!
//! Worked number: see [`rejection`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::replay::metric::{Rejection, rejection};

impl Answer {
    /// What the first replay rejects, and whether the others reject the same.
    fn rejects_alike(&self) -> (&[Rejection], bool) {
        let first = self.metrics.rejections.as_slice();
        (first, self.others.iter().all(|replay| replay.metrics.rejections == first))
    }

    /// How many jobs could never run, why, and one of each; `None` if all could. Of several replays the first that rejects any is told, with its name where they differ.
    pub(super) fn rejected_sentence(&self) -> Option<String> {
        let (first, alike) = self.rejects_alike();
        let others = self.others.iter().map(|replay| (replay.name.as_str(), replay.metrics.rejections.as_slice()));
        let mut replays = std::iter::once((self.name.as_str(), first)).chain(others);
        let (name, first) = replays.find(|(_, rejections)| !rejections.is_empty())?;
        let jobs: u64 = first.iter().map(|rejection| rejection.jobs).sum();
        let under = if alike { String::new() } else { format!(" under {name}") };
        (jobs > 0).then(|| {
            format!(
                "{} could never run where submitted{under}: {}.",
                format::counted(jobs, "job", "jobs"),
                rejection::in_words(first)
            )
        })
    }

    /// The same as a table, with a row for each replay and cause where replays differ; none if every job could run.
    pub(super) fn rejected_section(&self) -> Option<Section> {
        let (first, alike) = self.rejects_alike();
        let replays: Vec<(Option<&str>, &[Rejection])> = if alike {
            vec![(None, first)]
        } else {
            let others = self.others.iter().map(|replay| (replay.name.as_str(), replay.metrics.rejections.as_slice()));
            std::iter::once((self.name.as_str(), first)).chain(others).map(|(name, of)| (Some(name), of)).collect()
        };
        let mut columns = vec![Column::text("What they ask for"), Column::number("Jobs"), Column::text("Such as")];
        if !alike {
            columns.insert(0, Column::text("Policy"));
        }
        let mut table = ReportTable::new("Jobs that could never run", columns);
        for (name, rejections) in replays {
            table.rows.extend(rejections.iter().map(|of| {
                let mut does = of.cause.in_words(of.jobs);
                if let Some(first) = does.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                let row = [does.into(), Cell::Int(of.jobs as i64), of.example.as_str().into()];
                name.into_iter().map(Cell::from).chain(row).collect()
            }));
        }
        let finding = self.rejected_sentence().unwrap_or_else(|| format!("Under {} every job could run.", self.name));
        (!table.rows.is_empty()).then(|| {
            Section::new("rejected", "Jobs that could never run").with_finding(finding).with_table(table).with_definition(
                "A job is rejected where all nodes there ever are, empty, could not run it. Told is the first cause that holds: GPU type, GPUs, limit, quota of the VC, nodes, processors, memory, blocks and racks, queues, placement.",
            )
        })
    }
}
