//! The answer of `simulate --share` as a report.
//!
//! O(policies). Worked example: a 0.9-quantile slowdown of 1.38 beside an SLO of 1.5 is shown as 1.38, and the policy is named among those within the SLO.

use tracecast_analytics::report::{Cell, Report, Section, format};

use super::super::evidence::known_pairs;
use super::super::policy::SharingPolicy;
use super::super::setting::SharingCandidate;
use super::{SharedReplayAnswer, SharedReplayOutcome, groups};
use crate::one_gpu::{LEAST_NAMED, USUAL_WAIT_MS, mostly_drawn};
use crate::plan::tell;

impl SharedReplayAnswer {
    /// The answer as a report.
    pub fn report(&self) -> Report {
        let scored = match &self.eval_from {
            Some(from) => format!(
                "{} that were submitted from {from} on and ended, of {} replayed",
                format::counted(self.scored_jobs as u64, "job", "jobs"),
                format::count(self.jobs as u64)
            ),
            None => format!(
                "{} that ended, of {} replayed",
                format::counted(self.scored_jobs as u64, "job", "jobs"),
                format::count(self.jobs as u64)
            ),
        };
        let mut report = Report::new(
            format!("What does sharing GPUs do to these jobs? {}", self.title),
            format!("{scored}, on {} of type {}", format::counted(u64::from(self.gpus), "GPU", "GPUs"), self.gpu_type),
        );
        report.notes.clone_from(&self.notes);
        report.summary = self.summary();
        report.sections.push(self.policies_section());
        report.sections.extend(self.lead().map(|lead| self.groups_section(lead)));
        if !self.chosen.is_empty() {
            report.sections.push(self.chosen_section());
        }
        report
    }

    fn summary(&self) -> Vec<String> {
        let ends = [SharingPolicy::Exclusive, SharingPolicy::Oracle];
        let request: Vec<&SharedReplayOutcome> =
            self.policies.iter().filter(|of| of.is_asked() && !ends.contains(&of.policy)).collect();
        let mut said = Vec::new();
        let known_gpu_time = self.named_gpu_time + self.types_by_use.map_or(0.0, |by_use| by_use.gpu_time);
        if known_gpu_time < LEAST_NAMED {
            said.push(format!(
                "The types of {} are drawn, as their names are no job types of the table: this is of a mix that nobody runs. Name the job types with --types.",
                mostly_drawn(known_gpu_time, "these jobs")
            ));
        }
        said.extend(self.types_by_use.map(|by_use| by_use.finding()));
        let base = self.policies.first().map_or(0.0, |of| of.mean_jct_s);
        let told = |of: &SharedReplayOutcome| {
            format!(
                "{}, where nobody sharing has {} (change {}, 95 %, days drawn anew)",
                format::duration(of.mean_jct_s),
                format::duration(base),
                of.mean_jct_change_s.ends_as_durations()
            )
        };
        let slo = format::float(self.limits.slo, 2);
        let name = |of: &SharedReplayOutcome| of.how.name_of(of.policy);
        if request.is_empty() {
            return said;
        }
        let Some(lead) = self.lead() else {
            said.push("Under none of the ways that were named did a job share a GPU.".to_owned());
            return said;
        };
        let lost = |of: &SharedReplayOutcome| match of.lost_jobs {
            0 => "No job ends later than with nobody sharing.".to_owned(),
            many => {
                let whose = [groups::losers(&of.by_user, "user", "users"), groups::losers(&of.by_vc, "VC", "VCs")];
                let whose: Vec<String> = whose.into_iter().flatten().collect();
                format!(
                    "{} later than with nobody sharing, by {} on average{}.",
                    format::counted(many as u64, "job ends", "jobs end"),
                    format::duration(of.lost_s),
                    if whose.is_empty() { String::new() } else { format!("; they are of {}", whose.join(" and of ")) }
                )
            }
        };
        let leads = if request.len() == 1 {
            format!("With **{}** the mean time from submission to end is", name(lead))
        } else {
            let among = if self.keeps_slo(lead) { "Of the ways within the SLO the" } else { "The" };
            format!("{among} mean time from submission to end is shortest with **{}**:", name(lead))
        };
        said.push(format!("{leads} {}. {}", told(lead), lost(lead)));
        let shorter = self.sharing().filter(|of| !self.keeps_slo(of) && of.mean_jct_s < lead.mean_jct_s);
        if let Some(best) = shorter.min_by(|one, other| one.mean_jct_s.total_cmp(&other.mean_jct_s)) {
            said.push(format!(
                "Shorter still, but not within the SLO, is **{}**: {}, with {} that shared more than {slo} times as slow as alone.",
                name(best),
                format::duration(best.mean_jct_s),
                format::counted(best.over_slo_jobs as u64, "job", "jobs")
            ));
        }
        let kept: Vec<String> = self.sharing().filter(|of| self.keeps_slo(of)).map(name).collect();
        said.push(if kept.is_empty() {
            format!("No way to share that was named keeps the SLO of {slo} times as slow at the 0.9 quantile of the jobs that shared.")
        } else {
            format!("Within the SLO of {slo} times as slow, at the 0.9 quantile of the jobs that shared: {}.", kept.join("; "))
        });
        let alone = self.policies.first().map_or(0.0, |of| of.figures.p95_wait_s);
        if self.gpus_chosen && alone <= USUAL_WAIT_MS as f64 / 1e3 {
            said.push(format!(
                "On so many GPUs 95 % of the jobs wait {} at most with nobody sharing. Fewer, by --gpus, show what sharing is worth in a longer queue; `plan share couples` says how many it saves.",
                format::duration(alone)
            ));
        }
        if let Some(oracle) = self.policies.iter().find(|of| of.policy == SharingPolicy::Oracle) {
            said.push(format!("With the oracle, which knows the table, it is {}.", told(oracle)));
        }
        said
    }

