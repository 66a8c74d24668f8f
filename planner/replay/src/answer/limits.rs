//! Report of the limits by QOS, account and partition that made jobs wait, under their names in
//! `squeue`.
//!
//! Worked number: see [`LimitWait`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::metric::{Cause, LimitWait, Metrics};

impl Answer {
    /// The section, a table for each replay under limits; none where there are none.
    pub(super) fn limit_section(&self) -> Option<Section> {
        let of = |metrics: &Metrics| limited_share(metrics).map(|share| (finding(share, metrics), table(metrics)));
        Some(
            self.by_replay(Section::new("limits", "Limits by QOS, account and partition"), of)?
                .with_definition("Reason: what `squeue` shows for a job that waits for this limit. A job that is over several waits for the first, tested in this order: time limit, GPUs of the job, jobs (of the QOS, its user, the accounts), GPUs of the QOS, of its user, and of the accounts. Assoc: a limit of an account, or of a user in one (account/user). RunMinutes: the limit is in GPU-minutes.")
                .with_definition("Never started: held for ever, as the job is over the limit by itself, or still waiting at the end. Their wait counts to the end of the replay.")
                .with_definition("All other waits are for nodes (Resources: capacity, quota and fragmentation in the section on causes) or behind other jobs (Priority: head of line)."),
        )
    }
}

/// Share of the GPU-hours waited that limits are the cause of; `None` without limits.
fn limited_share(metrics: &Metrics) -> Option<f64> {
    let cause = metrics.delay.all.causes.iter().find(|of| of.cause == Cause::Limit)?;
    Some(cause.gpu_wait_share.unwrap_or(0.0))
}

/// Returns the limit that was waited for most, and the share of the waiting that was for limits.
fn finding(share: f64, metrics: &Metrics) -> String {
    let Some(most) = metrics.limits.first() else { return "No job waited for a limit.".to_owned() };
    format!(
        "Of the GPU-hours that jobs waited, {} were for limits; {} of {} is what most was waited for: {} waited {} GPU-hours. Lifting it may save less, as \
         another limit may hold the same jobs: compare with a scenario that has `limits` of its own.",
        format::percent(share),
        most.reason,
        most.of,
        format::counted(most.jobs, "job", "jobs"),
        format::compact(most.gpu_wait_hours),
    )
}

fn table(metrics: &Metrics) -> ReportTable {
    let columns = vec![
        Column::text("Reason"),
        Column::text("Of"),
        Column::number("Limit"),
        Column::number("Jobs"),
        Column::number("Never started"),
        Column::with_unit("Waited", "job-hours"),
        Column::with_unit("Waited", "GPU-hours"),
        Column::number("Of all waiting"),
    ];
    let mut table = ReportTable::new("By limit", columns);
    let all = metrics.delay.all.gpu_wait_hours;
    for wait in &metrics.limits {
        table.rows.push(row(wait, all));
    }
    table
}

fn row(wait: &LimitWait, all_gpu_hours: f64) -> Vec<Cell> {
    let is_time = wait.reason.contains("Wall") || wait.reason.contains("Time");
    let limit = if is_time { Cell::Duration(wait.limit) } else { Cell::Float { value: wait.limit, digits: 0 } };
    let count = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let share = (all_gpu_hours > 0.0).then(|| wait.gpu_wait_hours / all_gpu_hours);
    vec![
        wait.reason.as_str().into(),
        wait.of.as_str().into(),
        limit,
        count(wait.jobs),
        count(wait.never_started),
        Cell::Compact(wait.wait_hours),
        Cell::Compact(wait.gpu_wait_hours),
        Cell::opt(share, Cell::Percent),
    ]
}
