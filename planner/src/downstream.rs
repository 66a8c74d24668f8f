//! What a prediction is worth: waits in the simulator when jobs are ordered by it, beside orders that need none and the oracle's.
//!
//! The **gap** is from the mean wait of the fewest GPUs first to that of QSSF on true durations; an order closes the share
//! (fewest − its wait) / (fewest − oracle) of it. QSSF alone lets long jobs starve: its 95 % quantile of waits rises above FIFO's. **Aged** orders
//! serve the job with the least
//!
//! ```text
//! τ · ln(expected GPU-seconds) + submission in seconds
//! ```
//!
//! first: a job e times as long goes as if submitted τ seconds later, so no job is overtaken by one submitted more than τ ln(longest / shortest)
//! after it. τ = 0 is FIFO, τ → ∞ is QSSF; in between lies the frontier of mean wait against its 95 % quantile. The key does not change while
//! the job waits, so a scheduler can compute it once, at submission (Slurm: the site factor, with the age weight as 1/τ).
//!
//! An order by **jobs alike** ([`Order::Alike`]) knows more the longer a job waits: the runs of those of the same VC, user and GPUs that were submitted at about the same time and have ended meanwhile. Its τ is a share of
//! the longest wait in the pool at the moment, so that one share serves short and long queues.
//!
//! A τ or a share is **chosen beforehand** where an earlier replay is there ([`Downstream::with_choice_from`]): of these orders whose 95 % quantile was no longer than FIFO's there, the one
//! with the least mean wait, and of that the next smaller τ; FIFO if none was better than that. The best of many that were just short enough owes some of that to chance, and the smaller τ
//! overtakes less. Worked example: τ of 1, 2 and 4 h had mean waits of 40, 30 and 20 min and tails of 0.96, 0.99 and 1.05 of FIFO's. Of those that were short enough 2 h waited least, so 1 h is chosen.
//!
//! **γ-boost** (arXiv 2404.08826) needs no choice: it serves the job with the least submission − b first, with b from what the past says of the queue.
//!
//! Worked example: τ = 1 h. A job of 1 GPU × 100 s submitted at 0:30 has 3600 × 4.61 + 1800 = 18,379; one of 8 GPUs × 1,000 s submitted at 0:00
//! has 3600 × 8.99 = 32,354 and goes behind it until small jobs come that were submitted after 4:23.

mod gamma_boost;

use serde::Serialize;
use tracecast_analytics::stats::rank;
use tracecast_predictors::duration::backtest::Track;
use tracecast_predictors::timeline::Timeline;

use crate::error::Result;
use crate::replay::compare::IntervalEstimate;
use crate::replay::compare::mean::MeanWaits;
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::replay::metric::{JobTimes, evaluate};
use crate::replay::nearest::with_nearest;
use crate::sim::cluster::Cluster;
use crate::sim::schedule::Schedule;
use crate::sim::workload::Workload;
use crate::sim::{Compat, Estimate, Order, Policy, Preemption, Scan, simulate};

/// τ tried, seconds.
pub const AGEING_S: [f64; 10] =
    [900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 14_400.0, 21_600.0, 28_800.0, 43_200.0, 86_400.0];

/// Shares of the longest wait tried.
pub const SHARES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Seed of the bootstrap.
const SEED: u64 = 1;

/// Name of the order of submission.
pub(crate) const FIFO: &str = "FIFO";

/// What the order of the least GPU time first is called where it knows true durations.
pub(crate) const ORACLE: &str = "QSSF, true durations (oracle)";

/// What the order is called that needs no prediction and serves small jobs first.
pub(crate) const FEWEST: &str = "fewest GPUs first";

/// What is known of the length of a job: how it enters the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Measure")]
pub enum LengthMeasure {
    /// e to the predicted mean log run.
    Point,
    /// The predicted median.
    Median,
    /// The mean of the predicted distribution.
    Mean,
    /// The mean of the predicted distribution, cut off at a day.
    MeanWithinDay,
    /// The 80 % quantile.
    Upper,
    /// The quantile that ordered earlier jobs best: what is handed out as `predicted_duration_s`.
    Ranked,
}

impl LengthMeasure {
    const ALL: [Self; 6] = [Self::Point, Self::Median, Self::Mean, Self::MeanWithinDay, Self::Upper, Self::Ranked];

