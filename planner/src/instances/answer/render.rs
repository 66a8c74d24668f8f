//! The answer of `plan rent instances` in words and tables.
//!
//! O(rows). Worked example: a forecast throughput has `between` in the column that says how it is known.

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::option::RentMarket;
use super::{InstancesAnswer, InstancesVerdict, RentGoal, RentSum, RentWay, RentedWay};
use crate::plan::money::money;

/// Jobs that are told one by one in a sentence.
const NAMED: usize = 3;
/// Jobs of which the ways are shown.
const SHOWN: usize = 10;

/// `1 × example.8a100 (8 A100-80GB)`.
fn rented(way: &RentWay) -> String {
    let spot = if way.option.market == RentMarket::Spot { " on spot" } else { "" };
    format!("{} × {}{spot} ({} × {})", way.option.instances, way.instance, way.option.gpus, way.gpu)
}

impl InstancesAnswer {
    fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Recommended action, in a sentence.
    pub(super) fn act(&self) -> String {
        let late: Vec<&RentedWay> = self.jobs.iter().filter(|job| job.front.is_empty()).collect();
        let of_late = |job: &&RentedWay| match (job.fastest_s, job.deadline_s) {
            (Some(fastest_s), Some(deadline_s)) => format!(
                "{} needs at least {}, and has {}",
                job.job,
                format::duration(fastest_s),
                format::duration(deadline_s)
            ),
            (Some(fastest_s), None) => format!("{} needs at least {}", job.job, format::duration(fastest_s)),
            (None, _) => format!(
                "{} was measured on no number of GPUs that an offer has (--most-instances allows several instances)",
                job.job
            ),
        };
        let mut said = late.iter().take(NAMED).map(of_late).collect::<Vec<_>>().join("; ");
        if late.len() > NAMED {
            said += &format!("; and {} more", late.len() - NAMED);
        }
        let late = if late.is_empty() { String::new() } else { format!(" No way was found for these: {said}.") };
        let Some(plan) = self.plan else {
            return match self.verdict {
                InstancesVerdict::NotWithinLimits => format!(
                    "**No plan**: no choice for all jobs was found within the limits of the offers{}. Allow more, or give jobs more time.{late}",
                    self.budget.map_or_else(String::new, |budget| format!(" and a budget of {}", self.money(budget)))
                ),
                _ => format!("**No plan.**{late}"),
            };
        };
        let ways: Vec<(&str, &RentWay)> =
            self.jobs.iter().filter_map(|job| Some((job.job.as_str(), job.way.as_ref()?))).collect();
        let mut each: Vec<String> =
            ways.iter().take(NAMED).map(|(job, way)| format!("{} for {job}", rented(way))).collect();
        if ways.len() > NAMED {
            each.push(format!("and so on for {} more", ways.len() - NAMED));
        }
        let time = if ways.len() == 1 {
            format!("done after {}", format::duration(plan.longest_s))
        } else {
            format!("the longest done after {}", format::duration(plan.longest_s))
        };
        let least = match self.goal {
            RentGoal::Cost => "cost",
            RentGoal::Time => "mean time",
        };
        let proved = match self.gap.filter(|gap| *gap > 1e-6) {
            None => format!("no choice has a lower {least}"),
            Some(gap) => format!("no choice has a {least} that is lower by more than {}", format::percent(gap)),
        };
        format!("**Rent {}**: {}, {time}; {proved}.{late}", each.join("; "), self.money(plan.cost))
    }

