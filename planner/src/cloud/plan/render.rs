//! The answer of `plan cloud` as a report.
//!
//! O(candidates + cases). Worked example: where nobody said what on-demand costs, the sentence after the headline says from which price ratio on spot is advised.

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::answer::on_instances;
use super::super::checkpoint::CheckpointAdvice;
use super::super::policy::CloudPolicy;
use super::super::sensitivity;
use super::super::uncertain::UncertainWork;
use super::CloudPlanAnswer;
use crate::cloud::plan::now::ElasticNow;
use crate::cloud::zones::choice::ZonesCompared;
use crate::cloud::zones::plan::{PlannedZone, ZonesNow};

impl CloudPlanAnswer {
    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("How to run a job with a deadline: {}", self.title),
            format!(
                "{} of work{} in {}; {}",
                self.work_in_words(),
                on_instances(self.need, self.elastic),
                format::duration(self.deadline_s),
                self.prices
            ),
        );
        report.summary = vec![self.action.clone()];
        report.summary.extend(self.cautions.iter().cloned());
        report.summary.push(self.expected_in_words());
        if self.chosen == CloudPolicy::OnDemand {
            report.summary.push(
                "What was chosen is all on-demand itself, of which costs are told as shares: there is nothing to compare it with on the later windows."
                    .to_owned(),
            );
        } else if let Some(best) = self.beside(self.chosen) {
            let cost = best.report_cost_ratio;
            let what = if self.followed == self.chosen { "the same rule" } else { self.chosen.in_words() };
            let anew = if self.compared.is_some() {
                ", each in the zone that was chosen for it from what came before,"
            } else {
                ","
            };
            let narrow = if best.report_windows > self.later_disjoint {
                format!("; {}, so the interval is too narrow", self.overlap_in_words())
            } else {
                String::new()
            };
            report.summary.push(format!(
                "**The test**: on {} after those it was chosen on{anew} {what} costs **{}** of all on-demand{} ({} to {}{narrow}), and misses {}.",
                format::counted(best.report_windows as u64, "window", "windows"),
                format::percent(cost.value),
                self.share_of_in_words(),
                format::percent(cost.low),
                format::percent(cost.high),
                format::counted(best.report_misses as u64, "deadline", "deadlines")
            ));
        }
        let beside = [CloudPolicy::UniformProgress, CloudPolicy::Greedy, CloudPolicy::Omniscient];
        let said: Vec<String> = beside
            .iter()
            .filter_map(|policy| self.beside(*policy))
            .map(|of| format!("{} {}", of.policy.in_words(), format::percent(of.report_cost_ratio.value)))
            .collect();
        report.summary.push(format!("On the same windows: {}.", said.join(", ")));
        report.summary.extend(self.cheaper_in_words());
        report.summary.extend(self.compared.iter().flat_map(ZonesCompared::summary));
        report.summary.push(format!("Confidence: {}: {}.", self.confidence.in_words(), self.confidence_why));
        report.summary.extend(self.uncertain.iter().flat_map(UncertainWork::summary));
        let on_spot = self.checkpoint.iter().filter(|_| self.followed != CloudPolicy::OnDemand);
        report.summary.extend(on_spot.map(CheckpointAdvice::in_words));
        report.notes.clone_from(&self.notes);
        let on_demand = if self.zones.is_some() { "cheapest on-demand" } else { "own on-demand" };
        let mut table = ReportTable::new(
            "Zones and policies",
            vec![
                Column::text("Trace"),
                Column::text("Policy"),
                Column::number(format!("Chosen on, % of {on_demand}")),
                Column::number(format!("Later windows, % of {on_demand}")),
                Column::text("95 % interval"),
                Column::number("Dearest, %"),
                Column::number("Misses"),
            ],
        );
        for of in &self.candidates {
            table.rows.push(vec![
                of.trace.as_str().into(),
                of.policy.in_words().into(),
                Cell::float(100.0 * of.choose_cost_ratio, 1),
                Cell::float(100.0 * of.report_cost_ratio.value, 1),
                format!("{:.1} to {:.1}", 100.0 * of.report_cost_ratio.low, 100.0 * of.report_cost_ratio.high).into(),
                Cell::float(100.0 * of.report_worst, 1),
                Cell::Int((of.choose_misses + of.report_misses) as i64),
            ]);
        }
        let share = match (&self.zones, &self.compared) {
            (Some(_), _) => "Costs are shares of all on-demand in the zone that is cheapest for it.",
            (None, Some(_)) => {
                "Costs are shares of all on-demand in the zone of the row, or in that of each window where it is chosen anew. In that row *Chosen on* is the mean over all zones, as the policy is chosen by it."
            }
            (None, None) => "Costs are shares of all on-demand in the zone of the row.",
        };
        table.note = Some(format!("{share} The omniscient optimum knows the window; nobody can follow it."));
        let mut next = ReportTable::new("From the end of the data on", vec![Column::text("When"), Column::text("Do")]);
        let now = self.now;
        for (when, what) in [
            (if self.elastic { "all spot can be had" } else { "spot can be had" }, now.if_up.in_words().to_owned()),
            (if self.elastic { "none can" } else { "it cannot" }, now.if_down.in_words().to_owned()),
            ("it does not come", format!("on-demand after {}", format::duration(now.wait_at_most_s))),
            (
                "whatever happens",
                format!("on-demand after {} without work done", format::duration(now.latest_on_demand_s)),
            ),
        ] {
            // On-demand from the beginning needs no last moment.
            let is_on_demand = self.followed == CloudPolicy::OnDemand;
            if match when {
                "it does not come" => now.wait_at_most_s > 0.0,
                "whatever happens" => !is_on_demand,
                _ => true,
            } {
                next.rows.push(vec![when.into(), what.into()]);
            }
        }
        let mut doing = Section::new("cloud-now", "What to do now").with_table(next);
        if let Some(nodes) = &self.nodes {
            doing = doing.with_table(nodes_table(nodes));
        }
        if let Some(zones) = &self.zones {
            doing = doing.with_table(zones_table(zones));
        }
        if let Some(purchases) = &self.purchases {
            doing = doing.with_table(purchases.table());
        }
        if let Some(probes) = self.probes {
            doing = doing.with_definition(probes.to_do());
        }
        report.sections = vec![
            doing,
            Section::new("cloud-candidates", "What was chosen from").with_table(table),
            sensitivity::section(&self.sensitivity, self.chosen, self.alone()),
        ];
        // Which zone comes after what to do there.
        if let Some(compared) = &self.compared {
            report.sections.insert(1, compared.section());
        }
        report.sections.extend(self.uncertain.as_ref().map(UncertainWork::section));
        report
    }

    /// In which zone the on-demand is of which the test is a share, behind `all on-demand`.
    fn share_of_in_words(&self) -> &'static str {
        match (&self.zones, &self.compared) {
            (Some(_), _) => " where that is cheapest",
            (None, Some(_)) => " in that zone",
            (None, None) => "",
        }
    }

    /// Which policies cost less than the chosen one on the windows it is reported on, in a sentence; nothing where none did.
    fn cheaper_in_words(&self) -> Option<String> {
        let said: Vec<String> = self
            .cheaper_later
            .iter()
            .filter_map(|policy| self.beside(*policy))
            .map(|of| format!("{} ({})", of.policy.in_words(), format::percent(of.report_cost_ratio.value)))
            .collect();
        let chosen = self.beside(self.chosen)?;
        (!said.is_empty()).then(|| {
            format!(
                "**Cheaper there than the {} ({})**: {}. The choice was made on the earlier windows, where it cost least.",
                self.chosen.in_words(),
                format::percent(chosen.report_cost_ratio.value),
                said.join(", ")
            )
        })
    }
}