    /// The level of a quantile that is always the same.
    pub(crate) fn level(self) -> Option<f64> {
        match self {
            Self::Median => Some(0.5),
            Self::Upper => Some(0.8),
            Self::Point | Self::Mean | Self::MeanWithinDay | Self::Ranked => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Point => "mean of logs",
            Self::Median => "median",
            Self::Mean => "mean",
            Self::MeanWithinDay => "mean within a day",
            Self::Upper => "80 % quantile",
            Self::Ranked => "quantile chosen on earlier jobs",
        }
    }

    fn of(self, track: &Track, at: usize, ranked_at: f64) -> Option<f64> {
        let said = track.said.get(at).copied().flatten()?;
        let Some(distribution) = track.distributions.get(at).copied().flatten() else { return Some(said.point.exp()) };
        Some(match self {
            Self::Point => said.point.exp(),
            Self::Mean => distribution.mean_s(),
            Self::MeanWithinDay => distribution.expected_within_s(86_400.0),
            Self::Median | Self::Upper | Self::Ranked => distribution.quantile_s(self.level().unwrap_or(ranked_at)),
        })
    }
}

/// How jobs wait under an order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct QueueOutcome {
    /// Order.
    pub order: String,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of waits, seconds.
    pub p95_wait_s: f64,
    /// Mean wait less FIFO's, seconds, job by job, with its 95 % interval over days drawn anew; below 0 where jobs wait less. Of the jobs that finish under FIFO; `None` where one of them does not.
    pub beside_fifo_s: Option<IntervalEstimate>,
    /// Mean wait less that of the fewest GPUs first, which needs no prediction, seconds, with its
    /// 95 % interval.
    pub beside_fewest_s: Option<IntervalEstimate>,
    /// Share closed of the gap from the fewest GPUs first to the oracle; `None` where there is no gap.
    pub gap_closed: Option<f64>,
    /// 95 % quantile of waits over FIFO's; `None` where that is 0.
    pub p95_of_fifo: Option<f64>,
    /// Model whose predictions it used.
    pub model: Option<String>,
    /// Statistic of its distribution that orders jobs.
    pub measure: Option<LengthMeasure>,
    /// τ of an aged order, seconds.
    pub ageing_s: Option<f64>,
    /// τ of an order by jobs alike, as a share of the longest wait in the pool.
    pub ageing_share: Option<f64>,
    /// Whether it was chosen on an earlier replay.
    pub chosen_before: bool,
    /// Result on that earlier replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Whether it knew the true durations.
    #[serde(skip)]
    pub oracle: bool,
    /// Whether it stops running jobs.
    #[serde(skip)]
    pub preempts: bool,
}

/// What an order did on an earlier replay, where one was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Before {
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
    /// 95 % quantile of waits over FIFO's there; `None` where that is 0.
    pub p95_of_fifo: Option<f64>,
}

/// Orders beside each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Downstream {
    /// Jobs replayed.
    pub jobs: usize,
    /// Replayed jobs that had a prediction.
    pub predicted: usize,
    /// Pools of nodes.
    pub pools: usize,
    /// Pools whose past gives a γ for γ-boost; in the others it is FIFO.
    pub pools_with_gamma: usize,
    /// How well FIFO, as it is replayed here, meets the recorded starts: whether the queue is one like the recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// Mean wait of FIFO on the nodes of the record, seconds, where these are known and the orders are replayed on others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fifo_on_record_s: Option<f64>,
    /// FIFO, fewest GPUs first, QSSF on true durations; QSSF on each model; orders that age.
    pub outcomes: Vec<QueueOutcome>,
}

impl QueueOutcome {
    /// Whether it ages, by predictions.
    pub(crate) fn is_aged(&self) -> bool {
        self.model.is_some() && self.ages()
    }

    /// Whether it is the same order, with the same τ.
    fn is_as(&self, other: &Self) -> bool {
        (&self.order, self.ageing_s, self.ageing_share) == (&other.order, other.ageing_s, other.ageing_share)
    }

    /// τ, seconds or a share; 0 where it does not age.
    pub(crate) fn tau(&self) -> f64 {
        self.ageing_s.or(self.ageing_share).unwrap_or(0.0)
    }

    /// Whether it ages.
    pub(crate) fn ages(&self) -> bool {
        self.ageing_s.is_some() || self.ageing_share.is_some()
    }
}

