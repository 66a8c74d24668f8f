//! Setups tried on some jobs: replayed, and held against nodes of one's own and today.
//!
//! O(setups) replays, side by side. Worked number: of setups that cost 0.4, 0.3 and 0.3, the last of which wrongs a VC, the second is the [`least`].

use rayon::prelude::*;

use super::journal::SearchRun;
use super::measure::{EarlierOutcome, Times, Yardstick};
use super::objective::Objective;
use super::setup::{Ground, Setup};
use super::share::Sharing;
use super::told;
use crate::error::Result;
use crate::sim::{Policy, Workload};

/// By how much a setup has to cost less than a simpler one: as a share of that, and of today's waits.
pub(super) const MARGIN: (f64, f64) = (0.05, 0.01);

/// A setup, the round of the search that it came up in, and what it did to some jobs.
pub(super) type Known = (Setup, usize, EarlierOutcome);

/// Setups as they are tried on some jobs.
pub(super) struct Trial<'a> {
    /// Name of the jobs in a journal.
    jobs: String,
    workload: &'a Workload,
    /// Jobs that are told when they would start; none if nobody asks.
    told: Vec<usize>,
    pub(super) ground: Ground<'a>,
    pub(super) yardstick: Yardstick<'a>,
    run: SearchRun<'a>,
}

/// Replays a setup, and tells these jobs when they would start.
pub(super) fn times(ground: &Ground<'_>, setup: &Setup, workload: &Workload, told: &[usize]) -> Result<Times> {
    let scene = ground.scene(setup, workload)?;
    if told.is_empty() { Times::of(&scene) } else { Times::telling(&scene, ground.estimate, told) }
}

impl<'a> Trial<'a> {
    /// One on the jobs of a stretch of time.
    pub(super) fn new(
        (jobs, window): (String, (i64, i64)),
        workload: &'a Workload,
        (ground, today, objective): (Ground<'a>, &Policy, &Objective),
        run: SearchRun<'a>,
    ) -> Result<Self> {
        let told = told_of(workload, i64::MIN, objective);
        let private = Setup::new(Sharing::Private, today.clone());
        let as_today = Setup::new(Sharing::AsToday, today.clone());
        let yardstick = Yardstick::new(
            workload,
            (window, objective),
            (times(&ground, &private, workload, &[])?, &times(&ground, &as_today, workload, &told)?),
            ground.is_shared(),
        );
        run.watch.made();
        Ok(Self { jobs, workload, told, ground, yardstick, run })
    }

    /// Replays setups, those that no journal knows.
    pub(super) fn judge(&self, setups: Vec<Setup>, round: usize) -> Result<Vec<Known>> {
        let one = |setup: Setup| {
            let judged = self.run.outcome(&self.jobs, &setup, || {
                Ok(self.yardstick.judge(&times(&self.ground, &setup, self.workload, &self.told)?))
            })?;
            Ok((setup, round, judged))
        };
        let result: Result<Vec<Known>> = setups.into_par_iter().map(one).collect();
        self.run.sync()?;
        result
    }
}

/// Jobs submitted from `from` on that are told when they would start; none if the objective does not ask.
pub(super) fn told_of(workload: &Workload, from: i64, objective: &Objective) -> Vec<usize> {
    let uncounted = workload.uncounted();
    let request = |job: &usize| workload.submit_ms.get(*job) >= Some(&from) && !uncounted.contains(&(*job as u32));
    let jobs: Vec<usize> = (0..workload.len()).filter(request).collect();
    if objective.foretells() { told::sample(&jobs) } else { Vec::new() }
}

/// The position of the allowed setup that costs least; of equals the one with the shortest mean wait, then the first, which changes least; 0, today, if there is none.
pub(super) fn least<'k>(tried: impl Iterator<Item = &'k Known>, of: impl Fn(&EarlierOutcome) -> f64) -> usize {
    let allowed = tried.enumerate().filter(|(_, (_, _, earlier))| earlier.is_allowed());
    let mean = |of: &EarlierOutcome| of.waits.merit.mean_wait_s;
    let order = |a: &Known, b: &Known| of(&a.2).total_cmp(&of(&b.2)).then(mean(&a.2).total_cmp(&mean(&b.2)));
    allowed.min_by(|(_, a), (_, b)| order(a, b)).map_or(0, |(at, _)| at)
}

/// Whether what was tried is better than something simpler by more than chance gives.
pub(super) fn beats(of: &EarlierOutcome, simpler: &EarlierOutcome) -> bool {
    let (share, beyond) = MARGIN;
    let clearly = of.mean_cost() < simpler.mean_cost() - beyond.max(simpler.mean_cost() * share);
    let nowhere_worse =
        of.by_window.iter().zip(&simpler.by_window).all(|(of, simpler)| *of <= simpler * (1.0 + share) + beyond);
    of.is_allowed() && (!simpler.is_allowed() || (clearly && nowhere_worse))
}
