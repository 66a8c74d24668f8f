//! Whether a way to share holds when demand grows: what was tried, replayed on more work than there was.
//!
//! The earlier jobs are multiplied, or a team joins them, as [`growth`](crate::replay::growth) draws it: whole weeks of each user. In each draw every setup is held against nodes of
//! one's own and today under the same work, so the incentive is that of the grown demand. What it costs then is the mean over draws.
//!
//! ```text
//! on today's demand   what would be chosen without growth
//! under growth        what would be chosen if there were the draws alone
//! for both            allowed on today's demand and in every draw, and of those what costs least, half of it today and half under growth. This is chosen
//! ```
//!
//! Where nothing holds for both, what is chosen on today's demand stands. The later jobs, which test the choice, are those of the record.
//!
//! O(draws × setups) replays. Worked number: of two draws with costs of 0.4 and 0.6, the second wronging a VC, a setup that costs 0.3 today costs (0.3 + 0.5) / 2 = 0.4 for both, and is not allowed.

use super::journal::SearchRun;
use super::measure::{EarlierOutcome, WINDOWS};
use super::objective::Objective;
use super::setup::{Ground, Setup};
use super::trial::{Known, Trial};
use crate::error::{Error, Result};
use crate::plan::interval::average;
use crate::replay::growth::{Growth, OverDraws, work_of};
use crate::sim::{Policy, Workload};

/// Chooses one of what was tried, by position.
type Pick<'p> = dyn Fn(&[Known]) -> usize + 'p;

/// Outcome of a setup over draws of more work.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupGrown {
    /// Each draw.
    draws: Vec<EarlierOutcome>,
}

impl SetupGrown {
    /// Draws in which it may be chosen.
    pub fn allowed_draws(&self) -> usize {
        self.draws.iter().filter(|of| of.is_allowed()).count()
    }

    /// Whether it may be chosen in each draw.
    pub fn is_allowed(&self) -> bool {
        self.allowed_draws() == self.draws.len()
    }

    /// VCs that the incentive was broken for in some draw, by position.
    pub fn wronged(&self) -> Vec<usize> {
        let mut result: Vec<usize> = self.draws.iter().flat_map(|of| of.wronged.iter().copied()).collect();
        result.sort_unstable();
        result.dedup();
        result
    }

    /// A figure of it over draws.
    pub fn over(&self, figure: impl Fn(&EarlierOutcome) -> f64) -> Option<OverDraws> {
        OverDraws::new(&self.draws.iter().map(figure).collect::<Vec<f64>>())
    }

    /// All draws as one outcome: allowed if it is in each.
    fn as_one(&self) -> Option<EarlierOutcome> {
        let window = |at: usize| -> Option<f64> {
            let costs: Option<Vec<f64>> = self.draws.iter().map(|of| of.by_window.get(at).copied()).collect();
            costs.map(|costs| average(costs.into_iter()))
        };
        Some(EarlierOutcome {
            waits: self.draws.first()?.waits,
            cost: average(self.draws.iter().map(|of| of.cost)),
            by_window: (0..WINDOWS).filter_map(window).collect(),
            wronged: self.wronged(),
            complete: self.draws.iter().all(|of| of.complete),
        })
    }
}

/// Effect of more work.
#[derive(Debug, Clone, PartialEq)]
pub struct GrownSetups {
    /// GPU time asked for, over that of the earlier jobs.
    pub gpu_time_ratio: OverDraws,
    /// The setups that were tried, in that order.
    pub of: Vec<SetupGrown>,
    /// Position of what would be chosen without growth.
    pub of_today: usize,
    /// Position of what would be chosen under growth alone; `None` if nothing is allowed in every draw.
    pub of_growth: Option<usize>,
    /// Position of what holds for both, which is chosen; `None` if nothing does.
    pub of_both: Option<usize>,
}