impl Downstream {
    /// The order of this name.
    pub(crate) fn called(&self, order: &str) -> Option<&QueueOutcome> {
        self.outcomes.iter().find(|outcome| outcome.order == order)
    }

    /// The order that was chosen on an earlier replay; FIFO, where none that ages was.
    pub(crate) fn chosen(&self) -> Option<&QueueOutcome> {
        self.outcomes.iter().find(|outcome| outcome.chosen_before)
    }

    /// Marks the order that ages and was best in an `earlier` replay and no longer in the tail than FIFO there, with the next smaller τ; FIFO, if none was. Nothing, if none was tried there.
    #[must_use]
    pub fn with_choice_from(mut self, earlier: &Self) -> Self {
        let tried = || earlier.outcomes.iter().filter(|outcome| outcome.is_aged());
        if tried().next().is_none() {
            return self;
        }
        // Fewest GPUs first may be better than all: what is not chosen is FIFO, so that is what an order has to beat.
        let fifo = earlier.called(FIFO).map_or(f64::INFINITY, |fifo| fifo.mean_wait_s);
        let safe = tried().filter(|outcome| outcome.p95_of_fifo.is_some_and(|tail| tail <= 1.0));
        let best = safe
            .filter(|outcome| outcome.mean_wait_s < fifo)
            .min_by(|a, b| a.mean_wait_s.total_cmp(&b.mean_wait_s))
            .map(|outcome| earlier.stepped_back(outcome));
        for outcome in &mut self.outcomes {
            outcome.chosen_before = best.map_or(outcome.order == FIFO, |best| outcome.is_as(best));
            outcome.before = earlier
                .outcomes
                .iter()
                .find(|there| outcome.is_as(there))
                .map(|there| Before { mean_wait_s: there.mean_wait_s, p95_of_fifo: there.p95_of_fifo });
        }
        self
    }

    /// Returns the order with the next smaller τ; itself, if it has the smallest.
    fn stepped_back<'a>(&'a self, from: &'a QueueOutcome) -> &'a QueueOutcome {
        let smaller = self.outcomes.iter().filter(|outcome| outcome.order == from.order && outcome.tau() < from.tau());
        smaller.max_by(|a, b| a.tau().total_cmp(&b.tau())).unwrap_or(from)
    }
}

/// How well FIFO meets the record, with all else as `policy` says, on the nodes of the record where it has them, and the scan that would have met it; with the mean wait of FIFO there, seconds, if these are not the nodes of the replay.
///
/// # Errors
/// Errors of [`simulate`].
pub fn fidelity(loaded: &Loaded, policy: &Policy) -> Result<(Fidelity, Option<f64>)> {
    let Loaded { workload, cluster, recorded_cluster, recorded_start_ms, given, .. } = loaded;
    let policy = Policy { order: Order::Fifo, estimate: Estimate::True, ..policy.clone() };
    let before = recorded_cluster.as_ref().filter(|_| policy.compat == Compat::None);
    let nodes = before.unwrap_or(cluster);
    let schedule = simulate(workload, nodes, &policy)?;
    let fidelity = Fidelity::new(workload, &schedule, recorded_start_ms)?;
    let fidelity = with_nearest(fidelity, (workload, nodes), &policy, recorded_start_ms)?;
    let fidelity = match given.as_ref().filter(|_| before.is_none()) {
        Some(given) => fidelity.on_given(given),
        None => fidelity,
    };
    let on_record = before.map(|own| waited((workload, own), &schedule)).transpose()?;
    Ok((fidelity, on_record.map(|waited| waited.mean_s)))
}

