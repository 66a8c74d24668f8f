//! The answer of `plan power`: one JSON (`plan-power/1`) and one report, from what was [studied](super::study) and [re-simulated](super::resim).
//!
//! The first of the series is the pool or cluster; VCs follow, each studied alone. Worked example: a chosen rule that lets 117.4 of 420 nodes sleep where
//! the optimum at a switching cost of two hours lets 127.0 reaches 92 % of it.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, Chart, Mark, Reference, Series};
use tracecast_analytics::report::{Cell, Column, Report, Section, Table, format};
use tracecast_analytics::trace::SourceRecord;

use super::family::Scored;
use super::plan::PowerPlan;
use super::resim::{Constants, Effect, Moment};
use super::score::{Outcome, Worth};
use super::study::{Curve, Intervals, Optimum, Service, Studied};
use super::yearly::Yearly;
use crate::error::{Error, Result};

/// Version of the JSON.
pub const SCHEMA: &str = "plan-power/1";
/// The switching cost at which the optimum is quoted, hours of idle power.
const QUOTED_H: f64 = 2.0;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Rule, parameters and what they meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// Whether the days before would have chosen it.
    pub chosen: bool,
}

/// One kind of rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PolicyCurve {
    /// Its name.
    pub name: String,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Settings that the days before left as possible.
    pub settings_kept: usize,
    /// Those of them that turned out best, most sleep first, and the chosen one.
    pub curve: Vec<Point>,
    /// The chosen setting.
    pub chosen: Scored,
    /// What it had meant on the days it was chosen on.
    pub chosen_before: Outcome,
    /// For each of the levels of service asked for, what the setting meant that the days before would have chosen; `null` if none kept to it there.
    pub for_service: Vec<Option<Scored>>,
}

/// Money or carbon of the energy saved, by the hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ByHour {
    /// In its unit, over the evaluated days.
    pub value: f64,
    /// Share of the evaluated slots whose hour has a rate; of the others nothing is in `value`.
    pub covered_share: f64,
}

impl ByHour {
    /// What a plan saved, at a rate for each kWh.
    pub fn of(studied: &Studied, rate: impl Fn(i64) -> Option<f64>) -> Self {
        let (mut value, mut covered) = (0.0, 0usize);
        for (slot, kwh) in studied.saved_kwh.iter().enumerate() {
            if let Some(rate) = rate(studied.from_ms + studied.slot_ms * i64::try_from(slot).unwrap_or(0)) {
                value += kwh * rate;
                covered += 1;
            }
        }
        Self { value, covered_share: covered as f64 / studied.saved_kwh.len().max(1) as f64 }
    }
}

/// The choice among causal rules.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Chosen {
    /// Which policy.
    pub name: String,
    /// Its setting and what it meant.
    #[serde(flatten)]
    pub scored: Scored,
    /// With intervals.
    pub intervals: Intervals,
    /// Energy saved, of what the optimum at a switching cost of two hours saves.
    pub share_of_optimum: Option<f64>,
}

/// The exact optimum of someone who knew all demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OfflineOptimum {
    /// What a wake costs it, hours of idle power.
    pub switch_h: f64,
    /// What it means.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What was found of one series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pool {
    /// Of what.
    pub series: String,
    /// Begin of the evaluated days, milliseconds since the epoch.
    pub from_ms: i64,
    /// Evaluated slots.
    pub slots: usize,
    /// Of these, slots in which nothing was counted.
    pub uncounted_slots: usize,
    /// Days learned from, before the days of choice.
    pub learned_days: f64,
    /// Days on which settings were chosen.
    pub choice_days: f64,
    /// Days evaluated.
    pub days: f64,
    /// Mean number of nodes there are.
    pub nodes_mean: f64,
    /// Mean of the largest counts.
    pub demand_mean: f64,
    /// By kind of rule.
    pub policies: Vec<PolicyCurve>,
    /// The choice.
    pub chosen: Chosen,
    /// The optimum at a switching cost of two hours, nothing unserved.
    pub offline_optimum: OfflineOptimum,
    /// Optima at other switching costs.
    pub optima: Vec<OfflineOptimum>,
}