    /// The ways that were named under which any job shared.
    fn sharing(&self) -> impl Iterator<Item = &SharedReplayOutcome> {
        let ends = [SharingPolicy::Exclusive, SharingPolicy::Oracle];
        self.policies.iter().filter(move |of| of.is_asked() && !ends.contains(&of.policy) && of.shared_jobs > 0)
    }

    /// Whether the jobs that shared are within the SLO, at the 0.9 quantile.
    fn keeps_slo(&self, of: &SharedReplayOutcome) -> bool {
        of.figures.slowdown90.is_some_and(|slowdown| slowdown <= self.limits.slo)
    }

    /// The way that is told first: of those under which any job shared the shortest mean time to end within the SLO, else of all; none if nobody shared.
    fn lead(&self) -> Option<&SharedReplayOutcome> {
        self.sharing().min_by(|one, other| {
            let broken = |of: &SharedReplayOutcome| !self.keeps_slo(of);
            broken(one).cmp(&broken(other)).then(one.mean_jct_s.total_cmp(&other.mean_jct_s))
        })
    }

    /// Whom the way that is told first helps, and whom it slows.
    fn groups_section(&self, lead: &SharedReplayOutcome) -> Section {
        let title = format!("Who is slowed, and who gains: {}", lead.how.name_of(lead.policy));
        let mut section = Section::new("groups", title);
        let by = [
            ("VC", "By VC", &lead.by_vc),
            ("User", "By user", &lead.by_user),
            ("Job type", "By job type", &lead.by_job_type),
        ];
        for (of, title, groups) in by {
            if groups.iter().any(|group| group.name.is_some())
                && let Some(table) = groups::table(of, title, groups)
            {
                section = section.with_table(table);
            }
        }
        let slowed: Vec<&str> =
            lead.by_vc.iter().filter(|of| of.slowed_s() > 0.0).filter_map(|of| of.name.as_deref()).collect();
        if !slowed.is_empty() {
            section = section
                .with_finding(format!("On average later than with nobody sharing: {}.", format::names(&slowed, 12)));
        }
        let all = lead.by_vc.iter().chain(&lead.by_user).chain(&lead.by_job_type);
        groups::definitions(all).into_iter().fold(section, Section::with_definition)
    }