/// Replays the jobs of `loaded` under each order, and leaves its columns of scores and predictions empty; `policy` says all but the order, and `ranked_at` the level of [`LengthMeasure::Ranked`]. Jobs
/// that ran longer than `longest_s` are not among them.
///
/// # Errors
/// Errors of [`simulate`].
pub fn run(
    loaded: &mut Loaded,
    timeline: &Timeline,
    tracks: &[Track],
    ranked_at: f64,
    policy: &Policy,
    longest_s: Option<f64>,
) -> Result<Downstream> {
    let rows: std::collections::HashMap<u32, usize> =
        timeline.jobs.iter().enumerate().map(|(at, job)| (job.row, at)).collect();
    let places: Vec<Option<usize>> = loaded.rows.iter().map(|row| rows.get(row).copied()).collect();
    let plain = |order: Order, estimate: Estimate| Policy { order, estimate, ..policy.clone() };
    // The Helios simulator does not know these.
    let by_alike =
        |share: f64, estimate: Estimate| Policy { compat: Compat::None, ..plain(Order::Alike(share), estimate) };
    let mut outcomes = Vec::new();
    let fifo = waits(loaded, &plain(Order::Fifo, Estimate::True))?;
    let fewest = waits(loaded, &plain(Order::FewestGpus, Estimate::True))?;
    let oracle = waits(loaded, &plain(Order::Qssf, Estimate::True))?;
    let means = MeanWaits::new(&loaded.workload, &fifo.times, SEED);
    let [of_fifo, of_fewest] = [&fifo, &fewest].map(|of| means.under(&of.times));
    let outcome = |order: String, waited: &Waited, ageing_s: Option<f64>| {
        let of = means.under(&waited.times);
        QueueOutcome {
            order,
            mean_wait_s: waited.mean_s,
            p95_wait_s: waited.p95_s,
            beside_fifo_s: of.as_ref().zip(of_fifo.as_ref()).and_then(|(of, fifo)| of.less(fifo)),
            beside_fewest_s: of.as_ref().zip(of_fewest.as_ref()).and_then(|(of, fewest)| of.less(fewest)),
            gap_closed: (fewest.mean_s > oracle.mean_s)
                .then(|| (fewest.mean_s - waited.mean_s) / (fewest.mean_s - oracle.mean_s)),
            p95_of_fifo: (fifo.p95_s > 0.0).then(|| waited.p95_s / fifo.p95_s),
            ageing_s,
            ..QueueOutcome::default()
        }
    };
    outcomes.push(outcome(FIFO.to_owned(), &fifo, None));
    outcomes.push(outcome(FEWEST.to_owned(), &fewest, None));
    outcomes.push(QueueOutcome { oracle: true, ..outcome(ORACLE.to_owned(), &oracle, None) });
    let mut predicted = 0;
    // Where none is learned, the simple models have all orders too.
    let any_is_learned = tracks.iter().any(Track::is_learned);
    let with_all_orders = |track: &Track| track.is_learned() || !any_is_learned;
    for track in tracks {
        let calibrated = with_all_orders(track);
        let measures: &[LengthMeasure] = if calibrated { &LengthMeasure::ALL } else { &[LengthMeasure::Point] };
        for measure in measures {
            let estimates: Vec<Option<f64>> =
                places.iter().map(|place| measure.of(track, (*place)?, ranked_at)).collect();
            predicted = predicted.max(estimates.iter().flatten().count());
            loaded.workload.predicted_s.clone_from(&estimates);
            let result = waits(loaded, &plain(Order::Qssf, Estimate::Predicted))?;
            let (model, measure_used) = (Some(track.name.clone()), Some(*measure));
            let plain_order = outcome(format!("QSSF, {}, {}", track.name, measure.name()), &result, None);
            outcomes.push(QueueOutcome { model: model.clone(), measure: measure_used, ..plain_order });
            if !calibrated {
                continue;
            }
            for ageing_s in AGEING_S {
                age(loaded, &estimates, ageing_s);
                let result = waits(loaded, &plain(Order::Score, Estimate::True))?;
                let name = format!("aged, {}, {}", track.name, measure.name());
                let aged = outcome(name, &result, Some(ageing_s));
                outcomes.push(QueueOutcome { model: model.clone(), measure: measure_used, ..aged });
            }
            loaded.workload.predicted_s = filled(&estimates).map(Some).collect();
            for share in SHARES {
                let result = waits(loaded, &by_alike(share, Estimate::Predicted))?;
                let alike = outcome(format!("by jobs alike, {}, {}", track.name, measure.name()), &result, None);
                let ageing_share = Some(share);
                outcomes.push(QueueOutcome { model: model.clone(), measure: measure_used, ageing_share, ..alike });
            }
        }
    }
    let paces = gamma_boost::paces(loaded, timeline, longest_s);
    // Where no pool has a γ, γ-boost is FIFO.
    let with_pace = paces.iter().flatten().count();
    for track in tracks.iter().filter(|track| with_pace > 0 && with_all_orders(track)) {
        let runs = |job: usize| -> Option<Vec<f64>> {
            let distribution = track.distributions.get((*places.get(job)?)?).copied().flatten()?;
            Some(gamma_boost::LEVELS.map(|level| distribution.quantile_s(level)).to_vec())
        };
        loaded.workload.score = gamma_boost::scores(loaded, &paces, runs);
        let result = waits(loaded, &plain(Order::Score, Estimate::True))?;
        let boosted = outcome(format!("γ-boost, {}", track.name), &result, None);
        outcomes.push(QueueOutcome { model: Some(track.name.clone()), ..boosted });
    }
    if with_pace > 0 {
        let truth = |job: usize| loaded.workload.run_ms.get(job).map(|run| vec![*run as f64 / 1000.0]);
        let scores = gamma_boost::scores(loaded, &paces, truth);
        loaded.workload.score = scores;
        let result = waits(loaded, &plain(Order::Score, Estimate::True))?;
        let name = "γ-boost, true durations (oracle)".to_owned();
        outcomes.push(QueueOutcome { oracle: true, ..outcome(name, &result, None) });
    }
    // Preemption is another kind of cluster, so it stands apart: the least predicted time left first. The Helios simulator knows no predicted time left, so these are not its rules.
    let preemption = Preemption::HELIOS;
    let least_left =
        Policy { preemption, scan: Scan::Skip, compat: Compat::None, ..plain(Order::Srtf, Estimate::True) };
    for track in tracks.iter().filter(|track| with_all_orders(track)) {
        loaded.workload.predicted_s =
            places.iter().map(|place| LengthMeasure::Ranked.of(track, (*place)?, ranked_at)).collect();
        let preempt = Policy { estimate: Estimate::Predicted, ..least_left.clone() };
        let result = waits(loaded, &preempt)?;
        let name = format!("preemptive, least left, {}", track.name);
        outcomes.push(QueueOutcome { preempts: true, ..outcome(name, &result, None) });
    }
    let name = "preemptive, least left, true durations (oracle)".to_owned();
    let result = waits(loaded, &least_left)?;
    outcomes.push(QueueOutcome { oracle: true, preempts: true, ..outcome(name, &result, None) });
    // What ageing costs with nothing left to predict.
    let truth: Vec<Option<f64>> = loaded.workload.run_ms.iter().map(|run| Some(*run as f64 / 1000.0)).collect();
    for ageing_s in AGEING_S {
        age(loaded, &truth, ageing_s);
        let result = waits(loaded, &plain(Order::Score, Estimate::True))?;
        let name = "aged, true durations (oracle)".to_owned();
        outcomes.push(QueueOutcome { oracle: true, ..outcome(name, &result, Some(ageing_s)) });
    }
    for share in SHARES {
        let result = waits(loaded, &by_alike(share, Estimate::True))?;
        let name = "by jobs alike, true durations (oracle)".to_owned();
        outcomes.push(QueueOutcome { oracle: true, ageing_share: Some(share), ..outcome(name, &result, None) });
    }
    loaded.workload.score.clear();
    loaded.workload.predicted_s.clear();
    Ok(Downstream {
        jobs: loaded.workload.len(),
        predicted,
        pools: paces.len(),
        pools_with_gamma: with_pace,
        fidelity: None,
        fifo_on_record_s: None,
        outcomes,
    })
}