/// A re-simulated plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Resimulated {
    /// What it did.
    #[serde(flatten)]
    pub effect: Effect,
    /// Busy, pending and powered nodes by slot.
    pub timeline: Vec<Moment>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// Version of this form.
    pub schema: String,
    /// Trace.
    pub title: String,
    /// What a reader must know of the data.
    pub notes: Vec<String>,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Slots that a boot takes beyond the one it is ordered for.
    pub boot_slots: usize,
    /// What nodes draw.
    pub constants: Constants,
    /// What things are worth.
    pub worth: Worth,
    /// What the hours were weighted by for the choice and the optimum, if they were not alike.
    pub weighted_by: Option<String>,
    /// Energy saved by the pool's chosen setting in a year, and of all energy of the nodes.
    pub yearly: Option<Yearly>,
    /// Money saved by it, if the currency of the price is known.
    pub cost_saved: Option<ByHour>,
    /// Currency of all money here; `null` if nobody named one, and then no money is told.
    pub currency: Option<String>,
    /// CO₂ equivalent saved by it, kg, if a carbon intensity was given.
    pub co2_saved_kg: Option<ByHour>,
    /// Levels of service of `for_service`.
    pub services: Vec<Service>,
    /// The pool, or the only series.
    #[serde(flatten)]
    pub pool: Pool,
    /// The same where a boot takes a slot more: the trailing maximum and our rule.
    pub slower_boots: Pool,
    /// The service chosen for; `null`: the cheapest was chosen.
    pub criterion: Option<Service>,
    /// VCs, each alone.
    pub vcs: Vec<Pool>,
    /// Plans re-simulated with the jobs, if jobs and nodes are known.
    pub effects: Vec<Resimulated>,
    /// What to do.
    pub plan: PowerPlan,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
    /// Slots of the pool for the chart: demand, mean count, powered.
    #[serde(skip)]
    pub chart: Vec<(i64, f64, f64, f64)>,
    /// IANA zone of the chart.
    #[serde(skip)]
    pub zone: String,
}

/// The JSON Schema of [`Answer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Answer).to_value()
}

fn policy(curve: &Curve) -> PolicyCurve {
    let mut points: Vec<Point> = curve
        .points
        .iter()
        .map(|scored| Point { scored: *scored, chosen: scored.setting == curve.chosen.setting })
        .collect();
    if !points.iter().any(|point| point.chosen) {
        points.push(Point { scored: curve.chosen, chosen: true });
    }
    PolicyCurve {
        name: curve.family.name().to_owned(),
        causal: curve.family.causal(),
        settings_kept: curve.kept,
        curve: points,
        chosen: curve.chosen,
        chosen_before: curve.chosen_before,
        for_service: curve.for_service.clone(),
    }
}

impl Pool {
    /// From what was studied.
    ///
    /// # Errors
    /// If nothing was studied.
    pub fn of(studied: &Studied) -> Result<Self> {
        let of = |optimum: &Optimum| OfflineOptimum { switch_h: optimum.switch_h, outcome: optimum.outcome };
        let quoted = studied.optima.iter().find(|own| own.switch_h == QUOTED_H).or(studied.optima.first());
        let offline_optimum = quoted.map_or(OfflineOptimum { switch_h: QUOTED_H, outcome: Outcome::default() }, of);
        let curve = studied.curves.get(studied.chosen);
        let curve = curve.ok_or_else(|| Error::Policy(format!("{}: no rule was studied", studied.name)))?;
        let (name, scored) = (curve.family.name().to_owned(), curve.chosen);
        let best = offline_optimum.outcome.energy_saved_kwh;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let [learned_days, choice_days, days] = studied.days;
        Ok(Self {
            series: studied.name.clone(),
            from_ms: studied.from_ms,
            slots: studied.need.len(),
            uncounted_slots: studied.uncounted,
            learned_days,
            choice_days,
            days,
            nodes_mean: mean(&studied.total),
            demand_mean: mean(&studied.need),
            policies: studied.curves.iter().map(policy).collect(),
            chosen: Chosen {
                name,
                scored,
                intervals: studied.intervals,
                share_of_optimum: (best > 0.0).then(|| scored.outcome.energy_saved_kwh / best),
            },
            offline_optimum,
            optima: studied.optima.iter().map(of).collect(),
        })
    }
}

