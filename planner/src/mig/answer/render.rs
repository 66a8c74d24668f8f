//! The answer of `plan share mig` as a report.
//!
//! O(job types × profiles). Worked example: a forecast speed of 0.62 with a slowdown of 2.1 at the 0.9 quantile, at an SLO of 2, is shown as "0.62 (2.10) f, too slow".

use tracecast_analytics::report::{Cell, Column, Report, ReportTable, Section, format};

use super::super::rule::{MigRule, MigTried};
use super::super::speed::SpeedBasis;
use super::super::study::MigReplayed;
use super::advise::{gpus, jobs, partitions};
use super::{MigAnswer, MigBody, MigTested, MigTrial};
use crate::plan::emit::own::left_in_words;
use crate::plan::tell;

/// A slowdown from which on a forecast says no more than that.
const SLOWEST: f64 = 20.0;

/// The answer as a report.
pub fn report(answer: &MigAnswer) -> Report {
    let (trial, body) = (&answer.trial, &answer.body);
    let what = match body.gpus_given {
        Some(count) => format!("the most progress on {count} {} GPUs", body.gpu),
        None => format!("the fewest {} GPUs", body.gpu),
    };
    let carried = if body.busy.is_some() {
        format!("{} jobs an hour, a load of {} whole GPUs", jobs(body.jobs()), format::float(body.load, 1))
    } else {
        format!("{} jobs at once", jobs(body.jobs()))
    };
    let subtitle = format!("{what} for {carried}, none more than {} times as slow", format::float(body.slo, 2));
    let mut sections = vec![body.plan_section(answer), body.beside_section()];
    sections.extend(trial.replayed.as_ref().map(replayed_section));
    sections.extend(trial.tested.as_ref().map(|tested| body.tested_section(tested)));
    sections.push(body.speeds_section());
    let harmed = answer.recommendation.iter().flat_map(|change| &change.harmed);
    let harmed = harmed.map(|harm| format!("{} {}.", harm.who, harm.how_much));
    let said = body.summary(trial).into_iter().chain(harmed).chain(left_in_words(&body.not_in_patch)).collect();
    tell::report(answer, ("Which GPUs should be partitioned?", subtitle), said, sections)
}

impl MigBody {
    fn summary(&self, trial: &MigTrial) -> Vec<String> {
        let mut said = vec![self.bound_in_words(trial.replayed.is_some())];
        match (self.beside(MigRule::OnePartition), self.gpus_given) {
            (Some(one), Some(_)) => said.push(format!(
                "The best partition for all GPUs, {}, makes {}.",
                partitions(&one.partitions, "`"),
                format::float(one.progress, 2)
            )),
            (Some(one), None) => {
                said.push(format!(
                    "The best partition for all GPUs needs {}: {}.",
                    gpus(one.gpus),
                    partitions(&one.partitions, "`")
                ));
            }
            (None, _) => said.push("No one partition has room for all job types.".to_owned()),
        }
        if self.plan.waiting > 0.0 {
            said.push(format!("{} of {} jobs have no room on these GPUs.", jobs(self.plan.waiting), jobs(self.jobs())));
        }
        if let Some(change) = &self.change {
            said.push(format!(
                "{} of the plan have their partition already and {} do not: {} are drained for {} each, which costs {} GPU-hours.",
                gpus(change.kept),
                format::count(u64::from(change.changed)),
                gpus(change.drained),
                format::duration(change.drain_s),
                format::float(change.gpu_hours, 1)
            ));
        }
        trial.replayed.iter().for_each(|replayed| said.extend(replayed_in_words(replayed, self.plan.rule)));
        if let Some(tested) = &trial.tested {
            let told = |rule: MigRule| {
                let tried = tested.rule(rule)?;
                Some(format!(
                    "{}: {}, {} of the jobs beyond the SLO, {} on slices that were not measured",
                    rule.in_words(),
                    match self.gpus_given {
                        Some(_) => format!("progress {}", format::float(tried.progress, 2)),
                        None => gpus(tried.gpus),
                    },
                    format::percent(tried.over_slo),
                    format::percent(tried.not_measured)
                ))
            };
            let rules = [MigRule::Forecast, MigRule::MeanForecast, MigRule::Oracle];
            said.push(format!(
                "If no family had been measured on a slice: {}.",
                rules.into_iter().filter_map(told).collect::<Vec<_>>().join("; ")
            ));
        }
        said
    }