/// Estimates, seconds; a job without one is taken to be as long as the median of the others.
fn filled(estimates: &[Option<f64>]) -> impl Iterator<Item = f64> {
    let mut known: Vec<f64> = estimates.iter().flatten().copied().collect();
    let usual = rank::upper(&mut known, 0.5).unwrap_or(1.0);
    estimates.iter().map(move |estimate| estimate.unwrap_or(usual))
}

/// Scores of the aged order.
fn age(loaded: &mut Loaded, estimates: &[Option<f64>], ageing_s: f64) {
    let workload = &mut loaded.workload;
    let score = |(at, estimate): (usize, f64)| {
        let gpus = workload.shape_of(at).as_gpus();
        let estimate = estimate.max(1.0);
        let submit_s = workload.submit_ms.get(at).copied().unwrap_or(0) as f64 / 1000.0;
        ageing_s * (estimate * gpus).ln() + submit_s
    };
    let score: Vec<f64> = filled(estimates).enumerate().map(score).collect();
    workload.score = score;
}

/// Waits under an order: their mean and 95 % quantile, seconds, and those of each job.
struct Waited {
    mean_s: f64,
    p95_s: f64,
    times: JobTimes,
}

fn waits(loaded: &Loaded, policy: &Policy) -> Result<Waited> {
    let Loaded { workload, cluster, .. } = loaded;
    waited((workload, cluster), &simulate(workload, cluster, policy)?)
}