impl GrownSetups {
    /// Replays all that was tried on draws of more work. `pick` chooses one of what was tried, as without growth.
    ///
    /// # Errors
    /// If no job asks for GPU time, a team is like nobody, or a policy does not go with the jobs.
    pub(super) fn new(
        growth: &Growth,
        (known, split_ms): (&Workload, i64),
        (ground, today, objective): (Ground<'_>, &Policy, &Objective),
        (tried, pick): (&[Known], &Pick<'_>),
        run: SearchRun<'_>,
    ) -> Result<Self> {
        work_of(known)?;
        let setups: Vec<Setup> = tried.iter().map(|(setup, ..)| setup.clone()).collect();
        let (of, request) = over_draws(growth, (known, split_ms), (ground, today, objective), &setups, run)?;
        let gpu_time_ratio = OverDraws::of_gpu_time(known, request)?;
        let with = |outcome: &dyn Fn(&EarlierOutcome, EarlierOutcome) -> EarlierOutcome| -> Option<usize> {
            let each = tried
                .iter()
                .zip(&of)
                .map(|((setup, round, now), of)| Some((setup.clone(), *round, outcome(now, of.as_one()?))));
            let all: Vec<Known> = each.collect::<Option<_>>()?;
            Some(pick(&all)).filter(|at| all.get(*at).is_some_and(|(_, _, of)| of.is_allowed()))
        };
        let (of_growth, of_both) = (with(&|_, grown| grown), with(&both));
        Ok(Self { gpu_time_ratio, of_today: pick(tried), of_growth, of_both, of })
    }

    /// Outcomes of some setups under the same draws: as it is known of those that have a position
    /// among what was tried, by replays of the others.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub(super) fn of_each(
        &self,
        growth: &Growth,
        jobs: (&Workload, i64),
        with: (Ground<'_>, &Policy, &Objective),
        setups: &[(Setup, Option<usize>)],
        run: SearchRun<'_>,
    ) -> Result<Vec<SetupGrown>> {
        let known = |at: &Option<usize>| at.and_then(|at| self.of.get(at)).cloned();
        let others = setups.iter().filter(|(_, at)| known(at).is_none());
        let others: Vec<Setup> = others.map(|(setup, _)| setup.clone()).collect();
        let mut result = over_draws(growth, jobs, with, &others, run)?.0.into_iter();
        let all: Option<Vec<SetupGrown>> = setups.iter().map(|(_, at)| known(at).or_else(|| result.next())).collect();
        all.ok_or_else(|| Error::defect("a setup was not replayed under growth".to_owned()))
    }
}

/// Replays setups on each draw of more work; and what each draw asks for, GPU-seconds.
fn over_draws(
    growth: &Growth,
    (known, split_ms): (&Workload, i64),
    with: (Ground<'_>, &Policy, &Objective),
    setups: &[Setup],
    run: SearchRun<'_>,
) -> Result<(Vec<SetupGrown>, Vec<f64>)> {
    let (mut of, mut request) = (vec![SetupGrown { draws: Vec::new() }; setups.len()], Vec::new());
    if setups.is_empty() {
        return Ok((of, request));
    }
    for draw in 0..growth.draws() {
        let grown = growth.jobs(known, with.0.cluster, draw)?;
        request.push(grown.asked_gpu_s());
        let name = format!("draw {draw} of {growth:?}");
        let trial = Trial::new((name, (0, split_ms)), &grown, with, run)?;
        for ((_, _, outcome), of) in trial.judge(setups.to_vec(), 0)?.into_iter().zip(&mut of) {
            of.draws.push(outcome);
        }
    }
    Ok((of, request))
}

/// Today's demand and the grown one, half and half.
fn both(now: &EarlierOutcome, grown: EarlierOutcome) -> EarlierOutcome {
    let mut wronged: Vec<usize> = now.wronged.iter().copied().chain(grown.wronged).collect();
    wronged.sort_unstable();
    wronged.dedup();
    EarlierOutcome {
        waits: now.waits,
        cost: f64::midpoint(now.cost, grown.cost),
        by_window: now.by_window.iter().zip(&grown.by_window).map(|(now, grown)| f64::midpoint(*now, *grown)).collect(),
        wronged,
        complete: now.complete && grown.complete,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::search::QueuesRequest;
    use super::super::search::search;
    use super::super::search::tests::{request, uneven};
    use super::super::share::Sharing;
    use super::*;
    use crate::queues::objective::JobWaits;

    fn outcome(cost: f64, wronged: &[usize]) -> EarlierOutcome {
        let (by_window, wronged) = (vec![cost; WINDOWS], wronged.to_vec());
        EarlierOutcome { waits: JobWaits::NONE, cost, by_window, wronged, complete: true }
    }

    #[test]
    fn the_worked_number() {
        let grown = SetupGrown { draws: vec![outcome(0.4, &[]), outcome(0.6, &[1])] };
        let of = both(&outcome(0.3, &[]), grown.as_one().unwrap());
        assert!((of.cost - 0.4).abs() < 1e-12 && (of.mean_cost() - 0.4).abs() < 1e-12);
        assert_eq!((of.is_allowed(), grown.allowed_draws(), grown.wronged()), (false, 1, vec![1]));
    }

    #[test]
    fn what_holds_for_both_is_chosen() {
        let loaded = uneven(300);
        let growth = Growth::new(1.3, Vec::new(), 3, 1).unwrap();
        let asked = QueuesRequest { growth: Some(growth), ..request(None) };
        let result = search(&loaded, &asked, SearchRun::default()).unwrap();
        let grown = result.grown.as_ref().unwrap();
        assert!((grown.gpu_time_ratio.mean - 1.3).abs() < 0.05, "{:?}", grown.gpu_time_ratio);
        let without = search(&loaded, &request(None), SearchRun::default()).unwrap();
        assert_eq!(grown.of_today, without.best);
        assert_eq!(grown.of_both, Some(result.chosen));
        let chosen = &result.tried[result.chosen];
        assert!(chosen.is_allowed() && grown.of[result.chosen].allowed_draws() == 3);
        // What is left of the plan without one of its changes is held against the same draws, also where it was not tried before.
        assert!(!result.ablated.is_empty() && without.ablated.iter().all(|of| of.grown.is_none()));
        for of in &result.ablated {
            let left = of.grown.as_ref().unwrap();
            assert_eq!((left.draws.len(), of.is_allowed()), (3, of.without.is_allowed() && left.allowed_draws() == 3));
            if let Some(at) = result.tried.iter().position(|tried| tried.setup == of.without.setup) {
                assert_eq!(left, &grown.of[at]);
            }
        }
        // Nodes of one's own, which today are, wrong nobody under any work.
        assert_eq!((result.tried[0].setup.sharing, grown.of[0].allowed_draws()), (Sharing::AsToday, 3));
        // More work makes today's jobs wait longer.
        let mean = grown.of[0].over(|of| of.waits.merit.mean_wait_s).unwrap().mean;
        assert!(mean > result.tried[0].earlier.waits.merit.mean_wait_s);
    }
}