    fn policies_section(&self) -> Section {
        let mut table = tell::table(
            format!(
                "{} on {}",
                format::counted(self.scored_jobs as u64, "job", "jobs"),
                format::counted(u64::from(self.gpus), "GPU", "GPUs")
            ),
            "Policy | #Mean wait | #Median wait | #95 % wait | #Mean time to end | Change, 95 % | #GPU-hours | #Jobs that shared | #Slowdown, mean | #Slowdown, 0.9 | #Over the SLO | #End later | #Failed for memory | #Paused hours | #Taken out",
        );
        for of in &self.policies {
            let change = &of.mean_jct_change_s;
            table.rows.push(vec![
                of.name().into(),
                Cell::Duration(of.figures.mean_wait_s),
                Cell::Duration(of.p50_wait_s),
                Cell::Duration(of.figures.p95_wait_s),
                Cell::Duration(of.mean_jct_s),
                change.ends_as_durations().into(),
                Cell::float(of.gpu_hours, 1),
                Cell::Int(of.shared_jobs as i64),
                Cell::opt(of.mean_slowdown, |slowdown| Cell::float(slowdown, 2)),
                Cell::opt(of.figures.slowdown90, |slowdown| Cell::float(slowdown, 2)),
                Cell::Int(of.over_slo_jobs as i64),
                Cell::Int(of.lost_jobs as i64),
                Cell::Int(of.figures.failed as i64),
                Cell::float(of.paused_h, 1),
                Cell::Int(of.figures.taken_out as i64),
            ]);
        }
        let mut section = Section::new("sharing", "Ways to share GPUs")
            .with_table(table)
            .with_definition("**Time to end**: from submission to end. **Slowdown**: time on a GPU over the run alone, of jobs that shared. **Over the SLO**: those of them that were slower than --slo allows. **End later**: than with nobody sharing, by more than 1 % of their run.")
            .with_definition("**GPU-hours**: for which these jobs held GPUs; each of two on a GPU has half of it.")
            .with_definition("**Failed for memory**: how often a job did not fit beside another. It fails as it is put there, so it loses no work; it pauses for 2 min (paused hours), and waits again. **Taken out**: how often a trial ended badly, and the newer job went back to the queue with what it had done.");
        if self.policies.iter().any(|of| {
            matches!(of.policy, SharingPolicy::Antman | SharingPolicy::SalusFair | SharingPolicy::SalusAttained)
        }) {
            section = section.with_definition("**AntMan** and **Salus** know beforehand whether two jobs fit, and a job waits on a GPU rather than in the queue: compare the time to end, and not the wait.");
        }
        if self.types_by_use.is_some() {
            section = section.with_definition("**Told the mean**, **told the truth**: the same policy, if of a job that no name tells the type it is told the type nearest to the mean of the jobs before, and the true one. Without either, it is told the type nearest to what was predicted when the job was submitted.");
        }
        section = section.with_definition("**Oracle**: it knows the table and keeps the SLO for every couple. A way that breaks it for some, or that waits for a better partner, may end sooner.");
        if let Some(measured) = self.measured {
            section = section.with_definition(format!(
                "Lucid, the mean forecast and the forecasts within the SLO see no measured speed of a couple that they decide on: {}.",
                known_pairs(measured)
            ));
        }
        section
    }

    fn chosen_section(&self) -> Section {
        let mut table = tell::table(SharingCandidate::TITLE, &format!("Policy | {}", SharingCandidate::COLUMNS));
        for choice in &self.chosen {
            let policy = || Cell::from(choice.policy.in_words());
            let rows =
                choice.candidates.iter().map(|of| std::iter::once(policy()).chain(of.cells()).collect::<Vec<Cell>>());
            table.rows.extend(rows);
        }
        let mut section = Section::new("chosen", "Thresholds, chosen on the earlier jobs").with_table(table);
        for choice in self.chosen.iter().filter(|choice| !choice.shares) {
            section = section.with_finding(format!(
                "{}: nobody sharing was best on the earlier jobs. It is shown as it was asked for, with a progress above {}.",
                choice.policy.in_words(),
                format::float(choice.least_progress, 2)
            ));
        }
        section
    }
}
