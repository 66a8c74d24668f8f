//! The report of `plan power`: what was chosen beforehand first, with intervals and beside what was chosen in the same way; curves, which are read
//! with hindsight, after it. What it says in sentences stands in `sentences`.
//!
//! Worked example: a rule that saves 92 kWh where the optimum saves 100 shows 92 % in the column `Of optimum`.

use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark, Reference};
use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::sentences::{FOLLOWED, anew};
use super::words::{set, spelled};
use super::{PolicyCurve, PoolFindings, PowerAnswer, PowerTrial, serves_all};
use crate::plan::tell;
use crate::plan::verdict::Verdict;
use crate::power::replay::resim::Moment;
use crate::power::rule::family::Family;
use crate::power::score::SleepOutcome;
use crate::power::score::constants::Constants;
use crate::replay::compare::IntervalEstimate;

/// What an outcome of a series meant; the share of the optimum where the two can be compared: as much was served, and the optimum saves more.
fn outcome_cells(outcome: &SleepOutcome, optimum: &SleepOutcome, need: f64) -> Vec<Cell> {
    let share = outcome.energy_saved_kwh / optimum.energy_saved_kwh;
    let told = optimum.energy_saved_kwh > 0.0 && serves_all(outcome, need) && share <= 1.0 + 1e-9;
    vec![
        Cell::float(outcome.nodes_asleep_mean, 1),
        Cell::float(outcome.unserved_node_slots, 0),
        Cell::float(outcome.node_wakes_per_day, 1),
        Cell::float(outcome.energy_saved_kwh, 0),
        if told { Cell::Percent(share) } else { Cell::Missing },
    ]
}

/// What a dash among the shares of the optimum is, if there is one.
fn dashes(table: &ReportTable) -> &'static str {
    let none = |row: &Vec<Cell>| matches!(row.last(), Some(Cell::Missing));
    if table.rows.iter().any(none) {
        " Energy in % of the optimum at a switching cost of 2 h that serves all; a dash where less than 99.9 % of the demand was served, or the optimum saves less."
    } else {
        " Energy in % of the optimum at a switching cost of 2 h that serves all."
    }
}

fn outcome_columns(first: &str) -> Vec<Column> {
    let mut columns = tell::columns(&format!("{first} | #Asleep | #Unserved | #Wakes a day | #Of optimum, all served"));
    columns.insert(4, Column::with_unit("Saved", "kWh"));
    columns
}

/// A figure with its interval.
fn spread(of: &IntervalEstimate, digits: usize) -> String {
    let one = |value: f64| format::float(value, digits);
    format!("{} ({} to {})", one(of.value), one(of.low), one(of.high))
}

