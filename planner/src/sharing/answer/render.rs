//! The answer of `plan share couples` as a report.
//!
//! O(policies + job types). Worked example: 0.9-quantile slowdown 1.38 beside an SLO of 1.5 is shown as 1.38.

use tracecast_analytics::report::{Cell, Report, Section, format};

use tracecast_predictors::interference::share::in_words;

use super::super::evidence::known_pairs;
use super::super::policy::SharingPolicy;
use super::super::setting::SharingCandidate;
use super::super::study::{HowSet, SharingTried};
use super::super::way::WaysCompared;
use super::{SharingPlan, SharingPlanAnswer};
use crate::plan::emit::own::left_in_words;
use crate::plan::tell;

/// Couples and job types that a table shows.
const MOST_ROWS: usize = 30;

/// The answer as a report.
pub fn report(answer: &SharingPlanAnswer) -> Report {
    let (trial, body) = (&answer.trial, &answer.body);
    let subtitle = format!(
        "chosen on jobs before {}, tested on those from then on; {}",
        trial.eval_from,
        known_pairs(trial.measured)
    );
    // What the leading plan gives comes first.
    let leading = body.leading();
    let mut said = body.plans.get(leading).map(SharingPlan::summary).unwrap_or_default();
    said.extend(left_in_words(&body.not_in_patch));
    said.extend(trial.ways.iter().map(WaysCompared::finding));
    let mut sections: Vec<Section> = trial.ways.iter().map(WaysCompared::section).collect();
    for (at, plan) in body.plans.iter().enumerate() {
        // Of each other plan that is followed, the answer tells no assurance.
        let sure = plan.recommendation.iter().filter(|_| at != leading);
        let sure = sure.map(|of| format!("{}: confidence {}. {}", plan.gpu_type, of.confidence.in_words(), of.risk));
        // What to do is told first, but for what is not followed beside what is.
        let is_told = plan.is_followed() == (answer.is_advised());
        said.extend((!is_told).then(|| plan.action.clone()));
        said.extend(plan.summary().into_iter().filter(|_| at != leading).chain(sure));
        sections.extend([plan.tested_section(trial.measured), plan.chosen_section(), plan.to_set()]);
    }
    tell::report(answer, ("Which jobs should share GPUs?", subtitle), said, sections)
}

impl SharingPlan {
    fn id(&self, part: &str) -> String {
        let slug = crate::plan::slug::slug(&self.gpu_type).unwrap_or_else(|| "gpu".to_owned());
        format!("sharing-{part}-{slug}")
    }

    fn summary(&self) -> Vec<String> {
        let mut said = Vec::new();
        let told = |what: &str, of: &SharingTried| {
            format!(
                "{}, {what}: the mean delay of the later jobs changes by {}, the mean wait by {}; {} of the jobs share, with a 0.9-quantile slowdown of {}, and {} end later.{}",
                self.gpu_type,
                of.mean_delay_change_s.as_durations(),
                format::duration_change(of.mean_wait_change_s.value),
                format::percent(of.later.shared),
                of.later.slowdown90.map_or_else(|| "none".to_owned(), |slowdown| format::float(slowdown, 2)),
                format::percent(of.lost),
                of.gpus_instead.map_or_else(String::new, |gpus| format!(
                    " {} GPUs give the 95 % wait of {} that nobody shares.",
                    format::count(u64::from(gpus)),
                    format::count(u64::from(self.gpus))
                ))
            )
        };
        let of_rule = |how: HowSet| self.of(self.rule, how).filter(|rule| rule.couples > 0);
        if let Some(rule) = of_rule(HowSet::OneClass) {
            said.push(told("the rule in one class, as Slurm can be set", rule));
        }
        if let Some(rule) = of_rule(HowSet::OwnGpus) {
            said.push(told("the rule with GPUs of its own for each class, as Kubernetes needs it", rule));
        }
        if self.is_followed() && !self.why_not_on_own_gpus.is_empty() {
            said.push(format!(
                "**Share nothing in Kubernetes**, where each class needs GPUs of its own: {}.",
                self.why_not_on_own_gpus
            ));
        }
        if let Some(oracle) = self.of(SharingPolicy::Oracle, HowSet::Free) {
            said.push(told("the oracle", oracle));
        }
        if let Some(mean) = self.of(SharingPolicy::MeanForecast, HowSet::Free) {
            said.push(told("packing by the mean forecast", mean));
        }
        said
    }

