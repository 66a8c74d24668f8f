//! What to do from now on, which a power plan opens with: the first slot after the data, what is left of a promise, and the schedule of the next day.

use tracecast_analytics::report::{Cell, ReportTable, Section, format};
use tracecast_analytics::time::Zone;

use super::PowerTrial;
use super::words::{set, spelled};
use crate::plan::tell;
use crate::power::forward::clock::Clock;
use crate::power::forward::decide::{Decision, Held};
use crate::power::forward::{DaySchedule, Forward};
use crate::power::rule::family::Family;

/// Why so many nodes are powered, of a decision.
fn because(now: &Decision) -> String {
    match now.held {
        Held::ByTheRule => String::new(),
        Held::ByThePromise => {
            format!(" The rule alone would power {}; the promise needs more.", format::float(now.wished, 0))
        }
        Held::PromiseIsBroken => " More was missed than was promised, so all nodes stay on.".to_owned(),
    }
}

impl PowerTrial {
    /// The section.
    pub(super) fn ahead(&self, forward: &[Forward]) -> Section {
        let section = Section::new("power-now", "From now on");
        let section = match forward {
            [only] => self.one(section, only),
            all => section
                .with_finding(format!("Each of the {} VCs is decided by itself; the table has them all.", all.len()))
                .with_table(self.next_slot(all)),
        };
        let promised = self.pool.promise.is_some() || self.vcs.iter().any(|vc| vc.promise.is_some());
        let account = if promised { " It keeps the account of the promise, too." } else { "" };
        section
            .with_text(format!(
                "A loop beside the scheduler asks for each slot that follows: keep the plan with `--save plan.tcm`, then \
                 `tracecast decide power --plan plan.tcm STATE` with the latest counts.{account}"
            ))
            .with_definition(
                "Unserved node-slots: slots in which a node was needed and none was ready, added over nodes. A node-wake is one wake of one node.",
            )
    }

    /// One pool: its first slot in words, and its schedule hour by hour.
    fn one(&self, section: Section, ahead: &Forward) -> Section {
        let (now, clock) = (&ahead.now, self.clock());
        let pooled = if self.vcs_as_they_stand.is_some() { ", as one pool of all VCs" } else { "" };
        let mut finding = format!(
            "In the slot from **{}** to {} ({}), **{}** of {} nodes stay on and {} sleep{pooled}, by the rule {} ({}), fitted on all days.{}",
            clock.moment(&now.at),
            clock.moment(&now.until),
            clock.name(),
            format::float(now.powered, 0),
            format::float(now.total, 0),
            format::float(now.asleep, 0),
            spelled(Family::of(&ahead.setting)),
            set(&ahead.setting, self.slot_s),
            because(now)
        );
        if let (Some(left), Some(until)) = (&now.left, &now.promised_until) {
            finding.push_str(&format!(
                " The promise runs until {} ({}): at most {} unserved node-slots and {} node-wakes in all till then.",
                clock.moment(until),
                clock.name(),
                format::compact(left.unserved_left),
                format::compact(left.wakes_left)
            ));
        }
        let section =
            now.notes.iter().fold(section.with_finding(finding), |section, note| section.with_text(note.as_str()));
        match (&ahead.schedule, &ahead.no_schedule) {
            (Some(schedule), _) => {
                let floor = self.pool.promise.filter(|_| schedule.all_on.is_none());
                let floor = floor.map_or_else(String::new, |_| format!(" {NO_FEWER}"));
                section.with_text(tried(schedule, now) + &floor).with_table(hours(schedule, &clock))
            }
            (None, Some(why)) => section.with_text(format!("There is no schedule of the next day: {why}.")),
            (None, None) => section,
        }
    }

    /// What tells moments: the zone of the trace, or the time since it began.
    pub(in crate::power) fn clock(&self) -> Clock {
        Clock::new(Zone::named(&self.zone).unwrap_or_else(|_| Zone::utc()), self.begins_ms)
    }

