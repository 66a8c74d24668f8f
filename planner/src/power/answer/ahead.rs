//! What to do from now on, which a power plan opens with: the first slot after the data, what is left of a promise, and the schedule of the next day.

use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use super::PowerAnswer;
use super::words::{set, spelled};
use crate::power::decide::{Decision, Held};
use crate::power::family::Family;
use crate::power::forward::{DaySchedule, Forward};

/// Why so many nodes are powered, of a decision.
fn because(now: &Decision) -> String {
    match now.held {
        Held::ByTheRule => String::new(),
        Held::ByThePromise => format!(" The rule alone would power {:.0}; the promise needs more.", now.wished),
        Held::PromiseIsBroken => " More was missed than was promised, so all nodes stay on.".to_owned(),
    }
}

/// `2024-03-31 16:00` of `2024-03-31T16:00:00Z`.
fn moment(at: &str) -> String {
    at.strip_suffix(":00Z").or(at.strip_suffix('Z')).unwrap_or(at).replacen('T', " ", 1)
}

impl PowerAnswer {
    /// The section.
    pub(super) fn ahead(&self) -> Section {
        let section = Section::new("power-now", "From now on");
        let section = match self.forward.as_slice() {
            [only] => self.one(section, only),
            all => section
                .with_finding(format!("Each of the {} VCs is decided by itself; the table has them all.", all.len()))
                .with_table(self.next_slot()),
        };
        section
            .with_text(
                "A loop beside the scheduler asks for each slot that follows: keep the plan with `--save plan.tcm`, then \
                 `tracecast decide power --plan plan.tcm STATE` with the latest counts. It keeps the account of the promise, too.",
            )
            .with_definition(
                "Unserved node-slots: slots in which a node was needed and none was ready, added over nodes. A node-wake is one wake of one node.",
            )
    }

    /// One pool: its first slot in words, and its schedule hour by hour.
    fn one(&self, section: Section, ahead: &Forward) -> Section {
        let now = &ahead.now;
        let mut finding = format!(
            "From **{} UTC** on, power **{:.0}** of {:.0} nodes, so that {:.0} sleep: {} ({}), fitted on all days, says so.{}",
            moment(&now.at),
            now.powered,
            now.total,
            now.asleep,
            spelled(Family::of(&ahead.setting)),
            set(&ahead.setting, self.slot_s),
            because(now)
        );
        if let (Some(left), Some(until)) = (&now.left, &now.promised_until) {
            finding.push_str(&format!(
                " The promise runs until {} UTC: at most {} unserved node-slots and {} node-wakes.",
                moment(until),
                format::compact(left.unserved_left),
                format::compact(left.wakes_left)
            ));
        }
        let section =
            now.notes.iter().fold(section.with_finding(finding), |section, note| section.with_text(note.as_str()));
        match (&ahead.schedule, &ahead.no_schedule) {
            (Some(schedule), _) => section.with_text(tried(schedule)).with_table(hours(schedule)),
            (None, Some(why)) => section.with_text(format!("There is no schedule of the next day: {why}.")),
            (None, None) => section,
        }
    }

    /// The first slot of each pool.
    fn next_slot(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "The next slot",
            vec![
                Column::text("Pool"),
                Column::text("From (UTC)"),
                Column::number("Power"),
                Column::number("Asleep"),
                Column::number("Nodes"),
                Column::text("Rule"),
                Column::text("Setting"),
            ],
        );
        for ahead in &self.forward {
            let now = &ahead.now;
            table.rows.push(vec![
                now.pool.as_str().into(),
                moment(&now.at).into(),
                Cell::float(now.powered, 0),
                Cell::float(now.asleep, 0),
                Cell::float(now.total, 0),
                spelled(Family::of(&ahead.setting)).into(),
                set(&ahead.setting, self.slot_s).into(),
            ]);
        }
        table.note =
            Some("The schedules of the next day are in the JSON form, and in what `--emit actions` writes.".to_owned());
        table
    }
}

/// What a schedule is, and what such schedules brought.
fn tried(schedule: &DaySchedule) -> String {
    format!(
        "Without a loop there is a schedule of the next day: of each hour the {} quantile of the forecast `{}`, and {} nodes beside. On {} tried later, \
         such schedules let {:.1} nodes sleep, at {} unserved node-slots and {} node-wakes a day. A schedule does not watch what comes, so no \
         promise is made for it.",
        format::percent(schedule.level),
        schedule.forecaster,
        format::compact(schedule.buffer),
        format::duration(schedule.tried_days * 86_400.0),
        schedule.nodes_asleep_mean,
        format::compact(schedule.realised.unserved_per_day),
        format::compact(schedule.realised.node_wakes_per_day)
    )
}

fn hours(schedule: &DaySchedule) -> ReportTable {
    let columns = vec![Column::text("From (UTC)"), Column::number("Expected need"), Column::number("Power")];
    let mut table = ReportTable::new("Schedule of the next day", columns);
    for hour in &schedule.hours {
        table.rows.push(vec![moment(&hour.at).into(), Cell::float(hour.expected, 0), Cell::float(hour.powered, 0)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_dates() {
        assert_eq!(moment("2024-03-31T16:00:00Z"), "2024-03-31 16:00");
        assert_eq!(moment("2024-03-31T16:00:30Z"), "2024-03-31 16:00:30");
    }
}