fn outcome_cells(outcome: &Outcome, best_kwh: f64) -> Vec<Cell> {
    vec![
        Cell::float(outcome.nodes_asleep_mean, 1),
        Cell::float(outcome.unserved_node_slots, 0),
        Cell::float(outcome.node_wakes_per_day, 1),
        Cell::float(outcome.energy_saved_kwh, 0),
        if best_kwh > 0.0 { Cell::Percent(outcome.energy_saved_kwh / best_kwh) } else { Cell::Missing },
    ]
}

fn outcome_columns(first: &str) -> Vec<Column> {
    vec![
        Column::text(first),
        Column::number("Asleep"),
        Column::number("Unserved"),
        Column::number("Wakes a day"),
        Column::with_unit("Saved", "kWh"),
        Column::number("Of optimum"),
    ]
}

/// Names of rules as a reader meets them.
fn spelled(name: &str) -> &str {
    match name {
        "always_on" => "always on",
        "trailing_maximum" => "trailing maximum + buffer",
        "lazy_provisioning" => "lazy capacity provisioning",
        "newsvendor" => "newsvendor quantile",
        "ces_perfect_forecast" => "CES, perfect forecast (not causal)",
        "ces_as_published" => "CES, published forecasts (they leak)",
        "ces_persistence" => "CES, last value as forecast",
        "ces_yesterday" => "CES, yesterday as forecast",
        "reach" => "reach (ours)",
        other => other,
    }
}