    /// The answer as a report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(
            format!("Which instances for which job? {}", self.title),
            format::counted(self.jobs.len() as u64, "job", "jobs"),
        );
        report.summary = vec![self.action.clone()];
        if let (Some(plan), Some(naive)) = (self.plan, self.least_an_hour) {
            let mean = if self.jobs.len() > 1 { " on average" } else { "" };
            let against = |other: RentSum| {
                let beyond = if other.is_possible { "" } else { " (beyond limits or budget)" };
                format!("{} and {}{mean}{beyond}", self.money(other.cost), format::duration(other.mean_time_s))
            };
            let fastest =
                self.fastest.map_or_else(String::new, |fastest| format!("; as fast as possible {}", against(fastest)));
            report.summary.push(format!(
                "The plan takes {}. On what costs least an hour and keeps each deadline the same jobs take {}{fastest}.",
                against(plan),
                against(naive)
            ));
        }
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.jobs_section(), self.front_section()];
        report.sections.extend(self.test_section());
        report.sections.extend(self.across_section());
        report
    }

    fn columns(first: &str) -> Vec<Column> {
        vec![
            Column::text(first),
            Column::text("Instances"),
            Column::text("Terms"),
            Column::number("GPUs used"),
            Column::number("Steps a second"),
            Column::text("Known"),
            Column::number("Time"),
            Column::number("Cost"),
        ]
    }

    fn cells(&self, name: &str, way: &RentWay) -> Vec<Cell> {
        vec![
            name.into(),
            format!("{} × {}", way.option.instances, way.instance).into(),
            way.option.market.in_words().into(),
            Cell::Int(i64::from(way.option.gpus)),
            Cell::Compact(way.option.steps_per_s),
            way.option.basis.in_words().into(),
            Cell::Duration(way.option.time_s),
            Cell::float(way.option.cost, 2),
        ]
    }

    fn jobs_section(&self) -> Section {
        let mut columns = Self::columns("Job");
        columns.push(Column::number("Deadline"));
        let mut table = ReportTable::new(format!("One way for each job ({})", self.currency), columns);
        for job in &self.jobs {
            let mut row = match &job.way {
                Some(way) => self.cells(&job.job, way),
                None => {
                    let mut row: Vec<Cell> = vec![job.job.as_str().into(), "none".into()];
                    row.resize_with(8, || Cell::from(""));
                    row
                }
            };
            row.push(Cell::opt(job.deadline_s, Cell::Duration));
            table.rows.push(row);
        }
        Section::new("instances", "What to rent")
            .with_table(table)
            .with_definition("Time: from the order of the instances to the end of the job, as expected. Cost: of that time, in whole billing units, for all GPUs of the instances.")
            .with_definition("Known: measured, on one machine or on machines apart, or forecast between or beyond the numbers of GPUs that were measured. A deadline is compared with the forecast with its margin.")
    }

    fn front_section(&self) -> Section {
        let mut table = ReportTable::new(format!("Faster for more ({})", self.currency), Self::columns("Job"));
        for job in self.jobs.iter().take(SHOWN) {
            table.rows.extend(job.front.iter().map(|way| self.cells(&job.job, way)));
        }
        let more = self.jobs.len().saturating_sub(SHOWN);
        let section = Section::new("front", "What faster would cost").with_table(table).with_definition(
            "Ways of which no other is as fast and as cheap, the cheapest first; those alone that keep the deadline.",
        );
        if more > 0 { section.with_text(format!("{more} more jobs are in the JSON.")) } else { section }
    }

    fn test_section(&self) -> Option<Section> {
        if self.scaling.is_empty() {
            return None;
        }
        let mut scaling = ReportTable::new(
            "Forecasts of numbers of GPUs that were hidden",
            vec![
                Column::text("Way"),
                Column::text("Hidden"),
                Column::number("Numbers"),
                Column::number("Mean error"),
                Column::number("Margin held"),
            ],
        );
        for score in &self.scaling {
            scaling.rows.push(vec![
                score.model.map_or("chosen on other families", |model| model.name()).into(),
                score.basis.in_words().trim_start_matches("forecast ").into(),
                Cell::Int(score.hidden as i64),
                Cell::Percent(score.mean_error),
                Cell::opt(score.margin_kept, Cell::Percent),
            ]);
        }
        let mut section = Section::new("test", "How well choices by forecasts do").with_table(scaling).with_definition(
            "Mean error: |truth / forecast − 1|. Margin held: the truth was at least the forecast with the margin, which is to be so in 90 % of the cases.",
        );
        if let Some(test) = &self.test {
            let mut rules = ReportTable::new(
                format!("Choices for {}", format::counted(test.job_types, "job type", "job types")),
                vec![
                    Column::text("Rule"),
                    Column::number("Cases"),
                    Column::number("Found none"),
                    Column::number("Missed the deadline"),
                    Column::number("Cost over all known"),
                    Column::number("Measured only, there"),
                ],
            );
            for score in &test.rules {
                rules.rows.push(vec![
                    score.rule.in_words().into(),
                    Cell::Int(score.cases as i64),
                    Cell::Int(score.found_none as i64),
                    Cell::Int(score.missed as i64),
                    Cell::opt(score.cost_over_known, |value| Cell::Float { value, digits: 3 }),
                    Cell::opt(score.measured_only_there, |value| Cell::Float { value, digits: 3 }),
                ]);
            }
            section = section.with_table(rules).with_definition(
                "Each job type was measured on several numbers of GPUs; those between the least and the greatest were hidden, with those of its family. It makes what the fastest way makes in a day, without a deadline and within 4, 2 and 1.2 days. Costs are of the cases in which the rule kept the deadline; the last column is what the cheapest of what is measured costs in the same cases.",
            );
        }
        Some(section)
    }

    fn across_section(&self) -> Option<Section> {
        let test = self.across.as_ref()?;
        let mut rules = ReportTable::new(
            format!("Choices for {}", format::counted(test.job_types, "job type", "job types")),
            vec![
                Column::text("Throughput on several instances"),
                Column::number("Cases"),
                Column::number("Found none"),
                Column::number("Missed the deadline"),
                Column::number("On several"),
                Column::number("Cost over the plan's"),
            ],
        );
        for score in &test.rules {
            rules.rows.push(vec![
                score.rule.in_words().into(),
                Cell::Int(score.cases as i64),
                Cell::Int(score.found_none as i64),
                Cell::Int(score.missed as i64),
                Cell::Int(score.on_several as i64),
                Cell::opt(score.cost_over_known, |value| Cell::Float { value, digits: 3 }),
            ]);
        }
        let section = Section::new("across", "What taking one machine for several would cost").with_table(rules).with_definition(
            "Job types that were measured with each GPU on a machine of its own, on instances of one GPU or on one instance. Each makes what the fastest way makes in a day, without a deadline and within 4, 2 and 1.2 days. Costs are of the cases in which the deadline was kept.",
        );
        Some(section)
    }
}
