//! A20: GPU-hours lost, by user and by VC.
//!
//! Lost is what jobs held that failed or were cancelled and, of all other jobs, the GPU time in
//! which no kernel ran. The three parts do not overlap, so they add up. Idle time is known only of
//! jobs with a known utilisation ([`super::usage`]): a loss is at least what is known of it.
//!
//! Complexity: O(n + h log h) for n jobs and h users and VCs; the utilisation is shared with A11.
//!
//! Worked number: a failed job of 4 GPU-hours, a completed one of 4 at 75 % and a completed one of
//! 2 without readings held 10 GPU-hours and lost at least 4 + 4 · 0.25 = 5.

use schemars::JsonSchema;
use serde::Serialize;

use super::failure::FAILURES;
use super::summary::int;
use super::topic::{RANKED, Topic, TopicResult, hours, larger_first, more, share};
use super::usage::utilisation;
use crate::facts::JobFacts;
use crate::report::format::{compact, count, counted, percent};
use crate::report::{Cell, Column, ReportTable, Section};
use crate::schema::{JobState, Label};
use crate::stats::sum::NeumaierSum;

/// GPU-hours that some jobs held, and what was lost of them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HeldAndLost {
    /// User or VC, as the source names it; `all` for all jobs.
    pub name: String,
    /// Jobs that held GPUs for a known time.
    pub jobs: u64,
    /// GPU-hours that they held.
    pub held_gpu_hours: f64,
    /// GPU-hours of jobs that failed, timed out, ran out of memory or lost a node; `null` where no
    /// state is known.
    pub failed_gpu_hours: Option<f64>,
    /// GPU-hours of cancelled jobs; `null` where no state is known.
    pub cancelled_gpu_hours: Option<f64>,
    /// GPU-hours of all other jobs in which no kernel ran; `null` where no utilisation is known.
    pub idle_gpu_hours: Option<f64>,
    /// Share of the GPU time of all other jobs of which the utilisation is known.
    pub utilisation_coverage: Option<f64>,
    /// Sum of the three as far as they are known; `null` where none is.
    pub lost_gpu_hours: Option<f64>,
}

/// GPU-hours lost.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Lost {
    /// All jobs.
    pub all: HeldAndLost,
    /// Jobs whose GPU time is unknown, those that never ran among them.
    pub unknown_gpu_time_jobs: u64,
    /// Lost GPU time by user, most lost first.
    pub users: Vec<HeldAndLost>,
    /// Lost GPU time by VC, partition or queue, most lost first.
    pub vcs: Vec<HeldAndLost>,
}

/// GPU-seconds of some jobs.
#[derive(Debug, Clone, Default)]
struct Sums {
    jobs: u64,
    known_states: u64,
    held: NeumaierSum,
    failed: NeumaierSum,
    cancelled: NeumaierSum,
    others: NeumaierSum,
    measured: NeumaierSum,
    idle: NeumaierSum,
}

impl Sums {
    fn add(&mut self, gpu_s: f64, state: JobState, utilisation: Option<f64>) {
        self.jobs += 1;
        self.known_states += u64::from(state != JobState::Unknown);
        self.held.add(gpu_s);
        if FAILURES.contains(&state) {
            self.failed.add(gpu_s);
        } else if state == JobState::Cancelled {
            self.cancelled.add(gpu_s);
        } else {
            self.others.add(gpu_s);
            if let Some(ratio) = utilisation {
                self.measured.add(gpu_s);
                self.idle.add(gpu_s * (1.0 - ratio).max(0.0));
            }
        }
    }

    fn finish(&self, name: &str) -> HeldAndLost {
        let of_state = |sum: &NeumaierSum| (self.known_states > 0).then(|| hours(sum.value()));
        let (failed, cancelled) = (of_state(&self.failed), of_state(&self.cancelled));
        let idle = (self.measured.value() > 0.0).then(|| hours(self.idle.value()));
        HeldAndLost {
            name: name.to_owned(),
            jobs: self.jobs,
            held_gpu_hours: hours(self.held.value()),
            failed_gpu_hours: failed,
            cancelled_gpu_hours: cancelled,
            idle_gpu_hours: idle,
            utilisation_coverage: share(self.measured.value(), self.others.value()),
            lost_gpu_hours: [failed, cancelled, idle].into_iter().flatten().reduce(|a, b| a + b),
        }
    }
}