    fn plan_section(&self, answer: &MigAnswer) -> Section {
        let mut fleet = tell::table("Partitions", "Partition | #GPUs | #Slices of each");
        for of in &self.plan.partitions {
            let slices: u32 = of.slices.iter().map(|slice| slice.count).sum();
            fleet.rows.push(vec![
                of.partition.as_str().into(),
                Cell::Int(i64::from(of.gpus)),
                Cell::Int(i64::from(slices)),
            ]);
        }
        let mut placed = tell::table(
            "Where jobs go",
            &format!(
                "Job type | Slice | #Slices held | #{} | #Speed | #Slowdown, 0.9 | Known by",
                if self.busy.is_some() { "Jobs an hour" } else { "Jobs" }
            ),
        );
        for of in &self.placed {
            placed.rows.push(vec![
                of.job.as_str().into(),
                of.profile.as_str().into(),
                Cell::float(of.slices, 2),
                Cell::float(of.jobs, 1),
                Cell::float(of.speed, 2),
                Cell::float(of.slowdown90, 2),
                basis(of.basis).into(),
            ]);
        }
        // Who is advised to change nothing sees what that was decided on.
        let title = if answer.is_advised() { "What to set" } else { "What the plan would set" };
        Section::new("mig-plan", title)
            .with_finding(answer.action.clone())
            .with_table(fleet)
            .with_table(placed)
            .with_definition("**Partition**: profiles joined by `+`; `2x` are two of one; `whole` is a GPU on which MIG is off.")
            .with_definition("**Speed**: relative to the whole GPU. **Slowdown, 0.9**: the job is at most so many times as slow, with a chance of 90 %.")
    }

    fn columns(&self, tested: bool) -> Vec<Column> {
        let bound = if self.gpus_given.is_some() { "Most progress" } else { "Fewest GPUs" };
        let measured = if self.busy.is_some() { "Slices held, measured" } else { "Progress, measured" };
        let tested = if tested { format!(" | #{measured} | #Beyond the SLO | #Not measured") } else { String::new() };
        tell::columns(&format!(
            "Fleet | #GPUs | Partitions | #Progress, as believed | #{bound} | #Jobs without room{tested}"
        ))
    }

    fn row(&self, of: &MigTried, tested: bool) -> Vec<Cell> {
        let mut cells: Vec<Cell> = vec![
            of.rule.in_words().into(),
            Cell::Int(i64::from(of.gpus)),
            partitions(&of.partitions, "").into(),
            Cell::float(of.progress, 2),
            Cell::float(of.bound, if self.gpus_given.is_some() { 2 } else { 0 }),
            Cell::float(of.waiting, 1),
        ];
        if tested {
            cells.extend([
                if self.busy.is_some() {
                    Cell::opt(of.measured_busy, Cell::share)
                } else {
                    Cell::opt(of.measured_progress, |progress| Cell::float(progress, 2))
                },
                Cell::share(of.over_slo),
                Cell::share(of.not_measured),
            ]);
        }
        cells
    }

    fn beside_section(&self) -> Section {
        let mut table = ReportTable::new("Fleets beside the plan", self.columns(false));
        let others = self.beside.iter().filter(|of| of.rule != self.plan.rule);
        table.rows = others.chain([&self.plan]).map(|of| self.row(of, false)).collect();
        let bound = "**Fewest GPUs** and **most progress** are bounds of the programme with the partitions of that row: no fleet of them is better.";
        Section::new("mig-beside", "What else could be set")
            .with_table(table)
            .with_definition("**Progress**: speeds of all slices that are held, in whole GPUs.")
            .with_definition(bound)
    }

    fn tested_section(&self, tested: &MigTested) -> Section {
        let mut table = ReportTable::new("Fleets chosen without step times of the families", self.columns(true));
        table.rows = tested.rules.iter().map(|of| self.row(of, true)).collect();
        Section::new("mig-tested", "What forecasts are worth")
            .with_table(table)
            .with_coverage(format!(
                "{} of {} on {}; {} of {} measured speeds are no lower than what was forecast at 90 %.",
                format::counted(tested.job_types as u64, "job type", "job types"),
                format::counted(tested.families as u64, "family", "families"),
                tested.profiles.join(", "),
                format::percent(tested.held),
                format::count(tested.speeds as u64)
            ))
            .with_definition("Each family is forecast without any step time of its own. What was measured then says how fast its jobs are.")
            .with_definition("**Beyond the SLO**: share of the placed jobs. **Not measured**: on slices where their type has no step time: it did not fit, or nobody tried.")
    }

