//! What one pool would do, as sections of a report. O(VCs). Worked number: 2.5 GPU-hours on average
//! over numberings from 1 to 4 read `2.5 (1 to 4)`.

use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use super::numbering::NumberedWaits;
use super::{Pooling, Waited};
use crate::replay::compare::IntervalEstimate;

/// VCs that the table shows.
const SHOWN: usize = 20;
/// Identifier of the section, and field of the JSON form.
const ID: &str = "pooling";
/// Heading of the section.
const TITLE: &str = "What one pool would do to the same jobs";

/// A figure, or its mean and range over the numberings where there are any.
fn ranged(value: f64, over: Option<&IntervalEstimate>, written: fn(f64) -> String) -> String {
    match over {
        Some(over) => format!("**{}** ({} to {})", written(over.value), written(over.low), written(over.high)),
        None => format!("**{}**", written(value)),
    }
}

/// Waits and losses of jobs, in words.
fn in_words(waited: &Waited, over: Option<&NumberedWaits>) -> String {
    let lost = match waited.lost_gpu_hours {
        Some(lost) if lost > 0.0 || over.is_some() => format!(
            " and lose {} to failures of nodes",
            ranged(lost, over.map(|over| &over.lost_gpu_hours), format::compact)
        ),
        _ => String::new(),
    };
    format!(
        "wait {} GPU-hours in the queue{lost} (mean wait {})",
        ranged(waited.gpu_hours, over.map(|over| &over.gpu_hours), format::compact),
        ranged(waited.wait_s.mean_s, over.map(|over| &over.mean_wait_s), format::duration).replace("**", "")
    )
}

impl Pooling {
    /// The first sentences: what jobs wait and lose apart and on one pool.
    pub fn sentence(&self) -> String {
        let Some(first) = self.replays.first() else { return String::new() };
        let over = self.numberings.as_ref();
        let drawn = over.map_or_else(String::new, |over| {
            format!(
                " Figures are means and ranges over {} numberings of the nodes, as which of several equal ones fail is chance; the table is of the numbering of the trace.",
                format::count(over.drawn)
            )
        });
        format!(
            "Replayed, the same {} GPU jobs {} on their VCs as they stand; on one pool of the same {} nodes they {}.{drawn}",
            format::count(self.jobs),
            in_words(&first.apart, over.map(|over| &over.apart)),
            format::count(self.nodes),
            in_words(&first.pooled, over.map(|over| &over.pooled)),
        )
    }

    /// The section of a report.
    pub fn section(&self) -> Section {
        let mut table = ReportTable::new(
            format!("{} GPU jobs, {} GPUs", format::count(self.jobs), format::count(self.gpus)),
            vec![
                Column::text("Replay"),
                Column::text("On"),
                Column::with_unit("In the queue", "GPU-hours"),
                Column::with_unit("Lost", "GPU-hours"),
                Column::number("Mean wait"),
                Column::number("Median"),
                Column::number("95 %"),
                Column::number("99 %"),
            ],
        );
        let mut row = |policy: &str, on: &str, waited: &Waited| {
            table.rows.push(vec![
                policy.into(),
                on.into(),
                Cell::Float { value: waited.gpu_hours, digits: 0 },
                Cell::opt(waited.lost_gpu_hours, |value| Cell::Float { value, digits: 0 }),
                Cell::Duration(waited.wait_s.mean_s),
                Cell::Duration(waited.wait_s.median_s),
                Cell::Duration(waited.wait_s.p95_s),
                Cell::Duration(waited.wait_s.p99_s),
            ]);
        };
        row("none: as recorded", "VCs as they stand", &self.recorded);
        for pair in &self.replays {
            row(&pair.policy, "VCs as they stand", &pair.apart);
            row(&pair.policy, "one pool", &pair.pooled);
        }
        let mut section = Section::new(ID, TITLE)
            .with_finding(format!(
                "{} Both replays are {}. {}",
                self.sentence(),
                self.replays.first().map_or("", |pair| pair.policy.as_str()),
                self.fidelity.sentence()
            ))
            .with_gpu_hours(Some(self.recorded.gpu_hours))
            .with_table(table);
        if self.numberings.is_some() {
            let what = "This table, and that by VC, are of the nodes as the trace numbers them: one numbering of many.";
            section = section.with_text(what);
        }
        if self.by_vc.len() > 1 {
            section = section.with_table(self.vc_table());
        }
        section
            .with_definition(
                "Replayed are the GPU jobs that ended, submitted as they were, on the trace's own nodes: once each VC on its own, \
                 once all VCs on one pool of the same nodes, in one queue. First come, first served; *strict* stops at the \
                 first job that does not fit, *skip* passes over it. First stands the one that comes nearer to the recorded \
                 GPU-hours in the queue until the first start, on the VCs as they stand.",
            )
            .with_definition(
                "In the queue: all the time in which a job held no GPUs, also after a failure. Lost: what it held beyond its run, \
                 as failing nodes undid it. Wait: both together, from submission to end less the run. The record does not say \
                 what was lost, and its waits are until the first start.",
            )
            .with_definition(
                "The pool knows no owners, quotas or promises, and jobs may run on any of its nodes with the GPU type they must \
                 have. Users are taken to submit what they did, whatever they wait.",
            )
            .with_coverage(self.coverage())
    }

