//! The answer of `why` as a report: the cause, who stands before the job, and what would start it sooner.
//!
//! O(rows). Worked example: a cause that is proven is followed by a sentence that says so.

use tracecast_analytics::report::{Cell, Report, Section, format};

use super::{CauseKind, WhyAnswer};
use crate::plan::tell;

impl WhyAnswer {
    /// The report.
    pub fn report(&self) -> Report {
        let gpus = format::counted(u64::from(self.gpus), "GPU", "GPUs");
        let mut report = Report::new(
            format!("Why does job {} wait?", self.job),
            format!("{gpus} in partition {}, as of {}", self.partition, self.now),
        );
        report.notes.clone_from(&self.notes);
        if let Some(since) = &self.running_since {
            report.summary.push(format!("**It runs since {since}.**"));
        }
        let Some(cause) = &self.cause else { return report };
        let has_proof = cause.proven && cause.kind != CauseKind::TooLarge;
        let proof =
            if has_proof { " Replayed without that it starts now, and without anything else it does not." } else { "" };
        report.summary.push(format!("**{}: {}**{proof}", format::capitalised(cause.kind.in_words()), cause.text));
        if let Some(start) = &self.start.p50 {
            let late = self.start.p90.as_deref().unwrap_or("never, in some draws");
            report.summary.push(format!("It starts most likely by {start}, with a chance of 90 % by {late}."));
        }
        let is_blocked = !matches!(cause.kind, CauseKind::Nothing | CauseKind::TooLarge) && self.start.p10.is_none();
        if is_blocked {
            report.summary.push("As things are it does not start.".to_owned());
        }
        if let Some(best) = self.sooner.first() {
            report.summary.push(format!(
                "Soonest: {}, and it starts most likely by {}; {} later then.",
                best.change,
                best.start.p50.as_deref().unwrap_or("then"),
                format::counted(best.harmed.jobs as u64, "other starts", "others start")
            ));
        }
        let mut ahead = tell::table(
            format!("{} before it", format::counted(self.ahead_jobs as u64, "job", "jobs")),
            "Job | User | #GPUs | #Tasks | Now | Until",
        );
        for of in &self.ahead {
            let (phase, until) = if of.runs { ("runs", "its limit, ") } else { ("waits", "its start, ") };
            ahead.rows.push(vec![
                of.job.as_str().into(),
                of.user.as_deref().unwrap_or("").into(),
                Cell::opt(of.gpus, |gpus| Cell::float(gpus, 0)),
                Cell::Int(of.tasks.into()),
                phase.into(),
                of.until.as_ref().map_or_else(String::new, |at| format!("{until}{at}")).into(),
            ]);
        }
        if !ahead.rows.is_empty() {
            report.sections.push(Section::new("ahead", "Who stands before it").with_table(ahead));
        }
        let mut sooner = tell::table(
            "Changes, replayed one by one".to_owned(),
            "Change | Start, median | 90 % | #Sooner | #Others later | #By, in all | First of them",
        );
        for of in &self.sooner {
            sooner.rows.push(vec![
                of.change.as_str().into(),
                of.start.p50.clone().unwrap_or_default().into(),
                of.start.p90.clone().unwrap_or_default().into(),
                Cell::opt(of.sooner_s, Cell::Duration),
                Cell::Int(of.harmed.jobs as i64),
                Cell::Duration(of.harmed.later_s),
                of.harmed.first.join(", ").into(),
            ]);
        }
        if !sooner.rows.is_empty() {
            report.sections.push(Section::new("sooner", "What would start it sooner").with_table(sooner));
        }
        report
    }
}