    fn speeds_section(&self) -> Section {
        let mut columns = vec![Column::text("Job type")];
        columns.extend(self.profiles.iter().map(|profile| Column::text(profile.profile.clone())));
        let mut table = ReportTable::new("Speed (slowdown at the 0.9 quantile)", columns);
        for of in self.speeds.chunks(self.profiles.len().max(1)) {
            let Some(first) = of.first() else { continue };
            let mut cells: Vec<Cell> = vec![first.job.as_str().into()];
            cells.extend(of.iter().map(|speed| {
                let told = speed.speed.map_or_else(
                    || "–".to_owned(),
                    |told| {
                        let slow = speed.slowdown90.filter(|slow| *slow < SLOWEST);
                        let slow = slow.map_or_else(|| format!("above {SLOWEST}"), |slow| format::float(slow, 2));
                        format!(
                            "{} ({slow}){}",
                            format::float(told, 2),
                            if speed.basis == SpeedBasis::Forecast { " f" } else { "" }
                        )
                    },
                );
                let why = match (speed.allowed, speed.fits) {
                    (true, _) => "",
                    (false, true) => ", too slow",
                    (false, false) => ", does not fit",
                };
                Cell::from(if speed.speed.is_some() { format!("{told}{why}") } else { told })
            }));
            table.rows.push(cells);
        }
        Section::new("mig-speeds", "How fast jobs are on slices")
            .with_table(table)
            .with_definition("**f**: forecast; else measured. **Does not fit**: the memory that it uses on the whole GPU is more than the slice lets it use, or is not known.")
    }
}

/// Fleets on later jobs.
fn replayed_section(replayed: &MigReplayed) -> Section {
    let mut table = tell::table(
        "Fleets chosen on the earlier jobs, and the later jobs on them",
        "Fleet | #GPUs | Partitions | #Slices held, at most | #Mean wait | #95 % wait | #Mean delay | #Slowdown, 0.9 | #Beyond the SLO | #Failed | #Whole GPUs instead",
    );
    for of in &replayed.fleets {
        let slice = if of.any_slice { ", any slice that keeps the SLO" } else { "" };
        table.rows.push(vec![
            format!("{}{slice}", of.rule.in_words()).into(),
            Cell::Int(i64::from(of.gpus)),
            partitions(&of.partitions, "").into(),
            Cell::share(of.busy),
            Cell::Duration(of.later.mean_wait_s),
            Cell::opt(of.later.p95_wait_s, Cell::Duration),
            Cell::Duration(of.later.mean_delay_s),
            Cell::opt(of.later.slowdown90, |slowdown| Cell::float(slowdown, 2)),
            Cell::share(of.later.over_slo),
            Cell::Int(of.later.failed as i64),
            Cell::opt(of.whole_instead.map(i64::from), Cell::Int),
        ]);
    }
    Section::new("mig-replayed", "What it would have done to later jobs")
            .with_table(table)
            .with_coverage(format!(
                "{} before {}, {} after it.",
                format::counted(replayed.earlier_jobs as u64, "job", "jobs"),
                replayed.eval_from,
                format::count(replayed.later_jobs as u64)
            ))
            .with_definition(format!(
                "Each fleet is the smallest found on which 95 % of each third of the earlier jobs wait at most {} by the speeds that it believes: shares of the time that slices are held are tried by bisection. The later jobs are replayed on it with the measured speeds.{}",
                format::duration(replayed.target_p95_wait_s),
                not_kept(replayed)
            ))
            .with_definition("**Delay**: from submission to end less the run on a whole GPU. **Beyond the SLO**: share of the later jobs that were slower than it allows, or had no room. **Failed**: how often a job did not fit on its slice, or was not measured there.")
            .with_definition("**Whole GPUs instead**: the fewest with which the later jobs wait no longer, at 95 %. The fleet with every speed known is chosen on the later jobs themselves.")
}

/// Rules without a fleet, in a sentence.
fn not_kept(replayed: &MigReplayed) -> String {
    if replayed.not_kept.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = replayed.not_kept.iter().map(|rule| rule.in_words()).collect();
    format!(" Not in the table, as no fleet that was tried kept that: {}.", names.join(", "))
}

/// The plan on later jobs, in a sentence.
fn replayed_in_words(replayed: &MigReplayed, rule: MigRule) -> Option<String> {
    let (plan, whole) = (replayed.fleet(rule)?, replayed.fleet(MigRule::WholeGpus)?);
    let wait = |of: Option<f64>| of.map_or_else(|| "for ever".to_owned(), format::duration);
    Some(format!(
        "Chosen on the earlier jobs, {} for the plan and {} whole would have kept 95 % of the waits of {} later jobs within {} and {}; they would have been delayed by {} and {} on average, and {} would have been slower than the SLO.",
        gpus(plan.gpus),
        format::count(u64::from(whole.gpus)),
        format::count(replayed.later_jobs as u64),
        wait(plan.later.p95_wait_s),
        wait(whole.later.p95_wait_s),
        format::duration(plan.later.mean_delay_s),
        format::duration(whole.later.mean_delay_s),
        format::percent(plan.later.over_slo)
    ))
}

fn basis(of: SpeedBasis) -> &'static str {
    match of {
        SpeedBasis::Whole => "the whole GPU",
        SpeedBasis::Measured => "measured",
        SpeedBasis::Forecast => "forecast",
        SpeedBasis::Unknown => "nothing",
    }
}