    /// What queueing theory says, as a section of a report.
    pub fn theory_section(&self) -> Option<Section> {
        let theory = self.theory.as_ref()?;
        let policy = self.replays.first().map_or("", |pair| pair.policy.as_str());
        let section = theory.section("queueing-theory", "the jobs");
        let finding = theory.warning("the jobs").unwrap_or_else(|| section.finding.clone());
        let coverage = format!("The GPU jobs that are replayed on one pool; the replays are {policy}.");
        Some(Section { finding, ..section }.with_coverage(coverage))
    }

    /// The section of a report on a trace that does not allow it.
    pub fn unavailable(reason: &str) -> Section {
        Section::not_available(ID, TITLE, reason)
    }

    fn coverage(&self) -> String {
        let mut text = format!(
            "{} in {} on {}.",
            format::counted(self.jobs, "GPU job", "GPU jobs"),
            format::counted(self.vcs, "VC", "VCs"),
            format::counted(self.nodes, "node with GPUs", "nodes with GPUs")
        );
        if self.not_replayed + self.not_compared > 0 {
            text.push_str(&format!(
                " {} could not be replayed, and {} replayed have no recorded start or never end in one of the replays.",
                format::counted(self.not_replayed, "further GPU job", "further GPU jobs"),
                format::count(self.not_compared)
            ));
        }
        for note in &self.notes {
            text.push(' ');
            text.push_str(note);
        }
        text
    }

    fn vc_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "By VC, under the first of the replays",
            vec![
                Column::text("VC"),
                Column::number("Jobs"),
                Column::with_unit("In the queue on its own nodes", "GPU-hours"),
                Column::with_unit("On one pool", "GPU-hours"),
                Column::number("Mean wait on its own nodes"),
                Column::number("On one pool"),
            ],
        );
        for vc in self.by_vc.iter().take(SHOWN) {
            table.rows.push(vec![
                vc.vc.as_str().into(),
                Cell::Int(i64::try_from(vc.jobs).unwrap_or(i64::MAX)),
                Cell::Float { value: vc.apart_gpu_hours, digits: 0 },
                Cell::Float { value: vc.pooled_gpu_hours, digits: 0 },
                Cell::Duration(vc.apart_mean_wait_s),
                Cell::Duration(vc.pooled_mean_wait_s),
            ]);
        }
        if self.by_vc.len() > SHOWN {
            table.note = Some(format!("{} more VCs wait less; the JSON form lists all.", self.by_vc.len() - SHOWN));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let over = IntervalEstimate { value: 2.5, low: 1.0, high: 4.0 };
        assert_eq!(ranged(9.0, Some(&over), format::compact), "**2.5** (1 to 4)");
        assert_eq!(ranged(9.0, None, format::compact), "**9**");
    }
}