    fn tested_section(&self, measured: usize) -> Section {
        let mut table = tell::table(
            format!("{} later jobs on {} {} GPUs", format::count(self.later_jobs as u64), self.gpus, self.gpu_type),
            "Policy | #Couples | #Of these kept | #Mean wait | #95 % wait | #Mean delay | Change, 95 % | #Jobs that share | #Slowdown, 0.9 | #Over the SLO | #End later | #Failed | #Taken out | #GPUs instead",
        );
        for tried in &self.tried {
            table.rows.push(vec![
                tried.how.name_of(tried.policy).into(),
                Cell::Int(tried.couples as i64),
                Cell::Int(tried.couples_kept as i64),
                Cell::Duration(tried.later.mean_wait_s),
                Cell::Duration(tried.later.p95_wait_s),
                Cell::Duration(tried.later.mean_delay_s),
                tried.mean_delay_change_s.ends_as_durations().into(),
                Cell::share(tried.later.shared),
                Cell::opt(tried.later.slowdown90, |slowdown| Cell::float(slowdown, 2)),
                Cell::share(tried.later.over_slo),
                Cell::share(tried.lost),
                Cell::Int(tried.later.failed as i64),
                Cell::Int(tried.later.taken_out as i64),
                Cell::opt(tried.gpus_instead, |gpus| Cell::Int(i64::from(gpus))),
            ]);
        }
        let mut kinds = tell::table(
            "Job types, under the rule in one class as it was tested",
            "Job type | #Later jobs | #Mean delay alone | #As planned | #Slowdown, 0.9",
        );
        let mut order: Vec<_> = self.by_job_type.iter().collect();
        // Who loses most comes first.
        order.sort_by(|a, b| {
            (b.planned_delay_s - b.exclusive_delay_s)
                .total_cmp(&(a.planned_delay_s - a.exclusive_delay_s))
                .then(a.job_type.cmp(&b.job_type))
        });
        for of in order.iter().take(MOST_ROWS) {
            kinds.rows.push(vec![
                of.job_type.as_str().into(),
                Cell::Int(of.jobs as i64),
                Cell::Duration(of.exclusive_delay_s),
                Cell::Duration(of.planned_delay_s),
                Cell::opt(of.slowdown90, |slowdown| Cell::float(slowdown, 2)),
            ]);
        }
        Section::new(self.id("tested"), format!("{}: what sharing does to later jobs", self.gpu_type))
            .with_table(table)
            .with_table(kinds)
            .with_definition("**Kept**: couples that were measured to fit, to make more than one alone, and to stay within the SLO.")
            .with_definition("**Delay**: from submission to end, less the run alone. **Slowdown**: time on a GPU over the run, of jobs that shared. **End later**: than with nobody sharing, by more than 1 % of their run.")
            .with_definition(self.divided())
            .with_definition("**GPUs instead**: with so many, the 95 % wait is that of nobody sharing on all.")
            .with_definition("**In one class**: as Slurm can be set; jobs of the class may share any GPU, and all others take whole ones. Whether to follow the plan goes by that row. **On GPUs of their own**: as Kubernetes needs it, where a class cannot use what others leave idle. That nodes are whole is not replayed.")
            .with_definition(format!(
                "Of all policies but the oracle, {}. Gandiva, AntMan and the rule that takes out see speeds while jobs run. AntMan and Salus know beforehand whether two jobs fit.",
                known_pairs(measured)
            ))
            .with_definition("**AntMan**: who was first on a GPU keeps 95 % of its speed, and the other has what is left. **Salus**: in turns, each alone, so measured speeds have no part. Under both a job waits on a GPU rather than in the queue: compare the delay, and neither the wait nor the GPUs instead.")
    }

