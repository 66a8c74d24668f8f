//! What queues did with their quotas, told to people: who borrowed, who was owed GPUs of its own, whose jobs were stopped.
//!
//! Under Kueue's admission only. Worked number: see [`QuotaUse`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::replay::metric::{Metrics, QuotaUse};

impl Answer {
    /// The section, a table for each replay with quotas.
    pub(super) fn quota_section(&self) -> Option<Section> {
        let of = |metrics: &Metrics| {
            (!metrics.quotas.is_empty()).then(|| (finding(&metrics.quotas), table(&metrics.quotas)))
        };
        Some(
            self.by_replay(Section::new("quotas", "Quotas"), of)?
                .with_definition("GPUs are means over the time of the replay. Borrowed: held beyond the queue's own quota. Idle: its own, not used by its jobs; others may have had it.")
                .with_definition("Owed: what waiting jobs asked for although it was idle of the queue's own quota. A queue that is owed GPUs waits for what others have borrowed, or for nodes.")
                .with_definition("Stopped: jobs of the queue that others preempted, counted each time."),
        )
    }
}

/// Who borrowed most, and who was owed most.
fn finding(quotas: &[QuotaUse]) -> String {
    let most = |of: fn(&QuotaUse) -> f64| {
        quotas
            .iter()
            .max_by(|a, b| of(a).total_cmp(&of(b)))
            .filter(|queue| of(queue) >= 0.05)
            .map(|queue| (queue, of(queue)))
    };
    let borrowed = most(|queue| queue.borrowed_gpus).map_or_else(
        || "No queue borrowed.".to_owned(),
        |(queue, gpus)| {
            format!(
                "{} borrowed most: {} GPUs on average beyond its {}.",
                queue.name,
                format::float(gpus, 1),
                format::float(queue.nominal_gpus, 0)
            )
        },
    );
    let owed = most(|queue| queue.owed_gpus).map_or_else(
        || " No queue waited for what was its own.".to_owned(),
        |(queue, gpus)| {
            format!(
                " {} waited for {} GPUs on average that were idle of its own quota.",
                queue.name,
                format::float(gpus, 1)
            )
        },
    );
    borrowed + &owed
}

fn table(quotas: &[QuotaUse]) -> ReportTable {
    let columns = ["Own quota", "Used", "Borrowed", "Idle", "Owed"].map(Column::number);
    let columns = [Column::text("Queue")].into_iter().chain(columns).chain([Column::number("Stopped")]).collect();
    let mut table = ReportTable::new("By queue", columns);
    for queue in quotas {
        let gpus = [queue.nominal_gpus, queue.used_gpus, queue.borrowed_gpus, queue.idle_gpus, queue.owed_gpus];
        let cells = gpus.map(|value| Cell::Float { value, digits: 1 });
        let stopped = Cell::Int(i64::try_from(queue.stopped).unwrap_or(i64::MAX));
        table.rows.push([queue.name.as_str().into()].into_iter().chain(cells).chain([stopped]).collect());
    }
    table
}