fn waited((workload, cluster): (&Workload, &Cluster), schedule: &Schedule) -> Result<Waited> {
    let result = evaluate(workload, cluster, schedule, 0)?;
    let wait = result.metrics.overall.group.wait;
    let (mean_s, p95_s) = wait.map_or((f64::NAN, f64::NAN), |wait| (wait.mean_s, wait.p95_s));
    Ok(Waited { mean_s, p95_s, times: result.times })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIFO, and aged orders of a model: τ, gap closed, tail over FIFO's.
    fn downstream(aged: &[(f64, f64, f64)]) -> Downstream {
        let outcome = |order: &str, model: Option<&str>, ageing_s: Option<f64>, gap: f64, tail: f64| QueueOutcome {
            order: order.to_owned(),
            // From the fewest GPUs first to the oracle it is an hour.
            mean_wait_s: 7200.0 - 3600.0 * gap,
            gap_closed: Some(gap),
            p95_of_fifo: Some(tail),
            model: model.map(str::to_owned),
            ageing_s,
            ..QueueOutcome::default()
        };
        let mut outcomes = vec![outcome(FIFO, None, None, -0.1, 1.0)];
        outcomes.extend(aged.iter().map(|(tau, gap, tail)| outcome("aged", Some("m"), Some(*tau), *gap, *tail)));
        Downstream { outcomes, ..Downstream::default() }
    }

    #[test]
    fn an_order_is_chosen_on_the_earlier_replay_alone() {
        let later = || downstream(&[(1.0, 0.9, 1.0), (2.0, 0.1, 2.0), (3.0, 0.5, 1.0)]);
        let chosen = |earlier: &[(f64, f64, f64)]| -> Vec<Option<f64>> {
            let marked = later().with_choice_from(&downstream(earlier));
            marked.outcomes.iter().filter(|outcome| outcome.chosen_before).map(|outcome| outcome.ageing_s).collect()
        };
        // The second closed most of those no longer in the tail, however it does later, and the
        // first is a step back from it; the third closed more, with a longer tail.
        assert_eq!(chosen(&[(1.0, 0.2, 0.9), (2.0, 0.3, 1.0), (3.0, 0.6, 1.1)]), [Some(1.0)]);
        // There is nothing to step back to.
        assert_eq!(chosen(&[(1.0, 0.4, 0.9), (2.0, 0.3, 1.0), (3.0, 0.6, 1.1)]), [Some(1.0)]);
        // None was safe, so FIFO; none was tried, so nothing.
        assert_eq!(chosen(&[(1.0, 0.2, 1.2), (2.0, -0.3, 1.0)]), [None]);
        // Worse than the fewest GPUs first, and better than FIFO; what is smaller overtakes less, though it had a longer tail there.
        assert_eq!(chosen(&[(1.0, 0.2, 1.2), (2.0, -0.05, 1.2), (3.0, -0.05, 1.0)]), [Some(2.0)]);
        assert_eq!(chosen(&[]), Vec::new());
        // The choice goes by waits, also where there was no gap to close.
        let mut earlier = downstream(&[(1.0, 0.1, 0.9), (2.0, 0.3, 1.0)]);
        earlier.outcomes.iter_mut().for_each(|outcome| outcome.gap_closed = None);
        let marked = later().with_choice_from(&earlier);
        assert!(marked.outcomes.iter().any(|outcome| outcome.chosen_before && outcome.ageing_s == Some(1.0)));
        // What an order did there stands beside what it did later.
        let marked = later().with_choice_from(&downstream(&[(3.0, 0.6, 1.1)]));
        let before: Vec<Option<f64>> =
            marked.outcomes.iter().map(|outcome| outcome.before.and_then(|before| before.p95_of_fifo)).collect();
        assert_eq!(before, [Some(1.0), None, None, Some(1.1)]);
    }
}