impl Topic for Lost {
    const ID: &'static str = "lost";
    const CODE: &'static str = "A20";
    const TITLE: &'static str = "GPU-hours lost";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let jobs = &facts.trace.jobs;
        let utilisation = utilisation(facts);
        let mut all = Sums::default();
        let mut users = vec![Sums::default(); jobs.user.distinct()];
        let mut vcs = vec![Sums::default(); jobs.vc.distinct()];
        let mut unknown_gpu_time_jobs = 0;
        for job in 0..facts.len() {
            let Some(gpu_s) = facts.gpu_s(job) else {
                unknown_gpu_time_jobs += 1;
                continue;
            };
            if gpu_s <= 0.0 {
                continue;
            }
            let user = jobs.user.code(job).and_then(|code| users.get_mut(code as usize));
            let vc = jobs.vc.code(job).and_then(|code| vcs.get_mut(code as usize));
            let ratio = utilisation.get(job).copied().flatten().map(|job| job.ratio);
            for sums in [Some(&mut all), user, vc].into_iter().flatten() {
                sums.add(gpu_s, facts.state(job), ratio);
            }
        }
        let all = all.finish("all");
        if all.lost_gpu_hours.is_none() {
            let why = "the source records neither how jobs with GPU time ended nor how busy their GPUs were";
            return Err(why.to_owned());
        }
        Ok(Self { all, unknown_gpu_time_jobs, users: ranked(&users, &jobs.user), vcs: ranked(&vcs, &jobs.vc) })
    }

    fn section(&self) -> Section {
        let all = &self.all;
        let mut coverage = format!(
            "{} GPU-hours of {}; the GPU time of {} is unknown.",
            compact(all.held_gpu_hours),
            counted(all.jobs, "job", "jobs"),
            count(self.unknown_gpu_time_jobs)
        );
        coverage.push_str(&match all.utilisation_coverage.filter(|_| all.idle_gpu_hours.is_some()) {
            Some(known) => {
                format!(
                    " Of the jobs that neither failed nor were cancelled, {} of the GPU time is metered.",
                    percent(known)
                )
            }
            None => " No utilisation is known, so idle time is not in it.".to_owned(),
        });
        let mut section = Self::heading().with_finding(self.finding()).with_gpu_hours(all.lost_gpu_hours);
        for (rows, head, words) in [(&self.users, "User", ["user", "users"]), (&self.vcs, "VC", ["VC", "VCs"])] {
            if !rows.is_empty() {
                section = section.with_table(table(rows, head, words));
            }
        }
        section
            .with_definition(
                "Lost: GPU-hours of jobs that failed, timed out, ran out of memory or lost a node; of cancelled jobs; and of \
                 all other jobs the time in which no kernel ran, where their utilisation is known (Metered is their share).",
            )
            .with_coverage(coverage)
    }
}

impl Lost {
    fn finding(&self) -> String {
        let all = &self.all;
        let lost = all.lost_gpu_hours.unwrap_or_default();
        let part = |hours: Option<f64>| hours.map_or_else(|| "an unknown part".to_owned(), compact);
        let mut text = format!(
            "Of **{}** GPU-hours that jobs held, at least **{}** ({}) were lost: {} in jobs that failed, {} in cancelled \
             jobs, {} idle in other jobs.",
            compact(all.held_gpu_hours),
            compact(lost),
            share(lost, all.held_gpu_hours).map_or_else(String::new, percent),
            part(all.failed_gpu_hours),
            part(all.cancelled_gpu_hours),
            part(all.idle_gpu_hours)
        );
        if let Some(first) = self.users.first()
            && let Some(of_all) = first.lost_gpu_hours.and_then(|hours| share(hours, lost))
        {
            text.push_str(&format!(" {} lost most: **{}** of it.", first.name, percent(of_all)));
        }
        text
    }
}

