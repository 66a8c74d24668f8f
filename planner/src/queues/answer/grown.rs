//! What more work would do to the ways to share, as data and in words.
//!
//! O(candidates). Worked example: of five draws a way wrongs a VC in one, so it is "allowed in 4 of 5".

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, ReportTable, Section, format};

use super::super::grown::GrownSetups;
use super::{QueuesAnswer, QueuesCandidate};
use crate::replay::growth::team::Team;
use crate::replay::growth::{Growth, OverDraws, drawn_phrase, phrase};

/// A way to share under more work, on the earlier jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GrownCandidate {
    /// Position of this setup among the candidates.
    pub candidate: u64,
    /// Mean wait, seconds.
    pub mean_wait_s: OverDraws,
    /// 95 % quantile of the wait, seconds.
    pub p95_wait_s: OverDraws,
    /// Cost by the objective; today's way costs 1 under this work.
    pub cost: OverDraws,
    /// Draws in which it may be chosen: it wrongs no VC, and runs every job that today's way runs.
    pub allowed_draws: u64,
    /// VCs that wait longer than on nodes of their own in some draw.
    pub wronged: Vec<String>,
}

impl GrownCandidate {
    /// In how many draws it may be chosen, and whom it wrongs in the others.
    pub(super) fn in_draws(&self, draws: u64) -> String {
        let wrongs = super::alike::in_short(&self.wronged).map_or_else(String::new, |who| format!(", wrongs {who}"));
        format!("{} of {draws}{wrongs}", self.allowed_draws)
    }
}

/// Effect of more work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuesUnderGrowth {
    /// Factor on the work; 1 if only teams joined.
    pub factor: f64,
    /// Teams that joined.
    pub teams: Vec<Team>,
    /// Draws.
    pub draws: u64,
    /// GPU time asked for, over that of the earlier jobs; teams included.
    pub gpu_time_ratio: OverDraws,
    /// The cluster as it is.
    pub today: GrownCandidate,
    /// What would be chosen on today's demand alone.
    pub of_todays_demand: GrownCandidate,
    /// What would be chosen under growth alone; none if no way is allowed in every draw.
    pub of_growth: Option<GrownCandidate>,
    /// What holds for both, which is chosen; none if nothing does, and what is best on today's demand stands.
    pub of_both: Option<GrownCandidate>,
    /// Every candidate, in the order of `candidates`.
    pub ways: Vec<GrownCandidate>,
}

impl QueuesUnderGrowth {
    pub(super) fn new(growth: &Growth, result: &GrownSetups, name: &dyn Fn(usize) -> String) -> Option<Self> {
        let candidate = |at: usize| -> Option<GrownCandidate> {
            let of = result.of.get(at)?;
            Some(GrownCandidate {
                candidate: at as u64,
                mean_wait_s: of.over(|of| of.waits.merit.mean_wait_s)?,
                p95_wait_s: of.over(|of| of.waits.merit.p95_wait_s)?,
                cost: of.over(|of| of.cost)?,
                allowed_draws: of.allowed_draws() as u64,
                wronged: of.wronged().into_iter().map(name).collect(),
            })
        };
        Some(Self {
            factor: growth.factor(),
            teams: growth.teams().to_vec(),
            draws: growth.draws(),
            gpu_time_ratio: result.gpu_time_ratio,
            today: candidate(0)?,
            of_todays_demand: candidate(result.of_today)?,
            of_growth: result.of_growth.and_then(candidate),
            of_both: result.of_both.and_then(candidate),
            ways: (0..result.of.len()).map(candidate).collect::<Option<_>>()?,
        })
    }
}

/// The candidate, as it is on today's demand.
fn candidate<'a>(answer: &'a QueuesAnswer, of: &GrownCandidate) -> Option<&'a QueuesCandidate> {
    answer.body.candidates.get(usize::try_from(of.candidate).ok()?)
}

/// What a candidate is, in words.
fn way(answer: &QueuesAnswer, of: &GrownCandidate) -> String {
    candidate(answer, of).map_or_else(String::new, |of| format!("{} ({})", super::alike::nodes(of), of.order))
}

