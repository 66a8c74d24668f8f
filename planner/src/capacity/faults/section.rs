//! The section on failures and spares.
//!
//! O(sizes). Worked example: eight spares, enough in 98.7 % of the later time, are told as "8 (98.7 %)".

use tracecast_analytics::report::{Axis, Cell, Chart, ChartSeries, Mark, Question, Section, format};

use super::{FaultsAnswer, Spares};
use crate::plan::tell;

impl FaultsAnswer {
    /// What the log says, as a section.
    pub fn section(&self) -> Section {
        let mut spares = tell::table(
            format!("Spares for {} of the time", format::percent(self.availability)),
            "For | #Nodes | #Learnt | #Enough later | #If failures were independent | #Enough later | #Fewest, with hindsight | #From now on",
        );
        for (name, of) in [("the log's nodes", self.of_log), ("the cluster", self.of_cluster)] {
            spares.rows.push(row(name, &of));
        }
        let mut checkpoints = tell::table(
            format!(
                "Checkpoints by job size: {} for a checkpoint, {} for a restart",
                format::duration(self.checkpoint_s),
                format::duration(self.restart_s)
            ),
            "#Nodes | #Between failures | #Young | #Daly | #Goodput: Daly's model | #Later: Young | #Daly | #Every hour | #Best | #Best interval",
        );
        for of in &self.checkpoints {
            checkpoints.rows.push(vec![
                Cell::Int(i64::from(of.nodes)),
                Cell::Duration(of.mtbf_h * 3600.0),
                Cell::Duration(of.young_s),
                Cell::Duration(of.daly_s),
                Cell::Percent(of.model_goodput),
                Cell::Percent(of.young_goodput),
                Cell::Percent(of.daly_goodput),
                Cell::Percent(of.hourly_goodput),
                Cell::Percent(of.best_goodput),
                Cell::Duration(of.best_s),
            ]);
        }
        let mut below = 0.0;
        let points = self.down_at_once.iter().enumerate().map(|(down, share)| {
            below += share;
            (down as f64, below.min(1.0))
        });
        let chart = Chart::xy(
            "faults-at-once",
            "Nodes down at once",
            Axis::linear("Nodes down"),
            Axis::share("Share of the time with at most so many"),
            vec![ChartSeries::new("the log's nodes", Mark::Step, points.collect())],
        )
        .with_reading("Where the line meets the availability asked for, there are enough spares.");
        Section::new("nodes-faults", "Failures and spares")
            .answering(Question::Fail)
            .with_finding(self.sentence())
            .with_table(spares)
            .with_chart(chart)
            .with_table(checkpoints)
            .with_definition("**Learnt** on the first two thirds of the log, **later** is the last third. The cluster's nodes are taken to be drawn from those of the log at each moment.")
            .with_definition("**Goodput**: useful time over all time, for a job that goes on from its last checkpoint after each failure of a node; later values are means over 64 draws of nodes.")
            .with_coverage(format!(
                "{} over {} days; {} of them failed. A failure is a stretch in which a node is down; the variance of failures of a node is {} times their mean (1 if all were alike).",
                format::counted(u64::from(self.nodes), "node", "nodes"),
                format::float(self.days, 0),
                format::count(u64::from(self.failed_nodes)),
                format::float(self.between.dispersion, 1)
            ))
    }

    /// Whether the naive rule did with fewer.
    fn naive(&self) -> &'static str {
        let of = &self.of_cluster;
        if of.independent < of.spares && of.independent_held >= self.availability {
            " So the naive rule kept the availability with fewer spares on that part."
        } else {
            ""
        }
    }

    /// What matters most.
    pub fn sentence(&self) -> String {
        let (between, of) = (&self.between, &self.of_cluster);
        format!(
            "Hold **{}** in reserve for {} nodes; the {} learnt on the earlier part were enough in {} of the later time, where {} was asked, and the {} of the naive rule (failures independent) in \
             {}; {} would have been enough there.{} A node fails every {} ({} to {}) and is down for {} on average.",
            format::counted(u64::from(of.from_now_on), "node", "nodes"),
            format::count(u64::from(of.nodes)),
            of.spares,
            format::percent(of.held),
            format::percent(self.availability),
            of.independent,
            format::percent(of.independent_held),
            of.oracle,
            self.naive(),
            format::duration(between.mean_h * 3600.0),
            format::duration(between.low_h * 3600.0),
            format::duration(between.high_h * 3600.0),
            format::duration(between.mean_down_h * 3600.0)
        )
    }
}

fn row(name: &str, of: &Spares) -> Vec<Cell> {
    vec![
        name.into(),
        Cell::Int(i64::from(of.nodes)),
        Cell::Int(i64::from(of.spares)),
        Cell::Percent(of.held),
        Cell::Int(i64::from(of.independent)),
        Cell::Percent(of.independent_held),
        Cell::Int(i64::from(of.oracle)),
        Cell::Int(i64::from(of.from_now_on)),
    ]
}