    /// The first slot of each pool.
    fn next_slot(&self, forward: &[Forward]) -> ReportTable {
        let clock = self.clock();
        let columns = format!(
            "Pool | From ({}) | #Nodes | #Power | #Asleep | #Schedule, first hour | Rule | Setting",
            clock.name()
        );
        let mut table = tell::table("The next slot", &columns);
        for ahead in forward {
            let now = &ahead.now;
            table.rows.push(vec![
                now.pool.as_str().into(),
                clock.moment(&now.at).into(),
                Cell::float(now.total, 0),
                Cell::float(now.powered, 0),
                Cell::float(now.asleep, 0),
                Cell::opt(first_hour(ahead), |powered| Cell::float(powered, 0)),
                spelled(Family::of(&ahead.setting)).into(),
                set(&ahead.setting, self.slot_s).into(),
            ]);
        }
        table.note = Some(format!(
            "The schedules of the next day are in the JSON form, and in what `--emit actions` writes. {LONGER}"
        ));
        table
    }
}

/// Why a schedule begins with more nodes than the rule.
const LONGER: &str = "A schedule is not looked at again within an hour, so that its first hour may power more than the rule does in its first slot, and never powers fewer.";

/// What holds a schedule up under a promise.
const NO_FEWER: &str = "Under a promise no hour powers fewer nodes than the first slot, as nobody looks again; the schedules that were tried had no such floor, so they slept more and left more unserved.";

/// Nodes that the schedule powers in its first hour.
fn first_hour(ahead: &Forward) -> Option<f64> {
    Some(ahead.schedule.as_ref()?.hours.first()?.powered)
}

/// What a schedule is, and what such schedules brought, beside what the rule decides now.
fn tried(schedule: &DaySchedule, now: &Decision) -> String {
    if let Some(why) = &schedule.all_on {
        return format!("Without a loop all nodes stay on over the next day: {why}.");
    }
    let now = now.powered;
    let mut powered = schedule.hours.iter().map(|hour| hour.powered);
    let begins = match (powered.next(), powered.next()) {
        (Some(first), _) if first > now => format!(
            " It begins with {} nodes where the rule has {}. {LONGER}",
            format::float(first, 0),
            format::float(now, 0)
        ),
        // Raised to what the rule decides, and no further.
        (Some(first), Some(usual)) if first == now && usual < now => format!(
            " Its first hour never powers fewer than the rule does in its first slot, {}: what is in use or waits then cannot sleep.",
            format::float(now, 0)
        ),
        _ => String::new(),
    };
    let days = schedule.tried_days;
    let service = &schedule.realised;
    format!(
        "Without a loop there is a schedule of the next day: of each hour the {} quantile of the forecast `{}`, and {} beside.{begins} On {} tried later, \
         such schedules let {} nodes sleep on average, with {} unserved node-slots a day and {} node-wakes a day ({} and {} in all these days). A schedule does not watch what comes, so no \
         promise is made for it.",
        format::percent(schedule.level),
        schedule.forecaster,
        format::counted(schedule.buffer as u64, "node", "nodes"),
        format::duration(days * 86_400.0),
        format::float(schedule.nodes_asleep_mean, 1),
        format::compact(service.unserved_per_day),
        format::compact(service.node_wakes_per_day),
        format::compact(service.unserved_per_day * days),
        format::compact(service.node_wakes_per_day * days)
    )
}

fn hours(schedule: &DaySchedule, clock: &Clock) -> ReportTable {
    let columns = format!("From ({}) | #Expected need | #Power", clock.name());
    let mut table = tell::table("Schedule of the next day", &columns);
    for hour in &schedule.hours {
        table.rows.push(vec![
            clock.moment(&hour.at).into(),
            Cell::float(hour.expected, 0),
            Cell::float(hour.powered, 0),
        ]);
    }
    table
}