/// Returns the holders with GPU time, most lost first.
fn ranked(sums: &[Sums], names: &Label) -> Vec<HeldAndLost> {
    let named = (0..).map_while(|code| names.name(code)).zip(sums);
    let mut rows: Vec<HeldAndLost> =
        named.filter(|(_, sums)| sums.jobs > 0).map(|(name, sums)| sums.finish(name)).collect();
    rows.sort_by(|a, b| {
        larger_first(a.lost_gpu_hours, b.lost_gpu_hours)
            .then(b.held_gpu_hours.total_cmp(&a.held_gpu_hours))
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn table(rows: &[HeldAndLost], head: &str, [one, many]: [&str; 2]) -> ReportTable {
    let mut columns = vec![Column::text(head), Column::number("Jobs")];
    columns.extend(["Held", "Lost", "Failed", "Cancelled", "Idle"].map(|name| Column::with_unit(name, "GPU-hours")));
    columns.push(Column::number("Metered"));
    let mut table = ReportTable::new(format!("GPU-hours lost, by {one}"), columns);
    let amount = |hours| Cell::opt(hours, |value| Cell::Float { value, digits: 1 });
    for row in rows.iter().take(RANKED) {
        let mut cells = vec![row.name.as_str().into(), int(row.jobs)];
        let parts = [row.lost_gpu_hours, row.failed_gpu_hours, row.cancelled_gpu_hours, row.idle_gpu_hours];
        cells.extend([Some(row.held_gpu_hours)].into_iter().chain(parts).map(amount));
        cells.push(Cell::opt(row.utilisation_coverage, Cell::Percent));
        table.rows.push(cells);
    }
    table.note = more(rows.len(), &format!("more {one}"), &format!("more {many}"));
    table
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::JobRow;

    fn push(trace: &mut Trace, user: Option<&str>, vc: &str, gpu_hours: f64, state: &str, util: Option<f64>) {
        trace.jobs.push(JobRow {
            user: user.map(|user| user.to_owned().into()),
            vc: Some(vc.to_owned().into()),
            alloc_gpus: Some(gpu_hours),
            run_s: Some(3_600.0),
            state: Some(state.to_owned().into()),
            reported_gpu_util_ratio: util,
            ..JobRow::default()
        });
    }

    #[test]
    fn the_worked_number_with_what_each_user_and_vc_lost() {
        let mut trace = Trace::default();
        // The idle half of a failed job is lost once, not twice.
        push(&mut trace, Some("ann"), "x", 4.0, "failed", Some(0.5));
        push(&mut trace, Some("bob"), "x", 4.0, "completed", Some(0.75));
        push(&mut trace, Some("bob"), "y", 2.0, "completed", None);
        let lost = Lost::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((lost.all.held_gpu_hours, lost.all.lost_gpu_hours), (10.0, Some(5.0)));
        let row = |r: &HeldAndLost| (r.name.clone(), r.failed_gpu_hours, r.idle_gpu_hours, r.lost_gpu_hours);
        let rows = |rows: &[HeldAndLost]| rows.iter().map(row).collect::<Vec<_>>();
        // Nothing is known of how busy ann's other GPUs were, as she has no other job.
        let ann = ("ann".to_owned(), Some(4.0), None, Some(4.0));
        assert_eq!(rows(&lost.users), [ann, ("bob".to_owned(), Some(0.0), Some(1.0), Some(1.0))]);
        assert_eq!(lost.users[1].utilisation_coverage, Some(4.0 / 6.0));
        let y = ("y".to_owned(), Some(0.0), None, Some(0.0));
        assert_eq!(rows(&lost.vcs), [("x".to_owned(), Some(4.0), Some(1.0), Some(5.0)), y]);
    }

    #[test]
    fn what_nobody_recorded_is_no_loss_and_no_zero() {
        let mut trace = Trace::default();
        push(&mut trace, None, "x", 4.0, "unknown", None);
        assert!(Lost::of(&JobFacts::new(&trace)).is_err());
        push(&mut trace, Some("cid"), "y", 1.0, "cancelled", None);
        trace.jobs.push(JobRow { user: Some("cid".into()), ..JobRow::default() });
        let lost = Lost::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!(
            (lost.all.lost_gpu_hours, lost.all.idle_gpu_hours, lost.unknown_gpu_time_jobs),
            (Some(1.0), None, 1)
        );
        let vcs: Vec<_> = lost.vcs.iter().map(|vc| (vc.name.as_str(), vc.lost_gpu_hours)).collect();
        assert_eq!(vcs, [("y", Some(1.0)), ("x", None)]);
        assert_eq!((lost.users.len(), lost.users[0].cancelled_gpu_hours), (1, Some(1.0)));
    }
}
