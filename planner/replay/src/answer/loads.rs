//! Report of offered loads: who asks for more than any order can give.
//!
//! O(VCs). Worked number: see [`OfferedLoads`].

use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use super::Answer;
use crate::metric::{Metrics, OfferedLoads, VcLoad};

/// VCs that a sentence names.
const LISTED: usize = 5;

/// VCs with their loads, the first few by name.
pub(crate) fn named<'a>(over: impl Iterator<Item = &'a VcLoad>) -> Option<String> {
    let of = |vc: &VcLoad| {
        vc.load_at_most.map_or_else(|| vc.vc.clone(), |load| format!("{} ({})", vc.vc, format::float(load, 2)))
    };
    let all: Vec<String> = over.map(of).collect();
    (!all.is_empty()).then(|| format::names(&all, LISTED))
}

impl Answer {
    /// Returns sentences on the VCs that ask for more than any order can give, if there are some.
    pub(super) fn overload_sentences(&self) -> Vec<String> {
        let Some(offered) = &self.metrics.offered else { return Vec::new() };
        let all = offered.load.filter(|_| offered.over_capacity).map(|load| {
            format!(
                "**The jobs ask for {} times the GPU time that there is while they come**, if each run counts whole. If jobs went on to come so, no order and no way to share the nodes would keep up; fewer jobs or more nodes would.",
                format::float(load, 2)
            )
        });
        // One VC alone is the whole cluster.
        let single = (offered.by_vc.iter().filter(|of| of.asked_gpu_hours > 0.0).count() < 2).then_some(());
        let some = named(offered.over_capacity()).filter(|_| single.is_none()).map(|vcs| {
            format!(
                "**More than they may ever use** is asked for by these VCs (times as much): {vcs}. No order of their jobs catches up; other quotas or shared nodes could{}.",
                if offered.over_capacity { ", were there enough in all" } else { "" }
            )
        });
        all.into_iter().chain(some).collect()
    }

    /// Returns the section on the offered load of each VC, under each replay.
    pub(super) fn load_section(&self) -> Option<Section> {
        let section = self.by_replay(Section::new("loads", "Offered load"), |metrics: &Metrics| {
            let offered = metrics.offered.as_ref().filter(|of| of.by_vc.len() > 1)?;
            Some((finding(offered), table(offered)))
        })?;
        Some(
            section
                .with_definition("Offered load: the GPU time that jobs ask for, over the GPU time of the VC's own nodes, guarantee or quota from the first to the last submission, or for as long as the longest run if that is more; over the most it may use where nothing is its own. Jobs that could never run are left out.")
                .with_definition("The most: all nodes of its pool, at most its quota, or what it may ever borrow in its cohort. Above 1 of that, no order of jobs catches up as long as jobs come so."),
        )
    }
}

fn finding(offered: &OfferedLoads) -> String {
    let all = offered.load.map_or_else(String::new, |load| {
        format!("All VCs together ask for {} times the GPU time that there is. ", format::float(load, 2))
    });
    let over = named(offered.over_capacity()).map_or_else(
        || "No VC asks for more than it may use.".to_owned(),
        |vcs| format!("More than they may ever use is asked for by {vcs}."),
    );
    all + &over
}

fn table(offered: &OfferedLoads) -> ReportTable {
    let mut table = ReportTable::new(
        "What each VC asks for",
        vec![
            Column::text("VC"),
            Column::with_unit("Asked for", "GPU-hours"),
            Column::number("Own GPUs, mean"),
            Column::number("Most GPUs, mean"),
            Column::number("Offered load"),
            Column::number("Of the most"),
        ],
    );
    let float = |value: f64, digits: usize| Cell::Float { value, digits };
    let load = |load: Option<f64>| Cell::opt(load, |load| float(load, 2));
    for of in &offered.by_vc {
        table.rows.push(vec![
            of.vc.as_str().into(),
            Cell::Compact(of.asked_gpu_hours),
            Cell::opt(of.own_gpus, |gpus| float(gpus, 1)),
            float(of.most_gpus, 1),
            load(of.load),
            load(of.load_at_most),
        ]);
    }
    let all = load(offered.load);
    table.rows.push(vec![
        "all".into(),
        Cell::Compact(offered.asked_gpu_hours),
        float(offered.gpus, 1),
        float(offered.gpus, 1),
        all.clone(),
        all,
    ]);
    table
}
