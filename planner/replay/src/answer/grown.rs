//! The section on more (or less) work: each policy as it is and as it would be.

use tracecast_analytics::report::{Cell, Column, Question, ReportTable, Section, format};

use super::Answer;
use crate::growth::{GrownReplay, GrowthAnswer, OverDraws, drawn_phrase, phrase};

impl Answer {
    /// Returns the section on more work, if that was replayed.
    pub(super) fn growth_section(&self) -> Option<Section> {
        let growth = self.growth.as_ref()?;
        let mut table = ReportTable::new(
            phrase(growth.factor, &growth.teams),
            vec![
                Column::text("Policy"),
                Column::number("Mean wait now"),
                Column::number("Mean wait then"),
                Column::number("95 % interval of that"),
                Column::number("Wait, 95 % quantile, now"),
                Column::number("Wait, 95 % quantile, then"),
                Column::number("GPUs in use now"),
                Column::number("GPUs in use then"),
            ],
        );
        for policy in &growth.policies {
            let mean = |over: Option<OverDraws>| over.map(|over| over.mean);
            table.rows.push(vec![
                policy.name.as_str().into(),
                Cell::opt(policy.mean_wait_now_s, Cell::Duration),
                Cell::opt(mean(policy.mean_wait_s), Cell::Duration),
                Cell::opt(policy.mean_wait_s, |over| interval(over).into()),
                Cell::opt(policy.p95_wait_now_s, Cell::Duration),
                Cell::opt(mean(policy.p95_wait_s), Cell::Duration),
                Cell::opt(policy.utilisation_now, Cell::Percent),
                Cell::opt(mean(policy.utilisation), Cell::Percent),
            ]);
        }
        let mut section = Section::new("growth", "What more work would do")
            .answering(Question::Wait)
            .with_finding(sentences(growth).join(" "))
            .with_table(table)
            .with_definition(
                "The work of each user is repeated or left out in whole weeks, so that habits stay; each draw chooses other weeks. What ran or \
                 waited at the beginning stays as it is. The cluster and the policies are the same.",
            );
        for team in &growth.teams {
            section = section.with_definition(team.definition());
        }
        let jobs = growth.jobs_ratio;
        let weeks = match growth.whole_weeks {
            0 => " The record holds no whole week, so jobs are drawn one by one.",
            1 => " The record holds one whole week, so further copies stand on the originals.",
            _ => "",
        };
        Some(section.with_coverage(format!(
            "{} and {} times the jobs.{weeks} The interval is of the mean over draws; \
             where single draws differ much, ask for more of them (--draws).",
            drawn_phrase(growth.draws, &growth.gpu_time_ratio),
            format::float(jobs.mean, 3),
        )))
    }
}

fn interval(over: OverDraws) -> String {
    format!("{} to {}", format::duration(over.low), format::duration(over.high))
}

/// Each policy, in a sentence.
pub(super) fn sentences(growth: &GrowthAnswer) -> Vec<String> {
    let lead = phrase(growth.factor, &growth.teams);
    let told = |policy: &GrownReplay| {
        let (now, then) = (policy.mean_wait_now_s?, policy.mean_wait_s?);
        let mean = format!(
            "{lead}, the mean wait under {} would be **{}** ({}) rather than {}.",
            policy.name,
            format::duration(then.mean),
            interval(then),
            format::duration(now)
        );
        let (Some(others), Some(teams)) = (policy.mean_wait_of_others_s, policy.mean_wait_of_teams_s) else {
            return Some(mean);
        };
        Some(format!(
            "{mean} All others would wait {} ({}), and the jobs that join {}.",
            format::duration(others.mean),
            interval(others),
            format::duration(teams.mean)
        ))
    };
    let unfinished = || format!("{lead}, jobs do not all end.");
    growth.policies.iter().map(|policy| told(policy).unwrap_or_else(unfinished)).collect()
}