/// How many nodes of each kind an elastic job holds.
fn nodes_table(nodes: &ElasticNow) -> ReportTable {
    let columns = ["Spot nodes to be had", "On spot", "On-demand"].map(Column::number);
    let mut table = ReportTable::new("Nodes to hold, by how many spot nodes can be had", columns.to_vec());
    let count = |of: u32| Cell::Int(i64::from(of));
    table.rows = nodes.by_had.iter().map(|of| vec![count(of.had), count(of.spot), count(of.on_demand)]).collect();
    table.note = Some(format!(
        "In the last tick of the data {} of them could be had: {}.",
        nodes.last.had,
        nodes.last.in_words()
    ));
    table
}

/// The zones of a job, in the order in which to take them.
fn zones_table(zones: &ZonesNow) -> ReportTable {
    let mut table = ReportTable::new(
        "Zones, in the order in which to take spot in them",
        vec![
            Column::number("Turn"),
            Column::text("Zone"),
            Column::text("Region"),
            Column::text("Spot when last seen"),
            Column::number("With spot, %"),
            Column::number("Spot, $/h"),
            Column::number("On-demand, $/h"),
        ],
    );
    let turn = |zone: &str| zones.order.iter().position(|of| of == zone);
    let mut sorted: Vec<&PlannedZone> = zones.zones.iter().collect();
    sorted.sort_by_key(|of| turn(&of.zone).unwrap_or(usize::MAX));
    for of in sorted {
        table.rows.push(vec![
            Cell::opt(turn(&of.zone), |turn| Cell::Int(turn as i64 + 1)),
            of.zone.as_str().into(),
            of.region.as_str().into(),
            if of.last_up { "yes" } else { "no" }.into(),
            Cell::float(100.0 * of.up_share, 1),
            Cell::opt(of.spot_usd_per_h, |price| Cell::float(price, 4)),
            Cell::float(of.on_demand_usd_per_h, 4),
        ]);
    }
    table.note = Some(format!(
        "Each is for when those before it cannot be had or are lost, with the checkpoint in the region of the first; with none of them: {}. On-demand begins in {}.",
        zones.then.in_words(),
        zones.on_demand_zone
    ));
    table
}
