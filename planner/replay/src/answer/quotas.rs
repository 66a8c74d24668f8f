//! Report of queues and their quotas: who borrowed, who was owed GPUs of its own, who starved or
//! was overused, whose jobs were stopped.
//!
//! Under Kueue's admission, and KAI's and Volcano's queues only. Worked number: see [`QuotaUse`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::metric::{GroupFigures, Metrics, QuotaUse};

/// Queues without jobs that are named.
const LISTED: usize = 5;

impl Answer {
    /// The section, a table for each replay with quotas.
    pub(super) fn quota_section(&self) -> Option<Section> {
        let of = |metrics: &Metrics| {
            (!metrics.quotas.is_empty()).then(|| (finding(&metrics.quotas) + &unused(metrics), table(metrics)))
        };
        let section = self
            .by_replay(Section::new("quotas", "Quotas"), of)?
                .with_definition("GPUs are means over the time of the replay. Borrowed: held beyond the queue's own quota. Idle: its own, not used by its jobs; others may have had it.")
                .with_definition("Owed: what waiting jobs asked for although it was idle of the queue's own quota. A queue that is owed GPUs waits for what others have borrowed, or for nodes.")
                .with_definition("Stopped: jobs of the queue that others preempted, counted each time.");
        let any = |such: fn(&QuotaUse) -> bool| {
            let has = |metrics: &Metrics| metrics.quotas.iter().any(such);
            has(&self.metrics) || self.others.iter().any(|other| has(&other.metrics))
        };
        let mut section = section;
        if any(is_kais) {
            section = section
                .with_definition("Fair share: what KAI would give the queue of what runs and waits. Short: what waiting jobs asked for of what the queue did not have of it. A queue that is short starves; one that borrows can be reclaimed from.");
        }
        if any(is_volcanos) {
            section = section
                .with_definition("Own quota, under Volcano: the part of its weight in all weights (plugin proportion), or what the queue deserves (plugin capacity). Deserved: what it deserves of what runs and waits. Short: what waiting jobs asked for of what the queue did not have of it. A queue that is short starves.")
                .with_definition("Overused: the part of the time in which the queue held more than it deserved, so that others could reclaim from it.");
        }
        Some(section)
    }
}

/// Whether a queue is one of KAI's.
fn is_kais(queue: &QuotaUse) -> bool {
    queue.fair_gpus.is_some() && queue.overused_ratio.is_none()
}

/// Whether a queue is one of Volcano's.
fn is_volcanos(queue: &QuotaUse) -> bool {
    queue.overused_ratio.is_some()
}

/// Returns the queues that borrowed most, were owed most, and whose share fell shortest.
fn finding(quotas: &[QuotaUse]) -> String {
    let most = |of: fn(&QuotaUse) -> f64| {
        quotas
            .iter()
            .filter(|queue| !queue.above)
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
    let starved = most(|queue| queue.short_gpus.unwrap_or(0.0)).map_or_else(String::new, |(queue, gpus)| {
        format!(
            " {} starved most: {} GPUs on average of {} were not there for its waiting jobs.",
            queue.name,
            format::float(gpus, 1),
            if is_volcanos(queue) { "what it deserved" } else { "its fair share" }
        )
    });
    let overused = most(|queue| queue.overused_ratio.unwrap_or(0.0)).map_or_else(String::new, |(queue, ratio)| {
        format!(
            " {} was overused most: {} of the time it held more than it deserved.",
            queue.name,
            format::percent(ratio)
        )
    });
    borrowed + &owed + &starved + &overused
}

/// The waits of a queue's own jobs; nothing if it has none.
fn jobs_of<'m>(queue: &QuotaUse, metrics: &'m Metrics) -> Option<&'m GroupFigures> {
    metrics.by_vc.iter().find(|vc| !queue.above && vc.name == queue.name).map(|vc| &vc.group)
}

/// The queues that have a quota and no job, as what is idle of theirs says nothing of their users.
fn unused(metrics: &Metrics) -> String {
    let without: Vec<String> = metrics
        .quotas
        .iter()
        .filter(|queue| !queue.above && queue.nominal_gpus > 0.0 && jobs_of(queue, metrics).is_none())
        .map(|queue| {
            let gpus = queue.nominal_gpus;
            let digits = usize::from(gpus.fract() != 0.0);
            let many = if gpus == 1.0 { "GPU" } else { "GPUs" };
            format!("{} ({} {many})", queue.name, format::float(gpus, digits))
        })
        .collect();
    if without.is_empty() {
        return String::new();
    }
    let listed = format::names(&without, LISTED);
    format!(" No job that is replayed is of {listed}: all of that counts as idle, and others may have it.")
}

fn table(metrics: &Metrics) -> ReportTable {
    let quotas = &metrics.quotas;
    let is_fair = quotas.iter().any(|queue| queue.fair_gpus.is_some());
    let is_volcanos = quotas.iter().any(is_volcanos);
    let names = ["Own quota", "Used", "Borrowed", "Idle", "Owed"].into_iter();
    let share = if is_volcanos { "Deserved" } else { "Fair share" };
    let shares = [share, "Short"].into_iter().filter(|_| is_fair);
    let over = ["Overused"].into_iter().filter(|_| is_volcanos);
    let numbers = ["Jobs", "Mean wait"].into_iter().chain(names);
    let columns = numbers.chain(shares).chain(over).chain(["Stopped"]).map(Column::number);
    let columns = [Column::text("Queue")].into_iter().chain(columns).collect();
    let mut table = ReportTable::new("By queue", columns);
    for queue in quotas {
        let gpus = [queue.nominal_gpus, queue.used_gpus, queue.borrowed_gpus, queue.idle_gpus, queue.owed_gpus];
        let shares = [queue.fair_gpus, queue.short_gpus].into_iter().filter(|_| is_fair).map(Option::unwrap_or_default);
        let cells = gpus.into_iter().chain(shares).map(|value| Cell::Float { value, digits: 1 });
        let over = queue.overused_ratio.filter(|_| is_volcanos).map(Cell::share);
        let group = jobs_of(queue, metrics);
        let count = |jobs: u64| Cell::Int(i64::try_from(jobs).unwrap_or(i64::MAX));
        let jobs = if queue.above { Cell::Missing } else { count(group.map_or(0, |group| group.jobs)) };
        let wait = Cell::opt(group.and_then(|group| group.wait), |wait| Cell::Duration(wait.mean_s));
        let own = [queue.name.as_str().into(), jobs, wait];
        table.rows.push(own.into_iter().chain(cells).chain(over).chain([count(queue.stopped)]).collect());
    }
    table
}