/// Whether the plan holds when demand grows, in a sentence or two.
pub(super) fn when_grown(answer: &QueuesAnswer) -> Vec<String> {
    let Some(grown) = &answer.body.growth else { return Vec::new() };
    let now = &grown.of_todays_demand;
    let holds = if now.allowed_draws == grown.draws {
        "would still wrong no VC in any draw".to_owned()
    } else {
        let kept = format!("would be allowed in {} of {} draws", now.allowed_draws, grown.draws);
        if now.wronged.is_empty() { kept } else { format!("{kept}, and wrong {}", now.wronged.join(", ")) }
    };
    let lead = format!(
        "{}, what is best on today's demand, {}, {holds}: the earlier jobs would wait {} on average ({} to {}), as the cluster is {}.",
        phrase(grown.factor, &grown.teams),
        way(answer, now),
        format::duration(now.mean_wait_s.mean),
        format::duration(now.mean_wait_s.low),
        format::duration(now.mean_wait_s.high),
        format::duration(grown.today.mean_wait_s.mean)
    );
    let same = |of: &Option<GrownCandidate>| of.as_ref().is_some_and(|of| of.candidate == now.candidate);
    let both = match &grown.of_both {
        None => "**No way to share holds for both demands**; the plan goes by today's.".to_owned(),
        Some(_) if same(&grown.of_both) && same(&grown.of_growth) => {
            "Under growth alone the same would be chosen.".to_owned()
        }
        Some(_) if same(&grown.of_both) => "It is what holds for both demands, and the plan.".to_owned(),
        Some(of) => {
            let price = candidate(answer, of).zip(candidate(answer, now)).map_or_else(String::new, |(plan, best)| {
                    format!(
                        " Until demand grows that has its price: the earlier jobs wait {} on average with it and {} at the 95 % quantile, with what is best on today's demand {} and {}.",
                        format::duration(plan.earlier.mean_wait_s),
                        format::duration(plan.earlier.p95_wait_s),
                        format::duration(best.earlier.mean_wait_s),
                        format::duration(best.earlier.p95_wait_s)
                    )
                });
            format!("**The plan is what holds for both demands**: {}.{price}", way(answer, of))
        }
    };
    vec![lead, both]
}

/// The ways that growth is about.
pub(super) fn growth_section(answer: &QueuesAnswer) -> Option<Section> {
    let grown = answer.body.growth.as_ref()?;
    let mut table = ReportTable::new(
        "The earlier jobs, with more work",
        vec![
            Column::text("Chosen for"),
            Column::text("How"),
            Column::number("Mean now"),
            Column::number("Mean then"),
            Column::text("95 % interval"),
            Column::number("95 % quantile then"),
            Column::text("Allowed in draws"),
        ],
    );
    let rows = [
        ("as today", Some(&grown.today)),
        ("today's demand", Some(&grown.of_todays_demand)),
        ("the grown demand", grown.of_growth.as_ref()),
        ("both", grown.of_both.as_ref()),
    ];
    for (what, of) in rows {
        let Some(of) = of else { continue };
        let now = candidate(answer, of);
        table.rows.push(vec![
            what.into(),
            way(answer, of).into(),
            Cell::opt(now, |now| Cell::Duration(now.earlier.mean_wait_s)),
            Cell::Duration(of.mean_wait_s.mean),
            format!("{} to {}", format::duration(of.mean_wait_s.low), format::duration(of.mean_wait_s.high)).into(),
            Cell::Duration(of.p95_wait_s.mean),
            format!("{} of {}", of.allowed_draws, grown.draws).into(),
        ]);
    }
    let mut section = Section::new("queues-growth", "If demand grows").with_table(table).with_definition(
            "In each draw a way is compared with nodes of one's own and the cluster as it is, under the same work. The interval is of the mean over draws.",
        );
    for team in &grown.teams {
        section = section.with_definition(team.definition());
    }
    Some(section.with_coverage(format!("{}.", drawn_phrase(grown.draws, &grown.gpu_time_ratio))))
}
