//! The answer of `plan rent job` as a report.
//!
//! O(candidates + cases). Worked example: a candidate that cost 0.58 (0.55 to 0.61) of all
//! on-demand on the later windows is shown as 58.0, 55.0 to 61.0.

use tracecast_analytics::report::{Cell, Report, ReportTable, Section, format};

use super::super::answer::on_instances;
use super::super::checkpoint::CheckpointAdvice;
use super::super::policy::CloudPolicy;
use super::super::purchase::CloudPurchases;
use super::super::sensitivity;
use super::super::uncertain::UncertainWork;
use super::{CloudBody, CloudPlanAnswer, CloudTrial};
use crate::cloud::plan::now::ElasticNow;
use crate::cloud::zones::choice::ZonesCompared;
use crate::cloud::zones::plan::{PlannedZone, ZonesNow};
use crate::plan::tell;

/// The answer as a report.
pub fn report(answer: &CloudPlanAnswer) -> Report {
    let (trial, body, is_followed) = (&answer.trial, &answer.body, answer.is_advised());
    let subtitle = format!(
        "{} of work{} in {}; {}",
        body.work_in_words(),
        on_instances(body.need, body.elastic),
        format::duration(body.deadline_s),
        body.prices
    );
    let mut said = vec![body.expected_in_words(trial.chosen)];
    said.extend(trial.tested_in_words(body, is_followed));
    let beside = [CloudPolicy::UniformProgress, CloudPolicy::Greedy, CloudPolicy::Omniscient];
    let costs: Vec<String> = beside
        .iter()
        .filter_map(|policy| trial.beside(*policy))
        .map(|of| format!("{} {}", of.policy.in_words(), format::percent(of.report_cost_ratio.value)))
        .collect();
    said.push(format!("On the same windows: {}.", costs.join(", ")));
    said.extend(trial.cheaper_in_words());
    said.extend(body.compared.iter().flat_map(ZonesCompared::summary));
    said.extend(body.uncertain.iter().flat_map(UncertainWork::summary));
    let on_spot = body.checkpoint.iter().filter(|_| is_followed);
    said.extend(on_spot.map(CheckpointAdvice::in_words));
    let mut sections = vec![body.now_section(is_followed)];
    // Which zone comes after what to do there.
    sections.extend(body.compared.as_ref().map(ZonesCompared::section));
    sections.push(trial.candidates_section(body));
    sections.push(sensitivity::section(&trial.sensitivity, trial.chosen, trial.alone(body)));
    sections.extend(body.uncertain.as_ref().map(UncertainWork::section));
    tell::report(answer, ("How to run a job with a deadline:", subtitle), said, sections)
}

impl CloudTrial {
    /// What the policy chosen came to on the later windows, in a sentence.
    fn tested_in_words(&self, body: &CloudBody, is_followed: bool) -> Option<String> {
        if self.chosen == CloudPolicy::OnDemand {
            let said = "What was chosen is all on-demand itself, of which costs are told as shares: there is nothing to compare it with on the later windows.";
            return Some(said.to_owned());
        }
        let best = self.beside(self.chosen)?;
        let cost = best.report_cost_ratio;
        let what = if is_followed { "the same rule" } else { self.chosen.in_words() };
        let anew = match body.compared {
            Some(_) => ", each in the zone that was chosen for it from what came before,",
            None => ",",
        };
        // In which zone the on-demand is of which costs are shares.
        let share_of = match (&body.zones, &body.compared) {
            (Some(_), _) => " where that is cheapest",
            (None, Some(_)) => " in that zone",
            (None, None) => "",
        };
        let narrow = if best.report_windows > self.later_disjoint {
            format!("; {}, so the interval is too narrow", self.overlap_in_words())
        } else {
            String::new()
        };
        Some(format!(
            "**The test**: on {} after those it was chosen on{anew} {what} costs **{}** of all on-demand{share_of} ({} to {}{narrow}), and misses {}.",
            format::counted(best.report_windows as u64, "window", "windows"),
            format::percent(cost.value),
            format::percent(cost.low),
            format::percent(cost.high),
            format::counted(best.report_misses as u64, "deadline", "deadlines")
        ))
    }

    /// A sentence on the policies that cost less than the chosen one on the windows it is reported
    /// on; `None` where none did.
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

    fn candidates_section(&self, body: &CloudBody) -> Section {
        let on_demand = if body.zones.is_some() { "cheapest on-demand" } else { "own on-demand" };
        let columns = format!(
            "Trace | Policy | #Chosen on, % of {on_demand} | #Later windows, % of {on_demand} | 95 % interval | #Dearest, % | #Misses"
        );
        let mut table = tell::table("Zones and policies", &columns);
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
        let share = match (&body.zones, &body.compared) {
            (Some(_), _) => "Costs are shares of all on-demand in the zone that is cheapest for it.",
            (None, Some(_)) => {
                "Costs are shares of all on-demand in the zone of the row, or in that of each window where it is chosen anew. In that row *Chosen on* is the mean over all zones, as the policy is chosen by it."
            }
            (None, None) => "Costs are shares of all on-demand in the zone of the row.",
        };
        table.note = Some(format!("{share} The omniscient optimum knows the window; nobody can follow it."));
        Section::new("cloud-candidates", "What was chosen from").with_table(table)
    }
}

impl CloudBody {
    fn now_section(&self, is_followed: bool) -> Section {
        let (now, elastic) = (self.now, self.elastic);
        let mut table = tell::table("From the end of the data on", "When | Do");
        let mut row = |when: &str, what: String| table.rows.push(vec![when.into(), what.into()]);
        row(if elastic { "all spot can be had" } else { "spot can be had" }, now.if_up.in_words().to_owned());
        row(if elastic { "none can" } else { "it cannot" }, now.if_down.in_words().to_owned());
        if now.wait_at_most_s > 0.0 {
            row("it does not come", format!("on-demand after {}", format::duration(now.wait_at_most_s)));
        }
        // On-demand from the beginning needs no last moment.
        if is_followed {
            let latest = format::duration(now.latest_on_demand_s);
            row("whatever happens", format!("on-demand after {latest} without work done"));
        }
        let mut section = Section::new("cloud-now", "What to do now").with_table(table);
        let more = [
            self.nodes.as_ref().map(nodes_table),
            self.zones.as_ref().map(zones_table),
            self.purchases.as_ref().map(CloudPurchases::table),
        ];
        for table in more.into_iter().flatten() {
            section = section.with_table(table);
        }
        match self.probes {
            Some(probes) => section.with_definition(probes.to_do()),
            None => section,
        }
    }
}

/// How many nodes of each kind an elastic job holds.
fn nodes_table(nodes: &ElasticNow) -> ReportTable {
    let mut table = tell::table(
        "Nodes to hold, by how many spot nodes can be had",
        "#Spot nodes to be had | #On spot | #On-demand",
    );
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
    let mut table = tell::table(
        "Zones, in the order in which to take spot in them",
        "#Turn | Zone | Region | Spot when last seen | #With spot, % | #Spot, $/h | #On-demand, $/h",
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