impl Answer {
    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), "Which nodes can sleep, and what that would have meant");
        report.notes.clone_from(&self.notes);
        report.summary = self.summary();
        report.sections = vec![self.timeline(), self.curves(), self.policies(), self.services(), self.optima()];
        if !self.vcs.is_empty() {
            report.sections.push(self.by_vc());
        }
        if !self.effects.is_empty() {
            report.sections.push(self.resimulated());
        }
        report.provenance = vec![
            ("Form".to_owned(), self.schema.clone()),
            ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("Time zone".to_owned(), self.zone.clone()),
        ];
        for source in &self.sources {
            let told = format!("{}, {}, SHA-256 {}", source.reader, format::bytes(source.size_bytes), source.sha256);
            report.provenance.push((source.name.clone(), told));
        }
        report
    }

    fn summary(&self) -> Vec<String> {
        let (pool, chosen) = (&self.pool, &self.pool.chosen);
        let outcome = &chosen.scored.outcome;
        let figures = &chosen.intervals;
        let mut said = vec![format!(
            "Over {:.0} days that it had not seen, **{}** would have let **{:.1}** of {:.0} nodes sleep on average ({:.1} to {:.1}, drawing {}) and saved **{}** kWh net of boots, {} of what the exact optimum saves that knows all demand.",
            pool.days,
            spelled(&chosen.name),
            outcome.nodes_asleep_mean,
            pool.nodes_mean,
            figures.nodes_asleep_mean.low,
            figures.nodes_asleep_mean.high,
            if figures.block_days == 1 { "days anew" } else { "weeks anew" },
            format::compact(outcome.energy_saved_kwh),
            chosen.share_of_optimum.map_or_else(|| "an unknown share".to_owned(), format::percent),
        )];
        said.push(format!(
            "Its price: {} node-slots of {} in which a node was asked for and none was ready, and {:.1} nodes woken a day.",
            format::compact(outcome.unserved_node_slots),
            format::duration(self.slot_s),
            outcome.node_wakes_per_day
        ));
        let covered = |own: &ByHour| match own.covered_share {
            share if share >= 1.0 => String::new(),
            share => format!(" (of the {} of the time whose hours are known)", format::percent(share)),
        };
        if let Some(yearly) = &self.yearly {
            said.push(yearly.sentence());
        }
        let money = self.cost_saved.as_ref().zip(self.currency.as_ref());
        let money = money.map(|(own, unit)| format!("{} {unit}{}", format::compact(own.value), covered(own)));
        let carbon = self.co2_saved_kg.as_ref();
        let carbon = carbon.map(|own| format!("{} kg of CO₂ equivalent{}", format::compact(own.value), covered(own)));
        let worth: Vec<String> = money.into_iter().chain(carbon).collect();
        if !worth.is_empty() {
            said.push(format!("By the rates of each hour that is {} saved.", worth.join(" and ")));
        }
        if let (Some(first), Some(last)) = (self.effects.first(), self.effects.last())
            && self.effects.len() > 1
            && let (Some(wait), Some(base)) =
                (&last.effect.jobs.added_wait_mean_s, first.effect.jobs.baseline_wait_mean_s)
        {
            said.push(format!(
                    "With the scheduler run again on the powered nodes, {} changes the mean wait of {} by {:+.0} s ({:+.0} to {:+.0}; {} on nodes that are always on).",
                    last.effect.name,
                    format::counted(last.effect.jobs.jobs, "job", "jobs"),
                    wait.value,
                    wait.low,
                    wait.high,
                    format::duration(base),
                ));
        }
        said
    }

    fn timeline(&self) -> Section {
        let pool = &self.pool;
        let zone = jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        let points = |of: fn(&(i64, f64, f64, f64)) -> f64| {
            self.chart.iter().map(|own| (own.0 as f64 / 1000.0, of(own))).collect::<Vec<(f64, f64)>>()
        };
        let chart = Chart::xy(
            "active-demanded-powered",
            "Active, demanded and powered nodes",
            Axis::time("Time", zone),
            Axis::linear("Nodes"),
            vec![
                Series::new("active (mean of the slot)", Mark::Dashed, points(|own| own.1)),
                Series::new("demanded (largest of the slot)", Mark::Line, points(|own| own.2)),
                Series::new("powered", Mark::Step, points(|own| own.3)),
            ],
        )
        .with_reading("What lies between powered and the nodes there are is asleep. Where demand rises above powered, jobs would have found no node.")
        .with_reference(Reference::Horizontal { at: pool.nodes_mean, label: "nodes there are".to_owned() });
        Section::new("power-timeline", "Nodes active, demanded and powered")
            .with_finding(format!(
                "{}: {:.1} of {:.0} nodes were demanded on average; {} kept {:.1} powered.",
                pool.series,
                pool.demand_mean,
                pool.nodes_mean,
                spelled(&pool.chosen.name),
                pool.nodes_mean - pool.chosen.scored.outcome.nodes_asleep_mean
            ))
            .with_chart(chart)
            .with_coverage(format!(
                "{:.1} days evaluated, of which {} of {} slots had no count and carry on the last one; learned on {:.1} days and chosen on the {:.1} after them, then fitted on both.",
                pool.days, pool.uncounted_slots, pool.slots, pool.learned_days, pool.choice_days
            ))
    }

    fn curves(&self) -> Section {
        let most = self.services.iter().map(|service| service.node_wakes_per_day).fold(0.0, f64::max);
        let limit = if most > 0.0 { most } else { f64::INFINITY };
        let accepted = self.services.iter().map(|service| service.unserved_per_day).fold(0.0, f64::max);
        let most_unserved = 1.6 * accepted * self.pool.days;
        let edge = |policy: &PolicyCurve| {
            let mut points: Vec<(f64, f64)> = policy
                .curve
                .iter()
                .filter(|point| point.scored.outcome.node_wakes_per_day <= limit)
                .map(|point| (point.scored.outcome.unserved_node_slots, point.scored.outcome.nodes_asleep_mean))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
            let mut best = f64::NEG_INFINITY;
            points.retain(|(_, asleep)| {
                let better = *asleep > best;
                best = best.max(*asleep);
                better
            });
            // Beyond what anyone would accept, curves say little.
            points.retain(|(unserved, _)| *unserved <= most_unserved);
            points
        };
        let shown = ["reach", "lazy_provisioning", "trailing_maximum", "newsvendor", "ces_perfect_forecast"];
        let find = |name: &str| self.pool.policies.iter().find(|policy| policy.name == name);
        let mut series: Vec<Series> = shown
            .iter()
            .filter_map(|name| {
                let points = edge(find(name)?);
                (!points.is_empty()).then(|| Series::new(spelled(name), Mark::Line, points))
            })
            .collect();
        let marks = self.pool.policies.iter().filter(|policy| shown.contains(&policy.name.as_str()));
        let chosen = marks.map(|policy| &policy.chosen.outcome);
        let dots: Vec<(f64, f64)> = chosen
            .filter(|outcome| outcome.unserved_node_slots <= most_unserved)
            .map(|outcome| (outcome.unserved_node_slots, outcome.nodes_asleep_mean))
            .collect();
        let slower = self.slower_boots.policies.iter().find(|policy| policy.name == "reach").map(edge);
        series.extend(slower.map(|points| Series::new("reach, a boot taking a slot more", Mark::Dashed, points)));
        series.push(Series::new("chosen beforehand", Mark::Points, dots));
        let chart = Chart::xy(
            "savings-against-shortage",
            "Sleep against shortage",
            Axis::linear("Unserved node-slots over the evaluated days"),
            Axis::linear("Nodes asleep, mean"),
            series,
        )
        .with_reading("Further up is more sleep, further left is better service. Lines are the best settings of each rule as it turned out; dots are what the days before would have chosen.");
        let mut table = Table::new("Most sleep at a given service, read off the curves", {
            let mut columns = vec![Column::text("Policy")];
            columns.extend(self.services.iter().map(|service| {
                Column::number(format!(
                    "≤ {:.0} unserved, ≤ {:.0} wakes",
                    service.unserved_per_day * self.pool.days,
                    service.node_wakes_per_day
                ))
            }));
            columns
        });
        let slower = self.slower_boots.policies.iter();
        let slower = slower.map(|policy| (format!("{}, a boot taking a slot more", spelled(&policy.name)), policy));
        let own = self.pool.policies.iter().map(|policy| (spelled(&policy.name).to_owned(), policy));
        for (name, policy) in own.chain(slower) {
            let mut row: Vec<Cell> = vec![name.into()];
            for service in &self.services {
                let within = policy.curve.iter().filter(|point| service.holds(&point.scored.outcome, self.pool.days));
                let best = within.map(|point| point.scored.outcome.nodes_asleep_mean).fold(f64::NEG_INFINITY, f64::max);
                row.push(Cell::float(best, 1));
            }
            table.rows.push(row);
        }
        table.note = Some("Unserved over all evaluated days, wakes a day. A dash: no setting that the days before left keeps to it. Where on a curve one stands is read with hindsight; the next sections do without.".to_owned());
        Section::new("savings-against-shortage", "What sleep costs in service")
            .with_finding(
                "Sleep can always be bought with shortage: compare rules at equal service, never by savings alone."
                    .to_owned(),
            )
            .with_chart(chart)
            .with_table(table)
    }

    fn policies(&self) -> Section {
        let best = self.pool.offline_optimum.outcome.energy_saved_kwh;
        let mut table = Table::new("Each rule with the setting chosen beforehand", outcome_columns("Policy"));
        for policy in &self.pool.policies {
            let name = spelled(&policy.name);
            let name = if policy.name == self.pool.chosen.name { format!("{name} (chosen)") } else { name.to_owned() };
            let mut row: Vec<Cell> = vec![name.into()];
            row.extend(outcome_cells(&policy.chosen.outcome, best));
            table.rows.push(row);
        }
        let mut row: Vec<Cell> = vec!["offline optimum, 2 h switching cost".into()];
        row.extend(outcome_cells(&self.pool.offline_optimum.outcome, best));
        table.rows.push(row);
        table.note = Some(format!(
            "Cheapest means: at {:.2} a kWh, {:.2} for an hour that a GPU is waited for, and {:.1} h of idle power of wear a wake. Idle {:.0} W, off {:.0} W, boot {:.0} s. Limits (canaries, minimum times, rates) and failed boots act where the scheduler is run again.",
            self.worth.price_kwh,
            self.worth.gpu_hour,
            self.worth.wear_h,
            self.constants.idle_w,
            self.constants.off_w,
            self.constants.boot_s
        ));
        Section::new("power-policies", "Which rule to follow")
            .with_finding(self.criterion_in_words())
            .with_table(table)
            .with_definition("Asleep: mean nodes. Unserved: Σ max(0, largest count of the slot − nodes ready). Wakes: nodes, not occasions. Saved: asleep time × (idle − off) less boots and shutdowns, times the marginal PUE.")
            .with_text(Constants::sources().join(" "))
    }

    /// What the emitted plan stands for, a sentence each.
    pub fn plan_in_words(&self) -> Vec<String> {
        let trailing = self.pool.policies.iter().find(|policy| policy.name == "trailing_maximum");
        let mut said = Vec::new();
        if let Some(policy) = trailing {
            let own = &policy.chosen.outcome;
            said.push(format!(
                "Slurm, Karpenter and the cluster-autoscaler can only time out and keep some nodes idle, so they get the trailing maximum as chosen, not {}: over the {:.0} days evaluated it would have let {:.1} nodes sleep, with {:.0} unserved node-slots, {:.1} node-wakes a day and {:.0} kWh saved.",
                spelled(&self.pool.chosen.name),
                self.pool.days,
                own.nodes_asleep_mean,
                own.unserved_node_slots,
                own.node_wakes_per_day,
                own.energy_saved_kwh
            ));
        }
        let own = &self.pool.chosen.scored.outcome;
        said.push(format!(
            "The schedule of actions is what {} ordered, slot by slot, over the days evaluated ({:.1} nodes asleep): days that have passed. It is for rehearsal and for accounting; the rule itself needs the newest counts, so run the plan again for each new day.",
            spelled(&self.pool.chosen.name),
            own.nodes_asleep_mean
        ));
        said
    }

    fn criterion_in_words(&self) -> String {
        let name = spelled(&self.pool.chosen.name);
        let days = self.pool.choice_days;
        match &self.criterion {
            None => format!("On the days of choice **{name}** was cheapest of the causal rules."),
            Some(service) => {
                let chosen = self.pool.policies.iter().find(|policy| policy.name == self.pool.chosen.name);
                let kept = chosen.is_some_and(|policy| service.holds(&policy.chosen_before, days));
                let asked = format!(
                    "{} unserved node-slots and {} node-wakes a day",
                    service.unserved_per_day, service.node_wakes_per_day
                );
                if kept {
                    format!("On the days of choice **{name}** let most nodes sleep within {asked}.")
                } else {
                    format!("On the days of choice no rule kept to {asked}; **{name}** had the least shortage.")
                }
            }
        }
    }

    fn services(&self) -> Section {
        let best = self.pool.offline_optimum.outcome.energy_saved_kwh;
        let mut columns = outcome_columns("Asked for, a day");
        columns.insert(1, Column::text("Policy"));
        let mut table = Table::new("What the days before would have chosen for a service", columns);
        for (place, service) in self.services.iter().enumerate() {
            for name in ["reach", "trailing_maximum"] {
                let own = self.pool.policies.iter().find(|policy| policy.name == name);
                let asked =
                    format!("≤ {:.1} unserved, ≤ {:.0} wakes", service.unserved_per_day, service.node_wakes_per_day);
                let mut row: Vec<Cell> = vec![asked.into(), spelled(name).into()];
                match own.and_then(|policy| policy.for_service.get(place).copied().flatten()) {
                    Some(scored) => row.extend(outcome_cells(&scored.outcome, best)),
                    None => row.extend(std::iter::repeat_n(Cell::Missing, 5)),
                }
                table.rows.push(row);
            }
        }
        table.note = Some("A dash: on the days of choice no setting kept to it.".to_owned());
        Section::new("power-service", "What one gets who asks for a service beforehand")
            .with_finding(
                "Days differ: a setting that kept to a service on the days of choice may miss or exceed it later."
                    .to_owned(),
            )
            .with_table(table)
    }

    fn optima(&self) -> Section {
        let best = self.pool.offline_optimum.outcome.energy_saved_kwh;
        let mut table = Table::new("The exact offline optimum", outcome_columns("Switching cost"));
        for own in &self.pool.optima {
            let mut row: Vec<Cell> = vec![format!("{} h of idle power", own.switch_h).into()];
            row.extend(outcome_cells(&own.outcome, best));
            table.rows.push(row);
        }
        Section::new("power-optimum", "The most there was to save")
            .with_finding(format!(
                "With all demand known beforehand and none unserved, {:.1} nodes could have slept.",
                self.pool.offline_optimum.outcome.nodes_asleep_mean
            ))
            .with_table(table)
            .with_definition(
                "A node is kept on across an idle gap if and only if the gap is no longer than its switching cost.",
            )
    }

    fn by_vc(&self) -> Section {
        let mut columns = outcome_columns("VC");
        columns.insert(1, Column::number("Nodes"));
        columns.insert(2, Column::text("Chosen"));
        let mut table = Table::new("Each VC on nodes of its own, and all nodes pooled", columns);
        let (mut asleep, mut unserved, mut wakes, mut saved, mut optimum) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for pool in self.vcs.iter().chain(std::iter::once(&self.pool)) {
            let (own, best) = (&pool.chosen.scored.outcome, pool.offline_optimum.outcome.energy_saved_kwh);
            if !std::ptr::eq(pool, &raw const self.pool) {
                asleep += own.nodes_asleep_mean;
                unserved += own.unserved_node_slots;
                wakes += own.node_wakes_per_day;
                saved += own.energy_saved_kwh;
                optimum += best;
            }
            let mut row: Vec<Cell> =
                vec![pool.series.as_str().into(), Cell::float(pool.nodes_mean, 0), spelled(&pool.chosen.name).into()];
            row.extend(outcome_cells(own, best));
            table.rows.push(row);
        }
        let sum = Outcome {
            nodes_asleep_mean: asleep,
            unserved_node_slots: unserved,
            node_wakes_per_day: wakes,
            energy_saved_kwh: saved,
            ..Outcome::default()
        };
        let mut row: Vec<Cell> = vec!["all VCs, each alone".into(), Cell::Missing, "".into()];
        row.extend(outcome_cells(&sum, optimum));
        table.rows.push(row);
        Section::new("power-vcs", "Pooled or each VC alone")
            .with_finding(format!(
                "Each VC alone lets {:.1} nodes sleep with {:.0} unserved node-slots; all nodes as one pool {:.1} with {:.0}.",
                asleep,
                unserved,
                self.pool.chosen.scored.outcome.nodes_asleep_mean,
                self.pool.chosen.scored.outcome.unserved_node_slots
            ))
            .with_table(table)
    }

    fn resimulated(&self) -> Section {
        let mut table = Table::new(
            "The scheduler on the powered nodes",
            vec![
                Column::text("Plan"),
                Column::number("Nodes"),
                Column::number("Asleep"),
                Column::number("Unserved"),
                Column::number("Wakes a day"),
                Column::with_unit("Saved", "kWh"),
                Column::number("Of optimum"),
                Column::number("Added wait, mean"),
                Column::number("from"),
                Column::number("to"),
                Column::with_unit("Added JCT, mean", "s"),
                Column::number("Delayed"),
                self.currency.as_ref().map_or_else(
                    || Column::number("Money saved"),
                    |currency| Column::with_unit("Saved", currency.clone()),
                ),
                Column::with_unit("CO₂ saved", "kg"),
            ],
        );
        for own in &self.effects {
            let effect = &own.effect;
            let wait = effect.jobs.added_wait_mean_s.as_ref();
            let seconds = |value: Option<f64>| Cell::opt(value, |value| Cell::Float { value, digits: 0 });
            table.rows.push(vec![
                effect.name.as_str().into(),
                Cell::Int(i64::from(effect.nodes)),
                Cell::opt(effect.nodes_asleep_mean.as_ref(), |own| Cell::float(own.value, 1)),
                Cell::float(effect.unserved_node_slots, 0),
                Cell::opt(effect.node_wakes_per_day.as_ref(), |own| Cell::float(own.value, 1)),
                Cell::opt(effect.energy_saved_kwh.as_ref(), |own| Cell::float(own.value, 0)),
                Cell::opt(effect.share_of_optimum, Cell::Percent),
                seconds(wait.map(|wait| wait.value)),
                seconds(wait.map(|wait| wait.low)),
                seconds(wait.map(|wait| wait.high)),
                seconds(effect.jobs.added_jct_mean_s.as_ref().map(|own| own.value)),
                Cell::Int(effect.jobs.delayed as i64),
                Cell::opt(effect.cost_saved.as_ref(), |own| Cell::float(own.value.value, 0)),
                Cell::opt(effect.co2_saved_kg.as_ref(), |own| Cell::float(own.value.value, 0)),
            ]);
        }
        let jobs = self.effects.first().map_or(0, |own| own.effect.jobs.jobs);
        table.note = Some("Added wait in seconds, against the same jobs on nodes that are always on, with a 95 % interval from blocks of days or weeks. In a long queue the delay of one job moves thousands, so plans differ by chance, too.".to_owned());
        let mut section = Section::new("power-jobs", "What it does to jobs")
            .with_finding(format!(
                "{} replayed with nodes that sleep, boot and wake.",
                format::counted(jobs, "job", "jobs")
            ))
            .with_definition("Jobs: those submitted within the evaluated days. Whether a replay repeats what happened is for `tracecast simulate` to say, with its fidelity gate; the differences here are between replays. The optimum here is that of energy alone, with each pool on its own nodes and no job moved.")
            .with_table(table);
        if let Some(own) = self.effects.last() {
            let zone = jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
            let points = |of: fn(&Moment) -> f64| {
                own.timeline.iter().map(|at| (at.at_ms as f64 / 1000.0, of(at))).collect::<Vec<(f64, f64)>>()
            };
            let chart = Chart::xy(
                "resimulated",
                format!("Nodes under: {}", own.effect.name),
                Axis::time("Time", zone),
                Axis::linear("Nodes"),
                vec![
                    Series::new("busy", Mark::Area, points(|at| at.busy)),
                    Series::new("powered", Mark::Step, points(|at| f64::from(at.powered))),
                ],
            );
            section = section.with_chart(chart);
        }
        section
    }
}
