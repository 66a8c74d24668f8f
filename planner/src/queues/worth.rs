//! What predicted run times are worth to the plan of queues.
//!
//! The way that is advised is replayed with the later jobs predicted by the naive rule, by the model,
//! and by their recorded runs. Where it goes by no run times, it is replayed with the shortest job
//! first, which is what predictions would be for.
//!
//! O(replays of a way). Worked number: with the shortest first, jobs wait 10 min by the last two runs,
//! 8 min by a model and 5 min with runs known: the model closes 40 % of the gap.

use super::search::{QueuesRequest, SearchOutcome};
use super::setup::{Ground, Knobs, Setup};
use super::share::Shares;
use super::trial::times;
use crate::error::{Error, Result};
use crate::plan::forecast::Forecasting;
use crate::plan::forecast::runs::{ChosenRuns, RunDrivers};
use crate::plan::window;
use crate::replay::input::Loaded;
use crate::sim::{Estimate, Order, Policy, Workload};

/// The policy with the shortest job first, by predictions.
fn shortest_first(policy: &Policy) -> Policy {
    Policy { order: Order::Sjf, estimate: Estimate::Predicted, ..policy.clone() }
}

/// Chooses the predictions to use by the waits of the jobs before the split, on today's nodes with
/// the shortest job first.
///
/// # Errors
/// Errors of [`crate::sim::simulate`].
pub fn choose_runs(loaded: &mut Loaded, drivers: RunDrivers, request: &QueuesRequest) -> Result<ChosenRuns> {
    let workload = &loaded.workload;
    let split_ms = window::split_ms(&workload.submit_ms, workload.origin_ms, request.eval_from_ms);
    drivers.choose(loaded, &shortest_first(&request.today), split_ms)
}

/// The worth of predicted runs on the later jobs.
pub(super) fn forecasting(
    loaded: &Loaded,
    today: &Policy,
    result: &SearchOutcome,
    runs: &ChosenRuns,
) -> Result<Forecasting> {
    let at = if result.is_followed { result.chosen } else { 0 };
    let advised = result.tried.get(at).ok_or_else(|| Error::defect("what is advised was not tried".to_owned()))?;
    let setup = &advised.setup;
    let known = loaded.known_at(result.split_ms);
    let estimate = Knobs::new(&known, &loaded.cluster, today).estimate();
    let sorts_by_runs = setup.short.is_some() && estimate == Estimate::Predicted;
    let goes_by_runs = setup.policy.goes_by_predictions() || sorts_by_runs;
    let (metric, reference) = match goes_by_runs {
        true => ("mean wait of the later jobs", setup.clone()),
        false => (
            "mean wait of the later jobs if the shortest were served first",
            Setup { policy: shortest_first(&setup.policy), ..setup.clone() },
        ),
    };
    let shares = Shares::new(&loaded.cluster)?;
    let ground = Ground { cluster: &loaded.cluster, shares: &shares, asked: &result.asked_gpu_s, estimate };
    let replay = |workload: &Workload| {
        let times = times(&ground, &reference, workload, &[])?;
        Ok((0..workload.len()).map(|job| times.wait_ms(job)).collect())
    };
    runs.worth(metric, goes_by_runs, (&loaded.workload, result.split_ms), &replay)
}