/// The answer as a report.
pub fn report(answer: &PowerAnswer) -> Report {
    let PowerAnswer { trial, body, verdict, .. } = answer;
    // Who is advised to change nothing is not told what to do from now on.
    let is_advised = *verdict == Verdict::Advised;
    let mut sections: Vec<Section> = is_advised.then(|| trial.ahead(&body.forward)).into_iter().collect();
    sections.extend([trial.beforehand(*verdict), trial.services()]);
    sections.extend((!trial.vcs.is_empty()).then(|| trial.by_vc()));
    sections.extend((!trial.effects.is_empty()).then(|| trial.resimulated()));
    sections.extend([trial.timeline(), trial.optima(), trial.curves(), trial.policies()]);
    let said = match verdict {
        Verdict::Advised => trial.summary(&body.forward),
        _ => trial.instead(*verdict),
    };
    let subtitle = "What sleep would have meant on later days".to_owned();
    let mut report = tell::report(answer, ("Which nodes can sleep?", subtitle), said, sections);
    report.provenance = vec![
        ("Form".to_owned(), answer.schema.clone()),
        ("tracecast".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("Time zone".to_owned(), trial.zone.clone()),
    ];
    for source in &answer.sources {
        let told = format!("{}, {}, SHA-256 {}", source.reader, format::bytes(source.size_bytes), source.sha256);
        report.provenance.push((source.name.clone(), told));
    }
    report
}

impl PowerTrial {
    /// What was chosen beforehand, and what it promised and delivered.
    fn beforehand(&self, verdict: Verdict) -> Section {
        let pooled = self.planned_apart || self.vcs_as_they_stand.is_some();
        let mut table = tell::table(
            if pooled {
                "All nodes as one pool: chosen on the days before, tried on the days after"
            } else {
                "Chosen on the days before, tried on the days after"
            },
            "Rule | Asleep | Unserved a day | Wakes a day | Saved, kWh a day | Setting | #Chosen from | #Of optimum, as much unserved | #Of optimum, all served",
        );
        let mut promise = tell::table(
            "Promised and delivered, a day",
            "Rule | #Asleep, promised | #delivered | #Unserved, promised | #delivered | #Wakes, promised | #delivered",
        );
        for rule in &self.pool.beforehand {
            let name = self.called(rule);
            let name = match (rule.chosen, verdict == Verdict::Advised && !self.planned_apart) {
                (true, true) => format!("{name} (to follow)"),
                (true, false) => format!("{name} (chosen)"),
                (false, _) => name,
            };
            let figures = &rule.intervals;
            table.rows.push(vec![
                name.as_str().into(),
                spread(&figures.nodes_asleep_mean, 1).into(),
                spread(&figures.unserved_per_day, 1).into(),
                spread(&figures.node_wakes_per_day, 1).into(),
                spread(&figures.energy_saved_kwh_per_day, 0).into(),
                set(&rule.scored.setting, self.slot_s).into(),
                Cell::Int(rule.settings_tried as i64),
                Cell::opt(rule.share_of_optimum, |share| Cell::float(100.0 * share, 2)),
                Cell::opt(rule.share_of_optimum_serving_all, |share| Cell::float(100.0 * share, 2)),
            ]);
            promise.rows.push(vec![
                name.into(),
                Cell::float(rule.promised.nodes_asleep_mean, 1),
                Cell::float(rule.delivered.nodes_asleep_mean, 1),
                Cell::float(rule.promised.unserved_per_day, 1),
                Cell::float(rule.delivered.unserved_per_day, 1),
                Cell::float(rule.promised.node_wakes_per_day, 1),
                Cell::float(rule.delivered.node_wakes_per_day, 1),
            ]);
        }
        let dash = self.pool.beforehand.iter();
        let dash = dash.filter(|rule| rule.share_of_optimum.is_none() || rule.share_of_optimum_serving_all.is_none());
        table.note = Some(format!(
            "With 95 % intervals ({}). Energy in % of the optimum at a switching cost of 2 h that leaves as many node-slots unserved, and of the one that serves all{}.",
            anew(&self.pool.chosen.intervals),
            if dash.count() > 0 {
                "; a dash where the two cannot be compared: less than 99.9 % was served, or the optimum, which wakes fewer nodes, saves less or nothing"
            } else {
                ""
            }
        ));
        promise.note = Some(if self.pool.promise.is_some() {
            "Promised: of the rule under the promise what was asked for, and the sleep of the days of choice; of the others what they brought on the days of choice, each day with the setting that the other days would have chosen."
                .to_owned()
        } else {
            "Promised: on the days of choice, each day with the setting that the other days would have chosen."
                .to_owned()
        });
        let of = if self.planned_apart { ", all nodes as one pool" } else { "" };
        Section::new("power-beforehand", format!("What was chosen beforehand, and what it brought{of}"))
            .with_finding(self.criterion_in_words(verdict))
            .with_table(table)
            .with_table(promise)
            .with_definition("A trailing maximum stands unless another rule is clearly better on the days of choice: by two standard errors, from a week on, each day judged by the setting that the other days would have chosen. All nodes stay on where it would have lost more than it saved.")
    }

    /// A moment on the axis of time, seconds: since the epoch, or since the beginning of a trace without dates.
    fn seconds(&self, at_ms: i64) -> f64 {
        (at_ms - self.begins_ms.unwrap_or(0)) as f64 / 1000.0
    }

    fn time_axis(&self) -> Axis {
        if self.begins_ms.is_some() {
            return Axis::duration("Time since the beginning");
        }
        Axis::time("Time", jiff::tz::TimeZone::get(&self.zone).unwrap_or(jiff::tz::TimeZone::UTC))
    }

    fn timeline(&self) -> Section {
        let pool = &self.pool;
        let points = |of: fn(&(i64, f64, f64, f64)) -> f64| {
            self.chart.iter().map(|slot| (self.seconds(slot.0), of(slot))).collect::<Vec<(f64, f64)>>()
        };
        let chart = Chart::xy(
            "active-demanded-powered",
            "Active, demanded and powered nodes",
            self.time_axis(),
            Axis::linear("Nodes"),
            vec![
                ChartSeries::new("active (mean of the slot)", Mark::Dashed, points(|slot| slot.1)),
                ChartSeries::new("demanded (largest of the slot)", Mark::Line, points(|slot| slot.2)),
                ChartSeries::new("powered", Mark::Step, points(|slot| slot.3)),
            ],
        )
        .with_reading("What lies between powered and the nodes there are is asleep. Where demand rises above powered, jobs would have found no node.")
        .with_reference(Reference::Horizontal { at: pool.nodes_mean, label: "nodes there are".to_owned() });
        Section::new("power-timeline", "Nodes active, demanded and powered")
            .with_finding(format!(
                "{}: {} of {} nodes were demanded on average; {}{} kept {} powered.",
                pool.series,
                format::float(pool.demand_mean, 1),
                format::float(pool.nodes_mean, 0),
                spelled(pool.chosen.name),
                if pool.promise.is_some() { " under the promise" } else { "" },
                format::float(pool.nodes_mean - pool.chosen.scored.outcome.nodes_asleep_mean, 1)
            ))
            .with_chart(chart)
            .with_coverage(format!(
                "{:.1} days evaluated, of which {} of {} slots had no count and carry on the last one; learned on {:.1} days and chosen on the {:.1} after them, then fitted on both.",
                pool.days,
                format::count(pool.uncounted_slots as u64),
                format::count(pool.slots as u64),
                pool.learned_days,
                pool.choice_days
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
        let shown =
            [Family::Reach, Family::LazyProvisioning, Family::TrailingMaximum, Family::Newsvendor, Family::CesPerfect];
        let find = |family: Family| self.pool.policies.iter().find(|policy| policy.name == family);
        let mut series: Vec<ChartSeries> = shown
            .iter()
            .filter_map(|family| {
                let points = edge(find(*family)?);
                (!points.is_empty()).then(|| ChartSeries::new(spelled(*family), Mark::Line, points))
            })
            .collect();
        let marks = self.pool.policies.iter().filter(|policy| shown.contains(&policy.name));
        let chosen = marks.map(|policy| &policy.chosen.outcome);
        let dots: Vec<(f64, f64)> = chosen
            .filter(|outcome| outcome.unserved_node_slots <= most_unserved)
            .map(|outcome| (outcome.unserved_node_slots, outcome.nodes_asleep_mean))
            .collect();
        // The rule chosen comes last; one that is a single point is no line.
        let slower = self.slower_boots.policies.iter().rev().map(|policy| (policy.name, edge(policy)));
        series.extend(slower.filter(|(_, points)| points.len() > 1).take(1).map(|(family, points)| {
            ChartSeries::new(format!("{}, a boot taking a slot more", spelled(family)), Mark::Dashed, points)
        }));
        let dotted = !dots.is_empty();
        series.extend(dotted.then(|| ChartSeries::new("chosen beforehand", Mark::Points, dots)));
        let chart = Chart::xy(
            "savings-against-shortage",
            "Sleep against shortage",
            Axis::linear("Unserved node-slots over the evaluated days"),
            Axis::linear("Nodes asleep, mean"),
            series,
        )
        .with_reading(format!(
            "Further up is more sleep, further left is better service. Lines are the best settings of each rule as it turned out{}.",
            if dotted { "; dots are what the days before would have chosen" } else { "" }
        ));
        let mut table = ReportTable::new("Most sleep at a given service, read off the curves with hindsight", {
            let mut columns = tell::columns("Policy | #Best of settings");
            columns.extend(self.services.iter().map(|service| {
                Column::number(format!(
                    "≤ {} unserved, ≤ {} wakes a day",
                    format::float(service.unserved_per_day * self.pool.days, 0),
                    format::float(service.node_wakes_per_day, 0)
                ))
            }));
            columns
        });
        let slower = self.slower_boots.policies.iter();
        let slower = slower.map(|policy| (format!("{}, a boot taking a slot more", spelled(policy.name)), policy));
        let policies = self.pool.policies.iter().map(|policy| (spelled(policy.name).to_owned(), policy));
        for (name, policy) in policies.chain(slower) {
            let mut row: Vec<Cell> = vec![name.into(), Cell::Int(policy.settings_tried as i64)];
            for service in &self.services {
                let within = policy.curve.iter().filter(|point| service.holds(&point.scored.outcome, self.pool.days));
                let best = within.map(|point| point.scored.outcome.nodes_asleep_mean).fold(f64::NEG_INFINITY, f64::max);
                // What no setting keeps to is a dash.
                row.push(Cell::float(best, 1));
            }
            table.rows.push(row);
        }
        let dash = table.rows.iter().flatten().any(|cell| matches!(cell, Cell::Missing));
        table.note = Some(format!(
            "Nodes asleep, mean. Unserved over all evaluated days, wakes a day.{} Where on a curve one stands is known only afterwards, and the best of many settings looks better than that of few: what was chosen beforehand stands in the section on that.",
            if dash { " A dash: no setting that the days before left keeps to it." } else { "" }
        ));
        Section::new("savings-against-shortage", "What sleep costs in service, read with hindsight")
            .with_finding(
                "Sleep can always be bought with shortage: compare rules at equal service, never by savings alone."
                    .to_owned(),
            )
            .with_chart(chart)
            .with_table(table)
    }

    fn policies(&self) -> Section {
        let (best, need) = (&self.pool.offline_optimum.outcome, self.pool.need());
        let mut table = ReportTable::new("Each rule with the setting chosen beforehand", outcome_columns("Policy"));
        for policy in &self.pool.policies {
            let name = spelled(policy.name);
            // A rule under guard is none of these.
            let is_chosen = policy.name == self.pool.chosen.name && self.pool.promise.is_none();
            let name = if is_chosen { format!("{name} (chosen)") } else { name.to_owned() };
            let mut row: Vec<Cell> = vec![name.into()];
            row.extend(outcome_cells(&policy.chosen.outcome, best, need));
            table.rows.push(row);
        }
        let mut row: Vec<Cell> = vec!["offline optimum, 2 h switching cost".into()];
        row.extend(outcome_cells(best, best, need));
        table.rows.push(row);
        table.note = Some(format!(
            "Over the {:.0} days evaluated; wakes a day.{} Cheapest means: at {:.2} a kWh, {:.2} for an hour that a GPU is waited for, and {:.1} h of idle power of wear a wake. Idle {} W, off {} W, boot {}. Limits (canaries, minimum times, rates) and failed boots act where the scheduler is run again.",
            self.pool.days,
            dashes(&table),
            self.worth.price_kwh,
            self.worth.gpu_hour,
            self.worth.wear_h,
            format::float(self.constants.idle_w, 0),
            format::float(self.constants.off_w, 0),
            format::duration(self.constants.boot_s)
        ));
        Section::new("power-policies", "Every kind of rule")
            .with_finding(
                if self.pool.promise.is_some() {
                    "The setting of each kind that the days before would have chosen for the service, without a guard."
                } else {
                    "The setting of each kind that the days before would have chosen."
                }
                .to_owned(),
            )
            .with_table(table)
            .with_definition("Asleep: mean nodes. Unserved: Σ max(0, largest count of the slot − nodes ready). Wakes: nodes, not occasions. Saved: asleep time × (idle − off) less boots and shutdowns, times the marginal PUE.")
            .with_text(Constants::sources().join(" "))
    }

    fn services(&self) -> Section {
        let days = self.pool.days;
        let mut table = tell::table(
            "Asked for beforehand, and delivered",
            "Asked for, a day | Policy | #Unserved a day | #Wakes a day | Kept | #Asleep",
        );
        table.columns.push(Column::with_unit("Saved", "kWh"));
        let (mut kept, mut asked_for) = (0, 0);
        for (place, service) in self.services.iter().enumerate() {
            for family in [Family::Reach, Family::TrailingMaximum, Family::Timeout] {
                let result = self.pool.policies.iter().find(|policy| policy.name == family);
                let request = format!(
                    "≤ {} unserved, ≤ {} wakes",
                    format::compact(service.unserved_per_day),
                    format::compact(service.node_wakes_per_day)
                );
                let mut row: Vec<Cell> = vec![request.into(), spelled(family).into()];
                match result.and_then(|policy| policy.for_service.get(place).copied().flatten()) {
                    Some(scored) => {
                        let (outcome, holds) = (&scored.outcome, service.holds(&scored.outcome, days));
                        kept += u32::from(holds);
                        asked_for += 1;
                        row.extend([
                            // Two digits, or a narrow miss of the service looks like none.
                            Cell::float(outcome.unserved_node_slots / days.max(f64::MIN_POSITIVE), 2),
                            Cell::float(outcome.node_wakes_per_day, 1),
                            if holds { "yes" } else { "no" }.into(),
                            Cell::float(outcome.nodes_asleep_mean, 1),
                            Cell::float(outcome.energy_saved_kwh, 0),
                        ]);
                    }
                    None => row.extend(std::iter::repeat_n(Cell::Missing, 5)),
                }
                table.rows.push(row);
            }
        }
        let dash = table.rows.iter().flatten().any(|cell| matches!(cell, Cell::Missing));
        table.note = dash.then(|| "A dash: on the days of choice no setting kept to it.".to_owned());
        Section::new("power-service", "What one gets who asks for a service beforehand")
            .with_finding(format!(
                "Without a guard, of {asked_for} services that a setting kept on the days of choice, {kept} were kept on the days evaluated. With `--promise` the rule runs under a guard, which holds it to what was asked for."
            ))
            .with_table(table)
    }

    fn optima(&self) -> Section {
        let best = &self.pool.offline_optimum.outcome;
        let mut columns = outcome_columns("Switching cost");
        // At a lower cost it wakes more and saves more: a share of itself says nothing.
        columns.pop();
        let mut table = ReportTable::new("The exact offline optimum", columns);
        for optimum in &self.pool.optima {
            let mut row: Vec<Cell> = vec![format!("{} h of idle power", optimum.switch_h).into()];
            row.extend(outcome_cells(&optimum.outcome, best, self.pool.need()));
            row.pop();
            table.rows.push(row);
        }
        table.note = Some(format!("Over the {:.0} days evaluated; wakes a day.", self.pool.days));
        Section::new("power-optimum", "The most there was to save")
            .with_finding(format!(
                "With all demand known beforehand and none unserved, {} nodes could have slept on average.",
                format::float(best.nodes_asleep_mean, 1)
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
        let mut table = ReportTable::new("Each VC on nodes of its own, and all nodes pooled", columns);
        for pool in self.vcs.iter().chain([&self.pool]) {
            let (outcome, best) = (&pool.chosen.scored.outcome, &pool.offline_optimum.outcome);
            let rule = format!("{} ({})", spelled(pool.chosen.name), set(&pool.chosen.scored.setting, self.slot_s));
            let mut row: Vec<Cell> = vec![pool.series.as_str().into(), Cell::float(pool.nodes_mean, 0), rule.into()];
            row.extend(outcome_cells(outcome, best, pool.need()));
            table.rows.push(row);
        }
        let sum = |of: fn(&PoolFindings) -> f64| self.vcs.iter().map(of).sum::<f64>();
        let outcome = |of: fn(&SleepOutcome) -> f64| self.vcs.iter().map(|vc| of(&vc.chosen.scored.outcome)).sum();
        let together = SleepOutcome {
            nodes_asleep_mean: outcome(|of| of.nodes_asleep_mean),
            unserved_node_slots: outcome(|of| of.unserved_node_slots),
            node_wakes_per_day: outcome(|of| of.node_wakes_per_day),
            energy_saved_kwh: outcome(|of| of.energy_saved_kwh),
            ..SleepOutcome::default()
        };
        let mut row: Vec<Cell> = vec!["all VCs, each alone".into(), Cell::Missing, "".into()];
        let optimum = sum(|vc| vc.offline_optimum.outcome.energy_saved_kwh);
        let all = SleepOutcome { energy_saved_kwh: optimum, ..SleepOutcome::default() };
        row.extend(outcome_cells(&together, &all, sum(PoolFindings::need)));
        table.rows.push(row);
        table.note = Some(format!("Over the {:.0} days evaluated; wakes a day.{}", self.pool.days, dashes(&table)));
        let beside = self.vcs_as_they_stand.as_ref().and_then(|vcs| vcs.trailing_maximum.as_ref());
        let beside = beside.map_or_else(String::new, |trailing| {
            format!(
                " A trailing maximum for each, chosen in the same way, lets {} sleep with {}.",
                format::float(trailing.nodes_asleep_mean.value, 1),
                format::float(trailing.unserved_per_day.value * self.pool.days, 0)
            )
        });
        Section::new("power-vcs", "Each VC on its own nodes, or pooled")
            .with_finding(format!(
                "On their own nodes the VCs let {} nodes sleep with {} unserved node-slots in these days; all nodes as one pool, if every node could serve every VC, {} with {}.{beside}",
                format::float(together.nodes_asleep_mean, 1),
                format::float(together.unserved_node_slots, 0),
                format::float(self.pool.chosen.scored.outcome.nodes_asleep_mean, 1),
                format::float(self.pool.chosen.scored.outcome.unserved_node_slots, 0)
            ))
            .with_definition("Which rule stands is told by all VCs together; its setting for a VC by its own days of choice and, to a quarter, the mean of the other VCs; another rule replaces it in a VC where its own days clearly say so.")
            .with_table(table)
    }

    fn resimulated(&self) -> Section {
        let mut table = tell::table(
            "The scheduler on the powered nodes",
            "Plan | #Nodes | #Asleep | #Unserved | #Wakes a day | #Of optimum, same service | #Added wait, mean | #from | #to | #Delayed",
        );
        table.columns.insert(5, Column::with_unit("Saved", "kWh"));
        table.columns.insert(10, Column::with_unit("Added JCT, mean", "s"));
        let money = |currency: &String| Column::with_unit("Saved", currency.clone());
        table.columns.push(self.currency.as_ref().map_or_else(|| Column::number("Money saved"), money));
        table.columns.push(Column::with_unit("CO₂ saved", "kg"));
        for replay in &self.effects {
            let effect = &replay.effect;
            let wait = effect.jobs.added_wait_mean_s.as_ref();
            let seconds = |value: Option<f64>| Cell::opt(value, |value| Cell::Float { value, digits: 0 });
            table.rows.push(vec![
                effect.name.as_str().into(),
                Cell::Int(i64::from(effect.nodes)),
                Cell::opt(effect.nodes_asleep_mean.as_ref(), |estimate| Cell::float(estimate.value, 1)),
                Cell::float(effect.unserved_node_slots, 0),
                Cell::opt(effect.node_wakes_per_day.as_ref(), |estimate| Cell::float(estimate.value, 1)),
                Cell::opt(effect.energy_saved_kwh.as_ref(), |estimate| Cell::float(estimate.value, 0)),
                Cell::opt(effect.share_of_optimum, Cell::Percent),
                seconds(wait.map(|wait| wait.value)),
                seconds(wait.map(|wait| wait.low)),
                seconds(wait.map(|wait| wait.high)),
                seconds(effect.jobs.added_jct_mean_s.as_ref().map(|estimate| estimate.value)),
                Cell::Int(effect.jobs.delayed as i64),
                Cell::opt(effect.cost_saved.as_ref(), |cost| Cell::float(cost.value.value, 0)),
                Cell::opt(effect.co2_saved_kg.as_ref(), |co2| Cell::float(co2.value.value, 0)),
            ]);
        }
        let jobs = self.effects.first().map_or(0, |replay| replay.effect.jobs.jobs);
        table.note = Some("Added wait in seconds, against the same jobs on nodes that are always on, with a 95 % interval from blocks of days or weeks. In a long queue the delay of one job moves thousands, so plans differ by chance, too.".to_owned());
        let mut section = Section::new("power-jobs", "What it does to jobs")
            .with_finding(format!(
                "{} replayed with nodes that sleep, boot and wake.",
                format::counted(jobs, "job", "jobs")
            ))
            .with_definition("Jobs: those submitted within the evaluated days. Whether a replay repeats what happened is for `tracecast simulate` to say, with its fidelity gate; the differences here are between replays. The optimum here is that of energy alone, with each pool on its own nodes and every job when the plan ran it: at the service that the plan delivered.")
            .with_table(table);
        if let Some(replay) = self.effects.get(FOLLOWED) {
            let points = |of: fn(&Moment) -> f64| {
                replay.timeline.iter().map(|at| (self.seconds(at.at_ms), of(at))).collect::<Vec<(f64, f64)>>()
            };
            let chart = Chart::xy(
                "resimulated",
                format!("Nodes under: {}", replay.effect.name),
                self.time_axis(),
                Axis::linear("Nodes"),
                vec![
                    ChartSeries::new("busy", Mark::Area, points(|at| at.busy)),
                    ChartSeries::new("powered", Mark::Step, points(|at| f64::from(at.powered))),
                ],
            );
            section = section.with_chart(chart);
        }
        section
    }
}