    /// How the GPUs were divided among the classes that were tested.
    fn divided(&self) -> String {
        let gpus = self.of(self.rule, HowSet::OwnGpus).map_or(&[][..], |tried| &tried.class_gpus);
        match gpus.split_last() {
            Some((others, classes)) if !classes.is_empty() => {
                let classes: Vec<String> = classes.iter().map(u32::to_string).collect();
                format!(
                    "Where classes have GPUs of their own, {} are of the {} and {others} of all other jobs.",
                    format::names(&classes, 12),
                    if classes.len() == 1 { "class" } else { "classes" }
                )
            }
            _ => "No class has GPUs of its own.".to_owned(),
        }
    }

    fn chosen_section(&self) -> Section {
        let mut table = tell::table(SharingCandidate::TITLE, SharingCandidate::COLUMNS);
        table.rows.extend(self.candidates.iter().map(SharingCandidate::cells));
        Section::new(self.id("chosen"), format!("{}: what was chosen from", self.gpu_type)).with_table(table)
    }

    fn to_set(&self) -> Section {
        let mut classes = tell::table(
            "Classes from now on",
            "Class | #Share of GPU time | #Own GPUs | In Slurm | #Slowdown, 0.9 | Job types",
        );
        for of in &self.classes {
            classes.rows.push(vec![
                of.name.as_str().into(),
                Cell::share(of.gpu_time),
                Cell::opt((!self.on_own_gpus().is_empty()).then_some(of.gpus), |gpus| Cell::Int(i64::from(gpus))),
                if of.on_all_gpus { "any GPU" } else { "" }.into(),
                Cell::float(of.slowdown90, 2),
                of.job_types.join(", ").into(),
            ]);
        }
        let (told, title) = if self.is_followed() {
            (&self.couples, "Couples that may share from now on, the best first")
        } else {
            (&self.not_advised, "Couples that would share, the best first: not advised")
        };
        let mut couples = tell::table(
            title,
            "Job type | Beside | #Progress | #Slowdown, 0.9 | #Does not fit | Within the limits | Rests on",
        );
        let mut order: Vec<_> = told.iter().collect();
        order.sort_by(|a, b| b.expected_progress.total_cmp(&a.expected_progress));
        for of in order.iter().take(MOST_ROWS) {
            couples.rows.push(vec![
                of.job_a.as_str().into(),
                of.job_b.as_str().into(),
                Cell::float(of.expected_progress, 2),
                of.slowdown90.map_or("no bound".into(), |slowdown| Cell::float(slowdown, 2)),
                Cell::share(of.out_of_memory),
                in_words(&of.broken).into(),
                of.basis.in_words().into(),
            ]);
        }
        let section = Section::new(self.id("set"), format!("{}: what to set from now on", self.gpu_type));
        let counted = format::counted(told.len() as u64, "couple", "couples");
        let shown = order.len().min(MOST_ROWS);
        if self.is_followed() {
            let coverage = format!("{counted} may share; {shown} are shown.");
            return section.with_coverage(coverage).with_table(classes).with_table(couples);
        }
        let section = section.with_finding(self.action.clone());
        if told.is_empty() {
            return section;
        }
        section
            .with_coverage(if told.iter().all(|of| of.refused.is_some()) {
                format!("No couple keeps the limits; the {shown} that come nearest are shown.")
            } else {
                format!("{counted} would share by these forecasts; {shown} are shown.")
            })
            .with_table(couples)
            .with_definition("**Not advised**: nothing is set for these couples. They say who would share with whom, by a model of all measured pairs, and how slow the worse of the two would be.")
    }
}
