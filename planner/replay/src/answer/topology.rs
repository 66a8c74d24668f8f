//! Report of topology requests: whether jobs lay in one block or rack, and how long they waited for
//! that.
//!
//! Worked number: see [`TopologyUse`].

use tracecast_analytics::report::format;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section};

use super::Answer;
use crate::metric::near::{NOTHING, SWITCHES, apart};
use crate::metric::{Metrics, TopologyUse};

impl Answer {
    /// The section, a table for each replay in which jobs ask for something.
    pub(super) fn topology_section(&self) -> Option<Section> {
        let of = |metrics: &Metrics| {
            (!metrics.topology.is_empty()).then(|| (finding(&metrics.topology), table(&metrics.topology)))
        };
        Some(
            self.by_replay(Section::new("topology", "Blocks and racks"), of)?
                .with_definition("So near: jobs on several nodes that lay in one domain when they ran last, of the level that they ask for; if they ask for none, of the narrowest.")
                .with_definition("Waited for it: GPUs were free for all pods of the job, but not near enough to each other. Too large: no domain takes the job, even with all nodes in service and empty, although all nodes together could, so it is rejected. What is larger than the cluster, or over a quota, does not count.")
                .with_definition("The wait is that of the jobs with this request that ended, whatever they waited for."),
        )
    }
}

/// Jobs as a part of others.
fn part(some: u64, all: u64) -> String {
    let share = if all > 0 { format!(" ({})", format::percent(some as f64 / all as f64)) } else { String::new() };
    format!("{} of {}{share}", format::count(some), format::count(all))
}

/// How many jobs asked, lay near and waited for it.
fn finding(uses: &[TopologyUse]) -> String {
    if let Some(all) = uses.iter().find(|of| of.request == SWITCHES) {
        let waited = match all.waited {
            0 => "None waited for that while nodes were free elsewhere.".to_owned(),
            jobs => format!(
                "{} waited {} GPU-hours although enough nodes had room, as those below no one of the widest switches did.",
                format::counted(jobs, "job", "jobs"),
                format::compact(all.gpu_wait_hours)
            ),
        };
        let rejected = match all.rejected {
            0 => String::new(),
            1 => " **One job is too large for any of the widest switches and never runs.**".to_owned(),
            jobs => {
                format!(" **{} jobs are too large for any of the widest switches and never run.**", format::count(jobs))
            }
        };
        return format!(
            "Slurm puts each job below one of the widest switches, and on leaves near each other. Of those that ran on several nodes, {} lay below one {}. {waited}{rejected}",
            part(all.in_one_domain, all.on_several_nodes),
            all.level,
        );
    }
    let asking: Vec<&TopologyUse> = uses.iter().filter(|of| of.request != NOTHING).collect();
    if let (true, Some(all)) = (asking.is_empty(), uses.first()) {
        let near = part(all.in_one_domain, all.on_several_nodes);
        return format!(
            "No job asks for a place. Of those that ran on several nodes, {near} lay in one {}, where the placement put them.",
            all.level
        );
    }
    let total = |of: fn(&TopologyUse) -> u64| asking.iter().map(|result| of(result)).sum::<u64>();
    let rejected = match total(|of| of.rejected) {
        0 => String::new(),
        1 => " **One job is too large for any domain and never runs.**".to_owned(),
        jobs => format!(" **{} jobs are too large for any domain and never run.**", format::count(jobs)),
    };
    let outside = match asking.first().map_or((0, 0), |of| of.outside) {
        (0, _) => String::new(),
        (nodes, gpus) => format!(
            " **{}: a part of that wait may be for these GPUs.**",
            apart(nodes, gpus, "no job that is placed by topology runs there")
        ),
    };
    let hours: f64 = asking.iter().map(|of| of.gpu_wait_hours).sum();
    let waited = match total(|of| of.waited) {
        0 => "None waited for that while GPUs were free elsewhere.".to_owned(),
        jobs => format!(
            "{} waited {} GPU-hours although GPUs were free for all their pods, as these were not near enough to each other{}.",
            format::counted(jobs, "job", "jobs"),
            format::compact(hours),
            if outside.is_empty() { "" } else { ", or lie in no domain" }
        ),
    };
    let outside = if total(|of| of.waited) > 0 { outside } else { String::new() };
    format!(
        "{} for a place. Of those that ran on several nodes, {} lay in one domain of the level asked for. {waited}{outside}{rejected}",
        format::counted(total(|of| of.jobs), "job asks", "jobs ask"),
        part(total(|of| of.in_one_domain), total(|of| of.on_several_nodes)),
    )
}

fn table(uses: &[TopologyUse]) -> ReportTable {
    let columns = vec![
        Column::text("Request"),
        Column::number("Jobs"),
        Column::number("On several nodes"),
        Column::text("Near"),
        Column::number("So near"),
        Column::number("Mean wait"),
        Column::number("Waited for it"),
        Column::with_unit("Waited for it", "GPU-hours"),
        Column::number("Too large"),
    ];
    let mut table = ReportTable::new("By request", columns);
    let count = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    for of in uses {
        table.rows.push(vec![
            of.request.as_str().into(),
            count(of.jobs),
            count(of.on_several_nodes),
            format!("one {}", of.level).into(),
            count(of.in_one_domain),
            Cell::opt(of.mean_wait_s, Cell::Duration),
            count(of.waited),
            Cell::Compact(of.gpu_wait_hours),
            count(of.rejected),
        ]);
    }
    table
}
